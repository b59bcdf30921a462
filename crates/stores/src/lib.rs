//! Where tasks are kept.
//!
//! [`sqlite::Store`] is the product's default: one file, group commit, crash-proof. [`memory::Store`] keeps the same
//! promises for as long as the process lives, for tests. Both implement `model::ports::store::Store`, and a store is
//! right when it passes [`conformance`]: the suite is the contract, the implementations only differ in where the bytes
//! go.

pub mod conformance;
pub mod memory;
mod shape;
pub mod sqlite;
