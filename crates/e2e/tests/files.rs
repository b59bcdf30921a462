//! A file of five megabytes: by URL in every generation, in lists, streams and webhooks, across a restart; and
//! whole where the config says so.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

use e2e::http::Request;
use e2e::{Delivery, Receiver, Server, parts, send};
use serde_json::{Value, json};

const TIMES: usize = 1_666_667;

/// Five megabytes of `ABC`, as base64.
fn raw() -> String {
    "QUJD".repeat(TIMES)
}

fn file() -> Value {
    parts(json!([{ "raw": raw(), "filename": "a.bin", "mediaType": "application/x-abc" }]))
}

/// The only URL in an answer, which has no bytes beside it.
fn address(answer: &Value) -> String {
    let text = answer.to_string();
    assert!(text.len() < 50_000, "{} bytes", text.len());
    let found: Vec<&str> = text.match_indices("/files/").map(|(at, _)| &text[..at]).collect();
    assert!(!found.is_empty(), "{text}");
    let begin = found[0].rfind('"').unwrap() + 1;
    let end = begin + text[begin..].find('"').unwrap();
    text[begin..end].to_owned()
}

fn fetch(server: &Server, url: &str, range: Option<&str>) -> e2e::http::Response {
    let path = url.strip_prefix(&server.url()).unwrap_or_else(|| panic!("{url} is not of {}", server.url()));
    let request = Request::new("GET", path);
    server.exchange(&range.map_or(request.clone(), |range| request.header("Range", range)))
}

/// Checks that the end of the file can be fetched.
fn is_there(server: &Server, answer: &Value) {
    let end = fetch(server, &address(answer), Some("bytes=-3"));
    let range = end.head.header("content-range");
    assert_eq!((end.status(), range, &*end.text()), (206, Some("bytes 4999998-5000000/5000001"), "ABC"), "{answer}");
}

#[test]
fn a_large_file_is_shown_by_its_address_and_fetched_from_there() {
    let mut server = Server::options().start();
    let echo = server.agent("echo");
    let receiver = Receiver::start();
    let mut params = send(file());
    params["configuration"] =
        json!({ "historyLength": 0, "taskPushNotificationConfig": { "url": receiver.url("/hook"), "token": "t" } });
    let sent = echo.rpc("SendMessage", params).unwrap_or_else(|error| panic!("{error}"));
    let (id, url) = (sent["task"]["id"].as_str().unwrap().to_owned(), address(&sent));
    assert!(url.starts_with(&server.url()), "{url}");

    let old = |method: &str| {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": { "id": id } });
        server.exchange(&Request::new("POST", "/a2a/echo").json(&body)).json()
    };
    let whole = json!({ "includeArtifacts": true });
    let answers = [
        echo.rpc("GetTask", json!({ "id": id })).unwrap(),
        echo.rpc("ListTasks", whole).unwrap(),
        echo.rest("GET", &format!("/tasks/{id}"), None).json(),
        server.get(&format!("/a2a/echo/v1/tasks/{id}")).json(),
        old("tasks/get"),
    ];
    for answer in &answers {
        is_there(&server, answer);
    }
    let again = echo.with("Last-Event-ID", &format!("{id}.1")).stream("SubscribeToTask", json!({ "id": id }));
    let frames = again.unwrap_or_else(|error| panic!("{error}")).rest();
    let shown = frames.iter().map(e2e::Frame::event).find(|event| event.to_string().contains("artifactUpdate"));
    is_there(&server, &shown.expect("the artifact is in the stream"));

    let tells = |letter: &Delivery| letter.json().to_string().contains("/files/");
    let letters = receiver.until("the webhook tells of the file", |letters| letters.iter().any(tells));
    is_there(&server, &letters.iter().find(|letter| tells(letter)).unwrap().json());

    // The URL outlives the process that made it.
    server.kill9();
    server.restart();
    let got = fetch(&server, &url, None);
    assert_eq!((got.status(), got.head.media_type()), (200, "application/x-abc"));
    assert_eq!(got.head.header("content-disposition"), Some("attachment; filename=\"a.bin\"; filename*=UTF-8''a.bin"));
    assert!(got.body == b"ABC".repeat(TIMES), "five megabytes come back as they went in");
    let changed = fetch(&server, &url.replace("a.bin", "b.bin"), None);
    assert_eq!(changed.status(), 403, "{}", changed.text());
}

#[test]
fn files_are_whole_where_the_config_says_so() {
    let server = Server::options().config("files: { inline_max_bytes: off }\n").start();
    let mut params = send(file());
    params["configuration"] = json!({ "historyLength": 0 });
    let sent = server.agent("echo").rpc("SendMessage", params).unwrap_or_else(|error| panic!("{error}"));
    assert!(sent["task"]["artifacts"][0]["parts"][0]["raw"] == raw(), "all of it, as it came");
}
