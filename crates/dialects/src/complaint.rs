//! Taking another server's answer out of its envelope, and reading its errors.
//!
//! Servers disagree on errors more than on anything else: codes with and without `data`, details as a list, an object or a
//! string, google.rpc.Status, problem+json, a bare `message` or `detail`, a proxy's HTML. Here all of them end as an
//! [`ErrorSeen`]; every answer can be read as one.

use model::{Fault, Kind};
use serde_json::Value;

use crate::framing::shape::{Any, shape, shortened};
use crate::peer::Peer;
use crate::seen::ErrorSeen;
use crate::wire::Operation;
use crate::{a2a_v0_3, a2a_v1};

/// A server's own words are kept up to here.
const WORDS: usize = 2_048;

shape! {
    pub(crate) struct Envelope ("an object") {
        jsonrpc: Any<'a> = "jsonrpc",
        result: Any<'a> = "result",
        error: Any<'a> = "error",
    }
}

/// The result in a JSON-RPC response. `status` is HTTP's, where the response was not a frame of a stream.
pub(crate) fn rpc_result<'t>(
    peer: &dyn Peer,
    status: Option<u16>,
    text: &'t str,
    operation: Operation,
) -> Result<&'t str, ErrorSeen> {
    let complain = || Err(complaint(peer, status, text, operation));
    let Ok(envelope) = serde_json::from_str::<Envelope<'t>>(text) else { return complain() };
    let value = |any: Any<'t>| any.0.map(serde_json::value::RawValue::get);
    match (value(envelope.error), value(envelope.result)) {
        (None | Some("null"), Some(result)) => Ok(result),
        // Some servers answer a delete with an envelope that is empty.
        (None, None) if operation == Operation::PushDelete && envelope.jsonrpc.0.is_some() => Ok("null"),
        (None | Some(_), _) => complain(),
    }
}

/// The result of an HTTP+JSON request. An empty body is as good as an empty object.
pub(crate) fn rest_result<'t>(
    peer: &dyn Peer,
    status: u16,
    text: &'t str,
    operation: Operation,
) -> Result<&'t str, ErrorSeen> {
    match status {
        200..=299 if text.trim_ascii().is_empty() => Ok("{}"),
        200..=299 => Ok(text),
        _ => Err(complaint(peer, Some(status), text, operation)),
    }
}

/// The value in a frame of an HTTP+JSON stream: an error has the event name for errors, or the content of one.
pub(crate) fn rest_frame<'t>(
    peer: &dyn Peer,
    event: Option<&str>,
    text: &'t str,
    operation: Operation,
) -> Result<&'t str, ErrorSeen> {
    let failed = event == Some("error")
        || serde_json::from_str::<Envelope<'t>>(text).is_ok_and(|envelope| envelope.error.0.is_some());
    if failed { Err(complaint(peer, None, text, operation)) } else { Ok(text) }
}

/// Any body of an error response, as an error.
pub(crate) fn complaint(peer: &dyn Peer, status: Option<u16>, text: &str, operation: Operation) -> ErrorSeen {
    let body: Value = serde_json::from_str(text).unwrap_or(Value::Null);
    let error = body.get("error").filter(|error| error.is_object()).unwrap_or(&body);
    let code = error.get("code").and_then(|code| code.as_i64().or_else(|| code.as_str()?.parse().ok()));
    let said = words(error).or_else(|| words(&body)).or_else(|| body.get("error")?.as_str().map(str::to_owned));
    let reason = reason(error).or_else(|| name(error.get("type"))).or_else(|| name(body.get("type")));
    let is_json = !body.is_null();
    let kind = reason
        .as_deref()
        .and_then(kind_by_name)
        .or_else(|| code.filter(|code| *code < 0).and_then(|code| peer.kind_of(code)))
        .or_else(|| kind_by_status(status, is_json && said.is_some(), operation));
    // A settled task shares its code and its name with everything that is not supported; only 0.1 has one of its own.
    let kind = match kind {
        Some(Kind::TaskSettled) if code != Some(-32009) => Some(Kind::Unsupported),
        kind => kind,
    };
    let message = match (said, status) {
        (Some(said), _) => shortened(&said, WORDS),
        (None, Some(status @ 200..=299)) => {
            format!("the answer (HTTP {status}) is not one of {}", peer.facts().name)
        }
        (None, Some(status)) => match plain(text) {
            Some(line) => format!("HTTP {status}: {line}"),
            None => format!("HTTP {status}"),
        },
        (None, None) => format!("an event of the stream is not one of {}", peer.facts().name),
    };
    let code = code.or(status.map(i64::from)).unwrap_or(0);
    ErrorSeen { code, message, reason, kind: kind.or(Some(Kind::InvalidAgentResponse).filter(|_| code == 0)) }
}

impl ErrorSeen {
    /// The error as a fault; an error of unknown kind is an internal error of the other server.
    pub fn to_fault(&self) -> Fault {
        Fault::new(self.kind.unwrap_or(Kind::Internal), self.message.clone())
    }
}

/// The error's message: the first of the members where servers put it.
fn words(error: &Value) -> Option<String> {
    let text = |name: &str| error.get(name)?.as_str().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned);
    let listed = || {
        let lines = error.get("detail")?.as_array()?.iter().filter_map(|one| one.get("msg")?.as_str());
        Some(lines.collect::<Vec<_>>().join("; ")).filter(|text| !text.is_empty())
    };
    text("message").or_else(|| text("detail")).or_else(listed).or_else(|| text("title"))
}

/// The reason in the details, whether they are a list or one object.
fn reason(error: &Value) -> Option<String> {
    let details = error.get("data").filter(|data| !data.is_null()).or_else(|| error.get("details"))?;
    let found = match details {
        Value::Array(list) => list.iter().find_map(|detail| detail.get("reason")),
        other => other.get("reason"),
    };
    found?.as_str().map(|text| shortened(text, 128))
}

/// A class name, or the last segment of a problem's URI.
fn name(value: Option<&Value>) -> Option<String> {
    let text = value?.as_str()?;
    let last = text.rsplit('/').next().unwrap_or(text);
    Some(shortened(last, 128)).filter(|name| !name.is_empty() && name != "about:blank")
}

/// `TASK_NOT_FOUND`, `TaskNotFoundError` and `task-not-found` are one name.
pub(crate) fn kind_by_name(name: &str) -> Option<Kind> {
    let squashed = |name: &str| {
        let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
        let plain = plain.to_ascii_lowercase();
        plain.strip_suffix("error").map(str::to_owned).unwrap_or(plain)
    };
    let wanted = squashed(name);
    Kind::ALL.into_iter().find(|kind| {
        let names = [a2a_v1::errors::reason(*kind), a2a_v0_3::errors::line(*kind, Operation::Unknown).name];
        names.into_iter().flatten().any(|known| squashed(known) == wanted)
    })
}

/// The kind of a bare status. Without a message the status is HTTP's own: a 404 then means an unknown path, not an unknown
/// task.
fn kind_by_status(status: Option<u16>, has_words: bool, operation: Operation) -> Option<Kind> {
    let of_task = match operation {
        Operation::Get
        | Operation::Cancel
        | Operation::Subscribe
        | Operation::PushCreate
        | Operation::PushGet
        | Operation::PushList
        | Operation::PushDelete => true,
        Operation::Unknown | Operation::Send | Operation::Stream | Operation::List | Operation::ExtendedCard => false,
    };
    match status? {
        200..=299 if !has_words => Some(Kind::InvalidAgentResponse),
        401 => Some(Kind::Unauthenticated),
        403 => Some(Kind::Forbidden),
        404 if has_words && of_task => Some(Kind::TaskNotFound),
        404 => Some(Kind::MethodNotFound),
        405 => Some(Kind::VerbNotAllowed),
        409 if operation == Operation::Cancel => Some(Kind::TaskNotCancelable),
        413 => Some(Kind::TooLarge),
        415 if has_words => Some(Kind::ContentType),
        415 => Some(Kind::MediaType),
        400 | 422 => Some(Kind::InvalidParams),
        429 => Some(Kind::RateLimited),
        501 => Some(Kind::Unsupported),
        408 | 502 | 503 | 504 => Some(Kind::Unavailable),
        _ => None,
    }
}

/// The first line of a body that is neither JSON nor a page for browsers.
fn plain(text: &str) -> Option<String> {
    let line = text.trim_start().lines().next()?.trim();
    if line.is_empty() || line.starts_with(['<', '{', '[']) { None } else { Some(shortened(line, 200)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PEERS;

    fn read(peer: usize, status: u16, text: &str, operation: Operation) -> (i64, String, Option<Kind>) {
        let seen = PEERS[peer].result(status, text, operation).unwrap_err();
        (seen.code, seen.message, seen.kind)
    }
    const V1: usize = 0;
    const V1_REST: usize = 1;
    const V0_3: usize = 2;
    const V0_3_REST: usize = 3;
    const V0_1: usize = 4;

    #[test]
    fn errors_of_every_server_become_a_kind_with_words() {
        use Operation::{Get, Send};
        for (peer, status, text, operation, code, message, kind) in [
            (
                V1,
                200,
                r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"no","data":[{"@type":"x","reason":"TASK_NOT_FOUND"}]}}"#,
                Get,
                -32001,
                "no",
                Some(Kind::TaskNotFound),
            ),
            (
                V1,
                200,
                r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"no","data":null}}"#,
                Get,
                -32001,
                "no",
                Some(Kind::TaskNotFound),
            ),
            (
                V1,
                200,
                r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"no","data":"text"}}"#,
                Get,
                -32001,
                "no",
                Some(Kind::TaskNotFound),
            ),
            (
                V1,
                200,
                r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32099,"message":"odd","data":{"a":1}}}"#,
                Get,
                -32099,
                "odd",
                None,
            ),
            (
                V1,
                200,
                r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32009,"message":"v"}}"#,
                Send,
                -32009,
                "v",
                Some(Kind::VersionNotSupported),
            ),
            (
                V0_1,
                200,
                r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32009,"message":"v"}}"#,
                Send,
                -32009,
                "v",
                Some(Kind::TaskSettled),
            ),
            (
                V0_3,
                400,
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"bad"}}"#,
                Send,
                -32600,
                "bad",
                Some(Kind::InvalidRequest),
            ),
            (
                V1_REST,
                404,
                r#"{"error":{"code":404,"status":"NOT_FOUND","message":"gone","details":[{"reason":"TASK_NOT_FOUND"}]}}"#,
                Get,
                404,
                "gone",
                Some(Kind::TaskNotFound),
            ),
            (
                V1_REST,
                409,
                r#"{"type":"https://a2a-protocol.org/errors/task-not-cancelable","title":"Not now","status":409,"detail":"it is done"}"#,
                Operation::Cancel,
                409,
                "it is done",
                Some(Kind::TaskNotCancelable),
            ),
            (V0_3_REST, 404, r#"{"message":"Task not found"}"#, Get, 404, "Task not found", Some(Kind::TaskNotFound)),
            (
                V0_3_REST,
                501,
                r#"{"code":-32004,"message":"no","type":"UnsupportedOperationError"}"#,
                Send,
                -32004,
                "no",
                Some(Kind::Unsupported),
            ),
            (
                V0_3_REST,
                422,
                r#"{"detail":[{"msg":"field required","loc":["body"]},{"msg":"too long"}]}"#,
                Send,
                422,
                "field required; too long",
                Some(Kind::InvalidParams),
            ),
            (V1, 404, "<html><body>nginx</body></html>", Get, 404, "HTTP 404", Some(Kind::MethodNotFound)),
            (V1, 502, "upstream is away\nmore", Send, 502, "HTTP 502: upstream is away", Some(Kind::Unavailable)),
            (V1, 401, r#"{"error":"invalid_token"}"#, Send, 401, "invalid_token", Some(Kind::Unauthenticated)),
            (
                V1,
                200,
                "<html>hello</html>",
                Send,
                200,
                "the answer (HTTP 200) is not one of 1.0 over JSON-RPC",
                Some(Kind::InvalidAgentResponse),
            ),
            (V1, 500, "", Send, 500, "HTTP 500", None),
        ] {
            assert_eq!(read(peer, status, text, operation), (code, message.to_owned(), kind), "{text}");
        }
    }

    #[test]
    fn a_result_is_found_beside_an_error_that_is_null_and_a_delete_needs_none() {
        let v1 = PEERS[V1];
        assert_eq!(
            v1.result(200, r#"{"jsonrpc":"2.0","result":{"a":1},"error":null}"#, Operation::Get).unwrap(),
            r#"{"a":1}"#
        );
        assert_eq!(v1.result(200, r#"{"jsonrpc":"2.0","id":1}"#, Operation::PushDelete).unwrap(), "null");
        assert!(v1.result(200, r#"{"jsonrpc":"2.0","id":1}"#, Operation::Get).is_err());
        assert_eq!(PEERS[V1_REST].result(204, "", Operation::PushDelete).unwrap(), "{}");
    }

    #[test]
    fn a_frame_fails_by_its_name_or_by_what_it_holds() {
        let rest = PEERS[V1_REST];
        let error = r#"{"error":{"code":500,"message":"broke"}}"#;
        assert_eq!(rest.frame(Some("error"), error, Operation::Stream).unwrap_err().message, "broke");
        assert_eq!(rest.frame(None, error, Operation::Stream).unwrap_err().message, "broke");
        assert_eq!(rest.frame(None, r#"{"task":{}}"#, Operation::Stream).unwrap(), r#"{"task":{}}"#);
        let bare = r#"{"code":-32603,"message":"broke"}"#;
        let seen = rest.frame(Some("error"), bare, Operation::Stream).unwrap_err();
        assert_eq!((seen.code, seen.kind), (-32603, Some(Kind::Internal)));
    }

    proptest::proptest! {
        #[test]
        fn anything_is_a_result_or_a_complaint(status in 100_u16..600, text: String) {
            for peer in PEERS {
                let _ = peer.result(status, &text, Operation::Get);
                let _ = peer.frame(Some("error"), &text, Operation::Stream);
            }
        }
    }
}
