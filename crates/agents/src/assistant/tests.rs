//! Turns of the assistants, on a task folded from a real log.

use std::sync::Arc;

use model::ports::agent::{AgentEvent, ArtifactChunk, EndState, Restart};
use model::{Part, State};

use super::{AssistantMode, assistant_id, build};
use crate::scripted::stage::{ScriptContext, brief, inbound, json};
use crate::testing::text;

fn stage(mode: AssistantMode) -> ScriptContext {
    ScriptContext::new(build(mode, "tested"))
}

fn data(text: &str) -> Vec<Part> {
    vec![Part::data(json(text))]
}

fn pieces(said: &[AgentEvent]) -> Vec<&ArtifactChunk> {
    let mut pieces = vec![];
    for emission in said {
        if let AgentEvent::Artifact(piece) = emission {
            pieces.push(piece);
        }
    }
    pieces
}

/// The final text of the response.
fn response(said: &[AgentEvent]) -> String {
    let pieces = pieces(said);
    assert!(pieces.iter().all(|piece| piece.key == "response"), "{said:?}");
    let last = pieces.last().unwrap();
    assert_eq!((last.append, last.last, last.parts.len()), (false, true, 1));
    assert_eq!(last.name.as_deref(), Some("Assistant Response"));
    last.parts[0].as_text().unwrap().to_owned()
}

/// The questions of a turn that asks.
fn questions(said: &[AgentEvent]) -> String {
    let [AgentEvent::Working(None), AgentEvent::Artifact(piece), AgentEvent::Bound(_), AgentEvent::End(end)] = said
    else {
        panic!("{said:?}")
    };
    assert_eq!(end.words.as_ref().and_then(|words| words.metadata.as_ref()), None, "callers are shown the words");
    assert_eq!((piece.name.as_deref(), piece.append, piece.last), (Some("Interrupt"), false, true));
    assert_eq!(piece.description.as_deref(), Some("Agent requires input to continue"));
    assert_eq!(end.state, EndState::InputRequired);
    assert!(end.words.as_ref().unwrap().parts[0].as_text().is_some_and(|says| says.contains('?')));
    brief(&said[1..2])[0].strip_prefix("interrupt= ").unwrap().to_owned()
}

const FIRST: &str = r#"{"id":"interrupt-1","value":{"question":"In which month would you like to travel?"}}"#;
const SECOND: &str = r#"{"id":"interrupt-2","value":{"question":"How many people will travel?"}}"#;

#[tokio::test(start_paused = true)]
async fn a_chat_says_again_what_it_was_told_in_a_few_chunks() {
    let mut stage = stage(AssistantMode::Chat);
    let said = stage.hear(text("hello out there, whoever you are")).await;
    assert_eq!(said.first(), Some(&AgentEvent::Working(None)));
    assert_eq!(response(&said), "You said: hello out there, whoever you are");
    let mut pieces = pieces(&said);
    let description = format!("Response from assistant {}", assistant_id("tested"));
    assert_eq!(pieces.pop().unwrap().description.as_deref(), Some(description.as_str()));
    assert!((2..=4).contains(&pieces.len()));
    assert!(pieces.iter().enumerate().all(|(i, piece)| (piece.append, piece.last) == (i > 0, false)));
    let chunks: String = pieces.iter().filter_map(|piece| piece.parts[0].as_text()).collect();
    assert_eq!(chunks, response(&said));
    let [artifact] = &stage.task().artifacts[..] else { panic!("one artifact") };
    assert_eq!(artifact.parts.len(), 1);
    assert_eq!(stage.task().status.state, State::Completed);
}

#[tokio::test(start_paused = true)]
async fn data_is_laid_over_the_input_and_alone_it_is_the_answer() {
    let mut parts = data(r#"{"locale":"en-US","n":1.0}"#);
    parts.extend(data(r#"{"n":12345678901234567890}"#));
    let printed = r#"{"locale":"en-US","n":12345678901234567890}"#;
    assert_eq!(response(&stage(AssistantMode::Chat).hear(parts.clone()).await), printed);
    assert_eq!(response(&stage(AssistantMode::Structured).hear(parts.clone()).await), printed);
    parts.extend(text("hi"));
    assert_eq!(response(&stage(AssistantMode::Chat).hear(parts).await), format!("You said: hi\nYour data: {printed}"));
    let refused = stage(AssistantMode::Chat).try_say("m", data("[1]")).unwrap_err();
    assert_eq!(refused.field.as_deref(), Some("message.parts[0].data"));
}

#[tokio::test(start_paused = true)]
async fn a_question_is_answered_by_text_or_by_a_resume_of_any_shape() {
    for (answer, expected) in [
        (text("blue"), "blue"),
        ([text("dark"), text("blue")].concat(), "dark\nblue"),
        (data(r#"{"resume":"blue"}"#), "blue"),
        (data(r#"{"resume":{"choice":"A"}}"#), r#"{"choice":"A"}"#),
        (data(r#"{"resume":[{"id":"interrupt-1","value":3.0}]}"#), "3.0"),
        (data(r#"{"resume":{"interrupt-1":true}}"#), "true"),
        (data(r#"{"resume":null}"#), "null"),
        (data(r#"{"resume":[]}"#), "[]"),
        (data(r#"{"choice":"B"}"#), r#"{"choice":"B"}"#),
        ([text("not this"), data(r#"{"resume":"this"}"#)].concat(), "this"),
    ] {
        let mut stage = stage(AssistantMode::Interrupt);
        let asked = questions(&stage.hear(text("plan a trip")).await);
        assert_eq!(asked, r#"{"id":"interrupt-1","value":{"question":"Which colour would you like?"}}"#);
        assert_eq!(response(&stage.hear(answer).await), format!("You answered: {expected}"));
        assert_eq!(stage.task().status.state, State::Completed);
    }
}

#[tokio::test(start_paused = true)]
async fn both_of_two_questions_are_answered_in_one_part() {
    let mut stage = stage(AssistantMode::Parallel);
    assert_eq!(questions(&stage.hear(text("go")).await), format!("{FIRST}|{SECOND}"));
    let resume =
        r#"{"resume":[{"id":"interrupt-2","value":{"choice":"B"}},{"id":"interrupt-1","value":{"choice":"A"}}]}"#;
    let answered = response(&stage.hear(data(resume)).await);
    assert_eq!(answered, r#"{"interrupt-1":{"choice":"A"},"interrupt-2":{"choice":"B"}}"#);
}

#[tokio::test(start_paused = true)]
async fn what_is_left_open_is_asked_again_under_the_same_ids() {
    let mut stage = stage(AssistantMode::Parallel);
    stage.hear(text("go")).await;
    // An answer to a question that was not asked.
    let unknown = data(r#"{"resume":[{"id":"interrupt-7","value":1}]}"#);
    assert_eq!(questions(&stage.hear(unknown).await), format!("{FIRST}|{SECOND}"));
    assert_eq!(questions(&stage.hear(data(r#"{"resume":{"interrupt-2":2}}"#)).await), FIRST);
    assert_eq!(stage.task().artifacts.len(), 1, "the open questions take the place of the former");
    // An answered question stays answered; a text answers the first open one.
    assert_eq!(questions(&stage.hear(data(r#"{"resume":[{"id":"interrupt-2","value":9}]}"#)).await), FIRST);
    assert_eq!(response(&stage.hear(text("May")).await), r#"{"interrupt-1":"May","interrupt-2":2}"#);
}

#[tokio::test(start_paused = true)]
async fn a_text_answers_the_first_open_question_and_nothing_answers_none() {
    let mut stage = stage(AssistantMode::Parallel);
    stage.hear(text("go")).await;
    assert_eq!(questions(&stage.hear(text("May")).await), SECOND);
    let picture = vec![Part::new(model::Content::Url("https://example.com/a.png".into()))];
    assert_eq!(questions(&stage.hear(picture).await), SECOND);
    assert_eq!(response(&stage.hear(data(r#"{"resume":2}"#)).await), r#"{"interrupt-1":"May","interrupt-2":2}"#);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_was_cut_off_asks_again_and_an_answer_survives_a_restart() {
    let mut stage = stage(AssistantMode::Parallel);
    stage.say("m1", text("go"));
    stage.start();
    stage.next().await;
    stage.next().await;
    stage.retry();
    assert_eq!(questions(&stage.finish().await), format!("{FIRST}|{SECOND}"));
    stage.hear(text("May")).await;
    stage.restart(build(AssistantMode::Parallel, "tested"));
    assert_eq!(response(&stage.hear(text("two")).await), r#"{"interrupt-1":"May","interrupt-2":"two"}"#);
}

#[test]
fn they_may_run_ahead_and_again_and_read_only_what_they_understand() {
    for mode in [AssistantMode::Chat, AssistantMode::Interrupt, AssistantMode::Parallel, AssistantMode::Structured] {
        let agent = build(mode, "tested");
        let admission = agent.admit(&inbound("m", text("hi")), None).unwrap();
        assert_eq!((admission.undecided, admission.restart, admission.idempotent), (false, Restart::Retry, true));
        assert_eq!(agent.profile().input_modes.contains(&"text/plain".into()), mode != AssistantMode::Structured);
    }
}

#[tokio::test]
async fn a_config_gives_an_assistant_any_name() {
    let agent: Arc<dyn model::ports::agent::Agent> =
        crate::testing::agent(serde_json::json!({"kind": "assistant", "mode": "structured"})).await;
    assert_eq!(agent.profile().input_modes, ["application/json"]);
    let refused =
        crate::AgentConfig::read(serde_json::json!({"kind": "assistant", "mode": "loud"}).as_object().unwrap().clone());
    assert!(refused.unwrap_err().to_string().contains("expected one of `chat`"));
}
