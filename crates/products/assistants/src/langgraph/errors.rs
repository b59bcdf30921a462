//! The product's errors: a JSON-RPC error with code and message only, or an HTTP status with a `detail`.

use model::{Fault, Kind};
use serde_json::json;

use super::{HttpReply, LangGraphProfile};
use dialects::framing::json::Encoded;
use dialects::framing::jsonrpc::{self, Id};
use dialects::wire::{ErrorLine, Operation};

const fn entry(rpc: i32, http: u16) -> ErrorLine {
    ErrorLine { rpc, http, name: None }
}

pub(crate) fn documented(kind: Kind, operation: Operation) -> ErrorLine {
    match kind {
        // The product's documentation has a status for it.
        Kind::Internal => entry(-32603, 500),
        _ if operation == Operation::Cancel => entry(-32004, 200),
        kind => current(kind, operation),
    }
}

pub(crate) fn current(kind: Kind, _operation: Operation) -> ErrorLine {
    match kind {
        Kind::Parse => entry(-32700, 200),
        Kind::InvalidRequest | Kind::VersionNotSupported | Kind::TooLarge | Kind::MediaType => entry(-32600, 200),
        Kind::MethodNotFound | Kind::VerbNotAllowed => entry(-32601, 200),
        Kind::InvalidParams | Kind::KeyReused => entry(-32602, 200),
        Kind::TaskNotFound => entry(-32001, 200),
        Kind::TaskNotCancelable => entry(-32002, 200),
        Kind::PushNotSupported => entry(-32003, 200),
        Kind::TaskSettled | Kind::Unsupported | Kind::ExtensionRequired | Kind::ExtendedCardNotConfigured => {
            entry(-32004, 200)
        }
        Kind::ContentType => entry(-32005, 200),
        Kind::InvalidAgentResponse => entry(-32006, 200),
        Kind::Unauthenticated => entry(-32041, 401),
        Kind::Forbidden => entry(-32043, 403),
        Kind::RateLimited => entry(-32049, 429),
        Kind::InsufficientBalance | Kind::BudgetExceeded => entry(-32042, 402),
        Kind::Unavailable => entry(-32053, 503),
        Kind::Internal => entry(-32603, 200),
    }
}

/// The answer for a fault.
pub fn reply(profile: LangGraphProfile, id: &Id<'_>, fault: &Fault, operation: Operation) -> HttpReply {
    let line = match profile {
        LangGraphProfile::Documented => documented(fault.kind, operation),
        LangGraphProfile::Current => current(fault.kind, operation),
    };
    if line.http == 200 {
        return HttpReply { status: 200, body: envelope(id, line.rpc, &fault.message) };
    }
    detail(line.http, &fault.message)
}

/// An error in the form of the product's REST API.
pub fn detail(status: u16, message: &str) -> HttpReply {
    HttpReply { status, body: json!({ "detail": message }).to_string().into_bytes() }
}

pub(crate) fn envelope(id: &Id<'_>, code: i32, message: &str) -> Vec<u8> {
    let mut w = jsonrpc::begin_error(id, code, message);
    jsonrpc::end_error(&mut w);
    w.finish().as_bytes().map(|bytes| bytes.to_vec()).unwrap_or_default()
}

pub(crate) fn rpc_error(out: &mut Vec<u8>, id: &Id<'_>, fault: &Fault, operation: Operation) {
    out.extend_from_slice(&envelope(id, current(fault.kind, operation).rpc, &fault.message));
}

pub(crate) fn rest_error(fault: &Fault, operation: Operation) -> (u16, Encoded) {
    let line = current(fault.kind, operation);
    let reply = detail(if line.http == 200 { 400 } else { line.http }, &fault.message);
    (reply.status, Encoded::from_bytes(reply.body))
}
