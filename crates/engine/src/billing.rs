//! Billing of turns in the engine: when a reservation is made, and that it is settled exactly once.
//!
//! A reservation begins with the event that starts its turn and ends with the event that ends it, in the same commits.
//! Every write to a log goes through [`crate::live::Live::append`], so reservations are settled in one place. This
//! module does not interpret amounts.

use std::sync::Arc;

use model::ports::billing::{Billing, EndedTurn, Reservation, Settlement, TurnQuote};
use model::ports::store::Conflict;
use model::{Body, CallScope, Caller, Json, State, Task, TaskId, Time, TurnId};

use crate::product_tasks::SideWrites;

/// The reservation for a turn, and the till that interprets its refusal.
#[derive(Clone)]
pub(crate) struct Reserved {
    till: Arc<dyn Billing>,
    held: Reservation,
}

impl Reserved {
    pub(crate) fn new(till: &Arc<dyn Billing>, held: Reservation) -> Reserved {
        Reserved { till: till.clone(), held }
    }

    /// As stored in the log.
    pub(crate) fn hold(&self) -> Json {
        self.held.hold.clone()
    }

    pub(crate) fn along(&self) -> SideWrites {
        SideWrites { records: self.held.records.clone(), entries: self.held.entries.clone(), ..SideWrites::default() }
    }

    /// The fault for the caller, if the conflict is about this reservation.
    pub(crate) fn refused(&self, met: &Conflict) -> Option<model::Fault> {
        self.till.refused(&self.held.hold, met)
    }
}

/// The quote for a turn that a caller's message begins.
pub(crate) fn asked<'a>(
    place: &'a CallScope,
    (task, context): (TaskId, &'a model::ContextId),
    turn: TurnId,
    first: bool,
    now: Time,
) -> TurnQuote<'a> {
    let Caller { tenant, name, authenticated, .. } = &place.caller;
    TurnQuote { agent: &place.agent, tenant, payer: name, known: *authenticated, task, context, turn, first, now }
}

/// The quote for a turn that follows another at once. The sender of the last waiting message pays.
pub(crate) fn asked_next(task: &Task, turn: TurnId, now: Time) -> TurnQuote<'_> {
    let spoke = task.due.as_deref().and_then(|due| due.payer.as_ref());
    let payer = spoke.unwrap_or(&task.owner);
    // A sender that cannot pay was refused with its message; a message from before the agent had a price is paid by the
    // task's owner.
    let known = spoke.is_some() || **payer != *Caller::anonymous().name;
    let (agent, tenant, context) = (&task.agent, &task.tenant, &task.context);
    TurnQuote { agent, tenant, payer, known, task: task.id, context, turn, first: false, now }
}

/// How a draft ends a turn, where its events alone do not determine it.
#[derive(Clone, Copy, Default)]
pub(crate) struct TurnEnding {
    /// The end state that the settlement uses.
    pub(crate) state: Option<State>,
    /// The run time is unknown.
    pub(crate) cut_off: bool,
}

/// Settles the reservation of the open turn, if these events end the turn. The cost is added to the task's metadata and
/// to the ending event itself. Returns the writes for the commit.
pub(crate) fn close(
    books: Option<&Arc<dyn Settlement>>,
    task: &Task,
    bodies: &mut Vec<Body>,
    ending: TurnEnding,
    now: Time,
) -> Option<SideWrites> {
    let (due, turn) = (task.due.as_deref()?, task.core.turn?);
    let hold = due.hold.as_ref()?;
    let (mut core, mut facts) = (task.core, due.facts.clone());
    let at = bodies.iter().position(|body| {
        if let Body::Metadata(json) = body {
            facts = Some(facts.as_ref().map_or_else(|| json.clone(), |known| known.merged(json)));
        }
        // An event that may not follow is refused later, by the batch.
        core.step(body, now).is_ok() && core.turn.is_none_or(|open| open.id != turn.id)
    })?;
    let state = match (ending.state, &bodies[at]) {
        (Some(state), _) => state,
        (None, Body::Status(change)) => change.state,
        // The next turn follows at once only after a completed turn.
        (
            None,
            Body::Replied(_)
            | Body::TurnStarted { .. }
            | Body::Opened(_)
            | Body::Message(_)
            | Body::Bound { .. }
            | Body::Artifact(_)
            | Body::Metadata(_)
            | Body::CancelRequested { .. },
        ) => State::Completed,
    };
    let Some(books) = books else {
        tracing::error!(task = %task.id, turn = %turn.id, "a turn with a reservation has ended, but no billing settlement is registered");
        return None;
    };
    let ran_ms = (!ending.cut_off).then(|| now.0.saturating_sub(turn.started_at.0).max(0).unsigned_abs());
    let metadata = task.metadata.as_ref();
    let ended = EndedTurn { hold, facts: facts.as_ref(), metadata, state, ran_ms, now };
    let settled = match books.settle(&ended) {
        Ok(settled) => settled,
        Err(fault) => {
            tracing::error!(task = %task.id, turn = %turn.id, cause = %fault.cause_text(), "a turn could not be settled: {fault}");
            return None;
        }
    };
    let told = |known: &Option<Json>| {
        Some(known.as_ref().map_or_else(|| settled.metadata.clone(), |known| known.merged(&settled.metadata)))
    };
    // If another turn follows, the last event of this turn is the one before its start.
    let last = if matches!(bodies[at], Body::TurnStarted { .. }) { at.checked_sub(1) } else { Some(at) };
    match last.and_then(|last| bodies.get_mut(last)) {
        Some(Body::Status(change)) => change.metadata = told(&change.metadata),
        Some(Body::Replied(message)) => {
            let message = Arc::make_mut(message);
            message.metadata = told(&message.metadata);
        }
        Some(
            Body::Opened(_)
            | Body::Message(_)
            | Body::TurnStarted { .. }
            | Body::Bound { .. }
            | Body::Artifact(_)
            | Body::Metadata(_)
            | Body::CancelRequested { .. },
        )
        | None => {}
    }
    bodies.insert(at, Body::Metadata(settled.metadata));
    Some(SideWrites { records: settled.records, entries: settled.entries, ..SideWrites::default() })
}

/// Whether a conflict is about the settlement, and not about the next reservation: then the ledger is inconsistent. The
/// turn ends all the same, and the ledger's verification reports it.
pub(crate) fn is_about(closing: &SideWrites, beginning: Option<&SideWrites>, met: &Conflict) -> bool {
    let takes_from = |along: &SideWrites, account: &str| {
        let postings = along.entries.iter().flat_map(|entry| &entry.postings);
        postings.filter(|posting| posting.amount < 0).any(|posting| *posting.account == *account)
    };
    match met {
        Conflict::Record(kind, key, _) => closing.records.iter().any(|change| {
            let (closing_kind, closing_key, _) = change.about();
            (closing_kind, closing_key) == (kind, key)
        }),
        Conflict::Entry(id) => closing.entries.iter().any(|entry| entry.id == *id),
        Conflict::Funds(account, _) => {
            takes_from(closing, account) && !beginning.is_some_and(|begins| takes_from(begins, account))
        }
        Conflict::Seq(..) | Conflict::Epoch(..) | Conflict::Key(_) | Conflict::Alias(_) => false,
    }
}
