//! A table of routes: patterns of paths with parameters in braces, the more specific before the less, and the methods that
//! each path has.
//!
//! `{name}` stands for one segment that is not empty, `{name}:verb` for one that ends in `:verb`, and `{path*}` at the end
//! for all segments that follow.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashMap;

use dialects::framing::query;
use http::Method;

/// How the rows of a table treat HEAD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadRule {
    /// It is answered as GET is, without the body, and is the last method in `Allow`.
    Last,
    /// It is answered as GET is, without the body, and follows GET in `Allow`.
    AfterGet,
    /// It is no method of the table: its GET changes something.
    Unanswered,
}

/// A row of a table.
pub trait RouteRow {
    const HEAD: HeadRule = HeadRule::Last;

    fn method(&self) -> &str;
    fn path(&self) -> &'static str;
}

/// Rows by the first segment of their path, which is a literal in each; the most specific first.
pub struct RouteTable<R: 'static> {
    by_first: HashMap<&'static str, Vec<&'static R>>,
}

/// A request that no route answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoRoute {
    /// The path is unknown.
    Path,
    /// The path has only these methods, as the header `Allow` lists them.
    Method { allow: String },
}

impl<R: RouteRow> RouteTable<R> {
    pub fn new(rows: impl IntoIterator<Item = &'static R>) -> RouteTable<R> {
        let mut by_first: HashMap<&str, Vec<&R>> = HashMap::new();
        for row in rows {
            by_first.entry(first_segment(row.path())).or_default().push(row);
        }
        for rows in by_first.values_mut() {
            rows.sort_by_cached_key(|row| Reverse(specificity(row.path())));
        }
        RouteTable { by_first }
    }

    /// The route of a request, and the decoded parameters of its path.
    pub fn find<'a>(&self, method: &Method, path: &'a str) -> Result<(&'static R, Vec<Cow<'a, str>>), NoRoute> {
        let likely = self.by_first.get(first_segment(path)).map_or(&[][..], |rows| rows);
        let best = likely.iter().find_map(|row| Some((row.path(), path_params(row.path(), path)?)));
        let (pattern, params) = best.ok_or(NoRoute::Path)?;
        // Hyper leaves the body out of an answer to HEAD.
        let as_get = *method == Method::HEAD && R::HEAD != HeadRule::Unanswered;
        let method = if as_get { "GET" } else { method.as_str() };
        let at_path = || likely.iter().filter(|row| row.path() == pattern);
        let Some(row) = at_path().find(|row| row.method() == method) else {
            let mut allow: Vec<&str> = at_path().map(|row| row.method()).collect();
            match (allow.iter().position(|method| *method == "GET"), R::HEAD) {
                (Some(_), HeadRule::Last) => allow.push("HEAD"),
                (Some(get), HeadRule::AfterGet) => allow.insert(get + 1, "HEAD"),
                (Some(_), HeadRule::Unanswered) | (None, _) => {}
            }
            return Err(NoRoute::Method { allow: allow.join(", ") });
        };
        let params = params.into_iter().map(|one| query::decode_segment(one).map_err(|_| NoRoute::Path));
        Ok((row, params.collect::<Result<_, _>>()?))
    }
}

fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').skip(1)
}

pub fn first_segment(path: &str) -> &str {
    segments(path).next().unwrap_or_default()
}

/// The name of a segment that is a parameter, and the literal text after it.
pub(crate) fn parameter(segment: &str) -> Option<(&str, &str)> {
    segment.strip_prefix('{')?.split_once('}')
}

/// The segments that stand for the braces of a pattern, if a path fits it.
fn path_params<'a>(pattern: &str, path: &'a str) -> Option<Vec<&'a str>> {
    let (mut params, mut given) = (Vec::new(), segments(path));
    for expected in segments(pattern) {
        if expected == "{path*}" {
            return given.next().is_some().then_some(params);
        }
        let one = given.next()?;
        match parameter(expected) {
            Some((_, end)) => params.push(one.strip_suffix(end).filter(|value| !value.is_empty())?),
            None if one != expected => return None,
            None => {}
        }
    }
    given.next().is_none().then_some(params)
}

/// For each segment of a pattern whether it is a literal, a parameter with or without an end, or the rest.
fn specificity(pattern: &str) -> Vec<u8> {
    let weigh = |one: &str| match (one, parameter(one)) {
        ("{path*}", _) => 0,
        (_, Some((_, ""))) => 1,
        (_, Some(_)) => 2,
        (_, None) => 3,
    };
    segments(pattern).map(weigh).collect()
}

/// Whether some path fits both patterns and neither is more specific: a table must have no such two.
pub fn overlap(a: &str, b: &str) -> bool {
    let (one, other): (Vec<&str>, Vec<&str>) = (segments(a).collect(), segments(b).collect());
    let meet = |x: &str, y: &str| match (parameter(x), parameter(y)) {
        (Some((_, end)), Some((_, other))) => end.ends_with(other) || other.ends_with(end),
        _ => x == y,
    };
    specificity(a) == specificity(b) && one.iter().zip(&other).all(|(x, y)| meet(x, y))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Row(&'static str, &'static str);

    impl RouteRow for Row {
        fn method(&self) -> &str {
            self.0
        }
        fn path(&self) -> &'static str {
            self.1
        }
    }

    struct Ordered(Row);

    impl RouteRow for Ordered {
        const HEAD: HeadRule = HeadRule::AfterGet;

        fn method(&self) -> &str {
            self.0.method()
        }
        fn path(&self) -> &'static str {
            self.0.path()
        }
    }

    struct WithoutHead(Row);

    impl RouteRow for WithoutHead {
        const HEAD: HeadRule = HeadRule::Unanswered;

        fn method(&self) -> &str {
            self.0.method()
        }
        fn path(&self) -> &'static str {
            self.0.path()
        }
    }

    static ROWS: &[Row] = &[
        Row("GET", "/things/{id}"),
        Row("GET", "/things/mine"),
        Row("POST", "/things/{id}"),
        Row("DELETE", "/things/{id}/parts/{part}"),
        Row("POST", "/rest/{path*}"),
        Row("POST", "/things/{id}:stop"),
    ];

    fn found(method: Method, path: &str) -> Result<(&'static str, Vec<String>), NoRoute> {
        let found = RouteTable::new(ROWS).find(&method, path);
        found.map(|(row, params)| (row.1, params.into_iter().map(Cow::into_owned).collect()))
    }

    #[test]
    fn the_more_specific_pattern_answers_and_parameters_are_decoded() {
        assert_eq!(found(Method::GET, "/things/mine"), Ok(("/things/mine", vec![])));
        assert_eq!(found(Method::HEAD, "/things/a%20b"), Ok(("/things/{id}", vec!["a b".to_owned()])));
        let both = vec!["a".to_owned(), "b".to_owned()];
        assert_eq!(found(Method::DELETE, "/things/a/parts/b"), Ok(("/things/{id}/parts/{part}", both)));
        assert_eq!(found(Method::POST, "/rest/a/b/c"), Ok(("/rest/{path*}", vec![])));
    }

    #[test]
    fn a_verb_at_the_end_of_a_parameter_is_more_specific_than_the_parameter() {
        let stop = |id: &str| Ok(("/things/{id}:stop", vec![id.to_owned()]));
        assert_eq!(found(Method::POST, "/things/a:stop"), stop("a"));
        assert_eq!(found(Method::POST, "/things/a:stop:stop"), stop("a:stop"));
        assert_eq!(found(Method::POST, "/things/a%3Astop"), Ok(("/things/{id}", vec!["a:stop".to_owned()])));
        assert_eq!(found(Method::POST, "/things/:stop"), Ok(("/things/{id}", vec![":stop".to_owned()])));
        assert_eq!(found(Method::GET, "/things/a:stop"), Err(NoRoute::Method { allow: "POST".to_owned() }));
    }

    #[test]
    fn a_known_path_without_the_method_lists_those_it_has() {
        let allow = |methods: &str| Err(NoRoute::Method { allow: methods.to_owned() });
        assert_eq!(found(Method::PUT, "/things/x"), allow("GET, POST, HEAD"));
        assert_eq!(found(Method::POST, "/things/mine"), allow("GET, HEAD"));
        assert_eq!(found(Method::GET, "/rest/x"), allow("POST"));
    }

    #[test]
    fn a_table_decides_on_head() {
        static ORDERED: &[Ordered] = &[Ordered(Row("GET", "/a")), Ordered(Row("POST", "/a"))];
        static WITHOUT: &[WithoutHead] = &[WithoutHead(Row("GET", "/a"))];
        let refused = |found: Option<NoRoute>| match found {
            Some(NoRoute::Method { allow }) => Some(allow),
            Some(NoRoute::Path) | None => None,
        };
        let (ordered, without) = (RouteTable::new(ORDERED), RouteTable::new(WITHOUT));
        assert!(ordered.find(&Method::HEAD, "/a").is_ok());
        assert_eq!(refused(ordered.find(&Method::PUT, "/a").err()).as_deref(), Some("GET, HEAD, POST"));
        assert_eq!(refused(without.find(&Method::HEAD, "/a").err()).as_deref(), Some("GET"));
    }

    #[test]
    fn other_paths_are_unknown() {
        for path in
            ["", "/", "/things", "/things/", "/things/a/parts", "/things/a/parts/", "/rest", "/things/%zz", "/x"]
        {
            assert_eq!(found(Method::GET, path), Err(NoRoute::Path), "{path:?}");
        }
    }

    #[test]
    fn overlapping_patterns_are_found() {
        assert!(overlap("/a/{x}/b", "/a/{y}/b"));
        assert!(!overlap("/a/{x}", "/a/b") && !overlap("/a/b", "/a/c"));
        assert!(
            overlap("/a/{x}:go", "/a/{y}:go")
                && !overlap("/a/{x}:go", "/a/{x}:stop")
                && !overlap("/a/{x}", "/a/{x}:go")
        );
    }
}
