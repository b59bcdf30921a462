//! The market of the built binary: the examples of UUMit's page, the behaviour its clients rely on, and correct
//! balances under load, kills and odd input.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

mod demands;
mod fidelity;
mod openapi;
mod people;
mod prices;
mod seed;
mod stress;
