//! Tests of `rest`.

use model::{Call, Cancel, Get, Kind, List, PushCall, State, Subscribe};

use super::*;

fn found(verb: &str, path: &str) -> (RestOperation, Option<String>) {
    let route = route(verb, path, None).unwrap();
    (route.operation, route.tenant)
}

fn decoded(verb: &str, path: &str, query: &str, body: &str) -> Result<Decoded, Fault> {
    route(verb, path, Some(query).filter(|query| !query.is_empty()))?.decode(body, &Limits::default())
}

fn s(text: &str) -> String {
    text.to_owned()
}

#[test]
fn every_route_has_its_operation_with_and_without_tenant() {
    for (verb, path, operation) in [
        ("POST", "/message:send", RestOperation::Send),
        ("POST", "/message:stream", RestOperation::Stream),
        ("GET", "/tasks", RestOperation::List),
        ("GET", "/tasks/7", RestOperation::Get { id: s("7") }),
        ("POST", "/tasks/7:cancel", RestOperation::Cancel { id: s("7") }),
        ("GET", "/tasks/7:subscribe", RestOperation::Subscribe { id: s("7") }),
        ("POST", "/tasks/7:subscribe", RestOperation::Subscribe { id: s("7") }),
        ("POST", "/tasks/7/pushNotificationConfigs", RestOperation::PushCreate { task: s("7") }),
        ("GET", "/tasks/7/pushNotificationConfigs", RestOperation::PushList { task: s("7") }),
        ("GET", "/tasks/7/pushNotificationConfigs/c", RestOperation::PushGet { task: s("7"), id: s("c") }),
        ("DELETE", "/tasks/7/pushNotificationConfigs/c", RestOperation::PushDelete { task: s("7"), id: s("c") }),
        ("GET", "/extendedAgentCard", RestOperation::ExtendedCard),
    ] {
        assert_eq!(found(verb, path), (operation.clone(), None), "{path}");
        assert_eq!(found(verb, &format!("{path}/")), (operation.clone(), None), "{path}/");
        assert_eq!(found(verb, &format!("/ac%20me{path}")), (operation, Some(s("ac me"))), "{path}");
        let route = route(verb, path, None).unwrap();
        assert_eq!(route.reads_body, verb == "POST");
        assert_eq!(route.is_stream(), path.ends_with(":stream") || path.ends_with(":subscribe"));
    }
}

#[test]
fn an_id_may_hold_anything() {
    for (verb, path, id) in [
        ("GET", "/tasks/a:b", "a:b"),
        ("GET", "/tasks/thread%3Arun", "thread:run"),
        ("GET", "/tasks/a%3Acancel", "a:cancel"),
        ("GET", "/tasks/a%2Fb", "a/b"),
        ("GET", "/tasks/tasks", "tasks"),
        ("GET", "/tasks/a+b", "a+b"),
        ("GET", "/tasks/%C3%A9", "é"),
    ] {
        assert_eq!(found(verb, path).0, RestOperation::Get { id: s(id) }, "{path}");
    }
    assert_eq!(found("POST", "/tasks/a:b:cancel").0, RestOperation::Cancel { id: s("a:b") });
    assert_eq!(found("POST", "/message%3Asend").0, RestOperation::Send);
}

#[test]
fn an_unknown_path_is_not_found() {
    for path in [
        "",
        "/",
        "//",
        "tasks",
        "/nothing",
        "/message",
        "/message:other",
        "/tasks/:cancel",
        "/tasks/7/other",
        "/tasks//pushNotificationConfigs",
        "/tasks/7/pushNotificationConfigs/c/d",
        "/a/b/tasks",
        "//tasks",
        "/acme",
        "/acme/nothing",
        "/a/tasks/7/pushNotificationConfigs/c/d/e",
        "/v1/message/send",
    ] {
        let fault = route("GET", path, None).unwrap_err();
        assert_eq!(fault.kind, Kind::MethodNotFound, "{path}");
    }
}

#[test]
fn a_wrong_verb_is_told_the_right_ones() {
    for (verb, path, allow) in [
        ("GET", "/message:send", "POST"),
        ("POST", "/tasks", "GET"),
        ("DELETE", "/tasks/7", "GET"),
        ("GET", "/tasks/7:cancel", "POST"),
        ("PUT", "/tasks/7:subscribe", "GET, POST"),
        ("DELETE", "/acme/tasks/7/pushNotificationConfigs", "GET, POST"),
        ("POST", "/tasks/7/pushNotificationConfigs/c", "GET, DELETE"),
        ("get", "/tasks", "GET"),
    ] {
        let fault = route(verb, path, None).unwrap_err();
        assert_eq!((fault.kind, fault.facts), (Kind::VerbNotAllowed, vec![("allow", s(allow))]), "{verb} {path}");
    }
}

#[test]
fn a_bad_escape_in_the_path_is_invalid() {
    for path in ["/tasks/%zz", "/tasks/%ff", "/%4/tasks", "/tasks/a%:cancel"] {
        assert_eq!(route("GET", path, None).unwrap_err().kind, Kind::InvalidRequest, "{path}");
    }
}

#[test]
fn a_query_becomes_the_call() {
    let list = decoded(
        "GET",
        "/tasks",
        "contextId=a+b&status=TASK_STATE_WORKING&pageSize=2&pageToken=x%3D&historyLength=0&includeArtifacts=true\
         &statusTimestampAfter=1970-01-01T00%3A00%3A00.001Z&A2A-Version=1.0&other=1&other=2",
        "",
    );
    let expected = List {
        context: Some("a b".into()),
        state: Some(State::Working),
        since: Some(model::Time(1)),
        page_size: Some(2),
        page_token: Some(s("x=")),
        history: Some(0),
        artifacts: true,
    };
    assert_eq!(list.unwrap().call, Call::List(expected));
    assert_eq!(decoded("GET", "/tasks", "status=&contextId=", "").unwrap().call, Call::List(List::default()));
    assert_eq!(
        decoded("GET", "/tasks/7", "history_length=5&tenant=acme", "").unwrap(),
        Decoded { call: Call::Get(Get { task: s("7"), history: Some(5) }), tenant: Some(s("acme")) }
    );
    assert_eq!(
        decoded("GET", "/tasks/7/pushNotificationConfigs", "pageSize=3&pageToken=t", "").unwrap().call,
        Call::Push(PushCall::List { task: s("7"), page_size: Some(3), page_token: Some(s("t")) })
    );
}

#[test]
fn a_bad_query_names_its_parameter() {
    for (query, field) in [
        ("pageSize=0", "pageSize"),
        ("pageSize=101", "pageSize"),
        ("pageSize=x", "pageSize"),
        ("pageSize=", "pageSize"),
        ("pageSize=1&page_size=1", "pageSize"),
        ("status=working", "status"),
        ("status=99", "status"),
        ("historyLength=-1", "historyLength"),
        ("includeArtifacts=TRUE", "includeArtifacts"),
        ("statusTimestampAfter=now", "statusTimestampAfter"),
        ("contextId=%zz", "contextId"),
        ("contextId=a&contextId=b", "contextId"),
    ] {
        let fault = decoded("GET", "/tasks", query, "").unwrap_err();
        assert_eq!((fault.kind, fault.field.as_deref()), (Kind::InvalidParams, Some(field)), "{query}");
    }
}

#[test]
fn cancel_and_subscribe_need_no_body() {
    for body in ["", "  \n", "null", "{}", r#"{"id":"other","tenant":"","unknown":1}"#] {
        assert_eq!(
            decoded("POST", "/tasks/7:cancel", "", body).unwrap().call,
            Call::Cancel(Cancel { task: s("7"), metadata: None }),
            "{body}"
        );
        assert_eq!(
            decoded("POST", "/tasks/7:subscribe", "", body).unwrap().call,
            Call::Subscribe(Subscribe { task: s("7") }),
            "{body}"
        );
    }
    assert_eq!(decoded("POST", "/tasks/7:cancel", "", "[]").unwrap_err().kind, Kind::InvalidParams);
    assert_eq!(decoded("POST", "/tasks/7:cancel", "", "{").unwrap_err().kind, Kind::Parse);
}

#[test]
fn a_send_needs_its_body() {
    let body = r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}]}}"#;
    assert!(matches!(decoded("POST", "/message:send", "", body).unwrap().call, Call::Send(_)));
    assert!(matches!(decoded("POST", "/message:stream", "", body).unwrap().call, Call::Stream(_)));
    for (body, kind) in [
        ("", Kind::Parse),
        ("nope", Kind::Parse),
        (&body[..40], Kind::Parse),
        ("null", Kind::InvalidParams),
        ("[]", Kind::InvalidParams),
        ("{}", Kind::InvalidParams),
    ] {
        assert_eq!(decoded("POST", "/message:send", "", body).unwrap_err().kind, kind, "{body}");
    }
}

#[test]
fn the_path_wins_over_the_body_but_for_the_tenant() {
    let body = r#"{"tenant":"acme","taskId":"other","url":"https://h"}"#;
    let Decoded { call: Call::Push(PushCall::Create(config)), tenant } =
        decoded("POST", "/acme/tasks/7/pushNotificationConfigs", "", body).unwrap()
    else {
        panic!()
    };
    assert_eq!((config.task.as_deref(), tenant.as_deref()), (Some("7"), Some("acme")));
    let fault = decoded("POST", "/evil/tasks/7/pushNotificationConfigs", "", body).unwrap_err();
    assert_eq!((fault.kind, fault.field.as_deref()), (Kind::InvalidParams, Some("tenant")));
    assert_eq!(decoded("POST", "/tasks/7/pushNotificationConfigs", "", body).unwrap().tenant.as_deref(), Some("acme"));
    assert!(decoded("GET", "/acme/tasks", "tenant=other", "").is_err());
    assert_eq!(decoded("GET", "/acme/tasks", "tenant=acme", "").unwrap().tenant.as_deref(), Some("acme"));
}
