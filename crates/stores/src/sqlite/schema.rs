//! The file's schema: numbered migrations, embedded, each applied once.
//!
//! `PRAGMA user_version` says how many have been applied. All that are missing run in one transaction, so a crash in
//! between leaves the old schema. A released migration is never edited; what it got wrong, the next one mends.

use rusqlite::{Connection, TransactionBehavior};

use super::SqliteOpenError;

/// The migrations, oldest first; the file `0001.sql` brings a file to version 1.
pub(super) const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001.sql"),
    include_str!("migrations/0002.sql"),
    include_str!("migrations/0003.sql"),
    include_str!("migrations/0004.sql"),
    include_str!("migrations/0005.sql"),
    include_str!("migrations/0006.sql"),
    include_str!("migrations/0007.sql"),
    include_str!("migrations/0008.sql"),
    include_str!("migrations/0009.sql"),
    include_str!("migrations/0010.sql"),
];

/// Marks the file as ours (`PRAGMA application_id`): "RIAL".
pub(super) const APPLICATION: i64 = 0x5249_414c;

/// The version this release writes.
pub(super) const VERSION: u32 = MIGRATIONS.len() as u32;

/// Brings the file to this release's version, or says why not.
pub(super) fn migrate(db: &mut Connection) -> Result<(), SqliteOpenError> {
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found: u32 = tx.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let application: i64 = tx.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    let tables: i64 = tx.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if application != APPLICATION && (tables > 0 || found > 0) {
        return Err(SqliteOpenError::Foreign);
    }
    if found > VERSION {
        return Err(SqliteOpenError::Newer { found, known: VERSION });
    }
    if found == VERSION {
        return Ok(());
    }
    for migration in MIGRATIONS.iter().skip(found as usize) {
        tx.execute_batch(migration)?;
    }
    tx.pragma_update(None, "application_id", APPLICATION)?;
    tx.pragma_update(None, "user_version", VERSION)?;
    tx.commit()?;
    Ok(())
}
