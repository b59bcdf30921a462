//! One attempt to deliver to an address that a user of the market chose: a webhook of an external agent, or a seller's
//! endpoint. Signature and headers are the market's; the network, the policy of addresses and the breaker of the
//! receiver are those of every webhook of the server.

use std::sync::Arc;
use std::time::Duration;

use engine::EndpointPermit;
use hmac::{Hmac, KeyInit, Mac};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};
use model::Time;
use sha2::Sha256;
use url::Url;
use web::outbound::{PostRequest, PostResult, origin};

use crate::service::{Market, records};

/// A receiver that may be called now.
pub(crate) struct Destination {
    url: Url,
    pub(crate) endpoint: Arc<str>,
    permit: EndpointPermit,
}

/// Why a receiver is not called now.
pub(crate) enum NoDestination {
    /// It keeps failing, and is left alone until then.
    Paused(Time),
    /// The text says why it can never be called.
    Wrong(String),
}

/// A body and the facts that its headers state.
pub(crate) struct MarketDelivery {
    /// The receiver's name in the words of the outcome.
    pub(crate) receiver: Arc<str>,
    /// The same in every attempt, so that a receiver recognises repeats.
    pub(crate) request_id: Arc<str>,
    pub(crate) event: Option<&'static str>,
    pub(crate) attempt: u32,
    pub(crate) body: String,
    pub(crate) secret: Arc<str>,
    pub(crate) timeout: Duration,
    pub(crate) answer_bytes: Option<usize>,
}

/// An attempt that was made. Its outcome counts for the receiver's breaker once it is [`Attempt::settled`].
pub(crate) struct Attempt {
    pub(crate) result: PostResult,
    permit: EndpointPermit,
}

impl Attempt {
    pub(crate) fn settled(self) -> PostResult {
        self.permit.settle(&self.result.outcome);
        self.result
    }
}

impl Market {
    pub(crate) fn destination(&self, url: &str) -> Result<Destination, NoDestination> {
        let url = Url::parse(url).map_err(|_| NoDestination::Wrong("its url is not an address".to_owned()))?;
        let endpoint = origin(&url);
        let permit = self.engine().begin_delivery(&endpoint).map_err(NoDestination::Paused)?;
        Ok(Destination { url, endpoint, permit })
    }

    pub(crate) async fn attempt(&self, to: Destination, delivery: MarketDelivery) -> Attempt {
        let Destination { url, permit, .. } = to;
        let timestamp = self.now().0.div_euclid(1_000).to_string();
        let result = match headers(&delivery, &timestamp) {
            Some(headers) => {
                let request = PostRequest {
                    url,
                    receiver: delivery.receiver,
                    event: delivery.request_id,
                    attempt: delivery.attempt,
                    headers,
                    body: delivery.body.into(),
                    timeout: delivery.timeout,
                    any_address: self.config().capabilities.private_callbacks,
                    answer_bytes: delivery.answer_bytes,
                };
                self.shared.post.post(request).await
            }
            None => PostResult::gone("its id does not fit into a header".to_owned()),
        };
        Attempt { result, permit }
    }

    /// A redelivery means that the receiver is back.
    pub(crate) fn vouch_for(&self, url: &str) {
        if let Ok(url) = Url::parse(url) {
            self.engine().vouch_for_endpoint(&origin(&url));
        }
    }
}

fn headers(delivery: &MarketDelivery, timestamp: &str) -> Option<HeaderMap> {
    let signature = sign(delivery.secret.as_bytes(), timestamp, &delivery.request_id, delivery.body.as_bytes());
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(event) = delivery.event {
        headers.insert("x-uuagent-event", HeaderValue::from_static(event));
    }
    headers.insert("x-uuagent-signature", HeaderValue::from_str(&signature).ok()?);
    headers.insert("x-uuagent-timestamp", HeaderValue::from_str(timestamp).ok()?);
    headers.insert("x-uuagent-request-id", HeaderValue::from_str(&delivery.request_id).ok()?);
    Some(headers)
}

/// Hex of HMAC-SHA256 over time, request and body.
fn sign(secret: &[u8], timestamp: &str, request_id: &str, body: &[u8]) -> String {
    // HMAC accepts keys of any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret) else { return String::new() };
    for piece in [timestamp.as_bytes(), b".", request_id.as_bytes(), b".", body] {
        mac.update(piece);
    }
    records::hex(&mac.finalize().into_bytes()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 4231, case 2, in three pieces; the dots are part of what is signed.
    #[test]
    fn the_signature_is_hmac_sha256_over_time_request_and_body() {
        let mut mac = Hmac::<Sha256>::new_from_slice(b"Jefe").unwrap();
        mac.update(b"1700000000.tx_1/invoke.{\"a\":1}");
        let expected = records::hex(&mac.finalize().into_bytes());
        assert_eq!(*sign(b"Jefe", "1700000000", "tx_1/invoke", b"{\"a\":1}"), *expected);
        assert_eq!(expected.len(), 64);
    }
}
