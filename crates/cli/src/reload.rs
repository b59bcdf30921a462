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
use gateway::log::Sink;
use gateway::product::ProductService;
use gateway::settings::Settings;
use gateway::{Serving, admin};
use market::MarketService;
use model::{Fault, Kind};
use serde_json::{Value, json};
use shop::ShopService;
use systems::SystemsService;
use systems::resources::{Ask, Draft, Loaded, Refusal, Resource, Shelf, Sort, Verb, Write};
use tokio::signal::unix::Signal;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::aly_config::Aly;
use crate::command::Serve;
use crate::config::{Config, in_file, in_one_line};
use crate::market_config::Market;
use crate::plan::Plan;
use crate::resources::{self, Taken, Trouble};
use crate::roster::{Built, Changes};
use crate::{guard, price_config, replicas};

/// How often the file is checked. It is read once it has looked the same twice, so that a half-written file is not
/// read.
const LOOK_EVERY: Duration = Duration::from_millis(500);

type Read = fn(&Plan) -> String;

/// The settings that need a restart, and how each is compared. All others take effect at a reload.
const FIXED: &[(&str, Read)] = &[
    ("listen", |plan| plan.listen.to_string()),
    ("data", |plan| plan.data.display().to_string()),
    ("store", |plan| format!("{:?}", plan.config.store)),
    ("workers", |plan| format!("{:?}", plan.config.workers)),
    ("durability", |plan| format!("{:?}", plan.config.durability)),
    ("cache_mib", |plan| format!("{:?}", plan.config.cache_mib)),
    ("any_input_mode", |plan| plan.config.any_input_mode.to_string()),
    ("tls", |plan| format!("{:?}", plan.config.tls)),
    ("log.format", |plan| format!("{:?}", plan.config.log.format)),
    ("market", |plan| plan.market().is_some().to_string()),
    ("market.tenant", |plan| plan.market().map(|market| market.tenant().to_owned()).unwrap_or_default()),
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
pub(crate) struct Fixed {
    written: Vec<String>,
    /// The actual listen address.
    address: SocketAddr,
    data: PathBuf,
    public_url: Option<String>,
    /// Deliveries carry tokens with the public address.
    names_itself: bool,
}

impl Fixed {
    pub(crate) fn of(plan: &Plan, address: SocketAddr) -> Fixed {
        Fixed {
            written: FIXED.iter().map(|(_, read)| read(plan)).collect(),
            address,
            data: plan.data.clone(),
            public_url: plan.config.public_url.clone(),
            names_itself: plan.config.push.jwt,
        }
    }

    /// Resets a plan's fixed settings, and returns the names of those that differ.
    fn hold(&self, plan: &mut Plan) -> anyhow::Result<Vec<&'static str>> {
        let now = FIXED.iter().zip(&self.written);
        let changed = now.filter(|((_, read), written)| read(plan) != **written).map(|((name, _), _)| *name);
        let changed = changed.collect();
        plan.listen = self.address;
        plan.data.clone_from(&self.data);
        if self.names_itself {
            plan.config.public_url.clone_from(&self.public_url);
        }
        // Checks the actual listen address, not the file's.
        plan.refuse_open_door()?;
        Ok(changed)
    }
}

/// The open market and its terms. It opens and closes with the server; its terms can change.
pub(crate) struct Open {
    pub(crate) market: market::service::Market,
    pub(crate) service: Arc<MarketService>,
    config: Market,
    is_demo: bool,
}

impl Open {
    pub(crate) async fn start(engine: &Engine, config: Market, is_demo: bool) -> anyhow::Result<Open> {
        let started = market::service::Market::start(engine.clone(), config.config(is_demo)?, true).await;
        let market = started.map_err(|fault| {
            let cause = fault.cause.as_ref().map_or_else(String::new, |cause| format!(": {cause}"));
            anyhow::anyhow!("cannot open the market: {fault}{cause}")
        })?;
        let service = Arc::new(MarketService::new(config.settings(market.clone())));
        Ok(Open { market, service, config, is_demo })
    }

    /// The market's new terms, if the config sets valid ones.
    fn next(&self, wanted: Option<Market>) -> anyhow::Result<(Market, market::service::MarketConfig)> {
        let next = match wanted {
            Some(wanted) => wanted.held_to(self.config.tenant()),
            None => self.config.clone(),
        };
        let config = next.config(self.is_demo)?;
        Ok((next, config))
    }
}

/// A file's metadata, which changes when the file does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Looks(Option<(SystemTime, u64, u64)>);

impl Looks {
    pub(crate) fn of(file: Option<&Path>) -> Looks {
        let look = |path: &Path| {
            let meta = std::fs::metadata(path).ok()?;
            Some((meta.modified().ok()?, meta.len(), meta.ino()))
        };
        Looks(file.and_then(look))
    }
}

/// Sets the log level, except for requests.
pub(crate) type SetLevel = Box<dyn Fn(&str) -> anyhow::Result<()> + Send + Sync>;

pub(crate) struct Reloader {
    pub(crate) options: Serve,
    pub(crate) serving: Arc<Serving>,
    pub(crate) built: Built,
    pub(crate) fixed: Fixed,
    pub(crate) sink: Sink,
    pub(crate) set_level: SetLevel,
    /// The file's stamp before it was last read.
    pub(crate) seen: Looks,
    /// None where SIGHUP ends the process as usual: a demo ends with its terminal.
    pub(crate) hangup: Option<Signal>,
    /// Notifies the task that watches the certificate.
    pub(crate) certificate: Arc<Notify>,
    pub(crate) asked: mpsc::Receiver<oneshot::Sender<Value>>,
    pub(crate) open: Option<Open>,
    pub(crate) shop: Option<Arc<ShopService>>,
    /// The config in force.
    pub(crate) config: Config,
    /// The stored resources, and the queue of changes to them.
    pub(crate) shelf: Shelf,
    pub(crate) wishes: mpsc::Receiver<Ask>,
}

/// How often a change is retried after a conflict with another process.
const TRIES: usize = 20;
/// Page size of the search for running tasks.
const PAGE: usize = 1_000;

struct Applied {
    changes: Changes,
    needs_restart: Vec<&'static str>,
}

impl Reloader {
    pub(crate) async fn run(mut self, shutdown: CancellationToken) {
        let file = self.options.whereabouts.config.clone();
        let mut look = tokio::time::interval(LOOK_EVERY);
        let mut elsewhere = tokio::time::interval(resources::LOOK_EVERY);
        elsewhere.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let shared = self.engine().store().is_shared();
        let mut newest = self.seen;
        loop {
            let answer = tokio::select! {
                _ = elsewhere.tick(), if shared => {
                    self.look_elsewhere().await;
                    continue;
                }
                Some(Ask { write, by, answer }) = self.wishes.recv() => {
                    let outcome = self.write(&write).await;
                    if let Ok((verb, resource)) = &outcome {
                        tracing::info!("{}/{} {} by {by}", resource.sort.plural(), resource.name, verb.name());
                        if *verb != Verb::Unchanged {
                            systems::resources::audit(&self.fixed.data, &by, *verb, resource);
                        }
                    }
                    // The requester may be gone; the change stands either way.
                    let _ = answer.send(outcome);
                    continue;
                }
                _ = look.tick(), if file.is_some() => {
                    let looks = Looks::of(file.as_deref());
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
        self.seen = Looks::of(self.options.whereabouts.config.as_deref());
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
        let mut config = Config::load(self.options.whereabouts.config.as_deref())?;
        // Shops open and close with the server.
        let wanted = std::mem::replace(&mut config.aly, self.config.aly.clone());
        wanted.as_ref().map_or(Ok(()), Aly::check)?;
        let file = self.options.whereabouts.config.as_deref();
        let mut plan = Plan::of(&self.options, config).map_err(|error| in_file(file, error))?;
        let mut needs_restart = self.fixed.hold(&mut plan)?;
        if !plan.is_demo() && format!("{wanted:?}") != format!("{:?}", plan.config.aly) {
            needs_restart.push("aly");
        }
        let loaded = self.load(&plan).await?;
        let made: Vec<Arc<Resource>> = loaded.made.iter().cloned().map(Arc::new).collect();
        let taken = resources::take_up(&mut plan, &made, &self.built).await?;
        taken.warn();
        let shown = taken.resources(&plan, &made)?;
        let (server, changes) = self.put_in_force(&plan, taken)?;
        self.shelf.show(&loaded, shown);
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

    /// The stored resources, where they are served.
    async fn load(&self, plan: &Plan) -> anyhow::Result<Loaded> {
        if plan.wanted_orloj().is_none() {
            return Ok(Loaded::default());
        }
        let loaded = systems::resources::load(self.engine().store()).await;
        loaded.map_err(|fault| anyhow::anyhow!("cannot read what was made: {fault} ({})", fault.cause_text()))
    }

    fn settings(&self, plan: &Plan) -> anyhow::Result<(Settings, Option<(Market, market::service::MarketConfig)>)> {
        let settings = plan.settings()?;
        let next = self.open.as_ref().map(|open| open.next(plan.market())).transpose()?;
        let mut products: Vec<Arc<dyn ProductService>> = Vec::new();
        products.extend(self.open.as_ref().map(|open| open.service.clone() as Arc<dyn ProductService>));
        products.extend(plan.systems(&self.shelf, self.serving.now().product::<SystemsService>())?);
        products.extend(self.shop.clone().map(|shop| shop as Arc<dyn ProductService>));
        products.extend(plan.assistants());
        Ok((Settings { products, ..settings }, next))
    }

    /// Requests use the plan from now on.
    fn put_in_force(&mut self, plan: &Plan, taken: Taken) -> anyhow::Result<(Arc<gateway::Server>, Changes)> {
        let (settings, next) = self.settings(plan)?;
        let prices = plan.prices(next.as_ref().map(|(market, _)| market))?;
        let agents = price_config::put_on(prices.as_ref(), taken.built.agents());
        let server = self.serving.change(settings, agents)?;
        self.built = taken.built;
        if let (Some(open), Some((next, config))) = (&mut self.open, next) {
            open.market.set_config(config);
            open.config = next;
        }
        Ok((server, taken.changes))
    }

    /// The plan in force, without the stored resources.
    fn plan(&self) -> anyhow::Result<Plan> {
        let mut plan = Plan::of(&self.options, self.config.clone())?;
        self.fixed.hold(&mut plan)?;
        Ok(plan)
    }

    /// Takes over the changes of other processes since the last check.
    async fn look_elsewhere(&mut self) {
        if self.serving.now().product::<SystemsService>().is_none() {
            return;
        }
        let outcome = match systems::resources::shelf::revision(self.engine().store()).await {
            Ok(revision) if revision == self.shelf.revision() => return,
            Ok(_) => self.refresh().await.map_err(|error| format!("{error:#}")),
            Err(fault) => Err(format!("{fault} ({})", fault.cause_text())),
        };
        if let Err(error) = outcome {
            tracing::warn!("changes by other processes are not in force yet: {error}");
        }
    }

    /// Reads the stored resources again, and serves them.
    async fn refresh(&mut self) -> anyhow::Result<()> {
        let mut plan = self.plan()?;
        let loaded = self.load(&plan).await?;
        let made: Vec<Arc<Resource>> = loaded.made.iter().cloned().map(Arc::new).collect();
        let taken = resources::take_up(&mut plan, &made, &self.built).await?;
        taken.warn();
        let shown = taken.resources(&plan, &made)?;
        self.put_in_force(&plan, taken)?;
        self.shelf.show(&loaded, shown);
        Ok(())
    }

    /// Makes a change: checks it like the config, stores it, puts it in force and publishes it, in this order.
    async fn write(&mut self, write: &Write) -> Result<(Verb, Arc<Resource>), Refusal> {
        let engine = self.engine();
        for _ in 0..TRIES {
            let change = match self.shelf.draft(write, engine.now())? {
                Draft::Nothing(known) => return Ok((Verb::Unchanged, known)),
                Draft::Change(change) => change,
            };
            let subject = &change.subject;
            let mut plan = self.plan().map_err(inside)?;
            let taken = resources::take_up(&mut plan, &change.made, &self.built).await.map_err(inside)?;
            if change.verb == Verb::Deleted {
                self.refuse_if_used(subject).await?;
            } else if let Some(trouble) = taken.troubles.get(&subject.key()) {
                return Err(match trouble {
                    Trouble::NotAllowed(says) => Refusal::NotAllowed(says.clone()),
                    Trouble::Wrong(all) => Refusal::Wrong(all.clone()),
                });
            }
            // A resource that was served before must still be served afterwards.
            let is_served =
                |sort: Sort, name: &str| self.shelf.get(sort, name).is_some_and(|one| one.trouble.is_none());
            if let Some(((sort, name), trouble)) = taken
                .troubles
                .iter()
                .find(|((sort, name), _)| (*sort, name) != (subject.sort, &subject.name) && is_served(*sort, name))
            {
                let says = format!("{}/{name} could not be served any more: {}", sort.plural(), trouble.says());
                return Err(Refusal::InUse(says));
            }
            let (settings, _) = self.settings(&plan).map_err(|error| Refusal::Wrong(vec![format!("{error:#}")]))?;
            settings.check().map_err(|error| Refusal::Wrong(vec![error.to_string()]))?;
            if !self.shelf.keep(&engine, &change).await? {
                self.refresh().await.map_err(inside)?;
                continue;
            }
            let shown = taken.resources(&plan, &change.made).map_err(inside)?;
            self.put_in_force(&plan, taken).map_err(inside)?;
            self.shelf.show(&Shelf::after(&change), shown);
            return Ok((change.verb, subject.clone()));
        }
        Err(Refusal::Fault(Fault::new(Kind::Unavailable, "others change resources all the time; try again shortly")))
    }

    /// Refuses to delete an agent that a system uses, or a resource with running tasks.
    async fn refuse_if_used(&self, subject: &Resource) -> Result<(), Refusal> {
        let (kind, name) = (subject.sort.kind(), &subject.name);
        let mut plan = self.plan().map_err(inside)?;
        resources::take_up(&mut plan, &self.shelf.made(), &self.built).await.map_err(inside)?;
        let users = plan.roster.users_of(name);
        if !users.is_empty() {
            let says = format!("{kind} {name:?} is a node of {}; take it out there first", users.join(", "));
            return Err(Refusal::InUse(says));
        }
        let engine = self.engine();
        let (store, mut after) = (engine.store(), None);
        let troubled = |trouble: model::ports::store::StoreError| Fault::new(Kind::Unavailable, trouble.to_string());
        loop {
            let page = store.unfinished(after, PAGE).await.map_err(troubled)?;
            for (task, _) in &page {
                if store.head(*task).await.map_err(troubled)?.is_some_and(|head| head.agent == *name) {
                    let says =
                        format!("{kind} {name:?} is at work on the task {task}; wait for it, or cancel it first");
                    return Err(Refusal::InUse(says));
                }
            }
            match page.last() {
                Some((last, _)) if page.len() == PAGE => after = Some(*last),
                Some(_) | None => return Ok(()),
            }
        }
    }
}

/// An internal error, or a dependency that has gone since the check.
fn inside(error: anyhow::Error) -> Refusal {
    Refusal::Fault(Fault::internal(format!("{error:#}")))
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
        let fixed = Fixed::of(&first, address);
        let mut same = plan("listen: 127.0.0.1:0\ndata: here\nlimits: { body_bytes: 2000, daily_calls: 3 }\n");
        assert!(fixed.hold(&mut same).unwrap().is_empty(), "limits of callers take effect");
        let mut other =
            plan("listen: 127.0.0.1:9\ndata: there\nstore: postgres://u@h/d\nworkers: 3\npublic_url: https://x\n");
        assert_eq!(fixed.hold(&mut other).unwrap(), ["listen", "data", "store", "workers", "limits.body_bytes"]);
        let mut market = plan("listen: 127.0.0.1:0\ndata: here\nlimits: { body_bytes: 2000 }\nmarket: { tenant: t }\n");
        assert_eq!(fixed.hold(&mut market).unwrap(), ["market", "market.tenant"]);
        assert_eq!((other.listen, other.data), (address, PathBuf::from("here")));
        assert_eq!(other.config.public_url.as_deref(), Some("https://x"));
    }

    #[test]
    fn a_door_that_is_open_to_other_machines_is_not_opened_by_a_file_that_says_loopback() {
        let first = plan("listen: 0.0.0.0:0\nauth: { required: true }\n");
        let fixed = Fixed::of(&first, "0.0.0.0:4711".parse().unwrap());
        // The actual listen address requires a key, although the file's would not.
        let mut silent = plan("listen: 127.0.0.1:0\n");
        assert!(!silent.needs_key());
        fixed.hold(&mut silent).unwrap();
        assert!(silent.needs_key() && silent.settings().unwrap().auth_required);
        let mut open = plan("listen: 127.0.0.1:0\nauth: { required: false }\n");
        let error = fixed.hold(&mut open).unwrap_err().to_string();
        assert!(error.contains("no key is required"), "{error}");
    }

    #[test]
    fn the_address_in_tokens_of_deliveries_stays() {
        let first = plan("public_url: https://a\npush: { jwt: true }\n");
        let fixed = Fixed::of(&first, "127.0.0.1:1".parse().unwrap());
        let mut other = plan("public_url: https://b\npush: { jwt: true }\n");
        assert_eq!(fixed.hold(&mut other).unwrap(), ["public_url"]);
        assert_eq!(other.config.public_url.as_deref(), Some("https://a"));
    }
}
