//! The config file as written: values with the lines of their keys, to report the lines of mistakes.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_saphyr::Spanned;

/// A value and its key's line; in a list, the line it starts on.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(super) line: u64,
    pub(super) is: Is,
}

#[derive(Clone, Debug)]
pub(crate) enum Is {
    Scalar(Value),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

impl Node {
    pub(super) fn read(text: &str) -> Option<Node> {
        serde_saphyr::from_str::<Spanned<Is>>(text).ok().map(Node::from)
    }

    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        match &self.is {
            Is::Map(members) => members.iter().find(|(name, _)| name == key).map(|(_, node)| node),
            Is::Scalar(_) | Is::List(_) => None,
        }
    }

    /// The value at a path of names: `limits.attempts`. A scalar on the way is the short form of what is below it.
    pub(super) fn at(&self, path: &str) -> Option<&Node> {
        let mut at = self;
        for step in path.split('.') {
            match &at.is {
                Is::Map(_) => at = at.get(step)?,
                Is::Scalar(_) => return Some(at),
                Is::List(_) => return None,
            }
        }
        Some(at)
    }

    /// The line of the deepest existing part of a path: `auth.keys[1].name`.
    pub(super) fn line_of(&self, path: &str) -> Option<u64> {
        let (mut at, mut line) = (self, None);
        for step in path.split(['.', '[', ']']).filter(|step| !step.is_empty()) {
            let next = match &at.is {
                Is::Map(_) => at.get(step),
                Is::List(items) => step.parse::<usize>().ok().and_then(|n| items.get(n)),
                Is::Scalar(_) => None,
            };
            let Some(next) = next else { break };
            (at, line) = (next, Some(next.line));
        }
        line
    }

    pub(super) fn to_value(&self) -> Value {
        match &self.is {
            Is::Scalar(value) => value.clone(),
            Is::List(items) => Value::Array(items.iter().map(Node::to_value).collect()),
            Is::Map(members) => {
                Value::Object(members.iter().map(|(name, node)| (name.clone(), node.to_value())).collect())
            }
        }
    }
}

impl From<Spanned<Is>> for Node {
    fn from(spanned: Spanned<Is>) -> Node {
        Node { line: spanned.referenced.line(), is: spanned.value }
    }
}

impl<'de> Deserialize<'de> for Is {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Is, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Is;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }
    fn visit_bool<E>(self, value: bool) -> Result<Is, E> {
        Ok(Is::Scalar(value.into()))
    }
    fn visit_i64<E>(self, value: i64) -> Result<Is, E> {
        Ok(Is::Scalar(value.into()))
    }
    fn visit_u64<E>(self, value: u64) -> Result<Is, E> {
        Ok(Is::Scalar(value.into()))
    }
    fn visit_f64<E>(self, value: f64) -> Result<Is, E> {
        Ok(Is::Scalar(value.into()))
    }
    fn visit_str<E>(self, value: &str) -> Result<Is, E> {
        Ok(Is::Scalar(value.into()))
    }
    fn visit_unit<E>(self) -> Result<Is, E> {
        Ok(Is::Scalar(Value::Null))
    }
    fn visit_none<E>(self) -> Result<Is, E> {
        Ok(Is::Scalar(Value::Null))
    }
    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Is, D::Error> {
        deserializer.deserialize_any(Reader)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Is, A::Error> {
        let mut all = Vec::new();
        while let Some(item) = items.next_element::<Spanned<Is>>()? {
            all.push(item.into());
        }
        Ok(Is::List(all))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Is, A::Error> {
        let mut all = Vec::new();
        while let Some((key, value)) = members.next_entry::<Spanned<String>, Is>()? {
            all.push((key.value, Node { line: key.referenced.line(), is: value }));
        }
        Ok(Is::Map(all))
    }
}
