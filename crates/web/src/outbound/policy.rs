//! Addresses that the server may connect to on a caller's behalf (webhooks). Only public addresses are allowed: not this
//! machine, not its network, not the metadata addresses of clouds. The operator's list allows more.
//!
//! The rule is about the address that is connected to, not about the name: see [`super::resolve`].

use std::net::IpAddr;

use model::reach::{Reach, embedded, reach};
use url::{Host, Url};

/// The rule for one server.
#[derive(Clone, Debug, Default)]
pub struct OutboundPolicy {
    /// The server listens on loopback only: its callers are on this machine, and so may their webhooks be.
    pub loopback: bool,
    /// Every address, also by plain http.
    pub any: bool,
    pub allow: Vec<AllowedHost>,
}

/// An entry of the operator's list: a host, the hosts below a domain, or a network, each with or without a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedHost {
    pattern: Pattern,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Pattern {
    Host(String),
    Below(String),
    Net(IpAddr, u8),
}

impl std::str::FromStr for AllowedHost {
    type Err = String;

    fn from_str(text: &str) -> Result<AllowedHost, String> {
        let wrong =
            || format!("{text:?} is no host; write \"host\", \"*.example.com\", \"10.0.0.0/8\" or \"host:port\"");
        let text = text.trim();
        if let Some((net, bits)) = text.split_once('/') {
            let net: IpAddr = net.parse().map_err(|_| wrong())?;
            let most = if net.is_ipv4() { 32 } else { 128 };
            let bits = bits.parse().ok().filter(|bits| *bits <= most).ok_or_else(wrong)?;
            return Ok(AllowedHost { pattern: Pattern::Net(net, bits), port: None });
        }
        if let Ok(ip) = text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
            return Ok(AllowedHost { pattern: Pattern::Net(ip, if ip.is_ipv4() { 32 } else { 128 }), port: None });
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?)),
            None => (text, None),
        };
        let below = host.strip_prefix("*.");
        let pattern = match (Host::parse(below.unwrap_or(host)).map_err(|_| wrong())?, below) {
            (Host::Domain(name), None) => Pattern::Host(bare(&name).to_owned()),
            (Host::Domain(name), Some(_)) => Pattern::Below(format!(".{}", bare(&name))),
            (Host::Ipv4(ip), None) => Pattern::Net(ip.into(), 32),
            (Host::Ipv6(ip), None) => Pattern::Net(ip.into(), 128),
            (Host::Ipv4(_) | Host::Ipv6(_), Some(_)) => return Err(wrong()),
        };
        if matches!(&pattern, Pattern::Host(name) if name.is_empty() || name.contains('*')) {
            return Err(wrong());
        }
        Ok(AllowedHost { pattern, port })
    }
}

impl AllowedHost {
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    fn is_for(&self, port: u16) -> bool {
        self.port.is_none_or(|only| only == port)
    }

    fn names(&self, host: &str) -> bool {
        match &self.pattern {
            Pattern::Host(name) => name == host,
            Pattern::Below(domain) => host.len() > domain.len() && host.ends_with(domain),
            Pattern::Net(..) => false,
        }
    }

    fn holds(&self, ip: IpAddr) -> bool {
        match (&self.pattern, ip) {
            (Pattern::Net(IpAddr::V4(net), bits), IpAddr::V4(ip)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(*bits)).unwrap_or(0);
                u32::from(*net) & mask == u32::from(ip) & mask
            }
            (Pattern::Net(IpAddr::V6(net), bits), IpAddr::V6(ip)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(*bits)).unwrap_or(0);
                u128::from(*net) & mask == u128::from(ip) & mask
            }
            // An IPv4 address that is embedded in an IPv6 address.
            (Pattern::Net(IpAddr::V4(_), _), IpAddr::V6(ip)) => embedded(ip).is_some_and(|ip| self.holds(ip.into())),
            (Pattern::Net(IpAddr::V6(_), _), IpAddr::V4(_)) | (Pattern::Host(_) | Pattern::Below(_), _) => false,
        }
    }
}

/// A name without the dot of the root.
fn bare(host: &str) -> &str {
    host.strip_suffix('.').unwrap_or(host)
}

fn is_localhost(host: &str) -> bool {
    host == "localhost" || host.ends_with(".localhost")
}

/// Why an address is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// Not `https`, nor `http` to where that is allowed.
    Scheme,
    NoHost,
    Loopback,
    Private,
}

impl Error {
    /// A message for operators and callers; it names no address.
    pub fn message(self) -> &'static str {
        match self {
            Error::Scheme => {
                "only https is allowed; http is for loopback and for hosts the operator lists in push.allow"
            }
            Error::NoHost => "the address names no host",
            Error::Loopback => {
                "a loopback address is allowed only while the server listens on loopback itself, or when the operator lists it in push.allow"
            }
            Error::Private => "the address is not public; use a public one, or have the operator list it in push.allow",
        }
    }
}

impl OutboundPolicy {
    /// Checks an address as it is written: its scheme, and its host unless that is a name. Names are checked when they are
    /// resolved.
    pub fn admit(&self, url: &Url) -> Result<(), Error> {
        let plain = match url.scheme() {
            "https" => false,
            "http" => true,
            _ => return Err(Error::Scheme),
        };
        let port = url.port_or_known_default().unwrap_or_default();
        let host = url.host().ok_or(Error::NoHost)?;
        if self.any {
            return Ok(());
        }
        let (listed, reach) = match &host {
            Host::Domain(name) => {
                let reach = if is_localhost(bare(name)) { Reach::Loopback } else { Reach::Public };
                (self.lists(bare(name), port), reach)
            }
            Host::Ipv4(ip) => (self.lists_ip((*ip).into(), port), reach((*ip).into())),
            Host::Ipv6(ip) => (self.lists_ip((*ip).into(), port), reach((*ip).into())),
        };
        if listed {
            return Ok(());
        }
        match reach {
            Reach::Loopback if self.loopback => Ok(()),
            Reach::Loopback => Err(Error::Loopback),
            Reach::Private => Err(Error::Private),
            Reach::Public if plain => Err(Error::Scheme),
            Reach::Public => Ok(()),
        }
    }

    /// Whether a name may be connected to at one of its addresses. `port` is `None` for a port that no entry names.
    pub fn passes(&self, name: &str, ip: IpAddr, port: Option<u16>) -> bool {
        let (name, port) = (bare(name), port.unwrap_or_default());
        match reach(ip) {
            Reach::Public => true,
            Reach::Loopback | Reach::Private if self.any => true,
            // Other names for this machine are how DNS rebinding works.
            Reach::Loopback if self.loopback && is_localhost(name) => true,
            Reach::Loopback | Reach::Private => self.lists(name, port) || self.lists_ip(ip, port),
        }
    }

    fn lists(&self, host: &str, port: u16) -> bool {
        self.allow.iter().any(|entry| entry.is_for(port) && entry.names(host))
    }

    fn lists_ip(&self, ip: IpAddr, port: u16) -> bool {
        self.allow.iter().any(|entry| entry.is_for(port) && entry.holds(ip))
    }
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
