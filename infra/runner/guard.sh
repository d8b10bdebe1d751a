#!/bin/sh
# Closes the instance metadata service to the jobs' user: it has the user data, and the credentials of a role if there is one.
# The agent asks it as root. Run before each start of the agent, since a reboot forgets it, and by the agent itself, which names its jobs'
# users: FIRST-LAST in MOTORPOOL_JOB_UIDS.
set -eu
uid=$(id -u "${MOTORPOOL_JOB_USER:-motorpool-job}" 2>/dev/null || true)
uids=${MOTORPOOL_JOB_UIDS:-${uid:+$uid-$uid}}
: "${uids:?there is no user for jobs}"

# close FAMILY ADDRESS. As a rule of the kernel's: systemd-networkd removes all others when it sets up a link.
close() {
    closed "$@" || ip "$1" rule add to "$2" uidrange "$uids" prohibit priority 10 protocol kernel ||
        # Another was quicker.
        closed "$@"
}

closed() {
    case $(ip "$1" rule show) in
    *"to $2 uidrange $uids prohibit"*) ;;
    *) return 1 ;;
    esac
}

close -4 169.254.169.254
if [ -e /proc/net/if_inet6 ]; then
    close -6 fd00:ec2::254
fi
