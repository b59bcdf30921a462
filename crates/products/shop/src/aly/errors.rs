//! Aly's ten error codes. Some have another meaning in another operation.

use model::{Fault, Kind};

use dialects::framing::json::{Encoded, Writer};
use dialects::framing::jsonrpc::{self, Id};
use dialects::wire::{ErrorLine, Operation};

pub const PARSE: i32 = -32700;
pub const INVALID_REQUEST: i32 = -32600;
pub const METHOD_NOT_FOUND: i32 = -32601;
pub const INVALID_PARAMS: i32 = -32602;
pub const INTERNAL: i32 = -32603;
/// Authentication is required.
pub const AUTHENTICATION: i32 = -32000;
/// Task or push config not found.
pub const NOT_FOUND: i32 = -32001;
/// The task to cancel is not found, or cannot be cancelled any more.
pub const NOT_CANCELABLE: i32 = -32002;
/// The credential lacks the permission; or a push config could not be registered.
pub const FORBIDDEN: i32 = -32003;
pub const UNSUPPORTED: i32 = -32004;

/// Code and HTTP status of a fault. The match is exhaustive, so that a new kind does not compile without its line.
pub const fn line(kind: Kind, operation: Operation) -> ErrorLine {
    let cancels = matches!(operation, Operation::Cancel);
    let registers = matches!(operation, Operation::PushCreate);
    let (rpc, http) = match kind {
        Kind::Parse => (PARSE, 400),
        Kind::InvalidRequest => (INVALID_REQUEST, 400),
        Kind::TooLarge => (INVALID_REQUEST, 413),
        Kind::MediaType => (INVALID_REQUEST, 415),
        Kind::MethodNotFound => (METHOD_NOT_FOUND, 404),
        Kind::VerbNotAllowed => (METHOD_NOT_FOUND, 405),
        Kind::InvalidParams if registers => (FORBIDDEN, 400),
        Kind::InvalidParams
        | Kind::ContentType
        | Kind::ExtensionRequired
        | Kind::VersionNotSupported
        | Kind::KeyReused => (INVALID_PARAMS, 400),
        Kind::TaskNotFound if cancels => (NOT_CANCELABLE, 404),
        Kind::TaskNotFound => (NOT_FOUND, 404),
        Kind::TaskNotCancelable => (NOT_CANCELABLE, 409),
        Kind::TaskSettled if cancels => (NOT_CANCELABLE, 409),
        Kind::TaskSettled if registers => (FORBIDDEN, 409),
        Kind::TaskSettled => (UNSUPPORTED, 409),
        Kind::PushNotSupported => (FORBIDDEN, 400),
        Kind::Unsupported => (UNSUPPORTED, 400),
        Kind::ExtendedCardNotConfigured => (UNSUPPORTED, 404),
        Kind::Unauthenticated => (AUTHENTICATION, 401),
        Kind::Forbidden => (FORBIDDEN, 403),
        Kind::RateLimited => (INTERNAL, 429),
        Kind::InsufficientBalance | Kind::BudgetExceeded => (INTERNAL, 402),
        Kind::Unavailable => (INTERNAL, 503),
        Kind::InvalidAgentResponse | Kind::Internal => (INTERNAL, 500),
    };
    ErrorLine { rpc, http, name: None }
}

/// The message of a missing task is fixed, so that a task of another workspace cannot be told apart from it.
fn message(fault: &Fault) -> &str {
    let about_task = fault.kind == Kind::TaskNotFound && !fault.message.contains("config");
    if about_task { "Task not found" } else { &fault.message }
}

/// A JSON-RPC error response; also the last frame of a stream that fails.
pub fn rpc_error(out: &mut Vec<u8>, id: &Id<'_>, fault: &Fault, operation: Operation) {
    let mut w = jsonrpc::begin_error(id, line(fault.kind, operation).rpc, message(fault));
    jsonrpc::end_error(&mut w);
    if let Some(bytes) = w.finish().as_bytes() {
        out.extend_from_slice(bytes);
    }
}

/// Status and body of an HTTP+JSON error: the same code and message, without the rest of JSON-RPC.
pub fn rest_error(fault: &Fault, operation: Operation) -> (u16, Encoded) {
    let line = line(fault.kind, operation);
    let mut w = Writer::new();
    w.begin_object();
    w.key("error").begin_object();
    w.key("code").i64(i64::from(line.rpc));
    w.key("message").string(message(fault));
    w.end_object();
    w.end_object();
    (line.http, w.finish())
}
