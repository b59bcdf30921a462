//! Deliveries of products: their records, bodies and retries are their own; the breaker of a receiver and the counts are
//! shared with the webhooks of tasks, so that a receiver that is down for one is left alone by all.

use std::sync::Arc;

use model::Time;
use model::ports::webhook::WebhookOutcome;

use super::count;
use super::index::GuestDelivery;
use crate::{Engine, Shared};

/// The permission for one delivery attempt to an endpoint. Dropped without an outcome, it says nothing about the
/// endpoint.
pub struct EndpointPermit {
    shared: Arc<Shared>,
    guest: GuestDelivery,
}

impl Engine {
    /// Begins a product's delivery to an endpoint (scheme, host and port). The error is the time before which no
    /// delivery may begin, because the endpoint keeps failing.
    pub fn begin_delivery(&self, endpoint: &Arc<str>) -> Result<EndpointPermit, Time> {
        let (shared, now) = (self.shared.clone(), self.shared.clock.now());
        let guest = shared.outbox.index.lock().guest_begins(endpoint, now, &shared.limits.push)?;
        Ok(EndpointPermit { shared, guest })
    }

    /// A redelivery means that the endpoint is back: it is tried at once.
    pub fn vouch_for_endpoint(&self, endpoint: &Arc<str>) {
        self.shared.outbox.index.lock().vouch(endpoint);
        self.shared.outbox.wake.notify_one();
    }
}

impl EndpointPermit {
    /// The attempt has ended like this. A failure that is not retried is not settled: anyone could pause a receiver by
    /// requests that it rightly refuses.
    pub fn settle(self, outcome: &WebhookOutcome) {
        let EndpointPermit { shared, guest } = &self;
        let (now, limits) = (shared.clock.now(), &shared.limits.push);
        let mut index = shared.outbox.index.lock();
        count(shared, &mut index, &guest.endpoint, outcome, |index| index.guest_failed(guest, now, limits));
    }
}

impl Drop for EndpointPermit {
    fn drop(&mut self) {
        self.shared.outbox.index.lock().guest_finished(&self.guest);
        // The breaker may have opened or closed.
        self.shared.outbox.wake.notify_one();
    }
}
