//! Address, credentials and limits of the endpoint.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::ports::Future;
use model::ports::agent;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Endpoint, HttpAgent, sign};
use crate::ConfigSecret;
use crate::config::{Common, Error, KindOptions, RestartRule, in_range};
use crate::outbound;
use crate::powers::{Field, plain, reaches, secret};

/// Its fields and their powers.
pub(super) const FIELDS: &[Field] = &[
    reaches("url"),
    reaches("cancel_url"),
    secret("bearer"),
    plain("headers"),
    secret("secret_headers"),
    secret("secret"),
    plain("history"),
    plain("direct_replies"),
    plain("retries"),
    plain("retry_ms"),
    plain("idle_timeout_ms"),
];

/// An endpoint that turns are POSTed to.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Where turns are POSTed to.
    pub(super) url: String,
    /// Where `{turn, task, context, reason}` is POSTed to when a turn is cancelled. Default: the request is only closed.
    pub(super) cancel_url: Option<String>,
    /// Sent as `Authorization: Bearer …`: `env:NAME` or `file:PATH`.
    pub(super) bearer: Option<ConfigSecret>,
    /// Further headers.
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
    /// Further headers that are secret, such as an API key: each `env:NAME` or `file:PATH`.
    #[serde(default)]
    pub(super) secret_headers: BTreeMap<String, ConfigSecret>,
    /// Signs each request as Standard Webhooks do (`webhook-id`, `webhook-timestamp`, `webhook-signature`): `env:NAME` or
    /// `file:PATH`. A value that begins with `whsec_` is base64.
    pub(super) secret: Option<ConfigSecret>,
    /// Tell it what was said in earlier tasks of the context. Default false.
    #[serde(default)]
    pub(super) history: bool,
    /// It may answer with a `message` instead of a task. Nobody sees a task before it first speaks. Default false.
    #[serde(default)]
    pub(super) direct_replies: bool,
    /// How often a turn is sent again, under the same id, when the endpoint cannot be reached, is busy (429, 502, 503, 504) or
    /// breaks off. Default 3.
    pub(super) retries: Option<u32>,
    /// Before the first of these, in milliseconds; each further one waits twice as long. Default 500.
    pub(super) retry_ms: Option<u64>,
    /// How long it may be silent, in milliseconds. Default: as long as a turn may take.
    pub(super) idle_timeout_ms: Option<u64>,
}

impl KindOptions for Options {
    fn check(&self) -> Result<(), Error> {
        outbound::check_url("url", &self.url)?;
        if let Some(url) = &self.cancel_url {
            outbound::check_url("cancel_url", url)?;
        }
        if let Some(secret) = &self.secret {
            sign::key(secret).map_err(|says| Error::new(format!("secret: {says}")))?;
        }
        in_range("retries", self.retries.map(u64::from), 0, 1_000)?;
        in_range("retry_ms", self.retry_ms, 1, 60_000)?;
        in_range("idle_timeout_ms", self.idle_timeout_ms, 1, 86_400_000)?;
        outbound::headers(&self.headers, &self.secret_headers, self.bearer.as_ref()).map(drop)
    }

    fn build<'a>(&'a self, name: &'a str, common: &'a Common) -> Future<'a, Result<Arc<dyn agent::Agent>, Error>> {
        Box::pin(async move {
            let headers = outbound::headers(&self.headers, &self.secret_headers, self.bearer.as_ref())?;
            let endpoint = Endpoint {
                client: outbound::client(self.idle_timeout_ms, headers)?,
                output_bytes: common.max_output_bytes(),
                retry: common.restart.is_none_or(|rule| rule == RestartRule::Retry),
                options: self.clone(),
            };
            Ok(Arc::new(HttpAgent::new(name, endpoint)) as Arc<dyn agent::Agent>)
        })
    }
}
