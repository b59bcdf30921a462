//! An endpoint: its queue of ready configs, its deliveries in flight, and the breaker that pauses it while it fails. The
//! breaker counts every delivery to the endpoint: those of configs, and those of products.

use std::collections::VecDeque;

use model::Time;
use model::limits::PushLimits;

use super::index::RouteNo;

#[derive(Default)]
pub(super) struct Endpoint {
    /// Active configs that deliver to it.
    pub(super) routes: usize,
    /// Configs with pending events, in order of arrival.
    pub(super) ready: VecDeque<RouteNo>,
    pub(super) running: usize,
    /// Deliveries of products in flight.
    pub(super) guests: usize,
    /// Whether the endpoint is queued in the ring.
    pub(super) in_ring: bool,
    pub(super) breaker: Breaker,
    /// How often an operator declared it back. Deliveries that began before say nothing about it.
    pub(super) vouched: u32,
}

impl Endpoint {
    /// Whether it is in use now. Where it is not, only its breaker can be worth keeping.
    pub(super) fn is_used(&self) -> bool {
        self.routes > 0 || self.running > 0 || self.guests > 0
    }
}

/// How long the failures of an endpoint without configs are remembered after the last one.
const FORGET_MS: u64 = 600_000;

/// Opens after consecutive failures for a while; then one probe delivery finds out whether the endpoint is back.
#[derive(Default)]
pub(super) struct Breaker {
    failures: u32,
    failed_at: Time,
    /// How long it was open last.
    span_ms: u64,
    state: State,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Closed,
    Open(Time),
    /// The next delivery is the probe.
    Half,
    Probing(RouteNo),
}

/// The effect of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tripped {
    No,
    /// No delivery before this time.
    Until(Time),
}

impl Breaker {
    /// Whether a new delivery may begin.
    pub(super) fn admits(&self) -> bool {
        match self.state {
            State::Closed | State::Half => true,
            State::Open(_) | State::Probing(_) => false,
        }
    }

    /// Whether a running job may continue with its next delivery.
    pub(super) fn lets_go_on(&self, no: RouteNo) -> bool {
        match self.state {
            State::Closed => true,
            State::Probing(probe) => probe == no,
            State::Open(_) | State::Half => false,
        }
    }

    pub(super) fn begins(&mut self, no: RouteNo) {
        if self.state == State::Half {
            self.state = State::Probing(no);
        }
    }

    /// A delivery is over. A probe without a result leaves the probing to the next delivery.
    pub(super) fn ends(&mut self, no: RouteNo) {
        if self.state == State::Probing(no) {
            self.state = State::Half;
        }
    }

    pub(super) fn open_until(&self) -> Option<Time> {
        match self.state {
            State::Open(until) => Some(until),
            State::Closed | State::Half | State::Probing(_) => None,
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// The time at which an endpoint without configs can be dropped without losing state; none if that is now.
    pub(super) fn forgotten_at(&self) -> Option<Time> {
        let kept = self.failures > 0 || !self.is_closed();
        let remembered = self.failed_at.plus_ms(FORGET_MS);
        kept.then(|| self.open_until().map_or(remembered, |until| until.max(remembered)))
    }

    /// The open time is over.
    pub(super) fn half(&mut self) {
        if let State::Open(_) = self.state {
            self.state = State::Half;
        }
    }

    pub(super) fn failed(&mut self, no: RouteNo, now: Time, limits: &PushLimits) -> Tripped {
        self.failures = self.failures.saturating_add(1);
        self.failed_at = now;
        let span_ms = match self.state {
            State::Closed if self.failures >= limits.breaker_failures => limits.breaker_ms,
            State::Probing(probe) if probe == no => self.span_ms.saturating_mul(2).min(limits.breaker_most_ms),
            // Deliveries that were in flight when it opened add no information.
            State::Closed | State::Open(_) | State::Half | State::Probing(_) => return Tripped::No,
        };
        self.span_ms = span_ms;
        let until = now.plus_ms(span_ms);
        self.state = State::Open(until);
        Tripped::Until(until)
    }
}
