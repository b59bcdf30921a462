//! The engine through its public API, over real stores, with built-in and test agents. Each test runs on both stores
//! (`common::on_both_stores`); each file is one topic. One binary, so that it is linked once.
//!
//! `common` has the environment of a test: a store that can be killed, filled up and slowed down, agents that a test
//! drives step by step, and short texts for the items of subscriptions.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

mod common;

mod aliases;
mod backpressure;
mod billing;
mod blobs;
mod cancel;
mod continuation;
mod doubt;
mod drain;
mod hidden_tasks;
mod idempotency;
mod interleavings;
mod lists;
mod memory;
mod misbehaviour;
mod outbox;
mod outbox_crash;
mod outbox_retries;
mod product_tasks;
mod push_cleared;
mod push_configs;
mod push_inline;
mod push_shared;
mod recovery;
mod replicas;
mod replies;
mod resume;
mod send;
mod setbacks;
mod store_trouble;
mod stream;
mod subscriptions;
mod swap;
mod timeouts;
mod visibility;
mod waiting;
