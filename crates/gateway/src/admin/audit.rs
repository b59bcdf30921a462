//! The audit log of the data folder: a line for each change of permissions, never with a secret.

use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom, Write};
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

/// The part of the log that is read for one page.
const PIECE: u64 = 256 << 10;

/// Lines of the log, newest first.
pub(crate) struct AuditPage {
    pub(crate) lines: Vec<Value>,
    /// The place in the file before which the next page ends, if there are earlier lines.
    pub(crate) next: Option<u64>,
}

/// Reads at most `limit` lines that end at the place `before` or earlier, of those that `wanted` admits. None if the log
/// has no such place.
pub(crate) fn read(
    folder: &Path,
    before: Option<u64>,
    limit: usize,
    wanted: impl Fn(&Value) -> bool,
) -> io::Result<Option<AuditPage>> {
    let mut file = match std::fs::File::open(folder.join(AUDIT)) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let nothing = AuditPage { lines: Vec::new(), next: None };
            return Ok(before.is_none_or(|before| before == 0).then_some(nothing));
        }
        Err(error) => return Err(error),
    };
    let length = file.metadata()?.len();
    let end = before.unwrap_or(length);
    if end > length {
        return Ok(None);
    }
    let start = end.saturating_sub(PIECE);
    file.seek(SeekFrom::Start(start))?;
    let mut text = Vec::new();
    file.take(end - start).read_to_end(&mut text)?;
    // A line that begins before the piece belongs to the next page.
    let skipped =
        if start == 0 { 0 } else { text.iter().position(|byte| *byte == b'\n').map_or(text.len(), |at| at + 1) };
    let (mut lines, mut at) = (Vec::new(), text.len());
    while at > skipped && lines.len() < limit {
        let body = text[..at].strip_suffix(b"\n").unwrap_or(&text[..at]);
        let from = body.iter().rposition(|byte| *byte == b'\n').map_or(0, |found| found + 1).max(skipped);
        // A write that a crash cut off is no line.
        if let Ok(line) = serde_json::from_slice::<Value>(&body[from..])
            && wanted(&line)
        {
            lines.push(line);
        }
        at = from;
    }
    // A single line is never longer than a piece; without this, a file that is no log would be read for ever.
    let next = if at == text.len() { start } else { start + at as u64 };
    Ok(Some(AuditPage { lines, next: Some(next).filter(|next| *next > 0 && *next < end) }))
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
    fn pages_of_the_log_have_every_line_once_and_the_newest_first() {
        let folder = tempfile::tempdir().unwrap();
        let nothing = read(folder.path(), None, 5, |_| true).unwrap().unwrap();
        assert!(nothing.lines.is_empty() && nothing.next.is_none());
        let padding = "x".repeat(3_000);
        for number in 0..300 {
            append(folder.path(), &json!({ "number": number, "padding": padding }));
        }
        for (limit, step) in [(1, 1), (7, 1), (1_000, 1), (5, 3)] {
            let (mut seen, mut before) = (Vec::new(), None);
            loop {
                let wanted = |line: &Value| line["number"].as_u64().is_some_and(|number| number % step == 0);
                let page = read(folder.path(), before, limit, wanted).unwrap().unwrap();
                assert!(page.lines.len() <= limit);
                seen.extend(page.lines.iter().filter_map(|line| line["number"].as_u64()));
                before = page.next;
                if before.is_none() {
                    break;
                }
            }
            assert_eq!(seen, (0..300).rev().filter(|number| number % step == 0).collect::<Vec<_>>(), "{limit}");
        }
        assert!(read(folder.path(), Some(10_000_000), 5, |_| true).unwrap().is_none());
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
