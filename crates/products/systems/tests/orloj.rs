//! Orloj's wire: every example of its page, as requests and as answers, and all that can be refused.

#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::sync::Arc;

use dialects::framing::json::Writer;
use dialects::framing::jsonrpc::{self, Id};
use dialects::wire::{Operation, TaskView};
use model::{
    Artifact, Body, Call, Chunk, ContextId, Event, Fault, Inbound, Json, Kind, Limits, Message, Opened, Part, Role,
    Seq, State, StatusChange, Task, TaskId, Time, TurnId,
};
use serde_json::{Value, json, value::RawValue};
use systems::orloj::decode::{SystemTarget, decode, newer_target};
use systems::orloj::errors::Error;
use systems::orloj::{SystemAddress, card, encode, is_newer};

const SYSTEM: SystemAddress<'static> = SystemAddress { namespace: "default", name: "summarize" };

fn raw(value: &Value) -> Box<RawValue> {
    RawValue::from_string(value.to_string()).unwrap()
}

fn called(method: &str, params: &Value) -> Result<(Call, Option<SystemTarget>), Fault> {
    let decoded = decode(method, Some(&raw(params)), &Limits::default())?;
    Ok((decoded.call, decoded.target))
}

/// The request of the page.
fn page() -> Value {
    json!({
        "id": "task-001",
        "message": { "role": "user", "parts": [{ "type": "text", "text": "Summarize this document" }] },
        "metadata": { "source": "external-workflow" },
    })
}

#[test]
fn the_requests_of_the_page_are_read() {
    let (call, target) = called("tasks/send", &page()).unwrap();
    let Call::Send(send) = call else { panic!("{call:?}") };
    assert_eq!((send.alias.as_deref(), target, send.context), (Some("task-001"), None, None));
    assert_eq!((send.message.role, send.message.text().as_str()), (Role::User, "Summarize this document"));
    // The caller's facts about the task are in its first message.
    let said = json!({ "source": "external-workflow" });
    assert_eq!(send.message.metadata.unwrap().to_value(), said);
    assert_eq!(send.metadata.unwrap().to_value(), said);

    assert!(matches!(called("tasks/sendSubscribe", &page()).unwrap().0, Call::Stream(_)));
    let (call, _) = called("tasks/get", &json!({ "id": "a2a-task-xyz" })).unwrap();
    assert_eq!(call, Call::Get(model::Get { task: "a2a-task-xyz".into(), history: Some(0) }));
    let (call, _) = called("tasks/get", &json!({ "id": "t", "historyLength": 3 })).unwrap();
    assert_eq!(call, Call::Get(model::Get { task: "t".into(), history: Some(3) }));
    let (call, _) = called("tasks/cancel", &json!({ "id": "a2a-task-xyz", "reason": "No longer needed" })).unwrap();
    let Call::Cancel(cancel) = call else { panic!("{call:?}") };
    assert_eq!(cancel.task, "a2a-task-xyz");
    assert_eq!(cancel.metadata.unwrap().to_value(), json!({ "reason": "No longer needed" }));
}

#[test]
fn a_reason_is_given_where_none_is_and_cut_between_characters() {
    let reason = |params: &Value| match called("tasks/cancel", params).unwrap().0 {
        Call::Cancel(cancel) => cancel.metadata.unwrap().to_value()["reason"].as_str().unwrap().to_owned(),
        other => panic!("{other:?}"),
    };
    assert_eq!(reason(&json!({ "id": "t" })), "cancelled via A2A");
    assert_eq!(reason(&json!({ "id": "t", "reason": "  " })), "cancelled via A2A");
    let long = reason(&json!({ "id": "t", "reason": "ä".repeat(600) + "x" }));
    assert_eq!((long.len(), long.chars().count()), (1_024, 512));
    let odd = reason(&json!({ "id": "t", "reason": format!("x{}", "ä".repeat(600)) }));
    assert_eq!(odd.len(), 1_023, "half a character is none");
}

#[test]
fn metadata_names_the_system_and_the_context() {
    let with = |metadata: Value| {
        let mut params = page();
        params["metadata"] = metadata;
        let (call, target) = called("tasks/send", &params).unwrap();
        let Call::Send(send) = call else { panic!("{call:?}") };
        (target.map(|target| (target.namespace, target.name)), send.context.map(|context| context.as_str().to_owned()))
    };
    let named = |namespace: Option<&str>, name: &str| Some((namespace.map(str::to_owned), name.to_owned()));
    assert_eq!(with(json!({ "agent": "billing" })).0, named(None, "billing"));
    assert_eq!(with(json!({ "target": "finance/billing" })).0, named(Some("finance"), "billing"));
    assert_eq!(with(json!({ "target": "b", "agent": "a" })).0, named(None, "a"), "agent comes first");
    assert_eq!(with(json!({ "agent": "", "target": "b" })).0, named(None, "b"));
    assert_eq!(with(json!({ "contextId": "c-1" })), (None, Some("c-1".to_owned())));
    assert_eq!(with(json!({})), (None, None));
    let newer = |params: Value| newer_target(Some(&raw(&params))).map(|target| target.name);
    assert_eq!(newer(json!({ "metadata": { "agent": "a", "n": 1 } })).as_deref(), Some("a"));
    assert_eq!(newer(json!({ "message": {} })), None);
    assert!(is_newer("SendMessage") && !is_newer("tasks/send") && !is_newer("message/send"));
}

#[test]
fn what_is_wrong_is_said_in_the_products_words() {
    let mut told = String::new();
    let long = "x".repeat(300);
    for (method, params) in [
        ("tasks/send", json!({})),
        ("tasks/send", json!({ "id": "" })),
        ("tasks/send", json!({ "id": 7, "message": {} })),
        ("tasks/send", json!({ "id": long, "message": {} })),
        ("tasks/send", json!({ "id": "t" })),
        ("tasks/send", json!({ "id": "t", "message": {} })),
        ("tasks/send", json!({ "id": "t", "message": "hello" })),
        ("tasks/send", json!({ "id": "t", "message": { "role": "user", "parts": [{ "type": "song" }] } })),
        ("tasks/send", json!({ "id": "t", "message": { "role": "boss", "parts": [{ "type": "text", "text": "x" }] } })),
        ("tasks/send", json!({ "id": "t", "message": page()["message"], "metadata": { "n": 1 } })),
        ("tasks/send", json!({ "id": "t", "message": page()["message"], "metadata": [] })),
        ("tasks/sendSubscribe", json!({ "message": {} })),
        ("tasks/sendSubscribe", json!({ "id": "t", "message": [] })),
        ("tasks/get", json!({})),
        ("tasks/get", json!({ "id": {} })),
        ("tasks/get", json!({ "id": "t", "historyLength": -1 })),
        ("tasks/cancel", json!({ "reason": "x" })),
        ("tasks/cancel", json!({ "id": "t", "reason": 7 })),
        ("tasks/resubscribe", json!({ "id": "t" })),
        ("message/send", json!({})),
    ] {
        let fault = called(method, &params).unwrap_err();
        let bytes = Error::of(&fault, Operation::Unknown).encode(&Id::of(&json!("r")).unwrap());
        let shown = params.to_string().replace(&long, "xx…");
        writeln!(told, "{method} {shown}\n  {}", String::from_utf8(bytes).unwrap()).unwrap();
    }
    insta::assert_snapshot!(told);
}

#[test]
fn a_task_has_a_name_made_of_its_system_and_id() {
    let name = |id: &str| SYSTEM.task_name(id);
    assert_eq!(name("task-001"), name("task-001"));
    assert!(name("task-001").ends_with("-task-001") && name("task-001").starts_with("a2a-"), "{}", name("task-001"));
    assert_eq!(name("task-001").len(), "a2a-".len() + 12 + "-task-001".len());
    assert!(name("Übung #1/x").ends_with("-bung--1-x"), "{}", name("Übung #1/x"));
    assert_ne!(name("a b"), name("a-b"), "what looks the same is told apart by the hash");
    assert_eq!(name(&"y".repeat(100)).len(), "a2a-".len() + 12 + 1 + 48);
    assert_eq!(name("…").len(), "a2a-".len() + 12, "nothing of it can be shown");
    let elsewhere = SystemAddress { namespace: "review", ..SYSTEM };
    assert_ne!(elsewhere.task_name("task-001"), name("task-001"));
}

fn message(role: Role, parts: Vec<Part>, metadata: Option<Value>) -> Arc<Message> {
    let metadata = metadata.map(|value| Json::from_value(&value));
    let (extensions, references) = (vec!["x:y".to_owned()], Vec::new());
    Arc::new(Message { id: "m".into(), role, parts, metadata, extensions, references })
}

fn text(role: Role, text: &str) -> Arc<Message> {
    message(role, vec![Part::text(text)], None)
}

/// A task of a log that goes on as given.
fn task(alias: Option<&str>, dialect: &str, first: Arc<Message>, then: Vec<Body>) -> Task {
    let id: TaskId = "01977c3a-0000-7000-8000-000000000000".parse().unwrap();
    let opened = Opened {
        id,
        context: ContextId("c-1".into()),
        agent: "summarize".into(),
        tenant: "default".into(),
        owner: "anonymous".into(),
        parties: Vec::new(),
        views: Vec::new(),
        dialect: dialect.into(),
        alias: alias.map(Into::into),
        follows: None,
        undecided: false,
    };
    let inbound = Inbound {
        message: first,
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
    let events: Vec<Event> = bodies
        .into_iter()
        .chain(then)
        .enumerate()
        .map(|(i, body)| Event { seq: Seq(i as u64 + 1), at: Time(1_775_721_600_000), body })
        .collect();
    Task::fold(&events).unwrap().unwrap()
}

fn status(state: State, said: Option<Arc<Message>>) -> Body {
    Body::Status(StatusChange { state, message: said, metadata: None })
}

fn made(ordinal: u32, name: Option<&str>, parts: Vec<Part>) -> Body {
    let artifact = Artifact {
        id: format!("art-{ordinal}").into(),
        name: name.map(Into::into),
        description: name.map(|name| format!("the {name}")),
        parts,
        metadata: Json::parse(r#"{"hidden":true}"#),
        extensions: Vec::new(),
    };
    Body::Artifact(Chunk {
        artifact: Arc::new(artifact),
        ordinal,
        append: false,
        bordered: false,
        last: true,
        metadata: None,
    })
}

/// An artifact whose text comes in three chunks.
fn chunks() -> Vec<Body> {
    let chunk = |(i, text): (usize, &str)| match made(0, None, vec![Part::text(text)]) {
        Body::Artifact(chunk) => Body::Artifact(Chunk { append: i > 0, last: i == 2, ..chunk }),
        other => other,
    };
    ["one, ", "two, ", "three"].into_iter().enumerate().map(chunk).collect()
}

fn shown(task: &Task, view: TaskView) -> String {
    let mut w = Writer::new();
    encode::task(&mut w, task, &SYSTEM, &view);
    let encoded = w.finish();
    let text = std::str::from_utf8(encoded.as_bytes().unwrap()).unwrap().to_owned();
    serde_json::from_str::<Value>(&text).unwrap();
    text
}

const PLAIN: TaskView = TaskView { history: Some(0), artifacts: true };

#[test]
fn tasks_are_shown_as_the_page_has_them() {
    let asked = || message(Role::User, vec![Part::text("Summarize this document")], Some(json!({ "source": "ext" })));
    let mut file = Part::new(model::Content::Raw(b"a,b\n".as_slice().into()));
    (file.filename, file.media_type) = (Some("a.csv".into()), Some("text/csv".into()));
    let link = Part::new(model::Content::Url("https://files.example/a".into()));
    let mut data = Part::data(Json::parse("[1,2.50]").unwrap());
    data.metadata = Json::parse(r#"{"unit":"m"}"#);
    let working = || status(State::Working, Some(text(Role::Agent, "reading")));
    let done = || {
        vec![
            working(),
            made(0, Some("summary"), vec![Part::text("...")]),
            made(1, None, vec![data.clone(), file.clone(), link.clone()]),
            Body::Metadata(Json::parse(r#"{"cost":{"ut":1},"tries":2,"who":"me","none":null}"#).unwrap()),
            status(State::Completed, Some(text(Role::Agent, "Here is the summary..."))),
        ]
    };
    let reason = Json::parse(r#"{"reason":"No longer needed"}"#);
    let cancelled = |metadata| vec![Body::CancelRequested { metadata }, status(State::Canceled, None)];
    let mut told = String::new();
    for (what, task, view) in [
        ("submitted", task(Some("task-001"), "orloj", asked(), Vec::new()), PLAIN),
        ("working", task(Some("task-001"), "orloj", asked(), vec![working()]), PLAIN),
        ("completed", task(Some("task-001"), "orloj", asked(), done()), PLAIN),
        ("with history", task(Some("task-001"), "orloj", asked(), done()), TaskView::WHOLE),
        ("nothing made", task(Some("t"), "orloj", text(Role::User, "x"), vec![status(State::Completed, None)]), PLAIN),
        ("a text that came in chunks", task(Some("t"), "orloj", text(Role::User, "x"), chunks()), PLAIN),
        (
            "failed",
            task(Some("t"), "orloj", text(Role::User, "x"), vec![status(State::Failed, Some(text(Role::Agent, "no")))]),
            PLAIN,
        ),
        ("rejected", task(Some("t"), "orloj", text(Role::User, "x"), vec![status(State::Rejected, None)]), PLAIN),
        (
            "asks",
            task(
                Some("t"),
                "orloj",
                text(Role::User, "x"),
                vec![status(State::InputRequired, Some(text(Role::Agent, "?")))],
            ),
            PLAIN,
        ),
        ("log in", task(Some("t"), "orloj", text(Role::User, "x"), vec![status(State::AuthRequired, None)]), PLAIN),
        ("cancelled", task(Some("t"), "orloj", text(Role::User, "x"), cancelled(reason)), PLAIN),
        ("cancelled elsewhere", task(Some("t"), "orloj", text(Role::User, "x"), cancelled(None)), PLAIN),
        ("opened in 1.0", task(None, "a2a_v1", text(Role::User, "x"), vec![working()]), PLAIN),
        ("opened in 0.1", task(Some("mine"), "a2a_v0_1", text(Role::User, "x"), vec![working()]), PLAIN),
    ] {
        let shown = shown(&task, view);
        for never in ["timestamp", "sessionId", "contextId", "messageId", "artifactId", "hidden", "kind"] {
            assert!(!shown.contains(&format!("\"{never}\"")), "{what}: {never}: {shown}");
        }
        writeln!(told, "{what}\n  {shown}").unwrap();
    }
    let mut frame = Vec::new();
    encode::begin_frame(&mut frame);
    frame.extend_from_slice(b"{}");
    encode::end_frame(&mut frame);
    writeln!(told, "{}{}", String::from_utf8(frame).unwrap(), std::str::from_utf8(encode::HEARTBEAT).unwrap()).unwrap();
    insta::assert_snapshot!(told);
}

#[test]
fn every_fault_has_a_code() {
    let mut told = String::new();
    for kind in Kind::ALL {
        let mut row = format!("{kind:?}");
        for operation in [Operation::Unknown, Operation::Send, Operation::Stream, Operation::Get, Operation::Cancel] {
            let error = Error::of(&Fault::new(kind, "said"), operation);
            write!(row, " | {} {} {}", error.http, error.code, error.message).unwrap();
        }
        told.push_str(&row);
        told.push('\n');
    }
    let id = Id::of(&json!("req-4")).unwrap();
    for error in [
        Error::no_task("a2a-task-unknown"),
        Error::of_state("t", State::Canceled).unwrap(),
        Error::of_state("t", State::Completed).unwrap(),
        Error::of_state("t", State::Failed).unwrap(),
        Error::of_state("t", State::Rejected).unwrap(),
        Error::not_enabled(),
        Error::not_available(),
        Error::no_target(Operation::Send),
        Error::no_target(Operation::Stream),
    ] {
        writeln!(told, "{}", String::from_utf8(error.encode(&id)).unwrap()).unwrap();
    }
    for text in ["{", "[]", r#"{"jsonrpc":"1.0","id":1,"method":"x"}"#, r#"{"id":1}"#, r#"{"jsonrpc":"2.0","id":1}"#] {
        let unreadable = jsonrpc::read(text).unwrap_err();
        let error = Error::of(&unreadable.fault, Operation::Unknown).encode(&unreadable.id);
        writeln!(told, "{text}\n  {}", String::from_utf8(error).unwrap()).unwrap();
    }
    insta::assert_snapshot!(told);
}

#[test]
fn cards_say_where_a_system_is_and_who_may_call() {
    let facts = |system, public| card::SystemCard {
        system,
        description: "Multi-agent system: summarize",
        base: "https://h/orloj",
        protocol_version: "1.0",
        streaming: true,
        push: false,
        history: true,
        public,
        skills: vec![
            card::SystemSkill { name: "echo", description: "comes back" },
            card::SystemSkill { name: "x", description: "" },
        ],
    };
    let open = card::card(&facts(SYSTEM, true));
    let guarded = card::card(&facts(SystemAddress { namespace: "review", name: "publish" }, false));
    let remotes = [
        card::RemoteAgent { name: "tax", url: "https://tax", protocol_version: "1.0", description: Some("taxes") },
        card::RemoteAgent { name: "old", url: "https://old", protocol_version: "1.0", description: None },
    ];
    let registry = card::registry(vec![open.clone(), guarded], &remotes);
    assert!(open.get("authentication").is_none() && open["capabilities"].get("pushNotifications").is_none());
    insta::assert_snapshot!(serde_json::to_string_pretty(&registry).unwrap());
}
