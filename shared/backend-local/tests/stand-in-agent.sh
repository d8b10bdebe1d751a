# Stands in for the agent: takes the lock and writes its number into it, as the agent does, and waits to be ended.
# Usage: sh stand-in-agent.sh MANNER run --server URL --runner ID --dir DIR --secret-file FILE
set -eu
manner=$1
printed="$*"
while [ $# -gt 0 ]; do
    case $1 in
    --dir) dir=$2 ;;
    --secret-file) secret_file=$2 ;;
    esac
    shift
done
echo "arguments: $printed"
echo "secret: $(cat "$secret_file")"
echo "environment: $(env | grep ^MOTORPOOL_ | sort | tr '\n' ' ')" >&2

case $manner in
stubborn) trap '' TERM ;;
slow) exec sleep 120 ;;
supervising)
    # A supervisor, which carries the mark and does not end by itself, and its work, which does not carry it.
    setsid sh -c 'echo $$ >"$0/supervisor"; env -u MOTORPOOL_RUNNER_DIR sleep 120 & echo $! >"$0/work-process"; wait' "$dir" &
    while [ ! -s "$dir/work-process" ]; do sleep 0.01; done
    ;;
esac

exec 9<>"$dir/agent.lock"
flock --exclusive --timeout 1 9 || exit 3
: >"$dir/agent.lock"
echo $$ >&9
# In place of the shell: the same number, the same lock, and a TERM that is still ignored.
exec sleep 120
