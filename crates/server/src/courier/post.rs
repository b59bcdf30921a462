//! One attempt over the network: no proxy, no redirect, no second try, and an end in sight. Who tries again, and when, is
//! the engine's business.

use std::collections::HashMap;
use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use http::header::{HeaderMap, LOCATION, RETRY_AFTER};
use model::ports::courier::Receipt;
use reqwest::{Body, Client};
use url::Url;

use super::guard::Guard;
use super::resolve::{Guarded, Lookup, Unresolved};

/// A receiver that wants to be left alone for longer is asked after a day all the same.
const RETRY_MOST_MS: u64 = 24 * 3_600_000;

/// Connections kept for an endpoint: as many as deliver to it at a time, or each burst would connect anew.
const IDLE: usize = 64;
/// Of an answer's body, what is worth a connection.
const BODY_MOST: usize = 16 << 10;
const BODY_TIME: Duration = Duration::from_millis(200);

/// Clients, each with the addresses its resolver lets through.
pub(super) struct Post {
    usual: Client,
    /// For ports that an entry of the operator's list is about.
    by_port: HashMap<u16, Client>,
    connect: Duration,
    whole: Duration,
}

impl Post {
    pub(super) fn new(
        guard: &Arc<Guard>,
        lookup: &Arc<dyn Lookup>,
        connect: Duration,
        whole: Duration,
    ) -> reqwest::Result<Post> {
        let make = |port| client(Guarded { lookup: lookup.clone(), guard: guard.clone(), port }, connect);
        let mut by_port = HashMap::new();
        for port in guard.allow.iter().filter_map(super::guard::Allow::port) {
            by_port.insert(port, make(Some(port))?);
        }
        Ok(Post { usual: make(None)?, by_port, connect, whole })
    }

    pub(super) async fn send(&self, endpoint: &str, url: Url, headers: HeaderMap, body: Body) -> Receipt {
        let client = url.port_or_known_default().and_then(|port| self.by_port.get(&port)).unwrap_or(&self.usual);
        let sending = client.post(url).headers(headers).body(body).send();
        let failed = |why: &str| Receipt::Failed { why: format!("{endpoint} {why}"), retry_after_ms: None };
        match tokio::time::timeout(self.whole, sending).await {
            // The status is the answer, whatever becomes of the body.
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

/// Reads the little that usually follows, so that the connection can be used again; not for long, and no matter what it is.
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

fn client(resolver: Guarded, connect: Duration) -> reqwest::Result<Client> {
    let resolver = Arc::new(resolver);
    let builder = || {
        Client::builder()
            .user_agent(concat!("Rialto/", env!("CARGO_PKG_VERSION")))
            // A proxy would connect for us, to where nobody has looked.
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .dns_resolver(resolver.clone())
            .connect_timeout(connect)
            .pool_idle_timeout(Duration::from_secs(30))
            .pool_max_idle_per_host(IDLE)
    };
    builder().build().or_else(|error| {
        // Most likely the machine has no certificates of authorities. Plain http needs none.
        tracing::warn!(%error, "webhooks over https will fail: install the system's CA certificates (ca-certificates)");
        builder().tls_certs_only([]).build()
    })
}

fn answered(endpoint: &str, status: StatusCode, headers: &HeaderMap) -> Receipt {
    let code = status.as_u16();
    let failed = |why: String, retry_after_ms| Receipt::Failed { why, retry_after_ms };
    match code {
        200..=299 => Receipt::Taken,
        410 => Receipt::Gone { why: format!("{endpoint} answered 410: it wants no more") },
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

/// What kind of trouble it was, in words of our own: those of the libraries name addresses, paths and queries.
fn trouble(error: &reqwest::Error) -> String {
    let unknown = if error.is_connect() { "could not be connected to" } else { "broke off before it answered" };
    find_trouble(error).unwrap_or_else(|| unknown.to_owned())
}

/// Looks through all that an error was made of. One of I/O does not say what it wraps where others do.
fn find_trouble(error: &(dyn Error + 'static)) -> Option<String> {
    let within = || error.downcast_ref::<io::Error>()?.get_ref().and_then(|within| find_trouble(within));
    known_trouble(error).or_else(within).or_else(|| error.source().and_then(find_trouble))
}

fn known_trouble(error: &(dyn Error + 'static)) -> Option<String> {
    if let Some(unresolved) = error.downcast_ref::<Unresolved>() {
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
            assert_eq!(receipt(code), Receipt::Taken);
        }
        for code in [300, 304, 400, 401, 404, 429, 500, 503] {
            let why = format!("https://h answered {code}");
            assert_eq!(receipt(code), Receipt::Failed { why, retry_after_ms: None });
        }
        assert!(matches!(receipt(410), Receipt::Gone { .. }));
    }
}
