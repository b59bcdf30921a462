//! The client's direction: how a 0.2 or 0.3 server is asked, over either binding.

use model::{Call, Cancel, Fault, Get, Kind, PushCall, PushConfig, Subscribe};

use super::{errors, read};
use crate::card::Binding;
use crate::compat::{PreV1Form, push, request};
use crate::framing::json::Writer;
use crate::peer::{self, Generation, Peer, PeerFacts, PeerRequest, RequestOptions, bytes_of, escaped, query};
use crate::seen::{Seen, TaskSeen};
use crate::wire::Operation;

/// One of the two bindings.
#[derive(Debug)]
pub(crate) struct V0_3 {
    facts: PeerFacts,
    binding: Binding,
}

const fn form(name: &'static str, binding: Binding) -> V0_3 {
    V0_3 {
        facts: PeerFacts {
            name,
            generation: Generation::V0_3,
            version: Some(super::VERSION),
            // Servers of this generation read the first, those of 1.0 that answer it too read the second.
            extension_headers: &["X-A2A-Extensions", "A2A-Extensions"],
            replies: true,
            chooses_ids: false,
        },
        binding,
    }
}

pub(crate) static RPC: V0_3 = form("0.3 over JSON-RPC", Binding::JsonRpc);
pub(crate) static REST: V0_3 = form("0.3 over HTTP+JSON", Binding::HttpJson);

impl Peer for V0_3 {
    fn facts(&self) -> &'static PeerFacts {
        match self.binding {
            Binding::JsonRpc => &RPC.facts,
            Binding::HttpJson => &REST.facts,
        }
    }
    fn binding(&self) -> Binding {
        self.binding
    }
    fn ask(&self, call: &Call, asking: &RequestOptions<'_>) -> Result<PeerRequest, Fault> {
        match self.binding {
            Binding::JsonRpc => self.rpc(call, asking),
            Binding::HttpJson => self.rest(call, asking),
        }
    }
    fn kind_of(&self, code: i64) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| i64::from(errors::line(*kind, Operation::Unknown).rpc) == code)
    }
    fn sent(&self, result: &str) -> Result<Seen, Fault> {
        self.event(result)
    }
    fn event(&self, value: &str) -> Result<Seen, Fault> {
        match self.binding {
            Binding::JsonRpc => read::stream_event(value),
            Binding::HttpJson => read::rest_stream_event(value),
        }
    }
    fn task(&self, result: &str) -> Result<TaskSeen, Fault> {
        match self.binding {
            Binding::JsonRpc => read::task(result),
            Binding::HttpJson => read::rest_task(result),
        }
    }
}

impl V0_3 {
    fn rpc(&self, call: &Call, asking: &RequestOptions<'_>) -> Result<PeerRequest, Fault> {
        let rpc = |method: &str, params: &dyn Fn(&mut Writer)| {
            peer::rpc(&self.facts, call.into(), method, asking, |w| {
                w.begin_object();
                params(w);
                w.end_object();
            })
        };
        match call {
            Call::Send(send) => rpc("message/send", &|w| request::send_members(w, PreV1Form::Kind, send)),
            Call::Stream(send) => rpc("message/stream", &|w| request::send_members(w, PreV1Form::Kind, send)),
            Call::Get(Get { task, history }) => rpc("tasks/get", &|w| {
                w.key("id").string(task);
                request::history_member(w, *history);
            }),
            Call::Cancel(Cancel { task, metadata }) => rpc("tasks/cancel", &|w| {
                w.key("id").string(task);
                request::metadata_member(w, metadata.as_ref());
            }),
            Call::Subscribe(Subscribe { task }) => rpc("tasks/resubscribe", &|w| w.key("id").string(task)),
            Call::Push(PushCall::Create(config)) => {
                peer::rpc(&self.facts, call.into(), "tasks/pushNotificationConfig/set", asking, |w| {
                    push::config(w, PreV1Form::Kind, config);
                })
            }
            Call::Push(PushCall::Get { task, id }) => rpc("tasks/pushNotificationConfig/get", &|w| {
                w.key("id").string(task);
                w.optional("pushNotificationConfigId", Some(id));
            }),
            Call::Push(PushCall::List { task, .. }) => {
                rpc("tasks/pushNotificationConfig/list", &|w| w.key("id").string(task))
            }
            Call::Push(PushCall::Delete { task, id }) => rpc("tasks/pushNotificationConfig/delete", &|w| {
                w.key("id").string(task);
                w.key("pushNotificationConfigId").string(id);
            }),
            Call::ExtendedCard => rpc("agent/getAuthenticatedExtendedCard", &|_| {}),
            Call::List(_) => Err(self.facts.without("lists of tasks")),
        }
    }

    fn rest(&self, call: &Call, asking: &RequestOptions<'_>) -> Result<PeerRequest, Fault> {
        let ask = |verb, path: String| peer::rest(&self.facts, call.into(), verb, format!("/v1{path}"), asking);
        let configs = |task: &str| format!("/tasks/{}/pushNotificationConfigs", escaped(task));
        let number = |n: &Option<u32>| n.map(|n| n.to_string());
        Ok(match call {
            Call::Send(send) => {
                let body = object(|w| request::send_members(w, PreV1Form::Proto, send))?;
                PeerRequest { body: Some(body), ..ask("POST", "/message:send".into()) }
            }
            Call::Stream(send) => {
                let body = object(|w| request::send_members(w, PreV1Form::Proto, send))?;
                PeerRequest { body: Some(body), ..ask("POST", "/message:stream".into()) }
            }
            Call::Get(Get { task, history }) => {
                let query = query(&[("historyLength", history.map(|newest| newest.max(1).to_string()))]);
                PeerRequest { query, ..ask("GET", format!("/tasks/{}", escaped(task))) }
            }
            Call::Cancel(Cancel { task, metadata }) => {
                let body = object(|w| {
                    w.key("name").display(format_args!("tasks/{task}"));
                    // Not a member of the proto: written only if there is metadata.
                    request::metadata_member(w, metadata.as_ref());
                })?;
                PeerRequest { body: Some(body), ..ask("POST", format!("/tasks/{}:cancel", escaped(task))) }
            }
            // The proto says GET, and a popular server takes nothing else.
            Call::Subscribe(Subscribe { task }) => {
                PeerRequest { or_verb: Some("POST"), ..ask("GET", format!("/tasks/{}:subscribe", escaped(task))) }
            }
            Call::Push(PushCall::Create(config)) => {
                let task = config.task.as_deref().unwrap_or_default();
                PeerRequest { body: Some(create_body(task, config)?), ..ask("POST", configs(task)) }
            }
            Call::Push(PushCall::Get { task, id }) => ask("GET", format!("{}/{}", configs(task), escaped(id))),
            Call::Push(PushCall::List { task, page_size, page_token }) => {
                let query = query(&[("pageSize", number(page_size)), ("pageToken", page_token.clone())]);
                PeerRequest { query, ..ask("GET", configs(task)) }
            }
            Call::Push(PushCall::Delete { task, id }) => ask("DELETE", format!("{}/{}", configs(task), escaped(id))),
            Call::ExtendedCard => ask("GET", "/card".into()),
            Call::List(_) => return Err(self.facts.without("lists of tasks")),
        })
    }
}

/// The whole request message, which is what the servers in use read; the proto says only its config.
fn create_body(task: &str, config: &PushConfig) -> Result<bytes::Bytes, Fault> {
    object(|w| {
        w.key("parent").display(format_args!("tasks/{task}"));
        w.optional("configId", config.id.as_deref());
        push::config(w.key("config"), PreV1Form::Proto, config);
    })
}

fn object(members: impl FnOnce(&mut Writer)) -> Result<bytes::Bytes, Fault> {
    let mut w = Writer::with_capacity(1_024);
    w.begin_object();
    members(&mut w);
    w.end_object();
    bytes_of(w)
}
