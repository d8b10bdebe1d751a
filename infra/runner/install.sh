#!/bin/sh
# Makes this machine fit to be a runner: the jobs' user, the agent, the CI system's runner program. Run as root, at boot by
# boot.sh or when an image is baked. It starts nothing. From the environment, each empty where the image has it already:
#   AGENT_URL AGENT_SHA256 RUNNER_URL RUNNER_SHA256
# and JOBS_SUDO=yes, which makes every job root on its machine.
set -eu
umask 022

root=${MOTORPOOL_ROOT:-}
user=${MOTORPOOL_JOB_USER:-motorpool-job}
pause=${MOTORPOOL_RETRY_SECONDS:-3}
home=$root/opt/motorpool
agent=$root/usr/local/bin/motorpool-agent

say() { echo "motorpool: $*" >&2; }

# fetch URL SHA256 FILE. What is not what it should be is gone before anybody could run it.
fetch() {
    tries=1
    until curl --proto '=https' --proto-redir '=https' --tlsv1.2 --fail --location --silent --show-error \
        --connect-timeout 10 --max-time 600 --output "$3" -- "$1"; do
        if [ "$tries" -ge 5 ]; then
            say "cannot fetch $1"
            return 1
        fi
        sleep $((pause * tries))
        tries=$((tries + 1))
    done
    if ! printf '%s  %s\n' "$2" "$3" | sha256sum -c --status -; then
        say "$1 has the SHA-256 $(sha256sum <"$3" | cut -d ' ' -f 1), not $2"
        rm -f "$3"
        return 1
    fi
}

# Its home is made by the agent, and emptied with each cleanup.
id -u "$user" >/dev/null 2>&1 ||
    useradd --system --user-group --no-create-home --home-dir /var/lib/motorpool/home --shell /bin/sh "$user"
mkdir -p "$home/lib" "$root/etc/motorpool" "$(dirname "$agent")"
# Its entries are the agent's alone; the jobs only pass through, to their own.
mkdir -p "$root/var/lib/motorpool"
chmod 0711 "$root/var/lib/motorpool"

tmp=$(mktemp -d "${TMPDIR:-/var/tmp}/motorpool.XXXXXX")
trap 'rm -rf "$tmp"' EXIT

if [ -n "${AGENT_URL:-}" ]; then
    fetch "$AGENT_URL" "$AGENT_SHA256" "$tmp/agent"
    install -m 0755 "$tmp/agent" "$agent"
elif [ ! -x "$agent" ]; then
    say "the image has no agent, and none is named: set the pool's ec2.agent"
    exit 1
fi

if [ -n "${RUNNER_URL:-}" ]; then
    fetch "$RUNNER_URL" "$RUNNER_SHA256" "$tmp/runner"
    rm -rf "$home/runner"
    mkdir "$home/runner"
    if gzip -t "$tmp/runner" 2>/dev/null; then
        tar -xzf "$tmp/runner" -C "$home/runner" --no-same-owner
    else
        # GitLab's is one file.
        install -m 0755 "$tmp/runner" "$home/runner/gitlab-runner"
    fi
    # Root's, and for everybody to read: each job gets a copy of its own, and can change no more than that.
    chown -R 0:0 "$home/runner" 2>/dev/null || [ "$(id -u)" != 0 ]
    chmod -R u=rwX,go=rX "$home/runner"
fi

if [ "${JOBS_SUDO:-}" = yes ]; then
    mkdir -p "$root/etc/sudoers.d"
    echo "$user ALL=(ALL:ALL) NOPASSWD: ALL" >"$tmp/sudoers"
    install -m 0440 "$tmp/sudoers" "$root/etc/sudoers.d/motorpool"
    echo MOTORPOOL_JOBS_MAY_SUDO=yes >"$root/etc/motorpool/jobs.env"
fi
