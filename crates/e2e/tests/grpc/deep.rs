//! Data that nests. Protobuf's readers refuse a message of more than a hundred levels, and data in it takes two levels for
//! an array and three for an object: less of it fits than in JSON.

use e2e::grpc::{Call, Connection, V1, V03, code, proto};
use e2e::{Server, message, parts};
use serde_json::{Value, json};

use crate::stock::{calls, v1, v03};

/// The deepest objects in a data part that the SDK reads in an answer, in each generation.
const OBJECTS: usize = 32;

fn object(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inner, _| json!({ "a": inner }))
}

/// A `Value` of objects or arrays in one another, in the wire format.
pub(crate) fn deep_value(levels: usize, arrays: bool) -> Vec<u8> {
    // Value.list_value.values, or Value.struct_value.fields.value.
    let each: &[u64] = if arrays { &[6, 1] } else { &[5, 1, 2] };
    proto::nested((0..levels).flat_map(|_| each.iter().copied()).collect::<Vec<_>>().into_iter(), &proto::number(4, 1))
}

/// A task that other callers opened must not make a list unreadable for callers over gRPC.
#[test]
fn no_task_of_another_dialect_is_too_deep_for_the_readers_of_grpc() {
    let server = Server::start(&[]);
    let agent = server.agent("echo");
    for levels in [OBJECTS - 2, OBJECTS, OBJECTS + 1, 40, 46] {
        let mut said = parts(json!([{ "data": object(levels) }]));
        said["contextId"] = json!(format!("deep {levels}"));
        let Ok(sent) = agent.rpc("SendMessage", e2e::send(said)) else {
            assert!(levels > OBJECTS, "{levels} levels are read by everybody");
            continue;
        };
        let id = sent["task"]["id"].as_str().unwrap();
        let answers = calls(
            &server,
            &[
                v1("echo", "GetTask", json!({ "id": id })),
                v1("echo", "ListTasks", json!({ "contextId": format!("deep {levels}"), "includeArtifacts": true })),
                v03("echo", "GetTask", json!({ "name": format!("tasks/{id}") })),
            ],
        );
        for answer in answers {
            assert_eq!((&answer["unreadable"], &answer["code"]), (&Value::Null, &Value::Null), "{levels}: {answer}");
        }
    }
}

#[test]
fn ten_thousand_levels_are_refused_in_every_place() {
    let server = Server::start(&[]);
    let mut connection = Connection::open(server.addr());
    let levels = 10_000;
    for arrays in [true, false] {
        let value = deep_value(levels, arrays);
        // A Struct is a field of a Value.
        let object = proto::field(1, [proto::field(1, "k"), proto::field(2, &value)].concat());
        let text = proto::field(1, "hi");
        let in_message = |extra: &[u8]| {
            let message = [&proto::field(1, "m")[..], &proto::number(4, 1), &proto::field(5, &text), extra].concat();
            proto::field(2, message)
        };
        let rows = [
            (V1, "SendMessage", proto::send_v1(&proto::field(4, &value)), "data"),
            (V1, "SendStreamingMessage", proto::send_v1(&proto::field(4, &value)), "data of a stream"),
            (V1, "SendMessage", proto::send_v1(&[&text[..], &proto::field(5, &object)].concat()), "metadata of a part"),
            (V1, "SendMessage", in_message(&proto::field(6, &object)), "metadata of a message"),
            (V1, "SendMessage", [proto::send_v1(&text), proto::field(4, &object)].concat(), "metadata of a request"),
            (V1, "CancelTask", [proto::field(2, "x"), proto::field(3, &object)].concat(), "metadata of a cancel"),
            (V03, "SendMessage", proto::send_v03(&proto::field(3, proto::field(1, &object))), "data in 0.3"),
            (V03, "SendMessage", proto::send_v03(&[&text[..], &proto::field(4, &object)].concat()), "metadata in 0.3"),
        ];
        for (service, method, request, place) in rows {
            let reply = connection.call(&Call::new(&format!("{service}/{method}")).message(&request));
            assert_eq!(reply.http, 200, "{place}: {reply:?}");
            assert_eq!(reply.status(), Some(code::INVALID_ARGUMENT), "{place}: {reply:?}");
            assert!(!reply.words().is_empty(), "{place}: {reply:?}");
        }
        // An unknown field is skipped, however deep.
        let unknown = [proto::send_v1(&text), proto::field(99, &value)].concat();
        let reply = connection.call(&Call::new(&format!("{V1}/SendMessage")).message(&unknown));
        assert_eq!((reply.http, reply.status()), (200, Some(code::OK)), "{reply:?}");
    }
    assert_eq!(server.agent("echo").send(message("well?"))["status"]["state"], "TASK_STATE_COMPLETED");
    assert!(!server.log().contains("panicked"), "{}", server.log());
}
