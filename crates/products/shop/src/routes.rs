//! The paths of the product: the store agent's endpoint, OAuth, the REST API and the checkout page. Each is served below the
//! mount `/aly` and at the root, where clients of Aly expect it.

use std::sync::Arc;

use engine::Engine;
use futures_util::future::BoxFuture;
use http::request;
use model::{CallScope, Caller, Fault};
use web::body::Response;

use super::StoreAgentSettings;
use crate::aly::endpoint as aly;
use crate::aly::endpoint::PresentedCredential;
use crate::config::Aly as ShopSection;
use crate::oauth::Oauth;
use crate::oauth::endpoints::{self, MetadataDocument};
use crate::service::ShopHandle;
use crate::storefront;
use gateway::fronts::rest;
use gateway::mounts::{CARD, OLD_CARD};
use gateway::product::{
    Accepts, CardRequest, Demo, EndpointRequest, ProductEndpoint, ProductRoute, ProductService, RefusalForm,
    RequestBody, SendGuard,
};
use gateway::{GatewayVersion, Settings, settings};

pub struct ShopService {
    pub(crate) settings: StoreAgentSettings,
    /// API keys and tokens of workspaces.
    oauth: Oauth,
    guard: Arc<ShopGuard>,
    /// The section of the config.
    written: ShopSection,
    handle: ShopHandle,
}

impl ShopService {
    pub fn new(engine: Engine, settings: StoreAgentSettings) -> ShopService {
        let oauth = Oauth::new(engine, settings.oauth.clone());
        let guard = Arc::new(ShopGuard { aly: settings.clone() });
        ShopService { settings, oauth, guard, written: ShopSection::default(), handle: ShopHandle::default() }
    }

    /// The service of shops with this section of the config.
    pub(crate) fn named(self, written: ShopSection, handle: ShopHandle) -> ShopService {
        ShopService { written, handle, ..self }
    }

    pub(crate) fn written(&self) -> &ShopSection {
        &self.written
    }

    pub(crate) fn handle(&self) -> &ShopHandle {
        &self.handle
    }

    pub(crate) fn of(server: &GatewayVersion) -> Option<&ShopService> {
        server.product()
    }

    /// The settings, if the server has shops.
    pub(crate) fn settings(server: &GatewayVersion) -> Option<&StoreAgentSettings> {
        ShopService::of(server).map(|service| &service.settings)
    }

    /// The shops, if Rialto runs them itself.
    pub fn shop(&self) -> Option<&crate::service::Shop> {
        self.settings.shop.as_ref()
    }

    /// API keys and tokens of workspaces.
    pub fn oauth(&self) -> &Oauth {
        &self.oauth
    }
}

/// Checks the permissions of a message at the store agent's other mounts, as the product's own endpoint does.
struct ShopGuard {
    aly: StoreAgentSettings,
}

impl SendGuard for ShopGuard {
    fn own_dialect(&self) -> &'static str {
        crate::aly::NAME
    }

    fn admit<'a>(
        &'a self,
        engine: &'a Engine,
        place: &'a CallScope,
        send: &'a model::Send,
        caller: Option<&'a Caller>,
    ) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(async move {
            let task = match send.task.as_deref().or(send.alias.as_deref()) {
                Some(id) => engine.get(place, id).await.ok(),
                None => None,
            };
            aly::admit(&self.aly, send, caller, task.as_deref()).await.map(drop)
        })
    }
}

impl ProductService for ShopService {
    fn route<'a>(&'a self, path: &'a str) -> ProductRoute<'a> {
        route(path, self.settings.shop.is_some()).map_or(ProductRoute::NotMine, |found| {
            found.map_or(ProductRoute::Nothing, |endpoint| ProductRoute::Found(Box::new(endpoint)))
        })
    }

    fn send_guard(&self) -> Option<(&Arc<str>, Arc<dyn SendGuard>)> {
        Some((&self.settings.agent, self.guard.clone()))
    }

    fn check(&self, settings: &Settings) -> Result<(), settings::Error> {
        aly::check(&self.settings, settings)
    }

    fn demo(&self) -> Option<&dyn Demo> {
        Some(self)
    }

    fn scoped_agent(&self) -> Option<&Arc<str>> {
        Some(&self.settings.agent)
    }

    fn separates_tenants(&self, agent: &str) -> bool {
        *self.settings.agent == *agent
    }

    /// At the host of a shop, the origin's card is the card of the shop.
    fn card<'a>(&'a self, request: CardRequest<'a>) -> Option<BoxFuture<'a, Option<Response>>> {
        let CardRequest { server, head, is_origin, log } = request;
        is_origin.then(|| Box::pin(aly::shop_card(server, head, log)) as BoxFuture<'a, Option<Response>>)
    }
}

#[derive(Debug)]
pub(crate) enum ShopEndpoint<'a> {
    /// The path below `/api/a2a`.
    Agent(&'a str),
    Card,
    /// The path below `/oauth`.
    Oauth(&'a str),
    OauthDocument(MetadataDocument),
    /// The whole path without the mount.
    Rest(&'a str),
    /// The path below `/checkout/`.
    CheckoutPage(&'a str),
}

/// The endpoint of a path: `None` if the path is not of this product, `Some(None)` if nothing is there although the path is
/// below the product's mount. `sells` is whether the storefront is served.
fn route(path: &str, sells: bool) -> Option<Option<ShopEndpoint<'_>>> {
    let mounted = path.strip_prefix("/aly").filter(|below| below.starts_with('/'));
    let inside = mounted.unwrap_or(path);
    let below = |prefix: &str| inside.strip_prefix(prefix).filter(|rest| rest.is_empty() || rest.starts_with('/'));
    if let Some(rest) = below("/api/a2a") {
        return Some(Some(if matches!(rest, CARD | OLD_CARD) {
            ShopEndpoint::Card
        } else {
            ShopEndpoint::Agent(rest)
        }));
    }
    if let Some(rest) = below("/oauth") {
        return Some(Some(ShopEndpoint::Oauth(rest)));
    }
    if sells {
        if ["/api/storefront/v1", "/api/ucp/v1", "/api/x402"].iter().any(|prefix| below(prefix).is_some()) {
            return Some(Some(ShopEndpoint::Rest(inside)));
        }
        if let Some(rest) = below("/checkout") {
            return Some(Some(ShopEndpoint::CheckoutPage(rest.strip_prefix('/').unwrap_or(rest))));
        }
    }
    // The path of a metadata document may end with the path of the resource.
    let about = |prefix: &str| matches!(below(prefix), Some("" | "/" | "/aly" | "/api/a2a" | "/aly/api/a2a"));
    if about("/.well-known/oauth-authorization-server") {
        return Some(Some(ShopEndpoint::OauthDocument(MetadataDocument::Server)));
    }
    if about("/.well-known/oauth-protected-resource") {
        return Some(Some(ShopEndpoint::OauthDocument(MetadataDocument::Resource)));
    }
    match mounted? {
        CARD | OLD_CARD => Some(Some(ShopEndpoint::Card)),
        _ => Some(None),
    }
}

impl ProductEndpoint for ShopEndpoint<'_> {
    fn accepts(&self, _server: &GatewayVersion) -> Accepts {
        match self {
            ShopEndpoint::Agent(_) => Accepts::Stream,
            ShopEndpoint::Card | ShopEndpoint::OauthDocument(_) => Accepts::Get,
            ShopEndpoint::Oauth(_) => Accepts::Any(Some(endpoints::BODY_BYTES)),
            ShopEndpoint::Rest(_) | ShopEndpoint::CheckoutPage(_) => Accepts::Any(Some(storefront::BODY_BYTES)),
        }
    }

    fn admit<'a>(
        &'a self,
        server: &'a Arc<GatewayVersion>,
        head: &'a request::Parts,
    ) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(async move {
            match self {
                ShopEndpoint::Agent(_) => identify(server, head).await,
                // These have a small body or none.
                ShopEndpoint::Card
                | ShopEndpoint::Oauth(_)
                | ShopEndpoint::OauthDocument(_)
                | ShopEndpoint::Rest(_)
                | ShopEndpoint::CheckoutPage(_) => Ok(()),
            }
        })
    }

    fn answer<'a>(&'a self, request: EndpointRequest<'a>) -> BoxFuture<'a, Response> {
        let EndpointRequest { server, head, body, log } = request;
        Box::pin(async move {
            match self {
                ShopEndpoint::Agent(below) => match body {
                    RequestBody::Stream(body) => aly::answer(server, below, head, body, log).await,
                    RequestBody::Refused(fault) => aly::answer_unread(server, below, head, &fault, log),
                    RequestBody::Read(_) => {
                        aly::answer_unread(server, below, head, &Fault::internal("a body that was read"), log)
                    }
                },
                ShopEndpoint::Card => aly::card(server, head, log).await,
                ShopEndpoint::OauthDocument(which) => endpoints::document(server, *which, head, log),
                ShopEndpoint::Oauth(below) => match ShopService::of(server).map(ShopService::oauth) {
                    Some(oauth) => endpoints::answer(server, oauth, below, head, body.into_bytes(), log).await,
                    None => rest::nothing_at(head.uri.path(), head, log),
                },
                ShopEndpoint::Rest(inside) => storefront::answer(server, inside, head, body.into_bytes(), log).await,
                ShopEndpoint::CheckoutPage(id) => {
                    storefront::page::answer(server, id, head, body.into_bytes(), log).await
                }
            }
        })
    }

    fn refusals(&self) -> RefusalForm {
        match self {
            ShopEndpoint::Agent(_) | ShopEndpoint::Rest(_) | ShopEndpoint::CheckoutPage(_) => RefusalForm::Answer,
            ShopEndpoint::Card | ShopEndpoint::Oauth(_) | ShopEndpoint::OauthDocument(_) => RefusalForm::Text,
        }
    }
}

/// Checks the credential of a request to the store agent before its body is read.
async fn identify(server: &GatewayVersion, head: &request::Parts) -> Result<(), Fault> {
    let Some(ShopService { settings, oauth, .. }) = ShopService::of(server) else { return Ok(()) };
    let Some(mounted) = server.mounts.agent(&settings.agent) else { return Ok(()) };
    match aly::identify(server, oauth, &head.headers).await? {
        PresentedCredential::Caller(_) => Ok(()),
        PresentedCredential::Nothing | PresentedCredential::Session if aly::is_closed(server, mounted) => {
            Err(aly::unauthenticated("authentication is required"))
        }
        PresentedCredential::Nothing | PresentedCredential::Session => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_shops() {
        let name = |endpoint: ShopEndpoint<'_>| match endpoint {
            ShopEndpoint::Agent(below) => format!("agent {below}"),
            ShopEndpoint::Card => "card".into(),
            ShopEndpoint::Oauth(below) => format!("oauth {below}"),
            ShopEndpoint::OauthDocument(MetadataDocument::Server) => "oauth server".into(),
            ShopEndpoint::OauthDocument(MetadataDocument::Resource) => "oauth resource".into(),
            ShopEndpoint::Rest(path) => format!("rest {path}"),
            ShopEndpoint::CheckoutPage(id) => format!("checkout {id}"),
        };
        let found = |path: &str, sells: bool| match route(path, sells) {
            Some(found) => found.map_or("nothing".to_owned(), name),
            None => "not mine".to_owned(),
        };
        for (path, expected) in [
            ("/api/a2a", "agent "),
            ("/api/a2a/", "agent /"),
            ("/api/a2a/message:send", "agent /message:send"),
            ("/aly/api/a2a/tasks/t/push-configs/c", "agent /tasks/t/push-configs/c"),
            ("/api/a2a/.well-known/agent-card.json", "card"),
            ("/aly/.well-known/agent-card.json", "card"),
            ("/oauth/token", "oauth /token"),
            ("/aly/oauth/authorize", "oauth /authorize"),
            ("/.well-known/oauth-authorization-server", "oauth server"),
            ("/.well-known/oauth-authorization-server/aly", "oauth server"),
            ("/.well-known/oauth-protected-resource/api/a2a", "oauth resource"),
            ("/.well-known/oauth-protected-resource/else", "not mine"),
            ("/api/v1/capabilities", "not mine"),
            ("/api/a2ab", "not mine"),
            ("/oauthx", "not mine"),
            ("/aly", "not mine"),
            ("/aly/else", "nothing"),
            ("/a2a", "not mine"),
            ("/message:send", "not mine"),
            ("/.well-known/agent-card.json", "not mine"),
        ] {
            assert_eq!(found(path, false), expected, "{path}");
            assert_eq!(found(path, true), expected, "{path}");
        }
        for (path, expected) in [
            ("/api/storefront/v1/carts", "rest /api/storefront/v1/carts"),
            ("/aly/api/storefront/v1/stores/acme", "rest /api/storefront/v1/stores/acme"),
            ("/api/ucp/v1/checkout-sessions", "rest /api/ucp/v1/checkout-sessions"),
            ("/api/x402/product/acme/sun", "rest /api/x402/product/acme/sun"),
            ("/checkout/cs_1", "checkout cs_1"),
            ("/aly/checkout/cs_1", "checkout cs_1"),
            ("/api/storefront/v2", "not mine"),
            ("/checkoutx", "not mine"),
        ] {
            assert_eq!(found(path, true), expected, "{path}");
            assert!(matches!(found(path, false).as_str(), "nothing" | "not mine"), "{path}");
        }
    }
}
