//! The OpenAPI document, generated from the routes and the types that they read and write.

use std::sync::LazyLock;

use http::HeaderValue;
use http::header::CACHE_CONTROL;
use serde_json::{Map, Value, json};

use super::error::MarketCode;
use super::routes::{MarketFuture, MarketRequest, MarketRoute, ROUTES, ResponseSchema, RouteAccess};
use super::{FORM, MAX_KEY, RefusedEnvelope};
use web::body::Response;
use web::openapi::{QueryParam, Schemas, operation_id, path_of, path_params, schema_of};
use web::response::json;

/// The document without the server's address.
static DOCUMENT: LazyLock<Value> = LazyLock::new(document);

pub(super) fn show<'a>(ask: &'a MarketRequest<'a>) -> MarketFuture<'a, Response> {
    let base = ask.base();
    Box::pin(async move {
        let mut document = DOCUMENT.clone();
        document["servers"] = json!([{ "url": format!("{base}/api/v1") }]);
        let mut response = json(document.to_string());
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        Ok(response)
    })
}

pub(super) fn document() -> Value {
    let mut schemas = Schemas::default();
    let refused = schemas.written(schema_of::<RefusedEnvelope<'_>>);
    let mut paths = Map::new();
    for route in ROUTES.iter() {
        let item = paths.entry(path_of(route.path)).or_insert_with(|| json!({}));
        item[route.verb.as_str().to_lowercase()] = operation(route, &mut schemas, &refused);
    }
    let (mut components, written) = schemas.definitions();
    components.extend(written);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Rialto market",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Capabilities for sale, purchases of them, and money that waits in between. Every answer is an envelope {code, message, data, timestamp}; programs branch on code, where 0 is success.",
        },
        "servers": [{ "url": "/api/v1" }],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "ApiKey": { "type": "apiKey", "in": "header", "name": "X-Api-Key", "description": "An agent's key." },
                "PlatformUser": {
                    "type": "apiKey", "in": "header", "name": "X-Platform-User-Id",
                    "description": "The user the key acts for; always beside X-Api-Key.",
                },
                "Bearer": { "type": "http", "scheme": "bearer", "description": "A person's access token." },
            },
        },
    })
}

fn operation(route: &MarketRoute, schemas: &mut Schemas, refused: &Value) -> Value {
    let mut parameters: Vec<Value> = path_params(route.path, |name| match name {
        "id" if route.path.starts_with("/transactions") => json!({ "type": "string", "pattern": ID }),
        _ => json!({ "type": "string", "minLength": 1, "maxLength": 200 }),
    });
    parameters.extend(route.query.iter().map(QueryParam::document));
    if route.keyed && route.who == RouteAccess::Caller {
        parameters.push(json!({
            "name": "Idempotency-Key", "in": "header", "required": false,
            "description": "The same key with the same request is answered as the first time, for a day.",
            "schema": { "type": "string", "minLength": 1, "maxLength": MAX_KEY, "pattern": "^[\\x21-\\x7e]+$" },
        }));
    }
    if let ResponseSchema::Events(_) = route.gives {
        parameters.push(json!({
            "name": "Last-Event-ID", "in": "header", "required": false,
            "description": "The id of the last event you have seen: you hear of what came after it.",
            "schema": { "type": "string", "pattern": ID },
        }));
    }
    let mut operation = json!({
        "operationId": operation_id(route.verb.as_str(), route.path),
        "tags": [route.tag],
        "summary": route.summary,
        "parameters": parameters,
        "security": match route.who {
            RouteAccess::Anyone => json!([]),
            RouteAccess::Either => json!([{}, { "ApiKey": [], "PlatformUser": [] }, { "Bearer": [] }]),
            RouteAccess::Caller => json!([{ "ApiKey": [], "PlatformUser": [] }, { "Bearer": [] }]),
        },
        "responses": responses(route, schemas, refused),
    });
    if let Some(takes) = route.takes {
        let schema = match takes.bytes {
            true => json!({ "type": "string", "format": "binary" }),
            false => schemas.read(takes.schema),
        };
        let media = if takes.bytes { "application/octet-stream" } else { "application/json" };
        let mut content = json!({ media: { "schema": schema } });
        if takes.bytes {
            content[super::files::MULTIPART] = json!({ "schema": {
                "type": "object",
                "required": ["file"],
                "properties": {
                    "file": { "type": "string", "format": "binary" },
                    "transaction_id": { "type": "string" },
                    "filename": { "type": "string" },
                },
            } });
        }
        if takes.form {
            content[FORM] = json!({ "schema": schema });
        }
        operation["requestBody"] = json!({ "required": takes.required, "content": content });
    }
    operation
}

/// The pattern of a transaction's id in all its spellings.
const ID: &str = "^(task_|tx_)?[0-7][0-9a-hjkmnp-tv-z]{25}$";

fn responses(route: &MarketRoute, schemas: &mut Schemas, refused: &Value) -> Value {
    let html = json!({ "text/html": { "schema": { "type": "string" } } });
    let mut success = |schema| {
        let data = schemas.written(schema);
        let envelope = json!({
            "type": "object",
            "required": ["code", "message", "data", "timestamp"],
            "properties": {
                "code": { "const": 0 },
                "message": { "type": "string" },
                "data": data,
                "timestamp": { "type": "integer", "description": "Unix seconds." },
            },
        });
        json!({ "application/json": { "schema": envelope } })
    };
    let content = match route.gives {
        ResponseSchema::Data(schema) => Some(success(schema)),
        ResponseSchema::DataOrHtml(schema) => {
            let mut both = success(schema);
            both["text/html"] = html["text/html"].clone();
            Some(both)
        }
        ResponseSchema::Bytes(schema) => {
            let mut both = success(schema);
            both["*/*"] = json!({ "schema": { "type": "string", "format": "binary" } });
            Some(both)
        }
        ResponseSchema::Json(schema) => Some(json!({ "application/json": { "schema": schemas.written(schema) } })),
        ResponseSchema::Html => Some(html.clone()),
        // The schema describes one event.
        ResponseSchema::Events(schema) => Some(json!({ "text/event-stream": {
            "schema": {
                "type": "object",
                "properties": { "event": { "type": "string" }, "data": { "type": "string" }, "id": { "type": "string" } },
                "required": ["event", "data"],
            },
            "x-event-data": schemas.written(schema),
        } })),
        ResponseSchema::Nothing => None,
    };
    let mut responses = Map::new();
    if let Some(content) = content {
        responses.insert("200".to_owned(), json!({ "description": "Done.", "content": content }));
    }
    if let ResponseSchema::Bytes(_) = route.gives {
        let part = json!({ "*/*": { "schema": { "type": "string", "format": "binary" } } });
        responses.insert("206".to_owned(), json!({ "description": "The range asked for.", "content": part }));
        responses.insert("304".to_owned(), json!({ "description": "You have it already." }));
    }
    let codes = route.refusals();
    let mut statuses: Vec<u16> = codes.iter().map(|code| code.status).collect();
    statuses.dedup();
    for status in statuses {
        let mut numbers: Vec<u32> = codes.iter().filter(|code| code.status == status).map(|code| code.number).collect();
        numbers.dedup();
        let schema = json!({ "allOf": [refused, { "properties": { "code": { "enum": numbers } } }] });
        let mut content = json!({ "application/json": { "schema": schema } });
        if let ResponseSchema::DataOrHtml(_) = route.gives {
            content["text/html"] = html["text/html"].clone();
        }
        let mut response = json!({ "description": words(&codes, status), "content": content });
        if matches!(status, 429 | 503) {
            response["headers"] =
                json!({ "Retry-After": { "description": "Seconds.", "schema": { "type": "integer" } } });
        }
        responses.insert(status.to_string(), response);
    }
    Value::Object(responses)
}

/// The description of an HTTP status by its codes.
fn words(codes: &[MarketCode], status: u16) -> String {
    let meanings = codes.iter().filter(|code| code.status == status).map(|code| {
        let meaning = match *code {
            MarketCode::BAD => "something is missing or malformed",
            MarketCode::LARGE => "the body is too large",
            MarketCode::MEDIA => "the body is not JSON by its media type",
            MarketCode::NOBODY => "nobody is logged in",
            MarketCode::DENIED => "not yours to do",
            MarketCode::MISSING => "there is no such thing",
            MarketCode::EXISTS => "it is there already, or the idempotency key was used for another request",
            MarketCode::KEY => "the API key is not good, or names no user",
            MarketCode::NOT_LINKED => "the key may not act for that user",
            MarketCode::INVALID => "a field cannot be so",
            MarketCode::QUOTA => "too many; try again later",
            MarketCode::TOO_OFTEN => "asked too often",
            MarketCode::PASSWORD => "account and password do not belong together",
            MarketCode::SHORT => "the balance does not suffice",
            MarketCode::WALLET => "not possible with this wallet",
            MarketCode::HALL => "the task hall is not here",
            MarketCode::STATE => "too late or too early",
            MarketCode::GONE => "used up, expired or removed",
            MarketCode::NOT_SERVED => "the seller did not serve it",
            MarketCode::BROKEN => "the server failed",
            MarketCode::AWAY => "the server cannot reach its data; try again shortly",
            _ => "refused",
        };
        format!("{}: {meaning}", code.number)
    });
    meanings.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
#[path = "openapi_tests.rs"]
mod tests;
