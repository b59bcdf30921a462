//! The market as a whole, under whatever may happen in it.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod any_sequence;
mod bazaar;
mod corruptions;
mod differences;
