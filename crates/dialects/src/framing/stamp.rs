//! Times as text, fast. Every event and every task carries one, and the general printer of [`model::Time`] costs more
//! than all the rest of a status event.

use model::Time;

/// `2026-05-01T10:00:00.000Z`, for the years 1970 to 9999; `None` outside them.
pub(crate) fn stamp(time: Time) -> Option<[u8; 24]> {
    let total = u64::try_from(time.0).ok().filter(|ms| *ms < 253_402_300_800_000)?;
    let (days, ms) = (total / 86_400_000, u32::try_from(total % 86_400_000).ok()?);
    // The civil date of a day, as in `model::Time`: eras of 400 years from 1 March 0000, unsigned since it is after 1970.
    let z = u32::try_from(days).ok()? + 719_468;
    let (era, doe) = (z / 146_097, z % 146_097);
    let yoe = (doe - doe / 1_460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let day = doy - (153 * mp + 2) / 5 + 1;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    let year = yoe + era * 400 + u32::from(month <= 2);

    let mut text = *b"0000-00-00T00:00:00.000Z";
    two(&mut text, 0, year / 100);
    two(&mut text, 2, year % 100);
    two(&mut text, 5, month);
    two(&mut text, 8, day);
    two(&mut text, 11, ms / 3_600_000);
    two(&mut text, 14, ms / 60_000 % 60);
    two(&mut text, 17, ms / 1_000 % 60);
    text[20] = b'0' + (ms / 100 % 10) as u8;
    two(&mut text, 21, ms % 100);
    Some(text)
}

fn two(text: &mut [u8; 24], at: usize, number: u32) {
    text[at] = b'0' + (number / 10) as u8;
    text[at + 1] = b'0' + (number % 10) as u8;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_stamp_is_what_the_model_prints(ms in -10_000_000_i64..253_402_310_000_000) {
            if let Some(text) = stamp(Time(ms)) {
                prop_assert_eq!(std::str::from_utf8(&text).unwrap(), Time(ms).to_string());
            } else {
                prop_assert!(!(0..253_402_300_800_000).contains(&ms));
            }
        }
    }
}
