//! The rights of a credential without a policy: every operation, with every set of scopes, in every dialect.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

use std::process::{Command, Output};

use e2e::{Operation, Server, Tongue, Verdict, until};
use serde_json::{Value, json};

fn keys(server: &Server, args: &[&str]) -> Output {
    let mut command = Command::new(e2e::setup::binary());
    command.arg("keys").args(args).arg("--data").arg(server.data()).args(["-o", "json"]);
    command.output().expect("rialto runs")
}

fn key(server: &Server, name: &str, scopes: &[&str]) -> String {
    let mut args = vec!["create", name, "--tenant", "north"];
    for scope in scopes {
        args.extend(["--scope", scope]);
    }
    let made = keys(server, &args);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();
    made["secret"].as_str().unwrap().to_owned()
}

/// The effect of an operation, in the terms of the manual.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Does {
    Say,
    Read,
    ReadPush,
    ChangePush,
    Card,
}

fn does(operation: Operation) -> Does {
    use Operation as O;
    match operation {
        O::Send | O::Stream | O::Continue | O::ContinueStream | O::Cancel => Does::Say,
        O::Get | O::List | O::Subscribe | O::SubscribeResumed | O::StreamResumed => Does::Read,
        O::PushGet | O::PushList => Does::ReadPush,
        O::PushCreate | O::PushDelete => Does::ChangePush,
        O::ExtendedCard => Does::Card,
    }
}

const ALL: &[Does] = &[Does::Say, Does::Read, Does::ReadPush, Does::ChangePush, Does::Card];

/// Sets of scopes, and the rights of each at the agent `scripted`.
const SETS: [(&[&str], &[Does]); 14] = [
    (&[], ALL),
    (&["tasks"], ALL),
    (&["admin"], ALL),
    (&["writer"], ALL),
    (&["tasks:read"], &[Does::Read, Does::ReadPush, Does::Card]),
    (&["reader"], &[Does::Read, Does::ReadPush, Does::Card]),
    (&["tasks:write"], &[Does::Say, Does::Card]),
    (&["push"], &[Does::ReadPush, Does::ChangePush, Does::Card]),
    (&["tasks:read", "push"], &[Does::Read, Does::ReadPush, Does::ChangePush, Does::Card]),
    (&["system:scripted"], ALL),
    (&["system:echo"], &[Does::Card]),
    (&["write:orders"], &[Does::Card]),
    (&["viewer"], &[]),
    (&["operator", "all-tenants"], &[]),
];

#[test]
fn scopes_hold_without_a_policy_in_every_dialect() {
    let server = Server::options().config("auth: { required: true }\n").start();
    let owner = key(&server, "ada", &[]);
    let speaker = |secret: &str, tongue: Tongue| {
        tongue.speaker(&server.agent("scripted").with("Authorization", &format!("Bearer {secret}")))
    };
    let mut asked = 0;
    for (at, (scopes, good_for)) in SETS.into_iter().enumerate() {
        let secret = key(&server, &format!("caller-{at}"), scopes);
        for tongue in Tongue::ALL {
            let script = json!([{ "input": "a" }, { "input": "b" }, { "input": "c" }, { "complete": "d" }]);
            let opener = speaker(&owner, Tongue::V1);
            let task = opener.ask(&script).id;
            until("the task asks", e2e::poll::PATIENCE, || (opener.get(&task).state == "input-required").then_some(()));
            assert_eq!(opener.ask_for(Operation::PushCreate, &task).unwrap().verdict, Verdict::Allowed);
            let caller = speaker(&secret, tongue);
            for operation in Operation::ON_NONE.into_iter().chain(Operation::ON_A_TASK) {
                let Some(answer) = caller.ask_for(operation, &task) else { continue };
                let expected = if good_for.contains(&does(operation)) { Verdict::Allowed } else { Verdict::Forbidden };
                assert_eq!(answer.verdict, expected, "{scopes:?} {operation:?} in {tongue:?}: {}", answer.body);
                asked += 1;
            }
            let left = opener.get(&task).state;
            assert_eq!(left == "canceled", good_for.contains(&Does::Say), "{scopes:?} in {tongue:?} left it {left}");
        }
    }
    // 6 dialects; 15 operations less those that one does not have.
    assert_eq!(asked, SETS.len() * (15 * 2 + 14 * 3 + 9), "every cell of the table was asked for");
}

#[test]
fn a_scope_that_nobody_knows_makes_no_key() {
    let config = "auth: { required: true }\npolicy:\n  - allow: { scopes: [billing, 'report:*'] }\n";
    let server = Server::options().config(config).start();
    key(&server, "good", &["billing", "report:daily", "tasks:write", "system:echo", "write:orders"]);
    for unknown in ["send", "tasks:delete", "Tasks", ""] {
        let refused = keys(&server, &["create", "bad", "--tenant", "north", "--scope", unknown]);
        let words = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success(), "{unknown}");
        for known in ["tasks:read", "tasks:write", "push", "admin", "system:NAME", "write:orders", "billing"] {
            assert!(words.contains(known), "{unknown}: {words}");
        }
    }
    let listed = keys(&server, &["list"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(listed["keys"].as_array().unwrap().len(), 1, "{listed}");
}

/// A rule that denies an agent denies it inside a system too, at any depth.
#[test]
fn a_denied_agent_is_denied_as_a_node_of_a_system() {
    let config = r#"
agents: { secret: { kind: echo }, open: { kind: echo } }
systems:
  inner: { graph: { only: { agent: secret } } }
  outer: { graph: { first: { agent: inner } } }
  fine: { graph: { first: { agent: open } } }
auth: { required: true }
policy:
  - allow: {}
  - deny: { agents: [secret], callers: [guest] }
"#;
    let server = Server::options().config(config).start();
    let (guest, member) = (key(&server, "guest", &[]), key(&server, "member", &[]));
    for (agent, guest_may) in [("secret", false), ("inner", false), ("outer", false), ("fine", true), ("open", true)] {
        for (secret, may) in [(&guest, guest_may), (&member, true)] {
            for tongue in Tongue::ALL {
                let client = server.agent(agent).with("Authorization", &format!("Bearer {secret}"));
                for operation in [Operation::Send, Operation::Stream] {
                    let Some(answer) = tongue.speaker(&client).ask_for(operation, "") else { continue };
                    let expected = if may { Verdict::Allowed } else { Verdict::Forbidden };
                    assert_eq!(answer.verdict, expected, "{agent} {operation:?} in {tongue:?}: {}", answer.body);
                }
            }
        }
    }
}
