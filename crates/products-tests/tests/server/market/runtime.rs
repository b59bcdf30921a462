//! A seller's program, over the socket.

use std::collections::VecDeque;

use dialects::framing::sse::{Parser, SseFrame};

use super::*;
use testkit::until;

struct Stream {
    answer: reqwest::Response,
    parser: Parser,
    frames: VecDeque<SseFrame>,
}

impl Stream {
    async fn frame(&mut self) -> SseFrame {
        let mut read = Vec::new();
        while self.frames.is_empty() {
            let piece = self.answer.chunk().await.unwrap().expect("the stream goes on");
            self.parser.push(&piece, &mut read).unwrap();
            self.frames.extend(read.drain(..));
        }
        self.frames.pop_front().unwrap()
    }

    /// The next job, with its id.
    async fn job(&mut self) -> (String, Value) {
        let frame = self.frame().await;
        assert_eq!(frame.event.as_deref(), Some("job_dispatch"), "{frame:?}");
        (frame.id.unwrap(), serde_json::from_str(&frame.data).unwrap())
    }
}

const CONNECT: &str = "/agent-runtime/connect";
const ACT: &str = "/agent-runtime/act";

impl House {
    async fn connect(&self, last: Option<&str>) -> Stream {
        let request = self.by(SELLER, Method::GET, CONNECT);
        let request = match last {
            Some(last) => request.header("Last-Event-ID", last),
            None => request,
        };
        let answer = request.send().await.unwrap();
        assert_eq!(
            (answer.status().as_u16(), &answer.headers()["content-type"]),
            (200, &"text/event-stream".parse().unwrap())
        );
        let mut stream = Stream { answer, parser: Parser::new(1 << 20), frames: VecDeque::new() };
        let open = stream.frame().await;
        let data: Value = serde_json::from_str(&open.data).unwrap();
        assert_eq!((open.event.as_deref(), open.id, &data["user_id"]), (Some("connection.open"), None, &json!(SELLER)));
        stream
    }

    /// A purchase whose money is there.
    async fn frozen(&self, capability: &str) -> String {
        // Line breaks are no part of what is said, but they are there.
        let body = format!("{{ \"capability_id\": \"{capability}\",\r\n \"input\": {{\n\"page\":\n1.50 }} }}");
        let request = self.by(BUYER, Method::POST, "/transactions").header("content-type", "application/json");
        let (status, ordered) = told(request.body(body)).await;
        assert_eq!(status, 200, "{ordered}");
        let id = ordered["data"]["id"].as_str().unwrap().to_owned();
        assert_eq!(self.done(BUYER, &format!("/transactions/{id}/freeze"), json!({})).await["status"], "frozen");
        id
    }

    async fn acts(&self, action: &str, job: &str, more: Value) -> (u16, Value) {
        let mut body = json!({ "action": action, "job_id": job });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.post(SELLER, ACT, body).await
    }

    /// How the transaction stands after that.
    async fn acted(&self, action: &str, job: &str, more: Value) -> Value {
        let (status, mut answer) = self.acts(action, job, more).await;
        assert_eq!((status, &answer["data"]["job_id"]), (200, &json!(job)), "{answer}");
        assert_eq!(answer["data"]["status"], answer["data"]["transaction"]["status"]);
        answer["data"]["status"].take()
    }
}

#[tokio::test]
async fn a_program_fetches_its_work_and_does_it() {
    let house = house().await;
    let capability = house.sold("0", json!({ "worker": true })).await;
    let waits = house.frozen(&capability).await;
    let mut stream = house.connect(None).await;
    assert!(house.running.metric("a2a_streams_open 1").await);
    let (id, job) = stream.job().await;
    assert_eq!((&id, &job["job_id"], &job["transaction_id"]), (&waits, &json!(waits), &json!(waits)));
    for (name, value) in [
        ("capability_id", json!(capability)),
        ("buyer_user_id", json!(BUYER)),
        ("input", json!({ "page": 1.5 })),
        ("price_ut", json!("0")),
        ("accepted", json!(false)),
        ("deliver_by", json!(null)),
    ] {
        assert_eq!(job[name], value, "{name}");
    }
    assert!(job["accept_by"].as_str().unwrap().ends_with('Z'), "{job}");
    let comes = house.frozen(&capability).await;
    assert_eq!(stream.job().await.0, comes, "what comes while it listens");

    assert_eq!(house.acted("accept_job", &waits, json!({})).await, "accepted");
    assert_eq!(house.acted("accept_job", &waits, json!({})).await, "accepted", "an answer that was lost");
    assert_eq!(house.acted("heartbeat", &waits, json!({ "progress": 0.5 })).await, "accepted");
    assert_eq!(refusal(&house.acts("deliver", &waits, json!({})).await), (400, 1001), "nothing is no delivery");
    let delivery =
        json!({ "result": { "total": 3 }, "deliverables": [{ "file_name": "a.pdf" }], "idempotency_key": "k" });
    for _ in 0..2 {
        assert_eq!(house.acted("deliver", &waits, delivery.clone()).await, "delivered");
    }
    assert_eq!(refusal(&house.acts("heartbeat", &waits, json!({})).await), (409, 4501));
    let settled = house.done(BUYER, &format!("/transactions/{waits}/confirm"), json!({})).await;
    assert_eq!((&settled["status"], &settled["result_payload"]), (&json!("settled"), &json!({ "total": 3 })));
    assert_eq!(settled["deliverables"][0]["file_name"], "a.pdf");
    assert_eq!(house.acted("reject_job", &comes, json!({ "reason": "too busy" })).await, "rejected_by_seller");
    drop(stream);
    until("its place is free", async || house.running.metric("a2a_streams_open 0").await).await;
}

#[tokio::test]
async fn a_program_that_comes_again_goes_on_and_what_failed_is_tried_again() {
    let house = house().await;
    let capability = house.sold("0", json!({ "worker": true })).await;
    let mut stream = house.connect(None).await;
    let first = house.frozen(&capability).await;
    let (last, _) = stream.job().await;
    house.acted("accept_job", &first, json!({})).await;
    let tired = json!({ "error": "no ink", "retryable": true });
    assert_eq!(house.acted("fail", &first, tired.clone()).await, "accepted");
    let (again, job) = stream.job().await;
    assert_eq!((&again, &job["accepted"], &job["accept_by"]), (&first, &json!(true), &json!(null)));
    assert!(job["deliver_by"].is_string(), "{job}");
    assert_eq!(house.acted("deliver", &first, json!({ "result": {} })).await, "delivered");
    drop(stream);

    let second = house.frozen(&capability).await;
    let mut stream = house.connect(Some(&last)).await;
    assert_eq!(stream.job().await.0, second, "what came meanwhile, and only that");
    house.acted("accept_job", &second, json!({})).await;
    drop(stream);
    // The delivery fails while no receiver listens.
    house.acted("fail", &second, tired).await;
    let mut stream = house.connect(Some(&second)).await;
    let (again, job) = stream.job().await;
    assert_eq!((&again, &job["accepted"]), (&second, &json!(true)));
    assert_eq!(house.acted("fail", &second, json!({ "error": "no ink" })).await, "failed");
    let (_, failed) = house.get(BUYER, &format!("/transactions/{second}")).await;
    assert_eq!(failed["data"]["reason"], "no ink");
    let third = house.frozen(&capability).await;
    assert_eq!(stream.job().await.0, third);
    assert_eq!(house.acted("fail", &third, json!({})).await, "rejected_by_seller", "it was not accepted yet");
}

#[tokio::test]
async fn what_a_program_cannot_do_is_told_in_words() {
    let house = house().await;
    let capability = house.sold("0", json!({ "worker": true })).await;
    let job = house.frozen(&capability).await;
    for (expected, user, body) in [
        ((400, 1001), SELLER, json!({})),
        ((400, 1001), SELLER, json!({ "action": "dance", "job_id": job })),
        ((400, 1001), SELLER, json!({ "action": "accept_job" })),
        ((404, 1004), SELLER, json!({ "action": "accept_job", "job_id": "nonsense" })),
        ((404, 1004), SELLER, json!({ "action": "accept_job", "job_id": "tx_00000000000000000000000000" })),
        ((422, 1008), SELLER, json!({ "action": "send_message", "to_agent_id": "a", "msg_type": "x", "payload": {} })),
        ((422, 1008), SELLER, json!({ "action": "reject_job", "job_id": job, "reason": "x".repeat(501) })),
        ((409, 4501), SELLER, json!({ "action": "deliver", "job_id": job, "result": {} })),
        ((403, 1003), BUYER, json!({ "action": "accept_job", "job_id": job })),
    ] {
        let answer = house.post(user, ACT, body.clone()).await;
        assert_eq!(refusal(&answer), expected, "{body}: {answer:?}");
    }
    let nobody = told(house.at(Method::GET, CONNECT)).await;
    assert_eq!(refusal(&nobody), (401, 1002));
    let odd = told(house.by(SELLER, Method::GET, CONNECT).header("Last-Event-ID", "7")).await;
    assert_eq!((refusal(&odd), &odd.1["data"]["details"][0]["field"]), ((400, 1001), &json!("Last-Event-ID")));
    let document: Value = house.at(Method::GET, "/openapi.json").send().await.unwrap().json().await.unwrap();
    let connect = &document["paths"][CONNECT]["get"];
    let data = &connect["responses"]["200"]["content"]["text/event-stream"]["x-event-data"]["$ref"];
    assert_eq!(data, "#/components/schemas/JobDispatch");
    assert_eq!(connect["parameters"][0]["name"], "Last-Event-ID");
}

#[tokio::test]
async fn a_program_has_as_many_streams_as_anybody() {
    let mut settings = Settings::test(&["echo"]);
    settings.throttle.streams_per_caller = Some(1);
    let house = house_in(settings, |uumit| uumit).await;
    let first = house.connect(None).await;
    let second = house.by(SELLER, Method::GET, CONNECT).send().await.unwrap();
    assert_eq!((second.status().as_u16(), second.headers()["retry-after"].to_str().unwrap()), (429, "1"));
    assert_eq!(house.by(BUYER, Method::GET, CONNECT).send().await.unwrap().status(), 200, "another has its own");
    drop(first);
    until("the seat is free", async || house.by(SELLER, Method::GET, CONNECT).send().await.unwrap().status() == 200)
        .await;
}
