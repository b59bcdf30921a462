//! `streaming: false` and `push: off` of an agent: every dialect, binding and address refuses operations that the
//! card does not offer, before it looks at a task, and in its own form.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panicking")]

use e2e::grpc::{self, V1, V03, code, proto};
use e2e::http::{Connection, Request};
use e2e::operation::Operation;
use e2e::tongue::Tongue;
use e2e::{Client, Events, Server, message, script};
use serde_json::{Value, json};

const NO_TASK: &str = "019aa000-0000-7000-8000-00000000abcd";
const HOOK: &str = "http://127.0.0.1:9/hook";

const STREAMS: [Operation; 4] =
    [Operation::Stream, Operation::Subscribe, Operation::SubscribeResumed, Operation::StreamResumed];
const PUSHES: [Operation; 4] = [Operation::PushCreate, Operation::PushGet, Operation::PushList, Operation::PushDelete];

const AGENTS: &str = "
agents:
  neither: { kind: scripted, streaming: false, push: off }
  unstreamed: { kind: scripted, streaming: off }
  unpushed: { kind: scripted, push: false }
  both: { kind: scripted }
";

fn server() -> Server {
    Server::options().config(&format!("default: neither\n{AGENTS}")).start()
}

/// The code, and for HTTP+JSON the status, with which a generation refuses a missing capability.
fn assert_refused(row: &str, tongue: Tongue, status: u16, body: &str, code: i64, reason: &str) {
    let value: Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{row}: {error}: {body}"));
    match tongue {
        Tongue::V1 => {
            assert_eq!((status, &value["error"]["code"]), (200, &json!(code)), "{row}: {body}");
            assert_eq!(value["error"]["data"][0]["reason"], reason, "{row}: {body}");
        }
        Tongue::V1Rest => {
            assert_eq!((status, &value["error"]["code"]), (400, &json!(400)), "{row}: {body}");
            assert_eq!(value["error"]["details"][0]["reason"], reason, "{row}: {body}");
        }
        Tongue::V03 | Tongue::V02 | Tongue::V01 => {
            assert_eq!((status, &value["error"]["code"]), (200, &json!(code)), "{row}: {body}");
        }
        Tongue::V03Rest => {
            let said = value["error"]["code"].as_i64().or(value["code"].as_i64());
            assert_eq!((status, said), (501, Some(code)), "{row}: {body}");
        }
    }
}

fn refused(row: &str, tongue: Tongue, client: &Client, operation: Operation, task: &str, code: i64, reason: &str) {
    let Some(answer) = tongue.speaker(client).ask_for(operation, task) else { return };
    assert_refused(row, tongue, answer.head.status, &answer.body, code, reason);
}

fn allowed(row: &str, tongue: Tongue, client: &Client, operation: Operation, task: &str) {
    let Some(answer) = tongue.speaker(client).ask_for(operation, task) else { return };
    let missing = [-32003, -32004].iter().any(|code| answer.body.contains(&code.to_string()));
    let named = ["UNSUPPORTED_OPERATION", "PUSH_NOTIFICATION"].iter().any(|name| answer.body.contains(name));
    assert!(!missing && !named, "{row}: {}", answer.body);
}

#[test]
fn every_tongue_refuses_streams_and_push_where_the_agent_has_none() {
    let server = server();
    let agent = server.agent("neither");
    let settled = agent.send(message("done"))["id"].as_str().unwrap().to_owned();
    // The result is the same with and without a task.
    for client in [&agent, &server.at("/a2a"), &server.at("")] {
        for task in [&settled, NO_TASK] {
            for tongue in Tongue::ALL {
                for operation in STREAMS {
                    let row = format!("{} {tongue:?} {operation:?} {task}", client.base());
                    refused(&row, tongue, client, operation, task, -32004, "UNSUPPORTED_OPERATION");
                }
                for operation in PUSHES {
                    let row = format!("{} {tongue:?} {operation:?} {task}", client.base());
                    refused(&row, tongue, client, operation, task, -32003, "PUSH_NOTIFICATION_NOT_SUPPORTED");
                }
            }
        }
    }
    // A message to a waiting task is refused too.
    let waits = agent.send(message("ask: well?"))["id"].as_str().unwrap().to_owned();
    for tongue in Tongue::ALL {
        let row = format!("{tongue:?} to a task that waits");
        refused(&row, tongue, &agent, Operation::ContinueStream, &waits, -32004, "UNSUPPORTED_OPERATION");
    }
    let before = agent.task(&waits);
    assert_eq!(before["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{before}");
}

#[test]
fn each_capability_is_one_of_its_own() {
    let server = server();
    let hanging = |agent: &str| {
        let task = server.agent(agent).open(script(json!([{ "status": "working" }, { "hang": true }])));
        task["id"].as_str().unwrap().to_owned()
    };
    for (agent, streams, pushes) in
        [("unstreamed", false, true), ("unpushed", true, false), ("both", true, true), ("neither", false, false)]
    {
        let (client, task) = (server.agent(agent), hanging(agent));
        for tongue in Tongue::ALL {
            for operation in STREAMS {
                let row = format!("{agent} {tongue:?} {operation:?}");
                match streams {
                    true => allowed(&row, tongue, &client, operation, &task),
                    false => refused(&row, tongue, &client, operation, &task, -32004, "UNSUPPORTED_OPERATION"),
                }
            }
            for operation in PUSHES {
                let row = format!("{agent} {tongue:?} {operation:?}");
                match pushes {
                    true => allowed(&row, tongue, &client, operation, &task),
                    false => {
                        refused(&row, tongue, &client, operation, &task, -32003, "PUSH_NOTIFICATION_NOT_SUPPORTED");
                    }
                }
            }
        }
        let card = server.get(&format!("/a2a/{agent}/.well-known/agent-card.json")).json();
        let offers = |name: &str| card["capabilities"][name].as_bool().unwrap_or(false);
        assert_eq!((offers("streaming"), offers("pushNotifications")), (streams, pushes), "{agent}: {card}");
    }
}

/// A send with an inline push config, in each generation's form.
fn with_config(tongue: Tongue, text: &str) -> (Option<&'static str>, &'static str, Value) {
    let id = e2e::fresh_id();
    let config = json!({ "url": HOOK });
    match tongue {
        Tongue::V1 | Tongue::V1Rest => {
            let params = json!({ "message": { "messageId": id, "role": "ROLE_USER", "parts": [{ "text": text }] },
                                 "configuration": { "taskPushNotificationConfig": config } });
            (Some("SendMessage").filter(|_| tongue == Tongue::V1), "/message:send", params)
        }
        Tongue::V03Rest => {
            let params = json!({ "message": { "messageId": id, "role": "ROLE_USER", "content": [{ "text": text }] },
                                 "configuration": { "pushNotification": config } });
            (None, "/v1/message:send", params)
        }
        Tongue::V03 | Tongue::V02 => {
            let message = json!({ "kind": "message", "messageId": id, "role": "user",
                                  "parts": [{ "kind": "text", "text": text }] });
            let params = json!({ "message": message, "configuration": { "pushNotificationConfig": config } });
            (Some("message/send"), "", params)
        }
        Tongue::V01 => {
            let message = json!({ "role": "user", "parts": [{ "type": "text", "text": text }] });
            (Some("tasks/send"), "", json!({ "id": id, "message": message, "pushNotification": config }))
        }
    }
}

fn send_with_config(tongue: Tongue, agent: &Client) -> (u16, String) {
    let (method, path, params) = with_config(tongue, "with a config");
    let client = match tongue {
        Tongue::V1 | Tongue::V1Rest => agent.with("A2A-Version", "1.0"),
        Tongue::V03 => agent.with("A2A-Version", "0.3"),
        Tongue::V03Rest | Tongue::V02 | Tongue::V01 => agent.without("A2A-Version"),
    };
    let answer = match method {
        Some(method) => {
            let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
            client.exchange(&client.request("POST", "").json(&body))
        }
        None => client.rest("POST", path, Some(&params)),
    };
    (answer.status(), answer.text())
}

#[test]
fn a_config_inside_a_send_is_refused_and_leaves_no_task() {
    let server = server();
    for tongue in Tongue::ALL {
        for agent in ["neither", "unpushed"] {
            let (status, body) = send_with_config(tongue, &server.agent(agent));
            let row = format!("{agent} {tongue:?} a send with a config");
            assert_refused(&row, tongue, status, &body, -32003, "PUSH_NOTIFICATION_NOT_SUPPORTED");
        }
        let (status, body) = send_with_config(tongue, &server.agent("both"));
        assert_eq!(status, 200, "{tongue:?}: {body}");
        assert!(!body.contains("\"error\""), "{tongue:?}: {body}");
    }
    for agent in ["neither", "unpushed"] {
        let listed = server.agent(agent).rpc("ListTasks", json!({})).unwrap();
        assert_eq!(listed["totalSize"], 0, "{agent}: {listed}");
    }
}

/// A missing capability in the service of each generation: the code, and what the words begin with.
fn assert_refused_over_grpc(row: &str, service: &str, reply: &grpc::Reply, reason: &str) {
    let (code, name) = match (service == V1, reason) {
        (true, _) => (code::FAILED_PRECONDITION, ""),
        (false, "UNSUPPORTED_OPERATION") => (code::UNIMPLEMENTED, "UnsupportedOperationError: "),
        (false, _) => (code::UNIMPLEMENTED, "PushNotificationNotSupportedError: "),
    };
    assert_eq!((reply.http, reply.status()), (200, Some(code)), "{row}: {reply:?}");
    assert!(reply.words().starts_with(name) && reply.words().len() > name.len(), "{row}: {reply:?}");
    assert!(reply.details().contains(reason), "{row}: the status says {reason}: {reply:?}");
    assert!(reply.body.is_empty(), "{row}: {reply:?}");
}

fn over_grpc(server: &Server, service: &str, agent: &str, operation: Operation, task: &str) -> Option<grpc::Reply> {
    let call = grpc::operation(service, operation, task)?.header("x-a2a-agent", agent);
    Some(grpc::Connection::open(server.addr()).first_answer(&call))
}

/// A send with a push config inside.
fn send_with_config_over_grpc(server: &Server, service: &str, agent: &str) -> grpc::Reply {
    let text = proto::field(1, "with a config");
    let request = match service == V1 {
        true => [proto::send_v1(&text), proto::field(3, proto::field(2, proto::field(4, HOOK)))].concat(),
        // A field that comes twice is merged: the first half makes the send blocking.
        false => [proto::send_v03(&text), proto::field(2, proto::field(2, proto::field(2, HOOK)))].concat(),
    };
    let call = grpc::Call::new(&format!("{service}/SendMessage")).header("x-a2a-agent", agent).message(&request);
    grpc::Connection::open(server.addr()).first_answer(&call)
}

#[test]
fn each_service_of_grpc_refuses_streams_and_push_where_the_agent_has_none() {
    let server = server();
    for (agent, streams, pushes) in
        [("neither", false, false), ("unstreamed", false, true), ("unpushed", true, false), ("both", true, true)]
    {
        let client = server.agent(agent);
        let settled = client.send(message("done"))["id"].as_str().unwrap().to_owned();
        let streaming = [&STREAMS[..], &[Operation::ContinueStream]].concat().into_iter();
        let streaming = streaming.map(|operation| (operation, streams, "UNSUPPORTED_OPERATION"));
        let pushing = PUSHES.into_iter().map(|operation| (operation, pushes, "PUSH_NOTIFICATION_NOT_SUPPORTED"));
        let rows: Vec<_> = streaming.chain(pushing).collect();
        for service in [V1, V03] {
            // The last stream answers it, and it settles.
            let waits = client.send(message("ask: well?"))["id"].as_str().unwrap().to_owned();
            for (operation, offered, reason) in &rows {
                // The refusal is the same with and without a task.
                let tasks: &[&str] = if *offered { &[&waits] } else { &[&waits, &settled, NO_TASK] };
                for task in tasks {
                    let row = format!("{agent} {service} {operation:?} {task}");
                    let reply = over_grpc(&server, service, agent, *operation, task).unwrap();
                    match offered {
                        true => assert!(matches!(reply.status(), None | Some(code::OK)), "{row}: {reply:?}"),
                        false => assert_refused_over_grpc(&row, service, &reply, reason),
                    }
                }
            }
            let row = format!("{agent} {service} a send with a config");
            let before = client.rpc("ListTasks", json!({})).unwrap()["totalSize"].as_u64().unwrap();
            let reply = send_with_config_over_grpc(&server, service, agent);
            let after = client.rpc("ListTasks", json!({})).unwrap()["totalSize"].as_u64().unwrap();
            match pushes {
                true => assert_eq!((reply.messages().len(), after), (1, before + 1), "{row}: {reply:?}"),
                false => {
                    assert_refused_over_grpc(&row, service, &reply, "PUSH_NOTIFICATION_NOT_SUPPORTED");
                    assert_eq!(after, before, "{row}: it leaves no task");
                }
            }
        }
    }
}

#[test]
fn push_off_for_the_whole_server_is_refused_by_every_agent() {
    for section in ["push: off\n", "push: false\n", "push: { enabled: false }\n"] {
        let server = Server::options().config(&format!("{section}{AGENTS}")).start();
        for tongue in Tongue::ALL {
            let client = server.agent("both");
            for operation in PUSHES {
                let row = format!("{section} {tongue:?} {operation:?}");
                refused(&row, tongue, &client, operation, NO_TASK, -32003, "PUSH_NOTIFICATION_NOT_SUPPORTED");
            }
            let (status, body) = send_with_config(tongue, &client);
            let row = format!("{section} {tongue:?} a send with a config");
            assert_refused(&row, tongue, status, &body, -32003, "PUSH_NOTIFICATION_NOT_SUPPORTED");
        }
        for service in [V1, V03] {
            let mut replies =
                vec![("a send with a config".to_owned(), send_with_config_over_grpc(&server, service, "both"))];
            replies.extend(PUSHES.into_iter().map(|operation| {
                (format!("{operation:?}"), over_grpc(&server, service, "both", operation, NO_TASK).unwrap())
            }));
            for (operation, reply) in replies {
                let row = format!("{section} {service} {operation}");
                assert_refused_over_grpc(&row, service, &reply, "PUSH_NOTIFICATION_NOT_SUPPORTED");
            }
        }
        let card = server.get("/a2a/both/.well-known/agent-card.json").json();
        assert_ne!(card["capabilities"]["pushNotifications"], true, "{section}: {card}");
    }
}

/// The first frame of an answer, a stream or not.
fn first_word(server: &Server, request: &Request) -> (u16, Value) {
    let mut connection = Connection::open(server.addr()).unwrap();
    connection.send(request).unwrap();
    let head = connection.head().unwrap();
    let status = head.status;
    if head.media_type() == "text/event-stream" {
        let frame = Events::new(connection, head).take();
        return (status, serde_json::from_str(&frame.data).unwrap());
    }
    let answer = connection.whole(head).unwrap();
    (status, serde_json::from_str(&answer.text()).unwrap_or_else(|e| panic!("{e}: {}", answer.text())))
}

fn rpc(path: &str, method: &str, params: Value) -> Request {
    Request::new("POST", path).json(&json!({ "jsonrpc": "2.0", "id": "r", "method": method, "params": params }))
}

#[test]
fn an_assistant_of_langsmith_refuses_in_its_own_form() {
    for profile in ["documented", "current"] {
        let server = Server::options().config(&format!("langgraph: {{ profile: {profile} }}\n{AGENTS}")).start();
        let listed = server.get("/agents").json();
        let agents = listed["agents"].as_array().or(listed.as_array()).unwrap().clone();
        let id = |name: &str| {
            let found = agents.iter().find(|one| one["name"] == name || one["id"] == name).unwrap();
            found["assistantId"].as_str().unwrap().to_owned()
        };
        let path = |name: &str| format!("/langgraph/a2a/{}", id(name));
        let older = json!({ "role": "user", "messageId": "m", "parts": [{ "kind": "text", "text": "hi" }] });
        let newer = json!({ "role": "ROLE_USER", "messageId": "m", "parts": [{ "text": "hi" }] });
        let mut streams = vec![("message/stream", older.clone())];
        let mut sends = vec![("message/send", older, json!({ "pushNotificationConfig": { "url": HOOK } }))];
        if profile == "current" {
            streams.push(("SendStreamingMessage", newer.clone()));
            sends.push(("SendMessage", newer, json!({ "taskPushNotificationConfig": { "url": HOOK } })));
        }
        for (method, message) in streams {
            for (agent, refuses) in [("neither", true), ("unstreamed", true), ("unpushed", false)] {
                let request = rpc(&path(agent), method, json!({ "message": message }));
                let request = request.header("accept", "application/json, text/event-stream");
                let (status, answer) = first_word(&server, &request);
                assert_eq!(status, 200, "{profile} {method}: {answer}");
                let code = answer["error"]["code"].as_i64();
                assert_eq!(code, refuses.then_some(-32004), "{profile} {agent} {method}: {answer}");
            }
        }
        // The product has no push notifications for any assistant.
        for (method, message, configuration) in sends {
            for agent in ["neither", "both"] {
                let params = json!({ "message": message, "configuration": configuration });
                let request = rpc(&path(agent), method, params).header("accept", "application/json");
                let (status, answer) = first_word(&server, &request);
                assert_eq!((status, &answer["error"]["code"]), (200, &json!(-32003)), "{profile} {method}: {answer}");
            }
        }
        for (agent, streams) in [("neither", false), ("both", true)] {
            let card = server.get(&format!("/.well-known/agent-card.json?assistant_id={}", id(agent))).json();
            assert_eq!(card["capabilities"]["streaming"], streams, "{profile} {agent}: {card}");
        }
    }
}

#[test]
fn a_system_at_orlojs_endpoints_refuses_in_its_own_form() {
    let config = format!(
        "{AGENTS}
systems:
  still: {{ graph: {{ read: {{ agent: both }} }}, a2a: {{ enabled: true, auth: public }}, streaming: false, push: off }}
  lively: {{ graph: {{ read: {{ agent: both }} }}, a2a: {{ enabled: true, auth: public }} }}
orloj: {{}}
"
    );
    let server = Server::options().config(&config).start();
    let said =
        |id: &str| json!({ "id": id, "message": { "role": "user", "parts": [{ "type": "text", "text": "hi" }] } });
    let newer = || json!({ "message": { "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "hi" }] } });
    for (system, refuses) in [("still", true), ("lively", false)] {
        for path in [
            format!("/orloj/v1/agent-systems/{system}/a2a"),
            format!("/v1/agent-systems/{system}/a2a"),
            format!("/v1/agents/{system}/a2a"),
        ] {
            let row = format!("{path}: ");
            let (_, answer) = first_word(&server, &rpc(&path, "tasks/sendSubscribe", said(&e2e::fresh_id())));
            assert_eq!(answer["error"]["code"].as_i64(), refuses.then_some(-32004), "{row}{answer}");
            // Sending without a stream still works.
            let (_, answer) = first_word(&server, &rpc(&path, "tasks/send", said(&e2e::fresh_id())));
            assert!(answer["result"]["status"]["state"].is_string(), "{row}{answer}");
            let mut with_config = newer();
            with_config["configuration"] = json!({ "taskPushNotificationConfig": { "url": HOOK } });
            for (method, params, code) in [
                ("SendStreamingMessage", newer(), -32004),
                ("SubscribeToTask", json!({ "id": NO_TASK }), -32004),
                ("SendMessage", with_config, -32003),
                ("ListTaskPushNotificationConfigs", json!({ "taskId": NO_TASK }), -32003),
            ] {
                let (_, answer) = first_word(&server, &rpc(&path, method, params).header("A2A-Version", "1.0"));
                let is = answer["error"]["code"].as_i64() == Some(code);
                assert_eq!(is, refuses, "{row}{method}: {answer}");
            }
        }
        let card = server.get(&format!("/orloj/v1/agent-systems/{system}/.well-known/agent-card.json")).json();
        // The product leaves out false members.
        assert_eq!(card["capabilities"]["streaming"].as_bool().unwrap_or(false), !refuses, "{card}");
    }
}

#[test]
fn an_agent_at_alys_endpoints_refuses_in_its_own_form() {
    let config = |more: &str| {
        format!(
            "
agents: {{ mine: {{ kind: scripted, {more} }} }}
aly: {{ agent: mine, sites: {{ acme: {{ workspace: acme, title: Acme, currency: USD }} }} }}
auth: {{ keys: [{{ name: till, tenant: acme, key: 'env:SHOP_KEY' }}] }}
"
        )
    };
    for (more, refuses) in [("streaming: false, push: off", true), ("title: Mine", false)] {
        let server = Server::options().config(&config(more)).env("SHOP_KEY", "key-of-the-shop-0123456789").start();
        let message = json!({ "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "hi" }] });
        let params = json!({ "message": message });
        let mut with_config = params.clone();
        with_config["configuration"] = json!({ "taskPushNotificationConfig": { "url": "http://localhost:9/hook" } });
        for base in ["/api/a2a", "/aly/api/a2a"] {
            let at = |path: String| format!("{base}{path}");
            let post = |path: &str, body: &Value| Request::new("POST", &at(path.to_owned())).json(body);
            let plain = |verb: &str, path: &str| Request::new(verb, &at(path.to_owned()));
            let configs = format!("/tasks/{NO_TASK}/push-configs");
            let other = format!("/tasks/{NO_TASK}/pushNotificationConfigs");
            let hook = json!({ "url": "http://localhost:9/hook" });
            let rows: Vec<(&str, Request, i64)> = vec![
                ("SendStreamingMessage", rpc(base, "SendStreamingMessage", params.clone()), -32004),
                ("SubscribeToTask", rpc(base, "SubscribeToTask", json!({ "id": NO_TASK })), -32004),
                ("SendMessage with a config", rpc(base, "SendMessage", with_config.clone()), -32003),
                ("message:stream", post("/message:stream", &params), -32004),
                ("streaming", post("/streaming", &json!({ "params": params })), -32004),
                ("message:send with a config", post("/message:send", &with_config), -32003),
                ("subscribe", plain("GET", &format!("/tasks/{NO_TASK}/subscribe")), -32004),
                (":subscribe", plain("GET", &format!("/tasks/{NO_TASK}:subscribe")), -32004),
                ("configs", plain("GET", &configs), -32003),
                ("configs by their other name", plain("GET", &other), -32003),
                ("a config", plain("GET", &format!("{configs}/one")), -32003),
                ("deleting a config", plain("DELETE", &format!("{configs}/one")), -32003),
                ("setting a config", post(&configs, &hook), -32003),
            ];
            for (row, request, code) in rows {
                let request = request.header("Authorization", "Bearer key-of-the-shop-0123456789");
                let (_, answer) = first_word(&server, &request);
                let is = answer["error"]["code"].as_i64() == Some(code);
                assert_eq!(is, refuses, "{base} {row}: {answer}");
            }
        }
        let card = server.get("/aly/.well-known/agent-card.json").json();
        assert_eq!(card["capabilities"]["streaming"], !refuses, "{card}");
        assert_eq!(card["capabilities"]["pushNotifications"], !refuses, "{card}");
    }
}
