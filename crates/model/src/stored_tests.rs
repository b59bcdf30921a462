//! Tests of `stored`.

use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;

use super::*;
use crate::*;

/// One event of every kind.
fn every_event() -> Vec<Event> {
    let id = |n: u128| Uuid::from_u128(0x0190_f3c4_1111_7222_8333_4444_5555_0000 + n);
    let part = |content| Part {
        content,
        filename: Some("a \"b\".txt".into()),
        media_type: Some("text/plain".into()),
        metadata: Json::parse(r#"{"z":1,"a":18446744073709551616}"#),
    };
    let message = Arc::new(Message {
        id: "m1".into(),
        role: Role::User,
        parts: vec![
            Part::text("hé\n\u{0}"),
            part(Content::Raw(Bytes::from_static(b"\x00\xff"))),
            part(Content::Url("https://example.com/x".into())),
            part(Content::Data(Json::parse(r#"{"b":[1.0,null],"b":2}"#).unwrap())),
            Part::new(Content::Blob(Blob { kind: BlobKind::Raw, hash: [7; 32], len: 70_000 })),
        ],
        metadata: Json::parse("{}"),
        extensions: vec!["https://e/x".into()],
        references: vec!["t0".into()],
    });
    let bodies = vec![
        Body::Opened(Box::new(Opened {
            id: TaskId(id(1)),
            context: "ctx".into(),
            agent: "echo".into(),
            tenant: "default".into(),
            owner: "anonymous".into(),
            parties: vec!["p".into()],
            views: vec![View::tenant("default", "echo"), View::owner("default", "anonymous", "echo")],
            dialect: "a2a_v1".into(),
            alias: None,
            follows: None,
            undecided: true,
        })),
        Body::Message(Arc::new(Inbound {
            message: message.clone(),
            metadata: Json::parse("{\"k\":1}"),
            accepted_output: vec!["text/plain".into()],
            extensions: vec!["x".into()],
            trace: Some("00-a-b-01".into()),
            payer: None,
        })),
        Body::TurnStarted { turn: TurnId(id(2)), attempt: 2, hold: None },
        Body::Bound { remote: "r".into() },
        Body::Status(StatusChange {
            state: State::Working,
            message: Some(message.clone()),
            metadata: Json::parse("{}"),
        }),
        Body::Artifact(Chunk {
            artifact: Arc::new(Artifact {
                id: "a".into(),
                name: Some("n".into()),
                description: Some("d".into()),
                parts: vec![Part::text("x")],
                metadata: Json::parse("{}"),
                extensions: vec!["e".into()],
            }),
            ordinal: 0,
            append: false,
            bordered: false,
            last: true,
            metadata: Json::parse("{}"),
        }),
        Body::Metadata(Json::parse(r#"{"usage":{"total":3}}"#).unwrap()),
        Body::CancelRequested { metadata: None },
        Body::Replied(Arc::new(Message { role: Role::Agent, ..(*message).clone() })),
    ];
    bodies
        .into_iter()
        .enumerate()
        .map(|(i, body)| Event { seq: Seq(i as u64 + 1), at: Time(1_767_225_599_000 + i as i64), body })
        .collect()
}

#[test]
fn what_is_written_reads_back() {
    let events = every_event();
    assert_eq!(decode(Seq(1), &encode(&events)).unwrap(), events);
}

#[test]
fn version_1_is_read_for_ever() {
    // Never edit this file: released versions have these bytes on disk.
    let golden = include_bytes!("stored_v1.golden");
    assert_eq!(decode(Seq(1), golden).unwrap(), every_event());
}

#[test]
fn a_newer_version_is_refused_by_name() {
    let error = decode(Seq(1), &[9, b'[', b']']).unwrap_err();
    assert!(error.to_string().contains("version 9"), "{error}");
    assert!(matches!(decode(Seq(1), &[]), Err(Error::Empty)));
    assert!(matches!(decode(Seq(1), &[1, b'{']), Err(Error::Damaged(_))));
}

/// Members added later: a log without them reads as before, and a log with them round-trips.
#[test]
fn what_a_turn_costs_is_kept_with_it_and_older_logs_know_nothing_of_it() {
    let old = br#"[[5,{"turn":{"i":"00000000-0000-0000-0000-000000000002","n":1}}]]"#;
    let new = br#"[[5,{"turn":{"i":"00000000-0000-0000-0000-000000000002","n":1,"h":{"amount":5}}}]]"#;
    for (text, hold) in [(&old[..], None), (&new[..], Json::parse(r#"{"amount":5}"#))] {
        let row = [&[1], text].concat();
        let events = decode(Seq(1), &row).unwrap();
        let turn = TurnId(Uuid::from_u128(2));
        assert_eq!(events[0].body, Body::TurnStarted { turn, attempt: 1, hold });
        assert_eq!(encode(&events), row, "what is not there takes no room");
    }
}

#[test]
fn a_border_is_kept_with_its_chunk_and_older_logs_have_none() {
    let chunk = |bordered: bool| {
        let artifact = r#"{"i":"a","p":[{"c":{"t":"x"}}]}"#;
        let border = if bordered { r#","b":true"# } else { "" };
        let text = format!(r#"{{"a":{artifact},"o":0,"p":true{border}}}"#);
        let chunk: Chunk = serde_json::from_str(&text).unwrap();
        assert_eq!(chunk.bordered, bordered);
        assert_eq!(serde_json::to_string(&chunk).unwrap(), text);
    };
    chunk(false);
    chunk(true);
}
