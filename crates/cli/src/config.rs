//! The config file: YAML, every field documented and with its unit, unknown keys refused with the nearest known name,
//! secrets by `env:NAME` or `file:PATH`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::command::{self, Whereabouts};
use crate::guard::{JwtIssuer, Mount, PolicyRule, Rates, Tls, Visibility};

/// The config of `rialto serve`. Everything has a default; a flag wins over the file.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    /// The address to listen on. Default `127.0.0.1:8080`. Another than loopback needs `auth.required`.
    pub(crate) listen: Option<SocketAddr>,
    /// The data folder. Default `./rialto-data`.
    pub(crate) data: Option<PathBuf>,
    /// Where callers reach the server, for cards; without it, what the request's `Forwarded` or `Host` says.
    pub(crate) public_url: Option<String>,
    /// The agent at the root. Default `echo`.
    pub(crate) default: Option<String>,
    /// The form of agent cards. Default `hybrid`.
    pub(crate) card: Option<Card>,
    /// Refuse requests that do not say `A2A-Version`. Default false.
    pub(crate) strict_version: bool,
    /// Whether an answer waits until the disk has it (`full`, the default) or only the operating system (`relaxed`: a
    /// power cut may take back the last moments, a crash of the process may not).
    pub(crate) durability: Option<Durability>,
    /// Let parts of any media type through to every agent, whatever its card says it reads. Default false.
    pub(crate) any_input_mode: bool,
    /// Memory for encoded settled tasks, in MiB. Default 128; 0 keeps none.
    pub(crate) cache_mib: Option<usize>,
    /// Threads that serve requests. Default: half the cores, at least one.
    pub(crate) workers: Option<usize>,
    pub(crate) auth: Auth,
    /// Who sees a task: everybody of its tenant (`tenant`, the default), only whoever opened it (`owner`), whoever opened
    /// it and those who take part (`parties`), or those whose credential is bound to the agent by a scope `system:NAME`
    /// (`systems`).
    pub(crate) visibility: Option<Visibility>,
    /// What is special about the mounts of some agents, by the agent's name.
    pub(crate) mounts: BTreeMap<String, Mount>,
    /// What callers may do. Without it, everything; with it, what a rule allows and none denies.
    pub(crate) policy: Option<Vec<PolicyRule>>,
    /// A certificate to serve https with. Default: plain http.
    pub(crate) tls: Option<Tls>,
    /// Networks of proxies whose word on the caller's address is taken, such as `10.0.0.0/8`. Default none.
    pub(crate) trusted_proxies: Vec<String>,
    pub(crate) cors: Cors,
    pub(crate) log: Log,
    pub(crate) timeouts: Timeouts,
    pub(crate) limits: Limits,
    pub(crate) scripted: Scripted,
    pub(crate) push: crate::push_config::Push,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Card {
    /// One document that readers of 1.0, 0.3, 0.2 and 0.1 accept.
    Hybrid,
    /// Members of protocol 1.0 only.
    Clean,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Durability {
    Full,
    Relaxed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// Who may call.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Auth {
    /// Refuse callers without a key or token. Default false.
    pub(crate) required: bool,
    pub(crate) keys: Vec<Key>,
    /// Issuers whose tokens (JWT) are read as `Authorization: Bearer TOKEN`.
    pub(crate) jwt: Vec<JwtIssuer>,
}

/// A key that callers send as `Authorization: Bearer KEY` or `X-Api-Key: KEY`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Key {
    /// What logs call the key's owner.
    pub(crate) name: String,
    /// Whose tasks its owner sees.
    pub(crate) tenant: String,
    /// Where the key is: `env:NAME` or `file:PATH`.
    pub(crate) key: String,
    /// What it is good for. Default everything.
    #[serde(default)]
    pub(crate) scopes: Vec<String>,
    /// When it ends, as in `2027-01-01T00:00:00Z`. Default never.
    #[serde(default)]
    pub(crate) expires_at: Option<String>,
}

/// Which pages in a browser may call.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Cors {
    /// Origins, such as `https://app.example.com`; `*` for any. Default none.
    pub(crate) origins: Vec<String>,
    /// Let pages on loopback addresses call. Default true without a config file, else false.
    pub(crate) loopback: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Log {
    /// `text` (default) or `json`.
    pub(crate) format: Option<LogFormat>,
    /// What is logged besides requests, as in `info` (default) or `warn,engine=debug`.
    pub(crate) level: Option<String>,
    /// One line a request. Default true.
    pub(crate) requests: Option<bool>,
}

/// In milliseconds.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Timeouts {
    /// For the first byte, a whole header, and between requests of a connection. Default 30000.
    pub(crate) header_ms: Option<u64>,
    /// For a whole body. Default 60000.
    pub(crate) body_ms: Option<u64>,
    /// For a caller to take what is sent. Default 60000.
    pub(crate) write_ms: Option<u32>,
    /// Between comment lines on a silent stream. Default 15000.
    pub(crate) heartbeat_ms: Option<u64>,
    /// For a turn of an agent. Default 3600000.
    pub(crate) turn_ms: Option<u64>,
    /// For an agent to stop after a cancel. Default 5000.
    pub(crate) cancel_grace_ms: Option<u64>,
    /// For running turns at a shutdown. Default 4000.
    pub(crate) drain_ms: Option<u64>,
}

/// How much of everything.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Limits {
    /// A request's body, in bytes. Default 10485760.
    pub(crate) body_bytes: Option<usize>,
    /// Nesting of a request's JSON. Default 128.
    pub(crate) json_depth: Option<usize>,
    /// Connections at a time. Default 10000.
    pub(crate) connections: Option<usize>,
    /// Turns at work at a time. Default 100000.
    pub(crate) running_turns: Option<usize>,
    /// What one turn may say, in bytes. Default 268435456.
    pub(crate) turn_bytes: Option<usize>,
    /// Messages waiting on a working task. Default 100.
    pub(crate) waiting_messages: Option<u32>,
    /// How often a turn is tried that crashes cut off. Default 3.
    pub(crate) attempts: Option<u32>,
    /// How long a settled task is kept, in hours. Default 720.
    pub(crate) retention_hours: Option<u64>,
    /// How long an Idempotency-Key is kept, in hours. Default 24.
    pub(crate) idempotency_hours: Option<u64>,
    /// The write-ahead log is written back above this, in MiB. Default 64.
    pub(crate) wal_mib: Option<u64>,
    pub(crate) rate: Rates,
    /// Streams of one caller at a time. Default unlimited.
    pub(crate) streams_per_caller: Option<u32>,
    /// Sends of one caller that wait for their task, at a time. Default unlimited.
    pub(crate) waiting_per_caller: Option<u32>,
    /// Calls of one caller in a day of UTC. Default unlimited.
    pub(crate) daily_calls: Option<u64>,
}

/// The scripted agent.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Scripted {
    /// `play` (default), or `ask`: every ordinary message ends input-required.
    pub(crate) mode: Option<String>,
}

impl Config {
    /// Reads the file, if one is named.
    pub(crate) fn load(path: Option<&Path>) -> anyhow::Result<Config> {
        let Some(path) = path else { return Ok(Config::default()) };
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the config {}; check --config", path.display()))?;
        Config::parse(&text).with_context(|| format!("the config {} is not right", path.display()))
    }

    pub(crate) fn parse(text: &str) -> anyhow::Result<Config> {
        if text.trim().is_empty()
            || text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'))
        {
            return Ok(Config::default());
        }
        serde_saphyr::from_str(text).map_err(|error| anyhow::anyhow!(with_nearest(&error.to_string())))
    }
}

/// Adds the nearest known name to a complaint about an unknown one: ``unknown field `lisen`, expected one of listen, …``.
fn with_nearest(complaint: &str) -> String {
    let first = complaint.lines().next().unwrap_or_default();
    let nearest = || -> Option<&str> {
        let (_, rest) = first.split_once("unknown ")?;
        let wrong = rest.split('`').nth(1)?;
        let (_, known) = rest.split_once("expected ")?;
        let known = known.strip_prefix("one of ").unwrap_or(known);
        let names = known.split([',', ' ', '`']).filter(|name| !name.is_empty() && *name != "or");
        names.max_by(|a, b| strsim::jaro_winkler(wrong, a).total_cmp(&strsim::jaro_winkler(wrong, b)))
    };
    match nearest() {
        Some(nearest) => format!("{complaint}\ndid you mean `{nearest}`?"),
        None => complaint.to_owned(),
    }
}

/// The secret behind `env:NAME` or `file:PATH`.
pub(crate) fn secret(reference: &str) -> anyhow::Result<String> {
    let secret = if let Some(name) = reference.strip_prefix("env:") {
        std::env::var(name).with_context(|| format!("set the environment variable {name}"))?
    } else if let Some(path) = reference.strip_prefix("file:") {
        std::fs::read_to_string(path).with_context(|| format!("cannot read the secret in {path}"))?
    } else {
        bail!("secrets do not belong into the config; write env:NAME or file:PATH and put the secret there");
    };
    let secret = secret.trim().to_owned();
    if secret.is_empty() {
        bail!("the secret {reference} is empty");
    }
    Ok(secret)
}

/// The data folder, as the flag or the config has it.
pub(crate) fn data_folder(whereabouts: &Whereabouts) -> anyhow::Result<PathBuf> {
    match &whereabouts.data {
        Some(data) => Ok(data.clone()),
        None => Ok(Config::load(whereabouts.config.as_deref())?.data.unwrap_or_else(|| "rialto-data".into())),
    }
}

pub(crate) fn run(command: &command::Config) -> anyhow::Result<()> {
    use std::io::Write;
    match command {
        command::Config::Check(whereabouts) => {
            let serve = command::Serve { whereabouts: whereabouts.clone(), ..command::Serve::default() };
            let plan = crate::serve::Plan::make(&serve)?;
            plan.settings()?;
            let what =
                whereabouts.config.as_ref().map_or("no config file: the defaults".into(), |c| c.display().to_string());
            writeln!(std::io::stdout(), "{what}: fine; it would listen on {}", plan.listen)?;
        }
        command::Config::Schema(_) => {
            let schema = schemars::schema_for!(Config);
            writeln!(std::io::stdout(), "{}", serde_json::to_string_pretty(&schema)?)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_key_is_refused_with_the_nearest_known_name() {
        let error = Config::parse("lisen: 127.0.0.1:1\n").unwrap_err().to_string();
        assert!(error.contains("did you mean `listen`?"), "{error}");
        let error = Config::parse("auth:\n  requird: true\n").unwrap_err().to_string();
        assert!(error.contains("did you mean `required`?"), "{error}");
        let error = Config::parse("durability: ful\n").unwrap_err().to_string();
        assert!(error.contains("did you mean `full`?"), "{error}");
    }

    #[test]
    fn the_line_of_a_mistake_is_named() {
        let error = Config::parse("listen: 127.0.0.1:1\nlimits:\n  attempts: many\n").unwrap_err().to_string();
        assert!(error.contains('3'), "{error}");
    }

    #[test]
    fn an_empty_config_is_the_default() {
        assert!(Config::parse("").unwrap().listen.is_none());
        assert!(Config::parse("# nothing\n").is_ok());
    }

    #[test]
    fn a_secret_in_the_file_itself_is_refused() {
        assert!(secret("hunter2").unwrap_err().to_string().contains("env:NAME"));
    }
}
