//! The market from the config to its service. It opens and closes with the server; its terms change at a reload.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use gateway::product::{Demo, Prepared, ProductHost, ProductService, Setup};
use gateway::{GatewayVersion, Settings, settings};
use model::ports::agent::Agent;
use serde_json::{Map, Value};

use crate::config::{MarketSection, Switch};
use crate::pricing::Prices;
use crate::service::{Market, MarketConfig};
use crate::{MarketService, demo};

/// The key of the section.
const SECTION: &str = "market";

pub(crate) fn prepare(setup: &Setup<'_>) -> anyhow::Result<Option<Box<dyn Prepared>>> {
    let wanted = match setup.section::<Switch>(SECTION) {
        Some(Switch::On(market)) => Some((**market).clone()),
        Some(Switch::Off) => None,
        None => setup.is_demo.then(MarketSection::default),
    };
    if let Some(wanted) = &wanted {
        wanted.check()?;
    }
    let running = setup.running::<MarketService>();
    let mut needs_restart = Vec::new();
    if setup.running.is_some() {
        let before = running.as_ref().map(|service| service.terms().tenant().to_owned());
        let after = wanted.as_ref().map(|wanted| wanted.tenant().to_owned());
        if before.is_some() != after.is_some() {
            needs_restart.push("market");
        }
        if before.unwrap_or_default() != after.unwrap_or_default() {
            needs_restart.push("market.tenant");
        }
    }
    let terms = match (&running, wanted) {
        // Users and money do not move to another tenant.
        (Some(service), Some(wanted)) => Some(wanted.held_to(service.terms().tenant())),
        (Some(service), None) => Some(service.terms().clone()),
        (None, wanted) => wanted,
    };
    let prices = Prices::of(setup, terms.as_ref())?;
    let Some(terms) = terms else { return Ok(None) };
    let config = terms.config(setup.is_demo)?;
    let opens = running.is_some() || setup.running.is_none();
    Ok(Some(Box::new(PreparedMarket { terms, config, prices, running, opens, needs_restart })))
}

struct PreparedMarket {
    terms: MarketSection,
    config: MarketConfig,
    prices: Option<Prices>,
    running: Option<Arc<MarketService>>,
    /// A market that is new at a reload opens at the next start.
    opens: bool,
    needs_restart: Vec<&'static str>,
}

impl Prepared for PreparedMarket {
    fn needs_restart(&self) -> Vec<&'static str> {
        self.needs_restart.clone()
    }

    fn wrap(&self, agent: Arc<dyn Agent>) -> Arc<dyn Agent> {
        match &self.prices {
            Some(prices) => prices.put_on(agent),
            None => agent,
        }
    }

    fn check(&self, settings: &Settings) -> Result<(), settings::Error> {
        let served: Vec<&str> = settings.agents.iter().map(|name| &**name).collect();
        self.terms.check_agents(&served).map_err(|error| settings::Error(error.to_string()))
    }

    fn open<'a>(&'a self, host: ProductHost<'a>) -> BoxFuture<'a, anyhow::Result<Option<Arc<dyn ProductService>>>> {
        Box::pin(async move {
            if !self.opens {
                return Ok(None);
            }
            let (terms, config) = (self.terms.clone(), self.config.clone());
            if let Some(running) = &self.running {
                return Ok(Some(Arc::new(running.with_terms(terms, config)) as Arc<dyn ProductService>));
            }
            let started = Market::start_with(host.engine.clone(), config, true, host.post.clone()).await;
            let market = started.map_err(|fault| {
                let cause = fault.cause.as_ref().map_or_else(String::new, |cause| format!(": {cause}"));
                anyhow::anyhow!("cannot open the market: {fault}{cause}")
            })?;
            let service = MarketService::new(terms.settings(market)).named(terms);
            Ok(Some(Arc::new(service) as Arc<dyn ProductService>))
        })
    }
}

impl Demo for MarketService {
    fn name(&self) -> &'static str {
        demo::SECTION
    }

    fn section<'a>(&'a self, _server: &'a GatewayVersion) -> BoxFuture<'a, anyhow::Result<Map<String, Value>>> {
        Box::pin(demo::section(self.market()))
    }

    fn open<'a>(&'a self, all: &'a Map<String, Value>) -> BoxFuture<'a, anyhow::Result<()>> {
        Box::pin(demo::open(self.market(), all))
    }
}
