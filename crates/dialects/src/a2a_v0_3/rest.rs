//! The HTTP+JSON binding of 0.2 and 0.3: everything below `/v1`, in the proto's shapes.
//!
//! The routes are those of 0.3, and beside them what 0.2 called them: `pushNotifications` for `pushNotificationConfigs`,
//! a `task` without its s, and the extended card at a path of its own.

use model::{Call, Cancel, Fault, Get, Limits, PushCall, Subscribe};

use crate::compat::decode::PreV1Decoder;
use crate::compat::{PreV1Form, shapes};
use crate::framing::fields::{optional_id, push_page_size, required_id, under};
use crate::framing::query;
use crate::framing::route::{self, Parameters, VerbOperation, either, id_of, only};
use crate::framing::shape::{self, Text};
use crate::wire::{Decoded, Operation, Routed};

/// Whether a path is one of these, so that no other dialect's routes are looked at.
pub fn is_ours(path: &str) -> bool {
    path == "/v1" || path.starts_with("/v1/") || path == EXTENDED_CARD_0_2
}

/// Where 0.2 clients look for the extended card.
const EXTENDED_CARD_0_2: &str = "/agent/authenticatedExtendedCard";

/// A request that has a place here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreV1Route {
    pub operation: Operation,
    /// Whether [`PreV1Route::decode`] looks at the body.
    pub reads_body: bool,
    task: String,
    config: String,
    query: Option<String>,
    python: bool,
}

/// The routes, suggested in the fault for a path close to one.
const ROUTES: &[&str] = &[
    "/v1/message:send",
    "/v1/message:stream",
    "/v1/tasks/{id}",
    "/v1/tasks/{id}:cancel",
    "/v1/tasks/{id}:subscribe",
    "/v1/tasks/{id}/pushNotificationConfigs",
    "/v1/card",
];

/// Finds the route of a path below the interface's base, such as `/v1/tasks/7:cancel`.
pub fn route(verb: &str, path: &str, query: Option<&str>) -> Result<PreV1Route, Fault> {
    let unknown = || route::unknown(path, ROUTES);
    let found = if path == EXTENDED_CARD_0_2 {
        Some(only("GET", Found::new(Operation::ExtendedCard)))
    } else {
        match route::segments(path).as_deref() {
            Some(["v1", inside @ ..]) => places(inside)?,
            Some(_) | None => None,
        }
    };
    let Found { operation, task, config } = route::choose(found.ok_or_else(unknown)?, verb)?;
    let reads_body = verb == "POST";
    Ok(PreV1Route { operation, reads_body, task, config, query: query.map(str::to_owned), python: false })
}

/// An operation with the ids its path names.
struct Found {
    operation: Operation,
    task: String,
    config: String,
}

impl Found {
    fn new(operation: Operation) -> Found {
        Found { operation, task: String::new(), config: String::new() }
    }
    fn of(operation: Operation, task: &str) -> Found {
        Found { task: task.to_owned(), ..Found::new(operation) }
    }
}

/// The operations at a path below `/v1`; `None` for an unknown path.
fn places(segments: &[&str]) -> Result<Option<Vec<VerbOperation<Found>>>, Fault> {
    let found = match segments {
        [single] => match query::decode_segment(single)?.as_ref() {
            "message:send" => only("POST", Found::new(Operation::Send)),
            "message:stream" => only("POST", Found::new(Operation::Stream)),
            "card" => only("GET", Found::new(Operation::ExtendedCard)),
            _ => return Ok(None),
        },
        ["tasks" | "task", task] if !task.is_empty() => match task.rsplit_once(':') {
            Some((id, "cancel")) if !id.is_empty() => only("POST", Found::of(Operation::Cancel, &id_of(id)?)),
            Some((id, "subscribe")) if !id.is_empty() => {
                // The proto says GET, the text POST.
                let id = id_of(id)?;
                let found = || Found::of(Operation::Subscribe, &id);
                either(("GET", found()), ("POST", found()))
            }
            Some(("", _)) => return Ok(None),
            // Any other colon is part of the id.
            Some(_) | None => only("GET", Found::of(Operation::Get, &id_of(task)?)),
        },
        ["tasks" | "task", task, "pushNotificationConfigs" | "pushNotifications"] if !task.is_empty() => {
            let task = id_of(task)?;
            let list = Found::of(Operation::PushList, &task);
            either(("GET", list), ("POST", Found::of(Operation::PushCreate, &task)))
        }
        ["tasks" | "task", task, "pushNotificationConfigs" | "pushNotifications", config]
            if !task.is_empty() && !config.is_empty() =>
        {
            let (task, config) = (id_of(task)?, id_of(config)?);
            let of = |operation| Found { config: config.clone(), ..Found::of(operation, &task) };
            either(("GET", of(Operation::PushGet)), ("DELETE", of(Operation::PushDelete)))
        }
        _ => return Ok(None),
    };
    Ok(Some(found))
}

/// The query parameters of all routes, each with its proto spelling.
const PARAMETERS: &[(&str, &str)] =
    &[("historyLength", "history_length"), ("pageSize", "page_size"), ("pageToken", "page_token")];

impl PreV1Route {
    /// Takes note of the sender. The Python SDKs put base64 into base64 in this form; from a stranger only files whose type
    /// cannot be text are decoded twice.
    pub fn sent_by(&mut self, user_agent: &str) {
        self.python = user_agent.starts_with("python-httpx/");
    }

    pub fn is_stream(&self) -> bool {
        self.operation.is_stream()
    }

    /// Makes the call. `body` is ignored where [`PreV1Route::reads_body`] is false; what the path names wins over what the body
    /// repeats as a resource name.
    pub fn decode(self, body: &str, limits: &Limits) -> Result<Decoded, Fault> {
        let PreV1Route { operation, task, config, query, python, .. } = self;
        let decoder = PreV1Decoder { python, ..PreV1Decoder::new(PreV1Form::Proto, limits) };
        let id = |text: String, field| required_id(Some(Text(text.into())), field, limits);
        let call = match operation {
            Operation::Send => Call::Send(Box::new(decoder.send(shape::read(body, "body")?)?)),
            Operation::Stream => Call::Stream(Box::new(decoder.send(shape::read(body, "body")?)?)),
            Operation::Get => {
                let parameters = Parameters::read(query.as_deref(), PARAMETERS)?;
                let history = decoder.history(parameters.int("historyLength")?)?;
                Call::Get(Get { task: id(task, "id")?, history })
            }
            Operation::Cancel => {
                let request = named_request(body)?;
                let metadata = request.metadata.map(shape::Object::to_json);
                Call::Cancel(Cancel { task: id(task, "id")?, metadata })
            }
            Operation::Subscribe => {
                named_request(body)?;
                Call::Subscribe(Subscribe { task: id(task, "id")? })
            }
            Operation::PushCreate => {
                let mut config = push_body(&decoder, shape::read(body, "body")?)?;
                config.task = Some(id(task, "id")?);
                Call::Push(PushCall::Create(config))
            }
            Operation::PushGet => Call::Push(PushCall::Get { task: id(task, "id")?, id: id(config, "configId")? }),
            Operation::PushDelete => {
                Call::Push(PushCall::Delete { task: id(task, "id")?, id: id(config, "configId")? })
            }
            Operation::PushList => {
                let parameters = Parameters::read(query.as_deref(), PARAMETERS)?;
                let page_size = push_page_size(parameters.int("pageSize")?, limits)?;
                let page_token = parameters.text("pageToken").map(Text::into_string).filter(|token| !token.is_empty());
                Call::Push(PushCall::List { task: id(task, "id")?, page_size, page_token })
            }
            Operation::ExtendedCard => Call::ExtendedCard,
            // No path leads to these.
            Operation::List | Operation::Unknown => return Err(route::unknown("", ROUTES)),
        };
        Ok(Decoded::plain(call))
    }
}

impl Routed for PreV1Route {
    fn reads_body(&self) -> bool {
        self.reads_body
    }
    fn is_stream(&self) -> bool {
        PreV1Route::is_stream(self)
    }
    fn operation(&self) -> Operation {
        self.operation
    }
    fn sent_by(&mut self, user_agent: &str) {
        PreV1Route::sent_by(self, user_agent);
    }
    fn decode(self: Box<Self>, body: &str, limits: &Limits) -> Result<Decoded, Fault> {
        PreV1Route::decode(*self, body, limits)
    }
}

/// The body of a cancel or a subscribe, which says nothing the path does not: an empty one and `null` are as good as
/// `{"name": "tasks/…"}`.
fn named_request(body: &str) -> Result<shapes::TaskRequest<'_>, Fault> {
    match body.trim_ascii() {
        "" | "null" => Ok(shapes::TaskRequest::default()),
        body => shape::read(body, "body"),
    }
}

/// A config in whichever of its wrappings.
fn push_body(decoder: &PreV1Decoder<'_>, body: shapes::PushBody<'_>) -> Result<model::PushConfig, Fault> {
    let bare = |id, url, token, authentication| shapes::PushConfig { id, url, token, authentication };
    let (place, shape) = match (body.config, body.push) {
        (Some(config), _) => match config.push {
            Some(push) => ("config.pushNotificationConfig", push),
            None => ("config", bare(config.id, config.url, config.token, config.authentication)),
        },
        (None, Some(push)) => ("pushNotificationConfig", push),
        (None, None) => ("", bare(body.id, body.url, body.token, body.authentication)),
    };
    let mut config = decoder.push_config(shape).map_err(|fault| match place {
        "" => fault,
        place => under(place, fault),
    })?;
    if config.id.is_none() {
        config.id = optional_id(body.config_id, "configId", decoder.limits)?;
    }
    Ok(config)
}

#[cfg(test)]
#[path = "rest_tests.rs"]
mod tests;
