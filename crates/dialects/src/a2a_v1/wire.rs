//! The wire of 1.0: every method of [`JsonWire`] by delegation to this folder.

use bytes::Bytes;
use model::ports::webhook::WebhookBody;
use model::{Event, Fault, Kind, Limits, Message, PushConfig, Task};
use serde_json::value::RawValue;

use super::{FACTS, JSON_FACTS, encode, errors};
use crate::card::{self, CardFacts};
use crate::framing::json::{Encoded, Writer};
use crate::framing::jsonrpc::Id;
use crate::wire::{
    Codec, CodecFacts, Decoded, ErrorLine, Head, JsonFacts, JsonWire, Operation, Page, Routed, TaskView,
};

/// 1.0 over both bindings, which carry the same shapes.
#[derive(Debug)]
pub struct V1Wire;

pub static WIRE: V1Wire = V1Wire;

impl Codec for V1Wire {
    fn facts(&self) -> &'static CodecFacts {
        &FACTS
    }
    /// No event says that it is the last.
    fn slot(&self, _closing: bool) -> u16 {
        0
    }
    fn error_line(&self, kind: Kind, _operation: Operation) -> ErrorLine {
        errors::line(kind)
    }
    fn webhook_wire(&self) -> &dyn JsonWire {
        self
    }
}

impl JsonWire for V1Wire {
    fn json_facts(&self) -> &'static JsonFacts {
        &JSON_FACTS
    }
    fn decode_rpc(&self, method: &str, params: Option<&RawValue>, limits: &Limits) -> Result<Decoded, Fault> {
        super::decode_rpc(method, params, limits)
    }
    fn route(&self, verb: &str, path: &str, query: Option<&str>) -> Result<Box<dyn Routed>, Fault> {
        Ok(Box::new(super::route(verb, path, query)?))
    }
    fn task(&self, w: &mut Writer, task: &Task, view: &TaskView, shown: Option<&str>) {
        encode::task_as(w, task, view, shown);
    }
    fn sent_task(&self, w: &mut Writer, task: &Task, view: &TaskView, shown: Option<&str>) {
        encode::send_task_as(w, task, view, shown);
    }
    fn sent_message(&self, w: &mut Writer, said: &Message, head: &Head<'_>) {
        encode::send_message(w, said, head.context);
    }
    fn list(&self, w: &mut Writer, page: &Page<'_>) -> bool {
        let Page { tasks, view, next_page_token, page_size, total_size } = *page;
        encode::list(w, tasks, view, next_page_token, page_size, total_size);
        true
    }
    fn stream_task(&self, task: &Task, view: &TaskView, shown: Option<&str>, _closing: bool) -> Vec<Encoded> {
        let mut w = Writer::with_capacity(task.weight() + 1_024);
        encode::send_task_as(&mut w, task, view, shown);
        vec![w.finish()]
    }
    fn stream_event(&self, w: &mut Writer, head: &Head<'_>, event: &Event, _closing: bool) -> bool {
        encode::stream_event_as(w, head, event)
    }
    fn stream_message(&self, w: &mut Writer, said: &Message, head: &Head<'_>) {
        encode::send_message(w, said, head.context);
    }
    fn rpc_error(&self, out: &mut Vec<u8>, id: &Id<'_>, fault: &Fault, _operation: Operation) {
        errors::rpc_error(out, id, fault);
    }
    fn rest_error(&self, fault: &Fault, _operation: Operation) -> (u16, Encoded) {
        errors::rest_error(fault)
    }
    fn push_config(&self, w: &mut Writer, config: &PushConfig, tenant: Option<&str>) {
        encode::push_config(w, config, tenant);
    }
    fn push_list(&self, w: &mut Writer, configs: &[PushConfig], tenant: Option<&str>, next_page_token: &str) {
        encode::push_list(w, configs, tenant, next_page_token);
    }
    fn push_deleted(&self, w: &mut Writer, _task: &str) {
        encode::empty(w);
    }
    /// A webhook is sent the frames of a stream.
    fn push_body(&self, w: &mut Writer, head: &Head<'_>, news: &WebhookBody) -> bool {
        match news {
            WebhookBody::Task(task) => {
                encode::send_task_as(w, task, &self.facts().cancel_view, head.id.alias());
                true
            }
            WebhookBody::Event(event) => encode::stream_event_as(w, head, event),
        }
    }
    fn card(&self, facts: &CardFacts<'_>) -> Bytes {
        card::clean(facts)
    }
}
