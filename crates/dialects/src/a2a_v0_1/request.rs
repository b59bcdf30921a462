//! The client's direction: how a 0.1 server is asked. There is one binding, the sender chooses the task's id, and much of
//! what later generations can ask for does not exist.

use model::{Call, Cancel, Fault, Get, Kind, PushCall, Subscribe};

use super::read;
use crate::card::Binding;
use crate::compat::{PreV1Form, push, request};
use crate::framing::json::Writer;
use crate::peer::{self, Generation, Peer, PeerFacts, PeerRequest, RequestOptions};
use crate::seen::{Seen, TaskSeen};

#[derive(Debug)]
pub(crate) struct V0_1(PeerFacts);

pub(crate) static RPC: V0_1 = V0_1(PeerFacts {
    name: "0.1 over JSON-RPC",
    generation: Generation::V0_1,
    version: None,
    extension_headers: &["X-A2A-Extensions"],
    replies: false,
    chooses_ids: true,
});

impl Peer for V0_1 {
    fn facts(&self) -> &'static PeerFacts {
        &RPC.0
    }
    fn binding(&self) -> Binding {
        Binding::JsonRpc
    }

    fn ask(&self, call: &Call, asking: &RequestOptions<'_>) -> Result<PeerRequest, Fault> {
        let rpc = |method: &str, params: &dyn Fn(&mut Writer)| {
            peer::rpc(&self.0, call.into(), method, asking, |w| {
                w.begin_object();
                params(w);
                w.end_object();
            })
        };
        match call {
            Call::Send(send) | Call::Stream(send) => {
                let chosen = send.alias.as_deref().or(send.task.as_deref());
                let id =
                    chosen.ok_or_else(|| Fault::params("id", "A2A 0.1 wants the sender to choose the task's id"))?;
                let method = if matches!(call, Call::Stream(_)) { "tasks/sendSubscribe" } else { "tasks/send" };
                rpc(method, &|w| request::task_send_members(w, id, send))
            }
            Call::Get(Get { task, history }) => rpc("tasks/get", &|w| {
                w.key("id").string(task);
                request::whole_history_member(w, *history);
            }),
            Call::Cancel(Cancel { task, metadata }) => rpc("tasks/cancel", &|w| {
                w.key("id").string(task);
                request::metadata_member(w, metadata.as_ref());
            }),
            Call::Subscribe(Subscribe { task }) => rpc("tasks/resubscribe", &|w| w.key("id").string(task)),
            Call::Push(PushCall::Create(config)) => {
                peer::rpc(&self.0, call.into(), "tasks/pushNotification/set", asking, |w| {
                    push::config(w, PreV1Form::Type, config);
                })
            }
            Call::Push(PushCall::Get { task, .. }) => rpc("tasks/pushNotification/get", &|w| w.key("id").string(task)),
            // A task has one config, which is cleared by setting none.
            Call::Push(PushCall::Delete { task, .. }) => {
                peer::rpc(&self.0, call.into(), "tasks/pushNotification/set", asking, |w| {
                    push::deleted(w, PreV1Form::Type, task);
                })
            }
            Call::Push(PushCall::List { .. }) => Err(self.0.without("lists of push configs")),
            Call::ExtendedCard => Err(self.0.without("extended cards")),
            Call::List(_) => Err(self.0.without("lists of tasks")),
        }
    }

    fn kind_of(&self, code: i64) -> Option<Kind> {
        read::kind_of(code)
    }
    fn sent(&self, result: &str) -> Result<Seen, Fault> {
        read::task(result).map(Seen::Task)
    }
    fn event(&self, value: &str) -> Result<Seen, Fault> {
        read::stream_event(value)
    }
    fn task(&self, result: &str) -> Result<TaskSeen, Fault> {
        read::task(result)
    }
}
