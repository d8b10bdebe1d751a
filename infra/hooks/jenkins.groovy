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
// last step. Values go through the environment: none of them becomes part of a command.
def call(Closure job) {
    timeout(time: 15, unit: 'MINUTES') {
        waitUntil {
            sh(label: 'Motorpool: is this machine clean?', returnStatus: true, script: 'motorpool-agent checkpoint ready') == 0
        }
    }
    def checkpoint = sh(
        label: 'Motorpool: a checkpoint for this build',
        returnStdout: true,
        script: 'motorpool-agent checkpoint create --job-id "$BUILD_NUMBER" "--project=$JOB_NAME" "--caller=$NODE_NAME"'
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
                script: 'motorpool-agent checkpoint finalize --checkpoint "$MOTORPOOL_CHECKPOINT" --status "$MOTORPOOL_STATUS" --source hook'
            )
        }
    }
}
