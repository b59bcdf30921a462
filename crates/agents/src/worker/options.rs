//! The workers' secret, and the time limits of their leases.

use std::sync::Arc;

use model::ports::Future;
use model::ports::agent;
use schemars::JsonSchema;
use serde::Deserialize;

use super::WorkerAgent;
use crate::ConfigSecret;
use crate::config::{Common, Error, KindOptions, in_range};
use crate::powers::{Field, plain, secret};

/// Default number of attempts for a turn.
const ATTEMPTS: u32 = 3;
/// A shorter secret could be guessed. Failed guesses do not lock an address out, since workers may share one: a
/// single worker with an old secret would lock out all the others.
const SHORTEST_SECRET: usize = 16;

/// Its fields and their powers.
pub(super) const FIELDS: &[Field] = &[secret("secret"), plain("lease_ms"), plain("history")];

/// An agent whose turns are fetched by workers.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// What workers show as `Authorization: Bearer …`: `env:NAME` or `file:PATH`. It may be missing only where callers show
    /// nothing either and the server listens on loopback.
    pub(super) secret: Option<ConfigSecret>,
    /// How long a worker may be silent before its turn goes to another, in milliseconds. Default 30000.
    pub(super) lease_ms: Option<u64>,
    /// Tell it what was said in earlier tasks of the context. Default false.
    #[serde(default)]
    pub(super) history: bool,
}

impl Options {
    pub(super) fn lease_ms(&self) -> u64 {
        self.lease_ms.unwrap_or(30_000)
    }
}

impl KindOptions for Options {
    fn check(&self) -> Result<(), Error> {
        if self.secret.as_ref().is_some_and(|secret| secret.reveal().len() < SHORTEST_SECRET) {
            let says =
                "secret: it is too easy to guess; share one of 16 bytes or more, as `openssl rand -hex 16` makes it";
            return Err(Error::new(says));
        }
        in_range("lease_ms", self.lease_ms, 100, 24 * 3_600_000)
    }

    fn build<'a>(&'a self, name: &'a str, common: &'a Common) -> Future<'a, Result<Arc<dyn agent::Agent>, Error>> {
        let agent = WorkerAgent::new(name, self, common.attempts.unwrap_or(ATTEMPTS));
        Box::pin(async { Ok(Arc::new(agent) as Arc<dyn agent::Agent>) })
    }
}
