//! gRPC: the services of both generations, health and reflection, on the listener of everything else.
//!
//! A request is one of gRPC by its content type. Its path names the service and the method; the agent is the default one,
//! or the one that the path before the service (`/a2a/NAME`), the metadata `x-a2a-agent` or the tenant `a2a/NAME` names.
//! Bodies, callers, policy, limits and the log line are those of the other fronts. A message is read whole before it is
//! decoded, so that the memory for bodies bounds it, and a compressed one is decompressed within the same limit.
//!
//! * [`frame`] has the framing of gRPC and gRPC-Web; [`feed`] is the event stream.
//! * [`health`] and [`reflection`] are the services for tools.

mod feed;
mod frame;
mod health;
mod reflection;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dialects::decide;
use dialects::proto_wire::{blobs_of_message, blobs_of_task};
use dialects::protobuf::{self, LoadedContent, ProtoWriter, RpcCode, RpcStatus};
use dialects::wire::{Decoded, Operation, TaskView};
use dialects::{PROTO_WIRES, ProtoWire};
use engine::SendAnswer;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, request};
use hyper::body::Incoming;
use model::{Blob, Call, Fault, Kind, Part, Send, Task, Wait};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use web::body::{Response, ResponseBody, counted, reserve, with_reserved};
use web::response::{not_allowed, text};

pub use frame::GrpcTransport;
use frame::{FramedMessage, MessageEncoding};

use super::{AnswerWire, CallContext, CallResult, EffectiveCall, Gate, RequestLog, sign, stated_version, terms, who};
use crate::links::LinkOptions;
use crate::mounts::MountedAgent;
use crate::service::Coverage;
use crate::{GatewayVersion, intake};

/// The metadata that names an agent.
static AGENT: HeaderName = HeaderName::from_static("x-a2a-agent");
static TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
/// A blocking send is answered so much before the caller's deadline, and at most a tenth of it.
const BEFORE_DEADLINE: Duration = Duration::from_millis(200);

/// State of the services for tools, which need no credential.
pub(crate) struct ToolServices {
    /// Permits of their streams.
    streams: Arc<Semaphore>,
    status: health::StatusCache,
}

/// Streams of health and reflection at a time.
const TOOL_STREAMS: usize = 1_024;

impl Default for ToolServices {
    fn default() -> ToolServices {
        ToolServices { streams: Arc::new(Semaphore::new(TOOL_STREAMS)), status: health::StatusCache::default() }
    }
}

impl ToolServices {
    /// A permit for a stream, or the status of a refusal.
    fn stream(&self) -> Result<OwnedSemaphorePermit, RpcStatus> {
        let message =
            format!("{TOOL_STREAMS} streams of health and reflection are open; close one, or try again later");
        self.streams.clone().try_acquire_owned().map_err(|_| tool_status(RpcCode::ResourceExhausted, message))
    }
}

/// Whether a path is that of a service: without the content type of gRPC it is answered by 415.
pub(crate) fn is_service(path: &str) -> bool {
    let Some(target) = target(path) else { return false };
    PROTO_WIRES.iter().any(|wire| wire.service() == target.service)
        || target.service == health::SERVICE
        || reflection::SERVICES.contains(&target.service)
}

/// The parts of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MethodPath<'a> {
    agent: Option<&'a str>,
    service: &'a str,
    method: &'a str,
}

fn target(path: &str) -> Option<MethodPath<'_>> {
    let (rest, method) = path.rsplit_once('/')?;
    let (before, service) = rest.rsplit_once('/')?;
    let agent = match before {
        "" => None,
        before => Some(before.strip_prefix("/a2a/").filter(|agent| !agent.contains('/'))?),
    };
    Some(MethodPath { agent, service, method })
}

/// Answers a request whose content type is one of gRPC.
pub(crate) async fn answer(
    server: &Arc<GatewayVersion>,
    head: &request::Parts,
    body: Incoming,
    transport: Result<GrpcTransport, String>,
    coverage: Coverage,
    log: &mut RequestLog,
) -> Response {
    let transport = match transport {
        Ok(transport) => transport,
        Err(why) => return text(StatusCode::UNSUPPORTED_MEDIA_TYPE, format!("{why}\n")),
    };
    if head.method != Method::POST {
        return not_allowed("POST");
    }
    transport.carry(respond(server, head, body, transport, coverage, log).await)
}

async fn respond(
    server: &Arc<GatewayVersion>,
    head: &request::Parts,
    body: Incoming,
    transport: GrpcTransport,
    coverage: Coverage,
    log: &mut RequestLog,
) -> Response {
    let target = target(head.uri.path());
    let service = target.map_or("", |target| target.service);
    let wire = PROTO_WIRES.iter().copied().find(|wire| wire.service() == service);
    // A supervisor asks for the health however many requests there are.
    let is_check = target.is_some_and(|target| (target.service, target.method) == (health::SERVICE, "Check"));
    if !is_check && let Err(fault) = admit(server, coverage, log) {
        return refuse(wire.unwrap_or(PROTO_WIRES[0]), &fault, Operation::Unknown, log);
    }
    let encoding = match MessageEncoding::of(&head.headers) {
        Ok(encoding) => encoding,
        Err(status) => {
            log.fault = Some(status.message.clone());
            return frame::refused(&status);
        }
    };
    let unknown = |log: &mut RequestLog| {
        let message = "there is no such service here; grpc.reflection lists those there are";
        let fault = Fault::new(Kind::MethodNotFound, message);
        refuse(PROTO_WIRES[0], &fault, Operation::Unknown, log)
    };
    let Some(target) = target else { return unknown(log) };
    if target.service == health::SERVICE {
        log.operation = "health";
        return health::answer(server, head, target.method, body, transport, encoding, log).await;
    }
    if reflection::SERVICES.contains(&target.service) {
        log.operation = "reflection";
        return reflection::answer(server, head, target.method, body, transport, log).await;
    }
    let Some(wire) = wire else { return unknown(log) };
    log.dialect = wire.name();
    let mut operation = wire.operation(target.method).unwrap_or(Operation::Unknown);
    let request = GrpcRequest { server, head, target, wire, transport, encoding };
    match request.call(body, operation, log).await {
        Ok(response) => response,
        Err(fault) => {
            // A method without an operation is refused before it is known what it wants.
            if fault.kind == Kind::MethodNotFound {
                operation = Operation::Unknown;
            }
            refuse(wire, &fault, operation, log)
        }
    }
}

/// The limits that hold before a request is looked at.
fn admit(server: &GatewayVersion, coverage: Coverage, log: &RequestLog) -> Result<(), Fault> {
    if coverage == Coverage::HealthOnly {
        return Err(crate::service::no_connection_left());
    }
    match &server.throttle {
        Some(throttle) => throttle.check_rate(log.address),
        None => Ok(()),
    }
}

/// The answer to a request that is refused, or whose handler panicked.
pub(crate) fn refused(head: &request::Parts, fault: &Fault, log: &mut RequestLog) -> Option<Response> {
    let transport = GrpcTransport::of(head)?.ok()?;
    let target = target(head.uri.path());
    let wire = PROTO_WIRES.iter().copied().find(|wire| target.is_some_and(|target| target.service == wire.service()));
    Some(transport.carry(refuse(wire.unwrap_or(PROTO_WIRES[0]), fault, Operation::Unknown, log)))
}

fn refuse(wire: &'static dyn ProtoWire, fault: &Fault, operation: Operation, log: &mut RequestLog) -> Response {
    log.fault(fault);
    let mut response = frame::refused(&wire.status(fault, operation));
    sign(&mut response, wire);
    response
}

/// A request for an agent.
struct GrpcRequest<'a> {
    server: &'a Arc<GatewayVersion>,
    head: &'a request::Parts,
    target: MethodPath<'a>,
    wire: &'static dyn ProtoWire,
    transport: GrpcTransport,
    encoding: MessageEncoding,
}

impl<'a> GrpcRequest<'a> {
    async fn call(&self, body: Incoming, operation: Operation, log: &mut RequestLog) -> Result<Response, Fault> {
        let GrpcRequest { server, head, wire, .. } = *self;
        if operation == Operation::Unknown {
            let names: Vec<&str> = wire.methods().iter().map(|(name, _)| *name).collect();
            let advice = dialects::framing::near::method_advice(self.target.method, &names);
            let message = format!("{} has no method {:?}{advice}", wire.service(), self.target.method);
            return Err(Fault::new(Kind::MethodNotFound, message));
        }
        self.check_version()?;
        let (named, gate) = self.named_agent()?;
        log.agent = Some(named.agent.clone());
        let body = intake::read(server, head, body, None, gate, log).await?;
        let message = self.message(body, gate, log).await?;
        let mut decoded = wire.decode(operation, &message, server.engine.limits());
        let mounted = match &mut decoded {
            Ok(decoded) => self.agent_of_tenant(decoded)?.unwrap_or(named),
            Err(_) => named,
        };
        log.agent = Some(mounted.agent.clone());
        let caller = who(server, mounted, head, log).await?;
        let mut decoded = decoded?;
        if mounted.retired && matches!(decoded.call, Call::Send(_) | Call::Stream(_)) {
            return Err(unknown_agent(server, &mounted.agent));
        }
        if let Call::Send(send) = &mut decoded.call {
            answer_in_time(send, &head.headers);
        }
        let asked =
            CallContext { server, mounted, head, caller, wire: AnswerWire::Proto(wire), rules: wire, threaded: false };
        let headers = feed::resolve_position(&asked, &decoded, &head.headers).await?;
        let effective = EffectiveCall::of(decoded, headers.as_ref().unwrap_or(&head.headers))?;
        let (done, tenant) = asked.perform(effective, &message, log).await?;
        let encoding = self.encoding.of_answer(&head.headers);
        let mut response = match done {
            CallResult::Stream(follow) => {
                feed::respond(server, wire, *follow, terms(server, head, &tenant), encoding).await?
            }
            done => self.unary(&asked, done, &tenant, encoding).await?,
        };
        encoding.state(response.headers_mut());
        asked.finish(&mut response);
        Ok(response)
    }

    /// The message of a body. As many bytes are decompressed for everyone as are read for everyone; more only for a caller
    /// that is admitted, within the memory for bodies.
    async fn message(&self, body: Bytes, gate: Gate<'_>, log: &mut RequestLog) -> Result<Bytes, Fault> {
        let limit = self.server.engine.limits().body_bytes;
        let compressed = match frame::framed_message(self.transport.body(body)?, self.encoding, limit)? {
            FramedMessage::Plain(message) => return Ok(message),
            FramedMessage::Gzip(compressed) => compressed,
        };
        if let Some(message) = frame::unzip(&compressed, intake::STRANGER_BYTES.min(limit), |_| Ok(()))? {
            return Ok(message);
        }
        gate.check(self.server, self.head, log).await?;
        let message = frame::unzip(&compressed, limit, |bytes| intake::grow_decompressed(self.server, log, bytes))?;
        message.ok_or_else(|| frame::too_large(limit))
    }

    async fn unary(
        &self,
        asked: &CallContext<'_>,
        done: CallResult,
        tenant: &Arc<str>,
        encoding: MessageEncoding,
    ) -> Result<Response, Fault> {
        let server = self.server;
        let size = done.encoded_size() + blobs_of(&done).map(|(blob, _)| weight(blob)).sum::<usize>();
        let share = reserve(&server.answers, size)?;
        let mut out = Vec::new();
        match &done {
            CallResult::Encoded(bytes) | CallResult::Card(bytes) => encoding.frame(&mut out, bytes),
            done => {
                let loaded = match blobs_of(done).next() {
                    None => LoadedBlobs::default(),
                    Some(_) => load(server, &terms(server, self.head, tenant), blobs_of(done)).await?,
                };
                let contents = |blob: &Blob, part: &Part| loaded.of(blob, part);
                let mut w = ProtoWriter::with_contents(size, &contents);
                asked.write_message(&mut w, self.wire, done);
                encoding.frame(&mut out, &w.finish());
            }
        }
        Ok(Response::new(ResponseBody::with_trailers(with_reserved(out.into(), share), frame::ok())))
    }

    /// The version that a request states is that of the service it calls.
    fn check_version(&self) -> Result<(), Fault> {
        let wire = self.wire;
        let (major, minor) = wire.version();
        match stated_version(self.head)? {
            None if self.server.settings.strict_version && (major, minor) == (1, 0) => {
                Err(decide::unsupported("say which version you speak: a2a-version: 1.0".to_owned()))
            }
            None => Ok(()),
            Some((stated, _)) if stated == major => Ok(()),
            Some((stated, of)) => {
                let service = wire.service();
                let message = format!("{service} is A2A {major}.{minor}, and a2a-version says {stated}.{of}");
                Err(decide::unsupported(message))
            }
        }
    }

    /// The agent that the path or the metadata names, or the default one, and who may send a large message there. The
    /// tenant of a message for the default agent may name another agent.
    fn named_agent(&self) -> Result<(&'a MountedAgent, Gate<'a>), Fault> {
        let named = match (self.target.agent, self.head.headers.get(&AGENT)) {
            (Some(name), _) => Some(name),
            (None, Some(name)) => Some(name.to_str().unwrap_or("?")),
            (None, None) => None,
        };
        let name = named.unwrap_or_else(|| self.server.mounts.default_agent());
        let agent = find_agent(self.server, name).ok_or_else(|| unknown_agent(self.server, name))?;
        Ok((agent, if named.is_some() { Gate::Agent(agent) } else { Gate::AnyAgent(agent) }))
    }

    /// The agent in a tenant of the form `a2a/NAME` or `a2a/NAME/TENANT`, which cards of single agents have. What follows
    /// it is the tenant.
    fn agent_of_tenant(&self, decoded: &mut Decoded) -> Result<Option<&'a MountedAgent>, Fault> {
        let Some(path) = decoded.tenant.as_deref().and_then(|tenant| tenant.strip_prefix("a2a/")) else {
            return Ok(None);
        };
        let (name, tenant) = path.split_once('/').map_or((path, None), |(name, tenant)| (name, Some(tenant)));
        let agent = find_agent(self.server, name).ok_or_else(|| unknown_agent(self.server, name))?;
        decoded.tenant = tenant.map(str::to_owned);
        Ok(Some(agent))
    }
}

fn find_agent<'a>(server: &'a GatewayVersion, name: &str) -> Option<&'a MountedAgent> {
    let mounts = &server.mounts;
    mounts.agent(name).or_else(|| mounts.agent_by_id(name.parse().ok()?))
}

fn unknown_agent(server: &GatewayVersion, name: &str) -> Fault {
    let agents = server.mounts.agents().iter().map(|name| &**name);
    let meant = dialects::framing::near::nearest(name, agents).map(|name| format!("did you mean {name:?}? "));
    let name = dialects::framing::shortened(name, 64);
    let meant = meant.unwrap_or_default();
    Fault::new(
        Kind::MethodNotFound,
        format!("there is no agent {name:?} here; {meant}GET /agents lists those there are"),
    )
}

/// Lets a blocking send return before the caller's deadline, with the task as it stands then.
fn answer_in_time(send: &mut Send, headers: &HeaderMap) {
    let Some(timeout) = headers.get(&TIMEOUT).and_then(timeout) else { return };
    if let Wait::Rest { max_ms } = &mut send.wait {
        let left = timeout.saturating_sub(BEFORE_DEADLINE.min(timeout / 10));
        let left = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        *max_ms = Some(max_ms.map_or(left, |most| most.min(left)));
    }
}

/// A number of at most eight digits and its unit.
fn timeout(value: &HeaderValue) -> Option<Duration> {
    let text = value.to_str().ok()?;
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let is_number = (1..=8).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = number.parse().ok().filter(|_| is_number)?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3_600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

/// The parts of a result whose content is beside the log.
fn blobs_of(done: &CallResult) -> Box<dyn Iterator<Item = (&Blob, &Part)> + std::marker::Send + '_> {
    match done {
        CallResult::Sent(SendAnswer::Task(task), _) | CallResult::Task(task, ..) => Box::new(blobs_of_task(task)),
        CallResult::Sent(SendAnswer::Reply(reply), _) => Box::new(blobs_of_message(&reply.message)),
        CallResult::List(listing, _) => Box::new(listing.tasks.iter().flat_map(|task| blobs_of_task(task))),
        CallResult::Encoded(_) | CallResult::Push(..) | CallResult::Card(_) | CallResult::Stream(_) => {
            Box::new(std::iter::empty())
        }
    }
}

fn weight(blob: &Blob) -> usize {
    usize::try_from(blob.len).unwrap_or(usize::MAX / 4)
}

/// The parts of an address: the hash of the file, its name and its media type.
type AddressedFile = ([u8; 32], Option<String>, Option<String>);

/// Content that was loaded for one answer.
#[derive(Default)]
struct LoadedBlobs {
    bytes: HashMap<[u8; 32], Bytes>,
    addresses: HashMap<AddressedFile, String>,
}

impl LoadedBlobs {
    fn of(&self, blob: &Blob, part: &Part) -> LoadedContent {
        if let Some(bytes) = self.bytes.get(&blob.hash) {
            return LoadedContent::Bytes(bytes.clone());
        }
        let key = (blob.hash, part.filename.clone(), part.media_type.clone());
        match self.addresses.get(&key) {
            Some(address) => LoadedContent::Address(address.clone()),
            None => LoadedContent::Bytes(Bytes::new()),
        }
    }
}

/// Loads the content of parts, or makes addresses of files that are too large to be sent.
async fn load<'p>(
    server: &GatewayVersion,
    terms: &LinkOptions,
    blobs: impl Iterator<Item = (&'p Blob, &'p Part)>,
) -> Result<LoadedBlobs, Fault> {
    let mut loaded = LoadedBlobs::default();
    for (blob, part) in blobs {
        match server.links.of_part(blob, part, terms).await? {
            Some(address) => {
                let key = (blob.hash, part.filename.clone(), part.media_type.clone());
                loaded.addresses.insert(key, address);
            }
            None if loaded.bytes.contains_key(&blob.hash) => {}
            None => {
                let content = server.engine.blob(&terms.tenant, blob.hash).await?;
                loaded.bytes.insert(blob.hash, content);
            }
        }
    }
    Ok(loaded)
}

/// The least and the largest text of a task, and the size of a text as a multiple of its message.
const TEXT: (usize, usize, usize) = (1 << 20, 32 << 20, 24);

/// The answer to a get of a whole task, by its own id, in the text form of protobuf.
pub(crate) async fn task_text(
    server: &GatewayVersion,
    head: &request::Parts,
    wire: &dyn ProtoWire,
    task: &Task,
) -> Result<String, Fault> {
    let loaded: usize = blobs_of_task(task).map(|(blob, _)| weight(blob)).sum();
    let size = super::encoded_size(task).saturating_add(loaded);
    let (least, largest, times) = TEXT;
    let most = size.saturating_mul(times).clamp(least, largest);
    let _share = reserve(&server.answers, size.saturating_add(most))?;
    let blobs: Box<dyn Iterator<Item = (&Blob, &Part)> + std::marker::Send> = Box::new(blobs_of_task(task));
    let loaded = load(server, &terms(server, head, &task.tenant), blobs).await?;
    let contents = |blob: &Blob, part: &Part| loaded.of(blob, part);
    let mut w = ProtoWriter::with_contents(super::encoded_size(task), &contents);
    wire.task(&mut w, task, &TaskView::WHOLE, None);
    let package = wire.service().rsplit_once('.').map_or("", |(package, _)| package);
    protobuf::text::of(&format!("{package}.Task"), &w.finish(), most)
}

/// A whole message as a response.
fn message_response(server: &GatewayVersion, message: &[u8]) -> Result<Response, Fault> {
    let mut out = Vec::with_capacity(message.len() + 5);
    MessageEncoding::Identity.frame(&mut out, message);
    Ok(Response::new(ResponseBody::with_trailers(counted(&server.answers, out.into())?, frame::ok())))
}

/// The status of a request that a service for tools cannot read.
fn unread_status(fault: Fault) -> RpcStatus {
    let code = if fault.kind == Kind::Unavailable { RpcCode::Unavailable } else { RpcCode::InvalidArgument };
    tool_status(code, fault.message)
}

/// The status of a fault of the services for tools, which have no table of their own.
fn tool_status(code: RpcCode, message: impl Into<String>) -> RpcStatus {
    RpcStatus { code, message: message.into(), details: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_method_and_perhaps_an_agent() {
        let path = |path| target(path).map(|t| (t.agent, t.service, t.method));
        assert_eq!(path("/a2a.v1.A2AService/GetTask"), Some((None, "a2a.v1.A2AService", "GetTask")));
        assert_eq!(path("/a2a/echo/x.Y/Z"), Some((Some("echo"), "x.Y", "Z")));
        for other in ["/", "/x", "x/y", "/a/b/c/d", "/a2a/b/c/x.Y/Z"] {
            assert_eq!(path(other), None, "{other}");
        }
        assert!(is_service("/lf.a2a.v1.A2AService/Anything") && is_service("/grpc.health.v1.Health/Check"));
        assert!(!is_service("/x.Y/Z") && !is_service("/tasks"));
    }

    #[test]
    fn timeouts_have_a_unit() {
        let of = |text: &'static str| timeout(&HeaderValue::from_static(text));
        assert_eq!(of("2H"), Some(Duration::from_secs(7_200)));
        assert_eq!(of("1500m"), Some(Duration::from_millis(1_500)));
        assert_eq!(of("99999999n"), Some(Duration::from_nanos(99_999_999)));
        for bad in ["", "S", "5", "5x", "-1S", "999999999S", "1.5S"] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }
}
