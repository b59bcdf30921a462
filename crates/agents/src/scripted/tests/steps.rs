//! Tests of the steps of scripts.

use model::ports::agent::Agent as _;
use model::ports::agent::Restart;
use tokio::time::Instant;

use super::*;
use crate::scripted::stage::{every_kind_of_part, restart_rule};

#[tokio::test(start_paused = true)]
async fn each_step_does_what_its_name_says() {
    for (step, says) in [
        (r#"{"status":"working"}"#, &["working", "Completed"][..]),
        (r#"{"status":"working","text":"on it"}"#, &["working on it", "Completed"]),
        (r#"{"status":"working","text":null}"#, &["working", "Completed"]),
        (r#"{"status":"working","text":""}"#, &["working", "Completed"]),
        (r#"{"status":"TASK_STATE_WORKING"}"#, &["working", "Completed"]),
        (r#"{"sleep_ms":10}"#, &["Completed"]),
        (r#"{"sleep_ms":10.0}"#, &["Completed"]),
        (r#"{"artifact":{"parts":[{"text":"hi"}]}}"#, &["a0= hi", "Completed"]),
        (r#"{"artifact":{"artifactId":"x","parts":[{"text":"hi"}]}}"#, &["x= hi", "Completed"]),
        (r#"{"artifact":{"artifact_id":"x","parts":[{"text":"hi"}]}}"#, &["x= hi", "Completed"]),
        (r#"{"message":"hello"}"#, &["reply hello"]),
        (r#"{"message":{"parts":[{"text":"a"},{"data":[1]}]}}"#, &["reply a|[1]"]),
        (r#"{"input":"name?"}"#, &["InputRequired name?"]),
        (r#"{"input":null}"#, &["InputRequired"]),
        (r#"{"auth":"who?"}"#, &["AuthRequired who?"]),
        (r#"{"complete":"done"}"#, &["Completed done"]),
        (r#"{"complete":""}"#, &["Completed"]),
        (r#"{"fail":"broken"}"#, &["Failed broken"]),
        (r#"{"fail":null}"#, &["Failed"]),
        (r#"{"reject":"never"}"#, &["Rejected never"]),
        (r#"{"metadata":{"used":3}}"#, &[r#"metadata {"used":3}"#, "Completed"]),
        (r#"{"restart":"retry"}"#, &["Completed"]),
        ("", &["Completed"]),
    ] {
        assert_eq!(plays(step).await, says, "{step}");
    }
}

#[tokio::test(start_paused = true)]
async fn steps_play_in_order_and_nothing_plays_after_an_end() {
    let steps =
        r#"{"status":"working","text":"a"},{"artifact":{"parts":[{"text":"b"}]}},{"fail":"c"},{"complete":"d"}"#;
    assert_eq!(plays(steps).await, ["working a", "a1= b", "Failed c"]);
    assert_eq!(plays(r#"{"message":"a"},{"message":"b"}"#).await, ["reply a"]);
}

#[tokio::test(start_paused = true)]
async fn words_may_have_parts_of_any_kind_and_metadata() {
    let said = played(script(r#"{"fail":{"parts":[{"url":"u:v"}],"metadata":{"k":1},"extensions":["e"]}}"#)).await;
    let [AgentEvent::End(end)] = &said[..] else { panic!("{said:?}") };
    let words = end.words.as_ref().unwrap();
    assert_eq!(words.parts, [Part::new(model::Content::Url("u:v".into()))]);
    assert_eq!((words.metadata.as_ref().unwrap().text(), &words.extensions[..]), (r#"{"k":1}"#, &["e".to_owned()][..]));
}

#[tokio::test(start_paused = true)]
async fn an_artifact_has_everything_it_was_given() {
    let said = played(script(
        r#"{"artifact":{"name":"n","description":"d","metadata":{"z":1, "a":1.0},"extensions":["e"],"artifactId":"i","parts":[
            {"text":"chunks:20","filename":"f","mediaType":"x/y","metadata":{"z":1.0,"a":[12345678901234567890]}},
            {"raw":"AP+A","filename":"f","media_type":"x/y","metadata":{"z":1.0,"a":[12345678901234567890]}},
            {"url":"https://example.com/f","filename":"f","mediaType":"x/y","metadata":{"z":1.0,"a":[12345678901234567890]}},
            {"data":{"b":1e2, "a":[null,18446744073709551616]},"filename":"f","mediaType":"x/y","metadata":{"z":1.0,"a":[12345678901234567890]}},
            {"text":""},
            {"data":null,"filename":null}
        ]}}"#,
    ))
    .await;
    let [AgentEvent::Artifact(piece), AgentEvent::End(_)] = &said[..] else { panic!("{said:?}") };
    assert_eq!(piece.parts, every_kind_of_part());
    assert_eq!((piece.name.as_deref(), piece.description.as_deref(), piece.key.as_str()), (Some("n"), Some("d"), "i"));
    assert_eq!(piece.metadata.as_ref().unwrap().text(), r#"{"z":1, "a":1.0}"#);
    assert_eq!(piece.extensions, ["e"]);
}

#[tokio::test(start_paused = true)]
async fn raw_bytes_come_in_either_alphabet_with_or_without_padding() {
    for raw in ["+/8=", "-_8=", "+/8", "-_8"] {
        let said = played(script(&format!(r#"{{"artifact":{{"parts":[{{"raw":"{raw}"}}]}}}}"#))).await;
        let AgentEvent::Artifact(piece) = &said[0] else { panic!("{said:?}") };
        assert_eq!(piece.parts, [Part::new(model::Content::Raw(vec![0xfb, 0xff].into()))], "{raw}");
    }
}

#[tokio::test(start_paused = true)]
async fn chunks_send_the_same_parts_so_many_times_and_the_flags_tell_first_and_last() {
    let began = Instant::now();
    let steps = r#"{"artifact":{"parts":[{"text":"x"},{"text":"y"}]},"chunks":3,"every_ms":50}"#;
    assert_eq!(plays(steps).await, ["a0=… x|y", "a0+… x|y", "a0+ x|y", "Completed"]);
    assert_eq!(began.elapsed().as_millis(), 100, "between chunks, and neither before nor after");
    assert_eq!(plays(r#"{"artifact":{"parts":[{"text":"x"}]},"chunks":1}"#).await, ["a0= x", "Completed"]);
}

#[tokio::test(start_paused = true)]
async fn several_steps_can_write_one_artifact() {
    let steps = r#"{"artifact":{"artifactId":"x","parts":[{"text":"one "}]},"lastChunk":false},
        {"artifact":{"artifactId":"x","parts":[{"text":"two "}]},"append":true,"chunks":2,"lastChunk":false},
        {"artifact":{"artifactId":"x","parts":[{"text":"three"}]},"append":true}"#;
    let mut stage = stage();
    let said = stage.hear(script(steps)).await;
    assert_eq!(brief(&said), ["x=… one ", "x+… two ", "x+… two ", "x+ three", "Completed"]);
    let texts: Vec<_> = stage.task().artifacts[0].parts.iter().filter_map(Part::as_text).collect();
    assert_eq!(texts.concat(), "one two two three");
}

#[tokio::test(start_paused = true)]
async fn a_sleep_takes_its_time() {
    let began = Instant::now();
    plays(r#"{"sleep_ms":86400000},{"sleep_ms":1}"#).await;
    assert_eq!(began.elapsed().as_millis(), 86_400_001);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_ends_every_wait_at_once() {
    for (steps, before) in [
        (r#"{"status":"working"},{"sleep_ms":60000},{"complete":"late"}"#, &["working"][..]),
        (r#"{"artifact":{"parts":[{"text":"x"}]},"chunks":9,"every_ms":60000}"#, &["a0=… x"]),
        (r#"{"status":"working"},{"hang":true},{"complete":"never"}"#, &["working"]),
    ] {
        let mut stage = stage();
        stage.say("m", script(steps));
        stage.start();
        let (said, took_ms) = stage.cancelled_after(70).await;
        let expected: Vec<&str> = before.iter().copied().chain(["Canceled"]).collect();
        assert_eq!((brief(&said), took_ms), (expected.iter().map(|&s| s.to_owned()).collect(), 70), "{steps}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancel_stops_chunks_that_never_wait() {
    let mut stage = stage();
    stage.say("m", script(r#"{"artifact":{"parts":[{"text":"x"}]},"chunks":1000000}"#));
    stage.start();
    for _ in 0..3 {
        stage.next().await.unwrap();
    }
    stage.cancel();
    assert_eq!(brief(&stage.finish().await), ["Canceled"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_hangs_but_hang() {
    let mut stage = stage();
    stage.say("m", script(r#"{"hang":true}"#));
    stage.start();
    let waited = tokio::time::timeout(std::time::Duration::from_secs(1_000_000), stage.next()).await;
    assert!(waited.is_err());
}

#[test]
fn only_a_script_that_first_says_a_direct_message_is_undecided() {
    let agent = agent(ScriptedMode::Play);
    let undecided = |parts| agent.admit(&inbound("m", parts), None).unwrap().undecided;
    assert!(undecided(script(r#"{"message":"hi"}"#)));
    assert!(undecided(script(r#"{"restart":"retry"},{"sleep_ms":5},{"metadata":{}},{"message":"hi"}"#)));
    assert!(undecided(text("message: hi")));
    assert!(!undecided(script(r#"{"status":"working"},{"message":"hi"}"#)));
    assert!(!undecided(script("")));
    assert!(!undecided(text("hello")));
    let mut stage = stage();
    stage.say("m", text("ask"));
    let later = agent.admit(&inbound("m", script(r#"{"message":"hi"}"#)), Some(stage.task())).unwrap();
    assert!(!later.undecided, "a task that is there has been shown");
}

#[test]
fn a_crash_plays_the_turn_again_unless_only_a_cancel_would_end_it_or_the_script_says_fail() {
    let again = Restart::Retry;
    let agent = agent(ScriptedMode::Play);
    assert_eq!(agent.profile().restart, again);
    assert!(!agent.admit(&inbound("m", text("hi")), None).unwrap().idempotent);
    for (parts, rule) in [
        (text("hello"), again),
        (text("chunks:10 every:300"), again),
        (text("sleep:500"), again),
        (text("message: hi"), again),
        (text("ask: which?"), again),
        (text("hang"), Restart::Fail),
        (script(""), again),
        (script(r#"{"status":"working"},{"sleep_ms":9},{"complete":"done"}"#), again),
        (script(r#"{"status":"working"},{"hang":true}"#), Restart::Fail),
        (script(r#"{"complete":"done"},{"hang":true}"#), again),
        (script(r#"{"input":"?"},{"hang":true}"#), Restart::Fail),
        (script(r#"{"restart":"fail"}"#), Restart::Fail),
        (script(r#"{"restart":"retry"}"#), again),
        (script(r#"{"restart":"retry"},{"hang":true}"#), again),
    ] {
        assert_eq!(restart_rule(&*agent, parts.clone(), None), rule, "{parts:?}");
    }
    for (id, mode, rule) in [
        ("tck-stream-artifact-chunked-1", ScriptedMode::Play, again),
        ("test-resubscribe-message-id-1", ScriptedMode::Play, again),
        ("test-resubscribe-message-id-1", ScriptedMode::Ask, Restart::Fail),
    ] {
        let admitted = super::agent(mode).admit(&inbound(id, text("hi")), None).unwrap();
        assert_eq!(admitted.restart, rule, "{id} {mode:?}");
    }
    for (asks, rule) in [
        (r#"{"input":"?"}"#, again),
        (r#"{"restart":"retry"},{"input":"?"}"#, again),
        (r#"{"restart":"fail"},{"input":"?"}"#, Restart::Fail),
    ] {
        let mut stage = stage();
        stage.say("m", script(asks));
        assert_eq!(restart_rule(&*agent, text("chunks:0"), Some(stage.task())), rule, "an answer to {asks}");
    }
}
