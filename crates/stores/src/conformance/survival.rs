//! Data that outlives the process. Stores without files pass what they can.

use model::ports::store::{BlobWrite, Commit, Conflict, KeyUse, Outcome, StoreError, Timer, TimerChange, TimerKind};
use model::{Epoch, PushChange, PushProgress, PushRow, PushState, Seq, State};

use super::Factory;
use super::kit::{Say, at, commit, conflict, done, has, id, more, open, opening, put, query, total, walk};

pub(super) async fn after_reopening_everything_is_there(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = id();
    let timer = Timer { task, kind: TimerKind::TurnTimeout, due: at(9) };
    let used = KeyUse { key: [1; 32], body: [2; 32], task, seq: Seq(2), at: at(3) };
    let config = PushRow {
        task,
        id: "config".into(),
        edition: u64::MAX - 5,
        epoch: Epoch(2),
        spec: "sealed".into(),
        made_at: at(4),
        progress: PushProgress::from(Seq(2), at(4)),
    };
    let everything = Commit {
        appends: vec![opening(task, 3).epoch(1).within("c")],
        guards: Vec::new(),
        keys: vec![used],
        aliases: Vec::new(),
        access: Vec::new(),
        timers: vec![TimerChange::Set(timer)],
        blobs: vec![BlobWrite { tenant: "t".into(), task, hash: [3; 32], bytes: "blob".into() }],
        push: vec![PushChange::Put(config.clone())],
        // These have cases of their own.
        records: Vec::new(),
        entries: Vec::new(),
        texts: Vec::new(),
    };
    done(&store, everything).await;
    // Chunks after the last status do not change the row.
    put(&store, more(task, 3, 4).epoch(1)).await;
    for n in 0..30 {
        open(&store, |a| a.within("c").is(State::Completed, at(n))).await;
    }
    let (listed, health) = (walk(&store, &query(7)).await, store.health().await.unwrap());
    let Some(store) = factory.reopen(store).await else { return };
    has(&store, task, 7).await;
    assert_eq!(walk(&store, &query(7)).await, listed);
    let mut in_context = query(1);
    in_context.context = Some("c".into());
    assert_eq!(total(&store, &in_context).await, 31);
    assert_eq!(store.key([1; 32], at(0)).await.unwrap(), Some(used));
    assert_eq!(store.due(at(9), 5).await.unwrap(), [timer]);
    assert_eq!(store.blob("t".into(), [3; 32]).await.unwrap().unwrap(), "blob");
    assert_eq!(store.push(task).await.unwrap(), std::slice::from_ref(&config));
    assert_eq!(store.pushes(PushState::Active, None, 5).await.unwrap(), [config]);
    assert_eq!(store.unfinished(None, 5).await.unwrap(), [(task, Epoch(1))]);
    let again = store.health().await.unwrap();
    assert_eq!((again.tasks, again.events_rows, again.states), (health.tasks, health.events_rows, health.states));
    assert_eq!((again.push_active, again.push_dead), (1, 0));
    // And it goes on where it stopped.
    assert_eq!(conflict(store.commit(commit([more(task, 3, 1)])).await), Conflict::Seq(task, Seq(7)));
    put(&store, more(task, 7, 1)).await;
    open(&store, |a| a).await;
}

pub(super) async fn after_reopening_the_epoch_is_higher(factory: &dyn Factory) {
    let mut store = factory.open().await;
    for _ in 0..3 {
        let before = store.epoch();
        assert!(before > Epoch(0));
        let Some(again) = factory.reopen(store).await else { return };
        assert!(again.epoch() > before);
        store = again;
    }
}

pub(super) async fn after_reopening_an_old_holder_is_refused(factory: &dyn Factory) {
    let store = factory.open().await;
    let old = store.epoch().0;
    let task = open(&store, |a| a.epoch(old)).await;
    let Some(store) = factory.reopen(store).await else { return };
    let new = store.epoch().0;
    put(&store, more(task, 1, 1).epoch(new)).await;
    let outcome = store.commit(commit([more(task, 2, 1).epoch(old)])).await;
    assert_eq!(conflict(outcome), Conflict::Epoch(task, Epoch(new)));
}

pub(super) async fn what_was_queued_at_close_is_there(factory: &dyn Factory) {
    let store = factory.open().await;
    let tasks: Vec<_> = (0..500).map(|_| id()).collect();
    let asked: Vec<_> = tasks.iter().map(|task| store.commit(commit([opening(*task, 1)]))).collect();
    let Some(store) = factory.reopen(store).await else { return };
    for (task, asked) in tasks.into_iter().zip(asked) {
        assert_eq!(asked.await, Outcome::Done);
        has(&store, task, 1).await;
    }
}

pub(super) async fn health_counts_what_is_there(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = open(&store, |a| a).await;
    put(&store, more(task, 1, 5)).await;
    open(&store, |a| a.is(State::Completed, at(1))).await;
    open(&store, |a| a.is(State::Completed, at(2))).await;
    let health = store.health().await.unwrap();
    assert_eq!((health.tasks, health.running, health.events_rows), (3, 1, 4));
    assert_eq!(health.states, [(State::Working, 1), (State::Completed, 2)]);
    assert_eq!((health.trouble, health.epoch), (None, store.epoch().0));
}

/// A store without files refuses a backup and says how to make one.
pub(super) async fn a_backup_is_a_whole_store(factory: &dyn Factory) {
    let store = factory.open().await;
    let folder = std::env::temp_dir().join(format!("rialto-backup-{}", id()));
    std::fs::create_dir_all(&folder).unwrap();
    for n in 0..100 {
        open(&store, |a| a.is(State::Completed, at(n))).await;
    }
    let to = folder.join("backup");
    if factory.keeps_files() {
        store.backup(to.clone()).await.unwrap();
        assert!(std::fs::metadata(&to).unwrap().len() > 0);
        // It is never written over.
        assert!(store.backup(to.clone()).await.is_err());
        assert!(std::fs::metadata(&to).unwrap().len() > 0);
    } else {
        let trouble = store.backup(to.clone()).await.unwrap_err();
        assert!(matches!(&trouble, StoreError::Broken(text) if !text.is_empty()), "{trouble:?}");
        assert!(!to.exists());
    }
    open(&store, |a| a).await;
    std::fs::remove_dir_all(&folder).unwrap();
}
