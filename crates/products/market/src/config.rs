//! `market` in the config: whether there is a market, and its terms.

use std::fmt;

use crate::MarketSettings;
use anyhow::{Context, bail};
use market_rules::{Rate, Ut, autonomy};
use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use gateway::product::config::{nearest, secret};

use crate::pricing::WrittenBudgets;
use crate::service;

const YEAR_MS: u64 = 366 * 24 * 3_600_000;
/// In the demo, parties act automatically after this time.
const DEMO_ACTS_AFTER_MS: u64 = 5_000;
const LEAST_SECRET: usize = 16;

/// Whether there is a market.
#[derive(Clone, Debug)]
pub enum Switch {
    Off,
    On(Box<MarketSection>),
}

/// What may stand at `market`, for the schema.
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "only its schema is wanted")]
#[schemars(rename = "Written")]
pub enum MarketForms {
    Short(bool),
    Long(Box<MarketSection>),
}

impl<'de> Deserialize<'de> for Switch {
    /// Implemented by hand, so that an error in the long form names its line and the nearest key.
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Switch;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true, false, or a mapping of the market's options")
            }
            fn visit_bool<E: serde::de::Error>(self, on: bool) -> Result<Switch, E> {
                Ok(if on { Switch::On(Box::default()) } else { Switch::Off })
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Switch, A::Error> {
                MarketSection::deserialize(MapAccessDeserializer::new(map)).map(|market| Switch::On(Box::new(market)))
            }
        }
        d.deserialize_any(Either)
    }
}

/// How the market deals. Amounts are decimal texts in UT, such as "120" or "0.5".
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Market")]
pub struct MarketSection {
    /// The platform's share of a price, between 0 and 1. Default "0.10".
    commission: Option<String>,
    /// Set the buyer's money aside with the order; otherwise the buyer does so as a step of its own. Default false.
    auto_freeze: bool,
    /// How long a seller has to accept or reject what is paid for, in milliseconds; then it fails and the money goes back.
    /// Default 86400000 (a day).
    accept_ms: Option<u64>,
    /// How long a seller has to deliver what it accepted, in milliseconds; then it fails and the money goes back. Default
    /// 604800000 (a week).
    deliver_ms: Option<u64>,
    /// How long a buyer has to confirm a delivery, in milliseconds; then it is settled. Default 259200000 (three days).
    confirm_ms: Option<u64>,
    /// How far agents may go without a person's yes, where their user has no limits of its own.
    limits: SpendingSection,
    /// Somebody looks at every capability before it is on the market. Default false.
    review: bool,
    /// Callbacks to sellers may be plain http and on this machine or network: for trying things out. Default false.
    private_callbacks: bool,
    /// The JSON-RPC code of what cannot be done in a purchase's state. Default -32602.
    invalid_state_code: Option<i32>,
    /// How long a subscription without an end stays open, in milliseconds. Default 60000.
    window_ms: Option<u64>,
    /// Requests a minute of one key, else of one address. Default unlimited.
    requests_per_minute: Option<u32>,
    /// What callbacks to sellers are signed with, `env:NAME` or `file:PATH`. Default: a secret the server draws and keeps.
    callback_secret: Option<String>,
    /// Whose tasks purchases are, among the tenants of this server. Default `default`.
    tenant: Option<String>,
    /// Agents of this server that sellers may offer: a purchase then runs a turn of one. Default none.
    agents: Vec<String>,
    /// How much is kept of what sellers deliver as files.
    files: FileLimits,
    /// How long a login is good, in seconds. Default 3600.
    access_s: Option<u64>,
    /// How long a login can be renewed, in seconds. Default 2592000 (30 days).
    refresh_s: Option<u64>,
    /// What callers may spend on agents with a `price`.
    budgets: WrittenBudgets,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Limits")]
pub struct SpendingSection {
    /// In one purchase. Default "100".
    per_call: Option<String>,
    /// In one day of UTC. Default "5000".
    daily: Option<String>,
}

/// How much is kept of what sellers deliver as files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FileLimits {
    /// Of one file. Default 10485760 (10 MiB).
    file_bytes: Option<u64>,
    /// Files of one purchase. Default 64.
    per_purchase: Option<u32>,
    /// Of all files of one seller that are still there. Default 1073741824 (1 GiB).
    user_bytes: Option<u64>,
}

impl MarketSection {
    /// Checks the values. Secrets are read when they are needed.
    pub fn check(&self) -> anyhow::Result<()> {
        for (name, value, least, most) in [
            ("accept_ms", self.accept_ms, 1, 10 * YEAR_MS),
            ("deliver_ms", self.deliver_ms, 1, 10 * YEAR_MS),
            ("confirm_ms", self.confirm_ms, 1, 10 * YEAR_MS),
            ("window_ms", self.window_ms, 100, 3_600_000),
            ("requests_per_minute", self.requests_per_minute.map(u64::from), 1, 1_000_000_000),
            ("files.file_bytes", self.files.file_bytes, 1, 512 << 20),
            ("files.per_purchase", self.files.per_purchase.map(u64::from), 0, 64),
            ("files.user_bytes", self.files.user_bytes, 0, 1 << 50),
            ("access_s", self.access_s, 1, 366 * 86_400),
            ("refresh_s", self.refresh_s, 1, 10 * 366 * 86_400),
        ] {
            if let Some(value) = value
                && !(least..=most).contains(&value)
            {
                bail!("market.{name}: {value} is out of range; choose a number from {least} to {most}");
            }
        }
        let tenant = self.tenant();
        if tenant.is_empty() || tenant.len() > 128 || tenant.chars().any(char::is_control) {
            bail!("market.tenant: {tenant:?} is no name; write 1 to 128 printable characters");
        }
        if self.refresh_s.is_some_and(|refresh| self.access_s.unwrap_or(3_600) > refresh) {
            bail!(
                "market.refresh_s: a login can be renewed for at least as long as it is good; raise it above access_s"
            );
        }
        self.rates()?;
        Ok(())
    }

    pub fn tenant(&self) -> &str {
        self.tenant.as_deref().unwrap_or("default")
    }

    /// Checks that the agents for sale are served.
    pub fn check_agents(&self, served: &[&str]) -> anyhow::Result<()> {
        for name in &self.agents {
            if !served.contains(&name.as_str()) {
                let near = nearest(name, served.iter().copied()).unwrap_or_default();
                bail!("market.agents: there is no agent {name:?}; did you mean {near:?}?");
            }
        }
        Ok(())
    }

    fn rates(&self) -> anyhow::Result<(Rate, autonomy::SpendingLimits)> {
        let written = |name: &str, text: &Option<String>, usual: Ut| -> anyhow::Result<Ut> {
            let Some(text) = text else { return Ok(usual) };
            let amount = Ut::parse(text).map_err(|error| anyhow::anyhow!("market.limits.{name}: {text:?} {error}"))?;
            if amount.is_negative() {
                bail!("market.limits.{name}: {text:?} is below zero");
            }
            Ok(amount)
        };
        let usual = autonomy::SpendingLimits::default();
        let commission = match &self.commission {
            Some(text) => Rate::parse(text).map_err(|error| anyhow::anyhow!("market.commission: {text:?} {error}"))?,
            None => service::MarketConfig::default().purchases.commission,
        };
        let per_call = written("per_call", &self.limits.per_call, usual.per_call)?;
        let daily = written("daily", &self.limits.daily, usual.daily)?;
        Ok((commission, autonomy::SpendingLimits { per_call, daily, ..usual }))
    }

    pub fn budgets(&self) -> &WrittenBudgets {
        &self.budgets
    }

    pub fn commission(&self) -> anyhow::Result<Rate> {
        Ok(self.rates()?.0)
    }

    /// The trade configuration, with its secret. In the demo, automatic parties act.
    pub fn config(&self, is_demo: bool) -> anyhow::Result<service::MarketConfig> {
        let (commission, limits) = self.rates()?;
        let mut config =
            service::MarketConfig { tenant: self.tenant().into(), limits, ..service::MarketConfig::default() };
        let rules = &mut config.purchases;
        rules.commission = commission;
        rules.auto_freeze = self.auto_freeze;
        rules.accept_ms = self.accept_ms.unwrap_or(rules.accept_ms);
        rules.deliver_ms = self.deliver_ms.unwrap_or(rules.deliver_ms);
        rules.confirm_ms = self.confirm_ms.unwrap_or(rules.confirm_ms);
        config.capabilities.review = self.review;
        config.capabilities.private_callbacks = self.private_callbacks;
        config.access_s = self.access_s.unwrap_or(config.access_s);
        config.refresh_s = self.refresh_s.unwrap_or(config.refresh_s);
        if let Some(reference) = &self.callback_secret {
            let value = secret(reference).context("market.callback_secret")?;
            if value.len() < LEAST_SECRET {
                bail!("market.callback_secret: the secret must have at least {LEAST_SECRET} characters");
            }
            config.callback_secret = Some(value.into());
        }
        let files = &mut config.files;
        files.file_bytes = self.files.file_bytes.unwrap_or(files.file_bytes);
        files.per_purchase = self.files.per_purchase.unwrap_or(files.per_purchase);
        files.user_bytes = self.files.user_bytes.unwrap_or(files.user_bytes);
        config.agents = self.agents.iter().map(|name| name.as_str().into()).collect();
        config.acts_after_ms = is_demo.then_some(DEMO_ACTS_AFTER_MS);
        Ok(config)
    }

    pub fn settings(&self, market: service::Market) -> MarketSettings {
        let usual = MarketSettings::new(market);
        MarketSettings {
            invalid_state_code: self.invalid_state_code.unwrap_or(usual.invalid_state_code),
            window_ms: self.window_ms.unwrap_or(usual.window_ms),
            requests_per_minute: self.requests_per_minute,
            ..usual
        }
    }

    /// Keeps the tenant with which the market was opened: users and money do not move.
    pub fn held_to(mut self, tenant: &str) -> MarketSection {
        self.tenant = Some(tenant.to_owned());
        self
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gateway::product::config::with_nearest;

    use super::*;

    #[derive(Deserialize)]
    struct Root {
        market: Option<Switch>,
    }

    fn parse(text: &str) -> anyhow::Result<Root> {
        serde_saphyr::from_str(text).map_err(|error| anyhow::anyhow!(with_nearest(&error.to_string())))
    }

    fn read(text: &str) -> anyhow::Result<MarketSection> {
        match parse(text)?.market {
            Some(Switch::On(market)) => {
                market.check()?;
                Ok(*market)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_left_out_is_the_default() {
        for text in ["market: true\n", "market: {}\n"] {
            let config = read(text).unwrap().config(false).unwrap();
            let usual = service::MarketConfig::default();
            assert_eq!(config.purchases, usual.purchases, "{text}");
            assert_eq!((config.limits, config.access_s, &*config.tenant), (usual.limits, usual.access_s, "default"));
            assert_eq!((config.acts_after_ms, config.callback_secret), (None, None));
        }
        assert!(matches!(parse("market: false\n").unwrap().market, Some(Switch::Off)));
        assert!(parse("listen: 127.0.0.1:1\n").unwrap().market.is_none());
    }

    #[test]
    fn everything_can_be_said() {
        let secret = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(secret.path(), "0123456789abcdef\n").unwrap();
        let text = format!(
            "market:\n  commission: \"0.05\"\n  auto_freeze: true\n  accept_ms: 1000\n  deliver_ms: 2000\n  confirm_ms: 3000\n  limits: {{ per_call: \"0.5\", daily: 20 }}\n  review: true\n  private_callbacks: true\n  invalid_state_code: -32010\n  window_ms: 500\n  requests_per_minute: 60\n  callback_secret: file:{}\n  tenant: shop\n  access_s: 60\n  refresh_s: 600\n  agents: [upper, lower]\n  files: {{ file_bytes: 5, per_purchase: 6, user_bytes: 7 }}\n",
            secret.path().display()
        );
        let market = read(&text).unwrap();
        let config = market.config(true).unwrap();
        let rules = config.purchases;
        assert_eq!((rules.commission, rules.auto_freeze), (Rate::parse("0.05").unwrap(), true));
        assert_eq!((rules.accept_ms, rules.deliver_ms, rules.confirm_ms), (1_000, 2_000, 3_000));
        assert_eq!((config.limits.per_call.to_string(), config.limits.daily.to_string()), ("0.5".into(), "20".into()));
        assert_eq!(config.files, service::DeliverableLimits { file_bytes: 5, per_purchase: 6, user_bytes: 7 });
        assert!(config.capabilities.review && config.capabilities.private_callbacks);
        assert_eq!(config.agents, [Arc::from("upper"), Arc::from("lower")]);
        market.check_agents(&["echo", "lower", "upper"]).unwrap();
        let error = market.check_agents(&["echo", "uper", "lower"]).unwrap_err().to_string();
        assert_eq!(error, r#"market.agents: there is no agent "upper"; did you mean "uper"?"#);
        assert_eq!((&*config.tenant, config.access_s, config.refresh_s), ("shop", 60, 600));
        assert_eq!((config.callback_secret.as_deref(), config.acts_after_ms), (Some("0123456789abcdef"), Some(5_000)));
    }

    #[test]
    fn what_cannot_be_is_refused_in_words() {
        for (text, says) in [
            ("market: { comission: '0.1' }\n", "did you mean `commission`?"),
            ("market: { limits: { per_cal: '1' } }\n", "did you mean `per_call`?"),
            ("market: { commission: '1.5' }\n", "market.commission: \"1.5\" must be between 0 and 1"),
            ("market: { commission: ten }\n", "market.commission: \"ten\" must be a decimal number"),
            ("market: { limits: { daily: '-1' } }\n", "market.limits.daily: \"-1\" is below zero"),
            ("market: { limits: { per_call: '0.001' } }\n", "at most 2 digits"),
            ("market: { accept_ms: 0 }\n", "market.accept_ms: 0 is out of range"),
            ("market: { files: { per_purchase: 65 } }\n", "market.files.per_purchase: 65 is out of range"),
            ("market: { window_ms: 1 }\n", "market.window_ms: 1 is out of range"),
            ("market: { requests_per_minute: 0 }\n", "market.requests_per_minute: 0 is out of range"),
            ("market: { tenant: '' }\n", "market.tenant"),
            ("market: { access_s: 100, refresh_s: 50 }\n", "market.refresh_s"),
            ("market: yes please\n", "true, false, or a mapping"),
        ] {
            let error = format!("{:#}", read(text).unwrap_err());
            assert!(error.contains(says), "{says:?} is not in: {error}");
        }
        let bare = read("market: { callback_secret: hunter2hunter2hunter2 }\n").unwrap().config(false).unwrap_err();
        assert!(format!("{bare:#}").contains("env:NAME"), "{bare:#}");
        let short = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(short.path(), "short").unwrap();
        let text = format!("market: {{ callback_secret: 'file:{}' }}\n", short.path().display());
        let short = read(&text).unwrap().config(false).unwrap_err();
        assert!(format!("{short:#}").contains("at least 16"), "{short:#}");
    }

    #[test]
    fn a_market_that_is_open_keeps_its_tenant() {
        let other = read("market: { tenant: there }\n").unwrap().held_to("here");
        assert_eq!(&*other.config(false).unwrap().tenant, "here");
    }
}
