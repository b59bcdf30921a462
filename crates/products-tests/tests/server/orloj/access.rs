//! Who may call a system, find its tasks and change what is served: at Orloj's endpoints, and at the agent's own address.

use gateway::settings::{Effect, Issuer, KeySource, MountSettings, Rule};
use model::Visibility;
use serde_json::{Value, json};
use systems::resources::ResourceRegistry;

use super::{answer, ask, body, of, open, refusal, saying, state, token};
use testkit::{As, key, list};

#[tokio::test]
async fn a_system_is_for_those_whose_token_is_bound_to_it() {
    let running = open(|settings, _| {
        settings.keys =
            vec![key("admin", "default"), token("reader", &["tasks:read"]), token("far", &["system:guarded"])];
    })
    .await;
    let send = |path: String, by: Option<&'static str>| {
        let request = running.post(&path, &body("tasks/send", &saying("t", "hello")));
        let request = match by {
            Some(name) => request.caller(name),
            None => request,
        };
        async move { request.send().await.unwrap() }
    };
    let refused = (-32003, "target AgentSystem is not available");
    for (system, by, allowed) in [
        ("sum", None, true),
        ("guarded", None, false),
        ("guarded", Some("bound"), true),
        ("guarded", Some("far"), true),
        ("guarded", Some("admin"), true),
        ("guarded", Some("other"), false),
        ("guarded", Some("reader"), false),
        ("sum", Some("admin"), true),
        ("sum", Some("reader"), true),
        ("sum", Some("other"), false),
    ] {
        let answer = send(of(system), by).await;
        assert_eq!(answer.status(), 200);
        let answer: Value = answer.json().await.unwrap();
        match allowed {
            true => assert_eq!(state(&answer), "completed", "{system} {by:?}"),
            false => assert_eq!(refusal(&answer), refused, "{system} {by:?}"),
        }
        let stream = body("tasks/sendSubscribe", &saying("t", "hello"));
        let stream = running.post(&of(system), &stream);
        let stream = match by {
            Some(name) => stream.caller(name),
            None => stream,
        };
        let text = stream.send().await.unwrap().text().await.unwrap();
        assert_eq!(text.starts_with("event: status"), allowed, "{system} {by:?}: {text}");
    }
    // All callers of a system find its tasks; for other callers they do not exist.
    for (method, by, found) in [
        ("tasks/get", Some("bound"), true),
        ("tasks/get", Some("far"), true),
        ("tasks/get", Some("other"), false),
        ("tasks/get", None, false),
        ("tasks/cancel", Some("other"), false),
        ("tasks/cancel", None, false),
    ] {
        for path in [of("guarded"), "/orloj/a2a?namespace=play".to_owned()] {
            let request = running.post(&path, &body(method, &json!({ "id": "t" })));
            let request = match by {
                Some(name) => request.caller(name),
                None => request,
            };
            let got = answer(request).await;
            match found {
                true => assert_eq!(state(&got), "completed", "{method} {by:?}"),
                false => assert_eq!(refusal(&got), (-32001, "task not found"), "{method} {by:?} {path}"),
            }
        }
    }
    // An invalid token is refused even where none is required.
    for path in [of("sum"), of("guarded"), "/orloj/a2a".to_owned(), "/a2a".to_owned()] {
        let answer = send(path, Some("nobody")).await;
        assert_eq!(answer.status(), 401);
        assert!(answer.headers().contains_key("www-authenticate"));
        let answer: Value = answer.json().await.unwrap();
        let (code, message) = refusal(&answer);
        assert_eq!(code, -32600, "no statement about a system: {answer}");
        assert!(message.contains("Authorization: Bearer") || message.contains("key"), "{message}");
    }
    // A method of 1.0 at the same address is refused in 1.0.
    let hello = json!({ "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "hello" }] });
    let newer = running.post(&of("sum"), &body("SendMessage", &json!({ "message": hello }))).caller("nobody");
    let newer = newer.send().await.unwrap();
    assert_eq!((newer.status().as_u16(), newer.headers()["x-a2a-dialect"].to_str().unwrap()), (401, "a2a_v1"));
    let newer: Value = newer.json().await.unwrap();
    assert_eq!(newer["error"]["data"][0]["reason"], "UNAUTHENTICATED", "{newer}");
    // At the shared address a request with such a token is answered here, whatever its method.
    for (method, params) in [("tasks/get", json!({ "id": "unknown" })), ("tasks/cancel", json!({ "id": "unknown" }))] {
        let got = answer(running.post("/a2a", &body(method, &params)).caller("bound")).await;
        assert_eq!(refusal(&got), (-32001, "task not found"));
        assert_eq!(got["error"]["data"], json!({ "task_id": "unknown" }));
    }
    // A token of these endpoints is good for nothing else.
    let elsewhere = running.rpc("echo", "GetTask", &json!({ "id": "x" })).caller("bound").send().await.unwrap();
    assert_eq!(elsewhere.status(), 401);
}

/// `auth: bearer` closes a system at every address, in every generation.
#[tokio::test]
async fn a_caller_without_a_credential_finds_nothing_of_a_closed_system_at_the_agents_own_address() {
    let running = open(|settings, _| settings.keys = vec![key("ann", "default")]).await;
    let sent = running.post(&of("guarded"), &body("tasks/send", &saying("secret", "secret words"))).caller("bound");
    assert_eq!(state(&answer(sent).await), "completed");
    let listed = running.rpc("guarded", "ListTasks", &json!({})).caller("ann").send().await.unwrap();
    let listed: Value = listed.json().await.unwrap();
    let id = listed["result"]["tasks"][0]["id"].as_str().unwrap_or_else(|| panic!("{listed}")).to_owned();
    let message =
        json!({ "messageId": "m", "role": "user", "kind": "message", "parts": [{ "kind": "text", "text": "x" }] });
    let newer = json!({ "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "x" }] });
    let calls = [
        ("ListTasks", json!({})),
        ("GetTask", json!({ "id": id })),
        ("CancelTask", json!({ "id": id })),
        ("SubscribeToTask", json!({ "id": id })),
        ("SendMessage", json!({ "message": newer })),
        ("SendStreamingMessage", json!({ "message": newer })),
        ("message/send", json!({ "message": message })),
        ("tasks/get", json!({ "id": id })),
        ("tasks/resubscribe", json!({ "id": id })),
        ("tasks/send", saying("t", "x")),
    ];
    let mut requests: Vec<_> =
        calls.iter().map(|(method, params)| running.post("/a2a/guarded", &body(method, params))).collect();
    for path in ["tasks".to_owned(), format!("tasks/{id}"), "v1/tasks".to_owned(), format!("v1/tasks/{id}")] {
        requests.push(running.get(&format!("/a2a/guarded/{path}")));
    }
    requests.push(running.post("/a2a/guarded/message:send", &json!({ "message": newer })));
    for request in requests {
        let shown = format!("{request:?}");
        let answer = request.send().await.unwrap();
        let (status, text) = (answer.status(), answer.text().await.unwrap());
        assert_eq!(status, 401, "{shown}: {text}");
        assert!(!text.contains("secret words") && text.contains("/orloj/v1/agent-systems/guarded/a2a"), "{text}");
    }
    // Nor at the addresses of other agents, and the card tells that a credential is required.
    for agent in ["echo", "sum", "play"] {
        let other = running.rpc(agent, "GetTask", &json!({ "id": id })).send().await.unwrap();
        assert_eq!(refusal(&other.json().await.unwrap()).0, -32001, "{agent}");
    }
    let card = running.get("/a2a/guarded/.well-known/agent-card.json").send().await.unwrap();
    let card: Value = card.json().await.unwrap();
    assert!(card["securityRequirements"].as_array().is_some_and(|all| !all.is_empty()), "{card}");
    // A system that is public stays open, and a mount that says otherwise counts.
    let open_one = running.rpc("sum", "ListTasks", &json!({})).send().await.unwrap();
    assert_eq!(open_one.status(), 200);
    let stated = open(|settings, _| {
        let mount = MountSettings { door: Some(gateway::settings::AuthMode::Optional), ..MountSettings::default() };
        settings.mounts = vec![("guarded".into(), mount)];
    })
    .await;
    assert_eq!(stated.rpc("guarded", "ListTasks", &json!({})).send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn without_anybody_who_could_have_a_token_everything_is_open() {
    let running = open(|_, orloj| orloj.tokens.clear()).await;
    assert_eq!(state(&ask(&running, &of("guarded"), "tasks/send", &saying("t", "hello")).await), "completed");
    assert_eq!(running.rpc("guarded", "ListTasks", &json!({})).send().await.unwrap().status(), 200);
    let required = open(|settings, orloj| {
        orloj.tokens.clear();
        settings.auth_required = true;
    })
    .await;
    assert_eq!(refusal(&ask(&required, &of("guarded"), "tasks/send", &saying("t", "hello")).await).0, -32003);
    assert_eq!(state(&ask(&required, &of("sum"), "tasks/send", &saying("t", "hello")).await), "completed");
}

#[tokio::test]
async fn visibility_and_policy_hold_here_too() {
    let running = open(|settings, _| {
        let mount = |visibility| MountSettings { visibility: Some(visibility), ..MountSettings::default() };
        settings.mounts =
            vec![("sum".into(), mount(Visibility::Systems)), ("guarded".into(), mount(Visibility::Owner))];
        settings.keys = vec![key("ann", "default"), key("bob", "default")];
        let nothing = Rule { agents: list(&["play"]), methods: list(&["write"]), ..Rule::new(Effect::Deny) };
        settings.policy = Some(vec![Rule::new(Effect::Allow), nothing]);
    })
    .await;
    // A public system, whose tasks all of its callers see.
    assert_eq!(state(&ask(&running, &of("sum"), "tasks/send", &saying("t", "hello")).await), "completed");
    assert_eq!(state(&ask(&running, &of("sum"), "tasks/get", &json!({ "id": "t" })).await), "completed");
    // Where callers see their own tasks only, ids are per caller, too.
    for (who, text) in [("ann", "from ann"), ("bob", "from bob")] {
        let sent = answer(running.post(&of("guarded"), &body("tasks/send", &saying("t", text))).caller(who)).await;
        assert_eq!(state(&sent), "completed");
    }
    let got = answer(running.post(&of("guarded"), &body("tasks/get", &json!({ "id": "t" }))).caller("ann")).await;
    assert_eq!(got["result"]["artifacts"][0]["parts"][0]["text"], "from ann", "{got}");
    let denied = ask(&running, &of("play"), "tasks/send", &saying("t", "hello")).await;
    assert_eq!(refusal(&denied), (-32003, "target AgentSystem is not available"));
}

/// Access to changes, without a reloader that makes them: a caller with access is refused with "try again".
#[tokio::test]
async fn only_a_credential_that_is_an_admins_changes_what_is_served() {
    let (issuer, secret) = ("https://idp.example", "a secret that is shared with the issuer");
    let (shelf, _) = ResourceRegistry::new();
    let running = open(|settings, orloj| {
        let keys = KeySource::Secret(secret.to_owned());
        settings.issuers =
            vec![Issuer { tenant: Some("default".into()), ..Issuer::new(issuer, vec!["rialto".to_owned()], keys) }];
        let scoped = |name: &str, scope: &str| token(name, &[scope]);
        settings.keys = vec![key("plain", "default"), scoped("chief", "admin"), scoped("sender", "tasks:write")];
        orloj.resources = Some(shelf);
    })
    .await;
    let jwt = |scope: Option<&str>| {
        let mut claims = json!({ "iss": issuer, "aud": "rialto", "sub": "ann", "exp": 4_000_000_000_u64 });
        if let Some(scope) = scope {
            claims["scope"] = json!(scope);
        }
        let key = jsonwebtoken::EncodingKey::from_secret(secret.as_bytes());
        jsonwebtoken::encode(&jsonwebtoken::Header::default(), &claims, &key).unwrap()
    };
    let document = json!({ "metadata": { "name": "a" }, "spec": { "agents": ["echo"] } });
    for (who, credential, expected) in [
        ("nobody", None, 401),
        ("a key without scopes", Some("key-of-plain".to_owned()), 503),
        ("a key of an admin", Some("key-of-chief".to_owned()), 503),
        ("another key", Some("key-of-sender".to_owned()), 403),
        ("a token bound to systems", Some("key-of-bound".to_owned()), 403),
        ("an issuer's token that says nothing", Some(jwt(None)), 403),
        ("an issuer's token of a reader", Some(jwt(Some("reader"))), 403),
        ("an issuer's token of an admin", Some(jwt(Some("admin"))), 503),
    ] {
        let mut request = running.post("/v1/agent-systems", &document);
        if let Some(credential) = credential {
            request = request.bearer_auth(credential);
        }
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), expected, "{who}: {}", answer.text().await.unwrap());
    }
}
