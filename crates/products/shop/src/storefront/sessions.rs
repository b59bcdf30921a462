//! Checkout sessions: from a cart, or from lines at once; completed or cancelled by whoever has the confirmation token.

use crate::service::{Bought, Error as Refused, Once, OpenCheckout as Begun, ShopEntity as What};
use serde::Deserialize;
use serde_json::Value;
use shop_rules::{Buyer, ConfirmationToken, Error as Rule, SessionId, SessionStatus, view};

use super::Reply;
use super::ask::ShopRequest;
use super::carts::{self, Wanted};
use super::error::Error;
use super::table::Going;

#[derive(Deserialize)]
struct New {
    #[serde(default)]
    cart_token: Option<String>,
    #[serde(default)]
    site_slug: Option<String>,
    #[serde(default)]
    line_items: Option<Vec<Wanted>>,
    #[serde(default)]
    coupon: Option<String>,
    #[serde(default)]
    buyer: Option<carts::Buyer>,
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

fn begun(ask: &ShopRequest<'_>, begun: &Begun) -> Reply {
    let url = ask.absolute(&begun.complete_url);
    Reply::made(view::session(&begun.session, Some((begun.token.as_str(), &url))))
}

pub(super) fn create<'a>(ask: &'a ShopRequest<'a>) -> Going<'a> {
    Box::pin(async move {
        let new: New = ask.body()?;
        match (&new.cart_token, &new.line_items) {
            (Some(token), None) => {
                let (token, slug) = carts::cart(ask, token).await?;
                carts::known_as(ask, &slug, &token, new.buyer).await?;
                Ok(begun(ask, &ask.shop.checkout(&slug, &token, ask.once.clone()).await?))
            }
            (None, Some(lines)) if !lines.is_empty() && lines.len() <= shop_rules::cart::MAX_ITEMS => {
                by_lines(ask, new).await
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

/// A cart with these lines, and its checkout. Each step is known by the same key, so that a repeat goes on where it stopped;
/// but a stranger's repeat is another purchase, for nobody knows whether two strangers are one.
async fn by_lines(ask: &ShopRequest<'_>, new: New) -> Result<Reply, Error> {
    let site = ask.site(new.site_slug.as_deref()).await?;
    let held = ask.shop.create_cart(ask.caller.as_ref(), &site.slug, ask.once.clone()).await?;
    let known = ask.once.as_ref().filter(|_| ask.caller.is_some());
    let step = |name: String| known.map(|once| Once { key: format!("{}/{name}", once.key), print: once.print });
    let filled = async {
        for (place, line) in new.line_items.into_iter().flatten().enumerate() {
            ask.shop.change_cart(&site.slug, &held.token, &line.change()?, step(format!("line/{place}"))).await?;
        }
        if let Some(code) = new.coupon {
            let change = crate::service::CartChange::Coupon { code };
            ask.shop.change_cart(&site.slug, &held.token, &change, step("coupon".to_owned())).await?;
        }
        carts::known_as(ask, &site.slug, &held.token, new.buyer).await?;
        Ok(ask.shop.checkout(&site.slug, &held.token, step("checkout".to_owned())).await?)
    };
    match filled.await {
        Ok(done) => Ok(begun(ask, &done)),
        Err(refusal) => {
            // Nobody else has this cart's token; where a repeat could go on with it, it stays.
            if known.is_none() {
                let _ = ask.shop.change_cart(&site.slug, &held.token, &crate::service::CartChange::Cancel, None).await;
            }
            Err(refusal)
        }
    }
}

/// The checkout of the path, for whoever has its token.
fn of_path(ask: &ShopRequest<'_>, token: &str) -> Result<(SessionId, ConfirmationToken), Error> {
    let id = SessionId::from(ask.http.path_param(0));
    let token = ConfirmationToken::read(token).filter(|token| token.session() == id);
    Ok((id, token.ok_or(Refused::Unknown(What::Session))?))
}

/// A checkout, and its order once there is one.
async fn shown(ask: &ShopRequest<'_>, id: &SessionId, token: &ConfirmationToken) -> Result<Value, Error> {
    let session = ask.shop.session(id, token).await?;
    ask.may_see(&session.workspace)?;
    let mut shown = view::session(&session, None);
    if session.status == SessionStatus::Completed
        && let Bought::Order { order, products } = ask.shop.order(token).await?
    {
        shown["order"] = view::order(&order, &products);
    }
    Ok(shown)
}

pub(super) fn one<'a>(ask: &'a ShopRequest<'a>) -> Going<'a> {
    Box::pin(async move {
        let said = ask.param("token")?.ok_or_else(|| Error::field("token", "is missing: the confirmation token"))?;
        let (id, token) = of_path(ask, said)?;
        Ok(Reply::ok(shown(ask, &id, &token).await?))
    })
}

pub(super) fn complete<'a>(ask: &'a ShopRequest<'a>) -> Going<'a> {
    Box::pin(async move {
        let Completed { confirmation_token, buyer } = ask.body()?;
        let (id, token) = of_path(ask, &confirmation_token)?;
        // Nothing is sold to a credential of elsewhere.
        shown(ask, &id, &token).await?;
        let said = |text: Option<String>| {
            text.map(|text| text.trim().into()).filter(|text: &std::sync::Arc<str>| !text.is_empty())
        };
        let buyer = Buyer { email: buyer.email.as_str().into(), name: said(buyer.name), address: said(buyer.address) };
        ask.shop.complete(&id, &token, &buyer, ask.once.clone()).await?;
        Ok(Reply::ok(shown(ask, &id, &token).await?))
    })
}

pub(super) fn cancel<'a>(ask: &'a ShopRequest<'a>) -> Going<'a> {
    Box::pin(async move {
        let Cancelled { confirmation_token } = ask.body()?;
        let (id, token) = of_path(ask, &confirmation_token)?;
        let before = shown(ask, &id, &token).await?;
        match ask.shop.cancel_checkout(&id, &token).await {
            Ok(session) => Ok(Reply::ok(view::session(&session, None))),
            // A repeat finds what it wanted.
            Err(Refused::Rule(Rule::SessionClosed(_))) if before["status"] == SessionStatus::Cancelled.name() => {
                Ok(Reply::ok(before))
            }
            Err(refused) => Err(refused.into()),
        }
    })
}
