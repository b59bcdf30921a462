//! One request from its first to its last byte: the steps that all requests share.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use dialects::framing::jsonrpc::{self, OwnedId};
use dialects::framing::scan;
use futures_util::FutureExt;
use http::header::{CACHE_CONTROL, CONNECTION, RETRY_AFTER};
use http::{HeaderValue, Method, Request, StatusCode, Version};
use hyper::body::{Body as _, Incoming};
use model::{Fault, Kind};
use web::body::Response;
use web::headers::{REQUEST_ID, check_media_type, request_id, trace, unrepeated};
use web::request_log::RequestLine;
use web::response::{not_allowed, text};
use web::{client_address, cors};

use crate::fronts::{self, Gate, RequestLog};
use crate::linger::BodyUnread;
use crate::metrics::RequestOutcome;
use crate::mounts::{self, MountedAgent, RouteTarget};
use crate::product::{Accepts, CardRequest, EndpointRequest, ProductEndpoint, RefusalForm, RequestBody};
use crate::{GatewayVersion, admin_api, console, intake, receivers};

/// Time limit for the body of a refused request.
const REFUSED_BODY: Duration = Duration::from_millis(250);

/// The requests that a connection is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coverage {
    Everything,
    /// One request about the server's health; the connection is above the limit.
    HealthOnly,
}

pub(crate) fn no_connection_left() -> Fault {
    let message =
        "the server has as many connections as it takes, in all or from your address; close one, or try again in 2 s";
    Fault::new(Kind::Unavailable, message).retry_after(2)
}

pub(crate) async fn respond(
    server: Arc<GatewayVersion>,
    request: Request<Incoming>,
    peer: SocketAddr,
    coverage: Coverage,
) -> Result<Response, Infallible> {
    let began = Instant::now();
    let (mut head, body) = request.into_parts();
    let request_id = request_id(&head.headers);
    admin_api::note_id(&mut head, &request_id);
    let address = client_address::settle(peer.ip(), &mut head.headers, &server.settings.trusted_proxies);
    // A small unread body is skipped before the next request, so the connection can stay open.
    let is_large = body.size_hint().upper().is_none_or(|bytes| bytes > intake::STRANGER_BYTES as u64);
    let mut log = RequestLog { address, body_ended: body.is_end_stream(), ..RequestLog::default() };
    let mut response = match cors::preflight(server.settings.allowed_origins(), &head.method, &head.headers) {
        Some(response) => response,
        None => {
            let answered =
                AssertUnwindSafe(Box::pin(dispatch(&server, &head, body, coverage, &mut log))).catch_unwind().await;
            match answered {
                Ok(response) => response,
                Err(_) => Box::pin(panicked(&server, &head, &request_id, &mut log)).await,
            }
        }
    };
    let micros = began.elapsed().as_micros() as u64;
    cors::allow(server.settings.allowed_origins(), &head.headers, response.headers_mut());
    // A response without a cache header is private.
    response.headers_mut().entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if let Some(id) = unrepeated(&request_id) {
        response.headers_mut().insert(REQUEST_ID.clone(), id);
    }
    if !log.body_ended {
        response.extensions_mut().insert(BodyUnread);
    }
    let closes = coverage == Coverage::HealthOnly || (is_large && !log.body_ended);
    if closes && head.version <= Version::HTTP_11 {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    let status = response.status();
    let failed = log.fault.is_some() || status.is_client_error() || status.is_server_error();
    server.metrics.count(log.operation, if failed { RequestOutcome::Fault } else { RequestOutcome::Ok }, micros);
    server.log.request(&RequestLine {
        method: head.method.as_str(),
        path: log.path.as_deref().unwrap_or(shown_path(&head)),
        status: status.as_u16(),
        micros,
        operation: log.operation,
        dialect: log.dialect,
        agent: log.agent.as_deref().unwrap_or("-"),
        caller: log.caller.as_deref().unwrap_or("-"),
        request_id: &request_id,
        trace: trace(&head.headers),
        fault: log.fault.as_deref(),
        peer,
    });
    Ok(response)
}

async fn dispatch(
    server: &Arc<GatewayVersion>,
    head: &http::request::Parts,
    body: Incoming,
    coverage: Coverage,
    log: &mut RequestLog,
) -> Response {
    if let Some(transport) = fronts::grpc::GrpcTransport::of(head) {
        return Box::pin(fronts::grpc::answer(server, head, body, transport, coverage, log)).await;
    }
    let path = head.uri.path();
    let get = head.method == Method::GET || head.method == Method::HEAD;
    let target = server.mounts.resolve(path, head.method == Method::POST);
    if coverage == Coverage::HealthOnly && !matches!(target, RouteTarget::Health | RouteTarget::Ready) {
        return Box::pin(turn_away(server, target, head, no_connection_left(), log)).await;
    }
    if let Some(throttle) = &server.throttle
        // A worker authenticates with its secret, and sends many requests.
        && !matches!(target, RouteTarget::Health | RouteTarget::Ready | RouteTarget::Metrics | RouteTarget::Workers(..))
        && let Err(fault) = throttle.check_rate(log.address)
    {
        let is_jsonrpc = matches!(&target, RouteTarget::Rpc(_))
            || matches!(&target, RouteTarget::Product(endpoint) if endpoint.is_jsonrpc());
        if is_jsonrpc {
            log.rpc_id = Box::pin(refused_id(server, head, body)).await;
        }
        return Box::pin(turn_away(server, target, head, fault, log)).await;
    }
    if get && matches!(target, RouteTarget::Card(_)) {
        let is_origin = matches!(path, mounts::CARD | mounts::OLD_CARD);
        for product in server.mounts.products() {
            let request = CardRequest { server, head, is_origin, log };
            if let Some(card) = product.card(request)
                && let Some(card) = card.await
            {
                return card;
            }
        }
    }
    // Handlers of rare requests are boxed, so that the future of a call stays small.
    match target {
        RouteTarget::Health if get => text(StatusCode::OK, "ok\n"),
        RouteTarget::Ready if get => Box::pin(server.ready()).await,
        RouteTarget::Metrics if get => Box::pin(server.show_metrics()).await,
        RouteTarget::Agents if get => server.list_agents(head),
        RouteTarget::Index if get => server.index(head),
        RouteTarget::Jwks if get => server.jwks().unwrap_or_else(|| fronts::rest::nothing_at(path, head, log)),
        RouteTarget::File(file) if get => Box::pin(fronts::file(server, file, head, log)).await,
        RouteTarget::Console(below) if get => {
            log.operation = "console";
            console::answer(below, head)
        }
        RouteTarget::Card(mounted) if get => {
            log.operation = "card";
            log.agent = Some(mounted.agent.clone());
            server.public_card(mounted, head).unwrap_or_else(|| fronts::rest::unknown_address(server, path, head, log))
        }
        RouteTarget::OldExtendedCard(mounted) if get => {
            log.agent = Some(mounted.agent.clone());
            Box::pin(fronts::rest::old_extended_card(server, mounted, head, log)).await
        }
        RouteTarget::Index => not_allowed("GET, HEAD, POST"),
        RouteTarget::OldExtendedCard(_)
        | RouteTarget::Health
        | RouteTarget::Ready
        | RouteTarget::Metrics
        | RouteTarget::Agents
        | RouteTarget::Jwks
        | RouteTarget::File(_)
        | RouteTarget::Console(_)
        | RouteTarget::Card(_) => not_allowed("GET, HEAD"),
        RouteTarget::Product(endpoint) => Box::pin(at_product(server, &*endpoint, head, body, log)).await,
        RouteTarget::Rpc(_) if head.method != Method::POST => not_allowed("POST"),
        RouteTarget::Rpc(mounted) => {
            log.agent = Some(mounted.agent.clone());
            if let Err(fault) = check_media_type(&head.headers) {
                return Box::pin(fronts::jsonrpc::answer(server, mounted, head, Err(fault), log)).await;
            }
            let body = intake::read(server, head, body, None, Gate::Agent(mounted), log).await;
            let response = fronts::jsonrpc::answer(server, mounted, head, body, log).await;
            if is_for_retired_agent(mounted, log) {
                fronts::rest::unknown_address(server, path, head, log)
            } else {
                response
            }
        }
        RouteTarget::Rest(mounted, below) => {
            log.agent = Some(mounted.agent.clone());
            let response = fronts::rest::answer(server, mounted, head, below, body, log).await;
            if is_for_retired_agent(mounted, log) {
                fronts::rest::unknown_address(server, path, head, log)
            } else {
                response
            }
        }
        RouteTarget::Workers(agent, below) => {
            Box::pin(fronts::worker::answer(server, agent, below, head, body, log)).await
        }
        RouteTarget::AdminApi(below) => match server.admin() {
            Some(door) => Box::pin(admin_api::answer(server, door, below, head, body, log)).await,
            None => fronts::rest::unknown_address(server, path, head, log),
        },
        RouteTarget::Receiver(_) if head.method != Method::POST => not_allowed("POST"),
        RouteTarget::Receiver(token) => match server.admin() {
            Some(door) => Box::pin(receivers::answer(server, door, token, head, body, log)).await,
            None => fronts::rest::unknown_address(server, path, head, log),
        },
        RouteTarget::Unknown if fronts::grpc::is_service(path) => {
            text(StatusCode::UNSUPPORTED_MEDIA_TYPE, "this is a method of gRPC: send content-type: application/grpc\n")
        }
        RouteTarget::Unknown => fronts::rest::unknown_address(server, path, head, log),
    }
}

/// The path of a request for the log. The token of a receiver is a secret.
fn shown_path(head: &http::request::Parts) -> &str {
    let path = head.uri.path();
    if receivers::below(path).is_some() { receivers::SHOWN } else { path }
}

/// The answer to a request whose handler panicked: in the caller's own protocol, if it can be written without another
/// panic. [`crate::panics`] logs and counts the panic.
async fn panicked(
    server: &Arc<GatewayVersion>,
    head: &http::request::Parts,
    request_id: &str,
    log: &mut RequestLog,
) -> Response {
    let message = format!("Internal error; tell the operator of this server that it was request {request_id}");
    tracing::error!(request_id, path = shown_path(head), "a request was answered with 500: its handling panicked");
    let fault = Fault::new(Kind::Internal, message.clone());
    let said = AssertUnwindSafe(async {
        if let Some(response) = fronts::grpc::refused(head, &fault, log) {
            return response;
        }
        let target = server.mounts.resolve(head.uri.path(), head.method == Method::POST);
        turn_away(server, target, head, fault, log).await
    });
    let said = said.catch_unwind().await;
    let mut response = said.unwrap_or_else(|_| text(StatusCode::INTERNAL_SERVER_ERROR, format!("{message}\n")));
    if !response.headers().contains_key("grpc-status") {
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    }
    log.fault.get_or_insert(message);
    response
}

/// Whether a message is for a retired agent. Such an agent accepts no new messages; its tasks stay readable.
fn is_for_retired_agent(mounted: &MountedAgent, log: &RequestLog) -> bool {
    mounted.retired && matches!(log.operation, "send" | "stream")
}

/// The id of a JSON-RPC request that is refused for the rate of its address, so that the refusal can name it. Only a
/// small body that has arrived already is read.
async fn refused_id(server: &Arc<GatewayVersion>, head: &http::request::Parts, body: Incoming) -> Option<OwnedId> {
    let mut log = RequestLog::default();
    let read = intake::read(server, head, body, Some(intake::STRANGER_BYTES), Gate::Open, &mut log);
    let body = tokio::time::timeout(REFUSED_BODY, read).await.ok()?.ok()?;
    scan::scan(&body, server.engine.limits().json_depth).ok()?;
    match jsonrpc::read(std::str::from_utf8(&body).ok()?) {
        Ok(request) => Some(request.id.to_owned()),
        Err(unreadable) => Some(unreadable.id),
    }
}

/// Refuses a request before its body is read, in the form of the address.
async fn turn_away(
    server: &Arc<GatewayVersion>,
    target: RouteTarget<'_>,
    head: &http::request::Parts,
    fault: Fault,
    log: &mut RequestLog,
) -> Response {
    match target {
        RouteTarget::Rpc(mounted) => fronts::jsonrpc::answer(server, mounted, head, Err(fault), log).await,
        RouteTarget::Product(endpoint) => match endpoint.refusals() {
            RefusalForm::Text => refused_as_text(&fault),
            RefusalForm::Written(write) => write(&fault, log),
            RefusalForm::Answer => {
                endpoint.answer(EndpointRequest { server, head, body: RequestBody::Refused(fault), log }).await
            }
        },
        RouteTarget::Rest(_, below) => fronts::rest::turned_away(below, head, &fault, log),
        RouteTarget::OldExtendedCard(_) => fronts::rest::turned_away("/v1/card", head, &fault, log),
        RouteTarget::AdminApi(_) => admin_api::refused(head, &fault, log),
        RouteTarget::Card(_)
        | RouteTarget::Agents
        | RouteTarget::Index
        | RouteTarget::Console(_)
        | RouteTarget::Receiver(_)
        | RouteTarget::File(_)
        | RouteTarget::Workers(..)
        | RouteTarget::Unknown
        | RouteTarget::Health
        | RouteTarget::Ready
        | RouteTarget::Jwks
        | RouteTarget::Metrics => refused_as_text(&fault),
    }
}

/// A refusal in plain text, for addresses without a form of their own.
fn refused_as_text(fault: &Fault) -> Response {
    let status = fronts::status_of(fault.kind).unwrap_or(StatusCode::TOO_MANY_REQUESTS);
    let mut response = text(status, format!("{fault}\n"));
    if let Some(seconds) = fault.retry_after_s {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

/// Answers a request at a product's address.
async fn at_product(
    server: &Arc<GatewayVersion>,
    endpoint: &dyn ProductEndpoint,
    head: &http::request::Parts,
    body: Incoming,
    log: &mut RequestLog,
) -> Response {
    let accepts = endpoint.accepts(server);
    let read = match accepts {
        Accepts::Get if head.method != Method::GET && head.method != Method::HEAD => return not_allowed("GET, HEAD"),
        Accepts::Get => RequestBody::Read(Bytes::new()),
        Accepts::PostJson(_) if head.method != Method::POST => return not_allowed("POST"),
        Accepts::PostJson(limit) => match check_media_type(&head.headers) {
            Ok(()) => RequestBody::of(intake::read(server, head, body, limit, Gate::Product(endpoint), log).await),
            Err(fault) => RequestBody::Refused(fault),
        },
        Accepts::Any(limit) => {
            RequestBody::of(intake::read(server, head, body, limit, Gate::Product(endpoint), log).await)
        }
        Accepts::Stream => RequestBody::Stream(body),
    };
    endpoint.answer(EndpointRequest { server, head, body: read, log }).await
}
