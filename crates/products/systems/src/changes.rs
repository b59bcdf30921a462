//! Changes of resources while the server runs: systems and agents that callers create, change and delete.

use std::any::Any;
use std::path::Path;
use std::sync::Arc;

use engine::Engine;
use futures_util::future::BoxFuture;
use gateway::product::{Prepared, Progress, RosterChange, RosterChanges};
use model::ports::store::{Store, StoreError};
use model::{Fault, Kind};
use tokio::sync::{Mutex, mpsc};

use crate::prepare::PreparedSystems;
use crate::resources::admission::{self, Trouble};
use crate::resources::shelf::revision;
use crate::resources::{Ask, Change, Draft, Refusal, Resource, Shelf, Sort, Verb, audit};

/// Page size of the search for running tasks.
const PAGE: usize = 1_000;

/// The registry of resources, and the queue of changes to it. It outlives the versions of the server.
pub(crate) struct SystemChanges {
    registry: Shelf,
    asks: Mutex<mpsc::Receiver<Ask>>,
}

impl SystemChanges {
    pub(crate) fn new() -> SystemChanges {
        let (registry, asks) = Shelf::new();
        SystemChanges { registry, asks: Mutex::new(asks) }
    }

    pub(crate) fn registry(&self) -> &Shelf {
        &self.registry
    }
}

impl RosterChanges for SystemChanges {
    fn next(&self) -> BoxFuture<'_, Box<dyn RosterChange>> {
        Box::pin(async move {
            match self.asks.lock().await.recv().await {
                Some(ask) => {
                    let registry = self.registry.clone();
                    Box::new(SystemChange { ask, registry, change: None }) as Box<dyn RosterChange>
                }
                // The registry holds the sender.
                None => std::future::pending().await,
            }
        })
    }

    fn changed_elsewhere<'a>(&'a self, store: &'a Arc<dyn Store>) -> BoxFuture<'a, Result<bool, Fault>> {
        Box::pin(async move { Ok(revision(store).await? != self.registry.revision()) })
    }
}

struct SystemChange {
    ask: Ask,
    registry: Shelf,
    change: Option<Box<Change>>,
}

impl SystemChange {
    /// Answers the caller, who may be gone; the change stands either way.
    fn answer(&mut self, outcome: Result<(Verb, Arc<Resource>), Refusal>) -> Progress {
        if let Some(answer) = self.ask.answer.take() {
            let _ = answer.send(outcome);
        }
        Progress::Answered
    }

    async fn checked(&self, engine: &Engine, prepared: &PreparedSystems) -> Result<(), Refusal> {
        let Some(change) = &self.change else { return Ok(()) };
        let subject = &change.subject;
        if change.verb == Verb::Deleted {
            self.refuse_if_used(engine, subject).await?;
        } else if let Some(trouble) = prepared.troubles.get(&subject.key()) {
            return Err(match trouble {
                Trouble::NotAllowed(says) => Refusal::NotAllowed(says.clone()),
                Trouble::Wrong(all) => Refusal::Wrong(all.clone()),
            });
        }
        // A resource that was served before must still be served afterwards.
        let is_served = |sort: Sort, name: &str| self.registry.get(sort, name).is_some_and(|one| one.trouble.is_none());
        let broken = prepared
            .troubles
            .iter()
            .find(|((sort, name), _)| (*sort, name) != (subject.sort, &subject.name) && is_served(*sort, name));
        match broken {
            Some(((sort, name), trouble)) => {
                let says = format!("{}/{name} could not be served any more: {}", sort.plural(), trouble.says());
                Err(Refusal::InUse(says))
            }
            None => Ok(()),
        }
    }

    /// Refuses to delete an agent that a system uses, or a resource with running tasks.
    async fn refuse_if_used(&self, engine: &Engine, subject: &Resource) -> Result<(), Refusal> {
        let (kind, name) = (subject.sort.kind(), &subject.name);
        let users = self.users_of(name);
        if !users.is_empty() {
            let says = format!("{kind} {name:?} is a node of {}; take it out there first", users.join(", "));
            return Err(Refusal::InUse(says));
        }
        let (store, mut after) = (engine.store(), None);
        let unavailable = |error: StoreError| Fault::new(Kind::Unavailable, error.to_string());
        loop {
            let page = store.unfinished(after, PAGE).await.map_err(unavailable)?;
            for (task, _) in &page {
                if store.head(*task).await.map_err(unavailable)?.is_some_and(|head| head.agent == *name) {
                    let says =
                        format!("{kind} {name:?} is at work on the task {task}; wait for it, or cancel it first");
                    return Err(Refusal::InUse(says));
                }
            }
            match page.last() {
                Some((last, _)) if page.len() == PAGE => after = Some(*last),
                Some(_) | None => return Ok(()),
            }
        }
    }

    /// The stored systems that are served with this agent among their nodes.
    fn users_of(&self, agent: &str) -> Vec<Arc<str>> {
        let uses = |one: &Arc<Resource>| {
            let is_served = one.sort == Sort::AgentSystem
                && self.registry.get(one.sort, &one.name).is_some_and(|known| known.trouble.is_none());
            let graph = admission::system(one).ok().and_then(|(system, _)| system.check(|_| true).ok());
            is_served && graph.is_some_and(|graph| graph.nodes().any(|node| node.agent == agent))
        };
        self.registry.made().iter().filter(|one| uses(one)).map(|one| one.name.clone()).collect()
    }
}

fn of(prepared: &[Box<dyn Prepared>]) -> Option<&PreparedSystems> {
    prepared.iter().find_map(|product| (&**product as &dyn Any).downcast_ref())
}

impl RosterChange for SystemChange {
    fn draft(&mut self, engine: &Engine, prepared: &mut [Box<dyn Prepared>]) -> Progress {
        match self.registry.draft(&self.ask.write, engine.now()) {
            Ok(Draft::Change(change)) => {
                let mut products = prepared.iter_mut().map(|product| &mut **product as &mut dyn Any);
                if let Some(prepared) = products.find_map(|product| product.downcast_mut::<PreparedSystems>()) {
                    prepared.made.clone_from(&change.made);
                    prepared.at = Shelf::after(&change);
                }
                self.change = Some(change);
                Progress::GoesOn
            }
            Ok(Draft::Nothing(known)) => {
                log(&self.ask, Verb::Unchanged, &known);
                self.answer(Ok((Verb::Unchanged, known)))
            }
            Err(refusal) => self.answer(Err(refusal)),
        }
    }

    fn check<'a>(&'a mut self, engine: &'a Engine, prepared: &'a [Box<dyn Prepared>]) -> BoxFuture<'a, Progress> {
        Box::pin(async move {
            let Some(prepared) = of(prepared) else { return Progress::GoesOn };
            match self.checked(engine, prepared).await {
                Ok(()) => Progress::GoesOn,
                Err(refusal) => self.answer(Err(refusal)),
            }
        })
    }

    fn store<'a>(&'a mut self, engine: &'a Engine) -> BoxFuture<'a, Progress> {
        Box::pin(async move {
            let Some(change) = &self.change else { return Progress::GoesOn };
            match self.registry.keep(engine, change).await {
                Ok(true) => Progress::GoesOn,
                Ok(false) => Progress::Conflict,
                Err(fault) => self.answer(Err(Refusal::Fault(fault))),
            }
        })
    }

    fn done(mut self: Box<Self>, data: &Path) {
        let Some(change) = self.change.take() else { return };
        log(&self.ask, change.verb, &change.subject);
        audit(data, &self.ask.by, change.verb, &change.subject);
        self.answer(Ok((change.verb, change.subject.clone())));
    }

    fn refuse(mut self: Box<Self>, message: String) {
        self.answer(Err(Refusal::Wrong(vec![message])));
    }

    fn fail(mut self: Box<Self>, fault: Fault) {
        self.answer(Err(Refusal::Fault(fault)));
    }
}

fn log(ask: &Ask, verb: Verb, resource: &Resource) {
    tracing::info!("{}/{} {} by {}", resource.sort.plural(), resource.name, verb.name(), ask.by);
}
