//! The routes, once: what is answered and what the OpenAPI document says both come from this table.

mod rows;

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};

use dialects::framing::query;
use http::{Method, request};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use trade::{Caller, Market, Once, Paging};

use super::error::{Code, Error};
use crate::Server;
use web::body::Response;

pub(super) use rows::ROUTES;

/// A request that has been let in: its path, query and key are read.
pub(super) struct Ask<'a> {
    pub(super) server: &'a Arc<Server>,
    pub(super) market: &'a Market,
    pub(super) head: &'a request::Parts,
    pub(super) caller: Option<Caller>,
    /// What stands for the braces of the path.
    pub(super) named: Vec<Cow<'a, str>>,
    /// What the query says of the route's parameters: checked.
    pub(super) query: Vec<(&'static str, String)>,
    pub(super) once: Option<Once>,
    /// The body came as a form: a person sits in front of it.
    pub(super) by_form: bool,
    /// As it came, for routes that take bytes.
    pub(super) body: &'a bytes::Bytes,
    /// Where the caller calls from.
    pub(super) address: IpAddr,
}

impl Ask<'_> {
    /// Who asks. A route that needs one has one.
    pub(super) fn caller(&self) -> Result<&Caller, Error> {
        self.caller.as_ref().ok_or_else(|| trade::Error::from(trade::NotKnown::Missing).into())
    }
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }
    pub(super) fn number(&self, name: &str) -> Option<u32> {
        self.text(name)?.parse().ok()
    }
    pub(super) fn paging(&self) -> Paging {
        Paging { page: self.number("page").unwrap_or(1), size: self.number("page_size").unwrap_or(PAGE_SIZE) }
    }
    pub(super) fn base(&self) -> String {
        self.server.cards.base_url(&self.server.settings, self.head)
    }
}

const PAGE_SIZE: u32 = 20;
/// Further than anybody turns pages; a bound on what is passed over.
const MOST_PAGES: u32 = 10_000;

/// What a query may say.
#[derive(Clone, Copy)]
pub(super) struct Param {
    pub(super) name: &'static str,
    pub(super) words: &'static str,
    pub(super) kind: ParamKind,
}

#[derive(Clone, Copy)]
pub(super) enum ParamKind {
    Number { least: u32, most: u32, usual: Option<u32> },
    OneOf(fn() -> Vec<&'static str>),
    Text { most: usize },
}

pub(super) const PAGES: [Param; 2] = [
    Param {
        name: "page",
        words: "Which page; the first is 1.",
        kind: ParamKind::Number { least: 1, most: MOST_PAGES, usual: Some(1) },
    },
    Param {
        name: "page_size",
        words: "How many on a page.",
        kind: ParamKind::Number { least: 1, most: 100, usual: Some(PAGE_SIZE) },
    },
];

impl Param {
    fn check(&self, value: &str) -> Result<(), Error> {
        match self.kind {
            ParamKind::Number { least, most, .. } => {
                let fits = value.parse::<u32>().is_ok_and(|number| (least..=most).contains(&number));
                // `+5` is a number to the parser, but not in any document.
                if !fits || value.starts_with('+') {
                    return Err(Error::field(self.name, format!("must be a whole number from {least} to {most}")));
                }
            }
            ParamKind::OneOf(known) => {
                if !known().contains(&value) {
                    return Err(Error::field(self.name, format!("must be one of {}", known().join(", "))));
                }
            }
            ParamKind::Text { most } => {
                if value.is_empty() || value.chars().count() > most || value.chars().any(char::is_control) {
                    return Err(Error::field(self.name, format!("must have 1 to {most} printable characters")));
                }
            }
        }
        Ok(())
    }
}

/// Who may call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Who {
    Anyone,
    /// Anyone; but whoever shows a credential shows a good one, and may see more.
    Either,
    Caller,
}

pub(super) type Schemed = fn(&mut SchemaGenerator) -> Schema;

/// What a route answers.
#[derive(Clone, Copy)]
pub(super) enum Gives {
    /// As `data` in the envelope.
    Data(Schemed),
    /// A document of its own.
    Json(Schemed),
    Html,
    /// Server-sent events that can be resumed; the schema is that of the data of those that have an id.
    Events(Schemed),
    /// As `data` in the envelope, or as a page to whoever sent a form.
    DataOrHtml(Schemed),
    /// A file, or as `data` in the envelope what is told of it.
    Bytes(Schemed),
    /// Never anything but a refusal.
    Nothing,
}

/// What a route takes.
#[derive(Clone, Copy)]
pub(super) struct Takes {
    pub(super) schema: Schemed,
    /// It cannot be left out.
    pub(super) required: bool,
    pub(super) form: bool,
    /// It is a file, of any type, and no JSON.
    pub(super) bytes: bool,
}

/// What a handler has: data to be put into the envelope, or the whole answer.
pub(super) enum Reply {
    Data(Vec<u8>),
    Whole(Response),
}

pub(super) type Going<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;
type Go = Box<dyn for<'a> Fn(&'a Ask<'a>, &str) -> Going<'a, Reply> + Send + Sync>;

pub(super) struct Route {
    pub(super) verb: Method,
    pub(super) path: &'static str,
    pub(super) tag: &'static str,
    pub(super) summary: &'static str,
    pub(super) who: Who,
    pub(super) query: Vec<Param>,
    pub(super) takes: Option<Takes>,
    pub(super) gives: Gives,
    /// What it is refused with, besides what any such route is.
    pub(super) codes: Vec<Code>,
    /// It changes something: a repeat can be told by its key.
    pub(super) keyed: bool,
    pub(super) go: Go,
}

/// A body that may say only how a repeat is known.
#[derive(Debug, Default, serde::Deserialize, JsonSchema)]
pub(super) struct Keyed {
    #[allow(dead_code, reason = "read before the rest of the body is")]
    #[serde(default)]
    #[schemars(length(min = 1, max = 255))]
    pub(super) idempotency_key: Option<String>,
}

fn schemed<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

fn any_object(generator: &mut SchemaGenerator) -> Schema {
    schemed::<serde_json::Map<String, serde_json::Value>>(generator)
}

fn decoded<B: DeserializeOwned>(text: &str) -> Result<B, Error> {
    let mut json = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let words = error.inner().to_string();
        // Where in the text it stands helps nobody who sent an object.
        let words = words.split(" at line ").next().unwrap_or_default().to_owned();
        Error::field(if path == "." { "body".to_owned() } else { path }, format!("cannot be read: {words}"))
    })
}

pub(super) fn written<D: Serialize>(data: &D) -> Result<Reply, Error> {
    serde_json::to_vec(data).map(Reply::Data).map_err(|error| {
        tracing::error!("an answer could not be written: {error}");
        Error::new(Code::BROKEN, "the server could not write its answer")
    })
}

/// Bodies are read into `B`, answers written from `D`: the document is made of the same two types.
fn by<B, D>(go: for<'a> fn(&'a Ask<'a>, B) -> Going<'a, D>) -> Go
where
    B: DeserializeOwned + Send + 'static,
    D: Serialize + Send + 'static,
{
    Box::new(move |ask, text| {
        let body = decoded::<B>(text);
        Box::pin(async move { written(&go(ask, body?).await?) })
    })
}

fn route(verb: Method, path: &'static str, summary: &'static str, gives: Gives, go: Go) -> Route {
    let (takes, query, codes) = (None, Vec::new(), Vec::new());
    let keyed = verb != Method::GET;
    Route { verb, path, tag: "", summary, who: Who::Caller, query, takes, gives, codes, keyed, go }
}

/// A route that reads.
fn get<D: Serialize + JsonSchema + Send + 'static>(
    path: &'static str,
    summary: &'static str,
    go: for<'a> fn(&'a Ask<'a>, Keyed) -> Going<'a, D>,
) -> Route {
    route(Method::GET, path, summary, Gives::Data(schemed::<D>), by::<Keyed, D>(go))
}

/// A route that does something.
fn act<B, D>(
    verb: Method,
    path: &'static str,
    summary: &'static str,
    go: for<'a> fn(&'a Ask<'a>, B) -> Going<'a, D>,
) -> Route
where
    B: DeserializeOwned + JsonSchema + Send + 'static,
    D: Serialize + JsonSchema + Send + 'static,
{
    let mut route = route(verb, path, summary, Gives::Data(schemed::<D>), by::<B, D>(go));
    // What a DELETE would say in a body is lost on the way too often.
    route.takes = (route.verb != Method::DELETE).then_some(Takes {
        schema: schemed::<B>,
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
    gives: Gives,
    go: for<'a> fn(&'a Ask<'a>) -> Going<'a, Response>,
) -> Route {
    let go: Go = Box::new(move |ask, _| Box::pin(async move { Ok(Reply::Whole(go(ask).await?)) }));
    Route { who: Who::Anyone, ..route(Method::GET, path, summary, gives, go) }
}

/// What reads and answers in a way of its own.
fn freely(
    verb: Method,
    path: &'static str,
    summary: &'static str,
    gives: Gives,
    go: for<'a> fn(&'a Ask<'a>) -> Going<'a, Reply>,
) -> Route {
    route(verb, path, summary, gives, Box::new(move |ask, _| go(ask)))
}

impl Route {
    /// Its body is a file.
    fn takes_bytes(mut self) -> Route {
        self.takes = Some(Takes { schema: any_object, required: true, form: false, bytes: true });
        self
    }
    fn who(mut self, who: Who) -> Route {
        self.who = who;
        self
    }
    fn needs_body(mut self) -> Route {
        if let Some(takes) = &mut self.takes {
            takes.required = true;
        }
        self
    }
    /// It changes nothing, whatever its verb.
    fn only_asks(mut self) -> Route {
        self.keyed = false;
        self
    }
    fn query(mut self, params: &[Param]) -> Route {
        self.query.extend(params);
        self
    }
    fn may(mut self, codes: &[Code]) -> Route {
        self.codes.extend(codes);
        self
    }

    /// Everything it may be refused with, by status.
    pub(super) fn refusals(&self) -> Vec<Code> {
        let mut all = vec![Code::QUOTA, Code::BROKEN, Code::AWAY];
        match self.who {
            Who::Anyone => {}
            Who::Either | Who::Caller => all.extend([Code::NOBODY, Code::KEY, Code::NOT_LINKED]),
        }
        if self.takes.is_some() {
            all.extend([Code::BAD, Code::LARGE, Code::MEDIA]);
        }
        // A query or a length that cannot be read.
        if !self.query.is_empty() {
            all.push(Code::BAD);
        }
        if self.keyed && self.who == Who::Caller {
            all.push(Code::EXISTS);
        }
        // What a path names may be too long for anything.
        if self.path.contains('{') {
            all.push(Code::MISSING);
        }
        // A body where none belongs is read all the same, and may be too large.
        all.push(Code::LARGE);
        all.push(Code::BAD);
        all.extend(&self.codes);
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// The segments of a path below `/api/v1`.
fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').skip(1)
}

/// What stands for the braces of a pattern, if a path fits it. `{path*}` is all that follows.
fn fits<'a>(pattern: &str, path: &'a str) -> Option<Vec<&'a str>> {
    let mut named = Vec::new();
    let mut given = segments(path);
    for expected in segments(pattern) {
        if expected == "{path*}" {
            let rest: Vec<&str> = given.by_ref().collect();
            return (!rest.is_empty()).then_some(named);
        }
        let one = given.next()?;
        if expected.starts_with('{') {
            if one.is_empty() {
                return None;
            }
            named.push(one);
        } else if one != expected {
            return None;
        }
    }
    given.next().is_none().then_some(named)
}

/// How many of a pattern's first segments are said outright, and how many in all: what says more comes first.
fn weight(pattern: &str) -> Vec<u8> {
    let weigh = |one: &str| match one {
        "{path*}" => 0,
        one if one.starts_with('{') => 1,
        _ => 2,
    };
    segments(pattern).map(weigh).collect()
}

/// Routes by their first segment, which is said outright in each; of those the first that fits is the one.
static BY_FIRST: LazyLock<HashMap<&'static str, Vec<&'static Route>>> = LazyLock::new(|| {
    let mut routes: HashMap<&str, Vec<&Route>> = HashMap::new();
    for route in ROUTES.iter() {
        routes.entry(first(route.path)).or_default().push(route);
    }
    for routes in routes.values_mut() {
        routes.sort_by_cached_key(|route| std::cmp::Reverse(weight(route.path)));
    }
    routes
});

fn first(path: &str) -> &str {
    segments(path).next().unwrap_or_default()
}

/// The route of a request, and what its path names.
pub(super) fn find<'a>(verb: &Method, path: &'a str) -> Result<(&'static Route, Vec<Cow<'a, str>>), Error> {
    let nothing = || Error::missing(format!("there is nothing at /api/v1{path}; see /api/v1/openapi.json"));
    let likely = BY_FIRST.get(first(path)).map_or(&[][..], |routes| routes);
    let best = likely.iter().find_map(|route| Some((*route, fits(route.path, path)?)));
    let (like, named) = best.ok_or_else(nothing)?;
    // HEAD asks for what GET would say; hyper leaves the body away.
    let verb = if *verb == Method::HEAD { &Method::GET } else { verb };
    let mut here = likely.iter().filter(|route| route.path == like.path);
    let Some(route) = here.find(|route| route.verb == *verb) else {
        let here = likely.iter().filter(|route| route.path == like.path);
        let mut allow: Vec<&str> = here.map(|route| route.verb.as_str()).collect();
        if allow.contains(&"GET") {
            allow.push("HEAD");
        }
        let allow = allow.join(", ");
        let message = format!("this address answers to {allow} only");
        return Err(Error { allow: Some(allow), ..Error::new(Code::VERB, message) });
    };
    // What is no text, or cannot be a name, names nothing.
    let named = named.into_iter().map(|one| query::decode_segment(one).map_err(|_| nothing()));
    let named = named.collect::<Result<Vec<_>, _>>()?;
    if named.iter().any(|one| one.chars().count() > 200 || one.chars().any(char::is_control)) {
        return Err(nothing());
    }
    Ok((route, named))
}

/// Reads the route's parameters; what else the query says is nothing to it.
pub(super) fn read_query(route: &Route, text: Option<&str>) -> Result<Vec<(&'static str, String)>, Error> {
    let mut read: Vec<(&'static str, String)> = Vec::new();
    if route.query.is_empty() {
        return Ok(read);
    }
    for pair in query::pairs(text.unwrap_or_default()) {
        let (name, value) = pair?;
        let Some(param) = route.query.iter().find(|param| param.name == name) else { continue };
        if read.iter().any(|(known, _)| *known == param.name) {
            return Err(Error::field(param.name, "is in the query more than once"));
        }
        param.check(&value)?;
        read.push((param.name, value.into_owned()));
    }
    Ok(read)
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
