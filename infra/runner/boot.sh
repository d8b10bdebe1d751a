#!/bin/sh
# The first boot: installs what the image lacks, and starts the agent. Whatever fails, the machine powers off, which on EC2
# terminates it: no machine without an agent is left running.
set -eu
root=${MOTORPOOL_ROOT:-}
systemctl=${MOTORPOOL_SYSTEMCTL:-systemctl}
console=${MOTORPOOL_CONSOLE:-/dev/console}

end() {
    code=$?
    trap - EXIT
    cat "$log" >&3
    if [ "$code" != 0 ]; then
        told="motorpool: this machine could not be made a runner, and powers off: $(tail -n 2 "$log")"
        echo "$told" >&3
        echo "$told" >"$console" || true
        $systemctl poweroff
    fi
    rm -f "$log"
    exit "$code"
}
log=$(mktemp)
trap end EXIT
exec 3>&2 2>"$log"

# shellcheck source=/dev/null
. "$root/run/motorpool/install.env"
export AGENT_URL AGENT_SHA256 RUNNER_URL RUNNER_SHA256
sh "$root/opt/motorpool/lib/install.sh"

# cloud-init keeps what it was given, and with it the launch secret.
for kept in user-data.txt user-data.txt.i cloud-config.txt obj.pkl; do
    rm -f "$root/var/lib/cloud/instance/$kept"
done
rm -f "$root/run/cloud-init/instance-data-sensitive.json" "$root/run/cloud-init/combined-cloud-config.json"

$systemctl daemon-reload
$systemctl enable motorpool-agent.service
# Not waited for: the unit powers the machine off if the agent does not come up.
$systemctl start --no-block motorpool-agent.service
