//! Tests of the agents section: accepted values, and the errors for the rest.

use super::*;

fn parse(text: &str) -> Result<Agents, String> {
    #[derive(Deserialize)]
    struct File {
        agents: Agents,
    }
    serde_saphyr::from_str::<File>(text).map(|file| file.agents).map_err(|error| error.to_string())
}

fn refused(text: &str) -> String {
    parse(text).map(|agents| format!("{agents:?}")).expect_err("refused")
}

fn checked(text: &str) -> Result<(), Error> {
    parse(text).unwrap().0[0].1.check()
}

#[test]
fn agents_keep_their_order_and_their_kinds() {
    let agents = parse("agents:\n  b:\n    kind: scripted\n    mode: ask\n    title: B\n  a: {kind: echo}\n").unwrap();
    let kinds: Vec<_> = agents.0.iter().map(|(name, agent)| (name.as_str(), agent.kind)).collect();
    assert_eq!(kinds, [("b", "scripted"), ("a", "echo")]);
    assert_eq!(agents.0[0].1.common.title.as_deref(), Some("B"));
    assert!(parse("agents:\n").unwrap().0.is_empty());
}

#[test]
fn an_unknown_key_is_refused_with_the_agent_the_line_and_the_names_known() {
    let error = refused("agents:\n  b:\n    kind: scripted\n    mod: ask\n");
    let first = error.lines().next().unwrap();
    assert!(first.contains(r#"agent "b": unknown field `mod`, expected one of `mode`, "#), "{error}");
    assert!(first.contains("`timeout_ms`") && first.contains("line 3"), "{error}");
    let error = refused("agents:\n  b:\n    kind: echo\n    skills: [{id: x, nam: y}]\n");
    assert!(error.contains("skills[0]") && error.contains("`nam`") && error.contains("`name`"), "{error}");
}

#[test]
fn a_wrong_kind_is_refused_with_the_kinds_known() {
    let error = refused("agents:\n  b: {kind: ecko}\n");
    assert!(
        error.contains(r#"agent "b": unknown kind `ecko`, expected one of "#) && error.contains("`echo`"),
        "{error}"
    );
    assert!(refused("agents:\n  b: {title: x}\n").contains("an agent needs a kind"));
    assert!(refused("agents:\n  b: {kind: 3}\n").contains("kind must be one of"));
    assert!(refused("agents:\n  b: echo\n").contains("options of the agent"));
}

#[test]
fn a_name_or_a_key_that_stands_twice_is_refused() {
    let error = refused("agents:\n  b: {kind: echo}\n  b: {kind: scripted}\n");
    assert!(error.contains("duplicate") || error.contains("two agents"), "{error}");
    let error = refused("agents:\n  b: {kind: echo, title: x, title: y}\n");
    assert!(error.contains("duplicate") || error.contains("twice"), "{error}");
}

#[test]
fn a_number_where_a_text_belongs_is_refused_with_advice() {
    let error = refused("agents:\n  b: {kind: echo, version: 1.0}\n");
    assert!(error.contains("version: ") && error.contains("put it in quotes"), "{error}");
}

#[test]
fn values_that_make_no_sense_are_refused() {
    for (options, says) in [
        ("concurrency: 0", "concurrency: 0 is out of range"),
        ("timeout_ms: 0", "timeout_ms: 0"),
        ("restart: resume", "choose retry or fail"),
        ("skills: [{id: ' '}]", "skills[0].id is empty"),
        ("skills: [{id: a}, {id: a}]", "two have the id"),
        ("input_modes: [text]", "is no media type"),
        ("kind: scripted, mode: sing", "unknown mode"),
    ] {
        let kind = if options.starts_with("kind") { "" } else { "kind: echo, " };
        let error = checked(&format!("agents:\n  b: {{{kind}{options}}}\n")).unwrap_err().to_string();
        assert!(error.contains(says), "{options}: {error}");
    }
}

#[tokio::test]
async fn an_agent_is_built_with_what_the_config_says_about_it() {
    let text = "agents:\n  parrot:\n    kind: echo\n    title: Parrot\n    version: '2.1'\n    restart: fail\n    skills:\n      - {id: repeat, description: says it again, tags: [fun]}\n";
    let (name, config) = parse(text).unwrap().0.remove(0);
    let agent = build(&name, config).await.unwrap();
    let profile = agent.profile();
    assert_eq!((&*profile.name, profile.title.as_str(), profile.version.as_str()), ("parrot", "Parrot", "2.1"));
    assert_eq!((profile.skills[0].id.as_str(), profile.skills[0].name.as_str()), ("repeat", "repeat"));
    assert_eq!(profile.restart, Restart::Fail);
    assert_eq!(profile.description, crate::echo::EchoAgent::new().profile().description);
    let message = crate::scripted::stage::inbound("m", vec![]);
    assert_eq!(agent.admit(&message, None).unwrap().restart, Restart::Fail);
}

#[tokio::test]
async fn a_build_that_fails_names_the_agent() {
    let (name, config) = parse("agents:\n  b: {kind: echo, queue: 100000000}\n").unwrap().0.remove(0);
    let error = build(&name, config).await.err().unwrap().to_string();
    assert!(error.starts_with(r#"agent "b": queue: 100000000 is out of range"#), "{error}");
}

#[test]
fn the_schema_has_a_branch_for_each_kind_with_its_own_and_the_common_names() {
    let schema = schemars::schema_for!(Agents).to_value();
    let branches = schema["$defs"]["Agent"]["oneOf"].as_array().unwrap();
    assert_eq!(branches.len(), KINDS.len());
    for (branch, kind) in branches.iter().zip(KINDS) {
        assert_eq!(branch["properties"]["kind"]["const"], kind.name);
        assert_eq!(branch["required"][0], "kind");
        assert_eq!(branch["additionalProperties"], false, "{}", kind.name);
        assert!(branch["properties"]["timeout_ms"].is_object());
    }
}

#[test]
fn an_agent_of_grpc_is_a_one_liner() {
    for url in ["grpc://h:50051", "grpcs://h", "grpc://127.0.0.1:8080/a2a/x"] {
        assert_eq!(from_flag(&format!("far={url}")).unwrap().0, "far");
    }
    assert!(from_flag("far=grpc://").unwrap_err().to_string().contains("grpc://host:port"));
}

#[test]
fn a_one_liner_that_is_none_is_refused_with_both_forms() {
    for bad in ["", "echo", "=http://x", "a=ftp://x", "a=", "a=prog"] {
        let error = from_flag(bad).unwrap_err().to_string();
        assert!(error.contains("NAME=https://host, NAME=grpc://host:port or NAME=command:PROGRAM"), "{bad}: {error}");
    }
}
