//! Files as downloads: their headers, ranges and entity tags. A browser saves a file of any type, and never runs it.

use bytes::Bytes;
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG,
    IF_NONE_MATCH, IF_RANGE, RANGE,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode, request};

use crate::body::{Response, ResponseBody};

/// The media type of a file that has none of its own.
pub const ANY_MEDIA_TYPE: &str = "application/octet-stream";

/// Facts of a file besides its bytes.
pub struct FileFacts<'a> {
    pub name: Option<&'a str>,
    pub media_type: Option<&'a str>,
    /// In hex; the entity tag.
    pub hash: &'a str,
    pub len: u64,
}

/// Whether the client has the file already.
pub fn is_known(headers: &HeaderMap, hash: &str) -> bool {
    let said = headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok()).unwrap_or_default();
    said.split(',').any(|one| {
        let tag = one.trim().trim_start_matches("W/");
        tag == "*" || tag.trim_matches('"') == hash
    })
}

/// The answer to a client that has the file already.
pub fn unchanged(facts: &FileFacts<'_>) -> Response {
    let mut response = Response::new(ResponseBody::empty());
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    put(response.headers_mut(), facts);
    response.headers_mut().remove(CONTENT_TYPE);
    response
}

/// The head of a download, without its bytes.
pub fn head_only(facts: &FileFacts<'_>) -> Response {
    let mut response = Response::new(ResponseBody::empty());
    put(response.headers_mut(), facts);
    response.headers_mut().insert(CONTENT_LENGTH, facts.len.into());
    response
}

/// The whole file, or the one range that the request asks for. An unreadable range is ignored.
pub fn whole(head: &request::Parts, facts: &FileFacts<'_>, bytes: Bytes) -> Response {
    if head.method == Method::HEAD {
        return head_only(facts);
    }
    let same =
        head.headers.get(IF_RANGE).is_none_or(|tag| tag.to_str().is_ok_and(|t| t.trim_matches('"') == facts.hash));
    let range = head.headers.get(RANGE).filter(|_| same).and_then(|value| value.to_str().ok());
    let range = range.and_then(|text| range_of(text, bytes.len()));
    let total = bytes.len();
    let (status, bytes) = match &range {
        Some(range) => (StatusCode::PARTIAL_CONTENT, bytes.slice(range.clone())),
        None => (StatusCode::OK, bytes),
    };
    let len = bytes.len();
    let mut response = Response::new(bytes.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    put(headers, facts);
    headers.insert(CONTENT_LENGTH, len.into());
    if let Some(range) = range
        && let Ok(said) =
            HeaderValue::from_str(&format!("bytes {}-{}/{total}", range.start, range.end.saturating_sub(1)))
    {
        headers.insert(CONTENT_RANGE, said);
    }
    response
}

fn put(headers: &mut HeaderMap, facts: &FileFacts<'_>) {
    let any = HeaderValue::from_static(ANY_MEDIA_TYPE);
    let media =
        facts.media_type.filter(|media| media.contains('/')).and_then(|media| HeaderValue::from_str(media).ok());
    headers.insert(CONTENT_TYPE, media.unwrap_or(any));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    headers.insert("content-security-policy", HeaderValue::from_static("sandbox; default-src 'none'"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    let named = HeaderValue::from_str(&disposition(facts.name));
    headers.insert(CONTENT_DISPOSITION, named.unwrap_or(HeaderValue::from_static("attachment")));
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{}\"", facts.hash)) {
        headers.insert(ETAG, tag);
    }
}

/// An attachment under the file's name: in ASCII for old clients, and as it is.
fn disposition(name: Option<&str>) -> String {
    let Some(name) = name.filter(|name| !name.is_empty()) else { return "attachment".to_owned() };
    let plain: String = name
        .chars()
        .map(|c| match c {
            '"' | '\\' | '/' | '%' => '_',
            c if c.is_ascii_graphic() || c == ' ' => c,
            _ => '_',
        })
        .collect();
    format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{}", percent(name))
}

/// Percent-encoding of every character that is not unreserved in a URL.
pub fn percent(text: &str) -> String {
    use std::fmt::Write;
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            other => {
                let _ = write!(out, "%{other:02X}");
            }
        }
    }
    out
}

/// One range of bytes.
fn range_of(text: &str, len: usize) -> Option<std::ops::Range<usize>> {
    let (from, to) = text.trim().strip_prefix("bytes=")?.split_once('-')?;
    let digits =
        |text: &str| (!text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse::<usize>().ok());
    let range = match (digits(from), digits(to)) {
        (Some(from), Some(to)) => from?..to?.min(len.checked_sub(1)?).checked_add(1)?,
        (Some(from), None) if to.is_empty() => from?..len,
        (None, Some(last)) if from.is_empty() => len.saturating_sub(last?)..len,
        (Some(_) | None, Some(_) | None) => return None,
    };
    (range.start < range.end && range.end <= len).then_some(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_understood_or_left() {
        for (text, expected) in [
            ("bytes=0-0", Some(0..1)),
            ("bytes=2-", Some(2..10)),
            ("bytes=-3", Some(7..10)),
            ("bytes=-99", Some(0..10)),
            ("bytes=8-99", Some(8..10)),
            ("bytes=10-", None),
            ("bytes=5-4", None),
            ("bytes=-0", None),
            ("bytes=0-1,3-4", None),
            ("bytes=a-b", None),
            ("bytes=+1-2", None),
            ("bytes=-", None),
            ("bytes=99999999999999999999-", None),
            ("lines=1-2", None),
        ] {
            assert_eq!(range_of(text, 10), expected, "{text}");
        }
        assert_eq!(range_of("bytes=0-0", 0), None);
    }

    #[test]
    fn names_are_for_saving() {
        assert_eq!(disposition(None), "attachment");
        assert_eq!(disposition(Some("a.pdf")), "attachment; filename=\"a.pdf\"; filename*=UTF-8''a.pdf");
        assert_eq!(
            disposition(Some("ü\"/../x")),
            "attachment; filename=\"___.._x\"; filename*=UTF-8''%C3%BC%22%2F..%2Fx"
        );
    }
}
