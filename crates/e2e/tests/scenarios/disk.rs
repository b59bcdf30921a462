//! A disk that is full. The server runs in a mount namespace of its own, where its data folder is a small file system in
//! memory that the test can make larger.

use std::ffi::OsString;
use std::process::Command;

use e2e::client::{assert_rest_fault, message, script, send};
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

    // What was told stays told, and can be asked for.
    assert_eq!(echo.task(kept["id"].as_str().unwrap())["artifacts"], kept["artifacts"]);
    assert!(echo.rpc("ListTasks", json!({"pageSize": 1})).unwrap()["totalSize"].as_u64().unwrap() > 0);
    assert_eq!(server.get("/healthz").status(), 200);

    make_room(&server);
    until("new work is taken again", PATIENCE, || {
        (echo.rest("POST", "/message:send", Some(&send(message("after")))).status() == 200).then_some(())
    });
    assert_eq!(server.get("/readyz").status(), 200);

    // The turn that was at work paused and lost nothing.
    let rest = stream.rest();
    assert_eq!(rest.last().and_then(|frame| frame.state()).as_deref(), Some("TASK_STATE_COMPLETED"));
    let done = scripted.settled(&task);
    assert_eq!(done["artifacts"][0]["parts"].as_array().unwrap().len(), 400);
}
