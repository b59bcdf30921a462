//! Options of a client: the agent's URL, credentials, time limits.

use std::fmt;
use std::time::Duration;

use dialects::card::InterfaceBinding;
use dialects::peer::Generation;

#[derive(Clone)]
pub struct Options {
    /// The URL of the agent: its card, a path above its card, or its endpoint. `grpc://host:port` is an endpoint of gRPC,
    /// `grpcs://host:port` one with TLS.
    pub url: String,
    /// The URL of its card, if that is elsewhere.
    pub card_url: Option<String>,
    /// Use only this generation.
    pub generation: Option<Generation>,
    /// Use only this binding; the default is the one that the card prefers.
    pub binding: Option<InterfaceBinding>,
    pub auth: PeerCredentials,
    /// Sent with every request.
    pub headers: Vec<(String, String)>,
    /// Allow the card to name an interface on another host, and send credentials there too.
    pub other_hosts: bool,
    pub timeouts: ClientTimeouts,
    /// Limit of an answer's size.
    pub body_bytes: usize,
    /// Limit of the size of a stream's event.
    pub event_bytes: usize,
}

impl Options {
    pub fn new(url: impl Into<String>) -> Options {
        Options {
            url: url.into(),
            card_url: None,
            generation: None,
            binding: None,
            auth: PeerCredentials::None,
            headers: Vec::new(),
            other_hosts: false,
            timeouts: ClientTimeouts::default(),
            body_bytes: 64 << 20,
            event_bytes: 32 << 20,
        }
    }

    /// Whether the agent runs on this machine.
    pub fn is_local(&self) -> bool {
        crate::http::parse(&self.url).is_ok_and(|url| crate::http::is_loopback(&url))
    }

    /// Whether requests carry secrets that only the agent may see.
    pub(crate) fn has_secrets(&self) -> bool {
        !matches!(self.auth, PeerCredentials::None) || !self.headers.is_empty()
    }
}

/// Hides credentials, header values, and the parts of URLs that may contain secrets.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Options")
            .field("url", &shown(&self.url))
            .field("card_url", &self.card_url.as_deref().map(shown))
            .field("generation", &self.generation)
            .field("binding", &self.binding)
            .field("auth", &self.auth)
            .field("headers", &names)
            .field("timeouts", &self.timeouts)
            .finish_non_exhaustive()
    }
}

/// The client's authentication.
#[derive(Clone, Default)]
pub enum PeerCredentials {
    #[default]
    None,
    Bearer(String),
    ApiKey {
        /// The header that carries it.
        header: String,
        key: String,
    },
    Basic {
        user: String,
        password: String,
    },
}

impl fmt::Debug for PeerCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PeerCredentials::None => "None",
            PeerCredentials::Bearer(_) => "Bearer(…)",
            PeerCredentials::ApiKey { .. } => "ApiKey(…)",
            PeerCredentials::Basic { .. } => "Basic(…)",
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientTimeouts {
    pub connect: Duration,
    /// From the end of a request to the first byte of its answer.
    pub first_byte: Duration,
    /// Between two pieces of an answer, including an idle stream.
    pub idle: Duration,
    /// For each possible URL of a card.
    pub card: Duration,
}

impl Default for ClientTimeouts {
    fn default() -> ClientTimeouts {
        ClientTimeouts {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(120),
            idle: Duration::from_secs(300),
            card: Duration::from_secs(5),
        }
    }
}

/// A URL for people: without user, password and query, which may contain secrets.
pub fn shown(url: &str) -> String {
    let Ok(mut url) = url::Url::parse(url) else { return "(not a URL)".to_owned() };
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    url.to_string()
}
