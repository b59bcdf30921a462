//! Tokens of an issuer that rotates its keys, goes down, sends unreadable sets or does not answer.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{EncodingKey, Header, encode};
use model::{Caller, Fault, Kind};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::{Algorithm, Issuer, Issuers, KeySource, Times, is_token};

const AUDIENCE: &str = "rialto";
const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// A key pair as an issuer has it.
pub(crate) struct Pair {
    kid: &'static str,
    algorithm: Algorithm,
    private: EncodingKey,
    public: Value,
}

impl Pair {
    fn new(kid: &'static str, algorithm: Algorithm, private: EncodingKey) -> Pair {
        let _ = jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER.install_default();
        let mut jwk = Jwk::from_encoding_key(&private, algorithm).unwrap();
        jwk.common.key_id = Some(kid.into());
        Pair { kid, algorithm, private, public: serde_json::to_value(jwk).unwrap() }
    }

    pub(crate) fn sign(&self, claims: &Value) -> String {
        let header = Header { kid: Some(self.kid.into()), ..Header::new(self.algorithm) };
        encode(&header, claims, &self.private).unwrap()
    }
}

fn rsa_key() -> EncodingKey {
    use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
    let pair = aws_lc_rs::rsa::KeyPair::generate(aws_lc_rs::rsa::KeySize::Rsa2048).unwrap();
    let der: Pkcs8V1Der<'_> = pair.as_der().unwrap();
    let text = STANDARD.encode(der.as_ref());
    EncodingKey::from_rsa_pem(format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n").as_bytes())
        .unwrap()
}

fn ec_key() -> EncodingKey {
    let pair = rcgen::KeyPair::generate().unwrap();
    EncodingKey::from_ec_pem(pair.serialize_pem().as_bytes()).unwrap()
}

pub(crate) fn rsa() -> &'static Pair {
    static PAIR: OnceLock<Pair> = OnceLock::new();
    PAIR.get_or_init(|| Pair::new("rsa", Algorithm::RS256, rsa_key()))
}

pub(crate) fn old() -> &'static Pair {
    static PAIR: OnceLock<Pair> = OnceLock::new();
    PAIR.get_or_init(|| Pair::new("old", Algorithm::ES256, ec_key()))
}

fn new() -> &'static Pair {
    static PAIR: OnceLock<Pair> = OnceLock::new();
    PAIR.get_or_init(|| Pair::new("new", Algorithm::ES256, ec_key()))
}

/// An issuer's web server.
#[derive(Clone)]
pub(crate) struct Web {
    pub(crate) base: String,
    answers: Arc<Mutex<HashMap<String, Answer>>>,
    fetches: Arc<AtomicUsize>,
    /// A fetch of a held path waits for one of these permits.
    gate: Arc<Semaphore>,
    /// One permit for each fetch that has arrived.
    came: Arc<Semaphore>,
}

#[derive(Clone)]
pub(crate) enum Answer {
    Json(Value, &'static str),
    Held(Value),
    Raw(&'static str),
    Huge,
    Silent,
}

impl Web {
    pub(crate) async fn start() -> Web {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let web = Web {
            base: format!("http://{}", listener.local_addr().unwrap()),
            answers: Arc::default(),
            fetches: Arc::default(),
            gate: Arc::new(Semaphore::new(0)),
            came: Arc::new(Semaphore::new(0)),
        };
        let serving = web.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let web = serving.clone();
                tokio::spawn(async move {
                    let mut head = Vec::new();
                    while !head.ends_with(b"\r\n\r\n") {
                        match stream.read_u8().await {
                            Ok(byte) => head.push(byte),
                            Err(_) => return,
                        }
                    }
                    let head = String::from_utf8(head).unwrap();
                    let path = head.split(' ').nth(1).unwrap().to_owned();
                    web.fetches.fetch_add(1, Ordering::SeqCst);
                    web.came.add_permits(1);
                    let answer = web.answers.lock().get(&path).cloned();
                    let text = match answer {
                        Some(Answer::Json(value, header)) => ok(&value.to_string(), header),
                        Some(Answer::Held(value)) => {
                            web.gate.acquire().await.unwrap().forget();
                            ok(&value.to_string(), "")
                        }
                        Some(Answer::Raw(text)) => text.to_owned(),
                        Some(Answer::Huge) => ok(&"x".repeat(2 << 20), ""),
                        Some(Answer::Silent) => return std::future::pending().await,
                        None => "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".into(),
                    };
                    let _ = stream.write_all(text.as_bytes()).await;
                });
            }
        });
        web
    }

    fn fetches(&self) -> usize {
        self.fetches.load(Ordering::SeqCst)
    }

    pub(crate) fn set(&self, path: &str, answer: Answer) {
        self.answers.lock().insert(path.to_owned(), answer);
    }

    pub(crate) fn publish(&self, pairs: &[&Pair]) {
        self.set("/jwks", Answer::Json(set_of(pairs), ""));
    }

    fn down(&self) {
        self.set("/jwks", Answer::Raw("HTTP/1.1 500 Oops\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"));
    }

    fn issuer(&self) -> Issuer {
        let keys = KeySource::Jwks { url: format!("{}/jwks", self.base), algorithms: Issuer::ALGORITHMS.to_vec() };
        Issuer::new("https://idp.example/realms/a", vec![AUDIENCE.into(), "other".into()], keys)
    }
}

fn ok(body: &str, header: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n{header}\r\n{body}")
}

pub(crate) fn set_of(pairs: &[&Pair]) -> Value {
    json!({ "keys": pairs.iter().map(|pair| pair.public.clone()).collect::<Vec<_>>() })
}

/// Issuers whose clock a test moves forward.
struct Desk {
    issuers: Arc<Issuers>,
    ahead: Arc<AtomicU64>,
}

impl Desk {
    fn new(issuer: Issuer) -> Desk {
        let ahead = Arc::new(AtomicU64::new(0));
        let issuers = Issuers::with(&[issuer], |issuer| {
            let ahead = ahead.clone();
            let clock = Arc::new(move || Instant::now() + Duration::from_secs(ahead.load(Ordering::SeqCst)));
            Times { clock, ..Times::new(issuer.floor_ms, issuer.patience_ms) }
        });
        Desk { issuers: Arc::new(issuers.unwrap()), ahead }
    }

    fn later(&self, seconds: u64) {
        self.ahead.fetch_add(seconds, Ordering::SeqCst);
    }

    async fn show(&self, token: &str) -> Result<Arc<Caller>, Fault> {
        self.issuers.verify(token).await
    }

    async fn refused(&self, token: &str) -> String {
        let fault = self.show(token).await.unwrap_err();
        assert_eq!(fault.kind, Kind::Unauthenticated, "{fault}");
        fault.message
    }
}

fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

fn claims() -> Value {
    json!({ "iss": "https://idp.example/realms/a", "aud": AUDIENCE, "sub": "ann", "tenant": "red", "exp": now() + 300 })
}

fn with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[name] = value;
    claims
}

fn without(name: &str) -> Value {
    let mut claims = claims();
    claims.as_object_mut().unwrap().remove(name);
    claims
}

async fn ready(pairs: &[&Pair]) -> (Web, Desk) {
    let web = Web::start().await;
    web.publish(pairs);
    let desk = Desk::new(web.issuer());
    (web, desk)
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), wait).await.expect(what);
}

#[test]
fn a_token_is_told_from_a_key() {
    let head = URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
    assert!(is_token(&format!("{head}.e30.")));
    assert!(is_token(&format!("{head}.e30.xx")));
    let long = URL_SAFE_NO_PAD.encode(format!(r#" {{"alg":"RS256","x":"{}"}}"#, "y".repeat(500)));
    assert!(is_token(&format!("{long}.e30.xx")));
    for key in ["", "rk_abc_def", "a.b.c", "ey.b", "one.two.three.four", &format!("{head}.e30"), "bm90IGpzb24.e30.x"] {
        assert!(!is_token(key), "{key}");
    }
}

#[tokio::test]
async fn a_good_token_is_a_caller_of_its_own_name() {
    let (_web, desk) = ready(&[old(), rsa()]).await;
    let caller = desk.show(&old().sign(&with("scope", json!("tasks:read tasks:write")))).await.unwrap();
    assert_eq!(&*caller.name, "jwt:idp.example/realms/a#ann");
    assert_eq!((&*caller.tenant, caller.authenticated), ("red", true));
    assert_eq!(&*caller.scopes, ["tasks:read", "tasks:write"]);
    let caller = desk.show(&rsa().sign(&with("scp", json!(["a", "b"])))).await.unwrap();
    assert_eq!(&*caller.scopes, ["a", "b"]);
    assert!(desk.show(&rsa().sign(&claims())).await.unwrap().scopes.is_empty());
    let none = desk.show(&rsa().sign(&with("scope", json!("")))).await.unwrap();
    assert_eq!(&*none.scopes, [""], "to say that there are none is not to say nothing");
    assert!(desk.show(&rsa().sign(&with("aud", json!(["x", "other"])))).await.is_ok(), "one of several audiences");
}

#[tokio::test]
async fn what_is_wrong_with_a_token_is_said() {
    let (web, desk) = ready(&[rsa()]).await;
    for (claims, word) in [
        (with("exp", json!(now() - 61)), "expired"),
        (without("exp"), "exp"),
        (with("exp", json!("tomorrow")), "exp"),
        (with("nbf", json!(now() + 120)), "not valid yet"),
        (with("aud", json!("another")), "audience"),
        (with("aud", json!(["another"])), "audience"),
        (without("aud"), "aud"),
        (with("iss", json!("https://idp.example/realms/b")), "issuer"),
        (with("iss", json!(["https://idp.example/realms/a"])), "cannot be read"),
        (without("iss"), "issuer"),
        (without("tenant"), "tenant"),
        (with("tenant", json!(7)), "tenant"),
        (without("sub"), "sub"),
        (with("sub", json!("")), "sub"),
        (with("sub", json!("a\u{0}b")), "sub"),
        (with("scope", json!(7)), "scope"),
    ] {
        let said = desk.refused(&rsa().sign(&claims)).await;
        assert!(said.contains(word), "{claims}: {said}");
    }
    assert!(desk.show(&rsa().sign(&with("exp", json!(now() - 30)))).await.is_ok(), "within the leeway");
    assert!(desk.show(&rsa().sign(&with("nbf", json!(now() + 30)))).await.is_ok());
    let stranger = Pair::new("rsa", Algorithm::RS256, rsa_key());
    let said = desk.refused(&stranger.sign(&claims())).await;
    assert!(said.contains("signature"), "{said}");
    let mut bent = rsa().sign(&claims()).into_bytes();
    let middle = bent.iter().position(|b| *b == b'.').unwrap() + 20;
    bent[middle] = if bent[middle] == b'A' { b'B' } else { b'A' };
    desk.refused(std::str::from_utf8(&bent).unwrap()).await;
    let big = rsa().sign(&with("padding", json!("x".repeat(20_000))));
    assert!(desk.refused(&big).await.contains("larger"), "and it is not even looked at");
    assert_eq!(web.fetches(), 1, "none of this is a reason to fetch keys");
}

#[tokio::test]
async fn how_a_token_is_signed_is_not_for_the_token_to_say() {
    let (_web, desk) = ready(&[rsa(), old()]).await;
    let forge = |header: Value, signature: &str| {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        format!("{}.{}.{signature}", part(&header), part(&claims()))
    };
    for alg in ["none", "None", "NONE", ""] {
        assert!(desk.refused(&forge(json!({ "alg": alg, "kid": "rsa" }), "")).await.contains("signed in a way"));
    }
    // The public key as a shared secret, in every form an attacker has it.
    let n = rsa().public["n"].as_str().unwrap().to_owned();
    let der = URL_SAFE_NO_PAD.decode(&n).unwrap();
    for secret in [n.as_bytes(), &der, rsa().public.to_string().as_bytes()] {
        let header = Header { kid: Some("rsa".into()), ..Header::new(Algorithm::HS256) };
        let token = encode(&header, &claims(), &EncodingKey::from_secret(secret)).unwrap();
        assert!(desk.refused(&token).await.contains("signed in a way"));
    }
    // An algorithm the issuer does not use, though the key could.
    let header = Header { kid: Some("rsa".into()), ..Header::new(Algorithm::RS512) };
    let token = encode(&header, &claims(), &rsa().private).unwrap();
    assert!(desk.refused(&token).await.contains("signed in a way"));
    // The right algorithm with the kid of a key of another family.
    let header = Header { kid: Some("old".into()), ..Header::new(Algorithm::RS256) };
    let token = encode(&header, &claims(), &rsa().private).unwrap();
    assert!(desk.refused(&token).await.contains("does not have"));
    // A key in the token's own header.
    let stranger = Pair::new("rsa", Algorithm::RS256, rsa_key());
    let jwk: Jwk = serde_json::from_value(stranger.public.clone()).unwrap();
    let header = Header { kid: Some("rsa".into()), jwk: Some(jwk), ..Header::new(Algorithm::RS256) };
    let token = encode(&header, &claims(), &stranger.private).unwrap();
    assert!(desk.refused(&token).await.contains("signature"));
    let header = Header { kid: Some("rsa".into()), crit: Some(vec!["b64".into()]), ..Header::new(Algorithm::RS256) };
    let token = encode(&header, &claims(), &rsa().private).unwrap();
    assert!(desk.refused(&token).await.contains("crit"));
}

#[tokio::test]
async fn a_set_has_no_use_for_keys_that_are_not_for_signatures() {
    let web = Web::start().await;
    let mut encryption = rsa().public.clone();
    encryption["use"] = json!("enc");
    let mut pinned = rsa().public.clone();
    (pinned["alg"], pinned["kid"]) = (json!("RS512"), json!("pinned"));
    let shared = json!({ "kty": "oct", "kid": "oct", "k": URL_SAFE_NO_PAD.encode(SECRET) });
    let unknown = json!({ "kty": "future", "kid": "f" });
    web.set("/jwks", Answer::Json(json!({ "keys": [encryption, pinned, shared, unknown, old().public] }), ""));
    let desk = Desk::new(web.issuer());
    assert!(desk.refused(&rsa().sign(&claims())).await.contains("does not have"));
    assert!(desk.show(&old().sign(&claims())).await.is_ok());
    let header = Header { kid: Some("pinned".into()), ..Header::new(Algorithm::RS256) };
    let token = encode(&header, &claims(), &rsa().private).unwrap();
    assert!(desk.refused(&token).await.contains("does not have"), "the key says what it is for");
    let header = Header::new(Algorithm::ES256);
    let token = encode(&header, &claims(), &old().private).unwrap();
    assert!(desk.show(&token).await.is_ok(), "a token without a kid is tried with the keys of its kind");
}

#[tokio::test]
async fn a_shared_secret_is_for_one_algorithm() {
    let keys = KeySource::Secret(SECRET.into());
    let desk = Desk::new(Issuer::new("https://idp.example/realms/a", vec![AUDIENCE.into()], keys));
    let sign =
        |algorithm| encode(&Header::new(algorithm), &claims(), &EncodingKey::from_secret(SECRET.as_bytes())).unwrap();
    assert!(desk.show(&sign(Algorithm::HS256)).await.is_ok());
    assert!(desk.refused(&sign(Algorithm::HS512)).await.contains("signed in a way"));
    let wrong = encode(&Header::default(), &claims(), &EncodingKey::from_secret(b"another")).unwrap();
    assert!(desk.refused(&wrong).await.contains("signature"));
    let weak = Issuer::new("i", vec!["a".into()], KeySource::Secret("short".into()));
    assert!(Issuers::new(&[weak]).is_err());
}

#[tokio::test]
async fn a_fixed_tenant_is_for_tokens_that_name_none() {
    let web = Web::start().await;
    web.publish(&[old()]);
    let issuer = Issuer { tenant: Some("blue".into()), tenants: vec!["blue".into(), "red".into()], ..web.issuer() };
    let desk = Desk::new(issuer);
    assert_eq!(&*desk.show(&old().sign(&without("tenant"))).await.unwrap().tenant, "blue");
    assert_eq!(&*desk.show(&old().sign(&claims())).await.unwrap().tenant, "red");
    let said = desk.refused(&old().sign(&with("tenant", json!("green")))).await;
    assert!(said.contains("tenant"), "{said}");
}

#[tokio::test]
async fn a_new_key_is_fetched_and_an_old_one_is_out_with_it() {
    let (web, desk) = ready(&[old()]).await;
    assert!(desk.show(&old().sign(&claims())).await.is_ok());
    web.publish(&[new()]);
    assert!(desk.show(&old().sign(&claims())).await.is_ok(), "nobody has looked yet");
    desk.later(11);
    assert!(desk.show(&new().sign(&claims())).await.is_ok());
    assert!(desk.refused(&old().sign(&claims())).await.contains("does not have"));
    assert_eq!(web.fetches(), 2);
}

#[tokio::test]
async fn unknown_keys_cause_one_fetch_in_ten_seconds() {
    let (web, desk) = ready(&[old()]).await;
    desk.show(&old().sign(&claims())).await.unwrap();
    desk.later(11);
    for _ in 0..50 {
        desk.refused(&new().sign(&claims())).await;
    }
    assert_eq!(web.fetches(), 2);
    desk.later(9);
    desk.refused(&new().sign(&claims())).await;
    assert_eq!(web.fetches(), 2);
    desk.later(1);
    desk.refused(&new().sign(&claims())).await;
    assert_eq!(web.fetches(), 3);
}

#[tokio::test]
async fn a_crowd_fetches_once_and_whoever_leaves_takes_nothing_along() {
    let web = Web::start().await;
    web.set("/jwks", Answer::Held(set_of(&[old()])));
    let desk = Arc::new(Desk::new(web.issuer()));
    let crowd: Vec<_> = (0..30)
        .map(|_| {
            let desk = desk.clone();
            tokio::spawn(async move { desk.show(&old().sign(&claims())).await })
        })
        .collect();
    web.came.acquire().await.unwrap().forget();
    // The caller that began the fetch may be among them.
    for one in &crowd[..10] {
        one.abort();
    }
    web.gate.add_permits(1);
    for one in crowd.into_iter().skip(10) {
        assert!(one.await.unwrap().is_ok());
    }
    assert_eq!(web.fetches(), 1);
}

#[tokio::test]
async fn a_set_past_its_time_is_fetched_while_the_old_one_is_used() {
    let (web, desk) = ready(&[old()]).await;
    desk.show(&old().sign(&claims())).await.unwrap();
    web.publish(&[new()]);
    desk.later(599);
    desk.show(&old().sign(&claims())).await.unwrap();
    assert_eq!(web.fetches(), 1, "ten minutes, where the answer does not say");
    desk.later(2);
    desk.show(&old().sign(&claims())).await.expect("nobody waits for the new set");
    let set = || desk.issuers.sets().next().unwrap().has("new");
    until("the new set is there", set).await;
    desk.refused(&old().sign(&claims())).await;
    assert_eq!(web.fetches(), 2);
}

#[tokio::test]
async fn a_set_long_past_its_time_is_not_used_before_it_is_fetched() {
    let (web, desk) = ready(&[old()]).await;
    desk.show(&old().sign(&claims())).await.unwrap();
    web.publish(&[new()]);
    desk.later(3 * 600);
    desk.refused(&old().sign(&claims())).await;
}

#[tokio::test]
async fn an_answer_says_how_long_it_is_good_for_within_reason() {
    for (header, good_for) in [
        ("cache-control: public, max-age=1200\r\n", 1200),
        ("cache-control: max-age=1\r\n", 60),
        ("cache-control: max-age=999999999\r\n", 86_400),
        ("cache-control: no-store\r\n", 600),
    ] {
        let web = Web::start().await;
        web.set("/jwks", Answer::Json(set_of(&[old()]), header));
        let desk = Desk::new(web.issuer());
        desk.show(&old().sign(&claims())).await.unwrap();
        let set = desk.issuers.sets().next().unwrap().clone();
        assert_eq!(set.good_for(), Some(Duration::from_secs(good_for)), "{header}");
    }
}

#[tokio::test]
async fn an_issuer_that_is_down_or_talks_nonsense_changes_nothing_for_a_day() {
    let (web, desk) = ready(&[old()]).await;
    desk.show(&old().sign(&claims())).await.unwrap();
    for answer in [
        Answer::Raw("HTTP/1.1 503 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"),
        Answer::Raw("HTTP/1.1 200 OK\r\ncontent-length: 6\r\nconnection: close\r\n\r\n<html>"),
        Answer::Raw("HTTP/1.1 302 Found\r\nlocation: /elsewhere\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"),
        Answer::Json(json!({ "keys": "none" }), ""),
        Answer::Huge,
        Answer::Raw("nonsense\r\n\r\n"),
    ] {
        web.set("/jwks", answer);
        desk.later(3 * 600);
        desk.show(&old().sign(&claims())).await.expect("the old set stays");
        desk.later(11);
        let fault = desk.show(&new().sign(&claims())).await.unwrap_err();
        assert_eq!(fault.kind, Kind::Unavailable, "nobody can tell whether it is a good one");
    }
    assert!(!web.answers.lock().contains_key("/elsewhere"));
    desk.later(86_400);
    let fault = desk.show(&old().sign(&claims())).await.unwrap_err();
    assert_eq!(fault.kind, Kind::Unavailable, "a day is enough");
    web.publish(&[old()]);
    desk.later(11);
    assert!(desk.show(&old().sign(&claims())).await.is_ok());
}

#[tokio::test]
async fn keys_that_are_good_for_a_day_have_their_day_of_grace_too() {
    let web = Web::start().await;
    web.set("/jwks", Answer::Json(json!({ "keys": [old().public] }), "cache-control: max-age=86400\r\n"));
    let desk = Desk::new(web.issuer());
    desk.show(&old().sign(&claims())).await.unwrap();
    web.down();
    desk.later(86_400 + 3_600);
    desk.show(&old().sign(&claims())).await.expect("out of use for an hour only");
    desk.later(86_400);
    assert_eq!(desk.show(&old().sign(&claims())).await.unwrap_err().kind, Kind::Unavailable);
}

#[tokio::test]
async fn without_a_first_set_the_answer_is_try_again() {
    let (web, desk) = ready(&[]).await;
    web.down();
    let fault = desk.show(&old().sign(&claims())).await.unwrap_err();
    assert_eq!(fault.kind, Kind::Unavailable);
    assert!(fault.retry_after_s.is_some_and(|seconds| (1..=10).contains(&seconds)), "{fault:?}");
    web.publish(&[old()]);
    let fault = desk.show(&old().sign(&claims())).await.unwrap_err();
    assert_eq!((fault.kind, web.fetches()), (Kind::Unavailable, 1), "not before the floor");
    desk.later(11);
    assert!(desk.show(&old().sign(&claims())).await.is_ok());
}

#[tokio::test]
async fn a_silent_issuer_is_waited_for_only_so_long() {
    let web = Web::start().await;
    web.set("/jwks", Answer::Silent);
    let desk = Desk::new(Issuer { patience_ms: 50, ..web.issuer() });
    let fault = desk.show(&old().sign(&claims())).await.unwrap_err();
    assert_eq!(fault.kind, Kind::Unavailable);
}

#[tokio::test]
async fn keys_are_found_by_discovery() {
    let web = Web::start().await;
    web.publish(&[old()]);
    let issuer = web.base.clone();
    let configuration = |named: &str| json!({ "issuer": named, "jwks_uri": format!("{issuer}/jwks") });
    let keys = KeySource::Discovery { algorithms: Issuer::ALGORITHMS.to_vec() };
    let desk = Desk::new(Issuer::new(&*issuer, vec![AUDIENCE.into()], keys));
    let token = old().sign(&with("iss", json!(issuer)));
    let path = "/.well-known/openid-configuration";
    web.set(path, Answer::Json(configuration("https://another.example"), ""));
    assert_eq!(desk.show(&token).await.unwrap_err().kind, Kind::Unavailable, "the configuration of somebody else");
    web.set(path, Answer::Json(configuration(&issuer), ""));
    desk.later(11);
    let caller = desk.show(&token).await.unwrap();
    assert!(caller.name.starts_with("jwt:127.0.0.1:"), "{}", caller.name);
    assert_eq!(desk.issuers.discovery_urls().collect::<Vec<_>>(), [format!("{issuer}{path}")]);
    let before = web.fetches();
    desk.later(11);
    desk.show(&new().sign(&with("iss", json!(issuer)))).await.unwrap_err();
    assert_eq!(web.fetches(), before + 1, "where the keys are is remembered while it works");
}

#[test]
fn issuers_that_could_be_mistaken_for_each_other_are_refused() {
    let issuer = |name: &str| Issuer::new(name, vec!["a".into()], KeySource::Secret(SECRET.into()));
    assert!(Issuers::new(&[issuer("https://a.example"), issuer("http://a.example")]).is_err());
    assert!(Issuers::new(&[issuer("https://a.example#x")]).is_err());
    assert!(Issuers::new(&[issuer("")]).is_err());
    assert!(Issuers::new(&[Issuer { audience: Vec::new(), ..issuer("a") }]).is_err());
    assert!(Issuers::new(&[issuer("https://a.example"), issuer("https://b.example")]).is_ok());
    let hmac = KeySource::Jwks { url: "https://a.example/k".into(), algorithms: vec![Algorithm::HS256] };
    assert!(Issuers::new(&[Issuer::new("a", vec!["a".into()], hmac)]).is_err());
    let nowhere = KeySource::Jwks { url: "ftp://a.example/k".into(), algorithms: vec![Algorithm::RS256] };
    assert!(Issuers::new(&[Issuer::new("a", vec!["a".into()], nowhere)]).is_err());
}

#[test]
fn keys_that_were_fetched_stay_for_as_long_as_they_are_fetched_the_same_way() {
    let at = |url: &str| {
        let keys = KeySource::Jwks { url: url.into(), algorithms: Issuer::ALGORITHMS.to_vec() };
        Issuer::new("https://idp.example", vec!["r".into()], keys)
    };
    let before = Issuers::new(&[at("https://idp.example/keys")]).unwrap();
    let kept = |issuer: Issuer| {
        let mut next = Issuers::new(&[issuer]).unwrap();
        next.keep_keys_of(&before);
        before.sets().zip(next.sets()).all(|(old, new)| Arc::ptr_eq(old, new))
    };
    assert!(kept(Issuer { leeway_s: 1, audience: vec!["s".into()], ..at("https://idp.example/keys") }));
    assert!(!kept(at("https://idp.example/others")));
    assert!(!kept(Issuer { issuer: "https://else.example".into(), ..at("https://idp.example/keys") }));
}
