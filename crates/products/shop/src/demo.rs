//! The demo's shop: hats, and two keys to its workspace, one of them read-only.
//!
//! The stock is added once, so that items sold since stay sold. Keys are generated once and stay in `demo.json`.

use crate::oauth::{NewWorkspaceKey, Oauth};
use crate::service::Shop;
use anyhow::Context;
use serde_json::{Map, Value};
use shop_rules::Slug;
use shop_rules::import::CatalogueFormat;

use crate::config::{Aly, told};
use gateway::product::config::drawn;

pub const SECTION: &str = "aly";
const SITE: &str = "acme";
const TOKEN: &str = "token";
const READ_ONLY: &str = "read_only_token";

const CONFIG: &str = r#"
platform: Rialto shops
sites:
  acme:
    workspace: acme
    title: Acme
    description: Hats for every head.
    shipping: "4.90"
    free_shipping_from: "50.00"
    tax: "0.08"
    links: { instagram: "https://instagram.example/acme-hats" }
"#;

const CATALOGUE: &str = r#"{
"products": [
{"id": "sun", "name": "Sun hat", "subtitle": "Wide brim, light as air", "price": "19.90", "stock": 500, "tags": ["summer", "straw"]},
{"id": "felt", "name": "Felt hat", "subtitle": "For cold mornings", "price": "39.00", "tags": ["winter", "felt"], "variants": [
  {"id": "s", "options": {"Size": "S"}, "stock": 50}, {"id": "m", "options": {"Size": "M"}, "stock": 120}, {"id": "l", "options": {"Size": "L"}, "price": "41.00", "stock": 80}]},
{"id": "beanie", "name": "Wool beanie hat", "subtitle": "Knitted", "price": "14.50", "stock": 300, "tags": ["winter", "wool"]},
{"id": "panama", "name": "Panama hat", "subtitle": "Woven by hand", "price": "89.00", "stock": 12, "tags": ["summer", "straw"]},
{"id": "cap", "name": "Baseball cap", "subtitle": "A hat with a peak", "price": "12.00", "stock": 1000, "tags": ["sport"]},
{"id": "bowler", "name": "Bowler hat", "subtitle": "Sold out until spring", "price": "59.00", "stock": 0, "tags": ["felt"]},
{"id": "pattern", "name": "Hat pattern", "subtitle": "Sew your own", "description": "A pattern to print, with instructions.", "price": "5.00", "is_digital": true, "tags": ["download"], "downloads": ["https://files.example/hat-pattern.pdf"]}
],
"coupons": [{"code": "HATS10", "percent": "10"}]
}"#;

pub fn config() -> anyhow::Result<Aly> {
    serde_saphyr::from_str(CONFIG).context("the demo's shop")
}

/// The section of a new `demo.json`.
pub fn section() -> anyhow::Result<Map<String, Value>> {
    let mut members = Map::new();
    members.insert("site_slug".into(), SITE.into());
    for name in [TOKEN, READ_ONLY] {
        members.insert(name.into(), format!("aly_{}", drawn()?).into());
    }
    Ok(members)
}

/// Creates the shop of `demo.json`. Existing data stays as it is.
pub async fn open(shop: &Shop, keys: &Oauth, all: &Map<String, Value>) -> anyhow::Result<()> {
    let site = Slug::check(SITE)?;
    if shop.product_count(&site).await.map_err(told)? == 0 {
        shop.import(&site, CatalogueFormat::Json, CATALOGUE).await.map_err(told)?;
    }
    let reads = crate::aly::SCOPES.iter().map(|(scope, _)| *scope).filter(|scope| scope.starts_with("read:"));
    for (name, scopes) in [(TOKEN, Vec::new()), (READ_ONLY, reads.map(str::to_owned).collect())] {
        let secret = all.get(SECTION).and_then(|section| section[name].as_str());
        let secret =
            secret.with_context(|| format!("demo.json has no {SECTION}.{name}; remove the file and start again"))?;
        let new = NewWorkspaceKey { workspace: SITE.into(), name: format!("demo-{name}"), scopes, expires_at: None };
        if let Err(fault) = keys.put_key(secret, new).await {
            tracing::warn!("the demo's {SECTION}.{name} cannot be used: {fault}");
        }
    }
    Ok(())
}

/// A command that asks the store agent.
pub fn try_it(base: &str) -> String {
    format!(
        r#"curl -s {base}/api/a2a -H 'Content-Type: application/json' -d '{{"jsonrpc":"2.0","id":"1","method":"SendMessage","params":{{"message":{{"messageId":"m3","role":"ROLE_USER","parts":[{{"text":"Search for hats on store {SITE}."}}]}}}}}}'"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_catalogue_can_be_read() {
        let site = config().unwrap();
        site.check().unwrap();
        assert!(site.has_shops());
        let acme = shop_rules::Site::new(
            SITE.into(),
            SITE.into(),
            "Acme",
            shop_rules::Currency::check("USD").unwrap(),
            model::Time(1),
        );
        let read = shop_rules::import::read(&acme, CatalogueFormat::Json, CATALOGUE, model::Time(1)).unwrap();
        assert_eq!((read.products.len(), read.coupons.len()), (7, 1));
    }
}
