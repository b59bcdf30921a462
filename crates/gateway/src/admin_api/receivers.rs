//! Receivers of webhooks ([`crate::receivers`]): an operator makes one, and reads what arrives.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use dialects::framing::sse;
use http::StatusCode;
use model::Fault;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use tokio::sync::watch;
use url::Url;
use web::body::{Response, reserve, with_reserved};
use web::headers::last_event_id;
use web::response::private_json;
use web::sse::{EventSource, EventStream, Flow};

use super::problem::ApiProblem;
use super::{ApiContext, ok, shown, wants_events};
use crate::receivers::{ReceivedRequest, ReceiverFacts, Receivers};

/// A receiver.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Receiver")]
pub(super) struct ApiReceiver {
    id: String,
    /// The address for webhooks. It takes POST without a credential.
    url: String,
    made_at: String,
    expires_at: String,
    /// Why this server's own webhooks may not go to the address, and what allows them; null where they may.
    refused: Option<String>,
}

/// A request that came to a receiver.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ReceivedRequest")]
pub(super) struct ApiReceived {
    /// From 1.
    number: u64,
    at: String,
    /// Names and values in their order.
    headers: Vec<(String, String)>,
    /// Null where the body is no text.
    body: Option<String>,
    /// Of a body that is no text.
    body_base64: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Receptions")]
pub(super) struct ApiReceptions {
    receiver: ApiReceiver,
    requests: Vec<ApiReceived>,
}

fn of(request: &ReceivedRequest) -> ApiReceived {
    let body = std::str::from_utf8(&request.body).ok().map(str::to_owned);
    let body_base64 = body.is_none().then(|| STANDARD.encode(&request.body));
    let (number, at, headers) = (request.number, request.at.to_string(), request.headers.clone());
    ApiReceived { number, at, headers, body, body_base64 }
}

fn receiver(context: &ApiContext<'_>, about: &ReceiverFacts) -> ApiReceiver {
    let server = context.server;
    let base = server.cards.base_url(&server.settings, context.http.head);
    let url = format!("{base}{}", about.path);
    let admitted = match Url::parse(&url) {
        Ok(parsed) => context.door.post.policy().admit(&parsed).map_err(|refused| refused.message()),
        Err(_) => Err("the server does not know its own address; set public_url in the config"),
    };
    ApiReceiver {
        id: about.id.clone(),
        url,
        made_at: about.made_at.to_string(),
        expires_at: about.expires_at.to_string(),
        refused: admitted.err().map(str::to_owned),
    }
}

fn missing() -> ApiProblem {
    ApiProblem::missing("there is no such receiver; it ends an hour after it was made, and at a restart")
}

pub(super) async fn make(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let made = context.door.receivers.make(&context.caller.known)?;
    let line = json!({ "receiver": made.id, "tenant": made.tenant });
    context.admin().changed("receivers", "made", line);
    shown(StatusCode::CREATED, &receiver(context, &made))
}

pub(super) async fn remove(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let gone = context.door.receivers.remove(context.http.id(), context.tenant()).ok_or_else(missing)?;
    let line = json!({ "receiver": gone.id, "tenant": gone.tenant });
    context.admin().changed("receivers", "removed", line);
    ok(&receiver(context, &gone))
}

pub(super) async fn show(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let (receivers, id) = (&context.door.receivers, context.http.id());
    let about = receivers.find(id, context.tenant()).ok_or_else(missing)?;
    let after = u64::from(context.number("after", 0));
    if wants_events(context.http.head) {
        return stream(context, &about, after);
    }
    let (requests, _) = receivers.read(id, context.tenant(), after).ok_or_else(missing)?;
    let server = context.server;
    // Text grows when it is written as JSON.
    let size = requests.iter().map(|request| request.bytes() * 2 + 256).sum();
    let share = reserve(&server.answers, size)?;
    let shown = ApiReceptions {
        receiver: receiver(context, &about),
        requests: requests.iter().map(|request| of(request)).collect(),
    };
    let bytes = serde_json::to_vec(&shown).map_err(Fault::internal)?;
    Ok(private_json(StatusCode::OK, with_reserved(bytes.into(), share)))
}

fn stream(context: &ApiContext<'_>, about: &ReceiverFacts, after: u64) -> Result<Response, ApiProblem> {
    let server = context.server;
    let after = match last_event_id(&context.http.head.headers) {
        None => after,
        Some(named) => {
            let number = named.ok().and_then(|text| text.strip_prefix(&*about.id)?.strip_prefix('.')?.parse().ok());
            number.ok_or_else(|| ApiProblem::field("Last-Event-ID", "is no request of this receiver"))?
        }
    };
    let throttle = server.throttle.as_ref();
    let permit = throttle.map(|throttle| throttle.stream(&context.caller.known, context.http.address)).transpose()?;
    let tenant = context.tenant().map(str::to_owned);
    let receivers = context.door.receivers.clone();
    let (unsent, news) = receivers.read(&about.id, tenant.as_deref(), after).ok_or_else(missing)?;
    let feed = ReceiverFeed { receivers, id: about.id.clone(), tenant, last: after, unsent: unsent.into(), news };
    let heartbeat = Duration::from_millis(server.settings.heartbeat_ms);
    let stream = EventStream::new(feed, server.metrics.streams.clone()).heartbeat(heartbeat, sse::HEARTBEAT);
    Ok(stream.counted(server.answers.clone()).permits([permit.flatten(), None]).respond())
}

/// The requests of one receiver, as they come, until it ends.
struct ReceiverFeed {
    receivers: Arc<Receivers>,
    id: String,
    tenant: Option<String>,
    /// The number of the last request that was taken from the receiver.
    last: u64,
    unsent: VecDeque<Arc<ReceivedRequest>>,
    news: watch::Receiver<u64>,
}

impl EventSource for ReceiverFeed {
    type Item = Arc<ReceivedRequest>;

    async fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(request) = self.unsent.pop_front() {
                self.last = request.number;
                return Some(request);
            }
            self.news.changed().await.ok()?;
            let (unsent, _) = self.receivers.read(&self.id, self.tenant.as_deref(), self.last)?;
            self.unsent = unsent.into();
        }
    }

    async fn write(&mut self, piece: &mut Vec<u8>, item: Option<Self::Item>) -> io::Result<Flow> {
        let Some(request) = item else { return Ok(Flow::Ends) };
        let data = serde_json::to_vec(&of(&request)).map_err(io::Error::other)?;
        sse::write_frame(piece, Some(format_args!("{}.{}", self.id, request.number)), None, &[&data]);
        Ok(Flow::Continues)
    }
}
