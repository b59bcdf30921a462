//! The log of a task: page by page, or live as server-sent events.
//!
//! Every event is shown, also those that callers never see. A stream begins after the event that `Last-Event-ID` or `after`
//! names, and ends when the task has settled.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use dialects::a2a_v1;
use dialects::framing::json::{Encoded, Writer};
use dialects::framing::sse;
use dialects::wire::{DisplayId, Head, JsonWire};
use engine::{Committed, LogFollower};
use http::header::ACCEPT;
use model::{Body, ContextId, Event, EventId, Fault, Seq, TaskId};
use schemars::JsonSchema;
use serde_json::{Map, Value};
use web::body::{Response, reserve};
use web::headers::last_event_id;
use web::response::json;
use web::sse::{EventSource, EventStream, Flow};

use super::ApiContext;
use super::problem::ApiProblem;
use super::routes::USUAL_PAGE;
use crate::GatewayVersion;
use crate::fronts;
use crate::links::LinkOptions;

/// Bytes of a log that are read for one page.
const PAGE_BYTES: usize = 1 << 20;

/// An event of a log. Events are written piece by piece; this type is their schema.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Event")]
#[allow(dead_code, reason = "only its schema is used")]
pub(super) struct ApiEvent {
    /// Its number in the log, from 1.
    seq: u64,
    at: String,
    /// `opened`, `message`, `turn`, `bound`, `status`, `artifact`, `reply`, `metadata` or `cancel`.
    kind: String,
    /// What is special about its kind: of an opening the agent, tenant, owner, context, dialect and alias; of a turn its id
    /// and attempt; of a bound turn its remote name.
    #[serde(skip_serializing_if = "Option::is_none")]
    facts: Option<Map<String, Value>>,
    /// What was said: the same object as in a stream of A2A 1.0 (`message`, `statusUpdate` or `artifactUpdate`).
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Value>,
}

#[derive(JsonSchema)]
#[schemars(rename = "Events")]
#[allow(dead_code, reason = "only its schema is used")]
pub(super) struct ApiEvents {
    events: Vec<ApiEvent>,
    /// The `after` of the next page; null where the log has no further events now.
    next: Option<u64>,
}

pub(super) async fn show(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let id = context.task().await?;
    let after = Seq(u64::from(context.number("after", 0)));
    if asks_for_stream(context.http.head) { stream(context, id, after).await } else { page(context, id, after).await }
}

/// Whether a request asks for server-sent events.
pub(super) fn asks_for_stream(head: &http::request::Parts) -> bool {
    head.headers
        .get_all(ACCEPT)
        .iter()
        .any(|accept| accept.to_str().is_ok_and(|accept| accept.to_ascii_lowercase().contains("text/event-stream")))
}

async fn page(context: &ApiContext<'_>, id: TaskId, after: Seq) -> Result<Response, ApiProblem> {
    let (server, limit) = (context.server, context.number("limit", USUAL_PAGE) as usize);
    let store = server.engine.store();
    let missing = || Fault::task_not_found(id);
    let unavailable =
        |trouble: model::ports::store::StoreError| Fault::new(model::Kind::Unavailable, trouble.to_string());
    let head = store.head(id).await.map_err(unavailable)?.ok_or_else(missing)?;
    let mut events = store.events(id, after, PAGE_BYTES).await.map_err(unavailable)?;
    events.truncate(limit);
    let last = events.last().map_or(after, |event| event.seq);
    let size = events.iter().map(|event| event.body.weight() + 256).sum::<usize>();
    let share = reserve(&server.answers, size)?;
    let writer = EventWriter::new(id, head.context)?;
    let mut w = Writer::with_capacity(size);
    w.begin_object();
    w.key("events").begin_array();
    events.iter().for_each(|event| writer.write(&mut w, event));
    w.end_array();
    w.key("next");
    if last < head.seq && !events.is_empty() {
        w.u64(last.0);
    } else {
        w.null();
    }
    w.end_object();
    drop(share);
    Ok(json(fronts::into_body(server, context.http.head, &head.tenant, w.finish()).await?))
}

async fn stream(context: &ApiContext<'_>, id: TaskId, after: Seq) -> Result<Response, ApiProblem> {
    let (server, head) = (context.server, context.http.head);
    let after = match last_event_id(&head.headers) {
        None => after,
        Some(named) => {
            let named = named.ok().and_then(|text| text.parse::<EventId>().ok()).filter(|event| event.task == id);
            let wrong = || ApiProblem::field("Last-Event-ID", "is no event of this task");
            named.ok_or_else(wrong)?.seq
        }
    };
    let throttle = server.throttle.as_ref();
    let permit = throttle.map(|throttle| throttle.stream(&context.caller.known, context.http.address)).transpose()?;
    let follower = server.engine.follow_log(id, after).await?;
    let task = server.engine.task(id).await?.ok_or_else(|| Fault::task_not_found(id))?;
    let feed = LogFeed {
        server: server.clone(),
        follower,
        writer: EventWriter::new(id, task.context.clone())?,
        terms: fronts::terms(server, head, &task.tenant),
    };
    let heartbeat = Duration::from_millis(server.settings.heartbeat_ms);
    let stream = EventStream::new(feed, server.metrics.streams.clone()).heartbeat(heartbeat, sse::HEARTBEAT);
    Ok(stream.counted(server.answers.clone()).permits([permit.flatten(), None]).respond())
}

/// The events of one log, as they are committed.
struct LogFeed {
    server: Arc<GatewayVersion>,
    follower: LogFollower,
    writer: EventWriter,
    terms: LinkOptions,
}

impl EventSource for LogFeed {
    type Item = Result<Arc<Committed>, Fault>;

    fn next(&mut self) -> impl Future<Output = Option<Self::Item>> + Send {
        self.follower.next()
    }

    async fn write(&mut self, piece: &mut Vec<u8>, item: Option<Self::Item>) -> io::Result<Flow> {
        let Some(item) = item else { return Ok(Flow::Ends) };
        let written = match item {
            Ok(committed) => {
                let encoded = self.writer.encoded(&committed.event);
                let loaded = fronts::load_all(&self.server, &self.terms, encoded).await;
                loaded.map(|bytes| (committed.event.seq, bytes))
            }
            Err(fault) => Err(fault),
        };
        // A client resumes from its last event.
        let (seq, bytes) = written.map_err(|fault| {
            tracing::warn!(cause = %fault.cause_text(), "a stream of a log failed: {fault}");
            io::Error::other(fault.message)
        })?;
        sse::write_frame(piece, Some(EventId { task: self.writer.task, seq }), None, &[&bytes]);
        Ok(Flow::Continues)
    }
}

/// Writes the events of one task.
struct EventWriter {
    task: TaskId,
    context: ContextId,
    wire: &'static dyn JsonWire,
}

impl EventWriter {
    fn new(task: TaskId, context: ContextId) -> Result<EventWriter, Fault> {
        let wire = dialects::wire(a2a_v1::NAME).ok_or_else(|| Fault::internal("there is no wire of 1.0"))?;
        Ok(EventWriter { task, context, wire })
    }

    fn encoded(&self, event: &Event) -> Encoded {
        let mut w = Writer::with_capacity(event.body.weight() + 256);
        self.write(&mut w, event);
        w.finish()
    }

    fn write(&self, w: &mut Writer, event: &Event) {
        w.begin_object();
        w.key("seq").u64(event.seq.0);
        w.key("at").time(event.at);
        w.key("kind").plain(kind(&event.body));
        match &event.body {
            Body::Opened(opened) => {
                w.key("facts").begin_object();
                w.key("agent").string(&opened.agent);
                w.key("tenant").string(&opened.tenant);
                w.key("owner").string(&opened.owner);
                w.key("context").string(opened.context.as_str());
                w.key("dialect").string(&opened.dialect);
                w.optional("alias", opened.alias.as_deref());
                w.optional("follows", opened.follows.map(|task| task.to_string()).as_deref());
                w.end_object();
            }
            Body::Message(inbound) => {
                w.key("content").begin_object();
                let (context, task) = (Some(&self.context), Some(DisplayId::Own(self.task)));
                a2a_v1::encode::said(w.key("message"), &inbound.message, context, task);
                w.end_object();
                if let Some(metadata) = &inbound.metadata {
                    w.key("metadata").json(metadata);
                }
            }
            Body::TurnStarted { turn, attempt, hold: _ } => {
                w.key("facts").begin_object();
                w.key("turn").string(&turn.to_string());
                w.key("attempt").u64(u64::from(*attempt));
                w.end_object();
            }
            Body::Bound { remote } => {
                w.key("facts").begin_object();
                w.key("remote").string(remote);
                w.end_object();
            }
            Body::Status(_) | Body::Artifact(_) | Body::Replied(_) => {
                let head = Head::new(self.task, None, &self.context);
                self.wire.stream_event(w.key("content"), &head, event, false);
            }
            Body::Metadata(metadata) => w.key("metadata").json(metadata),
            Body::CancelRequested { metadata } => {
                if let Some(metadata) = metadata {
                    w.key("metadata").json(metadata);
                }
            }
        }
        w.end_object();
    }
}

fn kind(body: &Body) -> &'static str {
    match body {
        Body::Opened(_) => "opened",
        Body::Message(_) => "message",
        Body::TurnStarted { .. } => "turn",
        Body::Bound { .. } => "bound",
        Body::Status(_) => "status",
        Body::Artifact(_) => "artifact",
        Body::Replied(_) => "reply",
        Body::Metadata(_) => "metadata",
        Body::CancelRequested { .. } => "cancel",
    }
}
