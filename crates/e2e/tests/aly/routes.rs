//! The table of HTTP+JSON routes: every row and every alias, at the origin and below `/aly`.

use e2e::{Client, Server, message, send};
use serde_json::{Value, json};

use crate::desk::{demo, frames, made, members, open_task, state, text, token};

/// The same caller at both addresses.
fn both(server: &Server) -> [Client; 2] {
    let signed = |base: &str| server.at(base).with("Authorization", &format!("Bearer {}", token(server, "token")));
    [signed("/api/a2a"), signed("/aly/api/a2a")]
}

fn ok(client: &Client, verb: &str, path: &str, body: Option<&Value>) -> Value {
    let response = client.rest(verb, path, body);
    assert_eq!(response.status(), 200, "{verb} {path}: {}", response.text());
    response.json()
}

#[test]
fn messages_are_sent_and_tasks_are_read() {
    let server = demo();
    for client in both(&server) {
        let context = crate::desk::own_context();
        let mut said = message("Search for hats on store acme.");
        said["contextId"] = json!(context);
        // POST /message:send
        let sent = ok(&client, "POST", "/message:send", Some(&send(said.clone())));
        assert_eq!(members(&sent), ["task"], "{sent}");
        assert_eq!(state(&sent["task"]), "TASK_STATE_COMPLETED", "{sent}");
        made(&sent["task"], "search_results");
        let id = text(&sent["task"]["id"]);
        // GET /tasks/{taskId}: the same task, by either binding
        let got = ok(&client, "GET", &format!("/tasks/{id}"), None);
        assert_eq!((&got, &client.task(&id)), (&sent["task"], &sent["task"]));
        // POST /message:stream
        let streamed = frames(client.rest_stream("POST", "/message:stream", Some(&send(said.clone()))));
        assert_eq!(streamed.len(), 3, "{streamed:?}");
        // GET /tasks: pages by either pair of names
        let all = ok(&client, "GET", &format!("/tasks?contextId={context}"), None);
        assert_eq!((&all["totalSize"], &all["pageSize"]), (&json!(2), &json!(20)), "{all}");
        for (size, place) in [("pageSize", "pageToken"), ("limit", "cursor"), ("page_size", "page_token")] {
            let first = ok(&client, "GET", &format!("/tasks?contextId={context}&{size}=1"), None);
            let next = text(&first["nextPageToken"]);
            assert!(!next.is_empty(), "{first}");
            let second = ok(&client, "GET", &format!("/tasks?contextId={context}&{size}=1&{place}={next}"), None);
            let seen = [&first["tasks"][0], &second["tasks"][0]];
            assert_eq!(seen, [&all["tasks"][0], &all["tasks"][1]], "{size}");
            assert_eq!((&second["nextPageToken"], &second["totalSize"]), (&json!(""), &json!(2)), "{second}");
        }
    }
}

#[test]
fn tasks_are_canceled_and_followed_by_both_spellings() {
    let server = demo();
    for client in both(&server) {
        for cancel in ["/cancel", ":cancel"] {
            for (verb, subscribe) in
                [("GET", "/subscribe"), ("POST", "/subscribe"), ("GET", ":subscribe"), ("POST", ":subscribe")]
            {
                let task = open_task(&client);
                let body = (verb == "POST").then(|| json!({}));
                let stream = client.rest_stream(verb, &format!("/tasks/{task}{subscribe}"), body.as_ref());
                let mut events = stream.unwrap_or_else(|answer| panic!("{verb} {subscribe}: {}", answer.text()));
                // A subscriber gets the task as it is now, then its events.
                let now: Value = serde_json::from_str(&events.take().data).unwrap();
                assert_eq!(state(&now["statusUpdate"]), "TASK_STATE_INPUT_REQUIRED", "{now}");
                let canceled = ok(&client, "POST", &format!("/tasks/{task}{cancel}"), None);
                assert_eq!((state(&canceled), text(&canceled["id"])), ("TASK_STATE_CANCELED", task.clone()));
                let last: Value = serde_json::from_str(&events.rest().pop().unwrap().data).unwrap();
                assert_eq!(state(&last["statusUpdate"]), "TASK_STATE_CANCELED", "{last}");
                assert_eq!(last["statusUpdate"]["taskId"], json!(task));
            }
        }
    }
}

#[test]
fn push_configs_are_registered_read_and_deleted_by_both_spellings() {
    let server = demo();
    for client in both(&server) {
        for list in ["push-configs", "pushNotificationConfigs"] {
            let task = open_task(&client);
            let path = format!("/tasks/{task}/{list}");
            let url = "http://localhost:9/hooks/one?a=b";
            let made = ok(&client, "POST", &path, Some(&json!({ "id": "first", "url": url, "token": "t" })));
            assert_eq!((&made["id"], &made["url"], &made["taskId"]), (&json!("first"), &json!(url), &json!(task)));
            let second = ok(&client, "POST", &path, Some(&json!({ "url": "https://example.com/two" })));
            let listed = ok(&client, "GET", &path, None);
            assert_eq!(listed["configs"].as_array().unwrap().len(), 2, "{listed}");
            // By its id, and by its URL, escaped or not.
            assert_eq!(ok(&client, "GET", &format!("{path}/first"), None), made);
            for escaped in ["http%3A%2F%2Flocalhost%3A9%2Fhooks%2Fone%3Fa%3Db", "http://localhost:9/hooks/one%3Fa=b"] {
                assert_eq!(ok(&client, "GET", &format!("{path}/{escaped}"), None), made, "{escaped}");
            }
            let gone = client.rest("DELETE", &format!("{path}/https%3A%2F%2Fexample.com%2Ftwo"), None);
            assert!(matches!(gone.status(), 200 | 204), "{}", gone.text());
            assert_eq!(client.rest("GET", &format!("{path}/{}", text(&second["id"])), None).status(), 404);
            let gone = client.rest("DELETE", &format!("{path}/first"), None);
            assert!(matches!(gone.status(), 200 | 204), "{}", gone.text());
            assert_eq!(ok(&client, "GET", &path, None)["configs"], json!([]));
            assert_eq!(client.rest("DELETE", &format!("{path}/first"), None).status(), 404, "once");
        }
    }
}
