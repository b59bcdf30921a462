//! Names to addresses, through the guard. The connection is made to exactly the addresses that come out of here, so what
//! was looked at is what is connected to: a name that answers differently the next time gains nothing.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use model::ports::Future;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::guard::Guard;

/// Where addresses come from.
pub trait Lookup: Send + Sync + 'static {
    fn lookup(&self, name: String) -> Future<'static, std::io::Result<Vec<IpAddr>>>;
}

/// As the operating system resolves names.
#[derive(Debug)]
pub struct System;

impl Lookup for System {
    fn lookup(&self, name: String) -> Future<'static, std::io::Result<Vec<IpAddr>>> {
        Box::pin(async move { Ok(tokio::net::lookup_host((name, 0)).await?.map(|found| found.ip()).collect()) })
    }
}

/// The resolver of one client. A client resolves for one port that the operator's list speaks of, or for all others:
/// whoever asks for an address does not say for which port.
pub(super) struct Guarded {
    pub(super) lookup: Arc<dyn Lookup>,
    pub(super) guard: Arc<Guard>,
    pub(super) port: Option<u16>,
}

impl Resolve for Guarded {
    fn resolve(&self, name: Name) -> Resolving {
        let name = name.as_str().to_owned();
        let (guard, port) = (self.guard.clone(), self.port);
        let looking = self.lookup.lookup(name.clone());
        Box::pin(async move {
            let found = looking.await.map_err(|_| Unresolved::Unknown)?;
            let any = !found.is_empty();
            let passing: Vec<SocketAddr> = found
                .into_iter()
                .filter(|ip| guard.passes(&name, *ip, port))
                // The port is put in by whoever connects.
                .map(|ip| SocketAddr::new(ip, 0))
                .collect();
            match (passing.is_empty(), any) {
                (false, _) => Ok(Box::new(passing.into_iter()) as Addrs),
                (true, true) => Err(Unresolved::Forbidden.into()),
                (true, false) => Err(Unresolved::Unknown.into()),
            }
        })
    }
}

/// Why there is nothing to connect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unresolved {
    Unknown,
    Forbidden,
}

impl std::fmt::Display for Unresolved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Unresolved::Unknown => "the name does not resolve",
            Unresolved::Forbidden => {
                "the name resolves to no public address; list it in push.allow if it is meant to be private"
            }
        })
    }
}
impl std::error::Error for Unresolved {}
