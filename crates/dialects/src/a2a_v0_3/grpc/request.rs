//! The client's direction: how a 0.3 server is asked over gRPC, and how its answers are numbered.
//!
//! The package has no field for the metadata of a cancel, which is not sent.

use model::{Call, Cancel, Get, PushCall, Send, State, Subscribe, Wait};

use super::super::VERSION;
use super::{METHODS, SERVICE, decode, encode};
use crate::compat::PreV1Form;
use crate::compat::decode::PreV1Decoder;
use crate::peer::{Generation, PeerFacts, RequestOptions};
use crate::proto_answer::ProtoAnswers;
use crate::proto_json::{CARD_V0_3, PUSH_V0_3};
use crate::proto_peer::ProtoPeer;
use crate::protobuf::ProtoWriter;
use crate::wire::DisplayId;

pub(crate) static PEER: ProtoPeer = ProtoPeer {
    facts: PeerFacts {
        name: "0.3 over gRPC",
        generation: Generation::V0_3,
        version: Some(VERSION),
        extension_headers: &["X-A2A-Extensions", "A2A-Extensions"],
        replies: true,
        chooses_ids: false,
    },
    service: SERVICE,
    methods: METHODS,
    write,
    answers: ProtoAnswers {
        state: |number| u8::try_from(number).ok().and_then(State::from_code),
        part: |fields, limits| decode::part(fields, &PreV1Decoder::new(PreV1Form::Proto, limits)),
        marks: true,
        references: None,
        is_final: Some(4),
        status_metadata: 5,
        artifact_name: 3,
    },
    card: CARD_V0_3,
    push_config: PUSH_V0_3,
};

fn write(w: &mut ProtoWriter<'_>, call: &Call, _asking: &RequestOptions<'_>) {
    match call {
        Call::Send(send) | Call::Stream(send) => send_fields(w, send),
        Call::Get(Get { task, history }) => {
            name(w, task);
            history_field(w, 2, *history);
        }
        Call::Cancel(Cancel { task, .. }) | Call::Subscribe(Subscribe { task }) => name(w, task),
        Call::Push(PushCall::Create(config)) => {
            name(w, config.task.as_deref().unwrap_or_default());
            w.optional(2, config.id.as_deref());
            w.message(3, |w| encode::push_config(w, config));
        }
        Call::Push(PushCall::Get { task, id } | PushCall::Delete { task, id }) => {
            w.string(1, &format!("tasks/{task}/pushNotificationConfigs/{id}"));
        }
        Call::Push(PushCall::List { task, page_size, page_token }) => {
            name(w, task);
            w.int(2, page_size.map_or(0, i64::from));
            w.optional(3, page_token.as_deref());
        }
        Call::ExtendedCard => {}
        // There is no method for it.
        Call::List(_) => {}
    }
}

/// The resource name of a task.
fn name(w: &mut ProtoWriter<'_>, task: &str) {
    w.string(1, &format!("tasks/{task}"));
}

/// 0 is no limit at all, so a request for no history asks for one message.
fn history_field(w: &mut ProtoWriter<'_>, field: u32, history: Option<u32>) {
    w.int(field, history.map_or(0, |newest| i64::from(newest.max(1))));
}

fn send_fields(w: &mut ProtoWriter<'_>, send: &Send) {
    let Send { message, task, context, wait, history, accepted_output, metadata, push, .. } = send;
    w.message(1, |w| encode::said(w, message, context.as_ref(), task.as_deref().map(DisplayId::Alias)));
    w.message(2, |w| {
        w.strings(1, accepted_output);
        if let Some(push) = push {
            w.message(2, |w| encode::bare_config(w, push));
        }
        history_field(w, 3, *history);
        w.bool(4, *wait != Wait::Exists);
    });
    w.optional_object(3, metadata.as_ref());
}
