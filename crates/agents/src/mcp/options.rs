//! Address of the MCP server, or the command that starts it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use model::ports::Future;
use model::ports::agent;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use super::{McpAgent, shared::Shared};
use crate::command::options::{LineOrList, is_found, line_or_list};
use crate::config::{Common, Error, KindOptions, in_range};
use crate::powers::{Field, plain, reaches, runs, runs_with_secrets, secret};
use crate::{ConfigSecret, outbound};

/// Default time that startup waits for the tools on the card. Longer in tests, for busy machines.
const FIRST_LOOK_MS: u64 = if cfg!(test) { 30_000 } else { 2_000 };

/// Its fields and their powers.
pub(super) const FIELDS: &[Field] = &[
    runs("command"),
    runs("cwd"),
    runs("env"),
    runs_with_secrets("secrets"),
    runs_with_secrets("inherit_env"),
    reaches("url"),
    plain("headers"),
    secret("secret_headers"),
    secret("bearer"),
    plain("tools"),
    plain("connect_ms"),
    plain("first_look_ms"),
    plain("answer_ms"),
    plain("open_questions"),
];

/// The tools of an MCP server.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// The program of a server that speaks over stdin and stdout: a list, or a line that is split at its spaces, with
    /// quotes as in a shell.
    #[serde(default, deserialize_with = "some_line_or_list")]
    #[schemars(with = "Option<LineOrList>")]
    pub(super) command: Option<Vec<String>>,
    /// The folder it runs in. Default: the server's.
    pub(super) cwd: Option<PathBuf>,
    /// Environment variables it gets besides PATH, HOME, LANG, TMPDIR and TZ.
    #[serde(default)]
    pub(super) env: BTreeMap<String, String>,
    /// Further ones that are secret: each `env:NAME` or `file:PATH`.
    #[serde(default)]
    pub(super) secrets: BTreeMap<String, ConfigSecret>,
    /// Let it have the server's whole environment. Default false.
    #[serde(default)]
    pub(super) inherit_env: bool,
    /// The address of a server that speaks streamable HTTP.
    pub(super) url: Option<String>,
    /// Further headers.
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
    /// Further headers that are secret, such as an API key: each `env:NAME` or `file:PATH`.
    #[serde(default)]
    pub(super) secret_headers: BTreeMap<String, ConfigSecret>,
    /// Sent as `Authorization: Bearer …`: `env:NAME` or `file:PATH`.
    pub(super) bearer: Option<ConfigSecret>,
    /// The tools that may be called. Default: all that the server has.
    pub(super) tools: Option<Vec<String>>,
    /// How long the server may take until it can be spoken to, in milliseconds. Default 30000.
    pub(super) connect_ms: Option<u64>,
    /// How long the start of Rialto waits for the tools that the card shows, in milliseconds. Default 2000.
    pub(super) first_look_ms: Option<u64>,
    /// How long a tool that asks its caller something is kept waiting for the answer, in milliseconds. Default 600000.
    pub(super) answer_ms: Option<u64>,
    /// How many such tools are kept waiting at a time; above it the oldest is given up. Default 16.
    pub(super) open_questions: Option<u32>,
}

fn some_line_or_list<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Vec<String>>, D::Error> {
    line_or_list(d).map(Some)
}

impl Options {
    pub(super) fn connect_time(&self) -> Duration {
        Duration::from_millis(self.connect_ms.unwrap_or(30_000))
    }
    fn first_look(&self) -> Duration {
        Duration::from_millis(self.first_look_ms.unwrap_or(FIRST_LOOK_MS))
    }
    pub(super) fn answer_time(&self) -> Duration {
        Duration::from_millis(self.answer_ms.unwrap_or(600_000))
    }
    pub(super) fn open_questions(&self) -> usize {
        self.open_questions.unwrap_or(16) as usize
    }
}

impl KindOptions for Options {
    fn check(&self) -> Result<(), Error> {
        match (&self.command, &self.url) {
            (Some(words), None) if words.first().is_none_or(String::is_empty) => {
                return Err(Error::new("command: name a program"));
            }
            (Some(_), None) => {
                let misplaced = [
                    ("headers", !self.headers.is_empty()),
                    ("secret_headers", !self.secret_headers.is_empty()),
                    ("bearer", self.bearer.is_some()),
                ];
                if let Some((name, _)) = misplaced.into_iter().find(|(_, set)| *set) {
                    return Err(Error::new(format!("{name} means something only with url")));
                }
            }
            (None, Some(url)) => {
                let misplaced = [
                    ("cwd", self.cwd.is_some()),
                    ("env", !self.env.is_empty()),
                    ("secrets", !self.secrets.is_empty()),
                    ("inherit_env", self.inherit_env),
                ];
                if let Some((name, _)) = misplaced.into_iter().find(|(_, set)| *set) {
                    return Err(Error::new(format!("{name} means something only with command")));
                }
                outbound::check_url("url", url)?;
            }
            (None, None) => return Err(Error::new("an MCP server needs a command that starts it, or a url")),
            (Some(_), Some(_)) => return Err(Error::new("an MCP server has a command or a url; leave one out")),
        }
        if let Some(cwd) = &self.cwd
            && !cwd.is_dir()
        {
            return Err(Error::new(format!("cwd: there is no folder {}", cwd.display())));
        }
        if let Some(program) = self.command.as_ref().and_then(|words| words.first())
            && !is_found(program, self.cwd.as_deref(), &self.env)
        {
            return Err(Error::new(format!("command: there is no program {program:?}; check its path and mode")));
        }
        if let Some(bad) =
            self.env.keys().chain(self.secrets.keys()).find(|name| name.is_empty() || name.contains(['=', '\0']))
        {
            return Err(Error::new(format!("env: {bad:?} cannot be the name of a variable")));
        }
        in_range("connect_ms", self.connect_ms, 1, 3_600_000)?;
        in_range("first_look_ms", self.first_look_ms, 1, 3_600_000)?;
        in_range("answer_ms", self.answer_ms, 1, 7 * 24 * 3_600_000)?;
        in_range("open_questions", self.open_questions.map(u64::from), 0, 100_000)?;
        outbound::headers(&self.headers, &self.secret_headers, self.bearer.as_ref()).map(drop)
    }

    fn build<'a>(&'a self, name: &'a str, _: &'a Common) -> Future<'a, Result<Arc<dyn agent::Agent>, Error>> {
        Box::pin(async move {
            let shared = Arc::new(Shared::new(self.clone())?);
            // A server that is down shows with the first call; Rialto starts all the same.
            match tokio::time::timeout(self.first_look(), shared.session()).await {
                Ok(Ok(session)) => shared.put_back(session),
                Ok(Err(trouble)) => tracing::warn!(agent = name, "its card shows no tools: {trouble}"),
                Err(_) => tracing::warn!(
                    agent = name,
                    "its card shows no tools: the MCP server takes its time; allow more with first_look_ms"
                ),
            }
            Ok(Arc::new(McpAgent::new(name, shared)) as Arc<dyn agent::Agent>)
        })
    }
}
