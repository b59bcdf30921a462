//! The transports we serve. A front reads the envelope, lets the dialect decode the call, carries it out and writes the
//! answer back in the form it was asked for: JSON-RPC in [`rpc`], HTTP+JSON in [`rest`], event streams in [`stream`].

pub(crate) mod rest;
pub(crate) mod rpc;
mod stream;

use std::sync::Arc;

use bytes::Bytes;
use dialects::a2a_v1::{self, Decoded, encode, encode::TaskView};
use dialects::framing::blob::Transform;
use dialects::framing::json::{Encoded, Segment, Writer};
use engine::{Answer, Listing, Subscription};
use http::{HeaderMap, HeaderName, HeaderValue, request};
use model::call::Idempotency;
use model::{Call, Caller, EventId, Fault, Kind, Place, Task, TaskId};
use sha2::{Digest, Sha256};

use crate::Server;
use crate::body::Body;
use crate::mount::Mounted;
use crate::service::trace;

static A2A_VERSION: HeaderName = HeaderName::from_static("a2a-version");
static A2A_EXTENSIONS: HeaderName = HeaderName::from_static("a2a-extensions");
static X_A2A_EXTENSIONS: HeaderName = HeaderName::from_static("x-a2a-extensions");
static IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
static LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Names of encodings, for what is encoded once and shared.
const EVENT_A2A_V1: u16 = 0;
pub(crate) const TASK_A2A_V1: u16 = 0;
pub(crate) const TASK_SLOTS: std::ops::Range<u16> = 0..1;

/// What the log and the metrics say of a request.
pub(crate) struct Told {
    pub(crate) operation: &'static str,
    pub(crate) dialect: &'static str,
    pub(crate) agent: Option<Arc<str>>,
    pub(crate) caller: Option<Arc<str>>,
    pub(crate) fault: Option<String>,
}

impl Default for Told {
    fn default() -> Self {
        Told { operation: "other", dialect: "-", agent: None, caller: None, fault: None }
    }
}

impl Told {
    /// Notes a fault: its message for the log line, its cause for the log alone.
    fn fault(&mut self, fault: &Fault) {
        if let Some(cause) = &fault.cause {
            tracing::warn!(%cause, kind = ?fault.kind, "a request failed: {fault}");
        }
        self.fault = Some(fault.message.clone());
    }
}

/// What came of a call.
pub(crate) enum Done {
    Sent(Answer, TaskView),
    Task(Arc<Task>, TaskView),
    /// A settled task as it was encoded before.
    Kept(Bytes),
    List(Listing, TaskView),
    Card(Bytes),
    Stream(Subscription),
}

/// Writes the result of anything but a stream.
fn write(w: &mut Writer, done: &Done) {
    match done {
        Done::Sent(Answer::Task(task), view) => encode::send_task(w, task, view),
        Done::Sent(Answer::Reply(reply), _) => encode::send_message(w, &reply.message, &reply.context),
        Done::Task(task, view) => encode::task(w, task, view),
        Done::List(page, view) => {
            encode::list(w, &page.tasks, view, &page.next_page_token, page.page_size, page.total);
        }
        Done::Kept(bytes) | Done::Card(bytes) => w.raw(std::str::from_utf8(bytes).unwrap_or("null")),
        Done::Stream(_) => w.null(),
    }
}

/// Who asks for what, where.
pub(crate) struct Asked<'a> {
    pub(crate) server: &'a Arc<Server>,
    pub(crate) mounted: &'a Mounted,
    pub(crate) head: &'a request::Parts,
    pub(crate) caller: Arc<Caller>,
}

impl Asked<'_> {
    /// Carries out a call. `body` is what an idempotency key is bound to.
    pub(crate) async fn perform(&self, decoded: Decoded, body: &[u8], told: &mut Told) -> Result<Done, Fault> {
        let Decoded { call, tenant } = decoded;
        told.operation = call.name();
        let place = self.place(tenant.as_deref())?;
        let engine = &self.server.engine;
        match call {
            Call::Send(mut send) => {
                self.complete(&mut send, body)?;
                let view = TaskView::with_history(send.history);
                Ok(Done::Sent(engine.send(&place, *send).await?, view))
            }
            Call::Stream(mut send) => {
                self.complete(&mut send, body)?;
                let resume = last_event_id(&self.head.headers)?;
                Ok(Done::Stream(engine.stream(&place, *send, resume).await?))
            }
            Call::Get(get) => {
                let whole = get.history.is_none();
                if whole
                    && let Ok(id) = get.task.parse::<TaskId>()
                    && let Some(bytes) = self.server.cache.get(id, TASK_A2A_V1, &place)
                {
                    return Ok(Done::Kept(bytes));
                }
                let task = engine.get(&place, &get.task).await?;
                if whole && task.core.is_settled() {
                    let mut w = Writer::with_capacity(1_024);
                    encode::task(&mut w, &task, &TaskView::WHOLE);
                    let encoded = w.finish();
                    // Large content is streamed, not kept.
                    if let Some(bytes) = encoded.as_bytes() {
                        self.server.cache.put(&task, TASK_A2A_V1, bytes);
                        return Ok(Done::Kept(bytes.clone()));
                    }
                }
                Ok(Done::Task(task, TaskView::with_history(get.history)))
            }
            Call::List(list) => {
                let view = TaskView { history: list.history, artifacts: list.artifacts };
                Ok(Done::List(engine.list(&place, &list).await?, view))
            }
            Call::Cancel(cancel) => Ok(Done::Task(engine.cancel(&place, cancel).await?, TaskView::WHOLE)),
            Call::Subscribe(call) => {
                let resume = last_event_id(&self.head.headers)?;
                Ok(Done::Stream(engine.subscribe(&place, &call, resume).await?))
            }
            Call::Push(_) => Err(Fault::new(Kind::PushNotSupported, "Push Notification is not supported")),
            Call::ExtendedCard => self.extended_card(),
        }
    }

    fn extended_card(&self) -> Result<Done, Fault> {
        if !self.server.callers.has_keys() {
            return Err(Fault::new(Kind::Unsupported, "this agent has no extended card"));
        }
        if !self.caller.authenticated {
            let message =
                "the extended card is for known callers: send Authorization: Bearer <key> or X-Api-Key: <key>";
            return Err(Fault::new(Kind::Unauthenticated, message));
        }
        let agent = &self.mounted.agent;
        Ok(Done::Card(self.server.extended_card(agent, &self.head.headers)))
    }

    /// The place the call is made at. A known caller stays in its own tenant; another's looks like one that is not there.
    fn place(&self, tenant: Option<&str>) -> Result<Arc<Place>, Fault> {
        let tenant = match tenant {
            None | Some("") => self.caller.tenant.clone(),
            Some(tenant) if *tenant == *self.caller.tenant => self.caller.tenant.clone(),
            Some(tenant) if !self.caller.authenticated => tenant.into(),
            Some(_) => return Err(Fault::new(Kind::TaskNotFound, "there is no such tenant here")),
        };
        Ok(self.mounted.place(&self.caller, &tenant))
    }

    /// What a send takes from the headers.
    fn complete(&self, send: &mut model::Send, body: &[u8]) -> Result<(), Fault> {
        let headers = &self.head.headers;
        send.extensions = extensions(headers);
        send.trace = trace(headers).map(str::to_owned);
        if let Some(key) = headers.get(&IDEMPOTENCY_KEY) {
            let key = key.to_str().unwrap_or_default().trim();
            if key.is_empty() || key.len() > self.server.engine.limits().id_bytes {
                return Err(Fault::params("Idempotency-Key", "an Idempotency-Key is 1 to 256 printable characters"));
            }
            send.idempotency = Some(Idempotency { key: key.to_owned(), body: Sha256::digest(body).into() });
        }
        Ok(())
    }

    /// The extensions asked for that the agent has.
    fn active_extensions(&self) -> Option<HeaderValue> {
        let asked = extensions(&self.head.headers);
        if asked.is_empty() {
            return None;
        }
        let profile = self.server.engine.profile(&self.mounted.agent)?;
        let known = profile.extensions.iter().filter(|e| asked.contains(&e.uri)).map(|e| e.uri.as_str());
        let active = known.collect::<Vec<_>>().join(", ");
        (!active.is_empty()).then(|| HeaderValue::from_str(&active).ok()).flatten()
    }
}

/// The version a request is in. Without one, the method or route has told already.
fn check_version(server: &Server, head: &request::Parts) -> Result<(), Fault> {
    let mut said = head.headers.get_all(&A2A_VERSION).iter();
    let header = match (said.next(), said.next()) {
        (None, _) => None,
        (Some(value), None) => Some(value.to_str().unwrap_or("?")),
        (Some(_), Some(_)) => Some("several"),
    };
    let query = match head.uri.query().filter(|q| q.contains("ersion")) {
        Some(query) => dialects::framing::query::value(query, "A2A-Version")?,
        None => None,
    };
    match a2a_v1::version::check(header, query.as_deref())? {
        a2a_v1::version::Version::Unstated if server.settings.strict_version => {
            let fault = Fault::new(Kind::VersionNotSupported, "say which version you speak: A2A-Version: 1.0");
            Err(fault.fact("supportedVersions", a2a_v1::VERSION))
        }
        a2a_v1::version::Version::Unstated | a2a_v1::version::Version::V1 => Ok(()),
    }
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<EventId>, Fault> {
    let Some(value) = headers.get(&LAST_EVENT_ID) else { return Ok(None) };
    let text = value.to_str().unwrap_or_default().trim();
    if text.is_empty() {
        return Ok(None);
    }
    let unreadable = "Last-Event-ID is not an id of this server's streams: <task>.<number>";
    text.parse().map(Some).map_err(|()| Fault::params("Last-Event-ID", unreadable))
}

/// Extensions the caller names, under either generation's header.
fn extensions(headers: &HeaderMap) -> Vec<String> {
    let lines = headers.get_all(&A2A_EXTENSIONS).iter().chain(headers.get_all(&X_A2A_EXTENSIONS));
    let names = lines.filter_map(|v| v.to_str().ok()).flat_map(|v| v.split(','));
    names.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).take(100).collect()
}

/// A body of what was encoded: at once where it is in memory, piece by piece where it refers to large content.
fn into_body(server: &Arc<Server>, tenant: &Arc<str>, encoded: Encoded) -> Body {
    if let Some(bytes) = encoded.as_bytes() {
        return bytes.clone().into();
    }
    let (server, tenant) = (server.clone(), tenant.clone());
    let segments = futures_util::stream::iter(encoded.into_segments());
    Body::stream(futures_util::StreamExt::then(segments, move |segment| {
        let (server, tenant) = (server.clone(), tenant.clone());
        async move { load(&server, &tenant, segment).await.unwrap_or_default() }
    }))
}

async fn load(server: &Server, tenant: &Arc<str>, segment: Segment) -> Result<Bytes, Fault> {
    match segment {
        Segment::Bytes(bytes) => Ok(bytes),
        Segment::Blob(blob) => {
            let content = server.engine.blob(tenant, blob.hash).await?;
            let mut out = Vec::with_capacity(content.len() * 4 / 3 + 4);
            let mut transform = Transform::new(blob.kind);
            transform.push(&mut out, &content);
            transform.finish(&mut out);
            Ok(out.into())
        }
    }
}

/// All of it in memory, for a frame of a stream.
async fn load_all(server: &Server, tenant: &Arc<str>, encoded: Encoded) -> Result<Bytes, Fault> {
    if let Some(bytes) = encoded.as_bytes() {
        return Ok(bytes.clone());
    }
    let mut out = Vec::new();
    for segment in encoded.into_segments() {
        out.extend_from_slice(&load(server, tenant, segment).await?);
    }
    Ok(out.into())
}
