//! Readers that the sections of products share.

use anyhow::{Context as _, bail};
use serde_json::Value;

/// Adds the nearest known name to an error about an unknown one: ``unknown field `lisen`, expected one of listen,
/// …``. The YAML library's advice about repeated keys is for programmers, so it is replaced.
pub fn with_nearest(complaint: &str) -> String {
    let ours = "; take one of the two out, or give it another name";
    let complaint = &complaint.replace(", set DuplicateKeyPolicy in Options if acceptable", ours);
    let first = complaint.lines().next().unwrap_or_default();
    let near = || -> Option<&str> {
        let (_, rest) = first.split_once("unknown ")?;
        let wrong = rest.split('`').nth(1)?;
        let (_, known) = rest.split_once("expected ")?;
        let known = known.strip_prefix("one of ").unwrap_or(known);
        nearest(wrong, known.split([',', ' ', '`']).filter(|name| !name.is_empty() && *name != "or"))
    };
    match near() {
        Some(nearest) => format!("{complaint}\ndid you mean `{nearest}`?"),
        None => complaint.to_owned(),
    }
}

/// The known name most similar to `wrong`.
pub fn nearest<'n>(wrong: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let likeness = |name: &str| strsim::jaro_winkler(wrong, name);
    known.max_by(|a, b| likeness(a).total_cmp(&likeness(b)))
}

/// The secret behind `env:NAME` or `file:PATH`.
pub fn secret(reference: &str) -> anyhow::Result<String> {
    let secret = if let Some(name) = reference.strip_prefix("env:") {
        std::env::var(name).map_err(|_| anyhow::anyhow!("set the environment variable {name}"))?
    } else if let Some(path) = reference.strip_prefix("file:") {
        std::fs::read_to_string(path).with_context(|| format!("cannot read the secret in {path}"))?
    } else {
        bail!("secrets do not belong into the config; write env:NAME or file:PATH and put the secret there");
    };
    let secret = secret.trim().to_owned();
    if secret.is_empty() {
        bail!("the secret {reference} is empty");
    }
    Ok(secret)
}

/// The fingerprint: the agent's config, and its secrets from files.
pub fn fingerprint(written: &Value) -> String {
    fn files(value: &Value, out: &mut String) {
        match value {
            Value::String(text) => {
                if let Some(path) = text.strip_prefix("file:")
                    && let Ok(secret) = std::fs::read_to_string(path)
                {
                    // Stored for as long as the agent stores the secret itself.
                    out.push_str(&secret);
                }
            }
            Value::Array(all) => all.iter().for_each(|one| files(one, out)),
            Value::Object(all) => all.values().for_each(|one| files(one, out)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let mut text = written.to_string();
    files(written, &mut text);
    text
}

/// Parses a duration: 45s, 30m, 12h, 30d.
pub fn duration(said: &str) -> Result<std::time::Duration, String> {
    let unit = said.chars().last().unwrap_or_default();
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err("write a number and a unit: 45s, 30m, 12h or 30d".into()),
    };
    let number: u64 = said[..said.len() - 1].parse().map_err(|_| "write a number and a unit: 45s, 30m, 12h or 30d")?;
    Ok(std::time::Duration::from_secs(number.saturating_mul(seconds)))
}

/// Random characters for a demo's key or password.
pub fn drawn() -> anyhow::Result<String> {
    let mut random = [0_u8; 16];
    getrandom::fill(&mut random).map_err(|error| anyhow::anyhow!("the system has no randomness: {error}"))?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}
