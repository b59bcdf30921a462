//! A config of any generation is set, read, listed and removed in its own form, and its deliveries use that form.

use e2e::{Delivery, Frame, Operation, Receiver, Tongue, Verdict, folded, fresh_id};
use serde_json::{Value, json};

use crate::{hasty, push};

fn config(url: &str) -> Value {
    json!({ "id": "one", "url": url, "token": "tok", "authentication": { "schemes": ["Bearer"], "credentials": "cred" } })
}

/// A send with an inline config, in each generation's form.
fn open_inline(speaker: &e2e::Speaker, steps: &Value, url: &str) -> String {
    let (client, tongue) = (&speaker.client, speaker.tongue);
    let task = |result: &Value| result["task"]["id"].as_str().or(result["id"].as_str()).expect("a task").to_owned();
    match tongue {
        Tongue::V1 | Tongue::V1Rest => {
            let config = json!({ "id": "one", "url": url, "token": "tok",
                "authentication": { "scheme": "Bearer", "credentials": "cred" } });
            let params = json!({ "message": e2e::script(steps.clone()),
                "configuration": { "taskPushNotificationConfig": config } });
            match tongue {
                Tongue::V1 => task(&client.rpc("SendMessage", params).unwrap()),
                _ => task(&client.rest("POST", "/message:send", Some(&params)).json()),
            }
        }
        Tongue::V03 | Tongue::V02 => {
            let message = json!({ "kind": "message", "messageId": fresh_id(), "role": "user",
                "parts": [{ "kind": "data", "data": { "script": steps } }] });
            let params = json!({ "message": message, "configuration": { "pushNotificationConfig": config(url) } });
            task(&client.rpc("message/send", params).unwrap())
        }
        Tongue::V03Rest => {
            let message = json!({ "messageId": fresh_id(), "role": "ROLE_USER",
                "content": [{ "data": { "data": { "script": steps } } }] });
            let params = json!({ "message": message,
                "configuration": { "blocking": true, "pushNotification": config(url) } });
            task(&client.rest("POST", "/v1/message:send", Some(&params)).json())
        }
        Tongue::V01 => {
            let message = json!({ "role": "user", "parts": [{ "type": "data", "data": { "script": steps } }] });
            let params = json!({ "id": fresh_id(), "message": message, "pushNotification": config(url) });
            task(&client.rpc("tasks/send", params).unwrap())
        }
    }
}

fn is_over(tongue: Tongue, all: &[Delivery]) -> bool {
    all.last().is_some_and(|last| {
        let text = String::from_utf8_lossy(&last.body).into_owned();
        match tongue {
            Tongue::V1 | Tongue::V1Rest | Tongue::V03Rest => text.contains("TASK_STATE_COMPLETED"),
            Tongue::V03 | Tongue::V02 | Tongue::V01 => text.contains("\"completed\""),
        }
    })
}

#[test]
fn every_generation_is_told_in_its_own_words() {
    let server = hasty();
    let steps = json!([
        { "status": "working", "text": "on it" },
        { "artifact": { "name": "a", "parts": [{ "text": "la " }] }, "chunks": 3, "every_ms": 1 },
        { "complete": "done" }
    ]);
    for tongue in Tongue::ALL {
        let receiver = Receiver::start();
        let speaker = tongue.speaker(&server.agent("scripted"));
        let task = open_inline(&speaker, &steps, &receiver.url("/hook?key=in-the-url"));
        let all = receiver.until(&format!("{tongue:?} heard the end"), |all| is_over(tongue, all));
        for delivery in &all {
            assert_eq!(delivery.path, "/hook?key=in-the-url");
            assert_eq!(delivery.header("x-a2a-notification-token"), Some("tok"), "{tongue:?}");
            assert_eq!(delivery.header("a2a-notification-token"), Some("tok"), "{tongue:?}");
            assert_eq!(delivery.header("authorization"), Some("Bearer cred"), "{tongue:?}");
            assert!(delivery.header("webhook-signature").is_some_and(|s| s.starts_with("v1,")), "{tongue:?}");
        }
        match tongue {
            Tongue::V1 | Tongue::V1Rest => {
                assert!(all.iter().all(|d| d.header("content-type") == Some("application/a2a+json")), "{tongue:?}");
                let heard: Vec<_> = all
                    .iter()
                    .map(|d| {
                        tongue.event(&Frame { id: None, event: None, data: String::from_utf8(d.body.clone()).unwrap() })
                    })
                    .collect();
                assert!(matches!(heard[0], e2e::Heard::Task(_)), "an inline config starts at the first event");
                let (state, texts) = folded(&heard);
                assert_eq!((state.as_str(), texts), ("completed", vec!["la la la ".to_owned()]));
            }
            Tongue::V03 | Tongue::V02 | Tongue::V03Rest | Tongue::V01 => {
                assert!(all.iter().all(|d| d.header("content-type") == Some("application/json")), "{tongue:?}");
                let seen: Vec<_> = all.iter().map(|delivery| tongue.task(&delivery.json())).collect();
                assert!(seen.iter().all(|one| one.id == task), "{tongue:?}: {seen:?}");
                let states: Vec<&str> = seen.iter().map(|one| one.state.as_str()).collect();
                assert_eq!(states.first(), Some(&"submitted"), "{tongue:?}");
                assert_eq!(states.last(), Some(&"completed"), "{tongue:?}");
                assert!(states.len() <= 4, "{tongue:?}: only status changes are told: {states:?}");
                let last = seen.last().unwrap();
                assert_eq!((&last.texts[..], &last.parts[..]), (&["la la la ".to_owned()][..], &[1][..]), "{tongue:?}");
            }
        }
        let listed = push(&server, &["list", "--state", "done"]);
        assert!(!listed.to_string().contains("cred"), "secrets stay secret: {listed}");
    }
}

#[test]
fn configs_are_set_read_listed_and_removed_without_their_secrets() {
    let server = hasty();
    for tongue in Tongue::ALL {
        let speaker = tongue.speaker(&server.agent("scripted"));
        let waiting = json!([{ "input": "well?" }, { "complete": "done" }]);
        let task = Tongue::V1.speaker(&server.agent("scripted")).ask(&waiting).id;
        let allowed = |operation| match speaker.ask_for(operation, &task) {
            Some(answer) => {
                assert_eq!(answer.verdict, Verdict::Allowed, "{tongue:?} {operation:?}: {}", answer.body);
                assert!(!answer.body.contains("\"t\""), "{tongue:?} {operation:?} shows a token: {}", answer.body);
                answer.body
            }
            None => String::new(),
        };
        for operation in [Operation::PushCreate, Operation::PushGet] {
            assert!(allowed(operation).contains("http://127.0.0.1:9/hook"), "{tongue:?}");
        }
        allowed(Operation::PushCreate);
        let listed = allowed(Operation::PushList);
        assert!(listed.matches("127.0.0.1:9").count() <= 1, "{tongue:?}: an id set again takes its place: {listed}");
        allowed(Operation::PushDelete);
        if tongue != Tongue::V01 {
            allowed(Operation::PushDelete);
            let gone = speaker.ask_for(Operation::PushGet, &task).unwrap();
            assert_ne!(gone.verdict, Verdict::Allowed, "{tongue:?}: {}", gone.body);
        }
    }
}

#[test]
fn a_task_has_twenty_configs_and_no_more() {
    let server = hasty();
    let client = server.agent("scripted");
    let task = client.send(e2e::script(json!([{ "input": "well?" }])))["id"].as_str().unwrap().to_owned();
    let set = |n: usize| {
        let config = json!({ "taskId": task, "id": format!("c{n}"), "url": "http://127.0.0.1:9/hook" });
        client.rpc("CreateTaskPushNotificationConfig", config)
    };
    for n in 0..20 {
        set(n).unwrap();
    }
    let error = set(20).unwrap_err();
    assert_eq!(error["code"], -32602, "{error}");
    set(3).expect("one that is there may be set again");
    let listed = client.rpc("ListTaskPushNotificationConfigs", json!({ "taskId": task })).unwrap();
    assert_eq!(listed["configs"].as_array().unwrap().len(), 20);
}
