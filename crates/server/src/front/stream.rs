//! Event streams: a subscription as server-sent events, with ids to resume from and heartbeats while nothing happens.
//!
//! Everything that is ready goes out in one piece. An event's encoding is made once per dialect and shared by all its
//! readers; only the envelope around it is written for each.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dialects::framing::json::{Encoded, Writer};
use dialects::framing::jsonrpc::{self, Id, OwnedId};
use dialects::framing::sse;
use dialects::wire::{Head, JsonWire, Operation, aliased};
use engine::{Committed, Item};
use futures_util::FutureExt;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use model::{EventId, Fault, Seq};
use prometheus_client::metrics::gauge::Gauge;

use super::{Counted, Follow, load_all, sign};
use crate::Server;
use crate::links::Terms;
use web::body::{Body, Response, counted};

/// A piece of a stream grows no further than this before it is sent.
const PIECE: usize = 32 << 10;

pub(super) fn rpc(
    server: Arc<Server>,
    wire: &'static dyn JsonWire,
    follow: Follow,
    terms: Terms,
    id: OwnedId,
) -> Response {
    respond(server, wire, follow, terms, Envelope::Rpc(id))
}

pub(super) fn rest(server: Arc<Server>, wire: &'static dyn JsonWire, follow: Follow, terms: Terms) -> Response {
    respond(server, wire, follow, terms, Envelope::Bare)
}

/// A subscription that is refused, told inside a stream: some clients read nothing else.
pub(super) fn refused(wire: &'static dyn JsonWire, id: &Id<'_>, fault: &Fault, operation: Operation) -> Response {
    let (mut data, mut piece) = (Vec::new(), Vec::new());
    wire.rpc_error(&mut data, id, fault, operation);
    sse::write_frame(&mut piece, None::<EventId>, wire.json_facts().error_event, &[&data]);
    let mut response = Response::new(Bytes::from(piece).into());
    sign(&mut response, wire);
    if let Some(seconds) = fault.retry_after_s {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    as_events(response)
}

pub(super) fn as_events(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-store"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

enum Envelope {
    Rpc(OwnedId),
    Bare,
}

struct Feed {
    server: Arc<Server>,
    wire: &'static dyn JsonWire,
    follow: Follow,
    terms: Terms,
    envelope: Envelope,
    heartbeat: Duration,
    over: bool,
    _open: Counted<Gauge>,
}

fn respond(
    server: Arc<Server>,
    wire: &'static dyn JsonWire,
    follow: Follow,
    terms: Terms,
    envelope: Envelope,
) -> Response {
    let heartbeat = Duration::from_millis(server.settings.heartbeat_ms);
    let open = Counted::new(server.metrics.streams.clone());
    let feed = Feed { server, wire, follow, terms, envelope, heartbeat, over: false, _open: open };
    let pieces = futures_util::stream::unfold(feed, |mut feed| async move {
        let piece = feed.next_piece().await?;
        Some((piece, feed))
    });
    as_events(Response::new(Body::stream(futures_util::StreamExt::map(pieces, Ok))))
}

impl Feed {
    /// Waits for something to say and says all there is; a heartbeat if nothing comes.
    async fn next_piece(&mut self) -> Option<Bytes> {
        let mut piece = Vec::new();
        while piece.is_empty() {
            if self.over {
                return None;
            }
            let first = match self.follow.subscription.next().now_or_never() {
                Some(first) => first,
                None => match tokio::time::timeout(self.heartbeat, self.follow.subscription.next()).await {
                    Ok(first) => first,
                    Err(_) => return Some(Bytes::from_static(sse::HEARTBEAT)),
                },
            };
            piece.reserve(1_024);
            let mut next = Some(first);
            while let Some(item) = next {
                match item {
                    Some(Ok(item)) => self.write(&mut piece, item).await,
                    Some(Err(fault)) => self.write_fault(&mut piece, &fault),
                    None => self.over = true,
                }
                if self.over || piece.len() > PIECE {
                    break;
                }
                next = self.follow.subscription.next().now_or_never();
            }
        }
        match counted(&self.server.answers, piece.into()) {
            Ok(piece) => Some(piece),
            Err(fault) => {
                let mut words = Vec::new();
                self.write_fault(&mut words, &fault);
                Some(words.into())
            }
        }
    }

    async fn write(&mut self, piece: &mut Vec<u8>, item: Item) {
        match item {
            Item::Task(_) if self.follow.only_later => {}
            Item::Task(task) => {
                let frames = self.wire.stream_task(&task, &self.follow.view, self.follow.shown.as_deref(), false);
                let last = frames.len().saturating_sub(1);
                for (i, frame) in frames.into_iter().enumerate() {
                    // Only the last of several frames for one thing may be resumed from.
                    self.write_value(piece, (i == last).then(|| task.seq()), frame).await;
                }
            }
            Item::Reply(reply) => {
                let mut w = Writer::with_capacity(512);
                let head = Head::new(reply.exchange, self.follow.shown.as_deref(), &reply.context);
                self.wire.stream_message(&mut w, &reply.message, &head);
                // The exchange has no task to resume; the answer is whole.
                self.write_value(piece, None, w.finish()).await;
            }
            Item::Event { committed, closing } => {
                let seq = Some(committed.event.seq);
                match self.encoded(&committed, closing) {
                    Ok(shared) => self.frame(piece, seq, &shared),
                    Err(large) => self.write_value(piece, seq, large).await,
                }
            }
        }
    }

    /// The event's encoding, shared with other readers; what refers to large content every reader encodes and loads for
    /// itself, so that it is not kept in memory with the event.
    fn encoded(&self, committed: &Committed, closing: bool) -> Result<Bytes, Encoded> {
        let (wire, subscription) = (self.wire, &self.follow.subscription);
        let shown = self.follow.shown.as_deref();
        let encode = || {
            let mut w = Writer::with_capacity(512);
            let head = Head::new(subscription.task, shown, &subscription.context);
            wire.stream_event(&mut w, &head, &committed.event, closing);
            w.finish()
        };
        let slot = if shown.is_some() { aliased(wire.slot(closing)) } else { wire.slot(closing) };
        let mut large = None;
        let shared = committed.encoded(slot, || {
            let encoded = encode();
            match encoded.as_bytes() {
                Some(bytes) => bytes.clone(),
                None => {
                    large = Some(encoded);
                    Bytes::new()
                }
            }
        });
        if shared.is_empty() { Err(large.unwrap_or_else(encode)) } else { Ok(shared) }
    }

    async fn write_value(&mut self, piece: &mut Vec<u8>, seq: Option<Seq>, value: Encoded) {
        match load_all(&self.server, &self.terms, value).await {
            Ok(result) => self.frame(piece, seq, &result),
            Err(fault) => self.write_fault(piece, &fault),
        }
    }

    fn frame(&self, piece: &mut Vec<u8>, seq: Option<Seq>, result: &Bytes) {
        let id = seq.map(|seq| EventId { task: self.follow.subscription.task, seq });
        sse::write_head(piece, id, None);
        match &self.envelope {
            Envelope::Rpc(id) => {
                jsonrpc::write_result_head(piece, id);
                piece.extend_from_slice(result);
                jsonrpc::write_result_tail(piece);
            }
            Envelope::Bare => piece.extend_from_slice(result),
        }
        sse::write_tail(piece);
    }

    /// The last word of a stream that fails.
    fn write_fault(&mut self, piece: &mut Vec<u8>, fault: &Fault) {
        self.over = true;
        tracing::warn!(cause = %fault.cause_text(), "a stream failed: {fault}");
        let mut data = Vec::new();
        match &self.envelope {
            Envelope::Rpc(id) => self.wire.rpc_error(&mut data, id, fault, Operation::Stream),
            Envelope::Bare => {
                if let Some(bytes) = self.wire.rest_error(fault, Operation::Stream).1.as_bytes() {
                    data.extend_from_slice(bytes);
                }
            }
        }
        sse::write_frame(piece, None::<EventId>, self.wire.json_facts().error_event, &[&data]);
    }
}
