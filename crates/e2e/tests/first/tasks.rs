//! The operator's view of tasks: every tenant and visibility, callers' own ids, and totals that agree with the doctor's.

use e2e::http::Request;
use e2e::{Client, Server, message, script};
use serde_json::{Value, json};

const CONFIG: &str = "
visibility: owner
agents:
  echo: { kind: echo }
  scripted: { kind: scripted }
  shared: { kind: echo }
mounts:
  shared: { visibility: tenant }
systems:
  line: { graph: { first: { agent: echo, next: second }, second: { agent: echo } } }
auth:
  keys:
    - { name: alice, tenant: acme, key: 'env:E2E_ALICE' }
    - { name: bob, tenant: umbrella, key: 'env:E2E_BOB' }
";
const KEYS: [(&str, &str); 2] = [("E2E_ALICE", "alice-0123456789"), ("E2E_BOB", "bob-0123456789")];

fn operate(server: &Server, words: &[&str]) -> (bool, String, String) {
    let output = server.operate(words).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

fn asked(server: &Server, words: &[&str]) -> Value {
    let (ok, out, err) = operate(server, &[words, &["-o", "json"]].concat());
    assert!(ok, "{words:?}: {err}");
    serde_json::from_str(&out).unwrap()
}

/// A send of the first generation with the caller's own id.
fn send_as(client: &Client, id: &str, words: &str) {
    let message = json!({ "role": "user", "parts": [{ "type": "text", "text": words }] });
    let task = client.without("A2A-Version").rpc("tasks/send", json!({ "id": id, "message": message })).unwrap();
    assert_eq!(task["id"], id, "{task}");
}

#[test]
fn a_list_has_the_tasks_of_all_tenants_and_visibilities_and_agrees_with_the_doctor() {
    let mut options = Server::options().config(CONFIG);
    for (name, value) in KEYS {
        options = options.env(name, value);
    }
    let mut server = options.start();
    let [alice, bob] = KEYS.map(|(_, key)| move |client: Client| client.with("X-Api-Key", key));
    for agent in ["echo", "shared"] {
        alice(server.agent(agent)).send(message("of alice"));
        bob(server.agent(agent)).send(message("of bob"));
        server.agent(agent).send(message("of a stranger"));
    }
    alice(server.agent("line")).send(message("through a system"));
    bob(server.agent("scripted")).send(script(json!([{ "input": "well?" }])));
    // An exchange that is no task to its caller is one in the store.
    let replied = server.agent("scripted").rpc("SendMessage", json!({ "message": message("message: hi") })).unwrap();
    assert!(replied["message"].is_object(), "{replied}");
    send_as(&alice(server.agent("echo")), "task-abc-123", "by her own id");
    send_as(&bob(server.agent("echo")), "task-abc-123", "by his own id");
    send_as(&bob(server.agent("echo")), "only-bobs", "by an id that is his alone");

    for running in [true, false] {
        if !running {
            server.terminate();
        }
        let doctor = asked(&server, &["doctor"]);
        let all = asked(&server, &["task", "list", "--limit", "1000"]);
        let tasks = all["tasks"].as_array().unwrap();
        assert_eq!(all["total"], doctor["tasks"], "running {running}");
        assert_eq!(tasks.len() as u64, doctor["tasks"].as_u64().unwrap());
        // Three at each of two agents, the system's run and its two children, a question, a reply, three aliases.
        assert_eq!(tasks.len(), 14, "{all}");
        for (state, count) in doctor["states"].as_object().unwrap() {
            let some = asked(&server, &["task", "list", "--state", state, "--limit", "1000"]);
            assert_eq!(
                (&some["total"], some["tasks"].as_array().unwrap().len() as u64),
                (count, count.as_u64().unwrap())
            );
        }
        for (flag, member, value) in [
            ("--tenant", "tenant", "acme"),
            ("--tenant", "tenant", "umbrella"),
            ("--tenant", "tenant", "default"),
            ("--agent", "agent", "echo"),
        ] {
            let some = asked(&server, &["task", "list", flag, value, "--limit", "1"]);
            let expected = tasks.iter().filter(|task| task[member] == value).count();
            assert!(expected > 1 && some["total"] == expected, "{flag} {value}: {expected} and {some}");
            assert_eq!((some["tasks"].as_array().unwrap().len(), &some["tasks"][0][member]), (1, &json!(value)));
        }
        let ids: Vec<&str> = tasks.iter().map(|task| task["id"].as_str().unwrap()).collect();
        assert!(ids.windows(2).all(|pair| pair[0] > pair[1]), "newest first, each once: {ids:?}");
        let (ok, table, err) = operate(&server, &["task", "list"]);
        assert!(ok, "{err}");
        let head = table.lines().next().unwrap();
        for column in ["TASK", "TENANT", "AGENT", "STATE", "SINCE", "CALLER'S ID", "MESSAGE"] {
            assert!(head.contains(column), "{head}");
        }
        for piece in ["acme", "umbrella", "default", "task-abc-123", "only-bobs", "14 of 14"] {
            assert!(table.contains(piece), "{piece} is not in\n{table}");
        }

        // A caller's own id finds its task; the command asks back when several callers use the id.
        let own = asked(&server, &["task", "show", "only-bobs"]);
        assert_eq!(
            (&own["alias"], &own["owner"], &own["tenant"]),
            (&json!("only-bobs"), &json!("bob"), &json!("umbrella"))
        );
        assert_eq!(asked(&server, &["task", "show", own["id"].as_str().unwrap()])["id"], own["id"]);
        let (ok, _, err) = operate(&server, &["task", "show", "task-abc-123"]);
        assert!(!ok && err.contains("alice") && err.contains("bob"), "{err}");
        let both: Vec<&str> = tasks
            .iter()
            .filter(|task| task["alias"] == "task-abc-123")
            .map(|task| task["id"].as_str().unwrap())
            .collect();
        assert!(both.len() == 2 && both.iter().all(|id| err.contains(id)), "{both:?}: {err}");
        let (ok, _, err) = operate(&server, &["task", "show", "no-such-id"]);
        assert!(!ok && err.contains("not found") && err.contains("rialto task list"), "{err}");
    }
    server.restart();
    let gone = asked(&server, &["task", "purge", "only-bobs"]);
    let (ok, _, err) = operate(&server, &["task", "show", "only-bobs"]);
    assert!(!ok && err.contains("not found"), "{gone}: {err}");
    let (ok, _, _) = operate(&server, &["task", "show", gone["purged"].as_str().unwrap()]);
    assert!(!ok, "the task itself is gone");
}

#[test]
fn ids_as_products_spell_them_name_their_tasks() {
    let server = Server::start(&[]);
    let demo: Value = serde_json::from_slice(&std::fs::read(server.data().join("demo.json")).unwrap()).unwrap();
    let text = |section: &str, member: &str| demo[section][member].as_str().unwrap().to_owned();
    let body = json!({ "jsonrpc": "2.0", "id": "1", "method": "tasks/send", "params": { "capability_id": text("uumit", "capability_id") } });
    let buys = Request::new("POST", "/a2a").header("X-Api-Key", &text("uumit", "api_key"));
    let buys = buys.header("X-Platform-User-Id", &text("uumit", "user_id")).json(&body);
    let bought = server.exchange(&buys).json()["result"]["id"].as_str().unwrap().to_owned();
    let message =
        json!({ "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "Search for hats on store acme." }] });
    let body = json!({ "jsonrpc": "2.0", "id": "1", "method": "SendMessage", "params": { "message": message } });
    let asks = Request::new("POST", "/api/a2a")
        .header("Authorization", &format!("Bearer {}", text("aly", "token")))
        .json(&body);
    let answer = server.exchange(&asks).json();
    let searched = answer["result"]["task"]["id"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
    for (id, agent) in [(&*bought, None), (&*bought.replace("task_", "tx_"), None), (&*searched, Some("store"))] {
        let shown = asked(&server, &["task", "show", id]);
        assert!(agent.is_none_or(|agent| shown["agent"] == agent), "{id}: {shown}");
    }
    let (all, doctor) = (asked(&server, &["task", "list"]), asked(&server, &["doctor"]));
    assert_eq!(all["total"], doctor["tasks"]);
}
