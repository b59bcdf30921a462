//! Tests of `jsonrpc`.

use super::*;

fn refusal(text: &str) -> (Kind, String, String) {
    let unreadable = read(text).unwrap_err();
    (unreadable.fault.kind, unreadable.id.text().to_owned(), unreadable.fault.message)
}

#[test]
fn a_request_is_borrowed() {
    let request =
        read(r#" {"extra":[1],"params":{"a":1},"method":"SendMessage","id":"r\u0031","jsonrpc":"2.0"} "#).unwrap();
    assert_eq!(request.id.text(), r#""r\u0031""#);
    assert!(matches!(request.method, Cow::Borrowed("SendMessage")));
    assert_eq!(request.params.unwrap().get(), r#"{"a":1}"#);
}

#[test]
fn an_id_is_echoed_as_it_was_written() {
    for id in ["1", "-0", "\"1\"", "null", "\"\"", "12345678901234567890123", "\"\\ud83d\\ude00 é\""] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#);
        let mut out = Vec::new();
        let request = read(&text).unwrap();
        write_result_head(&mut out, &request.id);
        write_result_tail(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), format!(r#"{{"jsonrpc":"2.0","id":{id},"result":}}"#));
        assert_eq!(request.id.clone().into_owned(), request.id);
    }
}

#[test]
fn a_request_without_an_id_is_answered_to_null() {
    let request = read(r#"{"jsonrpc":"2.0","method":"GetTask","params":null}"#).unwrap();
    assert_eq!(request.id, Id::NULL);
    assert!(request.params.is_none());
}

#[test]
fn what_is_not_json_is_a_parse_fault() {
    for text in
        ["", "   ", "{", "nope", r#"{"jsonrpc":"2.0""#, r#"{"id":1} x"#, r#"{"id":01}"#, "{\"a\":\"\n\"}", "[1,"]
    {
        let (kind, id, message) = refusal(text);
        assert_eq!((kind, id.as_str()), (Kind::Parse, "null"), "{text}: {message}");
    }
}

#[test]
fn what_is_json_but_no_request_is_invalid() {
    for (text, id) in [
        ("[]", "null"),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"m"}]"#, "null"),
        ("3", "null"),
        ("null", "null"),
        ("\"x\"", "null"),
        (r#"{"id":7,"method":"m"}"#, "7"),
        (r#"{"jsonrpc":"1.0","id":7,"method":"m"}"#, "7"),
        (r#"{"jsonrpc":2.0,"id":7,"method":"m"}"#, "7"),
        (r#"{"jsonrpc":"2.0","id":"x"}"#, "\"x\""),
        (r#"{"jsonrpc":"2.0","id":"x","method":5}"#, "\"x\""),
        (r#"{"jsonrpc":"2.0","id":"x","method":null}"#, "\"x\""),
        (r#"{"jsonrpc":"2.0","id":"x","method":"\ud800"}"#, "\"x\""),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"m"}"#, "null"),
        (r#"{"jsonrpc":"2.0","id":1e3,"method":"m"}"#, "null"),
        (r#"{"jsonrpc":"2.0","id":true,"method":"m"}"#, "null"),
        (r#"{"jsonrpc":"2.0","id":{},"method":"m"}"#, "null"),
        (r#"{"jsonrpc":"2.0","id":[1],"method":"m"}"#, "null"),
        (r#"{"jsonrpc":"2.0","id":1,"id":1,"method":"m"}"#, "null"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"m","method":"n"}"#, "1"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{},"params":{}}"#, "1"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"m","\u0070arams":{},"params":{}}"#, "1"),
    ] {
        let (kind, got, message) = refusal(text);
        assert_eq!((kind, got.as_str()), (Kind::InvalidRequest, id), "{text}: {message}");
    }
    let long = format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"m"}}"#, "x".repeat(MAX_ID_BYTES));
    assert_eq!(refusal(&long).0, Kind::InvalidRequest);
}

#[test]
fn params_by_position_are_invalid_params() {
    for params in ["[]", "[1]", "5", "\"x\"", "true"] {
        let (kind, id, _) = refusal(&format!(r#"{{"jsonrpc":"2.0","id":4,"method":"m","params":{params}}}"#));
        assert_eq!((kind, id.as_str()), (Kind::InvalidParams, "4"));
    }
}

#[test]
fn a_result_can_be_written_in_place() {
    let mut w = begin_result(&Id::NULL, 10);
    w.begin_object();
    w.key("a").u64(1);
    w.end_object();
    end_result(&mut w);
    assert_eq!(w.finish().as_bytes().unwrap().as_ref(), br#"{"jsonrpc":"2.0","id":null,"result":{"a":1}}"#);
}
