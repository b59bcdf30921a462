//! Orders, and every step of a purchase.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};

use engine::{CommitError, NewTask, States};
use ledger::FreshKey;
use ledger::records::{decode, read_fault};
use ledger::{AccountId, TransactionId, Ut};
use market_rules::autonomy;
use market_rules::transaction::{PurchaseOrder, Role, Status, TransactionAction};
use market_rules::{Actor, Capability, CapabilityId, Precondition, Sales, Transaction, TransactionStep, Via};
use model::ports::store::Conflict;
use model::{CallScope, ContextId, Json, Kind, RecordChange, RecordQuery, Time, Visibility};
use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

use crate::service::commit::{self, CommitInputs};
use crate::service::idempotency::{StoredResult, is_about_once};
use crate::service::records::{self, PurchaseList};
use crate::service::{
    AGENT, DIALECT, Error, Market, MarketCaller, MarketEntity, Once, Paged, Paging, User, sales, sellers,
};

/// Attempts of a step that loses races.
const ATTEMPTS: u32 = 32;
/// Number of queues above which unused ones are removed.
const LINES: usize = 1_024;
/// Number of cached purchases, and of cached daily sums of buyers.
const RECENT: usize = 4_096;
/// Number of cached capabilities.
const OFFERED: usize = 256;

/// A buyer's order.
#[derive(Clone, Debug)]
pub struct OrderRequest {
    pub capability: CapabilityId,
    pub booked_hours: Option<i64>,
    pub context: Option<ContextId>,
    pub demand: Option<Arc<str>>,
    pub input: Option<Json>,
    /// A confirmation token.
    pub confirm_token: Option<String>,
}

impl OrderRequest {
    pub fn of(capability: CapabilityId) -> OrderRequest {
        OrderRequest { capability, booked_hours: None, context: None, demand: None, input: None, confirm_token: None }
    }
}

/// Work that would conflict is queued by name: an agent's orders, which add up to its day's sum; orders of a capability
/// with limits; additions to a bounded list; uploads of a seller; downloads by a token. Work in two queues waits for
/// the user's own queue first.
#[derive(Default)]
pub(crate) struct Queues(Mutex<HashMap<Arc<str>, Weak<tokio::sync::Mutex<()>>>>);

impl Queues {
    pub(crate) fn of(&self, name: &Arc<str>) -> Arc<tokio::sync::Mutex<()>> {
        let mut lines = self.0.lock();
        if let Some(line) = lines.get(name).and_then(Weak::upgrade) {
            return line;
        }
        if lines.len() >= LINES {
            lines.retain(|_, line| line.strong_count() > 0);
        }
        let line = Arc::default();
        lines.insert(name.clone(), Arc::downgrade(&line));
        line
    }
}

/// Cache of purchases as this process last wrote them, so that the next step need not read its row. A step's commit
/// fails if the row has changed since; a refusal because of a cached row is checked again with the stored row.
#[derive(Default)]
pub(crate) struct RecentOrders(Mutex<HashMap<TransactionId, Transaction>>);

impl RecentOrders {
    fn keep(&self, row: &Transaction) {
        let mut rows = self.0.lock();
        if row.status.is_terminal() {
            rows.remove(&row.id);
            return;
        }
        if rows.len() >= RECENT {
            rows.clear();
        }
        rows.insert(row.id, row.clone());
    }

    fn take(&self, id: TransactionId) -> Option<Transaction> {
        self.0.lock().remove(&id)
    }
}

/// Cache of the inputs of orders as this process last read or wrote them: capabilities, their counted sales, and the
/// day's spending of agents, each with the version of its row. An order's commit fails if one has changed since; an
/// order that is refused because of them is computed again from the store.
#[derive(Default)]
pub(crate) struct OrderInputs {
    capabilities: Rows<(Arc<Capability>, u64)>,
    spent: Rows<(Ut, u64)>,
    pub(crate) sales: Rows<(Sales, u64)>,
}

/// Cached rows by key.
pub(crate) type Rows<R> = Mutex<HashMap<Arc<str>, R>>;

/// Caches a row under its key, up to the limit.
fn remember<R>(rows: &Rows<R>, key: Arc<str>, row: R, most: usize) {
    let mut rows = rows.lock();
    if rows.len() >= most {
        rows.clear();
    }
    rows.insert(key, row);
}

/// An order as a step, with the versions of the rows it used.
struct PricedOrder {
    step: TransactionStep,
    /// The day's spending before the order and the version of its row, where the step adds to it.
    spent: Option<(Ut, u64)>,
    /// The version of the capability's row.
    capability: u64,
    /// The version of its row of counted sales.
    sold: u64,
}

/// The states of a purchase, one for each change.
pub struct PurchaseFeed {
    market: Market,
    id: TransactionId,
    states: Option<States>,
    last: Option<(model::State, Time, Option<Time>)>,
    over: bool,
}

impl PurchaseFeed {
    /// The present state, then the state after each change; `None` after the end.
    pub async fn next(&mut self) -> Option<Result<Transaction, Error>> {
        while !self.over {
            match &mut self.states {
                Some(states) => match states.next().await {
                    Some(_) => {}
                    // The server stops, or the log is gone: read the row.
                    None => self.over = true,
                },
                None => self.over = true,
            }
            let row = match self.market.read_transaction(self.id).await {
                Ok(row) => row,
                Err(refused) => {
                    self.over = true;
                    return Some(Err(refused));
                }
            };
            self.over |= row.status.is_terminal();
            if self.last.replace(row.change_key()) != Some(row.change_key()) {
                return Some(Ok(row));
            }
        }
        None
    }
}

/// The purchase that the first request with this key made or changed; `is_asked` says whether the repeat is about it.
pub(crate) fn purchase_of(
    made: StoredResult,
    is_asked: impl FnOnce(&Transaction) -> bool,
) -> Result<Transaction, Error> {
    match made {
        StoredResult::Transaction(made) if is_asked(&made) => Ok(*made),
        StoredResult::Transaction(_)
        | StoredResult::Capability(_)
        | StoredResult::Demand(_)
        | StoredResult::External(_)
        | StoredResult::Removed => Err(Error::KeyReused),
    }
}

impl Market {
    /// Orders a capability. The money is held at once, or in a step of its own.
    pub async fn order(
        &self,
        caller: &MarketCaller,
        wish: OrderRequest,
        once: Option<Once>,
    ) -> Result<Transaction, Error> {
        let perform = |fresh| self.new_purchase(caller, wish, fresh);
        self.perform_once(once.as_ref().map(|once| (caller, once)), perform, |made| purchase_of(made, |_| true)).await
    }

    pub(crate) async fn new_purchase(
        &self,
        caller: &MarketCaller,
        wish: OrderRequest,
        fresh: Option<FreshKey>,
    ) -> Result<Transaction, Error> {
        model::depth::check(wish.input.as_ref(), "input", self.engine().limits().data_depth).map_err(Error::Fault)?;
        let line = self.shared.queues.of(&caller.user.0);
        let _mine = match caller.via {
            Via::Agent => Some(line.lock().await),
            Via::Person => None,
        };
        let mut turn = None;
        for attempt in 0..=ATTEMPTS {
            let by_heart = attempt == 0;
            let ordered = self.ordered(caller, &wish, by_heart, &mut turn).await;
            let PricedOrder { step, spent, capability, sold } = match ordered {
                Ok(ordered) => ordered,
                Err(_) if by_heart => continue,
                Err(refused) => return Err(refused),
            };
            let look_at = self.look_at(&step.transaction).await?;
            let made = fresh.as_ref().map(|fresh| {
                fresh.used_for(
                    StoredResult::Transaction(Box::new(step.transaction.clone())),
                    step.transaction.created_at,
                )
            });
            let beside = self.beside(None, &step.transaction).await?;
            let told = !beside.is_empty();
            let capability = Some(capability);
            let along = commit::along(&step, CommitInputs { spent, capability, sold, look_at, once: made, beside });
            let row = &step.transaction;
            let birth = NewTask { id: row.id.0, context: row.context.clone(), message: None, to: commit::moved(&step) };
            match self.engine().open_product(&place(row), birth, along).await {
                Ok(_) => {
                    if let (Some(spend), Some((sum, version))) = (&step.spend, spent) {
                        let key = records::spent_key(&spend.tenant, &spend.user, spend.day);
                        let now = (commit::spent_with(sum, spend), version + 1);
                        remember(&self.shared.grounds.spent, key, now, RECENT);
                    }
                    if let Some(sales) = step.sales {
                        let key = records::capability_key(&row.tenant, &row.capability);
                        remember(&self.shared.grounds.sales, key, (sales, sold + 1), OFFERED);
                    }
                    self.shared.recent.keep(&step.transaction);
                    self.drive(&step.transaction);
                    self.ring(told);
                    return Ok(step.transaction);
                }
                Err(CommitError::Fault(fault)) => return Err(fault.into()),
                Err(CommitError::Met(Conflict::Funds(_, on_it))) => return Err(short(row.price, on_it)),
                Err(CommitError::Met(met)) if is_about_once(&met) => break,
                Err(CommitError::Met(Conflict::Record(kind, ..))) if records::USED_CONFIRMATIONS.is(&kind) => {
                    return Err(autonomy::TokenRefused::Used.into());
                }
                Err(CommitError::Met(Conflict::Record(..))) => {}
                Err(unexpected @ CommitError::Met(_)) => return Err(unexpected.into()),
            }
        }
        Err(market_rules::Error::Changed.into())
    }

    /// Computes the order as a step from stored or cached rows. Orders of a capability with limits are queued; `turn`
    /// is the caller's place in the queue.
    async fn ordered(
        &self,
        caller: &MarketCaller,
        wish: &OrderRequest,
        by_heart: bool,
        turn: &mut Option<OwnedMutexGuard<()>>,
    ) -> Result<PricedOrder, Error> {
        let config = self.config();
        let key = records::capability_key(&caller.tenant, &wish.capability);
        let known = by_heart.then(|| self.shared.grounds.capabilities.lock().get(&key).cloned()).flatten();
        let (capability, version) = match known {
            Some(known) => known,
            None => {
                let found = self.read(records::CAPABILITIES, key.clone()).await?;
                let (capability, version) = found.ok_or(Error::Unknown(MarketEntity::Capability))?;
                let read = (Arc::new(capability), version);
                remember(&self.shared.grounds.capabilities, key, read.clone(), OFFERED);
                read
            }
        };
        let terms = &capability.terms;
        let (sold, sold_version) = if terms.is_limited() {
            if turn.is_none() {
                *turn = Some(self.shared.queues.of(&sales::line(&capability)).lock_owned().await);
            }
            self.sold(&capability, by_heart).await?
        } else {
            (Sales::default(), 0)
        };
        // Read after the counts, so that this time is not before theirs.
        let now = self.now();
        let key = records::spent_key(&caller.tenant, &caller.user, autonomy::day(now));
        let known = by_heart.then(|| self.shared.grounds.spent.lock().get(&key).copied()).flatten();
        let spent = match (caller.via, known) {
            (Via::Agent, Some(known)) => Some(known),
            (Via::Agent, None) => self.read(records::SPENDING, key).await?.map(|(spent, version)| (spent.sum, version)),
            (Via::Person, _) => None,
        }
        .unwrap_or((Ut::ZERO, 0));
        let confirmed = match &wish.confirm_token {
            Some(token) => {
                let question = autonomy::Question {
                    tenant: caller.tenant.clone(),
                    caller: caller.user.clone(),
                    capability: capability.id.clone(),
                    fee: terms.price_for(wish.booked_hours)?,
                };
                Some(self.shared.secrets.confirm.check(token, &question, now)?)
            }
            None => None,
        };
        let order = PurchaseOrder {
            id: self.engine().new_task_id().into(),
            tenant: caller.tenant.clone(),
            buyer: caller.user.clone(),
            via: caller.via,
            booked_hours: wish.booked_hours,
            context: wish.context.clone(),
            demand: wish.demand.clone(),
            input: wish.input.clone(),
            limits: caller.limits,
            spent: spent.0,
            confirmed,
            sold,
        };
        let step = Transaction::create(order, &capability, now, &config.purchases)?;
        self.can_pay(&step).await?;
        let spent = step.spend.is_some().then_some(spent);
        Ok(PricedOrder { step, spent, capability: version, sold: sold_version })
    }

    /// Checks the balances that a step requires. Where money moves, the commit checks them itself.
    async fn can_pay(&self, step: &TransactionStep) -> Result<(), Error> {
        for guard in &step.guards {
            if let Precondition::Available(account, needed) = guard
                && step.entries.is_empty()
            {
                let on_it = self.balance(account).await?;
                if on_it < *needed {
                    return Err(market_rules::Error::Insufficient { needed: *needed, available: on_it }.into());
                }
            }
        }
        Ok(())
    }

    pub(crate) async fn balance(&self, account: &AccountId) -> Result<Ut, Error> {
        let balances = self.engine().store().balances(vec![account.key().into()]).await.map_err(read_fault)?;
        Ok(Ut::from_hundredths(balances.first().copied().unwrap_or_default()))
    }

    /// Performs an action on a purchase; an action that its actor or status does not allow is refused.
    pub async fn act(
        &self,
        actor: &Actor,
        id: TransactionId,
        action: TransactionAction,
        once: Option<(&MarketCaller, Once)>,
    ) -> Result<Transaction, Error> {
        let keyed = once.as_ref().map(|(caller, once)| (*caller, once));
        let perform = |fresh| self.changed_purchase(actor, id, action, fresh);
        self.perform_once(keyed, perform, |made| purchase_of(made, |made| made.id == id)).await
    }

    async fn changed_purchase(
        &self,
        actor: &Actor,
        id: TransactionId,
        action: TransactionAction,
        fresh: Option<FreshKey>,
    ) -> Result<Transaction, Error> {
        for _ in 0..=ATTEMPTS {
            let remembered = self.shared.recent.take(id);
            let is_remembered = remembered.is_some();
            let row = match remembered {
                Some(row) => row,
                None => self.read_transaction(id).await?,
            };
            let step = match row.step(actor, action.clone(), self.now(), &self.config().purchases) {
                Ok(step) => step,
                Err(_) if is_remembered => continue,
                Err(refused) => return Err(refused.into()),
            };
            let look_at = self.look_at(&step.transaction).await?;
            let made = fresh.as_ref().map(|fresh| {
                fresh.used_for(
                    StoredResult::Transaction(Box::new(step.transaction.clone())),
                    step.transaction.updated_at,
                )
            });
            let beside = self.beside(Some(row.status), &step.transaction).await?;
            let told = !beside.is_empty();
            let along = commit::along(
                &step,
                CommitInputs { spent: None, capability: None, sold: 0, look_at, once: made, beside },
            );
            let without_task = along.clone();
            match self.engine().move_product(id.0, commit::moved(&step), along).await {
                Ok(_) => {
                    self.shared.recent.keep(&step.transaction);
                    self.drive(&step.transaction);
                    self.ring(told);
                    return Ok(step.transaction);
                }
                // An operator has removed the task; the purchase still has to end, so that its money is released.
                Err(CommitError::Fault(fault)) if fault.kind == Kind::TaskNotFound => {
                    match self.engine().keep(without_task).await {
                        Ok(()) => {
                            self.ring(told);
                            return Ok(step.transaction);
                        }
                        Err(CommitError::Met(_)) => {}
                        Err(CommitError::Fault(fault)) => return Err(fault.into()),
                    }
                }
                // The purchase has ended since it was read.
                Err(CommitError::Fault(fault)) if fault.kind == Kind::TaskSettled => {}
                Err(CommitError::Fault(fault)) => return Err(fault.into()),
                Err(CommitError::Met(Conflict::Funds(_, on_it))) => return Err(short(row.price, on_it)),
                Err(CommitError::Met(met)) if is_about_once(&met) => break,
                Err(CommitError::Met(Conflict::Record(kind, ..))) if records::USED_CONFIRMATIONS.is(&kind) => {
                    return Err(autonomy::TokenRefused::Used.into());
                }
                Err(CommitError::Met(Conflict::Record(..) | Conflict::Entry(_))) => {}
                Err(unexpected @ CommitError::Met(_)) => return Err(unexpected.into()),
            }
        }
        Err(market_rules::Error::Changed.into())
    }

    /// Other changes of a commit that changes a purchase's status.
    async fn beside(&self, from: Option<Status>, row: &Transaction) -> Result<Vec<RecordChange>, Error> {
        let mut beside = self.notices_of_transaction(from, row).await?;
        beside.extend(self.demand_along(row).await?);
        Ok(beside)
    }

    /// The time of the purchase's timer.
    pub(crate) async fn look_at(&self, row: &Transaction) -> Result<Option<Time>, Error> {
        let config = self.config();
        let (mut buyer, mut seller): (Option<User>, Option<User>) = (None, None);
        if config.acts_after_ms.is_some() && !row.status.is_terminal() {
            buyer = self.user(&row.buyer).await?;
            seller = self.user(&row.seller).await?;
        }
        Ok(sellers::look_at(row, buyer.as_ref(), seller.as_ref(), &config, self.now()))
    }

    pub(crate) async fn read_transaction(&self, id: TransactionId) -> Result<Transaction, Error> {
        let found = self.read(records::TRANSACTIONS, records::transaction_key(id)).await?;
        let tenant = self.config().tenant.clone();
        let row = found.map(|(row, _)| row).filter(|row| row.tenant == tenant);
        row.ok_or(Error::Unknown(MarketEntity::Transaction))
    }

    /// A purchase, for its parties.
    pub async fn transaction(&self, actor: &Actor, id: TransactionId) -> Result<Transaction, Error> {
        let row = self.read_transaction(id).await?;
        match row.role(actor) {
            Some(_) => Ok(row),
            None => Err(market_rules::Error::NotParty.into()),
        }
    }

    /// The caller's purchases, sales, or both; the newest first.
    pub async fn transactions(
        &self,
        caller: &MarketCaller,
        role: Option<Role>,
        status: Option<Status>,
        paging: Paging,
    ) -> Result<Paged<Transaction>, Error> {
        match role {
            Some(role @ (Role::Buyer | Role::Seller)) => self.of_one_side(caller, role, status, paging).await,
            Some(Role::Platform) => {
                Ok(Paged { items: Vec::new(), total: 0, page: paging.page, size: paging.size, more: false })
            }
            // No user buys from itself: purchases and sales are disjoint.
            None if status.is_none() => {
                let lists = [Role::Buyer, Role::Seller].map(|role| all_lists(caller, role)).concat();
                self.merged(&lists, paging).await
            }
            None => {
                let upto = Paging { page: 1, size: paging.page.saturating_mul(paging.size) };
                let bought = self.of_one_side(caller, Role::Buyer, status, upto).await?;
                let sold = self.of_one_side(caller, Role::Seller, status, upto).await?;
                let total = bought.total + sold.total;
                let mut items = bought.items;
                items.extend(sold.items);
                items.sort_by_key(|row| std::cmp::Reverse((row.created_at, row.id)));
                Ok(paged(items, total, paging))
            }
        }
    }

    async fn of_one_side(
        &self,
        caller: &MarketCaller,
        role: Role,
        status: Option<Status>,
        paging: Paging,
    ) -> Result<Paged<Transaction>, Error> {
        let list = |standing| records::purchases(role, &caller.tenant, &caller.user, standing);
        match status {
            None => self.merged(&all_lists(caller, role), paging).await,
            Some(over) if over.is_terminal() => {
                self.page(records::TRANSACTIONS, list(PurchaseList::Over(over)), paging).await
            }
            Some(under_way) => {
                let mut items = Vec::new();
                self.walk_rows(records::TRANSACTIONS, list(PurchaseList::Open), |row: Transaction| {
                    if row.status == under_way {
                        items.push(row);
                    }
                })
                .await?;
                let total = items.len() as u64;
                Ok(paged(items, total, paging))
            }
        }
    }

    /// A page of several lists, merged into one. A row is in one of them; it may move to a later list during the read,
    /// and is then shown as read there.
    async fn merged(&self, lists: &[Arc<str>], paging: Paging) -> Result<Paged<Transaction>, Error> {
        let size = u64::from(paging.size);
        let skip = u64::from(paging.page.saturating_sub(1)).saturating_mul(size);
        let upto = skip.saturating_add(size);
        let read = async |list: &Arc<str>, skip: u64, limit: u64, count: bool| {
            let limit = u32::try_from(limit).unwrap_or(u32::MAX);
            let query = RecordQuery { skip, limit, count, ..records::TRANSACTIONS.query(list.clone()) };
            self.engine().store().records(query).await.map_err(read_fault)
        };
        let mut counted: Vec<(&Arc<str>, u64)> = Vec::with_capacity(lists.len());
        for list in lists {
            counted.push((list, read(list, 0, 1, true).await?.total.unwrap_or_default()));
        }
        let total = counted.iter().map(|(_, count)| count).sum();
        let mut rows = BTreeMap::new();
        let mut passed = 0;
        if skip < total {
            let longest = counted.iter().max_by_key(|(_, count)| *count).map(|(list, _)| *list);
            let of_others = counted.iter().filter(|(list, _)| Some(*list) != longest);
            let others: u64 = of_others.map(|(_, count)| upto.min(*count)).sum();
            // Of the longest list, read only the rows that can be on the page.
            passed = skip.saturating_sub(others);
            for (list, count) in counted {
                let (from, limit) = if Some(list) == longest { (passed, size + others) } else { (0, upto) };
                if count > from {
                    for (record, rank) in read(list, from, limit.min(count - from), false).await?.records {
                        rows.insert(Reverse((rank, record.key)), record.body);
                    }
                }
            }
        }
        let shown = rows.values().skip((skip - passed) as usize).take(paging.size as usize);
        let items = shown.map(|body| decode::<Transaction>(body)).collect::<Result<Vec<_>, _>>()?;
        let more = skip.saturating_add(items.len() as u64) < total;
        Ok(Paged { items, total, page: paging.page, size: paging.size, more })
    }

    /// Follows a purchase, for its parties.
    pub async fn follow(&self, actor: &Actor, id: TransactionId) -> Result<PurchaseFeed, Error> {
        self.transaction(actor, id).await?;
        let states = self.engine().follow_product(id.0).await?;
        Ok(PurchaseFeed { market: self.clone(), id, states, last: None, over: false })
    }
}

/// The lists of all purchases, or sales, of the caller.
fn all_lists(caller: &MarketCaller, role: Role) -> Vec<Arc<str>> {
    let over = Status::ALL.iter().filter(|status| status.is_terminal()).map(|status| PurchaseList::Over(*status));
    let standings = std::iter::once(PurchaseList::Open).chain(over);
    standings.map(|standing| records::purchases(role, &caller.tenant, &caller.user, standing)).collect()
}

/// A page of rows that were read from the beginning.
fn paged(items: Vec<Transaction>, total: u64, paging: Paging) -> Paged<Transaction> {
    let skip = (paging.page.saturating_sub(1) as usize).saturating_mul(paging.size as usize);
    let items: Vec<Transaction> = items.into_iter().skip(skip).take(paging.size as usize).collect();
    let more = skip as u64 + (items.len() as u64) < total;
    Paged { items, total, page: paging.page, size: paging.size, more }
}

fn short(needed: Ut, on_it: i64) -> Error {
    market_rules::Error::Insufficient { needed, available: Ut::from_hundredths(on_it) }.into()
}

/// The scope of a purchase's task: the buyer's, with the seller as a party.
fn place(row: &Transaction) -> CallScope {
    let buyer = model::Caller {
        tenant: row.tenant.clone(),
        name: row.buyer.0.clone(),
        authenticated: true,
        scopes: Arc::default(),
    };
    let place =
        CallScope::new(buyer, AGENT.into(), DIALECT.into(), Visibility::Parties, std::slice::from_ref(&row.seller.0));
    // The parties find it in the lists of its row.
    CallScope { views: Vec::new(), ..place }
}
