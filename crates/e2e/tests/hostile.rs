//! Hostile input: arbitrary bytes and mutated requests at both bindings. Each gets a well-formed answer or a closed
//! connection, and none stops the server or makes it panic. `RIALTO_SEED` repeats a run, `RIALTO_ROUNDS` multiplies
//! it.
//!
//! The last test covers every route of every product, with odd targets, verbs, dialects, versions, event ids,
//! credentials and bodies; `RIALTO_REQUESTS` sets the number of requests.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

use e2e::http::{Request, Response};
use e2e::poll::PATIENCE;
use e2e::seed::Random;
use e2e::{Client, Server, message, script, send};
use serde_json::{Value, json};

/// Requests per round.
const REQUESTS: u64 = 600;

/// Values that tend to break parsers of JSON, numbers and ids.
const NASTY: &[&str] = &[
    "null",
    "true",
    "-1",
    "0",
    "1e400",
    "-0.0",
    "9223372036854775808",
    "18446744073709551616",
    "\"\"",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "[]",
    "{}",
    "[[[[[[[[]]]]]]]]",
    "\"../../etc/passwd\"",
    "\"';--\"",
    "{\"a\":1,\"a\":2}",
    "\"\u{202e}\"",
    "2147483648",
    "\"TASK_STATE_WORKING\"",
    "NaN",
];

fn rounds() -> u64 {
    std::env::var("RIALTO_ROUNDS").map_or(1, |text| text.parse().expect("RIALTO_ROUNDS is a number of rounds"))
}

/// Valid requests to start from: the method or route, and its params or body.
fn seeds(id: &str) -> Vec<(&'static str, Value)> {
    let hello = message("hello");
    let steps =
        json!([{ "status": "working" }, { "artifact": { "name": "a", "parts": [{ "text": "x" }] }, "chunks": 2 }]);
    vec![
        ("SendMessage", json!({ "message": hello, "configuration": { "historyLength": 2 }, "metadata": { "k": [1] } })),
        ("SendMessage", send(script(steps))),
        ("GetTask", json!({ "id": id, "historyLength": 1 })),
        ("ListTasks", json!({ "pageSize": 3, "status": "TASK_STATE_COMPLETED", "includeArtifacts": true })),
        ("CancelTask", json!({ "id": id, "metadata": {} })),
        ("SubscribeToTask", json!({ "id": id })),
        ("GetExtendedAgentCard", json!({})),
    ]
}

/// Mutates a text in one of several ways: bytes flipped, cut, doubled, or a value replaced by a nasty one.
fn mutate(random: &mut Random, text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..random.between(1, 4) {
        let at = random.between(0, bytes.len() as u64 + 1) as usize;
        match random.between(0, 6) {
            0 if at < bytes.len() => bytes[at] = random.between(0, 256) as u8,
            1 => bytes.truncate(at),
            2 => bytes.insert(at, random.between(0, 256) as u8),
            3 if at < bytes.len() => {
                let end = (at + random.between(1, 20) as usize).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => {
                // Most often: the value after a colon becomes a nasty one, and the JSON stays well-formed.
                let colons: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] == b':').collect();
                let Some(colon) = colons.get(random.between(0, colons.len() as u64) as usize) else { continue };
                let end = (colon + 1..bytes.len()).find(|at| matches!(bytes[*at], b',' | b'}' | b']'));
                let nasty = NASTY[random.between(0, NASTY.len() as u64) as usize];
                bytes.splice(colon + 1..end.unwrap_or(bytes.len()), nasty.bytes());
            }
        }
    }
    bytes
}

/// An answer is a result, or an error in the binding's form, without internals of the server.
fn check(response: &Response, sent: &[u8], rpc: bool) {
    let shown = || format!("{} answers {} {}", String::from_utf8_lossy(sent), response.status(), response.text());
    assert!(response.status() < 500, "{}", shown());
    if !matches!(response.head.media_type(), "application/json" | "application/a2a+json") {
        let bare = matches!(response.head.media_type(), "text/event-stream" | "") || response.status() >= 400;
        assert!(bare, "{}", shown());
        return;
    }
    let body = response.json();
    if rpc && response.status() == 200 {
        assert_eq!(body["jsonrpc"], "2.0", "{}", shown());
        assert!(body.get("id").is_some(), "{}", shown());
        assert!(body.get("result").is_some() != body["error"]["code"].is_number(), "{}", shown());
    } else if response.status() >= 400 {
        assert!(body["error"].is_object(), "{}", shown());
    }
    assert!(!response.text().contains("panicked"), "{}", shown());
}

#[test]
fn mutated_requests_get_proper_answers() {
    let mut random = Random::from_env("hostile requests");
    let server = Server::start(&[]);
    let client = server.agent("scripted");
    let task = client.send(message("settled"));
    let id = task["id"].as_str().unwrap();
    for _ in 0..REQUESTS * rounds() {
        let seeds = seeds(id);
        let (method, params) = &seeds[random.between(0, seeds.len() as u64) as usize];
        if random.chance(50) {
            let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
            attempt(&client, "", &mutate(&mut random, &body.to_string()), true);
        } else {
            let path = ["/message:send", "/tasks/x:cancel"][random.between(0, 2) as usize];
            attempt(&client, path, &mutate(&mut random, &params.to_string()), false);
        }
    }
    still_well(&server);
}

#[test]
fn mutated_routes_queries_and_headers_get_proper_answers() {
    let mut random = Random::from_env("hostile routes");
    let server = Server::start(&[]);
    let client = server.agent("scripted");
    let good = [
        "/tasks?pageSize=5&status=TASK_STATE_COMPLETED&pageToken=",
        "/tasks/some-id?historyLength=1",
        "/tasks/some-id:subscribe",
        "/extendedAgentCard",
        "/some-tenant/tasks/some-id",
        "/.well-known/agent-card.json",
    ];
    for _ in 0..REQUESTS * rounds() {
        let path = good[random.between(0, good.len() as u64) as usize];
        // Visible characters only: the HTTP library handles the rest.
        let path: String = mutate(&mut random, path)
            .into_iter()
            .map(|byte| if (0x21..0x7f).contains(&byte) { char::from(byte) } else { '%' })
            .collect();
        let path = format!("/{}", path.trim_start_matches('/'));
        let header = ["Last-Event-ID", "A2A-Version", "A2A-Extensions", "Idempotency-Key", "If-None-Match", "Accept"]
            [random.between(0, 6) as usize];
        let value: String = (0..random.between(0, 60)).map(|_| random.between(0x21, 0x7f) as u8 as char).collect();
        let client = client.without(header).with(header, &value);
        let response = client.exchange(&client.request("GET", &path));
        check(&response, format!("{path} {header}: {value}").as_bytes(), false);
    }
    still_well(&server);
}

/// Number of requests over all routes.
fn requests() -> u64 {
    let given = std::env::var("RIALTO_REQUESTS").ok();
    given.map_or(2_400 * rounds(), |text| text.parse().expect("RIALTO_REQUESTS is a number of requests"))
}

/// Every route, with `{task}` in place of a task's id, `{cart}` of a cart's token, and so on.
const ROUTES: &[&str] = &[
    "/",
    "/a2a",
    "/a2a/",
    "/a2a/echo",
    "/a2a/scripted/",
    "/a2a/store",
    "/a2a/summarize",
    "/a2a/publish",
    "/a2a/assistant",
    "/a2a/{assistant}",
    "/a2a/nobody",
    "/healthz",
    "/readyz",
    "/metrics",
    "/agents",
    "/.well-known/agent-card.json",
    "/.well-known/agent.json",
    "/.well-known/jwks.json",
    "/.well-known/agent-card.json?assistant_id={assistant}",
    "/agent/authenticatedExtendedCard",
    "/a2a/echo/agent/authenticatedExtendedCard",
    "/a2a/agent/authenticatedExtendedCard",
    "/message:send",
    "/message:stream",
    "/tasks",
    "/tasks/{task}",
    "/tasks/{task}:cancel",
    "/tasks/{task}:subscribe",
    "/tasks/{task}/pushNotificationConfigs",
    "/tasks/{task}/pushNotificationConfigs/one",
    "/extendedAgentCard",
    "/a2a/echo/message:send",
    "/a2a/echo/message:stream",
    "/a2a/scripted/tasks?pageSize=3",
    "/a2a/echo/acme/tasks",
    "/a2a/echo/acme/message:send",
    "/a2a/echo/v1/message:send",
    "/a2a/echo/v1/message:stream",
    "/v1/message:send",
    "/v1/message:stream",
    "/v1/tasks/{task}",
    "/v1/tasks/{task}:cancel",
    "/v1/tasks/{task}:subscribe",
    "/v1/card",
    "/v1/tasks/{task}/pushNotificationConfigs",
    "/langgraph/a2a/{assistant}",
    "/langgraph/a2a/{assistant}/",
    "/langgraph/a2a/none",
    "/langgraph/.well-known/agent-card.json",
    "/uumit/a2a",
    "/uumit/a2a/",
    "/uumit/.well-known/agent.json",
    "/api/v1",
    "/api/v1/",
    "/api/v1/capabilities",
    "/api/v1/capabilities/{capability}",
    "/api/v1/transactions",
    "/api/v1/transactions/tx_1/freeze",
    "/api/v1/wallet",
    "/api/v1/openapi.json",
    "/api/v1/auth/login",
    "/api/v1/demands",
    "/api/v1/files",
    "/api/v1/users/me",
    "/api/v1/external-agents",
    "/orloj/a2a",
    "/orloj/a2a/?namespace=review",
    "/orloj/v1/agent-systems/summarize/a2a",
    "/v1/agent-systems/publish/a2a",
    "/orloj/v1/agents/summarize/a2a",
    "/v1/agents/nobody/a2a",
    "/orloj/.well-known/agent-card.json",
    "/v1/agent-systems/summarize/.well-known/agent-card.json",
    "/orloj/v1/a2a/agents",
    "/v1/a2a/agents",
    "/v1/agent-systems",
    "/v1/agents",
    "/orloj/v1/agent-systems/summarize",
    "/orloj/v1/agents/watch",
    "/v1/agent-systems/summarize/status",
    "/orloj/v1/tasks",
    "/orloj/v1/tasks/{task}",
    "/orloj/v1/tasks/{task}/messages",
    "/orloj/v1/tasks/watch",
    "/orloj/v1/tool-approvals",
    "/orloj/v1/tool-approvals/one/approve",
    "/api/a2a",
    "/api/a2a/",
    "/aly/api/a2a",
    "/api/a2a/streaming",
    "/api/a2a/message:send",
    "/api/a2a/message:stream",
    "/api/a2a/tasks",
    "/api/a2a/tasks/{task}",
    "/api/a2a/tasks/{task}/cancel",
    "/api/a2a/tasks/{task}/subscribe",
    "/aly/api/a2a/tasks/{task}/push-configs",
    "/api/a2a/tasks/{task}/push-configs/one",
    "/aly/.well-known/agent-card.json",
    "/oauth/authorize?client_id=x",
    "/oauth/token",
    "/oauth/revoke",
    "/oauth/introspect",
    "/oauth/register",
    "/.well-known/oauth-authorization-server",
    "/.well-known/oauth-protected-resource/api/a2a",
    "/api/storefront/v1/stores/acme",
    "/api/storefront/v1/stores/acme/products?q=hat",
    "/api/storefront/v1/carts",
    "/api/storefront/v1/carts/{cart}",
    "/api/storefront/v1/carts/{cart}/items",
    "/api/ucp/v1/checkout-sessions",
    "/api/ucp/v1/checkout-sessions/cs_1/complete",
    "/api/x402/product/acme/sun",
    "/checkout/cs_1",
    "/aly/checkout/cs_1",
    "/files/ab",
    "/files/",
    "/workers/echo/lease",
    "/workers/nobody",
];

/// Targets that are no paths, or barely.
const ODD_TARGETS: &[&str] = &[
    "*",
    "x:80",
    "h:1",
    "[::1]:443",
    "http://other.example/a2a",
    "http://[::1]/tasks/x",
    "https://a@b:1/message:send",
    "//",
    "///a2a",
    "/?",
    "/a2a?",
    "/%",
    "/%2e%2e/%2e%2e/etc/passwd",
    "/a2a/%00",
    "/a2a/\u{e9}",
    "/a2a//",
    "/a2a/echo//message:send",
    "/a2a/./echo",
    "/?A2A-Version=9",
    "/a2a?A2A-Version=0.3&A2A-Version=1.0",
    "/tasks/:cancel",
    "/tasks/x:",
    "/tasks/x:y:z",
];
const VERBS: &[&str] =
    &["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "CONNECT", "TRACE", "PROPFIND", "get", "X"];
const DIALECTS: &[&str] =
    &["a2a_v1", "a2a_v0_3", "a2a_v0_3_rest", "a2a_v0_1", "a2a_v0", "uumit", "orloj", "aly", "langgraph", "", "?"];
const VERSIONS: &[&str] =
    &["1.0", "0.3", "0.2", "0.1", "1", "9.9", "1.0, 0.3", "-1", "1.99999999999999999999", "\u{e9}", ""];
const METHODS: &[&str] = &[
    "SendMessage",
    "SendStreamingMessage",
    "GetTask",
    "ListTasks",
    "CancelTask",
    "SubscribeToTask",
    "CreateTaskPushNotificationConfig",
    "ListTaskPushNotificationConfigs",
    "GetExtendedAgentCard",
    "message/send",
    "message/stream",
    "tasks/send",
    "tasks/sendSubscribe",
    "tasks/get",
    "tasks/cancel",
    "tasks/resubscribe",
    "tasks/pushNotification/set",
    "tasks/pushNotificationConfig/list",
    "agent/getAuthenticatedExtendedCard",
    "Sing",
    "",
];

/// The inputs of requests: the ids and credentials that are valid on one server.
struct Samples {
    names: Vec<(&'static str, String)>,
    events: Vec<String>,
    credentials: Vec<(&'static str, String)>,
}

impl Samples {
    fn of(server: &Server) -> Samples {
        let demo: Value = serde_json::from_slice(&std::fs::read(server.data().join("demo.json")).unwrap()).unwrap();
        let text = |section: &str, name: &str| demo[section][name].as_str().unwrap_or_default().to_owned();
        let task = server.agent("scripted").send(message("settled"))["id"].as_str().unwrap().to_owned();
        let bearer = |token: String| ("Authorization", format!("Bearer {token}"));
        let listed = server.get("/agents").json();
        let assistant = listed["agents"].as_array().unwrap().iter().find_map(|agent| agent["assistantId"].as_str());
        let huge = format!("{task}.{}", u64::MAX);
        Samples {
            names: vec![
                ("{assistant}", assistant.unwrap_or_default().to_owned()),
                ("{capability}", text("uumit", "capability_id")),
                ("{cart}", "cart_nobody".to_owned()),
                ("{task}", task.clone()),
            ],
            events: vec![
                format!("{task}.1"),
                format!("{task}.0"),
                huge,
                task.clone(),
                format!("{task}."),
                "x".to_owned(),
                "1".to_owned(),
                "\u{e9}".to_owned(),
                String::new(),
            ],
            credentials: vec![
                bearer(text("orloj", "token")),
                bearer(text("orloj", "admin_token")),
                bearer(text("aly", "token")),
                bearer(text("aly", "read_only_token")),
                bearer("nobody".to_owned()),
                bearer("eyJhbGciOiJIUzI1NiJ9.e30.c2ln".to_owned()),
                bearer(String::new()),
                ("Authorization", "Bearer".to_owned()),
                ("Authorization", "Basic YTpi".to_owned()),
                ("Authorization", "\u{e9}".to_owned()),
                ("X-Api-Key", text("uumit", "api_key")),
                ("X-Api-Key", "\u{e9}".to_owned()),
                ("X-Platform-User-Id", text("uumit", "user_id")),
            ],
        }
    }

    fn request(&self, random: &mut Random) -> Request {
        let mut pick = |all: &'static [&'static str]| all[random.between(0, all.len() as u64) as usize];
        let (route, odd, verb, method) = (pick(ROUTES), pick(ODD_TARGETS), pick(VERBS), pick(METHODS));
        let (dialect, version) = (pick(DIALECTS), pick(VERSIONS));
        let mut target = if random.chance(8) { odd.to_owned() } else { route.to_owned() };
        for (name, value) in &self.names {
            target = target.replace(name, value);
        }
        if random.chance(10) {
            let broken = mutate(random, &target);
            let visible = |byte: u8| if (0x21..0x7f).contains(&byte) { char::from(byte) } else { '%' };
            target = format!("/{}", broken.into_iter().map(visible).collect::<String>().trim_start_matches('/'));
        }
        let verb = if random.chance(60) { ["GET", "POST"][random.between(0, 2) as usize] } else { verb };
        let mut request = Request::new(verb, &target).header("connection", "close");
        if random.chance(50) {
            request = request.header("X-A2A-Dialect", dialect);
        }
        if random.chance(50) {
            request = request.header("A2A-Version", version);
        }
        if random.chance(30) {
            request =
                request.header("Last-Event-ID", &self.events[random.between(0, self.events.len() as u64) as usize]);
        }
        for _ in 0..random.between(0, 3) {
            let (name, value) = &self.credentials[random.between(0, self.credentials.len() as u64) as usize];
            request = request.header(name, value);
        }
        if random.chance(20) {
            let names =
                ["Idempotency-Key", "Accept", "Origin", "X-Forwarded-For", "Forwarded", "traceparent", "X-Request-Id"];
            let value: String = (0..random.between(0, 40)).map(|_| random.between(0x20, 0x7f) as u8 as char).collect();
            request = request.header(names[random.between(0, names.len() as u64) as usize], value.trim());
        }
        let kinds = [
            "application/json",
            "application/a2a+json",
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=b",
            "\u{e9}",
        ];
        let kind = if random.chance(85) { kinds[0] } else { kinds[random.between(0, kinds.len() as u64) as usize] };
        if verb == "GET" && random.chance(80) {
            return request;
        }
        request.header("content-type", kind).body(self.body(random, method))
    }

    fn body(&self, random: &mut Random, method: &str) -> Vec<u8> {
        let (_, task) = &self.names[3];
        let hello = match random.between(0, 3) {
            0 => message("hello"),
            1 => {
                json!({ "kind": "message", "messageId": "m", "role": "user", "parts": [{ "kind": "text", "text": "hello" }] })
            }
            _ => json!({ "role": "user", "parts": [{ "type": "text", "text": "Search for hats on store acme." }] }),
        };
        let params = json!({ "id": task, "taskId": task, "message": hello, "capability_id": "cap_ocr_invoice_v1", "skill": "checkout" });
        let whole = match random.between(0, 3) {
            0 => params,
            1 => json!({ "message": hello }),
            _ => json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params }),
        };
        if random.chance(60) { mutate(random, &whole.to_string()) } else { whole.to_string().into_bytes() }
    }
}

#[test]
fn odd_requests_over_every_route_get_proper_answers() {
    let mut random = Random::from_env("every route");
    let server = Server::start(&["--durability", "relaxed"]);
    let samples = Samples::of(&server);
    let client = server.at("");
    let threads = 4;
    let (whole, each) = (requests(), requests().div_ceil(threads));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (mut random, client, samples) = (random.fork(), client.clone(), &samples);
            scope.spawn(move || {
                for _ in 0..each {
                    let request = samples.request(&mut random);
                    let sent = String::from_utf8_lossy(&request.bytes()).into_owned();
                    match client.try_head_within(&request, PATIENCE) {
                        Some(response) => {
                            let (status, text) = (response.status(), response.text());
                            // 0.3 over HTTP answers 501 for an operation that an agent does not support; that is no
                            // failure.
                            let its_word =
                                status == 501 && response.head.header("x-a2a-dialect") == Some("a2a_v0_3_rest");
                            assert!(status < 500 || status == 503 || its_word, "{sent}\nanswers {status} {text}");
                            assert!(!text.contains("panicked"), "{sent}\nanswers {text}");
                        }
                        // A closed connection is a valid answer to invalid HTTP; silence is not.
                        None => assert!(client.is_closed_by(&request, PATIENCE), "{sent}\nis not answered"),
                    }
                }
            });
        }
    });
    eprintln!("{whole} requests");
    still_well(&server);
    let metrics = server.get("/metrics").text();
    assert!(metrics.contains("a2a_panics_total 0"), "{metrics}");
}

#[test]
fn targets_without_a_path_are_answered() {
    let server = Server::start(&[]);
    for (verb, target) in [
        ("CONNECT", "h:1"),
        ("GET", "x:80"),
        ("POST", "x:80"),
        ("OPTIONS", "*"),
        ("CONNECT", "[::1]:443"),
        ("HEAD", "x:80"),
    ] {
        let request =
            Request::new(verb, target).header("host", "x").header("X-Request-Id", "mine").header("connection", "close");
        let response = server.at("").try_head_within(&request, PATIENCE);
        let response = response.unwrap_or_else(|| panic!("{verb} {target}: the connection was closed"));
        assert!(matches!(response.status(), 400..=499), "{verb} {target}: {}", response.status());
        assert_eq!(response.head.header("x-request-id"), Some("mine"), "{verb} {target}");
    }
    still_well(&server);
}

fn attempt(client: &Client, path: &str, body: &[u8], rpc: bool) {
    let request = client.request("POST", path).header("content-type", "application/json").body(body);
    // A mutated script may hang or sleep for long, so its answer is not awaited.
    let request = request.header("connection", "close");
    match client.try_head_within(&request, std::time::Duration::from_secs(2)) {
        Some(response) => check(&response, body, rpc),
        None => eprintln!("no answer within 2 s: {}", String::from_utf8_lossy(body)),
    }
}

fn still_well(server: &Server) {
    server.until_ready();
    let echo = server.agent("echo").send(message("still here"));
    assert_eq!(echo["status"]["state"], "TASK_STATE_COMPLETED");
    assert!(!server.log().contains("panicked"), "a panic in the log:\n{}", server.log());
}
