//! Random interleavings of all operations on one task. For any order: every subscriber's events fold to the final task,
//! sequence numbers only grow, and there is at most one terminal state.

use std::sync::Arc;

use engine::{Engine, Subscription, SubscriptionItem};
use model::ports::agent::{EndState, Restart};
use model::{Body, EventId, Seq, Task, TaskId};
use proptest::prelude::*;

use crate::common::{
    Adverbs, Cue, House, Manners, Puppet, apply_public, aside, at, begin, cancel, log, named, quick, say, text_piece,
    working,
};

#[derive(Clone, Debug)]
enum Move {
    Says(u8),
    Ends(EndState),
    Message,
    Subscribe,
    /// From the event at this many thousandths of the log.
    Resume(u16),
    Cancel,
    /// Yields, so that running work can proceed.
    Breathe(u8),
    Restart,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let end = prop_oneof![
        3 => Just(EndState::Completed),
        3 => Just(EndState::InputRequired),
        1 => Just(EndState::AuthRequired),
        1 => Just(EndState::Failed),
    ];
    let a_move = prop_oneof![
        6 => any::<u8>().prop_map(Move::Says),
        3 => end.prop_map(Move::Ends),
        4 => Just(Move::Message),
        3 => Just(Move::Subscribe),
        3 => (0..1_000_u16).prop_map(Move::Resume),
        1 => Just(Move::Cancel),
        5 => (1..20_u8).prop_map(Move::Breathe),
        1 => Just(Move::Restart),
    ];
    proptest::collection::vec(a_move, 1..60)
}

/// One process and its subscribers.
struct Life {
    engine: Engine,
    id: TaskId,
    listeners: Vec<tokio::task::JoinHandle<Vec<SubscriptionItem>>>,
    calls: Vec<tokio::task::JoinHandle<()>>,
}

impl Life {
    fn listen(&mut self, subscription: Subscription) {
        self.listeners.push(aside(listen(subscription)));
    }
}

/// All items until the stream ends or its process dies.
async fn listen(mut subscription: Subscription) -> Vec<SubscriptionItem> {
    let mut items = Vec::new();
    while let Ok(Some(item)) = tokio::time::timeout(std::time::Duration::from_secs(100), subscription.next()).await {
        items.push(item.unwrap());
    }
    items
}

async fn play(moves: Vec<Move>, tail_bytes: usize) {
    let limits = || model::Limits { tail_bytes, cancel_grace_ms: 10, attempts: 100, ..quick() };
    let mut house = House::memory();
    let puppet = Puppet::with(Manners { restart: Restart::Retry, ..Manners::default() });
    let engine = house.start_with([puppet.clone() as _], limits()).await;
    let id = begin(&engine, "puppet", say("first")).await.id;
    let mut life = Life { engine, id, listeners: Vec::new(), calls: Vec::new() };
    let mut cue: Option<Cue> = None;
    let mut lives: Vec<Vec<tokio::task::JoinHandle<Vec<SubscriptionItem>>>> = Vec::new();
    for a_move in moves {
        while let Some(next) = puppet.turn_if_any().await {
            cue = Some(next);
        }
        match a_move {
            Move::Says(n) => {
                if let Some(cue) = &cue {
                    match n % 4 {
                        0 => cue.says(working(&n.to_string())),
                        _ => cue.says(text_piece(["a", "b"][usize::from(n % 2)], &n.to_string(), n > 40)),
                    }
                }
            }
            Move::Ends(state) => {
                if let Some(cue) = cue.take() {
                    cue.ends(state, "end");
                }
            }
            Move::Message => {
                let (engine, id) = (life.engine.clone(), life.id);
                life.calls.push(aside(async move {
                    let _ = engine.send(&at("puppet"), say("more").to(id)).await;
                }));
            }
            Move::Subscribe => {
                if let Ok(subscription) = life.engine.subscribe(&at("puppet"), &named(id), None).await {
                    life.listen(subscription);
                }
            }
            Move::Resume(place) => {
                let now = life.engine.task(id).await.unwrap().unwrap().seq().0;
                let seq = Seq(1 + (now - 1) * u64::from(place) / 1_000);
                let from = Some(EventId { task: id, seq });
                let subscription = life.engine.subscribe(&at("puppet"), &named(id), from).await.unwrap();
                life.listen(subscription);
            }
            Move::Cancel => {
                let (engine, id) = (life.engine.clone(), life.id);
                life.calls.push(aside(async move {
                    let _ = cancel(&engine, "puppet", id).await;
                }));
            }
            Move::Breathe(n) => {
                for _ in 0..n {
                    tokio::task::yield_now().await;
                }
            }
            Move::Restart => {
                house.kill().await;
                cue = None;
                while puppet.turn_if_any().await.is_some() {}
                lives.push(std::mem::take(&mut life.listeners));
                life.calls.clear();
                life.engine = house.start_with([puppet.clone() as _], limits()).await;
            }
        }
    }
    let last = finish(&life.engine, &puppet, cue, id).await;
    let log = log(&life.engine, id).await;
    let folded = Task::fold(&log).unwrap().unwrap();
    assert_eq!(*last, folded);
    assert!(log.iter().enumerate().all(|(i, event)| event.seq.0 == i as u64 + 1));
    let terminal = log.iter().filter(|event| matches!(&event.body, Body::Status(s) if s.state.is_terminal())).count();
    assert_eq!(terminal, 1);
    for call in life.calls {
        call.await.unwrap();
    }
    for listener in life.listeners {
        assert_heard(&listener.await.unwrap(), &log, true);
    }
    // Subscribers of an earlier process received a part of the log.
    for listener in lives.into_iter().flatten() {
        assert_heard(&listener.await.unwrap(), &log, false);
    }
}

/// Brings the task to an end from any state.
async fn finish(engine: &Engine, puppet: &Arc<Puppet>, mut cue: Option<Cue>, id: TaskId) -> Arc<Task> {
    loop {
        if let Some(next) = puppet.turn_if_any().await {
            cue = Some(next);
        }
        let task = engine.task(id).await.unwrap().unwrap();
        if task.core.is_settled() {
            return task;
        }
        if task.core.is_at_rest() {
            let _ = cancel(engine, "puppet", id).await;
        }
        if let Some(cue) = cue.take() {
            cue.ends(EndState::Completed, "the very end");
        }
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}

fn assert_heard(items: &[SubscriptionItem], log: &[model::Event], to_the_end: bool) {
    let Some(SubscriptionItem::Task(first)) = items.first() else {
        assert!(!to_the_end, "a listener hears of the task first");
        return;
    };
    let from = first.seq().0 as usize;
    assert_eq!(**first, Task::fold(&log[..from]).unwrap().unwrap());
    let told: Vec<&model::Event> = items[1..]
        .iter()
        .map(|item| match item {
            SubscriptionItem::Event { committed, .. } => &committed.event,
            other => panic!("{other:?}"),
        })
        .collect();
    let public: Vec<&model::Event> = log[from..].iter().filter(|event| event.body.is_public()).collect();
    if to_the_end {
        assert_eq!(told, public);
        let mut folded = (**first).clone();
        told.iter().for_each(|event| apply_public(&mut folded, event));
        let last = Task::fold(log).unwrap().unwrap();
        assert_eq!((folded.status, folded.artifacts), (last.status, last.artifacts));
    } else {
        assert_eq!(told[..], public[..told.len()]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn whatever_the_order_everybody_hears_the_truth(moves in moves(), tail_bytes in prop_oneof![Just(300_usize), Just(1 << 18)]) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(play(moves, tail_bytes));
    }
}
