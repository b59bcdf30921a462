//! Tasks: lists, single tasks in the forms of A2A, cancel and removal.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use dialects::a2a_v1;
use dialects::framing::json::Writer;
use dialects::wire::TaskView;
use model::{Fault, Seq, Shape, State, Task, TaskId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use uuid::Uuid;
use web::body::{Response, reserve};
use web::response::json;

use super::deliveries::{self, ApiDelivery};
use super::problem::ApiProblem;
use super::routes::USUAL_PAGE;
use super::{ApiContext, ok};
use crate::admin::CoreRequest;
use crate::admin::tasks::{FoundTasks, PageFilter, page};
use crate::fronts;

/// Characters of a message in a list.
const EXCERPT: usize = 200;

/// The words for states.
pub(super) fn states() -> Vec<&'static str> {
    State::ALL.map(State::word).into()
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TaskRow")]
pub(super) struct ApiTaskRow {
    id: String,
    /// The id that the caller chose, if it chose one.
    alias: Option<String>,
    context: String,
    agent: String,
    tenant: String,
    /// The caller that opened it.
    owner: String,
    state: String,
    /// `reply` where the agent answered by a message, so that its caller never saw a task; `undecided` where it may yet.
    shape: String,
    /// The form of A2A or of a product in which it was opened.
    dialect: String,
    created_at: String,
    /// The time of its newest status.
    updated_at: String,
    /// The number of events in its log.
    events: u64,
    turns: u32,
    /// The beginning of its status message or, without one, of its first message.
    message: Option<String>,
}

/// A task of a list that cannot be read has only its id and the reason.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "UnreadableTask")]
pub(super) struct ApiUnreadableTask {
    id: String,
    unreadable: String,
}

#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "ListedTask")]
pub(super) enum ApiListedTask {
    Task(Box<ApiTaskRow>),
    Unreadable(ApiUnreadableTask),
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Tasks")]
pub(super) struct ApiTasks {
    tasks: Vec<ApiListedTask>,
    /// The `cursor` of the next page; null on the last one. A page may be short, or empty, although more follow.
    next: Option<String>,
}

/// The answer is written piece by piece; this type is its schema.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TaskDetail")]
#[allow(dead_code, reason = "only its schema is used")]
pub(super) struct ApiTaskDetail {
    summary: ApiTaskRow,
    /// The task in A2A 1.0: status, history, artifacts, metadata.
    task: Map<String, Value>,
    /// Its webhooks, without addresses below the host and without secrets.
    push_configs: Vec<ApiDelivery>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Canceled")]
pub(super) struct ApiCanceled {
    id: String,
    state: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Purged")]
pub(super) struct ApiPurged {
    /// The own id of the task that is gone.
    purged: String,
}

impl ApiTaskRow {
    pub(super) fn of(task: &Task) -> ApiTaskRow {
        let said = task.status.message.as_ref().or(task.reply.as_ref()).or(task.history.first());
        ApiTaskRow {
            id: task.id.to_string(),
            alias: task.alias.as_deref().map(str::to_owned),
            context: task.context.to_string(),
            agent: task.agent.to_string(),
            tenant: task.tenant.to_string(),
            owner: task.owner.to_string(),
            state: task.state().word().to_owned(),
            shape: match task.core.shape {
                Shape::Task => "task",
                Shape::Undecided => "undecided",
                Shape::Reply => "reply",
            }
            .to_owned(),
            dialect: task.dialect.to_string(),
            created_at: task.created_at.to_string(),
            updated_at: task.status.at.to_string(),
            events: task.seq().0,
            turns: task.core.turns,
            message: said.map(|message| message.text().chars().take(EXCERPT).collect()),
        }
    }

    pub(super) fn hide_message(&mut self) {
        self.message = None;
    }
}

pub(super) async fn list(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let named = context.text("tenant");
    let own = context.tenant();
    let filters = ["tenant", "agent", "state", "caller", "q"].map(|name| context.text(name).unwrap_or_default());
    let bound = fingerprint(own, &filters);
    let before = context.http.query_param("cursor").map(|cursor| read_cursor(cursor, bound)).transpose()?;
    // Another tenant has no tasks for this caller.
    if own.is_some_and(|own| named.as_deref().is_some_and(|named| named != own)) {
        return ok(&ApiTasks { tasks: Vec::new(), next: None });
    }
    let state =
        context.http.query_param("state").and_then(|word| State::ALL.into_iter().find(|one| one.word() == word));
    let filter = PageFilter {
        tenant: own.map(str::to_owned).or(named),
        agent: context.text("agent"),
        state,
        owner: context.text("caller"),
        text: context.text("q"),
        before,
        limit: context.number("limit", USUAL_PAGE) as usize,
    };
    let FoundTasks { rows, next } = page(&context.server.engine, filter, |id, read| match read {
        Ok(task) => ApiListedTask::Task(Box::new(ApiTaskRow::of(task))),
        Err(fault) => {
            ApiListedTask::Unreadable(ApiUnreadableTask { id: id.to_string(), unreadable: fault.message.clone() })
        }
    })
    .await?;
    ok(&ApiTasks { tasks: rows, next: next.map(|id| write_cursor(id, bound)) })
}

/// Binds a cursor to the filters of its list.
fn fingerprint(own: Option<&str>, filters: &[String]) -> [u8; 8] {
    let hash: [u8; 32] = Sha256::digest(format!("{own:?}{filters:?}")).into();
    let mut short = [0; 8];
    short.copy_from_slice(&hash[..8]);
    short
}

fn write_cursor(id: TaskId, bound: [u8; 8]) -> String {
    URL_SAFE_NO_PAD.encode([id.0.as_bytes().as_slice(), &bound].concat())
}

fn read_cursor(text: &str, bound: [u8; 8]) -> Result<TaskId, ApiProblem> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok();
    let read = bytes.as_ref().and_then(|bytes| bytes.split_first_chunk::<16>()).filter(|(_, rest)| **rest == bound);
    let (id, _) = read.ok_or_else(|| ApiProblem::field("cursor", "is not one of this list; start again without it"))?;
    Ok(TaskId(Uuid::from_bytes(*id)))
}

/// The task that the path names, read whole.
pub(super) async fn read(context: &ApiContext<'_>) -> Result<Arc<Task>, ApiProblem> {
    let id = context.task().await?;
    let task = context.server.engine.task(id).await?;
    Ok(task.ok_or_else(|| Fault::task_not_found(id))?)
}

pub(super) async fn show(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let task = match context.http.query_param("at").and_then(|text| text.parse().ok()) {
        None => read(context).await?,
        Some(seq) => {
            let id = context.task().await?;
            let task = context.server.engine.task_at(id, Seq(seq)).await?;
            task.ok_or_else(|| ApiProblem::field("at", "is no event of the task"))?
        }
    };
    let pushes = deliveries::of_task(context, task.id).await?;
    let row = serde_json::to_string(&ApiTaskRow::of(&task)).map_err(Fault::internal)?;
    let pushes = serde_json::to_string(&pushes).map_err(Fault::internal)?;
    let wire = dialects::wire(a2a_v1::NAME).ok_or_else(|| Fault::internal("there is no wire of 1.0"))?;
    respond(context, &task, |w| {
        w.begin_object();
        w.key("summary").raw(&row);
        wire.task(w.key("task"), &task, &TaskView::WHOLE, None);
        w.key("pushConfigs").raw(&pushes);
        w.end_object();
    })
    .await
}

/// A response with content of a task, within the memory for answers.
pub(super) async fn respond(
    context: &ApiContext<'_>,
    task: &Task,
    write: impl FnOnce(&mut Writer),
) -> Result<Response, ApiProblem> {
    let server = context.server;
    let size = task.weight() + 2_048;
    let share = reserve(&server.answers, size)?;
    let mut w = Writer::with_capacity(size);
    write(&mut w);
    drop(share);
    Ok(json(fronts::into_body(server, context.http.head, &task.tenant, w.finish()).await?))
}

pub(super) async fn cancel(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let id = context.task().await?.to_string();
    let done = context.perform(CoreRequest::TaskCancel { id }).await?;
    let text = |name: &str| done[name].as_str().unwrap_or_default().to_owned();
    ok(&ApiCanceled { id: text("id"), state: text("state") })
}

pub(super) async fn purge(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let id = context.task().await?.to_string();
    let done: ApiPurged = context.perform_as(CoreRequest::TaskPurge { id }).await?;
    ok(&done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_good_for_its_list_alone() {
        let id: TaskId = "0190f3c4-1111-7222-8333-444455556666".parse().unwrap();
        let filters = |agent: &str| [String::new(), agent.to_owned()];
        let bound = fingerprint(Some("acme"), &filters("echo"));
        assert_eq!(read_cursor(&write_cursor(id, bound), bound).unwrap(), id);
        for other in [fingerprint(Some("acme"), &filters("other")), fingerprint(None, &filters("echo"))] {
            assert!(read_cursor(&write_cursor(id, bound), other).is_err());
        }
        for bad in ["", "x", "!", &"A".repeat(32), &"A".repeat(64)] {
            assert!(read_cursor(bad, bound).is_err(), "{bad}");
        }
    }
}
