//! Settings of a mount: visibility, tenant, authentication; and their statement in its card.

use gateway::Settings;
use gateway::settings::{AuthMode, Issuer, KeySource, MountSettings, Rule};
use model::Visibility;
use serde_json::{Value, json};

use testkit::{As, Running, allow, key, list, saying, settings, start};

fn mount(agent: &str, mount: MountSettings) -> Vec<(std::sync::Arc<str>, MountSettings)> {
    vec![(agent.into(), mount)]
}

async fn send(running: &Running, agent: &str, caller: &str) -> String {
    let answer = running.rpc(agent, "SendMessage", &saying("hi")).caller(caller).send().await.unwrap();
    let body: Value = answer.json().await.unwrap();
    body["result"]["task"]["id"].as_str().unwrap_or_else(|| panic!("{body}")).to_owned()
}

async fn sees(running: &Running, agent: &str, caller: &str, id: &str) -> bool {
    let answer = running.rpc(agent, "GetTask", &json!({ "id": id })).caller(caller).send().await.unwrap();
    let body: Value = answer.json().await.unwrap();
    let listed = running.rpc(agent, "ListTasks", &json!({})).caller(caller).send().await.unwrap();
    let listed: Value = listed.json().await.unwrap();
    let found = body["result"]["id"] == id;
    assert_eq!(listed["result"]["totalSize"], u64::from(found), "{listed}");
    if !found {
        assert_eq!(body["error"]["code"], -32001, "{body}");
    }
    found
}

#[tokio::test]
async fn who_sees_a_task_is_as_the_mount_has_it() {
    let keys = || {
        let mut bound = key("sys", "red");
        bound.scopes = vec!["system:echo".into()];
        let mut unbound = key("eve", "red");
        unbound.scopes = vec!["tasks".into()];
        vec![key("ann", "red"), key("bob", "red"), key("far", "blue"), bound, unbound]
    };
    for (visibility, parties, seen_by, hidden_from) in [
        (Visibility::Tenant, vec![], vec!["ann", "bob", "sys", "eve"], vec!["far"]),
        (Visibility::Owner, vec![], vec!["ann"], vec!["bob", "far"]),
        (Visibility::Parties, vec!["bob"], vec!["ann", "bob"], vec!["sys", "far"]),
        (Visibility::Systems, vec![], vec!["sys", "bob"], vec!["eve", "far"]),
    ] {
        let parties = parties.into_iter().map(Into::into).collect();
        let own = MountSettings { visibility: Some(visibility), parties, ..MountSettings::default() };
        let running = start(Settings { keys: keys(), mounts: mount("echo", own), ..settings() }).await;
        let id = send(&running, "echo", "ann").await;
        for name in seen_by {
            assert!(sees(&running, "echo", name, &id).await, "{visibility:?} {name}");
        }
        for name in hidden_from {
            assert!(!sees(&running, "echo", name, &id).await, "{visibility:?} {name}");
        }
    }
}

#[tokio::test]
async fn a_mount_with_a_tenant_is_there_for_nobody_else() {
    let own = MountSettings { tenant: Some("red".into()), ..MountSettings::default() };
    let keys = vec![key("ann", "red"), key("far", "blue")];
    let running = start(Settings { keys, mounts: mount("echo", own), ..settings() }).await;
    let id = send(&running, "echo", "ann").await;
    for tenant in [None, Some("red"), Some("blue")] {
        let mut params = json!({ "id": id });
        if let Some(tenant) = tenant {
            params["tenant"] = tenant.into();
        }
        let far = running.rpc("echo", "GetTask", &params).caller("far").send().await.unwrap();
        let far: Value = far.json().await.unwrap();
        assert_eq!(far["error"]["code"], -32001, "{tenant:?}: {far}");
    }
    let far = running.rpc("echo", "SendMessage", &saying("hi")).caller("far").send().await.unwrap();
    assert!(far.json::<Value>().await.unwrap()["error"].is_object());
    let nobody: Value = running.rpc("echo", "SendMessage", &saying("hi")).send().await.unwrap().json().await.unwrap();
    assert!(nobody["result"]["task"].is_object(), "whoever has no tenant is in the mount's: {nobody}");
    assert_eq!(running.rpc("scripted", "ListTasks", &json!({})).caller("far").send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_door_is_as_the_mount_has_it_and_the_card_says_so() {
    for (required, door, nobody, good, bad, schemes, requirements) in [
        (true, None, 401, 200, 401, true, true),
        (true, Some(AuthMode::Optional), 200, 200, 401, true, false),
        (true, Some(AuthMode::None), 200, 200, 200, false, false),
        (false, Some(AuthMode::Required), 401, 200, 401, true, true),
        (false, None, 200, 200, 401, true, false),
    ] {
        let own = MountSettings { door, ..MountSettings::default() };
        let keys = vec![key("ann", "red")];
        let settings = Settings { auth_required: required, keys, mounts: mount("echo", own), ..settings() };
        let running = start(settings).await;
        let ask = || running.rpc("echo", "ListTasks", &json!({}));
        assert_eq!(ask().send().await.unwrap().status(), nobody, "{door:?}");
        assert_eq!(ask().caller("ann").send().await.unwrap().status(), good, "{door:?}");
        assert_eq!(ask().caller("eve").send().await.unwrap().status(), bad, "{door:?}");
        let card = card(&running).await;
        assert_eq!(card["securitySchemes"].is_object(), schemes, "{card}");
        assert_eq!(card["securityRequirements"].is_array(), requirements, "{card}");
        assert_eq!(card["capabilities"]["extendedAgentCard"], schemes, "{card}");
    }
}

async fn card(running: &Running) -> Value {
    running.get("/a2a/echo/.well-known/agent-card.json").send().await.unwrap().json().await.unwrap()
}

#[tokio::test]
async fn a_card_says_what_is_taken() {
    let secret = "0123456789abcdef0123456789abcdef".to_owned();
    let shared = Issuer::new("https://a.example", vec!["r".into()], KeySource::Secret(secret));
    let card = card(&start(Settings { auth_required: true, issuers: vec![shared], ..settings() }).await).await;
    assert_eq!(card["securitySchemes"]["bearer"]["httpAuthSecurityScheme"]["bearerFormat"], "JWT", "{card}");
    assert_eq!(card["securitySchemes"]["bearer"]["bearerFormat"], "JWT");
    assert!(card["securitySchemes"]["apiKey"].is_null(), "there are no keys");
    assert_eq!(card["security"], json!([{ "bearer": [] }]));
    let open = start(settings()).await;
    assert!(self::card(&open).await["securitySchemes"].is_null());
    let free = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let source = KeySource::Discovery { algorithms: Issuer::ALGORITHMS.to_vec() };
    let found = Issuer::new(&*free, vec!["r".into()], source);
    let keys = vec![key("ann", "red")];
    let card = self::card(&start(Settings { issuers: vec![found], keys, ..settings() }).await).await;
    let scheme = &card["securitySchemes"]["openIdConnect"];
    let url = format!("{free}/.well-known/openid-configuration");
    assert_eq!((&scheme["type"], &scheme["openIdConnectUrl"]), (&json!("openIdConnect"), &json!(url)));
    assert_eq!(scheme["openIdConnectSecurityScheme"]["openIdConnectUrl"], url);
    assert!(card["securitySchemes"]["apiKey"].is_object() && card["securityRequirements"].is_null(), "{card}");
}

#[tokio::test]
async fn a_public_skill_is_open_and_the_others_say_that_they_are_not() {
    let policy = vec![
        Rule { callers: list(&["anonymous"]), skills: list(&["script"]), agents: list(&["scripted"]), ..allow() },
        Rule { callers: list(&["ann"]), ..allow() },
        Rule { callers: list(&["bob"]), skills: list(&["commands"]), ..allow() },
        Rule { callers: list(&["bob"]), methods: list(&["extended_card"]), ..allow() },
    ];
    let keys = vec![key("ann", "red"), key("bob", "red")];
    let asked = Settings { auth_required: true, keys, policy: Some(policy), ..settings() };
    let running = start(asked.clone()).await;
    let mut open = saying("hello");
    open["metadata"] = json!({ "skill": "script" });
    assert_eq!(running.rpc("scripted", "SendMessage", &open).send().await.unwrap().status(), 200);
    assert_eq!(running.rpc("scripted", "SendMessage", &saying("hi")).send().await.unwrap().status(), 401);
    assert_eq!(running.rpc("scripted", "ListTasks", &json!({})).send().await.unwrap().status(), 401);
    assert_eq!(running.rpc("echo", "SendMessage", &open).send().await.unwrap().status(), 401);
    let wrong = running.rpc("scripted", "SendMessage", &open).caller("eve").send().await.unwrap();
    assert_eq!(wrong.status(), 401, "a wrong key is a wrong key, also where none is needed");
    let card: Value =
        running.get("/a2a/scripted/.well-known/agent-card.json").send().await.unwrap().json().await.unwrap();
    assert!(card["securityRequirements"].is_null() && card["security"].is_null(), "{card}");
    for skill in card["skills"].as_array().unwrap() {
        let guarded = skill["id"] != "script";
        assert_eq!(skill["securityRequirements"].is_array(), guarded, "{skill}");
        assert_eq!(skill["security"].is_array(), guarded, "{skill}");
    }
    for (caller, expected) in [("ann", 2), ("bob", 1)] {
        for answer in [
            running.rpc("scripted", "GetExtendedAgentCard", &json!({})).caller(caller).send().await.unwrap(),
            running.get("/a2a/scripted/agent/authenticatedExtendedCard").caller(caller).send().await.unwrap(),
        ] {
            let body: Value = answer.json().await.unwrap();
            let card = if body["result"].is_object() { &body["result"] } else { &body };
            let skills = card["skills"].as_array().unwrap_or_else(|| panic!("{caller}: {body}"));
            assert!(skills.len() >= expected && (caller == "ann" || skills.len() == 1), "{caller}: {skills:?}");
        }
    }
    // Another policy is in force with the next call.
    let agents = running.serving.now().engine().agents();
    running.serving.change(Settings { policy: None, ..asked }, agents).unwrap();
    assert_eq!(running.rpc("echo", "ListTasks", &json!({})).caller("bob").send().await.unwrap().status(), 200);
    assert_eq!(running.rpc("scripted", "SendMessage", &open).send().await.unwrap().status(), 401);
}

#[tokio::test]
async fn keys_of_the_config_end_and_have_no_borrowed_names() {
    let mut ended = key("ann", "red");
    ended.expires_at = model::Time::parse("2020-01-01T00:00:00Z");
    let running = start(Settings { keys: vec![ended], ..settings() }).await;
    assert_eq!(running.rpc("echo", "ListTasks", &json!({})).caller("ann").send().await.unwrap().status(), 401);
    for name in ["anonymous", "jwt:idp.example#ann"] {
        assert!(Settings { keys: vec![key(name, "red")], ..settings() }.check().is_err(), "{name}");
    }
    let nowhere = Settings { mounts: mount("nobody", MountSettings::default()), ..settings() };
    assert!(nowhere.check().is_err());
}
