//! Reads and writes the document of a resource: `apiVersion`, `kind`, `metadata`, `spec`, `status`.

use std::collections::BTreeMap;

use model::Json;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    ANNOTATION_BYTES, API_VERSION, DOCUMENT_BYTES, LABEL_BYTES, LABELS, NAMESPACE, ORIGIN, Origin, Resource,
    ResourceKind, is_name,
};
use gateway::mounts::RESERVED;

/// Orloj's kinds that this server does not have, with the advice for the caller.
const ELSEWHERE: &[(&str, &str)] = &[
    ("ModelEndpoint", "a model is an agent of kind openai in the config; an Agent names it as model_ref"),
    ("Tool", "a tool is an agent of kind mcp, http or command in the config, and a node of the system's graph"),
    ("McpServer", "an MCP server is an agent of kind mcp in the config"),
    ("Secret", "secrets stay outside: write env:NAME or file:PATH in the config"),
    ("SealedSecret", "secrets stay outside: write env:NAME or file:PATH in the config"),
    ("Memory", "what an agent remembers is its own; put an agent of kind http or mcp in front of it"),
    ("AgentPolicy", "what callers may do is policy in the config"),
    ("AgentRole", "what callers may do is policy in the config"),
    ("ToolPermission", "who is asked first is approval of a node in the system's graph"),
    ("ToolApproval", "approvals come of runs; decide them with POST /orloj/v1/tool-approvals/{name}/approve or /deny"),
    ("Task", "a run is made with POST /orloj/v1/tasks"),
    ("TaskSchedule", "call the system from a scheduler of yours, such as cron"),
    ("TaskWebhook", "call the system at its own address, or make a run with POST /orloj/v1/tasks"),
    ("Worker", "a worker is an agent of kind worker in the config"),
];

/// A document that a caller sent.
#[derive(Clone, Debug)]
pub struct ResourceDocument {
    pub kind: ResourceKind,
    pub name: String,
    pub namespace: Option<String>,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// The `resourceVersion` that the change is based on.
    pub version: Option<u64>,
    pub spec: Json,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct SentDocument {
    #[serde(default)]
    api_version: Option<String>,
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    metadata: ResourceMetadata,
    #[serde(default)]
    spec: Option<Json>,
    /// Written by the server; accepted without effect.
    #[serde(default, rename = "status")]
    _status: Option<serde::de::IgnoredAny>,
}

/// The members of `metadata`. `generation` and `createdAt` are accepted without effect.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase", expecting = "struct Metadata")]
pub(crate) struct ResourceMetadata {
    pub(crate) name: Option<String>,
    pub(crate) namespace: Option<String>,
    pub(crate) labels: Option<BTreeMap<String, String>>,
    pub(crate) annotations: Option<BTreeMap<String, String>>,
    pub(crate) resource_version: Option<Value>,
    #[serde(rename = "generation")]
    _generation: Option<serde::de::IgnoredAny>,
    #[serde(rename = "createdAt")]
    _created_at: Option<serde::de::IgnoredAny>,
}

impl ResourceDocument {
    /// Reads a document. `kind` is the one of the address. An error lists all mistakes, each with its path.
    pub fn read(text: &str, kind: Option<ResourceKind>) -> Result<ResourceDocument, Vec<String>> {
        if text.len() > DOCUMENT_BYTES {
            return Err(vec![format!("the document is larger than {DOCUMENT_BYTES} bytes; write less into it")]);
        }
        let sent: SentDocument = read(text).map_err(|wrong| vec![wrong])?;
        let mut wrong = Vec::new();
        if let Some(version) = sent.api_version.as_deref().filter(|version| *version != API_VERSION) {
            wrong.push(format!("apiVersion: {version:?} is not known; write {API_VERSION}"));
        }
        let kind = match (sent.kind.as_deref(), kind) {
            (Some(name), Some(kind)) if name != kind.name() => {
                wrong.push(format!("kind: {name:?} does not belong here; this address is for kind {}", kind.name()));
                Some(kind)
            }
            (None | Some(_), Some(kind)) => Some(kind),
            (Some(name), None) => ResourceKind::of_name(name).or_else(|| {
                wrong.push(unknown_kind(name));
                None
            }),
            (None, None) => {
                wrong.push("kind: is missing; write AgentSystem or Agent".to_owned());
                None
            }
        };
        let ResourceMetadata { name, namespace, labels, annotations, resource_version, .. } = sent.metadata;
        let name = name.unwrap_or_default();
        check_name("metadata.name", &name, &mut wrong);
        if name == "watch" || RESERVED.contains(&name.as_str()) {
            wrong.push(format!("metadata.name: {name:?} is an address; choose another"));
        }
        if let Some(namespace) = &namespace {
            check_name("metadata.namespace", namespace, &mut wrong);
        }
        let (labels, mut annotations) = (labels.unwrap_or_default(), annotations.unwrap_or_default());
        // The server adds it to documents, and callers may send it back.
        annotations.remove(ORIGIN);
        check_texts("metadata.labels", &labels, LABEL_BYTES, &mut wrong);
        check_texts("metadata.annotations", &annotations, ANNOTATION_BYTES, &mut wrong);
        let version = version_of(resource_version.as_ref()).unwrap_or_else(|says| {
            wrong.push(format!("metadata.resourceVersion: {says}"));
            None
        });
        let spec = sent.spec.filter(Json::is_object);
        if spec.is_none() {
            wrong.push("spec: is missing; write an object".to_owned());
        }
        match (kind, spec) {
            (Some(kind), Some(spec)) if wrong.is_empty() => {
                Ok(ResourceDocument { kind, name, namespace, labels, annotations, version, spec })
            }
            (_, _) => Err(wrong),
        }
    }
}

pub(crate) fn read<'t, T: Deserialize<'t>>(text: &'t str) -> Result<T, String> {
    // serde would also accept an array for a struct.
    if !text.trim_start().starts_with('{') {
        return Err("the body must be a JSON object".to_owned());
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    let read = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        if path == "." { error.inner().to_string() } else { format!("{path}: {}", error.inner()) }
    })?;
    reader.end().map_err(|error| error.to_string())?;
    Ok(read)
}

pub(crate) fn check_name(path: &str, name: &str, wrong: &mut Vec<String>) {
    if !is_name(name) {
        let shown: String = name.chars().take(64).collect();
        wrong.push(format!("{path}: {shown:?} is no name; write 1 to 64 letters, digits, - and _"));
    }
}

pub(crate) fn check_texts(path: &str, texts: &BTreeMap<String, String>, bytes: usize, wrong: &mut Vec<String>) {
    if texts.len() > LABELS {
        wrong.push(format!("{path}: there are more than {LABELS}; leave some out"));
    }
    for (key, value) in texts {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
        if key.is_empty() || key.len() > LABEL_BYTES || !key.chars().all(plain) {
            let shown: String = key.chars().take(64).collect();
            wrong.push(format!("{path}: {shown:?} is no key; write letters, digits, -, _, . and /"));
        } else if value.len() > bytes {
            wrong.push(format!("{path}.{key}: is longer than {bytes} bytes"));
        }
    }
}

fn unknown_kind(kind: &str) -> String {
    let shown: String = kind.chars().take(64).collect();
    match ELSEWHERE.iter().find(|(known, _)| *known == kind) {
        Some((_, says)) => format!("kind: {shown} is no resource of this server: {says}"),
        None => format!("kind: {shown:?} is not known; write AgentSystem or Agent"),
    }
}

/// Reads a `resourceVersion`: a number, or a string with a number.
fn version_of(value: Option<&Value>) -> Result<Option<u64>, String> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.is_empty() => Ok(None),
        Some(Value::String(text)) => text.parse().map(Some).map_err(|_| not_a_version(text)),
        Some(Value::Number(number)) => number.as_u64().map(Some).ok_or_else(|| not_a_version(&number.to_string())),
        Some(other) => Err(not_a_version(&other.to_string())),
    }
}

pub(crate) fn not_a_version(text: &str) -> String {
    let shown: String = text.chars().take(64).collect();
    format!("{shown:?} is no version; write the one that a get or a list showed, or leave it out")
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireDocument<'r> {
    api_version: &'static str,
    kind: &'static str,
    metadata: WireMetadata<'r>,
    spec: &'r Json,
    status: WireStatus<'r>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireMetadata<'r> {
    name: &'r str,
    namespace: &'r str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: &'r BTreeMap<String, String>,
    annotations: BTreeMap<&'r str, &'r str>,
    resource_version: String,
    generation: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_at: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireStatus<'r> {
    phase: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<&'r str>,
    observed_generation: u64,
}

impl Resource {
    /// The document in JSON.
    pub fn to_json(&self) -> String {
        let mut annotations: BTreeMap<&str, &str> =
            self.annotations.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        match self.origin {
            Origin::Config => drop(annotations.insert(ORIGIN, Origin::Config.name())),
            Origin::Made => {}
        }
        let shown = WireDocument {
            api_version: API_VERSION,
            kind: self.kind.name(),
            metadata: WireMetadata {
                name: &self.name,
                namespace: &self.namespace,
                labels: &self.labels,
                annotations,
                resource_version: self.revision.to_string(),
                generation: self.generation,
                created_at: self.created_at.map(|at| at.to_string()),
            },
            spec: &self.spec,
            status: WireStatus {
                phase: if self.trouble.is_some() { "Error" } else { "Ready" },
                last_error: self.trouble.as_deref(),
                observed_generation: self.generation,
            },
        };
        // Strings, numbers and JSON can always be serialized.
        serde_json::to_string(&shown).unwrap_or_default()
    }
}

impl ResourceDocument {
    pub fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or(NAMESPACE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> String {
        ResourceDocument::read(text, None).unwrap_err().join("\n")
    }

    #[test]
    fn a_document_is_read_in_orlojs_form_and_its_spec_kept_as_it_is_written() {
        let text = r#"{"apiVersion":"orloj.dev/v1","kind":"AgentSystem","metadata":{"name":"a","labels":{"x":"y"},
            "resourceVersion":"7","generation":3,"createdAt":"x"},"spec":{"z":1,"a":2},"status":{"phase":"Ready"}}"#;
        let read = ResourceDocument::read(text, Some(ResourceKind::AgentSystem)).unwrap();
        assert_eq!((read.name.as_str(), read.namespace(), read.version), ("a", "default", Some(7)));
        assert_eq!(read.spec.text(), r#"{"z":1,"a":2}"#, "nodes follow the order they were written in");
    }

    #[test]
    fn everything_that_is_wrong_is_told_at_once_with_its_path() {
        let text = r#"{"apiVersion":"v2","kind":"Tool","metadata":{"name":"a b","namespace":"/","labels":{"ü":"x"},
            "resourceVersion":"x"},"spec":[]}"#;
        let said = wrong(text);
        for piece in [
            "apiVersion: \"v2\"",
            "a tool is an agent of kind mcp",
            "metadata.name: \"a b\"",
            "metadata.namespace: \"/\"",
            "metadata.labels: \"ü\"",
            "metadata.resourceVersion: \"x\" is no version",
            "spec: is missing",
        ] {
            assert!(said.contains(piece), "{piece} is not in {said}");
        }
        assert!(wrong(r#"{"metadata":{"nam":"a"}}"#).contains("metadata.nam: unknown field `nam`"));
        assert!(wrong(r#"{"kind":"Agent","metadata":{"name":"watch"},"spec":{}}"#).contains("is an address"));
        assert!(wrong("{} {}").contains("trailing"));
        assert!(wrong(&format!(r#"{{"kind":"{}"}}"#, "x".repeat(DOCUMENT_BYTES))).contains("larger than"));
        let elsewhere = ResourceDocument::read(
            r#"{"kind":"Agent","metadata":{"name":"a"},"spec":{}}"#,
            Some(ResourceKind::AgentSystem),
        );
        assert!(elsewhere.unwrap_err()[0].contains("this address is for kind AgentSystem"));
    }
}
