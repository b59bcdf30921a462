//! Resources: systems and agents that are made while the server runs, beside those of its config.
//!
//! A resource is a document in Orloj's form ([`Resource`]). Those that were made are records of the store; a record of its
//! own counts every change, and its number is the `resourceVersion`. What a resource *means* only the binary knows: it
//! checks a change as it checks its config, builds the agents, has the change kept ([`Shelf::keep`]), puts it in force and
//! shows it ([`Shelf::show`]), in this order. A front only asks for it ([`Shelf::ask`]).
//!
//! | room | what |
//! |---|---|
//! | [`document`] | a resource as it is written and shown |
//! | [`selector`] | which labels are wanted |
//! | [`shelf`] | all there are, how they change, and who watches |

pub(crate) mod admission;
pub mod document;
pub(crate) mod rest;
pub mod selector;
pub mod shelf;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use gateway::admin::append_audit;
use model::{Fault, Json, Time};
use serde_json::json;

pub use document::Document;
pub use selector::Selector;
pub use shelf::{Ask, Change, Draft, Loaded, Refusal, Shelf, Verb, Write, load};

pub const API_VERSION: &str = "orloj.dev/v1";
/// The namespace of whoever names none.
pub const NAMESPACE: &str = "default";
/// Where a resource comes from, as an annotation.
pub const ORIGIN: &str = "rialto.dev/origin";
/// What a system does, as Orloj annotates it.
pub const DESCRIPTION: &str = "orloj.dev/description";

/// Resources of one sort.
pub const MOST: usize = 1_000;
/// A document, in bytes.
pub const DOCUMENT_BYTES: usize = 256 << 10;
/// Labels or annotations of one resource, and the bytes of a value.
pub const LABELS: usize = 64;
pub const LABEL_BYTES: usize = 256;
pub const ANNOTATION_BYTES: usize = 16 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sort {
    AgentSystem,
    Agent,
}

impl Sort {
    pub const ALL: [Sort; 2] = [Sort::Agent, Sort::AgentSystem];

    pub fn kind(self) -> &'static str {
        match self {
            Sort::AgentSystem => "AgentSystem",
            Sort::Agent => "Agent",
        }
    }

    /// As paths have it.
    pub fn plural(self) -> &'static str {
        match self {
            Sort::AgentSystem => "agent-systems",
            Sort::Agent => "agents",
        }
    }

    pub fn of_kind(kind: &str) -> Option<Sort> {
        Sort::ALL.into_iter().find(|sort| sort.kind() == kind)
    }

    pub(crate) fn record(self) -> &'static str {
        match self {
            Sort::AgentSystem => "orloj/agent-system",
            Sort::Agent => "orloj/agent",
        }
    }
}

/// Where a resource comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It was made while a server ran, and is kept in the store.
    Made,
    /// It is written in the config, or built in.
    Config,
}

impl Origin {
    pub fn name(self) -> &'static str {
        match self {
            Origin::Made => "api",
            Origin::Config => "config",
        }
    }
}

/// A system or an agent, as a document.
#[derive(Clone, Debug)]
pub struct Resource {
    pub sort: Sort,
    pub name: Arc<str>,
    pub namespace: Arc<str>,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// As it was written.
    pub spec: Json,
    /// How often its spec has changed.
    pub generation: u64,
    pub created_at: Option<Time>,
    /// The number of the change that made it what it is; zero for one of the config.
    pub revision: u64,
    pub origin: Origin,
    /// Why it is not served, if it is not.
    pub trouble: Option<String>,
}

impl Resource {
    /// One that nobody made: the config has it.
    pub fn of_config(sort: Sort, name: &str, spec: Json) -> Resource {
        Resource {
            sort,
            name: name.into(),
            namespace: NAMESPACE.into(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            spec,
            generation: 1,
            created_at: None,
            revision: 0,
            origin: Origin::Config,
            trouble: None,
        }
    }

    pub fn key(&self) -> (Sort, Arc<str>) {
        (self.sort, self.name.clone())
    }

    /// Whether somebody who looks sees the same.
    pub(crate) fn looks_like(&self, other: &Resource) -> bool {
        self.sort == other.sort
            && self.name == other.name
            && self.namespace == other.namespace
            && self.labels == other.labels
            && self.annotations == other.annotations
            && self.spec.text() == other.spec.text()
            && self.revision == other.revision
            && self.origin == other.origin
            && self.trouble == other.trouble
    }
}

/// Whether a resource, a namespace or a task of Orloj's can be named so: it is a segment of a path, and of a label.
pub fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (1..=64).contains(&text.len()) && text.chars().all(plain) && !text.starts_with('-')
}

/// A fault of the store, as it is told.
pub(crate) fn troubled(trouble: model::ports::store::StoreError) -> Fault {
    Fault::new(model::Kind::Unavailable, "the store cannot be reached now; try again shortly").because(trouble)
}

/// Adds a line to the audit log: who changed a resource, and how.
pub fn audit(folder: &Path, by: &str, verb: Verb, resource: &Resource) {
    let now = Time(jiff::Timestamp::now().as_millisecond());
    append_audit(
        folder,
        &json!({
            "at": now.to_string(),
            "what": resource.sort.plural(),
            "change": verb.name(),
            "name": &*resource.name,
            "version": resource.revision,
            "by": by,
        }),
    );
}
