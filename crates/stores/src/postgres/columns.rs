//! How the model's nouns look in columns.

use model::ports::store::{IndexRow, KeyUse};
use model::{ContextId, Seq, State, TaskId, Time};
use uuid::Uuid;

use super::trouble::Failure;

/// A context as it is stored: a tag, then the UUIDs that we and most clients make in 16 bytes, anything else as it is.
pub(super) fn context_bytes(context: &ContextId) -> Vec<u8> {
    let text = context.as_str();
    if text.len() == 36
        && let Ok(uuid) = Uuid::try_parse(text)
        // Only the one spelling that comes back the same.
        && uuid.as_hyphenated().encode_lower(&mut Uuid::encode_buffer()) == text
    {
        return [&[0], uuid.as_bytes().as_slice()].concat();
    }
    [&[1], text.as_bytes()].concat()
}

pub(super) fn context_from(bytes: &[u8]) -> Result<ContextId, Failure> {
    match bytes {
        [0, id @ ..] if id.len() == 16 => {
            let id = Uuid::from_slice(id).map_err(|error| Failure::Damaged(error.to_string()))?;
            Ok(ContextId(id.as_hyphenated().encode_lower(&mut Uuid::encode_buffer()).into()))
        }
        [1, text @ ..] => Ok(ContextId(text_from(text)?.into())),
        _ => Err(Failure::Damaged("a context of an unknown kind".into())),
    }
}

/// Text that is kept as bytes.
pub(super) fn text_from(bytes: &[u8]) -> Result<&str, Failure> {
    std::str::from_utf8(bytes).map_err(|error| Failure::Damaged(error.to_string()))
}

/// The numbers of a task's views, packed.
pub(super) fn pack_views(views: &[i32]) -> Vec<u8> {
    views.iter().flat_map(|no| no.to_le_bytes()).collect()
}

pub(super) fn unpack_views(packed: &[u8]) -> Box<[i32]> {
    packed.chunks_exact(4).map(|c| i32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect()
}

/// Reads state, status_at, listed, running, settled, which every query selects in this order, from column `at` on.
pub(super) fn row_from(columns: &tokio_postgres::Row, at: usize) -> Result<IndexRow, Failure> {
    Ok(IndexRow {
        state: state_from(columns.try_get(at)?)?,
        status_at: Time(columns.try_get(at + 1)?),
        listed: columns.try_get(at + 2)?,
        running: columns.try_get(at + 3)?,
        settled: columns.try_get(at + 4)?,
    })
}

pub(super) fn state_from(code: i16) -> Result<State, Failure> {
    let state = u8::try_from(code).ok().and_then(State::from_code);
    state.ok_or_else(|| Failure::Damaged(format!("a task in state {code}")))
}

pub(super) fn code(state: State) -> i16 {
    i16::from(state.code())
}

const USE_BYTES: usize = 64;

/// The uses of a key, packed.
pub(super) fn pack_uses(uses: &[KeyUse]) -> Vec<u8> {
    let mut packed = Vec::with_capacity(uses.len() * USE_BYTES);
    for used in uses {
        packed.extend_from_slice(&used.body);
        packed.extend_from_slice(used.task.0.as_bytes());
        packed.extend_from_slice(&used.seq.0.to_le_bytes());
        packed.extend_from_slice(&used.at.0.to_le_bytes());
    }
    packed
}

pub(super) fn unpack_uses(key: [u8; 32], packed: &[u8]) -> Result<Vec<KeyUse>, Failure> {
    let damaged = || Failure::Damaged("a use of a key that cannot be read".into());
    let mut uses = Vec::with_capacity(packed.len() / USE_BYTES);
    for used in packed.chunks(USE_BYTES) {
        let (Some(body), Some(task), Some(seq), Some(at)) =
            (used.first_chunk(), used.get(32..48), used.get(48..56), used.get(56..64))
        else {
            return Err(damaged());
        };
        uses.push(KeyUse {
            key,
            body: *body,
            task: TaskId(Uuid::from_slice(task).map_err(|_| damaged())?),
            seq: Seq(u64::from_le_bytes(seq.try_into().map_err(|_| damaged())?)),
            at: Time(i64::from_le_bytes(at.try_into().map_err(|_| damaged())?)),
        });
    }
    Ok(uses)
}

pub(super) fn hash_from(bytes: &[u8]) -> Result<[u8; 32], Failure> {
    bytes.try_into().map_err(|_| Failure::Damaged("a hash that is not 32 bytes long".into()))
}

pub(super) fn limit_of(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
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
            "sixteen bytes ab",
            "naïve 🌉\0",
        ] {
            let context = ContextId::from(text);
            assert_eq!(context_from(&context_bytes(&context)).unwrap(), context);
        }
        assert!(context_from(&[2, 3]).is_err());
    }

    #[test]
    fn the_uses_of_a_key_come_back_as_they_were() {
        let used = |n: u8| KeyUse {
            key: [7; 32],
            body: [n; 32],
            task: TaskId(Uuid::now_v7()),
            seq: Seq(u64::MAX - u64::from(n)),
            at: Time(-i64::from(n)),
        };
        let uses = vec![used(1), used(2)];
        assert_eq!(unpack_uses([7; 32], &pack_uses(&uses)).unwrap(), uses);
        assert!(unpack_uses([7; 32], &pack_uses(&uses)[..100]).is_err());
    }
}
