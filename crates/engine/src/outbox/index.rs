//! Every active config of this process: what it waits for, and whose turn it is next. Nothing here waits, reads or writes;
//! all of it is behind one short lock.
//!
//! An endpoint takes its turn in a ring, and the more deliveries to it are under way the more room must be left for
//! others: one that hangs never has all the slots, nor do several.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use model::limits::PushLimits;
use model::{PushProgress, PushSpec, PushState, Seq, TaskId, Time};

use super::endpoint::{Breaker, Endpoint, Tripped};

/// An active config in memory. Never used again, so that what comes in late for one that is gone finds nothing.
pub(super) type No = u64;

/// So many deliveries may be taken without their progress being kept.
const AHEAD: usize = 4_096;

pub(super) struct Route {
    pub(super) task: TaskId,
    pub(super) id: Arc<str>,
    pub(super) edition: u64,
    pub(super) spec: Arc<PushSpec>,
    pub(super) endpoint: Arc<str>,
    pub(super) progress: PushProgress,
    phase: Phase,
    /// How often its progress was set from outside: what was under way then counts for nothing.
    pub(super) resets: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing to deliver that we know of.
    Idle,
    /// In its endpoint's queue.
    Ready,
    Working {
        /// There is more since it began.
        again: bool,
    },
    /// For its next attempt.
    Waiting,
}

/// Something to do at a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Wake {
    Route(No),
    Endpoint(Arc<str>),
}

/// A delivery that may begin.
pub(super) struct Job {
    pub(super) no: No,
    pub(super) task: TaskId,
    pub(super) id: Arc<str>,
    pub(super) edition: u64,
    pub(super) spec: Arc<PushSpec>,
    pub(super) endpoint: Arc<str>,
    /// How often somebody had said by then that the endpoint is back.
    vouched: u32,
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Everything there is has been delivered.
    Idle,
    /// There is more, but others have their turn first; or it had to stop.
    Later,
    /// Not before then.
    Wait(Time),
    /// The route is gone.
    Over,
}

/// What is not in the store yet, by config, with its edition: its progress, or that it is over and gone.
pub(super) type Unsaved = HashMap<(TaskId, Arc<str>), (u64, Option<PushProgress>)>;

#[derive(Default)]
pub(super) struct Index {
    routes: HashMap<No, Route>,
    of_task: HashMap<TaskId, Vec<No>>,
    endpoints: HashMap<Arc<str>, Endpoint>,
    /// The endpoints that have something ready and may be delivered to, in the order of their turns.
    ring: VecDeque<Arc<str>>,
    wakes: BTreeSet<(Time, Wake)>,
    pub(super) unsaved: Unsaved,
    /// Deliveries taken since their progress was last known to be kept.
    pub(super) ahead: usize,
    /// The store keeps no progress right now.
    pub(super) stalled: bool,
    pub(super) running: usize,
    last: No,
    queued: usize,
}

impl Index {
    pub(super) fn len(&self) -> usize {
        self.routes.len()
    }

    /// Configs with something to deliver that is not on its way.
    pub(super) fn waiting(&self) -> usize {
        self.queued
    }

    pub(super) fn breakers_open(&self) -> usize {
        self.endpoints.values().filter(|endpoint| !endpoint.breaker.is_closed()).count()
    }

    pub(super) fn get(&self, no: No) -> Option<&Route> {
        self.routes.get(&no)
    }

    pub(super) fn get_mut(&mut self, no: No) -> Option<&mut Route> {
        self.routes.get_mut(&no)
    }

    /// The number the latest config was given.
    pub(super) fn last(&self) -> No {
        self.last
    }

    /// Every task with configs here.
    pub(super) fn tasks(&self) -> Vec<TaskId> {
        self.of_task.keys().copied().collect()
    }

    /// Every config up to number `last`: its number, task, id and edition.
    pub(super) fn up_to(&self, last: No) -> Vec<(No, TaskId, Arc<str>, u64)> {
        let routes = self.routes.iter().filter(|(no, _)| **no <= last);
        routes.map(|(no, route)| (*no, route.task, route.id.clone(), route.edition)).collect()
    }

    pub(super) fn find(&self, task: TaskId, id: &str) -> Option<No> {
        self.of_task.get(&task)?.iter().copied().find(|no| self.routes.get(no).is_some_and(|route| *route.id == *id))
    }

    /// Adds a config, in the place of the one with its id. Answers whether its task is new here.
    pub(super) fn add(
        &mut self,
        (task, id, edition): (TaskId, Arc<str>, u64),
        spec: Arc<PushSpec>,
        endpoint: Arc<str>,
        progress: PushProgress,
        now: Time,
    ) -> bool {
        let replaced = self.find(task, &id);
        self.last += 1;
        let (no, due) = (self.last, progress.due);
        let route = Route { task, id, edition, spec, endpoint, progress, phase: Phase::Idle, resets: 0 };
        self.endpoints.entry(route.endpoint.clone()).or_default().routes += 1;
        self.routes.insert(no, route);
        let of_task = self.of_task.entry(task).or_default();
        let fresh = of_task.is_empty();
        of_task.push(no);
        if let Some(old) = replaced {
            self.remove(old);
        }
        self.set(no, if due > now { Phase::Waiting } else { Phase::Ready });
        fresh
    }

    /// Takes a config out. Answers whether it was its task's last.
    pub(super) fn remove(&mut self, no: No) -> bool {
        self.set(no, Phase::Idle);
        let Some(route) = self.routes.remove(&no) else { return false };
        if let Some(endpoint) = self.endpoints.get_mut(&route.endpoint) {
            endpoint.routes -= 1;
        }
        self.tidy(&route.endpoint);
        let Some(of_task) = self.of_task.get_mut(&route.task) else { return false };
        of_task.retain(|other| *other != no);
        let last = of_task.is_empty();
        if last {
            self.of_task.remove(&route.task);
        }
        last
    }

    pub(super) fn routes_of(&self, task: TaskId) -> Vec<No> {
        self.of_task.get(&task).cloned().unwrap_or_default()
    }

    /// A task's log has grown. Answers whether there is something to do.
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

    /// What is due, whoever it is for.
    fn wake(&mut self, now: Time) {
        while let Some((due, _)) = self.wakes.first()
            && *due <= now
            && let Some((_, wake)) = self.wakes.pop_first()
        {
            match wake {
                Wake::Route(no) => self.set(no, Phase::Ready),
                Wake::Endpoint(name) => {
                    if let Some(endpoint) = self.endpoints.get_mut(&name) {
                        endpoint.breaker.half();
                    }
                    self.join_ring(&name);
                    self.tidy(&name);
                }
            }
        }
    }

    /// When there will be something to do that nobody tells of.
    pub(super) fn next_wake(&self) -> Option<Time> {
        self.wakes.first().map(|(due, _)| *due)
    }

    /// The store is behind: whoever delivers more now would deliver it again after a crash.
    pub(super) fn is_held_up(&self) -> bool {
        self.stalled || self.ahead >= AHEAD
    }

    /// The next delivery to begin, if there is one and a slot for it.
    pub(super) fn next(&mut self, now: Time, limits: &PushLimits) -> Option<Job> {
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
            let (task, id, edition, spec) = (route.task, route.id.clone(), route.edition, route.spec.clone());
            let vouched = endpoint.vouched;
            endpoint.running += 1;
            endpoint.breaker.begins(no);
            self.running += 1;
            self.set(no, Phase::Working { again: false });
            self.join_ring(&name);
            return Some(Job { no, task, id, edition, spec, endpoint: name, vouched });
        }
        None
    }

    /// The route of a delivery under way, if it is still there and may go on with another letter.
    pub(super) fn goes_on(&self, no: No) -> Option<&Route> {
        let route = self.routes.get(&no)?;
        let lets = self.endpoints.get(&route.endpoint).is_some_and(|endpoint| endpoint.breaker.lets_go_on(no));
        (lets && !self.is_held_up()).then_some(route)
    }

    pub(super) fn finished(&mut self, job: &Job, end: End) {
        self.running -= 1;
        if let Some(endpoint) = self.endpoints.get_mut(&job.endpoint) {
            endpoint.running -= 1;
            endpoint.breaker.ends(job.no);
        }
        let again = self.routes.get(&job.no).is_some_and(|route| route.phase == Phase::Working { again: true });
        match end {
            End::Idle if again => self.set(job.no, Phase::Ready),
            End::Idle => self.set(job.no, Phase::Idle),
            End::Later => self.set(job.no, Phase::Ready),
            End::Wait(due) => {
                if let Some(route) = self.routes.get_mut(&job.no) {
                    route.progress.due = due;
                }
                self.set(job.no, Phase::Waiting);
            }
            End::Over => {}
        }
        self.join_ring(&job.endpoint);
        self.tidy(&job.endpoint);
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

    pub(super) fn endpoint_failed(&mut self, job: &Job, now: Time, limits: &PushLimits) -> Tripped {
        let name = &job.endpoint;
        let known = self.endpoints.get_mut(name).filter(|endpoint| endpoint.vouched == job.vouched);
        let Some(endpoint) = known else { return Tripped::No };
        let tripped = endpoint.breaker.failed(job.no, now, limits);
        if let Tripped::Until(until) = tripped {
            self.wakes.insert((until, Wake::Endpoint(name.clone())));
        }
        tripped
    }

    /// Sets the progress from outside: deliveries begin again from there. What is under way is finished and forgotten.
    pub(super) fn reset(&mut self, no: No, progress: PushProgress) {
        let Some(route) = self.routes.get_mut(&no) else { return };
        let key = (route.task, route.id.clone());
        self.unsaved.insert(key, (route.edition, Some(progress.clone())));
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
        self.endpoint_answered(&name);
        if let Some(endpoint) = self.endpoints.get_mut(&name) {
            endpoint.vouched = endpoint.vouched.wrapping_add(1);
        }
    }

    /// Remembers what is to be kept of a route.
    pub(super) fn save(&mut self, no: No) {
        let Some(route) = self.routes.get(&no) else { return };
        self.unsaved.insert((route.task, route.id.clone()), (route.edition, Some(route.progress.clone())));
    }

    /// Out of active service: kept as it ended, and forgotten here. Answers whether it was its task's last.
    pub(super) fn retire(&mut self, no: No, state: PushState) -> bool {
        if let Some(route) = self.routes.get_mut(&no) {
            route.progress.state = state;
        }
        self.save(no);
        self.remove(no)
    }

    /// Its task is over, and it goes with it. Answers whether it was its task's last.
    pub(super) fn clear(&mut self, no: No) -> bool {
        if let Some(route) = self.routes.get(&no) {
            self.unsaved.insert((route.task, route.id.clone()), (route.edition, None));
        }
        self.remove(no)
    }

    /// The one place where a phase changes, with the queue it stands for.
    fn set(&mut self, no: No, phase: Phase) {
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

    fn tidy(&mut self, name: &Arc<str>) {
        if self.endpoints.get(name).is_some_and(Endpoint::is_idle) {
            self.endpoints.remove(name);
        }
    }
}
