//! Routes that are not implemented, and the discovery document.

use schemars::JsonSchema;
use serde::Serialize;

use super::error::{Error, MarketCode};
use super::routes::{KeyedBody, MarketFuture, MarketRequest};

pub(super) fn cash<'a>(_: &'a MarketRequest<'a>, _: KeyedBody) -> MarketFuture<'a, ()> {
    let words = "this server keeps no cash: an operator credits UT with `rialto market credit`";
    Box::pin(async move { Err(Error::new(MarketCode::WALLET, words)) })
}

pub(super) fn hall<'a>(_: &'a MarketRequest<'a>, _: KeyedBody) -> MarketFuture<'a, ()> {
    let words = "the task hall (tasks, orders, disputes) is not part of this server: buy and sell \
                 capabilities at /api/v1/capabilities and /api/v1/transactions";
    Box::pin(async move { Err(Error::new(MarketCode::HALL, words)) })
}

/// Where to find what, and what to send along.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Interop {
    a2a_url: String,
    rest_base_url: String,
    openapi_url: String,
    agent_card_url: String,
    /// A seller's card; put the user's id in.
    seller_card_url: String,
    /// There is none.
    mcp_url: Option<String>,
    agent_headers: Vec<&'static str>,
    human_headers: Vec<&'static str>,
}

pub(super) fn debug<'a>(ask: &'a MarketRequest<'a>, _: KeyedBody) -> MarketFuture<'a, Interop> {
    let base = ask.base();
    Box::pin(async move {
        Ok(Interop {
            a2a_url: format!("{base}/uumit/a2a"),
            rest_base_url: format!("{base}/api/v1"),
            openapi_url: format!("{base}/api/v1/public/openapi.json"),
            agent_card_url: format!("{base}/uumit/.well-known/agent.json"),
            seller_card_url: format!("{base}/api/v1/agents/{{user_id}}/.well-known/agent.json"),
            mcp_url: None,
            agent_headers: vec!["X-Api-Key", "X-Platform-User-Id"],
            human_headers: vec!["Authorization: Bearer <access_token>"],
        })
    })
}
