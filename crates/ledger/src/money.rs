//! Money: integer hundredths, never a float. A text with more digits is refused, not rounded; only commissions are rounded,
//! half up.

use std::fmt;

use model::Json;
use serde::{Deserialize, Serialize};

/// An amount of UT in hundredths. It may be negative: a debit is a negative amount.
///
/// ```
/// use ledger::Ut;
/// assert_eq!(Ut::parse("120.00").unwrap().to_string(), "120");
/// assert_eq!(Ut::parse("0.5").unwrap().hundredths(), 50);
/// assert!(Ut::parse("0.005").is_err());
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ut(i64);

/// Why a text is no amount or no rate, in words for its author.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("must be a decimal number such as \"120\" or \"0.5\"")]
    Shape,
    #[error("must have at most {0} digits after the point")]
    Digits(u32),
    #[error("is too large: the most is {}", Ut::MOST)]
    TooLarge,
    #[error("must be between 0 and 1, such as \"0.10\" for a tenth")]
    Rate,
}

impl Ut {
    pub const ZERO: Ut = Ut(0);
    /// The largest amount in a request. It is far below the range of the number, so that sums of many amounts fit.
    pub const MOST: Ut = Ut(1_000_000_000_000_000);

    pub const fn from_hundredths(hundredths: i64) -> Ut {
        Ut(hundredths)
    }
    pub const fn hundredths(self) -> i64 {
        self.0
    }

    /// Reads `-?digits[.d[d]]`.
    pub fn parse(text: &str) -> Result<Ut, Error> {
        let hundredths = decimal(text, 2)?;
        if hundredths.unsigned_abs() > Ut::MOST.0.unsigned_abs() {
            return Err(Error::TooLarge);
        }
        Ok(Ut(hundredths))
    }

    /// Reads a JSON number, or a string with a number in it, from its text and without a float.
    pub fn from_json(json: &Json) -> Result<Ut, Error> {
        let text = json.text();
        if text.starts_with('"') {
            let inner: String = serde_json::from_str(text).map_err(|_| Error::Shape)?;
            return Ut::parse(&inner);
        }
        Ut::parse(text)
    }

    pub fn is_zero(self) -> bool {
        self.0 == 0
    }
    pub fn is_negative(self) -> bool {
        self.0 < 0
    }
    pub fn is_positive(self) -> bool {
        self.0 > 0
    }
    #[must_use]
    pub fn plus(self, other: Ut) -> Option<Ut> {
        self.0.checked_add(other.0).map(Ut)
    }
    #[must_use]
    pub fn minus(self, other: Ut) -> Option<Ut> {
        self.0.checked_sub(other.0).map(Ut)
    }
    #[must_use]
    pub fn times(self, n: i64) -> Option<Ut> {
        self.0.checked_mul(n).map(Ut)
    }
    #[must_use]
    pub fn negated(self) -> Option<Ut> {
        self.0.checked_neg().map(Ut)
    }
    /// `None` when it does not fit.
    pub fn sum(amounts: impl IntoIterator<Item = Ut>) -> Option<Ut> {
        amounts.into_iter().try_fold(Ut::ZERO, Ut::plus)
    }
}

/// Without trailing zeros: `120`, `0.5`, `-3.07`.
impl fmt::Display for Ut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, size) = (if self.0 < 0 { "-" } else { "" }, self.0.unsigned_abs());
        match (size / 100, size % 100) {
            (whole, 0) => write!(f, "{sign}{whole}"),
            (whole, tenths) if tenths % 10 == 0 => write!(f, "{sign}{whole}.{}", tenths / 10),
            (whole, hundredths) => write!(f, "{sign}{whole}.{hundredths:02}"),
        }
    }
}
impl fmt::Debug for Ut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A share between 0 and 1, in millionths.
///
/// ```
/// use ledger::{Rate, Ut};
/// let rate = Rate::parse("0.10").unwrap();
/// assert_eq!(rate.of(Ut::parse("120").unwrap()).to_string(), "12");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Rate(u32);

const WHOLE: u32 = 1_000_000;

impl Rate {
    pub const ZERO: Rate = Rate(0);
    pub const TENTH: Rate = Rate(100_000);

    /// Reads a fraction such as `0.10`, with at most six digits.
    pub fn parse(text: &str) -> Result<Rate, Error> {
        let millionths = match decimal(text, 6) {
            Err(Error::TooLarge) => return Err(Error::Rate),
            read => read?,
        };
        u32::try_from(millionths).map_err(|_| Error::Rate)?.try_into()
    }

    /// The share of an amount, rounded half up. It is never more than an amount that is not negative.
    pub fn of(self, amount: Ut) -> Ut {
        let exact = i128::from(amount.0) * i128::from(self.0);
        let rounded = (exact + i128::from(WHOLE / 2)).div_euclid(i128::from(WHOLE));
        // At most the amount itself, which fits.
        Ut(i64::try_from(rounded).unwrap_or(amount.0))
    }
}

impl TryFrom<u32> for Rate {
    type Error = Error;
    fn try_from(millionths: u32) -> Result<Rate, Error> {
        if millionths > WHOLE { Err(Error::Rate) } else { Ok(Rate(millionths)) }
    }
}
impl From<Rate> for u32 {
    fn from(rate: Rate) -> u32 {
        rate.0
    }
}

/// Reads a decimal number as millionths.
pub fn millionths(text: &str) -> Result<i64, Error> {
    decimal(text, 6)
}

/// A decimal text as an integer of its `digits`-th decimal place.
fn decimal(text: &str, digits: u32) -> Result<i64, Error> {
    let (negative, size) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (whole, fraction) = match size.split_once('.') {
        Some((_, "")) => return Err(Error::Shape),
        Some(pair) => pair,
        None => (size, ""),
    };
    let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !all_digits(whole) || !all_digits(fraction) {
        return Err(Error::Shape);
    }
    let written = u32::try_from(fraction.len()).unwrap_or(u32::MAX);
    if written > digits {
        return Err(Error::Digits(digits));
    }
    let mut number: i64 = 0;
    for byte in whole.bytes().chain(fraction.bytes()) {
        let digit = i64::from(byte - b'0');
        number = number.checked_mul(10).and_then(|n| n.checked_add(digit)).ok_or(Error::TooLarge)?;
    }
    number = number.checked_mul(10_i64.pow(digits - written)).ok_or(Error::TooLarge)?;
    Ok(if negative { -number } else { number })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ut(hundredths: i64) -> Ut {
        Ut::from_hundredths(hundredths)
    }

    #[test]
    fn amounts_read_as_people_and_json_write_them() {
        for (text, hundredths) in
            [("120", 12_000), ("120.00", 12_000), ("0.5", 50), ("0.05", 5), ("-3.07", -307), ("007", 700), ("-0", 0)]
        {
            assert_eq!(Ut::parse(text), Ok(ut(hundredths)), "{text}");
        }
        for (json, read) in [
            ("120", Ok(ut(12_000))),
            ("0.1", Ok(ut(10))),
            ("\"0.10\"", Ok(ut(10))),
            // As a float this would be a hundredth more.
            ("9999999999999.99", Ok(ut(999_999_999_999_999))),
            ("10000000000000.01", Err(Error::TooLarge)),
            ("1e2", Err(Error::Shape)),
            ("null", Err(Error::Shape)),
            ("[1]", Err(Error::Shape)),
            ("0.125", Err(Error::Digits(2))),
        ] {
            assert_eq!(Ut::from_json(&Json::parse(json).unwrap()), read, "{json}");
        }
    }

    #[test]
    fn what_is_no_amount_is_refused_with_words() {
        for text in ["", "-", ".5", "5.", "+5", "1,5", "1 ", "0x10", "1.2.3", "--1", "٣", "NaN"] {
            assert_eq!(Ut::parse(text), Err(Error::Shape), "{text}");
        }
        assert_eq!(Ut::parse("1.000"), Err(Error::Digits(2)));
        assert_eq!(Ut::parse("99999999999999999999"), Err(Error::TooLarge));
        assert_eq!(Ut::parse("92233720368547758.08"), Err(Error::TooLarge));
        assert_eq!(Error::TooLarge.to_string(), "is too large: the most is 10000000000000");
        assert_eq!(Error::Digits(2).to_string(), "must have at most 2 digits after the point");
    }

    #[test]
    fn amounts_print_without_trailing_zeros() {
        for (hundredths, text) in [(0, "0"), (12_000, "120"), (50, "0.5"), (5, "0.05"), (-5, "-0.05"), (-1210, "-12.1")]
        {
            assert_eq!(ut(hundredths).to_string(), text);
        }
        assert_eq!(ut(i64::MIN).to_string(), "-92233720368547758.08");
    }

    #[test]
    fn a_commission_is_rounded_half_up() {
        let tenth = Rate::parse("0.10").unwrap();
        assert_eq!(tenth, Rate::TENTH);
        for (price, commission) in [(12_000, 1_200), (4, 0), (5, 1), (14, 1), (15, 2), (0, 0)] {
            assert_eq!(tenth.of(ut(price)), ut(commission), "{price}");
        }
        assert_eq!(Rate::parse("1").unwrap().of(ut(7)), ut(7));
        assert_eq!(Rate::parse("0.000001").unwrap().of(Ut::MOST), ut(1_000_000_000));
        for bad in ["1.000001", "-0.1", "2", "10000000000000"] {
            assert_eq!(Rate::parse(bad), Err(Error::Rate), "{bad}");
        }
        assert_eq!(Rate::parse("0.0000001"), Err(Error::Digits(6)));
        assert_eq!(Rate::parse("10%"), Err(Error::Shape));
        assert!(serde_json::from_str::<Rate>("1000001").is_err());
    }

    #[test]
    fn sums_that_do_not_fit_are_no_sums() {
        assert_eq!(ut(i64::MAX).plus(ut(1)), None);
        assert_eq!(ut(i64::MIN).minus(ut(1)), None);
        assert_eq!(ut(i64::MIN).negated(), None);
        assert_eq!(Ut::MOST.times(100_000), None);
        assert_eq!(Ut::sum([ut(i64::MAX), ut(1)]), None);
        assert_eq!(Ut::sum([ut(3), ut(-5)]), Some(ut(-2)));
    }

    proptest! {
        #[test]
        fn a_printed_amount_reads_back(hundredths in -Ut::MOST.0..=Ut::MOST.0) {
            let text = ut(hundredths).to_string();
            prop_assert_eq!(Ut::parse(&text), Ok(ut(hundredths)));
            prop_assert!(!text.contains('.') || !text.ends_with('0'));
        }

        #[test]
        fn a_commission_is_never_more_than_half_a_hundredth_off(price in 0..=Ut::MOST.0, millionths in 0..=WHOLE) {
            let commission = Rate(millionths).of(ut(price));
            prop_assert!(!commission.is_negative() && commission <= ut(price));
            let off = i128::from(commission.0) * i128::from(WHOLE) - i128::from(price) * i128::from(millionths);
            prop_assert!(-i128::from(WHOLE / 2) < off && off <= i128::from(WHOLE / 2));
        }
    }
}
