//! `grpc.reflection`, v1 and v1alpha: the definitions of the services, for tools that have none of their own.
//!
//! The one method takes a stream of questions. Each is answered when it arrives, and the stream ends with the caller's.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use dialects::protobuf::{DESCRIPTORS, Fields, ProtoWriter, RpcCode};
use http::{HeaderMap, request};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use model::Fault;
use tokio::sync::OwnedSemaphorePermit;
use web::body::Response;
use web::sse::{EventSource, EventStream, Flow};

use super::frame::{self, GrpcTransport, MessageEncoding};
use super::{tool_status, unread_status};
use crate::fronts::{Gate, RequestLog};
use crate::{GatewayVersion, intake};

pub(super) const SERVICES: [&str; 2] =
    ["grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"];

/// A question is a name.
const LIMIT: usize = 4 << 10;
/// A stream without a question for so long ends.
const IDLE: Duration = Duration::from_secs(300);

/// The definitions: each file with the files it needs, and the file of each name.
struct Definitions {
    files: HashMap<String, Definition>,
    /// The name of the file that defines a message, enum, service or method.
    symbols: HashMap<String, String>,
    services: Vec<String>,
}

struct Definition {
    encoded: &'static [u8],
    needs: Vec<String>,
}

static DEFINITIONS: LazyLock<Definitions> =
    LazyLock::new(|| Definitions::read(DESCRIPTORS).unwrap_or_else(|_| Definitions::none()));

impl Definitions {
    fn none() -> Definitions {
        Definitions { files: HashMap::new(), symbols: HashMap::new(), services: Vec::new() }
    }

    /// Reads a FileDescriptorSet.
    fn read(set: &'static [u8]) -> Result<Definitions, Fault> {
        let mut all = Definitions::none();
        let mut fields = Fields::new(set);
        while let Some((number, value)) = fields.next_field()? {
            if number == 1 {
                all.add_file(value.bytes()?)?;
            }
        }
        all.services.sort_unstable();
        Ok(all)
    }

    /// FileDescriptorProto: its name, package, imports, messages, enums and services.
    fn add_file(&mut self, encoded: &'static [u8]) -> Result<(), Fault> {
        let (mut name, mut package, mut needs) = (String::new(), String::new(), Vec::new());
        let mut defined = Vec::new();
        let mut fields = Fields::new(encoded);
        while let Some((number, value)) = fields.next_field()? {
            match number {
                1 => name = value.string("name")?,
                2 => package = value.string("package")?,
                3 => needs.push(value.string("dependency")?),
                4..=6 => defined.push((number, value)),
                _ => {}
            }
        }
        for (number, value) in defined {
            let symbol = format!("{package}.{}", name_of(value.message()?)?);
            match number {
                4 => self.add_message(&name, &symbol, value.message()?)?,
                6 => {
                    let mut members = value.message()?;
                    while let Some((number, member)) = members.next_field()? {
                        if number == 2 {
                            let method = format!("{symbol}.{}", name_of(member.message()?)?);
                            self.symbols.insert(method, name.clone());
                        }
                    }
                    self.services.push(symbol.clone());
                }
                _ => {}
            }
            self.symbols.insert(symbol, name.clone());
        }
        self.files.insert(name, Definition { encoded, needs });
        Ok(())
    }

    /// DescriptorProto: the messages and enums in it.
    fn add_message(&mut self, file: &str, symbol: &str, mut fields: Fields<'_>) -> Result<(), Fault> {
        while let Some((number, value)) = fields.next_field()? {
            if matches!(number, 3 | 4) {
                let nested = format!("{symbol}.{}", name_of(value.message()?)?);
                self.symbols.insert(nested, file.to_owned());
            }
        }
        Ok(())
    }

    /// A file, and all the files it needs, each once.
    fn with_needs(&self, file: &str) -> Vec<&'static [u8]> {
        let (mut found, mut seen) = (Vec::new(), Vec::new());
        let mut left = VecDeque::from([file.to_owned()]);
        while let Some(name) = left.pop_front() {
            if seen.contains(&name) {
                continue;
            }
            if let Some(definition) = self.files.get(&name) {
                found.push(definition.encoded);
                left.extend(definition.needs.iter().cloned());
            }
            seen.push(name);
        }
        found
    }
}

/// Field 1 of a definition.
fn name_of(mut fields: Fields<'_>) -> Result<String, Fault> {
    while let Some((number, value)) = fields.next_field()? {
        if number == 1 {
            return value.string("name");
        }
    }
    Ok(String::new())
}

/// The answer to a ServerReflectionRequest.
fn reply(question: &[u8]) -> Result<Vec<u8>, Fault> {
    let all = &*DEFINITIONS;
    let mut w = ProtoWriter::with_capacity(question.len() + 64);
    let mut asked = None;
    let mut fields = Fields::new(question);
    while let Some((number, value)) = fields.next_field()? {
        match number {
            1 => w.string(1, &value.text("host")?.0),
            3..=7 => asked = Some((number, value)),
            _ => {}
        }
    }
    w.present_bytes(2, question);
    let not_found = |w: &mut ProtoWriter<'_>, message: &str| {
        w.message(7, |w| {
            w.int(1, RpcCode::NotFound as i64);
            w.string(2, message);
        });
    };
    let files = |w: &mut ProtoWriter<'_>, name: &str| {
        w.message(4, |w| all.with_needs(name).into_iter().for_each(|file| w.present_bytes(1, file)));
    };
    match asked {
        Some((3, name)) => match all.files.contains_key(&*name.text("file_by_filename")?.0) {
            true => files(&mut w, &name.text("file_by_filename")?.0),
            false => not_found(&mut w, "there is no such file"),
        },
        Some((4, name)) => match all.symbols.get(&*name.text("file_containing_symbol")?.0) {
            Some(file) => files(&mut w, file),
            None => not_found(&mut w, "there is no such symbol"),
        },
        Some((6, kind)) if all.symbols.contains_key(&*kind.text("all_extension_numbers_of_type")?.0) => {
            let kind = kind.text("all_extension_numbers_of_type")?;
            w.message(5, |w| w.string(1, &kind.0));
        }
        Some((7, _)) => w.message(6, |w| {
            for service in &all.services {
                w.message(1, |w| w.string(1, service));
            }
        }),
        Some(_) => not_found(&mut w, "there are no extensions"),
        None => not_found(&mut w, "the request asks for nothing"),
    }
    Ok(w.finish())
}

pub(super) async fn answer(
    server: &Arc<GatewayVersion>,
    head: &request::Parts,
    method: &str,
    body: Incoming,
    transport: GrpcTransport,
    log: &mut RequestLog,
) -> Response {
    if method != "ServerReflectionInfo" {
        let message = "the service has one method, ServerReflectionInfo";
        return frame::refused(&tool_status(RpcCode::Unimplemented, message));
    }
    let permit = match server.tools.stream() {
        Ok(permit) => permit,
        Err(status) => return frame::refused(&status),
    };
    let questions = match transport {
        GrpcTransport::Grpc => {
            log.body_ended = true;
            Questions { body: Some(body), read: BytesMut::new(), failed: None, is_closed: false, _permit: permit }
        }
        // A browser cannot stream a request: what it asks is in the body.
        GrpcTransport::Web | GrpcTransport::WebText => {
            let read = intake::read(server, head, body, Some(LIMIT), Gate::Open, log).await;
            match read.and_then(|body| transport.body(body)) {
                Ok(body) => Questions {
                    body: None,
                    read: BytesMut::from(body),
                    failed: None,
                    is_closed: false,
                    _permit: permit,
                },
                Err(fault) => return frame::refused(&unread_status(fault)),
            }
        }
    };
    Response::new(EventStream::new(questions, server.metrics.streams.clone()).into_body())
}

/// The questions of one stream.
struct Questions {
    body: Option<Incoming>,
    read: BytesMut,
    failed: Option<Fault>,
    is_closed: bool,
    _permit: OwnedSemaphorePermit,
}

impl Questions {
    /// The next whole message that has been read.
    fn whole(&mut self) -> Result<Option<Bytes>, Fault> {
        let Some([flag, length @ ..]) = self.read.first_chunk::<5>().copied() else { return Ok(None) };
        let length = u32::from_be_bytes(length) as usize;
        if length > LIMIT || flag != 0 {
            return Err(Fault::params("", format!("a question is at most {LIMIT} bytes, and not compressed")));
        }
        if self.read.len() < length + 5 {
            return Ok(None);
        }
        self.read.advance(5);
        Ok(Some(self.read.split_to(length).freeze()))
    }
}

impl EventSource for Questions {
    type Item = Result<Bytes, Fault>;

    async fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(question) = self.whole().transpose() {
                return Some(question);
            }
            let frame = tokio::time::timeout(IDLE, self.body.as_mut()?.frame()).await.ok()??;
            match frame.map(http_body::Frame::into_data) {
                Ok(Ok(data)) => self.read.extend_from_slice(&data),
                Ok(Err(_)) => {}
                Err(_) => return None,
            }
        }
    }

    async fn write(&mut self, piece: &mut Vec<u8>, item: Option<Self::Item>) -> io::Result<Flow> {
        match item.map(|question| question.and_then(|question| reply(&question))) {
            Some(Ok(answer)) => {
                MessageEncoding::Identity.frame(piece, &answer);
                Ok(Flow::Continues)
            }
            Some(Err(fault)) => {
                self.failed = Some(fault);
                Ok(Flow::Ends)
            }
            None => Ok(Flow::Ends),
        }
    }

    fn trailers(&mut self) -> Option<HeaderMap> {
        if std::mem::replace(&mut self.is_closed, true) {
            return None;
        }
        Some(match self.failed.take() {
            Some(fault) => frame::trailers(&tool_status(RpcCode::InvalidArgument, fault.message)),
            None => frame::ok(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_service_is_listed_with_the_file_that_defines_it() {
        let all = &*DEFINITIONS;
        let expected = [
            "a2a.v1.A2AService",
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection",
            "grpc.reflection.v1alpha.ServerReflection",
            "lf.a2a.v1.A2AService",
        ];
        assert_eq!(all.services, expected);
        assert!(dialects::PROTO_WIRES.iter().all(|wire| all.services.iter().any(|name| name == wire.service())));
        for symbol in
            ["lf.a2a.v1.A2AService.SendMessage", "a2a.v1.Part", "grpc.health.v1.HealthCheckResponse.ServingStatus"]
        {
            let file = &all.symbols[symbol];
            assert!(!all.with_needs(file).is_empty(), "{symbol}");
        }
        // With the files it imports, each once.
        assert_eq!(all.with_needs("lf/a2a/v1/a2a.proto").len(), 4);
    }

    #[test]
    fn what_is_not_there_is_not_found() {
        for (field, name) in [(3, "x.proto"), (4, "x.Y"), (5, ""), (6, "x.Y")] {
            let mut w = ProtoWriter::default();
            w.present_bytes(field, name.as_bytes());
            let reply = reply(&w.finish()).unwrap();
            let mut fields = Fields::new(&reply);
            let mut kinds = Vec::new();
            while let Some((number, _)) = fields.next_field().unwrap() {
                kinds.push(number);
            }
            assert_eq!(kinds, [2, 7], "{field}");
        }
        assert!(reply(b"\xff").is_err());
    }
}
