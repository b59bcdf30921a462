//! Event streams over gRPC: a subscription as messages.
//!
//! The initial metadata `a2a-event-id` is the id of the first message, the trailer `last-event-id` that of the last. A
//! message in between has no metadata of its own, so a caller whose stream broke counts: `last-event-id: ID+N` in a request
//! means that N messages after the one of that id were received.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dialects::ProtoWire;
use dialects::proto_wire::{blobs_of_event, blobs_of_message, blobs_of_task};
use dialects::protobuf::{ProtoWriter, RpcStatus};
use dialects::wire::{Decoded, Head, Operation, aliased};
use engine::{Committed, SubscriptionItem};
use futures_util::FutureExt as _;
use http::{HeaderMap, HeaderName, HeaderValue};
use model::{Blob, Call, EventId, Fault, Kind, Part, Seq, Subscribe};
use web::body::{Response, reserve};
use web::headers::unrepeated;
use web::sse::{EventSource, EventStream, Flow};

use super::frame::{self, MessageEncoding};
use super::{load, weight};
use crate::GatewayVersion;
use crate::fronts::{CallContext, StreamPlan, encoded_size};
use crate::links::LinkOptions;

static LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
static FIRST_EVENT_ID: HeaderName = HeaderName::from_static("a2a-event-id");
/// Time limit for finding the events that a caller says it has received.
const FOUND_WITHIN: Duration = Duration::from_secs(5);
/// Seconds after which a stream that a shutdown cut may be resumed.
const RETRY_AFTER_S: u32 = 1;

type Item = Result<SubscriptionItem, Fault>;

/// Begins a stream: its first message is awaited, because its id is in the initial metadata and a refusal is a status.
pub(super) async fn respond(
    server: &Arc<GatewayVersion>,
    wire: &'static dyn ProtoWire,
    mut follow: StreamPlan,
    terms: LinkOptions,
    encoding: MessageEncoding,
) -> Result<Response, Fault> {
    let first = follow.subscription.next().await.transpose()?;
    let id = match &first {
        Some(SubscriptionItem::Task(task)) => Some(task.seq()),
        Some(SubscriptionItem::Event { committed, .. }) => Some(committed.event.seq),
        Some(SubscriptionItem::Reply(_)) | None => None,
    };
    let id = id.map(|seq| EventId { task: follow.subscription.task, seq });
    let (open, answers) = (server.metrics.streams.clone(), server.answers.clone());
    let feed = Feed {
        server: server.clone(),
        wire,
        follow,
        terms,
        encoding,
        first: first.map(Ok),
        last: None,
        failed: None,
        is_closed: false,
    };
    let mut response = Response::new(EventStream::new(feed, open).counted(answers).into_body());
    if let Some(id) = id.and_then(|id| unrepeated(&id.to_string())) {
        response.headers_mut().insert(FIRST_EVENT_ID.clone(), id);
    }
    Ok(response)
}

/// Headers whose `last-event-id` is the id itself, where the request counts messages after an id.
pub(super) async fn resolve_position(
    asked: &CallContext<'_>,
    decoded: &Decoded,
    headers: &HeaderMap,
) -> Result<Option<HeaderMap>, Fault> {
    let counted = headers.get(&LAST_EVENT_ID).and_then(|id| id.to_str().ok()).and_then(|id| id.split_once('+'));
    let (Some((id, count)), Call::Stream(_) | Call::Subscribe(_)) = (counted, &decoded.call) else { return Ok(None) };
    let unreadable = || Fault::params("last-event-id", "last-event-id is TASK.NUMBER or TASK.NUMBER+COUNT");
    let event: EventId = id.trim().parse().map_err(|_| unreadable())?;
    let mut left: u32 = count.trim().parse().map_err(|_| unreadable())?;
    let subscribe = Subscribe { task: event.task.to_string() };
    let effective = crate::fronts::EffectiveCall::plain_in(Call::Subscribe(subscribe.clone()), decoded.tenant.clone());
    let place = asked.place(&effective)?;
    let mut subscription = asked.server.engine.subscribe(&place, &subscribe, Some(event)).await?;
    // Only messages that were sent can have been received, so no later event of a running task is waited for.
    let newest = asked.server.engine.task(event.task).await?.map_or(Seq::ZERO, |task| task.seq());
    let mut found = event.seq;
    let deadline = tokio::time::Instant::now() + FOUND_WITHIN;
    while left > 0 && found < newest {
        let next = tokio::time::timeout_at(deadline, subscription.next()).await;
        match next {
            Ok(Some(Ok(SubscriptionItem::Event { committed, .. }))) => {
                found = committed.event.seq;
                left -= 1;
            }
            Ok(Some(Ok(SubscriptionItem::Task(_) | SubscriptionItem::Reply(_)))) => {}
            Ok(Some(Err(fault))) => return Err(fault),
            Ok(None) | Err(_) => break,
        }
    }
    let mut headers = headers.clone();
    let id = EventId { task: event.task, seq: found }.to_string();
    headers.insert(LAST_EVENT_ID.clone(), HeaderValue::from_str(&id).map_err(|_| unreadable())?);
    Ok(Some(headers))
}

struct Feed {
    server: Arc<GatewayVersion>,
    wire: &'static dyn ProtoWire,
    follow: StreamPlan,
    terms: LinkOptions,
    encoding: MessageEncoding,
    first: Option<Item>,
    last: Option<Seq>,
    failed: Option<RpcStatus>,
    /// The trailers were sent.
    is_closed: bool,
}

impl EventSource for Feed {
    type Item = Item;

    fn ready(&mut self) -> Option<Option<Item>> {
        match self.first.take() {
            Some(first) => Some(Some(first)),
            None => self.follow.subscription.next().now_or_never(),
        }
    }

    fn next(&mut self) -> impl Future<Output = Option<Item>> + Send {
        self.follow.subscription.next()
    }

    async fn write(&mut self, piece: &mut Vec<u8>, item: Option<Item>) -> io::Result<Flow> {
        let written = match item {
            Some(Ok(item)) => self.write_item(piece, item).await,
            Some(Err(fault)) => Err(fault),
            None if self.follow.subscription.is_cut() => {
                let message = "the server is shutting down; resume the stream with last-event-id";
                Err(Fault::new(Kind::Unavailable, message).retry_after(RETRY_AFTER_S))
            }
            None => return Ok(Flow::Ends),
        };
        match written {
            Ok(()) => Ok(Flow::Continues),
            Err(fault) => {
                self.fail(&fault);
                Ok(Flow::Ends)
            }
        }
    }

    fn trailers(&mut self) -> Option<HeaderMap> {
        if std::mem::replace(&mut self.is_closed, true) {
            return None;
        }
        let task = self.follow.subscription.task;
        let mut trailers = match self.failed.take() {
            Some(status) => frame::trailers(&status),
            None => frame::ok(),
        };
        let id = self.last.map(|seq| EventId { task, seq }.to_string());
        if let Some(id) = id.and_then(|id| unrepeated(&id)) {
            trailers.insert(LAST_EVENT_ID.clone(), id);
        }
        Some(trailers)
    }

    fn write_no_room(&mut self, _piece: &mut Vec<u8>, fault: &Fault) -> io::Result<()> {
        self.fail(fault);
        Ok(())
    }
}

impl Feed {
    fn fail(&mut self, fault: &Fault) {
        if !self.follow.subscription.is_cut() {
            tracing::warn!(cause = %fault.cause_text(), "a stream failed: {fault}");
        }
        self.failed = Some(self.wire.status(fault, Operation::Stream));
    }

    async fn write_item(&mut self, piece: &mut Vec<u8>, item: SubscriptionItem) -> Result<(), Fault> {
        let shown = self.follow.shown.clone();
        match item {
            SubscriptionItem::Task(_) if self.follow.only_later => {}
            SubscriptionItem::Task(task) => {
                let size = encoded_size(&task) + blobs_of_task(&task).map(|(blob, _)| weight(blob)).sum::<usize>();
                let _share = reserve(&self.server.answers, size)?;
                let view = self.follow.view;
                let blobs = blobs_of_task(&task);
                let message =
                    self.message(size, blobs, |wire, w| wire.sent_task(w, &task, &view, shown.as_deref())).await?;
                self.encoding.frame(piece, &message);
                self.last = Some(task.seq());
            }
            SubscriptionItem::Reply(reply) => {
                let head = Head::new(reply.exchange, shown.as_deref(), &reply.context);
                let blobs = blobs_of_message(&reply.message);
                let message = self.message(512, blobs, |wire, w| wire.sent_message(w, &reply.message, &head)).await?;
                self.encoding.frame(piece, &message);
            }
            SubscriptionItem::Event { committed, closing } => {
                let message = self.event(&committed, closing).await?;
                self.encoding.frame(piece, &message);
                self.last = Some(committed.event.seq);
            }
        }
        Ok(())
    }

    /// The event's encoding, shared with other readers. One that refers to large content is encoded for each of them.
    async fn event(&self, committed: &Committed, closing: bool) -> Result<Bytes, Fault> {
        let (wire, subscription, shown) = (self.wire, &self.follow.subscription, self.follow.shown.as_deref());
        let write = |w: &mut ProtoWriter<'_>| {
            let head = Head::new(subscription.task, shown, &subscription.context);
            wire.stream_event(w, &head, &committed.event, closing);
        };
        if blobs_of_event(&committed.event).next().is_some() {
            let blobs = blobs_of_event(&committed.event);
            return self.message(512, blobs, |_, w| write(w)).await.map(Bytes::from);
        }
        let slot = if shown.is_some() { aliased(wire.slot(closing)) } else { wire.slot(closing) };
        Ok(committed.encoded(slot, || {
            let mut w = ProtoWriter::default();
            write(&mut w);
            w.finish().into()
        }))
    }

    async fn message<'p>(
        &self,
        size: usize,
        blobs: impl Iterator<Item = (&'p Blob, &'p Part)>,
        write: impl FnOnce(&dyn ProtoWire, &mut ProtoWriter<'_>),
    ) -> Result<Vec<u8>, Fault> {
        let loaded = load(&self.server, &self.terms, blobs).await?;
        let contents = |blob: &Blob, part: &Part| loaded.of(blob, part);
        let mut w = ProtoWriter::with_contents(size, &contents);
        write(self.wire, &mut w);
        Ok(w.finish())
    }
}
