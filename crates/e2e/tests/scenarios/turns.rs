//! Turns: messages to tasks in every state, cancel, history, and values that must pass unchanged.

use e2e::{Server, assert_rest_fault, assert_rpc_fault, message, script, send, to_task};
use serde_json::{Value, json};

fn hang() -> Value {
    script(json!([{ "status": "working", "text": "waiting" }, { "hang": true }]))
}

#[test]
fn a_blocking_send_waits_for_the_end_and_an_immediate_one_does_not() {
    let server = Server::start(&[]);
    let scripted = server.agent("scripted");
    let slow = || script(json!([{ "status": "working" }, { "sleep_ms": 400 }, { "complete": "slept" }]));
    let task = scripted.send(slow());
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{task}");
    let task = scripted.open(slow());
    let state = task["status"]["state"].as_str().unwrap();
    assert!(["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"].contains(&state), "{task}");
    let task = scripted.settled(task["id"].as_str().unwrap());
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{task}");
    assert_eq!(task["status"]["message"]["parts"][0]["text"], "slept", "{task}");
}

#[test]
fn cancelling_releases_a_blocked_send_with_the_canceled_task() {
    let server = Server::start(&[]);
    let scripted = server.agent("scripted");
    let blocked = std::thread::spawn({
        let scripted = scripted.clone();
        move || scripted.send(hang())
    });
    let id = e2e::until("the hanging task is listed", e2e::poll::PATIENCE, || {
        let listed = scripted.rpc("ListTasks", json!({ "status": "TASK_STATE_WORKING" })).unwrap();
        listed["tasks"][0]["id"].as_str().map(str::to_owned)
    });
    let mut events = scripted.stream("SubscribeToTask", json!({ "id": id })).unwrap();
    events.take();

    let canceled = scripted.rpc("CancelTask", json!({ "id": id })).unwrap();
    assert_eq!(canceled["status"]["state"], "TASK_STATE_CANCELED", "{canceled}");
    let released = blocked.join().unwrap();
    assert_eq!(released["id"], id.as_str());
    assert_eq!(released["status"]["state"], "TASK_STATE_CANCELED", "{released}");
    let frames = events.rest();
    assert_eq!(frames.last().unwrap().state().as_deref(), Some("TASK_STATE_CANCELED"));

    let error = scripted.rpc("CancelTask", json!({ "id": id })).unwrap_err();
    assert_rpc_fault(&error, -32002, "TASK_NOT_CANCELABLE");
}

#[test]
fn an_idle_task_can_be_canceled_over_http_with_an_empty_body() {
    let server = Server::start(&[]);
    let scripted = server.agent("scripted");
    for body in ["", "{}", "null", "{\"metadata\":{\"why\":\"changed my mind\"}}"] {
        let task = scripted.send(script(json!([{ "input": "well?" }])));
        let id = task["id"].as_str().unwrap();
        let request = scripted
            .request("POST", &format!("/tasks/{id}:cancel"))
            .header("content-type", "application/json")
            .body(body);
        let response = scripted.exchange(&request);
        assert_eq!(response.status(), 200, "{body:?}: {}", response.text());
        assert_eq!(response.json()["status"]["state"], "TASK_STATE_CANCELED");
        let again = scripted.exchange(&request);
        assert_rest_fault(&again, 400, "FAILED_PRECONDITION", "TASK_NOT_CANCELABLE");
    }
}

#[test]
fn a_message_to_a_working_task_goes_into_its_next_turn() {
    let server = Server::start(&[]);
    let scripted = server.agent("scripted");
    let first = script(json!([
        { "status": "working", "text": "first turn" },
        { "sleep_ms": 600 },
        { "complete": "first done" },
    ]));
    let task = scripted.open(first.clone());
    let id = task["id"].as_str().unwrap();
    scripted.in_state(id, "TASK_STATE_WORKING");
    let second = script(json!([
        { "status": "working", "text": "second turn" },
        { "complete": "second done" },
    ]));
    let done = scripted.send(to_task(second.clone(), id));
    assert_eq!(done["id"], id);
    assert_eq!(done["status"]["state"], "TASK_STATE_COMPLETED", "{done}");
    assert_eq!(done["status"]["message"]["parts"][0]["text"], "second done", "{done}");
    let task = scripted.task(id);
    let history = task["history"].to_string();
    assert!(history.contains(first["messageId"].as_str().unwrap()), "{task}");
    assert!(history.contains(second["messageId"].as_str().unwrap()), "{task}");
}

#[test]
fn a_task_id_alone_infers_the_context_on_every_follow_up() {
    let server = Server::start(&[]);
    let scripted = server.agent("scripted");
    let mut opening = script(json!([
        { "input": "one?" }, { "input": "two?" }, { "input": "three?" }, { "complete": "done" },
    ]));
    opening["contextId"] = json!("a-context-of-mine");
    let task = scripted.send(opening);
    assert_eq!(task["contextId"], "a-context-of-mine", "a client's context is kept");
    let id = task["id"].as_str().unwrap();
    for (answer, state) in
        [("1", "TASK_STATE_INPUT_REQUIRED"), ("2", "TASK_STATE_INPUT_REQUIRED"), ("3", "TASK_STATE_COMPLETED")]
    {
        let task = scripted.send(to_task(message(answer), id));
        assert_eq!(task["contextId"], "a-context-of-mine");
        assert_eq!(task["status"]["state"], state, "{task}");
    }
}

#[test]
fn a_context_that_is_not_the_tasks_own_is_refused() {
    let server = Server::start(&[]);
    let scripted = server.agent("scripted");
    let task = scripted.send(script(json!([{ "input": "well?" }])));
    let mut stray = to_task(message("here"), task["id"].as_str().unwrap());
    stray["contextId"] = json!("another-context");
    let error = scripted.rpc("SendMessage", send(stray.clone())).unwrap_err();
    assert_rpc_fault(&error, -32602, "INVALID_PARAMS");
    let response = scripted.rest("POST", "/message:send", Some(&send(stray)));
    assert_rest_fault(&response, 400, "INVALID_ARGUMENT", "INVALID_PARAMS");
    let unchanged = scripted.task(task["id"].as_str().unwrap());
    assert_eq!(unchanged["status"], task["status"]);
}

#[test]
fn an_unknown_task_has_the_same_fault_in_every_operation() {
    let server = Server::start(&[]);
    let echo = server.agent("echo");
    let id = "019aa000-0000-7000-8000-00000000abcd";
    for (method, params) in [
        ("GetTask", json!({ "id": id })),
        ("CancelTask", json!({ "id": id })),
        ("SubscribeToTask", json!({ "id": id })),
        ("SendMessage", send(to_task(message("hi"), id))),
        ("SendStreamingMessage", send(to_task(message("hi"), id))),
        ("GetTask", json!({ "id": "no/such:id" })),
    ] {
        assert_rpc_fault(&echo.rpc(method, params).unwrap_err(), -32001, "TASK_NOT_FOUND");
    }
    for (verb, path, body) in [
        ("GET", format!("/tasks/{id}"), None),
        ("POST", format!("/tasks/{id}:cancel"), Some(json!({}))),
        ("POST", format!("/tasks/{id}:subscribe"), None),
        ("GET", format!("/tasks/{id}:subscribe"), None),
        ("POST", "/message:send".to_owned(), Some(send(to_task(message("hi"), id)))),
        ("POST", "/message:stream".to_owned(), Some(send(to_task(message("hi"), id)))),
        ("GET", "/tasks/no%2Fsuch%3Aid".to_owned(), None),
    ] {
        let response = echo.rest(verb, &path, body.as_ref());
        assert_rest_fault(&response, 404, "NOT_FOUND", "TASK_NOT_FOUND");
    }
}

#[test]
fn a_settled_task_takes_neither_messages_nor_cancels() {
    let server = Server::start(&[]);
    let scripted = server.agent("scripted");
    for (last, state) in [
        (json!({ "complete": "yes" }), "TASK_STATE_COMPLETED"),
        (json!({ "fail": "no" }), "TASK_STATE_FAILED"),
        (json!({ "reject": "never" }), "TASK_STATE_REJECTED"),
    ] {
        let task = scripted.send(script(json!([last])));
        assert_eq!(task["status"]["state"], state, "{task}");
        let id = task["id"].as_str().unwrap();
        let error = scripted.rpc("SendMessage", send(to_task(message("more"), id))).unwrap_err();
        assert_rpc_fault(&error, -32004, "UNSUPPORTED_OPERATION");
        let error = scripted.rpc("CancelTask", json!({ "id": id })).unwrap_err();
        assert_rpc_fault(&error, -32002, "TASK_NOT_CANCELABLE");
        let response = scripted.rest("POST", "/message:send", Some(&send(to_task(message("more"), id))));
        assert_rest_fault(&response, 400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION");
        assert_eq!(scripted.task(id)["status"], task["status"], "a settled task never changes");
    }
}

#[test]
fn a_task_that_needs_authorization_says_so_and_goes_on_with_the_next_message() {
    let server = Server::start(&[]);
    let scripted = server.agent("scripted");
    let task = scripted.send(script(json!([{ "auth": "sign in at the desk" }, { "complete": "welcome" }])));
    assert_eq!(task["status"]["state"], "TASK_STATE_AUTH_REQUIRED", "{task}");
    assert_eq!(task["status"]["message"]["parts"][0]["text"], "sign in at the desk");
    let done = scripted.send(to_task(message("signed"), task["id"].as_str().unwrap()));
    assert_eq!(done["status"]["state"], "TASK_STATE_COMPLETED", "{done}");
}

#[test]
fn every_kind_of_part_comes_back_unchanged() {
    let server = Server::start(&[]);
    let echo = server.agent("echo");
    // Written by hand: key order, an integer beyond 2^53 and an exponent must survive.
    let sent = concat!(
        r#"[{"text":"plain","mediaType":"text/markdown","metadata":{"z":1,"a":[1.50,2e3]}},"#,
        r#"{"raw":"AAECAw==","filename":"bytes.bin","mediaType":"application/octet-stream"},"#,
        r#"{"url":"https://example.com/x?a=1&b=2","filename":"x"},"#,
        r#"{"data":{"b":9007199254740993,"a":{"nested":[null,true,{}]}}},"#,
        r#"{"data":null},{"text":""}]"#
    );
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{{"message":{{"messageId":"m","role":"ROLE_USER","parts":{sent}}}}}}}"#
    );
    let response = echo.post(body);
    let answer = response.json();
    let expected: Value = serde_json::from_str(sent).unwrap();
    let artifact = &answer["result"]["task"]["artifacts"][0];
    assert_eq!(artifact["parts"], expected, "{answer}");
    let text = response.text();
    assert!(text.contains(r#"{"b":9007199254740993,"a":{"nested":[null,true,{}]}}"#), "{text}");
    assert!(text.contains(r#"{"z":1,"a":[1.50,2e3]}"#), "{text}");
}

#[test]
fn history_is_as_long_as_asked() {
    let server = Server::start(&[]);
    let scripted = server.agent("scripted");
    let task = scripted.send(script(json!([{ "input": "one?" }, { "complete": "done" }])));
    let id = task["id"].as_str().unwrap();
    scripted.send(to_task(message("answer"), id));

    let all = scripted.task(id);
    let whole = all["history"].as_array().unwrap();
    assert!(whole.len() >= 2, "{all}");
    let last = scripted.rpc("GetTask", json!({ "id": id, "historyLength": 1 })).unwrap();
    assert_eq!(last["history"].as_array().unwrap(), &whole[whole.len() - 1..]);
    let none = scripted.rpc("GetTask", json!({ "id": id, "historyLength": 0 })).unwrap();
    assert!(none.get("history").is_none(), "{none}");
    let huge = scripted.rpc("GetTask", json!({ "id": id, "historyLength": 2_000_000_000 })).unwrap();
    assert_eq!(huge["history"], all["history"]);
    let over_rest = scripted.rest("GET", &format!("/tasks/{id}?historyLength=1"), None);
    assert_eq!(over_rest.json()["history"], last["history"]);
    for bad in [json!(-1), json!(1.5), json!("many")] {
        let error = scripted.rpc("GetTask", json!({ "id": id, "historyLength": bad })).unwrap_err();
        assert_rpc_fault(&error, -32602, "INVALID_PARAMS");
    }
    for bad in ["-1", "1.5", "many"] {
        let response = scripted.rest("GET", &format!("/tasks/{id}?historyLength={bad}"), None);
        assert_rest_fault(&response, 400, "INVALID_ARGUMENT", "INVALID_PARAMS");
    }
}

#[test]
fn a_walk_through_the_list_finds_every_task_once() {
    let server = Server::start(&[]);
    let scripted = server.agent("scripted");
    let mut made = Vec::new();
    for turn in 0..23 {
        let mut message = if turn % 3 == 0 { script(json!([{ "input": "well?" }])) } else { message("done") };
        message["contextId"] = json!(format!("context-{}", turn % 2));
        made.push(scripted.send(message));
    }
    let mut found = Vec::new();
    let mut token = String::new();
    loop {
        let page = scripted.rpc("ListTasks", json!({ "pageSize": 5, "pageToken": token })).unwrap();
        assert_eq!(page["totalSize"], 23, "{page}");
        for task in page["tasks"].as_array().unwrap() {
            assert!(task.get("artifacts").is_none(), "artifacts only on request");
            found.push(task["id"].as_str().unwrap().to_owned());
        }
        token = page["nextPageToken"].as_str().unwrap().to_owned();
        if token.is_empty() {
            break;
        }
    }
    let newest_first: Vec<_> = made.iter().rev().map(|task| task["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(found, newest_first);

    let filtered = scripted
        .rpc(
            "ListTasks",
            json!({ "contextId": "context-0", "status": "TASK_STATE_INPUT_REQUIRED", "includeArtifacts": true }),
        )
        .unwrap();
    let expected = made
        .iter()
        .filter(|task| task["contextId"] == "context-0" && task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED")
        .count();
    assert_eq!(filtered["totalSize"], expected);
    assert_eq!(filtered["tasks"].as_array().unwrap().len(), expected);
    let over_rest =
        scripted.rest("GET", "/tasks?contextId=context-0&status=TASK_STATE_INPUT_REQUIRED&includeArtifacts=true", None);
    assert_eq!(over_rest.json(), filtered);
    let empty = scripted.rpc("ListTasks", json!({ "contextId": "nobody's" })).unwrap();
    assert_eq!(empty["tasks"], json!([]));
    assert_eq!(empty["nextPageToken"], "");
    assert_eq!(empty["totalSize"], 0);
    assert!(empty["pageSize"].is_number());
}

#[test]
fn an_agent_knows_its_own_tasks_only() {
    let server = Server::start(&[]);
    let echo = server.agent("echo");
    let scripted = server.agent("scripted");
    let task = echo.send(message("mine"));
    let id = task["id"].as_str().unwrap();
    let error = scripted.rpc("GetTask", json!({ "id": id })).unwrap_err();
    assert_rpc_fault(&error, -32001, "TASK_NOT_FOUND");
    let listed = scripted.rpc("ListTasks", json!({})).unwrap();
    assert_eq!(listed["totalSize"], 0);
    for base in ["", "/", "/a2a", "/a2a/", "/a2a/echo/"] {
        let found = server.at(base).rpc("GetTask", json!({ "id": id })).unwrap();
        assert_eq!(found["id"], id, "the default agent answers at {base:?}");
    }
    for base in ["", "/a2a", "/a2a/echo"] {
        let found = server.at(base).rest("GET", &format!("/tasks/{id}"), None);
        assert_eq!(found.json()["id"], id, "the default agent answers below {base:?}");
    }
    let missing = server.agent("nobody").rest("GET", "/tasks", None);
    assert_eq!(missing.status(), 404, "{}", missing.text());
}

#[test]
fn a_closed_request_does_not_stop_its_task() {
    let server = Server::start(&[]);
    let scripted = server.agent("scripted");
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage",
        "params": send(script(json!([{ "status": "working" }, { "sleep_ms": 300 }, { "complete": "slept" }]))) });
    let mut connection = e2e::http::Connection::open(server.addr()).unwrap();
    connection.send(&scripted.request("POST", "").json(&body)).unwrap();
    let id = e2e::until("the task is listed", e2e::poll::PATIENCE, || {
        let listed = scripted.rpc("ListTasks", json!({})).unwrap();
        listed["tasks"][0]["id"].as_str().map(str::to_owned)
    });
    drop(connection);
    assert_eq!(scripted.settled(&id)["status"]["state"], "TASK_STATE_COMPLETED");
}

#[test]
fn a_message_that_waits_on_a_turn_that_fails_gets_the_failed_task() {
    let server = Server::start(&[]);
    let scripted = server.agent("scripted");
    let task = scripted.open(script(json!([{ "status": "working" }, { "sleep_ms": 500 }, { "fail": "no luck" }])));
    let id = task["id"].as_str().unwrap();
    scripted.in_state(id, "TASK_STATE_WORKING");
    let waiting = scripted.send(to_task(message("and then?"), id));
    assert_eq!(waiting["status"]["state"], "TASK_STATE_FAILED", "{waiting}");
    assert_eq!(waiting["status"]["message"]["parts"][0]["text"], "no luck");
}

#[test]
fn a_message_that_waits_on_a_turn_that_asks_is_not_lost() {
    let server = Server::start(&[]);
    let scripted = server.agent("scripted");
    let task = scripted.open(script(
        json!([{ "status": "working" }, { "sleep_ms": 500 }, { "input": "well?" }, { "complete": "good" }]),
    ));
    let id = task["id"].as_str().unwrap();
    scripted.in_state(id, "TASK_STATE_WORKING");
    let early = message("an early answer");
    let answer = scripted.send(to_task(early.clone(), id));
    let state = answer["status"]["state"].as_str().unwrap();
    assert!(["TASK_STATE_INPUT_REQUIRED", "TASK_STATE_COMPLETED"].contains(&state), "{answer}");
    let history = scripted.task(id)["history"].to_string();
    assert!(history.contains(early["messageId"].as_str().unwrap()), "{history}");
    if state == "TASK_STATE_INPUT_REQUIRED" {
        let done = scripted.send(to_task(message("a late answer"), id));
        assert_eq!(done["status"]["state"], "TASK_STATE_COMPLETED", "{done}");
    }
}

#[test]
fn a_walk_misses_and_repeats_nothing_while_tasks_come_in() {
    let server = Server::start(&[]);
    let echo = server.agent("echo");
    let made: Vec<Value> = (0..30).map(|turn| echo.send(message(&turn.to_string()))["id"].clone()).collect();
    let mut found = Vec::new();
    let mut token = json!("");
    loop {
        let page = echo.rpc("ListTasks", json!({ "pageSize": 4, "pageToken": token })).unwrap();
        found.extend(page["tasks"].as_array().unwrap().iter().map(|task| task["id"].clone()));
        token = page["nextPageToken"].clone();
        if token == "" {
            break;
        }
        echo.send(message("meanwhile"));
    }
    let newest_first: Vec<Value> = made.into_iter().rev().collect();
    assert_eq!(found, newest_first);
}

#[test]
fn tasks_can_be_listed_by_the_time_of_their_status() {
    let server = Server::start(&[]);
    let echo = server.agent("echo");
    let tasks: Vec<Value> = (0..6).map(|turn| echo.send(message(&turn.to_string()))).collect();
    let after = tasks[3]["status"]["timestamp"].as_str().unwrap();
    let expected = tasks.iter().filter(|task| task["status"]["timestamp"].as_str().unwrap() >= after).count();
    let listed = echo.rpc("ListTasks", json!({ "statusTimestampAfter": after })).unwrap();
    assert_eq!(listed["totalSize"], expected, "{listed}");
    let over_rest = echo.rest("GET", &format!("/tasks?statusTimestampAfter={}", after.replace(':', "%3A")), None);
    assert_eq!(over_rest.json(), listed);
    let zoned = after.replace('Z', "+00:00");
    let zoned = echo.rpc("ListTasks", json!({ "statusTimestampAfter": zoned })).unwrap();
    assert_eq!(zoned["totalSize"], expected, "an offset is read too");
}
