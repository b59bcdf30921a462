//! A purchase that the seller's endpoint serves: it is called with a signature, and its answer is the delivery.
//!
//! An instant capability is called once its purchase is accepted, and answers with the result. Another one gets
//! `task.created` once the money is frozen; the seller then accepts and delivers through REST. The number of attempts
//! and the time of the next one are stored: a restart neither forgets an attempt nor adds one.

use std::sync::Arc;
use std::time::Duration;

use engine::{CommitError, RetrySchedule, SideWrites};
use ledger::{Row, TransactionId};
use market_rules::capability::{DeliveryMode, PricingModel};
use market_rules::transaction::{Status, TransactionAction};
use market_rules::{Served, Transaction};
use model::ports::webhook::WebhookOutcome;
use model::{Expect, Json, Time};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use web::outbound::PostResult;

use super::WorkResult;
use crate::service::records;
use crate::service::webhooks::{MarketDelivery, NoDestination};
use crate::service::{Error, Market};

const ATTEMPTS: u32 = 10;
const RETRIES: RetrySchedule = RetrySchedule { first_ms: 1_000, most_ms: 60_000, asked_most_ms: 600_000 };
/// Maximum size of an answer.
const ANSWER_BYTES: usize = 1 << 20;
/// Timeout of an endpoint for an event.
const EVENT_TIMEOUT: Duration = Duration::from_secs(30);

/// The attempts of an unfinished call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Calls {
    /// The seller of a purchase that is not instant was notified.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    told: bool,
    attempts: u32,
    /// Time of the next attempt.
    next_at: Time,
    /// The error of the last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last: Option<Arc<str>>,
}
impl Row for Calls {
    const NAME: &'static str = "calls";
}

/// The meaning of an endpoint's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
enum EndpointAnswer {
    Done(Json),
    Failed(String),
    /// A temporary failure, and the receiver's wish to wait.
    Trouble(String, Option<u64>),
}

impl Market {
    /// Whether the seller delivers later through REST. A removed capability counts as instant.
    pub(super) async fn is_async(&self, row: &Transaction) -> Result<bool, Error> {
        if row.pricing_model == PricingModel::PerQuery {
            return Ok(false);
        }
        let capability = self.read_capability(&row.capability).await?;
        Ok(capability.is_some_and(|capability| capability.terms.delivery_mode == DeliveryMode::Async))
    }

    /// The time before which no call is due; `None` if one is due now.
    pub(super) async fn rests_until(&self, row: &Transaction) -> Result<Option<Time>, Error> {
        if !matches!(row.served, Served::Callback { .. }) {
            return Ok(None);
        }
        let due = row.due.map(|due| due.at);
        if self.is_async(row).await? && row.status == Status::Accepted {
            return Ok(due);
        }
        let Some((calls, _)) = self.calls(row.id).await? else { return Ok(None) };
        let told = row.status == Status::Frozen && (calls.told || calls.attempts >= ATTEMPTS);
        Ok(if told { due } else { Some(calls.next_at) })
    }

    /// Notifies the seller of a purchase that waits for it.
    pub(super) async fn tell_of_it(&self, row: &Transaction) -> Result<WorkResult, Error> {
        let Served::Callback { url, .. } = &row.served else { return Ok(WorkResult::Rests) };
        let (calls, version) = self.calls(row.id).await?.unwrap_or_default();
        if calls.told || calls.attempts >= ATTEMPTS || calls.next_at > self.now() {
            return Ok(WorkResult::Rests);
        }
        let body = json!({
            "event_type": "task.created",
            "transaction_id": row.id.tx(),
            "task_id": row.id.task(),
            "capability_id": row.capability.as_str(),
            "buyer_user_id": row.buyer.as_str(),
            "transaction_type": row.pricing_model.name(),
            "price_ut": row.price.to_string(),
            "status": row.status.name(),
            "input": row.input.as_ref().map(Json::to_value),
            "booked_hours": row.booked_hours,
            "idempotency_key": request_id(row.id, "created"),
        });
        let outcome = match self.destination(url) {
            Ok(to) => self.attempt(to, self.delivery(row, "created", &body, &calls)).await.settled().outcome,
            Err(NoDestination::Paused(until)) => return Ok(again(row, until)),
            Err(NoDestination::Wrong(why)) => WebhookOutcome::Gone { why },
        };
        // Failed notices do not end the purchase: the seller can find it through REST until its deadline.
        match outcome {
            WebhookOutcome::Taken | WebhookOutcome::Untold => {
                let calls = Calls { told: true, attempts: calls.attempts + 1, ..calls };
                self.keep_calls(row.id, calls, version).await?;
                Ok(row.due.map_or(WorkResult::Rests, |due| WorkResult::Again(due.at)))
            }
            WebhookOutcome::Failed { why, retry_after_ms } => {
                self.tried(row, calls, version, why, retry_after_ms).await
            }
            WebhookOutcome::Gone { why } => {
                tracing::warn!(task = %row.id.0, attempt = calls.attempts + 1, "a webhook is given up: {why}");
                let calls = Calls { attempts: ATTEMPTS, last: Some(why.into()), ..calls };
                self.keep_calls(row.id, calls, version).await?;
                Ok(row.due.map_or(WorkResult::Rests, |due| WorkResult::Again(due.at)))
            }
        }
    }

    /// Calls the endpoint for the result.
    pub(super) async fn serve_by_callback(
        &self,
        row: &Transaction,
        url: &Arc<str>,
        timeout_s: u32,
    ) -> Result<WorkResult, Error> {
        let (calls, version) = self.calls(row.id).await?.unwrap_or_default();
        if calls.next_at > self.now() {
            return Ok(WorkResult::Again(calls.next_at));
        }
        if calls.attempts >= ATTEMPTS {
            let last = calls.last.as_deref().unwrap_or("it could not be reached");
            return self.over(row, format!("the seller's endpoint failed {ATTEMPTS} times: {last}")).await;
        }
        let body = json!({
            "capability_id": row.capability.as_str(),
            "transaction_id": row.id.tx(),
            "input": row.input.as_ref().map(Json::to_value),
            "booked_hours": row.booked_hours,
            "idempotency_key": request_id(row.id, "invoke"),
        });
        let timeout = Duration::from_secs(u64::from(timeout_s.max(1)));
        let to = match self.destination(url) {
            Ok(to) => to,
            Err(NoDestination::Paused(until)) => return Ok(again(row, until)),
            Err(NoDestination::Wrong(why)) => {
                return self.over(row, format!("the seller's endpoint failed: {why}")).await;
            }
        };
        let delivery = self.delivery(row, "invoke", &body, &calls);
        let attempt = self.attempt(to, MarketDelivery { timeout, answer_bytes: Some(ANSWER_BYTES), ..delivery }).await;
        let answer = said(&attempt.result);
        match &answer {
            // A request that the endpoint rightly refuses says nothing about the endpoint.
            EndpointAnswer::Failed(_) if attempt.result.outcome != WebhookOutcome::Taken => drop(attempt),
            EndpointAnswer::Done(_) | EndpointAnswer::Failed(_) | EndpointAnswer::Trouble(..) => {
                drop(attempt.settled());
            }
        }
        match answer {
            EndpointAnswer::Done(result) => {
                let most = self.config().purchases.max_payload_bytes;
                if result.text().len() > most {
                    let words = format!("the seller's result is too large to be delivered: it may have {most} bytes");
                    return self.over(row, words).await;
                }
                let done = self
                    .on_behalf(row, TransactionAction::Deliver { result: Some(result), deliverables: Vec::new() })
                    .await?;
                if version > 0 {
                    self.forget_calls(row.id).await?;
                }
                Ok(done)
            }
            EndpointAnswer::Failed(words) => self.over(row, words).await,
            EndpointAnswer::Trouble(words, _) if calls.attempts + 1 >= ATTEMPTS => {
                self.over(row, format!("the seller's endpoint failed {ATTEMPTS} times: {words}")).await
            }
            EndpointAnswer::Trouble(words, wait) => self.tried(row, calls, version, words, wait).await,
        }
    }

    async fn over(&self, row: &Transaction, words: String) -> Result<WorkResult, Error> {
        let failed = self.fail(row, words).await?;
        self.forget_calls(row.id).await?;
        Ok(failed)
    }

    /// Stores a failed attempt and the time of the next one.
    async fn tried(
        &self,
        row: &Transaction,
        calls: Calls,
        version: u64,
        words: String,
        retry_after_ms: Option<u64>,
    ) -> Result<WorkResult, Error> {
        let attempts = calls.attempts + 1;
        let next_at = self.now().plus_ms(RETRIES.delay_ms(attempts, retry_after_ms));
        let calls = Calls { told: false, attempts, next_at, last: Some(words.into()) };
        self.keep_calls(row.id, calls, version).await?;
        Ok(again(row, next_at))
    }

    async fn calls(&self, id: TransactionId) -> Result<Option<(Calls, u64)>, Error> {
        self.read(records::CALLS, records::transaction_key(id)).await
    }

    /// If another process has called as well, its count stands.
    async fn keep_calls(&self, id: TransactionId, calls: Calls, version: u64) -> Result<(), Error> {
        let expect = if version == 0 { Expect::Absent } else { Expect::Version(version) };
        let put = records::CALLS.put(records::transaction_key(id), expect, &calls, Vec::new());
        match self.engine().keep(SideWrites { records: vec![put], ..SideWrites::default() }).await {
            Ok(()) | Err(CommitError::Met(_)) => Ok(()),
            Err(unmoved) => Err(unmoved.into()),
        }
    }

    pub(super) async fn forget_calls(&self, id: TransactionId) -> Result<(), Error> {
        let Some((_, version)) = self.calls(id).await? else { return Ok(()) };
        let (key, expect) = (records::transaction_key(id), Expect::Version(version));
        let remove = records::CALLS.remove(key, expect);
        match self.engine().keep(SideWrites { records: vec![remove], ..SideWrites::default() }).await {
            Ok(()) | Err(CommitError::Met(_)) => Ok(()),
            Err(unmoved) => Err(unmoved.into()),
        }
    }

    /// A delivery whose answer is of no interest.
    fn delivery(&self, row: &Transaction, purpose: &str, body: &Value, calls: &Calls) -> MarketDelivery {
        MarketDelivery {
            // The words are for buyers, who do not know the address.
            receiver: "it".into(),
            request_id: request_id(row.id, purpose).into(),
            event: None,
            attempt: calls.attempts + 1,
            body: body.to_string(),
            secret: self.callback_secret(),
            timeout: EVENT_TIMEOUT,
            answer_bytes: None,
        }
    }

    /// The secret that signs callbacks: the operator's, or the server's own, in hex. Sellers verify signatures with it.
    pub fn callback_secret(&self) -> Arc<str> {
        match &self.config().callback_secret {
            Some(secret) => secret.clone(),
            None => records::hex(&self.shared.secrets.callback),
        }
    }
}

/// The same id for every attempt, so that a seller recognises repeats.
fn request_id(id: TransactionId, purpose: &str) -> String {
    format!("{}/{purpose}", id.tx())
}

/// Another look at this time, but not past the purchase's deadline.
fn again(row: &Transaction, at: Time) -> WorkResult {
    WorkResult::Again(row.due.map_or(at, |due| due.at.min(at)))
}

fn said(result: &PostResult) -> EndpointAnswer {
    let refused = |status: u16| EndpointAnswer::Failed(format!("the seller's endpoint refused it with HTTP {status}"));
    let status = result.answer.as_ref().map(|answer| answer.status.as_u16());
    match (&result.outcome, status) {
        (WebhookOutcome::Taken | WebhookOutcome::Untold, _) => {}
        (WebhookOutcome::Failed { why, retry_after_ms }, None | Some(408 | 425 | 429 | 500..)) => {
            return EndpointAnswer::Trouble(why.clone(), *retry_after_ms);
        }
        (WebhookOutcome::Failed { .. } | WebhookOutcome::Gone { .. }, Some(status)) => return refused(status),
        (WebhookOutcome::Gone { why }, None) => {
            return EndpointAnswer::Failed(format!("the seller's endpoint cannot be called: {why}"));
        }
    }
    let strange = || {
        let words = "the seller's endpoint did not answer {\"success\": true, \"result\": {…}} or {\"success\": false, \"error\": \"…\"}";
        EndpointAnswer::Failed(words.to_owned())
    };
    let Some(body) = result.answer.as_ref().and_then(|answer| answer.body.as_ref()) else {
        return EndpointAnswer::Failed("the seller's endpoint answered with more than 1 MiB".to_owned());
    };
    let Ok(Value::Object(mut body)) = serde_json::from_slice(body) else { return strange() };
    match body.get("success") {
        Some(Value::Bool(true)) => {
            let result = match body.remove("result") {
                Some(Value::Object(result)) => Value::Object(result),
                None | Some(Value::Null) => json!({}),
                Some(other) => json!({ "result": other }),
            };
            EndpointAnswer::Done(Json::from_value(&result))
        }
        Some(Value::Bool(false)) => EndpointAnswer::Failed(match body.get("error") {
            Some(Value::String(words)) => words.clone(),
            Some(Value::Object(error)) if error.get("message").is_some_and(Value::is_string) => {
                error.get("message").and_then(Value::as_str).unwrap_or_default().to_owned()
            }
            Some(Value::Null) | None => "the seller's endpoint failed without saying why".to_owned(),
            Some(other) => other.to_string(),
        }),
        Some(_) | None => strange(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(status: u16, body: &str) -> PostResult {
        let status = http::StatusCode::from_u16(status).unwrap();
        PostResult::answered("it", status, &http::HeaderMap::new(), Some(body.to_owned().into()))
    }

    #[test]
    fn answers_are_told_apart() {
        let done = |text: &str| EndpointAnswer::Done(Json::parse(text).unwrap());
        let cases = [
            (answered(200, r#"{"success":true,"result":{"a":1}}"#), done(r#"{"a":1}"#)),
            (answered(201, r#"{"success":true}"#), done("{}")),
            (answered(200, r#"{"success":true,"result":[1]}"#), done(r#"{"result":[1]}"#)),
            (answered(200, r#"{"success":false,"error":"no ink"}"#), EndpointAnswer::Failed("no ink".into())),
            (answered(200, r#"{"success":false,"error":{"message":"m"}}"#), EndpointAnswer::Failed("m".into())),
        ];
        for (answer, expected) in cases {
            assert_eq!(said(&answer), expected);
        }
        for body in ["", "null", "[]", "{}", r#"{"success":1}"#, r#"{"result":{}}"#] {
            assert!(matches!(said(&answered(200, body)), EndpointAnswer::Failed(_)), "{body}");
        }
        let mut large = answered(200, "");
        large.answer = large.answer.map(|answer| web::outbound::PostAnswer { body: None, ..answer });
        assert!(matches!(said(&large), EndpointAnswer::Failed(_)));
        for status in [408, 425, 429, 500, 502, 503, 599] {
            assert!(matches!(said(&answered(status, "")), EndpointAnswer::Trouble(..)), "{status}");
        }
        for status in [301, 302, 400, 401, 404, 410, 422] {
            assert!(matches!(said(&answered(status, "")), EndpointAnswer::Failed(_)), "{status}");
        }
        assert_eq!(said(&PostResult::failed("it", "was cut")), EndpointAnswer::Trouble("it was cut".into(), None));
    }
}
