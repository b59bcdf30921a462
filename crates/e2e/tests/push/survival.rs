//! `kill -9` between a commit and its delivery, again and again: everything arrives all the same.

use e2e::{Receiver, Reply};
use serde_json::json;

use crate::{chunks, hasty, is_over, numbers, open_with, told};

#[test]
fn what_was_committed_before_a_kill_is_delivered_after_it() {
    let mut server = hasty();
    let receiver = Receiver::start();
    // Nothing is delivered before the kill.
    receiver.answers(|_| Reply::Hang);
    let client = server.agent("scripted");
    let task = open_with(&client, &chunks(), &receiver.url("/hook"));
    client.settled(&task);
    server.kill9();
    receiver.answers(|_| Reply::Status(200));
    server.restart();
    receiver.until("everything arrived", is_over);
    assert_eq!(numbers(&receiver, "/hook"), told(&client, &task));
}

#[test]
fn rounds_of_kills_lose_nothing_and_mix_nothing_up() {
    let mut random = e2e::seed::Random::from_env("push");
    let mut server = hasty();
    let receiver = Receiver::start();
    let rounds: usize = std::env::var("RIALTO_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(3);
    let client = server.agent("scripted");
    let mut tasks = Vec::new();
    for round in 0..rounds {
        // Some are accepted, some fail, some hang: the kill may interrupt any of them.
        let mut dice = random.fork();
        receiver.answers(move |_| match dice.between(0, 4) {
            0 => Reply::Status(500),
            1 => Reply::Close,
            _ => Reply::Status(200),
        });
        for n in 0..20 {
            let path = format!("/{round}/{n}");
            let task = open_with(&client, &chunks(), &receiver.url(&path));
            tasks.push((path, task));
        }
        std::thread::sleep(std::time::Duration::from_millis(random.between(0, 60)));
        server.kill9();
        server.restart();
    }
    receiver.answers(|_| Reply::Status(200));
    for (path, task) in &tasks {
        // An interrupted turn follows its agent's rule; in any case it settles.
        client.settled(task);
        let wanted = told(&client, task);
        receiver.until(&format!("everything of {task} arrived at {path}"), |_| {
            numbers(&receiver, path).last() == wanted.last()
        });
        assert_eq!(numbers(&receiver, path), wanted, "{path}");
    }
}

#[test]
fn a_config_of_a_waiting_task_outlives_the_server() {
    let mut server = hasty();
    let receiver = Receiver::start();
    let client = server.agent("scripted");
    let steps = json!([{ "input": "well?" }, { "complete": "done" }]);
    let task = client.send(e2e::script(steps))["id"].as_str().unwrap().to_owned();
    let config = json!({ "taskId": task, "id": "one", "url": receiver.url("/hook"), "token": "tok" });
    client.rpc("CreateTaskPushNotificationConfig", config).unwrap();
    server.kill9();
    server.restart();
    assert_eq!(
        client.rpc("ListTaskPushNotificationConfigs", json!({ "taskId": task })).unwrap()["configs"][0]["id"],
        "one"
    );
    assert!(receiver.deliveries().is_empty(), "a config starts at the next event");
    client.rpc("SendMessage", e2e::send(e2e::to_task(e2e::message("yes"), &task))).unwrap();
    let all = receiver.until("the end arrived", is_over);
    assert!(all.iter().all(|delivery| delivery.header("x-a2a-notification-token") == Some("tok")));
}
