//! Webhooks of external agents: notices of the events that an agent subscribes to.
//!
//! A notice is a record, one for each agent and event, written in the commit of the step that it reports, so that a
//! crash neither loses nor invents one. A process claims a notice by postponing its next attempt, so that one process
//! on the store delivers it; if that process dies, the notice becomes due again. An agent therefore receives every
//! event at least once and recognises repeats by the event's id. A delivered notice is removed; an undeliverable one
//! stays for a while as lost, for its owner to see and to have delivered again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use engine::{CommitError, RetrySchedule, SideWrites};
use ledger::records::{decode, listed};
use ledger::{Row, UserId};
use market_rules::capability::Status as Offering;
use market_rules::transaction::{Role, Status};
use market_rules::{Capability, Transaction};
use model::ports::store::Conflict;
use model::ports::webhook::WebhookOutcome;
use model::{Expect, Json, Listed, RecordChange, Time};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::service::externals::{self, External};
use crate::service::records;
use crate::service::webhooks::{Destination, MarketDelivery, NoDestination};
use crate::service::{Error, Market, MarketCaller};

/// Maximum attempts of a notice, and the delays between them.
const ATTEMPTS: u32 = 15;
const RETRIES: RetrySchedule = RetrySchedule { first_ms: 1_000, most_ms: 3_600_000, asked_most_ms: 3_600_000 };
/// Timeout of a delivery, and duration of a process's claim on a notice.
const TIMEOUT: Duration = Duration::from_secs(15);
const TAKEN_MS: u64 = 25_000;
/// Concurrent deliveries of this process, and to one agent.
const AT_ONCE: usize = 64;
const AT_ONCE_EACH: usize = 4;
/// Maximum number of pending notices of one agent; further events are dropped.
const MOST_WAITING: u64 = 1_000;
/// Number of stored lost notices of one agent, and their retention.
const MOST_LOST: u64 = 100;
pub(crate) const LOST_MS: i64 = 7 * 86_400_000;
/// Notices that are read in one round, and in one page.
const LOOKED_AT: u32 = 2_000;
const PAGE: u32 = 200;
/// Time between looks at the store for notices that a dead process has left.
const LOOK: Duration = Duration::from_secs(5);
/// Maximum length of an error text.
const MAX_WORDS: usize = 200;

macro_rules! events {
    ($($variant:ident = $name:literal),+ $(,)?) => {
        /// Events of webhooks.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Event { $(#[serde(rename = $name)] $variant),+ }

        impl Event {
            pub const ALL: &'static [Event] = &[$(Event::$variant),+];
            pub fn name(self) -> &'static str {
                match self { $(Event::$variant => $name),+ }
            }
            pub fn from_name(name: &str) -> Option<Event> {
                Event::ALL.iter().copied().find(|known| known.name() == name)
            }
        }
    };
}
events! {
    TransactionCreated = "transaction.created",
    TransactionFrozen = "transaction.frozen",
    TransactionAccepted = "transaction.accepted",
    TransactionDelivered = "transaction.delivered",
    TransactionSettled = "transaction.settled",
    TransactionCancelled = "transaction.cancelled",
    TransactionRejected = "transaction.rejected",
    TransactionFailed = "transaction.failed",
    OrderCompleted = "order.completed",
    CapabilityCreated = "capability.created",
    CapabilityUpdated = "capability.updated",
    CapabilitySubmitted = "capability.submitted",
    CapabilityActive = "capability.active",
    CapabilityRejected = "capability.rejected",
    CapabilityOffline = "capability.offline",
    CapabilityRemoved = "capability.removed",
}

impl Event {
    /// The events of a purchase's change of status. A step without a change of status has none.
    fn of_transaction(from: Option<Status>, to: Status) -> &'static [Event] {
        match (from, to) {
            (None, Status::Frozen) => &[Event::TransactionCreated, Event::TransactionFrozen],
            (None, _) => &[Event::TransactionCreated],
            (Some(from), to) if from == to => &[],
            (Some(_), Status::PendingFreeze) => &[],
            (Some(_), Status::Frozen) => &[Event::TransactionFrozen],
            (Some(_), Status::Accepted) => &[Event::TransactionAccepted],
            (Some(_), Status::Delivered) => &[Event::TransactionDelivered],
            (Some(_), Status::Settled) => &[Event::TransactionSettled, Event::OrderCompleted],
            (Some(_), Status::CancelledByBuyer) => &[Event::TransactionCancelled],
            (Some(_), Status::RejectedBySeller) => &[Event::TransactionRejected],
            (Some(_), Status::Failed) => &[Event::TransactionFailed],
        }
    }

    /// The event of a capability's change of status.
    pub(crate) fn of_capability(from: Option<Offering>, to: Offering) -> Event {
        match (from, to) {
            (None, _) => Event::CapabilityCreated,
            (Some(from), to) if from == to => Event::CapabilityUpdated,
            (Some(_), Offering::Draft) => Event::CapabilityUpdated,
            (Some(_), Offering::PendingReview) => Event::CapabilitySubmitted,
            (Some(_), Offering::Active) => Event::CapabilityActive,
            (Some(_), Offering::Rejected) => Event::CapabilityRejected,
            (Some(_), Offering::Offline) => Event::CapabilityOffline,
        }
    }
}

/// A notice that waits for delivery, or was given up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WebhookNotice {
    tenant: Arc<str>,
    agent: Arc<str>,
    /// The same in every attempt.
    id: Arc<str>,
    event: Event,
    /// The body, as of the time of the event.
    body: Json,
    made_at: Time,
    attempts: u32,
    /// Time of the next attempt.
    due: Time,
    /// The error of the last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last: Option<Arc<str>>,
    /// Time at which the notice was given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lost_at: Option<Time>,
}
impl Row for WebhookNotice {
    const NAME: &'static str = "notice";
}

/// Delivery status of an agent's webhook.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deliveries {
    pub waiting: u64,
    pub lost: u64,
    /// The last lost notices, the newest first.
    pub last_lost: Vec<LostNotice>,
}

/// A notice that was given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostNotice {
    pub id: Arc<str>,
    pub event: Event,
    pub made_at: Time,
    pub lost_at: Time,
    pub attempts: u32,
    pub reason: Option<Arc<str>>,
}

/// The list begins with the next attempt.
const DUE: &str = "due";
/// The list begins with the oldest lost notice.
pub(crate) const LOST: &str = "lost";

fn waiting_for(tenant: &str, agent: &str) -> Arc<str> {
    records::joined(&["waiting", tenant, agent])
}

fn lost_to(tenant: &str, agent: &str) -> Arc<str> {
    records::joined(&["lost", tenant, agent])
}

impl WebhookNotice {
    fn key(&self) -> Arc<str> {
        records::joined(&[&self.tenant, &self.agent, &self.id])
    }

    fn lists(&self) -> Vec<Listed> {
        match self.lost_at {
            None => vec![
                listed(DUE, self.due.0.saturating_neg()),
                listed(waiting_for(&self.tenant, &self.agent), self.made_at.0.saturating_neg()),
            ],
            Some(at) => vec![
                listed(LOST, at.0.saturating_neg()),
                listed(lost_to(&self.tenant, &self.agent), at.0.saturating_neg()),
            ],
        }
    }

    fn put(&self, expect: Expect) -> RecordChange {
        records::NOTICES.put(self.key(), expect, self, self.lists())
    }

    fn remove(&self, version: u64) -> RecordChange {
        records::NOTICES.remove(self.key(), Expect::Version(version))
    }
}

/// The deliveries of this process.
#[derive(Default)]
pub(crate) struct NoticeQueue {
    bell: Notify,
    /// By key, with the agent.
    under_way: Mutex<HashMap<Arc<str>, Arc<str>>>,
}

impl NoticeQueue {
    /// Begins a delivery, unless it is running already or a limit of deliveries is reached.
    fn take(&self, notice: &WebhookNotice) -> bool {
        let key = notice.key();
        let mut under_way = self.under_way.lock();
        let same = under_way.values().filter(|agent| **agent == notice.agent).count();
        if under_way.len() >= AT_ONCE || same >= AT_ONCE_EACH || under_way.contains_key(&key) {
            return false;
        }
        under_way.insert(key, notice.agent.clone());
        true
    }

    fn is_full(&self) -> bool {
        self.under_way.lock().len() >= AT_ONCE
    }
}

/// Frees the place of a delivery when it ends, in any way.
struct Taken {
    market: Market,
    key: Arc<str>,
}

impl Drop for Taken {
    fn drop(&mut self) {
        let desk = &self.market.shared.notices;
        desk.under_way.lock().remove(&self.key);
        desk.bell.notify_one();
    }
}

/// An event and its subject.
struct NewNotice<'a> {
    event: Event,
    /// The subject's name, and the number of its change.
    about: &'a str,
    change: u64,
    at: Time,
    data: Value,
}

impl Market {
    /// Wakes the delivery loop.
    pub(crate) fn ring(&self, something: bool) {
        if something {
            self.shared.notices.bell.notify_one();
        }
    }

    pub(crate) async fn notices_of_transaction(
        &self,
        from: Option<Status>,
        row: &Transaction,
    ) -> Result<Vec<RecordChange>, Error> {
        let events = Event::of_transaction(from, row.status);
        if events.is_empty() {
            return Ok(Vec::new());
        }
        let (buyer, seller) = tokio::join!(self.hooks(&row.tenant, &row.buyer), self.hooks(&row.tenant, &row.seller));
        let mut changes = Vec::new();
        for (role, hooks) in [(Role::Buyer, buyer?), (Role::Seller, seller?)] {
            for event in events {
                let told = NewNotice {
                    event: *event,
                    about: &row.id.to_string(),
                    change: row.version,
                    at: row.updated_at,
                    data: Value::Null,
                };
                changes.extend(self.notices(&row.tenant, &hooks, told, || told_of_transaction(role, row)).await?);
            }
        }
        Ok(changes)
    }

    pub(crate) async fn notices_of_capability(
        &self,
        event: Event,
        one: &Capability,
    ) -> Result<Vec<RecordChange>, Error> {
        let hooks = self.hooks(&one.tenant, &one.owner).await?;
        let told =
            NewNotice { event, about: one.id.as_str(), change: one.version, at: one.updated_at, data: Value::Null };
        self.notices(&one.tenant, &hooks, told, || told_of_capability(event, one)).await
    }

    async fn notices(
        &self,
        tenant: &Arc<str>,
        hooks: &externals::Hooks,
        mut told: NewNotice<'_>,
        data: impl FnOnce() -> Value,
    ) -> Result<Vec<RecordChange>, Error> {
        let wanting: Vec<_> = hooks.agents.iter().filter(|hook| hook.events.contains(&told.event)).collect();
        if wanting.is_empty() {
            return Ok(Vec::new());
        }
        told.data = data();
        let mut changes = Vec::with_capacity(wanting.len());
        for hook in wanting {
            if self.count(waiting_for(tenant, &hook.agent)).await? >= MOST_WAITING {
                tracing::warn!(agent = %hook.agent, event = told.event.name(), "a webhook is not told: too many wait for it");
                continue;
            }
            changes.push(told.notice(tenant, &hook.agent).put(Expect::Absent));
        }
        Ok(changes)
    }

    async fn count(&self, list: Arc<str>) -> Result<u64, Error> {
        self.length_of(records::NOTICES, list).await
    }

    /// The first rows of a list, with their versions.
    async fn first_notices(&self, list: Arc<str>, limit: u32) -> Result<Vec<(WebhookNotice, u64)>, Error> {
        let page = records::NOTICES.records(self.store(), list, None, limit).await?;
        page.records.iter().map(|(record, _)| Ok((decode(&record.body)?, record.version))).collect()
    }

    /// Delivery status of the webhook of a caller's agent.
    pub async fn deliveries(&self, one: &External) -> Result<Deliveries, Error> {
        let waiting = self.count(waiting_for(&one.tenant, &one.id)).await?;
        let lost = self.count(lost_to(&one.tenant, &one.id)).await?;
        let kept = self.first_notices(lost_to(&one.tenant, &one.id), MOST_LOST as u32).await?;
        let last_lost = kept.into_iter().rev().take(20).map(|(notice, _)| LostNotice {
            id: notice.id,
            event: notice.event,
            made_at: notice.made_at,
            lost_at: notice.lost_at.unwrap_or(notice.due),
            attempts: notice.attempts,
            reason: notice.last,
        });
        Ok(Deliveries { waiting, lost, last_lost: last_lost.collect() })
    }

    /// Schedules lost notices for delivery again; returns their number.
    pub async fn redeliver(&self, caller: &MarketCaller, id: &str) -> Result<u64, Error> {
        let one = self.external(caller, id).await?;
        let lost = self.first_notices(lost_to(&one.tenant, &one.id), MOST_LOST as u32).await?;
        let now = self.now();
        let changes = lost.iter().map(|(notice, version)| {
            let again = WebhookNotice { attempts: 0, due: now, lost_at: None, ..notice.clone() };
            again.put(Expect::Version(*version))
        });
        let records: Vec<RecordChange> = changes.collect();
        let count = records.len() as u64;
        if !self.changed(records).await? {
            return Err(market_rules::Error::Changed.into());
        }
        if let Ok((url, _)) = self.unsealed(&one) {
            self.vouch_for(&url);
        }
        self.ring(count > 0);
        Ok(count)
    }

    /// Commits these changes; false on a conflict with another process.
    async fn changed(&self, records: Vec<RecordChange>) -> Result<bool, Error> {
        if records.is_empty() {
            return Ok(true);
        }
        match self.engine().keep(SideWrites { records, ..SideWrites::default() }).await {
            Ok(()) => Ok(true),
            Err(CommitError::Met(Conflict::Record(..))) => Ok(false),
            Err(unmoved) => Err(unmoved.into()),
        }
    }

    /// Begins due deliveries within the limits; returns the time of the next look.
    async fn take_up(&self) -> Result<Duration, Error> {
        let (mut looked_at, mut after) = (0, None);
        while looked_at < LOOKED_AT && !self.shared.notices.is_full() {
            let page = records::NOTICES.records(self.store(), DUE, after, PAGE).await?;
            looked_at += page.records.len() as u32;
            let now = self.now();
            for (record, rank) in &page.records {
                let due = rank.saturating_neg();
                if due > now.0 {
                    let wait = u64::try_from(due.saturating_sub(now.0)).unwrap_or_default();
                    return Ok(Duration::from_millis(wait).min(LOOK));
                }
                // An unreadable notice does not block others.
                let notice: WebhookNotice = match decode(&record.body) {
                    Ok(notice) => notice,
                    Err(refused) => {
                        tracing::error!(key = %record.key.escape_debug(), "a webhook cannot be told: {refused}");
                        continue;
                    }
                };
                if self.shared.notices.take(&notice) {
                    let taken = Taken { market: self.clone(), key: record.key.clone() };
                    let version = record.version;
                    tokio::spawn(async move {
                        if let Err(refused) = taken.market.deliver_one(notice, version).await {
                            tracing::warn!("a webhook is told later: {refused}");
                            // The failure may persist; wait before the next look.
                            tokio::time::sleep(LOOK).await;
                        }
                        drop(taken);
                    });
                }
            }
            after = page.records.last().map(|(record, rank)| (*rank, record.key.clone()));
            if !page.more {
                break;
            }
        }
        Ok(LOOK)
    }

    async fn deliver_one(&self, notice: WebhookNotice, version: u64) -> Result<(), Error> {
        let agent = self.read(records::EXTERNALS, externals::key(&notice.tenant, &notice.agent)).await?;
        // A removed agent, or one without this subscription, gets no notice.
        let wanting = agent
            .map(|(agent, _)| agent)
            .filter(|agent| agent.webhook.as_ref().is_some_and(|webhook| webhook.events.contains(&notice.event)));
        let Some(agent) = wanting else {
            self.changed(vec![notice.remove(version)]).await?;
            return Ok(());
        };
        let destination = match self.unsealed(&agent) {
            Ok((url, secret)) => match self.destination(&url) {
                Ok(destination) => Ok((destination, secret)),
                Err(NoDestination::Paused(until)) => {
                    // The pause uses up no attempts.
                    let later = WebhookNotice { due: until, ..notice };
                    self.changed(vec![later.put(Expect::Version(version))]).await?;
                    return Ok(());
                }
                Err(NoDestination::Wrong(why)) => Err(why),
            },
            Err(fault) => Err(fault.message),
        };
        let now = self.now();
        let mine = WebhookNotice { attempts: notice.attempts + 1, due: now.plus_ms(TAKEN_MS), ..notice };
        if !self.changed(vec![mine.put(Expect::Version(version))]).await? {
            return Ok(());
        }
        let version = version + 1;
        let outcome = match destination {
            Ok((destination, secret)) => self.send(&mine, destination, secret).await,
            Err(why) => WebhookOutcome::Failed { why, retry_after_ms: None },
        };
        let now = self.now();
        let (why, next) = match outcome {
            WebhookOutcome::Taken | WebhookOutcome::Untold => {
                self.changed(vec![mine.remove(version)]).await?;
                return Ok(());
            }
            WebhookOutcome::Failed { why, retry_after_ms } => {
                let wait = RETRIES.delay_ms(mine.attempts, retry_after_ms);
                (why, (mine.attempts < ATTEMPTS).then(|| now.plus_ms(wait)))
            }
            WebhookOutcome::Gone { why } => (why, None),
        };
        let last = Some(why.chars().take(MAX_WORDS).collect::<String>().into());
        let Some(due) = next else {
            tracing::warn!(agent = %mine.agent, event = %mine.id, attempt = mine.attempts, "a webhook is given up: {why}");
            return self.lose(WebhookNotice { last, lost_at: Some(now), ..mine }, version).await;
        };
        let later = WebhookNotice { last, due, ..mine };
        self.changed(vec![later.put(Expect::Version(version))]).await?;
        Ok(())
    }

    async fn send(&self, notice: &WebhookNotice, to: Destination, secret: String) -> WebhookOutcome {
        let delivery = MarketDelivery {
            receiver: to.endpoint.clone(),
            request_id: notice.id.clone(),
            event: Some(notice.event.name()),
            attempt: notice.attempts,
            body: notice.body.text().to_owned(),
            secret: secret.into(),
            timeout: TIMEOUT,
            answer_bytes: None,
        };
        self.attempt(to, delivery).await.settled().outcome
    }

    /// Stores a notice as lost; replaces the oldest lost one at the limit.
    async fn lose(&self, notice: WebhookNotice, version: u64) -> Result<(), Error> {
        let list = lost_to(&notice.tenant, &notice.agent);
        let mut records = vec![notice.put(Expect::Version(version))];
        if self.count(list.clone()).await? >= MOST_LOST {
            let oldest = self.first_notices(list, 1).await?;
            records.extend(oldest.iter().map(|(oldest, version)| oldest.remove(*version)));
        }
        if !self.changed(records).await? {
            // Two concurrent losses chose the same oldest notice.
            self.changed(vec![notice.put(Expect::Version(version))]).await?;
        }
        Ok(())
    }
}

impl NewNotice<'_> {
    fn notice(&self, tenant: &Arc<str>, agent: &Arc<str>) -> WebhookNotice {
        let id: Arc<str> = format!("evt_{}.{}.{}", self.about, self.change, self.event.name()).into();
        let body = json!({
            "event_id": &*id,
            "event_type": self.event.name(),
            "occurred_at": self.at.to_string(),
            "external_agent_id": &**agent,
            "sequence": self.change,
            "idempotency_key": &*id,
            "data": self.data,
        });
        WebhookNotice {
            tenant: tenant.clone(),
            agent: agent.clone(),
            id,
            event: self.event,
            body: Json::from_value(&body),
            made_at: self.at,
            attempts: 0,
            due: self.at,
            last: None,
            lost_at: None,
        }
    }
}

/// The summary of a transaction, without its result, which is read through REST with authorization.
fn told_of_transaction(role: Role, row: &Transaction) -> Value {
    let user = |user: &UserId| user.to_string();
    json!({
        "transaction_id": row.id.tx(),
        "task_id": row.id.task(),
        "role": role.name(),
        "capability_id": row.capability.as_str(),
        "buyer_user_id": user(&row.buyer),
        "seller_user_id": user(&row.seller),
        "transaction_type": row.pricing_model.name(),
        "price_ut": row.price.to_string(),
        "commission_ut": row.commission.to_string(),
        "status": row.status.name(),
        "demand_id": row.demand.as_deref(),
        "context_id": row.context.as_ref().map(|context| context.as_str()),
        "reason": row.reason.as_deref(),
        "created_at": row.created_at.to_string(),
        "updated_at": row.updated_at.to_string(),
    })
}

fn told_of_capability(event: Event, one: &Capability) -> Value {
    json!({
        "capability_id": one.id.as_str(),
        "title": &*one.terms.title,
        "category": &*one.terms.category,
        "price_ut": one.terms.price.to_string(),
        "pricing_model": one.terms.pricing_model.name(),
        "available": one.terms.available,
        "status": if event == Event::CapabilityRemoved { "removed" } else { one.status.name() },
        "reason": one.reason.as_deref(),
        "updated_at": one.updated_at.to_string(),
    })
}

/// Delivers due notices, until the store is closed.
pub(crate) async fn deliver(market: Market) {
    loop {
        if market.engine().is_draining() {
            return;
        }
        let wait = match market.take_up().await {
            Ok(wait) => wait,
            Err(refused) => {
                tracing::warn!("webhooks of external agents are told later: {refused}");
                LOOK
            }
        };
        tokio::select! {
            () = market.shared.notices.bell.notified() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
}
