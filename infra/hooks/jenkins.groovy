// For a shared library of Jenkins: vars/motorpoolCheckpoint.groovy. A pipeline uses it in the place of `node`:
//
//     motorpoolCheckpoint('macs') {
//         checkout scm
//         sh 'make test'
//         archiveArtifacts 'reports/**'   // inside: afterwards the machine is cleaned
//     }
//
// It is for a pool with dispatch = "hook". Give the node one executor, and let Jenkins' agent be a service of its own: it must outlive the last step.
//
// A machine that can take no job now is left at once, and the build comes again a little later: Motorpool cleans no machine whose node has a build,
// so who waited on the node until it is clean would wait for himself. What this can't promise is in docs/jenkins.md.
def call(String label, Closure job) {
    // Where the agent is on its machines stands here, since a pipeline has variables of its own. Values go through the environment: none of them becomes
    // part of a command.
    def agent = ['AGENT=/usr/local/bin/motorpool-agent', 'SOCKET=/run/motorpool/agent.sock']
    for (int tries = 0; tries < 60; tries++) {
        boolean ran = false
        node(label) {
            String checkpoint = begin(agent)
            if (checkpoint) {
                ran = true
                guarded(agent, checkpoint, job)
            }
        }
        if (ran) {
            return
        }
        // Here it has no executor.
        sleep(time: 15, unit: 'SECONDS')
    }
    error('motorpool: no machine could take this build in 60 tries')
}

// Nothing where the machine can take no job now.
String begin(List agent) {
    String said = ''
    withEnv(agent) {
        said = sh(label: 'Motorpool: a checkpoint for this build', returnStdout: true, script: '''
            code=0
            checkpoint=$("$AGENT" checkpoint create --socket "$SOCKET" --job-id "$BUILD_NUMBER" "--project=$JOB_NAME" "--caller=$NODE_NAME") || code=$?
            echo "$code $checkpoint"
        ''').trim()
    }
    List words = said.tokenize(' ')
    if (words[0] == '0') {
        return words[1]
    }
    // 1: another job has it, it is being cleaned, or nobody answered. 5: too soon.
    if (words[0] == '1' || words[0] == '5') {
        return null
    }
    error("motorpool: this machine has no checkpoint for this build (exit code ${words[0]})")
}

void guarded(List agent, String checkpoint, Closure job) {
    String status = 'failure'
    try {
        job()
        status = currentBuild.currentResult == 'SUCCESS' ? 'success' : 'failure'
    } catch (org.jenkinsci.plugins.workflow.steps.FlowInterruptedException interrupted) {
        status = 'canceled'
        throw interrupted
    } finally {
        withEnv(agent + ["CHECKPOINT=${checkpoint}".toString(), "STATUS=${status}".toString()]) {
            sh(label: 'Motorpool: how it ended', script: '''
                "$AGENT" checkpoint finalize --socket "$SOCKET" --checkpoint "$CHECKPOINT" --status "$STATUS" --source hook ||
                    echo 'motorpool: how it ended could not be told; the control plane asks Jenkins' >&2
            ''')
        }
    }
}
