//! Misbehaving agents.

use futures_util::StreamExt as _;
use model::State;
use model::ports::agent::EndState;

use crate::common::{
    Manners, acting, artifacts, at, ended, get, history, last_words, on_both_stores, say, scripted, task_of,
    text_piece, working,
};

#[tokio::test]
async fn an_agent_that_panics_has_failed_and_takes_nobody_with_it() {
    on_both_stores(async |mut house| {
        for idempotent in [false, true] {
            let manners = Manners { idempotent, ..Manners::default() };
            let at_once = acting("at-once", manners, |_| panic!("as a test"));
            let later = acting("later", manners, |_| {
                let words = futures_util::stream::iter([working("on it"), text_piece("a", "half", false)]);
                words.chain(futures_util::stream::once(async { panic!("as a test") })).boxed()
            });
            let engine = house.start([at_once as _, later as _, scripted()]).await;
            let task = task_of(engine.send(&at("at-once"), say("go")).await);
            assert_eq!(task.state(), State::Failed);
            assert!(!last_words(&task).is_empty());
            let task = task_of(engine.send(&at("later"), say("go")).await);
            assert_eq!((task.state(), artifacts(&task)), (State::Failed, vec!["half".to_owned()]));
            assert_eq!(last_words(&task), "the agent failed unexpectedly");
            assert_eq!(task_of(engine.send(&at("scripted"), say("hi")).await).state(), State::Completed);
            crate::common::until(async || engine.figures().turns_running == 0).await;
            house.kill().await;
        }
    })
    .await;
}

/// Panics when dropped.
struct PanicsOnDrop;

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("as a test");
        }
    }
}

#[tokio::test]
async fn an_agent_that_panics_when_its_turn_is_over_has_failed_and_can_be_asked_again() {
    on_both_stores(async |mut house| {
        let agent = acting("panics", Manners::default(), |_| {
            let guard = PanicsOnDrop;
            let words = [working("on it"), ended(EndState::Completed, "done")];
            futures_util::stream::iter(words).inspect(move |_| _ = &guard).boxed()
        });
        let engine = house.start([agent as _, scripted()]).await;
        for _ in 0..2 {
            let task = task_of(engine.send(&at("panics"), say("go")).await);
            assert_eq!(task.state(), State::Failed);
            assert!(!last_words(&task).is_empty());
        }
        assert_eq!(task_of(engine.send(&at("scripted"), say("hi")).await).state(), State::Completed);
        crate::common::until(async || engine.figures().turns_running == 0).await;
    })
    .await;
}

#[tokio::test]
async fn an_agent_that_goes_on_after_its_end_is_not_heard() {
    on_both_stores(async |mut house| {
        let agent = acting("babbler", Manners::default(), |_| {
            let words =
                [working("one"), ended(EndState::Completed, "done"), working("two"), ended(EndState::Failed, "or not")];
            futures_util::stream::iter(words).boxed()
        });
        let engine = house.start([agent as _]).await;
        let task = task_of(engine.send(&at("babbler"), say("go")).await);
        assert_eq!((task.state(), last_words(&task).as_str()), (State::Completed, "done"));
        assert_eq!(history(&task), ["go", "one"]);
        assert_eq!(get(&engine, "babbler", task.id).await, task);
    })
    .await;
}

#[tokio::test]
async fn an_agent_that_says_nothing_has_done_what_it_was_asked() {
    on_both_stores(async |mut house| {
        for idempotent in [false, true] {
            let manners = Manners { idempotent, ..Manners::default() };
            let agent = acting("silent", manners, |_| futures_util::stream::empty().boxed());
            let engine = house.start([agent as _]).await;
            assert_eq!(task_of(engine.send(&at("silent"), say("go")).await).state(), State::Completed);
            house.kill().await;
        }
    })
    .await;
}

#[tokio::test]
async fn the_first_chunk_of_an_artifact_is_its_beginning_whatever_the_agent_says() {
    on_both_stores(async |mut house| {
        let agent = acting("hasty", Manners::default(), |_| {
            let words = [text_piece("a", "1", true), text_piece("b", "2", true), text_piece("a", "3", true)];
            futures_util::stream::iter(words).boxed()
        });
        let engine = house.start([agent as _]).await;
        assert_eq!(artifacts(&task_of(engine.send(&at("hasty"), say("go")).await)), ["13", "2"]);
    })
    .await;
}
