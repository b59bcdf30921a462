//! The spec of a system: the members of Orloj's `AgentSystem`, and a few of our own.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::condition::Condition;
use model::OnOff;

/// A graph of agents that is one agent to its callers.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct System {
    /// The name on its card. Default: the system's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it does, for its card.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Default `default`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The agents that take part. May be left out where `graph` names them; without a `graph` they work one after another.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
    /// What follows what, by node. A node that is only led to needs no line of its own.
    #[serde(skip_serializing_if = "Nodes::is_empty")]
    pub graph: Nodes,
    /// Where a run begins. Default: every node that no edge leads to; in a ring, the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<String>,
    /// How often a run may come to the same node; needed where the graph has a loop. A loop ends there without a fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub a2a: Option<A2a>,
    /// Whether its tasks can be streamed and subscribed to. Default true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streaming: Option<OnOff>,
    /// Whether its tasks can have push configs. Default on, where the server delivers any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub push: Option<OnOff>,
}

impl System {
    pub fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or("default")
    }
}

/// Whether and to whom Orloj's endpoints show it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct A2a {
    pub enabled: bool,
    pub auth: A2aAuth,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum A2aAuth {
    #[default]
    Bearer,
    Public,
}

/// Named entries in the order of the spec, which results follow too.
#[derive(Clone, Debug, PartialEq)]
pub struct Named<T>(pub Vec<(String, T)>);

/// The nodes of a graph.
pub type Nodes = Named<NodeSpec>;

/// The systems of a config.
pub type Systems = Named<System>;

impl<T> Default for Named<T> {
    fn default() -> Named<T> {
        Named(Vec::new())
    }
}

impl<T> Named<T> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'de, T: Deserialize<'de> + Default> Deserialize<'de> for Named<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Named<T>, D::Error> {
        struct Written<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de> + Default> Visitor<'de> for Written<T> {
            type Value = Named<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map from names")
            }
            fn visit_unit<E: de::Error>(self) -> Result<Named<T>, E> {
                Ok(Named::default())
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Named<T>, A::Error> {
                let mut all: Vec<(String, T)> = Vec::new();
                // A name without a value is an entry with defaults: a node without edges.
                while let Some((name, one)) = map.next_entry::<String, Option<T>>()? {
                    if all.iter().any(|(known, _)| *known == name) {
                        return Err(de::Error::custom(format!("{name:?} is there twice; rename one")));
                    }
                    all.push((name, one.unwrap_or_default()));
                }
                Ok(Named(all))
            }
        }
        d.deserialize_map(Written(PhantomData))
    }
}

impl<T: Serialize> Serialize for Named<T> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_map(self.0.iter().map(|(name, one)| (name, one)))
    }
}

impl<T: JsonSchema> JsonSchema for Named<T> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("{}s", T::schema_name()).into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<Option<T>>();
        json_schema!({ "type": "object", "additionalProperties": one })
    }
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "struct Node")]
#[schemars(rename = "Node")]
pub struct NodeSpec {
    /// The agent that does its work. Default: the one of the node's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The node that follows, whatever comes out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// The nodes that follow, all at once, each if its condition holds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub edges: Vec<EdgeSpec>,
    /// How it waits where several edges lead to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub join: Option<Join>,
    /// How often it is tried again when it fails. Default 0.
    #[serde(skip_serializing_if = "is_zero")]
    pub retries: u32,
    /// Asks whoever called before it begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalSpec>,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "struct Edge")]
#[schemars(rename = "Edge")]
pub struct EdgeSpec {
    pub to: String,
    /// What the result must be like. Default: anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<Condition>,
    /// How the node must have ended: `completed` (the default), `failed`, or `denied` by whoever was asked.
    #[serde(default, skip_serializing_if = "On::is_default")]
    pub on: On,
    /// Kept, and of no effect.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Kept, and of no effect.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub policy: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum On {
    #[default]
    Completed,
    Failed,
    Denied,
}

impl On {
    fn is_default(&self) -> bool {
        *self == On::Completed
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Join {
    pub mode: JoinMode,
    /// With `quorum`: so many results are enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quorum_count: Option<u32>,
    /// With `quorum`: so many of a hundred are enough, of the branches that were taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quorum_percent: Option<u32>,
    pub on_failure: OnFailure,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JoinMode {
    /// Begins when nothing more can come.
    #[default]
    WaitForAll,
    /// Begins when enough has come; what comes later is dropped.
    Quorum,
}

/// What becomes of a join when a branch before it fails. A quorum asks only when too few are left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// The run fails.
    #[default]
    Deadletter,
    /// It goes on with what there is.
    Skip,
    /// It goes on with what there is, and is told what is missing.
    ContinuePartial,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "struct Approval")]
#[schemars(rename = "Approval")]
pub struct ApprovalSpec {
    /// What is asked. Default: whether the node may begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask: Option<String>,
}
