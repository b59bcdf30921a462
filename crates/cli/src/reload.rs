//! Reloads the config: at SIGHUP, when its file changes, and when an operator asks (`rialto reload`).
//!
//! An invalid config is refused as a whole, and the one in force stays. Settings that cannot change while the
//! server runs are named, and keep their values from the start.

use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::bail;
use engine::Engine;
use gateway::effective_config::EffectiveConfig;
use gateway::log::Sink;
use gateway::product::{ProductHost, ProductService, Progress, RosterChange, RosterChanges};
use gateway::settings::Settings;
use gateway::webhooks::HttpPost;
use gateway::{CurrentGateway, admin};
use model::{Fault, Kind};
use serde_json::{Value, json};
use tokio::signal::unix::Signal;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::command::Serve;
use crate::config::{Config, in_file, in_one_line};
use crate::plan::Plan;
use crate::roster::{BuiltAgents, Changes};
use crate::{guard, replicas};

/// How often a process looks for changes by others in a shared store.
const LOOK_ELSEWHERE_EVERY: Duration = Duration::from_secs(1);
/// How often the file is checked. It is read once it has looked the same twice, so that a half-written file is not
/// read.
const LOOK_EVERY: Duration = Duration::from_millis(500);

type Read = fn(&Plan) -> String;

/// The settings that need a restart, and how each is compared. All others take effect at a reload.
const FIXED: &[(&str, Read)] = &[
    ("listen", |plan| plan.listen.to_string()),
    ("data", |plan| plan.data.display().to_string()),
    ("grpc.listen", |plan| format!("{:?}", plan.config.grpc.listen)),
    ("store", |plan| format!("{:?}", plan.config.store)),
    ("workers", |plan| format!("{:?}", plan.config.workers)),
    ("durability", |plan| format!("{:?}", plan.config.durability)),
    ("cache_mib", |plan| format!("{:?}", plan.config.cache_mib)),
    ("any_input_mode", |plan| plan.config.any_input_mode.to_string()),
    ("tls", |plan| format!("{:?}", plan.config.tls)),
    ("log.format", |plan| format!("{:?}", plan.config.log.format)),
    // The issuer of the tokens on deliveries.
    ("public_url", |plan| format!("{:?}", plan.config.public_url.as_ref().filter(|_| plan.config.push.jwt))),
    // Webhooks show files too.
    ("files", |plan| format!("{:?}", plan.config.files)),
    ("push", |plan| format!("{:?}", plan.config.push)),
    ("timeouts.turn_ms", |plan| format!("{:?}", plan.config.timeouts.turn_ms)),
    ("timeouts.cancel_grace_ms", |plan| format!("{:?}", plan.config.timeouts.cancel_grace_ms)),
    ("timeouts.drain_ms", |plan| format!("{:?}", plan.config.timeouts.drain_ms)),
    ("limits.body_bytes", |plan| format!("{:?}", plan.config.limits.body_bytes)),
    ("limits.json_depth", |plan| format!("{:?}", plan.config.limits.json_depth)),
    ("limits.data_depth", |plan| format!("{:?}", plan.config.limits.data_depth)),
    ("limits.bodies_mib", |plan| format!("{:?}", plan.config.limits.bodies_mib)),
    ("limits.answers_mib", |plan| format!("{:?}", plan.config.limits.answers_mib)),
    ("limits.live_mib", |plan| format!("{:?}", plan.config.limits.live_mib)),
    ("limits.connections", |plan| format!("{:?}", plan.config.limits.connections)),
    ("limits.running_turns", |plan| format!("{:?}", plan.config.limits.running_turns)),
    ("limits.turn_bytes", |plan| format!("{:?}", plan.config.limits.turn_bytes)),
    ("limits.waiting_messages", |plan| format!("{:?}", plan.config.limits.waiting_messages)),
    ("limits.attempts", |plan| format!("{:?}", plan.config.limits.attempts)),
    ("limits.retention_hours", |plan| format!("{:?}", plan.config.limits.retention_hours)),
    ("limits.idempotency_hours", |plan| format!("{:?}", plan.config.limits.idempotency_hours)),
    ("limits.wal_mib", |plan| format!("{:?}", plan.config.limits.wal_mib)),
];

/// The settings of a plan that stay until the next start.
pub(crate) struct FixedSettings {
    written: Vec<String>,
    /// The actual listen address.
    address: SocketAddr,
    /// That of `grpc.listen`.
    second: Option<SocketAddr>,
    data: PathBuf,
    public_url: Option<String>,
    /// Makes the attempts of webhooks.
    post: Arc<HttpPost>,
    /// Deliveries carry tokens with the public address.
    names_itself: bool,
    /// The config at the start.
    effective: Arc<EffectiveConfig>,
}

impl FixedSettings {
    pub(crate) fn of(
        plan: &Plan,
        address: SocketAddr,
        post: Arc<HttpPost>,
        effective: Arc<EffectiveConfig>,
    ) -> FixedSettings {
        FixedSettings {
            written: FIXED.iter().map(|(_, read)| read(plan)).collect(),
            address,
            second: plan.config.grpc.listen,
            data: plan.data.clone(),
            public_url: plan.config.public_url.clone(),
            post,
            names_itself: plan.config.push.jwt,
            effective,
        }
    }

    /// Resets a plan's fixed settings, and returns the names of those that differ.
    fn hold(&self, plan: &mut Plan) -> anyhow::Result<Vec<&'static str>> {
        let now = FIXED.iter().zip(&self.written);
        let changed = now.filter(|((_, read), written)| read(plan) != **written).map(|((name, _), _)| *name);
        let changed: Vec<&'static str> = changed.collect();
        plan.held = Some((changed.clone(), self.effective.clone()));
        plan.listen = self.address;
        plan.config.grpc.listen = self.second;
        plan.data.clone_from(&self.data);
        if self.names_itself {
            plan.config.public_url.clone_from(&self.public_url);
        }
        // Checks the actual addresses, not the file's.
        plan.refuse_open_door()?;
        Ok(changed)
    }
}

/// A file's metadata, which changes when the file does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileStamp(Option<(SystemTime, u64, u64)>);

impl FileStamp {
    pub(crate) fn of(file: Option<&Path>) -> FileStamp {
        let look = |path: &Path| {
            let meta = std::fs::metadata(path).ok()?;
            Some((meta.modified().ok()?, meta.len(), meta.ino()))
        };
        FileStamp(file.and_then(look))
    }
}

/// Sets the log level, except for requests.
pub(crate) type SetLevel = Box<dyn Fn(&str) -> anyhow::Result<()> + Send + Sync>;

pub(crate) struct Reloader {
    pub(crate) options: Serve,
    pub(crate) serving: Arc<CurrentGateway>,
    pub(crate) built: BuiltAgents,
    pub(crate) fixed: FixedSettings,
    pub(crate) sink: Sink,
    pub(crate) set_level: SetLevel,
    /// The file's stamp before it was last read.
    pub(crate) seen: FileStamp,
    /// None where SIGHUP ends the process as usual: a demo ends with its terminal.
    pub(crate) hangup: Option<Signal>,
    /// Notifies the task that watches the certificate.
    pub(crate) certificate: Arc<Notify>,
    pub(crate) asked: mpsc::Receiver<oneshot::Sender<Value>>,
    /// The config in force.
    pub(crate) config: Config,
    /// The server's address for its callers.
    pub(crate) base_url: String,
}

/// How often a change is retried after a conflict with another process.
const TRIES: usize = 20;

struct Applied {
    changes: Changes,
    needs_restart: Vec<&'static str>,
}

impl Reloader {
    pub(crate) async fn run(mut self, shutdown: CancellationToken) {
        let file = self.options.whereabouts.config.clone();
        let mut look = tokio::time::interval(LOOK_EVERY);
        let mut elsewhere = tokio::time::interval(LOOK_ELSEWHERE_EVERY);
        elsewhere.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let shared = self.engine().store().is_shared();
        let mut newest = self.seen;
        loop {
            let changes = self.roster_changes();
            let answer = tokio::select! {
                _ = elsewhere.tick(), if shared => {
                    self.look_elsewhere().await;
                    continue;
                }
                change = next_change(&changes) => {
                    self.change_roster(change).await;
                    continue;
                }
                _ = look.tick(), if file.is_some() => {
                    let looks = FileStamp::of(file.as_deref());
                    let settled = std::mem::replace(&mut newest, looks) == looks;
                    if looks == self.seen || !settled {
                        continue;
                    }
                    None
                }
                () = hung_up(&mut self.hangup) => {
                    self.certificate.notify_one();
                    None
                }
                Some(answer) = self.asked.recv() => Some(answer),
                () = shutdown.cancelled() => return,
            };
            let outcome = self.reload().await;
            if let Some(answer) = answer {
                // The operator may have disconnected.
                let _ = answer.send(outcome);
            }
        }
    }

    /// Reads the config and puts it in force, or returns why not.
    async fn reload(&mut self) -> Value {
        self.seen = FileStamp::of(self.options.whereabouts.config.as_deref());
        match self.apply().await {
            Ok(Applied { changes: Changes { added, changed, removed }, needs_restart }) => {
                tracing::info!(?added, ?changed, ?removed, "the config has been read again and is in force");
                if !needs_restart.is_empty() {
                    let names = needs_restart.join(", ");
                    tracing::warn!("the config has changes that need a restart: {names}");
                }
                json!({
                    "outcome": "applied",
                    "agents": { "added": added, "changed": changed, "removed": removed },
                    "needs_restart": needs_restart,
                })
            }
            Err(error) => {
                let reason = in_one_line(&error);
                tracing::error!("the new config cannot be used, the one before stays: {reason}");
                json!({ "outcome": "refused", "reason": reason })
            }
        }
    }

    async fn apply(&mut self) -> anyhow::Result<Applied> {
        if let Some(file) = &self.options.whereabouts.config
            && std::fs::metadata(file).is_ok_and(|meta| meta.len() == 0)
        {
            // At a start an empty config means the demo; in a running server it is an accident.
            bail!("the config {} is empty; write it again", file.display());
        }
        let file = self.options.whereabouts.config.as_deref();
        let config = Config::load(file)?;
        let mut plan = self.plan_of(config).map_err(|error| in_file(file, error))?;
        let mut needs_restart = self.fixed.hold(&mut plan)?;
        needs_restart.extend(plan.products.iter().flat_map(|product| product.needs_restart()));
        if let Some((names, _)) = &mut plan.held {
            names.clone_from(&needs_restart);
        }
        let (built, changes) = plan.build(Some(self.engine().store()), &self.built).await?;
        let server = self.put_in_force(&plan, built).await?;
        self.config = plan.config.clone();
        replicas::introduce(&self.engine(), self.options.whereabouts.config.as_deref(), self.fixed.address);
        admin::audit_policy(&self.fixed.data, server.policy());
        guard::warn_of_doors(&plan, &server);
        self.sink.set_requests(plan.config.log.requests.unwrap_or(true));
        if let Err(error) = (self.set_level)(plan.config.log.level.as_deref().unwrap_or("info")) {
            tracing::error!(%error, "log.level stays as it was");
        }
        // New issuers' keys are fetched before the first caller needs them, if possible.
        tokio::spawn(async move { server.callers().warm_up().await });
        Ok(Applied { changes, needs_restart })
    }
}

impl Reloader {
    fn engine(&self) -> Engine {
        self.serving.now().engine().clone()
    }

    /// The services in force.
    fn services(&self) -> Vec<Arc<dyn ProductService>> {
        self.serving.now().products().to_vec()
    }

    /// The changes of agents by products.
    fn roster_changes(&self) -> Vec<Arc<dyn RosterChanges>> {
        self.services().iter().filter_map(|service| service.roster_changes()).collect()
    }

    fn plan_of(&self, config: Config) -> anyhow::Result<Plan> {
        Plan::of(&self.options, config, Some(&self.services()))
    }

    /// The plan in force, without stored agents.
    fn plan(&self) -> anyhow::Result<Plan> {
        let mut plan = self.plan_of(self.config.clone())?;
        self.fixed.hold(&mut plan)?;
        Ok(plan)
    }

    /// Requests use the plan from now on.
    async fn put_in_force(&mut self, plan: &Plan, built: BuiltAgents) -> anyhow::Result<Arc<gateway::GatewayVersion>> {
        let engine = self.engine();
        let host =
            ProductHost { engine: &engine, base_url: &self.base_url, data: &self.fixed.data, post: &self.fixed.post };
        let products = plan.open(host).await?;
        let settings = Settings { products: products.clone(), ..plan.settings()? };
        let server = self.serving.change(settings, plan.served(&built))?;
        products.iter().for_each(|product| product.in_force());
        self.built = built;
        Ok(server)
    }

    /// Takes over the changes of other processes since the last check.
    async fn look_elsewhere(&mut self) {
        for changes in self.roster_changes() {
            let outcome = match changes.changed_elsewhere(self.engine().store()).await {
                Ok(false) => continue,
                Ok(true) => self.refresh().await.map_err(|error| format!("{error:#}")),
                Err(fault) => Err(format!("{fault} ({})", fault.cause_text())),
            };
            if let Err(error) = outcome {
                tracing::warn!("changes by other processes are not in force yet: {error}");
            }
        }
    }

    /// Reads the stored agents again, and serves them.
    async fn refresh(&mut self) -> anyhow::Result<()> {
        let mut plan = self.plan()?;
        let (built, _) = plan.build(Some(self.engine().store()), &self.built).await?;
        self.put_in_force(&plan, built).await.map(drop)
    }

    /// Makes a change: checks it like the config, stores it, puts it in force and answers, in this order.
    async fn change_roster(&mut self, mut change: Box<dyn RosterChange>) {
        for _ in 0..TRIES {
            match self.try_change(&mut *change).await {
                Ok(Progress::Answered) => return,
                Ok(Progress::GoesOn) => return change.done(&self.fixed.data),
                Ok(Progress::Conflict) => {
                    if let Err(error) = self.refresh().await {
                        return change.fail(Fault::internal(format!("{error:#}")));
                    }
                }
                Err(ChangeError::Refused(message)) => return change.refuse(message),
                Err(ChangeError::Failed(error)) => return change.fail(Fault::internal(format!("{error:#}"))),
            }
        }
        change.fail(Fault::new(Kind::Unavailable, "others change resources all the time; try again shortly"));
    }

    async fn try_change(&mut self, change: &mut dyn RosterChange) -> Result<Progress, ChangeError> {
        let engine = self.engine();
        let mut plan = self.plan()?;
        if change.draft(&engine, &mut plan.products) == Progress::Answered {
            return Ok(Progress::Answered);
        }
        let (built, _) = plan.build(None, &self.built).await?;
        if change.check(&engine, &plan.products).await == Progress::Answered {
            return Ok(Progress::Answered);
        }
        let settings = plan.settings().map_err(|error| ChangeError::Refused(format!("{error:#}")))?;
        settings.check().map_err(|error| ChangeError::Refused(error.to_string()))?;
        match change.store(&engine).await {
            Progress::GoesOn => {}
            ended => return Ok(ended),
        }
        self.put_in_force(&plan, built).await?;
        Ok(Progress::GoesOn)
    }
}

/// A change of the roster that cannot be made.
enum ChangeError {
    /// It is wrong.
    Refused(String),
    Failed(anyhow::Error),
}

impl From<anyhow::Error> for ChangeError {
    fn from(error: anyhow::Error) -> ChangeError {
        ChangeError::Failed(error)
    }
}

/// The next change of any product.
async fn next_change(all: &[Arc<dyn RosterChanges>]) -> Box<dyn RosterChange> {
    if all.is_empty() {
        return std::future::pending().await;
    }
    futures_util::future::select_all(all.iter().map(|changes| changes.next())).await.0
}

async fn hung_up(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(yaml: &str) -> Plan {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), yaml).unwrap();
        let mut options = Serve::default();
        options.whereabouts.config = Some(file.path().to_owned());
        Plan::make(&options).unwrap()
    }

    #[test]
    fn what_needs_a_restart_is_named_and_stays() {
        let address: SocketAddr = "127.0.0.1:4711".parse().unwrap();
        let first = plan("listen: 127.0.0.1:0\ndata: here\nlimits: { body_bytes: 2000 }\n");
        let fixed = FixedSettings::of(&first, address, Arc::default(), Arc::default());
        let mut same = plan("listen: 127.0.0.1:0\ndata: here\nlimits: { body_bytes: 2000, daily_calls: 3 }\n");
        assert!(fixed.hold(&mut same).unwrap().is_empty(), "limits of callers take effect");
        let mut other =
            plan("listen: 127.0.0.1:9\ndata: there\nstore: postgres://u@h/d\nworkers: 3\npublic_url: https://x\n");
        assert_eq!(fixed.hold(&mut other).unwrap(), ["listen", "data", "store", "workers", "limits.body_bytes"]);
        assert_eq!((other.listen, other.data), (address, PathBuf::from("here")));
        assert_eq!(other.config.public_url.as_deref(), Some("https://x"));
    }

    #[test]
    #[cfg(all(feature = "market", feature = "shop"))]
    fn products_that_are_new_at_a_reload_open_at_the_next_start() {
        let reloaded = |yaml: &str| {
            let mut options = Serve::default();
            options.whereabouts.config = Some("rialto.yaml".into());
            let plan = Plan::of(&options, Config::parse(yaml).unwrap(), Some(&[])).unwrap();
            let names: Vec<&str> = plan.products.iter().flat_map(|product| product.needs_restart()).collect();
            (names, plan.roster.names().map(ToString::to_string).collect::<Vec<_>>())
        };
        let (names, agents) = reloaded("agents: { a: { kind: echo } }\nmarket: { tenant: t }\naly: {}\n");
        assert_eq!((names, agents), (vec!["market", "market.tenant", "aly"], vec!["a".to_owned()]));
        assert!(reloaded("agents: { a: { kind: echo } }\n").0.is_empty());
    }

    #[test]
    fn a_door_that_is_open_to_other_machines_is_not_opened_by_a_file_that_says_loopback() {
        let first = plan("listen: 0.0.0.0:0\nauth: { required: true }\n");
        let fixed = FixedSettings::of(&first, "0.0.0.0:4711".parse().unwrap(), Arc::default(), Arc::default());
        // The actual listen address requires a key, although the file's would not.
        let mut silent = plan("listen: 127.0.0.1:0\n");
        assert!(!silent.needs_key());
        fixed.hold(&mut silent).unwrap();
        assert!(silent.needs_key() && silent.settings().unwrap().auth_required);
        let mut open = plan("listen: 127.0.0.1:0\nauth: { required: false }\n");
        let error = fixed.hold(&mut open).unwrap_err().to_string();
        assert!(error.contains("no key is required"), "{error}");
        // The same for the second address.
        let first = plan("listen: 127.0.0.1:0\ngrpc: { listen: '0.0.0.0:0' }\n");
        let fixed = FixedSettings::of(&first, "127.0.0.1:4711".parse().unwrap(), Arc::default(), Arc::default());
        let mut silent = plan("listen: 127.0.0.1:0\n");
        assert_eq!(fixed.hold(&mut silent).unwrap(), ["grpc.listen"]);
        assert!(silent.needs_key() && silent.settings().unwrap().auth_required);
    }

    #[test]
    fn the_address_in_tokens_of_deliveries_stays() {
        let first = plan("public_url: https://a\npush: { jwt: true }\n");
        let fixed = FixedSettings::of(&first, "127.0.0.1:1".parse().unwrap(), Arc::default(), Arc::default());
        let mut other = plan("public_url: https://b\npush: { jwt: true }\n");
        assert_eq!(fixed.hold(&mut other).unwrap(), ["public_url"]);
        assert_eq!(other.config.public_url.as_deref(), Some("https://a"));
    }
}
