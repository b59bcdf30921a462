//! Numbers of this process over the last hour, for operators: one sample every ten seconds, in memory.
//!
//! A request adds to counters only; this module reads them. The number of samples is fixed, and so is the memory for each
//! agent that is served.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use engine::Figures;
use model::ports::agent::AgentLoad;
use model::{LatencySnapshot, Time};
use parking_lot::Mutex;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::GatewayVersion;

pub(crate) const EVERY: Duration = Duration::from_secs(10);
/// The samples of an hour.
const KEPT: usize = 360;
/// Samples after which the recent turns of agents begin anew; they are those of one to two such times.
const RECENT: u64 = 30;

/// An interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HistorySample {
    /// Its end.
    pub(crate) at: Time,
    pub(crate) ms: u64,
    /// Calls that were answered, and those of them that failed.
    pub(crate) calls: u64,
    pub(crate) failed_calls: u64,
    /// Their latency in microseconds.
    pub(crate) p50_us: Option<u64>,
    pub(crate) p99_us: Option<u64>,
    pub(crate) opened: u64,
    pub(crate) settled: u64,
    pub(crate) failed: u64,
    /// At its end.
    pub(crate) streams: u64,
    pub(crate) running: u64,
    pub(crate) retrying: u64,
}

/// The counters at one moment.
#[derive(Clone)]
struct Totals {
    taken: Instant,
    failed_calls: u64,
    latency: LatencySnapshot,
    figures: Figures,
    streams: u64,
}

/// The turns of an agent at two moments before now.
#[derive(Default)]
struct AgentMarks {
    before: TurnTotals,
    middle: TurnTotals,
}

#[derive(Clone, Default)]
struct TurnTotals {
    failed: u64,
    latency: LatencySnapshot,
}

/// The turns of an agent that ended in the last five to ten minutes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecentTurns {
    pub(crate) ended: u64,
    pub(crate) failed: u64,
    pub(crate) p50_us: Option<u64>,
    pub(crate) p99_us: Option<u64>,
}

#[derive(Default)]
struct Samples {
    all: VecDeque<HistorySample>,
    last: Option<Totals>,
    ticks: u64,
    agents: HashMap<Arc<str>, AgentMarks>,
}

#[derive(Default)]
pub(crate) struct History(Mutex<Samples>);

impl Totals {
    fn of(server: &GatewayVersion) -> Totals {
        let calls = &server.metrics.calls;
        Totals {
            taken: Instant::now(),
            failed_calls: calls.failed.load(Ordering::Relaxed),
            latency: calls.latency.snapshot(),
            figures: server.engine.figures(),
            streams: u64::try_from(server.metrics.streams.get()).unwrap_or_default(),
        }
    }

    fn since(&self, before: &Totals) -> HistorySample {
        let latency = self.latency.since(&before.latency);
        let (now, then) = (&self.figures, &before.figures);
        HistorySample {
            at: Time(jiff::Timestamp::now().as_millisecond()),
            ms: self.taken.duration_since(before.taken).as_millis() as u64,
            calls: latency.count(),
            failed_calls: self.failed_calls.saturating_sub(before.failed_calls),
            p50_us: latency.quantile(0.5),
            p99_us: latency.quantile(0.99),
            opened: now.tasks_opened.saturating_sub(then.tasks_opened),
            settled: now.tasks_settled.saturating_sub(then.tasks_settled),
            failed: now.tasks_failed.saturating_sub(then.tasks_failed),
            streams: self.streams,
            running: now.turns_running,
            retrying: now.push_waiting,
        }
    }
}

impl TurnTotals {
    fn of(load: AgentLoad) -> TurnTotals {
        TurnTotals { failed: load.failed, latency: load.latency }
    }
}

impl History {
    /// Ends an interval.
    fn take(&self, server: &GatewayVersion) {
        let now = Totals::of(server);
        let mut samples = self.0.lock();
        if let Some(before) = &samples.last {
            let sample = now.since(before);
            if samples.all.len() == KEPT {
                samples.all.pop_front();
            }
            samples.all.push_back(sample);
        }
        samples.last = Some(now);
        samples.ticks += 1;
        if samples.ticks.is_multiple_of(RECENT) {
            let mut marks = std::mem::take(&mut samples.agents);
            let served = server.mounts.agents().iter().filter_map(|name| {
                let now = TurnTotals::of(server.engine.load(name)?);
                let before = marks.remove(name).map(|marks| marks.middle).unwrap_or_default();
                Some((name.clone(), AgentMarks { before, middle: now }))
            });
            samples.agents = served.collect();
        }
    }

    /// The samples, oldest first; the last one is of the interval that is not over.
    pub(crate) fn samples(&self, server: &GatewayVersion) -> Vec<HistorySample> {
        let now = Totals::of(server);
        let samples = self.0.lock();
        let current = samples.last.as_ref().map(|before| now.since(before));
        samples.all.iter().cloned().chain(current).collect()
    }

    /// The turns of an agent that ended lately.
    pub(crate) fn recent(&self, agent: &str, load: &AgentLoad) -> RecentTurns {
        let samples = self.0.lock();
        let mut before = samples.agents.get(agent).map(|marks| marks.before.clone()).unwrap_or_default();
        // An agent that a reload has replaced counts from zero.
        if before.latency.count() > load.ended {
            before = TurnTotals::default();
        }
        let latency = load.latency.since(&before.latency);
        RecentTurns {
            ended: latency.count(),
            failed: load.failed.saturating_sub(before.failed),
            p50_us: latency.quantile(0.5),
            p99_us: latency.quantile(0.99),
        }
    }
}

/// Takes samples until `shutdown`. `now` is the server in force.
pub(crate) async fn keep(now: impl Fn() -> Arc<GatewayVersion>, shutdown: CancellationToken) {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {
                let server = now();
                server.history.take(&server);
            }
            () = shutdown.cancelled() => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_what_happened_between_two_readings() {
        let calls = model::LatencyCounts::default();
        let totals = |opened: u64, failed_calls: u64| Totals {
            taken: Instant::now(),
            failed_calls,
            latency: calls.snapshot(),
            figures: Figures { tasks_opened: opened, turns_running: 3, ..Figures::default() },
            streams: 7,
        };
        calls.add(50);
        let before = totals(5, 1);
        (0..10).for_each(|_| calls.add(1_000));
        let sample = totals(9, 3).since(&before);
        assert_eq!((sample.calls, sample.failed_calls, sample.opened), (10, 2, 4));
        assert_eq!((sample.running, sample.streams), (3, 7));
        assert!(sample.p99_us.is_some_and(|us| (1_000..=1_250).contains(&us)), "{sample:?}");
        let quiet = totals(9, 3).since(&totals(9, 3));
        assert_eq!((quiet.calls, quiet.p50_us), (0, None));
    }

    #[test]
    fn an_agent_that_was_replaced_counts_from_zero() {
        let history = History::default();
        let counts = model::LatencyCounts::default();
        (0..4).for_each(|_| counts.add(100));
        let mark = TurnTotals { failed: 2, latency: counts.snapshot() };
        history.0.lock().agents.insert("a".into(), AgentMarks { before: mark.clone(), middle: mark });
        counts.add(100);
        let load = |counts: &model::LatencyCounts, failed: u64| {
            let latency = counts.snapshot();
            AgentLoad { ended: latency.count(), failed, latency, ..AgentLoad::default() }
        };
        let recent = history.recent("a", &load(&counts, 3));
        assert_eq!((recent.ended, recent.failed), (1, 1));
        let replaced = model::LatencyCounts::default();
        replaced.add(100);
        assert_eq!(history.recent("a", &load(&replaced, 1)).ended, 1);
    }
}
