//! How much of the server one caller may take: calls a minute, calls a day, streams and waiting calls at a time. All of it
//! is off unless the config says otherwise; then a server has no throttle at all, and a call costs one branch.
//!
//! A caller with a credential is counted by tenant and name. Those without one are many people under one name: they are
//! counted by the address they call from, and so are credentials that turn out to be none.

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

use crate::Server;
use crate::metrics::RateLimited;

/// How often rates are tidied up.
const TIDY_EVERY: Duration = Duration::from_secs(60);
/// How often the day's counts are written down, where they changed.
const WRITE_EVERY: Duration = Duration::from_secs(5);

/// What can be limited.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    pub per_caller: Option<RateLimit>,
    pub per_ip: Option<RateLimit>,
    pub per_tenant: Option<RateLimit>,
    pub streams_per_caller: Option<u32>,
    /// Sends that wait for their task to rest.
    pub waiting_per_caller: Option<u32>,
    /// Calls of one caller in one day of UTC.
    pub daily_calls: Option<u64>,
    /// Where the day's counts survive a restart.
    pub quota_file: Option<PathBuf>,
}

impl Limits {
    fn is_any(&self) -> bool {
        let rates = self.per_caller.is_some() || self.per_ip.is_some() || self.per_tenant.is_some();
        rates || self.streams_per_caller.is_some() || self.waiting_per_caller.is_some() || self.daily_calls.is_some()
    }
}

/// A rate, and the part of it that callers have used.
type Rated = (RateLimit, Arc<Limiter>);
/// The limit, and the permits that are taken.
type Places = (u32, Arc<ConcurrencyLimit>);

pub struct Throttle {
    per_caller: Option<Rated>,
    per_ip: Option<Rated>,
    per_tenant: Option<Rated>,
    streams: Option<Places>,
    waiting: Option<Places>,
    daily: Option<quota::Quota>,
    /// Drawn at the start, so that nobody can choose names that are counted together.
    hasher: RandomState,
    refusals: RateLimited,
}

impl Throttle {
    /// None where nothing is limited. What was used up of the same limit `before` stays used up.
    pub(crate) fn new(limits: &Limits, refusals: RateLimited, before: Option<&Throttle>) -> Option<Throttle> {
        let rated = |rate: Option<RateLimit>, before: Option<&Rated>| {
            let rate = rate?;
            let known = before.filter(|(known, _)| *known == rate).map(|(_, limiter)| limiter.clone());
            Some((rate, known.unwrap_or_else(|| Arc::new(Limiter::new(rate)))))
        };
        let places = |most: Option<u32>, before: Option<&Places>| {
            most.map(|most| (most, before.map(|(_, seats)| seats.clone()).unwrap_or_default()))
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

    /// A request from an address, before anything else is known of it.
    pub(crate) fn check_rate(&self, address: IpAddr) -> Result<(), Fault> {
        let Some((_, limiter)) = &self.per_ip else { return Ok(()) };
        limiter.take(self.hasher.hash_one(network_of(address))).map_err(|wait| self.refuse("per_ip", wait))
    }

    /// A credential that was none: a guess counts against its address once more.
    pub fn failed(&self, address: IpAddr) -> Result<(), Fault> {
        self.check_rate(address)?;
        let Some((_, limiter)) = &self.per_caller else { return Ok(()) };
        limiter.take(self.hasher.hash_one(network_of(address))).map_err(|wait| self.refuse("per_caller", wait))
    }

    /// A call of a caller who has been let in.
    pub fn admit(&self, caller: &Caller, address: IpAddr) -> Result<(), Fault> {
        if let Some((_, limiter)) = &self.per_caller {
            limiter.take(self.key(caller, address)).map_err(|wait| self.refuse("per_caller", wait))?;
        }
        if let Some((_, limiter)) = &self.per_tenant {
            limiter.take(self.hasher.hash_one(&*caller.tenant)).map_err(|wait| self.refuse("per_tenant", wait))?;
        }
        if let Some(quota) = &self.daily {
            let now = jiff::Timestamp::now().as_second();
            quota.take(&quota::Who::new(caller, address), now).map_err(|wait| {
                self.count("daily_calls");
                let message = "you have made all the calls of today; go on tomorrow (UTC), or ask for more";
                Fault::new(Kind::RateLimited, message).retry_after(seconds(wait))
            })?;
        }
        Ok(())
    }

    /// A place among the caller's streams, given back when it is dropped.
    pub fn stream(&self, caller: &Caller, address: IpAddr) -> Result<Option<ConcurrencyPermit>, Fault> {
        self.seat(&self.streams, "streams_per_caller", caller, address)
    }

    /// A place among the caller's waiting calls, given back when it is dropped.
    pub fn waiting(&self, caller: &Caller, address: IpAddr) -> Result<Option<ConcurrencyPermit>, Fault> {
        self.seat(&self.waiting, "waiting_per_caller", caller, address)
    }

    fn seat(
        &self,
        places: &Option<Places>,
        limit: &'static str,
        caller: &Caller,
        address: IpAddr,
    ) -> Result<Option<ConcurrencyPermit>, Fault> {
        let Some((most, seats)) = places else { return Ok(None) };
        ConcurrencyLimit::take(seats, self.key(caller, address), *most).map(Some).ok_or_else(|| {
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

/// Tidies up and writes the day's counts down until `shutdown`, and once more then; those of whatever server is there.
pub(crate) async fn keep(now: impl Fn() -> Arc<Server>, shutdown: CancellationToken) {
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

/// Whole seconds, at least one: nobody is told to come back at once.
fn seconds(wait: Duration) -> u32 {
    u32::try_from(wait.as_millis().div_ceil(1_000)).unwrap_or(u32::MAX).max(1)
}
