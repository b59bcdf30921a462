//! The billing port.
//!
//! An agent with a price has a [`Billing`]: before a turn begins it computes the reservation, which is written in the same
//! commit that begins the turn. The [`Settlement`] settle it in the same commit that ends the turn, from the reservation in
//! the log alone, so that any process can end a turn at any later time. Neither reads the store: the store refuses a
//! commit that would put an account below its floor, and the billing translates that conflict to a fault.

use std::sync::Arc;

use super::store::Conflict;
use crate::{ContextId, Entry, Fault, Json, RecordChange, State, TaskId, Time, TurnId};

pub trait Billing: Send + Sync + 'static {
    /// The reservation for a turn; `None` for a turn without cost. After a fault the turn does not begin.
    fn hold(&self, asked: &TurnQuote<'_>) -> Result<Option<Reservation>, Fault>;

    /// The fault for the caller when the commit that begins the turn met this conflict, if the conflict concerns money.
    fn refused(&self, hold: &Json, met: &Conflict) -> Option<Fault>;
}

/// A turn that is about to begin.
#[derive(Clone, Copy, Debug)]
pub struct TurnQuote<'a> {
    pub agent: &'a Arc<str>,
    pub tenant: &'a Arc<str>,
    pub payer: &'a Arc<str>,
    /// Whether the payer is authenticated.
    pub known: bool,
    pub task: TaskId,
    pub context: &'a ContextId,
    pub turn: TurnId,
    /// The turn is the task's first.
    pub first: bool,
    pub now: Time,
}

/// The reservation written in the commit that begins a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Stored in the log with the turn; contains everything needed to settle it.
    pub hold: Json,
    pub records: Vec<RecordChange>,
    pub entries: Vec<Entry>,
}

pub trait Settlement: Send + Sync + 'static {
    /// Settles a reservation.
    fn settle(&self, ended: &EndedTurn<'_>) -> Result<Settled, Fault>;
}

/// A turn that has ended.
#[derive(Clone, Copy, Debug)]
pub struct EndedTurn<'a> {
    pub hold: &'a Json,
    /// The facts reported by the turn, such as its usage.
    pub facts: Option<&'a Json>,
    /// The task's metadata, including the cost of earlier turns.
    pub metadata: Option<&'a Json>,
    pub state: State,
    /// How long the turn ran; unknown for an interrupted turn.
    pub ran_ms: Option<u64>,
    pub now: Time,
}

/// The settlement written in the commit that ends a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    pub records: Vec<RecordChange>,
    pub entries: Vec<Entry>,
    /// The cost shown to the caller, merged over the task's metadata.
    pub metadata: Json,
}
