//! Demands: a buyer's description of wanted work. A demand is open until a purchase is made for it, its owner cancels
//! it, or it expires. The clarity of a demand and the match of an offer are scores with reasons: see [`Clarity`] and
//! [`fit()`].

use std::sync::Arc;

use model::{Json, Time};
use serde::{Deserialize, Serialize};

use crate::capability::{CapabilityType, DeliveryMode, FieldError, FieldErrors, PricingModel, named};
use crate::{Actor, DemandId};
use ledger::{TransactionId, UserId, Ut};

mod clarity;
mod matching;
mod terms;

pub use clarity::{Clarity, Level};
pub use matching::{DemandWords, Fit, Offered, fit};

const MAX_TITLE: usize = 200;
const MAX_DESCRIPTION: usize = 10_000;
const MAX_CATEGORY: usize = 50;
const MAX_CRITERIA: usize = 2_000;
const EXPIRES_IN_DAYS: u32 = 30;
const MAX_EXPIRES_IN_DAYS: i64 = 365;
const DAY_MS: u64 = 86_400_000;

named!(
    /// Status of a demand.
    Status {
        Open = "open",
        /// A purchase was made for it.
        Matched = "matched",
        Cancelled = "cancelled",
        Expired = "expired",
    }
);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Demand {
    pub tenant: Arc<str>,
    pub id: DemandId,
    pub owner: UserId,
    pub wants: DemandSpec,
    pub status: Status,
    /// The purchase that was made for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transaction: Option<TransactionId>,
    pub expires_at: Time,
    pub created_at: Time,
    pub updated_at: Time,
    /// Grows with every change; 1 is the first.
    pub version: u64,
}

/// A buyer's description of the wanted work, after validation. An absent field is left to the seller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DemandSpec {
    pub title: Arc<str>,
    pub description: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability_type: Option<CapabilityType>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pricing_model: Option<PricingModel>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery_mode: Option<DeliveryMode>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Arc<str>>,
    /// The most it may cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Ut>,
    /// Criteria by which the buyer accepts the work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acceptance_criteria: Option<Arc<str>>,
}

/// A buyer's input before validation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DemandDraft {
    pub title: Option<String>,
    pub description: Option<String>,
    pub category: Option<String>,
    pub capability_type: Option<String>,
    pub pricing_model: Option<String>,
    pub delivery_mode: Option<String>,
    pub tags: Vec<String>,
    /// A JSON number or a decimal string.
    pub budget_ut: Option<Json>,
    pub acceptance_criteria: Option<String>,
    pub expires_in_days: Option<i64>,
}

impl DemandDraft {
    /// Validates the draft: the wanted work and its expiry, or the errors of all wrong fields.
    pub fn check(&self, now: Time) -> Result<(DemandSpec, Time), Vec<FieldError>> {
        let mut wrong = FieldErrors(Vec::new());
        let title = wrong.text("title", self.title.as_deref(), MAX_TITLE);
        let description = wrong.text("description", self.description.as_deref(), MAX_DESCRIPTION);
        let mut maybe = |field, text: Option<&String>, most| text.and_then(|text| wrong.text(field, Some(text), most));
        let category = maybe("category", self.category.as_ref(), MAX_CATEGORY);
        let acceptance_criteria = maybe("acceptance_criteria", self.acceptance_criteria.as_ref(), MAX_CRITERIA);
        let capability_type = self
            .capability_type
            .as_deref()
            .and_then(|text| wrong.one_of("capability_type", Some(text), CapabilityType::ALL, CapabilityType::name));
        let pricing_model = self
            .pricing_model
            .as_deref()
            .and_then(|text| wrong.one_of("pricing_model", Some(text), PricingModel::ALL, PricingModel::name));
        let delivery_mode = self
            .delivery_mode
            .as_deref()
            .and_then(|text| wrong.one_of("delivery_mode", Some(text), DeliveryMode::ALL, DeliveryMode::name));
        let tags = wrong.tags(&self.tags);
        let budget = wrong.amount("budget_ut", self.budget_ut.as_ref());
        let days = wrong.count("expires_in_days", self.expires_in_days, MAX_EXPIRES_IN_DAYS);
        match (title, description) {
            (Some(title), Some(description)) if wrong.0.is_empty() => {
                let wants = DemandSpec {
                    title,
                    description,
                    category,
                    capability_type,
                    pricing_model,
                    delivery_mode,
                    tags,
                    budget,
                    acceptance_criteria,
                };
                Ok((wants, now.plus_ms(u64::from(days.unwrap_or(EXPIRES_IN_DAYS)) * DAY_MS)))
            }
            (Some(_) | None, Some(_) | None) => Err(wrong.0),
        }
    }
}

/// An action on a demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DemandAction {
    Cancel,
    /// Its owner has ordered a capability for it.
    Match(TransactionId),
    /// The purchase for it has ended without a sale.
    Reopen(TransactionId),
    /// Its expiry has passed.
    Expire,
}

named!(Verb { Cancel = "cancel", Match = "match", Reopen = "reopen", Expire = "expire" });

impl DemandAction {
    pub fn verb(self) -> Verb {
        match self {
            DemandAction::Cancel => Verb::Cancel,
            DemandAction::Match(_) => Verb::Match,
            DemandAction::Reopen(_) => Verb::Reopen,
            DemandAction::Expire => Verb::Expire,
        }
    }
}

/// Reasons for refusing an action on a demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("only its owner may do this with a demand")]
    NotOwner,
    #[error("a demand that is {} is no longer open", .0.name())]
    NotOpen(Status),
    #[error("this demand cannot {} while it is {}", .verb.name(), .status.name())]
    WrongState { verb: Verb, status: Status },
}

impl Demand {
    pub fn new(
        tenant: &Arc<str>,
        id: DemandId,
        owner: UserId,
        (wants, expires_at): (DemandSpec, Time),
        now: Time,
    ) -> Demand {
        Demand {
            tenant: tenant.clone(),
            id,
            owner,
            wants,
            status: Status::Open,
            transaction: None,
            expires_at,
            created_at: now,
            updated_at: now,
            version: 1,
        }
    }

    /// The status at that time: a demand is not open after its expiry, even if the sweep has not recorded that yet.
    pub fn standing(&self, now: Time) -> Status {
        match self.status {
            Status::Open if self.expires_at <= now => Status::Expired,
            status @ (Status::Open | Status::Matched | Status::Cancelled | Status::Expired) => status,
        }
    }

    /// Performs an action if the actor may do it now.
    pub fn step(&self, actor: &Actor, action: DemandAction, now: Time) -> Result<Demand, Error> {
        let verb = action.verb();
        let owner = actor.is(&self.tenant, &self.owner);
        let allowed = match verb {
            Verb::Cancel | Verb::Match => owner,
            Verb::Reopen | Verb::Expire => *actor == Actor::Platform,
        };
        if !allowed {
            return Err(Error::NotOwner);
        }
        let mut next = self.clone();
        next.status = match (action, self.standing(now)) {
            (DemandAction::Cancel, Status::Open) => Status::Cancelled,
            (DemandAction::Match(transaction), Status::Open) => {
                next.transaction = Some(transaction);
                Status::Matched
            }
            (DemandAction::Reopen(transaction), Status::Matched) if self.transaction == Some(transaction) => {
                next.transaction = None;
                if self.expires_at <= now { Status::Expired } else { Status::Open }
            }
            (DemandAction::Expire, Status::Expired) if self.status == Status::Open => Status::Expired,
            (
                DemandAction::Cancel | DemandAction::Match(_),
                status @ (Status::Matched | Status::Cancelled | Status::Expired),
            ) => {
                return Err(Error::NotOpen(status));
            }
            (
                DemandAction::Reopen(_) | DemandAction::Expire,
                status @ (Status::Open | Status::Matched | Status::Cancelled | Status::Expired),
            ) => return Err(Error::WrongState { verb, status }),
        };
        next.updated_at = now.max(self.updated_at);
        next.version = self.version.saturating_add(1);
        Ok(next)
    }
}

/// A part of a score: points, their maximum, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    pub criterion: &'static str,
    pub points: u32,
    pub of: u32,
    pub detail: String,
}

impl Reason {
    fn new(criterion: &'static str, points: u32, of: u32, detail: impl Into<String>) -> Reason {
        Reason { criterion, points: points.min(of), of, detail: detail.into() }
    }
}

/// The score of the reasons, out of a hundred; zero without reasons.
fn score(reasons: &[Reason]) -> u32 {
    let sum = |part: fn(&Reason) -> u32| reasons.iter().map(part).sum::<u32>();
    let (points, of) = (sum(|reason| reason.points), sum(|reason| reason.of));
    (points * 100 + of / 2).checked_div(of).unwrap_or_default()
}

#[cfg(test)]
#[path = "demand_tests.rs"]
mod tests;
