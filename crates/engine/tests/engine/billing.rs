//! Turns with a price: money is reserved in the commit that begins a turn and settled in the commit that ends it,
//! exactly once, however and by whichever process it ends.

use std::sync::Arc;

use engine::Engine;
use futures_util::stream::BoxStream;
use model::ports::agent::{Admission, Agent, AgentEvent, AgentMessage, EndState, Profile, Restart, Turn};
use model::ports::billing::{Billing, EndedTurn, Reservation, Settled, Settlement, TurnQuote};
use model::ports::store::{Commit, Conflict, Outcome, Store, StoreError};
use model::{
    Body, CallScope, Cancel, Entry, Expect, Fault, Inbound, Json, Kind, List, Posting, RecordChange, State, Task, Time,
    TurnId,
};
use uuid::Uuid;

use crate::common::{
    Adverbs, House, Manners, Mood, Puppet, Square, acting, echo, ended, kind, last_words, log, of, on_both_stores,
    quick, reply_of, say, task_of, task_when, until,
};

/// The reservation for each turn, and the price of a turn that is charged.
const HOLD: i64 = 5;
const COST: i64 = 2;

/// A till and its books: one account for each payer, one for the earnings.
struct Box5;

fn purse(payer: &str) -> Arc<str> {
    format!("purse/{payer}").into()
}
fn aside(payer: &str) -> Arc<str> {
    format!("aside/{payer}").into()
}

fn entry(turn: TurnId, which: u128, at: Time, moves: &[(Arc<str>, i64)]) -> Entry {
    let postings = moves.iter().filter(|(_, amount)| *amount != 0);
    let postings =
        postings.map(|(account, amount)| Posting { account: account.clone(), amount: *amount, floor: Some(0) });
    Entry { id: Uuid::from_u128(turn.0.as_u128() ^ which), at, body: "x".into(), postings: postings.collect() }
}

impl Billing for Box5 {
    fn hold(&self, asked: &TurnQuote<'_>) -> Result<Option<Reservation>, Fault> {
        if !asked.known {
            return Err(Fault::new(Kind::Unauthenticated, "strangers cannot pay"));
        }
        let hold =
            Json::from_value(&serde_json::json!({ "turn": asked.turn, "payer": **asked.payer, "first": asked.first }));
        let (kind, key) = ("test/hold".into(), asked.turn.to_string().into());
        let record = RecordChange::Put { kind, key, expect: Expect::Absent, body: "h".into(), lists: Vec::new() };
        let entries = vec![entry(asked.turn, 1, asked.now, &[(purse(asked.payer), -HOLD), (aside(asked.payer), HOLD)])];
        Ok(Some(Reservation { hold, records: vec![record], entries }))
    }

    fn refused(&self, hold: &Json, met: &Conflict) -> Option<Fault> {
        let payer = hold.to_value()["payer"].as_str()?.to_owned();
        match met {
            Conflict::Funds(account, has) if *account == purse(&payer) => {
                Some(Fault::new(Kind::InsufficientBalance, format!("{payer} has {has}")))
            }
            _ => None,
        }
    }
}

impl Settlement for Box5 {
    fn settle(&self, ended: &EndedTurn<'_>) -> Result<Settled, Fault> {
        let hold = ended.hold.to_value();
        let (payer, turn) =
            (hold["payer"].as_str().unwrap(), hold["turn"].as_str().unwrap().parse::<TurnId>().unwrap());
        let cost = if ended.state == State::Failed { 0 } else { COST };
        let moves = [(aside(payer), -HOLD), (purse(payer), HOLD - cost), ("drawer".into(), cost)];
        let (kind, key) = ("test/hold".into(), turn.to_string().into());
        let record = RecordChange::Remove { kind, key, expect: Expect::Version(1) };
        let facts = ended.facts.map(Json::to_value);
        let paid = serde_json::json!({
            "cost": cost, "payer": payer, "as": format!("{:?}", ended.state), "timed": ended.ran_ms.is_some(),
            "usage": facts.and_then(|facts| facts.get("usage").cloned()),
        });
        let metadata = Json::from_value(&serde_json::json!({ "paid": paid }));
        Ok(Settled { records: vec![record], entries: vec![entry(turn, 2, ended.now, &moves)], metadata })
    }
}

/// An agent with that till.
struct Paid(Arc<dyn Agent>);

impl Agent for Paid {
    fn profile(&self) -> &Profile {
        self.0.profile()
    }
    fn admit(&self, message: &Inbound, task: Option<&Task>) -> Result<Admission, Fault> {
        self.0.admit(message, task)
    }
    fn run(&self, turn: Turn) -> BoxStream<'static, AgentEvent> {
        self.0.run(turn)
    }
    fn till(&self) -> Option<Arc<dyn Billing>> {
        Some(Arc::new(Box5))
    }
}

fn paid(agent: Arc<dyn Agent>) -> Arc<dyn Agent> {
    Arc::new(Paid(agent))
}

async fn engine_on(store: Arc<dyn Store>, agent: Arc<dyn Agent>) -> Engine {
    let books: Arc<dyn Settlement> = Arc::new(Box5);
    Engine::builder(store).agents(vec![agent]).limits(quick()).settlement(Some(books)).start().await.unwrap()
}

async fn start(house: &mut House, agent: Arc<dyn Agent>) -> Engine {
    engine_on(house.open(), agent).await
}

async fn credit(engine: &Engine, payer: &str, amount: i64) {
    let postings = [(purse(payer), amount, Some(0)), ("outside".into(), -amount, None)];
    let postings = postings.into_iter().map(|(account, amount, floor)| Posting { account, amount, floor }).collect();
    let entry = Entry { id: Uuid::now_v7(), at: Time(0), body: "c".into(), postings };
    assert_eq!(engine.store().commit(Commit { entries: vec![entry], ..Commit::default() }).await, Outcome::Done);
}

/// Alice's available and reserved money, and the earnings.
async fn money(engine: &Engine) -> (i64, i64, i64) {
    money_of(engine, "alice").await
}

async fn money_of(engine: &Engine, payer: &str) -> (i64, i64, i64) {
    let on = engine.store().balances(vec![purse(payer), aside(payer), "drawer".into()]).await.unwrap();
    (on[0], on[1], on[2])
}

/// The number of entries of turns.
async fn booked(engine: &Engine) -> usize {
    let all = engine.store().journal(0, 1_000).await.unwrap();
    all.iter().filter(|(_, entry)| &entry.body[..] == b"x").count()
}

async fn is_held(engine: &Engine, turn: TurnId) -> bool {
    engine.store().record("test/hold".into(), turn.to_string().into()).await.unwrap().is_some()
}

fn told(task: &Task) -> serde_json::Value {
    task.metadata.as_ref().map(Json::to_value).unwrap_or_default()["paid"].clone()
}

fn alice() -> CallScope {
    of("default", "alice", "puppet")
}

fn minded(restart: Restart) -> Arc<Puppet> {
    Puppet::with(Manners { restart, ..Manners::default() })
}

fn usage(tokens: u64) -> AgentEvent {
    AgentEvent::Metadata(Json::from_value(&serde_json::json!({ "usage": { "input_tokens": tokens } })))
}

#[tokio::test]
async fn money_waits_while_a_turn_runs_and_is_settled_with_its_end() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let engine = start(&mut house, paid(puppet.clone())).await;
        credit(&engine, "alice", 20).await;
        let id = task_of(engine.send(&alice(), say("go").soon()).await).id;
        assert_eq!(money(&engine).await, (15, 5, 0), "before the agent has heard of it");
        let cue = puppet.turn().await;
        let turn = cue.turn;
        assert!(is_held(&engine, turn).await);
        cue.says(usage(3));
        cue.says(usage(7));
        let before = house.shelf().commits();
        cue.ends(EndState::Completed, "done");
        let task = task_when(&engine, id, |task| task.core.is_settled()).await;
        assert!(house.shelf().commits() - before <= 2, "the end is one commit with the money");
        assert_eq!((money(&engine).await, booked(&engine).await), ((18, 0, 2), 2));
        assert!(!is_held(&engine, turn).await);
        let paid = serde_json::json!(
            {"cost": 2, "payer": "alice", "as": "Completed", "timed": true, "usage": {"input_tokens": 7}});
        assert_eq!(told(&task), paid);
        // A stream's last event has the cost, too.
        let events = log(&engine, id).await;
        let Body::Status(last) = &events.last().unwrap().body else { panic!("{events:?}") };
        assert_eq!(last.metadata.as_ref().unwrap().to_value()["paid"], paid);
    })
    .await;
}

#[tokio::test]
async fn who_cannot_pay_is_told_before_a_task_exists_and_nobody_works_ahead() {
    on_both_stores(async |mut house| {
        // An agent that may run before its first commit, if it has no price.
        let eager = acting("puppet", Manners { idempotent: true, ..Manners::default() }, |_| {
            panic!("it works, and nobody has paid")
        });
        let engine = start(&mut house, paid(eager)).await;
        credit(&engine, "alice", HOLD - 1).await;
        for _ in 0..2 {
            let fault = engine.send(&alice(), say("go")).await.unwrap_err();
            assert_eq!((fault.kind, fault.message.as_str()), (Kind::InsufficientBalance, "alice has 4"));
            assert_eq!(kind(engine.stream(&alice(), say("go")).await), Kind::InsufficientBalance);
        }
        assert_eq!(kind(engine.send(&crate::common::at("puppet"), say("go")).await), Kind::Unauthenticated);
        assert_eq!(engine.list(&alice(), &List::default()).await.unwrap().total, 0);
        let health = engine.health().await.unwrap();
        assert_eq!((health.tasks, health.records, health.timers), (0, 0, 0));
        assert_eq!((money(&engine).await, booked(&engine).await), ((4, 0, 0), 0));
        assert_eq!(engine.figures().turns_running, 0);
    })
    .await;
}

#[tokio::test]
async fn the_same_request_is_paid_for_once_even_with_an_empty_purse() {
    on_both_stores(async |mut house| {
        let engine = start(&mut house, paid(echo())).await;
        let place = of("default", "alice", "echo");
        credit(&engine, "alice", HOLD).await;
        let first = task_of(engine.send(&place, say("hi").keyed("k")).await);
        assert_eq!((first.state(), money(&engine).await), (State::Completed, (3, 0, 2)));
        for _ in 0..3 {
            let again = task_of(engine.send(&place, say("hi").keyed("k")).await);
            assert_eq!((again.id, money(&engine).await), (first.id, (3, 0, 2)));
        }
        assert_eq!(kind(engine.send(&place, say("hi").keyed("other")).await), Kind::InsufficientBalance);
        credit(&engine, "alice", 2).await;
        let other = task_of(engine.send(&place, say("hi").keyed("other")).await);
        assert_ne!(other.id, first.id, "a key that bought nothing is free");
    })
    .await;
}

#[tokio::test]
async fn every_turn_pays_for_itself() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let engine = start(&mut house, paid(puppet.clone())).await;
        credit(&engine, "alice", 8).await;
        let id = task_of(engine.send(&alice(), say("go").soon()).await).id;
        let cue = puppet.turn().await;
        cue.says(usage(7));
        cue.ends(EndState::InputRequired, "how?");
        let task = task_when(&engine, id, |task| task.core.is_at_rest()).await;
        assert_eq!((told(&task)["as"].as_str(), money(&engine).await), (Some("InputRequired"), (6, 0, 2)));
        task_of(engine.send(&alice(), say("so").to(id).soon()).await);
        assert_eq!(money(&engine).await, (1, 5, 2));
        puppet.turn().await.ends(EndState::InputRequired, "and?");
        let task = task_when(&engine, id, |task| task.core.is_at_rest()).await;
        assert_eq!((told(&task)["usage"].is_null(), money(&engine).await), (true, (4, 0, 4)), "of this turn alone");
        // The third turn cannot be paid for; the question stays.
        assert_eq!(kind(engine.send(&alice(), say("more").to(id)).await), Kind::InsufficientBalance);
        let task = engine.get(&alice(), &id.to_string()).await.unwrap();
        assert_eq!((task.state(), last_words(&task).as_str()), (State::InputRequired, "and?"));
        assert!(puppet.is_idle().await);
        credit(&engine, "alice", 1).await;
        task_of(engine.send(&alice(), say("more").to(id).soon()).await);
        puppet.turn().await.ends(EndState::Completed, "");
        task_when(&engine, id, |task| task.core.is_settled()).await;
        assert_eq!((money(&engine).await, booked(&engine).await), ((3, 0, 6), 6));
    })
    .await;
}

#[tokio::test]
async fn a_turn_that_follows_at_once_is_paid_for_by_whoever_spoke() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let engine = start(&mut house, paid(puppet.clone())).await;
        credit(&engine, "alice", HOLD).await;
        credit(&engine, "bob", HOLD).await;
        let bob = of("default", "bob", "puppet");
        let id = task_of(engine.send(&alice(), say("one").soon()).await).id;
        let cue = puppet.turn().await;
        task_of(engine.send(&bob, say("two").to(id).soon()).await);
        assert_eq!((money(&engine).await, money_of(&engine, "bob").await.0), ((0, 5, 0), 5), "it only waits");
        cue.ends(EndState::Completed, "first");
        let cue = puppet.turn().await;
        assert_eq!((money(&engine).await, money_of(&engine, "bob").await), ((3, 0, 2), (0, 5, 2)));
        cue.ends(EndState::Completed, "second");
        task_when(&engine, id, |task| task.core.is_settled()).await;
        assert_eq!((money(&engine).await, money_of(&engine, "bob").await), ((3, 0, 4), (3, 0, 4)));
    })
    .await;
}

#[tokio::test]
async fn what_was_said_meanwhile_and_cannot_be_paid_for_is_not_taken_up() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let engine = start(&mut house, paid(puppet.clone())).await;
        for (end, payer) in
            [(EndState::Completed, "bob"), (EndState::InputRequired, "bob"), (EndState::Completed, "alice")]
        {
            let spent = money(&engine).await;
            credit(&engine, "alice", HOLD - spent.0).await;
            let id = task_of(engine.send(&alice(), say("one").soon()).await).id;
            let cue = puppet.turn().await;
            let speaker = of("default", payer, "puppet");
            task_of(engine.send(&speaker, say("two").to(id).soon()).await);
            cue.ends(end, "first");
            let task = task_when(&engine, id, |task| task.core.is_settled()).await;
            assert_eq!(task.state(), State::Rejected);
            let words = last_words(&task);
            let has = if payer == "bob" { 0 } else { 3 };
            assert_eq!(words, format!("what was said meanwhile was not taken up: {payer} has {has}"));
            // The completed turn is charged, and its output is there.
            assert_eq!((told(&task)["as"].as_str(), told(&task)["payer"].as_str()), (Some("Completed"), Some("alice")));
            assert_eq!(money(&engine).await, (3, 0, spent.2 + 2));
            assert!(task.history.iter().any(|message| message.text() == "first"));
            assert!(puppet.is_idle().await);
        }
    })
    .await;
}

#[tokio::test]
async fn a_cancel_ends_what_was_set_aside() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let engine = start(&mut house, paid(puppet.clone())).await;
        credit(&engine, "alice", 10).await;
        let id = task_of(engine.send(&alice(), say("go").soon()).await).id;
        let cue = puppet.turn().await;
        let canceled = engine.cancel(&alice(), Cancel { task: id.to_string(), metadata: None }).await.unwrap();
        assert_eq!((canceled.state(), told(&canceled)["as"].as_str()), (State::Canceled, Some("Canceled")));
        assert_eq!((money(&engine).await, booked(&engine).await), ((8, 0, 2), 2));
        // Later output of the agent has no effect.
        cue.says(ended(EndState::Completed, "too late"));
        cue.cut_off().await;
        assert_eq!(booked(&engine).await, 2);
    })
    .await;
}

#[tokio::test]
async fn a_direct_answer_says_what_it_cost() {
    on_both_stores(async |mut house| {
        let agent = acting("puppet", Manners { undecided: true, ..Manners::default() }, |_| {
            Box::pin(futures_util::stream::iter([usage(4), AgentEvent::Reply(AgentMessage::text("hi"))]))
        });
        let engine = start(&mut house, paid(agent)).await;
        credit(&engine, "alice", HOLD).await;
        let reply = reply_of(engine.send(&alice(), say("hello")).await);
        let metadata = reply.message.metadata.as_ref().unwrap().to_value();
        assert_eq!((reply.message.text().as_str(), &metadata["paid"]["usage"]["input_tokens"]), ("hi", &4.into()));
        assert_eq!(money(&engine).await, (3, 0, 2));
    })
    .await;
}

#[tokio::test]
async fn a_turn_that_a_crash_cut_off_is_settled_by_its_rule() {
    on_both_stores(async |mut house| {
        let puppet = minded(Restart::Fail);
        let engine = start(&mut house, paid(puppet.clone())).await;
        credit(&engine, "alice", HOLD).await;
        let id = task_of(engine.send(&alice(), say("go").soon()).await).id;
        let _cue = puppet.turn().await;
        house.kill().await;
        let engine = start(&mut house, paid(puppet.clone())).await;
        let task = engine.get(&alice(), &id.to_string()).await.unwrap();
        assert_eq!((task.state(), told(&task)["timed"].as_bool()), (State::Failed, Some(false)));
        assert_eq!((money(&engine).await, booked(&engine).await), ((5, 0, 0), 2), "what failed costs nothing here");
    })
    .await;
}

#[tokio::test]
async fn another_attempt_is_the_same_turn_and_paid_for_once() {
    on_both_stores(async |mut house| {
        let puppet = minded(Restart::Retry);
        let mut engine = start(&mut house, paid(puppet.clone())).await;
        credit(&engine, "alice", HOLD).await;
        let id = task_of(engine.send(&alice(), say("go").soon()).await).id;
        let turn = puppet.turn().await.turn;
        for attempt in 2..=3 {
            house.kill().await;
            engine = start(&mut house, paid(puppet.clone())).await;
            let cue = puppet.turn().await;
            assert_eq!((cue.turn, cue.attempt, money(&engine).await), (turn, attempt, (0, 5, 0)));
            cue.says(usage(u64::from(attempt)));
            if attempt == 3 {
                cue.ends(EndState::Completed, "");
            } else {
                task_when(&engine, id, |task| task.metadata.is_some()).await;
            }
        }
        let task = task_when(&engine, id, |task| task.core.is_settled()).await;
        assert_eq!(
            (told(&task)["usage"]["input_tokens"].as_u64(), told(&task)["timed"].as_bool()),
            (Some(3), Some(true))
        );
        assert_eq!((money(&engine).await, booked(&engine).await), ((3, 0, 2), 2));
    })
    .await;
}

/// The settlement needs neither the agent nor its price.
#[tokio::test]
async fn a_turn_whose_agent_is_gone_or_free_by_now_is_settled() {
    on_both_stores(async |mut house| {
        let puppet = minded(Restart::Retry);
        let engine = start(&mut house, paid(puppet.clone())).await;
        credit(&engine, "alice", 10).await;
        let gone = task_of(engine.send(&alice(), say("go").soon()).await).id;
        puppet.turn().await;
        house.kill().await;
        let engine = start(&mut house, echo()).await;
        assert_eq!(engine.task(gone).await.unwrap().unwrap().state(), State::Failed);
        assert_eq!((money(&engine).await, booked(&engine).await), ((10, 0, 0), 2));
        house.kill().await;

        let engine = start(&mut house, paid(puppet.clone())).await;
        let free = task_of(engine.send(&alice(), say("go").soon()).await).id;
        puppet.turn().await;
        house.kill().await;
        let engine = start(&mut house, puppet.clone()).await;
        puppet.turn().await.ends(EndState::InputRequired, "");
        task_when(&engine, free, |task| task.core.is_at_rest()).await;
        assert_eq!((money(&engine).await, booked(&engine).await), ((8, 0, 2), 4), "as it was begun");
        task_of(engine.send(&alice(), say("on").to(free).soon()).await);
        puppet.turn().await.ends(EndState::Completed, "");
        task_when(&engine, free, |task| task.core.is_settled()).await;
        assert_eq!(booked(&engine).await, 4, "and then it is free");
    })
    .await;
}

#[tokio::test]
async fn an_answer_that_is_lost_settles_once() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let engine = start(&mut house, paid(puppet.clone())).await;
        credit(&engine, "alice", 100).await;
        let moods = [Mood::LosesAnswer, Mood::LosesCommit];
        for mood in &moods {
            // A fault at the beginning: either the turn has begun, or nothing was charged.
            let before = money(&engine).await.0;
            house.shelf().be(mood.clone());
            let begun = engine.send(&alice(), say("go").soon()).await;
            match mood {
                Mood::LosesAnswer => puppet.turn().await.ends(EndState::Completed, ""),
                _ => assert_eq!(kind(begun), Kind::Internal, "nothing is known to be wrong but the store"),
            }
            let cost = if *mood == Mood::LosesAnswer { COST } else { 0 };
            until(async || money(&engine).await.1 == 0).await;
            assert_eq!(money(&engine).await.0, before - cost);
            // A fault at the end.
            let id = task_of(engine.send(&alice(), say("go").soon()).await).id;
            let cue = puppet.turn().await;
            house.shelf().be(mood.clone());
            cue.ends(EndState::Completed, "");
            task_when(&engine, id, |task| task.core.is_settled()).await;
            assert_eq!(money(&engine).await.0, before - cost - COST);
        }
        assert_eq!((money(&engine).await, booked(&engine).await), ((94, 0, 6), 6));
    })
    .await;
}

#[tokio::test]
async fn a_full_disk_does_not_take_money() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let engine = start(&mut house, paid(puppet.clone())).await;
        credit(&engine, "alice", 10).await;
        house.shelf().be(Mood::Refuses(StoreError::Full));
        assert_eq!(kind(engine.send(&alice(), say("go")).await), Kind::Unavailable);
        house.shelf().be(Mood::Fine);
        assert_eq!(money(&engine).await, (10, 0, 0));
        let id = task_of(engine.send(&alice(), say("go").soon()).await).id;
        let cue = puppet.turn().await;
        house.shelf().be(Mood::Refuses(StoreError::Full));
        let refused = house.shelf().refused();
        cue.ends(EndState::Completed, "");
        until(async || house.shelf().refused() > refused + 1).await;
        assert_eq!(money(&engine).await, (5, 5, 0));
        house.shelf().be(Mood::Fine);
        task_when(&engine, id, |task| task.core.is_settled()).await;
        assert_eq!((money(&engine).await, booked(&engine).await), ((8, 0, 2), 2));
    })
    .await;
}

#[tokio::test]
async fn a_task_that_is_removed_gives_back_what_was_set_aside() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let engine = start(&mut house, paid(puppet.clone())).await;
        credit(&engine, "alice", 10).await;
        let id = task_of(engine.send(&alice(), say("go").soon()).await).id;
        let cue = puppet.turn().await;
        assert!(engine.purge(id).await.unwrap());
        cue.cut_off().await;
        assert_eq!((money(&engine).await, booked(&engine).await), ((8, 0, 2), 2));
        assert!(engine.task(id).await.unwrap().is_none());
        assert!(!engine.purge(id).await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn an_operator_ends_it_without_a_server() {
    on_both_stores(async |mut house| {
        let puppet = minded(Restart::Retry);
        let engine = start(&mut house, paid(puppet.clone())).await;
        credit(&engine, "alice", 10).await;
        let id = task_of(engine.send(&alice(), say("go").soon()).await).id;
        puppet.turn().await;
        house.kill().await;
        let offline = Engine::offline(house.open(), quick());
        offline.set_books(Arc::new(Box5));
        let task = offline.cancel_by_operator(id).await.unwrap();
        assert_eq!((task.state(), told(&task)["timed"].as_bool()), (State::Canceled, Some(false)));
        assert_eq!((money(&offline).await, booked(&offline).await), ((8, 0, 2), 2));
    })
    .await;
}

/// The ledger was changed from outside. The turn ends all the same; the ledger's verification reports it.
#[tokio::test]
async fn a_turn_ends_whatever_became_of_what_was_set_aside() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let engine = start(&mut house, paid(puppet.clone())).await;
        credit(&engine, "alice", 10).await;
        let id = task_of(engine.send(&alice(), say("go").soon()).await).id;
        let cue = puppet.turn().await;
        let (kind, key) = ("test/hold".into(), cue.turn.to_string().into());
        let records = vec![RecordChange::Remove { kind, key, expect: Expect::Version(1) }];
        assert_eq!(engine.store().commit(Commit { records, ..Commit::default() }).await, Outcome::Done);
        cue.ends(EndState::Completed, "done");
        let task = task_when(&engine, id, |task| task.core.is_settled()).await;
        assert_eq!((task.state(), told(&task).is_null()), (State::Completed, true), "nothing is said that is not so");
        assert_eq!((money(&engine).await, booked(&engine).await), ((5, 5, 0), 1));
    })
    .await;
}

/// The process that takes a turn over settles it; the one that was cut off does not.
#[tokio::test]
async fn a_turn_that_another_process_takes_over_is_settled_once() {
    let (square, puppet) = (Square::new(), minded(Restart::Retry));
    let first = square.join();
    let there = crate::common::Shelf::new(first.clone(), model::Epoch(first.no), true);
    let away = engine_on(there, paid(puppet.clone())).await;
    credit(&away, "alice", 10).await;
    let id = task_of(away.send(&alice(), say("go").soon()).await).id;
    let lost = puppet.turn().await;
    let second = square.join();
    let here = crate::common::Shelf::new(second.clone(), model::Epoch(second.no), true);
    let engine = engine_on(here, paid(puppet.clone())).await;
    square.give_up(first.no);
    let cue = puppet.turn().await;
    assert_eq!((cue.turn, cue.attempt), (lost.turn, 2));
    assert_eq!(money(&engine).await, (5, 5, 0));
    // The process that was cut off finishes first, and finds its turn lost.
    lost.says(ended(EndState::Completed, "mine"));
    lost.cut_off().await;
    assert_eq!(money(&engine).await, (5, 5, 0));
    cue.ends(EndState::Completed, "ours");
    let task = task_when(&engine, id, |task| task.core.is_settled()).await;
    assert_eq!(last_words(&task), "ours");
    assert_eq!((money(&engine).await, booked(&engine).await), ((8, 0, 2), 2));
}

/// Two sends and one account: the store decides, not the order of reads.
#[tokio::test]
async fn a_purse_is_never_spent_twice() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let engine = start(&mut house, paid(puppet.clone())).await;
        credit(&engine, "alice", 3 * HOLD + 1).await;
        let place = alice();
        let sends = (0..12).map(|n| {
            let (engine, place) = (engine.clone(), place.clone());
            async move { engine.send(&place, say(&n.to_string()).soon()).await.map_err(|fault| fault.kind) }
        });
        let answers = futures_util::future::join_all(sends).await;
        let refused = answers.iter().filter(|answer| matches!(answer, Err(Kind::InsufficientBalance))).count();
        assert_eq!((answers.iter().filter(|answer| answer.is_ok()).count(), refused), (3, 9));
        assert_eq!(money(&engine).await, (1, 15, 0));
        for _ in 0..3 {
            puppet.turn().await.ends(EndState::Completed, "");
        }
        until(async || money(&engine).await == (10, 0, 6)).await;
        assert!(puppet.is_idle().await);
    })
    .await;
}

/// An agent without a price is unchanged: one commit, and nothing about money in the log.
#[tokio::test]
async fn an_agent_without_a_price_costs_nothing() {
    on_both_stores(async |mut house| {
        let engine = start(&mut house, echo()).await;
        let task = task_of(engine.send(&crate::common::at("echo"), say("hi")).await);
        assert_eq!((house.shelf().commits(), task.due.is_none(), &task.metadata), (1, true, &None));
        let events = log(&engine, task.id).await;
        assert!(events.iter().all(|event| !matches!(&event.body, Body::TurnStarted { hold: Some(_), .. })));
        assert!(events.iter().all(|event| !matches!(&event.body, Body::Message(inbound) if inbound.payer.is_some())));
    })
    .await;
}
