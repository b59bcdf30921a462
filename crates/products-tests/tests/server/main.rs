//! A running gateway with products, over its socket.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a harness fails by panicking in the test that uses it")]

mod aly;
mod checkout_page;
mod files;
mod market;
mod memory;
mod oauth;
mod orloj;
mod oversized;
mod panics;
mod prices;
mod privacy;
mod revocation;
mod storefront;
mod uumit;
