//! Systems and agents that are created while the server runs: over REST, with `rialto apply`, watched, run, and
//! present after `kill -9` and on other replicas.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::Output;
use std::time::Instant;

use cluster::Cluster;
use e2e::http::{Request, Response};
use e2e::poll::PATIENCE;
use e2e::{Server, message, send, until};
use serde_json::{Value, json};

const CONFIG: &str = r"
agents:
  echo: { kind: echo }
  scripted: { kind: scripted }
  upper: { kind: command, command: [tr, a-z, A-Z] }
systems:
  fixed: { agents: [echo], namespace: house, labels: { team: red }, a2a: { enabled: true, auth: public } }
timeouts: { heartbeat_ms: 200 }
auth:
  keys:
    - { name: reader, tenant: default, key: env:READER, scopes: [reader] }
    - { name: stranger, tenant: default, key: env:STRANGER, scopes: ['tasks:read'] }
orloj:
  tokens:
    - { name: boss, token: env:BOSS, role: admin }
    - { name: clerk, token: env:CLERK, role: writer }
    - { name: partner, token: env:PARTNER, systems: [fixed] }
";

fn options() -> e2e::server::Options {
    let options = Server::options().config(CONFIG);
    let names = ["BOSS", "CLERK", "PARTNER", "READER", "STRANGER"];
    names.iter().fold(options, |options, name| options.env(name, &name.to_lowercase()))
}

fn serve() -> Server {
    options().start()
}

fn ask(server: &Server, who: &str, verb: &str, path: &str, body: Option<&Value>) -> Response {
    let mut request = Request::new(verb, path);
    if !who.is_empty() {
        request = request.header("Authorization", &format!("Bearer {who}"));
    }
    if let Some(body) = body {
        request = request.json(body);
    }
    server.exchange(&request)
}

/// An answer, which must be successful.
fn get(server: &Server, who: &str, path: &str) -> Value {
    let answer = ask(server, who, "GET", path, None);
    assert_eq!(answer.status(), 200, "{path}: {}", answer.text());
    answer.json()
}

fn system(name: &str, spec: Value) -> Value {
    json!({ "apiVersion": "orloj.dev/v1", "kind": "AgentSystem", "metadata": { "name": name }, "spec": spec })
}

fn agent(name: &str, spec: Value) -> Value {
    json!({ "apiVersion": "orloj.dev/v1", "kind": "Agent", "metadata": { "name": name }, "spec": spec })
}

const SYSTEMS: &str = "/v1/agent-systems";
const AGENTS: &str = "/orloj/v1/agents";
const TASKS: &str = "/orloj/v1/tasks";

fn create(server: &Server, path: &str, document: &Value) -> Value {
    let answer = ask(server, "boss", "POST", path, Some(document));
    assert_eq!(answer.status(), 201, "{}", answer.text());
    answer.json()
}

/// An error's status, reason and message.
fn refusal(answer: &Response) -> (u16, String, String) {
    let said = answer.json();
    let text = |name: &str| said[name].as_str().unwrap_or_default().to_owned();
    assert_eq!(said["code"], answer.status(), "{said}");
    (answer.status(), text("reason"), text("error"))
}

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|one| one["metadata"]["name"].as_str().unwrap()).collect()
}

/// The answer of a system or an agent over A2A, as one text.
fn said(server: &Server, agent: &str, text: &str) -> String {
    let task = server.agent(agent).send(message(text));
    task["artifacts"].to_string()
}

/// The events of a watch, one after another.
struct Watch(BufReader<TcpStream>);

impl Watch {
    fn open(server: &Server, path: &str, more: &str) -> Watch {
        let mut socket = TcpStream::connect(server.addr()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer reader\r\n{more}\r\n");
        socket.write_all(request.as_bytes()).unwrap();
        let mut watch = Watch(BufReader::new(socket));
        let status = watch.line();
        assert!(status.contains(" 200 "), "{status}");
        watch
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.0.read_line(&mut line).unwrap() > 0, "the watch has ended");
        line.trim_end().to_owned()
    }

    /// The next event: its id and its data. Chunk lengths and comments are skipped.
    fn next(&mut self) -> (String, Value) {
        let (mut id, started) = (String::new(), Instant::now());
        loop {
            let line = self.line();
            assert!(started.elapsed() < PATIENCE, "nothing but heartbeats for {PATIENCE:?}");
            if let Some(text) = line.strip_prefix("id: ") {
                id = text.to_owned();
            }
            if let Some(data) = line.strip_prefix("data: ") {
                return (id, serde_json::from_str(data).unwrap());
            }
        }
    }

    /// The type and the name of the next event.
    fn told(&mut self) -> (String, String) {
        let (_, event) = self.next();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        (text(&event["type"]), text(&event["object"]["metadata"]["name"]))
    }

    /// Skips events until this one.
    fn hear(&mut self, what: &str, name: &str) {
        while self.told() != pair(what, name) {}
    }

    fn heartbeat(&mut self) {
        while self.line() != ": heartbeat" {}
    }
}

fn pair(a: &str, b: &str) -> (String, String) {
    (a.to_owned(), b.to_owned())
}

#[test]
fn a_system_is_made_changed_and_taken_away_and_is_live_at_once() {
    let server = serve();
    let spec = json!({ "graph": { "echo": { "next": "upper" } }, "a2a": { "enabled": true, "auth": "public" } });
    let made = create(&server, SYSTEMS, &system("shout", spec.clone()));
    assert_eq!((&made["kind"], &made["apiVersion"]), (&json!("AgentSystem"), &json!("orloj.dev/v1")));
    let metadata = &made["metadata"];
    assert_eq!((&metadata["namespace"], &metadata["generation"]), (&json!("default"), &json!(1)));
    assert!(metadata["createdAt"].as_str().is_some_and(|at| at.ends_with('Z')), "{made}");
    assert_eq!(made["status"]["phase"], "Ready");
    // In every dialect, as soon as the answer is there.
    assert!(said(&server, "shout", "hello").contains("HELLO"));
    let orloj = json!({ "jsonrpc": "2.0", "id": 1, "method": "tasks/send", "params": { "id": "t-1",
        "message": { "role": "user", "parts": [{ "type": "text", "text": "hello" }] } } });
    let answer = ask(&server, "", "POST", "/orloj/v1/agent-systems/shout/a2a", Some(&orloj)).json();
    assert_eq!(answer["result"]["status"]["state"], "completed", "{answer}");
    assert!(get(&server, "", "/orloj/v1/agent-systems/shout/.well-known/agent-card.json")["name"] == "shout");

    let again = ask(&server, "boss", "POST", SYSTEMS, Some(&system("shout", spec)));
    let (status, reason, words) = refusal(&again);
    assert_eq!((status, reason.as_str()), (409, "AlreadyExists"));
    assert!(words.contains("update it with PUT"), "{words}");

    // Of two writers of the same version one gets a conflict.
    let at = format!("{SYSTEMS}/shout");
    let mut newer = get(&server, "reader", &at);
    newer["spec"]["graph"] = json!({ "echo": {} });
    let changed = ask(&server, "boss", "PUT", &at, Some(&newer));
    assert_eq!(changed.status(), 200, "{}", changed.text());
    assert_eq!(changed.json()["metadata"]["generation"], 2);
    assert_eq!(said(&server, "shout", "hello").matches("HELLO").count(), 0);
    let (status, _, words) = refusal(&ask(&server, "boss", "PUT", &at, Some(&newer)));
    assert_eq!(status, 409);
    assert!(words.contains("get it again"), "{words}");
    let mut bare = newer.clone();
    bare["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    let version = changed.json()["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    assert_eq!(changed.head.header("etag"), Some(format!("\"{version}\"").as_str()));
    for (tag, expected) in [("\"1\"", 409), (&*format!("\"{version}\""), 200), ("*", 200), ("x", 400)] {
        let request = Request::new("PUT", &at).header("Authorization", "Bearer boss").header("If-Match", tag);
        assert_eq!(server.exchange(&request.json(&bare)).status(), expected, "{tag}");
    }
    bare["metadata"]["name"] = json!("other");
    assert_eq!(ask(&server, "boss", "PUT", &at, Some(&bare)).status(), 400);

    assert_eq!(ask(&server, "boss", "DELETE", &at, None).status(), 200);
    assert_eq!(ask(&server, "boss", "GET", &at, None).status(), 404);
    assert_eq!(ask(&server, "boss", "DELETE", &at, None).status(), 404);
    assert_eq!(ask(&server, "boss", "PUT", &at, Some(&newer)).status(), 404);
    let gone = server.agent("shout").rest("POST", "/message:send", Some(&send(message("x"))));
    assert_eq!(gone.status(), 404, "{}", gone.text());
}

#[test]
fn lists_are_chosen_from_and_turned_over() {
    let server = serve();
    for (name, namespace, labels) in [
        ("a", "one", json!({ "team": "red", "tier": "1" })),
        ("b", "one", json!({ "team": "blue" })),
        ("c", "two", json!({ "team": "red" })),
    ] {
        let mut document = system(name, json!({ "agents": ["echo"] }));
        document["metadata"]["labels"] = labels;
        document["metadata"]["namespace"] = json!(namespace);
        create(&server, SYSTEMS, &document);
    }
    for (query, expected) in [
        ("", &["a", "b", "c", "fixed"][..]),
        ("?namespace=one", &["a", "b"]),
        ("?labelSelector=team%3Dred", &["a", "c", "fixed"]),
        ("?labelSelector=team%21%3Dred", &["b"]),
        ("?labelSelector=team%20in%20(red,blue),tier", &["a"]),
        ("?labelSelector=team%20notin%20(red)", &["b"]),
        ("?labelSelector=%21tier&namespace=one", &["b"]),
        ("?limit=2", &["a", "b"]),
        ("?limit=2&after=b", &["c", "fixed"]),
    ] {
        let list = get(&server, "reader", &format!("{SYSTEMS}{query}"));
        assert_eq!(names(&list), expected, "{query}");
        assert_eq!(list["kind"], "AgentSystemList");
    }
    let first = get(&server, "reader", "/v1/agent-systems?limit=3");
    assert_eq!(first["continue"], "c");
    let next = get(&server, "reader", "/v1/agent-systems?limit=3&after=c");
    assert_eq!((names(&next), next.get("continue")), (vec!["fixed"], None));
    for wrong in ["?limit=0", "?limit=x", "?labelSelector=a%3Db%3Dc"] {
        assert_eq!(ask(&server, "reader", "GET", &format!("{SYSTEMS}{wrong}"), None).status(), 400, "{wrong}");
    }
    // The same below the mount; and agents.
    assert_eq!(names(&get(&server, "reader", "/orloj/v1/agent-systems?limit=1")), ["a"]);
    assert_eq!(names(&get(&server, "reader", AGENTS)), ["echo", "scripted", "upper"]);
    assert_eq!(get(&server, "reader", "/v1/agents/upper")["spec"], json!({ "kind": "command" }), "not how it runs");
    assert_eq!(ask(&server, "boss", "PATCH", "/v1/agents/upper", None).status(), 405);
}

#[test]
fn whoever_may_not_is_told_so() {
    let server = serve();
    let document = system("mine", json!({ "agents": ["echo"] }));
    let run = json!({ "metadata": { "name": "r" }, "spec": { "system": "fixed", "input": { "prompt": "x" } } });
    for (who, reads, runs, changes) in [
        ("", 401, 401, 401),
        ("wrong", 401, 401, 401),
        ("partner", 403, 403, 403),
        ("stranger", 403, 403, 403),
        ("reader", 200, 403, 403),
        ("clerk", 200, 201, 403),
        ("boss", 200, 409, 201),
    ] {
        assert_eq!(ask(&server, who, "GET", SYSTEMS, None).status(), reads, "{who} reads");
        assert_eq!(ask(&server, who, "GET", TASKS, None).status(), reads, "{who} reads runs");
        assert_eq!(ask(&server, who, "GET", "/orloj/v1/tool-approvals", None).status(), reads, "{who}");
        assert_eq!(ask(&server, who, "POST", TASKS, Some(&run)).status(), runs, "{who} runs");
        assert_eq!(ask(&server, who, "POST", SYSTEMS, Some(&document)).status(), changes, "{who} changes");
    }
    // Where callers need no key, changes still do; reads do not.
    let open = Server::options().config("agents: { echo: { kind: echo } }\norloj: {}\n").start();
    assert_eq!(ask(&open, "", "GET", AGENTS, None).status(), 200);
    let (status, _, words) = refusal(&ask(&open, "", "POST", SYSTEMS, Some(&document)));
    assert_eq!(status, 401);
    assert!(words.contains("rialto keys create"), "{words}");
    // Without the endpoints there are no routes.
    let none = Server::options().config("agents: { echo: { kind: echo } }\n").start();
    assert_eq!(ask(&none, "", "GET", SYSTEMS, None).status(), 404);
}

#[test]
fn what_cannot_run_or_may_not_be_made_is_refused_with_the_path() {
    let server = serve();
    let long = "x".repeat(300_000);
    for (path, document, status, says) in [
        (SYSTEMS, system("s", json!({ "agents": ["nobody"] })), 400, "spec.agents[0]: there is no agent \"nobody\""),
        (
            SYSTEMS,
            system("s", json!({ "graph": { "echo": { "nxt": "a" } } })),
            400,
            "spec.graph.echo.nxt: unknown field `nxt`",
        ),
        (
            SYSTEMS,
            system("s", json!({ "graph": { "echo": { "next": "echo" } } })),
            400,
            "the loop echo → echo has no bound",
        ),
        (SYSTEMS, system("s", json!({ "agents": ["s"] })), 400, "break the ring"),
        (SYSTEMS, system("s s", json!({ "agents": ["echo"] })), 400, "metadata.name: \"s s\" is no name"),
        (SYSTEMS, system("tasks", json!({ "agents": ["echo"] })), 400, "metadata.name: \"tasks\" is an address"),
        (SYSTEMS, system("fixed", json!({ "agents": ["echo"] })), 409, "comes from the server's config"),
        (SYSTEMS, system("echo", json!({ "agents": ["upper"] })), 409, "choose another name"),
        (SYSTEMS, agent("x", json!({ "kind": "echo" })), 400, "this address is for kind AgentSystem"),
        (SYSTEMS, json!({ "metadata": { "name": "x" } }), 400, "spec: is missing"),
        (SYSTEMS, json!([]), 400, "must be a JSON object"),
        (SYSTEMS, system("s", json!({ "title": long })), 413, "larger than"),
        (
            AGENTS,
            agent("a", json!({ "kind": "command", "command": "id" })),
            403,
            "agents of kind command may not be made",
        ),
        (AGENTS, agent("a", json!({ "kind": "http", "url": "http://127.0.0.1:1" })), 403, "allow_kinds: [http]"),
        (AGENTS, agent("a", json!({ "kind": "echo", "titel": "x" })), 400, "did you mean `title`?"),
        (AGENTS, agent("a", json!({ "model_ref": "gpt" })), 400, "spec.model_ref: \"gpt\" is no agent of kind openai"),
        (
            AGENTS,
            json!({ "kind": "Tool", "metadata": { "name": "a" }, "spec": {} }),
            400,
            "this address is for kind Agent",
        ),
    ] {
        let (got, _, words) = refusal(&ask(&server, "boss", "POST", path, Some(&document)));
        assert_eq!(got, status, "{words}");
        assert!(words.contains(says), "{says}: {words}");
    }
    // The config's resources cannot be changed or deleted, and the error names their source.
    let at = format!("{SYSTEMS}/fixed");
    let mut own = get(&server, "boss", &at);
    assert_eq!(own["metadata"]["annotations"]["rialto.dev/origin"], "config");
    assert_eq!(own["metadata"]["namespace"], "house");
    own["spec"]["title"] = json!("mine");
    for answer in [ask(&server, "boss", "PUT", &at, Some(&own)), ask(&server, "boss", "DELETE", &at, None)] {
        let (status, reason, words) = refusal(&answer);
        assert_eq!((status, reason.as_str()), (409, "Configured"));
        assert!(words.contains("change it there and reload"), "{words}");
    }
    // A used agent cannot be deleted.
    create(&server, AGENTS, &agent("mine", json!({ "kind": "scripted" })));
    create(&server, SYSTEMS, &system("uses", json!({ "agents": ["mine"] })));
    let delete = |path: &str| ask(&server, "boss", "DELETE", path, None);
    let (status, reason, words) = refusal(&delete("/v1/agents/mine"));
    assert_eq!((status, reason.as_str()), (409, "InUse"));
    assert!(words.contains("is a node of uses"), "{words}");
    let client = server.agent("uses");
    let task = client.open(message("sleep:60000"));
    let id = task["id"].as_str().unwrap();
    client.in_state(id, "TASK_STATE_WORKING");
    let (status, reason, words) = refusal(&delete("/v1/agent-systems/uses"));
    assert_eq!((status, reason.as_str()), (409, "InUse"));
    assert!(words.contains("is at work on the task"), "{words}");
    client.rpc("CancelTask", json!({ "id": id })).unwrap();
    assert_eq!(delete("/v1/agent-systems/uses").status(), 200);
    assert_eq!(delete("/v1/agents/mine").status(), 200);
}

#[test]
fn what_was_made_is_there_after_a_kill_and_the_config_wins() {
    let mut server = serve();
    create(&server, AGENTS, &agent("loud", json!({ "kind": "echo", "description": "Says it again." })));
    create(&server, SYSTEMS, &system("twice", json!({ "graph": { "upper": { "next": "loud" } } })));
    create(&server, SYSTEMS, &system("gone", json!({ "agents": ["loud"] })));
    assert_eq!(ask(&server, "boss", "DELETE", "/v1/agent-systems/gone", None).status(), 200);
    let before = get(&server, "reader", "/v1/agent-systems/twice");
    server.restart();
    assert_eq!(get(&server, "reader", "/v1/agent-systems/twice"), before);
    assert_eq!(names(&get(&server, "reader", SYSTEMS)), ["fixed", "twice"]);
    assert!(said(&server, "twice", "hello").contains("HELLO"));
    // Version numbers continue.
    let later = create(&server, SYSTEMS, &system("later", json!({ "agents": ["loud"] })));
    let version = |one: &Value| one["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
    assert!(version(&later) > version(&before));

    // A reload keeps them; a name that the config takes is the config's, and returns when the config drops it.
    let taken = CONFIG.replace("  fixed:", "  twice: { agents: [echo] }\n  fixed:");
    server.write_config(&taken);
    let is_config = |value: &Value| value["metadata"]["annotations"]["rialto.dev/origin"] == "config";
    let shown = || get(&server, "reader", "/v1/agent-systems/twice");
    until("the config has the name", PATIENCE, || Some(()).filter(|()| is_config(&shown())));
    assert!(!said(&server, "twice", "hello").contains("HELLO"));
    until("the log says so", PATIENCE, || {
        Some(()).filter(|()| server.log().contains("agent-systems/twice was made and is not served"))
    });
    assert!(said(&server, "later", "hello").contains("hello"));
    server.write_config(CONFIG);
    until("the config lets go of it", PATIENCE, || Some(()).filter(|()| !is_config(&shown())));
    assert_eq!(shown(), before);
}

#[test]
fn a_watch_tells_what_is_there_and_what_happens_and_is_taken_up_again() {
    let mut server = serve();
    let mut watch = Watch::open(&server, "/v1/agent-systems/watch", "");
    assert_eq!(watch.told(), pair("ADDED", "fixed"));
    watch.heartbeat();
    let mut document = system("a", json!({ "agents": ["echo"] }));
    create(&server, SYSTEMS, &document);
    let (first, event) = watch.next();
    assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!("ADDED"), &json!("a")));
    document["spec"]["title"] = json!("A");
    assert_eq!(ask(&server, "boss", "PUT", "/v1/agent-systems/a", Some(&document)).status(), 200);
    assert_eq!(watch.told(), pair("MODIFIED", "a"));
    create(&server, AGENTS, &agent("other", json!({ "kind": "echo" })));
    assert_eq!(ask(&server, "boss", "DELETE", "/v1/agent-systems/a", None).status(), 200);
    assert_eq!(watch.told(), pair("DELETED", "a"), "agents are another list");
    // A watcher that resumes with an id, or with a list's version, gets the rest.
    let mut again = Watch::open(&server, "/v1/agent-systems/watch", &format!("Last-Event-ID: {first}\r\n"));
    assert_eq!((again.told(), again.told()), (pair("MODIFIED", "a"), pair("DELETED", "a")));
    let list = get(&server, "reader", SYSTEMS);
    let version = list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let path = format!("/orloj/v1/agent-systems/watch?resourceVersion={version}&labelSelector=team");
    let mut later = Watch::open(&server, &path, "");
    let mut labelled = system("l", json!({ "agents": ["echo"] }));
    create(&server, SYSTEMS, &system("b", json!({ "agents": ["echo"] })));
    labelled["metadata"]["labels"] = json!({ "team": "x" });
    create(&server, SYSTEMS, &labelled);
    assert_eq!(later.told(), pair("ADDED", "l"), "only what the selector admits");
    // A new process cannot resume a watch from an older version, and says so.
    server.restart();
    let old = ask(&server, "reader", "GET", &format!("/v1/agent-systems/watch?resourceVersion={version}"), None);
    let (status, reason, words) = refusal(&old);
    assert_eq!((status, reason.as_str()), (410, "Expired"));
    assert!(words.contains("list again"), "{words}");
    let now = get(&server, "reader", SYSTEMS)["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let mut new = Watch::open(&server, &format!("/v1/agent-systems/watch?resourceVersion={now}"), "");
    assert_eq!(ask(&server, "boss", "DELETE", "/v1/agent-systems/b", None).status(), 200);
    assert_eq!(new.told(), pair("DELETED", "b"));
}

fn run(name: &str, system: &str, prompt: &str) -> Value {
    json!({ "apiVersion": "orloj.dev/v1", "kind": "Task", "metadata": { "name": name, "labels": { "by": "test" } },
        "spec": { "system": system, "input": { "prompt": prompt } } })
}

fn phase(server: &Server, name: &str, wanted: &str) -> Value {
    let at = format!("{TASKS}/{name}");
    until(&format!("{name} is {wanted}"), PATIENCE, || {
        Some(get(server, "reader", &at)).filter(|run| run["status"]["phase"] == wanted)
    })
}

#[test]
fn runs_are_made_read_and_taken_away() {
    let server = serve();
    let spec =
        json!({ "graph": { "first": { "agent": "echo", "next": "second" }, "second": { "agent": "scripted" } } });
    create(&server, SYSTEMS, &system("two", spec));
    create(&server, SYSTEMS, &system("flaky", json!({ "graph": { "scripted": { "retries": 1 } } })));
    let mut watch = Watch::open(&server, "/orloj/v1/tasks/watch", "");
    let made = ask(&server, "clerk", "POST", TASKS, Some(&run("r-1", "two", "good morning")));
    assert_eq!(made.status(), 201, "{}", made.text());
    assert_eq!(made.json()["spec"], json!({ "system": "two", "input": { "prompt": "good morning" } }));
    assert_eq!(watch.told().1, "r-1");
    let done = phase(&server, "r-1", "Succeeded");
    assert_eq!(done["status"]["output"]["result"], "good morning", "{done}");
    assert_eq!(done["metadata"]["labels"], json!({ "by": "test" }));
    assert!(done["status"]["completedAt"].is_string());
    let logs = get(&server, "reader", "/orloj/v1/tasks/r-1/logs");
    let steps: Vec<&str> = logs["items"].as_array().unwrap().iter().map(|one| one["step"].as_str().unwrap()).collect();
    assert_eq!(steps, ["began", "started", "completed", "started", "completed", "finished"]);
    assert_eq!(get(&server, "reader", "/orloj/v1/tasks/r-1/messages")["items"][0]["content"], "good morning");
    // It is a task like any other.
    let get_task =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": { "id": done["status"]["taskId"] } });
    let answer = ask(&server, "", "POST", "/a2a/two", Some(&get_task)).json();
    assert_eq!(answer["result"]["status"]["state"], "TASK_STATE_COMPLETED", "{answer}");

    let (status, reason, _) = refusal(&ask(&server, "clerk", "POST", TASKS, Some(&run("r-1", "two", "again"))));
    assert_eq!((status, reason.as_str()), (409, "AlreadyExists"));
    for (document, says) in [
        (run("r-2", "nobody", "x"), "spec.system: there is no AgentSystem \"nobody\""),
        (json!({ "spec": { "system": "two" } }), "spec.input: is empty"),
        (json!({ "spec": { "system": "two", "input": { "a": "b" }, "mode": "template" } }), "spec.mode"),
        (json!({ "spec": { "system": "two", "inputs": {} } }), "spec.inputs: unknown field"),
    ] {
        let (status, _, words) = refusal(&ask(&server, "clerk", "POST", TASKS, Some(&document)));
        assert_eq!(status, 400, "{words}");
        assert!(words.contains(says), "{says}: {words}");
    }
    // Retried, without success.
    assert_eq!(ask(&server, "clerk", "POST", TASKS, Some(&run("bad", "flaky", "fail:broken"))).status(), 201);
    let bad = phase(&server, "bad", "DeadLetter");
    assert!(bad["status"]["lastError"].as_str().is_some_and(|error| error.contains("broken")), "{bad}");
    // Deleting a running one cancels it.
    assert_eq!(ask(&server, "clerk", "POST", TASKS, Some(&run("long", "two", "sleep:600000"))).status(), 201);
    phase(&server, "long", "Running");
    // A resource that is created and deleted between two polls produces no event.
    watch.hear("ADDED", "long");
    let list = get(&server, "reader", &format!("{TASKS}?labelSelector=by%3Dtest"));
    let mut all = names(&list);
    all.sort_unstable();
    assert_eq!(all, ["bad", "long", "r-1"]);
    let first = get(&server, "reader", &format!("{TASKS}?limit=2"));
    let next = get(&server, "reader", &format!("{TASKS}?limit=2&after={}", first["continue"].as_str().unwrap()));
    assert_eq!(names(&first).len() + names(&next).len(), 3);
    assert_eq!(ask(&server, "reader", "DELETE", "/orloj/v1/tasks/long", None).status(), 403);
    assert_eq!(ask(&server, "clerk", "DELETE", "/orloj/v1/tasks/long", None).status(), 204);
    assert_eq!(ask(&server, "clerk", "GET", "/orloj/v1/tasks/long", None).status(), 404);
    watch.hear("DELETED", "long");
}

#[test]
fn a_run_has_a_lower_bound_for_its_loops_if_it_asks_for_one() {
    let server = serve();
    create(&server, SYSTEMS, &system("round", json!({ "graph": { "echo": { "next": "echo" } }, "max_turns": 5 })));
    for (name, most, visits) in [("usual", None, 5), ("short", Some(2), 2), ("long", Some(50), 5)] {
        let mut document = run(name, "round", "x");
        if let Some(most) = most {
            document["spec"]["max_turns"] = json!(most);
        }
        assert_eq!(ask(&server, "clerk", "POST", TASKS, Some(&document)).status(), 201);
        phase(&server, name, "Succeeded");
        let logs = get(&server, "reader", &format!("{TASKS}/{name}/logs"));
        let started = logs["items"].as_array().unwrap().iter().filter(|one| one["step"] == "started").count();
        assert_eq!(started, visits, "{name}: {logs}");
    }
}

#[test]
fn approvals_are_listed_and_decided_once() {
    let server = serve();
    let spec = json!({ "graph": { "echo": { "approval": { "ask": "May it?" } } } });
    create(&server, SYSTEMS, &system("asks", spec));
    for name in ["yes", "no", "late"] {
        assert_eq!(ask(&server, "clerk", "POST", TASKS, Some(&run(name, "asks", "go"))).status(), 201);
    }
    let waits = |name: &str| {
        let run = phase(&server, name, "WaitingApproval");
        assert_eq!(run["status"]["blockedOn"]["kind"], "ToolApproval");
        format!("/orloj/v1/tool-approvals/{}", run["status"]["blockedOn"]["name"].as_str().unwrap())
    };
    let (yes, no, late) = (waits("yes"), waits("no"), waits("late"));
    let list = get(&server, "reader", "/orloj/v1/tool-approvals");
    assert_eq!(names(&list).len(), 3);
    let one = get(&server, "reader", &yes);
    assert_eq!((&one["kind"], &one["status"]["phase"]), (&json!("ToolApproval"), &json!("Pending")));
    assert_eq!((&one["spec"]["task_ref"], &one["spec"]["agent"]), (&json!("yes"), &json!("echo")));
    assert!(one["spec"]["reason"].as_str().is_some_and(|asks| asks.contains("May it?")), "{one}");

    let say =
        |path: &str, verb: &str, body: Value| ask(&server, "clerk", "POST", &format!("{path}/{verb}"), Some(&body));
    let approved = say(&yes, "approve", json!({ "reason": "fine", "decided_by": "ann" }));
    assert_eq!(approved.status(), 200, "{}", approved.text());
    assert_eq!(approved.json()["status"], json!({ "phase": "Approved", "reason": "fine", "decidedBy": "ann" }));
    phase(&server, "yes", "Succeeded");
    assert_eq!(get(&server, "reader", &yes)["status"]["decidedBy"], "ann");
    let (status, _, words) = refusal(&say(&yes, "deny", json!({})));
    assert_eq!(status, 409);
    assert!(words.contains("is Approved already"), "{words}");

    assert_eq!(say(&no, "deny", json!({ "reason": "too dear" })).status(), 200);
    let denied = phase(&server, "no", "Failed");
    assert!(denied["status"]["lastError"].as_str().is_some_and(|error| error.contains("too dear")), "{denied}");
    assert_eq!(
        get(&server, "reader", &no)["status"],
        json!({ "phase": "Denied", "reason": "too dear", "decidedBy": "clerk" })
    );

    // Of many concurrent decisions one is accepted.
    let decided: Vec<u16> = std::thread::scope(|scope| {
        let (say, late) = (&say, &late);
        let all: Vec<_> = (0..8)
            .map(|n| scope.spawn(move || say(late, if n % 2 == 0 { "approve" } else { "deny" }, json!({})).status()))
            .collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(decided.contains(&200) && decided.contains(&409), "{decided:?}");
    let end = until("the last run has ended", PATIENCE, || {
        Some(get(&server, "reader", "/orloj/v1/tasks/late")).filter(|run| run["status"].get("completedAt").is_some())
    });
    let logs = get(&server, "reader", "/orloj/v1/tasks/late/logs");
    let began = logs["items"].as_array().unwrap().iter().filter(|one| one["step"] == "began").count();
    assert_eq!(began, 1, "no answer became another run: {end} {logs}");
    assert_eq!(say("/orloj/v1/tool-approvals/nobody-1", "approve", json!({})).status(), 404);
    // No decision was made, and none will be.
    assert_eq!(ask(&server, "clerk", "POST", TASKS, Some(&run("never", "asks", "go"))).status(), 201);
    let never = waits("never");
    let id = get(&server, "reader", "/orloj/v1/tasks/never")["status"]["taskId"].as_str().unwrap().to_owned();
    server.agent("asks").rpc("CancelTask", json!({ "id": id })).unwrap();
    assert_eq!(get(&server, "reader", &never)["status"]["phase"], "Expired");
    assert_eq!(say(&never, "approve", json!({})).status(), 409);
}

fn apply(server: &Server, file: &std::path::Path, more: &[&str]) -> Output {
    let mut command = server.operate(&["apply", "-f", file.to_str().unwrap()]);
    command.args(more).output().unwrap()
}

fn told(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

const FILE: &str = "
apiVersion: orloj.dev/v1
kind: AgentSystem
metadata: { name: shout, labels: { team: red } }
spec:
  graph:
    upper: { next: mine }
---
apiVersion: orloj.dev/v1
kind: Agent
metadata: { name: mine }
spec: { kind: echo }
";

#[test]
fn files_are_applied_beside_the_server_and_from_afar() {
    let mut server = serve();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.yaml");
    std::fs::write(&file, FILE).unwrap();
    let first = apply(&server, &file, &[]);
    assert!(first.status.success(), "{}", told(&first));
    assert_eq!(told(&first), "agents/mine created\nagent-systems/shout created\n", "agents come first");
    assert!(said(&server, "shout", "hello").contains("HELLO"));
    assert_eq!(told(&apply(&server, &file, &[])), "agents/mine unchanged\nagent-systems/shout unchanged\n");
    std::fs::write(&file, FILE.replace("team: red", "team: blue")).unwrap();
    let url = server.url();
    let far = ["--url", url.as_str(), "--key", "boss"];
    let changed = apply(&server, folder.path(), &far);
    assert_eq!(told(&changed), "agents/mine unchanged\nagent-systems/shout configured\n");
    // The command prints the server's errors, and applies the rest.
    let more = "---\nkind: Agent\nmetadata: { name: run }\nspec: { kind: command, command: id }\n---\nkind: Secret\nmetadata: { name: s }\nspec: {}\n";
    std::fs::write(&file, format!("{FILE}{more}")).unwrap();
    for how in [&[][..], &far] {
        let refused = apply(&server, &file, how);
        assert_eq!(refused.status.code(), Some(1));
        let words = told(&refused);
        for piece in ["agents/mine unchanged", "agents of kind command may not be made", "secrets stay outside"] {
            assert!(words.contains(piece), "{piece}: {words}");
        }
    }
    let nobody = apply(&server, &file, &["--url", url.as_str(), "--key", "reader"]);
    assert_eq!(nobody.status.code(), Some(1));
    assert!(told(&nobody).contains("HTTP 403"), "{}", told(&nobody));
    let audit = std::fs::read_to_string(server.data().join("audit.log")).unwrap();
    for piece in [r#""change":"created""#, r#""by":"(operator)""#, r#""change":"configured""#, r#""by":"boss""#] {
        assert!(audit.contains(piece), "{piece}: {audit}");
    }
    server.terminate();
    std::fs::write(&file, FILE).unwrap();
    let down = apply(&server, &file, &[]);
    assert_eq!(down.status.code(), Some(1));
    assert!(told(&down).contains("no server runs on this data"), "{}", told(&down));
}

#[test]
fn what_one_replica_makes_the_others_serve() {
    let database = Cluster::shared().database();
    let replicas: Vec<Server> = (0..2).map(|_| options().database(&database.url()).start()).collect();
    let (one, other) = (&replicas[0], &replicas[1]);
    let mut watch = Watch::open(other, "/v1/agent-systems/watch", "");
    assert_eq!(watch.told(), pair("ADDED", "fixed"));
    create(one, AGENTS, &agent("mine", json!({ "kind": "echo" })));
    let made = create(one, SYSTEMS, &system("shout", json!({ "graph": { "upper": { "next": "mine" } } })));
    assert_eq!(watch.told(), pair("ADDED", "shout"));
    assert_eq!(get(other, "reader", "/v1/agent-systems/shout"), made);
    assert!(said(other, "shout", "hello").contains("HELLO"));
    // A replica that has not seen a change yet does not undo it.
    let writes: Vec<u16> = std::thread::scope(|scope| {
        let made = &made;
        let all: Vec<_> = replicas
            .iter()
            .map(|server| {
                scope.spawn(move || {
                    let mut document = made.clone();
                    document["spec"]["title"] = json!(server.url());
                    ask(server, "boss", "PUT", "/v1/agent-systems/shout", Some(&document)).status()
                })
            })
            .collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let mut sorted = writes.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, [200, 409]);
    assert_eq!(watch.told(), pair("MODIFIED", "shout"));
    let winner = &replicas[writes.iter().position(|status| *status == 200).unwrap()];
    for server in &replicas {
        until("both have the winner's", PATIENCE, || {
            let title = get(server, "reader", "/v1/agent-systems/shout")["spec"]["title"].clone();
            Some(()).filter(|()| title == json!(winner.url()))
        });
    }
    assert_eq!(ask(other, "boss", "DELETE", "/v1/agent-systems/shout", None).status(), 200);
    until("it is gone everywhere", PATIENCE, || {
        Some(()).filter(|()| ask(one, "reader", "GET", "/v1/agent-systems/shout", None).status() == 404)
    });
    let gone = one.agent("shout").rest("POST", "/message:send", Some(&send(message("x"))));
    assert_eq!(gone.status(), 404, "{}", gone.text());
}
