//! Figures of the market and of sellers: categories, prices, income; and batches of drafts.

use crate::service::{Anomaly, Income, Once};
use market_rules::Ut;
use market_rules::capability::PricingModel;
use market_rules::transaction::{Role, Status};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::capabilities::{self, NewCapability};
use super::error::{Error, FieldDetail};
use super::routes::{KeyedBody, MarketFuture, MarketRequest};
use super::{Page, names};
use web::openapi::{ParamKind, QueryParam};

/// Maximum number of drafts in a batch.
const MOST: usize = 50;

pub(super) const SUGGESTION: [QueryParam; 2] = [
    QueryParam {
        name: "category",
        description: "What others of this category ask.",
        kind: ParamKind::Text { most: 50 },
    },
    QueryParam {
        name: "pricing_model",
        description: "What others with this price model ask.",
        kind: ParamKind::OneOf(|| names(PricingModel::ALL, PricingModel::name)),
    },
];

pub(super) const ANOMALY: [QueryParam; 4] = [
    QueryParam {
        name: "price_ut",
        description: "The price in question: a decimal number.",
        kind: ParamKind::Text { most: 32 },
    },
    QueryParam {
        name: "capability_id",
        description: "Or that of this capability on the market, among those of its category and price model.",
        kind: ParamKind::Text { most: 200 },
    },
    SUGGESTION[0],
    SUGGESTION[1],
];

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Batch {
    #[schemars(length(min = 1, max = 50))]
    items: Vec<NewCapability>,
    #[allow(dead_code, reason = "read before the rest of the body is")]
    #[serde(default)]
    #[schemars(length(min = 1, max = 255))]
    idempotency_key: Option<String>,
}

/// What became of each, in their order. What was refused keeps nothing else from being made.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct BatchDone {
    items: Vec<BatchItem>,
    succeeded: u32,
    failed: u32,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct BatchItem {
    success: bool,
    capability: Option<capabilities::CapabilityView>,
    error: Option<BatchError>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct BatchError {
    code: u32,
    message: String,
    details: Vec<FieldDetail>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Categories {
    items: Vec<Category>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Category {
    category: String,
    /// How many capabilities it has on the market.
    count: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct PriceSuggestion {
    median_price_ut: String,
    suggested_range_low: String,
    suggested_range_high: String,
    sample_count: u64,
}

/// How a price stands among what others ask for the like.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct PriceCheck {
    price_ut: String,
    is_anomalous: bool,
    /// `unknown` where there are fewer than four to compare with.
    #[schemars(extend("enum" = names(Anomaly::ALL, Anomaly::name)))]
    level: &'static str,
    reason: String,
    median_price_ut: String,
    suggested_range_low: String,
    suggested_range_high: String,
    sample_count: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct CommunityStats {
    capabilities_on_sale: u64,
    transactions: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Income")]
pub(super) struct ShownIncome {
    capability_id: Option<String>,
    sales: u64,
    gross_ut: String,
    commission_ut: String,
    /// What was left after commission.
    income_ut: String,
}

impl ShownIncome {
    fn of(capability: Option<String>, income: &Income) -> ShownIncome {
        ShownIncome {
            capability_id: capability,
            sales: income.sales,
            gross_ut: income.gross.to_string(),
            commission_ut: income.commission.to_string(),
            income_ut: income.net.to_string(),
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct IncomeOverview {
    total: ShownIncome,
    capabilities: Vec<ShownIncome>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct IncomeRecord {
    transaction_id: String,
    capability_id: String,
    buyer_user_id: String,
    gross_ut: String,
    commission_ut: String,
    income_ut: String,
    #[schemars(extend("format" = "date-time"))]
    settled_at: Option<String>,
}

pub(super) fn batch<'a>(ask: &'a MarketRequest<'a>, body: Batch) -> MarketFuture<'a, BatchDone> {
    Box::pin(async move {
        if !(1..=MOST).contains(&body.items.len()) {
            return Err(Error::field("items", format!("must be 1 to {MOST}")));
        }
        let mut done = BatchDone { items: Vec::with_capacity(body.items.len()), succeeded: 0, failed: 0 };
        for (n, item) in body.items.into_iter().enumerate() {
            // Each draft has its own idempotency key: a repeat creates only the missing ones.
            let once = ask.once.clone().map(|once| Once { key: format!("{}#{n}", once.key), ..once });
            let made = match item.try_into() {
                Ok(draft) => ask.market.offer(ask.caller()?, draft, None, once).await.map_err(Error::from),
                Err(refusal) => Err(refusal),
            };
            let item = match made {
                Ok(made) => {
                    done.succeeded += 1;
                    BatchItem { success: true, capability: Some(capabilities::CapabilityView::own(&made)), error: None }
                }
                Err(refusal) => {
                    done.failed += 1;
                    // A server error fails the whole batch.
                    if refusal.code.status >= 500 {
                        return Err(refusal);
                    }
                    let Error { code, message, data, .. } = refusal;
                    let error = Some(BatchError { code: code.number, message, details: data.details });
                    BatchItem { success: false, capability: None, error }
                }
            };
            done.items.push(item);
        }
        Ok(done)
    })
}

pub(super) fn categories<'a>(ask: &'a MarketRequest<'a>, _: KeyedBody) -> MarketFuture<'a, Categories> {
    Box::pin(async move {
        let found = ask.market.categories().await?;
        let items = found.into_iter().map(|(category, count)| Category { category: category.to_string(), count });
        Ok(Categories { items: items.collect() })
    })
}

pub(super) fn suggestion<'a>(ask: &'a MarketRequest<'a>, _: KeyedBody) -> MarketFuture<'a, PriceSuggestion> {
    Box::pin(async move {
        let model = ask.text("pricing_model").and_then(PricingModel::from_name);
        let prices = ask.market.prices(ask.text("category"), model).await?;
        Ok(PriceSuggestion {
            median_price_ut: prices.median.to_string(),
            suggested_range_low: prices.low.to_string(),
            suggested_range_high: prices.high.to_string(),
            sample_count: prices.count,
        })
    })
}

pub(super) fn anomaly<'a>(ask: &'a MarketRequest<'a>, _: KeyedBody) -> MarketFuture<'a, PriceCheck> {
    Box::pin(async move {
        let (mut category, mut model) =
            (ask.text("category").map(str::to_owned), ask.text("pricing_model").and_then(PricingModel::from_name));
        let price = match (ask.text("price_ut"), ask.text("capability_id")) {
            (None, None) => return Err(Error::field("price_ut", "is required, or a capability_id")),
            (Some(_), Some(_)) => {
                return Err(Error::field("capability_id", "has a price of its own: leave price_ut out"));
            }
            (Some(text), None) => match Ut::parse(text) {
                Ok(price) if !price.is_negative() => price,
                Ok(_) => return Err(Error::field("price_ut", "must not be negative")),
                Err(error) => return Err(Error::field("price_ut", error.to_string())),
            },
            (None, Some(id)) => {
                let one = ask.market.capability(None, &id.into()).await?;
                category.get_or_insert_with(|| one.terms.category.to_string());
                model.get_or_insert(one.terms.pricing_model);
                one.terms.price
            }
        };
        let prices = ask.market.prices(category.as_deref(), model).await?;
        let level = prices.anomaly(price);
        let reason = match level {
            Anomaly::Normal => {
                format!("it is in line with {} others, of which half ask {} or less", prices.count, prices.median)
            }
            Anomaly::Low => format!("it is far below what most ask: {} to {}", prices.low, prices.high),
            Anomaly::High => format!("it is far above what most ask: {} to {}", prices.low, prices.high),
            Anomaly::Unknown => format!("there are {} to compare with, which is too few", prices.count),
        };
        Ok(PriceCheck {
            price_ut: price.to_string(),
            is_anomalous: matches!(level, Anomaly::Low | Anomaly::High),
            level: level.name(),
            reason,
            median_price_ut: prices.median.to_string(),
            suggested_range_low: prices.low.to_string(),
            suggested_range_high: prices.high.to_string(),
            sample_count: prices.count,
        })
    })
}

pub(super) fn community<'a>(ask: &'a MarketRequest<'a>, _: KeyedBody) -> MarketFuture<'a, CommunityStats> {
    Box::pin(async move {
        let stats = ask.market.community().await?;
        Ok(CommunityStats { capabilities_on_sale: stats.capabilities, transactions: stats.transactions })
    })
}

pub(super) fn overview<'a>(ask: &'a MarketRequest<'a>, _: KeyedBody) -> MarketFuture<'a, IncomeOverview> {
    Box::pin(async move {
        let earned = ask.market.income(ask.caller()?).await?;
        let total = earned.values().fold(Income::default(), |sum, one| sum.with(one));
        let capabilities = earned.iter().map(|(id, one)| ShownIncome::of(Some(id.to_string()), one)).collect();
        Ok(IncomeOverview { total: ShownIncome::of(None, &total), capabilities })
    })
}

pub(super) fn of_one<'a>(ask: &'a MarketRequest<'a>, _: KeyedBody) -> MarketFuture<'a, ShownIncome> {
    Box::pin(async move {
        let (caller, id) = (ask.caller()?, capabilities::id(ask));
        let earned = ask.market.income(caller).await?.remove(&id);
        let earned = match earned {
            Some(earned) => earned,
            // No sales yet; but the capability must be one of the caller's.
            None => {
                let one = ask.market.capability(Some(caller), &id).await?;
                if one.owner != caller.user {
                    return Err(crate::service::Error::Unknown(crate::service::MarketEntity::Capability).into());
                }
                Income::default()
            }
        };
        Ok(ShownIncome::of(Some(id.to_string()), &earned))
    })
}

pub(super) fn records<'a>(ask: &'a MarketRequest<'a>, _: KeyedBody) -> MarketFuture<'a, Page<IncomeRecord>> {
    Box::pin(async move {
        let (role, status) = (Some(Role::Seller), Some(Status::Settled));
        let sales = ask.market.transactions(ask.caller()?, role, status, ask.paging()).await?;
        Ok(Page::of(sales, |sale| IncomeRecord {
            transaction_id: sale.id.tx(),
            capability_id: sale.capability.to_string(),
            buyer_user_id: sale.buyer.to_string(),
            gross_ut: sale.price.to_string(),
            commission_ut: sale.commission.to_string(),
            income_ut: sale.price.minus(sale.commission).unwrap_or(sale.price).to_string(),
            settled_at: sale.settled_at.map(|at| at.to_string()),
        }))
    })
}
