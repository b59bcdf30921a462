//! Tracks how often a message was delegated from agent to agent, also across servers.
//!
//! A chain of delegations may form a loop, or never end. So each delegated message carries in its metadata the
//! number of hops, the agents it passed, and the remaining time, and each agent checks them before it delegates
//! further. An agent that does not know the extension drops or keeps the entry; if it drops it, the count restarts,
//! which is no worse than no count.

use model::{Fault, Json, Message};
use serde::{Deserialize, Serialize};

/// The metadata member.
pub const KEY: &str = "https://rialto.dev/ext/delegation/v1";

/// Most hops; a longer chain counts as endless.
pub const MAX_HOPS: u32 = 8;

/// Most agents listed by name; the hop count goes on.
const MAX_VISITED: usize = 64;
const MAX_NAME: usize = 256;

/// The delegation entry of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delegation {
    /// Number of hops.
    #[serde(default)]
    pub hops: u32,
    /// The agents on the way, oldest first: `server/agent`.
    #[serde(default)]
    pub visited: Vec<String>,
    /// The remaining time in milliseconds when the message was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
}

impl Delegation {
    /// Reads the entry of a message; empty for one that was not delegated.
    pub fn of(message: &Message) -> Result<Delegation, Fault> {
        let metadata = message.metadata.as_ref().filter(|json| json.text().contains(KEY)).map(Json::to_value);
        let Some(said) = metadata.as_ref().and_then(|metadata| metadata.get(KEY)) else {
            return Ok(Delegation::default());
        };
        let unreadable = "it does not say how the message was passed on: expected {hops, visited, deadline_ms}";
        let said = Some(said).filter(|said| said.is_object()).and_then(|said| Delegation::deserialize(said).ok());
        let said = said.ok_or_else(|| refusal(unreadable))?;
        let odd = said.visited.len() > MAX_VISITED || said.visited.iter().any(|name| name.len() > MAX_NAME);
        if odd { Err(refusal(unreadable)) } else { Ok(said) }
    }

    /// Refuses a message that has passed this agent before, has too many hops, or is too late.
    pub fn check(&self, me: &str, max_hops: u32) -> Result<(), Fault> {
        if self.visited.contains(&kept(me)) {
            return Err(refusal(&format!(
                "this agent has passed the message on already ({}); break the ring of agents",
                self.visited.join(", ")
            )));
        }
        if self.hops >= max_hops {
            return Err(refusal(&format!(
                "the message was passed on {} times, and {max_hops} is the limit here; shorten the chain of agents",
                self.hops
            )));
        }
        if self.deadline_ms == Some(0) {
            return Err(refusal("the time for the message has run out; send it with more"));
        }
        Ok(())
    }

    /// The entry for the next hop.
    pub fn passed_on(&self, me: &str, deadline_ms: Option<u64>) -> Delegation {
        let mut visited = self.visited.clone();
        visited.push(kept(me));
        let surplus = visited.len().saturating_sub(MAX_VISITED);
        visited.drain(..surplus);
        Delegation { hops: self.hops.saturating_add(1), visited, deadline_ms }
    }

    /// The message's metadata with this entry.
    pub fn write(&self, metadata: Option<&Json>) -> Json {
        let own = Json::from_value(&serde_json::json!({ KEY: self }));
        metadata.map_or_else(|| own.clone(), |metadata| metadata.merged(&own))
    }
}

/// A name cut to the length that readers accept.
fn kept(name: &str) -> String {
    name.chars().take(MAX_NAME / 4).collect()
}

fn refusal(says: &str) -> Fault {
    Fault::params(format!("message.metadata[{KEY:?}]"), says)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::{Kind, Part, Role};
    use proptest::prelude::*;

    use super::*;

    fn message(metadata: Option<&str>) -> Message {
        Message {
            id: Arc::from("m"),
            role: Role::User,
            parts: vec![Part::text("x")],
            metadata: metadata.map(|text| Json::parse(text).unwrap()),
            extensions: vec![],
            references: vec![],
        }
    }

    fn said(inside: &str) -> Result<Delegation, Fault> {
        Delegation::of(&message(Some(&format!(r#"{{"other":1,"{KEY}":{inside}}}"#))))
    }

    #[test]
    fn a_message_at_first_hand_says_nothing_and_may_be_passed_on() {
        for metadata in [None, Some("{}"), Some(r#"{"a":{"hops":9}}"#)] {
            let first = Delegation::of(&message(metadata)).unwrap();
            assert_eq!(first, Delegation::default());
            first.check("s/a", 1).unwrap();
        }
        // The key inside another value is not the entry.
        assert_eq!(Delegation::of(&message(Some(&format!(r#"{{"a":"{KEY}"}}"#)))).unwrap(), Delegation::default());
    }

    #[test]
    fn each_hand_is_counted_and_named_beside_what_else_is_said() {
        let once = Delegation::default().passed_on("s/a", Some(500));
        let json = once.write(Some(&Json::parse(r#"{"z":1.0}"#).unwrap()));
        assert_eq!(json.text(), format!(r#"{{"z":1.0,"{KEY}":{{"deadline_ms":500,"hops":1,"visited":["s/a"]}}}}"#));
        let read = Delegation::of(&message(Some(json.text()))).unwrap();
        assert_eq!(read, once);
        assert_eq!(
            read.passed_on("t/b", None),
            Delegation { hops: 2, visited: vec!["s/a".into(), "t/b".into()], deadline_ms: None }
        );
    }

    #[test]
    fn rings_deep_chains_and_late_messages_are_refused_with_what_to_do() {
        let twice = said(r#"{"hops":2,"visited":["s/a","t/b"],"deadline_ms":100}"#).unwrap();
        twice.check("s/c", 3).unwrap();
        for (fault, says) in [
            (twice.check("s/a", 8), "break the ring"),
            (twice.check("s/c", 2), "shorten the chain"),
            (said(r#"{"hops":1,"deadline_ms":0}"#).unwrap().check("x", 8), "run out"),
        ] {
            let fault = fault.unwrap_err();
            assert_eq!(fault.kind, Kind::InvalidParams);
            assert!(fault.message.contains(says), "{fault}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_not_passed_on() {
        for inside in ["1", "[]", r#"{"hops":-1}"#, r#"{"hops":"2"}"#, r#"{"visited":[1]}"#] {
            assert_eq!(said(inside).unwrap_err().kind, Kind::InvalidParams, "{inside}");
        }
        let names = serde_json::to_string(&vec!["x"; MAX_VISITED + 1]).unwrap();
        assert!(said(&format!(r#"{{"visited":{names}}}"#)).is_err());
    }

    proptest! {
        #[test]
        fn a_chain_ends_whatever_its_agents_are_called(names in prop::collection::vec("\\PC{0,300}", 1..100)) {
            let mut way = Delegation::default();
            let mut passed = 0_u32;
            for name in names.iter().cycle().take(200) {
                if way.check(name, MAX_HOPS).is_err() {
                    break;
                }
                way = Delegation::of(&message(Some(way.passed_on(name, None).write(None).text()))).unwrap();
                passed += 1;
            }
            prop_assert!(passed <= MAX_HOPS);
        }
    }
}
