//! The demo's systems: one that anybody may call, and one that asks before it goes on.
//!
//! The token to the second is drawn once and stays in `demo.json`.

use std::path::Path;

use anyhow::Context;
use serde_json::{Map, Value};
use server::settings::{Key, Settings};
use systems::Systems;

use crate::{demo, demo_market};

pub(crate) const SECTION: &str = "orloj";
const TOKEN: &str = "token";

/// The one that the shared address means.
const PUBLIC: &str = "summarize";
/// The one with an approval.
const ASKS: &str = "publish";

const SYSTEMS: &str = r"
summarize:
  title: Summarize
  description: Reads a text and hands on what it makes of it. Two built-in agents, one after the other.
  a2a: { enabled: true, auth: public }
  graph:
    read: { agent: echo, next: summary }
    summary: { agent: scripted }
publish:
  title: Publish
  description: Drafts a text and asks before it is published.
  namespace: review
  a2a: { enabled: true, auth: bearer }
  graph:
    draft: { agent: echo, next: publication }
    publication: { agent: echo, approval: { ask: May it be published? } }
";

pub(crate) fn systems() -> anyhow::Result<Systems> {
    serde_saphyr::from_str(SYSTEMS).context("the demo's systems")
}

/// The token that was drawn before, else a new one.
pub(crate) fn token(data: &Path) -> anyhow::Result<String> {
    match demo::kept(data, SECTION, TOKEN) {
        Some(token) => Ok(token),
        None => Ok(format!("orl_{}", demo_market::drawn()?)),
    }
}

/// Lets in whoever has the token.
pub(crate) fn let_in(settings: &mut Settings, token: &str) {
    if let Some(orloj) = &mut settings.orloj {
        orloj.tokens.push(Key {
            name: "orloj-demo".into(),
            tenant: "default".into(),
            secret: token.to_owned(),
            scopes: [PUBLIC, ASKS].map(|system| format!("system:{system}")).into(),
            expires_at: None,
        });
    }
}

pub(crate) fn section(token: &str) -> Map<String, Value> {
    [("system", PUBLIC), (TOKEN, token)].into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_can_run_and_the_shared_address_means_one_of_them() {
        let systems = systems().unwrap();
        let names: Vec<&str> = systems.0.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, [PUBLIC, ASKS]);
        let builtin = |name: &str| agents::BUILTIN.iter().any(|known| known.name == name);
        for (name, system) in &systems.0 {
            system.check(builtin).unwrap_or_else(|wrong| panic!("{name}: {wrong:?}"));
        }
        assert_eq!(systems.0.iter().filter(|(_, system)| system.namespace() == "default").count(), 1);
    }

    #[test]
    fn the_token_stays_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let first = token(folder.path()).unwrap();
        assert_ne!(token(folder.path()).unwrap(), first, "nobody has been told of it yet");
        demo::write(folder.path(), "http://127.0.0.1:1", &[(SECTION, section(&first))]).unwrap();
        assert_eq!(token(folder.path()).unwrap(), first);
    }
}
