//! Where tasks are kept.
//!
//! [`sqlite::Store`] is the product's default: one file, group commit, crash-proof. [`postgres::Store`] is the same for
//! several processes at once. [`memory::Store`] keeps the same promises for as long as the process lives, for tests. All
//! implement `model::ports::store::Store`, and a store is right when it passes [`conformance`]: the suite is the
//! contract, the implementations only differ in where the bytes go. [`migrate`] carries everything from
//! the first to the second. [`folder`] keeps a data folder to its owner and to one process.

pub mod conformance;
pub mod crashable;
pub mod folder;
pub mod memory;
pub mod migrate;
pub mod postgres;
mod rules;
mod shape;
pub mod sqlite;
mod words;
