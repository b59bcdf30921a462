//! The calls a caller can make, in canonical form. Dialects decode requests to them; the engine executes them.

use std::sync::Arc;

use crate::{ContextId, Json, Message, State, Time, View};

/// The caller of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub tenant: Arc<str>,
    /// The name of the credential; for a caller without one, `anonymous`.
    pub name: Arc<str>,
    pub authenticated: bool,
    /// The scopes of its credential; an empty list allows everything.
    pub scopes: Arc<[String]>,
}

impl Caller {
    /// Whether the credential covers this system; a credential without scopes covers every system.
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

/// The scope of a call: an agent, reached through a mount by a caller. Tasks outside the scope do not exist for the
/// call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallScope {
    pub caller: Caller,
    pub agent: Arc<str>,
    /// The mount the call came through. Ids chosen by callers are unique per mount.
    pub mount: Arc<str>,
    /// The lists a task opened here appears in.
    pub views: Vec<View>,
    /// The lists read here; no task is in two of them. A task in none of them does not exist here.
    pub reads: Vec<View>,
    /// The parties of a task opened here, besides its owner.
    pub parties: Vec<Arc<str>>,
    /// The dialect of the call.
    pub dialect: Arc<str>,
    /// Special rules for ids that callers choose, if the mount has any.
    pub ids: Option<Arc<Ids>>,
}

/// Rules for ids that callers choose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ids {
    /// All callers of the tenant share one id space; otherwise each caller has its own.
    pub shared: bool,
    pub again: Again,
    /// A second alias for a task opened here: the mount it is valid at, and the alias.
    pub also: Option<(Arc<str>, Arc<str>)>,
}

/// The effect of a message whose id already has a task. If that task is waiting for its caller, the message always is
/// the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Again {
    /// The message continues the task; if the task has settled, it opens a successor.
    #[default]
    Continue,
    /// The message opens a new task under the id; the previous task is cancelled if it still runs.
    Restart,
    /// The message is refused.
    Refuse,
}

impl CallScope {
    /// A scope with tenant visibility: every caller of the tenant sees the agent's tasks.
    pub fn tenant(caller: Caller, agent: impl Into<Arc<str>>, dialect: impl Into<Arc<str>>) -> CallScope {
        CallScope::new(caller, agent.into(), dialect.into(), Visibility::Tenant, &[])
    }

    /// The scope of a caller's call. `parties` are the parties of every task of the agent.
    pub fn new(
        caller: Caller,
        agent: Arc<str>,
        dialect: Arc<str>,
        visibility: Visibility,
        parties: &[Arc<str>],
    ) -> CallScope {
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
        CallScope { caller, agent, mount: "a2a".into(), views, reads, parties, dialect, ids: None }
    }
}

/// The callers that see a task of a mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Visibility {
    /// Every caller of the tenant.
    #[default]
    Tenant,
    /// Only the caller that opened the task.
    Owner,
    /// The caller that opened the task, and the task's parties.
    Parties,
    /// Callers whose credential is bound to the system by a scope `system:NAME`.
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

/// How long a send waits before it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Until the task settles or waits for input; at most `max_ms`, for dialects with a time limit.
    Rest { max_ms: Option<u64> },
    /// Only until the task exists.
    Exists,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Send {
    pub message: Message,
    /// The task to continue, as the dialect spells its id.
    pub task: Option<String>,
    /// The caller's own id for the task, in dialects where callers choose ids. It opens the task, continues it, or
    /// opens the successor of a settled task.
    pub alias: Option<String>,
    pub context: Option<ContextId>,
    pub wait: Wait,
    /// At most this many of the newest history messages in the answer; `None` for all.
    pub history: Option<u32>,
    pub accepted_output: Vec<String>,
    pub metadata: Option<Json>,
    pub push: Option<PushConfig>,
    /// Set by the front from headers, like `trace` and `idempotency`.
    pub extensions: Vec<String>,
    pub trace: Option<String>,
    pub idempotency: Option<Idempotency>,
}

impl Send {
    /// A send with defaults: a new task, waiting for the complete answer.
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

/// An idempotency key: a repeat with the same key is the same request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idempotency {
    pub key: String,
    /// The hash of the request that used the key.
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
    /// Only tasks whose status changed at or after this time.
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

/// A webhook registration for a task's progress.
#[derive(Clone, PartialEq, Eq)]
pub struct PushConfig {
    pub task: Option<String>,
    pub id: Option<String>,
    pub url: String,
    pub token: Option<String>,
    pub scheme: Option<String>,
    pub credentials: Option<String>,
}

/// Hides the secrets from logs. The URL may contain secrets too.
impl std::fmt::Debug for PushConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PushConfig").field("task", &self.task).field("id", &self.id).finish_non_exhaustive()
    }
}
