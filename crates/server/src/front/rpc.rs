//! JSON-RPC: one envelope in, one out, or a stream of them.

use std::sync::Arc;

use bytes::Bytes;
use dialects::a2a_v1::{self, errors};
use dialects::framing::json::Writer;
use dialects::framing::jsonrpc::{self, Id, OwnedId};
use dialects::framing::scan;
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode, request};
use model::{Fault, Kind};

use super::{Asked, Done, Told, check_version, into_body, stream, write};
use crate::Server;
use crate::body::{Body, Response};
use crate::mount::Mounted;

pub(crate) async fn answer(
    server: &Arc<Server>,
    mounted: &Mounted,
    head: &request::Parts,
    body: Result<Bytes, Fault>,
    told: &mut Told,
) -> Response {
    told.dialect = a2a_v1::NAME;
    let body = match body {
        Ok(body) => body,
        Err(fault) => return refuse(&OwnedId::NULL, &fault, told),
    };
    let text = match scan::scan(&body, server.engine.limits().json_depth) {
        Ok(text) => text,
        Err(fault) => return refuse(&OwnedId::NULL, &fault, told),
    };
    let request = match jsonrpc::read(text) {
        Ok(request) => request,
        Err(unreadable) => return refuse(&unreadable.id, &unreadable.fault, told),
    };
    match call(server, mounted, head, &request, told).await {
        Ok(response) => response,
        Err(fault) => refuse(&request.id, &fault, told),
    }
}

async fn call(
    server: &Arc<Server>,
    mounted: &Mounted,
    head: &request::Parts,
    request: &jsonrpc::Request<'_>,
    told: &mut Told,
) -> Result<Response, Fault> {
    check_version(server, head)?;
    let caller = server.callers.identify(&head.headers)?;
    told.caller = Some(caller.name.clone());
    let decoded = a2a_v1::decode_rpc(&request.method, request.params, server.engine.limits())?;
    let asked = Asked { server, mounted, head, caller };
    let params = request.params.map_or("", |params| params.get());
    let done = asked.perform(decoded, params.as_bytes(), told).await?;
    let mut response = match done {
        Done::Stream(subscription) => {
            let tenant = asked.caller.tenant.clone();
            stream::rpc(server.clone(), subscription, tenant, request.id.to_owned())
        }
        Done::Kept(bytes) => {
            let mut out = Vec::with_capacity(bytes.len() + request.id.text().len() + 40);
            jsonrpc::write_result_head(&mut out, &request.id);
            out.extend_from_slice(&bytes);
            jsonrpc::write_result_tail(&mut out);
            json(Bytes::from(out).into())
        }
        done => {
            let mut w: Writer = jsonrpc::begin_result(&request.id, 1_024);
            write(&mut w, &done);
            jsonrpc::end_result(&mut w);
            json(into_body(server, &asked.caller.tenant, w.finish()))
        }
    };
    if let Some(active) = asked.active_extensions() {
        response.headers_mut().insert("a2a-extensions", active);
    }
    Ok(response)
}

fn json(body: Body) -> Response {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A fault in the envelope. JSON-RPC answers 200; only what HTTP itself has a word for has another status.
fn refuse(id: &Id<'_>, fault: &Fault, told: &mut Told) -> Response {
    told.fault(fault);
    let mut out = Vec::with_capacity(512);
    errors::rpc_error(&mut out, id, fault);
    let mut response = json(Bytes::from(out).into());
    match fault.kind {
        Kind::Unauthenticated => {
            *response.status_mut() = StatusCode::UNAUTHORIZED;
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"a2a\""));
        }
        Kind::TooLarge => *response.status_mut() = StatusCode::PAYLOAD_TOO_LARGE,
        Kind::Unavailable => *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE,
        Kind::RateLimited => *response.status_mut() = StatusCode::TOO_MANY_REQUESTS,
        Kind::Forbidden => *response.status_mut() = StatusCode::FORBIDDEN,
        Kind::Parse
        | Kind::InvalidRequest
        | Kind::MethodNotFound
        | Kind::VerbNotAllowed
        | Kind::InvalidParams
        | Kind::MediaType
        | Kind::TaskNotFound
        | Kind::TaskNotCancelable
        | Kind::TaskSettled
        | Kind::PushNotSupported
        | Kind::Unsupported
        | Kind::ContentType
        | Kind::InvalidAgentResponse
        | Kind::ExtendedCardNotConfigured
        | Kind::ExtensionRequired
        | Kind::VersionNotSupported
        | Kind::KeyReused
        | Kind::Internal => {}
    }
    if let Some(seconds) = fault.retry_after_s {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}
