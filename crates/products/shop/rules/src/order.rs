//! Orders: their lines, their state, and the shop's actions on them.
//!
//! The total is paid once, when the checkout is completed, and paid back at most once, in full. Both are ledger entries in a
//! book of the order's currency: from outside to the workspace, and back.

use std::sync::Arc;

use ledger::{LedgerEntry, UserId};
use model::Time;
use serde::{Deserialize, Serialize};

use crate::checkout::{Buyer, Session, unit_of};
use crate::error::text;
use crate::stock::{Move, Moves, StockPlace};
use crate::{Currency, Error, Item, OrderId, Slug, Totals, WorkspaceId};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderState {
    /// Paid; nothing is sent yet.
    Pending,
    PartiallyFulfilled,
    Fulfilled,
    /// Cancelled before anything was sent: paid back and restocked.
    Cancelled,
    /// Paid back, not restocked.
    Refunded,
    /// Paid back and restocked.
    Returned,
}

impl OrderState {
    pub const ALL: [OrderState; 6] = [
        OrderState::Pending,
        OrderState::PartiallyFulfilled,
        OrderState::Fulfilled,
        OrderState::Cancelled,
        OrderState::Refunded,
        OrderState::Returned,
    ];

    pub fn name(self) -> &'static str {
        match self {
            OrderState::Pending => "pending",
            OrderState::PartiallyFulfilled => "partially_fulfilled",
            OrderState::Fulfilled => "fulfilled",
            OrderState::Cancelled => "cancelled",
            OrderState::Refunded => "refunded",
            OrderState::Returned => "returned",
        }
    }
    /// Whether the state cannot change any more.
    pub fn is_terminal(self) -> bool {
        match self {
            OrderState::Pending | OrderState::PartiallyFulfilled | OrderState::Fulfilled => false,
            OrderState::Cancelled | OrderState::Refunded | OrderState::Returned => true,
        }
    }
}

/// The payment of an order; the payment method defines its meaning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paid {
    pub method: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<Arc<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    pub id: OrderId,
    pub site: Slug,
    pub workspace: WorkspaceId,
    pub currency: Currency,
    pub state: OrderState,
    pub lines: Vec<OrderLine>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coupon: Option<Arc<str>>,
    pub totals: Totals,
    pub buyer: Buyer,
    pub paid: Paid,
    /// Tracking numbers of carriers.
    #[serde(default)]
    pub tracking: Vec<Arc<str>>,
    pub created_at: Time,
    pub updated_at: Time,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderLine {
    pub item: Item,
    /// Quantity that was sent.
    pub sent: u32,
}

/// An action of a shop on an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrderAct {
    /// Sends quantities of lines, by index; all that is left if `lines` is empty.
    Fulfil {
        lines: Vec<(usize, u32)>,
        tracking: Option<Arc<str>>,
    },
    Cancel,
    Refund,
    Return,
}

/// Most tracking numbers of an order.
const MAX_TRACKING: usize = 20;

/// Changes that are committed together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderStep {
    pub order: Order,
    pub stock: Option<Moves>,
    pub money: Option<LedgerEntry>,
}

/// The ledger's book of a currency: amounts of two currencies are never in one sum. Stored.
pub fn book(currency: &Currency) -> Arc<str> {
    format!("shop/{currency}").into()
}

impl Order {
    /// The order of a paid checkout. Digital goods count as sent.
    pub(crate) fn new(session: &Session, buyer: Buyer, paid: Paid, now: Time) -> Order {
        let line = |item: &Item| OrderLine { item: item.clone(), sent: if item.digital { item.quantity } else { 0 } };
        let mut order = Order {
            id: session.order_id(),
            site: session.site.clone(),
            workspace: session.workspace.clone(),
            currency: session.currency.clone(),
            state: OrderState::Pending,
            lines: session.items.iter().map(line).collect(),
            coupon: session.coupon.as_ref().map(|coupon| coupon.code.clone()),
            totals: session.totals,
            buyer,
            paid,
            tracking: Vec::new(),
            created_at: now,
            updated_at: now,
        };
        if order.is_sent() {
            order.state = OrderState::Fulfilled;
        }
        order
    }

    fn is_sent(&self) -> bool {
        self.lines.iter().all(|line| line.sent == line.item.quantity)
    }

    /// The ledger entry of its payment; `None` if the total is zero.
    pub fn income(&self) -> Result<Option<LedgerEntry>, Error> {
        self.across(LedgerEntry::recharge, self.created_at)
    }

    fn across(&self, entry: Across, at: Time) -> Result<Option<LedgerEntry>, Error> {
        let amount = self.totals.total.on_ledger();
        if amount.is_zero() {
            return Ok(None);
        }
        let (book, workspace) = (book(&self.currency), UserId(self.workspace.0.clone()));
        let note = Some(format!("order {} at {}", self.id, self.site).into());
        let made = entry(&book, &workspace, amount, self.id.as_str(), note, at);
        made.map(Some).map_err(|_| Error::TooMuch)
    }

    pub fn act(&self, act: &OrderAct, now: Time) -> Result<OrderStep, Error> {
        let not = |wish| Err(Error::OrderState { state: self.state.name(), wish });
        let mut order = Order { updated_at: now, ..self.clone() };
        let (back, restocked) = match (act, self.state) {
            (OrderAct::Fulfil { lines, tracking }, OrderState::Pending | OrderState::PartiallyFulfilled) => {
                order.send(lines, tracking.as_ref())?;
                (false, false)
            }
            (OrderAct::Cancel, OrderState::Pending) => {
                order.state = OrderState::Cancelled;
                (true, true)
            }
            (OrderAct::Refund, OrderState::Pending | OrderState::PartiallyFulfilled | OrderState::Fulfilled) => {
                order.state = OrderState::Refunded;
                (true, false)
            }
            (OrderAct::Return, OrderState::PartiallyFulfilled | OrderState::Fulfilled) => {
                order.state = OrderState::Returned;
                (true, true)
            }
            (OrderAct::Fulfil { .. }, OrderState::Fulfilled) => return not("fulfilled again"),
            (OrderAct::Fulfil { .. }, OrderState::Cancelled | OrderState::Refunded | OrderState::Returned) => {
                return not("fulfilled");
            }
            (
                OrderAct::Cancel,
                OrderState::PartiallyFulfilled
                | OrderState::Fulfilled
                | OrderState::Cancelled
                | OrderState::Refunded
                | OrderState::Returned,
            ) => return not("cancelled"),
            (OrderAct::Refund, OrderState::Cancelled | OrderState::Refunded | OrderState::Returned) => {
                return not("refunded");
            }
            (
                OrderAct::Return,
                OrderState::Pending | OrderState::Cancelled | OrderState::Refunded | OrderState::Returned,
            ) => return not("returned"),
        };
        let stock = restocked.then(|| order.restock()).flatten();
        let money = if back { order.across(LedgerEntry::withdraw, now)? } else { None };
        Ok(OrderStep { order, stock, money })
    }

    fn send(&mut self, lines: &[(usize, u32)], tracking: Option<&Arc<str>>) -> Result<(), Error> {
        if lines.is_empty() {
            for line in &mut self.lines {
                line.sent = line.item.quantity;
            }
        }
        for (place, quantity) in lines {
            let line = self.lines.get_mut(*place).ok_or(Error::MoreThanOrdered)?;
            let sent = line.sent.checked_add(*quantity).filter(|sent| *sent <= line.item.quantity);
            line.sent = sent.ok_or(Error::MoreThanOrdered)?;
        }
        if let Some(tracking) = tracking {
            text("tracking", tracking, 200)?;
            if self.tracking.len() < MAX_TRACKING {
                self.tracking.push(tracking.clone());
            }
        }
        let any = self.lines.iter().any(|line| line.sent > 0);
        self.state = match (self.is_sent(), any) {
            (true, _) => OrderState::Fulfilled,
            (false, true) => OrderState::PartiallyFulfilled,
            (false, false) => self.state,
        };
        Ok(())
    }

    fn restock(&self) -> Option<Moves> {
        let counted = self.lines.iter().map(|line| &line.item).filter(|item| item.counted);
        let moves: Vec<Move> = counted
            .map(|item| Move {
                unit: unit_of(&self.site, item),
                from: StockPlace::Sold,
                to: StockPlace::Available,
                quantity: item.quantity.into(),
            })
            .collect();
        (!moves.is_empty()).then(|| Moves::new(format!("{}/restock", self.id), moves))
    }

    /// Whether the workspace keeps the payment.
    pub fn is_earned(&self) -> bool {
        !self.state.is_terminal()
    }

    /// Whether its units count as sold.
    pub fn is_sold(&self) -> bool {
        match self.state {
            OrderState::Pending | OrderState::PartiallyFulfilled | OrderState::Fulfilled | OrderState::Refunded => true,
            OrderState::Cancelled | OrderState::Returned => false,
        }
    }
}

/// A constructor of ledger entries: payment or payback.
type Across =
    fn(&Arc<str>, &UserId, ledger::Ut, &str, Option<Arc<str>>, Time) -> Result<LedgerEntry, ledger::EntryError>;
