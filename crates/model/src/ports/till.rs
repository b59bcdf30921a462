//! Where a turn is paid for.
//!
//! An agent with a price has a [`Till`]: before a turn begins it says what is set aside for it, and that goes along in the
//! very commit that begins the turn. The [`Books`] end it in the very commit that ends the turn, from nothing but what the
//! log says was set aside, so that whoever ends a turn, in whichever process and however late, can. Neither reads anything:
//! a store refuses a commit that would leave an account below its floor, and the till says what that means to a caller.

use std::sync::Arc;

use super::store::Conflict;
use crate::{ContextId, Entry, Fault, Json, RecordChange, State, TaskId, Time, TurnId};

pub trait Till: Send + Sync + 'static {
    /// What is set aside for a turn; `None` for one that costs nothing. A fault here means that the turn does not begin.
    fn hold(&self, asked: &Asked<'_>) -> Result<Option<Held>, Fault>;

    /// The commit that should have begun the turn met this: what the caller is told, if it is about money.
    fn refused(&self, hold: &Json, met: &Conflict) -> Option<Fault>;
}

/// A turn that is about to begin.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    pub agent: &'a Arc<str>,
    pub tenant: &'a Arc<str>,
    pub payer: &'a Arc<str>,
    /// Whether the payer has shown who it is.
    pub known: bool,
    pub task: TaskId,
    pub context: &'a ContextId,
    pub turn: TurnId,
    /// The task begins with it.
    pub first: bool,
    pub now: Time,
}

/// What goes along in the commit that begins a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Kept in the log with the turn: all that is needed to end it.
    pub hold: Json,
    pub records: Vec<RecordChange>,
    pub entries: Vec<Entry>,
}

pub trait Books: Send + Sync + 'static {
    /// Ends what was set aside.
    fn settle(&self, ended: &Ended<'_>) -> Result<Settled, Fault>;
}

/// A turn that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended<'a> {
    pub hold: &'a Json,
    /// The facts the turn told of itself, such as its usage.
    pub facts: Option<&'a Json>,
    /// The task's metadata, with what earlier turns cost.
    pub metadata: Option<&'a Json>,
    pub state: State,
    /// How long it ran; not known of one that was cut off.
    pub ran_ms: Option<u64>,
    pub now: Time,
}

/// What goes along in the commit that ends a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    pub records: Vec<RecordChange>,
    pub entries: Vec<Entry>,
    /// What the caller is told: laid over the task's metadata.
    pub metadata: Json,
}
