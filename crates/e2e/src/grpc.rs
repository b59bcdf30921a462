//! gRPC on a plain connection: HTTP/2 with prior knowledge, and frames and messages that no proper client sends.
//!
//! The frames of HTTP/2 itself are the `h2` crate's. [`proto`] writes the wire format of protobuf by hand, since a
//! generated message cannot be wrong. Calls block, as everything here does.

use std::net::SocketAddr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Request};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

use crate::operation::{CONFIG, HOOK};
use crate::poll::PATIENCE;
use crate::{Operation, Verdict};

/// The services of both generations.
pub const V1: &str = "/lf.a2a.v1.A2AService";
pub const V03: &str = "/a2a.v1.A2AService";

/// The numbers of google.rpc.Code.
pub mod code {
    pub const OK: u32 = 0;
    pub const INVALID_ARGUMENT: u32 = 3;
    pub const NOT_FOUND: u32 = 5;
    pub const PERMISSION_DENIED: u32 = 7;
    pub const RESOURCE_EXHAUSTED: u32 = 8;
    pub const FAILED_PRECONDITION: u32 = 9;
    pub const UNIMPLEMENTED: u32 = 12;
    pub const INTERNAL: u32 = 13;
    pub const UNAVAILABLE: u32 = 14;
    pub const UNAUTHENTICATED: u32 = 16;
}

/// The wire format of protobuf.
pub mod proto {
    pub fn varint(mut number: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        while number >= 0x80 {
            bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        bytes.push(number as u8);
        bytes
    }

    /// A field of bytes, a text or a message.
    pub fn field(number: u64, content: impl AsRef<[u8]>) -> Vec<u8> {
        let content = content.as_ref();
        let mut bytes = varint(number << 3 | 2);
        bytes.extend(varint(content.len() as u64));
        bytes.extend_from_slice(content);
        bytes
    }

    /// A field of a number.
    pub fn number(field: u64, value: u64) -> Vec<u8> {
        [varint(field << 3), varint(value)].concat()
    }

    /// The fields of a message that lie within one another, the outermost first, around the innermost content. Its
    /// time grows with its length, whatever the depth.
    pub fn nested(fields: impl DoubleEndedIterator<Item = u64>, innermost: &[u8]) -> Vec<u8> {
        let mut reversed: Vec<u8> = innermost.iter().rev().copied().collect();
        for field in fields.rev() {
            let head = [varint(field << 3 | 2), varint(reversed.len() as u64)].concat();
            reversed.extend(head.iter().rev());
        }
        reversed.reverse();
        reversed
    }

    /// A `SendMessageRequest` of 1.0 with one part.
    pub fn send_v1(part: &[u8]) -> Vec<u8> {
        let message = [field(1, crate::fresh_id()), number(4, 1), field(5, part)].concat();
        field(2, message)
    }

    /// A `SendMessageRequest` of 0.3 with one part; it waits for the task.
    pub fn send_v03(part: &[u8]) -> Vec<u8> {
        let message = [field(1, crate::fresh_id()), number(4, 1), field(5, part)].concat();
        [field(1, message), field(2, number(4, 1))].concat()
    }

    /// A `Value` of google.protobuf.
    pub fn value(json: &serde_json::Value) -> Vec<u8> {
        use serde_json::Value as Json;
        match json {
            Json::Null => number(1, 0),
            Json::Number(double) => {
                let double = double.as_f64().expect("a number of a test");
                [varint(2 << 3 | 1), double.to_le_bytes().to_vec()].concat()
            }
            Json::String(text) => field(3, text),
            Json::Bool(is) => number(4, u64::from(*is)),
            Json::Object(_) => field(5, object(json)),
            Json::Array(items) => field(6, items.iter().flat_map(|item| field(1, value(item))).collect::<Vec<_>>()),
        }
    }

    /// A `Struct` of google.protobuf.
    pub fn object(json: &serde_json::Value) -> Vec<u8> {
        let member = |(name, of): (&String, _)| field(1, [field(1, name), field(2, value(of))].concat());
        json.as_object().into_iter().flatten().flat_map(member).collect()
    }

    /// The values of a field of bytes in a message.
    ///
    /// # Panics
    /// When it is not a message.
    pub fn values(mut message: &[u8], wanted: u64) -> Vec<&[u8]> {
        let mut found = Vec::new();
        while !message.is_empty() {
            let tag = take(&mut message);
            match tag & 7 {
                0 => drop(take(&mut message)),
                1 => message = &message[8..],
                2 => {
                    let length = take(&mut message) as usize;
                    let (value, rest) = message.split_at(length);
                    if tag >> 3 == wanted {
                        found.push(value);
                    }
                    message = rest;
                }
                5 => message = &message[4..],
                other => panic!("no wire type: {other}"),
            }
        }
        found
    }

    fn take(message: &mut &[u8]) -> u64 {
        let mut number = 0;
        for at in 0.. {
            let byte = message[0];
            *message = &message[1..];
            number |= u64::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                break;
            }
        }
        number
    }
}

/// A call that sends this script to the agent `scripted`, in a stream or blocking.
pub fn scripted(service: &str, method: &str, steps: &serde_json::Value) -> Call {
    let script = serde_json::json!({ "script": steps });
    let message = match service == V1 {
        true => proto::send_v1(&proto::field(4, proto::value(&script))),
        false => proto::send_v03(&proto::field(3, proto::field(1, proto::object(&script)))),
    };
    Call::new(&format!("{service}/{method}")).header("x-a2a-agent", "scripted").message(&message)
}

/// A message in the frame of gRPC.
pub fn frame(message: &[u8]) -> Vec<u8> {
    framed(0, message.len() as u32, message)
}

/// The same, said to be compressed.
pub fn compressed(message: &[u8]) -> Vec<u8> {
    framed(1, message.len() as u32, message)
}

/// A frame with any flag and length.
pub fn framed(flag: u8, length: u32, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![flag];
    bytes.extend(length.to_be_bytes());
    bytes.extend_from_slice(content);
    bytes
}

/// # Panics
/// Never: it writes to memory.
pub fn gzip(content: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(content).and_then(|()| encoder.finish()).expect("memory takes it")
}

/// # Panics
/// When it is not gzip.
pub fn gunzip(content: &[u8]) -> Vec<u8> {
    use std::io::Read;
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(content).read_to_end(&mut bytes).expect("it is gzip");
    bytes
}

/// An unsent request.
#[derive(Debug, Clone)]
pub struct Call {
    verb: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Call {
    /// A call as a proper client makes it, without a message yet.
    pub fn new(path: &str) -> Self {
        let headers = [("content-type", "application/grpc"), ("te", "trailers"), ("a2a-version", "1.0")];
        let headers = headers.into_iter().filter(|(name, _)| *name != "a2a-version" || path.starts_with(V1));
        Self {
            verb: "POST".to_owned(),
            path: path.to_owned(),
            headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            body: Vec::new(),
        }
    }

    #[must_use]
    pub fn verb(mut self, verb: &str) -> Self {
        verb.clone_into(&mut self.verb);
        self
    }

    /// Sets a header, replacing another of that name.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self = self.without(name);
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self
    }

    /// Adds a whole message.
    #[must_use]
    pub fn message(self, message: &[u8]) -> Self {
        self.body(&frame(message))
    }

    /// Adds any bytes.
    #[must_use]
    pub fn body(mut self, bytes: &[u8]) -> Self {
        self.body.extend_from_slice(bytes);
        self
    }

    fn head(&self, addr: SocketAddr) -> Request<()> {
        let mut request = Request::builder().method(self.verb.as_str()).uri(format!("http://{addr}{}", self.path));
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        request.body(()).expect("a request")
    }
}

/// An answer.
#[derive(Debug)]
pub struct Reply {
    pub http: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    pub trailers: HeaderMap,
    /// Why the stream was reset before its end.
    pub reset: Option<Reason>,
}

impl Reply {
    fn begun() -> Reply {
        Reply { http: 0, headers: HeaderMap::new(), body: Vec::new(), trailers: HeaderMap::new(), reset: None }
    }

    /// A header, or a trailer.
    pub fn told(&self, name: &str) -> Option<&str> {
        self.trailers.get(name).or_else(|| self.headers.get(name)).and_then(|value| value.to_str().ok())
    }

    /// The status of the call, if it has one.
    pub fn status(&self) -> Option<u32> {
        self.told("grpc-status").map(|text| text.parse().unwrap_or_else(|_| panic!("a number: {text}")))
    }

    /// The message of the status.
    pub fn words(&self) -> &str {
        self.told("grpc-message").unwrap_or_default()
    }

    /// The outcome: a status, or a first message.
    pub fn verdict(&self) -> Verdict {
        match self.status() {
            None | Some(code::OK) if self.http == 200 => Verdict::Allowed,
            Some(code::UNAUTHENTICATED) => Verdict::Unauthenticated,
            Some(code::PERMISSION_DENIED) => Verdict::Forbidden,
            Some(code::NOT_FOUND) => Verdict::Missing,
            Some(_) | None => Verdict::Refused,
        }
    }

    /// The part of a refusal that could tell a stranger something. A value that the request contained is masked.
    pub fn face(&self, sent: &str) -> (Option<u32>, String, String) {
        let masked = |text: &str| text.replace(sent, "<sent>");
        (self.status(), masked(self.words()), masked(&self.details()))
    }

    /// The details of the status, in which texts can be found.
    ///
    /// # Panics
    /// When they are not base64.
    pub fn details(&self) -> String {
        let details = self.told("grpc-status-details-bin").unwrap_or_default();
        let details = STANDARD_NO_PAD.decode(details.trim_end_matches('=')).expect("base64");
        String::from_utf8_lossy(&details).into_owned()
    }

    /// The messages, each with its flag.
    ///
    /// # Panics
    /// When the body is not frames.
    pub fn messages(&self) -> Vec<(u8, Vec<u8>)> {
        frames(&self.body)
    }
}

/// # Panics
/// When they are not whole frames.
pub fn frames(mut body: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut messages = Vec::new();
    while !body.is_empty() {
        let length = u32::from_be_bytes(body[1..5].try_into().expect("a length")) as usize;
        messages.push((body[0], body[5..5 + length].to_vec()));
        body = &body[5 + length..];
    }
    messages
}

/// An operation on the agent `scripted` as a call of a service; `None` where its generation does not have it.
pub fn operation(service: &str, operation: Operation, task: &str) -> Option<Call> {
    let v1 = service == V1;
    let name = format!("tasks/{task}");
    let config = format!("{name}/pushNotificationConfigs/{CONFIG}");
    let said = |task: &str| {
        let part = proto::field(1, "hello");
        let message = [
            proto::field(1, crate::client::fresh_id()),
            proto::field(3, task),
            proto::number(4, 1),
            proto::field(5, part),
        ];
        proto::field(if v1 { 2 } else { 1 }, message.concat())
    };
    let of_task = || if v1 { proto::field(2, task) } else { proto::field(1, &name) };
    let of_config = || match v1 {
        true => [proto::field(2, task), proto::field(3, CONFIG)].concat(),
        false => proto::field(1, &config),
    };
    let (method, message) = match operation {
        Operation::Send => ("SendMessage", said("")),
        Operation::Continue => ("SendMessage", said(task)),
        Operation::Stream | Operation::StreamResumed => ("SendStreamingMessage", said("")),
        Operation::ContinueStream => ("SendStreamingMessage", said(task)),
        Operation::Get => ("GetTask", of_task()),
        Operation::List if v1 => ("ListTasks", Vec::new()),
        Operation::List => return None,
        Operation::Cancel => ("CancelTask", of_task()),
        Operation::Subscribe | Operation::SubscribeResumed => {
            (if v1 { "SubscribeToTask" } else { "TaskSubscription" }, of_task())
        }
        Operation::PushCreate if v1 => (
            "CreateTaskPushNotificationConfig",
            [proto::field(2, CONFIG), proto::field(3, task), proto::field(4, HOOK)].concat(),
        ),
        Operation::PushCreate => {
            let push = proto::field(2, [proto::field(1, CONFIG), proto::field(2, HOOK)].concat());
            let request = [proto::field(1, &name), proto::field(2, CONFIG), proto::field(3, push)];
            ("CreateTaskPushNotificationConfig", request.concat())
        }
        Operation::PushGet => ("GetTaskPushNotificationConfig", of_config()),
        Operation::PushDelete => ("DeleteTaskPushNotificationConfig", of_config()),
        Operation::PushList if v1 => ("ListTaskPushNotificationConfigs", proto::field(1, task)),
        Operation::PushList => ("ListTaskPushNotificationConfig", proto::field(1, &name)),
        Operation::ExtendedCard => (if v1 { "GetExtendedAgentCard" } else { "GetAgentCard" }, Vec::new()),
    };
    let call = Call::new(&format!("{service}/{method}")).header("x-a2a-agent", "scripted").message(&message);
    Some(match operation {
        Operation::SubscribeResumed | Operation::StreamResumed => call.header("last-event-id", &format!("{task}.1")),
        _ => call,
    })
}

/// A connection; calls are one after another.
#[derive(Debug)]
pub struct Connection {
    runtime: Runtime,
    sender: SendRequest<Bytes>,
    addr: SocketAddr,
}

impl Connection {
    /// # Panics
    /// When the server does not speak HTTP/2.
    pub fn open(addr: SocketAddr) -> Self {
        Self::try_open(addr).unwrap_or_else(|error| panic!("HTTP/2 with prior knowledge: {error}"))
    }

    /// # Panics
    /// When this machine has no threads.
    pub fn try_open(addr: SocketAddr) -> Result<Self, h2::Error> {
        // The connection is served while a call waits; that is all the time that it is needed.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let sender = runtime.block_on(async {
            let socket = TcpStream::connect(addr).await.map_err(|_| h2::Error::from(Reason::REFUSED_STREAM))?;
            let (sender, connection) = h2::client::handshake(socket).await?;
            tokio::spawn(async move { drop(connection.await) });
            Ok::<_, h2::Error>(sender)
        })?;
        Ok(Self { runtime, sender, addr })
    }

    /// Makes a call to its end.
    ///
    /// # Panics
    /// When it is not answered.
    pub fn call(&mut self, call: &Call) -> Reply {
        self.try_call(call).unwrap_or_else(|error| panic!("{}: {error}", call.path))
    }

    /// The same; a broken connection is an error.
    pub fn try_call(&mut self, call: &Call) -> Result<Reply, h2::Error> {
        self.exchange(call, |mut stream, body| {
            stream.send_data(body, true).ok();
            stream
        })
    }

    /// Makes a call whose request does not end: what it sends is all that comes.
    pub fn call_unended(&mut self, call: &Call) -> Result<Reply, h2::Error> {
        self.exchange(call, |mut stream, body| {
            stream.send_data(body, false).ok();
            stream
        })
    }

    /// Makes a call of headers alone.
    pub fn call_headers(&mut self, call: &Call) -> Result<Reply, h2::Error> {
        let (runtime, sender) = (&self.runtime, self.sender.clone());
        let head = call.head(self.addr);
        within(runtime, async move {
            let (response, _) = sender.ready().await?.send_request(head, true)?;
            answer(response).await
        })
    }

    /// Begins a call, reads until its first message, and leaves it.
    ///
    /// # Panics
    /// When it is not answered with a message.
    pub fn leave(&mut self, call: &Call) {
        let (runtime, sender) = (&self.runtime, self.sender.clone());
        let (head, body) = (call.head(self.addr), Bytes::from(call.body.clone()));
        let left = within(runtime, async move {
            let (response, mut stream) = sender.ready().await?.send_request(head, false)?;
            stream.send_data(body, true)?;
            let mut incoming = response.await?.into_body();
            incoming.data().await.unwrap_or_else(|| panic!("a stream without a message"))?;
            stream.send_reset(Reason::CANCEL);
            drop(incoming);
            // The connection is served while something waits.
            tokio::task::yield_now().await;
            Ok(())
        });
        left.unwrap_or_else(|error| panic!("{}: {error}", call.path));
    }

    /// Begins a call and reads until its first message, or to its end where it has none.
    ///
    /// # Panics
    /// When it is not answered.
    pub fn first_answer(&mut self, call: &Call) -> Reply {
        let (runtime, sender) = (&self.runtime, self.sender.clone());
        let (head, body) = (call.head(self.addr), Bytes::from(call.body.clone()));
        let reply = within(runtime, async move {
            let (response, mut stream) = sender.ready().await?.send_request(head, false)?;
            stream.send_data(body, true)?;
            let (head, mut incoming) = response.await?.into_parts();
            let mut reply = Reply { http: head.status.as_u16(), headers: head.headers, ..Reply::begun() };
            match incoming.data().await {
                Some(piece) => {
                    reply.body.extend_from_slice(&piece?);
                    stream.send_reset(Reason::CANCEL);
                }
                None => reply.trailers = incoming.trailers().await?.unwrap_or_default(),
            }
            Ok(reply)
        });
        reply.unwrap_or_else(|error| panic!("{}: {error}", call.path))
    }

    /// Begins a call of which the request's body is still to come.
    ///
    /// # Panics
    /// When the server refuses it.
    pub fn begin(&self, call: &Call) -> Ongoing<'_> {
        let (sender, head) = (self.sender.clone(), call.head(self.addr));
        let begun = within(&self.runtime, async move { sender.ready().await?.send_request(head, false) });
        let (response, sending) = begun.unwrap_or_else(|error| panic!("{}: {error}", call.path));
        Ongoing {
            connection: self,
            path: call.path.clone(),
            sending,
            response: Some(response),
            incoming: None,
            reply: Reply::begun(),
            read: 0,
        }
    }

    /// Makes a call of which the answer is read piece by piece.
    pub fn open_stream(&self, call: &Call) -> Ongoing<'_> {
        let mut ongoing = self.begin(call);
        ongoing.send(&call.body);
        ongoing
    }

    /// Begins calls and resets each at once, every other one before it is sent to its end. The first error ends it: a
    /// server may end a connection like this.
    pub fn flood(&mut self, call: &Call, times: usize) -> Result<(), h2::Error> {
        let (runtime, sender, addr) = (&self.runtime, self.sender.clone(), self.addr);
        within(runtime, async move {
            let mut sender = sender;
            for nth in 0..times {
                sender = sender.ready().await?;
                let (_response, mut stream) = sender.send_request(call.head(addr), false)?;
                stream.send_data(Bytes::from(call.body.clone()), nth % 2 == 0).ok();
                // Queued frames go out before the reset takes them back.
                tokio::task::yield_now().await;
                stream.send_reset(Reason::CANCEL);
            }
            Ok(())
        })
    }

    fn exchange(
        &self,
        call: &Call,
        send: impl FnOnce(SendStream<Bytes>, Bytes) -> SendStream<Bytes>,
    ) -> Result<Reply, h2::Error> {
        let (runtime, sender) = (&self.runtime, self.sender.clone());
        let head = call.head(self.addr);
        let body = Bytes::from(call.body.clone());
        within(runtime, async move {
            let (response, stream) = sender.ready().await?.send_request(head, false)?;
            let _open = send(stream, body);
            answer(response).await
        })
    }
}

/// A call under way.
#[derive(Debug)]
pub struct Ongoing<'c> {
    connection: &'c Connection,
    path: String,
    sending: SendStream<Bytes>,
    response: Option<ResponseFuture>,
    incoming: Option<RecvStream>,
    reply: Reply,
    /// Bytes of the reply's body whose messages were returned.
    read: usize,
}

impl Ongoing<'_> {
    /// Sends the whole body of the request.
    ///
    /// # Panics
    /// When the call has ended.
    pub fn send(&mut self, body: &[u8]) {
        let sent = self.sending.send_data(Bytes::copy_from_slice(body), true);
        sent.unwrap_or_else(|error| panic!("{}: {error}", self.path));
    }

    /// The next message; `None` at the end of the answer, or when the connection breaks.
    ///
    /// # Panics
    /// When nothing comes.
    pub fn message(&mut self) -> Option<Vec<u8>> {
        self.message_within(PATIENCE)
            .unwrap_or_else(|| panic!("{}: waited {PATIENCE:?} in vain for a message", self.path))
    }

    /// The same; `None` when nothing comes in this time.
    pub fn message_within(&mut self, patience: Duration) -> Option<Option<Vec<u8>>> {
        let connection = self.connection;
        let piece = async {
            loop {
                if let Some(message) = self.whole() {
                    return Some(message);
                }
                self.piece().await?;
            }
        };
        connection.runtime.block_on(async { tokio::time::timeout(patience, piece).await }).ok()
    }

    /// The answer so far.
    pub fn reply(&self) -> &Reply {
        &self.reply
    }

    /// The answer to its end. A connection that breaks before is told by `reset`, or leaves the answer without a status.
    pub fn end(mut self) -> Reply {
        while self.message().is_some() {}
        self.reply
    }

    fn whole(&mut self) -> Option<Vec<u8>> {
        let rest = &self.reply.body[self.read..];
        let length = u32::from_be_bytes(rest.get(1..5)?.try_into().ok()?) as usize;
        let message = rest.get(5..5 + length)?.to_vec();
        self.read += 5 + length;
        Some(message)
    }

    /// Reads on; `None` at the end.
    async fn piece(&mut self) -> Option<()> {
        if let Some(response) = &mut self.response {
            let answered = response.await;
            self.response = None;
            let (head, incoming) = answered.ok()?.into_parts();
            (self.reply.http, self.reply.headers) = (head.status.as_u16(), head.headers);
            self.incoming = Some(incoming);
        }
        let incoming = self.incoming.as_mut()?;
        match incoming.data().await {
            Some(Ok(piece)) => {
                incoming.flow_control().release_capacity(piece.len()).ok()?;
                self.reply.body.extend_from_slice(&piece);
                return Some(());
            }
            Some(Err(error)) => self.reply.reset = error.reason(),
            None => self.reply.trailers = incoming.trailers().await.ok().flatten().unwrap_or_default(),
        }
        self.incoming = None;
        None
    }
}

fn within<T>(runtime: &Runtime, work: impl Future<Output = Result<T, h2::Error>>) -> Result<T, h2::Error> {
    runtime.block_on(async {
        tokio::time::timeout(PATIENCE, work)
            .await
            .unwrap_or_else(|_| panic!("waited {PATIENCE:?} in vain for an answer"))
    })
}

async fn answer(response: ResponseFuture) -> Result<Reply, h2::Error> {
    let (head, mut incoming) = response.await?.into_parts();
    let mut reply = Reply { http: head.status.as_u16(), headers: head.headers, ..Reply::begun() };
    while let Some(piece) = incoming.data().await {
        match piece {
            Ok(piece) => {
                incoming.flow_control().release_capacity(piece.len())?;
                reply.body.extend_from_slice(&piece);
            }
            Err(error) if error.is_reset() => {
                reply.reset = error.reason();
                return Ok(reply);
            }
            Err(error) => return Err(error),
        }
    }
    if let Some(trailers) = incoming.trailers().await? {
        reply.trailers = trailers;
    }
    Ok(reply)
}
