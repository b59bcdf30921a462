//! Reasons why a request is refused, in words for the caller.

use crate::{Minor, money};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("{0}")]
    Name(&'static str),
    #[error("{field} {says}")]
    Field { field: &'static str, says: String },
    #[error("{what}: only {left} left")]
    OutOfStock { what: String, left: u64 },
    #[error("{what} comes in several ways; say which: {ways}")]
    WhichVariant { what: String, ways: String },
    #[error("{0} is not for sale any more; remove it from the cart")]
    Gone(String),
    #[error("the cart has no such item")]
    NotInCart,
    #[error("the cart is empty; add a product first")]
    EmptyCart,
    #[error("a cart holds at most {0} different items")]
    TooManyItems(usize),
    #[error("the quantity must be between {least} and {most}", least = 1, most = crate::cart::MAX_QUANTITY)]
    Quantity,
    #[error("the cart has expired; create a new one")]
    CartExpired,
    #[error("the cart is {0}; create a new one")]
    CartClosed(&'static str),
    #[error("the cart is being checked out; complete or cancel that first")]
    CartInCheckout,
    #[error("the coupon {0} is not known here")]
    NoCoupon(String),
    #[error("the coupon {0} has expired")]
    CouponExpired(String),
    #[error("the coupon {0} has been used up")]
    CouponUsedUp(String),
    #[error("the coupon {code} is for carts of {least} and more")]
    CouponTooSmall { code: String, least: String },
    #[error("the sum is more than can be paid at once")]
    TooMuch,
    #[error("this confirmation token has been used; look at the order instead")]
    TokenUsed,
    #[error("the checkout is {0}; begin a new one")]
    SessionClosed(&'static str),
    #[error("an order that is {state} cannot be {wish}")]
    OrderState { state: &'static str, wish: &'static str },
    #[error("more than was ordered cannot be sent")]
    MoreThanOrdered,
    #[error("somebody else was faster; look again and try again")]
    Changed,
}

impl Refusal {
    /// One word per reason, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Refusal::Name(_) | Refusal::Field { .. } => "invalid",
            Refusal::OutOfStock { .. } => "out_of_stock",
            Refusal::WhichVariant { .. } => "variant_required",
            Refusal::Gone(_) => "product_gone",
            Refusal::NotInCart => "not_in_cart",
            Refusal::EmptyCart => "cart_empty",
            Refusal::TooManyItems(_) => "too_many_items",
            Refusal::Quantity => "invalid_quantity",
            Refusal::CartExpired => "cart_expired",
            Refusal::CartClosed(_) => "cart_closed",
            Refusal::CartInCheckout => "cart_in_checkout",
            Refusal::NoCoupon(_) => "coupon_unknown",
            Refusal::CouponExpired(_) => "coupon_expired",
            Refusal::CouponUsedUp(_) => "coupon_used_up",
            Refusal::CouponTooSmall { .. } => "coupon_not_applicable",
            Refusal::TooMuch => "too_much",
            Refusal::TokenUsed => "token_used",
            Refusal::SessionClosed(_) => "checkout_closed",
            Refusal::OrderState { .. } => "order_state",
            Refusal::MoreThanOrdered => "more_than_ordered",
            Refusal::Changed => "changed",
        }
    }

    pub(crate) fn price(field: &'static str) -> impl Fn(money::Error) -> Refusal {
        move |error| Refusal::Field { field, says: error.to_string() }
    }
}

/// A text that is no longer than it may be, and holds no control characters but line breaks.
pub(crate) fn text(field: &'static str, text: &str, most: usize) -> Result<(), Refusal> {
    if text.len() > most {
        return Err(Refusal::Field { field, says: format!("must have at most {most} bytes") });
    }
    if text.chars().any(|c| c.is_control() && c != '\n' && c != '\r' && c != '\t') {
        return Err(Refusal::Field { field, says: "must hold no control characters".to_owned() });
    }
    Ok(())
}

/// An address that a browser may be sent to.
pub(crate) fn link(field: &'static str, link: &str) -> Result<(), Refusal> {
    text(field, link, 2_048)?;
    if link.starts_with("https://") || link.starts_with("http://") {
        return Ok(());
    }
    Err(Refusal::Field { field, says: "must be an address that begins with https:// or http://".to_owned() })
}

pub(crate) fn not_negative(field: &'static str, amount: Minor) -> Result<(), Refusal> {
    Minor::check(amount.0).map(drop).map_err(Refusal::price(field))
}
