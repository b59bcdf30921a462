//! Orloj's A2A dialect and its JSON-RPC endpoint.
//!
//! The methods are those of A2A 0.1; the rest differs: a task has neither timestamps nor a session, artifacts always have
//! an index, metadata is a map of strings, a stream has bare tasks in events named `status`, and error codes have other
//! meanings.
//!
//! * [`decode`] converts a request into a [`model::Call`] and the system it names.
//! * [`encode`] writes tasks and the frames of streams.
//! * [`errors`] converts a fault into the product's error.
//! * [`card`] writes the card of a system, and the registry of cards.
//! * `endpoint` answers requests; `feed` is a stream, `cards` serves cards, and `state` has tokens and limits.

pub mod card;
mod cards;
pub mod decode;
pub mod encode;
pub(crate) mod endpoint;
pub mod errors;
mod feed;
pub(crate) mod state;

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

/// The name of the dialect. Tasks store it.
pub const NAME: &str = "orloj";

/// The methods. Methods of A2A 1.0 at the same addresses belong to [`dialects::a2a_v1`].
pub const METHODS: &[&str] = &["tasks/send", "tasks/sendSubscribe", "tasks/get", "tasks/cancel"];

/// The namespace of requests and resources that name none.
pub const NAMESPACE: &str = "default";

/// The longest stored reason of a cancel, in bytes.
pub const REASON_BYTES: usize = 1_024;
/// The reason of a cancel that gives none.
pub const NO_REASON: &str = "cancelled via A2A";

/// The characters of a caller's id that appear in the task's name.
const SHOWN_ID: usize = 48;

/// The namespace and name of a system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemAddress<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
}

impl SystemAddress<'_> {
    /// The name of a task, derived from the id that its caller chose and from the system.
    pub fn task_name(&self, id: &str) -> String {
        let mut hash = Sha256::new();
        for text in [self.namespace, "/", self.name, "\0", id] {
            hash.update(text);
        }
        let mut name = String::from("a2a-");
        for byte in &hash.finalize()[..6] {
            let _ = write!(name, "{byte:02x}");
        }
        let plain = id.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' });
        let shown: String = plain.take(SHOWN_ID).collect();
        let shown = shown.trim_matches('-');
        if !shown.is_empty() {
            name.push('-');
            name.push_str(shown);
        }
        name
    }
}

/// Whether a method is one of A2A 1.0, which is served at the same addresses.
pub fn is_newer(method: &str) -> bool {
    method.starts_with(|c: char| c.is_ascii_uppercase())
}
