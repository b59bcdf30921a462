//! Coupons: a discount, with an expiry and a number of uses.

use std::sync::Arc;

use ledger::Rate;
use model::Time;
use serde::{Deserialize, Serialize};

use crate::error::not_negative;
use crate::{Currency, Error, Minor, Slug};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coupon {
    pub site: Slug,
    /// In capital letters; input in any case is accepted.
    pub code: Arc<str>,
    pub off: Discount,
    /// Least subtotal of a cart that may use it.
    #[serde(default)]
    pub least: Minor,
    /// Number of orders that may use it; the uses left are counted like stock. `None` is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Discount {
    Percent(Rate),
    Amount(Minor),
}

/// The stored form of a code.
pub fn code(text: &str) -> Result<Arc<str>, Error> {
    let text = text.trim().to_ascii_uppercase();
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if text.is_empty() || text.len() > 32 || !text.bytes().all(is_fine) {
        return Err(Error::Name("a coupon code has 1 to 32 letters, digits, hyphens and underscores"));
    }
    Ok(text.into())
}

impl Coupon {
    pub fn check(&self) -> Result<(), Error> {
        if *code(&self.code)? != *self.code {
            return Err(Error::Name("a coupon code is kept in capital letters"));
        }
        not_negative("least", self.least)?;
        match self.off {
            Discount::Percent(_) => Ok(()),
            Discount::Amount(amount) => not_negative("amount", amount),
        }
    }

    /// Checks that a cart with this subtotal may use it. The number of uses is checked by the stock entry.
    pub fn is_good(&self, subtotal: Minor, currency: &Currency, now: Time) -> Result<(), Error> {
        if self.expires_at.is_some_and(|end| end <= now) {
            return Err(Error::CouponExpired(self.code.to_string()));
        }
        if subtotal < self.least {
            let least = currency.say(self.least);
            return Err(Error::CouponTooSmall { code: self.code.to_string(), least });
        }
        Ok(())
    }

    /// The discount on a subtotal, at most the subtotal.
    pub fn discount(&self, subtotal: Minor) -> Minor {
        match self.off {
            Discount::Percent(rate) => Minor(rate.of(subtotal.on_ledger()).hundredths()),
            Discount::Amount(amount) => amount.min(subtotal),
        }
    }
}
