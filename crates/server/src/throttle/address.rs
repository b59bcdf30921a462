//! Where a caller calls from: the other end of the connection, or what a proxy of ours says of it.

use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use http::HeaderMap;
use http::header::FORWARDED;

/// A range of addresses, written `10.0.0.0/8` or as a single address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    first: IpAddr,
    bits: u8,
}

impl Network {
    pub fn contains(&self, address: IpAddr) -> bool {
        fn same(a: u128, b: u128, width: u8, bits: u8) -> bool {
            bits == 0 || (a ^ b) >> (width - bits) == 0
        }
        match (self.first, address) {
            (IpAddr::V4(a), IpAddr::V4(b)) => same(u32::from(a).into(), u32::from(b).into(), 32, self.bits),
            (IpAddr::V6(a), IpAddr::V6(b)) => same(a.into(), b.into(), 128, self.bits),
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Network, String> {
        let wrong = || format!("{text:?} is not a network; write 10.0.0.0/8, 2001:db8::/32 or an address");
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let first: IpAddr = address.trim().parse().map_err(|_| wrong())?;
        let most = if first.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            Some(bits) => bits.trim().parse().ok().filter(|bits| *bits <= most).ok_or_else(wrong)?,
            None => most,
        };
        Ok(Network { first, bits })
    }
}

/// What is counted together: one address of IPv4; of IPv6 what one household has, since it has 2^64 of them.
pub(crate) fn network_of(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from(u128::from(v6) >> 64 << 64)),
    }
}

/// The caller's address. A proxy we trust says it in `X-Forwarded-For` or `Forwarded`, to which each proxy on the way adds
/// the one it was called by: the last that is none of ours is the caller, and what stands before it is hearsay.
pub(crate) fn client(peer: IpAddr, headers: &HeaderMap, trusted: &[Network]) -> IpAddr {
    let peer = peer.to_canonical();
    let ours = |address: IpAddr| trusted.iter().any(|network| network.contains(address));
    if trusted.is_empty() || !ours(peer) {
        return peer;
    }
    let lines = |name: &str| {
        let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).map(str::trim).collect::<Vec<_>>()
    };
    let mut hops = lines("x-forwarded-for").into_iter().map(address_of).collect::<Vec<_>>();
    if hops.is_empty() {
        hops = lines(FORWARDED.as_str()).into_iter().map(forwarded_for).collect();
    }
    let mut caller = peer;
    for hop in hops.into_iter().rev() {
        // What cannot be read ends the chain: the last one known to be true is the caller.
        let Some(address) = hop else { return caller };
        caller = address;
        if !ours(address) {
            return caller;
        }
    }
    caller
}

fn forwarded_for(element: &str) -> Option<IpAddr> {
    let pairs = element.split(';').filter_map(|pair| pair.split_once('='));
    pairs.into_iter().find(|(name, _)| name.trim().eq_ignore_ascii_case("for")).and_then(|(_, value)| address_of(value))
}

/// `1.2.3.4`, `1.2.3.4:5`, `2001:db8::1`, `[2001:db8::1]:5`, quoted or not.
fn address_of(text: &str) -> Option<IpAddr> {
    let text = text.trim().trim_matches('"');
    let bare = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?.0,
        None if text.matches(':').count() == 1 => text.split_once(':')?.0,
        None => text,
    };
    bare.parse::<IpAddr>().ok().map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn from(peer: &str, headers: &[(&'static str, &'static str)], trusted: &[&str]) -> String {
        let trusted: Vec<Network> = trusted.iter().map(|text| text.parse().unwrap()).collect();
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_static(value));
        }
        client(peer.parse().unwrap(), &map, &trusted).to_string()
    }

    #[test]
    fn only_a_trusted_proxy_is_believed() {
        let said = [("x-forwarded-for", "9.9.9.9")];
        assert_eq!(from("1.2.3.4", &said, &[]), "1.2.3.4");
        assert_eq!(from("1.2.3.4", &said, &["10.0.0.0/8"]), "1.2.3.4");
        assert_eq!(from("10.1.2.3", &said, &["10.0.0.0/8"]), "9.9.9.9");
        assert_eq!(from("::ffff:10.1.2.3", &said, &["10.0.0.0/8"]), "9.9.9.9");
    }

    #[test]
    fn the_last_stranger_is_the_caller() {
        let ours = ["10.0.0.0/8", "2001:db8::/32"];
        for (value, expected) in [
            ("6.6.6.6, 9.9.9.9, 10.0.0.7", "9.9.9.9"),
            ("6.6.6.6, 9.9.9.9", "9.9.9.9"),
            ("10.0.0.9, 10.0.0.7", "10.0.0.9"),
            ("9.9.9.9, garbage, 10.0.0.7", "10.0.0.7"),
            ("garbage", "10.0.0.1"),
            ("9.9.9.9:4711", "9.9.9.9"),
            ("[2a00::1]:4711, 2001:db8::5", "2a00::1"),
        ] {
            assert_eq!(from("10.0.0.1", &[("x-forwarded-for", value)], &ours), expected, "{value}");
        }
        let split = [("x-forwarded-for", "6.6.6.6"), ("x-forwarded-for", "9.9.9.9")];
        assert_eq!(from("10.0.0.1", &split, &ours), "9.9.9.9", "several lines are one list");
        let newer = [("forwarded", "for=6.6.6.6, for=\"[2a00::1]:47\";proto=https, for=10.0.0.3")];
        assert_eq!(from("10.0.0.1", &newer, &ours), "2a00::1");
        assert_eq!(from("10.0.0.1", &[("forwarded", "for=unknown")], &ours), "10.0.0.1");
    }

    #[test]
    fn networks_are_read_or_refused() {
        for bad in ["10.0.0.0/33", "x/8", "10.0.0.0/", "2001:db8::/129", ""] {
            assert!(bad.parse::<Network>().is_err(), "{bad}");
        }
        let all: Network = "0.0.0.0/0".parse().unwrap();
        assert!(all.contains("8.8.8.8".parse().unwrap()) && !all.contains("::1".parse().unwrap()));
        let one: Network = "10.0.0.1".parse().unwrap();
        assert!(one.contains("10.0.0.1".parse().unwrap()) && !one.contains("10.0.0.2".parse().unwrap()));
        assert_eq!(network_of("2001:db8::ffff:1:2:3".parse().unwrap()).to_string(), "2001:db8::");
    }
}
