//! Tests of `scopes`.

use model::{Cancel, Get, List, Message, Part, PushCall, PushConfig, Role, Send, Subscribe};

use super::*;
use crate::policy::Effect;
use crate::settings::KeySettings;

/// As a product defines them.
const OF_PRODUCT: [&str; 3] = ["read:content", "read:orders", "write:orders"];

fn caller(name: &str, scopes: &[&str]) -> Caller {
    let scopes: Vec<String> = scopes.iter().map(|scope| (*scope).to_owned()).collect();
    Caller { tenant: "t".into(), name: name.into(), authenticated: true, scopes: scopes.into() }
}

fn settings(named: &[&str]) -> Settings {
    let mut settings = Settings::test(&["echo", "store", "graph"]);
    let scopes = Some(named.iter().map(|scope| (*scope).to_owned()).collect());
    settings.product_scopes = OF_PRODUCT.into();
    settings.policy = Some(vec![Rule { scopes, ..Rule::new(Effect::Allow) }]);
    settings
}

fn scopes(named: &[&str], scoped_agent: Option<&str>) -> Scopes {
    let known = Scopes::new(&settings(named)).unwrap();
    Scopes { scoped_agent: scoped_agent.map(Arc::from), ..known }
}

/// Every call there is, with its name.
fn calls() -> Vec<(&'static str, Call)> {
    let message = || Message {
        id: "m".into(),
        role: Role::User,
        parts: vec![Part::text("hi")],
        metadata: None,
        extensions: Vec::new(),
        references: Vec::new(),
    };
    let config = || PushConfig {
        task: Some("t".into()),
        id: None,
        url: "https://x.example".into(),
        token: None,
        scheme: None,
        credentials: None,
    };
    let send = || Box::new(Send::new(message()));
    let with_push = || Box::new(Send { push: Some(config()), ..Send::new(message()) });
    vec![
        ("send", Call::Send(send())),
        ("send+push", Call::Send(with_push())),
        ("stream", Call::Stream(send())),
        ("get", Call::Get(Get { task: "t".into(), history: None })),
        ("list", Call::List(List::default())),
        ("cancel", Call::Cancel(Cancel { task: "t".into(), metadata: None })),
        ("subscribe", Call::Subscribe(Subscribe { task: "t".into() })),
        ("push_create", Call::Push(PushCall::Create(config()))),
        ("push_get", Call::Push(PushCall::Get { task: "t".into(), id: "i".into() })),
        ("push_list", Call::Push(PushCall::List { task: "t".into(), page_size: None, page_token: None })),
        ("push_delete", Call::Push(PushCall::Delete { task: "t".into(), id: "i".into() })),
        ("extended_card", Call::ExtendedCard),
    ]
}

const READ: &str = "get list subscribe push_get push_list extended_card";
const SAY: &str = "send stream cancel extended_card";
const PUSH: &str = "push_create push_get push_list push_delete extended_card";
const ALL: &str =
    "send send+push stream get list cancel subscribe push_create push_get push_list push_delete extended_card";
const CARD: &str = "extended_card";

/// The table of the manual: which credential, with which scopes, at which agent, covers which call.
#[test]
fn scopes_cover_what_the_manual_says() {
    let scopes = scopes(&["billing", "report:*", "tasks:read"], Some("store"));
    let cases: &[(&str, &[&str], &str, &str)] = &[
        ("key", &[], "echo", ALL),
        ("key", &["tasks"], "echo", ALL),
        ("key", &["admin"], "echo", ALL),
        ("key", &["writer"], "echo", ALL),
        ("key", &["tasks:read"], "echo", READ),
        ("key", &["reader"], "echo", READ),
        ("key", &["tasks:write"], "echo", SAY),
        ("key", &["push"], "echo", PUSH),
        (
            "key",
            &["tasks:write", "push"],
            "echo",
            "send send+push stream cancel push_create push_get push_list push_delete extended_card",
        ),
        ("key", &["tasks:read", "tasks:write", "push"], "echo", ALL),
        ("key", &["system:graph"], "graph", ALL),
        ("key", &["system:graph"], "echo", CARD),
        ("key", &["system:*"], "graph", ALL),
        ("key", &["system:graph", "tasks:read"], "echo", READ),
        ("key", &["write:orders"], "store", ALL),
        ("key", &["read:orders"], "store", ALL),
        ("key", &["write:orders"], "echo", CARD),
        ("key", &["billing"], "echo", ALL),
        ("key", &["report:daily"], "echo", ALL),
        ("key", &["unheard-of"], "echo", ""),
        ("key", &["viewer"], "echo", ""),
        ("key", &["operator"], "echo", ""),
        ("key", &["all-tenants"], "echo", ""),
        ("key", &["operator", "viewer", "all-tenants"], "echo", ""),
        ("key", &["viewer", "tasks:read"], "echo", READ),
        ("key", &["admin", "all-tenants"], "echo", ALL),
        ("key", &["unheard-of", "tasks:read"], "echo", READ),
        ("key", &[""], "echo", ""),
        ("jwt:idp#ann", &[], "echo", ALL),
        ("jwt:idp#ann", &["openid", "profile"], "echo", ALL),
        ("jwt:idp#ann", &["openid", "tasks:read"], "echo", READ),
        ("jwt:idp#ann", &["openid", "billing"], "echo", ALL),
        ("jwt:idp#ann", &[""], "echo", ""),
        ("jwt:idp#ann", &["viewer"], "echo", ""),
        ("jwt:idp#ann", &["openid", "operator"], "echo", ""),
        ("oauth:key_1", &["read:orders"], "store", ALL),
        ("oauth:key_1", &["read:orders"], "echo", CARD),
    ];
    for (name, held, agent, may) in cases {
        let caller = caller(name, held);
        for (operation, call) in calls() {
            let answer = scopes.check(&caller, agent, &call);
            let expected = may.split(' ').any(|one| one == operation);
            assert_eq!(answer.is_ok(), expected, "{name} {held:?} at {agent}: {operation}: {answer:?}");
            if let Err(fault) = answer {
                assert_eq!(fault.kind, Kind::Forbidden);
                assert!(fault.message.contains("scope"), "{fault}");
            }
        }
    }
}

#[test]
fn where_no_store_agent_is_served_its_scopes_cover_nothing() {
    let scopes = scopes(&["x"], None);
    for agent in ["echo", "store"] {
        assert!(scopes.check(&caller("key", &["write:orders"]), agent, &calls()[0].1).is_err());
    }
}

#[test]
fn a_scope_that_nobody_knows_is_refused_with_those_that_are_known() {
    let known = ["tasks", "tasks:read", "tasks:write", "push", "admin", "reader", "writer", "system:x", "system:*"];
    let known = known.into_iter().chain(["operator", "viewer", "all-tenants"]);
    let known = known.chain(OF_PRODUCT).chain(["billing", "report:monthly"]);
    let named = || ["billing", "report:*"].into_iter();
    for scope in known {
        assert_eq!(check_known(&[scope.to_owned()], &OF_PRODUCT, named()), Ok(()), "{scope}");
    }
    for scope in
        ["", "task", "TASKS", "tasks:", "tasks:delete", "system:", "send", "report", "write:anything", "billing "]
    {
        let error = check_known(&["tasks".to_owned(), scope.to_owned()], &OF_PRODUCT, named()).unwrap_err();
        assert!(error.contains(&format!("no scope {scope:?}")), "{error}");
        for known in ["tasks:read", "tasks:write", "push", "admin", "system:NAME", "write:orders", "billing"] {
            assert!(error.contains(known), "{error}");
        }
    }
    // In the config, too.
    let mut settings = settings(&["billing"]);
    let key = |scope: &str| KeySettings {
        name: "ann".into(),
        tenant: "t".into(),
        secret: "s".into(),
        scopes: vec![scope.into()],
        expires_at: None,
    };
    settings.keys = vec![key("billing"), key("send")];
    let error = settings.check().unwrap_err().to_string();
    assert!(error.contains("ann") && error.contains("\"send\"") && error.contains("tasks:write"), "{error}");
}
