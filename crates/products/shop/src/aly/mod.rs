//! Aly's A2A endpoint: a store agent that runs one skill for every message.
//!
//! It is 1.0 in its shapes, and the page of the product says where it is not: every message opens a task of its own and is
//! answered when that is done, lists know one filter, ids may come under three names, streams begin with a status, push
//! configs are found by their address, too, and the codes are its own.
//!
//! * [`decode`] makes a [`model::Call`] of a JSON-RPC request, [`rest`] of an HTTP+JSON one.
//! * [`encode`] writes tasks, lists and the frames of streams.
//! * [`errors`] says what a fault looks like.
//! * [`card`] is the card of the platform, or of one shop.
//!
//! A task is shown as `task_` and the digits of its own id, and read back from that: the product's ids look like this, no
//! second name has to be kept for a task, and every process that shares the store reads the same id. A context is a name
//! that its caller chose, so nothing is printed differently there; one that the caller leaves out is made by the front.

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

/// The name a task remembers its opener's dialect under.
pub const NAME: &str = "aly";
/// What `A2A-Version` says on every answer.
pub const VERSION: &str = "1.0";

/// The most messages of a task's history that are shown, the newest.
pub const HISTORY: u32 = 100;
/// The tasks on a page of a list that says nothing of its size, and the most there are.
pub const PAGE_SIZE: u32 = 20;
pub const MOST_ON_A_PAGE: u32 = 100;
/// The most push configs of a task.
pub const CONFIGS: usize = 20;

/// What an API key or an access token may be good for.
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

/// The id a task is shown under.
pub fn shown_id(task: TaskId) -> String {
    format!("{PREFIX}{}", task.0.as_simple())
}

/// The task's own id, of the one it is shown under. Anything else stays what it is, and names no task.
pub fn own_id(shown: &str) -> String {
    let digits = shown.strip_prefix(PREFIX).filter(|digits| digits.len() == 32);
    match digits {
        Some(d) if d.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) => {
            format!("{}-{}-{}-{}-{}", &d[..8], &d[8..12], &d[12..16], &d[16..20], &d[20..])
        }
        Some(_) | None => shown.to_owned(),
    }
}

/// The same, of an id that may be a task's own already.
fn shown_text(id: &str) -> String {
    id.parse().map_or_else(|_| id.to_owned(), shown_id)
}

static FACTS: CodecFacts = CodecFacts {
    name: NAME,
    shows_alias: false,
    threaded_id: false,
    session_history: false,
    answers_in_history: false,
    resumes_with_task: true,
    cancel_view: TaskView::WHOLE,
    telling: WebhookDetail::Events,
    clears_push: true,
};

static JSON_FACTS: JsonFacts =
    JsonFacts { extensions_header: "A2A-Extensions", a2a_json: true, error_event: None, refuses_in_stream: false };

/// The one form it has.
#[derive(Debug)]
pub struct ShopWire;

pub static WIRE: ShopWire = ShopWire;

/// A head with the id that is shown.
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
    /// Whoever sends something has a task.
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
    /// What a stream would say.
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
