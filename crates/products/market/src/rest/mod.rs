//! The market's REST API: `/api/v1`. The table of [`routes`] defines both the handlers and the OpenAPI document.
//!
//! Every response is an envelope, `{code, message, data, timestamp}`; clients branch on `code`, where 0 is success.

mod capabilities;
mod demands;
mod error;
mod externals;
mod files;
mod login;
mod openapi;
mod profile;
mod purchases;
mod quote;
pub(crate) mod request_rate;
mod routes;
mod runtime;
mod unimplemented;
mod wallet;

use std::sync::Arc;

use crate::service::{Credentials, Error as ServiceError, NotKnown, Once, Paged};
use bytes::Bytes;
use dialects::framing::query;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, StatusCode, request};
use model::Fault;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use web::context::{NotAnObject, RequestContext, object_text};
use web::credentials::{self, AuthScheme, Authorization};
use web::headers::{idempotency_key, request_fingerprint, text};

use error::{Error, MarketCode, RefusalData};
pub(crate) use files::{body_bytes, largest_body};
use routes::{KeyedBody, MarketReply, MarketRequest, MarketRoute, RouteAccess};

use crate::MarketService;
use crate::PLATFORM_USER;
use gateway::GatewayVersion;
use gateway::fronts::RequestLog;
use web::body::Response;
use web::response::{Rejection, private_json};

const FORM: &str = "application/x-www-form-urlencoded";
/// Maximum length of an idempotency key.
const MAX_KEY: usize = 255;

/// Answers a request. `below` is the path after `/api/v1`.
pub(crate) async fn answer(
    server: &Arc<GatewayVersion>,
    below: &str,
    head: &request::Parts,
    body: Result<Bytes, Fault>,
    log: &mut RequestLog,
) -> Response {
    log.dialect = crate::service::DIALECT;
    log.operation = "market";
    match call(server, below, head, body, log).await {
        Ok(MarketReply::Data(data)) => enveloped(&data),
        Ok(MarketReply::Whole(response)) => response,
        Err(error) => {
            debug_assert!(is_documented(head, below, error.code), "{below}: {error:?} is not in the document");
            rejection(&error).respond(log)
        }
    }
}

/// Whether the route documents this error code. Paths without a route are not documented.
fn is_documented(head: &request::Parts, below: &str, code: MarketCode) -> bool {
    routes::find(&head.method, below).map_or(true, |(route, _)| route.refusals().contains(&code))
}

async fn call(
    server: &Arc<GatewayVersion>,
    below: &str,
    head: &request::Parts,
    body: Result<Bytes, Fault>,
    log: &mut RequestLog,
) -> Result<MarketReply, Error> {
    let Some(uumit) = MarketService::settings(server) else { return Err(Error::missing("there is no market here")) };
    let market = &uumit.market;
    let found = routes::find(&head.method, below);
    let shown = credentials(&head.headers);
    let who = match &found {
        Ok((route, _)) => route.who,
        Err(_) => RouteAccess::Anyone,
    };
    let caller = match who {
        RouteAccess::Anyone => Ok(None),
        RouteAccess::Either if shown.api_key.is_none() && shown.user.is_none() && shown.bearer.is_none() => Ok(None),
        RouteAccess::Either | RouteAccess::Caller => market.who(shown).await.map(Some),
    };
    request_rate::keep(server, &head.headers, matches!(caller, Ok(Some(_))), log)?;
    let caller = match caller {
        Ok(caller) => caller,
        Err(refused) => {
            if let (Some(throttle), ServiceError::Who(NotKnown::Key | NotKnown::Token)) = (&server.throttle, &refused) {
                throttle.failed(log.address)?;
            }
            return Err(refused.into());
        }
    };
    log.caller = caller.as_ref().map(|caller| caller.user.0.clone());
    let (route, named) = found?;
    let body = body?;
    let query = routes::read_query(route, head.uri.query())?;
    let (text, by_form) = read(server, route, head, &body)?;
    let once = once(route, head, below, &text)?;
    let http = RequestContext { head, address: log.address, params: named, query, body: &body };
    let ask = MarketRequest { server, market, http, caller, once, by_form };
    (route.go)(&ask, &text).await
}

/// Credentials in the headers. A value that is not text, or a token of another scheme, counts as an unknown credential.
fn credentials(headers: &HeaderMap) -> Credentials<'_> {
    let bearer = Authorization::of(headers).map(|authorization| {
        let is_bearer = |one: &Authorization<'_>| one.scheme == AuthScheme::Bearer;
        authorization.ok().filter(is_bearer).and_then(|bearer| bearer.credentials).unwrap_or_default()
    });
    let api_key = credentials::api_key(headers).map(|key| key.unwrap_or("\u{fffd}"));
    let user = text(headers, &PLATFORM_USER).map(|user| user.unwrap_or("\u{fffd}"));
    Credentials { api_key, user, bearer }
}

/// The body as the text of an object, and whether it came as a form.
fn read<'a>(
    server: &GatewayVersion,
    route: &MarketRoute,
    head: &request::Parts,
    body: &'a [u8],
) -> Result<(std::borrow::Cow<'a, str>, bool), Error> {
    let Some(takes) = route.takes.filter(|takes| !takes.bytes) else { return Ok(("{}".into(), false)) };
    let said = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if takes.form && said.split(';').next().is_some_and(|bare| bare.trim().eq_ignore_ascii_case(FORM)) {
        return Ok((of_form(body)?.into(), true));
    }
    if body.is_empty() {
        return match takes.required {
            true => Err(Error::field("body", "is required: send a JSON object")),
            false => Ok(("{}".into(), false)),
        };
    }
    let text = object_text(head, body, server.engine.limits().json_depth).map_err(|error| match error {
        NotAnObject::MediaType(fault) => Error::new(MarketCode::MEDIA, fault.message),
        NotAnObject::Unreadable(fault) => fault.into(),
        NotAnObject::OtherValue => Error::field("body", "must be a JSON object"),
    })?;
    if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(text) {
        return Err(Error::field("body", format!("is not JSON: {error}")));
    }
    Ok((text.into(), false))
}

/// The fields of a form as the members of an object.
fn of_form(body: &[u8]) -> Result<String, Error> {
    let text = std::str::from_utf8(body).map_err(|_| Error::field("body", "is not a form"))?;
    let mut members = serde_json::Map::new();
    for pair in query::pairs(text) {
        let (name, value) = pair?;
        members.insert(name.into_owned(), value.into_owned().into());
    }
    Ok(Value::Object(members).to_string())
}

/// The idempotency key of the header or of the body.
fn once(route: &MarketRoute, head: &request::Parts, below: &str, text: &str) -> Result<Option<Once>, Error> {
    if !route.keyed {
        return Ok(None);
    }
    let wrong = || Error::field("idempotency_key", format!("must have 1 to {MAX_KEY} printable characters"));
    let header = idempotency_key(&head.headers).transpose().map_err(|_| wrong())?.map(str::to_owned);
    // A malformed body is refused later, with all its errors.
    let member = serde_json::from_str::<KeyedBody>(text).ok().and_then(|keyed| keyed.idempotency_key);
    let key = match (header, member) {
        (Some(header), Some(member)) if header != member => {
            return Err(Error::field("idempotency_key", "is not the one of the header Idempotency-Key"));
        }
        (Some(key), _) | (None, Some(key)) => key,
        (None, None) => return Ok(None),
    };
    let count = key.chars().count();
    if !(1..=MAX_KEY).contains(&count) || key.chars().any(char::is_control) {
        return Err(wrong());
    }
    Ok(Some(Once { key, print: request_fingerprint([head.method.as_str(), below, text]) }))
}

fn enveloped(data: &[u8]) -> Response {
    let mut body = Vec::with_capacity(data.len() + 64);
    body.extend_from_slice(br#"{"code":0,"message":"success","data":"#);
    body.extend_from_slice(data);
    body.extend_from_slice(format!(r#","timestamp":{}}}"#, jiff::Timestamp::now().as_second()).as_bytes());
    private_json(StatusCode::OK, Bytes::from(body))
}

/// The envelope of a refusal.
#[derive(Serialize, JsonSchema)]
struct RefusedEnvelope<'a> {
    code: u32,
    /// For people; programs branch on `code`.
    message: &'a str,
    data: Option<&'a RefusalData>,
    /// Unix seconds.
    timestamp: i64,
}

fn rejection(error: &Error) -> Rejection {
    let data = Some(&*error.data).filter(|data| **data != RefusalData::default());
    let timestamp = jiff::Timestamp::now().as_second();
    let envelope = RefusedEnvelope { code: error.code.number, message: &error.message, data, timestamp };
    Rejection::new(error.status(), error.message.as_str(), serde_json::to_vec(&envelope).unwrap_or_default())
        .retry_after(error.retry_after_s)
        .allow(error.allow.as_deref())
        .challenge(|| HeaderValue::from_static("Bearer"))
}

/// A page of a list.
#[derive(Debug, Serialize, JsonSchema)]
struct Page<T> {
    items: Vec<T>,
    total: u64,
    page: u32,
    page_size: u32,
    has_more: bool,
}

impl<T> Page<T> {
    fn of<R>(paged: Paged<R>, show: impl FnMut(&R) -> T) -> Page<T> {
        Page {
            items: paged.items.iter().map(show).collect(),
            total: paged.total,
            page: paged.page,
            page_size: paged.size,
            has_more: paged.more,
        }
    }
}

/// Refuses texts with control characters, since they become parts of keys.
fn printable(field: &'static str, text: Option<&str>) -> Result<(), Error> {
    match text {
        Some(text) if text.is_empty() || text.chars().any(char::is_control) => Err(ServiceError::from(
            market_rules::FieldError::new(field, "must have printable characters only, at least one"),
        )
        .into()),
        Some(_) | None => Ok(()),
    }
}

/// The names of a closed list, for documents and checks.
fn names<T: Copy>(all: &[T], name: fn(T) -> &'static str) -> Vec<&'static str> {
    all.iter().map(|one| name(*one)).collect()
}
