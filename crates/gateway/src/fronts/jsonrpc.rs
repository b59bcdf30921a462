//! JSON-RPC: one envelope in, one out, or a stream of them. All generations share one URL: most are told apart by the
//! method, the rest by the version header or the task itself.

use std::sync::Arc;

use bytes::Bytes;
use dialects::decide::{self, Decided, WireFault};
use dialects::framing::json::Writer;
use dialects::framing::jsonrpc::{self, Id, OwnedId, Unreadable};
use dialects::framing::scan;
use dialects::wire::{JsonWire, Operation};
use http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use http::{StatusCode, request};
use model::ports::Future;
use model::{Call, Caller, Fault, Kind};

use super::{
    A2A_DIALECT, CallContext, CallResult, EffectiveCall, RequestLog, into_body, operation, sign, stated_version,
    status_of, stream, terms, who,
};
use crate::mounts::MountedAgent;
use crate::product::{EndpointRequest, RequestBody, SharedCall, SharedOwner};
use crate::{GatewayVersion, auth};
use web::body::{Response, reserve, with_reserved};
use web::response::json;

/// Answers a request at an agent's address: decides its owner once, and hands it on. A product's front that receives a
/// request never calls this; for one that is an agent's after all it calls [`answer_to`].
pub(crate) async fn answer(
    server: &Arc<GatewayVersion>,
    mounted: &MountedAgent,
    head: &request::Parts,
    body: Result<Bytes, Fault>,
    log: &mut RequestLog,
) -> Response {
    let shared = || server.mounts.shared(head.uri.path());
    let named = head.headers.get(&A2A_DIALECT).map(|name| name.to_str().unwrap_or_default());
    let by_headers = shared().find(|product| match named {
        Some(name) => name == product.dialect(),
        None => product.by_headers(server, &head.headers),
    });
    if let Some(product) = by_headers {
        let body = RequestBody::of(body);
        return product.answer_unread(EndpointRequest { server, head, body, log }).await;
    }
    // Until the method is known, the version alone decides the dialect of an error.
    let version = stated_version(head);
    let stated = version.as_ref().ok().copied().flatten();
    if matches!(version, Ok(None)) {
        let read = body.as_ref().ok();
        let claimed = server.mounts.products().iter().find_map(|product| product.claim(server, head, read));
        if let Some(endpoint) = claimed {
            return endpoint.answer(EndpointRequest { server, head, body: RequestBody::of(body), log }).await;
        }
    }
    let first = decide::by_version(stated);
    let text = body.and_then(|body| match scan::scan(&body, server.engine.limits().json_depth) {
        Ok(_) => Ok(body),
        Err(fault) => Err(fault),
    });
    let body = match text {
        Ok(body) => body,
        Err(fault) => {
            let id = log.rpc_id.take().unwrap_or(OwnedId::NULL);
            let mut response = refuse(first, &id, &fault, Operation::Unknown, log);
            // A body that did not arrive whole is an HTTP error.
            if fault.kind == Kind::InvalidRequest && fault.cause.is_some() {
                *response.status_mut() = StatusCode::BAD_REQUEST;
            }
            return response;
        }
    };
    // The scan has checked that it is UTF-8.
    let request = match jsonrpc::read(std::str::from_utf8(&body).unwrap_or_default()) {
        Ok(request) => request,
        Err(Unreadable { id, fault, method }) => {
            let decided = method.and_then(|method| decide::decide(&method, stated).ok());
            let wire = decided.map_or(first, |decided| decided.resolve(None));
            return refuse(wire, &id, &fault, Operation::Unknown, log);
        }
    };
    // A request that states a dialect belongs to that dialect.
    let owner = match named {
        None => SharedOwner::by_params(shared(), &request.method, request.params.map(|params| params.get())),
        Some(_) => SharedOwner::Agent,
    };
    let call = SharedCall { server, mounted, head, request: &request };
    let by = match owner {
        SharedOwner::Product(product) => return product.answer(call, log).await,
        SharedOwner::ProductIfUnknown(product) if product.owns(call).await => return product.answer(call, log).await,
        SharedOwner::FirstGeneration => RequestOrigin::FirstGeneration,
        SharedOwner::ProductIfUnknown(_) | SharedOwner::Agent => RequestOrigin::Anybody,
    };
    answer_to(server, mounted, head, &request, version, by, log).await
}

/// Facts about a request for an agent that are known before it is handed on.
pub enum RequestOrigin {
    Anybody,
    /// Its params are of the first generation, even where the method's name is shared with others.
    FirstGeneration,
    /// It came to a product's endpoint, which has identified the caller and left the method to the generations of A2A.
    /// The product's own dialect in the header has been processed.
    Product(&'static str, Arc<Caller>),
}

/// An agent's answer to a request that was read already, in the version it states. The owner of the request is not
/// decided again.
pub fn answer_to<'a>(
    server: &'a Arc<GatewayVersion>,
    mounted: &'a MountedAgent,
    head: &'a request::Parts,
    request: &'a jsonrpc::RpcRequest<'a>,
    version: Result<Option<decide::Version>, Fault>,
    by: RequestOrigin,
    log: &'a mut RequestLog,
) -> Future<'a, Response> {
    Box::pin(async move {
        let wire = decide::by_version(version.as_ref().ok().copied().flatten());
        let mut attempt = JsonRpcCall { server, mounted, head, request, by, wire, operation: Operation::Unknown };
        match attempt.call(version, log).await {
            Ok(response) => response,
            Err(fault) => {
                let JsonRpcCall { wire, operation, .. } = attempt;
                if wire.json_facts().refuses_in_stream && operation.is_stream() && fault.kind != Kind::Unauthenticated {
                    log.fault(&fault);
                    log.dialect = wire.name();
                    return stream::refused(wire, &request.id, &fault, operation);
                }
                refuse(wire, &request.id, &fault, operation, log)
            }
        }
    })
}

/// A request in progress. The facts that are known when it fails decide the form of its error.
struct JsonRpcCall<'a> {
    server: &'a Arc<GatewayVersion>,
    mounted: &'a MountedAgent,
    head: &'a request::Parts,
    request: &'a jsonrpc::RpcRequest<'a>,
    by: RequestOrigin,
    wire: &'static dyn JsonWire,
    operation: Operation,
}

impl JsonRpcCall<'_> {
    async fn call(
        &mut self,
        version: Result<Option<(u32, u32)>, Fault>,
        log: &mut RequestLog,
    ) -> Result<Response, Fault> {
        let (server, head, request) = (self.server, self.head, self.request);
        let version = version.inspect_err(|_| {
            // The version is unreadable, but the method still decides the dialect of the error.
            if let Ok(decided) = decide::decide(&request.method, None) {
                self.wire = decided.resolve(None);
            }
        })?;
        let decided = self.decide(version)?;
        self.wire = decided.resolve(None);
        if server.settings.strict_version && version.is_none() && self.wire.name() == dialects::a2a_v1::NAME {
            return Err(decide::unsupported("say which version you speak: A2A-Version: 1.0".to_owned()));
        }
        let caller = match &self.by {
            RequestOrigin::Product(_, caller) => caller.clone(),
            RequestOrigin::Anybody | RequestOrigin::FirstGeneration => who(server, self.mounted, head, log).await?,
        };
        let limits = server.engine.limits();
        let mut decoded = self.wire.decode_rpc(&request.method, request.params, limits)?;
        self.operation = operation(&decoded);
        let wire = self.wire;
        let mut asked = CallContext {
            server,
            mounted: self.mounted,
            head,
            caller,
            wire: wire.into(),
            rules: wire,
            threaded: false,
        };
        if let Decided::Opener = decided {
            // The reader's generation is unknown, so the answer is in a form that both generations can read. Defaults
            // of members and the form of an error are those of the dialect that opened the task.
            let opener = opener(&asked, wire, &EffectiveCall::of(decoded, &head.headers)?).await;
            self.wire = opener;
            asked.rules = opener;
            decoded = opener.decode_rpc(&request.method, request.params, limits)?;
        }
        log.dialect = wire.name();
        let params = request.params.map_or("", |params| params.get());
        let (done, tenant) = asked.perform(EffectiveCall::of(decoded, &head.headers)?, params.as_bytes(), log).await?;
        let mut response = match done {
            CallResult::Stream(follow) => {
                stream::rpc(server.clone(), wire, *follow, terms(server, head, &tenant), request.id.to_owned())
            }
            CallResult::Encoded(bytes) => {
                let size = bytes.len() + request.id.text().len() + 40;
                let share = reserve(&server.answers, size)?;
                let mut out = Vec::with_capacity(size);
                jsonrpc::write_result_head(&mut out, &request.id);
                out.extend_from_slice(&bytes);
                jsonrpc::write_result_tail(&mut out);
                json(with_reserved(out.into(), share))
            }
            done => {
                let size = done.encoded_size();
                let share = reserve(&server.answers, size)?;
                let mut w: Writer = jsonrpc::begin_result(&request.id, size);
                asked.write(&mut w, &done);
                jsonrpc::end_result(&mut w);
                drop(share);
                json(into_body(server, head, &tenant, w.finish()).await?)
            }
        };
        asked.finish(&mut response);
        Ok(response)
    }

    /// The dialect: as the header states, or by method and version.
    fn decide(&mut self, version: Option<(u32, u32)>) -> Result<Decided, Fault> {
        let named = self.head.headers.get(&A2A_DIALECT).map(|name| name.to_str().unwrap_or_default());
        let heeded = match &self.by {
            RequestOrigin::Product(product, _) => Some(*product),
            RequestOrigin::Anybody | RequestOrigin::FirstGeneration => None,
        };
        if let Some(name) = named.filter(|name| Some(*name) != heeded) {
            let known = dialects::WIRES.iter().copied().find(|wire| wire.name() == name);
            return known.map(Decided::Wire).ok_or_else(|| {
                let names: Vec<&str> = dialects::WIRES.iter().map(|wire| wire.name()).collect();
                Fault::new(Kind::InvalidRequest, format!("X-A2A-Dialect is none of {}", names.join(", ")))
            });
        }
        match decide::decide(&self.request.method, version) {
            Ok(Decided::Opener) if matches!(self.by, RequestOrigin::FirstGeneration) => {
                Ok(Decided::Wire(decide::by_opener(Some(dialects::a2a_v0_1::NAME))))
            }
            Ok(decided) => Ok(decided),
            Err(WireFault { wire, fault }) => {
                self.wire = wire;
                Err(fault)
            }
        }
    }
}

/// The dialect that opened the task of a request whose method two generations share.
async fn opener(
    asked: &CallContext<'_>,
    unknown: &'static dyn JsonWire,
    effective: &EffectiveCall,
) -> &'static dyn JsonWire {
    let id = match &effective.call {
        Call::Get(get) => &get.task,
        Call::Cancel(cancel) => &cancel.task,
        Call::Subscribe(subscribe) => &subscribe.task,
        Call::Send(_) | Call::Stream(_) | Call::List(_) | Call::Push(_) | Call::ExtendedCard => return unknown,
    };
    // A caller without permission learns nothing about the task, not even its dialect.
    let Ok(place) = asked.place(effective) else { return unknown };
    match asked.server.engine.get(&place, id).await {
        Ok(task) => decide::by_opener(Some(&task.dialect)),
        Err(_) => unknown,
    }
}

/// A fault in the envelope. JSON-RPC answers 200, except for faults that have an HTTP status.
pub fn refuse(
    wire: &'static dyn JsonWire,
    id: &Id<'_>,
    fault: &Fault,
    operation: Operation,
    log: &mut RequestLog,
) -> Response {
    log.fault(fault);
    log.dialect = wire.name();
    let mut out = Vec::with_capacity(512);
    wire.rpc_error(&mut out, id, fault, operation);
    let mut response = json(Bytes::from(out));
    if let Some(status) = status_of(fault.kind) {
        *response.status_mut() = status;
    }
    if fault.kind == Kind::Unauthenticated {
        response.headers_mut().insert(WWW_AUTHENTICATE, auth::challenge(fault));
    }
    if let Some(seconds) = fault.retry_after_s {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    sign(&mut response, wire);
    response
}
