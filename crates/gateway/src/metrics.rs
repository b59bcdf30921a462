//! The metrics at `/metrics`, in the text format of Prometheus. Task ids are never labels: the number of label values
//! stays small.

use std::sync::atomic::{AtomicU64, Ordering};

use engine::Figures;
use model::LatencyCounts;
use model::ports::store::Health;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

pub struct Metrics {
    registry: Registry,
    requests: Family<Request, Counter>,
    seconds: Family<Operation, Histogram>,
    pub(crate) calls: CallCounts,
    pub streams: Gauge,
    pub waiting: Gauge,
    pub(crate) rate_limited: RateLimited,
    /// Memory of request bodies, in bytes.
    pub(crate) bodies: Number,
    /// Memory of answers that are not sent yet, in bytes.
    pub(crate) answers: Number,
    /// In the order of [`COUNTS`].
    counts: Vec<Counter>,
    /// In the order of [`FIGURES`].
    figures: Vec<Number>,
    /// In the order of [`HEALTH`].
    health: Vec<Number>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Request {
    operation: &'static str,
    outcome: RequestOutcome,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Operation {
    operation: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Limit {
    limit: &'static str,
}

/// The calls to agents and products of every operation together, for the history of the last hour.
#[derive(Default)]
pub(crate) struct CallCounts {
    pub(crate) failed: AtomicU64,
    pub(crate) latency: LatencyCounts,
}

/// Operations that are no calls: of operators, workers, browsers and monitors.
const NO_CALLS: [&str; 6] = ["admin", "console", "worker", "health", "reflection", "other"];

/// Calls refused by a limit.
#[derive(Clone, Default)]
pub struct RateLimited(Family<Limit, Counter>);

impl RateLimited {
    pub(crate) fn count(&self, limit: &'static str) {
        self.0.get_or_create(&Limit { limit }).inc();
    }

    /// The calls that a limit has refused since the start.
    pub(crate) fn number(&self, limit: &'static str) -> u64 {
        self.0.get_or_create(&Limit { limit }).get()
    }
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, EncodeLabelValue)]
pub enum RequestOutcome {
    Ok,
    Fault,
}

pub(crate) type Number = Gauge<u64, AtomicU64>;
/// A name, its help text, and the function that reads the number.
type Row<T> = (&'static str, &'static str, fn(&T) -> u64);

/// Counters of the engine since the start; their names end in `_total`.
const COUNTS: &[Row<Figures>] = &[
    ("tasks_opened", "tasks opened since the start", |f| f.tasks_opened),
    ("turns_started", "turns started since the start", |f| f.turns_started),
    ("events_committed", "events committed since the start", |f| f.events_committed),
    ("tasks_settled", "tasks settled since the start", |f| f.tasks_settled),
    ("turns_recovered", "turns taken up after a crash", |f| f.turns_recovered),
    ("store_troubles", "commits the store refused for now", |f| f.store_troubles),
    ("push_delivered", "webhooks taken since the start", |f| f.push_delivered),
    ("push_failed", "attempts at webhooks that failed since the start", |f| f.push_failed),
    ("push_dead", "push configs given up since the start", |f| f.push_dead),
];

/// Gauges of the engine.
const FIGURES: &[Row<Figures>] = &[
    ("turns_running", "turns at work", |f| f.turns_running),
    ("tasks_live", "tasks held in memory", |f| f.tasks_live),
    ("live_bytes", "memory that tasks at work hold, of limits.live_mib", |f| f.live_bytes),
    ("push_active", "push configs being looked after", |f| f.push_active),
    ("push_waiting", "push configs that wait for another attempt", |f| f.push_waiting),
    ("tasks_set_back", "tasks that wait for another attempt at a timer, recovery, webhook or sweep", |f| {
        f.tasks_set_back
    }),
    ("push_breakers_open", "endpoints that are left alone for now", |f| f.breakers_open),
];

/// Gauges of the store.
const HEALTH: &[Row<Health>] = &[
    ("store_wal_bytes", "size of the write-ahead log", |h| h.wal_bytes),
    ("store_tasks", "tasks kept", |h| h.tasks),
    ("store_push_active", "push configs with more to deliver", |h| h.push_active),
    ("store_push_dead", "push configs given up, waiting for redelivery", |h| h.push_dead),
];

const BUCKETS: [f64; 14] =
    [0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0];

impl Metrics {
    pub(crate) fn new() -> Metrics {
        let mut registry = Registry::with_prefix("a2a");
        let requests = Family::<Request, Counter>::default();
        registry.register("requests", "requests by operation and outcome", requests.clone());
        let seconds = Family::<Operation, Histogram>::new_with_constructor(|| Histogram::new(BUCKETS));
        registry.register("request_seconds", "time to the answer, or to a stream's beginning", seconds.clone());
        let streams = Gauge::default();
        registry.register("streams_open", "streams being served", streams.clone());
        let waiting = Gauge::default();
        registry.register("waiting_calls", "sends that wait for their task to rest", waiting.clone());
        registry.register("panics", "panics since the start, each a defect of the program", crate::panics::counter());
        let rate_limited = RateLimited::default();
        registry.register("rate_limited", "calls refused by a limit, by the limit", rate_limited.0.clone());
        let count = |(name, help, _): &Row<Figures>| {
            let counter = Counter::default();
            registry.register(*name, *help, counter.clone());
            counter
        };
        let counts = COUNTS.iter().map(count).collect();
        let mut register = |name: &str, help: &str| {
            let number = Number::default();
            registry.register(name, help, number.clone());
            number
        };
        let bodies = register("bodies_bytes", "memory that request bodies hold, of limits.bodies_mib");
        let answers = register("answers_bytes", "memory that large answers hold, of limits.answers_mib");
        let figures = FIGURES.iter().map(|(name, help, _)| register(name, help)).collect();
        let health = HEALTH.iter().map(|(name, help, _)| register(name, help)).collect();
        Metrics {
            registry,
            requests,
            seconds,
            calls: CallCounts::default(),
            streams,
            waiting,
            rate_limited,
            bodies,
            answers,
            counts,
            figures,
            health,
        }
    }

    pub(crate) fn count(&self, operation: &'static str, outcome: RequestOutcome, micros: u64) {
        self.requests.get_or_create(&Request { operation, outcome }).inc();
        self.seconds.get_or_create(&Operation { operation }).observe(micros as f64 / 1e6);
        if NO_CALLS.contains(&operation) {
            return;
        }
        self.calls.latency.add(micros);
        if matches!(outcome, RequestOutcome::Fault) {
            self.calls.failed.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn render(&self, figures: Figures, health: Option<&Health>) -> String {
        for ((_, _, read), counter) in COUNTS.iter().zip(&self.counts) {
            counter.inner().store(read(&figures), Ordering::Relaxed);
        }
        for ((_, _, read), number) in FIGURES.iter().zip(&self.figures) {
            number.set(read(&figures));
        }
        if let Some(health) = health {
            for ((_, _, read), number) in HEALTH.iter().zip(&self.health) {
                number.set(read(health));
            }
        }
        let mut text = String::new();
        // Writing into a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
