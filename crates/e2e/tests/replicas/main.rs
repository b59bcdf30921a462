//! Several replicas of the binary on one PostgreSQL, behind a plain balancer and without sticky sessions.
//!
//! [`calm`] asks on one replica for what another does; [`chaos`] kills, pauses and cuts them off under load, and has
//! [`checks`] look at everything clients were told and at the database. [`missed`] has what nobody was told of, [`doubt`] loses
//! the answers to COMMITs and cuts a replica off without a word.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

mod calm;
mod chaos;
mod checks;
mod doubt;
mod house;
mod load;
mod missed;
mod wire;
