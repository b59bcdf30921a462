//! After a start: every turn that a crash cut off follows its agent's rule.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::StreamExt;
use model::ports::agent::{Restart, Words};
use model::{Body, Fault, Kind, State, Task, TaskId};

use crate::live::{Draft, Live, TurnHandle};
use crate::pending;
use crate::turn::{self, Run};
use crate::{Shared, blobs, troubled};

const PAGE: usize = 256;
/// How long to wait before turns are taken up that could not be.
const AGAIN: Duration = Duration::from_secs(1);

pub(crate) async fn recover(shared: &Arc<Shared>) -> Result<(), Fault> {
    let mut after = None;
    loop {
        let page = shared.store.unfinished(after, PAGE).await.map_err(troubled)?;
        let Some((last, _)) = page.last() else { return Ok(()) };
        after = Some(*last);
        // Together, so that they share their commits.
        let faults = futures_util::stream::iter(page)
            .map(|(id, _)| take_up(shared, id))
            .buffer_unordered(PAGE)
            .filter_map(|result| async { result.err() });
        let faults: Vec<(TaskId, Fault)> = faults.collect().await;
        let mut later = Vec::new();
        for (task, fault) in faults {
            tracing::error!(%task, cause = ?fault.cause, "a turn could not be taken up again: {fault}");
            if fault.kind == Kind::Unavailable {
                later.push(task);
            }
        }
        if !later.is_empty() {
            tokio::spawn(try_again(shared.clone(), later));
        }
    }
}

/// A full disk or a crowd does not keep a turn from its rule for ever.
async fn try_again(shared: Arc<Shared>, mut tasks: Vec<TaskId>) {
    while !tasks.is_empty() {
        tokio::select! {
            () = tokio::time::sleep(AGAIN) => {}
            () = shared.stopped.cancelled() => return,
        }
        let mut later = Vec::new();
        for task in tasks {
            match take_up(&shared, task).await {
                Ok(()) => {}
                Err((task, fault)) if fault.kind == Kind::Unavailable => later.push(task),
                Err((task, fault)) => {
                    tracing::error!(%task, cause = ?fault.cause, "a turn could not be taken up again: {fault}");
                }
            }
        }
        tasks = later;
    }
}

async fn take_up(shared: &Arc<Shared>, id: TaskId) -> Result<(), (TaskId, Fault)> {
    let work = async {
        let Some(live) = shared.live(id).await? else { return Ok(()) };
        let task = live.snapshot()?;
        if task.core.turn.is_none() {
            return Ok(());
        }
        resume(shared, live, task).await?;
        shared.stats.recovered.fetch_add(1, Ordering::Relaxed);
        Ok(())
    };
    work.await.map_err(|fault| (id, fault))
}

async fn resume(shared: &Arc<Shared>, live: Arc<Live>, task: Arc<Task>) -> Result<(), Fault> {
    let Some(turn) = task.core.turn else { return Ok(()) };
    let agent = shared.agents.load().get(&task.agent).cloned();
    let messages = live.current_messages();
    let rule = match (&agent, messages.last()) {
        (Some(agent), Some(message)) => {
            // The agent must see what it saw when it admitted the turn, large parts and all.
            let message = blobs::load_inbound(&*shared.store, &task.tenant, message).await?;
            let task = blobs::load_task(&*shared.store, task.clone()).await?;
            turn::admit(agent, &message, Some(&task)).map(|a| a.restart).unwrap_or(Restart::Fail)
        }
        (None, _) | (_, None) => Restart::Fail,
    };
    // Reattaching repeats nothing, so it may be done for as long as the work takes.
    let attempts_left = rule == Restart::Resume || turn.attempt < shared.limits.attempts;
    let epoch = shared.store.epoch();
    let goes_on = !task.core.cancel_requested && rule != Restart::Fail && attempts_left;
    // Before anything is said, so that a turn that finds no room now is the same turn later.
    let running = if goes_on { Some(shared.take_turn()?) } else { None };
    let begun = live.append(shared, |task| {
        let Some(turn) = task.core.turn else { return Ok(Draft::default()) };
        let bodies = if task.core.cancel_requested {
            vec![pending::status(State::Canceled, None)]
        } else if goes_on {
            let mut bodies = Vec::new();
            // Whoever has been shown the task is told; an undecided exchange stays unseen.
            if rule == Restart::Retry && task.core.shape == model::Shape::Task {
                let words = pending::message(Words::text("restarted"));
                bodies.push(pending::status(State::Working, Some(words)));
            }
            bodies.push(Body::TurnStarted { turn: turn.id, attempt: turn.attempt + 1 });
            bodies
        } else {
            vec![pending::status(State::Failed, Some(pending::message(Words::text(why(rule, &agent, turn.attempt)))))]
        };
        Ok(Draft::held(bodies, epoch))
    });
    let task = begun.await.map_err(Fault::from)?;
    if let (Some(running), Some(agent), Some(turn)) = (running, agent, task.core.turn) {
        let handle = TurnHandle::new();
        Run { shared: shared.clone(), live, agent, turn: turn.id, handle, running }.spawn(None);
    }
    Ok(())
}

fn why<A>(rule: Restart, agent: &Option<A>, attempt: u32) -> String {
    match (agent, rule) {
        (None, _) => "the server restarted and no longer serves this agent".into(),
        (Some(_), Restart::Fail) => "the server restarted while the agent was at work; send the message again".into(),
        (Some(_), Restart::Retry | Restart::Resume) => {
            format!("the server restarted while the agent was at work, {attempt} times; giving up")
        }
    }
}
