//! Tests of the market as its callers see it: whole purchases on real stores with small agents. Each file is one topic.
//! One test binary, so that it is linked once.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

mod common;

mod agents;
mod callbacks;
mod clock;
mod crash;
mod demands;
mod files;
mod jobs;
mod limits;
mod notices;
mod prices;
mod purchases;
mod stress;
mod webhooks;
