//! A task whose background work fails delays no other, and operators see it.

use engine::Chore;
use model::ports::agent::Restart;
use model::{Limits, State, TaskId};

use crate::common::{
    Adverbs, Manners, Play, Post, Puppet, begin, echo, last_words, on_both_stores, quick, say, task_of, task_when,
    until,
};

fn chores(engine: &engine::Engine, task: TaskId) -> Vec<Chore> {
    let mut chores: Vec<Chore> =
        engine.setbacks(100).into_iter().filter(|setback| setback.task == task).map(|setback| setback.chore).collect();
    chores.sort_unstable();
    chores
}

/// Timers fire in the order they are due, and the first belongs to a log that cannot be read.
#[tokio::test]
async fn one_unreadable_log_stops_no_other_timer_and_no_other_turn() {
    on_both_stores(async |mut house| {
        let limits = Limits { turn_timeout_ms: 300, ..quick() };
        let puppet = Puppet::with(Manners { restart: Restart::Retry, ..Manners::default() });
        let engine = house.start_with([puppet.clone() as _], limits.clone()).await;
        let damaged = begin(&engine, "puppet", say("first")).await.id;
        let _first = puppet.turn().await;
        let sound = begin(&engine, "puppet", say("second")).await.id;
        let _second = puppet.turn().await;
        house.kill().await;
        let shelf = house.open();
        shelf.damage(damaged);
        let agents = vec![puppet.clone() as _];
        let engine = engine::Engine::builder(shelf.clone()).agents(agents).limits(limits).start().await.unwrap();
        // The other task's turn is recovered, and times out, in spite of the damaged one.
        let _again = puppet.turn().await;
        let task = task_when(&engine, sound, |task| task.core.is_settled()).await;
        assert_eq!(task.state(), State::Failed);
        assert!(last_words(&task).contains("did not finish within"), "{}", last_words(&task));
        until(async || chores(&engine, damaged) == [Chore::Timer, Chore::Recovery]).await;
        assert_eq!(engine.figures().tasks_set_back, 2);
        let [setback, ..] = &engine.setbacks(1)[..] else { panic!("one is told") };
        assert!(setback.cause.contains("a log that is no log") && setback.attempts >= 1, "{setback:?}");
        assert!(chores(&engine, sound).is_empty());
        // Its timer is postponed in the store, so that it does not block another process either.
        let now = model::Time(jiff_now() + 1_000);
        assert_eq!(shelf.inner().due(now, 10).await.unwrap(), []);
        // A removed task is no longer reported.
        shelf.mend(damaged);
        assert!(engine.purge(damaged).await.unwrap());
        assert_eq!(engine.setbacks(10), []);
    })
    .await;
}

fn jiff_now() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap();
    now.as_millis() as i64
}

#[tokio::test]
async fn the_webhook_of_an_unreadable_log_waits_and_the_others_are_delivered() {
    on_both_stores(async |mut house| {
        let post = Post::with(|_| Play::Held);
        let engine = house.start_post([echo()], &post, quick()).await;
        let place = crate::common::at("echo");
        let damaged = task_of(engine.send(&place, say("one").telling("https://one.example/")).await).id;
        let sound = task_of(engine.send(&place, say("two").telling("https://two.example/")).await).id;
        post.die();
        house.kill().await;
        let (shelf, post) = (house.open(), Post::new());
        shelf.damage(damaged);
        let courier = Some(post.clone() as _);
        let engine = engine::Engine::builder(shelf.clone())
            .agents(vec![echo()])
            .limits(quick())
            .webhook_sender(courier)
            .start()
            .await
            .unwrap();
        post.said_to("https://two.example/", "completed").await;
        until(async || chores(&engine, damaged) == [Chore::Webhook]).await;
        assert!(chores(&engine, sound).is_empty());
        assert!(post.sent().iter().all(|sent| sent.task == sound));
    })
    .await;
}
