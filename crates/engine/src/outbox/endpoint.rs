//! Who is on the other end: the configs that are ready for it, how many deliveries to it are under way, and the breaker
//! that leaves it alone while it fails.

use std::collections::VecDeque;

use model::Time;
use model::limits::PushLimits;

use super::index::No;

#[derive(Default)]
pub(super) struct Endpoint {
    /// Active configs that deliver to it.
    pub(super) routes: usize,
    /// Those with something to deliver, first come first served.
    pub(super) ready: VecDeque<No>,
    pub(super) running: usize,
    /// Whether it waits for its turn among the endpoints.
    pub(super) in_ring: bool,
    pub(super) breaker: Breaker,
    /// How often somebody said that it is back. What was under way before that says nothing about it.
    pub(super) vouched: u32,
}

impl Endpoint {
    /// Nothing is lost when it is forgotten.
    pub(super) fn is_idle(&self) -> bool {
        self.routes == 0 && self.running == 0 && self.breaker.open_until().is_none()
    }
}

/// After failures in a row an endpoint is left alone for a while; then one delivery finds out whether it is back.
#[derive(Default)]
pub(super) struct Breaker {
    failures: u32,
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
    Probing(No),
}

/// What a failure did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tripped {
    No,
    /// Nothing is delivered before then.
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

    /// Whether a delivery under way may go on with its next letter.
    pub(super) fn lets_go_on(&self, no: No) -> bool {
        match self.state {
            State::Closed => true,
            State::Probing(probe) => probe == no,
            State::Open(_) | State::Half => false,
        }
    }

    pub(super) fn begins(&mut self, no: No) {
        if self.state == State::Half {
            self.state = State::Probing(no);
        }
    }

    /// A delivery is over. A probe that found nothing out leaves it to the next.
    pub(super) fn ends(&mut self, no: No) {
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

    /// The time is up.
    pub(super) fn half(&mut self) {
        if let State::Open(_) = self.state {
            self.state = State::Half;
        }
    }

    pub(super) fn failed(&mut self, no: No, now: Time, limits: &PushLimits) -> Tripped {
        self.failures = self.failures.saturating_add(1);
        let span_ms = match self.state {
            State::Closed if self.failures >= limits.breaker_failures => limits.breaker_ms,
            State::Probing(probe) if probe == no => self.span_ms.saturating_mul(2).min(limits.breaker_most_ms),
            // Deliveries that were under way when it opened say nothing new.
            State::Closed | State::Open(_) | State::Half | State::Probing(_) => return Tripped::No,
        };
        self.span_ms = span_ms;
        let until = now.plus_ms(span_ms);
        self.state = State::Open(until);
        Tripped::Until(until)
    }
}
