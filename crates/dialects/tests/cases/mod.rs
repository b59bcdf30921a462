//! Canonical cases, in the model's own nouns. Every dialect encodes them all to goldens; none of them knows a wire.
//! At the end, how what was written is looked at.
#![allow(dead_code)] // Each test binary uses some of them.

use std::fmt::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use dialects::framing::json::{Encoded, Segment, Writer};
use model::ports::agent::{Extension, Profile, Restart, Skill};
use model::{
    Artifact, Blob, BlobKind, Body, Chunk, Content, ContextId, Event, Fault, Json, Kind, Message, Part, PushConfig,
    Role, Seq, State, Status, StatusChange, Task, TaskId, Time,
};

pub(crate) const AT: Time = Time(1_777_629_600_120); // 2026-05-01T10:00:00.120Z

pub(crate) fn task_id() -> TaskId {
    "0190f3c4-1111-7222-8333-444455556666".parse().unwrap()
}

pub(crate) fn context() -> ContextId {
    "ctx-1".into()
}

pub(crate) fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

/// Metadata as awkward as it may come: numbers beyond a double, keys out of order and twice, spaces, escapes, nesting.
pub(crate) fn odd_json() -> Json {
    json(r#"{"z": 1, "a":12345678901234567890123,"m":1.0, "a":null,"e":1e-7,"s":"\u00e9\n\/","o":{"k":[ [],{}]}}"#)
}

pub(crate) fn message(id: &str, role: Role, parts: Vec<Part>) -> Message {
    Message { id: id.into(), role, parts, metadata: None, extensions: vec![], references: vec![] }
}

pub(crate) fn artifact(id: &str, parts: Vec<Part>) -> Artifact {
    Artifact { id: id.into(), name: None, description: None, parts, metadata: None, extensions: vec![] }
}

/// One part of every kind, and of every adornment.
pub(crate) fn parts() -> Vec<(&'static str, Part)> {
    let part = Part::new;
    vec![
        ("text", Part::text("hello")),
        ("empty text", Part::text("")),
        ("text with escapes", Part::text("\"\\/\u{8}\u{c}\n\r\t\u{0}\u{1f}\u{7f} é 😀 \u{2028} </script>")),
        ("raw", part(Content::Raw(Bytes::from_static(b"\x00\xfb\xff\xbf")))),
        ("empty raw", part(Content::Raw(Bytes::new()))),
        ("url", part(Content::Url("https://example.com/a?b=\"c\"".into()))),
        ("data object", Part::data(odd_json())),
        ("data null", Part::data(json("null"))),
        ("data over lines", Part::data(json("[1,\n\t2,\r\n  3]"))),
        (
            "named file",
            Part {
                filename: Some("a b.png".into()),
                media_type: Some("image/png".into()),
                metadata: Some(odd_json()),
                ..part(Content::Raw(Bytes::from_static(b"png")))
            },
        ),
        (
            "named text",
            Part {
                filename: Some("n.md".into()),
                media_type: Some("text/markdown".into()),
                metadata: Some(json("{}")),
                ..Part::text("# n")
            },
        ),
    ]
}

/// Parts whose content is kept beside the log.
pub(crate) fn blob_parts() -> Vec<(&'static str, Part)> {
    let blob = |kind, len| Part::new(Content::Blob(Blob { kind, hash: [9; 32], len }));
    vec![
        ("text blob", blob(BlobKind::Text, 70_000)),
        ("raw blob", Part { media_type: Some("image/png".into()), ..blob(BlobKind::Raw, 70_000) }),
        ("data blob", blob(BlobKind::Data, 70_000)),
    ]
}

/// Opened from the log's own form, which takes facts that tasks learn to have later for absent.
pub(crate) fn bare_task(state: State) -> Task {
    let opened = r#"{"i":"0190f3c4-1111-7222-8333-444455556666","c":"ctx-1","g":"echo","t":"default","o":"anonymous",
        "v":["t\u001fdefault\u001fecho"],"d":"a2a_v1"}"#;
    let opened = Body::Opened(serde_json::from_str(opened).unwrap());
    let mut task = Task::open(&Event { seq: Seq(1), at: Time(AT.0 - 1_000), body: opened }).unwrap();
    task.core.state = state;
    task.status = Status { state, message: None, at: AT };
    task
}

/// A task with something in every member.
pub(crate) fn full_task() -> Task {
    let all_parts: Vec<Part> = parts().into_iter().map(|(_, part)| part).collect();
    let mut question = message("m-3", Role::Agent, vec![Part::text("which one?")]);
    question.extensions = vec!["urn:ext:1".into()];
    let mut asked = message("m-1", Role::User, all_parts.clone());
    asked.metadata = Some(odd_json());
    asked.extensions = vec!["urn:ext:1".into(), "urn:ext:\"2\"".into()];
    asked.references = vec!["t-0".into()];
    let mut made = artifact("a-1", all_parts);
    made.name = Some("everything".into());
    made.description = Some("one of each".into());
    made.metadata = Some(odd_json());
    made.extensions = vec!["urn:ext:3".into()];
    let mut task = bare_task(State::InputRequired);
    task.status.message = Some(Arc::new(question));
    task.history = vec![
        Arc::new(asked),
        Arc::new(message("m-2", Role::Agent, vec![Part::text("on it")])),
        Arc::new(message("m-2b", Role::User, vec![Part::text("hurry")])),
    ];
    task.artifacts = vec![Arc::new(made), Arc::new(artifact("a-2", vec![Part::text("x")]))];
    task.metadata = Some(odd_json());
    task
}

/// A task whose artifact was streamed: three chunks of text, data, and two more chunks.
pub(crate) fn chunked_task() -> Task {
    let mut task = bare_task(State::Working);
    let data = || Part::data(Json::parse("{\"n\":1}").unwrap());
    let chunks =
        [Part::text("one, "), Part::text("two, "), Part::text("three"), data(), Part::text("fo"), Part::text("ur")];
    for (i, part) in chunks.into_iter().enumerate() {
        let artifact = Arc::new(artifact("a-1", vec![part]));
        let chunk = Chunk { artifact, ordinal: 0, append: i > 0, bordered: false, last: false, metadata: None };
        task.apply(&Event { seq: task.seq().next(), at: AT, body: Body::Artifact(chunk) }).unwrap();
    }
    task
}

pub(crate) fn event(body: Body) -> Event {
    Event { seq: Seq(3), at: AT, body }
}

/// Every public event, in every form.
pub(crate) fn events() -> Vec<(String, Event)> {
    let mut events = Vec::new();
    for state in State::ALL {
        let change = StatusChange { state, message: None, metadata: None };
        events.push((format!("status {state:?}"), event(Body::Status(change))));
    }
    let change = StatusChange {
        state: State::Working,
        message: Some(Arc::new(message("m-9", Role::Agent, vec![Part::text("half way")]))),
        metadata: Some(odd_json()),
    };
    events.push(("status with message and metadata".into(), event(Body::Status(change))));
    for (append, last) in [(false, false), (false, true), (true, false), (true, true)] {
        let chunk = Chunk {
            artifact: Arc::new(artifact("a-1", vec![Part::text("piece")])),
            ordinal: 0,
            append,
            bordered: false,
            last,
            metadata: None,
        };
        events.push((format!("chunk append={append} last={last}"), event(Body::Artifact(chunk))));
    }
    let mut named = artifact("a-2", vec![]);
    named.name = Some("empty end".into());
    let chunk = Chunk {
        artifact: Arc::new(named),
        ordinal: 1,
        append: true,
        bordered: false,
        last: true,
        metadata: Some(odd_json()),
    };
    events.push(("chunk without parts, with metadata".into(), event(Body::Artifact(chunk))));
    for (name, part) in parts() {
        let chunk = Chunk {
            artifact: Arc::new(artifact("a-3", vec![part])),
            ordinal: 2,
            append: false,
            bordered: false,
            last: true,
            metadata: None,
        };
        events.push((format!("chunk of {name}"), event(Body::Artifact(chunk))));
    }
    events.push((
        "direct reply".into(),
        event(Body::Replied(Arc::new(message("m-7", Role::Agent, vec![Part::text("no task")])))),
    ));
    events
}

pub(crate) fn push_configs() -> Vec<PushConfig> {
    vec![
        PushConfig {
            task: Some("t-1".into()),
            id: Some("c-1".into()),
            url: "https://example.com/hook".into(),
            token: Some("tok".into()),
            scheme: Some("Bearer".into()),
            credentials: Some("secret".into()),
        },
        PushConfig {
            task: Some("t-1".into()),
            id: Some("c-2".into()),
            url: "http://localhost:1/".into(),
            token: None,
            scheme: None,
            credentials: None,
        },
    ]
}

/// A fault of each kind, as the rooms that raise them word it.
pub(crate) fn faults() -> Vec<Fault> {
    Kind::ALL
        .into_iter()
        .map(|kind| match kind {
            Kind::InvalidParams => Fault::params("message.parts[0].text", "expected a \"string\""),
            Kind::TaskNotFound => Fault::task_not_found("t-1"),
            Kind::VersionNotSupported => {
                Fault::new(kind, "A2A-Version 9.0 is not supported here").fact("supportedVersions", "1.0")
            }
            Kind::VerbNotAllowed => Fault::new(kind, "this route takes GET, not PUT").fact("allow", "GET"),
            Kind::RateLimited | Kind::Unavailable => Fault::new(kind, "try again later").retry_after(7),
            Kind::Internal => Fault::internal("a secret cause"),
            _ => Fault::new(kind, format!("{kind:?}")),
        })
        .collect()
}

pub(crate) fn profile() -> Profile {
    Profile {
        name: "echo".into(),
        title: "Echo".into(),
        description: "Says what you say".into(),
        version: "0.1.0".into(),
        skills: vec![Skill {
            id: "echo".into(),
            name: "Echo".into(),
            description: "Repeats a message".into(),
            tags: vec!["echo".into(), "test".into()],
            examples: vec!["say \"hi\"".into()],
        }],
        input_modes: vec!["*/*".into()],
        output_modes: vec!["text/plain".into(), "application/json".into()],
        streaming: true,
        push: true,
        extensions: vec![
            Extension {
                uri: "https://example.com/ext/v1".into(),
                description: "An extension".into(),
                required: true,
                params: Some(json(r#"{"b":1,"a":2}"#)),
            },
            Extension { uri: "urn:x".into(), description: String::new(), required: false, params: None },
        ],
        restart: Restart::Retry,
        idempotent: true,
    }
}

/// A profile that says as little as it may.
pub(crate) fn bare_profile() -> Profile {
    Profile {
        name: "bare".into(),
        title: String::new(),
        description: String::new(),
        version: String::new(),
        skills: vec![],
        input_modes: vec![],
        output_modes: vec![],
        streaming: false,
        push: true,
        extensions: vec![],
        restart: Restart::Fail,
        idempotent: false,
    }
}

pub(crate) fn encoded(write: impl FnOnce(&mut Writer)) -> Encoded {
    let mut w = Writer::new();
    write(&mut w);
    w.finish()
}

/// Segments as text, blobs as what they stand for.
pub(crate) fn shown(encoded: &Encoded) -> String {
    let mut out = String::new();
    // Files by their bytes, as where nothing is shown by its address.
    for segment in &encoded.clone().settled(|_| None).segments {
        match segment {
            Segment::Bytes(bytes) => out.push_str(std::str::from_utf8(bytes).unwrap()),
            Segment::Blob(blob) => write!(out, "«{:?} of {}»", blob.kind, blob.len).unwrap(),
            Segment::File(_) => panic!("a file that is neither bytes nor an address"),
        }
    }
    assert!(!out.contains(['\n', '\r']), "{out}");
    out
}

/// One line of JSON.
pub(crate) fn text(write: impl FnOnce(&mut Writer)) -> String {
    let text = shown(&encoded(write));
    serde_json::from_str::<serde_json::Value>(&text).unwrap();
    text
}
