//! Connections that the server makes to addresses that callers choose: which addresses it may connect to ([`policy`]), how
//! names are resolved under that rule ([`resolve`]), HTTP clients that obey it, the attempt of a webhook ([`post`]), and a call
//! that an operator composes ([`call`]).

pub mod call;
pub mod policy;
pub mod post;
pub mod resolve;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Client;
use url::Url;

pub use call::{CallError, OutboundAnswer, OutboundCall};
pub use policy::{AllowedHost, OutboundPolicy};
pub use post::{HttpPost, Post, PostAnswer, PostRequest, PostResult, origin};
pub use resolve::{HostResolver, PolicyResolver, SystemResolver};

/// Idle connections kept for an endpoint: as many as deliveries run to it at a time.
const IDLE: usize = 64;

/// HTTP clients that connect only to addresses that the policy allows: no proxy, no redirects, no retries.
pub struct OutboundClients {
    usual: Client,
    /// For ports that an entry of the operator's list names.
    by_port: HashMap<u16, Client>,
}

impl OutboundClients {
    pub fn new(
        policy: &Arc<OutboundPolicy>,
        resolver: &Arc<dyn HostResolver>,
        connect: Duration,
    ) -> reqwest::Result<OutboundClients> {
        let make = |port| client(PolicyResolver { resolver: resolver.clone(), policy: policy.clone(), port }, connect);
        let mut by_port = HashMap::new();
        for port in policy.allow.iter().filter_map(AllowedHost::port) {
            by_port.insert(port, make(Some(port))?);
        }
        Ok(OutboundClients { usual: make(None)?, by_port })
    }

    /// The client for an address, by its port.
    pub fn to(&self, url: &Url) -> &Client {
        url.port_or_known_default().and_then(|port| self.by_port.get(&port)).unwrap_or(&self.usual)
    }
}

fn client(resolver: PolicyResolver, connect: Duration) -> reqwest::Result<Client> {
    let resolver = Arc::new(resolver);
    let builder = || {
        Client::builder()
            .user_agent(concat!("Rialto/", env!("CARGO_PKG_VERSION")))
            // A proxy would make the connection itself, to an address that the policy never checked.
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .dns_resolver(resolver.clone())
            .connect_timeout(connect)
            .pool_idle_timeout(Duration::from_secs(30))
            .pool_max_idle_per_host(IDLE)
    };
    builder().build().or_else(|error| {
        // Most likely the machine has no certificates of authorities. Plain http needs none.
        tracing::warn!(%error, "webhooks over https will fail: install the system's CA certificates (ca-certificates)");
        builder().tls_certs_only([]).build()
    })
}
