//! The wires. Each dialect is a pure codec, in both directions, between bytes and the nouns of [`model`]: it decodes a
//! request to a [`model::Call`], and encodes tasks, events and faults back. No I/O, no clock, no randomness, no state.
//!
//! * [`framing`] is shared by the dialects: the JSON writer and reader, the JSON-RPC envelope, SSE, query strings.
//! * [`a2a_v1`] is protocol 1.0 over JSON-RPC, HTTP+JSON and gRPC; [`a2a_v0_3`] is 0.3 and 0.2 over all three; [`a2a_v0_1`] is the
//!   first generation; [`a2a_v0`] answers where a request may be of either of the last two. Their shared code is in `compat`.
//!   In each folder `decode` reads the methods of JSON-RPC, `rest` the routes, `grpc` the messages of gRPC, and `errors` has
//!   the table of faults; fields shared before 1.0 are read in `compat::decode`.
//! * `kit` has the parts of these codecs that dialects of products are built from.
//! * [`mod@proto_wire`] and [`protobuf`] are the interface and the encoding of the forms over gRPC.
//! * [`mod@wire`] is the interface of all dialects for fronts; [`mod@decide`] finds the dialect of a request.
//! * [`card`] writes the agent's card for readers of every generation; [`card_read`] reads the cards of other servers.
//! * [`mod@peer`] and [`mod@proto_peer`] are the client's direction: requests to other servers (`request` in each folder);
//!   [`seen`] has the types of their answers (`read` in each folder).
//!
//! `ARCHITECTURE.md` lists the places of a new dialect. Only this crate contains A2A
//! wire formats. The effect of a call is decided elsewhere.

pub mod a2a_v0;
pub mod a2a_v0_1;
pub mod a2a_v0_3;
pub mod a2a_v1;
pub mod card;
pub mod card_check;
mod card_proto;
pub mod card_read;
mod compat;
mod complaint;
pub mod decide;
pub mod framing;
#[doc(hidden)]
pub mod kit;
pub mod peer;
mod pre_v1;
mod proto_answer;
mod proto_json;
pub mod proto_peer;
pub mod proto_wire;
pub mod protobuf;
mod repair;
pub mod seen;
pub mod wire;

pub use decide::{Decided, decide, decide_route};
pub use peer::{PEERS, Peer};
pub use proto_peer::{PROTO_PEERS, ProtoPeer};
pub use proto_wire::ProtoWire;
pub use wire::{Codec, JsonWire};

/// Every form of every dialect.
pub static WIRES: &[&'static dyn JsonWire] =
    &[&a2a_v1::WIRE, &a2a_v0_3::RPC, &a2a_v0_3::REST, &a2a_v0_1::RPC, &a2a_v0::RPC];

/// Every form over gRPC.
pub static PROTO_WIRES: &[&'static dyn ProtoWire] = &[&a2a_v1::grpc::GRPC, &a2a_v0_3::grpc::GRPC];

/// Every form, whatever its encoding.
pub fn codecs() -> impl Iterator<Item = &'static dyn Codec> {
    let json = WIRES.iter().map(|wire| *wire as &'static dyn Codec);
    json.chain(PROTO_WIRES.iter().map(|wire| *wire as &'static dyn Codec))
}

/// The wire of webhooks that were registered in the form of that name: their bodies are JSON, whatever the form is.
pub fn webhook_wire(name: &str) -> Option<&'static dyn JsonWire> {
    let proto = || PROTO_WIRES.iter().find(|wire| wire.name() == name).map(|wire| wire.webhook_wire());
    wire(name).or_else(proto)
}

/// A form over JSON by its name.
pub fn wire(name: &str) -> Option<&'static dyn JsonWire> {
    WIRES.iter().copied().find(|wire| wire.name() == name)
}
