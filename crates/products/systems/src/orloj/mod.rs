//! Orloj's A2A endpoint: systems of agents, each called as if it were one.
//!
//! It is the first generation in its methods and little else: a task has no time and no session, artifacts always have an
//! index, metadata is a map of texts, a stream has bare tasks in events named `status`, and codes mean other things.
//!
//! * [`decode`] makes a [`model::Call`] of a request, and says which system it is for.
//! * [`encode`] writes tasks and frames.
//! * [`errors`] says what a fault looks like.
//! * [`card`] is a system's card, and the registry of them.

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

/// The name a task remembers its opener's dialect under.
pub const NAME: &str = "orloj";

/// The methods. Names of 1.0 at the same address are [`dialects::a2a_v1`]'s.
pub const METHODS: &[&str] = &["tasks/send", "tasks/sendSubscribe", "tasks/get", "tasks/cancel"];

/// The namespace of whoever names none.
pub const NAMESPACE: &str = "default";

/// The longest reason of a cancel that is kept, in bytes.
pub const REASON_BYTES: usize = 1_024;
/// The reason of a cancel that gives none.
pub const NO_REASON: &str = "cancelled via A2A";

/// Of a caller's id, so much stands in a task's own name.
const SHOWN_ID: usize = 48;

/// Which system is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemAddress<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
}

impl SystemAddress<'_> {
    /// The name that a task has beside the id its caller chose: the same for the same id at the same system.
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

/// Whether a method is one of 1.0, which is spoken at the same addresses.
pub fn is_newer(method: &str) -> bool {
    method.starts_with(|c: char| c.is_ascii_uppercase())
}
