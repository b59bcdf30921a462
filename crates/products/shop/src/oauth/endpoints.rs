//! The endpoints below `/oauth`, and the metadata documents that describe them.

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use dialects::framing::query;
use dialects::wire::Operation;
use http::header::{CONTENT_TYPE, COOKIE, LOCATION, SET_COOKIE};
use http::{HeaderMap, HeaderValue, StatusCode, request};
use model::{Caller, Fault, Kind};
use serde_json::{Value, json};

use super::clients::{
    CODE_GRANT, ClientCredentials, ClientMetadata, GRANTS, METHODS, OWN_GRANT, REFRESH_GRANT, Registered,
};
use super::grants::{CodeExchange, Consent, IssuedTokens};
use super::makers::{Maker, subject_of};
use super::records::OauthClient;
use super::{ACCESS, Error, Oauth, constant_time_eq, covers, draw, page};
use gateway::GatewayVersion;
use gateway::auth::jwt;
use gateway::fronts::RequestLog;
use web::body::{Response, ResponseBody};
use web::credentials::{Authorization, bearer};
use web::html::{self, Forms};
use web::response::{self, Rejection, not_allowed, private_json};
use web::routes::{HeadRule, NoRoute, RouteRow, RouteTable};

/// Largest body of a request to these endpoints.
pub(crate) const BODY_BYTES: usize = 64 << 10;

/// Paths of the resources that accept the tokens.
const RESOURCES: [&str; 2] = ["/api/a2a", "/aly/api/a2a"];

/// The cookie that proves that a form was sent from the consent page.
const COOKIE_NAME: &str = "rialto_consent";

/// The metadata documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetadataDocument {
    /// Metadata of the authorization server (RFC 8414).
    Server,
    /// Metadata of the protected resource (RFC 9728).
    Resource,
}

type OauthFuture<'a> = Pin<Box<dyn Future<Output = Result<Response, Error>> + Send + 'a>>;

struct OauthRoute {
    verb: &'static str,
    path: &'static str,
    /// For the log.
    operation: &'static str,
    handler: for<'a> fn(&'a OauthRequest<'a>, Result<Bytes, Fault>, &'a mut RequestLog) -> OauthFuture<'a>,
}

impl RouteRow for OauthRoute {
    const HEAD: HeadRule = HeadRule::AfterGet;

    fn method(&self) -> &str {
        self.verb
    }
    fn path(&self) -> &'static str {
        self.path
    }
}

macro_rules! routes {
    ($($verb:ident $path:literal $operation:literal => $handler:ident;)+) => {
        &[$(OauthRoute {
            verb: stringify!($verb),
            path: $path,
            operation: $operation,
            handler: |request, body, log| Box::pin(request.$handler(body, log)),
        }),+]
    };
}

/// Paths below `/oauth`.
static ROUTES: &[OauthRoute] = routes! {
    GET "/authorize" "authorize" => authorize;
    POST "/authorize" "authorize" => decide;
    POST "/token" "token" => token;
    POST "/revoke" "revoke" => revoke;
    POST "/introspect" "introspect" => introspect;
    POST "/register" "register" => register;
};

static TABLE: LazyLock<RouteTable<OauthRoute>> = LazyLock::new(|| RouteTable::new(ROUTES));

/// Answers a request below `/oauth`.
pub(crate) async fn answer(
    server: &Arc<GatewayVersion>,
    oauth: &Oauth,
    below: &str,
    head: &request::Parts,
    body: Result<Bytes, Fault>,
    log: &mut RequestLog,
) -> Response {
    log.dialect = "oauth";
    let route = match TABLE.find(&head.method, below) {
        Ok((route, _)) => route,
        Err(NoRoute::Method { allow }) => return not_allowed(&allow),
        Err(NoRoute::Path) => return gateway::fronts::rest::nothing_at(head.uri.path(), head, log),
    };
    log.operation = route.operation;
    let request = OauthRequest { server, oauth, head, base: server.cards.base_url(&server.settings, head) };
    let outcome = (route.handler)(&request, body, log).await;
    outcome.unwrap_or_else(|error| request.error_json(&error, log))
}

/// A metadata document.
pub(crate) fn document(
    server: &GatewayVersion,
    which: MetadataDocument,
    head: &request::Parts,
    log: &mut RequestLog,
) -> Response {
    (log.operation, log.dialect) = ("metadata", "oauth");
    let base = server.cards.base_url(&server.settings, head);
    let scopes: Vec<&str> = crate::aly::SCOPES.iter().map(|(scope, _)| *scope).collect();
    let at = |name: &str| format!("{base}/oauth/{name}");
    let value = match which {
        MetadataDocument::Server => json!({
            "issuer": base,
            "authorization_endpoint": at("authorize"),
            "token_endpoint": at("token"),
            "revocation_endpoint": at("revoke"),
            "introspection_endpoint": at("introspect"),
            "registration_endpoint": at("register"),
            "scopes_supported": scopes,
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": GRANTS,
            "token_endpoint_auth_methods_supported": METHODS,
            "revocation_endpoint_auth_methods_supported": METHODS,
            "introspection_endpoint_auth_methods_supported": METHODS[1..],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": true,
        }),
        MetadataDocument::Resource => json!({
            "resource": format!("{base}{}", resource_at(head.uri.path())),
            "authorization_servers": [base],
            "scopes_supported": scopes,
            "bearer_methods_supported": ["header"],
        }),
    };
    let mut response = response::json(value.to_string());
    gateway::cards::cacheable(response.headers_mut());
    response
}

/// The resource that the document at this path describes: the one whose path ends the document's path.
fn resource_at(path: &str) -> &'static str {
    let [root, mounted] = RESOURCES;
    if path.ends_with(mounted) || path.starts_with("/aly/") { mounted } else { root }
}

/// Whether a resource accepts the tokens of this server. Its address must be spelled as in the documents.
fn is_served(base: &str, resource: &str) -> bool {
    resource.strip_prefix(base).is_some_and(|path| RESOURCES.contains(&path))
}

/// The address of the resource metadata, which a 401 response names.
pub(crate) fn resource_url(base: &str) -> String {
    format!("{base}/.well-known/oauth-protected-resource")
}

struct OauthRequest<'a> {
    server: &'a Arc<GatewayVersion>,
    oauth: &'a Oauth,
    head: &'a request::Parts,
    base: String,
}

/// The fields of a form or a query, each at most once.
#[derive(Debug, Default)]
pub(super) struct FormFields(Vec<(String, String)>);

impl FormFields {
    fn read(text: &str) -> Result<FormFields, Error> {
        let mut all: Vec<(String, String)> = Vec::new();
        for pair in query::pairs(text) {
            let (name, value) = pair.map_err(|fault| Error::request(fault.message))?;
            if all.iter().any(|(known, _)| *known == name) {
                let name: String = name.chars().take(64).collect();
                return Err(Error::request(format!("{name} is given more than once")));
            }
            all.push((name.into_owned(), value.into_owned()));
        }
        Ok(FormFields(all))
    }

    /// The value of a field, if it is not empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        found.filter(|value| !value.is_empty())
    }

    fn required(&self, name: &str) -> Result<&str, Error> {
        self.get(name).ok_or_else(|| Error::request(format!("{name} is missing")))
    }
}

/// A valid authorization request, before the person's consent.
pub(super) struct AuthorizationRequest {
    pub(super) client: OauthClient,
    pub(super) redirect: String,
    pub(super) state: Option<String>,
    pub(super) scopes: Vec<String>,
    pub(super) challenge: String,
}

/// An authorization request that cannot be shown to the person.
enum AuthorizeError {
    /// The request has no valid redirect URI: the person sees the error as a page.
    Page(Error),
    /// The browser is redirected to the client with the error: redirect URI and `state`.
    Redirect(Error, String, Option<String>),
}

impl OauthRequest<'_> {
    fn form(&self, body: Result<Bytes, Fault>) -> Result<FormFields, Error> {
        let said = self.head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let bare = said.split(';').next().unwrap_or_default().trim();
        if !bare.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
            return Err(Error::request("send a form: application/x-www-form-urlencoded"));
        }
        let body = body?;
        FormFields::read(std::str::from_utf8(&body).map_err(|_| Error::request("the form is not UTF-8"))?)
    }

    /// Checks the `resource` of a request (RFC 8707), if it has one.
    fn check_resource(&self, form: &FormFields) -> Result<(), Error> {
        match form.get("resource") {
            Some(resource) if !is_served(&self.base, resource) => {
                let message = format!("the resource is not served here; name {}{} or none", self.base, RESOURCES[0]);
                Err(Error::new("invalid_target", message))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Reads and checks an authorization request.
    async fn request(&self, form: &FormFields) -> Result<AuthorizationRequest, AuthorizeError> {
        let here = |error: Error| AuthorizeError::Page(error);
        let id = form.required("client_id").map_err(here)?;
        let found = self.oauth.client(id).await.map_err(here)?;
        let unknown = || Error::request("the program that sent you is not known here; start again from it");
        let (client, _) = found.ok_or_else(|| here(unknown()))?;
        let redirect = match (form.get("redirect_uri"), &*client.redirects) {
            (Some(uri), _) if client.returns_to(uri) => uri.to_owned(),
            (None, [only]) => only.clone(),
            (Some(_) | None, _) => {
                let message = "the address you would be sent back to is not the program's own; start again from it";
                return Err(here(Error::request(message)));
            }
        };
        let state = form.get("state").map(str::to_owned);
        let asked = || {
            client.may_use(CODE_GRANT)?;
            if form.required("response_type")? != "code" {
                return Err(Error::new("unsupported_response_type", "response_type is code"));
            }
            let challenge = form.required("code_challenge")?;
            if form.get("code_challenge_method") != Some("S256") {
                return Err(Error::request("code_challenge_method is S256"));
            }
            if URL_SAFE_NO_PAD.decode(challenge).is_ok_and(|hash| hash.len() != 32) || challenge.len() != 43 {
                return Err(Error::request("code_challenge is 43 characters: base64url of a SHA-256"));
            }
            self.check_resource(form)?;
            Ok((client.asked(form.get("scope"))?, challenge.to_owned()))
        };
        match asked() {
            Ok((scopes, challenge)) => Ok(AuthorizationRequest { client, redirect, state, scopes, challenge }),
            Err(error) => Err(AuthorizeError::Redirect(error, redirect, state)),
        }
    }

    /// Shows the consent page.
    async fn authorize(&self, _body: Result<Bytes, Fault>, log: &mut RequestLog) -> Result<Response, Error> {
        Ok(match FormFields::read(self.head.uri.query().unwrap_or_default()) {
            Ok(form) => self.ask(&form, None, log).await,
            Err(error) => self.error_page(&error, log),
        })
    }

    /// Shows the consent page; `said` is the error of the previous submission.
    async fn ask(&self, form: &FormFields, said: Option<&str>, log: &mut RequestLog) -> Response {
        let request = match self.request(form).await {
            Ok(request) => request,
            Err(authorize_error) => return self.authorize_error(authorize_error, log),
        };
        let nonce = match draw::<32>() {
            Ok(bytes) => URL_SAFE_NO_PAD.encode(bytes),
            Err(fault) => return self.error_page(&fault.into(), log),
        };
        let fields = form.0.iter().filter(|(name, _)| page::CARRIED.contains(&&**name));
        let html = page::ask(&request, fields, &nonce, said);
        let status = if said.is_some() { StatusCode::FORBIDDEN } else { StatusCode::OK };
        let mut response = html_response(status, html);
        let secure = if self.base.starts_with("https:") { "; Secure" } else { "" };
        let cookie = format!("{COOKIE_NAME}={nonce}; HttpOnly; SameSite=Strict; Path=/; Max-Age=600{secure}");
        if let Ok(cookie) = HeaderValue::from_str(&cookie) {
            response.headers_mut().insert(SET_COOKIE, cookie);
        }
        response
    }

    /// Handles the submitted consent page.
    async fn decide(&self, body: Result<Bytes, Fault>, log: &mut RequestLog) -> Result<Response, Error> {
        Ok(match self.form(body) {
            Ok(form) => self.decided(form, log).await,
            Err(error) => self.error_page(&error, log),
        })
    }

    async fn decided(&self, form: FormFields, log: &mut RequestLog) -> Response {
        let request = match self.request(&form).await {
            Ok(request) => request,
            Err(authorize_error) => return self.authorize_error(authorize_error, log),
        };
        // The form must come from the page in the same browser: another site can neither read nor set the cookie.
        let seen =
            cookie(&self.head.headers).zip(form.get("csrf")).is_some_and(|(kept, sent)| constant_time_eq(kept, sent));
        if !seen {
            return self.ask(&form, Some("this page was open for too long; please answer again"), log).await;
        }
        if form.get("decision") != Some("allow") {
            let denied = Error::new("access_denied", "the person said no");
            return self.redirect_error(&denied, &request.redirect, request.state.as_deref(), log);
        }
        let (person, maker) = match self.person(form.get("key").unwrap_or_default().trim(), log).await {
            Ok(Some(person)) => person,
            Ok(None) => return self.ask(&form, Some("this is no API key of a workspace here"), log).await,
            Err(fault) if fault.kind == Kind::RateLimited => return self.error_page(&fault.into(), log),
            Err(fault) => return self.redirect_error(&fault.into(), &request.redirect, request.state.as_deref(), log),
        };
        if request.client.workspace.as_ref().is_some_and(|workspace| *workspace != person.tenant) {
            let said = "the program belongs to another workspace than the key";
            return self.ask(&form, Some(said), log).await;
        }
        let AuthorizationRequest { client, redirect, state, scopes, challenge } = request;
        let scopes: Vec<String> = scopes.into_iter().filter(|scope| covers(&person.scopes, scope)).collect();
        if scopes.is_empty() {
            let said = "this key is good for nothing of what is asked for; use another";
            return self.ask(&form, Some(said), log).await;
        }
        let agreed = Consent {
            client: &client,
            redirect: &redirect,
            challenge: &challenge,
            scopes,
            workspace: person.tenant.clone(),
            subject: subject_of(&person),
            maker,
        };
        match self.oauth.agree(agreed).await {
            Ok(code) => self.redirect(&redirect, &[("code", Some(&code)), ("state", state.as_deref())]),
            Err(error) => self.redirect_error(&error, &redirect, state.as_deref(), log),
        }
    }

    /// The caller of an API key: of a workspace, or of the server. An access token is not accepted: otherwise its holder
    /// could pass on more than was granted.
    async fn person(&self, key: &str, log: &mut RequestLog) -> Result<Option<(Arc<Caller>, Maker)>, Fault> {
        let known = if key.is_empty() || key.starts_with(ACCESS) || jwt::is_token(key) {
            None
        } else {
            self.oauth.holder(&self.server.callers, key).await?
        };
        match known {
            Some((caller, maker)) => {
                log.caller = Some(caller.name.clone());
                Ok(Some((caller, maker)))
            }
            None => self.count_failure(log).map(|()| None),
        }
    }

    /// Counts a wrong secret against the address of the client.
    fn count_failure(&self, log: &RequestLog) -> Result<(), Fault> {
        self.server.throttle.as_ref().map_or(Ok(()), |throttle| throttle.failed(log.address))
    }

    async fn token(&self, body: Result<Bytes, Fault>, log: &mut RequestLog) -> Result<Response, Error> {
        let form = self.form(body)?;
        let grant = form.required("grant_type")?;
        let client = self.client(&form, log).await?;
        self.check_resource(&form)?;
        let tokens = match grant {
            CODE_GRANT => {
                client.0.may_use(CODE_GRANT)?;
                let code = form.required("code")?;
                let verifier = form.required("code_verifier")?;
                let unreserved = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~');
                if !(43..=128).contains(&verifier.len()) || !verifier.bytes().all(unreserved) {
                    return Err(Error::request("code_verifier is 43 to 128 unreserved characters"));
                }
                let fetch = CodeExchange { code, redirect: form.get("redirect_uri"), verifier };
                self.oauth.exchange(&self.server.callers, client, fetch).await?
            }
            REFRESH_GRANT => {
                client.0.may_use(REFRESH_GRANT)?;
                let refresh = form.required("refresh_token")?;
                self.oauth.renew(&self.server.callers, client, refresh, form.get("scope")).await?
            }
            OWN_GRANT => self.oauth.own_token(client, form.get("scope")).await?,
            _ => {
                let message = format!("grant_type is one of {}", GRANTS.join(", "));
                return Err(Error::new("unsupported_grant_type", message));
            }
        };
        let IssuedTokens { access, refresh, expires_s, scopes, workspace } = tokens;
        let mut answer = json!({
            "access_token": access,
            "token_type": "Bearer",
            "expires_in": expires_s,
            "scope": scopes.join(" "),
            "workspace": workspace,
        });
        if let Some(refresh) = refresh {
            answer["refresh_token"] = refresh.into();
        }
        Ok(secret_response(StatusCode::OK, &answer))
    }

    async fn revoke(&self, body: Result<Bytes, Fault>, log: &mut RequestLog) -> Result<Response, Error> {
        let form = self.form(body)?;
        let (client, _) = self.client(&form, log).await?;
        self.oauth.revoke(&client, form.required("token")?).await?;
        Ok(secret_response(StatusCode::OK, &json!({})))
    }

    /// Introspection of a token, for the client it was issued to, if that has a secret, and for keys of its workspace.
    async fn introspect(&self, body: Result<Bytes, Fault>, log: &mut RequestLog) -> Result<Response, Error> {
        let form = self.form(body)?;
        let (workspace, client) = match bearer(&self.head.headers) {
            Some(key) => {
                let Some((caller, _)) = self.person(key, log).await? else { return Err(Error::client("no such key")) };
                (Some(caller.tenant.clone()), None)
            }
            None => {
                let (client, _) = self.client(&form, log).await?;
                if client.secret.is_none() {
                    return Err(Error::client("introspection is for clients with a secret, and for API keys"));
                }
                (None, Some(client.id))
            }
        };
        let facts = self.oauth.facts(&self.server.callers, form.required("token")?).await?;
        let facts = facts.filter(|facts| {
            client.as_ref().is_some_and(|client| *client == facts.client)
                || workspace.as_ref().is_some_and(|workspace| *workspace == facts.workspace)
        });
        let answer = match facts {
            None => json!({ "active": false }),
            Some(facts) => json!({
                "active": true,
                "scope": facts.scopes.join(" "),
                "client_id": facts.client,
                "sub": facts.subject,
                "workspace": facts.workspace,
                "token_type": if facts.is_access { "Bearer" } else { "refresh_token" },
                "iat": facts.made.0.div_euclid(1_000),
                "exp": facts.expires.0.div_euclid(1_000),
                "iss": self.base,
            }),
        };
        Ok(secret_response(StatusCode::OK, &answer))
    }

    async fn register(&self, body: Result<Bytes, Fault>, log: &mut RequestLog) -> Result<Response, Error> {
        let by = match bearer(&self.head.headers) {
            None => None,
            Some(key) => match self.person(key, log).await? {
                Some(by) => Some(by),
                None => return Err(Error::new("invalid_token", "this is no API key of a workspace here")),
            },
        };
        let said: ClientMetadata = serde_json::from_slice(&body?)
            .map_err(|error| Error::new("invalid_client_metadata", format!("send JSON as RFC 7591 has it: {error}")))?;
        let Registered { client, secret } = self.oauth.register(said, by).await?;
        let mut answer = json!({
            "client_id": client.id,
            "client_id_issued_at": client.made.0.div_euclid(1_000),
            "client_name": client.name,
            "redirect_uris": client.redirects,
            "grant_types": client.grants,
            "response_types": if client.may_use(CODE_GRANT).is_ok() { vec!["code"] } else { Vec::new() },
            "token_endpoint_auth_method": client.method,
            "scope": client.scopes.join(" "),
        });
        if let Some(secret) = secret {
            answer["client_secret"] = secret.into();
            answer["client_secret_expires_at"] = 0.into();
        }
        Ok(secret_response(StatusCode::CREATED, &answer))
    }

    /// Authenticates the client of a request.
    async fn client(&self, form: &FormFields, log: &mut RequestLog) -> Result<(OauthClient, u64), Error> {
        let shown = self.client_credentials(form)?;
        match self.oauth.authenticate(&self.server.callers, &shown).await {
            Ok(found) => {
                log.caller = Some(found.0.id.clone());
                Ok(found)
            }
            Err(error) => {
                if error.fault.is_none() {
                    self.count_failure(log)?;
                }
                Err(error)
            }
        }
    }

    fn client_credentials(&self, form: &FormFields) -> Result<ClientCredentials, Error> {
        let in_form = ClientCredentials {
            id: form.get("client_id").map(str::to_owned),
            secret: form.get("client_secret").map(str::to_owned),
        };
        let Some(authorization) = Authorization::of(&self.head.headers) else { return Ok(in_form) };
        let unreadable = || Error::client("the Authorization header is not Basic with a client's id and secret");
        let (id, secret) = authorization.ok().and_then(Authorization::basic).ok_or_else(unreadable)?;
        let plain = |text: &str| query::decode_segment(text).map(Cow::into_owned).map_err(|_| unreadable());
        let (id, secret) = (plain(&id)?, plain(&secret)?);
        if in_form.secret.is_some() || in_form.id.is_some_and(|other| other != id) {
            return Err(Error::request("say who you are in one place: by HTTP Basic or in the form"));
        }
        Ok(ClientCredentials { id: Some(id), secret: Some(secret).filter(|secret| !secret.is_empty()) })
    }

    fn authorize_error(&self, authorize_error: AuthorizeError, log: &mut RequestLog) -> Response {
        match authorize_error {
            AuthorizeError::Page(error) => self.error_page(&error, log),
            AuthorizeError::Redirect(error, redirect, state) => {
                self.redirect_error(&error, &redirect, state.as_deref(), log)
            }
        }
    }

    /// An error as a page.
    fn error_page(&self, error: &Error, log: &mut RequestLog) -> Response {
        log_error(error, log);
        html_response(status_of(error), page::refusal(&error.description))
    }

    /// An error as a redirect of the person's browser to the client.
    fn redirect_error(&self, error: &Error, redirect: &str, state: Option<&str>, log: &mut RequestLog) -> Response {
        log_error(error, log);
        let fields = [("error", Some(error.code)), ("error_description", Some(&*error.description)), ("state", state)];
        self.redirect(redirect, &fields)
    }

    fn redirect(&self, to: &str, fields: &[(&str, Option<&str>)]) -> Response {
        let mut to = to.to_owned();
        let fields = fields.iter().filter_map(|(name, value)| value.map(|value| (*name, value)));
        for (name, value) in fields.chain([("iss", &*self.base)]) {
            to.push(if to.contains('?') { '&' } else { '?' });
            to.push_str(name);
            to.push('=');
            to.extend(url::form_urlencoded::byte_serialize(value.as_bytes()));
        }
        let mut response = Response::new(ResponseBody::empty());
        *response.status_mut() = StatusCode::SEE_OTHER;
        html::guard(response.headers_mut(), Forms::Onwards);
        match HeaderValue::from_str(&to) {
            Ok(to) => {
                response.headers_mut().insert(LOCATION, to);
            }
            Err(_) => *response.status_mut() = StatusCode::BAD_REQUEST,
        }
        response
    }

    /// An error as JSON.
    fn error_json(&self, error: &Error, log: &mut RequestLog) -> Response {
        let body = json!({ "error": error.code, "error_description": error.description });
        let scheme = if error.code == "invalid_token" { "Bearer realm=\"oauth\"" } else { "Basic realm=\"oauth\"" };
        let rejection = Rejection::new(status_of(error), error.description.as_str(), body.to_string())
            .retry_after(error.fault.as_ref().and_then(|fault| fault.retry_after_s))
            .challenge(|| HeaderValue::from_static(scheme));
        let response = uncached(rejection.respond(log));
        log_error(error, log);
        response
    }
}

fn log_error(error: &Error, log: &mut RequestLog) {
    match &error.fault {
        Some(fault) => log.fault(fault),
        None => log.fault = Some(format!("{}: {}", error.code, error.description)),
    }
}

fn status_of(error: &Error) -> StatusCode {
    match (&error.fault, error.code) {
        // The same status as at the store agent's endpoint.
        (Some(fault), _) => {
            let status = crate::aly::errors::line(fault.kind, Operation::Unknown).http;
            StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
        }
        (None, "invalid_client" | "invalid_token") => StatusCode::UNAUTHORIZED,
        (None, "temporarily_unavailable") => StatusCode::SERVICE_UNAVAILABLE,
        (None, _) => StatusCode::BAD_REQUEST,
    }
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == COOKIE_NAME).map(|(_, value)| value)
}

/// A JSON response with a secret. HTTP/1.0 caches must not store it either.
fn secret_response(status: StatusCode, value: &Value) -> Response {
    uncached(private_json(status, value.to_string()))
}

fn uncached(mut response: Response) -> Response {
    response.headers_mut().insert("pragma", HeaderValue::from_static("no-cache"));
    response
}

fn html_response(status: StatusCode, page: String) -> Response {
    // After the form is submitted, the browser is redirected to the client.
    html::response(status, page, Forms::Onwards)
}
