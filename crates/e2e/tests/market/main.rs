//! The market of the built binary: UUMit's page as its readers would try it, what its clients rely on, and money that stays
//! right under load, kills and strange input.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

mod demands;
mod fidelity;
mod openapi;
mod people;
mod prices;
mod seed;
mod stress;
