//! Tests of `json`.

use model::{Blob, BlobKind, Json};
use proptest::prelude::*;

use super::*;

fn written(write: impl FnOnce(&mut Writer)) -> String {
    let mut w = Writer::new();
    write(&mut w);
    String::from_utf8(w.finish().as_bytes().unwrap().to_vec()).unwrap()
}

#[test]
fn commas_stand_between_and_nowhere_else() {
    let text = written(|w| {
        w.begin_array();
        w.begin_object();
        w.end_object();
        w.begin_object();
        w.key("a").begin_array();
        w.end_array();
        w.key("b").null();
        w.key("c").bool(true);
        w.end_object();
        w.i64(-7);
        w.u64(u64::MAX);
        w.base64(b"\x00\xff");
        w.display(format_args!("{}\"{}", 1, 2));
        w.end_array();
    });
    assert_eq!(text, r#"[{},{"a":[],"b":null,"c":true},-7,18446744073709551615,"AP8=","1\"2"]"#);
}

#[test]
fn a_blob_parts_the_bytes_and_keeps_its_quotes_outside() {
    let blob = |kind, len| Blob { kind, hash: [7; 32], len };
    let mut w = Writer::new();
    w.begin_object();
    w.key("text").blob(&blob(BlobKind::Text, 5));
    w.key("raw").blob(&blob(BlobKind::Raw, 4));
    w.key("data").blob(&blob(BlobKind::Data, 2));
    w.key("n").u64(1);
    w.end_object();
    let len = w.wire_len();
    let encoded = w.finish();
    assert!(encoded.as_bytes().is_none());
    assert!(encoded.has_blobs());
    assert_eq!(encoded.wire_len(), len);
    let shown: Vec<String> = encoded
        .into_segments()
        .into_iter()
        .map(|segment| match segment {
            Segment::Bytes(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
            Segment::Blob(blob) => format!("<{:?} {}>", blob.kind, blob.len),
            Segment::File(file) => panic!("{file:?}"),
        })
        .collect();
    assert_eq!(
        shown,
        [r#"{"text":""#, "<Text 5>", r#"","raw":""#, "<Raw 4>", r#"","data":"#, "<Data 2>", r#","n":1}"#]
    );
    assert_eq!(len, "{'text':'12345','raw':'12345678','data':12,'n':1}".len() as u64);
}

#[test]
fn nothing_at_all_is_one_empty_run_of_bytes() {
    assert_eq!(Writer::new().finish().as_bytes().map(|b| b.len()), Some(0));
}

#[test]
fn opaque_json_keeps_all_but_its_line_breaks() {
    let json = Json::parse("{\"z\" : 1.0,\r\n \"a\":123456789012345678901234567890,\"a\":\"\\n\"}").unwrap();
    assert_eq!(written(|w| w.json(&json)), r#"{"z" : 1.0,   "a":123456789012345678901234567890,"a":"\n"}"#);
}

proptest! {
    #[test]
    fn any_string_reads_back_and_has_no_line_break(text: String) {
        let json = written(|w| w.string(&text));
        prop_assert!(!json.contains(['\n', '\r']));
        prop_assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
    }

    /// Escapes at every offset of the word-wise search.
    #[test]
    fn a_special_character_is_found_wherever_it_stands(before in "[a-zé]{0,20}", special in 0u8..0x80, after in "[a-zé]{0,20}") {
        let text = format!("{before}{}{after}", special as char);
        prop_assert_eq!(serde_json::from_str::<String>(&written(|w| w.string(&text))).unwrap(), text);
    }
}

#[test]
fn a_file_is_its_bytes_or_its_address() {
    let blob = |len| Blob { kind: BlobKind::Raw, hash: [7; 32], len };
    let part = model::Part { filename: Some("a".into()), ..model::Part::new(model::Content::Blob(blob(4))) };
    let mut w = Writer::new();
    w.begin_array();
    for len in [4, 9_000] {
        w.begin_object();
        w.key("n").u64(len);
        w.file(["raw", "url"], &blob(len), &part);
        w.key("m").null();
        w.end_object();
    }
    w.end_array();
    let len = w.wire_len();
    let encoded = w.finish();
    assert!(encoded.has_blobs() && encoded.as_bytes().is_none());
    assert_eq!((encoded.wire_len(), encoded.files().count()), (len, 2));
    let by_bytes = encoded.clone().settled(|_| None);
    assert_eq!((by_bytes.wire_len(), by_bytes.files().count(), by_bytes.segments.len()), (len, 0, 5));
    let by_address =
        encoded.clone().settled(|file| Some(format!("x:{}\"{}", file.name.as_deref().unwrap(), file.blob.len)));
    let text = std::str::from_utf8(by_address.as_bytes().unwrap()).unwrap();
    assert_eq!(text, r#"[{"n":4,"url":"x:a\"4","m":null},{"n":9000,"url":"x:a\"9000","m":null}]"#);
    let mixed = encoded.settled(|file| (file.blob.len > 100).then(|| "y:".to_owned()));
    assert_eq!(mixed.segments.len(), 3);
    assert_eq!(mixed.segments[2], Segment::Bytes(r#"","m":null},{"n":9000,"url":"y:","m":null}]"#.into()));
}
