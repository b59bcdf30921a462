//! One attempt over the network, for every webhook of the server: without proxies, redirects and retries, and with a time
//! limit. The outcome decides about retries, which are the callers'.

use std::error::Error;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http::header::{HeaderMap, LOCATION, RETRY_AFTER};
use model::ports::Future;
use model::ports::webhook::WebhookOutcome;
use reqwest::Body;
use url::Url;

use super::{HostResolver, OutboundClients, OutboundPolicy, SystemResolver, resolve};

/// Longest `Retry-After` that is respected.
const RETRY_MOST_MS: u64 = 24 * 3_600_000;

/// Bytes of a response body that are read to keep the connection.
const BODY_MOST: usize = 16 << 10;
const BODY_TIME: Duration = Duration::from_millis(200);

/// Time limit of a connect.
const CONNECT: Duration = Duration::from_secs(5);

/// The policy of a use that the operator permits every address for.
static ANY: OutboundPolicy = OutboundPolicy { loopback: true, any: true, allow: Vec::new() };

/// A delivery to post.
pub struct PostRequest {
    pub url: Url,
    /// The receiver's name in the words of the outcome.
    pub receiver: Arc<str>,
    /// The event's id and the number of the attempt, for the log.
    pub event: Arc<str>,
    pub attempt: u32,
    pub headers: HeaderMap,
    pub body: Body,
    /// Time limit of the whole attempt.
    pub timeout: Duration,
    /// The operator permits every address for this use, also by plain http.
    pub any_address: bool,
    /// The largest body of an answer that is of interest. Without it a body is dropped.
    pub answer_bytes: Option<usize>,
}

/// The result of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostResult {
    pub outcome: WebhookOutcome,
    /// None without an answer.
    pub answer: Option<PostAnswer>,
}

/// A receiver's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostAnswer {
    pub status: StatusCode,
    /// The body of a 2xx, where the request asks for it; none if it is larger than the limit.
    pub body: Option<Bytes>,
}

/// Makes attempts.
pub trait Post: Send + Sync + 'static {
    fn post(&self, request: PostRequest) -> Future<'_, PostResult>;
}

/// Attempts by HTTP under the outbound policy.
pub struct HttpPost {
    policy: Arc<OutboundPolicy>,
    resolver: Arc<dyn HostResolver>,
    /// Made when they are first needed.
    usual: OnceLock<OutboundClients>,
    any: OnceLock<OutboundClients>,
}

impl Default for HttpPost {
    fn default() -> HttpPost {
        HttpPost::new(OutboundPolicy::default(), Arc::new(SystemResolver))
    }
}

impl HttpPost {
    pub fn new(policy: OutboundPolicy, resolver: Arc<dyn HostResolver>) -> HttpPost {
        HttpPost { policy: Arc::new(policy), resolver, usual: OnceLock::new(), any: OnceLock::new() }
    }

    pub fn policy(&self) -> &OutboundPolicy {
        &self.policy
    }

    /// Makes the clients now; an error means that no attempt could be made.
    pub fn prepare(&self) -> reqwest::Result<()> {
        self.clients(false).map(drop)
    }

    pub(super) fn clients(&self, any_address: bool) -> reqwest::Result<&OutboundClients> {
        let (made, policy) = match any_address {
            true => (&self.any, Arc::new(ANY.clone())),
            false => (&self.usual, self.policy.clone()),
        };
        if let Some(clients) = made.get() {
            return Ok(clients);
        }
        let clients = OutboundClients::new(&policy, &self.resolver, CONNECT)?;
        Ok(made.get_or_init(|| clients))
    }

    async fn send(&self, request: PostRequest) -> PostResult {
        let PostRequest { url, receiver, headers, body, timeout, any_address, answer_bytes, .. } = request;
        // The policy may have changed since the address was accepted; and a resolver does not see literal addresses.
        let policy = if any_address { &ANY } else { &*self.policy };
        if let Err(refused) = policy.admit(&url) {
            return PostResult::gone(format!("{receiver} is refused: {}", refused.message()));
        }
        let clients = match self.clients(any_address) {
            Ok(clients) => clients,
            Err(error) => {
                tracing::error!(%error, "cannot make an HTTP client for webhooks");
                return PostResult::failed(&receiver, "cannot be called: this server can make no connections");
            }
        };
        let late = || PostResult::failed(&receiver, &format!("gave no answer within {} ms", timeout.as_millis()));
        let deadline = tokio::time::Instant::now() + timeout;
        let sending = clients.to(&url).post(url).headers(headers).body(body).send();
        let response = match tokio::time::timeout_at(deadline, sending).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) if error.is_connect() && error.is_timeout() => {
                return PostResult::failed(&receiver, &format!("took no connection within {} ms", CONNECT.as_millis()));
            }
            Ok(Err(error)) => return PostResult::failed(&receiver, &trouble(&error)),
            Err(_) => return late(),
        };
        let mut result = PostResult::answered(&receiver, response.status(), response.headers(), None);
        match answer_bytes.filter(|_| response.status().is_success()) {
            // The status decides, even if the body fails.
            None => leave(response).await,
            Some(most) => match tokio::time::timeout_at(deadline, whole(response, most)).await {
                Ok(Ok(body)) => result.answer = result.answer.map(|answer| PostAnswer { body, ..answer }),
                Ok(Err(_)) => return PostResult::failed(&receiver, "broke off within its answer"),
                Err(_) => return late(),
            },
        }
        result
    }
}

impl Post for HttpPost {
    fn post(&self, request: PostRequest) -> Future<'_, PostResult> {
        Box::pin(async move {
            let (endpoint, event, attempt) = (origin(&request.url), request.event.clone(), request.attempt);
            let result = self.send(request).await;
            tracing::debug!(%endpoint, %event, attempt, outcome = ?result.outcome, "a delivery was tried");
            result
        })
    }
}

/// Scheme, host and port of an address: its endpoint, whose addresses fail together.
pub fn origin(url: &Url) -> Arc<str> {
    url.origin().ascii_serialization().into()
}

impl PostResult {
    /// The result of an answer.
    pub fn answered(receiver: &str, status: StatusCode, headers: &HeaderMap, body: Option<Bytes>) -> PostResult {
        let code = status.as_u16();
        let failed = |why: String, retry_after_ms| WebhookOutcome::Failed { why, retry_after_ms };
        let outcome = match code {
            200..=299 => WebhookOutcome::Taken,
            410 => WebhookOutcome::Gone { why: format!("{receiver} answered 410: it wants no more") },
            300..=399 if headers.contains_key(LOCATION) => failed(
                format!("{receiver} answered {code}: redirects are not followed; register the address it moved to"),
                None,
            ),
            429 | 503 => failed(format!("{receiver} answered {code}"), retry_after(headers)),
            _ => failed(format!("{receiver} answered {code}"), None),
        };
        PostResult { outcome, answer: Some(PostAnswer { status, body }) }
    }

    /// The result without an answer.
    pub fn failed(receiver: &str, words: &str) -> PostResult {
        let why = format!("{receiver} {words}");
        PostResult { outcome: WebhookOutcome::Failed { why, retry_after_ms: None }, answer: None }
    }

    /// The result of a request that can never be sent.
    pub fn gone(why: String) -> PostResult {
        PostResult { outcome: WebhookOutcome::Gone { why }, answer: None }
    }
}

/// The whole body; none if it is larger than `most`.
async fn whole(mut response: reqwest::Response, most: usize) -> reqwest::Result<Option<Bytes>> {
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await? {
        if body.len() + piece.len() > most {
            return Ok(None);
        }
        body.extend_from_slice(&piece);
    }
    Ok(Some(body.into()))
}

/// Reads a small rest of the response, within limits of size and time, so that the connection can be used again.
async fn leave(mut response: reqwest::Response) {
    let rest = async {
        let mut left = BODY_MOST;
        while let Ok(Some(piece)) = response.chunk().await {
            left = left.saturating_sub(piece.len());
            if left == 0 {
                break;
            }
        }
    };
    let _ = tokio::time::timeout(BODY_TIME, rest).await;
}

/// Seconds, or a date.
fn retry_after(headers: &HeaderMap) -> Option<u64> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let ms = match text.parse::<u64>() {
        Ok(seconds) => seconds.saturating_mul(1_000),
        Err(_) => {
            let then = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
            let ms = then.as_millisecond() - jiff::Timestamp::now().as_millisecond();
            u64::try_from(ms).unwrap_or_default()
        }
    };
    Some(ms.min(RETRY_MOST_MS))
}

/// The kind of a network error in our own words: texts of the libraries contain addresses, paths and queries.
pub(super) fn trouble(error: &reqwest::Error) -> String {
    let unknown = if error.is_connect() { "could not be connected to" } else { "broke off before it answered" };
    find_trouble(error).unwrap_or_else(|| unknown.to_owned())
}

/// Whether the policy allows none of the addresses that the name resolves to.
pub(super) fn is_forbidden(error: &(dyn Error + 'static)) -> bool {
    let is = error.downcast_ref::<resolve::Error>() == Some(&resolve::Error::Forbidden);
    let within = || error.downcast_ref::<io::Error>()?.get_ref().map(|within| is_forbidden(within));
    is || within().unwrap_or(false) || error.source().is_some_and(is_forbidden)
}

/// Searches the chain of sources of an error. An I/O error does not report its inner error as a source.
fn find_trouble(error: &(dyn Error + 'static)) -> Option<String> {
    let within = || error.downcast_ref::<io::Error>()?.get_ref().and_then(|within| find_trouble(within));
    known_trouble(error).or_else(within).or_else(|| error.source().and_then(find_trouble))
}

fn known_trouble(error: &(dyn Error + 'static)) -> Option<String> {
    if let Some(unresolved) = error.downcast_ref::<resolve::Error>() {
        return Some(format!("cannot be reached: {unresolved}"));
    }
    if let Some(tls) = error.downcast_ref::<rustls::Error>() {
        let words = match tls {
            rustls::Error::InvalidCertificate(_) => "has no certificate that this machine trusts",
            _ => "failed at the TLS handshake",
        };
        return Some(words.to_owned());
    }
    if error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_incomplete_message) {
        return Some("closed the connection before it answered".to_owned());
    }
    let words = match error.downcast_ref::<io::Error>()?.kind() {
        io::ErrorKind::ConnectionRefused => "refused the connection",
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof => {
            "closed the connection before it answered"
        }
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => "cannot be reached over the network",
        _ => return None,
    };
    Some(words.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str) -> Option<u64> {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, text.parse().unwrap());
        retry_after(&headers)
    }

    #[test]
    fn a_wish_to_wait_is_read_in_both_forms() {
        assert_eq!(asked("120"), Some(120_000));
        assert_eq!(asked("0"), Some(0));
        assert_eq!(asked("99999999999999999999"), None);
        assert_eq!(asked("9999999999"), Some(RETRY_MOST_MS));
        assert_eq!(asked("Sun, 06 Nov 1994 08:49:37 GMT"), Some(0));
        assert_eq!(asked("Fri, 31 Dec 2100 23:59:59 GMT"), Some(RETRY_MOST_MS));
        assert_eq!(asked("soon"), None);
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }

    #[test]
    fn only_a_2xx_takes_a_delivery() {
        let outcome = |code: u16| {
            let status = StatusCode::from_u16(code).unwrap();
            PostResult::answered("https://h", status, &HeaderMap::new(), None).outcome
        };
        for code in [200, 201, 202, 204, 299] {
            assert_eq!(outcome(code), WebhookOutcome::Taken);
        }
        for code in [300, 304, 400, 401, 404, 429, 500, 503] {
            let why = format!("https://h answered {code}");
            assert_eq!(outcome(code), WebhookOutcome::Failed { why, retry_after_ms: None });
        }
        assert!(matches!(outcome(410), WebhookOutcome::Gone { .. }));
    }
}
