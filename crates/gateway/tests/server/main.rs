//! A running gateway without products, over its socket: refusals in every generation, limits, mounts, TLS, workers.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a harness fails by panicking in the test that uses it")]

mod change;
mod generations;
mod limits;
mod mounts;
mod tls;
mod workers;
