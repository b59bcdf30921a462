//! Tests of `decode`.

use bytes::Bytes;
use model::{PushConfig, Role};

use super::*;

fn decode(method: &str, params: &str) -> Result<Decoded, Fault> {
    let raw: Box<RawValue> = serde_json::from_str(params).unwrap();
    decode_rpc(method, Some(&raw), &Limits::default())
}

fn send(params: &str) -> Send {
    match decode("SendMessage", params).unwrap().call {
        Call::Send(send) => *send,
        other => panic!("{other:?}"),
    }
}

fn list(params: &str) -> List {
    match decode("ListTasks", params).unwrap().call {
        Call::List(list) => list,
        other => panic!("{other:?}"),
    }
}

/// A send whose only part is `part`.
fn part_of(part: &str) -> Result<Part, Fault> {
    let params = format!(r#"{{"message":{{"messageId":"m","role":"ROLE_USER","parts":[{part}]}}}}"#);
    match decode("SendMessage", &params)?.call {
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
    let decoded = decode(
        "SendStreamingMessage",
        r#"{"tenant":"acme","message":{"messageId":"m1","contextId":"c1","taskId":"t1","role":"ROLE_USER",
            "parts":[{"text":"hi","mediaType":"text/markdown","filename":"a.md","metadata":{"k":1.0}}],
            "metadata":{"z":1,"a":12345678901234567890},"extensions":["urn:x"],"referenceTaskIds":["t0"]},
            "configuration":{"acceptedOutputModes":["text/plain"],"historyLength":3,"returnImmediately":true,
            "taskPushNotificationConfig":{"url":"https://h/x","token":"tok","authentication":{"scheme":"Bearer","credentials":"c"}}},
            "metadata":{"trace":[1, 2]}}"#,
    )
    .unwrap();
    assert_eq!(decoded.tenant.as_deref(), Some("acme"));
    let Call::Stream(send) = decoded.call else { panic!("{:?}", decoded.call) };
    let expected = Send {
        message: Message {
            id: "m1".into(),
            role: Role::User,
            parts: vec![Part {
                content: Content::Text("hi".into()),
                filename: Some("a.md".into()),
                media_type: Some("text/markdown".into()),
                metadata: Json::parse(r#"{"k":1.0}"#),
            }],
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
            id: None,
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
fn proto_names_nulls_and_strangers_are_read_too() {
    let send = send(
        r#"{"tenant":null,"what":{"a":1,"a":2},"metadata":null,"configuration":{"history_length":"5","accepted_output_modes":null,
            "return_immediately":false,"task_push_notification_config":null,"blocking":true},
            "message":{"kind":"message","message_id":"m","context_id":"c","task_id":"","role":1,"reference_task_ids":["r"],
            "parts":[{"text":"x","media_type":"text/plain","raw":null,"url":null,"metadata":null}],"extensions":null}}"#,
    );
    assert_eq!(send.history, Some(5));
    assert_eq!(send.context, Some("c".into()));
    assert_eq!(send.task, None);
    assert_eq!(send.message.references, ["r"]);
    assert_eq!(send.message.parts[0].media_type.as_deref(), Some("text/plain"));
    assert_eq!(send.wait, Wait::Rest { max_ms: None });
}

#[test]
fn every_part_kind_is_read() {
    assert_eq!(part_of(r#"{"text":""}"#).unwrap().content, Content::Text(String::new()));
    assert_eq!(part_of(r#"{"url":"https://x"}"#).unwrap().content, Content::Url("https://x".into()));
    for data in ["null", "0", r#"{"b":1,"a":1e400,"a":2}"#, "[ 1 ]", r#""\ud800""#] {
        let part = part_of(&format!(r#"{{"data":{data}}}"#)).unwrap();
        assert_eq!(part.content, Content::Data(Json::parse(data).unwrap()));
    }
    for raw in ["+/+/AA==", "-_-_AA==", "-_-_AA", "+/+/AA", "+\\/+\\/AA=="] {
        let part = part_of(&format!(r#"{{"raw":"{raw}"}}"#)).unwrap();
        assert_eq!(part.content, Content::Raw(Bytes::from_static(b"\xfb\xff\xbf\x00")), "{raw}");
    }
}

#[test]
fn a_part_has_exactly_one_content() {
    for part in
        ["{}", r#"{"filename":"x"}"#, r#"{"text":"a","url":"b"}"#, r#"{"text":"a","data":null}"#, r#"{"raw":"*"}"#]
    {
        let fault = part_of(part).unwrap_err();
        assert!(fault.field.unwrap().starts_with("message.parts[0]"), "{part}");
    }
}

#[test]
fn a_fault_names_the_member_and_says_what_is_wrong() {
    let full = r#""messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}]"#;
    for (params, field, words) in [
        ("{}".to_owned(), "message", "message is missing"),
        (r#"{"message":null}"#.to_owned(), "message", "message is missing"),
        (r#"{"message":[]}"#.to_owned(), "message", "message: expected a message object, found sequence"),
        (
            r#"{"message":{"role":"ROLE_USER"}}"#.to_owned(),
            "message.messageId",
            "message.messageId is missing or empty",
        ),
        (
            r#"{"message":{"messageId":"m","parts":[{"text":"x"}]}}"#.to_owned(),
            "message.role",
            "message.role is missing: give ROLE_USER",
        ),
        (
            r#"{"message":{"messageId":"m","role":"user","parts":[{"text":"x"}]}}"#.to_owned(),
            "message.role",
            r#"message.role must be ROLE_USER or ROLE_AGENT, not "user""#,
        ),
        (
            r#"{"message":{"messageId":"m","role":"ROLE_UNSPECIFIED","parts":[{"text":"x"}]}}"#.to_owned(),
            "message.role",
            r#"message.role must be ROLE_USER or ROLE_AGENT, not "ROLE_UNSPECIFIED""#,
        ),
        (
            r#"{"message":{"messageId":"m","role":"ROLE_USER"}}"#.to_owned(),
            "message.parts",
            "message.parts is missing or empty: a message has at least one part",
        ),
        (
            r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"},{"text":7}]}}"#.to_owned(),
            "message.parts[1].text",
            "message.parts[1].text: expected a string, found integer `7`",
        ),
        (
            r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x","metadata":[]}]}}"#.to_owned(),
            "message.parts[0].metadata",
            "message.parts[0].metadata: expected an object",
        ),
        (
            r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":[["x"]]}}"#.to_owned(),
            "message.parts[0]",
            "message.parts[0]: expected a part object, found sequence",
        ),
        (
            r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"},{}]}}"#.to_owned(),
            "message.parts[1]",
            "message.parts[1]: a part has one of text, raw, url and data; this one has none",
        ),
        (
            format!(r#"{{"message":{{{full},"messageId":"n"}}}}"#),
            "message.messageId",
            "message.messageId: given more than once (perhaps in both spellings)",
        ),
        (
            format!(r#"{{"message":{{{full},"message_id":"n"}}}}"#),
            "message.messageId",
            "message.messageId: given more than once (perhaps in both spellings)",
        ),
        (
            format!(r#"{{"message":{{{full}}},"configuration":{{"historyLength":1.5}}}}"#),
            "configuration.historyLength",
            "configuration.historyLength: expected an integer, found floating point `1.5`",
        ),
        (
            format!(r#"{{"message":{{{full}}},"configuration":{{"history_length":true}}}}"#),
            "configuration.history_length",
            "configuration.history_length: expected an integer, found boolean `true`",
        ),
        (
            format!(r#"{{"message":{{{full}}},"configuration":{{"historyLength":-1}}}}"#),
            "configuration.historyLength",
            "configuration.historyLength must not be negative (-1)",
        ),
        (format!(r#"{{"message":{{{full}}},"metadata":"x"}}"#), "metadata", "metadata: expected an object"),
        (
            format!(r#"{{"message":{{{full}}},"configuration":{{"taskPushNotificationConfig":{{}}}}}}"#),
            "configuration.taskPushNotificationConfig.url",
            "configuration.taskPushNotificationConfig.url is missing",
        ),
        (
            r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"\ud800"}]}}"#.to_owned(),
            "message.parts[0].text",
            "message.parts[0].text: has a \\u escape that is no character, or half of one",
        ),
    ] {
        let (got_field, got_words) = refusal("SendMessage", &params);
        assert_eq!((got_field.as_str(), got_words.as_str()), (field, words), "{params}");
    }
}

#[test]
fn opaque_json_may_hold_duplicates() {
    let part = part_of(r#"{"data":{"a":1,"a":2},"metadata":{"b":1,"b":2}}"#).unwrap();
    assert_eq!(part.metadata.unwrap().text(), r#"{"b":1,"b":2}"#);
}

#[test]
fn an_id_has_a_limit() {
    let long = "x".repeat(257);
    let just = "é".repeat(128);
    assert!(decode("GetTask", &format!(r#"{{"id":"{just}"}}"#)).is_ok());
    assert_eq!(refusal("GetTask", &format!(r#"{{"id":"{long}"}}"#)).0, "id");
    for member in ["messageId", "contextId", "taskId"] {
        let others = if member == "messageId" { "" } else { r#""messageId":"m","# };
        let params =
            format!(r#"{{"message":{{{others}"{member}":"{long}","role":"ROLE_USER","parts":[{{"text":"x"}}]}}}}"#);
        assert_eq!(refusal("SendMessage", &params).0, format!("message.{member}"));
    }
}

#[test]
fn a_list_of_parts_has_a_limit() {
    let params = |n| {
        let parts = vec![r#"{"url":""}"#; n].join(",");
        format!(r#"{{"message":{{"messageId":"m","role":"ROLE_USER","parts":[{parts}]}}}}"#)
    };
    assert!(decode("SendMessage", &params(1_000)).is_ok());
    assert_eq!(refusal("SendMessage", &params(1_001)).1, "message.parts has 1001 entries; the limit here is 1000");
    assert_eq!(
        refusal("SendMessage", &params(shapes::MAX_PARTS + 1)).1,
        "message.parts: more than 100000 entries, which is the limit here"
    );
}

#[test]
fn a_get_takes_any_spelling_of_a_number() {
    for (length, expected) in [
        ("0", Some(0)),
        ("5", Some(5)),
        ("5.0", Some(5)),
        ("\"5\"", Some(5)),
        ("null", None),
        ("5000000000", Some(u32::MAX)),
        ("99999999999999999999999999", Some(u32::MAX)),
        ("\"99999999999999999999999999\"", Some(u32::MAX)),
    ] {
        let decoded = decode("GetTask", &format!(r#"{{"id":"t","historyLength":{length}}}"#)).unwrap();
        assert_eq!(decoded.call, Call::Get(Get { task: "t".into(), history: expected }), "{length}");
    }
    for bad in ["-1", "\"\"", "\"5.0\"", "\" 5\"", "\"-1\"", "[]", "-99999999999999999999", "0.5"] {
        assert_eq!(refusal("GetTask", &format!(r#"{{"id":"t","historyLength":{bad}}}"#)).0, "historyLength", "{bad}");
    }
}

#[test]
fn a_list_reads_all_its_filters() {
    assert_eq!(list("{}"), List::default());
    assert_eq!(decode_rpc("ListTasks", None, &Limits::default()).unwrap().call, Call::List(List::default()));
    let all = list(
        r#"{"contextId":"c","status":"TASK_STATE_INPUT_REQUIRED","pageSize":100,"pageToken":"p","historyLength":0,
            "statusTimestampAfter":"1970-01-01T01:00:00+01:00","includeArtifacts":true}"#,
    );
    let expected = List {
        context: Some("c".into()),
        state: Some(State::InputRequired),
        since: Some(Time(0)),
        page_size: Some(100),
        page_token: Some("p".into()),
        history: Some(0),
        artifacts: true,
    };
    assert_eq!(all, expected);
    assert_eq!(list(r#"{"status":"TASK_STATE_UNSPECIFIED","pageToken":"","contextId":""}"#), List::default());
    for (number, state) in [
        (1, State::Submitted),
        (2, State::Working),
        (3, State::Completed),
        (6, State::InputRequired),
        (8, State::AuthRequired),
    ] {
        assert_eq!(list(&format!(r#"{{"status":{number}}}"#)).state, Some(state));
    }
}

#[test]
fn a_list_refuses_what_it_cannot_honour() {
    for (params, field) in [
        (r#"{"pageSize":0}"#, "pageSize"),
        (r#"{"pageSize":101}"#, "pageSize"),
        (r#"{"page_size":-1}"#, "pageSize"),
        (r#"{"pageSize":99999999999999999999}"#, "pageSize"),
        (r#"{"pageSize":1,"page_size":1}"#, "pageSize"),
        (r#"{"status":"working"}"#, "status"),
        (r#"{"status":"TASK_STATE_CANCELLED"}"#, "status"),
        (r#"{"status":9}"#, "status"),
        (r#"{"status":-1}"#, "status"),
        (r#"{"status":1.5}"#, "status"),
        (r#"{"statusTimestampAfter":"yesterday"}"#, "statusTimestampAfter"),
        (r#"{"statusTimestampAfter":5}"#, "statusTimestampAfter"),
        (r#"{"historyLength":-1}"#, "historyLength"),
        (r#"{"includeArtifacts":"yes"}"#, "includeArtifacts"),
    ] {
        assert_eq!(refusal("ListTasks", params).0, field, "{params}");
    }
}

#[test]
fn the_other_methods_are_read() {
    for (method, params, call) in [
        (
            "CancelTask",
            r#"{"id":"t","metadata":{"why":1}}"#,
            Call::Cancel(Cancel { task: "t".into(), metadata: Json::parse(r#"{"why":1}"#) }),
        ),
        ("SubscribeToTask", r#"{"id":"t"}"#, Call::Subscribe(Subscribe { task: "t".into() })),
        (
            "CreateTaskPushNotificationConfig",
            r#"{"taskId":"t","url":"https://h"}"#,
            Call::Push(PushCall::Create(PushConfig {
                task: Some("t".into()),
                id: None,
                url: "https://h".into(),
                token: None,
                scheme: None,
                credentials: None,
            })),
        ),
        (
            "GetTaskPushNotificationConfig",
            r#"{"task_id":"t","id":"c"}"#,
            Call::Push(PushCall::Get { task: "t".into(), id: "c".into() }),
        ),
        (
            "ListTaskPushNotificationConfigs",
            r#"{"taskId":"t","pageSize":0,"pageToken":""}"#,
            Call::Push(PushCall::List { task: "t".into(), page_size: None, page_token: None }),
        ),
        (
            "ListTaskPushNotificationConfigs",
            r#"{"taskId":"t","pageSize":5000,"pageToken":"p"}"#,
            Call::Push(PushCall::List { task: "t".into(), page_size: Some(100), page_token: Some("p".into()) }),
        ),
        (
            "DeleteTaskPushNotificationConfig",
            r#"{"taskId":"t","id":"c"}"#,
            Call::Push(PushCall::Delete { task: "t".into(), id: "c".into() }),
        ),
        ("GetExtendedAgentCard", "{}", Call::ExtendedCard),
    ] {
        assert_eq!(decode(method, params).unwrap(), Decoded { call, tenant: None }, "{method}");
    }
    for (method, field) in [
        ("GetTask", "id"),
        ("CancelTask", "id"),
        ("SubscribeToTask", "id"),
        ("CreateTaskPushNotificationConfig", "url"),
        ("GetTaskPushNotificationConfig", "taskId"),
        ("ListTaskPushNotificationConfigs", "taskId"),
        ("DeleteTaskPushNotificationConfig", "taskId"),
    ] {
        assert_eq!(refusal(method, "{}").0, field);
    }
    assert_eq!(refusal("CreateTaskPushNotificationConfig", r#"{"url":"https://h"}"#).0, "taskId");
}

#[test]
fn a_webhook_cannot_smuggle_headers() {
    for (params, field) in [
        (r#"{"taskId":"t","url":"https://h","token":"a\r\nX-Evil: 1"}"#, "token"),
        (
            r#"{"taskId":"t","url":"https://h","authentication":{"scheme":"Bearer","credentials":"a\nb"}}"#,
            "authentication.credentials",
        ),
        (r#"{"taskId":"t","url":"https://h","authentication":{"credentials":"a"}}"#, "authentication.scheme"),
        (r#"{"taskId":"t","url":"https://h\u0000"}"#, "url"),
    ] {
        assert_eq!(refusal("CreateTaskPushNotificationConfig", params).0, field, "{params}");
    }
}

#[test]
fn an_unknown_method_is_not_found() {
    for method in ["message/send", "sendMessage", "", "tasks/get"] {
        assert_eq!(decode(method, "{}").unwrap_err().kind, Kind::MethodNotFound);
    }
    let fault = decode(&"é".repeat(10_000), "{}").unwrap_err();
    assert!(fault.message.len() < 200);
    for method in METHODS {
        if let Err(fault) = decode(method, "{}") {
            assert_eq!(fault.kind, Kind::InvalidParams, "{method}");
        }
    }
}

#[test]
fn a_huge_wrong_value_is_not_repeated_whole() {
    let params = format!(r#"{{"id":"t","historyLength":"{}"}}"#, "x".repeat(1_000_000));
    assert!(refusal("GetTask", &params).1.len() < 500);
}
