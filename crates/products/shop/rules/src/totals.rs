//! The totals of a cart.

use ledger::Ut;
use model::Time;
use serde::{Deserialize, Serialize};

use crate::site::SiteTerms;
use crate::{Coupon, Currency, Error, Item, Minor};

/// `total = subtotal - discount + shipping + tax`; none of them is negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    pub subtotal: Minor,
    pub shipping: Minor,
    pub tax: Minor,
    pub discount: Minor,
    pub total: Minor,
}

impl Totals {
    /// Computes the totals. A coupon that is not valid gives no discount.
    pub fn of(
        items: &[Item],
        coupon: Option<&Coupon>,
        terms: &SiteTerms,
        currency: &Currency,
        now: Time,
    ) -> Result<Totals, Error> {
        let line = |item: &Item| item.price.0.checked_mul(i64::from(item.quantity));
        let subtotal = items.iter().try_fold(0_i64, |sum, item| sum.checked_add(line(item)?));
        let subtotal = Minor(subtotal.filter(|sum| *sum <= Ut::MOST.hundredths()).ok_or(Error::TooMuch)?);
        let good = coupon.filter(|coupon| coupon.is_good(subtotal, currency, now).is_ok());
        let discount = good.map_or(Minor::ZERO, |coupon| coupon.discount(subtotal));
        let sent = items.iter().any(|item| !item.digital);
        let is_free = terms.free_shipping_from.is_some_and(|from| subtotal >= from);
        let shipping = if sent && !is_free { terms.shipping } else { Minor::ZERO };
        let taxed = Minor(subtotal.0 - discount.0 + shipping.0);
        let tax = Minor(terms.tax.of(taxed.on_ledger()).hundredths());
        let total = Minor(taxed.0 + tax.0);
        if total.on_ledger() > Ut::MOST {
            return Err(Error::TooMuch);
        }
        Ok(Totals { subtotal, shipping, tax, discount, total })
    }
}
