//! Validation of uploaded files.

use super::*;

fn upload(name: &str, media_type: &str, bytes: &'static [u8]) -> Result<(), Error> {
    Upload { name: name.into(), media_type: media_type.into(), bytes: Bytes::from_static(bytes) }.check(4)
}

#[test]
fn what_cannot_be_kept_is_refused_in_words() {
    upload("a.pdf", "application/pdf; charset=utf-8", b"four").unwrap();
    for (name, media_type, bytes, says) in [
        ("a", "a/b", &b""[..], "body is required"),
        ("a", "a/b", b"5 big", "it may have 4 bytes"),
        ("", "a/b", b"x", "filename must have 1 to 255"),
        ("a\nb", "a/b", b"x", "printable"),
        (&"x".repeat(256), "a/b", b"x", "1 to 255"),
        ("a", "pdf", b"x", "Content-Type must be a media type"),
        ("a", "/x", b"x", "Content-Type"),
        ("a", "a/b\r\nx: y", b"x", "Content-Type"),
        ("a", &format!("a/{}", "b".repeat(126)), b"x", "Content-Type"),
    ] {
        let said = upload(name, media_type, bytes).unwrap_err().to_string();
        assert!(said.contains(says), "{says:?} is not in {said:?}");
    }
}

#[test]
fn an_id_follows_from_all_it_is_of() {
    let id = |parts: &[&str]| id_of("acc_", &parts.iter().map(|part| part.as_bytes()).collect::<Vec<_>>());
    assert_eq!(id(&["a", "b"]), id(&["a", "b"]));
    assert_ne!(id(&["a", "b"]), id(&["ab", ""]));
    assert_eq!(id(&[]).len(), 4 + 32);
}
