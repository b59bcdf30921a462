//! The HTTP+JSON binding: a verb, a path and a query into a [`RestRoute`], and with the body into a call.
//!
//! Finding the route needs no body, so that the front can refuse an unknown one, or an unknown caller, before it reads.

use std::borrow::Cow;

use model::{Fault, Limits};

use super::decode::{self, Decoded};
use super::shapes;
use crate::framing::query;
use crate::framing::route::{self, Parameters, VerbOperation, either, id_of, only};
use crate::framing::shape::{self, Text};
use crate::wire;

/// Which operation a path means, with the ids it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestOperation {
    Send,
    Stream,
    Get { id: String },
    List,
    Cancel { id: String },
    Subscribe { id: String },
    PushCreate { task: String },
    PushGet { task: String, id: String },
    PushList { task: String },
    PushDelete { task: String, id: String },
    ExtendedCard,
}

impl From<&RestOperation> for wire::Operation {
    fn from(operation: &RestOperation) -> wire::Operation {
        match operation {
            RestOperation::Send => wire::Operation::Send,
            RestOperation::Stream => wire::Operation::Stream,
            RestOperation::Get { .. } => wire::Operation::Get,
            RestOperation::List => wire::Operation::List,
            RestOperation::Cancel { .. } => wire::Operation::Cancel,
            RestOperation::Subscribe { .. } => wire::Operation::Subscribe,
            RestOperation::PushCreate { .. } => wire::Operation::PushCreate,
            RestOperation::PushGet { .. } => wire::Operation::PushGet,
            RestOperation::PushList { .. } => wire::Operation::PushList,
            RestOperation::PushDelete { .. } => wire::Operation::PushDelete,
            RestOperation::ExtendedCard => wire::Operation::ExtendedCard,
        }
    }
}

/// A request that has a place here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestRoute {
    pub operation: RestOperation,
    /// The tenant that the path names.
    pub tenant: Option<String>,
    /// Whether [`RestRoute::decode`] looks at the body.
    pub reads_body: bool,
    query: Option<String>,
}

/// The routes, suggested in the fault for a path close to one.
const ROUTES: &[&str] = &[
    "/message:send",
    "/message:stream",
    "/tasks",
    "/tasks/{id}",
    "/tasks/{id}:cancel",
    "/tasks/{id}:subscribe",
    "/tasks/{id}/pushNotificationConfigs",
    "/extendedAgentCard",
];

/// Finds the route of a path below the interface's base, such as `/tasks/7:cancel` or `/acme/message:send`.
pub fn route(verb: &str, path: &str, query: Option<&str>) -> Result<RestRoute, Fault> {
    let unknown = || route::unknown(path, ROUTES);
    let segments = route::segments(path).ok_or_else(unknown)?;
    // A path without a tenant comes first: a task may have any id, a tenant called `tasks` has no routes here.
    let (tenant, places) = match (places(&segments)?, segments.split_first()) {
        (Some(places), _) => (None, places),
        (None, Some((tenant, rest))) if !tenant.is_empty() => {
            (Some(query::decode_segment(tenant)?.into_owned()), places_of(rest)?.ok_or_else(unknown)?)
        }
        (None, _) => return Err(unknown()),
    };
    let operation = route::choose(places, verb)?;
    Ok(RestRoute { operation, tenant, reads_body: verb == "POST", query: query.map(str::to_owned) })
}

/// The operations at a path without tenant; `None` for an unknown path.
fn places(segments: &[&str]) -> Result<Option<Vec<VerbOperation<RestOperation>>>, Fault> {
    let one = |verb, operation| Ok(Some(only(verb, operation)));
    match segments {
        [single] => match query::decode_segment(single)?.as_ref() {
            "message:send" => one("POST", RestOperation::Send),
            "message:stream" => one("POST", RestOperation::Stream),
            "tasks" => one("GET", RestOperation::List),
            "extendedAgentCard" => one("GET", RestOperation::ExtendedCard),
            _ => Ok(None),
        },
        ["tasks", task] => match task.rsplit_once(':') {
            Some((id, "cancel")) if !id.is_empty() => one("POST", RestOperation::Cancel { id: id_of(id)? }),
            Some((id, "subscribe")) if !id.is_empty() => {
                // The proto says GET, the text and every SDK POST.
                let operation = RestOperation::Subscribe { id: id_of(id)? };
                Ok(Some(either(("GET", operation.clone()), ("POST", operation))))
            }
            Some(("", _)) => Ok(None),
            // Any other colon is part of the id.
            Some(_) | None if !task.is_empty() => one("GET", RestOperation::Get { id: id_of(task)? }),
            Some(_) | None => Ok(None),
        },
        ["tasks", task, "pushNotificationConfigs"] if !task.is_empty() => {
            let task = id_of(task)?;
            let list = RestOperation::PushList { task: task.clone() };
            Ok(Some(either(("GET", list), ("POST", RestOperation::PushCreate { task }))))
        }
        ["tasks", task, "pushNotificationConfigs", id] if !task.is_empty() && !id.is_empty() => {
            let (task, id) = (id_of(task)?, id_of(id)?);
            let get = RestOperation::PushGet { task: task.clone(), id: id.clone() };
            Ok(Some(either(("GET", get), ("DELETE", RestOperation::PushDelete { task, id }))))
        }
        _ => Ok(None),
    }
}

/// As [`places`], after a tenant.
fn places_of(rest: &[&str]) -> Result<Option<Vec<VerbOperation<RestOperation>>>, Fault> {
    if rest.is_empty() { Ok(None) } else { places(rest) }
}

impl RestRoute {
    /// Whether the answer is a stream of events.
    pub fn is_stream(&self) -> bool {
        matches!(self.operation, RestOperation::Stream | RestOperation::Subscribe { .. })
    }

    /// Makes the call. `body` is ignored where [`RestRoute::reads_body`] is false.
    pub fn decode(self, body: &str, limits: &Limits) -> Result<Decoded, Fault> {
        let RestRoute { operation, tenant, query, .. } = self;
        let path_tenant = tenant.as_deref();
        // The path wins over the body.
        match operation {
            RestOperation::Send | RestOperation::Stream => {
                let mut request: shapes::SendMessageRequest<'_> = shape::read(body, "body")?;
                settle_tenant(path_tenant, &mut request.tenant)?;
                decode::send(request, limits, operation == RestOperation::Stream)
            }
            RestOperation::Get { id } => {
                let parameters = Parameters::read(query.as_deref(), PARAMETERS)?;
                let mut request = shapes::GetTaskRequest {
                    tenant: parameters.text("tenant"),
                    id: Some(Text(id.into())),
                    history_length: parameters.int("historyLength")?,
                };
                settle_tenant(path_tenant, &mut request.tenant)?;
                decode::get(request, limits)
            }
            RestOperation::List => {
                let parameters = Parameters::read(query.as_deref(), PARAMETERS)?;
                let mut request = shapes::ListTasksRequest {
                    tenant: parameters.text("tenant"),
                    context_id: parameters.text("contextId"),
                    status: parameters.name("status"),
                    page_size: parameters.int("pageSize")?,
                    page_token: parameters.text("pageToken"),
                    history_length: parameters.int("historyLength")?,
                    status_timestamp_after: parameters.text("statusTimestampAfter"),
                    include_artifacts: parameters.flag("includeArtifacts")?,
                };
                settle_tenant(path_tenant, &mut request.tenant)?;
                decode::list(request, limits)
            }
            RestOperation::Cancel { id } => {
                let mut request = task_request(body)?;
                request.id = Some(Text(id.into()));
                settle_tenant(path_tenant, &mut request.tenant)?;
                decode::cancel_json(request, limits)
            }
            RestOperation::Subscribe { id } => {
                let parameters = Parameters::read(query.as_deref(), PARAMETERS)?;
                let mut request = task_request(body)?;
                request.id = Some(Text(id.into()));
                request.tenant = request.tenant.or_else(|| parameters.text("tenant"));
                settle_tenant(path_tenant, &mut request.tenant)?;
                decode::subscribe(request, limits)
            }
            RestOperation::PushCreate { task } => {
                let mut request: shapes::PushConfig<'_> = shape::read(body, "body")?;
                request.task_id = Some(Text(task.into()));
                settle_tenant(path_tenant, &mut request.tenant)?;
                decode::push_create(request, limits)
            }
            RestOperation::PushGet { task, id } => {
                decode::push_get(push_request(task, Some(id), path_tenant, query.as_deref())?, limits)
            }
            RestOperation::PushDelete { task, id } => {
                decode::push_delete(push_request(task, Some(id), path_tenant, query.as_deref())?, limits)
            }
            RestOperation::PushList { task } => {
                decode::push_list(push_request(task, None, path_tenant, query.as_deref())?, limits)
            }
            RestOperation::ExtendedCard => {
                let parameters = Parameters::read(query.as_deref(), PARAMETERS)?;
                let mut request = shapes::TenantRequest { tenant: parameters.text("tenant") };
                settle_tenant(path_tenant, &mut request.tenant)?;
                decode::extended_card(request, limits)
            }
        }
    }
}

impl wire::Routed for RestRoute {
    fn reads_body(&self) -> bool {
        self.reads_body
    }
    fn is_stream(&self) -> bool {
        RestRoute::is_stream(self)
    }
    fn operation(&self) -> wire::Operation {
        (&self.operation).into()
    }
    fn decode(self: Box<Self>, body: &str, limits: &Limits) -> Result<Decoded, Fault> {
        RestRoute::decode(*self, body, limits)
    }
}

/// The body of a cancel or a subscribe, which says nothing the path does not: an empty one and `null` are as good as `{}`.
fn task_request(body: &str) -> Result<shapes::TaskRequest<'_>, Fault> {
    match body.trim_ascii() {
        "" | "null" => Ok(shapes::TaskRequest::default()),
        body => shape::read(body, "body"),
    }
}

fn push_request<'a>(
    task: String,
    id: Option<String>,
    tenant: Option<&'a str>,
    query: Option<&'a str>,
) -> Result<shapes::PushRequest<'a>, Fault> {
    let parameters = Parameters::read(query, PARAMETERS)?;
    let mut request = shapes::PushRequest {
        tenant: parameters.text("tenant"),
        task_id: Some(Text(task.into())),
        id: id.map(|id| Text(id.into())),
        page_size: parameters.int("pageSize")?,
        page_token: parameters.text("pageToken"),
    };
    settle_tenant(tenant, &mut request.tenant)?;
    Ok(request)
}

/// The tenant of the path, which a body or query may repeat but not contradict.
fn settle_tenant<'a>(path: Option<&'a str>, given: &mut Option<Text<'a>>) -> Result<(), Fault> {
    let Some(path) = path else { return Ok(()) };
    match given {
        Some(given) if !given.0.is_empty() && given.0 != path => {
            Err(Fault::params("tenant", "tenant differs from the one in the path"))
        }
        _ => {
            *given = Some(Text(Cow::Borrowed(path)));
            Ok(())
        }
    }
}

/// The query parameters of all routes, each with its proto spelling.
const PARAMETERS: &[(&str, &str)] = &[
    ("tenant", "tenant"),
    ("historyLength", "history_length"),
    ("contextId", "context_id"),
    ("status", "status"),
    ("pageSize", "page_size"),
    ("pageToken", "page_token"),
    ("statusTimestampAfter", "status_timestamp_after"),
    ("includeArtifacts", "include_artifacts"),
];

#[cfg(test)]
#[path = "rest_tests.rs"]
mod tests;
