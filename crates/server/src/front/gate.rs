//! Who is let in at an address, by the headers alone: before more of a body is read than anybody may send.
//!
//! It asks the same that the front asks once it has read the request, and is asked for large bodies only. Where several
//! fronts share an address, and only the body tells which of them is meant, being let in by one of them is enough.

use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::request;
use model::{Fault, Kind};

use super::aly::{self, Shown};
use super::{RequestLog, credential_missing, uumit};
use crate::mount::{Mounted, Target};
use crate::settings::Door;
use crate::{Server, callers};
use web::credentials::API_KEY;

/// Where a body is read, as far as it matters who sends it.
#[derive(Clone, Copy)]
pub(crate) enum Gate<'a> {
    /// The caller has been let in already, or the address has a small limit of its own.
    Open,
    /// An agent's address; at some of them products have callers of their own.
    Agent(&'a Mounted),
    Assistant(&'a str),
    Uumit,
    Market,
    Orloj,
    Aly,
}

impl<'a> Gate<'a> {
    pub(crate) fn of(target: &Target<'a>) -> Gate<'a> {
        match target {
            Target::Rpc(mounted) => Gate::Agent(mounted),
            Target::Assistant(assistant) => Gate::Assistant(assistant),
            Target::Uumit => Gate::Uumit,
            Target::Market(_) => Gate::Market,
            Target::Orloj(_) | Target::Resources(..) => Gate::Orloj,
            Target::Aly(_) => Gate::Aly,
            // These know their callers before they read, take little, or read nothing.
            Target::Rest(..)
            | Target::Workers(..)
            | Target::Oauth(_)
            | Target::Storefront(_)
            | Target::CheckoutPage(_)
            | Target::Health
            | Target::Ready
            | Target::Metrics
            | Target::Agents
            | Target::Index
            | Target::Jwks
            | Target::Card(_)
            | Target::AssistantCard
            | Target::UumitCard
            | Target::OrlojCard(_)
            | Target::OrlojAgents
            | Target::AlyCard
            | Target::OauthDocument(_)
            | Target::File(_)
            | Target::OldExtendedCard(_)
            | Target::Unknown => Gate::Open,
        }
    }

    /// Whether the headers show a caller who is let in. The fault is the one that the front would answer with, and a wrong
    /// credential counts against its address as it does there.
    pub(crate) async fn check(
        &self,
        server: &Arc<Server>,
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

    async fn admit(&self, server: &Arc<Server>, head: &request::Parts) -> Result<(), Fault> {
        match self {
            Gate::Open => Ok(()),
            Gate::Agent(mounted) => match at_mount(server, mounted, head).await {
                Err(_) if is_shared(head) && (is_of_market(server, head).await || is_of_orloj(server, head).await) => {
                    Ok(())
                }
                admitted => admitted,
            },
            Gate::Assistant(assistant) => {
                match assistant.parse().ok().and_then(|id| server.mounts.assistant(id)) {
                    Some(mounted) => at_mount(server, mounted, head).await,
                    // Only a caller who is let in learns that the assistant does not exist.
                    None => {
                        let caller = server.callers.identify(&head.headers).await?;
                        let closed = server.callers.required() && !caller.authenticated;
                        if closed { Err(callers::nobody()) } else { Ok(()) }
                    }
                }
            }
            Gate::Uumit => in_market(server, head).await,
            // The front asks who is calling before it looks at the body; what is left are routes for everybody.
            Gate::Market => in_market(server, head).await.map_err(|_| {
                let most = crate::intake::STRANGER_BYTES;
                let says = format!("without a key or token a request is at most {most} bytes; send one, or send less");
                Fault::new(Kind::TooLarge, says)
            }),
            Gate::Orloj => match &server.orloj {
                Some(house) => house.lets_in(server, &head.headers).await,
                None => Ok(()),
            },
            Gate::Aly => at_shops(server, head).await,
        }
    }
}

/// An address at which products have callers of their own.
fn is_shared(head: &request::Parts) -> bool {
    matches!(head.uri.path(), "/" | "/a2a" | "/a2a/")
}

async fn at_mount(server: &Server, mounted: &Mounted, head: &request::Parts) -> Result<(), Fault> {
    if mounted.door == Door::None {
        return Ok(());
    }
    let caller = server.callers.identify(&head.headers).await?;
    if !caller.authenticated && server.requires(mounted) && !server.opens(&mounted.agent) {
        return Err(credential_missing(mounted));
    }
    Ok(())
}

async fn in_market(server: &Server, head: &request::Parts) -> Result<(), Fault> {
    let Some(uumit) = &server.settings.market else { return Err(callers::nobody()) };
    match uumit.market.who(uumit::credentials(&head.headers)).await {
        Ok(_) => Ok(()),
        Err(trade::Refused::Fault(fault)) => Err(fault),
        Err(refused) => Err(Fault::new(Kind::Unauthenticated, refused.to_string())),
    }
}

async fn is_of_market(server: &Server, head: &request::Parts) -> bool {
    server.settings.market.is_some() && in_market(server, head).await.is_ok()
}

async fn is_of_orloj(server: &Server, head: &request::Parts) -> bool {
    match &server.orloj {
        Some(house) => house.lets_in(server, &head.headers).await.is_ok(),
        None => false,
    }
}

async fn at_shops(server: &Server, head: &request::Parts) -> Result<(), Fault> {
    let (Some(settings), Some(oauth)) = (&server.settings.aly, &server.oauth) else { return Ok(()) };
    let Some(mounted) = server.mounts.agent(&settings.agent) else { return Ok(()) };
    match aly::identify(server, oauth, &head.headers).await? {
        Shown::Caller(_) => Ok(()),
        Shown::Nothing | Shown::Session if aly::is_closed(server, mounted) => {
            Err(aly::nobody("authentication is required"))
        }
        Shown::Nothing | Shown::Session => Ok(()),
    }
}

/// The largest body that any address takes.
pub(crate) fn largest_body(engine: &engine::Engine, settings: &crate::Settings) -> usize {
    let market = settings.market.as_ref().map_or(0, super::market::largest_body);
    let orloj = settings.orloj.as_ref().map_or(0, |orloj| orloj.body_bytes);
    engine.limits().body_bytes.max(market).max(orloj)
}
