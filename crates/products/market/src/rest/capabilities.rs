//! Capabilities: `/capabilities`.

use crate::service::{Edit, Filter, Paging, Without};
use http::header::CACHE_CONTROL;
use http::{HeaderValue, StatusCode};
use market_rules::capability::{CapabilityAction, CapabilityDraft, CapabilityType, DeliveryMode, PricingModel, Status};
use market_rules::{Capability, CapabilityId, Served, UserId};
use model::Json;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::error::Error;
use super::purchases::TransactionView;
use super::routes::{KeyedBody, MarketFuture, MarketRequest};
use super::{Page, names};
use web::body::Response;
use web::openapi::{ParamKind, QueryParam};
use web::response::private_json;

pub(super) const FILTER: [QueryParam; 4] = [
    QueryParam { name: "category", description: "Only of this category.", kind: ParamKind::Text { most: 50 } },
    QueryParam {
        name: "capability_type",
        description: "Only of this type.",
        kind: ParamKind::OneOf(|| names(CapabilityType::ALL, CapabilityType::name)),
    },
    QueryParam {
        name: "pricing_model",
        description: "Only with this price model.",
        kind: ParamKind::OneOf(|| names(PricingModel::ALL, PricingModel::name)),
    },
    QueryParam {
        name: "keyword",
        description: "Words that must all occur in title, description or tags.",
        kind: ParamKind::Text { most: 200 },
    },
];

pub(super) const MINE: [QueryParam; 1] = [QueryParam {
    name: "status",
    description: "Only those that stand here.",
    kind: ParamKind::OneOf(|| names(Status::ALL, Status::name)),
}];

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct NewCapability {
    #[schemars(required, length(min = 1, max = 200), regex(pattern = r"\S"))]
    title: Option<String>,
    #[schemars(required, length(min = 1, max = 10_000), regex(pattern = r"\S"))]
    description: Option<String>,
    #[schemars(required, length(min = 1, max = 50), regex(pattern = r"\S"))]
    category: Option<String>,
    #[schemars(required, extend("enum" = names(CapabilityType::ALL, CapabilityType::name)))]
    capability_type: Option<String>,
    #[schemars(required, extend("enum" = names(PricingModel::ALL, PricingModel::name)))]
    pricing_model: Option<String>,
    /// A decimal string or a number with at most two decimals; nothing is free.
    #[serde(default)]
    #[schemars(with = "Option<Amount>")]
    price_ut: Option<Json>,
    #[serde(default)]
    #[schemars(length(max = 20))]
    tags: Option<Vec<String>>,
    #[serde(default)]
    delivery_mode: Option<String>,
    /// An order that pays at least this needs no word of yours.
    #[serde(default)]
    #[schemars(with = "Option<Amount>")]
    auto_accept_min_ut: Option<Json>,
    #[serde(default)]
    #[schemars(range(min = 1, max = 4_294_967_295_i64))]
    daily_limit: Option<i64>,
    #[serde(default)]
    #[schemars(range(min = 1, max = 4_294_967_295_i64))]
    rate_limit_per_min: Option<i64>,
    /// Where this server calls for each purchase: a public HTTPS address. Required for `per_query`.
    #[serde(default)]
    #[schemars(length(max = 2_000))]
    callback_url: Option<String>,
    #[serde(default)]
    #[schemars(range(min = 1, max = 300))]
    callback_timeout_sec: Option<i64>,
    /// An agent of this server does the work: one of those the operator lets sellers use.
    #[serde(default)]
    #[schemars(length(min = 1, max = 200))]
    agent: Option<String>,
    /// A program of yours fetches the work at `/agent-runtime`.
    #[serde(default)]
    worker: Option<bool>,
    #[serde(default)]
    available: Option<bool>,
    #[allow(dead_code, reason = "read before the rest of the body is")]
    #[serde(default)]
    #[schemars(length(min = 1, max = 255))]
    idempotency_key: Option<String>,
}

/// The party that does the work, if the request names one. More than one is an error.
fn served(agent: Option<String>, worker: Option<bool>, callback: Option<&str>) -> Result<Option<Served>, Error> {
    let beside = |field: &'static str, other: &str| {
        let detail = format!("is of no use beside {other}: one of them does the work");
        Err(crate::service::Error::from(market_rules::FieldError::new(field, detail)).into())
    };
    match (agent, worker == Some(true), callback) {
        (Some(_), true, _) => beside("worker", "agent"),
        (Some(_), false, Some(_)) => beside("agent", "callback_url"),
        (None, true, Some(_)) => beside("worker", "callback_url"),
        (Some(agent), false, None) => Ok(Some(Served::Agent(agent.into()))),
        (None, true, None) => Ok(Some(Served::Worker)),
        (None, false, _) => Ok(None),
    }
}

impl TryFrom<NewCapability> for CapabilityDraft {
    type Error = super::error::Error;

    fn try_from(new: NewCapability) -> Result<CapabilityDraft, Error> {
        let served = served(new.agent, new.worker, new.callback_url.as_deref())?;
        Ok(CapabilityDraft {
            title: new.title,
            description: new.description,
            category: new.category,
            capability_type: new.capability_type,
            pricing_model: new.pricing_model,
            price_ut: new.price_ut,
            tags: new.tags.unwrap_or_default(),
            delivery_mode: new.delivery_mode,
            auto_accept_min_ut: new.auto_accept_min_ut,
            daily_limit: new.daily_limit,
            rate_limit_per_min: new.rate_limit_per_min,
            callback_url: new.callback_url,
            callback_timeout_sec: new.callback_timeout_sec,
            available: new.available,
            served,
        })
    }
}

/// An amount of UT.
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "only its schema is used: amounts are read by the market's own rules")]
pub(super) enum Amount {
    Text(String),
    Number(f64),
}

/// Other terms. What is left out stays; `null` takes away what a capability need not have.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct CapabilityEdit {
    #[serde(default)]
    #[schemars(length(min = 1, max = 200))]
    title: Option<String>,
    #[serde(default)]
    #[schemars(length(min = 1, max = 10_000))]
    description: Option<String>,
    #[serde(default)]
    #[schemars(length(min = 1, max = 50))]
    category: Option<String>,
    #[serde(default)]
    capability_type: Option<String>,
    #[serde(default)]
    pricing_model: Option<String>,
    #[serde(default)]
    #[schemars(with = "Option<Amount>")]
    price_ut: Option<Json>,
    #[serde(default, deserialize_with = "said")]
    #[schemars(with = "Option<Vec<String>>")]
    tags: Option<Option<Vec<String>>>,
    #[serde(default)]
    delivery_mode: Option<String>,
    #[serde(default, deserialize_with = "said")]
    #[schemars(with = "Option<Amount>")]
    auto_accept_min_ut: Option<Option<Json>>,
    #[serde(default, deserialize_with = "said")]
    #[schemars(with = "Option<i64>")]
    daily_limit: Option<Option<i64>>,
    #[serde(default, deserialize_with = "said")]
    #[schemars(with = "Option<i64>")]
    rate_limit_per_min: Option<Option<i64>>,
    #[serde(default, deserialize_with = "said")]
    #[schemars(with = "Option<String>")]
    callback_url: Option<Option<String>>,
    #[serde(default)]
    callback_timeout_sec: Option<i64>,
    /// An agent of this server does the work from now on: one of those the operator lets sellers use.
    #[serde(default, deserialize_with = "said")]
    #[schemars(with = "Option<String>", length(min = 1, max = 200))]
    agent: Option<Option<String>>,
    /// A program of yours fetches the work at `/agent-runtime` from now on; or no longer.
    #[serde(default)]
    worker: Option<bool>,
    #[serde(default)]
    available: Option<bool>,
    #[allow(dead_code, reason = "read before the rest of the body is")]
    #[serde(default)]
    #[schemars(length(min = 1, max = 255))]
    idempotency_key: Option<String>,
}

/// Distinguishes `null` (`Some(None)`) from an absent member (`None`).
fn said<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(from).map(Some)
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Invocation {
    /// What you want done; the seller gets it as it is.
    #[serde(default)]
    #[schemars(with = "Option<Value>")]
    input: Option<Json>,
    #[allow(dead_code, reason = "read before the rest of the body is")]
    #[serde(default)]
    #[schemars(length(min = 1, max = 255))]
    idempotency_key: Option<String>,
}

/// What is for sale.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Capability")]
pub(super) struct CapabilityView {
    id: String,
    user_id: String,
    title: String,
    description: String,
    category: String,
    #[schemars(extend("enum" = names(CapabilityType::ALL, CapabilityType::name)))]
    capability_type: &'static str,
    #[schemars(extend("enum" = names(PricingModel::ALL, PricingModel::name)))]
    pricing_model: &'static str,
    price_ut: String,
    tags: Vec<String>,
    #[schemars(extend("enum" = names(DeliveryMode::ALL, DeliveryMode::name)))]
    delivery_mode: &'static str,
    auto_accept_min_ut: Option<String>,
    daily_limit: Option<u32>,
    rate_limit_per_min: Option<u32>,
    /// Who does the work: an agent of this server, the seller's callback, its worker, or a person.
    #[schemars(extend("enum" = ["agent", "callback", "worker", "person"]))]
    served_by: &'static str,
    available: bool,
    #[schemars(extend("enum" = names(Status::ALL, Status::name)))]
    status: &'static str,
    #[schemars(extend("format" = "date-time"))]
    created_at: String,
    #[schemars(extend("format" = "date-time"))]
    updated_at: String,
    /// For its owner only.
    #[serde(skip_serializing_if = "Option::is_none")]
    callback_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    callback_timeout_sec: Option<u32>,
    /// Which agent of this server; for its owner only.
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
    /// Why the review refused it.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl CapabilityView {
    /// The public view.
    pub(super) fn of(one: &Capability) -> CapabilityView {
        let terms = &one.terms;
        CapabilityView {
            id: one.id.to_string(),
            user_id: one.owner.to_string(),
            title: terms.title.to_string(),
            description: terms.description.to_string(),
            category: terms.category.to_string(),
            capability_type: terms.capability_type.name(),
            pricing_model: terms.pricing_model.name(),
            price_ut: terms.price.to_string(),
            tags: terms.tags.iter().map(ToString::to_string).collect(),
            delivery_mode: terms.delivery_mode.name(),
            auto_accept_min_ut: terms.auto_accept_min.map(|amount| amount.to_string()),
            daily_limit: terms.daily_limit,
            rate_limit_per_min: terms.rate_limit_per_min,
            served_by: match &terms.served {
                Served::Agent(_) => "agent",
                Served::Callback { .. } => "callback",
                Served::Worker => "worker",
                Served::Person => "person",
            },
            available: terms.available,
            status: one.status.name(),
            created_at: one.created_at.to_string(),
            updated_at: one.updated_at.to_string(),
            callback_url: None,
            callback_timeout_sec: None,
            agent: None,
            reason: None,
        }
    }

    /// The owner's view.
    pub(super) fn own(one: &Capability) -> CapabilityView {
        let (callback_url, callback_timeout_sec, agent) = match &one.terms.served {
            Served::Callback { url, timeout_s } => (Some(url.to_string()), Some(*timeout_s), None),
            Served::Agent(name) => (None, None, Some(name.to_string())),
            Served::Worker | Served::Person => (None, None, None),
        };
        let reason = one.reason.as_ref().map(ToString::to_string);
        CapabilityView { callback_url, callback_timeout_sec, agent, reason, ..CapabilityView::of(one) }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Removed {
    id: String,
    removed: bool,
}

impl Removed {
    pub(super) fn of(id: impl Into<String>) -> Removed {
        Removed { id: id.into(), removed: true }
    }
}

/// What came of a call at once.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Invoked")]
pub(super) struct ShownCall {
    transaction_id: String,
    /// What the seller answered; `null` while a person has yet to say yes.
    #[schemars(with = "Option<Map<String, Value>>")]
    result: Option<Json>,
    /// The price is above what the agent may spend by itself: approve the transaction, then repeat the same request.
    requires_confirmation: bool,
    transaction: TransactionView,
}

pub(super) fn id(ask: &MarketRequest<'_>) -> CapabilityId {
    ask.http.id().into()
}

pub(super) fn create<'a>(ask: &'a MarketRequest<'a>, body: NewCapability) -> MarketFuture<'a, CapabilityView> {
    Box::pin(async move {
        let made = ask.market.offer(ask.caller()?, body.try_into()?, None, ask.once.clone()).await?;
        Ok(CapabilityView::own(&made))
    })
}

pub(super) fn edit<'a>(ask: &'a MarketRequest<'a>, body: CapabilityEdit) -> MarketFuture<'a, CapabilityView> {
    Box::pin(async move {
        let mut without = Vec::new();
        let mut gone = |gone: bool, what: Without| {
            if gone {
                without.push(what);
            }
        };
        gone(body.tags.as_ref().is_some_and(|tags| tags.as_ref().is_none_or(Vec::is_empty)), Without::Tags);
        gone(matches!(body.auto_accept_min_ut, Some(None)), Without::AutoAccept);
        gone(matches!(body.daily_limit, Some(None)), Without::DailyLimit);
        gone(matches!(body.rate_limit_per_min, Some(None)), Without::RateLimit);
        gone(matches!(body.callback_url, Some(None)), Without::Callback);
        gone(matches!(body.agent, Some(None)), Without::Agent);
        gone(body.worker == Some(false), Without::Worker);
        let callback_url = body.callback_url.flatten();
        let served = served(body.agent.flatten(), body.worker, callback_url.as_deref())?;
        let draft = CapabilityDraft {
            title: body.title,
            description: body.description,
            category: body.category,
            capability_type: body.capability_type,
            pricing_model: body.pricing_model,
            price_ut: body.price_ut,
            tags: body.tags.flatten().unwrap_or_default(),
            delivery_mode: body.delivery_mode,
            auto_accept_min_ut: body.auto_accept_min_ut.flatten(),
            daily_limit: body.daily_limit.flatten(),
            rate_limit_per_min: body.rate_limit_per_min.flatten(),
            callback_url,
            callback_timeout_sec: body.callback_timeout_sec,
            available: body.available,
            served,
        };
        let edit = Edit { draft, without };
        let after = ask.market.edit_capability(ask.caller()?, &id(ask), edit, ask.once.clone()).await?;
        Ok(CapabilityView::own(&after))
    })
}

pub(super) fn list<'a>(ask: &'a MarketRequest<'a>, _: KeyedBody) -> MarketFuture<'a, Page<CapabilityView>> {
    Box::pin(async move {
        let filter = Filter {
            category: ask.text("category").map(Into::into),
            capability_type: ask.text("capability_type").and_then(CapabilityType::from_name),
            pricing_model: ask.text("pricing_model").and_then(PricingModel::from_name),
            words: ask.text("keyword").map(str::to_owned),
        };
        Ok(Page::of(ask.market.on_sale(&filter, ask.paging()).await?, CapabilityView::of))
    })
}

pub(super) fn mine<'a>(ask: &'a MarketRequest<'a>, _: KeyedBody) -> MarketFuture<'a, Page<CapabilityView>> {
    Box::pin(async move {
        let status = ask.text("status").and_then(Status::from_name);
        Ok(Page::of(ask.market.my_capabilities(ask.caller()?, status, ask.paging()).await?, CapabilityView::own))
    })
}

pub(super) fn one<'a>(ask: &'a MarketRequest<'a>, _: KeyedBody) -> MarketFuture<'a, CapabilityView> {
    Box::pin(async move {
        let one = ask.market.capability(ask.caller.as_ref(), &id(ask)).await?;
        let own = ask.caller.as_ref().is_some_and(|caller| caller.user == one.owner);
        Ok(if own { CapabilityView::own(&one) } else { CapabilityView::of(&one) })
    })
}

async fn change(ask: &MarketRequest<'_>, action: CapabilityAction) -> Result<Option<Capability>, Error> {
    let actor = ask.caller()?.actor();
    Ok(ask.market.change_capability(&actor, &id(ask), action, ask.once.clone()).await?)
}

async fn changed(ask: &MarketRequest<'_>, action: CapabilityAction) -> Result<CapabilityView, Error> {
    let after =
        change(ask, action).await?.ok_or(crate::service::Error::Unknown(crate::service::MarketEntity::Capability))?;
    Ok(CapabilityView::own(&after))
}

pub(super) fn submit<'a>(ask: &'a MarketRequest<'a>, _: KeyedBody) -> MarketFuture<'a, CapabilityView> {
    Box::pin(changed(ask, CapabilityAction::Submit))
}

pub(super) fn online<'a>(ask: &'a MarketRequest<'a>, _: KeyedBody) -> MarketFuture<'a, CapabilityView> {
    Box::pin(changed(ask, CapabilityAction::Online))
}

pub(super) fn offline<'a>(ask: &'a MarketRequest<'a>, _: KeyedBody) -> MarketFuture<'a, CapabilityView> {
    Box::pin(changed(ask, CapabilityAction::Offline))
}

pub(super) fn remove<'a>(ask: &'a MarketRequest<'a>, _: KeyedBody) -> MarketFuture<'a, Removed> {
    Box::pin(async move {
        change(ask, CapabilityAction::Remove).await?;
        Ok(Removed::of(id(ask).to_string()))
    })
}

pub(super) fn invoke<'a>(ask: &'a MarketRequest<'a>, body: Invocation) -> MarketFuture<'a, ShownCall> {
    Box::pin(async move {
        let invoked = ask.market.invoke(ask.caller()?, &id(ask), body.input, ask.once.clone()).await?;
        let row = &invoked.transaction;
        Ok(ShownCall {
            transaction_id: row.id.tx(),
            result: row.result.clone(),
            requires_confirmation: row.awaits_approval(),
            transaction: TransactionView::from(row),
        })
    })
}

/// Maximum number of capabilities on a seller's card.
const ON_CARD: Paging = Paging { page: 1, size: 100 };

/// The agent card of a seller.
pub(super) fn card<'a>(ask: &'a MarketRequest<'a>) -> MarketFuture<'a, Response> {
    Box::pin(async move {
        let user = UserId::from(ask.http.id());
        let known =
            ask.market.user(&user).await?.ok_or(crate::service::Error::Unknown(crate::service::MarketEntity::User))?;
        let sold = ask.market.sold_by(&known.id, ON_CARD).await?;
        let url = format!("{}/uumit/a2a", ask.base());
        let mut response =
            private_json(StatusCode::OK, bytes::Bytes::from(crate::uumit::card::seller(&url, &known.id, &sold.items)));
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        Ok(response)
    })
}
