//! The client and remote agents, with this gateway and with scripted servers as the other side.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a harness fails by panicking in the test that uses it")]

mod a2a;
mod a2a_trouble;
mod client;
mod common;
mod whole_answers;
