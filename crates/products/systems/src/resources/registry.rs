//! The registry: all resources of a server, their changes, and watches.
//!
//! A change is one commit with two records: the resource, and the revision record that counts changes. A process whose
//! state is stale fails with a conflict on the revision record, reads everything again and repeats the change. The revision
//! is therefore the version of all resources together, and other processes read it to learn whether anything is new.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use engine::{CommitError, Engine, SideWrites};
use model::ports::store::{Conflict, Store};
use model::{Expect, Fault, Json, Listed, RecordChange, RecordQuery, Time};
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::sync::{mpsc, oneshot, watch};

use super::{MOST, Origin, Resource, ResourceDocument, ResourceKind, store_fault};
use web::concurrency::{ConcurrencyLimit, ConcurrencyPermit};

/// The record that counts changes. Stored.
const REVISION: &str = "orloj/revision";
const NOW: &str = "now";
const ALL: &str = "all";
/// Records read at a time.
const PAGE: u32 = 200;
/// The events that are kept for watchers that reconnect.
const REMEMBERED: usize = 1_024;
/// The most concurrent watchers of this process.
pub(crate) const WATCHERS: u32 = 256;
/// The most attempts to read all records without a change in between.
const AGAIN: usize = 5;

/// The stored form of a resource.
#[derive(Serialize, Deserialize)]
struct ResourceRecord {
    v: u8,
    namespace: Arc<str>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<String, String>,
    generation: u64,
    created_at: i64,
    revision: u64,
    spec: Json,
}

/// The stored form of the revision: the number of the last change, and an id that makes each write unique.
#[derive(Default, Serialize, Deserialize)]
struct RevisionRecord {
    revision: u64,
    by: String,
}

/// The resources of a store, and their revision.
#[derive(Clone, Debug, Default)]
pub struct StoredResources {
    pub revision: u64,
    /// The version of the revision record in the store.
    version: u64,
    pub made: Vec<Resource>,
}

/// The number of the last change; zero before the first.
pub async fn revision(store: &Arc<dyn Store>) -> Result<u64, Fault> {
    Ok(count(store).await?.0)
}

async fn count(store: &Arc<dyn Store>) -> Result<(u64, u64), Fault> {
    let Some(record) = store.record(REVISION.into(), NOW.into()).await.map_err(store_fault)? else { return Ok((0, 0)) };
    let count: RevisionRecord = serde_json::from_slice(&record.body).map_err(Fault::internal)?;
    Ok((count.revision, record.version))
}

/// Reads all resources of a store at one revision.
pub async fn load(store: &Arc<dyn Store>) -> Result<StoredResources, Fault> {
    let mut before = count(store).await?;
    for _ in 0..AGAIN {
        let mut made = Vec::new();
        for kind in ResourceKind::ALL {
            let mut after = None;
            loop {
                let query = RecordQuery {
                    kind: kind.record().into(),
                    list: ALL.into(),
                    after: after.take(),
                    skip: 0,
                    limit: PAGE,
                    count: false,
                };
                let page = store.records(query).await.map_err(store_fault)?;
                for (record, rank) in &page.records {
                    after = Some((*rank, record.key.clone()));
                    match serde_json::from_slice::<ResourceRecord>(&record.body) {
                        Ok(kept) => made.push(resource(kind, record.key.clone(), kept)),
                        Err(error) => {
                            tracing::error!(%error, name = &*record.key, "a kept {} cannot be read", kind.name());
                        }
                    }
                }
                if !page.more {
                    break;
                }
            }
        }
        let now = count(store).await?;
        if now == before {
            made.sort_by_key(Resource::key);
            return Ok(StoredResources { revision: now.0, version: now.1, made });
        }
        before = now;
    }
    Err(Fault::new(model::Kind::Unavailable, "the resources change faster than they can be read; try again shortly"))
}

fn resource(kind: ResourceKind, name: Arc<str>, kept: ResourceRecord) -> Resource {
    let ResourceRecord { v: _, namespace, labels, annotations, generation, created_at, revision, spec } = kept;
    Resource {
        kind,
        name,
        namespace,
        labels,
        annotations,
        spec,
        generation,
        created_at: Some(Time(created_at)),
        revision,
        origin: Origin::Made,
        trouble: None,
    }
}

/// A change that a caller requests.
#[derive(Clone, Debug)]
pub enum ResourceWrite {
    /// Fails if the name exists.
    Create(ResourceDocument),
    /// Fails if the name does not exist, or if its version is not the one in `expect` or in the document.
    Update {
        document: ResourceDocument,
        expect: Option<u64>,
    },
    /// Creates or updates.
    Apply(ResourceDocument),
    Delete {
        kind: ResourceKind,
        name: Arc<str>,
        expect: Option<u64>,
    },
}

/// The outcome of a write, with the resource as it is afterwards.
pub type WriteResult = Result<(ChangeOutcome, Arc<Resource>), Error>;

/// A requested change in the queue, and the channel for its outcome.
#[derive(Debug)]
pub struct WriteRequest {
    pub write: ResourceWrite,
    /// The name of the caller, for the audit log.
    pub by: Arc<str>,
    /// None once the caller is answered.
    pub answer: Option<oneshot::Sender<WriteResult>>,
}

/// The effect of a change on a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeOutcome {
    Created,
    Configured,
    Unchanged,
    Deleted,
}

impl ChangeOutcome {
    pub fn name(self) -> &'static str {
        match self {
            ChangeOutcome::Created => "created",
            ChangeOutcome::Configured => "configured",
            ChangeOutcome::Unchanged => "unchanged",
            ChangeOutcome::Deleted => "deleted",
        }
    }
}

/// The reason why a change was not made, for the caller.
#[derive(Debug)]
pub enum Error {
    Missing(String),
    Exists(String),
    /// The resource has changed since the version that the caller expects.
    Stale(String),
    InUse(String),
    /// The resource is one of the config.
    Configured(String),
    /// The config does not allow to create this.
    NotAllowed(String),
    /// All mistakes, each with its path.
    Wrong(Vec<String>),
    Full(String),
    Fault(Fault),
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        Error::Fault(fault)
    }
}

impl Error {
    /// The message for the caller.
    pub fn says(&self) -> String {
        match self {
            Error::Missing(says)
            | Error::Exists(says)
            | Error::Stale(says)
            | Error::InUse(says)
            | Error::Configured(says)
            | Error::NotAllowed(says)
            | Error::Full(says) => says.clone(),
            Error::Wrong(wrong) => wrong.join("\n"),
            Error::Fault(fault) => fault.message.clone(),
        }
    }
}

/// The plan of a requested change.
#[derive(Clone, Debug)]
pub enum ChangePlan {
    Nothing(Arc<Resource>),
    Change(Box<PendingChange>),
}

/// A change that is not stored yet.
#[derive(Clone, Debug)]
pub struct PendingChange {
    pub outcome: ChangeOutcome,
    /// The resource after the change; before it, for a deletion.
    pub subject: Arc<Resource>,
    /// All resources created at runtime, after the change.
    pub made: Vec<Arc<Resource>>,
    /// The number of the change.
    pub revision: u64,
    version: u64,
}

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResourceEventKind {
    Added,
    Modified,
    Deleted,
}

#[derive(Clone, Debug)]
pub(crate) struct ResourceEvent {
    /// Its number among the events of this process.
    no: u64,
    revision: u64,
    pub(crate) token: String,
    pub(crate) happened: ResourceEventKind,
    pub(crate) resource: Arc<Resource>,
}

/// All resources of a server. It is shared by successive versions of the server.
#[derive(Clone)]
pub struct ResourceRegistry(Arc<Inner>);

struct Inner {
    asks: mpsc::Sender<WriteRequest>,
    state: RwLock<State>,
    /// The number of the newest event.
    news: watch::Sender<u64>,
    watching: Arc<ConcurrencyLimit>,
}

#[derive(Default)]
struct State {
    revision: u64,
    version: u64,
    all: BTreeMap<(ResourceKind, Arc<str>), Arc<Resource>>,
    /// A fingerprint of the config's resources, equal in processes with the same config.
    print: String,
    log: VecDeque<ResourceEvent>,
    /// The log has all events after this revision.
    since: u64,
    no: u64,
    shown: bool,
}

impl fmt::Debug for ResourceRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResourceRegistry").field("revision", &self.0.state.read().revision).finish_non_exhaustive()
    }
}

impl ResourceRegistry {
    /// An empty registry, and the queue of requested changes.
    pub fn new() -> (ResourceRegistry, mpsc::Receiver<WriteRequest>) {
        let (asks, asked) = mpsc::channel(64);
        let (news, _) = watch::channel(0);
        (ResourceRegistry(Arc::new(Inner { asks, state: RwLock::default(), news, watching: Arc::default() })), asked)
    }

    /// Requests a change, and waits until it is in force.
    pub async fn ask(&self, write: ResourceWrite, by: &str) -> Result<(ChangeOutcome, Arc<Resource>), Error> {
        let gone = || Fault::new(model::Kind::Unavailable, "the server is shutting down; try again shortly");
        let (answer, answered) = oneshot::channel();
        self.0.asks.send(WriteRequest { write, by: by.into(), answer: Some(answer) }).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }

    /// The resources created at runtime.
    pub fn made(&self) -> Vec<Arc<Resource>> {
        let state = self.0.state.read();
        state.all.values().filter(|resource| resource.origin == Origin::Made).cloned().collect()
    }

    pub fn revision(&self) -> u64 {
        self.0.state.read().revision
    }

    pub fn get(&self, kind: ResourceKind, name: &str) -> Option<Arc<Resource>> {
        self.0.state.read().all.get(&(kind, name.into())).cloned()
    }

    /// The resources of a kind by name, and the version of the list.
    pub(crate) fn list(&self, kind: ResourceKind) -> (Vec<Arc<Resource>>, String) {
        let state = self.0.state.read();
        let of_kind = state.all.values().filter(|resource| resource.kind == kind);
        (of_kind.cloned().collect(), state.token())
    }

    /// Checks a requested change against the current state, and plans it.
    pub fn draft(&self, write: &ResourceWrite, now: Time) -> Result<ChangePlan, Error> {
        let state = self.0.state.read();
        let (kind, name) = match write {
            ResourceWrite::Create(document)
            | ResourceWrite::Update { document, .. }
            | ResourceWrite::Apply(document) => (document.kind, Arc::from(document.name.as_str())),
            ResourceWrite::Delete { kind, name, .. } => (*kind, name.clone()),
        };
        let known = state.all.get(&(kind, name.clone()));
        let missing = || {
            let plural = kind.plural();
            Error::Missing(format!("there is no {} {name:?}; see GET /v1/{plural}", kind.name()))
        };
        if let Some(known) = known.filter(|known| known.origin == Origin::Config) {
            return Err(match write {
                ResourceWrite::Create(_) => Error::Exists(taken(known)),
                ResourceWrite::Update { .. } | ResourceWrite::Apply(_) | ResourceWrite::Delete { .. } => {
                    Error::Configured(taken(known))
                }
            });
        }
        let (document, expect) = match write {
            ResourceWrite::Create(document) => {
                if known.is_some() {
                    let says = format!("there is a {} {name:?} already; update it with PUT", kind.name());
                    return Err(Error::Exists(says));
                }
                (Some(document), None)
            }
            ResourceWrite::Update { document, expect } => {
                known.ok_or_else(missing)?;
                (Some(document), expect.or(document.version))
            }
            ResourceWrite::Apply(document) => (Some(document), document.version.filter(|_| known.is_some())),
            ResourceWrite::Delete { expect, .. } => {
                known.ok_or_else(missing)?;
                (None, *expect)
            }
        };
        if let (Some(expected), Some(known)) = (expect, known)
            && expected != known.revision
        {
            return Err(Error::Stale(format!(
                "{} {name:?} has changed since: it is of version {} now, not {expected}; get it again, make your change \
                 to that, and send it with the new version",
                kind.name(),
                known.revision
            )));
        }
        let other = match kind {
            ResourceKind::AgentSystem => ResourceKind::Agent,
            ResourceKind::Agent => ResourceKind::AgentSystem,
        };
        if let (None, Some(other)) = (known, state.all.get(&(other, name.clone()))) {
            let says = format!("{name:?} is the name of {} here, too; choose another name", described(other));
            return Err(Error::Exists(says));
        }
        let revision = state.revision + 1;
        let (outcome, subject) = match (document, known) {
            (None, Some(known)) => (ChangeOutcome::Deleted, known.clone()),
            (None, None) => return Err(missing()),
            (Some(document), known) => {
                if let Some(known) = known
                    && is_same(known, document)
                {
                    return Ok(ChangePlan::Nothing(known.clone()));
                }
                if known.is_none()
                    && state.all.values().filter(|one| one.kind == kind && one.origin == Origin::Made).count() >= MOST
                {
                    let says = format!("there are {MOST} of kind {} already; delete one first", kind.name());
                    return Err(Error::Full(says));
                }
                let outcome = if known.is_some() { ChangeOutcome::Configured } else { ChangeOutcome::Created };
                (outcome, Arc::new(made(document, known.map(|known| &**known), revision, now)))
            }
        };
        let others = state.all.values().filter(|one| one.origin == Origin::Made && one.key() != subject.key()).cloned();
        let mut made: Vec<_> = others.collect();
        if outcome != ChangeOutcome::Deleted {
            made.push(subject.clone());
        }
        made.sort_by_key(|one| one.key());
        Ok(ChangePlan::Change(Box::new(PendingChange { outcome, subject, made, revision, version: state.version })))
    }

    /// Stores a change. `false` means that another process has stored one since; the caller reads everything again.
    pub async fn keep(&self, engine: &Engine, change: &PendingChange) -> Result<bool, Fault> {
        let count = RevisionRecord { revision: change.revision, by: uuid::Uuid::now_v7().to_string() };
        let expect = if change.version == 0 { Expect::Absent } else { Expect::Version(change.version) };
        // The first record of the commit: its unique content shows whether a commit with a lost answer happened.
        let counted = RecordChange::Put {
            kind: REVISION.into(),
            key: NOW.into(),
            expect,
            body: bytes(&count)?,
            lists: Vec::new(),
        };
        let subject = &change.subject;
        let (kind, key) = (Arc::from(subject.kind.record()), subject.name.clone());
        let changed = match change.outcome {
            ChangeOutcome::Deleted => RecordChange::Remove { kind, key, expect: Expect::Any },
            ChangeOutcome::Created | ChangeOutcome::Configured | ChangeOutcome::Unchanged => RecordChange::Put {
                kind,
                key,
                expect: Expect::Any,
                body: bytes(&ResourceRecord {
                    v: 1,
                    namespace: subject.namespace.clone(),
                    labels: subject.labels.clone(),
                    annotations: subject.annotations.clone(),
                    generation: subject.generation,
                    created_at: subject.created_at.map_or(0, |at| at.0),
                    revision: subject.revision,
                    spec: subject.spec.clone(),
                })?,
                lists: vec![Listed { list: ALL.into(), rank: 0 }],
            },
        };
        match engine.keep(SideWrites { records: vec![counted, changed], ..SideWrites::default() }).await {
            Ok(()) => Ok(true),
            Err(CommitError::Met(Conflict::Record(..))) => Ok(false),
            Err(unmoved) => Err(unmoved.into()),
        }
    }

    /// The revision after a stored change.
    pub fn after(change: &PendingChange) -> StoredResources {
        StoredResources { revision: change.revision, version: change.version + 1, made: Vec::new() }
    }

    /// Publishes these as all resources, and records the differences as events. Of two with the same name the first counts,
    /// which is the config's.
    pub fn show(&self, at: &StoredResources, resources: impl IntoIterator<Item = Arc<Resource>>) {
        let mut all: BTreeMap<(ResourceKind, Arc<str>), Arc<Resource>> = BTreeMap::new();
        for resource in resources {
            all.entry(resource.key()).or_insert(resource);
        }
        let mut print = Sha256::new();
        for resource in all.values().filter(|resource| resource.origin == Origin::Config) {
            print.update(resource.to_json());
        }
        let print: String = print.finalize()[..4].iter().map(|byte| format!("{byte:02x}")).collect();
        let mut state = self.0.state.write();
        let before = std::mem::replace(&mut state.all, all);
        let known = std::mem::replace(&mut state.revision, at.revision);
        (state.version, state.print) = (at.version, print);
        if !std::mem::replace(&mut state.shown, true) {
            state.since = at.revision;
        } else {
            // A change by the config, or of the status, has no revision of its own: its event has the newest one.
            let number = |resource: &Resource| if resource.revision > known { resource.revision } else { at.revision };
            let mut events = Vec::new();
            for (key, resource) in &state.all {
                match before.get(key) {
                    None => events.push((number(resource), ResourceEventKind::Added, resource.clone())),
                    Some(old) if !old.looks_like(resource) => {
                        events.push((number(resource), ResourceEventKind::Modified, resource.clone()));
                    }
                    Some(_) => {}
                }
            }
            let gone = before.iter().filter(|(key, _)| !state.all.contains_key(*key));
            events.extend(gone.map(|(_, resource)| (at.revision, ResourceEventKind::Deleted, resource.clone())));
            events.sort_by_key(|(revision, _, _)| *revision);
            for (revision, happened, resource) in events {
                state.no += 1;
                let token = format!("{revision}-{}", state.print);
                let no = state.no;
                state.log.push_back(ResourceEvent { no, revision, token, happened, resource });
            }
            while state.log.len() > REMEMBERED {
                if let Some(gone) = state.log.pop_front() {
                    state.since = state.since.max(gone.revision);
                }
            }
        }
        let no = state.no;
        drop(state);
        self.0.news.send_replace(no);
    }

    /// Watches the resources of a kind. Without `from` the watch begins with all of them, else with the events after that
    /// token. `None` means that these are no longer kept; an error, that there are too many watchers.
    pub(crate) fn watch(&self, kind: ResourceKind, from: Option<&str>) -> Result<Option<ResourceWatcher>, ()> {
        let permit = ConcurrencyLimit::take(&self.0.watching, 0, WATCHERS).ok_or(())?;
        let state = self.0.state.read();
        let (mut ready, seen) = (
            VecDeque::new(),
            match from {
                None => state.no,
                Some(token) => match state.place(token) {
                    Some(no) => no,
                    None => return Ok(None),
                },
            },
        );
        if from.is_none() {
            let token = state.token();
            for resource in state.all.values().filter(|resource| resource.kind == kind) {
                let (no, revision, token, resource) = (0, resource.revision, token.clone(), resource.clone());
                ready.push_back(ResourceEvent { no, revision, token, happened: ResourceEventKind::Added, resource });
            }
        }
        drop(state);
        Ok(Some(ResourceWatcher {
            registry: self.clone(),
            kind,
            seen,
            ready,
            news: self.0.news.subscribe(),
            _permit: permit,
        }))
    }
}

impl State {
    fn token(&self) -> String {
        format!("{}-{}", self.revision, self.print)
    }

    /// The number of the last event before or at the version of this token; `None` if later events are no longer kept.
    fn place(&self, token: &str) -> Option<u64> {
        let (revision, print) = match token.split_once('-') {
            Some((revision, print)) => (revision, Some(print)),
            None => (token, None),
        };
        let revision: u64 = revision.parse().ok()?;
        if revision < self.since || revision > self.revision || print.is_some_and(|print| print != self.print) {
            return None;
        }
        let known = self.log.iter().rev().find(|event| event.revision <= revision).map(|event| event.no);
        let first = self.log.front().map_or(self.no, |event| event.no - 1);
        Some(known.unwrap_or(first))
    }
}

/// A watch on the resources of a kind.
pub(crate) struct ResourceWatcher {
    registry: ResourceRegistry,
    kind: ResourceKind,
    seen: u64,
    ready: VecDeque<ResourceEvent>,
    news: watch::Receiver<u64>,
    _permit: ConcurrencyPermit,
}

impl ResourceWatcher {
    /// The next event; `None` if events that this watcher has not read are no longer kept.
    pub(crate) async fn next(&mut self) -> Option<ResourceEvent> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            self.news.borrow_and_update();
            {
                let state = self.registry.0.state.read();
                if state.log.front().is_some_and(|oldest| oldest.no > self.seen + 1) {
                    return None;
                }
                let new = state.log.iter().filter(|event| event.no > self.seen && event.resource.kind == self.kind);
                self.ready.extend(new.cloned());
                self.seen = state.no;
            }
            if self.ready.is_empty() && self.news.changed().await.is_err() {
                return None;
            }
        }
    }
}

fn is_same(known: &Resource, document: &ResourceDocument) -> bool {
    *known.namespace == *namespace_of(document, Some(known))
        && known.labels == document.labels
        && known.annotations == document.annotations
        && known.spec.to_value() == document.spec.to_value()
        && order_of(known.spec.text()) == order_of(document.spec.text())
}

/// A JSON text without the whitespace between its tokens. The order of the members is kept, because it matters.
fn order_of(text: &str) -> String {
    let (mut out, mut quoted, mut escaped) = (String::with_capacity(text.len()), false, false);
    for c in text.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            c if !quoted && c.is_ascii_whitespace() => continue,
            _ => {}
        }
        out.push(c);
    }
    out
}

/// The namespace of a document; without one, that of the existing resource.
fn namespace_of<'a>(document: &'a ResourceDocument, known: Option<&'a Resource>) -> &'a str {
    document.namespace.as_deref().or(known.map(|known| &*known.namespace)).unwrap_or(super::NAMESPACE)
}

fn made(document: &ResourceDocument, known: Option<&Resource>, revision: u64, now: Time) -> Resource {
    let same = known.is_some_and(|known| order_of(known.spec.text()) == order_of(document.spec.text()));
    Resource {
        kind: document.kind,
        name: document.name.as_str().into(),
        namespace: namespace_of(document, known).into(),
        labels: document.labels.clone(),
        annotations: document.annotations.clone(),
        spec: document.spec.clone(),
        generation: known.map_or(1, |known| known.generation + u64::from(!same)),
        created_at: known.and_then(|known| known.created_at).or(Some(now)),
        revision,
        origin: Origin::Made,
        trouble: None,
    }
}

fn described(resource: &Resource) -> String {
    match resource.origin {
        Origin::Config => format!("a configured {}", resource.kind.name()),
        Origin::Made => format!("a {}", resource.kind.name()),
    }
}

/// The message about a resource of the config.
fn taken(known: &Resource) -> String {
    format!(
        "{} {:?} comes from the server's config; change it there and reload, or choose another name",
        known.kind.name(),
        known.name
    )
}

fn bytes(value: &impl Serialize) -> Result<Bytes, Fault> {
    serde_json::to_vec(value).map(Bytes::from).map_err(Fault::internal)
}

#[cfg(test)]
#[path = "registry_tests.rs"]
mod tests;
