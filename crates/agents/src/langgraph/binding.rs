//! The thread and the run of a turn at the graph server.

use model::ports::agent::Turn;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Namespace of threads for contexts whose ids are not used as thread ids.
const NAMESPACE: Uuid = Uuid::from_u128(0x3f6c_4b0e_5d0a_4c5e_9a41_7d1f_c2b8_6e90);

/// The binding of a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RunBinding {
    pub(super) thread: String,
    pub(super) run: String,
}

impl RunBinding {
    pub(super) fn read(text: Option<&str>) -> Option<RunBinding> {
        serde_json::from_str(text?).ok()
    }

    pub(super) fn text(&self) -> String {
        serde_json::json!({"thread": self.thread, "run": self.run}).to_string()
    }
}

/// The thread of a turn's context: the context id itself, where callers are not isolated. A named caller's contexts
/// are private, so its thread ids are derived from caller and context. Derived ids are UUIDs of version 5, and a
/// context id that looks like one is never used as a thread id: no caller can name another's thread.
pub(super) fn thread(turn: &Turn) -> Uuid {
    let context = turn.context.as_str();
    if &*turn.tenant == "default"
        && &*turn.caller == "anonymous"
        && context.len() == 36
        && let Ok(thread) = Uuid::try_parse(context)
        && thread.get_version_num() != 5
    {
        return thread;
    }
    Uuid::new_v5(&NAMESPACE, format!("{}\u{1f}{}\u{1f}{context}", turn.tenant, turn.caller).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{text, turn};

    fn of(tenant: &str, caller: &str, context: &str) -> Uuid {
        let turn = Turn { tenant: tenant.into(), caller: caller.into(), context: context.into(), ..turn(text("hi")) };
        thread(&turn)
    }

    #[test]
    fn a_context_that_is_a_thread_id_is_the_thread() {
        let id = "0190f3c4-1111-7222-8333-444455556666";
        assert_eq!(of("default", "anonymous", id).to_string(), id);
        assert_eq!(of("default", "anonymous", "c1"), of("default", "anonymous", "c1"));
    }

    #[test]
    fn nobody_can_name_another_s_thread() {
        let id = "0190f3c4-1111-7222-8333-444455556666";
        let hers = of("default", "ada", id);
        assert_ne!(hers.to_string(), id);
        assert_ne!(of("default", "anonymous", &hers.to_string()), hers);
        let all = [hers, of("default", "bob", id), of("acme", "ada", id), of("acme", "anonymous", id)];
        for (i, one) in all.iter().enumerate() {
            assert!(!all[..i].contains(one));
        }
    }

    #[test]
    fn a_place_reads_back() {
        let place = RunBinding { thread: "t".into(), run: "r".into() };
        assert_eq!(RunBinding::read(Some(&place.text())), Some(place));
        assert_eq!(RunBinding::read(Some("elsewhere")), None);
    }
}
