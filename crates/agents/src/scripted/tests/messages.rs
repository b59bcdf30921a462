//! Tests of scripts in messages.

use model::Content;
use model::ports::agent::Agent as _;

use super::*;
use crate::scripted::stage::every_kind_of_part;
use crate::scripted::{commands, hold, prefixes, script as script_room};

async fn says(said: &str) -> Vec<String> {
    brief(&played(text(said)).await)
}

/// The turn of a message with that id, in short, and its duration.
async fn by_id(mode: ScriptedMode, id: &str) -> (Vec<String>, u128) {
    let mut stage = ScriptContext::new(agent(mode));
    stage.say(id, text("fail"));
    let began = tokio::time::Instant::now();
    let said = stage.turn().await;
    (brief(&said), began.elapsed().as_millis())
}

#[tokio::test(start_paused = true)]
async fn a_message_of_any_kind_is_echoed_unchanged() {
    let said = played(every_kind_of_part()).await;
    let [AgentEvent::Working(None), AgentEvent::Artifact(piece), AgentEvent::End(_)] = &said[..] else {
        panic!("{said:?}")
    };
    assert_eq!(piece.parts, every_kind_of_part());
    assert_eq!((piece.append, piece.last), (false, true));
    for ordinary in [
        "hello",
        "",
        "fail fast",
        "chunks",
        "chunks:",
        "chunks:many",
        "chunks:1 2",
        "data: x",
        "sleep:soon",
        "hang: on",
    ] {
        assert_eq!(says(ordinary).await, ["working".to_owned(), format!("a1= {ordinary}"), "Completed".to_owned()]);
    }
    let data = Part::data(json(r#"{"scripts":[1],"note":"script"}"#));
    assert_eq!(brief(&played(vec![data.clone()]).await)[1], format!("a1= {}", r#"{"scripts":[1],"note":"script"}"#));
}

#[tokio::test(start_paused = true)]
async fn commands_do_what_they_say() {
    for (said, does) in [
        ("chunks:2", &["working", "a1=… chunk 0 lorem ipsum ", "a1+ chunk 1 lorem ipsum ", "Completed"][..]),
        ("  Chunks:1 EVERY:5 \n", &["working", "a1= chunk 0 lorem ipsum ", "Completed"]),
        ("ask", &["working", "InputRequired what shall I do?"]),
        ("Ask: which: a or b?", &["working", "InputRequired which: a or b?"]),
        ("auth", &["working", "AuthRequired please sign in"]),
        ("complete", &["working", "Completed done"]),
        ("fail", &["working", "Failed failed as asked"]),
        ("FAIL: why", &["working", "Failed why"]),
        ("reject", &["Rejected rejected as asked"]),
        ("sleep:500", &["working", "Completed"]),
        ("message", &["reply a direct message"]),
        ("message: hi", &["reply hi"]),
        ("working: on it", &["working on it", "Completed"]),
        ("file", &["working", "a1= <6 bytes>", "Completed"]),
        ("url", &["working", "a1= <https://example.com/hello.txt>", "Completed"]),
        ("data", &["working", r#"a1= {"count":42,"hello":"world"}"#, "Completed"]),
    ] {
        assert_eq!(says(said).await, does, "{said}");
    }
}

#[tokio::test(start_paused = true)]
async fn commands_take_their_time_and_can_be_cancelled() {
    let began = tokio::time::Instant::now();
    says("sleep:500").await;
    says("chunks:3 every:50").await;
    assert_eq!(began.elapsed().as_millis(), 600);
    for command in ["hang", "sleep:60000", "chunks:3 every:60000"] {
        let mut stage = stage();
        stage.say("m", text(command));
        stage.start();
        let (said, took_ms) = stage.cancelled_after(10).await;
        assert_eq!((brief(&said).last().unwrap().as_str(), took_ms), ("Canceled", 10), "{command}");
    }
}

#[tokio::test(start_paused = true)]
async fn help_lists_every_command() {
    let said = says("help").await;
    for command in commands::COMMANDS {
        assert!(said[1].contains(command.usage), "{}", command.usage);
    }
}

#[tokio::test(start_paused = true)]
async fn the_image_is_an_image() {
    let said = played(text("image")).await;
    let AgentEvent::Artifact(piece) = &said[1] else { panic!("{said:?}") };
    let Content::Raw(bytes) = &piece.parts[0].content else { panic!("{piece:?}") };
    assert!(bytes.starts_with(b"\x89PNG\r\n\x1a\n") && bytes.len() > 60);
}

#[test]
fn a_command_out_of_bounds_is_refused() {
    let agent = agent(ScriptedMode::Play);
    for (said, message) in [
        ("chunks:0", "chunks goes from 1 to 1000000"),
        ("chunks:99999999999999999999999", "chunks goes from 1 to 1000000"),
        ("chunks:1 every:86400001", "every goes from 0 to 86400000"),
        ("sleep:86400001", "sleep goes from 0 to 86400000"),
    ] {
        let fault = agent.admit(&inbound("m", text(said)), None).unwrap_err();
        assert_eq!((fault.kind, fault.message.as_str()), (model::Kind::InvalidParams, message));
        assert_eq!(fault.field.as_deref(), Some("message.parts[0].text"));
    }
}

#[tokio::test(start_paused = true)]
async fn each_message_after_a_command_is_on_its_own() {
    let mut stage = stage();
    assert_eq!(brief(&stage.hear(text("ask: one?")).await)[1], "InputRequired one?");
    assert_eq!(brief(&stage.hear(text("ask: two?")).await)[1], "InputRequired two?");
    assert_eq!(brief(&stage.hear(text("fine")).await), ["working", "m2a1= fine", "Completed"]);
}

#[tokio::test(start_paused = true)]
async fn each_prefix_behaves_as_the_suites_expect() {
    let text = "Generated text content";
    for (id, does) in [
        ("tck-complete-task", vec!["Completed Hello from TCK".to_owned()]),
        ("tck-artifact-text", vec![format!("a0= {text}"), "Completed".into()]),
        ("tck-artifact-file", vec!["a0= <3 bytes>".into(), "Completed".into()]),
        ("tck-artifact-file-url", vec!["a0= <https://example.com/output.txt>".into(), "Completed".into()]),
        ("tck-artifact-data", vec![r#"a0= {"key":"value","count":42}"#.into(), "Completed".into()]),
        ("tck-message-response", vec!["reply Direct message response".into()]),
        ("tck-input-required", vec!["InputRequired".into()]),
        ("tck-reject-task", vec!["Rejected".into()]),
        ("tck-stream-001", vec!["working".into(), "a1= Stream hello from TCK".into(), "Completed".into()]),
        ("tck-stream-003", vec!["working".into(), "a1= Stream task lifecycle".into(), "Completed".into()]),
        ("tck-stream-ordering-001", vec!["working".into(), "a1= Ordered output".into(), "Completed".into()]),
        ("tck-stream-002", vec!["Completed".into()]),
        ("tck-stream-artifact-text", vec!["working".into(), format!("a1= {text}"), "Completed".into()]),
        ("tck-stream-artifact-file", vec!["working".into(), "a1= <3 bytes>".into(), "Completed".into()]),
        (
            "tck-stream-artifact-chunked",
            vec!["working".into(), "chunked=… chunk-1 ".into(), "chunked+ chunk-2".into(), "Completed".into()],
        ),
        ("test-resubscribe-message-id", vec!["working".into(), "Completed".into()]),
    ] {
        for id in [id.to_owned(), format!("{id}-0190f3c4")] {
            assert_eq!(by_id(ScriptedMode::Play, &id).await.0, does, "{id}");
        }
        assert!(prefixes::find(id).is_some_and(|known| known.prefix == id), "the longest prefix wins");
    }
    assert_eq!(by_id(ScriptedMode::Play, "tck-unknown").await.0, ["working", "Failed failed as asked"]);
    assert_eq!(by_id(ScriptedMode::Play, "x-tck-complete-task").await.0, ["working", "Failed failed as asked"]);
}

#[tokio::test(start_paused = true)]
async fn the_files_of_the_suites_have_name_and_type() {
    for id in ["tck-artifact-file-1", "tck-artifact-file-url-1"] {
        let mut stage = stage();
        stage.say(id, text("x"));
        stage.turn().await;
        let part = &stage.task().artifacts[0].parts[0];
        assert_eq!((part.filename.as_deref(), part.media_type.as_deref()), (Some("output.txt"), Some("text/plain")));
    }
}

#[tokio::test(start_paused = true)]
async fn a_prefix_goes_before_a_script_and_stays_as_it_is_with_every_message() {
    let mut stage = stage();
    for _ in 0..3 {
        stage.say("tck-input-required-1", script(r#"{"fail":"never"}"#));
        assert_eq!(brief(&stage.turn().await), ["InputRequired"]);
    }
    stage.say("tck-complete-task-1", text("go on"));
    assert_eq!(brief(&stage.turn().await), ["Completed Hello from TCK"]);
}

#[test]
fn a_direct_reply_by_prefix_is_undecided() {
    let agent = agent(ScriptedMode::Play);
    assert!(agent.admit(&inbound("tck-message-response-1", text("hi")), None).unwrap().undecided);
    assert!(!agent.admit(&inbound("tck-stream-001", text("message")), None).unwrap().undecided);
}

#[tokio::test(start_paused = true)]
async fn a_task_to_be_resubscribed_to_stays_at_work_twice_the_timeout() {
    assert_eq!(by_id(ScriptedMode::Play, "test-resubscribe-message-id-1").await.1, 4_000);
    for (given, hold_ms) in
        [(None, 4_000), (Some("0.5"), 1_000), (Some("x"), 4_000), (Some("-1"), 4_000), (Some("NaN"), 4_000)]
    {
        assert_eq!(hold(given).as_millis(), hold_ms, "{given:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn in_ask_mode_ordinary_messages_end_in_a_question() {
    let mut stage = ScriptContext::new(agent(ScriptedMode::Ask));
    for parts in [text("hello"), every_kind_of_part(), text("more")] {
        assert_eq!(brief(&stage.hear(parts).await), ["working", "InputRequired what next?"]);
    }
    assert_eq!(by_id(ScriptedMode::Ask, "tck-complete-task").await.0, ["Completed Hello from TCK"]);
    assert_eq!(
        by_id(ScriptedMode::Ask, "other").await.0,
        ["working", "Failed failed as asked"],
        "commands are not ordinary"
    );
}

#[tokio::test(start_paused = true)]
async fn in_ask_mode_a_task_to_be_resubscribed_to_speaks_each_second_until_cancelled() {
    let mut stage = ScriptContext::new(agent(ScriptedMode::Ask));
    stage.say("test-resubscribe-message-id-1", text("x"));
    stage.start();
    let (said, took_ms) = stage.cancelled_after(3_500).await;
    let beat = |n: u32| format!("working still at work, {n} so far");
    assert_eq!(brief(&said), ["working".to_owned(), beat(1), beat(2), beat(3), "Canceled".to_owned()]);
    assert_eq!(took_ms, 3_500);
}

#[test]
fn a_mode_is_known_by_its_name() {
    assert_eq!(("play".parse(), "ask".parse()), (Ok(ScriptedMode::Play), Ok(ScriptedMode::Ask)));
    assert_eq!("ply".parse::<ScriptedMode>(), Err("unknown mode \"ply\"; use \"play\" or \"ask\"".to_owned()));
}

const PAGE: &str = include_str!("../../../../../docs/scripted.md");

#[test]
fn the_page_tells_of_every_step_command_and_prefix() {
    for step in script_room::STEPS {
        assert!(PAGE.contains(&format!("`{{\"{step}\":")), "{step}");
    }
    for command in commands::COMMANDS {
        assert!(PAGE.contains(&format!("`{}`", command.usage)), "{}", command.usage);
    }
    for known in prefixes::PREFIXES {
        assert!(PAGE.contains(&format!("`{}`", known.prefix)), "{}", known.prefix);
    }
}

#[test]
fn every_step_and_script_on_the_page_is_admitted() {
    let agent = agent(ScriptedMode::Play);
    let table = PAGE.split("\n## ").find(|section| section.starts_with("Scripts")).unwrap();
    let steps = table.split('`').filter(|code| code.starts_with("{\"") && !code.starts_with("{\"script\"")).map(script);
    let requests = PAGE.match_indices(r#"{"script":"#).filter_map(|(at, _)| {
        let mut values =
            serde_json::Deserializer::from_str(&PAGE[at..]).into_iter::<Box<serde_json::value::RawValue>>();
        Some(vec![Part::data(values.next()?.ok()?.into())])
    });
    let mut count = 0;
    for parts in steps.chain(requests) {
        let shown = format!("{parts:?}");
        if let Err(fault) = agent.admit(&inbound("m", parts), None) {
            panic!("{shown}: {fault}");
        }
        count += 1;
    }
    assert!(count > script_room::STEPS.len() + 3, "{count}");
}
