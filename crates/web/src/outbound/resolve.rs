//! Resolves names under the outbound policy. A client connects to exactly the addresses that this resolver returns, so the
//! checked address is the one that is connected to: a name that resolves differently the next time gains nothing.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use model::ports::Future;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::policy::OutboundPolicy;

/// Resolves host names to addresses.
pub trait HostResolver: Send + Sync + 'static {
    fn lookup(&self, name: String) -> Future<'static, std::io::Result<Vec<IpAddr>>>;
}

/// The resolver of the operating system.
#[derive(Debug)]
pub struct SystemResolver;

impl HostResolver for SystemResolver {
    fn lookup(&self, name: String) -> Future<'static, std::io::Result<Vec<IpAddr>>> {
        Box::pin(async move { Ok(tokio::net::lookup_host((name, 0)).await?.map(|found| found.ip()).collect()) })
    }
}

/// The resolver of one HTTP client. A client resolves for one port that the operator's list names, or for all others: a
/// request to resolve a name has no port.
pub struct PolicyResolver {
    pub resolver: Arc<dyn HostResolver>,
    pub policy: Arc<OutboundPolicy>,
    pub port: Option<u16>,
}

impl Resolve for PolicyResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let name = name.as_str().to_owned();
        let (policy, port) = (self.policy.clone(), self.port);
        let looking = self.resolver.lookup(name.clone());
        Box::pin(async move {
            let found = looking.await.map_err(|_| Error::Unknown)?;
            let any = !found.is_empty();
            let passing: Vec<SocketAddr> = found
                .into_iter()
                .filter(|ip| policy.passes(&name, *ip, port))
                // The connector puts the port in.
                .map(|ip| SocketAddr::new(ip, 0))
                .collect();
            match (passing.is_empty(), any) {
                (false, _) => Ok(Box::new(passing.into_iter()) as Addrs),
                (true, true) => Err(Error::Forbidden.into()),
                (true, false) => Err(Error::Unknown.into()),
            }
        })
    }
}

/// No address to connect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    Unknown,
    Forbidden,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Error::Unknown => "the name does not resolve",
            Error::Forbidden => {
                "the name resolves to no public address; list it in push.allow if it is meant to be private"
            }
        })
    }
}
impl std::error::Error for Error {}
