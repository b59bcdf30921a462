//! Callers of the API: their roles, and the tenants that they reach.
//!
//! A role is a scope of a key or token: a credential without scopes has none, although it may make every call to agents. The
//! cookie of a session stands for a key ([`crate::console::sessions`]).

use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::{HeaderName, request};
use model::{Caller, Fault, Kind};
use web::credentials;
use web::request_log::RequestLog;

use super::problem::ApiProblem;
use super::routes::ApiRoute;
pub(super) use crate::admin::ApiRole;
use crate::admin::CommandAccess;
use crate::scopes::ALL_TENANTS;
use crate::{GatewayVersion, auth};

static SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// The tenant whose admins see every tenant.
const DEFAULT: &str = "default";

/// A caller with a role.
#[derive(Clone)]
pub(super) struct ApiCaller {
    pub(super) known: Arc<Caller>,
    pub(super) role: ApiRole,
    pub(super) all_tenants: bool,
    /// The token that a page sends back with a change, where the caller is a browser with a session.
    pub(super) csrf: Option<String>,
}

impl ApiCaller {
    fn new(known: Arc<Caller>) -> Option<ApiCaller> {
        let role = ApiRole::of(&known)?;
        let by_scope = known.scopes.iter().any(|scope| scope == ALL_TENANTS);
        let by_tenant = role == ApiRole::Admin && *known.tenant == *DEFAULT;
        Some(ApiCaller { known, role, all_tenants: by_scope || by_tenant, csrf: None })
    }

    /// A caller who need not be known, at a route that is open.
    pub(super) fn nobody(server: &GatewayVersion) -> ApiCaller {
        let known = server.callers.anonymous().clone();
        ApiCaller { known, role: ApiRole::Viewer, all_tenants: false, csrf: None }
    }

    /// The caller of a credential, if it gives a role.
    pub(super) fn with_role(known: Arc<Caller>) -> Result<ApiCaller, ApiProblem> {
        let name = known.name.clone();
        ApiCaller::new(known).ok_or_else(|| {
            let make = if auth::is_token(&name) { "ask the issuer for one of these scopes" } else { MAKE_A_KEY };
            ApiProblem::forbidden(format!(
                "your credential has no role here: it needs the scope admin, operator or viewer; {make}"
            ))
        })
    }

    /// The tenant that the caller is limited to.
    pub(super) fn limited_to(&self) -> Option<&str> {
        (!self.all_tenants).then_some(&*self.known.tenant)
    }

    pub(super) fn may(&self, route: &ApiRoute) -> Result<(), ApiProblem> {
        if route.is_open {
            return Ok(());
        }
        self.covers(CommandAccess { role: route.role, is_about_server: route.is_about_server })
    }

    /// Whether the caller has the role, and the reach.
    pub(super) fn covers(&self, access: CommandAccess) -> Result<(), ApiProblem> {
        if self.role < access.role {
            let (needed, held) = (access.role.scope(), self.role.scope());
            return Err(ApiProblem::forbidden(format!("this needs the role {needed}, and your key has {held}")));
        }
        if access.is_about_server && !self.all_tenants {
            let tenant = &self.known.tenant;
            return Err(ApiProblem::forbidden(format!(
                "this concerns the whole server, and your key is for the tenant {tenant} alone: it needs the scope \
                 {ALL_TENANTS}, or the role admin in the tenant {DEFAULT}"
            )));
        }
        Ok(())
    }
}

/// The refusal of a caller without a credential. Where calls to agents need none, this API still does: a proxy on this
/// machine makes every caller look like one on it.
fn credential_needed() -> ApiProblem {
    let message = "this needs a key with a role, also where agents need none: make one with rialto keys create NAME --tenant \
                   default --scope admin and send Authorization: Bearer KEY";
    Fault::new(Kind::Unauthenticated, message).into()
}

/// Identifies the caller of a request, and checks that it has a role.
pub(super) async fn identify(
    server: &GatewayVersion,
    head: &request::Parts,
    log: &mut RequestLog,
) -> Result<ApiCaller, ApiProblem> {
    if let Some(caller) = of_session(server, head, log)? {
        return Ok(caller);
    }
    let throttle = server.throttle.as_ref();
    let known = match server.callers.identify(&head.headers).await {
        Ok(known) => known,
        Err(fault) => {
            if let (Some(throttle), Kind::Unauthenticated) = (throttle, fault.kind) {
                throttle.failed(log.address)?;
            }
            return Err(fault.into());
        }
    };
    log.caller = Some(known.name.clone());
    if let Some(throttle) = throttle {
        throttle.admit(&known, log.address)?;
    }
    if !known.authenticated {
        return Err(credential_needed());
    }
    ApiCaller::with_role(known)
}

/// The caller of the session whose cookie the request has. A request with another credential is not of its session.
fn of_session(
    server: &GatewayVersion,
    head: &request::Parts,
    log: &mut RequestLog,
) -> Result<Option<ApiCaller>, ApiProblem> {
    if head.headers.contains_key(AUTHORIZATION) || credentials::api_key(&head.headers).is_some() {
        return Ok(None);
    }
    let Some(session) = server.sessions.of(&server.callers, head) else { return Ok(None) };
    log.caller = Some(session.caller.name.clone());
    check_site(head)?;
    if !head.method.is_safe() && !session.is_confirmed(&head.headers) {
        return Err(ApiProblem::forbidden(
            "a change in a session needs the session's token in the header X-CSRF-Token; GET /session has it as csrf",
        ));
    }
    if let Some(throttle) = &server.throttle {
        throttle.admit(&session.caller, log.address)?;
    }
    let caller = ApiCaller::with_role(session.caller)?;
    Ok(Some(ApiCaller { csrf: Some(session.csrf), ..caller }))
}

/// Refuses a request that a page of another origin makes, as far as its browser says.
pub(super) fn check_site(head: &request::Parts) -> Result<(), ApiProblem> {
    match is_of_this_site(head) {
        true => Ok(()),
        false => Err(ApiProblem::forbidden("a page of another origin may not use a session of this server")),
    }
}

fn is_of_this_site(head: &request::Parts) -> bool {
    head.headers.get(&SEC_FETCH_SITE).is_none_or(|site| site == "same-origin" || site == "none")
}

const MAKE_A_KEY: &str = "make a key with rialto keys create NAME --scope admin";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_role_counts_and_a_caller_without_scopes_has_none() {
        let role = |tenant: &str, scopes: &[&str]| {
            let scopes: Vec<String> = scopes.iter().map(|scope| (*scope).to_owned()).collect();
            let known =
                Caller { tenant: tenant.into(), name: "ann".into(), authenticated: true, scopes: scopes.into() };
            ApiCaller::new(Arc::new(known)).map(|caller| (caller.role, caller.all_tenants))
        };
        assert_eq!(role("default", &[]), None);
        assert_eq!(role("default", &["tasks", "all-tenants"]), None);
        assert_eq!(role("default", &["viewer"]), Some((ApiRole::Viewer, false)));
        assert_eq!(role("acme", &["viewer", "all-tenants"]), Some((ApiRole::Viewer, true)));
        assert_eq!(role("default", &["operator", "viewer"]), Some((ApiRole::Operator, false)));
        assert_eq!(role("default", &["viewer", "admin"]), Some((ApiRole::Admin, true)));
        assert_eq!(role("acme", &["admin"]), Some((ApiRole::Admin, false)));
    }
}
