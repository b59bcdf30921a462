//! Capabilities: creation, changes, listing, and immediate calls.

use std::sync::Arc;
use std::time::Duration;

use engine::{CommitError, SideWrites};
use ledger::FreshKey;
use ledger::records::listed;
use ledger::{TransactionId, UserId, Ut};
use market_rules::capability::{
    After, CapabilityAction, CapabilityDraft, CapabilityTerms, CapabilityType, FieldError, PricingModel, Status,
};
use market_rules::transaction::{self, Status as Stage};
use market_rules::{Actor, Capability, CapabilityId, Served, Transaction, Via, autonomy};
use model::ports::store::Conflict;
use model::{Expect, Fault, Json, Kind, Listed, RecordChange};
use sha2::{Digest, Sha256};

use crate::service::idempotency::{StoredResult, is_about_once};
use crate::service::orders::purchase_of;
use crate::service::records::{self, capability_key};
use crate::service::{
    Error, Event, Market, MarketCaller, MarketConfig, MarketEntity, Once, OrderRequest, Paged, Paging,
};

/// Attempts of a change that loses races.
const ATTEMPTS: u32 = 8;
/// The wait for a seller without a time limit, and the margin added to a limit.
const PATIENCE_S: u32 = 30;
const GRACE_S: u32 = 10;

/// A filter for capabilities on the market.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub category: Option<Arc<str>>,
    pub capability_type: Option<CapabilityType>,
    pub pricing_model: Option<PricingModel>,
    /// Words that title, description or tags contain.
    pub words: Option<String>,
}

/// A change of terms: fields absent from the draft keep their values, except the removed ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edit {
    pub draft: CapabilityDraft,
    pub without: Vec<Without>,
}

/// The optional field that an edit removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Without {
    Tags,
    AutoAccept,
    DailyLimit,
    RateLimit,
    Callback,
    Agent,
    Worker,
}

impl From<CapabilityDraft> for Edit {
    fn from(draft: CapabilityDraft) -> Edit {
        Edit { draft, without: Vec::new() }
    }
}

/// The result of an immediate call: bought, served and settled; or, if the price is above the agent's limits, ordered
/// and waiting for a confirmation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invoked {
    pub transaction: Transaction,
}

impl Market {
    /// Creates a draft of the caller. `id` is for demos; otherwise one is drawn (`cap_` and letters).
    pub async fn offer(
        &self,
        caller: &MarketCaller,
        draft: CapabilityDraft,
        id: Option<CapabilityId>,
        once: Option<Once>,
    ) -> Result<Capability, Error> {
        let perform = |fresh| self.new_capability(caller, draft, id, fresh);
        self.perform_once(once.as_ref().map(|once| (caller, once)), perform, capability_of).await
    }

    async fn new_capability(
        &self,
        caller: &MarketCaller,
        draft: CapabilityDraft,
        id: Option<CapabilityId>,
        fresh: Option<FreshKey>,
    ) -> Result<Capability, Error> {
        let config = self.config();
        let terms = checked(&draft, draft.served.as_ref(), &config)?;
        let id = id.unwrap_or_else(|| {
            CapabilityId(format!("cap_{}", TransactionId::from(self.engine().new_task_id())).into())
        });
        let new = Capability::new(&caller.tenant, id, caller.user.clone(), terms, self.now());
        match self.keep_capability(None, &new, Expect::Absent, fresh.as_ref()).await? {
            Ok(()) => Ok(new),
            Err(met) if is_about_once(&met) => Err(market_rules::Error::Changed.into()),
            Err(_) => Err(Error::Taken("capability")),
        }
    }

    /// A capability on the market, or one of the caller's own.
    pub async fn capability(&self, caller: Option<&MarketCaller>, id: &CapabilityId) -> Result<Capability, Error> {
        let found = self.read_capability(id).await?;
        let shown = |one: &Capability| {
            one.is_on_sale() || caller.is_some_and(|caller| caller.actor().is(&one.tenant, &one.owner))
        };
        found.filter(shown).ok_or(Error::Unknown(MarketEntity::Capability))
    }

    /// Changes the terms; fields absent from the draft keep their values.
    pub async fn edit_capability(
        &self,
        caller: &MarketCaller,
        id: &CapabilityId,
        edit: impl Into<Edit>,
        once: Option<Once>,
    ) -> Result<Capability, Error> {
        let edit = edit.into();
        let config = self.config();
        let actor = caller.actor();
        let changed = self.change(&actor, id, once, |present| {
            // The list of permitted agents can change; a capability keeps its agent until it is edited.
            let terms = checked(&overlaid(&present.terms, &edit), edit.draft.served.as_ref(), &config)?;
            Ok(CapabilityAction::Edit(Box::new(terms)))
        });
        changed.await?.ok_or(Error::Unknown(MarketEntity::Capability))
    }

    /// Performs another action; `None` if it removed the capability.
    pub async fn change_capability(
        &self,
        actor: &Actor,
        id: &CapabilityId,
        action: CapabilityAction,
        once: Option<Once>,
    ) -> Result<Option<Capability>, Error> {
        self.change(actor, id, once, |_| Ok(action.clone())).await
    }

    async fn change(
        &self,
        actor: &Actor,
        id: &CapabilityId,
        once: Option<Once>,
        action: impl Fn(&Capability) -> Result<CapabilityAction, Error>,
    ) -> Result<Option<Capability>, Error> {
        // Spending limits do not matter here.
        let promise = match actor {
            Actor::User { tenant, id, via } => {
                let limits = autonomy::SpendingLimits::default();
                once.map(|once| (MarketCaller { tenant: tenant.clone(), user: id.clone(), via: *via, limits }, once))
            }
            Actor::Platform => None,
        };
        let keyed = promise.as_ref().map(|(caller, once)| (caller, once));
        self.perform_once(keyed, |fresh| self.changed_capability(actor, id, action, fresh), |made| outcome_of(made, id))
            .await
    }

    async fn changed_capability(
        &self,
        actor: &Actor,
        id: &CapabilityId,
        action: impl Fn(&Capability) -> Result<CapabilityAction, Error>,
        fresh: Option<FreshKey>,
    ) -> Result<Option<Capability>, Error> {
        let tenant = self.config().tenant.clone();
        let key = capability_key(&tenant, id);
        for _ in 0..ATTEMPTS {
            let found = self.read(records::CAPABILITIES, key.clone()).await?;
            let (present, version) = found.ok_or(Error::Unknown(MarketEntity::Capability))?;
            let shown = *actor == Actor::Platform || actor.is(&present.tenant, &present.owner) || present.is_on_sale();
            if !shown {
                return Err(Error::Unknown(MarketEntity::Capability));
            }
            // Ownership is checked before the fields.
            let action = match action(&present) {
                Err(Error::Fields(_)) if !actor.is(&present.tenant, &present.owner) => {
                    CapabilityAction::Edit(Box::new(present.terms.clone()))
                }
                action => action?,
            };
            let met = match present.step(actor, action, self.now(), &self.config().capabilities)? {
                After::Kept(next) => {
                    match self
                        .keep_capability(Some(present.status), &next, Expect::Version(version), fresh.as_ref())
                        .await?
                    {
                        Ok(()) => return Ok(Some(*next)),
                        Err(met) => met,
                    }
                }
                After::Removed => {
                    let removed = records::CAPABILITIES.remove(key.clone(), Expect::Version(version));
                    let mut records = vec![removed];
                    records.extend(fresh.as_ref().map(|fresh| fresh.used_for(StoredResult::Removed, self.now())));
                    let last = Capability { version: present.version.saturating_add(1), ..present };
                    match self.kept_and_told(records, Event::CapabilityRemoved, &last).await? {
                        Ok(()) => return Ok(None),
                        Err(met) => met,
                    }
                }
            };
            if is_about_once(&met) {
                break;
            }
        }
        Err(market_rules::Error::Changed.into())
    }

    async fn keep_capability(
        &self,
        from: Option<Status>,
        next: &Capability,
        expect: Expect,
        fresh: Option<&FreshKey>,
    ) -> Result<Result<(), Conflict>, Error> {
        let mut records =
            vec![records::CAPABILITIES.put(capability_key(&next.tenant, &next.id), expect, next, lists_of(next))];
        records.extend(
            fresh.map(|fresh| fresh.used_for(StoredResult::Capability(Box::new(next.clone())), next.updated_at)),
        );
        let event = Event::of_capability(from, next.status);
        self.kept_and_told(records, event, next).await
    }

    /// With the notices of the change.
    async fn kept_and_told(
        &self,
        mut records: Vec<RecordChange>,
        event: Event,
        one: &Capability,
    ) -> Result<Result<(), Conflict>, Error> {
        let notices = self.notices_of_capability(event, one).await?;
        let told = !notices.is_empty();
        records.extend(notices);
        let done = self.kept(records).await?;
        self.ring(told && done.is_ok());
        Ok(done)
    }

    pub(crate) async fn kept(&self, records: Vec<RecordChange>) -> Result<Result<(), Conflict>, Error> {
        match self.engine().keep(SideWrites { records, ..SideWrites::default() }).await {
            Ok(()) => Ok(Ok(())),
            Err(CommitError::Met(met @ Conflict::Record(..))) => Ok(Err(met)),
            Err(other @ (CommitError::Met(_) | CommitError::Fault(_))) => Err(other.into()),
        }
    }

    /// Capabilities on the market, the newest first.
    pub async fn on_sale(&self, filter: &Filter, paging: Paging) -> Result<Paged<Capability>, Error> {
        let tenant = self.config().tenant.clone();
        let by = [
            filter.category.as_deref().map(|category| in_category(&tenant, category)),
            filter.capability_type.map(|what| records::joined(&["sale-type", &tenant, what.name()])),
            filter.pricing_model.map(|model| records::joined(&["sale-model", &tenant, model.name()])),
        ];
        let by: Vec<Arc<str>> = by.into_iter().flatten().collect();
        let words = words_of(filter.words.as_deref().unwrap_or_default());
        match (&by[..], words.is_empty()) {
            ([], true) => self.page(records::CAPABILITIES, on_market(&tenant), paging).await,
            ([only], true) => self.page(records::CAPABILITIES, only.clone(), paging).await,
            ([], false) => self.walked(on_market(&tenant), filter, &words, paging).await,
            (several, _) => {
                let narrowest = self.narrowest(several).await?;
                self.walked(narrowest, filter, &words, paging).await
            }
        }
    }

    async fn narrowest(&self, lists: &[Arc<str>]) -> Result<Arc<str>, Error> {
        let mut narrowest: Option<(u64, &Arc<str>)> = None;
        for list in lists {
            let total = records::CAPABILITIES.count(self.store(), list.clone()).await?;
            if narrowest.is_none_or(|(least, _)| total < least) {
                narrowest = Some((total, list));
            }
        }
        Ok(narrowest.map(|(_, list)| list.clone()).unwrap_or_default())
    }

    /// Filters the rows of a list, up to a limit.
    async fn walked(
        &self,
        list: Arc<str>,
        filter: &Filter,
        words: &[String],
        paging: Paging,
    ) -> Result<Paged<Capability>, Error> {
        let skip = u64::from(paging.page.saturating_sub(1)).saturating_mul(u64::from(paging.size));
        let (mut items, mut total) = (Vec::new(), 0_u64);
        self.walk_rows(records::CAPABILITIES, list, |one: Capability| {
            if fits(&one, filter, words) {
                if total >= skip && items.len() < paging.size as usize {
                    items.push(one);
                }
                total += 1;
            }
        })
        .await?;
        let more = skip.saturating_add(items.len() as u64) < total;
        Ok(Paged { items, total, page: paging.page, size: paging.size, more })
    }

    pub async fn my_capabilities(
        &self,
        caller: &MarketCaller,
        status: Option<Status>,
        paging: Paging,
    ) -> Result<Paged<Capability>, Error> {
        self.page(records::CAPABILITIES, owned(&caller.tenant, &caller.user, status), paging).await
    }

    /// A user's capabilities on the market, the newest first.
    pub async fn sold_by(&self, seller: &UserId, paging: Paging) -> Result<Paged<Capability>, Error> {
        let tenant = self.config().tenant.clone();
        self.page(records::CAPABILITIES, records::joined(&["sale-owner", &tenant, seller.as_str()]), paging).await
    }

    /// Buys, serves and settles a capability while the caller waits. Only agents may call it, and only capabilities
    /// priced per query. A repeat with the same idempotency key continues the same purchase.
    pub async fn invoke(
        &self,
        caller: &MarketCaller,
        id: &CapabilityId,
        input: Option<Json>,
        once: Option<Once>,
    ) -> Result<Invoked, Error> {
        if caller.via != Via::Agent {
            let message = "only agents call capabilities at once; buy it with POST /api/v1/transactions";
            return Err(Fault::new(Kind::Forbidden, message).into());
        }
        let promised = once.is_some();
        let keyed = once.as_ref().map(|once| (caller, once));
        let perform = async |fresh| {
            // A capability that is not on sale is reported as missing before the checks below.
            let capability = self.read_capability(id).await?.filter(Capability::is_on_sale);
            let capability = capability.ok_or(Error::Unknown(MarketEntity::Capability))?;
            if capability.terms.pricing_model != PricingModel::PerQuery {
                let detail = "is not per_query: buy it with POST /api/v1/transactions";
                return Err(FieldError::new("pricing_model", detail).into());
            }
            self.new_purchase(caller, OrderRequest { input, ..OrderRequest::of(id.clone()) }, fresh).await
        };
        let repeat = |made| purchase_of(made, |made| made.capability == *id);
        let ordered = self.perform_once(keyed, perform, repeat).await?;
        let patience_s = GRACE_S
            + match &ordered.served {
                Served::Callback { timeout_s, .. } => *timeout_s,
                Served::Agent(_) | Served::Worker | Served::Person => PATIENCE_S,
            };
        let carried = self.carried(caller, ordered.id, promised);
        match tokio::time::timeout(Duration::from_secs(patience_s.into()), carried).await {
            Ok(done) => done.map(|transaction| Invoked { transaction }),
            Err(_) => Err(Error::NotServed(format!(
                "the seller has not answered within {patience_s} s and is still at it; look at transaction {}, or repeat \
                 the request with the same Idempotency-Key",
                ordered.id.tx()
            ))),
        }
    }

    /// Takes the buyer's remaining steps of a purchase until it ends.
    async fn carried(&self, caller: &MarketCaller, id: TransactionId, promised: bool) -> Result<Transaction, Error> {
        let actor = caller.actor();
        let mut changes = self.follow(&actor, id).await?;
        while let Some(at) = changes.next().await {
            let at = at?;
            let step = match at.status {
                Stage::PendingFreeze if at.awaits_approval() => return Ok(at),
                Stage::PendingFreeze => transaction::TransactionAction::Freeze,
                Stage::Frozen | Stage::Accepted => continue,
                Stage::Delivered => transaction::TransactionAction::Confirm,
                Stage::Settled => return Ok(at),
                Stage::CancelledByBuyer | Stage::RejectedBySeller | Stage::Failed => return Err(not_served(&at)),
            };
            match self.act(&actor, id, step.clone(), None).await {
                // The next change of the purchase shows the result.
                Ok(_) | Err(Error::Rule(market_rules::Error::WrongState { .. } | market_rules::Error::Changed)) => {}
                Err(refused) => {
                    // Without an idempotency key, the call could not be resumed.
                    if step == transaction::TransactionAction::Freeze && !promised {
                        let cancelled = self.act(&actor, id, transaction::TransactionAction::Cancel, None).await;
                        if let Err(stays) = cancelled {
                            tracing::warn!("purchase {} stays as an order: {stays}", id.tx());
                        }
                    }
                    return Err(refused);
                }
            }
        }
        let at = self.transaction(&actor, id).await?;
        match at.status {
            Stage::Settled => Ok(at),
            Stage::PendingFreeze
            | Stage::Frozen
            | Stage::Accepted
            | Stage::Delivered
            | Stage::CancelledByBuyer
            | Stage::RejectedBySeller
            | Stage::Failed => Err(not_served(&at)),
        }
    }

    /// Approves an order of the buyer's agent, in person or by a token.
    pub async fn approve(
        &self,
        caller: &MarketCaller,
        id: TransactionId,
        token: Option<&str>,
        once: Option<Once>,
    ) -> Result<Transaction, Error> {
        let actor = caller.actor();
        let confirmed = match token {
            Some(token) => {
                let row = self.transaction(&actor, id).await?;
                let question = autonomy::Question {
                    tenant: row.tenant.clone(),
                    caller: row.buyer.clone(),
                    capability: row.capability.clone(),
                    fee: row.price,
                };
                Some(self.shared.secrets.confirm.check(token, &question, self.now())?)
            }
            None => None,
        };
        self.act(&actor, id, transaction::TransactionAction::Approve(confirmed), once.map(|once| (caller, once))).await
    }
}

/// Validates a draft and reports all errors at once. `served` is the new party that does the work.
fn checked(draft: &CapabilityDraft, served: Option<&Served>, config: &MarketConfig) -> Result<CapabilityTerms, Error> {
    let terms = draft.check(&config.capabilities);
    let stranger = match served {
        Some(Served::Agent(name)) if !config.agents.contains(name) => {
            let detail = "is none that may be sold here; the operator names those that may in market.agents";
            Some(FieldError::new("agent", detail))
        }
        Some(Served::Agent(_) | Served::Callback { .. } | Served::Worker | Served::Person) | None => None,
    };
    match (terms, stranger) {
        (Ok(terms), None) => Ok(terms),
        (Ok(_), Some(stranger)) => Err(stranger.into()),
        (Err(mut wrong), stranger) => {
            wrong.extend(stranger);
            Err(Error::Fields(wrong))
        }
    }
}

fn not_served(at: &Transaction) -> Error {
    let reason = at.reason.as_deref().unwrap_or("no reason was given");
    Error::NotServed(match at.status {
        Stage::Failed => format!("the purchase {} failed and costs nothing: {reason}", at.id.tx()),
        Stage::RejectedBySeller => format!("the seller rejected the purchase {}: {reason}", at.id.tx()),
        Stage::CancelledByBuyer => format!("the purchase {} was cancelled by its buyer", at.id.tx()),
        Stage::PendingFreeze | Stage::Frozen | Stage::Accepted | Stage::Delivered | Stage::Settled => {
            format!("the purchase {} is {}; look at it later", at.id.tx(), at.status.name())
        }
    })
}

fn capability_of(made: StoredResult) -> Result<Capability, Error> {
    match made {
        StoredResult::Capability(made) => Ok(*made),
        StoredResult::Transaction(_) | StoredResult::Demand(_) | StoredResult::External(_) | StoredResult::Removed => {
            Err(Error::KeyReused)
        }
    }
}

fn outcome_of(made: StoredResult, id: &CapabilityId) -> Result<Option<Capability>, Error> {
    match made {
        StoredResult::Capability(made) if made.id == *id => Ok(Some(*made)),
        StoredResult::Removed => Ok(None),
        StoredResult::Capability(_)
        | StoredResult::Transaction(_)
        | StoredResult::Demand(_)
        | StoredResult::External(_) => Err(Error::KeyReused),
    }
}

/// The list of all capabilities on the market.
pub(crate) fn on_market(tenant: &str) -> Arc<str> {
    records::joined(&["sale", tenant])
}

/// Categories are free text: their lists are named by a hash.
pub(crate) fn in_category(tenant: &str, category: &str) -> Arc<str> {
    records::joined(&["sale-category", tenant, &records::hex(&Sha256::digest(category)[..16])])
}

fn owned(tenant: &str, owner: &UserId, status: Option<Status>) -> Arc<str> {
    match status {
        Some(status) => records::joined(&["owner-status", tenant, owner.as_str(), status.name()]),
        None => records::joined(&["owner", tenant, owner.as_str()]),
    }
}

/// The lists of a capability, ranked by its creation time.
fn lists_of(one: &Capability) -> Vec<Listed> {
    let (tenant, rank) = (&*one.tenant, one.created_at.0);
    let mut lists =
        vec![listed(owned(tenant, &one.owner, None), rank), listed(owned(tenant, &one.owner, Some(one.status)), rank)];
    if one.is_on_sale() {
        let terms = &one.terms;
        lists.push(listed(on_market(tenant), rank));
        lists.push(listed(in_category(tenant, &terms.category), rank));
        lists.push(listed(records::joined(&["sale-type", tenant, terms.capability_type.name()]), rank));
        lists.push(listed(records::joined(&["sale-model", tenant, terms.pricing_model.name()]), rank));
        lists.push(listed(records::joined(&["sale-owner", tenant, one.owner.as_str()]), rank));
    }
    lists
}

fn words_of(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_lowercase).collect()
}

pub(crate) fn fits(one: &Capability, filter: &Filter, words: &[String]) -> bool {
    let terms = &one.terms;
    if filter.category.as_ref().is_some_and(|category| *category != terms.category)
        || filter.capability_type.is_some_and(|what| what != terms.capability_type)
        || filter.pricing_model.is_some_and(|model| model != terms.pricing_model)
    {
        return false;
    }
    if words.is_empty() {
        return true;
    }
    let texts: Vec<String> =
        [&terms.title, &terms.description].into_iter().chain(&terms.tags).map(|text| text.to_lowercase()).collect();
    words.iter().all(|word| texts.iter().any(|text| text.contains(word.as_str())))
}

/// The complete draft that results from an edit of the present terms.
fn overlaid(present: &CapabilityTerms, edit: &Edit) -> CapabilityDraft {
    let text = |new: &Option<String>, old: &str| Some(new.clone().unwrap_or_else(|| old.to_owned()));
    let amount = |amount: Ut| Json::parse(&format!("\"{amount}\""));
    let without = |what| edit.without.contains(&what);
    let new = &edit.draft;
    // A newly named party replaces the previous one.
    let (callback_url, callback_timeout_sec, served) = match &present.served {
        Served::Callback { .. } if without(Without::Callback) || new.served.is_some() => (None, None, None),
        Served::Callback { url, timeout_s } => (Some(url.to_string()), Some(i64::from(*timeout_s)), None),
        Served::Agent(_) if without(Without::Agent) => (None, None, None),
        Served::Worker if without(Without::Worker) => (None, None, None),
        Served::Agent(_) | Served::Worker if new.callback_url.is_none() => (None, None, Some(present.served.clone())),
        Served::Agent(_) | Served::Worker | Served::Person => (None, None, None),
    };
    let tags = match &new.tags[..] {
        [] if without(Without::Tags) => Vec::new(),
        [] => present.tags.iter().map(ToString::to_string).collect(),
        tags => tags.to_vec(),
    };
    let kept = |what, old: Option<u32>| old.filter(|_| !without(what)).map(i64::from);
    CapabilityDraft {
        title: text(&new.title, &present.title),
        description: text(&new.description, &present.description),
        category: text(&new.category, &present.category),
        capability_type: text(&new.capability_type, present.capability_type.name()),
        pricing_model: text(&new.pricing_model, present.pricing_model.name()),
        price_ut: new.price_ut.clone().or_else(|| amount(present.price)),
        tags,
        delivery_mode: text(&new.delivery_mode, present.delivery_mode.name()),
        auto_accept_min_ut: new
            .auto_accept_min_ut
            .clone()
            .or_else(|| amount(present.auto_accept_min.filter(|_| !without(Without::AutoAccept))?)),
        daily_limit: new.daily_limit.or(kept(Without::DailyLimit, present.daily_limit)),
        rate_limit_per_min: new.rate_limit_per_min.or(kept(Without::RateLimit, present.rate_limit_per_min)),
        callback_url: new.callback_url.clone().or(callback_url),
        callback_timeout_sec: new.callback_timeout_sec.or(callback_timeout_sec),
        available: new.available.or(Some(present.available)),
        served: new.served.clone().or(served),
    }
}

#[cfg(test)]
#[path = "offers_tests.rs"]
mod tests;
