//! The database's schema: numbered migrations, embedded, each applied once.
//!
//! All that are missing run in one transaction under a lock, so several replicas may start at once, and a crash in between
//! leaves the old schema. A released migration is never edited; what it got wrong, the next one mends.

use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::PostgresOpenError;
use super::connect::{Conn, ConnectError, ConnectTarget, Sql};

/// Everything is in this schema of the database.
pub(super) const NAME: &str = "rialto";

/// The migrations, oldest first; the file `0001.sql` brings a database to version 1.
pub(super) const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001.sql"),
    include_str!("migrations/0002.sql"),
    include_str!("migrations/0003.sql"),
    include_str!("migrations/0004.sql"),
    include_str!("migrations/0005.sql"),
    include_str!("migrations/0006.sql"),
];

/// The version this release writes.
pub(super) const VERSION: u32 = MIGRATIONS.len() as u32;

/// The lock of a schema migration and of a replica that registers: "RIAL".
pub(super) static LOCK: Sql = Sql { text: "SELECT pg_advisory_xact_lock(1380532556)", types: &[] };

static SERVER: Sql = Sql {
    text: "SELECT current_setting('server_version_num')::integer, current_setting('server_version')",
    types: &[],
};
static FOUND: Sql = Sql {
    text: "SELECT to_regclass('rialto.meta') IS NOT NULL,
                  EXISTS (SELECT 1 FROM pg_class WHERE relnamespace = to_regnamespace('rialto')::oid)",
    types: &[],
};
static VERSION_OF: Sql = Sql { text: "SELECT version FROM rialto.meta", types: &[] };
static SET_VERSION: Sql = Sql { text: "UPDATE rialto.meta SET version = $1", types: &[Type::INT4] };

/// Brings the database to this release's version, or says why not.
pub(super) async fn migrate(db: &Conn, target: &ConnectTarget) -> Result<(), PostgresOpenError> {
    match apply(db).await {
        Ok(()) => Ok(()),
        Err(Refusal::Sql(error)) => Err(match error.code() {
            // Foreign tables are in the way.
            Some(&SqlState::DUPLICATE_TABLE | &SqlState::DUPLICATE_OBJECT) => PostgresOpenError::Foreign,
            _ => target.explain(&ConnectError::Sql(error)),
        }),
        Err(Refusal::Open(error)) => Err(error),
    }
}

enum Refusal {
    Sql(tokio_postgres::Error),
    Open(PostgresOpenError),
}

impl From<tokio_postgres::Error> for Refusal {
    fn from(error: tokio_postgres::Error) -> Refusal {
        Refusal::Sql(error)
    }
}

async fn apply(db: &Conn) -> Result<(), Refusal> {
    let server = db.query(&SERVER, []).await?;
    if let Some(row) = server.first()
        && row.get::<_, i32>(0) < 130_000
    {
        return Err(Refusal::Open(PostgresOpenError::Old { found: row.get(1) }));
    }
    // Another replica may take a while to migrate.
    db.run("BEGIN; SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0").await?;
    db.query(&LOCK, []).await?;
    let found = db.query(&FOUND, []).await?;
    let (ours, any) = found.first().map_or((false, false), |row| (row.get(0), row.get(1)));
    if any && !ours {
        db.run("ROLLBACK").await?;
        return Err(Refusal::Open(PostgresOpenError::Foreign));
    }
    if !ours {
        db.run("CREATE SCHEMA IF NOT EXISTS rialto; CREATE TABLE rialto.meta (version integer NOT NULL)").await?;
        db.run("INSERT INTO rialto.meta (version) VALUES (0)").await?;
    }
    let version = db.query(&VERSION_OF, []).await?;
    let version = version.first().map_or(0, |row| row.get::<_, i32>(0));
    let version = u32::try_from(version).unwrap_or_default();
    if version > VERSION {
        db.run("ROLLBACK").await?;
        return Err(Refusal::Open(PostgresOpenError::Newer { found: version, known: VERSION }));
    }
    if version < VERSION {
        for migration in MIGRATIONS.iter().skip(version as usize) {
            db.run(migration).await?;
        }
        db.execute(&SET_VERSION, [&(VERSION as i32)]).await?;
    }
    db.run("COMMIT").await?;
    Ok(())
}
