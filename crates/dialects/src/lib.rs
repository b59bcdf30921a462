//! The wires. Each dialect is a pure codec, in both directions, between bytes and the nouns of [`model`]: it decodes a
//! request to a [`model::Call`], and encodes tasks, events and faults back. No I/O, no clock, no randomness, no state.
//!
//! * [`framing`] is what dialects share: the JSON writer and reader, the JSON-RPC envelope, SSE, query strings.
//! * [`a2a_v1`] is protocol 1.0 over JSON-RPC and HTTP+JSON. Older generations get a folder each beside it, with the same
//!   rooms (shapes, decode, rest, encode, errors, card), and one line in [`NAMES`].
//!
//! This is the only crate that knows an A2A wire. Nothing here decides what a call does.

pub mod a2a_v1;
pub mod framing;

/// The dialects there are, by the name a task remembers its opener's dialect under.
pub const NAMES: &[&str] = &[a2a_v1::NAME];
