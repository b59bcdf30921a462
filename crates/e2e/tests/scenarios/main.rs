//! Wire behaviour that a proper client library hides: one module for each topic, one server for each test.

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
