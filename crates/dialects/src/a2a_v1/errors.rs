//! Faults into 1.0 errors: one exhaustive table from kind to codes, and the two shapes they travel in.
//!
//! The codes are those of 1.0.1. Where the protocol has none, Rialto uses its own range; the last two digits recall the
//! HTTP status (the first and the last of it):
//!
//! | kind | JSON-RPC | HTTP |
//! |---|---|---|
//! | unauthenticated | -32041 | 401 |
//! | insufficient balance, budget exceeded | -32042 | 402 |
//! | forbidden | -32043 | 403 |
//! | rate limited | -32049 | 429 |
//! | unavailable | -32053 | 503 |
//!
//! Every error carries an `ErrorInfo`, whose reason tells more than the code. A fault's cause is for the log and has no
//! way out of here.

use model::{Fault, Kind};

use crate::framing::json::{Encoded, Writer};
use crate::framing::jsonrpc::{self, Id};
use crate::protobuf::{DOMAIN, RpcCode};
use crate::wire::ErrorLine;

/// Everything the bindings say of one kind.
struct Line {
    rpc: i32,
    http: u16,
    grpc: RpcCode,
    reason: Option<&'static str>,
}

const fn entry(rpc: i32, http: u16, grpc: RpcCode, reason: &'static str) -> Line {
    Line { rpc, http, grpc, reason: Some(reason) }
}

/// The table. A new kind does not compile before it has a line here.
const fn table(kind: Kind) -> Line {
    match kind {
        Kind::Parse => entry(-32700, 400, RpcCode::InvalidArgument, "PARSE_ERROR"),
        Kind::InvalidRequest => entry(-32600, 400, RpcCode::InvalidArgument, "INVALID_REQUEST"),
        Kind::MethodNotFound => entry(-32601, 404, RpcCode::NotFound, "METHOD_NOT_FOUND"),
        Kind::VerbNotAllowed => entry(-32601, 405, RpcCode::Unimplemented, "METHOD_NOT_ALLOWED"),
        Kind::InvalidParams => entry(-32602, 400, RpcCode::InvalidArgument, "INVALID_PARAMS"),
        // Not RESOURCE_EXHAUSTED, which clients try again.
        Kind::TooLarge => entry(-32600, 413, RpcCode::InvalidArgument, "PAYLOAD_TOO_LARGE"),
        // Answered by a bare status on both bindings: a client that sends another media type does not read JSON.
        Kind::MediaType => entry(-32600, 415, RpcCode::InvalidArgument, "UNSUPPORTED_MEDIA_TYPE"),
        Kind::TaskNotFound => entry(-32001, 404, RpcCode::NotFound, "TASK_NOT_FOUND"),
        Kind::TaskNotCancelable => entry(-32002, 400, RpcCode::FailedPrecondition, "TASK_NOT_CANCELABLE"),
        Kind::PushNotSupported => entry(-32003, 400, RpcCode::FailedPrecondition, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
        Kind::TaskSettled | Kind::Unsupported => {
            entry(-32004, 400, RpcCode::FailedPrecondition, "UNSUPPORTED_OPERATION")
        }
        Kind::ContentType => entry(-32005, 400, RpcCode::InvalidArgument, "CONTENT_TYPE_NOT_SUPPORTED"),
        Kind::InvalidAgentResponse => entry(-32006, 500, RpcCode::Internal, "INVALID_AGENT_RESPONSE"),
        Kind::ExtendedCardNotConfigured => {
            entry(-32007, 400, RpcCode::FailedPrecondition, "EXTENDED_AGENT_CARD_NOT_CONFIGURED")
        }
        Kind::ExtensionRequired => entry(-32008, 400, RpcCode::FailedPrecondition, "EXTENSION_SUPPORT_REQUIRED"),
        Kind::VersionNotSupported => entry(-32009, 400, RpcCode::FailedPrecondition, "VERSION_NOT_SUPPORTED"),
        Kind::Unauthenticated => entry(-32041, 401, RpcCode::Unauthenticated, "UNAUTHENTICATED"),
        Kind::Forbidden => entry(-32043, 403, RpcCode::PermissionDenied, "PERMISSION_DENIED"),
        Kind::RateLimited => entry(-32049, 429, RpcCode::ResourceExhausted, "RATE_LIMITED"),
        // Not RESOURCE_EXHAUSTED, which clients try again.
        Kind::InsufficientBalance => entry(-32042, 402, RpcCode::FailedPrecondition, "INSUFFICIENT_BALANCE"),
        Kind::BudgetExceeded => entry(-32042, 402, RpcCode::FailedPrecondition, "BUDGET_EXCEEDED"),
        Kind::KeyReused => entry(-32602, 400, RpcCode::InvalidArgument, "IDEMPOTENCY_KEY_REUSED"),
        Kind::Unavailable => entry(-32053, 503, RpcCode::Unavailable, "UNAVAILABLE"),
        Kind::Internal => entry(-32603, 500, RpcCode::Internal, "INTERNAL_ERROR"),
    }
}

/// The table's line in the words all dialects share.
pub fn line(kind: Kind) -> ErrorLine {
    let Line { rpc, http, reason, .. } = table(kind);
    ErrorLine { rpc, http, name: reason }
}

pub fn rpc_code(kind: Kind) -> i32 {
    table(kind).rpc
}

/// The status of the HTTP+JSON binding. JSON-RPC answers 200 but for what never reaches it (401, 405, 413, 415).
pub fn http_status(kind: Kind) -> u16 {
    table(kind).http
}

/// The name of the status of gRPC, which HTTP+JSON has in its body, too.
pub fn grpc_status(kind: Kind) -> &'static str {
    table(kind).grpc.name()
}

/// The status that a call over gRPC ends with. There a method that does not exist is unimplemented, as every library of
/// gRPC says; over HTTP+JSON it is not found.
pub fn rpc_status(kind: Kind) -> RpcCode {
    if kind == Kind::MethodNotFound { RpcCode::Unimplemented } else { table(kind).grpc }
}

/// The reason in `ErrorInfo`; `None` for what is answered by a bare status.
pub fn reason(kind: Kind) -> Option<&'static str> {
    table(kind).reason
}

/// A whole JSON-RPC error response, also the last event of a stream that fails.
pub fn rpc_error(out: &mut Vec<u8>, id: &Id<'_>, fault: &Fault) {
    let w = jsonrpc::encode_error(id, rpc_code(fault.kind), &fault.message, |w| details(w, fault));
    if let Some(bytes) = w.finish().as_bytes() {
        out.extend_from_slice(bytes);
    }
}

/// The status and body of an HTTP+JSON error; the body is also the data of a failing stream's last event. The body of a
/// bare status is empty.
pub fn rest_error(fault: &Fault) -> (u16, Encoded) {
    let line = table(fault.kind);
    if line.reason.is_none() {
        return (line.http, Encoded::from_bytes(Vec::new()));
    }
    let mut w = Writer::new();
    w.begin_object();
    w.key("error").begin_object();
    w.key("code").u64(u64::from(line.http));
    w.key("status").plain(line.grpc.name());
    w.key("message").string(&fault.message);
    details(w.key("details"), fault);
    w.end_object();
    w.end_object();
    (line.http, w.finish())
}

/// The typed details, the same on both bindings.
fn details(w: &mut Writer, fault: &Fault) {
    w.begin_array();
    if let Some(reason) = reason(fault.kind) {
        w.begin_object();
        w.key("@type").plain("type.googleapis.com/google.rpc.ErrorInfo");
        w.key("reason").plain(reason);
        w.key("domain").plain(DOMAIN);
        if !fault.facts.is_empty() {
            w.key("metadata").begin_object();
            for (name, value) in &fault.facts {
                w.key(name).string(value);
            }
            w.end_object();
        }
        w.end_object();
    }
    if fault.kind == Kind::InvalidParams {
        w.begin_object();
        w.key("@type").plain("type.googleapis.com/google.rpc.BadRequest");
        w.key("fieldViolations").begin_array();
        w.begin_object();
        if let Some(field) = fault.field.as_deref().filter(|field| !field.is_empty()) {
            w.key("field").string(field);
        }
        w.key("description").string(&fault.message);
        w.end_object();
        w.end_array();
        w.end_object();
    }
    if let Some(seconds) = fault.retry_after_s {
        w.begin_object();
        w.key("@type").plain("type.googleapis.com/google.rpc.RetryInfo");
        w.key("retryDelay").display(format_args!("{seconds}s"));
        w.end_object();
    }
    w.end_array();
}
