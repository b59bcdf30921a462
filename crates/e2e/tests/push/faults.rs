//! Receivers that fail, hang, redirect, break off or refuse further deliveries.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use e2e::{Receiver, Reply, Server, until};
use serde_json::json;

use crate::{chunks, hasty, is_over, numbers, open_with, push, told};

/// Answers `bad` to the first `times` requests, then 200.
fn at_first(receiver: &Receiver, times: usize, bad: Reply) {
    let mut left = times;
    receiver.answers(move |_| {
        if left == 0 {
            return Reply::Status(200);
        }
        left -= 1;
        bad.clone()
    });
}

#[test]
fn whatever_a_receiver_does_at_first_everything_arrives_in_order() {
    let server = hasty();
    let elsewhere = Receiver::start();
    let away = elsewhere.url("/elsewhere");
    for bad in [
        Reply::Status(500),
        Reply::Status(404),
        Reply::With(503, "retry-after", "0".into()),
        Reply::With(307, "location", away.clone()),
        Reply::With(302, "location", away),
        Reply::Hang,
        Reply::Close,
    ] {
        let receiver = Receiver::start();
        at_first(&receiver, 3, bad.clone());
        let client = server.agent("scripted");
        let task = open_with(&client, &chunks(), &receiver.url("/hook"));
        let all = receiver.until(&format!("everything arrived after {bad:?}"), is_over);
        let first = all[0].event();
        assert!(
            all.len() > 3 && all[1..=3].iter().all(|delivery| delivery.event() == first),
            "{bad:?}: the same again"
        );
        assert_eq!(numbers(&receiver, "/hook"), told(&client, &task), "{bad:?}");
    }
    assert_eq!(elsewhere.accepted(), 0, "a redirect is not followed");
}

#[test]
fn a_receiver_that_breaks_off_after_a_good_head_has_taken_it() {
    let (server, receiver) = (hasty(), Receiver::start());
    receiver.answers(|_| Reply::BreakOff);
    let client = server.agent("scripted");
    let task = open_with(&client, &chunks(), &receiver.url("/hook"));
    let all = receiver.until("everything arrived", is_over);
    let seqs: Vec<u64> = all.iter().map(|delivery| delivery.event().1).collect();
    assert_eq!(seqs, told(&client, &task), "each once");
}

#[test]
fn a_receiver_that_is_gone_is_left_alone_until_an_operator_asks_again() {
    let (server, receiver) = (hasty(), Receiver::start());
    let taken = Arc::new(AtomicUsize::new(0));
    let counting = taken.clone();
    receiver.answers(
        move |_| {
            if counting.fetch_add(1, Ordering::SeqCst) < 2 { Reply::Status(200) } else { Reply::Status(410) }
        },
    );
    let client = server.agent("scripted");
    let task = open_with(&client, &chunks(), &receiver.url("/hook"));
    client.settled(&task);
    let dead = until("the config is given up", e2e::poll::PATIENCE, || {
        let listed = push(&server, &["list", "--state", "dead"]);
        listed["deliveries"].as_array().filter(|list| !list.is_empty()).map(|list| list[0].clone())
    });
    assert_eq!(dead["task"], task);
    assert_eq!(dead["delivered"], 2, "{dead}");
    assert!(dead["trouble"].as_str().unwrap().contains("410"), "{dead}");
    assert_eq!(taken.load(Ordering::SeqCst), 3, "no attempt after 410");

    receiver.answers(|_| Reply::Status(200));
    let again = push(&server, &["redeliver", &task]);
    assert_eq!(again["redelivered"], 1, "{again}");
    receiver.until("the rest arrived", is_over);
    assert_eq!(numbers(&receiver, "/hook"), told(&client, &task));
    until("it is done", e2e::poll::PATIENCE, || {
        let listed = push(&server, &["list", "--task", &task]);
        (listed["deliveries"][0]["state"] == "done").then_some(())
    });
    // From the beginning, on request.
    let before = receiver.deliveries().len();
    push(&server, &["redeliver", &task, "--from", "1"]);
    let all = receiver.until("everything arrived again", |all| all.len() >= before + told(&client, &task).len());
    assert_eq!(all[before].event().1, 1);
}

#[test]
fn a_slow_receiver_delays_nobody_else() {
    let server = Server::options().config("push: { timeout_ms: 20000 }\n").start();
    let (slow, quick) = (Receiver::start(), Receiver::start());
    slow.answers(|_| Reply::Hang);
    let client = server.agent("scripted");
    for _ in 0..100 {
        open_with(&client, &json!([{ "complete": "x" }]), &slow.url("/slow"));
    }
    let task = open_with(&client, &chunks(), &quick.url("/quick"));
    quick.until("the quick one has everything", is_over);
    assert_eq!(numbers(&quick, "/quick"), told(&client, &task));
}

#[test]
fn an_endpoint_that_keeps_failing_is_not_hammered() {
    let server = Server::options().config("push: { retry_ms: 20, breaker_ms: 3600000 }\n").start();
    let receiver = Receiver::start();
    receiver.answers(|_| Reply::Status(500));
    let client = server.agent("scripted");
    for _ in 0..30 {
        open_with(&client, &json!([{ "complete": "x" }]), &receiver.url("/hook"));
    }
    until("the breaker is open", e2e::poll::PATIENCE, || {
        let metrics = server.get("/metrics").text();
        metrics.lines().any(|line| line.starts_with("a2a_push_breakers_open") && line.ends_with(" 1")).then_some(())
    });
    let attempts = receiver.deliveries().len();
    assert!(attempts < 60, "{attempts} attempts at an endpoint that failed five times in a row");
    // Another task: nothing is sent while the breaker is open.
    let task = open_with(&client, &json!([{ "complete": "x" }]), &receiver.url("/hook"));
    client.settled(&task);
    receiver.answers(|_| Reply::Status(200));
    push(&server, &["redeliver", &task]);
    receiver.until("an operator closes it", is_over);
}

#[test]
fn nothing_is_sent_where_it_must_not_go() {
    let server = hasty();
    let client = server.agent("scripted");
    for (url, why) in [
        ("http://10.0.0.1/hook", "private"),
        ("https://192.168.1.1/hook", "private"),
        ("https://169.254.169.254/latest/meta-data", "link-local"),
        ("https://[fd00::1]/hook", "private"),
        ("https://[::ffff:10.0.0.1]/hook", "mapped"),
        ("http://example.com/hook", "not https"),
        ("ftp://example.com/hook", "not http"),
        ("https://user:pass@example.com/hook", "credentials in the address"),
        ("https://0.0.0.0/hook", "nowhere"),
        ("nonsense", "not an address"),
    ] {
        let params = json!({
            "message": e2e::message("hi"),
            "configuration": { "taskPushNotificationConfig": { "url": url } },
        });
        let error = client.rpc("SendMessage", params).unwrap_err();
        assert_eq!(error["code"], -32602, "{url} ({why}): {error}");
    }
    let listed = client.rpc("ListTasks", json!({})).unwrap();
    assert_eq!(listed["totalSize"], 0, "a send with a bad config opens nothing");
}

#[test]
fn a_server_that_is_not_on_loopback_delivers_to_no_loopback_address() {
    let receiver = Receiver::start();
    let port = receiver.addr().port();
    let folder = tempfile::tempdir().unwrap();
    let config = "auth:\n  required: true\n  keys: [{ name: ada, tenant: north, key: \"env:E2E_KEY\" }]\npush: { retry_ms: 20 }\n";
    std::fs::write(folder.path().join("rialto.yaml"), config).unwrap();
    let options = Server::options().config(config).env("E2E_KEY", "ada-0123456789abcdef");
    let addr = std::net::SocketAddr::from(([0, 0, 0, 0], e2e::server::free_address().port()));
    let mut child = Server::command(&options, &addr.to_string(), folder.path())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let here = std::net::SocketAddr::from(([127, 0, 0, 1], addr.port()));
    let client = e2e::Client::new(here, "/a2a/scripted").with("X-Api-Key", "ada-0123456789abcdef");
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        until("the server is ready", e2e::poll::PATIENCE, || client.try_rpc("ListTasks", json!({})).ok().map(drop));
        for url in [
            format!("http://127.0.0.1:{port}/x"),
            format!("https://127.0.0.1:{port}/x"),
            format!("http://localhost:{port}/x"),
            format!("https://localhost:{port}/x"),
        ] {
            let params = json!({
                "message": e2e::message("hi"),
                "configuration": { "taskPushNotificationConfig": { "url": url } },
            });
            let error = client.rpc("SendMessage", params).unwrap_err();
            assert_eq!(error["code"], -32602, "{url}: {error}");
        }
        assert_eq!(receiver.accepted(), 0, "no connection was made");
    }));
    let _ = child.kill();
    let _ = child.wait();
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}
