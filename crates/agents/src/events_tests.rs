//! Tests of the event vocabulary, one event at a time.

use model::{Content, Part};

use super::*;
use crate::scripted::stage::{brief, every_kind_of_part};
use crate::testing::turn;

fn hear(hearing: &mut EventReader, events: &[&str]) -> Vec<String> {
    let mut all = Vec::new();
    for event in events {
        all.extend(hearing.hear(event).unwrap_or_else(|says| panic!("{event}: {says}")));
    }
    all.extend(hearing.finish());
    brief(&all)
}

fn heard(events: &[&str]) -> Vec<String> {
    hear(&mut EventReader::new(&turn(vec![Part::text("hi")])), events)
}

fn refused(event: &str) -> String {
    EventReader::new(&turn(vec![Part::text("hi")])).hear(event).expect_err(event)
}

#[test]
fn every_event_has_its_meaning() {
    for (event, says) in [
        (r#"{"status":"working"}"#, &["working"][..]),
        (r#"{"status":"working","text":"on it"}"#, &["working on it"]),
        (r#"{"status":"input-required","text":"which?"}"#, &["InputRequired which?"]),
        (r#"{"artifact":{"name":"a","text":"x"}}"#, &["a= x"]),
        (r#"{"artifact":{"id":"k","name":"a","data":{"z":1.0},"append":true}}"#, &[r#"k+… {"z":1.0}"#]),
        (r#"{"artifact":{"text":"x","append":true,"last":true}}"#, &["artifact+ x"]),
        (r#"{"message":"hello"}"#, &["reply hello"]),
        (r#"{"message":{"parts":[{"text":"a"},{"data":null}]}}"#, &["reply a|null"]),
        (r#"{"input_required":"which colour?"}"#, &["InputRequired which colour?"]),
        (r#"{"auth_required":null}"#, &["AuthRequired"]),
        (r#"{"completed":null}"#, &["Completed"]),
        (r#"{"completed":true}"#, &["Completed"]),
        (r#"{"completed":"done"}"#, &["Completed done"]),
        (r#"{"failed":{"text":"no paper"}}"#, &["Failed no paper"]),
        (r#"{"rejected":"not mine"}"#, &["Rejected not mine"]),
        (r#"{"canceled":""}"#, &["Canceled"]),
        (
            r#"{"usage":{"input":3,"output":4}}"#,
            &[r#"metadata {"usage":{"input_tokens":3,"output_tokens":4,"total_tokens":7}}"#],
        ),
        (r#"{"metadata":{"z":1,"a":12345678901234567890}}"#, &[r#"metadata {"z":1,"a":12345678901234567890}"#]),
        (r#"{"text":"hello"}"#, &["response= hello"]),
        (
            r#"{"text":"hello","usage":{"total":7},"model":"x"}"#,
            &[r#"metadata {"usage":{"total_tokens":7}}"#, "response= hello"],
        ),
        (r#"{"text":"a","completed":null}"#, &["response= a", "Completed"]),
    ] {
        assert_eq!(heard(&[event]), says, "{event}");
    }
}

#[test]
fn bare_texts_grow_one_artifact_whose_last_chunk_is_known() {
    assert_eq!(
        heard(&[
            r#"{"text":"a"}"#,
            r#"{"text":"b"}"#,
            r#"{"status":"working"}"#,
            r#"{"text":"c"}"#,
            r#"{"failed":"x"}"#
        ]),
        ["response=… a", "response+… b", "working", "response+ c", "Failed x"]
    );
}

#[test]
fn what_an_older_server_does_not_know_is_passed_over_but_not_a_whole_event() {
    assert_eq!(heard(&[r#"{"completed":"x","mood":"good"}"#]), ["Completed x"]);
    assert!(refused(r#"{"complete":"x"}"#).starts_with("unknown event \"complete\", expected one of status, "));
    assert!(refused("{}").starts_with("an empty event"));
    assert!(refused(r#"{"status":"done"}"#).contains("unknown status \"done\""));
    assert!(refused("nonsense").starts_with("not JSON"));
    assert!(refused("[]").contains("must be an object"));
    assert!(refused(r#"{"completed":1}"#).contains("must be a string"));
    assert!(refused(r#"{"completed":null,"failed":null}"#).contains("ends once"));
    assert!(refused(r#"{"message":"a","completed":null}"#).contains("ends the turn"));
    assert!(refused(r#"{"artifact":{}}"#).contains("artifact: an artifact needs"));
    assert!(refused(r#"{"parts":[{"text":"a"},{}]}"#).contains("parts[1]: a part has one of"));
    assert!(refused(r#"{"metadata":3}"#).contains("must be an object"));
}

#[test]
fn said_again_an_artifact_begins_again() {
    let mut hearing = EventReader::new(&turn(vec![]));
    let more = [r#"{"artifact":{"id":"a","text":"1","append":true}}"#, r#"{"text":"x"}"#];
    assert_eq!(hear(&mut hearing, &more), ["a+… 1", "response= x"]);
    hearing.again();
    assert_eq!(hear(&mut hearing, &more), ["a=… 1", "response= x"]);
    assert_eq!(hear(&mut hearing, &more[..1]), ["a+… 1"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_held_longer_than_a_moment() {
    let mut hearing = EventReader::new(&turn(vec![]));
    assert_eq!(hearing.hear(r#"{"text":"a"}"#).unwrap(), []);
    assert_eq!(brief(&[hearing.lull().await]), ["response=… a"]);
    assert_eq!(hearing.finish(), None);
}

#[tokio::test]
async fn what_a_turn_tells_can_be_said_again_unchanged() {
    let parts = every_kind_of_part();
    let told = crate::turn_json::write(&turn(parts.clone()), true).await.unwrap();
    assert!(!told.contains('\n'));
    let told: std::collections::BTreeMap<&str, &RawValue> = serde_json::from_str(&told).unwrap();
    let message = told["message"].get();
    let AgentEvent::Reply(words) =
        EventReader::new(&turn(vec![])).hear(&format!(r#"{{"message":{message}}}"#)).unwrap().remove(0)
    else {
        panic!("{message}")
    };
    for (said, part) in words.parts.iter().zip(&parts) {
        assert_eq!(
            (&said.content, &said.media_type, &said.metadata),
            (&part.content, &part.media_type, &part.metadata)
        );
        // A text part has no filename on this wire.
        if matches!(part.content, Content::Raw(_) | Content::Url(_)) {
            assert_eq!(said.filename, part.filename);
        }
    }
    assert_eq!(told["turn"].get(), format!("{:?}", turn(vec![]).id.to_string()));
    assert_eq!((told["attempt"].get(), told["history"].get(), told["earlier"].get()), ("1", "[]", "[]"));
}
