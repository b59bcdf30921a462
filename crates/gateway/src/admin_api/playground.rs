//! A request to another server that an operator composes in the playground. It goes through the outbound address policy,
//! and its answer is sent on as it comes.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use dialects::framing::sse;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use model::{Fault, Kind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use url::Url;
use web::body::Response;
use web::concurrency::ConcurrencyLimit;
use web::outbound::{CallError, OutboundAnswer, OutboundCall, origin};
use web::sse::{EventSource, EventStream, Flow};

use super::ApiContext;
use super::problem::ApiProblem;
use crate::webhooks;

/// The largest body of a request to this operation: that of the call, as base64.
pub(super) const BODY: usize = 4 << 20;
/// Calls at a time.
const CALLS: u32 = 16;
const METHODS: [Method; 3] = [Method::GET, Method::POST, Method::DELETE];
/// Most headers of a call, and the longest value.
const HEADERS: usize = 64;
const VALUE: usize = 8 << 10;
const HEAD_WITHIN: Duration = Duration::from_secs(120);
const WHOLE_WITHIN: Duration = Duration::from_secs(600);
/// Most bytes of an answer.
const ANSWER: usize = 8 << 20;
/// A piece of an answer's body is sent on in parts of this size.
const PART: usize = 48 << 10;
/// Headers about the connection, which are the server's own.
const KEPT_BACK: [&str; 13] = [
    "connection",
    "content-length",
    "expect",
    "forwarded",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "CallHeader")]
pub(super) struct ApiCallHeader {
    name: String,
    value: String,
}

/// A request to another server.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "PlaygroundCall")]
pub(super) struct ApiPlaygroundCall {
    /// An absolute address that the server's policy for webhooks allows.
    url: String,
    /// `GET`, `POST` or `DELETE`.
    method: String,
    /// At most 64; none about the connection, such as `Host` or `Content-Length`.
    #[serde(default)]
    headers: Vec<ApiCallHeader>,
    #[serde(default)]
    body: Option<String>,
    /// Instead of `body`, for bytes that are no text.
    #[serde(default)]
    body_base64: Option<String>,
}

/// An event of the answer: its head first, then pieces of the body, at last its end or failure.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase", rename_all_fields = "camelCase")]
#[schemars(rename = "CallEvent")]
pub(super) enum ApiCallEvent {
    Head {
        /// Milliseconds since the call began.
        ms: u64,
        status: u16,
        /// Such as `HTTP/1.1`.
        version: String,
        /// Names and values in their order.
        headers: Vec<(String, String)>,
    },
    Body {
        ms: u64,
        base64: String,
    },
    End {
        ms: u64,
    },
    /// The answer broke off, or was cut off at a limit.
    Failed {
        ms: u64,
        reason: String,
    },
}

pub(super) async fn call(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let (server, door) = (context.server, context.door);
    let wanted: ApiPlaygroundCall = context.body()?;
    let method = METHODS.into_iter().find(|method| method.as_str() == wanted.method);
    let method = method.ok_or_else(|| ApiProblem::field("method", "must be GET, POST or DELETE"))?;
    webhooks::check_address(door.post.policy(), &wanted.url)?;
    let url = Url::parse(&wanted.url).map_err(|_| ApiProblem::field("url", "is no absolute address"))?;
    let headers = headers(&wanted.headers)?;
    let body = body(wanted.body, wanted.body_base64)?;
    let throttle = server.throttle.as_ref();
    let permit = throttle.map(|throttle| throttle.stream(&context.caller.known, context.http.address)).transpose()?;
    let place = ConcurrencyLimit::take(&door.calls, 0, CALLS).ok_or_else(|| {
        let message = format!("the server makes {CALLS} calls to other servers, which is the limit; try again later");
        Fault::new(Kind::RateLimited, message).retry_after(2)
    })?;
    let receiver = origin(&url);
    // Before the call: it is made also if the client goes away.
    let line = json!({ "method": method.as_str(), "to": &*receiver });
    context.admin().changed("playground", "called", line);
    let began = Instant::now();
    let made =
        OutboundCall { method, url, headers, body, head_within: HEAD_WITHIN, whole_within: WHOLE_WITHIN, most: ANSWER };
    let answer = door.post.call(made).await.map_err(|error| match error {
        CallError::Refused(says) => ApiProblem::field("url", says),
        CallError::Failed(says) => ApiProblem::no_answer(format!("{receiver} {says}")),
    })?;
    let feed = CallFeed { began, answer, unsent: VecDeque::new(), step: Step::Head };
    let heartbeat = Duration::from_millis(server.settings.heartbeat_ms);
    let stream = EventStream::new(feed, server.metrics.streams.clone()).heartbeat(heartbeat, sse::HEARTBEAT);
    Ok(stream.counted(server.answers.clone()).permits([permit.flatten(), Some(place)]).respond())
}

fn headers(wanted: &[ApiCallHeader]) -> Result<HeaderMap, ApiProblem> {
    if wanted.len() > HEADERS {
        return Err(ApiProblem::field("headers", format!("must be at most {HEADERS}")));
    }
    let mut headers = HeaderMap::new();
    for (number, ApiCallHeader { name, value }) in wanted.iter().enumerate() {
        let field = |member: &str, says: &str| Err(ApiProblem::field(format!("headers[{number}].{member}"), says));
        let Ok(name) = HeaderName::from_bytes(name.as_bytes()) else {
            return field("name", "is no name of a header");
        };
        if KEPT_BACK.contains(&name.as_str()) || name.as_str().starts_with("x-forwarded-") {
            return field("name", "is a header about the connection, which the server writes itself");
        }
        if value.len() > VALUE {
            return field("value", "is longer than 8192 bytes");
        }
        let Ok(value) = HeaderValue::from_str(value) else {
            return field("value", "has characters that a header cannot have, such as line breaks");
        };
        headers.append(name, value);
    }
    Ok(headers)
}

fn body(text: Option<String>, base64: Option<String>) -> Result<Bytes, ApiProblem> {
    match (text, base64) {
        (Some(_), Some(_)) => Err(ApiProblem::field("bodyBase64", "is instead of body: send one of them")),
        (Some(text), None) => Ok(text.into()),
        (None, Some(base64)) => {
            let read = STANDARD.decode(base64).map(Bytes::from);
            read.map_err(|_| ApiProblem::field("bodyBase64", "is no base64"))
        }
        (None, None) => Ok(Bytes::new()),
    }
}

enum Step {
    Head,
    Body,
    Over,
}

/// The events of an answer.
struct CallFeed {
    began: Instant,
    answer: OutboundAnswer,
    unsent: VecDeque<Bytes>,
    step: Step,
}

impl CallFeed {
    fn head(&self) -> ApiCallEvent {
        let value = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers = self.answer.headers.iter().map(|(name, one)| (name.to_string(), value(one))).collect();
        let (status, version) = (self.answer.status.as_u16(), format!("{:?}", self.answer.version));
        ApiCallEvent::Head { ms: self.ms(), status, version, headers }
    }

    fn ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }
}

impl EventSource for CallFeed {
    type Item = ApiCallEvent;

    async fn next(&mut self) -> Option<ApiCallEvent> {
        loop {
            match self.step {
                Step::Head => {
                    self.step = Step::Body;
                    return Some(self.head());
                }
                Step::Body => {
                    if let Some(part) = self.unsent.pop_front() {
                        return Some(ApiCallEvent::Body { ms: self.ms(), base64: STANDARD.encode(part) });
                    }
                    match self.answer.piece().await {
                        Ok(Some(mut piece)) => {
                            while !piece.is_empty() {
                                self.unsent.push_back(piece.split_to(piece.len().min(PART)));
                            }
                        }
                        Ok(None) => {
                            self.step = Step::Over;
                            return Some(ApiCallEvent::End { ms: self.ms() });
                        }
                        Err(reason) => {
                            self.step = Step::Over;
                            return Some(ApiCallEvent::Failed { ms: self.ms(), reason });
                        }
                    }
                }
                Step::Over => return None,
            }
        }
    }

    async fn write(&mut self, piece: &mut Vec<u8>, item: Option<ApiCallEvent>) -> io::Result<Flow> {
        let Some(event) = item else { return Ok(Flow::Ends) };
        let data = serde_json::to_vec(&event).map_err(io::Error::other)?;
        sse::write_frame(piece, None::<u64>, None, &[&data]);
        Ok(Flow::Continues)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(pairs: &[(&str, &str)]) -> Option<String> {
        let header = |(name, value): &(&str, &str)| ApiCallHeader { name: (*name).into(), value: (*value).into() };
        let wanted: Vec<ApiCallHeader> = pairs.iter().map(header).collect();
        headers(&wanted).err().map(|problem| format!("{problem:?}"))
    }

    #[test]
    fn headers_about_the_connection_and_those_that_break_a_line_are_refused_by_name() {
        assert_eq!(refused(&[("A2A-Version", "1.0"), ("authorization", "Bearer x"), ("x-y", "")]), None);
        for name in ["Host", "HOST", "Connection", "Content-Length", "transfer-encoding", "TE", "X-Forwarded-For"] {
            let says = refused(&[("accept", "*/*"), (name, "x")]).unwrap_or_else(|| panic!("{name} is taken"));
            assert!(says.contains("headers[1].name"), "{says}");
        }
        for name in ["", "a b", "a:b", ":path", "a\r\nb", "é"] {
            assert!(refused(&[(name, "x")]).is_some_and(|says| says.contains("headers[0].name")), "{name:?}");
        }
        for value in ["a\r\nHost: b", "a\nb", "a\0b", &*"x".repeat(VALUE + 1)] {
            assert!(refused(&[("x", value)]).is_some_and(|says| says.contains("headers[0].value")), "{value:?}");
        }
        assert!(refused(&[("x", "y"); HEADERS + 1]).is_some());
    }

    #[test]
    fn a_body_is_text_or_base64() {
        assert_eq!(body(Some("a".into()), None).unwrap(), "a");
        assert_eq!(body(None, Some("aGk=".into())).unwrap(), "hi");
        assert!(body(None, None).unwrap().is_empty());
        assert!(body(Some("a".into()), Some("aGk=".into())).is_err() && body(None, Some("?".into())).is_err());
    }
}
