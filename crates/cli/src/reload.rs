//! The config is read again: at SIGHUP, when its file changes, and when an operator asks (`rialto reload`).
//!
//! A config that cannot be used is refused as a whole, and the one before stays. What cannot change while the server runs
//! is named, and stays as it was at the start.

use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::bail;
use engine::Engine;
use serde_json::{Value, json};
use server::log::Sink;
use server::settings::Uumit;
use server::{Serving, admin};
use tokio::signal::unix::Signal;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::command::Serve;
use crate::config::in_one_line;
use crate::market_config::Market;
use crate::plan::Plan;
use crate::roster::{Built, Changes};
use crate::{demo_orloj, guard, price_config};

/// How often the file is looked at. It is read when it has looked the same twice, so that nobody reads half of it.
const LOOK_EVERY: Duration = Duration::from_millis(500);

type Read = fn(&Plan) -> String;

/// What needs a restart, and how it is written. What is not here takes effect when it is read.
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
    // Webhooks show files, too.
    ("files", |plan| format!("{:?}", plan.config.files)),
    ("push", |plan| format!("{:?}", plan.config.push)),
    ("timeouts.turn_ms", |plan| format!("{:?}", plan.config.timeouts.turn_ms)),
    ("timeouts.cancel_grace_ms", |plan| format!("{:?}", plan.config.timeouts.cancel_grace_ms)),
    ("timeouts.drain_ms", |plan| format!("{:?}", plan.config.timeouts.drain_ms)),
    ("limits.body_bytes", |plan| format!("{:?}", plan.config.limits.body_bytes)),
    ("limits.json_depth", |plan| format!("{:?}", plan.config.limits.json_depth)),
    ("limits.connections", |plan| format!("{:?}", plan.config.limits.connections)),
    ("limits.running_turns", |plan| format!("{:?}", plan.config.limits.running_turns)),
    ("limits.turn_bytes", |plan| format!("{:?}", plan.config.limits.turn_bytes)),
    ("limits.waiting_messages", |plan| format!("{:?}", plan.config.limits.waiting_messages)),
    ("limits.attempts", |plan| format!("{:?}", plan.config.limits.attempts)),
    ("limits.retention_hours", |plan| format!("{:?}", plan.config.limits.retention_hours)),
    ("limits.idempotency_hours", |plan| format!("{:?}", plan.config.limits.idempotency_hours)),
    ("limits.wal_mib", |plan| format!("{:?}", plan.config.limits.wal_mib)),
];

/// What of a plan is fixed until the next start.
pub(crate) struct Fixed {
    written: Vec<String>,
    /// Where the server really listens.
    address: SocketAddr,
    data: PathBuf,
    public_url: Option<String>,
    /// Deliveries carry tokens that name the public address.
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

    /// Holds a plan to what is fixed, and names what it would have otherwise.
    fn hold(&self, plan: &mut Plan) -> anyhow::Result<Vec<&'static str>> {
        let now = FIXED.iter().zip(&self.written);
        let changed = now.filter(|((_, read), written)| read(plan) != **written).map(|((name, _), _)| *name);
        let changed = changed.collect();
        plan.listen = self.address;
        plan.data.clone_from(&self.data);
        if self.names_itself {
            plan.config.public_url.clone_from(&self.public_url);
        }
        // Where it listens now, not where the file would have it listen.
        plan.refuse_open_door()?;
        Ok(changed)
    }
}

/// The market that is open, and how it deals. It opens and closes with the server; how it deals can change.
pub(crate) struct Open {
    pub(crate) market: trade::Market,
    config: Market,
    is_demo: bool,
}

impl Open {
    pub(crate) async fn start(engine: &Engine, config: Market, is_demo: bool) -> anyhow::Result<Open> {
        let started = trade::Market::start(engine.clone(), config.config(is_demo)?, true).await;
        let market = started.map_err(|fault| anyhow::anyhow!("cannot open the market: {fault} ({:?})", fault.cause))?;
        Ok(Open { market, config, is_demo })
    }

    pub(crate) fn settings(&self) -> Uumit {
        self.config.settings(self.market.clone())
    }

    /// How it is to deal from now on, if the config says so and can be meant so.
    fn next(&self, wanted: Option<Market>) -> anyhow::Result<(Market, trade::Config)> {
        let next = match wanted {
            Some(wanted) => wanted.held_to(self.config.tenant()),
            None => self.config.clone(),
        };
        let config = next.config(self.is_demo)?;
        Ok((next, config))
    }
}

/// How a file looks from outside: when it changes, this does.
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

/// Sets what is logged besides requests.
pub(crate) type SetLevel = Box<dyn Fn(&str) -> anyhow::Result<()> + Send + Sync>;

pub(crate) struct Reloader {
    pub(crate) options: Serve,
    pub(crate) serving: Arc<Serving>,
    pub(crate) built: Built,
    pub(crate) fixed: Fixed,
    pub(crate) sink: Sink,
    pub(crate) set_level: SetLevel,
    /// As the file looked before it was read last.
    pub(crate) seen: Looks,
    /// None where SIGHUP ends the process, as it always does: so ends a demo with its terminal.
    pub(crate) hangup: Option<Signal>,
    /// Whoever looks after the certificate.
    pub(crate) certificate: Arc<Notify>,
    pub(crate) asked: mpsc::Receiver<oneshot::Sender<Value>>,
    pub(crate) open: Option<Open>,
}

struct Applied {
    changes: Changes,
    needs_restart: Vec<&'static str>,
}

impl Reloader {
    pub(crate) async fn run(mut self, shutdown: CancellationToken) {
        let file = self.options.whereabouts.config.clone();
        let mut look = tokio::time::interval(LOOK_EVERY);
        let mut newest = self.seen;
        loop {
            let answer = tokio::select! {
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
                // An operator who has gone away has heard enough.
                let _ = answer.send(outcome);
            }
        }
    }

    /// Reads the config and puts it in force, or says why not.
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
            // At a start that would be the demo; while something is served, it is an accident.
            bail!("the config {} is empty; write it again", file.display());
        }
        let mut plan = Plan::make(&self.options)?;
        let needs_restart = self.fixed.hold(&mut plan)?;
        let mut settings = plan.settings()?;
        if plan.is_demo() {
            demo_orloj::let_in(&mut settings, &demo_orloj::token(&plan.data)?);
        }
        let next = self.open.as_ref().map(|open| open.next(plan.market())).transpose()?;
        if let (Some(open), Some((next, _))) = (&self.open, &next) {
            settings.market = Some(next.settings(open.market.clone()));
        }
        let prices = plan.prices(next.as_ref().map(|(market, _)| market))?;
        let (built, changes) = plan.roster.build(&self.built).await?;
        let server = self.serving.change(settings, price_config::put_on(prices.as_ref(), built.agents()))?;
        self.built = built;
        if let (Some(open), Some((next, config))) = (&mut self.open, next) {
            open.market.set_config(config);
            open.config = next;
        }
        admin::audit_policy(&self.fixed.data, server.policy());
        guard::warn_of_doors(&plan.config, &server);
        self.sink.set_requests(plan.config.log.requests.unwrap_or(true));
        if let Err(error) = (self.set_level)(plan.config.log.level.as_deref().unwrap_or("info")) {
            tracing::error!(%error, "log.level stays as it was");
        }
        // What is new among issuers is fetched before the first caller comes with it, if it can be had.
        tokio::spawn(async move { server.callers().warm_up().await });
        Ok(Applied { changes, needs_restart })
    }
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
        let error = fixed.hold(&mut plan("listen: 127.0.0.1:0\n")).unwrap_err().to_string();
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
