//! The config in force, value by value, for operators: each with its source, and no secret.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "ConfigSource")]
pub enum ConfigSource {
    /// Nothing sets it.
    Default,
    /// The config file.
    File,
    /// A flag of the command line.
    Flag,
}

/// A value in force.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ConfigValue")]
pub struct EffectiveValue {
    /// Its place in the config, such as `auth.keys[0].name`.
    pub path: String,
    /// Null where nothing is set. A secret is shown by the place that it is read from (`env:NAME` or `file:PATH`), or as `***`.
    pub value: Value,
    pub source: ConfigSource,
    /// The line in the config file, or null.
    pub line: Option<u64>,
    /// The flag, such as `--listen`, or null.
    pub flag: Option<String>,
    /// The environment variable that it is read from, or null.
    pub environment: Option<String>,
}

impl EffectiveValue {
    /// The source in words.
    pub fn origin(&self) -> String {
        let source = match (&self.source, &self.flag, self.line) {
            (ConfigSource::Flag, Some(flag), _) => flag.clone(),
            (ConfigSource::File, _, Some(line)) => format!("line {line}"),
            (ConfigSource::Default | ConfigSource::File | ConfigSource::Flag, _, _) => "default".to_owned(),
        };
        match &self.environment {
            Some(name) => format!("{source}, environment {name}"),
            None => source,
        }
    }
}

/// All values in force, in the order of their places.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Config")]
pub struct EffectiveConfig {
    /// The config file, or null.
    pub file: Option<String>,
    pub values: Vec<EffectiveValue>,
}
