#!/bin/sh
# Closes the instance metadata service to the jobs' user: it has the user data, and the credentials of a role if there is one.
# The agent asks it as root. Run before each start of the agent, since a reboot forgets it.
set -eu
uid=$(id -u "${MOTORPOOL_JOB_USER:-motorpool}")

# close FAMILY ADDRESS
close() {
    while ip "$1" rule del to "$2" uidrange "$uid-$uid" prohibit priority 10 2>/dev/null; do :; done
    ip "$1" rule add to "$2" uidrange "$uid-$uid" prohibit priority 10
}

close -4 169.254.169.254/32
if [ -e /proc/net/if_inet6 ]; then
    close -6 fd00:ec2::254/128
fi
