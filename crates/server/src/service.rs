//! One request from its first to its last byte: what is common to all, whatever they ask for.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dialects::framing::jsonrpc::{self, OwnedId};
use dialects::framing::scan;
use futures_util::FutureExt;
use http::header::{ALLOW, CACHE_CONTROL, CONNECTION, RETRY_AFTER};
use http::{HeaderValue, Method, Request, StatusCode, Version};
use hyper::body::{Body as _, Incoming};
use model::{Fault, Kind};
use web::body::Response;
use web::headers::{REQUEST_ID, check_media_type, request_id, trace};
use web::request_log::RequestLine;
use web::{client_address, cors};

use crate::front::langgraph::Address;
use crate::front::{self, Gate, RequestLog};
use crate::linger::BodyUnread;
use crate::metrics::Outcome;
use crate::mount::{self, Mounted, Target};
use crate::oauth::endpoints;
use crate::{Server, intake, operations};

/// How long the body of a refused request is waited for.
const REFUSED_BODY: Duration = Duration::from_millis(250);

/// The requests that a connection is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coverage {
    Everything,
    /// One request about the server's health: all other connections are taken.
    HealthOnly,
}

fn no_connection_left() -> Fault {
    let message =
        "the server has as many connections as it takes, in all or from your address; close one, or try again in 2 s";
    Fault::new(Kind::Unavailable, message).retry_after(2)
}

pub(crate) async fn respond(
    server: Arc<Server>,
    request: Request<Incoming>,
    peer: SocketAddr,
    coverage: Coverage,
) -> Result<Response, Infallible> {
    let began = Instant::now();
    let (mut head, body) = request.into_parts();
    let request_id = request_id(&head.headers);
    let address = client_address::settle(peer.ip(), &mut head.headers, &server.settings.trusted_proxies);
    // A small body that is not read is taken along with the next request: its connection lasts.
    let is_large = body.size_hint().upper().is_none_or(|bytes| bytes > intake::STRANGER_BYTES as u64);
    let mut told = RequestLog { address, body_ended: body.is_end_stream(), ..RequestLog::default() };
    let mut response = match cors::preflight(server.settings.allowed_origins(), &head.method, &head.headers) {
        Some(response) => response,
        None => {
            let answered =
                AssertUnwindSafe(Box::pin(dispatch(&server, &head, body, coverage, &mut told))).catch_unwind().await;
            match answered {
                Ok(response) => response,
                Err(_) => Box::pin(panicked(&server, &head, &request_id, &mut told)).await,
            }
        }
    };
    let micros = began.elapsed().as_micros() as u64;
    cors::allow(server.settings.allowed_origins(), &head.headers, response.headers_mut());
    // Whatever does not say that copies may be kept is private.
    response.headers_mut().entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if let Ok(id) = HeaderValue::from_str(&request_id) {
        response.headers_mut().insert(REQUEST_ID.clone(), id);
    }
    if !told.body_ended {
        response.extensions_mut().insert(BodyUnread);
    }
    let closes = coverage == Coverage::HealthOnly || (is_large && !told.body_ended);
    if closes && head.version <= Version::HTTP_11 {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    let status = response.status();
    let failed = told.fault.is_some() || status.is_client_error() || status.is_server_error();
    server.metrics.count(told.operation, if failed { Outcome::Fault } else { Outcome::Ok }, micros);
    server.log.request(&RequestLine {
        method: head.method.as_str(),
        path: told.path.as_deref().unwrap_or(head.uri.path()),
        status: status.as_u16(),
        micros,
        operation: told.operation,
        dialect: told.dialect,
        agent: told.agent.as_deref().unwrap_or("-"),
        caller: told.caller.as_deref().unwrap_or("-"),
        request_id: &request_id,
        trace: trace(&head.headers),
        fault: told.fault.as_deref(),
        peer,
    });
    Ok(response)
}

async fn dispatch(
    server: &Arc<Server>,
    head: &http::request::Parts,
    body: Incoming,
    coverage: Coverage,
    told: &mut RequestLog,
) -> Response {
    let path = head.uri.path();
    let get = head.method == Method::GET || head.method == Method::HEAD;
    let target = server.mounts.resolve(path, head.method == Method::POST);
    if coverage == Coverage::HealthOnly && !matches!(target, Target::Health | Target::Ready) {
        return Box::pin(turn_away(server, target, head, no_connection_left(), told)).await;
    }
    if let Some(throttle) = &server.throttle
        // A worker is known by its secret, and speaks often.
        && !matches!(target, Target::Health | Target::Ready | Target::Metrics | Target::Workers(..))
        && let Err(fault) = throttle.check_rate(told.address)
    {
        if matches!(target, Target::Rpc(_) | Target::Uumit) {
            told.rpc_id = Box::pin(refused_id(server, head, body)).await;
        }
        return Box::pin(turn_away(server, target, head, fault, told)).await;
    }
    // A shop's own host has the shop's card, where others have the default agent's.
    if get
        && matches!(target, Target::Card(_))
        && matches!(path, mount::CARD | mount::OLD_CARD)
        && server.settings.aly.is_some()
        && let Some(card) = Box::pin(front::aly::shop_card(server, head, told)).await
    {
        return card;
    }
    let gate = Gate::of(&target);
    // Whatever is rarer than a call of the protocol is boxed: every request would have to carry it.
    match target {
        Target::Health if get => operations::text(StatusCode::OK, "ok\n"),
        Target::Ready if get => Box::pin(server.ready()).await,
        Target::Metrics if get => Box::pin(server.show_metrics()).await,
        Target::Agents if get => server.list_agents(head),
        Target::Index if get => server.index(head),
        Target::Jwks if get => server.jwks().unwrap_or_else(|| front::rest::nothing_at(path, head, told)),
        // An origin's card may be asked for an assistant's.
        Target::Card(_) if get && asks_for_assistant(server, head) => front::langgraph::card_by_query(server, head),
        Target::AssistantCard if get => front::langgraph::card_by_query(server, head),
        Target::UumitCard if get => Box::pin(front::uumit::card(server, head, told)).await,
        Target::OrlojCard(named) if get => front::orloj::card(server, named, head, told),
        Target::OrlojAgents if get => Box::pin(front::orloj::registry(server, head, told)).await,
        Target::AlyCard if get => Box::pin(front::aly::card(server, head, told)).await,
        Target::OauthDocument(which) if get => endpoints::document(server, which, head, told),
        Target::File(file) if get => Box::pin(front::file(server, file, head, told)).await,
        Target::Card(mounted) if get => {
            told.operation = "card";
            told.agent = Some(mounted.agent.clone());
            server.public_card(mounted, head).unwrap_or_else(|| front::rest::unknown_address(server, path, head, told))
        }
        Target::OldExtendedCard(mounted) if get => {
            told.agent = Some(mounted.agent.clone());
            Box::pin(front::rest::old_extended_card(server, mounted, head, told)).await
        }
        Target::Index => not_allowed("GET, HEAD, POST"),
        Target::OldExtendedCard(_)
        | Target::Health
        | Target::Ready
        | Target::Metrics
        | Target::Agents
        | Target::Jwks
        | Target::AssistantCard
        | Target::UumitCard
        | Target::OrlojCard(_)
        | Target::OrlojAgents
        | Target::AlyCard
        | Target::OauthDocument(_)
        | Target::File(_)
        | Target::Card(_) => not_allowed("GET, HEAD"),
        Target::Orloj(_) if head.method != Method::POST => not_allowed("POST"),
        Target::Orloj(named) => {
            if let Err(fault) = check_media_type(&head.headers) {
                return Box::pin(front::orloj::answer(server, named, head, Err(fault), told)).await;
            }
            let limit = server.settings.orloj.as_ref().map(|orloj| orloj.body_bytes);
            let body = intake::read(server, head, body, limit, gate, told).await;
            Box::pin(front::orloj::answer(server, named, head, body, told)).await
        }
        Target::Aly(below) => Box::pin(front::aly::answer(server, below, head, body, told)).await,
        Target::Oauth(below) => {
            let Some(oauth) = &server.oauth else { return front::rest::nothing_at(path, head, told) };
            let body = intake::read(server, head, body, Some(endpoints::BODY_BYTES), gate, told).await;
            Box::pin(endpoints::answer(server, oauth, below, head, body, told)).await
        }
        Target::Storefront(inside) => {
            let body = intake::read(server, head, body, Some(front::storefront::BODY_BYTES), gate, told).await;
            Box::pin(front::storefront::answer(server, inside, head, body, told)).await
        }
        Target::CheckoutPage(id) => {
            let body = intake::read(server, head, body, Some(front::storefront::BODY_BYTES), gate, told).await;
            Box::pin(front::storefront::page::answer(server, id, head, body, told)).await
        }
        Target::Resources(collection, rest) => {
            let body = intake::read(server, head, body, Some(crate::resources::DOCUMENT_BYTES), gate, told).await;
            Box::pin(front::resources::answer(server, collection, rest, head, body, told)).await
        }
        Target::Uumit if head.method != Method::POST => not_allowed("POST"),
        Target::Uumit => {
            if let Err(fault) = check_media_type(&head.headers) {
                return Box::pin(front::uumit::answer(server, head, Err(fault), told)).await;
            }
            let body = intake::read(server, head, body, None, gate, told).await;
            Box::pin(front::uumit::answer(server, head, body, told)).await
        }
        Target::Market(below) => {
            let limit = front::market::body_bytes(server, below);
            let body = intake::read(server, head, body, limit, gate, told).await;
            Box::pin(front::market::answer(server, below, head, body, told)).await
        }
        Target::Rpc(_) if head.method != Method::POST => not_allowed("POST"),
        Target::Rpc(mounted) => {
            told.agent = Some(mounted.agent.clone());
            if let Err(fault) = check_media_type(&head.headers) {
                return Box::pin(front::rpc::answer(server, mounted, head, Err(fault), told)).await;
            }
            let body = intake::read(server, head, body, None, gate, told).await;
            let response = front::rpc::answer(server, mounted, head, body, told).await;
            if is_said_to_nobody(mounted, told) {
                front::rest::unknown_address(server, path, head, told)
            } else {
                response
            }
        }
        Target::Assistant(assistant) => {
            let body = intake::read(server, head, body, None, gate, told).await;
            Box::pin(front::langgraph::answer(server, assistant, Address::Own, head, body, told)).await
        }
        Target::Rest(mounted, below) => {
            told.agent = Some(mounted.agent.clone());
            let response = front::rest::answer(server, mounted, head, below, body, told).await;
            if is_said_to_nobody(mounted, told) {
                front::rest::unknown_address(server, path, head, told)
            } else {
                response
            }
        }
        Target::Workers(agent, below) => Box::pin(front::worker::answer(server, agent, below, head, body, told)).await,
        Target::Unknown => front::rest::unknown_address(server, path, head, told),
    }
}

/// The answer to a request whose handling panicked: in the caller's own protocol, if that can be had without another panic.
/// The panic itself is logged and counted by [`crate::panics`].
async fn panicked(
    server: &Arc<Server>,
    head: &http::request::Parts,
    request_id: &str,
    told: &mut RequestLog,
) -> Response {
    let message = format!("Internal error; tell the operator of this server that it was request {request_id}");
    tracing::error!(request_id, path = head.uri.path(), "a request was answered with 500: its handling panicked");
    let fault = Fault::new(Kind::Internal, message.clone());
    let said = AssertUnwindSafe(async {
        let target = server.mounts.resolve(head.uri.path(), head.method == Method::POST);
        turn_away(server, target, head, fault, told).await
    });
    let said = said.catch_unwind().await;
    let mut response =
        said.unwrap_or_else(|_| operations::text(StatusCode::INTERNAL_SERVER_ERROR, format!("{message}\n")));
    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    told.fault.get_or_insert(message);
    response
}

/// To whoever has something to say to it, an agent that is gone is not there; what it has done can be read.
fn is_said_to_nobody(mounted: &Mounted, told: &RequestLog) -> bool {
    mounted.retired && matches!(told.operation, "send" | "stream")
}

/// The id of a JSON-RPC request that is refused for its address's rate, so that its caller can tell which one it was. Only
/// a small body that is there already is looked at.
async fn refused_id(server: &Arc<Server>, head: &http::request::Parts, body: Incoming) -> Option<OwnedId> {
    let mut told = RequestLog::default();
    let read = intake::read(server, head, body, Some(intake::STRANGER_BYTES), Gate::Open, &mut told);
    let body = tokio::time::timeout(REFUSED_BODY, read).await.ok()?.ok()?;
    scan::scan(&body, server.engine.limits().json_depth).ok()?;
    match jsonrpc::read(std::str::from_utf8(&body).ok()?) {
        Ok(request) => Some(request.id.to_owned()),
        Err(unreadable) => Some(unreadable.id),
    }
}

/// Says no before anything is read, in words the caller might understand.
async fn turn_away(
    server: &Arc<Server>,
    target: Target<'_>,
    head: &http::request::Parts,
    fault: Fault,
    told: &mut RequestLog,
) -> Response {
    match target {
        Target::Rpc(mounted) => front::rpc::answer(server, mounted, head, Err(fault), told).await,
        Target::Assistant(assistant) => {
            front::langgraph::answer(server, assistant, Address::Own, head, Err(fault), told).await
        }
        Target::Uumit => front::uumit::answer(server, head, Err(fault), told).await,
        Target::Orloj(named) => front::orloj::answer(server, named, head, Err(fault), told).await,
        Target::Market(below) => front::market::answer(server, below, head, Err(fault), told).await,
        Target::Aly(below) => front::aly::turned_away(server, below, head, &fault, told),
        Target::Storefront(inside) => front::storefront::answer(server, inside, head, Err(fault), told).await,
        Target::CheckoutPage(id) => front::storefront::page::answer(server, id, head, Err(fault), told).await,
        Target::Resources(..) => front::resources::turned_away(&fault, told),
        Target::Rest(_, below) => front::rest::turned_away(below, head, &fault, told),
        Target::OldExtendedCard(_) => front::rest::turned_away("/v1/card", head, &fault, told),
        Target::Card(_)
        | Target::Agents
        | Target::Index
        | Target::File(_)
        | Target::Workers(..)
        | Target::Unknown
        | Target::Health
        | Target::Ready
        | Target::Jwks
        | Target::AssistantCard
        | Target::UumitCard
        | Target::OrlojCard(_)
        | Target::OrlojAgents
        | Target::AlyCard
        | Target::Oauth(_)
        | Target::OauthDocument(_)
        | Target::Metrics => {
            let status = front::status_of(fault.kind).unwrap_or(StatusCode::TOO_MANY_REQUESTS);
            let mut response = operations::text(status, format!("{fault}\n"));
            if let Some(seconds) = fault.retry_after_s {
                response.headers_mut().insert(RETRY_AFTER, seconds.into());
            }
            response
        }
    }
}

fn asks_for_assistant(server: &Server, head: &http::request::Parts) -> bool {
    server.mounts.langgraph().is_some() && head.uri.query().is_some_and(|query| query.contains("assistant_id="))
}

pub(crate) fn not_allowed(allow: &'static str) -> Response {
    let mut response =
        operations::text(StatusCode::METHOD_NOT_ALLOWED, format!("this address answers to {allow} only\n"));
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
    response
}
