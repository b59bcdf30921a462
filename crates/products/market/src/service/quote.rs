//! Quotes: the price of a capability, whether an agent may buy it by itself, and a person's confirmation in advance.

use ledger::Ut;
use market_rules::autonomy::{self, Because, Decision, Question, Risk, TOKEN_MS};
use market_rules::{Capability, CapabilityId, Via};
use model::Time;

use crate::service::records;
use crate::service::{Error, Market, MarketCaller, MarketEntity, accounts};

/// The terms of a purchase as of now.
#[derive(Clone, PartialEq, Eq)]
pub struct Quote {
    pub capability: CapabilityId,
    pub fee: Ut,
    /// The caller's balance.
    pub balance: Ut,
    pub risk: Risk,
    /// The reason why an agent needs a confirmation, if it does.
    pub asks: Option<Because>,
    /// The text that a person confirms.
    pub summary: String,
    /// The confirmation token, with which an agent orders or approves its order. It is issued only where a confirmation
    /// is needed, and only to a person: an agent could otherwise confirm its own order.
    pub token: Option<Token>,
}

#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    pub text: String,
    pub until: Time,
}

/// Logs do not show the token.
impl std::fmt::Debug for Quote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Quote({})", self.summary)
    }
}

impl Market {
    /// The price of a capability for the caller, and whether the caller's agents may buy it by themselves.
    pub async fn quote(
        &self,
        caller: &MarketCaller,
        id: &CapabilityId,
        booked_hours: Option<i64>,
    ) -> Result<Quote, Error> {
        let now = self.now();
        let offer = self.read_capability(id).await?.filter(Capability::is_on_sale);
        let offer = offer.ok_or(Error::Unknown(MarketEntity::Capability))?;
        if caller.actor().is(&offer.tenant, &offer.owner) {
            return Err(market_rules::Error::OwnCapability.into());
        }
        let question = Question {
            tenant: caller.tenant.clone(),
            caller: caller.user.clone(),
            capability: offer.id.clone(),
            fee: offer.terms.price_for(booked_hours)?,
        };
        let key = records::spent_key(&caller.tenant, &caller.user, autonomy::day(now));
        let spent = self.read(records::SPENDING, key).await?.map_or(Ut::ZERO, |(spent, _)| spent.sum);
        let risk = Risk::of(offer.terms.capability_type, question.fee, &caller.limits);
        let asks = match autonomy::decide(&caller.limits, spent, question.fee, risk) {
            Decision::Ask(because) => Some(because),
            Decision::Alone => None,
        };
        let balance = self.wallet(&caller.user).await?.available;
        let token = match (caller.via, asks) {
            (Via::Person, Some(_)) => {
                let text = self.shared.secrets.confirm.issue(&question, accounts::draw()?, now);
                Some(Token { text, until: now.plus_ms(TOKEN_MS) })
            }
            (Via::Person, None) | (Via::Agent, _) => None,
        };
        let summary = question.summary(&offer.terms.title, balance);
        Ok(Quote { capability: offer.id, fee: question.fee, balance, risk, asks, summary, token })
    }
}
