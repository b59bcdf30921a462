//! The built-in agents as kinds of the config: `kind: echo` and `kind: scripted`, under any name.

use std::sync::Arc;

use model::ports::Future;
use model::ports::agent::Agent;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::{Backend, Common, Error, Kind};
use crate::powers::plain;
use crate::{echo, scripted};

pub(crate) const ECHO: Kind = Kind::of::<Echo>("echo", echo::BUILTIN.says, &[]);
pub(crate) const SCRIPTED: Kind = Kind::of::<Scripted>("scripted", scripted::BUILTIN.says, &[plain("mode")]);

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Echo {}

impl Backend for Echo {
    fn build<'a>(&'a self, _: &'a str, _: &'a Common) -> Future<'a, Result<Arc<dyn Agent>, Error>> {
        Box::pin(async { Ok(Arc::new(echo::Agent::new()) as Arc<dyn Agent>) })
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scripted {
    /// `play` (default), or `ask`: every ordinary message ends input-required.
    mode: Option<String>,
}

impl Scripted {
    fn mode(&self) -> Result<scripted::Mode, Error> {
        let mode = self.mode.as_deref().map(str::parse).transpose();
        mode.map(Option::unwrap_or_default).map_err(|says| Error::new(format!("mode: {says}")))
    }
}

impl Backend for Scripted {
    fn check(&self) -> Result<(), Error> {
        self.mode().map(drop)
    }
    fn build<'a>(&'a self, _: &'a str, _: &'a Common) -> Future<'a, Result<Arc<dyn Agent>, Error>> {
        Box::pin(async { Ok(Arc::new(scripted::Agent::new(self.mode()?)) as Arc<dyn Agent>) })
    }
}
