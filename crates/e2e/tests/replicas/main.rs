//! Several replicas of the binary on one PostgreSQL, behind a plain balancer and without sticky sessions.
//!
//! [`calm`] asks one replica for the work of another; [`chaos`] kills, pauses and cuts them off under load, and
//! [`checks`] verifies the answers and the database. [`missed`] tests lost notifications, [`doubt`] loses the
//! answers to COMMITs and cuts a replica off silently.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

mod calm;
mod chaos;
mod checks;
mod doubt;
mod house;
mod load;
mod missed;
mod wire;
