//! Webhooks for operators: the progress of each, and redelivery of those given up. Shows hosts only, never whole
//! addresses or secrets.

use engine::DeliveryStatus;
use model::{Fault, Kind, PushState, Seq};
use serde_json::{Value, json};

use super::{AdminContext, tasks};

pub(super) async fn list(
    context: &AdminContext<'_>,
    task: Option<&str>,
    state: Option<u8>,
    limit: u32,
) -> Result<Value, Fault> {
    let (engine, products) = (context.engine, context.products);
    let task = match task {
        Some(task) => Some(tasks::own_id(engine, products, task).await?),
        None => None,
    };
    let state = state.and_then(PushState::from_code);
    let found = engine.deliveries(task, state, limit as usize).await?;
    Ok(json!({ "deliveries": found.iter().map(show).collect::<Vec<_>>() }))
}

pub(super) async fn redeliver(
    context: &AdminContext<'_>,
    task: &str,
    id: Option<&str>,
    from: Option<u64>,
) -> Result<Value, Fault> {
    let (engine, products) = (context.engine, context.products);
    let known = tasks::own_id(engine, products, task).await?;
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
    Ok(json!({ "task": task, "redelivered": taken_up }))
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
