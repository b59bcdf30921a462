//! The config file: YAML, with every field and its unit documented. Unknown keys are refused with the nearest known
//! name; secrets are written as `env:NAME` or `file:PATH`.
//!
//! * `effective`: every value in force with its source
//! * `mistakes`: all mistakes of a file, each with its line and key
//! * `shape`: compares a file with the config's schema
//! * `tree`: the file's values with their lines

mod effective;
mod mistakes;
mod shape;
mod tree;

use std::any::Any;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agents::Agents;
use gateway::product::Sections;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

pub(crate) use gateway::product::config::{nearest, secret, with_nearest};

pub(crate) use self::effective::effective;
use self::mistakes::Mistakes;
pub(crate) use self::mistakes::{Collected, in_file};
use self::tree::Node;
use crate::command::{self, DataArgs};
use crate::guard::{JwtIssuer, Mount, PolicyRule, Rates, Tls, VisibilityConfig};
use crate::store::StoreLocation;

/// The config of `rialto serve`. Everything has a default; a flag wins over the file.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    /// The address to listen on: `127.0.0.1:8080` (the default), or a port alone on loopback as `8080`, `:8080` or
    /// `localhost:8080`. On an address that other machines reach, such as `0.0.0.0:8080`, callers need a key.
    #[serde(deserialize_with = "crate::listen::read")]
    #[schemars(with = "crate::listen::Address")]
    pub(crate) listen: Option<SocketAddr>,
    /// The data folder. Default `./rialto-data`.
    pub(crate) data: Option<PathBuf>,
    /// Where tasks are kept: `sqlite` (in the data folder, the default), or a PostgreSQL database that replicas share, as
    /// `postgres://user@host/database`, or `env:NAME` or `file:PATH` where that is.
    #[schemars(with = "Option<crate::store::StoreForms>")]
    pub(crate) store: Option<StoreLocation>,
    /// Where callers reach the server, for cards; without it, what a trusted proxy or the request's `Host` says.
    pub(crate) public_url: Option<String>,
    /// The agent at the root. Default: the first of `agents`.
    pub(crate) default: Option<String>,
    /// The agents served, by name: a `kind` and its options. Default: the demo's, of which `echo` is the first.
    #[serde(deserialize_with = "given")]
    pub(crate) agents: Option<Agents>,
    /// The same as they are written, to tell those that changed from those that did not.
    #[serde(skip)]
    #[schemars(skip)]
    pub(crate) written: BTreeMap<String, Value>,
    /// The file as it is written, with its lines; none without a file.
    #[serde(skip)]
    #[schemars(skip)]
    pub(crate) tree: Option<Arc<Node>>,
    /// Graphs of agents that are agents themselves, by name. Default none.
    #[cfg(feature = "systems")]
    pub(crate) systems: systems::Systems,
    /// gRPC: its place on cards, and an address of its own.
    pub(crate) grpc: crate::grpc_config::Grpc,
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
    pub(crate) auth: AuthConfig,
    /// Who sees a task: everybody of its tenant (`tenant`, the default), only whoever opened it (`owner`), whoever opened
    /// it and those who take part (`parties`), or those whose credential is bound to the agent by a scope `system:NAME`
    /// (`systems`).
    pub(crate) visibility: Option<VisibilityConfig>,
    /// What is special about the mounts of some agents, by the agent's name.
    pub(crate) mounts: BTreeMap<String, Mount>,
    /// What callers may do. Without it, everything; with it, what a rule allows and none denies.
    pub(crate) policy: Option<Vec<PolicyRule>>,
    /// A certificate to serve https with. Default: plain http.
    pub(crate) tls: Option<Tls>,
    /// Networks of proxies whose word is taken on the caller's address and on the server's, such as `10.0.0.0/8`. Default none.
    pub(crate) trusted_proxies: Vec<String>,
    pub(crate) cors: Cors,
    /// The admin API at `/api/admin/v1`, for operators.
    pub(crate) console: Console,
    /// LangSmith's A2A endpoint at `/langgraph/a2a/{assistant}`, for every agent. There if this section is.
    #[cfg(feature = "assistants")]
    pub(crate) langgraph: Option<assistants::Langgraph>,
    /// The market: UUMit's capabilities, purchases and wallets at `/api/v1`, `/uumit` and `/a2a`. `true`, or how it deals.
    /// Default false; the demo has one.
    #[cfg(feature = "market")]
    #[schemars(with = "Option<market::config::MarketForms>")]
    pub(crate) market: Option<market::config::Switch>,
    /// Orloj's endpoints at `/orloj`, `/v1/agent-systems` and `/a2a`, for systems with `a2a: { enabled: true }`. There if
    /// this section is.
    #[cfg(feature = "systems")]
    pub(crate) orloj: Option<systems::config::Orloj>,
    /// Aly's endpoints at `/api/a2a`, `/oauth` and `/aly`, for one agent. There if this section is.
    #[cfg(feature = "shop")]
    pub(crate) aly: Option<shop::config::Aly>,
    pub(crate) files: crate::files_config::Files,
    pub(crate) log: Log,
    pub(crate) timeouts: Timeouts,
    pub(crate) limits: LimitsConfig,
    pub(crate) scripted: Scripted,
    /// Webhooks that are told of a task's progress: `on`, `off`, or how they are delivered. Default on.
    #[serde(deserialize_with = "crate::push_config::read")]
    #[schemars(with = "crate::push_config::PushForms")]
    pub(crate) push: crate::push_config::PushSection,
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
#[schemars(rename = "Auth")]
pub(crate) struct AuthConfig {
    /// Refuse callers without a key or token. Default false on loopback, true on an address that other machines reach; a server
    /// that comes by that default and has no key makes the first one, and shows it once.
    pub(crate) required: Option<bool>,
    pub(crate) keys: Vec<KeyConfig>,
    /// Issuers whose tokens (JWT) are read as `Authorization: Bearer TOKEN`.
    pub(crate) jwt: Vec<JwtIssuer>,
}

/// A key that callers send as `Authorization: Bearer KEY` or `X-Api-Key: KEY`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Key")]
pub(crate) struct KeyConfig {
    /// What logs call the key's owner.
    pub(crate) name: String,
    /// Whose tasks its owner sees.
    pub(crate) tenant: String,
    /// Where the key is: `env:NAME` or `file:PATH`.
    pub(crate) key: String,
    /// What it is good for: `tasks:read`, `tasks:write`, `push`, `tasks`, `admin`, `system:NAME`, those of products, or one
    /// that a rule of the policy names. Default everything.
    #[serde(default)]
    pub(crate) scopes: Vec<String>,
    /// When it ends, as in `2027-01-01T00:00:00Z`. Default never.
    #[serde(default)]
    pub(crate) expires_at: Option<String>,
    /// What its owner may spend on agents with a price. Default: `market.budgets.per_key`.
    #[cfg(feature = "market")]
    #[serde(default)]
    pub(crate) budget: Option<market::pricing::WrittenBudget>,
}

impl KeyConfig {
    /// The budget, for the product that sells.
    pub(crate) fn budget(&self) -> Option<&dyn Any> {
        #[cfg(feature = "market")]
        return self.budget.as_ref().map(|budget| budget as &dyn Any);
        #[cfg(not(feature = "market"))]
        None
    }
}

impl Sections for Config {
    fn section(&self, key: &str) -> Option<&dyn Any> {
        match key {
            #[cfg(feature = "market")]
            "market" => self.market.as_ref().map(|section| section as &dyn Any),
            #[cfg(feature = "systems")]
            "systems" => Some(&self.systems),
            #[cfg(feature = "systems")]
            "orloj" => self.orloj.as_ref().map(|section| section as &dyn Any),
            #[cfg(feature = "shop")]
            "aly" => self.aly.as_ref().map(|section| section as &dyn Any),
            #[cfg(feature = "assistants")]
            "langgraph" => self.langgraph.as_ref().map(|section| section as &dyn Any),
            _ => None,
        }
    }
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

/// What operators use over HTTP.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Console {
    /// Serve it. Default true on loopback, false on an address that other machines reach.
    pub(crate) enabled: Option<bool>,
    /// The provider at which people sign in. Default none: they sign in with keys.
    pub(crate) oidc: Option<crate::oidc_config::Oidc>,
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
#[schemars(rename = "Limits")]
pub(crate) struct LimitsConfig {
    /// A request's body, in bytes. Default 10485760.
    pub(crate) body_bytes: Option<usize>,
    /// Nesting of a request's JSON. Default 128.
    pub(crate) json_depth: Option<usize>,
    /// Nesting of a data part and of metadata, the part or object that it stands in counted. Deeper ones of callers are
    /// refused, and those of agents turned into text: readers of protobuf cannot take them. Default 48.
    pub(crate) data_depth: Option<usize>,
    /// Memory of all request bodies together while they are read and answered, in MiB; more is refused with
    /// 503. Default 64, and at least what `body_bytes` needs.
    pub(crate) bodies_mib: Option<usize>,
    /// Memory of large answers (above 64 KiB) together until their callers have taken them, in MiB; more is refused
    /// with 503. Default 64.
    pub(crate) answers_mib: Option<usize>,
    /// Memory of tasks at work together, in MiB: messages and artifacts are in memory until a task rests. When it is used up,
    /// a turn that has a large part of it fails and says so. Default 128.
    pub(crate) live_mib: Option<usize>,
    /// Connections at a time; one more is answered 503 and closed, but for `/healthz` and `/readyz`. Default 10000.
    pub(crate) connections: Option<usize>,
    /// Connections from one address (IPv6: a /64) at a time; `trusted_proxies` have no such bound. Default 1000.
    pub(crate) connections_per_address: Option<u32>,
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

/// The scripted agent of the demo; one of `agents` has its mode beside its kind.
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
        let text = std::fs::read_to_string(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => anyhow::anyhow!(
                "there is no config file {}: check --config, or leave it out to serve the demo",
                path.display()
            ),
            _ => anyhow::anyhow!("the config file {} cannot be read: {error}; check --config", path.display()),
        })?;
        Config::read(&text).map_err(|mistakes| anyhow::Error::new(mistakes.of_file(path)))
    }

    #[cfg(test)]
    pub(crate) fn parse(text: &str) -> anyhow::Result<Config> {
        Config::read(text).map_err(anyhow::Error::new)
    }

    fn read(text: &str) -> Result<Config, Mistakes> {
        if text.trim().is_empty()
            || text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'))
        {
            return Ok(Config::default());
        }
        let read = serde_saphyr::from_str::<Config>(text);
        let mut config = read.map_err(|error| Mistakes::of_text(text, &error))?;
        if config.agents.is_some() {
            let written = serde_saphyr::from_str::<Written>(text);
            config.written = written.map_err(|error| Mistakes::of_text(text, &error))?.agents.unwrap_or_default();
        }
        config.tree = Node::read(text).map(Arc::new);
        Ok(config)
    }
}

/// An empty `agents:` is not the same as none: removing the last agent must not start the demo's agents.
fn given<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Agents>, D::Error> {
    Agents::deserialize(d).map(Some)
}

/// The agents as they are written.
#[derive(Deserialize)]
struct Written {
    agents: Option<BTreeMap<String, Value>>,
}

/// An error on one line, for the log.
pub(crate) fn in_one_line(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    let rest = lines.collect::<Vec<_>>().join("; ");
    match rest.is_empty() {
        true => first.to_owned(),
        false if first.ends_with(':') => format!("{first} {rest}"),
        false => format!("{first}; {rest}"),
    }
}

/// The default data folder.
pub(crate) const DATA_HERE: &str = "rialto-data";

/// The data folder and the store that the flags or the config name.
pub(crate) struct DataLocation {
    pub(crate) folder: PathBuf,
    pub(crate) store: StoreLocation,
    /// The file with the sealing key, if the config names one.
    pub(crate) key_file: Option<PathBuf>,
}

impl DataLocation {
    pub(crate) fn at(whereabouts: &DataArgs) -> anyhow::Result<DataLocation> {
        let config = whereabouts.config.as_deref();
        let (data, store, key_file) = match (&whereabouts.data, &whereabouts.store) {
            // Then an invalid config does not matter.
            (Some(data), Some(store)) => {
                let config = config.and_then(|config| Config::load(Some(config)).ok());
                (Some(data.clone()), Some(store.clone()), config.and_then(|config| config.push.key_file))
            }
            (data, store) => {
                let config = Config::load(config)?;
                (data.clone().or(config.data), store.clone().or(config.store), config.push.key_file)
            }
        };
        let store = store.unwrap_or_default();
        store.check()?;
        Ok(DataLocation { folder: data.unwrap_or_else(|| DATA_HERE.into()), store, key_file })
    }

    /// The data in this folder, with defaults.
    pub(crate) fn folder(folder: &Path) -> DataLocation {
        DataLocation { folder: folder.to_owned(), store: StoreLocation::default(), key_file: None }
    }
}

pub(crate) fn run(command: &command::Config) -> anyhow::Result<()> {
    use std::io::Write;
    match command {
        command::Config::Check(whereabouts) => {
            let serve = command::Serve { whereabouts: whereabouts.clone(), ..command::Serve::default() };
            let plan = crate::plan::Plan::checked(&serve)?;
            // An unreachable machine is no mistake of the config.
            for warning in crate::roster::unreachable(&plan.config.written) {
                writeln!(std::io::stderr(), "warning: {warning}")?;
            }
            if let Some(warning) = plan.config.store.as_ref().and_then(StoreLocation::warning) {
                writeln!(std::io::stderr(), "warning: {warning}")?;
            }
            let what =
                whereabouts.config.as_ref().map_or("no config file: the defaults".into(), |c| c.display().to_string());
            let agents = plan.roster.names().map(|name| &**name).collect::<Vec<_>>().join(", ");
            writeln!(std::io::stdout(), "{what}: fine; it would listen on {} and serve {agents}", plan.listen)?;
        }
        command::Config::Show(shown) => {
            let serve = command::Serve { whereabouts: shown.whereabouts.clone(), ..command::Serve::default() };
            let config = crate::plan::Plan::checked(&serve)?.settings()?.effective;
            let mut out = std::io::stdout();
            if shown.output.output == command::OutputFormat::Json {
                writeln!(out, "{}", serde_json::to_string_pretty(&*config)?)?;
                return Ok(());
            }
            for value in &config.values {
                writeln!(out, "{} = {}  ({})", value.path, value.value, value.origin())?;
            }
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
    fn all_mistakes_of_a_file_are_told_at_once_with_their_lines_and_keys() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rialto.yaml");
        let shown = file.display();
        let text = "lisen: 127.0.0.1:1\nlimits:\n  attempts: many\n  retention_hours: -1\nauth:\n  required: perhaps\n  keys: ann\ndurability: ful\nagents:\n  a: { kind: ecko }\n  b: { kind: command, command: cat, secrets: { K: 'env:NO_SUCH_SECRET' } }\n  c: { kind: http }\n";
        std::fs::write(&file, text).unwrap();
        let error = format!("{:#}", Config::load(Some(&file)).unwrap_err());
        let expected = format!(
            "{shown} has 9 mistakes:
  line 1: lisen: unknown field `lisen`; did you mean `listen`?
  line 3: limits.attempts: must be a whole number, not `many`
  line 4: limits.retention_hours: must be 0 or more, not -1
  line 6: auth.required: must be true or false, not `perhaps`
  line 7: auth.keys: must be a list, as in [a, b], not `ann`
  line 8: durability: must be one of full, relaxed, not `ful`; did you mean `full`?
  line 10: agents.a.kind: unknown kind `ecko`; did you mean `echo`?
  line 11: agents.b: secrets.K: set the environment variable NO_SUCH_SECRET
  line 12: agents.c: missing field `url`; add it"
        );
        assert_eq!(error, expected);
        std::fs::write(&file, "limits:\n  atempts: 3\n").unwrap();
        let one = format!("{:#}", Config::load(Some(&file)).unwrap_err());
        assert_eq!(one, format!("{shown}, line 2: limits.atempts: unknown field `atempts`; did you mean `attempts`?"));
        let line = in_one_line(&anyhow::anyhow!("{error}"));
        assert!(line.contains("9 mistakes: line 1: lisen") && !line.contains('\n'), "{line}");
    }

    #[test]
    fn the_line_of_a_mistake_is_named() {
        let error = Config::parse("listen: 127.0.0.1:1\nlimits:\n  attempts: many\n").unwrap_err().to_string();
        assert!(error.contains('3'), "{error}");
    }

    #[test]
    fn mistakes_in_an_agent_are_told_with_its_name_the_line_and_the_nearest_name() {
        let wrong = |text: &str| in_one_line(&Config::parse(text).unwrap_err());
        for (text, says) in [
            (
                "default: a\nagents:\n  a:\n    kind: command\n    comand: cat\n",
                &["line 5: agents.a.comand: unknown field `comand`", "did you mean `command`?"][..],
            ),
            ("agents:\n  a: { kind: comand, command: cat }\n", &["unknown kind `comand`", "did you mean `command`?"]),
            ("agents:\n  a: { run: cat }\n", &["line 2: agents.a: an agent needs a kind: one of "]),
            ("agents:\n  a: { kind: echo }\n  a: { kind: echo }\n", &["line 3", "duplicate", "give it another name"]),
            (
                "agents:\n  a: { kind: command, command: cat, secrets: { K: 'env:NO_SUCH_SECRET' } }\n",
                &["line 2", "set the environment variable NO_SUCH_SECRET"],
            ),
            ("agents:\n  a: { kind: command, command: [cat\n", &["line "]),
            ("agnts:\n  a: { kind: echo }\n", &["line 1", "did you mean `agents`?"]),
        ] {
            let error = wrong(text);
            for piece in says {
                assert!(error.contains(piece), "{piece:?} is not in: {error}");
            }
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn the_schema_has_the_agents() {
        let schema = schemars::schema_for!(Config).to_value();
        assert!(schema["properties"]["agents"].is_object() && schema["$defs"]["Agent"]["oneOf"].is_array());
        assert!(schema["properties"].get("written").is_none());
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
