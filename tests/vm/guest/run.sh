#!/bin/sh
# Stands in for GitHub's runner program, and for the job that it would run: it says what it is and what it gets, a line each, and works on until it is
# ended. Where it says `got`, anything at all was got.
say() { printf 'job: %s=%s\n' "$1" "$2"; }

# tries NAME COMMAND…: whether the command yields anything.
tries() {
    name=$1
    shift
    if [ -n "$("$@" 2>/dev/null | head -c 64 | tr '\0' ' ')" ]; then say "$name" got; else say "$name" nothing; fi
}

of_status() { sed -n "s/^$1:[[:space:]]*//p" /proc/self/status; }

# of_agents FILE: of every process of the agent's that can be seen.
of_agents() {
    for process in /proc/[0-9]*; do
        [ "$(cat "$process/comm")" != motorpool-agent ] || head -c 64 "$process/$1"
    done
}

signal_agents() {
    for process in /proc/[0-9]*; do
        [ "$(cat "$process/comm")" != motorpool-agent ] || ! kill -0 "${process#/proc/}" || echo signalled
    done
}

metadata() { curl --silent --max-time 5 "$@"; }

say uid "$(id -u)"
say user "$(id -un)"
say no_new_privs "$(of_status NoNewPrivs)"
say capabilities "$(of_status CapEff)"
tries registration printenv ACTIONS_RUNNER_INPUT_JITCONFIG
say network "$(curl --silent --insecure --max-time 60 --output /dev/null --write-out '%{http_code}' '@@NETWORK@@')"
tries sudo sudo -n id
tries agent_state cat /var/lib/motorpool/state.json
tries agent_environment of_agents environ
tries agent_memory of_agents maps
tries agent_signalled signal_agents
tries launch_secret cat /run/motorpool/launch-secret
tries install_settings cat /run/motorpool/install.env
tries user_data_files sh -c 'cat /var/lib/cloud/instance/user-data.txt* /var/lib/cloud/instances/*/user-data.txt* /run/cloud-init/*sensitive*'
tries metadata metadata -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' http://169.254.169.254/latest/api/token
tries metadata_version_1 metadata http://169.254.169.254/latest/user-data
say files_with_secrets "$(grep -rlasE 'mp_(launch|runner)_[A-Za-z0-9_-]{20}' /etc /home /opt /root /run /srv /tmp /var | tr '\n' ' ')"
say end yes
while :; do sleep 5; done
