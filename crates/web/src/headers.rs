//! Readers of request headers that every endpoint understands.

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName};
use model::{Fault, Kind};

pub static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

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

/// The caller's own id for the request if it is a decent one, else ours.
pub fn request_id(headers: &HeaderMap) -> String {
    let given = headers.get(&REQUEST_ID).and_then(|v| v.to_str().ok());
    match given {
        Some(id) if !id.is_empty() && id.len() <= 128 && id.bytes().all(|b| b.is_ascii_graphic()) => id.to_owned(),
        Some(_) | None => uuid::Uuid::now_v7().to_string(),
    }
}

/// The W3C trace context, if it is one.
pub fn trace(headers: &HeaderMap) -> Option<&str> {
    let text = headers.get(&TRACEPARENT)?.to_str().ok()?;
    let mut fields = text.split('-');
    let hex = |field: Option<&str>, len: usize| {
        field.is_some_and(|f| f.len() == len && f.bytes().all(|b| b.is_ascii_hexdigit() && !b.is_ascii_uppercase()))
    };
    let whole = hex(fields.next(), 2) && hex(fields.next(), 32) && hex(fields.next(), 16) && hex(fields.next(), 2);
    (whole && fields.next().is_none()).then_some(text)
}
