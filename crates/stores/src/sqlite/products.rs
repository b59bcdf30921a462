//! What products keep beside tasks: records and the journal.

use std::sync::Arc;

use bytes::Bytes;
use model::{Balance, Entry, Line, Posting, Record, RecordChange, RecordPage, RecordQuery, Time};
use rusqlite::{Connection, OptionalExtension, params};
use uuid::Uuid;

use super::counters;
use super::pen::Pen;
use super::pool::Error;
use super::read::limit_of;

impl Pen<'_> {
    /// A record's number and version.
    pub(super) fn find_record(&mut self, kind: &str, key: &str) -> rusqlite::Result<Option<(i64, u64)>> {
        let found = self.sql.record_find.query_row(params![kind, key], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?)));
        Ok(found.optional()?.map(|(no, version)| (no, version as u64)))
    }

    pub(super) fn on_account(&mut self, account: &str) -> rusqlite::Result<i64> {
        Ok(self.sql.account_find.query_row(params![account], |row| row.get(0)).optional()?.unwrap_or_default())
    }

    pub(super) fn change_record(&mut self, change: &RecordChange) -> rusqlite::Result<()> {
        let (kind, key, _) = change.about();
        match change {
            RecordChange::Put { body, lists, .. } => {
                let no = match self.find_record(kind, key)? {
                    Some((no, version)) => {
                        self.sql.record_unlist.execute(params![no])?;
                        self.sql.record_change.execute(params![no, version as i64 + 1, &body[..]])?;
                        no
                    }
                    None => {
                        self.tally.add(counters::RECORDS, 1);
                        self.sql.record_add.insert(params![kind, key, &body[..]])?
                    }
                };
                for listed in lists {
                    self.sql.record_list.execute(params![kind, listed.list, listed.rank, key, no])?;
                }
            }
            RecordChange::Remove { .. } => {
                if let Some((no, _)) = self.find_record(kind, key)? {
                    self.sql.record_unlist.execute(params![no])?;
                    self.sql.record_delete.execute(params![no])?;
                    self.tally.add(counters::RECORDS, -1);
                }
            }
            RecordChange::Leave { .. } => {}
        }
        Ok(())
    }

    pub(super) fn post(&mut self, entry: &Entry) -> rusqlite::Result<()> {
        let no = self.sql.entry_add.insert(params![entry.id.as_bytes(), entry.at.0, &entry.body[..]])?;
        self.tally.add(counters::ENTRIES, 1);
        for (place, posting) in entry.postings.iter().enumerate() {
            let balance = self.on_account(&posting.account)?;
            // It was checked that there is room.
            let balance = balance.saturating_add(posting.amount);
            self.sql.account_put.execute(params![posting.account, balance])?;
            self.sql.posting_add.execute(params![posting.account, no, place as i64, posting.amount, balance])?;
        }
        Ok(())
    }
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
    let total = if query.count {
        let mut statement = tx.prepare_cached("SELECT count(*) FROM record_list WHERE kind = ?1 AND list = ?2")?;
        Some(statement.query_row(params![query.kind, query.list], |row| row.get::<_, i64>(0))? as u64)
    } else {
        None
    };
    let from = "SELECT record.key, record.version, record.body, listed.rank
                FROM record_list AS listed CROSS JOIN record ON record.no = listed.record_no
                WHERE listed.kind = ?1 AND listed.list = ?2";
    let order = "ORDER BY listed.rank DESC, listed.key DESC LIMIT ?3 OFFSET ?4";
    let (limit, skip) = (i64::from(query.limit) + 1, i64::try_from(query.skip).unwrap_or(i64::MAX));
    let read = |row: &rusqlite::Row<'_>| {
        let (key, version, body): (String, i64, Vec<u8>) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let record = Record { kind: query.kind.clone(), key: key.into(), version: version as u64, body: body.into() };
        Ok((record, row.get(3)?))
    };
    let mut records: Vec<(Record, i64)> = match &query.after {
        None => {
            let mut statement = tx.prepare_cached(&format!("{from} {order}"))?;
            let rows = statement.query_map(params![query.kind, query.list, limit, skip], read)?;
            rows.collect::<rusqlite::Result<_>>()?
        }
        Some((rank, key)) => {
            let text = format!("{from} AND (listed.rank, listed.key) < (?5, ?6) {order}");
            let mut statement = tx.prepare_cached(&text)?;
            let rows = statement.query_map(params![query.kind, query.list, limit, skip, rank, key], read)?;
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
