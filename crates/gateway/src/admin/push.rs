//! Webhooks for operators: the progress of each, and redelivery of those given up. Shows hosts only, never whole
//! addresses or secrets.

use engine::DeliveryStatus;
use model::{Fault, Kind, PushState, Seq, TaskId};
use serde_json::{Value, json};

use super::{AdminContext, tasks};

/// Configs that are looked at for those of one tenant.
const LOOKED_AT: usize = 2_000;

pub(super) async fn list(
    context: &AdminContext<'_>,
    task: Option<&str>,
    state: Option<u8>,
    limit: u32,
) -> Result<Value, Fault> {
    let engine = context.engine;
    let task = match task {
        Some(task) => Some(own_id(context, task).await?),
        None => None,
    };
    let state = state.and_then(PushState::from_code);
    let limit = limit as usize;
    let Some(tenant) = context.tenant().filter(|_| task.is_none()) else {
        let found = engine.deliveries(task, state, limit).await?;
        return Ok(json!({ "deliveries": found.iter().map(show).collect::<Vec<_>>() }));
    };
    let mut shown = Vec::new();
    for delivery in engine.deliveries(None, state, LOOKED_AT).await? {
        if tasks::is_within(engine, Some(tenant), delivery.task).await? {
            shown.push(show(&delivery));
        }
        if shown.len() == limit {
            break;
        }
    }
    Ok(json!({ "deliveries": shown }))
}

pub(super) async fn redeliver(
    context: &AdminContext<'_>,
    task: &str,
    id: Option<&str>,
    from: Option<u64>,
) -> Result<Value, Fault> {
    let engine = context.engine;
    let known = own_id(context, task).await?;
    if !engine.has_push() {
        let words = "delivering again needs a running server that serves push notifications: start it, then ask again";
        return Err(Fault::new(Kind::Unavailable, words));
    }
    let taken_up = engine.redeliver(known, id, from.map(Seq)).await?;
    if taken_up == 0 {
        let which = id.map_or_else(|| "no push config".to_owned(), |id| format!("no push config {id:?}"));
        let words = format!("{task} has {which}; see rialto push list --task {task}");
        return Err(Fault::new(Kind::InvalidParams, words));
    }
    let tenant = tasks::tenant_of(engine, known).await?;
    let line = json!({ "task": known.to_string(), "config": id, "from": from, "tenant": tenant.as_deref() });
    context.changed("deliveries", "redelivered", line);
    Ok(json!({ "task": task, "redelivered": taken_up }))
}

/// The own id of a task. An operator of this machine may also name one that is gone.
async fn own_id(context: &AdminContext<'_>, task: &str) -> Result<TaskId, Fault> {
    match context.requester {
        Some(_) => context.task(task).await,
        None => tasks::own_id(context.engine, context.products, task).await,
    }
}

fn show(delivery: &DeliveryStatus) -> Value {
    let DeliveryStatus { task, id, endpoint, dialect, made_at, progress } = delivery;
    json!({
        "task": task.to_string(),
        "config": &**id,
        "endpoint": endpoint.as_deref(),
        "dialect": dialect.as_deref(),
        "state": progress.state.name(),
        "next": progress.next.0,
        "attempts": progress.attempts,
        "due_at": progress.due.to_string(),
        "delivered": progress.delivered,
        "delivered_at": progress.delivered_at.map(|at| at.to_string()),
        "trouble": progress.trouble.as_deref(),
        "made_at": made_at.to_string(),
    })
}
