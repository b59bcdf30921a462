//! The market's records: their kinds, keys and lists.

use std::sync::Arc;

use ledger::records::{RecordCollection, listed};
use ledger::{Row, TransactionId, UsedKeys, UserId, Ut};
use market_rules::tariff::TurnHold;
use market_rules::transaction::{Role, Status};
use market_rules::{Capability, CapabilityId, Demand, Sales, Served, Transaction, autonomy};
use model::Listed;
use serde::{Deserialize, Serialize};

use crate::service::accounts::{AccountRow, CodeRow, DeviceRow, KeyRow, LoginRow, User};
use crate::service::bounded::Added;
use crate::service::externals::{External, Hooks};
use crate::service::files::{File, FileSum, GrantRow};
use crate::service::notices::WebhookNotice;
use crate::service::sellers::Calls;
use crate::service::wallet::CreditRow;
use crate::service::{Error, Market, Paged, Paging};

pub(crate) use ledger::entry::{Booked, entry, entry_id};
pub(crate) use model::record::joined;

pub(crate) const TRANSACTIONS: RecordCollection<Transaction> = RecordCollection::new("market/transaction");
/// Money set aside for a turn of an agent, as long as the turn runs.
pub(crate) const TURN_HOLDS: RecordCollection<TurnHold> = RecordCollection::new("market/turn-hold");
pub(crate) const CAPABILITIES: RecordCollection<Capability> = RecordCollection::new("market/capability");
pub(crate) const DEMANDS: RecordCollection<Demand> = RecordCollection::new("market/demand");
/// Agents of users that run elsewhere.
pub(crate) const EXTERNALS: RecordCollection<External> = RecordCollection::new("market/external");
/// The events that each external agent of a user subscribes to.
pub(crate) const HOOKS: RecordCollection<Hooks> = RecordCollection::new("market/hooks");
/// Notices to external agents that wait for delivery, or were given up.
pub(crate) const NOTICES: RecordCollection<WebhookNotice> = RecordCollection::new("market/notice");
pub(crate) const USED_CONFIRMATIONS: RecordCollection<Used> = RecordCollection::new("market/used");
/// Sums that the agents of a user have spent by themselves in a day.
pub(crate) const SPENDING: RecordCollection<Spent> = RecordCollection::new("market/spent");
/// Counted sales of capabilities that have limits.
pub(crate) const SALES: RecordCollection<Sales> = RecordCollection::new("market/sales");
/// A record whose version grows with every addition to a bounded list.
pub(crate) const ADDITIONS: RecordCollection<Added> = RecordCollection::new("market/added");
pub(crate) const USERS: RecordCollection<User> = RecordCollection::new("market/user");
/// Users by the account they log in with.
pub(crate) const ACCOUNTS: RecordCollection<AccountRow> = RecordCollection::new("market/account");
pub(crate) const KEYS: RecordCollection<KeyRow> = RecordCollection::new("market/key");
pub(crate) const LOGINS: RecordCollection<LoginRow> = RecordCollection::new("market/login");
pub(crate) const DEVICES: RecordCollection<DeviceRow> = RecordCollection::new("market/device");
/// Devices by the code that a person enters.
pub(crate) const DEVICE_CODES: RecordCollection<CodeRow> = RecordCollection::new("market/device-code");
pub(crate) const SECRETS: &str = "market/secrets";
/// Failed calls of a seller's endpoint.
pub(crate) const CALLS: RecordCollection<Calls> = RecordCollection::new("market/calls");
pub(crate) const USED_KEYS: UsedKeys = UsedKeys::new("market/once");
/// Credits from outside by their reference.
pub(crate) const CREDITS: RecordCollection<CreditRow> = RecordCollection::new("market/credit");
/// Files that were uploaded or made for a purchase.
pub(crate) const FILES: RecordCollection<File> = RecordCollection::new("market/file");
/// Number and size of the files of a purchase, or of a seller.
pub(crate) const FILE_SUMS: RecordCollection<FileSum> = RecordCollection::new("market/file-sum");
/// Tokens to download a file.
pub(crate) const GRANTS: RecordCollection<GrantRow> = RecordCollection::new("market/grant");

/// The list of all records of a kind.
pub(crate) const ALL: &str = "all";

pub(crate) fn capability_key(tenant: &str, id: &CapabilityId) -> Arc<str> {
    joined(&[tenant, id.as_str()])
}

pub(crate) fn user_key(tenant: &str, id: &UserId) -> Arc<str> {
    joined(&[tenant, id.as_str()])
}

pub(crate) fn transaction_key(id: TransactionId) -> Arc<str> {
    id.to_string().into()
}

pub(crate) fn spent_key(tenant: &str, user: &UserId, day: i64) -> Arc<str> {
    joined(&[tenant, user.as_str(), &day.to_string()])
}

/// The lists of a user's purchases or sales. Purchases under way share one list: a step of a purchase leaves its lists
/// as they are, and few are under way at a time. There is no list of all purchases: those under way and the ended ones
/// together are all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PurchaseList {
    /// Purchases under way.
    Open,
    /// Purchases that wait for the seller's program.
    Job,
    /// Ended purchases, by outcome.
    Over(Status),
}

/// The name of a list of a user's purchases or sales.
pub(crate) fn purchases(role: Role, tenant: &str, user: &UserId, standing: PurchaseList) -> Arc<str> {
    let standing = match standing {
        PurchaseList::Open => "open",
        PurchaseList::Job => "job",
        PurchaseList::Over(status) => status.name(),
    };
    joined(&[role.name(), tenant, user.as_str(), standing])
}

/// The name of the list of a capability's counted sales.
pub(crate) fn sales(tenant: &str, id: &CapabilityId) -> Arc<str> {
    joined(&["of", tenant, id.as_str()])
}

/// The lists of a transaction, ranked by its creation time.
pub(crate) fn lists_of(transaction: &Transaction) -> Vec<Listed> {
    let (tenant, rank) = (&*transaction.tenant, transaction.created_at.0);
    let standing =
        if transaction.status.is_terminal() { PurchaseList::Over(transaction.status) } else { PurchaseList::Open };
    let mut lists = vec![listed(ALL, rank)];
    if transaction.counted {
        lists.push(listed(sales(tenant, &transaction.capability), rank));
    }
    for (role, user) in [(Role::Buyer, &transaction.buyer), (Role::Seller, &transaction.seller)] {
        lists.push(listed(purchases(role, tenant, user, standing), rank));
    }
    if transaction.served == Served::Worker && matches!(transaction.status, Status::Frozen | Status::Accepted) {
        lists.push(listed(purchases(Role::Seller, tenant, &transaction.seller, PurchaseList::Job), rank));
    }
    lists
}

/// The sum that a user's agents have spent by themselves in a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Spent {
    pub(crate) sum: Ut,
}
impl Row for Spent {
    const NAME: &'static str = "spent";
}

/// The use of a confirmation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Used {
    pub(crate) transaction: TransactionId,
}
impl Row for Used {
    const NAME: &'static str = "used";
}

pub(crate) fn mark_key(mark: &autonomy::Mark) -> Arc<str> {
    hex(&mark.nonce)
}

pub(crate) fn hex(bytes: &[u8]) -> Arc<str> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.extend([byte >> 4, byte & 15].map(|digit| char::from(DIGITS[usize::from(digit)])));
    }
    text.into()
}

impl Market {
    /// A row and its version.
    pub(crate) async fn read<R: Row>(
        &self,
        collection: RecordCollection<R>,
        key: impl Into<Arc<str>>,
    ) -> Result<Option<(R, u64)>, Error> {
        Ok(collection.read(self.store(), key).await?)
    }

    /// A page of a list of rows.
    pub(crate) async fn page<R: Row>(
        &self,
        collection: RecordCollection<R>,
        list: impl Into<Arc<str>>,
        paging: Paging,
    ) -> Result<Paged<R>, Error> {
        let skip = u64::from(paging.page.saturating_sub(1)) * u64::from(paging.size);
        let page = collection.page(self.store(), list, skip, paging.size).await?;
        let Paging { page: number, size } = paging;
        Ok(Paged { items: page.rows, total: page.total, page: number, size, more: page.more })
    }

    pub(crate) async fn read_capability(&self, id: &CapabilityId) -> Result<Option<Capability>, Error> {
        let tenant = self.config().tenant.clone();
        Ok(self.read(CAPABILITIES, capability_key(&tenant, id)).await?.map(|(capability, _)| capability))
    }
}
