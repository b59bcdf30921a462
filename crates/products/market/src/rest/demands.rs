//! Demands and matching: `/demands`.

use market_rules::capability::{CapabilityType, DeliveryMode, PricingModel};
use market_rules::demand::{Clarity, DemandDraft, Fit, Level, Reason, Status};
use market_rules::{Demand, DemandId};
use model::Json;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::capabilities::{self, Amount};
use super::error::Error;
use super::routes::{KeyedBody, MarketFuture, MarketRequest};
use super::{Page, names, printable};
use web::openapi::{ParamKind, QueryParam};

const TOP: u32 = 10;
const MOST: u32 = 50;

pub(super) const LIST: [QueryParam; 3] = [
    QueryParam {
        name: "scope",
        description: "Your own, or everybody's that are open.",
        kind: ParamKind::OneOf(|| vec!["mine", "open"]),
    },
    QueryParam {
        name: "status",
        description: "Of your own, only those that stand here.",
        kind: ParamKind::OneOf(|| names(Status::ALL, Status::name)),
    },
    QueryParam {
        name: "category",
        description: "Of the open ones, only those of this category.",
        kind: ParamKind::Text { most: 50 },
    },
];

pub(super) const TOP_K: [QueryParam; 1] = [QueryParam {
    name: "top_k",
    description: "How many at most.",
    kind: ParamKind::Number { least: 1, most: MOST, usual: Some(TOP) },
}];

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct NewDemand {
    #[schemars(required, length(min = 1, max = 200), regex(pattern = r"\S"))]
    title: Option<String>,
    #[schemars(required, length(min = 1, max = 10_000), regex(pattern = r"\S"))]
    description: Option<String>,
    #[serde(default)]
    #[schemars(length(min = 1, max = 50), regex(pattern = r"\S"))]
    category: Option<String>,
    #[serde(default)]
    #[schemars(extend("enum" = or_null(names(CapabilityType::ALL, CapabilityType::name))))]
    capability_type: Option<String>,
    #[serde(default)]
    #[schemars(extend("enum" = or_null(names(PricingModel::ALL, PricingModel::name))))]
    pricing_model: Option<String>,
    #[serde(default)]
    #[schemars(extend("enum" = or_null(names(DeliveryMode::ALL, DeliveryMode::name))))]
    delivery_mode: Option<String>,
    #[serde(default)]
    #[schemars(length(max = 20))]
    tags: Option<Vec<String>>,
    /// The most it may cost: a decimal string or a number with at most two decimals. Everybody sees it.
    #[serde(default)]
    #[schemars(with = "Option<Amount>")]
    budget_ut: Option<Json>,
    /// How you will tell that it is done.
    #[serde(default)]
    #[schemars(length(min = 1, max = 2_000), regex(pattern = r"\S"))]
    acceptance_criteria: Option<String>,
    #[serde(default)]
    #[schemars(range(min = 1, max = 365))]
    expires_in_days: Option<i64>,
    #[allow(dead_code, reason = "read before the rest of the body is")]
    #[serde(default)]
    #[schemars(length(min = 1, max = 255))]
    idempotency_key: Option<String>,
}

/// The values of an optional enum: these names, or `null`.
fn or_null(names: Vec<&'static str>) -> Vec<Option<&'static str>> {
    names.into_iter().map(Some).chain([None]).collect()
}

impl From<NewDemand> for DemandDraft {
    fn from(new: NewDemand) -> DemandDraft {
        DemandDraft {
            title: new.title,
            description: new.description,
            category: new.category,
            capability_type: new.capability_type,
            pricing_model: new.pricing_model,
            delivery_mode: new.delivery_mode,
            tags: new.tags.unwrap_or_default(),
            budget_ut: new.budget_ut,
            acceptance_criteria: new.acceptance_criteria,
            expires_in_days: new.expires_in_days,
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct MatchRequest {
    #[schemars(length(min = 1, max = 200))]
    demand_id: String,
    /// How many at most.
    #[serde(default)]
    #[schemars(range(min = 1, max = 50))]
    top_k: Option<i64>,
}

/// Which capability is to be compared with the demand of the path.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct AlignmentWith {
    #[schemars(length(min = 1, max = 200))]
    capability_id: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct AlignmentBetween {
    #[schemars(length(min = 1, max = 200))]
    demand_id: String,
    #[schemars(length(min = 1, max = 200))]
    capability_id: String,
}

/// What somebody wants done.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Demand")]
pub(super) struct DemandView {
    id: String,
    user_id: String,
    title: String,
    description: String,
    category: Option<String>,
    #[schemars(extend("enum" = or_null(names(CapabilityType::ALL, CapabilityType::name))))]
    capability_type: Option<&'static str>,
    #[schemars(extend("enum" = or_null(names(PricingModel::ALL, PricingModel::name))))]
    pricing_model: Option<&'static str>,
    #[schemars(extend("enum" = or_null(names(DeliveryMode::ALL, DeliveryMode::name))))]
    delivery_mode: Option<&'static str>,
    tags: Vec<String>,
    budget_ut: Option<String>,
    acceptance_criteria: Option<String>,
    #[schemars(extend("enum" = names(Status::ALL, Status::name)))]
    status: &'static str,
    /// What was bought for it.
    transaction_id: Option<String>,
    #[schemars(extend("format" = "date-time"))]
    expires_at: String,
    #[schemars(extend("format" = "date-time"))]
    created_at: String,
    #[schemars(extend("format" = "date-time"))]
    updated_at: String,
}

impl From<&Demand> for DemandView {
    fn from(one: &Demand) -> DemandView {
        let wants = &one.wants;
        DemandView {
            id: one.id.to_string(),
            user_id: one.owner.to_string(),
            title: wants.title.to_string(),
            description: wants.description.to_string(),
            category: wants.category.as_ref().map(ToString::to_string),
            capability_type: wants.capability_type.map(CapabilityType::name),
            pricing_model: wants.pricing_model.map(PricingModel::name),
            delivery_mode: wants.delivery_mode.map(DeliveryMode::name),
            tags: wants.tags.iter().map(ToString::to_string).collect(),
            budget_ut: wants.budget.map(|budget| budget.to_string()),
            acceptance_criteria: wants.acceptance_criteria.as_ref().map(ToString::to_string),
            status: one.status.name(),
            transaction_id: one.transaction.map(|id| id.tx()),
            expires_at: one.expires_at.to_string(),
            created_at: one.created_at.to_string(),
            updated_at: one.updated_at.to_string(),
        }
    }
}

/// A part of a score.
#[derive(Debug, Serialize, JsonSchema)]
struct ScoreReason {
    criterion: &'static str,
    points: u32,
    /// The most there was to be had.
    max_points: u32,
    detail: String,
}

impl From<&Reason> for ScoreReason {
    fn from(reason: &Reason) -> ScoreReason {
        let Reason { criterion, points, of, detail } = reason;
        ScoreReason { criterion, points: *points, max_points: *of, detail: detail.clone() }
    }
}

/// How clearly a demand is said.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "DemandClarity")]
pub(super) struct ShownClarity {
    demand_id: String,
    /// Of a hundred; the same for the same words.
    #[schemars(range(max = 100))]
    score: u32,
    #[schemars(extend("enum" = names(Level::ALL, Level::name)))]
    level: &'static str,
    reasons: Vec<ScoreReason>,
    /// What would make it clearer, the most first.
    suggestions: Vec<String>,
}

/// How well a capability fits a demand: what the demand leaves open does not count.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Alignment {
    demand_id: String,
    capability_id: String,
    /// Of a hundred; the same for the same two.
    #[schemars(range(max = 100))]
    score: u32,
    /// They have a category, a tag or a word in common.
    related: bool,
    /// `null` where the demand has no budget.
    within_budget: Option<bool>,
    reasons: Vec<ScoreReason>,
}

impl Alignment {
    fn of(demand: &DemandId, capability: &market_rules::CapabilityId, fit: &Fit) -> Alignment {
        Alignment {
            demand_id: demand.to_string(),
            capability_id: capability.to_string(),
            score: fit.score,
            related: fit.related,
            within_budget: fit.within_budget,
            reasons: fit.reasons.iter().map(ScoreReason::from).collect(),
        }
    }
}

/// What is on the market that fits, the best first.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct MatchedCapabilities {
    items: Vec<MatchedCapability>,
    /// How many were looked at: of the same category the newest 1,000, and of all the newest 1,000.
    looked_at: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
struct MatchedCapability {
    capability: capabilities::CapabilityView,
    alignment: Alignment,
}

/// Open demands that a capability fits, the best first.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct MatchedDemands {
    items: Vec<MatchedDemand>,
    /// How many were looked at: of the same category the newest 1,000, and of all the newest 1,000.
    looked_at: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
struct MatchedDemand {
    demand: DemandView,
    alignment: Alignment,
}

fn id(ask: &MarketRequest<'_>) -> DemandId {
    ask.http.id().into()
}

pub(super) fn create<'a>(ask: &'a MarketRequest<'a>, body: NewDemand) -> MarketFuture<'a, DemandView> {
    Box::pin(async move { Ok((&ask.market.want(ask.caller()?, &body.into(), ask.once.clone()).await?).into()) })
}

pub(super) fn list<'a>(ask: &'a MarketRequest<'a>, _: KeyedBody) -> MarketFuture<'a, Page<DemandView>> {
    Box::pin(async move {
        let (caller, paging) = (ask.caller()?, ask.paging());
        let found = match ask.text("scope") {
            Some("open") => ask.market.open_demands(ask.text("category"), paging).await?,
            Some(_) | None => {
                ask.market.my_demands(caller, ask.text("status").and_then(Status::from_name), paging).await?
            }
        };
        Ok(Page::of(found, |one| one.into()))
    })
}

pub(super) fn one<'a>(ask: &'a MarketRequest<'a>, _: KeyedBody) -> MarketFuture<'a, DemandView> {
    Box::pin(async move { Ok((&ask.market.demand(ask.caller()?, &id(ask)).await?).into()) })
}

pub(super) fn cancel<'a>(ask: &'a MarketRequest<'a>, _: KeyedBody) -> MarketFuture<'a, DemandView> {
    Box::pin(async move { Ok((&ask.market.cancel_demand(ask.caller()?, &id(ask), ask.once.clone()).await?).into()) })
}

pub(super) fn clarity<'a>(ask: &'a MarketRequest<'a>, _: KeyedBody) -> MarketFuture<'a, ShownClarity> {
    Box::pin(async move {
        let id = id(ask);
        let clarity: Clarity = ask.market.clarity(ask.caller()?, &id).await?;
        Ok(ShownClarity {
            demand_id: id.to_string(),
            score: clarity.score,
            level: clarity.level.name(),
            reasons: clarity.reasons.iter().map(ScoreReason::from).collect(),
            suggestions: clarity.advice().into_iter().map(str::to_owned).collect(),
        })
    })
}

async fn aligned(ask: &MarketRequest<'_>, demand: &DemandId, capability: &str) -> Result<Alignment, Error> {
    printable("capability_id", Some(capability))?;
    let (demand, capability, fit) = ask.market.alignment(ask.caller()?, demand, &capability.into()).await?;
    Ok(Alignment::of(&demand.id, &capability.id, &fit))
}

pub(super) fn alignment_with<'a>(ask: &'a MarketRequest<'a>, body: AlignmentWith) -> MarketFuture<'a, Alignment> {
    Box::pin(async move { aligned(ask, &id(ask), &body.capability_id).await })
}

pub(super) fn alignment_between<'a>(ask: &'a MarketRequest<'a>, body: AlignmentBetween) -> MarketFuture<'a, Alignment> {
    Box::pin(async move {
        printable("demand_id", Some(&body.demand_id))?;
        aligned(ask, &body.demand_id.as_str().into(), &body.capability_id).await
    })
}

pub(super) fn offers<'a>(ask: &'a MarketRequest<'a>, body: MatchRequest) -> MarketFuture<'a, MatchedCapabilities> {
    Box::pin(async move {
        printable("demand_id", Some(&body.demand_id))?;
        let top = match body.top_k {
            None => TOP,
            Some(top) => u32::try_from(top)
                .ok()
                .filter(|top| (1..=MOST).contains(top))
                .ok_or_else(|| Error::field("top_k", format!("must be a whole number from 1 to {MOST}")))?,
        };
        let demand: DemandId = body.demand_id.as_str().into();
        let found = ask.market.offers_for(ask.caller()?, &demand, top as usize).await?;
        let items = found.items.iter().map(|one| MatchedCapability {
            capability: capabilities::CapabilityView::of(&one.row),
            alignment: Alignment::of(&demand, &one.row.id, &one.fit),
        });
        Ok(MatchedCapabilities { items: items.collect(), looked_at: found.looked_at })
    })
}

pub(super) fn wanting<'a>(ask: &'a MarketRequest<'a>, _: KeyedBody) -> MarketFuture<'a, MatchedDemands> {
    Box::pin(async move {
        let (capability, top) = (capabilities::id(ask), ask.number("top_k").unwrap_or(TOP));
        let found = ask.market.demands_for(ask.caller()?, &capability, top as usize).await?;
        let items = found.items.iter().map(|one| MatchedDemand {
            demand: (&one.row).into(),
            alignment: Alignment::of(&one.row.id, &capability, &one.fit),
        });
        Ok(MatchedDemands { items: items.collect(), looked_at: found.looked_at })
    })
}
