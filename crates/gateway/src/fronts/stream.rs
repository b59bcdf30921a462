//! Event streams: a subscription as server-sent events, with ids to resume from, and heartbeats while there are no
//! events.
//!
//! All events that are ready are sent in one piece. An event is encoded once per dialect, and all its readers share the
//! encoding; only the envelope around it is written for each.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dialects::framing::json::{Encoded, Writer};
use dialects::framing::jsonrpc::{self, Id, OwnedId};
use dialects::framing::sse;
use dialects::wire::{Head, JsonWire, Operation, aliased};
use engine::{Committed, SubscriptionItem};
use futures_util::FutureExt;
use http::header::RETRY_AFTER;
use model::{EventId, Fault, Seq};

use super::{StreamPlan, encoded_size, load_all, sign};
use crate::GatewayVersion;
use crate::links::LinkOptions;
use web::body::{Response, reserve};
use web::sse::{EventSource, EventStream, Flow, as_events};

pub fn rpc(
    server: Arc<GatewayVersion>,
    wire: &'static dyn JsonWire,
    follow: StreamPlan,
    terms: LinkOptions,
    id: OwnedId,
) -> Response {
    respond(server, wire, follow, terms, Envelope::Rpc(id))
}

pub fn rest(
    server: Arc<GatewayVersion>,
    wire: &'static dyn JsonWire,
    follow: StreamPlan,
    terms: LinkOptions,
) -> Response {
    respond(server, wire, follow, terms, Envelope::Bare)
}

/// The fault of a refused subscription as a frame of a stream: some clients read nothing else.
pub fn refused(wire: &'static dyn JsonWire, id: &Id<'_>, fault: &Fault, operation: Operation) -> Response {
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

enum Envelope {
    Rpc(OwnedId),
    Bare,
}

struct Feed {
    server: Arc<GatewayVersion>,
    wire: &'static dyn JsonWire,
    follow: StreamPlan,
    terms: LinkOptions,
    envelope: Envelope,
    /// A fault was written: it is the last frame.
    has_failed: bool,
}

fn respond(
    server: Arc<GatewayVersion>,
    wire: &'static dyn JsonWire,
    follow: StreamPlan,
    terms: LinkOptions,
    envelope: Envelope,
) -> Response {
    let heartbeat = Duration::from_millis(server.settings.heartbeat_ms);
    let (open, answers) = (server.metrics.streams.clone(), server.answers.clone());
    let feed = Feed { server, wire, follow, terms, envelope, has_failed: false };
    EventStream::new(feed, open).heartbeat(heartbeat, sse::HEARTBEAT).counted(answers).respond()
}

impl EventSource for Feed {
    type Item = Result<SubscriptionItem, Fault>;

    fn ready(&mut self) -> Option<Option<Self::Item>> {
        self.follow.subscription.next().now_or_never()
    }

    fn next(&mut self) -> impl Future<Output = Option<Self::Item>> + Send {
        self.follow.subscription.next()
    }

    async fn write(&mut self, piece: &mut Vec<u8>, item: Option<Self::Item>) -> io::Result<Flow> {
        match item {
            Some(Ok(item)) => self.write_item(piece, item).await,
            Some(Err(fault)) => self.write_fault(piece, &fault),
            None => return Ok(Flow::Ends),
        }
        Ok(if self.has_failed { Flow::Ends } else { Flow::Continues })
    }

    fn write_no_room(&mut self, piece: &mut Vec<u8>, fault: &Fault) -> io::Result<()> {
        self.write_fault(piece, fault);
        Ok(())
    }
}

impl Feed {
    async fn write_item(&mut self, piece: &mut Vec<u8>, item: SubscriptionItem) {
        match item {
            SubscriptionItem::Task(_) if self.follow.only_later => {}
            SubscriptionItem::Task(task) => {
                let _share = match reserve(&self.server.answers, encoded_size(&task)) {
                    Ok(share) => share,
                    Err(fault) => return self.write_fault(piece, &fault),
                };
                let frames = self.wire.stream_task(&task, &self.follow.view, self.follow.shown.as_deref(), false);
                let last = frames.len().saturating_sub(1);
                for (i, frame) in frames.into_iter().enumerate() {
                    // Of several frames for one event, only the last one has an id to resume from.
                    self.write_value(piece, (i == last).then(|| task.seq()), frame).await;
                }
            }
            SubscriptionItem::Reply(reply) => {
                let mut w = Writer::with_capacity(512);
                let head = Head::new(reply.exchange, self.follow.shown.as_deref(), &reply.context);
                self.wire.stream_message(&mut w, &reply.message, &head);
                // The exchange has no task to resume; the answer is complete.
                self.write_value(piece, None, w.finish()).await;
            }
            SubscriptionItem::Event { committed, closing } => {
                let seq = Some(committed.event.seq);
                match self.encoded(&committed, closing) {
                    Ok(shared) => self.frame(piece, seq, &shared),
                    Err(large) => self.write_value(piece, seq, large).await,
                }
            }
        }
    }

    /// The event's encoding, shared with other readers. An event that refers to large content is encoded and loaded by
    /// every reader, so that the content does not stay in memory with the event.
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
        piece.reserve(result.len() + 256);
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

    /// Writes the fault that ends a stream.
    fn write_fault(&mut self, piece: &mut Vec<u8>, fault: &Fault) {
        self.has_failed = true;
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
