//! Cross-origin requests of browsers. None are allowed unless configured; the demo allows loopback pages.

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use crate::body::{Response, ResponseBody};

const HEADERS: &str = "authorization, content-type, accept, a2a-version, a2a-extensions, x-a2a-extensions, x-api-key, \
                       x-platform-user-id, last-event-id, idempotency-key, x-a2a-dialect, traceparent, tracestate, x-request-id, x-grpc-web, x-user-agent, grpc-timeout, grpc-encoding, x-a2a-agent";
const EXPOSED: &str = "grpc-status, grpc-message, grpc-status-details-bin, a2a-event-id, a2a-extensions, x-a2a-dialect, etag, retry-after, x-request-id";

/// Origins whose pages may read answers.
#[derive(Clone, Copy, Debug)]
pub struct AllowedOrigins<'a> {
    /// Origins as browsers send them; `*` is every origin.
    pub listed: &'a [String],
    /// Pages of loopback addresses, too.
    pub loopback: bool,
}

/// The answer to a preflight request, if the request is one.
pub fn preflight(origins: AllowedOrigins<'_>, method: &Method, headers: &HeaderMap) -> Option<Response> {
    if method != Method::OPTIONS || !headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD) {
        return None;
    }
    let mut response = Response::new(ResponseBody::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    if allow(origins, headers, response.headers_mut()) {
        let out = response.headers_mut();
        out.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, PUT, DELETE, OPTIONS"));
        out.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(HEADERS));
        out.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    }
    Some(response)
}

/// Adds the headers that let the calling page read the answer. False where there is no page, or it is not allowed.
pub fn allow(origins: AllowedOrigins<'_>, headers: &HeaderMap, out: &mut HeaderMap) -> bool {
    let Some(origin) = headers.get(ORIGIN) else { return false };
    let Ok(text) = origin.to_str() else { return false };
    let listed = origins.listed.iter().any(|listed| listed == "*" || listed == text);
    let allowed = listed || (origins.loopback && is_loopback(text));
    if !allowed {
        return false;
    }
    out.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
    out.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
    out.append(VARY, HeaderValue::from_static("origin"));
    true
}

fn is_loopback(origin: &str) -> bool {
    let Some((_, authority)) = origin.split_once("://") else { return false };
    let host = match authority.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::is_loopback;

    #[test]
    fn loopback_is_the_host_not_a_prefix_of_it() {
        for good in ["http://localhost:3000", "http://127.0.0.1", "https://[::1]:8443"] {
            assert!(is_loopback(good), "{good}");
        }
        for bad in ["http://localhost.evil.example", "http://127.0.0.1.evil.example", "null", "http://10.0.0.1"] {
            assert!(!is_loopback(bad), "{bad}");
        }
    }
}
