//! Watches as server-sent events `ADDED`, `MODIFIED` and `DELETED`, each with the resource. A watch begins with all resources
//! as `ADDED`.
//!
//! Events of systems and agents are sent as they happen. A client that reconnects with the id of an event receives the later
//! ones; if these are no longer kept, the answer is 410, and within a stream an event `ERROR`. Runs are polled each second.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use http::Version;
use http::header::CONNECTION;
use model::{TaskId, Time};

use super::error::Error;
use super::tasks::{self, RunScopes};
use super::{ResourceQuery, ResourcesContext};
use crate::resources::ResourceKind;
use crate::resources::registry::{ResourceEvent, ResourceEventKind, ResourceWatcher};
use gateway::GatewayVersion;
use web::body::Response;
use web::concurrency::ConcurrencyPermit;
use web::headers::{has_last_event_id, last_event_id};
use web::sse::{EventSource, EventStream, Flow};

/// The pause between two polls of runs.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A poll also reads runs that changed this long before the last one, because clocks differ.
const OVERLAP_MS: i64 = 5_000;
/// The most runs that a watcher keeps.
const KNOWN: usize = 1_000;
/// The number of these that each poll checks for deletion.
const ASKED_FOR: usize = 20;

const HEARTBEAT: &[u8] = b": heartbeat\n\n";
const EXPIRED: &str =
    "what has happened since is not known any more; list again, and watch from the resourceVersion of that list";

/// Watches the resources of a kind.
pub(super) async fn resources(context: &ResourcesContext<'_>, kind: ResourceKind) -> Result<Response, Error> {
    let header = last_event_id(&context.http.head.headers).and_then(Result::ok);
    let from = header.or(context.query.version.as_deref());
    let permit = permit(context)?;
    let full = || {
        Error::new(http::StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", "too many watch already; try again later")
    };
    let watcher = context.registry.watch(kind, from).map_err(|()| full())?.ok_or_else(|| Error::gone(EXPIRED))?;
    let feed = ResourceFeed { watcher, filter: WatchFilter::of(&context.query) };
    let heartbeat = Duration::from_millis(context.server.settings.heartbeat_ms);
    Ok(respond(
        context,
        EventStream::new(feed, context.server.metrics.streams.clone()).heartbeat(heartbeat, HEARTBEAT),
        permit,
    ))
}

fn permit(context: &ResourcesContext<'_>) -> Result<Option<ConcurrencyPermit>, Error> {
    let throttle = context.server.throttle.as_ref();
    let permit = throttle.map(|throttle| throttle.stream(&context.caller, context.http.address)).transpose();
    Ok(permit.map_err(Error::of)?.flatten())
}

fn respond<S: EventSource>(
    context: &ResourcesContext<'_>,
    stream: EventStream<S>,
    permit: Option<ConcurrencyPermit>,
) -> Response {
    let mut response = stream.permits([permit, None]).respond();
    if context.http.head.version == Version::HTTP_11 {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("keep-alive"));
    }
    response
}

/// The part of a query that filters events.
struct WatchFilter {
    namespace: Option<String>,
    selector: crate::resources::Selector,
}

impl WatchFilter {
    fn of(query: &ResourceQuery) -> WatchFilter {
        WatchFilter { namespace: query.namespace.clone(), selector: query.selector.clone() }
    }

    fn admits(&self, namespace: &str, labels: &std::collections::BTreeMap<String, String>) -> bool {
        self.namespace.as_deref().is_none_or(|wanted| wanted == namespace) && self.selector.admits(labels)
    }
}

struct ResourceFeed {
    watcher: ResourceWatcher,
    filter: WatchFilter,
}

impl EventSource for ResourceFeed {
    type Item = ResourceEvent;

    async fn next(&mut self) -> Option<ResourceEvent> {
        loop {
            let event = self.watcher.next().await?;
            if self.filter.admits(&event.resource.namespace, &event.resource.labels) {
                return Some(event);
            }
        }
    }

    async fn write(&mut self, piece: &mut Vec<u8>, event: Option<ResourceEvent>) -> io::Result<Flow> {
        match event {
            Some(event) => {
                let frame = frame(Some(&event.token), name(event.happened), &event.resource.to_json());
                piece.extend_from_slice(&frame);
                Ok(Flow::Continues)
            }
            None => {
                let said = serde_json::json!({ "error": EXPIRED, "reason": "Expired", "code": 410 });
                piece.extend_from_slice(&frame(None, "ERROR", &said.to_string()));
                Ok(Flow::Ends)
            }
        }
    }
}

fn name(happened: ResourceEventKind) -> &'static str {
    match happened {
        ResourceEventKind::Added => "ADDED",
        ResourceEventKind::Modified => "MODIFIED",
        ResourceEventKind::Deleted => "DELETED",
    }
}

/// A frame. The name of the event is also in the data, for clients that read only the data.
fn frame(id: Option<&str>, what: &str, object: &str) -> Bytes {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    format!("{id}event: {what}\ndata: {{\"type\":\"{what}\",\"object\":{object}}}\n\n").into()
}

/// Watches runs.
pub(super) async fn runs(context: &ResourcesContext<'_>, runs: RunScopes) -> Result<Response, Error> {
    if context.query.version.is_some() || has_last_event_id(&context.http.head.headers) {
        return Err(Error::gone(
            "runs cannot be watched from a version on; watch again without one, it begins with what is there",
        ));
    }
    let permit = permit(context)?;
    let feed = RunFeed {
        server: context.server.clone(),
        runs,
        filter: WatchFilter::of(&context.query),
        known: HashMap::new(),
        order: VecDeque::new(),
        ready: VecDeque::new(),
        since: None,
        heartbeat: Duration::from_millis(context.server.settings.heartbeat_ms),
        said: tokio::time::Instant::now(),
    };
    Ok(respond(context, EventStream::new(feed, context.server.metrics.streams.clone()), permit))
}

struct RunFeed {
    server: Arc<GatewayVersion>,
    runs: RunScopes,
    filter: WatchFilter,
    /// By run: the length of its log, and its document as it was last sent.
    known: HashMap<TaskId, (u64, String)>,
    order: VecDeque<TaskId>,
    ready: VecDeque<Bytes>,
    since: Option<Time>,
    heartbeat: Duration,
    said: tokio::time::Instant,
}

/// The source sends the heartbeats itself, so that the stream does not drop a poll half-way.
impl EventSource for RunFeed {
    type Item = Bytes;

    fn ready(&mut self) -> Option<Option<Bytes>> {
        let piece = self.ready.pop_front()?;
        self.said = tokio::time::Instant::now();
        Some(Some(piece))
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(piece) = self.ready.pop_front() {
                self.said = tokio::time::Instant::now();
                return Some(piece);
            }
            if self.since.is_some() {
                if self.said.elapsed() >= self.heartbeat {
                    self.said = tokio::time::Instant::now();
                    return Some(Bytes::from_static(HEARTBEAT));
                }
                tokio::time::sleep(LOOK_EVERY.min(self.heartbeat)).await;
            }
            if let Err(fault) = self.look().await {
                tracing::warn!(cause = %fault.cause_text(), "a watch broke off: {fault}");
                return None;
            }
        }
    }

    async fn write(&mut self, piece: &mut Vec<u8>, item: Option<Bytes>) -> io::Result<Flow> {
        let Some(item) = item else { return Ok(Flow::Ends) };
        piece.extend_from_slice(&item);
        Ok(Flow::Continues)
    }
}

impl RunFeed {
    /// Reads the changes since the last poll.
    async fn look(&mut self) -> Result<(), model::Fault> {
        let now = self.server.engine.now();
        let mut found = self.runs.changed(&self.server, self.since, KNOWN).await?;
        self.since = Some(Time(now.0 - OVERLAP_MS));
        // Oldest first.
        found.reverse();
        for (system, task) in found {
            let seq = task.seq().0;
            let what = match self.known.get(&task.id) {
                Some((log, _)) if *log == seq => continue,
                Some(_) => "MODIFIED",
                None => "ADDED",
            };
            let run = tasks::RunView::of(&system, &task);
            if !self.filter.admits(&system.namespace, &run.labels) {
                continue;
            }
            let shown = run.shown(&task, false).to_string();
            self.ready.push_back(frame(None, what, &shown));
            if self.known.insert(task.id, (seq, shown)).is_none() {
                self.order.push_back(task.id);
            }
        }
        while self.order.len() > KNOWN {
            if let Some(oldest) = self.order.pop_front() {
                self.known.remove(&oldest);
            }
        }
        for _ in 0..ASKED_FOR.min(self.order.len()) {
            let Some(task) = self.order.pop_front() else { break };
            if self.server.engine.store().head(task).await.map_err(crate::resources::store_fault)?.is_some() {
                self.order.push_back(task);
            } else if let Some((_, shown)) = self.known.remove(&task) {
                self.ready.push_back(frame(None, "DELETED", &shown));
            }
        }
        Ok(())
    }
}
