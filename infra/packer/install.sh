#!/bin/sh
# Bakes a runner into an image. Run as root on the machine that becomes the image, from a copy of infra/, with the environment
# of runner/install.sh. It enables nothing: a machine from the image becomes a runner by its user data only.
set -eu
umask 022
root=${MOTORPOOL_ROOT:-}
infra=$(cd "$(dirname "$0")/.." && pwd)

if [ -z "$root" ]; then
    # The first boot may still be installing packages. It may also have had complaints, which are not ours.
    cloud-init status --wait >/dev/null 2>&1 || true
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -q
    apt-get install -y -q --no-install-recommends ca-certificates curl git gzip iproute2 jq tar unzip util-linux
fi

mkdir -p "$root/opt/motorpool/lib" "$root/etc/systemd/system" "$root/etc/systemd/system-preset"
for script in install guard boot; do
    install -m 0755 "$infra/runner/$script.sh" "$root/opt/motorpool/lib/$script.sh"
done
install -m 0644 "$infra/systemd/motorpool-agent-ec2.service" "$root/etc/systemd/system/motorpool-agent.service"
sh "$root/opt/motorpool/lib/install.sh"
# The first boot of a machine from the image enables every unit that no preset disables, and would start the agent before
# boot.sh has done its work.
echo "disable motorpool-agent.service" >"$root/etc/systemd/system-preset/10-motorpool.preset"
# At a boot these hold the lock of dpkg, against pre_runner_cmd and jobs. The next image has the upgrades.
for timer in apt-daily apt-daily-upgrade; do
    ln -sf /dev/null "$root/etc/systemd/system/$timer.timer"
done

# GitHub's runner program brings a list of the libraries that it needs.
needs=$root/opt/motorpool/runner/bin/installdependencies.sh
if [ -z "$root" ] && [ -e "$needs" ]; then
    bash "$needs"
fi

# Every machine from the image makes these itself.
rm -f "$root"/etc/ssh/ssh_host_*
if [ -z "$root" ]; then
    cloud-init clean --logs --machine-id 2>/dev/null || cloud-init clean --logs
    apt-get clean
    rm -f /root/.ssh/authorized_keys /home/*/.ssh/authorized_keys
fi
