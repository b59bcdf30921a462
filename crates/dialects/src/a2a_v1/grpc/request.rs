//! The client's direction: how a 1.0 server is asked over gRPC, and how its answers are numbered.

use model::{Call, Cancel, ContextId, Get, List, PushCall, PushConfig, Send, Subscribe, Wait};

use super::super::{VERSION, shapes};
use super::{METHODS, SERVICE, decode, encode};
use crate::framing::shape::EnumName;
use crate::peer::{Generation, PeerFacts, RequestOptions};
use crate::proto_answer::ProtoAnswers;
use crate::proto_json::{CARD_V1, PUSH_V1};
use crate::proto_peer::ProtoPeer;
use crate::protobuf::ProtoWriter;
use crate::wire::DisplayId;

pub(crate) static PEER: ProtoPeer = ProtoPeer {
    facts: PeerFacts {
        name: "1.0 over gRPC",
        generation: Generation::V1_0,
        version: Some(VERSION),
        extension_headers: &["A2A-Extensions"],
        replies: true,
        chooses_ids: false,
    },
    service: SERVICE,
    methods: METHODS,
    write,
    answers: ProtoAnswers {
        state: |number| shapes::state(&EnumName::Number(number)).flatten(),
        part: decode::part,
        marks: false,
        references: Some(8),
        is_final: None,
        status_metadata: 4,
        artifact_name: 2,
    },
    card: CARD_V1,
    push_config: PUSH_V1,
};

fn write(w: &mut ProtoWriter<'_>, call: &Call, asking: &RequestOptions<'_>) {
    // Most requests begin with the tenant; one ends with it, and a config is a request of its own.
    match call {
        Call::Push(PushCall::Create(config)) => encode::push_config(w, config, asking.tenant),
        Call::Push(PushCall::List { task, page_size, page_token }) => {
            w.string(1, task);
            w.int(2, page_size.map_or(0, i64::from));
            w.optional(3, page_token.as_deref());
            w.optional(4, asking.tenant);
        }
        Call::Send(send) | Call::Stream(send) => {
            w.optional(1, asking.tenant);
            send_fields(w, send);
        }
        Call::Get(Get { task, history }) => {
            w.optional(1, asking.tenant);
            w.string(2, task);
            if let Some(newest) = history {
                w.present_int(3, i64::from(*newest));
            }
        }
        Call::List(list) => {
            w.optional(1, asking.tenant);
            list_fields(w, list);
        }
        Call::Cancel(Cancel { task, metadata }) => {
            w.optional(1, asking.tenant);
            w.string(2, task);
            w.optional_object(3, metadata.as_ref());
        }
        Call::Subscribe(Subscribe { task }) => {
            w.optional(1, asking.tenant);
            w.string(2, task);
        }
        Call::Push(PushCall::Get { task, id } | PushCall::Delete { task, id }) => {
            w.optional(1, asking.tenant);
            w.string(2, task);
            w.string(3, id);
        }
        Call::ExtendedCard => w.optional(1, asking.tenant),
    }
}

fn send_fields(w: &mut ProtoWriter<'_>, send: &Send) {
    let Send { message, task, context, wait, history, accepted_output, metadata, push, .. } = send;
    w.message(2, |w| encode::said(w, message, context.as_ref(), task.as_deref().map(DisplayId::Alias)));
    w.message(3, |w| {
        w.strings(1, accepted_output);
        if let Some(push) = push {
            // It is for the task of this call, which may have no id yet.
            w.message(2, |w| encode::push_config(w, &PushConfig { task: None, ..push.clone() }, None));
        }
        if let Some(newest) = history {
            w.present_int(3, i64::from(*newest));
        }
        w.bool(4, *wait == Wait::Exists);
    });
    w.optional_object(4, metadata.as_ref());
}

fn list_fields(w: &mut ProtoWriter<'_>, list: &List) {
    let List { context, state, since, page_size, page_token, history, artifacts } = list;
    w.optional(2, context.as_ref().map(ContextId::as_str));
    w.int(3, state.map_or(0, shapes::state_number));
    if let Some(size) = page_size {
        w.present_int(4, i64::from(*size));
    }
    w.optional(5, page_token.as_deref());
    if let Some(newest) = history {
        w.present_int(6, i64::from(*newest));
    }
    if let Some(since) = since {
        w.time(7, *since);
    }
    w.bool(8, *artifacts);
}
