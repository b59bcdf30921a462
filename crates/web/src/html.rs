//! HTML pages, rendered on the server and without scripts: their shared head and style, and the response headers that
//! keep a page out of frames and caches.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderMap, HeaderValue, StatusCode};
use sha2::{Digest, Sha256};

use crate::body::Response;

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:36rem;margin:3rem auto;padding:0 1rem;color:#222;\
background:#fff}label{display:block;margin:1.25rem 0 0}input,textarea{display:block;width:100%;box-sizing:border-box;\
font:inherit;padding:.5rem;margin:.25rem 0 0}button{font:inherit;padding:.5rem 1.25rem;margin:1.5rem .5rem 0 0}\
table{width:100%;border-collapse:collapse;margin:1rem 0}caption{text-align:left;font-weight:600}\
th,td{text-align:left;padding:.35rem .5rem .35rem 0;border-bottom:1px solid #ddd;vertical-align:top}\
.number{text-align:right;white-space:nowrap}.wrong{color:#a00}.said{border-left:4px solid #888;padding-left:.75rem}\
code{word-break:break-all}.lines{white-space:pre-line}";

/// Targets of a page's forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forms {
    /// This server.
    Here,
    /// To this server, which then redirects the browser elsewhere.
    Onwards,
}

/// A whole page; `main` is markup.
pub fn document(title: &str, main: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
<meta name=\"viewport\" content=\"width=device-width\"><meta name=\"robots\" content=\"noindex\">\
<title>{}</title><style>{STYLE}</style></head><body><main>\n{main}</main></body></html>\n",
        escaped(title)
    )
}

pub fn response(status: StatusCode, page: String, forms: Forms) -> Response {
    let mut response = Response::new(Bytes::from(page).into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    guard(headers, forms);
    response
}

/// Headers of a page for one person: no frame, no script, no subresource, no cache, no referrer.
pub fn guard(headers: &mut HeaderMap, forms: Forms) {
    static POLICY: LazyLock<String> = LazyLock::new(|| {
        let style = STANDARD.encode(Sha256::digest(STYLE));
        format!("default-src 'none'; style-src 'sha256-{style}'; frame-ancestors 'none'; base-uri 'none'")
    });
    let policy = match forms {
        Forms::Here => format!("{}; form-action 'self'", *POLICY),
        Forms::Onwards => POLICY.clone(),
    };
    let bare = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_str(&policy).unwrap_or(bare));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
}

pub fn hidden(name: &str, value: &str) -> String {
    format!("<input type=\"hidden\" name=\"{}\" value=\"{}\">\n", escaped(name), escaped(value))
}

/// A text as it stands in markup and in its attributes.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_is_never_markup() {
        assert_eq!(escaped("<a href=\"x\" id='y'>&"), "&lt;a href=&quot;x&quot; id=&#39;y&#39;&gt;&amp;");
        assert!(!hidden("state", "\"><script>").contains("<script>"));
        assert!(!document("<script>", "").contains("<script>"));
    }

    #[test]
    fn a_style_that_a_browser_takes_is_the_one_that_is_sent() {
        let page = response(StatusCode::OK, document("x", ""), Forms::Here);
        let policy = page.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap();
        let style = STANDARD.encode(Sha256::digest(STYLE));
        assert!(policy.contains(&format!("'sha256-{style}'")) && policy.contains("form-action 'self'"), "{policy}");
    }
}
