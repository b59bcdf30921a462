//! Black-box tests: the built binary, driven over its sockets.
//!
//! This crate uses none of our types. The tests in `tests/` start the program as a user does and talk to it as
//! external clients: with third-party clients (`clients/`), or with this crate's small HTTP client where a scenario
//! needs bytes that no proper client sends.
//!
//! - [`server`] starts, kills and restarts the binary on one data folder and one port.
//! - [`store`] chooses the store of the scenarios.
//! - [`http`] is HTTP/1.1 on a plain socket, [`sse`] reads event streams and checks the order of their ids.
//! - [`client`] speaks A2A 1.0 with those two, in both bindings.
//! - [`tongue`] makes the same calls in every generation and binding.
//! - [`peer`] starts third-party servers, as agents of the binary.
//! - [`grpc`] is gRPC on a plain connection, with frames and messages that no proper client sends.
//! - [`receiver`] receives webhooks and answers them as a test says, also with failures.
//! - [`operation`] requests every operation in every generation and binding, and classifies the answers.
//! - [`fold`] folds stream frames into a task, as a client does.
//! - [`seed`] gives random tests a printed, repeatable seed; [`poll`] waits for a condition, never for a time.
//! - [`setup`] finds or builds the requirements outside this workspace.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a harness fails by panicking in the test that uses it")]

pub mod client;
pub mod fold;
pub mod grpc;
pub mod http;
pub mod operation;
pub mod peer;
pub mod poll;
pub mod receiver;
pub mod seed;
pub mod server;
pub mod setup;
pub mod sse;
pub mod store;
pub mod tongue;

pub use client::{Client, assert_rest_fault, assert_rpc_fault, fresh_id, message, parts, script, send, to_task};
pub use fold::Fold;
pub use operation::{Answer, Operation, Verdict};
pub use poll::until;
pub use receiver::{Delivery, Receiver, Reply};
pub use server::Server;
pub use sse::{Events, Frame, Next};
pub use tongue::{Heard, Seen, Speaker, Tongue, Watch, folded};
