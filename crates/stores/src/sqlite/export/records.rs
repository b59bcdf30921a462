//! Records of products and the lists they are in, and the journal.

use rusqlite::params;
use uuid::Uuid;

use super::{Error, Export, Page, bytes_at, limit};
use crate::migrate::rows::{
    AccountBalance, BatchLimits, EntryRow, JournalMismatch, PostingRow, RecordPlace, RecordRow, RowPosition, TextRow,
};

impl Export {
    pub(crate) fn records(&self, after: Option<&RowPosition>, most: BatchLimits) -> Page<RecordRow> {
        self.page_within(
            most,
            "SELECT no, kind, key, version, body FROM record WHERE no > ?1 ORDER BY no LIMIT ?2",
            params![RowPosition::at(after, 0), limit(most)],
            |row| {
                let (kind, key) = (row.get(1)?, row.get(2)?);
                let (version, body) = (row.get::<_, i64>(3)? as u64, bytes_at(row, 4)?);
                Ok((RowPosition::number(&[row.get(0)?]), RecordRow { kind, key, version, body }))
            },
            |record| record.body.len(),
        )
    }

    /// Record by record, as each of them says.
    pub(crate) fn record_places(&self, after: Option<&RowPosition>, most: BatchLimits) -> Page<RecordPlace> {
        self.page(
            "SELECT record.no, record.kind, record.key, list.name, placed.value ->> 1
             FROM record CROSS JOIN json_each(record.lists) AS placed
                         CROSS JOIN record_list AS list ON list.no = placed.value ->> 0
             WHERE record.no >= ?1 AND (record.no, list.name, placed.value ->> 1) > (?1, ?2, ?3)
             ORDER BY record.no, list.name, placed.value ->> 1 LIMIT ?4",
            params![RowPosition::at(after, 0), RowPosition::text(after), RowPosition::at(after, 1), limit(most)],
            |row| {
                let (kind, key, list): (_, _, String) = (row.get(1)?, row.get(2)?, row.get(3)?);
                let rank = row.get(4)?;
                Ok((RowPosition::both(&[row.get(0)?, rank], list.as_bytes()), RecordPlace { kind, key, list, rank }))
            },
        )
    }

    pub(crate) fn entries(&self, after: Option<&RowPosition>, most: BatchLimits) -> Page<EntryRow> {
        self.page_within(
            most,
            "SELECT no, id, at, body FROM entry WHERE no > ?1 ORDER BY no LIMIT ?2",
            params![RowPosition::at(after, 0), limit(most)],
            |row| {
                let (no, id) = (row.get(0)?, Uuid::from_bytes(row.get(1)?));
                Ok((RowPosition::number(&[no]), EntryRow { no, id, at: row.get(2)?, body: bytes_at(row, 3)? }))
            },
            |entry| entry.body.len(),
        )
    }

    pub(crate) fn postings(&self, after: Option<&RowPosition>, most: BatchLimits) -> Page<PostingRow> {
        self.page(
            "SELECT entry_no, place, account, amount, balance FROM posting
             WHERE entry_no >= ?1 AND (entry_no, place, account) > (?1, ?2, ?3)
             ORDER BY entry_no, place, account LIMIT ?4",
            params![RowPosition::at(after, 0), RowPosition::at(after, 1), RowPosition::text(after), limit(most)],
            |row| {
                let (entry_no, place): (i64, i32) = (row.get(0)?, row.get(1)?);
                let (account, amount, balance): (String, _, _) = (row.get(2)?, row.get(3)?, row.get(4)?);
                let at = RowPosition::both(&[entry_no, i64::from(place)], account.as_bytes());
                Ok((at, PostingRow { entry_no, place, account, amount, balance }))
            },
        )
    }

    pub(crate) fn accounts(&self, after: Option<&RowPosition>, most: BatchLimits) -> Page<AccountBalance> {
        self.page(
            "SELECT name, balance FROM account WHERE name >= ?1 AND (?2 OR name <> ?1) ORDER BY name LIMIT ?3",
            params![RowPosition::text(after), after.is_none(), limit(most)],
            |row| {
                let name: String = row.get(0)?;
                Ok((RowPosition::bytes(name.as_bytes()), AccountBalance { name, balance: row.get(1)? }))
            },
        )
    }

    pub(crate) fn texts(&self, after: Option<&RowPosition>, most: BatchLimits) -> Page<TextRow> {
        self.page_within(
            most,
            "SELECT no, shelf, id, title, body FROM text WHERE no > ?1 ORDER BY no LIMIT ?2",
            params![RowPosition::at(after, 0), limit(most)],
            |row| {
                let (shelf, id) = (row.get(1)?, row.get(2)?);
                let text = TextRow { shelf, id, title: row.get(3)?, body: row.get(4)? };
                Ok((RowPosition::number(&[row.get(0)?]), text))
            },
            |text| text.title.len() + text.body.len(),
        )
    }

    /// The first few places where the journal does not add up, in the order in which another store finds them, too.
    pub(crate) fn wrong(&self) -> Result<Vec<JournalMismatch>, Error> {
        // Sums may be more than a number holds: an entry's are made in halves, and what overflows an account is no balance.
        let mut statement = self.db.prepare(
            "WITH line AS (
               SELECT account, entry_no, balance, amount + lag(balance, 1, 0) OVER whole AS due,
                      lead(entry_no) OVER whole IS NULL AS is_last
               FROM posting WINDOW whole AS (PARTITION BY account ORDER BY entry_no)
             ), wrong (account, entry_no, balance) AS (
               SELECT account, entry_no, balance FROM line WHERE due <> balance
               UNION ALL
               SELECT coalesce(account.name, line.account), NULL, coalesce(account.balance, 0)
               FROM account FULL JOIN (SELECT * FROM line WHERE is_last) AS line ON line.account = account.name
               WHERE coalesce(line.balance, 0) <> coalesce(account.balance, 0)
               UNION ALL
               SELECT NULL, entry_no, 0 FROM posting GROUP BY entry_no
               HAVING sum(amount >> 32) * 4294967296 + sum(amount & 4294967295) <> 0
             )
             SELECT account, entry_no, balance FROM wrong
             ORDER BY account IS NULL, account, entry_no IS NULL, entry_no LIMIT 10",
        )?;
        let rows = statement.query_map([], |row| Ok(JournalMismatch::new(row.get(0)?, row.get(1)?, row.get(2)?)))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }
}
