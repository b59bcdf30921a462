//! Tests of `decode`.

use bytes::Bytes;
use model::{Cancel, Content, Get, Json, Kind, Part, Role, Subscribe};

use super::*;

fn decode(method: &str, params: &str) -> Result<Call, Fault> {
    let raw: Box<RawValue> = serde_json::from_str(params).unwrap();
    decode_rpc(method, Some(&raw), &Limits::default()).map(|decoded| decoded.call)
}

fn sent(params: &str) -> Send {
    match decode("tasks/send", params).unwrap() {
        Call::Send(send) => *send,
        other => panic!("{other:?}"),
    }
}

fn part_of(part: &str) -> Result<Part, Fault> {
    let params = format!(r#"{{"id":"t","message":{{"role":"user","parts":[{part}]}}}}"#);
    match decode("tasks/send", &params)? {
        Call::Send(send) => Ok(send.message.parts[0].clone()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_callers_id_is_an_alias_and_its_session_the_context() {
    let send =
        sent(r#"{"id":"task-1","sessionId":"s-1","message":{"role":"user","parts":[{"type":"text","text":"hi"}]}}"#);
    assert_eq!((send.alias.as_deref(), send.task, send.context), (Some("task-1"), None, Some("s-1".into())));
    assert_eq!((&*send.message.id, send.message.role), ("", Role::User));
    assert_eq!(send.message.parts, [Part::text("hi")]);
    assert_eq!(send.wait, Wait::Rest { max_ms: Some(10_000) });
    assert_eq!(send.history, Some(0));
}

#[test]
fn a_send_with_every_optional_member_null_is_a_send_without_them() {
    let bare = sent(r#"{"id":"t","message":{"role":"user","parts":[{"text":"hi"}]}}"#);
    let nulls = sent(
        r#"{"id":"t","sessionId":null,"acceptedOutputModes":null,"pushNotification":null,"historyLength":null,"metadata":null,
            "message":{"role":"user","metadata":null,"parts":[{"type":"text","text":"hi","metadata":null}]}}"#,
    );
    assert_eq!(bare, nulls);
    assert_eq!(bare.context, None);
}

#[test]
fn a_send_in_full() {
    let call = decode(
        "tasks/sendSubscribe",
        r#"{"id":"t","sessionId":"s","historyLength":4,"metadata":{"k":1},"acceptedOutputModes":["text","image/png","file","data"],
            "pushNotification":{"url":"https://h","token":"x","authentication":{"schemes":["bearer"],"credentials":null}},
            "message":{"role":"agent","parts":[{"type":"text","text":"a"}],"metadata":{"m":2}}}"#,
    );
    let Ok(Call::Stream(send)) = call else { panic!("{call:?}") };
    assert_eq!((send.history, send.message.role), (Some(4), Role::Agent));
    assert_eq!(send.accepted_output, ["text/plain", "image/png", "application/octet-stream", "application/json"]);
    assert_eq!((send.metadata, send.message.metadata), (Json::parse(r#"{"k":1}"#), Json::parse(r#"{"m":2}"#)));
    let push = send.push.unwrap();
    assert_eq!((&*push.url, push.token.as_deref(), push.scheme.as_deref()), ("https://h", Some("x"), Some("bearer")));
}

#[test]
fn files_come_as_bytes_as_a_uri_and_as_a_url() {
    let file =
        part_of(r#"{"type":"file","file":{"name":"a.csv","mimeType":"text/csv","bytes":"YSxiCjEsMgo="}}"#).unwrap();
    assert_eq!(file.content, Content::Raw(Bytes::from_static(b"a,b\n1,2\n")));
    assert_eq!((file.filename.as_deref(), file.media_type.as_deref()), (Some("a.csv"), Some("text/csv")));
    for member in ["uri", "url"] {
        let file = part_of(&format!(r#"{{"type":"file","file":{{"{member}":"https://x","bytes":null}}}}"#)).unwrap();
        assert_eq!(file.content, Content::Url("https://x".into()));
    }
    let both = part_of(r#"{"type":"file","file":{"bytes":"YQ==","uri":"https://x"}}"#).unwrap_err();
    assert_eq!((both.kind, both.field.as_deref()), (Kind::InvalidParams, Some("message.parts[0].file")));
}

#[test]
fn a_file_that_is_only_spoken_of_is_kept_as_data() {
    let part = part_of(r#"{"type":"file","file":{"name":"a.csv"}}"#).unwrap();
    assert_eq!(part.content, Content::Data(Json::parse(r#"{"file":{"name":"a.csv"}}"#).unwrap()));
    assert_eq!(part.metadata, Json::parse(r#"{"a2a_compat":{"kind":"file-ref"}}"#));
}

#[test]
fn data_is_any_json() {
    for data in ["{}", "[1]", "null", "0", r#""x""#] {
        let part = part_of(&format!(r#"{{"type":"data","data":{data}}}"#)).unwrap();
        assert_eq!(part, Part::data(Json::parse(data).unwrap()));
    }
}

#[test]
fn history_is_for_those_who_ask() {
    for (length, history) in [("null", 0), ("0", 0), ("3", 3)] {
        let call = decode("tasks/get", &format!(r#"{{"id":"t","historyLength":{length}}}"#)).unwrap();
        assert_eq!(call, Call::Get(Get { task: "t".into(), history: Some(history) }));
    }
}

#[test]
fn a_task_has_one_push_config_which_null_clears() {
    let call = decode("tasks/pushNotification/set", r#"{"id":"t","pushNotificationConfig":{"url":"https://h"}}"#);
    let Ok(Call::Push(PushCall::Create(config))) = call else { panic!("{call:?}") };
    assert_eq!((config.task.as_deref(), config.id.as_deref()), (Some("t"), Some("t")));
    assert_eq!(
        decode("tasks/pushNotification/set", r#"{"id":"t","pushNotificationConfig":null}"#).unwrap(),
        Call::Push(PushCall::Delete { task: "t".into(), id: "t".into() })
    );
    assert_eq!(
        decode("tasks/pushNotification/get", r#"{"id":"t","metadata":null}"#).unwrap(),
        Call::Push(PushCall::Get { task: "t".into(), id: String::new() })
    );
}

#[test]
fn the_rest_of_the_methods() {
    assert_eq!(decode("tasks/resubscribe", r#"{"id":"t"}"#).unwrap(), Call::Subscribe(Subscribe { task: "t".into() }));
    assert_eq!(
        decode("tasks/cancel", r#"{"id":"t","metadata":null}"#).unwrap(),
        Call::Cancel(Cancel { task: "t".into(), metadata: None })
    );
    for method in ["message/send", "tasks/pushNotificationConfig/set", "SendMessage"] {
        assert_eq!(decode(method, "{}").unwrap_err().kind, Kind::MethodNotFound, "{method}");
    }
}

#[test]
fn a_send_without_what_it_needs_is_refused() {
    for (params, field) in [
        (r#"{"message":{"role":"user","parts":[{"text":"x"}]}}"#, "id"),
        (r#"{"id":"","message":{"role":"user","parts":[{"text":"x"}]}}"#, "id"),
        (r#"{"id":"t"}"#, "message"),
        (r#"{"id":"t","message":{"parts":[{"text":"x"}]}}"#, "message.role"),
        (r#"{"id":"t","message":{"role":"user","parts":[]}}"#, "message.parts"),
        (r#"{"id":"t","message":{"role":"user","parts":[{"type":"text"}]}}"#, "message.parts[0]"),
        (r#"{"id":1,"message":{"role":"user","parts":[{"text":"x"}]}}"#, "id"),
    ] {
        let fault = decode("tasks/send", params).unwrap_err();
        assert_eq!((fault.kind, fault.field.as_deref()), (Kind::InvalidParams, Some(field)), "{params}");
    }
}
