//! Records of products and the journal. Like all rows that a group concerns they are locked and read
//! first, decided in memory, and written at once.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use model::ports::Future;
use model::ports::store::{Commit, Journal, RecordStore, StoreError};
use model::{
    AccessKey, AccountLine, Balance, Entry, Listed, Posting, Record, RecordChange, RecordPage, RecordQuery, Time,
};
use tokio::join;
use tokio_postgres::Error;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::columns::{limit_of, text_from};
use super::connect::{Conn, Sql, ask, run};
use super::counters::{self, CounterSums};
use super::trouble::Failure;
use super::{PostgresStore, read};

pub(super) static RECORDS_LOCK: Sql = Sql {
    text: "SELECT record.kind, record.key, record.version FROM unnest($1::bytea[], $2::bytea[]) AS u (kind, key)
           JOIN rialto.record ON record.kind = u.kind AND record.key = u.key
           ORDER BY record.kind, record.key FOR UPDATE OF record",
    types: &[Type::BYTEA_ARRAY, Type::BYTEA_ARRAY],
};
pub(super) static ACCOUNTS_LOCK: Sql = Sql {
    text: "SELECT name, balance FROM rialto.account WHERE name = ANY ($1) ORDER BY name FOR NO KEY UPDATE",
    types: &[Type::BYTEA_ARRAY],
};
pub(super) static ENTRIES_KNOWN: Sql =
    Sql { text: "SELECT id FROM rialto.entry WHERE id = ANY ($1)", types: &[Type::UUID_ARRAY] };
pub(super) static ENTRY_NUMBERS: Sql =
    Sql { text: "SELECT nextval('rialto.entry_no') FROM generate_series(1, $1)", types: &[Type::INT8] };

/// Takes records out of the lists they are in no more: most changes of a record leave it in its lists.
pub(super) static UNLIST: Sql = Sql {
    text: "DELETE FROM rialto.record_list AS old USING unnest($1::bytea[], $2::bytea[]) AS u (kind, key)
           WHERE old.kind = u.kind AND old.key = u.key AND NOT EXISTS (
             SELECT 1 FROM unnest($3::bytea[], $4::bytea[], $5::bytea[], $6::bigint[]) AS new (kind, key, list, rank)
             WHERE new.kind = old.kind AND new.key = old.key AND new.list = old.list AND new.rank = old.rank)",
    types: &[
        Type::BYTEA_ARRAY,
        Type::BYTEA_ARRAY,
        Type::BYTEA_ARRAY,
        Type::BYTEA_ARRAY,
        Type::BYTEA_ARRAY,
        Type::INT8_ARRAY,
    ],
};
pub(super) static RECORD_DROP: Sql = Sql {
    text: "DELETE FROM rialto.record USING unnest($1::bytea[], $2::bytea[]) AS u (kind, key)
           WHERE record.kind = u.kind AND record.key = u.key",
    types: &[Type::BYTEA_ARRAY, Type::BYTEA_ARRAY],
};
pub(super) static RECORD_CHANGE: Sql = Sql {
    text: "UPDATE rialto.record SET version = u.version, body = u.body
           FROM unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::bytea[]) AS u (kind, key, version, body)
           WHERE record.kind = u.kind AND record.key = u.key",
    types: &[Type::BYTEA_ARRAY, Type::BYTEA_ARRAY, Type::INT8_ARRAY, Type::BYTEA_ARRAY],
};
pub(super) static RECORD_ADD: Sql = Sql {
    text: "INSERT INTO rialto.record (kind, key, version, body)
           SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::bytea[])",
    types: &[Type::BYTEA_ARRAY, Type::BYTEA_ARRAY, Type::INT8_ARRAY, Type::BYTEA_ARRAY],
};
pub(super) static LIST: Sql = Sql {
    text: "INSERT INTO rialto.record_list (kind, key, list, rank)
           SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::bigint[]) ON CONFLICT DO NOTHING",
    types: &[Type::BYTEA_ARRAY, Type::BYTEA_ARRAY, Type::BYTEA_ARRAY, Type::INT8_ARRAY],
};
pub(super) static ACCOUNT_ADD: Sql = Sql {
    text: "INSERT INTO rialto.account (name, balance) SELECT * FROM unnest($1::bytea[], $2::bigint[])",
    types: &[Type::BYTEA_ARRAY, Type::INT8_ARRAY],
};
pub(super) static ACCOUNT_CHANGE: Sql = Sql {
    text: "UPDATE rialto.account SET balance = u.balance FROM unnest($1::bytea[], $2::bigint[]) AS u (name, balance)
           WHERE account.name = u.name",
    types: &[Type::BYTEA_ARRAY, Type::INT8_ARRAY],
};
pub(super) static ENTRY_ADD: Sql = Sql {
    text: "INSERT INTO rialto.entry (no, id, at, body)
           SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::bigint[], $4::bytea[])",
    types: &[Type::INT8_ARRAY, Type::UUID_ARRAY, Type::INT8_ARRAY, Type::BYTEA_ARRAY],
};
pub(super) static POSTING_ADD: Sql = Sql {
    text: "INSERT INTO rialto.posting (account, entry_no, place, amount, balance)
           SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::integer[], $4::bigint[], $5::bigint[])",
    types: &[Type::BYTEA_ARRAY, Type::INT8_ARRAY, Type::INT4_ARRAY, Type::INT8_ARRAY, Type::INT8_ARRAY],
};

type Key<'a> = (&'a str, &'a str);

/// A record in a group: the version it had, and what it is by now.
struct LockedRecord<'a> {
    before: u64,
    version: u64,
    /// Its body and lists, once the group has put it.
    put: Option<(&'a Bytes, &'a [Listed])>,
    dirty: bool,
}

struct Account {
    there: bool,
    balance: i64,
    dirty: bool,
}

struct Posted<'a> {
    no: i64,
    entry: &'a Entry,
    /// The balance of each account afterwards.
    balances: Vec<i64>,
}

/// The records and entries of a group, as far as they are decided.
#[derive(Default)]
pub(super) struct GroupRecords<'a> {
    records: BTreeMap<Key<'a>, LockedRecord<'a>>,
    accounts: BTreeMap<&'a str, Account>,
    known: HashSet<Uuid>,
    numbers: Vec<i64>,
    posted: Vec<Posted<'a>>,
}

impl<'a> GroupRecords<'a> {
    /// Locks and reads what these commits are about, after everything else was locked.
    pub(super) async fn load(db: &Conn, commits: &[&'a Commit]) -> Result<GroupRecords<'a>, Failure> {
        let changes = commits.iter().flat_map(|commit| &commit.records).map(RecordChange::about);
        let about: BTreeSet<Key<'a>> = changes.map(|(kind, key, _)| (&**kind, &**key)).collect();
        let entries: Vec<&Entry> = commits.iter().flat_map(|commit| &commit.entries).collect();
        let postings = entries.iter().flat_map(|entry| &entry.postings);
        let names: BTreeSet<&'a str> = postings.map(|posting| &*posting.account).collect();
        let mut group = GroupRecords::default();
        if about.is_empty() && entries.is_empty() {
            return Ok(group);
        }
        let kinds: Vec<&[u8]> = about.iter().map(|(kind, _)| kind.as_bytes()).collect();
        let keys: Vec<&[u8]> = about.iter().map(|(_, key)| key.as_bytes()).collect();
        let accounts: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
        let ids: Vec<Uuid> = entries.iter().map(|entry| entry.id).collect();
        let count = entries.len() as i64;
        let (records, balances, known, numbers) = join!(
            biased;
            ask(!kinds.is_empty(), db.query(&RECORDS_LOCK, [&kinds, &keys])),
            ask(!accounts.is_empty(), db.query(&ACCOUNTS_LOCK, [&accounts])),
            ask(count > 0, db.query(&ENTRIES_KNOWN, [&ids])),
            ask(count > 0, db.query(&ENTRY_NUMBERS, [&count])),
        );
        let (records, balances) = (records?, balances?);
        let mut versions: HashMap<Key<'_>, i64> = HashMap::with_capacity(records.len());
        for row in &records {
            versions.insert((text_from(row.try_get(0)?)?, text_from(row.try_get(1)?)?), row.try_get(2)?);
        }
        for key in about {
            let before = versions.get(&key).copied().unwrap_or_default() as u64;
            group.records.insert(key, LockedRecord { before, version: before, put: None, dirty: false });
        }
        let mut on: HashMap<&str, i64> = HashMap::with_capacity(balances.len());
        for row in &balances {
            on.insert(text_from(row.try_get(0)?)?, row.try_get(1)?);
        }
        for name in names {
            let balance = on.get(name).copied();
            let account = Account { there: balance.is_some(), balance: balance.unwrap_or_default(), dirty: false };
            group.accounts.insert(name, account);
        }
        for row in known? {
            group.known.insert(row.try_get(0)?);
        }
        for row in numbers? {
            group.numbers.push(row.try_get(0)?);
        }
        // The lowest is drawn first.
        group.numbers.sort_unstable_by(|a, b| b.cmp(a));
        Ok(group)
    }

    /// A record's version by now, zero for one that is not there.
    pub(super) fn version(&self, kind: &str, key: &str) -> u64 {
        self.records.get(&(kind, key)).map_or(0, |kept| kept.version)
    }

    pub(super) fn has_entry(&self, id: Uuid) -> bool {
        self.known.contains(&id)
    }

    /// The balance of an account after the commits so far.
    pub(super) fn balance(&self, account: &str) -> i64 {
        self.accounts.get(account).map_or(0, |account| account.balance)
    }

    /// Takes what was checked.
    pub(super) fn take(&mut self, commit: &'a Commit) -> Result<(), Failure> {
        for change in &commit.records {
            let (kind, key, _) = change.about();
            let Some(kept) = self.records.get_mut(&(&**kind, &**key)) else { continue };
            (kept.version, kept.put) = match change {
                RecordChange::Put { body, lists, .. } => (kept.version + 1, Some((body, lists.as_slice()))),
                RecordChange::Remove { .. } => (0, None),
                RecordChange::Leave { .. } => continue,
            };
            kept.dirty = true;
        }
        for entry in &commit.entries {
            let Some(no) = self.numbers.pop() else {
                return Err(Failure::Damaged("numbers of entries ran out".into()));
            };
            self.known.insert(entry.id);
            let mut balances = Vec::with_capacity(entry.postings.len());
            for posting in &entry.postings {
                let Some(account) = self.accounts.get_mut(&*posting.account) else { continue };
                // It was checked that there is room.
                account.balance = account.balance.saturating_add(posting.amount);
                account.dirty = true;
                balances.push(account.balance);
            }
            self.posted.push(Posted { no, entry, balances });
        }
        Ok(())
    }

    pub(super) fn is_blank(&self) -> bool {
        self.posted.is_empty() && !self.records.values().any(|kept| kept.dirty)
    }

    pub(super) fn count(&self, tally: &mut CounterSums) {
        let there = |version: u64| i64::from(version > 0);
        let records = self.records.values().filter(|kept| kept.dirty);
        tally.add(counters::RECORDS, records.map(|kept| there(kept.version) - there(kept.before)).sum());
        tally.add(counters::ENTRIES, self.posted.len() as i64);
    }

    pub(super) async fn write(&self, db: &Conn) -> Result<(), Error> {
        if self.is_blank() {
            return Ok(());
        }
        let (mut unlist, mut drop) = (Keys::default(), Keys::default());
        let (mut add, mut change, mut lists) = (Bodies::default(), Bodies::default(), Lists::default());
        for (key, kept) in self.records.iter().filter(|(_, kept)| kept.dirty) {
            if kept.before > 0 {
                unlist.push(*key);
            }
            match (kept.before, kept.put) {
                (0, None) => {}
                (_, None) => drop.push(*key),
                (0, Some((body, _))) => add.push(*key, kept.version, body),
                (_, Some((body, _))) => change.push(*key, kept.version, body),
            }
            for listed in kept.put.map(|(_, lists)| lists).unwrap_or_default() {
                lists.push(*key, listed);
            }
        }
        let changed = self.accounts.iter().filter(|(_, account)| account.dirty);
        let (old, new): (Vec<_>, Vec<_>) = changed.partition(|(_, account)| account.there);
        let columns = |accounts: Vec<(&&'a str, &Account)>| -> (Vec<&'a [u8]>, Vec<i64>) {
            accounts.into_iter().map(|(name, account)| (name.as_bytes(), account.balance)).unzip()
        };
        let (old, new) = (columns(old), columns(new));
        let (mut nos, mut ids, mut ats, mut bodies) = (Vec::new(), Vec::new(), Vec::new(), Vec::<&[u8]>::new());
        let mut postings = Postings::default();
        for Posted { no, entry, balances } in &self.posted {
            nos.push(*no);
            ids.push(entry.id);
            ats.push(entry.at.0);
            bodies.push(&entry.body);
            for (place, (posting, balance)) in (0..).zip(entry.postings.iter().zip(balances)) {
                postings.account.push(posting.account.as_bytes());
                postings.entry_no.push(*no);
                postings.place.push(place);
                postings.amount.push(posting.amount);
                postings.balance.push(*balance);
            }
        }
        let results = join!(
            biased;
            run(
                !unlist.0.is_empty(),
                db.execute(
                    &UNLIST,
                    [&unlist.0, &unlist.1, &lists.keys.0, &lists.keys.1, &lists.list, &lists.rank]
                )
            ),
            run(!drop.0.is_empty(), db.execute(&RECORD_DROP, [&drop.0, &drop.1])),
            run(
                !change.version.is_empty(),
                db.execute(&RECORD_CHANGE, [&change.keys.0, &change.keys.1, &change.version, &change.body])
            ),
            run(
                !add.version.is_empty(),
                db.execute(&RECORD_ADD, [&add.keys.0, &add.keys.1, &add.version, &add.body])
            ),
            run(!lists.rank.is_empty(), db.execute(&LIST, [&lists.keys.0, &lists.keys.1, &lists.list, &lists.rank])),
            run(!old.0.is_empty(), db.execute(&ACCOUNT_CHANGE, [&old.0, &old.1])),
            run(!new.0.is_empty(), db.execute(&ACCOUNT_ADD, [&new.0, &new.1])),
            run(!nos.is_empty(), db.execute(&ENTRY_ADD, [&nos, &ids, &ats, &bodies])),
            run(
                !postings.place.is_empty(),
                db.execute(
                    &POSTING_ADD,
                    [&postings.account, &postings.entry_no, &postings.place, &postings.amount, &postings.balance]
                )
            ),
        );
        let (unlist, drop, change, add, lists, old, new, entries, postings) = results;
        [unlist, drop, change, add, lists, old, new, entries, postings].into_iter().collect()
    }
}

#[derive(Default)]
struct Keys<'a>(Vec<&'a [u8]>, Vec<&'a [u8]>);

impl<'a> Keys<'a> {
    fn push(&mut self, (kind, key): Key<'a>) {
        self.0.push(kind.as_bytes());
        self.1.push(key.as_bytes());
    }
}

#[derive(Default)]
struct Bodies<'a> {
    keys: Keys<'a>,
    version: Vec<i64>,
    body: Vec<&'a [u8]>,
}

impl<'a> Bodies<'a> {
    fn push(&mut self, key: Key<'a>, version: u64, body: &'a Bytes) {
        self.keys.push(key);
        self.version.push(version as i64);
        self.body.push(body);
    }
}

#[derive(Default)]
struct Lists<'a> {
    keys: Keys<'a>,
    list: Vec<&'a [u8]>,
    rank: Vec<i64>,
}

impl<'a> Lists<'a> {
    fn push(&mut self, key: Key<'a>, listed: &'a Listed) {
        self.keys.push(key);
        self.list.push(listed.list.as_bytes());
        self.rank.push(listed.rank);
    }
}

#[derive(Default)]
struct Postings<'a> {
    account: Vec<&'a [u8]>,
    entry_no: Vec<i64>,
    place: Vec<i32>,
    amount: Vec<i64>,
    balance: Vec<i64>,
}

static RECORD: Sql = Sql {
    text: "SELECT version, body FROM rialto.record WHERE kind = $1 AND key = $2",
    types: &[Type::BYTEA, Type::BYTEA],
};

pub(super) async fn record(db: &Conn, kind: &Arc<str>, key: &Arc<str>) -> Result<Option<Record>, Failure> {
    let rows = db.query(&RECORD, [&kind.as_bytes(), &key.as_bytes()]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(Some(Record {
        kind: kind.clone(),
        key: key.clone(),
        version: row.try_get::<_, i64>(0)? as u64,
        body: Bytes::from(row.try_get::<_, Vec<u8>>(1)?),
    }))
}

/// Above every kind with the prefix: the byte 255 is in no text.
static COUNT: Sql = Sql {
    text: "SELECT count(*) FROM (SELECT 1 FROM rialto.record WHERE kind >= $1 AND kind < $1 || '\\xff'::bytea LIMIT $2) AS found",
    types: &[Type::BYTEA, Type::INT8],
};

async fn count_records(db: &Conn, prefix: &str, most: u64) -> Result<u64, Failure> {
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let rows = db.query(&COUNT, [&prefix.as_bytes(), &most]).await?;
    let row = rows.first().ok_or_else(|| Failure::Damaged("a count has no row".into()))?;
    Ok(row.try_get::<_, i64>(0)? as u64)
}

/// One statement, one state of the database: the rows, and in the last column how many are in the list, if asked.
macro_rules! page {
    ($after:literal) => {
        concat!(
            "WITH page AS MATERIALIZED (
               SELECT rank, key FROM rialto.record_list WHERE kind = $1 AND list = $2 ",
            $after,
            " ORDER BY rank DESC, key DESC LIMIT $3 OFFSET $4
             ), total AS (
               SELECT CASE WHEN $5 THEN (SELECT count(*) FROM rialto.record_list WHERE kind = $1 AND list = $2) END AS n
             )
             SELECT page.key, record.version, record.body, page.rank, total.n
             FROM total LEFT JOIN page ON true LEFT JOIN rialto.record ON record.kind = $1 AND record.key = page.key
             ORDER BY page.rank DESC, page.key DESC"
        )
    };
}

static PAGE: Sql = Sql { text: page!(""), types: &[Type::BYTEA, Type::BYTEA, Type::INT8, Type::INT8, Type::BOOL] };
static PAGE_AFTER: Sql = Sql {
    text: page!("AND (rank, key) < ($6, $7)"),
    types: &[Type::BYTEA, Type::BYTEA, Type::INT8, Type::INT8, Type::BOOL, Type::INT8, Type::BYTEA],
};

pub(super) async fn records(db: &Conn, query: &RecordQuery) -> Result<RecordPage, Failure> {
    let (kind, list) = (query.kind.as_bytes(), query.list.as_bytes());
    let (limit, skip) = (i64::from(query.limit) + 1, i64::try_from(query.skip).unwrap_or(i64::MAX));
    let rows = match &query.after {
        None => db.query(&PAGE, [&kind, &list, &limit, &skip, &query.count]).await?,
        Some((rank, key)) => {
            db.query(&PAGE_AFTER, [&kind, &list, &limit, &skip, &query.count, rank, &key.as_bytes()]).await?
        }
    };
    let mut page = RecordPage::default();
    for row in &rows {
        page.total = row.try_get::<_, Option<i64>>(4)?.map(|total| total as u64);
        // The total has a row of its own where the page has none.
        let Some(key) = row.try_get::<_, Option<&[u8]>>(0)? else { continue };
        let record = Record {
            kind: query.kind.clone(),
            key: text_from(key)?.into(),
            version: row.try_get::<_, i64>(1)? as u64,
            body: Bytes::from(row.try_get::<_, Vec<u8>>(2)?),
        };
        page.records.push((record, row.try_get(3)?));
    }
    page.more = page.records.len() > query.limit as usize;
    page.records.truncate(query.limit as usize);
    Ok(page)
}

static BALANCES: Sql =
    Sql { text: "SELECT name, balance FROM rialto.account WHERE name = ANY ($1)", types: &[Type::BYTEA_ARRAY] };

pub(super) async fn balances(db: &Conn, accounts: &[Arc<str>]) -> Result<Vec<i64>, Failure> {
    let names: Vec<&[u8]> = accounts.iter().map(|name| name.as_bytes()).collect();
    let rows = db.query(&BALANCES, [&names]).await?;
    let mut found: HashMap<&[u8], i64> = HashMap::with_capacity(rows.len());
    for row in &rows {
        found.insert(row.try_get(0)?, row.try_get(1)?);
    }
    Ok(names.iter().map(|name| found.get(name).copied().unwrap_or_default()).collect())
}

static STATEMENT: Sql = Sql {
    text: "SELECT entry.no, entry.id, entry.at, entry.body, posting.amount, posting.balance
           FROM rialto.posting JOIN rialto.entry ON entry.no = posting.entry_no
           WHERE posting.account = $1 AND posting.entry_no < $2 ORDER BY posting.entry_no DESC LIMIT $3",
    types: &[Type::BYTEA, Type::INT8, Type::INT8],
};

pub(super) async fn statement(
    db: &Conn,
    account: &str,
    before: Option<u64>,
    limit: usize,
) -> Result<Vec<AccountLine>, Failure> {
    let before = before.map_or(i64::MAX, |before| i64::try_from(before).unwrap_or(i64::MAX));
    let rows = db.query(&STATEMENT, [&account.as_bytes(), &before, &limit_of(limit)]).await?;
    let line = |row: &tokio_postgres::Row| {
        Ok(AccountLine {
            no: row.try_get::<_, i64>(0)? as u64,
            id: row.try_get(1)?,
            at: Time(row.try_get(2)?),
            body: Bytes::from(row.try_get::<_, Vec<u8>>(3)?),
            amount: row.try_get(4)?,
            balance: row.try_get(5)?,
        })
    };
    rows.iter().map(line).collect()
}

static ACCOUNTS: Sql = Sql {
    text: "SELECT name, balance FROM rialto.account WHERE $1 OR name > $2 ORDER BY name LIMIT $3",
    types: &[Type::BOOL, Type::BYTEA, Type::INT8],
};

pub(super) async fn accounts(db: &Conn, after: Option<&Arc<str>>, limit: usize) -> Result<Vec<Balance>, Failure> {
    let name = after.map_or(&b""[..], |after| after.as_bytes());
    let rows = db.query(&ACCOUNTS, [&after.is_none(), &name, &limit_of(limit)]).await?;
    rows.iter().map(|row| Ok((text_from(row.try_get(0)?)?.into(), row.try_get(1)?))).collect()
}

static JOURNAL: Sql = Sql {
    text: "WITH page AS MATERIALIZED (
             SELECT no, id, at, body FROM rialto.entry WHERE no > $1 ORDER BY no LIMIT $2
           )
           SELECT page.no, page.id, page.at, page.body, posting.account, posting.amount
           FROM page JOIN rialto.posting ON posting.entry_no = page.no ORDER BY page.no, posting.place",
    types: &[Type::INT8, Type::INT8],
};

pub(super) async fn journal(db: &Conn, after: u64, limit: usize) -> Result<Vec<(u64, Entry)>, Failure> {
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let mut journal: Vec<(u64, Entry)> = Vec::new();
    for row in db.query(&JOURNAL, [&after, &limit_of(limit)]).await? {
        let no = row.try_get::<_, i64>(0)? as u64;
        if journal.last().is_none_or(|(last, _)| *last != no) {
            let body = Bytes::from(row.try_get::<_, Vec<u8>>(3)?);
            let entry = Entry { id: row.try_get(1)?, at: Time(row.try_get(2)?), body, postings: Vec::new() };
            journal.push((no, entry));
        }
        if let Some((_, entry)) = journal.last_mut() {
            let account = text_from(row.try_get(4)?)?.into();
            entry.postings.push(Posting { account, amount: row.try_get(5)?, floor: None });
        }
    }
    Ok(journal)
}

impl RecordStore for PostgresStore {
    fn access_keys(&self) -> Future<'_, Result<Vec<AccessKey>, StoreError>> {
        self.read(move |db| async move { read::access_keys(&db).await })
    }

    fn record(&self, kind: Arc<str>, key: Arc<str>) -> Future<'_, Result<Option<Record>, StoreError>> {
        self.read(move |db| {
            let (kind, key) = (kind.clone(), key.clone());
            async move { record(&db, &kind, &key).await }
        })
    }

    fn records(&self, query: RecordQuery) -> Future<'_, Result<RecordPage, StoreError>> {
        self.read(move |db| {
            let query = query.clone();
            async move { records(&db, &query).await }
        })
    }

    fn count_records(&self, prefix: Arc<str>, most: u64) -> Future<'_, Result<u64, StoreError>> {
        self.read(move |db| {
            let prefix = prefix.clone();
            async move { count_records(&db, &prefix, most).await }
        })
    }
}

impl Journal for PostgresStore {
    fn balances(&self, accounts: Vec<Arc<str>>) -> Future<'_, Result<Vec<i64>, StoreError>> {
        self.read(move |db| {
            let accounts = accounts.clone();
            async move { balances(&db, &accounts).await }
        })
    }

    fn statement(
        &self,
        account: Arc<str>,
        before: Option<u64>,
        limit: usize,
    ) -> Future<'_, Result<Vec<AccountLine>, StoreError>> {
        self.read(move |db| {
            let account = account.clone();
            async move { statement(&db, &account, before, limit).await }
        })
    }

    fn accounts(&self, after: Option<Arc<str>>, limit: usize) -> Future<'_, Result<Vec<Balance>, StoreError>> {
        self.read(move |db| {
            let after = after.clone();
            async move { accounts(&db, after.as_ref(), limit).await }
        })
    }

    fn journal(&self, after: u64, limit: usize) -> Future<'_, Result<Vec<(u64, Entry)>, StoreError>> {
        self.read(move |db| async move { journal(&db, after, limit).await })
    }
}
