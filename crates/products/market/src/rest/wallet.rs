//! Wallets and statements: `/wallet`.

use crate::service::StatementLine;
use market_rules::LineKind;
use schemars::JsonSchema;
use serde::Serialize;

use super::Page;
use super::routes::{KeyedBody, MarketFuture, MarketRequest};
use web::openapi::{ParamKind, QueryParam};

pub(super) const STATEMENT: [QueryParam; 1] = [QueryParam {
    name: "type",
    description: "Only lines of this type.",
    kind: ParamKind::OneOf(|| LineKind::ALL.iter().map(|kind| kind.name()).collect()),
}];

/// Decimal strings.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Purse {
    available: String,
    /// Set aside for purchases under way.
    frozen: String,
    total: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Wallet")]
pub(super) struct ShownWallet {
    ut: Purse,
    /// This server keeps no cash: always nothing.
    cash: Purse,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Rates")]
pub(super) struct ExchangeRates {
    /// UT for one unit of the currency.
    cash_to_ut_rate: &'static str,
    /// What one UT is worth, about.
    ut_to_cash_rate: &'static str,
    currency: &'static str,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "WalletStats")]
pub(super) struct ShownStats {
    total_income_ut: String,
    total_spent_ut: String,
    total_recharged_ut: String,
    total_withdrawn_ut: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "WalletLine")]
pub(super) struct ShownLine {
    id: String,
    #[serde(rename = "type")]
    #[schemars(extend("enum" = LineKind::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>()))]
    kind: &'static str,
    amount: String,
    currency: &'static str,
    balance_after: String,
    description: Option<String>,
    /// The transaction it is about.
    biz_ref_id: Option<String>,
    #[schemars(extend("format" = "date-time"))]
    created_at: String,
}

impl From<&StatementLine> for ShownLine {
    fn from(line: &StatementLine) -> ShownLine {
        ShownLine {
            id: line.id.clone(),
            kind: line.kind.name(),
            amount: line.amount.to_string(),
            currency: "UT",
            balance_after: line.balance_after.to_string(),
            description: line.note.as_ref().map(ToString::to_string),
            biz_ref_id: line.transaction.map(market_rules::TransactionId::tx),
            created_at: line.at.to_string(),
        }
    }
}

pub(super) fn wallet<'a>(ask: &'a MarketRequest<'a>, _: KeyedBody) -> MarketFuture<'a, ShownWallet> {
    Box::pin(async move {
        let has = ask.market.wallet(&ask.caller()?.user).await?;
        let total = has.available.plus(has.frozen).unwrap_or(has.available);
        let nothing = || "0".to_owned();
        Ok(ShownWallet {
            ut: Purse {
                available: has.available.to_string(),
                frozen: has.frozen.to_string(),
                total: total.to_string(),
            },
            cash: Purse { available: nothing(), frozen: nothing(), total: nothing() },
        })
    })
}

pub(super) fn rates<'a>(_: &'a MarketRequest<'a>, _: KeyedBody) -> MarketFuture<'a, ExchangeRates> {
    Box::pin(async { Ok(ExchangeRates { cash_to_ut_rate: "10", ut_to_cash_rate: "0.1", currency: "CNY" }) })
}

pub(super) fn stats<'a>(ask: &'a MarketRequest<'a>, _: KeyedBody) -> MarketFuture<'a, ShownStats> {
    Box::pin(async move {
        let stats = ask.market.stats(ask.caller()?).await?;
        Ok(ShownStats {
            total_income_ut: stats.income.to_string(),
            total_spent_ut: stats.spent.to_string(),
            total_recharged_ut: stats.recharged.to_string(),
            total_withdrawn_ut: stats.withdrawn.to_string(),
        })
    })
}

pub(super) fn statement<'a>(ask: &'a MarketRequest<'a>, _: KeyedBody) -> MarketFuture<'a, Page<ShownLine>> {
    Box::pin(async move {
        let kind = ask.text("type").and_then(LineKind::from_name);
        Ok(Page::of(ask.market.statement(ask.caller()?, kind, ask.paging()).await?, |line| ShownLine::from(line)))
    })
}
