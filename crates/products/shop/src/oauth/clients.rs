//! OAuth clients: programs that register themselves, and programs that a workspace registers with one of its keys.

use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use model::{Caller, Expect};
use serde::Deserialize;
use url::{Host, Url};

use super::makers::Maker;
use super::records::{self, OauthClient};
use super::{
    ATTEMPTS, Error, Oauth, SECRET, after, constant_time_eq, covers, draw, scopes, secret, secret_hash, too_busy,
};
use gateway::auth::Callers;

pub(super) const CODE_GRANT: &str = "authorization_code";
pub(super) const REFRESH_GRANT: &str = "refresh_token";
pub(super) const OWN_GRANT: &str = "client_credentials";
pub(super) const GRANTS: [&str; 3] = [CODE_GRANT, REFRESH_GRANT, OWN_GRANT];
pub(super) const METHODS: [&str; 3] = ["none", "client_secret_basic", "client_secret_post"];

/// Most redirect URIs of one client.
const REDIRECTS: usize = 10;
const URI_BYTES: usize = 2_048;
const NAME_BYTES: usize = 128;

const DAY_S: u32 = 24 * 3_600;

/// Client metadata of a registration request (RFC 7591).
#[derive(Debug, Default, Deserialize)]
#[serde(default, expecting = "struct Metadata")] // pinned: part of error messages
pub(super) struct ClientMetadata {
    client_name: Option<String>,
    redirect_uris: Vec<String>,
    grant_types: Option<Vec<String>>,
    response_types: Option<Vec<String>>,
    token_endpoint_auth_method: Option<String>,
    scope: Option<String>,
}

/// A new client with its secret, which is in no later response.
pub(super) struct Registered {
    pub(super) client: OauthClient,
    pub(super) secret: Option<String>,
}

/// The credentials that a client sends: in the form, or by HTTP Basic.
#[derive(Debug, Default)]
pub(super) struct ClientCredentials {
    pub(super) id: Option<String>,
    pub(super) secret: Option<String>,
}

fn metadata(description: impl Into<String>) -> Error {
    Error::new("invalid_client_metadata", description)
}

impl Oauth {
    /// Registers a client: for the workspace of the key `by`, or without a workspace if the request has no key.
    pub(super) async fn register(
        &self,
        said: ClientMetadata,
        by: Option<(Arc<Caller>, Maker)>,
    ) -> Result<Registered, Error> {
        let method = said.token_endpoint_auth_method.unwrap_or_else(|| "client_secret_basic".into());
        if !METHODS.contains(&&*method) {
            return Err(metadata(format!("token_endpoint_auth_method is one of {}", METHODS.join(", "))));
        }
        let default = || if said.redirect_uris.is_empty() { vec![OWN_GRANT.into()] } else { vec![CODE_GRANT.into()] };
        let grants = said.grant_types.unwrap_or_else(default);
        if grants.is_empty() || grants.len() > GRANTS.len() || !grants.iter().all(|grant| GRANTS.contains(&&**grant)) {
            return Err(metadata(format!("grant_types are some of {}", GRANTS.join(", "))));
        }
        if said.response_types.is_some_and(|types| types.iter().any(|one| one != "code")) {
            return Err(metadata("response_types is code"));
        }
        let codes = grants.iter().any(|grant| grant == CODE_GRANT);
        if codes && said.redirect_uris.is_empty() {
            return Err(Error::new("invalid_redirect_uri", "redirect_uris is missing: where are people sent back to?"));
        }
        if said.redirect_uris.len() > REDIRECTS {
            return Err(metadata(format!("there are at most {REDIRECTS} redirect_uris")));
        }
        for uri in &said.redirect_uris {
            check_redirect(uri)?;
        }
        let own = grants.iter().any(|grant| grant == OWN_GRANT);
        if own && (method == "none" || by.is_none()) {
            let message = "client_credentials is for clients with a secret that a workspace registers: \
                send Authorization: Bearer and an API key of the workspace";
            return Err(metadata(message));
        }
        let scopes_said = said.scope.as_deref().is_some_and(|scope| !scope.trim().is_empty());
        let mut may: Vec<String> = match said.scope.as_deref().filter(|_| scopes_said) {
            Some(scope) => scopes(scope).map_err(|error| metadata(error.description))?,
            None => crate::aly::SCOPES.iter().map(|(scope, _)| (*scope).to_owned()).collect(),
        };
        if let Some((by, _)) = &by {
            may.retain(|scope| covers(&by.scopes, scope));
        }
        if may.is_empty() {
            return Err(metadata("the key is good for none of these scopes"));
        }
        let name = said.client_name.unwrap_or_default();
        if name.len() > NAME_BYTES || name.contains(char::is_control) {
            return Err(metadata(format!("client_name is at most {NAME_BYTES} bytes of printable text")));
        }
        let own_secret = if method == "none" { None } else { Some(secret(SECRET)?) };
        let client = OauthClient {
            id: format!("client_{}", URL_SAFE_NO_PAD.encode(draw::<16>()?)).into(),
            secret: own_secret.as_deref().map(secret_hash),
            method,
            name,
            redirects: said.redirect_uris,
            grants,
            scopes: may,
            scopes_said,
            workspace: by.as_ref().map(|(caller, _)| caller.tenant.clone()),
            maker: by.map(|(_, maker)| maker),
            made: self.now(),
            gives_way: after(self.now(), self.rules.idle_s),
        };
        self.make_room(&client).await?;
        if self.keep(vec![records::put_client(&client, Expect::Absent)]).await? {
            Ok(Registered { client, secret: own_secret })
        } else {
            Err(too_busy().into())
        }
    }

    /// Keeps the number of clients below its limit. Self-registered clients without a valid token are removed if needed.
    async fn make_room(&self, client: &OauthClient) -> Result<(), Error> {
        let list = match &client.workspace {
            Some(workspace) => records::of_workspace(workspace),
            None => records::SELF_REGISTERED.into(),
        };
        for _ in 0..ATTEMPTS {
            let (_, all) = self.list::<OauthClient>(records::CLIENT, list.clone(), 1).await?;
            if all < self.rules.clients {
                return Ok(());
            }
            let (idle, _) = self.list::<OauthClient>(records::CLIENT, records::IDLE.into(), 1).await?;
            match idle.first() {
                Some((idle, version)) if idle.gives_way <= self.now() && client.workspace.is_none() => {
                    self.keep(vec![records::remove(records::CLIENT, &idle.id, Expect::Version(*version))]).await?;
                }
                Some(_) | None => break,
            }
        }
        let message = "too many clients are registered; try again later, or register with a key of your workspace";
        Err(Error::new("temporarily_unavailable", message))
    }

    /// Extends the time before a client may be removed beyond the life of a token that is about to be issued. Writes at
    /// most once a day.
    pub(super) async fn extend_client(&self, client: &(OauthClient, u64)) -> Result<(), Error> {
        let (client, version) = client;
        let life_s = self.rules.refresh_s.max(self.rules.access_s);
        if client.gives_way >= after(self.now(), life_s.saturating_add(DAY_S)) {
            return Ok(());
        }
        let gives_way = after(self.now(), life_s.saturating_add(2 * DAY_S));
        let client = OauthClient { gives_way, ..client.clone() };
        // A concurrent request wrote the same.
        self.keep(vec![records::put_client(&client, Expect::Version(*version))]).await?;
        Ok(())
    }

    pub(super) async fn client(&self, id: &str) -> Result<Option<(OauthClient, u64)>, Error> {
        // Every issued id is shorter.
        if id.len() > 64 {
            return Ok(None);
        }
        Ok(self.read(records::CLIENT, id).await?)
    }

    /// Authenticates a client by its id and secret.
    pub(super) async fn authenticate(
        &self,
        callers: &Callers,
        shown: &ClientCredentials,
    ) -> Result<(OauthClient, u64), Error> {
        let Some(id) = &shown.id else {
            return Err(Error::client("client_id is missing: say who you are by HTTP Basic or in the form"));
        };
        let wrong = || Error::client("the client is not known here, or its secret is another");
        let (client, version) = self.client(id).await?.ok_or_else(wrong)?;
        let is_it = match (&client.secret, &shown.secret) {
            (Some(kept), Some(shown)) => constant_time_eq(kept, &secret_hash(shown)),
            (None, None) => true,
            // A public client has no secret; some send an empty one.
            (None, Some(shown)) => shown.is_empty(),
            (Some(_), None) => false,
        };
        // A client is valid only while the key it was registered with is.
        if is_it && self.is_client_good(callers, &client).await? { Ok((client, version)) } else { Err(wrong()) }
    }
}

impl OauthClient {
    /// Whether a redirect URI is registered. On loopback any port is accepted: the system assigns a program its port.
    pub(super) fn returns_to(&self, uri: &str) -> bool {
        let portless = |text: &str| {
            let mut url = Url::parse(text).ok().filter(is_loopback)?;
            url.set_port(None).ok()?;
            Some(url)
        };
        self.redirects.iter().any(|known| {
            known == uri || matches!((portless(known), portless(uri)), (Some(known), Some(asked)) if known == asked)
        })
    }

    pub(super) fn may_use(&self, grant: &str) -> Result<(), Error> {
        if self.grants.iter().any(|known| known == grant) {
            return Ok(());
        }
        Err(Error::new("unauthorized_client", format!("the client is not registered for {grant}")))
    }

    /// The requested scopes, checked against the registered ones. A request without scopes gets the registered scopes; if
    /// the registration named none, it gets those that read.
    pub(super) fn asked(&self, scope: Option<&str>) -> Result<Vec<String>, Error> {
        let asked = match scope.filter(|scope| !scope.trim().is_empty()) {
            Some(scope) => scopes(scope)?,
            None if self.scopes_said => self.scopes.clone(),
            None => self.scopes.iter().filter(|scope| scope.starts_with("read:")).cloned().collect(),
        };
        if let Some(other) = asked.iter().find(|scope| !self.scopes.contains(scope)) {
            return Err(Error::scope(format!("the client is not registered for {other}")));
        }
        if asked.is_empty() {
            return Err(Error::scope("the client is registered for no scope that could be given; name one"));
        }
        Ok(asked)
    }

    pub(super) fn shown_name(&self) -> Arc<str> {
        if self.name.trim().is_empty() { self.id.clone() } else { self.name.as_str().into() }
    }
}

/// Checks a redirect URI: https, loopback, or the private scheme of an installed program.
fn check_redirect(text: &str) -> Result<(), Error> {
    let refuse = |why: &str| Err(Error::new("invalid_redirect_uri", format!("a redirect URI {why}")));
    if text.len() > URI_BYTES || text.contains(char::is_control) {
        return refuse("is at most 2048 printable bytes");
    }
    let Ok(url) = Url::parse(text) else { return refuse("is an absolute URI") };
    if url.fragment().is_some() {
        return refuse("has no fragment");
    }
    match url.scheme() {
        "https" => Ok(()),
        "http" if is_loopback(&url) => Ok(()),
        "http" => refuse("is https outside of loopback"),
        // A private scheme is a reversed domain name: com.example.app.
        scheme if scheme.contains('.') => Ok(()),
        _ => refuse("is https, or a scheme such as com.example.app"),
    }
}

fn is_loopback(url: &Url) -> bool {
    if url.scheme() != "http" {
        return false;
    }
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(ip)) => IpAddr::V4(ip).is_loopback(),
        Some(Host::Ipv6(ip)) => IpAddr::V6(ip).is_loopback(),
        None => false,
    }
}
