# Run as root in namespaces of its own (network and mounts), by user_data.rs. systemd-networkd sets up a link, and removes the rules that
# it does not know; says whether the guard is among them.
set -u
networkd=
trap 'kill $networkd 2>/dev/null' EXIT
ip link set lo up
mount -t tmpfs tmpfs /run
# What this host sets for its own.
mount -t tmpfs tmpfs /etc/systemd
# Then it does not wait for udev.
mount -t sysfs -o ro sysfs /sys
mkdir -p /run/systemd/netif/links /run/systemd/netif/leases /run/systemd/netif/lldp /run/systemd/network
printf '[Match]\nName=near\n[Network]\nAddress=10.9.9.1/24\n' >/run/systemd/network/near.network
chmod -R a+rX /run/systemd
chown -R systemd-network: /run/systemd/netif

sh "$GUARD"
ip rule add to 10.7.7.7 prohibit priority 20
/lib/systemd/systemd-networkd >/dev/null 2>&1 &
networkd=$!
# It knows of a link once it writes of it; one that comes later is set up with all rules known.
until [ -e /run/systemd/netif/links/1 ]; do kill -0 "$networkd" || exit 1; sleep 0.1; done
ip link add near type veth peer name far
ip link set far up
while ip rule | grep -q 10.7.7.7; do kill -0 "$networkd" || exit 1; sleep 0.1; done
echo "it removes rules"
ip rule | grep -q 'to 169.254.169.254 .*prohibit' && echo "the guard stays"
ip -6 rule | grep -q 'to fd00:ec2::254 .*prohibit' && echo "the guard of IPv6 stays"
