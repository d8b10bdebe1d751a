# Run as root in a network namespace of its own, by user_data.rs. Makes a second one with a metadata service in it, and says who gets
# an answer.
set -u
imds=
server=
teller=
trap 'kill $server $imds $teller 2>/dev/null' EXIT
unshare --net sleep 300 &
imds=$!
# Only once it has left our namespace can the cable be laid.
until [ "$(readlink "/proc/$imds/ns/net")" != "$(readlink /proc/self/ns/net)" ]; do :; done
ip link set lo up
ip link add near type veth peer name far netns "$imds"
ip address add 10.9.9.1/24 dev near
ip link set near up
nsenter --target "$imds" --net sh -c '
    ip address add 10.9.9.2/24 dev far
    ip address add 169.254.169.254/32 dev far
    ip link set far up'
ip route add 169.254.169.254/32 via 10.9.9.2
nsenter --target "$imds" --net python3 -m http.server 80 --bind 169.254.169.254 >/dev/null 2>&1 &
server=$!

job() { sh "$MOTORPOOL_ROOT/opt/motorpool/lib/as-job.sh" "$@"; }
ask='curl --silent --max-time 10 --output /dev/null http://169.254.169.254/'
until $ask; do kill -0 "$server" || exit 1; done

job $ask && echo "before, a job got metadata"
# Twice, as after a restart of the agent.
sh "$GUARD" && sh "$GUARD"
$ask && echo "the agent got metadata"
job $ask || echo "a job got nothing"

home=$MOTORPOOL_ROOT/opt/motorpool
# An earlier job may have put something else in their place.
job ln -s /etc "$home/runner/_work"
# Somebody may have taken the rule away.
ip rule del priority 10
job $ask && echo "without the rule a job would get metadata"
"$home/program/run.sh" | sed -n '2s/^/the program runs as /p'
job $ask || echo "each start of the program closes it again"
job mkdir "$home/runner/_work" && [ "$(readlink "$home/program/_work")" = "$home/runner/_work" ] &&
    echo "its work is no link, and the agent finds it"
umask 077
job sh -c 'cd "$1" && touch made && find made -perm 0644' sh "$MOTORPOOL_WORK_DIR" | sed 's/^made$/others can read what a job makes/'

# As the agent does.
settings=$MOTORPOOL_ROOT/var/lib/motorpool/gitlab-runner
mkdir -m 700 "$settings"
mkfifo -m 600 "$settings/config.toml"
(echo "only the program reads its settings" >"$settings/config.toml") >/dev/null 2>&1 &
teller=$!
printf '#!/bin/sh\ncat "$CONFIG_FILE"\n' >"$home/runner/gitlab-runner"
chmod 0755 "$home/runner/gitlab-runner"
MOTORPOOL_RUNNER_DIR=$MOTORPOOL_ROOT/var/lib/motorpool CONFIG_FILE=$settings/config.toml sh "$home/lib/program.sh" gitlab-runner
# As a run_cmd of the operator's own might.
mkdir -m 755 "$MOTORPOOL_ROOT/own"
echo "settings of another" >"$MOTORPOOL_ROOT/own/config.toml"
MOTORPOOL_RUNNER_DIR=$MOTORPOOL_ROOT/var/lib/motorpool CONFIG_FILE=$MOTORPOOL_ROOT/own/config.toml sh "$home/lib/program.sh" gitlab-runner >/dev/null
[ "$(stat -c %U "$MOTORPOOL_ROOT/own")" = root ] && echo "what a command of one's own names stays whose it is"

job grep -q 'NoNewPrivs:[[:space:]]*1' /proc/self/status && echo "a job may not gain privileges"
job cat "$MOTORPOOL_ROOT/var/lib/motorpool/state.json" 2>/dev/null || echo "a job cannot read the agent's state"
job touch "$MOTORPOOL_WORK_DIR/made" && echo "a job can write its work directory"
[ "$(ACTIONS_RUNNER_INPUT_JITCONFIG=x job sh -c 'echo $ACTIONS_RUNNER_INPUT_JITCONFIG')" = x ] && echo "the environment stays"
