//! The cost of an agent's turns: prices, usage, and the amount that is held in advance.
//!
//! Rates may be finer than an amount, in millionths of UT. A cost is computed exactly and rounded once, at the end and
//! up to a whole hundredth; it is never more than the amount that was held for the turn.

mod turn;

use std::fmt;

use model::{State, Time};
use serde::{Deserialize, Serialize};

use ledger::money::{self, Ut, millionths};

pub use turn::{Budgeted, TurnHold};

/// A rate: UT per thousand units or per second, in millionths.
///
/// ```
/// use market_rules::tariff::Fine;
/// assert_eq!(Fine::parse("0.0025").unwrap().to_string(), "0.0025");
/// assert!(Fine::parse("0.0000001").is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fine(u64);

impl Fine {
    pub const ZERO: Fine = Fine(0);

    /// Reads a decimal number that is not negative, with at most six digits after the point.
    pub fn parse(text: &str) -> Result<Fine, money::Error> {
        u64::try_from(millionths(text)?).map(Fine).map_err(|_| money::Error::Shape)
    }
    pub const fn from_millionths(millionths: u64) -> Fine {
        Fine(millionths)
    }
    pub fn is_zero(self) -> bool {
        self.0 == 0
    }
}

/// Without trailing zeros.
impl fmt::Display for Fine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 1_000_000, self.0 % 1_000_000);
        if rest == 0 {
            return write!(f, "{whole}");
        }
        let rest = format!("{rest:06}");
        write!(f, "{whole}.{}", rest.trim_end_matches('0'))
    }
}

/// Costs are summed in billionths of UT: a rate per thousand tokens is that many billionths per token, a rate per
/// second that many per millisecond. This is the number of billionths in a hundredth.
const PARTS_OF_A_HUNDREDTH: u128 = 10_000_000;

/// The price of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Price {
    /// Charged with the first turn of a task.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub per_task: Ut,
    /// Charged with each turn.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub per_turn: Ut,
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub per_1k_input: Fine,
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub per_1k_output: Fine,
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub per_second: Fine,
    /// Maximum cost of a turn; required where something is metered.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub hold: Ut,
}

fn is_nothing<T: Default + PartialEq>(amount: &T) -> bool {
    *amount == T::default()
}

/// Reasons why a price is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unpriced {
    #[error("an amount is below zero; write one from 0 on")]
    Negative,
    #[error("everything in it is 0; name an amount above it, or leave price out")]
    Nothing,
    #[error("hold is missing: what is metered needs one, the most a turn may cost, such as hold: \"5\"")]
    NoHold,
    #[error("hold is {hold}, less than the {fixed} that per_task and per_turn come to; raise it")]
    HoldTooSmall { hold: Ut, fixed: Ut },
    #[error("per_task and per_turn are together more than {}; lower them", Ut::MOST)]
    TooLarge,
}

impl Price {
    /// Validates the price.
    pub fn check(self) -> Result<Price, Unpriced> {
        if [self.per_task, self.per_turn, self.hold].into_iter().any(Ut::is_negative) {
            return Err(Unpriced::Negative);
        }
        let fixed = self.per_task.plus(self.per_turn).filter(|fixed| *fixed <= Ut::MOST).ok_or(Unpriced::TooLarge)?;
        if !self.is_metered() && fixed.is_zero() {
            return Err(Unpriced::Nothing);
        }
        if self.is_metered() && self.hold.is_zero() {
            return Err(Unpriced::NoHold);
        }
        if self.is_metered() && self.hold < fixed {
            return Err(Unpriced::HoldTooSmall { hold: self.hold, fixed });
        }
        Ok(self)
    }

    /// Whether the cost of a turn depends on its usage.
    pub fn is_metered(&self) -> bool {
        [self.per_1k_input, self.per_1k_output, self.per_second].into_iter().any(|rate| !rate.is_zero())
    }

    /// The amount to hold for a turn; zero for a free turn.
    pub fn held(&self, first: bool) -> Ut {
        if self.is_metered() { self.hold } else { self.fixed(first) }
    }

    fn fixed(&self, first: bool) -> Ut {
        // A checked price fits; the cost of an unchecked one is limited to the held amount.
        if first { self.per_task.plus(self.per_turn).unwrap_or(Ut::MOST) } else { self.per_turn }
    }

    /// The cost of a turn with this usage and this end; never more than [`Price::held`].
    pub fn cost(&self, first: bool, used: &Usage, owed: Owed) -> Ut {
        let (fixed, seconds) = match owed {
            Owed::All => (self.fixed(first), true),
            Owed::Tokens => (Ut::ZERO, false),
            Owed::Nothing => return Ut::ZERO,
        };
        let of = |rate: Fine, count: u64| u128::from(rate.0) * u128::from(count);
        let metered = of(self.per_1k_input, used.input_tokens)
            .saturating_add(of(self.per_1k_output, used.output_tokens))
            .saturating_add(if seconds { of(self.per_second, used.ran_ms) } else { 0 });
        let hundredths = i64::try_from(metered.div_ceil(PARTS_OF_A_HUNDREDTH)).unwrap_or(i64::MAX);
        let held = self.held(first);
        fixed.plus(Ut::from_hundredths(hundredths)).map_or(held, |cost| cost.min(held))
    }
}

/// The usage of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub ran_ms: u64,
}

impl Usage {
    /// Reads the tokens of a `usage` object, under the member names of either generation of model APIs. A member that
    /// is absent or not a number counts as zero.
    pub fn told(usage: Option<&serde_json::Value>, ran_ms: u64) -> Usage {
        let read = |names: [&str; 3]| names.iter().find_map(|name| usage?.get(name)?.as_u64()).unwrap_or_default();
        Usage {
            input_tokens: read(["input_tokens", "prompt_tokens", "input"]),
            output_tokens: read(["output_tokens", "completion_tokens", "output"]),
            ran_ms,
        }
    }
}

/// The parts of a price that are owed, by the end of the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owed {
    All,
    /// The used tokens only, without the fixed part and the time.
    Tokens,
    Nothing,
}

impl Owed {
    /// A completed or canceled turn is charged in full. A failed turn is charged for the tokens it used; a rejected
    /// turn is free.
    pub fn by(state: State) -> Owed {
        match state {
            State::Completed
            | State::InputRequired
            | State::AuthRequired
            | State::Canceled
            | State::Working
            | State::Submitted => Owed::All,
            State::Failed => Owed::Tokens,
            State::Rejected => Owed::Nothing,
        }
    }
}

/// The amount that may be spent in a window of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    pub amount: Ut,
    pub window: Window,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// A day of UTC.
    Day,
    /// A month of UTC.
    Month,
    /// Without end.
    Total,
}

impl Window {
    pub fn name(self) -> &'static str {
        match self {
            Window::Day => "day",
            Window::Month => "month",
            Window::Total => "total",
        }
    }

    /// The unique name of the window that contains this time.
    pub fn at(self, now: Time) -> String {
        let day = crate::autonomy::day(now);
        match self {
            Window::Day => {
                let (year, month, day) = civil(day);
                format!("{year:04}-{month:02}-{day:02}")
            }
            Window::Month => {
                let (year, month, _) = civil(day);
                format!("{year:04}-{month:02}")
            }
            Window::Total => "total".to_owned(),
        }
    }
}

/// Year, month and day of a day since 1970 in the proleptic Gregorian calendar, by Howard Hinnant's algorithm: years
/// begin in March, so that the leap day is the last of the year.
fn civil(day: i64) -> (i64, i64, i64) {
    let shifted = day + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
#[path = "tariff/tests.rs"]
mod tests;
