//! The wires of the generations before 1.0: one writer for all of them, and a row of what differs for each.

use std::fmt;

use bytes::Bytes;
use model::ports::webhook::WebhookBody;
use model::{Event, Fault, Kind, Limits, Message, PushConfig, Task};
use serde_json::value::RawValue;

use crate::a2a_v0_3;
use crate::card::{self, CardFacts};
use crate::compat::{PreV1Form, encode, push};
use crate::framing::json::{Encoded, Writer};
use crate::framing::jsonrpc::Id;
use crate::framing::route;
use crate::wire::{Codec, CodecFacts, Decoded, ErrorLine, Head, JsonFacts, JsonWire, Operation, Routed, TaskView};

/// A form of a generation before 1.0.
pub struct PreV1Wire {
    pub form: PreV1Form,
    pub facts: &'static CodecFacts,
    pub json: &'static JsonFacts,
    /// The slot of an event that does not end its stream; one that does has the next.
    pub slot: u16,
    pub decode_rpc: fn(&str, Option<&RawValue>, &Limits) -> Result<Decoded, Fault>,
    pub error_line: fn(Kind, Operation) -> ErrorLine,
    pub rpc_error: fn(&mut Vec<u8>, &Id<'_>, &Fault, Operation),
    pub rest_error: fn(&Fault, Operation) -> (u16, Encoded),
}

impl JsonFacts {
    /// The rules of every form before 1.0. Forms differ in whether a refused subscription is answered inside a stream.
    pub const fn pre_v1(refuses_in_stream: bool) -> JsonFacts {
        JsonFacts { a2a_json: false, error_event: None, refuses_in_stream }
    }
}

impl fmt::Debug for PreV1Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.facts.name)
    }
}

impl Codec for PreV1Wire {
    fn facts(&self) -> &'static CodecFacts {
        self.facts
    }
    fn slot(&self, closing: bool) -> u16 {
        self.slot + u16::from(closing)
    }
    fn error_line(&self, kind: Kind, operation: Operation) -> ErrorLine {
        (self.error_line)(kind, operation)
    }
    fn webhook_wire(&self) -> &dyn JsonWire {
        self
    }
}

impl JsonWire for PreV1Wire {
    fn json_facts(&self) -> &'static JsonFacts {
        self.json
    }
    fn decode_rpc(&self, method: &str, params: Option<&RawValue>, limits: &Limits) -> Result<Decoded, Fault> {
        (self.decode_rpc)(method, params, limits)
    }
    /// Only 0.3 has a binding over HTTP+JSON.
    fn route(&self, verb: &str, path: &str, query: Option<&str>) -> Result<Box<dyn Routed>, Fault> {
        match self.form {
            PreV1Form::Proto => Ok(Box::new(a2a_v0_3::route(verb, path, query)?)),
            PreV1Form::Kind | PreV1Form::Type | PreV1Form::Both => Err(route::unknown(path, &[])),
        }
    }
    fn task(&self, w: &mut Writer, task: &Task, view: &TaskView, shown: Option<&str>) {
        encode::task(w, self.form, task, view, shown);
    }
    fn sent_task(&self, w: &mut Writer, task: &Task, view: &TaskView, shown: Option<&str>) {
        encode::sent_task(w, self.form, task, view, shown);
    }
    fn sent_message(&self, w: &mut Writer, said: &Message, head: &Head<'_>) {
        encode::sent_message(w, self.form, said, head);
    }
    fn stream_task(&self, task: &Task, view: &TaskView, shown: Option<&str>, closing: bool) -> Vec<Encoded> {
        encode::stream_task(self.form, task, view, shown, closing)
    }
    fn stream_event(&self, w: &mut Writer, head: &Head<'_>, event: &Event, closing: bool) -> bool {
        encode::stream_event(w, self.form, head, event, closing)
    }
    fn stream_message(&self, w: &mut Writer, said: &Message, head: &Head<'_>) {
        encode::stream_message(w, self.form, said, head, None);
    }
    fn rpc_error(&self, out: &mut Vec<u8>, id: &Id<'_>, fault: &Fault, operation: Operation) {
        (self.rpc_error)(out, id, fault, operation);
    }
    fn rest_error(&self, fault: &Fault, operation: Operation) -> (u16, Encoded) {
        (self.rest_error)(fault, operation)
    }
    fn push_config(&self, w: &mut Writer, config: &PushConfig, _tenant: Option<&str>) {
        push::config(w, self.form, config);
    }
    fn push_list(&self, w: &mut Writer, configs: &[PushConfig], _tenant: Option<&str>, next_page_token: &str) {
        push::list(w, self.form, configs, next_page_token);
    }
    fn push_deleted(&self, w: &mut Writer, task: &str) {
        push::deleted(w, self.form, task);
    }
    /// A webhook is sent the task as a get shows it, never a single event.
    fn push_body(&self, w: &mut Writer, head: &Head<'_>, news: &WebhookBody) -> bool {
        match news {
            WebhookBody::Task(task) => {
                encode::task(w, self.form, task, &self.facts.cancel_view, head.id.alias());
                true
            }
            WebhookBody::Event(_) => false,
        }
    }
    fn card(&self, facts: &CardFacts<'_>) -> Bytes {
        card::v0_3(facts)
    }
}
