//! Aly's wire: every example of its documentation as request and response, all spellings, all errors.

#![allow(clippy::unwrap_used, clippy::result_large_err)]

#[path = "../../../dialects/tests/arbitrary/mod.rs"]
mod arbitrary;

use std::fmt::Write as _;
use std::sync::Arc;

use arbitrary::{changed, changes};
use dialects::JsonWire;
use dialects::framing::json::{Encoded, Writer};
use dialects::framing::jsonrpc::{self, Id, OwnedId};
use dialects::framing::scan;
use dialects::wire::{Decoded, Head, Operation, Page, TaskView};
use model::ports::webhook::WebhookBody;
use model::{
    Artifact, Body, Call, Chunk, ContextId, Event, Fault, Inbound, Json, Kind, Limits, Message, Opened, Part, PushCall,
    PushConfig, Role, Seq, State, StatusChange, Task, TaskId, Time, TurnId, Wait,
};
use proptest::prelude::*;
use serde_json::{Value, json, value::RawValue};
use shop::aly::{self, WIRE, card, decode, errors, rest};

const TASK: &str = "01977c3a-0000-7000-8000-000000000000";
const SHOWN: &str = "task_01977c3a000070008000000000000000";

fn called(method: &str, params: &Value) -> Result<Call, Fault> {
    let raw = RawValue::from_string(params.to_string()).unwrap();
    decode::decode(method, Some(&raw), &Limits::default()).map(|decoded| decoded.call)
}

fn http(verb: &str, path: &str, query: Option<&str>, body: &Value) -> Result<Call, Fault> {
    rest::route(verb, path, query)?.decode(&body.to_string(), &Limits::default()).map(|decoded| decoded.call)
}

fn sent(params: &Value) -> model::Send {
    match called("SendMessage", params).unwrap() {
        Call::Send(send) => *send,
        other => panic!("{other:?}"),
    }
}

/// The first request of the documentation.
fn page() -> Value {
    json!({ "message": {
        "messageId": "msg_1", "contextId": "ctx_4f11", "role": "ROLE_USER",
        "parts": [{ "text": "Search for hats on store acme." }],
    } })
}

#[test]
fn the_requests_of_the_page_are_read() {
    let send = sent(&page());
    assert_eq!((&*send.message.id, send.message.role), ("msg_1", Role::User));
    assert_eq!(send.message.text(), "Search for hats on store acme.");
    assert_eq!((send.context.unwrap().as_str(), send.task), ("ctx_4f11", None));
    assert_eq!((send.wait, send.history), (Wait::Rest { max_ms: None }, None));

    let data = json!({ "skill": "cart-management", "action": "create", "site_slug": "acme" });
    let mut params = page();
    params["message"]["parts"] = json!([{ "mediaType": "application/json", "data": data }]);
    let send = sent(&params);
    let [part] = &*send.message.parts else { panic!("{:?}", send.message.parts) };
    assert_eq!(part.media_type.as_deref(), Some("application/json"));
    assert_eq!(*part, Part { media_type: part.media_type.clone(), ..Part::data(Json::from_value(&data)) });

    for params in [json!({ "taskId": SHOWN }), json!({ "id": SHOWN }), json!({ "task_id": SHOWN })] {
        assert_eq!(called("GetTask", &params).unwrap(), Call::Get(model::Get { task: TASK.into(), history: None }));
        assert_eq!(
            called("CancelTask", &params).unwrap(),
            Call::Cancel(model::Cancel { task: TASK.into(), metadata: None })
        );
        assert_eq!(
            called("SubscribeToTask", &params).unwrap(),
            Call::Subscribe(model::Subscribe { task: TASK.into() })
        );
    }
    let listed = called("ListTasks", &json!({ "contextId": "ctx_4f11", "limit": 20 })).unwrap();
    let expected = model::List {
        context: Some("ctx_4f11".into()),
        page_size: Some(20),
        artifacts: true,
        ..model::List::default()
    };
    assert_eq!(listed, Call::List(expected));
    assert!(matches!(called("SendStreamingMessage", &page()), Ok(Call::Stream(_))));
    let streamed = http("POST", "/streaming", None, &json!({ "params": page() })).unwrap();
    assert_eq!(streamed, called("SendStreamingMessage", &page()).unwrap());
}

#[test]
fn what_the_product_does_not_wire_is_read_and_has_no_effect() {
    let mut params = page();
    params["configuration"] = json!({
        "returnImmediately": true, "blocking": false, "historyLength": 1, "acceptedOutputModes": ["text/plain"],
    });
    params["message"]["taskId"] = json!("task_of_before");
    params["message"]["parts"] = json!([{ "kind": "text", "type": "text", "text": "x" }]);
    let send = sent(&params);
    assert_eq!((send.task, send.wait, send.history), (None, Wait::Rest { max_ms: None }, None));
    assert_eq!(send.message.parts, vec![Part::text("x")]);
    let odd = json!({
        "status": "TASK_STATE_NONE", "statusTimestampAfter": "yesterday", "historyLength": -1, "includeArtifacts": "no",
    });
    let plain = called("ListTasks", &json!({})).unwrap();
    assert_eq!(called("ListTasks", &odd).unwrap(), plain);
    assert_eq!(
        http("GET", "/tasks", Some("status=x&historyLength=-1&includeArtifacts=maybe"), &json!({})).unwrap(),
        plain
    );
    let get = called("GetTask", &json!({ "id": SHOWN, "historyLength": "none" })).unwrap();
    assert_eq!(get, Call::Get(model::Get { task: TASK.into(), history: None }));
}

#[test]
fn both_spellings_are_read_and_camel_case_wins() {
    let snake = json!({ "message": {
        "message_id": "m", "context_id": "c", "task_id": "t", "role": "ROLE_USER", "reference_task_ids": ["r"],
        "parts": [{ "text": "x", "media_type": "text/plain" }],
    }, "configuration": { "task_push_notification_config": { "task_id": "t", "url": "https://h/1" } } });
    let camel = json!({ "message": {
        "messageId": "m", "contextId": "c", "taskId": "t", "role": "ROLE_USER", "referenceTaskIds": ["r"],
        "parts": [{ "text": "x", "mediaType": "text/plain" }],
    }, "configuration": { "taskPushNotificationConfig": { "taskId": "t", "url": "https://h/1" } } });
    assert_eq!(sent(&snake), sent(&camel));
    let both = json!({ "message": {
        "message_id": "no", "messageId": "m", "contextId": "c", "context_id": "no", "role": "ROLE_USER",
        "reference_task_ids": ["no"], "referenceTaskIds": ["r"],
        "parts": [{ "text": "x", "media_type": "no", "mediaType": "text/plain" }],
    }, "configuration": {
        "task_push_notification_config": { "url": "https://no" },
        "taskPushNotificationConfig": { "task_id": "no", "taskId": "t", "url": "https://h/1" },
    } });
    assert_eq!(sent(&both), sent(&camel));
    let id = |params: Value| called("GetTask", &params).unwrap();
    assert_eq!(id(json!({ "task_id": "a", "taskId": "b", "id": "c" })), id(json!({ "id": "c" })));
    assert_eq!(id(json!({ "task_id": "a", "taskId": "b" })), id(json!({ "id": "b" })));
    let list = |params: Value| called("ListTasks", &params).unwrap();
    let expected = list(json!({ "contextId": "c", "pageSize": 7, "pageToken": "p" }));
    for same in [
        json!({ "context_id": "c", "page_size": 7, "page_token": "p" }),
        json!({ "contextId": "c", "limit": "7", "cursor": "p" }),
        json!({ "contextId": "c", "context_id": "x", "pageSize": 7, "page_size": 8, "limit": 9,
            "pageToken": "p", "page_token": "q", "cursor": "r" }),
        json!({ "contextId": "c", "page_size": 7, "limit": 9, "page_token": "p", "cursor": "r" }),
    ] {
        assert_eq!(list(same.clone()), expected, "{same}");
    }
    for query in [
        "contextId=c&pageSize=7&pageToken=p",
        "context_id=c&page_size=7&page_token=p",
        "contextId=c&limit=7&cursor=p",
        "limit=9&pageSize=7&cursor=r&pageToken=p&context_id=x&contextId=c",
    ] {
        assert_eq!(http("GET", "/tasks", Some(query), &json!({})).unwrap(), expected, "{query}");
    }
}

#[test]
fn every_route_and_alias_is_the_same_call() {
    let nothing = json!({});
    let id = json!({ "id": SHOWN });
    let config = json!({ "url": "https://h/1", "id": "c", "token": "s" });
    let mut named = config.clone();
    named["taskId"] = json!(SHOWN);
    let of = |id: &str| json!({ "taskId": SHOWN, "id": id });
    let url = "https://shop.example/hook?a=1";
    let escaped = "https%3A%2F%2Fshop.example%2Fhook%3Fa=1";
    let push = "PushNotificationConfig";
    let mut all = vec![
        ("POST", "/message:send".to_owned(), page(), called("SendMessage", &page()).unwrap()),
        ("POST", "/message%3Asend".to_owned(), page(), called("SendMessage", &page()).unwrap()),
        ("POST", "/message:stream".to_owned(), page(), called("SendStreamingMessage", &page()).unwrap()),
        ("GET", "/tasks".to_owned(), nothing.clone(), called("ListTasks", &nothing).unwrap()),
        ("GET", "/tasks/".to_owned(), nothing.clone(), called("ListTasks", &nothing).unwrap()),
        ("GET", format!("/tasks/{SHOWN}"), nothing.clone(), called("GetTask", &id).unwrap()),
    ];
    for end in ["/cancel", ":cancel"] {
        all.push(("POST", format!("/tasks/{SHOWN}{end}"), nothing.clone(), called("CancelTask", &id).unwrap()));
    }
    for (verb, end) in [("GET", "/subscribe"), ("GET", ":subscribe"), ("POST", "/subscribe"), ("POST", ":subscribe")] {
        all.push((verb, format!("/tasks/{SHOWN}{end}"), nothing.clone(), called("SubscribeToTask", &id).unwrap()));
    }
    for name in ["push-configs", "pushNotificationConfigs"] {
        let base = format!("/tasks/{SHOWN}/{name}");
        let call = |method: &str, params: &Value| called(method, params).unwrap();
        all.push(("GET", base.clone(), nothing.clone(), call(&format!("ListTask{push}s"), &of(""))));
        all.push(("POST", base.clone(), config.clone(), call(&format!("CreateTask{push}"), &named)));
        for (verb, method) in [("GET", format!("GetTask{push}")), ("DELETE", format!("DeleteTask{push}"))] {
            all.push((verb, format!("{base}/c-1"), nothing.clone(), call(&method, &of("c-1"))));
            all.push((verb, format!("{base}/{escaped}"), nothing.clone(), call(&method, &of(url))));
        }
        // Some clients do not escape slashes.
        let call = http("GET", &format!("{base}/https://shop.example/hook"), None, &nothing).unwrap();
        let id = "https://shop.example/hook".to_owned();
        assert_eq!(call, Call::Push(PushCall::Get { task: TASK.into(), id }));
    }
    for (verb, path, body, expected) in all {
        assert_eq!(http(verb, &path, None, &body).unwrap(), expected, "{verb} {path}");
        let other = if verb == "DELETE" { "PUT" } else { "DELETE" };
        if !path.contains("onfigs/") {
            let fault = http(other, &path, None, &body).unwrap_err();
            assert_eq!(fault.kind, Kind::VerbNotAllowed, "{other} {path}");
        }
    }
    for path in
        ["/x", "/tasks//cancel", "/tasks/t/else", "/message:sing", "/streaming/x", "/extendedAgentCard", "tasks"]
    {
        assert_eq!(http("GET", path, None, &nothing).unwrap_err().kind, Kind::MethodNotFound, "{path}");
    }
    let config_id = called("GetTaskPushNotificationConfig", &json!({ "task_id": SHOWN, "config_id": "c" })).unwrap();
    assert_eq!(config_id, Call::Push(PushCall::Get { task: TASK.into(), id: "c".into() }));
}

#[test]
fn a_task_is_shown_under_an_id_that_can_be_read_back() {
    let id: TaskId = TASK.parse().unwrap();
    assert_eq!(aly::shown_id(id), SHOWN);
    assert_eq!(aly::own_id(SHOWN), TASK);
    for other in
        ["", "task_", "task_8e3", &SHOWN.to_uppercase(), "task_01977c3a00007000800000000000000g", "TASK_x", TASK]
    {
        assert_eq!(aly::own_id(other), *other);
    }
    for ours in [format!("{SHOWN}0"), SHOWN[5..].to_owned()] {
        assert_eq!(aly::own_id(&ours), ours);
    }
}

#[test]
fn what_is_wrong_is_said() {
    let mut told = String::new();
    let message = |change: fn(&mut Value)| {
        let mut params = page();
        change(&mut params["message"]);
        params
    };
    let without = |name: &str| {
        let mut params = page();
        params["message"].as_object_mut().unwrap().remove(name);
        params
    };
    for (method, params) in [
        ("SendMessage", json!({})),
        ("SendMessage", json!([])),
        ("SendMessage", json!({ "message": "hello" })),
        ("SendMessage", without("messageId")),
        ("SendMessage", without("role")),
        ("SendMessage", without("parts")),
        ("SendMessage", message(|m| m["parts"] = json!([]))),
        ("SendMessage", message(|m| m["parts"] = json!([{}]))),
        ("SendMessage", message(|m| m["parts"] = json!([{ "text": "x", "data": 1 }]))),
        ("SendMessage", message(|m| m["role"] = json!("user"))),
        ("SendMessage", message(|m| m["messageId"] = json!(7))),
        ("SendMessage", message(|m| m["messageId"] = json!(""))),
        ("SendStreamingMessage", json!({ "message": [] })),
        ("GetTask", json!({})),
        ("GetTask", json!({ "id": {} })),
        ("ListTasks", json!({ "limit": 0 })),
        ("ListTasks", json!({ "pageSize": 101 })),
        ("ListTasks", json!({ "pageSize": "many" })),
        ("CancelTask", json!({ "taskId": "" })),
        ("CreateTaskPushNotificationConfig", json!({ "url": "https://h" })),
        ("CreateTaskPushNotificationConfig", json!({ "taskId": SHOWN })),
        ("GetTaskPushNotificationConfig", json!({ "taskId": SHOWN })),
        ("DeleteTaskPushNotificationConfig", json!({ "id": "c" })),
        ("GetExtendedAgentCard", json!({})),
        ("message/send", page()),
        ("tasks/get", json!({ "id": SHOWN })),
    ] {
        let fault = called(method, &params).unwrap_err();
        let mut out = Vec::new();
        errors::rpc_error(&mut out, &Id::of(&json!("r")).unwrap(), &fault, Operation::Unknown);
        writeln!(told, "{method} {params}\n  {}", String::from_utf8(out).unwrap()).unwrap();
    }
    for (verb, path, body) in [
        ("POST", "/streaming", json!({})),
        ("POST", "/streaming", page()),
        ("POST", "/streaming", json!({ "params": {} })),
        ("GET", "/streaming", json!({})),
        ("POST", "/message:send", json!({ "params": page() })),
        ("PUT", "/tasks", json!({})),
        ("GET", "/nowhere", json!({})),
        ("GET", "/tasks/%zz", json!({})),
    ] {
        let fault = http(verb, path, None, &body).unwrap_err();
        let (status, encoded) = errors::rest_error(&fault, Operation::Unknown);
        writeln!(told, "{verb} {path} {body}\n  {status} {}", text_of(&encoded)).unwrap();
    }
    insta::assert_snapshot!(told);
}

#[test]
fn every_fault_has_a_code() {
    let mut told = String::new();
    for kind in Kind::ALL {
        let mut row = format!("{kind:?}");
        for operation in [
            Operation::Unknown,
            Operation::Send,
            Operation::Get,
            Operation::List,
            Operation::Cancel,
            Operation::Subscribe,
            Operation::PushCreate,
            Operation::PushGet,
        ] {
            let line = errors::line(kind, operation);
            write!(row, " | {} {}", line.http, line.rpc).unwrap();
        }
        told.push_str(&row);
        told.push('\n');
    }
    for text in ["{", "[]", r#"{"jsonrpc":"1.0","id":1,"method":"x"}"#, r#"{"id":1}"#, r#"{"jsonrpc":"2.0","id":1}"#] {
        let unreadable = jsonrpc::read(text).unwrap_err();
        let mut out = Vec::new();
        errors::rpc_error(&mut out, &unreadable.id, &unreadable.fault, Operation::Unknown);
        writeln!(told, "{text}\n  {}", String::from_utf8(out).unwrap()).unwrap();
    }
    insta::assert_snapshot!(told);
}

fn said(role: Role, parts: Vec<Part>) -> Arc<Message> {
    let (extensions, references) = (Vec::new(), Vec::new());
    let id = match role {
        Role::User => "m1",
        Role::Agent => "m9",
    };
    Arc::new(Message { id: id.into(), role, parts, metadata: None, extensions, references })
}

fn events(then: Vec<Body>) -> Vec<Event> {
    let opened = Opened {
        id: TASK.parse().unwrap(),
        context: ContextId("ctx_a1".into()),
        agent: "store".into(),
        tenant: "acme".into(),
        owner: "anonymous".into(),
        parties: Vec::new(),
        views: Vec::new(),
        dialect: aly::NAME.into(),
        alias: None,
        follows: None,
        undecided: false,
    };
    let inbound = Inbound {
        message: said(Role::User, vec![Part::text("Show products on store acme.")]),
        metadata: None,
        accepted_output: Vec::new(),
        extensions: Vec::new(),
        trace: None,
        payer: None,
    };
    let turn: TurnId = "01977c3a-0000-7000-8000-000000000001".parse().unwrap();
    let bodies = [
        Body::Opened(Box::new(opened)),
        Body::Message(Arc::new(inbound)),
        Body::TurnStarted { turn, attempt: 1, hold: None },
    ];
    let number = |(i, body)| Event { seq: Seq(i as u64 + 1), at: Time(1_775_721_600_000), body };
    bodies.into_iter().chain(then).enumerate().map(number).collect()
}

fn task(then: Vec<Body>) -> Task {
    Task::fold(&events(then)).unwrap().unwrap()
}

fn status(state: State, words: Option<&str>) -> Body {
    let message = words.map(|words| said(Role::Agent, vec![Part::text(words)]));
    Body::Status(StatusChange { state, message, metadata: None })
}

fn made() -> Body {
    let artifact = Artifact {
        id: "search_results".into(),
        name: Some("search_results".into()),
        description: None,
        parts: vec![Part::data(Json::parse(r#"{"total":1,"products":[{"name":"Hat","price":25.50}]}"#).unwrap())],
        metadata: None,
        extensions: Vec::new(),
    };
    Body::Artifact(Chunk {
        artifact: Arc::new(artifact),
        ordinal: 0,
        append: false,
        bordered: false,
        last: true,
        metadata: None,
    })
}

/// An artifact whose text comes in three chunks.
fn chunks() -> Vec<Body> {
    let chunk = |(i, text): (usize, &str)| {
        let Body::Artifact(chunk) = made() else { unreachable!("an artifact") };
        let artifact = Artifact { parts: vec![Part::text(text)], ..(*chunk.artifact).clone() };
        Body::Artifact(Chunk { artifact: Arc::new(artifact), append: i > 0, last: i == 2, ..chunk })
    };
    ["one, ", "two, ", "three"].into_iter().enumerate().map(chunk).collect()
}

fn found() -> Vec<Body> {
    let about = Json::parse(r#"{"skill":"product-search","site_slug":"acme"}"#).unwrap();
    vec![
        status(State::Working, None),
        Body::Metadata(about),
        made(),
        status(State::Completed, Some("1 product found.")),
    ]
}

fn text_of(encoded: &Encoded) -> String {
    let text = String::from_utf8(encoded.as_bytes().unwrap().to_vec()).unwrap();
    serde_json::from_str::<Value>(&text).unwrap();
    text
}

fn written(write: impl FnOnce(&mut Writer)) -> String {
    let mut w = Writer::new();
    write(&mut w);
    text_of(&w.finish())
}

#[test]
fn answers_are_as_the_page_has_them() {
    let mut told = String::new();
    let view = TaskView::WHOLE;
    let asks = || task(vec![status(State::InputRequired, Some("Which store?"))]);
    for (what, task) in [
        ("submitted", task(Vec::new())),
        ("working", task(vec![status(State::Working, None)])),
        ("asks", asks()),
        ("completed", task(found())),
        ("a text that came in chunks", task(chunks())),
        ("failed", task(vec![status(State::Failed, Some("no such order"))])),
        ("canceled", task(vec![Body::CancelRequested { metadata: None }, status(State::Canceled, None)])),
    ] {
        let shown = written(|w| WIRE.task(w, &task, &view, None));
        assert!(!shown.contains(TASK), "{shown}");
        writeln!(told, "{what}\n  {shown}").unwrap();
        // The first frames of a stream that begins at this state.
        for frame in WIRE.stream_task(&task, &view, None, false) {
            writeln!(told, "  > {}", text_of(&frame)).unwrap();
        }
    }
    let (done, asks) = (Arc::new(task(found())), Arc::new(asks()));
    writeln!(told, "sent\n  {}", written(|w| WIRE.sent_task(w, &done, &view, None))).unwrap();
    let reply = said(Role::Agent, vec![Part::text("hello")]);
    let context = ContextId("ctx_a1".into());
    let head = Head::new(TASK.parse().unwrap(), None, &context);
    writeln!(told, "replied\n  {}", written(|w| WIRE.sent_message(w, &reply, &head))).unwrap();
    writeln!(told, "  > {}", written(|w| WIRE.stream_message(w, &reply, &head))).unwrap();
    let tasks = [asks, done];
    let page = Page { tasks: &tasks, view: &view, next_page_token: "", page_size: 20, total_size: 2 };
    writeln!(told, "listed\n  {}", written(|w| assert!(WIRE.list(w, &page)))).unwrap();
    writeln!(told, "stream").unwrap();
    for event in events(found()) {
        let mut w = Writer::new();
        if WIRE.stream_event(&mut w, &head, &event, false) {
            let shown = text_of(&w.finish());
            assert_eq!(shown, written(|w| assert!(WIRE.push_body(w, &head, &WebhookBody::Event(Arc::new(event))))));
            writeln!(told, "  > {shown}").unwrap();
        }
    }
    let config = PushConfig {
        task: Some(TASK.into()),
        id: Some("c".into()),
        url: "https://h/1".into(),
        token: None,
        scheme: Some("Bearer".into()),
        credentials: None,
    };
    writeln!(told, "config\n  {}", written(|w| WIRE.push_config(w, &config, None))).unwrap();
    writeln!(told, "configs\n  {}", written(|w| WIRE.push_list(w, &[config], None, ""))).unwrap();
    writeln!(told, "deleted\n  {}", written(|w| WIRE.push_deleted(w, TASK))).unwrap();
    insta::assert_snapshot!(told);
}

#[test]
fn a_history_ends_with_the_agents_answer_and_a_long_one_is_cut_to_its_newest() {
    let asks = task(vec![status(State::InputRequired, Some("Which store?"))]);
    let shown: Value = serde_json::from_str(&written(|w| WIRE.task(w, &asks, &TaskView::WHOLE, None))).unwrap();
    let history = shown["history"].as_array().unwrap();
    assert_eq!((history.len(), &history[1]), (2, &shown["status"]["message"]), "the agent's answer is part of it");
    let mut many = task(Vec::new());
    for i in 0..150 {
        let message = said(Role::User, vec![Part::text(format!("n{i}"))]);
        many.history.push(message);
    }
    let shown: Value = serde_json::from_str(&written(|w| WIRE.task(w, &many, &TaskView::WHOLE, None))).unwrap();
    let history = shown["history"].as_array().unwrap();
    assert_eq!((history.len(), &history[99]["parts"][0]["text"]), (aly::HISTORY as usize, &json!("n149")));
}

#[test]
fn cards_are_the_platforms_or_a_shops() {
    let (tags, examples) = (["commerce".to_owned()], ["Search for hats on store {site_slug}."]);
    let skill = |id, scope| {
        let examples = examples.to_vec();
        card::CardSkill { id, name: id, description: "…", tags: &tags, examples, scope }
    };
    let facts = |shop| card::StoreCardFacts {
        base: "https://h/aly",
        issuer: "https://h",
        platform: "Shops",
        description: "Shops that agents buy in",
        version: "1.0.0",
        shop,
        documentation_url: Some("https://h/llms.txt"),
        streaming: true,
        push: true,
        skills: vec![skill("product-search", None), skill("checkout", Some("write:orders"))],
    };
    let acme = card::CardShop { slug: "acme", title: "Acme", host: "acme.shop.example", description: Some("Hats") };
    let all = json!([card::card(&facts(None)), card::card(&facts(Some(acme)))]);
    insta::assert_snapshot!(serde_json::to_string_pretty(&all).unwrap());
}

/// Decodes a JSON-RPC request as the endpoint does.
fn rpc(bytes: &[u8]) -> Result<Decoded, (OwnedId, Fault)> {
    let limits = Limits::default();
    let text = scan::scan(bytes, limits.json_depth).map_err(|fault| (Id::NULL, fault))?;
    let request = jsonrpc::read(text).map_err(|unreadable| (unreadable.id, unreadable.fault))?;
    decode::decode(&request.method, request.params, &limits).map_err(|fault| (request.id.to_owned(), fault))
}

const REQUESTS: &[&str] = &[
    r#"{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","context_id":"c","taskId":"t","role":"ROLE_USER","parts":[{"text":"hi"},{"raw":"aGk="},{"url":"https://x"},{"mediaType":"application/json","data":{"skill":"checkout","quantity":1}}],"metadata":{"k":1}},"configuration":{"taskPushNotificationConfig":{"url":"https://h","authentication":{"scheme":"Bearer","credentials":"c"}}}}}"#,
    r#"{"jsonrpc":"2.0","id":"x","method":"SendStreamingMessage","params":{"message":{"message_id":"m","role":1,"parts":[{"text":"h\u00e9","media_type":"text/plain"}]}}}"#,
    r#"{"jsonrpc":"2.0","id":2,"method":"ListTasks","params":{"contextId":"c","limit":10,"cursor":"p"}}"#,
    r#"{"jsonrpc":"2.0","id":3,"method":"CancelTask","params":{"task_id":"t"}}"#,
    r#"{"jsonrpc":"2.0","id":4,"method":"CreateTaskPushNotificationConfig","params":{"taskId":"t","url":"https://h"}}"#,
];

/// Replaces the spelling of members: camelCase or snake_case.
fn respelled(value: &Value, snake: &mut impl Iterator<Item = bool>) -> Value {
    let name = |name: &str, snake: bool| {
        if !snake || name.chars().all(char::is_lowercase) {
            return name.to_owned();
        }
        name.chars().flat_map(|c| [c.is_uppercase().then_some('_'), Some(c.to_ascii_lowercase())]).flatten().collect()
    };
    match value {
        Value::Object(members) => {
            let one = |(key, value): (&String, &Value)| {
                let key = name(key, snake.next().unwrap_or_default());
                // The content of a data part is the caller's own.
                let value = if key == "data" { value.clone() } else { respelled(value, snake) };
                (key, value)
            };
            Value::Object(members.iter().map(one).collect())
        }
        Value::Array(all) => Value::Array(all.iter().map(|one| respelled(one, snake)).collect()),
        other => other.clone(),
    }
}

proptest! {
    #[test]
    fn whatever_comes_in_is_a_call_or_a_fault_that_can_be_told(
        which in 0..REQUESTS.len(),
        changes in changes(),
    ) {
        let bytes = changed(REQUESTS[which].as_bytes(), &changes);
        if let Err((id, fault)) = rpc(&bytes) {
            prop_assert!(matches!(
                fault.kind,
                Kind::Parse | Kind::InvalidRequest | Kind::MethodNotFound | Kind::InvalidParams
            ), "{:?}", fault.kind);
            let mut out = Vec::new();
            errors::rpc_error(&mut out, &id, &fault, Operation::Unknown);
            prop_assert!(out.len() < 4_096);
            let told: Value = serde_json::from_slice(&out).unwrap();
            prop_assert_eq!(&told["error"]["code"], errors::line(fault.kind, Operation::Unknown).rpc);
        }
    }

    #[test]
    fn any_path_is_a_route_or_a_fault(verb in "GET|POST|DELETE|PUT", path in "/[a-z/:%0-9._-]{0,40}", query: String) {
        if let Err(fault) = http(&verb, &path, Some(&query), &page()) {
            let (status, encoded) = errors::rest_error(&fault, Operation::Unknown);
            prop_assert!((400..500).contains(&status), "{:?}", fault);
            text_of(&encoded);
        }
    }

    #[test]
    fn however_members_are_spelled_the_call_is_the_same(snake in prop::collection::vec(any::<bool>(), 64)) {
        let params = json!({
            "message": {
                "messageId": "m", "contextId": "c", "role": "ROLE_USER", "referenceTaskIds": ["r"],
                "parts": [{ "mediaType": "application/json", "data": { "siteSlug": "acme", "cartToken": 1 } }],
            },
            "configuration": { "taskPushNotificationConfig": { "taskId": "t", "url": "https://h" } },
        });
        let other = respelled(&params, &mut snake.iter().copied());
        prop_assert_eq!(called("SendMessage", &other).unwrap(), called("SendMessage", &params).unwrap());
        let list = json!({ "contextId": "c", "pageSize": 3, "pageToken": "t" });
        let other = respelled(&list, &mut snake.iter().copied());
        prop_assert_eq!(called("ListTasks", &other).unwrap(), called("ListTasks", &list).unwrap());
    }

    #[test]
    fn every_task_is_found_by_the_id_it_is_shown_under(bits: u128) {
        let hex = format!("{bits:032x}");
        let own = aly::own_id(&format!("task_{hex}"));
        let id: TaskId = own.parse().unwrap();
        prop_assert_eq!((aly::shown_id(id), id.to_string()), (format!("task_{hex}"), own));
    }
}
