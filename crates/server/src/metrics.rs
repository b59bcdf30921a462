//! What `/metrics` shows, in Prometheus' text form. Never a task's id as a label: labels are few.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<Request, Counter>,
    seconds: Family<Operation, Histogram>,
    pub(crate) streams: Gauge,
    engine: EngineMetrics,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Request {
    operation: &'static str,
    outcome: Outcome,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Operation {
    operation: &'static str,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, EncodeLabelValue)]
pub(crate) enum Outcome {
    Ok,
    Fault,
}

#[derive(Default)]
struct EngineMetrics {
    tasks_opened: Gauge<u64, AtomicU64>,
    turns_started: Gauge<u64, AtomicU64>,
    events_committed: Gauge<u64, AtomicU64>,
    tasks_settled: Gauge<u64, AtomicU64>,
    turns_recovered: Gauge<u64, AtomicU64>,
    store_troubles: Gauge<u64, AtomicU64>,
    turns_running: Gauge<u64, AtomicU64>,
    tasks_live: Gauge<u64, AtomicU64>,
    wal_bytes: Gauge<u64, AtomicU64>,
    tasks: Gauge<u64, AtomicU64>,
}

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
        let engine = EngineMetrics::default();
        for (name, help, gauge) in [
            ("tasks_opened", "tasks opened since the start", &engine.tasks_opened),
            ("turns_started", "turns started since the start", &engine.turns_started),
            ("events_committed", "events committed since the start", &engine.events_committed),
            ("tasks_settled", "tasks settled since the start", &engine.tasks_settled),
            ("turns_recovered", "turns taken up after a crash", &engine.turns_recovered),
            ("store_troubles", "commits the store refused for now", &engine.store_troubles),
            ("turns_running", "turns at work", &engine.turns_running),
            ("tasks_live", "tasks held in memory", &engine.tasks_live),
            ("store_wal_bytes", "size of the write-ahead log", &engine.wal_bytes),
            ("store_tasks", "tasks kept", &engine.tasks),
        ] {
            registry.register(name, help, gauge.clone());
        }
        Metrics { registry, requests, seconds, streams, engine }
    }

    pub(crate) fn count(&self, operation: &'static str, outcome: Outcome, micros: u64) {
        self.requests.get_or_create(&Request { operation, outcome }).inc();
        self.seconds.get_or_create(&Operation { operation }).observe(micros as f64 / 1e6);
    }

    pub(crate) fn render(&self, figures: engine::Figures, health: Option<&model::ports::store::Health>) -> String {
        let engine = &self.engine;
        engine.tasks_opened.set(figures.tasks_opened);
        engine.turns_started.set(figures.turns_started);
        engine.events_committed.set(figures.events_committed);
        engine.tasks_settled.set(figures.tasks_settled);
        engine.turns_recovered.set(figures.turns_recovered);
        engine.store_troubles.set(figures.store_troubles);
        engine.turns_running.set(figures.turns_running);
        engine.tasks_live.set(figures.tasks_live);
        if let Some(health) = health {
            engine.wal_bytes.set(health.wal_bytes);
            engine.tasks.set(health.tasks);
        }
        let mut text = String::new();
        // Writing into a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
