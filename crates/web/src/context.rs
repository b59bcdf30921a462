//! HTTP facts of one request for the handlers of routes, and readers of JSON bodies. Nothing here depends on an engine
//! or a product.

use std::borrow::Cow;
use std::net::IpAddr;

use bytes::Bytes;
use dialects::framing::scan;
use http::request;
use model::Fault;
use serde::de::DeserializeOwned;

use crate::headers::check_media_type;

/// One request, its path and query decoded.
pub struct RequestContext<'a> {
    pub head: &'a request::Parts,
    /// The client's address.
    pub address: IpAddr,
    /// Parameters of the path, in their order.
    pub params: Vec<Cow<'a, str>>,
    /// Parameters of the query; each name once.
    pub query: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    pub body: &'a Bytes,
}

impl RequestContext<'_> {
    /// A parameter of the path by its number; empty where the path has none.
    pub fn path_param(&self, number: usize) -> &str {
        self.params.get(number).map_or("", AsRef::as_ref)
    }

    /// The first parameter of the path.
    pub fn id(&self) -> &str {
        self.path_param(0)
    }

    pub fn query_param(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_ref())
    }
}

/// A body that is no JSON object.
#[derive(Debug)]
pub enum NotAnObject {
    MediaType(Fault),
    /// It is no JSON, or nests too deeply.
    Unreadable(Fault),
    /// It is another JSON value.
    OtherValue,
}

/// The text of a body that is one JSON object. Members are not read yet.
pub fn object_text<'a>(head: &request::Parts, body: &'a [u8], depth: usize) -> Result<&'a str, NotAnObject> {
    check_media_type(&head.headers).map_err(NotAnObject::MediaType)?;
    let text = scan::scan(body, depth).map_err(NotAnObject::Unreadable)?;
    // Readers of structs accept lists, too.
    if text.trim_start().starts_with('{') { Ok(text) } else { Err(NotAnObject::OtherValue) }
}

/// A member of a body that cannot be read; the message is a sentence without its subject.
#[derive(Debug, PartialEq, Eq)]
pub struct MemberError {
    pub member: String,
    pub message: String,
}

/// Reads the members of an object.
pub fn read_object<B: DeserializeOwned>(text: &str) -> Result<B, MemberError> {
    let mut json = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let (path, message) = (error.path().to_string(), error.inner().to_string());
        // The position in the text does not help a client that sent an object.
        let message = message.split(" at line ").next().unwrap_or_default();
        MemberError {
            member: if path == "." { "body".to_owned() } else { path },
            message: format!("cannot be read: {message}"),
        }
    })
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    #[test]
    fn parameters_are_found_by_number_and_by_name() {
        let (head, ()) = Request::get("/x").body(()).unwrap().into_parts();
        let context = RequestContext {
            head: &head,
            address: IpAddr::from([127, 0, 0, 1]),
            params: vec!["a".into(), "b".into()],
            query: vec![("page".into(), "2".into())],
            body: &Bytes::new(),
        };
        assert_eq!((context.id(), context.path_param(1), context.path_param(2)), ("a", "b", ""));
        assert_eq!((context.query_param("page"), context.query_param("size")), (Some("2"), None));
    }

    #[test]
    fn a_body_is_one_object_of_json() {
        let head = |media: &str| Request::get("/x").header("content-type", media).body(()).unwrap().into_parts().0;
        let json = head("application/json");
        assert_eq!(object_text(&json, b" {\"a\":1} ", 8).unwrap().trim(), "{\"a\":1}");
        assert!(matches!(object_text(&json, b"[1]", 8), Err(NotAnObject::OtherValue)));
        assert!(matches!(object_text(&json, b"{\"a\":{\"b\":{}}}", 2), Err(NotAnObject::Unreadable(_))));
        assert!(matches!(object_text(&head("text/plain"), b"{}", 8), Err(NotAnObject::MediaType(_))));
    }

    #[test]
    fn the_member_that_cannot_be_read_is_named() {
        #[derive(Debug, serde::Deserialize)]
        struct Wanted {
            #[allow(dead_code, reason = "only read")]
            list: Vec<u32>,
        }
        let error = read_object::<Wanted>("{\"list\":[1,\"x\"]}").unwrap_err();
        assert_eq!(error.member, "list[1]");
        assert!(error.message.starts_with("cannot be read: ") && !error.message.contains(" at line "), "{error:?}");
        assert_eq!(read_object::<Wanted>("{}").unwrap_err().member, "body");
    }
}
