//! Tests of `admission`.

use model::Json;

use super::*;

fn made(sort: ResourceKind, name: &str, spec: &str) -> Arc<Resource> {
    Arc::new(Resource {
        origin: crate::resources::Origin::Made,
        ..Resource::of_config(sort, name, Json::parse(spec).unwrap())
    })
}

#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct Root {
    agents: AgentConfigs,
    orloj: Option<crate::config::Orloj>,
}

fn config(yaml: &str) -> (AgentConfigs, Rules) {
    let root = if yaml.is_empty() { Root::default() } else { serde_saphyr::from_str(yaml).unwrap() };
    (root.agents, root.orloj.unwrap_or_default().resources)
}

fn refused(spec: &str, yaml: &str) -> String {
    let (agents, rules) = config(yaml);
    match agent(&made(ResourceKind::Agent, "a", spec), &agents, &rules) {
        Ok(_) => panic!("{spec} is taken"),
        Err(Trouble::NotAllowed(says)) => format!("not allowed: {says}"),
        Err(Trouble::Wrong(all)) => all.join("\n"),
    }
}

fn taken(spec: &str, yaml: &str) -> AgentConfig {
    let (agents, rules) = config(yaml);
    agent(&made(ResourceKind::Agent, "a", spec), &agents, &rules).unwrap_or_else(|error| panic!("{spec}: {error:?}")).0
}

#[test]
fn only_what_the_config_allows_is_made() {
    assert_eq!(taken(r#"{"kind":"echo"}"#, "").kind, "echo");
    let command = r#"{"kind":"command","command":"cat"}"#;
    assert!(refused(command, "").starts_with("not allowed: spec.kind: agents of kind command may not be made here"));
    let allow = "orloj: { resources: { allow_kinds: [command, http] } }\n";
    assert_eq!(taken(command, allow).kind, "command");
    assert!(refused(r#"{"kind":"echo"}"#, allow).starts_with("not allowed"), "what is listed is all there is");
    let secret = r#"{"kind":"command","command":"cat","secrets":{"K":"env:PATH"}}"#;
    assert!(refused(secret, allow).starts_with("not allowed: spec.secrets.K: secrets of the server"));
    let both = "orloj: { resources: { allow_kinds: [command], allow_secrets: true } }\n";
    assert_eq!(taken(secret, both).kind, "command");
}

#[test]
fn private_addresses_are_refused_however_they_are_written() {
    let allow = "orloj: { resources: { allow_kinds: [http] } }\n";
    for url in [
        "http://127.0.0.1:1/",
        "http://localhost/",
        "http://LOCALHOST./",
        "http://10.1.2.3/",
        "http://192.168.0.1/",
        "http://172.16.0.1/",
        "http://169.254.169.254/latest",
        "http://100.64.0.1/",
        "http://0x7f000001/",
        "http://2130706433/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[fd00::1]/",
        "http://[fe80::1]/",
        "http://0.0.0.0/",
        "http://metadata/",
        "http://a.internal/",
        "http://nas.lan/",
        "http://198.18.0.1/",
        "http://192.0.0.192/latest",
        "http://240.0.0.1/",
        "http://[64:ff9b::a9fe:a9fe]/",
        "http://[2002:7f00:1::1]/",
        "http://[fec0::1]/",
    ] {
        let says = refused(&format!(r#"{{"kind":"http","url":"{url}"}}"#), allow);
        assert!(says.starts_with("not allowed: spec.url: addresses of the server's machine"), "{url}: {says}");
    }
    assert_eq!(taken(r#"{"kind":"http","url":"https://agents.example.com/x"}"#, allow).kind, "http");
    let private = "orloj: { resources: { allow_kinds: [http], allow_private_addresses: true } }\n";
    assert_eq!(taken(r#"{"kind":"http","url":"http://127.0.0.1:1/"}"#, private).kind, "http");
}

/// A kind's fields beside those that such an agent requires.
fn spec_of(kind: &str, more: serde_json::Value) -> String {
    let mut spec = match kind {
        "mcp" if more.get("command").is_some() => serde_json::json!({}),
        "http" | "langgraph" | "a2a" | "mcp" => serde_json::json!({"url": "https://agents.example.com/x"}),
        "openai" => serde_json::json!({"base_url": "https://agents.example.com/v1", "model": "m"}),
        "command" => serde_json::json!({"command": ["cat"]}),
        _ => serde_json::json!({}),
    };
    if kind == "langgraph" {
        spec["assistant"] = "a".into();
    }
    spec["kind"] = kind.into();
    for (name, value) in more.as_object().unwrap() {
        spec[name] = value.clone();
    }
    spec.to_string()
}

#[test]
fn what_runs_a_program_needs_the_kind_of_programs() {
    use serde_json::json;
    let mcp = "orloj: { resources: { allow_kinds: [mcp], allow_secrets: true, allow_private_addresses: true } }\n";
    for (field, more) in [
        ("command", json!({"command": ["cat"]})),
        ("command", json!({"command": "sh -c 'id'"})),
        ("cwd", json!({"cwd": "/tmp"})),
        ("env", json!({"env": {"LD_PRELOAD": "/tmp/x.so"}})),
        ("secrets", json!({"secrets": {"K": "env:PATH"}})),
        ("inherit_env", json!({"inherit_env": true})),
    ] {
        let says = refused(&spec_of("mcp", more), mcp);
        assert!(says.starts_with(&format!("not allowed: spec.{field}: programs may not be started")), "{says}");
    }
    assert_eq!(taken(&spec_of("mcp", json!({})), mcp).kind, "mcp", "one that is reached by its address");
    let both = "orloj: { resources: { allow_kinds: [mcp, command] } }\n";
    assert_eq!(taken(&spec_of("mcp", json!({"command": ["cat"]})), both).kind, "mcp");
    for kind in ["mcp", "command"] {
        let more = json!({"command": ["cat"], "inherit_env": true});
        let says = refused(&spec_of(kind, more), both);
        assert!(says.starts_with("not allowed: spec.inherit_env: secrets of the server"), "{kind}: {says}");
        let more = json!({"command": ["cat"], "inherit_env": false, "secrets": {}});
        assert_eq!(taken(&spec_of(kind, more), both).kind, kind, "what is left out has no power");
    }
}

#[test]
fn every_field_with_a_power_is_refused_until_that_power_is_allowed() {
    use serde_json::json;
    let every: Vec<&str> = agents::KINDS.iter().map(|kind| kind.name).collect();
    let strict = format!("orloj: {{ resources: {{ allow_kinds: [{}] }} }}\n", every.join(", "));
    let mut seen = 0;
    for kind in agents::KINDS {
        for field in kind.fields {
            for power in field.powers {
                let (value, piece) = match power {
                    Power::RunPrograms => continue,
                    Power::ReachAddress => (json!("http://169.254.169.254/"), "private networks may not be named"),
                    Power::ReachAnyAddress => (json!(true), "may not choose the addresses"),
                    Power::ReadSecrets => (json!("env:PATH"), "secrets of the server may not be named"),
                };
                let says = refused(&spec_of(kind.name, json!({field.name: value})), &strict);
                assert!(
                    says.starts_with("not allowed: ") && says.contains(piece),
                    "{}.{}: {says}",
                    kind.name,
                    field.name
                );
                seen += 1;
            }
        }
    }
    assert!(seen > 15, "{seen}");
}

#[test]
fn an_address_that_cannot_be_judged_is_refused() {
    let allow = "orloj: { resources: { allow_kinds: [a2a, http, mcp, openai, langgraph] } }\n";
    for url in
        ["127.0.0.1:80", "localhost:8080/x", "//10.0.0.1/", "ftp://agents.example.com/", "file:///etc/passwd", ""]
    {
        for (kind, field) in
            [("a2a", "url"), ("a2a", "card_url"), ("http", "url"), ("http", "cancel_url"), ("openai", "base_url")]
        {
            let says = refused(&spec_of(kind, serde_json::json!({field: url})), allow);
            assert!(says.starts_with(&format!("not allowed: spec.{field}: addresses")), "{kind} {url}: {says}");
        }
    }
}

#[test]
fn mistakes_are_told_with_their_path_and_the_nearest_name() {
    for (spec, says) in [
        (r#"{"kind":"ecko"}"#, "spec: unknown kind `ecko`"),
        (r#"{"kind":"echo","titel":"x"}"#, "did you mean `title`?"),
        (r#"{"kind":"echo","queue":-1}"#, "spec.queue: "),
        ("{}", "spec: an agent needs a kind"),
        (r#"{"kind":"echo","price":{"per_task":"1"}}"#, "spec.price: prices are the config's"),
        (r#"{"kind":"echo","prompt":"x"}"#, "spec.prompt: belongs to a model_ref"),
        (r#"{"kind":"echo","tools":["a"]}"#, "spec.tools: is not an agent's here"),
        (r#"{"kind":"echo","limits":{"timeout":"soon"}}"#, "spec.limits.timeout: write a number and a unit"),
        (
            r#"{"model_ref":"gpt"}"#,
            "spec.model_ref: \"gpt\" is no agent of kind openai in the config; those are: there is none",
        ),
    ] {
        let error = refused(spec, "");
        assert!(error.contains(says), "{spec}: {error}");
    }
    let own = taken(r#"{"kind":"echo","tools":[],"limits":{"max_steps":3,"timeout":"30s"}}"#, "");
    assert_eq!(own.common.timeout_ms, Some(30_000));
}

#[test]
fn a_model_of_the_config_may_be_meant() {
    let config = "agents:\n  gpt: { kind: openai, base_url: 'http://127.0.0.1:1', model: m, api_key: 'env:PATH', description: d }\n";
    let own = taken(r#"{"model_ref":"gpt","prompt":"Be brief.","limits":{"timeout":"5s"},"title":"Brief"}"#, config);
    assert_eq!((own.kind, own.common.timeout_ms, own.common.title.as_deref()), ("openai", Some(5_000), Some("Brief")));
    assert_eq!(own.common.description, None, "it is another agent");
    // A caller cannot change the address or the credentials.
    for spec in [r#"{"model_ref":"gpt","base_url":"https://x.example"}"#, r#"{"model_ref":"gpt","headers":{"a":"b"}}"#]
    {
        assert!(refused(spec, config).contains("the rest is the model's"), "{spec}");
    }
    assert!(
        refused(r#"{"model_ref":"echo"}"#, "agents: { echo: { kind: echo } }\n").contains("is no agent of kind openai")
    );
}
