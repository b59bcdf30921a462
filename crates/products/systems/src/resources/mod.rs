//! Resources: systems and agents as documents, those of the config and those created while the server runs.
//!
//! A [`Resource`] is a document in Orloj's form. Those created at runtime are records of the store; one more record counts
//! all changes, and its number is the `resourceVersion`. The binary makes a change, because it alone can build agents: it
//! checks the change like the config, builds the agents, stores the change ([`ResourceRegistry::keep`]), swaps the agents
//! in, and publishes the new state ([`ResourceRegistry::show`]), in this order. An endpoint requests a change with
//! [`ResourceRegistry::ask`].
//!
//! | module | content |
//! |---|---|
//! | [`document`] | reads and writes documents |
//! | [`selector`] | label selectors |
//! | [`registry`] | all resources, their changes, and watches |
//! | `rest` | the REST endpoints |

pub(crate) mod admission;
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
/// The namespace of documents that name none.
pub const NAMESPACE: &str = "default";
/// The annotation with the origin of a resource.
pub const ORIGIN: &str = "rialto.dev/origin";
/// Orloj's annotation with the description of a system.
pub const DESCRIPTION: &str = "orloj.dev/description";

/// The most resources of one kind.
pub const MOST: usize = 1_000;
/// The largest document, in bytes.
pub const DOCUMENT_BYTES: usize = 256 << 10;
/// The most labels or annotations of one resource, and the longest label and annotation in bytes.
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

    /// The collection in a path.
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

/// The origin of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Created at runtime, and stored as a record.
    Made,
    /// Written in the config, or built in.
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
    /// The JSON text as it was sent.
    pub spec: Json,
    /// The number of versions of its spec.
    pub generation: u64,
    pub created_at: Option<Time>,
    /// The number of its last change; zero for a resource of the config.
    pub revision: u64,
    pub origin: Origin,
    /// The reason why it is not served.
    pub trouble: Option<String>,
}

impl Resource {
    /// A resource of the config.
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

    /// Whether its document is the same.
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

/// Whether a text is a valid name of a resource, a namespace or a run: it fits into a path and into a label.
pub fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (1..=64).contains(&text.len()) && text.chars().all(plain) && !text.starts_with('-')
}

/// The fault for an error of the store.
pub(crate) fn store_fault(error: model::ports::store::StoreError) -> Fault {
    Fault::new(model::Kind::Unavailable, "the store cannot be reached now; try again shortly").because(error)
}

/// Adds a line about a change of a resource to the audit log.
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
