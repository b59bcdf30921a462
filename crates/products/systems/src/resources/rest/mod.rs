//! Orloj's REST endpoints: systems and agents, and below `/orloj` also runs (`tasks`) and approvals.
//!
//! Access is checked first: `reader`, `writer` or `admin` must be among the scopes of the caller. A token that is bound to
//! systems has none of these, so that it cannot be used here.
//!
//! * `routes`: the routes, and the access that each needs
//! * `tasks`: runs of systems
//! * `approvals`: questions of runs, and their decisions
//! * `watch`: watches as server-sent events
//! * `error`: errors in the product's form

mod approvals;
mod error;
mod routes;
mod tasks;
mod watch;

use std::sync::Arc;

use crate::orloj;
use bytes::Bytes;
use dialects::framing::{query, scan};
use http::header::{ETAG, IF_MATCH};
use http::{HeaderValue, StatusCode, request};
use model::{Caller, Fault};

use error::Error;
use routes::ResourceAccess;

use crate::orloj::endpoint::{SystemsContext, signed};
use crate::resources::{
    ChangeOutcome, Resource, ResourceDocument, ResourceKind, ResourceRegistry, ResourceWrite, Selector, document,
};
use gateway::fronts::RequestLog;
use gateway::{GatewayVersion, auth};
use web::body::Response;
use web::context::RequestContext;
use web::headers::check_media_type;
use web::response::private_json;

/// The length of a page, by default and at most.
const PAGE: usize = 100;
const PAGE_MOST: usize = 500;

/// Answers a request. `path` is the path below `/v1`.
pub(crate) async fn answer(
    server: &Arc<GatewayVersion>,
    path: &str,
    head: &request::Parts,
    body: Result<Bytes, Fault>,
    log: &mut RequestLog,
) -> Response {
    (log.operation, log.dialect) = ("resources", orloj::NAME);
    match Box::pin(call(server, path, head, body, log)).await {
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
    path: &str,
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
    let path = path.trim_end_matches('/');
    // A path that cannot be decoded is a bad request, also where no route has it.
    query::decode_segment(path).map_err(Error::of)?;
    let (route, params) = routes::find(&head.method, path)?;
    let (bytes, refused) = match body {
        Ok(bytes) => (bytes, None),
        Err(fault) => (Bytes::new(), Some(fault)),
    };
    let http = RequestContext { head, address: log.address, params, query: Vec::new(), body: &bytes };
    let context = ResourcesContext { server, systems, registry, caller, query, http, refused };
    context.may(route.access)?;
    (route.handler)(&context).await
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
    http: RequestContext<'a>,
    /// The fault of a body that was not read.
    refused: Option<Fault>,
}

impl ResourcesContext<'_> {
    /// Checks the caller's access. A credential without scopes has all of them.
    fn may(&self, access: ResourceAccess) -> Result<(), Error> {
        match access {
            ResourceAccess::Read => self.has_scope(&["reader", "writer", "admin"]),
            ResourceAccess::Run => self.has_scope(&["writer", "admin"]),
            ResourceAccess::Change => self.may_change(),
        }
    }

    /// A change always requires a credential, because a resource can start programs.
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
        self.has_scope(&["admin"])
    }

    /// Checks that the caller has one of these scopes, of which the first is the least.
    fn has_scope(&self, scopes: &[&str]) -> Result<(), Error> {
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
        Err(forbidden(scopes.first().copied().unwrap_or_default()))
    }

    async fn create(&self, kind: ResourceKind) -> Result<Response, Error> {
        let document = self.document(kind)?;
        let document = self.in_namespace(document)?;
        self.write(ResourceWrite::Create(document)).await
    }

    async fn replace(&self, kind: ResourceKind) -> Result<Response, Error> {
        let (name, document) = (self.http.id(), self.document(kind)?);
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
        let document = self.in_namespace(document)?;
        self.write(ResourceWrite::Update { document, expect }).await
    }

    async fn delete(&self, kind: ResourceKind) -> Result<Response, Error> {
        let name = self.http.id();
        self.found(kind, name)?;
        self.write(ResourceWrite::Delete { kind, name: name.into(), expect: self.expected()? }).await
    }

    fn document(&self, kind: ResourceKind) -> Result<ResourceDocument, Error> {
        ResourceDocument::read(self.text()?, Some(kind)).map_err(Error::wrong)
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

    async fn get(&self, kind: ResourceKind) -> Result<Response, Error> {
        Ok(resource_response(&*self.found(kind, self.http.id())?))
    }

    async fn list(&self, kind: ResourceKind) -> Result<Response, Error> {
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
        let Some(value) = self.http.head.headers.get(IF_MATCH) else { return Ok(None) };
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
    fn text(&self) -> Result<&str, Error> {
        if let Some(fault) = &self.refused {
            return Err(Error::of_fault(fault));
        }
        if let Err(fault) = check_media_type(&self.http.head.headers) {
            return Err(Error::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", fault.message));
        }
        scan::scan(self.http.body, self.server.engine.limits().json_depth).map_err(Error::of)
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
