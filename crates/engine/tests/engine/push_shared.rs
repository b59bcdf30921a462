//! Webhooks of several processes on one store: whichever process leaves, dies or resumes late, deliveries of a config
//! are in order, and none goes back behind the saved progress.

use std::collections::HashMap;
use std::sync::Arc;

use model::limits::PushLimits;
use model::ports::agent::EndState;
use model::ports::store::StoreError;
use model::ports::webhook::WebhookOutcome;
use model::{Limits, PushState, TaskId};

use crate::common::{
    Adverbs as _, Cue, Mood, Play, Post, Process, Puppet, Square, at, begin, echo, hook_of, quick, say, scripted,
    task_of, until, working,
};

/// Deliveries as they arrived, by URL.
fn arrived(post: &Post) -> HashMap<String, Vec<u64>> {
    let mut arrived: HashMap<String, Vec<u64>> = HashMap::new();
    for sent in post.sent() {
        arrived.entry(sent.url).or_default().push(sent.seq);
    }
    arrived
}

async fn is_done(process: &Process, task: TaskId) -> bool {
    let rows = process.engine.store().push(task).await.unwrap();
    rows.iter().all(|row| row.progress.state == PushState::Done)
}

/// A config that a process has finished is active in the store until its progress is saved.
#[tokio::test]
async fn what_a_process_has_just_finished_it_does_not_take_up_again() {
    let (square, post, elsewhere) = (Square::new(), Post::new(), Post::new());
    let here = square.start_post(echo(), quick(), Some(&post)).await;
    let other = square.start_post(echo(), quick(), Some(&elsewhere)).await;
    let mut tasks = Vec::new();
    for n in 0..20 {
        let url = format!("https://hook/{n}");
        tasks.push(task_of(here.engine.send(&at("echo"), say("hi").telling(&url)).await).id);
        post.said_to(&url, "completed").await;
        square.give_up(other.member.no);
    }
    for task in tasks {
        until(async || is_done(&here, task).await).await;
    }
    until(async || here.engine.figures().push_active == 0).await;
    for (url, seqs) in arrived(&post) {
        assert!(seqs.is_sorted_by(|a, b| a < b), "{url}: {seqs:?}");
    }
}

/// Two processes with one webhook sender, of which the second delivers a config, and a third that runs the turn.
struct Pair {
    square: Arc<Square>,
    _home: Process,
    here: Process,
    away: Process,
    post: Arc<Post>,
    id: TaskId,
    cue: Cue,
}

impl Pair {
    async fn with(post: Arc<Post>) -> Pair {
        let (square, puppet) = (Square::new(), Puppet::new());
        let here = square.start_post(puppet.clone(), quick(), Some(&post)).await;
        let away = square.start_post(puppet.clone(), quick(), Some(&post)).await;
        let home = square.start(puppet.clone(), quick()).await;
        let id = begin(&home.engine, "puppet", say("go")).await.id;
        let cue = puppet.turn().await;
        let create = model::PushCall::Create(hook_of(id, "c", "https://hook"));
        away.engine.push(&at("puppet"), create).await.unwrap();
        Pair { square, _home: home, here, away, post, id, cue }
    }
}

/// Only the delivery in flight is sent before the process finds its config taken over.
#[tokio::test]
async fn a_process_that_was_away_sends_nothing_between_anothers_letters() {
    let mut first = true;
    let post =
        Post::with(move |_| if std::mem::take(&mut first) { Play::Held } else { Play::Now(WebhookOutcome::Taken) });
    let Pair { square, here, away, post, id, cue, .. } = Pair::with(post).await;
    cue.says(working("one"));
    post.sent_at_least(1).await;
    square.give_up(away.member.no);
    post.sent_at_least(2).await;
    cue.says(working("two"));
    cue.ends(EndState::Completed, "three");
    post.said_to("https://hook", "completed: three").await;
    until(async || is_done(&here, id).await).await;
    post.release();
    until(async || away.engine.figures().push_active == 0).await;
    let said: Vec<String> = post.sent().into_iter().map(|sent| sent.said).collect();
    assert_eq!(said, ["working: one", "working: one", "working: two", "completed: three"]);
    assert!(is_done(&here, id).await);
}

/// By its own clock it knows that others may have taken over, before it can query the store.
#[tokio::test]
async fn a_process_whose_lease_ran_out_begins_no_letter_until_it_has_asked() {
    let Pair { square, here, away, post, id, cue, .. } = Pair::with(Post::new()).await;
    cue.says(working("one"));
    post.said_to("https://hook", "working: one").await;
    square.lapse(away.member.no);
    until(async || here.engine.figures().push_active == 1).await;
    cue.says(working("two"));
    post.said_to("https://hook", "working: two").await;
    // The other process ends, and the config comes back with its progress.
    square.come_back(away.member.no);
    until(async || away.engine.figures().push_active == 0).await;
    square.lapse(here.member.no);
    until(async || away.engine.figures().push_active == 1).await;
    cue.says(working("three"));
    post.said_to("https://hook", "working: three").await;
    square.come_back(here.member.no);
    cue.ends(EndState::Completed, "four");
    post.said_to("https://hook", "completed: four").await;
    until(async || is_done(&here, id).await).await;
    let said: Vec<String> = post.sent().into_iter().map(|sent| sent.said).collect();
    assert_eq!(said, ["working: one", "working: two", "working: three", "completed: four"]);
}

/// A crash repeats the delivery in flight, and not those before it.
#[tokio::test]
async fn a_crash_repeats_at_most_the_letter_in_flight() {
    let post = Post::with(|sent| match sent.said.as_str() {
        "working: 7" => Play::Held,
        _ => Play::Now(WebhookOutcome::Taken),
    });
    let Pair { away, post, cue, .. } = Pair::with(post).await;
    for n in 0..8 {
        cue.says(working(&n.to_string()));
    }
    post.said_to("https://hook", "working: 7").await;
    post.plays(|_| Play::Now(WebhookOutcome::Taken));
    away.kill();
    cue.ends(EndState::Completed, "done");
    post.said_to("https://hook", "completed: done").await;
    let said: Vec<String> = post.sent().into_iter().map(|sent| sent.said).collect();
    let mut expected: Vec<String> = (0..8).map(|n| format!("working: {n}")).collect();
    expected.extend(["working: 7".into(), "completed: done".into()]);
    assert_eq!(said, expected);
}

/// A config that another process removed or set anew is dropped, even without a hint.
#[tokio::test(start_paused = true)]
async fn a_config_removed_elsewhere_is_let_go_of_without_a_hint() {
    let Pair { square, here, away, post, id, cue, .. } = Pair::with(Post::new()).await;
    cue.says(working("one"));
    post.said_to("https://hook", "working: one").await;
    square.be_silent(true);
    let delete = model::PushCall::Delete { task: id.to_string(), id: "c".into() };
    here.engine.push(&at("puppet"), delete).await.unwrap();
    until(async || away.engine.figures().push_active == 0).await;
    cue.ends(EndState::Completed, "two");
    until(async || here.engine.task(id).await.unwrap().unwrap().core.is_settled()).await;
    assert_eq!(post.sent().len(), 1);
}

/// A delivery whose progress could not be saved before another process took its config over gives its slot back.
#[tokio::test(start_paused = true)]
async fn a_config_that_is_lost_before_its_progress_is_kept_occupies_no_slot() {
    let (square, post) = (Square::new(), Post::with(|_| Play::Held));
    let push = PushLimits { deliveries_per_endpoint: 1, ..PushLimits::default() };
    let limits = Limits { push, ..quick() };
    let away = square.start_post(scripted(), limits, Some(&post)).await;
    begin(&away.engine, "scripted", say("complete").telling("https://hook/one")).await;
    post.sent_at_least(1).await;
    post.plays(|_| Play::Now(WebhookOutcome::Taken));
    away.shelf.be(Mood::Refuses(StoreError::Full));
    post.release();
    until(async || away.shelf.refused() > 1).await;
    square.lapse(away.member.no);
    let here = square.start_post(scripted(), quick(), Some(&post)).await;
    square.come_back(away.member.no);
    until(async || away.engine.figures().push_active == 0).await;
    away.shelf.be(Mood::Fine);
    let task = begin(&away.engine, "scripted", say("complete").telling("https://hook/two")).await.id;
    soon(post.said_to("https://hook/two", "completed: done")).await;
    soon(until(async || is_done(&here, task).await)).await;
}

/// Two hours ahead.
const AHEAD_MS: i64 = 2 * 3_600_000;

/// Processes with different clocks deliver each other's configs without waiting for the later clock.
#[tokio::test]
async fn a_config_of_a_process_whose_clock_is_ahead_is_delivered_at_once() {
    let (square, puppet, post) = (Square::new(), Puppet::new(), Post::new());
    let here = square.start_post(puppet.clone(), quick(), Some(&post)).await;
    let away = square.start_post(puppet.clone(), quick(), Some(&post)).await;
    let id = begin(&here.engine, "puppet", say("go")).await.id;
    let cue = puppet.turn().await;
    away.member.be_ahead(AHEAD_MS);
    let create = model::PushCall::Create(hook_of(id, "c", "https://hook"));
    away.engine.push(&at("puppet"), create).await.unwrap();
    square.lapse(away.member.no);
    until(async || here.engine.figures().push_active == 1).await;
    cue.ends(EndState::Completed, "done");
    soon(post.said_to("https://hook", "completed: done")).await;
}

/// A retry waits for its delay, not for a clock that is set back.
#[tokio::test]
async fn an_attempt_that_waits_is_made_when_the_clock_is_set_back() {
    let mut first = true;
    let post = Post::with(move |_| {
        Play::Now(if std::mem::take(&mut first) { crate::common::failed("no") } else { WebhookOutcome::Taken })
    });
    let square = Square::new();
    let here = square.start_post(echo(), quick(), Some(&post)).await;
    here.member.be_ahead(AHEAD_MS);
    let task = task_of(here.engine.send(&at("echo"), say("hi").telling("https://hook")).await).id;
    until(async || here.engine.figures().push_failed == 1).await;
    here.member.be_ahead(0);
    soon(post.said_to("https://hook", "completed")).await;
    soon(until(async || is_done(&here, task).await)).await;
}

/// Fails instead of waiting for hours, or for ever.
async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(std::time::Duration::from_secs(60), work).await.expect("it waits too long")
}

/// A small generator, so that a seed determines the whole case.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// Leases expire and are regained, processes die and join, hints are lost: every event arrives, in order, and a fault
/// repeats no more than the delivery it interrupted.
#[tokio::test]
async fn whatever_leaves_or_wakes_up_letters_stay_in_order() {
    let seed = std::env::var("RIALTO_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| uuid::Uuid::now_v7().as_u64_pair().1);
    eprintln!("RIALTO_SEED={seed}");
    let (mut dice, square, post) = (Dice(seed), Square::new(), Post::new());
    let mut processes = Vec::new();
    for _ in 0..3 {
        processes.push(square.start_post(scripted(), quick(), Some(&post)).await);
    }
    let mut tasks: HashMap<String, (TaskId, u64)> = HashMap::new();
    let (mut faults, mut asleep) = (0, Vec::new());
    for n in 0..150 {
        let url = format!("https://host{}/{n}", dice.roll(3));
        let at_work = &processes[dice.roll(processes.len() as u64) as usize];
        let text = ["chunks:5", "complete"][dice.roll(2) as usize];
        let task = task_of(at_work.engine.send(&at("scripted"), say(text).telling(&url)).await);
        tasks.insert(url, (task.id, task.seq().0));
        square.be_silent(dice.roll(4) == 0);
        match dice.roll(6) {
            0 if asleep.len() < 2 => {
                let no = at_work.member.no;
                square.lapse(no);
                asleep.push(no);
                faults += 1;
            }
            1 | 2 => asleep.drain(..).for_each(|no| square.come_back(no)),
            3 if dice.roll(4) == 0 && asleep.is_empty() => {
                let gone = processes.remove(dice.roll(3) as usize);
                gone.engine.drain().await;
                faults += 1;
                processes.push(square.start_post(scripted(), quick(), Some(&post)).await);
            }
            _ => {}
        }
    }
    square.be_silent(false);
    asleep.into_iter().for_each(|no| square.come_back(no));
    // Processes that missed the hint of an ended process get one now.
    square.give_up(0);
    for (task, _) in tasks.values() {
        until(async || is_done(&processes[0], *task).await).await;
    }
    for (url, seqs) in arrived(&post) {
        assert!(seqs.is_sorted(), "{url}: {seqs:?}");
        let once: std::collections::BTreeSet<u64> = seqs.iter().copied().collect();
        assert_eq!((once.first(), once.last()), (Some(&1), Some(&tasks[&url].1)), "{url}: {seqs:?}");
        assert!(seqs.len() - once.len() <= faults, "{url}: {seqs:?}");
    }
}
