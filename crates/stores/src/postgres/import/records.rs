//! Records of products and the lists they are in, and the journal.

use bytes::Bytes;
use tokio_postgres::Row as Columns;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::{ImportError, PostgresImport, Sums};
use crate::migrate::rows::{AccountBalance, EntryRow, JournalMismatch, PostingRow, RecordPlace, RecordRow};
use crate::postgres::columns::text_from;
use crate::postgres::connect::Sql;
use crate::postgres::{counters, records as sql};

/// Text as it is in this column.
fn text_at(row: &Columns, column: usize) -> Result<String, ImportError> {
    Ok(text_from(row.try_get(column)?)?.to_owned())
}

// Records.

static RECORD_FIND: Sql = Sql {
    text: "SELECT record.kind, record.key, record.version, record.body
           FROM unnest($1::bytea[], $2::bytea[]) WITH ORDINALITY AS u (kind, key, place)
           JOIN rialto.record ON record.kind = u.kind AND record.key = u.key ORDER BY u.place",
    types: &[Type::BYTEA_ARRAY, Type::BYTEA_ARRAY],
};
static RECORD_PLACE_FIND: Sql = Sql {
    text: "SELECT listed.kind, listed.key, listed.list, listed.rank
           FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::bigint[]) WITH ORDINALITY
                AS u (kind, key, list, rank, place)
           JOIN rialto.record_list AS listed ON listed.kind = u.kind AND listed.list = u.list AND listed.rank = u.rank
                                             AND listed.key = u.key
           ORDER BY u.place",
    types: &[Type::BYTEA_ARRAY, Type::BYTEA_ARRAY, Type::BYTEA_ARRAY, Type::INT8_ARRAY],
};

impl PostgresImport {
    pub(crate) async fn add_records(&self, rows: &[RecordRow], sums: &mut Sums) -> Result<(), ImportError> {
        sums.0.add(counters::RECORDS, rows.len() as i64);
        let kinds: Vec<&[u8]> = rows.iter().map(|record| record.kind.as_bytes()).collect();
        let keys: Vec<&[u8]> = rows.iter().map(|record| record.key.as_bytes()).collect();
        let versions: Vec<i64> = rows.iter().map(|record| record.version as i64).collect();
        let bodies: Vec<&[u8]> = rows.iter().map(|record| &record.body[..]).collect();
        self.db.execute(&sql::RECORD_ADD, [&kinds, &keys, &versions, &bodies]).await?;
        Ok(())
    }

    pub(crate) async fn find_records(&self, rows: &[RecordRow]) -> Result<Vec<RecordRow>, ImportError> {
        let kinds: Vec<&[u8]> = rows.iter().map(|record| record.kind.as_bytes()).collect();
        let keys: Vec<&[u8]> = rows.iter().map(|record| record.key.as_bytes()).collect();
        let found = self.db.query(&RECORD_FIND, [&kinds, &keys]).await?;
        let read = |row: &Columns| -> Result<RecordRow, ImportError> {
            let (version, body) = (row.try_get::<_, i64>(2)? as u64, Bytes::copy_from_slice(row.try_get(3)?));
            Ok(RecordRow { kind: text_at(row, 0)?, key: text_at(row, 1)?, version, body })
        };
        found.iter().map(read).collect()
    }

    pub(crate) async fn add_record_places(&self, rows: &[RecordPlace], _sums: &mut Sums) -> Result<(), ImportError> {
        let Places { kinds, keys, lists, ranks } = Places::of(rows);
        self.db.execute(&sql::LIST, [&kinds, &keys, &lists, &ranks]).await?;
        Ok(())
    }

    pub(crate) async fn find_record_places(&self, rows: &[RecordPlace]) -> Result<Vec<RecordPlace>, ImportError> {
        let Places { kinds, keys, lists, ranks } = Places::of(rows);
        let found = self.db.query(&RECORD_PLACE_FIND, [&kinds, &keys, &lists, &ranks]).await?;
        let read = |row: &Columns| -> Result<RecordPlace, ImportError> {
            let (kind, key, list) = (text_at(row, 0)?, text_at(row, 1)?, text_at(row, 2)?);
            Ok(RecordPlace { kind, key, list, rank: row.try_get(3)? })
        };
        found.iter().map(read).collect()
    }
}

struct Places<'a> {
    kinds: Vec<&'a [u8]>,
    keys: Vec<&'a [u8]>,
    lists: Vec<&'a [u8]>,
    ranks: Vec<i64>,
}

impl Places<'_> {
    fn of(rows: &[RecordPlace]) -> Places<'_> {
        Places {
            kinds: rows.iter().map(|place| place.kind.as_bytes()).collect(),
            keys: rows.iter().map(|place| place.key.as_bytes()).collect(),
            lists: rows.iter().map(|place| place.list.as_bytes()).collect(),
            ranks: rows.iter().map(|place| place.rank).collect(),
        }
    }
}

// The journal.

static ENTRY_FIND: Sql = Sql {
    text: "SELECT no, id, at, body FROM rialto.entry WHERE no = ANY ($1) ORDER BY no",
    types: &[Type::INT8_ARRAY],
};
static POSTING_FIND: Sql = Sql {
    text: "SELECT posting.entry_no, posting.place, posting.account, posting.amount, posting.balance
           FROM unnest($1::bytea[], $2::bigint[]) WITH ORDINALITY AS u (account, entry_no, at)
           JOIN rialto.posting ON posting.account = u.account AND posting.entry_no = u.entry_no ORDER BY u.at",
    types: &[Type::BYTEA_ARRAY, Type::INT8_ARRAY],
};
static ACCOUNT_FIND: Sql = Sql {
    text: "SELECT name, balance FROM rialto.account WHERE name = ANY ($1) ORDER BY name",
    types: &[Type::BYTEA_ARRAY],
};

impl PostgresImport {
    pub(crate) async fn add_entries(&self, rows: &[EntryRow], sums: &mut Sums) -> Result<(), ImportError> {
        sums.0.add(counters::ENTRIES, rows.len() as i64);
        let numbers: Vec<i64> = rows.iter().map(|entry| entry.no).collect();
        let ids: Vec<Uuid> = rows.iter().map(|entry| entry.id).collect();
        let times: Vec<i64> = rows.iter().map(|entry| entry.at).collect();
        let bodies: Vec<&[u8]> = rows.iter().map(|entry| &entry.body[..]).collect();
        self.db.execute(&sql::ENTRY_ADD, [&numbers, &ids, &times, &bodies]).await?;
        Ok(())
    }

    pub(crate) async fn find_entries(&self, rows: &[EntryRow]) -> Result<Vec<EntryRow>, ImportError> {
        let numbers: Vec<i64> = rows.iter().map(|entry| entry.no).collect();
        let found = self.db.query(&ENTRY_FIND, [&numbers]).await?;
        let read = |row: &Columns| -> Result<EntryRow, ImportError> {
            let body = Bytes::copy_from_slice(row.try_get(3)?);
            Ok(EntryRow { no: row.try_get(0)?, id: row.try_get(1)?, at: row.try_get(2)?, body })
        };
        found.iter().map(read).collect()
    }

    pub(crate) async fn add_postings(&self, rows: &[PostingRow], _sums: &mut Sums) -> Result<(), ImportError> {
        let accounts: Vec<&[u8]> = rows.iter().map(|posting| posting.account.as_bytes()).collect();
        let numbers: Vec<i64> = rows.iter().map(|posting| posting.entry_no).collect();
        let places: Vec<i32> = rows.iter().map(|posting| posting.place).collect();
        let amounts: Vec<i64> = rows.iter().map(|posting| posting.amount).collect();
        let balances: Vec<i64> = rows.iter().map(|posting| posting.balance).collect();
        self.db.execute(&sql::POSTING_ADD, [&accounts, &numbers, &places, &amounts, &balances]).await?;
        Ok(())
    }

    pub(crate) async fn find_postings(&self, rows: &[PostingRow]) -> Result<Vec<PostingRow>, ImportError> {
        let accounts: Vec<&[u8]> = rows.iter().map(|posting| posting.account.as_bytes()).collect();
        let numbers: Vec<i64> = rows.iter().map(|posting| posting.entry_no).collect();
        let found = self.db.query(&POSTING_FIND, [&accounts, &numbers]).await?;
        let read = |row: &Columns| -> Result<PostingRow, ImportError> {
            Ok(PostingRow {
                entry_no: row.try_get(0)?,
                place: row.try_get(1)?,
                account: text_at(row, 2)?,
                amount: row.try_get(3)?,
                balance: row.try_get(4)?,
            })
        };
        found.iter().map(read).collect()
    }

    pub(crate) async fn add_accounts(&self, rows: &[AccountBalance], _sums: &mut Sums) -> Result<(), ImportError> {
        let names: Vec<&[u8]> = rows.iter().map(|account| account.name.as_bytes()).collect();
        let balances: Vec<i64> = rows.iter().map(|account| account.balance).collect();
        self.db.execute(&sql::ACCOUNT_ADD, [&names, &balances]).await?;
        Ok(())
    }

    pub(crate) async fn find_accounts(&self, rows: &[AccountBalance]) -> Result<Vec<AccountBalance>, ImportError> {
        let names: Vec<&[u8]> = rows.iter().map(|account| account.name.as_bytes()).collect();
        let found = self.db.query(&ACCOUNT_FIND, [&names]).await?;
        let read = |row: &Columns| -> Result<AccountBalance, ImportError> {
            Ok(AccountBalance { name: text_at(row, 0)?, balance: row.try_get(1)? })
        };
        found.iter().map(read).collect()
    }
}

// Whether it adds up.

/// As the other store has it, where sums need more care.
static WRONG: Sql = Sql {
    text: "WITH line AS (
             SELECT account, entry_no, balance, amount + coalesce(lag(balance) OVER whole, 0)::numeric AS due,
                    lead(entry_no) OVER whole IS NULL AS is_last
             FROM rialto.posting WINDOW whole AS (PARTITION BY account ORDER BY entry_no)
           ), wrong (account, entry_no, balance) AS (
             SELECT account, entry_no, balance FROM line WHERE due <> balance
             UNION ALL
             SELECT coalesce(account.name, line.account), NULL, coalesce(account.balance, 0)
             FROM rialto.account FULL JOIN (SELECT * FROM line WHERE is_last) AS line ON line.account = account.name
             WHERE coalesce(line.balance, 0) <> coalesce(account.balance, 0)
             UNION ALL
             SELECT NULL, entry_no, 0 FROM rialto.posting GROUP BY entry_no HAVING sum(amount) <> 0
           )
           SELECT account, entry_no, balance FROM wrong
           ORDER BY account IS NULL, account, entry_no IS NULL, entry_no LIMIT 10",
    types: &[],
};

impl PostgresImport {
    /// The first few places where the journal does not add up, in the order in which another store finds them, too.
    pub(crate) async fn wrong(&self) -> Result<Vec<JournalMismatch>, ImportError> {
        let rows = self.whole(&WRONG).await?;
        let read = |row: &Columns| -> Result<JournalMismatch, ImportError> {
            let account = row.try_get::<_, Option<&[u8]>>(0)?.map(text_from).transpose()?.map(str::to_owned);
            Ok(JournalMismatch::new(account, row.try_get(1)?, row.try_get(2)?))
        };
        rows.iter().map(read).collect()
    }
}
