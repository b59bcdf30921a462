//! Messages to agents: the answer to a task that waits, and a message that opens a task.

use dialects::a2a_v1;
use model::{Call, ContextId, Fault, Send};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};
use uuid::Uuid;
use web::body::Response;

use super::problem::ApiProblem;
use super::tasks::ApiTaskRow;
use super::{ApiContext, ok};
use crate::admin::messages;

/// The answer to a task that waits, in the name of its owner.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Answer")]
pub(super) struct ApiAnswer {
    /// Parts in the form of A2A 1.0: `{"text": TEXT}`, `{"data": VALUE}`, `{"raw": BASE64}` or `{"url": ADDRESS}`, with
    /// `filename`, `mediaType` and `metadata`.
    #[schemars(with = "Vec<Map<String, Value>>")]
    parts: Box<RawValue>,
}

/// A message that opens a task.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(rename = "MessageToSend")]
pub(super) struct ApiMessageToSend {
    /// A message in the form of A2A 1.0, without `taskId`.
    #[schemars(with = "Map<String, Value>")]
    message: Box<RawValue>,
    /// The context of the new task, where the message names none; else it has a context of its own.
    #[serde(default)]
    context_id: Option<String>,
}

pub(super) async fn answer(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let id = context.task().await?;
    let ApiAnswer { parts } = context.raw_body()?;
    let message = format!(r#"{{"messageId":"{}","role":"ROLE_USER","parts":{}}}"#, Uuid::now_v7(), parts.get());
    let send = decoded(context, &message).map_err(|fault| {
        // Members are named as they stand in the body.
        let field = fault.field.as_deref().map(|field| field.strip_prefix("message.").unwrap_or(field).to_owned());
        Fault { message: fault.message.replace("message.parts", "parts"), field, ..fault }
    })?;
    let (server, operator) = (context.server.clone(), context.caller.known.clone());
    let answered = context
        .change(move |admin| Box::pin(async move { messages::answer(admin, &server, &operator, id, send).await }));
    ok(&ApiTaskRow::of(&*answered.await?))
}

pub(super) async fn send(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let agent = context.http.id().to_owned();
    if context.server.mounts.agent(&agent).is_none_or(|mounted| mounted.retired) {
        return Err(ApiProblem::missing("there is no such agent"));
    }
    let ApiMessageToSend { message, context_id } = context.raw_body()?;
    let mut send = decoded(context, message.get())?;
    if send.task.is_some() {
        return Err(ApiProblem::field("message.taskId", "must be left out: the message opens a task"));
    }
    if let Some(id) = context_id {
        let most = context.server.engine.limits().id_bytes;
        if id.is_empty() || id.len() > most || id.chars().any(char::is_control) {
            return Err(ApiProblem::field("contextId", format!("must have 1 to {most} printable bytes")));
        }
        if send.context.as_ref().is_some_and(|named| *named.as_str() != *id) {
            return Err(ApiProblem::field("contextId", "is not the one of the message"));
        }
        send.context = Some(ContextId(id.into()));
    }
    let (server, operator) = (context.server.clone(), context.caller.known.clone());
    let sent = context
        .change(move |admin| Box::pin(async move { messages::send(admin, &server, &operator, &agent, send).await }));
    ok(&ApiTaskRow::of(&*sent.await?))
}

/// Reads a message of A2A 1.0.
fn decoded(context: &ApiContext<'_>, message: &str) -> Result<Send, Fault> {
    let params = to_raw_value(&Params { message: serde_json::from_str(message).map_err(Fault::internal)? });
    let params = params.map_err(Fault::internal)?;
    let decoded = a2a_v1::decode::decode_rpc("SendMessage", Some(&params), context.server.engine.limits())?;
    match decoded.call {
        Call::Send(send) => Ok(*send),
        _ => Err(Fault::internal("a message was read as another call")),
    }
}

#[derive(serde::Serialize)]
struct Params<'a> {
    #[serde(borrow)]
    message: &'a RawValue,
}
