//! Proper calls on a plain connection: the headers and trailers that a client library hides.

use e2e::grpc::{self, Call, Connection, V1, V03, code, proto};
use e2e::{Server, message, script};
use serde_json::json;

fn hello() -> Vec<u8> {
    proto::send_v1(&proto::field(1, "hello"))
}

fn send(agent: Option<&str>) -> Call {
    let call = Call::new(&format!("{V1}/SendMessage")).message(&hello());
    match agent {
        Some(agent) => call.header("x-a2a-agent", agent),
        None => call,
    }
}

#[test]
fn an_answer_is_one_message_and_a_status_in_the_trailers() {
    let server = Server::start(&[]);
    let mut connection = Connection::open(server.addr());
    for content_type in ["application/grpc", "application/grpc+proto"] {
        for (service, request) in [(V1, hello()), (V03, proto::send_v03(&proto::field(1, "hello")))] {
            let call = Call::new(&format!("{service}/SendMessage")).header("content-type", content_type);
            let reply = connection.call(&call.message(&request));
            assert_eq!((reply.http, reply.status()), (200, Some(code::OK)), "{reply:?}");
            assert!(reply.trailers.contains_key("grpc-status"), "it comes after the message: {reply:?}");
            assert!(reply.told("content-type").unwrap().starts_with("application/grpc"), "{reply:?}");
            let messages = reply.messages();
            assert_eq!(messages.len(), 1, "{reply:?}");
            assert_eq!(messages[0].0, 0, "nobody asked for compression: {reply:?}");
            let task = proto::values(&messages[0].1, 1)[0];
            let artifact = proto::values(task, 4)[0];
            let (part, text) = if service == V1 { (4, 1) } else { (5, 1) };
            assert_eq!(proto::values(proto::values(artifact, part)[0], text), [b"hello"], "{reply:?}");
        }
    }
}

#[test]
fn an_error_comes_without_a_message_and_with_its_status() {
    let server = Server::start(&[]);
    let mut connection = Connection::open(server.addr());
    for (service, request) in [(V1, proto::field(2, "nobody")), (V03, proto::field(1, "tasks/nobody"))] {
        let reply = connection.call(&Call::new(&format!("{service}/GetTask")).message(&request));
        assert_eq!((reply.http, reply.status()), (200, Some(code::NOT_FOUND)), "{reply:?}");
        assert!(reply.body.is_empty() && !reply.words().is_empty(), "{reply:?}");
        assert!(reply.told("grpc-status-details-bin").is_some(), "{reply:?}");
    }
}

#[test]
fn compression_is_answered_in_kind_and_only_to_who_reads_it() {
    let server = Server::start(&[]);
    let mut connection = Connection::open(server.addr());
    let long = proto::send_v1(&proto::field(1, "la ".repeat(20_000)));
    let gzipped = || {
        let call = Call::new(&format!("{V1}/SendMessage")).header("grpc-encoding", "gzip");
        call.body(&grpc::compressed(&grpc::gzip(&long)))
    };
    let plain = || Call::new(&format!("{V1}/SendMessage")).message(&long);
    for (row, call, answered) in [
        ("asked and read", gzipped().header("grpc-accept-encoding", "identity,deflate,gzip"), Some(true)),
        ("asked, but not read", gzipped().header("grpc-accept-encoding", "identity"), Some(false)),
        ("read", plain().header("grpc-accept-encoding", "gzip"), None),
        ("neither", plain(), Some(false)),
    ] {
        let reply = connection.call(&call);
        assert_eq!((reply.http, reply.status()), (200, Some(code::OK)), "{row}: {reply:?}");
        let messages = reply.messages();
        let (flag, body) = &messages[0];
        if let Some(answered) = answered {
            assert_eq!(*flag == 1, answered, "{row}");
        }
        let body = if *flag == 1 {
            assert_eq!(reply.headers["grpc-encoding"], "gzip", "{row}");
            grpc::gunzip(body)
        } else {
            body.clone()
        };
        assert_eq!(proto::values(&body, 1).len(), 1, "{row}: a task");
    }
    // A message may be uncompressed although others are not.
    let mixed = Call::new(&format!("{V1}/SendMessage")).header("grpc-encoding", "gzip").message(&long);
    assert_eq!(connection.call(&mixed).status(), Some(code::OK));
}

#[test]
fn a_stream_says_its_first_id_at_its_begin_and_its_last_at_its_end() {
    let server = Server::start(&[]);
    let mut connection = Connection::open(server.addr());
    for (service, method) in [(V1, "SendStreamingMessage"), (V03, "SendStreamingMessage")] {
        let part = proto::field(1, "hello");
        let request = if service == V1 { proto::send_v1(&part) } else { proto::send_v03(&part) };
        let reply = connection.call(&Call::new(&format!("{service}/{method}")).message(&request));
        assert_eq!((reply.http, reply.status()), (200, Some(code::OK)), "{reply:?}");
        let first = reply.headers["a2a-event-id"].to_str().unwrap();
        let last = reply.trailers["last-event-id"].to_str().unwrap();
        let (task, from) = first.rsplit_once('.').unwrap();
        let (same, to) = last.rsplit_once('.').unwrap();
        assert_eq!(task, same);
        assert!(from.parse::<u64>().unwrap() <= to.parse::<u64>().unwrap(), "{first} {last}");
        let frame = server.agent("echo").task(task);
        assert_eq!(frame["status"]["state"], "TASK_STATE_COMPLETED", "{frame}");
    }
}

/// A client that has no more to wait for is told what there is.
#[test]
fn a_deadline_is_answered_before_it_passes() {
    let server = Server::start(&[]);
    let mut connection = Connection::open(server.addr());
    // {"script": [{"status": "working"}, {"hang": true}]} as a Value.
    let string = |text: &str| proto::field(3, text);
    let member = |name: &str, value: &[u8]| proto::field(1, [proto::field(1, name), proto::field(2, value)].concat());
    let object = |members: &[Vec<u8>]| proto::field(5, members.concat());
    let working = object(&[member("status", &string("working"))]);
    let hang = object(&[member("hang", &proto::number(4, 1))]);
    let list = proto::field(6, [proto::field(1, &working), proto::field(1, &hang)].concat());
    let request = proto::send_v1(&proto::field(4, object(&[member("script", &list)])));
    for timeout in ["2S", "2000m", "2000000u"] {
        let call = Call::new(&format!("{V1}/SendMessage")).header("x-a2a-agent", "scripted");
        let reply = connection.call(&call.header("grpc-timeout", timeout).message(&request));
        assert_eq!((reply.http, reply.status()), (200, Some(code::OK)), "{timeout}: {reply:?}");
        let message = &reply.messages()[0].1;
        let id = String::from_utf8(proto::values(proto::values(message, 1)[0], 1)[0].to_vec()).unwrap();
        let agent = server.agent("scripted");
        assert_eq!(agent.task(&id)["status"]["state"], "TASK_STATE_WORKING", "{timeout}: it goes on");
        agent.rpc("CancelTask", json!({ "id": id })).unwrap();
    }
}

#[test]
fn an_agent_is_named_by_metadata_and_one_that_is_not_there_is_not_found() {
    let server = Server::start(&[]);
    let mut connection = Connection::open(server.addr());
    for agent in [None, Some("echo"), Some("scripted")] {
        assert_eq!(connection.call(&send(agent)).status(), Some(code::OK), "{agent:?}");
    }
    for agent in ["nobody", "", "../echo", "ECHO", "a2a/echo/x"] {
        let reply = connection.call(&send(Some(agent)));
        let named = matches!(reply.status(), Some(code::NOT_FOUND | code::UNIMPLEMENTED | code::INVALID_ARGUMENT));
        // A name that is empty is none.
        assert!(named || agent.is_empty() && reply.status() == Some(code::OK), "{agent:?}: {reply:?}");
    }
}

#[test]
fn http_and_grpc_share_a_connection() {
    let server = Server::start(&[]);
    let mut connection = Connection::open(server.addr());
    assert_eq!(connection.call(&send(None)).status(), Some(code::OK));
    let healthy = connection.call_headers(&Call::new("/healthz").verb("GET").without("content-type")).unwrap();
    assert_eq!((healthy.http, healthy.status()), (200, None), "{healthy:?}");
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": e2e::send(message("hi")) });
    let json = Call::new("/a2a/echo").header("content-type", "application/json").header("a2a-version", "1.0");
    let answer = connection.call(&json.body(body.to_string().as_bytes()));
    assert_eq!(answer.http, 200, "{answer:?}");
    assert_eq!(connection.call(&send(None)).status(), Some(code::OK));
}

/// Who leaves a stream ends nothing.
#[test]
fn a_stream_that_is_left_cancels_no_task() {
    let server = Server::start(&[]);
    let agent = server.agent("scripted");
    let task = agent.open(script(json!([{ "status": "working" }, { "input": "well?" }, { "complete": "done" }])));
    let id = task["id"].as_str().unwrap();
    agent.in_state(id, "TASK_STATE_INPUT_REQUIRED");
    let watch = Call::new(&format!("{V1}/SubscribeToTask")).header("x-a2a-agent", "scripted");
    let mut connection = Connection::open(server.addr());
    let watch = watch.message(&proto::field(2, id));
    for _ in 0..5 {
        connection.leave(&watch);
    }
    drop(connection);
    let done = agent.send(e2e::to_task(message("yes"), id));
    assert_eq!(done["status"]["state"], "TASK_STATE_COMPLETED", "{done}");
}
