//! Operators answer tasks that wait for a message, in the name of their owners.

use std::sync::Arc;

use model::ports::Future;
use model::{CallScope, Caller, Fault, Send, Task, TaskId};

use crate::open::{OpenProgress, To, follow_up};
use crate::{Engine, Shared};

impl Engine {
    /// Continues a task with a message of its owner, whose scope `place` is. A task that does not wait for one is refused.
    /// Returns the task as of the message.
    pub fn answer_by_operator(&self, place: CallScope, id: TaskId, send: Send) -> Future<'_, Result<Arc<Task>, Fault>> {
        Box::pin(async move {
            self.shared.refuse_if_draining()?;
            let agent = self.checked_agent(&place, &send)?;
            let to = To { only_waiting: true, ..To::task(id) };
            let shared = self.shared.clone();
            let begun = async move { follow_up(&shared, &place, agent, to, send, None).await };
            match Shared::detached(begun).await? {
                OpenProgress::Going { at, .. } | OpenProgress::Over { task: at, .. } => Ok(at),
                OpenProgress::Repeat { .. } | OpenProgress::Taken => {
                    Err(Fault::internal("an answer without a key or an alias was taken for a repeat"))
                }
            }
        })
    }
}

/// The scope in which the owner of a task sees it, wherever it was opened.
pub fn owners_scope(task: &Task, dialect: &str) -> CallScope {
    let (tenant, name) = (task.tenant.clone(), task.owner.clone());
    CallScope {
        caller: Caller { tenant, name, authenticated: true, scopes: Arc::default() },
        agent: task.agent.clone(),
        mount: "a2a".into(),
        views: task.views.clone(),
        reads: task.views.clone(),
        parties: task.parties.clone(),
        dialect: dialect.into(),
        ids: None,
    }
}
