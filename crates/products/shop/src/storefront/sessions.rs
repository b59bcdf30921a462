//! Checkout sessions: created from a cart or from lines, completed or cancelled by the holder of the confirmation token.

use crate::service::{Bought, Error as ServiceError, Once, OpenCheckout, ShopEntity};
use serde::Deserialize;
use serde_json::Value;
use shop_rules::{Buyer, ConfirmationToken, Error as RuleError, SessionId, SessionStatus, view};

use super::Reply;
use super::carts::{self, LineItem};
use super::context::ShopRequest;
use super::error::Error;
use super::routes::ShopHandlerFuture;

#[derive(Deserialize)]
struct New {
    #[serde(default)]
    cart_token: Option<String>,
    #[serde(default)]
    site_slug: Option<String>,
    #[serde(default)]
    line_items: Option<Vec<LineItem>>,
    #[serde(default)]
    coupon: Option<String>,
    #[serde(default)]
    buyer: Option<carts::BuyerEmail>,
}

#[derive(Deserialize)]
struct Completed {
    confirmation_token: String,
    buyer: Buys,
}

#[derive(Deserialize)]
struct Buys {
    email: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    address: Option<String>,
}

#[derive(Deserialize)]
struct Cancelled {
    confirmation_token: String,
}

fn begun(request: &ShopRequest<'_>, begun: &OpenCheckout) -> Reply {
    let url = request.absolute(&begun.complete_url);
    Reply::made(view::session(&begun.session, Some((begun.token.as_str(), &url))))
}

pub(super) fn create<'a>(request: &'a ShopRequest<'a>) -> ShopHandlerFuture<'a> {
    Box::pin(async move {
        let new: New = request.body()?;
        match (&new.cart_token, &new.line_items) {
            (Some(token), None) => {
                let (token, slug) = carts::cart(request, token).await?;
                carts::set_buyer(request, &slug, &token, new.buyer).await?;
                Ok(begun(request, &request.shop.checkout(&slug, &token, request.once.clone()).await?))
            }
            (None, Some(lines)) if !lines.is_empty() && lines.len() <= shop_rules::cart::MAX_ITEMS => {
                by_lines(request, new).await
            }
            (None, Some(_)) => {
                let most = shop_rules::cart::MAX_ITEMS;
                Err(Error::field("line_items", format!("must be 1 to {most} lines of product_id and quantity")))
            }
            (Some(_), Some(_)) | (None, None) => {
                Err(Error::field("cart_token", "or site_slug and line_items must be there: one of both"))
            }
        }
    })
}

/// Creates a cart with these lines and begins its checkout. Each step has an idempotency key derived from the request's, so
/// that a repeat continues where the first request stopped. Without a credential a repeat is another purchase, because two
/// such requests cannot be known to come from one caller.
async fn by_lines(request: &ShopRequest<'_>, new: New) -> Result<Reply, Error> {
    let site = request.site(new.site_slug.as_deref()).await?;
    let held = request.shop.create_cart(request.caller.as_ref(), &site.slug, request.once.clone()).await?;
    let known = request.once.as_ref().filter(|_| request.caller.is_some());
    let step = |name: String| known.map(|once| Once { key: format!("{}/{name}", once.key), print: once.print });
    let filled = async {
        for (place, line) in new.line_items.into_iter().flatten().enumerate() {
            request.shop.change_cart(&site.slug, &held.token, &line.change()?, step(format!("line/{place}"))).await?;
        }
        if let Some(code) = new.coupon {
            let change = crate::service::CartChange::Coupon { code };
            request.shop.change_cart(&site.slug, &held.token, &change, step("coupon".to_owned())).await?;
        }
        carts::set_buyer(request, &site.slug, &held.token, new.buyer).await?;
        Ok(request.shop.checkout(&site.slug, &held.token, step("checkout".to_owned())).await?)
    };
    match filled.await {
        Ok(done) => Ok(begun(request, &done)),
        Err(refusal) => {
            // No caller has this cart's token. It stays only if a repeat can continue with it.
            if known.is_none() {
                let _ =
                    request.shop.change_cart(&site.slug, &held.token, &crate::service::CartChange::Cancel, None).await;
            }
            Err(refusal)
        }
    }
}

/// The checkout in the path, checked against its token.
fn of_path(request: &ShopRequest<'_>, token: &str) -> Result<(SessionId, ConfirmationToken), Error> {
    let id = SessionId::from(request.http.path_param(0));
    let token = ConfirmationToken::read(token).filter(|token| token.session() == id);
    Ok((id, token.ok_or(ServiceError::Unknown(ShopEntity::Session))?))
}

/// A checkout, and its order once there is one.
async fn shown(request: &ShopRequest<'_>, id: &SessionId, token: &ConfirmationToken) -> Result<Value, Error> {
    let session = request.shop.session(id, token).await?;
    request.may_see(&session.workspace)?;
    let mut shown = view::session(&session, None);
    if session.status == SessionStatus::Completed
        && let Bought::Order { order, products } = request.shop.order(token).await?
    {
        shown["order"] = view::order(&order, &products);
    }
    Ok(shown)
}

pub(super) fn one<'a>(request: &'a ShopRequest<'a>) -> ShopHandlerFuture<'a> {
    Box::pin(async move {
        let said =
            request.param("token")?.ok_or_else(|| Error::field("token", "is missing: the confirmation token"))?;
        let (id, token) = of_path(request, said)?;
        Ok(Reply::ok(shown(request, &id, &token).await?))
    })
}

pub(super) fn complete<'a>(request: &'a ShopRequest<'a>) -> ShopHandlerFuture<'a> {
    Box::pin(async move {
        let Completed { confirmation_token, buyer } = request.body()?;
        let (id, token) = of_path(request, &confirmation_token)?;
        // Checks that the credential is not of another workspace.
        shown(request, &id, &token).await?;
        let said = |text: Option<String>| {
            text.map(|text| text.trim().into()).filter(|text: &std::sync::Arc<str>| !text.is_empty())
        };
        let buyer = Buyer { email: buyer.email.as_str().into(), name: said(buyer.name), address: said(buyer.address) };
        request.shop.complete(&id, &token, &buyer, request.once.clone()).await?;
        Ok(Reply::ok(shown(request, &id, &token).await?))
    })
}

pub(super) fn cancel<'a>(request: &'a ShopRequest<'a>) -> ShopHandlerFuture<'a> {
    Box::pin(async move {
        let Cancelled { confirmation_token } = request.body()?;
        let (id, token) = of_path(request, &confirmation_token)?;
        let before = shown(request, &id, &token).await?;
        match request.shop.cancel_checkout(&id, &token).await {
            Ok(session) => Ok(Reply::ok(view::session(&session, None))),
            // A repeat of a successful cancel.
            Err(ServiceError::Rule(RuleError::SessionClosed(_)))
                if before["status"] == SessionStatus::Cancelled.name() =>
            {
                Ok(Reply::ok(before))
            }
            Err(refused) => Err(refused.into()),
        }
    })
}
