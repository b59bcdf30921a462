//! Conditions on edges: Orloj's conditions on a node's result.
//!
//! All members of one condition must hold. `output_contains`, `output_not_contains` and `output_matches` test the
//! result's text: its text parts, one to a line. The others test a value within the result's JSON, which is its first
//! data part or, without one, its text: `output_json_path` locates the value, as `$.a.b[0]` or as a JSON pointer
//! `/a/b/0`. If there is no such value no condition holds, `not_equals` included. `default: true` stands alone and
//! holds if no other condition of the node does.

use std::sync::Arc;

use model::{Content, Part};
use regex_automata::nfa::thompson::pikevm::{self, PikeVM};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Limit of a compiled pattern's size.
const PATTERN_BYTES: usize = 256 << 10;
/// Bytes of a text that a pattern is searched in.
const SEARCHED: usize = 1 << 20;

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Condition {
    /// The text has this in it, in upper or lower case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_contains: Option<String>,
    /// The text does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_not_contains: Option<String>,
    /// Somewhere in the text is a match of this regular expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_matches: Option<String>,
    /// Where in the JSON the value is that the following look at: `$.route`, `$.items[0].id`, `/items/0/id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_json_path: Option<String>,
    /// The value is this: a text, a number, `true` or `false`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub equals: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_equals: Option<Value>,
    /// The list has this element, or the text this in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contains: Option<Value>,
    /// The number is greater than this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub greater_than: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub less_than: Option<Value>,
    /// Taken if no other condition of the node holds.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub default: bool,
}

/// A compiled condition.
#[derive(Clone, Debug)]
pub struct CompiledCondition {
    clauses: Vec<Clause>,
}

#[derive(Clone, Debug)]
enum Clause {
    Text { has: bool, what: String },
    Matches(Arc<PikeVM>),
    At(Vec<PathStep>, Compare),
}

#[derive(Clone, Debug)]
enum Compare {
    Equals(bool, String),
    Contains(String),
    Greater(f64),
    Less(f64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PathStep {
    Member(String),
    Element(usize),
    /// A segment of a JSON pointer: an object key or an array index.
    Either(String),
}

impl Condition {
    /// The compiled condition, or the error: the member, and the reason.
    pub(crate) fn test(&self) -> Result<CompiledCondition, (&'static str, String)> {
        let mut clauses = Vec::new();
        let text = |member: &'static str, what: &Option<String>, has: bool, clauses: &mut Vec<Clause>| match what {
            Some(what) if what.is_empty() => Err((member, "is empty; say what to look for".to_owned())),
            Some(what) => {
                clauses.push(Clause::Text { has, what: what.to_lowercase() });
                Ok(())
            }
            None => Ok(()),
        };
        text("output_contains", &self.output_contains, true, &mut clauses)?;
        text("output_not_contains", &self.output_not_contains, false, &mut clauses)?;
        if let Some(pattern) = &self.output_matches {
            clauses.push(Clause::Matches(Arc::new(pattern_of(pattern).map_err(|says| ("output_matches", says))?)));
        }
        let mut compares = Vec::new();
        for (member, value, is) in [("equals", &self.equals, true), ("not_equals", &self.not_equals, false)] {
            if let Some(value) = value {
                compares.push((member, Compare::Equals(is, plain(value).ok_or((member, NO_SCALAR.to_owned()))?)));
            }
        }
        if let Some(value) = &self.contains {
            let what = plain(value).ok_or(("contains", NO_SCALAR.to_owned()))?;
            compares.push(("contains", Compare::Contains(what)));
        }
        let number = |member: &'static str, value: &Value| {
            let number = plain(value).and_then(|text| text.parse::<f64>().ok()).filter(|n| n.is_finite());
            number.ok_or((member, "is no number; write one such as 0.9".to_owned()))
        };
        if let Some(value) = &self.greater_than {
            compares.push(("greater_than", Compare::Greater(number("greater_than", value)?)));
        }
        if let Some(value) = &self.less_than {
            compares.push(("less_than", Compare::Less(number("less_than", value)?)));
        }
        match (&self.output_json_path, compares.first()) {
            (None, Some((member, _))) => {
                return Err((member, "needs output_json_path beside it, to say of which value".into()));
            }
            (Some(_), None) => {
                let says = "needs something to compare with: equals, not_equals, contains, greater_than or less_than";
                return Err(("output_json_path", says.into()));
            }
            (Some(path), Some(_)) => {
                let steps = steps(path).map_err(|says| ("output_json_path", says))?;
                clauses.extend(compares.into_iter().map(|(_, compare)| Clause::At(steps.clone(), compare)));
            }
            (None, None) => {}
        }
        if self.default && !clauses.is_empty() {
            return Err(("default", "stands alone; leave out the other conditions of this edge".into()));
        }
        if !self.default && clauses.is_empty() {
            return Err(("", "says nothing; leave it out for an edge that is always taken".into()));
        }
        Ok(CompiledCondition { clauses })
    }
}

const NO_SCALAR: &str = "must be a text, a number, true or false";

impl CompiledCondition {
    /// Whether all members hold for a result.
    pub(crate) fn holds(&self, result: &NodeOutput) -> bool {
        self.clauses.iter().all(|clause| match clause {
            Clause::Text { has, what } => result.lower.contains(what) == *has,
            Clause::Matches(pattern) => {
                let mut end = result.text.len().min(SEARCHED);
                while !result.text.is_char_boundary(end) {
                    end -= 1;
                }
                pattern.is_match(&mut pattern.create_cache(), &result.text[..end])
            }
            Clause::At(steps, compare) => {
                result.json.as_ref().and_then(|json| at(json, steps)).is_some_and(|value| compare.holds(value))
            }
        })
    }
}

impl Compare {
    fn holds(&self, value: &Value) -> bool {
        let number = |value: &Value| plain(value).and_then(|text| text.parse::<f64>().ok());
        match self {
            Compare::Equals(is, what) => (plain(value).as_deref() == Some(what)) == *is,
            Compare::Contains(what) => match value {
                Value::Array(all) => all.iter().any(|one| plain(one).as_deref() == Some(what)),
                Value::String(text) => text.to_lowercase().contains(&what.to_lowercase()),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
            },
            Compare::Greater(least) => number(value).is_some_and(|n| n > *least),
            Compare::Less(most) => number(value).is_some_and(|n| n < *most),
        }
    }
}

/// A result in the form that conditions test.
pub(crate) struct NodeOutput {
    text: String,
    lower: String,
    json: Option<Value>,
}

impl NodeOutput {
    pub(crate) fn of(parts: &[Part]) -> NodeOutput {
        let texts: Vec<&str> = parts.iter().filter_map(Part::as_text).collect();
        let text = texts.join("\n");
        let data = parts.iter().find_map(|part| match &part.content {
            Content::Data(json) => Some(json.to_value()),
            Content::Text(_) | Content::Raw(_) | Content::Url(_) | Content::Blob(_) => None,
        });
        let json = data.or_else(|| serde_json::from_str(text.trim()).ok());
        NodeOutput { lower: text.to_lowercase(), text, json }
    }
}

/// The text of a scalar value.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn pattern_of(pattern: &str) -> Result<PikeVM, String> {
    let limited = regex_automata::nfa::thompson::Config::new().nfa_size_limit(Some(PATTERN_BYTES));
    let built = pikevm::Builder::new().thompson(limited).build(pattern);
    built.map_err(|error| format!("is no regular expression that can be used: {error}"))
}

fn steps(path: &str) -> Result<Vec<PathStep>, String> {
    let wrong = || format!("{path:?} is no path; write one such as $.result.items[0] or /result/items/0");
    if path.is_empty() {
        return Err(wrong());
    }
    if let Some(pointer) = path.strip_prefix('/') {
        let unescaped = |step: &str| step.replace("~1", "/").replace("~0", "~");
        return Ok(pointer.split('/').map(|step| PathStep::Either(unescaped(step))).collect());
    }
    let mut rest = path.strip_prefix('$').unwrap_or(path);
    let mut steps = Vec::new();
    // `route` is accepted like `$.route`.
    if !rest.is_empty() && !rest.starts_with(['.', '[']) {
        if rest.len() != path.len() {
            return Err(wrong());
        }
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        steps.push(PathStep::Member(rest[..end].into()));
        rest = &rest[end..];
    }
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            if end == 0 {
                return Err(wrong());
            }
            steps.push(PathStep::Member(after[..end].into()));
            rest = &after[end..];
        } else {
            let (inside, after) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')).ok_or_else(wrong)?;
            let quoted = inside.strip_prefix(['"', '\'']).and_then(|name| name.strip_suffix(['"', '\'']));
            steps.push(match quoted {
                Some(name) => PathStep::Member(name.into()),
                None => PathStep::Element(inside.parse().map_err(|_| wrong())?),
            });
            rest = after;
        }
    }
    Ok(steps)
}

fn at<'a>(json: &'a Value, steps: &[PathStep]) -> Option<&'a Value> {
    steps.iter().try_fold(json, |value, step| match step {
        PathStep::Member(name) => value.get(name),
        PathStep::Element(n) => value.get(n),
        PathStep::Either(name) if value.is_array() => value.get(name.parse::<usize>().ok()?),
        PathStep::Either(name) => value.get(name),
    })
}

#[cfg(test)]
mod tests {
    use model::Json;
    use serde_json::json;

    use super::*;

    fn test(condition: Value) -> Result<CompiledCondition, (&'static str, String)> {
        serde_json::from_value::<Condition>(condition).unwrap().test()
    }

    fn holds(condition: Value, parts: &[Part]) -> bool {
        test(condition).unwrap().holds(&NodeOutput::of(parts))
    }

    #[test]
    fn text_is_looked_at_in_any_case_and_over_all_its_parts() {
        let said = [Part::text("All is WELL"), Part::data(Json::parse("1").unwrap()), Part::text("in Ärger")];
        for (condition, expected) in [
            (json!({"output_contains": "is well"}), true),
            (json!({"output_contains": "ill"}), false),
            (json!({"output_contains": "ÄRGER"}), true),
            (json!({"output_not_contains": "well"}), false),
            (json!({"output_not_contains": "ill"}), true),
            (json!({"output_contains": "well", "output_not_contains": "all"}), false),
            (json!({"output_matches": "WELL\nin"}), true),
            (json!({"output_matches": "^is"}), false),
            (json!({"output_matches": "(?i)W[aeiou]ll$"}), false),
            (json!({"output_matches": "(?im)w[aeiou]ll$"}), true),
        ] {
            assert_eq!(holds(condition.clone(), &said), expected, "{condition}");
        }
    }

    #[test]
    fn values_are_found_in_data_and_in_text_that_is_json() {
        let value = json!({"route": "Legal", "n": 0.95, "yes": true, "none": null, "on": {"list": [{"id": 7}, "b"]}});
        let (data, text) = (Part::data(Json::from_value(&value)), Part::text(format!(" {value}\n")));
        for (path, compare, expected) in [
            ("$.route", json!({"equals": "Legal"}), true),
            ("route", json!({"equals": "legal"}), false),
            ("$.route", json!({"not_equals": "legal"}), true),
            ("$.gone", json!({"not_equals": "legal"}), false),
            ("$.route", json!({"contains": "leg"}), true),
            ("$.n", json!({"greater_than": "0.9"}), true),
            ("$.n", json!({"greater_than": 0.95}), false),
            ("$.n", json!({"less_than": 1, "greater_than": 0}), true),
            ("$.yes", json!({"equals": true}), true),
            ("$.yes", json!({"equals": "true"}), true),
            ("$.none", json!({"equals": "null"}), false),
            ("$.on.list[0].id", json!({"equals": 7}), true),
            ("$.on[\"list\"][1]", json!({"equals": "b"}), true),
            ("/on/list/0/id", json!({"equals": "7"}), true),
            ("$.on.list", json!({"contains": "b"}), true),
            ("$.on.list", json!({"contains": "c"}), false),
            ("$.on.list[9]", json!({"equals": "b"}), false),
        ] {
            let mut condition = compare.clone();
            condition["output_json_path"] = path.into();
            for part in [&data, &text] {
                assert_eq!(holds(condition.clone(), std::slice::from_ref(part)), expected, "{condition}");
            }
        }
        assert!(!holds(json!({"output_json_path": "$.a", "not_equals": "1"}), &[Part::text("no json")]));
    }

    #[test]
    fn what_means_nothing_is_refused_by_its_name() {
        for (condition, member) in [
            (json!({}), ""),
            (json!({"default": false}), ""),
            (json!({"default": true, "output_contains": "x"}), "default"),
            (json!({"output_contains": ""}), "output_contains"),
            (json!({"output_matches": "("}), "output_matches"),
            (json!({"output_matches": "((a{100}){100}){100}"}), "output_matches"),
            (json!({"equals": "x"}), "equals"),
            (json!({"output_json_path": "$.a"}), "output_json_path"),
            (json!({"output_json_path": "$a", "equals": 1}), "output_json_path"),
            (json!({"output_json_path": "$.", "equals": 1}), "output_json_path"),
            (json!({"output_json_path": "$.a[x]", "equals": 1}), "output_json_path"),
            (json!({"output_json_path": "$.a", "equals": [1]}), "equals"),
            (json!({"output_json_path": "$.a", "less_than": "many"}), "less_than"),
        ] {
            let (wrong, says) = test(condition.clone()).unwrap_err();
            assert_eq!(wrong, member, "{condition}: {says}");
        }
        test(json!({"default": true})).unwrap();
    }
}
