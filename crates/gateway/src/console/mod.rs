//! The console at `/console`: its files, and the sessions of its users. What it shows and does is in the admin API.

pub(crate) mod sessions;
pub(crate) mod sign_ins;

use std::borrow::Cow;

use ::console::{Coding, ConsoleFile, file, index};
use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, LOCATION,
    REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderMap, HeaderValue, StatusCode, request};
use web::body::{Response, ResponseBody};
use web::file_response::is_known;
use web::html::{self, escaped};
use web::response::text;

/// The folder of files with a hash in their names.
const ASSETS: &str = "assets/";
const PATH: &str = "/console";
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// The path below the console's address, if it is one of the console.
pub(crate) fn below(path: &str) -> Option<&str> {
    path.strip_prefix(PATH).filter(|below| below.is_empty() || below.starts_with('/'))
}

/// A file of the console. Every other path is one of its views, which begin with the same page.
pub(crate) fn answer(below: &str, head: &request::Parts) -> Response {
    let Some(path) = below.strip_prefix('/') else { return redirected() };
    let found = match file(path) {
        None if path.starts_with(ASSETS) => None,
        None => index(),
        found => found,
    };
    let mut response = match found {
        Some(file) => sent(file, &head.headers),
        None => text(StatusCode::NOT_FOUND, "the console has no such file; load its page again\n"),
    };
    guard(response.headers_mut());
    response
}

fn redirected() -> Response {
    let mut response = Response::new(ResponseBody::empty());
    *response.status_mut() = StatusCode::PERMANENT_REDIRECT;
    response.headers_mut().insert(LOCATION, HeaderValue::from_static("/console/"));
    guard(response.headers_mut());
    response
}

fn sent(file: &ConsoleFile, headers: &HeaderMap) -> Response {
    let accepted = headers.get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let coding = Coding::accepted(accepted);
    let mut response = Response::new(ResponseBody::empty());
    if is_known(headers, file.etag) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    } else {
        *response.body_mut() = bytes(file, coding).into();
        if let Some(coding) = coding.name() {
            response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static(coding));
        }
    }
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(file.media_type()));
    // One tag for all forms is a weak one.
    if let Ok(etag) = HeaderValue::from_str(&format!("W/\"{}\"", file.etag)) {
        headers.insert(ETAG, etag);
    }
    headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    let cache = if file.is_hashed() { "public, max-age=31536000, immutable" } else { "no-cache" };
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(cache));
    response
}

fn bytes(file: &ConsoleFile, coding: Coding) -> Bytes {
    match file.bytes(coding) {
        Cow::Borrowed(embedded) => Bytes::from_static(embedded),
        Cow::Owned(unpacked) => unpacked.into(),
    }
}

/// No frame, nothing from elsewhere, no inline script or style.
fn guard(headers: &mut HeaderMap) {
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
}

/// Whether the request is from a browser that opens a page, rather than from a program.
pub(crate) fn wants_page(headers: &HeaderMap) -> bool {
    headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).is_some_and(|accept| accept.contains("text/html"))
}

/// The page at the root for people.
pub(crate) fn front_page<'a>(agents: impl Iterator<Item = (&'a str, &'a str)>, has_console: bool) -> Response {
    let mut main = String::from("<h1>Rialto</h1>\n<p>This is an A2A server: programs send it tasks for agents.</p>\n");
    if has_console {
        main.push_str("<p><a href=\"/console/\">Open the console</a> to see tasks, agents and deliveries.</p>\n");
    }
    main.push_str("<h2>Agents</h2>\n<ul>\n");
    for (name, title) in agents {
        let (name, title) = (escaped(name), escaped(title));
        main.push_str(&format!("<li><a href=\"/a2a/{name}/.well-known/agent-card.json\">{name}</a>: {title}</li>\n"));
    }
    main.push_str("</ul>\n<h2>For programs</h2>\n<ul>\n");
    for (path, what) in [
        ("/.well-known/agent-card.json", "the card of the default agent"),
        ("/agents", "all agents as JSON"),
        ("/healthz", "health"),
    ] {
        main.push_str(&format!("<li><a href=\"{path}\">{path}</a>: {what}</li>\n"));
    }
    main.push_str(
        "</ul>\n<p>The documentation is in <code>docs/</code> of the source, and in <code>rialto --help</code>.</p>\n",
    );
    let mut response = html::response(StatusCode::OK, html::document("Rialto", &main), html::Forms::Here);
    response.headers_mut().insert(VARY, HeaderValue::from_static("accept"));
    response
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn get(below: &str, pairs: &[(&str, &str)]) -> Response {
        let mut request = Request::get("/console");
        for (name, value) in pairs {
            request = request.header(*name, *value);
        }
        answer(below, &request.body(()).unwrap().into_parts().0)
    }

    fn header(response: &Response, name: http::HeaderName) -> &str {
        response.headers().get(name).map_or("", |value| value.to_str().unwrap())
    }

    #[test]
    fn paths_of_the_console_are_told_from_others() {
        assert_eq!([below("/console"), below("/console/tasks/x")], [Some(""), Some("/tasks/x")]);
        assert_eq!([below("/consoles"), below("/a2a/console")], [None, None]);
    }

    #[test]
    fn every_answer_keeps_out_frames_and_foreign_content() {
        for below in ["", "/", "/tasks/x/wire", "/assets/none.js", "/index.html"] {
            let response = get(below, &[]);
            assert_eq!(header(&response, CONTENT_SECURITY_POLICY), POLICY, "{below}");
            assert_eq!(header(&response, X_FRAME_OPTIONS), "DENY", "{below}");
            assert_eq!(header(&response, X_CONTENT_TYPE_OPTIONS), "nosniff", "{below}");
            assert_eq!(header(&response, REFERRER_POLICY), "no-referrer", "{below}");
        }
        assert!(!POLICY.contains("unsafe"));
    }

    #[test]
    fn a_view_begins_with_the_page_and_a_missing_file_is_not_found() {
        let page = get("/tasks/x", &[("accept-encoding", "gzip, br")]);
        assert_eq!((page.status(), header(&page, CACHE_CONTROL)), (StatusCode::OK, "no-cache"));
        assert_eq!((header(&page, CONTENT_ENCODING), header(&page, VARY)), ("br", "accept-encoding"));
        assert_eq!(get("/assets/none.js", &[]).status(), StatusCode::NOT_FOUND);
        let moved = get("", &[]);
        assert_eq!((moved.status(), header(&moved, LOCATION)), (StatusCode::PERMANENT_REDIRECT, "/console/"));
        let etag = header(&page, ETAG).to_owned();
        let known = get("/", &[("if-none-match", &etag), ("accept-encoding", "br")]);
        assert_eq!((known.status(), header(&known, CONTENT_ENCODING)), (StatusCode::NOT_MODIFIED, ""));
    }
}
