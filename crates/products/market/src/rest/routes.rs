//! The routes, once: what is answered and what the OpenAPI document says both come from this table.

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
use gateway::Server;
use web::body::Response;
use web::context::{RequestContext, read_object};
use web::openapi::{ParamKind, QueryParam, SchemaOf, schema_of};
use web::routes::{NoRoute, RouteRow, RouteTable};

pub(super) use rows::ROUTES;

/// A request that was admitted: its path, query and key are read.
pub(super) struct MarketRequest<'a> {
    pub(super) server: &'a Arc<Server>,
    pub(super) market: &'a Market,
    pub(super) http: RequestContext<'a>,
    pub(super) caller: Option<MarketCaller>,
    pub(super) once: Option<Once>,
    /// The body came as a form, from a person's browser.
    pub(super) by_form: bool,
}

impl MarketRequest<'_> {
    /// Who asks. A route that needs one has one.
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
/// Further than anybody turns pages; a bound on what is passed over.
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

/// Who may call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RouteAccess {
    Anyone,
    /// Anyone; but whoever shows a credential shows a good one, and may see more.
    Either,
    Caller,
}

/// What a route answers.
#[derive(Clone, Copy)]
pub(super) enum ResponseSchema {
    /// As `data` in the envelope.
    Data(SchemaOf),
    /// A document of its own.
    Json(SchemaOf),
    Html,
    /// Server-sent events that can be resumed; the schema is that of the data of those that have an id.
    Events(SchemaOf),
    /// As `data` in the envelope, or as a page to whoever sent a form.
    DataOrHtml(SchemaOf),
    /// A file, or as `data` in the envelope what is told of it.
    Bytes(SchemaOf),
    /// Never anything but a refusal.
    Nothing,
}

/// What a route takes.
#[derive(Clone, Copy)]
pub(super) struct RequestSchema {
    pub(super) schema: SchemaOf,
    /// It cannot be left out.
    pub(super) required: bool,
    pub(super) form: bool,
    /// It is a file, of any type, and no JSON.
    pub(super) bytes: bool,
}

/// What a handler has: data to be put into the envelope, or the whole answer.
pub(super) enum MarketReply {
    Data(Vec<u8>),
    Whole(Response),
}

pub(super) type MarketFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;
type Go = Box<dyn for<'a> Fn(&'a MarketRequest<'a>, &str) -> MarketFuture<'a, MarketReply> + Send + Sync>;

pub(super) struct MarketRoute {
    pub(super) verb: Method,
    pub(super) path: &'static str,
    pub(super) tag: &'static str,
    pub(super) summary: &'static str,
    pub(super) who: RouteAccess,
    pub(super) query: Vec<QueryParam>,
    pub(super) takes: Option<RequestSchema>,
    pub(super) gives: ResponseSchema,
    /// What it is refused with, besides what any such route is.
    pub(super) codes: Vec<MarketCode>,
    /// It changes something: a repeat can be told by its key.
    pub(super) keyed: bool,
    pub(super) go: Go,
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

/// Bodies are read into `B`, answers written from `D`: the document is made of the same two types.
fn by<B, D>(go: for<'a> fn(&'a MarketRequest<'a>, B) -> MarketFuture<'a, D>) -> Go
where
    B: DeserializeOwned + Send + 'static,
    D: Serialize + Send + 'static,
{
    Box::new(move |ask, text| {
        let body = decoded::<B>(text);
        Box::pin(async move { written(&go(ask, body?).await?) })
    })
}

fn route(verb: Method, path: &'static str, summary: &'static str, gives: ResponseSchema, go: Go) -> MarketRoute {
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

/// A route that does something.
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
    // What a DELETE would say in a body is lost on the way too often.
    route.takes = (route.verb != Method::DELETE).then_some(RequestSchema {
        schema: schema_of::<B>,
        required: false,
        form: false,
        bytes: false,
    });
    route
}

/// What answers in a way of its own.
fn whole(
    path: &'static str,
    summary: &'static str,
    gives: ResponseSchema,
    go: for<'a> fn(&'a MarketRequest<'a>) -> MarketFuture<'a, Response>,
) -> MarketRoute {
    let go: Go = Box::new(move |ask, _| Box::pin(async move { Ok(MarketReply::Whole(go(ask).await?)) }));
    MarketRoute { who: RouteAccess::Anyone, ..route(Method::GET, path, summary, gives, go) }
}

/// What reads and answers in a way of its own.
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
    /// It changes nothing, whatever its verb.
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

    /// Everything it may be refused with, by status.
    pub(super) fn refusals(&self) -> Vec<MarketCode> {
        let mut all = vec![MarketCode::QUOTA, MarketCode::BROKEN, MarketCode::AWAY];
        match self.who {
            RouteAccess::Anyone => {}
            RouteAccess::Either | RouteAccess::Caller => {
                all.extend([MarketCode::NOBODY, MarketCode::KEY, MarketCode::NOT_LINKED])
            }
        }
        if self.takes.is_some() {
            all.extend([MarketCode::BAD, MarketCode::LARGE, MarketCode::MEDIA]);
        }
        // A query or a length that cannot be read.
        if !self.query.is_empty() {
            all.push(MarketCode::BAD);
        }
        if self.keyed && self.who == RouteAccess::Caller {
            all.push(MarketCode::EXISTS);
        }
        // What a path names may be too long for anything.
        if self.path.contains('{') {
            all.push(MarketCode::MISSING);
        }
        // A body where none belongs is read all the same, and may be too large.
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

static TABLE: LazyLock<RouteTable<MarketRoute>> = LazyLock::new(|| RouteTable::new(&ROUTES));

/// The route of a request, and the parameters of its path.
pub(super) fn find<'a>(verb: &Method, path: &'a str) -> Result<(&'static MarketRoute, Vec<Cow<'a, str>>), Error> {
    let nothing = || Error::missing(format!("there is nothing at /api/v1{path}; see /api/v1/openapi.json"));
    let (route, named) = TABLE.find(verb, path).map_err(|error| match error {
        NoRoute::Path => nothing(),
        NoRoute::Method { allow } => Error::method(allow),
    })?;
    // No id is longer, or has control characters.
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
