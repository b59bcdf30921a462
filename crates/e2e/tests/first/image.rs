//! The container image: its files exist, its default command starts, and its health check asks the server.
//!
//! No image is built here. The test parses the Dockerfile and runs the binary with the image's command line, in a
//! folder that stands for the image's, on IPv4's loopback written as an IPv6 address: the server treats it as
//! reachable from other machines, although it is not.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use e2e::http::Request;
use e2e::server::free_address;
use e2e::{message, send, setup};
use serde_json::Value;

use crate::program::{Program, run, shell, shown_call};

/// The instructions of the Dockerfile, with continued lines joined and comments left out.
fn instructions() -> Vec<(String, String)> {
    let text = fs::read_to_string(setup::workspace().join("deploy/Dockerfile")).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with('#')).collect();
    let joined = lines.join("\n").replace("\\\n", " ");
    let each = joined.lines().filter_map(|line| line.trim().split_once(char::is_whitespace));
    each.map(|(name, rest)| (name.to_owned(), rest.trim().to_owned())).collect()
}

/// The last instruction of that name, which is the effective one.
fn last(name: &str) -> String {
    let all = instructions();
    all.into_iter().rfind(|(known, _)| known == name).unwrap_or_else(|| panic!("the Dockerfile has no {name}")).1
}

/// The arguments of an instruction in the exec form.
fn words(name: &str) -> Vec<String> {
    let text = last(name);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name} {text}: {error}"))
}

/// The arguments of the health check, without the program.
fn health() -> Vec<String> {
    let text = last("HEALTHCHECK");
    let (_, command) = text.split_once("CMD ").unwrap_or_else(|| panic!("HEALTHCHECK {text}"));
    let words: Vec<String> = serde_json::from_str(command).unwrap();
    assert_eq!(words[0], "rialto", "the image has no other program that could ask: {words:?}");
    words[1..].to_vec()
}

/// An address for the image's command that counts as a wildcard and can be reached only from here.
fn address(command: &[String]) -> (Vec<String>, SocketAddr) {
    let addr = free_address();
    let mut command = command.to_vec();
    let at =
        command.iter().position(|word| word.starts_with("0.0.0.0:")).expect("the image listens for other machines");
    command[at] = format!("[::ffff:{}]:{}", addr.ip(), addr.port());
    (command, addr)
}

#[test]
fn every_file_that_the_image_is_built_of_is_there() {
    let mut copied = Vec::new();
    for (name, rest) in instructions() {
        if name != "COPY" || rest.contains("--from=") {
            continue;
        }
        let mut files: Vec<&str> = rest.split_whitespace().filter(|word| !word.starts_with("--")).collect();
        files.pop().expect("COPY has a target");
        for file in files {
            assert!(setup::workspace().join(file).exists(), "COPY {rest}: there is no {file}");
            copied.push(file.to_owned());
        }
    }
    // Without it SQLite is compiled differently than in every other build.
    for needed in [".cargo", "Cargo.toml", "Cargo.lock", "crates"] {
        assert!(copied.iter().any(|file| file == needed), "{needed} is not copied: {copied:?}");
    }
    let ignored = fs::read_to_string(setup::workspace().join(".dockerignore")).unwrap();
    for file in copied {
        assert!(!ignored.lines().any(|line| line.trim_matches('/') == file), "{file} is copied and ignored");
    }
}

#[test]
fn the_images_default_command_starts_and_shows_a_key_once() {
    assert_eq!(words("ENTRYPOINT"), ["rialto"]);
    let folder = tempfile::tempdir().unwrap();
    let (command, addr) = address(&words("CMD"));
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let health = health();
    let health: Vec<&str> = health.iter().map(String::as_str).collect();
    let (ok, _, err) = run(folder.path(), &health);
    assert!(!ok && err.contains("no server runs"), "{err}");

    let server = Program::start(folder.path(), &command, addr);
    let screen = server.screen();
    assert!(screen.lines().count() <= 24 && screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
    let key = screen
        .lines()
        .find_map(|line| line.trim().strip_prefix("export RIALTO_KEY="))
        .unwrap_or_else(|| panic!("{screen}"));
    assert!(screen.contains("is shown only here"), "{screen}");
    assert!(!screen.contains("rialto demo"), "the demo is for one machine:\n{screen}");
    let body = send(message("hello"));
    let ask = |path: &str, key: Option<&str>| {
        let request = Request::new("POST", path).header("A2A-Version", "1.0").json(&body);
        let request = key.map_or(request.clone(), |key| request.header("Authorization", &format!("Bearer {key}")));
        server.exchange(&request).status()
    };
    assert_eq!(ask("/message:send", Some(key)), 200);
    for strange in [None, Some("rk_0123456789_wrong")] {
        assert_eq!(ask("/message:send", strange), 401, "{strange:?}");
        // None of the demo is open to other machines.
        for path in ["/a2a/summarize/message:send", "/a2a/store/message:send", "/a2a/scripted/message:send"] {
            assert!([401, 404].contains(&ask(path, strange)), "{path} with {strange:?}");
        }
    }
    let line = format!("export RIALTO_KEY={key}\n{}", shown_call(&screen).replace(&host(&screen), &addr.to_string()));
    let answer: Value = serde_json::from_str(&shell(folder.path(), &line)).unwrap();
    assert_eq!(answer["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{answer}");
    let (ok, out, err) = run(folder.path(), &health);
    assert!(ok && out.trim() == "ready", "{out}{err}");
    let asked = server.screen();
    assert!(!asked.contains("admin command"), "a health check every few seconds fills no log:\n{asked}");
    // Commands in the image's folder find the data without a flag.
    let (ok, out, err) = run(folder.path(), &["keys", "list"]);
    assert!(ok && out.contains("first") && !out.contains(key), "{out}{err}");
    let key = key.to_owned();
    server.stop();

    // The key is stored as a hash, and is not shown again.
    assert!(!is_in_files(folder.path(), "rialto-data", &key), "the key can be read in the data folder");
    let server = Program::start(folder.path(), &command, addr);
    let again = server.screen();
    assert_eq!(again.matches("export RIALTO_KEY=").count(), 1, "{again}");
    let request = Request::new("POST", "/message:send").header("A2A-Version", "1.0").json(&body);
    assert_eq!(server.exchange(&request.header("X-Api-Key", &key)).status(), 200);
    // After its revocation no new key is created.
    let (ok, out, _) = run(folder.path(), &["keys", "list", "-o", "json"]);
    let listed: Value = serde_json::from_str(&out).unwrap();
    assert!(ok && listed["keys"].as_array().unwrap().len() == 1, "{listed}");
    let (ok, _, err) = run(folder.path(), &["keys", "revoke", listed["keys"][0]["id"].as_str().unwrap()]);
    assert!(ok, "{err}");
    server.stop();
    let server = Program::start(folder.path(), &command, addr);
    assert_eq!(server.screen().matches("export RIALTO_KEY=").count(), 1, "{}", server.screen());
}

/// The host and port of the command on the screen.
fn host(screen: &str) -> String {
    let call = shown_call(screen);
    let rest = call.split("http://").nth(1).unwrap();
    rest[..rest.find("/message").unwrap()].to_owned()
}

fn is_in_files(folder: &Path, data: &str, text: &str) -> bool {
    let files = fs::read_dir(folder.join(data)).unwrap().map(|entry| entry.unwrap().path());
    let mut read = files.filter_map(|file| fs::read(file).ok());
    read.any(|bytes| bytes.windows(text.len()).any(|window| window == text.as_bytes()))
}

/// A key is created only where the config and the flags say nothing about keys.
#[test]
fn no_first_key_is_made_where_the_config_has_keys_or_says_who_is_let_in() {
    for (yaml, starts, says) in [
        ("auth: { required: true }\n", true, "rialto keys create"),
        ("auth: { keys: [{ name: a, tenant: t, key: 'env:E2E_FIRST_KEY' }] }\n", true, "$E2E_FIRST_KEY"),
        ("auth: { required: false }\n", false, "listen on 127.0.0.1"),
    ] {
        let (folder, addr) = (tempfile::tempdir().unwrap(), free_address());
        fs::write(folder.path().join("rialto.yaml"), format!("agents: {{ a: {{ kind: echo }} }}\n{yaml}")).unwrap();
        let listen = format!("[::ffff:127.0.0.1]:{}", addr.port());
        if starts {
            let words = ["-c", "E2E_FIRST_KEY=secret-of-the-test exec \"$0\" \"$@\""];
            let server = Program::start_under("sh", &words, folder.path(), &["serve", "--listen", &listen], addr);
            let screen = server.screen();
            assert!(screen.contains(says) && !screen.contains("export RIALTO_KEY="), "{yaml}{screen}");
            let request = Request::new("POST", "/message:send").header("A2A-Version", "1.0").json(&send(message("x")));
            assert_eq!(server.exchange(&request).status(), 401, "{yaml}");
        } else {
            let (ok, _, err) = run(folder.path(), &["serve", "--listen", &listen]);
            assert!(!ok && err.contains(says) && err.contains("auth"), "{yaml}{err}");
        }
    }
}
