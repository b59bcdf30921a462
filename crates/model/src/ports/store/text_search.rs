//! Search for texts by the words in them.

use super::StoreError;
use crate::ports::Future;
use crate::{TextPage, TextQuery};

/// Search in the index of texts. A [`Commit`](super::Commit) writes texts.
pub trait TextSearch: Send + Sync + 'static {
    /// The texts of an index that match, by the rules of [`crate::text`].
    fn search(&self, query: TextQuery) -> Future<'_, Result<TextPage, StoreError>>;
}
