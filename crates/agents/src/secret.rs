//! Secrets of the config: written as `env:NAME` or `file:PATH`, read together with the config, never printed.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};

/// A secret's value.
///
/// ```
/// let secret = agents::ConfigSecret::read("env:PATH").unwrap();
/// assert_eq!(format!("{secret:?}"), "[secret]");
/// assert!(agents::ConfigSecret::read("hunter2").unwrap_err().contains("write env:NAME or file:PATH"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct ConfigSecret(String);

impl ConfigSecret {
    /// Reads the secret of `env:NAME` or `file:PATH`; the error says what to do.
    pub fn read(reference: &str) -> Result<ConfigSecret, String> {
        let value = if let Some(name) = reference.strip_prefix("env:") {
            std::env::var(name).map_err(|_| format!("set the environment variable {name}"))?
        } else if let Some(path) = reference.strip_prefix("file:") {
            std::fs::read_to_string(path)
                .map_err(|error| format!("put the secret into the file {path}; it cannot be read: {error}"))?
        } else {
            return Err("secrets do not belong into the config; write env:NAME or file:PATH and put it there".into());
        };
        match value.trim() {
            "" => Err(format!("{reference} is empty; put the secret there")),
            value => Ok(ConfigSecret(value.to_owned())),
        }
    }

    /// The value, for the place that sends it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ConfigSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

impl<'de> Deserialize<'de> for ConfigSecret {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<ConfigSecret, D::Error> {
        let reference = Cow::<'de, str>::deserialize(d)?;
        ConfigSecret::read(&reference).map_err(de::Error::custom)
    }
}

impl JsonSchema for ConfigSecret {
    fn schema_name() -> Cow<'static, str> {
        "Secret".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "Where the secret is: `env:NAME` or `file:PATH`.",
            "pattern": "^(env|file):.+$"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_read_from_a_file_and_trimmed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, "s3cret\n").unwrap();
        let secret = ConfigSecret::read(&format!("file:{}", file.path().display())).unwrap();
        assert_eq!(secret.reveal(), "s3cret");
        assert!(!format!("{secret:?}").contains("s3cret"));
    }

    #[test]
    fn a_secret_that_is_not_there_says_where_to_put_it() {
        assert_eq!(
            ConfigSecret::read("env:RIALTO_TEST_NOT_SET").unwrap_err(),
            "set the environment variable RIALTO_TEST_NOT_SET"
        );
        assert!(ConfigSecret::read("file:/nowhere/at/all").unwrap_err().contains("/nowhere/at/all"));
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(ConfigSecret::read(&format!("file:{}", file.path().display())).unwrap_err().contains("is empty"));
    }
}
