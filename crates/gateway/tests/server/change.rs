//! Replacement of settings and agents at run time, during calls.

use std::num::NonZeroU32;
use std::sync::Arc;

use gateway::Settings;
use gateway::settings::{AuthMode, MountSettings, RateLimit};
use model::Visibility;
use model::ports::agent::Agent;
use serde_json::{Value, json};

use testkit::{As, Running, key, saying, settings, start};

fn agents(running: &Running, names: &[&str]) -> Vec<Arc<dyn Agent>> {
    let all = running.serving.now().engine().agents();
    all.into_iter().filter(|agent| names.contains(&&*agent.profile().name)).collect()
}

async fn opened(running: &Running, agent: &str, caller: &str) -> String {
    let sent = running.rpc(agent, "SendMessage", &saying("hi")).caller(caller).send().await.unwrap();
    let body: Value = sent.json().await.unwrap();
    body["result"]["task"]["id"].as_str().unwrap_or_else(|| panic!("{body}")).to_owned()
}

#[tokio::test]
async fn an_agent_that_is_gone_is_not_there_but_its_tasks_can_be_read() {
    let own = MountSettings {
        visibility: Some(Visibility::Owner),
        door: Some(AuthMode::Required),
        ..MountSettings::default()
    };
    let first = Settings {
        keys: vec![key("ann", "red"), key("bob", "red")],
        mounts: vec![("scripted".into(), own)],
        ..settings()
    };
    let running = start(first.clone()).await;
    let id = opened(&running, "scripted", "ann").await;
    let get = async |caller: Option<&str>| {
        let request = running.rpc("scripted", "GetTask", &json!({ "id": id }));
        let request = if let Some(caller) = caller { request.caller(caller) } else { request };
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.json::<Value>().await.unwrap())
    };
    assert_eq!(get(Some("ann")).await.1["result"]["id"], id);

    let only = Settings { agents: vec!["echo".into()], mounts: Vec::new(), ..first.clone() };
    running.serving.change(only, agents(&running, &["echo"])).unwrap();
    assert_eq!(get(Some("ann")).await.1["result"]["id"], id, "what was done can be read");
    assert_eq!(get(Some("bob")).await.1["error"]["code"], -32001, "by whom it could be read before");
    assert_eq!(get(None).await.0, 401, "and at the door it had");
    let path = "/a2a/scripted";
    for method in ["SendMessage", "SendStreamingMessage"] {
        let refused = running.rpc("scripted", method, &saying("hi")).caller("ann").send().await.unwrap();
        let unknown = running.rpc("nobody", method, &saying("hi")).caller("ann").send().await.unwrap();
        assert_eq!((refused.status().as_u16(), unknown.status().as_u16()), (404, 404));
        let (refused, unknown) = (refused.text().await.unwrap(), unknown.text().await.unwrap());
        assert_eq!(refused, unknown.replace("nobody", "scripted"), "as an agent that never was");
    }
    let rest = running.post(&format!("{path}/message:send"), &saying("hi")).header("a2a-version", "1.0");
    assert_eq!(rest.caller("ann").send().await.unwrap().status(), 404);
    for card in ["/.well-known/agent-card.json", "/extendedAgentCard"] {
        let card = running.get(&format!("{path}{card}")).header("a2a-version", "1.0").caller("ann");
        assert!(card.send().await.unwrap().status().is_client_error());
    }
    let listed: Value = running.get("/agents").send().await.unwrap().json().await.unwrap();
    assert_eq!(listed["agents"].as_array().unwrap().len(), 1, "{listed}");

    // Back again, with its own mount.
    let all = agents::BUILTIN.iter().map(|builtin| (builtin.build)(&agents::BuiltinSettings::default())).collect();
    running.serving.change(first, all).unwrap();
    assert_ne!(opened(&running, "scripted", "ann").await, id);
    assert_eq!(get(Some("bob")).await.1["error"]["code"], -32001);
}

#[tokio::test]
async fn what_cannot_be_used_changes_nothing() {
    let running = start(settings()).await;
    let before = running.serving.now();
    let bad = Settings { default_agent: "nobody".into(), ..settings() };
    assert!(running.serving.change(bad, Vec::new()).is_err());
    assert!(Arc::ptr_eq(&before, &running.serving.now()));
    assert_eq!(running.rpc("echo", "SendMessage", &saying("hi")).send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn limits_that_stay_the_same_stay_used_up_and_others_begin_anew() {
    let most = |n: u32| {
        let n = NonZeroU32::new(n).unwrap();
        Some(RateLimit { per_minute: NonZeroU32::MIN, burst: n })
    };
    let mut asked = Settings { keys: vec![key("ann", "red")], ..settings() };
    asked.throttle.per_caller = most(2);
    asked.throttle.daily_calls = Some(4);
    let running = start(asked.clone()).await;
    let call =
        async || running.rpc("echo", "ListTasks", &json!({})).caller("ann").send().await.unwrap().status().as_u16();
    assert_eq!((call().await, call().await, call().await), (200, 200, 429));
    asked.cors_loopback = true;
    let change = |settings: &Settings| {
        running.serving.change(settings.clone(), running.serving.now().engine().agents()).unwrap();
    };
    change(&asked);
    assert_eq!(call().await, 429, "nobody gets a new burst because of something else");
    asked.throttle.per_caller = most(1);
    change(&asked);
    assert_eq!((call().await, call().await), (200, 429));
    asked.throttle.per_caller = None;
    change(&asked);
    assert_eq!((call().await, call().await), (200, 429), "the day has four");
    asked.throttle.daily_calls = Some(5);
    change(&asked);
    assert_eq!((call().await, call().await), (200, 429), "and now five");
    asked.throttle.daily_calls = None;
    change(&asked);
    assert_eq!(call().await, 200);
}

#[tokio::test]
async fn keys_of_the_config_change_with_it_and_those_of_operators_stay() {
    let running = start(Settings { auth_required: true, keys: vec![key("ann", "red")], ..settings() }).await;
    let made = model::AccessKey {
        id: "made".into(),
        name: "joe".into(),
        tenant: "red".into(),
        scopes: Vec::new(),
        hash: gateway::auth::hash("key-of-joe"),
        prefix: "made".into(),
        created_at: model::Time(0),
        expires_at: None,
        revoked_at: None,
    };
    running.serving.now().callers().take(&made);
    let call = async |caller: &str| {
        running.rpc("echo", "ListTasks", &json!({})).caller(caller).send().await.unwrap().status().as_u16()
    };
    assert_eq!((call("ann").await, call("joe").await, call("bob").await), (200, 200, 401));
    let before = running.serving.now();
    let next = Settings { auth_required: true, keys: vec![key("bob", "red")], ..settings() };
    running.serving.change(next, before.engine().agents()).unwrap();
    assert_eq!((call("ann").await, call("joe").await, call("bob").await), (401, 200, 200));
    // Revoked at a version that is no longer in force, like a command that arrived at that moment.
    before.callers().take(&model::AccessKey { revoked_at: Some(model::Time(1)), ..made });
    assert_eq!(call("joe").await, 401);
}
