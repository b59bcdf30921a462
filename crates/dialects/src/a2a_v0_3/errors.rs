//! Faults into 0.3 errors: one exhaustive table, and the shapes they travel in.
//!
//! JSON-RPC has `{code, message}`, with `data` an object of facts where there are any. HTTP+JSON was never agreed on: the
//! statuses are those of the Python 0.3 server, and the body holds everything some client looks for: `message` (Python
//! 0.3), `code` and `data` (JavaScript), `type` with the error's class name (Python 1.x speaking 0.3).
//!
//! 0.3 has no word for a missing extension or an unknown version. The first is an unsupported operation that says which
//! extension; the second keeps the code of 1.0, since it concerns only requests that state a version. A fault without a
//! code in any generation has ours, as in [`crate::a2a_v1::errors`].

use model::{Fault, Kind};

use crate::framing::json::{Encoded, Writer};
use crate::framing::jsonrpc::{self, Id};
use crate::protobuf::RpcCode;
use crate::wire::{ErrorLine, Operation};

const fn entry(rpc: i32, http: u16, name: &'static str) -> ErrorLine {
    ErrorLine { rpc, http, name: Some(name) }
}

/// The table. A new kind does not compile before it has a line here.
pub fn line(kind: Kind, operation: Operation) -> ErrorLine {
    match kind {
        Kind::Parse => entry(-32700, 400, "JSONParseError"),
        Kind::InvalidRequest => entry(-32600, 400, "InvalidRequestError"),
        Kind::MethodNotFound => entry(-32601, 404, "MethodNotFoundError"),
        Kind::VerbNotAllowed => entry(-32601, 405, "MethodNotFoundError"),
        Kind::InvalidParams | Kind::KeyReused => entry(-32602, 422, "InvalidParamsError"),
        Kind::TooLarge => entry(-32600, 413, "InvalidRequestError"),
        // Answered by a bare status: a client that sends another media type does not read JSON.
        Kind::MediaType => ErrorLine { rpc: -32600, http: 415, name: Some("InvalidRequestError") },
        Kind::TaskNotFound => entry(-32001, 404, "TaskNotFoundError"),
        Kind::TaskNotCancelable => entry(-32002, 409, "TaskNotCancelableError"),
        Kind::PushNotSupported => entry(-32003, 501, "PushNotificationNotSupportedError"),
        // A card that is not there is not found, over HTTP.
        Kind::Unsupported if operation == Operation::ExtendedCard => entry(-32004, 404, "UnsupportedOperationError"),
        Kind::TaskSettled | Kind::Unsupported | Kind::ExtensionRequired => {
            entry(-32004, 501, "UnsupportedOperationError")
        }
        Kind::ContentType => entry(-32005, 415, "ContentTypeNotSupportedError"),
        Kind::InvalidAgentResponse => entry(-32006, 502, "InvalidAgentResponseError"),
        Kind::ExtendedCardNotConfigured => entry(-32007, 404, "ExtendedAgentCardNotConfiguredError"),
        Kind::VersionNotSupported => entry(-32009, 400, "VersionNotSupportedError"),
        Kind::Unauthenticated => entry(-32041, 401, "UnauthenticatedError"),
        Kind::Forbidden => entry(-32043, 403, "ForbiddenError"),
        Kind::InsufficientBalance => entry(-32042, 402, "InsufficientBalanceError"),
        Kind::BudgetExceeded => entry(-32042, 402, "BudgetExceededError"),
        Kind::RateLimited => entry(-32049, 429, "RateLimitedError"),
        Kind::Unavailable => entry(-32053, 503, "UnavailableError"),
        Kind::Internal => entry(-32603, 500, "InternalError"),
    }
}

/// The status that a call over gRPC ends with. What a server does not support was unimplemented before 1.0.1.
pub fn rpc_status(kind: Kind) -> RpcCode {
    match kind {
        Kind::Parse
        | Kind::InvalidRequest
        | Kind::InvalidParams
        | Kind::KeyReused
        | Kind::TooLarge
        | Kind::MediaType
        | Kind::ContentType => RpcCode::InvalidArgument,
        Kind::MethodNotFound | Kind::VerbNotAllowed | Kind::PushNotSupported | Kind::Unsupported => {
            RpcCode::Unimplemented
        }
        Kind::TaskNotFound => RpcCode::NotFound,
        Kind::TaskNotCancelable
        | Kind::TaskSettled
        | Kind::ExtendedCardNotConfigured
        | Kind::ExtensionRequired
        | Kind::VersionNotSupported
        | Kind::InsufficientBalance
        | Kind::BudgetExceeded => RpcCode::FailedPrecondition,
        Kind::InvalidAgentResponse | Kind::Internal => RpcCode::Internal,
        Kind::Unauthenticated => RpcCode::Unauthenticated,
        Kind::Forbidden => RpcCode::PermissionDenied,
        Kind::RateLimited => RpcCode::ResourceExhausted,
        Kind::Unavailable => RpcCode::Unavailable,
    }
}

/// A whole JSON-RPC error response.
pub fn rpc_error(out: &mut Vec<u8>, id: &Id<'_>, fault: &Fault, operation: Operation) {
    let mut w = jsonrpc::begin_error(id, line(fault.kind, operation).rpc, &fault.message);
    data(&mut w, fault);
    jsonrpc::end_error(&mut w);
    if let Some(bytes) = w.finish().as_bytes() {
        out.extend_from_slice(bytes);
    }
}

/// The status and body of an HTTP+JSON error.
pub fn rest_error(fault: &Fault, operation: Operation) -> (u16, Encoded) {
    let ErrorLine { rpc, http, name } = line(fault.kind, operation);
    let Some(name) = name else {
        return (http, Encoded::from_bytes(Vec::new()));
    };
    let mut w = Writer::new();
    w.begin_object();
    w.key("code").i64(i64::from(rpc));
    w.key("message").string(&fault.message);
    w.key("type").plain(name);
    data(&mut w, fault);
    w.end_object();
    (http, w.finish())
}

/// The member `data`, if there is more to say than the message does.
fn data(w: &mut Writer, fault: &Fault) {
    let field = fault.field.as_deref().filter(|field| !field.is_empty());
    if field.is_none() && fault.facts.is_empty() && fault.retry_after_s.is_none() {
        return;
    }
    w.key("data").begin_object();
    w.optional("field", field);
    for (name, value) in &fault.facts {
        w.key(name).string(value);
    }
    if let Some(seconds) = fault.retry_after_s {
        w.key("retryAfterSeconds").u64(u64::from(seconds));
    }
    w.end_object();
}
