//! The first screen, `rialto demo`, and the config file in the working folder.

use std::fs;
use std::path::Path;

use e2e::http::Request;
use e2e::server::free_address;
use serde_json::{Value, json};

use crate::program::{Program, run, shell, shown_call};

fn demo_json(folder: &Path) -> Value {
    serde_json::from_slice(&fs::read(folder.join("rialto-data/demo.json")).unwrap()).unwrap()
}

/// Each member of each section, as text.
fn members(demo: &Value) -> Vec<(String, String)> {
    let sections = demo.as_object().unwrap().values().filter_map(Value::as_object);
    let each =
        sections.flat_map(|section| section.iter().map(|(name, value)| (name.clone(), value.as_str().unwrap().into())));
    each.collect()
}

#[test]
fn the_first_screen_fits_80_columns_and_24_lines_and_its_call_works() {
    let folder = tempfile::tempdir().unwrap();
    let addr = free_address();
    let server = Program::start(folder.path(), &["serve", "--listen", &addr.to_string()], addr);
    let screen = server.screen();
    assert!(screen.lines().count() <= 24, "{screen}");
    for line in screen.lines() {
        assert!(line.chars().count() <= 80, "{line:?} has {} columns in\n{screen}", line.chars().count());
    }
    let first = screen.lines().next().unwrap();
    assert!(first.contains("Rialto") && first.contains("demo") && first.contains("no config file"), "{first}");
    for piece in [&*format!("http://{addr}"), "rialto-data", "docs", "rialto demo"] {
        assert!(screen.contains(piece), "{piece:?} is not in\n{screen}");
    }
    assert_eq!(screen.matches("curl").count(), 1, "one call to try:\n{screen}");
    let credentials = ["token", "key", "password"];
    let demo = demo_json(folder.path());
    let secret = members(&demo).into_iter().filter(|(name, _)| credentials.iter().any(|part| name.contains(part)));
    let shown: Vec<_> = secret.filter(|(_, value)| screen.contains(value)).collect();
    assert!(shown.is_empty(), "credentials of the demo are on the first screen: {shown:?}");
    let answer: Value = serde_json::from_str(&shell(folder.path(), &shown_call(&screen))).unwrap();
    assert_eq!(answer["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{answer}");
}

#[test]
fn the_demos_credentials_are_shown_with_their_use_by_a_command_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let (ok, _, err) = run(folder.path(), &["demo"]);
    assert!(!ok && err.contains("rialto serve") && err.contains("--data"), "{err}");
    assert!(!folder.path().join("rialto-data").exists(), "asking makes nothing");
    let addr = free_address();
    let server = Program::start(folder.path(), &["serve", "--listen", &addr.to_string()], addr);
    let demo = demo_json(folder.path());
    let all = members(&demo);
    assert!(all.len() >= 15, "{all:?}");
    let (ok, page, err) = run(folder.path(), &["demo"]);
    assert!(ok, "{err}");
    assert!(page.contains(&format!("http://{addr}")), "{page}");
    for (name, value) in &all {
        assert!(page.contains(name) && page.contains(value), "{name} is not in\n{page}");
    }
    let account = json!({ "account": demo["uumit"]["account"], "password": demo["uumit"]["password"] });
    assert_eq!(account["account"], "buyer");
    let login = server.exchange(&Request::new("POST", "/api/v1/auth/login").json(&account));
    assert_eq!(login.status(), 200, "{}", login.text());
    server.stop();
    let (ok, page, err) = run(folder.path(), &["demo", "-o", "json"]);
    assert!(ok, "{err}");
    let page: Value = serde_json::from_str(&page).unwrap();
    let entries = page["entries"].as_array().unwrap();
    assert_eq!(entries.len(), all.len());
    for entry in entries {
        assert!(entry["for"].as_str().is_some_and(|purpose| !purpose.is_empty()), "no use is told: {entry}");
    }
    let elsewhere = tempfile::tempdir().unwrap();
    let data = folder.path().join("rialto-data");
    let (ok, page, err) = run(elsewhere.path(), &["demo", "--data", data.to_str().unwrap()]);
    assert!(ok && page.contains("seller_account"), "{page}{err}");
}

#[test]
fn a_config_in_the_working_folder_is_used_and_named_in_the_first_line() {
    let folder = tempfile::tempdir().unwrap();
    let addr = free_address();
    let config = |data: &str, agent: &str| {
        format!("listen: {}\ndata: {data}\nagents:\n  {agent}: {{ kind: echo }}\n", addr.port())
    };
    fs::write(folder.path().join("rialto.yaml"), config("here", "only")).unwrap();
    let server = Program::start(folder.path(), &["serve"], addr);
    let screen = server.screen();
    assert!(screen.lines().next().unwrap().contains("rialto.yaml"), "{screen}");
    assert!(screen.lines().count() <= 24 && screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
    assert!(screen.contains("only (at the root)") && !screen.contains("rialto demo"), "{screen}");
    shell(folder.path(), &shown_call(&screen));
    // Commands find the same data.
    for words in [&["task", "list"][..], &["doctor"], &["health"]] {
        let (ok, out, err) = run(folder.path(), words);
        assert!(ok, "{words:?}: {out}{err}");
    }
    assert!(folder.path().join("here").is_dir() && !folder.path().join("rialto-data").exists());
    let (ok, out, err) = run(folder.path(), &["config", "check"]);
    assert!(ok && out.contains("rialto.yaml"), "{out}{err}");
    let (ok, _, err) = run(folder.path(), &["demo"]);
    assert!(!ok && err.contains("rialto keys create"), "{err}");
    server.stop();

    fs::write(folder.path().join("other.yaml"), config("there", "other")).unwrap();
    let server = Program::start(folder.path(), &["serve", "--config", "other.yaml"], addr);
    let screen = server.screen();
    let first = screen.lines().rfind(|line| line.starts_with("Rialto ")).unwrap();
    assert!(first.contains("other.yaml"), "{first}");
    server.stop();

    fs::write(folder.path().join("rialto.yaml"), "lisen: 1\n").unwrap();
    let (ok, _, err) = run(folder.path(), &["serve"]);
    assert!(!ok && err.contains("rialto.yaml") && err.contains("did you mean `listen`?"), "{err}");
}
