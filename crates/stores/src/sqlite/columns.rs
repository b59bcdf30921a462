//! How the model's nouns look in columns.

use std::sync::Arc;

use model::ports::store::IndexRow;
use model::{ContextId, State, TaskId, Time};
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use uuid::Uuid;

/// Bits of a log key that hold the sequence number; the task's number is above them. One integer instead of two
/// columns makes the log an ordinary rowid table: comparing keys is comparing integers, and a row of up to 4 KiB stays
/// in its leaf page, where a table without rowid moves everything above 1 KiB to a page of its own.
const SEQ_BITS: u32 = 26;

/// The longest log there can be: 67 million events.
pub(super) const MAX_SEQ: u64 = (1 << SEQ_BITS) - 1;

/// The key of the log row that begins with `first`.
pub(super) fn log_key(task_no: i64, first: u64) -> i64 {
    (task_no << SEQ_BITS) | (first.min(MAX_SEQ) as i64)
}

/// The first sequence number of the row under `key`.
pub(super) fn first_seq(key: i64) -> u64 {
    (key as u64) & MAX_SEQ
}

/// A context as it is stored: the UUIDs that we and most clients make in 16 bytes, anything else as it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Context {
    Uuid([u8; 16]),
    Text(Arc<str>),
}

impl Context {
    pub(super) fn to_row(context: &ContextId) -> Context {
        let text = context.as_str();
        if text.len() == 36
            && let Ok(uuid) = Uuid::try_parse(text)
            // Only the one spelling that comes back the same.
            && uuid.as_hyphenated().encode_lower(&mut Uuid::encode_buffer()) == text
        {
            return Context::Uuid(*uuid.as_bytes());
        }
        Context::Text(context.0.clone())
    }

    pub(super) fn into_id(self) -> ContextId {
        match self {
            Context::Uuid(bytes) => {
                ContextId(Uuid::from_bytes(bytes).as_hyphenated().encode_lower(&mut Uuid::encode_buffer()).into())
            }
            Context::Text(text) => ContextId(text),
        }
    }
}

impl ToSql for Context {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Context::Uuid(bytes) => ValueRef::Blob(bytes),
            Context::Text(text) => ValueRef::Text(text.as_bytes()),
        }))
    }
}

impl FromSql for Context {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value {
            ValueRef::Blob(_) => Ok(Context::Uuid(<[u8; 16]>::column_result(value)?)),
            ValueRef::Text(_) => Ok(Context::Text(value.as_str()?.into())),
            ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => Err(FromSqlError::InvalidType),
        }
    }
}

/// A task's id as a column.
pub(super) struct TaskIdColumn(pub(super) TaskId);

impl ToSql for TaskIdColumn {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Blob(self.0.0.as_bytes())))
    }
}

impl FromSql for TaskIdColumn {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Ok(TaskIdColumn(TaskId(Uuid::from_bytes(<[u8; 16]>::column_result(value)?))))
    }
}

/// The numbers of a task's views, packed.
pub(super) fn pack_views(views: &[i64]) -> Vec<u8> {
    views.iter().flat_map(|no| (*no as u32).to_le_bytes()).collect()
}

pub(super) fn unpack_views(packed: &[u8]) -> Box<[i64]> {
    packed.chunks_exact(4).map(|c| i64::from(u32::from_le_bytes([c[0], c[1], c[2], c[3]]))).collect()
}

/// Reads state, status_at, listed, running, settled, which every query selects in this order, from column `at` on.
pub(super) fn row_from(columns: &rusqlite::Row<'_>, at: usize) -> rusqlite::Result<IndexRow> {
    let code: u8 = columns.get(at)?;
    let state = State::from_code(code).ok_or(rusqlite::Error::IntegralValueOutOfRange(at, i64::from(code)))?;
    Ok(IndexRow {
        state,
        status_at: Time(columns.get(at + 1)?),
        listed: columns.get(at + 2)?,
        running: columns.get(at + 3)?,
        settled: columns.get(at + 4)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_comes_back_as_it_was_spelled() {
        for text in [
            "",
            "chat-7",
            "0198c0de-0000-7000-8000-000000000001",
            "0198C0DE-0000-7000-8000-000000000001",
            "0198c0de000070008000000000000001",
            "{0198c0de-0000-7000-8000-00000000001",
            "naïve 🌉",
        ] {
            let context = ContextId::from(text);
            assert_eq!(Context::to_row(&context).into_id(), context);
        }
    }

    #[test]
    fn a_log_key_sorts_by_task_and_then_by_sequence_number() {
        assert!(log_key(1, MAX_SEQ) < log_key(2, 1));
        assert!(log_key(2, 1) < log_key(2, 2));
        assert_eq!(first_seq(log_key(7, 41)), 41);
    }
}
