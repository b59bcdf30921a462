//! The matrix: canonical cases × every form of every dialect, encoded to goldens and read back. What does not come back
//! is listed per form in [`LOSSES`], and is exactly that.
//!
//! No form carries a task's agent, tenant, owner, views, dialect, creation time and log position, an event's sequence
//! number, or a line break between the tokens of opaque JSON.

#![allow(clippy::unwrap_used)]

mod cases;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use cases::*;
use dialects::framing::jsonrpc::Id;
use dialects::seen::{Seen, TaskSeen};
use dialects::wire::{Head, Operation, Page, TaskView};
use dialects::{JsonWire, WIRES, a2a_v0, a2a_v0_1, a2a_v0_3, a2a_v1, wire};
use model::{Artifact, Blob, BlobKind, Body, Content, Fault, Json, Message, Part, Role, Shape, State, Task};

/// The facts that do not come back, per form.
const LOSSES: &[(&str, &[&str])] = &[
    ("a2a_v1", &[]),
    ("a2a_v0_3", &["empty metadata beside a mark"]),
    ("a2a_v0_3_rest", &["empty metadata beside a mark"]),
    (
        "a2a_v0_1",
        &[
            "artifact ids",
            "context of events",
            "direct messages",
            "empty metadata beside a mark",
            "message ids",
            "names",
        ],
    ),
    ("a2a_v0", &["direct messages", "empty metadata beside a mark"]),
];

fn frames(wire: &dyn JsonWire, task: &Task, shown_id: Option<&str>, closing: bool) -> Vec<String> {
    wire.stream_task(task, &TaskView::WHOLE, shown_id, closing).iter().map(shown).collect()
}

fn event_text(wire: &dyn JsonWire, event: &model::Event, closing: bool) -> String {
    let context = context();
    let head = Head::new(task_id(), None, &context);
    text(|w| assert!(wire.stream_event(w, &head, event, closing)))
}

fn reply() -> Message {
    message("m-7", Role::Agent, vec![Part::text("no task")])
}

/// A task that was never one: its agent answered with a message.
fn replied_task() -> Task {
    let mut task = bare_task(State::Submitted);
    task.core.shape = Shape::Reply;
    task.reply = Some(reply().into());
    task
}

/// A file that is shown by its address is to every reader like one that has always been somewhere else.
fn by_address(wire: &dyn JsonWire) -> String {
    let address = "https://x.example/files/0?signature=s";
    let blob = Blob { kind: BlobKind::Raw, hash: [9; 32], len: 70_000 };
    let named = |content| Part {
        filename: Some("a.png".into()),
        media_type: Some("image/png".into()),
        metadata: Json::parse(r#"{"k":1}"#),
        ..Part::new(content)
    };
    let written = |content: Content| {
        let mut task = bare_task(State::Completed);
        task.artifacts = vec![artifact("a-1", vec![Part::text("t"), named(content)]).into()];
        encoded(|w| wire.task(w, &task, &TaskView::WHOLE, None))
    };
    let kept = written(Content::Blob(blob)).settled(|file| {
        assert_eq!((file.name.as_deref(), file.media_type.as_deref()), (Some("a.png"), Some("image/png")));
        Some(address.to_owned())
    });
    assert_eq!(kept, written(Content::Url(address.to_owned())), "{}", wire.name());
    shown(&kept)
}

#[test]
fn every_case_in_every_form() {
    for wire in WIRES {
        let mut lines = String::new();
        let mut line = |case: &str, json: String| writeln!(lines, "# {case}\n{json}").unwrap();
        for state in State::ALL {
            line(&format!("task {state:?}"), text(|w| wire.task(w, &bare_task(state), &TaskView::WHOLE, None)));
        }
        let full = full_task();
        line("full task", text(|w| wire.task(w, &full, &TaskView::WHOLE, None)));
        let two = TaskView { history: Some(2), artifacts: false };
        line("newest two messages, no artifacts", text(|w| wire.task(w, &full, &two, None)));
        let alias = Some("my \"own\" id");
        line("under the caller's own id", text(|w| wire.task(w, &full, &two, alias)));
        line("sent, a task", text(|w| wire.sent_task(w, &bare_task(State::Completed), &TaskView::WHOLE, alias)));
        line("a text that came in chunks", text(|w| wire.task(w, &chunked_task(), &TaskView::WHOLE, None)));
        let here = context();
        let head = Head::new(task_id(), alias, &here);
        line("sent, a message", text(|w| wire.sent_message(w, &reply(), &head)));
        line("a message looked up later", text(|w| wire.task(w, &replied_task(), &TaskView::WHOLE, alias)));
        line("stream, a message", text(|w| wire.stream_message(w, &reply(), &head)));
        for (name, task, closing) in [
            ("stream begins", &full, false),
            ("stream begins and ends", &full, true),
            ("stream of a settled task", &bare_task(State::Completed), true),
        ] {
            for (i, frame) in frames(*wire, task, alias, closing).into_iter().enumerate() {
                line(&format!("{name}, frame {i}"), frame);
            }
        }
        for (name, event) in events() {
            for closing in [false, true] {
                let json = event_text(*wire, &event, closing);
                // Slots are the same where encodings are.
                assert!(wire.slot(false) != wire.slot(true) || json == event_text(*wire, &event, false), "{name}");
                if !closing || json != event_text(*wire, &event, false) {
                    line(&if closing { format!("{name}, the last") } else { name.clone() }, json);
                }
            }
        }
        for (name, part) in blob_parts() {
            let mut task = bare_task(State::Completed);
            task.artifacts = vec![artifact("a-1", vec![part]).into()];
            line(name, shown(&encoded(|w| wire.task(w, &task, &TaskView::WHOLE, None))));
        }
        line("raw blob by its address", by_address(*wire));
        line("push config", text(|w| wire.push_config(w, &push_configs()[0], Some("acme"))));
        line("push configs", text(|w| wire.push_list(w, &push_configs(), None, "n")));
        line("no push configs", text(|w| wire.push_list(w, &[], None, "")));
        line("push config deleted", text(|w| wire.push_deleted(w, "t-1")));
        insta::assert_snapshot!(format!("matrix_{}", wire.name()), lines);
    }
}

#[test]
fn every_fault_in_every_form() {
    for wire in WIRES {
        let mut lines = String::new();
        for fault in faults() {
            let (rpc, (status, rest)) = told(*wire, &fault, Operation::Unknown);
            writeln!(lines, "# {:?}\n{rpc}\nHTTP {status} {rest}", fault.kind).unwrap();
            assert!(!rpc.contains("secret") && !rest.contains("secret"));
        }
        insta::assert_snapshot!(format!("faults_{}", wire.name()), lines);
    }
}

fn told(wire: &dyn JsonWire, fault: &Fault, operation: Operation) -> (String, (u16, String)) {
    let mut out = Vec::new();
    wire.rpc_error(&mut out, &Id::NULL, fault, operation);
    let (status, body) = wire.rest_error(fault, operation);
    (String::from_utf8(out).unwrap(), (status, shown(&body)))
}

#[test]
fn what_is_told_of_a_fault_is_what_the_table_says() {
    for wire in WIRES {
        for operation in Operation::ALL {
            for fault in faults() {
                let line = wire.error_line(fault.kind, operation);
                let (rpc, (status, rest)) = told(*wire, &fault, operation);
                let value: serde_json::Value = serde_json::from_str(&rpc).unwrap();
                assert_eq!(
                    (&value["error"]["code"], &value["error"]["message"]),
                    (&line.rpc.into(), &fault.message.as_str().into())
                );
                assert_eq!(value["id"], serde_json::Value::Null);
                assert_eq!(status, line.http);
                assert!(rest.is_empty() || serde_json::from_str::<serde_json::Value>(&rest).is_ok());
            }
        }
    }
}

#[test]
fn a_fault_reads_back_as_what_its_generation_can_tell_apart() {
    for fault in faults() {
        for (name, read) in [("a2a_v0_3", a2a_v0_3::read::error as fn(&str) -> _), ("a2a_v0_1", a2a_v0_1::read::error)]
        {
            let wire = wire(name).unwrap();
            let (rpc, (_, rest)) = told(wire, &fault, Operation::Unknown);
            let seen = read(&rpc).unwrap();
            assert_eq!(seen.message, fault.message);
            let code = wire.error_line(fault.kind, Operation::Unknown).rpc;
            assert_eq!(wire.error_line(seen.kind.unwrap(), Operation::Unknown).rpc, code);
            if !rest.is_empty() {
                assert_eq!(read(&rest).unwrap().kind, seen.kind, "{rest}");
            }
        }
    }
    let only_a_message = a2a_v0_3::read::error(r#"{"message":"Task not found"}"#).unwrap();
    assert_eq!((only_a_message.kind, &*only_a_message.message), (None, "Task not found"));
    for (code, kind) in [(-32006, model::Kind::Unsupported), (-32009, model::Kind::TaskSettled)] {
        let seen =
            a2a_v0_1::read::error(&format!(r#"{{"error":{{"code":{code},"message":"m","data":null}}}}"#)).unwrap();
        assert_eq!(seen.kind, Some(kind));
    }
}

// Reading back.

struct Reader {
    task: fn(&str) -> Result<TaskSeen, Fault>,
    event: fn(&str) -> Result<Seen, Fault>,
}

fn reader(wire: &dyn JsonWire) -> Reader {
    match wire.name() {
        "a2a_v1" => Reader { task: a2a_v1::read::task, event: a2a_v1::read::stream_event },
        "a2a_v0_3" => Reader { task: a2a_v0_3::read::task, event: a2a_v0_3::read::stream_event },
        "a2a_v0_3_rest" => Reader { task: a2a_v0_3::read::rest_task, event: a2a_v0_3::read::rest_stream_event },
        "a2a_v0_1" => Reader { task: a2a_v0_1::read::task, event: a2a_v0_1::read::stream_event },
        "a2a_v0" => Reader { task: a2a_v0::read_task, event: a2a_v0::read_stream_event },
        other => panic!("no reader of {other}"),
    }
}

/// The losses met on the way, by name.
#[derive(Default)]
struct Lost(BTreeSet<&'static str>);

impl Lost {
    fn unless(&mut self, same: bool, name: &'static str) {
        if !same {
            self.0.insert(name);
        }
    }

    fn parts(&mut self, given: &[Part], seen: &[Part]) {
        assert_eq!(given.len(), seen.len());
        for (given, seen) in given.iter().zip(seen) {
            let content = match &given.content {
                Content::Data(data) => Content::Data(json(&data.text().replace(['\n', '\r'], " "))),
                other => other.clone(),
            };
            self.unless(content == seen.content, "content");
            self.unless(given.filename == seen.filename, "filenames");
            self.unless(given.media_type == seen.media_type, "media types");
            let empty = given.metadata == Json::parse("{}") && seen.metadata.is_none();
            self.unless(!empty, "empty metadata beside a mark");
            self.unless(empty || given.metadata == seen.metadata, "metadata");
        }
    }

    fn message(&mut self, given: &Message, seen: &Message) {
        self.unless(given.id == seen.id, "message ids");
        self.unless(given.role == seen.role, "roles");
        self.unless(given.extensions == seen.extensions, "extensions");
        self.unless(given.references == seen.references, "references");
        self.metadata(given.metadata.as_ref(), seen.metadata.as_ref());
        self.parts(&given.parts, &seen.parts);
    }

    fn artifact(&mut self, given: &Artifact, seen: &Artifact) {
        self.unless(given.id == seen.id, "artifact ids");
        self.unless((&given.name, &given.description) == (&seen.name, &seen.description), "names");
        self.unless(given.extensions == seen.extensions, "extensions");
        self.metadata(given.metadata.as_ref(), seen.metadata.as_ref());
        self.parts(&given.parts, &seen.parts);
    }

    /// Beside a mark metadata is taken apart and put together again: the members are the same, the spaces may not be.
    fn metadata(&mut self, given: Option<&Json>, seen: Option<&Json>) {
        let plain = |json: Option<&Json>| json.map(|json| json.text().replace(' ', ""));
        // One character may be escaped in more than one way.
        let plain = |json| plain(json).map(|text| text.replace("\\u00e9", "é"));
        self.unless(plain(given) == plain(seen), "metadata");
    }

    fn task(&mut self, given: &Task, seen: &TaskSeen) {
        self.unless(given.id.to_string() == seen.id, "task ids");
        self.unless(Some(&given.context) == seen.context.as_ref(), "contexts");
        self.unless(Some(given.status.state) == seen.status.state, "states");
        self.unless(Some(given.status.at) == seen.status.at, "times");
        self.metadata(given.metadata.as_ref(), seen.metadata.as_ref());
        match (given.status.message.as_deref(), &seen.status.message) {
            (Some(given), Some(seen)) => self.message(given, seen),
            (None, None) => {}
            (given, seen) => panic!("{given:?} as {seen:?}"),
        }
        assert_eq!((given.artifacts.len(), given.history.len()), (seen.artifacts.len(), seen.history.len()));
        given.artifacts.iter().zip(&seen.artifacts).for_each(|(given, seen)| self.artifact(given, seen));
        given.history.iter().zip(&seen.history).for_each(|(given, seen)| self.message(given, seen));
    }

    fn event(&mut self, given: &model::Event, closing: bool, seen: Seen) {
        match (&given.body, seen) {
            (Body::Status(change), Seen::Status { task, context: here, status, metadata, closes }) => {
                assert_eq!(task, task_id().to_string());
                self.unless(here == Some(context()), "context of events");
                self.unless((Some(change.state), Some(given.at)) == (status.state, status.at), "states");
                self.unless(closes == closing, "final");
                self.metadata(change.metadata.as_ref(), metadata.as_ref());
                match (change.message.as_deref(), &status.message) {
                    (Some(given), Some(seen)) => self.message(given, seen),
                    (None, None) => {}
                    (given, seen) => panic!("{given:?} as {seen:?}"),
                }
            }
            (Body::Artifact(chunk), Seen::Artifact { task, context: here, artifact, append, last, metadata }) => {
                assert_eq!(task, task_id().to_string());
                self.unless(here == Some(context()), "context of events");
                self.artifact(&chunk.artifact, &artifact);
                // Where an artifact has no id it has a place.
                assert!(chunk.artifact.id == artifact.id || *artifact.id == chunk.ordinal.to_string());
                self.unless((chunk.append, chunk.last) == (append, last), "chunk flags");
                self.metadata(chunk.metadata.as_ref(), metadata.as_ref());
            }
            (Body::Replied(said), Seen::Message { message, context: here, task }) => {
                assert_eq!((here, task), (Some(context()), None));
                self.message(said, &message);
            }
            (Body::Replied(said), Seen::Status { status, closes: true, .. }) => {
                self.unless(false, "direct messages");
                assert_eq!(status.state, Some(State::Completed));
                self.message(said, &status.message.unwrap());
            }
            (given, seen) => panic!("{seen:?} for {given:?}"),
        }
    }
}

#[test]
fn what_does_not_come_back_is_what_is_listed() {
    for wire in WIRES {
        let read = reader(*wire);
        let mut lost = Lost::default();
        for task in State::ALL.map(bare_task).into_iter().chain([full_task()]) {
            lost.task(&task, &(read.task)(&text(|w| wire.task(w, &task, &TaskView::WHOLE, None))).unwrap());
        }
        for (_, event) in events() {
            for closing in [false, true] {
                let seen = (read.event)(&event_text(*wire, &event, closing)).unwrap();
                // 1.0 never says that a stream ends; it just does.
                lost.event(&event, closing && wire.name() != "a2a_v1", seen);
            }
        }
        let (_, listed) = LOSSES.iter().find(|(name, _)| *name == wire.name()).unwrap();
        assert_eq!(lost.0.into_iter().collect::<Vec<_>>(), *listed, "{}", wire.name());
    }
}

#[test]
fn a_stream_begins_with_the_whole_task_in_every_form() {
    for wire in WIRES {
        let read = reader(*wire);
        for closing in [false, true] {
            let mut task = full_task();
            // Where nothing has ids, places do.
            if wire.name() == "a2a_v0_1" {
                task.artifacts = (0..2).map(|i| artifact(&i.to_string(), vec![Part::text("x")]).into()).collect();
            }
            let seen: Vec<Seen> =
                frames(*wire, &task, None, closing).iter().map(|f| (read.event)(f).unwrap()).collect();
            let (mut tasks, mut states, mut artifacts) = (0, Vec::new(), Vec::new());
            for one in &seen {
                match one {
                    Seen::Task(seen) => {
                        tasks += 1;
                        assert_eq!(seen.artifacts.len(), task.artifacts.len());
                    }
                    Seen::Status { status, closes, .. } => states.push((status.state, *closes)),
                    Seen::Artifact { artifact, append, last, .. } => {
                        assert!(!append && !last, "the task has not settled");
                        artifacts.push(artifact.id.clone());
                    }
                    Seen::Message { .. } => panic!("a message"),
                    Seen::Partial { .. } | Seen::Unread { .. } => panic!("unread"),
                }
            }
            match wire.name() {
                "a2a_v1" | "a2a_v0_3" | "a2a_v0_3_rest" => assert_eq!((tasks, seen.len()), (1, 1)),
                "a2a_v0_1" => {
                    assert_eq!((tasks, states), (0, vec![(Some(State::InputRequired), closing)]));
                    assert_eq!(artifacts.len(), 2);
                    // The end is the last word.
                    let status_at = if closing { seen.len() - 1 } else { 0 };
                    assert!(matches!(seen[status_at], Seen::Status { .. }));
                }
                _ => assert_eq!((tasks, artifacts.len()), (1, if closing { 0 } else { 2 })),
            }
        }
    }
}

// Facts that a generation cannot express, and their replacement: the table of the protocol reference, line by line.

fn value(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

fn older() -> impl Iterator<Item = &'static dyn JsonWire> {
    WIRES.iter().copied().filter(|wire| wire.name() != "a2a_v1")
}

#[test]
fn only_1_0_lists_tasks() {
    let page = Page { tasks: &[], view: &TaskView::WHOLE, next_page_token: "", page_size: 50, total_size: 0 };
    for wire in WIRES {
        let mut written = false;
        let bytes = encoded(|w| written = wire.list(w, &page));
        assert_eq!(written, wire.name() == "a2a_v1");
        assert_eq!(bytes.wire_len() > 0, written);
    }
}

#[test]
fn a_direct_message_is_a_finished_task_to_0_1() {
    let wire = wire("a2a_v0_1").unwrap();
    let here = context();
    let head = Head::new(task_id(), Some("mine"), &here);
    let sent = value(&text(|w| wire.sent_message(w, &reply(), &head)));
    assert_eq!(
        (&sent["id"], &sent["sessionId"], &sent["status"]["state"]),
        (&"mine".into(), &"ctx-1".into(), &"completed".into())
    );
    assert_eq!(sent["status"]["message"]["parts"][0]["text"], "no task");
    let later = value(&text(|w| wire.task(w, &replied_task(), &TaskView::WHOLE, Some("mine"))));
    assert_eq!(later["status"]["message"], sent["status"]["message"]);
    let event = value(&text(|w| wire.stream_message(w, &reply(), &head)));
    assert_eq!(
        (&event["id"], &event["final"], &event["status"]["state"]),
        (&"mine".into(), &true.into(), &"completed".into())
    );
}

#[test]
fn states_0_1_does_not_know_are_near_ones_with_a_mark() {
    for name in ["a2a_v0_1", "a2a_v0"] {
        for (state, shown, mark) in
            [(State::Rejected, "failed", "rejected"), (State::AuthRequired, "input-required", "auth-required")]
        {
            let task = value(&text(|w| wire(name).unwrap().task(w, &bare_task(state), &TaskView::WHOLE, None)));
            assert_eq!(task["status"]["state"], shown);
            assert_eq!(task["metadata"]["a2a_compat"]["state"], mark);
        }
    }
    for (name, spelled) in [("a2a_v0_3", "rejected"), ("a2a_v0_3_rest", "TASK_STATE_REJECTED")] {
        let task = value(&text(|w| wire(name).unwrap().task(w, &bare_task(State::Rejected), &TaskView::WHOLE, None)));
        assert_eq!((&task["status"]["state"], &task["metadata"]), (&spelled.into(), &serde_json::Value::Null));
    }
}

fn task_of(part: Part) -> Task {
    let mut task = bare_task(State::Completed);
    task.artifacts = vec![artifact("a", vec![part]).into()];
    task
}

#[test]
fn data_that_is_no_object_is_wrapped_for_0_3_and_passes_to_0_1() {
    for data in ["[1,2]", "null", "\"x\"", "1.0"] {
        for wire in older() {
            let json = text(|w| wire.task(w, &task_of(Part::data(json(data))), &TaskView::WHOLE, None));
            let part = &value(&json)["artifacts"][0]["parts"][0];
            let given = value(data);
            match wire.name() {
                "a2a_v0_1" => assert_eq!((&part["data"], part.get("metadata")), (&given, None)),
                "a2a_v0_3_rest" => assert_eq!(part["data"]["data"]["value"], given),
                _ => assert_eq!(part["data"]["value"], given),
            }
            assert_eq!(part["metadata"]["data_part_compat"] == true, wire.name() != "a2a_v0_1");
        }
    }
}

#[test]
fn types_and_names_of_parts_that_are_no_files_are_marked() {
    let part = Part { media_type: Some("text/markdown".into()), filename: Some("n.md".into()), ..Part::text("n") };
    for wire in older() {
        let task = value(&text(|w| wire.task(w, &task_of(part.clone()), &TaskView::WHOLE, None)));
        let mark = &task["artifacts"][0]["parts"][0]["metadata"]["a2a_compat"];
        assert_eq!((&mark["mediaType"], &mark["filename"]), (&"text/markdown".into(), &"n.md".into()));
    }
}

#[test]
fn references_and_extensions_are_marked_where_there_is_no_member() {
    let mut task = bare_task(State::Working);
    let mut said = message("m", Role::User, vec![Part::text("x")]);
    said.references = vec!["t-0".into()];
    said.extensions = vec!["urn:e".into()];
    task.history = vec![said.into()];
    for wire in older() {
        let shown = value(&text(|w| wire.task(w, &task, &TaskView::WHOLE, None)));
        let said = &shown["history"][0];
        let mark = &said["metadata"]["a2a_compat"];
        let member = |name: &str| said.get(name).is_some();
        let marked = |name: &str| mark.get(name).is_some();
        let (references, extensions) = ("referenceTaskIds", "extensions");
        assert_eq!(
            (member(references), marked(references)),
            match wire.name() {
                "a2a_v0_3" | "a2a_v0" => (true, false),
                _ => (false, true),
            }
        );
        assert_eq!(
            (member(extensions), marked(extensions)),
            match wire.name() {
                "a2a_v0_1" => (false, true),
                _ => (true, false),
            }
        );
    }
}

#[test]
fn every_form_can_show_a_task_under_the_callers_own_id() {
    let task = full_task();
    let own = task.id.to_string();
    for wire in WIRES {
        let json = text(|w| wire.task(w, &task, &TaskView::WHOLE, Some("mine")));
        assert_eq!(value(&json)["id"], "mine");
        let mut all = vec![json];
        all.extend(frames(*wire, &task, Some("mine"), false));
        let here = context();
        let head = Head::new(task.id, Some("mine"), &here);
        for (_, event) in events() {
            all.push(text(|w| assert!(wire.stream_event(w, &head, &event, false))));
        }
        assert!(all.iter().all(|json| !json.contains(&own)), "{}", wire.name());
    }
}

#[test]
fn numbers_beyond_a_double_pass_every_form() {
    let part = Part::data(json(r#"{"n":12345678901234567890123,"f":1.0}"#));
    for wire in WIRES {
        let json = text(|w| wire.task(w, &task_of(part.clone()), &TaskView::WHOLE, None));
        assert!(json.contains(r#"{"n":12345678901234567890123,"f":1.0}"#), "{json}");
    }
}

#[test]
fn what_is_not_public_is_not_written_in_any_form() {
    let here = context();
    let head = Head::new(task_id(), None, &here);
    for wire in WIRES {
        for body in
            [Body::Bound { remote: "r".into() }, Body::Metadata(odd_json()), Body::CancelRequested { metadata: None }]
        {
            let encoded = encoded(|w| assert!(!wire.stream_event(w, &head, &event(body.clone()), false)));
            assert_eq!(encoded.wire_len(), 0);
        }
    }
}

#[test]
fn names_and_slots_are_all_different() {
    let (mut names, mut slots) = (BTreeSet::new(), BTreeSet::new());
    for wire in dialects::codecs() {
        assert!(names.insert(wire.name()), "{}", wire.name());
        let of_wire: BTreeSet<u16> = [false, true].map(|closing| wire.slot(closing)).into();
        for slot in of_wire {
            assert!(slots.insert(slot) && slots.insert(dialects::wire::aliased(slot)));
        }
    }
}
