//! Orloj's JSON-RPC endpoint at `/orloj/a2a`, `/orloj/v1/agent-systems/{name}/a2a`, their older addresses and, for requests
//! that belong to it, `/a2a`.
//!
//! The endpoint finds the system of a request, checks whether the caller may call it, and maps ids. An id that a caller
//! chooses belongs to the system: every caller of the system finds the task by it, and by the name derived from it. Methods
//! of A2A 1.0 at the same addresses are answered by the gateway's own JSON-RPC front.
//!
//! Beside it are `state` with tokens, rate limit and concurrency limits, `feed` with streams, and `cards` with cards and
//! their registry.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Duration;

use crate::orloj::decode::{self, DecodedCall, SystemTarget};
use crate::orloj::errors::{Error, INTERNAL};
use crate::orloj::{self, SystemAddress, encode};
use bytes::Bytes;
use dialects::framing::json::Writer;
use dialects::framing::jsonrpc::{self, Id, OwnedId, Unreadable};
use dialects::framing::{near, query, scan};
use dialects::wire::{Operation, TaskView};
use engine::SendAnswer;
use http::header::{CONNECTION, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, StatusCode, Version, request};
use model::{Call, CallScope, Caller, Cancel, Fault, Ids, Kind, Send, Task, Visibility, Wait};

pub(crate) use super::cards::{card, registry};
use super::feed::TaskFeed;
use super::state::SystemsState;

use crate::{ExposedSystem, SystemsService, SystemsSettings};
use gateway::GatewayVersion;
use gateway::auth;
use gateway::fronts::jsonrpc::RequestOrigin;
use gateway::fronts::{A2A_DIALECT, RequestLog, complete, into_body, jsonrpc as rpc, stated_version, terms};
use gateway::mounts::MountedAgent;
use gateway::settings::{self, AuthMode, Settings};
use web::body::{Response, ResponseBody};
use web::client_address::network_of;
use web::concurrency::{ConcurrencyLimit, ConcurrencyPermit};
use web::response::json;
use web::sse::{EventStream, GaugeGuard};

/// The mount under which tasks have the ids that callers chose, and the one under which they have the names derived from
/// these. Stored.
pub(crate) const MOUNT: &str = "orloj";
pub(crate) const NAMES: &str = "orloj/name";

/// The view of a task in an answer, unless the request asks for its history.
pub(crate) const PLAIN: TaskView = TaskView { history: Some(0), artifacts: true };

/// Checks that every system exists and that every token is one of these endpoints only.
pub(crate) fn check(systems: &SystemsSettings, settings: &Settings) -> Result<(), settings::Error> {
    for system in &systems.systems {
        if !settings.agents.contains(&system.name) {
            return Err(settings::Error(format!("orloj: there is no system {:?} to show", system.name)));
        }
    }
    for token in &systems.tokens {
        if auth::is_reserved(&token.name) {
            return Err(settings::Error(auth::reserved(&token.name)));
        }
        if settings.keys.iter().any(|key| key.secret == token.secret) {
            let message = format!("orloj.tokens: {:?} is a key of auth.keys, too; each needs its own", token.name);
            return Err(settings::Error(message));
        }
    }
    Ok(())
}

/// A request at one of the endpoints; `named` is the system that the path names.
pub(crate) async fn answer(
    server: &Arc<GatewayVersion>,
    named: Option<&str>,
    head: &request::Parts,
    body: Result<Bytes, Fault>,
    log: &mut RequestLog,
) -> Response {
    log.dialect = orloj::NAME;
    let body = body.and_then(|body| match scan::scan(&body, server.engine.limits().json_depth) {
        Ok(_) => Ok(body),
        Err(fault) => Err(fault),
    });
    let refuse = |fault: &Fault, id: &Id<'_>, log: &mut RequestLog| {
        log.fault(fault);
        let mut response = respond(&Error::of(fault, Operation::Unknown), id);
        // An incomplete body is an error of HTTP.
        if fault.kind == Kind::InvalidRequest && fault.cause.is_some() {
            *response.status_mut() = StatusCode::BAD_REQUEST;
        }
        response
    };
    let body = match body {
        Ok(body) => body,
        Err(fault) => return refuse(&fault, &OwnedId::NULL, log),
    };
    // The scan has checked that it is UTF-8.
    match jsonrpc::read(std::str::from_utf8(&body).unwrap_or_default()) {
        Ok(request) if orloj::is_newer(&request.method) => answer_v1(server, named, head, &request, log).await,
        Ok(request) => answer_to(server, named, head, &request, log).await,
        Err(Unreadable { id, fault, .. }) => refuse(&fault, &id, log),
    }
}

/// The answer to a parsed request.
pub(crate) async fn answer_to(
    server: &Arc<GatewayVersion>,
    named: Option<&str>,
    head: &request::Parts,
    request: &jsonrpc::RpcRequest<'_>,
    log: &mut RequestLog,
) -> Response {
    log.dialect = orloj::NAME;
    let mut response = match SystemsContext::open(server, named, head, log) {
        Err(error) => refused(&error, &OwnedId::NULL, log),
        // Boxed, so that the futures of other products at a shared address stay small.
        Ok(context) => match Box::pin(context.call(request, log)).await {
            Ok(response) => response,
            Err(error) => refused(&error, &request.id, log),
        },
    };
    // A notification has no answer, but it has an HTTP status.
    if request.is_notification {
        *response.body_mut() = ResponseBody::empty();
        response.headers_mut().remove(CONTENT_TYPE);
        if response.status() == StatusCode::OK {
            *response.status_mut() = StatusCode::NO_CONTENT;
        }
    }
    response
}

/// Whether the headers have a token of these endpoints, valid or expired.
pub(crate) fn is_token(server: &GatewayVersion, headers: &HeaderMap) -> bool {
    SystemsService::of(server).is_some_and(|systems| systems.state.token(headers).is_some())
}

/// Whether a `tasks/get` or `tasks/cancel` at a shared address is answered here. It is if the agent at that address does not
/// have the task, and either a system has it, or no system has it and the request states no version of A2A.
///
/// If the agent would refuse the caller, the request is answered here only if a system has the task.
pub(crate) async fn owns(
    server: &Arc<GatewayVersion>,
    agent: &MountedAgent,
    head: &request::Parts,
    request: &jsonrpc::RpcRequest<'_>,
) -> bool {
    let Some(SystemsService { state, settings, .. }) = SystemsService::of(server) else { return false };
    let Ok(decoded) = decode::decode(&request.method, request.params, server.engine.limits()) else { return false };
    let (Call::Get(model::Get { task, .. }) | Call::Cancel(Cancel { task, .. })) = &decoded.call else { return false };
    let Ok(caller) = identify(server, state, &head.headers).await else { return false };
    let tenant = agent.tenant_of(&caller);
    let required = server.requires(agent);
    let closed = !caller.authenticated && required && !server.opens(&agent.agent);
    let foreign = agent.tenant.as_ref().is_some_and(|fixed| caller.authenticated && *fixed != caller.tenant);
    let permitted =
        !closed && !foreign && server.permits(&caller, &tenant, &agent.agent, &decoded.call, required).is_ok();
    let elsewhere = agent.place(&caller, &tenant, dialects::decide::by_opener(None));
    if permitted && server.engine.get(&elsewhere, task).await.is_ok() {
        return false;
    }
    let states_version = stated_version(head).ok().flatten().is_some();
    if permitted && !states_version {
        return true;
    }
    let context = SystemsContext { server, state, settings, named: None, head, namespace: namespace(head) };
    context.find(&caller, &decoded, task).await.is_ok()
        && (permitted || server.engine.get(&elsewhere, task).await.is_err())
}

/// A method of A2A 1.0: access is checked here, and the gateway's own front answers it.
async fn answer_v1(
    server: &Arc<GatewayVersion>,
    named: Option<&str>,
    head: &request::Parts,
    request: &jsonrpc::RpcRequest<'_>,
    log: &mut RequestLog,
) -> Response {
    let context = match SystemsContext::open(server, named, head, log) {
        Ok(context) => context,
        Err(error) => return refused(&error, &OwnedId::NULL, log),
    };
    // An error about the credential has the form of 1.0, too.
    let caller = match context.identified(log).await {
        Ok(caller) => caller,
        Err(fault) => {
            return rpc::refuse(dialects::decide::by_version(None), &request.id, &fault, Operation::Unknown, log);
        }
    };
    let found = async {
        let target = decode::newer_target(request.params);
        let system = context.system(target.as_ref(), Operation::Unknown)?;
        if !context.admits(&caller, system) {
            return Err(Error::not_available());
        }
        context.mounted(system)
    };
    match found.await {
        Ok(mounted) => {
            log.agent = Some(mounted.agent.clone());
            let by = RequestOrigin::Product(orloj::NAME, caller);
            Box::pin(rpc::answer_to(server, mounted, head, request, stated_version(head), by, log)).await
        }
        Err(error) => refused(&error, &request.id, log),
    }
}

/// One request to the systems' endpoints, with the settings and the state that apply to it.
pub(crate) struct SystemsContext<'a> {
    server: &'a Arc<GatewayVersion>,
    state: &'a SystemsState,
    pub(crate) settings: &'a SystemsSettings,
    /// The system in the path.
    named: Option<&'a str>,
    head: &'a request::Parts,
    pub(crate) namespace: Option<String>,
}

impl<'a> SystemsContext<'a> {
    /// The context of a request. An error means that the rate limit is exceeded, or that the product is not served.
    pub(crate) fn open(
        server: &'a Arc<GatewayVersion>,
        named: Option<&'a str>,
        head: &'a request::Parts,
        log: &RequestLog,
    ) -> Result<SystemsContext<'a>, Error> {
        let Some(SystemsService { state, settings, .. }) = SystemsService::of(server) else {
            return Err(Error::not_enabled());
        };
        if let Some((_, limiter)) = &state.rate_limit
            && let Err(wait) = limiter.take(state.hasher.hash_one(network_of(log.address)))
        {
            let wait = u32::try_from(wait.as_millis().div_ceil(1_000)).unwrap_or(u32::MAX).max(1);
            return Err(Error { retry_after_s: Some(wait), ..Error::new(INTERNAL, "rate limit exceeded") });
        }
        Ok(SystemsContext { server, state, settings, named, head, namespace: namespace(head) })
    }

    async fn call(&self, request: &jsonrpc::RpcRequest<'_>, log: &mut RequestLog) -> Result<Response, Error> {
        let limits = self.server.engine.limits();
        let decoded = decode::decode(&request.method, request.params, limits);
        let decoded = decoded.map_err(|fault| logged(&fault, Operation::Unknown, log))?;
        log.operation = decoded.call.name();
        let caller = self.caller(log).await?;
        match &decoded.call {
            Call::Send(send) => self.send(&caller, &decoded, (**send).clone(), request, log).await,
            Call::Stream(send) if request.is_notification => {
                self.send(&caller, &decoded, (**send).clone(), request, log).await
            }
            Call::Stream(send) => self.subscribe(&caller, &decoded, (**send).clone(), log).await,
            Call::Get(get) => {
                let (system, _, task) = self.find(&caller, &decoded, &get.task).await?;
                log.agent = Some(system.name.clone());
                let view = TaskView { history: get.history, ..PLAIN };
                self.result(&request.id, system, &task, &view).await
            }
            Call::Cancel(cancel) => self.cancel(&caller, &decoded, cancel, request, log).await,
            // The dialect has no such methods.
            Call::List(_) | Call::Subscribe(_) | Call::Push(_) | Call::ExtendedCard => Err(Error::not_enabled()),
        }
    }

    /// The caller, within the limits of calls. An invalid token is refused even where none is required.
    pub(crate) async fn caller(&self, log: &mut RequestLog) -> Result<Arc<Caller>, Error> {
        let outcome = self.identified(log).await;
        outcome.map_err(|fault| logged(&fault, Operation::Unknown, log))
    }

    pub(crate) async fn identified(&self, log: &mut RequestLog) -> Result<Arc<Caller>, Fault> {
        let throttle = self.server.throttle.as_ref();
        match identify(self.server, self.state, &self.head.headers).await {
            Ok(caller) => {
                log.caller = Some(caller.name.clone());
                throttle.map_or(Ok(()), |throttle| throttle.admit(&caller, log.address)).map(|()| caller)
            }
            Err(fault) if fault.kind == Kind::Unauthenticated => {
                throttle.map_or(Ok(()), |throttle| throttle.failed(log.address)).and(Err(fault))
            }
            Err(fault) => Err(fault),
        }
    }

    /// The system of a request: the one in the path, the one that the request names, or the only one.
    pub(crate) fn system(
        &self,
        target: Option<&SystemTarget>,
        operation: Operation,
    ) -> Result<&'a ExposedSystem, Error> {
        let systems = &self.settings.systems;
        let find = |namespace: Option<&str>, name: &str| {
            let is =
                |system: &&ExposedSystem| *system.name == *name && namespace.is_none_or(|n| *system.namespace == *n);
            systems.iter().find(is).ok_or_else(|| {
                // Suggestions do not reveal systems that require a credential.
                let open = systems.iter().filter(|system| system.public).map(|system| &*system.name);
                let detail = near::nearest(name, open).map(|name| format!("did you mean {name}?"));
                Error { detail, ..Error::not_enabled() }
            })
        };
        if let Some(name) = self.named {
            return find(self.namespace.as_deref(), name);
        }
        if let Some(SystemTarget { namespace, name }) = target {
            return find(namespace.as_deref().or(self.namespace.as_deref()), name);
        }
        self.only_system().ok_or_else(|| Error::no_target(operation))
    }

    /// The only system of the namespace; `None` if there are none or several.
    pub(crate) fn only_system(&self) -> Option<&'a ExposedSystem> {
        let namespace = self.namespace.as_deref().unwrap_or(orloj::NAMESPACE);
        let mut all = self.settings.systems.iter().filter(|system| *system.namespace == *namespace);
        all.next().filter(|_| all.next().is_none())
    }

    /// Whether a caller may call a system.
    pub(crate) fn admits(&self, caller: &Caller, system: &ExposedSystem) -> bool {
        if !caller.authenticated {
            return system.public || !self.asks_for_tokens();
        }
        // A token that is bound to systems is valid for these only. Another one counts like no token.
        let bound = caller.scopes.iter().any(|scope| scope.starts_with("system:"));
        caller.is_bound_to(&system.name) || (!bound && system.public)
    }

    /// Whether any credential exists or is required.
    pub(crate) fn asks_for_tokens(&self) -> bool {
        self.state.asks_for_tokens(self.server)
    }

    fn mounted(&self, system: &ExposedSystem) -> Result<&'a MountedAgent, Error> {
        self.server.mounts.agent(&system.name).filter(|mounted| !mounted.retired).ok_or_else(Error::not_enabled)
    }

    /// The visibility of a system's tasks.
    pub(crate) fn visibility(&self, system: &ExposedSystem) -> Visibility {
        self.mounted(system).map_or(Visibility::Owner, MountedAgent::visibility)
    }

    /// The scope of a call by an admitted caller, if the policy allows the call.
    pub(crate) fn scope(
        &self,
        caller: &Caller,
        system: &ExposedSystem,
        call: &Call,
        ids: Ids,
    ) -> Result<CallScope, Fault> {
        let unknown = || Fault::new(Kind::Forbidden, "there is nothing here for your tenant");
        let mounted = self.mounted(system).map_err(|_| unknown())?;
        let tenant = match &mounted.tenant {
            Some(fixed) if caller.authenticated && *fixed != caller.tenant => return Err(unknown()),
            Some(fixed) => fixed,
            None => &caller.tenant,
        };
        let required = mounted.door == AuthMode::Required && !system.public;
        // A public system is also open to callers whose scopes do not name it.
        if !system.public {
            self.server.scopes.check(caller, &mounted.agent, call)?;
        }
        let checked = self.server.allows(caller, tenant, &mounted.agent, call, required);
        // A caller without a credential does not learn that a credential would help.
        checked.map_err(|fault| {
            let kind = if fault.kind == Kind::Unauthenticated { Kind::Forbidden } else { fault.kind };
            Fault { kind, ..fault }
        })?;
        let caller = Caller { tenant: tenant.clone(), ..caller.clone() };
        let mut scope = mounted.place_in(caller, orloj::NAME);
        scope.mount = MOUNT.into();
        // A caller of a system may read its results.
        if scope.reads.is_empty() {
            scope.reads.clone_from(&scope.views);
        }
        let shared = match mounted.visibility() {
            Visibility::Tenant | Visibility::Systems => true,
            // An id is shared only among callers who see the same tasks.
            Visibility::Owner | Visibility::Parties => false,
        };
        scope.ids = Some(Arc::new(Ids { shared, ..ids }));
        Ok(scope)
    }

    /// The system of a send, and the scope of the call.
    fn resolve_send(
        &self,
        caller: &Caller,
        decoded: &DecodedCall,
        send: &mut Send,
        operation: Operation,
        log: &mut RequestLog,
    ) -> Result<(&'a ExposedSystem, CallScope), Error> {
        let system = self.system(decoded.target.as_ref(), operation)?;
        log.agent = Some(system.name.clone());
        if !self.admits(caller, system) {
            return Err(Error::not_available());
        }
        let id = send.alias.as_deref().unwrap_or_default();
        let name: Arc<str> = address(system).task_name(id).into();
        let ids = Ids { again: self.settings.again, also: Some((NAMES.into(), name)), ..Ids::default() };
        let scope = self.scope(caller, system, &decoded.call, ids);
        let scope = scope.map_err(|fault| logged(&fault, operation, log))?;
        let body = send.message.text();
        complete(self.server, &self.head.headers, send, body.as_bytes())
            .map_err(|fault| logged(&fault, operation, log))?;
        Ok((system, scope))
    }

    async fn send(
        &self,
        caller: &Caller,
        decoded: &DecodedCall,
        mut send: Send,
        request: &jsonrpc::RpcRequest<'_>,
        log: &mut RequestLog,
    ) -> Result<Response, Error> {
        let operation = Operation::from(&decoded.call);
        let (system, scope) = self.resolve_send(caller, decoded, &mut send, operation, log)?;
        send.wait = match self.settings.wait_ms {
            Some(max_ms) if !request.is_notification => Wait::Rest { max_ms: Some(max_ms) },
            Some(_) | None => Wait::Exists,
        };
        let _held = match (send.wait, self.settings.waiting) {
            (Wait::Exists, _) => None,
            (Wait::Rest { .. }, most) => {
                let throttle = self.server.throttle.as_ref();
                let own = throttle.map(|throttle| throttle.waiting(caller, log.address)).transpose();
                let own = own.map_err(|fault| logged(&fault, operation, log))?.flatten();
                let full = || Error::new(INTERNAL, "too many concurrent A2A wait connections");
                let permit = permit(&self.state.waiting, most).map_err(|()| full())?;
                Some((own, permit, GaugeGuard::new(&self.server.metrics.waiting)))
            }
        };
        let id = send.alias.clone().unwrap_or_default();
        match self.server.engine.send(&scope, send).await {
            Ok(SendAnswer::Task(task)) => self.result(&request.id, system, &task, &PLAIN).await,
            // A send with an id always opens a task.
            Ok(SendAnswer::Reply(_)) => Err(Error::new(INTERNAL, "failed to create task")),
            Err(fault) => Err(logged(&fault, operation, log).about(&id)),
        }
    }

    async fn subscribe(
        &self,
        caller: &Caller,
        decoded: &DecodedCall,
        mut send: Send,
        log: &mut RequestLog,
    ) -> Result<Response, Error> {
        let operation = Operation::Stream;
        let (system, scope) = self.resolve_send(caller, decoded, &mut send, operation, log)?;
        let throttle = self.server.throttle.as_ref();
        let own = throttle.map(|throttle| throttle.stream(caller, log.address)).transpose();
        let own = own.map_err(|fault| logged(&fault, operation, log))?.flatten();
        let full = || Error::new(INTERNAL, "too many concurrent subscribe connections");
        let permit = permit(&self.state.streams, self.settings.streams).map_err(|()| full())?;
        let terms = terms(self.server, self.head, &scope.caller.tenant);
        let id = send.alias.clone().unwrap_or_default();
        let subscription = self.server.engine.stream_to_end(&scope, send).await;
        let subscription = subscription.map_err(|fault| logged(&fault, operation, log).about(&id))?;
        let first = subscription.first().cloned();
        let feed = TaskFeed {
            first,
            states: subscription.into_states(),
            server: self.server.clone(),
            system: system.clone(),
            terms,
            last: None,
        };
        let heartbeat = Duration::from_millis(self.server.settings.heartbeat_ms);
        let mut response = EventStream::new(feed, self.server.metrics.streams.clone())
            .heartbeat(heartbeat, encode::HEARTBEAT)
            .counted(self.server.answers.clone())
            .permits([own, permit])
            .respond();
        if self.head.version == Version::HTTP_11 {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("keep-alive"));
        }
        Ok(signed(response))
    }

    async fn cancel(
        &self,
        caller: &Caller,
        decoded: &DecodedCall,
        cancel: &Cancel,
        request: &jsonrpc::RpcRequest<'_>,
        log: &mut RequestLog,
    ) -> Result<Response, Error> {
        let id = &cancel.task;
        let (system, scope, task) = self.find(caller, decoded, id).await?;
        log.agent = Some(system.name.clone());
        if let Some(error) = Error::of_state(id, task.state()) {
            return Err(error);
        }
        let call = Cancel { task: task.id.to_string(), metadata: cancel.metadata.clone() };
        let task = match self.server.engine.cancel(&scope, call).await {
            Ok(task) => task,
            // The task ended meanwhile.
            Err(fault) if fault.kind == Kind::TaskNotCancelable => {
                let (_, _, task) = self.find(caller, decoded, id).await?;
                let refused = Error::of_state(id, task.state());
                return Err(refused.unwrap_or_else(|| logged(&fault, Operation::Cancel, log).about(id)));
            }
            Err(fault) => return Err(logged(&fault, Operation::Cancel, log).about(id)),
        };
        self.result(&request.id, system, &task, &PLAIN).await
    }

    /// Finds a task by the id that its caller chose, by the name derived from that id, or by its own id: at the system that
    /// the request names, else at every system that the caller may call.
    async fn find(
        &self,
        caller: &Caller,
        decoded: &DecodedCall,
        id: &str,
    ) -> Result<(&'a ExposedSystem, CallScope, Arc<Task>), Error> {
        let systems: Vec<&ExposedSystem> = if self.named.is_some() || decoded.target.is_some() {
            vec![self.system(decoded.target.as_ref(), Operation::Get)?]
        } else {
            let namespace = self.namespace.as_deref().unwrap_or(orloj::NAMESPACE);
            let near = |system: &&ExposedSystem| *system.namespace == *namespace;
            let (near, far): (Vec<_>, Vec<_>) = self.settings.systems.iter().partition(near);
            // Without a namespace in the request, the other namespaces follow.
            if self.namespace.is_some() { near } else { near.into_iter().chain(far).collect() }
        };
        for system in systems.into_iter().filter(|system| self.admits(caller, system)) {
            let Ok(mut scope) = self.scope(caller, system, &decoded.call, Ids::default()) else { continue };
            for mount in [NAMES, MOUNT] {
                scope.mount = mount.into();
                match self.server.engine.get(&scope, id).await {
                    // Under `NAMES` a task's own id does not count as its name.
                    Ok(task) if mount == MOUNT || task.id.to_string() != id => return Ok((system, scope, task)),
                    Ok(_) => {}
                    Err(fault) if fault.kind == Kind::TaskNotFound => {}
                    Err(fault) => return Err(Error::of(&fault, Operation::Get).about(id)),
                }
            }
        }
        Err(Error::no_task(id))
    }

    async fn result(
        &self,
        id: &Id<'_>,
        system: &ExposedSystem,
        task: &Task,
        view: &TaskView,
    ) -> Result<Response, Error> {
        let mut w: Writer = jsonrpc::begin_result(id, 1_024);
        encode::task(&mut w, task, &address(system), view);
        jsonrpc::end_result(&mut w);
        let body = into_body(self.server, self.head, &task.tenant, w.finish()).await;
        Ok(signed(json(body.map_err(|fault| Error::of(&fault, Operation::Get))?)))
    }
}

async fn identify(server: &GatewayVersion, state: &SystemsState, headers: &HeaderMap) -> Result<Arc<Caller>, Fault> {
    match state.token(headers) {
        Some(known) => known,
        None => server.callers.identify(headers).await,
    }
}

pub(crate) fn address(system: &ExposedSystem) -> SystemAddress<'_> {
    SystemAddress { namespace: &system.namespace, name: &system.name }
}

/// The namespace in the query.
fn namespace(head: &request::Parts) -> Option<String> {
    let text = head.uri.query().filter(|query| query.contains("namespace"))?;
    query::value(text, "namespace").ok().flatten().map(|name| name.to_string()).filter(|name| !name.is_empty())
}

/// A permit, if there is a limit. An error means that none is free.
fn permit(limit: &Arc<ConcurrencyLimit>, most: Option<u32>) -> Result<Option<ConcurrencyPermit>, ()> {
    match most {
        None => Ok(None),
        Some(most) => ConcurrencyLimit::take(limit, 0, most).map(Some).ok_or(()),
    }
}

/// The error for a fault, which is also written to the request log.
fn logged(fault: &Fault, operation: Operation, log: &mut RequestLog) -> Error {
    log.fault(fault);
    Error::of(fault, operation)
}

pub(crate) fn refused(error: &Error, id: &Id<'_>, log: &mut RequestLog) -> Response {
    log.fault.get_or_insert_with(|| error.message.clone());
    respond(error, id)
}

fn respond(error: &Error, id: &Id<'_>) -> Response {
    let mut response = json(Bytes::from(error.encode(id)));
    *response.status_mut() = StatusCode::from_u16(error.http).unwrap_or(StatusCode::OK);
    if error.http == 401 {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"a2a\""));
    }
    if let Some(seconds) = error.retry_after_s {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    signed(response)
}

pub(crate) fn signed(mut response: Response) -> Response {
    response.headers_mut().insert(A2A_DIALECT.clone(), HeaderValue::from_static(orloj::NAME));
    response
}
