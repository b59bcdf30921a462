//! Address of the graph server, and the assistant to call.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::ports::Future;
use model::ports::agent;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use schemars::JsonSchema;
use serde::Deserialize;

use super::LanggraphAgent;
use super::server::GraphServer;
use crate::config::{Common, Error, KindOptions, in_range};
use crate::powers::{Field, plain, reaches, secret};
use crate::{ConfigSecret, outbound};

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Its fields and their powers.
pub(super) const FIELDS: &[Field] = &[
    reaches("url"),
    plain("assistant"),
    secret("api_key"),
    plain("headers"),
    secret("secret_headers"),
    plain("stream_mode"),
    plain("retries"),
    plain("retry_ms"),
    plain("idle_timeout_ms"),
];

/// An assistant of a LangGraph server.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// The server, such as `http://127.0.0.1:2024`.
    pub(super) url: String,
    /// The assistant: its id, or the name of its graph.
    pub(super) assistant: String,
    /// Sent as `X-Api-Key`: `env:NAME` or `file:PATH`.
    pub(super) api_key: Option<ConfigSecret>,
    /// Further headers.
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
    /// Further headers that are secret: each `env:NAME` or `file:PATH`.
    #[serde(default)]
    pub(super) secret_headers: BTreeMap<String, ConfigSecret>,
    /// How its words come: `messages-tuple` (default), word by word; `messages`, the same for servers that lack the former;
    /// `values`, the answer when it is whole.
    #[serde(default)]
    pub(super) stream_mode: StreamMode,
    /// How often it is tried again, one try after another, when the server cannot be reached or is busy (429, 502, 503, 504).
    /// Default 3.
    pub(super) retries: Option<u32>,
    /// Before the first of these, in milliseconds; each further one waits twice as long. Default 500.
    pub(super) retry_ms: Option<u64>,
    /// How long a stream may be silent before the run is looked after, in milliseconds. Default 60000.
    pub(super) idle_timeout_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StreamMode {
    #[default]
    MessagesTuple,
    Messages,
    Values,
}

impl StreamMode {
    /// The stream modes of a run. Values carry the answer, updates the questions.
    pub(super) fn modes(self) -> &'static [&'static str] {
        match self {
            StreamMode::MessagesTuple => &["messages-tuple", "values", "updates"],
            StreamMode::Messages => &["messages", "values", "updates"],
            StreamMode::Values => &["values", "updates"],
        }
    }
}

impl Options {
    fn all_headers(&self) -> Result<HeaderMap, Error> {
        let mut headers = outbound::headers(&self.headers, &self.secret_headers, None)?;
        if let Some(key) = &self.api_key {
            let mut value = HeaderValue::from_str(key.reveal())
                .map_err(|_| Error::new("api_key: it has characters that no header may have"))?;
            value.set_sensitive(true);
            if headers.insert(API_KEY, value).is_some() {
                return Err(Error::new("headers: x-api-key is what api_key sets; leave one of them out"));
            }
        }
        Ok(headers)
    }

    pub(super) fn retry_ms(&self) -> u64 {
        self.retry_ms.unwrap_or(500)
    }
}

impl KindOptions for Options {
    fn check(&self) -> Result<(), Error> {
        outbound::check_url("url", &self.url)?;
        if self.assistant.trim().is_empty() {
            return Err(Error::new("assistant: name an assistant by its id, or by its graph"));
        }
        in_range("retries", self.retries.map(u64::from), 0, 1_000)?;
        in_range("retry_ms", self.retry_ms, 1, 60_000)?;
        in_range("idle_timeout_ms", self.idle_timeout_ms, 1, 86_400_000)?;
        self.all_headers().map(drop)
    }

    fn resumes(&self) -> bool {
        true
    }

    fn merges(&self) -> bool {
        true
    }

    fn build<'a>(&'a self, name: &'a str, common: &'a Common) -> Future<'a, Result<Arc<dyn agent::Agent>, Error>> {
        Box::pin(async move {
            let client = outbound::client(Some(self.idle_timeout_ms.unwrap_or(60_000)), self.all_headers()?)?;
            let server = GraphServer::new(client, self.url.trim_end_matches('/'), common.max_output_bytes());
            Ok(Arc::new(LanggraphAgent::new(name, server, self.clone())) as Arc<dyn agent::Agent>)
        })
    }
}
