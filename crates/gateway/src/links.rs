//! Signed addresses of large files: valid for a limited time, made when an answer is written, and not stored.
//!
//! The signature covers every part of the address. All processes on the store share the key, so each accepts the
//! addresses of the others. An address needs no credential, so that a file can be handed to any program that fetches.

use std::sync::Arc;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use dialects::framing::json::Encoded;
use dialects::framing::query;
use engine::secrets::{SecretPlace, own_secret};
use model::ports::sealer::Sealer;
use model::ports::store::Store;
use model::{Blob, BlobKind, Fault, Part};
use tokio::sync::OnceCell;

use crate::settings::FileLinkSettings;
use web::file_response::percent;

/// Record kind of the keys that a server made for itself, shared by all processes on the store. Stored.
const KIND: &str = "server/secret";
const NAME: &str = "files";
/// Addresses made in the same minute expire together, so that a task that is read twice looks the same.
const STEP_S: i64 = 60;

/// Makes signed addresses, and verifies them.
#[derive(Clone)]
pub struct Links {
    store: Arc<dyn Store>,
    sealer: Option<Arc<dyn Sealer>>,
    key: Arc<OnceCell<hmac::Key>>,
}

/// The inputs of the addresses in one answer.
#[derive(Clone, Debug)]
pub struct LinkOptions {
    /// The server's public address, without a slash at the end.
    pub(crate) base: String,
    pub(crate) tenant: Arc<str>,
    pub(crate) files: FileLinkSettings,
}

/// The verified content of an address.
#[derive(Debug, PartialEq, Eq)]
pub struct SignedLink {
    pub(crate) tenant: String,
    pub(crate) hash: [u8; 32],
    pub(crate) name: Option<String>,
    pub(crate) media_type: Option<String>,
}

/// The reason why an address is refused.
#[derive(Debug)]
pub enum LinkError {
    Signature,
    Expired,
    /// The key of addresses cannot be read.
    Key(Fault),
}

impl Links {
    /// The key of addresses is in the store, encrypted if there is a sealer.
    pub fn new(store: Arc<dyn Store>, sealer: Option<Arc<dyn Sealer>>) -> Links {
        Links { store, sealer, key: Arc::default() }
    }

    async fn key(&self) -> Result<&hmac::Key, Fault> {
        let made = self.key.get_or_try_init(|| async {
            let bytes = own_key(&*self.store, self.sealer.as_deref()).await?;
            Ok(hmac::Key::new(hmac::HMAC_SHA256, &bytes))
        });
        made.await
    }

    /// A keyed hash: a reader of the store without this key cannot test guesses against it. `what` names the purpose.
    pub async fn tag(&self, what: &[u8], text: &[u8]) -> Result<[u8; 32], Fault> {
        let signed = hmac::sign(self.key().await?, &[what, &[0], text].concat());
        <[u8; 32]>::try_from(signed.as_ref()).map_err(|_| Fault::internal("a tag has 32 bytes"))
    }

    /// Replaces large files in an encoded answer by their addresses.
    pub(crate) async fn settle(&self, encoded: Encoded, terms: &LinkOptions) -> Result<Encoded, Fault> {
        let Some(most) = terms.files.inline_max_bytes else { return Ok(encoded.settled(|_| None)) };
        if encoded.files().all(|file| file.blob.len <= most) {
            return Ok(encoded.settled(|_| None));
        }
        let key = self.key().await?;
        let expires = expires(terms);
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        Ok(encoded.settled(|file| {
            (file.blob.len > most)
                .then(|| address(key, terms, &file.blob, [&text(&file.name), &text(&file.media_type)], expires))
        }))
    }

    /// The address of a part whose content is a large file; `None` for one that is shown by its bytes.
    pub(crate) async fn of_part(&self, blob: &Blob, part: &Part, terms: &LinkOptions) -> Result<Option<String>, Fault> {
        let is_large = terms.files.inline_max_bytes.is_some_and(|most| blob.len > most);
        if blob.kind != BlobKind::Raw || !is_large {
            return Ok(None);
        }
        let key = self.key().await?;
        let name = part.filename.as_deref().unwrap_or_default();
        let media_type = part.media_type.as_deref().unwrap_or_default();
        Ok(Some(address(key, terms, blob, [name, media_type], expires(terms))))
    }

    /// Verifies the address with this path, below `/files/`, and query.
    pub(crate) async fn read(&self, path: &str, query: &str) -> Result<SignedLink, LinkError> {
        let key = self.key().await.map_err(LinkError::Key)?;
        read(key, path, query, now())
    }
}

fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

/// The time at which addresses made now expire.
fn expires(terms: &LinkOptions) -> i64 {
    let until = now().saturating_add(i64::from(terms.files.url_expires_s));
    until.div_euclid(STEP_S).saturating_add(1).saturating_mul(STEP_S)
}

/// An empty name counts as no name.
fn address(key: &hmac::Key, terms: &LinkOptions, blob: &Blob, [name, media_type]: [&str; 2], expires: i64) -> String {
    let hash = hex(&blob.hash);
    let parts = [&*hash, &*terms.tenant, name, media_type];
    let signature = hmac::sign(key, &message(parts, expires));
    format!("{}/files/{hash}?{}", terms.base, query_of(parts, expires, signature.as_ref()))
}

/// Writes the query of an address in its only valid form.
fn query_of([_, tenant, name, media_type]: [&str; 4], expires: i64, signature: &[u8]) -> String {
    let mut query = format!("tenant={}", percent(tenant));
    for (member, text) in [("name", name), ("type", media_type)] {
        if !text.is_empty() {
            query.push_str(&format!("&{member}={}", percent(text)));
        }
    }
    query.push_str(&format!("&expires={expires}&signature={}", URL_SAFE_NO_PAD.encode(signature)));
    query
}

/// The signed bytes: different addresses have different ones.
fn message(parts: [&str; 4], expires: i64) -> Vec<u8> {
    let mut message = b"rialto file 1".to_vec();
    for part in parts {
        message.extend_from_slice(&(part.len() as u64).to_be_bytes());
        message.extend_from_slice(part.as_bytes());
    }
    message.extend_from_slice(&expires.to_be_bytes());
    message
}

fn read(key: &hmac::Key, path: &str, query_text: &str, now: i64) -> Result<SignedLink, LinkError> {
    let said = |name| query::value(query_text, name).ok().flatten().map(|text| text.into_owned());
    let hash = unhex(path).ok_or(LinkError::Signature)?;
    let (tenant, name, media_type) = (said("tenant").unwrap_or_default(), said("name"), said("type"));
    let expires: i64 = said("expires").and_then(|text| text.parse().ok()).ok_or(LinkError::Signature)?;
    let signature = said("signature").and_then(|text| URL_SAFE_NO_PAD.decode(text).ok()).ok_or(LinkError::Signature)?;
    let parts = [path, &tenant, name.as_deref().unwrap_or_default(), media_type.as_deref().unwrap_or_default()];
    // An address has one spelling, so that lists of addresses (for revocation or counts) have each once.
    if query_of(parts, expires, &signature) != query_text {
        return Err(LinkError::Signature);
    }
    // Compared in constant time.
    hmac::verify(key, &message(parts, expires), &signature).map_err(|_| LinkError::Signature)?;
    if expires <= now {
        return Err(LinkError::Expired);
    }
    Ok(SignedLink { tenant, hash, name, media_type })
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Lower case only: a file has one address.
pub fn unhex(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    let bytes = (0..32).map(|at| u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok());
    bytes.collect::<Option<Vec<u8>>>()?.try_into().ok()
}

/// Made by the first process that needs it; the same from then on.
async fn own_key(store: &dyn Store, sealer: Option<&dyn Sealer>) -> Result<[u8; 32], Fault> {
    let place = SecretPlace { kind: KIND, key: NAME, lists: Vec::new() };
    let draw = || {
        let mut drawn = vec![0; 32];
        getrandom::fill(&mut drawn).map_err(|error| Fault::internal(format!("no randomness: {error}")))?;
        Ok(drawn)
    };
    let kept = own_secret(store, sealer, &place, draw).await?;
    let damaged = || Fault::internal("the key of file addresses in the store is damaged");
    <[u8; 32]>::try_from(&*kept).map_err(|_| damaged())
}

#[cfg(test)]
mod tests {
    use model::ports::store::RecordStore as _;
    use model::{Blob, BlobKind, Content, Part};

    use super::*;

    fn terms() -> LinkOptions {
        let files = FileLinkSettings { inline_max_bytes: Some(100), url_expires_s: 60 };
        LinkOptions { base: "https://x.example/sub".into(), tenant: "a b".into(), files }
    }

    fn encoded(len: u64) -> Encoded {
        let blob = Blob { kind: BlobKind::Raw, hash: [0xab; 32], len };
        let part = Part {
            filename: Some("ü&=.pdf".into()),
            media_type: Some("application/pdf".into()),
            ..Part::new(Content::Blob(blob))
        };
        let mut task = dialects_task();
        task.artifacts = vec![Arc::new(model::Artifact {
            id: "a".into(),
            name: None,
            description: None,
            parts: vec![part],
            metadata: None,
            extensions: vec![],
        })];
        let mut w = dialects::framing::json::Writer::new();
        let wire = dialects::wire(dialects::a2a_v1::NAME).unwrap();
        wire.task(&mut w, &task, &dialects::wire::TaskView::WHOLE, None);
        w.finish()
    }

    fn dialects_task() -> model::Task {
        let opened = r#"{"i":"0190f3c4-1111-7222-8333-444455556666","c":"c","g":"echo","t":"default","o":"x","v":[],"d":"a2a_v1"}"#;
        let body = model::Body::Opened(serde_json::from_str(opened).unwrap());
        model::Task::open(&model::Event { seq: model::Seq(1), at: model::Time(0), body }).unwrap()
    }

    async fn links(store: &Arc<stores::memory::MemoryStore>) -> Links {
        Links::new(store.clone(), None)
    }

    async fn url(links: &Links, terms: &LinkOptions) -> String {
        let settled = links.settle(encoded(101), terms).await.unwrap();
        let json: serde_json::Value = serde_json::from_slice(settled.as_bytes().unwrap()).unwrap();
        json["artifacts"][0]["parts"][0]["url"].as_str().unwrap().to_owned()
    }

    #[tokio::test]
    async fn an_address_says_what_it_is_of_to_every_process() {
        let store = Arc::new(stores::memory::MemoryStore::new());
        let url = url(&links(&store).await, &terms()).await;
        let (path, query) = url.strip_prefix("https://x.example/sub/files/").unwrap().split_once('?').unwrap();
        let other = links(&store).await;
        let claim = other.read(path, query).await.unwrap();
        assert_eq!(
            claim,
            SignedLink {
                tenant: "a b".into(),
                hash: [0xab; 32],
                name: Some("ü&=.pdf".into()),
                media_type: Some("application/pdf".into())
            }
        );
        let stranger = links(&Arc::new(stores::memory::MemoryStore::new())).await;
        assert!(matches!(stranger.read(path, query).await, Err(LinkError::Signature)), "another store has another key");
        for (from, to) in [
            ("tenant=a%20b", "tenant=b"),
            ("name=", "name=x"),
            ("&type=application%2Fpdf", "&type=text%2Fhtml"),
            ("&type=application%2Fpdf", ""),
            ("expires=", "expires=9"),
            ("signature=", "signature=A"),
            ("&signature=", "&sig="),
        ] {
            assert!(query.contains(from), "{query}");
            let changed = query.replacen(from, to, 1);
            assert!(matches!(other.read(path, &changed).await, Err(LinkError::Signature)), "{changed}");
        }
        // Other spellings of the same content are refused.
        let (before, signature) = query.rsplit_once("signature=").unwrap();
        let last = signature.chars().last().unwrap();
        let sibling = if last == 'A' { 'B' } else { char::from(last as u8 - 1) };
        let swapped = query.split('&').rev().collect::<Vec<_>>().join("&");
        for other_spelling in [
            query.replacen("a%20b", "a+b", 1),
            query.replacen("a%20b", "%61%20b", 1),
            query.replacen("%2F", "%2f", 1),
            query.replacen("tenant=", "Tenant=", 1),
            query.replacen("tenant=", "%74enant=", 1),
            query.replacen("expires=", "expires=0", 1),
            query.replacen("expires=", "expires=+", 1),
            query.replacen("expires=", "expires=%2B", 1),
            format!("{query}&"),
            format!("&{query}"),
            format!("{query}&more=1"),
            format!("{query}&name2"),
            format!("{query}="),
            format!("{before}signature={}{sibling}", &signature[..signature.len() - 1]),
            swapped,
        ] {
            assert_ne!(other_spelling, query);
            assert!(matches!(other.read(path, &other_spelling).await, Err(LinkError::Signature)), "{other_spelling}");
        }
        for path in [path.replacen('a', "b", 1), path.to_uppercase(), path[1..].to_owned(), String::new()] {
            assert!(matches!(other.read(&path, query).await, Err(LinkError::Signature)), "{path}");
        }
    }

    #[tokio::test]
    async fn a_key_that_was_kept_in_the_clear_is_sealed_and_stays_the_same() {
        let store = Arc::new(stores::memory::MemoryStore::new());
        let old = links(&store).await;
        let url = url(&old, &terms()).await;
        let body = || async { store.record(KIND.into(), NAME.into()).await.unwrap().unwrap().body };
        let clear = body().await;
        assert_eq!(clear.len(), 32);
        let seal: Arc<dyn Sealer> = Arc::new(crate::webhooks::Seal::new(&[7; 32]).unwrap());
        let new = Links::new(store.clone(), Some(seal.clone()));
        let (path, query) = url.strip_prefix("https://x.example/sub/files/").unwrap().split_once('?').unwrap();
        assert!(new.read(path, query).await.is_ok(), "what was signed before is good");
        let sealed = body().await;
        assert!(!sealed.windows(32).any(|piece| piece == &*clear), "nothing of it is left in the clear");
        assert!(Links::new(store.clone(), Some(seal)).read(path, query).await.is_ok());
        assert_eq!(body().await, sealed, "it is sealed once");
        let other: Arc<dyn Sealer> = Arc::new(crate::webhooks::Seal::new(&[8; 32]).unwrap());
        assert!(matches!(Links::new(store.clone(), Some(other)).read(path, query).await, Err(LinkError::Key(_))));
        assert!(matches!(Links::new(store.clone(), None).read(path, query).await, Err(LinkError::Key(_))));
    }

    #[tokio::test]
    async fn an_empty_name_is_none() {
        let links = links(&Arc::new(stores::memory::MemoryStore::new())).await;
        let key = links.key().await.unwrap();
        let hash = "ab".repeat(32);
        let signature = hmac::sign(key, &message([&hash, "t", "", ""], i64::MAX));
        let query = query_of([&hash, "t", "", ""], i64::MAX, signature.as_ref());
        assert_eq!(read(key, &hash, &query, 0).unwrap().name, None);
        for more in ["t&name=&", "t&type=&", "t&name=&type=&"] {
            let spelled = query.replacen("t&", more, 1);
            assert!(matches!(read(key, &hash, &spelled, 0), Err(LinkError::Signature)), "{spelled}");
        }
    }

    #[tokio::test]
    async fn an_address_ends() {
        let store = Arc::new(stores::memory::MemoryStore::new());
        let links = links(&store).await;
        let url = url(&links, &terms()).await;
        let (path, query_text) = url.split_once("/files/").unwrap().1.split_once('?').unwrap();
        let expires: i64 = query::value(query_text, "expires").unwrap().unwrap().parse().unwrap();
        let key = links.key().await.unwrap();
        assert!(expires > now() + 59 && expires <= now() + 121, "{expires}");
        assert!(read(key, path, query_text, expires - 1).is_ok());
        assert!(matches!(read(key, path, query_text, expires), Err(LinkError::Expired)));
    }

    #[tokio::test]
    async fn what_is_small_or_always_inline_stays() {
        let store = Arc::new(stores::memory::MemoryStore::new());
        let links = links(&store).await;
        let small = links.settle(encoded(100), &terms()).await.unwrap();
        assert!(small.has_blobs() && small.files().count() == 0);
        let files = FileLinkSettings { inline_max_bytes: None, ..terms().files };
        let inline = links.settle(encoded(101), &LinkOptions { files, ..terms() }).await.unwrap();
        assert!(inline.has_blobs());
        assert!(store.record(KIND.into(), NAME.into()).await.unwrap().is_none(), "no key is made where none is needed");
    }
}
