//! The mistakes of a config file: all of them at once, each with its line and key, under the name of the file.

use std::fmt;
use std::path::{Path, PathBuf};

use agents::AgentConfig;
use serde_json::Value;

use super::tree::{Is, Node};
use super::{Config, shape, with_nearest};

/// Errors of a config, by key. Checks add one for each mistake, so that the user sees all of them.
#[derive(Debug, Default)]
pub(crate) struct Collected(Vec<String>);

impl Collected {
    /// The value, or none and one more mistake.
    pub(crate) fn take<T>(&mut self, outcome: anyhow::Result<T>) -> Option<T> {
        match outcome {
            Ok(value) => Some(value),
            Err(error) => {
                match error.downcast::<Collected>() {
                    Ok(several) => self.0.extend(several.0),
                    Err(one) => self.0.push(format!("{one:#}")),
                }
                None
            }
        }
    }

    pub(crate) fn put(&mut self, says: String) {
        self.0.push(says);
    }

    pub(crate) fn finish(mut self) -> anyhow::Result<()> {
        let mut seen = std::collections::BTreeSet::new();
        self.0.retain(|says| seen.insert(says.clone()));
        if self.0.is_empty() { Ok(()) } else { Err(anyhow::Error::new(self)) }
    }
}

impl fmt::Display for Collected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}
impl std::error::Error for Collected {}

struct Mistake {
    line: Option<u64>,
    /// `limits.attempts: must be …`, after its key where it is known.
    says: String,
}

/// The mistakes of one file.
pub(crate) struct Mistakes {
    file: Option<PathBuf>,
    all: Vec<Mistake>,
}

impl Mistakes {
    /// Why a text is no valid config.
    pub(super) fn of_text(text: &str, error: &serde_saphyr::Error) -> Mistakes {
        let line = error.location().map(|location| location.line());
        let complaint = plain(&error.without_snippet().to_string());
        let Some(root) = Node::read(text) else {
            return Mistakes { file: None, all: vec![Mistake { line, says: complaint }] };
        };
        let schema = schemars::schema_for!(Config).to_value();
        let found = shape::compare(&schema, &root);
        let mut all: Vec<Mistake> = found
            .into_iter()
            .map(|wrong| {
                let says = if wrong.path.is_empty() { wrong.says } else { format!("{}: {}", wrong.path, wrong.says) };
                Mistake { line: Some(wrong.line), says }
            })
            .collect();
        if let Some(Node { is: Is::Map(agents), .. }) = root.get("agents") {
            for (name, node) in agents {
                let path = format!("agents.{name}");
                let known = all.iter().any(|mistake| mistake.says.starts_with(&path));
                let Value::Object(members) = node.to_value() else { continue };
                if let (false, Err(wrong)) = (known, AgentConfig::read(members)) {
                    all.push(Mistake { line: Some(node.line), says: format!("{path}: {}", plain(&wrong.to_string())) });
                }
            }
        }
        // The schema comparison found nothing, so the parser's error is used.
        if all.is_empty() {
            all.push(Mistake { line, says: keyed(&complaint) });
        }
        all.sort_by_key(|mistake| mistake.line);
        Mistakes { file: None, all }
    }

    pub(super) fn of_file(self, file: &Path) -> Mistakes {
        Mistakes { file: Some(file.to_owned()), ..self }
    }
}

/// The errors of a check with their lines in this file. Without a file they are about flags.
pub(crate) fn in_file(file: Option<&Path>, error: anyhow::Error) -> anyhow::Error {
    let Some(file) = file else { return error };
    let several = match error.downcast::<Collected>() {
        Ok(Collected(several)) => several,
        Err(one) => vec![format!("{one:#}")],
    };
    // A flag is not in the file.
    if several.iter().all(|says| says.starts_with("--")) {
        return anyhow::Error::new(Collected(several));
    }
    let root = std::fs::read_to_string(file).ok().and_then(|text| Node::read(&text));
    let located = |says: String| {
        let says = keyed(&says);
        let line = says.split_once(": ").and_then(|(key, _)| root.as_ref()?.line_of(key));
        Mistake { line, says }
    };
    let mut all: Vec<Mistake> = several.into_iter().map(located).collect();
    all.sort_by_key(|mistake| mistake.line);
    anyhow::Error::new(Mistakes { file: Some(file.to_owned()), all })
}

/// An agent's error with the agent's path as its key: `agent "a": …` is about `agents.a`.
fn keyed(complaint: &str) -> String {
    let rest = complaint.strip_prefix("agents: ").unwrap_or(complaint);
    match rest.strip_prefix("agent \"").and_then(|rest| rest.split_once("\": ")) {
        Some((name, says)) => format!("agents.{name}: {says}"),
        None => complaint.to_owned(),
    }
}

/// The parser's error on one line, without its position, which is shown separately.
fn plain(complaint: &str) -> String {
    let text = with_nearest(complaint);
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    let first = first.strip_prefix("error: ").unwrap_or(first);
    let first = match first.strip_prefix("line ").and_then(|rest| rest.split_once(": ")) {
        Some((place, says)) if place.split(' ').all(|word| word == "column" || word.parse::<u64>().is_ok()) => says,
        Some(_) | None => first,
    };
    let first = match first.rsplit_once(" at line ") {
        Some((says, place))
            if place.chars().all(|c| c.is_ascii_digit() || c.is_whitespace() || c.is_alphabetic() || c == ',') =>
        {
            says
        }
        Some(_) | None => first,
    };
    let advice = lines.filter(|line| line.starts_with("did you mean"));
    let told: Vec<&str> = std::iter::once(first).chain(advice).collect();
    told.join("; ")
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.as_ref().map_or("the config".into(), |file| file.display().to_string());
        let tell = |f: &mut fmt::Formatter<'_>, mistake: &Mistake| match mistake.line {
            Some(line) => write!(f, "line {line}: {}", mistake.says),
            None => f.write_str(&mistake.says),
        };
        match &self.all[..] {
            [one] => {
                write!(f, "{file}{}", if one.line.is_some() { ", " } else { ": " })?;
                tell(f, one)
            }
            several => {
                write!(f, "{file} has {} mistakes:", several.len())?;
                for one in several {
                    f.write_str("\n  ")?;
                    tell(f, one)?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Debug for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
impl std::error::Error for Mistakes {}
