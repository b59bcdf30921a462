//! The rules for roles, and ID tokens that are not for this sign-in.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;

use super::super::jwt::tests::{Answer, Web, old, rsa};
use super::*;

const CLIENT: &str = "rialto";

fn rule(claim: &str, value: &str, role: ApiRole, tenant: &str) -> RoleRule {
    let tenant = match tenant.strip_prefix('$') {
        Some(claim) => RuleTenant::Claim(claim.to_owned()),
        None => RuleTenant::Named(tenant.into()),
    };
    RoleRule { claim: claim.into(), value: value.into(), role, tenant, all_tenants: false }
}

fn map(claims: Value) -> Map<String, Value> {
    claims.as_object().unwrap().clone()
}

#[test]
fn the_first_rule_that_fits_gives_role_and_tenant_and_without_one_there_is_none() {
    let rules = [
        rule("groups", "ops", ApiRole::Admin, "default"),
        rule("realm_access.roles", "on-call", ApiRole::Operator, "$org"),
        rule("https://example.com/staff", "true", ApiRole::Viewer, "acme"),
        rule("email", "ann@example.com", ApiRole::Operator, "acme"),
        rule("team", "*", ApiRole::Viewer, "$org.name"),
    ];
    let ruled = |claims: Value| ruling(&rules, &map(claims)).map(|(rule, tenant)| (rule.role, tenant.to_string()));
    let some = |role: ApiRole, tenant: &str| Some((role, tenant.to_owned()));
    for (claims, expected) in [
        (json!({ "groups": ["dev", "ops"] }), some(ApiRole::Admin, "default")),
        (json!({ "groups": "ops" }), some(ApiRole::Admin, "default")),
        (json!({ "groups": "ops dev" }), None),
        (json!({ "groups": ["ops2"] }), None),
        (json!({ "groups": [["ops"]] }), None),
        (json!({ "groups": { "ops": true } }), None),
        (json!({}), None),
        (json!({ "realm_access": { "roles": ["on-call"] }, "org": "north" }), some(ApiRole::Operator, "north")),
        (json!({ "realm_access.roles": ["on-call"], "org": "north" }), some(ApiRole::Operator, "north")),
        // A claim names no tenant whose admins see all, and nothing that is no name.
        (json!({ "realm_access": { "roles": ["on-call"] }, "org": "default" }), None),
        (json!({ "realm_access": { "roles": ["on-call"] }, "org": "a\u{7}" }), None),
        (json!({ "realm_access": { "roles": ["on-call"] }, "org": ["north"] }), None),
        (json!({ "realm_access": { "roles": ["on-call"] } }), None),
        (json!({ "https://example.com/staff": true }), some(ApiRole::Viewer, "acme")),
        (json!({ "https://example.com/staff": "true" }), some(ApiRole::Viewer, "acme")),
        (json!({ "https://example.com/staff": false }), None),
        (json!({ "email": "ann@example.com", "email_verified": true }), some(ApiRole::Operator, "acme")),
        (json!({ "email": "ann@example.com", "email_verified": false }), None),
        (json!({ "email": "ann@example.com" }), None),
        (json!({ "team": "red", "org": { "name": "south" } }), some(ApiRole::Viewer, "south")),
        (json!({ "team": "", "org": { "name": "south" } }), None),
        (json!({ "team": [], "org": { "name": "south" } }), None),
        (json!({ "team": 7, "org": { "name": "south" } }), None),
        // A rule whose tenant is missing does not hide the next one.
        (
            json!({ "realm_access": { "roles": ["on-call"] }, "https://example.com/staff": true }),
            some(ApiRole::Viewer, "acme"),
        ),
    ] {
        assert_eq!(ruled(claims.clone()), expected, "{claims}");
    }
}

#[test]
fn a_token_is_for_this_client_and_of_this_sign_in() {
    for (claims, is_ours) in [
        (json!({ "aud": CLIENT }), true),
        (json!({ "aud": [CLIENT] }), true),
        (json!({ "aud": [CLIENT, "other"], "azp": CLIENT }), true),
        (json!({ "aud": CLIENT, "azp": CLIENT }), true),
        (json!({ "aud": [CLIENT, "other"] }), false),
        (json!({ "aud": CLIENT, "azp": "other" }), false),
        (json!({ "aud": CLIENT, "azp": null }), false),
        (json!({ "aud": CLIENT, "azp": [CLIENT] }), false),
    ] {
        assert_eq!(check_party(&map(claims.clone()), CLIENT).is_ok(), is_ours, "{claims}");
    }
    for (iat, is_fresh) in [
        (json!(10_000), true),
        (json!(10_060), true),
        (json!(10_061), false),
        (json!(9_340), true),
        (json!(9_339), false),
        (json!("10000"), false),
        (Value::Null, false),
    ] {
        assert_eq!(check_age(&map(json!({ "iat": iat })), 10_000, 60).is_ok(), is_fresh, "{iat}");
    }
}

fn provider(web: &Web, rules: Vec<RoleRule>) -> Arc<OidcProvider> {
    let settings = OidcSettings { leeway_s: 5, ..OidcSettings::new(&*web.base, CLIENT, rules) };
    OidcProvider::new(&settings, None).unwrap()
}

/// A provider's web server with its configuration and keys.
async fn web() -> Web {
    let web = Web::start().await;
    let base = &web.base;
    let configuration = json!({
        "issuer": base, "jwks_uri": format!("{base}/jwks"), "authorization_endpoint": format!("{base}/auth?tenant=a"),
        "token_endpoint": format!("{base}/token"),
    });
    web.set("/.well-known/openid-configuration", Answer::Json(configuration, ""));
    web.publish(&[old(), rsa()]);
    web
}

fn claims(web: &Web) -> Value {
    let now = Timestamp::now().as_second();
    json!({ "iss": web.base, "aud": CLIENT, "sub": "u-1", "iat": now, "exp": now + 300, "nonce": "n", "groups": ["ops"] })
}

#[tokio::test]
async fn a_person_is_who_the_token_says_with_the_role_of_the_rule() {
    let web = web().await;
    let provider = provider(&web, vec![rule("groups", "ops", ApiRole::Operator, "acme")]);
    for pair in [old(), rsa()] {
        let signed_in = provider.verify(&pair.sign(&claims(&web)), "n").await.unwrap();
        let caller = &signed_in.caller;
        assert!(caller.name.starts_with("jwt:127.0.0.1:") && caller.name.ends_with("#u-1"), "{}", caller.name);
        assert_eq!((&*caller.tenant, &caller.scopes[..]), ("acme", &["operator".to_owned()][..]));
        assert!((290..=300).contains(&signed_in.seconds), "{}", signed_in.seconds);
    }
}

#[tokio::test]
async fn a_token_that_is_not_for_this_sign_in_is_refused() {
    let web = web().await;
    let provider = provider(&web, vec![rule("groups", "ops", ApiRole::Operator, "acme")]);
    let now = Timestamp::now().as_second();
    let with = |name: &str, value: Value| {
        let mut claims = claims(&web);
        claims[name] = value;
        old().sign(&claims)
    };
    let none = {
        let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
        format!("{}.{}.", part(json!({ "alg": "none" })), part(claims(&web)))
    };
    for (token, says) in [
        (none, "signed in a way that is not taken"),
        (with("iss", json!("https://other.example")), "issuer is not trusted"),
        (with("aud", json!("other")), "another audience"),
        (with("aud", json!([CLIENT, "other"])), "azp"),
        (with("azp", json!("other")), "azp"),
        (with("nonce", json!("m")), "nonce"),
        (with("nonce", Value::Null), "nonce"),
        (with("nonce", json!("")), "nonce"),
        (with("exp", json!(now - 60)), "expired"),
        (with("exp", Value::Null), "exp"),
        (with("nbf", json!(now + 600)), "not valid yet"),
        (with("iat", json!(now - 3_600)), "iat"),
        (with("iat", json!(now + 3_600)), "iat"),
        (with("iat", Value::Null), "iat"),
        (with("sub", Value::Null), "sub"),
        (with("sub", json!("a\u{7}")), "sub"),
        (with("groups", json!(["dev"])), "no rule of console.oidc.roles"),
        ("x".to_owned(), "cannot be read"),
    ] {
        let fault = provider.verify(&token, "n").await.map(|_| ()).unwrap_err();
        assert_eq!(fault.kind, Kind::Forbidden, "{says}: {fault}");
        assert!(fault.message.contains(says), "{says}: {fault}");
    }
}

#[tokio::test]
async fn a_person_is_sent_with_a_challenge_and_comes_back_with_a_code() {
    let web = web().await;
    let provider = provider(&web, vec![rule("groups", "ops", ApiRole::Operator, "acme")]);
    // The example of RFC 7636, appendix B.
    let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
    let redirect = "https://here/callback";
    let request = || SignInRequest { redirect, state: "s", nonce: "n", verifier };
    let sent = url::Url::parse(&provider.begin(request()).await.unwrap()).unwrap();
    let pairs: Vec<(String, String)> = sent.query_pairs().into_owned().collect();
    for (name, value) in [
        ("tenant", "a"),
        ("response_type", "code"),
        ("client_id", CLIENT),
        ("redirect_uri", redirect),
        ("scope", "openid profile email"),
        ("state", "s"),
        ("nonce", "n"),
        ("code_challenge", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"),
        ("code_challenge_method", "S256"),
    ] {
        assert!(pairs.contains(&(name.into(), value.into())), "{name}: {pairs:?}");
    }
    web.set("/token", Answer::Json(json!({ "id_token": old().sign(&claims(&web)) }), ""));
    assert_eq!(&*provider.redeem("c", request()).await.unwrap().caller.tenant, "acme");
    web.set("/token", Answer::Json(json!({ "access_token": "a" }), ""));
    let fault = provider.redeem("c", request()).await.map(|_| ()).unwrap_err();
    assert!(fault.message.contains("no ID token"), "{fault}");
    let refusal = "HTTP/1.1 400 Bad Request\r\ncontent-length: 31\r\nconnection: close\r\n\r\n{\"error\":\"invalid_grant<b>\"}   ";
    web.set("/token", Answer::Raw(refusal));
    let fault = provider.redeem("c", request()).await.map(|_| ()).unwrap_err();
    assert!(fault.kind == Kind::Forbidden && fault.message.contains("(invalid_grantb)"), "{fault}");
    web.set("/token", Answer::Raw("nonsense\r\n\r\n"));
    let fault = provider.redeem("c", request()).await.map(|_| ()).unwrap_err();
    assert_eq!(fault.kind, Kind::Unavailable, "{fault}");
}

#[tokio::test]
async fn a_provider_that_is_down_or_signs_nobody_in_is_told_as_that() {
    let web = Web::start().await;
    let request = SignInRequest { redirect: "r", state: "s", nonce: "n", verifier: "v" };
    let rules = || vec![rule("groups", "ops", ApiRole::Operator, "acme")];
    let fault = provider(&web, rules()).begin(request).await.unwrap_err();
    assert_eq!(fault.kind, Kind::Unavailable, "{fault}");
    // Bearer tokens are all that this issuer has.
    let configuration = json!({ "issuer": web.base, "jwks_uri": format!("{}/jwks", web.base) });
    web.set("/.well-known/openid-configuration", Answer::Json(configuration, ""));
    web.publish(&[old()]);
    let request = SignInRequest { redirect: "r", state: "s", nonce: "n", verifier: "v" };
    let fault = provider(&web, rules()).begin(request).await.unwrap_err();
    assert!(fault.kind == Kind::Unavailable && fault.message.contains("no sign-in for people"), "{fault}");
}

#[test]
fn settings_that_let_nobody_in_are_refused_and_their_secret_is_not_shown() {
    let good = || OidcSettings::new("https://idp.example", CLIENT, vec![rule("groups", "ops", ApiRole::Viewer, "a")]);
    assert!(OidcProvider::new(&good(), None).is_ok());
    let secret = OidcSettings { client_secret: Some(RedactedText("hunter2".into())), ..good() };
    assert!(!format!("{secret:?}").contains("hunter2"));
    let terms = |settings: &OidcSettings| OidcProvider::new(settings, None).unwrap().terms;
    let other = OidcSettings { client_secret: Some(RedactedText("hunter3".into())), ..good() };
    assert_eq!(terms(&secret), terms(&other));
    assert_ne!(
        terms(&good()),
        terms(&OidcSettings { rules: vec![rule("groups", "dev", ApiRole::Viewer, "a")], ..good() })
    );
    for bad in [
        OidcSettings { rules: Vec::new(), ..good() },
        OidcSettings { client_id: String::new(), ..good() },
        OidcSettings { issuer: "ftp://idp.example".into(), ..good() },
        OidcSettings { rules: vec![rule("", "ops", ApiRole::Viewer, "a")], ..good() },
        OidcSettings { rules: vec![rule("groups", "", ApiRole::Viewer, "a")], ..good() },
        OidcSettings { algorithms: vec![Algorithm::HS256], ..good() },
    ] {
        assert!(OidcProvider::new(&bad, None).is_err(), "{bad:?}");
    }
}
