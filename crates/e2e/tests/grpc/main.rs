//! gRPC with other people's clients and servers, and with frames and messages that no proper client sends: one module
//! for each topic.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

mod answers;
mod cards;
mod deep;
mod errors;
mod health;
mod hostile;
mod page;
mod peers;
mod sdks;
mod sharing;
mod stock;
mod tls;
mod web;
