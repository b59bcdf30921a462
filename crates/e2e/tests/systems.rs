//! Systems of agents at Orloj's endpoints: every example of the product's page against the demo, and the
//! peculiarities of the dialect.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use e2e::http::{Connection, Request, Response};
use e2e::{Client, Server, Tongue, until};
use serde_json::{Value, json};

/// A server with a caller's credentials.
struct Caller<'s> {
    server: &'s Server,
    token: Option<String>,
}

impl Caller<'_> {
    fn request(&self, path: &str, body: &Value) -> Request {
        let request = Request::new("POST", path);
        let request = match &self.token {
            Some(token) => request.header("Authorization", &format!("Bearer {token}")),
            None => request,
        };
        request.json(body)
    }

    fn post(&self, path: &str, body: &Value) -> Response {
        self.server.exchange(&self.request(path, body))
    }

    fn ask(&self, path: &str, method: &str, params: Value) -> Value {
        let answer = self.post(path, &body(method, params));
        assert_eq!(answer.status(), 200, "{}", answer.text());
        answer.json()
    }

    /// The events of a stream, to its end.
    fn stream(&self, path: &str, params: Value) -> Vec<(String, Value)> {
        let answer = self.post(path, &body("tasks/sendSubscribe", params));
        assert_eq!(answer.head.media_type(), "text/event-stream", "{}", answer.text());
        frames(&answer.text())
    }
}

fn body(method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": "req-1", "method": method, "params": params })
}

fn saying(id: &str, text: &str) -> Value {
    json!({ "id": id, "message": { "role": "user", "parts": [{ "type": "text", "text": text }] } })
}

fn told(id: &str, text: &str, metadata: Value) -> Value {
    let mut params = saying(id, text);
    params["metadata"] = metadata;
    params
}

/// The events of a stream, as name and data; comments have no data.
fn frames(text: &str) -> Vec<(String, Value)> {
    let frame = |frame: &str| match frame.strip_prefix(": ") {
        Some(comment) => (comment.to_owned(), Value::Null),
        None => {
            let (event, data) = frame.split_once('\n').unwrap();
            let data = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
            (event.strip_prefix("event: ").unwrap().to_owned(), data)
        }
    };
    text.split("\n\n").filter(|one| !one.is_empty()).map(frame).collect()
}

fn state(answer: &Value) -> &str {
    answer["result"]["status"]["state"].as_str().unwrap_or_else(|| panic!("no task: {answer}"))
}

fn refusal(answer: &Value) -> (i64, &str) {
    (answer["error"]["code"].as_i64().unwrap_or_default(), answer["error"]["message"].as_str().unwrap_or_default())
}

fn demo(server: &Server) -> Value {
    let text = std::fs::read(server.data().join("demo.json")).unwrap();
    serde_json::from_slice::<Value>(&text).unwrap()["orloj"].clone()
}

fn anybody(server: &Server) -> Caller<'_> {
    Caller { server, token: None }
}

fn bearer<'s>(server: &'s Server, token: &str) -> Caller<'s> {
    Caller { server, token: Some(token.to_owned()) }
}

/// Two public systems, two that need a token, and one that is not shown.
const CONFIG: &str = r"
agents:
  echo: { kind: echo }
  scripted: { kind: scripted }
timeouts: { heartbeat_ms: 100 }
systems:
  one: { graph: { read: { agent: echo, next: summary }, summary: { agent: scripted } }, a2a: { enabled: true, auth: public } }
  two: { graph: { play: { agent: scripted } }, namespace: twins, a2a: { enabled: true, auth: public } }
  three: { graph: { play: { agent: scripted } }, namespace: twins, a2a: { enabled: true } }
  four: { graph: { go: { agent: echo, approval: { ask: May it? } } }, namespace: review, a2a: { enabled: true, auth: bearer } }
  hidden: { agents: [echo] }
orloj:
  tokens:
    - { name: third, token: env:THIRD, systems: [three, review/four] }
    - { name: fourth, token: env:FOURTH, systems: [four] }
    - { name: boss, token: env:BOSS, role: admin }
";

fn configured(more: &str) -> Server {
    let config = format!("{CONFIG}{more}");
    Server::options().config(&config).env("THIRD", "t-3").env("FOURTH", "t-4").env("BOSS", "t-0").start()
}

fn of(system: &str) -> String {
    format!("/orloj/v1/agent-systems/{system}/a2a")
}

#[test]
fn the_examples_of_the_page_work_against_the_demo() {
    let mut server = Server::start(&[]);
    let known = demo(&server);
    assert_eq!(known["system"], "summarize");
    let token = known["token"].as_str().unwrap().to_owned();
    for mount in ["/orloj", ""] {
        let caller = bearer(&server, &token);
        for path in ["/a2a", "/v1/agent-systems/summarize/a2a", "/v1/agents/summarize/a2a"] {
            let path = format!("{mount}{path}");
            let params = told("task-001", "Summarize this document", json!({ "source": "external-workflow" }));
            let sent = caller.ask(&path, "tasks/send", params);
            assert_eq!((&sent["id"], &sent["jsonrpc"], state(&sent)), (&json!("req-1"), &json!("2.0"), "completed"));
            let task = &sent["result"];
            assert_eq!(task["status"]["message"]["role"], "agent");
            assert_eq!(task["status"]["message"]["parts"][0]["type"], "text");
            let summary = task["artifacts"].as_array().unwrap().iter().find(|made| made["name"] == "summary").unwrap();
            assert_eq!(summary["parts"], json!([{ "type": "text", "text": "Summarize this document" }]));
            assert!(summary["index"].is_u64());
            assert_eq!(task["metadata"]["source"], "external-workflow");
            // By the id it was sent with, and by its other name in the metadata.
            for id in [&json!("task-001"), &task["metadata"]["orloj.task"]] {
                assert_eq!(caller.ask(&path, "tasks/get", json!({ "id": id }))["result"], *task, "{path} {id}");
            }
            let missing = caller.ask("/orloj/a2a", "tasks/get", json!({ "id": "a2a-task-unknown" }));
            assert_eq!(
                missing["error"],
                json!({ "code": -32001, "message": "task not found", "data": { "task_id": "a2a-task-unknown" } })
            );
            let events = caller.stream(&path, saying("task-002", "sleep:50"));
            assert!(events.iter().all(|(name, task)| name == "status" && task["id"] == "task-002"), "{events:?}");
            assert_eq!(events.last().unwrap().1["status"]["state"], "completed");
            // Its answer is the canceled task, with the reason.
            let mut watching = Connection::open(server.addr()).unwrap();
            let hangs = body("tasks/sendSubscribe", saying("task-003", "hang"));
            watching.send(&caller.request(&path, &hangs)).unwrap();
            until("the task is there", e2e::poll::PATIENCE, || {
                let got = caller.ask("/orloj/a2a", "tasks/get", json!({ "id": "task-003" }));
                (got["result"]["status"]["state"] == "working").then_some(())
            });
            let cancel = json!({ "id": "task-003", "reason": "No longer needed" });
            let cancelled = caller.ask(&path, "tasks/cancel", cancel.clone());
            assert_eq!(state(&cancelled), "canceled");
            assert_eq!(cancelled["result"]["status"]["message"]["parts"][0]["text"], "No longer needed");
            assert_eq!(refusal(&caller.ask(&path, "tasks/cancel", cancel)), (-32002, "task has been cancelled"));
        }
    }
    // The first is public; the other needs a token, which a restart keeps.
    let open = anybody(&server).ask("/orloj/a2a", "tasks/send", saying("task-004", "hello"));
    assert_eq!(state(&open), "completed");
    let review = of("publish");
    assert_eq!(refusal(&anybody(&server).ask(&review, "tasks/send", saying("p", "x"))).0, -32003);
    let asks = bearer(&server, &token).ask(&review, "tasks/send", saying("p", "the news"));
    assert_eq!(state(&asks), "input-required");
    server.restart();
    assert_eq!(demo(&server), known);
    let done = bearer(&server, &token).ask(&review, "tasks/send", saying("p", "approve"));
    assert_eq!(state(&done), "completed", "it goes on after a crash: {done}");
    let card = server.get("/orloj/.well-known/agent-card.json").json();
    assert_eq!((&card["name"], card.get("authentication")), (&json!("summarize"), None));
    let registry = server.get("/orloj/v1/a2a/agents").json();
    assert_eq!(registry["localAgents"].as_array().unwrap().len(), 1);
}

/// The answers of the page, member by member, where ours might differ in form.
#[test]
fn answers_have_the_members_that_the_page_shows() {
    let server = Server::start(&[]);
    let known = demo(&server);
    let caller = bearer(&server, known["token"].as_str().unwrap());
    for (caller, path) in [
        (&caller, "/a2a"),
        (&caller, "/v1/agent-systems/summarize/a2a"),
        (&anybody(&server), "/a2a"),
        (&anybody(&server), "/orloj/a2a"),
    ] {
        // The status contains the answer, not a note about it, in an answer and at the end of a stream.
        let says = json!({ "role": "agent", "parts": [{ "type": "text", "text": "Here is the summary..." }] });
        let sent = caller.ask(path, "tasks/send", saying("task-001", "Here is the summary..."));
        assert_eq!(sent["result"]["status"], json!({ "state": "completed", "message": says }), "{path}");
        let got = caller.ask(path, "tasks/get", json!({ "id": "task-001" }));
        assert_eq!(got["result"], sent["result"], "{path}");
        let events = caller.stream(path, saying("task-002", "Here is the summary..."));
        assert_eq!(events.last().unwrap().1["status"], json!({ "state": "completed", "message": says }), "{path}");
        // A task that has ended cannot be cancelled.
        let refused = caller.ask(path, "tasks/cancel", json!({ "id": "task-001", "reason": "No longer needed" }));
        let expected = json!({ "code": -32002, "message": "task cannot be cancelled: it has completed", "data": { "task_id": "task-001" } });
        assert_eq!(refused["error"], expected, "{path}");
        // The error of the page, with or without a token.
        for method in ["tasks/get", "tasks/cancel"] {
            let missing = caller.ask(path, method, json!({ "id": "a2a-task-unknown" }));
            let expected =
                json!({ "code": -32001, "message": "task not found", "data": { "task_id": "a2a-task-unknown" } });
            assert_eq!(missing["error"], expected, "{path} {method}");
        }
        // An unknown token is refused with its own error, not as a missing system.
        let wrong = bearer(&server, "wrong").post(path, &body("tasks/send", saying("task-003", "x")));
        assert_eq!((wrong.status(), refusal(&wrong.json()).0), (401, -32600), "{path}");
    }
}

/// `auth: bearer` applies at every address of a system.
#[test]
fn a_system_that_needs_a_token_is_closed_at_the_agents_own_address_too() {
    let server = Server::start(&[]);
    let known = demo(&server);
    let asks =
        bearer(&server, known["token"].as_str().unwrap()).ask(&of("publish"), "tasks/send", saying("p", "secret news"));
    assert_eq!(state(&asks), "input-required");
    let listed = server.operate(&["task", "list", "-o", "json"]).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let hex = |c: char| c.is_ascii_hexdigit() || c == '-';
    let ids: Vec<&str> = listed.split(|c| !hex(c)).filter(|text| text.len() == 36).collect();
    assert!(!ids.is_empty(), "{listed}");
    let closed = Client::new(server.addr(), "/a2a/publish");
    for tongue in Tongue::ALL {
        for id in &ids {
            let refused = tongue.speaker(&closed).try_get(id).unwrap_err();
            assert!(!refused.to_string().contains("secret news"), "{tongue:?}: {refused}");
            assert!(refused.to_string().contains("authentication is required"), "{tongue:?}: {refused}");
        }
    }
    for path in ["/a2a/publish/tasks", "/a2a/publish/v1/tasks"] {
        assert_eq!(server.get(path).status(), 401, "{path}");
    }
    assert_eq!(server.get("/a2a/summarize/tasks").status(), 200);
}

#[test]
fn what_is_missing_or_wrong_is_an_error_of_params() {
    let server = configured("");
    let caller = anybody(&server);
    let message = saying("t", "x")["message"].clone();
    for (params, says) in [
        (json!({ "message": message }), "task id is required"),
        (json!({ "id": "t" }), "message is required"),
        (told("t", "x", json!({ "n": 1 })), "invalid task send params"),
    ] {
        assert_eq!(refusal(&caller.ask(&of("one"), "tasks/send", params)), (-32602, says));
    }
    assert_eq!(refusal(&caller.ask(&of("one"), "tasks/nothing", json!({}))), (-32601, "unknown method: tasks/nothing"));
    let broken =
        server.exchange(&Request::new("POST", "/orloj/a2a").header("content-type", "application/json").body("{"));
    assert_eq!((broken.status(), refusal(&broken.json()).0), (200, -32700));
    assert_eq!(server.get("/orloj/a2a").status(), 405);
}

#[test]
fn a_send_waits_and_both_addresses_of_a_system_answer_the_same() {
    let server = configured("");
    let caller = anybody(&server);
    let send = |path: &str| caller.ask(path, "tasks/send", saying("t", "sleep:100"));
    let answers = [send(&of("one")), send("/orloj/v1/agents/one/a2a"), send("/v1/agents/one/a2a")];
    assert_eq!(state(&answers[0]), "completed");
    for (index, artifact) in answers[0]["result"]["artifacts"].as_array().unwrap().iter().enumerate() {
        assert_eq!(artifact["index"], index);
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    let limited = configured("  send_wait_max_s: 1\n");
    let early = anybody(&limited).ask(&of("two"), "tasks/send", saying("t", "hang"));
    assert_eq!(state(&early), "working", "the limit is reached, and it is told as it is");
    let at_once = configured("  send_mode: return\n");
    assert!(["submitted", "working"].contains(&state(&anybody(&at_once).ask(
        &of("two"),
        "tasks/send",
        saying("t", "hang")
    ))));
}

#[test]
fn the_shared_address_finds_the_system() {
    let server = configured("");
    let caller = bearer(&server, "t-0");
    let send = |path: &str, metadata: Value| caller.ask(path, "tasks/send", told("t", "x", metadata));
    assert_eq!(state(&send("/orloj/a2a", json!({}))), "completed");
    assert_eq!(refusal(&send("/orloj/a2a?namespace=twins", json!({}))).0, -32602);
    assert_eq!(state(&send("/orloj/a2a", json!({ "agent": "twins/two" }))), "completed");
    assert_eq!(state(&send("/orloj/a2a", json!({ "target": "twins/three" }))), "completed");
    assert_eq!(state(&send("/orloj/a2a?namespace=twins", json!({ "agent": "two" }))), "completed");
    for missing in ["hidden", "nobody", "echo"] {
        let answer = send("/orloj/a2a", json!({ "agent": missing }));
        assert_eq!(refusal(&answer), (-32003, "target AgentSystem is not A2A-enabled"));
    }
    // Equal ids of different systems are unrelated.
    caller.ask(&of("two"), "tasks/send", saying("same", "in two"));
    caller.ask(&of("three"), "tasks/send", saying("same", "in three"));
    let got = caller.ask(&of("two"), "tasks/get", json!({ "id": "same" }));
    assert_eq!(got["result"]["artifacts"][0]["parts"][0]["text"], "in two");
}

#[test]
fn a_request_without_an_id_has_no_answer_and_its_task_runs() {
    let server = configured("");
    let caller = anybody(&server);
    let notice = json!({ "jsonrpc": "2.0", "method": "tasks/send", "params": saying("n", "hello") });
    let answer = caller.post(&of("one"), &notice);
    assert_eq!((answer.status(), answer.text().as_str()), (204, ""));
    until("the task is done", e2e::poll::PATIENCE, || {
        let got = caller.ask(&of("one"), "tasks/get", json!({ "id": "n" }));
        (got["result"]["status"]["state"] == "completed").then_some(())
    });
}

#[test]
fn a_stream_is_bare_keeps_alive_and_ends_with_every_last_state() {
    let server = configured("");
    let caller = anybody(&server);
    for (text, last) in [("sleep:400", "completed"), ("fail: no", "failed")] {
        let events = caller.stream(&of("two"), saying("s", text));
        let tasks: Vec<&Value> = events.iter().filter(|(name, _)| name == "status").map(|(_, task)| task).collect();
        assert_eq!(tasks[0]["status"]["state"], "submitted");
        assert_eq!(tasks.last().unwrap()["status"]["state"], last);
        assert!(tasks.iter().all(|task| task["id"] == "s" && task.get("jsonrpc").is_none()));
        if last == "completed" {
            assert!(events.iter().any(|(name, data)| name == "heartbeat" && data.is_null()), "{events:?}");
        }
    }
    // A cancel from elsewhere ends the stream.
    let ended = std::thread::scope(|scope| {
        let stream = scope.spawn(|| anybody(&server).stream(&of("two"), saying("c", "hang")));
        until("the task works", e2e::poll::PATIENCE, || {
            let got = caller.ask(&of("two"), "tasks/get", json!({ "id": "c" }));
            (got["result"]["status"]["state"] == "working").then_some(())
        });
        caller.ask(&of("two"), "tasks/cancel", json!({ "id": "c" }));
        stream.join().unwrap()
    });
    assert_eq!(ended.last().unwrap().1["status"]["state"], "canceled");
    // Denied by the approver.
    let boss = bearer(&server, "t-4");
    boss.ask(&of("four"), "tasks/send", saying("d", "x"));
    assert_eq!(state(&boss.ask(&of("four"), "tasks/send", saying("d", "deny"))), "failed");
}

#[test]
fn a_task_is_hidden_from_tokens_of_other_systems() {
    let server = configured("");
    let (third, fourth, boss) = (bearer(&server, "t-3"), bearer(&server, "t-4"), bearer(&server, "t-0"));
    assert_eq!(state(&third.ask(&of("three"), "tasks/send", saying("t", "x"))), "completed");
    let get = json!({ "id": "t" });
    assert_eq!(state(&third.ask(&of("three"), "tasks/get", get.clone())), "completed");
    assert_eq!(state(&boss.ask("/orloj/a2a", "tasks/get", get.clone())), "completed");
    for stranger in [&fourth, &anybody(&server)] {
        for path in [&of("three"), "/orloj/a2a"] {
            let hidden = stranger.ask(path, "tasks/get", get.clone());
            assert_eq!(hidden["error"]["data"]["task_id"], "t");
            assert_eq!(refusal(&hidden), (-32001, "task not found"));
        }
        let refused = stranger.ask(&of("three"), "tasks/send", saying("u", "x"));
        assert_eq!(refusal(&refused), (-32003, "target AgentSystem is not available"));
    }
    assert_eq!(bearer(&server, "nonsense").post(&of("one"), &body("tasks/send", saying("t", "x"))).status(), 401);
}

#[test]
fn the_root_card_is_there_while_there_is_one_system() {
    let server = configured("");
    let root = |query: &str| server.get(&format!("/orloj/.well-known/agent-card.json{query}"));
    assert_eq!(root("").json()["name"], "one");
    assert_eq!(root("?namespace=twins").status(), 404);
    let card = |name: &str| server.get(&format!("/orloj/v1/agent-systems/{name}/.well-known/agent-card.json"));
    assert!(card("one").json().get("authentication").is_none());
    assert_eq!(card("three").json()["authentication"]["schemes"], json!(["bearer"]));
    assert_eq!(card("three").json()["url"], format!("{}{}?namespace=twins", server.url(), of("three")));
    assert_eq!(card("hidden").status(), 404);
}

#[test]
fn an_id_is_used_again_as_the_config_says() {
    let server = configured("");
    let caller = anybody(&server);
    let first = caller.ask(&of("one"), "tasks/send", saying("again", "one"));
    let second = caller.ask(&of("one"), "tasks/send", saying("again", "two"));
    assert_eq!(first["result"]["metadata"]["orloj.task"], second["result"]["metadata"]["orloj.task"]);
    let got = caller.ask(&of("one"), "tasks/get", json!({ "id": "again" }));
    assert_eq!(got["result"], second["result"]);
    let strict = configured("  duplicate_id: reject\n");
    let caller = anybody(&strict);
    caller.ask(&of("one"), "tasks/send", saying("again", "one"));
    let refused = caller.ask(&of("one"), "tasks/send", saying("again", "two"));
    assert_eq!(refusal(&refused), (-32602, "task id already in use"));
}

#[test]
fn ids_of_requests_may_be_numbers_and_parts_may_be_data() {
    let server = configured("");
    let caller = anybody(&server);
    let part = json!({ "type": "data", "data": { "pages": [1, 2] }, "metadata": { "source": "scan" } });
    let params = json!({ "id": "t", "message": { "role": "user", "parts": [part] } });
    let request = json!({ "jsonrpc": "2.0", "id": 7, "method": "tasks/send", "params": params });
    let answer = caller.post(&of("one"), &request).json();
    assert_eq!((&answer["id"], state(&answer)), (&json!(7), "completed"));
    let read = answer["result"]["artifacts"].as_array().unwrap().iter().find(|made| made["name"] == "read").unwrap();
    assert_eq!(read["parts"], json!([part]));
    for incomplete in [json!({ "jsonrpc": "2.0", "id": 8 }), json!({ "id": 8, "method": "tasks/get", "params": {} })] {
        let answer = caller.post(&of("one"), &incomplete).json();
        assert_eq!((refusal(&answer).0, &answer["id"]), (-32600, &json!(8)), "{answer}");
    }
}

#[test]
fn operators_see_how_a_system_is_made_and_how_a_task_on_it_stands() {
    let mut server = configured("");
    let graph = |server: &Server, words: &[&str]| {
        let done = server.operate(&[&["graph"], words].concat()).output().unwrap();
        (
            done.status.success(),
            format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr)),
        )
    };
    let made = graph(&server, &["four"]);
    assert_eq!(made, (true, "four\n\ngo (echo), begins, asks \"May it?\"\n".to_owned()));
    let boss = bearer(&server, "t-0");
    boss.ask(&of("four"), "tasks/send", saying("g", "x"));
    let tasks = server.operate(&["task", "list", "--agent", "four", "-o", "json"]).output().unwrap();
    let tasks: Value = serde_json::from_slice(&tasks.stdout).unwrap();
    let id = tasks["tasks"][0]["id"].as_str().unwrap().to_owned();
    let (fine, shown) = graph(&server, &["four", "--task", &id]);
    assert!(fine && shown.contains("? go (echo), begins, asks \"May it?\": waiting for approval\n"), "{shown}");
    assert_eq!(state(&boss.ask(&of("four"), "tasks/send", saying("g", "approve"))), "completed");
    let (fine, shown) = graph(&server, &["four", "--task", &id, "--json"]);
    let shown: Value = serde_json::from_str(&shown).unwrap_or_else(|_| panic!("{fine} {shown}"));
    assert_eq!((&shown["task"]["state"], &shown["nodes"][0]["state"]), (&json!("completed"), &json!("done")));
    let visit = &shown["nodes"][0]["visits"][0];
    assert_eq!((&visit["visit"], &visit["state"], &visit["attempts"]), (&json!(1), &json!("done"), &json!(1)));
    assert!(visit["child"].is_string() && visit["ms"].is_u64(), "{visit}");
    // The edges that were taken, and the texts for missing things.
    let one = anybody(&server).ask(&of("one"), "tasks/send", saying("e", "hello"));
    assert_eq!(state(&one), "completed");
    let tasks = server.operate(&["task", "list", "--agent", "one", "-o", "json"]).output().unwrap();
    let tasks: Value = serde_json::from_slice(&tasks.stdout).unwrap();
    let other = tasks["tasks"][0]["id"].as_str().unwrap();
    let (_, shown) = graph(&server, &["one", "--task", other]);
    assert!(shown.contains("  → summary  [taken]\n"), "{shown}");
    for (words, says) in [
        (vec!["nobody"], "there are: four, hidden, one, three, two"),
        (vec!["echo"], "\"echo\" is an agent, and no system; there are:"),
        (vec!["four", "--task", "t-1"], "there is no task \"t-1\"; those there are: rialto task list --agent four"),
        (vec!["four", "--task", other], "is a task of \"one\"; see it with: rialto graph one --task"),
    ] {
        let (fine, said) = graph(&server, &words);
        assert!(!fine && said.contains(says), "{words:?}: {said}");
    }
    // Without a server, from the config and the data.
    server.terminate();
    let config = server.data().parent().unwrap().join("rialto.yaml");
    let (fine, shown) = graph(&server, &["four", "--task", &id, "--config", config.to_str().unwrap()]);
    assert!(fine && shown.contains("✓ go (echo)"), "{shown}");
}
