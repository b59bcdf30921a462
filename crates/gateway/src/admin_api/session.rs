//! The caller of a request: who it is, and what it may do. Sessions of browsers, which stand for a key.

use http::header::SET_COOKIE;
use http::{HeaderValue, StatusCode};
use model::{Fault, Kind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use web::body::Response;

use super::access::{ApiCaller, ApiRole, check_site};
use super::problem::ApiProblem;
use super::routes::ApiRoute;
use super::{ApiContext, ok, shown};
use crate::auth;

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Session")]
pub(super) struct ApiSession {
    /// The name of the credential.
    caller: String,
    tenant: String,
    role: ApiRole,
    /// It sees every tenant, not only its own.
    all_tenants: bool,
    /// The ids of the operations that it may use by its role.
    operations: Vec<String>,
    /// The pages that the products of this server have in the console.
    pages: Vec<&'static str>,
    /// Only in the session of a browser: every change in it has this in the header `X-CSRF-Token`.
    #[serde(skip_serializing_if = "Option::is_none")]
    csrf: Option<String>,
}

/// A credential for a session: one of the two.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SignIn")]
pub(super) struct ApiSignIn {
    /// A key with a role.
    #[serde(default)]
    key: Option<String>,
    /// The token of the link that `rialto serve` prints on loopback; it is good for one session.
    #[serde(default)]
    link: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SignedOut")]
pub(super) struct ApiSignedOut {
    signed_out: bool,
}

impl ApiSession {
    fn of(context: &ApiContext<'_>, caller: &ApiCaller) -> ApiSession {
        let (server, door) = (context.server, context.door);
        let allowed = door.table.rows.iter().filter(|route| !route.is_open && caller.may(route).is_ok());
        ApiSession {
            caller: caller.known.name.to_string(),
            tenant: caller.known.tenant.to_string(),
            role: caller.role,
            all_tenants: caller.all_tenants,
            operations: allowed.map(|route| ApiRoute::id(route)).collect(),
            pages: door.products.iter().flat_map(|product| product.pages(server)).copied().collect(),
            csrf: caller.csrf.clone(),
        }
    }
}

pub(super) async fn show(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    ok(&ApiSession::of(context, &context.caller))
}

pub(super) async fn begin(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let (server, head) = (context.server, context.http.head);
    check_site(head)?;
    let is_https = is_https(context);
    let begun = match context.body()? {
        ApiSignIn { key: Some(key), link: None } => {
            let hash = auth::hash(&key);
            let known = server.callers.by_hash(&hash).ok_or_else(|| refused(context, "the key is not known here"))?;
            // A key without a role has no session.
            let caller = ApiCaller::with_role(known)?;
            server.sessions.begin_by_key(caller.known, hash, head, is_https)?
        }
        ApiSignIn { key: None, link: Some(link) } => {
            let begun = server.sessions.begin_by_link(head, is_https, &link)?;
            begun.ok_or_else(|| {
                refused(context, "the link was used already, or is of an earlier start: sign in with a key")
            })?
        }
        ApiSignIn { key: _, link: _ } => return Err(ApiProblem::field("body", "must have either key or link")),
    };
    let caller = ApiCaller { csrf: Some(begun.csrf), ..ApiCaller::with_role(begun.caller)? };
    let response = shown(StatusCode::CREATED, &ApiSession::of(context, &caller))?;
    with_cookie(response, &begun.cookie)
}

/// The refusal of a credential; many of them from one address are slowed down.
fn refused(context: &ApiContext<'_>, says: &'static str) -> ApiProblem {
    match slowed(context) {
        Err(fault) => fault.into(),
        Ok(()) => Fault::new(Kind::Unauthenticated, says).into(),
    }
}

/// Counts a failed sign-in of the address; refuses where there were too many.
pub(super) fn slowed(context: &ApiContext<'_>) -> Result<(), Fault> {
    context.server.throttle.as_ref().map_or(Ok(()), |throttle| throttle.failed(context.http.address))
}

pub(super) async fn end(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let (server, head) = (context.server, context.http.head);
    check_site(head)?;
    let open = server.sessions.of(&server.callers, head);
    if open.as_ref().is_some_and(|open| !open.is_confirmed(&head.headers)) {
        return Err(ApiProblem::forbidden("the end of a session needs its token in the header X-CSRF-Token"));
    }
    let cookie = server.sessions.end(head, is_https(context));
    with_cookie(ok(&ApiSignedOut { signed_out: open.is_some() })?, &cookie)
}

/// Whether the browser reached the server over TLS, its own or a proxy's.
pub(super) fn is_https(context: &ApiContext<'_>) -> bool {
    let server = context.server;
    server.cards.base_url(&server.settings, context.http.head).starts_with("https://")
}

fn with_cookie(mut response: Response, cookie: &str) -> Result<Response, ApiProblem> {
    let value = HeaderValue::from_str(cookie).map_err(Fault::internal)?;
    response.headers_mut().insert(SET_COOKIE, value);
    Ok(response)
}
