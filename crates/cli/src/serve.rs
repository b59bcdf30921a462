//! `rialto serve`: starts a server from flags and config, and stops it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use engine::Engine;
use gateway::accept::{self, Accept};
use gateway::product::{ProductHost, ProductService, demo_file};
use gateway::{GatewayVersion, Settings, admin, log::Sink, product};
use model::ports::webhook::WebhookSender;
use tokio::runtime::{Handle, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Notify, mpsc};

use crate::command::Serve;
use crate::config::LogFormat;
use crate::plan::Plan;
use crate::products::PRODUCTS;
use crate::push_config::WebhookContext;
use crate::reload::{FileStamp, FixedSettings, Reloader, SetLevel};
use crate::roster::BuiltAgents;
use crate::{absent_products, banner, guard, replicas};

/// Most threads for webhook deliveries.
const OUTBOX_THREADS: usize = 4;

pub(crate) fn run(options: &Serve) -> anyhow::Result<()> {
    let seen = FileStamp::of(options.whereabouts.config.as_deref());
    let plan = Plan::checked(options)?;
    let json = plan.config.log.format == Some(LogFormat::Json);
    let sink = Sink::stderr(json, plan.config.log.requests.unwrap_or(true))?;
    let set_level = start_log(&sink, plan.config.log.level.as_deref().unwrap_or("info"))?;
    warn_of_old_targets(plan.config.log.level.as_deref().unwrap_or_default());
    gateway::panics::watch();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(plan.workers()).enable_all().build()?;
    let errands = errands()?;
    let told = StartContext { options, seen, sink: sink.clone(), set_level, errands: errands.handle().clone() };
    let outcome = runtime.block_on(futures_util::FutureExt::boxed_local(serve(plan, told)));
    errands.shutdown_timeout(Duration::from_millis(200));
    runtime.shutdown_timeout(Duration::from_millis(200));
    sink.flush();
    outcome
}

/// Inputs of the start that a reload needs again.
struct StartContext<'o> {
    options: &'o Serve,
    seen: FileStamp,
    sink: Sink,
    set_level: SetLevel,
    /// The runtime of webhook deliveries.
    errands: Handle,
}

/// Log targets of earlier releases, and those of today.
const RENAMED_TARGETS: [(&str, &str); 3] = [("server", "gateway,web"), ("trade", "market"), ("retail", "shop")];

/// Warns of a filter that names a log target of an earlier release: it would match nothing.
fn warn_of_old_targets(level: &str) {
    for directive in level.split(',') {
        let target = directive.split(['=', '[', ':']).next().unwrap_or_default().trim();
        if let Some((old, new)) = RENAMED_TARGETS.iter().find(|(old, _)| *old == target) {
            tracing::warn!("log.level names the target {old:?}, which no longer exists; write {new}");
        }
    }
}

fn start_log(sink: &Sink, level: &str) -> anyhow::Result<SetLevel> {
    use tracing_subscriber::EnvFilter;
    let read = |level: &str| EnvFilter::try_new(level).with_context(|| format!("log.level {level:?} is not a filter"));
    let filter = read(level)?;
    let writer = sink.clone();
    let builder = tracing_subscriber::fmt().with_env_filter(filter);
    // Two builders of different types, each with its own handle to change the filter.
    if sink.is_json() {
        let builder = builder.json().flatten_event(true).with_writer(move || LogWriter(writer.clone()));
        let builder = builder.with_filter_reloading();
        let filter = builder.reload_handle();
        builder.try_init().map_err(|e| anyhow::anyhow!("{e}"))?;
        Ok(Box::new(move |level| Ok(filter.reload(read(level)?)?)))
    } else {
        let builder = builder.with_ansi(false).with_writer(move || LogWriter(writer.clone())).with_filter_reloading();
        let filter = builder.reload_handle();
        builder.try_init().map_err(|e| anyhow::anyhow!("{e}"))?;
        Ok(Box::new(move |level| Ok(filter.reload(read(level)?)?)))
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

/// Webhooks have their own threads with a lower priority: requests come first.
fn errands() -> anyhow::Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    builder.worker_threads(cores.min(OUTBOX_THREADS)).thread_name("rialto-outbox").enable_all();
    builder.on_thread_start(|| {
        if let Err(error) = rustix::process::nice(5) {
            tracing::debug!(%error, "cannot lower the priority of the webhook threads");
        }
    });
    Ok(builder.build()?)
}

async fn serve(mut plan: Plan, told: StartContext<'_>) -> anyhow::Result<()> {
    let mut stop = Stop::listen()?;
    // Signal handlers are installed before the server can be reached.
    let reloads = plan.file.is_some() || plan.config.tls.is_some();
    let hangup = if reloads { Some(signal(SignalKind::hangup())?) } else { None };
    // Config errors are reported before anything is changed.
    plan.settings()?;
    let (configured, _) = plan.build(None, &BuiltAgents::default()).await?;
    let opened = plan.store()?.open(&plan.data).await?;
    let store = opened.store.clone();
    replicas::warn_of_leases(&*store).await;
    // Before any turn is recovered, which may belong to a stored agent.
    let (built, _) = plan.build(Some(&store), &configured).await?;
    let left_alone = absent_products::warn(&*store, &built).await;
    // An agent that a reload removes must not live on here.
    drop(configured);
    let plan = &plan;
    let settings = plan.settings()?;
    let listener = accept::bind(plan.listen, settings.backlog).with_context(|| {
        format!("cannot listen on {}; is another server there? choose one with --listen", plan.listen)
    })?;
    let second = plan.config.grpc.listen.map(|address| {
        let bound = accept::bind(address, settings.backlog);
        bound.with_context(|| {
            format!("cannot listen on {address}; is another server there? see grpc.listen in the config")
        })
    });
    let second = second.transpose()?;
    let address = listener.local_addr()?;
    let seal = plan.config.push.seal(&*store, &plan.data).await?;
    let post = plan.config.push.post(address, plan.is_behind_proxy())?;
    let found = WebhookContext {
        store: &store,
        data: &plan.data,
        address,
        public_url: plan.config.public_url.as_deref(),
        behind_proxy: plan.is_behind_proxy(),
        tls: settings.tls.is_some(),
        files: settings.files,
        seal: seal.clone(),
        post: post.clone(),
    };
    let (courier, jwks) =
        plan.config.push.courier(found).await?.map_or((None, None), |made| (Some(made.courier), made.jwks));
    let courier = courier.map(|courier| courier as Arc<dyn WebhookSender>);
    let served = plan.served(&built);
    // Also without prices: a turn may have been paid for before.
    let (limits, books) = (plan.limits(), product::settlement(PRODUCTS));
    let started = Engine::builder(store)
        .agents(served)
        .limits(limits)
        .webhook_sender(courier)
        .webhook_runtime(told.errands.clone())
        .settlement(books)
        .keeps_unserved_turns(absent_products::lacks_products())
        .start()
        .await;
    let engine =
        started.map_err(|fault| anyhow::anyhow!("cannot take up the data: {fault} ({})", fault.cause_text()))?;
    replicas::introduce(&engine, told.options.whereabouts.config.as_deref(), address);
    engine.set_sealer(seal);
    let base = banner::base(plan, address);
    let base_url = plan.config.public_url.as_deref().unwrap_or(&base);
    let products = plan.open(ProductHost { engine: &engine, base_url, data: &plan.data, post: &post }).await?;
    let effective = settings.effective.clone();
    let settings = Settings { listen: address, jwks, left_alone, products: products.clone(), ..settings };
    let server = GatewayVersion::new(engine.clone(), settings, told.sink.clone())?;
    products.iter().for_each(|product| product.in_force());
    let loaded = admin::load_keys(&engine, server.callers()).await;
    loaded.map_err(|fault| anyhow::anyhow!("cannot read the keys: {fault} ({})", fault.cause_text()))?;
    let first_key = match plan.may_make_first_key() {
        true => admin::first_key(&engine, server.callers(), &plan.data).await,
        false => Ok(None),
    };
    let first_key =
        first_key.map_err(|fault| anyhow::anyhow!("cannot make the first key: {fault} ({})", fault.cause_text()))?;
    guard::warn_of_doors(plan, &server);
    admin::audit_policy(&plan.data, server.policy());
    let accept = Arc::new(Accept::new(server.clone()));
    let (ask, asked) = mpsc::channel(1);
    let serving = accept.serving.clone();
    admin::serve(serving.clone(), ask, &plan.data, PRODUCTS, post.clone())
        .await
        .context("cannot open the admin socket in the data folder")?;
    if plan.is_demo() {
        open_demo(plan, &base, &server, &products).await?;
    }
    // Elsewhere the output may be read by others than the operator.
    let link = match plan.exposed().is_none() && !plan.is_behind_proxy() {
        true => server.console_link().map_err(|fault| anyhow::anyhow!("{fault}"))?,
        false => None,
    };
    banner::print(plan, address, &server, first_key.as_ref(), link.as_deref());
    drop(server);
    let certificate = Arc::new(Notify::new());
    let house = tokio::spawn(serving.clone().housekeeping(accept.shutdown.clone(), certificate.clone()));
    let StartContext { options, seen, sink, set_level, errands: _ } = told;
    let (options, fixed) = (options.clone(), FixedSettings::of(plan, address, post, effective));
    let config = plan.config.clone();
    let reloader = Reloader {
        options,
        serving,
        built,
        fixed,
        sink,
        set_level,
        seen,
        hangup,
        certificate,
        asked,
        config,
        base_url: base_url.to_owned(),
    };
    tokio::spawn(reloader.run(accept.shutdown.clone()));
    if let Some(listener) = second {
        let accept = accept.clone();
        tokio::spawn(async move { accept.run(listener).await });
    }
    let accepting = tokio::spawn({
        let accept = accept.clone();
        async move { accept.run(listener).await }
    });
    tokio::select! {
        () = stop.asked() => {}
        ended = accepting => bail!("the server stopped accepting connections: {}", match ended {
            Ok(_) => "it ended by itself".to_owned(),
            Err(error) => error.to_string(),
        }),
    }
    tracing::info!("shutting down: no new work, running turns may finish");
    engine.begin_drain();
    accept.shutdown.cancel();
    tokio::select! {
        () = engine.drain() => {}
        // A second signal skips the drain.
        () = stop.asked() => {}
    }
    accept.connections.close();
    let _ = tokio::time::timeout(Duration::from_millis(500), accept.connections.wait()).await;
    let _ = tokio::time::timeout(Duration::from_millis(100), house).await;
    let _ = std::fs::remove_file(plan.data.join(admin::SOCKET));
    // Only now may another server use the folder.
    drop(opened);
    Ok(())
}

/// Writes the demo's ids and credentials to the data folder, and makes what they promise.
async fn open_demo(
    plan: &Plan,
    base: &str,
    server: &GatewayVersion,
    products: &[Arc<dyn ProductService>],
) -> anyhow::Result<()> {
    let demos: Vec<_> = products.iter().filter_map(|product| product.demo()).collect();
    let mut sections = Vec::new();
    for demo in &demos {
        sections.push((demo.name(), demo.section(server).await?));
    }
    let shown = demo_file::write(&plan.data, base, &sections)
        .with_context(|| format!("cannot write {} in the data folder", demo_file::FILE))?;
    for demo in demos {
        demo.open(&shown).await.with_context(|| format!("cannot open the demo's part {:?}", demo.name()))?;
    }
    Ok(())
}

/// Listens for SIGTERM and SIGINT, from before there is data to lose.
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
