//! The program, its working directory and its environment.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::ports::Future;
use model::ports::agent;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de};

use super::CommandAgent;
use crate::config::{Common, Error, KindOptions, in_range};
use crate::powers::{Field, plain, runs, runs_with_secrets};
use crate::{ConfigSecret, shell};

/// Its fields and their powers.
pub(super) const FIELDS: &[Field] = &[
    runs("command"),
    plain("mode"),
    runs("cwd"),
    runs("env"),
    runs_with_secrets("secrets"),
    runs_with_secrets("inherit_env"),
    plain("chunk"),
    plain("media_type"),
    plain("history"),
    plain("direct_replies"),
    plain("kill_after_ms"),
];

/// A program that is run for each turn.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// The program and its arguments: a list, or a line that is split at its spaces, with quotes as in a shell. No shell
    /// runs it; write `sh -c '…'` for one.
    #[serde(alias = "run", deserialize_with = "line_or_list")]
    #[schemars(with = "LineOrList")]
    pub(super) command: Vec<String>,
    /// `text` (default): the message's text comes on stdin, what is printed is the answer. `jsonl`: one JSON line comes on
    /// stdin, and each line printed is an event.
    #[serde(default)]
    pub(super) mode: CommandMode,
    /// The folder it runs in. Default: the server's.
    pub(super) cwd: Option<PathBuf>,
    /// Environment variables it gets besides `A2A_…`, PATH, HOME, LANG, TMPDIR and TZ.
    #[serde(default)]
    pub(super) env: BTreeMap<String, String>,
    /// Further ones that are secret: each `env:NAME` or `file:PATH`. Never shown, not even in what it complains of.
    #[serde(default)]
    pub(super) secrets: BTreeMap<String, ConfigSecret>,
    /// Let it have the server's whole environment. Default false.
    #[serde(default)]
    pub(super) inherit_env: bool,
    /// In text mode: what parts the output into chunks, such as "\n"; it is not itself part of them. Default: the output is
    /// sent on as it comes.
    pub(super) chunk: Option<String>,
    /// In text mode: the media type of an output that is no text, such as `image/png`. It is sent when it is whole.
    pub(super) media_type: Option<String>,
    /// In jsonl mode: tell it what was said in earlier tasks of the context. Default false.
    #[serde(default)]
    pub(super) history: bool,
    /// In jsonl mode: it may answer with a `message` instead of a task. Nobody sees a task before it first speaks.
    /// Default false.
    #[serde(default)]
    pub(super) direct_replies: bool,
    /// How long it may take to stop after SIGTERM, before SIGKILL, in milliseconds. Default 2000.
    pub(super) kill_after_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "Mode")]
pub enum CommandMode {
    #[default]
    Text,
    Jsonl,
}

#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum LineOrList {
    Line(String),
    List(Vec<String>),
}

pub(crate) fn line_or_list<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<String>, D::Error> {
    match LineOrList::deserialize(d).map_err(|_| de::Error::custom("write a line, or a list of texts"))? {
        LineOrList::Line(line) => shell::split(&line).map_err(de::Error::custom),
        LineOrList::List(words) => Ok(words),
    }
}

impl KindOptions for Options {
    fn check(&self) -> Result<(), Error> {
        let Some(program) = self.command.first().filter(|program| !program.is_empty()) else {
            return Err(Error::new("command: name a program"));
        };
        if let Some(cwd) = &self.cwd
            && !cwd.is_dir()
        {
            return Err(Error::new(format!("cwd: there is no folder {}", cwd.display())));
        }
        if !is_found(program, self.cwd.as_deref(), &self.env) {
            return Err(Error::new(format!("command: there is no program {program:?}; check its path and mode")));
        }
        let names = self.env.keys().chain(self.secrets.keys());
        if let Some(bad) = names.clone().find(|name| name.is_empty() || name.contains(['=', '\0'])) {
            return Err(Error::new(format!("env: {bad:?} cannot be the name of a variable")));
        }
        if let Some(ours) = names.clone().find(|name| name.starts_with("A2A_")) {
            return Err(Error::new(format!("env: {ours} is set for each turn; choose another name")));
        }
        if self.chunk.as_deref() == Some("") {
            return Err(Error::new("chunk: what parts the output cannot be empty"));
        }
        let text_only = [("chunk", self.chunk.is_some()), ("media_type", self.media_type.is_some())];
        let jsonl_only = [("history", self.history), ("direct_replies", self.direct_replies)];
        let misplaced = match self.mode {
            CommandMode::Text => jsonl_only,
            CommandMode::Jsonl => text_only,
        };
        if let Some((name, _)) = misplaced.into_iter().find(|(_, set)| *set) {
            let other = if self.mode == CommandMode::Text { "jsonl" } else { "text" };
            return Err(Error::new(format!("{name} means something only with mode: {other}")));
        }
        in_range("kill_after_ms", self.kill_after_ms, 0, 3_600_000)
    }

    fn merges(&self) -> bool {
        self.mode == CommandMode::Text && self.chunk.is_none()
    }

    fn build<'a>(&'a self, name: &'a str, common: &'a Common) -> Future<'a, Result<Arc<dyn agent::Agent>, Error>> {
        let agent = CommandAgent::new(name, self.clone(), self.command.clone(), common.max_output_bytes());
        Box::pin(async { Ok(Arc::new(agent) as Arc<dyn agent::Agent>) })
    }
}

/// Whether the program exists now, so that a typo shows at startup and not in the first turn.
pub(crate) fn is_found(program: &str, cwd: Option<&Path>, env: &BTreeMap<String, String>) -> bool {
    if program.contains('/') {
        return cwd.unwrap_or(Path::new("")).join(program).is_file();
    }
    let path = env.get("PATH").map(Into::into).or_else(|| std::env::var_os("PATH")).unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
