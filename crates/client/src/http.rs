//! One HTTP request: credentials, time limits, bounded answers.
//!
//! Redirects are followed within one origin only, so that credentials go nowhere else. Errors of reqwest are never
//! passed on with their URL, which may contain secrets.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use model::Kind;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Response, redirect};
use url::Url;

use crate::error::{Error, FailureStage};
use crate::options::{Options, PeerCredentials};

/// The HTTP client for these options. Installs the crypto provider of the process if none is installed.
pub(crate) fn build(options: &Options) -> Result<reqwest::Client, Error> {
    // An error means that one is installed already, which is fine.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let url = parse(&options.url)?;
    let same_origin = redirect::Policy::custom(|attempt| {
        let stays = attempt.previous().last().is_some_and(|from| from.origin() == attempt.url().origin());
        if stays && attempt.previous().len() < 5 { attempt.follow() } else { attempt.stop() }
    });
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("rialto/", env!("CARGO_PKG_VERSION")))
        .default_headers(headers(options)?)
        .connect_timeout(options.timeouts.connect)
        .pool_idle_timeout(Duration::from_secs(30))
        .redirect(same_origin);
    if is_loopback(&url) {
        builder = builder.no_proxy();
    }
    builder.build().map_err(|error| unaskable(format!("the HTTP client cannot be built: {}", error.without_url())))
}

pub(crate) fn parse(url: &str) -> Result<Url, Error> {
    let parsed = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    parsed.ok_or_else(|| unaskable("the URL is none; write https://host/path".to_owned()))
}

pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(url::Host::Ipv4(ip)) => ip.is_loopback() || ip.is_unspecified(),
        Some(url::Host::Ipv6(ip)) => ip.is_loopback() || ip.is_unspecified(),
        None => false,
    }
}

fn unaskable(message: String) -> Error {
    Error::new(FailureStage::Unaskable, Kind::InvalidParams, message)
}

fn headers(options: &Options) -> Result<HeaderMap, Error> {
    let mut headers = HeaderMap::new();
    let secret = |text: &str, what: &str| {
        let value = HeaderValue::from_str(text);
        let mut value =
            value.map_err(|_| unaskable(format!("{what} cannot stand in a header; look for line breaks")))?;
        value.set_sensitive(true);
        Ok(value)
    };
    let name = |text: &str| {
        let name = HeaderName::from_bytes(text.as_bytes());
        name.map_err(|_| unaskable(format!("{text:?} is no name of a header")))
    };
    for (header, value) in &options.headers {
        headers.append(name(header)?, secret(value, &format!("the value of the header {header:?}"))?);
    }
    match &options.auth {
        PeerCredentials::None => {}
        PeerCredentials::Bearer(token) => {
            headers.insert(AUTHORIZATION, secret(&format!("Bearer {token}"), "the bearer token")?);
        }
        PeerCredentials::ApiKey { header, key } => {
            headers.insert(name(header)?, secret(key, "the API key")?);
        }
        PeerCredentials::Basic { user, password } => {
            let pair = STANDARD.encode(format!("{user}:{password}"));
            headers.insert(AUTHORIZATION, secret(&format!("Basic {pair}"), "user and password")?);
        }
    }
    Ok(headers)
}

/// A request to send.
pub(crate) struct OutgoingRequest {
    pub(crate) verb: &'static str,
    pub(crate) url: Url,
    pub(crate) accept: &'static str,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Option<Bytes>,
}

/// Sends, and waits for the head of the answer.
pub(crate) async fn send(
    http: &reqwest::Client,
    request: OutgoingRequest,
    first_byte: Duration,
) -> Result<Response, Error> {
    let OutgoingRequest { verb, url, accept, headers, body } = request;
    let (asked, place) = (url.clone(), |url: &Url| crate::options::shown(url.as_str()));
    let method = Method::from_bytes(verb.as_bytes()).unwrap_or(Method::POST);
    let mut builder = http.request(method, url).header(ACCEPT, accept);
    for (name, value) in headers {
        let value = HeaderValue::from_str(&value);
        let value = value.map_err(|_| unaskable(format!("{name} holds what cannot stand in a header")))?;
        builder = builder.header(name, value);
    }
    if let Some(body) = body {
        builder = builder.header(CONTENT_TYPE, "application/json").body(body);
    }
    match tokio::time::timeout(first_byte, builder.send()).await {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(error)) => Err(on_the_way(error, &place(&asked))),
        Err(_) => {
            let message = format!("{} did not answer within {} s", place(&asked), first_byte.as_secs_f64());
            Err(Error::new(FailureStage::Broken, Kind::Unavailable, message))
        }
    }
}

/// The complete body, bounded in size and in idle time.
pub(crate) async fn body(mut response: Response, limit: usize, idle: Duration) -> Result<Vec<u8>, Error> {
    let mut all = Vec::new();
    while let Some(piece) = piece(&mut response, idle).await? {
        if all.len() + piece.len() > limit {
            let message = format!("the answer is larger than {limit} bytes, which is the limit here");
            return Err(Error::new(FailureStage::Unreadable, Kind::InvalidAgentResponse, message));
        }
        all.extend_from_slice(&piece);
    }
    Ok(all)
}

/// The next piece of a body; `None` at its end.
pub(crate) async fn piece(response: &mut Response, idle: Duration) -> Result<Option<Bytes>, Error> {
    match tokio::time::timeout(idle, response.chunk()).await {
        Ok(Ok(piece)) => Ok(piece),
        Ok(Err(error)) => {
            let place = crate::options::shown(response.url().as_str());
            Err(on_the_way(error, &place))
        }
        Err(_) => {
            let message = format!("the agent fell silent for {} s", idle.as_secs_f64());
            Err(Error::new(FailureStage::Broken, Kind::Unavailable, message))
        }
    }
}

/// Whether an answer is a stream of events.
pub(crate) fn is_events(response: &Response) -> bool {
    let media = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    media.is_some_and(|media| media.trim_start().to_ascii_lowercase().starts_with("text/event-stream"))
}

fn on_the_way(error: reqwest::Error, place: &str) -> Error {
    let (stage, what) = if error.is_connect() {
        (FailureStage::Unreachable, "cannot be reached")
    } else if error.is_builder() {
        (FailureStage::Unaskable, "cannot be asked")
    } else {
        (FailureStage::Broken, "broke off")
    };
    let error = error.without_url();
    // The innermost cause says what happened; the outer error only that the request failed.
    let mut cause: &dyn std::error::Error = &error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    Error::new(stage, Kind::Unavailable, format!("{place} {what}: {cause}"))
}
