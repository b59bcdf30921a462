//! `files` in the config: how large files are shown.

use std::fmt;

use anyhow::bail;
use schemars::JsonSchema;
use serde::de::Visitor;
use serde::{Deserialize, Deserializer};

const MOST_S: u32 = 7 * 86_400;

/// How large files are shown to callers, in every dialect.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Files {
    /// Files above this many bytes are shown by a signed address instead of their content; `off` or 0 never. Default
    /// 1048576 (1 MiB), at least 65536.
    #[schemars(with = "Option<Written>")]
    inline_max_bytes: Option<Most>,
    /// How long such an address is good, in seconds. Default 3600.
    url_expires_s: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Most {
    Off,
    Bytes(u64),
}

/// What may stand at `inline_max_bytes`, for the schema.
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "only its schema is wanted")]
enum Written {
    Bytes(u64),
    Off(Off),
}

#[derive(JsonSchema)]
#[serde(rename_all = "lowercase")]
#[allow(dead_code, reason = "only its schema is wanted")]
enum Off {
    Off,
}

impl<'de> Deserialize<'de> for Most {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = Most;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of bytes, or off")
            }
            fn visit_u64<E: serde::de::Error>(self, bytes: u64) -> Result<Most, E> {
                Ok(if bytes == 0 { Most::Off } else { Most::Bytes(bytes) })
            }
            fn visit_i64<E: serde::de::Error>(self, bytes: i64) -> Result<Most, E> {
                u64::try_from(bytes)
                    .map_err(|_| E::custom("must not be below zero"))
                    .and_then(|bytes| self.visit_u64(bytes))
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Most, E> {
                match text {
                    "off" => Ok(Most::Off),
                    other => Err(E::invalid_value(serde::de::Unexpected::Str(other), &self)),
                }
            }
            /// Older YAML reads `off` as false.
            fn visit_bool<E: serde::de::Error>(self, on: bool) -> Result<Most, E> {
                match on {
                    false => Ok(Most::Off),
                    true => Err(E::invalid_value(serde::de::Unexpected::Bool(on), &self)),
                }
            }
        }
        d.deserialize_any(Either)
    }
}

impl Files {
    /// `kept` is the size from which parts are stored beside the log: smaller parts have no URL.
    pub(crate) fn check(&self, kept: u64) -> anyhow::Result<()> {
        if let Some(Most::Bytes(bytes)) = self.inline_max_bytes
            && bytes < kept
        {
            bail!("files.inline_max_bytes: {bytes} is too small; choose off, or a number from {kept}");
        }
        if let Some(seconds) = self.url_expires_s
            && !(1..=MOST_S).contains(&seconds)
        {
            bail!("files.url_expires_s: {seconds} is out of range; choose a number from 1 to {MOST_S}");
        }
        Ok(())
    }

    pub(crate) fn settings(&self) -> gateway::settings::FileLinkSettings {
        let usual = gateway::settings::FileLinkSettings::default();
        gateway::settings::FileLinkSettings {
            inline_max_bytes: match self.inline_max_bytes {
                Some(Most::Off) => None,
                Some(Most::Bytes(bytes)) => Some(bytes),
                None => usual.inline_max_bytes,
            },
            url_expires_s: self.url_expires_s.unwrap_or(usual.url_expires_s),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    fn read(text: &str) -> anyhow::Result<gateway::settings::FileLinkSettings> {
        let files = Config::parse(text)?.files;
        files.check(65_536)?;
        Ok(files.settings())
    }

    #[test]
    fn it_is_a_number_or_off() {
        let usual = gateway::settings::FileLinkSettings::default();
        assert_eq!(read("listen: 127.0.0.1:1\n").unwrap(), usual);
        for off in ["off", "0", "'off'", "false"] {
            assert_eq!(
                read(&format!("files: {{ inline_max_bytes: {off} }}\n")).unwrap().inline_max_bytes,
                None,
                "{off}"
            );
        }
        let said = read("files: { inline_max_bytes: 65536, url_expires_s: 5 }\n").unwrap();
        assert_eq!(said, gateway::settings::FileLinkSettings { inline_max_bytes: Some(65_536), url_expires_s: 5 });
        for (text, says) in [
            ("inline_max_bytes: 65535", "choose off, or a number from 65536"),
            ("inline_max_bytes: some", "a number of bytes, or off"),
            ("inline_max_bytes: true", "a number of bytes, or off"),
            ("inline_max_bytes: -1", "zero"),
            ("url_expires_s: 0", "from 1 to 604800"),
            ("url_expires_s: 604801", "from 1 to 604800"),
            ("inline_max: 1", "did you mean `inline_max_bytes`?"),
        ] {
            let error = format!("{:#}", read(&format!("files: {{ {text} }}\n")).unwrap_err());
            assert!(error.contains(says), "{says:?} is not in: {error}");
        }
    }
}
