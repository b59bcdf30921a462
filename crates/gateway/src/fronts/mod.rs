//! The transports. A front reads the envelope, finds the dialect, lets it decode the call, performs the call and writes
//! the answer in the same dialect: JSON-RPC in [`jsonrpc`], HTTP+JSON in [`rest`], event streams in [`stream`], gRPC in
//! [`grpc`]. Fronts contain no wire formats of A2A; they hold a [`JsonWire`] or a [`ProtoWire`]. Workers are no callers;
//! their front is [`worker`].

pub mod effective;
mod files;
pub mod gate;
pub mod grpc;
pub mod jsonrpc;
pub mod rest;
pub mod stream;
pub(crate) mod worker;

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use dialects::ProtoWire;
use dialects::card::CardFacts;
use dialects::framing::json::{Encoded, Segment, Writer};
use dialects::protobuf::ProtoWriter;
use dialects::wire::{Codec, Decoded, Head, JsonWire, Operation, Page, TaskView};
use engine::{Answers, PushAnswer, SendAnswer, Subscription, TaskListing};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, request};
use model::call::Idempotency;
use model::ports::Future;
use model::{Call, CallScope, Caller, ContextId, Fault, Kind, Task, TaskId, Wait};
use prometheus_client::metrics::gauge::Gauge;
use sha2::{Digest, Sha256};
use web::body::{Response, ResponseBody, counted, in_json, reserve, room, with_room};
use web::concurrency::ConcurrencyPermit;
use web::headers::{idempotency_key, trace};
pub use web::request_log::RequestLog;
use web::sse::GaugeGuard;

pub use effective::{EffectiveCall, StreamStart};
pub(crate) use files::answer as file;
pub use gate::{Gate, at_mount, largest_body};

use crate::links::LinkOptions;
use crate::mounts::MountedAgent;
use crate::settings::AuthMode;
use crate::{GatewayVersion, auth};

pub static A2A_VERSION: HeaderName = HeaderName::from_static("a2a-version");
static A2A_EXTENSIONS: HeaderName = HeaderName::from_static("a2a-extensions");
static X_A2A_EXTENSIONS: HeaderName = HeaderName::from_static("x-a2a-extensions");
/// In an answer, the dialect it is written in; in a request, the dialect to use.
pub static A2A_DIALECT: HeaderName = HeaderName::from_static("x-a2a-dialect");

/// Time between attempts to reserve memory for the next piece of an answer that has begun.
const ROOM_AGAIN: Duration = Duration::from_millis(20);

/// The result of a call.
pub enum CallResult {
    Sent(SendAnswer, TaskView),
    /// A task, and whether the caller named it by its alias.
    Task(Arc<Task>, TaskView, bool),
    /// A settled task in its cached encoding.
    Encoded(Bytes),
    List(TaskListing, TaskView),
    /// The answer to a push call, and the tenant that the request named.
    Push(PushAnswer, Option<String>),
    Card(Bytes),
    Stream(Box<StreamPlan>),
}

impl CallResult {
    /// About the size of the result in JSON, for the first allocation and the memory of answers.
    pub fn encoded_size(&self) -> usize {
        match self {
            CallResult::Sent(SendAnswer::Task(task), _) | CallResult::Task(task, ..) => encoded_size(task),
            CallResult::List(listing, _) => listing.tasks.iter().map(|task| encoded_size(task)).sum::<usize>() + SMALL,
            CallResult::Encoded(bytes) | CallResult::Card(bytes) => bytes.len() + SMALL,
            CallResult::Sent(SendAnswer::Reply(_), _) | CallResult::Push(..) | CallResult::Stream(_) => SMALL,
        }
    }
}

/// The first allocation of a small answer.
const SMALL: usize = 1_024;

fn encoded_size(task: &Task) -> usize {
    task.weight() + SMALL
}

/// A stream to be served, and its form.
pub struct StreamPlan {
    subscription: Subscription,
    /// The id that the caller uses for the task.
    shown: Option<Arc<str>>,
    view: TaskView,
    /// Leaves out the initial state of the task, because the caller has it.
    only_later: bool,
    /// The permit for one of the caller's streams, where they are limited.
    _permit: Option<ConcurrencyPermit>,
}

/// Identifies the caller, and checks that it is admitted at this mount and within the limits of calls.
pub async fn who(
    server: &Arc<GatewayVersion>,
    mounted: &MountedAgent,
    head: &request::Parts,
    log: &mut RequestLog,
) -> Result<Arc<Caller>, Fault> {
    let throttle = server.throttle.as_ref();
    let caller = match mounted.door {
        AuthMode::None => server.callers.anonymous().clone(),
        AuthMode::Required | AuthMode::Optional => match server.callers.identify(&head.headers).await {
            Ok(caller) => caller,
            Err(fault) => {
                if let (Some(throttle), Kind::Unauthenticated) = (throttle, fault.kind) {
                    throttle.failed(log.address)?;
                }
                return Err(fault);
            }
        },
    };
    log.caller = Some(caller.name.clone());
    if !caller.authenticated && server.requires(mounted) && !server.opens(&mounted.agent) {
        return Err(credential_missing(mounted));
    }
    if let Some(throttle) = throttle {
        throttle.admit(&caller, log.address)?;
    }
    Ok(caller)
}

/// The fault of a caller without a credential at a mount that requires one.
fn credential_missing(mounted: &MountedAgent) -> Fault {
    let fault = auth::credential_required();
    match &mounted.bearer {
        Some(advice) => Fault { message: format!("{}; {advice}", fault.message), ..fault },
        None => fault,
    }
}

/// The wire that an answer is written in.
#[derive(Clone, Copy)]
pub enum AnswerWire {
    Json(&'static dyn JsonWire),
    Proto(&'static dyn ProtoWire),
}

impl AnswerWire {
    pub fn codec(self) -> &'static dyn Codec {
        match self {
            AnswerWire::Json(wire) => wire,
            AnswerWire::Proto(wire) => wire,
        }
    }

    pub(crate) fn card(self, facts: &CardFacts<'_>) -> Bytes {
        match self {
            AnswerWire::Json(wire) => wire.card(facts),
            AnswerWire::Proto(wire) => wire.card(facts),
        }
    }

    /// A settled task as it is cached; `None` for one with large content, which is streamed or loaded for each answer.
    fn settled(self, task: &Task, view: &TaskView, size: usize) -> Option<Bytes> {
        match self {
            AnswerWire::Json(wire) => {
                let mut w = Writer::with_capacity(size);
                wire.task(&mut w, task, view, None);
                w.finish().as_bytes().cloned()
            }
            AnswerWire::Proto(wire) => {
                let has_blobs = dialects::proto_wire::blobs_of_task(task).next().is_some();
                (!has_blobs).then(|| {
                    let mut w = ProtoWriter::with_capacity(size);
                    wire.task(&mut w, task, view, None);
                    w.finish().into()
                })
            }
        }
    }
}

impl From<&'static dyn JsonWire> for AnswerWire {
    fn from(wire: &'static dyn JsonWire) -> AnswerWire {
        AnswerWire::Json(wire)
    }
}

/// A call in progress: the agent and mount of its address, its caller, and the dialect of its answer.
pub struct CallContext<'a> {
    pub server: &'a Arc<GatewayVersion>,
    pub mounted: &'a MountedAgent,
    pub head: &'a request::Parts,
    pub caller: Arc<Caller>,
    pub wire: AnswerWire,
    /// The rules of the call: those of the wire or, where two generations share a method, of the dialect that opened
    /// the task.
    pub rules: &'static dyn Codec,
    /// A task is shown under its thread and its own id.
    pub threaded: bool,
}

impl CallContext<'_> {
    /// Performs a call; the second value is the tenant it was performed in. An idempotency key is bound to `body`.
    pub fn perform<'a>(
        &'a self,
        effective: EffectiveCall,
        body: &'a [u8],
        log: &'a mut RequestLog,
    ) -> Future<'a, Result<(CallResult, Arc<str>), Fault>> {
        Box::pin(async move {
            log.operation = effective.call.name();
            let place = self.place(&effective)?;
            let (permit, _waiting) = self.permit(&effective.call, log.address)?;
            let mut done = self.carry_out(&place, effective, body).await?;
            if let CallResult::Stream(follow) = &mut done {
                follow._permit = permit;
            }
            Ok((done, place.caller.tenant.clone()))
        })
    }

    /// Permits for one of the caller's streams or waiting calls, held while it streams or waits.
    fn permit(
        &self,
        call: &Call,
        address: IpAddr,
    ) -> Result<(Option<ConcurrencyPermit>, Option<GaugeGuard<&Gauge>>), Fault> {
        let throttle = self.server.throttle.as_ref();
        match call {
            Call::Send(send) if send.wait != Wait::Exists => {
                let permit = throttle.map(|throttle| throttle.waiting(&self.caller, address)).transpose()?.flatten();
                Ok((permit, Some(GaugeGuard::new(&self.server.metrics.waiting))))
            }
            Call::Stream(_) | Call::Subscribe(_) => {
                let permit = throttle.map(|throttle| throttle.stream(&self.caller, address)).transpose()?.flatten();
                Ok((permit, None))
            }
            Call::Send(_) | Call::Get(_) | Call::List(_) | Call::Cancel(_) | Call::Push(_) | Call::ExtendedCard => {
                Ok((None, None))
            }
        }
    }

    /// Asks the product that guards this agent. Other agents cost a check of an `Option`.
    async fn check_send(&self, place: &CallScope, send: &model::Send) -> Result<(), Fault> {
        match &self.mounted.send_guard {
            Some(guard) if guard.own_dialect() != self.wire.codec().name() => {
                let caller = Some(&*self.caller).filter(|caller| caller.authenticated);
                guard.admit(&self.server.engine, place, send, caller).await
            }
            Some(_) | None => Ok(()),
        }
    }

    async fn carry_out(
        &self,
        place: &Arc<CallScope>,
        effective: EffectiveCall,
        body: &[u8],
    ) -> Result<CallResult, Fault> {
        let engine = &self.server.engine;
        let EffectiveCall { call, tenant, start } = effective;
        match call {
            Call::Send(mut send) => {
                self.check_send(place, &send).await?;
                self.complete(&mut send, body)?;
                let view = TaskView::with_history(send.history);
                let answer = match engine.send(place, *send).await? {
                    SendAnswer::Task(task) if self.shares_session(&view) => {
                        SendAnswer::Task(engine.with_session(place, task, self.answers()).await?)
                    }
                    answer @ (SendAnswer::Task(_) | SendAnswer::Reply(_)) => answer,
                };
                Ok(CallResult::Sent(answer, view))
            }
            Call::Stream(mut send) => {
                self.check_send(place, &send).await?;
                self.complete(&mut send, body)?;
                let (view, shown) = (TaskView::with_history(send.history), send.alias.as_deref().map(Arc::from));
                let subscription = engine.stream(place, *send).await?;
                Ok(self.follow(subscription, shown, view, false))
            }
            Call::Get(get) => self.get(place, get).await,
            Call::List(list) => {
                let view = TaskView { history: list.history, artifacts: list.artifacts };
                Ok(CallResult::List(engine.list(place, &list).await?, view))
            }
            Call::Cancel(cancel) => {
                let view = self.rules.facts().cancel_view;
                let id = cancel.task.clone();
                let task = engine.cancel(place, cancel).await?;
                let by_alias = task.alias.as_deref() == Some(&*id);
                Ok(CallResult::Task(task, view, by_alias))
            }
            Call::Subscribe(call) => {
                let event = match start {
                    StreamStart::Now => None,
                    StreamStart::Event(event) => Some(event),
                    StreamStart::SentEvent { event, view, alias } => {
                        let subscription = engine.resume_stream(place, event).await?;
                        return Ok(self.follow(subscription, alias, view, true));
                    }
                };
                let subscription = engine.subscribe(place, &call, event).await?;
                // A caller that named the task by an alias sees it under the alias, where the dialect has one.
                let alias = self.wire.codec().facts().shows_alias && call.task.parse() != Ok(subscription.task);
                let shown = alias.then(|| Arc::from(call.task));
                Ok(self.follow(subscription, shown, TaskView::WHOLE, event.is_some()))
            }
            Call::Push(call) => Ok(CallResult::Push(engine.push(place, call).await?, tenant)),
            Call::ExtendedCard => Ok(CallResult::Card(self.extended_card(place)?)),
        }
    }

    async fn get(&self, place: &Arc<CallScope>, get: model::Get) -> Result<CallResult, Fault> {
        let engine = &self.server.engine;
        let (slot, view) = (self.wire.codec().slot(false), TaskView::with_history(get.history));
        let forgotten = self.server.cache.forgotten();
        let id = if get.history.is_none() { engine.own_id(place, &get.task).await } else { None };
        if let Some(id) = id
            && let Some(bytes) = self.server.cache.get(id, slot, place)
        {
            return Ok(CallResult::Encoded(bytes));
        }
        if self.shares_session(&view) {
            let task = engine.get_with_session(place, &get.task, self.answers()).await?;
            let by_alias = task.alias.as_deref() == Some(&*get.task);
            return Ok(CallResult::Task(task, view, by_alias));
        }
        let task = engine.get(place, &get.task).await?;
        if id.is_some() && task.core.is_settled() {
            let size = encoded_size(&task);
            let _share = reserve(&self.server.answers, size)?;
            if let Some(bytes) = self.wire.settled(&task, &view, size) {
                self.server.cache.put(&task, slot, &bytes, forgotten);
                return Ok(CallResult::Encoded(bytes));
            }
        }
        let by_alias = task.alias.as_deref() == Some(&*get.task);
        Ok(CallResult::Task(task, view, by_alias))
    }

    /// Whether an answer contains the history of the whole session.
    fn shares_session(&self, view: &TaskView) -> bool {
        self.rules.facts().session_history && view.history != Some(0)
    }

    fn answers(&self) -> Answers {
        if self.rules.facts().answers_in_history { Answers::InHistory } else { Answers::Apart }
    }

    fn follow(&self, subscription: Subscription, shown: Option<Arc<str>>, view: TaskView, resumed: bool) -> CallResult {
        let only_later = resumed && !self.rules.facts().resumes_with_task;
        let shown = if self.threaded { Some(threaded(&subscription.context, subscription.task).into()) } else { shown };
        CallResult::Stream(Box::new(StreamPlan { subscription, shown, view, only_later, _permit: None }))
    }

    /// The id that the caller uses for a task: its alias, if it chose one.
    fn shown<'t>(&self, task: &'t Task) -> Option<Cow<'t, str>> {
        if self.threaded {
            return Some(threaded(&task.context, task.id).into());
        }
        let own = self.wire.codec().facts().shows_alias && task.owner == self.caller.name;
        task.alias.as_deref().filter(|_| own).map(Cow::Borrowed)
    }

    /// Writes any result but a stream, in JSON.
    pub fn write(&self, w: &mut Writer, done: &CallResult) {
        let AnswerWire::Json(wire) = self.wire else { return w.null() };
        match done {
            CallResult::Sent(SendAnswer::Task(task), view) => {
                wire.sent_task(w, task, view, self.shown(task).as_deref());
            }
            CallResult::Sent(SendAnswer::Reply(reply), _) => {
                wire.sent_message(w, &reply.message, &Head::new(reply.exchange, None, &reply.context));
            }
            CallResult::Task(task, view, by_alias) => {
                let shown = self.shown(task).filter(|_| *by_alias || self.threaded);
                wire.task(w, task, view, shown.as_deref());
            }
            CallResult::List(listing, view) => {
                let TaskListing { tasks, next_page_token, page_size, total } = listing;
                wire.list(w, &Page { tasks, view, next_page_token, page_size: *page_size, total_size: *total });
            }
            CallResult::Push(PushAnswer::Config(config), tenant) => wire.push_config(w, config, tenant.as_deref()),
            CallResult::Push(PushAnswer::List { configs, next_page_token }, tenant) => {
                wire.push_list(w, configs, tenant.as_deref(), next_page_token);
            }
            CallResult::Push(PushAnswer::Deleted(task), _) => wire.push_deleted(w, task),
            CallResult::Encoded(bytes) | CallResult::Card(bytes) => w.raw(std::str::from_utf8(bytes).unwrap_or("null")),
            CallResult::Stream(_) => w.null(),
        }
    }

    /// Writes any result but a stream and what is encoded already, in protobuf.
    fn write_message(&self, w: &mut ProtoWriter<'_>, wire: &dyn ProtoWire, done: &CallResult) {
        match done {
            CallResult::Sent(SendAnswer::Task(task), view) => {
                wire.sent_task(w, task, view, self.shown(task).as_deref());
            }
            CallResult::Sent(SendAnswer::Reply(reply), _) => {
                wire.sent_message(w, &reply.message, &Head::new(reply.exchange, None, &reply.context));
            }
            CallResult::Task(task, view, by_alias) => {
                let shown = self.shown(task).filter(|_| *by_alias || self.threaded);
                wire.task(w, task, view, shown.as_deref());
            }
            CallResult::List(listing, view) => {
                let TaskListing { tasks, next_page_token, page_size, total } = listing;
                wire.list(w, &Page { tasks, view, next_page_token, page_size: *page_size, total_size: *total });
            }
            CallResult::Push(PushAnswer::Config(config), tenant) => wire.push_config(w, config, tenant.as_deref()),
            CallResult::Push(PushAnswer::List { configs, next_page_token }, tenant) => {
                wire.push_list(w, configs, tenant.as_deref(), next_page_token);
            }
            // An empty message.
            CallResult::Push(PushAnswer::Deleted(_), _) => {}
            CallResult::Encoded(_) | CallResult::Card(_) | CallResult::Stream(_) => {}
        }
    }

    fn extended_card(&self, place: &CallScope) -> Result<Bytes, Fault> {
        let has_card = self.server.has_extended_card(self.mounted);
        if let AnswerWire::Proto(wire) = self.wire
            && wire.has_public_card()
            && !self.mounted.retired
            && !(has_card && self.caller.authenticated)
        {
            return Ok(self.server.plain_card(self.mounted, self.head, self.wire));
        }
        if !has_card {
            return Err(Fault::new(Kind::Unsupported, "this agent has no extended card"));
        }
        if !self.caller.authenticated {
            let message =
                "the extended card is for known callers: send Authorization: Bearer <key> or X-Api-Key: <key>";
            return Err(Fault::new(Kind::Unauthenticated, message));
        }
        Ok(self.server.extended_card(self.mounted, &place.caller, self.head, self.wire))
    }

    /// The scope of a call, if the call is permitted. Every front calls this before it looks up a task.
    pub fn place(&self, effective: &EffectiveCall) -> Result<Arc<CallScope>, Fault> {
        let place = self.place_in(effective.tenant.as_deref())?;
        let required = self.server.requires(self.mounted);
        let (tenant, agent) = (&place.caller.tenant, &self.mounted.agent);
        self.server.permits(&self.caller, tenant, agent, &effective.call, required)?;
        Ok(place)
    }

    /// The scope in the tenant that the request names. An authenticated caller stays in its own tenant; another tenant
    /// is answered like one that does not exist.
    fn place_in(&self, tenant: Option<&str>) -> Result<Arc<CallScope>, Fault> {
        let own = match &self.mounted.tenant {
            Some(fixed) if !self.caller.authenticated || *fixed == self.caller.tenant => fixed,
            Some(_) => return Err(Fault::new(Kind::TaskNotFound, "there is nothing here for your tenant")),
            None => &self.caller.tenant,
        };
        let tenant = match tenant {
            None | Some("") => own.clone(),
            Some(tenant) if *tenant == **own => own.clone(),
            // Without any credentials tenants are only names; with credentials they isolate callers.
            Some(tenant) if !self.caller.authenticated && self.server.lets_choose_tenant(self.mounted) => tenant.into(),
            Some(_) => return Err(Fault::new(Kind::TaskNotFound, "there is no such tenant here")),
        };
        Ok(self.mounted.place(&self.caller, &tenant, self.wire.codec()))
    }

    /// Fills in the members of a send that come from headers.
    fn complete(&self, send: &mut model::Send, body: &[u8]) -> Result<(), Fault> {
        complete(self.server, &self.head.headers, send, body)
    }

    /// Adds the headers for the dialect of the answer and for the requested extensions that the agent has.
    fn finish(&self, response: &mut Response) {
        let codec = self.wire.codec();
        sign(response, codec);
        let asked = extensions(&self.head.headers);
        if asked.is_empty() {
            return;
        }
        let Some(profile) = self.server.engine.profile(&self.mounted.agent) else { return };
        let known = profile.extensions.iter().filter(|e| asked.contains(&e.uri)).map(|e| e.uri.as_str());
        let active = known.collect::<Vec<_>>().join(", ");
        let name = HeaderName::from_bytes(codec.facts().extensions_header.as_bytes());
        if let (false, Ok(name), Ok(active)) = (active.is_empty(), name, HeaderValue::from_str(&active)) {
            response.headers_mut().insert(name, active);
        }
    }
}

impl GatewayVersion {
    /// Whether a caller without a credential may choose its tenant at a mount. It may not where a credential of any
    /// kind (a key, a token of an issuer, of a workspace or of systems) puts its holder's tasks with this agent into a
    /// tenant.
    fn lets_choose_tenant(&self, mounted: &MountedAgent) -> bool {
        let of_product = || self.settings.products.iter().any(|product| product.separates_tenants(&mounted.agent));
        !(mounted.tenant.is_some() || self.callers.has_any() || of_product())
    }
}

/// Fills in the members of a send that come from headers.
pub fn complete(
    server: &GatewayVersion,
    headers: &HeaderMap,
    send: &mut model::Send,
    body: &[u8],
) -> Result<(), Fault> {
    send.extensions = extensions(headers);
    send.trace = trace(headers).map(str::to_owned);
    if let Some(key) = idempotency_key(headers) {
        let key = key.unwrap_or_default();
        if key.is_empty() || key.len() > server.engine.limits().id_bytes {
            return Err(Fault::params("Idempotency-Key", "an Idempotency-Key is 1 to 256 printable characters"));
        }
        send.idempotency = Some(Idempotency { key: key.to_owned(), body: Sha256::digest(body).into() });
    }
    Ok(())
}

/// A task under its thread and its own id.
pub(crate) fn threaded(context: &ContextId, task: TaskId) -> String {
    format!("{}:{task}", context.as_str())
}

pub fn sign(response: &mut Response, wire: &dyn Codec) {
    response.headers_mut().insert(A2A_DIALECT.clone(), HeaderValue::from_static(wire.name()));
}

/// HTTP status for faults that have one; other faults are 200 with a JSON-RPC error.
pub(crate) fn status_of(kind: Kind) -> Option<StatusCode> {
    match kind {
        Kind::Unauthenticated => Some(StatusCode::UNAUTHORIZED),
        Kind::Forbidden => Some(StatusCode::FORBIDDEN),
        Kind::TooLarge => Some(StatusCode::PAYLOAD_TOO_LARGE),
        Kind::MediaType => Some(StatusCode::UNSUPPORTED_MEDIA_TYPE),
        Kind::RateLimited => Some(StatusCode::TOO_MANY_REQUESTS),
        Kind::Unavailable => Some(StatusCode::SERVICE_UNAVAILABLE),
        Kind::Parse
        | Kind::InvalidRequest
        | Kind::MethodNotFound
        | Kind::VerbNotAllowed
        | Kind::InvalidParams
        | Kind::TaskNotFound
        | Kind::TaskNotCancelable
        | Kind::TaskSettled
        | Kind::PushNotSupported
        | Kind::Unsupported
        | Kind::ContentType
        | Kind::InvalidAgentResponse
        | Kind::ExtendedCardNotConfigured
        | Kind::ExtensionRequired
        | Kind::VersionNotSupported
        | Kind::InsufficientBalance
        | Kind::BudgetExceeded
        | Kind::KeyReused
        | Kind::Internal => None,
    }
}

/// The operation of a call, for error tables.
fn operation(decoded: &Decoded) -> Operation {
    Operation::from(&decoded.call)
}

/// The version that a request states: by header, or by a query parameter of the same name.
pub fn stated_version(head: &request::Parts) -> Result<Option<(u32, u32)>, Fault> {
    let mut said = head.headers.get_all(&A2A_VERSION).iter();
    let header = match (said.next(), said.next()) {
        (None, _) => None,
        (Some(value), None) => Some(value.to_str().unwrap_or("?")),
        (Some(_), Some(_)) => Some("several"),
    };
    let query = match head.uri.query().filter(|q| q.contains("ersion")) {
        Some(query) => dialects::framing::query::value(query, "A2A-Version")?,
        None => None,
    };
    dialects::decide::stated(header, query.as_deref())
}

/// Extensions that the caller names, under the header of either generation.
fn extensions(headers: &HeaderMap) -> Vec<String> {
    let lines = headers.get_all(&A2A_EXTENSIONS).iter().chain(headers.get_all(&X_A2A_EXTENSIONS));
    let names = lines.filter_map(|v| v.to_str().ok()).flat_map(|v| v.split(','));
    names.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).take(100).collect()
}

/// How answers to this request show large files.
pub fn terms(server: &GatewayVersion, head: &request::Parts, tenant: &Arc<str>) -> LinkOptions {
    let base = server.cards.base_url(&server.settings, head);
    LinkOptions { base, tenant: tenant.clone(), files: server.settings.files }
}

/// The body of an encoded answer: at once if it is in memory, piece by piece if it refers to large content.
pub async fn into_body(
    server: &Arc<GatewayVersion>,
    head: &request::Parts,
    tenant: &Arc<str>,
    encoded: Encoded,
) -> Result<ResponseBody, Fault> {
    if let Some(bytes) = encoded.as_bytes() {
        return Ok(counted(&server.answers, bytes.clone())?.into());
    }
    let encoded = server.links.settle(encoded, &terms(server, head, tenant)).await?;
    if let Some(bytes) = encoded.as_bytes() {
        return Ok(counted(&server.answers, bytes.clone())?.into());
    }
    let (server, tenant) = (server.clone(), tenant.clone());
    let segments = futures_util::stream::iter(encoded.into_segments());
    Ok(ResponseBody::stream(futures_util::StreamExt::then(segments, move |segment| {
        let (server, tenant) = (server.clone(), tenant.clone());
        async move {
            load_when_there_is_room(&server, &tenant, segment).await.map_err(|fault| {
                tracing::error!(cause = %fault.cause_text(), "an answer broke off: {fault}");
                std::io::Error::other(fault.message)
            })
        }
    })))
}

/// A piece of an answer that has begun: it waits for memory as long as a reader may take to read.
async fn load_when_there_is_room(server: &GatewayVersion, tenant: &Arc<str>, segment: Segment) -> Result<Bytes, Fault> {
    let bytes = match &segment {
        Segment::Bytes(bytes) => return counted(&server.answers, bytes.clone()).or(Ok(bytes.clone())),
        // JSON adds a third to its size, or a little more.
        Segment::Blob(blob) => usize::try_from(blob.len).unwrap_or(usize::MAX).saturating_mul(4) / 3,
        Segment::File(_) => 0,
    };
    let patience = Duration::from_millis(u64::from(server.settings.timeouts.write_ms));
    let since = Instant::now();
    let share = loop {
        match room(&server.answers, bytes) {
            Ok(share) => break share,
            Err(fault) if since.elapsed() >= patience => return Err(fault),
            Err(_) => tokio::time::sleep(ROOM_AGAIN).await,
        }
    };
    Ok(with_room(load(server, tenant, segment).await?, share))
}

async fn load(server: &GatewayVersion, tenant: &Arc<str>, segment: Segment) -> Result<Bytes, Fault> {
    match segment {
        Segment::Bytes(bytes) => Ok(bytes),
        Segment::Blob(blob) => {
            let content = server.engine.blob(tenant, blob.hash).await?;
            Ok(in_json(blob.kind, &content))
        }
        Segment::File(file) => Err(Fault::internal(format!("a file was not settled: {:?}", file.name))),
    }
}

/// Loads everything into memory, for a frame of a stream.
pub async fn load_all(server: &GatewayVersion, terms: &LinkOptions, encoded: Encoded) -> Result<Bytes, Fault> {
    if let Some(bytes) = encoded.as_bytes() {
        return Ok(bytes.clone());
    }
    let encoded = server.links.settle(encoded, terms).await?;
    if let Some(bytes) = encoded.as_bytes() {
        return Ok(bytes.clone());
    }
    let mut out = Vec::new();
    for segment in encoded.into_segments() {
        out.extend_from_slice(&load(server, &terms.tenant, segment).await?);
    }
    Ok(out.into())
}
