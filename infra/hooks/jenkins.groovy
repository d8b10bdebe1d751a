// For a shared library of Jenkins: vars/motorpoolCheckpoint.groovy. A pipeline wraps what it does on a machine of the pool in it:
//
//     node('macs') {
//         motorpoolCheckpoint {
//             checkout scm
//             sh 'make test'
//             archiveArtifacts 'reports/**'   // inside: afterwards the machine is cleaned
//         }
//     }
//
// It is for a pool with dispatch = "hook". Give the node one executor, and let Jenkins' agent be a service of its own: it must outlive the
// last step. Values go through the environment: none of them becomes part of a command. Where the agent is on its machines stands here, since a
// pipeline has a path of its own.
def call(Closure job) {
    def agent = '/usr/local/bin/motorpool-agent checkpoint'
    def socket = '--socket /run/motorpool/agent.sock'
    timeout(time: 15, unit: 'MINUTES') {
        waitUntil {
            sh(label: 'Motorpool: is this machine clean?', returnStatus: true, script: "${agent} ready ${socket}") == 0
        }
    }
    def checkpoint = sh(
        label: 'Motorpool: a checkpoint for this build',
        returnStdout: true,
        script: "${agent} create ${socket}" + ' --job-id "$BUILD_NUMBER" "--project=$JOB_NAME" "--caller=$NODE_NAME"'
    ).trim()
    def status = 'failure'
    try {
        job()
        status = currentBuild.currentResult == 'SUCCESS' ? 'success' : 'failure'
    } catch (org.jenkinsci.plugins.workflow.steps.FlowInterruptedException interrupted) {
        status = 'canceled'
        throw interrupted
    } finally {
        withEnv(["MOTORPOOL_CHECKPOINT=${checkpoint}", "MOTORPOOL_STATUS=${status}"]) {
            sh(
                label: 'Motorpool: how it ended',
                script: "${agent} finalize ${socket}" + ' --checkpoint "$MOTORPOOL_CHECKPOINT" --status "$MOTORPOOL_STATUS" --source hook'
            )
        }
    }
}
