//! The courier against real receivers: what arrives, what is made of every answer, and where nothing must arrive at all.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

mod answers;
mod carried;
mod kit;
mod reach;
mod receiver;
