//! The sender of push notifications. It encodes, signs and encrypts; the crate `web` posts, and the engine decides what is delivered, in which order,
//! and when an attempt is repeated.
//!
//! * `check` decides which configs are accepted; the outbound policy of the crate `web` decides which addresses are
//!   connected to
//! * `encrypt` encrypts configs at rest, `keyfile` reads and writes the server's own keys
//! * `headers`, `sign` and `jwt` make the headers of a body

mod check;
mod encrypt;
mod headers;
mod jwt;
mod keyfile;
mod sign;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dialects::JsonWire;
use dialects::framing::json::{Encoded, Segment, Writer};
use dialects::wire::Head;
use model::ports::Future;
use model::ports::sealer::Sealer;
use model::ports::store::Store;
use model::ports::webhook::{WebhookDetail, WebhookOutcome, WebhookRequest, WebhookSender};
use model::{Fault, PushConfig, PushSpec, PushState, TaskId};
use url::Url;

pub(crate) use check::address as check_address;
pub use encrypt::Seal;
pub use jwt::Signer;
pub use keyfile::KeyFault;
pub use web::outbound::{AllowedHost, HostResolver, HttpPost, OutboundPolicy, SystemResolver};

use crate::links::{LinkOptions, Links};
use crate::settings::FileLinkSettings;
use headers::DeliveryFacts;
use web::body::in_json;
use web::outbound::{Post as _, PostRequest, origin};

/// File name of the encryption key in the data folder.
pub const SEAL_KEY: &str = "seal.key";
/// File name of the key for tokens in the data folder.
pub const JWT_KEY: &str = "push-jwt.pem";

/// Number of configs that are decrypted to prove a key.
const SAMPLE: usize = 8;

/// How deliveries are made.
pub struct Options {
    /// Makes the attempts, also for products.
    pub post: Arc<HttpPost>,
    /// Time limit of a whole attempt, in milliseconds.
    pub timeout_ms: u64,
    /// Signs deliveries whose config has no secret of its own.
    pub signing_secret: Option<String>,
    /// The wires of products, whose push configs are served, too.
    pub product_wires: Vec<&'static dyn JsonWire>,
    /// The server's public address, and how large files are shown. Without it, files are shown by their bytes.
    pub files: Option<(String, FileLinkSettings)>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            post: Arc::default(),
            timeout_ms: 15_000,
            signing_secret: None,
            product_wires: Vec::new(),
            files: None,
        }
    }
}

/// Delivers webhooks by HTTP.
pub struct HttpWebhookSender(Arc<SenderState>);

struct SenderState {
    store: Arc<dyn Store>,
    seal: Arc<Seal>,
    signer: Option<Signer>,
    signing_secret: Option<String>,
    post: Arc<HttpPost>,
    timeout: Duration,
    product_wires: Vec<&'static dyn JsonWire>,
    links: Links,
    files: Option<(String, FileLinkSettings)>,
}

impl HttpWebhookSender {
    /// `store` holds the large content of bodies.
    pub fn new(
        store: Arc<dyn Store>,
        seal: impl Into<Arc<Seal>>,
        signer: Option<Signer>,
        options: Options,
    ) -> Result<HttpWebhookSender, KeyFault> {
        let Options { post, timeout_ms, signing_secret, product_wires, files } = options;
        post.prepare().map_err(|error| {
            KeyFault::new(format!(
                "cannot make an HTTP client for webhooks: {error}; set push.enabled to false to go without"
            ))
        })?;
        let seal = seal.into();
        let links = Links::new(store.clone(), Some(seal.clone()));
        Ok(HttpWebhookSender(Arc::new(SenderState {
            store,
            seal,
            signer,
            signing_secret,
            post,
            timeout: Duration::from_millis(timeout_ms),
            product_wires,
            links,
            files,
        })))
    }

    /// Refuses a key that decrypts none of the stored configs in a sample: with it all of them would be given up. A key
    /// that was made at this start can decrypt none; then the loss is logged.
    pub async fn prove(&self) -> Result<(), KeyFault> {
        let rows = self.0.store.pushes(PushState::Active, None, SAMPLE).await;
        let rows = rows.map_err(|trouble| KeyFault::new(format!("cannot read the push configs: {trouble}")))?;
        if rows.is_empty() || rows.iter().any(|row| self.open(row.task, &row.spec).is_ok()) {
            return Ok(());
        }
        let words = "the push configs in the store were sealed with another key";
        if self.0.seal.is_new() {
            tracing::error!("{words} and are given up; to have them back, put it in place of {SEAL_KEY} and redeliver");
            return Ok(());
        }
        Err(KeyFault::new(format!(
            "{words}: put that back as {SEAL_KEY} in the data folder, or name it with push.key_file; if it is lost, remove {SEAL_KEY}, and they are given up"
        )))
    }
}

impl WebhookSender for HttpWebhookSender {
    fn check(&self, config: &PushConfig) -> Result<(), Fault> {
        check::check(self.0.post.policy(), config)
    }

    fn seal(&self, task: TaskId, spec: &PushSpec) -> Result<Bytes, Fault> {
        self.0.seal.seal(task, spec)
    }

    fn open(&self, task: TaskId, sealed: &[u8]) -> Result<PushSpec, Fault> {
        self.0.seal.open(task, sealed)
    }

    /// The unknown name of a removed dialect gets states only; every delivery to it fails.
    fn telling(&self, dialect: &str) -> WebhookDetail {
        self.0.codec(dialect).map_or(WebhookDetail::States, |codec| codec.facts().telling)
    }

    fn clears(&self, dialect: &str) -> bool {
        self.0.codec(dialect).is_some_and(|codec| codec.facts().clears_push)
    }

    fn endpoint(&self, spec: &PushSpec) -> Arc<str> {
        match Url::parse(&spec.url) {
            Ok(url) => origin(&url),
            Err(_) => "unknown".into(),
        }
    }

    fn deliver(&self, letter: WebhookRequest) -> Future<'static, WebhookOutcome> {
        let desk = self.0.clone();
        Box::pin(async move { desk.deliver(&letter).await.unwrap_or_else(|receipt| receipt) })
    }
}

impl SenderState {
    /// The wire of this name.
    fn codec(&self, name: &str) -> Option<&'static dyn JsonWire> {
        dialects::webhook_wire(name).or_else(|| self.product_wires.iter().copied().find(|wire| wire.name() == name))
    }

    /// The error is a delivery that cannot be sent at all.
    async fn deliver(self: &Arc<Self>, letter: &WebhookRequest) -> Result<WebhookOutcome, WebhookOutcome> {
        let spec = &letter.spec;
        let gone = |why: String| WebhookOutcome::Gone { why };
        let wire = self
            .codec(&spec.dialect)
            .ok_or_else(|| gone(format!("the dialect {:?} is not spoken here any more", spec.dialect)))?
            .webhook_wire();
        // The body first, because many events have none in the dialect.
        let mut w = Writer::with_capacity(1_024);
        let head = Head::new(letter.id.task, spec.shown.as_deref(), &letter.context);
        if !wire.push_body(&mut w, &head, &letter.news) {
            return Ok(WebhookOutcome::Untold);
        }
        let body = w.finish();

        let url = Url::parse(&spec.url).map_err(|_| gone("its url is not an address".into()))?;
        let endpoint = origin(&url);
        let failed = |why: String| WebhookOutcome::Failed { why, retry_after_ms: None };
        let event = letter.id.to_string();
        let id = format!("{event}.{}", headers::header_safe(&letter.config));
        let timestamp = jiff::Timestamp::now().as_second();
        let key = headers::signing_key(spec, self.signing_secret.as_deref());
        let mut reading = sign::BodyHasher::new(key, &id, timestamp, self.signer.is_some());
        let body = self.settle(letter, body).await.map_err(failed)?;
        for segment in &body.segments {
            reading.take(&self.load(&letter.tenant, segment).await.map_err(failed)?);
        }
        let read = reading.finish();
        let jwt = match &self.signer {
            Some(signer) => {
                let task = spec.shown.as_deref().map_or_else(|| letter.id.task.to_string(), str::to_owned);
                let body_sha256 = read.sha256.as_deref().unwrap_or_default();
                let about =
                    jwt::TokenFacts { endpoint: &endpoint, event: &event, task: &task, body_sha256, at: timestamp };
                Some(signer.token(&about).map_err(|error| failed(format!("no token could be made: {error}")))?)
            }
            None => None,
        };
        let around = DeliveryFacts {
            spec,
            a2a_json: wire.json_facts().a2a_json,
            event: &event,
            id: &id,
            timestamp,
            signature: read.signature.as_deref(),
            jwt: jwt.as_deref(),
        };
        let mut headers = headers::headers(&around).map_err(|_| gone("its secrets do not fit into a header".into()))?;
        // The length is known even where the body is loaded in pieces: it has been read once for the signature.
        headers.insert(http::header::CONTENT_LENGTH, read.len.into());
        let request = PostRequest {
            url,
            receiver: endpoint,
            event: event.into(),
            attempt: letter.attempt,
            headers,
            body: self.body(letter, body),
            timeout: self.timeout,
            any_address: false,
            answer_bytes: None,
        };
        Ok(self.post.post(request).await.outcome)
    }

    /// Settled once for both the signature and the body, because an address contains a time.
    async fn settle(&self, letter: &WebhookRequest, body: Encoded) -> Result<Encoded, String> {
        let Some((base, files)) = &self.files else { return Ok(body.settled(|_| None)) };
        let terms = LinkOptions { base: base.clone(), tenant: letter.tenant.clone(), files: *files };
        self.links.settle(body, &terms).await.map_err(|fault| fault.to_string())
    }

    /// Large content is loaded while it is sent, so that a delivery holds at most one part of it.
    fn body(self: &Arc<Self>, letter: &WebhookRequest, encoded: Encoded) -> reqwest::Body {
        if let Some(bytes) = encoded.as_bytes() {
            return bytes.clone().into();
        }
        let (desk, tenant) = (self.clone(), letter.tenant.clone());
        let segments = futures_util::stream::iter(encoded.into_segments());
        reqwest::Body::wrap_stream(futures_util::StreamExt::then(segments, move |segment| {
            let (desk, tenant) = (desk.clone(), tenant.clone());
            async move { desk.load(&tenant, &segment).await.map_err(std::io::Error::other) }
        }))
    }

    async fn load(&self, tenant: &Arc<str>, segment: &Segment) -> Result<Bytes, String> {
        match segment {
            Segment::Bytes(bytes) => Ok(bytes.clone()),
            Segment::Blob(blob) => match self.store.blob(tenant.clone(), blob.hash).await {
                Ok(Some(content)) => Ok(in_json(blob.kind, &content)),
                Ok(None) => Err("a part of the task is missing in the store".into()),
                Err(trouble) => Err(trouble.to_string()),
            },
            Segment::File(_) => Err("a file was not settled".into()),
        }
    }
}
