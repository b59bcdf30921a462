//! LangSmith's page by its own examples (`fixtures/langsmith`), at the path that the page documents: `/a2a/{assistant_id}`
//! with an assistant's UUID. Only the address and the ids of tasks are changed.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

use e2e::http::{Connection, Request, Response};
use e2e::{Events, Server, Tongue, fresh_id};
use serde_json::{Value, json};

const JSON: &str = "application/json";
const STREAM: &str = "text/event-stream";
const REQUESTS: &str = include_str!("../fixtures/langsmith/requests.json");
const ANSWERS: &str = include_str!("../fixtures/langsmith/answers.json");

fn example(name: &str) -> Value {
    let all: Value = serde_json::from_str(REQUESTS).unwrap();
    assert!(all[name].is_object(), "there is an example {name}");
    all[name].clone()
}

fn expected(name: &str) -> Value {
    let all: Value = serde_json::from_str(ANSWERS).unwrap();
    assert!(all[name].is_object(), "there is an answer {name}");
    all[name].clone()
}

/// Every member of `expected` is in `answer`; a value that ends in `uuid` matches any text.
fn assert_has(answer: &Value, expected: &Value) {
    match expected {
        Value::Object(members) => {
            for (name, value) in members {
                assert_has(&answer[name], value);
            }
        }
        Value::Array(items) => {
            assert_eq!(answer.as_array().map(Vec::len), Some(items.len()), "{answer}");
            for (at, item) in items.iter().enumerate() {
                assert_has(&answer[at], item);
            }
        }
        Value::String(text) if text.ends_with("uuid") => {
            assert!(answer.as_str().is_some_and(|text| !text.is_empty()), "{answer}");
        }
        other => assert_eq!(answer, other),
    }
}

struct Assistant<'s> {
    server: &'s Server,
    id: String,
}

impl Assistant<'_> {
    fn request(&self, accept: &str, body: &Value) -> Request {
        let request = Request::new("POST", &format!("/a2a/{}", self.id));
        let request = if accept.is_empty() { request } else { request.header("accept", accept) };
        request.header("content-type", JSON).body(body.to_string())
    }

    fn post(&self, accept: &str, body: &Value) -> Response {
        self.server.exchange(&self.request(accept, body))
    }

    fn answer(&self, body: &Value) -> Value {
        let response = self.post(JSON, body);
        assert_eq!((response.status(), response.head.media_type()), (200, JSON), "{}", response.text());
        response.json()
    }

    fn task(&self, body: &Value) -> Value {
        let answer = self.answer(body);
        assert!(answer["result"].is_object(), "{answer}");
        answer["result"].clone()
    }

    fn stream(&self, body: &Value) -> Vec<Value> {
        let mut connection = Connection::open(self.server.addr()).unwrap();
        connection.send(&self.request(STREAM, body)).unwrap();
        let head = connection.head().unwrap();
        assert_eq!((head.status, head.media_type()), (200, STREAM));
        Events::new(connection, head).rest().iter().map(|frame| serde_json::from_str(&frame.data).unwrap()).collect()
    }
}

/// The demo, as `rialto serve` starts it, and the ids of its assistants.
fn demo() -> (Server, Value) {
    let server = Server::start(&[]);
    let demo: Value = serde_json::from_slice(&std::fs::read(server.data().join("demo.json")).unwrap()).unwrap();
    let ids = demo["langgraph"].clone();
    (server, ids)
}

fn assistant<'s>(server: &'s Server, id: &Value) -> Assistant<'s> {
    Assistant { server, id: id.as_str().unwrap().to_owned() }
}

fn said(text: &str, context: &str) -> Value {
    let mut body = example("message_stream_with_context");
    body["method"] = json!("message/send");
    let message = &mut body["params"]["message"];
    message["messageId"] = json!(fresh_id());
    message["contextId"] = json!(context);
    message["parts"] = json!([{ "kind": "text", "text": text }]);
    body
}

#[test]
fn every_example_of_the_page_is_answered_as_the_page_says() {
    let (server, ids) = demo();
    let chat = assistant(&server, &ids["assistant_id"]);
    let sent = chat.answer(&example("message_send"));
    let mut like = expected("task_result");
    like["result"]["artifacts"][0]["parts"][0]["text"] =
        json!("You said: Hello from A2A\nYour data: {\"locale\":\"en-US\"}");
    assert_has(&sent, &like);

    let frames = chat.stream(&example("message_stream"));
    assert_eq!((&frames[0]["id"], &frames[0]["result"]["kind"]), (&json!("2"), &json!("task")));
    assert_has(&frames[1], &expected("stream_event"));
    assert_eq!(frames.iter().filter(|frame| frame["result"]["final"] == true).count(), 1);
    assert_eq!(frames.last().unwrap()["result"]["status"]["state"], "completed");

    let mut get = example("tasks_get");
    get["params"]["id"] = sent["result"]["id"].clone();
    assert_eq!(chat.task(&get)["id"], sent["result"]["id"]);
    get["params"].as_object_mut().unwrap().remove("contextId");
    let mut refused = expected("error_result");
    refused["id"] = json!("3");
    assert_eq!(chat.answer(&get), refused);

    let frames = chat.stream(&example("message_stream_with_context"));
    assert_eq!(frames[0]["result"]["contextId"], "thread-123");

    let one = assistant(&server, &ids["interrupt_assistant_id"]);
    let asked = one.task(&said("Plan a trip", "thread-123"));
    assert_eq!(asked["status"]["state"], "input-required");
    let mut resume = example("interrupt_resume_text");
    resume["params"]["message"]["taskId"] = asked["id"].clone();
    let done = one.task(&resume);
    assert_eq!((&done["id"], &done["status"]["state"]), (&asked["id"], &json!("completed")));
    let answer = done["artifacts"].as_array().unwrap().iter().find(|one| one["name"] == "Assistant Response").unwrap();
    assert_eq!(answer["parts"][0]["text"], "You answered: Here is the info you asked for.");

    let two = assistant(&server, &ids["parallel_assistant_id"]);
    let asked = two.task(&said("Plan a trip", "thread-123"));
    let mut resume = example("interrupt_resume_data_parallel");
    resume["params"]["message"]["taskId"] = asked["id"].clone();
    let done = two.task(&resume);
    assert_eq!((&done["id"], &done["status"]["state"]), (&asked["id"], &json!("completed")), "{done}");
}

#[test]
fn a_cancel_works_at_the_documented_path() {
    let (server, ids) = demo();
    let one = assistant(&server, &ids["interrupt_assistant_id"]);
    let asked = one.task(&said("Plan a trip", "thread-9"));
    let mut cancel = example("tasks_cancel");
    cancel["params"] = json!({ "id": asked["id"], "contextId": "thread-9" });
    let canceled = one.task(&cancel);
    assert_eq!((&canceled["id"], &canceled["status"]["state"]), (&asked["id"], &json!("canceled")));
    assert_eq!(one.answer(&cancel)["error"]["code"], -32002, "it is over");
    cancel["params"]["id"] = json!("thread-9:nothing");
    assert_eq!(one.answer(&cancel)["error"]["code"], -32001);
    cancel["params"].as_object_mut().unwrap().remove("contextId");
    assert_eq!(one.answer(&cancel)["error"]["code"], -32602);
}

#[test]
fn what_the_page_refuses_is_refused_at_the_documented_path() {
    let (server, ids) = demo();
    let chat = assistant(&server, &ids["assistant_id"]);
    let send = example("message_send");
    let stream = example("message_stream");
    let error = |text: &str| json!({ "error": text });
    // The status of a missing or wrong Accept header.
    for (accept, body, says) in [
        ("", &send, "Accept header must include application/json"),
        (STREAM, &send, "Accept header must include application/json"),
        (JSON, &stream, "Accept header must include text/event-stream for streaming"),
    ] {
        let response = chat.post(accept, body);
        assert_eq!((response.status(), response.json()), (400, error(says)));
    }
    let invalid = chat.server.exchange(&chat.request(JSON, &json!(null)).body("{"));
    assert_eq!((invalid.status(), invalid.json()), (400, error("Invalid JSON payload")));
    let mut file = send.clone();
    file["params"]["message"]["parts"] = json!([{ "kind": "file", "file": { "uri": "https://example.com/x" } }]);
    assert_eq!(chat.answer(&file)["error"]["code"], -32005);
    let task = chat.task(&send);
    for (length, says) in
        [(json!(11), "historyLength cannot exceed 10"), (json!(-1), "historyLength must be a non-negative integer")]
    {
        let mut get = example("tasks_get");
        get["params"]["id"] = task["id"].clone();
        get["params"]["historyLength"] = length;
        assert_eq!(chat.answer(&get)["error"], json!({ "code": -32602, "message": says }));
    }
    let unknown = Assistant { server: &server, id: "00000000-0000-4000-8000-000000000000".into() };
    let response = unknown.post(JSON, &send);
    let says = "Assistant '00000000-0000-4000-8000-000000000000' not found";
    assert_eq!((response.status(), response.json()), (404, json!({ "detail": says })));
}

#[test]
fn a_history_has_the_agents_messages_each_with_the_task_it_was_said_in() {
    let (server, ids) = demo();
    let chat = assistant(&server, &ids["assistant_id"]);
    let first = chat.task(&said("one", "thread-h"));
    let second = chat.task(&said("two", "thread-h"));
    let get = |length: u32| {
        let mut get = example("tasks_get");
        get["params"] = json!({ "id": second["id"], "contextId": "thread-h", "historyLength": length });
        chat.task(&get)["history"].as_array().cloned().unwrap_or_default()
    };
    let told = |history: &[Value]| -> Vec<(Value, Value, Value)> {
        let one =
            |message: &Value| (message["role"].clone(), message["parts"][0]["text"].clone(), message["taskId"].clone());
        history.iter().map(one).collect()
    };
    let all = [
        (json!("user"), json!("one"), first["id"].clone()),
        (json!("agent"), json!("You said: one"), first["id"].clone()),
        (json!("user"), json!("two"), second["id"].clone()),
        (json!("agent"), json!("You said: two"), second["id"].clone()),
    ];
    assert_eq!(told(&get(10)), all);
    assert_eq!(told(&get(3)), all[1..]);
    assert!(get(0).is_empty());
    assert_eq!(told(second["history"].as_array().unwrap()), all, "the answer to a send has the same");
    let history = get(10);
    let mut names: Vec<&str> = history.iter().map(|message| message["messageId"].as_str().unwrap()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 4, "a message has an id of its own: {history:?}");
    assert!(history.iter().all(|message| message["kind"] == "message" && message["contextId"] == "thread-h"));
}

#[test]
fn what_an_assistant_remembers_is_not_shown() {
    let (server, ids) = demo();
    let two = assistant(&server, &ids["parallel_assistant_id"]);
    let asked = two.task(&said("Plan a trip", "thread-m"));
    assert!(!asked.to_string().contains("answered"), "{asked}");
    let mut half = example("interrupt_resume_data_parallel");
    half["params"]["message"]["contextId"] = json!("thread-m");
    half["params"]["message"]["taskId"] = asked["id"].clone();
    half["params"]["message"]["parts"][0]["data"]["resume"].as_array_mut().unwrap().truncate(1);
    let still = two.task(&half);
    assert_eq!(still["status"]["state"], "input-required");
    assert!(!still.to_string().contains("answered"), "{still}");
    // Nor in any generation of A2A.
    let id = still["id"].as_str().unwrap().rsplit_once(':').unwrap().1;
    for tongue in Tongue::ALL {
        let shown = tongue.speaker(&server.agent("parallel")).try_get(id).unwrap().to_string();
        assert!(!shown.contains("answered"), "{tongue:?}: {shown}");
    }
}

#[test]
fn the_generations_of_a2a_share_the_path() {
    let (server, ids) = demo();
    let id = ids["assistant_id"].as_str().unwrap();
    for tongue in Tongue::ALL {
        // 0.2 sends no version and shares LangSmith's methods, so it is read as LangSmith's.
        if tongue == Tongue::V02 {
            continue;
        }
        let done = tongue.speaker(&server.at(&format!("/a2a/{id}"))).tell("hi");
        assert_eq!(
            (done.state.as_str(), &done.texts[..]),
            ("completed", &["You said: hi".to_owned()][..]),
            "{tongue:?}"
        );
    }
    // By its name an agent is no assistant of a graph server.
    let body = said("hi", "thread-n");
    let response =
        server.exchange(&Request::new("POST", "/a2a/assistant").header("content-type", JSON).body(body.to_string()));
    assert_eq!(response.status(), 200, "no Accept header is needed there: {}", response.text());
}
