#!/bin/sh
# For GitHub's runner: ACTIONS_RUNNER_HOOK_JOB_STARTED=/usr/local/lib/motorpool/github-job-started.sh in its .env file. It runs before
# the job's first step; without a checkpoint the job fails here. GitHub tells it the run, the attempt and the runner's name, and not the
# job's own id. It runs once a job: so another job of the run, on the same machine, is another one (--once).
set -eu

# Where the agent is on this machine: change these two if yours is elsewhere. They are not taken from the environment, and nor is the path, since a
# job's own variables may be set before this script runs.
AGENT=/usr/local/bin/motorpool-agent
SOCKET=/run/motorpool/agent.sock
PATH=/usr/bin:/bin

: "${GITHUB_RUN_ID:?is not set: this is for jobs of GitHub}" "${RUNNER_TEMP:?is not set: this is for jobs of GitHub}"
set -- --once --job-id "$GITHUB_RUN_ID"
if [ -n "${GITHUB_REPOSITORY:-}" ]; then set -- "$@" "--project=$GITHUB_REPOSITORY"; fi
if [ -n "${GITHUB_RUN_ATTEMPT:-}" ]; then set -- "$@" "--attempt=$GITHUB_RUN_ATTEMPT"; fi
if [ -n "${RUNNER_NAME:-}" ]; then set -- "$@" "--caller=$RUNNER_NAME"; fi

checkpoint=$("$AGENT" checkpoint create --socket "$SOCKET" "$@") || {
    code=$?
    echo "motorpool: this machine has no checkpoint for run $GITHUB_RUN_ID, so the job does not begin (exit code $code)" >&2
    exit "$code"
}
# For github-job-completed.sh. GitHub empties this directory before each job, and after it.
printf '%s\n' "$checkpoint" >"$RUNNER_TEMP/motorpool-checkpoint"
echo "motorpool: checkpoint $checkpoint"
