//! Attacks on the server's memory. Each test attacks a server with its default limits; the peak memory of the
//! process, as the kernel counts it, must stay below the limit in docs/operations.md.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use e2e::grpc::{self, V1, V03, code, proto};
use e2e::http::{Connection, Request};
use e2e::{Server, message, script, until};
use serde_json::{Value, json};

/// The documented limit.
const MOST_KIB: u64 = 512 << 10;
/// The largest accepted body.
const BODY: usize = 10 << 20;
/// Enough callers that a server which buffers all their bodies is far above the limit.
const STRANGERS: usize = 120;
/// Time limit for a busy machine.
const LONG: Duration = Duration::from_secs(240);

/// Held by each test: two concurrent attacks would leave a machine of two cores no time for the servers' answers.
fn alone() -> MutexGuard<'static, ()> {
    static ATTACK: Mutex<()> = Mutex::new(());
    ATTACK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Checks that the process stayed below the limit, and that it answers a caller with this key, if any.
fn assert_modest(server: &Server, key: Option<&str>, what: &str) {
    let peak = server.peak_kib();
    eprintln!("{what}: {} MiB at most", peak >> 10);
    assert!(peak <= MOST_KIB, "{what}: the server held {} MiB", peak >> 10);
    server.until_ready();
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": { "message": message("hi") } });
    let request = Request::new("POST", "/a2a/echo").header("A2A-Version", "1.0");
    let request = match key {
        Some(key) => request.header("Authorization", &format!("Bearer {key}")),
        None => request,
    };
    let answer = server.exchange(&request.json(&body));
    assert_eq!(answer.status(), 200, "{}", answer.text());
}

/// Many concurrent callers, each of which sends nearly all of a large body and then waits for an answer. Returns
/// their statuses; 0 for a closed connection.
fn nearly_whole_bodies(server: &Server) -> Vec<u16> {
    let addr = server.addr();
    let begin = move || -> std::io::Result<u16> {
        let mut connection = Connection::open(addr)?;
        let head = format!(
            "POST /a2a/echo HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\na2a-version: 1.0\r\ncontent-length: {BODY}\r\n\r\n"
        );
        connection.send_raw(head.as_bytes())?;
        let piece = vec![b' '; 64 << 10];
        for _ in 0..BODY / piece.len() - 1 {
            connection.send_raw(&piece)?;
        }
        Ok(connection.head()?.status)
    };
    let callers: Vec<_> = (0..STRANGERS).map(|_| thread::spawn(begin)).collect();
    callers.into_iter().map(|caller| caller.join().unwrap().unwrap_or(0)).collect()
}

#[test]
fn bodies_of_strangers_are_not_kept() {
    let _alone = alone();
    let config = "auth:\n  required: true\n  keys: [{ name: ann, tenant: t, key: 'env:ANN_KEY' }]\nagents:\n  echo: { kind: echo }\n";
    let server = Server::options().config(config).env("ANN_KEY", "secret-of-ann").start();
    let statuses = nearly_whole_bodies(&server);
    assert!(statuses.iter().all(|status| matches!(status, 401 | 0)), "{statuses:?}");
    assert!(statuses.contains(&401), "{statuses:?}");
    assert_modest(&server, Some("secret-of-ann"), "bodies of strangers");
}

#[test]
fn bodies_of_everybody_are_bounded_together() {
    let _alone = alone();
    // The first callers have room and never finish their bodies; the timeout ends them.
    let server = Server::options().config("timeouts: { body_ms: 4000 }\nagents:\n  echo: { kind: echo }\n").start();
    let statuses = nearly_whole_bodies(&server);
    assert!(statuses.iter().all(|status| matches!(status, 503 | 400 | 0)), "{statuses:?}");
    assert!(statuses.contains(&503), "{statuses:?}");
    assert_modest(&server, None, "bodies of everybody");
}

/// A call whose message is compressed.
fn zipped(service: &str, message: &[u8]) -> grpc::Call {
    let call = grpc::Call::new(&format!("{service}/SendMessage")).header("grpc-encoding", "gzip");
    call.body(&grpc::compressed(&grpc::gzip(message)))
}

/// A blocking send to the agent `scripted`, of nearly the largest size that is taken. Its answer leaves the message out.
fn nearly_the_limit(service: &str) -> Vec<u8> {
    let script = json!({ "script": [{ "status": "working" }, { "sleep_ms": 3000 }, { "complete": "done" }] });
    let filler = proto::field(1, vec![b'x'; BODY - (64 << 10)]);
    let head = [proto::field(1, e2e::fresh_id()), proto::number(4, 1)].concat();
    match service == V1 {
        true => {
            let script = proto::field(4, proto::value(&script));
            let message = [head, proto::field(5, script), proto::field(5, filler)].concat();
            [proto::field(2, message), proto::field(3, proto::number(3, 0))].concat()
        }
        false => {
            let script = proto::field(3, proto::field(1, proto::object(&script)));
            let message = [head, proto::field(5, script), proto::field(5, filler)].concat();
            // 0.3 has no way to leave it out.
            [proto::field(1, message), proto::field(2, proto::number(4, 1))].concat()
        }
    }
}

#[test]
fn compressed_bodies_of_blocking_sends_over_grpc_are_bounded_together() {
    let _alone = alone();
    let server = Server::start(&[]);
    let calls = [V1, V03].map(|service| zipped(service, &nearly_the_limit(service)).header("x-a2a-agent", "scripted"));
    let addr = server.addr();
    let statuses: Vec<Option<u32>> = thread::scope(|scope| {
        let callers: Vec<_> = (0..STRANGERS)
            .map(|nth| {
                let call = &calls[nth % 2];
                scope.spawn(move || grpc::Connection::open(addr).call(call).status())
            })
            .collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).collect()
    });
    let fits = [code::OK, code::UNAVAILABLE, code::RESOURCE_EXHAUSTED].map(Some);
    assert!(statuses.iter().all(|status| fits.contains(status)), "{statuses:?}");
    assert!(statuses.contains(&Some(code::OK)), "{statuses:?}");
    assert!(statuses.iter().any(|status| *status != Some(code::OK)), "{statuses:?}");
    assert_modest(&server, None, "compressed bodies of blocking sends");
}

/// A small compressed body is not decompressed for a caller without a credential.
#[test]
fn compressed_bodies_of_strangers_are_refused_as_theirs_whatever_is_in_them() {
    let _alone = alone();
    let config = "auth:\n  required: true\n  keys: [{ name: ann, tenant: t, key: 'env:ANN_KEY' }]\nagents:\n  echo: { kind: echo }\n";
    let server = Server::options().config(config).env("ANN_KEY", "secret-of-ann").start();
    for service in [V1, V03] {
        let text = |bytes: usize| {
            let part = proto::field(1, vec![b'x'; bytes]);
            if service == V1 { proto::send_v1(&part) } else { proto::send_v03(&part) }
        };
        let cut = grpc::compressed(&grpc::gzip(&vec![0; 1 << 20])[..200]);
        let cut = grpc::Call::new(&format!("{service}/SendMessage")).header("grpc-encoding", "gzip").body(&cut);
        let rows = [
            ("small", zipped(service, &text(10)), code::OK),
            ("above what is read of strangers", zipped(service, &text(20 << 10)), code::OK),
            ("nearly the largest", zipped(service, &text(BODY - (64 << 10))), code::OK),
            ("above the largest", zipped(service, &text(BODY + 1)), code::INVALID_ARGUMENT),
            ("no message", zipped(service, &vec![0xff; 1 << 20]), code::INVALID_ARGUMENT),
            ("cut off", cut, code::INVALID_ARGUMENT),
        ];
        for (row, call, known) in &rows {
            for (name, value) in [("x-nothing", "1"), ("authorization", "Bearer wrong-0123456789")] {
                let reply = grpc::Connection::open(server.addr()).call(&call.clone().header(name, value));
                // Up to the limit for strangers a message may be read and found wrong before its caller is looked at.
                let early = *row == "cut off" && reply.status() == Some(code::INVALID_ARGUMENT);
                let refused = reply.status() == Some(code::UNAUTHENTICATED);
                assert!(refused || early, "{service} {row} {name}: {reply:?}");
            }
            let ann = call.clone().header("authorization", "Bearer secret-of-ann");
            let reply = grpc::Connection::open(server.addr()).call(&ann);
            assert_eq!(reply.status(), Some(*known), "{service} {row}: {:?}", reply.words());
        }
    }
    let bomb = zipped(V1, &proto::send_v1(&proto::field(1, vec![b'x'; BODY - (64 << 10)])));
    thread::scope(|scope| {
        for _ in 0..STRANGERS {
            scope.spawn(|| {
                let reply = grpc::Connection::open(server.addr()).call(&bomb);
                assert_eq!(reply.status(), Some(code::UNAUTHENTICATED), "{reply:?}");
            });
        }
    });
    assert_modest(&server, Some("secret-of-ann"), "compressed bodies of strangers");
}

/// A script whose only artifact grows to about 40 MiB, in chunks that are too small to be stored outside the log.
fn long_winded(ends: &Value) -> Value {
    let piece = "x".repeat(40 << 10);
    json!({ "message": script(json!([{ "artifact": { "name": "a", "parts": [{ "text": piece }] }, "chunks": 1_000 }, { "status": "working", "text": "all said" }, ends])) })
}

fn turns_running(server: &Server) -> u64 {
    let text = server.get("/metrics").text();
    text.lines().find_map(|line| line.strip_prefix("a2a_turns_running ")).unwrap().parse().unwrap()
}

/// The status of an answer, however long a busy machine takes for it.
fn status(connection: &mut Connection) -> u16 {
    until("there is an answer", LONG, || match connection.head() {
        Ok(head) => Some(head.status),
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => None,
        Err(error) => panic!("the connection broke: {error}"),
    })
}

/// Sends a request and does not read the answer.
fn unread(server: &Server, agent: &str, method: &str, params: &Value) -> Connection {
    let mut connection = Connection::open(server.addr()).unwrap();
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let request = Request::new("POST", &format!("/a2a/{agent}")).header("A2A-Version", "1.0").json(&body);
    connection.send(&request).unwrap();
    connection
}

#[test]
fn turns_that_say_much_are_bounded_together() {
    let _alone = alone();
    let server = Server::start(&[]);
    let done = json!({ "complete": "done" });
    let streams: Vec<_> =
        (0..24).map(|_| unread(&server, "scripted", "SendStreamingMessage", &long_winded(&done))).collect();
    for mut stream in streams {
        // Some callers read to the end, and some are refused for lack of room.
        assert_eq!(status(&mut stream), 200);
    }
    until("every turn is over", LONG, || (turns_running(&server) == 0).then_some(()));
    assert_modest(&server, None, "turns that say much");
    let client = server.agent("scripted");
    let tasks = client.rpc("ListTasks", json!({ "pageSize": 50 })).unwrap();
    let states: Vec<&str> =
        tasks["tasks"].as_array().unwrap().iter().map(|task| task["status"]["state"].as_str().unwrap()).collect();
    assert!(states.iter().all(|state| matches!(*state, "TASK_STATE_COMPLETED" | "TASK_STATE_FAILED")), "{states:?}");
    assert!(states.contains(&"TASK_STATE_FAILED"), "{states:?}");
}

#[test]
fn large_answers_to_callers_who_do_not_read_are_bounded_together() {
    let _alone = alone();
    let server = Server::start(&[]);
    let client = server.agent("scripted");
    let settled = client.rpc("SendMessage", long_winded(&json!({ "complete": "done" })));
    let id = settled.expect("a task that completes")["task"]["id"].as_str().unwrap().to_owned();
    let open = client.stream("SendStreamingMessage", long_winded(&json!({ "sleep_ms": 600_000 }))).unwrap();
    let going = until("the other has begun", LONG, || {
        let tasks = client.rpc("ListTasks", json!({ "status": "TASK_STATE_WORKING" })).unwrap();
        tasks["tasks"][0]["id"].as_str().map(str::to_owned)
    });
    let get = json!({ "id": id });
    let resumed: Vec<_> = (0..16).map(|_| unread(&server, "scripted", "GetTask", &get)).collect();
    let follow = json!({ "id": going });
    let followed: Vec<_> = (0..16).map(|_| unread(&server, "scripted", "SubscribeToTask", &follow)).collect();
    for mut connection in resumed {
        let status = status(&mut connection);
        assert!(matches!(status, 200 | 503), "{status}");
    }
    for mut connection in followed {
        assert_eq!(status(&mut connection), 200);
    }
    assert_modest(&server, None, "large answers");
    drop(open);
}

#[test]
fn results_that_multiply_in_a_system_end_its_run() {
    let _alone = alone();
    // 333 steps of three nodes each, every one with the results of all before it as input.
    let mut config = String::from("agents:\n  echo: { kind: echo }\nsystems:\n  deep:\n    graph:\n");
    for step in 0..333 {
        for node in ["a", "b", "c"] {
            let next = step + 1;
            let edges = if next == 333 {
                String::new()
            } else {
                format!(", edges: [{{to: a{next}}}, {{to: b{next}}}, {{to: c{next}}}]")
            };
            config.push_str(&format!("      {node}{step}: {{ agent: echo{edges} }}\n"));
        }
    }
    let server = Server::options().config(&config).start();
    let task = server.agent("deep").send(message(&"x".repeat(2 << 10)));
    assert_eq!(task["status"]["state"], "TASK_STATE_FAILED", "{}", task["status"]);
    let words = task["status"]["message"]["parts"][0]["text"].as_str().unwrap();
    assert!(words.contains("bytes of input under way"), "{words}");
    assert_modest(&server, None, "results that multiply");
}
