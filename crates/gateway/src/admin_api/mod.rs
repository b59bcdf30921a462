//! The admin API at `/api/admin/v1`: for operators over HTTP what the admin socket is on the machine itself.
//!
//! The table of [`routes`] defines the handlers, the role that each needs, and the OpenAPI document. A caller is identified
//! and admitted before a path is looked up or a body is read. Commands are performed by [`crate::admin`], as for the socket;
//! a [`Requester`] limits them to the caller's tenant and signs their lines in the audit log.
//!
//! Products add operations ([`crate::product::ProductKind::api`]): rows of the same table, with the same checks.
//!
//! * `access`: callers, roles and tenants
//! * `routes`, `openapi`: the table, and the document made of it
//! * `problem`: refusals
//! * `changes`: which tasks change
//! * `agent_checks`, `agent_load`, `config`, `history`, `limits`: the server and its agents for operators
//! * `session`, `oidc`, `tasks`, `events`, `wires`, `bundle`, `messages`, `agents`, `deliveries`, `keys`, `money`,
//!   `policy`, `upkeep`, `playground`, `receivers`: the operations
//! * `commands`: the same commands as at the socket, for the `rialto` command elsewhere

mod access;
mod agent_checks;
mod agent_load;
mod agents;
mod bundle;
mod changes;
mod commands;
mod config;
mod deliveries;
mod events;
mod history;
mod keys;
mod limits;
mod messages;
mod money;
mod oidc;
mod openapi;
mod playground;
mod policy;
mod problem;
mod receivers;
mod routes;
mod session;
mod tasks;
mod upkeep;
mod wires;

use std::sync::Arc;

use bytes::Bytes;
use dialects::framing::query;
use futures_util::future::BoxFuture;
use http::header::ACCEPT;
use http::{HeaderValue, StatusCode, request};
use hyper::body::Incoming;
use model::{Fault, Kind, Task, TaskId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use web::body::{Response, counted};
use web::context::{NotAnObject, RequestContext, object_text, read_object};
use web::request_log::RequestLog;
use web::response::private_json;

use crate::admin::tasks::{FoundTasks, PageFilter, page};
use crate::admin::{self, AdminContext, AdminDoor, AdminRequest, CoreRequest, Requester, RunningGateway};
use crate::fronts::Gate;
use crate::{CurrentGateway, GatewayVersion, intake};

use access::ApiCaller;

pub use problem::ApiProblem;
pub(crate) use routes::ApiTable;
pub use routes::{ApiFuture, ApiHandler, ApiRoute, Gives, ID, USUAL_PAGE, all_routes, json, limit, param};

const BASE: &str = "/api/admin/v1";
/// The largest body of a request, unless its route says otherwise.
const BODY: usize = 64 << 10;
/// The name in logs.
const DIALECT: &str = "admin";

/// The path below the API's address, if it is one of the API.
pub(crate) fn below(path: &str) -> Option<&str> {
    path.strip_prefix(BASE).filter(|below| below.is_empty() || below.starts_with('/'))
}

/// The id of a request, for its refusal.
#[derive(Clone)]
struct RequestId(String);

/// Notes the id of a request to the API.
pub(crate) fn note_id(head: &mut request::Parts, request_id: &str) {
    if below(head.uri.path()).is_some() {
        head.extensions.insert(RequestId(request_id.to_owned()));
    }
}

/// Answers a request.
pub(crate) async fn answer(
    server: &Arc<GatewayVersion>,
    door: &AdminDoor,
    below: &str,
    head: &request::Parts,
    body: Incoming,
    log: &mut RequestLog,
) -> Response {
    (log.operation, log.dialect) = ("admin", DIALECT);
    match call(server, door, below, head, body, log).await {
        Ok(response) => response,
        Err(problem) => problem.respond(head, log),
    }
}

/// Refuses a request that was not read.
pub(crate) fn refused(head: &request::Parts, fault: &Fault, log: &mut RequestLog) -> Response {
    (log.operation, log.dialect) = ("admin", DIALECT);
    ApiProblem::of_fault(fault).respond(head, log)
}

async fn call(
    server: &Arc<GatewayVersion>,
    door: &AdminDoor,
    below: &str,
    head: &request::Parts,
    body: Incoming,
    log: &mut RequestLog,
) -> Result<Response, ApiProblem> {
    let is_open = door.table.find(&head.method, below).is_ok_and(|(route, _)| route.is_open);
    let caller = match is_open {
        true => ApiCaller::nobody(server),
        false => access::identify(server, head, log).await?,
    };
    // A path that cannot be decoded is a bad request, also where no route has it.
    query::decode_segment(below)?;
    let (route, params) = door.table.find(&head.method, below)?;
    caller.may(route)?;
    let query = routes::read_query(route, head.uri.query())?;
    let body = match route.takes {
        Some(_) => intake::read(server, head, body, route.body, Gate::Open, log).await?,
        None => Bytes::new(),
    };
    let serving = door.serving.upgrade().ok_or_else(|| ApiProblem::unavailable("the server is shutting down"))?;
    let http = RequestContext { head, address: log.address, params, query, body: &body };
    let context = ApiContext { server, door, serving, caller, http };
    (route.handler)(&context).await
}

/// An admitted request.
pub struct ApiContext<'a> {
    server: &'a Arc<GatewayVersion>,
    door: &'a AdminDoor,
    serving: Arc<CurrentGateway>,
    caller: ApiCaller,
    pub http: RequestContext<'a>,
}

/// The context of a command for a caller of the API.
fn admin_context<'a>(
    server: &'a GatewayVersion,
    door: &'a AdminDoor,
    serving: &'a CurrentGateway,
    caller: &'a ApiCaller,
) -> AdminContext<'a> {
    let known = &caller.known;
    AdminContext {
        engine: &server.engine,
        folder: &door.folder,
        products: door.products,
        running: Some(RunningGateway { serving, reloads: &door.reloads }),
        requester: Some(Requester { name: &known.name, tenant: &known.tenant, all_tenants: caller.all_tenants }),
    }
}

impl ApiContext<'_> {
    /// The version of the server that answers.
    pub fn server(&self) -> &Arc<GatewayVersion> {
        self.server
    }

    /// The tenant that the caller is limited to.
    pub fn tenant(&self) -> Option<&str> {
        self.caller.limited_to()
    }

    /// Whether the caller sees what belongs to this tenant.
    pub fn sees(&self, tenant: &str) -> bool {
        self.tenant().is_none_or(|own| own == tenant)
    }

    /// Logs a change that the caller made.
    pub fn changed(&self, what: &'static str, change: &str, line: Value) {
        self.admin().changed(what, change, line);
    }

    /// A page of tasks, newest first, in the caller's reach.
    pub async fn tasks_of<R>(
        &self,
        agent: &str,
        before: Option<TaskId>,
        show: impl Fn(&Task) -> R,
    ) -> Result<(Vec<R>, Option<TaskId>), ApiProblem> {
        let filter = PageFilter {
            tenant: self.tenant().map(str::to_owned),
            agent: Some(agent.to_owned()),
            state: None,
            owner: None,
            text: None,
            before,
            limit: self.number("limit", USUAL_PAGE) as usize,
        };
        let FoundTasks { rows, next } = page(&self.server.engine, filter, |_, read| read.ok().map(&show)).await?;
        Ok((rows.into_iter().flatten().collect(), next))
    }

    /// The context of a command for this caller.
    fn admin(&self) -> AdminContext<'_> {
        admin_context(self.server, self.door, &self.serving, &self.caller)
    }

    /// Makes a change for this caller. It is finished, and its line is in the audit log, also if the client goes away
    /// meanwhile.
    async fn change<T: Send + 'static>(
        &self,
        change: impl for<'c> FnOnce(&'c AdminContext<'c>) -> BoxFuture<'c, Result<T, Fault>> + Send + 'static,
    ) -> Result<T, ApiProblem> {
        let (server, door) = (self.server.clone(), self.door.clone());
        let (serving, caller) = (self.serving.clone(), self.caller.clone());
        let changing: BoxFuture<'static, Result<T, Fault>> = Box::pin(async move {
            let context = admin_context(&server, &door, &serving, &caller);
            change(&context).await
        });
        Ok(tokio::spawn(changing).await.map_err(Fault::internal)??)
    }

    /// Performs a command of the admin socket for this caller.
    async fn perform(&self, request: impl Into<AdminRequest>) -> Result<Value, ApiProblem> {
        let request = request.into();
        self.change(|context| admin::perform(context, request)).await
    }

    /// The same, with the answer in the form of the API.
    async fn perform_as<T: DeserializeOwned>(&self, request: CoreRequest) -> Result<T, ApiProblem> {
        serde_json::from_value(self.perform(request).await?).map_err(|error| Fault::internal(error).into())
    }

    /// The task that the path names, as its own id.
    pub async fn task(&self) -> Result<TaskId, ApiProblem> {
        self.task_named(self.http.id()).await
    }

    /// A task by any of its ids. One that does not exist and one out of reach are refused in the same words.
    pub async fn task_named(&self, id: &str) -> Result<TaskId, ApiProblem> {
        self.admin().task(id).await.map_err(|fault| match fault.kind {
            Kind::TaskNotFound => ApiProblem::missing("there is no such task"),
            _ => fault.into(),
        })
    }

    pub fn text(&self, name: &str) -> Option<String> {
        self.http.query_param(name).map(str::to_owned)
    }

    /// A number of the query, which the table has checked.
    pub fn number(&self, name: &str, usual: u32) -> u32 {
        self.http.query_param(name).and_then(|text| text.parse().ok()).unwrap_or(usual)
    }

    /// The body as an object of this type; an empty one is an empty object.
    pub fn body<B: DeserializeOwned>(&self) -> Result<B, ApiProblem> {
        decoded(self.object_text()?)
    }

    /// The same for a type with members that are kept as they are written.
    fn raw_body<B: DeserializeOwned>(&self) -> Result<B, ApiProblem> {
        serde_json::from_str(self.object_text()?).map_err(|error| {
            let says = error.to_string();
            let says = says.split(" at line ").next().unwrap_or_default();
            ApiProblem::field("body", format!("cannot be read: {says}"))
        })
    }

    fn object_text(&self) -> Result<&str, ApiProblem> {
        if self.http.body.is_empty() {
            return Ok("{}");
        }
        self.body_text()
    }

    /// The text of the body, which is one object.
    fn body_text(&self) -> Result<&str, ApiProblem> {
        let depth = self.server.engine.limits().json_depth;
        object_text(self.http.head, self.http.body, depth).map_err(|error| match error {
            NotAnObject::MediaType(fault) | NotAnObject::Unreadable(fault) => ApiProblem::of_fault(&fault),
            NotAnObject::OtherValue => ApiProblem::field("body", "must be a JSON object"),
        })
    }

    /// JSON that counts to the memory for answers while it is sent.
    fn counted_json(&self, body: Vec<u8>) -> Result<Response, ApiProblem> {
        Ok(web::response::json(counted(&self.server.answers, body.into())?))
    }
}

/// Whether a request asks for a stream of events.
fn wants_events(head: &request::Parts) -> bool {
    let is_stream = |accept: &HeaderValue| {
        accept.to_str().is_ok_and(|accept| accept.to_ascii_lowercase().contains("text/event-stream"))
    };
    head.headers.get_all(ACCEPT).iter().any(is_stream)
}

fn decoded<B: DeserializeOwned>(text: &str) -> Result<B, ApiProblem> {
    read_object(text).map_err(|error| ApiProblem::field(error.member, error.message))
}

/// A value as a response.
fn shown<T: Serialize>(status: StatusCode, value: &T) -> Result<Response, ApiProblem> {
    let text = serde_json::to_vec(value).map_err(Fault::internal)?;
    Ok(private_json(status, Bytes::from(text)))
}

/// An answer with status 200.
pub fn ok<T: Serialize>(value: &T) -> Result<Response, ApiProblem> {
    shown(StatusCode::OK, value)
}
