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
use crate::resources::registry::{Error, revision};
use crate::resources::{
    ChangeOutcome, ChangePlan, PendingChange, Resource, ResourceKind, ResourceRegistry, WriteRequest, audit,
};

/// Page size of the search for running tasks.
const PAGE: usize = 1_000;

/// The registry of resources, and the queue of changes to it. It outlives the versions of the server.
pub(crate) struct SystemChanges {
    registry: ResourceRegistry,
    asks: Mutex<mpsc::Receiver<WriteRequest>>,
}

impl SystemChanges {
    pub(crate) fn new() -> SystemChanges {
        let (registry, asks) = ResourceRegistry::new();
        SystemChanges { registry, asks: Mutex::new(asks) }
    }

    pub(crate) fn registry(&self) -> &ResourceRegistry {
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
    ask: WriteRequest,
    registry: ResourceRegistry,
    change: Option<Box<PendingChange>>,
}

impl SystemChange {
    /// Answers the caller, who may be gone; the change stands either way.
    fn answer(&mut self, outcome: Result<(ChangeOutcome, Arc<Resource>), Error>) -> Progress {
        if let Some(answer) = self.ask.answer.take() {
            let _ = answer.send(outcome);
        }
        Progress::Answered
    }

    async fn checked(&self, engine: &Engine, prepared: &PreparedSystems) -> Result<(), Error> {
        let Some(change) = &self.change else { return Ok(()) };
        let subject = &change.subject;
        if change.outcome == ChangeOutcome::Deleted {
            self.refuse_if_used(engine, subject).await?;
        } else if let Some(trouble) = prepared.troubles.get(&subject.key()) {
            return Err(match trouble {
                Trouble::NotAllowed(says) => Error::NotAllowed(says.clone()),
                Trouble::Wrong(all) => Error::Wrong(all.clone()),
            });
        }
        // A resource that was served before must still be served afterwards.
        let is_served =
            |sort: ResourceKind, name: &str| self.registry.get(sort, name).is_some_and(|one| one.trouble.is_none());
        let broken = prepared
            .troubles
            .iter()
            .find(|((sort, name), _)| (*sort, name) != (subject.kind, &subject.name) && is_served(*sort, name));
        match broken {
            Some(((sort, name), trouble)) => {
                let says = format!("{}/{name} could not be served any more: {}", sort.plural(), trouble.says());
                Err(Error::InUse(says))
            }
            None => Ok(()),
        }
    }

    /// Refuses to delete an agent that a system uses, or a resource with running tasks.
    async fn refuse_if_used(&self, engine: &Engine, subject: &Resource) -> Result<(), Error> {
        let (kind, name) = (subject.kind.name(), &subject.name);
        let users = self.users_of(name);
        if !users.is_empty() {
            let says = format!("{kind} {name:?} is a node of {}; take it out there first", users.join(", "));
            return Err(Error::InUse(says));
        }
        let (store, mut after) = (engine.store(), None);
        let unavailable = |error: StoreError| Fault::new(Kind::Unavailable, error.to_string());
        loop {
            let page = store.unfinished(after, PAGE).await.map_err(unavailable)?;
            for (task, _) in &page {
                if store.head(*task).await.map_err(unavailable)?.is_some_and(|head| head.agent == *name) {
                    let says =
                        format!("{kind} {name:?} is at work on the task {task}; wait for it, or cancel it first");
                    return Err(Error::InUse(says));
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
            let is_served = one.kind == ResourceKind::AgentSystem
                && self.registry.get(one.kind, &one.name).is_some_and(|known| known.trouble.is_none());
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
            Ok(ChangePlan::Change(change)) => {
                let mut products = prepared.iter_mut().map(|product| &mut **product as &mut dyn Any);
                if let Some(prepared) = products.find_map(|product| product.downcast_mut::<PreparedSystems>()) {
                    prepared.made.clone_from(&change.made);
                    prepared.at = ResourceRegistry::after(&change);
                }
                self.change = Some(change);
                Progress::GoesOn
            }
            Ok(ChangePlan::Nothing(known)) => {
                log(&self.ask, ChangeOutcome::Unchanged, &known);
                self.answer(Ok((ChangeOutcome::Unchanged, known)))
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
                Err(fault) => self.answer(Err(Error::Fault(fault))),
            }
        })
    }

    fn done(mut self: Box<Self>, data: &Path) {
        let Some(change) = self.change.take() else { return };
        log(&self.ask, change.outcome, &change.subject);
        audit(data, &self.ask.by, change.outcome, &change.subject);
        self.answer(Ok((change.outcome, change.subject.clone())));
    }

    fn refuse(mut self: Box<Self>, message: String) {
        self.answer(Err(Error::Wrong(vec![message])));
    }

    fn fail(mut self: Box<Self>, fault: Fault) {
        self.answer(Err(Error::Fault(fault)));
    }
}

fn log(ask: &WriteRequest, verb: ChangeOutcome, resource: &Resource) {
    tracing::info!("{}/{} {} by {}", resource.kind.plural(), resource.name, verb.name(), ask.by);
}
