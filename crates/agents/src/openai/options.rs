//! The model, its address and its parameters.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::ports::Future;
use model::ports::agent;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{ModelServer, OpenAiAgent};
use crate::ConfigSecret;
use crate::config::{Common, Error, KindOptions, in_range};
use crate::outbound;
use crate::powers::{Field, plain, reaches, secret};

/// Its fields and their powers.
pub(super) const FIELDS: &[Field] = &[
    reaches("base_url"),
    plain("model"),
    secret("api_key"),
    plain("system"),
    plain("temperature"),
    plain("max_tokens"),
    plain("extra"),
    plain("headers"),
    secret("secret_headers"),
    plain("history_messages"),
    plain("history_bytes"),
    plain("files"),
    plain("retries"),
    plain("retry_ms"),
    plain("idle_timeout_ms"),
];

/// A model behind an OpenAI-compatible interface.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// What stands before `/chat/completions`, such as `https://api.openai.com/v1` or `http://127.0.0.1:11434/v1`.
    pub(super) base_url: String,
    /// The model's name there.
    pub(super) model: String,
    /// Sent as `Authorization: Bearer …`: `env:NAME` or `file:PATH`. Local servers need none.
    pub(super) api_key: Option<ConfigSecret>,
    /// What the model is told before everything else.
    pub(super) system: Option<String>,
    pub(super) temperature: Option<f64>,
    /// The longest answer, in tokens.
    pub(super) max_tokens: Option<u32>,
    /// Further members of the request, laid over ours; null takes one out.
    #[serde(default)]
    pub(super) extra: Map<String, Value>,
    /// Further headers.
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
    /// Further headers that are secret: each `env:NAME` or `file:PATH`.
    #[serde(default)]
    pub(super) secret_headers: BTreeMap<String, ConfigSecret>,
    /// How many earlier messages of the conversation it is told, at most. Default 50; 0 for none.
    pub(super) history_messages: Option<usize>,
    /// And how much of them, in bytes. Default 262144.
    pub(super) history_bytes: Option<usize>,
    /// What becomes of files that are no images: `note` (default) only mentions them, `send` sends them as `file` parts.
    #[serde(default)]
    pub(super) files: FileHandling,
    /// How often it is asked again, as long as it has not said a word. Default 2.
    pub(super) retries: Option<u32>,
    /// Before the first of these, in milliseconds; each further one waits twice as long. Default 500.
    pub(super) retry_ms: Option<u64>,
    /// How long it may be silent, in milliseconds. Default: as long as a turn may take.
    pub(super) idle_timeout_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "Files")]
pub(super) enum FileHandling {
    #[default]
    Note,
    Send,
}

impl KindOptions for Options {
    fn check(&self) -> Result<(), Error> {
        outbound::check_url("base_url", &self.base_url)?;
        if self.base_url.trim_end_matches('/').ends_with("/chat/completions") {
            return Err(Error::new("base_url: leave /chat/completions out, it is added"));
        }
        if self.model.trim().is_empty() {
            return Err(Error::new("model: name one"));
        }
        if self.temperature.is_some_and(|t| !(0.0..=2.0).contains(&t)) {
            return Err(Error::new("temperature: choose a number from 0 to 2"));
        }
        in_range("max_tokens", self.max_tokens.map(u64::from), 1, u64::from(u32::MAX))?;
        in_range("retries", self.retries.map(u64::from), 0, 1_000)?;
        in_range("retry_ms", self.retry_ms, 1, 60_000)?;
        in_range("idle_timeout_ms", self.idle_timeout_ms, 1, 86_400_000)?;
        outbound::headers(&self.headers, &self.secret_headers, self.api_key.as_ref()).map(drop)
    }

    fn merges(&self) -> bool {
        true
    }

    fn build<'a>(&'a self, name: &'a str, common: &'a Common) -> Future<'a, Result<Arc<dyn agent::Agent>, Error>> {
        Box::pin(async move {
            let headers = outbound::headers(&self.headers, &self.secret_headers, self.api_key.as_ref())?;
            let remote = ModelServer {
                client: outbound::client(self.idle_timeout_ms, headers)?,
                url: format!("{}/chat/completions", self.base_url.trim_end_matches('/')),
                output_bytes: common.max_output_bytes(),
                options: self.clone(),
            };
            Ok(Arc::new(OpenAiAgent::new(name, remote)) as Arc<dyn agent::Agent>)
        })
    }
}
