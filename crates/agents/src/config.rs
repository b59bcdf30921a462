//! The `agents:` section of the config: a map from name to agent.
//!
//! Every agent has a `kind`, the kind's own options flat beside it, and the fields every kind has ([`Common`]). The two are
//! split here by their names, since serde cannot flatten and refuse unknown keys at once; each kind reads its own options in
//! its own folder. A new kind is one folder and one line in [`KINDS`](crate::KINDS).

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use model::OnOff;
use model::ports::Future;
use model::ports::agent::{Agent, Profile, Restart};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, DeserializeOwned, DeserializeSeed, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::limited::Limited;
use crate::powers::{self, Field, Power, plain};
use crate::{KINDS, shell};

/// Why an agent cannot be built, for the config's author.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

impl Error {
    pub fn new(says: impl Into<String>) -> Error {
        Error(says.into())
    }
    fn within(self, name: &str) -> Error {
        Error(format!("agent {name:?}: {self}"))
    }
}

/// A kind of agent that can be configured.
pub struct AgentKind {
    pub name: &'static str,
    /// Help line.
    pub says: &'static str,
    /// The kind's own fields, each with its powers.
    pub fields: &'static [Field],
    read: fn(Value) -> Result<Arc<dyn KindOptions>, Error>,
    schema: fn(&mut SchemaGenerator) -> Schema,
}

impl AgentKind {
    pub const fn of<O: KindOptions + DeserializeOwned + JsonSchema>(
        name: &'static str,
        says: &'static str,
        fields: &'static [Field],
    ) -> AgentKind {
        AgentKind { name, says, fields, read: read_options::<O>, schema: O::json_schema }
    }

    /// The powers of a field. A known field without a declaration has all of them; an unknown field has none, and
    /// [`AgentConfig::read`] refuses it.
    pub fn powers_of(&self, field: &str) -> &'static [Power] {
        match self.fields.iter().chain(COMMON).find(|declared| declared.name == field) {
            Some(declared) => declared.powers,
            None if self.field_names().iter().any(|known| known == field) => powers::EVERY,
            None => &[],
        }
    }

    /// Whether none of its fields has a power: such an agent runs nothing, reaches nothing and reads no secret.
    pub fn is_harmless(&self) -> bool {
        self.field_names().iter().all(|field| self.powers_of(field).is_empty())
    }

    /// The names of all fields of its agents, except `kind`.
    pub(crate) fn field_names(&self) -> Vec<String> {
        let mut all = names(self.schema);
        all.extend(names(Common::json_schema));
        all
    }

    #[cfg(test)]
    pub(crate) fn schema(&self) -> Schema {
        (self.schema)(&mut SchemaGenerator::default())
    }
}

/// The options of a kind, which build its agents.
pub trait KindOptions: fmt::Debug + Send + Sync + 'static {
    /// Refuses values that are well formed but make no sense.
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }
    /// Whether a turn that a crash interrupted can be found again.
    fn resumes(&self) -> bool {
        false
    }
    /// Whether its chunks of text may be merged.
    fn merges(&self) -> bool {
        false
    }
    /// Builds the agent, with the profile it has if the config does not set one.
    fn build<'a>(&'a self, name: &'a str, common: &'a Common) -> Future<'a, Result<Arc<dyn Agent>, Error>>;
}

/// The default profile of a configured agent: reads and writes any media type, streams, and has no skills.
pub fn profile(name: &str, description: impl Into<String>, restart: Restart) -> Profile {
    let any = || vec!["*/*".to_owned()];
    Profile {
        name: name.into(),
        title: name.into(),
        description: description.into(),
        version: env!("CARGO_PKG_VERSION").into(),
        skills: Vec::new(),
        input_modes: any(),
        output_modes: any(),
        streaming: true,
        push: true,
        extensions: Vec::new(),
        restart,
        idempotent: false,
    }
}

/// What every kind of agent may say about itself, and how much it may take.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Common {
    /// The name on its card. Default: the agent's name.
    pub title: Option<String>,
    /// What it does, for its card.
    pub description: Option<String>,
    /// Its own version, for its card.
    pub version: Option<String>,
    /// What it can do, for its card.
    pub skills: Option<Vec<SkillConfig>>,
    /// Media types it reads, such as `text/plain` or `image/*`. The default is the kind's.
    pub input_modes: Option<Vec<String>>,
    /// Media types it writes. The default is the kind's.
    pub output_modes: Option<Vec<String>>,
    /// Whether its tasks can be streamed and subscribed to: its card says so, and where it is off such calls are refused.
    /// Default true.
    pub streaming: Option<OnOff>,
    /// Whether its tasks can have push configs: its card says so, and where it is `off` such calls are refused. Default on,
    /// where the server delivers any.
    pub push: Option<OnOff>,
    /// For one turn, in milliseconds. Default: `timeouts.turn_ms`, which also bounds it.
    pub timeout_ms: Option<u64>,
    /// What becomes of a turn that a crash of the server cut off: `resume`, `retry` or `fail`. The default is the kind's.
    pub restart: Option<RestartRule>,
    /// How often a turn is tried that crashes cut off, at most `limits.attempts`. Default: as many.
    pub attempts: Option<u32>,
    /// Turns at work at a time. Default 16.
    pub concurrency: Option<u32>,
    /// Turns that wait for their place; further ones are refused with "try again". Default 100.
    pub queue: Option<u32>,
    /// Let chunks of text that are ready together travel as one. The default is the kind's.
    pub merge_chunks: Option<bool>,
    /// What one turn may say, in bytes. Default 67108864.
    pub max_output_bytes: Option<usize>,
    /// What its turns cost; needs a `market`. Default nothing.
    pub price: Option<PriceConfig>,
}

/// The fields of [`Common`], none of which has a power.
pub(crate) const COMMON: &[Field] = &[
    plain("title"),
    plain("description"),
    plain("version"),
    plain("skills"),
    plain("input_modes"),
    plain("output_modes"),
    plain("streaming"),
    plain("push"),
    plain("timeout_ms"),
    plain("restart"),
    plain("attempts"),
    plain("concurrency"),
    plain("queue"),
    plain("merge_chunks"),
    plain("max_output_bytes"),
    plain("price"),
];

/// What turns of an agent cost, in decimal texts of UT. What is left out costs nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Price")]
pub struct PriceConfig {
    /// With the first turn of a task, such as "0.50".
    pub per_task: Option<String>,
    /// With each turn.
    pub per_turn: Option<String>,
    /// For a thousand tokens read, at most six digits after the point.
    pub per_1k_input: Option<String>,
    /// For a thousand tokens written.
    pub per_1k_output: Option<String>,
    /// For a second of work.
    pub per_second: Option<String>,
    /// The most a turn may cost, set aside before it begins. Needed where something is metered; otherwise it is what is
    /// fixed.
    pub hold: Option<String>,
    /// The user of the market who is paid, less the commission. Default: the platform is.
    pub seller: Option<String>,
}

/// Something an agent can do.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Skill")]
pub struct SkillConfig {
    pub id: String,
    /// Default: its id.
    pub name: Option<String>,
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    pub tags: Vec<String>,
    #[serde(default)]
    pub examples: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RestartRule {
    /// Find the work again where it goes on.
    Resume,
    /// Run the turn again, under the same turn id.
    Retry,
    /// Say that it was cut off.
    Fail,
}

impl From<RestartRule> for Restart {
    fn from(rule: RestartRule) -> Restart {
        match rule {
            RestartRule::Resume => Restart::Resume,
            RestartRule::Retry => Restart::Retry,
            RestartRule::Fail => Restart::Fail,
        }
    }
}

impl Common {
    pub(crate) fn max_output_bytes(&self) -> usize {
        self.max_output_bytes.unwrap_or(64 << 20)
    }

    fn check(&self) -> Result<(), Error> {
        let number = |n: Option<u32>| n.map(u64::from);
        for (name, value, least, most) in [
            ("timeout_ms", self.timeout_ms, 1, 100 * 366 * 24 * 3_600_000),
            ("attempts", number(self.attempts), 1, 1_000),
            ("concurrency", number(self.concurrency), 1, 1_000_000),
            ("queue", number(self.queue), 0, 1_000_000),
            ("max_output_bytes", self.max_output_bytes.map(|n| n as u64), 1, 1 << 40),
        ] {
            in_range(name, value, least, most)?;
        }
        let skills = self.skills.as_deref().unwrap_or_default();
        for (i, skill) in skills.iter().enumerate() {
            if skill.id.trim().is_empty() {
                return Err(Error::new(format!("skills[{i}].id is empty; give the skill an id")));
            }
            if skills[..i].iter().any(|other| other.id == skill.id) {
                return Err(Error::new(format!("skills: two have the id {:?}; give each its own", skill.id)));
            }
        }
        for (name, modes) in [("input_modes", &self.input_modes), ("output_modes", &self.output_modes)] {
            if let Some(bad) = modes.iter().flatten().find(|mode| !mode.contains('/')) {
                return Err(Error::new(format!("{name}: {bad:?} is no media type; write one such as text/plain")));
            }
        }
        Ok(())
    }
}

/// Refuses a number out of range.
pub(crate) fn in_range(name: &str, value: Option<u64>, least: u64, most: u64) -> Result<(), Error> {
    match value {
        Some(n) if !(least..=most).contains(&n) => {
            Err(Error::new(format!("{name}: {n} is out of range; choose a number from {least} to {most}")))
        }
        Some(_) | None => Ok(()),
    }
}

/// One agent of the config.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    pub kind: &'static str,
    pub common: Common,
    options: Arc<dyn KindOptions>,
}

impl AgentConfig {
    /// Reads an agent from the members of its map.
    pub fn read(mut members: Map<String, Value>) -> Result<AgentConfig, Error> {
        let known = KINDS.iter().map(|kind| format!("`{}`", kind.name)).collect::<Vec<_>>().join(", ");
        let kind = match members.remove("kind") {
            Some(Value::String(kind)) => kind,
            Some(_) => return Err(Error::new(format!("kind must be one of {known}"))),
            None => return Err(Error::new(format!("an agent needs a kind: one of {known}"))),
        };
        let kind = KINDS
            .iter()
            .find(|known| known.name == kind)
            .ok_or_else(|| Error::new(format!("unknown kind `{kind}`, expected one of {known}")))?;
        let (common, own) = (names(Common::json_schema), names(kind.schema));
        if let Some(unknown) = members.keys().find(|key| !common.contains(key) && !own.contains(key)) {
            let expected = own.iter().chain(&common).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            return Err(Error::new(format!("unknown field `{unknown}`, expected one of {expected}")));
        }
        let (own, common): (Map<_, _>, Map<_, _>) = members.into_iter().partition(|(key, _)| own.contains(key));
        let options = (kind.read)(Value::Object(own))?;
        Ok(AgentConfig { kind: kind.name, common: read_value(Value::Object(common))?, options })
    }

    /// Refuses values that are well formed but make no sense.
    pub fn check(&self) -> Result<(), Error> {
        self.common.check()?;
        if self.common.restart == Some(RestartRule::Resume) && !self.options.resumes() {
            let says = format!("restart: {} keeps nothing that could be resumed; choose retry or fail", self.kind);
            return Err(Error::new(says));
        }
        self.options.check()
    }
}

/// Builds the agent of that name, within its limits. A remote agent's card is the only request it makes.
pub async fn build(name: &str, config: AgentConfig) -> Result<Arc<dyn Agent>, Error> {
    let made = async {
        config.check()?;
        let inner = config.options.build(name, &config.common).await?;
        Ok(Arc::new(Limited::new(name, inner, &config.common, config.options.merges())) as Arc<dyn Agent>)
    };
    made.await.map_err(|error: Error| error.within(name))
}

/// Parses an agent flag: `NAME=URL` for an A2A agent (over gRPC, `grpc://host:port`), `NAME=command:PROGRAM ARGUMENTS…` for a program.
pub fn from_flag(text: &str) -> Result<(String, AgentConfig), Error> {
    let wrong = || {
        Error::new(format!(
            "{text:?} is no agent; write NAME=https://host, NAME=grpc://host:port or NAME=command:PROGRAM ARGUMENTS"
        ))
    };
    let (name, what) = text.split_once('=').ok_or_else(wrong)?;
    let (name, what) = (name.trim(), what.trim());
    let members = if let Some(line) = what.strip_prefix("command:") {
        let words = shell::split(line).map_err(|says| Error::new(says).within(name))?;
        serde_json::json!({"kind": "command", "command": words})
    } else if ["http://", "https://", "grpc://", "grpcs://"].iter().any(|scheme| what.starts_with(scheme)) {
        serde_json::json!({"kind": "a2a", "url": what})
    } else {
        return Err(wrong());
    };
    match members {
        Value::Object(members) if !name.is_empty() => {
            let config = AgentConfig::read(members).and_then(|config| config.check().map(|()| config));
            Ok((name.to_owned(), config.map_err(|error| error.within(name))?))
        }
        _ => Err(wrong()),
    }
}

fn read_options<O: KindOptions + DeserializeOwned>(options: Value) -> Result<Arc<dyn KindOptions>, Error> {
    Ok(Arc::new(read_value::<O>(options)?))
}

fn read_value<T: DeserializeOwned>(value: Value) -> Result<T, Error> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let mut says = if path == "." { error.inner().to_string() } else { format!("{path}: {}", error.inner()) };
        if says.contains("expected a string") {
            // YAML reads 1.0 and true as a number and a boolean.
            says.push_str("; put it in quotes");
        }
        Error::new(says)
    })
}

/// The names of a type's members, from its schema.
fn names(schema: fn(&mut SchemaGenerator) -> Schema) -> Vec<String> {
    let schema = schema(&mut SchemaGenerator::default());
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.map(|members| members.keys().cloned().collect()).unwrap_or_default()
}

/// The agents of a config, in its order.
#[derive(Clone, Debug, Default)]
pub struct Agents(pub Vec<(String, AgentConfig)>);

impl<'de> Deserialize<'de> for Agents {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Agents, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Agents;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map from names to agents")
            }
            fn visit_unit<E: de::Error>(self) -> Result<Agents, E> {
                Ok(Agents::default())
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Agents, A::Error> {
                let mut agents: Vec<(String, AgentConfig)> = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    if agents.iter().any(|(known, _)| *known == name) {
                        return Err(de::Error::custom(format_args!("two agents are named {name:?}; rename one")));
                    }
                    let config = map.next_value_seed(Named(&name))?;
                    agents.push((name, config));
                }
                Ok(Agents(agents))
            }
        }
        d.deserialize_map(Reader)
    }
}

/// Deserializes an agent's map; the name is for error messages.
struct Named<'n>(&'n str);

impl<'de> DeserializeSeed<'de> for Named<'_> {
    type Value = AgentConfig;
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<AgentConfig, D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Named<'_> {
    type Value = AgentConfig;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a map with the kind and options of the agent {:?}", self.0)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<AgentConfig, A::Error> {
        let mut members = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let value = map.next_value()?;
            if members.insert(key.clone(), value).is_some() {
                return Err(de::Error::custom(format_args!("agent {:?}: {key} stands here twice", self.0)));
            }
        }
        AgentConfig::read(members).map_err(|error| de::Error::custom(error.within(self.0)))
    }
}

impl JsonSchema for Agents {
    fn schema_name() -> Cow<'static, str> {
        "Agents".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let agent = generator.subschema_for::<AgentConfig>();
        json_schema!({"type": "object", "additionalProperties": agent})
    }
}

impl JsonSchema for AgentConfig {
    fn schema_name() -> Cow<'static, str> {
        "Agent".into()
    }
    /// One branch for each kind: its own options and the common ones.
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut branches = Vec::new();
        for kind in KINDS {
            let mut branch = (kind.schema)(generator);
            let common = Common::json_schema(generator);
            let mut properties = members(&branch, "properties");
            properties.extend(members(&common, "properties"));
            properties.insert("kind".into(), serde_json::json!({"const": kind.name, "description": kind.says}));
            let mut required = branch.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
            required.insert(0, "kind".into());
            branch.insert("properties".into(), Value::Object(properties));
            branch.insert("required".into(), Value::Array(required));
            branches.push(branch.to_value());
        }
        json_schema!({"oneOf": branches})
    }
}

fn members(schema: &Schema, name: &str) -> Map<String, Value> {
    schema.get(name).and_then(Value::as_object).cloned().unwrap_or_default()
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
