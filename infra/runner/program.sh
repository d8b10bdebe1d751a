#!/bin/sh
# program.sh NAME ARGUMENT…: starts the CI system's runner program as the jobs' user. GitHub's has its work beside itself: that lies
# in program/, where the agent's cleanup finds it, and what an earlier registration left is gone.
set -eu
root=${MOTORPOOL_ROOT:-}
user=${MOTORPOOL_JOB_USER:-motorpool}
home=$root/opt/motorpool
name=$1
shift
if [ "$name" = run.sh ]; then
    for dir in _work _diag; do
        rm -rf "$home/runner/$dir"
        mkdir -p "$home/program/$dir"
        chown "$user:" "$home/program/$dir"
        ln -s "$home/program/$dir" "$home/runner/$dir"
    done
    rm -f "$home/runner/.runner" "$home/runner/.credentials" "$home/runner/.credentials_rsaparams"
fi
exec "$home/lib/as-job.sh" "$home/runner/$name" "$@"
