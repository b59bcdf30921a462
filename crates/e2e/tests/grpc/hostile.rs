//! Bad input: every call ends with a clear status, nothing panics, and memory stays bounded.

use std::sync::{Mutex, MutexGuard, PoisonError};

use e2e::grpc::{self, Call, Connection, Reply, V1, V03, code, proto};
use e2e::http::Request;
use e2e::seed::Random;
use e2e::{Server, message};

/// The documented limit of the server's memory.
const MOST_KIB: u64 = 512 << 10;
/// The largest message that is taken.
const BODY: usize = 10 << 20;

/// The statuses that a malformed call or message may end with.
const MALFORMED: &[u32] = &[code::INVALID_ARGUMENT, code::INTERNAL];
/// More or fewer messages than the method takes.
const CARDINALITY: &[u32] = &[code::INVALID_ARGUMENT, code::UNIMPLEMENTED, code::INTERNAL];
/// A message above the limit.
const TOO_LARGE: &[u32] = &[code::INVALID_ARGUMENT, code::RESOURCE_EXHAUSTED];

/// The same of a message that is not there: its length is wrong, too.
const TOO_LARGE_OR_CUT: &[u32] = &[code::INVALID_ARGUMENT, code::RESOURCE_EXHAUSTED, code::INTERNAL];

/// Held by tests that read the server's memory: two at once would leave a machine of two cores no time for answers.
fn alone() -> MutexGuard<'static, ()> {
    static ATTACK: Mutex<()> = Mutex::new(());
    ATTACK.lock().unwrap_or_else(PoisonError::into_inner)
}

fn hello() -> Vec<u8> {
    proto::send_v1(&proto::field(1, "hello"))
}

fn send() -> Call {
    Call::new(&format!("{V1}/SendMessage"))
}

/// A call of gRPC answers HTTP 200 and one of these statuses, with words.
fn assert_status(row: &str, reply: &Reply, codes: &[u32]) {
    assert_eq!(reply.http, 200, "{row}: {reply:?}");
    let status = reply.status().unwrap_or_else(|| panic!("{row}: no grpc-status: {reply:?}"));
    assert!(codes.contains(&status), "{row}: {status} is none of {codes:?}: {reply:?}");
    assert!(status == code::OK || !reply.words().is_empty(), "{row}: a status says what is wrong: {reply:?}");
    assert!(!reply.words().contains("panicked"), "{row}: {reply:?}");
}

fn still_well(server: &Server) {
    assert_eq!(server.get("/healthz").status(), 200);
    let echo = server.agent("echo").send(message("still here"));
    assert_eq!(echo["status"]["state"], "TASK_STATE_COMPLETED");
    let mut connection = Connection::open(server.addr());
    assert_eq!(connection.call(&send().message(&hello())).status(), Some(code::OK));
    assert!(!server.log().contains("panicked"), "a panic in the log:\n{}", server.log());
    let metrics = server.get("/metrics").text();
    assert!(metrics.contains("a2a_panics_total 0"), "{metrics}");
}

fn assert_modest(server: &Server, what: &str) {
    let peak = server.peak_kib();
    eprintln!("{what}: {} MiB at most", peak >> 10);
    assert!(peak <= MOST_KIB, "{what}: the server held {} MiB", peak >> 10);
    still_well(server);
}

#[test]
fn frames_and_messages_that_are_none_are_refused_with_a_status() {
    let server = Server::start(&[]);
    let mut connection = Connection::open(server.addr());
    let (hello, id) = (hello(), proto::field(2, "x"));
    let truncated = |cut: usize| send().body(&grpc::frame(&hello)[..cut]);
    let text = |bytes: &[u8]| proto::send_v1(&proto::field(1, bytes));
    let rows: Vec<(&str, Call, &[u32])> = vec![
        ("no message", send(), CARDINALITY),
        ("one byte of a frame's head", truncated(1), MALFORMED),
        ("a frame's head alone", truncated(5), MALFORMED),
        ("half a message", truncated(5 + hello.len() / 2), MALFORMED),
        ("all but the last byte", truncated(4 + hello.len()), MALFORMED),
        ("two messages", send().message(&hello).message(&hello), CARDINALITY),
        ("a message and half a frame", send().message(&hello).body(&[0, 0]), CARDINALITY),
        ("a length of four gigabytes", send().body(&grpc::framed(0, u32::MAX, &hello)), TOO_LARGE_OR_CUT),
        ("a length just above the limit", send().body(&grpc::framed(0, BODY as u32 + 1, &hello)), TOO_LARGE_OR_CUT),
        ("a flag that is none", send().body(&grpc::framed(2, hello.len() as u32, &hello)), MALFORMED),
        ("a flag that is none, with all bits", send().body(&grpc::framed(0xff, hello.len() as u32, &hello)), MALFORMED),
        ("compressed by nothing", send().body(&grpc::compressed(&grpc::gzip(&hello))), MALFORMED),
        (
            "compressed by nothing, it says",
            send().header("grpc-encoding", "identity").body(&grpc::compressed(&hello)),
            MALFORMED,
        ),
        ("gzip that is none", send().header("grpc-encoding", "gzip").body(&grpc::compressed(&hello)), MALFORMED),
        (
            "gzip that is cut off",
            send().header("grpc-encoding", "gzip").body(&grpc::compressed(&grpc::gzip(&hello)[..12])),
            MALFORMED,
        ),
        ("bytes that are no message", send().message(&[0xff; 64]), MALFORMED),
        ("a field that is longer than the message", send().message(&[0x12, 0x7f, 0x0a]), MALFORMED),
        ("a field of the number zero", send().message(&[0x02, 0x00]), MALFORMED),
        (
            "a number without an end",
            send().message(&[0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
            MALFORMED,
        ),
        ("a group", send().message(&[0x0b, 0x0c]), MALFORMED),
        ("a group without an end", send().message(&[0x13]), MALFORMED),
        (
            "a message where a number is",
            Call::new(&format!("{V1}/ListTasks")).message(&proto::field(4, "x")),
            MALFORMED,
        ),
        ("a number where a message is", send().message(&proto::number(2, 7)), MALFORMED),
        ("a text that is no UTF-8", send().message(&text(&[0xff, 0xfe, 0x80])), MALFORMED),
        ("a text of surrogates", send().message(&text(&[0xed, 0xa0, 0x80])), MALFORMED),
        ("a text that is cut in a letter", send().message(&text("é".as_bytes().split_last().unwrap().1)), MALFORMED),
        (
            "an id that is no UTF-8",
            Call::new(&format!("{V1}/GetTask")).message(&proto::field(2, [0xc3, 0x28])),
            MALFORMED,
        ),
        (
            "a tenant that is no UTF-8",
            Call::new(&format!("{V1}/GetTask")).message(&[proto::field(1, [0xff]), id.clone()].concat()),
            MALFORMED,
        ),
        ("a name that is no UTF-8", Call::new(&format!("{V03}/GetTask")).message(&proto::field(1, [0xff])), MALFORMED),
        ("a state that is none", Call::new(&format!("{V1}/ListTasks")).message(&proto::number(3, 99)), MALFORMED),
        (
            "a length that is negative",
            Call::new(&format!("{V1}/GetTask")).message(&[id, proto::number(3, u64::MAX)].concat()),
            MALFORMED,
        ),
    ];
    for (row, call, codes) in rows {
        let reply = connection.call(&call);
        assert_status(row, &reply, codes);
    }
    still_well(&server);
}

#[test]
fn calls_of_headers_alone_and_calls_that_do_not_end_are_answered_or_closed() {
    let server = Server::options().config("timeouts: { body_ms: 1500 }\nagents: { echo: { kind: echo } }\n").start();
    let mut connection = Connection::open(server.addr());
    for path in [format!("{V1}/SendMessage"), format!("{V1}/SendStreamingMessage"), format!("{V03}/GetTask")] {
        let reply = connection.call_headers(&Call::new(&path)).unwrap();
        assert_status(&format!("headers alone at {path}"), &reply, CARDINALITY);
    }
    // A message that never comes, or comes in part: the time for a body ends it.
    let slow = [code::INVALID_ARGUMENT, code::INTERNAL, code::UNAVAILABLE, 1, 4];
    for (row, body) in
        [("nothing", &[][..]), ("half a head", &[0, 0][..]), ("half a message", &grpc::framed(0, 100, b"x"))]
    {
        match connection.call_unended(&send().body(body)) {
            Ok(reply) => assert_status(row, &reply, &slow),
            Err(error) => {
                assert!(error.is_reset() || error.is_go_away() || error.is_io(), "{row}: {error}");
                connection = Connection::open(server.addr());
            }
        }
    }
    still_well(&server);
}

#[test]
fn what_is_no_grpc_is_told_in_the_words_of_http() {
    let server = Server::start(&[]);
    let mut connection = Connection::open(server.addr());
    for content_type in [
        "application/json",
        "application/grpc+json",
        "application/grpc+thrift",
        "application/grpcx",
        "text/plain",
        "grpc",
    ] {
        let reply = connection.call(&send().header("content-type", content_type).message(&hello()));
        assert_eq!(reply.http, 415, "{content_type}: {reply:?}");
    }
    let untyped = connection.call(&send().without("content-type").message(&hello()));
    assert_eq!(untyped.http, 415, "{untyped:?}");
    for verb in ["GET", "PUT", "DELETE", "PATCH"] {
        let reply = connection.call(&send().verb(verb).message(&hello()));
        assert!(matches!(reply.http, 404 | 405 | 415), "{verb}: {reply:?}");
        assert_ne!(reply.status(), Some(code::OK), "{verb}: {reply:?}");
    }
    for path in ["/", "/a2a/echo", "/healthz", "/tasks/x"] {
        let reply = connection.call(&Call::new(path).message(&hello()));
        let refused = matches!(reply.http, 404 | 405 | 415) || reply.status() == Some(code::UNIMPLEMENTED);
        assert!(refused, "{path}: {reply:?}");
    }
    // HTTP/1.1 has gRPC-Web.
    let request = Request::new("POST", &format!("{V1}/SendMessage")).header("content-type", "application/grpc");
    let response = server.exchange(&request.body(grpc::frame(&hello())));
    assert!(matches!(response.status(), 200..=499 | 505), "{} {}", response.status(), response.text());
    still_well(&server);
}

#[test]
fn what_is_not_there_is_unimplemented() {
    let server = Server::start(&[]);
    let mut connection = Connection::open(server.addr());
    for path in [
        format!("{V1}/Sing"),
        format!("{V1}/sendMessage"),
        format!("{V1}/"),
        V1.to_owned(),
        format!("{V1}/SendMessage/"),
        format!("{V1}/SendMessage/x"),
        format!("{V03}/ListTasks"),
        format!("{V03}/SubscribeToTask"),
        "/lf.a2a.v2.A2AService/SendMessage".to_owned(),
        "/A2AService/SendMessage".to_owned(),
        "/no.such.Service/Do".to_owned(),
        "/grpc.health.v1.Health/Sing".to_owned(),
    ] {
        let reply = connection.call(&Call::new(&path).message(&hello()));
        assert_status(&path, &reply, &[code::UNIMPLEMENTED]);
    }
    let reply = connection.call(&send().header("grpc-encoding", "br").body(&grpc::compressed(&hello())));
    assert_status("an encoding that is not read", &reply, &[code::UNIMPLEMENTED]);
    let read = reply.told("grpc-accept-encoding").unwrap_or_else(|| panic!("it says which are: {reply:?}"));
    assert!(read.contains("gzip"), "{reply:?}");
    still_well(&server);
}

#[test]
fn metadata_that_are_nonsense_are_refused_or_passed_over() {
    let server = Server::start(&[]);
    let mut connection = Connection::open(server.addr());
    let any = [code::OK, code::INVALID_ARGUMENT, code::NOT_FOUND, 9, code::UNIMPLEMENTED, code::INTERNAL, 16, 4];
    for (name, value) in [
        ("grpc-timeout", ""),
        ("grpc-timeout", "S"),
        ("grpc-timeout", "10"),
        ("grpc-timeout", "-1S"),
        ("grpc-timeout", "1000000000S"),
        ("grpc-timeout", "99999999H"),
        ("grpc-timeout", "1X"),
        ("grpc-timeout", "0n"),
        ("a2a-version", "x"),
        ("a2a-version", "99999999999999999999.0"),
        ("last-event-id", "+"),
        ("last-event-id", ".+1"),
        ("last-event-id", "x.1+99999999999999999999"),
        ("last-event-id", "x.18446744073709551615+18446744073709551615"),
        ("traceparent", "00-xyz"),
        ("idempotency-key", ""),
        ("authorization", "Bearer"),
        ("grpc-accept-encoding", ",,,"),
        ("grpc-encoding", ""),
        ("x-something-bin", "!!!"),
        ("grpc-status-details-bin", "AAAA"),
    ] {
        for method in ["SendMessage", "SendStreamingMessage"] {
            let call = Call::new(&format!("{V1}/{method}")).header(name, value).message(&hello());
            assert_status(&format!("{method} {name}: {value}"), &connection.call(&call), &any);
        }
    }
    still_well(&server);
}

#[test]
fn bombs_are_stopped_at_the_limit() {
    let _alone = alone();
    let server = Server::start(&[]);
    // A quarter of a gigabyte in a quarter of a megabyte.
    let bomb = grpc::compressed(&grpc::gzip(&vec![0; 256 << 20]));
    assert!(bomb.len() < 1 << 20, "{} bytes", bomb.len());
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let mut connection = Connection::open(server.addr());
                for _ in 0..4 {
                    let reply = connection.call(&send().header("grpc-encoding", "gzip").body(&bomb));
                    assert_status("a bomb", &reply, &[TOO_LARGE, &[code::UNAVAILABLE]].concat());
                }
            });
        }
    });
    assert_modest(&server, "bombs");
}

#[test]
fn large_messages_are_bounded_one_by_one_and_together() {
    let _alone = alone();
    let server = Server::start(&[]);
    let large = proto::send_v1(&proto::field(1, vec![b'x'; BODY]));
    let nearly = proto::send_v1(&proto::field(1, vec![b'x'; BODY / 2]));
    let mut connection = Connection::open(server.addr());
    let reply = connection.try_call(&send().message(&large));
    match reply {
        Ok(reply) => assert_status("above the limit", &reply, TOO_LARGE),
        // The answer may be lost where the request is not read to its end.
        Err(error) => assert!(error.is_reset() || error.is_go_away(), "{error}"),
    }
    std::thread::scope(|scope| {
        for _ in 0..48 {
            scope.spawn(|| {
                let reply = Connection::open(server.addr()).try_call(&send().message(&nearly));
                if let Ok(reply) = reply {
                    assert_status("with many others", &reply, &[code::OK, code::UNAVAILABLE, code::RESOURCE_EXHAUSTED]);
                }
            });
        }
    });
    assert_modest(&server, "large messages");
}

#[test]
fn floods_of_resets_are_endured() {
    let _alone = alone();
    let server = Server::start(&[]);
    let calls = [
        send().message(&hello()),
        send().body(&[0, 0]),
        Call::new(&format!("{V1}/SendStreamingMessage")).message(&hello()),
    ];
    std::thread::scope(|scope| {
        for call in &calls {
            let server = &server;
            scope.spawn(move || {
                let mut left = 5_000_usize;
                while left > 0 {
                    // A server may end a connection that does this; the next one goes on.
                    let mut connection = Connection::open(server.addr());
                    let each = left.min(500);
                    drop(connection.flood(call, each));
                    left -= each;
                }
            });
        }
    });
    assert_modest(&server, "floods of resets");
}

#[test]
fn watchers_that_leave_are_forgotten() {
    let _alone = alone();
    let server = Server::start(&[]);
    let agent = server.agent("scripted");
    let waiting = agent.open(e2e::script(serde_json::json!([{ "status": "working" }, { "hang": true }])));
    let id = waiting["id"].as_str().unwrap();
    let watch =
        Call::new(&format!("{V1}/SubscribeToTask")).header("x-a2a-agent", "scripted").message(&proto::field(2, id));
    for _ in 0..20 {
        let mut connection = Connection::open(server.addr());
        for _ in 0..50 {
            connection.leave(&watch);
        }
    }
    assert_eq!(agent.task(id)["status"]["state"], "TASK_STATE_WORKING");
    agent.rpc("CancelTask", serde_json::json!({ "id": id })).unwrap();
    assert_modest(&server, "watchers that leave");
}

/// Mutated calls of every method: `RIALTO_SEED` repeats a run.
#[test]
fn mutated_calls_get_a_status() {
    let mut random = Random::from_env("hostile gRPC");
    let server = Server::start(&[]);
    let settled = server.agent("echo").send(message("settled"))["id"].as_str().unwrap().to_owned();
    let by_name = proto::field(1, format!("tasks/{settled}"));
    let seeds: Vec<(String, Vec<u8>)> = vec![
        (format!("{V1}/SendMessage"), hello()),
        (format!("{V1}/SendMessage"), proto::send_v1(&proto::field(4, crate::deep::deep_value(5, false)))),
        (format!("{V1}/SendStreamingMessage"), hello()),
        (format!("{V1}/GetTask"), [proto::field(2, &settled), proto::number(3, 1)].concat()),
        (
            format!("{V1}/ListTasks"),
            [proto::number(4, 3), proto::number(8, 1), proto::field(7, proto::number(1, 5))].concat(),
        ),
        (format!("{V1}/CancelTask"), proto::field(2, &settled)),
        (format!("{V1}/SubscribeToTask"), proto::field(2, &settled)),
        (
            format!("{V1}/CreateTaskPushNotificationConfig"),
            [proto::field(3, &settled), proto::field(4, "http://127.0.0.1:9/")].concat(),
        ),
        (format!("{V1}/ListTaskPushNotificationConfigs"), proto::field(1, &settled)),
        (format!("{V03}/SendMessage"), proto::send_v03(&proto::field(1, "hello"))),
        (format!("{V03}/GetTask"), by_name.clone()),
        (format!("{V03}/CancelTask"), by_name.clone()),
        (format!("{V03}/TaskSubscription"), by_name),
        ("/grpc.health.v1.Health/Check".to_owned(), proto::field(1, "a2a.v1.A2AService")),
    ];
    let any: Vec<u32> = (0..=16).filter(|status| *status != 2).collect();
    let mut connection = Connection::open(server.addr());
    for _ in 0..1_500 {
        let (path, seed) = &seeds[random.between(0, seeds.len() as u64) as usize];
        let mut bytes = seed.clone();
        for _ in 0..random.between(1, 4) {
            let at = random.between(0, bytes.len() as u64 + 1) as usize;
            match random.between(0, 4) {
                0 if at < bytes.len() => bytes[at] = random.between(0, 256) as u8,
                1 => bytes.truncate(at),
                2 => bytes.insert(at.min(bytes.len()), random.between(0, 256) as u8),
                _ if at < bytes.len() => {
                    let end = (at + random.between(1, 20) as usize).min(bytes.len());
                    let piece = bytes[at..end].to_vec();
                    bytes.splice(at..at, piece);
                }
                _ => {}
            }
        }
        let row = format!("{path} {bytes:02x?}");
        let body = if random.chance(80) { grpc::frame(&bytes) } else { bytes };
        match connection.try_call(&Call::new(path).body(&body)) {
            Ok(reply) => assert_status(&row, &reply, &any),
            Err(error) => panic!("{row}: {error}"),
        }
    }
    still_well(&server);
}
