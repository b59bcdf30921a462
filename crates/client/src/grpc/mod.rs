//! Calls over gRPC: one HTTP/2 request with one message; the answer's messages, and the status in its trailers.
//!
//! * `frames` takes messages out of bytes; `status` reads how a call ended.
//! * [`RpcCall`] is a call that is being answered; [`RpcEvents`] are the events of a stream.
//!
//! A stream has no heartbeats. A server of ours gives the id of the first message in metadata (`a2a-event-id`); the ones
//! after it are counted from there (`TASK.SEQ+2`), and a stream can be resumed after any of them.

mod frames;
mod status;
#[cfg(test)]
mod tests;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use dialects::proto_peer::{ProtoPeer, ProtoRequest};
use dialects::wire::Operation;
use http_body::Body as _;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue, TE};
use url::Url;

use crate::discover::RemoteInterface;
use crate::error::Error;
use crate::events::PeerEvent;
use crate::http;
use frames::{MessageReader, framed, unreadable};

/// The time limits and the limit of size of one call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RpcLimits {
    /// Until the head of the answer.
    pub(crate) first_byte: Duration,
    /// Until the next piece of the answer.
    pub(crate) idle: Duration,
    /// Of one message.
    pub(crate) message_bytes: usize,
}

/// The HTTP client for gRPC.
#[derive(Debug)]
pub(crate) struct GrpcClient {
    client: reqwest::Client,
    /// A server was heard once.
    answered: AtomicBool,
}

impl GrpcClient {
    pub(crate) fn new(client: reqwest::Client) -> GrpcClient {
        GrpcClient { client, answered: AtomicBool::new(false) }
    }
}

/// A call that is being answered. Dropping it resets its stream.
pub(crate) struct RpcCall {
    body: Pin<Box<reqwest::Body>>,
    frames: MessageReader,
    head: HeaderMap,
    trailers: Option<HeaderMap>,
    operation: Operation,
    idle: Duration,
    place: String,
}

impl RpcCall {
    /// Sends a request, and waits for the head of the answer. A call that is refused at once is an error here.
    pub(crate) async fn open(
        http: &GrpcClient,
        base: &Url,
        request: ProtoRequest,
        beside: &[(&'static str, String)],
        limits: RpcLimits,
    ) -> Result<RpcCall, Error> {
        let ProtoRequest { operation, path, message, headers } = request;
        let mut url = base.clone();
        // Some servers tell agents apart by a path before the service.
        url.set_path(&format!("{}{path}", base.path().trim_end_matches('/')));
        url.set_query(None);
        let mut builder = http.client.post(url).header(TE, "trailers").header(CONTENT_TYPE, "application/grpc");
        builder = builder.header("grpc-accept-encoding", "gzip");
        if !operation.is_stream() {
            // The whole answer of a unary call comes within the time of its first byte.
            builder = builder.header("grpc-timeout", grpc_timeout(limits.first_byte));
        }
        for (name, value) in headers.iter().chain(beside) {
            builder = builder.header(*name, http::header_value(name, value)?);
        }
        let place = http::shown_grpc(base);
        let sending = builder.body(framed(&message)).send();
        let response = match tokio::time::timeout(limits.first_byte, sending).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                let answered_before = http.answered.load(Ordering::Relaxed);
                return Err(status::on_the_way(error, base, &place, answered_before));
            }
            Err(_) => return Err(http::too_late(&place, limits.first_byte)),
        };
        http.answered.store(true, Ordering::Relaxed);
        let (parts, body) = reqwest_parts(response);
        status::check_head(parts.status.as_u16(), &parts.headers, operation)?;
        let gzip = parts.headers.get("grpc-encoding").is_some_and(|encoding| encoding == "gzip");
        let frames = MessageReader::new(limits.message_bytes, gzip);
        let idle = limits.idle;
        Ok(RpcCall { body: Box::pin(body), frames, head: parts.headers, trailers: None, operation, idle, place })
    }

    /// The next message; none after the last one, when the call ended well.
    pub(crate) async fn message(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            if let Some(message) = self.frames.next_message()? {
                return Ok(Some(message));
            }
            let body = &mut self.body;
            let next = std::future::poll_fn(|cx| body.as_mut().poll_frame(cx));
            let Ok(piece) = tokio::time::timeout(self.idle, next).await else { return Err(http::silent(self.idle)) };
            match piece {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) => self.frames.push(&bytes),
                    Err(frame) => self.trailers = frame.into_trailers().ok().or(self.trailers.take()),
                },
                Some(Err(error)) => return Err(http::on_the_way(error, &self.place)),
                None => return self.ended().map(|()| None),
            }
        }
    }

    /// The end of the body: the status says how the call ended.
    fn ended(&self) -> Result<(), Error> {
        let trailers = self.trailers.as_ref().unwrap_or(&self.head);
        let whole = self.frames.is_empty();
        match status::of(trailers, self.operation) {
            Some(Err(error)) => Err(Error::refused(error)),
            Some(Ok(())) if whole => Ok(()),
            None if whole => Err(Error::broken(format!("{} ended an answer without a status", self.place))),
            Some(Ok(())) | None => Err(Error::broken(format!("{} broke off in the middle of a message", self.place))),
        }
    }

    /// The one message of a unary call.
    pub(crate) async fn only_message(mut self) -> Result<Bytes, Error> {
        let Some(message) = self.message().await? else { return Err(unreadable("the answer is empty".to_owned())) };
        match self.message().await? {
            None => Ok(message),
            Some(_) => Err(unreadable("the answer has more than one message".to_owned())),
        }
    }

    fn metadata(headers: Option<&HeaderMap>, name: &str) -> Option<String> {
        let value = headers?.get(name).map(HeaderValue::to_str)?.ok()?;
        Some(value.to_owned()).filter(|value| !value.is_empty())
    }
}

fn reqwest_parts(response: reqwest::Response) -> (::http::response::Parts, reqwest::Body) {
    ::http::Response::<reqwest::Body>::from(response).into_parts()
}

/// At most eight digits and a unit.
fn grpc_timeout(limit: Duration) -> String {
    let ms = limit.as_millis().max(1);
    if ms < 100_000_000 { format!("{ms}m") } else { format!("{}S", limit.as_secs().min(99_999_999)) }
}

/// The events of a stream.
pub(crate) struct RpcEvents {
    call: RpcCall,
    peer: &'static ProtoPeer,
    target: Arc<RemoteInterface>,
    first_id: Option<String>,
    received: u64,
}

impl RpcEvents {
    pub(crate) fn new(call: RpcCall, peer: &'static ProtoPeer, target: Arc<RemoteInterface>) -> RpcEvents {
        let first_id = RpcCall::metadata(Some(&call.head), "a2a-event-id");
        RpcEvents { call, peer, target, first_id, received: 0 }
    }

    pub(crate) async fn next(&mut self) -> Option<Result<PeerEvent, Error>> {
        let message = match self.call.message().await {
            Ok(message) => message?,
            Err(error) => return Some(Err(error)),
        };
        let id = self.first_id.as_ref().map(|first| match self.received {
            0 => first.clone(),
            after => format!("{first}+{after}"),
        });
        self.received += 1;
        self.target.understood();
        let seen = self.peer.read_event(&message).map_err(|fault| Error::unreadable(&fault));
        Some(seen.map(|seen| PeerEvent { id, seen }))
    }

    /// The id of the last message, which a stream that ended tells.
    pub(crate) fn last_id(&self) -> Option<String> {
        RpcCall::metadata(self.call.trailers.as_ref(), "last-event-id")
    }
}
