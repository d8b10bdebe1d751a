#!/bin/sh
# Closes the instance metadata service to the jobs' user: it has the user data, and the credentials of a role if there is one.
# The agent asks it as root. Run before each start of the agent, since a reboot forgets it, and of the runner program.
set -eu
uid=$(id -u "${MOTORPOOL_JOB_USER:-motorpool}")

# close FAMILY ADDRESS. As a rule of the kernel's: systemd-networkd removes all others when it sets up a link.
close() {
    ip "$1" rule show | grep -q "$2.*uidrange $uid-$uid.*prohibit" ||
        ip "$1" rule add to "$2" uidrange "$uid-$uid" prohibit priority 10 protocol kernel
}

close -4 169.254.169.254
if [ -e /proc/net/if_inet6 ]; then
    close -6 fd00:ec2::254
fi
