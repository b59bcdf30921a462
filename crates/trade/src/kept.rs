//! The market's rows as records of the store, and its entries as the store's.

use std::sync::Arc;

use ledger::{Row, TransactionId, UserId, Ut};
use market::transaction::{Role, Status};
use market::{Capability, CapabilityId, Served, Transaction, autonomy};
use model::{Expect, Listed, RecordChange, RecordQuery};
use serde::{Deserialize, Serialize};

use crate::refused::unread;
use crate::{Market, Paged, Paging, Refused};

pub(crate) use ledger::entry::{Booked, entry, entry_id};
pub(crate) use model::record::joined;

/// The kinds of records the market keeps.
pub(crate) mod kind {
    pub(crate) const TRANSACTION: &str = "market/transaction";
    /// What is set aside for a turn of an agent, for as long as it runs.
    pub(crate) const TURN_HOLD: &str = "market/turn-hold";
    pub(crate) const CAPABILITY: &str = "market/capability";
    pub(crate) const DEMAND: &str = "market/demand";
    /// An agent of a user's that lives elsewhere.
    pub(crate) const EXTERNAL: &str = "market/external";
    /// Which of a user's external agents want to hear of what.
    pub(crate) const HOOKS: &str = "market/hooks";
    /// What an external agent has yet to hear, or never will.
    pub(crate) const NOTICE: &str = "market/notice";
    /// A confirmation that was used.
    pub(crate) const USED: &str = "market/used";
    /// What a user's agents have spent by themselves in a day.
    pub(crate) const SPENT: &str = "market/spent";
    /// Sales of a capability that has limits, counted for them.
    pub(crate) const SALES: &str = "market/sales";
    /// A record whose version every addition to a bounded list raises.
    pub(crate) const ADDED: &str = "market/added";
    pub(crate) const USER: &str = "market/user";
    /// Which user an account belongs to.
    pub(crate) const ACCOUNT: &str = "market/account";
    pub(crate) const KEY: &str = "market/key";
    /// A login of a user.
    pub(crate) const LOGIN: &str = "market/login";
    pub(crate) const DEVICE: &str = "market/device";
    /// Which device a person's code belongs to.
    pub(crate) const DEVICE_CODE: &str = "market/device-code";
    pub(crate) const SECRETS: &str = "market/secrets";
    /// How often a seller's endpoint was called in vain.
    pub(crate) const CALLS: &str = "market/calls";
    pub(crate) const ONCE: &str = "market/once";
    /// Which credit from outside a reference stands for.
    pub(crate) const CREDIT: &str = "market/credit";
    /// A file that was uploaded or made for a purchase.
    pub(crate) const FILE: &str = "market/file";
    /// How much is kept of a purchase's files, or a seller's.
    pub(crate) const FILE_SUM: &str = "market/file-sum";
    /// A token to fetch a file with.
    pub(crate) const GRANT: &str = "market/grant";
}

/// The list of everything of a kind.
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

pub(crate) fn put<R: Row>(
    kind: &'static str,
    key: impl Into<Arc<str>>,
    expect: Expect,
    row: &R,
    lists: Vec<Listed>,
) -> RecordChange {
    RecordChange::Put { kind: kind.into(), key: key.into(), expect, body: row.to_row().into(), lists }
}

pub(crate) fn listed(list: impl Into<Arc<str>>, rank: i64) -> Listed {
    Listed { list: list.into(), rank }
}

/// Which of a user's purchases or sales are in a list. There is none for each status of those that are under way: a step
/// that moves a purchase on leaves its lists as they are, and few are under way at a time. Nor is there one of all: those
/// that are under way and those that are over are all there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Not over yet.
    Open,
    /// A seller's program is to do something about it.
    Job,
    /// Over, and how.
    Over(Status),
}

/// Where a user's purchases or sales are listed.
pub(crate) fn purchases(role: Role, tenant: &str, user: &UserId, standing: Standing) -> Arc<str> {
    let standing = match standing {
        Standing::Open => "open",
        Standing::Job => "job",
        Standing::Over(status) => status.name(),
    };
    joined(&[role.name(), tenant, user.as_str(), standing])
}

/// Where the sales of one capability are listed, if they count.
pub(crate) fn sales(tenant: &str, id: &CapabilityId) -> Arc<str> {
    joined(&["of", tenant, id.as_str()])
}

/// The lists a transaction is in, by the time it was made.
pub(crate) fn lists_of(transaction: &Transaction) -> Vec<Listed> {
    let (tenant, rank) = (&*transaction.tenant, transaction.created_at.0);
    let standing = if transaction.status.is_terminal() { Standing::Over(transaction.status) } else { Standing::Open };
    let mut lists = vec![listed(ALL, rank)];
    if transaction.counted {
        lists.push(listed(sales(tenant, &transaction.capability), rank));
    }
    for (role, user) in [(Role::Buyer, &transaction.buyer), (Role::Seller, &transaction.seller)] {
        lists.push(listed(purchases(role, tenant, user, standing), rank));
    }
    if transaction.served == Served::Worker && matches!(transaction.status, Status::Frozen | Status::Accepted) {
        lists.push(listed(purchases(Role::Seller, tenant, &transaction.seller, Standing::Job), rank));
    }
    lists
}

/// What an agent's day has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Spent {
    pub(crate) sum: Ut,
}
impl Row for Spent {
    const NAME: &'static str = "spent";
}

/// That a confirmation was used, and for what.
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
        kind: &'static str,
        key: impl Into<Arc<str>>,
    ) -> Result<Option<(R, u64)>, Refused> {
        let found = self.engine().store().record(kind.into(), key.into()).await.map_err(unread)?;
        found.map(|record| Ok((row::<R>(&record.body)?, record.version))).transpose()
    }

    /// A page of a list of rows.
    pub(crate) async fn page<R: Row>(
        &self,
        kind: &'static str,
        list: impl Into<Arc<str>>,
        paging: Paging,
    ) -> Result<Paged<R>, Refused> {
        let skip = u64::from(paging.page.saturating_sub(1)) * u64::from(paging.size);
        let query =
            RecordQuery { kind: kind.into(), list: list.into(), after: None, skip, limit: paging.size, count: true };
        let page = self.engine().store().records(query).await.map_err(unread)?;
        let items = page.records.iter().map(|(record, _)| row::<R>(&record.body));
        Ok(Paged {
            items: items.collect::<Result<_, _>>()?,
            total: page.total.unwrap_or_default(),
            page: paging.page,
            size: paging.size,
            more: page.more,
        })
    }

    pub(crate) async fn read_capability(&self, id: &CapabilityId) -> Result<Option<Capability>, Refused> {
        let tenant = self.config().tenant.clone();
        Ok(self.read(kind::CAPABILITY, capability_key(&tenant, id)).await?.map(|(capability, _)| capability))
    }
}

pub(crate) fn row<R: Row>(body: &[u8]) -> Result<R, Refused> {
    R::from_row(body).map_err(|error| Refused::Fault(model::Fault::internal(error)))
}
