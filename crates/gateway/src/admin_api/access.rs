//! Callers of the API: their roles, and the tenants that they reach.
//!
//! A role is a scope of a key or token: a credential without scopes has none, although it may make every call to agents.
//!
//! Where the server neither requires nor knows any credential, a caller on this machine may read. It may change nothing: as
//! at the admin socket, another user of the machine is no operator. Such a caller is told from one elsewhere by its address,
//! by the absence of proxies, and by the host that it names; the last also keeps out pages that name another host for this
//! machine. Pages of other origins are refused.

use std::net::IpAddr;
use std::sync::Arc;

use http::header::{HOST, ORIGIN};
use http::{HeaderName, request};
use model::{Caller, Fault, Kind};
use schemars::JsonSchema;
use serde::Serialize;
use web::request_log::RequestLog;

use super::Arrival;
use super::problem::ApiProblem;
use super::routes::ApiRoute;
use crate::scopes::{ADMIN, ALL_TENANTS, OPERATOR, VIEWER};
use crate::{GatewayVersion, auth};

static SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// The tenant whose admins see every tenant.
const DEFAULT: &str = "default";

/// The right to use the API, from the least on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "Role")]
pub(super) enum ApiRole {
    /// Reads.
    Viewer,
    /// Changes tasks and deliveries, too.
    Operator,
    /// Does everything.
    Admin,
}

impl ApiRole {
    /// The scope that gives the role.
    pub(super) fn scope(self) -> &'static str {
        match self {
            ApiRole::Viewer => VIEWER,
            ApiRole::Operator => OPERATOR,
            ApiRole::Admin => ADMIN,
        }
    }

    /// The highest role of a caller.
    fn of(caller: &Caller) -> Option<ApiRole> {
        let held = |role: &ApiRole| caller.scopes.iter().any(|scope| scope == role.scope());
        [ApiRole::Admin, ApiRole::Operator, ApiRole::Viewer].into_iter().find(held)
    }
}

/// A caller with a role.
#[derive(Clone)]
pub(super) struct ApiCaller {
    pub(super) known: Arc<Caller>,
    pub(super) role: ApiRole,
    pub(super) all_tenants: bool,
}

impl ApiCaller {
    fn new(known: Arc<Caller>) -> Option<ApiCaller> {
        let role = ApiRole::of(&known)?;
        let by_scope = known.scopes.iter().any(|scope| scope == ALL_TENANTS);
        let by_tenant = role == ApiRole::Admin && *known.tenant == *DEFAULT;
        Some(ApiCaller { known, role, all_tenants: by_scope || by_tenant })
    }

    /// The tenant that the caller is limited to.
    pub(super) fn limited_to(&self) -> Option<&str> {
        (!self.all_tenants).then_some(&*self.known.tenant)
    }

    pub(super) fn may(&self, route: &ApiRoute) -> Result<(), ApiProblem> {
        if self.role < route.role {
            if !self.known.authenticated {
                return Err(credential_needed(route.role));
            }
            let (needed, held) = (route.role.scope(), self.role.scope());
            return Err(ApiProblem::forbidden(format!("this needs the role {needed}, and your key has {held}")));
        }
        if route.is_about_server && !self.all_tenants {
            let tenant = &self.known.tenant;
            return Err(ApiProblem::forbidden(format!(
                "this concerns the whole server, and your key is for the tenant {tenant} alone: it needs the scope \
                 {ALL_TENANTS}, or the role admin in the tenant {DEFAULT}"
            )));
        }
        Ok(())
    }
}

/// The refusal of a caller without a credential who may only read.
fn credential_needed(role: ApiRole) -> ApiProblem {
    let scope = role.scope();
    let message = format!(
        "this needs a key with the scope {scope}, also where nothing else needs one: make one with rialto keys create NAME \
         --tenant default --scope {scope} and send Authorization: Bearer KEY"
    );
    Fault::new(Kind::Unauthenticated, message).into()
}

/// Identifies the caller of a request, and checks that it has a role.
pub(super) async fn identify(
    server: &GatewayVersion,
    head: &request::Parts,
    log: &mut RequestLog,
) -> Result<ApiCaller, ApiProblem> {
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
        if !is_open(server, head, log.address) {
            return Err(auth::credential_required().into());
        }
        if !is_same_origin(head) {
            return Err(ApiProblem::forbidden(
                "a page of another origin may not use this server: send a key, or open the address itself",
            ));
        }
        return Ok(ApiCaller { known, role: ApiRole::Viewer, all_tenants: true });
    }
    let name = known.name.clone();
    ApiCaller::new(known).ok_or_else(|| {
        let make = if auth::is_token(&name) { "ask the issuer for one of these scopes" } else { MAKE_A_KEY };
        ApiProblem::forbidden(format!(
            "your credential has no role here: it needs the scope admin, operator or viewer; {make}"
        ))
    })
}

const MAKE_A_KEY: &str = "make a key with rialto keys create NAME --scope admin";

/// Whether a caller without a credential is on this machine, and no credential exists or is required.
fn is_open(server: &GatewayVersion, head: &request::Parts, address: IpAddr) -> bool {
    let settings = &server.settings;
    let is_forwarded = head.extensions.get::<Arrival>().is_none_or(|arrival| arrival.is_forwarded);
    let names_itself = settings
        .public_url
        .as_deref()
        .is_none_or(|url| url::Url::parse(url).is_ok_and(|url| url.host_str().is_some_and(is_loopback)));
    !server.callers.required()
        && !server.callers.has_any()
        && settings.trusted_proxies.is_empty()
        && names_itself
        && address.is_loopback()
        && !is_forwarded
        && host(head).is_some_and(|host| is_loopback(without_port(host)))
}

/// The host and port that a request names.
fn host(head: &request::Parts) -> Option<&str> {
    match head.uri.authority() {
        Some(authority) => Some(authority.as_str()),
        None => head.headers.get(HOST)?.to_str().ok(),
    }
}

fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        Some(_) | None => authority,
    }
}

fn is_loopback(host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    bare.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Whether a request is not from a page of another origin, as far as a browser says.
fn is_same_origin(head: &request::Parts) -> bool {
    let site = head.headers.get(&SEC_FETCH_SITE);
    let by_site = site.is_none_or(|site| site == "same-origin" || site == "none");
    let origin = head.headers.get(ORIGIN);
    let by_origin = origin.is_none_or(|origin| {
        let named = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
        named.is_some_and(|(_, named)| Some(named) == host(head))
    });
    by_site && by_origin
}

#[cfg(test)]
mod tests {
    use http::{Method, Request};

    use super::*;

    fn head(pairs: &[(&str, &str)]) -> request::Parts {
        let mut request = Request::builder().method(Method::GET).uri("/x");
        for (name, value) in pairs {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn only_names_of_this_machine_are_loopback() {
        for good in ["localhost:8080", "LOCALHOST", "127.0.0.1:1", "127.9.9.9", "[::1]:8080", "[::1]"] {
            assert!(is_loopback(without_port(good)), "{good}");
        }
        for bad in
            ["evil.example:8080", "localhost.evil.example", "10.0.0.1:8080", "[::2]:1", "", "127.0.0.1.evil.example"]
        {
            assert!(!is_loopback(without_port(bad)), "{bad}");
        }
    }

    #[test]
    fn a_page_of_another_origin_is_told_from_the_own_one() {
        let own = ("host", "127.0.0.1:8080");
        for good in [
            vec![own],
            vec![own, ("sec-fetch-site", "same-origin")],
            vec![own, ("sec-fetch-site", "none")],
            vec![own, ("origin", "http://127.0.0.1:8080"), ("sec-fetch-site", "same-origin")],
        ] {
            assert!(is_same_origin(&head(&good)), "{good:?}");
        }
        for bad in [
            vec![own, ("sec-fetch-site", "cross-site")],
            vec![own, ("sec-fetch-site", "same-site")],
            vec![own, ("origin", "http://127.0.0.1:8081")],
            vec![own, ("origin", "null")],
            vec![own, ("origin", "https://evil.example")],
        ] {
            assert!(!is_same_origin(&head(&bad)), "{bad:?}");
        }
    }

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
