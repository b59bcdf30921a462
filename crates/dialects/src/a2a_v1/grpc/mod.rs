//! Protocol 1.0 over gRPC: the package `lf.a2a.v1`.
//!
//! * [`decode`] makes a [`model::Call`] of the message of a request; `encode` writes tasks, messages and events.
//! * `request` is the client's direction: it writes requests and says how answers are read.

pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod request;

use bytes::Bytes;
use model::ports::webhook::WebhookDetail;
use model::{Event, Fault, Kind, Limits, Message, PushConfig, Task};

use super::{WIRE, errors};
use crate::card::CardFacts;
use crate::card_proto;
use crate::proto_wire::ProtoWire;
use crate::protobuf::{ProtoWriter, RpcStatus};
use crate::wire::{Codec, CodecFacts, Decoded, ErrorLine, Head, JsonWire, Operation, Page, TaskView};

/// The name a task remembers its opener's dialect under.
pub const GRPC_NAME: &str = "a2a_v1_grpc";
pub const SERVICE: &str = "lf.a2a.v1.A2AService";

/// The methods of the service.
pub const METHODS: &[(&str, Operation)] = &[
    ("SendMessage", Operation::Send),
    ("SendStreamingMessage", Operation::Stream),
    ("GetTask", Operation::Get),
    ("ListTasks", Operation::List),
    ("CancelTask", Operation::Cancel),
    ("SubscribeToTask", Operation::Subscribe),
    ("CreateTaskPushNotificationConfig", Operation::PushCreate),
    ("GetTaskPushNotificationConfig", Operation::PushGet),
    ("ListTaskPushNotificationConfigs", Operation::PushList),
    ("DeleteTaskPushNotificationConfig", Operation::PushDelete),
    ("GetExtendedAgentCard", Operation::ExtendedCard),
];

static FACTS: CodecFacts = CodecFacts {
    name: GRPC_NAME,
    extensions_header: "a2a-extensions",
    shows_alias: false,
    threaded_id: false,
    session_history: false,
    answers_in_history: false,
    resumes_with_task: true,
    cancel_view: TaskView::WHOLE,
    telling: WebhookDetail::Events,
    clears_push: false,
};

#[derive(Debug)]
pub struct V1Grpc;

pub static GRPC: V1Grpc = V1Grpc;

impl Codec for V1Grpc {
    fn facts(&self) -> &'static CodecFacts {
        &FACTS
    }
    /// No event says that it is the last.
    fn slot(&self, _closing: bool) -> u16 {
        40
    }
    fn error_line(&self, kind: Kind, _operation: Operation) -> ErrorLine {
        errors::line(kind)
    }
    fn webhook_wire(&self) -> &dyn JsonWire {
        &WIRE
    }
}

impl ProtoWire for V1Grpc {
    fn service(&self) -> &'static str {
        SERVICE
    }
    fn version(&self) -> (u32, u32) {
        (1, 0)
    }
    fn methods(&self) -> &'static [(&'static str, Operation)] {
        METHODS
    }
    fn decode(&self, operation: Operation, message: &[u8], limits: &Limits) -> Result<Decoded, Fault> {
        decode::call(operation, message, limits)
    }
    fn task(&self, w: &mut ProtoWriter<'_>, task: &Task, view: &TaskView, shown: Option<&str>) {
        encode::task(w, task, view, shown);
    }
    fn sent_task(&self, w: &mut ProtoWriter<'_>, task: &Task, view: &TaskView, shown: Option<&str>) {
        w.message(1, |w| encode::task(w, task, view, shown));
    }
    fn sent_message(&self, w: &mut ProtoWriter<'_>, said: &Message, head: &Head<'_>) {
        w.message(2, |w| encode::said(w, said, Some(head.context), None));
    }
    fn list(&self, w: &mut ProtoWriter<'_>, page: &Page<'_>) {
        encode::list(w, page);
    }
    fn stream_event(&self, w: &mut ProtoWriter<'_>, head: &Head<'_>, event: &Event, _closing: bool) -> bool {
        encode::stream_event(w, head, event)
    }
    fn push_config(&self, w: &mut ProtoWriter<'_>, config: &PushConfig, tenant: Option<&str>) {
        encode::push_config(w, config, tenant);
    }
    fn push_list(&self, w: &mut ProtoWriter<'_>, configs: &[PushConfig], tenant: Option<&str>, next_page_token: &str) {
        for config in configs {
            w.message(1, |w| encode::push_config(w, config, tenant));
        }
        w.string(2, next_page_token);
    }
    fn card(&self, facts: &CardFacts<'_>) -> Bytes {
        card_proto::v1(facts)
    }
    fn status(&self, fault: &Fault, _operation: Operation) -> RpcStatus {
        RpcStatus::new(errors::rpc_status(fault.kind), errors::reason(fault.kind), &fault.message, fault)
    }
}
