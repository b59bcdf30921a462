//! Records of products and the journal.

use std::collections::{HashMap, hash_map};
use std::sync::Arc;

use bytes::Bytes;
use model::ports::Future;
use model::ports::store::{Journal, RecordStore, StoreError};
use model::{AccessKey, AccountLine, Balance, Entry, Posting, Record, RecordChange, RecordPage, RecordQuery, Time};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, params};
use uuid::Uuid;

use super::apply::CommitApplier;
use super::pool::Error;
use super::read::{limit_of, snapshot};
use super::{SqliteStore, counters, read};

/// The facts of a record that a commit is checked against.
#[derive(Clone, Debug)]
struct KnownRecord {
    no: i64,
    version: u64,
    places: Vec<InList>,
}

/// A list's number, and the rank there.
type InList = (i64, i64);

/// The facts of an account that a commit is checked against.
#[derive(Clone, Copy, Debug, Default)]
struct KnownAccount {
    /// None yet, before anything was posted to it.
    no: Option<i64>,
    balance: i64,
    /// The number of the last entry that posted to it; 0 is none.
    last_entry: i64,
    /// The transaction has not written it yet.
    is_due: bool,
}

/// A posting in an entry's row: the account's number, the amount, the balance after it, and the number of the
/// account's entry before this one (0 is none).
type Posted = (i64, i64, i64, i64);

/// Records, lists and accounts that commits have lately used; a record that is not there is remembered as well.
#[derive(Default)]
pub(super) struct Memory {
    records: HashMap<(Arc<str>, Arc<str>), Option<KnownRecord>>,
    lists: HashMap<(Arc<str>, Arc<str>), i64>,
    accounts: HashMap<Arc<str>, KnownAccount>,
    /// Those that are written at the end of the transaction, each once however often it was posted to.
    due: Vec<Arc<str>>,
}

impl Memory {
    pub(super) fn forget(&mut self) {
        self.records.clear();
        self.lists.clear();
        self.accounts.clear();
        self.due.clear();
    }

    pub(super) fn keep_to(&mut self, most: usize) {
        if [self.records.len(), self.lists.len(), self.accounts.len()].into_iter().any(|known| known > most) {
            self.forget();
        }
    }
}

impl CommitApplier<'_> {
    /// A record as it is now, remembered or read.
    fn find_record(&mut self, kind: &Arc<str>, key: &Arc<str>) -> rusqlite::Result<Option<&KnownRecord>> {
        let kept = match self.memory.records.entry((kind.clone(), key.clone())) {
            hash_map::Entry::Occupied(known) => known.into_mut(),
            hash_map::Entry::Vacant(new) => {
                let found = self.sql.record_find.query_row(params![kind, key], |row| {
                    let places = serde_json::from_str(row.get_ref(2)?.as_str()?);
                    let places =
                        places.map_err(|e| rusqlite::Error::FromSqlConversionFailure(2, Type::Text, e.into()))?;
                    Ok(KnownRecord { no: row.get(0)?, version: row.get::<_, i64>(1)? as u64, places })
                });
                new.insert(found.optional()?)
            }
        };
        Ok(kept.as_ref())
    }

    pub(super) fn record_version(&mut self, kind: &Arc<str>, key: &Arc<str>) -> rusqlite::Result<u64> {
        Ok(self.find_record(kind, key)?.map_or(0, |kept| kept.version))
    }

    fn record_list(&mut self, kind: &Arc<str>, name: &Arc<str>) -> rusqlite::Result<i64> {
        let named = (kind.clone(), name.clone());
        if let Some(no) = self.memory.lists.get(&named) {
            return Ok(*no);
        }
        let found = self.sql.record_list_find.query_row(params![kind, name], |row| row.get(0)).optional()?;
        let no = match found {
            Some(no) => no,
            None => self.sql.record_list_add.insert(params![kind, name])?,
        };
        self.memory.lists.insert(named, no);
        Ok(no)
    }

    /// An account as it is now, remembered or read.
    fn account(&mut self, name: &Arc<str>) -> rusqlite::Result<&mut KnownAccount> {
        let kept = match self.memory.accounts.entry(name.clone()) {
            hash_map::Entry::Occupied(known) => known.into_mut(),
            hash_map::Entry::Vacant(new) => {
                let found = self.sql.account_find.query_row(params![name], |row| {
                    let (no, balance, last_entry) = (row.get(0)?, row.get(1)?, row.get(2)?);
                    Ok(KnownAccount { no, balance, last_entry, is_due: false })
                });
                new.insert(found.optional()?.unwrap_or_default())
            }
        };
        Ok(kept)
    }

    pub(super) fn on_account(&mut self, name: &Arc<str>) -> rusqlite::Result<i64> {
        Ok(self.account(name)?.balance)
    }

    pub(super) fn change_record(&mut self, change: &RecordChange) -> rusqlite::Result<()> {
        let (kind, key, _) = change.about();
        let (body, lists) = match change {
            RecordChange::Put { body, lists, .. } => (Some(body), &lists[..]),
            RecordChange::Remove { .. } => (None, &[][..]),
            RecordChange::Leave { .. } => return Ok(()),
        };
        let places = lists.iter().map(|listed| Ok((self.record_list(kind, &listed.list)?, listed.rank)));
        let places = places.collect::<rusqlite::Result<Vec<InList>>>()?;
        let before = self.find_record(kind, key)?.cloned();
        let after = match (&before, body) {
            (Some(kept), Some(body)) => {
                let version = kept.version + 1;
                self.sql.record_change.execute(params![kept.no, version as i64, &body[..], written(&places)])?;
                Some(KnownRecord { no: kept.no, version, places })
            }
            (None, Some(body)) => {
                self.tally.add(counters::RECORDS, 1);
                let no = self.sql.record_add.insert(params![kind, key, &body[..], written(&places)])?;
                Some(KnownRecord { no, version: 1, places })
            }
            (Some(kept), None) => {
                self.tally.add(counters::RECORDS, -1);
                self.sql.record_delete.execute(params![kept.no])?;
                None
            }
            (None, None) => None,
        };
        // Most changes of a record leave it where it is.
        let was = before.as_ref().map_or(&[][..], |kept| &kept.places);
        let is = after.as_ref().map_or(&[][..], |kept| &kept.places);
        for (list, rank) in was.iter().filter(|place| !is.contains(place)) {
            self.sql.record_unplace.execute(params![list, rank, key])?;
        }
        for (list, rank) in is.iter().filter(|place| !was.contains(place)) {
            self.sql.record_place.execute(params![list, rank, key, after.as_ref().map(|kept| kept.no)])?;
        }
        self.memory.records.insert((kind.clone(), key.clone()), after);
        Ok(())
    }

    pub(super) fn post(&mut self, entry: &Entry) -> rusqlite::Result<()> {
        let mut posted: Vec<Posted> = Vec::with_capacity(entry.postings.len());
        for posting in &entry.postings {
            let mut kept = *self.account(&posting.account)?;
            let no = match kept.no {
                Some(no) => no,
                None => self.sql.account_add.insert(params![posting.account])?,
            };
            // It was checked that there is room.
            kept.balance = kept.balance.saturating_add(posting.amount);
            posted.push((no, posting.amount, kept.balance, kept.last_entry));
            if !std::mem::replace(&mut kept.is_due, true) {
                self.memory.due.push(posting.account.clone());
            }
            *self.account(&posting.account)? = KnownAccount { no: Some(no), ..kept };
        }
        let bound = params![entry.id.as_bytes(), entry.at.0, &entry.body[..], written_postings(&posted)];
        let no = self.sql.entry_add.insert(bound)?;
        self.tally.add(counters::ENTRIES, 1);
        for posting in &entry.postings {
            self.account(&posting.account)?.last_entry = no;
        }
        Ok(())
    }

    /// Writes what entries have made of their accounts, at the end of the transaction.
    pub(super) fn write_accounts(&mut self) -> rusqlite::Result<()> {
        for name in std::mem::take(&mut self.memory.due) {
            let kept = self.account(&name)?;
            kept.is_due = false;
            let KnownAccount { no, balance, last_entry, .. } = *kept;
            self.sql.account_change.execute(params![no, balance, last_entry])?;
        }
        Ok(())
    }
}

/// As a record says which lists it is in.
fn written(places: &[InList]) -> String {
    use std::fmt::Write;
    let mut text = String::with_capacity(2 + places.len() * 24);
    for (i, (list, rank)) in places.iter().enumerate() {
        // A string takes whatever is written to it.
        let _ = write!(text, "{}[{list},{rank}]", if i == 0 { "[" } else { "," });
    }
    text.push_str(if places.is_empty() { "[]" } else { "]" });
    text
}

/// As an entry says what it posts.
fn written_postings(posted: &[Posted]) -> String {
    use std::fmt::Write;
    let mut text = String::with_capacity(2 + posted.len() * 32);
    for (i, (account, amount, balance, before)) in posted.iter().enumerate() {
        let _ = write!(text, "{}[{account},{amount},{balance},{before}]", if i == 0 { "[" } else { "," });
    }
    text.push_str(if posted.is_empty() { "[]" } else { "]" });
    text
}

/// The postings of the entry in a row.
fn posted(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<Vec<Posted>> {
    let posted = serde_json::from_str(row.get_ref(column)?.as_str()?);
    posted.map_err(|e| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, e.into()))
}

pub(super) fn record(db: &Connection, kind: Arc<str>, key: Arc<str>) -> Result<Option<Record>, Error> {
    let mut statement = db.prepare_cached("SELECT version, body FROM record WHERE kind = ?1 AND key = ?2")?;
    let found = statement.query_row(params![kind, key], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?)));
    Ok(found.optional()?.map(|(version, body)| Record { kind, key, version: version as u64, body: body.into() }))
}

/// A walk along the index of kinds and keys, of `most` rows.
fn count_records(db: &Connection, prefix: &str, most: u64) -> Result<u64, Error> {
    let mut statement = db.prepare_cached(
        "SELECT count(*) FROM (SELECT 1 FROM record WHERE kind >= ?1 AND kind < ?1 || char(0x10ffff) LIMIT ?2)",
    )?;
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    Ok(statement.query_row(params![prefix, most], |row| row.get::<_, i64>(0))? as u64)
}

/// Whether a page is read in no time.
pub(super) fn is_short(query: &RecordQuery) -> bool {
    !query.count && query.skip < 1_000 && query.limit <= 100
}

pub(super) fn records(db: &Connection, query: &RecordQuery) -> Result<RecordPage, Error> {
    // One page, one state of the file.
    let tx = db.unchecked_transaction()?;
    let mut statement = tx.prepare_cached("SELECT no FROM record_list WHERE kind = ?1 AND name = ?2")?;
    let list: Option<i64> = statement.query_row(params![query.kind, query.list], |row| row.get(0)).optional()?;
    let Some(list) = list else {
        return Ok(RecordPage { records: Vec::new(), more: false, total: query.count.then_some(0) });
    };
    let total = if query.count {
        let mut statement = tx.prepare_cached("SELECT count(*) FROM record_place WHERE list_no = ?1")?;
        Some(statement.query_row(params![list], |row| row.get::<_, i64>(0))? as u64)
    } else {
        None
    };
    let from = "SELECT record.key, record.version, record.body, placed.rank
                FROM record_place AS placed CROSS JOIN record ON record.no = placed.record_no
                WHERE placed.list_no = ?1";
    let order = "ORDER BY placed.rank DESC, placed.key DESC LIMIT ?2 OFFSET ?3";
    let (limit, skip) = (i64::from(query.limit) + 1, i64::try_from(query.skip).unwrap_or(i64::MAX));
    let read = |row: &rusqlite::Row<'_>| {
        let (key, version, body): (String, i64, Vec<u8>) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let record = Record { kind: query.kind.clone(), key: key.into(), version: version as u64, body: body.into() };
        Ok((record, row.get(3)?))
    };
    let mut records: Vec<(Record, i64)> = match &query.after {
        None => {
            let mut statement = tx.prepare_cached(&format!("{from} {order}"))?;
            let rows = statement.query_map(params![list, limit, skip], read)?;
            rows.collect::<rusqlite::Result<_>>()?
        }
        Some((rank, key)) => {
            let text = format!("{from} AND (placed.rank, placed.key) < (?4, ?5) {order}");
            let mut statement = tx.prepare_cached(&text)?;
            let rows = statement.query_map(params![list, limit, skip, rank, key], read)?;
            rows.collect::<rusqlite::Result<_>>()?
        }
    };
    let more = records.len() > query.limit as usize;
    records.truncate(query.limit as usize);
    Ok(RecordPage { records, more, total })
}

pub(super) fn balances(db: &Connection, accounts: &[Arc<str>]) -> Result<Vec<i64>, Error> {
    let look = || {
        let mut statement = db.prepare_cached("SELECT balance FROM account WHERE name = ?1")?;
        let each = accounts.iter().map(|account| {
            let found = statement.query_row(params![account], |row| row.get(0));
            Ok(found.optional()?.unwrap_or_default())
        });
        each.collect()
    };
    // A statement is a snapshot by itself.
    if accounts.len() == 1 { look() } else { snapshot(db, look) }
}

/// From the account's last entry back, each naming the one before it.
pub(super) fn statement(
    db: &Connection,
    account: &str,
    before: Option<u64>,
    limit: usize,
) -> Result<Vec<AccountLine>, Error> {
    // One statement, one state of the file.
    let tx = db.unchecked_transaction()?;
    let mut accounts = tx.prepare_cached("SELECT no, last_entry FROM account WHERE name = ?1")?;
    let found = accounts.query_row(params![account], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)));
    let Some((account, mut next)) = found.optional()? else { return Ok(Vec::new()) };
    let before = before.map_or(i64::MAX, |before| i64::try_from(before).unwrap_or(i64::MAX));
    let mut entries = tx.prepare_cached("SELECT id, at, body, postings FROM entry WHERE no = ?1")?;
    // A later page names an entry of this account, and that entry refers to the one before it.
    if next >= before {
        let known = entries.query_row(params![before], |row| posted(row, 3)).optional()?.unwrap_or_default();
        next = known.iter().find(|posted| posted.0 == account).map_or(next, |posted| posted.3);
    }
    let mut lines = Vec::new();
    while next > 0 && lines.len() < limit {
        let no = next;
        let read = entries.query_row(params![no], |row| {
            let of_it = posted(row, 3)?.into_iter().find(|posted| posted.0 == account);
            let Some((_, amount, balance, earlier)) = of_it else { return Ok(None) };
            let (id, at, body) = (Uuid::from_bytes(row.get(0)?), Time(row.get(1)?), row.get::<_, Vec<u8>>(2)?);
            Ok(Some((AccountLine { no: no as u64, id, at, body: Bytes::from(body), amount, balance }, earlier)))
        });
        // In a file that was tampered with: the statement ends where it can no longer be followed, which a check sees.
        let Some((line, earlier)) = read.optional()?.flatten().filter(|(_, earlier)| *earlier < no) else { break };
        next = earlier;
        if no < before {
            lines.push(line);
        }
    }
    Ok(lines)
}

pub(super) fn accounts(db: &Connection, after: Option<&Arc<str>>, limit: usize) -> Result<Vec<Balance>, Error> {
    let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?.into(), row.get(1)?));
    let rows: rusqlite::Result<_> = match after {
        None => {
            let mut statement = db.prepare_cached("SELECT name, balance FROM account ORDER BY name LIMIT ?1")?;
            statement.query_map(params![limit_of(limit)], read)?.collect()
        }
        Some(after) => {
            let mut statement =
                db.prepare_cached("SELECT name, balance FROM account WHERE name > ?2 ORDER BY name LIMIT ?1")?;
            statement.query_map(params![limit_of(limit), after], read)?.collect()
        }
    };
    Ok(rows?)
}

pub(super) fn journal(db: &Connection, after: u64, limit: usize) -> Result<Vec<(u64, Entry)>, Error> {
    let tx = db.unchecked_transaction()?;
    let mut entries =
        tx.prepare_cached("SELECT no, id, at, body, postings FROM entry WHERE no > ?1 ORDER BY no LIMIT ?2")?;
    let mut names = tx.prepare_cached("SELECT name FROM account WHERE no = ?1")?;
    let mut accounts: HashMap<i64, Arc<str>> = HashMap::new();
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let mut rows = entries.query(params![after, limit_of(limit)])?;
    let mut journal = Vec::new();
    while let Some(row) = rows.next()? {
        let mut postings = Vec::new();
        for (no, amount, ..) in posted(row, 4)? {
            let account = match accounts.entry(no) {
                hash_map::Entry::Occupied(known) => known.get().clone(),
                hash_map::Entry::Vacant(new) => {
                    new.insert(names.query_row(params![no], |row| row.get::<_, String>(0))?.into()).clone()
                }
            };
            postings.push(Posting { account, amount, floor: None });
        }
        let (id, at, body) = (Uuid::from_bytes(row.get(1)?), Time(row.get(2)?), row.get::<_, Vec<u8>>(3)?);
        journal.push((row.get::<_, i64>(0)? as u64, Entry { id, at, body: Bytes::from(body), postings }));
    }
    Ok(journal)
}

impl RecordStore for SqliteStore {
    fn access_keys(&self) -> Future<'_, Result<Vec<AccessKey>, StoreError>> {
        self.read(read::access_keys)
    }

    fn record(&self, kind: Arc<str>, key: Arc<str>) -> Future<'_, Result<Option<Record>, StoreError>> {
        self.read(move |db| record(db, kind, key))
    }

    fn records(&self, query: RecordQuery) -> Future<'_, Result<RecordPage, StoreError>> {
        if is_short(&query) {
            self.read(move |db| records(db, &query))
        } else {
            self.read_aside(move |db| records(db, &query))
        }
    }

    fn count_records(&self, prefix: Arc<str>, most: u64) -> Future<'_, Result<u64, StoreError>> {
        self.read_aside(move |db| count_records(db, &prefix, most))
    }
}

impl Journal for SqliteStore {
    fn balances(&self, accounts: Vec<Arc<str>>) -> Future<'_, Result<Vec<i64>, StoreError>> {
        self.read(move |db| balances(db, &accounts))
    }

    fn statement(
        &self,
        account: Arc<str>,
        before: Option<u64>,
        limit: usize,
    ) -> Future<'_, Result<Vec<AccountLine>, StoreError>> {
        self.read_aside(move |db| statement(db, &account, before, limit))
    }

    fn accounts(&self, after: Option<Arc<str>>, limit: usize) -> Future<'_, Result<Vec<Balance>, StoreError>> {
        self.read_aside(move |db| accounts(db, after.as_ref(), limit))
    }

    fn journal(&self, after: u64, limit: usize) -> Future<'_, Result<Vec<(u64, Entry)>, StoreError>> {
        self.read_aside(move |db| journal(db, after, limit))
    }
}
