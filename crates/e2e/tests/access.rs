//! Access: every operation, by every kind of caller, in every dialect, under every visibility.
//!
//! The table has three answers: allowed, refused (unauthenticated, or forbidden), and missing. A caller that may
//! not see a task gets exactly the answer for a task that never existed.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

use std::path::Path;
use std::process::Command;

use e2e::grpc;
use e2e::{Operation, Server, Speaker, Tongue, Verdict, until};
use serde_json::{Value, json};

const SEEN: [(&str, &str); 4] = [
    ("tenant", "visibility: tenant"),
    ("owner", "visibility: owner"),
    ("parties", "mounts: { scripted: { visibility: parties, parties: [sam] } }"),
    ("systems", "visibility: systems"),
];

/// Callers without a `tasks` scope may do nothing here.
const POLICY: &str = r#"
policy:
  - allow: { scopes: ["tasks"] }
  - allow: { scopes: ["billing"], agents: ["ledger"] }
auth:
  required: true
  keys:
    - { name: gone, tenant: north, key: "env:E2E_KEY_GONE", scopes: [tasks, "system:scripted"], expires_at: "2020-01-01T00:00:00Z" }
"#;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Owner,
    /// A caller of the same tenant, without more rights.
    Colleague,
    /// A caller of the same tenant, named as a party of every task.
    Party,
    OtherTenant,
    Anonymous,
    Expired,
    Revoked,
    WrongScope,
}

const KINDS: [Kind; 8] = [
    Kind::Owner,
    Kind::Colleague,
    Kind::Party,
    Kind::OtherTenant,
    Kind::Anonymous,
    Kind::Expired,
    Kind::Revoked,
    Kind::WrongScope,
];

/// Whether this kind of caller sees the owner's tasks.
fn sees(kind: Kind, visibility: &str) -> bool {
    match (kind, visibility) {
        (Kind::Owner, _) | (Kind::Colleague | Kind::Party, "tenant") | (Kind::Party, "parties") => true,
        // Bound to the system, as the owner is.
        (Kind::Party, "systems") => true,
        _ => false,
    }
}

fn says(operation: Operation) -> bool {
    use Operation::{Continue, ContinueStream, Send, Stream};
    matches!(operation, Send | Stream | Continue | ContinueStream)
}

fn expected(kind: Kind, visibility: &str, operation: Operation) -> Verdict {
    let about_a_task = Operation::ON_A_TASK.contains(&operation);
    match kind {
        Kind::Anonymous | Kind::Expired | Kind::Revoked => Verdict::Unauthenticated,
        Kind::WrongScope => Verdict::Forbidden,
        // Not bound to the system: it may send nothing here, whatever task it names.
        Kind::Colleague if visibility == "systems" && says(operation) => Verdict::Forbidden,
        _ if about_a_task && !sees(kind, visibility) => Verdict::Missing,
        _ => Verdict::Allowed,
    }
}

fn keys(data: &Path, args: &[&str]) -> Value {
    let done =
        Command::new(e2e::setup::binary()).arg("keys").args(args).arg("--data").arg(data).args(["-o", "json"]).output();
    let done = done.expect("rialto runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    serde_json::from_slice(&done.stdout).expect("json")
}

fn make(data: &Path, name: &str, tenant: &str, scopes: &[&str]) -> Value {
    let mut args = vec!["create", name, "--tenant", tenant];
    for scope in scopes {
        args.extend(["--scope", scope]);
    }
    keys(data, &args)
}

struct House {
    server: Server,
    secrets: Vec<(Kind, Option<String>)>,
}

impl House {
    fn open(visibility: &str) -> House {
        let server = Server::options()
            .config(&format!("{visibility}\n{POLICY}"))
            .env("E2E_KEY_GONE", "gone-0123456789abcdef")
            .start();
        let data = server.data();
        let bound = ["tasks", "system:scripted"];
        let secret = |made: &Value| Some(made["secret"].as_str().unwrap().to_owned());
        let revoked = make(&data, "rob", "north", &bound);
        keys(&data, &["revoke", revoked["id"].as_str().unwrap()]);
        let secrets = vec![
            (Kind::Owner, secret(&make(&data, "ada", "north", &bound))),
            (Kind::Colleague, secret(&make(&data, "bob", "north", &["tasks", "system:other"]))),
            (Kind::Party, secret(&make(&data, "sam", "north", &bound))),
            (Kind::OtherTenant, secret(&make(&data, "eve", "south", &bound))),
            (Kind::Anonymous, None),
            (Kind::Expired, Some("gone-0123456789abcdef".to_owned())),
            (Kind::Revoked, secret(&revoked)),
            (Kind::WrongScope, secret(&make(&data, "wes", "north", &["billing", "system:scripted"]))),
        ];
        House { server, secrets }
    }

    fn secret(&self, kind: Kind) -> Option<&String> {
        self.secrets.iter().find(|(known, _)| *known == kind).and_then(|(_, secret)| secret.as_ref())
    }

    /// An operation over gRPC, with the caller's credential.
    fn call(&self, kind: Kind, service: &str, operation: Operation, task: &str) -> Option<grpc::Reply> {
        let mut call = grpc::operation(service, operation, task)?;
        if let Some(secret) = self.secret(kind) {
            call = call.header("authorization", &format!("Bearer {secret}"));
        }
        Some(grpc::Connection::open(self.server.addr()).first_answer(&call))
    }

    fn speaker(&self, kind: Kind, tongue: Tongue) -> Speaker {
        let agent = self.server.agent("scripted");
        let secret = self.secret(kind);
        tongue.speaker(&match secret {
            Some(secret) => agent.with("Authorization", &format!("Bearer {secret}")),
            None => agent,
        })
    }

    /// A task of the owner that waits for an answer, by its own id; in 0.1 its opener uses an alias.
    fn task(&self, tongue: Tongue) -> String {
        let script = json!([{ "input": "well?" }, { "input": "and?" }, { "input": "so?" }, { "complete": "done" }]);
        let owner = self.speaker(Kind::Owner, tongue);
        let opened = self.speaker(Kind::Owner, Tongue::V1).ask(&script);
        let id = opened.id;
        until("the task asks", e2e::poll::PATIENCE, || (owner.get(&id).state == "input-required").then_some(()));
        // Now there is a push config to read.
        let created = owner.ask_for(Operation::PushCreate, &id).unwrap();
        assert_eq!(created.verdict, Verdict::Allowed, "{tongue:?}: {}", created.body);
        id
    }
}

/// The id of a task that never existed.
fn missing(of: &str) -> String {
    let (head, tail) = of.split_at(of.len() - 4);
    format!("{head}{}", if tail == "abcd" { "dcba" } else { "abcd" })
}

fn table(visibility: &str, config: &str) {
    let house = House::open(config);
    let mut asked = 0;
    for tongue in Tongue::ALL {
        for kind in KINDS {
            let speaker = house.speaker(kind, tongue);
            for operation in Operation::ON_NONE {
                let Some(answer) = speaker.ask_for(operation, "") else { continue };
                let wanted = expected(kind, visibility, operation);
                assert_eq!(
                    answer.verdict, wanted,
                    "{visibility}: {kind:?} {operation:?} in {tongue:?}: {} {}",
                    answer.head.status, answer.body
                );
                asked += 1;
            }
            let task = house.task(tongue);
            let never = missing(&task);
            for operation in Operation::ON_A_TASK {
                let Some(answer) = speaker.ask_for(operation, &task) else { continue };
                let wanted = expected(kind, visibility, operation);
                let place = format!("{visibility}: {kind:?} {operation:?} in {tongue:?}");
                assert_eq!(answer.verdict, wanted, "{place}: {} {}", answer.head.status, answer.body);
                if wanted != Verdict::Allowed {
                    let unknown = speaker.ask_for(operation, &never).unwrap();
                    assert_eq!(answer.face(&task), unknown.face(&never), "{place}: not to be told from a missing task");
                }
                asked += 1;
            }
            let after = house.speaker(Kind::Owner, Tongue::V1).get(&task).state;
            let touched = expected(kind, visibility, Operation::Cancel) == Verdict::Allowed;
            assert_eq!(after == "canceled", touched, "{visibility}: {kind:?} in {tongue:?} left it {after}");
        }
    }
    asked += [grpc::V1, grpc::V03].map(|service| over_grpc(&house, visibility, service)).iter().sum::<usize>();
    // 8 generations and bindings, 8 callers; 15 operations less those that one does not have.
    assert_eq!(asked, 8 * (15 * 3 + 14 * 4 + 9), "every cell of the table was asked for");
}

/// The cells of a service of gRPC.
fn over_grpc(house: &House, visibility: &str, service: &str) -> usize {
    let mut asked = 0;
    for kind in KINDS {
        for operation in Operation::ON_NONE {
            let Some(reply) = house.call(kind, service, operation, "") else { continue };
            let place = format!("{visibility}: {kind:?} {operation:?} of {service}");
            assert_eq!(reply.verdict(), expected(kind, visibility, operation), "{place}: {reply:?}");
            asked += 1;
        }
        let task = house.task(Tongue::V1);
        let never = missing(&task);
        for operation in Operation::ON_A_TASK {
            let Some(reply) = house.call(kind, service, operation, &task) else { continue };
            let wanted = expected(kind, visibility, operation);
            let place = format!("{visibility}: {kind:?} {operation:?} of {service}");
            assert_eq!(reply.verdict(), wanted, "{place}: {reply:?}");
            if wanted != Verdict::Allowed {
                let unknown = house.call(kind, service, operation, &never).unwrap();
                assert_eq!(reply.face(&task), unknown.face(&never), "{place}: not to be told from a missing task");
            }
            asked += 1;
        }
        let after = house.speaker(Kind::Owner, Tongue::V1).get(&task).state;
        let touched = expected(kind, visibility, Operation::Cancel) == Verdict::Allowed;
        assert_eq!(after == "canceled", touched, "{visibility}: {kind:?} over gRPC left it {after}");
    }
    asked
}

#[test]
fn with_tenant_visibility() {
    table(SEEN[0].0, SEEN[0].1);
}

#[test]
fn with_owner_visibility() {
    table(SEEN[1].0, SEEN[1].1);
}

#[test]
fn with_parties_visibility() {
    table(SEEN[2].0, SEEN[2].1);
}

#[test]
fn with_systems_visibility() {
    table(SEEN[3].0, SEEN[3].1);
}

#[test]
fn lists_hold_what_one_may_see_and_nothing_else() {
    for (visibility, config) in SEEN {
        let house = House::open(config);
        let task = house.task(Tongue::V1);
        for kind in [Kind::Owner, Kind::Colleague, Kind::Party, Kind::OtherTenant] {
            let listed = house.speaker(kind, Tongue::V1).client.rpc("ListTasks", json!({})).unwrap();
            let wanted = u64::from(sees(kind, visibility));
            assert_eq!(listed["totalSize"], wanted, "{visibility}: {kind:?}: {listed}");
            let ids: Vec<&str> = listed["tasks"].as_array().unwrap().iter().filter_map(|t| t["id"].as_str()).collect();
            assert_eq!(ids.contains(&task.as_str()), sees(kind, visibility), "{visibility}: {kind:?}");
        }
    }
}

#[test]
fn a_stream_that_is_resumed_reads_and_needs_the_right_to() {
    let config = r#"
policy:
  - allow: { methods: [send, stream] }
  - allow: { scopes: [reader] }
auth:
  required: true
  keys:
    - { name: ada, tenant: north, key: "env:E2E_KEY_ADA", scopes: [reader] }
    - { name: bob, tenant: north, key: "env:E2E_KEY_BOB", scopes: [writer] }
"#;
    let server = Server::options()
        .config(config)
        .env("E2E_KEY_ADA", "ada-0123456789abcdef")
        .env("E2E_KEY_BOB", "bob-0123456789abcdef")
        .start();
    let client = |name: &str| server.agent("echo").with("X-Api-Key", &format!("{name}-0123456789abcdef"));
    let task = client("ada").send(e2e::message("mine"))["id"].as_str().unwrap().to_owned();
    for (name, may) in [("ada", true), ("bob", false)] {
        let resumed = client(name).with("Last-Event-ID", &format!("{task}.1"));
        let answer = resumed.stream("SendStreamingMessage", e2e::send(e2e::message("anything")));
        assert_eq!(answer.is_ok(), may, "{name}");
        if let Err(error) = answer {
            assert_eq!(error["code"], -32043, "{error}");
        }
    }
    assert!(client("bob").stream("SendStreamingMessage", e2e::send(e2e::message("new"))).is_ok());
}
