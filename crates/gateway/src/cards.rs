//! Agent cards: made per public address, cached, and served with validators for caches of readers.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use dialects::card::{self, CardAuth, CardFacts, Interface, InterfaceBinding};
use http::header::{
    CACHE_CONTROL, CONTENT_TYPE, ETAG, HOST, HeaderName, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED, VARY,
};
use http::{HeaderMap, HeaderValue, StatusCode, request};
use model::Caller;
use model::ports::agent::Profile;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use crate::fronts::AnswerWire;
use crate::mounts::MountedAgent;
use crate::policy::Policy;
use crate::settings::{AuthMode, CardForm};
use crate::{GatewayVersion, Settings};
use web::body::{Response, ResponseBody};
use web::client_address::{FORWARDED_HOST, FORWARDED_PROTO};

/// A server has few public addresses; the bound keeps callers with invented hosts from filling the memory.
const KEPT: usize = 256;

pub struct Cards {
    /// By agent and public address.
    made: Mutex<HashMap<Key, Arc<CachedCard>>>,
    since: jiff::Timestamp,
    public_url: Option<String>,
}

type Key = (Arc<str>, String);

struct CachedCard {
    bytes: Bytes,
    etag: HeaderValue,
}

impl Cards {
    pub(crate) fn new(settings: &Settings) -> Cards {
        let public_url = settings.public_url.as_ref().map(|url| url.trim_end_matches('/').to_owned());
        Cards { made: Mutex::default(), since: jiff::Timestamp::now(), public_url }
    }

    /// Drops all cards, because their content has changed.
    pub(crate) fn forget(&self) {
        self.made.lock().clear();
    }

    /// The base of the address that the caller used: as configured, as a trusted proxy states, or as the request
    /// states.
    pub fn base_url(&self, settings: &Settings, head: &request::Parts) -> String {
        let headers = &head.headers;
        if let Some(url) = &self.public_url {
            return url.clone();
        }
        let (proto, host) = forwarded(headers);
        // HTTP/2 has the host in the request target.
        let said = header(headers, HOST).or_else(|| head.uri.authority().map(|authority| authority.as_str()));
        let host = host.or(said).filter(|host| is_authority(host)).map(str::to_owned);
        let host = host.unwrap_or_else(|| settings.listen.to_string());
        let ours = if settings.tls.is_some() { "https" } else { "http" };
        format!("{}://{host}", proto.unwrap_or(ours))
    }
}

fn header(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn is_authority(host: &str) -> bool {
    !host.is_empty() && host.len() <= 255 && host.parse::<http::uri::Authority>().is_ok() && !host.contains('@')
}

/// The scheme and host that a trusted proxy stated; `service` has removed the headers of other senders.
fn forwarded(headers: &HeaderMap) -> (Option<&'static str>, Option<&str>) {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let proto = match text(FORWARDED_PROTO) {
        Some(proto) if proto.eq_ignore_ascii_case("https") => Some("https"),
        Some(proto) if proto.eq_ignore_ascii_case("http") => Some("http"),
        Some(_) | None => None,
    };
    (proto, text(FORWARDED_HOST))
}

/// Headers of a document that depends on the address of the request: it may be cached for a while, one copy for each
/// address.
pub fn cacheable(headers: &mut HeaderMap) {
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=300"));
    headers.insert(VARY, HeaderValue::from_static("host, forwarded, x-forwarded-host, x-forwarded-proto"));
}

impl GatewayVersion {
    /// `None` for a retired agent.
    pub(crate) fn public_card(&self, mounted: &MountedAgent, head: &request::Parts) -> Option<Response> {
        if mounted.retired {
            return None;
        }
        let agent = &mounted.agent;
        let headers = &head.headers;
        let base = self.cards.base_url(&self.settings, head);
        let made = {
            let known = self.cards.made.lock().get(&(agent.clone(), base.clone())).cloned();
            known.unwrap_or_else(|| {
                let bytes = self.card_bytes(
                    mounted,
                    None,
                    &base,
                    match self.settings.card {
                        CardForm::Clean => card::clean,
                        CardForm::Hybrid => card::hybrid,
                    },
                );
                let digest = Sha256::digest(&bytes);
                let tag: String = digest[..12].iter().map(|b| format!("{b:02x}")).collect();
                let etag = HeaderValue::from_str(&format!("\"{tag}\"")).unwrap_or(HeaderValue::from_static("\"card\""));
                let made = Arc::new(CachedCard { bytes, etag });
                let mut kept = self.cards.made.lock();
                if kept.len() >= KEPT {
                    kept.clear();
                }
                kept.insert((agent.clone(), base), made.clone());
                made
            })
        };
        let fresh = match header(headers, IF_NONE_MATCH) {
            Some(tags) => tags.split(',').any(|t| {
                let tag = t.trim().trim_start_matches("W/");
                tag == "*" || tag.as_bytes() == made.etag.as_bytes()
            }),
            None => header(headers, IF_MODIFIED_SINCE)
                .and_then(http_date)
                .is_some_and(|t| t.as_second() >= self.cards.since.as_second()),
        };
        let mut response = Response::new(if fresh { ResponseBody::empty() } else { made.bytes.clone().into() });
        if fresh {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
        }
        let out = response.headers_mut();
        out.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        out.insert(ETAG, made.etag.clone());
        cacheable(out);
        if let Ok(since) = HeaderValue::from_str(&to_http_date(self.cards.since)) {
            out.insert(LAST_MODIFIED, since);
        }
        Some(response)
    }

    /// The card for an authenticated caller, in its dialect, with the skills it may use.
    pub(crate) fn extended_card(
        &self,
        mounted: &MountedAgent,
        caller: &Caller,
        head: &request::Parts,
        wire: AnswerWire,
    ) -> Bytes {
        let base = self.cards.base_url(&self.settings, head);
        self.card_bytes(mounted, Some(caller), &base, |facts| wire.card(facts))
    }

    /// The public card in a dialect that asks for it by a call.
    pub(crate) fn plain_card(&self, mounted: &MountedAgent, head: &request::Parts, wire: AnswerWire) -> Bytes {
        self.written_card(mounted, head, |facts| wire.card(facts))
    }

    /// The public card in a form of the caller's choice.
    pub(crate) fn written_card(
        &self,
        mounted: &MountedAgent,
        head: &request::Parts,
        write: impl FnOnce(&CardFacts<'_>) -> Bytes,
    ) -> Bytes {
        let base = self.cards.base_url(&self.settings, head);
        self.card_bytes(mounted, None, &base, write)
    }

    /// Whether there is an extended card: only where callers can authenticate.
    pub(crate) fn has_extended_card(&self, mounted: &MountedAgent) -> bool {
        let can_be_known = match mounted.door {
            AuthMode::Required => true,
            AuthMode::Optional => self.callers.has_any() || self.requires(mounted),
            AuthMode::None => false,
        };
        can_be_known && !mounted.retired
    }

    /// Whether callers need a credential at this mount: its own rule, or a product's as soon as any credential exists.
    pub fn requires(&self, mounted: &MountedAgent) -> bool {
        let bearer = || mounted.bearer.is_some() && self.has_credentials();
        mounted.door == AuthMode::Required || bearer()
    }

    /// Whether any credential exists or is required.
    pub(crate) fn has_credentials(&self) -> bool {
        let of_product = || self.settings.products.iter().any(|product| product.has_credentials());
        self.callers.required() || self.callers.has_any() || of_product()
    }

    /// Whether the policy allows callers without a credential some call at this agent, though one is required.
    pub fn opens(&self, agent: &str) -> bool {
        self.policy.as_ref().is_some_and(|policy| policy.opens(agent))
    }

    /// The authentication of a mount, as its card states it.
    fn auth(&self, mounted: &MountedAgent) -> Option<CardAuth> {
        if !self.has_extended_card(mounted) {
            return None;
        }
        let tokens = self.callers.tokens();
        Some(CardAuth {
            required: self.requires(mounted) && !self.opens(&mounted.agent),
            // Where a credential is required and no token is accepted, a key can be made at any time.
            keys: self.callers.has_keys() || tokens.is_none(),
            tokens: tokens.is_some(),
            discovery: tokens.map(|tokens| tokens.discovery_urls().collect()).unwrap_or_default(),
        })
    }

    /// The interface of gRPC, where cards list it. An agent that is not the default one is named by the tenant.
    fn grpc_interface(&self, mounted: &MountedAgent, base: &str) -> Option<Interface> {
        let card = self.settings.grpc_card.as_ref()?;
        let url = match &card.public {
            Some(public) => public.clone(),
            None => {
                let (scheme, host) = base.split_once("://")?;
                let host = host.split('/').next().unwrap_or_default();
                let has_port = host.parse::<http::uri::Authority>().is_ok_and(|host| host.port_u16().is_some());
                let port = if scheme == "https" { 443 } else { 80 };
                if has_port { host.to_owned() } else { format!("{host}:{port}") }
            }
        };
        let tenant = (mounted.agent != *self.mounts.default_agent()).then(|| format!("a2a/{}", mounted.agent));
        Some(Interface { tenant, ..Interface::new(url, InterfaceBinding::Grpc) })
    }

    fn card_bytes(
        &self,
        mounted: &MountedAgent,
        caller: Option<&Caller>,
        base: &str,
        write: impl FnOnce(&CardFacts<'_>) -> Bytes,
    ) -> Bytes {
        let agent = &mounted.agent;
        let Some(profile) = self.engine.profile(agent) else { return Bytes::from_static(b"{}") };
        let url = format!("{base}/a2a/{agent}");
        let policy = self.policy.as_ref();
        let required = self.requires(mounted);
        let may = |caller: &Caller, skill: &str| {
            policy.is_none_or(|policy| policy.allows_skill(caller, &caller.tenant, agent, skill, required))
        };
        let shown: Profile;
        let profile = match caller {
            Some(caller) if policy.is_some_and(Policy::has_skills) => {
                let skills = profile.skills.iter().filter(|skill| may(caller, &skill.id)).cloned().collect();
                shown = Profile { skills, ..Profile::clone(&profile) };
                &shown
            }
            Some(_) | None => &*profile,
        };
        let mut facts = CardFacts::new(profile, &url);
        facts.interfaces.extend(self.grpc_interface(mounted, base));
        facts.auth = self.auth(mounted);
        facts.extended = self.has_extended_card(mounted);
        facts.push = self.offers_push(profile);
        if required && self.opens(agent) {
            // Some skills need no credential: each skill states whether it does.
            let nobody = Caller { tenant: mounted.tenant_of(self.callers.anonymous()), ..Caller::anonymous() };
            let guarded = card::skill_ids(profile).filter(|skill| !may(&nobody, skill));
            facts.guarded = guarded.map(str::to_owned).collect();
        }
        write(&facts)
    }
}

const HTTP_DATE: &str = "%a, %d %b %Y %H:%M:%S GMT";

fn to_http_date(stamp: jiff::Timestamp) -> String {
    stamp.strftime(HTTP_DATE).to_string()
}

fn http_date(text: &str) -> Option<jiff::Timestamp> {
    jiff::civil::DateTime::strptime(HTTP_DATE, text).ok()?.to_zoned(jiff::tz::TimeZone::UTC).ok().map(|z| z.timestamp())
}
