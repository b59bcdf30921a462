//! Finds an agent's dialect and URL: from its card, at any of the usual places, or by trying.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use dialects::card_read::{self, CardSeen, PeerInterface};
use dialects::peer::Peer;
use model::Kind;
use url::Url;

use crate::error::{Error, FailureStage};
use crate::http::{self, OutgoingRequest};
use crate::options::{Options, shown};
use crate::{Client, Inner};

/// Limit of a card's size; a larger document is not a card.
const CARD_BYTES: usize = 4 << 20;

/// The destination of calls.
#[derive(Debug)]
pub struct RemoteInterface {
    pub card: Option<CardSeen>,
    pub(crate) url: Url,
    shown_url: String,
    pub(crate) tenant: Option<String>,
    peers: Vec<&'static dyn Peer>,
    at: AtomicUsize,
    /// The form was understood once: no other is tried any more.
    settled: AtomicBool,
}

impl RemoteInterface {
    fn new(url: Url, choice: PeerInterface, card: Option<CardSeen>) -> RemoteInterface {
        let settled = AtomicBool::new(choice.peers.len() <= 1);
        let shown_url = shown(url.as_str());
        RemoteInterface {
            card,
            url,
            shown_url,
            tenant: choice.tenant,
            peers: choice.peers,
            at: AtomicUsize::new(0),
            settled,
        }
    }

    /// The form in use, as far as known.
    pub fn peer(&self) -> &'static dyn Peer {
        self.peers[self.at.load(Ordering::Relaxed).min(self.peers.len() - 1)]
    }

    /// The URL of the interface, for people.
    pub fn shown_url(&self) -> &str {
        &self.shown_url
    }

    /// Whether to try streams: the card says so, or there is no card.
    pub fn streams(&self) -> bool {
        self.card.as_ref().is_none_or(|card| card.streaming)
    }

    pub(crate) fn understood(&self) {
        self.settled.store(true, Ordering::Relaxed);
    }

    /// The next form to try after an error that shows that the server does not know this one.
    pub(crate) fn next_after(&self, tried: &'static dyn Peer, error: &Error) -> Option<&'static dyn Peer> {
        let not_spoken = matches!(
            error.kind,
            Kind::MethodNotFound | Kind::VersionNotSupported | Kind::InvalidRequest | Kind::VerbNotAllowed
        );
        if !not_spoken || error.stage != FailureStage::Refused || self.settled.load(Ordering::Relaxed) {
            return None;
        }
        let place = self.peers.iter().position(|peer| peer.facts().name == tried.facts().name)?;
        let next = self.peers.get(place + 1).copied()?;
        self.at.store(place + 1, Ordering::Relaxed);
        Some(next)
    }
}

impl Client {
    /// A client with these options. Sends nothing yet.
    pub fn new(options: Options) -> Result<Client, Error> {
        let http = http::build(&options)?;
        if let Some(card) = &options.card_url {
            http::parse(card)?;
        }
        Ok(Client { inner: Arc::new(Inner { options, http, target: Default::default(), asked: 0.into() }) })
    }

    /// The agent's URL and form. Determined once; a failure is not remembered.
    pub async fn discover(&self) -> Result<Arc<RemoteInterface>, Error> {
        let mut known = self.inner.target.lock().await;
        if let Some(target) = &*known {
            return Ok(target.clone());
        }
        let target = Arc::new(self.inner.look().await?);
        *known = Some(target.clone());
        Ok(target)
    }

    /// Determines them again. The previous result stays if that fails.
    pub async fn refresh(&self) -> Result<Arc<RemoteInterface>, Error> {
        let target = Arc::new(self.inner.look().await?);
        *self.inner.target.lock().await = Some(target.clone());
        Ok(target)
    }
}

impl Inner {
    async fn look(&self) -> Result<RemoteInterface, Error> {
        let options = &self.options;
        let base = http::parse(&options.url)?;
        let mut unheard = None;
        let mut answered = false;
        for place in places(options, &base)? {
            match self.card(&place).await {
                Ok(card) => return self.chosen(card, &place, &base),
                // No connection at all: another path will not help.
                Err(error) if error.stage == FailureStage::Unreachable => return Err(error),
                Err(error) => {
                    tracing::debug!(place = %shown(place.as_str()), %error, "no agent card here");
                    answered |= error.stage != FailureStage::Broken;
                    unheard = Some(error);
                }
            }
        }
        // If no place answered, the server is unavailable rather than without a card.
        if let (false, Some(error)) = (answered, unheard) {
            return Err(error);
        }
        if options.card_url.is_some() {
            let message = format!("{} is no agent card", options.card_url.as_deref().map(shown).unwrap_or_default());
            return Err(Error::new(FailureStage::Unreadable, Kind::InvalidAgentResponse, message));
        }
        Ok(RemoteInterface::new(base.clone(), PeerInterface::without_card(base, options.generation), None))
    }

    async fn card(&self, place: &Url) -> Result<CardSeen, Error> {
        let timeouts = &self.options.timeouts;
        let request = OutgoingRequest {
            verb: "GET",
            url: place.clone(),
            accept: "application/json",
            headers: Vec::new(),
            body: None,
        };
        let reading = async {
            let response = http::send(&self.http, request, timeouts.card).await?;
            let status = response.status();
            let body = http::body(response, CARD_BYTES, timeouts.card).await?;
            if !status.is_success() {
                let message = format!("HTTP {}", status.as_u16());
                return Err(Error::new(FailureStage::Unreadable, Kind::InvalidAgentResponse, message));
            }
            card_read::read(&String::from_utf8_lossy(&body)).map_err(|fault| Error::unreadable(&fault))
        };
        let silent = || {
            let message = format!("{} did not answer in time", shown(place.as_str()));
            Error::new(FailureStage::Broken, Kind::Unavailable, message)
        };
        tokio::time::timeout(timeouts.card, reading).await.unwrap_or_else(|_| Err(silent()))
    }

    /// The interface of a card to call.
    fn chosen(&self, mut card: CardSeen, place: &Url, base: &Url) -> Result<RemoteInterface, Error> {
        let options = &self.options;
        let mut elsewhere = None;
        card.interfaces.retain_mut(|one| {
            let Ok(url) = place.join(&one.url) else { return false };
            let url = as_reached(url, place);
            let strange =
                options.has_secrets() && !options.other_hosts && !same_place(&url, base) && !same_place(&url, place);
            one.url = url.to_string();
            if strange {
                elsewhere = Some(shown(url.as_str()));
            }
            !strange
        });
        let Some(choice) = card.choose(options.generation).filter(|choice| !choice.peers.is_empty()) else {
            let message = match elsewhere {
                Some(url) => format!(
                    "the agent's card names {url}, which is another host, and credentials are not sent there; give that URL, or allow other hosts"
                ),
                None => "the agent's card names no interface that is spoken here".to_owned(),
            };
            return Err(Error::new(FailureStage::Unaskable, Kind::Unsupported, message));
        };
        let url = http::parse(&choice.url)?;
        Ok(RemoteInterface::new(url, choice, Some(card)))
    }
}

/// The possible URLs of a card, the likeliest first.
fn places(options: &Options, base: &Url) -> Result<Vec<Url>, Error> {
    if let Some(card) = &options.card_url {
        return Ok(vec![http::parse(card)?]);
    }
    let below = |path: &str| {
        let mut url = base.clone();
        url.set_query(None);
        url.set_path(&format!("{}/{path}", base.path().trim_end_matches('/')));
        url
    };
    let at_origin = |path: &str| {
        let mut url = base.clone();
        url.set_query(None);
        url.set_path(&format!("/{path}"));
        url
    };
    let (new, old) = (".well-known/agent-card.json", ".well-known/agent.json");
    let mut places = if base.path().ends_with(".json") { vec![base.clone()] } else { Vec::new() };
    places.extend([below(new), below(old), base.clone(), at_origin(new), at_origin(old)]);
    let mut seen = Vec::new();
    places.retain(|place| {
        let fresh = !seen.contains(place);
        seen.push(place.clone());
        fresh
    });
    Ok(places)
}

/// Many cards name `localhost` or `0.0.0.0` wherever they run: such a URL gets the host that the card was fetched from.
fn as_reached(mut url: Url, place: &Url) -> Url {
    if http::is_loopback(&url) && !http::is_loopback(place) {
        let _ = url.set_scheme(place.scheme());
        let _ = url.set_host(place.host_str());
        let _ = url.set_port(place.port());
    }
    url
}

/// Whether both have the same origin; all names of the local machine are equal.
fn same_place(a: &Url, b: &Url) -> bool {
    let both_here = http::is_loopback(a) && http::is_loopback(b);
    let ports = a.port_or_known_default() == b.port_or_known_default();
    a.origin() == b.origin() || (both_here && ports && a.scheme() == b.scheme())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places_of(url: &str) -> Vec<String> {
        let options = Options::new(url);
        places(&options, &http::parse(url).unwrap()).unwrap().iter().map(Url::to_string).collect()
    }

    #[test]
    fn a_card_is_looked_for_where_cards_are() {
        assert_eq!(
            places_of("https://h/a/b"),
            [
                "https://h/a/b/.well-known/agent-card.json",
                "https://h/a/b/.well-known/agent.json",
                "https://h/a/b",
                "https://h/.well-known/agent-card.json",
                "https://h/.well-known/agent.json",
            ]
        );
        assert_eq!(
            places_of("https://h"),
            ["https://h/.well-known/agent-card.json", "https://h/.well-known/agent.json", "https://h/"]
        );
        assert_eq!(places_of("https://h/card.json?v=1")[0], "https://h/card.json?v=1");
    }

    #[test]
    fn a_card_that_says_localhost_is_called_where_it_was_found() {
        let url = |text: &str| Url::parse(text).unwrap();
        let reached = |one: &str, place: &str| as_reached(url(one), &url(place)).to_string();
        assert_eq!(reached("http://localhost:9999/rpc", "https://agent.example/card"), "https://agent.example/rpc");
        assert_eq!(reached("http://0.0.0.0:80/", "http://10.0.0.7:8000/"), "http://10.0.0.7:8000/");
        assert_eq!(reached("http://localhost:9999/", "http://127.0.0.1:1/"), "http://localhost:9999/");
        assert_eq!(reached("https://other.example/", "http://127.0.0.1:1/"), "https://other.example/");
    }

    #[test]
    fn all_names_of_the_own_machine_are_one_place() {
        let url = |text: &str| Url::parse(text).unwrap();
        assert!(same_place(&url("http://localhost:8/a"), &url("http://127.0.0.1:8/b")));
        assert!(!same_place(&url("http://localhost:8"), &url("http://127.0.0.1:9")));
        assert!(!same_place(&url("http://h"), &url("https://h")));
        assert!(same_place(&url("https://h/a"), &url("https://h:443/b")));
    }

    #[test]
    fn secrets_are_shown_to_nobody() {
        let mut options = Options::new("https://u:hunter2@h/p?key=hunter2");
        options.auth = crate::PeerCredentials::Bearer("hunter2".into());
        options.headers = vec![("X-Secret".into(), "hunter2".into())];
        let text = format!("{options:?} {:?}", Client::new(options.clone()).unwrap());
        assert!(!text.contains("hunter2"), "{text}");
        assert!(text.contains("X-Secret") && text.contains("https://h/p"), "{text}");
        options.headers = vec![("X-Secret".into(), "hunter2\n".into())];
        let error = Client::new(options).unwrap_err();
        assert_eq!(error.stage, FailureStage::Unaskable);
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    }
}
