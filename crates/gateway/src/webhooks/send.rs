//! One attempt over the network: without proxies, redirects and retries, and with a time limit. The engine repeats
//! attempts.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use http::header::{HeaderMap, LOCATION, RETRY_AFTER};
use model::ports::webhook::WebhookOutcome;
use reqwest::Body;
use url::Url;
use web::outbound::{HostResolver, OutboundClients, OutboundPolicy, resolve};

/// Longest `Retry-After` that is respected.
const RETRY_MOST_MS: u64 = 24 * 3_600_000;

/// Bytes of a response body that are read to keep the connection.
const BODY_MOST: usize = 16 << 10;
const BODY_TIME: Duration = Duration::from_millis(200);

/// Posts with a time limit.
pub(super) struct TimedPost {
    clients: OutboundClients,
    connect: Duration,
    whole: Duration,
}

impl TimedPost {
    pub(super) fn new(
        policy: &Arc<OutboundPolicy>,
        resolver: &Arc<dyn HostResolver>,
        connect: Duration,
        whole: Duration,
    ) -> reqwest::Result<TimedPost> {
        Ok(TimedPost { clients: OutboundClients::new(policy, resolver, connect)?, connect, whole })
    }

    pub(super) async fn send(&self, endpoint: &str, url: Url, headers: HeaderMap, body: Body) -> WebhookOutcome {
        let sending = self.clients.to(&url).post(url).headers(headers).body(body).send();
        let failed = |why: &str| WebhookOutcome::Failed { why: format!("{endpoint} {why}"), retry_after_ms: None };
        match tokio::time::timeout(self.whole, sending).await {
            // The status decides, even if the body fails.
            Ok(Ok(response)) => {
                let receipt = answered(endpoint, response.status(), response.headers());
                leave(response).await;
                receipt
            }
            Ok(Err(error)) if error.is_connect() && error.is_timeout() => {
                failed(&format!("took no connection within {} ms", self.connect.as_millis()))
            }
            Ok(Err(error)) => failed(&trouble(&error)),
            Err(_) => failed(&format!("gave no answer within {} ms", self.whole.as_millis())),
        }
    }
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

fn answered(endpoint: &str, status: StatusCode, headers: &HeaderMap) -> WebhookOutcome {
    let code = status.as_u16();
    let failed = |why: String, retry_after_ms| WebhookOutcome::Failed { why, retry_after_ms };
    match code {
        200..=299 => WebhookOutcome::Taken,
        410 => WebhookOutcome::Gone { why: format!("{endpoint} answered 410: it wants no more") },
        300..=399 if headers.contains_key(LOCATION) => failed(
            format!("{endpoint} answered {code}: redirects are not followed; register the address it moved to"),
            None,
        ),
        429 | 503 => failed(format!("{endpoint} answered {code}"), retry_after(headers)),
        _ => failed(format!("{endpoint} answered {code}"), None),
    }
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
fn trouble(error: &reqwest::Error) -> String {
    let unknown = if error.is_connect() { "could not be connected to" } else { "broke off before it answered" };
    find_trouble(error).unwrap_or_else(|| unknown.to_owned())
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
        let receipt = |code: u16| answered("https://h", StatusCode::from_u16(code).unwrap(), &HeaderMap::new());
        for code in [200, 201, 202, 204, 299] {
            assert_eq!(receipt(code), WebhookOutcome::Taken);
        }
        for code in [300, 304, 400, 401, 404, 429, 500, 503] {
            let why = format!("https://h answered {code}");
            assert_eq!(receipt(code), WebhookOutcome::Failed { why, retry_after_ms: None });
        }
        assert!(matches!(receipt(410), WebhookOutcome::Gone { .. }));
    }
}
