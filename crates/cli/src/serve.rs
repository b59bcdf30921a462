//! `rialto serve`: from flags and config to a running server, and down again.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use engine::Engine;
use model::ports::agent::Agent;
use model::ports::courier::Courier;
use model::ports::store::Store;
use server::accept::{self, Accept};
use server::settings::{CardForm, Key, Timeouts};
use server::{Server, Settings, admin, log::Sink};
use stores::sqlite;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::command::{Auth, Serve};
use crate::config::{Card, Config, Durability, LogFormat, secret};
use crate::guard;
use crate::push_config::Found;

const HOUR_MS: u64 = 3_600_000;

/// What is going to be served, where and how; flags have won over the file.
pub(crate) struct Plan {
    pub(crate) listen: SocketAddr,
    pub(crate) data: PathBuf,
    config: Config,
    from_file: bool,
    scripted: agents::scripted::Mode,
}

impl Plan {
    pub(crate) fn make(options: &Serve) -> anyhow::Result<Plan> {
        let file = options.whereabouts.config.as_deref();
        let mut config = Config::load(file)?;
        if let Some(default) = &options.default {
            config.default = Some(default.clone());
        }
        config.card = options.card.or(config.card);
        if let Some(auth) = options.auth {
            config.auth.required = auth == Auth::Required;
        }
        if let (Some(cert), Some(key)) = (&options.tls_cert, &options.tls_key) {
            config.tls = Some(guard::Tls { cert: cert.clone(), key: key.clone() });
        }
        config.log.format = options.log.or(config.log.format);
        config.durability = options.durability.or(config.durability);
        let scripted = match (options.scripted_mode, &config.scripted.mode) {
            (Some(mode), _) => mode,
            (None, Some(text)) => text.parse().map_err(|error| anyhow::anyhow!("scripted.mode: {error}"))?,
            (None, None) => agents::scripted::Mode::default(),
        };
        let listen = options.listen.or(config.listen).unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 8080)));
        let data = options.whereabouts.data.clone().or(config.data.clone()).unwrap_or_else(|| "rialto-data".into());
        let plan = Plan { listen, data, config, from_file: file.is_some(), scripted };
        plan.refuse_open_door()?;
        plan.check_ranges()?;
        Ok(plan)
    }

    /// Without a key everybody who reaches the port is in: that is for loopback only.
    fn refuse_open_door(&self) -> anyhow::Result<()> {
        let auth = &self.config.auth;
        if !self.listen.ip().is_loopback() && !auth.required {
            bail!(
                "{} can be reached from other machines, and no key is required: set auth.required and auth.keys in the config, or listen on 127.0.0.1",
                self.listen
            );
        }
        Ok(())
    }

    fn agents(&self) -> Vec<Arc<dyn Agent>> {
        let settings = agents::Settings { scripted: self.scripted };
        agents::BUILTIN.iter().filter_map(|builtin| agents::builtin(builtin.name, &settings)).collect()
    }

    pub(crate) fn settings(&self) -> anyhow::Result<Settings> {
        let config = &self.config;
        let mut keys: Vec<Key> = Vec::new();
        for key in &config.auth.keys {
            let value = secret(&key.key).with_context(|| format!("auth.keys: the key {:?}", key.name))?;
            if keys.iter().any(|known| *known.name == *key.name) {
                bail!("auth.keys: two keys are named {:?}; logs could not tell them apart", key.name);
            }
            if keys.iter().any(|known| known.secret == value) {
                bail!("auth.keys: {:?} has the same key as another; each caller needs its own", key.name);
            }
            let expires_at = key.expires_at.as_deref().map(guard::moment).transpose();
            keys.push(Key {
                name: key.name.as_str().into(),
                tenant: key.tenant.as_str().into(),
                secret: value,
                scopes: key.scopes.clone(),
                expires_at: expires_at.with_context(|| format!("auth.keys: the key {:?}", key.name))?,
            });
        }
        let defaults = Timeouts::default();
        let settings = Settings {
            listen: self.listen,
            public_url: config.public_url.clone(),
            agents: self.agents().iter().map(|agent| agent.profile().name.clone()).collect(),
            default_agent: config.default.as_deref().unwrap_or("echo").into(),
            auth_required: config.auth.required,
            keys,
            issuers: config.auth.jwt.iter().map(guard::JwtIssuer::settings).collect::<anyhow::Result<_>>()?,
            visibility: config.visibility.unwrap_or_default().into(),
            mounts: config.mounts.iter().map(|(name, mount)| (name.as_str().into(), mount.settings())).collect(),
            policy: config.policy.as_ref().map(|rules| rules.iter().map(guard::PolicyRule::settings).collect()),
            throttle: guard::throttle(&config.limits, &self.data)?,
            trusted_proxies: guard::networks(&config.trusted_proxies)?,
            tls: config.tls.as_ref().map(guard::Tls::settings),
            cors_origins: config.cors.origins.clone(),
            cors_loopback: config.cors.loopback.unwrap_or(!self.from_file),
            card: match config.card {
                Some(Card::Clean) => CardForm::Clean,
                Some(Card::Hybrid) | None => CardForm::Hybrid,
            },
            strict_version: config.strict_version,
            cache_bytes: config.cache_mib.unwrap_or(128) << 20,
            timeouts: Timeouts {
                header_ms: config.timeouts.header_ms.unwrap_or(defaults.header_ms),
                body_ms: config.timeouts.body_ms.unwrap_or(defaults.body_ms),
                write_ms: config.timeouts.write_ms.unwrap_or(defaults.write_ms),
            },
            connections: config.limits.connections.unwrap_or(10_000),
            backlog: 4_096,
            heartbeat_ms: config.timeouts.heartbeat_ms.unwrap_or(15_000),
            jwks: None,
        };
        settings.check()?;
        Ok(settings)
    }

    fn limits(&self) -> model::Limits {
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
        all.running_turns = limits.running_turns.unwrap_or(all.running_turns);
        all.turn_bytes = limits.turn_bytes.unwrap_or(all.turn_bytes);
        all.waiting_messages = limits.waiting_messages.unwrap_or(all.waiting_messages);
        all.attempts = limits.attempts.unwrap_or(all.attempts);
        all.any_input_mode = self.config.any_input_mode;
        all.push = self.config.push.limits();
        all
    }

    /// Numbers that would leave a server that serves nobody, or loses what it should keep.
    fn check_ranges(&self) -> anyhow::Result<()> {
        let config = &self.config;
        let (limits, timeouts) = (&config.limits, &config.timeouts);
        let year_hours = 24 * 366 * 100;
        for (name, value, least, most) in [
            ("cache_mib", config.cache_mib.map(|n| n as u64), 0, 1 << 20),
            ("workers", config.workers.map(|n| n as u64), 1, 1_024),
            ("limits.body_bytes", limits.body_bytes.map(|n| n as u64), 1_024, 1 << 30),
            ("limits.json_depth", limits.json_depth.map(|n| n as u64), 8, 10_000),
            ("limits.connections", limits.connections.map(|n| n as u64), 1, 1_000_000),
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
                bail!("{name}: {value} is out of range; choose a number from {least} to {most}");
            }
        }
        if let Some(url) = &config.public_url
            && !(url.starts_with("https://") || url.starts_with("http://"))
        {
            bail!("public_url: {url:?} is not an address; write https://host");
        }
        for key in &config.auth.keys {
            if key.name.trim().is_empty() || key.tenant.trim().is_empty() {
                bail!("auth.keys: a key needs a name and a tenant");
            }
        }
        config.push.check()?;
        let level = config.log.level.as_deref().unwrap_or("info");
        tracing_subscriber::EnvFilter::try_new(level)
            .with_context(|| format!("log.level: {level:?} is not a filter; write info, or warn,engine=debug"))?;
        Ok(())
    }

    fn store(&self) -> sqlite::Options {
        let mut options = sqlite::Options::new(&self.data);
        options.durability = match self.config.durability {
            Some(Durability::Relaxed) => sqlite::Durability::Relaxed,
            Some(Durability::Full) | None => sqlite::Durability::Full,
        };
        if let Some(mib) = self.config.limits.wal_mib {
            options.wal_limit_bytes = mib << 20;
        }
        options
    }

    /// One core is left to the store's writer: more threads only hand requests from core to core.
    fn workers(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        self.config.workers.unwrap_or(cores / 2).max(1)
    }
}

pub(crate) fn run(options: &Serve) -> anyhow::Result<()> {
    let plan = Plan::make(options)?;
    let json = plan.config.log.format == Some(LogFormat::Json);
    let sink = Sink::stderr(json, plan.config.log.requests.unwrap_or(true))?;
    start_log(&sink, plan.config.log.level.as_deref().unwrap_or("info"))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(plan.workers()).enable_all().build()?;
    let outcome = runtime.block_on(serve(&plan, sink.clone()));
    runtime.shutdown_timeout(Duration::from_millis(200));
    sink.flush();
    outcome
}

fn start_log(sink: &Sink, level: &str) -> anyhow::Result<()> {
    use tracing_subscriber::EnvFilter;
    let filter = EnvFilter::try_new(level).with_context(|| format!("log.level {level:?} is not a filter"))?;
    let writer = sink.clone();
    let builder = tracing_subscriber::fmt().with_env_filter(filter);
    if sink.is_json() {
        let started = builder.json().flatten_event(true).with_writer(move || LogWriter(writer.clone())).try_init();
        started.map_err(|e| anyhow::anyhow!("{e}"))
    } else {
        let started = builder.with_ansi(false).with_writer(move || LogWriter(writer.clone())).try_init();
        started.map_err(|e| anyhow::anyhow!("{e}"))
    }
}

struct LogWriter(Sink);

impl std::io::Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        (&self.0).write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

async fn serve(plan: &Plan, sink: Sink) -> anyhow::Result<()> {
    let mut stop = Stop::listen()?;
    let settings = plan.settings()?;
    let agents = plan.agents();
    let store = sqlite::Store::open(plan.store()).with_context(|| format!("cannot open {}", plan.data.display()))?;
    let store: Arc<dyn Store> = Arc::new(store);
    let listener = accept::bind(plan.listen, settings.backlog).with_context(|| {
        format!("cannot listen on {}; is another server there? choose one with --listen", plan.listen)
    })?;
    let address = listener.local_addr()?;
    let found =
        Found { store: store.clone(), data: &plan.data, address, public_url: plan.config.public_url.as_deref() };
    let (courier, jwks) =
        plan.config.push.courier(found).await?.map_or((None, None), |made| (Some(made.courier), made.jwks));
    let courier = courier.map(|courier| courier as Arc<dyn Courier>);
    let started = Engine::start(store, agents, plan.limits(), courier).await;
    let engine = started.map_err(|fault| anyhow::anyhow!("cannot take up the data: {fault} ({:?})", fault.cause))?;
    let server = Server::new(engine.clone(), Settings { listen: address, jwks, ..settings }, sink)?;
    let loaded = admin::load_keys(&engine, server.callers()).await;
    loaded.map_err(|fault| anyhow::anyhow!("cannot read the keys: {fault} ({:?})", fault.cause))?;
    guard::warn_of_open_mounts(&plan.config);
    admin::audit_policy(&plan.data, server.policy().as_deref());
    if plan.config.auth.required && !server.callers().has_any() {
        tracing::warn!("a key is required and there is none: make one with rialto keys create NAME --tenant T");
    }
    admin::serve(server.clone(), &plan.data).await.context("cannot open the admin socket in the data folder")?;
    banner(plan, address, &server);
    let accept = Arc::new(Accept::new(server.clone()));
    let house = tokio::spawn(server.keep_house(accept.shutdown.clone(), guard::on_hangup(plan.config.tls.is_some())?));
    let accepting = tokio::spawn({
        let accept = accept.clone();
        async move { accept.run(listener).await }
    });
    tokio::select! {
        () = stop.asked() => {}
        ended = accepting => bail!("the server stopped accepting connections: {ended:?}"),
    }
    tracing::info!("shutting down: no new work, running turns may finish");
    engine.begin_drain();
    accept.shutdown.cancel();
    tokio::select! {
        () = engine.drain() => {}
        // Asked twice, somebody is in a hurry.
        () = stop.asked() => {}
    }
    accept.connections.close();
    let _ = tokio::time::timeout(Duration::from_millis(500), accept.connections.wait()).await;
    let _ = tokio::time::timeout(Duration::from_millis(100), house).await;
    let _ = std::fs::remove_file(plan.data.join(admin::SOCKET));
    Ok(())
}

/// Listens for SIGTERM and SIGINT, from before there is anything to lose.
struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    fn listen() -> anyhow::Result<Stop> {
        Ok(Stop { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn asked(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

fn banner(plan: &Plan, address: SocketAddr, server: &Server) {
    use std::io::Write;
    let base = format!("{}://{address}", if plan.config.tls.is_some() { "https" } else { "http" });
    let data = plan.data.display();
    let mut out = std::io::stdout().lock();
    let mut text = format!("Rialto {} serves A2A on {base} (data in {data})\n\n", env!("CARGO_PKG_VERSION"));
    for agent in server.agents() {
        let mark = if agent == server.default_agent() { "  (also at the root)" } else { "" };
        text.push_str(&format!("  {base}/a2a/{agent}{mark}\n"));
    }
    // The shell puts the key in where the config says in which variable it is.
    let variable = plan.config.auth.keys.first().and_then(|key| key.key.strip_prefix("env:"));
    let key = match (plan.config.auth.required, variable) {
        (false, _) => String::new(),
        (true, Some(variable)) => format!(" -H \"Authorization: Bearer ${variable}\""),
        (true, None) => " -H 'Authorization: Bearer KEY'".to_owned(),
    };
    let send = r#"{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m1","role":"ROLE_USER","parts":[{"text":"hello"}]}}}"#;
    let stream = r#"{"message":{"messageId":"m2","role":"ROLE_USER","parts":[{"text":"chunks:5 every:200"}]}}"#;
    text.push_str(&format!(
        "\ntry:\n  curl -s {base}/ -H 'A2A-Version: 1.0' -H 'Content-Type: application/json'{key} -d '{send}'\n  curl -sN {base}/a2a/scripted/message:stream -H 'A2A-Version: 1.0' -H 'Content-Type: application/json'{key} -d '{stream}'\n  curl -s '{base}/tasks?pageSize=5' -H 'A2A-Version: 1.0'{key}\n\n"
    ));
    // A closed standard output is no reason not to serve.
    let _ = out.write_all(text.as_bytes());
    let _ = out.flush();
}
