//! JSON views of the shop's data, for REST responses and for artifacts of the store agent.

use serde_json::{Map, Value, json};

use crate::checkout::Session;
use crate::{Cart, CartToken, Currency, Item, Minor, Order, Product, Site, Totals};

/// A product and the available stock of each variant; `None` if the variant's stock is not counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stocked<'a> {
    pub product: &'a Product,
    pub left: Vec<Option<u64>>,
}

impl Stocked<'_> {
    pub fn in_stock(&self) -> bool {
        self.left.iter().any(|left| left.is_none_or(|left| left > 0))
    }
}

pub fn money(site: &Site, amount: Minor) -> Value {
    priced(&site.currency, amount)
}

fn priced(currency: &Currency, amount: Minor) -> Value {
    json!({"amount": amount, "currency": currency})
}

pub fn store(site: &Site) -> Value {
    let links: Map<String, Value> =
        site.links.iter().map(|link| (link.name.to_string(), Value::from(&*link.url))).collect();
    json!({
        "site_slug": site.slug,
        "title": site.title,
        "description": site.description,
        "currency": site.currency,
        "social_links": links,
    })
}

fn options(options: &[(std::sync::Arc<str>, std::sync::Arc<str>)]) -> Value {
    Value::Object(options.iter().map(|(name, value)| (name.to_string(), Value::from(&**value))).collect())
}

/// A product; `base` is the base URL of the server.
pub fn product(site: &Site, base: &str, stocked: &Stocked<'_>) -> Value {
    let product = stocked.product;
    let variants = product.variants.iter().zip(&stocked.left).map(|(variant, left)| {
        json!({
            "id": variant.id,
            "options": options(&variant.options),
            "price": money(site, product.price_of(variant)),
            "stock": left,
            "in_stock": left.is_none_or(|left| left > 0),
            "sku": variant.sku,
        })
    });
    let media = product.media.iter().map(|media| json!({"url": media.url, "alt": media.alt}));
    json!({
        "id": product.id,
        "site_slug": product.site,
        "name": product.name,
        "subtitle": product.subtitle,
        "slug": product.slug,
        "description": product.description,
        "price": money(site, product.price),
        "media": media.collect::<Vec<_>>(),
        "variants": variants.collect::<Vec<_>>(),
        "tags": product.tags,
        "is_digital": product.digital,
        "in_stock": stocked.in_stock(),
        "url": format!("{base}/api/storefront/v1/stores/{}/products/{}", product.site, product.id),
    })
}

pub fn totals(currency: &Currency, totals: &Totals) -> Value {
    json!({
        "subtotal": totals.subtotal,
        "shipping": totals.shipping,
        "tax": totals.tax,
        "discount": totals.discount,
        "total": totals.total,
        "currency": currency,
    })
}

fn item(currency: &Currency, item: &Item) -> Value {
    let line = Minor(item.price.0.saturating_mul(i64::from(item.quantity)));
    json!({
        "id": format!("{}:{}", item.product, item.variant),
        "product_id": item.product,
        "variant_id": item.variant,
        "name": item.name,
        "options": options(&item.options),
        "quantity": item.quantity,
        "price": priced(currency, item.price),
        "line_total": priced(currency, line),
        "is_digital": item.digital,
    })
}

pub fn cart(cart: &Cart, token: &CartToken, sums: &Totals) -> Value {
    json!({
        "token": token.as_str(),
        "status": cart.status.name(),
        "site_slug": cart.site,
        "items": cart.items.iter().map(|one| item(&cart.currency, one)).collect::<Vec<_>>(),
        "coupon": cart.coupon.as_ref().map(|coupon| &coupon.code),
        "totals": totals(&cart.currency, sums),
        "buyer": {"email": cart.email},
        "checkout_session_id": cart.session,
        "expires_at": cart.expires_at.to_string(),
    })
}

/// A checkout; `secret` is its token and the address of its page, for the buyer who began it.
pub fn session(session: &Session, secret: Option<(&str, &str)>) -> Value {
    let mut shown = json!({
        "id": session.id,
        "status": session.status.name(),
        "site_slug": session.site,
        "items": session.items.iter().map(|one| item(&session.currency, one)).collect::<Vec<_>>(),
        "coupon": session.coupon.as_ref().map(|coupon| &coupon.code),
        "totals": totals(&session.currency, &session.totals),
        "buyer": {"email": session.email},
        "expires_at": session.expires_at.to_string(),
    });
    if let (Value::Object(members), Some((token, url))) = (&mut shown, secret) {
        members.insert("confirmation_token".to_owned(), token.into());
        members.insert("complete_url".to_owned(), url.into());
    }
    shown
}

/// An order; `products` are those of its lines that still exist, for media and downloads.
pub fn order(order: &Order, products: &[Product]) -> Value {
    let lines = order.lines.iter().map(|line| {
        let mut shown = item(&order.currency, &line.item);
        if let Value::Object(members) = &mut shown {
            members.insert("fulfilled".to_owned(), line.sent.into());
        }
        shown
    });
    let of = |product: &&Product| order.lines.iter().any(|line| line.item.product == product.id);
    let media = products.iter().filter(of).flat_map(|product| {
        product.media.iter().map(|media| json!({"product_id": product.id, "url": media.url, "alt": media.alt}))
    });
    // Without a payment there are no downloads.
    let downloads = products.iter().filter(of).filter(|product| product.digital && order.is_earned());
    let downloads = downloads.flat_map(|product| {
        product.downloads.iter().map(|url| json!({"product_id": product.id, "name": product.name, "url": url}))
    });
    json!({
        "order_id": order.id,
        "site_slug": order.site,
        "state": order.state.name(),
        "items": lines.collect::<Vec<_>>(),
        "coupon": order.coupon,
        "totals": totals(&order.currency, &order.totals),
        "shipping": {
            "required": order.lines.iter().any(|line| !line.item.digital),
            "name": order.buyer.name,
            "address": order.buyer.address,
            "tracking": order.tracking,
        },
        "buyer": {"email": order.buyer.email},
        "downloads": downloads.collect::<Vec<_>>(),
        "media": media.collect::<Vec<_>>(),
        "created_at": order.created_at.to_string(),
        "updated_at": order.updated_at.to_string(),
    })
}
