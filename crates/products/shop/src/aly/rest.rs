//! The HTTP+JSON binding: the operations of verbs and paths below `/api/a2a`, with all aliases that Aly documents.

use model::{Call, Fault, Limits, PushCall};
use serde_json::value::RawValue;

use super::decode::{self, ListParams, PushParams};
use super::own_id;
use dialects::a2a_v1::rest::RestOperation as Operation;
use dialects::framing::query;
use dialects::kit::route::{self, Parameters, VerbOperation, either, id_of, only};
use dialects::kit::shape::{self, Text, shape};
use dialects::wire::{self, Decoded};

shape! {
    /// The body of the direct streaming endpoint: JSON-RPC's params without the rest of JSON-RPC.
    pub(crate) struct Envelope ("an object") {
        params: Option<&'a RawValue> = "params",
    }
}

/// A request with a known route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlyRoute {
    pub operation: Operation,
    /// Whether the params are in an [`Envelope`].
    enveloped: bool,
    reads_body: bool,
    query: Option<String>,
}

/// The routes, for the message about an unknown path.
const ROUTES: &[&str] = &[
    "/streaming",
    "/message:send",
    "/message:stream",
    "/tasks",
    "/tasks/{id}",
    "/tasks/{id}/cancel",
    "/tasks/{id}/subscribe",
    "/tasks/{id}/push-configs",
];

/// Finds the route of a path below the interface's base.
pub fn route(verb: &str, path: &str, query: Option<&str>) -> Result<AlyRoute, Fault> {
    let unknown = || route::unknown(path, ROUTES);
    let inside = path.strip_prefix('/').ok_or_else(unknown)?;
    let segments: Vec<&str> = inside.strip_suffix('/').unwrap_or(inside).split('/').collect();
    let enveloped = segments == ["streaming"];
    let places = if enveloped { Some(only("POST", Operation::Stream)) } else { places(&segments)? };
    let operation = route::choose(places.ok_or_else(unknown)?, verb)?;
    Ok(AlyRoute { operation, enveloped, reads_body: verb == "POST", query: query.map(str::to_owned) })
}

fn places(segments: &[&str]) -> Result<Option<Vec<VerbOperation<Operation>>>, Fault> {
    let one = |verb, operation| Ok(Some(only(verb, operation)));
    let both = |operation: Operation| Ok(Some(either(("GET", operation.clone()), ("POST", operation))));
    match segments {
        [single] => match query::decode_segment(single)?.as_ref() {
            "message:send" => one("POST", Operation::Send),
            "message:stream" => one("POST", Operation::Stream),
            "tasks" => one("GET", Operation::List),
            _ => Ok(None),
        },
        ["tasks", ""] => Ok(None),
        ["tasks", task] => match task.rsplit_once(':') {
            Some((id, "cancel")) if !id.is_empty() => one("POST", Operation::Cancel { id: task_of(id)? }),
            Some((id, "subscribe")) if !id.is_empty() => both(Operation::Subscribe { id: task_of(id)? }),
            Some(_) | None => one("GET", Operation::Get { id: task_of(task)? }),
        },
        ["tasks", task, "cancel"] if !task.is_empty() => one("POST", Operation::Cancel { id: task_of(task)? }),
        ["tasks", task, "subscribe"] if !task.is_empty() => both(Operation::Subscribe { id: task_of(task)? }),
        ["tasks", task, "push-configs" | "pushNotificationConfigs", rest @ ..] if !task.is_empty() => {
            let task = task_of(task)?;
            // The id may be the config's URL, and some clients do not escape its slashes.
            match id_of(&rest.join("/"))? {
                id if id.is_empty() => {
                    let list = Operation::PushList { task: task.clone() };
                    Ok(Some(either(("GET", list), ("POST", Operation::PushCreate { task }))))
                }
                id => {
                    let get = Operation::PushGet { task: task.clone(), id: id.clone() };
                    Ok(Some(either(("GET", get), ("DELETE", Operation::PushDelete { task, id }))))
                }
            }
        }
        _ => Ok(None),
    }
}

fn task_of(segment: &str) -> Result<String, Fault> {
    id_of(segment).map(|id| own_id(&id))
}

impl AlyRoute {
    /// Decodes the call. `body` is ignored where the operation has none.
    pub fn decode(self, body: &str, limits: &Limits) -> Result<Decoded, Fault> {
        let AlyRoute { operation, enveloped, reads_body: _, query } = self;
        let call = match operation {
            Operation::Send => Call::Send(Box::new(decode::sent(body, "body", limits)?)),
            Operation::Stream if enveloped => {
                let Envelope { params } = shape::read(body, "body")?;
                let Some(params) = params else {
                    return Err(Fault::params("params", "params is missing: send {\"params\":{\"message\":{…}}}"));
                };
                Call::Stream(Box::new(decode::sent(params.get(), "params", limits)?))
            }
            Operation::Stream => Call::Stream(Box::new(decode::sent(body, "body", limits)?)),
            Operation::List => {
                let parameters = Parameters::read(query.as_deref(), PARAMETERS)?;
                let params = ListParams {
                    context_id: parameters.text("contextId"),
                    context_id_snake: parameters.text("context_id"),
                    page_size: parameters.int("pageSize")?,
                    page_size_snake: parameters.int("page_size")?,
                    limit: parameters.int("limit")?,
                    page_token: parameters.text("pageToken"),
                    page_token_snake: parameters.text("page_token"),
                    cursor: parameters.text("cursor"),
                };
                decode::list(params, limits)?
            }
            Operation::Get { id } => Call::Get(model::Get { task: id, history: None }),
            // The body is ignored: the path names the task.
            Operation::Cancel { id } => Call::Cancel(model::Cancel { task: id, metadata: None }),
            Operation::Subscribe { id } => Call::Subscribe(model::Subscribe { task: id }),
            Operation::PushCreate { task } => {
                let mut params: PushParams<'_> = shape::read(body, "body")?;
                (params.task_id, params.task_id_snake) = (Some(Text(task.into())), None);
                decode::push_create(params, limits)?
            }
            Operation::PushGet { task, id } => Call::Push(PushCall::Get { task, id }),
            Operation::PushList { task } => Call::Push(PushCall::List { task, page_size: None, page_token: None }),
            Operation::PushDelete { task, id } => Call::Push(PushCall::Delete { task, id }),
            Operation::ExtendedCard => Call::ExtendedCard,
        };
        Ok(Decoded::plain(call))
    }
}

impl wire::Routed for AlyRoute {
    fn reads_body(&self) -> bool {
        self.reads_body
    }
    fn is_stream(&self) -> bool {
        matches!(self.operation, Operation::Stream | Operation::Subscribe { .. })
    }
    fn operation(&self) -> wire::Operation {
        (&self.operation).into()
    }
    fn decode(self: Box<Self>, body: &str, limits: &Limits) -> Result<Decoded, Fault> {
        AlyRoute::decode(*self, body, limits)
    }
}

/// Every spelling is a parameter of its own; `decode::list` selects one, as for the params of JSON-RPC.
const PARAMETERS: &[(&str, &str)] = &[
    ("contextId", "contextId"),
    ("context_id", "context_id"),
    ("pageSize", "pageSize"),
    ("page_size", "page_size"),
    ("limit", "limit"),
    ("pageToken", "pageToken"),
    ("page_token", "page_token"),
    ("cursor", "cursor"),
];
