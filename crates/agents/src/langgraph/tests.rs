//! Tests against a graph server that the test itself plays.

use std::time::Instant;

use futures_util::StreamExt as _;
use model::{Part, State};
use serde_json::{Value, json};

use super::*;
use crate::fake_server::{FakeRequest as Request, FakeServer};
use crate::scripted::stage::{ScriptContext, brief, json as raw};
use crate::testing::{Running, agent, refused, run, text, turn};

const RUN: &str = "01a1e23f-25d1-7238-a344-3c11d8c9bb9a";
const TURN: &str = "0190f3c4-1111-7222-8333-000000000001";

async fn graph_at(desk: &FakeServer, more: Value) -> Arc<dyn agent::Agent> {
    let mut config = json!({"kind": "langgraph", "url": desk.url("/"), "assistant": "chat", "retry_ms": 1});
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    agent(config).await
}

fn data(text: &str) -> Vec<Part> {
    vec![Part::data(raw(text))]
}

fn event(name: &str, data: &Value) -> String {
    format!("event: {name}\r\ndata: {data}\r\nid: 1-0\r\n\r\n")
}

fn began() -> String {
    event("metadata", &json!({"run_id": RUN, "attempt": 1}))
}

fn token(id: &str, text: &str) -> String {
    let chunk = json!({"content": text, "type": "AIMessageChunk", "id": id, "usage_metadata": null});
    event("messages", &json!([chunk, {"langgraph_node": "say"}]))
}

fn human(id: &str) -> Value {
    json!({"content": "hello", "type": "human", "id": id})
}

fn ai(id: &str, text: &str) -> Value {
    json!({"content": text, "type": "ai", "id": id})
}

fn values(messages: &[Value]) -> String {
    event("values", &json!({ "messages": messages }))
}

fn interrupted(id: &str) -> String {
    event(
        "updates",
        &json!({"__interrupt__": [{"id": id, "value": {"question": format!("{id}?")}, "response_schema": null}]}),
    )
}

/// The next request, which must match.
async fn asked(desk: &FakeServer, method: &str, path_end: &str) -> Request {
    let asked = desk.asked().await;
    assert!(asked.method == method && asked.path.ends_with(path_end), "{} {}: {path_end}", asked.method, asked.path);
    asked
}

/// Begins the stream of a run.
async fn streaming(mut request: Request) -> Request {
    request
        .begin_with(&format!("content-location: /threads/x/runs/{RUN}\r\n"), "text/event-stream; charset=utf-8")
        .await;
    request
}

/// Accepts the creation of a run and streams it to its end.
async fn created(desk: &FakeServer, said: &[String]) -> Value {
    let asked = asked(desk, "POST", "/runs/stream").await;
    let body = asked.json();
    let mut stream = streaming(asked).await;
    stream.chunk(&said.concat()).await;
    stream.end().await;
    body
}

async fn attached(desk: &FakeServer, said: &[String]) {
    let asked = asked(desk, "GET", &format!("/runs/{RUN}/stream")).await;
    assert_eq!(asked.headers["last-event-id"], "-1");
    let mut stream = streaming(asked).await;
    stream.chunk(&said.concat()).await;
    stream.end().await;
}

async fn status(desk: &FakeServer, status: &str) {
    let asked = asked(desk, "GET", &format!("/runs/{RUN}")).await;
    asked.json_answer(&json!({"run_id": RUN, "status": status, "metadata": {}}).to_string()).await;
}

fn bound(said: &[AgentEvent]) -> String {
    let AgentEvent::Bound(remote) = &said[1] else { panic!("{said:?}") };
    remote.clone()
}

/// The emissions after the working state and the binding.
fn rest(said: &[AgentEvent]) -> Vec<String> {
    assert_eq!(said[0], AgentEvent::Working(None));
    assert_eq!(RunBinding::read(Some(&bound(said))).unwrap().run, RUN);
    brief(&said[2..])
}

#[tokio::test]
async fn words_come_as_they_are_said_and_the_run_is_bound_before_them() {
    let desk = FakeServer::open().await;
    let agent = graph_at(&desk, json!({})).await;
    let mut running = Running::start(&*agent, turn(text("hello")));
    assert_eq!(running.next().await, AgentEvent::Working(None));
    let (next, mut stream) =
        tokio::join!(running.next(), async { streaming(asked(&desk, "POST", "/runs/stream").await).await });
    assert_eq!(
        brief(&[next])[0],
        format!(r#"bound {{"run":"{RUN}","thread":"{}"}}"#, binding::thread(&turn(text(""))))
    );
    stream.chunk(&[began(), values(&[human("h")]), token("m", "You")].concat()).await;
    let AgentEvent::Artifact(first) = running.next().await else { panic!("an artifact") };
    assert_eq!((first.name.as_deref(), first.append), (Some("Assistant Response"), false));
    assert_eq!(first.description.as_deref(), Some("Response from assistant chat"));
    let rest = tokio::join!(running.said.collect::<Vec<_>>(), async {
        let answer = json!({"content": "You said: hello", "type": "ai", "id": "m",
            "usage_metadata": {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}});
        stream.chunk(&[token("m", " said:"), token("m", " hello"), values(&[human("h"), answer])].concat()).await;
        stream.end().await;
        status(&desk, "success").await;
    })
    .0;
    let usage = r#"metadata {"usage":{"input_tokens":3,"output_tokens":4,"total_tokens":7}}"#;
    let said = brief(&rest);
    assert_eq!(said[said.len() - 2..], [usage, "Completed"]);
    let words: String = said[..said.len() - 2].iter().map(|said| said.split_once(' ').unwrap().1).collect();
    assert_eq!(words, " said: hello");
    assert!(said[said.len() - 3].starts_with("response+ "), "{said:?}");
}

#[tokio::test]
async fn a_message_is_the_graph_s_input_and_its_data_lie_over_it() {
    let desk = FakeServer::open().await;
    let key = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&key, "s3cret").unwrap();
    let key = format!("file:{}", key.path().display());
    let more = json!({"api_key": key, "headers": {"x-team": "a"}, "stream_mode": "messages"});
    let agent = graph_at(&desk, more).await;
    let mut parts = [text("hello"), data(r#"{"locale":"en","n":12345678901234567890}"#)].concat();
    parts.extend(text("you"));
    let turn = turn(parts);
    let thread = binding::thread(&turn);
    let (_, ()) = tokio::join!(run(&*agent, turn), async {
        let asked = desk.asked().await;
        assert_eq!(asked.path, format!("/threads/{thread}/runs/stream"));
        assert_eq!((&*asked.headers["x-api-key"], &*asked.headers["x-team"]), ("s3cret", "a"));
        assert!(asked.body.contains(r#""n":12345678901234567890"#), "{}", asked.body);
        let mut body = asked.json();
        let input = body["input"].take();
        let message = |n: u8, text: &str| json!({"role": "human", "content": text, "id": format!("{TURN}-{n}")});
        assert_eq!(input["messages"], json!([message(0, "hello"), message(1, "you")]));
        assert_eq!(input["locale"], "en");
        assert_eq!(body["assistant_id"], "chat");
        assert_eq!(body["stream_mode"], json!(["messages", "values", "updates"]));
        assert_eq!((&body["multitask_strategy"], &body["if_not_exists"]), (&json!("enqueue"), &json!("create")));
        assert_eq!((&body["on_disconnect"], &body["stream_resumable"]), (&json!("continue"), &json!(true)));
        assert_eq!(body["metadata"]["rialto_turn"], TURN);
        asked.answer("422 Unprocessable Entity", "", "application/json", r#"{"detail":"no such assistant"}"#).await;
    });
}

/// A turn whose run streams these events.
async fn comes_to(said: Vec<String>, ends: &str) -> Vec<String> {
    let desk = FakeServer::open().await;
    let agent = graph_at(&desk, json!({})).await;
    let (said, ()) = tokio::join!(run(&*agent, turn(text("hello"))), async {
        created(&desk, &said).await;
        status(&desk, ends).await;
    });
    rest(&said)
}

#[tokio::test]
async fn the_last_message_that_is_new_is_the_answer() {
    let before = [ai("old", "earlier"), human("h")];
    let state = |more: &[Value]| values(&[&before[..], more].concat());
    // A whole message with blocks, and a message of an intermediate node.
    let blocks = json!({"type": "ai", "id": "m", "content": [{"type": "text", "text": "a"}, {"type": "image"}, "b"]});
    assert_eq!(comes_to(vec![began(), state(&[]), state(&[blocks])], "success").await, ["response= ab", "Completed"]);
    let planned = vec![began(), state(&[]), token("plan", "first I "), token("m", "done")];
    let ends = [planned, vec![state(&[ai("plan", "first I will"), ai("m", "done")])]].concat();
    let said = comes_to(ends, "success").await;
    assert_eq!(said[said.len() - 2..], ["response= done", "Completed"], "{said:?}");
    // The state adds nothing: the streamed text is the answer.
    let said = comes_to(vec![began(), state(&[]), token("m", "psst"), state(&[])], "success").await;
    assert_eq!(said, ["response= psst", "Completed"]);
    assert_eq!(comes_to(vec![began(), state(&[]), state(&[])], "success").await, ["response= ", "Completed"]);
    // Streamed text that the final state does not contain.
    let said = comes_to(vec![began(), state(&[]), token("m", "a secret"), state(&[ai("m", "a")])], "success").await;
    assert_eq!(said, ["response= a", "Completed"]);
}

#[tokio::test]
async fn a_state_without_messages_is_printed() {
    let said = vec![began(), event("values", &json!({"total": 0})), event("values", &json!({"total": 3}))];
    assert_eq!(comes_to(said, "success").await, [r#"response= {"total":3}"#, "Completed"]);
}

#[tokio::test]
async fn the_other_way_to_stream_words_is_understood() {
    let partial = |text: &str| event("messages/partial", &json!([ai("m", text)]));
    let said = vec![began(), values(&[human("h")]), partial("You"), partial("You said"), partial("You said: hi")];
    let said = comes_to([said, vec![values(&[human("h"), ai("m", "You said: hi")])]].concat(), "success").await;
    assert_eq!(said.last().unwrap(), "Completed");
    let words: String = said[..said.len() - 1].iter().map(|said| said.split_once(' ').unwrap().1).collect();
    assert_eq!(words, "You said: hi");
}

#[tokio::test]
async fn an_error_is_told_and_bounded() {
    let error = |message: &str| vec![began(), event("error", &json!({"error": "ValueError", "message": message}))];
    assert_eq!(comes_to(error("out of paper"), "error").await, ["Failed Error executing assistant: out of paper"]);
    let long = comes_to(error(&"€".repeat(99_999)), "error").await;
    assert!(long[0].chars().count() < 2_100);
    assert_eq!(comes_to(vec![began()], "timeout").await, ["Failed Error executing assistant: the run timed out"]);
    assert_eq!(comes_to(vec![began()], "interrupted").await, ["Canceled the run was stopped at the graph server"]);
}

#[tokio::test]
async fn a_refused_run_fails_with_the_server_s_words() {
    let desk = FakeServer::open().await;
    let agent = graph_at(&desk, json!({})).await;
    let (said, ()) = tokio::join!(run(&*agent, turn(text("hello"))), async {
        let asked = asked(&desk, "POST", "/runs/stream").await;
        asked
            .answer("422 Unprocessable Entity", "", "application/json", r#"{"detail":"Invalid assistant: 'x'"}"#)
            .await;
    });
    let says = "Failed the graph server answered 422 Unprocessable Entity: Invalid assistant: 'x'";
    assert_eq!(brief(&said), ["working", says]);
}

/// The body of the run that answers these questions.
async fn resumed(open: &[&str], answer: Vec<Part>) -> Value {
    let desk = FakeServer::open().await;
    let mut stage = ScriptContext::new(graph_at(&desk, json!({})).await);
    let (said, _) = tokio::join!(stage.hear(text("go")), async {
        let mut said = vec![began(), values(&[human("h")])];
        said.extend(open.iter().map(|id| interrupted(id)));
        created(&desk, &said).await;
        status(&desk, "success").await;
    });
    let parts: Vec<_> = open.iter().map(|id| format!(r#"{{"id":"{id}","value":{{"question":"{id}?"}}}}"#)).collect();
    let says: Vec<_> = open.iter().map(|id| format!("{id}?")).collect();
    let expected = [format!("interrupt= {}", parts.join("|")), format!("InputRequired {}", says.join("\n"))];
    assert_eq!(rest(&said), expected);
    let (said, body) = tokio::join!(stage.hear(answer), async {
        let before = values(&[human("h")]);
        let body = created(&desk, &[began(), before, values(&[human("h"), ai("m", "thanks")])]).await;
        status(&desk, "success").await;
        body
    });
    assert_eq!(rest(&said), ["response-2= thanks", "Completed"]);
    assert_eq!(stage.task().status.state, State::Completed);
    assert!(body.get("input").is_none());
    body["command"].clone()
}

#[tokio::test]
async fn an_answer_resumes_the_graph() {
    let one = &["q1"];
    assert_eq!(resumed(one, text("blue")).await, json!({"resume": "blue"}));
    assert_eq!(resumed(one, [text("dark"), text("blue")].concat()).await, json!({"resume": "dark\nblue"}));
    assert_eq!(resumed(one, data(r#"{"resume":{"choice":"A"}}"#)).await, json!({"resume": {"choice": "A"}}));
    assert_eq!(resumed(one, data(r#"{"resume":[{"id":"q1","value":3}]}"#)).await, json!({"resume": {"q1": 3}}));
    assert_eq!(
        resumed(one, data(r#"{"resume":[{"id":"other","value":3}]}"#)).await,
        json!({"resume": [{"id": "other", "value": 3}]})
    );
    assert_eq!(resumed(one, data("7")).await, json!({"resume": 7}));
    let both = [text("blue"), data(r#"{"locale":"en"}"#)].concat();
    assert_eq!(resumed(one, both).await, json!({"resume": "blue", "update": {"locale": "en"}}));
}

#[tokio::test]
async fn parallel_questions_are_answered_by_their_ids() {
    let two = &["q1", "q2"];
    let list = data(r#"{"resume":[{"id":"q1","value":{"choice":"A"}},{"id":"q2","value":2}]}"#);
    assert_eq!(resumed(two, list).await, json!({"resume": {"q1": {"choice": "A"}, "q2": 2}}));
    assert_eq!(resumed(two, data(r#"{"resume":{"q2":2}}"#)).await, json!({"resume": {"q2": 2}}));
    assert_eq!(resumed(two, text("May")).await, json!({"resume": {"q1": "May"}}));
    assert_eq!(resumed(two, data(r#"{"resume":2}"#)).await, json!({"resume": {"q1": 2}}));
}

#[tokio::test]
async fn a_question_that_a_later_state_does_not_repeat_is_still_open() {
    let said = vec![began(), values(&[human("h")]), interrupted("q1"), values(&[human("h")])];
    let said = comes_to(said, "success").await;
    assert_eq!(said[0], r#"interrupt= {"id":"q1","value":{"question":"q1?"}}"#);
}

#[tokio::test]
async fn a_cancel_stops_the_run() {
    let desk = FakeServer::open().await;
    let agent = graph_at(&desk, json!({})).await;
    let mut running = Running::start(&*agent, turn(text("hello")));
    running.next().await;
    let (_, mut stream) =
        tokio::join!(running.next(), async { streaming(asked(&desk, "POST", "/runs/stream").await).await });
    let (said, ()) = tokio::join!(running.cancelled(), async {
        let path = format!("/runs/{RUN}/cancel?wait=false&action=interrupt");
        asked(&desk, "POST", &path).await.answer("202 Accepted", "", "application/json", "").await;
        stream.gone().await;
    });
    assert_eq!(brief(&said), ["Canceled"]);
}

#[tokio::test]
async fn a_run_that_was_over_before_it_could_be_stopped_is_heard_to_its_end() {
    let desk = FakeServer::open().await;
    let agent = graph_at(&desk, json!({})).await;
    let mut running = Running::start(&*agent, turn(text("hello")));
    running.next().await;
    let (_, mut stream) =
        tokio::join!(running.next(), async { streaming(asked(&desk, "POST", "/runs/stream").await).await });
    let (said, ()) = tokio::join!(running.cancelled(), async {
        let asked = asked(&desk, "POST", "action=interrupt").await;
        asked.answer("404 Not Found", "", "application/json", r#"{"detail":"No matching runs"}"#).await;
        stream.chunk(&[began(), values(&[human("h")]), values(&[human("h"), ai("m", "hi")])].concat()).await;
        stream.end().await;
        status(&desk, "success").await;
    });
    assert_eq!(brief(&said), ["response= hi", "Completed"]);
}

#[tokio::test]
async fn a_cancel_finds_a_run_whose_name_was_not_yet_heard() {
    let desk = FakeServer::open().await;
    let agent = graph_at(&desk, json!({})).await;
    let mut running = Running::start(&*agent, turn(text("hello")));
    running.next().await;
    let (said, ()) = tokio::join!(running.cancelled(), async {
        // The request may or may not have been sent by then.
        let mut next = desk.asked().await;
        if next.method == "POST" {
            next = desk.asked().await;
        }
        assert!(next.path.ends_with("/runs?limit=100"), "{}", next.path);
        next.json_answer(&json!([{"run_id": RUN, "metadata": {"rialto_turn": TURN}}]).to_string()).await;
        asked(&desk, "POST", "action=interrupt").await.answer("202 Accepted", "", "application/json", "").await;
    });
    assert_eq!(brief(&said), ["Canceled"]);
}

fn again(bound: Option<&str>) -> Turn {
    Turn { attempt: 2, bound: bound.map(|run| format!(r#"{{"thread":"t","run":"{run}"}}"#)), ..turn(text("hello")) }
}

#[tokio::test]
async fn after_a_crash_the_run_is_heard_again_from_its_beginning() {
    let desk = FakeServer::open().await;
    let agent = graph_at(&desk, json!({})).await;
    let said = [began(), values(&[human("h")]), token("m", "hi"), values(&[human("h"), ai("m", "hi")])];
    let (said, ()) = tokio::join!(run(&*agent, again(Some(RUN))), async {
        attached(&desk, &said).await;
        status(&desk, "success").await;
    });
    assert_eq!(brief(&said), ["working", "response= hi", "Completed"]);
}

#[tokio::test]
async fn what_was_streamed_and_is_gone_is_read_from_the_thread() {
    let desk = FakeServer::open().await;
    let agent = graph_at(&desk, json!({})).await;
    for (interrupts, expected) in [
        (json!([]), vec!["response= hi", "Completed"]),
        (
            json!([{"id": "q", "value": "which?"}]),
            vec![r#"interrupt= {"id":"q","value":"which?"}"#, "InputRequired which?"],
        ),
    ] {
        let own = human(&format!("{TURN}-0"));
        let (said, ()) = tokio::join!(run(&*agent, again(Some(RUN))), async {
            attached(&desk, &[]).await;
            status(&desk, "success").await;
            let messages = json!([ai("old", "no"), own, ai("m", "hi"), human("next"), ai("other", "no")]);
            let state = json!({"values": {"messages": messages}, "interrupts": interrupts, "next": []});
            asked(&desk, "GET", "/state").await.json_answer(&state.to_string()).await;
        });
        assert_eq!(brief(&said)[1..], expected);
    }
}

#[tokio::test]
async fn a_run_that_was_created_and_not_bound_is_found_by_its_turn() {
    let desk = FakeServer::open().await;
    let agent = graph_at(&desk, json!({})).await;
    let (said, ()) = tokio::join!(run(&*agent, again(None)), async {
        let runs = json!([{"run_id": "x", "metadata": {}}, {"run_id": RUN, "metadata": {"rialto_turn": TURN}}]);
        asked(&desk, "GET", "/runs?limit=100").await.json_answer(&runs.to_string()).await;
        attached(&desk, &[began(), values(&[]), values(&[ai("m", "hi")])]).await;
        status(&desk, "success").await;
    });
    assert_eq!(rest(&said), ["response= hi", "Completed"]);
}

#[tokio::test]
async fn a_run_that_was_never_created_is() {
    let desk = FakeServer::open().await;
    let agent = graph_at(&desk, json!({})).await;
    let (said, ()) = tokio::join!(run(&*agent, again(None)), async {
        let asked = asked(&desk, "GET", "/runs?limit=100").await;
        asked.answer("404 Not Found", "", "application/json", r#"{"detail":"Thread not found"}"#).await;
        created(&desk, &[began(), values(&[]), values(&[ai("m", "hi")])]).await;
        status(&desk, "success").await;
    });
    assert_eq!(rest(&said), ["response= hi", "Completed"]);
}

#[tokio::test]
async fn a_stream_that_breaks_is_heard_again_and_says_nothing_twice() {
    let desk = FakeServer::open().await;
    let agent = graph_at(&desk, json!({})).await;
    let (said, ()) = tokio::join!(run(&*agent, turn(text("hello"))), async {
        let mut stream = streaming(asked(&desk, "POST", "/runs/stream").await).await;
        let first = [began(), values(&[human("h")]), token("m", "one ")].concat();
        stream.chunk(&first).await;
        drop(stream);
        status(&desk, "running").await;
        let last = values(&[human("h"), ai("m", "one two")]);
        attached(&desk, &[first, token("m", "two"), last]).await;
        status(&desk, "success").await;
    });
    let said = rest(&said);
    assert_eq!(said.last().unwrap(), "Completed");
    let words: String = said[..said.len() - 1].iter().map(|said| said.split_once(' ').unwrap().1).collect();
    assert_eq!(words, "one two");
}

#[tokio::test]
async fn a_run_that_ended_while_its_stream_was_broken_is_heard_once_more() {
    let desk = FakeServer::open().await;
    let agent = graph_at(&desk, json!({})).await;
    let (said, ()) = tokio::join!(run(&*agent, turn(text("hello"))), async {
        let mut stream = streaming(asked(&desk, "POST", "/runs/stream").await).await;
        stream.chunk(&[began(), values(&[human("h")])].concat()).await;
        drop(stream);
        status(&desk, "success").await;
        attached(&desk, &[began(), values(&[human("h")]), values(&[human("h"), ai("m", "hi")])]).await;
        status(&desk, "success").await;
    });
    assert_eq!(rest(&said), ["response= hi", "Completed"]);
}

#[tokio::test]
async fn a_server_that_dies_and_stays_dead_fails_the_turn_after_a_few_tries() {
    let desk = FakeServer::open().await;
    let agent = graph_at(&desk, json!({})).await;
    let began_at = Instant::now();
    let (said, ()) = tokio::join!(run(&*agent, turn(text("hello"))), async {
        let mut stream = streaming(asked(&desk, "POST", "/runs/stream").await).await;
        stream.chunk(&[began(), values(&[human("h")]), token("m", "half")].concat()).await;
        drop(stream);
        drop(desk);
    });
    assert_eq!(rest(&said), ["response= half", "Failed the graph server could not be reached"]);
    assert!(began_at.elapsed().as_secs() < 20);
}

#[tokio::test]
async fn a_server_that_comes_back_without_the_run_fails_the_turn_and_says_what_to_do() {
    let desk = FakeServer::open().await;
    let agent = graph_at(&desk, json!({})).await;
    let (said, ()) = tokio::join!(run(&*agent, again(Some(RUN))), async {
        attached(&desk, &[event("error", &json!({"error": "HTTPException", "message": "404: Run not found"}))]).await;
        asked(&desk, "GET", RUN)
            .await
            .answer("404 Not Found", "", "application/json", r#"{"detail":"Not Found"}"#)
            .await;
    });
    assert_eq!(brief(&said)[1..], ["Failed the graph server no longer knows the run; send the message again"]);
}

#[tokio::test]
async fn a_busy_server_is_asked_again_and_no_run_is_created_twice() {
    let desk = FakeServer::open().await;
    let agent = graph_at(&desk, json!({})).await;
    let (said, ()) = tokio::join!(run(&*agent, turn(text("hello"))), async {
        let busy = asked(&desk, "POST", "/runs/stream").await;
        busy.answer("503 Service Unavailable", "", "text/plain", "").await;
        asked(&desk, "GET", "/runs?limit=100").await.json_answer("[]").await;
        // The server creates the run and dies before it answers.
        drop(asked(&desk, "POST", "/runs/stream").await);
        let runs = json!([{"run_id": RUN, "metadata": {"rialto_turn": TURN}}]);
        asked(&desk, "GET", "/runs?limit=100").await.json_answer(&runs.to_string()).await;
        attached(&desk, &[began(), values(&[]), values(&[ai("m", "hi")])]).await;
        status(&desk, "success").await;
    });
    assert_eq!(rest(&said), ["response= hi", "Completed"]);
}

#[tokio::test]
async fn a_message_that_follows_an_answered_question_is_a_message() {
    let desk = FakeServer::open().await;
    let mut stage = ScriptContext::new(graph_at(&desk, json!({})).await);
    let answers = [began(), values(&[]), values(&[ai("m", "hi")])];
    tokio::join!(stage.hear(text("go")), async {
        created(&desk, &[began(), values(&[]), interrupted("q1")]).await;
        status(&desk, "success").await;
    });
    stage.say("m-answer", text("blue"));
    stage.start();
    // This message arrives while the answer is processed, and waits for the next turn.
    stage.say("m-more", text("and more"));
    let other = "01a1e23f-25d1-7238-a344-000000000000";
    tokio::join!(stage.finish(), async {
        let mut stream = asked(&desk, "POST", "/runs/stream").await;
        assert_eq!(stream.json()["command"], json!({"resume": "blue"}));
        stream.begin_with(&format!("content-location: /threads/x/runs/{other}\r\n"), "text/event-stream").await;
        stream.chunk(&answers.concat()).await;
        stream.end().await;
        asked(&desk, "GET", other).await.json_answer(&json!({"run_id": other, "status": "success"}).to_string()).await;
    });
    let (_, body) = tokio::join!(stage.turn(), async {
        let body = created(&desk, &answers).await;
        status(&desk, "success").await;
        body
    });
    assert_eq!(body["input"]["messages"][0]["content"], "and more");
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_at_the_start() {
    let config = |more: Value| {
        let mut config = json!({"kind": "langgraph", "url": "http://127.0.0.1:1", "assistant": "chat"});
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        config
    };
    assert!(refused(json!({"kind": "langgraph", "url": "http://x"})).contains("missing field `assistant`"));
    assert!(refused(config(json!({"assistant": " "}))).contains("name an assistant"));
    assert!(refused(config(json!({"url": "host"}))).contains("is no address"));
    assert!(refused(config(json!({"stream_mode": "loud"}))).contains("expected one of `messages-tuple`"));
    assert!(refused(config(json!({"api_key": "hunter2"}))).contains("env:NAME"));
    let agent = agent(config(json!({}))).await;
    assert_eq!(agent.profile().restart, Restart::Resume);
    let inbound = crate::scripted::stage::inbound("m", data("[1]"));
    assert_eq!(agent.admit(&inbound, None).unwrap_err().field.as_deref(), Some("message.parts[0].data"));
}
