//! The service through its public methods: carts, sales and skills, on real stores. Each file is one topic; one binary, so
//! that it is linked once.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

mod common;

mod agent;
mod carts;
mod expiry;
mod rush;
mod sales;
mod search;
mod skills;
