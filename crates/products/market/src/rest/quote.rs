//! Quotes: `/capability-runtime/quote`.

use market_rules::autonomy::Risk;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::routes::{MarketFuture, MarketRequest};
use super::{names, printable};

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct QuoteRequest {
    #[schemars(length(min = 1, max = 200))]
    capability_id: String,
    /// For a price per hour, how many.
    #[serde(default)]
    #[schemars(range(min = 1, max = 8784))]
    booked_hours: Option<i64>,
}

/// What a purchase would be now.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Quote")]
pub(super) struct ShownQuote {
    capability_id: String,
    /// Your agents may not buy it by themselves.
    requires_confirmation: bool,
    /// Why they may not.
    reason: Option<String>,
    estimated_cost_ut: String,
    balance_ut: String,
    #[schemars(extend("enum" = names(&Risk::ALL, Risk::name)))]
    risk_level: &'static str,
    /// What a person has to say yes to, where one has to.
    confirmation: Option<Asked>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "QuoteConfirmation")]
struct Asked {
    /// The yes, for a person who has logged in: an agent orders or approves with it, once. `null` for agents.
    confirm_token: Option<String>,
    /// Until when the token is good.
    #[schemars(extend("format" = "date-time"))]
    expires_at: Option<String>,
    human_summary: String,
    estimated_cost_ut: String,
    balance_ut: String,
    /// What to do with it.
    next_step: &'static str,
}

/// Logs do not show the token.
impl std::fmt::Debug for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Asked({})", self.human_summary)
    }
}

pub(super) fn ask<'a>(ask: &'a MarketRequest<'a>, body: QuoteRequest) -> MarketFuture<'a, ShownQuote> {
    Box::pin(async move {
        printable("capability_id", Some(&body.capability_id))?;
        let quote = ask.market.quote(ask.caller()?, &body.capability_id.as_str().into(), body.booked_hours).await?;
        let (cost, balance) = (quote.fee.to_string(), quote.balance.to_string());
        let (confirm_token, expires_at) = match quote.token {
            Some(token) => (Some(token.text), Some(token.until.to_string())),
            None => (None, None),
        };
        let next_step = match confirm_token {
            Some(_) => {
                "if you agree, give confirm_token to your agent: it sends it with its order, or approves the order that \
                 waits with it"
            }
            None => {
                "ask a person: logged in, it gets a confirm_token here; or order without one, and the person approves \
                 at /transactions/{id}/approve"
            }
        };
        let confirmation = quote.asks.map(|_| Asked {
            confirm_token,
            expires_at,
            human_summary: quote.summary,
            estimated_cost_ut: cost.clone(),
            balance_ut: balance.clone(),
            next_step,
        });
        Ok(ShownQuote {
            capability_id: quote.capability.to_string(),
            requires_confirmation: quote.asks.is_some(),
            reason: quote.asks.map(|because| because.to_string()),
            estimated_cost_ut: cost,
            balance_ut: balance,
            risk_level: quote.risk.name(),
            confirmation,
        })
    })
}
