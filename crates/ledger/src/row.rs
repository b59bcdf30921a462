//! The encoding of stored rows: a version byte and then that version's encoding.
//!
//! Version 1 is JSON, as in the task log: a member can be added without a new version, and any SQLite shell can read it. Old
//! versions are read for ever; the golden files of the products prove it.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Account, Hold, LedgerPosting};

const V1: u8 = 1;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the {0} row is empty")]
    Empty(&'static str),
    #[error("the {0} row has version {1}, which this release does not know; was the data written by a newer one?")]
    Version(&'static str, u8),
    #[error("the {0} row is damaged: {1}")]
    Damaged(&'static str, serde_json::Error),
}

/// A row that a product stores.
pub trait Row: Serialize + DeserializeOwned {
    const NAME: &'static str;

    fn to_row(&self) -> Vec<u8> {
        let mut row = Vec::with_capacity(256);
        row.push(V1);
        // Rows hold only strings, integers and raw JSON: writing them into memory cannot fail.
        if let Err(error) = serde_json::to_writer(&mut row, self) {
            debug_assert!(false, "{error}");
        }
        row
    }

    fn from_row(row: &[u8]) -> Result<Self, Error> {
        match row {
            [] => Err(Error::Empty(Self::NAME)),
            [V1, json @ ..] => serde_json::from_slice(json).map_err(|error| Error::Damaged(Self::NAME, error)),
            [version, ..] => Err(Error::Version(Self::NAME, *version)),
        }
    }
}

impl Row for Account {
    const NAME: &'static str = "account";
}
impl Row for LedgerPosting {
    const NAME: &'static str = "posting";
}
impl Row for Hold {
    const NAME: &'static str = "hold";
}
