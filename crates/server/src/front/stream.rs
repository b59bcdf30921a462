//! Event streams: a subscription as server-sent events, with ids to resume from and heartbeats while nothing happens.
//!
//! Everything that is ready goes out in one piece. An event's encoding is made once and shared by all its readers; only
//! the envelope around it is written for each.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dialects::a2a_v1::encode::{self, TaskHead, TaskView};
use dialects::a2a_v1::errors;
use dialects::framing::json::Writer;
use dialects::framing::jsonrpc::{self, OwnedId};
use dialects::framing::sse;
use engine::{Item, Subscription};
use futures_util::FutureExt;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use model::{EventId, Fault, Seq};
use prometheus_client::metrics::gauge::Gauge;

use super::{EVENT_A2A_V1, load_all};
use crate::Server;
use crate::body::{Body, Response};

/// A piece of a stream grows no further than this before it is sent.
const PIECE: usize = 32 << 10;

pub(super) fn rpc(server: Arc<Server>, subscription: Subscription, tenant: Arc<str>, id: OwnedId) -> Response {
    respond(server, subscription, tenant, Envelope::Rpc(id))
}

pub(super) fn rest(server: Arc<Server>, subscription: Subscription, tenant: Arc<str>) -> Response {
    respond(server, subscription, tenant, Envelope::Bare)
}

enum Envelope {
    Rpc(OwnedId),
    Bare,
}

struct Feed {
    server: Arc<Server>,
    subscription: Subscription,
    tenant: Arc<str>,
    envelope: Envelope,
    heartbeat: Duration,
    over: bool,
    _open: OpenStream,
}

/// Counts a stream as open for as long as it lives.
struct OpenStream(Gauge);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.dec();
    }
}

fn respond(server: Arc<Server>, subscription: Subscription, tenant: Arc<str>, envelope: Envelope) -> Response {
    let heartbeat = Duration::from_millis(server.settings.heartbeat_ms);
    let gauge = server.metrics.streams.clone();
    gauge.inc();
    let feed = Feed { server, subscription, tenant, envelope, heartbeat, over: false, _open: OpenStream(gauge) };
    let pieces = futures_util::stream::unfold(feed, |mut feed| async move {
        let piece = feed.next_piece().await?;
        Some((piece, feed))
    });
    let mut response = Response::new(Body::stream(pieces));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

impl Feed {
    /// Waits for something to say and says all there is; a heartbeat if nothing comes.
    async fn next_piece(&mut self) -> Option<Bytes> {
        if self.over {
            return None;
        }
        let first = match self.subscription.next().now_or_never() {
            Some(first) => first,
            None => match tokio::time::timeout(self.heartbeat, self.subscription.next()).await {
                Ok(first) => first,
                Err(_) => return Some(Bytes::from_static(sse::HEARTBEAT)),
            },
        };
        let mut piece = Vec::with_capacity(1_024);
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
            next = self.subscription.next().now_or_never();
        }
        (!piece.is_empty()).then(|| piece.into())
    }

    async fn write(&mut self, piece: &mut Vec<u8>, item: Item) {
        let (seq, encoded) = match item {
            Item::Task(task) => {
                let mut w = Writer::with_capacity(1_024);
                encode::stream_task(&mut w, &task, &TaskView::WHOLE);
                (Some(task.seq()), load_all(&self.server, &self.tenant, w.finish()).await)
            }
            Item::Reply(reply) => {
                let mut w = Writer::with_capacity(512);
                encode::send_message(&mut w, &reply.message, &reply.context);
                // The exchange has no task to resume; the answer is whole.
                (None, load_all(&self.server, &self.tenant, w.finish()).await)
            }
            Item::Event { committed, .. } => {
                let head = TaskHead { id: self.subscription.task, context: &self.subscription.context };
                let mut large = None;
                let shared = committed.encoded(EVENT_A2A_V1, || {
                    let mut w = Writer::with_capacity(512);
                    encode::stream_event(&mut w, &head, &committed.event);
                    let encoded = w.finish();
                    match encoded.as_bytes() {
                        Some(bytes) => bytes.clone(),
                        None => {
                            large = Some(encoded);
                            Bytes::new()
                        }
                    }
                });
                let encoded = if shared.is_empty() {
                    // Large content is not kept in memory with the event: every reader loads it.
                    let encoded = large.unwrap_or_else(|| {
                        let mut w = Writer::new();
                        encode::stream_event(&mut w, &head, &committed.event);
                        w.finish()
                    });
                    load_all(&self.server, &self.tenant, encoded).await
                } else {
                    Ok(shared)
                };
                (Some(committed.event.seq), encoded)
            }
        };
        match encoded {
            Ok(result) => self.frame(piece, seq, &result),
            Err(fault) => self.write_fault(piece, &fault),
        }
    }

    fn frame(&self, piece: &mut Vec<u8>, seq: Option<Seq>, result: &Bytes) {
        let id = seq.map(|seq| EventId { task: self.subscription.task, seq });
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
        tracing::warn!(cause = ?fault.cause, "a stream failed: {fault}");
        let mut data = Vec::new();
        match &self.envelope {
            Envelope::Rpc(id) => errors::rpc_error(&mut data, id, fault),
            Envelope::Bare => {
                if let Some(bytes) = errors::rest_error(fault).1.as_bytes() {
                    data.extend_from_slice(bytes);
                }
            }
        }
        sse::write_frame(piece, None::<EventId>, Some("error"), &[&data]);
    }
}
