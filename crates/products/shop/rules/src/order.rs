//! Orders: what was bought, and what becomes of it.
//!
//! Money comes in once, when the checkout is completed, and goes back at most once, whole. Both are entries of the
//! market's journal, in a book of the order's currency: from outside to the workspace, and back.

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
    /// Paid, and nothing is sent yet.
    Pending,
    PartiallyFulfilled,
    Fulfilled,
    /// Before anything was sent: the money is back, the goods are for sale again.
    Cancelled,
    /// The money is back, the goods are not.
    Refunded,
    /// Both are back.
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
    /// Nothing changes any more.
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
    /// The carrier's number for it.
    #[serde(default)]
    pub tracking: Vec<Arc<str>>,
    pub created_at: Time,
    pub updated_at: Time,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderLine {
    pub item: Item,
    /// How many of it were sent.
    pub sent: u32,
}

/// An action of a shop on an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrderAct {
    /// So many of these lines are sent; all that is left for none.
    Fulfil {
        lines: Vec<(usize, u32)>,
        tracking: Option<Arc<str>>,
    },
    Cancel,
    Refund,
    Return,
}

/// How many notes of carriers an order has.
const MAX_TRACKING: usize = 20;

/// All that happens together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderStep {
    pub order: Order,
    pub stock: Option<Moves>,
    pub money: Option<LedgerEntry>,
}

/// The ledger's books of shops are kept by currency: amounts of two never meet in one sum.
pub fn book(currency: &Currency) -> Arc<str> {
    format!("shop/{currency}").into()
}

impl Order {
    /// Of a checkout that is paid for. What is not sent is there at once.
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

    /// The money that came in with it; `None` where nothing was to be paid.
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

    /// Whether the workspace has the money.
    pub fn is_earned(&self) -> bool {
        !self.state.is_terminal()
    }

    /// Whether what was sold of it stays sold.
    pub fn is_sold(&self) -> bool {
        match self.state {
            OrderState::Pending | OrderState::PartiallyFulfilled | OrderState::Fulfilled | OrderState::Refunded => true,
            OrderState::Cancelled | OrderState::Returned => false,
        }
    }
}

/// How money comes in, or goes out.
type Across =
    fn(&Arc<str>, &UserId, ledger::Ut, &str, Option<Arc<str>>, Time) -> Result<LedgerEntry, ledger::EntryError>;
