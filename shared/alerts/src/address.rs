//! Which addresses may be told of incidents. Whoever can choose where the control plane sends requests must not reach with them what only it
//! can reach: its own host, its network, the metadata service of its cloud.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether the address is one of the public internet. What is not known to be so is not.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// All but what IANA has set apart for special purposes.
fn is_public_v4(address: Ipv4Addr) -> bool {
    let special = match address.octets() {
        // "This network", and the host itself.
        [0, ..] => true,
        // Shared by carriers and their customers; a cloud has its metadata there.
        [100, second, ..] => (64..128).contains(&second),
        // Protocol assignments; a cloud has its metadata there.
        [192, 0, 0, _] => true,
        // The relays of 6to4, which are no more.
        [192, 88, 99, _] => true,
        // Benchmarks.
        [198, 18 | 19, ..] => true,
        // Groups, what is reserved, and everybody.
        [224..=255, ..] => true,
        [..] => false,
    };
    !(special
        || address.is_loopback()
        || address.is_private()
        // A cloud's metadata service among it.
        || address.is_link_local()
        || address.is_documentation())
}

/// Only what is handed out to the public. Addresses that hold one of version 4 are what that one is.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, third, _, _, _, seventh, eighth] = address.segments();
    let held = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    if let Some(mapped) = address.to_ipv4_mapped() {
        return is_public_v4(mapped);
    }
    match (first, second) {
        // NAT64: `64:ff9b::/96`.
        (0x64, 0xff9b) => address.segments().get(2..6) == Some(&[0; 4]) && held(seventh, eighth),
        // 6to4.
        (0x2002, _) => held(second, third),
        // Teredo and other assignments of protocols, and documentation.
        (0x2001, 0..=0x1ff | 0xdb8) => false,
        (0x3fff, 0..=0xfff) => false,
        (first, _) => (0x2000..0x4000).contains(&first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuse_15_only_public_addresses_are_told() {
        for refused in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.100.100.200",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "169.254.170.2",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.192",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.51.100.7",
            "203.0.113.9",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:10.1.2.3",
            "::ffff:0.0.0.0",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1.2.3.4",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "2002:7f00:1::",
            "2002:a9fe:a9fe::1",
            "2001::1",
            "2001:db8::1",
            "100::1",
            "3fff::1",
            "4000::1",
        ] {
            assert!(!is_public(refused.parse().unwrap()), "{refused}");
        }
        for told in [
            "1.1.1.1",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "198.20.0.1",
            "223.255.255.255",
            "::ffff:1.1.1.1",
            "64:ff9b::101:101",
            "2002:101:101::1",
            "2606:4700::1111",
            "2a00:1450:4001::1",
        ] {
            assert!(is_public(told.parse().unwrap()), "{told}");
        }
    }
}
