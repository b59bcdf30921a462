//! Rows of products and coupons, and their conversion.

use std::collections::BTreeMap;
use std::sync::Arc;

use ledger::Rate;
use model::Time;
use serde::Deserialize;
use serde_json::Value;

use super::{Counted, Reader};
use crate::coupon::{self, Coupon, Discount};
use crate::product::{MAX_STOCK, Media, Variant};
use crate::{Error, Minor, Product, ProductId, Slug, VariantId};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProductRow {
    pub(super) id: String,
    pub(super) name: String,
    #[serde(default)]
    pub(super) slug: Option<String>,
    #[serde(default)]
    pub(super) subtitle: String,
    #[serde(default)]
    pub(super) description: String,
    pub(super) price: Value,
    #[serde(default)]
    pub(super) stock: Option<u64>,
    #[serde(default)]
    pub(super) sku: Option<String>,
    #[serde(default)]
    pub(super) media: Vec<MediaRow>,
    #[serde(default)]
    pub(super) variants: Vec<VariantRow>,
    #[serde(default)]
    pub(super) tags: Vec<String>,
    #[serde(default)]
    pub(super) is_digital: bool,
    #[serde(default)]
    pub(super) downloads: Vec<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum MediaRow {
    Url(String),
    Told {
        url: String,
        #[serde(default)]
        alt: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VariantRow {
    #[serde(default)]
    pub(super) id: Option<String>,
    #[serde(default)]
    pub(super) options: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) price: Option<Value>,
    #[serde(default)]
    pub(super) stock: Option<u64>,
    #[serde(default)]
    pub(super) sku: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CouponRow {
    pub(super) code: String,
    /// Percentage, such as "10" or "12.5".
    #[serde(default)]
    percent: Option<String>,
    #[serde(default)]
    amount: Option<Value>,
    #[serde(default)]
    least: Option<Value>,
    #[serde(default)]
    limit: Option<u32>,
    #[serde(default)]
    expires_at: Option<String>,
}

fn arc(text: String) -> Arc<str> {
    text.into()
}

impl Reader<'_> {
    /// Reads an amount: a decimal text, or a number of the smallest unit.
    fn amount(&self, field: &'static str, value: &Value) -> Result<Minor, Error> {
        let says = |says: &str| Error::Field { field, says: says.to_owned() };
        match value {
            Value::String(text) => self.site.currency.read(text.trim()).map_err(Error::price(field)),
            Value::Object(members) => {
                let currency = members.get("currency").and_then(Value::as_str).unwrap_or(self.site.currency.code());
                if currency != self.site.currency.code() {
                    return Err(says(&format!("must be in {}, the currency of the site", self.site.currency)));
                }
                let amount = members.get("amount").and_then(Value::as_i64);
                let amount = amount.ok_or_else(|| says("needs an amount in whole numbers of the smallest unit"))?;
                Minor::check(amount).map_err(Error::price(field))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
                Err(says("must be a text such as \"19.90\", or an object such as {\"amount\": 1990}"))
            }
        }
    }

    pub(super) fn product(&self, row: ProductRow) -> Result<Counted, Error> {
        let says = |field, says: &str| Error::Field { field, says: says.to_owned() };
        if !row.variants.is_empty() && (row.stock.is_some() || row.sku.is_some()) {
            return Err(says("stock", "and sku belong to the variants, where there are any"));
        }
        let price = self.amount("price", &row.price)?;
        let (mut variants, mut stock) = (Vec::new(), Vec::new());
        if row.variants.is_empty() {
            variants.push(Variant { sku: row.sku.map(arc), ..Variant::only(row.stock.is_some()) });
            stock.push(row.stock);
        }
        for (n, variant) in row.variants.into_iter().enumerate() {
            let options: Vec<(Arc<str>, Arc<str>)> =
                variant.options.into_iter().map(|(name, value)| (arc(name), arc(value))).collect();
            let id = match variant.id {
                Some(id) => VariantId::check(&id)?,
                None => variant_id(&options, n),
            };
            let price = variant.price.as_ref().map(|price| self.amount("price", price)).transpose()?;
            let counted = variant.stock.is_some();
            variants.push(Variant { id, options, price, sku: variant.sku.map(arc), counted });
            stock.push(variant.stock);
        }
        if stock.iter().flatten().any(|n| *n > MAX_STOCK) {
            return Err(says("stock", "must be at most 1000000000"));
        }
        let slug = match row.slug {
            Some(slug) => Slug::check(&slug)?,
            None => Slug::of(&row.name).or_else(|| Slug::of(&row.id)).ok_or_else(|| says("slug", "is needed here"))?,
        };
        let media = row.media.into_iter().map(|media| match media {
            MediaRow::Url(url) => Media { url: arc(url), alt: Arc::default() },
            MediaRow::Told { url, alt } => Media { url: arc(url), alt: arc(alt) },
        });
        let product = Product {
            site: self.site.slug.clone(),
            id: ProductId::check(&row.id)?,
            name: row.name.trim().into(),
            slug,
            subtitle: arc(row.subtitle),
            description: arc(row.description),
            price,
            media: media.collect(),
            variants,
            tags: row.tags.into_iter().map(arc).collect(),
            digital: row.is_digital,
            downloads: row.downloads.into_iter().map(arc).collect(),
            created_at: self.now,
            updated_at: self.now,
        };
        product.check()?;
        Ok(Counted { product, stock })
    }

    pub(super) fn coupon(&self, row: CouponRow) -> Result<Coupon, Error> {
        let says = |field, says: &str| Error::Field { field, says: says.to_owned() };
        let off = match (row.percent, row.amount) {
            (Some(percent), None) => Discount::Percent(percentage(&percent).ok_or_else(|| {
                says("percent", "must be a text between \"0\" and \"100\" with at most four digits after the point")
            })?),
            (None, Some(amount)) => Discount::Amount(self.amount("amount", &amount)?),
            (Some(_), Some(_)) | (None, None) => return Err(says("percent", "or amount: one of them is needed")),
        };
        let least = row.least.as_ref().map(|least| self.amount("least", least)).transpose()?;
        let expires_at = match row.expires_at {
            None => None,
            Some(text) => Some(Time::parse(&text).ok_or_else(|| says("expires_at", "must be a time of RFC 3339"))?),
        };
        let coupon = Coupon {
            site: self.site.slug.clone(),
            code: coupon::code(&row.code)?,
            off,
            least: least.unwrap_or_default(),
            limit: row.limit,
            expires_at,
        };
        coupon.check()?;
        Ok(coupon)
    }
}

/// The id of a variant without one, made of its options, so that another import gives the same id.
fn variant_id(options: &[(Arc<str>, Arc<str>)], n: usize) -> VariantId {
    let words = options.iter().map(|(_, value)| &**value).collect::<Vec<_>>().join("-");
    match Slug::of(&words) {
        Some(slug) => VariantId(slug.0),
        None if n == 0 => VariantId::ONLY.into(),
        None => VariantId(format!("variant-{}", n + 1).into()),
    }
}

/// Reads a percentage: `12.5`.
fn percentage(text: &str) -> Option<Rate> {
    let (whole, fraction) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
    let are_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || whole.len() > 3 || fraction.len() > 4 || !are_digits(whole) || !are_digits(fraction) {
        return None;
    }
    let millionths: u32 = format!("{whole}{fraction:0<4}").parse().ok()?;
    Rate::try_from(millionths).ok()
}
