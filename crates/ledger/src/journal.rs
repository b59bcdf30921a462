//! The journal: double entry. The lines of an entry sum to zero, and no entry can be built whose lines do not.
//!
//! A balance is the sum of an account's lines, so that all accounts of a tenant sum to zero: the outside account is below
//! zero by as much as users and the platform have. A store adds to each line its number in the account and the balance after
//! it; [`LedgerEntry::post`] computes both from the accounts as they are.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use model::{Time, TurnId};
use serde::{Deserialize, Serialize};

use crate::{TransactionId, UserId, Ut};

/// Lines in one entry, at most. The longest entry in use, a partial settlement, has five.
pub const MAX_LINES: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AccountId {
    pub tenant: Arc<str>,
    pub purse: AccountKind,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccountKind {
    /// Money that a user can spend.
    Available(UserId),
    /// Money of a user that is set aside for purchases under way.
    Frozen(UserId),
    /// Earnings of the platform.
    Commission,
    /// The source and the destination of all money: the only account that may be below zero.
    Outside,
}

impl AccountId {
    pub fn available(tenant: &Arc<str>, user: &UserId) -> AccountId {
        AccountId { tenant: tenant.clone(), purse: AccountKind::Available(user.clone()) }
    }
    pub fn frozen(tenant: &Arc<str>, user: &UserId) -> AccountId {
        AccountId { tenant: tenant.clone(), purse: AccountKind::Frozen(user.clone()) }
    }
    pub fn commission(tenant: &Arc<str>) -> AccountId {
        AccountId { tenant: tenant.clone(), purse: AccountKind::Commission }
    }
    pub fn outside(tenant: &Arc<str>) -> AccountId {
        AccountId { tenant: tenant.clone(), purse: AccountKind::Outside }
    }
    pub fn may_be_negative(&self) -> bool {
        match self.purse {
            AccountKind::Outside => true,
            AccountKind::Available(_) | AccountKind::Frozen(_) | AccountKind::Commission => false,
        }
    }
    /// The account's key in a store. Tenants and users contain no control characters.
    pub fn key(&self) -> String {
        let tenant = &self.tenant;
        match &self.purse {
            AccountKind::Available(user) => format!("a\u{1f}{tenant}\u{1f}{user}"),
            AccountKind::Frozen(user) => format!("f\u{1f}{tenant}\u{1f}{user}"),
            AccountKind::Commission => format!("c\u{1f}{tenant}"),
            AccountKind::Outside => format!("o\u{1f}{tenant}"),
        }
    }
}

/// For operators: `default: available of u_1`.
impl fmt::Display for AccountId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenant = &self.tenant;
        match &self.purse {
            AccountKind::Available(user) => write!(f, "{tenant}: available of {user}"),
            AccountKind::Frozen(user) => write!(f, "{tenant}: frozen of {user}"),
            AccountKind::Commission => write!(f, "{tenant}: commission"),
            AccountKind::Outside => write!(f, "{tenant}: outside"),
        }
    }
}

/// The kind of a line, as statements name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LineKind {
    /// From available to frozen.
    Freeze,
    /// From frozen back to available.
    Unfreeze,
    /// From frozen to the seller and the platform.
    SettleOut,
    /// The seller's part of a settlement.
    Income,
    /// The platform's part of a settlement.
    Commission,
    /// From outside to available.
    Recharge,
    /// From available to outside.
    Withdraw,
}

impl LineKind {
    pub const ALL: [LineKind; 7] = [
        LineKind::Freeze,
        LineKind::Unfreeze,
        LineKind::SettleOut,
        LineKind::Income,
        LineKind::Commission,
        LineKind::Recharge,
        LineKind::Withdraw,
    ];

    pub fn name(self) -> &'static str {
        match self {
            LineKind::Freeze => "freeze",
            LineKind::Unfreeze => "unfreeze",
            LineKind::SettleOut => "settle_out",
            LineKind::Income => "income",
            LineKind::Commission => "commission",
            LineKind::Recharge => "recharge",
            LineKind::Withdraw => "withdraw",
        }
    }
    pub fn from_name(name: &str) -> Option<LineKind> {
        LineKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// One of a turn's two entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TurnEntry {
    Hold,
    End,
}

/// The name of an entry, unique in a journal. It is derived from the subject of the entry and is never random, so that
/// nothing is booked twice: a hold is made under one name and ended, in either way, under one other.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EntryId(Arc<str>);

impl EntryId {
    pub fn freeze(transaction: TransactionId) -> EntryId {
        EntryId(format!("{}/freeze", transaction.tx()).into())
    }
    /// Of the settlement or of the release: a hold has one of them.
    pub fn end(transaction: TransactionId) -> EntryId {
        EntryId(format!("{}/end", transaction.tx()).into())
    }
    /// Of a paid turn of an agent: one entry sets money aside, one ends that.
    pub fn turn(turn: TurnId, which: TurnEntry) -> EntryId {
        let which = match which {
            TurnEntry::Hold => "hold",
            TurnEntry::End => "end",
        };
        EntryId(format!("turn/{turn}/{which}").into())
    }
    /// The turn of an entry that belongs to one.
    pub fn of_turn(&self) -> Option<(TurnId, TurnEntry)> {
        let (turn, which) = self.0.strip_prefix("turn/")?.split_once('/')?;
        let which = match which {
            "hold" => TurnEntry::Hold,
            "end" => TurnEntry::End,
            _ => return None,
        };
        Some((turn.parse().ok()?, which))
    }
    /// Of money from or to the outside; `reference` identifies it there, such as an operator's note.
    fn outside(kind: LineKind, tenant: &str, reference: &str) -> EntryId {
        EntryId(format!("{}/{tenant}/{reference}", kind.name()).into())
    }
    /// The purchase of an entry that belongs to one.
    pub fn transaction(&self) -> Option<TransactionId> {
        self.0.split_once('/')?.0.parse().ok()
    }
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One line of an entry: the change of one account.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntryLine {
    pub account: AccountId,
    pub kind: LineKind,
    pub amount: Ut,
}

impl EntryLine {
    pub fn new(account: AccountId, kind: LineKind, amount: Ut) -> EntryLine {
        EntryLine { account, kind, amount }
    }
}

/// The facts of an entry beside its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryHead {
    pub id: EntryId,
    pub at: Time,
    pub transaction: Option<TransactionId>,
    /// Text for the statement.
    pub note: Option<Arc<str>>,
}

/// Lines that belong together and sum to zero. An entry is not read back; [`LedgerPosting`]s are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerEntry {
    head: EntryHead,
    lines: Vec<EntryLine>,
}

/// Why lines make no entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    #[error("an entry has 2 to {MAX_LINES} lines, not {0}")]
    Lines(usize),
    #[error("the lines sum to {0}, not to zero")]
    Unbalanced(Ut),
    #[error("a line moves nothing")]
    Nothing,
    #[error("an entry stays within one tenant")]
    Tenants,
    #[error("two lines of one kind are on one account")]
    Twice,
    #[error("the amounts do not fit")]
    Overflow,
    #[error("the amount must be more than zero and no more than {}", Ut::MOST)]
    Amount,
    #[error("the hold has ended")]
    Ended,
    #[error("{asked} is more than the {held} that is held")]
    MoreThanHeld { asked: Ut, held: Ut },
}

/// A balance that an account must have for an entry, checked by the store in the commit itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Floor {
    pub account: AccountId,
    pub at_least: Ut,
}

impl LedgerEntry {
    pub fn new(head: EntryHead, lines: Vec<EntryLine>) -> Result<LedgerEntry, EntryError> {
        if lines.len() < 2 || lines.len() > MAX_LINES {
            return Err(EntryError::Lines(lines.len()));
        }
        for (i, line) in lines.iter().enumerate() {
            if line.amount.is_zero() {
                return Err(EntryError::Nothing);
            }
            if line.account.tenant != lines[0].account.tenant {
                return Err(EntryError::Tenants);
            }
            if lines[..i].iter().any(|other| other.account == line.account && other.kind == line.kind) {
                return Err(EntryError::Twice);
            }
        }
        match Ut::sum(lines.iter().map(|line| line.amount)) {
            None => Err(EntryError::Overflow),
            Some(sum) if !sum.is_zero() => Err(EntryError::Unbalanced(sum)),
            Some(_) => Ok(LedgerEntry { head, lines }),
        }
    }

    /// Money from outside. `reference` names its source; a reference is booked once.
    pub fn recharge(
        tenant: &Arc<str>,
        user: &UserId,
        amount: Ut,
        reference: &str,
        note: Option<Arc<str>>,
        at: Time,
    ) -> Result<LedgerEntry, EntryError> {
        LedgerEntry::across(
            LineKind::Recharge,
            AccountId::outside(tenant),
            AccountId::available(tenant, user),
            amount,
            reference,
            note,
            at,
        )
    }

    /// Money to outside.
    pub fn withdraw(
        tenant: &Arc<str>,
        user: &UserId,
        amount: Ut,
        reference: &str,
        note: Option<Arc<str>>,
        at: Time,
    ) -> Result<LedgerEntry, EntryError> {
        LedgerEntry::across(
            LineKind::Withdraw,
            AccountId::available(tenant, user),
            AccountId::outside(tenant),
            amount,
            reference,
            note,
            at,
        )
    }

    fn across(
        kind: LineKind,
        from: AccountId,
        to: AccountId,
        amount: Ut,
        reference: &str,
        note: Option<Arc<str>>,
        at: Time,
    ) -> Result<LedgerEntry, EntryError> {
        let id = EntryId::outside(kind, &from.tenant, reference);
        LedgerEntry::new(EntryHead { id, at, transaction: None, note }, moved(kind, from, to, amount)?)
    }

    pub fn id(&self) -> &EntryId {
        &self.head.id
    }
    pub fn head(&self) -> &EntryHead {
        &self.head
    }
    pub fn lines(&self) -> &[EntryLine] {
        &self.lines
    }

    /// Balances that the entry needs. Frozen money is not among them: it exists as long as its hold does.
    pub fn floors(&self) -> Vec<Floor> {
        let mut nets: BTreeMap<&AccountId, i128> = BTreeMap::new();
        for line in &self.lines {
            if matches!(line.account.purse, AccountKind::Available(_)) {
                *nets.entry(&line.account).or_default() += i128::from(line.amount.hundredths());
            }
        }
        let short = |(account, net): (&AccountId, i128)| {
            let needed = i64::try_from(-net).ok().filter(|needed| *needed > 0)?;
            Some(Floor { account: account.clone(), at_least: Ut::from_hundredths(needed) })
        };
        nets.into_iter().filter_map(short).collect()
    }

    /// The new rows, from the accounts that `read` returns. A store calls this inside its transaction.
    pub fn post(&self, mut read: impl FnMut(&AccountId) -> Option<Account>) -> Result<Posted, PostingError> {
        let mut accounts: Vec<Account> = Vec::with_capacity(self.lines.len());
        let mut postings = Vec::with_capacity(self.lines.len());
        for (line, place) in self.lines.iter().zip(0_u8..) {
            let slot = match accounts.iter().position(|known| known.id == line.account) {
                Some(slot) => slot,
                None => {
                    accounts.push(read(&line.account).unwrap_or_else(|| Account::new(line.account.clone())));
                    accounts.len() - 1
                }
            };
            let account = &mut accounts[slot];
            account.balance =
                account.balance.plus(line.amount).ok_or_else(|| PostingError::Overflow(account.id.clone()))?;
            account.lines += 1;
            postings.push(LedgerPosting {
                entry: self.head.id.clone(),
                line: place,
                account: line.account.clone(),
                no: account.lines,
                kind: line.kind,
                amount: line.amount,
                balance_after: account.balance,
                transaction: self.head.transaction,
                note: self.head.note.clone(),
                at: self.head.at,
            });
        }
        match accounts.iter().find(|account| account.balance.is_negative() && !account.id.may_be_negative()) {
            Some(short) => Err(PostingError::Short(short.id.clone())),
            None => Ok(Posted { postings, accounts }),
        }
    }
}

/// Two lines that move an amount from one account to another.
pub fn moved(kind: LineKind, from: AccountId, to: AccountId, amount: Ut) -> Result<Vec<EntryLine>, EntryError> {
    if !amount.is_positive() || amount > Ut::MOST {
        return Err(EntryError::Amount);
    }
    let back = amount.negated().ok_or(EntryError::Overflow)?;
    Ok(vec![EntryLine::new(from, kind, back), EntryLine::new(to, kind, amount)])
}

/// Why an entry cannot be posted to the accounts as they are.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PostingError {
    #[error("{0} would be below zero")]
    Short(AccountId),
    #[error("{0} would be larger than the number holds")]
    Overflow(AccountId),
}

/// Rows to write: new postings, and the accounts after them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Posted {
    pub postings: Vec<LedgerPosting>,
    pub accounts: Vec<Account>,
}

/// An account's row. All of it can be computed from its postings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    pub id: AccountId,
    pub balance: Ut,
    /// Number of its postings.
    pub lines: u64,
}

impl Account {
    pub fn new(id: AccountId) -> Account {
        Account { id, balance: Ut::ZERO, lines: 0 }
    }
}

/// A line as it is stored, and as an account's statement shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerPosting {
    pub entry: EntryId,
    /// Number of the line in the entry, from 0.
    pub line: u8,
    pub account: AccountId,
    /// Number of the line in the account, from 1 and without gaps.
    pub no: u64,
    pub kind: LineKind,
    pub amount: Ut,
    pub balance_after: Ut,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transaction: Option<TransactionId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<Arc<str>>,
    pub at: Time,
}

impl LedgerPosting {
    /// Unique in the journal.
    pub fn id(&self) -> String {
        format!("{}/{}", self.entry, self.line)
    }
}

#[cfg(test)]
#[path = "journal_tests.rs"]
mod tests;
