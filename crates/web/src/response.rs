//! Responses of one form each: JSON, text, and a rejected request. Pages are in [`crate::html`], files in
//! [`crate::file_response`].

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};

use crate::body::{Response, ResponseBody};
use crate::request_log::RequestLog;

/// A JSON document.
#[inline]
pub fn json(body: impl Into<ResponseBody>) -> Response {
    let mut response = Response::new(body.into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A JSON document that no cache may keep.
pub fn private_json(status: StatusCode, body: impl Into<ResponseBody>) -> Response {
    let mut response = json(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

pub fn text(status: StatusCode, text: impl Into<String>) -> Response {
    let mut response = Response::new(ResponseBody::from(text.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// The answer to a method that an address does not have.
pub fn not_allowed(allow: &str) -> Response {
    let mut response = text(StatusCode::METHOD_NOT_ALLOWED, format!("this address answers to {allow} only\n"));
    if let Ok(allow) = HeaderValue::from_str(allow) {
        response.headers_mut().insert(ALLOW, allow);
    }
    response
}

/// A rejected request as it is answered: the endpoint's error in its own JSON, and the headers of HTTP that go with it.
#[derive(Debug)]
pub struct Rejection {
    status: StatusCode,
    /// For the log.
    message: String,
    body: Bytes,
    allow: Option<HeaderValue>,
    retry_after_s: Option<u64>,
    challenge: Option<HeaderValue>,
}

impl Rejection {
    /// `message` is for the log, `body` is the JSON of the answer.
    pub fn new(status: StatusCode, message: impl Into<String>, body: impl Into<Bytes>) -> Rejection {
        let (message, body) = (message.into(), body.into());
        Rejection { status, message, body, allow: None, retry_after_s: None, challenge: None }
    }

    /// The methods that the address has, for 405.
    pub fn allow(self, methods: Option<&str>) -> Rejection {
        Rejection { allow: methods.and_then(|methods| HeaderValue::from_str(methods).ok()), ..self }
    }

    pub fn retry_after(self, seconds: Option<impl Into<u64>>) -> Rejection {
        Rejection { retry_after_s: seconds.map(Into::into), ..self }
    }

    /// `WWW-Authenticate`, where the status is 401.
    pub fn challenge(self, challenge: impl FnOnce() -> HeaderValue) -> Rejection {
        let challenge = (self.status == StatusCode::UNAUTHORIZED).then(challenge);
        Rejection { challenge, ..self }
    }

    /// The response; the log line of the request has the message.
    pub fn respond(self, log: &mut RequestLog) -> Response {
        let mut response = private_json(self.status, self.body);
        log.fault = Some(self.message);
        let headers = response.headers_mut();
        if let Some(allow) = self.allow {
            headers.insert(ALLOW, allow);
        }
        if let Some(seconds) = self.retry_after_s {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        if let Some(challenge) = self.challenge {
            headers.insert(WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rejection_has_the_headers_of_its_status_and_is_in_the_log() {
        let mut log = RequestLog::default();
        let rejection = |status| Rejection::new(status, "no", "{}").challenge(|| HeaderValue::from_static("Bearer"));
        let response = rejection(StatusCode::UNAUTHORIZED).retry_after(Some(3_u32)).respond(&mut log);
        let header = |name| response.headers().get(name).map(|value| value.to_str().unwrap());
        assert_eq!((response.status(), log.fault.as_deref()), (StatusCode::UNAUTHORIZED, Some("no")));
        assert_eq!((header(WWW_AUTHENTICATE), header(RETRY_AFTER), header(ALLOW)), (Some("Bearer"), Some("3"), None));
        assert_eq!((header(CACHE_CONTROL), header(CONTENT_TYPE)), (Some("no-store"), Some("application/json")));

        let response = rejection(StatusCode::METHOD_NOT_ALLOWED).allow(Some("GET, HEAD")).respond(&mut log);
        assert_eq!(response.headers()[ALLOW], "GET, HEAD");
        assert!(!response.headers().contains_key(WWW_AUTHENTICATE) && !response.headers().contains_key(RETRY_AFTER));
    }
}
