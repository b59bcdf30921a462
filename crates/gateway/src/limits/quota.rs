//! The daily quota: calls of each caller in one UTC day. The counts are in memory and, a few seconds later, in a file
//! beside the data, so that a restart does not reset them; a crash may lose the last seconds.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use model::Caller;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

const DAY: i64 = 86_400;
/// Above this many callers, new callers without a credential share one count.
const CALLERS: usize = 100_000;

/// The subject of a count: tenant and name, or an address.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct QuotaKey {
    tenant: Arc<str>,
    name: Arc<str>,
    known: bool,
}

impl QuotaKey {
    pub(crate) fn new(caller: &Caller, address: IpAddr) -> QuotaKey {
        if caller.authenticated {
            return QuotaKey { tenant: caller.tenant.clone(), name: caller.name.clone(), known: true };
        }
        // No tenant has an empty name, so no caller's name equals an address.
        QuotaKey { tenant: "".into(), name: super::network_of(address).to_string().into(), known: false }
    }

    fn others() -> QuotaKey {
        QuotaKey { tenant: "".into(), name: "others".into(), known: false }
    }
}

/// A caller and its calls of today. An address has an empty tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DailyUse {
    pub(crate) tenant: Arc<str>,
    pub(crate) name: Arc<str>,
    pub(crate) calls: u64,
}

pub(crate) struct Quota {
    most: u64,
    file: Option<PathBuf>,
    today: Arc<Mutex<Today>>,
}

#[derive(Default)]
struct Today {
    /// Days since 1970.
    day: i64,
    counts: HashMap<QuotaKey, u64>,
    changed: bool,
}

/// The file: the day, and the counts by tenant and name.
#[derive(Serialize, Deserialize)]
struct QuotaFile {
    day: i64,
    counts: BTreeMap<Arc<str>, BTreeMap<Arc<str>, u64>>,
}

impl Quota {
    pub(crate) fn new(most: u64, file: Option<PathBuf>) -> Quota {
        let mut today = Today::default();
        if let Some(file) = &file {
            match read(file) {
                Ok(written) => today = written,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => {
                    tracing::warn!(%error, "{} cannot be read; today's calls are counted anew", file.display());
                }
            }
        }
        Quota { most, file, today: Arc::new(Mutex::new(today)) }
    }

    /// Another limit with the same counts.
    pub(crate) fn of(&self, most: u64) -> Quota {
        Quota { most, file: self.file.clone(), today: self.today.clone() }
    }

    /// Counts one call of today; the error is the time until tomorrow.
    pub(crate) fn take(&self, who: &QuotaKey, now_s: i64) -> Result<(), Duration> {
        let day = now_s.div_euclid(DAY);
        let mut today = self.today.lock();
        // A clock that is set back does not start a new day.
        if day > today.day {
            *today = Today { day, ..Today::default() };
        }
        let crowded = today.counts.len() >= CALLERS && !who.known && !today.counts.contains_key(who);
        let who = if crowded { QuotaKey::others() } else { who.clone() };
        let count = today.counts.entry(who).or_default();
        if *count >= self.most {
            let left = DAY - now_s.rem_euclid(DAY);
            return Err(Duration::from_secs(u64::try_from(left).unwrap_or(1)));
        }
        *count += 1;
        today.changed = true;
        Ok(())
    }

    pub(crate) fn most(&self) -> u64 {
        self.most
    }

    /// The callers with the most calls today.
    pub(crate) fn highest(&self, limit: usize, now_s: i64) -> Vec<DailyUse> {
        let today = self.today.lock();
        if now_s.div_euclid(DAY) > today.day {
            return Vec::new();
        }
        let one = |(who, calls): (&QuotaKey, &u64)| DailyUse {
            tenant: who.tenant.clone(),
            name: who.name.clone(),
            calls: *calls,
        };
        let mut all: Vec<DailyUse> = today.counts.iter().map(one).collect();
        drop(today);
        all.sort_by(|a, b| b.calls.cmp(&a.calls).then_with(|| (&a.tenant, &a.name).cmp(&(&b.tenant, &b.name))));
        all.truncate(limit);
        all
    }

    /// Writes the counts to the file, if they changed.
    pub(crate) fn write(&self) {
        let Some(file) = &self.file else { return };
        let written = {
            let mut today = self.today.lock();
            if !std::mem::take(&mut today.changed) {
                return;
            }
            let mut counts: BTreeMap<Arc<str>, BTreeMap<Arc<str>, u64>> = BTreeMap::new();
            for (who, count) in &today.counts {
                counts.entry(who.tenant.clone()).or_default().insert(who.name.clone(), *count);
            }
            QuotaFile { day: today.day, counts }
        };
        if let Err(error) = replace(file, &written) {
            tracing::error!(%error, "the day's calls could not be written to {}", file.display());
            self.today.lock().changed = true;
        }
    }
}

fn read(file: &Path) -> std::io::Result<Today> {
    let written: QuotaFile = serde_json::from_slice(&std::fs::read(file)?)?;
    let each = written.counts.into_iter().flat_map(|(tenant, names)| {
        let known = !tenant.is_empty();
        names.into_iter().map(move |(name, count)| (QuotaKey { tenant: tenant.clone(), name, known }, count))
    });
    Ok(Today { day: written.day, counts: each.collect(), changed: false })
}

/// Replaces the file atomically, so that a power failure leaves a whole one.
fn replace(file: &Path, written: &QuotaFile) -> std::io::Result<()> {
    let beside = file.with_extension("json.new");
    let mut out = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    out.write_all(&serde_json::to_vec(written)?)?;
    out.sync_data()?;
    std::fs::rename(&beside, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(name: &str) -> QuotaKey {
        let caller = Caller { name: name.into(), authenticated: true, ..Caller::anonymous() };
        QuotaKey::new(&caller, IpAddr::from([127, 0, 0, 1]))
    }

    #[test]
    fn a_day_ends_at_midnight_in_greenwich() {
        let quota = Quota::new(2, None);
        let evening = 20_000 * DAY + DAY - 100;
        for _ in 0..2 {
            quota.take(&caller("ann"), evening).unwrap();
        }
        assert_eq!(quota.take(&caller("ann"), evening + 10), Err(Duration::from_secs(90)));
        assert_eq!(quota.take(&caller("bob"), evening), Ok(()));
        assert_eq!(quota.take(&caller("ann"), evening + 100), Ok(()), "tomorrow");
        assert!(quota.take(&caller("ann"), evening).is_ok(), "a clock put back stays in the newer day");
        assert!(quota.take(&caller("ann"), evening).is_err());
    }

    #[test]
    fn counts_survive_a_restart_and_a_broken_file_stops_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("quota.json");
        let quota = Quota::new(2, Some(file.clone()));
        let now = 20_000 * DAY;
        let stranger = QuotaKey::new(&Caller::anonymous(), "2001:db8::1".parse().unwrap());
        quota.take(&caller("ann"), now).unwrap();
        quota.take(&caller("ann"), now).unwrap();
        quota.take(&stranger, now).unwrap();
        quota.write();
        let again = Quota::new(2, Some(file.clone()));
        assert!(again.take(&caller("ann"), now).is_err());
        assert!(again.take(&stranger, now).is_ok());
        let neighbour = QuotaKey::new(&Caller::anonymous(), "2001:db8::ffff".parse().unwrap());
        assert!(again.take(&neighbour, now).is_err(), "a network of one household is one caller");
        std::fs::write(&file, "{").unwrap();
        assert!(Quota::new(2, Some(file)).take(&caller("ann"), now).is_ok());
    }
}
