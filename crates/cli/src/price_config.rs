//! `price` of an agent and the budgets of callers: parsed and checked.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{anyhow, bail};
use market::service::{BilledAgent as Priced, BillingTerms as Terms, Budgets};
use market_rules::tariff::{Budget, Fine, Price, Window};
use market_rules::{UserId, Ut};
use model::ports::agent::Agent;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::Config;
use crate::market_config::Market;

/// How much may be spent on agents with a price. Amounts are decimal texts in UT.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct WrittenBudgets {
    /// By each caller. Default unlimited; a key's own `budget` in `auth.keys` comes first.
    per_key: Option<WrittenBudget>,
    /// In one context, by all who pay for turns in it. Default unlimited.
    per_context: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WrittenBudget {
    /// In UT, such as "50".
    amount: String,
    /// In which time: a `day` or a `month` of UTC, or `total` for ever. Default `day`.
    #[serde(default)]
    window: WrittenWindow,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum WrittenWindow {
    #[default]
    Day,
    Month,
    Total,
}

impl WrittenBudget {
    fn read(&self, at: &str) -> anyhow::Result<Budget> {
        let window = match self.window {
            WrittenWindow::Day => Window::Day,
            WrittenWindow::Month => Window::Month,
            WrittenWindow::Total => Window::Total,
        };
        Ok(Budget { amount: amount(&format!("{at}.amount"), &self.amount)?, window })
    }
}

fn amount(at: &str, text: &str) -> anyhow::Result<Ut> {
    let amount = Ut::parse(text).map_err(|error| anyhow!("{at}: {text:?} {error}"))?;
    if amount.is_negative() {
        bail!("{at}: {text:?} is below zero");
    }
    Ok(amount)
}

/// The prices of a config's agents.
pub(crate) struct Prices {
    terms: Terms,
    agents: BTreeMap<String, (Price, Option<UserId>)>,
}

impl Prices {
    /// Parses and checks the prices. An agent with a price needs a market, which has the money.
    pub(crate) fn of(config: &Config, market: Option<&Market>) -> anyhow::Result<Option<Prices>> {
        let mut agents = BTreeMap::new();
        for (name, agent) in config.agents.iter().flat_map(|agents| &agents.0) {
            if let Some(written) = &agent.common.price {
                let price = read(written).map_err(|error| anyhow!("agents: agent {name:?}: price: {error}"))?;
                agents.insert(name.clone(), price);
            }
        }
        let mut keys = BTreeMap::new();
        for key in &config.auth.keys {
            if let Some(budget) = &key.budget {
                let at = format!("auth.keys: the key {:?}: budget", key.name);
                keys.insert(key.name.clone(), budget.read(&at)?);
            }
        }
        let Some(market) = market else {
            if let Some(name) = agents.keys().next() {
                bail!(
                    "agents: agent {name:?} has a price, and there is no market to pay in; write market: true, or take price out"
                );
            }
            if let Some(name) = keys.keys().next() {
                bail!(
                    "auth.keys: the key {name:?} has a budget, and there is no market to spend in; write market: true, or take budget out"
                );
            }
            return Ok(None);
        };
        let written = market.budgets();
        let per_key = written.per_key.as_ref().map(|budget| budget.read("market.budgets.per_key")).transpose()?;
        let per_context =
            written.per_context.as_ref().map(|text| amount("market.budgets.per_context", text)).transpose()?;
        let budgets = Budgets { per_key, keys, per_context };
        let terms = Terms { tenant: market.tenant().into(), commission: market.commission()?, budgets };
        Ok(Some(Prices { terms, agents }))
    }

    /// The agents; those with a price are wrapped by billing.
    pub(crate) fn put_on(&self, agents: Vec<Arc<dyn Agent>>) -> Vec<Arc<dyn Agent>> {
        let priced = agents.into_iter().map(|agent| match self.agents.get(&*agent.profile().name) {
            Some((price, seller)) => {
                Arc::new(Priced::new(agent, *price, seller.clone(), self.terms.clone())) as Arc<dyn Agent>
            }
            None => agent,
        });
        priced.collect()
    }
}

/// The agents as served, with or without prices.
pub(crate) fn put_on(prices: Option<&Prices>, agents: Vec<Arc<dyn Agent>>) -> Vec<Arc<dyn Agent>> {
    match prices {
        Some(prices) => prices.put_on(agents),
        None => agents,
    }
}

fn read(written: &agents::PriceConfig) -> anyhow::Result<(Price, Option<UserId>)> {
    let ut = |name: &str, text: &Option<String>| match text {
        Some(text) => amount(name, text),
        None => Ok(Ut::ZERO),
    };
    let fine = |name: &str, text: &Option<String>| match text {
        Some(text) => Fine::parse(text).map_err(|error| anyhow!("{name}: {text:?} {error}")),
        None => Ok(Fine::ZERO),
    };
    let price = Price {
        per_task: ut("per_task", &written.per_task)?,
        per_turn: ut("per_turn", &written.per_turn)?,
        per_1k_input: fine("per_1k_input", &written.per_1k_input)?,
        per_1k_output: fine("per_1k_output", &written.per_1k_output)?,
        per_second: fine("per_second", &written.per_second)?,
        hold: ut("hold", &written.hold)?,
    };
    let seller = match &written.seller {
        Some(id) if id.trim().is_empty() || id.chars().any(char::is_control) => {
            bail!("seller: {id:?} is no user's id; write that of rialto market open")
        }
        Some(id) => Some(UserId::from(id.as_str())),
        None => None,
    };
    Ok((price.check()?, seller))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::market_config::Switch;

    fn prices(yaml: &str) -> anyhow::Result<Option<Prices>> {
        let config = Config::parse(yaml)?;
        let market = match &config.market {
            Some(Switch::On(market)) => Some((**market).clone()),
            Some(Switch::Off) | None => None,
        };
        Prices::of(&config, market.as_ref())
    }

    fn refused(yaml: &str) -> String {
        match prices(yaml) {
            Ok(_) => panic!("{yaml} is taken"),
            Err(error) => format!("{error:#}"),
        }
    }

    #[test]
    fn everything_can_be_said() {
        let yaml = r#"
agents:
  writer: { kind: echo, price: { per_task: "0.50", per_turn: "0.10", per_1k_input: "0.0025", per_1k_output: "0.01", per_second: "0.001", hold: "5", seller: u_1 } }
  free: { kind: echo }
auth: { keys: [{ name: alice, tenant: shop, key: "env:A", budget: { amount: "7", window: month } }, { name: bob, tenant: shop, key: "env:B" }] }
market: { tenant: shop, commission: "0.2", budgets: { per_key: { amount: "20" }, per_context: "3" } }
"#;
        let prices = prices(yaml).unwrap().unwrap();
        let (price, seller) = &prices.agents["writer"];
        assert_eq!((price.per_task.to_string().as_str(), price.hold.to_string().as_str()), ("0.5", "5"));
        assert_eq!((price.per_1k_input.to_string().as_str(), seller), ("0.0025", &Some(UserId::from("u_1"))));
        assert!(!prices.agents.contains_key("free"));
        let Terms { tenant, commission, budgets } = &prices.terms;
        assert_eq!((&**tenant, *commission), ("shop", market_rules::Rate::parse("0.2").unwrap()));
        let twenty = Budget { amount: Ut::parse("20").unwrap(), window: Window::Day };
        assert_eq!((budgets.per_key, budgets.per_context), (Some(twenty), Ut::parse("3").ok()));
        assert_eq!(budgets.keys["alice"], Budget { amount: Ut::parse("7").unwrap(), window: Window::Month });
        assert!(!budgets.keys.contains_key("bob"));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_words() {
        let agent = |price: &str| format!("agents: {{ a: {{ kind: echo, price: {{ {price} }} }} }}\nmarket: true\n");
        for (yaml, says) in [
            (agent("per_turn: \"1\"").replace("market: true", ""), "there is no market to pay in; write market: true"),
            (agent("per_second: \"1\""), "agents: agent \"a\": price: hold is missing"),
            (agent("per_turn: \"1\", per_second: \"1\", hold: \"0.5\""), "hold is 0.5, less than the 1"),
            (agent("per_turn: \"x\""), "price: per_turn: \"x\" must be a decimal number"),
            (agent("per_turn: \"-1\""), "per_turn: \"-1\" is below zero"),
            (agent("per_1k_input: \"0.0000001\", hold: \"1\""), "must have at most 6 digits"),
            (agent(""), "everything in it is 0"),
            (agent("per_turn: \"1\", seller: \"\""), "is no user's id"),
            (agent("per_turn: 1.5"), "put it in quotes"),
            (agent("per_trun: \"1\""), "unknown field `per_trun`"),
            ("market: { budgets: { per_key: { amount: x } } }\n".to_owned(), "market.budgets.per_key.amount: \"x\""),
            ("market: { budgets: { per_context: \"-1\" } }\n".to_owned(), "per_context: \"-1\" is below zero"),
            (
                "auth: { keys: [{ name: k, tenant: t, key: \"env:K\", budget: { amount: \"1\" } }] }\n".to_owned(),
                "the key \"k\" has a budget, and there is no market",
            ),
        ] {
            let error = refused(&yaml);
            assert!(error.contains(says), "{says:?} is not in: {error}");
        }
        assert!(prices("agents: { a: { kind: echo } }\n").unwrap().is_none());
    }

    #[tokio::test]
    async fn an_agent_with_a_price_says_so_on_its_card_and_others_are_left_alone() {
        let yaml = "agents: { a: { kind: echo, price: { per_turn: \"1\" } }, b: { kind: echo } }\nmarket: true\n";
        let config = Config::parse(yaml).unwrap();
        let (built, _) =
            crate::roster::Roster::make(&config, &[], None).unwrap().build(&Default::default()).await.unwrap();
        let plain = built.agents();
        let served = put_on(prices(yaml).unwrap().as_ref(), plain.clone());
        assert!(served[0].till().is_some() && served[1].till().is_none());
        assert!(Arc::ptr_eq(&plain[1], &served[1]));
        let extension = &served[0].profile().extensions[0];
        assert_eq!(extension.uri, market::service::PRICE_EXTENSION);
        assert_eq!(extension.params.as_ref().unwrap().text(), r#"{"currency":"UT","hold":"1","per_turn":"1"}"#);
    }
}
