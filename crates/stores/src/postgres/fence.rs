//! The fence: how a COMMIT whose answer was lost is decided.
//!
//! Each replica has a row in `rialto.fence`. Every transaction of its writer puts its own number there, on the condition
//! that the row has the generation that the writer's connection knows ([`PASS`]). A new connection of the writer raises the
//! generation before it does anything else ([`RAISE`]). That waits for a transaction that has passed and is not over (its
//! COMMIT is being flushed, or waits for a synchronous standby), and it makes one fail that has not passed yet, wherever its
//! bytes are: in a socket, in a proxy, in a pooler. So the row says for certain whether the last transaction happened, and
//! nothing that the old connection sent can happen later.
//!
//! Raising is a commit of its own. When it is acknowledged, everything before it in the write-ahead log is as durable as any
//! acknowledged commit: a transaction that only the primary has is never taken for done.

use tokio::join;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::connect::{Conn, ConnectError, Sql};

/// Lets a transaction pass, as its last statement, or fails it by a division by zero where its generation has no row.
/// Answers whether another replica may be there to notify; replicas that entered before this are seen.
pub(super) static PASS: Sql = Sql {
    text:
        "WITH passed AS (UPDATE rialto.fence SET last_group = $3 WHERE replica_no = $1 AND generation = $2 RETURNING 1)
           SELECT EXISTS (SELECT 1 FROM rialto.replica WHERE no <> $1 AND NOT has_left), 1 / count(*) FROM passed",
    types: &[Type::INT8, Type::INT8, Type::INT8],
};

pub(super) static RAISE: Sql = Sql {
    text: "INSERT INTO rialto.fence AS known (replica_no, generation, last_group) VALUES ($1, 1, 0)
           ON CONFLICT (replica_no) DO UPDATE SET generation = known.generation + 1
           RETURNING generation, last_group, pg_backend_pid(),
                     (SELECT backend_start::text FROM pg_stat_activity WHERE pid = pg_backend_pid())",
    types: &[Type::INT8],
};

/// Ends the backend of a connection that was given up, if it waits for its client: its locks need not wait until the server
/// misses the client. One that is at its COMMIT is left alone, because a wait for a standby that is cut short makes visible
/// what the standby does not have.
pub(super) static END: Sql = Sql {
    text: "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
           WHERE pid = $1 AND backend_start::text = $2 AND wait_event = 'ClientRead' AND pid <> pg_backend_pid()",
    types: &[Type::INT4, Type::TEXT],
};

/// Rows of replicas that are forgotten.
pub(super) const CLEAN: &str =
    "DELETE FROM rialto.fence WHERE NOT EXISTS (SELECT 1 FROM rialto.replica WHERE no = replica_no)";

/// The end of a transaction that was in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Happened,
    /// It did not happen and will not.
    Failed,
    /// It happened or will not: the row that would tell was removed meanwhile.
    Lost,
}

/// The server's side of a connection: process id and start.
pub(super) type BackendId = (i32, String);

/// The facts that a connection learns by raising the fence.
#[derive(Debug)]
pub(super) struct Raised {
    generation: i64,
    last_group: i64,
    /// Behind a pooler there is none of our own.
    backend: Option<BackendId>,
}

/// Raises the fence on a new connection, in place of one that is given up.
pub(super) async fn raise(db: &Conn, replica: i64, old: Option<BackendId>) -> Result<Raised, ConnectError> {
    if let Some((pid, start)) = old.filter(|_| !db.is_pooled()) {
        // It ends by itself, too, only later.
        if let Err(error) = db.query(&END, [&pid, &start]).await {
            tracing::debug!(%error, "the server's side of the last connection could not be ended");
        }
    }
    let (begun, raised, done) = join!(biased; db.begin(), db.query(&RAISE, [&replica]), db.run("COMMIT"));
    begun?;
    let raised = raised.map_err(|error| match error.code() {
        // The last transaction is still not over.
        Some(&SqlState::LOCK_NOT_AVAILABLE) => ConnectError::Slow,
        _ => ConnectError::Sql(error),
    })?;
    done?;
    let row = raised.first().ok_or(ConnectError::Fenced)?;
    let start: Option<String> = row.try_get(3)?;
    let pid: i32 = row.try_get(2)?;
    let backend = start.map(|start| (pid, start)).filter(|_| !db.is_pooled());
    Ok(Raised { generation: row.try_get(0)?, last_group: row.try_get(1)?, backend })
}

/// The writer's side of it.
#[derive(Debug, Default)]
pub(super) struct Fence {
    /// Of the current connection.
    generation: Option<i64>,
    /// The highest one known.
    highest: i64,
    /// The number of the last transaction that was sent.
    last_group: i64,
    /// A transaction whose COMMIT was sent and not answered.
    doubt: Option<i64>,
    backend: Option<BackendId>,
}

impl Fence {
    /// The connection is given up.
    pub(super) fn lower(&mut self) {
        self.generation = None;
    }

    /// The server's side of the last connection, for the next one to end.
    pub(super) fn backend(&self) -> Option<BackendId> {
        self.backend.clone()
    }

    /// The pass of the next transaction.
    pub(super) fn next(&mut self) -> Result<Pass, ConnectError> {
        let generation = self.generation.ok_or(ConnectError::Fenced)?;
        self.last_group += 1;
        Ok(Pass { generation, group: self.last_group })
    }

    /// The COMMIT of the last transaction was sent, and what became of it is not known.
    pub(super) fn doubt(&mut self) {
        self.doubt = Some(self.last_group);
    }

    /// A new connection takes over. Answers what became of the transaction in doubt, if there is one.
    pub(super) fn take(&mut self, raised: Raised) -> Option<Verdict> {
        let Raised { generation, last_group, backend } = raised;
        let verdict = self.doubt.take().map(|doubt| match last_group == doubt {
            _ if generation <= self.highest => Verdict::Lost,
            true => Verdict::Happened,
            false => Verdict::Failed,
        });
        (self.generation, self.highest, self.backend) = (Some(generation), generation, backend);
        verdict
    }
}

/// The parameters by which a transaction passes the fence.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pass {
    pub(super) generation: i64,
    pub(super) group: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raised(generation: i64, last_group: i64) -> Raised {
        Raised { generation, last_group, backend: None }
    }

    #[test]
    fn a_transaction_passes_only_on_a_connection_that_has_raised_the_fence() {
        let mut fence = Fence::default();
        assert!(matches!(fence.next(), Err(ConnectError::Fenced)));
        assert_eq!(fence.take(raised(3, 0)), None);
        let (first, second) = (fence.next().unwrap(), fence.next().unwrap());
        assert!(first.generation == 3 && second.group == first.group + 1);
        fence.lower();
        assert!(fence.next().is_err());
    }

    #[test]
    fn the_row_decides_what_became_of_the_last_transaction() {
        for (generation, last_group, expected) in [
            (2, 1, Verdict::Happened),
            (9, 1, Verdict::Happened),
            (2, 0, Verdict::Failed),
            // The row was removed and made again, or is of a server that lags behind.
            (1, 1, Verdict::Lost),
            (1, 0, Verdict::Lost),
        ] {
            let mut fence = Fence::default();
            fence.take(raised(1, 0));
            fence.next().unwrap();
            fence.doubt();
            fence.lower();
            assert_eq!(fence.take(raised(generation, last_group)), Some(expected), "{generation} {last_group}");
            assert_eq!(fence.take(raised(generation + 1, last_group)), None, "it is decided once");
        }
    }
}
