//! Tests of scripts that are continued by a later message.

use super::*;

const TWO_QUESTIONS: &str = r#"{"artifact":{"parts":[{"text":"x"}]}},{"input":"name?"},{"status":"working","text":"checking"},
    {"auth":"key?"},{"artifact":{"parts":[{"text":"y"}]}},{"complete":"done"}"#;

#[tokio::test(start_paused = true)]
async fn the_rest_plays_after_the_next_message() {
    let mut stage = stage();
    assert_eq!(brief(&stage.hear(script(TWO_QUESTIONS)).await), ["a0= x", "InputRequired name?"]);
    assert_eq!(
        brief(&stage.hear(text("fail")).await),
        ["working checking", "AuthRequired key?"],
        "an answer, no command"
    );
    assert_eq!(brief(&stage.hear(text("1234")).await), ["a4= y", "Completed done"]);
}

#[tokio::test(start_paused = true)]
async fn the_rest_plays_after_a_restart_too() {
    let mut stage = stage();
    stage.hear(script(TWO_QUESTIONS)).await;
    stage.restart(agent(ScriptedMode::Play));
    assert_eq!(brief(&stage.hear(text("Ada")).await), ["working checking", "AuthRequired key?"]);
    stage.restart(agent(ScriptedMode::Ask));
    assert_eq!(brief(&stage.hear(text("1234")).await), ["a4= y", "Completed done"]);
}

#[tokio::test(start_paused = true)]
async fn a_script_that_ends_in_a_question_completes_when_it_is_answered() {
    let mut stage = stage();
    stage.hear(script(r#"{"input":"well?"}"#)).await;
    assert_eq!(brief(&stage.hear(text("yes")).await), ["Completed"]);
}

#[tokio::test(start_paused = true)]
async fn an_echo_step_hands_the_answer_back() {
    let mut stage = stage();
    stage.hear(script(r#"{"input":"name?"},{"echo":true},{"complete":"thanks"}"#)).await;
    assert_eq!(brief(&stage.hear(text("Ada")).await), ["a1= Ada", "Completed thanks"]);
}

#[tokio::test(start_paused = true)]
async fn messages_that_share_a_turn_are_one_answer() {
    let mut stage = stage();
    stage.say(
        "m1",
        script(r#"{"sleep_ms":5},{"input":"one?"},{"input":"two?"},{"input":"three?"},{"complete":"done"}"#),
    );
    stage.start();
    stage.say("m2", text("a"));
    stage.say("m3", text("b"));
    assert_eq!(brief(&stage.finish().await), ["InputRequired one?"]);
    assert_eq!(brief(&stage.turn().await), ["InputRequired two?"], "both were taken up at once");
    assert_eq!(brief(&stage.hear(text("c")).await), ["InputRequired three?"]);
    assert_eq!(brief(&stage.hear(text("d")).await), ["Completed done"]);
}

#[tokio::test(start_paused = true)]
async fn a_new_script_plays_from_its_start() {
    let mut stage = stage();
    stage.hear(script(r#"{"input":"one?"},{"complete":"first"}"#)).await;
    let second = r#"{"artifact":{"parts":[{"text":"x"}]}},{"input":"two?"},{"complete":"second"}"#;
    assert_eq!(brief(&stage.hear(script(second)).await), ["m1a0= x", "InputRequired two?"]);
    assert_eq!(brief(&stage.hear(text("yes")).await), ["Completed second"]);
}

#[tokio::test(start_paused = true)]
async fn a_later_script_goes_on_rightly_when_messages_before_or_after_it_shared_a_turn() {
    // Before: three messages answer the first script's question; the last has a script of its own.
    let mut stage = stage();
    stage.say("m1", script(r#"{"sleep_ms":5},{"input":"zero?"},{"fail":"never"}"#));
    stage.start();
    stage.say("m2", text("a"));
    stage.say("m3", text("b"));
    stage.say("m4", script(r#"{"input":"one?"},{"input":"two?"},{"complete":"done"}"#));
    assert_eq!(brief(&stage.finish().await), ["InputRequired zero?"]);
    assert_eq!(brief(&stage.turn().await), ["InputRequired one?"]);
    assert_eq!(brief(&stage.hear(text("c")).await), ["InputRequired two?"]);
    assert_eq!(brief(&stage.hear(text("d")).await), ["Completed done"]);

    // After: two messages answer the second script's first question.
    let mut stage = super::stage();
    stage.hear(script(r#"{"input":"zero?"}"#)).await;
    stage.say("m2", script(r#"{"sleep_ms":5},{"input":"one?"},{"input":"two?"},{"complete":"done"}"#));
    stage.start();
    stage.say("m3", text("a"));
    stage.say("m4", text("b"));
    assert_eq!(brief(&stage.finish().await), ["InputRequired one?"]);
    assert_eq!(brief(&stage.turn().await), ["InputRequired two?"]);
    assert_eq!(brief(&stage.hear(text("c")).await), ["Completed done"]);
}

#[tokio::test(start_paused = true)]
async fn a_script_that_shares_its_turn_with_a_later_message_plays_from_its_start() {
    let mut stage = stage();
    stage.say("m1", script(r#"{"sleep_ms":5},{"complete":"first"}"#));
    stage.start();
    stage.say("m2", script(r#"{"input":"one?"},{"complete":"second"}"#));
    stage.say("m3", text("never mind"));
    stage.finish().await;
    assert_eq!(brief(&stage.turn().await), ["InputRequired one?"]);
    assert_eq!(brief(&stage.hear(text("yes")).await), ["Completed second"]);
}

#[tokio::test(start_paused = true)]
async fn a_message_after_a_script_that_came_to_its_end_is_on_its_own() {
    for steps in [r#"{"sleep_ms":5}"#, r#"{"sleep_ms":5},{"complete":"x"},{"input":"never?"}"#] {
        let mut stage = stage();
        stage.say("m1", script(steps));
        stage.start();
        stage.say("m2", text("hello"));
        stage.finish().await;
        assert_eq!(brief(&stage.turn().await), ["working", "m1a1= hello", "Completed"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_retried_attempt_plays_the_same_segment_from_its_beginning() {
    let mut stage = stage();
    stage.say("m1", script(TWO_QUESTIONS));
    stage.start();
    assert_eq!(brief(&[stage.next().await.unwrap()]), ["a0= x"]);
    stage.retry();
    assert_eq!(brief(&stage.finish().await), ["a0= x", "InputRequired name?"], "the same key, so the same artifact");
    stage.say("m2", text("Ada"));
    stage.start();
    assert_eq!(brief(&[stage.next().await.unwrap()]), ["working checking"]);
    stage.retry();
    stage.retry();
    assert_eq!(brief(&stage.finish().await), ["working checking", "AuthRequired key?"]);
    assert_eq!(brief(&stage.hear(text("1234")).await), ["a4= y", "Completed done"]);
    assert_eq!(stage.task().artifacts.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_came_before_a_retry_changes_nothing() {
    let mut stage = stage();
    stage.say("m1", script(TWO_QUESTIONS));
    stage.start();
    stage.next().await.unwrap();
    stage.say("m2", text("hello?"));
    stage.retry();
    assert_eq!(brief(&stage.finish().await), ["a0= x", "InputRequired name?"]);
    assert_eq!(brief(&stage.hear(text("Ada")).await), ["working checking", "AuthRequired key?"]);
}

#[tokio::test(start_paused = true)]
async fn a_script_works_in_ask_mode_as_in_play() {
    let mut stage = ScriptContext::new(agent(ScriptedMode::Ask));
    assert_eq!(brief(&stage.hear(text("hello")).await), ["working", "InputRequired what next?"]);
    stage.hear(script(TWO_QUESTIONS)).await;
    assert_eq!(brief(&stage.hear(text("Ada")).await), ["working checking", "AuthRequired key?"]);
}
