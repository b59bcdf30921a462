//! External agents and their webhooks: `/external-agents`.

use crate::service::{Deliveries, Event, External, NewExternal, Once, WebhookEdit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::capabilities::Removed;
use super::error::Error;
use super::routes::{KeyedBody, MarketFuture, MarketRequest};
use super::{Page, names};
use web::openapi::{ParamKind, QueryParam};

/// Parameters of the query, as UUMit documents them. The body may have the same members.
pub(super) const NEW: [QueryParam; 4] = [
    QueryParam { name: "platform_url", description: "Where the agent is.", kind: ParamKind::Text { most: 2_000 } },
    QueryParam { name: "agent_name", description: "What it is called.", kind: ParamKind::Text { most: 200 } },
    QueryParam { name: "description", description: "What it does.", kind: ParamKind::Text { most: 2_000 } },
    QueryParam {
        name: "auth_type",
        description: "How it is called, in your words.",
        kind: ParamKind::Text { most: 50 },
    },
];

/// The schema of an event's name.
fn one_event() -> serde_json::Value {
    serde_json::json!({ "type": "string", "enum": names(Event::ALL, Event::name) })
}

/// What the query leaves out.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct NewExternalAgent {
    #[serde(default)]
    #[schemars(length(min = 1, max = 2_000))]
    platform_url: Option<String>,
    #[serde(default)]
    #[schemars(length(min = 1, max = 200))]
    agent_name: Option<String>,
    #[serde(default)]
    #[schemars(length(max = 2_000))]
    description: Option<String>,
    #[serde(default)]
    #[schemars(length(max = 50))]
    auth_type: Option<String>,
    #[allow(dead_code, reason = "read before the rest of the body is")]
    #[serde(default)]
    #[schemars(length(min = 1, max = 255))]
    idempotency_key: Option<String>,
}

/// What is left out stays as it is; at first, address and secret are needed, and all events are told.
#[derive(Deserialize, JsonSchema)]
pub(super) struct WebhookChange {
    /// A public HTTPS address.
    #[serde(default)]
    #[schemars(length(min = 1, max = 2_000))]
    webhook_url: Option<String>,
    #[serde(default)]
    #[schemars(length(min = 1, max = 16), extend("items" = one_event()))]
    webhook_events: Option<Vec<String>>,
    /// What signs. It is never shown.
    #[serde(default)]
    #[schemars(length(min = 16, max = 200))]
    webhook_secret: Option<String>,
    #[allow(dead_code, reason = "read before the rest of the body is")]
    #[serde(default)]
    #[schemars(length(min = 1, max = 255))]
    idempotency_key: Option<String>,
}

/// An agent of yours that lives elsewhere.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ExternalAgent")]
pub(super) struct ExternalAgentView {
    id: String,
    user_id: String,
    platform_url: String,
    agent_name: String,
    description: Option<String>,
    auth_type: String,
    webhook: Option<ShownWebhook>,
    #[schemars(extend("format" = "date-time"))]
    created_at: String,
    #[schemars(extend("format" = "date-time"))]
    updated_at: String,
    /// How its webhook is doing; not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    deliveries: Option<ShownDeliveries>,
}

/// Without what signs.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ExternalWebhook")]
struct ShownWebhook {
    /// `null` when it cannot be read any more: set it again.
    webhook_url: Option<String>,
    #[schemars(extend("items" = one_event()))]
    webhook_events: Vec<&'static str>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ExternalDeliveries")]
struct ShownDeliveries {
    /// Yet to be told.
    pending: u64,
    /// Tried in vain, and tried no more.
    dead: u64,
    /// The last of those, the newest first.
    last_dead: Vec<DeadDelivery>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct DeadDelivery {
    event_id: String,
    #[schemars(extend("enum" = names(Event::ALL, Event::name)))]
    event_type: &'static str,
    attempts: u32,
    /// What the last attempt met.
    reason: Option<String>,
    #[schemars(extend("format" = "date-time"))]
    occurred_at: String,
    #[schemars(extend("format" = "date-time"))]
    dead_at: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Redelivery {
    id: String,
    /// How many are told again.
    redelivered: u64,
}

impl ExternalAgentView {
    fn of(ask: &MarketRequest<'_>, one: &External) -> ExternalAgentView {
        let webhook = ask.market.webhook(one).map(|webhook| ShownWebhook {
            webhook_url: webhook.url,
            webhook_events: names(&webhook.events, Event::name),
        });
        ExternalAgentView {
            id: one.id.to_string(),
            user_id: one.owner.to_string(),
            platform_url: one.platform_url.to_string(),
            agent_name: one.agent_name.to_string(),
            description: one.description.as_ref().map(ToString::to_string),
            auth_type: one.auth_type.to_string(),
            webhook,
            created_at: one.created_at.to_string(),
            updated_at: one.updated_at.to_string(),
            deliveries: None,
        }
    }

    /// The view with the delivery status of the webhook.
    async fn whole(ask: &MarketRequest<'_>, one: &External) -> Result<ExternalAgentView, Error> {
        let Deliveries { waiting, lost, last_lost } = ask.market.deliveries(one).await?;
        let last_dead = last_lost.into_iter().map(|lost| DeadDelivery {
            event_id: lost.id.to_string(),
            event_type: lost.event.name(),
            attempts: lost.attempts,
            reason: lost.reason.map(|reason| reason.to_string()),
            occurred_at: lost.made_at.to_string(),
            dead_at: lost.lost_at.to_string(),
        });
        let deliveries = ShownDeliveries { pending: waiting, dead: lost, last_dead: last_dead.collect() };
        Ok(ExternalAgentView { deliveries: Some(deliveries), ..ExternalAgentView::of(ask, one) })
    }
}

fn id<'a>(ask: &'a MarketRequest<'_>) -> &'a str {
    ask.http.id()
}

/// The idempotency key also covers the query.
fn once(ask: &MarketRequest<'_>) -> Option<Once> {
    let once = ask.once.clone()?;
    let mut print = Sha256::new();
    print.update(once.print);
    for (name, value) in &ask.http.query {
        print.update(name.as_bytes());
        print.update((value.len() as u64).to_be_bytes());
        print.update(value.as_bytes());
    }
    Some(Once { print: print.finalize().into(), ..once })
}

pub(super) fn create<'a>(ask: &'a MarketRequest<'a>, body: NewExternalAgent) -> MarketFuture<'a, ExternalAgentView> {
    Box::pin(async move {
        let said = |name: &str, body: Option<String>| ask.text(name).map(str::to_owned).or(body);
        let new = NewExternal {
            platform_url: said("platform_url", body.platform_url),
            agent_name: said("agent_name", body.agent_name),
            description: said("description", body.description),
            auth_type: said("auth_type", body.auth_type),
        };
        let made = ask.market.add_external(ask.caller()?, &new, once(ask)).await?;
        Ok(ExternalAgentView::of(ask, &made))
    })
}

pub(super) fn list<'a>(ask: &'a MarketRequest<'a>, _: KeyedBody) -> MarketFuture<'a, Page<ExternalAgentView>> {
    Box::pin(async move {
        let found = ask.market.externals(ask.caller()?, ask.paging()).await?;
        Ok(Page::of(found, |one| ExternalAgentView::of(ask, one)))
    })
}

pub(super) fn one<'a>(ask: &'a MarketRequest<'a>, _: KeyedBody) -> MarketFuture<'a, ExternalAgentView> {
    Box::pin(async move {
        let one = ask.market.external(ask.caller()?, id(ask)).await?;
        ExternalAgentView::whole(ask, &one).await
    })
}

pub(super) fn remove<'a>(ask: &'a MarketRequest<'a>, _: KeyedBody) -> MarketFuture<'a, Removed> {
    Box::pin(async move {
        ask.market.remove_external(ask.caller()?, id(ask), ask.once.clone()).await?;
        Ok(Removed::of(id(ask)))
    })
}

pub(super) fn set_webhook<'a>(ask: &'a MarketRequest<'a>, body: WebhookChange) -> MarketFuture<'a, ExternalAgentView> {
    Box::pin(async move {
        let edit = WebhookEdit { url: body.webhook_url, events: body.webhook_events, secret: body.webhook_secret };
        let one = ask.market.set_webhook(ask.caller()?, id(ask), &edit, ask.once.clone()).await?;
        ExternalAgentView::whole(ask, &one).await
    })
}

pub(super) fn remove_webhook<'a>(ask: &'a MarketRequest<'a>, _: KeyedBody) -> MarketFuture<'a, ExternalAgentView> {
    Box::pin(async move {
        let one = ask.market.remove_webhook(ask.caller()?, id(ask), ask.once.clone()).await?;
        ExternalAgentView::whole(ask, &one).await
    })
}

pub(super) fn redeliver<'a>(ask: &'a MarketRequest<'a>, _: KeyedBody) -> MarketFuture<'a, Redelivery> {
    Box::pin(async move {
        let redelivered = ask.market.redeliver(ask.caller()?, id(ask)).await?;
        Ok(Redelivery { id: id(ask).to_owned(), redelivered })
    })
}
