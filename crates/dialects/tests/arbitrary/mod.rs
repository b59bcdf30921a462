//! Arbitrary nouns, and arbitrary damage to bytes that were good.
#![allow(dead_code)] // Each test binary uses some of them.

use model::{Content, Json, Message, Part, Role};
use proptest::prelude::*;

/// Pieces that tend to matter where they do not belong.
pub(crate) const TOKENS: &[&[u8]] = &[
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\"",
    b"\\",
    b"null",
    b"true",
    b"-1",
    b"1.5",
    b"1e999",
    b"\"x\"",
    b"{}",
    b"[]",
    b"\\u0000",
    b"\\ud800",
    b"\xff",
    b"\xc3\xa9",
    b"\n",
    b"99999999999999999999",
    b"\"id\":1,",
    b"\"text\":\"x\",",
    b"\"message_id\":\"n\",",
    b"%",
    b"%zz",
    b"/",
    b"?",
    b"&",
    b"=",
    b"+",
    b"tasks",
    b"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
];

#[derive(Clone, Debug)]
pub(crate) enum Change {
    Set(prop::sample::Index, u8),
    Insert(prop::sample::Index, &'static [u8]),
    Delete(prop::sample::Index, usize),
    Repeat(prop::sample::Index, usize),
    Cut(prop::sample::Index),
}

pub(crate) fn change() -> impl Strategy<Value = Change> {
    let at = any::<prop::sample::Index>;
    prop_oneof![
        (at(), any::<u8>()).prop_map(|(at, byte)| Change::Set(at, byte)),
        (at(), prop::sample::select(TOKENS)).prop_map(|(at, token)| Change::Insert(at, token)),
        (at(), 1usize..20).prop_map(|(at, n)| Change::Delete(at, n)),
        (at(), 1usize..40).prop_map(|(at, n)| Change::Repeat(at, n)),
        at().prop_map(Change::Cut),
    ]
}

pub(crate) fn changed(text: &[u8], changes: &[Change]) -> Vec<u8> {
    let mut bytes = text.to_vec();
    for change in changes {
        let len = bytes.len() + 1;
        match change {
            Change::Set(at, byte) => {
                if let Some(slot) = bytes.get_mut(at.index(len)) {
                    *slot = *byte;
                }
            }
            Change::Insert(at, token) => {
                let at = at.index(len);
                bytes.splice(at..at, token.iter().copied());
            }
            Change::Delete(at, n) => {
                let at = at.index(len);
                bytes.drain(at..(at + n).min(bytes.len()));
            }
            Change::Repeat(at, n) => {
                let at = at.index(len);
                let piece = bytes[at..(at + n).min(bytes.len())].to_vec();
                bytes.splice(at..at, piece);
            }
            Change::Cut(at) => bytes.truncate(at.index(len)),
        }
    }
    bytes
}

pub(crate) fn changes() -> impl Strategy<Value = Vec<Change>> {
    prop::collection::vec(change(), 0..5)
}

pub(crate) fn value() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<u64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        any::<String>().prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
            prop::collection::vec((any::<String>(), inner), 0..5)
                .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
        ]
    })
}

pub(crate) fn object() -> impl Strategy<Value = Json> {
    prop::collection::vec((any::<String>(), value()), 0..4)
        .prop_map(|members| Json::from_value(&serde_json::Value::Object(members.into_iter().collect())))
}

pub(crate) fn part() -> impl Strategy<Value = Part> {
    let content = prop_oneof![
        any::<String>().prop_map(Content::Text),
        any::<Vec<u8>>().prop_map(|bytes| Content::Raw(bytes.into())),
        any::<String>().prop_map(Content::Url),
        value().prop_map(|value| Content::Data(Json::from_value(&value))),
    ];
    (content, prop::option::of(".+"), prop::option::of("[a-z]+/[a-z]+"), prop::option::of(object()))
        .prop_map(|(content, filename, media_type, metadata)| Part { content, filename, media_type, metadata })
}

pub(crate) fn message() -> impl Strategy<Value = Message> {
    (
        "\\PC{1,20}",
        any::<bool>(),
        prop::collection::vec(part(), 1..4),
        prop::option::of(object()),
        prop::collection::vec(any::<String>(), 0..3),
        prop::collection::vec("\\PC{1,20}", 0..3),
    )
        .prop_map(|(id, user, parts, metadata, extensions, references)| Message {
            id: id.into(),
            role: if user { Role::User } else { Role::Agent },
            parts,
            metadata,
            extensions,
            references,
        })
}
