//! The command line.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::remote::OperatorArgs;

/// The default config file.
pub(crate) const CONFIG_HERE: &str = "rialto.yaml";

/// The default config file, where there is one.
pub(crate) fn config_here() -> Option<&'static str> {
    Path::new(CONFIG_HERE).is_file().then_some(CONFIG_HERE)
}

/// Puts any agent behind every A2A dialect
#[derive(Parser)]
#[command(name = "rialto", version, propagate_version = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Serve agents; without a config, a demo on 127.0.0.1:8080
    Serve(Box<Serve>),
    /// Show the demo's ids and credentials, and the use of each
    Demo(Demo),
    /// Check a config file, show its values, or print its JSON schema
    #[command(subcommand)]
    Config(Config),
    /// Look at tasks, cancel or remove them
    #[command(subcommand)]
    Task(Task),
    /// Show how a system is made, and how a task on it stands
    #[cfg(feature = "systems")]
    Graph(crate::graph::Graph),
    /// Write a consistent copy of everything to a new file, also while serving
    Backup(Backup),
    /// Put a backup in place of the data folder's contents, while no server runs
    Restore(Restore),
    /// Carry everything in a data folder to an empty PostgreSQL database, while no server runs
    Migrate(Migrate),
    /// Make, list and revoke keys that callers are known by
    #[command(subcommand)]
    Keys(Keys),
    /// Look at webhooks, and deliver again
    #[command(subcommand)]
    Push(crate::push::Push),
    /// Open users of the market, credit them, read the ledger, and check that it all adds up
    #[cfg(feature = "market")]
    #[command(subcommand)]
    Market(crate::market::Market),
    /// Make shops, import their catalogues, make keys to them, and check that stock and money add up
    #[cfg(feature = "shop")]
    #[command(subcommand)]
    Shop(crate::shop::Shop),
    /// Say how the data is doing: disk, write-ahead log, stuck tasks, counts
    Doctor(Doctor),
    /// Ask the running server whether it can take work; ends with 1 if it cannot
    Health(Health),
    /// Create or update systems and agents of a running server from YAML
    #[cfg(feature = "systems")]
    Apply(crate::apply::Apply),
    /// Have a running server read its config again, and say what came of it
    Reload(Reload),
    /// Run by the server itself: ends its programs if it is killed
    #[command(hide = true)]
    GuardPrograms,
}

/// Where the config and the data are; every command takes these
#[derive(Args, Clone, Default)]
pub(crate) struct DataArgs {
    /// The config file (YAML) [default: ./rialto.yaml, where there is one]
    #[arg(long, value_name = "FILE", default_value = config_here(), hide_default_value = true)]
    pub(crate) config: Option<PathBuf>,
    /// The data folder [default: ./rialto-data]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Where tasks are kept: sqlite, postgres://user@host/database, or env:NAME or file:PATH where that is [default: sqlite]
    #[arg(long, value_name = "STORE")]
    pub(crate) store: Option<crate::store::StoreLocation>,
}

#[derive(Args, Clone, Default)]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) whereabouts: DataArgs,
    /// The address to listen on: 127.0.0.1:8080, 8080, :8080, localhost:8080; 0.0.0.0:8080 for other machines [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS", value_parser = crate::listen::parse)]
    pub(crate) listen: Option<SocketAddr>,
    /// An agent: NAME=URL for one that speaks A2A (over gRPC grpc://host:port), NAME='command:PROGRAM ARGUMENTS' for a program; may be repeated
    #[arg(long = "agent", value_name = "NAME=WHAT")]
    pub(crate) agents: Vec<String>,
    /// The agent at the root [default: the first]
    #[arg(long, value_name = "AGENT")]
    pub(crate) default: Option<String>,
    /// The form of agent cards [default: hybrid]
    #[arg(long, value_name = "FORM")]
    pub(crate) card: Option<crate::config::Card>,
    /// Whether callers need a key: required, or optional [default: as the config says]
    #[arg(long, value_name = "WHETHER")]
    pub(crate) auth: Option<Auth>,
    /// The certificate to serve https with (PEM); needs --tls-key
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The certificate's private key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// How the demo's scripted agent takes ordinary messages: play, or ask (every one ends input-required)
    #[arg(long, value_name = "MODE")]
    pub(crate) scripted_mode: Option<agents::scripted::ScriptedMode>,
    /// The form of the log on standard error [default: text]
    #[arg(long, value_name = "FORM")]
    pub(crate) log: Option<crate::config::LogFormat>,
    /// Whether an answer waits for the disk [default: full]
    #[arg(long, value_name = "HOW")]
    pub(crate) durability: Option<crate::config::Durability>,
    /// How long a replica may be silent before others take up its turns, with a PostgreSQL store [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = gateway::product::config::duration)]
    pub(crate) lease: Option<std::time::Duration>,
}

#[derive(Subcommand)]
pub(crate) enum Config {
    /// Read the config as `serve` would and say what is wrong with it
    Check(DataArgs),
    /// Print every value that `serve` would use and where it comes from; no secret is printed
    Show(ConfigShow),
    /// Print the JSON schema of the config file
    Schema(DataArgs),
}

#[derive(Args)]
pub(crate) struct ConfigShow {
    #[command(flatten)]
    pub(crate) whereabouts: DataArgs,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Subcommand)]
pub(crate) enum Task {
    /// List tasks of all tenants and agents, newest first
    List(TaskList),
    /// Show a task and its log
    Show(TaskOne),
    /// Cancel a task
    Cancel(TaskOne),
    /// Remove a task for good, with its log
    Purge(TaskOne),
    /// Store a copy of a task that another server exported for a bug report; the copy never changes
    Import(TaskImport),
}

#[derive(Args)]
pub(crate) struct TaskImport {
    /// The bundle: the file that the console or the admin API exports
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) at: OperatorArgs,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Args)]
pub(crate) struct TaskList {
    #[command(flatten)]
    pub(crate) at: OperatorArgs,
    /// Only this agent's tasks [default: those of every agent]
    #[arg(long)]
    pub(crate) agent: Option<String>,
    /// Only this tenant's tasks [default: those of every tenant]
    #[arg(long)]
    pub(crate) tenant: Option<String>,
    /// Only tasks in this state, such as working or input-required
    #[arg(long)]
    pub(crate) state: Option<String>,
    #[arg(long, default_value_t = 50)]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Args)]
pub(crate) struct TaskOne {
    /// The task's id, or the one that its caller chose
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) at: OperatorArgs,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Subcommand)]
pub(crate) enum Keys {
    /// Make a key; its secret is printed once and kept nowhere
    Create(KeysCreate),
    /// List keys, without their secrets
    List(KeysList),
    /// Revoke a key, at once
    Revoke(KeysRevoke),
}

#[derive(Args)]
pub(crate) struct KeysCreate {
    /// Whose key it is; what the log and tasks call the caller
    pub(crate) name: String,
    /// Whose tasks its owner sees
    #[arg(long)]
    pub(crate) tenant: String,
    /// A scope of the key, such as tasks:read, tasks:write or push; without any, it is good for everything; may be repeated
    #[arg(long = "scope", value_name = "SCOPE")]
    pub(crate) scopes: Vec<String>,
    /// How long it is good, such as 30d, 12h or 45m [default: until it is revoked]
    #[arg(long, value_name = "TIME", value_parser = gateway::product::config::duration)]
    pub(crate) expires: Option<std::time::Duration>,
    #[command(flatten)]
    pub(crate) at: OperatorArgs,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Args)]
pub(crate) struct KeysList {
    #[command(flatten)]
    pub(crate) at: OperatorArgs,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Args)]
pub(crate) struct KeysRevoke {
    /// The key's id, or the beginning of it that lists show
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) at: OperatorArgs,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Args)]
pub(crate) struct Backup {
    /// The file to write; it must not exist
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) whereabouts: DataArgs,
}

#[derive(Args)]
pub(crate) struct Restore {
    /// A file that `rialto backup` wrote
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) whereabouts: DataArgs,
    /// Replace the data that is there; it is kept beside, as rialto.db.before-restore
    #[arg(long)]
    pub(crate) replace: bool,
}

#[derive(Args)]
pub(crate) struct Migrate {
    /// The data folder to read: sqlite:DIR [default: the config's, or ./rialto-data]
    #[arg(long, value_name = "sqlite:DIR")]
    pub(crate) from: Option<String>,
    /// The database to fill: postgres://user@host/database, or env:NAME or file:PATH where that is [default: the config's store]
    #[arg(long, value_name = "STORE")]
    pub(crate) to: Option<crate::store::StoreLocation>,
    /// The config file (YAML) [default: ./rialto.yaml, where there is one]
    #[arg(long, value_name = "FILE", default_value = config_here(), hide_default_value = true)]
    pub(crate) config: Option<PathBuf>,
    /// Only compare what is there with the data folder
    #[arg(long)]
    pub(crate) verify_only: bool,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Args)]
pub(crate) struct Doctor {
    #[command(flatten)]
    pub(crate) at: OperatorArgs,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Args)]
pub(crate) struct Demo {
    #[command(flatten)]
    pub(crate) whereabouts: DataArgs,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Args)]
pub(crate) struct Health {
    #[command(flatten)]
    pub(crate) at: OperatorArgs,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Args)]
pub(crate) struct Reload {
    #[command(flatten)]
    pub(crate) at: OperatorArgs,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Args)]
pub(crate) struct Output {
    /// The form of what is printed
    #[arg(short, long, default_value = "text")]
    pub(crate) output: OutputFormat,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Auth {
    Required,
    Optional,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    Text,
    Json,
}
