//! The section `push` of the config: whether there are webhooks, which addresses they may have, their signatures
//! and their retries.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use gateway::webhooks::{
    AllowedHost, HttpPost, HttpWebhookSender, JWT_KEY, Options, OutboundPolicy, SEAL_KEY, Seal, Signer, SystemResolver,
};
use model::OnOff;
use model::limits::PushLimits;
use model::ports::store::Store;
use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::config::secret;
use crate::products::PRODUCTS;
use crate::store::same_everywhere;

const HOUR_MS: u64 = 3_600_000;
/// The note in the database with the fingerprint of the key that seals its push configs.
const SEAL_NOTE: &str = "seal key";

/// The note with the key itself, where the config names no file for it.
const KEY_NOTE: &str = "seal key itself";

/// Webhooks that are told of a task's progress.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Push")]
pub(crate) struct PushSection {
    /// Serve push notifications. Default true.
    pub(crate) enabled: Option<bool>,
    /// Hosts and networks that may be delivered to although they are private, and over http: `host`, `*.example.com`,
    /// `10.0.0.0/8`, `host:port`. Default none.
    pub(crate) allow: Vec<String>,
    /// Signs deliveries to configs without a signing key of their own: `env:NAME` or `file:PATH`. Without it the config's
    /// token does.
    pub(crate) signing_secret: Option<String>,
    /// Put a JWT of the server's own on every delivery, and its public key at `/.well-known/jwks.json`. Default false.
    pub(crate) jwt: bool,
    /// The file with the 32 bytes that push configs and the server's own keys are sealed with. Default `seal.key` in the data folder, made at the
    /// first start. Replicas that share a store need the same one.
    pub(crate) key_file: Option<PathBuf>,
    /// The file with the key of those tokens (PEM). Default `push-jwt.pem` in the data folder, made at the first start.
    /// Replicas that share a store need the same one.
    pub(crate) jwt_key_file: Option<PathBuf>,
    /// For one attempt, in milliseconds. Default 15000.
    pub(crate) timeout_ms: Option<u64>,
    /// Configs of one task. Default 20.
    pub(crate) configs: Option<usize>,
    /// Deliveries at a time. Default 64.
    pub(crate) deliveries: Option<usize>,
    /// Deliveries at a time to one scheme, host and port. Default 32.
    pub(crate) deliveries_per_endpoint: Option<usize>,
    /// Before the first retry, in milliseconds; each further one waits twice as long. Default 1000.
    pub(crate) retry_ms: Option<u64>,
    /// Between retries at most, in milliseconds. Default 3600000.
    pub(crate) retry_most_ms: Option<u64>,
    /// How long an event is tried before its config is given up, in hours. Default 24.
    pub(crate) give_up_hours: Option<u64>,
    /// Failures in a row after which an endpoint is left alone for a while. Default 5.
    pub(crate) breaker_failures: Option<u32>,
    /// How long it is left alone at first, in milliseconds. Default 10000.
    pub(crate) breaker_ms: Option<u64>,
}

/// The forms of `push`, for the schema.
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "only its schema is used")]
pub(crate) enum PushForms {
    Short(OnOff),
    Long(Box<PushSection>),
}

/// Reads `push`: `on`, `off`, `true`, `false`, or a mapping. A mistake in the mapping is reported with its own
/// line.
pub(crate) fn read<'de, D: Deserializer<'de>>(d: D) -> Result<PushSection, D::Error> {
    struct Either;
    impl<'de> Visitor<'de> for Either {
        type Value = PushSection;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("on, off, or a mapping of the options of push")
        }
        fn visit_bool<E: de::Error>(self, on: bool) -> Result<PushSection, E> {
            Ok(PushSection { enabled: Some(on), ..PushSection::default() })
        }
        fn visit_str<E: de::Error>(self, text: &str) -> Result<PushSection, E> {
            match OnOff::parse(text) {
                Some(OnOff(on)) => self.visit_bool(on),
                None => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
            }
        }
        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<PushSection, A::Error> {
            PushSection::deserialize(MapAccessDeserializer::new(map))
        }
    }
    d.deserialize_any(Either)
}

impl PushSection {
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let day = 24 * HOUR_MS;
        for (name, value, least, most) in [
            ("timeout_ms", self.timeout_ms, 100, 600_000),
            ("configs", self.configs.map(|n| n as u64), 1, 1_000),
            ("deliveries", self.deliveries.map(|n| n as u64), 1, 10_000),
            ("deliveries_per_endpoint", self.deliveries_per_endpoint.map(|n| n as u64), 1, 10_000),
            ("retry_ms", self.retry_ms, 10, day),
            ("retry_most_ms", self.retry_most_ms, 10, 7 * day),
            ("give_up_hours", self.give_up_hours, 0, 24 * 366),
            ("breaker_failures", self.breaker_failures.map(u64::from), 1, 1_000_000),
            ("breaker_ms", self.breaker_ms, 10, day),
        ] {
            if let Some(value) = value
                && !(least..=most).contains(&value)
            {
                bail!("push.{name}: {value} is out of range; choose a number from {least} to {most}");
            }
        }
        let limits = self.limits();
        if limits.retry_ms > limits.retry_most_ms {
            bail!(
                "push.retry_ms: {} is more than push.retry_most_ms ({}); lower it, or raise the other",
                limits.retry_ms,
                limits.retry_most_ms
            );
        }
        self.allowed().map(drop)
    }

    fn allowed(&self) -> anyhow::Result<Vec<AllowedHost>> {
        self.allow.iter().map(|text| text.parse().map_err(|error| anyhow::anyhow!("push.allow: {error}"))).collect()
    }

    pub(crate) fn limits(&self) -> PushLimits {
        let usual = PushLimits::default();
        let breaker_ms = self.breaker_ms.unwrap_or(usual.breaker_ms);
        PushLimits {
            configs: self.configs.unwrap_or(usual.configs),
            deliveries: self.deliveries.unwrap_or(usual.deliveries),
            deliveries_per_endpoint: self.deliveries_per_endpoint.unwrap_or(usual.deliveries_per_endpoint),
            retry_ms: self.retry_ms.unwrap_or(usual.retry_ms),
            retry_most_ms: self.retry_most_ms.unwrap_or(usual.retry_most_ms),
            give_up_ms: self.give_up_hours.map_or(usual.give_up_ms, |hours| hours.saturating_mul(HOUR_MS)),
            breaker_failures: self.breaker_failures.unwrap_or(usual.breaker_failures),
            breaker_ms,
            breaker_most_ms: usual.breaker_most_ms.max(breaker_ms),
        }
    }

    /// The note about the key in use for the database, if there is one: a replica with another key could not open
    /// the push configs.
    pub(crate) fn note(&self, data: &Path) -> anyhow::Result<Option<(String, String)>> {
        let path = self.key_file.clone().unwrap_or_else(|| data.join(SEAL_KEY));
        if self.key_file.is_none() && !path.exists() {
            return Ok(None);
        }
        Ok(Some((SEAL_NOTE.to_owned(), Seal::in_file(&path)?.fingerprint().to_owned())))
    }

    /// The seal of all secrets in the store: push configs, and the server's own keys.
    pub(crate) async fn seal(&self, store: &dyn Store, data: &Path) -> anyhow::Result<Arc<Seal>> {
        seal(self.key_file.as_deref(), store, data).await
    }

    /// Makes the attempts of every webhook, also those of products.
    pub(crate) fn post(&self, address: SocketAddr, behind_proxy: bool) -> anyhow::Result<Arc<HttpPost>> {
        // Callers behind a proxy are not on this machine, whatever address we listen on.
        let loopback = address.ip().is_loopback() && !behind_proxy;
        let policy = OutboundPolicy { loopback, allow: self.allowed()?, ..OutboundPolicy::default() };
        Ok(Arc::new(HttpPost::new(policy, Arc::new(SystemResolver))))
    }

    /// The webhook sender and the public keys of its tokens; none without webhooks.
    pub(crate) async fn courier(&self, found: WebhookContext<'_>) -> anyhow::Result<Option<WebhookParts>> {
        if !self.enabled.unwrap_or(true) {
            return Ok(None);
        }
        let WebhookContext { store, data, address, public_url, behind_proxy, tls, files, seal, post } = found;
        let issuer = public_url.map_or_else(|| format!("http://{address}"), |url| url.trim_end_matches('/').to_owned());
        let token_key = self.jwt_key_file.clone().unwrap_or_else(|| data.join(JWT_KEY));
        let signer = self.jwt.then(|| Signer::in_folder(&token_key, issuer)).transpose().context("push.jwt")?;
        if let Some(signer) = &signer {
            let advice = "copy its push-jwt.pem and name it with push.jwt_key_file on every replica";
            same_everywhere(&**store, "token key", signer.jwks(), advice).await?;
        }
        let usual = Options::default();
        // Without a public address, and on one that receivers cannot reach, files are sent whole.
        let scheme = if tls { "https" } else { "http" };
        let heard = (!behind_proxy && !address.ip().is_unspecified()).then(|| format!("{scheme}://{address}"));
        let base = public_url.map(|url| url.trim_end_matches('/').to_owned()).or(heard);
        let options = Options {
            product_wires: PRODUCTS.iter().flat_map(|product| product.wires()).copied().collect(),
            files: base.map(|base| (base, files)),
            post,
            timeout_ms: self.timeout_ms.unwrap_or(usual.timeout_ms),
            signing_secret: self.signing_secret.as_deref().map(secret).transpose().context("push.signing_secret")?,
        };
        let jwks = signer.as_ref().map(|signer| signer.jwks().to_owned());
        let courier = HttpWebhookSender::new(store.clone(), seal, signer, options)?;
        courier.prove().await?;
        Ok(Some(WebhookParts { courier: Arc::new(courier), jwks }))
    }
}

/// The seal with the key of the named file, else of the data folder, else the one that all replicas share.
pub(crate) async fn seal(key_file: Option<&Path>, store: &dyn Store, data: &Path) -> anyhow::Result<Arc<Seal>> {
    let seal = match key_file {
        Some(path) => Seal::in_file(path).context("push.key_file")?,
        None if store.is_shared() => agreed(store, &data.join(SEAL_KEY)).await?,
        None => Seal::in_folder(&data.join(SEAL_KEY))?,
    };
    let advice = "copy its seal.key and name it with push.key_file on every replica";
    same_everywhere(store, SEAL_NOTE, seal.fingerprint(), advice).await?;
    Ok(Arc::new(seal))
}

/// Where no key file is named, all replicas use the first one's key: it is stored in the database, beside the data
/// it seals. That keeps secrets out of lists and logs, but not from a reader of the database; a named key file
/// does.
async fn agreed(shared: &dyn Store, own: &Path) -> anyhow::Result<Seal> {
    let seal = Seal::in_folder(own)?;
    let asked = |trouble| anyhow::anyhow!("cannot ask the database for its seal: {trouble}");
    let (named, kept) = (shared.recall(SEAL_NOTE).await, shared.recall(KEY_NOTE).await);
    if named.map_err(asked)?.is_some() && kept.map_err(asked)?.is_none() {
        // The other replicas use a key file. Ours may be a copy of it, which does not belong into the database.
        return Ok(seal);
    }
    let key = std::fs::read(own).with_context(|| format!("cannot read {}", own.display()))?;
    let written: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    let theirs = shared.remember(KEY_NOTE, &written).await;
    let theirs = theirs.map_err(|trouble| anyhow::anyhow!("cannot ask the database for its seal: {trouble}"))?;
    let bytes = (0..theirs.len()).step_by(2).map(|at| u8::from_str_radix(theirs.get(at..at + 2)?, 16).ok());
    let key = bytes.collect::<Option<Vec<u8>>>().and_then(|key| key.try_into().ok());
    let key = key.context("the seal that the database remembers is no key; name one with push.key_file")?;
    tracing::warn!(
        "push configs and the server's own keys are sealed with a key that is kept in the database itself; to keep it apart, put one key into a file on every replica and name it with push.key_file"
    );
    Ok(Seal::new(&key)?)
}

/// The inputs of a webhook sender, besides its config.
pub(crate) struct WebhookContext<'a> {
    pub(crate) store: &'a Arc<dyn Store>,
    pub(crate) data: &'a Path,
    /// The listen address.
    pub(crate) address: SocketAddr,
    pub(crate) public_url: Option<&'a str>,
    /// Whether callers come through a proxy, as far as the config tells.
    pub(crate) behind_proxy: bool,
    pub(crate) tls: bool,
    pub(crate) files: gateway::settings::FileLinkSettings,
    pub(crate) seal: Arc<Seal>,
    pub(crate) post: Arc<HttpPost>,
}

pub(crate) struct WebhookParts {
    pub(crate) courier: Arc<HttpWebhookSender>,
    pub(crate) jwks: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(push: &PushSection) -> String {
        push.check().unwrap_err().to_string()
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_does() {
        assert!(PushSection::default().check().is_ok());
        let none = PushSection { configs: Some(0), ..PushSection::default() };
        assert!(refused(&none).contains("push.configs: 0 is out of range; choose a number from 1 to 1000"));
        let backwards = PushSection { retry_ms: Some(5_000), retry_most_ms: Some(1_000), ..PushSection::default() };
        assert!(refused(&backwards).contains("push.retry_most_ms (1000)"));
        let typo = PushSection { allow: vec!["10.0.0.0/99".into()], ..PushSection::default() };
        assert!(refused(&typo).contains("push.allow: \"10.0.0.0/99\" is no host"), "{}", refused(&typo));
    }

    #[test]
    fn what_is_not_said_is_as_usual() {
        assert_eq!(PushSection::default().limits(), PushLimits::default());
        let slow = PushSection { breaker_ms: Some(600_000), give_up_hours: Some(1), ..PushSection::default() }.limits();
        assert_eq!((slow.breaker_most_ms, slow.give_up_ms), (600_000, HOUR_MS));
    }
}
