//! HTTP+JSON: the route is the call, the status is the outcome.

use std::sync::Arc;

use dialects::a2a_v1::{self, errors};
use dialects::framing::json::Writer;
use dialects::framing::scan;
use http::header::{ACCEPT, ALLOW, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode, request};
use hyper::body::Incoming;
use model::{Fault, Kind};

use super::{Asked, Done, Told, check_version, into_body, stream, write};
use crate::Server;
use crate::body::{Body, Response};
use crate::mount::Mounted;
use crate::service;

const A2A_JSON: &str = "application/a2a+json";

pub(crate) async fn answer(
    server: &Arc<Server>,
    mounted: &Mounted,
    head: &request::Parts,
    below: &str,
    body: Incoming,
    told: &mut Told,
) -> Response {
    told.dialect = a2a_v1::NAME;
    match call(server, mounted, head, below, body, told).await {
        Ok(response) => response,
        Err(fault) => self::fault(&fault, head, told),
    }
}

async fn call(
    server: &Arc<Server>,
    mounted: &Mounted,
    head: &request::Parts,
    below: &str,
    body: Incoming,
    told: &mut Told,
) -> Result<Response, Fault> {
    let limits = server.engine.limits();
    check_version(server, head)?;
    let caller = server.callers.identify(&head.headers)?;
    told.caller = Some(caller.name.clone());
    let route = a2a_v1::route(head.method.as_str(), below, head.uri.query())?;
    let body = if route.reads_body {
        if let Some(refused) = service::check_media_type(&head.headers) {
            return Ok(refused);
        }
        service::read_body(server, &head.headers, body).await?
    } else {
        bytes::Bytes::new()
    };
    let text = scan::scan(&body, limits.json_depth)?;
    let decoded = route.decode(text, limits)?;
    let asked = Asked { server, mounted, head, caller };
    let done = asked.perform(decoded, &body, told).await?;
    let mut response = match done {
        Done::Stream(subscription) => stream::rest(server.clone(), subscription, asked.caller.tenant.clone()),
        Done::Kept(bytes) => json(head, bytes.into()),
        done => {
            let mut w = Writer::with_capacity(1_024);
            write(&mut w, &done);
            json(head, into_body(server, &asked.caller.tenant, w.finish()))
        }
    };
    if let Some(active) = asked.active_extensions() {
        response.headers_mut().insert("a2a-extensions", active);
    }
    Ok(response)
}

fn json(head: &request::Parts, body: Body) -> Response {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, media_type(head));
    response
}

/// Plain JSON for those who sent or ask for nothing else; the protocol's own type for those who know it.
fn media_type(head: &request::Parts) -> HeaderValue {
    let knows = [CONTENT_TYPE, ACCEPT]
        .iter()
        .any(|name| head.headers.get_all(name).iter().any(|v| v.to_str().is_ok_and(|v| v.contains(A2A_JSON))));
    HeaderValue::from_static(if knows { A2A_JSON } else { "application/json" })
}

/// A fault as an HTTP status and a `google.rpc.Status` body.
pub(crate) fn fault(fault: &Fault, head: &request::Parts, told: &mut Told) -> Response {
    told.fault(fault);
    let (status, encoded) = errors::rest_error(fault);
    let body = encoded.as_bytes().cloned().unwrap_or_default();
    let mut response = json(head, body.into());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    if fault.kind == Kind::Unauthenticated {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"a2a\""));
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
