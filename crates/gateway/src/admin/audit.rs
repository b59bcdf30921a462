//! The audit log of the data folder: a line for each change of permissions, never with a secret.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use model::Time;
use serde_json::{Value, json};

use crate::policy::Policy;

const AUDIT: &str = "audit.log";

/// Appends a line.
pub fn append(folder: &Path, line: &Value) {
    let opened = std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(folder.join(AUDIT));
    let written = opened.and_then(|mut file| {
        writeln!(file, "{line}")?;
        file.sync_data()
    });
    if let Err(error) = written {
        tracing::error!(%error, %line, "the audit log could not be written");
    }
}

/// Logs the policy in force, if it differs from the last one logged.
pub fn policy(folder: &Path, policy: Option<&Policy>) {
    let last = last_policy(folder);
    if last.as_deref() == policy.map(Policy::hash) {
        return;
    }
    let at = Time(jiff::Timestamp::now().as_millisecond()).to_string();
    append(
        folder,
        &match policy {
            Some(policy) => {
                json!({ "at": at, "what": "policy", "change": "set", "hash": policy.hash(), "rules": policy.len() })
            }
            None => json!({ "at": at, "what": "policy", "change": "removed" }),
        },
    );
}

/// The hash of the policy that was logged last; none if there was no policy, or it was removed.
fn last_policy(folder: &Path) -> Option<String> {
    let text = std::fs::read_to_string(folder.join(AUDIT)).ok()?;
    let mut lines = text.lines().rev().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let line = lines.find(|line| line["what"] == "policy")?;
    line["hash"].as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Effect, Rule};

    #[test]
    fn the_log_is_its_owners_alone() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        append(folder.path(), &json!({ "change": "created", "key": "k" }));
        let found = std::fs::metadata(folder.path().join(AUDIT)).unwrap();
        assert_eq!(found.permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_policy_is_noted_when_it_changes_and_only_then() {
        let folder = tempfile::tempdir().unwrap();
        let lines = || std::fs::read_to_string(folder.path().join(AUDIT)).unwrap_or_default().lines().count();
        policy(folder.path(), None);
        assert_eq!(lines(), 0, "no policy, as before");
        let open = Policy::new(&[Rule::new(Effect::Allow)]).unwrap();
        policy(folder.path(), Some(&open));
        append(folder.path(), &json!({ "change": "created", "key": "k" }));
        policy(folder.path(), Some(&open));
        assert_eq!(lines(), 2);
        let shut = Policy::new(&[Rule::new(Effect::Deny)]).unwrap();
        policy(folder.path(), Some(&shut));
        policy(folder.path(), None);
        policy(folder.path(), None);
        policy(folder.path(), Some(&open));
        assert_eq!(lines(), 5);
    }
}
