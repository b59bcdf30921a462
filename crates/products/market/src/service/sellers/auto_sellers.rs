//! Parties that act alone, for demos: each of their steps is taken automatically after a delay.

use market_rules::transaction::{Status, TransactionAction};
use market_rules::{Actor, Served, Transaction};
use model::{Json, Time};
use serde_json::json;

use crate::service::{Error, Market, MarketConfig, User};

/// The next step of a party that acts alone, and its actor.
fn turn(row: &Transaction, buyer: Option<&User>, seller: Option<&User>) -> Option<(Actor, TransactionAction)> {
    let alone = |user: Option<&User>| user.is_some_and(|user| user.acts_alone);
    match row.status {
        Status::PendingFreeze | Status::Delivered if alone(buyer) => {
            let action = match row.status {
                Status::Delivered => TransactionAction::Confirm,
                _ if row.awaits_approval() => TransactionAction::Approve(None),
                _ => TransactionAction::Freeze,
            };
            // As a person: an agent cannot confirm its own order.
            Some((Actor::person(&row.tenant, &row.buyer), action))
        }
        Status::Frozen | Status::Accepted if alone(seller) && row.served == Served::Person => {
            let action = match row.status {
                Status::Frozen => TransactionAction::Accept,
                _ => TransactionAction::Deliver { result: Some(sample(row)), deliverables: Vec::new() },
            };
            Some((Actor::person(&row.tenant, &row.seller), action))
        }
        Status::PendingFreeze
        | Status::Delivered
        | Status::Frozen
        | Status::Accepted
        | Status::Settled
        | Status::CancelledByBuyer
        | Status::RejectedBySeller
        | Status::Failed => None,
    }
}

/// The time of that step.
pub(super) fn acts_at(
    row: &Transaction,
    buyer: Option<&User>,
    seller: Option<&User>,
    config: &MarketConfig,
) -> Option<Time> {
    let after = config.acts_after_ms?;
    turn(row, buyer, seller).map(|_| row.updated_at.plus_ms(after))
}

/// The delivery of a demo's seller.
fn sample(row: &Transaction) -> Json {
    Json::from_value(&json!({
        "demo": true,
        "capability_id": row.capability.as_str(),
        "text": format!("{} was done, as far as a demo goes", row.capability),
        "input": row.input.as_ref().map(Json::to_value),
    }))
}

impl Market {
    /// The automatic step that is due now.
    pub(super) async fn alone(
        &self,
        row: &Transaction,
        now: Time,
    ) -> Result<Option<(Actor, TransactionAction)>, Error> {
        let config = self.config();
        if config.acts_after_ms.is_none() {
            return Ok(None);
        }
        let (buyer, seller) = (self.user(&row.buyer).await?, self.user(&row.seller).await?);
        let (buyer, seller) = (buyer.as_ref(), seller.as_ref());
        let comes = acts_at(row, buyer, seller, &config).is_some_and(|at| at <= now);
        Ok(turn(row, buyer, seller).filter(|_| comes))
    }
}
