//! Sessions of browsers: a cookie stands for a key, for a person whom a provider signed in, or for the link that the server
//! printed at its start.
//!
//! Sessions are in memory, bounded in number and age. One that began with a key is looked up through that key at every
//! request, so that it ends when the key is revoked, expires or leaves the config; one of a provider ends with its ID token,
//! and when the config's terms for the provider change. Only hashes of secrets are kept. A page
//! of another site cannot make a change with the cookie: `SameSite=Strict` keeps the cookie from it, and a change needs
//! the session's own CSRF token in a header, which only a page of this server can read.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{COOKIE, HOST};
use http::{HeaderMap, HeaderName, request};
use model::{Caller, Fault};
use parking_lot::Mutex;
use subtle::ConstantTimeEq;

use crate::auth::oidc::SignedIn;
use crate::auth::{self, Callers};
use crate::scopes::ADMIN;

/// Most sessions at a time; the one that ends next makes room for a new one.
const SESSIONS: usize = 1_000;
/// Most sessions of one key or person.
const SESSIONS_OF_ONE: usize = 20;
const LIFETIME: Duration = Duration::from_secs(12 * 3_600);
/// The caller of a session that began with the printed link.
const LINKED: &str = "console";
/// The header in which a page sends the token back.
pub(crate) static CSRF: HeaderName = HeaderName::from_static("x-csrf-token");
const COOKIE_NAME: &str = "rialto_session";
/// The cookie is sent to the admin API alone.
const COOKIE_PATH: &str = "/api/admin/v1";

pub(super) type SecretHash = [u8; 32];

#[derive(Default)]
pub(crate) struct Sessions(Mutex<Held>);

#[derive(Default)]
struct Held {
    /// By the hash of the cookie's value.
    sessions: HashMap<SecretHash, Session>,
    /// The hash of the token in the printed link, until it is used.
    link: Option<SecretHash>,
}

struct Session {
    holder: Holder,
    csrf: String,
    ends: Instant,
}

#[derive(Clone)]
enum Holder {
    /// The hash of a key's secret.
    Key(SecretHash),
    /// A person, and the terms of the provider under which it signed in.
    Person(Arc<Caller>, SecretHash),
    Link,
}

/// A session that has just begun, with its secrets for the browser.
pub(crate) struct NewSession {
    pub(crate) caller: Arc<Caller>,
    pub(crate) cookie: String,
    pub(crate) csrf: String,
}

/// A request with the cookie of a session.
pub(crate) struct OpenSession {
    pub(crate) caller: Arc<Caller>,
    pub(crate) csrf: String,
}

impl Sessions {
    /// The token for a link that begins one session. An earlier link ends.
    pub(crate) fn link(&self) -> Result<String, Fault> {
        let token = drawn::<16>()?;
        self.0.lock().link = Some(auth::hash(&token));
        Ok(token)
    }

    /// Begins a session with the token of the link, which is then used up. None where it is not that token.
    pub(crate) fn begin_by_link(
        &self,
        head: &request::Parts,
        is_https: bool,
        token: &str,
    ) -> Result<Option<NewSession>, Fault> {
        let hash = auth::hash(token);
        let mut held = self.0.lock();
        if !held.link.as_ref().is_some_and(|link| bool::from(link.ct_eq(&hash))) {
            return Ok(None);
        }
        held.link = None;
        held.begin(Holder::Link, linked(), LIFETIME, head, is_https).map(Some)
    }

    /// Begins a session of a caller with the key of this hash.
    pub(crate) fn begin_by_key(
        &self,
        caller: Arc<Caller>,
        key: [u8; 32],
        head: &request::Parts,
        is_https: bool,
    ) -> Result<NewSession, Fault> {
        self.0.lock().begin(Holder::Key(key), caller, LIFETIME, head, is_https)
    }

    /// Begins a session of a person, for as long as its ID token is good.
    pub(crate) fn begin_by_provider(
        &self,
        signed_in: &SignedIn,
        terms: SecretHash,
        head: &request::Parts,
        is_https: bool,
    ) -> Result<NewSession, Fault> {
        let caller = signed_in.caller.clone();
        let lifetime = LIFETIME.min(Duration::from_secs(signed_in.seconds));
        self.0.lock().begin(Holder::Person(caller.clone(), terms), caller, lifetime, head, is_https)
    }

    /// The session of the request's cookie. A cookie without a session is like none.
    pub(crate) fn of(&self, callers: &Callers, head: &request::Parts) -> Option<OpenSession> {
        let hash = auth::hash(cookie(head)?);
        let (holder, csrf) = {
            let mut held = self.0.lock();
            held.drop_ended();
            let session = held.sessions.get(&hash)?;
            (session.holder.clone(), session.csrf.clone())
        };
        let caller = match holder {
            Holder::Link => Some(linked()),
            Holder::Key(key) => callers.by_hash(&key),
            Holder::Person(caller, terms) => {
                callers.provider().filter(|provider| provider.terms == terms).map(|_| caller)
            }
        };
        if caller.is_none() {
            self.0.lock().sessions.remove(&hash);
        }
        Some(OpenSession { caller: caller?, csrf })
    }

    /// Ends the session of the request's cookie, and returns the cookie that removes it.
    pub(crate) fn end(&self, head: &request::Parts, is_https: bool) -> String {
        if let Some(value) = cookie(head) {
            self.0.lock().sessions.remove(&auth::hash(value));
        }
        set_cookie(head, is_https, "", Duration::ZERO)
    }
}

impl Held {
    fn begin(
        &mut self,
        holder: Holder,
        caller: Arc<Caller>,
        lifetime: Duration,
        head: &request::Parts,
        is_https: bool,
    ) -> Result<NewSession, Fault> {
        let (value, csrf) = (drawn::<32>()?, drawn::<32>()?);
        self.drop_ended();
        let is_own = |session: &Session| session.holder.is(&holder);
        if self.sessions.values().filter(|session| is_own(session)).count() >= SESSIONS_OF_ONE {
            self.drop_first(is_own);
        }
        if self.sessions.len() >= SESSIONS {
            self.drop_first(|_| true);
        }
        // A browser that signs in again has one session.
        if let Some(before) = cookie(head) {
            self.sessions.remove(&auth::hash(before));
        }
        let session = Session { holder, csrf: csrf.clone(), ends: Instant::now() + lifetime };
        self.sessions.insert(auth::hash(&value), session);
        Ok(NewSession { caller, cookie: set_cookie(head, is_https, &value, lifetime), csrf })
    }

    /// Ends the session of these that would end first.
    fn drop_first(&mut self, is_meant: impl Fn(&Session) -> bool) {
        let meant = self.sessions.iter().filter(|(_, session)| is_meant(session));
        let first = meant.min_by_key(|(_, session)| session.ends).map(|(hash, _)| *hash);
        self.sessions.remove(&first.unwrap_or_default());
    }

    fn drop_ended(&mut self) {
        let now = Instant::now();
        self.sessions.retain(|_, session| now < session.ends);
    }
}

impl Holder {
    fn is(&self, other: &Holder) -> bool {
        match (self, other) {
            (Holder::Key(one), Holder::Key(other)) => one == other,
            (Holder::Person(one, _), Holder::Person(other, _)) => one.name == other.name,
            (Holder::Link, Holder::Link) => true,
            (Holder::Key(_) | Holder::Person(..) | Holder::Link, _) => false,
        }
    }
}

impl OpenSession {
    /// Whether the request has the session's token.
    pub(crate) fn is_confirmed(&self, headers: &HeaderMap) -> bool {
        let sent = headers.get(&CSRF).map(|value| value.as_bytes()).unwrap_or_default();
        bool::from(self.csrf.as_bytes().ct_eq(sent))
    }
}

fn linked() -> Arc<Caller> {
    let scopes = [ADMIN.to_owned()];
    Arc::new(Caller { tenant: "default".into(), name: LINKED.into(), authenticated: true, scopes: scopes.into() })
}

/// A random text of this many bytes, fit for an address.
pub(crate) fn drawn<const BYTES: usize>() -> Result<String, Fault> {
    let mut random = [0; BYTES];
    getrandom::fill(&mut random).map_err(|error| Fault::internal(error.to_string()))?;
    Ok(URL_SAFE_NO_PAD.encode(random))
}

/// The cookie's name. Browsers keep one set of cookies for all ports of a host, so the port is part of it.
fn cookie_name(head: &request::Parts) -> String {
    let authority = match head.uri.authority() {
        Some(authority) => Some(authority.as_str()),
        None => head.headers.get(HOST).and_then(|host| host.to_str().ok()),
    };
    match authority.and_then(|host| host.rsplit_once(':')).map(|(_, port)| port) {
        Some(port) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("{COOKIE_NAME}_{port}")
        }
        Some(_) | None => COOKIE_NAME.to_owned(),
    }
}

fn cookie(head: &request::Parts) -> Option<&str> {
    let name = cookie_name(head);
    let lines = head.headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(known, _)| *known == name).map(|(_, value)| value)
}

fn set_cookie(head: &request::Parts, is_https: bool, value: &str, lifetime: Duration) -> String {
    let name = cookie_name(head);
    let secure = if is_https { "; Secure" } else { "" };
    let seconds = lifetime.as_secs();
    format!("{name}={value}; Path={COOKIE_PATH}; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}")
}

#[cfg(test)]
mod tests {
    use http::Request;
    use model::{AccessKey, Time};

    use super::*;
    use crate::Settings;

    fn head(pairs: &[(&str, &str)]) -> request::Parts {
        let mut request = Request::get("/api/admin/v1/session");
        for (name, value) in pairs {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn with(session: &NewSession) -> request::Parts {
        let pair = session.cookie.split(';').next().unwrap();
        head(&[("host", "127.0.0.1:8080"), ("cookie", &format!("other=1; {pair}"))])
    }

    fn callers() -> Callers {
        Callers::new(&Settings::test(&["echo"]), None).unwrap()
    }

    fn key(secret: &str) -> AccessKey {
        AccessKey {
            id: "k".into(),
            name: "ann".into(),
            tenant: "acme".into(),
            scopes: vec!["viewer".into()],
            hash: auth::hash(secret),
            prefix: "rk_k".into(),
            created_at: Time(0),
            expires_at: None,
            revoked_at: None,
        }
    }

    #[test]
    fn a_link_begins_one_session() {
        let (sessions, callers, plain) = (Sessions::default(), callers(), head(&[("host", "127.0.0.1:8080")]));
        assert!(sessions.begin_by_link(&plain, false, "").unwrap().is_none(), "there is no link yet");
        let old = sessions.link().unwrap();
        let token = sessions.link().unwrap();
        assert!(sessions.begin_by_link(&plain, false, &old).unwrap().is_none());
        let begun = sessions.begin_by_link(&plain, false, &token).unwrap().expect("a session");
        assert!(sessions.begin_by_link(&plain, false, &token).unwrap().is_none());
        assert!(
            begun.cookie.starts_with("rialto_session_8080=") && !begun.cookie.contains("Secure"),
            "{}",
            begun.cookie
        );
        let open = sessions.of(&callers, &with(&begun)).expect("a session");
        assert_eq!((&*open.caller.name, &*open.caller.scopes), (LINKED, &[ADMIN.to_owned()][..]));
        assert!(sessions.end(&with(&begun), true).ends_with("Max-Age=0; HttpOnly; SameSite=Strict; Secure"));
        assert!(sessions.of(&callers, &with(&begun)).is_none());
    }

    #[test]
    fn a_session_ends_with_its_key() {
        let (sessions, callers, plain) = (Sessions::default(), callers(), head(&[("host", "127.0.0.1:8080")]));
        let hash = auth::hash("secret");
        assert!(callers.by_hash(&hash).is_none());
        callers.take(&key("secret"));
        let begun = sessions.begin_by_key(callers.by_hash(&hash).unwrap(), hash, &plain, true).unwrap();
        let open = sessions.of(&callers, &with(&begun)).expect("a session");
        assert_eq!((&*open.caller.name, &*open.caller.tenant), ("ann", "acme"));
        callers.take(&AccessKey { revoked_at: Some(Time(1)), ..key("secret") });
        assert!(sessions.of(&callers, &with(&begun)).is_none());
        callers.take(&key("secret"));
        assert!(sessions.of(&callers, &with(&begun)).is_none(), "it does not come back with the key");
    }

    #[test]
    fn a_change_needs_the_token_of_the_session() {
        let (sessions, callers, plain) = (Sessions::default(), callers(), head(&[("host", "127.0.0.1:8080")]));
        let begun = |_| sessions.begin_by_link(&plain, false, &sessions.link().unwrap()).unwrap().unwrap();
        let [one, other] = [0, 1].map(begun);
        let open = sessions.of(&callers, &with(&one)).expect("a session");
        for (sent, is_confirmed) in [(&*one.csrf, true), (&*other.csrf, false), ("", false)] {
            assert_eq!(open.is_confirmed(&head(&[("x-csrf-token", sent)]).headers), is_confirmed, "{sent}");
        }
        assert!(!open.is_confirmed(&HeaderMap::new()));
    }

    #[test]
    fn sessions_are_bounded_and_the_oldest_ends() {
        let (sessions, callers, plain) = (Sessions::default(), callers(), head(&[]));
        let count = || sessions.0.lock().sessions.len();
        let begun = |_| sessions.begin_by_link(&plain, false, &sessions.link().unwrap()).unwrap().unwrap();
        let is_open = |one: &NewSession| {
            let pair = one.cookie.split(';').next().unwrap();
            sessions.of(&callers, &head(&[("cookie", pair)])).is_some()
        };
        // One who begins many ends its own.
        let own: Vec<NewSession> = (0..=SESSIONS_OF_ONE).map(begun).collect();
        assert!(!is_open(&own[0]) && is_open(&own[1]) && is_open(&own[SESSIONS_OF_ONE]));
        assert_eq!(count(), SESSIONS_OF_ONE);
        // Of all, the oldest ends.
        for number in SESSIONS_OF_ONE..=SESSIONS {
            let key = auth::hash(&number.to_string());
            sessions.begin_by_key(linked(), key, &plain, false).unwrap();
        }
        assert!(!is_open(&own[1]) && is_open(&own[2]));
        assert_eq!(count(), SESSIONS);
    }
}
