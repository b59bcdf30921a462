//! Limits of one caller: calls a minute, calls a day, streams and waiting calls at a time. All of them are off by
//! default; then a server has no throttle at all, and a call costs one branch.
//!
//! A caller with a credential is counted by tenant and name. Callers without one share a name, so they are counted by
//! their network address; so are failed credentials.

mod quota;

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use model::{Caller, Fault, Kind};
use tokio_util::sync::CancellationToken;
use web::client_address::network_of;
use web::concurrency::{ConcurrencyLimit, ConcurrencyPermit};
use web::limiter::{Limiter, RateLimit};

use crate::GatewayVersion;
use crate::metrics::RateLimited;

/// Time between removals of unused limiter entries.
const TIDY_EVERY: Duration = Duration::from_secs(60);
/// Time between writes of the day's counts, if they changed.
const WRITE_EVERY: Duration = Duration::from_secs(5);

/// The configured limits.
#[derive(Clone, Debug, Default)]
pub struct ThrottleLimits {
    pub per_caller: Option<RateLimit>,
    pub per_ip: Option<RateLimit>,
    pub per_tenant: Option<RateLimit>,
    pub streams_per_caller: Option<u32>,
    /// Sends that wait until their task rests.
    pub waiting_per_caller: Option<u32>,
    /// Calls of one caller in one UTC day.
    pub daily_calls: Option<u64>,
    /// The file that keeps the day's counts over a restart.
    pub quota_file: Option<PathBuf>,
}

impl ThrottleLimits {
    fn is_any(&self) -> bool {
        let rates = self.per_caller.is_some() || self.per_ip.is_some() || self.per_tenant.is_some();
        rates || self.streams_per_caller.is_some() || self.waiting_per_caller.is_some() || self.daily_calls.is_some()
    }
}

/// A rate, and the state of its limiter.
type RateLimiter = (RateLimit, Arc<Limiter>);
/// The limit, and the permits that are taken.
type PermitPool = (u32, Arc<ConcurrencyLimit>);

pub struct Throttle {
    per_caller: Option<RateLimiter>,
    per_ip: Option<RateLimiter>,
    per_tenant: Option<RateLimiter>,
    streams: Option<PermitPool>,
    waiting: Option<PermitPool>,
    daily: Option<quota::Quota>,
    /// Random for each process, so that a caller cannot choose a name that collides with another's.
    hasher: RandomState,
    refusals: RateLimited,
}

impl Throttle {
    /// None where nothing is limited. Use that `before` counted against the same limit stays counted.
    pub(crate) fn new(limits: &ThrottleLimits, refusals: RateLimited, before: Option<&Throttle>) -> Option<Throttle> {
        let rated = |rate: Option<RateLimit>, before: Option<&RateLimiter>| {
            let rate = rate?;
            let known = before.filter(|(known, _)| *known == rate).map(|(_, limiter)| limiter.clone());
            Some((rate, known.unwrap_or_else(|| Arc::new(Limiter::new(rate)))))
        };
        let places = |most: Option<u32>, before: Option<&PermitPool>| {
            most.map(|most| (most, before.map(|(_, permits)| permits.clone()).unwrap_or_default()))
        };
        let daily = |most: u64| match before.and_then(|before| before.daily.as_ref()) {
            Some(quota) => quota.of(most),
            None => quota::Quota::new(most, limits.quota_file.clone()),
        };
        limits.is_any().then(|| Throttle {
            per_caller: rated(limits.per_caller, before.and_then(|before| before.per_caller.as_ref())),
            per_ip: rated(limits.per_ip, before.and_then(|before| before.per_ip.as_ref())),
            per_tenant: rated(limits.per_tenant, before.and_then(|before| before.per_tenant.as_ref())),
            streams: places(limits.streams_per_caller, before.and_then(|before| before.streams.as_ref())),
            waiting: places(limits.waiting_per_caller, before.and_then(|before| before.waiting.as_ref())),
            daily: limits.daily_calls.map(daily),
            hasher: before.map(|before| before.hasher.clone()).unwrap_or_default(),
            refusals,
        })
    }

    /// Counts a request from an address, before its caller is identified.
    pub(crate) fn check_rate(&self, address: IpAddr) -> Result<(), Fault> {
        let Some((_, limiter)) = &self.per_ip else { return Ok(()) };
        limiter.take(self.hasher.hash_one(network_of(address))).map_err(|wait| self.refuse("per_ip", wait))
    }

    /// Counts a failed credential: a guess counts against its address once more.
    pub fn failed(&self, address: IpAddr) -> Result<(), Fault> {
        self.check_rate(address)?;
        let Some((_, limiter)) = &self.per_caller else { return Ok(()) };
        limiter.take(self.hasher.hash_one(network_of(address))).map_err(|wait| self.refuse("per_caller", wait))
    }

    /// Counts a call of an identified caller.
    pub fn admit(&self, caller: &Caller, address: IpAddr) -> Result<(), Fault> {
        if let Some((_, limiter)) = &self.per_caller {
            limiter.take(self.key(caller, address)).map_err(|wait| self.refuse("per_caller", wait))?;
        }
        if let Some((_, limiter)) = &self.per_tenant {
            limiter.take(self.hasher.hash_one(&*caller.tenant)).map_err(|wait| self.refuse("per_tenant", wait))?;
        }
        if let Some(quota) = &self.daily {
            let now = jiff::Timestamp::now().as_second();
            quota.take(&quota::QuotaKey::new(caller, address), now).map_err(|wait| {
                self.count("daily_calls");
                let message = "you have made all the calls of today; go on tomorrow (UTC), or ask for more";
                Fault::new(Kind::RateLimited, message).retry_after(seconds(wait))
            })?;
        }
        Ok(())
    }

    /// A permit for one of the caller's streams, given back when it is dropped.
    pub fn stream(&self, caller: &Caller, address: IpAddr) -> Result<Option<ConcurrencyPermit>, Fault> {
        self.permit(&self.streams, "streams_per_caller", caller, address)
    }

    /// A permit for one of the caller's waiting calls, given back when it is dropped.
    pub fn waiting(&self, caller: &Caller, address: IpAddr) -> Result<Option<ConcurrencyPermit>, Fault> {
        self.permit(&self.waiting, "waiting_per_caller", caller, address)
    }

    fn permit(
        &self,
        places: &Option<PermitPool>,
        limit: &'static str,
        caller: &Caller,
        address: IpAddr,
    ) -> Result<Option<ConcurrencyPermit>, Fault> {
        let Some((most, permits)) = places else { return Ok(None) };
        ConcurrencyLimit::take(permits, self.key(caller, address), *most).map(Some).ok_or_else(|| {
            self.count(limit);
            let message = match limit {
                "streams_per_caller" => format!("you have {most} streams open, which is the limit; close one first"),
                _ => format!("you have {most} calls waiting, which is the limit; send with returnImmediately, or wait"),
            };
            Fault::new(Kind::RateLimited, message).retry_after(1)
        })
    }

    fn key(&self, caller: &Caller, address: IpAddr) -> u64 {
        if caller.authenticated {
            return self.hasher.hash_one((&*caller.tenant, &*caller.name));
        }
        self.hasher.hash_one(network_of(address))
    }

    fn refuse(&self, limit: &'static str, wait: Duration) -> Fault {
        self.count(limit);
        let wait = seconds(wait);
        let whose = match limit {
            "per_ip" => "your address",
            "per_tenant" => "your tenant",
            _ => "you",
        };
        let message = format!("too many calls from {whose}; go on in {wait} s");
        Fault::new(Kind::RateLimited, message).retry_after(wait)
    }

    fn count(&self, limit: &'static str) {
        self.refusals.count(limit);
    }

    /// The rates in force, each with its name and the number of keys that are counted.
    pub(crate) fn rates(&self) -> Vec<(&'static str, RateLimit, usize)> {
        let all = [("per_caller", &self.per_caller), ("per_ip", &self.per_ip), ("per_tenant", &self.per_tenant)];
        let in_force = all.into_iter().filter_map(|(name, limiter)| Some((name, limiter.as_ref()?)));
        in_force.map(|(name, (rate, limiter))| (name, *rate, limiter.keys())).collect()
    }

    /// The limits of what one caller does at a time, each with its name, the number of callers that do anything, and the
    /// highest number of one of them.
    pub(crate) fn places(&self) -> Vec<(&'static str, u32, (usize, u32))> {
        let all = [("streams_per_caller", &self.streams), ("waiting_per_caller", &self.waiting)];
        let in_force = all.into_iter().filter_map(|(name, pool)| Some((name, pool.as_ref()?)));
        in_force.map(|(name, (most, permits))| (name, *most, permits.taken())).collect()
    }

    /// The calls that a caller may make in a day, and the callers with the most calls today.
    pub(crate) fn daily(&self, limit: usize) -> Option<(u64, Vec<quota::DailyUse>)> {
        let quota = self.daily.as_ref()?;
        Some((quota.most(), quota.highest(limit, jiff::Timestamp::now().as_second())))
    }

    fn tidy(&self) {
        for (_, limiter) in [&self.per_caller, &self.per_ip, &self.per_tenant].into_iter().flatten() {
            limiter.tidy();
        }
    }

    pub(crate) fn write(&self) {
        if let Some(quota) = &self.daily {
            quota.write();
        }
    }
}

/// Removes unused entries and writes the day's counts until `shutdown`, and once more then. `now` is the server in
/// force.
pub(crate) async fn keep(now: impl Fn() -> Arc<GatewayVersion>, shutdown: CancellationToken) {
    let mut tidy = tokio::time::interval(TIDY_EVERY);
    let mut write = tokio::time::interval(WRITE_EVERY);
    loop {
        let is_over = tokio::select! {
            _ = tidy.tick() => {
                now().throttle.iter().for_each(Throttle::tidy);
                false
            }
            _ = write.tick() => false,
            () = shutdown.cancelled() => true,
        };
        now().throttle.iter().for_each(Throttle::write);
        if is_over {
            return;
        }
    }
}

/// Whole seconds, at least one: a caller is never asked to retry at once.
fn seconds(wait: Duration) -> u32 {
    u32::try_from(wait.as_millis().div_ceil(1_000)).unwrap_or(u32::MAX).max(1)
}
