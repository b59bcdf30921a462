//! `grpc.health.v1`: whether a service takes requests. All services share one store, so all have one status.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use dialects::PROTO_WIRES;
use dialects::protobuf::{Fields, ProtoWriter, RpcCode};
use http::request;
use hyper::body::Incoming;
use model::Fault;
use tokio::sync::{Mutex, OwnedSemaphorePermit};
use tokio::time::Instant;
use web::body::Response;
use web::sse::{EventSource, EventStream, Flow};

use super::frame::{self, GrpcTransport, MessageEncoding};
use super::{message_response, reflection, tool_status, unread_status};
use crate::fronts::{Gate, RequestLog};
use crate::{GatewayVersion, intake};

pub(super) const SERVICE: &str = "grpc.health.v1.Health";

/// Time between looks at the status for a watcher.
const LOOK: Duration = Duration::from_secs(1);
/// Names of services are short.
const LIMIT: usize = 1 << 10;

/// HealthCheckResponse.ServingStatus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServingStatus {
    Serving = 1,
    NotServing = 2,
    ServiceUnknown = 3,
}

pub(super) async fn answer(
    server: &Arc<GatewayVersion>,
    head: &request::Parts,
    method: &str,
    body: Incoming,
    transport: GrpcTransport,
    encoding: MessageEncoding,
    log: &mut RequestLog,
) -> Response {
    let checked = async {
        let body = intake::read(server, head, body, Some(LIMIT), Gate::Open, log).await?;
        service(&frame::message(transport.body(body)?, encoding, LIMIT)?)
    };
    let service = match checked.await {
        Ok(service) => service,
        Err(fault) => return frame::refused(&unread_status(fault)),
    };
    let is_known = is_known(&service);
    match method {
        "Check" if !is_known => frame::refused(&tool_status(RpcCode::NotFound, "there is no such service here")),
        "Check" => message_response(server, &message(status(server).await))
            .unwrap_or_else(|fault| frame::refused(&tool_status(RpcCode::Unavailable, fault.message))),
        "Watch" => {
            let permit = match server.tools.stream() {
                Ok(permit) => permit,
                Err(status) => return frame::refused(&status),
            };
            let watch = Watch { server: server.clone(), is_known, shown: None, is_closed: false, _permit: permit };
            Response::new(EventStream::new(watch, server.metrics.streams.clone()).into_body())
        }
        _ => frame::refused(&tool_status(RpcCode::Unimplemented, "grpc.health.v1.Health has Check and Watch")),
    }
}

/// The service of a HealthCheckRequest.
fn service(message: &[u8]) -> Result<String, Fault> {
    let mut service = String::new();
    let mut fields = Fields::new(message);
    while let Some((number, value)) = fields.next_field()? {
        if number == 1 {
            service = value.string("service")?;
        }
    }
    Ok(service)
}

fn is_known(service: &str) -> bool {
    service.is_empty()
        || service == SERVICE
        || PROTO_WIRES.iter().any(|wire| wire.service() == service)
        || reflection::SERVICES.contains(&service)
}

async fn status(server: &GatewayVersion) -> ServingStatus {
    match server.readiness().await {
        Ok(()) => ServingStatus::Serving,
        Err(_) => ServingStatus::NotServing,
    }
}

/// The status that all watchers share: the store is asked once in [`LOOK`], however many they are.
#[derive(Default)]
pub(super) struct StatusCache(Mutex<Option<(Instant, ServingStatus)>>);

impl StatusCache {
    async fn of(&self, server: &GatewayVersion) -> ServingStatus {
        if server.engine.is_draining() {
            return ServingStatus::NotServing;
        }
        let mut known = self.0.lock().await;
        match *known {
            Some((at, status)) if at.elapsed() < LOOK => status,
            Some(_) | None => {
                let status = status(server).await;
                *known = Some((Instant::now(), status));
                status
            }
        }
    }
}

fn message(status: ServingStatus) -> Vec<u8> {
    let mut w = ProtoWriter::with_capacity(8);
    w.int(1, status as i64);
    w.finish()
}

/// The status of a service, now and whenever it changes.
struct Watch {
    server: Arc<GatewayVersion>,
    is_known: bool,
    shown: Option<ServingStatus>,
    is_closed: bool,
    _permit: OwnedSemaphorePermit,
}

impl EventSource for Watch {
    type Item = ServingStatus;

    async fn next(&mut self) -> Option<ServingStatus> {
        loop {
            let server = &self.server;
            let now = if self.is_known { server.tools.status.of(server).await } else { ServingStatus::ServiceUnknown };
            if self.shown != Some(now) {
                return Some(now);
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                () = server.engine.drain_begun().cancelled() => {
                    // The watcher of an unknown service has seen its only status.
                    if !self.is_known {
                        return None;
                    }
                }
            }
        }
    }

    async fn write(&mut self, piece: &mut Vec<u8>, item: Option<ServingStatus>) -> io::Result<Flow> {
        let Some(status) = item else { return Ok(Flow::Ends) };
        self.shown = Some(status);
        MessageEncoding::Identity.frame(piece, &message(status));
        // The connection closes when the server stops, and a stream without an end would hold it.
        Ok(if self.server.engine.is_draining() { Flow::Ends } else { Flow::Continues })
    }

    fn trailers(&mut self) -> Option<http::HeaderMap> {
        (!std::mem::replace(&mut self.is_closed, true)).then(frame::ok)
    }
}
