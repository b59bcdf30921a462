//! Tasks that a turn opens to get its own work done: a system's nodes.
//!
//! A child is a task like any other, with its own log, its own agent and that agent's rule for crashes. It belongs to the
//! parent's owner, and is listed only under its parent. A child is named by a key of its parent's choice: opening it again
//! finds the one that is there, so that a turn that was cut off can do all it did once more, and nothing happens twice. It is
//! opened in one commit with what its parent said before, so that there is no child of which the parent's log does not tell why.
//!
//! A turn with children says so by a bound name that begins with [`BOUND`]: should its task end in any other way than
//! by completing, whoever ends it sees to the children that still run.

use std::sync::Arc;

use super::Future;
use crate::{ContextId, Fault, Kind, Message, Task, TaskId};

/// How the bound name of a turn with children begins.
pub const BOUND: &str = "system:";

/// A task to be opened for a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    /// Its name among the children of its parent.
    pub key: String,
    pub agent: Arc<str>,
    pub context: ContextId,
    pub message: Message,
}

/// A child that is there.
#[derive(Clone, Debug)]
pub struct Opened {
    pub id: TaskId,
    /// The whole of it, if it was over at once.
    pub over: Option<Arc<Task>>,
}

/// How a turn gets at its children.
pub trait Children: Send + Sync + 'static {
    /// The id that the child of this key has, whether or not it was opened.
    fn id(&self, key: &str) -> TaskId;

    /// Opens the child, or finds it, with the next commit of the turn: that has everything the turn has said so far, and
    /// the turn must say something after, or there is none. An error is one at once: nothing is going to be opened.
    fn open(&self, child: Child) -> Result<Future<'static, Result<Opened, Fault>>, Fault>;

    /// Whether the child was opened before.
    fn find(&self, child: TaskId) -> Future<'static, Result<bool, Fault>>;

    /// The child as soon as it has settled or waits for somebody, large parts and all. `None` if there is no such task
    /// (any more).
    fn at_rest(&self, child: TaskId) -> Future<'static, Result<Option<Arc<Task>>, Fault>>;

    /// Says something to a child that asks. The same message, by its id, is said once.
    fn tell(&self, child: TaskId, message: Message) -> Future<'static, Result<(), Fault>>;

    /// Asks the child to stop; that it shall is in its log then. Nothing happens to one that has settled or is not there.
    fn cancel(&self, child: TaskId) -> Future<'static, Result<(), Fault>>;

    /// Resolves when the turn's own task is so in its log: for what must not happen before something said is kept.
    fn logged(&self, holds: Box<dyn Fn(&Task) -> bool + Send + Sync>) -> Future<'static, Result<(), Fault>>;
}

/// For turns that have no engine behind them: there are no children.
pub fn none() -> Arc<dyn Children> {
    struct Nobody;
    fn refused<T: Send + 'static>() -> Future<'static, Result<T, Fault>> {
        Box::pin(std::future::ready(Err(Fault::new(Kind::Unsupported, "this turn cannot open tasks"))))
    }
    impl Children for Nobody {
        fn id(&self, _: &str) -> TaskId {
            TaskId(uuid::Uuid::nil())
        }
        fn open(&self, _: Child) -> Result<Future<'static, Result<Opened, Fault>>, Fault> {
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
