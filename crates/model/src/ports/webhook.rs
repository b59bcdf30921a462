//! The webhook port. The engine decides the content, the order and the retries of deliveries; the implementation
//! handles the wire format, the network and the encryption of configs.

use std::sync::Arc;

use bytes::Bytes;

use super::Future;
use crate::{ContextId, Event, EventId, Fault, PushConfig, PushSpec, Task, TaskId};

pub trait WebhookSender: Send + Sync + 'static {
    /// Refuses a config that could never be delivered: for its address, or for values that are invalid in a header.
    fn check(&self, config: &PushConfig) -> Result<(), Fault>;

    /// Encrypts a spec, bound to its task, so that only [`WebhookSender::open`] can read it.
    fn seal(&self, task: TaskId, spec: &PushSpec) -> Result<Bytes, Fault>;

    fn open(&self, task: TaskId, sealed: &[u8]) -> Result<PushSpec, Fault>;

    /// The webhook detail of this dialect.
    fn telling(&self, dialect: &str) -> WebhookDetail;

    /// Whether configs of this dialect are removed with their task's end: once the final event was delivered or given
    /// up.
    fn clears(&self, dialect: &str) -> bool {
        let _ = dialect;
        false
    }

    /// The endpoint, whose addresses fail together: scheme, host and port.
    fn endpoint(&self, spec: &PushSpec) -> Arc<str>;

    /// One delivery attempt, bounded in time. The future may be dropped.
    fn deliver(&self, letter: WebhookRequest) -> Future<'static, WebhookOutcome>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebhookDetail {
    /// Every event by itself; the first as the opened task.
    Events,
    /// The complete task whenever its status changes.
    States,
}

/// A delivery.
#[derive(Clone, Debug)]
pub struct WebhookRequest {
    /// The event it is about; the same in every attempt, so that receivers can detect repeats.
    pub id: EventId,
    /// Attempt number, from 1.
    pub attempt: u32,
    pub config: Arc<str>,
    pub tenant: Arc<str>,
    pub context: ContextId,
    pub spec: Arc<PushSpec>,
    pub news: WebhookBody,
}

#[derive(Clone, Debug)]
pub enum WebhookBody {
    /// The task as of the event.
    Task(Arc<Task>),
    Event(Arc<Event>),
}

/// The outcome of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebhookOutcome {
    Taken,
    /// The dialect has no form for this event; nothing was sent.
    Untold,
    /// Worth a retry. `why` is for operators and contains no secrets.
    Failed {
        why: String,
        retry_after_ms: Option<u64>,
    },
    /// The receiver refuses further deliveries, or can never be reached.
    Gone {
        why: String,
    },
}
