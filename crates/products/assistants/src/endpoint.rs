//! LangSmith's endpoint: an assistant at `/langgraph/a2a/{assistant}` and at `/a2a/{assistant}`.
//!
//! The second address is the one that the product documents. The versions of A2A share it: a request that states a version,
//! or whose method the product lacks, is answered by the gateway's own front ([`is_owner`]). A cancel works there.
//!
//! The envelope, the order of the checks and the statuses are in [`crate::langgraph`]. The endpoint finds the assistant, and
//! relates a message to its task: it answers the task's question, or begins the next run on the thread.

use std::sync::Arc;

use crate::langgraph::decode::{self, Resume};
use crate::langgraph::{self, AssistantRequest, HttpReply, LangGraphProfile, card, envelope, errors};
use bytes::Bytes;
use dialects::framing::json::Writer;
use dialects::framing::jsonrpc::{self, OwnedId, Unreadable};
use dialects::framing::{query, scan};
use dialects::wire::{Decoded, Operation};
use http::header::{ACCEPT, ALLOW, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Method, StatusCode, request};
use model::ports::agent;
use model::{Call, Fault, Kind, State};
use uuid::Uuid;

use crate::AssistantsService;
use gateway::GatewayVersion;
use gateway::auth;
use gateway::fronts::{
    A2A_DIALECT, CallContext, CallResult, EffectiveCall, RequestLog, into_body, sign, stream, terms, who,
};
use gateway::mounts::MountedAgent;
use web::body::Response;
use web::response::json;

/// The address of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AssistantAddress {
    /// Below `/langgraph`.
    Own,
    /// `/a2a/{assistant}`, which the versions of A2A share.
    Shared,
}

/// Whether the product answers a request at the shared address, which states no version of A2A. It does if the request names
/// the product's dialect; if it names no dialect, and its method is one of the product's; or if it cannot be parsed.
pub(crate) fn is_owner(server: &GatewayVersion, head: &request::Parts, body: &Bytes) -> bool {
    if let Some(dialect) = head.headers.get(&A2A_DIALECT) {
        return dialect == langgraph::NAME || dialect == langgraph::CURRENT_NAME;
    }
    if scan::scan(body, server.engine.limits().json_depth).is_err() {
        return true;
    }
    let is_known = |method: &str| envelope::METHODS.contains(&method);
    match std::str::from_utf8(body).map(jsonrpc::read) {
        Ok(Ok(request)) => is_known(&request.method),
        Ok(Err(Unreadable { method, .. })) => method.as_deref().is_none_or(is_known),
        Err(_) => true,
    }
}

/// Answers a request to the assistant in a path.
pub(crate) async fn answer(
    server: &Arc<GatewayVersion>,
    assistant: &str,
    address: AssistantAddress,
    head: &request::Parts,
    body: Result<Bytes, Fault>,
    log: &mut RequestLog,
) -> Response {
    let Some(profile) = AssistantsService::profile(server) else { return reply(errors::detail(404, "Not Found")) };
    log.dialect = profile.wire("").name();
    if head.method != Method::POST {
        return other_verb(server, profile, assistant, head);
    }
    let body = match body.and_then(|body| scan::scan(&body, server.engine.limits().json_depth).map(|_| body.clone())) {
        Ok(body) => body,
        // A body that is not JSON is refused by `envelope::read`, in the product's words.
        Err(fault) if fault.kind == Kind::Parse => Bytes::from_static(b"{"),
        Err(fault) => return refuse(profile, &OwnedId::NULL, &fault, Operation::Unknown, log),
    };
    let accept: Vec<&str> = head.headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    let request = match envelope::read(profile, &body, Some(&accept.join(","))) {
        Ok(request) => request,
        Err(refused) => {
            log.fault = Some("not a request of this product".to_owned());
            return reply(refused);
        }
    };
    let mut operation = Operation::Unknown;
    match call(server, profile, assistant, address, head, &request, &body, log, &mut operation).await {
        Ok(response) => response,
        Err(Error::Reply(refused)) => reply(refused),
        Err(Error::Fault(fault)) => {
            let said_in_stream = envelope::is_stream(&request.method)
                && errors::reply(profile, &request.id, &fault, operation).status == 200;
            if said_in_stream {
                log.fault(&fault);
                return stream::refused(profile.wire(&request.method), &request.id, &fault, operation);
            }
            refuse(profile, &request.id, &fault, operation, log)
        }
    }
}

enum Error {
    Fault(Fault),
    Reply(HttpReply),
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        Error::Fault(fault)
    }
}

#[allow(clippy::too_many_arguments, reason = "what a request is made of; used once")]
async fn call(
    server: &Arc<GatewayVersion>,
    profile: LangGraphProfile,
    assistant: &str,
    address: AssistantAddress,
    head: &request::Parts,
    request: &AssistantRequest,
    body: &[u8],
    log: &mut RequestLog,
    operation: &mut Operation,
) -> Result<Response, Error> {
    decode::check(profile, request)?;
    let mounted = find(server, assistant).ok_or_else(|| {
        let message = format!("Assistant '{assistant}' not found");
        match profile {
            LangGraphProfile::Documented => Error::Reply(errors::detail(404, &message)),
            LangGraphProfile::Current if assistant.parse::<Uuid>().is_err() => {
                Fault::new(Kind::InvalidParams, "Invalid assistant ID: must be a UUID").into()
            }
            LangGraphProfile::Current => Fault::new(Kind::InvalidParams, message).into(),
        }
    })?;
    log.agent = Some(mounted.agent.clone());
    let caller = who(server, mounted, head, log).await?;
    let takes_text = server.engine.profile(&mounted.agent).as_deref().is_none_or(takes_text);
    let cancel = match (profile, address) {
        (LangGraphProfile::Documented, AssistantAddress::Own) => decode::Cancels::Refused,
        (LangGraphProfile::Documented, AssistantAddress::Shared)
        | (LangGraphProfile::Current, AssistantAddress::Own | AssistantAddress::Shared) => decode::Cancels::Work,
    };
    let decode::AssistantCall { call, context, resume } =
        decode::decode(profile, request, takes_text, cancel, server.engine.limits())?;
    // The documented profile has one error for every cancel, because none works there.
    *operation = match (&call, cancel) {
        (Call::Cancel(_), decode::Cancels::Work) => Operation::Unknown,
        (call, decode::Cancels::Work | decode::Cancels::Refused) => Operation::from(call),
    };
    let mut effective = EffectiveCall::of(Decoded { call, tenant: None }, &head.headers)?;
    let wire = profile.wire(&request.method);
    let asked = CallContext { server, mounted, head, caller, wire: wire.into(), rules: wire, threaded: true };
    relate_to_task(&asked, profile, &mut effective, context.as_ref(), resume, request).await?;
    let (done, tenant) = asked.perform(effective, body, log).await.map_err(|fault| named(fault, request))?;
    let mut response = match done {
        CallResult::Stream(follow) => {
            stream::rpc(server.clone(), wire, *follow, terms(server, head, &tenant), request.id.clone())
        }
        done => {
            let mut w: Writer = jsonrpc::begin_result(&request.id, 1_024);
            asked.write(&mut w, &done);
            jsonrpc::end_result(&mut w);
            json(into_body(server, head, &tenant, w.finish()).await?)
        }
    };
    sign(&mut response, wire);
    Ok(response)
}

/// Relates a call to the task that it names. The task must be on the thread that is named. A message for it is an answer to
/// its question, or begins the next run on the thread.
async fn relate_to_task(
    asked: &CallContext<'_>,
    profile: LangGraphProfile,
    effective: &mut EffectiveCall,
    context: Option<&model::ContextId>,
    resume: Resume,
    request: &AssistantRequest,
) -> Result<(), Fault> {
    let id = match &effective.call {
        Call::Get(get) => Some(get.task.clone()),
        Call::Cancel(cancel) => Some(cancel.task.clone()),
        Call::Send(send) | Call::Stream(send) => send.task.clone(),
        Call::Subscribe(_) | Call::List(_) | Call::Push(_) | Call::ExtendedCard => None,
    };
    let Some(id) = id else { return Ok(()) };
    let place = asked.place(effective)?;
    let found = asked.server.engine.get(&place, &id).await;
    let found = found.and_then(|task| match context {
        Some(context) if *context != task.context => Err(Fault::task_not_found(&id)),
        Some(_) | None => Ok(task),
    });
    let (Call::Send(send) | Call::Stream(send)) = &mut effective.call else {
        return found.map(drop).map_err(|fault| named(fault, request));
    };
    let state = match (found, profile) {
        (Ok(task), _) => Some(task.state()),
        (Err(fault), LangGraphProfile::Current) => return Err(named(fault, request)),
        (Err(fault), LangGraphProfile::Documented) if fault.kind == Kind::TaskNotFound => None,
        (Err(fault), LangGraphProfile::Documented) => return Err(fault),
    };
    let waits = matches!(state, Some(State::InputRequired | State::AuthRequired));
    match (waits, resume, profile) {
        (true, _, _) => {}
        (false, Resume::Must, _) => return Err(Fault::new(Kind::InvalidParams, "Task is not awaiting input")),
        (false, Resume::Maybe | Resume::No, LangGraphProfile::Current) if state.is_some_and(is_over) => {
            return Err(Fault::new(Kind::TaskSettled, "A terminal task cannot accept another message"));
        }
        (false, Resume::Maybe | Resume::No, LangGraphProfile::Current) => {}
        // The product's page says that the task is ignored: the message is the next of the thread.
        (false, Resume::Maybe | Resume::No, LangGraphProfile::Documented) => send.task = None,
    }
    // The thread follows from the task.
    if send.task.is_some() {
        send.context = None;
    }
    Ok(())
}

fn is_over(state: State) -> bool {
    match state {
        State::Completed | State::Failed | State::Canceled | State::Rejected => true,
        State::Submitted | State::Working | State::InputRequired | State::AuthRequired => false,
    }
}

/// The fault with the product's message, which has the id of the task as in the request.
fn named(fault: Fault, request: &AssistantRequest) -> Fault {
    let text = |value: &serde_json::Value, name: &str| value.get(name).and_then(|v| v.as_str()).map(str::to_owned);
    match fault.kind {
        Kind::TaskNotFound => {
            let params = &request.params;
            let id = text(params, "id").or_else(|| text(&params["message"], "taskId")).unwrap_or_default();
            let message = match text(params, "contextId") {
                Some(context) => format!("Task not found: {id} in context '{context}'"),
                None => format!("Task not found: {id}"),
            };
            Fault { message, ..fault }
        }
        Kind::TaskNotCancelable => Fault { message: "Task is not cancelable in its current state".to_owned(), ..fault },
        _ => fault,
    }
}

fn find<'s>(server: &'s GatewayVersion, assistant: &str) -> Option<&'s MountedAgent> {
    server.mounts.agent_by_id(assistant.parse().ok()?)
}

/// Whether an assistant reads text. In the product's terms, its input schema has `messages`.
fn takes_text(agent: &agent::Profile) -> bool {
    agent.input_modes.iter().any(|mode| matches!(mode.as_str(), "*/*" | "text/*" | "text/plain" | "text"))
}

/// The current profile answers a GET with the card; all other verbs are not allowed.
fn other_verb(
    server: &Arc<GatewayVersion>,
    profile: LangGraphProfile,
    assistant: &str,
    head: &request::Parts,
) -> Response {
    let get = head.method == Method::GET || head.method == Method::HEAD;
    if get && profile == LangGraphProfile::Current {
        return assistant_card(server, Some(assistant), head);
    }
    let mut response = reply(errors::detail(405, "Method Not Allowed"));
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
    response
}

/// The card of the assistant in the query.
pub(crate) fn card_by_query(server: &Arc<GatewayVersion>, head: &request::Parts) -> Response {
    let named = head.uri.query().and_then(|text| query::value(text, "assistant_id").ok().flatten());
    assistant_card(server, named.as_deref(), head)
}

fn assistant_card(server: &Arc<GatewayVersion>, assistant: Option<&str>, head: &request::Parts) -> Response {
    let Some(profile) = AssistantsService::profile(server) else { return reply(errors::detail(404, "Not Found")) };
    let Some(id) = assistant.filter(|id| !id.is_empty()) else {
        return reply(HttpReply { status: 400, body: card::refused("Missing required query parameter: assistant_id") });
    };
    let found = find(server, id).and_then(|mounted| server.engine.profile(&mounted.agent));
    let Some(agent) = found else {
        return reply(HttpReply { status: 400, body: card::refused(&format!("Assistant '{id}' not found")) });
    };
    let base = format!("{}/langgraph", server.cards.base_url(&server.settings, head));
    let mut response =
        reply(HttpReply { status: 200, body: card::card(profile, &agent, id, &base, takes_text(&agent)) });
    gateway::cards::cacheable(response.headers_mut());
    response
}

fn reply(reply: langgraph::HttpReply) -> Response {
    let body = Bytes::from(reply.body);
    let mut response = if reply.status == 202 { Response::new(body.into()) } else { json(body) };
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::BAD_REQUEST);
    response
}

fn refuse(
    profile: LangGraphProfile,
    id: &OwnedId,
    fault: &Fault,
    operation: Operation,
    log: &mut RequestLog,
) -> Response {
    log.fault(fault);
    let mut response = reply(errors::reply(profile, id, fault, operation));
    if fault.kind == Kind::Unauthenticated {
        response.headers_mut().insert(WWW_AUTHENTICATE, auth::challenge(fault));
    }
    if let Some(seconds) = fault.retry_after_s {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}
