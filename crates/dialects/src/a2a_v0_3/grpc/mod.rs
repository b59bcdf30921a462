//! Protocol 0.3 over gRPC: the package `a2a.v1`.
//!
//! Its shapes are those of HTTP+JSON in 0.3, and so are its rules: facts without a field travel in metadata
//! (`compat::marks`). Tasks and push configs are named by resource names.
//!
//! * [`decode`] makes a [`model::Call`] of the message of a request; `encode` writes tasks, messages and events.
//! * `request` is the client's direction: it writes requests and says how answers are read.

pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod request;

use bytes::Bytes;
use model::ports::webhook::WebhookDetail;
use model::{Event, Fault, Kind, Limits, Message, PushConfig, Task};

use super::{REST, errors};
use crate::a2a_v1;
use crate::card::CardFacts;
use crate::card_proto;
use crate::proto_wire::ProtoWire;
use crate::protobuf::{ProtoWriter, RpcStatus};
use crate::wire::{Codec, CodecFacts, Decoded, ErrorLine, Head, JsonWire, Operation, TaskView};

/// The name a task remembers its opener's dialect under.
pub const GRPC_NAME: &str = "a2a_v0_3_grpc";
pub const SERVICE: &str = "a2a.v1.A2AService";

/// The methods of the service.
pub const METHODS: &[(&str, Operation)] = &[
    ("SendMessage", Operation::Send),
    ("SendStreamingMessage", Operation::Stream),
    ("GetTask", Operation::Get),
    ("CancelTask", Operation::Cancel),
    ("TaskSubscription", Operation::Subscribe),
    ("CreateTaskPushNotificationConfig", Operation::PushCreate),
    ("GetTaskPushNotificationConfig", Operation::PushGet),
    ("ListTaskPushNotificationConfig", Operation::PushList),
    ("DeleteTaskPushNotificationConfig", Operation::PushDelete),
    ("GetAgentCard", Operation::ExtendedCard),
];

static FACTS: CodecFacts = CodecFacts {
    name: GRPC_NAME,
    extensions_header: "x-a2a-extensions",
    shows_alias: false,
    threaded_id: false,
    session_history: false,
    answers_in_history: false,
    resumes_with_task: true,
    cancel_view: TaskView::WHOLE,
    telling: WebhookDetail::States,
    clears_push: false,
};

#[derive(Debug)]
pub struct V0_3Grpc;

pub static GRPC: V0_3Grpc = V0_3Grpc;

impl Codec for V0_3Grpc {
    fn facts(&self) -> &'static CodecFacts {
        &FACTS
    }
    /// The last event says that it is the last.
    fn slot(&self, closing: bool) -> u16 {
        41 + u16::from(closing)
    }
    fn error_line(&self, kind: Kind, operation: Operation) -> ErrorLine {
        errors::line(kind, operation)
    }
    fn webhook_wire(&self) -> &dyn JsonWire {
        &REST
    }
}

impl ProtoWire for V0_3Grpc {
    fn service(&self) -> &'static str {
        SERVICE
    }
    fn version(&self) -> (u32, u32) {
        (0, 3)
    }
    fn methods(&self) -> &'static [(&'static str, Operation)] {
        METHODS
    }
    fn decode(&self, operation: Operation, message: &[u8], limits: &Limits) -> Result<Decoded, Fault> {
        decode::call(operation, message, limits).map(Decoded::plain)
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
    fn stream_event(&self, w: &mut ProtoWriter<'_>, head: &Head<'_>, event: &Event, closing: bool) -> bool {
        encode::stream_event(w, head, event, closing)
    }
    fn push_config(&self, w: &mut ProtoWriter<'_>, config: &PushConfig, _tenant: Option<&str>) {
        encode::push_config(w, config);
    }
    fn push_list(&self, w: &mut ProtoWriter<'_>, configs: &[PushConfig], _tenant: Option<&str>, next_page_token: &str) {
        for config in configs {
            w.message(1, |w| encode::push_config(w, config));
        }
        w.string(2, next_page_token);
    }
    /// GetAgentCard is how clients of 0.3 ask for any card.
    fn has_public_card(&self) -> bool {
        true
    }
    fn card(&self, facts: &CardFacts<'_>) -> Bytes {
        card_proto::v0_3(facts)
    }
    /// Clients of 0.3 know an error by the name at the beginning of the message. The reasons are those of 1.0.
    fn status(&self, fault: &Fault, operation: Operation) -> RpcStatus {
        let name = errors::line(fault.kind, operation).name.unwrap_or("InternalError");
        let message = format!("{name}: {}", fault.message);
        RpcStatus::new(errors::rpc_status(fault.kind), a2a_v1::errors::reason(fault.kind), &message, fault)
    }
}
