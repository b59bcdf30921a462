//! The 1.0 wire, byte for byte: canonical cases encoded to goldens and read back.
//!
//! A 1.0 answer cannot carry, so these do not come back: a task's agent, tenant, owner, views, dialect, creation
//! time and log position; an event's sequence number; a chunk's ordinal. A line break between the tokens of opaque JSON
//! comes back as a space.

#![allow(clippy::unwrap_used)]

mod cases;

use std::fmt::Write as _;
use std::sync::Arc;

use cases::*;
use dialects::a2a_v1::card::{CardAuth, CardFacts, Interface, Provider, card};
use dialects::a2a_v1::encode::{self, ListWriter, TaskHead, TaskView};
use dialects::a2a_v1::read::{self, Seen};
use dialects::a2a_v1::{errors, version};
use dialects::framing::jsonrpc::{Id, OwnedId};
use model::{Artifact, Body, Content, Event, Kind, Message, Part, Role, State, Task};

fn golden(name: &str, lines: impl IntoIterator<Item = (String, String)>) {
    let mut text = String::new();
    for (case, json) in lines {
        writeln!(text, "# {case}\n{json}").unwrap();
    }
    insta::assert_snapshot!(name, text);
}

#[test]
fn tasks_of_every_state() {
    let lines = State::ALL.into_iter().map(|state| {
        let json = text(|w| encode::task(w, &bare_task(state), &TaskView::WHOLE));
        (format!("{state:?}"), json)
    });
    golden("tasks_of_every_state", lines);
}

#[test]
fn a_full_task_in_every_view() {
    let task = full_task();
    let view = |history, artifacts| TaskView { history, artifacts };
    let lines = [
        ("whole", view(None, true)),
        ("no history", view(Some(0), true)),
        ("newest two", view(Some(2), false)),
        ("more than there is", view(Some(u32::MAX), false)),
    ];
    golden(
        "a_full_task_in_every_view",
        lines.into_iter().map(|(name, view)| (name.to_owned(), text(|w| encode::task(w, &task, &view)))),
    );
}

#[test]
fn answers_to_a_send() {
    let message = message("m-7", Role::Agent, vec![Part::text("no task")]);
    golden(
        "answers_to_a_send",
        [
            ("task".to_owned(), text(|w| encode::send_task(w, &bare_task(State::Completed), &TaskView::WHOLE))),
            ("message".to_owned(), text(|w| encode::send_message(w, &message, &context()))),
            (
                "stream begins".to_owned(),
                text(|w| encode::stream_task(w, &bare_task(State::Submitted), &TaskView::WHOLE)),
            ),
        ],
    );
}

fn head(context: &model::ContextId) -> TaskHead<'_> {
    TaskHead { id: task_id(), context }
}

#[test]
fn every_event() {
    let context = context();
    let lines = events().into_iter().map(|(name, event)| {
        let json = text(|w| assert!(encode::stream_event(w, &head(&context), &event)));
        (name, json)
    });
    golden("every_event", lines);
}

#[test]
fn what_is_not_public_is_not_written() {
    let context = context();
    for body in
        [Body::Bound { remote: "r".into() }, Body::Metadata(odd_json()), Body::CancelRequested { metadata: None }]
    {
        assert!(!body.is_public());
        let encoded = encoded(|w| assert!(!encode::stream_event(w, &head(&context), &event(body))));
        assert_eq!(encoded.as_bytes().map(|bytes| bytes.len()), Some(0));
    }
}

#[test]
fn large_content_parts_the_bytes() {
    let context = context();
    let lines = blob_parts().into_iter().map(|(name, part)| {
        let chunk = model::Chunk {
            artifact: Arc::new(artifact("a-1", vec![part])),
            ordinal: 0,
            append: false,
            bordered: false,
            last: true,
            metadata: None,
        };
        let encoded = encoded(|w| assert!(encode::stream_event(w, &head(&context), &event(Body::Artifact(chunk)))));
        (name.to_owned(), shown(&encoded))
    });
    golden("large_content", lines);
}

#[test]
fn pages_of_a_list() {
    let tasks = [Arc::new(full_task()), Arc::new(bare_task(State::Working))];
    let lean = TaskView { history: Some(0), artifacts: false };
    let rich = TaskView { history: Some(1), artifacts: true };
    let early = text(|w| {
        let mut page = ListWriter::begin(w);
        page.task(&tasks[1], &lean);
        assert!(page.wire_len() > 100);
        page.end("early", 50, 2);
    });
    golden(
        "pages_of_a_list",
        [
            ("empty".to_owned(), text(|w| encode::list(w, &[], &lean, "", 50, 0))),
            ("lean".to_owned(), text(|w| encode::list(w, &tasks, &lean, "next\"", 2, 12_345_678_901))),
            ("rich".to_owned(), text(|w| encode::list(w, &tasks[1..], &rich, "", 100, 1))),
            ("ended early".to_owned(), early),
        ],
    );
}

#[test]
fn push_configs_and_the_empty_answer() {
    golden(
        "push_configs",
        [
            ("one".to_owned(), text(|w| encode::push_config(w, &push_configs()[0], Some("acme")))),
            ("list".to_owned(), text(|w| encode::push_list(w, &push_configs(), None, "n"))),
            ("empty list".to_owned(), text(|w| encode::push_list(w, &[], None, ""))),
            ("deleted".to_owned(), text(encode::empty)),
        ],
    );
}

#[test]
fn the_table_of_faults() {
    let mut table = String::new();
    for kind in Kind::ALL {
        let (rpc, http, grpc) = (errors::rpc_code(kind), errors::http_status(kind), errors::grpc_status(kind));
        let reason = errors::reason(kind).unwrap_or("-");
        writeln!(table, "{:<26} {rpc:>6} {http:>4} {grpc:<20} {reason}", format!("{kind:?}")).unwrap();
    }
    insta::assert_snapshot!("the_table_of_faults", table);
}

fn rpc_error(fault: &model::Fault, id: &OwnedId) -> String {
    let mut out = Vec::new();
    errors::rpc_error(&mut out, id, fault);
    String::from_utf8(out).unwrap()
}

#[test]
fn every_fault_on_both_bindings() {
    let lines = faults().into_iter().flat_map(|fault| {
        let name = format!("{:?}", fault.kind);
        let (status, body) = errors::rest_error(&fault);
        [(format!("{name}, JSON-RPC"), rpc_error(&fault, &Id::NULL)), (format!("{name}, HTTP {status}"), shown(&body))]
    });
    golden("every_fault", lines);
}

#[test]
fn a_fault_never_tells_its_cause() {
    for fault in faults() {
        assert!(!rpc_error(&fault, &Id::NULL).contains("secret"));
        assert!(!shown(&errors::rest_error(&fault).1).contains("secret"));
    }
}

#[test]
fn a_fault_reads_back_by_its_reason() {
    for fault in faults() {
        // Two kinds share a code and a reason: to a caller they are one error. A bare status has no body.
        let told = match fault.kind {
            Kind::Unsupported => Kind::TaskSettled,
            kind => kind,
        };
        if fault.kind == Kind::MediaType {
            continue;
        }
        let from_rpc = read::error(&rpc_error(&fault, &Id::NULL)).unwrap();
        assert_eq!((from_rpc.kind, from_rpc.message.as_str()), (Some(told), fault.message.as_str()));
        let (status, body) = errors::rest_error(&fault);
        let from_rest = read::error(&shown(&body)).unwrap();
        assert_eq!((from_rest.kind, from_rest.code), (Some(told), i64::from(status)));
    }
    for odd in [r#"{"error":{"code":-32001,"message":"m","data":"text"}}"#, r#"{"error":{"code":-32001,"data":null}}"#]
    {
        assert_eq!(read::error(odd).unwrap().kind, Some(Kind::TaskNotFound), "{odd}");
    }
}

#[test]
fn cards() {
    let (profile, bare) = (profile(), bare_profile());
    let mut rich = CardFacts::new(&profile, "https://a.example/a2a/echo");
    rich.provider = Some(Provider { organization: "Example".into(), url: "https://example.com".into() });
    rich.documentation_url = Some("https://example.com/docs".into());
    rich.icon_url = Some("https://example.com/icon.png".into());
    rich.auth = Some(CardAuth::keys(true));
    rich.push = true;
    rich.extended = true;
    rich.interfaces[1].tenant = Some("acme".into());
    let mut open = CardFacts::new(&profile, "http://127.0.0.1:8080/a2a/echo");
    open.auth = Some(CardAuth::keys(false));
    let plain = CardFacts::new(&bare, "http://127.0.0.1:8080/a2a/bare");
    assert!(
        plain
            .interfaces
            .iter()
            .all(|Interface { protocol_version, .. }| { version::parse(protocol_version) == Some((1, 0)) })
    );
    let line = |facts: &CardFacts<'_>| String::from_utf8(card(facts).to_vec()).unwrap();
    golden(
        "cards",
        [
            ("everything".to_owned(), line(&rich)),
            ("keys known but not asked for".to_owned(), line(&open)),
            ("next to nothing".to_owned(), line(&plain)),
        ],
    );
    for facts in [&rich, &open, &plain] {
        let value: serde_json::Value = serde_json::from_slice(&card(facts)).unwrap();
        for member in ["name", "description", "version"] {
            assert!(!value[member].as_str().unwrap().is_empty(), "{member}");
        }
        for member in ["supportedInterfaces", "defaultInputModes", "defaultOutputModes", "skills"] {
            assert!(!value[member].as_array().unwrap().is_empty(), "{member}");
        }
        for skill in value["skills"].as_array().unwrap() {
            assert!(!skill["tags"].as_array().unwrap().is_empty());
        }
    }
}

/// Opaque JSON as it comes back: on one line.
fn on_one_line(mut parts: Vec<Part>) -> Vec<Part> {
    for part in &mut parts {
        if let Content::Data(data) = &part.content {
            part.content = Content::Data(json(&data.text().replace(['\n', '\r'], " ")));
        }
    }
    parts
}

fn as_read(message: &Message) -> Message {
    Message { parts: on_one_line(message.parts.clone()), ..message.clone() }
}

fn artifact_as_read(artifact: &Artifact) -> Artifact {
    Artifact { parts: on_one_line(artifact.parts.clone()), ..artifact.clone() }
}

#[track_caller]
fn assert_same(task: &Task, seen: &read::TaskSeen) {
    assert_eq!(seen.id, task.id.to_string());
    assert_eq!(seen.context.as_ref(), Some(&task.context));
    assert_eq!(seen.status.state, Some(task.status.state));
    assert_eq!(seen.status.at, Some(task.status.at));
    assert_eq!(seen.status.message, task.status.message.as_deref().map(as_read));
    assert_eq!(seen.history, task.history.iter().map(|m| as_read(m)).collect::<Vec<_>>());
    assert_eq!(seen.artifacts, task.artifacts.iter().map(|a| artifact_as_read(a)).collect::<Vec<_>>());
    assert_eq!(seen.metadata, task.metadata);
}

#[test]
fn a_task_reads_back() {
    for task in State::ALL.map(bare_task).into_iter().chain([full_task()]) {
        let json = text(|w| encode::task(w, &task, &TaskView::WHOLE));
        assert_same(&task, &read::task(&json).unwrap());
        let Seen::Task(seen) = read::stream_event(&text(|w| encode::stream_task(w, &task, &TaskView::WHOLE))).unwrap()
        else {
            panic!("no task")
        };
        assert_same(&task, &seen);
    }
}

#[test]
fn an_event_reads_back() {
    let here = context();
    for (name, Event { at, body, .. }) in events() {
        let json = text(|w| assert!(encode::stream_event(w, &head(&here), &event(body.clone()))));
        match (read::stream_event(&json).unwrap(), body) {
            (Seen::Status { task, context, status, metadata, closes: false }, Body::Status(change)) => {
                assert_eq!((task, context), (task_id().to_string(), Some(here.clone())));
                assert_eq!((status.state, status.at), (Some(change.state), Some(at)));
                assert_eq!(status.message, change.message.as_deref().map(as_read));
                assert_eq!(metadata, change.metadata);
            }
            (Seen::Artifact { task, context, artifact, append, last, metadata }, Body::Artifact(chunk)) => {
                assert_eq!((task, context), (task_id().to_string(), Some(here.clone())));
                assert_eq!(artifact, artifact_as_read(&chunk.artifact));
                assert_eq!((append, last, metadata), (chunk.append, chunk.last, chunk.metadata));
            }
            (Seen::Message { message, context, task }, Body::Replied(said)) => {
                assert_eq!((message, context, task), (as_read(&said), Some(here.clone()), None));
            }
            (seen, body) => panic!("{name}: {seen:?} for {body:?}"),
        }
    }
}

#[test]
fn an_ill_formed_answer_is_the_agents_fault() {
    for (answer, words) in [
        ("", "the answer is empty"),
        ("{}", "expected one of task, message, statusUpdate, artifactUpdate"),
        (r#"{"task":{"id":"t"}}"#, "task.status is missing"),
        (
            r#"{"statusUpdate":{"taskId":"t","status":{"state":5.5}}}"#,
            "statusUpdate.status.state: expected the name of an enum value, found floating point `5.5`",
        ),
    ] {
        let fault = read::stream_event(answer).unwrap_err();
        assert_eq!((fault.kind, fault.message.as_str()), (Kind::InvalidAgentResponse, words), "{answer}");
    }
    // A state from the future is no error: the task goes on.
    let seen = read::task(r#"{"id":"t","status":{"state":"TASK_STATE_DREAMING"}}"#).unwrap();
    assert_eq!(seen.status.state, None);
}
