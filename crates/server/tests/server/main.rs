//! A running server, over its socket: what callers are refused, in every generation; limits; mounts; TLS; workers.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a harness fails by panicking in the test that uses it")]

mod change;
mod files;
mod generations;
mod kit;
mod limits;
mod market;
mod mounts;
mod orloj;
mod prices;
mod tls;
mod uumit;
mod workers;
