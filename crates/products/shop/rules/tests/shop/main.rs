//! The rules together, on a simple store in memory.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

mod any_sequence;
mod bench;
