//! Money: integers of a currency's smallest unit, never a float.

use std::fmt;
use std::sync::Arc;

use ledger::Ut;
use serde::{Deserialize, Serialize};

/// An amount in the smallest unit of its currency: cents, or whole yen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Minor(pub i64);

/// Errors of amounts and currencies, with messages for the author of the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("must be a decimal number such as \"19.90\"")]
    Shape,
    #[error("must have at most {0} digits after the point")]
    Digits(usize),
    #[error("must be between 0 and {}", Minor::MOST.0)]
    Range,
    #[error("must be a currency code of three capital letters, such as \"USD\"")]
    Currency,
}

impl Minor {
    pub const ZERO: Minor = Minor(0);
    /// The highest price. It is far below the range of `i64`, so that the sum of a cart fits.
    pub const MOST: Minor = Minor(1_000_000_000_000);

    /// Validates a price.
    pub fn check(amount: i64) -> Result<Minor, Error> {
        if (0..=Minor::MOST.0).contains(&amount) { Ok(Minor(amount)) } else { Err(Error::Range) }
    }

    /// The same number on the ledger.
    pub fn on_ledger(self) -> Ut {
        Ut::from_hundredths(self.0)
    }
}

/// A currency code: three capital letters.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Currency(Arc<str>);

impl Currency {
    pub fn check(text: &str) -> Result<Currency, Error> {
        let fits = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_uppercase());
        if fits { Ok(Currency(text.into())) } else { Err(Error::Currency) }
    }

    pub fn code(&self) -> &str {
        &self.0
    }

    /// Number of digits after the decimal point.
    pub fn digits(&self) -> usize {
        match &*self.0 {
            "BIF" | "CLP" | "DJF" | "GNF" | "ISK" | "JPY" | "KMF" | "KRW" | "PYG" | "RWF" | "UGX" | "VND" | "VUV"
            | "XAF" | "XOF" | "XPF" => 0,
            "BHD" | "IQD" | "JOD" | "KWD" | "LYD" | "OMR" | "TND" => 3,
            _ => 2,
        }
    }

    /// Reads an amount as people write it: `19.90`.
    ///
    /// ```
    /// let usd = shop_rules::Currency::check("USD").unwrap();
    /// assert_eq!(usd.read("19.9"), Ok(shop_rules::Minor(1_990)));
    /// assert_eq!(usd.say(shop_rules::Minor(1_990)), "19.90 USD");
    /// assert!(usd.read("19.999").is_err());
    /// ```
    pub fn read(&self, text: &str) -> Result<Minor, Error> {
        let (whole, fraction) = match text.split_once('.') {
            Some((_, "")) => return Err(Error::Shape),
            Some(pair) => pair,
            None => (text, ""),
        };
        let are_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || !are_digits(whole) || !are_digits(fraction) {
            return Err(Error::Shape);
        }
        let digits = self.digits();
        if fraction.len() > digits {
            return Err(Error::Digits(digits));
        }
        let all = format!("{whole}{fraction:0<digits$}");
        Minor::check(all.parse().map_err(|_| Error::Range)?)
    }

    pub fn say(&self, amount: Minor) -> String {
        let digits = self.digits();
        let (sign, size) = (if amount.0 < 0 { "-" } else { "" }, amount.0.unsigned_abs());
        if digits == 0 {
            return format!("{sign}{size} {}", self.0);
        }
        let unit = 10_u64.pow(digits as u32);
        format!("{sign}{}.{:0digits$} {}", size / unit, size % unit, self.0)
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl fmt::Debug for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_read_and_print_by_their_currency() {
        for (code, text, minor, said) in [
            ("USD", "19.90", 1_990, "19.90 USD"),
            ("USD", "0.05", 5, "0.05 USD"),
            ("EUR", "7", 700, "7.00 EUR"),
            ("JPY", "1200", 1_200, "1200 JPY"),
            ("KWD", "1.5", 1_500, "1.500 KWD"),
        ] {
            let currency = Currency::check(code).unwrap();
            assert_eq!(currency.read(text), Ok(Minor(minor)), "{text}");
            assert_eq!(currency.say(Minor(minor)), said);
        }
    }

    #[test]
    fn what_is_no_amount_is_refused_with_words() {
        let usd = Currency::check("USD").unwrap();
        for bad in ["", ".5", "5.", "-1", "+1", "1,50", "1e3", "free", "٣"] {
            assert_eq!(usd.read(bad), Err(Error::Shape), "{bad}");
        }
        assert_eq!(usd.read("1.999"), Err(Error::Digits(2)));
        assert_eq!(Currency::check("JPY").unwrap().read("1.0"), Err(Error::Digits(0)));
        assert_eq!(usd.read("99999999999999999999"), Err(Error::Range));
        assert_eq!(usd.read("10000000000.01"), Err(Error::Range));
        for bad in ["usd", "US", "USDT", ""] {
            assert_eq!(Currency::check(bad), Err(Error::Currency), "{bad}");
        }
    }
}
