//! Commits with unknown outcome, which happen later than a read of the log.

use std::sync::Arc;

use model::ports::agent::{EndState, Restart};
use model::ports::store::Outcome;
use model::{Kind, State};

use crate::common::{
    Adverbs as _, Manners, Mood, Post, Puppet, Square, artifacts, aside, at, begin, cancel, echo, get, hook_of, kind,
    last_words, log, next_heard, on_both_stores, quick, say, subscribe, task_of, task_when, text_piece, until,
};

fn minded(restart: Restart) -> Arc<Puppet> {
    Puppet::with(Manners { restart, ..Manners::default() })
}

/// The turn's writer finds its own row after a conflict, and does not write it again.
#[tokio::test]
async fn what_is_written_after_all_is_not_written_twice() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let engine = house.start([puppet.clone() as _]).await;
        let id = begin(&engine, "puppet", say("go")).await.id;
        let cue = puppet.turn().await;
        let mut subscription = subscribe(&engine, "puppet", id).await;
        next_heard(&mut subscription).await;
        for i in 0..3 {
            house.shelf().be(Mood::CommitsLate);
            cue.says(text_piece("a", &i.to_string(), i > 0));
            assert_eq!(next_heard(&mut subscription).await, format!("art a{}{i}", if i > 0 { '+' } else { '=' }));
        }
        house.shelf().be(Mood::CommitsLate);
        cue.ends(EndState::Completed, "done");
        assert_eq!(next_heard(&mut subscription).await, "completed: done.");
        let task = get(&engine, "puppet", id).await;
        assert_eq!(artifacts(&task), ["012"]);
        assert_eq!(log(&engine, id).await.len() as u64, task.seq().0);
        until(async || engine.figures().turns_running == 0).await;
    })
    .await;
}

/// The same for the commit that ends a turn and begins the next: the next turn runs once.
#[tokio::test]
async fn a_next_turn_that_was_begun_after_all_runs_once() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let engine = house.start([puppet.clone() as _]).await;
        let id = begin(&engine, "puppet", say("go")).await.id;
        let cue = puppet.turn().await;
        begin(&engine, "puppet", say("more").to(id)).await;
        house.shelf().be(Mood::CommitsLate);
        cue.ends(EndState::Completed, "half");
        let cue = puppet.turn().await;
        assert_eq!(cue.heard(), ["more"]);
        cue.ends(EndState::Completed, "done");
        let task = task_when(&engine, id, |task| task.core.is_settled()).await;
        assert_eq!((last_words(&task).as_str(), task.core.starts), ("done", 2));
        assert!(puppet.is_idle().await);
    })
    .await;
}

/// An opening that was reported as refused but happened: its holder finds the turn that it does not run.
#[tokio::test(start_paused = true)]
async fn a_turn_that_is_held_here_and_runs_nowhere_is_taken_up() {
    for (restart, state) in [(Restart::Retry, State::Completed), (Restart::Fail, State::Failed)] {
        let (square, puppet) = (Square::new(), minded(restart));
        let here = square.start(puppet.clone(), quick()).await;
        let there = square.start(puppet.clone(), quick()).await;
        here.shelf.be(Mood::CommitsLate);
        let refused = engine_send(&here.engine, "k").await;
        assert!(matches!(kind(refused), Kind::Unavailable | Kind::Internal));
        assert_eq!(here.shelf.be_late().await, Some(Outcome::Done), "it happens after all");
        // A repeat of the request meanwhile follows the task, on any process.
        let repeated = aside({
            let engine = there.engine.clone();
            async move { engine_send(&engine, "k").await }
        });
        if restart == Restart::Retry {
            puppet.turn().await.ends(EndState::Completed, "done");
        }
        let task = task_of(repeated.await.unwrap());
        assert_eq!(task.state(), state);
        assert_eq!((here.engine.figures().turns_recovered, there.engine.figures().turns_recovered), (1, 0));
        assert!(puppet.is_idle().await);
    }
}

async fn engine_send(engine: &engine::Engine, key: &str) -> Result<engine::SendAnswer, model::Fault> {
    engine.send(&at("puppet"), say("go").keyed(key)).await
}

/// A turn that runs, or is about to, is not mistaken for a stranded one, however often its holder looks.
#[tokio::test(start_paused = true)]
async fn a_turn_that_runs_is_left_alone() {
    let (square, puppet) = (Square::new(), minded(Restart::Retry));
    let here = square.start(puppet.clone(), quick()).await;
    let id = begin(&here.engine, "puppet", say("go")).await.id;
    let cue = puppet.turn().await;
    // The acknowledgement is held back: the turn has begun in the store, but not yet in this process.
    here.shelf.hold_answers(true);
    let late = aside({
        let engine = here.engine.clone();
        async move { task_of(engine.send(&at("puppet"), say("later").soon()).await) }
    });
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert_eq!(here.engine.figures().turns_recovered, 0);
    here.shelf.hold_answers(false);
    let late = late.await.unwrap();
    puppet.turn().await.ends(EndState::Completed, "later");
    cue.ends(EndState::Completed, "done");
    for id in [id, late.id] {
        let task = task_when(&here.engine, id, |task| task.core.is_settled()).await;
        assert_eq!(task.core.starts, 1);
    }
}

/// No conclusion is drawn from a read before the store reports the commit as decided; the waiting caller gets a fault.
#[tokio::test]
async fn a_caller_is_told_that_the_outcome_is_not_known_and_the_work_goes_on() {
    for mood in [Mood::LosesAnswer, Mood::LosesCommit] {
        let (square, puppet) = (Square::new(), Puppet::new());
        let here = square.start(puppet.clone(), quick()).await;
        here.shelf.be_undecided(true);
        here.shelf.be(mood.clone());
        let fault = engine_send(&here.engine, "k").await.unwrap_err();
        assert_eq!((fault.kind, fault.retry_after_s), (Kind::Unavailable, Some(1)));
        assert!(fault.message.contains("Idempotency-Key"), "{}", fault.message);
        here.shelf.be_undecided(false);
        let repeated = aside({
            let engine = here.engine.clone();
            async move { engine_send(&engine, "k").await }
        });
        puppet.turn().await.ends(EndState::Completed, "done");
        assert_eq!(last_words(&task_of(repeated.await.unwrap())), "done");
        assert_eq!(here.engine.health().await.unwrap().tasks, 1);
        assert!(puppet.is_idle().await);
    }
}

/// A check of all loaded tasks does not mistake a task whose opening is undecided for a removed one.
#[tokio::test(start_paused = true)]
async fn a_task_that_is_being_opened_is_not_taken_for_a_removed_one() {
    let (square, puppet) = (Square::new(), Puppet::new());
    let here = square.start(puppet.clone(), quick()).await;
    here.shelf.be_undecided(true);
    here.shelf.be(Mood::CommitsLate);
    assert_eq!(kind(engine_send(&here.engine, "k").await), Kind::Unavailable);
    // After its lease was lost and regained, the process checks all loaded tasks.
    square.come_back(here.member.no);
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    assert_eq!(here.shelf.be_late().await, Some(Outcome::Done));
    here.shelf.be_undecided(false);
    let repeated = aside({
        let engine = here.engine.clone();
        async move { engine_send(&engine, "k").await }
    });
    puppet.turn().await.ends(EndState::Completed, "done");
    assert_eq!(last_words(&task_of(repeated.await.unwrap())), "done");
}

/// Every operation that writes, while the outcome of its commit is undecided.
#[tokio::test]
async fn no_caller_waits_for_a_commit_to_be_decided() {
    let (square, puppet) = (Square::new(), Puppet::new());
    let post = Post::new();
    let here = square.start_post(puppet.clone(), quick(), Some(&post)).await;
    let id = begin(&here.engine, "puppet", say("go")).await.id;
    puppet.turn().await.ends(EndState::InputRequired, "which?");
    task_when(&here.engine, id, |task| task.core.is_at_rest()).await;
    let place = at("puppet");
    for mood in [Mood::LosesAnyCommit, Mood::LosesAnyAnswer] {
        let doubt = || {
            here.shelf.be(mood.clone());
            here.shelf.be_undecided(true);
        };
        let decide = async || {
            here.shelf.be_undecided(false);
            // Returns once the previous holder has released the log.
            get(&here.engine, "puppet", id).await;
        };
        doubt();
        let set = model::PushCall::Create(hook_of(id, "h", "https://hook.example"));
        assert_eq!(kind(here.engine.push(&place, set).await), Kind::Unavailable, "{mood:?}");
        decide().await;
        doubt();
        let told = say("go").telling("https://hook.example").soon();
        assert_eq!(kind(here.engine.send(&place, told).await), Kind::Unavailable, "{mood:?}");
        decide().await;
    }
    for send in [true, false] {
        here.shelf.be(Mood::LosesCommit);
        here.shelf.be_undecided(true);
        let refused = match send {
            true => kind(here.engine.send(&place, say("this").to(id)).await),
            false => kind(cancel(&here.engine, "puppet", id).await),
        };
        assert_eq!(refused, Kind::Unavailable, "send: {send}");
        here.shelf.be_undecided(false);
        get(&here.engine, "puppet", id).await;
    }
}

/// A turn that ends in one commit has no further work, and its caller still gets an answer.
#[tokio::test]
async fn a_turn_in_one_commit_does_not_hang_on_a_commit_in_doubt() {
    let square = Square::new();
    let here = square.start(echo(), quick()).await;
    here.shelf.be_undecided(true);
    here.shelf.be(Mood::LosesAnswer);
    let keyed = || say("hi").keyed("k");
    assert_eq!(kind(here.engine.send(&at("echo"), keyed()).await), Kind::Unavailable);
    here.shelf.be_undecided(false);
    let task = task_of(here.engine.send(&at("echo"), keyed()).await);
    assert_eq!(task.state(), State::Completed);
    assert_eq!(here.engine.health().await.unwrap().tasks, 1);
}
