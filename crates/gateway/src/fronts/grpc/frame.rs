//! The framing of gRPC: five bytes before each message, its compression, and status in trailers; and the same for gRPC-Web,
//! which has the trailers in its body.

use std::io::{Read as _, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use bytes::Bytes;
use dialects::framing::shortened;
use dialects::protobuf::{RpcCode, RpcStatus};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use futures_util::StreamExt as _;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Version, request};
use http_body::Frame;
use http_body_util::BodyStream;
use model::{Fault, Kind};
use web::body::{Response, ResponseBody};

/// A message below this size is not worth compressing.
const COMPRESSED_FROM: usize = 1 << 10;
/// Details of a status beyond this would exceed the headers that clients take.
const MOST_DETAILS: usize = 4 << 10;
const MOST_MESSAGE: usize = 1 << 10;
static STATUS: HeaderName = HeaderName::from_static("grpc-status");
static ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
static ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");
/// Bytes that are decompressed at once.
const PIECE: usize = 8 << 10;
/// The flag of a frame of gRPC-Web that holds trailers.
const TRAILERS: u8 = 0x80;

/// How messages travel, by the content type of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrpcTransport {
    Grpc,
    Web,
    /// gRPC-Web in base64.
    WebText,
}

impl GrpcTransport {
    /// `None` for a request that is not of gRPC; an error for a form of it that is not served.
    pub(crate) fn of(head: &request::Parts) -> Option<Result<GrpcTransport, String>> {
        let kind = head.headers.get(CONTENT_TYPE)?.to_str().ok()?;
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if !kind.starts_with("application/grpc") {
            return None;
        }
        Some(match kind.as_str() {
            "application/grpc" | "application/grpc+proto" if head.version < Version::HTTP_2 => {
                Err("gRPC needs HTTP/2; over HTTP/1.1 there is gRPC-Web (application/grpc-web+proto)".to_owned())
            }
            "application/grpc" | "application/grpc+proto" => Ok(GrpcTransport::Grpc),
            "application/grpc-web" | "application/grpc-web+proto" => Ok(GrpcTransport::Web),
            "application/grpc-web-text" | "application/grpc-web-text+proto" => Ok(GrpcTransport::WebText),
            other => Err(format!("{} is not served; send application/grpc", shortened(other, 64))),
        })
    }

    fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            GrpcTransport::Grpc => "application/grpc",
            GrpcTransport::Web => "application/grpc-web+proto",
            GrpcTransport::WebText => "application/grpc-web-text+proto",
        })
    }

    /// The body of a request as frames.
    pub(super) fn body(self, body: Bytes) -> Result<Bytes, Fault> {
        match self {
            GrpcTransport::Grpc | GrpcTransport::Web => Ok(body),
            GrpcTransport::WebText => {
                let text = body.trim_ascii();
                let decoded = STANDARD.decode(text).or_else(|_| STANDARD_NO_PAD.decode(text));
                let refused = |e| Fault::new(Kind::Parse, "the body is not base64").because(e);
                decoded.map(Bytes::from).map_err(refused)
            }
        }
    }

    /// The response as the transport has it: gRPC-Web moves the trailers into the body.
    pub(super) fn carry(self, mut response: Response) -> Response {
        response.headers_mut().insert(CONTENT_TYPE, self.content_type());
        response.headers_mut().insert(ACCEPT_ENCODING.clone(), HeaderValue::from_static("identity,gzip"));
        match self {
            GrpcTransport::Grpc => response,
            GrpcTransport::Web | GrpcTransport::WebText => self.in_body(response),
        }
    }

    fn in_body(self, response: Response) -> Response {
        let (mut head, body) = response.into_parts();
        let mut early = HeaderMap::new();
        for name in ["grpc-status", "grpc-message", "grpc-status-details-bin"] {
            if let Some(value) = head.headers.remove(name) {
                early.insert(name, value);
            }
        }
        let written = move |bytes: Bytes| match self {
            GrpcTransport::WebText => Frame::data(Bytes::from(STANDARD.encode(&bytes))),
            GrpcTransport::Grpc | GrpcTransport::Web => Frame::data(bytes),
        };
        if !early.is_empty() {
            let body = written(trailers_frame(&early)).into_data().unwrap_or_default();
            return Response::from_parts(head, body.into());
        }
        let frames = BodyStream::new(body).map(move |frame| {
            frame.map(|frame| match frame.into_data() {
                Ok(data) => written(data),
                Err(frame) => written(frame.into_trailers().map_or_else(|_| Bytes::new(), |t| trailers_frame(&t))),
            })
        });
        Response::from_parts(head, ResponseBody::frames(frames))
    }
}

/// Trailers as the last frame of a body.
fn trailers_frame(trailers: &HeaderMap) -> Bytes {
    let mut text = Vec::new();
    for (name, value) in trailers {
        text.extend_from_slice(name.as_str().as_bytes());
        text.extend_from_slice(b": ");
        text.extend_from_slice(value.as_bytes());
        text.extend_from_slice(b"\r\n");
    }
    let mut frame = Vec::with_capacity(text.len() + 5);
    frame.push(TRAILERS);
    frame.extend_from_slice(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes());
    frame.extend_from_slice(&text);
    frame.into()
}

/// Compression of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageEncoding {
    Identity,
    Gzip,
}

impl MessageEncoding {
    /// The encoding of the answer: that of the request, if the caller reads it.
    pub(super) fn of_answer(self, headers: &HeaderMap) -> MessageEncoding {
        let accepted = headers.get_all(&ACCEPT_ENCODING).iter().filter_map(|line| line.to_str().ok());
        let reads = accepted.flat_map(|line| line.split(',')).any(|name| name.trim() == "gzip");
        if reads { self } else { MessageEncoding::Identity }
    }

    /// Says how the messages of an answer are compressed.
    pub(super) fn state(self, headers: &mut HeaderMap) {
        if self == MessageEncoding::Gzip {
            headers.insert(ENCODING.clone(), HeaderValue::from_static("gzip"));
        }
    }

    /// The encoding of a request's message.
    pub(super) fn of(headers: &HeaderMap) -> Result<MessageEncoding, RpcStatus> {
        match headers.get(&ENCODING).map(|name| name.to_str().unwrap_or("?")) {
            None | Some("identity") => Ok(MessageEncoding::Identity),
            Some("gzip") => Ok(MessageEncoding::Gzip),
            Some(other) => {
                let message = format!("grpc-encoding {:?} is not served; use gzip or identity", shortened(other, 32));
                Err(RpcStatus { code: RpcCode::Unimplemented, message, details: Vec::new() })
            }
        }
    }

    /// Writes a message as a frame.
    pub(super) fn frame(self, out: &mut Vec<u8>, message: &[u8]) {
        if self == MessageEncoding::Gzip && message.len() >= COMPRESSED_FROM {
            let mut gzip = GzEncoder::new(Vec::with_capacity(message.len() / 2), Compression::fast());
            // Writing into memory does not fail.
            if gzip.write_all(message).is_ok()
                && let Ok(compressed) = gzip.finish()
            {
                put(out, 1, &compressed);
                return;
            }
        }
        put(out, 0, message);
    }
}

fn put(out: &mut Vec<u8>, flag: u8, message: &[u8]) {
    out.reserve(message.len() + 5);
    out.push(flag);
    out.extend_from_slice(&u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend_from_slice(message);
}

/// A message as its frame has it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FramedMessage {
    Plain(Bytes),
    Gzip(Bytes),
}

/// The one message of a request's body, decompressed: for services whose limit is so small that anyone may reach it.
pub(super) fn message(body: Bytes, encoding: MessageEncoding, limit: usize) -> Result<Bytes, Fault> {
    match framed_message(body, encoding, limit)? {
        FramedMessage::Plain(message) => Ok(message),
        FramedMessage::Gzip(compressed) => unzip(&compressed, limit, |_| Ok(()))?.ok_or_else(|| too_large(limit)),
    }
}

pub(super) fn too_large(limit: usize) -> Fault {
    Fault::new(Kind::TooLarge, format!("the message is larger than {limit} bytes, decompressed"))
}

/// The one message of a request's body.
pub(super) fn framed_message(body: Bytes, encoding: MessageEncoding, limit: usize) -> Result<FramedMessage, Fault> {
    let broken = |text: &str| Err(Fault::new(Kind::InvalidRequest, text));
    let Some([flag, a, b, c, d]) = body.first_chunk::<5>().copied() else {
        let is_empty = body.is_empty();
        return broken(if is_empty { "the request has no message" } else { "the frame of the message is cut off" });
    };
    let length = u32::from_be_bytes([a, b, c, d]) as usize;
    if length > limit {
        return Err(Fault::new(Kind::TooLarge, format!("the message is larger than {limit} bytes")));
    }
    let rest = body.slice(5..);
    if rest.len() < length {
        return broken("the frame of the message is cut off");
    }
    if rest.len() > length {
        return broken("the request has more than one message, and the method takes one");
    }
    match (flag, encoding) {
        (0, _) => Ok(FramedMessage::Plain(rest)),
        (1, MessageEncoding::Gzip) => Ok(FramedMessage::Gzip(rest)),
        (1, MessageEncoding::Identity) => broken("the message is compressed, and grpc-encoding names no compression"),
        _ => broken("the frame of the message has an unknown flag"),
    }
}

/// Decompresses up to a limit, so that a small message cannot become a large one; `None` for a longer message. `grow` is
/// asked for memory before it is taken.
pub(super) fn unzip(
    compressed: &[u8],
    limit: usize,
    mut grow: impl FnMut(usize) -> Result<(), Fault>,
) -> Result<Option<Bytes>, Fault> {
    let mut reader = MultiGzDecoder::new(compressed);
    let (mut message, mut piece) = (Vec::new(), [0; PIECE]);
    loop {
        let read = reader.read(&mut piece);
        let n = read.map_err(|e| Fault::new(Kind::InvalidRequest, "the message is not gzip").because(e))?;
        let length = message.len() + n;
        match n {
            0 => return Ok(Some(message.into())),
            _ if length > limit => return Ok(None),
            _ if length > message.capacity() => {
                let capacity = length.max(message.capacity() * 2).min(limit);
                grow(capacity - message.capacity())?;
                message.reserve_exact(capacity - message.len());
            }
            _ => {}
        }
        message.extend_from_slice(&piece[..n]);
    }
}

/// The trailers of a call that succeeded.
pub(super) fn ok() -> HeaderMap {
    let mut trailers = HeaderMap::with_capacity(2);
    trailers.insert(STATUS.clone(), HeaderValue::from_static("0"));
    trailers
}

/// The trailers of a call that failed.
pub(super) fn trailers(status: &RpcStatus) -> HeaderMap {
    let mut trailers = HeaderMap::with_capacity(4);
    trailers.insert(STATUS.clone(), HeaderValue::from(status.code as u16));
    if let Ok(text) = HeaderValue::from_str(&percent(&shortened(&status.message, MOST_MESSAGE))) {
        trailers.insert("grpc-message", text);
    }
    if !status.details.is_empty()
        && status.details.len() <= MOST_DETAILS
        && let Ok(details) = HeaderValue::from_str(&STANDARD_NO_PAD.encode(&status.details))
    {
        trailers.insert("grpc-status-details-bin", details);
    }
    trailers
}

/// A response that is a status alone.
pub(super) fn refused(status: &RpcStatus) -> Response {
    let mut response = Response::new(ResponseBody::empty());
    *response.status_mut() = StatusCode::OK;
    response.headers_mut().extend(trailers(status));
    response
}

/// Text as `grpc-message` has it: visible ASCII as it is, all else escaped.
fn percent(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' '..=b'$' | b'&'..=b'~' => out.push(char::from(byte)),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(flag: u8, length: usize, message: &[u8]) -> Bytes {
        let mut frame = vec![flag];
        frame.extend_from_slice(&(length as u32).to_be_bytes());
        frame.extend_from_slice(message);
        frame.into()
    }

    fn kind(body: Bytes, encoding: MessageEncoding) -> Result<Bytes, Kind> {
        message(body, encoding, 2_000).map_err(|fault| fault.kind)
    }

    #[test]
    fn one_whole_message_is_read() {
        let (plain, gzip) = (MessageEncoding::Identity, MessageEncoding::Gzip);
        assert_eq!(kind(framed(0, 2, b"hi"), plain).unwrap(), "hi");
        assert_eq!(kind(framed(0, 0, b""), plain).unwrap(), "");
        let long = vec![b'x'; 1_500];
        let mut zipped = Vec::new();
        gzip.frame(&mut zipped, &long);
        assert!(zipped[0] == 1 && zipped.len() < 200);
        assert_eq!(kind(zipped.clone().into(), gzip).unwrap(), long);
        for (body, encoding, expected) in [
            (Bytes::new(), plain, Kind::InvalidRequest),
            (Bytes::from_static(b"\0\0\0"), plain, Kind::InvalidRequest),
            (framed(0, 5, b"hi"), plain, Kind::InvalidRequest),
            (framed(0, 1, b"hi"), plain, Kind::InvalidRequest),
            (framed(2, 2, b"hi"), plain, Kind::InvalidRequest),
            (zipped.into(), plain, Kind::InvalidRequest),
            (framed(1, 2, b"hi"), gzip, Kind::InvalidRequest),
            (framed(0, 2_001, b"hi"), plain, Kind::TooLarge),
        ] {
            assert_eq!(kind(body, encoding), Err(expected));
        }
    }

    #[test]
    fn a_small_message_does_not_become_a_large_one() {
        let mut bomb = Vec::new();
        MessageEncoding::Gzip.frame(&mut bomb, &vec![0; 200 << 10]);
        assert!(bomb.len() < 2_000);
        assert_eq!(kind(bomb.into(), MessageEncoding::Gzip), Err(Kind::TooLarge));
    }

    #[test]
    fn memory_is_asked_for_before_a_message_is_decompressed_into_it() {
        let mut framed = Vec::new();
        MessageEncoding::Gzip.frame(&mut framed, &vec![7; 100 << 10]);
        let (compressed, mut taken) = (&framed[5..], 0);
        let mut grow = |bytes| {
            taken += bytes;
            Ok(())
        };
        let message = unzip(compressed, 1 << 20, &mut grow).unwrap().unwrap();
        assert_eq!(message, vec![7; 100 << 10]);
        assert!((100 << 10..=256 << 10).contains(&taken), "{taken}");
        assert_eq!(unzip(compressed, 50 << 10, |_| Ok(())).unwrap(), None);
        let no_room = |bytes| if bytes > 20 << 10 { Err(Fault::new(Kind::Unavailable, "full")) } else { Ok(()) };
        assert_eq!(unzip(compressed, 1 << 20, no_room).unwrap_err().kind, Kind::Unavailable);
        assert_eq!(unzip(b"no gzip", 1 << 20, |_| Ok(())).unwrap_err().kind, Kind::InvalidRequest);
    }

    #[test]
    fn messages_of_a_status_are_visible_ascii() {
        assert_eq!(percent("a b%é\n~"), "a b%25%C3%A9%0A~");
        let status = RpcStatus { code: RpcCode::NotFound, message: "é".repeat(5_000), details: vec![0; 9_000] };
        let trailers = trailers(&status);
        assert_eq!(trailers["grpc-status"], "5");
        assert!(trailers["grpc-message"].len() < 8_000 && !trailers.contains_key("grpc-status-details-bin"));
    }
}
