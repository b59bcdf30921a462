//! The store agent of the built binary: the examples of Aly's page, the behaviour its clients rely on, webhooks,
//! and correct stock under concurrent purchases and server crashes.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

mod desk;
mod errors;
mod expiry;
mod fidelity;
mod pushes;
mod routes;
mod seed;
mod stress;
