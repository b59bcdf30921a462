//! The OpenAPI document, made of the table of routes and of the types that they read and write.

use http::StatusCode;
use serde_json::{Map, Value, json};
use web::body::Response;
use web::openapi::{QueryParam, Schemas, path_of, path_params, schema_of};
use web::routes::RouteRow as _;

use super::problem::{ApiProblem, MEDIA_TYPE, ProblemDocument};
use super::routes::{ApiRoute, Gives, ID, WIRE_OF_TASK};
use super::{ApiContext, BASE, ok, wires};

pub(super) async fn show(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let server = context.server;
    let mut document = context.door.table.document().clone();
    let base = server.cards.base_url(&server.settings, context.http.head);
    document["servers"] = json!([{ "url": format!("{base}{BASE}") }]);
    let forms = &mut document["paths"][WIRE_OF_TASK]["get"]["parameters"];
    if let Some(form) = forms.as_array_mut().and_then(|all| all.iter_mut().find(|one| one["name"] == "as")) {
        form["schema"] = json!({ "type": "string", "enum": wires::names(context.door.products) });
    }
    ok(&document)
}

pub(super) fn document(rows: &[&'static ApiRoute]) -> Value {
    let mut schemas = Schemas::default();
    let problem = schemas.written(schema_of::<ProblemDocument<'_>>);
    let mut paths = Map::new();
    for route in rows {
        let item = paths.entry(path_of(route.path)).or_insert_with(|| json!({}));
        item[route.method().to_lowercase()] = operation(route, &mut schemas, &problem);
    }
    let (mut components, written) = schemas.definitions();
    components.extend(written);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Rialto admin API",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Tasks, webhooks, keys and the server itself, for operators. A role is a scope of the caller's key or token: viewer, operator or admin. A caller of a tenant sees that tenant; an admin of the tenant default, and a credential with the scope all-tenants, sees all.",
        },
        "servers": [{ "url": BASE }],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "Bearer": { "type": "http", "scheme": "bearer", "description": "A key, or a token of an issuer." },
                "Session": {
                    "type": "apiKey", "in": "cookie", "name": "rialto_session",
                    "description": "The cookie of POST /session; where the address has a port, its name ends in `_PORT`. A change also needs the session's `csrf` in X-CSRF-Token.",
                },
                "ApiKey": { "type": "apiKey", "in": "header", "name": "X-Api-Key", "description": "A key." },
            },
        },
    })
}

fn operation(route: &ApiRoute, schemas: &mut Schemas, problem: &Value) -> Value {
    let text = |_: &str| json!({ "type": "string", "minLength": 1, "maxLength": ID });
    let mut parameters = path_params(route.path, text);
    parameters.extend(route.query.iter().map(QueryParam::document));
    if let Gives::Events { .. } = route.gives {
        parameters.push(json!({
            "name": "Last-Event-ID", "in": "header", "required": false,
            "description": "The id of the last event of a stream that was received: the stream goes on after it.",
            "schema": { "type": "string" },
        }));
    }
    let role = route.role.scope();
    let reach = if route.is_about_server { "; for callers who see all tenants" } else { "" };
    let mut operation = json!({
        "operationId": route.id(),
        "summary": route.summary,
        "description": format!("Needs the role {role}{reach}."),
        "x-required-role": role,
        "parameters": parameters,
        "security": [{ "Bearer": [] }, { "ApiKey": [] }, { "Session": [] }],
        "responses": responses(route, schemas, problem),
    });
    if route.is_open {
        operation["description"] = json!("Needs no role.");
        operation["security"] = json!([]);
        operation["x-required-role"] = Value::Null;
    }
    if let Some(takes) = route.takes {
        let schema = schemas.read(takes);
        operation["requestBody"] = json!({ "required": true, "content": { "application/json": { "schema": schema } } });
    }
    operation
}

fn responses(route: &ApiRoute, schemas: &mut Schemas, problem: &Value) -> Value {
    let (status, content) = match route.gives {
        Gives::Json(schema) => ("200", json!({ "application/json": { "schema": schemas.written(schema) } })),
        Gives::Created(schema) => ("201", json!({ "application/json": { "schema": schemas.written(schema) } })),
        Gives::Redirect => ("303", json!({})),
        Gives::Events { page, event } => {
            let (page, event) = (schemas.written(page), schemas.written(event));
            let stream = json!({
                "schema": { "type": "string", "description": "Server-sent events with an id each." },
                "x-event-data": event,
            });
            ("200", json!({ "application/json": { "schema": page }, "text/event-stream": stream }))
        }
        Gives::Stream { event } => {
            let stream = json!({
                "schema": { "type": "string", "description": "Server-sent events." },
                "x-event-data": schemas.written(event),
            });
            ("200", json!({ "text/event-stream": stream }))
        }
    };
    let mut responses = Map::new();
    responses.insert(status.to_owned(), json!({ "description": "Done.", "content": content }));
    for status in route.refusals() {
        let reason = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
        let mut response = json!({
            "description": reason.unwrap_or("Refused"),
            "content": { MEDIA_TYPE: { "schema": problem } },
        });
        if status == 401 {
            response["headers"] = json!({ "WWW-Authenticate": { "schema": { "type": "string" } } });
        }
        responses.insert(status.to_string(), response);
    }
    Value::Object(responses)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::routes::ROUTES;
    use super::*;

    fn own_document() -> Value {
        document(&ROUTES.iter().collect::<Vec<_>>())
    }

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
    fn every_route_is_documented_with_its_role_parameters_body_and_answers() {
        let document = own_document();
        let mut documented = 0;
        for route in ROUTES {
            let operation = &document["paths"][path_of(route.path)][route.method().to_lowercase()];
            assert_eq!(operation["operationId"], route.id());
            let role = Some(route.role.scope()).filter(|_| !route.is_open);
            assert_eq!(operation["x-required-role"], json!(role), "{}", route.path);
            assert_eq!(operation["requestBody"].is_object(), route.takes.is_some(), "{}", route.path);
            let named = |place: &str| -> Vec<&str> {
                let all = operation["parameters"].as_array().unwrap().iter().filter(|one| one["in"] == place);
                all.map(|one| one["name"].as_str().unwrap()).collect()
            };
            assert_eq!(named("path").len(), route.path.matches('{').count(), "{}", route.path);
            assert_eq!(named("query"), route.query.iter().map(|param| param.name).collect::<Vec<_>>());
            let answers: HashSet<&str> =
                operation["responses"].as_object().unwrap().keys().map(String::as_str).collect();
            assert!(route.refusals().iter().all(|status| answers.contains(&*status.to_string())));
            assert!(["200", "201", "303"].iter().any(|status| answers.contains(status)), "{}", route.path);
            documented += 1;
        }
        let items = document["paths"].as_object().unwrap().values();
        assert_eq!(items.map(|item| item.as_object().unwrap().len()).sum::<usize>(), documented);
    }

    #[test]
    fn every_reference_leads_somewhere_and_schemas_that_are_read_and_written_differ_in_name() {
        let document = own_document();
        let mut count = 0;
        walk(&document, &mut |members| {
            if let Some(Value::String(to)) = members.get("$ref") {
                assert!(document.pointer(to.strip_prefix('#').unwrap()).is_some(), "{to} leads nowhere");
                count += 1;
            }
        });
        assert!(count > 50, "{count} references");
        let mut schemas = Schemas::default();
        for route in ROUTES {
            route.takes.map(|takes| schemas.read(takes));
            match route.gives {
                Gives::Json(schema) | Gives::Created(schema) => drop(schemas.written(schema)),
                Gives::Redirect => {}
                Gives::Events { page, event } => drop((schemas.written(page), schemas.written(event))),
                Gives::Stream { event } => drop(schemas.written(event)),
            }
        }
        let (read, written) = schemas.definitions();
        assert!(read.keys().all(|name| !written.contains_key(name)), "{read:?}");
    }
}
