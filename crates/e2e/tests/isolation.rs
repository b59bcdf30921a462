//! No caller reads another's data, by any streaming operation, in any dialect, at any of its addresses, with or
//! without `Last-Event-ID`.
//!
//! Six victims, one for each kind of caller, have a task with a secret in it. Strangers of every kind then request
//! every stream, and name each of those tasks in the request, in `Last-Event-ID`, or in both. No answer may contain
//! a secret; the victims' own answers to the same requests prove that the requests could have revealed it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

use std::collections::HashMap;
use std::time::Duration;

use e2e::grpc::{self, V1, V03, proto};
use e2e::http::{Connection, Request};
use e2e::poll::PATIENCE;
use e2e::{Events, Next, Operation, Server, Tongue, fresh_id, parts};
use serde_json::{Value, json};

const CONFIG: &str = r#"
agents:
  echo: { kind: echo }
  scripted: { kind: scripted }
  assistant: { kind: assistant, mode: interrupt }
timeouts: { heartbeat_ms: 200 }
langgraph: { profile: current }
systems:
  open: { graph: { go: { agent: scripted } }, a2a: { enabled: true, auth: public } }
  shut: { graph: { go: { agent: scripted } }, namespace: closed, a2a: { enabled: true, auth: bearer } }
orloj:
  tokens:
    - { name: sys, token: "env:SYSTEM_TOKEN", systems: [open, shut], tenant: plant }
    - { name: other, token: "env:OTHER_SYSTEM_TOKEN", systems: [open], tenant: elsewhere }
market: { window_ms: 300 }
aly:
  sites:
    acme: { workspace: acme, title: Acme, currency: USD }
    zeta: { workspace: zeta, title: Zeta, currency: USD }
auth:
  keys:
    - { name: ada, tenant: north, key: "env:ADA_KEY" }
    - { name: eve, tenant: south, key: "env:EVE_KEY" }
    - { name: till, tenant: acme, key: "env:SHOP_KEY" }
    - { name: zed, tenant: zeta, key: "env:ZETA_KEY" }
"#;

const KEYS: [(&str, &str); 6] = [
    ("ADA_KEY", "ada-0123456789abcdef"),
    ("EVE_KEY", "eve-0123456789abcdef"),
    ("SHOP_KEY", "till-0123456789abcdef"),
    ("ZETA_KEY", "zed-0123456789abcdef"),
    ("SYSTEM_TOKEN", "sys-0123456789abcdef"),
    ("OTHER_SYSTEM_TOKEN", "other-0123456789abcdef"),
];

/// The strangers' message: it names a site, for which the store agent has a workspace.
const TEXT: &str = "Search for hats on store acme.";

type Headers = Vec<(&'static str, String)>;

fn bearer(name: &str) -> Headers {
    let (_, secret) = KEYS.iter().find(|(known, _)| *known == name).unwrap();
    vec![("Authorization", format!("Bearer {secret}"))]
}

/// A victim's task, and the secret that no other caller may read.
struct Victim {
    name: &'static str,
    headers: Headers,
    task: String,
    secrets: Vec<String>,
    /// The addresses and operations at which its owner can resume its stream, if the dialect has them.
    resumes_at: &'static [&'static str],
}

/// A request in one of the protocols.
enum Form {
    Http(Request),
    Grpc(grpc::Call),
}

impl From<Request> for Form {
    fn from(request: Request) -> Form {
        Form::Http(request)
    }
}

impl From<grpc::Call> for Form {
    fn from(call: grpc::Call) -> Form {
        Form::Grpc(call)
    }
}

impl Form {
    fn header(self, name: &str, value: &str) -> Form {
        match self {
            Form::Http(request) => Form::Http(request.header(name, value)),
            Form::Grpc(call) => Form::Grpc(call.header(name, value)),
        }
    }

    /// Asks that the connection ends with the answer; HTTP/2 has no header for that.
    fn on_its_own(self) -> Form {
        match self {
            Form::Http(request) => Form::Http(request.header("connection", "close")),
            Form::Grpc(call) => Form::Grpc(call),
        }
    }
}

/// A streaming operation on the wire: the address, and the request for a task of this id.
struct Shape {
    place: String,
    request: Box<dyn Fn(&str) -> Form + Send + Sync>,
}

fn shape<F: Into<Form>>(place: String, request: impl Fn(&str) -> F + Send + Sync + 'static) -> Shape {
    Shape { place, request: Box::new(move |task| request(task).into()) }
}

fn rpc(path: &str, method: &str, params: Value) -> Request {
    Request::new("POST", path).json(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }))
}

/// Every streaming operation in every dialect, at each of its addresses.
fn shapes(server: &Server) -> Vec<Shape> {
    let mut all = Vec::new();
    let listed = server.get("/agents").json();
    let assistant = |agent: &str| {
        let agents = listed["agents"].as_array().unwrap();
        agents.iter().find(|one| one["name"] == agent).unwrap()["assistantId"].as_str().unwrap().to_owned()
    };
    // The generations, at the agents' own addresses and at the default agent's.
    let mut bases: Vec<String> =
        ["echo", "scripted", "assistant", "open", "shut", "store"].map(|a| format!("/a2a/{a}")).into();
    bases.extend([String::new(), "/a2a".to_owned(), "/a2a/".to_owned(), format!("/a2a/{}", assistant("assistant"))]);
    for base in bases {
        for tongue in Tongue::ALL {
            let version = match tongue {
                Tongue::V1 | Tongue::V1Rest => Some("1.0"),
                Tongue::V03 => Some("0.3"),
                Tongue::V03Rest | Tongue::V02 | Tongue::V01 => None,
            };
            let stated = move |request: Request| match version {
                Some(version) => request.header("A2A-Version", version),
                None => request,
            };
            let place = |operation: &str| format!("{tongue:?} {operation} {base}");
            let at = if base.is_empty() { "/".to_owned() } else { base.clone() };
            match tongue {
                Tongue::V1 => {
                    let (one, two) = (at.clone(), at);
                    all.push(shape(place("stream"), move |_| {
                        stated(rpc(&one, "SendStreamingMessage", e2e::send(e2e::message(TEXT))))
                    }));
                    all.push(shape(place("subscribe"), move |task| {
                        stated(rpc(&two, "SubscribeToTask", json!({ "id": task })))
                    }));
                }
                Tongue::V03 | Tongue::V02 => {
                    let (one, two) = (at.clone(), at);
                    all.push(shape(place("stream"), move |_| stated(rpc(&one, "message/stream", older()))));
                    all.push(shape(place("subscribe"), move |task| {
                        stated(rpc(&two, "tasks/resubscribe", json!({ "id": task })))
                    }));
                }
                Tongue::V01 => {
                    let (one, two, three) = (at.clone(), at.clone(), at);
                    let message = || json!({ "role": "user", "parts": [{ "type": "text", "text": TEXT }] });
                    all.push(shape(place("stream"), move |_| {
                        rpc(
                            &one,
                            "tasks/sendSubscribe",
                            json!({ "id": fresh_id(), "sessionId": "s", "message": message() }),
                        )
                    }));
                    all.push(shape(place("stream by id"), move |task| {
                        rpc(&two, "tasks/sendSubscribe", json!({ "id": task, "sessionId": "s", "message": message() }))
                    }));
                    all.push(shape(place("subscribe"), move |task| {
                        rpc(&three, "tasks/resubscribe", json!({ "id": task }))
                    }));
                }
                Tongue::V1Rest | Tongue::V03Rest => {
                    let rest = base.trim_end_matches('/').to_owned();
                    // A route of 1.0 below an agent may begin with a tenant.
                    let named = rest.matches('/').count() == 2 && tongue == Tongue::V1Rest;
                    let tenants: &[&str] = if named { &["", "/north", "/acme", "/plant"] } else { &[""] };
                    for tenant in tenants {
                        let below = match tongue {
                            Tongue::V03Rest => format!("{rest}/v1"),
                            _ => format!("{rest}{tenant}"),
                        };
                        let body = if tongue == Tongue::V1Rest {
                            || e2e::send(e2e::message(TEXT))
                        } else {
                            || json!({ "message": { "messageId": fresh_id(), "role": "ROLE_USER", "content": [{ "text": TEXT }] } })
                        };
                        let (one, two, three) = (below.clone(), below.clone(), below);
                        all.push(shape(place(&format!("stream{tenant}")), move |_| {
                            stated(Request::new("POST", &format!("{one}/message:stream")).json(&body()))
                        }));
                        all.push(shape(place(&format!("POST subscribe{tenant}")), move |task| {
                            stated(Request::new("POST", &format!("{two}/tasks/{task}:subscribe")))
                        }));
                        all.push(shape(place(&format!("GET subscribe{tenant}")), move |task| {
                            stated(Request::new("GET", &format!("{three}/tasks/{task}:subscribe")))
                        }));
                    }
                }
            }
        }
    }
    all.extend(shapes_of_grpc());
    // LangSmith's.
    for agent in ["assistant", "scripted", "store"] {
        for end in ["", "/"] {
            let path = format!("/langgraph/a2a/{}{end}", assistant(agent));
            let again = path.clone();
            all.push(shape(format!("langgraph stream {agent}{end}"), move |_| {
                rpc(&path, "message/stream", older()).header("accept", "text/event-stream")
            }));
            all.push(shape(format!("langgraph stream to a task {agent}{end}"), move |task| {
                let mut params = older();
                params["message"]["taskId"] = json!(task);
                rpc(&again, "message/stream", params).header("accept", "text/event-stream")
            }));
        }
    }
    // Aly's.
    for mount in ["", "/aly"] {
        let base = format!("{mount}/api/a2a");
        for end in ["", "/"] {
            let (one, two) = (format!("{base}{end}"), format!("{base}{end}"));
            all.push(shape(format!("aly rpc stream {one}"), move |_| {
                rpc(&one, "SendStreamingMessage", e2e::send(e2e::message(TEXT)))
            }));
            all.push(shape(format!("aly rpc subscribe {two}"), move |task| {
                rpc(&two, "SubscribeToTask", json!({ "id": shown_by_aly(task) }))
            }));
        }
        for route in ["message:stream", "streaming"] {
            let path = format!("{base}/{route}");
            all.push(shape(format!("aly {path}"), move |_| {
                let params = e2e::send(e2e::message(TEXT));
                Request::new("POST", &path).json(&if route == "streaming" {
                    json!({ "params": params })
                } else {
                    params
                })
            }));
        }
        for verb in ["GET", "POST"] {
            for word in ["/subscribe", ":subscribe"] {
                let base = base.clone();
                all.push(shape(format!("aly {verb} {base}/tasks/{{id}}{word}"), move |task| {
                    Request::new(verb, &format!("{base}/tasks/{}{word}", shown_by_aly(task)))
                }));
            }
        }
    }
    // Orloj's, with the methods of 1.0 at the same addresses.
    let mut addresses = vec!["/orloj/a2a".to_owned(), "/orloj/a2a/".to_owned(), "/a2a".to_owned()];
    for (mount, collection) in
        [("/orloj", "agent-systems"), ("", "agent-systems"), ("/orloj", "agents"), ("", "agents")]
    {
        addresses.extend(["open", "shut"].map(|system| format!("{mount}/v1/{collection}/{system}/a2a")));
    }
    for address in addresses {
        let message = || json!({ "role": "user", "parts": [{ "type": "text", "text": TEXT }] });
        // A shared address has each system in its namespace.
        let namespaces: &[&str] =
            if address.contains("/v1/") { &[""] } else { &["?namespace=default", "?namespace=closed"] };
        for namespace in namespaces {
            let at = format!("{address}{namespace}");
            let (one, two, three, four) = (at.clone(), at.clone(), at.clone(), at);
            let named = |request: Request| request.header("X-A2A-Dialect", "orloj");
            all.push(shape(format!("orloj stream {one}"), move |_| {
                named(rpc(&one, "tasks/sendSubscribe", json!({ "id": fresh_id(), "message": message() })))
            }));
            all.push(shape(format!("orloj stream by id {two}"), move |task| {
                named(rpc(&two, "tasks/sendSubscribe", json!({ "id": task, "message": message() })))
            }));
            all.push(shape(format!("orloj 1.0 stream {three}"), move |_| {
                named(rpc(&three, "SendStreamingMessage", e2e::send(e2e::message(TEXT))))
            }));
            all.push(shape(format!("orloj 1.0 subscribe {four}"), move |task| {
                named(rpc(&four, "SubscribeToTask", json!({ "id": task })))
            }));
        }
    }
    // UUMit's.
    for address in ["/uumit/a2a", "/uumit/a2a/", "/a2a", "/a2a/", "/"] {
        all.push(shape(format!("uumit subscribe {address}"), move |task| {
            rpc(address, "tasks/sendSubscribe", json!({ "id": task })).header("X-A2A-Dialect", "uumit")
        }));
    }
    all
}

/// The ways to name an agent over gRPC; a tenant may follow it in 1.0.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Naming {
    Nothing,
    Metadata,
    Path,
    Tenant(&'static str),
}

/// A call of gRPC, with the fields of its request that are not the tenant.
fn call(service: &str, method: &str, naming: Naming, agent: &str, request: &[u8]) -> grpc::Call {
    let path = format!("{service}/{method}");
    let named = format!("a2a/{agent}");
    match naming {
        Naming::Nothing => grpc::Call::new(&path).message(request),
        Naming::Metadata => grpc::Call::new(&path).header("x-a2a-agent", agent).message(request),
        Naming::Path => grpc::Call::new(&format!("/{named}{path}")).message(request),
        Naming::Tenant(tenant) => {
            let tenant = if tenant.is_empty() { named } else { format!("{named}/{tenant}") };
            // The first field of a send and of a subscription.
            grpc::Call::new(&path).message(&[proto::field(1, tenant), request.to_vec()].concat())
        }
    }
}

/// The streaming operations of both services of gRPC.
fn shapes_of_grpc() -> Vec<Shape> {
    use Naming::{Metadata, Nothing, Path, Tenant};
    let mut all = Vec::new();
    let agents = ["echo", "scripted", "assistant", "open", "shut", "store"];
    let every = |naming: Naming| agents.map(|agent| (naming, agent));
    let of_v1 = [Tenant(""), Tenant("north"), Tenant("acme"), Tenant("plant")].map(every).concat();
    let of_both = [&[(Nothing, "")][..], &every(Metadata), &every(Path)].concat();
    for (service, namings) in [(V1, [&of_both[..], &of_v1].concat()), (V03, of_both.clone())] {
        for (naming, agent) in namings {
            let place = |operation: &str| format!("{service} {operation} {naming:?} {agent}");
            all.push(shape(place("stream"), move |_| {
                let part = proto::field(1, TEXT);
                let request = if service == V1 { proto::send_v1(&part) } else { proto::send_v03(&part) };
                call(service, "SendStreamingMessage", naming, agent, &request)
            }));
            all.push(shape(place("subscribe"), move |task| match service == V1 {
                true => call(service, "SubscribeToTask", naming, agent, &proto::field(2, task)),
                false => call(service, "TaskSubscription", naming, agent, &proto::field(1, format!("tasks/{task}"))),
            }));
        }
    }
    all
}

/// A message of 0.3.
fn older() -> Value {
    json!({ "message": {
        "kind": "message", "messageId": fresh_id(), "role": "user", "parts": [{ "kind": "text", "text": TEXT }],
    } })
}

/// A task's id as Aly's clients know it.
fn shown_by_aly(task: &str) -> String {
    format!("task_{}", task.replace('-', ""))
}

/// A task's own id, from the one that Aly's clients know.
fn own_id(shown: &str) -> String {
    let digits = shown.strip_prefix("task_").unwrap();
    let cut = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    cut.join("-")
}

/// The text of an immediate answer: the whole of it, or the first frames of a stream.
fn answer(server: &Server, request: &Form) -> String {
    let request = match request {
        Form::Http(request) => request,
        Form::Grpc(call) => return answer_over_grpc(server, call),
    };
    let mut connection = Connection::open(server.addr()).expect("the server accepts");
    connection.send(request).expect("the server reads");
    let head = connection.head().expect("the server answers");
    if head.media_type() != "text/event-stream" {
        return connection.whole(head).expect("the answer is whole").text();
    }
    let mut events = Events::new(connection, head);
    let mut said = String::new();
    // The first frame is awaited; frames that are in the log already follow at once.
    let mut patience = PATIENCE;
    while let Ok(Next::Frame(frame)) = events.next_within(patience) {
        said.push_str(&frame.data);
        patience = Duration::from_millis(300);
    }
    said
}

/// The same over gRPC, with the status and its details.
fn answer_over_grpc(server: &Server, call: &grpc::Call) -> String {
    let connection = grpc::Connection::open(server.addr());
    let mut stream = connection.open_stream(call);
    let mut said = Vec::new();
    let mut patience = PATIENCE;
    while let Some(Some(message)) = stream.message_within(patience) {
        said.extend(message);
        patience = Duration::from_millis(300);
    }
    let told = stream.reply();
    let details = told.details();
    format!("{}{:?}{}{details}", String::from_utf8_lossy(&said), told.status(), told.words())
}

fn with(mut request: Form, headers: &Headers) -> Form {
    for (name, value) in headers {
        request = request.header(name, value);
    }
    request
}

fn with_http(mut request: Request, headers: &Headers) -> Request {
    for (name, value) in headers {
        request = request.header(name, value);
    }
    request
}

fn said(output: &std::process::Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A user of the market.
fn person(server: &Server) -> (String, Headers) {
    let words = ["market", "open", "--key", "user", "--json", "--per-call", "1000000", "--daily", "100000000"];
    let made = said(&server.operate(&words).output().unwrap());
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    (text("user_id"), vec![("X-Api-Key", text("api_key")), ("X-Platform-User-Id", text("user_id"))])
}

fn victims(server: &Server) -> Vec<Victim> {
    let asked = |path: &str, headers: &Headers, method: &str, params: Value| {
        let response = server.exchange(&with_http(rpc(path, method, params), headers));
        let answer = response.json();
        assert!(answer.get("result").is_some(), "{path} {method}: {answer}");
        answer["result"].clone()
    };
    let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{value}")).to_owned();
    let mut all = Vec::new();
    // A caller with a key, at a named agent and at the default agent; and an assistant's.
    for (name, path, resumes_at) in [
        (
            "ada at scripted",
            "/a2a/scripted",
            &[
                "V1 stream /a2a/scripted",
                "/lf.a2a.v1.A2AService stream Metadata scripted",
                "/lf.a2a.v1.A2AService subscribe Tenant(\"\") scripted",
                "/a2a.v1.A2AService stream Path scripted",
                "/a2a.v1.A2AService subscribe Metadata scripted",
            ][..],
        ),
        (
            "ada at the root",
            "/a2a",
            &["V1 stream /a2a", "/lf.a2a.v1.A2AService stream Nothing ", "/a2a.v1.A2AService stream Nothing "],
        ),
        (
            "ada at the assistant",
            "/a2a/assistant",
            &[
                "V1 stream /a2a/assistant",
                "/lf.a2a.v1.A2AService stream Path assistant",
                "/lf.a2a.v1.A2AService stream Tenant(\"north\") assistant",
                "/a2a.v1.A2AService stream Metadata assistant",
            ],
        ),
    ] {
        let secret = format!("secret-{}", fresh_id());
        let headers = bearer("ADA_KEY");
        let message = json!({ "message": e2e::message(&format!("ask: {secret}")) });
        let versioned: Headers = headers.iter().cloned().chain([("A2A-Version", "1.0".to_owned())]).collect();
        let task = asked(path, &versioned, "SendMessage", message)["task"].clone();
        let secrets = vec![secret, text(&task["contextId"])];
        all.push(Victim { name, headers, task: text(&task["id"]), secrets, resumes_at });
    }
    // A shop's cart, whose token is valuable.
    let headers = bearer("SHOP_KEY");
    let cart = parts(json!([{ "mediaType": "application/json", "data":
        { "skill": "cart-management", "action": "create", "site_slug": "acme" } }]));
    let task = asked("/api/a2a", &headers, "SendMessage", e2e::send(cart))["task"].clone();
    let cart = text(&task["artifacts"][0]["parts"][0]["data"]["token"]);
    let secrets = vec![cart, text(&task["contextId"])];
    let id = own_id(&text(&task["id"]));
    let resumes_at = &["aly rpc stream /api/a2a"];
    all.push(Victim { name: "a cart of acme", headers, task: id, secrets, resumes_at });
    // A system that needs a token.
    let secret = format!("secret-{}", fresh_id());
    let headers = bearer("SYSTEM_TOKEN");
    let path = "/orloj/v1/agent-systems/shut/a2a";
    let versioned: Headers = headers.iter().cloned().chain([("A2A-Version", "1.0".to_owned())]).collect();
    let task = asked(path, &versioned, "SendMessage", e2e::send(e2e::message(&secret)))["task"].clone();
    let secrets = vec![secret, text(&task["contextId"])];
    let resumes_at = &["orloj 1.0 stream /orloj/v1/agent-systems/shut/a2a"];
    all.push(Victim { name: "a run of a shut system", headers, task: text(&task["id"]), secrets, resumes_at });
    // A purchase.
    let (seller, selling) = person(server);
    let (buyer, buying) = person(server);
    said(&server.operate(&["market", "credit", &buyer, "1000", "--json"]).output().unwrap());
    let offer = json!({
        "title": "OCR of invoices", "description": "Reads an invoice", "category": "documents",
        "capability_type": "service", "pricing_model": "per_use", "price_ut": "10",
    });
    let rest = |path: &str, headers: &Headers, body: &Value| {
        let request = Request::new("POST", &format!("/api/v1{path}"));
        let request = with_http(if body.is_null() { request } else { request.json(body) }, headers);
        let response = server.exchange(&request);
        assert_eq!(response.status(), 200, "{path}: {}", response.text());
        response.json()["data"].clone()
    };
    let capability = text(&rest("/capabilities", &selling, &offer)["id"]);
    rest(&format!("/capabilities/{capability}/submit-review"), &selling, &Value::Null);
    let sent = asked("/uumit/a2a", &buying, "tasks/send", json!({ "capability_id": capability }));
    let secrets = vec![buyer, seller];
    let task = text(&sent["id"]);
    all.push(Victim {
        name: "a purchase",
        headers: buying,
        task,
        secrets,
        resumes_at: &["uumit subscribe /uumit/a2a"],
    });
    all
}

fn strangers(server: &Server) -> Vec<(&'static str, Headers)> {
    vec![
        ("anonymous", Vec::new()),
        ("a key of another tenant", bearer("EVE_KEY")),
        ("a key of another workspace", bearer("ZETA_KEY")),
        ("another token of systems", bearer("OTHER_SYSTEM_TOKEN")),
        ("another user of the market", person(server).1),
        ("an unknown token", vec![("Authorization", "Bearer nobody-knows-this".to_owned())]),
        ("a session's token", vec![("Authorization", "Bearer eyJhbGciOiJIUzI1NiJ9.e30.c2ln".to_owned())]),
    ]
}

fn start() -> Server {
    let options = Server::options().config(CONFIG).args(&["--durability", "relaxed"]);
    KEYS.iter().fold(options, |options, (name, secret)| options.env(name, secret)).start()
}

/// The result for some shapes: the number of requests, and how often each victim saw its own secret in each place.
#[derive(Default)]
struct Tally {
    asked: usize,
    seen: HashMap<(&'static str, &'static str), usize>,
}

fn ask(server: &Server, shapes: &[Shape], victims: &[Victim], strangers: &[(&'static str, Headers)]) -> Tally {
    let mut tally = Tally::default();
    for (shape, victim) in shapes.iter().flat_map(|shape| victims.iter().map(move |victim| (shape, victim))) {
        for event in [None, Some(format!("{}.1", victim.task)), Some(format!("{}.3", victim.task))] {
            let request = || {
                let request = (shape.request)(&victim.task).on_its_own();
                match &event {
                    Some(event) => request.header("Last-Event-ID", event),
                    None => request,
                }
            };
            for (name, headers) in strangers {
                let said = answer(server, &with(request(), headers));
                for secret in &victim.secrets {
                    let place = format!("{}, {event:?}, {name}, {}", shape.place, victim.name);
                    assert!(!said.contains(secret), "{place}: {secret} is in {said}");
                }
                tally.asked += 1;
            }
            // The same request shows its owner the secret that it hides from others.
            if let Some(place) = victim.resumes_at.iter().find(|place| **place == shape.place) {
                let said = answer(server, &with(request(), &victim.headers));
                let told = victim.secrets.iter().any(|secret| said.contains(secret));
                *tally.seen.entry((victim.name, place)).or_default() += usize::from(told);
            }
        }
    }
    tally
}

#[test]
fn no_stream_of_any_dialect_tells_a_stranger_of_a_task() {
    let server = start();
    let (shapes, victims, strangers) = (shapes(&server), victims(&server), strangers(&server));
    let tallies: Vec<Tally> = std::thread::scope(|scope| {
        let some = shapes.chunks(shapes.len().div_ceil(8));
        let (server, victims, strangers) = (&server, &victims, &strangers);
        let asking: Vec<_> = some.map(|some| scope.spawn(move || ask(server, some, victims, strangers))).collect();
        asking.into_iter().map(|one| one.join().unwrap_or_else(|why| std::panic::resume_unwind(why))).collect()
    });
    let asked: usize = tallies.iter().map(|tally| tally.asked).sum();
    assert_eq!(asked, victims.len() * shapes.len() * 3 * strangers.len());
    for (victim, place) in victims.iter().flat_map(|victim| victim.resumes_at.iter().map(move |place| (victim, place)))
    {
        let seen: usize = tallies.iter().filter_map(|tally| tally.seen.get(&(victim.name, *place))).sum();
        assert!(seen > 0, "{} sees its own task at {place}", victim.name);
    }
    eprintln!("{asked} requests, {} operations at their addresses", shapes.len());
    assert!(!server.log().contains("panicked"));
}

/// The calls that are no streams, at the victims' own agents. Which callers may make them at all is tested in `access`.
#[test]
fn no_call_of_grpc_tells_a_stranger_of_a_task_or_changes_it() {
    let server = start();
    let (victims, strangers) = (victims(&server), strangers(&server));
    let said = |service: &str, operation: Operation, agent: &str, task: &str, headers: &Headers| {
        let call = grpc::operation(service, operation, task)?.header("x-a2a-agent", agent);
        let Form::Grpc(call) = with(call.into(), headers) else { unreachable!("a call stays one") };
        Some(answer_over_grpc(&server, &call))
    };
    let owner = |service, operation, agent, victim: &Victim| {
        said(service, operation, agent, &victim.task, &victim.headers).unwrap_or_default()
    };
    let mut asked = 0;
    for service in [V1, V03] {
        // The cancel is last, for what it would end.
        let operations = [&[Operation::List, Operation::ExtendedCard][..], &Operation::ON_A_TASK].concat();
        for agent in ["echo", "scripted", "assistant", "open", "shut", "store"] {
            for victim in &victims {
                let config = owner(service, Operation::PushCreate, agent, victim);
                let before = owner(service, Operation::Get, agent, victim);
                for operation in &operations {
                    for (name, headers) in &strangers {
                        let Some(said) = said(service, *operation, agent, &victim.task, headers) else { continue };
                        for secret in &victim.secrets {
                            let place = format!("{service} {operation:?} at {agent}, {name}, {}", victim.name);
                            assert!(!said.contains(secret), "{place}: {secret} is in {said}");
                        }
                        asked += 1;
                    }
                }
                let place = format!("{service} at {agent}: {}", victim.name);
                assert_eq!(owner(service, Operation::Get, agent, victim), before, "{place}: the task is as it was");
                if config.contains("Some(0)") {
                    let kept = owner(service, Operation::PushGet, agent, victim);
                    assert!(kept.contains("127.0.0.1:9"), "{place}: so is its webhook: {kept}");
                }
            }
        }
        // The owners see what is hidden from strangers.
        for (name, agent) in [("ada at scripted", "scripted"), ("ada at the assistant", "assistant")] {
            let victim = victims.iter().find(|victim| victim.name == name).unwrap();
            for operation in [Operation::Get, Operation::Subscribe] {
                let own = owner(service, operation, agent, victim);
                assert!(own.contains(&victim.secrets[0]), "{service} {operation:?}: {own}");
            }
        }
        let ada = victims.iter().find(|victim| victim.name == "ada at scripted").unwrap();
        if let Some(list) = said(service, Operation::List, "scripted", "", &ada.headers) {
            assert!(list.contains(&ada.task), "{service}: {list}");
        }
    }
    eprintln!("{asked} calls");
    assert!(!server.log().contains("panicked"));
}

#[test]
fn a_workspace_is_no_tenant_to_choose_where_the_server_has_no_keys() {
    let server = Server::start(&[]);
    let demo: Value = serde_json::from_slice(&std::fs::read(server.data().join("demo.json")).unwrap()).unwrap();
    let token = demo["aly"]["token"].as_str().unwrap();
    let owner = server.at("/api/a2a").with("Authorization", &format!("Bearer {token}"));
    let cart = json!({ "skill": "cart-management", "action": "create", "site_slug": "acme" });
    let task = owner.send(parts(json!([{ "mediaType": "application/json", "data": cart }])));
    let id = own_id(task["id"].as_str().unwrap());
    let cart = task["artifacts"][0]["parts"][0]["data"]["token"].as_str().unwrap();
    let stranger = server.agent("store");
    for path in ["/acme/tasks".to_owned(), format!("/acme/tasks/{id}"), format!("/tasks/{id}?tenant=acme")] {
        let response = stranger.rest("GET", &path, None);
        assert!(!response.text().contains(cart) && !response.text().contains(&id), "{path}: {}", response.text());
        assert_eq!(response.status(), 404, "{path}: {}", response.text());
    }
    for (method, params) in
        [("ListTasks", json!({ "tenant": "acme" })), ("GetTask", json!({ "tenant": "acme", "id": id }))]
    {
        let refused = stranger.rpc(method, params).unwrap_err();
        assert!(!refused.to_string().contains(cart), "{method}: {refused}");
    }
    // Elsewhere tenants are just names, as long as no key exists.
    assert_eq!(server.agent("echo").rest("GET", "/acme/tasks", None).status(), 200);
}
