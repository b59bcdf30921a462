//! A shop over HTTP: the storefront's REST API, checkout sessions, payment information for x402, and the page where a
//! person completes a checkout.
//!
//! * `routes`: the routes, and the permission that each needs
//! * `context`: an admitted request: its path, query, body and idempotency key
//! * `error`: errors with their code and status
//! * `catalogue`, `carts`, `sessions`, `orders`, `x402`: the handlers
//! * `page`: the checkout page
//!
//! The token of a cart, a checkout or an order is the only credential that its holder needs. Operations of the shop itself
//! need a credential of its workspace. A credential that is sent must be valid and of the shop's workspace also where none
//! is needed.

mod carts;
mod catalogue;
mod context;
mod error;
mod orders;
pub(crate) mod page;
mod routes;
mod sessions;
mod x402;

use std::sync::Arc;

use crate::service::Shop;
use bytes::Bytes;
use http::{HeaderValue, StatusCode, request};
use model::{Fault, Kind};
use serde_json::{Value, json};

use context::ShopRequest;
use error::Error;
use routes::ShopAudience;

use crate::ShopService;
use crate::aly::endpoint::{self as aly, PresentedCredential};
use crate::oauth::{covers, endpoints};
use gateway::GatewayVersion;
use gateway::fronts::{RequestLog, rest};
use web::body::Response;
use web::context::RequestContext;
use web::fault_codes::FaultCode;
use web::response::{Rejection, private_json};

/// Largest body of a request to these paths.
pub(crate) const BODY_BYTES: usize = 64 << 10;

/// A successful response.
struct Reply {
    status: StatusCode,
    body: Value,
}

impl Reply {
    fn ok(body: Value) -> Reply {
        Reply { status: StatusCode::OK, body }
    }
    fn made(body: Value) -> Reply {
        Reply { status: StatusCode::CREATED, body }
    }
}

/// Answers a request; `inside` is its path without the mount.
pub(crate) async fn answer(
    server: &Arc<GatewayVersion>,
    inside: &str,
    head: &request::Parts,
    body: Result<Bytes, Fault>,
    log: &mut RequestLog,
) -> Response {
    (log.dialect, log.operation) = (crate::aly::NAME, "storefront");
    log.path = without_secrets(head.uri.path());
    let Some(shop) = shop_of(server) else { return rest::nothing_at(head.uri.path(), head, log) };
    match call(server, shop, inside, head, body, log).await {
        Ok(reply) => private_json(reply.status, reply.body.to_string()),
        Err(error) => rejection(server, head, &error).respond(log),
    }
}

fn shop_of(server: &GatewayVersion) -> Option<&Shop> {
    ShopService::settings(server)?.shop.as_ref()
}

async fn call(
    server: &Arc<GatewayVersion>,
    shop: &Shop,
    inside: &str,
    head: &request::Parts,
    body: Result<Bytes, Fault>,
    log: &mut RequestLog,
) -> Result<Reply, Error> {
    let body = body?;
    let (route, params) = routes::find(&head.method, inside)?;
    let caller = identify_caller(server, route.audience, head, log).await?;
    let http = RequestContext { head, address: log.address, params, query: Vec::new(), body: &body };
    let request = ShopRequest::new(server, shop, http, route, caller)?;
    (route.handler)(&request).await
}

/// Identifies the caller and applies the rate limits; `None` is a caller without a credential.
async fn identify_caller(
    server: &Arc<GatewayVersion>,
    audience: ShopAudience,
    head: &request::Parts,
    log: &mut RequestLog,
) -> Result<Option<crate::service::WorkspaceCaller>, Error> {
    let throttle = server.throttle.as_ref();
    let Some(oauth) = ShopService::of(server).map(ShopService::oauth) else {
        return Err(Error::new(FaultCode::NOT_FOUND, "there is no shop here"));
    };
    let shown = match aly::identify(server, oauth, &head.headers).await {
        Ok(shown) => shown,
        Err(fault) => {
            if let (Some(throttle), Kind::Unauthenticated) = (throttle, fault.kind) {
                throttle.failed(log.address)?;
            }
            return Err(fault.into());
        }
    };
    let caller = match (shown, audience) {
        (PresentedCredential::Caller(caller), _) => caller,
        (PresentedCredential::Nothing | PresentedCredential::Session, ShopAudience::Scope(scope)) => {
            return Err(crate::service::Error::Unauthenticated(scope).into());
        }
        (PresentedCredential::Nothing | PresentedCredential::Session, ShopAudience::Anyone) if is_closed(server) => {
            return Err(aly::unauthenticated("authentication is required").into());
        }
        (PresentedCredential::Nothing | PresentedCredential::Session, ShopAudience::Anyone | ShopAudience::Holder) => {
            server.callers.anonymous().clone()
        }
    };
    log.caller = Some(caller.name.clone());
    if let Some(throttle) = throttle {
        throttle.admit(&caller, log.address)?;
    }
    match audience {
        ShopAudience::Scope(scope) if !covers(&caller.scopes, scope) => Err(crate::service::Error::Scope(scope).into()),
        ShopAudience::Scope(_) | ShopAudience::Anyone | ShopAudience::Holder => {
            Ok(crate::service::WorkspaceCaller::of(&caller))
        }
    }
}

/// Whether the operator requires authentication: then the catalogue is not public, either.
fn is_closed(server: &GatewayVersion) -> bool {
    let agent = ShopService::settings(server).and_then(|aly| server.mounts.agent(&aly.agent));
    agent.is_none_or(|mounted| aly::is_closed(server, mounted))
}

/// The path for the log, with tokens removed; `None` if the path has no token.
fn without_secrets(path: &str) -> Option<String> {
    let secret = |one: &&str| [shop_rules::CartToken::PREFIX, shop_rules::ConfirmationToken::PREFIX].contains(one);
    let begins = |segment: &str| segment.split_inclusive('_').next().filter(secret).map(str::to_owned);
    if !path.split('/').any(|segment| begins(segment).is_some()) {
        return None;
    }
    let shown =
        path.split('/').map(|segment| begins(segment).map_or_else(|| segment.to_owned(), |it| format!("{it}..")));
    Some(shown.collect::<Vec<_>>().join("/"))
}

fn rejection(server: &GatewayVersion, head: &request::Parts, error: &Error) -> Rejection {
    let details: Vec<Value> =
        error.details.iter().map(|(field, says)| json!({ "field": field, "message": says })).collect();
    let body = json!({ "error": { "code": error.code.word, "message": error.message, "details": details } });
    let challenge = || {
        let base = server.cards.base_url(&server.settings, head);
        let how = format!("Bearer realm=\"storefront\", resource_metadata=\"{}\"", endpoints::resource_url(&base));
        HeaderValue::from_str(&how).unwrap_or(HeaderValue::from_static("Bearer realm=\"storefront\""))
    };
    Rejection::new(error.status(), error.message.as_str(), body.to_string())
        .retry_after(error.retry_after_s)
        .allow(error.allow.as_deref())
        .challenge(challenge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_token_is_in_a_log() {
        let shown = without_secrets("/aly/api/storefront/v1/carts/cart_0abc/items/sun");
        assert_eq!(shown.as_deref(), Some("/aly/api/storefront/v1/carts/cart_../items/sun"));
        let shown = without_secrets("/api/storefront/v1/orders/conf_1");
        assert_eq!(shown.as_deref(), Some("/api/storefront/v1/orders/conf_.."));
        assert_eq!(without_secrets("/api/storefront/v1/orders/ord_1/refund"), None);
    }
}
