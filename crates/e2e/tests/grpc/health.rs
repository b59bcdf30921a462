//! A server that stops: what the health service and open streams are told. The health of a full disk is tested with the
//! disk, in `scenarios`.

use e2e::grpc::{self, Call, Connection, V1, V03, code, proto};
use e2e::server::signal;
use e2e::{Server, script, until};
use serde_json::{Value, json};

/// Every service whose health can be asked for; the empty name is the server's.
const SERVICES: [&str; 4] = ["", "lf.a2a.v1.A2AService", "a2a.v1.A2AService", "grpc.health.v1.Health"];

/// HealthCheckResponse of each status.
const SERVING: [u8; 2] = [8, 1];
const NOT_SERVING: [u8; 2] = [8, 2];

/// The drain is long enough for what happens in it, also on a busy machine.
const CONFIG: &str = "timeouts: { drain_ms: 4000 }\nagents: { scripted: { kind: scripted } }\n";

fn health(method: &str) -> Call {
    Call::new(&format!("/grpc.health.v1.Health/{method}"))
}

fn asking(service: &str) -> Vec<u8> {
    proto::field(1, service)
}

fn hanging() -> Value {
    json!([{ "status": "working" }, { "hang": true }])
}

/// A task at work; it does not end by itself.
fn at_work(server: &Server) -> String {
    let agent = server.agent("scripted");
    let id = agent.open(script(hanging()))["id"].as_str().unwrap().to_owned();
    agent.in_state(&id, "TASK_STATE_WORKING");
    id
}

#[test]
fn watchers_of_the_health_are_told_of_a_stop_before_the_process_ends() {
    for is_busy in [true, false] {
        let mut server = Server::options().config(CONFIG).start();
        if is_busy {
            at_work(&server);
        }
        let connection = Connection::open(server.addr());
        let mut watches =
            SERVICES.map(|service| (service, connection.open_stream(&health("Watch").message(&asking(service)))));
        for (service, watch) in &mut watches {
            assert_eq!(watch.message().as_deref(), Some(&SERVING[..]), "{service:?}");
        }
        signal(server.pid(), "TERM");
        for (service, watch) in &mut watches {
            let told = watch.message();
            assert_eq!(told.as_deref(), Some(&NOT_SERVING[..]), "{service:?}, a turn at work: {is_busy}");
        }
        for (service, watch) in watches {
            let reply = watch.end();
            assert!(reply.status().is_some(), "a watch ends with a status: {service:?}: {reply:?}");
        }
        assert!(server.wait().success());
        server.restart();
        let reply = Connection::open(server.addr()).call(&health("Check").message(&asking("")));
        assert_eq!(reply.messages(), [(0, SERVING.to_vec())], "{reply:?}");
    }
}

/// A server that stops takes no new call, but answers those that have begun.
#[test]
fn a_check_that_is_answered_while_the_server_drains_says_that_it_does_not_serve() {
    let mut server = Server::options().config(CONFIG).start();
    at_work(&server);
    let connection = Connection::open(server.addr());
    let checks = SERVICES.map(|service| (service, connection.begin(&health("Check"))));
    // It comes after them on the connection: once it is answered, the server knows of them all.
    let mut watch = connection.open_stream(&health("Watch").message(&asking("")));
    assert_eq!(watch.message().as_deref(), Some(&SERVING[..]));
    signal(server.pid(), "TERM");
    assert_eq!(watch.message().as_deref(), Some(&NOT_SERVING[..]));
    for (service, mut check) in checks {
        check.send(&grpc::frame(&asking(service)));
        let reply = check.end();
        assert_eq!(reply.status(), Some(code::OK), "{service:?}: {reply:?}");
        assert_eq!(reply.messages(), [(0, NOT_SERVING.to_vec())], "{service:?}: {reply:?}");
    }
    assert!(server.wait().success());
}

/// A client that reads OK takes the task for one that rests; UNAVAILABLE lets it come back with the id of the trailers.
#[test]
fn a_stream_of_a_task_at_work_ends_unavailable_when_the_server_stops() {
    let mut server =
        Server::options().config("timeouts: { drain_ms: 1000 }\nagents: { scripted: { kind: scripted } }\n").start();
    let subscribed = [at_work(&server), at_work(&server)];
    let subscription = |service: &str, method: &str, request: Vec<u8>| {
        Call::new(&format!("{service}/{method}")).header("x-a2a-agent", "scripted").message(&request)
    };
    let calls = [
        ("a send of 1.0", grpc::scripted(V1, "SendStreamingMessage", &hanging())),
        ("a send of 0.3", grpc::scripted(V03, "SendStreamingMessage", &hanging())),
        ("a subscription of 1.0", subscription(V1, "SubscribeToTask", proto::field(2, &subscribed[0]))),
        (
            "a subscription of 0.3",
            subscription(V03, "TaskSubscription", proto::field(1, format!("tasks/{}", subscribed[1]))),
        ),
    ];
    let connection = Connection::open(server.addr());
    let mut streams = calls.map(|(row, call)| (row, connection.open_stream(&call)));
    for (row, stream) in &mut streams {
        assert!(stream.message().is_some(), "{row}: a stream begins with the task");
    }
    until("all of them work", e2e::poll::PATIENCE, || {
        let working = json!({ "status": "TASK_STATE_WORKING" });
        (server.agent("scripted").rpc("ListTasks", working).unwrap()["totalSize"] == 4).then_some(())
    });
    signal(server.pid(), "TERM");
    let replies = streams.map(|(row, stream)| (row, stream.end()));
    assert!(server.wait().success());
    let told: Vec<_> = replies.iter().map(|(row, reply)| (*row, reply.status())).collect();
    assert!(told.iter().all(|(_, status)| *status == Some(code::UNAVAILABLE)), "{told:?}");
    for (row, reply) in replies {
        assert!(!reply.words().is_empty(), "{row}: {reply:?}");
        assert!(reply.trailers.contains_key("last-event-id"), "{row}: where to resume: {reply:?}");
    }
}

/// OK says that the task rests, so it comes with the end of the task or not at all.
#[test]
fn a_stream_whose_task_ends_while_the_server_drains_is_ok_with_the_end_only() {
    let mut server = Server::options().config(CONFIG).start();
    let connection = Connection::open(server.addr());
    let steps = json!([{ "status": "working" }, { "sleep_ms": 500 }, { "complete": "the end" }]);
    let mut streams = [V1, V03].map(|service| {
        let mut stream = connection.open_stream(&grpc::scripted(service, "SendStreamingMessage", &steps));
        assert!(stream.message().is_some(), "{service}");
        (service, stream)
    });
    for (service, stream) in &mut streams {
        assert!(stream.message().is_some(), "{service}: it works");
    }
    signal(server.pid(), "TERM");
    for (service, stream) in streams {
        let reply = stream.end();
        // The first message is the task, with the script in its history.
        let later = reply.messages().split_off(1);
        let ended = later.iter().any(|(_, message)| message.windows(7).any(|window| window == b"the end"));
        let expected = if ended { code::OK } else { code::UNAVAILABLE };
        assert_eq!(reply.status(), Some(expected), "{service}, with the end: {ended}: {:?}", reply.trailers);
    }
    assert!(server.wait().success());
}
