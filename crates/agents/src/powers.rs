//! The powers of an agent's config: which of its fields run programs, reach addresses, or read secrets of this
//! machine.
//!
//! Each kind declares them field by field beside its options, and so do the common fields. The binary compares them
//! with its rules before it serves an agent that a caller created. A field without a declaration counts as having
//! every power, so that a new option is refused until its powers are declared; a test requires that.

use serde_json::Value;

/// Something that a field lets an agent do on behalf of its author.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Power {
    /// Starts a program on this machine, or changes how one runs.
    RunPrograms,
    /// Names an address that this machine connects to.
    ReachAddress,
    /// Lets another server name the addresses that this machine connects to.
    ReachAnyAddress,
    /// Refers to a secret of this machine, or passes secrets on.
    ReadSecrets,
}

/// A field of a config and its powers.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    pub name: &'static str,
    pub powers: &'static [Power],
}

/// Assumed for a field without a declaration.
pub(crate) const EVERY: &[Power] =
    &[Power::RunPrograms, Power::ReachAddress, Power::ReachAnyAddress, Power::ReadSecrets];

/// A field that affects only the agent's output.
pub(crate) const fn plain(name: &'static str) -> Field {
    Field { name, powers: &[] }
}

pub(crate) const fn runs(name: &'static str) -> Field {
    Field { name, powers: &[Power::RunPrograms] }
}

/// A field that passes the server's secrets to a program.
pub(crate) const fn runs_with_secrets(name: &'static str) -> Field {
    Field { name, powers: &[Power::RunPrograms, Power::ReadSecrets] }
}

pub(crate) const fn reaches(name: &'static str) -> Field {
    Field { name, powers: &[Power::ReachAddress] }
}

pub(crate) const fn reaches_any(name: &'static str) -> Field {
    Field { name, powers: &[Power::ReachAnyAddress] }
}

pub(crate) const fn secret(name: &'static str) -> Field {
    Field { name, powers: &[Power::ReadSecrets] }
}

/// Whether a value means the same as leaving the field out.
pub fn is_left_out(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(all) => all.is_empty(),
        Value::Object(all) => all.is_empty(),
        Value::Bool(true) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::KINDS;
    use crate::config::COMMON;

    #[test]
    fn every_field_of_every_kind_declares_its_powers_once() {
        for kind in KINDS {
            let mut declared: Vec<&str> = kind.fields.iter().chain(COMMON).map(|field| field.name).collect();
            let mut known = kind.field_names();
            declared.sort_unstable();
            known.sort_unstable();
            assert_eq!(declared, known, "{}: declare the powers of each field, and of no other", kind.name);
        }
    }

    #[test]
    fn only_kinds_that_run_nothing_and_reach_nothing_are_harmless() {
        let harmless: Vec<&str> = KINDS.iter().filter(|kind| kind.is_harmless()).map(|kind| kind.name).collect();
        assert_eq!(harmless, ["echo", "scripted", "assistant"]);
    }

    #[test]
    fn a_field_that_holds_a_secret_is_declared_as_one() {
        for kind in KINDS {
            let schema = kind.schema();
            let properties = schema.get("properties").and_then(|all| all.as_object()).cloned().unwrap_or_default();
            for (name, field) in properties {
                // Every secret's schema has this form, wherever it is in the field.
                let text = field.to_string();
                let refers = text.contains("^(env|file)") || text.contains("#/$defs/Auth");
                assert!(
                    !refers || kind.powers_of(&name).contains(&super::Power::ReadSecrets),
                    "{}.{name} holds a secret",
                    kind.name
                );
            }
        }
    }
}
