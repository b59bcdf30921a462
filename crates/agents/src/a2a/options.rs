//! Options of a remote agent: address, credentials and time limits.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use client::{Binding, Generation, InterfaceBinding, PeerCredentials};
use model::ports::Future;
use model::ports::agent::Agent;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de};

use super::A2aAgent;
use crate::ConfigSecret;
use crate::config::{Common, Error, KindOptions};
use crate::delegation;
use crate::powers::{Field, plain, reaches, reaches_any, secret};

/// Its fields and their powers.
pub(super) const FIELDS: &[Field] = &[
    reaches("url"),
    reaches("card_url"),
    plain("generation"),
    plain("binding"),
    secret("auth"),
    plain("headers"),
    secret("secret_headers"),
    reaches_any("other_hosts"),
    plain("own_contexts"),
    plain("ask"),
    plain("max_hops"),
    plain("connect_timeout_ms"),
    plain("first_byte_timeout_ms"),
    plain("idle_timeout_ms"),
    plain("patience_ms"),
    plain("unreachable_ms"),
];

/// An agent somewhere else that speaks A2A, of whichever generation.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// The agent's endpoint, the place above its card, or the card itself; over gRPC without a card, `grpc://host:port`, or
    /// `grpcs://host:port` with TLS.
    pub url: String,
    /// Its card, where that is somewhere else entirely.
    #[serde(default)]
    pub card_url: Option<String>,
    /// Speak this generation and no other: `1.0`, `0.3`, `0.2` or `0.1`. Default: the newest on its card, or by trying.
    #[serde(default, deserialize_with = "generation")]
    #[schemars(with = "Option<String>")]
    pub generation: Option<Generation>,
    /// Use this binding and no other: `json-rpc`, `http-json` or `grpc`. Default: the one that its card prefers.
    #[serde(default)]
    pub binding: Option<RemoteBinding>,
    /// How to sign in. Default: not at all.
    #[serde(default)]
    pub auth: Option<RemoteAuth>,
    /// Headers to send with every request.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Further ones that are secret: each `env:NAME` or `file:PATH`. Never shown, not even in what goes wrong.
    #[serde(default)]
    pub secret_headers: BTreeMap<String, ConfigSecret>,
    /// Let its card name an interface on another host, and send credentials there. Default false.
    #[serde(default)]
    pub other_hosts: bool,
    /// Choose the ids of conversations there, so that tasks of one conversation here are one there. Default true; set it to
    /// false for agents that refuse ids they did not make.
    #[serde(default = "yes")]
    pub own_contexts: bool,
    /// How to ask: `auto` (the default) asks for short turns that nobody follows whole, which costs the agent less, and
    /// streams all others; `stream` streams them all.
    #[serde(default)]
    pub ask: AskMode,
    /// How often a message may have been passed on from agent to agent. Default 8.
    #[serde(default)]
    pub max_hops: Option<u32>,
    /// For a connection, in milliseconds. Default 10000.
    #[serde(default)]
    pub connect_timeout_ms: Option<u64>,
    /// For the first byte of an answer, in milliseconds. Default 120000.
    #[serde(default)]
    pub first_byte_timeout_ms: Option<u64>,
    /// For the next byte of a stream, in milliseconds; heartbeats count. Default 300000.
    #[serde(default)]
    pub idle_timeout_ms: Option<u64>,
    /// How long the agent may be away before a turn fails that it may have taken, in milliseconds. Default 30000.
    #[serde(default)]
    pub patience_ms: Option<u64>,
    /// How long an agent that cannot be reached at all is tried before a turn fails that it has not taken, in milliseconds.
    /// Default: `patience_ms` where that is set, else 2500.
    #[serde(default)]
    pub unreachable_ms: Option<u64>,
}

/// A binding of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Binding")]
pub enum RemoteBinding {
    JsonRpc,
    HttpJson,
    Grpc,
}

impl From<RemoteBinding> for InterfaceBinding {
    fn from(binding: RemoteBinding) -> InterfaceBinding {
        match binding {
            RemoteBinding::JsonRpc => Binding::JsonRpc.into(),
            RemoteBinding::HttpJson => Binding::HttpJson.into(),
            RemoteBinding::Grpc => InterfaceBinding::Grpc,
        }
    }
}

/// How the remote agent is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Ask")]
pub enum AskMode {
    /// Short turns that nobody follows whole, where their tasks can be found meanwhile; others as `stream` does.
    #[default]
    Auto,
    /// Always as a stream, if the agent has them.
    Stream,
}

/// How to sign in at the remote agent.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
#[schemars(rename = "Auth")]
pub enum RemoteAuth {
    /// `Authorization: Bearer …`
    Bearer(ConfigSecret),
    ApiKey {
        /// The header it goes in. Default `X-Api-Key`.
        #[serde(default = "api_key_header")]
        header: String,
        key: ConfigSecret,
    },
    Basic {
        user: String,
        password: ConfigSecret,
    },
}

fn yes() -> bool {
    true
}

fn api_key_header() -> String {
    "X-Api-Key".to_owned()
}

fn generation<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Generation>, D::Error> {
    let text = Option::<String>::deserialize(d)?;
    text.map(|text| text.parse().map_err(de::Error::custom)).transpose()
}

impl Options {
    /// Options with a URL and defaults.
    pub fn new(url: impl Into<String>) -> Options {
        Options {
            url: url.into(),
            card_url: None,
            generation: None,
            binding: None,
            auth: None,
            headers: BTreeMap::new(),
            secret_headers: BTreeMap::new(),
            other_hosts: false,
            own_contexts: true,
            ask: AskMode::Auto,
            max_hops: None,
            connect_timeout_ms: None,
            first_byte_timeout_ms: None,
            idle_timeout_ms: None,
            patience_ms: None,
            unreachable_ms: None,
        }
    }

    /// Refuses values that are well formed but make no sense.
    pub fn check(&self) -> Result<(), String> {
        for (name, value, least, most) in [
            ("max_hops", self.max_hops.map(u64::from), 1, 1_000),
            ("connect_timeout_ms", self.connect_timeout_ms, 1, 3_600_000),
            ("first_byte_timeout_ms", self.first_byte_timeout_ms, 1, 24 * 3_600_000),
            ("idle_timeout_ms", self.idle_timeout_ms, 1, 24 * 3_600_000),
            ("patience_ms", self.patience_ms, 0, 24 * 3_600_000),
            ("unreachable_ms", self.unreachable_ms, 0, 24 * 3_600_000),
        ] {
            if let Some(value) = value
                && !(least..=most).contains(&value)
            {
                return Err(format!("{name}: {value} is out of range; choose a number from {least} to {most}"));
            }
        }
        client::Client::new(self.to_client()).map(drop).map_err(|error| error.to_string())
    }

    /// Whether the agent is on this machine.
    pub(super) fn is_local(&self) -> bool {
        self.to_client().is_local()
    }

    pub(super) fn max_hops(&self) -> u32 {
        self.max_hops.unwrap_or(delegation::MAX_HOPS)
    }

    pub(super) fn patience(&self) -> Duration {
        Duration::from_millis(self.patience_ms.unwrap_or(30_000))
    }

    /// How long to retry an agent that is unreachable and has accepted nothing.
    pub(super) fn unreachable(&self) -> Duration {
        Duration::from_millis(self.unreachable_ms.or(self.patience_ms).unwrap_or(2_500))
    }

    pub(super) fn to_client(&self) -> client::Options {
        let mut options = client::Options::new(&self.url);
        options.card_url.clone_from(&self.card_url);
        options.generation = self.generation;
        options.binding = self.binding.map(Into::into);
        options.other_hosts = self.other_hosts;
        options.auth = match &self.auth {
            None => PeerCredentials::None,
            Some(RemoteAuth::Bearer(token)) => PeerCredentials::Bearer(token.reveal().to_owned()),
            Some(RemoteAuth::ApiKey { header, key }) => {
                PeerCredentials::ApiKey { header: header.clone(), key: key.reveal().to_owned() }
            }
            Some(RemoteAuth::Basic { user, password }) => {
                PeerCredentials::Basic { user: user.clone(), password: password.reveal().to_owned() }
            }
        };
        let plain = self.headers.iter().map(|(name, value)| (name.clone(), value.clone()));
        let secret = self.secret_headers.iter().map(|(name, value)| (name.clone(), value.reveal().to_owned()));
        options.headers = plain.chain(secret).collect();
        let set = |slot: &mut Duration, ms: Option<u64>| {
            if let Some(ms) = ms {
                *slot = Duration::from_millis(ms);
            }
        };
        set(&mut options.timeouts.connect, self.connect_timeout_ms);
        set(&mut options.timeouts.first_byte, self.first_byte_timeout_ms);
        set(&mut options.timeouts.idle, self.idle_timeout_ms);
        options
    }

    /// The secrets to remove from every text that is passed on.
    pub(super) fn secrets(&self) -> Vec<String> {
        let auth = match &self.auth {
            None => None,
            Some(
                RemoteAuth::Bearer(secret)
                | RemoteAuth::ApiKey { key: secret, .. }
                | RemoteAuth::Basic { password: secret, .. },
            ) => Some(secret),
        };
        auth.into_iter().chain(self.secret_headers.values()).map(|secret| secret.reveal().to_owned()).collect()
    }
}

impl KindOptions for Options {
    fn check(&self) -> Result<(), Error> {
        Options::check(self).map_err(Error::new)
    }

    /// The binding finds the remote task again.
    fn resumes(&self) -> bool {
        true
    }

    fn merges(&self) -> bool {
        true
    }

    fn build<'a>(&'a self, name: &'a str, _common: &'a Common) -> Future<'a, Result<Arc<dyn Agent>, Error>> {
        Box::pin(async move {
            let remote = A2aAgent::connect(name, self.clone()).await.map_err(Error::new)?;
            Ok(Arc::new(remote) as Arc<dyn Agent>)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Options, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn an_agent_is_its_url_and_whatever_else_is_said() {
        let plain = read(r#"{"url":"https://a.example"}"#).unwrap();
        assert_eq!((plain.max_hops(), plain.patience(), plain.own_contexts), (8, Duration::from_secs(30), true));
        plain.check().unwrap();
        let grpc = read(r#"{"url":"grpcs://a.example:443/a2a/x","binding":"grpc"}"#).unwrap();
        assert_eq!(grpc.to_client().binding, Some(InterfaceBinding::Grpc));
        grpc.check().unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, "hunter2").unwrap();
        let secret = format!("file:{}", file.path().display());
        for auth in [
            format!(r#"{{"bearer":"{secret}"}}"#),
            format!(r#"{{"api_key":{{"key":"{secret}"}}}}"#),
            format!(r#"{{"basic":{{"user":"u","password":"{secret}"}}}}"#),
        ] {
            let text = format!(
                r#"{{"url":"https://a","generation":"0.2","auth":{auth},"secret_headers":{{"X-S":"{secret}"}},"max_hops":2}}"#
            );
            let options = read(&text).unwrap();
            assert_eq!((options.generation, options.max_hops()), (Some(Generation::V0_3), 2));
            assert_eq!(options.secrets(), ["hunter2", "hunter2"]);
            assert!(!format!("{options:?} {:?}", options.to_client()).contains("hunter2"), "{options:?}");
            options.check().unwrap();
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_to_do() {
        for (text, says) in [
            (r#"{"url":"https://a","token":"x"}"#, "unknown field `token`"),
            (r#"{"url":"https://a","generation":"9"}"#, "use 1.0, 0.3, 0.2 or 0.1"),
            (r#"{"url":"https://a","auth":{"bearer":"hunter2"}}"#, "write env:NAME or file:PATH"),
            (r#"{"url":"https://a","binding":"soap"}"#, "expected one of `json-rpc`, `http-json`, `grpc`"),
            (r#"{}"#, "url"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
        for (text, says) in [
            (r#"{"url":"a.example"}"#, "write https://host/path"),
            (r#"{"url":"grpc://"}"#, "grpc://host:port or grpcs://host:port"),
            (r#"{"url":"grpc://h:1","binding":"json-rpc"}"#, "is an address of gRPC"),
            (r#"{"url":"grpc://h:1","generation":"0.1"}"#, "A2A 0.1 has no form over GRPC"),
            (r#"{"url":"https://a","generation":"0.1","binding":"http-json"}"#, "A2A 0.1 has no form over HTTP+JSON"),
            (r#"{"url":"https://a","max_hops":0}"#, "max_hops: 0 is out of range"),
            (r#"{"url":"https://a","headers":{"a b":"x"}}"#, "no name of a header"),
        ] {
            let error = read(text).unwrap().check().unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn its_schema_knows_every_option() {
        let schema = serde_json::to_value(schemars::schema_for!(Options)).unwrap();
        let known = schema["properties"].as_object().unwrap();
        for name in ["url", "generation", "auth", "secret_headers", "patience_ms"] {
            assert!(known.contains_key(name), "{name}");
        }
        assert_eq!(schema["required"], serde_json::json!(["url"]));
    }
}
