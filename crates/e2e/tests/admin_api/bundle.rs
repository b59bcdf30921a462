//! A task as a file for a bug report, and the copy that `rialto task import` makes of it elsewhere.

use std::path::PathBuf;

use e2e::{Server, script};
use serde_json::{Value, json};

use crate::{Api, CREDENTIALS, TOKEN, agent, ask_with_webhook, key, problem, start};

/// Imports a bundle: the words of success, or of the refusal.
fn import(server: &Server, name: &str, bundle: &str) -> Result<Value, String> {
    let file: PathBuf = server.data().join(name);
    std::fs::write(&file, bundle).unwrap();
    let done = server.operate(&["task", "import", file.to_str().unwrap(), "-o", "json"]).output().unwrap();
    match done.status.success() {
        true => Ok(serde_json::from_slice(&done.stdout).unwrap()),
        false => Err(String::from_utf8(done.stderr).unwrap()),
    }
}

#[test]
fn a_task_is_shown_elsewhere_as_it_was() {
    let server = start("");
    let ada = key(&server, "ada", "north", &[]);
    let client = agent(&server, &ada.secret);
    let steps = json!([
        { "status": "working", "text": "on it" },
        { "artifact": { "name": "poem", "parts": [{ "text": "la " }] }, "chunks": 3, "every_ms": 1 },
        { "artifact": { "name": "more", "parts": [
            { "data": { "n": 12345678901234567890_u64 } },
            { "url": "https://ann:pass@files.example/a?token=tok", "filename": "a.bin" },
        ] } },
        { "fail": "out of paper" },
    ]);
    let task = client.send(script(steps))["id"].as_str().unwrap().to_owned();
    let waiting = ask_with_webhook(&client);
    let api = Api::made(&server, "north", &["viewer"]);
    let response = api.ask("GET", &format!("/tasks/{task}/bundle"));
    let name = response.head.header("content-disposition").unwrap().to_owned();
    assert_eq!(name, format!("attachment; filename=\"rialto-task-{task}.json\""));
    let bundle = response.text();
    // The script of the caller's message is data; the address of the artifact is not.
    assert_eq!((bundle.matches("pass@").count(), bundle.matches("token=tok").count()), (1, 1), "{bundle}");
    let shown = response.json();
    for (member, value) in
        [("format", json!("rialto-task")), ("version", json!(1)), ("id", json!(task)), ("content", json!("whole"))]
    {
        assert_eq!(shown[member], value, "{member}");
    }
    assert_eq!((&shown["agent"]["name"], &shown["summary"]["state"]), (&json!("scripted"), &json!("failed")));
    let of_waiting = api.ask("GET", &format!("/tasks/{waiting}/bundle")).text();
    for secret in [TOKEN, CREDENTIALS, "/hook"] {
        assert!(!of_waiting.contains(secret), "{secret}");
    }
    assert!(of_waiting.contains("http://127.0.0.1:9"), "the host of the webhook");

    let elsewhere = start("");
    let imported = import(&elsewhere, "a.json", &bundle).unwrap();
    assert_eq!(imported["of"], json!(task));
    let copy = imported["id"].as_str().unwrap().to_owned();
    let other = Api::made(&elsewhere, "default", &["admin"]);
    let (before, after) = (api.get(&format!("/tasks/{task}")), other.get(&format!("/tasks/{copy}")));
    for member in ["state", "agent", "tenant", "owner", "context", "dialect", "createdAt", "turns", "message"] {
        assert_eq!(before["summary"][member], after["summary"][member], "{member}");
    }
    assert_eq!(after["task"]["artifacts"][0], before["task"]["artifacts"][0]);
    assert_eq!(after["task"]["artifacts"][1]["parts"][0], before["task"]["artifacts"][1]["parts"][0], "exact numbers");
    assert_eq!(after["task"]["artifacts"][1]["parts"][1]["url"], "https://files.example/a");
    assert_eq!(after["task"]["metadata"]["imported"]["of"], json!(task));
    // Its events and times are those of the original, and one says that it is a copy.
    let events = |api: &Api<'_>, id: &str| {
        api.get(&format!("/tasks/{id}/events?limit=200"))["events"].as_array().unwrap().clone()
    };
    let of = |events: &[Value]| -> Vec<(Value, Value)> {
        let kept = events.iter().filter(|event| event["kind"] != "metadata");
        kept.map(|event| (event["kind"].clone(), event["at"].clone())).collect()
    };
    assert_eq!(of(&events(&api, &task)), of(&events(&other, &copy)));
    let told = elsewhere.operate(&["task", "show", &copy]).output().unwrap();
    assert!(String::from_utf8(told.stdout).unwrap().contains("out of paper"));
    // It is read-only, is no caller's, and stays after a restart.
    problem(&other.ask("POST", &format!("/tasks/{copy}:cancel")), 409);
    let caller = key(&elsewhere, "ada", "north", &[]);
    assert!(agent(&elsewhere, &caller.secret).rpc("GetTask", json!({ "id": copy })).is_err());
    let again = import(&elsewhere, "b.json", &bundle).unwrap_err();
    assert!(again.contains("imported already") && again.contains(&copy), "{again}");
    assert_eq!(other.ask("DELETE", &format!("/tasks/{copy}")).status(), 200);
    assert!(import(&elsewhere, "b.json", &bundle).is_ok(), "a copy that is gone can be made again");
    // A task that waits is a settled copy, too.
    let imported = import(&elsewhere, "c.json", &of_waiting).unwrap();
    let copy = other.get(&format!("/tasks/{}", imported["id"].as_str().unwrap()));
    assert_eq!(copy["summary"]["state"], "canceled");
    assert!(copy.to_string().contains("was input-required when it was exported"), "{copy}");
}

#[test]
fn without_content_a_bundle_has_sizes_only_and_is_imported_as_well() {
    let server = start("");
    let ada = key(&server, "ada", "north", &[]);
    let client = agent(&server, &ada.secret);
    let steps = json!([
        { "artifact": { "name": "a", "parts": [{ "text": "hidden" }, { "data": { "hidden": 1 } }, { "raw": "aGlkZGVu", "filename": "hidden" }] } },
        { "complete": "hidden" },
    ]);
    let task = client.send(script(steps))["id"].as_str().unwrap().to_owned();
    let api = Api::made(&server, "north", &["viewer"]);
    let bundle = api.ask("GET", &format!("/tasks/{task}/bundle?content=none")).text();
    assert!(!bundle.contains("hidden") && !bundle.contains("aGlkZGVu"), "{bundle}");
    assert!(bundle.contains("(a text of 6 bytes, left out)"), "{bundle}");
    assert!(import(&server, "none.json", &bundle).is_ok());
    assert_eq!(problem(&api.ask("GET", &format!("/tasks/{task}/bundle?content=some")), 400)["field"], "content");
}

#[test]
fn a_file_that_is_no_bundle_is_refused_with_the_reason() {
    let server = start("");
    let ada = key(&server, "ada", "north", &[]);
    let task =
        agent(&server, &ada.secret).send(script(json!([{ "complete": "done" }])))["id"].as_str().unwrap().to_owned();
    let bundle = Api::made(&server, "north", &["viewer"]).get(&format!("/tasks/{task}/bundle"));
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut bundle = bundle.clone();
        change(&mut bundle);
        bundle.to_string()
    };
    for (text, says) in [
        ("".to_owned(), "no bundle"),
        ("{}".to_owned(), "no bundle"),
        (changed(&|bundle| bundle["format"] = json!("other")), "its format is"),
        (changed(&|bundle| bundle["version"] = json!(2)), "version 2"),
        (changed(&|bundle| bundle["log"] = json!([])), "opening"),
        (changed(&|bundle| drop(bundle["log"].as_array_mut().unwrap().remove(0))), "opening"),
        (changed(&|bundle| bundle["log"].as_array_mut().unwrap().reverse()), "opening"),
        (
            changed(&|bundle| {
                let log = bundle["log"].as_array_mut().unwrap();
                let first = log[0].clone();
                log.push(first);
            }),
            "damaged",
        ),
        (
            changed(&|bundle| {
                let log = bundle["log"].as_array_mut().unwrap();
                let last = log.last().unwrap().clone();
                log.push(last);
            }),
            "damaged",
        ),
        (changed(&|bundle| bundle["log"][1][1] = json!({ "what": 1 })), "no bundle"),
    ] {
        let refused = import(&server, "bad.json", &text).unwrap_err();
        assert!(refused.contains(says), "{says:?} is not in {refused}");
        assert!(refused.lines().count() < 4, "{refused}");
    }
}
