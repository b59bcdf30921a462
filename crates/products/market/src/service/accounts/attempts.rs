//! Counts wrong passwords by account and address, by account, and by address. Each one lengthens the wait before the
//! next attempt.
//!
//! A wait begins with the last wrong password of the same address, never with that of another. So an attacker cannot
//! lock the owner of an account out: the first attempt from an address is always checked. Attempts from other addresses
//! only take away the free attempts. An address with a recent login to an account does not wait because of attempts
//! with other accounts there.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;

use model::Time;

use crate::service::Error;

/// Wrong passwords for one account from one address before a wait.
pub(super) const FREE: u32 = 5;
/// Wrong passwords for one account, from all addresses, before each address has only one free attempt.
pub(super) const PRESSED: u32 = 50;
/// Wrong passwords from one address, for all accounts, before a wait.
pub(super) const FREE_OF_ADDRESS: u32 = 50;
/// The longest wait of an address for one account, and for all accounts.
pub(super) const LONGEST_S: u64 = 15 * 60;
pub(super) const LONGEST_OF_ADDRESS_S: u64 = 60;
/// Older attempts do not count.
const WINDOW_MS: i64 = LONGEST_S as i64 * 1_000;
/// Maximum number of entries of each of the three counters.
pub(super) const COUNTED: usize = 20_000;

/// The hash of an account's key.
pub(super) type AccountHash = [u8; 32];

#[derive(Clone, Copy, Default)]
struct Count {
    wrong: u32,
    /// Time of the last wrong password.
    at: Time,
    /// The right password was used since the process started.
    good: bool,
}

/// Counts of wrong passwords.
#[derive(Default)]
pub(super) struct Attempts {
    pairs: HashMap<(AccountHash, IpAddr), Count>,
    accounts: HashMap<AccountHash, Count>,
    addresses: HashMap<IpAddr, Count>,
}

/// The wait after this many wrong passwords, the first of which are free: one second, doubled with each further one.
fn wait_s(wrong: u32, free: u32, longest_s: u64) -> u64 {
    match wrong.checked_sub(free) {
        None => 0,
        Some(more) => 1_u64.checked_shl(more).unwrap_or(u64::MAX).min(longest_s),
    }
}

impl Count {
    fn is_over(&self, now: Time) -> bool {
        now.0.saturating_sub(self.at.0) >= WINDOW_MS
    }

    fn now(self, now: Time) -> Count {
        if self.is_over(now) { Count { wrong: 0, ..self } } else { self }
    }

    /// The remaining wait.
    fn left_s(&self, wait_s: u64, now: Time) -> u64 {
        let passed_ms = u64::try_from(now.0.saturating_sub(self.at.0)).unwrap_or_default();
        wait_s.saturating_mul(1_000).saturating_sub(passed_ms).div_ceil(1_000)
    }
}

fn entry<K: Copy + Eq + Hash>(counts: &mut HashMap<K, Count>, key: K, now: Time) -> &mut Count {
    if !counts.contains_key(&key) && counts.len() >= COUNTED {
        counts.retain(|_, count| !count.is_over(now));
        // Evicts the entry with the fewest attempts, so that many attempts elsewhere cannot evict a guessed account.
        if counts.len() >= COUNTED
            && let Some(least) = counts.iter().min_by_key(|(_, count)| (count.wrong, count.at)).map(|(key, _)| *key)
        {
            counts.remove(&least);
        }
    }
    let count = counts.entry(key).or_default();
    *count = count.now(now);
    count
}

impl Attempts {
    /// Counts an attempt as wrong before it is checked, so that concurrent attempts count too; or returns the wait.
    pub(super) fn count(&mut self, account: AccountHash, address: IpAddr, now: Time) -> Result<(), Error> {
        let known = |count: Option<&Count>| count.copied().unwrap_or_default().now(now);
        let pair = known(self.pairs.get(&(account, address)));
        let (all, here) = (known(self.accounts.get(&account)), known(self.addresses.get(&address)));
        let free = if all.wrong >= PRESSED && !pair.good { 1 } else { FREE };
        let mut left_s = pair.left_s(wait_s(pair.wrong, free, LONGEST_S), now);
        if !pair.good {
            left_s = left_s.max(here.left_s(wait_s(here.wrong, FREE_OF_ADDRESS, LONGEST_OF_ADDRESS_S), now));
        }
        if left_s > 0 {
            return Err(Error::TooFast { retry_after_s: left_s });
        }
        for count in [
            entry(&mut self.pairs, (account, address), now),
            entry(&mut self.accounts, account, now),
            entry(&mut self.addresses, address, now),
        ] {
            (count.wrong, count.at) = (count.wrong.saturating_add(1), now);
        }
        Ok(())
    }

    /// Records a right password: this attempt and the earlier ones from the same address do not count.
    pub(super) fn right(&mut self, account: AccountHash, address: IpAddr, now: Time) {
        let pair = entry(&mut self.pairs, (account, address), now);
        let mine = std::mem::take(&mut pair.wrong);
        (pair.good, pair.at) = (true, now);
        if let Some(count) = self.accounts.get_mut(&account) {
            count.wrong = count.wrong.saturating_sub(mine);
        }
        if let Some(count) = self.addresses.get_mut(&address) {
            count.wrong = count.wrong.saturating_sub(1);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.pairs.len().max(self.accounts.len()).max(self.addresses.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(number: usize) -> AccountHash {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&number.to_be_bytes());
        key
    }

    fn address(number: u32) -> IpAddr {
        IpAddr::V4(number.into())
    }

    fn refused(answer: Result<(), Error>) -> u64 {
        match answer {
            Err(Error::TooFast { retry_after_s }) => retry_after_s,
            Err(other) => panic!("refused for another reason: {other:?}"),
            Ok(()) => 0,
        }
    }

    const NOW: Time = Time(1_000_000_000);

    #[test]
    fn each_wrong_one_makes_the_next_wait_longer() {
        let (mut attempts, mut now) = (Attempts::default(), NOW);
        for _ in 0..FREE {
            attempts.count(account(1), address(1), now).unwrap();
        }
        for wait in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512] {
            assert_eq!(refused(attempts.count(account(1), address(1), now)), wait);
            now = now.plus_ms(wait * 1_000 - 1);
            assert_eq!(refused(attempts.count(account(1), address(1), now)), 1);
            now = now.plus_ms(1);
            attempts.count(account(1), address(1), now).unwrap();
        }
        assert_eq!(refused(attempts.count(account(1), address(1), now)), LONGEST_S);
    }

    #[test]
    fn no_others_keep_somebody_out() {
        let (mut attempts, mut now) = (Attempts::default(), NOW);
        for round in 0..100 {
            for other in 0..20 {
                let _ = attempts.count(account(1), address(100 + other), now);
            }
            now = now.plus_ms(1_000);
            let own = address(10_000 + round);
            assert_eq!(refused(attempts.count(account(1), own, now)), 0, "the first try of an address is looked at");
            attempts.right(account(1), own, now);
        }
        // An address waits after its own last attempt only, not after those of other addresses.
        attempts.count(account(1), address(1), now).unwrap();
        assert_eq!(refused(attempts.count(account(1), address(1), now)), 1);
        assert_eq!(refused(attempts.count(account(1), address(1), now.plus_ms(1_000))), 0);
    }

    #[test]
    fn an_address_that_tries_many_accounts_waits_and_a_known_one_there_does_not() {
        let mut attempts = Attempts::default();
        attempts.count(account(0), address(1), NOW).unwrap();
        attempts.right(account(0), address(1), NOW);
        for number in 1..=FREE_OF_ADDRESS as usize {
            attempts.count(account(number), address(1), NOW).unwrap();
        }
        assert_eq!(refused(attempts.count(account(9_999), address(1), NOW)), 1);
        assert_eq!(refused(attempts.count(account(0), address(1), NOW)), 0, "it was logged in from there");
        assert_eq!(refused(attempts.count(account(9_999), address(2), NOW)), 0);
    }

    #[test]
    fn a_right_one_does_not_free_an_address_that_guesses_at_others() {
        let mut attempts = Attempts::default();
        for number in 1..=FREE_OF_ADDRESS as usize {
            attempts.count(account(number), address(1), NOW).unwrap();
            if number % 10 == 0 {
                attempts.count(account(0), address(1), NOW).unwrap();
                attempts.right(account(0), address(1), NOW);
            }
        }
        assert_eq!(refused(attempts.count(account(9_999), address(1), NOW)), 1);
    }

    #[test]
    fn many_tries_elsewhere_do_not_make_one_forgotten() {
        let mut attempts = Attempts::default();
        let (theirs, from) = (account(usize::MAX), address(1));
        for _ in 0..FREE {
            attempts.count(theirs, from, NOW).unwrap();
        }
        for number in 0..COUNTED + 100 {
            attempts.count(account(number), address(100_000 + number as u32), NOW).unwrap();
        }
        assert_eq!(attempts.len(), COUNTED);
        assert_eq!(refused(attempts.count(theirs, from, NOW)), 1);
        attempts.count(account(COUNTED + 100), address(5), NOW.plus_ms(WINDOW_MS as u64)).unwrap();
        assert_eq!(attempts.len(), 1, "what is over is forgotten first");
    }
}
