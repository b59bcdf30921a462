//! Aly's A2A endpoint: a store agent that runs one skill for every message.
//!
//! Its shapes are those of A2A 1.0, with the differences that Aly documents: every message opens a new task, and the
//! response comes when the task is done; lists have one filter; ids have up to three spellings; streams begin with a status;
//! a push config can also be named by its URL; and the error codes are its own.
//!
//! * [`decode`] makes a [`model::Call`] of a JSON-RPC request, [`rest`] of an HTTP+JSON request.
//! * [`encode`] writes tasks, lists and the frames of streams.
//! * [`errors`] maps faults to error codes.
//! * [`card`] writes the card of the platform, or of one shop.
//! * `endpoint` serves the requests.
//!
//! The public id of a task is `task_` and the digits of its own id, as in Aly's documentation. It is computed in both
//! directions, so that no second id is stored. A context id is the caller's own text; if the caller leaves it out, the
//! endpoint makes one.

pub mod card;
pub mod decode;
pub mod encode;
pub(crate) mod endpoint;
pub mod errors;
pub mod rest;

use bytes::Bytes;
use model::ports::webhook::{WebhookBody, WebhookDetail};
use model::{Event, Fault, Kind, Limits, Message, PushConfig, Task, TaskId};
use serde_json::value::RawValue;

use dialects::card::CardFacts;
use dialects::framing::json::{Encoded, Writer};
use dialects::framing::jsonrpc::Id;
use dialects::wire::{
    Codec, CodecFacts, Decoded, DisplayId, ErrorLine, Head, JsonFacts, JsonWire, Operation, Page, Routed, TaskView,
};

/// The dialect's name in stored tasks.
pub const NAME: &str = "aly";
/// The `A2A-Version` header of every response.
pub const VERSION: &str = "1.0";

/// Most messages of a task's history in a response; they are the newest.
pub const HISTORY: u32 = 100;
/// Default page size of a list.
pub const PAGE_SIZE: u32 = 20;
/// Largest page size of a list.
pub const MOST_ON_A_PAGE: u32 = 100;
/// Most push configs of a task.
pub const CONFIGS: usize = 20;

/// Scopes of API keys and access tokens, with their descriptions.
pub const SCOPES: &[(&str, &str)] = &[
    ("read:sites", "Read sites and their settings"),
    ("write:sites", "Change sites and their settings"),
    ("delete:sites", "Delete sites"),
    ("read:content", "Read pages, products and collections"),
    ("write:content", "Change pages, products and collections"),
    ("read:orders", "Read carts and orders"),
    ("write:orders", "Fill carts, check out and change orders"),
    ("read:customers", "Read customers"),
    ("write:customers", "Change customers"),
    ("read:media", "Read media"),
    ("write:media", "Add and change media"),
    ("read:analytics", "Read figures about sites"),
];

const PREFIX: &str = "task_";

/// The public id of a task.
pub fn shown_id(task: TaskId) -> String {
    format!("{PREFIX}{}", task.0.as_simple())
}

/// The task's own id, from its public id. Any other text is returned unchanged, and no task has it as its id.
pub fn own_id(shown: &str) -> String {
    let digits = shown.strip_prefix(PREFIX).filter(|digits| digits.len() == 32);
    match digits {
        Some(d) if d.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) => {
            format!("{}-{}-{}-{}-{}", &d[..8], &d[8..12], &d[12..16], &d[16..20], &d[20..])
        }
        Some(_) | None => shown.to_owned(),
    }
}

/// The public id of a task whose own id is given as text; any other text is returned unchanged.
fn shown_text(id: &str) -> String {
    id.parse().map_or_else(|_| id.to_owned(), shown_id)
}

static FACTS: CodecFacts = CodecFacts {
    name: NAME,
    extensions_header: "A2A-Extensions",
    shows_alias: false,
    threaded_id: false,
    session_history: false,
    answers_in_history: false,
    resumes_with_task: true,
    cancel_view: TaskView::WHOLE,
    telling: WebhookDetail::Events,
    clears_push: true,
};

static JSON_FACTS: JsonFacts = JsonFacts { a2a_json: true, error_event: None, refuses_in_stream: false };

/// The codec of Aly's wire.
#[derive(Debug)]
pub struct ShopWire;

pub static WIRE: ShopWire = ShopWire;

/// Calls `write` with a head that has the public id.
fn with_id<R>(head: &Head<'_>, write: impl FnOnce(&Head<'_>) -> R) -> R {
    let id = match head.id {
        DisplayId::Own(id) => shown_id(id),
        DisplayId::Alias(id) => shown_text(id),
    };
    write(&Head { id: DisplayId::Alias(&id), context: head.context })
}

impl Codec for ShopWire {
    fn facts(&self) -> &'static CodecFacts {
        &FACTS
    }
    fn slot(&self, _closing: bool) -> u16 {
        20
    }
    fn error_line(&self, kind: Kind, operation: Operation) -> ErrorLine {
        errors::line(kind, operation)
    }
    fn webhook_wire(&self) -> &dyn JsonWire {
        self
    }
}

impl JsonWire for ShopWire {
    fn json_facts(&self) -> &'static JsonFacts {
        &JSON_FACTS
    }
    fn decode_rpc(&self, method: &str, params: Option<&RawValue>, limits: &Limits) -> Result<Decoded, Fault> {
        decode::decode(method, params, limits)
    }
    fn route(&self, verb: &str, path: &str, query: Option<&str>) -> Result<Box<dyn Routed>, Fault> {
        Ok(Box::new(rest::route(verb, path, query)?))
    }
    fn task(&self, w: &mut Writer, task: &Task, view: &TaskView, _shown: Option<&str>) {
        with_id(&Head::of(task, None), |head| encode::task(w, task, head, view));
    }
    fn sent_task(&self, w: &mut Writer, task: &Task, view: &TaskView, _shown: Option<&str>) {
        w.begin_object();
        with_id(&Head::of(task, None), |head| encode::task(w.key("task"), task, head, view));
        w.end_object();
    }
    /// The response to a send is always a task.
    fn sent_message(&self, w: &mut Writer, said: &Message, head: &Head<'_>) {
        w.begin_object();
        with_id(head, |head| encode::replied(w.key("task"), said, head));
        w.end_object();
    }
    fn list(&self, w: &mut Writer, page: &Page<'_>) -> bool {
        encode::list(w, page);
        true
    }
    fn stream_task(&self, task: &Task, _view: &TaskView, _shown: Option<&str>, _closing: bool) -> Vec<Encoded> {
        with_id(&Head::of(task, None), |head| encode::begun(task, head))
    }
    fn stream_event(&self, w: &mut Writer, head: &Head<'_>, event: &Event, _closing: bool) -> bool {
        with_id(head, |head| encode::event(w, head, event))
    }
    fn stream_message(&self, w: &mut Writer, said: &Message, head: &Head<'_>) {
        with_id(head, |head| encode::replied_update(w, said, head));
    }
    fn rpc_error(&self, out: &mut Vec<u8>, id: &Id<'_>, fault: &Fault, operation: Operation) {
        errors::rpc_error(out, id, fault, operation);
    }
    fn rest_error(&self, fault: &Fault, operation: Operation) -> (u16, Encoded) {
        errors::rest_error(fault, operation)
    }
    fn push_config(&self, w: &mut Writer, config: &PushConfig, _tenant: Option<&str>) {
        encode::push_config(w, config);
    }
    fn push_list(&self, w: &mut Writer, configs: &[PushConfig], _tenant: Option<&str>, next_page_token: &str) {
        encode::push_list(w, configs, next_page_token);
    }
    fn push_deleted(&self, w: &mut Writer, _task: &str) {
        w.begin_object();
        w.end_object();
    }
    /// The same as the frame of a stream.
    fn push_body(&self, w: &mut Writer, head: &Head<'_>, news: &WebhookBody) -> bool {
        match news {
            WebhookBody::Task(task) => {
                self.sent_task(w, task, &TaskView::WHOLE, None);
                true
            }
            WebhookBody::Event(event) => self.stream_event(w, head, event, false),
        }
    }
    /// There is no extended card; the public one is [`card::card`].
    fn card(&self, facts: &CardFacts<'_>) -> Bytes {
        dialects::card::clean(facts)
    }
}
