//! The store agent of the built binary: Aly's page as its readers would try it, what its clients rely on, webhooks, and
//! stock that stays right however many come for the last pieces and whatever becomes of the server meanwhile.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

mod desk;
mod errors;
mod expiry;
mod fidelity;
mod pushes;
mod routes;
mod seed;
mod stress;
