//! The client's direction: how a 1.0 server is asked, over either binding. Both carry the same objects; JSON-RPC has them
//! as params, HTTP+JSON spreads some over path and query.

use model::{Call, ContextId, Fault, Get, Kind, List, PushCall, PushConfig, Send, Wait};

use super::encode;
use super::shapes::state_name;
use super::{errors, read};
use crate::card::Binding;
use crate::framing::json::Writer;
use crate::peer::{self, Generation, Peer, PeerFacts, PeerRequest, RequestOptions, bytes_of, escaped, query};
use crate::seen::{PageSeen, Seen, TaskSeen};
use crate::wire::DisplayId;

/// One of the two bindings.
#[derive(Debug)]
pub(crate) struct V1 {
    facts: PeerFacts,
    binding: Binding,
}

const fn form(name: &'static str, binding: Binding) -> V1 {
    V1 {
        facts: PeerFacts {
            name,
            generation: Generation::V1_0,
            version: Some(super::VERSION),
            extension_headers: &["A2A-Extensions"],
            replies: true,
            chooses_ids: false,
        },
        binding,
    }
}

pub(crate) static RPC: V1 = form("1.0 over JSON-RPC", Binding::JsonRpc);
pub(crate) static REST: V1 = form("1.0 over HTTP+JSON", Binding::HttpJson);

impl Peer for V1 {
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
        Kind::ALL.into_iter().find(|kind| i64::from(errors::rpc_code(*kind)) == code)
    }
    fn sent(&self, result: &str) -> Result<Seen, Fault> {
        read::stream_event(result)
    }
    fn event(&self, value: &str) -> Result<Seen, Fault> {
        read::stream_event(value)
    }
    fn task(&self, result: &str) -> Result<TaskSeen, Fault> {
        read::task(result)
    }
    fn page(&self, result: &str) -> Result<PageSeen, Fault> {
        read::page(result)
    }
}

impl V1 {
    fn rpc(&self, call: &Call, asking: &RequestOptions<'_>) -> Result<PeerRequest, Fault> {
        let rpc = |method: &str, params: &dyn Fn(&mut Writer)| {
            peer::rpc(&self.facts, call.into(), method, asking, |w| {
                w.begin_object();
                w.optional("tenant", asking.tenant);
                params(w);
                w.end_object();
            })
        };
        match call {
            Call::Send(send) => rpc("SendMessage", &|w| send_members(w, send)),
            Call::Stream(send) => rpc("SendStreamingMessage", &|w| send_members(w, send)),
            Call::Get(Get { task, history }) => rpc("GetTask", &|w| {
                w.key("id").string(task);
                if let Some(newest) = history {
                    w.key("historyLength").u64(u64::from(*newest));
                }
            }),
            Call::List(list) => rpc("ListTasks", &|w| list_members(w, list)),
            Call::Cancel(cancel) => rpc("CancelTask", &|w| {
                w.key("id").string(&cancel.task);
                encode::metadata(w, cancel.metadata.as_ref());
            }),
            Call::Subscribe(subscribe) => rpc("SubscribeToTask", &|w| w.key("id").string(&subscribe.task)),
            // The config is the request, tenant and all.
            Call::Push(PushCall::Create(config)) => {
                peer::rpc(&self.facts, call.into(), "CreateTaskPushNotificationConfig", asking, |w| {
                    encode::push_config(w, config, asking.tenant);
                })
            }
            Call::Push(PushCall::Get { task, id }) => rpc("GetTaskPushNotificationConfig", &|w| {
                w.key("taskId").string(task);
                w.key("id").string(id);
            }),
            Call::Push(PushCall::List { task, page_size, page_token }) => {
                rpc("ListTaskPushNotificationConfigs", &|w| {
                    w.key("taskId").string(task);
                    if let Some(size) = page_size {
                        w.key("pageSize").u64(u64::from(*size));
                    }
                    w.optional("pageToken", page_token.as_deref());
                })
            }
            Call::Push(PushCall::Delete { task, id }) => rpc("DeleteTaskPushNotificationConfig", &|w| {
                w.key("taskId").string(task);
                w.key("id").string(id);
            }),
            Call::ExtendedCard => rpc("GetExtendedAgentCard", &|_| {}),
        }
    }

    fn rest(&self, call: &Call, asking: &RequestOptions<'_>) -> Result<PeerRequest, Fault> {
        let tenant = asking.tenant.map(|tenant| format!("/{}", escaped(tenant))).unwrap_or_default();
        let ask = |verb, path: String| peer::rest(&self.facts, call.into(), verb, format!("{tenant}{path}"), asking);
        let configs = |task: &str| format!("/tasks/{}/pushNotificationConfigs", escaped(task));
        let number = |n: &Option<u32>| n.map(|n| n.to_string());
        Ok(match call {
            Call::Send(send) => {
                PeerRequest { body: Some(object(|w| send_members(w, send))?), ..ask("POST", "/message:send".into()) }
            }
            Call::Stream(send) => {
                PeerRequest { body: Some(object(|w| send_members(w, send))?), ..ask("POST", "/message:stream".into()) }
            }
            Call::Get(Get { task, history }) => {
                let query = query(&[("historyLength", number(history))]);
                PeerRequest { query, ..ask("GET", format!("/tasks/{}", escaped(task))) }
            }
            Call::List(list) => PeerRequest {
                query: query(&[
                    ("contextId", list.context.as_ref().map(|id| id.as_str().to_owned())),
                    ("status", list.state.map(|state| state_name(state).to_owned())),
                    ("pageSize", number(&list.page_size)),
                    ("pageToken", list.page_token.clone()),
                    ("historyLength", number(&list.history)),
                    ("statusTimestampAfter", list.since.map(|time| time.to_string())),
                    ("includeArtifacts", list.artifacts.then(|| "true".to_owned())),
                ]),
                ..ask("GET", "/tasks".into())
            },
            Call::Cancel(cancel) => {
                let body = object(|w| encode::metadata(w, cancel.metadata.as_ref()))?;
                PeerRequest { body: Some(body), ..ask("POST", format!("/tasks/{}:cancel", escaped(&cancel.task))) }
            }
            // The text and every SDK say POST, the proto GET.
            Call::Subscribe(subscribe) => {
                let path = format!("/tasks/{}:subscribe", escaped(&subscribe.task));
                PeerRequest { or_verb: Some("GET"), body: Some(object(|_| {})?), ..ask("POST", path) }
            }
            Call::Push(PushCall::Create(config)) => {
                let task = config.task.as_deref().unwrap_or_default();
                let mut w = Writer::new();
                encode::push_config(&mut w, config, None);
                PeerRequest { body: Some(bytes_of(w)?), ..ask("POST", configs(task)) }
            }
            Call::Push(PushCall::Get { task, id }) => ask("GET", format!("{}/{}", configs(task), escaped(id))),
            Call::Push(PushCall::List { task, page_size, page_token }) => {
                let query = query(&[("pageSize", number(page_size)), ("pageToken", page_token.clone())]);
                PeerRequest { query, ..ask("GET", configs(task)) }
            }
            Call::Push(PushCall::Delete { task, id }) => ask("DELETE", format!("{}/{}", configs(task), escaped(id))),
            Call::ExtendedCard => ask("GET", "/extendedAgentCard".into()),
        })
    }
}

fn object(members: impl FnOnce(&mut Writer)) -> Result<bytes::Bytes, Fault> {
    let mut w = Writer::with_capacity(1_024);
    w.begin_object();
    members(&mut w);
    w.end_object();
    bytes_of(w)
}

fn send_members(w: &mut Writer, send: &Send) {
    let Send { message, task, context, wait, history, accepted_output, metadata, push, .. } = send;
    let context: Option<&ContextId> = context.as_ref();
    encode::said(w.key("message"), message, context, task.as_deref().map(DisplayId::Alias));
    w.key("configuration").begin_object();
    w.strings("acceptedOutputModes", accepted_output);
    if let Some(push) = push {
        // It is for the task of this call, which may have no id yet.
        encode::push_config(w.key("taskPushNotificationConfig"), &PushConfig { task: None, ..push.clone() }, None);
    }
    if let Some(newest) = history {
        w.key("historyLength").u64(u64::from(*newest));
    }
    match wait {
        Wait::Exists => w.key("returnImmediately").bool(true),
        Wait::Rest { .. } => {}
    }
    w.end_object();
    encode::metadata(w, metadata.as_ref());
}

fn list_members(w: &mut Writer, list: &List) {
    let List { context, state, since, page_size, page_token, history, artifacts } = list;
    w.optional("contextId", context.as_ref().map(ContextId::as_str));
    if let Some(state) = state {
        w.key("status").plain(state_name(*state));
    }
    if let Some(size) = page_size {
        w.key("pageSize").u64(u64::from(*size));
    }
    w.optional("pageToken", page_token.as_deref());
    if let Some(newest) = history {
        w.key("historyLength").u64(u64::from(*newest));
    }
    if let Some(since) = since {
        w.key("statusTimestampAfter").time(*since);
    }
    if *artifacts {
        w.key("includeArtifacts").bool(true);
    }
}
