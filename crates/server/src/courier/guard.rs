//! Which addresses a webhook may have. A caller chooses where we connect to, so everything that is not out in the public
//! is refused: our own machine, its network, and the addresses clouds keep their secrets at. The operator's list lets
//! more through.
//!
//! What counts is the address that is connected to, not the name: see [`super::resolve`].

use std::net::IpAddr;

use model::reach::{Reach, embedded, reach};
use url::{Host, Url};

/// What is let through.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    /// Rialto itself listens on loopback only: whoever calls it is on this machine, and so may its webhook be.
    pub loopback: bool,
    pub allow: Vec<Allow>,
}

/// An entry of the operator's list: a host, the hosts below a domain, or a network, each with or without a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allow {
    what: What,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    Host(String),
    Below(String),
    Net(IpAddr, u8),
}

impl std::str::FromStr for Allow {
    type Err = String;

    fn from_str(text: &str) -> Result<Allow, String> {
        let wrong =
            || format!("{text:?} is no host; write \"host\", \"*.example.com\", \"10.0.0.0/8\" or \"host:port\"");
        let text = text.trim();
        if let Some((net, bits)) = text.split_once('/') {
            let net: IpAddr = net.parse().map_err(|_| wrong())?;
            let most = if net.is_ipv4() { 32 } else { 128 };
            let bits = bits.parse().ok().filter(|bits| *bits <= most).ok_or_else(wrong)?;
            return Ok(Allow { what: What::Net(net, bits), port: None });
        }
        if let Ok(ip) = text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
            return Ok(Allow { what: What::Net(ip, if ip.is_ipv4() { 32 } else { 128 }), port: None });
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?)),
            None => (text, None),
        };
        let below = host.strip_prefix("*.");
        let what = match (Host::parse(below.unwrap_or(host)).map_err(|_| wrong())?, below) {
            (Host::Domain(name), None) => What::Host(bare(&name).to_owned()),
            (Host::Domain(name), Some(_)) => What::Below(format!(".{}", bare(&name))),
            (Host::Ipv4(ip), None) => What::Net(ip.into(), 32),
            (Host::Ipv6(ip), None) => What::Net(ip.into(), 128),
            (Host::Ipv4(_) | Host::Ipv6(_), Some(_)) => return Err(wrong()),
        };
        if matches!(&what, What::Host(name) if name.is_empty() || name.contains('*')) {
            return Err(wrong());
        }
        Ok(Allow { what, port })
    }
}

impl Allow {
    pub(super) fn port(&self) -> Option<u16> {
        self.port
    }

    fn is_for(&self, port: u16) -> bool {
        self.port.is_none_or(|only| only == port)
    }

    fn names(&self, host: &str) -> bool {
        match &self.what {
            What::Host(name) => name == host,
            What::Below(domain) => host.len() > domain.len() && host.ends_with(domain),
            What::Net(..) => false,
        }
    }

    fn holds(&self, ip: IpAddr) -> bool {
        match (&self.what, ip) {
            (What::Net(IpAddr::V4(net), bits), IpAddr::V4(ip)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(*bits)).unwrap_or(0);
                u32::from(*net) & mask == u32::from(ip) & mask
            }
            (What::Net(IpAddr::V6(net), bits), IpAddr::V6(ip)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(*bits)).unwrap_or(0);
                u128::from(*net) & mask == u128::from(ip) & mask
            }
            // An IPv4 address in other clothes.
            (What::Net(IpAddr::V4(_), _), IpAddr::V6(ip)) => embedded(ip).is_some_and(|ip| self.holds(ip.into())),
            (What::Net(IpAddr::V6(_), _), IpAddr::V4(_)) | (What::Host(_) | What::Below(_), _) => false,
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
pub(super) enum Refused {
    /// Not `https`, nor `http` to where that is allowed.
    Scheme,
    NoHost,
    Loopback,
    Private,
}

impl Refused {
    /// For operators and callers alike: it names no address.
    pub(super) fn words(self) -> &'static str {
        match self {
            Refused::Scheme => {
                "only https is allowed; http is for loopback and for hosts the operator lists in push.allow"
            }
            Refused::NoHost => "the address names no host",
            Refused::Loopback => {
                "a loopback address is allowed only while the server listens on loopback itself, or when the operator lists it in push.allow"
            }
            Refused::Private => {
                "the address is not public; use a public one, or have the operator list it in push.allow"
            }
        }
    }
}

impl Guard {
    /// Looks at an address as it is written: its scheme, and its host where that is no name. Names are looked at when
    /// they are resolved.
    pub(super) fn admit(&self, url: &Url) -> Result<(), Refused> {
        let plain = match url.scheme() {
            "https" => false,
            "http" => true,
            _ => return Err(Refused::Scheme),
        };
        let port = url.port_or_known_default().unwrap_or_default();
        let host = url.host().ok_or(Refused::NoHost)?;
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
            Reach::Loopback => Err(Refused::Loopback),
            Reach::Private => Err(Refused::Private),
            Reach::Public if plain => Err(Refused::Scheme),
            Reach::Public => Ok(()),
        }
    }

    /// Whether a name may be connected to at one of its addresses. `port` is `None` for one that no entry speaks of.
    pub(super) fn passes(&self, name: &str, ip: IpAddr, port: Option<u16>) -> bool {
        let (name, port) = (bare(name), port.unwrap_or_default());
        match reach(ip) {
            Reach::Public => true,
            // Other names for ourselves are the very thing that rebinding uses.
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
#[path = "guard_tests.rs"]
mod tests;
