//! Checkouts: from a cart to an order. A checkout reads every price again, reserves stock and fixes the total. It is completed
//! once, with its confirmation token, or it expires.

use std::sync::Arc;

use model::Time;
use serde::{Deserialize, Serialize};

use crate::cart::{ShopRules, email};
use crate::error::text;
use crate::order::{Order, Paid};
use crate::stock::{Move, Moves, StockPlace, Unit};
use crate::{
    Cart, CartStatus, ConfirmationToken, Coupon, Currency, Error, Item, OrderId, Product, SessionId, Site, Slug,
    Totals, WorkspaceId,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionStatus {
    Open,
    Completed,
    Cancelled,
    Expired,
}

impl SessionStatus {
    pub fn name(self) -> &'static str {
        match self {
            SessionStatus::Open => "open",
            SessionStatus::Completed => "completed",
            SessionStatus::Cancelled => "cancelled",
            SessionStatus::Expired => "expired",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    pub id: SessionId,
    pub site: Slug,
    pub workspace: WorkspaceId,
    pub currency: Currency,
    /// The key of the cart's record.
    pub cart: Arc<str>,
    pub status: SessionStatus,
    /// Items at the prices of this checkout.
    pub items: Vec<Item>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coupon: Option<Coupon>,
    pub totals: Totals,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email: Option<Arc<str>>,
    pub created_at: Time,
    pub updated_at: Time,
    pub expires_at: Time,
}

/// The buyer of an order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Buyer {
    pub email: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Arc<str>>,
    /// Address of the delivery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<Arc<str>>,
}

impl Buyer {
    pub fn check(&self) -> Result<Buyer, Error> {
        let email = email(&self.email)?;
        self.name.as_deref().map_or(Ok(()), |name| text("name", name, 200))?;
        self.address.as_deref().map_or(Ok(()), |address| text("address", address, 1_000))?;
        Ok(Buyer { email, ..self.clone() })
    }
}

/// Changes that are committed together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckoutStep {
    pub cart: Cart,
    pub session: Option<Session>,
    pub order: Option<Order>,
    pub stock: Option<Moves>,
    pub money: Option<ledger::LedgerEntry>,
}

/// The data that a checkout is computed from.
pub struct CheckoutInputs<'a> {
    pub site: &'a Site,
    /// The key of the cart's record.
    pub key: Arc<str>,
    /// The current products of its items.
    pub products: &'a [Product],
    /// The current state of the cart's coupon.
    pub coupon: Option<&'a Coupon>,
}

fn name_of(session: &SessionId, what: &str) -> Arc<str> {
    format!("{session}/{what}").into()
}

/// Moves of all counted units of a checkout between two places.
fn units(session: &Session, from: StockPlace, to: StockPlace) -> Vec<Move> {
    let counted = session.items.iter().filter(|item| item.counted);
    let mut moves: Vec<Move> = counted
        .map(|item| {
            let unit = unit_of(&session.site, item);
            Move { unit, from, to, quantity: item.quantity.into() }
        })
        .collect();
    if let Some(coupon) = session.coupon.as_ref().filter(|coupon| coupon.limit.is_some()) {
        let unit = Unit::Coupon { site: session.site.clone(), code: coupon.code.clone() };
        moves.push(Move { unit, from, to, quantity: 1 });
    }
    moves
}

pub fn unit_of(site: &Slug, item: &Item) -> Unit {
    Unit::Variant { site: site.clone(), product: item.product.clone(), variant: item.variant.clone() }
}

/// Begins a checkout: reserves stock and fixes prices.
pub fn begin(
    cart: &Cart,
    ground: &CheckoutInputs<'_>,
    token: &ConfirmationToken,
    now: Time,
    rules: &ShopRules,
) -> Result<CheckoutStep, Error> {
    cart.is_open(now)?;
    if cart.items.is_empty() {
        return Err(Error::EmptyCart);
    }
    let mut items = Vec::with_capacity(cart.items.len());
    for item in &cart.items {
        let product = ground.products.iter().find(|product| product.id == item.product);
        let variant = product.and_then(|product| product.variants.iter().find(|known| known.id == item.variant));
        let (Some(product), Some(variant)) = (product, variant) else {
            return Err(Error::Gone(item.name.to_string()));
        };
        items.push(product.item(variant, item.quantity));
    }
    let mut cart = cart.clone();
    cart.items.clone_from(&items);
    if let Some(had) = &cart.coupon {
        let coupon = ground.coupon.ok_or_else(|| Error::NoCoupon(had.code.to_string()))?;
        cart.coupon = Some(coupon.clone());
        let subtotal = cart.totals(&ground.site.terms, now)?.subtotal;
        coupon.is_good(subtotal, &cart.currency, now)?;
    }
    let session = Session {
        id: token.session(),
        site: cart.site.clone(),
        workspace: cart.workspace.clone(),
        currency: cart.currency.clone(),
        cart: ground.key.clone(),
        status: SessionStatus::Open,
        totals: cart.totals(&ground.site.terms, now)?,
        items,
        coupon: cart.coupon.clone(),
        email: cart.email.clone(),
        created_at: now,
        updated_at: now,
        expires_at: now.plus_ms(rules.checkout_ms),
    };
    cart.status = CartStatus::Checkout;
    cart.session = Some(session.id.clone());
    (cart.updated_at, cart.expires_at) = (now, session.expires_at);
    let moves = units(&session, StockPlace::Available, StockPlace::Reserved);
    let stock = (!moves.is_empty()).then(|| Moves::new(name_of(&session.id, "reserve"), moves));
    Ok(CheckoutStep { cart, session: Some(session), order: None, stock, money: None })
}

impl Session {
    pub fn order_id(&self) -> OrderId {
        self.id.order()
    }

    /// Checks that it can still be completed.
    pub fn is_open(&self, now: Time) -> Result<(), Error> {
        match self.status {
            SessionStatus::Open if self.expires_at <= now => Err(Error::SessionClosed(SessionStatus::Expired.name())),
            SessionStatus::Open => Ok(()),
            SessionStatus::Completed => Err(Error::TokenUsed),
            SessionStatus::Cancelled | SessionStatus::Expired => Err(Error::SessionClosed(self.status.name())),
        }
    }

    fn ended(&self, cart: &Cart, how: SessionStatus, cart_is: CartStatus, now: Time) -> CheckoutStep {
        let mut cart = cart.clone();
        (cart.status, cart.updated_at) = (cart_is, now);
        let session = Session { status: how, updated_at: now, ..self.clone() };
        let to = match how {
            SessionStatus::Completed => StockPlace::Sold,
            SessionStatus::Open | SessionStatus::Cancelled | SessionStatus::Expired => StockPlace::Available,
        };
        let moves = units(self, StockPlace::Reserved, to);
        // A sale and a release have the same entry name, so that only one of them can be posted.
        let stock = (!moves.is_empty()).then(|| Moves::new(name_of(&self.id, "end"), moves));
        CheckoutStep { cart, session: Some(session), order: None, stock, money: None }
    }

    /// Completes a paid checkout: sells the reserved stock and creates the order.
    pub fn complete(&self, cart: &Cart, buyer: &Buyer, paid: Paid, now: Time) -> Result<CheckoutStep, Error> {
        self.is_open(now)?;
        let buyer = buyer.check()?;
        let order = Order::new(self, buyer, paid, now);
        let money = order.income()?;
        let mut step = self.ended(cart, SessionStatus::Completed, CartStatus::Completed, now);
        (step.order, step.money) = (Some(order), money);
        Ok(step)
    }

    /// Cancels a checkout: its stock is available again, and the cart can change.
    pub fn cancel(&self, cart: &Cart, now: Time, rules: &ShopRules) -> Result<CheckoutStep, Error> {
        self.is_open(now)?;
        let mut step = self.ended(cart, SessionStatus::Cancelled, CartStatus::Active, now);
        step.cart.expires_at = now.plus_ms(rules.cart_ms);
        Ok(step)
    }
}

/// Expires a cart with its checkout: reserved stock is available again. `None` before its expiry.
pub fn expire(cart: &Cart, session: Option<&Session>, now: Time) -> Option<CheckoutStep> {
    if !cart.is_over(now) {
        return None;
    }
    let open = session.filter(|session| session.status == SessionStatus::Open);
    if let Some(session) = open {
        return Some(session.ended(cart, SessionStatus::Expired, CartStatus::Expired, now));
    }
    let cart = Cart { status: CartStatus::Expired, updated_at: now, ..cart.clone() };
    Some(CheckoutStep { cart, session: None, order: None, stock: None, money: None })
}
