//! A full disk. The server runs in its own mount namespace, where its data folder is a small file system in memory
//! that the test can enlarge.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use e2e::client::{assert_rest_fault, message, script, send};
use e2e::grpc::{Call, Connection, proto};
use e2e::poll::{PATIENCE, until};
use e2e::server::Server;
use serde_json::json;

/// Mounts 6 MiB over the folder after `--data`, then becomes the server.
const MOUNT_AND_RUN: &str = r#"
    previous=
    for argument; do
        [ "$previous" != --data ] || data=$argument
        previous=$argument
    done
    mkdir -p "$data" && mount -t tmpfs -o size=6m tmpfs "$data" && exec "$@"
"#;

fn on_a_small_disk() -> Server {
    let wrapper = ["unshare", "-Urm", "sh", "-c", MOUNT_AND_RUN, "sh"].map(OsString::from);
    Server::options().sqlite_only("a full disk").under(&wrapper).start()
}

fn make_room(server: &Server) {
    let pid = server.pid().to_string();
    let data = server.data();
    let done = Command::new("nsenter")
        .args(["-t", &pid, "-U", "-m", "--preserve-credentials", "mount", "-o", "remount,size=64m"])
        .arg(&data)
        .status()
        .expect("nsenter runs");
    assert!(done.success(), "the disk could not be made larger");
}

/// A file of another program on the small disk.
fn ballast(server: &Server, script: &str) {
    let done = Command::new("nsenter")
        .args(["-t", &server.pid().to_string(), "-U", "-m", "--preserve-credentials", "sh", "-c", script, "sh"])
        .arg(server.data())
        .status()
        .expect("nsenter runs");
    assert!(done.success(), "{script}");
}

/// Callers that retry all the time keep the writer busy, and the free space that returns is smaller than a
/// write-ahead log of the usual length.
#[test]
fn a_small_disk_heals_with_a_little_room_though_callers_never_stop_asking() {
    let server = on_a_small_disk();
    let echo = server.agent("echo");
    ballast(&server, "head -c 1048576 /dev/zero > \"$1/theirs\"");
    let filler = "y".repeat(60_000);
    let post = || echo.rest("POST", "/message:send", Some(&send(message(&filler)))).status();
    until("the disk is full", PATIENCE, || (post() != 200).then_some(()));
    until("it stays so", PATIENCE, || (0..5).all(|_| post() == 503).then_some(()));
    ballast(&server, "rm \"$1/theirs\"");
    let mut taken = 0;
    until("some of the room is used", PATIENCE, || {
        taken += u32::from(post() == 200);
        (taken >= 5).then_some(())
    });
}

/// A mount namespace that outlives its servers, and ends with the test.
struct Namespace(Child);

impl Namespace {
    fn new() -> Namespace {
        let mut child = Command::new("unshare")
            .args(["-Urm", "sh", "-c", "echo ready; exec sleep 600"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare runs");
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Namespace(child)
    }

    fn wrapper(&self, script: &str) -> Vec<OsString> {
        let pid = self.0.id().to_string();
        let words = ["nsenter", "-t", &pid, "-U", "-m", "--preserve-credentials", "sh", "-c", script, "sh"];
        words.map(OsString::from).to_vec()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_server_with_shops_starts_on_a_full_disk_and_takes_work_when_there_is_room() {
    let namespace = Namespace::new();
    let config = "agents: { echo: { kind: echo } }\naly: { sites: { acme: { workspace: acme } } }\n";
    let script = MOUNT_AND_RUN.replace("mkdir -p", "mountpoint -q \"$data\" && exec \"$@\"; mkdir -p");
    let options = Server::options().sqlite_only("a full disk").reads_only().config(config);
    let mut server = options.under(&namespace.wrapper(&script)).start();
    let echo = server.agent("echo");
    let kept = echo.send(message("before"));
    let filler = "y".repeat(60_000);
    let post = || server.agent("echo").rest("POST", "/message:send", Some(&send(message(&filler)))).status();
    until("the disk is full", PATIENCE, || (post() != 200).then_some(()));
    // Up to the last byte; the write error is expected.
    ballast(&server, "head -c 67108864 /dev/zero > \"$1/theirs\" 2> /dev/null; true");
    server.kill9();
    server.restart();
    let echo = server.agent("echo");
    assert_eq!(echo.task(kept["id"].as_str().unwrap())["artifacts"], kept["artifacts"]);
    assert_eq!(echo.rest("POST", "/message:send", Some(&send(message(&filler)))).status(), 503);
    ballast(&server, "rm \"$1/theirs\"");
    make_room(&server);
    until("new work is taken again", PATIENCE, || {
        (echo.rest("POST", "/message:send", Some(&send(message("after")))).status() == 200).then_some(())
    });
}

#[test]
fn a_full_disk_refuses_new_work_keeps_reading_and_recovers_by_itself() {
    let server = on_a_small_disk();
    let (echo, scripted) = (server.agent("echo"), server.agent("scripted"));
    let kept = echo.send(message("before"));
    let steps = json!([
        {"status": "working"},
        {"artifact": {"name": "a", "parts": [{"text": "x"}]}, "chunks": 400, "every_ms": 10},
        {"complete": "done"},
    ]);
    let mut stream = scripted.stream("SendStreamingMessage", send(script(steps))).unwrap();
    let task = stream.take().task().to_owned();

    let filler = "y".repeat(60_000);
    let refused = until("the disk is full", PATIENCE, || {
        let response = echo.rest("POST", "/message:send", Some(&send(message(&filler))));
        (response.status() != 200).then_some(response)
    });
    assert_rest_fault(&refused, 503, "UNAVAILABLE", "UNAVAILABLE");
    assert!(refused.json()["error"]["message"].as_str().unwrap().contains("disk is full"), "{}", refused.text());
    let error = echo.rpc("SendMessage", send(message(&filler))).unwrap_err();
    assert_eq!(error["code"], -32053, "{error}");
    until("the server says that it is not ready", PATIENCE, || {
        let _ = echo.rest("POST", "/message:send", Some(&send(message(&filler))));
        (server.get("/readyz").status() == 503).then_some(())
    });

    // Acknowledged tasks stay, and can be read.
    assert_eq!(echo.task(kept["id"].as_str().unwrap())["artifacts"], kept["artifacts"]);
    assert!(echo.rpc("ListTasks", json!({"pageSize": 1})).unwrap()["totalSize"].as_u64().unwrap() > 0);
    assert_eq!(server.get("/healthz").status(), 200);

    make_room(&server);
    until("new work is taken again", PATIENCE, || {
        (echo.rest("POST", "/message:send", Some(&send(message("after")))).status() == 200).then_some(())
    });
    server.until_ready();

    // The running turn paused and lost nothing.
    let rest = stream.rest();
    assert_eq!(rest.last().and_then(|frame| frame.state()).as_deref(), Some("TASK_STATE_COMPLETED"));
    let done = scripted.settled(&task);
    assert_eq!(done["artifacts"][0]["parts"], json!([{ "text": "x".repeat(400) }]));
}

#[test]
fn the_health_service_of_grpc_says_not_serving_while_the_disk_is_full_and_serving_again_after() {
    const SERVING: [u8; 2] = [8, 1];
    const NOT_SERVING: [u8; 2] = [8, 2];
    let health = |method: &str, service: &str| {
        Call::new(&format!("/grpc.health.v1.Health/{method}")).message(&proto::field(1, service))
    };
    let services = ["", "lf.a2a.v1.A2AService", "a2a.v1.A2AService"];
    let server = on_a_small_disk();
    let echo = server.agent("echo");
    let checked = |service: &str| {
        let reply = Connection::open(server.addr()).call(&health("Check", service));
        assert_eq!(reply.status(), Some(0), "{reply:?}");
        reply.messages().remove(0).1
    };
    let connection = Connection::open(server.addr());
    let mut watches = services.map(|service| connection.open_stream(&health("Watch", service)));
    for watch in &mut watches {
        assert_eq!(watch.message().as_deref(), Some(&SERVING[..]));
    }
    let filler = "y".repeat(60_000);
    until("the disk is full", PATIENCE, || {
        echo.rest("POST", "/message:send", Some(&send(message(&filler))));
        (checked("") == NOT_SERVING).then_some(())
    });
    // The last pages of the disk: no small write may find room in the meantime.
    ballast(&server, "head -c 67108864 /dev/zero > \"$1/theirs\" 2> /dev/null; true");
    for (service, watch) in services.iter().zip(&mut watches) {
        assert_eq!(watch.message().as_deref(), Some(&NOT_SERVING[..]), "{service:?}");
        assert_eq!(checked(service), NOT_SERVING, "{service:?}");
    }
    ballast(&server, "rm \"$1/theirs\"");
    make_room(&server);
    for (service, watch) in services.iter().zip(&mut watches) {
        // A store that heals may fail once more before it has room.
        until("a watcher is told that it serves again", PATIENCE, || (watch.message()? == SERVING).then_some(()));
        until("a check says so", PATIENCE, || (checked(service) == SERVING).then_some(()));
    }
}
