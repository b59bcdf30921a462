//! The demo's systems: a public one, and one that asks for approval.
//!
//! The tokens, one for the second system and one for changing resources, are generated once and stay in
//! `demo.json`.

use std::path::Path;

use crate::SystemsSettings;
use anyhow::Context;
use futures_util::future::BoxFuture;
use gateway::GatewayVersion;
use gateway::product::Demo;
use gateway::product::config::drawn;
use gateway::product::demo_file;
use gateway::settings::KeySettings;
use serde_json::{Map, Value};
use systems_graph::Systems;

pub const SECTION: &str = "orloj";
const TOKEN: &str = "token";
const ADMIN: &str = "admin_token";

/// The system at the shared address.
const PUBLIC: &str = "summarize";
/// The system with an approval.
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

pub fn systems() -> anyhow::Result<Systems> {
    serde_saphyr::from_str(SYSTEMS).context("the demo's systems")
}

#[derive(Clone)]
pub struct Tokens {
    calls: String,
    changes: String,
}

/// The tokens in `demo.json`, else new ones.
pub fn tokens(data: &Path) -> anyhow::Result<Tokens> {
    let token = |member: &str| match demo_file::member(data, SECTION, member) {
        Some(token) => anyhow::Ok(token),
        None => Ok(format!("orl_{}", drawn()?)),
    };
    Ok(Tokens { calls: token(TOKEN)?, changes: token(ADMIN)? })
}

/// Adds the tokens to the settings.
pub fn let_in(orloj: &mut SystemsSettings, tokens: &Tokens) {
    let systems = [PUBLIC, ASKS].map(|system| format!("system:{system}")).into();
    // A token without scopes permits everything.
    for (name, secret, scopes) in
        [("orloj-demo", &tokens.calls, systems), ("orloj-demo-admin", &tokens.changes, Vec::new())]
    {
        let (name, tenant) = (name.into(), "default".into());
        orloj.tokens.push(KeySettings { name, tenant, secret: secret.clone(), scopes, expires_at: None });
    }
}

pub fn section(tokens: &Tokens) -> Map<String, Value> {
    [("system", PUBLIC), (TOKEN, &tokens.calls), (ADMIN, &tokens.changes)]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.into()))
        .collect()
}

impl Demo for Tokens {
    fn name(&self) -> &'static str {
        SECTION
    }

    fn section<'a>(&'a self, _server: &'a GatewayVersion) -> BoxFuture<'a, anyhow::Result<Map<String, Value>>> {
        Box::pin(std::future::ready(Ok(section(self))))
    }

    fn open<'a>(&'a self, _all: &'a Map<String, Value>) -> BoxFuture<'a, anyhow::Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }
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
    fn the_tokens_stay_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let drawn = || section(&tokens(folder.path()).unwrap());
        let first = drawn();
        assert_ne!(drawn(), first, "nobody has been told of them yet");
        assert_ne!(first[TOKEN], first[ADMIN]);
        demo_file::write(folder.path(), "http://127.0.0.1:1", &[(SECTION, first.clone())]).unwrap();
        assert_eq!(drawn(), first);
    }
}
