//! The journal of entries: money and stock.

use std::sync::Arc;

use super::StoreError;
use crate::ports::Future;
use crate::{AccountLine, Balance, Entry};

/// Reads of accounts and of the journal. A [`Commit`](super::Commit) writes entries.
pub trait Journal: Send + Sync + 'static {
    /// The balances of these accounts, in the order asked; zero for an account without postings.
    fn balances(&self, accounts: Vec<Arc<str>>) -> Future<'_, Result<Vec<i64>, StoreError>>;

    /// The lines of an account before place `before`, newest first.
    fn statement(
        &self,
        account: Arc<str>,
        before: Option<u64>,
        limit: usize,
    ) -> Future<'_, Result<Vec<AccountLine>, StoreError>>;

    /// Accounts and their balances, in order of their names, after `after`.
    fn accounts(&self, after: Option<Arc<str>>, limit: usize) -> Future<'_, Result<Vec<Balance>, StoreError>>;

    /// The journal from its beginning, after place `after`. Floors are not kept.
    fn journal(&self, after: u64, limit: usize) -> Future<'_, Result<Vec<(u64, Entry)>, StoreError>>;
}
