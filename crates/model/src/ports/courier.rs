//! The courier port: brings letters to webhooks. The engine says what is delivered, in which order and when again; the
//! courier knows the wire, the network and the seal.

use std::sync::Arc;

use bytes::Bytes;

use super::Future;
use crate::{ContextId, Event, EventId, Fault, PushConfig, PushSpec, Task, TaskId};

pub trait Courier: Send + Sync + 'static {
    /// Refuses a config that could never be delivered to: its address, or what would not fit into a header.
    fn check(&self, config: &PushConfig) -> Result<(), Fault>;

    /// Makes a spec unreadable for everybody but [`Courier::open`], and bound to its task.
    fn seal(&self, task: TaskId, spec: &PushSpec) -> Result<Bytes, Fault>;

    fn open(&self, task: TaskId, sealed: &[u8]) -> Result<PushSpec, Fault>;

    /// What readers of this dialect are told.
    fn telling(&self, dialect: &str) -> Telling;

    /// Whether configs of this dialect go with their task: once its end was told or could not be, there is none any more.
    fn clears(&self, dialect: &str) -> bool {
        let _ = dialect;
        false
    }

    /// Who is on the other end: addresses that fail together. Scheme, host and port.
    fn endpoint(&self, spec: &PushSpec) -> Arc<str>;

    /// One attempt, with an end in sight. May be dropped.
    fn deliver(&self, letter: Letter) -> Future<'static, Receipt>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Telling {
    /// Every event by itself; the first as the task it opens.
    Events,
    /// The whole task, whenever its status changes.
    States,
}

/// What is to be delivered.
#[derive(Clone, Debug)]
pub struct Letter {
    /// The event it is about; the same in every attempt, so that receivers can tell repeats.
    pub id: EventId,
    /// 1 for the first.
    pub attempt: u32,
    pub config: Arc<str>,
    pub tenant: Arc<str>,
    pub context: ContextId,
    pub spec: Arc<PushSpec>,
    pub news: News,
}

#[derive(Clone, Debug)]
pub enum News {
    /// The task as of the event.
    Task(Arc<Task>),
    Event(Arc<Event>),
}

/// What became of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Receipt {
    Taken,
    /// The dialect has no word for this event; nothing was sent.
    Untold,
    /// Worth another attempt. `why` is for operators and holds no secrets.
    Failed {
        why: String,
        retry_after_ms: Option<u64>,
    },
    /// The receiver wants no more, or it can never be reached.
    Gone {
        why: String,
    },
}
