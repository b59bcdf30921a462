//! Jobs of sellers' programs: `/agent-runtime`. A stream sends jobs, and programs post their actions.

use std::io;

use crate::service::{Error as ServiceError, JobAct, JobEvent, Jobs, MarketEntity};
use dialects::framing::sse;
use market_rules::TransactionId;
use market_rules::transaction::{Deadline, Status};
use model::Json;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::error::Error;
use super::names;
use super::purchases::{DeliveredFile, TransactionView, files};
use super::routes::{MarketFuture, MarketRequest};
use crate::uumit::endpoint::guest;
use web::body::Response;
use web::headers::last_event_id;
use web::sse::{EventSource, EventStream, Flow};

/// A job: a sale that waits for your program, or that it has accepted and not done yet. The same job may be told again;
/// it is known by its id.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "JobDispatch")]
pub(super) struct Dispatch {
    /// The transaction's id; also the event's.
    job_id: String,
    transaction_id: String,
    capability_id: String,
    buyer_user_id: String,
    context_id: Option<String>,
    booked_hours: Option<i64>,
    #[schemars(with = "Value")]
    input: Option<Json>,
    price_ut: String,
    /// It was accepted before.
    accepted: bool,
    #[schemars(extend("format" = "date-time"))]
    accept_by: Option<String>,
    #[schemars(extend("format" = "date-time"))]
    deliver_by: Option<String>,
}

impl From<crate::service::Job> for Dispatch {
    fn from(job: crate::service::Job) -> Dispatch {
        let row = job.transaction;
        let by = |deadline| row.due.filter(|due| due.deadline == deadline).map(|due| due.at.to_string());
        Dispatch {
            job_id: row.id.tx(),
            transaction_id: row.id.tx(),
            capability_id: row.capability.to_string(),
            buyer_user_id: row.buyer.to_string(),
            context_id: row.context.as_ref().map(ToString::to_string),
            booked_hours: row.booked_hours,
            accept_by: by(Deadline::Accept),
            deliver_by: by(Deadline::Deliver),
            input: row.input,
            price_ut: row.price.to_string(),
            accepted: job.accepted,
        }
    }
}

/// The event stream of jobs.
struct Feed {
    jobs: Jobs,
    user: String,
}

impl EventSource for Feed {
    type Item = Result<JobEvent, ServiceError>;

    /// `None` when the server stops; a client that resumes misses nothing.
    async fn next(&mut self) -> Option<Self::Item> {
        self.jobs.next().await
    }

    async fn write(&mut self, piece: &mut Vec<u8>, item: Option<Self::Item>) -> io::Result<Flow> {
        let now = || jiff::Timestamp::now().as_second();
        match item {
            Some(Ok(JobEvent::Open)) => {
                let data = serde_json::json!({ "user_id": self.user, "timestamp": now() });
                write_frame(piece, None, "connection.open", &data);
            }
            Some(Ok(JobEvent::Heartbeat)) => {
                write_frame(piece, None, "heartbeat", &serde_json::json!({ "timestamp": now() }));
            }
            Some(Ok(JobEvent::Dispatch(job))) => {
                let dispatch = Dispatch::from(*job);
                write_frame(piece, Some(&dispatch.job_id), "job_dispatch", &dispatch);
            }
            Some(Err(refused)) => {
                tracing::warn!("a stream of jobs failed: {refused}");
                let error = Error::from(refused);
                let data = serde_json::json!({ "code": error.code.number, "message": error.message });
                write_frame(piece, None, "error", &data);
                return Ok(Flow::Ends);
            }
            None => return Ok(Flow::Ends),
        }
        Ok(Flow::Continues)
    }
}

fn write_frame(piece: &mut Vec<u8>, id: Option<&str>, event: &str, data: &impl Serialize) {
    let mut data = serde_json::to_vec(data).unwrap_or_default();
    // The buyer's JSON is passed on verbatim, so its line breaks would end the data field.
    data.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
    sse::write_frame(piece, id, Some(event), &[&data]);
}

/// The last event that a program has seen.
fn last(ask: &MarketRequest<'_>) -> Result<Option<TransactionId>, Error> {
    let Some(id) = last_event_id(&ask.http.head.headers) else { return Ok(None) };
    id.ok().and_then(|id| id.parse().ok()).map(Some).ok_or_else(|| {
        Error::field("Last-Event-ID", "is no id of this stream's events: send the last one you got, or none")
    })
}

pub(super) fn connect<'a>(ask: &'a MarketRequest<'a>) -> MarketFuture<'a, Response> {
    Box::pin(async move {
        let (caller, last) = (ask.caller()?, last(ask)?);
        let throttle = ask.server.throttle.as_ref();
        let seat = throttle.map(|throttle| throttle.stream(&guest(caller), ask.http.address)).transpose()?.flatten();
        let feed = Feed { jobs: ask.market.jobs(caller, last).await?, user: caller.user.to_string() };
        Ok(EventStream::new(feed, ask.server.metrics.streams.clone()).permits([seat, None]).respond())
    })
}

const ACTIONS: [&str; 6] = ["accept_job", "reject_job", "heartbeat", "deliver", "fail", "send_message"];

/// What a program does with a job.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct JobAction {
    /// `send_message` is always refused.
    #[schemars(extend("enum" = ACTIONS))]
    action: String,
    /// Of the job; needed for everything here.
    #[serde(default)]
    #[schemars(length(min = 1, max = 200))]
    job_id: Option<String>,
    /// With `reject_job`.
    #[serde(default)]
    #[schemars(length(max = 500))]
    reason: Option<String>,
    /// With `heartbeat`: how far it is, in any form.
    #[serde(default)]
    #[schemars(with = "Option<Value>")]
    progress: Option<Json>,
    /// With `deliver`: this, or files, or both.
    #[serde(default)]
    #[schemars(with = "Option<Map<String, Value>>")]
    result: Option<Json>,
    #[serde(default)]
    #[schemars(length(max = 64))]
    deliverables: Vec<DeliveredFile>,
    /// With `fail`: why.
    #[serde(default)]
    error: Option<String>,
    /// With `fail`: the job is told again, to this or another program of yours. Otherwise the buyer gets its money back.
    #[serde(default)]
    retryable: bool,
    #[allow(dead_code, reason = "read before the rest of the body is")]
    #[serde(default)]
    #[schemars(length(min = 1, max = 255))]
    idempotency_key: Option<String>,
}

/// What became of it.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct JobDone {
    job_id: String,
    /// Where the transaction stands now.
    #[schemars(extend("enum" = names(Status::ALL, Status::name)))]
    status: &'static str,
    transaction: TransactionView,
}

pub(super) fn act<'a>(ask: &'a MarketRequest<'a>, body: JobAction) -> MarketFuture<'a, JobDone> {
    Box::pin(async move {
        let act = match &*body.action {
            "accept_job" => JobAct::Accept,
            "reject_job" => JobAct::Reject { reason: body.reason.map(Into::into) },
            "heartbeat" => JobAct::Heartbeat { progress: body.progress },
            "deliver" => {
                let deliverables = match body.job_id.as_deref().and_then(|id| id.parse().ok()) {
                    Some(id) => {
                        ask.market.transaction(&ask.caller()?.actor(), id).await?;
                        ask.market.named_files(id, files(body.deliverables)).await?
                    }
                    // Refused below because of its id.
                    None => Vec::new(),
                };
                JobAct::Deliver { result: body.result, deliverables }
            }
            "fail" => JobAct::Fail { error: body.error.map(Into::into), retryable: body.retryable },
            "send_message" => {
                let words = "cannot be send_message: agents do not write to each other here; what a buyer has to know \
                             goes into the result";
                return Err(ServiceError::from(market_rules::FieldError::new("action", words)).into());
            }
            _ => return Err(Error::field("action", format!("must be one of {}", ACTIONS.join(", ")))),
        };
        let id = body.job_id.ok_or_else(|| Error::field("job_id", "is required"))?;
        // A malformed id is reported as unknown.
        let id = id.parse().map_err(|_| ServiceError::Unknown(MarketEntity::Transaction))?;
        let row = ask.market.job_act(ask.caller()?, id, act, ask.once.clone()).await?;
        Ok(JobDone { job_id: row.id.tx(), status: row.status.name(), transaction: TransactionView::from(&row) })
    })
}
