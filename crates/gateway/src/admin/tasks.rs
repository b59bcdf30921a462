//! Tasks for operators: of every tenant, visibility and agent, under a task's own id or the one its caller chose.

use crate::product::ProductKinds;
use engine::Engine;
use model::ports::store::TaskQuery;
use model::{Body, Fault, Kind, Seq, Shape, State, Task, TaskId};
use serde_json::{Value, json};

/// Rows of one query.
const ROWS: u32 = 5_000;
/// Most tasks that are listed when several callers have the same id.
const NAMED: usize = 10;

/// The tasks that an operator asks for.
pub(super) struct TaskFilter {
    pub(super) tenant: Option<String>,
    pub(super) agent: Option<String>,
    pub(super) state: Option<State>,
}

impl TaskFilter {
    fn query(&self) -> TaskQuery {
        TaskQuery {
            tenant: self.tenant.as_deref().map(Into::into),
            agent: self.agent.as_deref().map(Into::into),
            state: self.state,
            rows: ROWS,
            ..TaskQuery::default()
        }
    }
}

fn unavailable(trouble: model::ports::store::StoreError) -> Fault {
    Fault::new(Kind::Unavailable, trouble.to_string())
}

/// The newest `limit` tasks, and the number of all. The store counts tasks by state; by tenant or agent they are
/// counted here, which reads every row.
pub(super) async fn list(engine: &Engine, wanted: TaskFilter, limit: u32) -> Result<Value, Fault> {
    let counted = wanted.tenant.is_none() && wanted.agent.is_none();
    let (mut ids, mut found, mut query) = (Vec::new(), 0, wanted.query());
    loop {
        let page = engine.store().tasks(query.clone()).await.map_err(unavailable)?;
        found += page.tasks.len() as u64;
        ids.extend(page.tasks.into_iter().take(limit as usize - ids.len()));
        query.before = page.next;
        if page.next.is_none() || (counted && ids.len() as u64 == u64::from(limit)) {
            break;
        }
    }
    let mut tasks = Vec::new();
    for id in ids {
        match engine.task(id).await {
            Ok(Some(task)) => tasks.push(summary(&task)),
            // Removed meanwhile.
            Ok(None) => {}
            // The other tasks are still listed.
            Err(fault) => tasks.push(json!({ "id": id.to_string(), "message": format!("cannot be read: {fault}") })),
        }
    }
    let total = match (counted && query.before.is_some(), wanted.state) {
        // The loop has seen them all.
        (false, _) => found,
        (true, None) => engine.health().await?.tasks,
        (true, Some(state)) => {
            let states = engine.health().await?.states;
            states.iter().find(|(known, _)| *known == state).map_or(0, |(_, n)| *n)
        }
    };
    Ok(json!({ "tasks": tasks, "total": total }))
}

pub(super) fn summary(task: &Task) -> Value {
    json!({
        "id": task.id.to_string(),
        "alias": task.alias.as_deref(),
        "context": task.context.as_str(),
        "agent": &*task.agent,
        "tenant": &*task.tenant,
        "owner": &*task.owner,
        "state": task.state().word(),
        "shape": match task.core.shape {
            Shape::Task => "task",
            Shape::Undecided => "undecided",
            Shape::Reply => "reply",
        },
        "status_at": task.status.at.to_string(),
        "created_at": task.created_at.to_string(),
        "events": task.seq().0,
        "message": task.status.message.as_ref().map(|m| m.text()),
    })
}

pub(super) async fn show(engine: &Engine, products: ProductKinds<'_>, id: &str) -> Result<Value, Fault> {
    let id = named(engine, products, id).await?;
    let task = engine.task(id).await?.ok_or_else(|| Fault::task_not_found(id))?;
    let mut logs = engine.store().logs(vec![id]).await.map_err(unavailable)?;
    let events = logs.pop().unwrap_or_default().into_iter().map(|event| {
        let body = serde_json::to_value(&event.body).unwrap_or(Value::Null);
        json!({ "seq": event.seq.0, "at": event.at.to_string(), "event": body })
    });
    let mut shown = summary(&task);
    shown["artifacts"] = json!(task.artifacts.len());
    shown["messages"] = json!(task.history.len());
    shown["turn"] = json!(task.core.turn.map(|turn| json!({ "id": turn.id.to_string(), "attempt": turn.attempt })));
    shown["log"] = events.collect();
    Ok(shown)
}

/// The same as [`named`], also for the own id of a task that is gone.
pub async fn own_id(engine: &Engine, products: ProductKinds<'_>, text: &str) -> Result<TaskId, Fault> {
    match text.parse() {
        Ok(id) => Ok(id),
        Err(_) => named(engine, products, text).await,
    }
}

/// The task of an id: its own, a product's form of it, or the one that a caller chose.
pub(super) async fn named(engine: &Engine, products: ProductKinds<'_>, text: &str) -> Result<TaskId, Fault> {
    let spelled = text.parse().ok().or_else(|| products.iter().find_map(|product| product.task_id(text)));
    if let Some(id) = spelled
        && engine.store().head(id).await.map_err(unavailable)?.is_some()
    {
        return Ok(id);
    }
    let found = aliased(engine, text).await?;
    match found.as_slice() {
        [] => Err(Fault::new(
            Kind::TaskNotFound,
            format!("task not found: none has the id {text:?}; see rialto task list"),
        )),
        [(id, _)] => Ok(*id),
        several => {
            let each = several.iter().map(|(id, whose)| format!("\n  {id}  {whose}"));
            let says =
                format!("several callers have a task {text:?}; name one by its own id:{}", each.collect::<String>());
            Err(Fault::new(Kind::InvalidParams, says))
        }
    }
}

/// Tasks with this alias, and their owners. The store has only a hash of caller, place and alias, so all tasks with an
/// alias are searched.
async fn aliased(engine: &Engine, alias: &str) -> Result<Vec<(TaskId, String)>, Fault> {
    let mut query = TaskQuery { aliased: true, rows: ROWS, ..TaskQuery::default() };
    let mut found = Vec::new();
    loop {
        let page = engine.store().tasks(query.clone()).await.map_err(unavailable)?;
        for id in page.tasks {
            // The first row of a log has the opening; no more of it is read.
            let events = engine.store().events(id, Seq::ZERO, 1).await.map_err(unavailable)?;
            let Some(Body::Opened(opened)) = events.first().map(|event| &event.body) else { continue };
            if opened.alias.as_deref() == Some(alias) {
                found.push((id, format!("tenant {}, owner {}, agent {}", opened.tenant, opened.owner, opened.agent)));
                if found.len() == NAMED {
                    return Ok(found);
                }
            }
        }
        match page.next {
            Some(next) => query.before = Some(next),
            None => return Ok(found),
        }
    }
}
