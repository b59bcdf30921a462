//! Admission by the headers alone, before more of a body is read than every caller may send.
//!
//! The check is the same that the front makes after it has read the request; it is made for large bodies only. Where
//! several fronts share an address and only the body tells them apart, admission by one of them is enough.

use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::request;
use model::{Fault, Kind};

use super::{RequestLog, credential_missing};
use crate::GatewayVersion;
use crate::mounts::MountedAgent;
use crate::product::ProductEndpoint;
use crate::settings::AuthMode;
use web::credentials::API_KEY;

/// The rule that admits a large body at an address.
#[derive(Clone, Copy)]
pub enum Gate<'a> {
    /// The caller has been admitted already, or the address has a small limit of its own.
    Open,
    /// An agent's address; at some of them products have callers of their own.
    Agent(&'a MountedAgent),
    /// The default agent's address, where the message itself may name another agent: any agent that admits the caller.
    AnyAgent(&'a MountedAgent),
    Product(&'a (dyn ProductEndpoint + 'a)),
}

impl<'a> Gate<'a> {
    /// Whether the headers show a caller that is admitted. The fault is the one that the front would answer with, and a
    /// wrong credential counts against its address as it does there.
    pub(crate) async fn check(
        &self,
        server: &Arc<GatewayVersion>,
        head: &request::Parts,
        log: &RequestLog,
    ) -> Result<(), Fault> {
        let admitted = self.admit(server, head).await;
        if let (Some(throttle), Err(fault)) = (&server.throttle, &admitted)
            && fault.kind == Kind::Unauthenticated
            && (head.headers.contains_key(AUTHORIZATION) || head.headers.contains_key(&API_KEY))
        {
            throttle.failed(log.address)?;
        }
        admitted
    }

    async fn admit(&self, server: &Arc<GatewayVersion>, head: &request::Parts) -> Result<(), Fault> {
        match self {
            Gate::Open => Ok(()),
            Gate::Agent(mounted) => match at_mount(server, mounted, head).await {
                Err(fault) if is_shared(head) => {
                    for product in server.mounts.products() {
                        if product.knows_caller(server, head).await {
                            return Ok(());
                        }
                    }
                    Err(fault)
                }
                admitted => admitted,
            },
            Gate::AnyAgent(mounted) => match at_mount(server, mounted, head).await {
                Err(fault) => {
                    let is_anonymous = server.callers.identify(&head.headers).await.is_ok();
                    let is_open = |other: &MountedAgent| {
                        let admits_anyone = || !server.requires(other) || server.opens(&other.agent);
                        other.door == AuthMode::None || (is_anonymous && admits_anyone())
                    };
                    let mut agents = server.mounts.agents().iter().filter_map(|name| server.mounts.agent(name));
                    if agents.any(is_open) { Ok(()) } else { Err(fault) }
                }
                admitted => admitted,
            },
            Gate::Product(endpoint) => endpoint.admit(server, head).await,
        }
    }
}

/// An address at which products have callers of their own.
fn is_shared(head: &request::Parts) -> bool {
    matches!(head.uri.path(), "/" | "/a2a" | "/a2a/")
}

/// Whether the headers show a caller that an agent's address admits.
pub async fn at_mount(server: &GatewayVersion, mounted: &MountedAgent, head: &request::Parts) -> Result<(), Fault> {
    if mounted.door == AuthMode::None {
        return Ok(());
    }
    let caller = server.callers.identify(&head.headers).await?;
    if !caller.authenticated && server.requires(mounted) && !server.opens(&mounted.agent) {
        return Err(credential_missing(mounted));
    }
    Ok(())
}

/// The largest body that any address accepts.
pub fn largest_body(engine: &engine::Engine, settings: &crate::Settings) -> usize {
    let of_products = settings.products.iter().map(|product| product.largest_body()).max();
    engine.limits().body_bytes.max(of_products.unwrap_or_default())
}
