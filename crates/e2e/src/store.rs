//! The store of the scenarios: SQLite in the data folder, or with `RIALTO_TEST_STORE=postgres` a new database for
//! every server, in one PostgreSQL that the test process starts.
//!
//! A server keeps its database across its restarts. The lease is short, so that the turns of a killed server are
//! recovered soon.

use cluster::{Cluster, Database};

/// How long a server may be silent before its turns are recovered.
pub const LEASE: std::time::Duration = std::time::Duration::from_secs(2);

/// The variable with the database's URL, so that no password is on a command line.
pub const VARIABLE: &str = "RIALTO_E2E_DATABASE";

/// The scenarios that always use SQLite, and why. Every other one runs on both stores.
pub const SQLITE_ONLY: &[(&str, &str)] = &[
    ("a full disk", "the disk of PostgreSQL is not ours to fill: that it refuses writes is tested with the store"),
    ("a sync before every reply", "the trace is of our own process, and with PostgreSQL another one syncs"),
    ("a migration", "it begins on SQLite and ends on PostgreSQL, whatever is chosen"),
    ("a folder of an earlier release", "it was written on SQLite; a database is made of it by `migrate`"),
    ("a cut log", "the log of PostgreSQL is its own; that it was cut is its own to find"),
    (
        "an agent that is gone",
        "in a shared store its turns wait for a replica that serves it, which is tested with replicas",
    ),
    ("backup and restore", "a database is copied with pg_dump; the commands say so and do nothing"),
];

/// Whether scenarios run on PostgreSQL.
///
/// # Panics
/// When `RIALTO_TEST_STORE` names no store.
pub fn is_postgres() -> bool {
    match std::env::var("RIALTO_TEST_STORE").as_deref() {
        Err(_) | Ok("" | "sqlite") => false,
        Ok("postgres") => true,
        Ok(other) => panic!("RIALTO_TEST_STORE is sqlite or postgres, not {other:?}"),
    }
}

/// A database for one server, where scenarios run on PostgreSQL.
pub(crate) fn fresh() -> Option<Database> {
    is_postgres().then(|| Cluster::shared().database())
}

/// The arguments and the variable with which a command finds a database.
pub(crate) fn flags(url: &str) -> ([&'static str; 2], (&'static str, String)) {
    (["--store", "env:RIALTO_E2E_DATABASE"], (VARIABLE, url.to_owned()))
}
