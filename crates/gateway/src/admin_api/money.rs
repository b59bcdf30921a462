//! The money of a task: what it and the tasks that it opened cost, as the products know it.

use std::sync::Arc;

use model::ports::store::{Cursor, ListQuery};
use model::{Fault, Kind, Task, TaskId, View};
use schemars::JsonSchema;
use serde::Serialize;
use web::body::Response;

use super::problem::ApiProblem;
use super::{ApiContext, ok};
use crate::product::MoneyOfTask;

/// The most tasks that were opened by the task and are looked at.
const CHILDREN: usize = 500;
const PAGE: u32 = 100;

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TaskMoney")]
pub(super) struct ApiTaskMoney {
    /// Of the task, and of the tasks that it opened. Empty where nothing of it costs anything.
    items: Vec<MoneyOfTask>,
    /// True where the task opened more tasks than were looked at.
    partial: bool,
}

pub(super) async fn show(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let id = context.task().await?;
    let server = context.server;
    let task = server.engine.outline(id).await?.ok_or_else(|| Fault::task_not_found(id))?;
    let (children, partial) = children(context, id).await?;
    let mut items = Vec::new();
    for one in std::iter::once(&task).chain(&children) {
        for product in context.door.products {
            items.extend(product.money(server, one).await?);
        }
    }
    ok(&ApiTaskMoney { items, partial })
}

async fn children(context: &ApiContext<'_>, parent: TaskId) -> Result<(Vec<Arc<Task>>, bool), Fault> {
    let engine = &context.server.engine;
    let (mut found, mut after): (Vec<Arc<Task>>, Option<Cursor>) = (Vec::new(), None);
    loop {
        let views = vec![View::child(parent)];
        let query = ListQuery { views, context: None, state: None, since: None, after, limit: PAGE, count: false };
        let page = engine.store().list(query).await.map_err(|t| Fault::new(Kind::Unavailable, t.to_string()))?;
        for (id, cursor) in &page.tasks {
            after = Some(*cursor);
            found.extend(engine.outline(*id).await?);
        }
        if !page.more || found.len() >= CHILDREN {
            return Ok((found, page.more));
        }
    }
}
