//! The stored form of events: the payload of one log row.
//!
//! A payload is a version byte and then that version's encoding of a batch. Version 1 is a JSON array of
//! `[milliseconds, body]` pairs: self-describing, so that a member can be added without a new version, and readable in
//! any SQLite shell. Old versions are read for ever; a test with a golden file guards that.

use crate::{Body, Event, Seq, Time};

const V1: u8 = 1;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the log row is empty")]
    Empty,
    #[error("the log row has version {0}, which this release does not know; was the data written by a newer one?")]
    Version(u8),
    #[error("the log row is damaged: {0}")]
    Damaged(#[from] serde_json::Error),
}

pub fn encode(events: &[Event]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(256 + events.iter().map(|e| e.body.weight()).sum::<usize>());
    payload.push(V1);
    let pairs: Vec<(Time, &Body)> = events.iter().map(|e| (e.at, &e.body)).collect();
    // Bodies hold only strings, integers and raw JSON: writing them into memory cannot fail.
    if let Err(error) = serde_json::to_writer(&mut payload, &pairs) {
        debug_assert!(false, "{error}");
    }
    payload
}

/// Joins consecutive payloads into one with all their events; `None` if their versions differ.
pub fn joined<'p>(payloads: impl Iterator<Item = &'p [u8]>) -> Option<Vec<u8>> {
    let mut all = vec![V1, b'['];
    for payload in payloads {
        let [V1, b'[', pairs @ .., b']'] = payload else { return None };
        if all.len() > 2 {
            all.push(b',');
        }
        all.extend_from_slice(pairs);
    }
    all.push(b']');
    Some(all)
}

/// Reads a batch whose first event has the sequence number `first`.
pub fn decode(first: Seq, payload: &[u8]) -> Result<Vec<Event>, Error> {
    match payload {
        [] => Err(Error::Empty),
        [V1, json @ ..] => {
            let pairs: Vec<(Time, Body)> = serde_json::from_slice(json)?;
            Ok(pairs.into_iter().enumerate().map(|(i, (at, body))| Event { seq: first.plus(i), at, body }).collect())
        }
        [version, ..] => Err(Error::Version(*version)),
    }
}

#[cfg(test)]
#[path = "stored_tests.rs"]
mod tests;
