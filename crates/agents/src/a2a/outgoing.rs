//! Builds the request of a turn: its messages joined into one, with the remote context and task.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use model::call::Idempotency;
use model::ports::agent::Turn;
use model::{ContextId, Inbound, Json, Message, Part, Role, Send, Wait};
use tokio::time::Instant;

use super::Shared;
use super::bound::Bound;
use crate::delegation::Delegation;

/// Most history messages to request with a whole answer. The reply repeats our own message, so none are requested
/// after a large one.
const HISTORY: u32 = 100;
const LARGE: usize = 16 << 10;

/// Builds the message. Every run of the turn must produce the same bytes: an idempotency key is valid for one
/// request.
pub(super) fn message(
    shared: &Shared,
    turn: &Turn,
    ours: &ContextId,
    before: Option<&Bound>,
) -> (Send, Option<Instant>) {
    let newest = turn.messages.last();
    let goes_on = before.filter(|bound| !bound.settled);
    let followed = before.filter(|bound| bound.settled);
    let theirs = before.and_then(|bound| bound.context.clone()).or_else(|| shared.contexts.lock().get(ours));
    let context = theirs.or_else(|| Some(ours.clone()).filter(|_| shared.options.own_contexts));
    let (delegation, deadline) = delegation(shared, turn);
    let metadata = merged(turn.messages.iter().filter_map(|inbound| inbound.message.metadata.as_ref()));
    let message = Message {
        id: turn.id.to_string().into(),
        role: Role::User,
        // Messages that arrived together are sent as one: a task that ends with the first would not get the second.
        parts: turn.messages.iter().flat_map(|inbound| inbound.message.parts.iter().cloned()).collect(),
        metadata: Some(delegation.write(metadata.as_ref())),
        extensions: once(turn.messages.iter().flat_map(|inbound| &inbound.message.extensions)),
        // Ids of our tasks mean nothing there; the id of the remote task that this one follows does.
        references: followed.map(|bound| bound.task.clone()).into_iter().collect(),
    };
    let large = message.parts.iter().map(Part::weight).sum::<usize>() > LARGE;
    let send = Send {
        message,
        task: goes_on.map(|bound| bound.task.clone()),
        // Where senders choose ids, a task gets our task's id, and one that follows a settled task gets the turn's.
        alias: match (goes_on, followed) {
            (Some(_), _) => None,
            (None, None) => Some(turn.task.to_string()),
            (None, Some(_)) => Some(turn.id.to_string()),
        },
        context,
        wait: Wait::Rest { max_ms: None },
        // All messages of a new task are new; a continued task has a history that was passed on before.
        history: Some(if large || goes_on.is_some() { 0 } else { HISTORY }),
        accepted_output: newest.map(|inbound| inbound.accepted_output.clone()).unwrap_or_default(),
        metadata: newest.and_then(|inbound| inbound.metadata.clone()),
        push: None,
        extensions: once(turn.messages.iter().flat_map(|inbound: &Arc<Inbound>| &inbound.extensions)),
        trace: newest.and_then(|inbound| inbound.trace.clone()),
        idempotency: Some(Idempotency { key: turn.id.to_string(), body: [0; 32] }),
    };
    (send, deadline)
}

/// The delegation entry, and the deadline. The entry states the time that remained when the turn began, so it is
/// the same for every attempt; the deadline is the time that remains now.
fn delegation(shared: &Shared, turn: &Turn) -> (Delegation, Option<Instant>) {
    let all = turn.messages.iter().map(|inbound| Delegation::of(&inbound.message).unwrap_or_default());
    // Of several messages, the one with the most hops counts.
    let way = all.max_by_key(|way| way.hops).unwrap_or_default();
    let deadline = way.deadline_ms.map(|given| {
        let began = turn.id.0.get_timestamp().map_or(0, |stamp| {
            let (seconds, nanos) = stamp.to_unix();
            seconds * 1_000 + u64::from(nanos / 1_000_000)
        });
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis() as u64);
        let gone = if began == 0 { 0 } else { now.saturating_sub(began) };
        Instant::now() + Duration::from_millis(given.saturating_sub(gone))
    });
    (way.passed_on(&shared.me, way.deadline_ms), deadline)
}

fn merged<'j>(all: impl Iterator<Item = &'j Json>) -> Option<Json> {
    all.fold(None, |so_far: Option<Json>, json| Some(so_far.map_or_else(|| json.clone(), |known| known.merged(json))))
}

/// The names without duplicates, in order.
fn once<'n>(names: impl Iterator<Item = &'n String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for name in names {
        if !kept.contains(name) {
            kept.push(name.clone());
        }
    }
    kept
}
