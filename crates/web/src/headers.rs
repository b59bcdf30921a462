//! Readers of request headers that every endpoint understands.

use http::header::{CONTENT_TYPE, ToStrError};
use http::{HeaderMap, HeaderName, HeaderValue};
use model::{Fault, Kind};
use sha2::{Digest, Sha256};

pub static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
static IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
static LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// A header's value, trimmed. A value that is not text is the error.
#[inline]
pub fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<Result<&'a str, ToStrError>> {
    headers.get(name).map(|value| value.to_str().map(str::trim))
}

/// The key by which a repeated request is recognised. Endpoints have limits of their own for it.
#[inline]
pub fn idempotency_key(headers: &HeaderMap) -> Option<Result<&str, ToStrError>> {
    text(headers, &IDEMPOTENCY_KEY)
}

/// Fingerprint of the parts of a request that must be the same in a repeat.
pub fn request_fingerprint<const N: usize>(parts: [&str; N]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

/// The id of the last event that a client of a stream has seen; an empty value is none.
#[inline]
pub fn last_event_id(headers: &HeaderMap) -> Option<Result<&str, ToStrError>> {
    text(headers, &LAST_EVENT_ID).filter(|id| !matches!(id, Ok("")))
}

/// Whether a request names a last event, readable or not.
pub fn has_last_event_id(headers: &HeaderMap) -> bool {
    headers.contains_key(&LAST_EVENT_ID)
}

/// JSON of any kind, or a request without the header, is read; anything else is refused with 415.
pub fn check_media_type(headers: &HeaderMap) -> Result<(), Fault> {
    let Some(said) = headers.get(CONTENT_TYPE) else { return Ok(()) };
    // The usual case.
    if said == "application/json" {
        return Ok(());
    }
    let bare = said.to_str().unwrap_or("?").split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let json = bare == "application/json"
        || bare == "text/json"
        || (bare.starts_with("application/") && bare.ends_with("+json"));
    if json || bare.is_empty() {
        return Ok(());
    }
    let said: String = bare.chars().filter(char::is_ascii_graphic).take(64).collect();
    let message = format!("send the header Content-Type: application/json; this request says {said}");
    Err(Fault::new(Kind::MediaType, message))
}

/// The caller's own id for the request if it is valid, else a new one.
pub fn request_id(headers: &HeaderMap) -> String {
    let given = headers.get(&REQUEST_ID).and_then(|v| v.to_str().ok());
    match given {
        Some(id) if !id.is_empty() && id.len() <= 128 && id.bytes().all(|b| b.is_ascii_graphic()) => id.to_owned(),
        Some(_) | None => uuid::Uuid::now_v7().to_string(),
    }
}

/// The value of a header that is different in every answer. It is marked so that HTTP/2 keeps it out of its table of headers,
/// where it would displace those that repeat.
pub fn unrepeated(value: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(value).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// The W3C trace context, if it is valid.
pub fn trace(headers: &HeaderMap) -> Option<&str> {
    let text = headers.get(&TRACEPARENT)?.to_str().ok()?;
    let mut fields = text.split('-');
    let hex = |field: Option<&str>, len: usize| {
        field.is_some_and(|f| f.len() == len && f.bytes().all(|b| b.is_ascii_hexdigit() && !b.is_ascii_uppercase()))
    };
    let whole = hex(fields.next(), 2) && hex(fields.next(), 32) && hex(fields.next(), 16) && hex(fields.next(), 2);
    (whole && fields.next().is_none()).then_some(text)
}

#[cfg(test)]
mod tests {

    use super::*;

    fn with(name: &'static str, value: &[u8]) -> HeaderMap {
        HeaderMap::from_iter([(HeaderName::from_static(name), HeaderValue::from_bytes(value).unwrap())])
    }

    #[test]
    fn a_last_event_id_is_text_or_unreadable_and_an_empty_one_is_none() {
        for (value, expected) in
            [(&b" a.1 "[..], Some("a.1")), (b"", None), (b"  ", None), (b"\xff", Some("unreadable"))]
        {
            let headers = with("last-event-id", value);
            assert_eq!(last_event_id(&headers).map(|id| id.unwrap_or("unreadable")), expected, "{value:?}");
            assert!(has_last_event_id(&headers));
        }
        assert!(last_event_id(&HeaderMap::new()).is_none() && !has_last_event_id(&HeaderMap::new()));
    }

    #[test]
    fn an_idempotency_key_is_trimmed_and_an_empty_one_is_there() {
        for (value, expected) in [(&b" k "[..], "k"), (b"", ""), (b"\xff", "unreadable")] {
            let headers = with("idempotency-key", value);
            assert_eq!(idempotency_key(&headers).map(|key| key.unwrap_or("unreadable")), Some(expected));
        }
        assert!(idempotency_key(&HeaderMap::new()).is_none());
    }

    #[test]
    fn parts_of_a_request_do_not_run_together() {
        assert_ne!(request_fingerprint(["ab", "c"]), request_fingerprint(["a", "bc"]));
        assert_eq!(request_fingerprint(["ab", "c"]), request_fingerprint(["ab", "c"]));
    }

    #[test]
    fn json_of_any_kind_is_read_and_other_media_types_are_refused() {
        for good in ["application/json", "Application/JSON; charset=utf-8", "application/a2a+json", "text/json", ""] {
            assert!(check_media_type(&with("content-type", good.as_bytes())).is_ok(), "{good:?}");
        }
        assert!(check_media_type(&HeaderMap::new()).is_ok());
        for bad in ["text/plain", "application/xml", "image/svg+json"] {
            assert_eq!(
                check_media_type(&with("content-type", bad.as_bytes())).unwrap_err().kind,
                Kind::MediaType,
                "{bad}"
            );
        }
    }
}
