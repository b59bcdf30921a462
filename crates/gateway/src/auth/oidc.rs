//! Sign-in of people at an OpenID provider, for the console: the authorization code with PKCE (RFC 7636), and the checks of
//! the ID token that comes for it.
//!
//! The provider's configuration and keys are fetched and kept as those of issuers of bearer tokens ([`super::jwks`]), and
//! the token's signature, issuer, audience and times are checked by the same code ([`super::jwt`]). What is added: the party
//! that the token was issued for, its age and its nonce. A person has no role unless a rule gives one.

use std::sync::Arc;

use jiff::Timestamp;
use model::{Caller, Fault, Kind};
use serde::Deserialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use url::form_urlencoded::{Serializer, byte_serialize};

use super::jwks::{FormPost, ProviderEndpoints};
use super::jwt::{Algorithm, Issuer, KeySource, Trusted, is_decent};
use crate::admin::{ApiRole, RedactedText};
use crate::scopes::ALL_TENANTS;
use crate::settings;

/// A token that was issued longer ago is refused: a sign-in takes no longer.
const MOST_AGE_S: i64 = 600;
/// The tenant whose admins see every tenant. No claim names it.
const DEFAULT: &str = "default";

/// An OpenID provider whose people may sign in to the console.
#[derive(Clone, Debug)]
pub struct OidcSettings {
    /// Exactly as its tokens have it in `iss`; its configuration is below it.
    pub issuer: String,
    pub client_id: String,
    /// None for a public client.
    pub client_secret: Option<RedactedText>,
    /// Its name for people.
    pub name: String,
    pub scopes: Vec<String>,
    pub algorithms: Vec<Algorithm>,
    /// The claim that names the caller.
    pub name_claim: String,
    pub leeway_s: u64,
    /// The first one that fits gives the role.
    pub rules: Vec<RoleRule>,
}

impl OidcSettings {
    pub fn new(issuer: impl Into<String>, client_id: impl Into<String>, rules: Vec<RoleRule>) -> OidcSettings {
        let usual = Issuer::new(issuer, Vec::new(), KeySource::Discovery { algorithms: Issuer::ALGORITHMS.to_vec() });
        let host = url::Url::parse(&usual.issuer).ok().and_then(|url| url.host_str().map(str::to_owned));
        OidcSettings {
            name: host.unwrap_or_else(|| usual.issuer.clone()),
            issuer: usual.issuer,
            client_id: client_id.into(),
            client_secret: None,
            scopes: ["openid", "profile", "email"].map(str::to_owned).into(),
            algorithms: Issuer::ALGORITHMS.to_vec(),
            name_claim: usual.name_claim,
            leeway_s: usual.leeway_s,
            rules,
        }
    }
}

/// Who has a role: every person whose token has this value in this claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleRule {
    /// A name, or a path of names with dots.
    pub claim: String,
    /// The claim is this, or a list with it; `*` for anything.
    pub value: String,
    pub role: ApiRole,
    pub tenant: RuleTenant,
    pub all_tenants: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleTenant {
    Named(Arc<str>),
    /// As this claim says.
    Claim(String),
}

pub(crate) struct OidcProvider {
    settings: OidcSettings,
    trusted: Trusted,
    /// A sign-in under other terms is good no more.
    pub(crate) terms: [u8; 32],
}

/// A person who has signed in.
pub(crate) struct SignedIn {
    pub(crate) caller: Arc<Caller>,
    pub(crate) role: ApiRole,
    /// The time for which the ID token is still good.
    pub(crate) seconds: u64,
}

/// The parameters of a sign-in that begins.
pub(crate) struct SignInRequest<'a> {
    pub(crate) redirect: &'a str,
    pub(crate) state: &'a str,
    pub(crate) nonce: &'a str,
    pub(crate) verifier: &'a str,
}

impl OidcProvider {
    pub(crate) fn new(
        settings: &OidcSettings,
        before: Option<&OidcProvider>,
    ) -> Result<Arc<OidcProvider>, settings::Error> {
        let refuse = |text: String| settings::Error(format!("console.oidc: the issuer {:?}: {text}", settings.issuer));
        let keys = KeySource::Discovery { algorithms: settings.algorithms.clone() };
        let issuer = Issuer {
            name_claim: settings.name_claim.clone(),
            leeway_s: settings.leeway_s,
            ..Issuer::new(&*settings.issuer, vec![settings.client_id.clone()], keys)
        };
        let mut trusted = Trusted::of(&issuer).map_err(refuse)?;
        if settings.client_id.is_empty() {
            return Err(refuse("name the client_id that it knows this server by".into()));
        }
        if settings.rules.is_empty() {
            return Err(refuse("no rule gives a role, so nobody could sign in: write one under roles".into()));
        }
        for rule in &settings.rules {
            if rule.claim.is_empty() || rule.value.is_empty() {
                return Err(refuse("a rule needs a claim and a value".into()));
            }
        }
        if let Some(before) = before {
            trusted.keep_keys_of(&before.trusted);
        }
        // Its debug form has no secret: another secret changes nothing about those who have signed in.
        let terms = Sha256::digest(format!("{settings:?}")).into();
        Ok(Arc::new(OidcProvider { settings: settings.clone(), trusted, terms }))
    }

    /// Its name for people.
    pub(crate) fn name(&self) -> &str {
        &self.settings.name
    }

    pub(crate) fn issuer(&self) -> &str {
        &self.settings.issuer
    }

    async fn endpoints(&self) -> Result<Arc<ProviderEndpoints>, Fault> {
        match self.trusted.key_set() {
            Some(set) => set.endpoints().await,
            None => Err(Fault::internal("a provider without a set of keys")),
        }
    }

    /// Whether the provider names itself in its answers (RFC 9207).
    pub(crate) async fn names_itself(&self) -> Result<bool, Fault> {
        Ok(self.endpoints().await?.names_itself)
    }

    /// The address at the provider where a person signs in.
    pub(crate) async fn begin(&self, request: SignInRequest<'_>) -> Result<String, Fault> {
        let endpoints = self.endpoints().await?;
        let mut url = url::Url::parse(&endpoints.authorize).map_err(Fault::internal)?;
        let mut scopes = self.settings.scopes.join(" ");
        if !self.settings.scopes.iter().any(|scope| scope == "openid") {
            scopes = format!("openid {scopes}");
        }
        let pairs = [
            ("response_type", "code"),
            ("client_id", &self.settings.client_id),
            ("redirect_uri", request.redirect),
            ("scope", scopes.trim_end()),
            ("state", request.state),
            ("nonce", request.nonce),
            ("code_challenge", &challenge(request.verifier)),
            ("code_challenge_method", "S256"),
        ];
        url.query_pairs_mut().extend_pairs(pairs);
        Ok(url.into())
    }

    /// Redeems the code of a sign-in, and checks the ID token that comes for it.
    pub(crate) async fn redeem(&self, code: &str, request: SignInRequest<'_>) -> Result<SignedIn, Fault> {
        let endpoints = self.endpoints().await?;
        let Some(set) = self.trusted.key_set() else { return Err(Fault::internal("a provider without a set of keys")) };
        let post = self.redemption(&endpoints, code, &request);
        let (status, body) = set.post(post).await.map_err(|cause| {
            Fault::new(Kind::Unavailable, "the provider cannot be reached now: sign in again in a moment")
                .because(cause)
        })?;
        #[derive(Deserialize)]
        struct Answer {
            #[serde(default)]
            id_token: Option<String>,
            #[serde(default)]
            error: Option<String>,
        }
        let answer = serde_json::from_slice::<Answer>(&body).unwrap_or(Answer { id_token: None, error: None });
        if status != 200 {
            let word = plain_word(answer.error.as_deref().unwrap_or("no reason"));
            let says = format!("the provider did not accept the sign-in ({word}): begin again");
            return Err(forbidden(says).because(format!("{} answered {status}", endpoints.token)));
        }
        let token = answer.id_token.ok_or_else(|| forbidden("the provider sent no ID token"))?;
        self.verify(&token, request.nonce).await
    }

    /// The form that redeems a code.
    fn redemption<'e>(
        &self,
        endpoints: &'e ProviderEndpoints,
        code: &str,
        request: &SignInRequest<'_>,
    ) -> FormPost<'e> {
        let mut form = Serializer::new(String::new());
        form.append_pair("grant_type", "authorization_code").append_pair("code", code);
        form.append_pair("redirect_uri", request.redirect).append_pair("code_verifier", request.verifier);
        let mut basic = None;
        match &self.settings.client_secret {
            None => drop(form.append_pair("client_id", &self.settings.client_id)),
            Some(secret) if endpoints.posts_secret => {
                form.append_pair("client_id", &self.settings.client_id).append_pair("client_secret", &secret.0);
            }
            Some(secret) => {
                // RFC 6749, section 2.3.1: both are encoded as in a form.
                let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
                basic = Some((encoded(&self.settings.client_id), encoded(&secret.0)));
            }
        }
        FormPost { url: &endpoints.token, form: form.finish(), basic }
    }

    /// The person of an ID token that was asked for with this nonce.
    async fn verify(&self, token: &str, nonce: &str) -> Result<SignedIn, Fault> {
        let refused = |says: &str| forbidden(format!("the provider's answer is refused: {says}"));
        let claims = self.trusted.verified_claims(token).await.map_err(|fault| match fault.kind {
            Kind::Unauthenticated => refused(&fault.message),
            _ => fault,
        })?;
        check_party(&claims, &self.settings.client_id).map_err(&refused)?;
        let now = Timestamp::now().as_second();
        check_age(&claims, now, self.settings.leeway_s).map_err(&refused)?;
        let sent = claims.get("nonce").and_then(Value::as_str).unwrap_or_default();
        if !bool::from(sent.as_bytes().ct_eq(nonce.as_bytes())) {
            return Err(refused("the token is for another sign-in (nonce)"));
        }
        let ends = claims.get("exp").and_then(Value::as_f64).unwrap_or_default() as i64;
        let seconds = u64::try_from(ends.saturating_sub(now)).unwrap_or(0);
        let name = self.trusted.name(&claims).map_err(|fault| refused(&fault.message))?;
        let Some((rule, tenant)) = ruling(&self.settings.rules, &claims) else {
            let says = format!(
                "you are signed in at {} as {name}, and no rule of console.oidc.roles gives that account a role here: ask the \
                 operators of this server for one",
                self.settings.name
            );
            return Err(forbidden(says));
        };
        let mut scopes = vec![rule.role.scope().to_owned()];
        if rule.all_tenants {
            scopes.push(ALL_TENANTS.to_owned());
        }
        let caller = Caller { tenant, name: name.into(), authenticated: true, scopes: scopes.into() };
        Ok(SignedIn { caller: Arc::new(caller), role: rule.role, seconds })
    }
}

fn forbidden(says: impl Into<String>) -> Fault {
    Fault::new(Kind::Forbidden, says)
}

/// An error code of the provider, as far as it is one.
pub(crate) fn plain_word(text: &str) -> String {
    text.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ' ')).take(64).collect()
}

/// The challenge for a verifier: S256 of RFC 7636.
fn challenge(verifier: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(Sha256::digest(verifier))
}

/// The token was issued for this client: OpenID Connect Core, section 3.1.3.7, points 4 and 5.
fn check_party(claims: &Map<String, Value>, client: &str) -> Result<(), &'static str> {
    let has_several = claims.get("aud").and_then(Value::as_array).is_some_and(|audience| audience.len() > 1);
    match claims.get("azp") {
        Some(Value::String(party)) if party == client => Ok(()),
        None if !has_several => Ok(()),
        Some(_) | None => Err("the token is for another client (azp)"),
    }
}

fn check_age(claims: &Map<String, Value>, now: i64, leeway_s: u64) -> Result<(), &'static str> {
    let leeway = i64::try_from(leeway_s).unwrap_or(0);
    let issued = claims.get("iat").and_then(Value::as_f64).ok_or("the token lacks the claim iat")? as i64;
    if issued > now.saturating_add(leeway) {
        return Err("the token is of the future (iat): compare the clocks");
    }
    if issued < now.saturating_sub(MOST_AGE_S + leeway) {
        return Err("the token is of an earlier sign-in (iat)");
    }
    Ok(())
}

/// The first rule that fits, and the tenant that it gives.
fn ruling<'r>(rules: &'r [RoleRule], claims: &Map<String, Value>) -> Option<(&'r RoleRule, Arc<str>)> {
    rules.iter().find_map(|rule| {
        let fits = find(claims, &rule.claim).is_some_and(|value| has(value, &rule.value));
        // Anybody can have any address at a provider that did not check it.
        if !fits || (rule.claim == "email" && !is_true(claims.get("email_verified"))) {
            return None;
        }
        let tenant: Arc<str> = match &rule.tenant {
            RuleTenant::Named(tenant) => tenant.clone(),
            RuleTenant::Claim(name) => match find(claims, name)? {
                Value::String(tenant) if is_decent(tenant) && tenant != DEFAULT => tenant.as_str().into(),
                _ => return None,
            },
        };
        Some((rule, tenant))
    })
}

/// A claim by its name, or by a path of names with dots.
fn find<'c>(claims: &'c Map<String, Value>, path: &str) -> Option<&'c Value> {
    if let Some(value) = claims.get(path) {
        return Some(value);
    }
    let (first, rest) = path.split_once('.')?;
    find(claims.get(first)?.as_object()?, rest)
}

fn has(value: &Value, wanted: &str) -> bool {
    match value {
        Value::String(text) => !text.is_empty() && (wanted == "*" || text == wanted),
        Value::Array(all) => all.iter().any(|one| one.is_string() && has(one, wanted)),
        Value::Bool(is) => *is && wanted == "true",
        Value::Null | Value::Number(_) | Value::Object(_) => false,
    }
}

fn is_true(value: Option<&Value>) -> bool {
    matches!(value, Some(Value::Bool(true))) || value.and_then(Value::as_str) == Some("true")
}

#[cfg(test)]
#[path = "oidc_tests.rs"]
mod tests;
