//! Faults into 0.1 errors: `{code, message}` and no more, but for what is about money.
//!
//! The generation contradicts itself: its schema and sample servers know -32001 to -32005, its text goes on to -32011. A
//! code is the schema's where it has one (so a settled task and a missing capability are both -32004), the text's where
//! only the text has one (authentication, permission, rate limit, unavailable), ours otherwise.

use model::{Fault, Kind};

use crate::framing::json::Encoded;
use crate::framing::jsonrpc::{self, Id};
use crate::wire::{ErrorLine, Operation};

const fn entry(rpc: i32, http: u16) -> ErrorLine {
    ErrorLine { rpc, http, name: None }
}

/// The table. A new kind does not compile before it has a line here.
pub fn line(kind: Kind, _operation: Operation) -> ErrorLine {
    match kind {
        Kind::Parse => entry(-32700, 400),
        Kind::InvalidRequest => entry(-32600, 400),
        Kind::MethodNotFound => entry(-32601, 404),
        Kind::VerbNotAllowed => entry(-32601, 405),
        Kind::InvalidParams | Kind::KeyReused => entry(-32602, 400),
        Kind::TooLarge => entry(-32600, 413),
        Kind::MediaType => entry(-32600, 415),
        Kind::TaskNotFound => entry(-32001, 404),
        Kind::TaskNotCancelable => entry(-32002, 400),
        Kind::PushNotSupported => entry(-32003, 400),
        Kind::TaskSettled | Kind::Unsupported | Kind::ExtensionRequired | Kind::ExtendedCardNotConfigured => {
            entry(-32004, 400)
        }
        Kind::ContentType => entry(-32005, 400),
        // -32006 is another error here.
        Kind::InvalidAgentResponse | Kind::Internal => entry(-32603, 500),
        Kind::Unauthenticated => entry(-32007, 401),
        Kind::Forbidden => entry(-32008, 403),
        Kind::RateLimited => entry(-32010, 429),
        Kind::Unavailable => entry(-32011, 503),
        // Ours, as in every generation; the text's own end at -32011.
        Kind::InsufficientBalance | Kind::BudgetExceeded => entry(-32042, 402),
        // Clients of this generation state no version; -32009 would be read as a wrong state of the task.
        Kind::VersionNotSupported => entry(-32600, 400),
    }
}

/// A whole JSON-RPC error response.
pub fn rpc_error(out: &mut Vec<u8>, id: &Id<'_>, fault: &Fault, operation: Operation) {
    let mut w = jsonrpc::begin_error(id, line(fault.kind, operation).rpc, &fault.message);
    // The schema has a member for details. Only faults whose details a program needs to continue have it.
    if matches!(fault.kind, Kind::InsufficientBalance | Kind::BudgetExceeded) && !fault.facts.is_empty() {
        w.key("data").begin_object();
        for (name, value) in &fault.facts {
            w.key(name).string(value);
        }
        w.end_object();
    }
    jsonrpc::end_error(&mut w);
    if let Some(bytes) = w.finish().as_bytes() {
        out.extend_from_slice(bytes);
    }
}

/// There is no binding but JSON-RPC: the body is its error, with the status HTTP has for it.
pub fn rest_error(fault: &Fault, operation: Operation) -> (u16, Encoded) {
    let mut body = Vec::new();
    rpc_error(&mut body, &Id::NULL, fault, operation);
    (line(fault.kind, operation).http, Encoded::from_bytes(body))
}
