//! The memory of live tasks: turns that exceed it, and tasks that are loaded for callers.

use futures_util::StreamExt as _;
use futures_util::stream;
use model::ports::agent::EndState;
use model::{Kind, Limits, State, TaskId};

use crate::common::{
    Manners, acting, artifacts, at, begin, cancel, ended, last_words, named, on_both_stores, quick, say, task_of,
    task_when, text_piece, until,
};

const LIVE: usize = 1 << 20;

/// Limits that a few hundred small chunks exceed. Tails are short, so that folds dominate.
fn little() -> Limits {
    Limits { live_bytes: LIVE, tail_bytes: 4 << 10, ..quick() }
}

/// Emits about 400 KB in chunks that stay in the log, and then the given end.
fn hoarder(name: &'static str, last: Option<EndState>) -> std::sync::Arc<dyn model::ports::agent::Agent> {
    acting(name, Manners::default(), move |_| {
        let chunks = stream::iter(0..100).map(|i| text_piece("a", &"x".repeat(4_000), i > 0));
        match last {
            Some(state) => chunks.chain(stream::iter([ended(state, "so much")])).boxed(),
            None => chunks.chain(stream::pending()).boxed(),
        }
    })
}

#[tokio::test]
async fn turns_together_stay_within_the_memory_for_tasks_at_work() {
    on_both_stores(async |mut house| {
        let brief = acting("brief", Manners::default(), |_| {
            stream::iter([text_piece("a", "little", false), ended(EndState::Completed, "done")]).boxed()
        });
        let engine = house.start_with([hoarder("hoarder", None), brief as _], little()).await;
        let mut all: Vec<TaskId> = Vec::new();
        for _ in 0..8 {
            all.push(begin(&engine, "hoarder", say("go")).await.id);
        }
        // Two or three have emitted everything and continue; there is no memory for the others.
        let mut failed = 0;
        for id in &all {
            let task = task_when(&engine, *id, |task| {
                task.core.is_settled() || artifacts(task).first().is_some_and(|text| text.len() == 100 * 4_000)
            });
            let task = task.await;
            if task.state() == State::Failed {
                failed += 1;
                let words = last_words(&task);
                assert!(words.starts_with("the server's memory for tasks at work is used up"), "{words}");
            }
        }
        assert!((4..=7).contains(&failed), "{failed} of 8 failed");
        // Events already emitted may exceed the bound by the uncommitted output of a turn.
        let held = engine.figures().live_bytes as usize;
        assert!(held <= LIVE + 8 * (96 << 10), "{held}");
        let small = task_of(engine.send(&at("brief"), say("hi")).await);
        assert_eq!(small.state(), State::Completed, "a turn that says little is not refused");
        for id in all {
            let _ = cancel(&engine, "hoarder", id).await;
        }
        until(async || engine.figures().live_bytes == 0).await;
    })
    .await;
}

#[tokio::test]
async fn a_task_is_read_for_a_caller_only_while_there_is_room_and_one_always_is() {
    on_both_stores(async |mut house| {
        let engine = house.start_with([hoarder("asks", Some(EndState::InputRequired))], little()).await;
        let mut tasks = Vec::new();
        for _ in 0..3 {
            let task = task_of(engine.send(&at("asks"), say("go")).await);
            assert_eq!(task.state(), State::InputRequired, "{}", last_words(&task));
            tasks.push(task.id);
            drop(task);
            until(async || engine.figures().live_bytes == 0).await;
        }
        let follow = async |id: TaskId| engine.subscribe(&at("asks"), &named(id), None).await;
        let first = follow(tasks[0]).await.unwrap();
        let second = follow(tasks[1]).await.unwrap();
        let refused = follow(tasks[2]).await.err().expect("there is no room for a third");
        assert_eq!((refused.kind, refused.retry_after_s), (Kind::Unavailable, Some(2)));
        drop(second);
        let third = follow(tasks[2]).await.unwrap();
        drop((first, third));
        until(async || engine.figures().live_bytes == 0).await;
        // A task larger than the budget is still loaded if no other is.
        house.kill().await;
        let tiny = Limits { live_bytes: 64 << 10, ..little() };
        let engine = house.start_with([hoarder("asks", Some(EndState::InputRequired))], tiny).await;
        let alone = engine.subscribe(&at("asks"), &named(tasks[0]), None).await;
        assert!(alone.is_ok());
    })
    .await;
}
