#!/bin/sh
# as-job.sh COMMAND…: runs a command as the jobs' user, who can read neither the agent's token nor the instance's metadata.
# The environment stays: the CI system's token comes in it.
set -eu
# The agent's own is 0077, which is not for what jobs check out and pack into images.
umask 022
root=${MOTORPOOL_ROOT:-}
user=${MOTORPOOL_JOB_USER:-motorpool}
if [ -n "${MOTORPOOL_WORK_DIR:-}" ]; then
    chown -h "$user:" "$MOTORPOOL_WORK_DIR"
fi
HOME=$(getent passwd "$user" | cut -d : -f 6)
USER=$user LOGNAME=$user
export HOME USER LOGNAME
for_good=--no-new-privs
if [ -e "$root/etc/motorpool/jobs-may-sudo" ]; then
    for_good=
fi
exec setpriv --reuid "$user" --regid "$(id -g "$user")" --init-groups --inh-caps=-all $for_good -- "$@"
