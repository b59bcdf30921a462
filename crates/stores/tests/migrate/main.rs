//! A data folder migrated to a database: everything arrives, also after an interruption, and differences are found.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod copy;
mod differences;
mod kit;
mod refusals;
