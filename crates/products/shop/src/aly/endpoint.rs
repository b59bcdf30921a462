//! Aly's endpoint: the store agent at `/api/a2a`, by JSON-RPC and by HTTP+JSON, and the same below `/aly`.
//!
//! [`crate::aly`] has the encoding; this module has permissions and push configs. Every caller may send a message that needs
//! no scope; all else needs an API key or access token of a workspace ([`crate::oauth`]), which is the task's tenant. The
//! permission is checked before a task exists. Push configs have a maximum number and a restricted URL, can be named by their
//! URL, and end with their task.

use std::sync::Arc;

use crate::admission::Needs;
use crate::aly::decode::METHODS;
use crate::aly::{self, CONFIGS, WIRE, card};
use bytes::Bytes;
use dialects::framing::json::Writer;
use dialects::framing::jsonrpc::{self, Id, OwnedId, Unreadable};
use dialects::framing::scan;
use dialects::wire::Operation;
use dialects::{Codec, JsonWire};
use engine::PushAnswer;
use http::header::{ALLOW, AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Method, StatusCode, request};
use hyper::body::Incoming;
use model::{Call, CallScope, Caller, ContextId, Fault, Kind, PushCall, PushConfig, Send, Task};
use url::{Host, Url};

use crate::ShopEndpoint;
use crate::oauth::{Oauth, covers, endpoints};
use crate::{ShopService, StoreAgentSettings};
use gateway::fronts::{
    A2A_VERSION, AnswerWire, CallContext, CallResult, EffectiveCall, Gate, RequestLog, into_body, rest, sign, stream,
    terms,
};
use gateway::mounts::MountedAgent;
use gateway::settings::{self, AuthMode, Settings};
use gateway::{GatewayVersion, auth, intake};
use web::body::{Response, ResponseBody};
use web::credentials::bearer;
use web::response::{json, not_allowed};

/// Checks that the store agent is among the agents.
pub fn check(aly: &StoreAgentSettings, settings: &Settings) -> Result<(), settings::Error> {
    if settings.agents.contains(&aly.agent) {
        return Ok(());
    }
    Err(settings::Error(format!("aly: there is no agent {:?} to be the store agent", aly.agent)))
}

/// Answers a request at `/api/a2a` or below it.
pub(crate) async fn answer(
    server: &Arc<GatewayVersion>,
    below: &str,
    head: &request::Parts,
    body: Incoming,
    log: &mut RequestLog,
) -> Response {
    log.dialect = aly::NAME;
    let Some(request) = StoreAgentRequest::open(server, head) else {
        return rest::nothing_at(head.uri.path(), head, log);
    };
    log.agent = Some(request.mounted.agent.clone());
    let response = match below {
        "" | "/" if head.method != Method::POST => not_allowed("POST"),
        "" | "/" => {
            if let Err(fault) = web::headers::check_media_type(&head.headers) {
                let mut response = Box::pin(request.rpc(Err(fault), log)).await;
                *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
                return signed(response);
            }
            let body = intake::read(server, head, body, None, Gate::Product(&ShopEndpoint::Agent(below)), log).await;
            Box::pin(request.rpc(body, log)).await
        }
        below => {
            let mut operation = Operation::Unknown;
            match Box::pin(request.rest(below, body, log, &mut operation)).await {
                Ok(response) => response,
                Err(fault) => request.rest_fault(&fault, operation, log),
            }
        }
    };
    signed(response)
}

/// Answers a request whose body was refused before it was read.
pub(crate) fn answer_unread(
    server: &Arc<GatewayVersion>,
    below: &str,
    head: &request::Parts,
    fault: &Fault,
    log: &mut RequestLog,
) -> Response {
    log.dialect = aly::NAME;
    let Some(request) = StoreAgentRequest::open(server, head) else {
        return rest::nothing_at(head.uri.path(), head, log);
    };
    signed(match below {
        "" | "/" => rpc_fault(&OwnedId::NULL, fault, Operation::Unknown, log),
        _ => request.rest_fault(fault, Operation::Unknown, log),
    })
}

/// A request to the store agent, with the parts of the server that handle it.
struct StoreAgentRequest<'a> {
    server: &'a Arc<GatewayVersion>,
    aly: &'a StoreAgentSettings,
    oauth: &'a Oauth,
    mounted: &'a MountedAgent,
    head: &'a request::Parts,
}

/// The credential of a request.
pub(crate) enum PresentedCredential {
    Nothing,
    /// The token of a browser session, which identifies no caller of the store agent.
    Session,
    Caller(Arc<Caller>),
}

impl<'a> StoreAgentRequest<'a> {
    fn open(server: &'a Arc<GatewayVersion>, head: &'a request::Parts) -> Option<StoreAgentRequest<'a>> {
        let service = ShopService::of(server)?;
        let (aly, oauth) = (&service.settings, service.oauth());
        let mounted = server.mounts.agent(&aly.agent)?;
        Some(StoreAgentRequest { server, aly, oauth, mounted, head })
    }

    async fn rpc(&self, body: Result<Bytes, Fault>, log: &mut RequestLog) -> Response {
        let depth = self.server.engine.limits().json_depth;
        let body = match body.and_then(|body| scan::scan(&body, depth).map(|_| ()).map(|()| body.clone())) {
            Ok(body) => body,
            Err(fault) => {
                let mut response = rpc_fault(&OwnedId::NULL, &fault, Operation::Unknown, log);
                // An incomplete body is an error of HTTP.
                if fault.kind == Kind::InvalidRequest && fault.cause.is_some() {
                    *response.status_mut() = StatusCode::BAD_REQUEST;
                }
                return response;
            }
        };
        // The scan has checked that the body is UTF-8.
        let request = match jsonrpc::read(std::str::from_utf8(&body).unwrap_or_default()) {
            Ok(request) => request,
            Err(Unreadable { id, fault, .. }) => return rpc_fault(&id, &fault, Operation::Unknown, log),
        };
        let mut operation = Operation::Unknown;
        let mut response = match self.call(&request, log, &mut operation).await {
            Ok(response) => response,
            Err(fault) => rpc_fault(&request.id, &fault, operation, log),
        };
        // A notification has no JSON-RPC response; the HTTP status stays.
        if request.is_notification {
            *response.body_mut() = ResponseBody::empty();
            response.headers_mut().remove(CONTENT_TYPE);
            if response.status() == StatusCode::OK {
                *response.status_mut() = StatusCode::NO_CONTENT;
            }
        }
        response
    }

    async fn call(
        &self,
        request: &jsonrpc::RpcRequest<'_>,
        log: &mut RequestLog,
        operation: &mut Operation,
    ) -> Result<Response, Fault> {
        let limits = self.server.engine.limits();
        let known = METHODS.contains(&&*request.method);
        let is_send = matches!(&*request.method, "SendMessage" | "SendStreamingMessage");
        // Known methods require permission; an unknown method is reported to every caller.
        let shown = if known { self.identify_caller(is_send, log).await? } else { PresentedCredential::Nothing };
        let decoded = WIRE.decode_rpc(&request.method, request.params, limits)?;
        *operation = Operation::from(&decoded.call);
        let params = request.params.map_or("", |params| params.get());
        let effective = EffectiveCall::of(decoded, &self.head.headers)?;
        let (asked, done, tenant) = self.perform(shown, effective, params.as_bytes(), log).await?;
        Ok(match done {
            CallResult::Stream(follow) => {
                let terms = terms(self.server, self.head, &tenant);
                stream::rpc(self.server.clone(), &WIRE, *follow, terms, request.id.to_owned())
            }
            done => {
                let mut w: Writer = jsonrpc::begin_result(&request.id, 1_024);
                asked.write(&mut w, &done);
                jsonrpc::end_result(&mut w);
                json(into_body(self.server, self.head, &tenant, w.finish()).await?)
            }
        })
    }

    async fn rest(
        &self,
        below: &str,
        body: Incoming,
        log: &mut RequestLog,
        operation: &mut Operation,
    ) -> Result<Response, Fault> {
        let (server, head, limits) = (self.server, self.head, self.server.engine.limits());
        // HEAD is handled as GET; hyper omits the body.
        let verb = if head.method == Method::HEAD { "GET" } else { head.method.as_str() };
        let route = WIRE.route(verb, below, head.uri.query())?;
        if head.method == Method::HEAD && route.is_stream() {
            return Err(Fault::new(Kind::VerbNotAllowed, "a stream has no HEAD").fact("allow", "GET, POST"));
        }
        let asked_for = route.operation();
        let is_send = matches!(asked_for, Operation::Send | Operation::Stream);
        let shown = self.identify_caller(is_send, log).await?;
        let body = if route.reads_body() {
            web::headers::check_media_type(&head.headers)?;
            intake::read(server, head, body, None, Gate::Open, log).await?
        } else {
            Bytes::new()
        };
        // The body of a cancel or a subscription adds nothing to the path.
        let reads = is_send || asked_for == Operation::PushCreate;
        let text = if reads { scan::scan(&body, limits.json_depth)? } else { "" };
        let decoded = route.decode(text, limits)?;
        *operation = asked_for;
        let effective = EffectiveCall::of(decoded, &head.headers)?;
        let (asked, done, tenant) = self.perform(shown, effective, &body, log).await?;
        Ok(match done {
            CallResult::Stream(follow) => stream::rest(server.clone(), &WIRE, *follow, terms(server, head, &tenant)),
            done => {
                let mut w = Writer::with_capacity(1_024);
                asked.write(&mut w, &done);
                json(into_body(server, head, &tenant, w.finish()).await?)
            }
        })
    }

    /// Identifies the caller and applies the rate limits. An invalid key or token is rejected also where none is needed; the
    /// token of a browser session counts as no credential.
    async fn identify_caller(&self, is_send: bool, log: &mut RequestLog) -> Result<PresentedCredential, Fault> {
        let throttle = self.server.throttle.as_ref();
        let shown = match identify(self.server, self.oauth, &self.head.headers).await {
            Ok(shown) => shown,
            Err(fault) => {
                if let (Some(throttle), Kind::Unauthenticated) = (throttle, fault.kind) {
                    throttle.failed(log.address)?;
                }
                return Err(fault);
            }
        };
        let caller = match &shown {
            PresentedCredential::Caller(caller) => caller,
            // Where the operator requires authentication, no operation is public.
            PresentedCredential::Nothing | PresentedCredential::Session
                if is_send && !is_closed(self.server, self.mounted) =>
            {
                self.server.callers.anonymous()
            }
            PresentedCredential::Nothing => return Err(unauthenticated("authentication is required")),
            PresentedCredential::Session => return Err(unauthenticated("a browser session's token is not taken here")),
        };
        log.caller = Some(caller.name.clone());
        if let Some(throttle) = throttle {
            throttle.admit(caller, log.address)?;
        }
        Ok(shown)
    }

    /// Performs a call; also returns the tenant of its task.
    async fn perform(
        &self,
        shown: PresentedCredential,
        mut effective: EffectiveCall,
        body: &[u8],
        log: &mut RequestLog,
    ) -> Result<(CallContext<'a>, CallResult, Arc<str>), Fault> {
        let caller = match (shown, sent(&mut effective.call)) {
            (PresentedCredential::Caller(caller), Some(send)) => {
                self.admit(send, Some(&caller)).await?;
                caller
            }
            (PresentedCredential::Caller(caller), None) => caller,
            (PresentedCredential::Nothing | PresentedCredential::Session, Some(send)) => {
                let needs = self.admit(send, None).await?;
                let nobody = Caller::anonymous();
                let tenant = needs.workspace.unwrap_or_else(|| nobody.tenant.clone());
                Arc::new(Caller { tenant, ..nobody })
            }
            (PresentedCredential::Nothing | PresentedCredential::Session, None) => {
                return Err(unauthenticated("authentication is required"));
            }
        };
        let asked = CallContext {
            server: self.server,
            mounted: self.mounted,
            head: self.head,
            caller,
            wire: AnswerWire::Json(&WIRE),
            rules: &WIRE,
            threaded: false,
        };
        if let Call::Push(call) = &effective.call {
            log.operation = call.name();
            let place = asked.place(&effective)?;
            let done = self.push(&place, call.clone()).await?;
            return Ok((asked, CallResult::Push(done, None), place.caller.tenant.clone()));
        }
        let (done, tenant) = asked.perform(effective, body, log).await?;
        Ok((asked, done, tenant))
    }

    /// Checks the permission to send a message, and adds a context id if it has none.
    async fn admit(&self, send: &mut Send, caller: Option<&Caller>) -> Result<Needs, Fault> {
        // A message to this endpoint always opens a task.
        let needs = admit(self.aly, send, caller, None).await?;
        if let Some(config) = &send.push {
            if caller.is_none() {
                return Err(unauthenticated("push configs need a token of the workspace"));
            }
            check_url(config).map_err(|fault| Fault { kind: Kind::PushNotSupported, ..fault })?;
        }
        if send.context.is_none() {
            send.context = Some(ContextId(format!("ctx_{}", uuid::Uuid::now_v7().as_simple()).into()));
        }
        Ok(needs)
    }

    /// Push configs by Aly's rules. A settled task has none: the engine removes them after the last delivery
    /// (`clears_push`), and until then they are hidden.
    async fn push(&self, place: &CallScope, call: PushCall) -> Result<PushAnswer, Fault> {
        let engine = &self.server.engine;
        let task = match &call {
            PushCall::Create(config) => config.task.clone().unwrap_or_default(),
            PushCall::Get { task, .. } | PushCall::List { task, .. } | PushCall::Delete { task, .. } => task.clone(),
        };
        let settled = engine.get(place, &task).await?.core.is_settled();
        match call {
            PushCall::Create(_) if settled => {
                Err(Fault::new(Kind::TaskSettled, "the task has ended: nothing more will be told of it"))
            }
            PushCall::Create(config) => {
                check_url(&config)?;
                let others = self.configs(place, &task).await?;
                let others = others.iter().filter(|known| known.id.is_none() || known.id != config.id).count();
                if others >= CONFIGS {
                    let message = format!("a task has at most {CONFIGS} push configs; delete one first");
                    return Err(Fault::params("url", message));
                }
                engine.push(place, PushCall::Create(config)).await
            }
            PushCall::List { .. } if settled => {
                Ok(PushAnswer::List { configs: Vec::new(), next_page_token: String::new() })
            }
            PushCall::List { .. } => engine.push(place, call).await,
            PushCall::Get { .. } | PushCall::Delete { .. } if settled => Err(config_not_found()),
            PushCall::Get { id, .. } => {
                let found = named(self.configs(place, &task).await?, &id);
                found.into_iter().next().map(PushAnswer::Config).ok_or_else(config_not_found)
            }
            PushCall::Delete { id, .. } => {
                let found = named(self.configs(place, &task).await?, &id);
                if found.is_empty() {
                    return Err(config_not_found());
                }
                for id in found.into_iter().filter_map(|config| config.id) {
                    engine.push(place, PushCall::Delete { task: task.clone(), id }).await?;
                }
                Ok(PushAnswer::Deleted(task))
            }
        }
    }

    /// All push configs of a task; they fit on one page.
    async fn configs(&self, place: &CallScope, task: &str) -> Result<Vec<PushConfig>, Fault> {
        let page_size = Some(self.server.engine.limits().page_size);
        let call = PushCall::List { task: task.to_owned(), page_size, page_token: None };
        match self.server.engine.push(place, call).await? {
            PushAnswer::List { configs, .. } => Ok(configs),
            PushAnswer::Config(_) | PushAnswer::Deleted(_) => Ok(Vec::new()),
        }
    }

    /// A fault as an HTTP+JSON response.
    fn rest_fault(&self, fault: &Fault, operation: Operation, log: &mut RequestLog) -> Response {
        log.fault(fault);
        let (status, encoded) = WIRE.rest_error(fault, operation);
        let mut response = json(encoded.as_bytes().cloned().unwrap_or_default());
        *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        if fault.kind == Kind::Unauthenticated {
            let base = self.server.cards.base_url(&self.server.settings, self.head);
            let how = format!("Bearer realm=\"a2a\", resource_metadata=\"{}\"", endpoints::resource_url(&base));
            let plain = HeaderValue::from_static("Bearer realm=\"a2a\"");
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_str(&how).unwrap_or(plain));
        }
        if let Some(seconds) = fault.retry_after_s {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        if let Some((_, allow)) = fault.facts.iter().find(|(name, _)| *name == "allow")
            && let Ok(allow) = HeaderValue::from_str(allow)
        {
            headers.insert(ALLOW, allow);
        }
        response
    }
}

/// Checks that the sender has the permissions that a message needs, and returns them. A `caller` of `None` has no
/// credential.
pub(crate) async fn admit(
    aly: &StoreAgentSettings,
    send: &Send,
    caller: Option<&Caller>,
    task: Option<&Task>,
) -> Result<Needs, Fault> {
    let needs = aly.admission.needs(task, &send.message).await?;
    if let Some(scope) = needs.scope {
        let Some(caller) = caller else {
            return Err(unauthenticated(&format!("this skill needs a token of the workspace with the scope {scope}")));
        };
        if !covers(&caller.scopes, scope) {
            let message = format!("the token is not good for {scope}; ask for one with that scope");
            return Err(Fault::new(Kind::Forbidden, message));
        }
        if needs.workspace.as_ref().is_some_and(|workspace| *workspace != caller.tenant) {
            return Err(Fault::new(Kind::Forbidden, "the token is of another workspace than the site"));
        }
    }
    Ok(needs)
}

/// Whether every caller must be authenticated.
pub(crate) fn is_closed(server: &GatewayVersion, mounted: &MountedAgent) -> bool {
    match mounted.door {
        AuthMode::Required => !server.opens(&mounted.agent),
        AuthMode::Optional | AuthMode::None => false,
    }
}

/// The credential in the headers: of OAuth, or a key of the server.
pub(crate) async fn identify(
    server: &GatewayVersion,
    oauth: &Oauth,
    headers: &HeaderMap,
) -> Result<PresentedCredential, Fault> {
    let Some(bearer) = bearer(headers) else { return Ok(PresentedCredential::Nothing) };
    if auth::jwt::is_token(bearer) {
        return Ok(PresentedCredential::Session);
    }
    if let Some(caller) = oauth.identify(&server.callers, bearer).await? {
        return Ok(PresentedCredential::Caller(caller));
    }
    // Keys of the server belong to a tenant, too.
    let mut only = HeaderMap::new();
    if let Some(value) = headers.get(AUTHORIZATION) {
        only.insert(AUTHORIZATION, value.clone());
    }
    match server.callers.identify(&only).await {
        Ok(caller) => Ok(PresentedCredential::Caller(caller)),
        Err(fault) if fault.kind == Kind::Unauthenticated => {
            Err(unauthenticated("the token is not known here, has expired or was revoked"))
        }
        Err(fault) => Err(fault),
    }
}

/// The message of a call, if it sends one.
fn sent(call: &mut Call) -> Option<&mut Send> {
    match call {
        Call::Send(send) | Call::Stream(send) => Some(send),
        Call::Get(_) | Call::List(_) | Call::Cancel(_) | Call::Subscribe(_) | Call::Push(_) | Call::ExtendedCard => {
            None
        }
    }
}

pub(crate) fn unauthenticated(why: &str) -> Fault {
    Fault::new(Kind::Unauthenticated, format!("{why}: send Authorization: Bearer and an OAuth access token or API key"))
}

fn config_not_found() -> Fault {
    Fault::new(Kind::TaskNotFound, "the task has no such push config; list them to see which there are")
}

/// The push config with this id, else those with this URL.
fn named(configs: Vec<PushConfig>, id: &str) -> Vec<PushConfig> {
    if let Some(one) = configs.iter().find(|config| config.id.as_deref() == Some(id)) {
        return vec![one.clone()];
    }
    configs.into_iter().filter(|config| config.url == id).collect()
}

/// Requires https, except on loopback. The webhook sender enforces what else the operator forbids.
fn check_url(config: &PushConfig) -> Result<(), Fault> {
    let refuse = |why: &str| Err(Fault::params("url", format!("the push config's url {why}")));
    let Ok(url) = Url::parse(&config.url) else { return refuse("is not an absolute URL") };
    let local = match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    };
    match url.scheme() {
        "https" => Ok(()),
        "http" if local => Ok(()),
        "http" => refuse("must be https outside of localhost"),
        _ => refuse("must be http or https"),
    }
}

/// A fault as a JSON-RPC response: HTTP status 200, except for faults that have an HTTP status of their own.
fn rpc_fault(id: &Id<'_>, fault: &Fault, operation: Operation, log: &mut RequestLog) -> Response {
    log.fault(fault);
    let mut out = Vec::with_capacity(256);
    WIRE.rpc_error(&mut out, id, fault, operation);
    let mut response = json(Bytes::from(out));
    if matches!(fault.kind, Kind::RateLimited | Kind::Unavailable | Kind::TooLarge) {
        let status = WIRE.error_line(fault.kind, operation).http;
        *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    }
    if let Some(seconds) = fault.retry_after_s {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

fn signed(mut response: Response) -> Response {
    sign(&mut response, &WIRE);
    response.headers_mut().insert(A2A_VERSION.clone(), HeaderValue::from_static(aly::VERSION));
    response
}

/// The card of the shop that the request's host belongs to, else the platform's card.
pub(crate) async fn card(server: &Arc<GatewayVersion>, head: &request::Parts, log: &mut RequestLog) -> Response {
    (log.operation, log.dialect) = ("card", aly::NAME);
    let Some(request) = StoreAgentRequest::open(server, head) else {
        return rest::nothing_at(head.uri.path(), head, log);
    };
    match request.shop().await {
        Ok(shop) => signed(request.card(shop.as_ref())),
        Err(fault) => signed(request.rest_fault(&fault, Operation::Unknown, log)),
    }
}

/// The card of the shop that the request's host belongs to; `None` if it is no shop's host. Served at the origin.
pub(crate) async fn shop_card(
    server: &Arc<GatewayVersion>,
    head: &request::Parts,
    log: &mut RequestLog,
) -> Option<Response> {
    let request = StoreAgentRequest::open(server, head)?;
    match request.shop().await {
        Ok(None) => None,
        Ok(shop) => {
            (log.operation, log.dialect) = ("card", aly::NAME);
            Some(signed(request.card(shop.as_ref())))
        }
        Err(fault) => Some(signed(request.rest_fault(&fault, Operation::Unknown, log))),
    }
}

impl StoreAgentRequest<'_> {
    fn host(&self) -> String {
        let base = self.server.cards.base_url(&self.server.settings, self.head);
        Url::parse(&base).ok().and_then(|url| url.host_str().map(str::to_ascii_lowercase)).unwrap_or_default()
    }

    async fn shop(&self) -> Result<Option<(crate::admission::ShopCard, String)>, Fault> {
        let host = self.host();
        let shop = self.aly.admission.shop(&host).await?;
        Ok(shop.map(|shop| (shop, host)))
    }

    fn card(&self, shop: Option<&(crate::admission::ShopCard, String)>) -> Response {
        let issuer = self.server.cards.base_url(&self.server.settings, self.head);
        let mount = if self.head.uri.path().starts_with("/aly/") { "/aly" } else { "" };
        let base = format!("{issuer}{mount}");
        let profile = self.server.engine.profile(&self.mounted.agent);
        let skills = profile.iter().flat_map(|profile| &profile.skills).map(|skill| card::CardSkill {
            id: &skill.id,
            name: &skill.name,
            description: &skill.description,
            tags: &skill.tags,
            examples: match self.aly.admission.example(&skill.id) {
                Some(example) => vec![example],
                None => skill.examples.iter().map(String::as_str).collect(),
            },
            scope: self.aly.admission.scope(&skill.id),
        });
        let card = card::card(&card::StoreCardFacts {
            base: &base,
            issuer: &issuer,
            platform: &self.aly.platform,
            description: profile.as_deref().map_or("", |profile| &profile.description),
            version: profile.as_deref().map_or("1.0.0", |profile| &profile.version),
            shop: shop.map(|(shop, host)| card::CardShop {
                slug: &shop.slug,
                title: &shop.title,
                host,
                description: shop.description.as_deref(),
            }),
            documentation_url: self.aly.documentation_url.as_deref(),
            streaming: profile.as_deref().is_none_or(|profile| profile.streaming),
            push: profile.as_deref().is_none_or(|profile| self.server.offers_push(profile)),
            skills: skills.collect(),
        });
        let mut response = json(Bytes::from(card.to_string()));
        let headers = response.headers_mut();
        gateway::cards::cacheable(headers);
        response
    }
}
