//! The requests that arrive: bodies in every dialect, headers for every scheme, signatures and tokens that verify.

use std::sync::Arc;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use gateway::webhooks::{Options, Signer};
use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use model::ports::store::{Append, BlobWrite, Commit, IndexRow, Opening, Outcome, Store};
use model::ports::webhook::{WebhookBody, WebhookDetail, WebhookOutcome, WebhookSender};
use model::{
    Artifact, Blob, BlobKind, Body, Chunk, Content, Event, Part, PushChange, PushProgress, PushRow, PushSpec, Seq,
    State, Time, stored,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::kit::{courier, courier_with, deliver, letter, options, spec, status, task, task_id};
use crate::receiver::{Act, Heard, Receiver};

async fn heard(options: Options, change: impl FnOnce(&mut PushSpec)) -> Heard {
    let mut receiver = Receiver::start(Act::status("200 OK")).await;
    let mut spec = spec(&receiver.url());
    change(&mut spec);
    assert_eq!(deliver(&courier(options), spec).await, WebhookOutcome::Taken);
    receiver.heard().await
}

#[tokio::test]
async fn an_event_arrives_with_everything_around_it() {
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let heard = heard(options(), |spec| {
        spec.token = Some("tok-é".into());
        spec.trace = Some(trace.into());
    })
    .await;
    assert_eq!(heard.line, "POST /hook/path-secret?q=query-secret HTTP/1.1");
    assert_eq!(heard.header("content-type"), Some("application/a2a+json"));
    assert_eq!(heard.header("a2a-notification-token"), Some("tok-é"));
    assert_eq!(heard.header("x-a2a-notification-token"), Some("tok-é"));
    assert_eq!(heard.header("traceparent"), Some(trace));
    assert_eq!(heard.header("x-a2a-event-id"), Some(&*format!("{}.7", task_id())));
    assert_eq!(heard.header("webhook-id"), Some(&*format!("{}.7.cfg%201", task_id())));
    assert_eq!(heard.header("authorization"), None);
    assert!(heard.header("user-agent").unwrap().starts_with("Rialto/"));
    assert_eq!(heard.json()["statusUpdate"]["status"]["state"], "TASK_STATE_COMPLETED");
}

#[tokio::test]
async fn a_receiver_knows_us_the_way_it_asked_for() {
    for (scheme, credentials, header, value) in [
        ("Bearer", "abc", "authorization", Some("Bearer abc")),
        ("bearer", "abc", "authorization", Some("Bearer abc")),
        ("Basic", "dXNlcjpwYXNz", "authorization", Some("Basic dXNlcjpwYXNz")),
        ("basic", "user:pass", "authorization", Some("Basic dXNlcjpwYXNz")),
        ("Digest", "x=1", "authorization", Some("Digest x=1")),
        ("apiKey", "abc", "x-api-key", Some("abc")),
        ("API-Key", "abc", "x-api-key", Some("abc")),
        ("X-Api-Key", "abc", "x-api-key", Some("abc")),
        ("hmac-sha256", "abc", "authorization", None),
        ("HMAC", "abc", "x-api-key", None),
    ] {
        let heard = heard(options(), |spec| {
            (spec.scheme, spec.credentials) = (Some(scheme.into()), Some(credentials.into()));
        })
        .await;
        assert_eq!(heard.header(header), value, "{scheme}");
        let both = heard.header("authorization").is_some() && heard.header("x-api-key").is_some();
        assert!(!both, "{scheme}");
    }
    let alone = heard(options(), |spec| spec.scheme = Some("Bearer".into())).await;
    assert_eq!(alone.header("authorization"), None);
}

/// Verifies a signature like a receiver.
fn assert_signed(heard: &Heard, key: &[u8]) {
    let (id, at) = (heard.header("webhook-id").unwrap(), heard.header("webhook-timestamp").unwrap());
    let said = heard.header("webhook-signature").unwrap().strip_prefix("v1,").unwrap();
    let mut signed = format!("{id}.{at}.").into_bytes();
    signed.extend_from_slice(&heard.body);
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    hmac::verify(&key, &signed, &STANDARD.decode(said).unwrap()).unwrap();
    let now = jiff::Timestamp::now().as_second();
    assert!((now - at.parse::<i64>().unwrap()).abs() < 300, "{at}");
}

#[tokio::test]
async fn a_signature_verifies_with_the_secret_both_sides_know() {
    let own = |spec: &mut PushSpec| {
        (spec.scheme, spec.credentials) = (Some("HMAC-SHA256".into()), Some("own-secret".into()));
        spec.token = Some("token".into());
    };
    let signed = heard(options(), own).await;
    assert_signed(&signed, b"own-secret");
    assert!(!format!("{signed:?}").contains("own-secret"), "the key itself is never sent");
    assert_signed(&heard(options(), |spec| spec.token = Some("token".into())).await, b"token");
    let with_secret = || Options { signing_secret: Some("whsec_c2VydmVy".into()), ..options() };
    assert_signed(&heard(with_secret(), |spec| spec.token = Some("token".into())).await, b"server");
    assert_signed(&heard(with_secret(), own).await, b"own-secret");
    assert_eq!(heard(options(), |_| {}).await.header("webhook-signature"), None);
}

#[tokio::test]
async fn a_token_verifies_against_the_key_set() {
    gateway::crypto::install();
    let folder = tempfile::tempdir().unwrap();
    let make = || Signer::in_folder(&folder.path().join("push-jwt.pem"), "https://agents.example.com".into()).unwrap();
    let keys: JwkSet = serde_json::from_str(make().jwks()).unwrap();
    let carry = async |change: fn(&mut PushSpec)| {
        let mut receiver = Receiver::start(Act::status("200 OK")).await;
        let mut spec = spec(&receiver.url());
        change(&mut spec);
        let courier = courier_with(Arc::new(stores::memory::MemoryStore::new()), Some(make()), options());
        assert_eq!(deliver(&courier, spec).await, WebhookOutcome::Taken);
        (receiver.heard().await, format!("http://{}", receiver.addr))
    };
    let claims = |token: &str, audience: &str| -> Value {
        let header = jsonwebtoken::decode_header(token).unwrap();
        let key = keys.find(header.kid.as_deref().unwrap()).unwrap();
        let mut rules = Validation::new(Algorithm::ES256);
        rules.set_audience(&[audience]);
        rules.set_issuer(&["https://agents.example.com"]);
        jsonwebtoken::decode(token, &DecodingKey::from_jwk(key).unwrap(), &rules).unwrap().claims
    };

    let (heard, endpoint) = carry(|_| {}).await;
    let said = claims(heard.header("authorization").unwrap().strip_prefix("Bearer ").unwrap(), &endpoint);
    let digest: String = Sha256::digest(&heard.body).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(said["request_body_sha256"], digest);
    assert_eq!((&said["taskId"], &said["jti"]), (&json!(task_id()), &json!(format!("{}.7", task_id()))));
    assert_eq!(said["exp"].as_i64().unwrap() - said["iat"].as_i64().unwrap(), 300);

    // A scheme without credentials leaves the header to the token; one with credentials keeps it.
    let (alone, _) = carry(|spec| spec.scheme = Some("Bearer".into())).await;
    assert!(alone.header("authorization").unwrap().starts_with("Bearer ey"));
    let (own, endpoint) =
        carry(|spec| (spec.scheme, spec.credentials) = (Some("Bearer".into()), Some("abc".into()))).await;
    assert_eq!(own.header("authorization"), Some("Bearer abc"));
    claims(own.header("x-a2a-notification-jwt").unwrap(), &endpoint);
}

#[tokio::test]
async fn a_task_arrives_in_the_dialect_its_webhook_was_registered_in() {
    for (dialect, kind, at) in [
        ("a2a_v1", "application/a2a+json", &["task", "id"][..]),
        ("a2a_v0_3", "application/json", &["id"]),
        ("a2a_v0_3_rest", "application/json", &["id"]),
        ("a2a_v0_1", "application/json", &["id"]),
        ("a2a_v0", "application/json", &["id"]),
    ] {
        let mut receiver = Receiver::start(Act::status("200 OK")).await;
        let courier = courier(options());
        let mut spec = spec(&receiver.url());
        (spec.dialect, spec.shown) = (dialect.into(), Some("mine".into()));
        let receipt = courier.deliver(letter(spec.clone(), WebhookBody::Task(Arc::new(task())))).await;
        assert_eq!(receipt, WebhookOutcome::Taken);
        let heard = receiver.heard().await;
        assert_eq!(heard.header("content-type"), Some(kind), "{dialect}");
        let body = heard.json();
        assert_eq!(at.iter().fold(&body, |value, member| &value[member]), "mine", "{dialect}: {body}");
        // Only 1.0 has single events.
        let told = courier.deliver(letter(spec, WebhookBody::Event(Arc::new(status())))).await;
        let events = courier.telling(dialect) == WebhookDetail::Events;
        assert_eq!(told, if events { WebhookOutcome::Taken } else { WebhookOutcome::Untold }, "{dialect}");
        assert_eq!(events, dialect == "a2a_v1");
    }
}

#[tokio::test]
async fn what_nobody_is_told_is_not_sent() {
    let receiver = Receiver::start(Act::status("200 OK")).await;
    let unseen = Event { seq: Seq(2), at: Time(0), body: Body::Bound { remote: "r".into() } };
    let told = courier(options()).deliver(letter(spec(&receiver.url()), WebhookBody::Event(Arc::new(unseen)))).await;
    assert_eq!((told, receiver.accepted()), (WebhookOutcome::Untold, 0));
}

/// A store that holds a task with these blobs and configs.
async fn store_with(blobs: Vec<BlobWrite>, push: Vec<PushChange>) -> Arc<dyn Store> {
    let store: Arc<dyn Store> = Arc::new(stores::memory::MemoryStore::new());
    let event = Event { seq: Seq(1), at: Time(0), body: Body::Bound { remote: "r".into() } };
    let append = Append {
        task: task_id(),
        expected: Seq::ZERO,
        epoch: None,
        count: 1,
        payload: stored::encode(&[event]).into(),
        open: Some(Opening {
            context: "ctx-1".into(),
            fresh_context: true,
            tenant: "acme".into(),
            agent: "echo".into(),
            views: vec![],
        }),
        row: Some(IndexRow { state: State::Working, status_at: Time(0), listed: true, running: false, settled: false }),
    };
    let commit = Commit { appends: vec![append], blobs, push, ..Commit::default() };
    assert_eq!(store.commit(commit).await, Outcome::Done);
    store
}

fn chunk(content: &Bytes, hash: [u8; 32]) -> WebhookBody {
    let blob = Blob { kind: BlobKind::Raw, hash, len: content.len() as u64 };
    let artifact = Artifact {
        id: "a".into(),
        name: None,
        description: None,
        parts: vec![Part::new(Content::Blob(blob))],
        metadata: None,
        extensions: vec![],
    };
    let chunk =
        Chunk { artifact: artifact.into(), ordinal: 0, append: false, bordered: false, last: true, metadata: None };
    WebhookBody::Event(Arc::new(Event { seq: Seq(7), at: Time(0), body: Body::Artifact(chunk) }))
}

#[tokio::test]
async fn large_content_arrives_whole_and_signed() {
    let content: Bytes = (0..=255).cycle().take(300_001).collect::<Vec<u8>>().into();
    let write = BlobWrite { tenant: "acme".into(), task: task_id(), hash: [9; 32], bytes: content.clone() };
    let store = store_with(vec![write], vec![]).await;
    let mut receiver = Receiver::start(Act::status("200 OK")).await;
    let mut spec = spec(&receiver.url());
    spec.token = Some("token".into());
    let courier = courier_with(store, None, options());
    let receipt = courier.deliver(letter(spec.clone(), chunk(&content, [9; 32]))).await;
    assert_eq!(receipt, WebhookOutcome::Taken);
    let heard = receiver.heard().await;
    assert_signed(&heard, b"token");
    let raw = heard.json()["artifactUpdate"]["artifact"]["parts"][0]["raw"].as_str().unwrap().to_owned();
    assert_eq!(STANDARD.decode(raw).unwrap(), content);

    let missing = courier.deliver(letter(spec, chunk(&content, [8; 32]))).await;
    assert!(matches!(missing, WebhookOutcome::Failed { .. }), "{missing:?}");
}

#[tokio::test]
async fn a_large_file_is_told_by_its_address_in_every_dialect() {
    let content: Bytes = (0..=255).cycle().take(300_001).collect::<Vec<u8>>().into();
    // The bytes are missing in the store: a load would fail.
    let store = store_with(vec![], vec![]).await;
    let mut receiver = Receiver::start(Act::status("200 OK")).await;
    let files = gateway::settings::FileLinkSettings { inline_max_bytes: Some(100_000), url_expires_s: 60 };
    let with_files = || gateway::webhooks::Options { files: Some(("https://x.example".into(), files)), ..options() };
    let courier = courier_with(store.clone(), None, with_files());
    let mut told = 0;
    for wire in dialects::WIRES {
        let mut spec = spec(&receiver.url());
        spec.token = Some("token".into());
        spec.dialect = wire.name().into();
        match courier.deliver(letter(spec, chunk(&content, [9; 32]))).await {
            // Webhooks of some dialects get states only.
            WebhookOutcome::Untold => continue,
            receipt => assert_eq!(receipt, WebhookOutcome::Taken, "{}", wire.name()),
        }
        let heard = receiver.heard().await;
        assert_signed(&heard, b"token");
        let text = heard.json().to_string();
        assert!(
            text.contains(&format!("\"https://x.example/files/{}?tenant=acme&expires=", "09".repeat(32))),
            "{text}"
        );
        told += 1;
    }
    assert!(told > 0);
    let mut spec = spec(&receiver.url());
    spec.token = Some("token".into());
    let small = courier.deliver(letter(spec, chunk(&content.slice(..70_000), [9; 32]))).await;
    assert!(matches!(small, WebhookOutcome::Failed { .. }), "what is small is loaded: {small:?}");
}

#[tokio::test]
async fn a_key_that_opens_nothing_is_refused_at_the_start() {
    let sealed = courier(options()).seal(task_id(), &spec("https://example.com/")).unwrap();
    let row = |spec: Bytes| {
        PushChange::Put(PushRow {
            task: task_id(),
            id: "c".into(),
            edition: 1,
            epoch: model::Epoch(0),
            spec,
            made_at: Time(0),
            progress: PushProgress::from(Seq(1), Time(0)),
        })
    };
    let right = store_with(vec![], vec![row(sealed)]).await;
    courier_with(right, None, options()).prove().await.unwrap();
    let wrong = store_with(vec![], vec![row(Bytes::from_static(b"\x01sealed with another key, say"))]).await;
    let words = courier_with(wrong.clone(), None, options()).prove().await.unwrap_err().to_string();
    assert!(words.contains("another key") && words.contains("push.key_file"), "{words}");
    // A new key can decrypt nothing, and does not stop the start.
    let folder = tempfile::tempdir().unwrap();
    let seal = gateway::webhooks::Seal::in_folder(&folder.path().join("seal.key")).unwrap();
    gateway::webhooks::HttpWebhookSender::new(wrong, seal, None, options()).unwrap().prove().await.unwrap();
}
