//! The webhook sender against real receivers: the requests, the outcome of every answer, and the refused addresses.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

mod answers;
mod carried;
mod kit;
mod reach;
mod receiver;
