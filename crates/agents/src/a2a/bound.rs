//! The binding of a turn here to the task and the context at the remote agent.
//!
//! The binding is stored in our task's log. A turn that a crash interrupted finds its remote task by it, and the
//! answer to a remote question goes to the task that asked.

use std::collections::{HashMap, VecDeque};

use model::ports::agent::Turn;
use model::{ContextId, Task, TurnId};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The remote task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Bound {
    /// The turn that was sent to it.
    pub(super) turn: TurnId,
    /// The remote task's URL, for log readers.
    pub(super) url: String,
    pub(super) task: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) context: Option<ContextId>,
    /// The question that the remote task ended with, so that it is not mistaken for a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) asked: Option<String>,
    /// The remote task has ended: the next message opens another.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) settled: bool,
}

impl Bound {
    pub(super) fn read(text: &str) -> Option<Bound> {
        serde_json::from_str(text).ok()
    }

    pub(super) fn write(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The binding that an earlier attempt of this turn stored.
    pub(super) fn of_turn(turn: &Turn) -> Option<Bound> {
        turn.bound.as_deref().and_then(Bound::read).filter(|bound| bound.turn == turn.id)
    }

    /// The binding of the task's previous turn, which this turn continues.
    pub(super) fn before(turn: &Turn) -> Option<Bound> {
        turn.so_far.bound_before.as_deref().and_then(Bound::read)
    }
}

/// The id of our context at the remote agent: one for all tasks of a context, and different for callers that are
/// isolated from each other. Two tenants who both name a context `c` must not share one there.
pub(super) fn context_of(task: &Task) -> ContextId {
    let wall = task.views.first().map(|view| &*view.0).unwrap_or_default();
    let mut hash = Sha256::new();
    for text in ["rialto context", wall, task.context.as_str()] {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text.as_bytes());
    }
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.finalize()[..16]);
    ContextId(uuid::Builder::from_custom_bytes(bytes).into_uuid().to_string().into())
}

/// Contexts that the remote agent renamed. The oldest entries are dropped; a later message in such a context opens
/// a new one there.
#[derive(Debug, Default)]
pub(super) struct Contexts {
    theirs: HashMap<ContextId, ContextId>,
    order: VecDeque<ContextId>,
}

const MAX_CONTEXTS: usize = 10_000;

impl Contexts {
    pub(super) fn get(&self, ours: &ContextId) -> Option<ContextId> {
        self.theirs.get(ours).cloned()
    }

    pub(super) fn put(&mut self, ours: ContextId, theirs: ContextId) {
        if self.theirs.insert(ours.clone(), theirs).is_none() {
            self.order.push_back(ours);
            if self.order.len() > MAX_CONTEXTS
                && let Some(oldest) = self.order.pop_front()
            {
                self.theirs.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binding_is_read_as_it_was_written_and_by_later_versions() {
        let turn: TurnId = "0190f3c4-1111-7222-8333-444455556666".parse().unwrap();
        let bound = Bound {
            turn,
            url: "https://a/".into(),
            task: "t".into(),
            context: Some("c".into()),
            asked: None,
            settled: false,
        };
        assert_eq!(
            bound.write(),
            r#"{"turn":"0190f3c4-1111-7222-8333-444455556666","url":"https://a/","task":"t","context":"c"}"#
        );
        assert_eq!(Bound::read(&bound.write()), Some(bound.clone()));
        let settled = Bound { settled: true, context: None, asked: Some("q".into()), ..bound };
        assert_eq!(Bound::read(&settled.write()), Some(settled));
        assert_eq!(Bound::read("remote-7"), None);
    }

    #[test]
    fn conversations_are_forgotten_in_order() {
        let mut contexts = Contexts::default();
        for n in 0..=MAX_CONTEXTS {
            contexts.put(n.to_string().as_str().into(), format!("t{n}").as_str().into());
        }
        assert_eq!(contexts.get(&"0".into()), None);
        assert_eq!(contexts.get(&"1".into()), Some("t1".into()));
        contexts.put("1".into(), "other".into());
        assert_eq!((contexts.get(&"1".into()), contexts.order.len()), (Some("other".into()), MAX_CONTEXTS));
    }
}
