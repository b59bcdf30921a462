//! A purchase that the seller's endpoint serves: it is called with a signature, and its answer is the delivery.
//!
//! An instant capability is called once its purchase is accepted, and answers with the result. Another one gets
//! `task.created` once the money is frozen; the seller then accepts and delivers through REST. The number of attempts
//! and the time of the next one are stored: a restart neither forgets an attempt nor adds one.

use std::sync::Arc;
use std::time::Duration;

use engine::{CommitError, SideWrites};
use hmac::{Hmac, KeyInit, Mac};
use ledger::{Row, TransactionId};
use market_rules::capability::{DeliveryMode, PricingModel};
use market_rules::transaction::{Status, TransactionAction};
use market_rules::{Served, Transaction};
use model::{Expect, Json, Time};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::Sha256;

use super::WorkResult;
use super::callbacks_http::{CallbackRequest, CallbackResponse};
use crate::service::records;
use crate::service::{Error, Market};

const ATTEMPTS: u32 = 10;
/// The first retry; each further one waits twice as long.
const RETRY_MS: u64 = 1_000;
const RETRY_MOST_MS: u64 = 60_000;
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
    /// A temporary failure.
    Trouble(String),
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
        let letter = self.letter(row, url, "created", &body, EVENT_TIMEOUT);
        let words = match self.shared.callbacks.post(letter).await {
            Ok(answer) if (200..300).contains(&answer.status) => {
                let calls = Calls { told: true, attempts: calls.attempts + 1, ..calls };
                self.keep_calls(row.id, calls, version).await?;
                return Ok(row.due.map_or(WorkResult::Rests, |due| WorkResult::Again(due.at)));
            }
            Ok(answer) => format!("the seller's endpoint answered HTTP {}", answer.status),
            Err(words) => words,
        };
        // Failed notices do not end the purchase: the seller can find it through REST until its deadline.
        self.tried(row, calls, version, words).await
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
        let letter = self.letter(row, url, "invoke", &body, timeout);
        match said(self.shared.callbacks.post(letter).await) {
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
            EndpointAnswer::Trouble(words) if calls.attempts + 1 >= ATTEMPTS => {
                self.over(row, format!("the seller's endpoint failed {ATTEMPTS} times: {words}")).await
            }
            EndpointAnswer::Trouble(words) => self.tried(row, calls, version, words).await,
        }
    }

    async fn over(&self, row: &Transaction, words: String) -> Result<WorkResult, Error> {
        let failed = self.fail(row, words).await?;
        self.forget_calls(row.id).await?;
        Ok(failed)
    }

    /// Stores a failed attempt and the time of the next one.
    async fn tried(&self, row: &Transaction, calls: Calls, version: u64, words: String) -> Result<WorkResult, Error> {
        let wait = RETRY_MS.saturating_mul(1 << calls.attempts.min(20)).min(RETRY_MOST_MS);
        let next_at = self.now().plus_ms(wait);
        tracing::info!(task = %row.id.0, attempt = calls.attempts + 1, "a seller was not reached: {words}");
        let calls = Calls { told: false, attempts: calls.attempts + 1, next_at, last: Some(words.into()) };
        self.keep_calls(row.id, calls, version).await?;
        Ok(WorkResult::Again(row.due.map_or(next_at, |due| due.at.min(next_at))))
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

    fn letter(
        &self,
        row: &Transaction,
        url: &Arc<str>,
        purpose: &str,
        body: &Value,
        timeout: Duration,
    ) -> CallbackRequest {
        let (body, request_id) = (body.to_string(), request_id(row.id, purpose));
        let timestamp = self.now().0.div_euclid(1_000).to_string();
        let signature = sign(self.callback_secret().as_bytes(), &timestamp, &request_id, body.as_bytes());
        CallbackRequest {
            url: url.clone(),
            headers: vec![
                ("content-type", "application/json".to_owned()),
                ("x-uuagent-signature", signature),
                ("x-uuagent-timestamp", timestamp),
                ("x-uuagent-request-id", request_id),
            ],
            body: body.into(),
            timeout,
            private: self.config().capabilities.private_callbacks,
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

/// Hex of HMAC-SHA256 over time, request and body.
pub(crate) fn sign(secret: &[u8], timestamp: &str, request_id: &str, body: &[u8]) -> String {
    // HMAC accepts keys of any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret) else { return String::new() };
    for piece in [timestamp.as_bytes(), b".", request_id.as_bytes(), b".", body] {
        mac.update(piece);
    }
    records::hex(&mac.finalize().into_bytes()).to_string()
}

fn said(answer: Result<CallbackResponse, String>) -> EndpointAnswer {
    let answer = match answer {
        Ok(answer) => answer,
        Err(words) => return EndpointAnswer::Trouble(words),
    };
    match answer.status {
        200..300 => {}
        408 | 425 | 429 | 500.. => return EndpointAnswer::Trouble(format!("it answered HTTP {}", answer.status)),
        status => return EndpointAnswer::Failed(format!("the seller's endpoint refused it with HTTP {status}")),
    }
    let strange = || {
        let words = "the seller's endpoint did not answer {\"success\": true, \"result\": {…}} or {\"success\": false, \"error\": \"…\"}";
        EndpointAnswer::Failed(words.to_owned())
    };
    let Some(body) = answer.body else {
        return EndpointAnswer::Failed("the seller's endpoint answered with more than 1 MiB".to_owned());
    };
    let Ok(Value::Object(mut body)) = serde_json::from_slice(&body) else { return strange() };
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

    fn answered(status: u16, body: &str) -> Result<CallbackResponse, String> {
        Ok(CallbackResponse { status, body: Some(body.to_owned().into()) })
    }

    /// The example of RFC 4231, case 2, in three pieces; the dots are part of what is signed.
    #[test]
    fn the_signature_is_hmac_sha256_over_time_request_and_body() {
        let mut mac = Hmac::<Sha256>::new_from_slice(b"Jefe").unwrap();
        mac.update(b"1700000000.tx_1/invoke.{\"a\":1}");
        let expected = records::hex(&mac.finalize().into_bytes());
        assert_eq!(*sign(b"Jefe", "1700000000", "tx_1/invoke", b"{\"a\":1}"), *expected);
        assert_eq!(expected.len(), 64);
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
            assert_eq!(said(answer), expected);
        }
        for body in ["", "null", "[]", "{}", r#"{"success":1}"#, r#"{"result":{}}"#] {
            assert!(matches!(said(answered(200, body)), EndpointAnswer::Failed(_)), "{body}");
        }
        assert!(matches!(said(Ok(CallbackResponse { status: 200, body: None })), EndpointAnswer::Failed(_)));
        for status in [408, 425, 429, 500, 502, 503, 599] {
            assert!(matches!(said(answered(status, "")), EndpointAnswer::Trouble(_)), "{status}");
        }
        for status in [301, 302, 400, 401, 404, 410, 422] {
            assert!(matches!(said(answered(status, "")), EndpointAnswer::Failed(_)), "{status}");
        }
        assert_eq!(said(Err("cut".into())), EndpointAnswer::Trouble("cut".into()));
    }
}
