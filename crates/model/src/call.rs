//! What a caller wants, in canonical form. Dialects decode to it; the engine carries it out.

use std::sync::Arc;

use crate::{ContextId, Json, Message, State, Time, View};

/// Who is asking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub tenant: Arc<str>,
    /// The name of the credential; for a caller without one, `anonymous`.
    pub name: Arc<str>,
    pub authenticated: bool,
    /// What its credential is good for; empty is everything.
    pub scopes: Arc<[String]>,
}

impl Caller {
    /// Whether its credential is good for this system: one without scopes is good for everything.
    pub fn is_bound_to(&self, system: &str) -> bool {
        self.authenticated
            && (self.scopes.is_empty()
                || self
                    .scopes
                    .iter()
                    .any(|scope| scope.strip_prefix("system:").is_some_and(|s| s == system || s == "*")))
    }

    pub fn anonymous() -> Caller {
        Caller { tenant: "default".into(), name: "anonymous".into(), authenticated: false, scopes: Arc::default() }
    }
}

/// Where a call is made: an agent as seen through a mount by a caller. Tasks of another place do not exist here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub caller: Caller,
    pub agent: Arc<str>,
    /// The mount it is reached through: ids that callers choose are told apart by it.
    pub mount: Arc<str>,
    /// The lists a task opened here appears in.
    pub views: Vec<View>,
    /// The lists read here; no task is in two of them. A task in none of them does not exist here.
    pub reads: Vec<View>,
    /// Who takes part in a task opened here, besides its owner.
    pub parties: Vec<Arc<str>>,
    /// The dialect spoken.
    pub dialect: Arc<str>,
    /// What ids that callers choose mean here, where they mean anything special.
    pub ids: Option<Arc<Ids>>,
}

/// What ids that callers choose mean at a place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ids {
    /// All callers of the tenant share them; else everybody has their own.
    pub shared: bool,
    pub again: Again,
    /// Another name that a task opened here is found by, and the mount at which it is one.
    pub also: Option<(Arc<str>, Arc<str>)>,
}

/// What a message means whose id has a task already. Where that task waits for its caller, it is the answer in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Again {
    /// One more message to the task; once it has settled, a successor.
    #[default]
    Continue,
    /// A new task in its place; the one before is cancelled if it still runs.
    Restart,
    /// A mistake.
    Refuse,
}

impl Place {
    /// A place with tenant visibility: everybody of the caller's tenant sees the agent's tasks.
    pub fn tenant(caller: Caller, agent: impl Into<Arc<str>>, dialect: impl Into<Arc<str>>) -> Place {
        Place::new(caller, agent.into(), dialect.into(), Visibility::Tenant, &[])
    }

    /// A place as a caller sees it. `parties` are those who take part in every task of the agent.
    pub fn new(
        caller: Caller,
        agent: Arc<str>,
        dialect: Arc<str>,
        visibility: Visibility,
        parties: &[Arc<str>],
    ) -> Place {
        let tenant = &*caller.tenant;
        let (views, reads) = match visibility {
            Visibility::Tenant => {
                let view = View::tenant(tenant, &agent);
                (vec![view.clone()], vec![view])
            }
            Visibility::Owner => {
                let view = View::owner(tenant, &caller.name, &agent);
                (vec![view.clone()], vec![view])
            }
            Visibility::Parties => {
                let own = View::party(tenant, &caller.name, &agent);
                let others = parties.iter().filter(|party| **party != caller.name);
                let views = std::iter::once(own.clone()).chain(others.map(|p| View::party(tenant, p, &agent)));
                (views.collect(), vec![own])
            }
            Visibility::Systems => {
                let view = View::system(tenant, &agent);
                let reads = if caller.is_bound_to(&agent) { vec![view.clone()] } else { Vec::new() };
                (vec![view], reads)
            }
        };
        let parties = match visibility {
            Visibility::Parties => parties.iter().filter(|party| **party != caller.name).cloned().collect(),
            Visibility::Tenant | Visibility::Owner | Visibility::Systems => Vec::new(),
        };
        Place { caller, agent, mount: "a2a".into(), views, reads, parties, dialect, ids: None }
    }
}

/// Who sees a task of a mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Visibility {
    /// Everybody of its tenant.
    #[default]
    Tenant,
    /// Only whoever opened it.
    Owner,
    /// Whoever opened it, and those who take part.
    Parties,
    /// Those whose credential is bound to the system, by a scope `system:NAME`.
    Systems,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    Send(Box<Send>),
    Stream(Box<Send>),
    Get(Get),
    List(List),
    Cancel(Cancel),
    Subscribe(Subscribe),
    Push(PushCall),
    ExtendedCard,
}

impl Call {
    /// The operation's name in logs and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Call::Send(_) => "send",
            Call::Stream(_) => "stream",
            Call::Get(_) => "get",
            Call::List(_) => "list",
            Call::Cancel(_) => "cancel",
            Call::Subscribe(_) => "subscribe",
            Call::Push(push) => push.name(),
            Call::ExtendedCard => "extended_card",
        }
    }
}

/// How long a send waits before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Until the task settles or waits for somebody; at most so long, where a dialect sets an end.
    Rest { max_ms: Option<u64> },
    /// Only until the task exists.
    Exists,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Send {
    pub message: Message,
    /// The task it continues, in the dialect's spelling.
    pub task: Option<String>,
    /// The caller's own id for the task, in dialects where callers choose ids: opens it, continues it, or opens a
    /// successor of a settled one.
    pub alias: Option<String>,
    pub context: Option<ContextId>,
    pub wait: Wait,
    /// Of the answer's history, the newest so many; `None` is all.
    pub history: Option<u32>,
    pub accepted_output: Vec<String>,
    pub metadata: Option<Json>,
    pub push: Option<PushConfig>,
    /// Filled in by the front, from headers.
    pub extensions: Vec<String>,
    pub trace: Option<String>,
    pub idempotency: Option<Idempotency>,
}

impl Send {
    /// One that asks for nothing but the whole answer.
    pub fn new(message: Message) -> Send {
        Send {
            message,
            task: None,
            alias: None,
            context: None,
            wait: Wait::Rest { max_ms: None },
            history: None,
            accepted_output: Vec::new(),
            metadata: None,
            push: None,
            extensions: Vec::new(),
            trace: None,
            idempotency: None,
        }
    }
}

/// A caller's promise that a repeat with this key is the same request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idempotency {
    pub key: String,
    /// The hash of the request the key was used with.
    pub body: [u8; 32],
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Get {
    pub task: String,
    pub history: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List {
    pub context: Option<ContextId>,
    pub state: Option<State>,
    /// Only tasks whose status is from then on.
    pub since: Option<Time>,
    pub page_size: Option<u32>,
    pub page_token: Option<String>,
    pub history: Option<u32>,
    pub artifacts: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cancel {
    pub task: String,
    pub metadata: Option<Json>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscribe {
    pub task: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PushCall {
    Create(PushConfig),
    Get { task: String, id: String },
    List { task: String, page_size: Option<u32>, page_token: Option<String> },
    Delete { task: String, id: String },
}

impl PushCall {
    pub fn name(&self) -> &'static str {
        match self {
            PushCall::Create(_) => "push_create",
            PushCall::Get { .. } => "push_get",
            PushCall::List { .. } => "push_list",
            PushCall::Delete { .. } => "push_delete",
        }
    }
}

/// Where to tell of a task's progress.
#[derive(Clone, PartialEq, Eq)]
pub struct PushConfig {
    pub task: Option<String>,
    pub id: Option<String>,
    pub url: String,
    pub token: Option<String>,
    pub scheme: Option<String>,
    pub credentials: Option<String>,
}

/// Secrets stay out of logs, however a config gets there; an address may hold some, too.
impl std::fmt::Debug for PushConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PushConfig").field("task", &self.task).field("id", &self.id).finish_non_exhaustive()
    }
}
