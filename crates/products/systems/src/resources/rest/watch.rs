//! Watching, as server-sent events: first what is there, then `ADDED`, `MODIFIED` and `DELETED`, each with the resource.
//!
//! Systems and agents are followed as they change; who comes back with the id of an event hears what has happened since, or
//! that it is too long ago (410, in a stream an event `ERROR`). Runs are looked at each second.

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
use super::tasks::{self, Runs};
use super::{Clerk, Wanted};
use crate::resources::Sort;
use crate::resources::shelf::{Event, Happened, Watcher};
use gateway::Server;
use web::body::Response;
use web::concurrency::ConcurrencyPermit;
use web::headers::{has_last_event_id, last_event_id};
use web::sse::{EventSource, EventStream, Flow};

/// How often runs are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// So much earlier than the last look, for clocks that differ.
const OVERLAP_MS: i64 = 5_000;
/// Runs that a watcher remembers.
const KNOWN: usize = 1_000;
/// Of those, so many are asked for at each look whether they are still there.
const ASKED_FOR: usize = 20;

const HEARTBEAT: &[u8] = b": heartbeat\n\n";
const EXPIRED: &str =
    "what has happened since is not known any more; list again, and watch from the resourceVersion of that list";

/// Follows the resources of a sort.
pub(super) fn resources(clerk: &Clerk<'_>, sort: Sort) -> Result<Response, Error> {
    let header = last_event_id(&clerk.head.headers).and_then(Result::ok);
    let from = header.or(clerk.wanted.version.as_deref());
    let seat = seat(clerk)?;
    let full = || {
        Error::new(http::StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", "too many watch already; try again later")
    };
    let watcher = clerk.shelf.watch(sort, from).map_err(|()| full())?.ok_or_else(|| Error::gone(EXPIRED))?;
    let feed = Feed { watcher, wanted: Kept::of(&clerk.wanted) };
    let heartbeat = Duration::from_millis(clerk.server.settings.heartbeat_ms);
    Ok(respond(
        clerk,
        EventStream::new(feed, clerk.server.metrics.streams.clone()).heartbeat(heartbeat, HEARTBEAT),
        seat,
    ))
}

fn seat(clerk: &Clerk<'_>) -> Result<Option<ConcurrencyPermit>, Error> {
    let throttle = clerk.server.throttle.as_ref();
    let seat = throttle.map(|throttle| throttle.stream(&clerk.caller, clerk.address)).transpose();
    Ok(seat.map_err(Error::of)?.flatten())
}

fn respond<S: EventSource>(clerk: &Clerk<'_>, stream: EventStream<S>, permit: Option<ConcurrencyPermit>) -> Response {
    let mut response = stream.permits([permit, None]).respond();
    if clerk.head.version == Version::HTTP_11 {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("keep-alive"));
    }
    response
}

/// What of a query goes on to count.
struct Kept {
    namespace: Option<String>,
    selector: crate::resources::Selector,
}

impl Kept {
    fn of(wanted: &Wanted) -> Kept {
        Kept { namespace: wanted.namespace.clone(), selector: wanted.selector.clone() }
    }

    fn admits(&self, namespace: &str, labels: &std::collections::BTreeMap<String, String>) -> bool {
        self.namespace.as_deref().is_none_or(|wanted| wanted == namespace) && self.selector.admits(labels)
    }
}

struct Feed {
    watcher: Watcher,
    wanted: Kept,
}

impl EventSource for Feed {
    type Item = Event;

    async fn next(&mut self) -> Option<Event> {
        loop {
            let event = self.watcher.next().await?;
            if self.wanted.admits(&event.resource.namespace, &event.resource.labels) {
                return Some(event);
            }
        }
    }

    async fn write(&mut self, piece: &mut Vec<u8>, event: Option<Event>) -> io::Result<Flow> {
        match event {
            Some(event) => {
                let frame = frame(Some(&event.token), name(event.happened), &event.resource.shown());
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

fn name(happened: Happened) -> &'static str {
    match happened {
        Happened::Added => "ADDED",
        Happened::Modified => "MODIFIED",
        Happened::Deleted => "DELETED",
    }
}

/// An event: its name is also its type, for readers who only see the data.
fn frame(id: Option<&str>, what: &str, object: &str) -> Bytes {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    format!("{id}event: {what}\ndata: {{\"type\":\"{what}\",\"object\":{object}}}\n\n").into()
}

/// Follows runs.
pub(super) async fn runs(clerk: &Clerk<'_>, runs: Runs) -> Result<Response, Error> {
    if clerk.wanted.version.is_some() || has_last_event_id(&clerk.head.headers) {
        return Err(Error::gone(
            "runs cannot be watched from a version on; watch again without one, it begins with what is there",
        ));
    }
    let seat = seat(clerk)?;
    let feed = RunFeed {
        server: clerk.server.clone(),
        runs,
        wanted: Kept::of(&clerk.wanted),
        known: HashMap::new(),
        order: VecDeque::new(),
        ready: VecDeque::new(),
        since: None,
        heartbeat: Duration::from_millis(clerk.server.settings.heartbeat_ms),
        said: tokio::time::Instant::now(),
    };
    Ok(respond(clerk, EventStream::new(feed, clerk.server.metrics.streams.clone()), seat))
}

struct RunFeed {
    server: Arc<Server>,
    runs: Runs,
    wanted: Kept,
    /// What was told of each run: the length of its log, and the run as it was shown.
    known: HashMap<TaskId, (u64, String)>,
    order: VecDeque<TaskId>,
    ready: VecDeque<Bytes>,
    since: Option<Time>,
    heartbeat: Duration,
    said: tokio::time::Instant,
}

/// Runs are polled for, so that the heartbeat is the source's own: a look is never dropped half way.
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
    /// Notes what is new since the last look.
    async fn look(&mut self) -> Result<(), model::Fault> {
        let now = self.server.engine.now();
        let mut found = self.runs.changed(&self.server, self.since, KNOWN).await?;
        self.since = Some(Time(now.0 - OVERLAP_MS));
        // Oldest first, as they happened.
        found.reverse();
        for (system, task) in found {
            let seq = task.seq().0;
            let what = match self.known.get(&task.id) {
                Some((log, _)) if *log == seq => continue,
                Some(_) => "MODIFIED",
                None => "ADDED",
            };
            let run = tasks::Run::of(&system, &task);
            if !self.wanted.admits(&system.namespace, &run.labels) {
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
            if self.server.engine.store().head(task).await.map_err(crate::resources::troubled)?.is_some() {
                self.order.push_back(task);
            } else if let Some((_, shown)) = self.known.remove(&task) {
                self.ready.push_back(frame(None, "DELETED", &shown));
            }
        }
        Ok(())
    }
}
