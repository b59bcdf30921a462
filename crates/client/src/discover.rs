//! Finds an agent's dialect and URL: from its card, at any of the usual places, or by trying.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use dialects::card::{Binding, InterfaceBinding};
use dialects::card_read::{self, BindingSeen, CardSeen, PeerInterface};
use dialects::peer::PeerForm;
use model::Kind;
use model::ports::Future;
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
    peers: Vec<PeerForm>,
    at: AtomicUsize,
    /// The form was understood once: no other is tried any more.
    settled: AtomicBool,
}

impl RemoteInterface {
    fn new(url: Url, choice: PeerInterface, card: Option<CardSeen>) -> RemoteInterface {
        let settled = AtomicBool::new(choice.peers.len() <= 1);
        let shown_url = match choice.peers.first() {
            Some(PeerForm::Proto(_)) => http::shown_grpc(&url),
            Some(PeerForm::Json(_)) | None => shown(url.as_str()),
        };
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
    pub fn peer(&self) -> PeerForm {
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

    /// The next form to try after an error that shows that the server does not know this one. After the last one it is the
    /// error's turn, and the next call begins with the first again: it may be one that the server knows.
    pub(crate) fn next_after(&self, tried: PeerForm, error: Error) -> Result<PeerForm, Error> {
        let not_spoken = matches!(
            error.kind,
            Kind::MethodNotFound | Kind::VersionNotSupported | Kind::InvalidRequest | Kind::VerbNotAllowed
        );
        if !not_spoken || error.stage != FailureStage::Refused || self.settled.load(Ordering::Relaxed) {
            return Err(error);
        }
        let place = self.peers.iter().position(|peer| peer.facts().name == tried.facts().name).unwrap_or_default() + 1;
        match self.peers.get(place) {
            Some(next) => {
                self.at.store(place, Ordering::Relaxed);
                Ok(*next)
            }
            None => {
                self.at.store(0, Ordering::Relaxed);
                Err(self.spoken_by_none(error))
            }
        }
    }

    /// The error of a server that knows none of the forms, in words that say so where the server's do not.
    fn spoken_by_none(&self, error: Error) -> Error {
        let services: Vec<&str> = self.peers.iter().filter_map(|peer| peer.service()).collect();
        if services.is_empty() || error.kind != Kind::MethodNotFound {
            return error;
        }
        let message =
            format!("{} has no method of {} for this: {}", self.shown_url, services.join(" or "), error.message);
        Error { message, ..error }
    }
}

impl Client {
    /// A client with these options. Sends nothing yet.
    pub fn new(options: Options) -> Result<Client, Error> {
        let http = http::build(&options)?;
        if let Some(card) = &options.card_url {
            http::parse(card)?;
        }
        check_binding(&options)?;
        let (target, grpc) = (Default::default(), Default::default());
        Ok(Client { inner: Arc::new(Inner { options, http, grpc, target, asked: 0.into() }) })
    }

    /// The agent's URL and form. Determined once; a failure is not remembered.
    pub fn discover(&self) -> Future<'_, Result<Arc<RemoteInterface>, Error>> {
        Box::pin(async move {
            let mut known = self.inner.target.lock().await;
            if let Some(target) = &*known {
                return Ok(target.clone());
            }
            let target = Arc::new(self.inner.look().await?);
            *known = Some(target.clone());
            Ok(target)
        })
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
        if http::is_grpc(&options.url) {
            return self.look_over_grpc(base).await;
        }
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
        let binding = options.binding.unwrap_or(InterfaceBinding::Json(Binding::JsonRpc));
        Ok(RemoteInterface::new(base.clone(), PeerInterface::without_card(base, options.generation, binding), None))
    }

    /// An endpoint of gRPC: its card is where the options say, or is asked of itself. It may have none.
    async fn look_over_grpc(&self, base: Url) -> Result<RemoteInterface, Error> {
        let options = &self.options;
        let unknown = PeerInterface::without_card(base.clone(), options.generation, InterfaceBinding::Grpc);
        if let Some(place) = &options.card_url {
            let card = self.card(&http::parse(place)?).await?;
            let choice = card.choose(options.generation, Some(InterfaceBinding::Grpc)).unwrap_or(unknown);
            return Ok(RemoteInterface::new(base, choice, Some(card)));
        }
        for form in &unknown.peers {
            let alone = PeerInterface { peers: vec![*form], ..unknown.clone() };
            let asking = RemoteInterface::new(base.clone(), alone.clone(), None);
            let asked = tokio::time::timeout(options.timeouts.card, self.card_over_grpc(&asking));
            match asked.await {
                Ok(Ok(card)) => return Ok(RemoteInterface::new(base, alone, Some(card))),
                Ok(Err(error)) if error.stage == FailureStage::Unreachable => return Err(error),
                Ok(Err(error)) if error.kind == Kind::MethodNotFound => {}
                // The package is known there, and the card is for others.
                Ok(Err(error)) if error.stage == FailureStage::Refused && !error.is_passing() => {
                    return Ok(RemoteInterface::new(base, alone, None));
                }
                Ok(Err(error)) => return Err(error),
                Err(_) => return Err(http::too_late(&asking.shown_url, options.timeouts.card)),
            }
        }
        Ok(RemoteInterface::new(base, unknown, None))
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
            let (url, near) = match one.binding {
                BindingSeen::Grpc => {
                    let Some(url) = http::grpc_interface(&one.url, place) else { return false };
                    let url = grpc_as_reached(url, place);
                    let near = same_host(&url, base) || same_host(&url, place);
                    (url, near)
                }
                BindingSeen::Known(_) | BindingSeen::Other(_) => {
                    let Ok(url) = place.join(&one.url) else { return false };
                    let url = as_reached(url, place);
                    let near = same_place(&url, base) || same_place(&url, place);
                    (url, near)
                }
            };
            let strange = options.has_secrets() && !options.other_hosts && !near;
            one.url = url.to_string();
            if strange {
                elsewhere = Some(shown(url.as_str()));
            }
            !strange
        });
        let Some(choice) = card.choose(options.generation, options.binding).filter(|choice| !choice.peers.is_empty())
        else {
            let message = match elsewhere {
                Some(url) => format!(
                    "the agent's card names {url}, which is another host, and credentials are not sent there; give that URL, or allow other hosts"
                ),
                None => match options.binding {
                    Some(binding) => {
                        format!(
                            "the agent's card names no interface over {} that is spoken here; its address can be given without a card",
                            binding.name()
                        )
                    }
                    None => "the agent's card names no interface that is spoken here".to_owned(),
                },
            };
            return Err(Error::new(FailureStage::Unaskable, Kind::Unsupported, message));
        };
        let url = http::parse(&choice.url)?;
        Ok(RemoteInterface::new(url, choice, Some(card)))
    }
}

/// Refuses options that leave no form to speak.
fn check_binding(options: &Options) -> Result<(), Error> {
    let wrong = |message: String| Err(Error::new(FailureStage::Unaskable, Kind::InvalidParams, message));
    let is_grpc = http::is_grpc(&options.url);
    if let (true, Some(InterfaceBinding::Json(binding))) = (is_grpc, options.binding) {
        return wrong(format!("{} is an address of gRPC, and the binding is {}", shown(&options.url), binding.name()));
    }
    let binding = if is_grpc { Some(InterfaceBinding::Grpc) } else { options.binding };
    match (options.generation, binding) {
        (Some(generation), Some(binding)) if PeerForm::of(generation, binding).is_none() => {
            wrong(format!("A2A {generation} has no form over {}", binding.name()))
        }
        (_, _) => Ok(()),
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

/// The same for an interface over gRPC, which has a port of its own.
fn grpc_as_reached(mut url: Url, place: &Url) -> Url {
    if http::is_loopback(&url) && !http::is_loopback(place) {
        let _ = url.set_host(place.host_str());
    }
    url
}

/// Whether an interface over gRPC is on the same host, and as secret on the way. Its port is hardly ever the card's.
fn same_host(grpc: &Url, other: &Url) -> bool {
    let both_here = http::is_loopback(grpc) && http::is_loopback(other);
    grpc.scheme() == other.scheme() && (both_here || grpc.host() == other.host())
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
    fn an_interface_over_grpc_is_on_the_cards_host_whatever_its_port() {
        let url = |text: &str| Url::parse(text).unwrap();
        let reached = |one: &str, place: &str| grpc_as_reached(url(one), &url(place)).to_string();
        assert_eq!(reached("https://localhost:50051/", "https://agent.example/card"), "https://agent.example:50051/");
        assert_eq!(reached("http://0.0.0.0:50051/", "http://127.0.0.1:80/card"), "http://0.0.0.0:50051/");
        assert!(same_host(&url("https://h:50051"), &url("https://h")));
        assert!(same_host(&url("http://127.0.0.1:50051"), &url("http://localhost:80")));
        assert!(
            !same_host(&url("http://h:50051"), &url("https://h")),
            "without TLS the secrets would be read on the way"
        );
        assert!(!same_host(&url("https://g:50051"), &url("https://h")));
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
