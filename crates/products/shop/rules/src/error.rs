//! Errors of the rules, with messages for the caller.

use crate::{Minor, money};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
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

impl Error {
    /// Code of the error, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Error::Name(_) | Error::Field { .. } => "invalid",
            Error::OutOfStock { .. } => "out_of_stock",
            Error::WhichVariant { .. } => "variant_required",
            Error::Gone(_) => "product_gone",
            Error::NotInCart => "not_in_cart",
            Error::EmptyCart => "cart_empty",
            Error::TooManyItems(_) => "too_many_items",
            Error::Quantity => "invalid_quantity",
            Error::CartExpired => "cart_expired",
            Error::CartClosed(_) => "cart_closed",
            Error::CartInCheckout => "cart_in_checkout",
            Error::NoCoupon(_) => "coupon_unknown",
            Error::CouponExpired(_) => "coupon_expired",
            Error::CouponUsedUp(_) => "coupon_used_up",
            Error::CouponTooSmall { .. } => "coupon_not_applicable",
            Error::TooMuch => "too_much",
            Error::TokenUsed => "token_used",
            Error::SessionClosed(_) => "checkout_closed",
            Error::OrderState { .. } => "order_state",
            Error::MoreThanOrdered => "more_than_ordered",
            Error::Changed => "changed",
        }
    }

    pub(crate) fn price(field: &'static str) -> impl Fn(money::Error) -> Error {
        move |error| Error::Field { field, says: error.to_string() }
    }
}

/// Checks the length of a text, and that it has no control characters except line breaks.
pub(crate) fn text(field: &'static str, text: &str, most: usize) -> Result<(), Error> {
    if text.len() > most {
        return Err(Error::Field { field, says: format!("must have at most {most} bytes") });
    }
    if text.chars().any(|c| c.is_control() && c != '\n' && c != '\r' && c != '\t') {
        return Err(Error::Field { field, says: "must hold no control characters".to_owned() });
    }
    Ok(())
}

/// Checks an address that a page may link to.
pub(crate) fn link(field: &'static str, link: &str) -> Result<(), Error> {
    text(field, link, 2_048)?;
    if link.starts_with("https://") || link.starts_with("http://") {
        return Ok(());
    }
    Err(Error::Field { field, says: "must be an address that begins with https:// or http://".to_owned() })
}

pub(crate) fn not_negative(field: &'static str, amount: Minor) -> Result<(), Error> {
    Minor::check(amount.0).map(drop).map_err(Error::price(field))
}
