//! The interface of all dialects for clients: requests to another server, and readers of its answers. One [`Peer`] for each
//! form over JSON that a server may use, all of them in [`PEERS`]; [`crate::proto_peer`] has those over gRPC. A [`PeerForm`]
//! is one of either.
//!
//! A peer writes a [`Call`] as a request below the interface's URL and reads answers into [`crate::seen`]. It never
//! sends: connections, credentials and time are the caller's.

use std::fmt;

use bytes::Bytes;
use model::{Call, Fault, Kind, PushConfig};

use crate::card::{Binding, InterfaceBinding};
use crate::framing::json::Writer;
use crate::proto_peer::{PROTO_PEERS, ProtoPeer};
use crate::seen::{self, ErrorSeen, PageSeen, Seen, TaskSeen};
use crate::wire::Operation;
use crate::{a2a_v0_1, a2a_v0_3, a2a_v1};

/// Every form a server may take, the newest generation first.
pub static PEERS: &[&'static dyn Peer] = &[
    &a2a_v1::request::RPC,
    &a2a_v1::request::REST,
    &a2a_v0_3::request::RPC,
    &a2a_v0_3::request::REST,
    &a2a_v0_1::request::RPC,
];

/// The form of a generation over a binding, if there is one.
pub fn peer(generation: Generation, binding: Binding) -> Option<&'static dyn Peer> {
    PEERS.iter().copied().find(|peer| peer.facts().generation == generation && peer.binding() == binding)
}

/// A form of a generation, whatever its encoding.
#[derive(Clone, Copy, Debug)]
pub enum PeerForm {
    Json(&'static dyn Peer),
    Proto(&'static ProtoPeer),
}

impl PeerForm {
    /// The form of a generation over a binding, if there is one.
    pub fn of(generation: Generation, binding: InterfaceBinding) -> Option<PeerForm> {
        match binding {
            InterfaceBinding::Json(binding) => peer(generation, binding).map(PeerForm::Json),
            InterfaceBinding::Grpc => {
                let of = |peer: &&ProtoPeer| peer.facts.generation == generation;
                PROTO_PEERS.iter().copied().find(of).map(PeerForm::Proto)
            }
        }
    }

    /// The service that it calls, over gRPC.
    pub fn service(self) -> Option<&'static str> {
        match self {
            PeerForm::Json(_) => None,
            PeerForm::Proto(peer) => Some(peer.service),
        }
    }

    pub fn facts(self) -> &'static PeerFacts {
        match self {
            PeerForm::Json(peer) => peer.facts(),
            PeerForm::Proto(peer) => &peer.facts,
        }
    }
}

/// The form of that name.
pub fn by_name(name: &str) -> Option<&'static dyn Peer> {
    PEERS.iter().copied().find(|peer| peer.facts().name == name)
}

/// One form of one generation, as its clients speak it.
pub trait Peer: fmt::Debug + Send + Sync {
    fn facts(&self) -> &'static PeerFacts;

    fn binding(&self) -> Binding;

    /// Writes a call. A generation without the operation, or a call it cannot say, is a fault.
    fn ask(&self, call: &Call, asking: &RequestOptions<'_>) -> Result<PeerRequest, Fault>;

    /// The kind of fault that an error code of this generation stands for.
    fn kind_of(&self, code: i64) -> Option<Kind>;

    /// The answer to a send.
    fn sent(&self, result: &str) -> Result<Seen, Fault>;

    /// The value of a stream's frame.
    fn event(&self, value: &str) -> Result<Seen, Fault>;

    /// The answer to a get or a cancel.
    fn task(&self, result: &str) -> Result<TaskSeen, Fault>;

    /// A page of a list.
    fn page(&self, _result: &str) -> Result<PageSeen, Fault> {
        Err(self.facts().without("lists"))
    }

    /// A push config, in whichever of the shapes that servers answer with.
    fn push_config(&self, result: &str) -> Result<PushConfig, Fault> {
        seen::push_config(result)
    }

    /// All push configs of a task, and the token of the next page.
    fn push_configs(&self, result: &str) -> Result<(Vec<PushConfig>, Option<String>), Fault> {
        seen::push_configs(result)
    }
}

/// How answers are framed is the binding's, whatever the generation.
impl dyn Peer {
    /// The result in the body of an answer; the HTTP status is looked at where the body says nothing.
    pub fn result<'t>(&self, status: u16, body: &'t str, operation: Operation) -> Result<&'t str, ErrorSeen> {
        match self.binding() {
            Binding::JsonRpc => seen::rpc_result(self, Some(status), body, operation),
            Binding::HttpJson => seen::rest_result(self, status, body, operation),
        }
    }

    /// The value in one frame of a stream. `event` is the frame's name.
    pub fn frame<'t>(&self, event: Option<&str>, data: &'t str, operation: Operation) -> Result<&'t str, ErrorSeen> {
        match self.binding() {
            Binding::JsonRpc => seen::rpc_result(self, None, data, operation),
            Binding::HttpJson => seen::rest_frame(self, event, data, operation),
        }
    }
}

/// The properties of a form that need no code.
#[derive(Debug)]
pub struct PeerFacts {
    pub name: &'static str,
    pub generation: Generation,
    /// The value of `A2A-Version`; `None` for a generation that has no such header.
    pub version: Option<&'static str>,
    /// The headers that name extensions.
    pub extension_headers: &'static [&'static str],
    /// A send may be answered by a message instead of a task.
    pub replies: bool,
    /// The sender chooses the task's id, as [`model::Send::alias`].
    pub chooses_ids: bool,
}

impl PeerFacts {
    /// The fault for what this generation has no word for.
    pub(crate) fn without(&self, what: &str) -> Fault {
        Fault::new(Kind::Unsupported, format!("A2A {} has no {what}", self.generation))
    }

    pub(crate) fn headers(&self, asking: &RequestOptions<'_>) -> Vec<(&'static str, String)> {
        let mut headers = Vec::new();
        if let Some(version) = self.version {
            headers.push(("A2A-Version", version.to_owned()));
        }
        if !asking.extensions.is_empty() {
            let uris = asking.extensions.join(", ");
            headers.extend(self.extension_headers.iter().map(|name| (*name, uris.clone())));
        }
        headers
    }
}

/// A generation of the protocol, by the name its cards and headers use. 0.2 is spoken as 0.3 is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Generation {
    V0_1,
    V0_3,
    V1_0,
}

impl Generation {
    /// The newest first.
    pub const ALL: [Generation; 3] = [Generation::V1_0, Generation::V0_3, Generation::V0_1];

    pub fn name(self) -> &'static str {
        match self {
            Generation::V1_0 => "1.0",
            Generation::V0_3 => "0.3",
            Generation::V0_1 => "0.1",
        }
    }

    /// The generation a version belongs to; `None` for an unknown version.
    pub fn of(version: (u32, u32)) -> Option<Generation> {
        match version {
            (1, _) => Some(Generation::V1_0),
            (0, 2 | 3) => Some(Generation::V0_3),
            (0, 0 | 1) => Some(Generation::V0_1),
            (_, _) => None,
        }
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Generation {
    type Err = String;
    fn from_str(text: &str) -> Result<Generation, String> {
        let known = crate::a2a_v1::version::parse(text).and_then(Generation::of);
        known.ok_or_else(|| format!("{text:?} is no generation spoken here; use 1.0, 0.3, 0.2 or 0.1"))
    }
}

/// The facts of a request besides its call.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestOptions<'a> {
    /// The tenant of the interface.
    pub tenant: Option<&'a str>,
    /// Extensions to be active.
    pub extensions: &'a [String],
    /// The id of the envelope, where there is one.
    pub id: u64,
}

/// A request, ready to be sent below the interface's URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerRequest {
    pub operation: Operation,
    pub verb: &'static str,
    /// The verb to retry with after a 405: servers disagree on some verbs.
    pub or_verb: Option<&'static str>,
    /// Follows the interface's URL; empty where there is one URL for everything.
    pub path: String,
    pub query: Option<String>,
    /// JSON.
    pub body: Option<Bytes>,
    pub headers: Vec<(&'static str, String)>,
}

/// A JSON-RPC request with these params.
pub(crate) fn rpc(
    facts: &PeerFacts,
    operation: Operation,
    method: &str,
    asking: &RequestOptions<'_>,
    params: impl FnOnce(&mut Writer),
) -> Result<PeerRequest, Fault> {
    let mut w = Writer::with_capacity(1_024);
    w.begin_object();
    w.key("jsonrpc").plain("2.0");
    w.key("id").u64(asking.id);
    w.key("method").plain(method);
    params(w.key("params"));
    w.end_object();
    let body = Some(bytes_of(w)?);
    let headers = facts.headers(asking);
    Ok(PeerRequest { operation, verb: "POST", or_verb: None, path: String::new(), query: None, body, headers })
}

/// An HTTP+JSON request without query or body.
pub(crate) fn rest(
    facts: &PeerFacts,
    operation: Operation,
    verb: &'static str,
    path: String,
    asking: &RequestOptions<'_>,
) -> PeerRequest {
    PeerRequest { operation, verb, or_verb: None, path, query: None, body: None, headers: facts.headers(asking) }
}

/// The written bytes. Large content must have been loaded: a request cannot point into a store.
pub(crate) fn bytes_of(w: Writer) -> Result<Bytes, Fault> {
    let encoded = w.finish();
    encoded.as_bytes().cloned().ok_or_else(|| Fault::internal("a request refers to content that was not loaded"))
}

/// Pairs of a query, encoded.
pub(crate) fn query(pairs: &[(&str, Option<String>)]) -> Option<String> {
    let given = pairs.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    let text = given.map(|(name, value)| format!("{name}={}", escaped(value))).collect::<Vec<_>>().join("&");
    if text.is_empty() { None } else { Some(text) }
}

/// Text as a path segment or a query's value: everything but the unreserved characters escaped.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}
