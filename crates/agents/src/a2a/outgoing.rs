//! What a turn sends: its messages as one, in the conversation and the task it belongs to over there.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use model::call::Idempotency;
use model::ports::agent::Turn;
use model::{ContextId, Inbound, Json, Message, Part, Role, Send, Wait};
use tokio::time::Instant;

use super::Shared;
use super::bound::Bound;
use crate::delegation::Delegation;

/// What an agent says on the way, at most, where its answer comes whole. Our own message comes back with it: none is asked
/// for after a large one.
const HISTORY: u32 = 100;
const LARGE: usize = 16 << 10;

/// What is sent. It is the same, to the byte, however often the turn is run: an idempotency key is good for one request.
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
        // Messages that waited for each other are one: a task that ends with the first would not hear the second.
        parts: turn.messages.iter().flat_map(|inbound| inbound.message.parts.iter().cloned()).collect(),
        metadata: Some(delegation.write(metadata.as_ref())),
        extensions: once(turn.messages.iter().flat_map(|inbound| &inbound.message.extensions)),
        // Ours mean nothing there; what this follows does.
        references: followed.map(|bound| bound.task.clone()).into_iter().collect(),
    };
    let large = message.parts.iter().map(Part::weight).sum::<usize>() > LARGE;
    let send = Send {
        message,
        task: goes_on.map(|bound| bound.task.clone()),
        // Where senders choose ids a task has ours, and one that follows a settled one has the turn's.
        alias: match (goes_on, followed) {
            (Some(_), _) => None,
            (None, None) => Some(turn.task.to_string()),
            (None, Some(_)) => Some(turn.id.to_string()),
        },
        context,
        wait: Wait::Rest { max_ms: None },
        // Of a task that begins with this all that is said is news; one that goes on has said much before.
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

/// How the message is passed on, and until when it makes sense. The time that is said is what there was when the turn began,
/// and so the same for every attempt; what is kept to is what is left.
fn delegation(shared: &Shared, turn: &Turn) -> (Delegation, Option<Instant>) {
    let all = turn.messages.iter().map(|inbound| Delegation::of(&inbound.message).unwrap_or_default());
    // Of several the one with the longest way counts.
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

/// Each name once, in order.
fn once<'n>(names: impl Iterator<Item = &'n String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for name in names {
        if !kept.contains(name) {
            kept.push(name.clone());
        }
    }
    kept
}
