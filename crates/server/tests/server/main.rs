//! A running server, over its socket: what callers are refused, in every generation; limits; mounts; TLS; workers.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a harness fails by panicking in the test that uses it")]

mod aly;
mod change;
mod checkout_page;
mod files;
mod generations;
mod kit;
mod limits;
mod market;
mod memory;
mod mounts;
mod oauth;
mod orloj;
mod oversized;
mod panics;
mod prices;
mod privacy;
mod revocation;
mod storefront;
mod tls;
mod uumit;
mod workers;
