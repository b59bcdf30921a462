//! Capabilities: terms and price, the kind of seller that serves them, and the states from draft to market. A seller's
//! input is a [`CapabilityDraft`].

use std::sync::Arc;

use model::Time;
use serde::{Deserialize, Serialize};

use crate::{Actor, CapabilityId};
use ledger::{UserId, Ut};

mod draft;

pub(crate) use draft::FieldErrors;
pub use draft::{CapabilityDraft, called_at};

pub const MAX_REASON: usize = 500;
/// A leap year; longer bookings are refused.
pub const MAX_HOURS: i64 = 8_784;

/// Declares an enum whose members have one name each, on wires and in stores.
macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $text)] $variant),+ }

        impl $name {
            pub const ALL: &'static [$name] = &[$($name::$variant),+];
            pub fn name(self) -> &'static str {
                match self { $($name::$variant => $text),+ }
            }
            pub fn from_name(name: &str) -> Option<$name> {
                $name::ALL.iter().copied().find(|known| known.name() == name)
            }
        }
    };
}
pub(crate) use named;

named!(CapabilityType {
    Data = "data",
    Compute = "compute",
    Service = "service",
    Tool = "tool",
    AccountSharing = "account_sharing",
    Knowledge = "knowledge",
    Api = "api",
    Workflow = "workflow",
});
named!(
    /// The unit that a price is for. A transaction's type is its capability's pricing model.
    PricingModel {
        PerUse = "per_use",
        PerQuery = "per_query",
        PerHour = "per_hour",
        PerDay = "per_day",
        Subscription = "subscription",
    }
);
named!(DeliveryMode { Instant = "instant", Async = "async" });
named!(Status {
    Draft = "draft",
    PendingReview = "pending_review",
    /// On the market.
    Active = "active",
    /// Refused by the review; may be changed and submitted again.
    Rejected = "rejected",
    Offline = "offline",
});

/// The party that does the work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Served {
    /// An agent of this server: a purchase runs a turn.
    Agent(Arc<str>),
    /// The seller's endpoint, called with a signature.
    Callback { url: Arc<str>, timeout_s: u32 },
    /// A program of the seller that fetches work.
    Worker,
    /// A person, through REST.
    Person,
}

impl Served {
    /// Whether the platform accepts and delivers in the seller's name.
    pub fn by_machine(&self) -> bool {
        match self {
            Served::Agent(_) | Served::Callback { .. } | Served::Worker => true,
            Served::Person => false,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capability {
    pub tenant: Arc<str>,
    pub id: CapabilityId,
    pub owner: UserId,
    pub terms: CapabilityTerms,
    pub status: Status,
    /// The review's reason for a refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Arc<str>>,
    /// Taken down by the platform; only the platform puts it back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub barred: bool,
    pub created_at: Time,
    pub updated_at: Time,
    /// Grows with every change; 1 is the first.
    pub version: u64,
}

/// A seller's description of a capability, after validation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapabilityTerms {
    pub title: Arc<str>,
    pub description: Arc<str>,
    pub category: Arc<str>,
    pub capability_type: CapabilityType,
    pub pricing_model: PricingModel,
    pub price: Ut,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Arc<str>>,
    pub delivery_mode: DeliveryMode,
    /// The platform accepts a purchase of at least this price for the seller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_accept_min: Option<Ut>,
    /// Purchases a day (UTC).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub daily_limit: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limit_per_min: Option<u32>,
    pub served: Served,
    pub available: bool,
}

/// The fault of one field. `detail` continues the field's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {detail}")]
pub struct FieldError {
    pub field: &'static str,
    pub detail: String,
}

impl FieldError {
    pub fn new(field: &'static str, detail: impl Into<String>) -> FieldError {
        FieldError { field, detail: detail.into() }
    }
}

/// Settings of the market for capabilities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CapabilityRules {
    /// A reviewer approves each capability before it is on the market, and again when its promises have changed.
    pub review: bool,
    /// Callbacks may use plain HTTP and private addresses; for tests and demos.
    pub private_callbacks: bool,
}

/// An action on a capability.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CapabilityAction {
    Edit(Box<CapabilityTerms>),
    Submit,
    Approve,
    Refuse { reason: Arc<str> },
    Offline,
    Online,
    Remove,
}

named!(Verb {
    Edit = "edit",
    Submit = "submit",
    Approve = "approve",
    Refuse = "refuse",
    Offline = "take offline",
    Online = "bring online",
    Remove = "remove",
});

impl CapabilityAction {
    pub fn verb(&self) -> Verb {
        match self {
            CapabilityAction::Edit(_) => Verb::Edit,
            CapabilityAction::Submit => Verb::Submit,
            CapabilityAction::Approve => Verb::Approve,
            CapabilityAction::Refuse { .. } => Verb::Refuse,
            CapabilityAction::Offline => Verb::Offline,
            CapabilityAction::Online => Verb::Online,
            CapabilityAction::Remove => Verb::Remove,
        }
    }
}

/// Reasons for refusing an action on a capability.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("only its owner may {} this capability", .0.name())]
    NotOwner(Verb),
    #[error("only the platform may {} this capability", .0.name())]
    NotPlatform(Verb),
    #[error("a capability that is {} cannot be changed this way: {}", .status.name(), .verb.name())]
    WrongState { verb: Verb, status: Status },
    #[error("{0}")]
    Invalid(FieldError),
}

/// The result of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum After {
    Kept(Box<Capability>),
    Removed,
}

impl Capability {
    /// A new capability, as a draft of its owner.
    pub fn new(tenant: &Arc<str>, id: CapabilityId, owner: UserId, terms: CapabilityTerms, now: Time) -> Capability {
        Capability {
            tenant: tenant.clone(),
            id,
            owner,
            terms,
            status: Status::Draft,
            reason: None,
            barred: false,
            created_at: now,
            updated_at: now,
            version: 1,
        }
    }

    /// Performs an action if the actor may do it now. Open purchases are not affected: each has its own copy of the
    /// terms.
    pub fn step(
        &self,
        actor: &Actor,
        action: CapabilityAction,
        now: Time,
        rules: &CapabilityRules,
    ) -> Result<After, Error> {
        let verb = action.verb();
        let (owner, platform) = (actor.is(&self.tenant, &self.owner), *actor == Actor::Platform);
        match verb {
            Verb::Edit | Verb::Submit if !owner => return Err(Error::NotOwner(verb)),
            Verb::Offline | Verb::Online | Verb::Remove if !owner && !platform => return Err(Error::NotOwner(verb)),
            Verb::Approve | Verb::Refuse if !platform => return Err(Error::NotPlatform(verb)),
            Verb::Online if self.barred && !platform => return Err(Error::NotPlatform(verb)),
            Verb::Edit | Verb::Submit | Verb::Approve | Verb::Refuse | Verb::Offline | Verb::Online | Verb::Remove => {}
        }
        let mut next = self.clone();
        next.status = match (&action, self.status) {
            (CapabilityAction::Remove, _) => return Ok(After::Removed),
            (CapabilityAction::Edit(terms), Status::Draft | Status::Rejected) => {
                next.terms = (**terms).clone();
                Status::Draft
            }
            (CapabilityAction::Edit(terms), Status::Active | Status::Offline) => {
                let again = rules.review && self.terms.promises_other_than(terms);
                next.terms = (**terms).clone();
                if again { Status::Draft } else { self.status }
            }
            (CapabilityAction::Submit, Status::Draft | Status::Rejected) if rules.review || self.barred => {
                Status::PendingReview
            }
            (CapabilityAction::Submit, Status::Draft | Status::Rejected) => Status::Active,
            (CapabilityAction::Approve, Status::PendingReview) => {
                next.barred = false;
                Status::Active
            }
            (CapabilityAction::Refuse { reason }, Status::PendingReview) => {
                if reason.chars().count() > MAX_REASON {
                    let detail = format!("must have at most {MAX_REASON} characters");
                    return Err(Error::Invalid(FieldError::new("reason", detail)));
                }
                next.reason = Some(reason.clone());
                Status::Rejected
            }
            (CapabilityAction::Offline, Status::Active) => {
                next.barred = platform;
                Status::Offline
            }
            // The platform can also take down a capability that its owner has already withdrawn.
            (CapabilityAction::Offline, Status::Offline) if platform => {
                next.barred = true;
                Status::Offline
            }
            (CapabilityAction::Online, Status::Offline) => {
                next.barred = false;
                Status::Active
            }
            (
                CapabilityAction::Edit(_)
                | CapabilityAction::Submit
                | CapabilityAction::Approve
                | CapabilityAction::Refuse { .. }
                | CapabilityAction::Offline
                | CapabilityAction::Online,
                status,
            ) => return Err(Error::WrongState { verb, status }),
        };
        if next.status != Status::Rejected {
            next.reason = None;
        }
        next.version = self.version.saturating_add(1);
        next.updated_at = Time(now.0.max(self.updated_at.0.saturating_add(1)));
        Ok(After::Kept(Box::new(next)))
    }

    /// Whether it can be bought now.
    pub fn is_on_sale(&self) -> bool {
        self.status == Status::Active && self.terms.available
    }
}

impl CapabilityTerms {
    /// The price of one purchase. Hours count only where the price is per hour.
    pub fn price_for(&self, booked_hours: Option<i64>) -> Result<Ut, FieldError> {
        match self.pricing_model {
            PricingModel::PerUse | PricingModel::PerQuery | PricingModel::PerDay | PricingModel::Subscription => {
                Ok(self.price)
            }
            PricingModel::PerHour => {
                let wrong = |detail: String| FieldError::new("booked_hours", detail);
                let hours = booked_hours.ok_or_else(|| wrong("is required for a price per hour".to_owned()))?;
                if !(1..=MAX_HOURS).contains(&hours) {
                    return Err(wrong(format!("must be between 1 and {MAX_HOURS}")));
                }
                let price = self.price.times(hours).filter(|price| *price <= Ut::MOST);
                price.ok_or_else(|| wrong("make the price too large".to_owned()))
            }
        }
    }

    /// Whether it has a limit of sales.
    pub fn is_limited(&self) -> bool {
        self.daily_limit.is_some() || self.rate_limit_per_min.is_some()
    }

    /// Whether the seller accepts a purchase of this price in advance.
    pub fn accepts_by_itself(&self, price: Ut) -> bool {
        self.served.by_machine() || self.auto_accept_min.is_some_and(|least| price >= least)
    }

    /// Whether these terms promise something else, so that a review is needed again. Price and limits may change
    /// freely.
    fn promises_other_than(&self, new: &CapabilityTerms) -> bool {
        let price_and_limits = CapabilityTerms {
            price: self.price,
            auto_accept_min: self.auto_accept_min,
            daily_limit: self.daily_limit,
            rate_limit_per_min: self.rate_limit_per_min,
            available: self.available,
            ..new.clone()
        };
        price_and_limits != *self
    }
}

#[cfg(test)]
#[path = "capability_tests.rs"]
mod tests;
