//! Several processes on one store: every process shows the same task.

use std::sync::Arc;

use model::ports::agent::{EndState, Restart};
use model::{Kind, Limits, State, TaskId};

use crate::common::{
    Adverbs as _, Cue, Manners, Mood, Post, Process, Puppet, Square, artifacts, at, begin, cancel, echo, get, history,
    hook_of, kind, last_words, log, next_heard, quick, say, subscribe, task_of, task_when, text_piece, until, working,
};

fn minded(restart: Restart) -> Arc<Puppet> {
    Puppet::with(Manners { restart, ..Manners::default() })
}

#[tokio::test]
async fn a_subscriber_here_hears_a_turn_there() {
    let (square, puppet) = (Square::new(), Puppet::new());
    let here = square.start(puppet.clone(), quick()).await;
    let there = square.start(puppet.clone(), quick()).await;
    let id = begin(&there.engine, "puppet", say("go")).await.id;
    let cue = puppet.turn().await;
    let mut stream = subscribe(&here.engine, "puppet", id).await;
    assert_eq!(next_heard(&mut stream).await, "task submitted");
    cue.says(working("one"));
    assert_eq!(next_heard(&mut stream).await, "working: one");
    cue.says(text_piece("a", "two", false));
    assert_eq!(next_heard(&mut stream).await, "art a=two");
    cue.ends(EndState::Completed, "three");
    assert_eq!(next_heard(&mut stream).await, "completed: three.");
    assert_eq!(next_heard(&mut stream).await, "the end");
}

/// Changes without a hint are found by polling.
#[tokio::test(start_paused = true)]
async fn what_no_hint_told_of_is_found_by_looking() {
    let (square, puppet) = (Square::new(), Puppet::new());
    let here = square.start(puppet.clone(), quick()).await;
    let there = square.start(puppet.clone(), quick()).await;
    let id = begin(&there.engine, "puppet", say("go")).await.id;
    let cue = puppet.turn().await;
    let mut stream = subscribe(&here.engine, "puppet", id).await;
    assert_eq!(next_heard(&mut stream).await, "task submitted");
    square.be_silent(true);
    cue.ends(EndState::Completed, "done");
    assert_eq!(next_heard(&mut stream).await, "completed: done.");
}

/// A task shown by one process is found at every other, with or without hints.
#[tokio::test]
async fn a_get_here_is_never_older_than_an_answer_there() {
    let (square, puppet) = (Square::new(), Puppet::new());
    let here = square.start(puppet.clone(), quick()).await;
    let there = square.start(puppet.clone(), quick()).await;
    let id = begin(&there.engine, "puppet", say("go")).await.id;
    // The task is live here, because it has a subscriber.
    let _stream = subscribe(&here.engine, "puppet", id).await;
    square.be_silent(true);
    puppet.turn().await.ends(EndState::Completed, "done");
    task_when(&there.engine, id, |task| task.core.is_settled()).await;
    assert_eq!(last_words(&*get(&here.engine, "puppet", id).await), "done");
    assert_eq!(kind(cancel(&here.engine, "puppet", id).await), Kind::TaskNotCancelable);
}

#[tokio::test]
async fn a_cancel_here_reaches_the_agent_there() {
    let (square, puppet) = (Square::new(), Puppet::new());
    let here = square.start(puppet.clone(), quick()).await;
    let there = square.start(puppet.clone(), Limits { cancel_grace_ms: 60_000, ..quick() }).await;
    let id = begin(&there.engine, "puppet", say("go")).await.id;
    let cue = puppet.turn().await;
    let asked = tokio::spawn({
        let engine = here.engine.clone();
        async move { cancel(&engine, "puppet", id).await }
    });
    cue.cancelled.clone().await;
    cue.ends(EndState::Canceled, "stopped");
    let task = asked.await.unwrap().unwrap();
    assert_eq!((task.state(), last_words(&task).as_str()), (State::Canceled, "stopped"));
}

#[tokio::test]
async fn a_message_here_to_a_turn_there_is_its_next_turn() {
    let (square, puppet) = (Square::new(), Puppet::new());
    let here = square.start(puppet.clone(), quick()).await;
    let there = square.start(puppet.clone(), quick()).await;
    let id = begin(&there.engine, "puppet", say("go")).await.id;
    let cue = puppet.turn().await;
    let said = tokio::spawn({
        let engine = here.engine.clone();
        async move { task_of(engine.send(&at("puppet"), say("more").to(id)).await) }
    });
    task_when(&there.engine, id, |task| task.core.waiting == 1).await;
    cue.ends(EndState::Completed, "first");
    let cue = puppet.turn().await;
    assert_eq!(cue.heard(), ["more"]);
    assert_eq!((here.engine.figures().turns_running, there.engine.figures().turns_running), (0, 1));
    cue.ends(EndState::Completed, "second");
    assert_eq!(last_words(&said.await.unwrap()), "second");
}

/// A conversation can move between processes any number of times.
#[tokio::test]
async fn what_one_asked_is_answered_at_the_other() {
    let (square, puppet) = (Square::new(), Puppet::new());
    let here = square.start(puppet.clone(), quick()).await;
    let there = square.start(puppet.clone(), quick()).await;
    let id = begin(&there.engine, "puppet", say("go")).await.id;
    puppet.turn().await.ends(EndState::InputRequired, "which?");
    for n in 0..6 {
        let (one, other) = if n % 2 == 0 { (&here, &there) } else { (&there, &here) };
        task_when(&one.engine, id, |task| task.core.is_at_rest()).await;
        let sent = tokio::spawn({
            let engine = one.engine.clone();
            async move { task_of(engine.send(&at("puppet"), say(&format!("answer {n}")).to(id)).await) }
        });
        let cue = puppet.turn().await;
        assert_eq!(cue.heard(), [format!("answer {n}")]);
        assert_eq!((one.engine.figures().turns_running, other.engine.figures().turns_running), (1, 0));
        cue.ends(EndState::InputRequired, &format!("question {n}"));
        assert_eq!(last_words(&sent.await.unwrap()), format!("question {n}"));
        until(async || one.engine.figures().turns_running == 0).await;
    }
}

#[tokio::test]
async fn the_turn_of_one_that_died_is_taken_over_once() {
    let (square, puppet) = (Square::new(), minded(Restart::Retry));
    let one = square.start(puppet.clone(), quick()).await;
    let two = square.start(puppet.clone(), quick()).await;
    let dying = square.start(puppet.clone(), quick()).await;
    let (mut ids, mut cues) = (Vec::new(), Vec::new());
    for _ in 0..20 {
        ids.push(begin(&dying.engine, "puppet", say("go")).await.id);
        cues.push(puppet.turn().await);
    }
    dying.kill();
    for _ in &ids {
        let cue = puppet.turn().await;
        assert_eq!(cue.attempt, 2);
        cue.ends(EndState::Completed, "done");
    }
    for id in ids {
        let task = task_when(&one.engine, id, |task| task.core.is_settled()).await;
        assert_eq!(history(&task), ["go", "restarted"]);
    }
    assert!(puppet.is_idle().await);
    assert_eq!(one.engine.figures().turns_recovered + two.engine.figures().turns_recovered, 20);
}

#[tokio::test]
async fn a_turn_whose_agent_may_not_run_twice_fails_at_another() {
    let (square, puppet) = (Square::new(), minded(Restart::Fail));
    let here = square.start(puppet.clone(), quick()).await;
    let dying = square.start(puppet.clone(), quick()).await;
    let id = begin(&dying.engine, "puppet", say("go")).await.id;
    let _cue = puppet.turn().await;
    dying.kill();
    let task = task_when(&here.engine, id, |task| task.core.is_settled()).await;
    assert_eq!(task.state(), State::Failed);
}

/// A process taken for dead was only cut off: its later commits are refused, and its agent is stopped.
#[tokio::test]
async fn one_that_comes_back_finds_its_turn_taken() {
    let (square, puppet) = (Square::new(), minded(Restart::Retry));
    let here = square.start(puppet.clone(), quick()).await;
    let away = square.start(puppet.clone(), quick()).await;
    let (talker, thinker) =
        (begin(&away.engine, "puppet", say("talk")).await.id, begin(&away.engine, "puppet", say("think")).await.id);
    let (old_talk, old_think) = (puppet.turn().await, puppet.turn().await);
    square.be_silent(true);
    square.give_up(away.member.no);
    square.be_silent(false);
    square.give_up(away.member.no);
    let cues = [puppet.turn().await, puppet.turn().await];
    assert!(cues.iter().all(|cue| cue.attempt == 2));
    old_talk.says(working("from the grave"));
    old_talk.cut_off().await;
    square.come_back(away.member.no);
    old_think.cut_off().await;
    for cue in cues {
        cue.ends(EndState::Completed, "done");
    }
    for id in [talker, thinker] {
        let task = task_when(&here.engine, id, |task| task.core.is_settled()).await;
        assert_eq!(last_words(&task), "done");
        assert!(!history(&task).contains(&"from the grave".to_owned()));
        // The attempts of the turn are in order, with no event of the first after the second began.
        assert_eq!(log(&here.engine, id).await.len() as u64, task.seq().0);
    }
    until(async || away.engine.figures().turns_running == 0).await;
}

#[tokio::test]
async fn one_that_drains_hands_its_turns_over() {
    let (square, puppet) = (Square::new(), minded(Restart::Retry));
    let here = square.start(puppet.clone(), quick()).await;
    let leaving = square.start(puppet.clone(), quick()).await;
    let mut stream = leaving.engine.stream(&at("puppet"), say("go")).await.unwrap();
    let id = stream.task;
    let _cue = puppet.turn().await;
    leaving.engine.drain().await;
    assert_eq!(next_heard(&mut stream).await, "task submitted");
    assert_eq!(next_heard(&mut stream).await, "the end");
    let cue = puppet.turn().await;
    assert_eq!(cue.attempt, 2);
    cue.ends(EndState::Completed, "done");
    task_when(&here.engine, id, |task| task.core.is_settled()).await;
}

/// A turn that runs too long is ended by its holder only.
#[tokio::test]
async fn a_timer_fires_once() {
    let (square, puppet) = (Square::new(), Puppet::new());
    let limits = Limits { turn_timeout_ms: 50, ..quick() };
    let here = square.start(puppet.clone(), limits.clone()).await;
    let there = square.start(puppet.clone(), limits).await;
    let id = begin(&there.engine, "puppet", say("go")).await.id;
    let cue = puppet.turn().await;
    cue.cut_off().await;
    let task = task_when(&here.engine, id, |task| task.core.is_settled()).await;
    assert_eq!(task.state(), State::Failed);
    assert!(last_words(&task).contains("did not finish within"), "the holder's words: {}", last_words(&task));
}

#[tokio::test]
async fn the_time_is_the_stores() {
    let (square, ahead) = (Square::new(), 3_600_000);
    let here = square.start(echo(), quick()).await;
    let there = square.start(echo(), quick()).await;
    let before = task_of(here.engine.send(&at("echo"), say("now")).await);
    // This machine's clock is an hour behind the store's.
    there.member.be_ahead(ahead);
    let after = task_of(there.engine.send(&at("echo"), say("then")).await);
    assert!(after.status.at.0 - before.status.at.0 >= ahead);
}

#[tokio::test]
async fn one_alias_is_one_task_wherever_it_is_said() {
    let (square, puppet) = (Square::new(), Puppet::new());
    let here = square.start(puppet.clone(), quick()).await;
    let there = square.start(puppet.clone(), quick()).await;
    let send = |text: &str| model::Send { alias: Some("mine".into()), ..say(text).soon() };
    let first = task_of(here.engine.send(&at("puppet"), send("one")).await);
    let second = task_of(there.engine.send(&at("puppet"), send("two")).await);
    assert_eq!(first.id, second.id);
    assert_eq!(there.engine.get(&at("puppet"), "mine").await.unwrap().id, first.id);
}

async fn configured(process: &Process, id: TaskId, config: &str) {
    let create = model::PushCall::Create(hook_of(id, config, "https://hook"));
    process.engine.push(&at("puppet"), create).await.unwrap();
}

#[tokio::test]
async fn a_config_set_here_is_delivered_from_here_while_the_turn_is_there() {
    let (square, puppet, post) = (Square::new(), Puppet::new(), Post::new());
    let here = square.start_post(puppet.clone(), quick(), Some(&post)).await;
    let elsewhere = Post::new();
    let there = square.start_post(puppet.clone(), quick(), Some(&elsewhere)).await;
    let id = begin(&there.engine, "puppet", say("go")).await.id;
    let cue = puppet.turn().await;
    configured(&here, id, "c").await;
    cue.says(working("one"));
    cue.ends(EndState::Completed, "two");
    assert_eq!(post.said_to("https://hook", "completed: two").await, ["working: one", "completed: two"]);
    until(async || here.engine.figures().push_active == 0).await;
    assert!(elsewhere.sent().is_empty());
}

/// Two processes with a webhook sender each, and a turn that the first one runs.
struct Two {
    here: Process,
    ours: Arc<Post>,
    there: Process,
    theirs: Arc<Post>,
    id: TaskId,
    cue: Cue,
}

impl Two {
    async fn with_a_turn_here() -> Self {
        let (square, puppet) = (Square::new(), Puppet::new());
        let (ours, theirs) = (Post::new(), Post::new());
        let here = square.start_post(puppet.clone(), quick(), Some(&ours)).await;
        let there = square.start_post(puppet.clone(), quick(), Some(&theirs)).await;
        let id = begin(&here.engine, "puppet", say("go")).await.id;
        let cue = puppet.turn().await;
        Self { here, ours, there, theirs, id, cue }
    }
}

#[tokio::test]
async fn the_configs_of_one_that_died_are_delivered_by_another_from_where_it_was() {
    let Two { here, ours, there: dying, theirs, id, cue } = Two::with_a_turn_here().await;
    configured(&dying, id, "c").await;
    cue.says(working("one"));
    theirs.said_to("https://hook", "working: one").await;
    // It has saved its progress.
    until(async || here.engine.store().push(id).await.unwrap()[0].progress.delivered == 1).await;
    theirs.die();
    dying.kill();
    cue.says(working("two"));
    cue.ends(EndState::Completed, "three");
    assert_eq!(ours.said_to("https://hook", "completed: three").await, ["working: two", "completed: three"]);
}

#[tokio::test]
async fn a_config_removed_here_is_no_longer_delivered_there() {
    let Two { here, there, theirs, id, cue, .. } = Two::with_a_turn_here().await;
    configured(&there, id, "c").await;
    configured(&there, id, "kept").await;
    assert_eq!(there.engine.figures().push_active, 2);
    let delete = model::PushCall::Delete { task: id.to_string(), id: "c".into() };
    here.engine.push(&at("puppet"), delete).await.unwrap();
    until(async || there.engine.figures().push_active == 1).await;
    cue.ends(EndState::Completed, "done");
    theirs.said_to("https://hook", "completed: done").await;
    until(async || there.engine.figures().push_active == 0).await;
    assert_eq!(theirs.sent().len(), 1);
}

/// The process asked to deliver again owns the config from then on, and the other drops it.
#[tokio::test]
async fn a_config_delivered_again_here_is_let_go_there() {
    let Two { here, ours, there, theirs, id, cue } = Two::with_a_turn_here().await;
    configured(&there, id, "c").await;
    cue.says(working("one"));
    theirs.said_to("https://hook", "working: one").await;
    let from = log(&here.engine, id).await.last().unwrap().seq;
    assert_eq!(here.engine.redeliver(id, None, Some(from)).await.unwrap(), 1);
    until(async || there.engine.figures().push_active == 0).await;
    cue.ends(EndState::Completed, "two");
    assert_eq!(ours.said_to("https://hook", "completed: two").await, ["working: one", "completed: two"]);
    assert_eq!(theirs.sent().len(), 1);
    until(async || here.engine.store().push(id).await.unwrap()[0].progress.state == model::PushState::Done).await;
}

#[tokio::test]
async fn a_task_removed_here_is_gone_there() {
    let (square, puppet) = (Square::new(), Puppet::new());
    let here = square.start(puppet.clone(), quick()).await;
    let there = square.start(puppet.clone(), quick()).await;
    let mut changes = there.engine.changes();
    let id = begin(&there.engine, "puppet", say("go")).await.id;
    let _cue = puppet.turn().await;
    let mut stream = subscribe(&there.engine, "puppet", id).await;
    assert_eq!(next_heard(&mut stream).await, "task submitted");
    assert!(here.engine.purge(id).await.unwrap());
    // It is cancelled first; a process that reads after the removal sees only the end of the stream.
    let mut heard = next_heard(&mut stream).await;
    if heard == "canceled." {
        heard = next_heard(&mut stream).await;
    }
    assert_eq!(heard, "the end");
    // After its start a process also reports once that it may have missed changes.
    while changes.recv().await.unwrap() != engine::RemoteChange::Removed(id) {}
}

/// A turn waits for an unreachable store without limit and loses nothing.
#[tokio::test(start_paused = true)]
async fn a_turn_waits_for_a_database_that_is_away() {
    let (square, puppet) = (Square::new(), Puppet::new());
    let here = square.start(puppet.clone(), quick()).await;
    let id = begin(&here.engine, "puppet", say("go")).await.id;
    let cue = puppet.turn().await;
    here.shelf.be(Mood::Refuses(model::ports::store::StoreError::Unreachable("a test".into())));
    cue.says(text_piece("a", "kept", false));
    cue.ends(EndState::Completed, "done");
    let refused = here.shelf.refused();
    until(async || here.shelf.refused() > refused + 40).await;
    here.shelf.be(Mood::Fine);
    let task = task_when(&here.engine, id, |task| task.core.is_settled()).await;
    assert_eq!((artifacts(&task), last_words(&task)), (vec!["kept".to_owned()], "done".to_owned()));
}

/// A process without hints drops a purged task and a revoked key.
#[tokio::test(start_paused = true)]
async fn what_was_removed_or_revoked_without_a_hint_is_found_by_its_version() {
    let (square, puppet) = (Square::new(), Puppet::new());
    let here = square.start(puppet.clone(), quick()).await;
    let there = square.start(puppet.clone(), quick()).await;
    let id = begin(&here.engine, "puppet", say("go")).await.id;
    puppet.turn().await.ends(EndState::Completed, "done");
    task_when(&there.engine, id, |task| task.core.is_settled()).await;
    let mut changes = there.engine.changes();
    // Waits for the hint of this removal, so that it cannot be confused with the missed change below.
    assert!(here.engine.purge(id).await.unwrap());
    while changes.recv().await.unwrap() != engine::RemoteChange::Removed(id) {}
    square.be_silent(true);
    let started = tokio::time::Instant::now();
    let key = model::AccessKey {
        id: "k".into(),
        name: "n".into(),
        tenant: "t".into(),
        scopes: Vec::new(),
        hash: [0; 32],
        prefix: "p".into(),
        created_at: model::Time(0),
        expires_at: None,
        revoked_at: Some(model::Time(1)),
    };
    let commit = model::ports::store::Commit { access: vec![key], ..Default::default() };
    assert_eq!(here.engine.store().commit(commit).await, model::ports::store::Outcome::Done);
    while changes.recv().await.unwrap() != engine::RemoteChange::Access {}
    assert!(started.elapsed() < std::time::Duration::from_secs(2));
    let id = begin(&here.engine, "puppet", say("go")).await.id;
    puppet.turn().await.ends(EndState::Completed, "done");
    task_when(&there.engine, id, |task| task.core.is_settled()).await;
    while changes.try_recv().is_ok() {}
    let started = tokio::time::Instant::now();
    assert!(here.engine.purge(id).await.unwrap());
    assert_eq!(changes.recv().await.unwrap(), engine::RemoteChange::Missed);
    assert!(started.elapsed() < std::time::Duration::from_secs(2));
    // No second report follows.
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    assert!(changes.try_recv().is_err());
}

/// A rollout of a new agent reaches some replicas before others.
#[tokio::test]
async fn a_turn_of_an_agent_that_is_not_served_here_is_left_to_those_that_serve_it() {
    let (square, puppet) = (Square::new(), minded(Restart::Retry));
    let old = square.start(echo(), quick()).await;
    let new = square.start(puppet.clone(), quick()).await;
    let id = begin(&new.engine, "puppet", say("go")).await.id;
    let _cut_off = puppet.turn().await;
    // A turn that the old replica does recover, which shows that it has looked.
    let seen = square.start(puppet.clone(), quick()).await;
    new.kill();
    let cue = puppet.turn().await;
    assert_eq!(cue.attempt, 2);
    seen.kill();
    until(async || old.shelf.calls().contains(&"orphans")).await;
    let newest = square.start(puppet.clone(), quick()).await;
    let cue = puppet.turn().await;
    assert_eq!(cue.attempt, 3);
    cue.ends(EndState::Completed, "done");
    let task = task_when(&newest.engine, id, |task| task.core.is_settled()).await;
    assert_eq!((task.state(), old.engine.figures().turns_recovered), (State::Completed, 0));
}
