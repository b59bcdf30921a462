//! Demands: creation, listing, cancellation, and matching with offers.
//!
//! An order for an open demand of the buyer closes it in the same commit; the demand opens again if the purchase ends
//! without a sale. Matching reads a bounded number of offers; the result and its order depend on the stored rows alone.

use ledger::FreshKey;
use ledger::records::{decode, listed};
use ledger::{TransactionId, UserId};
use market_rules::demand::{self, Clarity, DemandAction, DemandDraft, DemandWords, Fit, Offered, Status, fit};
use market_rules::transaction::Status as Stage;
use market_rules::{Actor, Capability, CapabilityId, Demand, DemandId, Transaction};
use model::ports::store::Conflict;
use model::{Expect, Fault, Kind, Listed, RecordChange, Time};
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use crate::service::bounded::{Bounded, is_about_added};
use crate::service::idempotency::{StoredResult, is_about_once};
use crate::service::offers::{in_category, on_market};
use crate::service::records;
use crate::service::{Error, Market, MarketCaller, MarketEntity, Once, Paged, Paging};

const ATTEMPTS: u32 = 8;
/// Maximum number of open demands of one user, checked when one is created. A demand that opens again after a failed
/// purchase is not refused.
const MOST_OPEN: u64 = 200;
/// Number of rows that a match reads of the same category, and of all.
const LOOKED_AT: u32 = 1_000;
/// Retention of ended demands.
const KEPT_MS: i64 = 30 * 86_400_000;
const SWEEP_EVERY: Duration = Duration::from_secs(60);
const SWEEP: u32 = 200;
/// Maximum number of batches of one sweep.
const PASSES: u32 = 100;

/// Matches, the best first, and the number of rows that were compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nearest<T> {
    pub items: Vec<Matched<T>>,
    pub looked_at: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matched<T> {
    pub row: T,
    pub fit: Fit,
}

/// The best matches, in an order that depends on the rows alone.
fn best<T, K: Ord>(mut found: Vec<Matched<T>>, top: usize, then: impl Fn(&T) -> K) -> Vec<Matched<T>> {
    found.sort_by_cached_key(|one| (std::cmp::Reverse(one.fit.score), then(&one.row)));
    found.truncate(top);
    found
}

fn key(tenant: &str, id: &DemandId) -> Arc<str> {
    records::joined(&[tenant, id.as_str()])
}

fn open(tenant: &str) -> Arc<str> {
    records::joined(&["open", tenant])
}

/// Categories are free text: their lists are named by a hash.
fn open_in(tenant: &str, category: &str) -> Arc<str> {
    records::joined(&["open-category", tenant, &records::hex(&Sha256::digest(category)[..16])])
}

fn owned(tenant: &str, owner: &UserId, status: Option<Status>) -> Arc<str> {
    match status {
        Some(status) => records::joined(&["owner-status", tenant, owner.as_str(), status.name()]),
        None => records::joined(&["owner", tenant, owner.as_str()]),
    }
}

/// The list of open demands by their expiry, the earliest first.
const EXPIRING: &str = "expiring";
const OVER: &str = "over";

fn lists_of(one: &Demand) -> Vec<Listed> {
    let (tenant, rank) = (&*one.tenant, one.created_at.0);
    let mut lists =
        vec![listed(owned(tenant, &one.owner, None), rank), listed(owned(tenant, &one.owner, Some(one.status)), rank)];
    match one.status {
        Status::Open => {
            lists.push(listed(open(tenant), rank));
            lists.extend(one.wants.category.as_deref().map(|category| listed(open_in(tenant, category), rank)));
            lists.push(listed(EXPIRING, one.expires_at.0.saturating_neg()));
        }
        Status::Matched | Status::Cancelled | Status::Expired => {
            lists.push(listed(OVER, one.updated_at.0.saturating_neg()));
        }
    }
    lists
}

fn put_demand(one: &Demand, expect: Expect) -> RecordChange {
    records::DEMANDS.put(key(&one.tenant, &one.id), expect, one, lists_of(one))
}

fn demand_of(made: StoredResult, id: Option<&DemandId>) -> Result<Demand, Error> {
    match made {
        StoredResult::Demand(made) if id.is_none_or(|id| made.id == *id) => Ok(*made),
        StoredResult::Demand(_)
        | StoredResult::Transaction(_)
        | StoredResult::Capability(_)
        | StoredResult::External(_)
        | StoredResult::Removed => Err(Error::KeyReused),
    }
}

impl Market {
    /// Creates a demand of the caller, which is open at once.
    pub async fn want(&self, caller: &MarketCaller, draft: &DemandDraft, once: Option<Once>) -> Result<Demand, Error> {
        let perform = |fresh| self.new_demand(caller, draft, fresh);
        self.perform_once(once.as_ref().map(|once| (caller, once)), perform, |made| demand_of(made, None)).await
    }

    async fn new_demand(
        &self,
        caller: &MarketCaller,
        draft: &DemandDraft,
        fresh: Option<FreshKey>,
    ) -> Result<Demand, Error> {
        let now = self.now();
        let wanted = draft.check(now).map_err(Error::Fields)?;
        self.expire(now).await?;
        let list = owned(&caller.tenant, &caller.user, Some(Status::Open));
        let mine = Bounded { collection: records::DEMANDS, list, most: MOST_OPEN };
        let line = self.shared.queues.of(&mine.line());
        let _turn = line.lock().await;
        let id = DemandId(format!("dem_{}", TransactionId::from(self.engine().new_task_id())).into());
        let new = Demand::new(&caller.tenant, id, caller.user.clone(), wanted, now);
        for _ in 0..ATTEMPTS {
            let Some(added) = self.room_in(&mine).await? else {
                let words = format!("you have {MOST_OPEN} open demands, and more there may not be; cancel one first");
                return Err(Fault::new(Kind::RateLimited, words).into());
            };
            match self.keep_demand(&new, Expect::Absent, fresh.as_ref(), Some(added)).await? {
                Ok(()) => return Ok(new),
                Err(met) if is_about_added(&met) => {}
                Err(_) => break,
            }
        }
        Err(market_rules::Error::Changed.into())
    }

    async fn keep_demand(
        &self,
        next: &Demand,
        expect: Expect,
        fresh: Option<&FreshKey>,
        added: Option<RecordChange>,
    ) -> Result<Result<(), Conflict>, Error> {
        let mut records = vec![put_demand(next, expect)];
        records.extend(added);
        records
            .extend(fresh.map(|fresh| fresh.used_for(StoredResult::Demand(Box::new(next.clone())), next.updated_at)));
        self.kept(records).await
    }

    async fn read_demand(&self, id: &DemandId) -> Result<Option<(Demand, u64)>, Error> {
        let tenant = self.config().tenant.clone();
        self.read(records::DEMANDS, key(&tenant, id)).await
    }

    /// An open demand, or one of the caller's own.
    pub async fn demand(&self, caller: &MarketCaller, id: &DemandId) -> Result<Demand, Error> {
        let (mut found, _) = self.read_demand(id).await?.ok_or(Error::Unknown(MarketEntity::Demand))?;
        found.status = found.standing(self.now());
        let shown = found.status == Status::Open || caller.actor().is(&found.tenant, &found.owner);
        if shown { Ok(found) } else { Err(Error::Unknown(MarketEntity::Demand)) }
    }

    /// A demand of the caller.
    async fn own_demand(&self, caller: &MarketCaller, id: &DemandId) -> Result<Demand, Error> {
        let found = self.demand(caller, id).await?;
        match caller.actor().is(&found.tenant, &found.owner) {
            true => Ok(found),
            false => Err(demand::Error::NotOwner.into()),
        }
    }

    /// The caller's demands, the newest first.
    pub async fn my_demands(
        &self,
        caller: &MarketCaller,
        status: Option<Status>,
        paging: Paging,
    ) -> Result<Paged<Demand>, Error> {
        self.expire(self.now()).await?;
        self.page(records::DEMANDS, owned(&caller.tenant, &caller.user, status), paging).await
    }

    /// All open demands, the newest first.
    pub async fn open_demands(&self, category: Option<&str>, paging: Paging) -> Result<Paged<Demand>, Error> {
        self.expire(self.now()).await?;
        let tenant = self.config().tenant.clone();
        let list = category.map_or_else(|| open(&tenant), |category| open_in(&tenant, category));
        self.page(records::DEMANDS, list, paging).await
    }

    pub async fn cancel_demand(
        &self,
        caller: &MarketCaller,
        id: &DemandId,
        once: Option<Once>,
    ) -> Result<Demand, Error> {
        let perform = |fresh| self.cancelled_demand(caller, id, fresh);
        self.perform_once(once.as_ref().map(|once| (caller, once)), perform, |made| demand_of(made, Some(id))).await
    }

    async fn cancelled_demand(
        &self,
        caller: &MarketCaller,
        id: &DemandId,
        fresh: Option<FreshKey>,
    ) -> Result<Demand, Error> {
        for _ in 0..ATTEMPTS {
            self.demand(caller, id).await?;
            let (present, version) = self.read_demand(id).await?.ok_or(Error::Unknown(MarketEntity::Demand))?;
            let next = present.step(&caller.actor(), DemandAction::Cancel, self.now())?;
            match self.keep_demand(&next, Expect::Version(version), fresh.as_ref(), None).await? {
                Ok(()) => return Ok(next),
                Err(met) if is_about_once(&met) => break,
                Err(_) => {}
            }
        }
        Err(market_rules::Error::Changed.into())
    }

    /// The clarity of a demand, for its owner.
    pub async fn clarity(&self, caller: &MarketCaller, id: &DemandId) -> Result<Clarity, Error> {
        Ok(Clarity::of(&self.own_demand(caller, id).await?.wants))
    }

    /// The match of an offer with a demand: for a caller who can see both and owns one of them.
    pub async fn alignment(
        &self,
        caller: &MarketCaller,
        wanted: &DemandId,
        offered: &CapabilityId,
    ) -> Result<(Demand, Capability, Fit), Error> {
        let demand = self.demand(caller, wanted).await?;
        let offer = self.capability(Some(caller), offered).await?;
        if demand.owner != caller.user && offer.owner != caller.user {
            return Err(demand::Error::NotOwner.into());
        }
        let found = fit(&DemandWords::of(&demand.wants), &Offered::of(&offer.terms));
        Ok((demand, offer, found))
    }

    /// Offers that match an open demand of the caller: the best first, then the cheaper, then by id.
    pub async fn offers_for(
        &self,
        caller: &MarketCaller,
        id: &DemandId,
        top: usize,
    ) -> Result<Nearest<Capability>, Error> {
        let demand = self.own_demand(caller, id).await?;
        if demand.status != Status::Open {
            return Err(demand::Error::NotOpen(demand.status).into());
        }
        let wanted = DemandWords::of(&demand.wants);
        let tenant = &*demand.tenant;
        let lists =
            [demand.wants.category.as_deref().map(|category| in_category(tenant, category)), Some(on_market(tenant))];
        let (mut seen, mut found) = (HashSet::new(), Vec::new());
        for list in lists.into_iter().flatten() {
            self.walk_first(records::CAPABILITIES, list, LOOKED_AT, |row: Capability| {
                if !seen.insert(row.id.clone()) || row.owner == demand.owner || !row.is_on_sale() {
                    return;
                }
                let fit = fit(&wanted, &Offered::of(&row.terms));
                if fit.related {
                    found.push(Matched { row, fit });
                }
            })
            .await?;
        }
        let items = best(found, top, |row| (row.terms.price, row.id.clone()));
        Ok(Nearest { items, looked_at: seen.len() as u64 })
    }

    /// Open demands that a capability of the caller's fits, whether or not it is on the market yet: the best first,
    /// then the better paid, then by id.
    pub async fn demands_for(
        &self,
        caller: &MarketCaller,
        id: &CapabilityId,
        top: usize,
    ) -> Result<Nearest<Demand>, Error> {
        let offer = self.capability(Some(caller), id).await?;
        if !caller.actor().is(&offer.tenant, &offer.owner) {
            let words = "only its owner may ask which demands a capability fits";
            return Err(Fault::new(Kind::Forbidden, words).into());
        }
        let offered = Offered::of(&offer.terms);
        let (tenant, now) = (&*offer.tenant, self.now());
        let (mut seen, mut found) = (HashSet::new(), Vec::new());
        for list in [open_in(tenant, &offer.terms.category), open(tenant)] {
            self.walk_first(records::DEMANDS, list, LOOKED_AT, |row: Demand| {
                if !seen.insert(row.id.clone()) || row.owner == offer.owner || row.standing(now) != Status::Open {
                    return;
                }
                let fit = fit(&DemandWords::of(&row.wants), &offered);
                if fit.related {
                    found.push(Matched { row, fit });
                }
            })
            .await?;
        }
        let items = best(found, top, |row| (std::cmp::Reverse(row.wants.budget), row.id.clone()));
        Ok(Nearest { items, looked_at: seen.len() as u64 })
    }

    /// The change of the demand that a step of a purchase implies. A name that is no open demand of the buyer changes
    /// nothing.
    pub(crate) async fn demand_along(&self, row: &Transaction) -> Result<Option<RecordChange>, Error> {
        let Some(id) = &row.demand else { return Ok(None) };
        let (actor, action) = match row.status {
            Stage::PendingFreeze | Stage::Frozen if row.version == 1 => {
                (Actor::person(&row.tenant, &row.buyer), DemandAction::Match(row.id))
            }
            Stage::CancelledByBuyer | Stage::RejectedBySeller | Stage::Failed => {
                (Actor::Platform, DemandAction::Reopen(row.id))
            }
            Stage::PendingFreeze | Stage::Frozen | Stage::Accepted | Stage::Delivered | Stage::Settled => {
                return Ok(None);
            }
        };
        let Some((present, version)) = self.read_demand(&DemandId(id.clone())).await? else { return Ok(None) };
        let next = present.step(&actor, action, self.now()).ok();
        Ok(next.map(|next| put_demand(&next, Expect::Version(version))))
    }

    /// Closes a batch of expired demands.
    async fn expire(&self, now: Time) -> Result<bool, Error> {
        let due = self.first(EXPIRING, now).await?;
        let all = due.len() == SWEEP as usize;
        let changes = due.into_iter().filter_map(|(row, version)| {
            let next = row.step(&Actor::Platform, DemandAction::Expire, now).ok()?;
            Some(put_demand(&next, Expect::Version(version)))
        });
        let changes: Vec<RecordChange> = changes.collect();
        // Another process or the owner may have changed it first.
        Ok(!changes.is_empty() && self.engine().keep_unchanged(changes).await? && all)
    }

    /// Removes demands that ended long ago.
    async fn forget_demands(&self) -> Result<(), Error> {
        let before = Time(self.now().0.saturating_sub(KEPT_MS));
        Ok(self.remove_expired(records::DEMANDS, OVER, before).await?)
    }

    /// The first rows of a list that are due by this time, with their versions.
    async fn first(&self, list: &str, by: Time) -> Result<Vec<(Demand, u64)>, Error> {
        let page = records::DEMANDS.records(self.store(), list, None, SWEEP).await?;
        let come = page.records.iter().filter(|(_, rank)| rank.saturating_neg() <= by.0);
        come.map(|(record, _)| Ok((decode(&record.body)?, record.version))).collect()
    }
}

/// Closes expired demands and removes old ones periodically, until the store is closed.
pub(crate) async fn sweep(market: Market) {
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        for _ in 0..PASSES {
            if market.engine().is_draining() {
                return;
            }
            let more = async {
                market.forget_demands().await?;
                market.expire(market.now()).await
            };
            match more.await {
                Ok(true) => {}
                Ok(false) => break,
                Err(refused) => {
                    tracing::warn!("demands whose time is over stay for now: {refused}");
                    break;
                }
            }
        }
    }
}
