//! The market's addresses: its JSON-RPC endpoint, the card of its platform and its REST API.

use std::sync::Arc;

use dialects::framing::scan;
use futures_util::future::BoxFuture;
use http::{HeaderMap, request};
use model::{Fault, Kind};
use web::body::Response;

use super::MarketSettings;
use crate::config::MarketSection;
use crate::rest::request_rate::RequestRate;
use crate::service::{Market, MarketConfig};
use crate::uumit::endpoint as uumit;
use crate::{PLATFORM_USER, rest};
use gateway::fronts::RequestLog;
use gateway::product::{
    Accepts, Demo, EndpointRequest, Ownership, ProductEndpoint, ProductRoute, ProductService, RefusalForm,
    SharedAddress, SharedCall,
};
use gateway::{GatewayVersion, auth, intake};

pub struct MarketService {
    settings: MarketSettings,
    pub(crate) rate: Option<RequestRate>,
    /// The market's section of the config.
    terms: MarketSection,
    /// Takes effect when the service is in force.
    config: Option<MarketConfig>,
}

impl MarketService {
    pub fn new(settings: MarketSettings) -> MarketService {
        let rate = RequestRate::new(&settings);
        MarketService { settings, rate, terms: MarketSection::default(), config: None }
    }

    /// The service of a market with these terms.
    pub(crate) fn named(self, terms: MarketSection) -> MarketService {
        MarketService { terms, ..self }
    }

    /// The same market with other terms.
    pub(crate) fn with_terms(&self, terms: MarketSection, config: MarketConfig) -> MarketService {
        MarketService { settings: self.settings.clone(), rate: self.rate.clone(), terms, config: Some(config) }
    }

    pub(crate) fn terms(&self) -> &MarketSection {
        &self.terms
    }

    pub(crate) fn market(&self) -> &Market {
        &self.settings.market
    }

    /// The market's settings; `None` if this gateway has no market.
    pub(crate) fn settings(server: &GatewayVersion) -> Option<&MarketSettings> {
        server.product::<MarketService>().map(|service| &service.settings)
    }
}

impl ProductService for MarketService {
    fn route<'a>(&'a self, path: &'a str) -> ProductRoute<'a> {
        ProductRoute::of(route(path))
    }

    fn in_force(&self) {
        if let Some(config) = &self.config {
            self.market().set_config(config.clone());
        }
    }

    fn demo(&self) -> Option<&dyn Demo> {
        Some(self)
    }

    fn largest_body(&self) -> usize {
        rest::largest_body(&self.settings)
    }

    fn shared(&self) -> Option<&dyn SharedAddress> {
        Some(&MarketAddress)
    }

    fn knows_caller<'a>(&'a self, server: &'a Arc<GatewayVersion>, head: &'a request::Parts) -> BoxFuture<'a, bool> {
        Box::pin(async move { identify(server, head).await.is_ok() })
    }
}

/// The addresses that the market shares with the default agent.
pub struct MarketAddress;

impl SharedAddress for MarketAddress {
    fn paths(&self) -> &'static [&'static str] {
        &["/", "/a2a", "/a2a/"]
    }

    fn methods(&self) -> &'static [&'static str] {
        &crate::uumit::METHODS
    }

    fn dialect(&self) -> &'static str {
        crate::uumit::NAME
    }

    fn by_headers(&self, _server: &GatewayVersion, headers: &HeaderMap) -> bool {
        headers.contains_key(&PLATFORM_USER)
    }

    /// Only requests of the market have `capability_id`. An id of the market's form is the market's too, unless there
    /// is a message.
    fn by_params(&self, _method: &str, params: Option<&str>, has_session: bool) -> Ownership {
        let (mut is_named, mut has_message) = (false, false);
        for (name, value) in params.into_iter().flat_map(scan::members) {
            match name {
                "capability_id" => return Ownership::Yes,
                "id" => is_named = value.starts_with("\"task_") || value.starts_with("\"tx_"),
                "message" => has_message = true,
                _ => {}
            }
        }
        if is_named && !has_message && !has_session { Ownership::Yes } else { Ownership::No }
    }

    fn owns<'a>(&'a self, _call: SharedCall<'a>) -> BoxFuture<'a, bool> {
        Box::pin(std::future::ready(false))
    }

    fn answer_unread<'a>(&'a self, request: EndpointRequest<'a>) -> BoxFuture<'a, Response> {
        let EndpointRequest { server, head, body, log } = request;
        Box::pin(async move { uumit::answer(server, head, body.into_bytes(), log).await })
    }

    fn answer<'a>(&'a self, call: SharedCall<'a>, log: &'a mut RequestLog) -> BoxFuture<'a, Response> {
        Box::pin(uumit::answer_to(call.server, call.head, call.request, log))
    }
}

#[derive(Debug)]
enum MarketEndpoint<'a> {
    JsonRpc,
    Card,
    /// The path below `/api/v1`, with its leading slash.
    Rest(&'a str),
}

fn route(path: &str) -> Option<MarketEndpoint<'_>> {
    match path {
        "/uumit/a2a" | "/uumit/a2a/" => Some(MarketEndpoint::JsonRpc),
        "/uumit/.well-known/agent.json" | "/uumit/.well-known/agent-card.json" => Some(MarketEndpoint::Card),
        _ => {
            let below = path.strip_prefix("/api/v1")?;
            (below.is_empty() || below.starts_with('/')).then_some(MarketEndpoint::Rest(below))
        }
    }
}

impl ProductEndpoint for MarketEndpoint<'_> {
    fn accepts(&self, server: &GatewayVersion) -> Accepts {
        match self {
            MarketEndpoint::JsonRpc => Accepts::PostJson(None),
            MarketEndpoint::Card => Accepts::Get,
            MarketEndpoint::Rest(below) => Accepts::Any(rest::body_bytes(server, below)),
        }
    }

    fn is_jsonrpc(&self) -> bool {
        matches!(self, MarketEndpoint::JsonRpc)
    }

    fn admit<'a>(
        &'a self,
        server: &'a Arc<GatewayVersion>,
        head: &'a request::Parts,
    ) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(async move {
            match self {
                MarketEndpoint::JsonRpc => identify(server, head).await,
                MarketEndpoint::Card => Ok(()),
                // REST routes authenticate later; here only the size limit of anonymous requests applies.
                MarketEndpoint::Rest(_) => identify(server, head).await.map_err(|_| {
                    let most = intake::STRANGER_BYTES;
                    let message =
                        format!("without a key or token a request is at most {most} bytes; send one, or send less");
                    Fault::new(Kind::TooLarge, message)
                }),
            }
        })
    }

    fn answer<'a>(&'a self, request: EndpointRequest<'a>) -> BoxFuture<'a, Response> {
        let EndpointRequest { server, head, body, log } = request;
        Box::pin(async move {
            let body = body.into_bytes();
            match self {
                MarketEndpoint::JsonRpc => uumit::answer(server, head, body, log).await,
                MarketEndpoint::Card => uumit::card(server, head, log).await,
                MarketEndpoint::Rest(below) => rest::answer(server, below, head, body, log).await,
            }
        })
    }

    fn refusals(&self) -> RefusalForm {
        match self {
            MarketEndpoint::JsonRpc | MarketEndpoint::Rest(_) => RefusalForm::Answer,
            MarketEndpoint::Card => RefusalForm::Text,
        }
    }
}

/// Authenticates the headers as a user of the market.
async fn identify(server: &GatewayVersion, head: &request::Parts) -> Result<(), Fault> {
    let Some(uumit) = MarketService::settings(server) else { return Err(auth::credential_required()) };
    match uumit.market.who(uumit::credentials(&head.headers)).await {
        Ok(_) => Ok(()),
        Err(crate::service::Error::Fault(fault)) => Err(fault),
        Err(refused) => Err(Fault::new(Kind::Unauthenticated, refused.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_the_market() {
        for (path, expected) in [
            ("/uumit/a2a", "Some(JsonRpc)"),
            ("/uumit/a2a/", "Some(JsonRpc)"),
            ("/uumit/.well-known/agent.json", "Some(Card)"),
            ("/uumit/.well-known/agent-card.json", "Some(Card)"),
            ("/api/v1", "Some(Rest(\"\"))"),
            ("/api/v1/capabilities", "Some(Rest(\"/capabilities\"))"),
            ("/api/v1x", "None"),
            ("/uumit", "None"),
            ("/a2a", "None"),
        ] {
            assert_eq!(format!("{:?}", route(path)), expected, "{path}");
        }
    }
}
