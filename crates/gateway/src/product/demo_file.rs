//! `demo.json` in the data folder: the server's address, and the ids that each product made for the demo. Ids in
//! the file stay the same at later starts, so that copies of them keep working; the address is always the current
//! one.

use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde_json::{Map, Value};

/// The name of the file.
pub const FILE: &str = "demo.json";

/// Writes the file with a section for each name, and returns its content: existing members of a section stay, the
/// given ones are added.
pub fn write(data: &Path, base_url: &str, sections: &[(&str, Map<String, Value>)]) -> io::Result<Map<String, Value>> {
    let file = data.join(FILE);
    let mut all = match std::fs::read(&file) {
        Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_else(|error| {
            tracing::warn!(%error, "{} cannot be read; it is written anew", file.display());
            Map::new()
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Map::new(),
        Err(error) => return Err(error),
    };
    all.insert("base_url".into(), base_url.into());
    for (name, members) in sections {
        let section = all.entry(*name).or_insert_with(|| Value::Object(Map::new()));
        match section {
            Value::Object(known) => {
                for (key, value) in members {
                    known.entry(key).or_insert_with(|| value.clone());
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                *section = Value::Object(members.clone());
            }
        }
    }
    replace(&file, &all)?;
    Ok(all)
}

/// A member of a section of the existing file.
pub fn member(data: &Path, section: &str, member: &str) -> Option<String> {
    let all: Value = serde_json::from_slice(&std::fs::read(data.join(FILE)).ok()?).ok()?;
    all.get(section)?.get(member)?.as_str().map(str::to_owned)
}

/// Replaces the file atomically, readable by its owner only.
fn replace(file: &Path, all: &Map<String, Value>) -> io::Result<()> {
    let beside = file.with_extension("json.new");
    match std::fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut out = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    out.write_all(&serde_json::to_vec_pretty(all)?)?;
    out.write_all(b"\n")?;
    out.sync_data()?;
    std::fs::rename(&beside, file)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use serde_json::json;

    use super::*;

    fn section(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn what_stands_in_the_file_stays_and_the_address_is_todays() {
        let folder = tempfile::tempdir().unwrap();
        let first = [("graph", section(json!({ "a": "1" })))];
        write(folder.path(), "http://127.0.0.1:1", &first).unwrap();
        let second = [("graph", section(json!({ "a": "2", "b": "3" })))];
        let all = write(folder.path(), "http://127.0.0.1:2", &second).unwrap();
        assert_eq!(
            Value::Object(all.clone()),
            json!({ "base_url": "http://127.0.0.1:2", "graph": { "a": "1", "b": "3" } })
        );
        let file = folder.path().join(FILE);
        let read: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        assert_eq!(read, Value::Object(all));
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_broken_file_is_written_anew() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), "{").unwrap();
        std::fs::write(folder.path().join("demo.json.new"), "left by a crash").unwrap();
        let all = write(folder.path(), "http://x", &[]).unwrap();
        assert_eq!(Value::Object(all), json!({ "base_url": "http://x" }));
    }
}
