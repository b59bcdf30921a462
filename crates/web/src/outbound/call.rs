//! One request that an operator composes: any method and headers, under the outbound policy. The answer is read by the
//! caller, piece by piece.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, Version};
use tokio::time::{Instant, timeout_at};
use url::Url;

use super::HttpPost;
use super::post::{is_forbidden, trouble};

pub struct OutboundCall {
    pub method: Method,
    pub url: Url,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// Time limit for the head of the answer.
    pub head_within: Duration,
    /// Time limit for the whole answer.
    pub whole_within: Duration,
    /// The most bytes of the answer's body.
    pub most: usize,
}

/// A call without an answer; the text is a sentence without its subject, the address.
#[derive(Debug)]
pub enum CallError {
    /// The policy does not allow the address.
    Refused(String),
    Failed(String),
}

/// An answer whose body is still to be read.
pub struct OutboundAnswer {
    pub status: StatusCode,
    pub version: Version,
    pub headers: HeaderMap,
    response: reqwest::Response,
    until: Instant,
    whole_within: Duration,
    most: usize,
    read: usize,
}

impl HttpPost {
    /// Makes a call. A redirect is an answer like any other.
    pub async fn call(&self, call: OutboundCall) -> Result<OutboundAnswer, CallError> {
        let OutboundCall { method, url, headers, body, head_within, whole_within, most } = call;
        // A resolver does not see literal addresses.
        if let Err(refused) = self.policy().admit(&url) {
            return Err(CallError::Refused(format!("is refused: {}", refused.message())));
        }
        let clients = self.clients(false).map_err(|error| {
            tracing::error!(%error, "cannot make an HTTP client for calls");
            CallError::Failed("cannot be called: this server can make no connections".to_owned())
        })?;
        let began = Instant::now();
        let sending = clients.to(&url).request(method, url.clone()).headers(headers).body(body).send();
        let response = match timeout_at(began + head_within, sending).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) if is_forbidden(&error) => return Err(CallError::Refused(trouble(&error))),
            Ok(Err(error)) if error.is_connect() && error.is_timeout() => {
                return Err(CallError::Failed("took no connection in time".to_owned()));
            }
            Ok(Err(error)) => return Err(CallError::Failed(trouble(&error))),
            Err(_) => {
                let seconds = head_within.as_secs();
                return Err(CallError::Failed(format!("gave no answer within {seconds} s")));
            }
        };
        Ok(OutboundAnswer {
            status: response.status(),
            version: response.version(),
            headers: response.headers().clone(),
            response,
            until: began + whole_within,
            whole_within,
            most,
            read: 0,
        })
    }
}

impl OutboundAnswer {
    /// The next piece of the body; none at its end. No piece is lost if the future is dropped. The error is a sentence
    /// without its subject.
    pub async fn piece(&mut self) -> Result<Option<Bytes>, String> {
        let piece = match timeout_at(self.until, self.response.chunk()).await {
            Ok(Ok(piece)) => piece,
            Ok(Err(_)) => return Err("broke off within its answer".to_owned()),
            Err(_) => return Err(format!("had not ended its answer after {} s", self.whole_within.as_secs())),
        };
        let Some(piece) = piece else { return Ok(None) };
        self.read += piece.len();
        if self.read > self.most {
            return Err(format!("sent more than {} bytes, which is the limit", self.most));
        }
        Ok(Some(piece))
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::sync::Arc;

    use model::ports::Future;

    use super::super::{HostResolver, OutboundPolicy};
    use super::*;

    /// Every name is of this address.
    struct At(IpAddr);

    impl HostResolver for At {
        fn lookup(&self, _: String) -> Future<'static, std::io::Result<Vec<IpAddr>>> {
            let found = vec![self.0];
            Box::pin(async move { Ok(found) })
        }
    }

    fn post(address: &str, loopback: bool) -> HttpPost {
        let policy = OutboundPolicy { loopback, ..OutboundPolicy::default() };
        HttpPost::new(policy, Arc::new(At(address.parse().unwrap())))
    }

    fn get(url: &str) -> OutboundCall {
        OutboundCall {
            method: Method::GET,
            url: Url::parse(url).unwrap(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            head_within: Duration::from_secs(5),
            whole_within: Duration::from_secs(5),
            most: 1_024,
        }
    }

    #[tokio::test]
    async fn a_name_is_refused_for_the_addresses_that_it_resolves_to() {
        for (address, loopback) in [
            ("10.0.0.1", false),
            ("10.0.0.1", true),
            ("169.254.169.254", true),
            ("127.0.0.1", false),
            ("127.0.0.1", true),
            ("::1", true),
            ("fd00::1", false),
        ] {
            let called = post(address, loopback).call(get("https://innocent.example.com/")).await;
            let Err(CallError::Refused(says)) = called else { panic!("{address} {loopback}: no refusal") };
            assert!(says.contains("push.allow"), "{says}");
        }
    }

    #[tokio::test]
    async fn an_address_is_refused_as_it_is_written() {
        for url in ["http://example.com/", "https://127.0.0.1/", "https://[::1]/", "file:///etc/passwd"] {
            let called = post("8.8.8.8", false).call(get(url)).await;
            assert!(matches!(called, Err(CallError::Refused(_))), "{url}");
        }
    }
}
