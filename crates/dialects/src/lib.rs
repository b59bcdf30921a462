//! The wires. Each dialect is a pure codec, in both directions, between bytes and the nouns of [`model`]: it decodes a
//! request to a [`model::Call`], and encodes tasks, events and faults back. No I/O, no clock, no randomness, no state.
//!
//! * [`framing`] is shared by the dialects: the JSON writer and reader, the JSON-RPC envelope, SSE, query strings.
//! * [`a2a_v1`] is protocol 1.0 over JSON-RPC and HTTP+JSON; [`a2a_v0_3`] is 0.3 and 0.2 over both; [`a2a_v0_1`] is the
//!   first generation; [`a2a_v0`] answers where a request may be of either of the last two. Their shared code is in `compat`.
//! * `kit` has the parts of these codecs that dialects of products are built from.
//! * [`mod@wire`] is the interface of all dialects for fronts; [`mod@decide`] finds the dialect of a request.
//! * [`card`] writes the agent's card for readers of every generation; [`card_read`] reads the cards of other servers.
//! * [`mod@peer`] is the client's direction: requests to other servers (`request` in each folder); [`seen`] has the types of
//!   their answers (`read` in each folder).
//!
//! A new dialect is a folder and a line in [`WIRES`], and one in [`PEERS`] for its client side. Only this crate contains A2A
//! wire formats. The effect of a call is decided elsewhere.

pub mod a2a_v0;
pub mod a2a_v0_1;
pub mod a2a_v0_3;
pub mod a2a_v1;
pub mod card;
pub mod card_read;
mod compat;
mod complaint;
pub mod decide;
pub mod framing;
#[doc(hidden)]
pub mod kit;
pub mod peer;
mod pre_v1;
mod repair;
pub mod seen;
pub mod wire;

pub use decide::{Decided, decide, decide_route};
pub use peer::{PEERS, Peer};
pub use wire::{Codec, JsonWire};

/// Every form of every dialect.
pub static WIRES: &[&'static dyn JsonWire] =
    &[&a2a_v1::WIRE, &a2a_v0_3::RPC, &a2a_v0_3::REST, &a2a_v0_1::RPC, &a2a_v0::RPC];

/// The dialects there are, by the name a task remembers its opener's dialect under.
pub const NAMES: &[&str] = &[a2a_v1::NAME, a2a_v0_3::NAME, a2a_v0_3::REST_NAME, a2a_v0_1::NAME];

/// A form over JSON by its name.
pub fn wire(name: &str) -> Option<&'static dyn JsonWire> {
    WIRES.iter().copied().find(|wire| wire.name() == name)
}
