//! The table of routes, from which both the handlers and the OpenAPI document are taken.

mod rows;

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};

use crate::service::{Market, MarketCaller, Once, Paging};
use dialects::framing::query;
use http::Method;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::{Error, MarketCode};
use gateway::GatewayVersion;
use web::body::Response;
use web::context::{RequestContext, read_object};
use web::openapi::{ParamKind, QueryParam, SchemaOf, schema_of};
use web::routes::{NoRoute, RouteRow, RouteTable};

pub(super) use rows::ROUTES;

/// An admitted request with its parsed path, query and idempotency key.
pub(super) struct MarketRequest<'a> {
    pub(super) server: &'a Arc<GatewayVersion>,
    pub(super) market: &'a Market,
    pub(super) http: RequestContext<'a>,
    pub(super) caller: Option<MarketCaller>,
    pub(super) once: Option<Once>,
    /// The body is a form from a browser.
    pub(super) by_form: bool,
}

impl MarketRequest<'_> {
    /// The caller. Present on routes with [`RouteAccess::Caller`].
    pub(super) fn caller(&self) -> Result<&MarketCaller, Error> {
        self.caller.as_ref().ok_or_else(|| crate::service::Error::from(crate::service::NotKnown::Missing).into())
    }
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.http.query_param(name)
    }
    pub(super) fn number(&self, name: &str) -> Option<u32> {
        self.text(name)?.parse().ok()
    }
    pub(super) fn paging(&self) -> Paging {
        Paging { page: self.number("page").unwrap_or(1), size: self.number("page_size").unwrap_or(PAGE_SIZE) }
    }
    pub(super) fn base(&self) -> String {
        self.server.cards.base_url(&self.server.settings, self.http.head)
    }
}

const PAGE_SIZE: u32 = 20;
/// Maximum page number, which bounds the number of skipped rows.
const MOST_PAGES: u32 = 10_000;

pub(super) const PAGES: [QueryParam; 2] = [
    QueryParam {
        name: "page",
        description: "Which page; the first is 1.",
        kind: ParamKind::Number { least: 1, most: MOST_PAGES, usual: Some(1) },
    },
    QueryParam {
        name: "page_size",
        description: "How many on a page.",
        kind: ParamKind::Number { least: 1, most: 100, usual: Some(PAGE_SIZE) },
    },
];

/// The callers that a route admits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RouteAccess {
    Anyone,
    /// Anonymous or authenticated callers. A credential must be valid, and may show more.
    Either,
    Caller,
}

/// The schema of a route's response.
#[derive(Clone, Copy)]
pub(super) enum ResponseSchema {
    /// `data` of the envelope.
    Data(SchemaOf),
    /// A document of its own.
    Json(SchemaOf),
    Html,
    /// Resumable server-sent events; the schema describes the data of events with an id.
    Events(SchemaOf),
    /// `data` of the envelope, or a page if the request was a form.
    DataOrHtml(SchemaOf),
    /// A file, or its metadata as `data` of the envelope.
    Bytes(SchemaOf),
    /// Always an error.
    Nothing,
}

/// The schema of a route's body.
#[derive(Clone, Copy)]
pub(super) struct RequestSchema {
    pub(super) schema: SchemaOf,
    /// The body is required.
    pub(super) required: bool,
    pub(super) form: bool,
    /// The body is a file of any type, not JSON.
    pub(super) bytes: bool,
}

/// A handler's result: data for the envelope, or a whole response.
pub(super) enum MarketReply {
    Data(Vec<u8>),
    Whole(Response),
}

pub(super) type MarketFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;
type RouteHandler = Box<dyn for<'a> Fn(&'a MarketRequest<'a>, &str) -> MarketFuture<'a, MarketReply> + Send + Sync>;

pub(super) struct MarketRoute {
    pub(super) verb: Method,
    pub(super) path: &'static str,
    pub(super) tag: &'static str,
    pub(super) summary: &'static str,
    pub(super) who: RouteAccess,
    pub(super) query: Vec<QueryParam>,
    pub(super) takes: Option<RequestSchema>,
    pub(super) gives: ResponseSchema,
    /// Error codes beside those that all such routes have.
    pub(super) codes: Vec<MarketCode>,
    /// The route changes something and accepts an idempotency key.
    pub(super) keyed: bool,
    pub(super) go: RouteHandler,
}

/// A body that may say only how a repeat is known.
#[derive(Debug, Default, serde::Deserialize, JsonSchema)]
#[schemars(rename = "Keyed")]
pub(super) struct KeyedBody {
    #[allow(dead_code, reason = "read before the rest of the body is")]
    #[serde(default)]
    #[schemars(length(min = 1, max = 255))]
    pub(super) idempotency_key: Option<String>,
}

fn any_object(generator: &mut SchemaGenerator) -> Schema {
    schema_of::<serde_json::Map<String, serde_json::Value>>(generator)
}

fn decoded<B: DeserializeOwned>(text: &str) -> Result<B, Error> {
    read_object(text).map_err(|error| Error::field(error.member, error.message))
}

pub(super) fn written<D: Serialize>(data: &D) -> Result<MarketReply, Error> {
    serde_json::to_vec(data).map(MarketReply::Data).map_err(|error| {
        tracing::error!("an answer could not be written: {error}");
        Error::new(MarketCode::BROKEN, "the server could not write its answer")
    })
}

/// A handler that reads `B` and writes `D`; the document uses the same two types.
fn by<B, D>(go: for<'a> fn(&'a MarketRequest<'a>, B) -> MarketFuture<'a, D>) -> RouteHandler
where
    B: DeserializeOwned + Send + 'static,
    D: Serialize + Send + 'static,
{
    Box::new(move |ask, text| {
        let body = decoded::<B>(text);
        Box::pin(async move { written(&go(ask, body?).await?) })
    })
}

fn route(
    verb: Method,
    path: &'static str,
    summary: &'static str,
    gives: ResponseSchema,
    go: RouteHandler,
) -> MarketRoute {
    let (takes, query, codes) = (None, Vec::new(), Vec::new());
    let keyed = verb != Method::GET;
    MarketRoute { verb, path, tag: "", summary, who: RouteAccess::Caller, query, takes, gives, codes, keyed, go }
}

/// A route that reads.
fn get<D: Serialize + JsonSchema + Send + 'static>(
    path: &'static str,
    summary: &'static str,
    go: for<'a> fn(&'a MarketRequest<'a>, KeyedBody) -> MarketFuture<'a, D>,
) -> MarketRoute {
    route(Method::GET, path, summary, ResponseSchema::Data(schema_of::<D>), by::<KeyedBody, D>(go))
}

/// A route that changes something.
fn act<B, D>(
    verb: Method,
    path: &'static str,
    summary: &'static str,
    go: for<'a> fn(&'a MarketRequest<'a>, B) -> MarketFuture<'a, D>,
) -> MarketRoute
where
    B: DeserializeOwned + JsonSchema + Send + 'static,
    D: Serialize + JsonSchema + Send + 'static,
{
    let mut route = route(verb, path, summary, ResponseSchema::Data(schema_of::<D>), by::<B, D>(go));
    // DELETE takes no body: intermediaries often drop it.
    route.takes = (route.verb != Method::DELETE).then_some(RequestSchema {
        schema: schema_of::<B>,
        required: false,
        form: false,
        bytes: false,
    });
    route
}

/// A public route that builds its own response.
fn whole(
    path: &'static str,
    summary: &'static str,
    gives: ResponseSchema,
    go: for<'a> fn(&'a MarketRequest<'a>) -> MarketFuture<'a, Response>,
) -> MarketRoute {
    let go: RouteHandler = Box::new(move |ask, _| Box::pin(async move { Ok(MarketReply::Whole(go(ask).await?)) }));
    MarketRoute { who: RouteAccess::Anyone, ..route(Method::GET, path, summary, gives, go) }
}

/// A route that reads its own body and builds its own reply.
fn freely(
    verb: Method,
    path: &'static str,
    summary: &'static str,
    gives: ResponseSchema,
    go: for<'a> fn(&'a MarketRequest<'a>) -> MarketFuture<'a, MarketReply>,
) -> MarketRoute {
    route(verb, path, summary, gives, Box::new(move |ask, _| go(ask)))
}

impl MarketRoute {
    /// Its body is a file.
    fn takes_bytes(mut self) -> MarketRoute {
        self.takes = Some(RequestSchema { schema: any_object, required: true, form: false, bytes: true });
        self
    }
    fn who(mut self, who: RouteAccess) -> MarketRoute {
        self.who = who;
        self
    }
    fn needs_body(mut self) -> MarketRoute {
        if let Some(takes) = &mut self.takes {
            takes.required = true;
        }
        self
    }
    /// The route changes nothing, although its method is not GET.
    fn only_asks(mut self) -> MarketRoute {
        self.keyed = false;
        self
    }
    fn query(mut self, params: &[QueryParam]) -> MarketRoute {
        self.query.extend(params);
        self
    }
    fn may(mut self, codes: &[MarketCode]) -> MarketRoute {
        self.codes.extend(codes);
        self
    }

    /// All error codes of the route, by status.
    pub(super) fn refusals(&self) -> Vec<MarketCode> {
        let mut all = vec![MarketCode::QUOTA, MarketCode::BROKEN, MarketCode::AWAY];
        match self.who {
            RouteAccess::Anyone => {}
            RouteAccess::Either | RouteAccess::Caller => {
                all.extend([MarketCode::NOBODY, MarketCode::KEY, MarketCode::NOT_LINKED]);
            }
        }
        if self.takes.is_some() {
            all.extend([MarketCode::BAD, MarketCode::LARGE, MarketCode::MEDIA]);
        }
        // Unreadable parameters of the query.
        if !self.query.is_empty() {
            all.push(MarketCode::BAD);
        }
        if self.keyed && self.who == RouteAccess::Caller {
            all.push(MarketCode::EXISTS);
        }
        // Overlong ids in the path are unknown.
        if self.path.contains('{') {
            all.push(MarketCode::MISSING);
        }
        // A superfluous body is read as well, and may be too large.
        all.push(MarketCode::LARGE);
        all.push(MarketCode::BAD);
        all.extend(&self.codes);
        all.sort_unstable();
        all.dedup();
        all
    }
}

impl RouteRow for MarketRoute {
    fn method(&self) -> &str {
        self.verb.as_str()
    }
    fn path(&self) -> &'static str {
        self.path
    }
}

static TABLE: LazyLock<RouteTable<MarketRoute>> = LazyLock::new(|| RouteTable::new(ROUTES.iter()));

/// The route of a request, and the parameters of its path.
pub(super) fn find<'a>(verb: &Method, path: &'a str) -> Result<(&'static MarketRoute, Vec<Cow<'a, str>>), Error> {
    let nothing = || Error::missing(format!("there is nothing at /api/v1{path}; see /api/v1/openapi.json"));
    let (route, named) = TABLE.find(verb, path).map_err(|error| match error {
        NoRoute::Path => nothing(),
        NoRoute::Method { allow } => Error::method(allow),
    })?;
    // Ids are not longer and have no control characters.
    if named.iter().any(|one| one.chars().count() > 200 || one.chars().any(char::is_control)) {
        return Err(nothing());
    }
    Ok((route, named))
}

/// Parameters of a query, decoded.
type QueryPairs<'a> = Vec<(Cow<'a, str>, Cow<'a, str>)>;

/// Reads and checks the route's parameters; others are ignored.
pub(super) fn read_query<'a>(route: &MarketRoute, text: Option<&'a str>) -> Result<QueryPairs<'a>, Error> {
    let mut read: QueryPairs<'a> = Vec::new();
    if route.query.is_empty() {
        return Ok(read);
    }
    for pair in query::pairs(text.unwrap_or_default()) {
        let (name, value) = pair?;
        let Some(param) = route.query.iter().find(|param| param.name == name) else { continue };
        if read.iter().any(|(known, _)| *known == param.name) {
            return Err(Error::field(param.name, "is in the query more than once"));
        }
        param.check(&value).map_err(|says| Error::field(param.name, says))?;
        read.push((param.name.into(), value));
    }
    Ok(read)
}

#[cfg(test)]
#[path = "routes_tests.rs"]
mod tests;
