//! `aly`: a store agent at Aly's endpoints, for Rialto's own shops or for an agent with its own.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::admission::{Needs, StoreAdmission};
use crate::service::{Error as Refused, Shop};
use anyhow::{Context, anyhow, bail};
use model::ports::Future;
use model::{Content, Fault, Message, Role, Task, Time};
use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use shop_rules::site::SiteDraft as Draft;
use shop_rules::{ShopRules, Slug};

/// The skills of a store agent that need the permission to change orders.
const GUARDED: [&str; 2] = ["cart-management", "checkout"];
const ORDERS: &str = "write:orders";

const DAY_S: u32 = 86_400;
const YEAR_S: u32 = 366 * DAY_S;

/// Which agent is the store agent, and what shops there are.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Aly {
    /// An agent of the config that messages go to. Default: the store agent `store`, which sells what is in Rialto's shops.
    agent: Option<String>,
    /// The sites by their slugs: a workspace (a tenant) alone, or all that there is to say of a shop.
    #[schemars(with = "BTreeMap<String, Written>")]
    sites: BTreeMap<String, Site>,
    /// What the card is called where no shop's is asked for. Default `Rialto shops`.
    platform: Option<String>,
    /// Where cards say that one can read more.
    documentation_url: Option<String>,
    /// How long an access token is good for, in seconds. Default 3600.
    access_token_s: Option<u32>,
    /// How long a refresh token is good for, in seconds. Default 2592000, which is 30 days.
    refresh_token_s: Option<u32>,
    /// How long a cart lives after its last change, in seconds. Default 86400, which is a day.
    cart_ttl_s: Option<u32>,
    /// How long a checkout keeps its stock, in seconds. Default 1800.
    checkout_ttl_s: Option<u32>,
}

/// What there is to say of a shop. Amounts are decimal texts in its currency, such as "4.90".
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Told {
    /// The workspace (a tenant) it is of. It stays what it was at the first start.
    workspace: String,
    /// What it is called. Default: its slug.
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    description: Option<String>,
    /// Three letters. Default `USD`. It stays what it was at the first start.
    #[serde(default)]
    currency: Option<String>,
    /// Hosts of its own, at which its card is the only one.
    #[serde(default)]
    hosts: Vec<String>,
    /// Where else it is to be found, by what that is called.
    #[serde(default)]
    links: BTreeMap<String, String>,
    /// What sending costs. Default nothing.
    #[serde(default)]
    shipping: Option<String>,
    /// Sent for nothing from this subtotal on.
    #[serde(default)]
    free_shipping_from: Option<String>,
    /// The tax on goods and shipping, between 0 and 1. Default "0".
    #[serde(default)]
    tax: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Site(Told);

/// What may stand at a slug, for the schema.
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "only its schema is wanted")]
enum Written {
    Workspace(String),
    Site(Box<Told>),
}

impl<'de> Deserialize<'de> for Site {
    /// Implemented by hand, so that an error in the long form names its line and the nearest key.
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Site;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a workspace, or a mapping with one")
            }
            fn visit_str<E: serde::de::Error>(self, workspace: &str) -> Result<Site, E> {
                Ok(Site(Told { workspace: workspace.to_owned(), ..Told::default() }))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Site, A::Error> {
                Told::deserialize(MapAccessDeserializer::new(map)).map(Site)
            }
        }
        d.deserialize_any(Either)
    }
}

impl Site {
    /// Builds the whole site: a field that the config leaves out does not keep its earlier value.
    fn make(&self, slug: &str, now: Time) -> anyhow::Result<shop_rules::Site> {
        let Told { workspace, title, description, currency, hosts, links, shipping, free_shipping_from, tax } =
            self.0.clone();
        let (workspace, hosts, links) = (Some(workspace), Some(hosts), Some(links));
        let draft = Draft { workspace, title, description, currency, hosts, links, shipping, free_shipping_from, tax };
        let site = Slug::check(slug).and_then(|slug| draft.make(slug, None, now));
        site.map_err(|refusal| anyhow!("aly.sites.{slug}: {refusal}"))
    }
}

impl Aly {
    /// Whether messages go to the store agent of Rialto's own shops.
    pub fn has_shops(&self) -> bool {
        self.agent.is_none()
    }

    pub fn check(&self) -> anyhow::Result<()> {
        for (name, value, most) in [
            ("access_token_s", self.access_token_s, DAY_S),
            ("refresh_token_s", self.refresh_token_s, YEAR_S),
            ("cart_ttl_s", self.cart_ttl_s, YEAR_S),
            ("checkout_ttl_s", self.checkout_ttl_s, YEAR_S),
        ] {
            if let Some(value) = value
                && !(1..=most).contains(&value)
            {
                bail!("aly.{name}: {value} is out of range; choose a number from 1 to {most}");
            }
        }
        self.made(Time(0)).map(drop)
    }

    fn made(&self, now: Time) -> anyhow::Result<Vec<shop_rules::Site>> {
        self.sites.iter().map(|(slug, site)| site.make(slug, now)).collect()
    }

    /// The server's settings, before the shops exist.
    pub fn settings(&self) -> anyhow::Result<crate::StoreAgentSettings> {
        self.check()?;
        let sites = self.sites.iter().map(|(slug, site)| (slug.clone(), site.0.workspace.as_str().into())).collect();
        let agent = self.agent.as_deref().unwrap_or(crate::service::AGENT);
        let mut all = crate::StoreAgentSettings::new(agent, Arc::new(Sites(sites)));
        all.documentation_url.clone_from(&self.documentation_url);
        if let Some(platform) = &self.platform {
            all.platform.clone_from(platform);
        }
        all.oauth.access_s = self.access_token_s.unwrap_or(all.oauth.access_s);
        all.oauth.refresh_s = self.refresh_token_s.unwrap_or(all.oauth.refresh_s);
        Ok(all)
    }

    /// The configuration of the shops; `base_url` is their public address.
    pub fn dealings(&self, base_url: &str) -> crate::service::ShopConfig {
        let usual = ShopRules::default();
        let ms = |seconds: Option<u32>, usual: u64| seconds.map_or(usual, |seconds| u64::from(seconds) * 1_000);
        let rules = ShopRules {
            cart_ms: ms(self.cart_ttl_s, usual.cart_ms),
            checkout_ms: ms(self.checkout_ttl_s, usual.checkout_ms),
        };
        crate::service::ShopConfig { rules, base_url: base_url.to_owned() }
    }

    /// Creates the config's sites, or updates them.
    pub async fn put_sites(&self, shop: &Shop) -> anyhow::Result<()> {
        for site in self.made(shop.now())? {
            let put = shop.put_site(&site).await;
            put.map_err(told).with_context(|| format!("aly.sites.{}", site.slug))?;
        }
        Ok(())
    }
}

/// A shop's error, for an operator.
pub fn told(refused: Refused) -> anyhow::Error {
    match refused {
        Refused::Fault(fault) => anyhow!("{fault} ({})", fault.cause_text()),
        Refused::Workspace => anyhow!("the site belongs to another workspace, and stays with it"),
        refused => anyhow!("{refused}"),
    }
}

/// A store port for an agent that is no shop of ours: it knows the product's skills by their names in structured
/// payloads, and the config's sites. The agent itself interprets texts.
struct Sites(BTreeMap<String, Arc<str>>);

impl StoreAdmission for Sites {
    fn needs<'a>(&'a self, task: Option<&'a Task>, message: &'a Message) -> Future<'a, Result<Needs, Fault>> {
        let mut needs = Needs::default();
        let earlier = task.into_iter().flat_map(|task| &task.history).filter(|message| message.role == Role::User);
        for part in message.parts.iter().chain(earlier.flat_map(|message| &message.parts)) {
            let Content::Data(json) = &part.content else { continue };
            let payload = json.to_value();
            let text = |name: &str| payload.get(name).and_then(|value| value.as_str());
            needs.scope = needs.scope.or_else(|| text("skill").and_then(|skill| self.scope(skill)));
            needs.workspace = needs.workspace.or_else(|| self.0.get(text("site_slug")?).cloned());
        }
        Box::pin(async move { Ok(needs) })
    }

    fn scope(&self, skill: &str) -> Option<&'static str> {
        GUARDED.contains(&skill).then_some(ORDERS)
    }

    /// No site has its own host.
    fn shop<'a>(&'a self, _host: &'a str) -> Future<'a, Result<Option<crate::admission::ShopCard>, Fault>> {
        Box::pin(async { Ok(None) })
    }
}

#[cfg(test)]
mod tests {
    use model::{Json, Part};

    use super::*;

    fn needs(parts: Vec<Part>) -> Needs {
        let sites = Sites([("acme".to_owned(), Arc::from("acme-ws"))].into());
        let (extensions, references) = (Vec::new(), Vec::new());
        let message = Message { id: "m".into(), role: Role::User, parts, metadata: None, extensions, references };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(sites.needs(None, &message)).unwrap()
    }

    #[test]
    fn a_payload_says_what_it_needs_and_whose_it_is() {
        let data = |text: &str| Part::data(Json::parse(text).unwrap());
        let cart = needs(vec![Part::text("hi"), data(r#"{"skill":"cart-management","site_slug":"acme"}"#)]);
        assert_eq!(cart, Needs { scope: Some("write:orders"), workspace: Some("acme-ws".into()) });
        let search = needs(vec![data(r#"{"skill":"product-search","site_slug":"else"}"#)]);
        assert_eq!(search, Needs::default());
        assert_eq!(needs(vec![Part::text("checkout")]), Needs::default());
        assert_eq!(
            needs(vec![data("[]"), data(r#"{"skill":7}"#), data(r#"{"skill":"checkout"}"#)]).scope,
            Some(ORDERS)
        );
    }

    #[test]
    fn sites_are_a_workspace_or_all_that_there_is_to_say() {
        let read = |yaml: &str| serde_saphyr::from_str::<Aly>(yaml);
        let aly = read("sites: { acme: ws, hats: { workspace: w2, title: Hats, currency: EUR, shipping: '4.90' } }");
        let sites = aly.unwrap().made(Time(7)).unwrap();
        let shown =
            |site: &shop_rules::Site| format!("{} {} {} {}", site.slug, site.workspace, site.title, site.currency);
        assert_eq!(sites.iter().map(shown).collect::<Vec<_>>(), ["acme ws acme USD", "hats w2 Hats EUR"]);
        let wrong = read("sites: { acme: { workspace: w, titel: x } }").unwrap_err().to_string();
        assert!(wrong.contains("titel"), "{wrong}");
        let wrong = read("sites: { Acme: w }").unwrap().check().unwrap_err().to_string();
        assert!(wrong.starts_with("aly.sites.Acme: "), "{wrong}");
        let wrong = read("sites: { acme: { workspace: w, shipping: much } }").unwrap().check().unwrap_err().to_string();
        assert!(wrong.contains("shipping"), "{wrong}");
    }

    #[test]
    fn times_have_limits() {
        let own = Aly::default();
        assert_eq!((&*own.settings().unwrap().agent, own.has_shops()), (crate::service::AGENT, true));
        let named = Aly { agent: Some("mine".into()), access_token_s: Some(60), ..Aly::default() };
        let settings = named.settings().unwrap();
        assert_eq!((&*settings.agent, settings.oauth.access_s, named.has_shops()), ("mine", 60, false));
        let short = Aly { cart_ttl_s: Some(2), checkout_ttl_s: Some(1), ..Aly::default() };
        let dealings = short.dealings("http://x");
        assert_eq!((dealings.rules.cart_ms, dealings.rules.checkout_ms), (2_000, 1_000));
        assert!(Aly { access_token_s: Some(0), ..Aly::default() }.settings().is_err());
        assert!(Aly { refresh_token_s: Some(u32::MAX), ..Aly::default() }.settings().is_err());
        assert!(Aly { checkout_ttl_s: Some(0), ..Aly::default() }.settings().is_err());
    }
}
