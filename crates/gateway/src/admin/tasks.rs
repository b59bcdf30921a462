//! Tasks for operators: of every tenant, visibility and agent, under a task's own id or the one its caller chose.

use std::sync::Arc;

use super::AdminContext;
use crate::product::ProductKinds;
use engine::Engine;
use model::ports::store::TaskQuery;
use model::{Body, Fault, Kind, Seq, Shape, State, Task, TaskId};
use serde_json::{Value, json};

/// Rows of one query.
const ROWS: u32 = 5_000;
/// Most tasks that are listed when several callers have the same id.
const NAMED: usize = 10;

/// Most tasks with an alias that are read for a caller of the admin API to find the one that it names.
pub(super) const ALIASED: usize = 5_000;
/// Most looks at [`ROWS`] rows, and most tasks that are read, for one page of the admin API. A page that ends early says
/// where the next begins.
const LOOKS: usize = 20;
const READ: usize = 2_000;
/// The characters of a message that are searched for a text.
const SEARCHED: usize = 16 << 10;

/// The bytes of a log that are read at a time.
const PIECE: usize = 1 << 20;

/// The tasks that a command may name.
#[derive(Clone, Copy)]
pub(super) struct TaskReach<'a> {
    /// Those of every tenant, if none is named.
    pub(super) tenant: Option<&'a str>,
    /// The number of tasks with an alias that a search for one reads.
    pub(super) aliased: usize,
}

/// Tasks for one page of the admin API.
pub(crate) struct PageFilter {
    pub(crate) tenant: Option<String>,
    pub(crate) agent: Option<String>,
    pub(crate) state: Option<State>,
    /// The name of the caller that opened them.
    pub(crate) owner: Option<String>,
    /// A text in an id, an alias, a context or the first message, in any case.
    pub(crate) text: Option<String>,
    /// Only tasks with a lower id.
    pub(crate) before: Option<TaskId>,
    pub(crate) limit: usize,
}

/// A page of tasks.
pub(crate) struct FoundTasks<R> {
    pub(crate) rows: Vec<R>,
    /// Where the next page begins, if there may be more.
    pub(crate) next: Option<TaskId>,
}

/// A page of tasks, newest first, each as `show` makes it. The work is bounded, so a page may have fewer tasks than its
/// limit although more follow.
pub(crate) async fn page<R>(
    engine: &Engine,
    filter: PageFilter,
    show: impl Fn(TaskId, Result<&Task, &Fault>) -> R,
) -> Result<FoundTasks<R>, Fault> {
    let PageFilter { tenant, agent, state, owner, text, before, limit } = filter;
    let text = text.map(|text| text.to_lowercase());
    let is_read = owner.is_some() || text.is_some();
    let mut query = TaskFilter { tenant, agent, state }.query();
    query.before = before;
    let (mut rows, mut read, mut last) = (Vec::new(), 0, None);
    for _ in 0..LOOKS {
        let page = engine.store().tasks(query.clone()).await.map_err(unavailable)?;
        for id in page.tasks {
            if rows.len() == limit || read == READ {
                return Ok(FoundTasks { rows, next: last });
            }
            last = Some(id);
            if is_read {
                read += 1;
                if !begins_with(engine, id, owner.as_deref(), text.as_deref()).await? {
                    continue;
                }
            }
            match engine.outline(id).await {
                Ok(Some(task)) => rows.push(show(id, Ok(&task))),
                // Removed meanwhile.
                Ok(None) => {}
                Err(fault) => rows.push(show(id, Err(&fault))),
            }
        }
        match page.next {
            Some(next) => (query.before, last) = (Some(next), Some(next)),
            None => return Ok(FoundTasks { rows, next: None }),
        }
    }
    Ok(FoundTasks { rows, next: last })
}

/// Whether a task was opened by this caller, and has the text in its names or its first message.
async fn begins_with(engine: &Engine, id: TaskId, owner: Option<&str>, text: Option<&str>) -> Result<bool, Fault> {
    // The first row of a log has the opening, and mostly the first message.
    let events = engine.store().events(id, Seq::ZERO, 1).await.map_err(unavailable)?;
    let Some(Body::Opened(opened)) = events.first().map(|event| &event.body) else { return Ok(false) };
    if owner.is_some_and(|owner| *owner != *opened.owner) {
        return Ok(false);
    }
    let Some(text) = text else { return Ok(true) };
    let first = events.iter().find_map(|event| match &event.body {
        Body::Message(inbound) => Some(inbound.message.text()),
        Body::Opened(_)
        | Body::TurnStarted { .. }
        | Body::Bound { .. }
        | Body::Status(_)
        | Body::Artifact(_)
        | Body::Replied(_)
        | Body::Metadata(_)
        | Body::CancelRequested { .. } => None,
    });
    let first: String = first.unwrap_or_default().chars().take(SEARCHED).collect();
    let names =
        [id.to_string(), opened.alias.as_deref().unwrap_or_default().to_owned(), opened.context.to_string(), first];
    Ok(names.iter().any(|name| name.to_lowercase().contains(text)))
}

/// The number of tasks of a tenant in a state, up to a bound; false if there may be more.
pub(crate) async fn count(engine: &Engine, tenant: &str, state: State) -> Result<(u64, bool), Fault> {
    let filter = TaskFilter { tenant: Some(tenant.to_owned()), agent: None, state: Some(state) };
    let (mut query, mut found) = (filter.query(), 0);
    for _ in 0..LOOKS {
        let page = engine.store().tasks(query.clone()).await.map_err(unavailable)?;
        found += page.tasks.len() as u64;
        match page.next {
            Some(next) => query.before = Some(next),
            None => return Ok((found, true)),
        }
    }
    Ok((found, false))
}

/// Whether a task is of this tenant; every task is, if none is named.
pub(super) async fn is_within(engine: &Engine, tenant: Option<&str>, id: TaskId) -> Result<bool, Fault> {
    let Some(tenant) = tenant else { return Ok(true) };
    Ok(tenant_of(engine, id).await?.is_some_and(|own| *own == *tenant))
}

/// The tenant of a task, if there is such a task.
pub(super) async fn tenant_of(engine: &Engine, id: TaskId) -> Result<Option<Arc<str>>, Fault> {
    Ok(engine.store().head(id).await.map_err(unavailable)?.map(|head| head.tenant))
}

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
///
/// For a caller of one tenant, another tenant has no tasks. The rows that are read for a caller of the admin API are
/// bounded; where there may be more, `total_is_exact` is false.
pub(super) async fn list(context: &AdminContext<'_>, mut wanted: TaskFilter, limit: u32) -> Result<Value, Fault> {
    let engine = context.engine;
    if let Some(own) = context.tenant() {
        if wanted.tenant.as_deref().is_some_and(|named| named != own) {
            return Ok(json!({ "tasks": [], "total": 0, "total_is_exact": true }));
        }
        wanted.tenant = Some(own.to_owned());
    }
    let counted = wanted.tenant.is_none() && wanted.agent.is_none();
    let mut looks = if context.requester.is_some() { LOOKS } else { usize::MAX };
    let (mut ids, mut found, mut query) = (Vec::new(), 0, wanted.query());
    while looks > 0 {
        looks -= 1;
        let page = engine.store().tasks(query.clone()).await.map_err(unavailable)?;
        found += page.tasks.len() as u64;
        ids.extend(page.tasks.into_iter().take(limit as usize - ids.len()));
        query.before = page.next;
        if page.next.is_none() || (counted && ids.len() as u64 == u64::from(limit)) {
            break;
        }
    }
    let (mut tasks, mut size) = (Vec::new(), context.answer_size());
    for id in ids {
        let shown = match engine.task(id).await {
            Ok(Some(task)) => summary(&task),
            // Removed meanwhile.
            Ok(None) => continue,
            // The other tasks are still listed.
            Err(fault) => json!({ "id": id.to_string(), "message": format!("cannot be read: {fault}") }),
        };
        size.grow(&shown, "ask for fewer tasks")?;
        tasks.push(shown);
    }
    let is_exact = query.before.is_none() || counted;
    let total = match (counted && query.before.is_some(), wanted.state) {
        // The loop has seen them all.
        (false, _) => found,
        (true, None) => engine.health().await?.tasks,
        (true, Some(state)) => {
            let states = engine.health().await?.states;
            states.iter().find(|(known, _)| *known == state).map_or(0, |(_, n)| *n)
        }
    };
    Ok(json!({ "tasks": tasks, "total": total, "total_is_exact": is_exact }))
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

pub(super) async fn show(context: &AdminContext<'_>, id: TaskId) -> Result<Value, Fault> {
    let engine = context.engine;
    let task = engine.task(id).await?.ok_or_else(|| Fault::task_not_found(id))?;
    let (mut log, mut after, mut size) = (Vec::new(), Seq::ZERO, context.answer_size());
    loop {
        let events = engine.store().events(id, after, PIECE).await.map_err(unavailable)?;
        let Some(last) = events.last() else { break };
        after = last.seq;
        for event in events {
            let body = serde_json::to_value(&event.body).unwrap_or(Value::Null);
            let shown = json!({ "seq": event.seq.0, "at": event.at.to_string(), "event": body });
            size.grow(&shown, "the log can be read page by page, at GET /tasks/{id}/events")?;
            log.push(shown);
        }
    }
    let mut shown = summary(&task);
    shown["artifacts"] = json!(task.artifacts.len());
    shown["messages"] = json!(task.history.len());
    shown["turn"] = json!(task.core.turn.map(|turn| json!({ "id": turn.id.to_string(), "attempt": turn.attempt })));
    shown["log"] = log.into();
    Ok(shown)
}

/// The same as [`named`], also for the own id of a task that is gone.
pub(super) async fn own_id(engine: &Engine, products: ProductKinds<'_>, text: &str) -> Result<TaskId, Fault> {
    match text.parse() {
        Ok(id) => Ok(id),
        Err(_) => {
            let reach = TaskReach { tenant: None, aliased: usize::MAX };
            named(engine, products, reach, text).await
        }
    }
}

/// The task of an id: its own, a product's form of it, or the one that a caller chose. A task out of reach is treated
/// like one that does not exist.
pub(super) async fn named(
    engine: &Engine,
    products: ProductKinds<'_>,
    reach: TaskReach<'_>,
    text: &str,
) -> Result<TaskId, Fault> {
    let spelled = text.parse().ok().or_else(|| products.iter().find_map(|product| product.task_id(text)));
    if let Some(id) = spelled {
        let head = engine.store().head(id).await.map_err(unavailable)?;
        if head.is_some_and(|head| reach.tenant.is_none_or(|tenant| *tenant == *head.tenant)) {
            return Ok(id);
        }
    }
    let found = aliased(engine, reach, text).await?;
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
async fn aliased(engine: &Engine, reach: TaskReach<'_>, alias: &str) -> Result<Vec<(TaskId, String)>, Fault> {
    let tenant = reach.tenant.map(Into::into);
    let mut query = TaskQuery { aliased: true, rows: ROWS, tenant, ..TaskQuery::default() };
    let (mut found, mut left) = (Vec::new(), reach.aliased);
    loop {
        let page = engine.store().tasks(query.clone()).await.map_err(unavailable)?;
        for id in page.tasks {
            if left == 0 {
                return Ok(found);
            }
            left -= 1;
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
