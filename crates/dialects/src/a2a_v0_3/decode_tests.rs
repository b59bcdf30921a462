//! Tests of `decode`.

use bytes::Bytes;
use model::{Content, Json, Message, Part, PushConfig, Role, Send, Wait};

use super::*;

fn decode(method: &str, params: &str) -> Result<Call, Fault> {
    let raw: Box<RawValue> = serde_json::from_str(params).unwrap();
    decode_rpc(method, Some(&raw), &Limits::default()).map(|decoded| {
        assert_eq!(decoded.tenant, None);
        decoded.call
    })
}

fn send(params: &str) -> Send {
    match decode("message/send", params).unwrap() {
        Call::Send(send) => *send,
        other => panic!("{other:?}"),
    }
}

/// A send whose only part is `part`.
fn part_of(part: &str) -> Result<Part, Fault> {
    let params = format!(r#"{{"message":{{"messageId":"m","role":"user","parts":[{part}]}}}}"#);
    match decode("message/send", &params)? {
        Call::Send(send) => Ok(send.message.parts[0].clone()),
        other => panic!("{other:?}"),
    }
}

/// The field and the sentence of a fault about params.
#[track_caller]
fn refusal(method: &str, params: &str) -> (String, String) {
    let fault = decode(method, params).unwrap_err();
    assert_eq!(fault.kind, Kind::InvalidParams, "{params}: {}", fault.message);
    (fault.field.unwrap_or_default(), fault.message)
}

#[test]
fn a_send_in_full() {
    let call = decode(
        "message/stream",
        r#"{"message":{"kind":"message","messageId":"m1","contextId":"c1","taskId":"t1","role":"user",
            "parts":[{"kind":"text","text":"hi","metadata":{"k":1.0}}],
            "metadata":{"z":1,"a":12345678901234567890},"extensions":["urn:x"],"referenceTaskIds":["t0"]},
            "configuration":{"acceptedOutputModes":["text/plain"],"historyLength":3,"blocking":false,
            "pushNotificationConfig":{"id":"p","url":"https://h/x","token":"tok","authentication":{"schemes":["Bearer","Basic"],"credentials":"c"}}},
            "metadata":{"trace":[1, 2]}}"#,
    )
    .unwrap();
    let Call::Stream(send) = call else { panic!("{call:?}") };
    let expected = Send {
        message: Message {
            id: "m1".into(),
            role: Role::User,
            parts: vec![Part { metadata: Json::parse(r#"{"k":1.0}"#), ..Part::text("hi") }],
            metadata: Json::parse(r#"{"z":1,"a":12345678901234567890}"#),
            extensions: vec!["urn:x".into()],
            references: vec!["t0".into()],
        },
        task: Some("t1".into()),
        alias: None,
        context: Some("c1".into()),
        wait: Wait::Exists,
        history: Some(3),
        accepted_output: vec!["text/plain".into()],
        metadata: Json::parse(r#"{"trace":[1, 2]}"#),
        push: Some(PushConfig {
            task: None,
            id: Some("p".into()),
            url: "https://h/x".into(),
            token: Some("tok".into()),
            scheme: Some("Bearer".into()),
            credentials: Some("c".into()),
        }),
        extensions: vec![],
        trace: None,
        idempotency: None,
    };
    assert_eq!(*send, expected);
}

#[test]
fn proto_names_nulls_strangers_and_a_missing_kind_are_read_too() {
    let send = send(
        r#"{"what":{"a":1,"a":2},"metadata":null,"configuration":{"history_length":5,"accepted_output_modes":null,
            "push_notification_config":null,"blocking":null},
            "message":{"message_id":"m","context_id":"c","task_id":null,"role":"user","reference_task_ids":["r"],
            "parts":[{"text":"x","metadata":null,"file":null,"data":null}],"extensions":null}}"#,
    );
    assert_eq!((send.history, send.context, send.task), (Some(5), Some("c".into()), None));
    assert_eq!(send.message.references, ["r"]);
    assert_eq!(send.message.parts, [Part::text("x")]);
    assert_eq!(send.wait, Wait::Rest { max_ms: None });
}

#[test]
fn a_send_blocks_unless_it_says_no() {
    let waits = |configuration: &str| {
        send(&format!(
            r#"{{"message":{{"messageId":"m","role":"user","parts":[{{"text":"x"}}]}},"configuration":{configuration}}}"#
        ))
        .wait
    };
    for blocking in ["null", "{}", r#"{"blocking":true}"#, r#"{"blocking":null}"#] {
        assert_eq!(waits(blocking), Wait::Rest { max_ms: None }, "{blocking}");
    }
    assert_eq!(waits(r#"{"blocking":false}"#), Wait::Exists);
}

#[test]
fn a_history_length_of_zero_is_no_limit() {
    for (length, history) in [("null", None), ("0", None), ("2", Some(2)), ("99999999999", Some(u32::MAX))] {
        let params = format!(r#"{{"id":"t","historyLength":{length}}}"#);
        assert_eq!(decode("tasks/get", &params).unwrap(), Call::Get(Get { task: "t".into(), history }));
    }
    assert_eq!(refusal("tasks/get", r#"{"id":"t","historyLength":-1}"#).0, "historyLength");
}

#[test]
fn every_part_kind_is_read_with_and_without_its_kind() {
    for kind in ["", r#""kind":"text","#] {
        assert_eq!(part_of(&format!(r#"{{{kind}"text":""}}"#)).unwrap(), Part::text(""));
    }
    for kind in ["", r#""kind":"file","#, r#""type":"file","#] {
        let raw = part_of(&format!(r#"{{{kind}"file":{{"bytes":"-_-_AA","name":"n","mimeType":"a/b"}}}}"#)).unwrap();
        assert_eq!(raw.content, Content::Raw(Bytes::from_static(b"\xfb\xff\xbf\x00")));
        assert_eq!((raw.filename.as_deref(), raw.media_type.as_deref()), (Some("n"), Some("a/b")));
        let uri =
            part_of(&format!(r#"{{{kind}"file":{{"uri":"https://x","bytes":null,"mime_type":"a/b"}}}}"#)).unwrap();
        assert_eq!((uri.content, uri.media_type.as_deref()), (Content::Url("https://x".into()), Some("a/b")));
    }
    for kind in ["", r#""kind":"data","#] {
        for data in [r#"{"b":1,"a":1e400,"a":2}"#, "[ 1 ]", "0"] {
            let part = part_of(&format!(r#"{{{kind}"data":{data}}}"#)).unwrap();
            assert_eq!(part.content, Content::Data(Json::parse(data).unwrap()));
        }
    }
}

#[test]
fn what_was_marked_for_0_3_is_itself_again() {
    let part = part_of(
        r##"{"kind":"text","text":"# n","metadata":{"a2a_compat":{"mediaType":"text/markdown","filename":"n.md"},"k":1}}"##,
    )
    .unwrap();
    assert_eq!((part.media_type.as_deref(), part.filename.as_deref()), (Some("text/markdown"), Some("n.md")));
    assert_eq!(part.metadata, Json::parse(r#"{"k":1}"#));
    let part = part_of(r#"{"kind":"data","data":{"value":[1]},"metadata":{"data_part_compat":true}}"#).unwrap();
    assert_eq!(part, Part::data(Json::parse("[1]").unwrap()));
    // Without the flag an object with a value is an object with a value.
    let part = part_of(r#"{"kind":"data","data":{"value":[1]}}"#).unwrap();
    assert_eq!(part, Part::data(Json::parse(r#"{"value":[1]}"#).unwrap()));
}

#[test]
fn a_part_that_is_two_things_or_nothing_is_refused() {
    for (part, words) in [
        ("{}", "message.parts[0]: a part has one of text, file and data; this one has none"),
        (r#"{"text":"x","data":{}}"#, "message.parts[0]: a part has one of text, file and data; this one has several"),
        (r#"{"kind":"text"}"#, "message.parts[0]: a text part has a member text; this one has none"),
        (r#"{"kind":"form"}"#, "message.parts[0]: a part is text, file or data, not \"form\""),
        (r#"{"kind":"file","file":{}}"#, "message.parts[0].file has bytes or a uri; this one has neither"),
        (
            r#"{"kind":"file","file":{"bytes":"AA==","uri":"u"}}"#,
            "message.parts[0].file has bytes or a uri; this one has both",
        ),
        (r#"{"kind":"file","file":{"bytes":"%"}}"#, "message.parts[0].file.bytes must be base64"),
    ] {
        let params = format!(r#"{{"message":{{"messageId":"m","role":"user","parts":[{part}]}}}}"#);
        assert_eq!(refusal("message/send", &params).1, words, "{part}");
    }
}

#[test]
fn a_message_without_what_it_needs_is_refused() {
    for (params, field) in [
        ("{}", "message"),
        (r#"{"message":{"role":"user","parts":[{"text":"x"}]}}"#, "message.messageId"),
        (r#"{"message":{"messageId":"m","parts":[{"text":"x"}]}}"#, "message.role"),
        (r#"{"message":{"messageId":"m","role":"system","parts":[{"text":"x"}]}}"#, "message.role"),
        (r#"{"message":{"messageId":"m","role":"user","parts":[]}}"#, "message.parts"),
        (r#"{"message":{"messageId":"m","role":"user"}}"#, "message.parts"),
        (r#"{"message":[]}"#, "message"),
        (
            r#"{"message":{"messageId":"m","role":"user","parts":[{"text":"x"}]},"configuration":{"pushNotificationConfig":{}}}"#,
            "configuration.pushNotificationConfig.url",
        ),
    ] {
        assert_eq!(refusal("message/send", params).0, field, "{params}");
    }
}

#[test]
fn push_configs_are_set_found_listed_and_deleted() {
    let call = decode(
        "tasks/pushNotificationConfig/set",
        r#"{"taskId":"t","pushNotificationConfig":{"url":"https://h","authentication":{"schemes":[],"credentials":"c"}}}"#,
    );
    let Ok(Call::Push(PushCall::Create(config))) = call else { panic!("{call:?}") };
    assert_eq!((config.task.as_deref(), config.id, config.scheme, config.credentials), (Some("t"), None, None, None));
    let named = |method: &str, params: &str| decode(&format!("tasks/pushNotificationConfig/{method}"), params).unwrap();
    let (task, id) = ("t".to_owned(), "c".to_owned());
    assert_eq!(
        named("get", r#"{"id":"t","pushNotificationConfigId":"c"}"#),
        Call::Push(PushCall::Get { task: task.clone(), id: id.clone() })
    );
    assert_eq!(named("get", r#"{"id":"t"}"#), Call::Push(PushCall::Get { task: task.clone(), id: String::new() }));
    assert_eq!(
        named("list", r#"{"id":"t"}"#),
        Call::Push(PushCall::List { task: task.clone(), page_size: None, page_token: None })
    );
    assert_eq!(
        named("delete", r#"{"id":"t","pushNotificationConfigId":"c"}"#),
        Call::Push(PushCall::Delete { task, id })
    );
    assert_eq!(refusal("tasks/pushNotificationConfig/delete", r#"{"id":"t"}"#).0, "pushNotificationConfigId");
    assert_eq!(refusal("tasks/pushNotificationConfig/set", r#"{"taskId":"t"}"#).0, "pushNotificationConfig");
    let split = r#"{"taskId":"t","pushNotificationConfig":{"url":"https://h","token":"a\r\nX: y"}}"#;
    assert_eq!(refusal("tasks/pushNotificationConfig/set", split).0, "pushNotificationConfig.token");
}

#[test]
fn the_rest_of_the_methods() {
    assert_eq!(decode("tasks/resubscribe", r#"{"id":"t"}"#).unwrap(), Call::Subscribe(Subscribe { task: "t".into() }));
    assert_eq!(
        decode("tasks/cancel", r#"{"id":"t","metadata":{"a":1}}"#).unwrap(),
        Call::Cancel(Cancel { task: "t".into(), metadata: Json::parse(r#"{"a":1}"#) })
    );
    assert_eq!(
        decode_rpc("agent/getAuthenticatedExtendedCard", None, &Limits::default()).unwrap().call,
        Call::ExtendedCard
    );
    for method in ["tasks/list", "tasks/send", "SendMessage", "message/"] {
        assert_eq!(decode(method, "{}").unwrap_err().kind, Kind::MethodNotFound, "{method}");
    }
    assert_eq!(refusal("tasks/get", "{}").0, "id");
}
