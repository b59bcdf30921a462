//! Answers of other servers that cannot be read as they stand.
//!
//! One part or member that is not what the protocol says must not cost the rest of an answer. An answer is read as it is;
//! only when that fails it is repaired, one mistake at a time, at the place that the reader names: a part becomes a data
//! part with what it was, a member that nothing depends on is left out, a list of one is made of what should be a list.
//! Each repair is noted, and the notes go with what was read ([`Seen::Partial`], [`TaskSeen::unread`]). An answer that lacks
//! what it cannot do without, such as the state of a task, stays unreadable.

use std::borrow::Cow;

use model::{Fault, Json};
use serde_json::{Map, Value, json};

use crate::card::Binding;
use crate::framing::shape::shortened;
use crate::peer::{Generation, Peer};
use crate::seen::{Seen, TaskSeen};

/// So many mistakes of one answer are repaired.
const MOST: usize = 64;
/// The length of a note.
const NOTE: usize = 300;
/// The frame of a stream that is passed on whole, at most.
const FRAME: usize = 64 << 10;

impl dyn Peer {
    /// The answer to a send, repaired where it must be.
    pub fn read_sent(&self, text: &str) -> Result<Seen, Fault> {
        self.repaired(text, |text| self.sent(text)).map(|(seen, unread)| noted(seen, unread))
    }

    /// The value of a stream's frame, repaired where it must be. A frame that cannot be read at all is passed on as data.
    pub fn read_event(&self, text: &str) -> Result<Seen, Fault> {
        match self.repaired(text, |text| self.event(text)) {
            Ok((seen, unread)) => Ok(noted(seen, unread)),
            Err(fault) => match Json::parse(text).filter(|json| json.is_object() && text.len() <= FRAME) {
                Some(value) => Ok(Seen::Unread { value, why: shortened(&fault.message, NOTE) }),
                None => Err(fault),
            },
        }
    }

    /// A task, repaired where it must be.
    pub fn read_task(&self, text: &str) -> Result<TaskSeen, Fault> {
        self.repaired(text, |text| self.task(text)).map(|(task, unread)| TaskSeen { unread, ..task })
    }

    /// The value that a reader makes of a text, and the parts that could not be read.
    fn repaired<T>(&self, text: &str, read: impl Fn(&str) -> Result<T, Fault>) -> Result<(T, Vec<String>), Fault> {
        let first = match read(text) {
            Ok(seen) => return Ok((seen, Vec::new())),
            Err(fault) => fault,
        };
        let Ok(mut value) = serde_json::from_str::<Value>(&with_whole_characters(text)) else { return Err(first) };
        let mut unread = Vec::new();
        for _ in 0..MOST {
            match read(&value.to_string()) {
                Ok(seen) => {
                    // Half characters and members that were given twice are gone without a repair.
                    if unread.is_empty() {
                        unread.push(shortened(&first.message, NOTE));
                    }
                    return Ok((seen, unread));
                }
                Err(fault) => {
                    let Some(path) = fault.field.as_deref().and_then(path) else { return Err(first) };
                    if !repair(&mut value, &path, &fault, |part| self.data_part(part)) {
                        return Err(first);
                    }
                    unread.push(shortened(&fault.message, NOTE));
                }
            }
        }
        Err(first)
    }

    /// A data part of this form.
    fn data_part(&self, value: Value) -> Value {
        let facts = self.facts();
        match (facts.generation, self.binding()) {
            (Generation::V1_0, Binding::JsonRpc | Binding::HttpJson) => json!({ "data": value }),
            (Generation::V0_3, Binding::HttpJson) => json!({ "data": { "data": value } }),
            (Generation::V0_3, Binding::JsonRpc) => json!({ "kind": "data", "data": value }),
            (Generation::V0_1, Binding::JsonRpc | Binding::HttpJson) => json!({ "type": "data", "data": value }),
        }
    }
}

fn noted(seen: Seen, unread: Vec<String>) -> Seen {
    match seen {
        seen if unread.is_empty() => seen,
        Seen::Task(task) => Seen::Task(TaskSeen { unread, ..task }),
        seen @ (Seen::Message { .. }
        | Seen::Status { .. }
        | Seen::Artifact { .. }
        | Seen::Partial { .. }
        | Seen::Unread { .. }) => Seen::Partial { seen: Box::new(seen), unread },
    }
}

/// One step of a path: a member by its name, or an entry by its place.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Member(String),
    Entry(usize),
}

/// `artifacts[0].parts[1].raw` as steps.
fn path(field: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    for name in field.split('.').filter(|name| !name.is_empty()) {
        let mut rest = name.split('[');
        match rest.next() {
            Some("") | None => {}
            Some(member) => steps.push(Step::Member(member.to_owned())),
        }
        for place in rest {
            steps.push(Step::Entry(place.strip_suffix(']')?.parse().ok()?));
        }
    }
    (!steps.is_empty()).then_some(steps)
}

/// The name that a member really has: readers name it as the protocol does, servers spell it otherwise.
fn spelling(object: &Map<String, Value>, name: &str) -> Option<String> {
    let snake = || {
        name.chars().fold(String::new(), |mut snake, c| {
            if c.is_ascii_uppercase() {
                snake.push('_');
            }
            snake.push(c.to_ascii_lowercase());
            snake
        })
    };
    let other = match name {
        "parts" => Some("content"),
        "message" if object.contains_key("msg") => Some("msg"),
        "message" => Some("update"),
        _ => None,
    };
    let names = [Some(name.to_owned()), Some(snake()), other.map(str::to_owned)];
    names.into_iter().flatten().find(|name| object.contains_key(name))
}

fn child<'v>(value: &'v mut Value, step: &Step) -> Option<&'v mut Value> {
    match step {
        Step::Member(name) => {
            let object = value.as_object_mut()?;
            let name = spelling(object, name)?;
            object.get_mut(&name)
        }
        Step::Entry(place) => value.as_array_mut()?.get_mut(*place),
    }
}

fn at<'v>(value: &'v mut Value, steps: &[Step]) -> Option<&'v mut Value> {
    steps.iter().try_fold(value, child)
}

fn is_named(step: Option<&Step>, names: &[&str]) -> bool {
    matches!(step, Some(Step::Member(name)) if names.contains(&name.as_str()))
}

/// Members of a part that say something about it and are not what it holds.
const ABOUT_A_PART: &[&str] = &["metadata", "filename", "mediaType", "media_type", "name", "mimeType", "mime_type"];

/// Repairs what a fault is about; false if nothing can be done there.
fn repair(value: &mut Value, path: &[Step], fault: &Fault, data_part: impl Fn(Value) -> Value) -> bool {
    // The innermost part that the path goes through.
    let part = (1..path.len())
        .rev()
        .find(|i| matches!(path[*i], Step::Entry(_)) && is_named(path.get(i - 1), &["parts", "content"]));
    if let Some(part) = part
        && !path[part + 1..].iter().any(|step| is_named(Some(step), ABOUT_A_PART))
    {
        let Some(found) = at(value, &path[..=part]) else { return false };
        // One that was made here and cannot be read all the same is no use.
        if is_data_part(found, &data_part) {
            return false;
        }
        *found = data_part(found.take());
        return true;
    }
    let Some((last, before)) = path.split_last() else { return false };
    if let Some(found) = at(value, path) {
        let wants_text = fault.message.contains("expected a string");
        match (&*found, last) {
            (Value::Number(_) | Value::Bool(_), _) if wants_text => {
                *found = Value::String(found.to_string());
                return true;
            }
            (Value::String(state), Step::Member(name)) if name == "status" => {
                *found = json!({ "state": state });
                return true;
            }
            (Value::Object(_) | Value::String(_), Step::Member(name))
                if ["parts", "content", "artifacts"].contains(&name.as_str()) =>
            {
                let one = found.take();
                *found = Value::Array(vec![one]);
                return true;
            }
            (_, Step::Entry(place)) if is_named(before.last(), &["artifacts"]) => {
                let whole = found.take();
                *found =
                    json!({ "artifactId": format!("unread-{place}"), "index": place, "parts": [data_part(whole)] });
                return true;
            }
            // Nothing can be said of a task without these.
            (_, Step::Member(name)) if ["state", "status", "task"].contains(&name.as_str()) => return false,
            _ => {}
        }
    }
    let Some(parent) = at(value, before) else { return false };
    match (parent, last) {
        (Value::Object(members), Step::Member(name)) => match spelling(members, name) {
            Some(name) => members.remove(&name).is_some(),
            None if name == "artifactId" => {
                let place = before.iter().rev().find_map(|step| match step {
                    Step::Entry(place) => Some(*place),
                    Step::Member(_) => None,
                });
                members.insert(name.clone(), format!("unread-{}", place.unwrap_or(0)).into());
                true
            }
            None => false,
        },
        (Value::Array(entries), Step::Entry(place)) if *place < entries.len() => {
            entries.remove(*place);
            true
        }
        _ => false,
    }
}

/// Whether a value is a data part as it is made here.
fn is_data_part(value: &Value, data_part: impl Fn(Value) -> Value) -> bool {
    let outer = value.get("data");
    let inner = outer.and_then(|data| data.get("data"));
    [outer, inner].into_iter().flatten().any(|data| data_part(data.clone()) == *value)
}

/// The text with a replacement character for each escape that is half of a character.
fn with_whole_characters(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let unit = |at: usize| -> Option<u16> {
        let escape = bytes.get(at..at + 6).filter(|escape| escape.starts_with(b"\\u"))?;
        u16::from_str_radix(std::str::from_utf8(&escape[2..]).ok()?, 16).ok()
    };
    let (mut out, mut copied, mut at) = (String::new(), 0, 0);
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr::memchr(b'\\', rest)) {
        at += found;
        let is_half = match (unit(at), unit(at + 6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => {
                at += 12;
                continue;
            }
            (Some(0xd800..=0xdfff), _) => true,
            (_, _) => false,
        };
        if is_half {
            out.push_str(&text[copied..at]);
            out.push_str("\\ufffd");
            copied = at + 6;
        }
        at += if is_half { 6 } else { 2 };
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[copied..]);
    Cow::Owned(out)
}

#[cfg(test)]
#[path = "repair_tests.rs"]
mod tests;
