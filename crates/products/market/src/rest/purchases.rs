//! Purchases: `/transactions`.

use crate::service::{MarketCaller, NamedFile, OrderRequest};
use market_rules::transaction::{Deliverable, Role, Status, TransactionAction};
use market_rules::{Actor, Transaction, TransactionId};
use model::{ContextId, Json};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::error::Error;
use super::routes::{KeyedBody, MarketFuture, MarketRequest};
use super::{Page, names, printable};
use web::openapi::{ParamKind, QueryParam};

pub(super) const QUERY: [QueryParam; 2] = [
    QueryParam {
        name: "role",
        description: "Only what you bought, or only what you sold.",
        kind: ParamKind::OneOf(|| vec![Role::Buyer.name(), Role::Seller.name()]),
    },
    QueryParam {
        name: "status",
        description: "Only those that stand here.",
        kind: ParamKind::OneOf(|| names(Status::ALL, Status::name)),
    },
];

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct NewTransaction {
    #[schemars(length(min = 1, max = 200))]
    capability_id: String,
    /// For a price per hour, how many.
    #[serde(default)]
    #[schemars(range(min = 1, max = 8784))]
    booked_hours: Option<i64>,
    #[serde(default)]
    #[schemars(length(min = 1, max = 200))]
    context_id: Option<String>,
    #[serde(default)]
    #[schemars(length(min = 1, max = 200))]
    demand_id: Option<String>,
    /// What you want done; the seller gets it as it is.
    #[serde(default)]
    #[schemars(with = "Option<Value>")]
    input: Option<Json>,
    /// A person's yes to a price above what an agent may spend by itself.
    #[serde(default)]
    #[schemars(length(max = 500))]
    confirm_token: Option<String>,
    #[allow(dead_code, reason = "read before the rest of the body is")]
    #[serde(default)]
    #[schemars(length(min = 1, max = 255))]
    idempotency_key: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "Rejection")]
pub(super) struct RejectPurchase {
    #[serde(default)]
    #[schemars(length(max = 500))]
    reason: Option<String>,
    #[allow(dead_code, reason = "read before the rest of the body is")]
    #[serde(default)]
    #[schemars(length(min = 1, max = 255))]
    idempotency_key: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct ApprovalOfOrder {
    /// An agent brings the token its person was asked with; a person who has logged in needs none.
    #[serde(default)]
    #[schemars(length(max = 500))]
    confirm_token: Option<String>,
    #[allow(dead_code, reason = "read before the rest of the body is")]
    #[serde(default)]
    #[schemars(length(min = 1, max = 255))]
    idempotency_key: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Delivery {
    #[serde(default)]
    #[schemars(with = "Option<Map<String, Value>>")]
    result_payload: Option<Json>,
    #[serde(default)]
    #[schemars(length(max = 64))]
    deliverables: Vec<DeliveredFile>,
    #[allow(dead_code, reason = "read before the rest of the body is")]
    #[serde(default)]
    #[schemars(length(min = 1, max = 255))]
    idempotency_key: Option<String>,
}

/// Ids are drawn where there are none.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct DeliveredFile {
    /// Of a file that is kept elsewhere; one that was uploaded has a name already.
    #[serde(default)]
    #[schemars(length(min = 1, max = 255))]
    file_name: Option<String>,
    #[serde(default)]
    #[schemars(length(min = 1, max = 255))]
    deliverable_id: Option<String>,
    /// Of a file that was uploaded for this purchase.
    #[serde(default)]
    #[schemars(length(min = 1, max = 255))]
    access_id: Option<String>,
}

/// A purchase.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Transaction")]
pub(super) struct TransactionView {
    id: String,
    buyer_user_id: String,
    seller_user_id: String,
    capability_id: String,
    /// The capability's pricing model when it was bought.
    transaction_type: &'static str,
    /// Amounts are decimal strings.
    price_ut: String,
    commission_ut: String,
    #[schemars(extend("enum" = names(Status::ALL, Status::name)))]
    status: &'static str,
    booked_hours: Option<i64>,
    context_id: Option<String>,
    demand_id: Option<String>,
    #[schemars(with = "Value")]
    input: Option<Json>,
    #[schemars(with = "Option<Map<String, Value>>")]
    result_payload: Option<Json>,
    deliverables: Vec<ShownFile>,
    autonomy_confirmation: Option<ShownConfirmation>,
    decision_source: &'static str,
    /// Why it was rejected or failed.
    reason: Option<String>,
    /// What somebody has to do, and by when.
    due: Option<ShownDue>,
    #[schemars(extend("format" = "date-time"))]
    created_at: String,
    #[schemars(extend("format" = "date-time"))]
    updated_at: String,
    #[schemars(extend("format" = "date-time"))]
    frozen_at: Option<String>,
    #[schemars(extend("format" = "date-time"))]
    settled_at: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Deliverable")]
struct ShownFile {
    deliverable_id: String,
    access_id: String,
    file_name: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "AutonomyConfirmation")]
struct ShownConfirmation {
    required: bool,
    #[schemars(extend("enum" = ["pending", "confirmed"]))]
    status: &'static str,
    risk_level: &'static str,
    estimated_cost_ut: String,
    confirmed_by: Option<String>,
    confirmed_at: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Due")]
struct ShownDue {
    #[schemars(extend("enum" = ["accept", "deliver", "confirm"]))]
    deadline: &'static str,
    #[schemars(extend("format" = "date-time"))]
    at: String,
}

impl From<&Transaction> for TransactionView {
    fn from(row: &Transaction) -> TransactionView {
        TransactionView {
            id: row.id.tx(),
            buyer_user_id: row.buyer.to_string(),
            seller_user_id: row.seller.to_string(),
            capability_id: row.capability.to_string(),
            transaction_type: row.pricing_model.name(),
            price_ut: row.price.to_string(),
            commission_ut: row.commission.to_string(),
            status: row.status.name(),
            booked_hours: row.booked_hours,
            context_id: row.context.as_ref().map(ToString::to_string),
            demand_id: row.demand.as_ref().map(ToString::to_string),
            input: row.input.clone(),
            result_payload: row.result.clone(),
            deliverables: row.deliverables.iter().map(ShownFile::from).collect(),
            autonomy_confirmation: row.autonomy.as_ref().map(|asked| ShownConfirmation {
                required: asked.required,
                status: asked.status.name(),
                risk_level: asked.risk_level.name(),
                estimated_cost_ut: asked.estimated_cost.to_string(),
                confirmed_by: asked.confirmed_by.as_ref().map(ToString::to_string),
                confirmed_at: asked.confirmed_at.map(|at| at.to_string()),
            }),
            decision_source: row.decision_source.name(),
            reason: row.reason.as_ref().map(ToString::to_string),
            due: row.due.map(|due| ShownDue { deadline: due.deadline.name(), at: due.at.to_string() }),
            created_at: row.created_at.to_string(),
            updated_at: row.updated_at.to_string(),
            frozen_at: row.frozen_at.map(|at| at.to_string()),
            settled_at: row.settled_at.map(|at| at.to_string()),
        }
    }
}

impl From<&Deliverable> for ShownFile {
    fn from(file: &Deliverable) -> ShownFile {
        ShownFile {
            deliverable_id: file.deliverable_id.to_string(),
            access_id: file.access_id.to_string(),
            file_name: file.file_name.to_string(),
        }
    }
}

/// The transaction id of the path. A malformed id is reported as unknown.
fn id(ask: &MarketRequest<'_>) -> Result<TransactionId, Error> {
    let named = ask.http.id();
    named.parse().map_err(|_| crate::service::Error::Unknown(crate::service::MarketEntity::Transaction).into())
}

async fn step(ask: &MarketRequest<'_>, action: TransactionAction) -> Result<TransactionView, Error> {
    let caller = ask.caller()?;
    let once = ask.once.clone().map(|once| (caller, once));
    let row = ask.market.act(&actor(caller), id(ask)?, action, once).await?;
    Ok(TransactionView::from(&row))
}

fn actor(caller: &MarketCaller) -> Actor {
    caller.actor()
}

pub(super) fn create<'a>(ask: &'a MarketRequest<'a>, body: NewTransaction) -> MarketFuture<'a, TransactionView> {
    Box::pin(async move {
        printable("capability_id", Some(&body.capability_id))?;
        printable("context_id", body.context_id.as_deref())?;
        printable("demand_id", body.demand_id.as_deref())?;
        let wish = OrderRequest {
            capability: body.capability_id.as_str().into(),
            booked_hours: body.booked_hours,
            context: body.context_id.as_deref().map(ContextId::from),
            demand: body.demand_id.map(Into::into),
            input: body.input,
            confirm_token: body.confirm_token,
        };
        let row = ask.market.order(ask.caller()?, wish, ask.once.clone()).await?;
        Ok(TransactionView::from(&row))
    })
}

pub(super) fn list<'a>(ask: &'a MarketRequest<'a>, _: KeyedBody) -> MarketFuture<'a, Page<TransactionView>> {
    Box::pin(async move {
        let (role, status) =
            (ask.text("role").and_then(Role::from_name), ask.text("status").and_then(Status::from_name));
        let paged = ask.market.transactions(ask.caller()?, role, status, ask.paging()).await?;
        Ok(Page::of(paged, |row| TransactionView::from(row)))
    })
}

pub(super) fn one<'a>(ask: &'a MarketRequest<'a>, _: KeyedBody) -> MarketFuture<'a, TransactionView> {
    Box::pin(async move {
        let row = ask.market.transaction(&actor(ask.caller()?), id(ask)?).await?;
        Ok(TransactionView::from(&row))
    })
}

pub(super) fn approve<'a>(ask: &'a MarketRequest<'a>, body: ApprovalOfOrder) -> MarketFuture<'a, TransactionView> {
    Box::pin(async move {
        let token = body.confirm_token.as_deref();
        let row = ask.market.approve(ask.caller()?, id(ask)?, token, ask.once.clone()).await?;
        Ok(TransactionView::from(&row))
    })
}

pub(super) fn freeze<'a>(ask: &'a MarketRequest<'a>, _: KeyedBody) -> MarketFuture<'a, TransactionView> {
    Box::pin(step(ask, TransactionAction::Freeze))
}

pub(super) fn accept<'a>(ask: &'a MarketRequest<'a>, _: KeyedBody) -> MarketFuture<'a, TransactionView> {
    Box::pin(step(ask, TransactionAction::Accept))
}

pub(super) fn reject<'a>(ask: &'a MarketRequest<'a>, body: RejectPurchase) -> MarketFuture<'a, TransactionView> {
    Box::pin(step(ask, TransactionAction::Reject { reason: body.reason.map(Into::into) }))
}

/// Files as a delivery names them.
pub(super) fn files(written: Vec<DeliveredFile>) -> Vec<NamedFile> {
    let named = written.into_iter().map(|file| NamedFile {
        deliverable_id: file.deliverable_id.map(Into::into),
        access_id: file.access_id.map(Into::into),
        file_name: file.file_name.map(Into::into),
    });
    named.collect()
}

pub(super) fn deliver<'a>(ask: &'a MarketRequest<'a>, body: Delivery) -> MarketFuture<'a, TransactionView> {
    Box::pin(async move {
        let id = id(ask)?;
        let mut deliverables = Vec::new();
        if !body.deliverables.is_empty() {
            // Only the parties may learn which files the purchase has.
            ask.market.transaction(&ask.caller()?.actor(), id).await?;
            deliverables = ask.market.named_files(id, files(body.deliverables)).await?;
        }
        step(ask, TransactionAction::Deliver { result: body.result_payload, deliverables }).await
    })
}

pub(super) fn confirm<'a>(ask: &'a MarketRequest<'a>, _: KeyedBody) -> MarketFuture<'a, TransactionView> {
    Box::pin(step(ask, TransactionAction::Confirm))
}

pub(super) fn cancel<'a>(ask: &'a MarketRequest<'a>, _: KeyedBody) -> MarketFuture<'a, TransactionView> {
    Box::pin(step(ask, TransactionAction::Cancel))
}
