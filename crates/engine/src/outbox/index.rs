//! Every active config of this process: its phase, and the order of deliveries. Pure state behind one short lock,
//! without waiting or I/O.
//!
//! Endpoints take turns in a ring, and an endpoint with more deliveries in flight must leave more slots free for
//! others: a hanging endpoint never takes all slots, nor do several.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use model::limits::PushLimits;
use model::{Epoch, PushProgress, PushRow, PushSpec, PushState, Seq, TaskId, Time};
use tokio::sync::oneshot;

use super::endpoint::{Breaker, Endpoint, Tripped};

/// The number of an active config in memory. Never reused, so that late results for a removed config find nothing.
pub(super) type RouteNo = u64;

/// A config as the store knows it: progress of another edition or epoch does not belong to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ConfigKey {
    pub(crate) task: TaskId,
    pub(crate) id: Arc<str>,
    pub(crate) edition: u64,
    pub(crate) epoch: Epoch,
}

pub(super) struct DeliveryRoute {
    pub(super) task: TaskId,
    pub(super) id: Arc<str>,
    pub(super) edition: u64,
    pub(super) epoch: Epoch,
    pub(super) spec: Arc<PushSpec>,
    pub(super) endpoint: Arc<str>,
    pub(super) progress: PushProgress,
    /// The next event according to the store: earlier ones are never delivered again.
    kept: Seq,
    /// Its job waits until the store has saved the delivery of this event. Dropped with the route, and when the
    /// progress is set from outside: the job then stops waiting.
    waiter: Option<(Seq, oneshot::Sender<()>)>,
    phase: Phase,
    /// How often its progress was set from outside: results of deliveries that began before are ignored.
    pub(super) resets: u32,
}

impl ConfigKey {
    pub(crate) fn of(row: &PushRow) -> ConfigKey {
        ConfigKey { task: row.task, id: row.id.clone(), edition: row.edition, epoch: row.epoch }
    }
}

impl DeliveryRoute {
    pub(super) fn key(&self) -> ConfigKey {
        ConfigKey { task: self.task, id: self.id.clone(), edition: self.edition, epoch: self.epoch }
    }

    pub(super) fn is(&self, key: &ConfigKey) -> bool {
        (self.edition, self.epoch) == (key.edition, key.epoch)
    }

    /// Resolves once the store has saved the delivery of this event; fails if the route is removed or reset first.
    pub(super) fn once_kept(&mut self, seq: Seq) -> oneshot::Receiver<()> {
        let (waiter, kept) = oneshot::channel();
        self.waiter = Some((seq, waiter));
        self.answer_waiter();
        kept
    }

    fn answer_waiter(&mut self) {
        let kept = self.kept;
        if let Some((_, waiter)) = self.waiter.take_if(|(seq, _)| kept > *seq) {
            // Without a receiver the job has ended.
            let _ = waiter.send(());
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No known event to deliver.
    Idle,
    /// In its endpoint's queue.
    Ready,
    Working {
        /// More events have arrived since it began.
        again: bool,
    },
    /// Waiting for its next attempt.
    Waiting,
}

/// An action at a given time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Wake {
    Route(RouteNo),
    Endpoint(Arc<str>),
}

/// A delivery that may begin.
pub(super) struct DeliveryJob {
    pub(super) no: RouteNo,
    pub(super) task: TaskId,
    pub(super) id: Arc<str>,
    pub(super) edition: u64,
    pub(super) epoch: Epoch,
    pub(super) spec: Arc<PushSpec>,
    pub(super) endpoint: Arc<str>,
    /// The endpoint's `vouched` count when the job began.
    vouched: u32,
}

/// A delivery of a product to an endpoint.
pub(super) struct GuestDelivery {
    /// A number like those of configs, so that it can be the breaker's probe.
    no: RouteNo,
    pub(super) endpoint: Arc<str>,
    vouched: u32,
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeliveryEnd {
    /// Every known event was delivered.
    Idle,
    /// More events are left, but other configs go first; or the job had to stop.
    Later,
    /// No attempt before this time.
    Wait(Time),
    /// The route was removed.
    Over,
}

/// Endpoints that only products deliver to and whose failures are remembered; the failures of further ones are not.
const MAX_REMEMBERED: usize = 4_096;

/// State that is not in the store yet, by config: its progress, or that it was removed.
pub(super) type Unsaved = HashMap<(TaskId, Arc<str>), UnsavedProgress>;

pub(super) struct UnsavedProgress {
    pub(super) edition: u64,
    pub(super) epoch: Epoch,
    pub(super) progress: Option<PushProgress>,
}

#[derive(Default)]
pub(super) struct Index {
    routes: HashMap<RouteNo, DeliveryRoute>,
    of_task: HashMap<TaskId, Vec<RouteNo>>,
    endpoints: HashMap<Arc<str>, Endpoint>,
    /// The endpoints with ready configs that may be delivered to, in order of their turns.
    ring: VecDeque<Arc<str>>,
    wakes: BTreeSet<(Time, Wake)>,
    pub(super) unsaved: Unsaved,
    /// Configs that were set or removed here while rows are being read from the store: their rows are outdated.
    pub(super) touched: Option<HashSet<(TaskId, Arc<str>)>>,
    /// The store refuses to save progress now.
    pub(super) stalled: bool,
    pub(super) running: usize,
    last: RouteNo,
    queued: usize,
}

impl Index {
    pub(super) fn len(&self) -> usize {
        self.routes.len()
    }

    /// Configs with a pending event that is not being delivered.
    pub(super) fn waiting(&self) -> usize {
        self.queued
    }

    pub(super) fn breakers_open(&self) -> usize {
        self.endpoints.values().filter(|endpoint| !endpoint.breaker.is_closed()).count()
    }

    pub(super) fn get(&self, no: RouteNo) -> Option<&DeliveryRoute> {
        self.routes.get(&no)
    }

    pub(super) fn get_mut(&mut self, no: RouteNo) -> Option<&mut DeliveryRoute> {
        self.routes.get_mut(&no)
    }

    /// The number of the latest config.
    pub(super) fn last(&self) -> RouteNo {
        self.last
    }

    /// Every task with configs here.
    pub(super) fn tasks(&self) -> Vec<TaskId> {
        self.of_task.keys().copied().collect()
    }

    /// Every config up to number `last`.
    pub(super) fn up_to(&self, last: RouteNo) -> Vec<(RouteNo, ConfigKey)> {
        self.routes.iter().filter(|(no, _)| **no <= last).map(|(no, route)| (*no, route.key())).collect()
    }

    /// The store has saved this progress of a config.
    pub(super) fn keep(&mut self, key: &ConfigKey, next: Seq) {
        let route = self.find(key.task, &key.id).and_then(|no| self.routes.get_mut(&no));
        if let Some(route) = route.filter(|route| route.is(key)) {
            route.kept = route.kept.max(next);
            route.answer_waiter();
        }
    }

    /// Marks a config that was changed here, so that rows read before the change are ignored.
    pub(super) fn touch(&mut self, task: TaskId, id: &Arc<str>) {
        if let Some(touched) = &mut self.touched {
            touched.insert((task, id.clone()));
        }
    }

    pub(super) fn find(&self, task: TaskId, id: &str) -> Option<RouteNo> {
        self.of_task.get(&task)?.iter().copied().find(|no| self.routes.get(no).is_some_and(|route| *route.id == *id))
    }

    /// Adds a config, replacing the one with its id. Returns whether its task is new here.
    pub(super) fn add(
        &mut self,
        ConfigKey { task, id, edition, epoch }: ConfigKey,
        spec: Arc<PushSpec>,
        endpoint: Arc<str>,
        progress: PushProgress,
        now: Time,
    ) -> bool {
        let replaced = self.find(task, &id);
        self.last += 1;
        let no = self.last;
        // Only a failed attempt makes a config wait. For any other config a later `due` was read from another clock, or
        // from this one before it was set back.
        let waits = progress.attempts > 0 && progress.due > now;
        let kept = progress.next;
        let phase = Phase::Idle;
        let (waiter, resets) = (None, 0);
        let route = DeliveryRoute { task, id, edition, epoch, spec, endpoint, progress, kept, waiter, phase, resets };
        self.endpoints.entry(route.endpoint.clone()).or_default().routes += 1;
        self.routes.insert(no, route);
        let of_task = self.of_task.entry(task).or_default();
        let fresh = of_task.is_empty();
        of_task.push(no);
        if let Some(old) = replaced {
            self.remove(old);
        }
        self.set(no, if waits { Phase::Waiting } else { Phase::Ready });
        fresh
    }

    /// Removes a config. Returns whether it was its task's last.
    pub(super) fn remove(&mut self, no: RouteNo) -> bool {
        self.set(no, Phase::Idle);
        let Some(route) = self.routes.remove(&no) else { return false };
        if let Some(endpoint) = self.endpoints.get_mut(&route.endpoint) {
            endpoint.routes -= 1;
        }
        self.tidy(&route.endpoint, None);
        let Some(of_task) = self.of_task.get_mut(&route.task) else { return false };
        of_task.retain(|other| *other != no);
        let last = of_task.is_empty();
        if last {
            self.of_task.remove(&route.task);
        }
        last
    }

    pub(super) fn keys_of(&self, task: TaskId) -> Vec<ConfigKey> {
        self.routes_of(task).iter().filter_map(|no| Some(self.routes.get(no)?.key())).collect()
    }

    pub(super) fn routes_of(&self, task: TaskId) -> Vec<RouteNo> {
        self.of_task.get(&task).cloned().unwrap_or_default()
    }

    /// A task's log has grown. Returns whether a delivery is pending.
    pub(super) fn told(&mut self, task: TaskId, seq: Seq) -> bool {
        let mut news = false;
        for no in self.routes_of(task) {
            match self.routes.get(&no) {
                Some(route) if route.progress.next > seq => continue,
                Some(route) => match route.phase {
                    Phase::Idle => self.set(no, Phase::Ready),
                    Phase::Working { .. } => self.set(no, Phase::Working { again: true }),
                    Phase::Ready | Phase::Waiting => continue,
                },
                None => continue,
            }
            news = true;
        }
        news
    }

    /// Makes every waiting config due now: after the clock was set, the times they wait for are meaningless.
    pub(super) fn wake_all(&mut self) {
        self.wake(Time(i64::MAX));
    }

    /// Wakes every due config and breaker.
    fn wake(&mut self, now: Time) {
        while let Some((due, _)) = self.wakes.first()
            && *due <= now
            && let Some((_, wake)) = self.wakes.pop_first()
        {
            match wake {
                Wake::Route(no) => self.set(no, Phase::Ready),
                Wake::Endpoint(name) => {
                    if let Some(endpoint) = self.endpoints.get_mut(&name)
                        && endpoint.breaker.open_until().is_some_and(|until| until <= now)
                    {
                        endpoint.breaker.half();
                    }
                    self.join_ring(&name);
                    self.tidy(&name, Some(now));
                }
            }
        }
    }

    /// The time of the next action that no event triggers.
    pub(super) fn next_wake(&self) -> Option<Time> {
        self.wakes.first().map(|(due, _)| *due)
    }

    /// Progress is not being saved: further deliveries would be repeated after a crash.
    pub(super) fn is_held_up(&self) -> bool {
        self.stalled
    }

    /// The next delivery to begin, if there is one and a free slot.
    pub(super) fn next(&mut self, now: Time, limits: &PushLimits) -> Option<DeliveryJob> {
        self.wake(now);
        if self.is_held_up() {
            return None;
        }
        for _ in 0..self.ring.len() {
            let free = limits.deliveries.saturating_sub(self.running);
            let name = self.ring.pop_front()?;
            let Some(endpoint) = self.endpoints.get_mut(&name) else { continue };
            endpoint.in_ring = false;
            if endpoint.ready.is_empty() || !endpoint.breaker.admits() {
                continue;
            }
            if endpoint.running >= limits.deliveries_per_endpoint.min(free) {
                self.join_ring(&name);
                continue;
            }
            let Some(no) = endpoint.ready.front().copied() else { continue };
            let Some(route) = self.routes.get(&no) else { continue };
            let ConfigKey { task, id, edition, epoch } = route.key();
            let spec = route.spec.clone();
            let vouched = endpoint.vouched;
            endpoint.running += 1;
            endpoint.breaker.begins(no);
            self.running += 1;
            self.set(no, Phase::Working { again: false });
            self.join_ring(&name);
            return Some(DeliveryJob { no, task, id, edition, epoch, spec, endpoint: name, vouched });
        }
        None
    }

    /// The route of a running job, if it still exists and may continue with another delivery.
    pub(super) fn goes_on(&self, no: RouteNo) -> Option<&DeliveryRoute> {
        let route = self.routes.get(&no)?;
        let lets = self.endpoints.get(&route.endpoint).is_some_and(|endpoint| endpoint.breaker.lets_go_on(no));
        (lets && !self.is_held_up()).then_some(route)
    }

    pub(super) fn finished(&mut self, job: &DeliveryJob, end: DeliveryEnd) {
        self.running -= 1;
        if let Some(endpoint) = self.endpoints.get_mut(&job.endpoint) {
            endpoint.running -= 1;
            endpoint.breaker.ends(job.no);
        }
        let again = self.routes.get(&job.no).is_some_and(|route| route.phase == Phase::Working { again: true });
        match end {
            DeliveryEnd::Idle if again => self.set(job.no, Phase::Ready),
            DeliveryEnd::Idle => self.set(job.no, Phase::Idle),
            DeliveryEnd::Later => self.set(job.no, Phase::Ready),
            DeliveryEnd::Wait(due) => {
                if let Some(route) = self.routes.get_mut(&job.no) {
                    route.progress.due = due;
                }
                self.set(job.no, Phase::Waiting);
            }
            DeliveryEnd::Over => {}
        }
        self.join_ring(&job.endpoint);
        self.tidy(&job.endpoint, None);
    }

    /// Begins a product's delivery to an endpoint. The error is the time before which it should not ask again.
    pub(super) fn guest_begins(
        &mut self,
        name: &Arc<str>,
        now: Time,
        limits: &PushLimits,
    ) -> Result<GuestDelivery, Time> {
        // Without a sender for configs no scheduler does it.
        self.wake(now);
        self.last += 1;
        let no = self.last;
        let endpoint = self.endpoints.entry(name.clone()).or_default();
        if let Some(until) = endpoint.breaker.open_until() {
            if until <= now.plus_ms(limits.breaker_most_ms.max(limits.breaker_ms)) {
                return Err(until);
            }
            // The clock was set back.
            endpoint.breaker.half();
        }
        if !endpoint.breaker.admits() {
            return Err(now.plus_ms(limits.breaker_ms));
        }
        endpoint.breaker.begins(no);
        endpoint.guests += 1;
        Ok(GuestDelivery { no, endpoint: name.clone(), vouched: endpoint.vouched })
    }

    /// Its failure counts for the endpoint.
    pub(super) fn guest_failed(&mut self, guest: &GuestDelivery, now: Time, limits: &PushLimits) -> Tripped {
        self.delivery_failed(&guest.endpoint, guest.no, guest.vouched, now, limits)
    }

    pub(super) fn guest_finished(&mut self, guest: &GuestDelivery) {
        if let Some(endpoint) = self.endpoints.get_mut(&guest.endpoint) {
            endpoint.guests -= 1;
            endpoint.breaker.ends(guest.no);
        }
        self.join_ring(&guest.endpoint);
        self.tidy(&guest.endpoint, None);
    }

    pub(super) fn endpoint_answered(&mut self, name: &Arc<str>) {
        let breaker = self.endpoints.get_mut(name).map(|endpoint| std::mem::take(&mut endpoint.breaker));
        if let Some(until) = breaker.as_ref().and_then(Breaker::open_until) {
            self.wakes.remove(&(until, Wake::Endpoint(name.clone())));
        }
        if breaker.is_some_and(|breaker| !breaker.is_closed()) {
            self.join_ring(name);
        }
    }

    pub(super) fn endpoint_failed(&mut self, job: &DeliveryJob, now: Time, limits: &PushLimits) -> Tripped {
        self.delivery_failed(&job.endpoint, job.no, job.vouched, now, limits)
    }

    fn delivery_failed(
        &mut self,
        name: &Arc<str>,
        no: RouteNo,
        vouched: u32,
        now: Time,
        limits: &PushLimits,
    ) -> Tripped {
        let known = self.endpoints.get_mut(name).filter(|endpoint| endpoint.vouched == vouched);
        let Some(endpoint) = known else { return Tripped::No };
        let tripped = endpoint.breaker.failed(no, now, limits);
        if let Tripped::Until(until) = tripped {
            self.wakes.insert((until, Wake::Endpoint(name.clone())));
        }
        tripped
    }

    /// Sets the progress from outside, as the store has it in this epoch: deliveries restart from there. The result of
    /// a delivery in flight is ignored.
    pub(super) fn reset(&mut self, no: RouteNo, epoch: Epoch, progress: PushProgress) {
        let Some(route) = self.routes.get_mut(&no) else { return };
        self.unsaved.remove(&(route.task, route.id.clone()));
        (route.epoch, route.kept, route.waiter) = (epoch, progress.next, None);
        let name = route.endpoint.clone();
        route.resets = route.resets.wrapping_add(1);
        let waits = route.phase == Phase::Waiting;
        let due = std::mem::replace(&mut route.progress, progress).due;
        let phase = match route.phase {
            Phase::Working { .. } => Phase::Working { again: true },
            Phase::Idle | Phase::Ready | Phase::Waiting => Phase::Ready,
        };
        if waits {
            self.wakes.remove(&(due, Wake::Route(no)));
        }
        self.set(no, phase);
        self.vouch(&name);
    }

    /// An operator or the owner says that the endpoint is back.
    pub(super) fn vouch(&mut self, name: &Arc<str>) {
        self.endpoint_answered(name);
        if let Some(endpoint) = self.endpoints.get_mut(name) {
            endpoint.vouched = endpoint.vouched.wrapping_add(1);
        }
        self.tidy(name, None);
    }

    /// Queues a route's progress for saving.
    pub(super) fn save(&mut self, no: RouteNo) {
        let Some(route) = self.routes.get(&no) else { return };
        let DeliveryRoute { task, id, edition, epoch, progress, .. } = route;
        let unkept = UnsavedProgress { edition: *edition, epoch: *epoch, progress: Some(progress.clone()) };
        self.unsaved.insert((*task, id.clone()), unkept);
    }

    /// Ends a config's deliveries with this state, to be saved, and drops it here. Returns whether it was its task's
    /// last.
    pub(super) fn retire(&mut self, no: RouteNo, state: PushState) -> bool {
        if let Some(route) = self.routes.get_mut(&no) {
            route.progress.state = state;
        }
        self.save(no);
        self.remove(no)
    }

    /// Removes a config with its task's end. Returns whether it was its task's last.
    pub(super) fn clear(&mut self, no: RouteNo) -> bool {
        if let Some(DeliveryRoute { task, id, edition, epoch, .. }) = self.routes.get(&no) {
            let unkept = UnsavedProgress { edition: *edition, epoch: *epoch, progress: None };
            self.unsaved.insert((*task, id.clone()), unkept);
        }
        self.remove(no)
    }

    /// The only place that changes a phase, together with the queue that the phase stands for.
    fn set(&mut self, no: RouteNo, phase: Phase) {
        let Some(route) = self.routes.get_mut(&no) else { return };
        let (was, due, name) = (std::mem::replace(&mut route.phase, phase), route.progress.due, route.endpoint.clone());
        let is_queued = |phase| match phase {
            Phase::Ready | Phase::Waiting => true,
            Phase::Idle | Phase::Working { .. } => false,
        };
        self.queued = self.queued + usize::from(is_queued(phase)) - usize::from(is_queued(was));
        if was == Phase::Waiting && phase != Phase::Waiting {
            self.wakes.remove(&(due, Wake::Route(no)));
        }
        if phase == Phase::Waiting {
            self.wakes.insert((due, Wake::Route(no)));
        }
        if was != Phase::Ready && phase == Phase::Ready {
            if let Some(endpoint) = self.endpoints.get_mut(&name) {
                endpoint.ready.push_back(no);
            }
            self.join_ring(&name);
        }
        if was == Phase::Ready
            && phase != Phase::Ready
            && let Some(endpoint) = self.endpoints.get_mut(&name)
        {
            match endpoint.ready.front() {
                Some(first) if *first == no => drop(endpoint.ready.pop_front()),
                Some(_) | None => endpoint.ready.retain(|other| *other != no),
            }
        }
    }

    fn join_ring(&mut self, name: &Arc<str>) {
        if let Some(endpoint) = self.endpoints.get_mut(name)
            && !endpoint.in_ring
            && !endpoint.ready.is_empty()
            && endpoint.breaker.admits()
        {
            endpoint.in_ring = true;
            self.ring.push_back(name.clone());
        }
    }

    /// Drops an endpoint that is not in use, once its failures are forgotten. Without `now` that is later.
    fn tidy(&mut self, name: &Arc<str>, now: Option<Time>) {
        let Some(endpoint) = self.endpoints.get(name).filter(|endpoint| !endpoint.is_used()) else { return };
        let full = self.endpoints.len() > MAX_REMEMBERED && endpoint.breaker.open_until().is_none();
        match endpoint.breaker.forgotten_at() {
            Some(at) if !full && now.is_none_or(|now| at > now) => {
                self.wakes.insert((at, Wake::Endpoint(name.clone())));
            }
            Some(_) | None => {
                self.endpoints.remove(name);
            }
        }
    }
}
