//! The interface of all dialects for fronts: one [`JsonWire`] for each form of a dialect, all of them in
//! [`crate::WIRES`].
//!
//! A [`Codec`] has the properties of a form that do not depend on its encoding: rules, encoding slots, the error table. A
//! [`JsonWire`] is a codec over JSON: it reads requests into calls and writes tasks, messages, events, faults and cards. It
//! never frames: the JSON-RPC envelope and the SSE lines around what it writes are in [`crate::framing`].

use std::sync::Arc;
use std::{fmt, iter};

use bytes::Bytes;
use model::ports::webhook::{WebhookBody, WebhookDetail};
use model::{
    Call, ContextId, Event, Fault, Kind, Limits, Message, PushCall, PushConfig, State, Status, Task, TaskId, Time,
};
use serde_json::value::RawValue;

use crate::card::CardFacts;
use crate::framing::json::{Encoded, Writer};
use crate::framing::jsonrpc::Id;
use crate::protobuf::ProtoWriter;

/// One form of one dialect, whatever the encoding of its messages.
pub trait Codec: fmt::Debug + Send + Sync {
    fn facts(&self) -> &'static CodecFacts;

    /// The name in logs, and what a task remembers its opener's dialect under.
    fn name(&self) -> &'static str {
        self.facts().name
    }

    /// The name of an event's encoding, for what is encoded once and shared by all readers of a task. Encodings that
    /// differ have different slots; where the last event of a stream looks like any other, both slots are the same.
    ///
    /// Readers that see the task under an alias (`shown`) share an encoding only among themselves: see [`aliased`].
    fn slot(&self, closing: bool) -> u16;

    /// The line of the dialect's table for a fault of this kind during this operation.
    fn error_line(&self, kind: Kind, operation: Operation) -> ErrorLine;

    /// The wire that writes to webhooks of this form: their bodies are JSON, whatever the form itself is.
    fn webhook_wire(&self) -> &dyn JsonWire;
}

/// A form whose messages are JSON.
pub trait JsonWire: Codec {
    fn json_facts(&self) -> &'static JsonFacts;

    /// Makes a call of a JSON-RPC method and its params.
    fn decode_rpc(&self, method: &str, params: Option<&RawValue>, limits: &Limits) -> Result<Decoded, Fault>;

    /// Finds the operation of an HTTP+JSON request, by its path below the interface's base.
    fn route(&self, verb: &str, path: &str, query: Option<&str>) -> Result<Box<dyn Routed>, Fault>;

    /// The answer to a get or a cancel. `shown` stands everywhere instead of the task's own id.
    fn task(&self, w: &mut Writer, task: &Task, view: &TaskView, shown: Option<&str>);

    /// The answer to a send that made or continued a task.
    fn sent_task(&self, w: &mut Writer, task: &Task, view: &TaskView, shown: Option<&str>);

    /// The answer to a send that was answered by a message. Where a dialect has no such answer it shows a finished
    /// task of the head's id.
    fn sent_message(&self, w: &mut Writer, said: &Message, head: &Head<'_>);

    /// A page of a list; `false`, and nothing written, where the dialect has no lists.
    fn list(&self, _w: &mut Writer, _page: &Page<'_>) -> bool {
        false
    }

    /// How a stream begins: the values of its first frames, of which the last carries the event id. `closing` when
    /// nothing follows.
    fn stream_task(&self, task: &Task, view: &TaskView, shown: Option<&str>, closing: bool) -> Vec<Encoded>;

    /// The value of one event's frame; `false`, and nothing written, for an internal event. `closing` when
    /// the stream ends after it.
    fn stream_event(&self, w: &mut Writer, head: &Head<'_>, event: &Event, closing: bool) -> bool;

    /// The one frame of a stream that is answered by a message.
    fn stream_message(&self, w: &mut Writer, said: &Message, head: &Head<'_>);

    /// A whole JSON-RPC error response, also the last frame of a stream that fails.
    fn rpc_error(&self, out: &mut Vec<u8>, id: &Id<'_>, fault: &Fault, operation: Operation);

    /// The status and body of an HTTP+JSON error; the body is empty where a bare status is the answer.
    fn rest_error(&self, fault: &Fault, operation: Operation) -> (u16, Encoded);

    /// A push config as it is given: the front decides whether secrets are in it, and has put the id the caller knows
    /// the task under into `config.task`.
    fn push_config(&self, w: &mut Writer, config: &PushConfig, tenant: Option<&str>);

    fn push_list(&self, w: &mut Writer, configs: &[PushConfig], tenant: Option<&str>, next_page_token: &str);

    /// The answer to deleting a push config; `task` is the id the caller knows.
    fn push_deleted(&self, w: &mut Writer, task: &str);

    /// The body of a delivery to a webhook that was registered in this dialect; `false`, and nothing written, if the
    /// dialect has no form for it.
    fn push_body(&self, w: &mut Writer, head: &Head<'_>, news: &WebhookBody) -> bool;

    /// The card as this dialect's extended card operation answers it.
    fn card(&self, facts: &CardFacts<'_>) -> Bytes;
}

/// Rules of a form over JSON: media types and streams of HTTP.
#[derive(Debug)]
pub struct JsonFacts {
    /// Knows `application/a2a+json`; others are always answered in `application/json`.
    pub a2a_json: bool,
    /// The SSE event name of the last frame of a stream that fails.
    pub error_event: Option<&'static str>,
    /// A refused subscription is answered inside a stream: strict clients read nothing else there.
    pub refuses_in_stream: bool,
}

/// Rules of a form that need no code: how fronts treat it.
#[derive(Debug)]
pub struct CodecFacts {
    pub name: &'static str,
    /// The header that lists extensions, in requests and answers.
    pub extensions_header: &'static str,
    /// A caller sees a task under the id it chose itself, where it did.
    pub shows_alias: bool,
    /// A task is shown under its context and its own id: `<context>:<id>`.
    pub threaded_id: bool,
    /// The history of an answer is that of the whole session.
    pub session_history: bool,
    /// That history has the agent's answers as messages, too.
    pub answers_in_history: bool,
    /// A resumed stream begins with the task as of the event it is resumed from.
    pub resumes_with_task: bool,
    /// The view that a cancel answers and a webhook is sent; other operations state theirs in the request.
    pub cancel_view: TaskView,
    /// The detail of webhooks.
    pub telling: WebhookDetail,
    /// Push configs are removed once the end of the task was delivered.
    pub clears_push: bool,
}

/// The slot of an encoding that shows an alias. A task has at most one alias, so all its readers see the same.
pub const fn aliased(slot: u16) -> u16 {
    slot | 0x100
}

/// The call of a request, and the tenant if the request names one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    pub call: Call,
    pub tenant: Option<String>,
}

impl Decoded {
    /// A call of a dialect without tenants.
    pub fn plain(call: Call) -> Decoded {
        Decoded { call, tenant: None }
    }
}

/// An HTTP+JSON request that has a place here. Finding it needs no body, so that a front can refuse before it reads.
pub trait Routed: fmt::Debug + Send {
    /// Whether [`Routed::decode`] looks at the body.
    fn reads_body(&self) -> bool;
    /// Whether the answer is a stream of events.
    fn is_stream(&self) -> bool;
    fn operation(&self) -> Operation;
    /// Takes note of the request's `User-Agent`, for senders whose bodies are known to be odd.
    fn sent_by(&mut self, _user_agent: &str) {}
    fn decode(self: Box<Self>, body: &str, limits: &Limits) -> Result<Decoded, Fault>;
}

/// How much of a task an answer shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskView {
    /// The newest so many messages; `None` is all, 0 leaves the member out.
    pub history: Option<u32>,
    pub artifacts: bool,
}

impl TaskView {
    /// Everything.
    pub const WHOLE: TaskView = TaskView { history: None, artifacts: true };

    pub fn with_history(history: Option<u32>) -> TaskView {
        TaskView { history, artifacts: true }
    }

    /// The messages shown, the oldest first.
    pub fn history<'t>(&self, task: &'t Task) -> &'t [Arc<Message>] {
        let skipped = self.history.map_or(0, |newest| task.history.len().saturating_sub(newest as usize));
        task.history.get(skipped..).unwrap_or_default()
    }

    /// The same, each with the earlier task that holds it, if one does.
    pub(crate) fn conversation<'t>(&self, task: &'t Task) -> impl Iterator<Item = (&'t Message, Option<TaskId>)> {
        let shown = self.history(task);
        let earlier = task.earlier.iter().flat_map(|(id, count)| iter::repeat_n(Some(*id), *count));
        let holders = earlier.chain(iter::repeat(None)).skip(task.history.len() - shown.len());
        shown.iter().map(|message| &**message).zip(holders)
    }
}

/// A task's status as it is shown. An exchange that was answered by a message was never a task; a reader
/// that may look it up as one, by an id of its own, sees it completed, with the reply as its status message.
pub fn shown_status(task: &Task) -> (State, Option<&Message>, Time) {
    let Status { state, message, at } = &task.status;
    match &task.reply {
        Some(reply) => (State::Completed, Some(reply), *at),
        None => (*state, message.as_deref(), *at),
    }
}

/// The two facts of a task that every event repeats.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    pub id: DisplayId<'a>,
    pub context: &'a ContextId,
}

impl<'a> Head<'a> {
    pub fn new(id: TaskId, shown: Option<&'a str>, context: &'a ContextId) -> Head<'a> {
        Head { id: shown.map_or(DisplayId::Own(id), DisplayId::Alias), context }
    }

    pub fn of(task: &'a Task, shown: Option<&'a str>) -> Head<'a> {
        Head::new(task.id, shown, &task.context)
    }

    /// The id of another task of the same context, where this is the head of the task `own`: below the thread if this one
    /// is, else its own.
    pub(crate) fn sibling(&self, own: TaskId, other: TaskId) -> Option<String> {
        let thread = self.id.alias()?.strip_suffix(&own.to_string())?.strip_suffix(':')?;
        Some(format!("{thread}:{other}"))
    }
}

/// The id a caller sees a task under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DisplayId<'a> {
    /// The task's own.
    Own(TaskId),
    /// The one the caller chose.
    Alias(&'a str),
}

impl<'a> DisplayId<'a> {
    /// The id the caller chose, if it did.
    pub fn alias(self) -> Option<&'a str> {
        match self {
            DisplayId::Own(_) => None,
            DisplayId::Alias(alias) => Some(alias),
        }
    }

    /// Writes a string field of a message in protobuf.
    pub fn write_proto(self, w: &mut ProtoWriter<'_>, field: u32) {
        match self {
            DisplayId::Own(id) => w.string(field, id.0.as_hyphenated().encode_lower(&mut [0; 36])),
            DisplayId::Alias(alias) => w.string(field, alias),
        }
    }

    pub fn write(self, w: &mut Writer) {
        match self {
            DisplayId::Own(id) => w.plain(id.0.as_hyphenated().encode_lower(&mut [0; 36])),
            DisplayId::Alias(alias) => w.string(alias),
        }
    }
}

/// One page of a list.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    pub tasks: &'a [Arc<Task>],
    pub view: &'a TaskView,
    pub next_page_token: &'a str,
    pub page_size: u32,
    pub total_size: u64,
}

/// The operation of a request, as far as an error's code or shape may depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// The request was refused before it was known what it wants.
    Unknown,
    Send,
    Stream,
    Get,
    List,
    Cancel,
    Subscribe,
    PushCreate,
    PushGet,
    PushList,
    PushDelete,
    ExtendedCard,
}

impl Operation {
    pub const ALL: [Operation; 12] = [
        Operation::Unknown,
        Operation::Send,
        Operation::Stream,
        Operation::Get,
        Operation::List,
        Operation::Cancel,
        Operation::Subscribe,
        Operation::PushCreate,
        Operation::PushGet,
        Operation::PushList,
        Operation::PushDelete,
        Operation::ExtendedCard,
    ];

    /// Whether the answer is a stream of events.
    pub fn is_stream(self) -> bool {
        matches!(self, Operation::Stream | Operation::Subscribe)
    }
}

impl From<&Call> for Operation {
    fn from(call: &Call) -> Operation {
        match call {
            Call::Send(_) => Operation::Send,
            Call::Stream(_) => Operation::Stream,
            Call::Get(_) => Operation::Get,
            Call::List(_) => Operation::List,
            Call::Cancel(_) => Operation::Cancel,
            Call::Subscribe(_) => Operation::Subscribe,
            Call::Push(PushCall::Create(_)) => Operation::PushCreate,
            Call::Push(PushCall::Get { .. }) => Operation::PushGet,
            Call::Push(PushCall::List { .. }) => Operation::PushList,
            Call::Push(PushCall::Delete { .. }) => Operation::PushDelete,
            Call::ExtendedCard => Operation::ExtendedCard,
        }
    }
}

/// A dialect's error for one kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorLine {
    /// The JSON-RPC code.
    pub rpc: i32,
    /// The HTTP status of the HTTP+JSON binding.
    pub http: u16,
    /// The dialect's word for it; `None` for what is answered by a bare status, or where the dialect has no words.
    pub name: Option<&'static str>,
}
