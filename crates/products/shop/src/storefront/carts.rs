//! Carts. The holder of a cart's token may read and change it.

use std::collections::BTreeMap;

use crate::service::{CartChange, Error as ServiceError, OpenCart, ShopEntity};
use serde::Deserialize;
use serde_json::{Value, json};
use shop_rules::{CartToken, Error as RuleError, ProductId, Slug, VariantChoice, VariantId, view};

use super::Reply;
use super::catalogue::product_id;
use super::context::ShopRequest;
use super::error::Error;
use super::routes::ShopHandlerFuture;

#[derive(Deserialize)]
struct New {
    #[serde(default)]
    site_slug: Option<String>,
}

/// A product to put into a cart.
#[derive(Deserialize)]
#[serde(expecting = "struct Wanted")] // pinned: part of error messages
pub(super) struct LineItem {
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

impl LineItem {
    pub(super) fn change(self) -> Result<CartChange, Error> {
        let product = product_id(&self.product_id)?;
        let id = self.variant_id.as_deref().map(VariantId::check).transpose()?;
        let options = self.variant_options.iter().map(|(name, value)| (name.as_str().into(), value.as_str().into()));
        let which = VariantChoice { id, options: options.collect() };
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

/// The buyer of a cart: an email address.
#[derive(Deserialize)]
#[serde(expecting = "struct Buyer")] // pinned: part of error messages
pub(super) struct BuyerEmail {
    #[serde(default)]
    email: Option<String>,
}

#[derive(Deserialize)]
struct Change {
    #[serde(default)]
    buyer: Option<BuyerEmail>,
    #[serde(default)]
    items: Option<Value>,
}

#[derive(Deserialize)]
struct Checkout {
    #[serde(default)]
    buyer: Option<BuyerEmail>,
}

pub(super) fn shown(held: &OpenCart) -> Value {
    view::cart(&held.cart, &held.token, &held.totals)
}

/// The token and the site of a cart, checked against the caller's workspace.
pub(super) async fn cart(request: &ShopRequest<'_>, token: &str) -> Result<(CartToken, Slug), Error> {
    let token = CartToken::read(token).ok_or(ServiceError::Unknown(ShopEntity::Cart))?;
    let slug = request.shop.site_of_cart(&token).await?;
    request.site(Some(slug.as_str())).await?;
    Ok((token, slug))
}

/// Changes the cart in the path.
async fn act(request: &ShopRequest<'_>, change: CartChange) -> Result<Reply, Error> {
    let (token, slug) = cart(request, request.http.path_param(0)).await?;
    let held = request.shop.change_cart(&slug, &token, &change, request.once.clone()).await?;
    Ok(Reply::ok(shown(&held)))
}

pub(super) fn create<'a>(request: &'a ShopRequest<'a>) -> ShopHandlerFuture<'a> {
    Box::pin(async move {
        let new: New = request.body()?;
        let site = request.site(new.site_slug.as_deref()).await?;
        let held = request.shop.create_cart(request.caller.as_ref(), &site.slug, request.once.clone()).await?;
        Ok(Reply::made(shown(&held)))
    })
}

pub(super) fn one<'a>(request: &'a ShopRequest<'a>) -> ShopHandlerFuture<'a> {
    Box::pin(async move {
        let (token, slug) = cart(request, request.http.path_param(0)).await?;
        Ok(Reply::ok(shown(&request.shop.cart(&slug, &token).await?)))
    })
}

/// Changes the buyer of a cart. Items have paths of their own.
pub(super) fn change<'a>(request: &'a ShopRequest<'a>) -> ShopHandlerFuture<'a> {
    Box::pin(async move {
        let change: Change = request.body()?;
        if change.items.is_some() {
            return Err(Error::field("items", "are changed at /items and /items/{item} of the cart"));
        }
        let email = change.buyer.and_then(|buyer| buyer.email);
        let address = email.ok_or_else(|| Error::field("buyer.email", "is missing: it is what can be changed here"))?;
        act(request, CartChange::Email { address }).await
    })
}

pub(super) fn cancel<'a>(request: &'a ShopRequest<'a>) -> ShopHandlerFuture<'a> {
    Box::pin(async move {
        let (token, slug) = cart(request, request.http.path_param(0)).await?;
        match request.shop.change_cart(&slug, &token, &CartChange::Cancel, request.once.clone()).await {
            Ok(held) => Ok(Reply::ok(shown(&held))),
            // A repeat of a successful cancel.
            Err(ServiceError::Rule(RuleError::CartClosed(_))) => {
                let held = request.shop.cart(&slug, &token).await?;
                if held.cart.status == shop_rules::CartStatus::Cancelled {
                    return Ok(Reply::ok(shown(&held)));
                }
                Err(RuleError::CartClosed(held.cart.status.name()).into())
            }
            Err(refused) => Err(refused.into()),
        }
    })
}

pub(super) fn add<'a>(request: &'a ShopRequest<'a>) -> ShopHandlerFuture<'a> {
    Box::pin(async move { act(request, request.body::<LineItem>()?.change()?).await })
}

/// The item in the path: `product:variant`, or `product` if the cart has one variant of it.
fn item(request: &ShopRequest<'_>) -> Result<(ProductId, Option<VariantId>), Error> {
    let named = request.http.path_param(1);
    let (product, variant) = named.split_once(':').map_or((named, None), |(product, variant)| (product, Some(variant)));
    let unknown = |_| Error::from(RuleError::NotInCart);
    let variant = variant.map(VariantId::check).transpose().map_err(unknown)?;
    Ok((ProductId::check(product).map_err(unknown)?, variant))
}

pub(super) fn update<'a>(request: &'a ShopRequest<'a>) -> ShopHandlerFuture<'a> {
    Box::pin(async move {
        let ((product, variant), HowMany { quantity }) = (item(request)?, request.body()?);
        act(request, CartChange::Update { product, variant, quantity }).await
    })
}

pub(super) fn remove<'a>(request: &'a ShopRequest<'a>) -> ShopHandlerFuture<'a> {
    Box::pin(async move {
        let (product, variant) = item(request)?;
        act(request, CartChange::Remove { product, variant }).await
    })
}

pub(super) fn coupon<'a>(request: &'a ShopRequest<'a>) -> ShopHandlerFuture<'a> {
    Box::pin(async move {
        let Code { code } = request.body()?;
        act(request, CartChange::Coupon { code }).await
    })
}

pub(super) fn no_coupon<'a>(request: &'a ShopRequest<'a>) -> ShopHandlerFuture<'a> {
    Box::pin(act(request, CartChange::NoCoupon))
}

/// Sets the buyer's email of a cart before its checkout begins.
pub(super) async fn set_buyer(
    request: &ShopRequest<'_>,
    slug: &Slug,
    token: &CartToken,
    buyer: Option<BuyerEmail>,
) -> Result<(), Error> {
    let Some(address) = buyer.and_then(|buyer| buyer.email) else { return Ok(()) };
    match request.shop.change_cart(slug, token, &CartChange::Email { address }, None).await {
        // For a repeat the cart is in its checkout and cannot change.
        Ok(_) | Err(ServiceError::Rule(RuleError::CartInCheckout | RuleError::CartClosed(_))) => Ok(()),
        Err(refused) => Err(refused.into()),
    }
}

pub(super) fn checkout<'a>(request: &'a ShopRequest<'a>) -> ShopHandlerFuture<'a> {
    Box::pin(async move {
        let checkout: Checkout = request.body()?;
        let (token, slug) = cart(request, request.http.path_param(0)).await?;
        set_buyer(request, &slug, &token, checkout.buyer).await?;
        let begun = request.shop.checkout(&slug, &token, request.once.clone()).await?;
        let url = request.absolute(&begun.complete_url);
        let session = view::session(&begun.session, Some((begun.token.as_str(), &url)));
        Ok(Reply::made(json!({ "checkout": session, "redirect_url": url })))
    })
}
