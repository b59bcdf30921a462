//! Calls to other servers that an admin composes, and receivers of webhooks.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use e2e::http::{Connection, Request, Response};
use e2e::{Events, Receiver, Reply, Server, fresh_id, message, poll, until};
use serde_json::{Value, json};

use crate::{AGENTS, Api, agent, audit, key, problem, start};

/// Callers may come from elsewhere, so that addresses of this machine are not for them.
const BEHIND_A_PROXY: &str = "trusted_proxies: ['192.0.2.1']\n";

fn admin(server: &Server) -> Api<'_> {
    Api::made(server, "default", &["admin"])
}

fn call(api: &Api<'_>, body: &Value) -> Response {
    api.send("POST", "/playground:call", body)
}

/// The events of a call that was made.
fn events(response: &Response) -> Vec<Value> {
    assert_eq!(response.status(), 200, "{}", response.text());
    assert_eq!(response.head.media_type(), "text/event-stream");
    let text = response.text();
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap()).collect()
}

fn body_of(events: &[Value]) -> Vec<u8> {
    let pieces = events.iter().filter(|event| event["kind"] == "body");
    pieces.flat_map(|event| BASE64.decode(event["base64"].as_str().unwrap()).unwrap()).collect()
}

fn header<'a>(event: &'a Value, name: &str) -> Option<&'a str> {
    let pair = event["headers"].as_array()?.iter().find(|pair| pair[0] == name)?;
    pair[1].as_str()
}

#[test]
fn a_call_reaches_another_server_as_it_was_composed_and_its_answer_comes_back() {
    let (server, other) = (start(""), Server::options().config(AGENTS).start());
    let api = admin(&server);
    let url = format!("{}/a2a/scripted", other.url());
    let headers = json!([
        { "name": "A2A-Version", "value": "1.0" },
        { "name": "Content-Type", "value": "application/json" },
        { "name": "X-Request-Id", "value": "composed" },
    ]);
    let params = json!({ "message": message("from afar") });
    let rpc = |method: &str| json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params }).to_string();
    let sent = call(&api, &json!({ "url": url, "method": "POST", "headers": headers, "body": rpc("SendMessage") }));
    let all = events(&sent);
    assert_eq!(
        (&all[0]["kind"], &all[0]["status"], &all[0]["version"]),
        (&json!("head"), &json!(200), &json!("HTTP/1.1"))
    );
    assert_eq!(header(&all[0], "x-request-id"), Some("composed"));
    assert_eq!(all.last().unwrap()["kind"], "end");
    let answer: Value = serde_json::from_slice(&body_of(&all)).unwrap();
    assert_eq!(answer["result"]["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{answer}");
    // The same as bytes, and as a stream.
    let bytes = BASE64.encode(rpc("SendStreamingMessage"));
    let streamed = call(&api, &json!({ "url": url, "method": "POST", "headers": headers, "bodyBase64": bytes }));
    let all = events(&streamed);
    assert_eq!(header(&all[0], "content-type"), Some("text/event-stream"));
    let text = String::from_utf8(body_of(&all)).unwrap();
    assert!(text.contains("from afar") && text.contains("TASK_STATE_COMPLETED"), "{text}");
    assert!(all.windows(2).all(|pair| pair[0]["ms"].as_u64() <= pair[1]["ms"].as_u64()), "{all:?}");
}

#[test]
fn a_line_of_the_audit_log_names_the_server_and_no_more() {
    let (server, upstream) = (start(""), Receiver::start());
    let api = admin(&server);
    let headers = json!([{ "name": "Authorization", "value": "Bearer secret-in-header" }]);
    let url = upstream.url("/secret-path?key=secret-query");
    let before = audit(&server).len();
    let all = events(&call(&api, &json!({ "url": url, "method": "POST", "headers": headers, "body": "secret-body" })));
    assert_eq!(all[0]["status"], 200, "{all:?}");
    let lines = audit(&server).split_off(before);
    let [line] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!((&line["what"], &line["change"]), (&json!("playground"), &json!("called")));
    assert_eq!((&line["method"], &line["to"]), (&json!("POST"), &json!(format!("http://{}", upstream.addr()))));
    let delivered = upstream.deliveries();
    assert_eq!((delivered.len(), &*delivered[0].body), (1, &b"secret-body"[..]));
    assert_eq!(delivered[0].header("authorization"), Some("Bearer secret-in-header"));
    assert_eq!(delivered[0].header("cookie"), None);
    let log = std::fs::read_to_string(server.data().join("audit.log")).unwrap();
    assert!(!log.contains("secret-"), "{log}");
    assert!(!server.log().contains("secret-"), "{}", server.log());
}

#[test]
fn addresses_that_the_policy_does_not_allow_are_refused_with_the_reason() {
    let (local, proxied, upstream) = (start(""), start(BEHIND_A_PROXY), Receiver::start());
    let everywhere = [
        "http://169.254.169.254/latest/meta-data/",
        "http://[::ffff:a9fe:a9fe]/latest/meta-data/",
        "https://10.0.0.1/",
        "https://192.168.1.1/",
        "https://[fd00::1]/",
        "https://0.0.0.0/",
        "http://example.com/",
        "ftp://example.com/",
        "file:///etc/passwd",
        "https://user:password@example.com/",
        "https://example.com/#part",
        "/healthz",
        "",
    ];
    let own = upstream.url("/");
    let behind =
        ["http://localhost/", "https://127.0.0.1/", "https://2130706433/", "https://0x7f.1/", "https://[::1]/", &*own];
    for (server, urls) in [(&local, &everywhere[..]), (&proxied, &everywhere[..]), (&proxied, &behind[..])] {
        let api = admin(server);
        for url in urls {
            let refused = problem(&call(&api, &json!({ "url": url, "method": "GET" })), 400);
            assert_eq!(refused["field"], "url", "{url}: {refused}");
        }
        let made = audit(server).iter().filter(|line| line["what"] == "playground").count();
        assert_eq!(made, 0, "a refused call is none");
    }
    let refused = problem(&call(&admin(&proxied), &json!({ "url": own, "method": "GET" })), 400);
    assert!(refused["detail"].as_str().unwrap().contains("push.allow"), "{refused}");
    assert!(upstream.deliveries().is_empty());
    assert_eq!(events(&call(&admin(&local), &json!({ "url": own, "method": "GET" })))[0]["status"], 200);
    // An address that the operator lists is allowed.
    let listed = start(&format!("{BEHIND_A_PROXY}push: {{ allow: ['127.0.0.1:{}'] }}\n", upstream.addr().port()));
    assert_eq!(events(&call(&admin(&listed), &json!({ "url": own, "method": "GET" })))[0]["status"], 200);
}

#[test]
fn a_redirect_is_shown_and_not_followed() {
    let (server, upstream, target) = (start(""), Receiver::start(), Receiver::start());
    let to = target.url("/");
    upstream.answers(move |_| Reply::With(307, "location", to.clone()));
    let all = events(&call(&admin(&server), &json!({ "url": upstream.url("/"), "method": "POST", "body": "x" })));
    assert_eq!(all[0]["status"], 307, "{all:?}");
    assert_eq!(header(&all[0], "location"), Some(&*target.url("/")));
    assert!(target.deliveries().is_empty());
}

#[test]
fn headers_and_bodies_that_break_a_request_are_refused_by_name() {
    let (server, upstream) = (start(""), Receiver::start());
    let (api, url) = (admin(&server), upstream.url("/"));
    let with = |name: &str, value: &str| json!({ "url": url, "method": "POST", "headers": [{ "name": "x-a", "value": "b" }, { "name": name, "value": value }] });
    for name in [
        "Host",
        "content-length",
        "Transfer-Encoding",
        "Connection",
        "TE",
        "upgrade",
        "X-Forwarded-For",
        "a b",
        "a\r\nb",
        "",
    ] {
        let refused = problem(&call(&api, &with(name, "x")), 400);
        assert_eq!(refused["field"], "headers[1].name", "{name}: {refused}");
    }
    for value in ["a\r\nHost: other", "a\nb", "a\u{0}b", &*"x".repeat(9_000)] {
        let refused = problem(&call(&api, &with("x-b", value)), 400);
        assert_eq!(refused["field"], "headers[1].value", "{refused}");
    }
    let many: Vec<Value> = (0..65).map(|number| json!({ "name": format!("x-{number}"), "value": "" })).collect();
    for (body, field) in [
        (json!({ "url": url, "method": "POST", "headers": many }), "headers"),
        (json!({ "url": url, "method": "CONNECT" }), "method"),
        (json!({ "url": url, "method": "get" }), "method"),
        (json!({ "url": url, "method": "POST", "body": "a", "bodyBase64": "YQ==" }), "bodyBase64"),
        (json!({ "url": url, "method": "POST", "bodyBase64": "?" }), "bodyBase64"),
        (json!({ "url": url, "method": "GET", "follow": true }), "follow"),
    ] {
        let refused = problem(&call(&api, &body), 400);
        assert_eq!(refused["field"], field, "{refused}");
    }
    problem(&call(&api, &json!({ "url": url, "method": "POST", "body": "x".repeat(4 << 20) })), 413);
    assert!(upstream.deliveries().is_empty());
    let large = "x".repeat(1 << 20);
    assert_eq!(events(&call(&api, &json!({ "url": url, "method": "POST", "body": large })))[0]["status"], 200);
    assert_eq!(upstream.deliveries()[0].body.len(), 1 << 20);
}

#[test]
fn an_answer_is_cut_off_at_the_limit_and_one_that_does_not_come_is_a_problem() {
    let server = start("");
    let api = admin(&server);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let endless = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = [0; 1_024];
        let _ = stream.read(&mut head).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n").unwrap();
        let piece = [b'x'; 64 << 10];
        // Until the server closes the connection.
        let sent = (0..2_000_u64).take_while(|_| stream.write_all(&piece).is_ok()).count();
        assert!(sent < 2_000, "everything was read");
    });
    let all = events(&call(&api, &json!({ "url": url, "method": "GET" })));
    let last = all.last().unwrap();
    assert_eq!(last["kind"], "failed", "{last}");
    assert!(last["reason"].as_str().unwrap().contains("8388608"), "{last}");
    assert!(body_of(&all).len() <= 8 << 20);
    endless.join().unwrap();

    let gone = problem(&call(&api, &json!({ "url": url, "method": "GET" })), 502);
    assert!(gone["detail"].as_str().unwrap().contains("refused the connection"), "{gone}");
    let upstream = Receiver::start();
    upstream.answers(|_| Reply::Close);
    problem(&call(&api, &json!({ "url": upstream.url("/"), "method": "GET" })), 502);
}

#[test]
fn calls_at_a_time_are_bounded_and_end_with_their_callers() {
    let (server, upstream) = (start(""), Receiver::start());
    let api = admin(&server);
    upstream.answers(|delivery| if delivery.path == "/hang" { Reply::Hang } else { Reply::Status(200) });
    let hang = api.request("POST", "/playground:call").json(&json!({ "url": upstream.url("/hang"), "method": "GET" }));
    let open = || {
        let mut connection = Connection::open(server.addr()).unwrap();
        connection.send(&hang).unwrap();
        connection
    };
    let waiting: Vec<Connection> = (0..16).map(|_| open()).collect();
    until("every call has reached the other server", poll::PATIENCE, || {
        (upstream.deliveries().iter().filter(|one| one.path == "/hang").count() == 16).then_some(())
    });
    let quick = json!({ "url": upstream.url("/"), "method": "GET" });
    let refused = call(&api, &quick);
    problem(&refused, 429);
    assert!(refused.head.header("retry-after").is_some());
    drop(waiting);
    until("a call that nobody waits for has ended", poll::PATIENCE, || {
        (call(&api, &quick).status() == 200).then_some(())
    });
}

fn path_of(receiver: &Value, server: &Server) -> String {
    let url = receiver["url"].as_str().unwrap();
    url.strip_prefix(&server.url()).unwrap_or_else(|| panic!("{url} is not at {}", server.url())).to_owned()
}

fn post(server: &Server, path: &str, body: impl Into<Vec<u8>>) -> u16 {
    let request = Request::new("POST", path).header("content-type", "text/plain").header("x-a", "b").body(body);
    server.exchange(&request).status()
}

fn made(api: &Api<'_>) -> Value {
    let response = api.ask("POST", "/receivers");
    assert_eq!(response.status(), 201, "{}", response.text());
    response.json()
}

#[test]
fn a_receiver_shows_what_arrives_to_its_makers_tenant_alone() {
    let mut server = start("");
    let north = key(&server, "op", "north", &["operator"]);
    let south = key(&server, "other", "south", &["admin"]);
    let receiver = made(&Api::with(&server, &north.secret));
    let id = receiver["id"].as_str().unwrap().to_owned();
    let path = path_of(&receiver, &server);
    assert_eq!(receiver["refused"], Value::Null, "{receiver}");
    assert_eq!(post(&server, &path, "first"), 200);
    assert_eq!(post(&server, &path, vec![0xff, 0x00]), 200);
    let shown = Api::with(&server, &north.secret).get(&format!("/receivers/{id}"));
    assert_eq!(shown["receiver"]["url"], receiver["url"]);
    let requests = shown["requests"].as_array().unwrap();
    assert_eq!((&requests[0]["number"], &requests[0]["body"]), (&json!(1), &json!("first")));
    assert_eq!((&requests[1]["body"], &requests[1]["bodyBase64"]), (&Value::Null, &json!("/wA=")));
    assert_eq!(header(&requests[0], "x-a"), Some("b"));
    let later = Api::with(&server, &north.secret).get(&format!("/receivers/{id}?after=1"));
    assert_eq!(later["requests"].as_array().unwrap().len(), 1);

    let other = Api::with(&server, &south.secret);
    for (method, id) in [("GET", &*id), ("DELETE", &*id), ("GET", "none"), ("DELETE", "none")] {
        let mut refused = problem(&other.ask(method, &format!("/receivers/{id}")), 404);
        refused["instance"] = Value::Null;
        let mut unknown = problem(&other.ask(method, "/receivers/unknown"), 404);
        unknown["instance"] = Value::Null;
        assert_eq!(refused, unknown, "{method}");
    }
    assert!(!other.ask("GET", "/audit").text().contains(&id));
    let token = path.rsplit('/').next().unwrap().to_owned();
    assert!(!server.log().contains(&token), "{}", server.log());
    assert!(!std::fs::read_to_string(server.data().join("audit.log")).unwrap().contains(&token));
    problem(&Api::with(&server, &north.secret).ask("GET", &format!("/receivers/{token}")), 404);

    server.restart();
    assert_eq!(post(&server, &path, "late"), 404);
    let operator = Api::with(&server, &north.secret);
    problem(&operator.ask("GET", &format!("/receivers/{id}")), 404);
    let again = made(&operator);
    let path = path_of(&again, &server);
    let ended = operator.ask("DELETE", &format!("/receivers/{}", again["id"].as_str().unwrap()));
    assert_eq!(ended.status(), 200, "{}", ended.text());
    assert_eq!(post(&server, &path, "late"), 404);
}

#[test]
fn a_receiver_takes_small_posts_alone_and_its_number_and_memory_are_bounded() {
    let server = start("");
    let operator = Api::made(&server, "north", &["operator"]);
    let first = made(&operator);
    let path = path_of(&first, &server);
    let status = |method: &str, path: &str| server.exchange(&Request::new(method, path)).status();
    assert_eq!([status("GET", &path), status("PUT", &path), status("DELETE", &path)], [405; 3]);
    assert_eq!([post(&server, "/hooks/unknown", "x"), post(&server, &format!("{path}x"), "x")], [404; 2]);
    assert_eq!(post(&server, &path, vec![b'x'; (256 << 10) + 1]), 413);
    for _ in 0..6 {
        assert_eq!(post(&server, &path, vec![b'x'; 256 << 10]), 200);
    }
    let shown = |api: &Api<'_>, receiver: &Value| api.get(&format!("/receivers/{}", receiver["id"].as_str().unwrap()));
    let kept = shown(&operator, &first)["requests"].as_array().unwrap().len();
    assert_eq!(kept, 3, "no more than 1 MiB");
    let others: Vec<Value> = (0..7).map(|_| made(&operator)).collect();
    assert_eq!(shown(&operator, &first)["receiver"]["id"], first["id"]);
    let last = made(&operator);
    problem(&operator.ask("GET", &format!("/receivers/{}", first["id"].as_str().unwrap())), 404);
    assert_eq!(post(&server, &path, "x"), 404);
    for one in others.iter().chain([&last]) {
        assert_eq!(shown(&operator, one)["requests"], json!([]));
    }
}

#[test]
fn a_receiver_is_followed_live_and_resumed_without_a_gap() {
    let server = start("");
    let operator = Api::made(&server, "north", &["operator"]);
    let receiver = made(&operator);
    let (id, path) = (receiver["id"].as_str().unwrap(), path_of(&receiver, &server));
    let follow = |headers: &[(&str, &str)]| {
        let request = operator.request("GET", &format!("/receivers/{id}")).header("accept", "text/event-stream");
        let request = headers.iter().fold(request, |request, (name, value)| request.header(name, value));
        let mut connection = Connection::open(server.addr()).unwrap();
        connection.send(&request).unwrap();
        let head = connection.head().unwrap();
        if head.media_type() == "text/event-stream" { Ok(Events::new(connection, head)) } else { Err(head) }
    };
    assert_eq!(post(&server, &path, "one"), 200);
    let mut events = follow(&[]).unwrap();
    let number = |frame: &e2e::Frame| serde_json::from_str::<Value>(&frame.data).unwrap()["number"].as_u64().unwrap();
    let first = events.take();
    let known = format!("{id}.1");
    assert_eq!((number(&first), first.id.as_deref()), (1, Some(&*known)));
    assert_eq!(post(&server, &path, "two"), 200);
    assert_eq!(number(&events.take()), 2);
    drop(events);
    assert_eq!(post(&server, &path, "three"), 200);
    let mut resumed = follow(&[("last-event-id", &known)]).unwrap();
    assert_eq!([number(&resumed.take()), number(&resumed.take())], [2, 3]);
    for wrong in ["x", "1", "other.1", &format!("{id}.x")] {
        assert_eq!(follow(&[("last-event-id", wrong)]).err().unwrap().status, 400, "{wrong}");
    }
    assert_eq!(operator.ask("DELETE", &format!("/receivers/{id}")).status(), 200);
    assert!(resumed.rest().is_empty(), "the stream ends with its receiver");
}

#[test]
fn a_servers_own_webhooks_reach_its_receiver_where_the_policy_lets_them() {
    let server = start("");
    let receiver = made(&Api::made(&server, "north", &["operator"]));
    let ada = key(&server, "ada", "north", &[]);
    let token = fresh_id();
    let push = json!({ "url": receiver["url"], "token": token });
    let params = json!({ "message": message("hi"), "configuration": { "taskPushNotificationConfig": push } });
    agent(&server, &ada.secret).rpc("SendMessage", params).unwrap();
    let all = Api::made(&server, "north", &["admin"]);
    let path = format!("/receivers/{}", receiver["id"].as_str().unwrap());
    let requests = until("the end of the task was told", poll::PATIENCE, || {
        let requests = all.get(&path)["requests"].as_array().unwrap().clone();
        let is_over = |one: &Value| one["body"].as_str().is_some_and(|body| body.contains("TASK_STATE_COMPLETED"));
        requests.iter().any(is_over).then_some(requests)
    });
    for request in &requests {
        assert_eq!(header(request, "x-a2a-notification-token"), Some(&*token));
        assert!(header(request, "webhook-signature").is_some_and(|signature| signature.starts_with("v1,")));
    }
    let proxied = start(BEHIND_A_PROXY);
    let receiver = made(&Api::made(&proxied, "north", &["operator"]));
    assert!(receiver["refused"].as_str().is_some_and(|why| why.contains("push.allow")), "{receiver}");
}
