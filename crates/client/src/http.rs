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
    let builder = builder(options)?;
    finished(if is_loopback(&parse(&options.url)?) { builder.no_proxy() } else { builder })
}

/// The HTTP client for gRPC at this URL. A proxy can pass it on only within TLS.
pub(crate) fn build_grpc(options: &Options, url: &Url) -> Result<reqwest::Client, Error> {
    let builder = builder(options)?
        .http2_prior_knowledge()
        .http2_initial_stream_window_size(WINDOW)
        .http2_initial_connection_window_size(4 * WINDOW);
    finished(if url.scheme() == "http" || is_loopback(url) { builder.no_proxy() } else { builder })
}

/// Bytes of one stream that may be on the way.
const WINDOW: u32 = 1 << 20;

fn finished(builder: reqwest::ClientBuilder) -> Result<reqwest::Client, Error> {
    builder.build().map_err(|error| unaskable(format!("the HTTP client cannot be built: {}", error.without_url())))
}

fn builder(options: &Options) -> Result<reqwest::ClientBuilder, Error> {
    // An error means that one is installed already, which is fine.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let same_origin = redirect::Policy::custom(|attempt| {
        let stays = attempt.previous().last().is_some_and(|from| from.origin() == attempt.url().origin());
        if stays && attempt.previous().len() < 5 { attempt.follow() } else { attempt.stop() }
    });
    Ok(reqwest::Client::builder()
        .user_agent(concat!("rialto/", env!("CARGO_PKG_VERSION")))
        .default_headers(headers(options)?)
        .connect_timeout(options.timeouts.connect)
        .pool_idle_timeout(Duration::from_secs(30))
        .redirect(same_origin))
}

/// A URL of HTTP. That of an endpoint of gRPC is the one that its calls are made below.
pub(crate) fn parse(url: &str) -> Result<Url, Error> {
    if let Some(url) = grpc_endpoint(url) {
        return url.ok_or_else(|| {
            unaskable("the URL of an agent over gRPC is grpc://host:port or grpcs://host:port".to_owned())
        });
    }
    let parsed = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    parsed.ok_or_else(|| unaskable("the URL is none; write https://host/path, or grpc://host:port".to_owned()))
}

/// Whether a URL has a scheme of gRPC.
pub(crate) fn is_grpc(url: &str) -> bool {
    grpc_endpoint(url).is_some()
}

/// A URL with a scheme of gRPC in terms of HTTP, if it has one; the inner value is missing if it is otherwise none.
fn grpc_endpoint(url: &str) -> Option<Option<Url>> {
    let (scheme, rest) = url.split_once("://")?;
    let plain = match scheme.to_ascii_lowercase().as_str() {
        "grpc" => "http",
        "grpcs" => "https",
        _ => return None,
    };
    let url = Url::parse(&format!("{plain}://{rest}")).ok();
    Some(url.filter(|url| url.has_host() && url.query().is_none()))
}

/// The place of a card's interface over gRPC. A bare `host:port` is within TLS where the card came so. Where the card came
/// without, it is on the card's own host, or within TLS again.
pub(crate) fn grpc_interface(text: &str, card: &Url) -> Option<Url> {
    let mut url = match grpc_endpoint(text) {
        Some(url) => return url,
        None if text.contains("://") => {
            Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())?
        }
        None => {
            let url = Url::parse(&format!("https://{text}")).ok().filter(Url::has_host)?;
            let near = is_loopback(&url) || url.host() == card.host();
            if card.scheme() == "http" && near { Url::parse(&format!("http://{text}")).ok()? } else { url }
        }
    };
    // Clients of gRPC know no paths; cards repeat the one that the other interfaces have.
    url.set_path("/");
    url.set_query(None);
    Some(url)
}

/// The URL of an endpoint of gRPC, for people.
pub(crate) fn shown_grpc(url: &Url) -> String {
    let scheme = if url.scheme() == "https" { "grpcs" } else { "grpc" };
    let port = url.port_or_known_default().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{scheme}://{}{port}{}", url.host_str().unwrap_or_default(), url.path().trim_end_matches('/'))
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
        builder = builder.header(name, header_value(name, &value)?);
    }
    if let Some(body) = body {
        builder = builder.header(CONTENT_TYPE, "application/json").body(body);
    }
    match tokio::time::timeout(first_byte, builder.send()).await {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(error)) => Err(on_the_way(error, &place(&asked))),
        Err(_) => Err(too_late(&place(&asked), first_byte)),
    }
}

pub(crate) fn header_value(name: &str, value: &str) -> Result<HeaderValue, Error> {
    let value = HeaderValue::from_str(value);
    value.map_err(|_| unaskable(format!("{name} holds what cannot stand in a header")))
}

pub(crate) fn too_late(place: &str, limit: Duration) -> Error {
    Error::broken(format!("{place} did not answer within {} s", limit.as_secs_f64()))
}

pub(crate) fn silent(limit: Duration) -> Error {
    Error::broken(format!("the agent fell silent for {} s", limit.as_secs_f64()))
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
        Err(_) => Err(silent(idle)),
    }
}

/// Whether an answer is a stream of events.
pub(crate) fn is_events(response: &Response) -> bool {
    let media = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    media.is_some_and(|media| media.trim_start().to_ascii_lowercase().starts_with("text/event-stream"))
}

pub(crate) fn on_the_way(error: reqwest::Error, place: &str) -> Error {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_of_grpc_has_a_host_and_is_shown_as_it_was_given() {
        for (given, parsed, shown) in [
            ("grpc://h:50051", "http://h:50051/", "grpc://h:50051"),
            ("GRPCS://h", "https://h/", "grpcs://h:443"),
            ("grpc://[::1]:9/a2a/x/", "http://[::1]:9/a2a/x/", "grpc://[::1]:9/a2a/x"),
        ] {
            let url = parse(given).unwrap();
            assert_eq!((url.as_str(), shown_grpc(&url).as_str()), (parsed, shown));
            assert!(is_grpc(given));
        }
        for wrong in ["grpc://", "grpc://h:99999", "grpcs://h?x=1", "h:50051"] {
            let error = parse(wrong).unwrap_err();
            assert!(error.message.contains("grpc://host:port"), "{error}");
        }
        assert!(!is_grpc("https://h") && !is_grpc("h:1"));
    }

    #[test]
    fn a_bare_address_on_a_card_is_within_tls_unless_the_card_came_without_from_the_same_host() {
        let at = |text: &str, card: &str| grpc_interface(text, &Url::parse(card).unwrap()).map(|url| url.to_string());
        for (text, card, url) in [
            ("h:50051", "https://h/card", Some("https://h:50051/")),
            ("h:50051", "http://h:80/card", Some("http://h:50051/")),
            ("127.0.0.1:50051", "http://localhost:8080/card", Some("http://127.0.0.1:50051/")),
            ("localhost:50051", "https://h/card", Some("https://localhost:50051/")),
            ("other:50051", "http://h/card", Some("https://other:50051/")),
            ("http://h:50051/a2a", "https://h/card", Some("http://h:50051/")),
            ("grpc://h:50051/a2a/x", "https://h/card", Some("http://h:50051/a2a/x")),
            ("grpcs://h", "http://h/card", Some("https://h/")),
            ("unix:///tmp/x", "http://h/card", None),
            ("", "http://h/card", None),
        ] {
            assert_eq!(at(text, card).as_deref(), url, "{text} {card}");
        }
    }
}
