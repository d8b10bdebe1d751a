#!/bin/sh
# For GitLab's runner: pre_build_script = "/usr/local/lib/motorpool/gitlab-pre-build.sh" in its config.toml, with the shell executor.
# It runs before the job's own script, once for each step that has one: the same job again gets the same checkpoint. Without a
# checkpoint the job fails here, before its script; GitLab runs its after_script all the same. All values come from GitLab's variables.
set -eu

# Where the agent is on this machine: change these two if yours is elsewhere. They are not taken from the environment, and nor is the path, since a
# job's own variables may be set before this script runs.
AGENT=/usr/local/bin/motorpool-agent
SOCKET=/run/motorpool/agent.sock
PATH=/usr/bin:/bin

: "${CI_JOB_ID:?is not set: this is for jobs of GitLab}"
set -- --job-id "$CI_JOB_ID"
if [ -n "${CI_PROJECT_ID:-}" ]; then set -- "$@" "--project=$CI_PROJECT_ID"; fi
if [ -n "${CI_RUNNER_DESCRIPTION:-}" ]; then set -- "$@" "--caller=$CI_RUNNER_DESCRIPTION"; fi

checkpoint=$("$AGENT" checkpoint create --socket "$SOCKET" "$@") || {
    code=$?
    echo "motorpool: this machine has no checkpoint for job $CI_JOB_ID, so the job does not begin (exit code $code)" >&2
    exit "$code"
}
echo "motorpool: checkpoint $checkpoint"
