//! Earlier conversation: the chain of tasks under one alias, and the earlier tasks of a context.

use std::sync::Arc;

use model::ports::Future;
use model::ports::agent::Earlier;
use model::ports::store::ListQuery;
use model::{Artifact, BlobKind, CallScope, Content, Fault, Message, Part, Role, Task, TaskId};

use crate::{Engine, Shared, troubled};

/// Earlier tasks read at most; a longer conversation is cut at its beginning.
const TASKS: usize = 1_000;
const PAGE: u32 = 100;

impl Engine {
    /// The task with the history of the earlier tasks of its alias.
    pub(crate) async fn chained(&self, task: Arc<Task>) -> Result<Arc<Task>, Fault> {
        let mut before = Vec::new();
        let mut follows = task.follows;
        for _ in 0..TASKS {
            let Some(id) = follows else { break };
            // A predecessor past its retention ends the chain.
            let Some(earlier) = self.task(id).await? else { break };
            before.push((id, said(&earlier)));
            follows = earlier.follows;
        }
        before.reverse();
        Ok(with_earlier(task, before))
    }

    /// The task with the history of its whole context, for dialects with sessions.
    pub fn with_session<'a>(
        &'a self,
        place: &'a CallScope,
        task: Arc<Task>,
        answers: Answers,
    ) -> Future<'a, Result<Arc<Task>, Fault>> {
        Box::pin(async move {
            let of = match answers {
                Answers::Apart => said,
                Answers::InHistory => said_and_answered,
            };
            let before = earlier(&self.shared, place.reads.first().cloned(), &task, of).await?;
            let task = with_earlier(task, before);
            match answers {
                Answers::Apart => Ok(task),
                Answers::InHistory => Ok(with_answers(task)),
            }
        })
    }
}

/// Whether a shown history has the agent's answers as messages. They are always artifacts of their tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    Apart,
    InHistory,
}

/// An agent's access to the conversation before its task.
pub(crate) fn of(shared: &Arc<Shared>, task: &Arc<Task>) -> Earlier {
    let (shared, task) = (Arc::downgrade(shared), task.clone());
    Earlier::new(move || {
        let (shared, task) = (shared.upgrade(), task.clone());
        Box::pin(async move {
            let Some(shared) = shared else { return Ok(Vec::new()) };
            let before = earlier(&shared, task.views.first().cloned(), &task, said_and_made).await?;
            Ok(before.into_iter().flat_map(|(_, messages)| messages).collect())
        })
    })
}

/// The messages of the owner's earlier tasks in the same context, oldest first.
async fn earlier(
    shared: &Shared,
    view: Option<model::View>,
    task: &Task,
    of: fn(&Task) -> Vec<Arc<Message>>,
) -> Result<Vec<(TaskId, Vec<Arc<Message>>)>, Fault> {
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
    // Ids are in order of creation.
    ids.sort_unstable();
    let mut messages = Vec::new();
    for log in shared.store.logs(ids).await.map_err(troubled)? {
        if let Some(earlier) = Task::fold(&log).map_err(Fault::internal)?.filter(|earlier| earlier.owner == task.owner)
        {
            messages.push((earlier.id, of(&earlier)));
        }
    }
    Ok(messages)
}

/// All messages of a task, including the last status message.
fn said(task: &Task) -> Vec<Arc<Message>> {
    task.history.iter().chain(&task.status.message).cloned().collect()
}

/// All messages and artifacts of a task: to an agent, its artifacts are its side of the conversation.
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

/// All messages of a task and its text answers.
fn said_and_answered(task: &Task) -> Vec<Arc<Message>> {
    let (history, status) = (task.history.iter().cloned(), task.status.message.clone());
    history.chain(answers(task)).chain(status).collect()
}

/// The artifacts of a task that contain text, as messages.
fn answers(task: &Task) -> impl Iterator<Item = Arc<Message>> + '_ {
    let with_words = |artifact: &&Arc<Artifact>| artifact.parts.iter().any(is_text);
    task.artifacts.iter().filter(with_words).map(|artifact| {
        Arc::new(Message {
            // Artifacts of two tasks may have the same id.
            id: format!("{}-{}", task.id, artifact.id).into(),
            role: Role::Agent,
            parts: artifact.parts.clone(),
            metadata: artifact.metadata.clone(),
            extensions: artifact.extensions.clone(),
            references: Vec::new(),
        })
    })
}

fn is_text(part: &Part) -> bool {
    match &part.content {
        Content::Text(_) => true,
        Content::Blob(blob) => blob.kind == BlobKind::Text,
        Content::Raw(_) | Content::Url(_) | Content::Data(_) => false,
    }
}

fn with_answers(task: Arc<Task>) -> Arc<Task> {
    let said: Vec<_> = answers(&task).collect();
    if said.is_empty() {
        return task;
    }
    let mut whole = (*task).clone();
    whole.history.extend(said);
    Arc::new(whole)
}

fn with_earlier(task: Arc<Task>, before: Vec<(TaskId, Vec<Arc<Message>>)>) -> Arc<Task> {
    if before.iter().all(|(_, messages)| messages.is_empty()) {
        return task;
    }
    let mut whole = (*task).clone();
    whole.earlier = before.iter().map(|(id, messages)| (*id, messages.len())).collect();
    let mut history: Vec<_> = before.into_iter().flat_map(|(_, messages)| messages).collect();
    history.append(&mut whole.history);
    whole.history = history;
    Arc::new(whole)
}
