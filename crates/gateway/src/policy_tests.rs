//! The table: who may do what under which rules.

use std::sync::Arc;

use model::{Call, Caller, Cancel, Fault, Get, Json, Kind, List, Message, Part, PushConfig, Role, Send, Wait};

use super::{Effect, Methods, NAMES, Pattern, Policy, Rule};

fn list(texts: &[&str]) -> Option<Vec<String>> {
    Some(texts.iter().map(|text| (*text).to_owned()).collect())
}

fn allow() -> Rule {
    Rule::new(Effect::Allow)
}

fn deny() -> Rule {
    Rule::new(Effect::Deny)
}

fn known(name: &str, scopes: &[&str]) -> Caller {
    let scopes: Arc<[String]> = scopes.iter().map(|scope| (*scope).to_owned()).collect();
    Caller { tenant: "red".into(), name: name.into(), authenticated: true, scopes }
}

fn send(metadata: Option<&str>, data: &[&str]) -> Send {
    let mut parts = vec![Part::text("hello")];
    parts.extend(data.iter().map(|json| Part::data(Json::parse(json).unwrap())));
    let metadata = metadata.map(|json| Json::parse(json).unwrap());
    let message =
        Message { id: "m".into(), role: Role::User, parts, metadata, extensions: Vec::new(), references: Vec::new() };
    Send { wait: Wait::Exists, ..Send::new(message) }
}

fn sending(metadata: Option<&str>, data: &[&str]) -> Call {
    Call::Send(Box::new(send(metadata, data)))
}

fn get() -> Call {
    Call::Get(Get { task: "t".into(), history: None })
}

fn ask(rules: &[Rule], caller: &Caller, agent: &str, call: &Call, required: bool) -> Result<(), Fault> {
    Policy::new(rules).unwrap().check(caller, &caller.tenant, agent, call, required)
}

fn may(rules: &[Rule], caller: &Caller, agent: &str, call: &Call) -> bool {
    ask(rules, caller, agent, call, true).is_ok()
}

#[test]
fn what_no_rule_allows_is_denied() {
    let ann = known("ann", &[]);
    assert!(!may(&[], &ann, "echo", &get()));
    assert!(may(&[allow()], &ann, "echo", &get()));
    assert!(!may(&[Rule { agents: list(&["other"]), ..allow() }], &ann, "echo", &get()));
}

#[test]
fn a_deny_wins_wherever_it_stands() {
    let ann = known("ann", &[]);
    let secret = Rule { agents: list(&["secret"]), ..deny() };
    for rules in [[allow(), secret.clone()], [secret, allow()]] {
        assert!(!may(&rules, &ann, "secret", &get()));
        assert!(may(&rules, &ann, "echo", &get()));
    }
}

#[test]
fn every_member_must_fit() {
    let rule = Rule {
        callers: list(&["ann", "ci-*"]),
        scopes: list(&["tasks:write"]),
        tenants: list(&["red"]),
        agents: list(&["echo"]),
        methods: list(&["send", "stream"]),
        ..allow()
    };
    let rules = [rule];
    let call = sending(None, &[]);
    assert!(may(&rules, &known("ann", &["tasks:write"]), "echo", &call));
    assert!(may(&rules, &known("ci-7", &["x", "tasks:write"]), "echo", &call));
    assert!(may(&rules, &known("ann", &[]), "echo", &call), "a credential without scopes has them all");
    assert!(!may(&rules, &known("bob", &[]), "echo", &call));
    assert!(!may(&rules, &known("ci", &[]), "echo", &call));
    assert!(!may(&rules, &known("ann", &["tasks:read"]), "echo", &call));
    assert!(!may(&rules, &known("ann", &[""]), "echo", &call), "a token that says it has none has none");
    assert!(!may(&rules, &known("ann", &[]), "other", &call));
    assert!(!may(&rules, &known("ann", &[]), "echo", &get()));
    let blue = Caller { tenant: "blue".into(), ..known("ann", &[]) };
    assert!(!may(&rules, &blue, "echo", &call));
}

#[test]
fn groups_of_methods_are_what_they_say() {
    for name in NAMES {
        let bit = Methods::named(name).unwrap();
        let read = ["get", "list", "subscribe", "push_get", "push_list"].contains(&name);
        assert_eq!(Methods::named("read").unwrap().meets(bit), read, "{name}");
        assert_eq!(Methods::named("write").unwrap().meets(bit), !read && name != "extended_card", "{name}");
        assert!(Methods::named("*").unwrap().meets(bit), "{name}");
    }
    for call in [
        sending(None, &[]),
        Call::Stream(Box::new(send(None, &[]))),
        get(),
        Call::List(List::default()),
        Call::Cancel(Cancel { task: "t".into(), metadata: None }),
        Call::Subscribe(model::Subscribe { task: "t".into() }),
        Call::Push(model::PushCall::Create(webhook())),
        Call::Push(model::PushCall::Get { task: "t".into(), id: "i".into() }),
        Call::Push(model::PushCall::List { task: "t".into(), page_size: None, page_token: None }),
        Call::Push(model::PushCall::Delete { task: "t".into(), id: "i".into() }),
        Call::ExtendedCard,
    ] {
        assert_eq!(Some(Methods::of(&call)), Methods::named(call.name()), "{}", call.name());
    }
    assert!(Policy::new(&[Rule { methods: list(&["sned"]), ..allow() }]).is_err());
    assert!(Policy::new(&[Rule { methods: list(&[]), ..allow() }]).is_err());
    assert!(Policy::new(&[Rule { skills: list(&[]), ..allow() }]).is_err());
}

fn webhook() -> PushConfig {
    let url = "https://hook.example".into();
    PushConfig { task: None, id: None, url, token: None, scheme: None, credentials: None }
}

#[test]
fn a_send_that_brings_a_webhook_needs_both() {
    let ann = known("ann", &[]);
    let mut with = send(None, &[]);
    with.push = Some(webhook());
    let with = Call::Send(Box::new(with));
    assert!(!may(&[Rule { methods: list(&["send"]), ..allow() }], &ann, "echo", &with));
    assert!(may(&[Rule { methods: list(&["send", "push_create"]), ..allow() }], &ann, "echo", &with));
}

#[test]
fn a_skill_is_found_wherever_it_is_said_and_all_of_them_must_be_allowed() {
    let ann = known("ann", &[]);
    let rules = [Rule { skills: list(&["sum*"]), ..allow() }];
    for (metadata, data, expected) in [
        (Some(r#"{"skill":"summarize"}"#), vec![], true),
        (Some(r#"{"skillId":"summarize"}"#), vec![], true),
        (Some(r#"{"skill_id":"summarize"}"#), vec![], true),
        (None, vec![r#"{"tool":"summarize","arguments":{}}"#], true),
        (None, vec![r#"{"skill":"summarize","tool":"other"}"#], false),
        (Some(r#"{"sk\u0069ll":"\u0073um"}"#), vec![], true),
        (None, vec![r#"{"skill":"summarize","text":"…"}"#], true),
        (None, vec![r#"{"deep":{"skill":"summarize"}}"#], false),
        (None, vec!["[1]"], false),
        (None, vec![], false),
        (Some(r#"{"skill":"other"}"#), vec![], false),
        (Some(r#"{"skill":"summarize"}"#), vec![r#"{"skill":"other"}"#], false),
        (Some(r#"{"skill":"summarize","skill":"other"}"#), vec![], false),
        (Some(r#"{"skill":"summarize","skillId":["other"]}"#), vec![], false),
        (Some(r#"{"skill":"summarize","skillId":null}"#), vec![], true),
    ] {
        assert_eq!(may(&rules, &ann, "echo", &sending(metadata, &data)), expected, "{metadata:?} {data:?}");
    }
    let mut outer = send(None, &[]);
    outer.metadata = Json::parse(r#"{"skill":"summarize"}"#);
    assert!(may(&rules, &ann, "echo", &Call::Stream(Box::new(outer))), "the request's own metadata, too");
    assert!(!may(&rules, &ann, "echo", &get()), "a call without a skill fits only rules without one");
    let rules = [allow(), Rule { skills: list(&["shell"]), ..deny() }];
    assert!(!may(&rules, &ann, "echo", &sending(Some(r#"{"skill":"shell"}"#), &[])));
    for hidden in [r#"{"skill":["shell"]}"#, r#"{"skill":{"id":"shell"}}"#, r#"{"skill":7}"#] {
        assert!(!may(&rules, &ann, "echo", &sending(Some(hidden), &[])), "no rule can know what {hidden} is");
    }
    assert!(may(&rules, &ann, "echo", &sending(None, &[])));
}

#[test]
fn nobody_gets_in_where_a_credential_is_required_but_by_name() {
    let nobody = Caller::anonymous();
    let search = sending(Some(r#"{"skill":"product-search"}"#), &[]);
    let open = Rule { callers: list(&["anonymous"]), skills: list(&["product-search"]), ..allow() };
    let rules = [allow(), Rule { callers: list(&["*"]), ..allow() }, open];
    assert!(may(&rules, &nobody, "echo", &search));
    let fault = ask(&rules, &nobody, "echo", &sending(None, &[]), true).unwrap_err();
    assert_eq!(fault.kind, Kind::Unauthenticated);
    assert!(ask(&rules, &nobody, "echo", &sending(None, &[]), false).is_ok(), "where none is required, all are all");
    let scoped = [Rule { scopes: list(&["a"]), callers: list(&["anonymous"]), ..allow() }];
    assert!(!may(&scoped, &nobody, "echo", &search), "nobody has no scopes");
    let denied =
        [allow(), Rule { callers: list(&["anonymous"]), ..allow() }, Rule { agents: list(&["echo"]), ..deny() }];
    assert!(!may(&denied, &nobody, "echo", &search), "a deny for all is one for nobody, too");
    let impostor = known("anonymous", &[]);
    assert!(!may(&[Rule { callers: list(&["anonymous"]), ..allow() }], &impostor, "echo", &search));
    let policy = Policy::new(&rules).unwrap();
    assert!(policy.opens("echo"));
    assert!(!Policy::new(&[allow()]).unwrap().opens("echo"));
}

#[test]
fn a_refusal_says_what_and_where_and_to_whom() {
    let fault = ask(&[], &known("ann", &[]), "echo", &get(), true).unwrap_err();
    assert_eq!(fault.kind, Kind::Forbidden);
    assert!(fault.message.contains("get") && fault.message.contains("echo"), "{fault}");
}

#[test]
fn stars_are_anything_and_nothing_else_is() {
    for (pattern, text, expected) in [
        ("*", "", true),
        ("*", "x", true),
        ("ci-*", "ci-", true),
        ("ci-*", "ci", false),
        ("*-ci", "my-ci", true),
        ("a*a", "a", false),
        ("a*a", "aa", true),
        ("a*b*c", "a-b-b-c", true),
        ("a*b*c", "a-c-b", false),
        ("a**c", "abc", true),
        ("jwt:idp.example#*", "jwt:idp.example#ann", true),
        ("a.c", "abc", false),
        ("a?c", "abc", false),
    ] {
        assert_eq!(Pattern::new(pattern).fits(text), expected, "{pattern} {text}");
    }
}

#[test]
fn equal_rules_have_equal_hashes() {
    let hash = |rules: &[Rule]| Policy::new(rules).unwrap().hash().to_owned();
    assert_eq!(hash(&[allow()]), hash(&[allow()]));
    assert_ne!(hash(&[allow()]), hash(&[deny()]));
    assert_ne!(hash(&[allow()]), hash(&[allow(), allow()]));
}
