//! The address of a client: the other end of the connection, or the address that a trusted proxy forwards.

use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use http::header::FORWARDED;
use http::{HeaderMap, HeaderValue};

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

/// The addresses that limits count as one: an IPv4 address, or the /64 network of an IPv6 address.
pub fn network_of(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from(u128::from(v6) >> 64 << 64)),
    }
}

/// The headers by which proxies say how a request reached them.
const FORWARDING: [&str; 4] = ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"];

const FORWARDED_FOR: &str = "x-forwarded-for";
pub const FORWARDED_HOST: &str = "x-forwarded-host";
pub const FORWARDED_PROTO: &str = "x-forwarded-proto";

/// The client's address, from the connection and the forwarding headers. Only headers of trusted proxies count: the headers of
/// other peers are removed before a front sees them. Each proxy appends the address of its peer, so the last address that
/// is no trusted proxy is the client's; addresses before it are unverified. Afterwards `X-Forwarded-Host` and
/// `X-Forwarded-Proto` have the values of the outermost trusted proxy, and the other forwarding headers are removed.
pub fn settle(peer: IpAddr, headers: &mut HeaderMap, trusted: &[Network]) -> IpAddr {
    let peer = peer.to_canonical();
    let ours = |address: IpAddr| trusted.iter().any(|network| network.contains(address));
    if trusted.is_empty() || !ours(peer) {
        // Most requests have none of these headers: a check of length and first letter is faster than four
        // searches.
        let may_be = |name: &str| name.len() >= "forwarded".len() && matches!(name.as_bytes()[0], b'f' | b'x');
        if headers.keys().any(|name| may_be(name.as_str()) && FORWARDING.contains(&name.as_str())) {
            for name in FORWARDING {
                headers.remove(name);
            }
        }
        return peer;
    }
    let said = said(headers);
    let (mut caller, mut proxies) = (peer, 1);
    for hop in said.hops.iter().rev() {
        // An unreadable hop ends the chain: the last verified address is the client's.
        let Some(address) = hop else { break };
        caller = *address;
        if !ours(caller) {
            break;
        }
        proxies += 1;
    }
    // A proxy appends to a list or replaces it: the last entries come from trusted proxies.
    let outermost = |list: Vec<String>| {
        let at = list.len().saturating_sub(proxies);
        list.into_iter().nth(at).and_then(|text| HeaderValue::from_str(&text).ok())
    };
    let (host, proto) = (outermost(said.hosts), outermost(said.protos));
    for name in FORWARDING {
        headers.remove(name);
    }
    for (name, value) in [(FORWARDED_HOST, host), (FORWARDED_PROTO, proto)] {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            headers.insert(name, value);
        }
    }
    caller
}

/// The forwarding headers, hop by hop.
struct Said {
    hops: Vec<Option<IpAddr>>,
    hosts: Vec<String>,
    protos: Vec<String>,
}

/// `X-Forwarded-*` where any of it is there, else `Forwarded`. A proxy sets one family: mixing them would let clients add to
/// the other.
fn said(headers: &HeaderMap) -> Said {
    let lines = |name: &str| {
        let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).map(|text| text.trim().to_owned()).collect::<Vec<_>>()
    };
    if [FORWARDED_FOR, FORWARDED_HOST, FORWARDED_PROTO].iter().any(|name| headers.contains_key(*name)) {
        let hops = lines(FORWARDED_FOR).iter().map(|text| address_of(text)).collect();
        return Said { hops, hosts: lines(FORWARDED_HOST), protos: lines(FORWARDED_PROTO) };
    }
    let elements = lines(FORWARDED.as_str());
    let field = |element: &String, name: &str| {
        let pairs = element.split(';').filter_map(|pair| pair.split_once('='));
        let mut named = pairs.filter(|(key, _)| key.trim().eq_ignore_ascii_case(name));
        named.next().map(|(_, value)| value.trim().trim_matches('"').to_owned())
    };
    let hop = |element: &String| address_of(&field(element, "for")?);
    // An element without a field has an empty one, so that the lists have the same length.
    let all = |name: &str| elements.iter().map(|element| field(element, name).unwrap_or_default()).collect();
    Said { hops: elements.iter().map(hop).collect(), hosts: all("host"), protos: all("proto") }
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
    use super::*;

    fn from(peer: &str, headers: &[(&'static str, &'static str)], trusted: &[&str]) -> String {
        let trusted: Vec<Network> = trusted.iter().map(|text| text.parse().unwrap()).collect();
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_static(value));
        }
        settle(peer.parse().unwrap(), &mut map, &trusted).to_string()
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
    fn the_host_is_the_one_that_the_outermost_trusted_proxy_saw() {
        let ours = ["10.0.0.0/8"];
        type Case = (&'static str, &'static [(&'static str, &'static str)], Option<&'static str>, Option<&'static str>);
        let cases: [Case; 13] = [
            ("9.9.9.9", &[("x-forwarded-host", "evil"), ("x-forwarded-proto", "https")], None, None),
            ("9.9.9.9", &[("forwarded", "host=evil;proto=https")], None, None),
            ("9.9.9.9", &[("x-forwarded-for", "10.0.0.1"), ("x-forwarded-host", "evil")], None, None),
            ("10.0.0.1", &[("x-forwarded-host", "shop"), ("x-forwarded-proto", "https")], Some("shop"), Some("https")),
            ("10.0.0.1", &[("x-forwarded-host", "evil, shop")], Some("shop"), None),
            ("10.0.0.1", &[("x-forwarded-host", "evil"), ("x-forwarded-host", "shop")], Some("shop"), None),
            (
                "10.0.0.1",
                &[("x-forwarded-for", "6.6.6.6, 9.9.9.9, 10.0.0.2"), ("x-forwarded-host", "evil, shop, inner")],
                Some("shop"),
                None,
            ),
            ("10.0.0.1", &[("x-forwarded-for", "9.9.9.9, 10.0.0.2"), ("x-forwarded-host", "shop")], Some("shop"), None),
            ("10.0.0.1", &[("forwarded", "for=9.9.9.9;host=shop;proto=https")], Some("shop"), Some("https")),
            ("10.0.0.1", &[("forwarded", "for=6.6.6.6;host=evil, for=9.9.9.9;host=\"shop:1\"")], Some("shop:1"), None),
            ("10.0.0.1", &[("forwarded", "for=6.6.6.6;host=evil, for=9.9.9.9")], None, None),
            ("10.0.0.1", &[("x-forwarded-for", "9.9.9.9"), ("forwarded", "host=evil")], None, None),
            ("10.0.0.1", &[("x-forwarded-host", "")], None, None),
        ];
        for (peer, said, host, proto) in cases {
            let trusted: Vec<Network> = ours.iter().map(|text| text.parse().unwrap()).collect();
            let mut map = HeaderMap::new();
            for (name, value) in said {
                map.append(*name, HeaderValue::from_static(value));
            }
            settle(peer.parse().unwrap(), &mut map, &trusted);
            let left = |name: &str| map.get(name).map(|value| value.to_str().unwrap().to_owned());
            assert_eq!((left(FORWARDED_HOST).as_deref(), left(FORWARDED_PROTO).as_deref()), (host, proto), "{said:?}");
            assert_eq!((left("forwarded"), left(FORWARDED_FOR)), (None, None), "{said:?}");
        }
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
