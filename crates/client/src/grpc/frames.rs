//! The framing of gRPC: a flag, a length, a message. Messages are bounded, compressed ones also in what they become.

use std::io::Read as _;

use bytes::{Buf as _, Bytes, BytesMut};
use flate2::read::GzDecoder;
use model::Kind;

use crate::error::{Error, FailureStage};

/// The flag and the length before each message.
const PREFIX: usize = 5;

/// A message with its prefix, not compressed.
pub(crate) fn framed(message: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(PREFIX + message.len());
    out.push(0);
    out.extend_from_slice(&u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend_from_slice(message);
    out.into()
}

/// Takes messages out of the bytes of a body.
#[derive(Debug)]
pub(crate) struct MessageReader {
    buf: BytesMut,
    /// Of one message, in bytes.
    limit: usize,
    /// The encoding of compressed messages is one that is known.
    gzip: bool,
}

impl MessageReader {
    pub(crate) fn new(limit: usize, gzip: bool) -> MessageReader {
        MessageReader { buf: BytesMut::new(), limit, gzip }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buf.extend_from_slice(bytes);
    }

    /// Whether no message has begun.
    pub(crate) fn is_empty(&self) -> bool {
        self.buf.is_empty()
    }

    /// The next complete message.
    pub(crate) fn next_message(&mut self) -> Result<Option<Bytes>, Error> {
        let Some(&[flag, a, b, c, d]) = self.buf.first_chunk::<PREFIX>() else { return Ok(None) };
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        if length > self.limit {
            return Err(self.too_large(format!("{length} bytes")));
        }
        if self.buf.len() < PREFIX + length {
            self.buf.reserve(PREFIX + length - self.buf.len());
            return Ok(None);
        }
        self.buf.advance(PREFIX);
        let message = self.buf.split_to(length).freeze();
        match flag {
            0 => Ok(Some(message)),
            1 if self.gzip => self.decompressed(&message).map(Some),
            1 => Err(unreadable("a message is compressed in an encoding that was not offered".to_owned())),
            flag => Err(unreadable(format!("a message has the flag {flag}, which gRPC does not have"))),
        }
    }

    fn decompressed(&self, message: &[u8]) -> Result<Bytes, Error> {
        let mut out = Vec::new();
        // One byte more than the limit shows that there is more.
        let mut reader = GzDecoder::new(message).take(self.limit as u64 + 1);
        reader
            .read_to_end(&mut out)
            .map_err(|error| unreadable(format!("a message cannot be decompressed: {error}")))?;
        if out.len() > self.limit {
            return Err(self.too_large("more when it is decompressed".to_owned()));
        }
        Ok(out.into())
    }

    fn too_large(&self, size: String) -> Error {
        unreadable(format!("a message of the answer has {size}; the limit here is {} bytes", self.limit))
    }
}

pub(super) fn unreadable(message: String) -> Error {
    Error::new(FailureStage::Unreadable, Kind::InvalidAgentResponse, message)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn gzipped(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(bytes).unwrap();
        let packed = encoder.finish().unwrap();
        let mut frame = framed(&packed).to_vec();
        frame[0] = 1;
        frame
    }

    #[test]
    fn messages_come_out_of_pieces_of_any_size() {
        let stream = [framed(b"one"), framed(b""), gzipped(b"two").into()].concat();
        for size in 1..stream.len() {
            let (mut frames, mut found) = (MessageReader::new(64, true), Vec::new());
            for piece in stream.chunks(size) {
                frames.push(piece);
                while let Some(message) = frames.next_message().unwrap() {
                    found.push(message);
                }
            }
            assert_eq!(found, [&b"one"[..], b"", b"two"]);
            assert!(frames.is_empty());
        }
    }

    #[test]
    fn a_message_beyond_the_limit_is_refused_by_its_length_also_when_it_grows() {
        let refused = |bytes: &[u8], gzip: bool| {
            let mut frames = MessageReader::new(10, gzip);
            frames.push(bytes);
            frames.next_message().unwrap_err().message
        };
        assert!(refused(&[0, 0, 0, 0, 11], true).contains("11 bytes; the limit here is 10"));
        assert!(refused(&[0, 255, 255, 255, 255], true).contains("the limit here is 10"));
        assert!(refused(&gzipped(&[0; 100_000])[..5], true).contains("the limit here is 10"));
        let mut frames = MessageReader::new(1_000, true);
        frames.push(&gzipped(&[0; 100_000]));
        assert!(frames.next_message().unwrap_err().message.contains("more when it is decompressed"));
        assert!(refused(&[1, 0, 0, 0, 1, 0], false).contains("not offered"));
        assert!(refused(&[1, 0, 0, 0, 1, 0], true).contains("cannot be decompressed"));
        assert!(refused(&[7, 0, 0, 0, 0], true).contains("flag 7"));
    }
}
