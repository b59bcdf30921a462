//! The gRPC forms: canonical cases × both packages, decoded with the published definitions and kept as goldens, and the
//! requests that stock libraries write, read into calls.
//!
//! Facts that do not come back, in both packages: digits of numbers beyond a double, repeats of a member, and the spelling
//! of numbers (`1.0` is `1`); a number that is a string because no double holds it, and the halves of characters. In 0.3,
//! see the list of HTTP+JSON in `matrix.rs`.

#![allow(clippy::unwrap_used)]

mod arbitrary;
mod cases;

use std::fmt::Write as _;
use std::sync::LazyLock;

use bytes::Bytes;
use cases::*;
use dialects::peer::RequestOptions;
use dialects::protobuf::{Contents, DESCRIPTORS, LoadedContent, ProtoWriter, RpcCode, status};
use dialects::wire::{Decoded, Head, Operation, Page, TaskView};
use dialects::{PROTO_PEERS, PROTO_WIRES, ProtoWire, wire};
use model::{
    Artifact, Blob, BlobKind, Body, Call, Content, Json, Kind, Limits, Message, Part, Role, Send, State, Task, Wait,
};
use proptest::prelude::*;
use prost_reflect::prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, SerializeOptions};
use serde_json::{Value, json};

static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| DescriptorPool::decode(DESCRIPTORS).unwrap());

fn package(wire: &dyn ProtoWire) -> &'static str {
    wire.service().strip_suffix(".A2AService").unwrap()
}

/// A message as one line of JSON, read by its published definition.
fn read(wire: &dyn ProtoWire, kind: &str, bytes: &[u8]) -> String {
    let descriptor = POOL.get_message_by_name(&format!("{}.{kind}", package(wire))).unwrap();
    let message = DynamicMessage::decode(descriptor, bytes).unwrap();
    assert_eq!(message.unknown_fields().count(), 0, "{kind}: {message:?}");
    // A value sorts its members, which the entries of a map have no order without.
    let value = message.serialize_with_options(serde_json::value::Serializer, &SerializeOptions::new());
    value.unwrap().to_string()
}

fn written(write: impl FnOnce(&mut ProtoWriter<'_>)) -> Vec<u8> {
    let mut w = ProtoWriter::default();
    write(&mut w);
    w.finish()
}

/// A message as a stock library writes it.
fn request(wire: &dyn ProtoWire, kind: &str, json: &Value) -> Vec<u8> {
    let descriptor = POOL.get_message_by_name(&format!("{}.{kind}", package(wire))).unwrap();
    DynamicMessage::deserialize(descriptor, json).unwrap().encode_to_vec()
}

fn decode(wire: &dyn ProtoWire, method: &str, kind: &str, json: &Value) -> Decoded {
    let operation = wire.operation(method).unwrap();
    wire.decode(operation, &request(wire, kind, json), &Limits::default()).unwrap()
}

fn contents(blob: &Blob, _: &Part) -> LoadedContent {
    match blob.kind {
        BlobKind::Raw => LoadedContent::Address("https://x.example/files/0".to_owned()),
        BlobKind::Text => LoadedContent::Bytes(Bytes::from_static(b"a long text")),
        BlobKind::Data => LoadedContent::Bytes(Bytes::from_static(b"[1,2]")),
        BlobKind::Object => LoadedContent::Bytes(Bytes::from_static(b"{\"k\":1}")),
    }
}

#[test]
fn every_case_in_every_package() {
    for &wire in PROTO_WIRES {
        let mut lines = String::new();
        let mut line = |case: &str, json: String| writeln!(lines, "# {case}\n{json}").unwrap();
        let task = |task: &Task, view: &TaskView, shown: Option<&str>| {
            read(wire, "Task", &written(|w| wire.task(w, task, view, shown)))
        };
        for state in State::ALL {
            line(&format!("task {state:?}"), task(&bare_task(state), &TaskView::WHOLE, None));
        }
        let full = full_task();
        line("full task", task(&full, &TaskView::WHOLE, None));
        let two = TaskView { history: Some(2), artifacts: false };
        line("newest two messages, no artifacts", task(&full, &two, None));
        line("under the caller's own id", task(&full, &two, Some("my \"own\" id")));
        let sent = written(|w| wire.sent_task(w, &bare_task(State::Completed), &TaskView::WHOLE, None));
        line("sent, a task", read(wire, "SendMessageResponse", &sent));
        let (here, reply) = (context(), message("m-7", Role::Agent, vec![Part::text("no task")]));
        let head = Head::new(task_id(), None, &here);
        let said = written(|w| wire.sent_message(w, &reply, &head));
        line("sent, a message", read(wire, "SendMessageResponse", &said));
        line("stream, a message", read(wire, "StreamResponse", &said));
        for (name, event) in events() {
            let encoded = |closing: bool| written(|w| assert!(wire.stream_event(w, &head, &event, closing), "{name}"));
            line(&name, read(wire, "StreamResponse", &encoded(false)));
            if encoded(true) != encoded(false) {
                assert_ne!(wire.slot(true), wire.slot(false), "slots are the same where encodings are");
                line(&format!("{name}, the last"), read(wire, "StreamResponse", &encoded(true)));
            }
        }
        let kept: &Contents<'_> = &contents;
        for (name, part) in blob_parts() {
            let mut task = bare_task(State::Completed);
            task.artifacts = vec![artifact("a-1", vec![part]).into()];
            let mut w = ProtoWriter::with_contents(64, kept);
            wire.task(&mut w, &task, &TaskView::WHOLE, None);
            line(name, read(wire, "Task", &w.finish()));
        }
        if wire.operation("ListTasks").is_some() {
            let tasks = [bare_task(State::Completed).into(), full_task().into()];
            let page = Page { tasks: &tasks, view: &two, next_page_token: "n", page_size: 2, total_size: 1 << 40 };
            line("list", read(wire, "ListTasksResponse", &written(|w| wire.list(w, &page))));
        }
        let configs = push_configs();
        let config = written(|w| wire.push_config(w, &configs[0], Some("acme")));
        line("push config", read(wire, "TaskPushNotificationConfig", &config));
        let list = written(|w| wire.push_list(w, &configs, None, "n"));
        let kind = wire.methods().iter().find(|(_, operation)| *operation == Operation::PushList).unwrap().0;
        line("push configs", read(wire, &format!("{kind}Response"), &list));
        for (name, profile) in [("card", profile()), ("bare card", bare_profile())] {
            let mut facts = dialects::card::CardFacts::new(&profile, "https://x.example");
            facts.auth = (name == "card").then(|| dialects::card::CardAuth::keys(true));
            line(name, read(wire, "AgentCard", &wire.card(&facts)));
        }
        insta::assert_snapshot!(format!("grpc_{}", wire.name()), lines);
    }
}

#[test]
fn metadata_and_data_are_as_protobuf_reads_the_same_json() {
    for &wire in PROTO_WIRES {
        let mut task = bare_task(State::Completed);
        task.metadata = Some(odd_json());
        task.artifacts = vec![artifact("a-1", vec![Part::data(odd_json())]).into()];
        let read: Value =
            serde_json::from_str(&read(wire, "Task", &written(|w| wire.task(w, &task, &TaskView::WHOLE, None))))
                .unwrap();
        // The last of two members of one name counts, and a number is a double.
        let expected = json!({"z": 1.0, "m": 1.0, "a": null, "e": 1e-7, "s": "é\n/", "o": {"k": [[], {}]}});
        assert_eq!(read["metadata"], expected, "{}", wire.name());
        let data = read["artifacts"][0]["parts"][0].pointer("/data").unwrap();
        let data = if wire.version() == (1, 0) { data } else { &data["data"] };
        assert_eq!(*data, expected, "{}", wire.name());
    }
}

#[test]
fn every_fault_ends_a_call_with_its_details() {
    for wire in PROTO_WIRES {
        let mut lines = String::new();
        for fault in faults() {
            let status = wire.status(&fault, Operation::Send);
            assert_ne!(status.code, RpcCode::Ok);
            assert!(status.message.ends_with(&fault.message));
            let reason = status::reason_of(&status.details).unwrap_or_else(|| "-".to_owned());
            let name = status.message.strip_suffix(&fault.message).unwrap();
            writeln!(lines, "{:?}: {} {reason} {name}", fault.kind, status.code.name()).unwrap();
            assert!(!String::from_utf8_lossy(&status.details).contains("secret"), "{:?}", fault.kind);
        }
        insta::assert_snapshot!(format!("grpc_faults_{}", wire.name()), lines);
    }
}

fn v1() -> &'static dyn ProtoWire {
    PROTO_WIRES[0]
}

fn v0_3() -> &'static dyn ProtoWire {
    PROTO_WIRES[1]
}

#[test]
fn a_send_of_1_0_is_read_with_everything_in_it() {
    let json = json!({
        "tenant": "acme",
        "message": {
            "messageId": "m-1", "contextId": "c", "taskId": "t", "role": "ROLE_USER",
            "parts": [
                {"text": ""}, {"raw": "AAE=", "filename": "f", "mediaType": "image/png"}, {"url": "https://u"},
                {"data": {"a": [null, 1.5, {"b": true}]}, "metadata": {"k": "v"}}, {"data": null}
            ],
            "metadata": {"z": 1, "a": null}, "extensions": ["urn:x"], "referenceTaskIds": ["r"]
        },
        "configuration": {
            "acceptedOutputModes": ["text/plain"], "historyLength": 0, "returnImmediately": true,
            "taskPushNotificationConfig": {"url": "https://h", "token": "tok", "authentication": {"scheme": "Bearer", "credentials": "x"}}
        },
        "metadata": {"m": 1}
    });
    let Decoded { call: Call::Send(send), tenant } = decode(v1(), "SendMessage", "SendMessageRequest", &json) else {
        panic!("no send")
    };
    assert_eq!(tenant.as_deref(), Some("acme"));
    assert_eq!((send.task.as_deref(), send.context.as_ref().map(|c| c.as_str())), (Some("t"), Some("c")));
    assert_eq!((send.wait, send.history), (Wait::Exists, Some(0)));
    assert_eq!(send.push.as_ref().unwrap().scheme.as_deref(), Some("Bearer"));
    assert_eq!(send.metadata.unwrap().text(), r#"{"m":1}"#);
    let parts = &send.message.parts;
    assert_eq!(parts[0].content, Content::Text(String::new()));
    assert_eq!(parts[1].content, Content::Raw(Bytes::from_static(b"\0\x01")));
    assert_eq!((parts[1].filename.as_deref(), parts[1].media_type.as_deref()), (Some("f"), Some("image/png")));
    assert_eq!(parts[2].content, Content::Url("https://u".to_owned()));
    let Content::Data(data) = &parts[3].content else { panic!("no data") };
    assert_eq!(data.text(), r#"{"a":[null,1.5,{"b":true}]}"#);
    assert_eq!(parts[4].content, Content::Data(model::Json::parse("null").unwrap()));
    assert_eq!(
        (send.message.extensions.as_slice(), send.message.references.as_slice()),
        (&["urn:x".to_owned()][..], &["r".to_owned()][..])
    );
}

#[test]
fn every_request_of_1_0_is_the_call_that_its_json_is() {
    let limits = Limits::default();
    let json_wire = wire("a2a_v1").unwrap();
    let time = "2026-05-01T10:00:00.120Z";
    for (method, kind, json) in [
        ("GetTask", "GetTaskRequest", json!({"tenant": "a", "id": "t", "historyLength": 3})),
        ("GetTask", "GetTaskRequest", json!({"id": "t"})),
        ("ListTasks", "ListTasksRequest", json!({})),
        (
            "ListTasks",
            "ListTasksRequest",
            json!({"tenant": "a", "contextId": "c", "status": "TASK_STATE_WORKING", "pageSize": 5, "pageToken": "p",
                "historyLength": 1, "statusTimestampAfter": time, "includeArtifacts": true}),
        ),
        ("CancelTask", "CancelTaskRequest", json!({"id": "t", "metadata": {"why": "x"}})),
        ("SubscribeToTask", "SubscribeToTaskRequest", json!({"id": "t"})),
        (
            "CreateTaskPushNotificationConfig",
            "TaskPushNotificationConfig",
            json!({"taskId": "t", "id": "c", "url": "https://h", "token": "x", "authentication": {"scheme": "Basic"}}),
        ),
        ("GetTaskPushNotificationConfig", "GetTaskPushNotificationConfigRequest", json!({"taskId": "t", "id": "c"})),
        (
            "DeleteTaskPushNotificationConfig",
            "DeleteTaskPushNotificationConfigRequest",
            json!({"tenant": "a", "taskId": "t", "id": "c"}),
        ),
        (
            "ListTaskPushNotificationConfigs",
            "ListTaskPushNotificationConfigsRequest",
            json!({"tenant": "a", "taskId": "t", "pageSize": 2, "pageToken": "p"}),
        ),
        ("GetExtendedAgentCard", "GetExtendedAgentCardRequest", json!({"tenant": "a"})),
        (
            "SendStreamingMessage",
            "SendMessageRequest",
            json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}}),
        ),
    ] {
        let params = serde_json::value::to_raw_value(&json).unwrap();
        let by_json = json_wire.decode_rpc(method, Some(&params), &limits).unwrap();
        assert_eq!(decode(v1(), method, kind, &json), by_json, "{method} {json}");
    }
}

#[test]
fn resource_names_of_0_3_name_tasks_and_configs() {
    let call = |method, kind, json: &Value| decode(v0_3(), method, kind, json).call;
    let name = json!({"name": "tasks/t-1"});
    let Call::Get(get) = call("GetTask", "GetTaskRequest", &json!({"name": "tasks/t-1", "historyLength": 2})) else {
        panic!("no get")
    };
    assert_eq!((get.task.as_str(), get.history), ("t-1", Some(2)));
    assert!(matches!(call("CancelTask", "CancelTaskRequest", &name), Call::Cancel(c) if c.task == "t-1"));
    assert!(
        matches!(call("TaskSubscription", "TaskSubscriptionRequest", &name), Call::Subscribe(s) if s.task == "t-1")
    );
    let config = json!({"name": "tasks/t-1/pushNotificationConfigs/c-1"});
    let kind = "GetTaskPushNotificationConfigRequest";
    let Call::Push(model::PushCall::Get { task, id }) = call("GetTaskPushNotificationConfig", kind, &config) else {
        panic!("no push get")
    };
    assert_eq!((task.as_str(), id.as_str()), ("t-1", "c-1"));
    let create = json!({"parent": "tasks/t-1", "configId": "c-1", "config": {"pushNotificationConfig": {"url": "https://h", "authentication": {"schemes": ["Bearer"], "credentials": "s"}}}});
    let kind = "CreateTaskPushNotificationConfigRequest";
    let Call::Push(model::PushCall::Create(config)) = call("CreateTaskPushNotificationConfig", kind, &create) else {
        panic!("no push create")
    };
    assert_eq!((config.task.as_deref(), config.id.as_deref()), (Some("t-1"), Some("c-1")));
    assert_eq!(config.scheme.as_deref(), Some("Bearer"));
    for bad in ["", "tasks/", "tasks/a/b", "x/y"] {
        let message = request(v0_3(), "GetTaskRequest", &json!({"name": bad}));
        let fault = v0_3().decode(Operation::Get, &message, &Limits::default()).unwrap_err();
        assert_eq!((fault.kind, fault.field.as_deref()), (Kind::InvalidParams, Some("name")), "{bad:?}");
    }
}

#[test]
fn a_send_of_0_3_waits_unless_its_configuration_does_not() {
    let message = json!({"messageId": "m", "role": "ROLE_USER", "content": [
        {"text": "hi"}, {"file": {"fileWithUri": "https://u", "mimeType": "image/png", "name": "f"}},
        {"data": {"data": {"value": [1]}}, "metadata": {"data_part_compat": true}}
    ]});
    let send = |json: &Value| match decode(v0_3(), "SendMessage", "SendMessageRequest", json).call {
        Call::Send(send) => send,
        other => panic!("{other:?}"),
    };
    let plain = send(&json!({"message": message}));
    assert_eq!(plain.wait, Wait::Rest { max_ms: None });
    assert_eq!(plain.message.parts[1].filename.as_deref(), Some("f"));
    assert_eq!(plain.message.parts[2].content, Content::Data(model::Json::parse("[1]").unwrap()));
    assert_eq!(send(&json!({"message": message, "configuration": {}})).wait, Wait::Exists);
    let blocking = json!({"message": message, "configuration": {"blocking": true, "historyLength": 1}});
    assert_eq!((send(&blocking).wait, send(&blocking).history), (Wait::Rest { max_ms: None }, Some(1)));
}

#[test]
fn what_cannot_be_a_message_is_a_fault() {
    let limits = Limits { parts: 3, ..Limits::default() };
    for wire in PROTO_WIRES {
        let fault = |message: &[u8]| wire.decode(Operation::Send, message, &limits).unwrap_err();
        assert_eq!(fault(b"\x0a\x05x").kind, Kind::Parse, "cut off");
        assert_eq!(fault(b"").field.as_deref(), Some("message"));
        let (message, list) = if wire.version() == (1, 0) { (2, "parts") } else { (1, "content") };
        let of = |parts: usize, id: &[u8]| {
            written(|w| {
                w.message(message, |w| {
                    w.present_bytes(1, id);
                    w.int(4, 1);
                    (0..parts).for_each(|_| w.message(5, |w| w.present_bytes(1, b"x")));
                });
            })
        };
        assert!(wire.decode(Operation::Send, &of(3, b"m"), &limits).is_ok());
        assert_eq!(fault(&of(4, b"m")).field, Some(format!("message.{list}")));
        assert_eq!(fault(&of(0, b"m")).field.as_deref(), Some("message.parts"));
        assert_eq!(fault(&of(1, b"\xff")).field.as_deref(), Some("message.messageId"));
        assert_eq!(fault(&of(1, &[b'x'; 300])).field.as_deref(), Some("message.messageId"));
        let empty_part = written(|w| {
            w.message(message, |w| {
                w.string(1, "m");
                w.int(4, 1);
                w.message(5, |_| {});
            });
        });
        assert_eq!(fault(&empty_part).field, Some(format!("message.{list}[0]")));
    }
}

/// JSON in every place that holds any: metadata and data, in 0.3 also wrapped, of a task and its messages.
fn task_with(json: &Json) -> Task {
    let metadata = Some(Json::parse(&format!("{{\"k\":{}}}", json.text())).unwrap());
    let parts = vec![Part { metadata: metadata.clone(), ..Part::data(json.clone()) }];
    let message = Message { metadata: metadata.clone(), ..message("m", Role::Agent, parts.clone()) };
    let mut task = bare_task(State::Completed);
    task.status.message = Some(message.clone().into());
    task.history = vec![message.into()];
    task.artifacts = vec![Artifact { metadata: metadata.clone(), ..artifact("a-1", parts) }.into()];
    task.metadata = metadata;
    task
}

/// The data of the one artifact of a task, as readers of the package see it.
fn data_of(wire: &dyn ProtoWire, task: &Value) -> Value {
    let data = &task["artifacts"][0]["parts"][0]["data"];
    match wire.version() {
        (1, 0) => data.clone(),
        _ => data["data"].get("value").unwrap_or(&data["data"]).clone(),
    }
}

/// Writes every message that can hold the JSON, in both packages and both directions, and reads it by its definition.
/// Gives the data of the task as each package has it.
fn read_everywhere(json: &Json) -> Vec<Value> {
    let task = task_with(json);
    let here = context();
    let head = Head::new(task_id(), None, &here);
    let said = task.status.message.clone().unwrap();
    let mut send = Send::new((*said).clone());
    send.metadata.clone_from(&task.metadata);
    let call = Call::Send(send.into());
    let wires = PROTO_WIRES.iter().zip(PROTO_PEERS).map(|(&wire, peer)| {
        let sent = written(|w| wire.sent_task(w, &task, &TaskView::WHOLE, None));
        let seen: Value = serde_json::from_str(&read(wire, "SendMessageResponse", &sent)).unwrap();
        peer.read_sent(&sent).unwrap();
        read(wire, "StreamResponse", &written(|w| wire.sent_message(w, &said, &head)));
        for (name, mut event) in events() {
            match &mut event.body {
                Body::Status(change) => {
                    (change.message, change.metadata) = (Some(said.clone()), task.metadata.clone());
                }
                Body::Artifact(chunk) => chunk.artifact = task.artifacts[0].as_ref().clone().into(),
                _ => continue,
            }
            let event = written(|w| assert!(wire.stream_event(w, &head, &event, true), "{name}"));
            read(wire, "StreamResponse", &event);
            peer.read_event(&event).unwrap();
        }
        let asked = peer.ask(&call, &RequestOptions { tenant: None, extensions: &[], id: 0 }).unwrap();
        read(wire, "SendMessageRequest", &asked.message);
        wire.decode(Operation::Send, &asked.message, &Limits { json_depth: 128, ..Limits::default() }).unwrap();
        data_of(wire, &seen["task"])
    });
    wires.collect()
}

#[test]
fn json_that_protobuf_cannot_say_leaves_the_rest_of_the_task_readable() {
    for (text, data) in [
        ("1e400", json!("1e400")),
        ("-1e400", json!("-1e400")),
        ("1e-400", json!(0.0)),
        ("-1e-400", json!(-0.0)),
        (
            r#"{"b":1,"a":1e400,"a":2,"c":[1E+999,{"d":-1e400}],"e":3}"#,
            json!({"b": 1.0, "a": 2.0, "c": ["1E+999", {"d": "-1e400"}], "e": 3.0}),
        ),
        (r#"{"a":2,"a":1e400}"#, json!({"a": "1e400"})),
        (r#""\ud800""#, json!("\\ud800")),
        (r#"["\uDFFFé\n","\ud83d\ude00",1.5]"#, json!(["\\uDFFFé\n", "😀", 1.5])),
        (r#"{"\ud800":{"\ud800":[]},"x":true}"#, json!({"\\ud800": {"\\ud800": []}, "x": true})),
    ] {
        for (seen, wire) in read_everywhere(&Json::parse(text).unwrap()).iter().zip(PROTO_WIRES) {
            assert_eq!(*seen, data, "{}: {text}", wire.name());
        }
    }
}

#[test]
fn json_that_nests_deeper_than_readers_of_protobuf_allow_is_read_in_every_place() {
    for (arrays, objects) in
        [(0, 31), (0, 32), (3, 29), (46, 0), (47, 0), (1, 30), (2, 30), (60, 60), (0, 126), (126, 0)]
    {
        let open = format!("{}{}", "[".repeat(arrays), "{\"a\":".repeat(objects));
        let text = format!("{open}[1e400,\"\\ud800\"]{}{}", "}".repeat(objects), "]".repeat(arrays));
        for seen in read_everywhere(&Json::parse(&text).unwrap()) {
            let innermost = seen.to_string();
            assert!(innermost.contains("1e400") && innermost.contains("ud800"), "{arrays} {objects}: {innermost}");
        }
    }
}

/// Any JSON text, also such as parsers into types refuse, and deeper than readers of protobuf allow.
fn json_text() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "a",
        "é",
        "😀",
        " ",
        r"\n",
        r"\\",
        r#"\""#,
        r"\/",
        r"\u0000",
        r"\u00e9",
        r"\ud83d\ude00",
        r"\ud800",
        r"\uDfFf",
        r"\ud83d",
        "ud800",
        "1e400",
        "{",
        "]",
        ",",
        ":",
    ]);
    let string = prop::collection::vec(pieces, 0..6).prop_map(|pieces| format!("\"{}\"", pieces.concat()));
    let name = prop_oneof![4 => string.clone(), 1 => Just("\"a\"".to_owned())];
    let leaf = prop_oneof![
        prop::sample::select(vec!["null", "true", "false", "1e400", "-1e400", "1e-400", "-0", "-0.0", "0E0"])
            .prop_map(str::to_owned),
        "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,4})?",
        string,
    ];
    let space = prop::sample::select(vec!["", "", " ", "\n\t\r"]);
    leaf.prop_recursive(6, 40, 5, move |inner| {
        let list = (prop::collection::vec(inner.clone(), 0..5), space.clone())
            .prop_map(|(values, space)| format!("[{space}{}{space}]", values.join(&format!("{space},{space}"))));
        let members = prop::collection::vec((name.clone(), inner.clone()), 0..5);
        let object = (members, space.clone()).prop_map(|(members, space)| {
            let members: Vec<_> = members.iter().map(|(name, value)| format!("{name}{space}:{space}{value}")).collect();
            format!("{{{space}{}{space}}}", members.join(&format!("{space},{space}")))
        });
        let deep = (inner, 1..60usize, any::<bool>()).prop_map(|(value, levels, array)| {
            let (open, close) = if array { ("[", "]") } else { ("{\"a\":", "}") };
            format!("{}{value}{}", open.repeat(levels), close.repeat(levels))
        });
        prop_oneof![3 => list, 3 => object, 1 => deep]
    })
}

/// JSON as a `google.protobuf.Value` holds it: numbers are doubles.
fn with_doubles(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64().unwrap()),
        Value::Array(list) => list.iter().map(with_doubles).collect(),
        Value::Object(members) => {
            Value::Object(members.iter().map(|(name, value)| (name.clone(), with_doubles(value))).collect())
        }
        Value::Null | Value::Bool(_) | Value::String(_) => value.clone(),
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(depth).max().unwrap_or_default(),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or_default(),
        Value::Null | Value::Bool(_) | Value::String(_) | Value::Number(_) => 0,
    }
}

proptest! {
    #[test]
    fn any_json_is_protobuf_that_its_readers_decode(text in json_text()) {
        let json = Json::parse(&text).unwrap();
        let seen = read_everywhere(&json);
        // Text that a parser into types accepts has the value that this parser gives it.
        if let Ok(value) = serde_json::from_str::<Value>(&text)
            && depth(&value) < 30
        {
            prop_assert_eq!(&seen[0], &with_doubles(&value));
            // In 0.3 an object with a member of this name looks as if it were wrapped.
            if value.get("value").is_none() {
                prop_assert_eq!(&seen[1], &with_doubles(&value));
            }
        }
    }

    #[test]
    fn damaged_json_that_is_still_json_is_protobuf_that_its_readers_decode(
        text in json_text(),
        changes in arbitrary::changes(),
    ) {
        let bytes = arbitrary::changed(text.as_bytes(), &changes);
        if let Some(json) = std::str::from_utf8(&bytes).ok().and_then(Json::parse) {
            read_everywhere(&json);
        }
    }

    #[test]
    fn any_bytes_are_a_call_or_a_fault(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        for wire in PROTO_WIRES {
            for (_, operation) in wire.methods() {
                let _ = wire.decode(*operation, &bytes, &Limits::default());
            }
        }
    }
}
