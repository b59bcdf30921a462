//! Credentials that a request shows: one parser for each kind. Which of them an endpoint accepts, and whose they are, is
//! decided elsewhere.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, ToStrError};
use http::{HeaderMap, HeaderName};

use crate::headers::text;

pub static API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Schemes of the `Authorization` header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthScheme {
    Bearer,
    Basic,
    Other,
}

/// The `Authorization` header of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Authorization<'a> {
    pub scheme: AuthScheme,
    /// The text behind the scheme and a space, trimmed; `None` without the space.
    pub credentials: Option<&'a str>,
}

impl<'a> Authorization<'a> {
    /// The header of a request, if it has one. A value that is not text is the error.
    #[inline]
    pub fn of(headers: &'a HeaderMap) -> Option<Result<Authorization<'a>, ToStrError>> {
        headers.get(AUTHORIZATION).map(|value| value.to_str().map(Authorization::parse))
    }

    fn parse(text: &'a str) -> Authorization<'a> {
        let (scheme, credentials) = match text.split_once(' ') {
            Some((scheme, credentials)) => (scheme, Some(credentials.trim())),
            None => (text, None),
        };
        let scheme = if scheme.eq_ignore_ascii_case("bearer") {
            AuthScheme::Bearer
        } else if scheme.eq_ignore_ascii_case("basic") {
            AuthScheme::Basic
        } else {
            AuthScheme::Other
        };
        Authorization { scheme, credentials }
    }

    /// User and password of HTTP Basic.
    pub fn basic(self) -> Option<(String, String)> {
        let encoded = self.credentials.filter(|_| self.scheme == AuthScheme::Basic)?;
        let decoded = String::from_utf8(STANDARD.decode(encoded).ok()?).ok()?;
        let (user, password) = decoded.split_once(':')?;
        Some((user.to_owned(), password.to_owned()))
    }
}

/// The bearer token of a request.
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let authorization = Authorization::of(headers)?.ok()?;
    authorization.credentials.filter(|_| authorization.scheme == AuthScheme::Bearer)
}

/// The value of `X-Api-Key`, trimmed. A value that is not text is the error.
#[inline]
pub fn api_key(headers: &HeaderMap) -> Option<Result<&str, ToStrError>> {
    text(headers, &API_KEY)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn with(name: HeaderName, value: &[u8]) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_bytes(value).unwrap())])
    }

    #[test]
    fn a_bearer_token_is_read_in_any_case_of_its_scheme_and_nothing_else_is_one() {
        for (value, token) in [
            ("Bearer abc", Some("abc")),
            ("bEARER   abc ", Some("abc")),
            ("Bearer ", Some("")),
            ("Bearer", None),
            ("Basic abc", None),
            ("Bearers abc", None),
            ("", None),
        ] {
            assert_eq!(bearer(&with(AUTHORIZATION, value.as_bytes())), token, "{value:?}");
        }
        assert_eq!(bearer(&HeaderMap::new()), None);
        assert_eq!(bearer(&with(AUTHORIZATION, b"Bearer \xff")), None);
    }

    #[test]
    fn a_header_without_text_is_told_from_a_missing_one() {
        assert!(Authorization::of(&HeaderMap::new()).is_none());
        assert!(Authorization::of(&with(AUTHORIZATION, b"\xff")).is_some_and(|read| read.is_err()));
        assert!(api_key(&HeaderMap::new()).is_none());
        assert!(api_key(&with(API_KEY.clone(), b"\xff")).is_some_and(|read| read.is_err()));
        assert_eq!(api_key(&with(API_KEY.clone(), b" k ")).unwrap().unwrap(), "k");
        let bare = with(AUTHORIZATION, b"Digest");
        let read = Authorization::of(&bare).unwrap().unwrap();
        assert_eq!(read, Authorization { scheme: AuthScheme::Other, credentials: None });
    }

    #[test]
    fn basic_is_a_user_and_a_password() {
        for (value, expected) in [
            ("Basic dTpwOnE=", Some(("u", "p:q"))),
            ("basic dTo=", Some(("u", ""))),
            ("Basic dQ==", None),
            ("Basic !", None),
            ("Basic /w==", None),
            ("Basic", None),
            ("Bearer dTpw", None),
        ] {
            let headers = with(AUTHORIZATION, value.as_bytes());
            let read = Authorization::of(&headers).unwrap().unwrap().basic();
            assert_eq!(read.as_ref().map(|(user, password)| (user.as_str(), password.as_str())), expected, "{value}");
        }
    }
}
