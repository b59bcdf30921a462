//! Sales of a capability in the current day and minute, which the limits of its seller are checked against.
//!
//! There is one row per capability, replaced by every counted sale, so that past windows leave no rows. The commit of a
//! sale is conditional on the row it was checked against: concurrent buyers cannot exceed the limit. A purchase that is
//! cancelled later stays counted.

use model::Time;
use serde::{Deserialize, Serialize};

use crate::capability::CapabilityTerms;
use crate::error::{Error, Per};

const MINUTE_MS: i64 = 60_000;
const DAY_MS: i64 = 86_400_000;
/// Tolerated clock skew. A last sale that is further in the future was counted while a clock was wrong, and is ignored.
const SKEW_MS: i64 = 60_000;

/// The counts as of the last counted sale. Days and minutes are those of UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sales {
    pub last: Time,
    pub today: u32,
    pub this_minute: u32,
}

impl Sales {
    /// When the next sale takes place: now, but not before the last one that was counted. A sale is therefore never
    /// dated into a window that another process has closed already.
    pub fn next_at(&self, now: Time) -> Time {
        let ahead = self.last.0.saturating_sub(now.0);
        if (0..=SKEW_MS).contains(&ahead) { self.last } else { now }
    }

    /// The counts of the day and the minute of this time.
    pub fn at(&self, time: Time) -> Sales {
        let is_same = |ms: i64| self.last.0.div_euclid(ms) == time.0.div_euclid(ms);
        Sales {
            last: self.last,
            today: if is_same(DAY_MS) { self.today } else { 0 },
            this_minute: if is_same(MINUTE_MS) { self.this_minute } else { 0 },
        }
    }

    /// The row after a sale at this time.
    pub fn with_one(&self, time: Time) -> Sales {
        let before = self.at(time);
        Sales { last: time, today: before.today.saturating_add(1), this_minute: before.this_minute.saturating_add(1) }
    }

    /// Refuses a sale at this time for which a limit has no room.
    pub fn check(&self, terms: &CapabilityTerms, time: Time) -> Result<(), Error> {
        let sold = self.at(time);
        for (per, limit, sold, ms) in [
            (Per::Minute, terms.rate_limit_per_min, sold.this_minute, MINUTE_MS),
            (Per::Day, terms.daily_limit, sold.today, DAY_MS),
        ] {
            if let Some(limit) = limit.filter(|limit| sold >= *limit) {
                let again_at = Time(time.0.div_euclid(ms).saturating_add(1).saturating_mul(ms));
                return Err(Error::Quota { per, limit, again_at });
            }
        }
        Ok(())
    }

    /// The beginning of this time's day; earlier sales do not count.
    pub fn day_of(time: Time) -> Time {
        Time(time.0.div_euclid(DAY_MS).saturating_mul(DAY_MS))
    }

    /// The row of a capability that has none yet, from the times of its sales.
    pub fn counted(times: impl IntoIterator<Item = Time>, now: Time) -> Sales {
        let mut sales = Sales { last: now, ..Sales::default() };
        let is_in = |time: Time, ms: i64| u32::from(time.0.div_euclid(ms) == now.0.div_euclid(ms));
        for time in times {
            sales.today = sales.today.saturating_add(is_in(time, DAY_MS));
            sales.this_minute = sales.this_minute.saturating_add(is_in(time, MINUTE_MS));
        }
        sales
    }
}

#[cfg(test)]
#[path = "quota_tests.rs"]
mod tests;
