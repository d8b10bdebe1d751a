#!/bin/sh
# For GitHub's runner: ACTIONS_RUNNER_HOOK_JOB_COMPLETED=/usr/local/lib/motorpool/github-job-completed.sh in its .env file.
#
# It runs after the job's last step and before the job is complete: who had the machine cleaned from here would clean it under the job. So
# what it leaves behind waits until the job's own process (the runner's worker, which starts this script) has ended, and speaks then. GitHub
# tells a hook nothing of how the job ended: it is told of as one that failed, and the machine is reset.
set -eu

# Where the agent is on this machine: change these two if yours is elsewhere. They are not taken from the environment, and nor is the path, since a
# job's own variables may be set before this script runs.
AGENT=/usr/local/bin/motorpool-agent
SOCKET=/run/motorpool/agent.sock
PATH=/usr/bin:/bin

: "${RUNNER_TEMP:?is not set: this is for jobs of GitHub}"
if ! checkpoint=$(cat "$RUNNER_TEMP/motorpool-checkpoint" 2>/dev/null) || [ -z "$checkpoint" ]; then
    echo "motorpool: this job has no checkpoint that this hook knows of; nothing is told" >&2
    exit 0
fi

# GitHub's runner kills what a job leaves behind by RUNNER_TRACKING_ID.
# shellcheck disable=SC2016 # the inner shell expands them
RUNNER_TRACKING_ID='' nohup sh -c '
    while kill -0 "$1" 2>/dev/null; do sleep 1; done
    exec "$3" checkpoint finalize --socket "$4" --checkpoint "$2" --status failure --source hook
' motorpool-finalize "$PPID" "$checkpoint" "$AGENT" "$SOCKET" </dev/null >/dev/null 2>&1 &
echo "motorpool: checkpoint $checkpoint ends with this job"
