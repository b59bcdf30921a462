//! The built-in agents as kinds of the config: `kind: echo` and `kind: scripted`, under any name.

use std::sync::Arc;

use model::ports::Future;
use model::ports::agent::Agent;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::{AgentKind, Common, Error, KindOptions};
use crate::powers::plain;
use crate::{echo, scripted};

pub(crate) const ECHO: AgentKind = AgentKind::of::<EchoOptions>("echo", echo::BUILTIN.says, &[]);
pub(crate) const SCRIPTED: AgentKind =
    AgentKind::of::<ScriptedOptions>("scripted", scripted::BUILTIN.says, &[plain("mode")]);

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Echo")]
pub(crate) struct EchoOptions {}

impl KindOptions for EchoOptions {
    fn build<'a>(&'a self, _: &'a str, _: &'a Common) -> Future<'a, Result<Arc<dyn Agent>, Error>> {
        Box::pin(async { Ok(Arc::new(echo::EchoAgent::new()) as Arc<dyn Agent>) })
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Scripted")]
pub(crate) struct ScriptedOptions {
    /// `play` (default), or `ask`: every ordinary message ends input-required.
    mode: Option<String>,
}

impl ScriptedOptions {
    fn mode(&self) -> Result<scripted::ScriptedMode, Error> {
        let mode = self.mode.as_deref().map(str::parse).transpose();
        mode.map(Option::unwrap_or_default).map_err(|says| Error::new(format!("mode: {says}")))
    }
}

impl KindOptions for ScriptedOptions {
    fn check(&self) -> Result<(), Error> {
        self.mode().map(drop)
    }
    fn build<'a>(&'a self, _: &'a str, _: &'a Common) -> Future<'a, Result<Arc<dyn Agent>, Error>> {
        Box::pin(async { Ok(Arc::new(scripted::ScriptedAgent::new(self.mode()?)) as Arc<dyn Agent>) })
    }
}
