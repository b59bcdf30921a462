//! Tests of the route table: paths do not overlap, and every route is documented.

use std::collections::HashSet;

use web::routes::{first_segment, overlap};

use super::*;

#[test]
fn no_two_routes_are_one() {
    for (n, a) in ROUTES.iter().enumerate() {
        for b in &ROUTES[n + 1..] {
            assert!(a.path != b.path || a.verb != b.verb, "{} {} twice", a.verb, a.path);
            assert!(a.path == b.path || !overlap(a.path, b.path), "{} and {} overlap", a.path, b.path);
        }
    }
}

#[test]
fn every_route_is_whole() {
    for route in ROUTES.iter() {
        let name = format!("{} {}", route.verb, route.path);
        assert!(route.path.starts_with('/') && !route.path.ends_with('/'), "{name}");
        assert!(!route.tag.is_empty() && !route.summary.is_empty(), "{name}");
        let params: HashSet<&str> = route.query.iter().map(|param| param.name).collect();
        assert_eq!(params.len(), route.query.len(), "{name}: a parameter twice");
        assert!(route.verb != Method::GET || route.takes.is_none(), "{name}: a GET has no body");
    }
}

/// The route with its path parameters, or the error status and the allowed methods.
type Found = Result<(&'static str, Vec<String>), (u16, Option<String>)>;

fn found(verb: &str, path: &str) -> Found {
    let verb = Method::from_bytes(verb.as_bytes()).unwrap();
    match find(&verb, path) {
        Ok((route, named)) => Ok((route.path, named.into_iter().map(Cow::into_owned).collect())),
        Err(refusal) => Err((refusal.code.status, refusal.allow)),
    }
}

#[test]
fn what_says_more_comes_first() {
    let named = |text: &str| vec![text.to_owned()];
    assert_eq!(found("GET", "/capabilities/mine"), Ok(("/capabilities/mine", Vec::new())));
    assert_eq!(found("GET", "/capabilities/a%20b"), Ok(("/capabilities/{id}", named("a b"))));
    assert_eq!(found("HEAD", "/wallet"), Ok(("/wallet", Vec::new())));
    assert_eq!(found("POST", "/tasks/1/applications/2"), Ok(("/tasks/{path*}", Vec::new())));
    assert_eq!(found("PUT", "/capabilities/mine"), Err((405, Some("GET, HEAD".to_owned()))));
    assert_eq!(found("TRACE", "/transactions/x/freeze"), Err((405, Some("POST".to_owned()))));
    let long = format!("/capabilities/{}", "x".repeat(201));
    for nothing in ["", "/", "/wallet/", "/nothing", "/transactions/", "/capabilities/%ff", "/capabilities/%00", &long]
    {
        assert_eq!(found("GET", nothing), Err((404, None)), "{nothing}");
    }
}

#[test]
fn a_query_is_read_or_refused() {
    let (route, _) = find(&Method::GET, "/transactions").unwrap();
    let read = read_query(route, Some("page=2&role=buyer&color=red&page_size=100")).unwrap();
    let read: Vec<(&str, &str)> = read.iter().map(|(name, value)| (name.as_ref(), value.as_ref())).collect();
    assert_eq!(read, [("page", "2"), ("role", "buyer"), ("page_size", "100")]);
    for bad in ["page=0", "page=%2B1", "page=x", "page_size=101", "role=both", "status=", "page=1&page=2", "page=%zz"] {
        let refused = read_query(route, Some(bad)).unwrap_err();
        assert_eq!((refused.code, 400), (MarketCode::BAD, refused.code.status), "{bad}");
    }
}

/// Routes are found by their first segment.
#[test]
fn every_route_says_its_first_segment() {
    for route in ROUTES.iter() {
        assert!(!first_segment(route.path).is_empty() && !first_segment(route.path).starts_with('{'), "{}", route.path);
    }
}
