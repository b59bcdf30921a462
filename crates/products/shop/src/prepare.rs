//! Shops from the config to their service. They open and close with the server: a changed section needs a restart.

use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use engine::Engine;
use futures_util::future::BoxFuture;
use gateway::product::{Demo, Prepared, ProductHost, ProductService, RosterEntry, Setup};
use gateway::{GatewayVersion, Settings, settings};
use model::ports::agent::Agent;
use serde_json::{Map, Value, json};

use crate::config::Aly as ShopSection;
use crate::service::{self, Shop, ShopHandle, StoreAgent};
use crate::{ShopService, StoreAgentSettings, check, demo};

/// The key of the section.
const SECTION: &str = "aly";
/// How often to retry sites that a full disk kept from being stored.
const SITES_AGAIN: Duration = Duration::from_secs(5);

pub(crate) fn prepare(setup: &Setup<'_>) -> anyhow::Result<Option<Box<dyn Prepared>>> {
    let wanted = match setup.section::<ShopSection>(SECTION) {
        Some(wanted) => Some(wanted.clone()),
        None if setup.is_demo => Some(demo::config()?),
        None => None,
    };
    if let Some(wanted) = &wanted {
        wanted.check()?;
    }
    let running = setup.running::<ShopService>();
    let (config, needs_restart) = match setup.running {
        None => (wanted, false),
        Some(_) => {
            let before = running.as_ref().map(|service| service.written().clone());
            let is_changed = !setup.is_demo && format!("{wanted:?}") != format!("{before:?}");
            (before, is_changed)
        }
    };
    let handle = running.as_ref().map(|service| service.handle().clone()).unwrap_or_default();
    match config {
        Some(config) => {
            let settings = config.settings()?;
            Ok(Some(Box::new(PreparedShop { config: Some((config, settings)), handle, running, needs_restart })))
        }
        None if needs_restart => Ok(Some(Box::new(PreparedShop { config: None, handle, running, needs_restart }))),
        None => Ok(None),
    }
}

struct PreparedShop {
    /// None for shops that are new at a reload: they open at the next start.
    config: Option<(ShopSection, StoreAgentSettings)>,
    /// Where the store agent finds the shops.
    handle: ShopHandle,
    running: Option<Arc<ShopService>>,
    needs_restart: bool,
}

impl Prepared for PreparedShop {
    fn needs_restart(&self) -> Vec<&'static str> {
        if self.needs_restart { vec![SECTION] } else { Vec::new() }
    }

    /// The store agent of Rialto's own shops. It is no part of a system, because its mounts check the permissions.
    fn roster(&mut self, before: &[RosterEntry]) -> anyhow::Result<Vec<RosterEntry>> {
        if !self.config.as_ref().is_some_and(|(config, _)| config.has_shops()) {
            return Ok(Vec::new());
        }
        let name = service::AGENT;
        if before.iter().any(|known| *known.name == *name) {
            bail!(
                "aly: another agent is named {name:?}, which is the store agent's name; rename it, or write agent: {name} if it is to be the store agent"
            );
        }
        let handle = self.handle.clone();
        Ok(vec![RosterEntry {
            name: name.into(),
            fingerprint: String::new(),
            can_be_node: false,
            spec: json!({ "kind": name }),
            build: Arc::new(move || {
                let agent = Arc::new(StoreAgent::guarded(handle.clone(), name)) as Arc<dyn Agent>;
                Box::pin(std::future::ready(Ok(agent)))
            }),
        }])
    }

    fn check(&self, settings: &Settings) -> Result<(), settings::Error> {
        self.config.as_ref().map_or(Ok(()), |(_, aly)| check(aly, settings))
    }

    fn open<'a>(&'a self, host: ProductHost<'a>) -> BoxFuture<'a, anyhow::Result<Option<Arc<dyn ProductService>>>> {
        Box::pin(async move {
            if let Some(running) = &self.running {
                return Ok(Some(running.clone() as Arc<dyn ProductService>));
            }
            let Some((config, settings)) = &self.config else { return Ok(None) };
            let mut settings = settings.clone();
            if config.has_shops() {
                let shop = open_shops(host.engine, config, host.base_url).await?;
                self.handle.open(shop.clone());
                settings.admission = Arc::new(shop.clone());
                settings.shop = Some(shop);
            }
            let service = ShopService::new(host.engine.clone(), settings).named(config.clone(), self.handle.clone());
            Ok(Some(Arc::new(service) as Arc<dyn ProductService>))
        })
    }
}

/// Opens the shops, with the config's sites.
async fn open_shops(engine: &Engine, config: &ShopSection, base_url: &str) -> anyhow::Result<Shop> {
    let started = Shop::start(engine.clone(), config.dealings(base_url), true).await;
    let shop = started.map_err(|fault| anyhow::anyhow!("cannot open the shops: {fault} ({})", fault.cause_text()))?;
    let Err(error) = config.put_sites(&shop).await else { return Ok(shop) };
    let cannot_write = engine.health().await.is_ok_and(|health| health.trouble.is_some());
    if !cannot_write {
        return Err(error);
    }
    tracing::warn!("the sites of the config cannot be kept yet: {error:#}; what was kept before is served meanwhile");
    tokio::spawn(put_sites_later(shop.clone(), config.clone()));
    Ok(shop)
}

/// Stores the config's sites as soon as the store can write again.
async fn put_sites_later(shop: Shop, config: ShopSection) {
    loop {
        tokio::time::sleep(SITES_AGAIN).await;
        match config.put_sites(&shop).await {
            Ok(()) => return tracing::info!("the sites of the config are kept now"),
            Err(error) => tracing::debug!("the sites of the config cannot be kept yet: {error:#}"),
        }
    }
}

impl Demo for ShopService {
    fn name(&self) -> &'static str {
        demo::SECTION
    }

    fn section<'a>(&'a self, _server: &'a GatewayVersion) -> BoxFuture<'a, anyhow::Result<Map<String, Value>>> {
        Box::pin(std::future::ready(demo::section()))
    }

    fn open<'a>(&'a self, all: &'a Map<String, Value>) -> BoxFuture<'a, anyhow::Result<()>> {
        Box::pin(async move {
            match self.shop() {
                Some(shop) => demo::open(shop, self.oauth(), all).await,
                None => Ok(()),
            }
        })
    }
}
