//! Carts: whoever has the token of one may do everything with it.

use std::collections::BTreeMap;

use crate::service::{CartChange, Error as Refused, OpenCart as Held, ShopEntity as What};
use serde::Deserialize;
use serde_json::{Value, json};
use shop_rules::{CartToken, Error as Rule, ProductId, Slug, VariantChoice as Which, VariantId, view};

use super::Reply;
use super::ask::ShopRequest;
use super::catalogue::product_id;
use super::error::Error;
use super::table::Going;

#[derive(Deserialize)]
struct New {
    #[serde(default)]
    site_slug: Option<String>,
}

/// What is put into a cart.
#[derive(Deserialize)]
pub(super) struct Wanted {
    product_id: String,
    #[serde(default)]
    variant_id: Option<String>,
    #[serde(default)]
    variant_options: BTreeMap<String, String>,
    #[serde(default = "one_piece")]
    quantity: u32,
}

fn one_piece() -> u32 {
    1
}

impl Wanted {
    pub(super) fn change(self) -> Result<CartChange, Error> {
        let product = product_id(&self.product_id)?;
        let id = self.variant_id.as_deref().map(VariantId::check).transpose()?;
        let options = self.variant_options.iter().map(|(name, value)| (name.as_str().into(), value.as_str().into()));
        let which = Which { id, options: options.collect() };
        Ok(CartChange::Add { product, which, quantity: self.quantity })
    }
}

#[derive(Deserialize)]
struct HowMany {
    quantity: u32,
}

#[derive(Deserialize)]
struct Code {
    code: String,
}

/// Who buys, as far as a cart knows.
#[derive(Deserialize)]
pub(super) struct Buyer {
    #[serde(default)]
    email: Option<String>,
}

#[derive(Deserialize)]
struct Change {
    #[serde(default)]
    buyer: Option<Buyer>,
    #[serde(default)]
    items: Option<Value>,
}

#[derive(Deserialize)]
struct Checkout {
    #[serde(default)]
    buyer: Option<Buyer>,
}

pub(super) fn shown(held: &Held) -> Value {
    view::cart(&held.cart, &held.token, &held.totals)
}

/// The cart whose token this is, and its site; for those who may see it.
pub(super) async fn cart(ask: &ShopRequest<'_>, token: &str) -> Result<(CartToken, Slug), Error> {
    let token = CartToken::read(token).ok_or(Refused::Unknown(What::Cart))?;
    let slug = ask.shop.site_of_cart(&token).await?;
    ask.site(Some(slug.as_str())).await?;
    Ok((token, slug))
}

/// One change of the cart that the path names.
async fn act(ask: &ShopRequest<'_>, change: CartChange) -> Result<Reply, Error> {
    let (token, slug) = cart(ask, ask.http.path_param(0)).await?;
    let held = ask.shop.change_cart(&slug, &token, &change, ask.once.clone()).await?;
    Ok(Reply::ok(shown(&held)))
}

pub(super) fn create<'a>(ask: &'a ShopRequest<'a>) -> Going<'a> {
    Box::pin(async move {
        let new: New = ask.body()?;
        let site = ask.site(new.site_slug.as_deref()).await?;
        let held = ask.shop.create_cart(ask.caller.as_ref(), &site.slug, ask.once.clone()).await?;
        Ok(Reply::made(shown(&held)))
    })
}

pub(super) fn one<'a>(ask: &'a ShopRequest<'a>) -> Going<'a> {
    Box::pin(async move {
        let (token, slug) = cart(ask, ask.http.path_param(0)).await?;
        Ok(Reply::ok(shown(&ask.shop.cart(&slug, &token).await?)))
    })
}

/// What a cart knows of its buyer. Items have addresses of their own.
pub(super) fn change<'a>(ask: &'a ShopRequest<'a>) -> Going<'a> {
    Box::pin(async move {
        let change: Change = ask.body()?;
        if change.items.is_some() {
            return Err(Error::field("items", "are changed at /items and /items/{item} of the cart"));
        }
        let email = change.buyer.and_then(|buyer| buyer.email);
        let address = email.ok_or_else(|| Error::field("buyer.email", "is missing: it is what can be changed here"))?;
        act(ask, CartChange::Email { address }).await
    })
}

pub(super) fn cancel<'a>(ask: &'a ShopRequest<'a>) -> Going<'a> {
    Box::pin(async move {
        let (token, slug) = cart(ask, ask.http.path_param(0)).await?;
        match ask.shop.change_cart(&slug, &token, &CartChange::Cancel, ask.once.clone()).await {
            Ok(held) => Ok(Reply::ok(shown(&held))),
            // A repeat finds what it wanted.
            Err(Refused::Rule(Rule::CartClosed(_))) => {
                let held = ask.shop.cart(&slug, &token).await?;
                if held.cart.status == shop_rules::CartStatus::Cancelled {
                    return Ok(Reply::ok(shown(&held)));
                }
                Err(Rule::CartClosed(held.cart.status.name()).into())
            }
            Err(refused) => Err(refused.into()),
        }
    })
}

pub(super) fn add<'a>(ask: &'a ShopRequest<'a>) -> Going<'a> {
    Box::pin(async move { act(ask, ask.body::<Wanted>()?.change()?).await })
}

/// An item by its id, or by its product's where that is enough.
fn item(ask: &ShopRequest<'_>) -> Result<(ProductId, Option<VariantId>), Error> {
    let named = ask.http.path_param(1);
    let (product, variant) = named.split_once(':').map_or((named, None), |(product, variant)| (product, Some(variant)));
    let unknown = |_| Error::from(Rule::NotInCart);
    let variant = variant.map(VariantId::check).transpose().map_err(unknown)?;
    Ok((ProductId::check(product).map_err(unknown)?, variant))
}

pub(super) fn update<'a>(ask: &'a ShopRequest<'a>) -> Going<'a> {
    Box::pin(async move {
        let ((product, variant), HowMany { quantity }) = (item(ask)?, ask.body()?);
        act(ask, CartChange::Update { product, variant, quantity }).await
    })
}

pub(super) fn remove<'a>(ask: &'a ShopRequest<'a>) -> Going<'a> {
    Box::pin(async move {
        let (product, variant) = item(ask)?;
        act(ask, CartChange::Remove { product, variant }).await
    })
}

pub(super) fn coupon<'a>(ask: &'a ShopRequest<'a>) -> Going<'a> {
    Box::pin(async move {
        let Code { code } = ask.body()?;
        act(ask, CartChange::Coupon { code }).await
    })
}

pub(super) fn no_coupon<'a>(ask: &'a ShopRequest<'a>) -> Going<'a> {
    Box::pin(act(ask, CartChange::NoCoupon))
}

/// Where a checkout begins with an address, the cart knows it first.
pub(super) async fn known_as(
    ask: &ShopRequest<'_>,
    slug: &Slug,
    token: &CartToken,
    buyer: Option<Buyer>,
) -> Result<(), Error> {
    let Some(address) = buyer.and_then(|buyer| buyer.email) else { return Ok(()) };
    match ask.shop.change_cart(slug, token, &CartChange::Email { address }, None).await {
        // A repeat finds the cart in its checkout, where nothing changes any more.
        Ok(_) | Err(Refused::Rule(Rule::CartInCheckout | Rule::CartClosed(_))) => Ok(()),
        Err(refused) => Err(refused.into()),
    }
}

pub(super) fn checkout<'a>(ask: &'a ShopRequest<'a>) -> Going<'a> {
    Box::pin(async move {
        let checkout: Checkout = ask.body()?;
        let (token, slug) = cart(ask, ask.http.path_param(0)).await?;
        known_as(ask, &slug, &token, checkout.buyer).await?;
        let begun = ask.shop.checkout(&slug, &token, ask.once.clone()).await?;
        let url = ask.absolute(&begun.complete_url);
        let session = view::session(&begun.session, Some((begun.token.as_str(), &url)));
        Ok(Reply::made(json!({ "checkout": session, "redirect_url": url })))
    })
}
