//! Push configs: made, replaced and moved with a commit, walked by state, gone with their task.

use std::sync::Arc;

use model::ports::store::{Commit, Conflict};
use model::{Epoch, PushChange, PushProgress, PushRow, PushStanding, PushState, Seq, State, TaskId};
use uuid::Uuid;

use super::Factory;
use super::kit::{DynStore, Say, at, commit, conflict, done, has, id, more, open, opening};

/// An active config of edition 1, with nothing delivered.
fn config(task: TaskId, id: &str) -> PushRow {
    PushRow {
        task,
        id: id.into(),
        edition: 1,
        epoch: Epoch(3),
        spec: format!("sealed {id}").into(),
        made_at: at(1),
        progress: PushProgress::from(Seq(1), at(1)),
    }
}

/// As far as it may come: every member that can be there is.
fn far(state: PushState, next: u64) -> PushProgress {
    PushProgress {
        state,
        next: Seq(next),
        due: at(70),
        attempts: 7,
        failing_since: Some(at(60)),
        delivered: next - 1,
        delivered_at: Some(at(50)),
        trouble: Some("503 Service Unavailable".into()),
    }
}

fn moved(row: &PushRow, progress: &PushProgress) -> PushChange {
    let (task, id, progress) = (row.task, row.id.clone(), progress.clone());
    PushChange::Moved { task, id, edition: row.edition, epoch: row.epoch, progress }
}

fn set_back(row: &PushRow, progress: &PushProgress) -> PushChange {
    PushChange::SetBack { task: row.task, id: row.id.clone(), edition: row.edition, progress: progress.clone() }
}

fn remove(row: &PushRow) -> PushChange {
    PushChange::Remove { task: row.task, id: row.id.clone() }
}

fn over(row: &PushRow) -> PushChange {
    PushChange::Over { task: row.task, id: row.id.clone(), edition: row.edition, epoch: row.epoch }
}

fn only(push: impl IntoIterator<Item = PushChange>) -> Commit {
    Commit { push: push.into_iter().collect(), ..Commit::default() }
}

async fn put(store: &DynStore, rows: &[PushRow]) {
    done(store, only(rows.iter().cloned().map(PushChange::Put))).await;
}

/// Puts a config and moves it to this state.
async fn put_in(store: &DynStore, state: PushState, task: TaskId, id: &str) -> PushRow {
    let row = config(task, id);
    put(store, std::slice::from_ref(&row)).await;
    let progress = far(state, 2);
    done(store, only([moved(&row, &progress)])).await;
    PushRow { progress, ..row }
}

async fn of(store: &DynStore, task: TaskId) -> Vec<PushRow> {
    store.push(task).await.unwrap()
}

/// All of a state, page by page.
async fn walk(store: &DynStore, state: PushState, limit: usize) -> Vec<PushRow> {
    let mut found: Vec<PushRow> = Vec::new();
    loop {
        let after = found.last().map(|row| (row.task, row.id.clone()));
        let page = store.pushes(state, after, limit).await.unwrap();
        assert!(page.len() <= limit);
        if page.is_empty() {
            return found;
        }
        found.extend(page);
    }
}

async fn counts(store: &DynStore) -> (u64, u64) {
    let health = store.health().await.unwrap();
    (health.push_active, health.push_dead)
}

pub(super) async fn configs_are_kept_and_listed_oldest_first(factory: &dyn Factory) {
    let store = factory.open().await;
    let (task, other) = (open(&store, |a| a).await, open(&store, |a| a).await);
    assert_eq!(of(&store, task).await, []);
    let rows = ["m", "z", "a", "M"].map(|id| config(task, id));
    put(&store, &rows[..2]).await;
    put(&store, &[config(other, "m")]).await;
    put(&store, &rows[2..]).await;
    assert_eq!(of(&store, task).await, rows);
    assert_eq!(of(&store, other).await, [config(other, "m")]);
    assert_eq!(of(&store, id()).await, []);
}

pub(super) async fn a_config_comes_back_as_it_was_put(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = open(&store, |a| a).await;
    let rows = [
        PushRow { edition: u64::MAX, spec: vec![0, 255, 10, 39].into(), ..config(task, "edge") },
        PushRow { edition: 1 << 63, spec: vec![7; 100_000].into(), ..config(task, "large") },
        PushRow { edition: 0, spec: Vec::new().into(), ..config(task, "") },
        PushRow { progress: far(PushState::Dead, 90), ..config(task, "naïve 🌉\0'\"%") },
        PushRow { progress: PushProgress { due: at(-1 << 50), ..far(PushState::Done, 1) }, ..config(task, "done") },
    ];
    put(&store, &rows).await;
    assert_eq!(of(&store, task).await, rows);
    // In each edition, progress finds its way.
    let progress = far(PushState::Active, 1 << 40);
    done(&store, only(rows.iter().map(|row| moved(row, &progress)))).await;
    let rows = rows.map(|row| PushRow { progress: progress.clone(), ..row });
    assert_eq!(of(&store, task).await, rows);
}

pub(super) async fn a_config_of_the_same_id_takes_the_place_of_the_earlier_one(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = open(&store, |a| a).await;
    let (first, second) = (config(task, "a"), config(task, "b"));
    put(&store, &[first.clone(), second.clone()]).await;
    done(&store, only([moved(&first, &far(PushState::Dead, 5))])).await;
    let anew = PushRow { edition: 2, spec: "another".into(), made_at: at(9), ..first };
    put(&store, std::slice::from_ref(&anew)).await;
    // It counts as made anew: it is the youngest, with nothing delivered.
    assert_eq!(of(&store, task).await, [second.clone(), anew.clone()]);
    assert_eq!(walk(&store, PushState::Active, 10).await, [anew.clone(), second.clone()]);
    assert_eq!(walk(&store, PushState::Dead, 10).await, []);
    assert_eq!(counts(&store).await, (2, 0));
    // The youngest may be replaced too, and the one made after it is younger still.
    let third = config(task, "0");
    put(&store, &[anew.clone(), third.clone()]).await;
    assert_eq!(of(&store, task).await, [second, anew, third]);
}

pub(super) async fn progress_moves_a_config_of_its_edition_only(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = open(&store, |a| a).await;
    let (row, beside) = (PushRow { edition: 7, ..config(task, "a") }, config(task, "b"));
    put(&store, &[row.clone(), beside.clone()]).await;
    for progress in [far(PushState::Active, 3), far(PushState::Dead, 4), far(PushState::Dead, 5)] {
        done(&store, only([moved(&row, &progress)])).await;
        let expected = PushRow { progress, ..row.clone() };
        assert_eq!(of(&store, task).await, [expected.clone(), beside.clone()]);
        // Another edition's is passed over, be it in the same state or not.
        for edition in [0, 6, 8, u64::MAX] {
            let stale = PushRow { edition, ..row.clone() };
            for state in PushState::ALL {
                done(&store, only([moved(&stale, &far(state, 9))])).await;
            }
        }
        assert_eq!(of(&store, task).await, [expected, beside.clone()]);
    }
    assert_eq!(counts(&store).await, (1, 1));
    // And back to life, which begins another epoch.
    done(&store, only([set_back(&row, &row.progress)])).await;
    assert_eq!(of(&store, task).await, [PushRow { epoch: Epoch(4), ..row }, beside]);
    assert_eq!(counts(&store).await, (2, 0));
}

pub(super) async fn progress_of_another_epoch_or_behind_what_is_kept_changes_nothing(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = open(&store, |a| a).await;
    let row = config(task, "a");
    put(&store, std::slice::from_ref(&row)).await;
    done(&store, only([moved(&row, &far(PushState::Active, 5))])).await;
    let kept = PushRow { progress: far(PushState::Active, 5), ..row.clone() };
    for state in PushState::ALL {
        for next in [1, 4] {
            done(&store, only([moved(&row, &far(state, next))])).await;
        }
        for epoch in [0, 2, 4, u64::MAX >> 1] {
            let other = PushRow { epoch: Epoch(epoch), ..row.clone() };
            done(&store, only([moved(&other, &far(state, 9)), over(&other)])).await;
        }
        assert_eq!(of(&store, task).await, std::slice::from_ref(&kept), "{state:?}");
        assert_eq!(counts(&store).await, (1, 0));
    }
    // Set back, it is of the next epoch: what was on its way before does not count.
    done(&store, only([set_back(&row, &far(PushState::Active, 2)), moved(&row, &far(PushState::Done, 8))])).await;
    let anew = PushRow { epoch: Epoch(4), progress: far(PushState::Active, 2), ..row.clone() };
    assert_eq!(of(&store, task).await, std::slice::from_ref(&anew));
    done(&store, only([moved(&row, &far(PushState::Active, 6)), over(&row)])).await;
    assert_eq!(of(&store, task).await, std::slice::from_ref(&anew));
    done(&store, only([moved(&anew, &far(PushState::Dead, 3))])).await;
    let anew = PushRow { progress: far(PushState::Dead, 3), ..anew };
    assert_eq!(of(&store, task).await, std::slice::from_ref(&anew));
    assert_eq!(counts(&store).await, (0, 1));
    // Of another edition, or not there, nothing is set back.
    let (stale, strange) = (PushRow { edition: 9, ..row.clone() }, config(id(), "a"));
    let back = far(PushState::Active, 1);
    done(&store, only([set_back(&stale, &back), set_back(&strange, &back), set_back(&config(task, "b"), &back)])).await;
    assert_eq!(of(&store, task).await, std::slice::from_ref(&anew));
    done(&store, only([over(&anew)])).await;
    assert_eq!(of(&store, task).await, []);
}

pub(super) async fn the_standing_of_configs_is_told_in_the_order_asked(factory: &dyn Factory) {
    let store = factory.open().await;
    let (one, two) = (open(&store, |a| a).await, open(&store, |a| a).await);
    let (a, b) = (PushRow { edition: u64::MAX, ..config(one, "a") }, config(two, "b"));
    put(&store, &[a.clone(), b.clone()]).await;
    done(&store, only([moved(&a, &far(PushState::Done, 7)), set_back(&b, &far(PushState::Active, 2))])).await;
    let asked = vec![(two, "b".into()), (one, "b".into()), (one, "a".into()), (id(), "a".into()), (two, "b".into())];
    let of_a = PushStanding { edition: u64::MAX, epoch: Epoch(3), next: Seq(7), ours: true };
    let of_b = PushStanding { edition: 1, epoch: Epoch(4), next: Seq(2), ours: true };
    assert_eq!(store.standings(asked).await.unwrap(), [Some(of_b), None, Some(of_a), None, Some(of_b)]);
    assert_eq!(store.standings(Vec::new()).await.unwrap(), []);
    assert!(store.tenure().is_some());
}

pub(super) async fn progress_of_what_is_not_there_makes_nothing(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = open(&store, |a| a).await;
    let rows = [config(task, "a"), config(id(), "a")];
    for state in PushState::ALL {
        done(&store, only(rows.iter().map(|row| moved(row, &far(state, 2))))).await;
        assert_eq!(walk(&store, state, 10).await, []);
    }
    assert_eq!(of(&store, task).await, []);
    assert_eq!(counts(&store).await, (0, 0));
}

pub(super) async fn a_removed_config_is_gone(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = open(&store, |a| a).await;
    let rows = ["a", "b", "c"].map(|id| config(task, id));
    put(&store, &rows).await;
    done(&store, only([remove(&rows[1])])).await;
    assert_eq!(of(&store, task).await, [rows[0].clone(), rows[2].clone()]);
    assert_eq!(counts(&store).await, (2, 0));
    // Removing what is not there is nothing, and late progress does not bring it back.
    done(&store, only([remove(&rows[1]), remove(&config(id(), "b"))])).await;
    done(&store, only([moved(&rows[1], &far(PushState::Active, 2))])).await;
    assert_eq!(walk(&store, PushState::Active, 10).await, [rows[0].clone(), rows[2].clone()]);
    // Made again, it is the youngest.
    put(&store, &rows[1..2]).await;
    assert_eq!(of(&store, task).await, [rows[0].clone(), rows[2].clone(), rows[1].clone()]);
}

pub(super) async fn a_config_that_is_over_goes_in_its_edition_only(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = open(&store, |a| a).await;
    let rows = PushState::ALL.map(|state| PushRow { progress: far(state, 2), ..config(task, state.name()) });
    let beside = PushRow { edition: u64::MAX, ..config(task, "beside") };
    put(&store, &rows).await;
    put(&store, std::slice::from_ref(&beside)).await;
    // One that was set again since, one of a task that is not there, and one that never was.
    let others = [0, 2, u64::MAX].map(|edition| over(&PushRow { edition, ..rows[0].clone() }));
    done(&store, only(others)).await;
    done(&store, only([over(&config(id(), "active")), over(&config(task, "none"))])).await;
    assert_eq!(of(&store, task).await.len(), 4);
    assert_eq!(counts(&store).await, (2, 1));
    // In whatever state it was; and twice is once.
    for _ in 0..2 {
        done(&store, only(rows.iter().map(over))).await;
        assert_eq!(of(&store, task).await, std::slice::from_ref(&beside));
        assert_eq!(counts(&store).await, (1, 0));
    }
    // Late progress does not bring it back, and in one commit it goes after what came before it.
    done(&store, only([moved(&rows[0], &far(PushState::Active, 3))])).await;
    let anew = PushRow { edition: 7, ..config(task, "anew") };
    done(&store, only([PushChange::Put(anew.clone()), moved(&anew, &far(PushState::Done, 3)), over(&anew)])).await;
    done(&store, only([over(&beside), PushChange::Put(PushRow { edition: 3, ..beside.clone() })])).await;
    assert_eq!(of(&store, task).await, [PushRow { edition: 3, ..beside }]);
    assert_eq!(counts(&store).await, (1, 0));
}

pub(super) async fn a_config_that_is_done_is_neither_active_nor_dead(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = open(&store, |a| a).await;
    let row = put_in(&store, PushState::Done, task, "a").await;
    assert_eq!(walk(&store, PushState::Active, 10).await, []);
    assert_eq!(walk(&store, PushState::Dead, 10).await, []);
    assert_eq!(counts(&store).await, (0, 0));
    // Its owner still sees it.
    assert_eq!(of(&store, task).await, std::slice::from_ref(&row));
    assert_eq!(walk(&store, PushState::Done, 10).await, [row]);
}

pub(super) async fn configs_are_walked_by_state_in_pages(factory: &dyn Factory) {
    let store = factory.open().await;
    // Made in an order that is neither that of the tasks nor that of the ids; some tasks have the highest bit set.
    let tasks: [u128; 7] = [0xf0 << 120, 1, 0x80 << 120, 0x7f << 120, 0xff, u128::MAX, 0x80];
    let mut rows: Vec<PushRow> = Vec::new();
    for no in tasks {
        let task = TaskId(Uuid::from_u128(no));
        done(&store, commit([opening(task, 1)])).await;
        for (n, id) in ["b", "a", "é", "B", "aa", "", "c", "d", "e"].into_iter().enumerate() {
            rows.push(put_in(&store, PushState::ALL[n % 3], task, id).await);
        }
    }
    rows.sort_by(|a, b| (a.task, &a.id).cmp(&(b.task, &b.id)));
    for state in PushState::ALL {
        let expected: Vec<PushRow> = rows.iter().filter(|row| row.progress.state == state).cloned().collect();
        assert_eq!(expected.len(), 21);
        for limit in [1, 2, 4, 21, 500] {
            assert_eq!(walk(&store, state, limit).await, expected, "{state:?} in pages of {limit}");
        }
        assert_eq!(store.pushes(state, None, 0).await.unwrap(), []);
        // The place a page starts after need not be that of a config.
        let nowhere: (TaskId, Arc<str>) = (TaskId(Uuid::from_u128(0x80)), "zzz".into());
        let behind = |row: &&PushRow| (row.task, &row.id) > (nowhere.0, &nowhere.1);
        let later: Vec<PushRow> = expected.iter().filter(behind).cloned().collect();
        assert_eq!(store.pushes(state, Some(nowhere), 100).await.unwrap(), later);
    }
}

pub(super) async fn configs_go_with_their_removed_task(factory: &dyn Factory) {
    let store = factory.open().await;
    let (task, other) = (open(&store, |a| a).await, open(&store, |a| a).await);
    for (n, state) in PushState::ALL.into_iter().enumerate() {
        put_in(&store, state, task, &format!("c{n}")).await;
        put_in(&store, state, other, &format!("c{n}")).await;
    }
    assert_eq!(counts(&store).await, (2, 2));
    let kept = of(&store, other).await;
    assert!(store.remove(task).await.unwrap());
    assert_eq!(of(&store, task).await, []);
    for row in &kept {
        assert_eq!(walk(&store, row.progress.state, 10).await, std::slice::from_ref(row));
    }
    assert_eq!(counts(&store).await, (1, 1));
    // A task that opens again under that id starts without.
    done(&store, commit([opening(task, 1)])).await;
    done(&store, only([moved(&config(task, "c0"), &far(PushState::Active, 2))])).await;
    assert_eq!(of(&store, task).await, []);
    assert_eq!(of(&store, other).await, kept);
}

pub(super) async fn configs_go_with_their_purged_task(factory: &dyn Factory) {
    let store = factory.open().await;
    let old = open(&store, |a| a.is(State::Completed, at(10))).await;
    let young = open(&store, |a| a.is(State::Completed, at(90))).await;
    for task in [old, young] {
        for (n, state) in PushState::ALL.into_iter().enumerate() {
            put_in(&store, state, task, &format!("c{n}")).await;
        }
    }
    let kept = of(&store, young).await;
    assert_eq!(store.purge(at(50), at(0), 10).await.unwrap(), 1);
    assert_eq!(of(&store, old).await, []);
    assert_eq!(of(&store, young).await, kept);
    for row in kept {
        assert_eq!(walk(&store, row.progress.state, 10).await, [row]);
    }
    assert_eq!(counts(&store).await, (1, 1));
}

pub(super) async fn a_refused_commit_changes_no_config(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = open(&store, |a| a).await;
    let rows = ["a", "b", "c"].map(|id| config(task, id));
    put(&store, &rows).await;
    let changes = vec![
        PushChange::Put(PushRow { edition: 2, ..rows[0].clone() }),
        moved(&rows[1], &far(PushState::Dead, 2)),
        remove(&rows[2]),
        PushChange::Put(config(task, "d")),
    ];
    let outcome = store.commit(Commit { push: changes, ..commit([more(task, 9, 1)]) }).await;
    assert_eq!(conflict(outcome), Conflict::Seq(task, Seq(1)));
    assert_eq!(of(&store, task).await, rows);
    assert_eq!(walk(&store, PushState::Active, 10).await, rows);
    assert_eq!(counts(&store).await, (3, 0));
}

pub(super) async fn a_config_of_a_task_that_is_not_there_is_not_kept(factory: &dyn Factory) {
    let store = factory.open().await;
    let (task, strange) = (open(&store, |a| a).await, id());
    // The rest of the commit happens.
    put(&store, &[config(strange, "a"), config(task, "a")]).await;
    assert_eq!(of(&store, strange).await, []);
    assert_eq!(walk(&store, PushState::Active, 10).await, [config(task, "a")]);
    assert_eq!(counts(&store).await, (1, 0));
    // Nor does it wait for the task to come.
    done(&store, commit([opening(strange, 1)])).await;
    assert_eq!(of(&store, strange).await, []);
}

pub(super) async fn a_task_opens_with_its_config_in_one_commit(factory: &dyn Factory) {
    let store = factory.open().await;
    for state in [State::Working, State::Completed] {
        let task = id();
        let push = vec![PushChange::Put(config(task, "a"))];
        done(&store, Commit { push, ..commit([opening(task, 2).is(state, at(0))]) }).await;
        has(&store, task, 2).await;
        assert_eq!(of(&store, task).await, [config(task, "a")]);
        // A task that was not opened leaves none behind.
        let push = vec![PushChange::Put(config(task, "b"))];
        conflict(store.commit(Commit { push, ..commit([opening(task, 1)]) }).await);
        assert_eq!(of(&store, task).await, [config(task, "a")]);
    }
    assert_eq!(counts(&store).await, (2, 0));
}

pub(super) async fn changes_of_one_commit_happen_in_their_order(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = open(&store, |a| a).await;
    let (a, b, c) = (config(task, "a"), config(task, "b"), config(task, "c"));
    let anew = PushRow { edition: 2, ..a.clone() };
    let changes = [
        moved(&b, &far(PushState::Dead, 9)),
        PushChange::Put(a.clone()),
        PushChange::Put(b.clone()),
        PushChange::Put(c.clone()),
        moved(&a, &far(PushState::Dead, 2)),
        PushChange::Put(anew.clone()),
        moved(&a, &far(PushState::Done, 3)),
        moved(&anew, &far(PushState::Active, 4)),
        remove(&c),
        moved(&c, &far(PushState::Dead, 5)),
    ];
    done(&store, only(changes)).await;
    let anew = PushRow { progress: far(PushState::Active, 4), ..anew };
    assert_eq!(of(&store, task).await, [b, anew]);
    assert_eq!(counts(&store).await, (2, 0));
}

pub(super) async fn hundreds_of_configs_move_in_one_commit(factory: &dyn Factory) {
    let store = factory.open().await;
    let mut rows = Vec::new();
    for n in 0..300 {
        // As many of tasks that have settled: their last events are delivered when nothing else happens to them.
        let state = if n % 2 == 0 { State::Working } else { State::Completed };
        let row = config(open(&store, |a| a.is(state, at(n))).await, "a");
        rows.push(row);
    }
    put(&store, &rows).await;
    let new_state = |n: usize| PushState::ALL[n % 3];
    let moves = |rows: &[PushRow]| only(rows.iter().enumerate().map(|(n, row)| moved(row, &far(new_state(n), 4))));
    done(&store, moves(&rows)).await;
    for (n, row) in rows.iter_mut().enumerate() {
        row.progress = far(new_state(n), 4);
    }
    rows.sort_by_key(|row| row.task);
    for state in PushState::ALL {
        let expected: Vec<PushRow> = rows.iter().filter(|row| row.progress.state == state).cloned().collect();
        assert_eq!(walk(&store, state, 64).await, expected);
    }
    assert_eq!(counts(&store).await, (100, 100));
}

pub(super) async fn health_counts_active_and_dead_configs(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = open(&store, |a| a).await;
    let row = config(task, "a");
    put(&store, &[row.clone(), config(task, "b")]).await;
    assert_eq!(counts(&store).await, (2, 0));
    for (state, expected) in [
        (PushState::Dead, (1, 1)),
        (PushState::Dead, (1, 1)),
        (PushState::Done, (1, 0)),
        (PushState::Dead, (1, 1)),
        (PushState::Active, (2, 0)),
        (PushState::Done, (1, 0)),
        (PushState::Active, (2, 0)),
    ] {
        done(&store, only([moved(&row, &far(state, 2))])).await;
        assert_eq!(counts(&store).await, expected, "{state:?}");
    }
    // A config may be put in any state, over one in any state.
    for old in PushState::ALL {
        for new in PushState::ALL {
            for state in [old, new] {
                put(&store, &[PushRow { progress: far(state, 2), ..row.clone() }]).await;
            }
            let expected = (1 + u64::from(new == PushState::Active), u64::from(new == PushState::Dead));
            assert_eq!(counts(&store).await, expected, "{old:?} to {new:?}");
        }
        put(&store, &[PushRow { progress: far(old, 2), ..row.clone() }]).await;
        done(&store, only([remove(&row)])).await;
        assert_eq!(counts(&store).await, (1, 0), "{old:?} removed");
    }
}

pub(super) async fn after_reopening_configs_are_there(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = open(&store, |a| a.epoch(1)).await;
    let mut rows = Vec::new();
    for (n, state) in PushState::ALL.into_iter().enumerate() {
        rows.push(put_in(&store, state, task, &format!("{}", 9 - n)).await);
    }
    let Some(store) = factory.reopen(store).await else { return };
    assert_eq!(of(&store, task).await, rows);
    for row in &rows {
        assert_eq!(walk(&store, row.progress.state, 10).await, std::slice::from_ref(row));
    }
    assert_eq!(counts(&store).await, (1, 1));
    // And goes on: the next one is the youngest, a late delivery counts, a replaced one is made anew.
    rows.push(config(task, "0"));
    put(&store, &rows[3..]).await;
    rows[0].progress = far(PushState::Active, 8);
    done(&store, only([moved(&rows[0], &rows[0].progress)])).await;
    assert_eq!(of(&store, task).await, rows);
    put(&store, &rows[..1]).await;
    rows.rotate_left(1);
    assert_eq!(of(&store, task).await, rows);
    assert_eq!(counts(&store).await, (2, 1));
}
