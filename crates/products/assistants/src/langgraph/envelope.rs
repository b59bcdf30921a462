//! Reads the JSON-RPC envelope of a request, or refuses it.
//!
//! The documented profile refuses with HTTP 400 and a plain object, the current one with a JSON-RPC error. The order of the
//! checks is the product's.

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::{AssistantRequest, HttpReply, LangGraphProfile};
use dialects::framing::jsonrpc::{Id, OwnedId};

/// Methods of the documented profile; the current one also has those of [`NEWER`].
pub const METHODS: [&str; 4] = ["message/send", "message/stream", "tasks/get", "tasks/cancel"];
pub const NEWER: [&str; 6] =
    ["SendMessage", "SendStreamingMessage", "GetTask", "CancelTask", "ListTasks", "GetExtendedAgentCard"];

/// Whether the answer to this method is a stream.
pub fn is_stream(method: &str) -> bool {
    matches!(method, "message/stream" | "SendStreamingMessage")
}

/// Whether this method sends a message.
pub fn is_send(method: &str) -> bool {
    matches!(method, "message/send" | "message/stream" | "SendMessage" | "SendStreamingMessage")
}

/// Reads a request. `accept` is the request's header of that name.
pub fn read(profile: LangGraphProfile, body: &[u8], accept: Option<&str>) -> Result<AssistantRequest, HttpReply> {
    let Ok(value) = serde_json::from_slice::<Value>(body) else {
        return Err(match profile {
            LangGraphProfile::Documented => plain("Invalid JSON payload"),
            LangGraphProfile::Current => error(&Id::NULL, -32700, "Invalid JSON payload"),
        });
    };
    let Value::Object(members) = value else {
        return Err(match profile {
            LangGraphProfile::Documented => plain("Invalid message format"),
            LangGraphProfile::Current => error(&Id::NULL, -32600, "Invalid message format: expected object"),
        });
    };
    let request = match profile {
        LangGraphProfile::Documented => documented(members, accept),
        LangGraphProfile::Current => current(members, accept),
    }?;
    // The checks use the values; the call is decoded from the text, so that opaque JSON stays as it was sent.
    let text = serde_json::from_slice::<Raw>(body).ok().and_then(|raw| raw.params);
    Ok(AssistantRequest { raw: text, ..request })
}

#[derive(serde::Deserialize)]
struct Raw {
    #[serde(default)]
    params: Option<Box<RawValue>>,
}

fn documented(mut members: Map<String, Value>, accept: Option<&str>) -> Result<AssistantRequest, HttpReply> {
    if members.get("jsonrpc") != Some(&json!("2.0")) {
        return Err(plain("Invalid JSON-RPC message. Missing or invalid jsonrpc version"));
    }
    let method = members.get("method").and_then(Value::as_str).unwrap_or_default().to_owned();
    check_accept(&method, accept)?;
    let id = members.get("id").filter(|id| !id.is_null());
    match (id, members.contains_key("method")) {
        (Some(id), true) => {
            let id = own(id);
            if METHODS.contains(&method.as_str()) {
                Ok(AssistantRequest {
                    id,
                    method,
                    params: members.remove("params").unwrap_or_else(|| json!({})),
                    raw: None,
                })
            } else {
                Err(error(&id, -32601, &format!("Method not found: {}", shortened(&method))))
            }
        }
        // A response or a notification has no answer and no effect.
        (Some(_), false) | (None, true) => Err(HttpReply { status: 202, body: Vec::new() }),
        (None, false) => {
            Err(plain("Invalid message format. Message must be a JSON-RPC request, response, or notification"))
        }
    }
}

fn current(mut members: Map<String, Value>, accept: Option<&str>) -> Result<AssistantRequest, HttpReply> {
    let id = match members.get("id") {
        Some(Value::Object(_) | Value::Array(_) | Value::Bool(_)) => None,
        Some(id) => Some(own(id)),
        None => Some(Id::NULL),
    };
    if members.get("jsonrpc") != Some(&json!("2.0")) {
        let message = "Invalid JSON-RPC message: missing or invalid jsonrpc version";
        return Err(error(&id.unwrap_or(Id::NULL), -32600, message));
    }
    let Some(id) = id else {
        let message = "Invalid JSON-RPC message: 'id' must be a string, number, or null";
        return Err(error(&Id::NULL, -32600, message));
    };
    let method = match members.get("method") {
        Some(Value::String(method)) => method.clone(),
        Some(_) => return Err(error(&id, -32601, "Method not found: method must be a string")),
        None if !members.contains_key("id") => {
            return Err(error(&id, -32600, "Invalid message format: must be a JSON-RPC request or notification"));
        }
        None if members.contains_key("result") || members.contains_key("error") => {
            return Err(HttpReply { status: 202, body: Vec::new() });
        }
        None => return Err(error(&id, -32600, "Invalid JSON-RPC request: missing 'method' field")),
    };
    if !members.contains_key("id") {
        return Err(error(&id, -32600, "Invalid message format: must be a JSON-RPC request or notification"));
    }
    if !METHODS.contains(&method.as_str()) && !NEWER.contains(&method.as_str()) {
        return Err(error(&id, -32601, &format!("Method not found: {}", shortened(&method))));
    }
    let params = members.remove("params").unwrap_or_else(|| json!({}));
    if is_send(&method) {
        if !params.is_object() {
            return Err(error(&id, -32602, "Invalid params: must be an object"));
        }
        if !params.get("message").is_some_and(Value::is_object) {
            return Err(error(&id, -32602, "Missing or invalid 'message' in params"));
        }
    }
    check_accept(&method, accept)?;
    Ok(AssistantRequest { id, method, params, raw: None })
}

/// Checks that `Accept` allows the media type of the answer. Both profiles refuse with 400 and a plain object.
fn check_accept(method: &str, accept: Option<&str>) -> Result<(), HttpReply> {
    let (wanted, complaint) = if is_stream(method) {
        ("text/event-stream", "Accept header must include text/event-stream for streaming")
    } else {
        ("application/json", "Accept header must include application/json")
    };
    let kind = wanted.split('/').next().unwrap_or_default();
    let matches = accept.unwrap_or_default().split(',').any(|range| {
        let range = range.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        range == wanted || range == "*/*" || range.strip_suffix("/*").is_some_and(|of| of == kind)
    });
    if matches { Ok(()) } else { Err(plain(complaint)) }
}

fn own(id: &Value) -> OwnedId {
    Id::of(id).unwrap_or(Id::NULL)
}

fn shortened(text: &str) -> String {
    dialects::kit::shape::shortened(text, 64)
}

fn plain(message: &str) -> HttpReply {
    HttpReply { status: 400, body: json!({ "error": message }).to_string().into_bytes() }
}

fn error(id: &Id<'_>, code: i32, message: &str) -> HttpReply {
    HttpReply { status: 200, body: super::errors::envelope(id, code, message) }
}
