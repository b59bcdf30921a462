//! The reach of a network address. Where callers can choose an address to connect to, only public addresses are
//! allowed: not this machine, not its network, not the cloud metadata addresses. All such checks use this one rule.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The reach of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    Public,
    Loopback,
    /// A private network, or an address that no host can have.
    Private,
}

pub fn reach(ip: IpAddr) -> Reach {
    match ip {
        IpAddr::V4(ip) => reach_v4(ip),
        IpAddr::V6(ip) => reach_v6(ip),
    }
}

/// The reach of a host as far as its name alone determines it: the address of a public name is known only after
/// resolution.
pub fn name_reach(name: &str) -> Reach {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    match name.rsplit('.').next().unwrap_or_default() {
        "localhost" => Reach::Loopback,
        "local" | "internal" | "lan" | "home" | "arpa" => Reach::Private,
        // A name without dots belongs to the local network.
        _ if !name.contains('.') => Reach::Private,
        _ => Reach::Public,
    }
}

fn reach_v4(ip: Ipv4Addr) -> Reach {
    if ip.is_loopback() {
        return Reach::Loopback;
    }
    let [a, b, c, _] = ip.octets();
    let private = match (a, b, c) {
        // "This network", which reaches the local host; private networks; link-local.
        (0 | 10, ..) | (172, 16..=31, _) | (192, 168, _) | (169, 254, _) => true,
        // Carrier-grade NAT, protocol assignments, benchmarks.
        (100, 64..=127, _) | (192, 0, 0) | (198, 18..=19, _) => true,
        // Documentation; relays between IPv4 and IPv6.
        (192, 0, 2) | (198, 51, 100) | (203, 0, 113) | (192, 88, 99) => true,
        // Multicast, reserved, broadcast.
        (224.., ..) => true,
        _ => false,
    };
    if private { Reach::Private } else { Reach::Public }
}

fn reach_v6(ip: Ipv6Addr) -> Reach {
    if ip.is_loopback() {
        return Reach::Loopback;
    }
    if let Some(within) = embedded(ip) {
        return reach_v4(within);
    }
    let s = ip.segments();
    // Only 2000::/3 is allocated for public use, with some exceptions within it.
    let public = s[0] & 0xe000 == 0x2000
        && match (s[0], s[1]) {
            // Protocol assignments: Teredo, benchmarks, ORCHID and others.
            (0x2001, 0..=0x1ff) => false,
            // Documentation.
            (0x2001, 0xdb8) | (0x3fff, 0..=0xfff) => false,
            _ => true,
        };
    if public { Reach::Public } else { Reach::Private }
}

/// The IPv4 address embedded in an IPv6 one: mapped, translated, compatible, NAT64, 6to4.
pub fn embedded(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let at = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Some(Ipv4Addr::new(a, b, c, d))
    };
    match ip.segments() {
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => at(high, low),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_are_public() {
        for (text, expected) in [
            ("8.8.8.8", Reach::Public),
            ("1.1.1.1", Reach::Public),
            ("100.63.255.255", Reach::Public),
            ("100.128.0.1", Reach::Public),
            ("172.15.0.1", Reach::Public),
            ("172.32.0.1", Reach::Public),
            ("192.0.1.1", Reach::Public),
            ("198.17.0.1", Reach::Public),
            ("198.20.0.1", Reach::Public),
            ("223.255.255.255", Reach::Public),
            ("127.0.0.1", Reach::Loopback),
            ("127.255.255.254", Reach::Loopback),
            ("0.0.0.0", Reach::Private),
            ("0.1.2.3", Reach::Private),
            ("10.0.0.1", Reach::Private),
            ("100.64.0.1", Reach::Private),
            ("100.127.255.255", Reach::Private),
            ("169.254.169.254", Reach::Private),
            ("172.16.0.1", Reach::Private),
            ("172.31.255.255", Reach::Private),
            ("192.0.0.1", Reach::Private),
            ("192.0.2.1", Reach::Private),
            ("192.88.99.1", Reach::Private),
            ("192.168.0.1", Reach::Private),
            ("198.18.0.1", Reach::Private),
            ("198.19.255.255", Reach::Private),
            ("198.51.100.1", Reach::Private),
            ("203.0.113.1", Reach::Private),
            ("224.0.0.1", Reach::Private),
            ("239.255.255.255", Reach::Private),
            ("240.0.0.1", Reach::Private),
            ("255.255.255.255", Reach::Private),
            ("2606:4700:4700::1111", Reach::Public),
            ("2001:4860:4860::8888", Reach::Public),
            ("3ffe::1", Reach::Public),
            ("::1", Reach::Loopback),
            ("::", Reach::Private),
            ("fc00::1", Reach::Private),
            ("fdff::1", Reach::Private),
            ("fe80::1", Reach::Private),
            ("fec0::1", Reach::Private),
            ("ff02::1", Reach::Private),
            ("100::1", Reach::Private),
            ("2001::1", Reach::Private),
            ("2001:2::1", Reach::Private),
            ("2001:10::1", Reach::Private),
            ("2001:db8::1", Reach::Private),
            ("3fff::1", Reach::Private),
            ("4000::1", Reach::Private),
            // IPv4 embedded in IPv6.
            ("::ffff:8.8.8.8", Reach::Public),
            ("::ffff:127.0.0.1", Reach::Loopback),
            ("::ffff:10.0.0.1", Reach::Private),
            ("::ffff:169.254.169.254", Reach::Private),
            ("::ffff:0:10.0.0.1", Reach::Private),
            ("::127.0.0.1", Reach::Loopback),
            ("::10.0.0.1", Reach::Private),
            ("64:ff9b::8.8.8.8", Reach::Public),
            ("64:ff9b::10.0.0.1", Reach::Private),
            ("64:ff9b::169.254.169.254", Reach::Private),
            ("64:ff9b:1::1", Reach::Private),
            ("2002:808:808::1", Reach::Public),
            ("2002:7f00:1::1", Reach::Loopback),
            ("2002:a00:1::1", Reach::Private),
            ("2002:a9fe:a9fe::", Reach::Private),
        ] {
            assert_eq!(reach(text.parse().unwrap()), expected, "{text}");
        }
    }

    #[test]
    fn a_name_tells_whether_it_is_of_our_own_network() {
        for (name, expected) in [
            ("agents.example.com", Reach::Public),
            ("localhost.example.com", Reach::Public),
            ("localhost", Reach::Loopback),
            ("LOCALHOST.", Reach::Loopback),
            ("a.localhost", Reach::Loopback),
            ("metadata", Reach::Private),
            ("metadata.google.internal", Reach::Private),
            ("printer.local", Reach::Private),
            ("nas.lan", Reach::Private),
            ("box.home", Reach::Private),
            ("box.home.arpa.", Reach::Private),
            ("", Reach::Private),
            (".", Reach::Private),
        ] {
            assert_eq!(name_reach(name), expected, "{name}");
        }
    }
}
