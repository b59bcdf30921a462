//! A batch of events, numbered, checked by the rules, encoded and ready to commit.

use bytes::Bytes;
use model::ports::store::{Append, Commit, IndexRow, Opening, Timer, TimerChange, TimerKind};
use model::{Body, Core, Epoch, Event, Limits, Opened, Seq, Shape, Task, Time, TransitionError, stored};

use crate::blobs;

pub(crate) struct EventBatch {
    pub(crate) events: Vec<Event>,
    pub(crate) commit: Commit,
}

/// The time of a batch, and the epoch of its writer.
#[derive(Clone, Copy)]
pub(crate) struct Stamp {
    pub(crate) now: Time,
    pub(crate) epoch: Option<Epoch>,
}

impl EventBatch {
    /// The first batch of a task, and the fold after it.
    pub(crate) fn opening(
        opened: Opened,
        fresh_context: bool,
        mut bodies: Vec<Body>,
        stamp: Stamp,
        limits: &Limits,
    ) -> Result<(EventBatch, Task), TransitionError> {
        let blobs = blobs::stow(&mut bodies, &opened.tenant, opened.id, limits.blob_bytes);
        let id = opened.id;
        let opening = Opening {
            context: opened.context.clone(),
            fresh_context,
            tenant: opened.tenant.clone(),
            agent: opened.agent.clone(),
            views: opened.views.clone(),
        };
        let first = Event { seq: Seq(1), at: stamp.now, body: Body::Opened(Box::new(opened)) };
        let mut task = Task::open(&first)?;
        let mut events = Vec::with_capacity(1 + bodies.len());
        events.push(first);
        for body in bodies {
            let event = Event { seq: task.seq().next(), at: stamp.now, body };
            task.apply(&event)?;
            events.push(event);
        }
        let row = row_of(&task.core, task.status.at);
        let timers = turn_timer(id, None, &task.core, limits).into_iter().collect();
        let append = Append {
            task: id,
            expected: Seq::ZERO,
            epoch: stamp.epoch,
            count: events.len() as u32,
            payload: Bytes::from(stored::encode(&events)),
            open: Some(opening),
            row: Some(row),
        };
        let commit = Commit { appends: vec![append], timers, blobs, ..Commit::default() };
        Ok((EventBatch { events, commit }, task))
    }

    /// A batch that follows the events folded into `task`.
    pub(crate) fn following(
        task: &Task,
        mut bodies: Vec<Body>,
        stamp: Stamp,
        limits: &Limits,
    ) -> Result<EventBatch, TransitionError> {
        let blobs = blobs::stow(&mut bodies, &task.tenant, task.id, limits.blob_bytes);
        let before = row_of(&task.core, task.status.at);
        let mut core = task.core;
        let mut status_at = task.status.at;
        let now = stamp.now.max(status_at);
        let mut events = Vec::with_capacity(bodies.len());
        for body in bodies {
            core.step(&body, now)?;
            if matches!(body, Body::Status(_) | Body::Replied(_)) {
                status_at = now;
            }
            events.push(Event { seq: core.seq, at: now, body });
        }
        let after = row_of(&core, status_at);
        let append = Append {
            task: task.id,
            expected: task.core.seq,
            epoch: stamp.epoch,
            count: events.len() as u32,
            payload: Bytes::from(stored::encode(&events)),
            open: None,
            row: (after != before).then_some(after),
        };
        let timers = turn_timer(task.id, Some(&task.core), &core, limits).into_iter().collect();
        Ok(EventBatch { events, commit: Commit { appends: vec![append], timers, blobs, ..Commit::default() } })
    }
}

fn row_of(core: &Core, status_at: Time) -> IndexRow {
    IndexRow {
        state: core.state,
        status_at,
        listed: core.shape == Shape::Task,
        running: core.turn.is_some(),
        settled: core.is_settled(),
    }
}

/// A turn that outlives its first commit has a durable timeout; the commit that ends the turn removes the timer.
fn turn_timer(task: model::TaskId, before: Option<&Core>, after: &Core, limits: &Limits) -> Option<TimerChange> {
    let kind = TimerKind::TurnTimeout;
    match (before.and_then(|core| core.turn), after.turn) {
        (old, Some(turn)) if old != Some(turn) => {
            let due = turn.started_at.plus_ms(limits.turn_timeout_ms);
            Some(TimerChange::Set(Timer { task, kind, due }))
        }
        (Some(_), None) => Some(TimerChange::Clear(task, kind)),
        (None | Some(_), _) => None,
    }
}
