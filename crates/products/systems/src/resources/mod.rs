//! Resources: systems and agents that are made while the server runs, beside those of its config.
//!
//! A resource is a document in Orloj's form ([`Resource`]). Those that were made are records of the store; a record of its
//! own counts every change, and its number is the `resourceVersion`. What a resource *means* only the binary knows: it
//! checks a change as it checks its config, builds the agents, has the change kept ([`ResourceRegistry::keep`]), puts it in force and
//! shows it ([`ResourceRegistry::show`]), in this order. A front only asks for it ([`ResourceRegistry::ask`]).
//!
//! | room | what |
//! |---|---|
//! | [`document`] | a resource as it is written and shown |
//! | [`selector`] | which labels are wanted |
//! | [`registry`] | all there are, how they change, and who watches |

pub mod document;
pub mod registry;
pub(crate) mod rest;
pub mod selector;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use gateway::admin::append_audit;
use model::{Fault, Json, Time};
use serde_json::json;

pub use document::ResourceDocument;
pub use registry::{
    ChangeOutcome, ChangePlan, PendingChange, ResourceRegistry, ResourceWrite, StoredResources, WriteRequest, load,
};
pub use selector::Selector;

pub const API_VERSION: &str = "orloj.dev/v1";
/// The namespace of whoever names none.
pub const NAMESPACE: &str = "default";
/// Where a resource comes from, as an annotation.
pub const ORIGIN: &str = "rialto.dev/origin";
/// What a system does, as Orloj annotates it.
pub const DESCRIPTION: &str = "orloj.dev/description";

/// Resources of one kind.
pub const MOST: usize = 1_000;
/// A document, in bytes.
pub const DOCUMENT_BYTES: usize = 256 << 10;
/// Labels or annotations of one resource, and the bytes of a value.
pub const LABELS: usize = 64;
pub const LABEL_BYTES: usize = 256;
pub const ANNOTATION_BYTES: usize = 16 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ResourceKind {
    AgentSystem,
    Agent,
}

impl ResourceKind {
    pub const ALL: [ResourceKind; 2] = [ResourceKind::Agent, ResourceKind::AgentSystem];

    pub fn name(self) -> &'static str {
        match self {
            ResourceKind::AgentSystem => "AgentSystem",
            ResourceKind::Agent => "Agent",
        }
    }

    /// As paths have it.
    pub fn plural(self) -> &'static str {
        match self {
            ResourceKind::AgentSystem => "agent-systems",
            ResourceKind::Agent => "agents",
        }
    }

    pub fn of_name(name: &str) -> Option<ResourceKind> {
        ResourceKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    pub(crate) fn record(self) -> &'static str {
        match self {
            ResourceKind::AgentSystem => "orloj/agent-system",
            ResourceKind::Agent => "orloj/agent",
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
    pub kind: ResourceKind,
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
    pub fn of_config(kind: ResourceKind, name: &str, spec: Json) -> Resource {
        Resource {
            kind,
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

    pub fn key(&self) -> (ResourceKind, Arc<str>) {
        (self.kind, self.name.clone())
    }

    /// Whether somebody who looks sees the same.
    pub(crate) fn looks_like(&self, other: &Resource) -> bool {
        self.kind == other.kind
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
pub fn audit(folder: &Path, by: &str, outcome: ChangeOutcome, resource: &Resource) {
    let now = Time(jiff::Timestamp::now().as_millisecond());
    append_audit(
        folder,
        &json!({
            "at": now.to_string(),
            "what": resource.kind.plural(),
            "change": outcome.name(),
            "name": &*resource.name,
            "version": resource.revision,
            "by": by,
        }),
    );
}
