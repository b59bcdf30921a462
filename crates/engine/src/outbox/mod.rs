//! The outbox: every webhook is a cursor on its task's log, advanced by deliveries.
//!
//! * At least once, and in order for each config: the next event is not tried before the last one was accepted and its
//!   progress is saved. After a crash at most the deliveries in flight are repeated; none is skipped.
//! * A commit never waits for it. The code that makes events visible calls `told`, which is one atomic load for a task
//!   without configs; the scheduler finds due configs and starts jobs for them, up to the number of slots.
//! * Waiting costs only a key in an ordered set. Memory holds the active configs and no events.
//! * Of the processes that share a store one delivers a config: the one that put it, or took it over from one that has
//!   ended, with the next epoch. The store ignores progress of an earlier epoch, and a process whose lease has expired
//!   begins no delivery until it has checked which configs are still its own.
//!
//! `index` is all of that as data, `endpoint` the breaker of one receiver, `delivery` one job, `next` the content of a
//! delivery, `permit` lets products deliver under the same breakers, `progress` saves progress, `clear` removes configs
//! with their tasks, `status` is for operators. `receive` decides the next attempt.

mod clear;
mod delivery;
mod endpoint;
mod index;
mod next;
mod permit;
mod progress;
mod status;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use model::limits::PushLimits;
use model::ports::webhook::{WebhookOutcome, WebhookSender};
use model::{Fault, PushProgress, PushRow, PushSpec, PushState, Seq, TaskId, Time};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{RetrySchedule, Shared, troubled};
use endpoint::Tripped;
pub(crate) use index::ConfigKey;
use index::{DeliveryEnd, DeliveryJob, Index, RouteNo, UnsavedProgress};

pub(crate) use clear::clear_dead;
pub use permit::EndpointPermit;
pub use status::DeliveryStatus;

/// Configs read at once after a start.
const PAGE: usize = 512;

/// Number of counters that tell which tasks have active configs; a power of two.
const SIEVE: usize = 4_096;

pub(crate) struct Outbox {
    /// The engine has a high load from callers.
    busy: AtomicBool,
    index: Mutex<Index>,
    /// The number of tasks with active configs per counter: most tasks have none, and one load shows that.
    sieve: Box<[AtomicU32]>,
    /// A delivery may be pending.
    wake: Notify,
    /// Progress is waiting to be saved.
    unsaved: Notify,
    /// The lease under which the configs here were last compared with the store's, plus one; without that comparison
    /// nothing is delivered.
    compared: AtomicU64,
    /// One commit of progress at a time, so that an older one never follows a newer.
    saving: tokio::sync::Mutex<()>,
    /// No new delivery begins.
    closing: CancellationToken,
    /// Deliveries in flight are dropped.
    cut: CancellationToken,
    idle: Notify,
}

impl Default for Outbox {
    fn default() -> Outbox {
        Outbox {
            busy: AtomicBool::new(false),
            index: Mutex::default(),
            sieve: (0..SIEVE).map(|_| AtomicU32::new(0)).collect(),
            wake: Notify::new(),
            unsaved: Notify::new(),
            compared: AtomicU64::new(0),
            saving: tokio::sync::Mutex::default(),
            closing: CancellationToken::new(),
            cut: CancellationToken::new(),
            idle: Notify::new(),
        }
    }
}

/// A snapshot of the outbox's gauges.
pub(crate) struct Gauges {
    pub(crate) active: u64,
    pub(crate) waiting: u64,
    pub(crate) breakers_open: u64,
}

/// The start of a route's next delivery.
struct Go {
    next: Seq,
    attempt: u32,
    resets: u32,
}

/// The effect of a delivery's outcome on the job.
enum Verdict {
    GoOn,
    /// Continue once the store has saved the delivery of this event.
    Kept(Seq),
    End(DeliveryEnd),
}

impl Outbox {
    fn counter(&self, task: TaskId) -> &AtomicU32 {
        // The last bytes of a UUIDv7 are random.
        let bytes = task.0.as_bytes();
        &self.sieve[usize::from(u16::from_be_bytes([bytes[14], bytes[15]])) % SIEVE]
    }

    /// The task's log has grown to this length. Called after every commit; for most tasks it is one load.
    pub(crate) fn told(&self, task: TaskId, seq: Seq) {
        if self.counter(task).load(Ordering::Acquire) == 0 {
            return;
        }
        if self.index.lock().told(task, seq) {
            self.wake.notify_one();
        }
    }

    /// Adds a config that was just committed, replacing the one with its id.
    pub(crate) fn take(&self, shared: &Shared, key: ConfigKey, spec: Arc<PushSpec>, progress: PushProgress) {
        if progress.state != PushState::Active {
            return self.forget_config(key.task, &key.id);
        }
        let mut index = self.index.lock();
        index.touch(key.task, &key.id);
        // Progress of the replaced config does not belong to this one.
        index.unsaved.remove(&(key.task, key.id.clone()));
        self.add(shared, &mut index, key, spec, progress);
        drop(index);
        self.wake.notify_one();
    }

    /// Whether deliveries may begin: this process's lease is valid, and the configs were compared with the store's
    /// under it.
    fn is_current(&self, shared: &Shared) -> bool {
        shared.store.tenure().is_some_and(|lease| lease + 1 == self.compared.load(Ordering::Acquire))
    }

    fn add(&self, shared: &Shared, index: &mut Index, key: ConfigKey, spec: Arc<PushSpec>, progress: PushProgress) {
        let Some(courier) = &shared.courier else { return };
        let (task, endpoint, now) = (key.task, courier.endpoint(&spec), shared.clock.of_sleepers());
        // The job that begins now sees every earlier commit; every later commit finds the counter raised.
        if index.add(key, spec, endpoint, progress, now) {
            self.counter(task).fetch_add(1, Ordering::Release);
        }
    }

    fn uncount(&self, task: TaskId, last: bool) {
        if last {
            self.counter(task).fetch_sub(1, Ordering::Release);
        }
    }

    /// The config is gone: nothing more is delivered for it.
    pub(crate) fn forget_config(&self, task: TaskId, id: &Arc<str>) {
        let mut index = self.index.lock();
        index.touch(task, id);
        let last = index.find(task, id).is_some_and(|no| index.remove(no));
        index.unsaved.remove(&(task, id.clone()));
        self.uncount(task, last);
    }

    /// Every task with configs here.
    pub(crate) fn tasks(&self) -> Vec<TaskId> {
        self.index.lock().tasks()
    }

    /// The task is gone, and all its configs.
    pub(crate) fn forget_task(&self, task: TaskId) {
        if self.counter(task).load(Ordering::Acquire) == 0 {
            return;
        }
        let mut index = self.index.lock();
        for no in index.routes_of(task) {
            if let Some(id) = index.get(no).map(|route| route.id.clone()) {
                index.touch(task, &id);
            }
            let last = index.remove(no);
            self.uncount(task, last);
        }
        index.unsaved.retain(|(owner, _), _| *owner != task);
    }

    pub(crate) fn gauges(&self) -> Gauges {
        let index = self.index.lock();
        Gauges {
            active: index.len() as u64,
            waiting: index.waiting() as u64,
            breakers_open: index.breakers_open() as u64,
        }
    }

    /// Whether a job may continue with another delivery, and from where.
    fn go(&self, shared: &Shared, no: RouteNo) -> Option<Go> {
        if self.closing.is_cancelled() || !self.is_current(shared) {
            return None;
        }
        let index = self.index.lock();
        let route = index.goes_on(no)?;
        let PushProgress { next, attempts, .. } = route.progress;
        Some(Go { next, attempt: attempts.saturating_add(1), resets: route.resets })
    }

    /// Skips events that the dialect does not deliver, without saving that.
    fn passed(&self, no: RouteNo, resets: u32, next: Seq) {
        let mut index = self.index.lock();
        if let Some(route) = index.get_mut(no).filter(|route| route.resets == resets) {
            route.progress.next = route.progress.next.max(next);
        }
    }

    /// The task has settled and every event was delivered. A config that `clears` is removed.
    fn done(&self, no: RouteNo, resets: u32, next: Seq, clears: bool) -> DeliveryEnd {
        self.passed(no, resets, next);
        let mut index = self.index.lock();
        let Some(task) = index.get(no).filter(|route| route.resets == resets).map(|route| route.task) else {
            return DeliveryEnd::Later;
        };
        let last = if clears { index.clear(no) } else { index.retire(no, PushState::Done) };
        self.uncount(task, last);
        drop(index);
        self.unsaved.notify_one();
        DeliveryEnd::Over
    }

    /// The task was purged.
    fn vanished(&self, task: TaskId) -> DeliveryEnd {
        self.forget_task(task);
        DeliveryEnd::Over
    }

    /// Handles the outcome of a delivery of event `seq`.
    fn receive(&self, shared: &Shared, job: &DeliveryJob, go: &Go, seq: Seq, receipt: WebhookOutcome) -> Verdict {
        let (now, limits) = (shared.clock.of_sleepers(), &shared.limits.push);
        let mut index = self.index.lock();
        // The receiver's response counts for its endpoint, even if the config has changed meanwhile.
        count(shared, &mut index, &job.endpoint, &receipt, |index| index.endpoint_failed(job, now, limits));
        let Some(route) = index.get_mut(job.no).filter(|route| route.resets == go.resets) else {
            return Verdict::End(DeliveryEnd::Later);
        };
        let (task, progress) = (route.task, &mut route.progress);
        let dead = match receipt {
            WebhookOutcome::Taken => {
                progress.next = seq.next();
                progress.attempts = 0;
                progress.failing_since = None;
                progress.delivered += 1;
                progress.delivered_at = Some(now);
                progress.trouble = None;
                index.save(job.no);
                drop(index);
                self.unsaved.notify_one();
                return Verdict::Kept(seq);
            }
            WebhookOutcome::Untold => {
                progress.next = seq.next();
                return Verdict::GoOn;
            }
            WebhookOutcome::Failed { why, retry_after_ms } => {
                progress.attempts = progress.attempts.saturating_add(1);
                let since = *progress.failing_since.get_or_insert(now);
                let schedule = RetrySchedule {
                    first_ms: limits.retry_ms,
                    most_ms: limits.retry_most_ms,
                    asked_most_ms: limits.retry_most_ms,
                };
                progress.due = now.plus_ms(schedule.delay_ms(progress.attempts, retry_after_ms));
                let failing_ms = u64::try_from(now.0 - since.0).unwrap_or_default();
                (failing_ms > limits.give_up_ms)
                    .then(|| format!("given up after {} s: {why}", failing_ms / 1_000))
                    .ok_or((why, progress.due))
            }
            WebhookOutcome::Gone { why } => Ok(why),
        };
        let end = match dead {
            Ok(trouble) => {
                progress.trouble = Some(trouble.into());
                self.bury(shared, &mut index, job.no, task);
                DeliveryEnd::Over
            }
            Err((why, due)) => {
                progress.trouble = Some(why.into());
                index.save(job.no);
                DeliveryEnd::Wait(due)
            }
        };
        drop(index);
        self.unsaved.notify_one();
        Verdict::End(end)
    }

    /// Gives a config up, for an operator to look at.
    fn bury(&self, shared: &Shared, index: &mut Index, no: RouteNo, task: TaskId) {
        if let Some(route) = index.get(no) {
            let trouble = route.progress.trouble.as_deref().unwrap_or_default();
            tracing::warn!(%task, config = %route.id, endpoint = %route.endpoint, "a webhook is given up: {trouble}");
        }
        shared.stats.push_dead.fetch_add(1, Ordering::Relaxed);
        let last = index.retire(no, PushState::Dead);
        self.uncount(task, last);
    }

    /// Waits until the store has saved the delivery of this event. Returns whether the job may continue: not if its
    /// config was removed or set from outside meanwhile, since that progress may never be saved.
    async fn kept(&self, job: &DeliveryJob, go: &Go, seq: Seq) -> bool {
        let kept = {
            let mut index = self.index.lock();
            let Some(route) = index.get_mut(job.no).filter(|route| route.resets == go.resets) else { return false };
            route.once_kept(seq)
        };
        tokio::select! {
            kept = kept => kept.is_ok(),
            // `close` saves the progress of accepted deliveries.
            () = self.closing.cancelled() => false,
        }
    }

    fn finished(&self, job: &DeliveryJob, end: DeliveryEnd) {
        self.index.lock().finished(job, end);
        self.wake.notify_one();
        self.idle.notify_one();
    }

    /// Begins no new deliveries; those in flight have until `deadline`. Then saves their progress.
    pub(crate) async fn close(&self, shared: &Arc<Shared>, deadline: tokio::time::Instant) {
        self.closing.cancel();
        let idle = async {
            while self.index.lock().running > 0 {
                self.idle.notified().await;
            }
        };
        let in_time = tokio::time::timeout_at(deadline, idle).await;
        self.cut.cancel();
        if in_time.is_err() {
            tracing::warn!("stopping with webhooks under way; they are delivered again after the next start");
        }
        if let Err(trouble) = self.save(shared).await {
            tracing::warn!(%trouble, "the progress of webhooks is not kept; some are delivered again");
        }
    }
}

/// Counts an outcome, and lets the endpoint's breaker know of it.
fn count(
    shared: &Shared,
    index: &mut Index,
    endpoint: &Arc<str>,
    outcome: &WebhookOutcome,
    failed: impl FnOnce(&mut Index) -> Tripped,
) {
    match outcome {
        WebhookOutcome::Taken => {
            shared.stats.push_delivered.fetch_add(1, Ordering::Relaxed);
            index.endpoint_answered(endpoint);
        }
        WebhookOutcome::Failed { why, .. } => {
            shared.stats.push_failed.fetch_add(1, Ordering::Relaxed);
            if let Tripped::Until(_) = failed(index) {
                tracing::warn!(%endpoint, "a webhook keeps failing and is left alone: {why}");
            }
        }
        WebhookOutcome::Untold | WebhookOutcome::Gone { .. } => {}
    }
}

/// Loads the active configs from the store, then delivers until the engine stops.
pub(crate) async fn start(shared: &Arc<Shared>, errands: &Handle) -> Result<(), Fault> {
    let Some(courier) = shared.courier.clone() else { return Ok(()) };
    adopt(shared).await?;
    errands.spawn(progress::run(shared.clone()));
    errands.spawn(schedule(shared.clone(), courier));
    Ok(())
}

/// Loads every config that this process must deliver, and drops those it no longer owns.
pub(crate) async fn adopt(shared: &Shared) -> Result<(), Fault> {
    let Some(courier) = shared.courier.clone() else { return Ok(()) };
    let outbox = &shared.outbox;
    let (lease, known) = (shared.store.tenure(), outbox.index.lock().last());
    let mut ours = HashSet::new();
    let mut after = None;
    while let Some(last) = adopt_page(shared, &*courier, after.take(), &mut ours).await? {
        after = Some(last);
    }
    // Configs put since the walk began belong to this process, whether its pages had them or not.
    let routes = outbox.index.lock().up_to(known);
    for (_, key) in routes {
        if !ours.contains(&key) {
            outbox.lose(&key);
        }
    }
    if let Some(lease) = lease {
        outbox.compared.store(lease + 1, Ordering::Release);
        outbox.wake.notify_one();
    }
    Ok(())
}

/// One page of that walk. Returns where it ended; `None` at the end.
async fn adopt_page(
    shared: &Shared,
    courier: &dyn WebhookSender,
    after: Option<(TaskId, Arc<str>)>,
    ours: &mut HashSet<ConfigKey>,
) -> Result<Option<(TaskId, Arc<str>)>, Fault> {
    let outbox = &shared.outbox;
    // Saving is paused, so that progress missing in the store is in memory while a page is compared: a config that was
    // just finished here is active in the store until its progress is saved.
    let _still = outbox.saving.lock().await;
    outbox.index.lock().touched = Some(HashSet::new());
    let page = shared.store.adopt(after, PAGE).await;
    let touched = outbox.index.lock().touched.take().unwrap_or_default();
    let page = page.map_err(troubled)?;
    let last = page.last().map(|last| (last.task, last.id.clone()));
    for row in page {
        ours.insert(ConfigKey::of(&row));
        if !touched.contains(&(row.task, row.id.clone())) {
            take_up(shared, courier, row);
        }
    }
    Ok(last)
}

/// Configs of the task were put or removed by another process.
pub(crate) async fn look_again(shared: &Shared, task: TaskId) -> Result<(), Fault> {
    let Some(courier) = shared.courier.clone() else { return Ok(()) };
    let known = shared.outbox.index.lock().keys_of(task);
    if known.is_empty() {
        return Ok(());
    }
    // In order of (task, id): the configs of this task come first, and no id is empty.
    let mut ours = HashSet::new();
    adopt_page(shared, &*courier, Some((task, "".into())), &mut ours).await?;
    for key in known.iter().filter(|key| !ours.contains(key)) {
        shared.outbox.lose(key);
    }
    Ok(())
}

/// Compares every config here with the store's, and drops those that another process has taken over, set anew or
/// removed, with or without a hint.
pub(crate) async fn compare(shared: &Shared) -> Result<(), Fault> {
    let outbox = &shared.outbox;
    let keys: Vec<ConfigKey> = {
        let index = outbox.index.lock();
        index.up_to(index.last()).into_iter().map(|(_, key)| key).collect()
    };
    for some in keys.chunks(PAGE) {
        for key in progress::lost(shared, some.iter()).await.map_err(troubled)? {
            outbox.lose(&key);
        }
    }
    Ok(())
}

/// Loads a config as the store has it, unless this process has newer state.
fn take_up(shared: &Shared, courier: &dyn WebhookSender, row: PushRow) {
    let mut index = shared.outbox.index.lock();
    let key = ConfigKey::of(&row);
    let known = (row.task, row.id.clone());
    // Finished here, but not saved in the store yet.
    if index.unsaved.get(&known).is_some_and(|unkept| (unkept.edition, unkept.epoch) == (key.edition, key.epoch)) {
        return;
    }
    let mut newest = row.progress.next;
    if let Some(no) = index.find(row.task, &row.id)
        && let Some(route) = index.get(no).filter(|route| route.edition == row.edition)
    {
        // In the same epoch, memory is never behind the store.
        if route.epoch == row.epoch {
            return;
        }
        // Taken over by another process and back: continue from the further progress of both.
        newest = newest.max(route.progress.next);
    }
    index.unsaved.remove(&known);
    drop(index);
    let PushRow { task, id, spec, mut progress, .. } = row;
    progress.next = newest;
    match courier.open(task, &spec) {
        Ok(spec) => shared.outbox.take(shared, key, Arc::new(spec), progress),
        Err(fault) => {
            tracing::warn!(%task, config = %id, cause = %fault.cause_text(), "a webhook is given up: {fault}");
            progress.state = PushState::Dead;
            progress.trouble = Some(format!("the config cannot be unsealed: {fault}").into());
            shared.stats.push_dead.fetch_add(1, Ordering::Relaxed);
            let unkept = UnsavedProgress { edition: key.edition, epoch: key.epoch, progress: Some(progress) };
            shared.outbox.index.lock().unsaved.insert((task, id), unkept);
            shared.outbox.unsaved.notify_one();
        }
    }
}

/// Starts jobs whenever a config is due and a slot is free.
async fn schedule(shared: Arc<Shared>, courier: Arc<dyn WebhookSender>) {
    let outbox = &shared.outbox;
    let usual = &shared.limits.push;
    let modest = PushLimits { deliveries_per_endpoint: usual.deliveries_per_endpoint.min(MODEST), ..usual.clone() };
    let mut traffic = Traffic::new();
    let mut pace = Pace::new(shared.clock.of_sleepers());
    loop {
        let now = shared.clock.of_sleepers();
        if pace.was_set(now) {
            outbox.index.lock().wake_all();
        }
        let busy = traffic.is_busy(shared.stats.events.load(Ordering::Relaxed));
        outbox.busy.store(busy, Ordering::Relaxed);
        let limits = if busy { &modest } else { usual };
        // After the lease has expired, the scheduler is woken when the configs have been compared.
        let next_wake = if outbox.is_current(&shared) {
            let mut index = outbox.index.lock();
            while let Some(job) = index.next(now, limits) {
                tokio::spawn(delivery::run(shared.clone(), courier.clone(), job));
            }
            index.next_wake()
        } else {
            None
        };
        let asleep = async {
            match next_wake {
                Some(due) => tokio::time::sleep(until(now, due).min(LONGEST_SLEEP)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = outbox.wake.notified() => {}
            () = asleep => {}
            () = outbox.closing.cancelled() => return,
        }
    }
}

/// The scheduler reads the clock at least this often while a config waits for a time: no event reports that a clock was
/// set.
const LONGEST_SLEEP: Duration = Duration::from_secs(5);

/// A clock that differs by more than this from the monotonic clock was set.
const SET_MS: i64 = 1_000;

/// Compares the wall clock with the monotonic one.
struct Pace {
    began: Instant,
    /// The wall clock when the monotonic one began.
    origin: Time,
}

impl Pace {
    fn new(now: Time) -> Pace {
        Pace { began: Instant::now(), origin: now }
    }

    /// Whether the clock was set since the last call. Drift is followed.
    fn was_set(&mut self, now: Time) -> bool {
        let passed = i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX);
        let off = now.0.saturating_sub(self.origin.0).saturating_sub(passed);
        *self = Pace::new(now);
        off.abs() > SET_MS
    }
}

/// Events per second above which callers have priority: webhooks are then delivered a few at a time to each endpoint,
/// with pauses, which is fast enough for most and leaves the cores to waiting callers.
const BUSY: f64 = 2_000.0;
const MODEST: usize = 2;
const MODEST_PAUSE: Duration = Duration::from_millis(1);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Measures the load from callers.
struct Traffic {
    since: Instant,
    events: u64,
    busy: bool,
}

impl Traffic {
    fn new() -> Traffic {
        Traffic { since: Instant::now(), events: 0, busy: false }
    }

    /// `events` is the total committed so far.
    fn is_busy(&mut self, events: u64) -> bool {
        let passed = self.since.elapsed();
        if passed >= LOOK_EVERY {
            self.busy = events.saturating_sub(self.events) as f64 / passed.as_secs_f64() > BUSY;
            (self.since, self.events) = (Instant::now(), events);
        }
        self.busy
    }
}

fn until(now: Time, due: Time) -> Duration {
    Duration::from_millis(u64::try_from(due.0 - now.0).unwrap_or_default().max(1))
}
