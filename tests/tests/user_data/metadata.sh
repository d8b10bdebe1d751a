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

job() { setpriv --reuid "$MOTORPOOL_JOB_USER" --regid nogroup --clear-groups --no-new-privs -- "$@"; }
ask='curl --silent --max-time 10 --output /dev/null http://169.254.169.254/'
until $ask; do kill -0 "$server" || exit 1; done

job $ask && echo "before, a job got metadata"
# Twice, as after a restart of the agent.
sh "$GUARD" && sh "$GUARD"
[ "$(ip rule | grep -c 169.254.169.254)" = 1 ] && echo "one rule is enough"
$ask && echo "the agent got metadata"
job $ask || echo "a job got nothing"

# Somebody may have taken the rule away.
ip rule del priority 10
job $ask && echo "without the rule a job would get metadata"
# As the agent has it run before each program, with the users by number.
uid=$(id -u "$MOTORPOOL_JOB_USER")
MOTORPOOL_JOB_UIDS=$uid-$uid sh "$GUARD"
job $ask || echo "each start of the program closes it again"

job cat "$MOTORPOOL_ROOT/var/lib/motorpool/state.json" 2>/dev/null || echo "a job cannot read the agent's state"
job sh -c 'echo bad >>"$1/run.sh" || rm -f "$1/run.sh" || touch "$1/new"' sh "$MOTORPOOL_ROOT/opt/motorpool/runner" 2>/dev/null ||
    echo "a job cannot change the program"
