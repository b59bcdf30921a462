//! The numbers of the last hour.

use schemars::JsonSchema;
use serde::Serialize;
use web::body::Response;

use super::problem::ApiProblem;
use super::{ApiContext, ok};
use crate::history::{EVERY, HistorySample};

/// An interval. Times are in milliseconds.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Sample")]
pub(super) struct ApiSample {
    /// Its end.
    at: String,
    /// Its length.
    ms: u64,
    /// Calls that were answered, and those of them that failed. Requests of operators, workers, monitors and to the console
    /// are no calls.
    calls: u64,
    failed_calls: u64,
    /// The time to the answer, or to the beginning of a stream, that half of the calls and 99 of 100 did not exceed, at
    /// most 25 % too high; null without calls.
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
    /// Tasks that were opened, those that ended, and those of them that failed.
    opened: u64,
    settled: u64,
    failed: u64,
    /// At its end: open streams, turns at work, and webhooks that wait for another attempt or for their turn.
    streams: u64,
    running: u64,
    retrying: u64,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "History")]
pub(super) struct ApiHistory {
    /// The length of an interval in milliseconds.
    every_ms: u64,
    /// Oldest first, of the last hour at most; the last one is of the interval that is not over. Empty in the first moment.
    samples: Vec<ApiSample>,
}

pub(super) fn ms(micros: Option<u64>) -> Option<f64> {
    micros.map(|micros| micros as f64 / 1e3)
}

impl From<HistorySample> for ApiSample {
    fn from(sample: HistorySample) -> ApiSample {
        ApiSample {
            at: sample.at.to_string(),
            ms: sample.ms,
            calls: sample.calls,
            failed_calls: sample.failed_calls,
            p50_ms: ms(sample.p50_us),
            p99_ms: ms(sample.p99_us),
            opened: sample.opened,
            settled: sample.settled,
            failed: sample.failed,
            streams: sample.streams,
            running: sample.running,
            retrying: sample.retrying,
        }
    }
}

pub(super) async fn show(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let samples = context.server.history.samples(context.server);
    ok(&ApiHistory { every_ms: EVERY.as_millis() as u64, samples: samples.into_iter().map(ApiSample::from).collect() })
}
