//! Black-box tests: the built binary, driven over its sockets.
//!
//! Nothing here knows a type of ours. The tests in `tests/` start the program a user would start and talk to it as
//! strangers do: with other people's clients (`clients/`), or with the small HTTP client of this crate where a
//! scenario needs bytes that no polite client sends.
//!
//! - [`server`] starts, kills and restarts the binary on one data folder and one port.
//! - [`store`] chooses the store that scenarios run on.
//! - [`http`] is HTTP/1.1 on a plain socket, [`sse`] reads event streams and checks the order of their ids.
//! - [`client`] speaks A2A 1.0 with those two, in both bindings.
//! - [`tongue`] makes the same few calls in every generation and binding.
//! - [`receiver`] takes webhooks and answers them as badly as a test wants.
//! - [`operation`] asks for everything there is to ask for, in every tongue, and sorts the answers.
//! - [`fold`] is the reader's half of artifact streaming: what a client holds after a number of frames.
//! - [`seed`] gives random tests a printed, repeatable seed; [`poll`] waits for a condition, never for a time.
//! - [`setup`] finds or makes what the tests need outside this workspace.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a harness fails by panicking in the test that uses it")]

pub mod client;
pub mod fold;
pub mod http;
pub mod operation;
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
