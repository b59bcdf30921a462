//! What products keep beside tasks: records and the journal.

use std::collections::{HashMap, hash_map};
use std::sync::Arc;

use bytes::Bytes;
use model::{Balance, Entry, Line, Posting, Record, RecordChange, RecordPage, RecordQuery, Time};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, params};
use uuid::Uuid;

use super::counters;
use super::pen::Pen;
use super::pool::Error;
use super::read::limit_of;

/// What the pen must know of a record.
#[derive(Clone, Debug)]
struct KeptRecord {
    no: i64,
    version: u64,
    places: Vec<InList>,
}

/// A list's number, and the rank there.
type InList = (i64, i64);

/// Records, lists and accounts the pen has lately met; a record that is not there is remembered as well.
#[derive(Default)]
pub(super) struct Memory {
    records: HashMap<(Arc<str>, Arc<str>), Option<KeptRecord>>,
    lists: HashMap<(Arc<str>, Arc<str>), i64>,
    balances: HashMap<Arc<str>, i64>,
}

impl Memory {
    pub(super) fn forget(&mut self) {
        self.records.clear();
        self.lists.clear();
        self.balances.clear();
    }

    pub(super) fn keep_to(&mut self, most: usize) {
        if [self.records.len(), self.lists.len(), self.balances.len()].into_iter().any(|known| known > most) {
            self.forget();
        }
    }
}

impl Pen<'_> {
    /// A record as it is now, remembered or read.
    fn find_record(&mut self, kind: &Arc<str>, key: &Arc<str>) -> rusqlite::Result<Option<&KeptRecord>> {
        let kept = match self.memory.records.entry((kind.clone(), key.clone())) {
            hash_map::Entry::Occupied(known) => known.into_mut(),
            hash_map::Entry::Vacant(new) => {
                let found = self.sql.record_find.query_row(params![kind, key], |row| {
                    let places = serde_json::from_str(row.get_ref(2)?.as_str()?);
                    let places =
                        places.map_err(|e| rusqlite::Error::FromSqlConversionFailure(2, Type::Text, e.into()))?;
                    Ok(KeptRecord { no: row.get(0)?, version: row.get::<_, i64>(1)? as u64, places })
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

    pub(super) fn on_account(&mut self, account: &Arc<str>) -> rusqlite::Result<i64> {
        if let Some(known) = self.memory.balances.get(account) {
            return Ok(*known);
        }
        let found = self.sql.account_find.query_row(params![account], |row| row.get(0)).optional()?;
        let balance = found.unwrap_or_default();
        self.memory.balances.insert(account.clone(), balance);
        Ok(balance)
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
                Some(KeptRecord { no: kept.no, version, places })
            }
            (None, Some(body)) => {
                self.tally.add(counters::RECORDS, 1);
                let no = self.sql.record_add.insert(params![kind, key, &body[..], written(&places)])?;
                Some(KeptRecord { no, version: 1, places })
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
        let no = self.sql.entry_add.insert(params![entry.id.as_bytes(), entry.at.0, &entry.body[..]])?;
        self.tally.add(counters::ENTRIES, 1);
        for (place, posting) in entry.postings.iter().enumerate() {
            // It was checked that there is room.
            let balance = self.on_account(&posting.account)?.saturating_add(posting.amount);
            self.sql.account_put.execute(params![posting.account, balance])?;
            self.memory.balances.insert(posting.account.clone(), balance);
            self.sql.posting_add.execute(params![posting.account, no, place as i64, posting.amount, balance])?;
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

pub(super) fn record(db: &Connection, kind: Arc<str>, key: Arc<str>) -> Result<Option<Record>, Error> {
    let mut statement = db.prepare_cached("SELECT version, body FROM record WHERE kind = ?1 AND key = ?2")?;
    let found = statement.query_row(params![kind, key], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?)));
    Ok(found.optional()?.map(|(version, body)| Record { kind, key, version: version as u64, body: body.into() }))
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
    let tx = db.unchecked_transaction()?;
    let mut statement = tx.prepare_cached("SELECT balance FROM account WHERE name = ?1")?;
    let mut balances = Vec::with_capacity(accounts.len());
    for account in accounts {
        balances.push(statement.query_row(params![account], |row| row.get(0)).optional()?.unwrap_or_default());
    }
    Ok(balances)
}

pub(super) fn statement(db: &Connection, account: &str, before: Option<u64>, limit: usize) -> Result<Vec<Line>, Error> {
    let mut statement = db.prepare_cached(
        "SELECT entry.no, entry.id, entry.at, entry.body, posting.amount, posting.balance
         FROM posting CROSS JOIN entry ON entry.no = posting.entry_no
         WHERE posting.account = ?1 AND posting.entry_no < ?2 ORDER BY posting.entry_no DESC LIMIT ?3",
    )?;
    let before = before.map_or(i64::MAX, |before| i64::try_from(before).unwrap_or(i64::MAX));
    let rows = statement.query_map(params![account, before, limit_of(limit)], |row| {
        Ok(Line {
            no: row.get::<_, i64>(0)? as u64,
            id: Uuid::from_bytes(row.get(1)?),
            at: Time(row.get(2)?),
            body: Bytes::from(row.get::<_, Vec<u8>>(3)?),
            amount: row.get(4)?,
            balance: row.get(5)?,
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
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
    let mut entries = tx.prepare_cached("SELECT no, id, at, body FROM entry WHERE no > ?1 ORDER BY no LIMIT ?2")?;
    let mut postings = tx.prepare_cached(
        "SELECT account, amount FROM posting INDEXED BY posting_by_entry WHERE entry_no = ?1 ORDER BY place",
    )?;
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let mut rows = entries.query(params![after, limit_of(limit)])?;
    let mut journal = Vec::new();
    while let Some(row) = rows.next()? {
        let no: i64 = row.get(0)?;
        let posted = postings.query_map(params![no], |row| {
            Ok(Posting { account: row.get::<_, String>(0)?.into(), amount: row.get(1)?, floor: None })
        })?;
        let entry = Entry {
            id: Uuid::from_bytes(row.get(1)?),
            at: Time(row.get(2)?),
            body: Bytes::from(row.get::<_, Vec<u8>>(3)?),
            postings: posted.collect::<rusqlite::Result<_>>()?,
        };
        journal.push((no as u64, entry));
    }
    Ok(journal)
}
