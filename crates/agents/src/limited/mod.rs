//! Enforces an agent's limits: concurrent and waiting turns, time, rate and output size.
//!
//! It wraps every configured agent, so that no backend counts for itself. A turn above the limit waits inside its
//! own run, where a cancel reaches it. The number of waiting turns is checked when a message is admitted: a turn
//! that is in the log is never refused, not even a hundred of them after a crash.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::{self, FutureExt as _};
use futures_util::stream::{BoxStream, StreamExt as _};
use model::ports::Future;
use model::ports::agent::{
    Admission, Agent, AgentEvent, AgentLoad, AgentMessage, EndState, Look, Profile, RemoteCards, Restart, Skill, Turn,
};
use model::ports::worker::WorkerQueue;
use model::{Content, Fault, Inbound, Kind, LatencyCounts, Part, Shape, Task};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, sleep_until};

use crate::config::Common;
use crate::emitter::{Emitter, emit};

/// How long an agent may take to stop after its time limit.
const GRACE: Duration = Duration::from_secs(5);
/// Chunks of text are merged up to this size.
const MERGED: usize = 64 << 10;
/// Retry-after of a refused caller, in seconds.
const RETRY_AFTER_S: u32 = 5;

pub(crate) struct Limited {
    inner: Arc<dyn Agent>,
    profile: Profile,
    places: Arc<Semaphore>,
    slots: usize,
    waiting: Arc<AtomicUsize>,
    queue: usize,
    restart: Option<Restart>,
    bounds: Bounds,
    counts: Arc<TurnCounts>,
}

/// The turns that ended since the start.
#[derive(Default)]
struct TurnCounts {
    failed: AtomicU64,
    failed_in_a_row: AtomicU64,
    refused: AtomicU64,
    latency: LatencyCounts,
}

impl TurnCounts {
    /// Counts a turn once; `began` is taken.
    fn ended(&self, began: &mut Option<Instant>, has_failed: bool) {
        let Some(began) = began.take() else { return };
        self.latency.add(began.elapsed().as_micros() as u64);
        if has_failed {
            self.failed.fetch_add(1, Ordering::Relaxed);
            self.failed_in_a_row.fetch_add(1, Ordering::Relaxed);
        } else if self.failed_in_a_row.load(Ordering::Relaxed) != 0 {
            self.failed_in_a_row.store(0, Ordering::Relaxed);
        }
    }
}

/// The limits of one turn.
#[derive(Clone, Copy)]
struct Bounds {
    timeout: Option<Duration>,
    attempts: u32,
    output_bytes: usize,
    merge: bool,
}

impl Limited {
    pub(crate) fn new(name: &str, inner: Arc<dyn Agent>, common: &Common, merges: bool) -> Limited {
        let restart = common.restart.map(Restart::from);
        let profile = profile(name, inner.profile().clone(), common);
        let slots = common.concurrency.unwrap_or(16) as usize;
        Limited {
            inner,
            profile,
            places: Arc::new(Semaphore::new(slots)),
            slots,
            counts: Arc::default(),
            waiting: Arc::default(),
            queue: common.queue.unwrap_or(100) as usize,
            restart,
            bounds: Bounds {
                timeout: common.timeout_ms.map(Duration::from_millis),
                attempts: common.attempts.unwrap_or(u32::MAX),
                output_bytes: common.max_output_bytes(),
                merge: common.merge_chunks.unwrap_or(merges),
            },
        }
    }
}

/// The agent's own profile, overridden by the config.
fn profile(name: &str, own: Profile, common: &Common) -> Profile {
    let title = common.title.clone().unwrap_or(own.title);
    let description = common.description.clone().unwrap_or(own.description);
    let skills = common.skills.as_ref().map(|skills| {
        let skill = |skill: &crate::config::SkillConfig| Skill {
            id: skill.id.clone(),
            name: skill.name.clone().unwrap_or_else(|| skill.id.clone()),
            description: skill.description.clone(),
            tags: skill.tags.clone(),
            examples: skill.examples.clone(),
        };
        skills.iter().map(skill).collect()
    });
    let mut skills: Vec<Skill> = skills.unwrap_or(own.skills);
    if skills.is_empty() {
        // A card must have a skill.
        let (id, tags) = (name.to_owned(), vec!["agent".to_owned()]);
        let (name, description) = (title.clone(), description.clone());
        skills.push(Skill { id, name, description, tags, examples: vec![] });
    }
    Profile {
        name: name.into(),
        title,
        description,
        skills,
        version: common.version.clone().unwrap_or(own.version),
        input_modes: common.input_modes.clone().unwrap_or(own.input_modes),
        output_modes: common.output_modes.clone().unwrap_or(own.output_modes),
        streaming: common.streaming.map_or(own.streaming, |on| on.0),
        push: common.push.map_or(own.push, |on| on.0),
        restart: common.restart.map_or(own.restart, Restart::from),
        ..own
    }
}

impl Agent for Limited {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn admit(&self, message: &Inbound, task: Option<&Task>) -> Result<Admission, Fault> {
        let admission = self.inner.admit(message, task)?;
        // A message to a working task needs no slot of its own.
        let at_work = task.is_some_and(|task| task.core.turn.is_some());
        if !at_work && self.places.available_permits() == 0 && self.waiting.load(Ordering::Relaxed) >= self.queue {
            self.counts.refused.fetch_add(1, Ordering::Relaxed);
            let says =
                format!("{} has as much to do as it can take; try again in {RETRY_AFTER_S} s", self.profile.name);
            return Err(Fault::new(Kind::Unavailable, says).retry_after(RETRY_AFTER_S));
        }
        Ok(Admission { restart: self.restart.unwrap_or(admission.restart), ..admission })
    }

    fn run(&self, turn: Turn) -> BoxStream<'static, AgentEvent> {
        let (inner, places, waiting, bounds) =
            (self.inner.clone(), self.places.clone(), self.waiting.clone(), self.bounds);
        let counts = self.counts.clone();
        emit(move |emitter| async move {
            if turn.attempt > bounds.attempts {
                let cut_off = turn.attempt - 1;
                return emitter.fail(format!("the turn was cut off {cut_off} times and is not tried again")).await;
            }
            let Some(place) = place(places, waiting, &turn, &emitter).await else {
                return emitter.end(EndState::Canceled, None).await;
            };
            listen(inner, turn, bounds, emitter, &counts).await;
            drop(place);
        })
    }

    fn desk(&self) -> Option<Arc<dyn WorkerQueue>> {
        self.inner.desk()
    }

    fn picture(&self, look: Option<Look<'_>>) -> Option<model::Json> {
        self.inner.picture(look)
    }

    fn members(&self) -> Vec<Arc<str>> {
        self.inner.members()
    }

    fn load(&self) -> Option<AgentLoad> {
        let narrow = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let latency = self.counts.latency.snapshot();
        Some(AgentLoad {
            running: narrow(self.slots.saturating_sub(self.places.available_permits())),
            slots: narrow(self.slots),
            waiting: narrow(self.waiting.load(Ordering::Relaxed)),
            queue: narrow(self.queue),
            timeout_ms: self.bounds.timeout.map(|timeout| timeout.as_millis() as u64),
            attempts: Some(self.bounds.attempts).filter(|attempts| *attempts != u32::MAX),
            output_bytes: self.bounds.output_bytes,
            ended: latency.count(),
            failed: self.counts.failed.load(Ordering::Relaxed),
            failed_in_a_row: self.counts.failed_in_a_row.load(Ordering::Relaxed),
            refused: self.counts.refused.load(Ordering::Relaxed),
            latency,
        })
    }

    fn remote_card(&self) -> Option<Future<'static, Result<RemoteCards, Fault>>> {
        self.inner.remote_card()
    }
}

/// A slot among the running turns; none if the turn was cancelled first.
async fn place(
    places: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
    turn: &Turn,
    emitter: &Emitter,
) -> Option<OwnedSemaphorePermit> {
    if let Ok(place) = places.clone().try_acquire_owned() {
        return Some(place);
    }
    let _counted = Waiting::new(waiting);
    // An exchange that may become a direct message emits nothing until the agent does.
    if turn.so_far.core.shape == Shape::Task {
        emitter.say(AgentEvent::Working(Some(AgentMessage::text("waiting for a free place")))).await;
    }
    tokio::select! {
        biased;
        () = turn.cancelled.clone() => None,
        place = places.acquire_owned() => place.ok(),
    }
}

/// Counts a waiting turn until dropped.
struct Waiting(Arc<AtomicUsize>);

impl Waiting {
    fn new(waiting: Arc<AtomicUsize>) -> Waiting {
        waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(waiting)
    }
}
impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Passes the agent's output on within its limits. A turn is counted before its last emission, after which the engine may
/// drop this future.
async fn listen(inner: Arc<dyn Agent>, turn: Turn, bounds: Bounds, emitter: Emitter, counts: &TurnCounts) {
    let mut began = Some(Instant::now());
    // The caller's cancel and the time limit both cancel the agent.
    let (stop, stopped) = oneshot::channel::<()>();
    let stopped = stopped.then(|asked| async move {
        if asked.is_err() {
            future::pending::<()>().await;
        }
    });
    let cancelled = future::select(turn.cancelled.clone(), stopped.boxed()).map(drop).boxed().shared();
    let mut said = inner.run(Turn { cancelled, ..turn }).peekable();
    let far = Instant::now() + Duration::from_secs(30 * 365 * 86_400);
    let deadline = sleep_until(bounds.timeout.map_or(far, |timeout| Instant::now() + timeout));
    tokio::pin!(deadline);
    let mut stop = Some(stop);
    let mut bytes = 0;
    loop {
        let emission = tokio::select! {
            biased;
            () = &mut deadline => match stop.take() {
                Some(stop) => {
                    // The agent may not watch for a cancel.
                    let _ = stop.send(());
                    deadline.as_mut().reset(Instant::now() + GRACE);
                    continue;
                }
                None => None,
            },
            emission = said.next() => emission,
        };
        if stop.is_none() {
            // Out of time: only the end matters now.
            if matches!(emission, None | Some(AgentEvent::End(_) | AgentEvent::Reply(_))) {
                let limit = bounds.timeout.unwrap_or_default().as_secs_f64();
                counts.ended(&mut began, true);
                drop(said);
                return emitter.fail(format!("the agent did not finish within {limit} s")).await;
            }
            continue;
        }
        let Some(mut emission) = emission else { return counts.ended(&mut began, false) };
        if bounds.merge {
            merge(&mut emission, &mut said);
            if let AgentEvent::Artifact(piece) = &mut emission {
                piece.seamless = true;
            }
        }
        bytes += weight(&emission);
        if bytes > bounds.output_bytes {
            drop(said);
            counts.ended(&mut began, true);
            return emitter.fail(format!("the agent said more than {} bytes in one turn", bounds.output_bytes)).await;
        }
        match &emission {
            AgentEvent::End(end) => counts.ended(&mut began, end.state == EndState::Failed),
            AgentEvent::Reply(_) => counts.ended(&mut began, false),
            AgentEvent::Working(_) | AgentEvent::Artifact(_) | AgentEvent::Bound(_) | AgentEvent::Metadata(_) => {}
        }
        emitter.say(emission).await;
    }
}

/// Joins the chunks of text that are ready, while only their text differs.
fn merge(first: &mut AgentEvent, said: &mut futures_util::stream::Peekable<BoxStream<'static, AgentEvent>>) {
    let AgentEvent::Artifact(piece) = first else { return };
    let Some(key) = piece.plain_text().map(|_| piece.key.clone()) else { return };
    let mut said = std::pin::Pin::new(said);
    while !piece.last
        && piece.parts.iter().map(Part::weight).sum::<usize>() < MERGED
        && let Some(Some(AgentEvent::Artifact(next))) = said.as_mut().peek().now_or_never()
        && next.adds_text_to(&key)
        && let Some(Some(AgentEvent::Artifact(next))) = said.next().now_or_never()
    {
        if let (Some(Content::Text(text)), Some(more)) =
            (piece.parts.first_mut().map(|part| &mut part.content), next.plain_text())
        {
            text.push_str(more);
        }
        piece.last = next.last;
    }
}

fn weight(emission: &AgentEvent) -> usize {
    let parts = |parts: &[Part]| parts.iter().map(Part::weight).sum::<usize>();
    let words = |words: &Option<AgentMessage>| words.as_ref().map_or(0, |words| parts(&words.parts));
    match emission {
        AgentEvent::Working(said) => words(said),
        AgentEvent::Artifact(piece) => parts(&piece.parts),
        AgentEvent::Reply(said) => parts(&said.parts),
        AgentEvent::Bound(remote) => remote.len(),
        AgentEvent::Metadata(json) => json.text().len(),
        // The end is never over the limit.
        AgentEvent::End(_) => 0,
    }
}

#[cfg(test)]
mod tests;
