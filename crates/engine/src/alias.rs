//! Ids that callers choose. In every dialect an id is tried first as the caller's own alias at that agent, then as a
//! task's id. An alias is unique per caller, agent and mount, so equal aliases of two callers never collide.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use model::ports::agent::Agent;
use model::ports::store::{AliasWrite, Commit, Guard, KeyUse};
use model::{Again, CallScope, Fault, Kind, Send, TaskId, Time};
use sha2::{Digest, Sha256};

use crate::live::Live;
use crate::open::{OpenProgress, To, follow_up, open};
use crate::visibility::LookupKind;
use crate::{Engine, Shared, cancel, troubled};

/// How often a send repeats when other sends move its alias.
const TRIES: usize = 16;

/// An alias that a new task takes.
#[derive(Clone)]
pub(crate) struct AliasClaim {
    pub(crate) text: Arc<str>,
    key: [u8; 32],
    /// The settled task that holds the alias now.
    pub(crate) was: Option<TaskId>,
    /// The new task continues the conversation of that task.
    goes_on: bool,
    /// A second alias of the task, written together with the first.
    also: Option<Box<[u8; 32]>>,
}

impl AliasClaim {
    /// The task that the new task continues.
    pub(crate) fn follows(&self) -> Option<TaskId> {
        self.was.filter(|_| self.goes_on)
    }

    /// Adds the alias to the commit, which fails if the alias has changed since it was read.
    pub(crate) fn add_to(&self, commit: &mut Commit, task: TaskId) {
        commit.guards.push(Guard::AliasIs { key: self.key, task: self.was });
        commit.aliases.push(AliasWrite { key: self.key, task });
        commit.aliases.extend(self.also.as_ref().map(|key| AliasWrite { key: **key, task }));
    }
}

fn key(place: &CallScope, alias: &str) -> [u8; 32] {
    key_at(place, &place.mount, alias)
}

fn key_at(place: &CallScope, mount: &str, alias: &str) -> [u8; 32] {
    let mut hash = Sha256::new();
    // No caller has an empty name.
    let owner = if place.ids.as_ref().is_some_and(|ids| ids.shared) { "" } else { &*place.caller.name };
    for text in [&*place.caller.tenant, mount, &*place.agent, owner, alias] {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text);
    }
    hash.finalize().into()
}

/// The task with this id, if the caller may see it.
async fn own_id(shared: &Shared, place: &CallScope, text: &str) -> Result<Option<TaskId>, Fault> {
    let Ok(id) = text.parse::<TaskId>() else { return Ok(None) };
    Ok(shared.visible_live(place, id, LookupKind::Task).await?.map(|(_, task)| task.id))
}

/// Cancels a task whose alias passes to another task. A task that settles before the request is fine too.
async fn stop(shared: &Arc<Shared>, live: &Live) -> Result<(), Fault> {
    match cancel::request(shared, live, None).await {
        Ok(_) => Ok(()),
        Err(fault) if matches!(fault.kind, Kind::TaskNotCancelable | Kind::TaskNotFound) => Ok(()),
        Err(fault) => Err(fault),
    }
}

/// A task as named by a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResolvedTask {
    pub(crate) task: TaskId,
    pub(crate) by_alias: bool,
}

impl Shared {
    pub(crate) async fn named(&self, place: &CallScope, id: &str) -> Result<ResolvedTask, Fault> {
        // Most stores never contain an alias; their readers skip the lookup.
        if self.aliases.load(Ordering::Relaxed)
            && let Some(task) = self.store.alias(key(place, id)).await.map_err(troubled)?
        {
            return Ok(ResolvedTask { task, by_alias: true });
        }
        let task = id.parse().map_err(|_| Fault::task_not_found(id))?;
        Ok(ResolvedTask { task, by_alias: false })
    }
}

impl Engine {
    /// A send under the caller's own id: opens the task, continues it, or opens the successor of a settled task. A send
    /// that loses a race to open the task becomes a message to the winner's task.
    pub(crate) async fn begin_alias(
        shared: &Arc<Shared>,
        place: &CallScope,
        agent: Arc<dyn Agent>,
        send: Send,
        idempotency: Option<(KeyUse, Time)>,
    ) -> Result<OpenProgress, Fault> {
        let text: Arc<str> = send.alias.as_deref().unwrap_or_default().into();
        let key = key(place, &text);
        let also = place.ids.as_ref().and_then(|ids| ids.also.as_ref());
        let also = also.map(|(mount, name)| Box::new(key_at(place, mount, name)));
        let again = place.ids.as_ref().map(|ids| ids.again).unwrap_or_default();
        shared.aliases.store(true, Ordering::Relaxed);
        for _ in 0..TRIES {
            let was = shared.store.alias(key).await.map_err(troubled)?;
            let mut send = send.clone();
            if was.is_none()
                && again == Again::Continue
                && let Some(id) = own_id(shared, place, &text).await?
            {
                // Not an alias but a task's own id: the message continues that task. A settled task is not succeeded.
                let to = To::task(id);
                return follow_up(shared, place, agent, to, send, idempotency).await;
            }
            if let Some(id) = was {
                let Some(live) = shared.live(id).await? else { continue };
                let task = live.snapshot()?;
                let goes_on = match again {
                    Again::Continue => !task.core.is_settled(),
                    Again::Restart | Again::Refuse => task.state().is_interrupted() && task.core.is_at_rest(),
                };
                if goes_on {
                    let to = To { alias: Some(text.clone()), ..To::task(id) };
                    match follow_up(shared, place, agent.clone(), to, send, idempotency).await {
                        Err(fault) if fault.kind == Kind::TaskSettled => continue,
                        begun => return begun,
                    }
                }
                match again {
                    Again::Continue => {}
                    Again::Refuse => return Err(Fault::params("id", "task id already in use")),
                    Again::Restart => stop(shared, &live).await?,
                }
                match &send.context {
                    // A restarted task may have another context than the task it replaces.
                    _ if again == Again::Restart => {}
                    Some(context) if *context != task.context => {
                        let message = "the task belongs to another context; leave it out or send the task's own";
                        return Err(Fault::params("message.contextId", message));
                    }
                    Some(_) => {}
                    None => send.context = Some(task.context.clone()),
                }
            }
            let (goes_on, also) = (again == Again::Continue, also.clone());
            let claim = AliasClaim { text: text.clone(), key, was, goes_on, also };
            match open(shared, place, agent.clone(), send, idempotency, Some(claim)).await? {
                OpenProgress::Taken => continue,
                begun => return Ok(begun),
            }
        }
        Err(Fault::new(Kind::Unavailable, "too many requests use this id at once; try again").retry_after(1))
    }
}
