//! The plan of a server: flags and config merged, and checked as far as possible without starting.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use gateway::Settings;
use gateway::effective_config::EffectiveConfig;
use gateway::product::{AgentFacts, KeyFacts, Prepared, ProductHost, ProductService, Setup};
use gateway::settings::{CardForm, ConnectionTimeouts, KeySettings};
use model::ports::agent::Agent;
use model::ports::store::Store;

use crate::command::{Auth, Serve};
use crate::config::{Card, Collected, Config, DATA_HERE, Durability, effective, in_file, secret};
use crate::guard;
use crate::products::PRODUCTS;
use crate::roster::{BuiltAgents, Changes, Roster};
use crate::store::{StoreChoice, StoreTuning};

const HOUR_MS: u64 = 3_600_000;

/// The merged configuration; flags override the file.
pub(crate) struct Plan {
    pub(crate) listen: SocketAddr,
    pub(crate) data: PathBuf,
    pub(crate) config: Config,
    pub(crate) roster: Roster,
    /// The products that the config asks for, in the order of [`PRODUCTS`].
    pub(crate) products: Vec<Box<dyn Prepared>>,
    /// The config file, if any.
    pub(crate) file: Option<PathBuf>,
    /// The flags that were given.
    pub(crate) flags: Vec<GivenFlag>,
    /// Keys whose values a reload does not change, and the config at the start, which has them.
    pub(crate) held: Option<(Vec<&'static str>, Arc<EffectiveConfig>)>,
}

/// A flag of the command line.
pub(crate) struct GivenFlag {
    /// The key of the config that it overrides.
    pub(crate) path: String,
    pub(crate) name: &'static str,
    /// Its text, where the plan has no value for the key.
    pub(crate) text: String,
}

impl Plan {
    #[cfg(any(test, feature = "systems"))]
    pub(crate) fn make(options: &Serve) -> anyhow::Result<Plan> {
        let file = options.whereabouts.config.as_deref();
        Plan::of(options, Config::load(file)?, None).map_err(|error| in_file(file, error))
    }

    /// Builds the plan and runs every check that needs no start; reports all mistakes together.
    pub(crate) fn checked(options: &Serve) -> anyhow::Result<Plan> {
        let file = options.whereabouts.config.as_deref();
        let config = Config::load(file)?;
        let mut wrong = Collected::default();
        let written = config.auth.keys.clone();
        match Plan::assemble(options, config, None, &mut wrong) {
            Some(plan) => {
                wrong.take(plan.settings());
                wrong.take(plan.store());
                wrong.finish().map_err(|error| in_file(file, error))?;
                Ok(plan)
            }
            // Without agents there are no settings; the keys can be read all the same.
            None => {
                wrong.take(read_keys(&written));
                wrong.finish().map_err(|error| in_file(file, error))?;
                bail!("the config makes no plan")
            }
        }
    }

    /// The plan of a parsed config. Merging the flags again changes nothing. `running` are the services in force, at a
    /// reload.
    pub(crate) fn of(
        options: &Serve,
        config: Config,
        running: Option<&[Arc<dyn ProductService>]>,
    ) -> anyhow::Result<Plan> {
        let mut wrong = Collected::default();
        let plan = Plan::assemble(options, config, running, &mut wrong);
        wrong.finish()?;
        plan.context("the config makes no plan")
    }

    /// The plan as far as it can be built; mistakes go to `wrong`.
    fn assemble(
        options: &Serve,
        mut config: Config,
        running: Option<&[Arc<dyn ProductService>]>,
        wrong: &mut Collected,
    ) -> Option<Plan> {
        let file = options.whereabouts.config.as_deref();
        if let Some(default) = &options.default {
            config.default = Some(default.clone());
        }
        config.card = options.card.or(config.card);
        if let Some(auth) = options.auth {
            config.auth.required = Some(auth == Auth::Required);
        }
        if let (Some(cert), Some(key)) = (&options.tls_cert, &options.tls_key) {
            config.tls = Some(guard::Tls { cert: cert.clone(), key: key.clone() });
        }
        config.log.format = options.log.or(config.log.format);
        config.durability = options.durability.or(config.durability);
        config.store = options.whereabouts.store.clone().or(config.store);
        if let Some(lease) = options.lease {
            wrong.take(config.store.get_or_insert_default().set_lease(lease));
        }
        let scripted = match (options.scripted_mode, &config.scripted.mode) {
            (Some(mode), _) => Some(mode),
            (None, Some(text)) => wrong.take(text.parse().map_err(|error| anyhow::anyhow!("scripted.mode: {error}"))),
            (None, None) => None,
        };
        let listen = options.listen.or(config.listen).unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 8080)));
        let data = options.whereabouts.data.clone().or(config.data.clone()).unwrap_or_else(|| DATA_HERE.into());
        wrong.take(check_ranges(&config));
        let mut roster = wrong.take(Roster::make(&config, &options.agents, scripted))?;
        let is_demo = roster.is_demo && file.is_none() && listen.ip().is_loopback();
        let mut products = prepare(&config, &roster, &data, is_demo, running, wrong);
        wrong.take(roster.add_products(&mut products, config.default.as_deref()))?;
        let (file, flags) = (file.map(Path::to_owned), given(options));
        let plan = Plan { listen, data, config, roster, products, file, flags, held: None };
        wrong.take(plan.refuse_open_door());
        wrong.take(plan.check_sections());
        Some(plan)
    }

    /// Reads the stored agents of products, and builds all agents; those of `before` whose config is the same are reused.
    pub(crate) async fn build(
        &mut self,
        store: Option<&Arc<dyn Store>>,
        before: &BuiltAgents,
    ) -> anyhow::Result<(BuiltAgents, Changes)> {
        if let Some(store) = store {
            for product in &mut self.products {
                product.load(store).await?;
            }
        }
        self.roster.build_all(&mut self.products, before).await
    }

    /// The agents as they are served.
    pub(crate) fn served(&self, built: &BuiltAgents) -> Vec<Arc<dyn Agent>> {
        let wrap = |agent| self.products.iter().fold(agent, |agent, product| product.wrap(agent));
        built.agents().into_iter().map(wrap).collect()
    }

    /// The services of the products.
    pub(crate) async fn open(&self, host: ProductHost<'_>) -> anyhow::Result<Vec<Arc<dyn ProductService>>> {
        let mut services = Vec::new();
        for product in &self.products {
            services.extend(product.open(host).await?);
        }
        Ok(services)
    }

    /// Whether callers come through a proxy: the config lists proxies, or the public address is not on this
    /// machine.
    pub(crate) fn is_behind_proxy(&self) -> bool {
        let local = |url: &str| {
            let host = url.split_once("://").map_or(url, |(_, rest)| rest);
            ["localhost", "127.", "[::1]"].iter().any(|own| host.starts_with(own))
        };
        !self.config.trusted_proxies.is_empty() || self.config.public_url.as_deref().is_some_and(|url| !local(url))
    }

    /// No agents are configured. The demo's products admit anonymous callers, so it is served on this machine only.
    pub(crate) fn is_demo(&self) -> bool {
        self.roster.is_demo && self.file.is_none() && self.listen.ip().is_loopback()
    }

    /// An address to listen on that other machines reach, with its name in the config.
    pub(crate) fn exposed(&self) -> Option<(&'static str, SocketAddr)> {
        let listens = [("listen", Some(self.listen)), ("grpc.listen", self.config.grpc.listen)];
        let listens = listens.into_iter().filter_map(|(name, address)| Some((name, address?)));
        listens.into_iter().find(|(_, address)| !address.ip().is_loopback())
    }

    /// Whether callers need a key or token: as the config or a flag says, by default on addresses that other
    /// machines reach.
    pub(crate) fn needs_key(&self) -> bool {
        self.config.auth.required.unwrap_or(self.exposed().is_some())
    }

    /// Whether to create a key for the first caller: keys are required by default only, and the config has none.
    pub(crate) fn may_make_first_key(&self) -> bool {
        let auth = &self.config.auth;
        self.needs_key() && auth.required.is_none() && auth.keys.is_empty() && auth.jwt.is_empty()
    }

    /// Without keys every caller that reaches the port has access: that is allowed on loopback only.
    pub(crate) fn refuse_open_door(&self) -> anyhow::Result<()> {
        if let Some((name, address)) = self.exposed()
            && !self.needs_key()
        {
            bail!(
                "{name}: {address} can be reached from other machines, and no key is required: leave auth.required and --auth out or say true, or listen on 127.0.0.1"
            );
        }
        Ok(())
    }

    pub(crate) fn settings(&self) -> anyhow::Result<Settings> {
        let config = &self.config;
        let mut wrong = Collected::default();
        let keys = wrong.take(read_keys(&config.auth.keys)).unwrap_or_default();
        let agent_ids = self.roster.names().map(|name| (agents::assistant::assistant_id(name), name.clone()));
        let issuers = config.auth.jwt.iter().filter_map(|issuer| wrong.take(issuer.settings())).collect();
        let throttle = wrong.take(guard::throttle(&config.limits, &self.data));
        let trusted_proxies = wrong.take(guard::networks(&config.trusted_proxies)).unwrap_or_default();
        let oidc = config.console.oidc.as_ref().and_then(|oidc| wrong.take(oidc.settings()));
        wrong.finish()?;
        let defaults = ConnectionTimeouts::default();
        let settings = Settings {
            listen: self.listen,
            public_url: config.public_url.clone(),
            agents: self.roster.names().cloned().collect(),
            default_agent: self.roster.default.clone(),
            retired: Vec::new(),
            agent_ids: agent_ids.collect(),
            products: Vec::new(),
            product_scopes: PRODUCTS.iter().flat_map(|product| product.scopes()).collect(),
            product_slots: PRODUCTS.iter().flat_map(|product| product.wires()).map(|wire| wire.slot(false)).collect(),
            files: config.files.settings(),
            auth_required: self.needs_key(),
            keys,
            issuers,
            visibility: config.visibility.unwrap_or_default().into(),
            mounts: config.mounts.iter().map(|(name, mount)| (name.as_str().into(), mount.settings())).collect(),
            policy: config.policy.as_ref().map(|rules| rules.iter().map(guard::PolicyRule::settings).collect()),
            throttle: throttle.context("limits")?,
            trusted_proxies,
            tls: config.tls.as_ref().map(guard::Tls::settings),
            cors_origins: config.cors.origins.clone(),
            cors_loopback: config.cors.loopback.unwrap_or(self.file.is_none()),
            grpc_card: config.grpc.card(),
            card: match config.card {
                Some(Card::Clean) => CardForm::Clean,
                Some(Card::Hybrid) | None => CardForm::Hybrid,
            },
            strict_version: config.strict_version,
            cache_bytes: config.cache_mib.unwrap_or(128) << 20,
            timeouts: ConnectionTimeouts {
                header_ms: config.timeouts.header_ms.unwrap_or(defaults.header_ms),
                body_ms: config.timeouts.body_ms.unwrap_or(defaults.body_ms),
                write_ms: config.timeouts.write_ms.unwrap_or(defaults.write_ms),
            },
            connections: config.limits.connections.unwrap_or(10_000),
            connections_per_address: config.limits.connections_per_address.unwrap_or(1_000),
            bodies_bytes: config.limits.bodies_mib.unwrap_or(64) << 20,
            answers_bytes: config.limits.answers_mib.unwrap_or(64) << 20,
            backlog: 4_096,
            heartbeat_ms: config.timeouts.heartbeat_ms.unwrap_or(15_000),
            jwks: None,
            console: config.console.enabled.unwrap_or(self.exposed().is_none()),
            effective: Arc::default(),
            oidc,
            left_alone: Vec::new(),
        };
        settings.check()?;
        let settings = Settings { effective: Arc::new(effective(self, &settings)), ..settings };
        let mut wrong = Collected::default();
        for product in &self.products {
            wrong.take(product.check(&settings).map_err(anyhow::Error::from));
        }
        wrong.finish()?;
        Ok(settings)
    }

    /// The flag that overrides a key.
    pub(crate) fn flag_of(&self, path: &str) -> Option<&'static str> {
        self.flags.iter().find(|flag| flag.path == path).map(|flag| flag.name)
    }

    pub(crate) fn limits(&self) -> model::Limits {
        let (limits, timeouts) = (&self.config.limits, &self.config.timeouts);
        let mut all = model::Limits::default();
        let set = |slot: &mut u64, value: Option<u64>| *slot = value.unwrap_or(*slot);
        set(&mut all.turn_timeout_ms, timeouts.turn_ms);
        set(&mut all.cancel_grace_ms, timeouts.cancel_grace_ms);
        set(&mut all.drain_ms, timeouts.drain_ms);
        set(&mut all.retention_ms, limits.retention_hours.map(|hours| hours.saturating_mul(HOUR_MS)));
        set(&mut all.idempotency_ms, limits.idempotency_hours.map(|hours| hours.saturating_mul(HOUR_MS)));
        all.body_bytes = limits.body_bytes.unwrap_or(all.body_bytes);
        all.json_depth = limits.json_depth.unwrap_or(all.json_depth);
        all.data_depth = limits.data_depth.unwrap_or(all.data_depth);
        all.running_turns = limits.running_turns.unwrap_or(all.running_turns);
        all.turn_bytes = limits.turn_bytes.unwrap_or(all.turn_bytes);
        all.live_bytes = limits.live_mib.map_or(all.live_bytes, |mib| mib << 20);
        all.waiting_messages = limits.waiting_messages.unwrap_or(all.waiting_messages);
        all.attempts = limits.attempts.unwrap_or(all.attempts);
        all.any_input_mode = self.config.any_input_mode;
        all.push = self.config.push.limits();
        all
    }

    /// Checks each section, and the sections against each other.
    fn check_sections(&self) -> anyhow::Result<()> {
        let mut wrong = Collected::default();
        wrong.take(self.config.files.check(self.limits().blob_bytes as u64));
        wrong.finish()
    }

    /// The store's options, with their secrets.
    pub(crate) fn store(&self) -> anyhow::Result<StoreChoice> {
        let relaxed = match self.config.durability {
            Some(Durability::Relaxed) => true,
            Some(Durability::Full) | None => false,
        };
        let tuning = StoreTuning { data: &self.data, is_server: true, relaxed, wal_mib: self.config.limits.wal_mib };
        self.config.store.clone().unwrap_or_default().options(&tuning)
    }

    /// One core is left to the store's writer: more threads would only move requests between cores.
    pub(crate) fn workers(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        self.config.workers.unwrap_or(cores / 2).max(1)
    }
}

/// The flags that a command line has, with the keys that they override.
fn given(options: &Serve) -> Vec<GivenFlag> {
    let flag =
        |path: &str, name: &'static str, text: &str| GivenFlag { path: path.to_owned(), name, text: text.to_owned() };
    let named = [
        ("listen", "--listen", options.listen.is_some()),
        ("data", "--data", options.whereabouts.data.is_some()),
        ("store", "--store", options.whereabouts.store.is_some()),
        ("default", "--default", options.default.is_some()),
        ("card", "--card", options.card.is_some()),
        ("auth.required", "--auth", options.auth.is_some()),
        ("log.format", "--log", options.log.is_some()),
        ("durability", "--durability", options.durability.is_some()),
    ];
    let mut given: Vec<GivenFlag> =
        named.into_iter().filter(|(_, _, is_given)| *is_given).map(|(path, name, _)| flag(path, name, "")).collect();
    let file = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
    if let (Some(cert), Some(key)) = (file(&options.tls_cert), file(&options.tls_key)) {
        given.extend([flag("tls.cert", "--tls-cert", &cert), flag("tls.key", "--tls-key", &key)]);
    }
    if let Some(lease) = options.lease {
        given.push(flag("store.lease_ms", "--lease", &lease.as_millis().to_string()));
    }
    if let Some(mode) = options.scripted_mode {
        given.push(flag("scripted.mode", "--scripted-mode", &format!("{mode:?}").to_lowercase()));
    }
    let agents = options.agents.iter().filter_map(|text| text.split_once('='));
    given.extend(agents.map(|(name, what)| flag(&format!("agents.{name}"), "--agent", what)));
    given
}

/// Lets each product read its sections.
fn prepare(
    config: &Config,
    roster: &Roster,
    data: &Path,
    is_demo: bool,
    running: Option<&[Arc<dyn ProductService>]>,
    wrong: &mut Collected,
) -> Vec<Box<dyn Prepared>> {
    let agents: Vec<AgentFacts<'_>> =
        roster.names().map(|name| AgentFacts { name, written: config.written.get(&**name) }).collect();
    let keys: Vec<KeyFacts<'_>> =
        config.auth.keys.iter().map(|key| KeyFacts { name: &key.name, budget: key.budget() }).collect();
    let setup = Setup { is_demo, data, sections: config, agents: &agents, keys: &keys, running };
    PRODUCTS.iter().filter_map(|product| wrong.take(product.prepare(&setup)).flatten()).collect()
}

/// Refuses numbers with which a server could serve no request, or would lose data.
fn check_ranges(config: &Config) -> anyhow::Result<()> {
    let mut wrong = Collected::default();
    let (limits, timeouts) = (&config.limits, &config.timeouts);
    let year_hours = 24 * 366 * 100;
    for (name, value, least, most) in [
        ("cache_mib", config.cache_mib.map(|n| n as u64), 0, 1 << 20),
        ("workers", config.workers.map(|n| n as u64), 1, 1_024),
        ("limits.body_bytes", limits.body_bytes.map(|n| n as u64), 1_024, 1 << 30),
        ("limits.json_depth", limits.json_depth.map(|n| n as u64), 8, 10_000),
        ("limits.data_depth", limits.data_depth.map(|n| n as u64), 4, 10_000),
        ("limits.bodies_mib", limits.bodies_mib.map(|n| n as u64), 1, 1 << 20),
        ("limits.answers_mib", limits.answers_mib.map(|n| n as u64), 1, 1 << 20),
        ("limits.live_mib", limits.live_mib.map(|n| n as u64), 1, 1 << 20),
        ("limits.connections", limits.connections.map(|n| n as u64), 1, 1_000_000),
        ("limits.connections_per_address", limits.connections_per_address.map(u64::from), 1, 1_000_000),
        ("limits.running_turns", limits.running_turns.map(|n| n as u64), 1, 100_000_000),
        ("limits.turn_bytes", limits.turn_bytes.map(|n| n as u64), 1_024, 1 << 40),
        ("limits.attempts", limits.attempts.map(u64::from), 1, 1_000),
        ("limits.retention_hours", limits.retention_hours, 0, year_hours),
        ("limits.idempotency_hours", limits.idempotency_hours, 0, year_hours),
        ("limits.streams_per_caller", limits.streams_per_caller.map(u64::from), 1, 1_000_000),
        ("limits.waiting_per_caller", limits.waiting_per_caller.map(u64::from), 1, 1_000_000),
        ("limits.daily_calls", limits.daily_calls, 1, 1 << 50),
        ("limits.wal_mib", limits.wal_mib, 1, 1 << 20),
        ("timeouts.header_ms", timeouts.header_ms, 10, 86_400_000),
        ("timeouts.body_ms", timeouts.body_ms, 10, 86_400_000),
        ("timeouts.write_ms", timeouts.write_ms.map(u64::from), 10, 86_400_000),
        ("timeouts.heartbeat_ms", timeouts.heartbeat_ms, 100, 86_400_000),
        ("timeouts.turn_ms", timeouts.turn_ms, 1, year_hours * HOUR_MS),
        ("timeouts.cancel_grace_ms", timeouts.cancel_grace_ms, 0, 3_600_000),
        // A shutdown takes five seconds at most.
        ("timeouts.drain_ms", timeouts.drain_ms, 0, 4_400),
    ] {
        if let Some(value) = value
            && !(least..=most).contains(&value)
        {
            wrong.put(format!("{name}: {value} is out of range; choose a number from {least} to {most}"));
        }
    }
    if let Some(url) = &config.public_url
        && !(url.starts_with("https://") || url.starts_with("http://"))
    {
        wrong.put(format!("public_url: {url:?} is not an address; write https://host"));
    }
    for key in &config.auth.keys {
        if key.name.trim().is_empty() || key.tenant.trim().is_empty() {
            wrong.put("auth.keys: a key needs a name and a tenant".to_owned());
        }
    }
    wrong.take(config.grpc.check());
    wrong.take(config.push.check());
    if let Some(store) = &config.store {
        wrong.take(store.check());
    }
    let level = config.log.level.as_deref().unwrap_or("info");
    let filter = tracing_subscriber::EnvFilter::try_new(level)
        .map_err(|_| anyhow::anyhow!("log.level: {level:?} is not a filter; write info, or warn,engine=debug"));
    wrong.take(filter);
    wrong.finish()
}

/// The keys of `auth.keys`.
fn read_keys(written: &[crate::config::KeyConfig]) -> anyhow::Result<Vec<KeySettings>> {
    let mut wrong = Collected::default();
    let mut keys: Vec<KeySettings> = Vec::new();
    for key in written {
        let read = read_key(key, &keys);
        keys.extend(wrong.take(read));
    }
    wrong.finish().map(|()| keys)
}

/// Reads a key of `auth.keys`; `known` are the keys before it.
fn read_key(key: &crate::config::KeyConfig, known: &[KeySettings]) -> anyhow::Result<KeySettings> {
    let about = || format!("auth.keys: the key {:?}", key.name);
    let value = secret(&key.key).with_context(about)?;
    if known.iter().any(|known| *known.name == *key.name) {
        bail!("auth.keys: two keys are named {:?}; logs could not tell them apart", key.name);
    }
    if known.iter().any(|known| known.secret == value) {
        bail!("auth.keys: {:?} has the same key as another; each caller needs its own", key.name);
    }
    let expires_at = key.expires_at.as_deref().map(guard::moment).transpose().with_context(about)?;
    let scopes = key.scopes.clone();
    Ok(KeySettings {
        name: key.name.as_str().into(),
        tenant: key.tenant.as_str().into(),
        secret: value,
        scopes,
        expires_at,
    })
}

#[cfg(all(test, feature = "market"))]
mod tests {
    use super::*;

    #[test]
    fn agents_that_are_sold_are_served() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rialto.yaml");
        let plan = |agents: &str| {
            let yaml = format!("agents: {{ upper: {{ kind: echo }} }}\nmarket: {{ agents: [{agents}] }}\n");
            std::fs::write(&file, yaml).unwrap();
            let mut options = Serve::default();
            options.whereabouts.config = Some(file.clone());
            Plan::checked(&options)
        };
        assert_eq!(plan("upper").unwrap().products.len(), 1);
        let error = plan("uper").map(drop).unwrap_err().to_string();
        let says = r#"market.agents: there is no agent "uper"; did you mean "upper"?"#;
        assert_eq!(error, format!("{}, line 2: {says}", file.display()));
    }
}
