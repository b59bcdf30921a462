//! The shop as a whole, on the plainest store there is.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

mod any_sequence;
mod bench;
