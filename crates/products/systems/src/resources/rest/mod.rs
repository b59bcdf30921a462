//! Orloj's REST endpoints: systems and agents, and below `/orloj` also runs (`tasks`) and approvals.
//!
//! Access is checked first: `reader`, `writer` or `admin` must be among the scopes of the caller. A token that is bound to
//! systems has none of these, so that it cannot be used here.
//!
//! * `tasks`: runs of systems
//! * `approvals`: questions of runs, and their decisions
//! * `watch`: watches as server-sent events
//! * `error`: errors in the product's form

mod approvals;
mod error;
mod tasks;
mod watch;

use std::net::IpAddr;
use std::sync::Arc;

use crate::orloj;
use bytes::Bytes;
use dialects::framing::{query, scan};
use http::header::{ETAG, IF_MATCH};
use http::{HeaderValue, Method, StatusCode, request};
use model::{Caller, Fault};

use error::Error;

use crate::orloj::endpoint::{SystemsContext, signed};
use crate::resources::{
    ChangeOutcome, Resource, ResourceDocument, ResourceKind, ResourceRegistry, ResourceWrite, Selector, document,
};
use gateway::fronts::RequestLog;
use gateway::{GatewayVersion, auth};
use web::body::Response;
use web::headers::check_media_type;
use web::response::private_json;

/// The length of a page, by default and at most.
const PAGE: usize = 100;
const PAGE_MOST: usize = 500;

/// The collection of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Collection {
    Resources(ResourceKind),
    Tasks,
    Approvals,
}

/// Answers a request. `rest` is the path below the collection.
pub(crate) async fn answer(
    server: &Arc<GatewayVersion>,
    collection: Collection,
    rest: &str,
    head: &request::Parts,
    body: Result<Bytes, Fault>,
    log: &mut RequestLog,
) -> Response {
    (log.operation, log.dialect) = ("resources", orloj::NAME);
    match Box::pin(call(server, collection, rest, head, body, log)).await {
        Ok(response) => signed(response),
        Err(error) => signed(error.rejection().respond(log)),
    }
}

/// Refuses a request whose body was not read.
pub(crate) fn turned_away(fault: &Fault, log: &mut RequestLog) -> Response {
    (log.operation, log.dialect) = ("resources", orloj::NAME);
    signed(Error::of_fault(fault).rejection().respond(log))
}

async fn call(
    server: &Arc<GatewayVersion>,
    collection: Collection,
    rest: &str,
    head: &request::Parts,
    body: Result<Bytes, Fault>,
    log: &mut RequestLog,
) -> Result<Response, Error> {
    let systems = SystemsContext::open(server, None, head, log).map_err(|error| Error::paced(&error))?;
    let caller = systems.identified(log).await.map_err(Error::of)?;
    let Some(registry) = systems.settings.resources.as_ref() else {
        return Err(Error::new(StatusCode::NOT_FOUND, "NotFound", "this server keeps no resources"));
    };
    let query = ResourceQuery::read(head.uri.query().unwrap_or_default())?;
    let context = ResourcesContext { server, systems, registry, caller, query, head, address: log.address };
    let rest = query::decode_segment(rest.trim_end_matches('/')).map_err(Error::of)?;
    let path: Vec<&str> = rest.split('/').skip(1).collect();
    match collection {
        Collection::Resources(kind) => context.resources(kind, &path, body).await,
        Collection::Tasks => tasks::answer(&context, &path, body).await,
        Collection::Approvals => approvals::answer(&context, &path, body).await,
    }
}

/// The query of a request.
#[derive(Debug, Default)]
struct ResourceQuery {
    namespace: Option<String>,
    selector: Selector,
    limit: Option<usize>,
    after: Option<String>,
    version: Option<String>,
}

impl ResourceQuery {
    fn read(text: &str) -> Result<ResourceQuery, Error> {
        let mut read = ResourceQuery::default();
        for pair in query::pairs(text) {
            let (name, value) = pair.map_err(Error::of)?;
            let value = value.into_owned();
            match &*name {
                "namespace" => read.namespace = Some(value).filter(|value| !value.is_empty()),
                "labelSelector" => {
                    read.selector = Selector::parse(&value).map_err(|says| Error::wrong(vec![says]))?;
                }
                "limit" => {
                    let limit = value.parse().ok().filter(|limit| (1..=PAGE_MOST).contains(limit));
                    let says = || Error::wrong(vec![format!("limit: write a number from 1 to {PAGE_MOST}")]);
                    read.limit = Some(limit.ok_or_else(says)?);
                }
                "after" | "continue" => read.after = Some(value).filter(|value| !value.is_empty()),
                "resourceVersion" => read.version = Some(value).filter(|value| !value.is_empty()),
                _ => {}
            }
        }
        Ok(read)
    }

    fn limit(&self) -> usize {
        self.limit.unwrap_or(PAGE)
    }

    fn admits_namespace(&self, namespace: &str) -> bool {
        self.namespace.as_deref().is_none_or(|wanted| wanted == namespace)
    }
}

/// One request to the REST endpoints.
struct ResourcesContext<'a> {
    server: &'a Arc<GatewayVersion>,
    systems: SystemsContext<'a>,
    registry: &'a ResourceRegistry,
    caller: Arc<Caller>,
    query: ResourceQuery,
    head: &'a request::Parts,
    address: IpAddr,
}

/// The scopes for each kind of access. A credential without scopes has all of them.
const READERS: &[&str] = &["reader", "writer", "admin"];
const WRITERS: &[&str] = &["writer", "admin"];
const ADMINS: &[&str] = &["admin"];

impl ResourcesContext<'_> {
    /// Access to read.
    fn may_read(&self) -> Result<(), Error> {
        self.may(READERS, "reader")
    }

    /// Access to start runs and to decide approvals.
    fn may_run(&self) -> Result<(), Error> {
        self.may(WRITERS, "writer")
    }

    /// Access to change resources. It always requires a credential, because a resource can start programs.
    fn may_change(&self) -> Result<(), Error> {
        if !self.caller.authenticated {
            return Err(Error::unauthenticated(
                "a change of what is served needs an admin's key, also where nothing else needs one: make one with rialto \
                 keys create NAME --tenant default --scope admin and send Authorization: Bearer KEY; or use rialto apply \
                 beside the server's data folder",
            ));
        }
        // Without scopes a token of an issuer has all other access, but not this one.
        if self.caller.scopes.is_empty() && auth::is_token(&self.caller.name) {
            return Err(forbidden("admin"));
        }
        self.may(ADMINS, "admin")
    }

    fn may(&self, scopes: &[&str], least: &str) -> Result<(), Error> {
        let caller = &self.caller;
        if !caller.authenticated {
            if self.systems.asks_for_tokens() {
                return Err(Error::unauthenticated("send Authorization: Bearer <token>"));
            }
            return Ok(());
        }
        if caller.scopes.is_empty() || caller.scopes.iter().any(|scope| scopes.contains(&scope.as_str())) {
            return Ok(());
        }
        Err(forbidden(least))
    }

    async fn resources(
        &self,
        kind: ResourceKind,
        path: &[&str],
        body: Result<Bytes, Fault>,
    ) -> Result<Response, Error> {
        let method = &self.head.method;
        let get = method == Method::GET || method == Method::HEAD;
        match path {
            [] if get => {
                self.may_read()?;
                self.list(kind)
            }
            [] if method == Method::POST => {
                self.may_change()?;
                let document = ResourceDocument::read(&self.text(&body)?, Some(kind)).map_err(Error::wrong)?;
                let document = self.in_namespace(document)?;
                self.write(ResourceWrite::Create(document)).await
            }
            [] => Err(Error::method("GET, HEAD, POST")),
            ["watch"] if get => {
                self.may_read()?;
                watch::resources(self, kind)
            }
            ["watch"] => Err(Error::method("GET, HEAD")),
            [name] if get => {
                self.may_read()?;
                self.get(kind, name)
            }
            [name] if method == Method::PUT => {
                self.may_change()?;
                let mut document = ResourceDocument::read(&self.text(&body)?, Some(kind)).map_err(Error::wrong)?;
                if document.name != *name {
                    let says = format!("metadata.name: is {:?}, but the address says {name:?}", document.name);
                    return Err(Error::wrong(vec![says]));
                }
                let expect = self.expected()?;
                if let (Some(header), Some(body)) = (expect, document.version)
                    && header != body
                {
                    let says = "metadata.resourceVersion: is not the one of If-Match; send one of the two".to_owned();
                    return Err(Error::wrong(vec![says]));
                }
                document = self.in_namespace(document)?;
                self.write(ResourceWrite::Update { document, expect }).await
            }
            [name] if method == Method::DELETE => {
                self.may_change()?;
                self.found(kind, name)?;
                self.write(ResourceWrite::Delete { kind, name: (*name).into(), expect: self.expected()? }).await
            }
            [_] => Err(Error::method("GET, HEAD, PUT, DELETE")),
            [name, "status"] if get => {
                self.may_read()?;
                self.get(kind, name)
            }
            [_, "status"] => Err(Error::method("GET, HEAD")),
            [_, ..] => Err(Error::missing("there is nothing at this address")),
        }
    }

    /// Sets the namespace of the query in the document; they must not differ.
    fn in_namespace(&self, mut document: ResourceDocument) -> Result<ResourceDocument, Error> {
        match (&document.namespace, &self.query.namespace) {
            (Some(own), Some(asked)) if own != asked => {
                let says = format!("metadata.namespace: is {own:?}, but the query says {asked:?}");
                return Err(Error::wrong(vec![says]));
            }
            (None, Some(asked)) => {
                let mut wrong = Vec::new();
                document::check_name("namespace", asked, &mut wrong);
                if !wrong.is_empty() {
                    return Err(Error::wrong(wrong));
                }
                document.namespace = Some(asked.clone());
            }
            (Some(_) | None, _) => {}
        }
        Ok(document)
    }

    async fn write(&self, write: ResourceWrite) -> Result<Response, Error> {
        let (outcome, resource) = self.registry.ask(write, &self.caller.name).await.map_err(Error::of_registry)?;
        let mut response = resource_response(&resource);
        if outcome == ChangeOutcome::Created {
            *response.status_mut() = StatusCode::CREATED;
        }
        Ok(response)
    }

    fn found(&self, kind: ResourceKind, name: &str) -> Result<Arc<Resource>, Error> {
        let found = self.registry.get(kind, name).filter(|found| self.query.admits_namespace(&found.namespace));
        found.ok_or_else(|| {
            Error::missing(format!("there is no {} {name:?}; see GET /v1/{}", kind.name(), kind.plural()))
        })
    }

    fn get(&self, kind: ResourceKind, name: &str) -> Result<Response, Error> {
        Ok(resource_response(&*self.found(kind, name)?))
    }

    fn list(&self, kind: ResourceKind) -> Result<Response, Error> {
        let (all, version) = self.registry.list(kind);
        let limit = self.query.limit();
        let after = self.query.after.as_deref().unwrap_or_default();
        let mut wanted = all.iter().filter(|one| {
            &*one.name > after && self.query.admits_namespace(&one.namespace) && self.query.selector.admits(&one.labels)
        });
        let page: Vec<&Arc<Resource>> = wanted.by_ref().take(limit).collect();
        let more = wanted.next().is_some();
        let next = page.last().filter(|_| more).map(|last| last.name.to_string());
        let items = page.iter().map(|one| one.to_json()).collect();
        Ok(listed(kind.name(), Some(&version), items, next.as_deref()))
    }

    /// The version in `If-Match`; `None` without one, and for `*`.
    fn expected(&self) -> Result<Option<u64>, Error> {
        let Some(value) = self.head.headers.get(IF_MATCH) else { return Ok(None) };
        let text = value.to_str().unwrap_or("?").trim();
        if text == "*" {
            return Ok(None);
        }
        let bare = text.trim_start_matches("W/").trim_matches('"');
        let version =
            bare.parse().map_err(|_| Error::wrong(vec![format!("If-Match: {}", document::not_a_version(bare))]));
        version.map(Some)
    }

    /// The body as text.
    fn text<'b>(&self, body: &'b Result<Bytes, Fault>) -> Result<std::borrow::Cow<'b, str>, Error> {
        let body = match body {
            Ok(body) => body,
            Err(fault) => return Err(Error::of_fault(fault)),
        };
        if let Err(fault) = check_media_type(&self.head.headers) {
            return Err(Error::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", fault.message));
        }
        scan::scan(body, self.server.engine.limits().json_depth).map(Into::into).map_err(Error::of)
    }
}

fn forbidden(least: &str) -> Error {
    let says = format!("this token may not do that: it needs the role or the scope {least}");
    Error::new(StatusCode::FORBIDDEN, "Forbidden", says)
}

/// The response with a resource.
fn resource_response(resource: &Resource) -> Response {
    let mut response = json(resource.to_json());
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{}\"", resource.revision)) {
        response.headers_mut().insert(ETAG, tag);
    }
    response
}

/// The response with a page of a list. `items` are JSON texts.
fn listed(kind: &str, version: Option<&str>, items: Vec<String>, next: Option<&str>) -> Response {
    let mut metadata = serde_json::Map::new();
    if let Some(version) = version {
        metadata.insert("resourceVersion".into(), version.into());
    }
    let mut tail = String::new();
    if let Some(next) = next {
        metadata.insert("continue".into(), next.into());
        tail = format!(",\"continue\":{}", serde_json::Value::from(next));
    }
    json(format!(
        r#"{{"apiVersion":"{}","kind":"{kind}List","metadata":{},"items":[{}]{tail}}}"#,
        crate::resources::API_VERSION,
        serde_json::Value::Object(metadata),
        items.join(",")
    ))
}

/// A JSON response that caches do not store, because it depends on the caller and the time.
fn json(text: String) -> Response {
    private_json(StatusCode::OK, text)
}
