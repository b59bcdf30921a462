//! Orders: one order for the holder of its confirmation token; and the orders of a site for its workspace.

use crate::service::{Bought, Error as ServiceError, ShopEntity};
use serde::Deserialize;
use serde_json::{Value, json};
use shop_rules::{ConfirmationToken, Order, OrderAct, OrderId, view};

use web::fault_codes::FaultCode;

use super::Reply;
use super::context::ShopRequest;
use super::error::Error;
use super::routes::ShopHandlerFuture;

pub(super) fn one<'a>(request: &'a ShopRequest<'a>) -> ShopHandlerFuture<'a> {
    Box::pin(async move {
        let token =
            ConfirmationToken::read(request.http.path_param(0)).ok_or(ServiceError::Unknown(ShopEntity::Order))?;
        match request.shop.order(&token).await? {
            Bought::Order { order, products } => {
                request.may_see(&order.workspace)?;
                Ok(Reply::ok(view::order(&order, &products)))
            }
            Bought::NotYet(session) => {
                request.may_see(&session.workspace)?;
                let status = session.status.name();
                let words = format!(
                    "the checkout of this token is {status}: there is no order; complete it at its complete_url while it is open"
                );
                Err(Error::new(FaultCode::NOT_FOUND, words))
            }
        }
    })
}

/// Reads a cursor: `rank.id`.
fn place(cursor: &str) -> Result<(i64, OrderId), Error> {
    let read = cursor.split_once('.').and_then(|(rank, id)| Some((rank.parse().ok()?, OrderId::from(id))));
    read.ok_or_else(|| Error::field("cursor", "is not one that a page of this list has told"))
}

fn after(order: &Order) -> (i64, OrderId) {
    (order.created_at.0, order.id.clone())
}

pub(super) fn list<'a>(request: &'a ShopRequest<'a>) -> ShopHandlerFuture<'a> {
    Box::pin(async move {
        let site = request.site(request.param("site_slug")?).await?;
        let caller = request.caller.as_ref().ok_or(ServiceError::Unauthenticated("read:orders"))?;
        let (limit, from) = (request.limit()?, request.param("cursor")?.map(place).transpose()?);
        let orders = request.shop.orders(caller, &site.slug, from, limit).await?;
        let mut next = None;
        if let (Some(last), true) = (orders.last(), orders.len() as u32 >= limit) {
            let more = request.shop.orders(caller, &site.slug, Some(after(last)), 1).await?;
            next = more.first().map(|_| format!("{}.{}", last.created_at.0, last.id));
        }
        let shown: Vec<Value> = orders.iter().map(|order| view::order(order, &[])).collect();
        Ok(Reply::ok(json!({ "orders": shown, "next_cursor": next })))
    })
}

async fn act(request: &ShopRequest<'_>, act: OrderAct) -> Result<Reply, Error> {
    let caller = request.caller.as_ref().ok_or(ServiceError::Unauthenticated(shop_rules::WRITE_ORDERS))?;
    let order = request
        .shop
        .act_on_order_once(caller, &OrderId::from(request.http.path_param(0)), &act, request.once.clone())
        .await?;
    Ok(Reply::ok(view::order(&order, &[])))
}

/// A shipment: quantities of lines, or all that is left if there are none.
#[derive(Deserialize)]
struct Sent {
    #[serde(default)]
    lines: Vec<SentLine>,
    #[serde(default)]
    tracking: Option<String>,
}

#[derive(Deserialize)]
struct SentLine {
    /// Index in the order's lines, from 0.
    line: usize,
    quantity: u32,
}

pub(super) fn fulfil<'a>(request: &'a ShopRequest<'a>) -> ShopHandlerFuture<'a> {
    Box::pin(async move {
        let Sent { lines, tracking } = request.body()?;
        if lines.len() > shop_rules::cart::MAX_ITEMS {
            return Err(Error::field("lines", "must be no more than the order has"));
        }
        if lines.iter().any(|line| line.quantity == 0) {
            return Err(Error::field("lines", "must each have a quantity of 1 and more"));
        }
        let lines = lines.into_iter().map(|line| (line.line, line.quantity)).collect();
        act(request, OrderAct::Fulfil { lines, tracking: tracking.map(Into::into) }).await
    })
}

pub(super) fn cancel<'a>(request: &'a ShopRequest<'a>) -> ShopHandlerFuture<'a> {
    Box::pin(act(request, OrderAct::Cancel))
}

pub(super) fn refund<'a>(request: &'a ShopRequest<'a>) -> ShopHandlerFuture<'a> {
    Box::pin(act(request, OrderAct::Refund))
}

pub(super) fn give_back<'a>(request: &'a ShopRequest<'a>) -> ShopHandlerFuture<'a> {
    Box::pin(act(request, OrderAct::Return))
}
