//! `/workers/{agent}`: workers lease the turns of agents that leave them to workers, and report their events.
//!
//! This front has no dialect: a worker is no caller but a part of an agent. It authenticates with the agent's own
//! secret and sends the events that programs and endpoints send. The page for people is `docs/agents/worker.md`.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};
use std::time::Duration;

use dialects::framing::{query, scan, sse};
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use http::header::ToStrError;
use http::{HeaderName, HeaderValue, StatusCode, request};
use hyper::body::Incoming;
use model::ports::agent::Agent;
use model::ports::worker::{LeaseStatus, Leased, ReportError, WorkerNotice, WorkerQueue, WorkerReport};
use model::{Fault, TurnId};
use serde::de::DeserializeOwned;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::{Gate, RequestLog};
use crate::GatewayVersion;
use crate::intake;
use crate::settings::{self, Settings};
use web::body::{Response, ResponseBody};
use web::context::RequestContext;
use web::credentials;
use web::headers::{idempotency_key, text};
use web::response::{Rejection, json};
use web::routes::{HeadRule, NoRoute, RouteRow, RouteTable};
use web::sse::{EventSource, EventStream, Flow};

static X_LEASE: HeaderName = HeaderName::from_static("x-lease");

/// Time that a worker waits for a turn by default, and at most.
const WAIT_MS: u64 = 20_000;
const LONGEST_WAIT_MS: u64 = 60_000;
/// Most turns that a stream may have leased and not yet ended.
const MOST_SLOTS: usize = 1_000;
/// Time between checks for a shutdown while a worker waits.
const LOOK: Duration = Duration::from_millis(500);
const LONGEST_NAME: usize = 256;

#[derive(Debug)]
struct Error {
    status: StatusCode,
    message: String,
    retry_after_s: Option<u32>,
    /// For 405.
    allow: Option<String>,
}

impl Error {
    fn new(status: StatusCode, message: impl Into<String>) -> Error {
        Error { status, message: message.into(), retry_after_s: None, allow: None }
    }
    fn unreadable(message: impl Into<String>) -> Error {
        Error::new(StatusCode::UNPROCESSABLE_ENTITY, message)
    }
    fn method(allow: String) -> Error {
        let message = format!("send {allow}");
        Error { allow: Some(allow), ..Error::new(StatusCode::METHOD_NOT_ALLOWED, message) }
    }
}

impl From<ReportError> for Error {
    fn from(refusal: ReportError) -> Error {
        match refusal {
            ReportError::Unknown => Error::new(
                StatusCode::NOT_FOUND,
                "nothing is known of this turn: it ended long ago, or the server was started anew; lease another",
            ),
            ReportError::Over => Error::new(StatusCode::GONE, "the turn is over; lease another"),
            ReportError::NotYours => {
                Error::new(StatusCode::CONFLICT, "the turn is not yours: the lease has ended; lease another")
            }
            ReportError::Unreadable(says) => Error::unreadable(says),
        }
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        // Faults before the queue is asked; those without a status are about the form of the request.
        let status = super::status_of(fault.kind).unwrap_or(StatusCode::BAD_REQUEST);
        Error { retry_after_s: fault.retry_after_s, ..Error::new(status, fault.message) }
    }
}

/// Refuses a server whose workers need no secret, unless callers need no credential and only this machine can reach the
/// port.
pub(crate) fn check(agents: &[Arc<dyn Agent>], settings: &Settings) -> Result<(), settings::Error> {
    let guarded = is_guarded(settings);
    let open = agents.iter().find(|agent| agent.desk().is_some_and(|desk| desk.is_open()));
    match open {
        Some(agent) if guarded => Err(settings::Error(format!(
            "agent {:?}: anybody could fetch its turns; set secret: env:NAME and give its workers that secret",
            agent.profile().name
        ))),
        Some(_) | None => Ok(()),
    }
}

/// Whether workers need a secret.
fn is_guarded(settings: &Settings) -> bool {
    settings.auth_required || !settings.listen.ip().is_loopback()
}

/// Queues of agents that are no longer served, for as long as they have turns: a turn of a removed agent runs to its
/// end, so its worker must still be able to report.
#[derive(Clone, Default)]
pub(crate) struct RetiredWorkers(Arc<Mutex<Vec<RetiredQueue>>>);

type RetiredQueue = (Arc<str>, Weak<dyn WorkerQueue>);

impl RetiredWorkers {
    fn desk(&self, agent: &str) -> Option<Arc<dyn WorkerQueue>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A running turn holds its agent, and the agent holds its queue.
        all.retain(|(_, desk)| desk.strong_count() > 0);
        all.iter().find(|(name, _)| **name == *agent).and_then(|(_, desk)| desk.upgrade())
    }

    fn add(&self, agent: &Arc<str>, desk: &Arc<dyn WorkerQueue>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(name, desk)| name != agent && desk.strong_count() > 0);
        all.push((agent.clone(), Arc::downgrade(desk)));
    }

    fn remove(&self, agent: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|(name, _)| **name != *agent);
    }
}

/// An agent that replaces another of its name takes over the leases of its workers. Workers of agents without such a
/// successor may finish their turns.
pub(crate) fn adopt(engine: &engine::Engine, agents: &[Arc<dyn Agent>], leaving: &RetiredWorkers) {
    let before = engine.agents();
    for agent in agents {
        let (name, Some(desk)) = (&agent.profile().name, agent.desk()) else { continue };
        let known = before.iter().find(|before| before.profile().name == *name);
        if known.is_some_and(|known| Arc::ptr_eq(known, agent)) {
            continue;
        }
        if let Some(old) = known.and_then(|known| known.desk()).or_else(|| leaving.desk(name)) {
            desk.adopt(&*old);
        }
        leaving.remove(name);
    }
    for old in &before {
        let name = &old.profile().name;
        let has_successor = agents.iter().any(|agent| agent.profile().name == *name && agent.desk().is_some());
        if let (false, Some(desk)) = (has_successor, old.desk()) {
            leaving.add(name, &desk);
        }
    }
}

/// The queue of an agent's workers.
fn desk(server: &GatewayVersion, agent: &str) -> Option<Arc<dyn WorkerQueue>> {
    let guarded = is_guarded(&server.settings);
    // A queue that needed no secret under the old settings may need one under these.
    let leaving = || server.leaving.desk(agent).filter(|desk| !(guarded && desk.is_open()));
    server.engine.desk(agent).or_else(leaving)
}

/// The request of a worker, by its route.
#[derive(Clone, Copy)]
enum WorkerCall {
    /// Turns as a stream.
    Stream,
    Lease,
    /// News of a turn.
    Report(fn(&WorkerRequest<'_>) -> Result<WorkerReport, Error>),
}

struct WorkerRoute {
    verb: &'static str,
    path: &'static str,
    /// For the log.
    operation: &'static str,
    call: WorkerCall,
}

impl RouteRow for WorkerRoute {
    /// A stream leases the turns that it sends.
    const HEAD: HeadRule = HeadRule::Unanswered;

    fn method(&self) -> &str {
        self.verb
    }
    fn path(&self) -> &'static str {
        self.path
    }
}

macro_rules! routes {
    ($($verb:ident $path:literal $operation:literal => $call:expr;)+) => {
        &[$(WorkerRoute { verb: stringify!($verb), path: $path, operation: $operation, call: $call }),+]
    };
}

/// Paths below `/workers/{agent}`.
static ROUTES: &[WorkerRoute] = routes! {
    GET "/stream" "worker_stream" => WorkerCall::Stream;
    POST "/lease" "worker_lease" => WorkerCall::Lease;
    POST "/turns/{turn}/heartbeat" "worker_heartbeat" => WorkerCall::Report(|_| Ok(WorkerReport::Alive));
    POST "/turns/{turn}/events" "worker_events" => WorkerCall::Report(|said| Ok(WorkerReport::Events(said.events()?)));
    POST "/turns/{turn}/deliver" "worker_deliver" => WorkerCall::Report(|said| Ok(WorkerReport::Deliver(said.event())));
    POST "/turns/{turn}/fail" "worker_fail" => WorkerCall::Report(|said| said.failure());
};

static TABLE: LazyLock<RouteTable<WorkerRoute>> = LazyLock::new(|| RouteTable::new(ROUTES));

pub(crate) async fn answer(
    server: &Arc<GatewayVersion>,
    agent: &str,
    below: &str,
    head: &request::Parts,
    body: Incoming,
    log: &mut RequestLog,
) -> Response {
    log.operation = "worker";
    match call(server, agent, below, head, body, log).await {
        Ok(response) => response,
        Err(Error { status, message, retry_after_s, allow }) => {
            let body = json!({ "error": message }).to_string();
            Rejection::new(status, message, body)
                .retry_after(retry_after_s)
                .allow(allow.as_deref())
                .challenge(|| HeaderValue::from_static("Bearer"))
                .respond(log)
        }
    }
}

async fn call(
    server: &Arc<GatewayVersion>,
    agent: &str,
    below: &str,
    head: &request::Parts,
    body: Incoming,
    log: &mut RequestLog,
) -> Result<Response, Error> {
    let desk = desk(server, agent).ok_or_else(|| {
        Error::new(StatusCode::NOT_FOUND, format!("{agent:?} is no agent that leaves its turns to workers"))
    })?;
    log.agent = Some(agent.into());
    let path = format!("/{}", below.trim_start_matches('/'));
    let (route, params) = TABLE.find(&head.method, &path).map_err(|error| match error {
        NoRoute::Path => Error::new(StatusCode::NOT_FOUND, format!("there is nothing at {}", head.uri.path())),
        NoRoute::Method { allow } => Error::method(allow),
    })?;
    if !desk.admits(credentials::bearer(&head.headers)) {
        if let Some(throttle) = &server.throttle {
            throttle.failed(log.address)?;
        }
        let says = "send Authorization: Bearer with the secret of this agent's workers";
        return Err(Error::new(StatusCode::UNAUTHORIZED, says));
    }
    log.caller = Some("worker".into());
    let report_reader = match route.call {
        WorkerCall::Stream => {
            log.operation = route.operation;
            return stream(server, &*desk, head.uri.query());
        }
        WorkerCall::Lease => None,
        WorkerCall::Report(read) => Some(read),
    };
    web::headers::check_media_type(&head.headers)
        .map_err(|fault| Error::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, fault.message))?;
    let body = intake::read(server, head, body, None, Gate::Open, log).await?;
    let said = WorkerRequest::read(&body, server.engine.limits().json_depth)?;
    log.operation = route.operation;
    if let Some(read) = report_reader {
        let http = RequestContext { head, address: log.address, params, query: Vec::new(), body: &body };
        return report(&*desk, &http, &said, read).await;
    }
    let worker = name(said.text("worker")?.as_deref())?;
    let wait = said.read_member("wait_ms")?.unwrap_or(WAIT_MS).min(LONGEST_WAIT_MS);
    lease(server, &*desk, &worker, Duration::from_millis(wait)).await
}

/// Hands a worker's report to the queue.
async fn report(
    desk: &dyn WorkerQueue,
    http: &RequestContext<'_>,
    said: &WorkerRequest<'_>,
    read: fn(&WorkerRequest<'_>) -> Result<WorkerReport, Error>,
) -> Result<Response, Error> {
    let turn: TurnId = http.id().parse().map_err(|_| Error::from(ReportError::Unknown))?;
    let headers = &http.head.headers;
    let lease = said.text("lease")?.or_else(|| given(text(headers, &X_LEASE)));
    let lease = lease.ok_or_else(|| Error::unreadable("say which lease: as \"lease\" or in X-Lease"))?;
    let delivery = said.text("id")?.or_else(|| given(idempotency_key(headers)));
    if delivery.as_ref().is_some_and(|id| id.len() > LONGEST_NAME) {
        return Err(Error::unreadable(format!("id: choose one of at most {LONGEST_NAME} bytes")));
    }
    let contact = desk.take(turn, lease, delivery, read(said)?).await?;
    Ok(json(contact_json(contact)))
}

/// A turn, or 204 if none comes.
async fn lease(
    server: &GatewayVersion,
    desk: &dyn WorkerQueue,
    worker: &str,
    wait: Duration,
) -> Result<Response, Error> {
    let until = Instant::now() + wait;
    loop {
        if server.engine.is_draining() {
            let says = "the server is shutting down; try again in a second";
            return Err(Error { retry_after_s: Some(1), ..Error::new(StatusCode::SERVICE_UNAVAILABLE, says) });
        }
        let left = until.saturating_duration_since(Instant::now());
        if let Some(leased) = desk.lease(worker, left.min(LOOK)).await {
            return Ok(json(leased_json(&leased)));
        }
        if left <= LOOK {
            let mut response = Response::new(ResponseBody::empty());
            *response.status_mut() = StatusCode::NO_CONTENT;
            return Ok(response);
        }
    }
}

/// Turns as server-sent events, each leased when it is sent.
fn stream(server: &Arc<GatewayVersion>, desk: &dyn WorkerQueue, query: Option<&str>) -> Result<Response, Error> {
    let value = |name| query.map(|query| query::value(query, name)).transpose().map(Option::flatten);
    let worker = name(value("worker")?.as_deref())?;
    let slots = match value("slots")? {
        None => 1,
        Some(text) => {
            let slots = text.parse().ok().filter(|slots| (1..=MOST_SLOTS).contains(slots));
            slots.ok_or_else(|| Error::unreadable(format!("slots: choose a number from 1 to {MOST_SLOTS}")))?
        }
    };
    let heartbeat = Duration::from_millis(server.settings.heartbeat_ms);
    let feed = NoticeFeed { server: server.clone(), notices: desk.notices(&worker, slots) };
    Ok(EventStream::new(feed, server.metrics.streams.clone()).heartbeat(heartbeat, sse::HEARTBEAT).respond())
}

/// Turns and cancellations for one worker.
struct NoticeFeed {
    server: Arc<GatewayVersion>,
    notices: BoxStream<'static, WorkerNotice>,
}

impl EventSource for NoticeFeed {
    type Item = WorkerNotice;

    /// Ends when the server drains.
    async fn next(&mut self) -> Option<WorkerNotice> {
        loop {
            if self.server.engine.is_draining() {
                return None;
            }
            if let Ok(notice) = tokio::time::timeout(LOOK, self.notices.next()).await {
                return notice;
            }
        }
    }

    async fn write(&mut self, piece: &mut Vec<u8>, notice: Option<WorkerNotice>) -> io::Result<Flow> {
        let Some(notice) = notice else { return Ok(Flow::Ends) };
        write_frame(piece, &notice);
        Ok(Flow::Continues)
    }
}

fn write_frame(piece: &mut Vec<u8>, notice: &WorkerNotice) {
    let (event, data) = match notice {
        WorkerNotice::Turn(leased) => ("turn", leased_json(leased)),
        WorkerNotice::Cancelled(turn) => ("cancel", json!({ "turn": turn.to_string() }).to_string()),
    };
    sse::write_frame(piece, None::<&str>, Some(event), &[data.as_bytes()]);
}

/// The turn as JSON, with the lease as its first members.
fn leased_json(leased: &Leased) -> String {
    let rest = leased.told.trim_start().strip_prefix('{').unwrap_or("}");
    format!(r#"{{"lease":"{}","lease_ms":{},{rest}"#, leased.lease, leased.lease_ms)
}

fn contact_json(contact: LeaseStatus) -> String {
    let LeaseStatus { cancelled, over, lease_ms } = contact;
    json!({ "cancelled": cancelled, "over": over, "lease_ms": lease_ms }).to_string()
}

/// A header with text in it.
fn given(value: Option<Result<&str, ToStrError>>) -> Option<String> {
    value?.ok().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// The worker's own name, for the log.
fn name(said: Option<&str>) -> Result<String, Error> {
    let name = said.unwrap_or("worker");
    if name.len() > LONGEST_NAME || name.chars().any(char::is_control) {
        return Err(Error::unreadable(format!("worker: choose a printable name of at most {LONGEST_NAME} bytes")));
    }
    Ok(name.to_owned())
}

/// A worker's request: nothing, an object, or a list of events.
struct WorkerRequest<'a> {
    text: &'a str,
    members: HashMap<Cow<'a, str>, &'a RawValue>,
}

impl<'a> WorkerRequest<'a> {
    fn read(body: &'a [u8], depth: usize) -> Result<WorkerRequest<'a>, Error> {
        let text = if body.trim_ascii().is_empty() { "" } else { scan::scan(body, depth)? };
        let text = text.trim();
        let members = match text.as_bytes().first() {
            None | Some(b'[') => HashMap::new(),
            Some(b'{') => serde_json::from_str(text).map_err(|error| Error::unreadable(error.to_string()))?,
            Some(_) => return Err(Error::unreadable("send an object")),
        };
        Ok(WorkerRequest { text, members })
    }

    fn read_member<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Error> {
        let Some(raw) = self.members.get(name) else { return Ok(None) };
        serde_json::from_str(raw.get()).map_err(|error| Error::unreadable(format!("{name}: {error}")))
    }

    fn text(&self, name: &str) -> Result<Option<String>, Error> {
        self.read_member::<Option<String>>(name).map(Option::flatten)
    }

    /// The events: a list, the list under `events`, or the object itself as one.
    fn events(&self) -> Result<Vec<String>, Error> {
        let list = match self.members.get("events") {
            Some(list) => list.get(),
            None if self.text.starts_with('[') => self.text,
            None => return Ok(self.event().into_iter().collect()),
        };
        let events: Vec<&RawValue> =
            serde_json::from_str(list).map_err(|error| Error::unreadable(format!("events: {error}")))?;
        Ok(events.into_iter().map(|event| event.get().to_owned()).collect())
    }

    fn failure(&self) -> Result<WorkerReport, Error> {
        let (says, retryable) = (self.text("error")?, self.read_member("retryable")?.unwrap_or(false));
        Ok(WorkerReport::Fail { says, retryable })
    }

    /// The object as an event, if it has more members than the lease and the id. Readers of events ignore unknown
    /// members.
    fn event(&self) -> Option<String> {
        let says_more = self.members.keys().any(|name| !matches!(&**name, "lease" | "id"));
        says_more.then(|| self.text.to_owned())
    }
}
