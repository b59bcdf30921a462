//! Compares a config file with the schema, to find all errors of form at once.
//!
//! It runs only on a file that serde has refused, to explain why; serde alone decides whether a file is valid.

use serde_json::Value;

use super::nearest;
use super::tree::{Is, Node};

/// A key and its error.
pub(super) struct ShapeMismatch {
    pub(super) path: String,
    pub(super) line: u64,
    pub(super) says: String,
}

pub(super) fn compare(schema: &Value, node: &Node) -> Vec<ShapeMismatch> {
    let mut found = Vec::new();
    Comparison { root: schema }.walk(schema, node, "", &mut found);
    found
}

struct Comparison<'s> {
    root: &'s Value,
}

impl<'s> Comparison<'s> {
    fn walk(&self, schema: &'s Value, node: &Node, path: &str, found: &mut Vec<ShapeMismatch>) {
        let schema = self.resolved(schema);
        if let Some(branches) = ["oneOf", "anyOf"].iter().find_map(|name| schema.get(*name)?.as_array()) {
            return self.branches(branches, node, path, found);
        }
        if let Some(words) = words(schema) {
            return one_of(&words, node, path, found);
        }
        let expected = expected_types(schema);
        if !expected.is_empty() && !expected.iter().any(|kind| fits(kind, node)) {
            found.push(wrong(node, path, format!("must be {}, not {}", in_words(&expected), shown(node))));
            return;
        }
        if let (Some(least), Is::Scalar(Value::Number(number))) = (schema.get("minimum"), &node.is)
            && number.as_f64() < least.as_f64()
        {
            found.push(wrong(node, path, format!("must be {least} or more, not {number}")));
        }
        match &node.is {
            Is::Map(members) => self.members(schema, members, node, path, found),
            Is::List(items) => {
                if let Some(of) = schema.get("items") {
                    for (n, item) in items.iter().enumerate() {
                        self.walk(of, item, &format!("{path}[{n}]"), found);
                    }
                }
            }
            Is::Scalar(_) => {}
        }
    }

    fn members(
        &self,
        schema: &'s Value,
        members: &[(String, Node)],
        whole: &Node,
        path: &str,
        found: &mut Vec<ShapeMismatch>,
    ) {
        let known = schema.get("properties").and_then(Value::as_object);
        let others = schema.get("additionalProperties");
        for (name, node) in members {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            match (known.and_then(|known| known.get(name)), others) {
                (Some(schema), _) => self.walk(schema, node, &path, found),
                (None, Some(Value::Bool(false))) => {
                    let names = known.into_iter().flat_map(|known| known.keys()).map(String::as_str);
                    let advice = advice(name, names);
                    found.push(wrong(node, &path, format!("unknown field `{name}`{advice}")));
                }
                (None, Some(of)) if of.is_object() => self.walk(of, node, &path, found),
                (None, Some(_) | None) => {}
            }
        }
        for name in schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
            if !members.iter().any(|(known, _)| known == name) {
                found.push(wrong(whole, path, format!("missing field `{name}`; add it")));
            }
        }
    }

    fn branches(&self, branches: &'s [Value], node: &Node, path: &str, found: &mut Vec<ShapeMismatch>) {
        let compared = |schema: &'s Value| {
            let mut found = Vec::new();
            self.walk(schema, node, path, &mut found);
            found
        };
        let mut all = Vec::new();
        self.flatten(branches, &mut all, 0);
        let branches = all;
        if branches.iter().any(|branch| compared(branch).is_empty()) {
            return;
        }
        // The fields of an agent depend on its kind.
        let kinds: Vec<&str> = branches.iter().filter_map(|branch| kind_of(branch)).collect();
        if !kinds.is_empty()
            && let Is::Map(members) = &node.is
        {
            let named = members.iter().find(|(name, _)| name == "kind").map(|(_, kind)| kind);
            match named.map(|kind| (kind, kind.to_value())) {
                None => {
                    found.push(wrong(node, path, format!("an agent needs a kind: one of {}", kinds.join(", "))));
                }
                Some((at, Value::String(kind))) => match branches.iter().find(|one| kind_of(one) == Some(&*kind)) {
                    Some(branch) => found.extend(compared(branch)),
                    None => {
                        let advice = advice(&kind, kinds.iter().copied());
                        found.push(wrong(at, &format!("{path}.kind"), format!("unknown kind `{kind}`{advice}")));
                    }
                },
                Some((at, _)) => {
                    found.push(wrong(at, &format!("{path}.kind"), format!("must be one of {}", kinds.join(", "))));
                }
            }
            return;
        }
        let is_null = |branch: &&Value| expected_types(branch) == ["null"];
        let only_words = branches.iter().filter(|branch| !is_null(branch)).all(|branch| words(branch).is_some());
        let all_words: Vec<&str> = branches.iter().filter_map(|branch| words(branch)).flatten().collect();
        let alike: Vec<&&Value> = branches.iter().filter(|one| is_like(self.resolved(one), node)).collect();
        match (&alike[..], &node.is) {
            (_, Is::Scalar(_)) if only_words && !all_words.is_empty() => one_of(&all_words, node, path, found),
            // A type with several forms has its own error text: that of the parser.
            (_, Is::Scalar(_)) if branches.iter().filter(|branch| !is_null(branch)).count() > 1 => {}
            ([one], _) if words(one).is_none() => found.extend(compared(one)),
            ([], _) => {
                let kinds: Vec<&str> = branches.iter().flat_map(|one| expected_types(one)).collect();
                found.push(wrong(node, path, format!("must be {}, not {}", in_words(&kinds), shown(node))));
            }
            // The most similar branch explains the error.
            (several, _) => {
                let nearest = several.iter().map(|one| compared(one)).min_by_key(Vec::len);
                found.extend(nearest.into_iter().flatten());
            }
        }
    }

    /// Nested branches in one list.
    fn flatten(&self, branches: &'s [Value], all: &mut Vec<&'s Value>, depth: usize) {
        for branch in branches {
            let branch = self.resolved(branch);
            let inner = ["oneOf", "anyOf"].iter().find_map(|name| branch.get(*name)?.as_array());
            match inner {
                Some(inner) if depth < 8 => self.flatten(inner, all, depth + 1),
                Some(_) | None => all.push(branch),
            }
        }
    }

    fn resolved(&self, schema: &'s Value) -> &'s Value {
        let mut schema = schema;
        // References do not loop without a key in between; this is only a bound.
        for _ in 0..16 {
            let Some(name) = schema.get("$ref").and_then(Value::as_str).and_then(|text| text.strip_prefix("#/$defs/"))
            else {
                return schema;
            };
            schema = self.root.get("$defs").and_then(|defs| defs.get(name)).unwrap_or(&Value::Null);
        }
        schema
    }
}

fn wrong(node: &Node, path: &str, says: String) -> ShapeMismatch {
    ShapeMismatch { path: path.to_owned(), line: node.line, says }
}

fn one_of(words: &[&str], node: &Node, path: &str, found: &mut Vec<ShapeMismatch>) {
    if let Is::Scalar(Value::String(text)) = &node.is {
        if !words.contains(&&**text) {
            let advice = advice(text, words.iter().copied());
            found.push(wrong(node, path, format!("must be one of {}, not `{text}`{advice}", words.join(", "))));
        }
    } else {
        found.push(wrong(node, path, format!("must be one of {}, not {}", words.join(", "), shown(node))));
    }
}

/// `; did you mean …?`, if there is a similar name.
fn advice<'n>(wrong: &str, known: impl Iterator<Item = &'n str>) -> String {
    nearest(wrong, known).map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
}

/// The words of a schema that allows nothing else.
fn words(schema: &Value) -> Option<Vec<&str>> {
    if let Some(word) = schema.get("const").and_then(Value::as_str) {
        return Some(vec![word]);
    }
    schema.get("enum")?.as_array()?.iter().map(Value::as_str).collect()
}

fn kind_of(schema: &Value) -> Option<&str> {
    schema.get("properties")?.get("kind")?.get("const")?.as_str()
}

fn expected_types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        Some(_) | None => Vec::new(),
    }
}

/// Whether a schema accepts values of this type at all.
fn is_like(schema: &Value, node: &Node) -> bool {
    let types = expected_types(schema);
    words(schema).is_some_and(|_| matches!(node.is, Is::Scalar(_))) || types.iter().any(|kind| fits(kind, node))
}

/// As YAML is read: a number may be quoted, and a text may look like one.
fn fits(kind: &str, node: &Node) -> bool {
    match (kind, &node.is) {
        ("null", Is::Scalar(value)) => value.is_null(),
        ("string", Is::Scalar(value)) => !value.is_null(),
        ("object", Is::Map(_)) | ("array", Is::List(_)) => true,
        // An empty section means its defaults.
        ("object", Is::Scalar(Value::Null)) => true,
        ("integer", Is::Scalar(Value::Number(number))) => number.is_i64() || number.is_u64(),
        ("number", Is::Scalar(Value::Number(_))) => true,
        ("integer", Is::Scalar(Value::String(text))) => text.parse::<i64>().is_ok(),
        ("number", Is::Scalar(Value::String(text))) => text.parse::<f64>().is_ok(),
        ("boolean", Is::Scalar(Value::Bool(_))) => true,
        ("boolean", Is::Scalar(Value::String(text))) => {
            matches!(&*text.to_lowercase(), "yes" | "no" | "on" | "off" | "y" | "n" | "true" | "false")
        }
        _ => false,
    }
}

fn in_words(kinds: &[&str]) -> String {
    let word = |kind: &&str| match *kind {
        "string" => Some("a text"),
        "integer" => Some("a whole number"),
        "number" => Some("a number"),
        "boolean" => Some("true or false"),
        "array" => Some("a list, as in [a, b]"),
        "object" => Some("a section with fields of its own, as in { name: value }"),
        _ => None,
    };
    let mut words: Vec<&str> = kinds.iter().filter_map(word).collect();
    words.dedup();
    words.join(" or ")
}

/// The value as written, if it is short.
fn shown(node: &Node) -> String {
    match &node.is {
        Is::Scalar(Value::Null) => "empty".to_owned(),
        Is::Scalar(Value::String(text)) if text.chars().count() <= 40 => format!("`{text}`"),
        Is::Scalar(Value::String(_)) => "a long text".to_owned(),
        Is::Scalar(value) => format!("`{value}`"),
        Is::List(_) => "a list".to_owned(),
        Is::Map(_) => "a section".to_owned(),
    }
}
