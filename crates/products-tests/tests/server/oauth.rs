//! Tokens for workspaces over their socket: every grant, what is refused, what ends what.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use model::RecordQuery;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use shop::ShopService;

use crate::aly::{ask, code, key_of, open};
use testkit::Running;

const BACK: &str = "https://app.example/back?kept=1";
const VERIFIER: &str = "a-verifier-that-is-long-enough-to-be-one-0123456789";

pub(crate) fn challenge() -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(VERIFIER))
}

async fn plain() -> Running {
    open(|_, _| {}).await
}

pub(crate) async fn register(running: &Running, said: Value, key: Option<&str>) -> (u16, Value) {
    let request = running.post("/oauth/register", &said);
    let request = if let Some(key) = key { request.bearer_auth(key) } else { request };
    let answer = request.send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

/// The id of a public client that asks people.
pub(crate) async fn public(running: &Running) -> String {
    let said = json!({
        "client_name": "An <app>", "redirect_uris": [BACK], "token_endpoint_auth_method": "none",
        "grant_types": ["authorization_code", "refresh_token"],
    });
    let (status, client) = register(running, said, None).await;
    assert_eq!((status, client.get("client_secret")), (201, None), "{client}");
    client["client_id"].as_str().unwrap().to_owned()
}

pub(crate) async fn post(running: &Running, path: &str, form: &[(&str, &str)]) -> (u16, Value) {
    let answer = send(running, path, form, None).await;
    assert_eq!(answer.headers()["cache-control"], "no-store");
    (answer.status().as_u16(), answer.json().await.unwrap())
}

async fn send(running: &Running, path: &str, form: &[(&str, &str)], cookie: Option<&str>) -> reqwest::Response {
    let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
    let mut request =
        http.post(running.url(path)).header("content-type", "application/x-www-form-urlencoded").body(body);
    if let Some(cookie) = cookie {
        request = request.header("cookie", cookie);
    }
    request.send().await.unwrap()
}

pub(crate) fn asked<'a>(client: &'a str, challenge: &'a str) -> Vec<(&'a str, &'a str)> {
    vec![
        ("client_id", client),
        ("redirect_uri", BACK),
        ("response_type", "code"),
        ("scope", "read:orders write:orders"),
        ("state", "a&b"),
        ("code_challenge", challenge),
        ("code_challenge_method", "S256"),
    ]
}

pub(crate) fn query(fields: &[(&str, &str)]) -> String {
    let encoded = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    format!("/oauth/authorize?{encoded}")
}

/// Where a browser is sent, and with what.
fn sent_to(answer: &reqwest::Response) -> (String, HashMap<String, String>) {
    assert_eq!(answer.status(), 303, "{answer:?}");
    let to = url::Url::parse(answer.headers()["location"].to_str().unwrap()).unwrap();
    let fields = to.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned())).collect();
    (format!("{}://{}{}", to.scheme(), to.host_str().unwrap_or_default(), to.path()), fields)
}

/// The page, as a browser has it: its cookie and the field that goes with it.
async fn page(running: &Running, fields: &[(&str, &str)]) -> (String, String, String) {
    let answer = running.get(&query(fields)).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let policy = answer.headers()["content-security-policy"].to_str().unwrap().to_owned();
    assert!(policy.contains("frame-ancestors 'none'") && policy.contains("default-src 'none'"), "{policy}");
    assert_eq!(
        (&answer.headers()["cache-control"], &answer.headers()["x-frame-options"]),
        (&"no-store".parse().unwrap(), &"DENY".parse().unwrap())
    );
    let cookie = answer.headers()["set-cookie"].to_str().unwrap().to_owned();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let csrf = cookie.split_once('=').unwrap().1.to_owned();
    let html = answer.text().await.unwrap();
    assert!(html.contains(&csrf), "{html}");
    (cookie, csrf, html)
}

/// A person says yes; the code.
pub(crate) async fn agreed(running: &Running, client: &str, key: &str) -> String {
    let challenge = challenge();
    let mut fields = asked(client, &challenge);
    let (cookie, csrf, _) = page(running, &fields).await;
    fields.extend([("csrf", &*csrf), ("decision", "allow"), ("key", key)]);
    let answer = send(running, "/oauth/authorize", &fields, Some(&cookie)).await;
    let (to, back) = sent_to(&answer);
    assert_eq!((&*to, &*back["state"], &*back["kept"]), ("https://app.example/back", "a&b", "1"));
    assert_eq!(back["iss"], running.url(""));
    back["code"].clone()
}

pub(crate) async fn exchange(running: &Running, client: &str, code: &str) -> (u16, Value) {
    let form = [
        ("grant_type", "authorization_code"),
        ("client_id", client),
        ("code", code),
        ("redirect_uri", BACK),
        ("code_verifier", VERIFIER),
    ];
    post(running, "/oauth/token", &form).await
}

pub(crate) async fn renew(running: &Running, client: &str, refresh: &Value) -> (u16, Value) {
    let form = [("grant_type", "refresh_token"), ("client_id", client), ("refresh_token", refresh.as_str().unwrap())];
    post(running, "/oauth/token", &form).await
}

/// Whether a token is taken.
pub(crate) async fn is_good(running: &Running, token: &Value) -> bool {
    let answer = ask(running, token.as_str(), "ListTasks", &json!({})).await;
    if answer.get("result").is_none() {
        assert_eq!(code(&answer), -32000);
    }
    answer.get("result").is_some()
}

#[tokio::test]
async fn the_documents_tell_where_everything_is() {
    let running = plain().await;
    let base = running.url("");
    for path in [
        "/.well-known/oauth-authorization-server",
        "/.well-known/oauth-authorization-server/aly",
        "/aly/.well-known/oauth-authorization-server",
    ] {
        let document: Value = running.get(path).send().await.unwrap().json().await.unwrap();
        assert_eq!(
            (&document["issuer"], &document["token_endpoint"]),
            (&json!(base), &json!(format!("{base}/oauth/token")))
        );
        assert_eq!(document["code_challenge_methods_supported"], json!(["S256"]));
        assert_eq!(
            document["grant_types_supported"],
            json!(["authorization_code", "refresh_token", "client_credentials"])
        );
        for name in ["authorization", "token", "revocation", "introspection", "registration"] {
            let at = document[format!("{name}_endpoint")].as_str().unwrap().strip_prefix(&base).unwrap().to_owned();
            let status = running.get(&at).send().await.unwrap().status().as_u16();
            assert!([400, 405].contains(&status), "{at}: {status}");
        }
    }
    for path in ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/api/a2a"] {
        let document: Value = running.get(path).send().await.unwrap().json().await.unwrap();
        assert_eq!(
            (&document["resource"], &document["authorization_servers"]),
            (&json!(format!("{base}/api/a2a")), &json!([base]))
        );
        assert_eq!(document["scopes_supported"].as_array().unwrap().len(), 12);
    }
}

#[tokio::test]
async fn a_person_agrees_and_the_client_gets_tokens_once() {
    let running = plain().await;
    let key = key_of(&running, "acme-ws", &[]).await;
    let client = public(&running).await;
    let challenge = challenge();
    let fields = asked(&client, &challenge);
    let (cookie, csrf, html) = page(&running, &fields).await;
    assert!(html.contains("An &lt;app&gt;") && !html.contains("<app>") && html.contains("write:orders"), "{html}");

    // Consent needs the user's own cookie: a request without it, with another user's, with a wrong key or a token is refused.
    let answer = |cookie: Option<String>, more: Vec<(&'static str, String)>| {
        let fields: Vec<(String, String)> =
            fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let running = &running;
        async move {
            let more = more.into_iter().map(|(name, value)| (name.to_owned(), value));
            let all: Vec<(String, String)> = fields.into_iter().chain(more).collect();
            let all: Vec<(&str, &str)> = all.iter().map(|(name, value)| (&**name, &**value)).collect();
            send(running, "/oauth/authorize", &all, cookie.as_deref()).await
        }
    };
    let yes = |key: &str| vec![("csrf", csrf.clone()), ("decision", "allow".to_owned()), ("key", key.to_owned())];
    for (cookie, key) in [
        (None, &*key),
        (Some("rialto_consent=other".to_owned()), &key),
        (Some(cookie.clone()), "aly_wrong"),
        (Some(cookie.clone()), ""),
        (Some(cookie.clone()), "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ1In0.c2ln"),
    ] {
        let refused = answer(cookie, yes(key)).await;
        assert_eq!((refused.status().as_u16(), refused.headers().get("location")), (403, None), "{key}");
        assert!(!refused.text().await.unwrap().contains(&key[..key.len().min(8)]) || key.is_empty(), "no key is shown");
    }
    let denied = answer(Some(cookie.clone()), vec![("csrf", csrf.clone()), ("decision", "deny".into())]).await;
    assert_eq!(sent_to(&denied).1["error"], "access_denied");

    let code_ = agreed(&running, &client, &key).await;
    let wrong = |change: &'static str, value: &'static str| {
        let (running, client, code) = (&running, &client, &code_);
        async move {
            let mut form = vec![
                ("grant_type", "authorization_code"),
                ("client_id", &**client),
                ("code", &**code),
                ("redirect_uri", BACK),
                ("code_verifier", VERIFIER),
            ];
            form.retain(|(name, _)| *name != change);
            if !value.is_empty() {
                form.push((change, value));
            }
            let (status, refused) = post(running, "/oauth/token", &form).await;
            (status, refused["error"].as_str().unwrap().to_owned())
        }
    };
    assert_eq!(wrong("code_verifier", "").await, (400, "invalid_request".to_owned()), "no verifier");
    assert_eq!(
        wrong("code_verifier", "another-verifier-that-is-long-enough-0123456789").await,
        (400, "invalid_grant".to_owned())
    );
    assert_eq!(wrong("redirect_uri", "https://app.example/else").await, (400, "invalid_grant".to_owned()));
    assert_eq!(wrong("code", "aly_code_other").await, (400, "invalid_grant".to_owned()));
    assert_eq!(wrong("client_id", "client_unknown").await, (401, "invalid_client".to_owned()));
    assert_eq!(wrong("grant_type", "password").await, (400, "unsupported_grant_type".to_owned()));
    let other = public(&running).await;
    assert_eq!(exchange(&running, &other, &code_).await.1["error"], "invalid_grant", "another client's code");

    let (status, tokens) = exchange(&running, &client, &code_).await;
    assert_eq!(
        (status, &tokens["token_type"], &tokens["expires_in"]),
        (200, &json!("Bearer"), &json!(3_600)),
        "{tokens}"
    );
    assert_eq!((&tokens["scope"], &tokens["workspace"]), (&json!("read:orders write:orders"), &json!("acme-ws")));
    assert!(tokens["access_token"].as_str().unwrap().starts_with("aly_oauth_"));
    assert!(is_good(&running, &tokens["access_token"]).await);
    assert!(!is_good(&running, &tokens["refresh_token"]).await, "a refresh token opens nothing");
    // A grant never has more scopes than the credential it was made with.
    let given = answer(Some(cookie), yes(tokens["access_token"].as_str().unwrap())).await;
    assert_eq!(given.status(), 403);

    // Of what is secret only hashes are kept.
    let store = running.serving.now().engine().store().clone();
    let mut kept = 0;
    for kind in ["oauth/grant", "oauth/code"] {
        let query =
            RecordQuery { kind: kind.into(), list: "by end".into(), after: None, skip: 0, limit: 100, count: false };
        for (record, _) in store.records(query).await.unwrap().records {
            kept += 1;
            let text = format!("{} {}", record.key, String::from_utf8_lossy(&record.body));
            for secret in [&tokens["access_token"], &tokens["refresh_token"], &json!(code_)] {
                let secret = secret.as_str().unwrap();
                assert!(!text.contains(secret) && !text.contains(&secret[secret.len() - 40..]), "{text}");
            }
        }
    }
    assert!(kept >= 2);

    // The code again ends everything that came of it.
    assert_eq!(exchange(&running, &client, &code_).await.1["error"], "invalid_grant");
    assert!(!is_good(&running, &tokens["access_token"]).await);
    assert_eq!(renew(&running, &client, &tokens["refresh_token"]).await.1["error"], "invalid_grant");
}

#[tokio::test]
async fn a_refresh_token_is_good_once() {
    let running = plain().await;
    let key = key_of(&running, "acme-ws", &[]).await;
    let client = public(&running).await;
    let tokens = exchange(&running, &client, &agreed(&running, &client, &key).await).await.1;
    let (status, second) = renew(&running, &client, &tokens["refresh_token"]).await;
    assert_eq!((status, &second["scope"]), (200, &tokens["scope"]), "{second}");
    assert_ne!(second["refresh_token"], tokens["refresh_token"]);
    // Less may be asked for, and more may not.
    let narrow = |scope: &'static str, refresh: Value| {
        let (running, client) = (&running, &client);
        async move {
            let refresh = refresh.as_str().unwrap();
            let form = [
                ("grant_type", "refresh_token"),
                ("client_id", &**client),
                ("refresh_token", refresh),
                ("scope", scope),
            ];
            post(running, "/oauth/token", &form).await.1
        }
    };
    assert_eq!(narrow("delete:sites", second["refresh_token"].clone()).await["error"], "invalid_scope");
    assert_eq!(narrow("no:such", second["refresh_token"].clone()).await["error"], "invalid_scope");
    let third = narrow("read:orders", second["refresh_token"].clone()).await;
    assert_eq!(third["scope"], "read:orders", "{third}");
    let cart = json!({ "message": { "messageId": "m", "role": "ROLE_USER", "parts": [{ "data": { "skill": "checkout", "site_slug": "acme" } }] } });
    assert_eq!(code(&ask(&running, third["access_token"].as_str(), "SendMessage", &cart).await), -32003);
    assert!(ask(&running, second["access_token"].as_str(), "SendMessage", &cart).await["result"]["task"].is_object());
    // Another client cannot use it; the first one, again, ends all.
    let other = public(&running).await;
    assert_eq!(renew(&running, &other, &third["refresh_token"]).await.1["error"], "invalid_grant");
    assert!(is_good(&running, &third["access_token"]).await);
    assert_eq!(renew(&running, &client, &tokens["refresh_token"]).await.1["error"], "invalid_grant");
    for token in [&tokens, &second, &third] {
        assert!(!is_good(&running, &token["access_token"]).await);
    }
    assert_eq!(renew(&running, &client, &third["refresh_token"]).await.1["error"], "invalid_grant");
}

#[tokio::test]
async fn two_who_use_a_refresh_token_together_do_not_both_get_one() {
    let running = plain().await;
    let key = key_of(&running, "acme-ws", &[]).await;
    let client = public(&running).await;
    let tokens = exchange(&running, &client, &agreed(&running, &client, &key).await).await.1;
    let both = futures_util::future::join_all((0..4).map(|_| renew(&running, &client, &tokens["refresh_token"]))).await;
    let good: Vec<&Value> = both.iter().filter(|(status, _)| *status == 200).map(|(_, answer)| answer).collect();
    assert!(good.len() <= 1, "{both:?}");
    for answer in good {
        assert!(!is_good(&running, &answer["access_token"]).await, "a second use ends it");
    }
}

#[tokio::test]
async fn a_workspaces_client_gets_tokens_for_itself() {
    let running = plain().await;
    let key = key_of(&running, "acme-ws", &["read:orders", "write:orders", "read:sites"]).await;
    let said = json!({ "client_name": "A job", "grant_types": ["client_credentials"], "scope": "read:orders write:orders delete:sites" });
    for (said, by) in [
        (said.clone(), None),
        (json!({ "grant_types": ["client_credentials"], "token_endpoint_auth_method": "none" }), Some(&*key)),
        (json!({ "grant_types": ["password"] }), Some(&key)),
        (json!({ "grant_types": ["client_credentials"], "scope": "no:such" }), Some(&key)),
        (json!({ "grant_types": ["client_credentials"], "scope": "read:media" }), Some(&key)),
        (json!({ "redirect_uris": [BACK], "response_types": ["token"] }), None),
        (json!([]), None),
    ] {
        let (status, refused) = register(&running, said.clone(), by).await;
        assert_eq!((status, &refused["error"]), (400, &json!("invalid_client_metadata")), "{said}: {refused}");
    }
    assert_eq!(register(&running, said.clone(), Some("aly_wrong")).await.0, 401);
    let (status, client) = register(&running, said, Some(&key)).await;
    assert_eq!((status, &client["scope"]), (201, &json!("read:orders write:orders")), "no more than the key: {client}");
    let (id, secret) = (client["client_id"].as_str().unwrap(), client["client_secret"].as_str().unwrap());
    let own = ("grant_type", "client_credentials");
    let (status, token) = post(&running, "/oauth/token", &[own, ("client_id", id), ("client_secret", secret)]).await;
    assert_eq!((status, token.get("refresh_token"), &token["workspace"]), (200, None, &json!("acme-ws")), "{token}");
    assert!(is_good(&running, &token["access_token"]).await);
    let basic = reqwest::Client::new()
        .post(running.url("/aly/oauth/token"))
        .basic_auth(id, Some(secret))
        .header("content-type", "application/x-www-form-urlencoded")
        .body("grant_type=client_credentials&scope=read%3Aorders");
    let answer: Value = basic.send().await.unwrap().json().await.unwrap();
    assert_eq!(answer["scope"], "read:orders", "{answer}");
    for (form, status, error) in [
        (vec![own, ("client_id", id), ("client_secret", "wrong")], 401, "invalid_client"),
        (vec![own, ("client_id", id)], 401, "invalid_client"),
        (vec![own], 401, "invalid_client"),
        (vec![own, ("client_id", id), ("client_secret", secret), ("scope", "read:sites")], 400, "invalid_scope"),
        (vec![own, own, ("client_id", id)], 400, "invalid_request"),
        (vec![("client_id", id), ("client_secret", secret)], 400, "invalid_request"),
        (
            vec![("grant_type", "authorization_code"), ("client_id", id), ("client_secret", secret)],
            400,
            "unauthorized_client",
        ),
    ] {
        let (was, refused) = post(&running, "/oauth/token", &form).await;
        assert_eq!((was, &refused["error"]), (status, &json!(error)), "{form:?}");
    }
    let stranger = public(&running).await;
    let (status, refused) = post(&running, "/oauth/token", &[own, ("client_id", &stranger)]).await;
    assert_eq!((status, &refused["error"]), (400, &json!("unauthorized_client")));
    let answer = running.post("/oauth/token", &json!({})).send().await.unwrap();
    assert_eq!(answer.status(), 400, "a form is sent");

    // The scopes of a token are shown to the client itself and to its workspace.
    let token = token["access_token"].as_str().unwrap();
    let (_, facts) =
        post(&running, "/oauth/introspect", &[("token", token), ("client_id", id), ("client_secret", secret)]).await;
    assert_eq!(
        (&facts["active"], &facts["scope"], &facts["client_id"]),
        (&json!(true), &json!("read:orders write:orders"), &json!(id))
    );
    let by_key = |key: String| {
        let http = reqwest::Client::new();
        let body = format!("token={token}");
        let request = http.post(running.url("/oauth/introspect")).bearer_auth(key);
        async move {
            let request = request.header("content-type", "application/x-www-form-urlencoded").body(body);
            request.send().await.unwrap().json::<Value>().await.unwrap()
        }
    };
    assert_eq!(by_key(key).await["active"], true);
    assert_eq!(by_key(key_of(&running, "other-ws", &[]).await).await, json!({ "active": false }));
    assert_eq!(by_key("aly_wrong".into()).await["error"], "invalid_client");
    let refused = post(&running, "/oauth/introspect", &[("token", token), ("client_id", &stranger)]).await;
    assert_eq!((refused.0, &refused.1["error"]), (401, &json!("invalid_client")));

    // It takes its token back.
    let form = [("token", token), ("client_id", id), ("client_secret", secret)];
    assert_eq!(post(&running, "/oauth/revoke", &form).await.0, 200);
    assert!(!is_good(&running, &json!(token)).await);
    assert_eq!(post(&running, "/oauth/introspect", &form).await.1, json!({ "active": false }));
}

#[tokio::test]
async fn what_is_revoked_is_over() {
    let running = plain().await;
    let key = key_of(&running, "acme-ws", &[]).await;
    let (client, other) = (public(&running).await, public(&running).await);
    let tokens = exchange(&running, &client, &agreed(&running, &client, &key).await).await.1;
    let text = |name: &str| tokens[name].as_str().unwrap();
    let revoke = async |token: &str, client: &str| {
        let (status, _) = post(&running, "/oauth/revoke", &[("token", token), ("client_id", client)]).await;
        assert_eq!(status, 200, "whatever becomes of it");
    };
    for (token, who) in [(text("access_token"), &other), (text("refresh_token"), &other), ("nonsense", &client)] {
        revoke(token, who).await;
        assert!(is_good(&running, &tokens["access_token"]).await);
    }
    revoke(text("access_token"), &client).await;
    assert!(!is_good(&running, &tokens["access_token"]).await);
    let (status, more) = renew(&running, &client, &tokens["refresh_token"]).await;
    assert_eq!(status, 200, "the grant itself goes on");
    revoke(more["refresh_token"].as_str().unwrap(), &client).await;
    assert!(!is_good(&running, &more["access_token"]).await);
    assert_eq!(renew(&running, &client, &more["refresh_token"]).await.1["error"], "invalid_grant");
    // A key, too.
    let server = running.serving.now();
    let oauth = server.product::<ShopService>().unwrap().oauth();
    assert!(is_good(&running, &json!(key)).await);
    let id = oauth.keys("acme-ws").await.unwrap()[0].id.clone();
    assert!(oauth.revoke_key("other-ws", &id).await.unwrap().is_none());
    assert!(oauth.revoke_key("acme-ws", &id).await.unwrap().is_some());
    assert!(!is_good(&running, &json!(key)).await);
}

#[tokio::test]
async fn what_has_ended_is_not_good_any_more() {
    let running = open(|_, aly| (aly.oauth.access_s, aly.oauth.refresh_s) = (0, 0)).await;
    let key = key_of(&running, "acme-ws", &[]).await;
    let client = public(&running).await;
    let tokens = exchange(&running, &client, &agreed(&running, &client, &key).await).await.1;
    assert!(!is_good(&running, &tokens["access_token"]).await);
    assert_eq!(renew(&running, &client, &tokens["refresh_token"]).await.1["error"], "invalid_grant");
    let running = open(|_, aly| aly.oauth.code_s = 0).await;
    let key = key_of(&running, "acme-ws", &[]).await;
    let client = public(&running).await;
    let late = agreed(&running, &client, &key).await;
    assert_eq!(exchange(&running, &client, &late).await.1["error"], "invalid_grant");
}

#[tokio::test]
async fn a_key_gives_no_more_than_it_has() {
    let running = plain().await;
    let reads = key_of(&running, "acme-ws", &["read:orders"]).await;
    let client = public(&running).await;
    let tokens = exchange(&running, &client, &agreed(&running, &client, &reads).await).await.1;
    assert_eq!(tokens["scope"], "read:orders");
    let tokens = exchange(&running, &client, &agreed(&running, &client, "key-of-house").await).await.1;
    assert_eq!((&tokens["scope"], &tokens["workspace"]), (&json!("read:orders write:orders"), &json!("acme-ws")));
    // One that has nothing of it gives nothing.
    let media = key_of(&running, "acme-ws", &["read:media"]).await;
    let challenge = challenge();
    let mut fields = asked(&client, &challenge);
    let (cookie, csrf, _) = page(&running, &fields).await;
    fields.extend([("csrf", &*csrf), ("decision", "allow"), ("key", &media)]);
    assert_eq!(send(&running, "/oauth/authorize", &fields, Some(&cookie)).await.status(), 403);
    // A workspace's own client is for that workspace.
    let said = json!({ "redirect_uris": [BACK], "token_endpoint_auth_method": "none" });
    let (_, own) = register(&running, said, Some(&reads)).await;
    let foreign = key_of(&running, "other-ws", &[]).await;
    let fields = asked(own["client_id"].as_str().unwrap(), &challenge);
    let mut fields: Vec<_> = fields.into_iter().filter(|(name, _)| *name != "scope").collect();
    let (cookie, csrf, _) = page(&running, &fields).await;
    fields.extend([("csrf", &*csrf), ("decision", "allow"), ("key", &foreign)]);
    assert_eq!(send(&running, "/oauth/authorize", &fields, Some(&cookie)).await.status(), 403);
}

#[tokio::test]
async fn people_are_sent_back_only_to_where_a_client_said() {
    let running = plain().await;
    for (uri, taken) in [
        ("https://app.example/back", true),
        ("http://127.0.0.1/back", true),
        ("http://localhost:5000/back", true),
        ("com.example.app:/back", true),
        ("http://app.example/back", false),
        ("https://app.example/#x", false),
        ("javascript:alert(1)", false),
        ("data:text/html,x", false),
        ("/back", false),
    ] {
        let said = json!({ "redirect_uris": [uri], "token_endpoint_auth_method": "none" });
        let (status, answer) = register(&running, said, None).await;
        assert_eq!(status == 201, taken, "{uri}: {answer}");
        if !taken {
            assert_eq!(answer["error"], "invalid_redirect_uri");
        }
    }
    let said = json!({ "redirect_uris": ["http://127.0.0.1/back", BACK], "token_endpoint_auth_method": "none" });
    let client = register(&running, said, None).await.1["client_id"].as_str().unwrap().to_owned();
    let challenge = challenge();
    let with = |changes: &[(&'static str, &'static str)]| {
        let mut fields = asked(&client, &challenge);
        fields.retain(|(name, _)| !changes.iter().any(|(changed, _)| changed == name));
        fields.extend(changes.iter().filter(|(_, value)| !value.is_empty()));
        query(&fields)
    };
    let status = async |path: String| {
        let answer = running.get(&path).send().await.unwrap();
        assert!(answer.headers().get("location").is_none(), "{path}");
        answer.status().as_u16()
    };
    assert_eq!(status(with(&[("redirect_uri", "http://127.0.0.1:40123/back")])).await, 200, "any port of loopback");
    for bad in
        ["http://127.0.0.1/else", "https://app.example/back", "https://evil.example/", "http://localhost/back", ""]
    {
        assert_eq!(status(with(&[("redirect_uri", bad)])).await, 400, "{bad}");
    }
    assert_eq!(status(with(&[("client_id", "client_else")])).await, 400);
    for (changes, error) in [
        (&[("code_challenge", "")][..], "invalid_request"),
        (&[("code_challenge_method", "plain")], "invalid_request"),
        (&[("code_challenge_method", "")], "invalid_request"),
        (&[("code_challenge", "short")], "invalid_request"),
        (&[("response_type", "token")], "unsupported_response_type"),
        (&[("scope", "no:such")], "invalid_scope"),
        (&[("resource", "https://else.example/")], "invalid_target"),
    ] {
        let answer = running.get(&with(changes)).send().await.unwrap();
        let (to, back) = sent_to(&answer);
        assert_eq!((&*to, &*back["error"], &*back["state"]), ("https://app.example/back", error, "a&b"), "{changes:?}");
    }
}

#[tokio::test]
async fn there_are_only_so_many_of_each() {
    let running = open(|_, aly| {
        (aly.oauth.clients, aly.oauth.idle_s, aly.oauth.keys, aly.oauth.grants, aly.oauth.codes) = (3, 0, 3, 2, 3);
    })
    .await;
    let key = key_of(&running, "acme-ws", &[]).await;
    let client = public(&running).await;
    let first = exchange(&running, &client, &agreed(&running, &client, &key).await).await.1;
    let second = exchange(&running, &client, &agreed(&running, &client, &key).await).await.1;
    let third = exchange(&running, &client, &agreed(&running, &client, &key).await).await.1;
    for (tokens, good) in [(&first, false), (&second, true), (&third, true)] {
        assert_eq!(is_good(&running, &tokens["access_token"]).await, good);
    }
    // Clients that never got a token give way to others; one that did does not.
    for _ in 0..5 {
        public(&running).await;
    }
    assert_eq!(renew(&running, &client, &third["refresh_token"]).await.0, 200);
    // Codes wait only so many at a time.
    let challenge = challenge();
    let mut fields = asked(&client, &challenge);
    let (cookie, csrf, _) = page(&running, &fields).await;
    fields.extend([("csrf", &*csrf), ("decision", "allow"), ("key", &key)]);
    let answer = send(&running, "/oauth/authorize", &fields, Some(&cookie)).await;
    assert_eq!(sent_to(&answer).1["error"], "temporarily_unavailable");
    let server = running.serving.now();
    let new = |name: &str, scopes: &[&str]| shop::oauth::NewWorkspaceKey {
        workspace: "acme-ws".into(),
        name: name.into(),
        scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
        expires_at: None,
    };
    let oauth = server.product::<ShopService>().unwrap().oauth();
    assert!(oauth.make_key(new("", &[])).await.is_err() && oauth.make_key(new("x", &["no:such"])).await.is_err());
    for name in ["two", "three"] {
        oauth.make_key(new(name, &["read:sites"])).await.unwrap();
    }
    assert!(oauth.make_key(new("four", &[])).await.unwrap_err().message.contains("at most 3"));
    let shown = oauth.keys("acme-ws").await.unwrap();
    assert_eq!(shown.len(), 3);
}
