//! Child tasks: tasks that a turn opens to get its own work done, such as a system's nodes.
//!
//! A child is a task like any other, with its own log, its own agent and that agent's restart rule. It belongs to the
//! parent's owner, and is listed only under its parent. The parent chooses a key for each child: opening a key again
//! finds the existing child, so that an interrupted turn can repeat all its steps without opening a child twice. A
//! child is opened in one commit with the parent's preceding events, so that the parent's log always explains the
//! child.
//!
//! A turn with children binds a name that begins with [`BOUND`]: if its task ends other than by completing, the code
//! that ends it also stops the children that still run.

use std::sync::Arc;

use super::Future;
use crate::{ContextId, Fault, Kind, Message, Task, TaskId};

/// The prefix of the bound name of a turn with children.
pub const BOUND: &str = "system:";

/// A task to be opened for a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    /// Its key, unique among the children of its parent.
    pub key: String,
    pub agent: Arc<str>,
    pub context: ContextId,
    pub message: Message,
}

/// An opened child.
#[derive(Clone, Debug)]
pub struct OpenedChild {
    pub id: TaskId,
    /// The settled task, if the child settled at once.
    pub over: Option<Arc<Task>>,
}

/// A turn's access to its children.
pub trait Children: Send + Sync + 'static {
    /// The id of the child with this key, whether or not it was opened.
    fn id(&self, key: &str) -> TaskId;

    /// Opens the child, or finds it, with the next commit of the turn. That commit contains everything the turn has
    /// emitted so far; the turn must emit something afterwards, or no commit happens. An immediate error means that
    /// nothing will be opened.
    fn open(&self, child: Child) -> Result<Future<'static, Result<OpenedChild, Fault>>, Fault>;

    /// Whether the child was opened before.
    fn find(&self, child: TaskId) -> Future<'static, Result<bool, Fault>>;

    /// The child, with its large parts, as soon as it has settled or waits for input. `None` if the task does not exist
    /// or no longer exists.
    fn at_rest(&self, child: TaskId) -> Future<'static, Result<Option<Arc<Task>>, Fault>>;

    /// Sends a message to a child that waits for input. A message with the same id is sent once.
    fn tell(&self, child: TaskId, message: Message) -> Future<'static, Result<(), Fault>>;

    /// Requests the child's cancellation; on return the request is in its log. Does nothing to a child that has settled
    /// or does not exist.
    fn cancel(&self, child: TaskId) -> Future<'static, Result<(), Fault>>;

    /// Resolves when the logged state of the turn's own task satisfies `holds`: for steps that must not precede the
    /// commit of an emitted event.
    fn logged(&self, holds: Box<dyn Fn(&Task) -> bool + Send + Sync>) -> Future<'static, Result<(), Fault>>;
}

/// An implementation without children, for turns that run outside the engine.
pub fn none() -> Arc<dyn Children> {
    struct Nobody;
    fn refused<T: Send + 'static>() -> Future<'static, Result<T, Fault>> {
        Box::pin(std::future::ready(Err(Fault::new(Kind::Unsupported, "this turn cannot open tasks"))))
    }
    impl Children for Nobody {
        fn id(&self, _: &str) -> TaskId {
            TaskId(uuid::Uuid::nil())
        }
        fn open(&self, _: Child) -> Result<Future<'static, Result<OpenedChild, Fault>>, Fault> {
            Ok(refused())
        }
        fn find(&self, _: TaskId) -> Future<'static, Result<bool, Fault>> {
            refused()
        }
        fn at_rest(&self, _: TaskId) -> Future<'static, Result<Option<Arc<Task>>, Fault>> {
            refused()
        }
        fn tell(&self, _: TaskId, _: Message) -> Future<'static, Result<(), Fault>> {
            refused()
        }
        fn cancel(&self, _: TaskId) -> Future<'static, Result<(), Fault>> {
            refused()
        }
        fn logged(&self, _: Box<dyn Fn(&Task) -> bool + Send + Sync>) -> Future<'static, Result<(), Fault>> {
            refused()
        }
    }
    Arc::new(Nobody)
}

/// Whether a task has, or may have, children.
pub fn has(task: &Task) -> bool {
    [&task.bound, &task.bound_before].into_iter().flatten().any(|name| name.starts_with(BOUND))
}
