//! Parts of an OpenAPI document that every REST has: schemas of the types that are read and written, and parameters of
//! paths and queries. The same [`QueryParam`] checks a request and documents itself.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::routes::parameter;

/// The schema of one type.
pub type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

pub fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// Types that are read and types that are written have different rules for which members are required.
pub struct Schemas {
    read: SchemaGenerator,
    written: SchemaGenerator,
}

impl Default for Schemas {
    fn default() -> Schemas {
        let settings = || {
            SchemaSettings::draft2020_12().with(|settings| {
                settings.definitions_path = "/components/schemas".into();
                settings.meta_schema = None;
            })
        };
        Schemas {
            read: settings().for_deserialize().into_generator(),
            written: settings().for_serialize().into_generator(),
        }
    }
}

impl Schemas {
    pub fn read(&mut self, schema: SchemaOf) -> Value {
        schema(&mut self.read).to_value()
    }

    pub fn written(&mut self, schema: SchemaOf) -> Value {
        schema(&mut self.written).to_value()
    }

    /// The definitions that schemas refer to, of types that are read and of those that are written.
    pub fn definitions(mut self) -> (Map<String, Value>, Map<String, Value>) {
        (self.read.take_definitions(true), self.written.take_definitions(true))
    }
}

/// A parameter that a query may have.
#[derive(Clone, Copy)]
pub struct QueryParam {
    pub name: &'static str,
    pub description: &'static str,
    pub kind: ParamKind,
}

#[derive(Clone, Copy)]
pub enum ParamKind {
    Number { least: u32, most: u32, usual: Option<u32> },
    OneOf(fn() -> Vec<&'static str>),
    Text { most: usize },
}

impl QueryParam {
    /// Checks a value; the error is a sentence without its subject.
    pub fn check(&self, value: &str) -> Result<(), String> {
        match self.kind {
            ParamKind::Number { least, most, .. } => {
                let fits = value.parse::<u32>().is_ok_and(|number| (least..=most).contains(&number));
                // `+5` is a number to the parser, but not in any document.
                if !fits || value.starts_with('+') {
                    return Err(format!("must be a whole number from {least} to {most}"));
                }
            }
            ParamKind::OneOf(known) => {
                if !known().contains(&value) {
                    return Err(format!("must be one of {}", known().join(", ")));
                }
            }
            ParamKind::Text { most } => {
                if value.is_empty() || value.chars().count() > most || value.chars().any(char::is_control) {
                    return Err(format!("must have 1 to {most} printable characters"));
                }
            }
        }
        Ok(())
    }

    /// The parameter as the document has it.
    pub fn document(&self) -> Value {
        let schema = match self.kind {
            ParamKind::Number { least, most, usual } => {
                let mut schema = json!({ "type": "integer", "minimum": least, "maximum": most });
                if let Some(usual) = usual {
                    schema["default"] = usual.into();
                }
                schema
            }
            ParamKind::OneOf(known) => json!({ "type": "string", "enum": known() }),
            ParamKind::Text { most } => {
                json!({ "type": "string", "minLength": 1, "maxLength": most, "pattern": "^[^\\x00-\\x1f\\x7f-\\x9f]+$" })
            }
        };
        let Self { name, description, .. } = self;
        json!({ "name": name, "in": "query", "required": false, "description": description, "schema": schema })
    }
}

/// The path of a route as the document has it.
pub fn path_of(pattern: &str) -> String {
    pattern.replace("{path*}", "{path}")
}

/// The id of an operation: its method and the letters of its path.
pub fn operation_id(method: &str, pattern: &str) -> String {
    let name: String =
        pattern.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' }).collect();
    format!("{}{}", method.to_lowercase(), name.trim_end_matches('_'))
}

/// Parameters of a path; `schema` is asked for each by its name.
pub fn path_params(pattern: &str, schema: impl Fn(&str) -> Value) -> Vec<Value> {
    let braced = pattern.split('/').filter_map(parameter).map(|(name, _)| name);
    let parameter = |name: &str| {
        let schema = schema(name);
        json!({ "name": name.trim_end_matches('*'), "in": "path", "required": true, "schema": schema })
    };
    braced.map(parameter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: QueryParam = QueryParam {
        name: "page",
        description: "Page number.",
        kind: ParamKind::Number { least: 1, most: 9, usual: Some(1) },
    };

    #[test]
    fn a_parameter_checks_what_it_documents() {
        assert!(PAGE.check("9").is_ok());
        for bad in ["0", "10", "+5", "x", ""] {
            assert_eq!(PAGE.check(bad).unwrap_err(), "must be a whole number from 1 to 9", "{bad}");
        }
        let document = PAGE.document();
        assert_eq!(document["schema"], json!({ "type": "integer", "minimum": 1, "maximum": 9, "default": 1 }));
        let text = QueryParam { kind: ParamKind::Text { most: 2 }, ..PAGE };
        assert!(text.check("äö").is_ok() && text.check("abc").is_err() && text.check("\n").is_err());
        let one_of = QueryParam { kind: ParamKind::OneOf(|| vec!["a", "b"]), ..PAGE };
        assert_eq!(one_of.check("c").unwrap_err(), "must be one of a, b");
    }

    #[test]
    fn braces_of_a_pattern_are_parameters_of_its_path() {
        assert_eq!(path_params("/a/{id}:stop", |name| json!({ "title": name }))[0]["name"], "id");
        let params = path_params("/a/{id}/{path*}", |name| json!({ "title": name }));
        let names: Vec<&str> = params.iter().filter_map(|one| one["name"].as_str()).collect();
        assert_eq!((names, &params[1]["schema"]["title"]), (vec!["id", "path"], &json!("path*")));
        assert_eq!((path_of("/a/{path*}"), operation_id("GET", "/a/{id}")), ("/a/{path}".into(), "get_a__id".into()));
    }
}
