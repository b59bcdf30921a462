//! PostgreSQL's errors as troubles of the engine.

use model::ports::store::StoreError;
use model::stored;
use tokio_postgres::Error;
use tokio_postgres::error::{Severity, SqlState};

use super::connect::ConnectError;

/// Why a read or a write failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("{0}")]
    Damaged(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Connect(error.into())
    }
}

impl From<stored::Error> for Failure {
    fn from(error: stored::Error) -> Failure {
        Failure::Damaged(error.to_string())
    }
}

/// The reaction to a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ErrorClass {
    /// The connection is of no use any more; another may be.
    Lost,
    /// Another transaction was faster, or in the way: a retry from the beginning may pass.
    Again,
    /// The world around us: every other commit would fail too.
    World,
    /// This commit alone.
    Own,
}

pub(super) fn kind(fault: &ConnectError) -> ErrorClass {
    let error = match fault {
        ConnectError::Sql(error) => error,
        ConnectError::Slow | ConnectError::Fenced => return ErrorClass::Lost,
    };
    match error.code() {
        None => ErrorClass::Lost,
        Some(code) if is_lost(code) => ErrorClass::Lost,
        Some(
            &SqlState::UNIQUE_VIOLATION
            | &SqlState::T_R_DEADLOCK_DETECTED
            | &SqlState::T_R_SERIALIZATION_FAILURE
            | &SqlState::LOCK_NOT_AVAILABLE,
        ) => ErrorClass::Again,
        Some(
            &SqlState::DISK_FULL
            | &SqlState::OUT_OF_MEMORY
            | &SqlState::CONFIGURATION_LIMIT_EXCEEDED
            | &SqlState::QUERY_CANCELED
            | &SqlState::IO_ERROR
            | &SqlState::UNDEFINED_TABLE
            | &SqlState::INVALID_SQL_STATEMENT_NAME
            | &SqlState::INSUFFICIENT_PRIVILEGE,
        ) => ErrorClass::World,
        Some(_) => ErrorClass::Own,
    }
}

/// Codes after which the connection is over, or leads to a server that takes no writes (any more).
pub(super) fn is_lost(code: &SqlState) -> bool {
    code.code().starts_with("08")
        || [
            SqlState::ADMIN_SHUTDOWN,
            SqlState::CRASH_SHUTDOWN,
            SqlState::CANNOT_CONNECT_NOW,
            SqlState::DATABASE_DROPPED,
            SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
            SqlState::READ_ONLY_SQL_TRANSACTION,
            SqlState::TOO_MANY_CONNECTIONS,
        ]
        .contains(code)
}

/// Why a group was not written, or perhaps was.
#[derive(Debug)]
pub(super) struct Unwritten {
    pub(super) fault: ConnectError,
    /// Nothing has happened.
    pub(super) refused: bool,
}

impl Unwritten {
    /// By what comes before COMMIT. An answer, be it that the connection ends, means that COMMIT was not reached or was in
    /// vain.
    pub(super) fn before_commit(error: Error) -> Unwritten {
        Unwritten { refused: error.as_db_error().is_some(), fault: ConnectError::Sql(error) }
    }

    /// By the last statement before COMMIT, which finds no row when a newer connection has raised the fence.
    pub(super) fn at_fence(error: Error) -> Unwritten {
        match error.code() {
            Some(&SqlState::DIVISION_BY_ZERO) => Unwritten { refused: true, fault: ConnectError::Fenced },
            _ => Unwritten::before_commit(error),
        }
    }

    /// By COMMIT itself. Only an error that leaves the server running is a refusal: after a FATAL or a PANIC the commit record
    /// may be on the disk, whatever the error's code.
    pub(super) fn at_commit(error: Error) -> Unwritten {
        let refused = error.as_db_error().is_some_and(|db| db.parsed_severity() == Some(Severity::Error));
        Unwritten { refused, fault: ConnectError::Sql(error) }
    }
}

/// Names a fault for the engine.
pub(super) fn name(fault: &ConnectError) -> StoreError {
    let text = match fault {
        ConnectError::Sql(error) => match (error.code(), error.as_db_error()) {
            (Some(&SqlState::DISK_FULL), _) => return StoreError::Full,
            (Some(&SqlState::READ_ONLY_SQL_TRANSACTION), _) => "the server takes no writes".into(),
            (Some(&SqlState::INVALID_SQL_STATEMENT_NAME), _) => {
                let advice = "a pooler stands before the database; give a direct_url past it, or let it keep sessions";
                return StoreError::Broken(advice.into());
            }
            (_, Some(db)) => db.message().to_owned(),
            (_, None) => fault.to_string(),
        },
        ConnectError::Slow | ConnectError::Fenced => fault.to_string(),
    };
    match kind(fault) {
        ErrorClass::Lost | ErrorClass::World => StoreError::Unreachable(text),
        ErrorClass::Again => StoreError::Busy,
        ErrorClass::Own => StoreError::Broken(text),
    }
}

pub(super) fn of(failure: &Failure) -> StoreError {
    match failure {
        Failure::Connect(fault) => name(fault),
        Failure::Damaged(text) => StoreError::Broken(text.clone()),
    }
}
