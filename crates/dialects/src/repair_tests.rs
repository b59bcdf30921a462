//! Answers with one unreadable member, in every form.

use model::{Content, Message, Part, State};
use serde_json::{Value, json};

use super::*;
use crate::peer::{PEERS, by_name, peer};

/// A completed task of a form, with a text in its status, an artifact and a history.
fn task(peer: &'static dyn Peer) -> Value {
    let v1 = matches!(peer.facts().generation, Generation::V1_0);
    let proto = v1 || peer.binding() == Binding::HttpJson;
    let (state, role) = if proto { ("TASK_STATE_COMPLETED", "ROLE_AGENT") } else { ("completed", "agent") };
    let text = |text: &str| part_of(peer, text);
    let parts = if proto && !v1 { "content" } else { "parts" };
    let said = |id: &str, words: &str| json!({ "messageId": id, "role": role, parts: [text(words)] });
    let mut task = json!({
        "id": "t",
        "status": { "state": state, "message": said("m", "done") },
        "artifacts": [
            { "artifactId": "a", "index": 0, "parts": [text("one"), text("two")] },
            { "artifactId": "b", "index": 1, "parts": [text("three")] },
        ],
        "history": [said("h", "before")],
    });
    if peer.facts().generation == Generation::V0_3 && !proto {
        task["kind"] = json!("task");
    }
    task
}

fn part_of(peer: &'static dyn Peer, text: &str) -> Value {
    match (peer.facts().generation, peer.binding()) {
        (Generation::V1_0, _) | (Generation::V0_3, Binding::HttpJson) => json!({ "text": text }),
        (Generation::V0_3, Binding::JsonRpc) => json!({ "kind": "text", "text": text }),
        (Generation::V0_1, _) => json!({ "type": "text", "text": text }),
    }
}

fn read(peer: &'static dyn Peer, task: &Value) -> TaskSeen {
    let text = task.to_string();
    peer.read_task(&text).unwrap_or_else(|fault| panic!("{}: {}: {text}", peer.facts().name, fault.message))
}

fn data(part: &Part) -> Option<Value> {
    match &part.content {
        Content::Data(json) => Some(json.to_value()),
        Content::Text(_) | Content::Raw(_) | Content::Url(_) | Content::Blob(_) => None,
    }
}

#[test]
fn a_whole_answer_is_read_without_a_note() {
    for peer in PEERS.iter().copied() {
        let seen = read(peer, &task(peer));
        assert!(seen.unread.is_empty(), "{}: {:?}", peer.facts().name, seen.unread);
        assert_eq!((seen.artifacts.len(), seen.status.state), (2, Some(State::Completed)));
    }
}

#[test]
fn a_part_that_cannot_be_read_is_data_and_its_neighbours_are_as_they_were() {
    let odd = [
        json!({ "kind": "video", "type": "video", "frames": [1, 2] }),
        json!({}),
        json!("just a text"),
        json!(7),
        json!({ "text": { "not": "a string" } }),
        json!({ "raw": "no base64!", "file": { "bytes": "no base64!" } }),
        json!({ "kind": "text", "type": "text", "text": ["no"] }),
    ];
    for peer in PEERS.iter().copied() {
        for part in &odd {
            let mut task = task(peer);
            task["artifacts"][0]["parts"][1] = part.clone();
            let seen = read(peer, &task);
            let row = format!("{} {part}", peer.facts().name);
            let parts = &seen.artifacts[0].parts;
            assert_eq!((parts.len(), parts[0].as_text()), (2, Some("one")), "{row}");
            assert_eq!(data(&parts[1]).as_ref(), Some(part), "{row}");
            assert_eq!(seen.artifacts[1].parts[0].as_text(), Some("three"), "{row}");
            assert_eq!(seen.status.state, Some(State::Completed), "{row}");
            assert_eq!(seen.unread.len(), 1, "{row}: {:?}", seen.unread);
            assert!(seen.unread[0].contains("artifacts[0].parts[1]"), "{row}: {:?}", seen.unread);
        }
    }
}

/// Puts a value at a path of a task.
fn put(task: &mut Value, path: &str, value: &Value) {
    *task.pointer_mut(path).unwrap_or_else(|| panic!("{path}")) = value.clone();
}

#[test]
fn a_member_that_cannot_be_read_is_left_out_and_named() {
    // Where, what stands there, and what the note says.
    let rows = [
        ("/metadata", json!([1]), "metadata"),
        ("/contextId", json!({}), "contextId"),
        ("/history", json!("none"), "history"),
        ("/history/0", json!(3), "history[0]"),
        ("/history/0/role", json!("ROLE_NOBODY"), "history[0]"),
        ("/status/message/metadata", json!("x"), "status.message.metadata"),
        ("/status/message/messageId", json!([]), "status.message.messageId"),
        ("/status/message/role", json!("narrator"), "role"),
        ("/status/timestamp", json!([]), "status.timestamp"),
        ("/artifacts/0/metadata", json!(1), "artifacts[0].metadata"),
        ("/artifacts/0/name", json!(["n"]), "artifacts[0].name"),
        ("/artifacts/0/extensions", json!({}), "artifacts[0].extensions"),
        ("/artifacts/0/parts/0/metadata", json!([]), "artifacts[0].parts[0].metadata"),
    ];
    for peer in PEERS.iter().copied() {
        for (path, value, note) in &rows {
            let mut task = task(peer);
            // So that there is something to put another thing in the place of.
            task["metadata"] = json!({});
            task["contextId"] = json!("c");
            task["status"]["timestamp"] = json!("2026-01-01T00:00:00Z");
            for at in ["/status/message", "/artifacts/0", "/artifacts/0/parts/0"] {
                task.pointer_mut(at).unwrap()["metadata"] = json!({});
            }
            task["artifacts"][0]["name"] = json!("n");
            task["artifacts"][0]["extensions"] = json!([]);
            put(&mut task, path, value);
            let seen = read(peer, &task);
            let row = format!("{} {path}", peer.facts().name);
            assert_eq!(seen.unread.len(), 1, "{row}: {:?}", seen.unread);
            assert!(seen.unread[0].contains(note), "{row}: {:?}", seen.unread);
            assert_eq!(seen.artifacts.len(), 2, "{row}");
            assert_eq!(seen.artifacts[0].parts[0].as_text(), Some("one"), "{row}");
            assert_eq!(seen.status.message.as_ref().map(Message::text).as_deref(), Some("done"), "{row}");
            assert_eq!(seen.status.state, Some(State::Completed), "{row}");
        }
    }
}

#[test]
fn what_means_the_same_is_taken_for_it() {
    for peer in PEERS.iter().copied() {
        let name = peer.facts().name;
        let mut numbers = task(peer);
        numbers["id"] = json!(12);
        numbers["contextId"] = json!(3);
        let seen = read(peer, &numbers);
        assert_eq!((&*seen.id, seen.context.as_ref().map(|id| id.as_str())), ("12", Some("3")), "{name}");
        assert_eq!(seen.unread.len(), 2, "{name}");

        let mut word = task(peer);
        word["status"] = word["status"]["state"].clone();
        assert_eq!(read(peer, &word).status.state, Some(State::Completed), "{name}");

        let mut lone = task(peer);
        lone["artifacts"] = lone["artifacts"][0].clone();
        lone["artifacts"]["parts"] = lone["artifacts"]["parts"][0].clone();
        let seen = read(peer, &lone);
        assert_eq!((seen.artifacts.len(), seen.artifacts[0].parts[0].as_text()), (1, Some("one")), "{name}");

        let mut strange = task(peer);
        strange["artifacts"][1] = json!("all there is");
        let seen = read(peer, &strange);
        assert_eq!(data(&seen.artifacts[1].parts[0]), Some(json!("all there is")), "{name}");
        assert_eq!(seen.artifacts[0].parts[0].as_text(), Some("one"), "{name}");
    }
}

#[test]
fn half_characters_and_members_given_twice_do_not_cost_the_rest() {
    for peer in PEERS.iter().copied() {
        let name = peer.facts().name;
        let text = task(peer).to_string();
        let half = text.replace("\"one\"", "\"on\\ud800e \\ud83d\\ude00 \\udc00\"");
        let seen = peer.read_task(&half).unwrap();
        assert_eq!(seen.artifacts[0].parts[0].as_text(), Some("on\u{fffd}e 😀 \u{fffd}"), "{name}");
        assert_eq!(seen.unread.len(), 1, "{name}");
        let twice = text.replacen('{', "{\"id\":\"x\",", 1);
        assert_eq!(peer.read_task(&twice).unwrap().unread.len(), 1, "{name}");
    }
}

#[test]
fn an_answer_without_what_it_needs_stays_unreadable_and_says_why() {
    for peer in PEERS.iter().copied() {
        let name = peer.facts().name;
        for (path, value) in [("/id", json!(null)), ("/status", json!(null)), ("/status/state", json!({ "a": 1 }))] {
            let mut task = task(peer);
            put(&mut task, path, &value);
            // A task that does not say its state may still be at work.
            let fault = peer.read_task(&task.to_string()).unwrap_err();
            assert_eq!(fault.kind, model::Kind::InvalidAgentResponse, "{name} {path}");
        }
        for text in ["", "nothing", "[1]", "7"] {
            assert!(peer.read_task(text).is_err(), "{name} {text:?}");
        }
    }
}

#[test]
fn no_more_than_so_many_mistakes_are_repaired() {
    let peer = by_name("1.0 JSONRPC").or_else(|| peer(Generation::V1_0, Binding::JsonRpc)).unwrap();
    let many = |count: usize| {
        let mut task = task(peer);
        task["artifacts"][0]["parts"] = vec![json!({}); count].into();
        peer.read_task(&task.to_string())
    };
    assert_eq!(many(MOST - 1).unwrap().unread.len(), MOST - 1);
    assert!(many(MOST + 1).is_err());
}

#[test]
fn an_event_that_cannot_be_read_is_passed_on_and_one_with_a_mistake_is_noted() {
    for peer in PEERS {
        let name = peer.facts().name;
        let unknown = json!({ "kind": "weather-update", "weather": { "sun": true } });
        match peer.read_event(&unknown.to_string()) {
            Ok(Seen::Unread { value, why }) => {
                assert_eq!(value.to_value(), unknown, "{name}");
                assert!(!why.is_empty(), "{name}");
            }
            other => panic!("{name}: {other:?}"),
        }
        assert!(peer.read_event("no JSON").is_err(), "{name}");
    }
    let peer = peer(Generation::V1_0, Binding::JsonRpc).unwrap();
    let event = json!({ "artifactUpdate": { "taskId": "t", "artifact": { "artifactId": "a", "parts": [{ "text": "x" }] },
                                            "metadata": 4 } });
    match peer.read_event(&event.to_string()).unwrap() {
        Seen::Partial { seen, unread } => {
            assert!(matches!(*seen, Seen::Artifact { .. }), "{seen:?}");
            assert!(unread[0].contains("metadata"), "{unread:?}");
        }
        other => panic!("{other:?}"),
    }
    let nameless = json!({ "artifactUpdate": { "taskId": "t", "artifact": { "parts": [{ "text": "x" }] } } });
    assert!(matches!(peer.read_event(&nameless.to_string()), Ok(Seen::Partial { .. })));
}
