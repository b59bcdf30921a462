//! What was said before: the chain of tasks under one alias, and the earlier tasks of a context.

use std::sync::Arc;

use model::ports::agent::Earlier;
use model::ports::store::ListQuery;
use model::{Fault, Message, Place, Role, Task};

use crate::{Engine, Shared, troubled};

/// So many earlier tasks are read at most; a conversation longer than that begins in its middle.
const TASKS: usize = 1_000;
const PAGE: u32 = 100;

impl Engine {
    /// The task with the history of those that had its alias before it.
    pub(crate) async fn chained(&self, task: Arc<Task>) -> Result<Arc<Task>, Fault> {
        let mut before: Vec<Arc<Message>> = Vec::new();
        let mut follows = task.follows;
        for _ in 0..TASKS {
            let Some(id) = follows else { break };
            // A predecessor past its retention is forgotten, and all before it.
            let Some(earlier) = self.task(id).await? else { break };
            let mut said = said(&earlier);
            said.append(&mut before);
            before = said;
            follows = earlier.follows;
        }
        Ok(with_earlier(task, before))
    }

    /// The task with the history of its whole context, for dialects whose sessions share it.
    pub async fn with_session(&self, place: &Place, task: Arc<Task>) -> Result<Arc<Task>, Fault> {
        let before = earlier(&self.shared, place.reads.first().cloned(), &task, said).await?;
        Ok(with_earlier(task, before))
    }
}

/// How an agent gets at the conversation before its task.
pub(crate) fn of(shared: &Arc<Shared>, task: &Arc<Task>) -> Earlier {
    let (shared, task) = (Arc::downgrade(shared), task.clone());
    Earlier::new(move || {
        let (shared, task) = (shared.upgrade(), task.clone());
        Box::pin(async move {
            let Some(shared) = shared else { return Ok(Vec::new()) };
            earlier(&shared, task.views.first().cloned(), &task, said_and_made).await
        })
    })
}

/// The messages of the owner's earlier tasks in the same context, oldest first.
async fn earlier(
    shared: &Shared,
    view: Option<model::View>,
    task: &Task,
    of: fn(&Task) -> Vec<Arc<Message>>,
) -> Result<Vec<Arc<Message>>, Fault> {
    let Some(view) = view else { return Ok(Vec::new()) };
    let mut ids = Vec::new();
    let mut after = None;
    while ids.len() < TASKS {
        let query = ListQuery {
            views: vec![view.clone()],
            context: Some(task.context.clone()),
            state: None,
            since: None,
            after,
            limit: PAGE,
            count: false,
        };
        let page = shared.store.list(query).await.map_err(troubled)?;
        ids.extend(page.tasks.iter().map(|(id, _)| *id).filter(|id| *id < task.id));
        after = page.tasks.last().map(|(_, cursor)| *cursor);
        if !page.more {
            break;
        }
    }
    // Ids are in order of birth.
    ids.sort_unstable();
    let mut messages = Vec::new();
    for log in shared.store.logs(ids).await.map_err(troubled)? {
        if let Some(earlier) = Task::fold(&log).map_err(Fault::internal)?.filter(|earlier| earlier.owner == task.owner)
        {
            messages.extend(of(&earlier));
        }
    }
    Ok(messages)
}

/// Everything said in a task, its last word included.
fn said(task: &Task) -> Vec<Arc<Message>> {
    task.history.iter().chain(&task.status.message).cloned().collect()
}

/// Everything said in a task and everything made in it: to an agent, what it made is its side of the conversation.
fn said_and_made(task: &Task) -> Vec<Arc<Message>> {
    let made = task.artifacts.iter().map(|artifact| {
        Arc::new(Message {
            id: artifact.id.clone(),
            role: Role::Agent,
            parts: artifact.parts.clone(),
            metadata: artifact.metadata.clone(),
            extensions: artifact.extensions.clone(),
            references: Vec::new(),
        })
    });
    task.history.iter().cloned().chain(made).chain(task.status.message.clone()).collect()
}

fn with_earlier(task: Arc<Task>, mut before: Vec<Arc<Message>>) -> Arc<Task> {
    if before.is_empty() {
        return task;
    }
    let mut whole = (*task).clone();
    before.append(&mut whole.history);
    whole.history = before;
    Arc::new(whole)
}
