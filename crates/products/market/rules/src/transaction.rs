//! A purchase and its state machine.
//!
//! ```text
//! create ─► pending_freeze ─freeze─► frozen ─accept─► accepted ─deliver─► delivered ─confirm─► settled
//!                │ cancel              │ cancel, reject   │ fail               (or the confirm deadline)
//!                ▼                     ▼ fail, deadline   ▼ deadline
//!        cancelled_by_buyer    …, rejected_by_seller, failed
//! ```
//!
//! [`Transaction::create`] and [`Transaction::step`] are the only transitions. Each returns all changes that belong
//! together as one [`TransactionStep`]; nothing has happened until a store has committed it. A deadline takes effect
//! when its timer fires: an action that comes after the deadline but before the timer is valid.

use std::sync::Arc;

use model::{ContextId, Json, State, Time};
use serde::{Deserialize, Serialize};

use crate::autonomy::{self, Confirmation, Confirmed, Mark, Spend};
use crate::capability::{PricingModel, Served, named};
use crate::precondition::Precondition;
use crate::{Actor, CapabilityId, Sales, Via};
use ledger::{EntryError, Hold, HoldEnd, LedgerEntry, Rate, Share, TransactionId, UserId, Ut};

mod step;

pub const MAX_DELIVERABLES: usize = 64;
/// Maximum length of a deliverable's ids and name.
pub const MAX_NAME: usize = 255;
pub const MAX_REASON: usize = 500;
/// Maximum length of a demand's id and of a context's id.
pub const MAX_ID: usize = 200;

named!(
    /// Status of a purchase.
    Status {
        /// Ordered; no money has moved.
        PendingFreeze = "pending_freeze",
        /// The buyer's money is held; the seller acts next.
        Frozen = "frozen",
        Accepted = "accepted",
        /// The buyer acts next.
        Delivered = "delivered",
        Settled = "settled",
        CancelledByBuyer = "cancelled_by_buyer",
        RejectedBySeller = "rejected_by_seller",
        Failed = "failed",
    }
);

impl Status {
    pub fn is_terminal(self) -> bool {
        match self {
            Status::Settled | Status::CancelledByBuyer | Status::RejectedBySeller | Status::Failed => true,
            Status::PendingFreeze | Status::Frozen | Status::Accepted | Status::Delivered => false,
        }
    }
    /// Whether the buyer's money is held.
    pub fn holds_money(self) -> bool {
        match self {
            Status::Frozen | Status::Accepted | Status::Delivered => true,
            Status::PendingFreeze
            | Status::Settled
            | Status::CancelledByBuyer
            | Status::RejectedBySeller
            | Status::Failed => false,
        }
    }
}

named!(
    /// The source of the decision to buy or to settle.
    DecisionSource {
        AgentAutonomous = "agent_autonomous",
        UserConfirmed = "user_confirmed",
        UserManual = "user_manual",
        PlatformAuto = "platform_auto",
    }
);

named!(Role { Buyer = "buyer", Seller = "seller", Platform = "platform" });

named!(
    /// The action that a party has to take by a time.
    Deadline {
        Accept = "accept",
        Deliver = "deliver",
        Confirm = "confirm",
    }
);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Due {
    pub deadline: Deadline,
    pub at: Time,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transaction {
    pub tenant: Arc<str>,
    pub id: TransactionId,
    pub capability: CapabilityId,
    pub buyer: UserId,
    pub seller: UserId,
    /// The capability's pricing model at the time of the order.
    pub pricing_model: PricingModel,
    pub served: Served,
    /// The seller accepts in advance: the platform may accept in the seller's name.
    pub auto_accept: bool,
    /// Whether it counts against a limit of its capability.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub counted: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub booked_hours: Option<i64>,
    pub price: Ut,
    /// The platform's part of the price.
    pub commission: Ut,
    pub status: Status,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<ContextId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub demand: Option<Arc<str>>,
    /// The buyer's input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Json>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deliverables: Vec<Deliverable>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autonomy: Option<Confirmation>,
    pub decision_source: DecisionSource,
    /// Why it was rejected or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Due>,
    pub created_at: Time,
    /// Grows with every change, even when the clock does not.
    pub updated_at: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frozen_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled_at: Option<Time>,
    /// Grows with every change; 1 is the first.
    pub version: u64,
}

/// A file that was delivered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deliverable {
    pub deliverable_id: Arc<str>,
    pub access_id: Arc<str>,
    pub file_name: Arc<str>,
}

/// Settings of the market for purchases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionRules {
    pub commission: Rate,
    /// The order holds the money at once; otherwise the buyer freezes it in a step of its own.
    pub auto_freeze: bool,
    /// Time for the seller to accept or reject a frozen purchase.
    pub accept_ms: u64,
    /// Time for the seller to deliver an accepted purchase; after it the buyer is refunded.
    pub deliver_ms: u64,
    /// Time for the buyer to confirm a delivery.
    pub confirm_ms: u64,
    /// Maximum size of a result and of an order's input.
    pub max_payload_bytes: usize,
}

const HOUR_MS: u64 = 60 * 60 * 1_000;

impl Default for TransactionRules {
    fn default() -> TransactionRules {
        TransactionRules {
            commission: Rate::TENTH,
            auto_freeze: false,
            accept_ms: 24 * HOUR_MS,
            deliver_ms: 7 * 24 * HOUR_MS,
            confirm_ms: 72 * HOUR_MS,
            max_payload_bytes: 256 * 1024,
        }
    }
}

/// A buyer's order, and the facts about the buyer that it depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurchaseOrder {
    /// Drawn by the caller.
    pub id: TransactionId,
    pub tenant: Arc<str>,
    pub buyer: UserId,
    pub via: Via,
    pub booked_hours: Option<i64>,
    pub context: Option<ContextId>,
    pub demand: Option<Arc<str>>,
    pub input: Option<Json>,
    /// The buyer's spending limits.
    pub limits: autonomy::SpendingLimits,
    /// The sum that the buyer's agents have spent without confirmation on this day.
    pub spent: Ut,
    /// A verified confirmation that came with the order.
    pub confirmed: Option<Confirmed>,
    /// The capability's row of counted sales, where it has limits; a precondition of the step.
    pub sold: Sales,
}

/// An action on a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionAction {
    /// The buyer confirms an order of its agent, in person or by a token.
    Approve(Option<Confirmed>),
    Freeze,
    Accept,
    Reject {
        reason: Option<Arc<str>>,
    },
    Deliver {
        result: Option<Json>,
        deliverables: Vec<Deliverable>,
    },
    Confirm,
    Cancel,
    Fail {
        reason: Option<Arc<str>>,
    },
    /// A timer has fired.
    Due(Deadline),
}

named!(Verb {
    Create = "create",
    Approve = "approve",
    Freeze = "freeze",
    Accept = "accept",
    Reject = "reject",
    Deliver = "deliver",
    Confirm = "confirm",
    Cancel = "cancel",
    Fail = "fail",
    Expire = "expire",
});

impl TransactionAction {
    pub fn verb(&self) -> Verb {
        match self {
            TransactionAction::Approve(_) => Verb::Approve,
            TransactionAction::Freeze => Verb::Freeze,
            TransactionAction::Accept => Verb::Accept,
            TransactionAction::Reject { .. } => Verb::Reject,
            TransactionAction::Deliver { .. } => Verb::Deliver,
            TransactionAction::Confirm => Verb::Confirm,
            TransactionAction::Cancel => Verb::Cancel,
            TransactionAction::Fail { .. } => Verb::Fail,
            TransactionAction::Due(_) => Verb::Expire,
        }
    }
}

/// All changes that belong together. A store commits all of them or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionStep {
    /// The new row.
    pub transaction: Transaction,
    /// The task state that A2A callers see.
    pub state: State,
    /// The hold's new row, where the step makes or ends one.
    pub hold: Option<Hold>,
    pub entries: Vec<LedgerEntry>,
    /// Conditions of the commit.
    pub guards: Vec<Precondition>,
    pub timers: Vec<DeadlineChange>,
    /// The amount that an unconfirmed purchase adds to the day's spending.
    pub spend: Option<Spend>,
    /// The confirmation token that the step uses up.
    pub used: Option<Mark>,
    /// The capability's new row of counted sales, where it has limits.
    pub sales: Option<Sales>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadlineChange {
    Set(Due),
    Clear(Deadline),
}

impl Transaction {
    /// The task state that A2A callers see. It is `input-required` while the buyer has to approve the order or confirm
    /// the delivery.
    pub fn state(&self) -> State {
        match self.status {
            Status::PendingFreeze if self.awaits_approval() => State::InputRequired,
            Status::PendingFreeze | Status::Frozen => State::Submitted,
            Status::Accepted => State::Working,
            Status::Delivered => State::InputRequired,
            Status::Settled => State::Completed,
            Status::CancelledByBuyer | Status::RejectedBySeller => State::Canceled,
            Status::Failed => State::Failed,
        }
    }

    /// Whether the confirmation of a person is pending.
    pub fn awaits_approval(&self) -> bool {
        self.autonomy.as_ref().is_some_and(Confirmation::is_pending)
    }

    /// The role of this actor, if it has one.
    pub fn role(&self, actor: &Actor) -> Option<Role> {
        match actor {
            Actor::Platform => Some(Role::Platform),
            Actor::User { .. } if actor.is(&self.tenant, &self.buyer) => Some(Role::Buyer),
            Actor::User { .. } if actor.is(&self.tenant, &self.seller) => Some(Role::Seller),
            Actor::User { .. } => None,
        }
    }

    /// A value that changes whenever there is something new for a subscriber.
    pub fn change_key(&self) -> (State, Time, Option<Time>) {
        (self.state(), self.updated_at, self.settled_at)
    }

    pub(crate) fn share(&self) -> Share {
        Share { seller: self.seller.clone(), commission: self.commission }
    }

    /// The hold that must exist, computed from the transaction alone. A free purchase has none.
    pub fn hold(&self) -> Option<Hold> {
        let made_at = self.frozen_at.filter(|_| self.price.is_positive())?;
        // A terminal row never changes: its last change was its end.
        let end = |settled, released| Some(HoldEnd { settled, released, at: self.updated_at });
        Some(Hold {
            tenant: self.tenant.clone(),
            transaction: self.id,
            owner: self.buyer.clone(),
            amount: self.price,
            made_at,
            end: match self.status {
                Status::PendingFreeze | Status::Frozen | Status::Accepted | Status::Delivered => None,
                Status::Settled => end(self.price, Ut::ZERO),
                Status::CancelledByBuyer | Status::RejectedBySeller | Status::Failed => end(Ut::ZERO, self.price),
            },
        })
    }

    /// The entries that must exist, computed from the transaction alone.
    pub fn entries(&self) -> Result<Vec<LedgerEntry>, EntryError> {
        let Some(hold) = self.hold() else { return Ok(Vec::new()) };
        let share = match self.status {
            Status::Settled => self.share(),
            Status::PendingFreeze
            | Status::Frozen
            | Status::Accepted
            | Status::Delivered
            | Status::CancelledByBuyer
            | Status::RejectedBySeller
            | Status::Failed => Share { commission: Ut::ZERO, ..self.share() },
        };
        Ok([Some(hold.frozen()?), hold.ended(&share)?].into_iter().flatten().collect())
    }
}

#[cfg(test)]
#[path = "transaction_tests.rs"]
mod tests;
