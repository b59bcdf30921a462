//! Systems as agents of an engine, with the engine's own test kit.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a harness fails by panicking in the test that uses it")]

#[allow(unused_imports, dead_code, reason = "these tests use a part of it")]
#[path = "../../../../engine/tests/engine/common/mod.rs"]
mod common;
mod crashes;
mod graphs;
mod kit;
