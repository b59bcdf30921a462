//! Tests of turns, workers and time, without HTTP.

use futures_util::StreamExt as _;
use model::Part;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::*;
use crate::scripted::stage::brief;
use crate::testing::{Running, agent, refused, text, turn};

const LEASE: Duration = Duration::from_millis(30_000);

/// An agent and its worker queue.
struct Shop {
    agent: Arc<dyn agent::Agent>,
    desk: Arc<dyn WorkerQueue>,
}

async fn shop(more: Value) -> Shop {
    let mut config = json!({"kind": "worker"});
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let agent = agent(config).await;
    let desk = agent.desk().unwrap();
    Shop { agent, desk }
}

impl Shop {
    /// Starts a turn with its own id; returns its emissions at the end.
    fn lay_out(&self, number: u32, said: &str) -> JoinHandle<Vec<String>> {
        let said = self.agent.run(Turn { id: id(number), ..turn(text(said)) });
        tokio::spawn(async move { brief(&said.collect::<Vec<_>>().await) })
    }

    async fn lease(&self) -> Leased {
        self.desk.lease("w", Duration::from_secs(5)).await.expect("a turn waits")
    }

    async fn none_waits(&self) -> bool {
        self.desk.lease("w", Duration::from_millis(1)).await.is_none()
    }

    async fn say(&self, leased: &Leased, word: WorkerReport) -> Result<LeaseStatus, ReportError> {
        self.desk.take(leased.turn, leased.lease.clone(), None, word).await
    }

    async fn deliver(&self, leased: &Leased, id: &str, event: &str) -> Result<LeaseStatus, ReportError> {
        let word = WorkerReport::Deliver(Some(event.into()));
        self.desk.take(leased.turn, leased.lease.clone(), Some(id.into()), word).await
    }
}

fn id(number: u32) -> TurnId {
    format!("0190f3c4-1111-7222-8333-{number:012}").parse().unwrap()
}

fn events(all: &[&str]) -> WorkerReport {
    WorkerReport::Events(all.iter().map(|&event| event.into()).collect())
}

const GOES_ON: LeaseStatus = LeaseStatus { cancelled: false, over: false, lease_ms: 30_000 };
const DONE: LeaseStatus = LeaseStatus { cancelled: false, over: true, lease_ms: 30_000 };

#[tokio::test(start_paused = true)]
async fn a_turn_waits_for_a_worker_who_is_told_speaks_and_delivers() {
    let shop = shop(json!({})).await;
    let waiting = tokio::spawn(shop.desk.lease("early", Duration::from_secs(60)));
    let said = shop.lay_out(1, "hello");
    let leased = waiting.await.unwrap().unwrap();
    let told: Value = serde_json::from_str(&leased.told).unwrap();
    assert_eq!((told["turn"].as_str().unwrap(), &told["attempt"]), (&*id(1).to_string(), &json!(1)));
    assert_eq!(told["message"]["parts"][0]["text"], "hello");
    assert!(shop.none_waits().await);
    let progress = events(&[r#"{"status":"working","text":"on it"}"#, r#"{"text":"a"}"#]);
    assert_eq!(shop.say(&leased, progress).await, Ok(GOES_ON));
    assert_eq!(shop.say(&leased, WorkerReport::Deliver(Some(r#"{"text":"b"}"#.into()))).await, Ok(DONE));
    assert_eq!(said.await.unwrap(), ["working", "working on it", "response=… a", "response+ b", "Completed"]);
    assert_eq!(shop.say(&leased, WorkerReport::Alive).await, Err(ReportError::Over));
    let other = Leased { turn: id(9), ..leased };
    assert_eq!(shop.say(&other, WorkerReport::Alive).await, Err(ReportError::Unknown));
}

#[tokio::test(start_paused = true)]
async fn every_end_is_one_event_and_nothing_at_all_completes() {
    for (word, end) in [
        (WorkerReport::Deliver(None), "Completed"),
        (WorkerReport::Deliver(Some(r#"{"input_required":"which?"}"#.into())), "InputRequired which?"),
        (events(&[r#"{"rejected":"no"}"#]), "Rejected no"),
        (WorkerReport::Fail { says: Some("broken".into()), retryable: false }, "Failed broken"),
        (WorkerReport::Fail { says: None, retryable: false }, "Failed"),
    ] {
        let shop = shop(json!({})).await;
        let said = shop.lay_out(1, "x");
        assert_eq!(shop.say(&shop.lease().await, word).await, Ok(DONE));
        assert_eq!(said.await.unwrap(), ["working", end]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_falls_silent_loses_its_turn_to_the_next_before_all_others() {
    let shop = shop(json!({})).await;
    let said = shop.lay_out(1, "x");
    let first = shop.lease().await;
    shop.say(&first, events(&[r#"{"artifact":{"id":"p","text":"half","append":true}}"#])).await.unwrap();
    let _later = shop.lay_out(2, "y");
    tokio::time::advance(LEASE).await;
    let late = shop.say(&first, WorkerReport::Alive).await;
    assert_eq!(late, Err(ReportError::NotYours), "its time is over, whether anybody noticed or not");
    tokio::time::sleep(Duration::from_millis(10)).await;
    let second = shop.lease().await;
    assert_eq!((second.turn, &second.told.contains(r#""attempt":2"#)), (id(1), &true));
    assert_ne!(first.lease, second.lease);
    assert_eq!(shop.deliver(&first, "d", r#"{"text":"late"}"#).await, Err(ReportError::NotYours));
    shop.say(&second, events(&[r#"{"artifact":{"id":"p","text":"whole","append":true}}"#])).await.unwrap();
    shop.say(&second, WorkerReport::Deliver(None)).await.unwrap();
    assert_eq!(
        said.await.unwrap(),
        [
            "working",
            "p+… half",
            "working the worker was not heard of any more; waiting for another",
            "working",
            "p=… whole",
            "Completed"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn whoever_is_heard_of_keeps_its_turn() {
    let shop = shop(json!({"lease_ms": 1000})).await;
    let said = shop.lay_out(1, "x");
    let leased = shop.lease().await;
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_millis(900)).await;
        assert_eq!(shop.say(&leased, WorkerReport::Alive).await, Ok(LeaseStatus { lease_ms: 1_000, ..GOES_ON }));
    }
    shop.say(&leased, WorkerReport::Deliver(None)).await.unwrap();
    assert_eq!(said.await.unwrap(), ["working", "Completed"]);
}

#[tokio::test(start_paused = true)]
async fn a_turn_is_given_out_so_often_and_not_more() {
    let shop = shop(json!({"attempts": 2})).await;
    let said = shop.lay_out(1, "x");
    let first = shop.lease().await;
    let back = WorkerReport::Fail { says: Some("no paper".into()), retryable: true };
    assert_eq!(shop.say(&first, back).await, Ok(DONE));
    assert_eq!(shop.say(&first, WorkerReport::Alive).await, Err(ReportError::NotYours));
    shop.lease().await;
    assert_eq!(
        said.await.unwrap(),
        [
            "working",
            "working no paper; waiting for another",
            "working",
            "Failed the worker was not heard of any more; the turn was tried 2 times and is not tried again"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_repeated_delivery_is_answered_as_the_first_was_and_heard_once() {
    let shop = shop(json!({})).await;
    let said = shop.lay_out(1, "x");
    let leased = shop.lease().await;
    for _ in 0..3 {
        let piece = events(&[r#"{"artifact":{"name":"p","text":"once"}}"#]);
        let answer = shop.desk.take(leased.turn, leased.lease.clone(), Some("e-1".into()), piece).await;
        assert_eq!(answer, Ok(GOES_ON));
    }
    for _ in 0..3 {
        assert_eq!(shop.deliver(&leased, "d-1", r#"{"completed":"done"}"#).await, Ok(DONE));
    }
    assert_eq!(shop.deliver(&leased, "d-2", r#"{"completed":"again"}"#).await, Err(ReportError::Over));
    assert_eq!(said.await.unwrap(), ["working", "p= once", "Completed done"]);
}

#[tokio::test(start_paused = true)]
async fn two_workers_may_number_their_deliveries_alike() {
    let shop = shop(json!({})).await;
    let said = shop.lay_out(1, "x");
    let first = shop.lease().await;
    let piece = events(&[r#"{"artifact":{"id":"p","text":"half"}}"#]);
    shop.desk.take(first.turn, first.lease.clone(), Some("1".into()), piece).await.unwrap();
    tokio::time::advance(LEASE).await;
    let second = shop.lease().await;
    assert_eq!(shop.deliver(&second, "1", r#"{"completed":"done"}"#).await, Ok(DONE));
    assert_eq!(said.await.unwrap().last().map(String::as_str), Some("Completed done"), "the second was heard");
}

#[tokio::test(start_paused = true)]
async fn events_are_taken_together_or_not_at_all_and_a_bad_one_costs_nothing() {
    let shop = shop(json!({})).await;
    let said = shop.lay_out(1, "x");
    let leased = shop.lease().await;
    let refused = shop.say(&leased, events(&[r#"{"text":"a"}"#, r#"{"colour":"red"}"#])).await;
    assert!(
        matches!(&refused, Err(ReportError::Unreadable(says)) if says.starts_with(r#"events[1]: unknown event "colour""#)),
        "{refused:?}"
    );
    let refused = shop.say(&leased, events(&[r#"{"completed":null}"#, r#"{"text":"a"}"#])).await;
    assert!(
        matches!(&refused, Err(ReportError::Unreadable(says)) if says.contains("has ended before it")),
        "{refused:?}"
    );
    let refused = shop.deliver(&leased, "d", r#"{"text":1}"#).await;
    assert!(matches!(refused, Err(ReportError::Unreadable(_))), "{refused:?}");
    assert_eq!(shop.deliver(&leased, "d", r#"{"text":"b"}"#).await, Ok(DONE), "a refusal is not remembered");
    assert_eq!(said.await.unwrap(), ["working", "response= b", "Completed"]);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_turn_that_nobody_has_ends_at_once() {
    let shop = shop(json!({})).await;
    let running = Running::start(&*shop.agent, turn(text("x")));
    assert_eq!(brief(&running.cancelled().await), ["Canceled"]);
    assert!(shop.none_waits().await);
}

#[tokio::test(start_paused = true)]
async fn a_worker_learns_of_a_cancel_when_it_is_next_heard_of() {
    let shop = shop(json!({})).await;
    let mut notices = shop.desk.notices("w", 1);
    let mut running = Running::start(&*shop.agent, turn(text("x")));
    let (first, notice) = tokio::join!(running.next(), notices.next());
    assert_eq!(brief(&[first]), ["working"]);
    let Some(WorkerNotice::Turn(leased)) = notice else { panic!("{notice:?}") };
    let (said, answers) = tokio::join!(running.cancelled(), async {
        assert_eq!(notices.next().await, Some(WorkerNotice::Cancelled(leased.turn)));
        let told = shop.say(&leased, WorkerReport::Alive).await;
        let end = shop.say(&leased, events(&[r#"{"canceled":"put away"}"#])).await;
        (told, end)
    });
    assert_eq!(answers, (Ok(LeaseStatus { cancelled: true, ..GOES_ON }), Ok(DONE)));
    assert_eq!(brief(&said), ["Canceled put away"]);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_turn_whose_worker_is_silent_is_not_tried_again() {
    let shop = shop(json!({})).await;
    let mut running = Running::start(&*shop.agent, turn(text("x")));
    let (_, leased) = tokio::join!(running.next(), shop.lease());
    assert_eq!(brief(&running.cancelled().await), ["Canceled"]);
    assert_eq!(shop.say(&leased, WorkerReport::Alive).await, Err(ReportError::Over));
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_dropped_is_over_for_its_worker_and_may_come_again() {
    let shop = shop(json!({})).await;
    let mut running = Running::start(&*shop.agent, turn(text("x")));
    let (_, leased) = tokio::join!(running.next(), shop.lease());
    drop(running);
    assert_eq!(shop.say(&leased, WorkerReport::Alive).await, Err(ReportError::Over));
    // As after a restart: the same turn, another attempt.
    let again = Turn { attempt: 2, ..turn(text("x")) };
    let said = tokio::spawn(shop.agent.run(again).collect::<Vec<_>>());
    let second = shop.lease().await;
    assert_eq!(second.turn, leased.turn);
    assert_eq!(shop.say(&leased, WorkerReport::Alive).await, Err(ReportError::NotYours));
    shop.say(&second, WorkerReport::Deliver(None)).await.unwrap();
    assert_eq!(brief(&said.await.unwrap()), ["working", "Completed"]);
}

#[tokio::test(start_paused = true)]
async fn a_worker_waits_with_the_engine_and_loses_nothing_by_it() {
    let shop = shop(json!({})).await;
    let mut running = Running::start(&*shop.agent, turn(text("x")));
    let (_, leased) = tokio::join!(running.next(), shop.lease());
    let word = events(&[r#"{"artifact":{"name":"p","text":"a"}}"#]);
    let speaking = tokio::spawn(shop.desk.take(leased.turn, leased.lease.clone(), None, word));
    tokio::time::sleep(3 * LEASE).await;
    assert!(!speaking.is_finished(), "nobody has listened");
    assert_eq!(brief(&[running.next().await]), ["p= a"]);
    let (_, last) = tokio::join!(running.next(), async {
        assert_eq!(speaking.await.unwrap(), Ok(GOES_ON));
        shop.say(&leased, WorkerReport::Deliver(None)).await
    });
    assert_eq!(last, Ok(DONE));
}

#[tokio::test(start_paused = true)]
async fn a_stream_gives_out_as_many_turns_as_the_worker_has_hands() {
    let shop = shop(json!({})).await;
    let all: Vec<_> = (1..=3).map(|n| shop.lay_out(n, "x")).collect();
    let mut notices = shop.desk.notices("w", 2);
    let mut held = Vec::new();
    for _ in 0..2 {
        let Some(WorkerNotice::Turn(leased)) = notices.next().await else { panic!() };
        held.push(leased);
    }
    let third = tokio::time::timeout(Duration::from_millis(1), notices.next()).await;
    assert!(third.is_err(), "both hands are full");
    shop.say(&held[1], WorkerReport::Deliver(None)).await.unwrap();
    let Some(WorkerNotice::Turn(third)) = notices.next().await else { panic!() };
    drop(notices);
    // A worker that closed its stream still holds its turns.
    for leased in [&held[0], &third] {
        shop.say(leased, WorkerReport::Deliver(None)).await.unwrap();
    }
    for said in all {
        assert_eq!(said.await.unwrap(), ["working", "Completed"]);
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_turn_may_say_is_bounded() {
    let shop = shop(json!({"max_output_bytes": 10})).await;
    let said = shop.lay_out(1, "x");
    let leased = shop.lease().await;
    let much = events(&[r#"{"artifact":{"name":"p","text":"much too much"}}"#]);
    assert_eq!(shop.say(&leased, much).await, Err(ReportError::Over));
    assert_eq!(said.await.unwrap()[1], "Failed the agent said more than 10 bytes in one turn");
}

#[tokio::test]
async fn only_the_secret_lets_in_and_options_are_checked() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, "s3cret-of-workers\n").unwrap();
    let shop = shop(json!({"secret": format!("file:{}", file.path().display())})).await;
    assert!(!shop.desk.is_open());
    let shown = [None, Some(""), Some("s3cret-of-worker"), Some("s3cret-of-workers "), Some("s3cret-of-workers")];
    assert_eq!(shown.map(|secret| shop.desk.admits(secret)), [false, false, false, false, true]);
    let open = self::shop(json!({})).await;
    assert!(open.desk.is_open() && open.desk.admits(None));
    assert!(refused(json!({"kind": "worker", "lease_ms": 5})).contains("from 100 to"));
    assert!(refused(json!({"kind": "worker", "secret": "hunter2"})).contains("write env:NAME"));
    std::fs::write(&file, "fifteen bytes..\n").unwrap();
    let short = json!({"kind": "worker", "secret": format!("file:{}", file.path().display())});
    assert!(refused(short).contains("share one of 16 bytes or more"));
}

#[tokio::test(start_paused = true)]
async fn parts_of_every_kind_are_told() {
    let shop = shop(json!({})).await;
    let parts = vec![Part::text("a"), Part::data(model::Json::parse("{\"b\":\n1}").unwrap())];
    let _said = tokio::spawn(shop.agent.run(turn(parts)).collect::<Vec<_>>());
    let told = shop.lease().await.told;
    assert!(!told.contains('\n') && told.contains(r#"{"data":{"b": 1}}"#), "{told}");
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_is_configured_anew_keeps_its_turns_and_their_workers() {
    let old = shop(json!({})).await;
    let (worked_on, waiting) = (old.lay_out(1, "x"), old.lay_out(2, "y"));
    let leased = old.lease().await;
    let new = shop(json!({"lease_ms": 1000, "title": "another"})).await;
    new.desk.adopt(&*old.desk);
    drop(old);
    let other = new.lay_out(3, "z");
    assert_eq!(new.say(&leased, WorkerReport::Deliver(None)).await.unwrap().lease_ms, 1_000);
    for expected in [2, 3] {
        let leased = new.lease().await;
        assert_eq!(leased.turn, id(expected));
        new.say(&leased, WorkerReport::Deliver(None)).await.unwrap();
    }
    for said in [worked_on, waiting, other] {
        assert_eq!(said.await.unwrap(), ["working", "Completed"]);
    }
}
