//! The `rialto` command with `--server`: each command once through the socket and once by the admin API of the same server,
//! with the same output.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use e2e::server::free_address;
use e2e::{Receiver, Reply, Server, poll, setup, until};
use serde_json::Value;

use crate::commands::PRODUCTS;
use crate::{AGENTS, Key, agent, ask_with_webhook, audit, key};

/// `rialto` with these words, in a folder without a config.
fn rialto(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(setup::binary());
    command.current_dir(folder).args(words).env_remove("RIALTO_SERVER").env_remove("RIALTO_KEY");
    command
}

/// Standard output, standard error and the exit code.
#[derive(Debug, PartialEq)]
struct Said(String, String, Option<i32>);

impl Said {
    fn of(output: &Output) -> Said {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Said(text(&output.stdout), text(&output.stderr), output.status.code())
    }

    /// The same without ids, times and numbers, and without the widths of columns.
    fn masked(&self) -> Said {
        let is_drawn = |word: &str| {
            let is_mixed = word.chars().skip(1).any(char::is_uppercase) && word.chars().any(char::is_lowercase);
            is_mixed || word.chars().any(|c| c.is_ascii_digit())
        };
        let line = |line: &str| {
            let words = line.split_whitespace().map(|word| if is_drawn(word) { "#" } else { word });
            words.collect::<Vec<_>>().join(" ")
        };
        let text = |text: &str| text.lines().map(line).collect::<Vec<_>>().join("\n");
        Said(text(&self.0), text(&self.1), self.2)
    }
}

/// A server, and an admin of all tenants.
struct Both {
    server: Server,
    admin: Key,
    folder: tempfile::TempDir,
}

impl Both {
    fn start(config: &str) -> Both {
        let server = Server::options().config(config).start();
        let admin = key(&server, "boss", "default", &["admin"]);
        Both { server, admin, folder: tempfile::tempdir().unwrap() }
    }

    fn here(&self, words: &[&str]) -> Said {
        Said::of(&self.server.operate(words).output().expect("rialto runs"))
    }

    fn far(&self, words: &[&str]) -> Said {
        let mut command = rialto(self.folder.path(), words);
        command.args(["--server", &self.server.url()]).env("RIALTO_KEY", &self.admin.secret);
        Said::of(&command.output().expect("rialto runs"))
    }

    /// A command that changes nothing says the same both ways; its output on standard output.
    fn same(&self, words: &[&str]) -> String {
        let (here, far) = (self.here(words), self.far(words));
        assert_eq!(here, far, "{words:?}");
        far.0
    }

    /// Commands about two objects of the same kind say the same, but for ids and times. The output of the second.
    fn alike(&self, here: &[&str], far: &[&str]) -> Said {
        let (near, said) = (self.here(here), self.far(far));
        assert_eq!(near.masked(), said.masked(), "{far:?}");
        said
    }
}

#[test]
fn tasks_keys_webhooks_and_the_server_are_the_same_by_the_socket_and_from_afar() {
    let both = Both::start(&format!("{PRODUCTS}push: {{ retry_ms: 600000 }}\n"));
    let owner = key(&both.server, "ada", "north", &[]);
    let opener = agent(&both.server, &owner.secret);
    let [one, two] = [(); 2].map(|()| ask_with_webhook(&opener));
    // Two commands say the same about webhooks that change no more: each has been tried, and is not tried again soon.
    until("both webhooks were tried", poll::PATIENCE, || {
        let listed = both.here(&["push", "list", "-o", "json"]).0.replace(' ', "");
        let tried = listed.matches("\"attempts\":1").count();
        (tried == 2).then_some(())
    });
    assert!(both.same(&["health"]).contains("ready"));
    assert!(both.same(&["health", "-o", "json"]).contains("true"));
    for words in [
        &["task", "list"][..],
        &["task", "list", "-o", "json"],
        &["task", "list", "--agent", "scripted", "--tenant", "north", "--limit", "1"],
        &["task", "list", "--state", "input-required", "--tenant", "south"],
        &["task", "show", &one],
        &["task", "show", &one, "-o", "json"],
        &["task", "show", "nothing"],
        &["push", "list"],
        &["push", "list", "--task", &one, "-o", "json"],
        &["push", "list", "--state", "dead"],
        &["push", "redeliver", &one, "--push-config", "other"],
        &["push", "redeliver", &one, "--from", "1000"],
        &["keys", "list"],
        &["keys", "list", "-o", "json"],
        &["keys", "revoke", "nothing"],
        &["keys", "create", "x", "--tenant", "north", "--scope", "vieuer"],
    ] {
        both.same(words);
    }
    assert!(both.same(&["task", "list", "--tenant", "north"]).contains("2 of 2"));
    both.alike(&["push", "redeliver", &one], &["push", "redeliver", &two]);
    let canceled = both.alike(&["task", "cancel", &one], &["task", "cancel", &two]);
    assert_eq!(canceled.0, format!("{two} is canceled\n"));
    both.alike(&["task", "cancel", &one], &["task", "cancel", &two]);
    both.alike(&["task", "purge", &one, "-o", "json"], &["task", "purge", &two, "-o", "json"]);
    both.alike(&["task", "show", &one], &["task", "show", &two]);
    // Sizes of files differ from one moment to the next.
    let report = both.alike(&["doctor"], &["doctor"]);
    assert!(report.0.contains(&format!("{:14} {}", "data", both.server.data().display())), "{}", report.0);
    // The disk of a database is its own matter.
    assert_eq!(report.0.contains("disk_free_bytes"), both.server.database().is_none(), "{}", report.0);
    let members = |said: &Said| serde_json::from_str::<Value>(&said.0).unwrap().as_object().unwrap().clone();
    let [here, far] = [both.here(&["doctor", "-o", "json"]), both.far(&["doctor", "-o", "json"])].map(|s| members(&s));
    assert_eq!(here.keys().collect::<Vec<_>>(), far.keys().collect::<Vec<_>>());
    assert_eq!(here["data"], far["data"]);

    let words = ["keys", "create", "new", "--tenant", "north", "--scope", "viewer", "--expires", "1d"];
    both.alike(&words, &words);
    let json: Vec<&str> = words.iter().copied().chain(["-o", "json"]).collect();
    let [here, far] = [both.here(&json), both.far(&json)].map(|said| members(&said));
    assert_eq!(here.keys().collect::<Vec<_>>(), far.keys().collect::<Vec<_>>());
    let [here, far] = [&here, &far].map(|made| made["id"].as_str().unwrap());
    assert!(both.alike(&["keys", "revoke", here], &["keys", "revoke", far]).0.contains("is revoked"));
    // Only changes from afar have a name.
    let by: Vec<Value> = audit(&both.server).into_iter().filter(|line| line["key"] == far).collect();
    assert!(by.len() == 2 && by.iter().all(|line| line["by"] == "boss"), "{by:?}");

    both.same(&["reload"]);
    both.same(&["reload", "-o", "json"]);
    both.server.write_config(&format!("{PRODUCTS}limits: {{ attempts: 0 }}\n"));
    let refused = both.alike(&["reload"], &["reload"]);
    assert!(refused.2 == Some(1) && refused.0.starts_with("refused: "), "{refused:?}");
}

#[test]
fn products_are_the_same_by_the_socket_and_from_afar() {
    let both = Both::start(PRODUCTS);
    for words in [
        &["graph", "pair"][..],
        &["graph", "pair", "--json"],
        &["graph", "pair", "--format", "mermaid"],
        &["graph", "nothing"],
        &["graph", "pair", "--task", "nothing"],
        &["market", "ledger"],
        &["market", "ledger", "--user", "u_1"],
        &["market", "ledger", "--account", "commission", "--json"],
        &["market", "credit", "u_1", "much"],
        &["market", "verify"],
        &["market", "verify", "-o", "json"],
        &["shop", "sites"],
        &["shop", "sites", "--json"],
        &["shop", "keys", "--workspace", "acme"],
        &["shop", "keys", "--workspace", "acme", "--revoke", "nothing"],
        &["shop", "clients"],
        &["shop", "clients", "--remove", "nothing"],
        &["shop", "grants"],
        &["shop", "grants", "--remove", "nothing"],
        &["shop", "verify"],
    ] {
        both.same(words);
    }
    let opened = |id: &'static str| ["market", "open", "--id", id, "--account", id, "--platform", "p"];
    both.alike(&opened("u_1"), &opened("u_2"));
    both.alike(&opened("u_1"), &opened("u_2"));
    both.alike(
        &["market", "credit", "u_1", "5", "--reference", "r1"],
        &["market", "credit", "u_2", "5", "--reference", "r2"],
    );
    assert!(both.same(&["market", "ledger"]).contains("recharge"));
    both.same(&["market", "ledger", "--user", "u_2"]);

    let site = |slug: &'static str| ["shop", "site", slug, "--workspace", "w", "--title", "Hats", "--currency", "EUR"];
    both.alike(&site("hats1"), &site("hats2"));
    both.alike(&site("hats1"), &site("hats2"));
    let file = both.folder.path().join("hats.csv");
    std::fs::write(&file, "id,name,price,stock\nsun,Sun hat,19.90,5\n").unwrap();
    let import = |slug: &'static str| ["shop", "import", file.to_str().unwrap(), "--site", slug];
    assert!(both.alike(&import("hats1"), &import("hats2")).0.contains("products made"));
    std::fs::write(&file, "id,name,price,stock\nsun,Sun hat,much,5\n").unwrap();
    assert_eq!(both.alike(&import("hats1"), &import("hats2")).2, Some(1));
    let words = ["shop", "key", "till", "--workspace", "w", "--scope", "write:orders"];
    both.alike(&words, &words);
    both.same(&["shop", "keys", "--workspace", "w"]);

    let document = both.folder.path().join("system.yaml");
    let text =
        "kind: AgentSystem\napiVersion: orloj.dev/v1\nmetadata: { name: again }\nspec: { graph: { echo: {} } }\n";
    std::fs::write(&document, text).unwrap();
    let apply = ["apply", "-f", document.to_str().unwrap()];
    assert_eq!(both.here(&apply).0, "agent-systems/again created\n");
    both.same(&apply);
    std::fs::write(&document, text.replace("again", "more")).unwrap();
    assert_eq!(both.far(&apply).0, "agent-systems/more created\n");
    std::fs::write(&document, text.replace("AgentSystem", "Secret")).unwrap();
    assert_eq!(both.same(&apply), "");
    let made: Vec<Value> = audit(&both.server).into_iter().filter(|line| line["name"] == "more").collect();
    assert!(made.len() == 1 && made[0]["by"] == "boss", "{made:?}");
}

#[test]
fn a_server_is_named_by_the_environment_too_but_not_against_a_folder() {
    let both = Both::start(AGENTS);
    let run = |words: &[&str]| {
        let mut command = rialto(both.folder.path(), words);
        command.env("RIALTO_SERVER", both.server.url()).env("RIALTO_KEY", &both.admin.secret);
        Said::of(&command.output().unwrap())
    };
    assert_eq!(run(&["health"]).0, "ready\n");
    let elsewhere = run(&["health", "--data", "./nothing-here"]);
    assert!(elsewhere.1.contains("no server runs on the data in ./nothing-here"), "{elsewhere:?}");
    let file = both.folder.path().join("key");
    std::fs::write(&file, format!("{}\n", both.admin.secret)).unwrap();
    for words in [
        &["health", "--server", &both.server.url(), "--key-file", "key"][..],
        &["health", "--server", &both.server.url(), "--key", "file:key"],
        &["health", "--server", &both.server.url(), "--key", &both.admin.secret],
    ] {
        assert_eq!(Said::of(&rialto(both.folder.path(), words).output().unwrap()).0, "ready\n", "{words:?}");
    }
    // A command of the machine stays there.
    let backup = run(&["backup", "copy.db", "--server", &both.server.url()]);
    assert_eq!(backup.2, Some(2), "{backup:?}");
}

#[test]
fn whatever_is_wrong_is_one_sentence_with_the_next_step() {
    let both = Both::start(AGENTS);
    let viewer = key(&both.server, "onlooker", "default", &["viewer"]);
    let bare = key(&both.server, "ann", "default", &[]);
    let off = Server::options().config(&format!("{AGENTS}console: {{ enabled: false }}\n")).start();
    let page = Receiver::start();
    page.answers(|_| Reply::With(200, "Content-Type", "text/html".to_owned()));
    let proxy = Receiver::start();
    proxy.answers(|_| Reply::With(302, "Location", "https://login.example/".to_owned()));
    let closed = format!("http://{}", free_address());
    let (url, secret) = (both.server.url(), both.admin.secret.as_str());
    for (url, key, says) in [
        (&*closed, Some(secret), "check the address, and that the server runs"),
        (&*url, None, "needs a key with a role: name its file with --key-file, or set RIALTO_KEY"),
        (&*url, Some("wrong"), "does not take this key: "),
        (&*url, Some(&*viewer.secret), "this needs the role admin, and your key has viewer"),
        (&*url, Some(&*bare.secret), "your credential has no role here"),
        (&*off.url(), Some(secret), "console: { enabled: true }"),
        (&*page.url("/"), Some(secret), "answered 200 with text/html, so it is no server of Rialto"),
        (&*proxy.url("/"), Some(secret), "leads to https://login.example/: name the server's own address"),
        (&*url.replace("http:", "https:"), Some(secret), "it does not answer in TLS: write http://"),
        ("127.0.0.1:8080", Some(secret), "write https://host"),
    ] {
        let mut command = rialto(both.folder.path(), &["keys", "list", "--server", url]);
        if let Some(key) = key {
            command.env("RIALTO_KEY", key);
        }
        let Said(out, error, code) = Said::of(&command.output().unwrap());
        assert!(error.contains(says) && error.starts_with("rialto: "), "{says}: {error}");
        assert_eq!((&*out, error.lines().count(), code), ("", 1, Some(1)), "{error}");
        assert!(!error.contains(secret), "{error}");
    }
    // A check that cannot be made ends with its own code.
    let mut check = rialto(both.folder.path(), &["market", "verify", "--server", &closed]);
    assert_eq!(check.env("RIALTO_KEY", secret).output().unwrap().status.code(), Some(2));
}

/// A process that ends with the value.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_certificate_of_a_private_authority_is_taken_with_its_file_alone() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into(), "127.0.0.1".into()]).unwrap();
    std::fs::write(folder.path().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    std::fs::write(folder.path().join("cert.pem"), made.cert.pem()).unwrap();
    std::fs::write(folder.path().join("none.pem"), "nothing\n").unwrap();
    let listen = free_address();
    let admin = rialto(folder.path(), &["keys", "create", "me", "--tenant", "default", "--scope", "admin"]);
    let admin = Said::of(&{ admin }.output().unwrap());
    let secret = admin.0.lines().next().expect("a key");
    let words = ["serve", "--listen", &listen.to_string(), "--tls-cert", "cert.pem", "--tls-key", "key.pem"];
    let mut serve = rialto(folder.path(), &words);
    let log = std::fs::File::create(folder.path().join("log")).unwrap();
    let _served = Ended(serve.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap());
    let ask = |url: &str, more: &[&str]| {
        let mut command = rialto(folder.path(), &["health", "--server", url]);
        Said::of(&command.args(more).env("RIALTO_KEY", secret).output().unwrap())
    };
    let url = format!("https://{listen}");
    let ready = until("the server is ready", poll::PATIENCE, || {
        Some(ask(&url, &["--ca", "cert.pem"])).filter(|said| said.2 == Some(0))
    });
    assert_eq!(ready.0, "ready\n");
    let untrusted = ask(&url, &[]);
    assert!(untrusted.1.contains("name that authority's with --ca FILE"), "{untrusted:?}");
    let other_name = ask(&url.replace("127.0.0.1", "127.0.0.2"), &["--ca", "cert.pem"]);
    assert_eq!(other_name.2, Some(1), "{other_name:?}");
    for (file, says) in [("none.pem", "none.pem has no certificate"), ("missing.pem", "cannot read --ca missing.pem")] {
        let said = ask(&url, &["--ca", file]);
        assert!(said.1.contains(says) && said.2 == Some(1), "{said:?}");
    }
}
