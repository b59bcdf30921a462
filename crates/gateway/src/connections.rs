//! Limits of connections: in all, and from one address.
//!
//! A connection above either limit is not left in the backlog, where a health check would wait behind it. It goes into
//! a small reserve, gets an answer to one request, and is closed: a health check is answered, any other request is
//! refused in the form of its protocol. The reserve is bounded, too: a new connection replaces the oldest, so that
//! silent ones cannot occupy it.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::Settings;
use web::client_address::network_of;
use web::concurrency::{ConcurrencyLimit, ConcurrencyPermit};

/// Connections in the reserve.
const RESERVE: usize = 64;
/// Longest lifetime of one of them.
pub(crate) const RESERVE_LASTS: Duration = Duration::from_secs(5);

pub(crate) struct Connections {
    all: Arc<Semaphore>,
    by_address: Arc<ConcurrencyLimit>,
    hasher: RandomState,
    reserve: Arc<Reserve>,
}

/// A connection that was counted, until it is dropped.
pub(crate) enum ConnectionSlot {
    Served {
        _one: OwnedSemaphorePermit,
        _of_address: Option<ConcurrencyPermit>,
    },
    /// Above the limit: served until it is replaced.
    Spare(ReserveConnection),
}

impl Connections {
    pub(crate) fn new(settings: &Settings) -> Connections {
        Connections {
            all: Arc::new(Semaphore::new(settings.connections)),
            by_address: Arc::default(),
            hasher: RandomState::new(),
            reserve: Arc::default(),
        }
    }

    /// Counts one more from this address. Trusted proxies carry the connections of many callers, so only the limit of
    /// all connections applies to them.
    pub(crate) fn count(&self, address: IpAddr, settings: &Settings) -> ConnectionSlot {
        let address = address.to_canonical();
        let Ok(one) = self.all.clone().try_acquire_owned() else {
            return ConnectionSlot::Spare(Reserve::enter(&self.reserve));
        };
        if settings.trusted_proxies.iter().any(|network| network.contains(address)) {
            return ConnectionSlot::Served { _one: one, _of_address: None };
        }
        let key = self.hasher.hash_one(network_of(address));
        match ConcurrencyLimit::take(&self.by_address, key, settings.connections_per_address) {
            Some(permit) => ConnectionSlot::Served { _one: one, _of_address: Some(permit) },
            None => ConnectionSlot::Spare(Reserve::enter(&self.reserve)),
        }
    }
}

/// The connections above the limit, the oldest first.
#[derive(Default)]
struct Reserve(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    next: u64,
    open: VecDeque<(u64, CancellationToken)>,
}

pub(crate) struct ReserveConnection {
    reserve: Arc<Reserve>,
    number: u64,
    /// Cancelled when another connection replaces it.
    pub(crate) replaced: CancellationToken,
}

impl Reserve {
    fn enter(reserve: &Arc<Reserve>) -> ReserveConnection {
        let mut entries = reserve.0.lock();
        let (number, replaced) = (entries.next, CancellationToken::new());
        entries.next += 1;
        if entries.open.len() >= RESERVE
            && let Some((_, oldest)) = entries.open.pop_front()
        {
            oldest.cancel();
        }
        entries.open.push_back((number, replaced.clone()));
        ReserveConnection { reserve: reserve.clone(), number, replaced }
    }
}

impl Drop for ReserveConnection {
    fn drop(&mut self) {
        self.reserve.0.lock().open.retain(|(number, _)| *number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn is_served(counted: &ConnectionSlot) -> bool {
        matches!(counted, ConnectionSlot::Served { .. })
    }

    #[test]
    fn connections_are_bounded_in_all_and_by_address() {
        let settings = Settings { connections: 4, connections_per_address: 2, ..Settings::test(&["echo"]) };
        let connections = Connections::new(&settings);
        let count = |text| connections.count(address(text), &settings);
        let (first, second) = (count("192.0.2.1"), count("192.0.2.1"));
        assert!(is_served(&first) && is_served(&second));
        assert!(!is_served(&count("192.0.2.1")), "an address has its own bound");
        assert!(!is_served(&count("::ffff:192.0.2.1")), "written as IPv6 it is the same address");
        let others = [count("2001:db8::1"), count("2001:db8::2")];
        assert!(others.iter().all(is_served), "what a refused connection held is free again");
        assert!(!is_served(&count("192.0.2.9")), "there is no fifth");
        drop(first);
        assert!(is_served(&count("192.0.2.1")));
    }

    #[test]
    fn a_household_of_ipv6_is_one_address_and_a_trusted_proxy_is_none() {
        let trusted_proxies = vec!["10.0.0.0/8".parse().unwrap()];
        let settings = Settings { connections_per_address: 1, trusted_proxies, ..Settings::test(&["echo"]) };
        let connections = Connections::new(&settings);
        let count = |text| connections.count(address(text), &settings);
        let _one = count("2001:db8::1");
        assert!(!is_served(&count("2001:db8::2")) && is_served(&count("2001:db8:0:1::2")));
        let proxied = [count("10.0.0.1"), count("10.0.0.1"), count("::ffff:10.0.0.1")];
        assert!(proxied.iter().all(is_served));
    }

    #[test]
    fn a_full_reserve_replaces_its_oldest() {
        let settings = Settings { connections: 0, ..Settings::test(&["echo"]) };
        let connections = Connections::new(&settings);
        let mut spares = VecDeque::new();
        for _ in 0..RESERVE + 2 {
            let ConnectionSlot::Spare(spare) = connections.count(address("192.0.2.1"), &settings) else {
                panic!("no room")
            };
            spares.push_back(spare);
        }
        let replaced = spares.iter().filter(|spare| spare.replaced.is_cancelled()).count();
        assert!(replaced == 2 && spares[0].replaced.is_cancelled() && spares[1].replaced.is_cancelled());
        drop(spares);
        assert!(connections.reserve.0.lock().open.is_empty(), "an ended connection leaves no entry");
    }
}
