//! The OpenAPI document is complete and agrees with the routes.

use std::collections::{BTreeMap, HashSet};

use super::*;

fn walk<'a>(value: &'a Value, see: &mut impl FnMut(&'a Map<String, Value>)) {
    match value {
        Value::Object(members) => {
            see(members);
            members.values().for_each(|member| walk(member, see));
        }
        Value::Array(items) => items.iter().for_each(|item| walk(item, see)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn every_reference_leads_somewhere() {
    let document = document();
    let mut count = 0;
    walk(&document, &mut |members| {
        if let Some(Value::String(to)) = members.get("$ref") {
            let pointer = to.strip_prefix('#').unwrap_or_else(|| panic!("{to} leads out of the document"));
            assert!(document.pointer(pointer).is_some(), "{to} leads nowhere");
            count += 1;
        }
    });
    assert!(count > 100, "{count} references");
}

#[test]
fn what_is_read_and_what_is_written_have_names_of_their_own() {
    let mut schemas = Schemas::default();
    for route in ROUTES.iter() {
        if let Some(takes) = route.takes {
            schemas.read(takes.schema);
        }
        match route.gives {
            ResponseSchema::Data(schema)
            | ResponseSchema::Json(schema)
            | ResponseSchema::DataOrHtml(schema)
            | ResponseSchema::Bytes(schema)
            | ResponseSchema::Events(schema) => {
                drop(schemas.written(schema));
            }
            ResponseSchema::Html | ResponseSchema::Nothing => {}
        }
    }
    let (read, written) = schemas.definitions();
    let both: Vec<&String> = read.keys().filter(|name| written.contains_key(*name)).collect();
    assert!(both.is_empty(), "{both:?}");
}

#[test]
fn every_route_is_documented_with_all_it_answers() {
    let document = document();
    assert_eq!(document["openapi"], "3.1.0");
    let mut ids = HashSet::new();
    let mut documented: BTreeMap<String, usize> = BTreeMap::new();
    for route in ROUTES.iter() {
        let path = path_of(route.path);
        let operation = &document["paths"][&path][route.verb.as_str().to_lowercase()];
        assert!(ids.insert(operation["operationId"].as_str().unwrap()), "{operation}");
        *documented.entry(path.clone()).or_default() += 1;
        let responses = operation["responses"].as_object().unwrap();
        assert_eq!(responses.contains_key("200"), !matches!(route.gives, ResponseSchema::Nothing), "{path}");
        for code in route.refusals() {
            let schema = &responses[&code.status.to_string()]["content"]["application/json"]["schema"];
            let codes = schema["allOf"][1]["properties"]["code"]["enum"].as_array().unwrap();
            assert!(codes.contains(&code.number.into()), "{path}: {code:?}");
        }
        let braces = path.matches('{').count();
        let named = operation["parameters"].as_array().unwrap().iter().filter(|one| one["in"] == "path").count();
        assert_eq!(braces, named, "{path}");
        assert_eq!(operation["security"].as_array().unwrap().is_empty(), route.who == RouteAccess::Anyone, "{path}");
    }
    let paths = document["paths"].as_object().unwrap();
    assert_eq!(paths.len(), documented.len());
    for (path, count) in documented {
        assert_eq!(paths[&path].as_object().unwrap().len(), count, "{path}");
    }
}

#[test]
fn schemas_say_what_the_types_do() {
    let document = document();
    let schemas = &document["components"]["schemas"];
    assert_eq!(schemas["NewTransaction"]["required"], json!(["capability_id"]));
    let required = schemas["NewCapability"]["required"].as_array().unwrap();
    assert_eq!(required.len(), 5, "{required:?}");
    assert_eq!(schemas["Capability"]["properties"]["status"]["enum"][0], "draft");
    let shown = schemas["Transaction"]["required"].as_array().unwrap();
    assert!(shown.contains(&json!("settled_at")), "what may be null is there all the same: {shown:?}");
}
