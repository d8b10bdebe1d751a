# Run as root in a network namespace of its own, by user_data.rs. Makes a second one with a metadata service in it, and says who gets
# an answer.
set -u
imds=
server=
trap 'kill $server $imds 2>/dev/null' EXIT
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
job mkdir "$home/runner/_work"
"$home/program/run.sh" | sed -n '2s/^/the program runs as /p'
job touch "$home/runner/_work/made" && [ -e "$home/program/_work/made" ] && echo "its work is where the agent cleans"
job grep -q 'NoNewPrivs:[[:space:]]*1' /proc/self/status && echo "a job may not gain privileges"
job cat "$MOTORPOOL_ROOT/var/lib/motorpool/state.json" 2>/dev/null || echo "a job cannot read the agent's state"
job touch "$MOTORPOOL_WORK_DIR/made" && echo "a job can write its work directory"
[ "$(ACTIONS_RUNNER_INPUT_JITCONFIG=x job sh -c 'echo $ACTIONS_RUNNER_INPUT_JITCONFIG')" = x ] && echo "the environment stays"
