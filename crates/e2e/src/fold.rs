//! Folds stream frames into a task, as a client does.
//!
//! The rules are the protocol's. A `task` frame replaces everything; a status replaces the status; an artifact
//! frame without `append` adds the artifact or replaces the one of the same id in its place; one with `append` adds
//! its parts to an artifact that must be known. Adjacent plain text parts count as one text, because a server may
//! or may not join chunks on the way.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::sse::Frame;

/// A task as its reader knows it.
#[derive(Debug, Clone, PartialEq)]
pub struct Fold {
    pub id: String,
    pub state: String,
    artifacts: Vec<Value>,
}

impl Fold {
    /// A task object, as `GetTask` gives it.
    ///
    /// # Panics
    /// When it has no id or state.
    pub fn of_task(task: &Value) -> Self {
        let mut fold = Self {
            id: string(&task["id"]),
            state: string(&task["status"]["state"]),
            artifacts: task["artifacts"].as_array().cloned().unwrap_or_default(),
        };
        fold.artifacts.iter_mut().for_each(join_texts);
        fold
    }

    /// The task after `frames`, the first of which must be a task.
    ///
    /// # Panics
    /// When the frames break the rules above.
    pub fn of_frames<'a>(frames: impl IntoIterator<Item = &'a Frame>) -> Self {
        let mut frames = frames.into_iter();
        let first = frames.next().expect("a stream has a first frame").event();
        assert!(first["task"].is_object(), "a stream starts with a task: {first}");
        let mut fold = Self::of_task(&first["task"]);
        for frame in frames {
            fold.apply(&frame.event());
        }
        fold
    }

    /// Applies one more event.
    ///
    /// # Panics
    /// When the event breaks the rules above.
    pub fn apply(&mut self, event: &Value) {
        if event["task"].is_object() {
            *self = Self::of_task(&event["task"]);
        } else if let Some(update) = event["statusUpdate"].as_object() {
            assert_eq!(update["taskId"], self.id.as_str(), "an event of this task");
            self.state = string(&update["status"]["state"]);
        } else if let Some(update) = event["artifactUpdate"].as_object() {
            assert_eq!(update["taskId"], self.id.as_str(), "an event of this task");
            let append = update.get("append").and_then(Value::as_bool) == Some(true);
            self.take(&update["artifact"], append);
        } else {
            panic!("not an event of a task's stream: {event}");
        }
    }

    fn take(&mut self, artifact: &Value, append: bool) {
        let id = string(&artifact["artifactId"]);
        let known = self.artifacts.iter_mut().find(|known| known["artifactId"] == id.as_str());
        match (known, append) {
            (Some(known), false) => *known = artifact.clone(),
            (None, false) => self.artifacts.push(artifact.clone()),
            (None, true) => panic!("a chunk for an unknown artifact {id}"),
            (Some(known), true) => {
                let chunk = artifact["parts"].as_array().cloned().unwrap_or_default();
                match known["parts"].as_array_mut() {
                    Some(parts) => parts.extend(chunk),
                    None => known["parts"] = Value::Array(chunk),
                }
                for member in ["name", "description"] {
                    if artifact[member].is_string() {
                        known[member] = artifact[member].clone();
                    }
                }
                if let Some(new) = artifact["metadata"].as_object() {
                    match known["metadata"].as_object_mut() {
                        Some(old) => old.extend(new.clone()),
                        None => known["metadata"] = Value::Object(new.clone()),
                    }
                }
            }
        }
        for artifact in &mut self.artifacts {
            if artifact["artifactId"] == id.as_str() {
                join_texts(artifact);
            }
        }
    }

    pub fn artifacts(&self) -> &[Value] {
        &self.artifacts
    }

    /// The text of each artifact, by its id.
    pub fn texts(&self) -> BTreeMap<String, String> {
        self.artifacts.iter().map(|artifact| (string(&artifact["artifactId"]), text_of(&artifact["parts"]))).collect()
    }

    pub fn is_settled(&self) -> bool {
        is_settled(&self.state)
    }
}

/// Whether a state is terminal.
pub fn is_settled(state: &str) -> bool {
    matches!(state, "TASK_STATE_COMPLETED" | "TASK_STATE_FAILED" | "TASK_STATE_CANCELED" | "TASK_STATE_REJECTED")
}

/// The text of a list of parts.
pub fn text_of(parts: &Value) -> String {
    parts.as_array().into_iter().flatten().filter_map(|part| part["text"].as_str()).collect()
}

fn join_texts(artifact: &mut Value) {
    let Some(parts) = artifact["parts"].as_array_mut() else {
        return;
    };
    let mut joined: Vec<Value> = Vec::with_capacity(parts.len());
    for part in parts.drain(..) {
        if let (Some(more), Some(last)) = (plain_text(&part), joined.last_mut())
            && let Some(text) = plain_text(last)
        {
            *last = serde_json::json!({ "text": format!("{text}{more}") });
            continue;
        }
        joined.push(part);
    }
    *parts = joined;
}

/// The text of a part without other content.
fn plain_text(part: &Value) -> Option<&str> {
    let members = part.as_object()?;
    (members.len() == 1).then(|| members.get("text")?.as_str())?
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("expected a string, got {value}")).to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn start() -> Fold {
        Fold::of_task(&json!({ "id": "t", "status": { "state": "TASK_STATE_WORKING" } }))
    }

    fn chunk(text: &str, append: bool) -> Value {
        json!({ "artifactUpdate": {
            "taskId": "t", "append": append,
            "artifact": { "artifactId": "a", "parts": [{ "text": text }] },
        } })
    }

    #[test]
    fn appended_chunks_are_one_text() {
        let mut fold = start();
        fold.apply(&chunk("one ", false));
        fold.apply(&chunk("two", true));
        assert_eq!(fold.texts()["a"], "one two");
        assert_eq!(fold.artifacts()[0]["parts"], json!([{ "text": "one two" }]));
    }

    #[test]
    fn a_chunk_without_append_starts_the_artifact_again() {
        let mut fold = start();
        fold.apply(&chunk("lost", false));
        fold.apply(&chunk("kept", false));
        assert_eq!(fold.texts()["a"], "kept");
        assert_eq!(fold.artifacts().len(), 1);
    }

    #[test]
    #[should_panic(expected = "unknown artifact")]
    fn a_chunk_for_an_unknown_artifact_is_a_fault_of_the_server() {
        start().apply(&chunk("?", true));
    }

    #[test]
    fn parts_that_say_more_than_text_stay_apart() {
        let mut fold = start();
        fold.apply(&chunk("one", false));
        fold.apply(&json!({ "artifactUpdate": {
            "taskId": "t", "append": true,
            "artifact": { "artifactId": "a", "parts": [{ "text": "two", "mediaType": "text/plain" }] },
        } }));
        assert_eq!(fold.artifacts()[0]["parts"].as_array().unwrap().len(), 2);
        assert_eq!(fold.texts()["a"], "onetwo");
    }
}
