//! What happens on the wire that a polite client library never shows: one module per topic, one server per test.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

mod at_rest;
mod behaviours;
mod callers;
mod cards;
mod disk;
mod envelope;
mod faults;
mod idempotency;
mod keys;
mod operator;
mod process;
mod streams;
mod turns;
