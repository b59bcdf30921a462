//! HTTP+JSON: the route is the call, the status is the outcome. Paths below `/v1/` are those of 0.3, all others of 1.0.

use std::sync::Arc;

use bytes::Bytes;
use dialects::decide::{self, WireFault};
use dialects::framing::json::Writer;
use dialects::framing::near;
use dialects::framing::scan;
use dialects::wire::{JsonWire, Operation};
use http::header::{ACCEPT, ALLOW, CONTENT_TYPE, RETRY_AFTER, USER_AGENT, WWW_AUTHENTICATE};
use http::{HeaderValue, Method, StatusCode, request};
use hyper::body::Incoming;
use model::{Call, Fault, Kind};

use super::{
    CallContext, CallResult, EffectiveCall, Gate, RequestLog, into_body, sign, stated_version, stream, terms, who,
};
use crate::GatewayVersion;
use crate::mounts::MountedAgent;
use crate::{auth, intake};
use web::body::{Response, ResponseBody, counted, reserve};

const A2A_JSON: &str = "application/a2a+json";

pub(crate) async fn answer(
    server: &Arc<GatewayVersion>,
    mounted: &MountedAgent,
    head: &request::Parts,
    below: &str,
    body: Incoming,
    log: &mut RequestLog,
) -> Response {
    let version = stated_version(head);
    let decided = decide::decide_route(below, version.as_ref().ok().copied().flatten());
    let wire = match (decided, version) {
        (Ok(wire), Ok(_)) => wire,
        (Ok(wire), Err(fault)) | (Err(WireFault { wire, fault }), _) => {
            return self::fault(&fault, head, log, wire, Operation::Unknown);
        }
    };
    let mut operation = Operation::Unknown;
    match call(RestRequest { server, mounted, head, below, wire }, body, log, &mut operation).await {
        Ok(response) => response,
        Err(fault) => self::fault(&fault, head, log, wire, operation),
    }
}

/// A request before its caller is identified.
struct RestRequest<'a> {
    server: &'a Arc<GatewayVersion>,
    mounted: &'a MountedAgent,
    head: &'a request::Parts,
    below: &'a str,
    wire: &'static dyn JsonWire,
}

async fn call(
    asking: RestRequest<'_>,
    body: Incoming,
    log: &mut RequestLog,
    operation: &mut Operation,
) -> Result<Response, Fault> {
    let RestRequest { server, mounted, head, below, wire } = asking;
    let limits = server.engine.limits();
    log.dialect = wire.name();
    let unstated = server.settings.strict_version && stated_version(head)?.is_none();
    if unstated && wire.name() == dialects::a2a_v1::NAME {
        return Err(decide::unsupported("say which version you speak: A2A-Version: 1.0".to_owned()));
    }
    let caller = who(server, mounted, head, log).await?;
    // HEAD is handled like GET; hyper leaves out the body.
    let verb = if head.method == Method::HEAD { "GET" } else { head.method.as_str() };
    let mut route = wire.route(verb, below, head.uri.query())?;
    if head.method == Method::HEAD && route.is_stream() {
        return Err(Fault::new(Kind::VerbNotAllowed, "a stream has no HEAD").fact("allow", "GET, POST"));
    }
    if let Some(agent) = head.headers.get(USER_AGENT).and_then(|value| value.to_str().ok()) {
        route.sent_by(agent);
    }
    *operation = route.operation();
    let body = if route.reads_body() {
        web::headers::check_media_type(&head.headers)?;
        intake::read(server, head, body, None, Gate::Open, log).await?
    } else {
        Bytes::new()
    };
    let text = scan::scan(&body, limits.json_depth)?;
    let decoded = route.decode(text, limits)?;
    let asked = CallContext { server, mounted, head, caller, wire: wire.into(), rules: wire, threaded: false };
    let (done, tenant) = asked.perform(EffectiveCall::of(decoded, &head.headers)?, &body, log).await?;
    let mut response = match done {
        CallResult::Stream(follow) => stream::rest(server.clone(), wire, *follow, terms(server, head, &tenant)),
        CallResult::Encoded(bytes) => json(head, wire, counted(&server.answers, bytes)?.into()),
        done => {
            let size = done.encoded_size();
            let share = reserve(&server.answers, size)?;
            let mut w = Writer::with_capacity(size);
            asked.write(&mut w, &done);
            drop(share);
            json(head, wire, into_body(server, head, &tenant, w.finish()).await?)
        }
    };
    asked.finish(&mut response);
    Ok(response)
}

/// The extended card at the path of 0.2, by GET.
pub(crate) async fn old_extended_card(
    server: &Arc<GatewayVersion>,
    mounted: &MountedAgent,
    head: &request::Parts,
    log: &mut RequestLog,
) -> Response {
    let wire = wire_of("/v1/card");
    log.dialect = wire.name();
    let asked = async {
        let caller = who(server, mounted, head, log).await?;
        let asked = CallContext { server, mounted, head, caller, wire: wire.into(), rules: wire, threaded: false };
        let (done, _) = asked.perform(EffectiveCall::plain(Call::ExtendedCard), &[], log).await?;
        let mut w = Writer::with_capacity(2_048);
        asked.write(&mut w, &done);
        Ok(w.finish().as_bytes().cloned().unwrap_or_default())
    };
    match asked.await {
        Ok(bytes) => {
            let mut response = json(head, wire, bytes.into());
            sign(&mut response, wire);
            response
        }
        Err(fault) => self::fault(&fault, head, log, wire, Operation::ExtendedCard),
    }
}

/// Answers a request that is refused unread.
pub(crate) fn turned_away(below: &str, head: &request::Parts, fault: &Fault, log: &mut RequestLog) -> Response {
    self::fault(fault, head, log, wire_of(below), Operation::Unknown)
}

/// The answer for a path without an endpoint.
pub fn nothing_at(path: &str, head: &request::Parts, log: &mut RequestLog) -> Response {
    let missing = Fault::new(Kind::MethodNotFound, format!("there is nothing at {path}"));
    fault(&missing, head, log, wire_of(path), Operation::Unknown)
}

/// The answer for an unknown path, with the nearest known one.
pub(crate) fn unknown_address(
    server: &GatewayVersion,
    path: &str,
    head: &request::Parts,
    log: &mut RequestLog,
) -> Response {
    let shown: String = path.chars().take(128).collect();
    let agents = || server.mounts.agents().iter().map(|name| &**name);
    let message = match path.strip_prefix("/a2a/") {
        Some(below) => {
            let name: String = below.split('/').next().unwrap_or_default().chars().take(64).collect();
            let meant = near::nearest(&name, agents()).map(|name| format!("did you mean /a2a/{name}? "));
            format!("there is no agent {name:?} here; {}GET /agents lists those there are", meant.unwrap_or_default())
        }
        None => {
            let named = path.trim_matches('/');
            let at_agent = agents().find(|name| name.eq_ignore_ascii_case(named)).map(|name| format!("/a2a/{name}"));
            let meant = at_agent.or_else(|| near::nearest(path, ADDRESSES.iter().copied()).map(str::to_owned));
            let advice = match meant {
                Some(meant) => format!("did you mean {meant}?"),
                None => "agents are at /a2a/NAME, and GET /agents lists them".to_owned(),
            };
            format!("there is nothing at {shown}; {advice}")
        }
    };
    fault(&Fault::new(Kind::MethodNotFound, message), head, log, wire_of(path), Operation::Unknown)
}

/// Addresses that exist under any settings.
const ADDRESSES: &[&str] = &[
    "/a2a",
    "/agents",
    "/healthz",
    "/readyz",
    "/metrics",
    "/.well-known/agent-card.json",
    "/.well-known/agent.json",
    "/.well-known/jwks.json",
    "/message:send",
    "/message:stream",
    "/tasks",
];

fn wire_of(path: &str) -> &'static dyn JsonWire {
    decide::decide_route(path, None).unwrap_or_else(|refusal| refusal.wire)
}

fn json(head: &request::Parts, wire: &'static dyn JsonWire, body: ResponseBody) -> Response {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, media_type(head, wire));
    response
}

/// Plain JSON by default; the protocol's own type where the request names it.
fn media_type(head: &request::Parts, wire: &'static dyn JsonWire) -> HeaderValue {
    let named = |value: &HeaderValue| value.to_str().is_ok_and(|text| text.contains(A2A_JSON));
    let knows = [CONTENT_TYPE, ACCEPT].iter().any(|name| head.headers.get_all(name).iter().any(named));
    HeaderValue::from_static(if knows && wire.json_facts().a2a_json { A2A_JSON } else { "application/json" })
}

/// A fault as an HTTP status and the dialect's body.
fn fault(
    fault: &Fault,
    head: &request::Parts,
    log: &mut RequestLog,
    wire: &'static dyn JsonWire,
    operation: Operation,
) -> Response {
    log.fault(fault);
    log.dialect = wire.name();
    let (status, encoded) = wire.rest_error(fault, operation);
    let body = encoded.as_bytes().cloned().unwrap_or_default();
    let mut response = json(head, wire, body.into());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    sign(&mut response, wire);
    let headers = response.headers_mut();
    if fault.kind == Kind::Unauthenticated {
        headers.insert(WWW_AUTHENTICATE, auth::challenge(fault));
    }
    if let Some(seconds) = fault.retry_after_s {
        headers.insert(RETRY_AFTER, seconds.into());
    }
    if let Some((_, allow)) = fault.facts.iter().find(|(name, _)| *name == "allow")
        && let Ok(allow) = HeaderValue::from_str(allow)
    {
        headers.insert(ALLOW, allow);
    }
    response
}
