//! `price` of an agent and the budgets of callers: parsed and checked.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::service::{BilledAgent as Priced, BillingTerms as Terms, Budgets};
use anyhow::{anyhow, bail};
use market_rules::tariff::{Budget, Fine, Price, Window};
use market_rules::{UserId, Ut};
use model::ports::agent::Agent;
use schemars::JsonSchema;
use serde::Deserialize;

use gateway::product::Setup;

use crate::config::MarketSection;

/// How much may be spent on agents with a price. Amounts are decimal texts in UT.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WrittenBudgets {
    /// By each caller. Default unlimited; a key's own `budget` in `auth.keys` comes first.
    per_key: Option<WrittenBudget>,
    /// In one context, by all who pay for turns in it. Default unlimited.
    per_context: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WrittenBudget {
    /// In UT, such as "50".
    amount: String,
    /// In which time: a `day` or a `month` of UTC, or `total` for ever. Default `day`.
    #[serde(default)]
    window: WrittenWindow,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WrittenWindow {
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
pub struct Prices {
    terms: Terms,
    agents: BTreeMap<String, (Price, Option<UserId>)>,
}

impl Prices {
    /// Parses and checks the prices. An agent with a price needs a market, which has the money.
    pub fn of(setup: &Setup<'_>, market: Option<&MarketSection>) -> anyhow::Result<Option<Prices>> {
        let mut agents = BTreeMap::new();
        for agent in setup.agents {
            let name = agent.name;
            if let Some(written) =
                agent.written.and_then(|written| written.get("price")).filter(|price| !price.is_null())
            {
                let price =
                    WrittenPrice::deserialize(written).map_err(anyhow::Error::from).and_then(|price| read(&price));
                let price = price.map_err(|error| anyhow!("agents: agent {name:?}: price: {error}"))?;
                agents.insert(name.to_owned(), price);
            }
        }
        let mut keys = BTreeMap::new();
        for key in setup.keys {
            if let Some(budget) = key.budget.and_then(|budget| budget.downcast_ref::<WrittenBudget>()) {
                let at = format!("auth.keys: the key {:?}: budget", key.name);
                keys.insert(key.name.to_owned(), budget.read(&at)?);
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

    /// The agent; one with a price is wrapped by billing.
    pub fn put_on(&self, agent: Arc<dyn Agent>) -> Arc<dyn Agent> {
        match self.agents.get(&*agent.profile().name) {
            Some((price, seller)) => Arc::new(Priced::new(agent, *price, seller.clone(), self.terms.clone())),
            None => agent,
        }
    }
}

/// The `price` of an agent's config. The config's schema describes its members (`agents::PriceConfig`).
#[derive(Deserialize)]
struct WrittenPrice {
    per_task: Option<String>,
    per_turn: Option<String>,
    per_1k_input: Option<String>,
    per_1k_output: Option<String>,
    per_second: Option<String>,
    hold: Option<String>,
    seller: Option<String>,
}

fn read(written: &WrittenPrice) -> anyhow::Result<(Price, Option<UserId>)> {
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
    use std::any::Any;
    use std::path::Path;

    use gateway::product::{AgentFacts, KeyFacts, Sections};
    use serde_json::Value;

    use super::*;
    use crate::config::Switch;

    #[derive(Deserialize)]
    #[serde(default)]
    #[derive(Default)]
    struct Root {
        agents: agents::Agents,
        auth: Auth,
        market: Option<Switch>,
    }

    #[derive(Default, Deserialize)]
    struct Auth {
        keys: Vec<Key>,
    }

    #[derive(Deserialize)]
    struct Key {
        name: String,
        budget: Option<WrittenBudget>,
    }

    #[derive(Deserialize)]
    struct Written {
        #[serde(default)]
        agents: BTreeMap<String, Value>,
    }

    impl Sections for Root {
        fn section(&self, _key: &str) -> Option<&dyn Any> {
            None
        }
    }

    fn prices(yaml: &str) -> anyhow::Result<Option<Prices>> {
        let root: Root = serde_saphyr::from_str(yaml)?;
        let written: Written = serde_saphyr::from_str(yaml)?;
        let market = match &root.market {
            Some(Switch::On(market)) => Some((**market).clone()),
            Some(Switch::Off) | None => None,
        };
        let agent = |(name, _): &'_ (String, agents::AgentConfig)| name.clone();
        let names: Vec<String> = root.agents.0.iter().map(agent).collect();
        let agents: Vec<AgentFacts<'_>> =
            names.iter().map(|name| AgentFacts { name, written: written.agents.get(name) }).collect();
        let budget = |key: &'_ Key| -> Option<WrittenBudget> { key.budget.clone() };
        let budgets: Vec<(String, Option<WrittenBudget>)> =
            root.auth.keys.iter().map(|key| (key.name.clone(), budget(key))).collect();
        let keys: Vec<KeyFacts<'_>> = budgets
            .iter()
            .map(|(name, budget)| KeyFacts { name, budget: budget.as_ref().map(|budget| budget as &dyn Any) })
            .collect();
        let data = Path::new("data");
        let setup = Setup { is_demo: false, data, sections: &root, agents: &agents, keys: &keys, running: None };
        Prices::of(&setup, market.as_ref())
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
        let root: Root = serde_saphyr::from_str(yaml).unwrap();
        let mut plain = Vec::new();
        for (name, config) in root.agents.0 {
            plain.push(agents::build(&name, config).await.unwrap());
        }
        let prices = prices(yaml).unwrap().unwrap();
        let served: Vec<_> = plain.iter().map(|agent| prices.put_on(agent.clone())).collect();
        assert!(served[0].till().is_some() && served[1].till().is_none());
        assert!(Arc::ptr_eq(&plain[1], &served[1]));
        let extension = &served[0].profile().extensions[0];
        assert_eq!(extension.uri, crate::service::PRICE_EXTENSION);
        assert_eq!(extension.params.as_ref().unwrap().text(), r#"{"currency":"UT","hold":"1","per_turn":"1"}"#);
    }
}
