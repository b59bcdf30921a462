//! The desk port: where workers, who have no address of their own, fetch an agent's turns and bring back what they say.
//!
//! A worker *leases* a turn and keeps it by being heard of. The desk knows turns, leases and who may come; the front knows
//! HTTP. An agent that is worked on by workers shows its desk by [`Agent::desk`](super::agent::Agent::desk).

use std::any::Any;
use std::time::Duration;

use futures_util::stream::BoxStream;

use super::Future;
use crate::TurnId;

pub trait Desk: Send + Sync + 'static {
    /// Whether whoever shows this secret, or none, is one of its workers.
    fn admits(&self, secret: Option<&str>) -> bool;

    /// Whether it asks nobody for a secret.
    fn is_open(&self) -> bool;

    /// Takes the place of a desk whose agent this one's replaces, before either has a turn of the new agent: turns that
    /// are waited for or worked on there go on here.
    fn adopt(&self, before: &dyn Desk);

    /// What it really is, for another of its kind.
    fn as_any(&self) -> &dyn Any;

    /// A turn for the worker of that name, as soon as there is one; none within `wait`. Nothing is taken if this is dropped
    /// before it answers.
    fn lease(&self, worker: &str, wait: Duration) -> Future<'static, Option<Leased>>;

    /// Turns for that worker, one after the other, at most `slots` unfinished at a time.
    fn notices(&self, worker: &str, slots: usize) -> BoxStream<'static, Notice>;

    /// Takes a worker's word on a turn it has leased, and answers when it was heard. Words that wait go on waiting if this
    /// is dropped.
    fn take(
        &self,
        turn: TurnId,
        lease: String,
        delivery: Option<String>,
        word: Word,
    ) -> Future<'static, Result<Contact, Refusal>>;
}

/// A turn in a worker's hands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leased {
    pub turn: TurnId,
    /// Known to this worker alone; every word on the turn comes with it.
    pub lease: String,
    /// It ends so long after the worker was last heard of.
    pub lease_ms: u64,
    /// The turn as workers are told of it: a JSON object on one line.
    pub told: String,
}

/// What a worker is told without asking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    Turn(Leased),
    /// The caller wants this turn, which the worker has, to stop.
    Cancelled(TurnId),
}

/// What a worker says on a turn. Events are the JSON objects that programs and endpoints write, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// It is still there.
    Alive,
    Events(Vec<String>),
    /// Its last word; the turn has completed unless the event says otherwise. None: it has nothing more to say.
    Deliver(Option<String>),
    /// It cannot do it. If it says so, another may try.
    Fail {
        says: Option<String>,
        retryable: bool,
    },
}

/// What a worker is told when it is heard of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contact {
    /// The caller wants the turn to stop.
    pub cancelled: bool,
    /// The turn has ended, or is another worker's from now on.
    pub over: bool,
    pub lease_ms: u64,
}

/// Why a worker's word is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Nothing is known of such a turn.
    Unknown,
    /// It has ended.
    Over,
    /// It waits for a worker, or another has it.
    NotYours,
    /// None of these events was taken; what is wrong with which.
    Unreadable(String),
}
