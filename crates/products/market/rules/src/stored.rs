//! The market's rows; [`ledger::row`] encodes them, and the golden file beside the tests pins their form.

use ledger::Row;

use crate::capability::Capability;
use crate::demand::Demand;
use crate::quota::Sales;
use crate::transaction::Transaction;

impl Row for Capability {
    const NAME: &'static str = "capability";
}
impl Row for Demand {
    const NAME: &'static str = "demand";
}
impl Row for Sales {
    const NAME: &'static str = "sales";
}
impl Row for Transaction {
    const NAME: &'static str = "transaction";
}

#[cfg(test)]
#[path = "stored_tests.rs"]
mod tests;
