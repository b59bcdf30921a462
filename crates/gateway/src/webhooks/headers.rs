//! Headers of a delivery: the receiver's credentials, the signature, and the ids that make a repeat recognisable.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, CONTENT_TYPE, InvalidHeaderValue};
use http::{HeaderMap, HeaderName, HeaderValue};
use model::PushSpec;
use web::credentials::API_KEY;

static NOTIFICATION_TOKEN: HeaderName = HeaderName::from_static("a2a-notification-token");
/// The name that most implementations use.
static X_NOTIFICATION_TOKEN: HeaderName = HeaderName::from_static("x-a2a-notification-token");
static NOTIFICATION_JWT: HeaderName = HeaderName::from_static("x-a2a-notification-jwt");
static EVENT_ID: HeaderName = HeaderName::from_static("x-a2a-event-id");
static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
static WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
static WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
static WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// The way in which a receiver authenticates a delivery.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Bearer,
    Basic,
    ApiKey,
    /// The credentials are the key of the signature and are never sent.
    Hmac,
    Other,
}

fn scheme(name: &str) -> Scheme {
    match name.to_ascii_lowercase().as_str() {
        "bearer" => Scheme::Bearer,
        "basic" => Scheme::Basic,
        "apikey" | "api-key" | "api_key" | "x-api-key" => Scheme::ApiKey,
        "hmac" | "hmac-sha256" | "hmac_sha256" => Scheme::Hmac,
        _ => Scheme::Other,
    }
}

/// The key that signs a delivery: the config's own secret, the server's, or the token of the config.
pub(super) fn signing_key<'a>(spec: &'a PushSpec, server: Option<&'a str>) -> Option<&'a str> {
    let own = match (&spec.scheme, &spec.credentials) {
        (Some(name), Some(credentials)) if scheme(name) == Scheme::Hmac => Some(credentials.as_str()),
        _ => None,
    };
    own.or(server).or(spec.token.as_deref())
}

/// The facts of one delivery that its headers state.
pub(super) struct DeliveryFacts<'a> {
    pub(super) spec: &'a PushSpec,
    pub(super) a2a_json: bool,
    pub(super) event: &'a str,
    pub(super) id: &'a str,
    pub(super) timestamp: i64,
    pub(super) signature: Option<&'a str>,
    pub(super) jwt: Option<&'a str>,
}

pub(super) fn headers(around: &DeliveryFacts<'_>) -> Result<HeaderMap, InvalidHeaderValue> {
    let DeliveryFacts { spec, a2a_json, event, id, timestamp, signature, jwt } = *around;
    let mut headers = HeaderMap::with_capacity(12);
    let kind = if a2a_json { "application/a2a+json" } else { "application/json" };
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    if let Some(token) = &spec.token {
        let token = secret(token)?;
        headers.insert(NOTIFICATION_TOKEN.clone(), token.clone());
        headers.insert(X_NOTIFICATION_TOKEN.clone(), token);
    }
    let own = match (&spec.scheme, &spec.credentials) {
        (Some(name), Some(credentials)) => {
            if let Some((header, value)) = credential(name, credentials)? {
                headers.insert(header, value);
            }
            true
        }
        // Without credentials a scheme only says which kind of token the receiver accepts.
        (_, None) | (None, Some(_)) => false,
    };
    if let Some(jwt) = jwt {
        if own {
            headers.insert(NOTIFICATION_JWT.clone(), secret(jwt)?);
        } else {
            headers.insert(AUTHORIZATION, secret(&format!("Bearer {jwt}"))?);
        }
    }
    if let Some(trace) = &spec.trace {
        headers.insert(TRACEPARENT.clone(), HeaderValue::from_str(trace)?);
    }
    headers.insert(EVENT_ID.clone(), HeaderValue::from_str(event)?);
    headers.insert(WEBHOOK_ID.clone(), HeaderValue::from_str(id)?);
    headers.insert(WEBHOOK_TIMESTAMP.clone(), HeaderValue::from(timestamp));
    if let Some(signature) = signature {
        headers.insert(WEBHOOK_SIGNATURE.clone(), HeaderValue::from_str(signature)?);
    }
    Ok(headers)
}

fn credential(name: &str, credentials: &str) -> Result<Option<(HeaderName, HeaderValue)>, InvalidHeaderValue> {
    let known = match scheme(name) {
        Scheme::Bearer => (AUTHORIZATION, secret(&format!("Bearer {credentials}"))?),
        // `user:pass`, or base64 of it, which has no colon.
        Scheme::Basic if credentials.contains(':') => {
            (AUTHORIZATION, secret(&format!("Basic {}", STANDARD.encode(credentials)))?)
        }
        Scheme::Basic => (AUTHORIZATION, secret(&format!("Basic {credentials}"))?),
        Scheme::ApiKey => (API_KEY.clone(), secret(credentials)?),
        Scheme::Hmac => return Ok(None),
        Scheme::Other => (AUTHORIZATION, secret(&format!("{name} {credentials}"))?),
    };
    Ok(Some(known))
}

/// A value that debug output hides. Text beyond ASCII is sent as UTF-8.
fn secret(text: &str) -> Result<HeaderValue, InvalidHeaderValue> {
    let mut value = HeaderValue::from_bytes(text.as_bytes())?;
    value.set_sensitive(true);
    Ok(value)
}

/// An id that a caller chose, escaped for a header.
pub(super) fn header_safe(id: &str) -> String {
    let mut safe = String::with_capacity(id.len());
    for byte in id.bytes() {
        if byte.is_ascii_graphic() && byte != b'%' {
            safe.push(char::from(byte));
        } else {
            safe.push_str(&format!("%{byte:02X}"));
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_fits_into_a_header_whatever_is_in_it() {
        assert_eq!(header_safe("mine-1"), "mine-1");
        assert_eq!(header_safe("a b\n%é"), "a%20b%0A%25%C3%A9");
    }

    #[test]
    fn the_nearest_secret_signs() {
        let spec = |scheme: Option<&str>, token: Option<&str>| PushSpec {
            url: String::new(),
            token: token.map(str::to_owned),
            scheme: scheme.map(str::to_owned),
            credentials: Some("own".into()),
            dialect: "a2a_v1".into(),
            shown: None,
            trace: None,
        };
        for name in ["HMAC", "hmac-sha256", "HMAC-SHA256"] {
            assert_eq!(signing_key(&spec(Some(name), Some("token")), Some("server")), Some("own"));
        }
        assert_eq!(signing_key(&spec(Some("Bearer"), Some("token")), Some("server")), Some("server"));
        assert_eq!(signing_key(&spec(Some("Bearer"), Some("token")), None), Some("token"));
        assert_eq!(signing_key(&spec(None, None), None), None);
    }
}
