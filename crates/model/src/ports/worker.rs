//! The worker queue port: workers, which have no address of their own, lease an agent's turns here and return the
//! output.
//!
//! A worker *leases* a turn and keeps the lease by regular contact. The queue handles turns, leases and credentials; the
//! front handles HTTP. An agent whose turns run on workers returns its queue from
//! [`Agent::desk`](super::agent::Agent::desk).

use std::any::Any;
use std::time::Duration;

use futures_util::stream::BoxStream;

use super::Future;
use crate::TurnId;

pub trait WorkerQueue: Send + Sync + 'static {
    /// Whether a request with this secret, or with none, comes from one of its workers.
    fn admits(&self, secret: Option<&str>) -> bool;

    /// Whether it requires no secret.
    fn is_open(&self) -> bool;

    /// Takes over the turns of the queue of a replaced agent, waiting or leased, before either queue gets a turn of the
    /// new agent.
    fn adopt(&self, before: &dyn WorkerQueue);

    /// The workers that are connected now or have a turn, and the turns that wait for one.
    fn attendance(&self) -> Attendance {
        Attendance::default()
    }

    /// The concrete type, for `adopt`.
    fn as_any(&self) -> &dyn Any;

    /// A turn for the worker of that name, as soon as one is available; `None` after `wait`. No turn is leased if the
    /// future is dropped before it resolves.
    fn lease(&self, worker: &str, wait: Duration) -> Future<'static, Option<Leased>>;

    /// A stream of turns for that worker, at most `slots` unfinished at a time.
    fn notices(&self, worker: &str, slots: usize) -> BoxStream<'static, WorkerNotice>;

    /// Accepts a worker's report on a turn it has leased, and resolves when the report is processed. A queued report
    /// stays queued if the future is dropped.
    fn take(
        &self,
        turn: TurnId,
        lease: String,
        delivery: Option<String>,
        word: WorkerReport,
    ) -> Future<'static, Result<LeaseStatus, ReportError>>;
}

/// The workers of a queue at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attendance {
    /// Turns that no worker has leased yet.
    pub waiting: u64,
    /// By name.
    pub workers: Vec<WorkerPresence>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerPresence {
    pub name: String,
    /// Its requests that wait for a turn.
    pub connections: u32,
    /// The turns it has leased.
    pub turns: u32,
}

/// A leased turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leased {
    pub turn: TurnId,
    /// Known to this worker alone; every report on the turn carries it.
    pub lease: String,
    /// The lease expires this long after the worker's last contact.
    pub lease_ms: u64,
    /// The turn in the form workers receive: a JSON object on one line.
    pub told: String,
}

/// A message to a worker that it did not request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerNotice {
    Turn(Leased),
    /// A caller cancelled this turn, which the worker has leased.
    Cancelled(TurnId),
}

/// A worker's report on a turn. Events are the same JSON objects that programs and endpoints write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerReport {
    /// The worker still runs the turn.
    Alive,
    Events(Vec<String>),
    /// The last report; the turn completes unless the event says otherwise. `None`: no further output.
    Deliver(Option<String>),
    /// The worker cannot do the turn. If `retryable`, another worker may.
    Fail {
        says: Option<String>,
        retryable: bool,
    },
}

/// The response to a worker's contact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseStatus {
    /// A caller cancelled the turn.
    pub cancelled: bool,
    /// The turn has ended, or another worker has the lease now.
    pub over: bool,
    pub lease_ms: u64,
}

/// The reason a worker's report is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReportError {
    /// The turn is unknown.
    Unknown,
    /// The turn has ended.
    Over,
    /// The turn waits for a worker, or another worker has leased it.
    NotYours,
    /// None of the events was accepted; the text names the invalid event and the error.
    Unreadable(String),
}
