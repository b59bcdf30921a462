//! A purchase and its state machine.
//!
//! ```text
//! create ─► pending_freeze ─freeze─► frozen ─accept─► accepted ─deliver─► delivered ─confirm─► settled
//!                │ cancel              │ cancel, reject   │ fail               (or the confirm deadline)
//!                ▼                     ▼ fail, deadline   ▼ deadline
//!        cancelled_by_buyer    …, rejected_by_seller, failed
//! ```
//!
//! [`Transaction::create`] and [`Transaction::step`] are the only transitions. Each returns all changes that belong together
//! as one [`TransactionStep`]; nothing has happened until a store has committed it. A deadline acts when its timer fires, not before:
//! a party that acts first, even late, has acted.

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
/// Of a deliverable's names.
pub const MAX_NAME: usize = 255;
pub const MAX_REASON: usize = 500;
/// Of a demand's id and a context's.
pub const MAX_ID: usize = 200;

named!(
    /// Where a purchase stands.
    Status {
        /// Ordered; no money has moved.
        PendingFreeze = "pending_freeze",
        /// The buyer's money is set aside; the seller's turn.
        Frozen = "frozen",
        Accepted = "accepted",
        /// The buyer's turn.
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
    /// The buyer's money is with the platform.
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
    /// On whose word it was bought, or settled.
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
    /// As the capability had it when it was bought.
    pub pricing_model: PricingModel,
    pub served: Served,
    /// The seller agreed beforehand: the platform may accept in the seller's name.
    pub auto_accept: bool,
    /// It counts against a limit of its capability.
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

/// How this market deals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionRules {
    pub commission: Rate,
    /// Money is set aside with the order; otherwise the buyer does it as a step of its own.
    pub auto_freeze: bool,
    /// How long a seller has to accept or reject what is frozen.
    pub accept_ms: u64,
    /// How long a seller has to deliver what is accepted; without it a silent seller would keep the money for ever.
    pub deliver_ms: u64,
    /// How long a buyer has to confirm what is delivered.
    pub confirm_ms: u64,
    /// Of a result, and of an order's input.
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
    /// The buyer's own.
    pub limits: autonomy::SpendingLimits,
    /// The sum that the buyer's agents have spent by themselves this day.
    pub spent: Ut,
    /// A good token that came with the order.
    pub confirmed: Option<Confirmed>,
    /// The capability's row of counted sales, where it has limits; the step is guarded by it.
    pub sold: Sales,
}

/// An action on a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionAction {
    /// The buyer says yes to what its agent wants to buy: in person, or by a token.
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

/// All that has to happen together. A store does all of it, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionStep {
    /// The row from now on.
    pub transaction: Transaction,
    /// The task state that A2A callers see.
    pub state: State,
    /// The hold's row from now on, where it was made or ended.
    pub hold: Option<Hold>,
    pub entries: Vec<LedgerEntry>,
    /// Conditions of the commit.
    pub guards: Vec<Precondition>,
    pub timers: Vec<DeadlineChange>,
    /// The amount that an agent's own decision adds to its day.
    pub spend: Option<Spend>,
    /// The token that is used up by this.
    pub used: Option<Mark>,
    /// The capability's row of counted sales from now on, where it has limits.
    pub sales: Option<Sales>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadlineChange {
    Set(Due),
    Clear(Deadline),
}

impl Transaction {
    /// The task state that A2A callers see. Waiting for the buyer, for an approval or for the confirmation of a delivery, is
    /// `input-required`.
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

    /// A person has yet to say yes.
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

    /// The hold there must be, told from the transaction alone. What is free holds nothing.
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

    /// The entries there must be, told from the transaction alone.
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
