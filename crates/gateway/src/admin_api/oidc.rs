//! Sign-in at an OpenID provider: the browser is sent there, and comes back with a code for an ID token. Refusals are
//! pages, because a person reads them.

use std::path::Path;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, LOCATION, REFERRER_POLICY, SET_COOKIE};
use http::{HeaderValue, StatusCode};
use model::{Fault, Kind, Time};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use web::body::Response;
use web::fault_codes::FaultCode;
use web::html;

use super::problem::ApiProblem;
use super::session::{is_https, slowed};
use super::{ApiContext, BASE, ok};
use crate::admin::append_audit;
use crate::auth::oidc::{OidcProvider, SignInRequest, SignedIn, plain_word};
use crate::console::sign_ins::{LostSignIn, SignIn, spent_cookie};

/// The page that a sign-in leads to, unless the browser came from another one.
const CONSOLE: &str = "/console/";
/// The longest path to come back to.
pub(super) const THEN: usize = 2_000;

/// The ways to sign in.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SignInOptions")]
pub(super) struct ApiSignInOptions {
    /// The name of the OpenID provider, where there is one: `GET /session/oidc` begins a sign-in there.
    provider: Option<String>,
}

pub(super) async fn options(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let provider = context.server.callers.provider();
    ok(&ApiSignInOptions { provider: provider.map(|provider| provider.name().to_owned()) })
}

pub(super) async fn begin(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    Ok(match start(context).await {
        Ok(response) => response,
        Err(fault) => refusal(&fault),
    })
}

async fn start(context: &ApiContext<'_>) -> Result<Response, Fault> {
    let (server, provider) = (context.server, provider(context)?);
    let redirect =
        format!("{}{BASE}/session/oidc/callback", server.cards.base_url(&server.settings, context.http.head));
    let then = page_of(context.http.query_param("then"));
    let (address, terms) = (context.http.address, provider.terms);
    let new = server.sign_ins.begin(address, is_https(context), terms, redirect.clone(), then)?;
    let request = SignInRequest { redirect: &redirect, state: &new.state, nonce: &new.nonce, verifier: &new.verifier };
    let mut response = onward(&provider.begin(request).await?)?;
    set_cookie(&mut response, &new.cookie)?;
    Ok(response)
}

pub(super) async fn finish(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let mut response = match end(context).await {
        Ok(response) => response,
        Err(fault) => match slowed(context) {
            Err(too_many) => refusal(&too_many),
            Ok(()) => refusal(&fault),
        },
    };
    if let Some(state) = context.http.query_param("state") {
        set_cookie(&mut response, &spent_cookie(state, is_https(context)))?;
    }
    Ok(response)
}

async fn end(context: &ApiContext<'_>) -> Result<Response, Fault> {
    let (server, head, provider) = (context.server, context.http.head, provider(context)?);
    let param = |name: &str| context.http.query_param(name);
    let lost = |says: &str| Fault::new(Kind::InvalidParams, says);
    let state =
        param("state").ok_or_else(|| lost("this address is for the provider's answer: sign in at the console"))?;
    let sign_in = server.sign_ins.take(state, head).map_err(|why| match why {
        LostSignIn::Unknown => lost("this sign-in was used already, or took longer than ten minutes: begin again"),
        LostSignIn::Elsewhere => lost("this sign-in began in another browser: begin again in this one"),
    })?;
    if sign_in.terms != provider.terms {
        return Err(lost("the server's config has changed meanwhile: begin again"));
    }
    let is_other = match param("iss") {
        Some(issuer) => issuer != provider.issuer(),
        None => provider.names_itself().await?,
    };
    if is_other {
        return Err(lost("the answer is not of the provider that was asked: begin again"));
    }
    if let Some(error) = param("error") {
        let says = format!("the provider did not sign you in ({}): begin again", plain_word(error));
        return Err(Fault::new(Kind::Forbidden, says));
    }
    let code = param("code").ok_or_else(|| lost("the provider's answer has no code: begin again"))?;
    let SignIn { redirect, nonce, verifier, then, terms, .. } = &sign_in;
    let signed_in = provider.redeem(code, SignInRequest { redirect, state, nonce, verifier }).await?;
    let session = server.sessions.begin_by_provider(&signed_in, *terms, head, is_https(context))?;
    audit(&context.door.folder, provider, &signed_in);
    let mut response = onward(then)?;
    set_cookie(&mut response, &session.cookie)?;
    Ok(response)
}

fn provider<'c>(context: &'c ApiContext<'_>) -> Result<&'c OidcProvider, Fault> {
    let says = "this server has no sign-in by a provider: its config names one under console.oidc";
    context.server.callers.provider().map(|provider| &**provider).ok_or_else(|| Fault::new(Kind::Unsupported, says))
}

/// A line about a new session.
fn audit(folder: &Path, provider: &OidcProvider, signed_in: &SignedIn) {
    let caller = &signed_in.caller;
    let line = json!({
        "at": Time(jiff::Timestamp::now().as_millisecond()).to_string(),
        "what": "sessions",
        "change": "began",
        "provider": provider.issuer(),
        "role": signed_in.role,
        "tenant": &*caller.tenant,
        "by": &*caller.name,
        "by_tenant": &*caller.tenant,
    });
    append_audit(folder, &line);
}

/// A path of the console; anything else is its first page, so that no link leads a person elsewhere.
fn page_of(then: Option<&str>) -> String {
    let is_page = |then: &&str| {
        let path = then.split(['?', '#']).next().unwrap_or_default();
        let is_below = path.strip_prefix("/console").is_some_and(|below| below.is_empty() || below.starts_with('/'));
        let is_plain = then.len() <= THEN && then.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
        // A browser takes `%2e` for a dot of `..`.
        let leaves = path.to_ascii_lowercase().replace("%2e", ".").split('/').any(|segment| segment == "..");
        is_below && is_plain && !leaves
    };
    then.filter(is_page).unwrap_or(CONSOLE).to_owned()
}

/// A redirect that is not kept.
fn onward(to: &str) -> Result<Response, Fault> {
    let mut response = Response::new(Bytes::new().into());
    *response.status_mut() = StatusCode::SEE_OTHER;
    let headers = response.headers_mut();
    headers.insert(LOCATION, HeaderValue::from_str(to).map_err(Fault::internal)?);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    Ok(response)
}

fn set_cookie(response: &mut Response, cookie: &str) -> Result<(), Fault> {
    response.headers_mut().append(SET_COOKIE, HeaderValue::from_str(cookie).map_err(Fault::internal)?);
    Ok(())
}

fn refusal(fault: &Fault) -> Response {
    match &fault.cause {
        Some(cause) => tracing::warn!(%cause, "a sign-in at the provider was refused: {fault}"),
        None => tracing::info!("a sign-in at the provider was refused: {fault}"),
    }
    let mut says = fault.message.clone();
    if let Some(first) = says.get(..1) {
        says = first.to_uppercase() + &says[1..];
    }
    let main = format!(
        "<h1>Not signed in</h1>\n<p class=\"said\">{}.</p>\n<p><a href=\"{CONSOLE}\">To the console</a></p>\n",
        html::escaped(&says)
    );
    let status = FaultCode::of(fault.kind).http();
    html::response(status, html::document("Not signed in - Rialto console", &main), html::Forms::Here)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_in_leads_to_a_page_of_the_console_and_nowhere_else() {
        for path in [
            "/console",
            "/console/",
            "/console/tasks?state=failed",
            "/console/tasks/x/wire#e3",
            "/console/agents/a..b?q=..",
        ] {
            assert_eq!(page_of(Some(path)), path);
        }
        for path in [
            "",
            "/",
            "/consoles",
            "//console/",
            "https://evil.example/console/",
            "/console/../a2a",
            "/console/..",
            "/console/%2E./a2a",
            "/console/a/%2e%2e/%2e%2e/a2a?x",
            "/console\\..\\x",
            "/console/\u{e4}",
            "/console/ x",
            "/console/\r\nset-cookie:x",
            "javascript:alert(1)",
        ] {
            assert_eq!(page_of(Some(path)), CONSOLE, "{path:?}");
        }
        assert_eq!(page_of(None), CONSOLE);
        assert_eq!(page_of(Some(&format!("/console/{}", "x".repeat(THEN)))), CONSOLE);
    }

    #[test]
    fn a_refusal_is_a_page_without_markup_of_others() {
        let response = refusal(&Fault::new(Kind::Forbidden, "the provider said <b>no</b>"));
        assert_eq!(response.status(), StatusCode::FORBIDDEN);
        assert!(response.headers()["content-type"].to_str().unwrap().starts_with("text/html"));
    }
}
