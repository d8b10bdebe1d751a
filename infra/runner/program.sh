#!/bin/sh
# program.sh NAME ARGUMENT…: starts the CI system's runner program as the jobs' user, who must not reach the metadata service.
set -eu
root=${MOTORPOOL_ROOT:-}
user=${MOTORPOOL_JOB_USER:-motorpool}
home=$root/opt/motorpool
name=$1
shift
case $name in
run.sh)
    # GitHub's works beside itself, where no link may be: its actions compare paths. The agent's cleanup finds that through
    # program/. What an earlier registration left is gone.
    for dir in _work _diag; do
        rm -rf "$home/runner/$dir" "$home/program/$dir"
        ln -s "$home/runner/$dir" "$home/program/$dir"
    done
    rm -f "$home/runner/.runner" "$home/runner/.credentials" "$home/runner/.credentials_rsaparams"
    ;;
gitlab-runner)
    # The agent's own, with the token in it. What a run_cmd names stays whose it is.
    own=${MOTORPOOL_RUNNER_DIR:-}/gitlab-runner
    [ "${CONFIG_FILE:-}" != "$own/config.toml" ] || chown -h "$user:" "$own" "$CONFIG_FILE"
    ;;
esac
sh "$home/lib/guard.sh"
exec "$home/lib/as-job.sh" "$home/runner/$name" "$@"
