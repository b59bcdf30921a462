//! The body of a response: bytes in memory or a stream of them, and the memory that large answers share.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use dialects::framing::blob::Transform;
use futures_util::{Stream, StreamExt as _};
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use model::{BlobKind, Fault, Kind, MemoryBudget, MemoryShare};

pub type Response = http::Response<ResponseBody>;

pub enum ResponseBody {
    Whole(Option<Bytes>),
    /// Bytes, and trailers after them.
    Trailed(Option<Bytes>, Option<Box<HeaderMap>>),
    Stream(Pin<Box<dyn Stream<Item = io::Result<Frame<Bytes>>> + Send>>),
}

impl ResponseBody {
    #[inline]
    pub fn empty() -> ResponseBody {
        ResponseBody::Whole(None)
    }
    pub fn stream(stream: impl Stream<Item = io::Result<Bytes>> + Send + 'static) -> ResponseBody {
        ResponseBody::frames(stream.map(|bytes| bytes.map(Frame::data)))
    }
    /// A stream of data that may end with trailers.
    pub fn frames(stream: impl Stream<Item = io::Result<Frame<Bytes>>> + Send + 'static) -> ResponseBody {
        ResponseBody::Stream(Box::pin(stream))
    }
    pub fn with_trailers(bytes: Bytes, trailers: HeaderMap) -> ResponseBody {
        ResponseBody::Trailed(Some(bytes).filter(|b| !b.is_empty()), Some(Box::new(trailers)))
    }
}

impl From<Bytes> for ResponseBody {
    #[inline]
    fn from(bytes: Bytes) -> ResponseBody {
        ResponseBody::Whole(Some(bytes).filter(|b| !b.is_empty()))
    }
}
impl From<String> for ResponseBody {
    fn from(text: String) -> ResponseBody {
        Bytes::from(text).into()
    }
}

impl http_body::Body for ResponseBody {
    type Data = Bytes;
    /// An error in the middle of a body also breaks its connection, so that no client takes the part for the whole.
    type Error = io::Error;

    #[inline]
    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.get_mut() {
            ResponseBody::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            ResponseBody::Trailed(bytes, trailers) => {
                let data = bytes.take().map(Frame::data);
                Poll::Ready(data.or_else(|| trailers.take().map(|trailers| Frame::trailers(*trailers))).map(Ok))
            }
            body @ ResponseBody::Stream(_) => {
                let ResponseBody::Stream(stream) = &mut *body else { return Poll::Ready(None) };
                // A stream that panics ends with an error; other streams of its connection continue.
                match catch_unwind(AssertUnwindSafe(|| stream.as_mut().poll_next(cx))) {
                    Ok(polled) => polled,
                    Err(_) => {
                        *body = ResponseBody::empty();
                        Poll::Ready(Some(Err(io::Error::other("a stream failed unexpectedly"))))
                    }
                }
            }
        }
    }

    #[inline]
    fn is_end_stream(&self) -> bool {
        matches!(self, ResponseBody::Whole(None) | ResponseBody::Trailed(None, None))
    }

    #[inline]
    fn size_hint(&self) -> SizeHint {
        match self {
            ResponseBody::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64)),
            ResponseBody::Trailed(..) | ResponseBody::Stream(_) => SizeHint::default(),
        }
    }
}

/// An answer above this size counts against the memory for answers.
pub const LARGE: usize = 64 << 10;

/// Bytes that hold a share of the memory for answers until the last of them is sent.
struct BudgetedBytes {
    bytes: Bytes,
    _share: MemoryShare,
}

impl AsRef<[u8]> for BudgetedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A large answer, counted until it is sent, also to a slow reader. The error is the fault for an answer that does not
/// fit.
#[inline]
pub fn counted(answers: &Arc<MemoryBudget>, bytes: Bytes) -> Result<Bytes, Fault> {
    let share = reserve(answers, bytes.len())?;
    Ok(with_reserved(bytes, share))
}

/// Reserves the memory of an answer before it is encoded; a small one needs none. An answer that is counted only when
/// it is complete would be refused after the memory is used.
#[inline]
pub fn reserve(answers: &Arc<MemoryBudget>, bytes: usize) -> Result<Option<MemoryShare>, Fault> {
    if bytes <= LARGE { Ok(None) } else { room(answers, bytes).map(Some) }
}

/// The bytes of an answer together with the memory that was reserved for it.
#[inline]
pub fn with_reserved(bytes: Bytes, share: Option<MemoryShare>) -> Bytes {
    match share {
        None => bytes,
        Some(mut share) => {
            share.set(bytes.len());
            with_room(bytes, share)
        }
    }
}

/// A share of the memory for a large answer.
pub fn room(answers: &Arc<MemoryBudget>, bytes: usize) -> Result<MemoryShare, Fault> {
    let mut share = answers.share();
    if share.grow_alone(bytes) {
        return Ok(share);
    }
    let message = "the server has as many large answers on their way as it takes; ask again in 2 s, or for less";
    Err(Fault::new(Kind::Unavailable, message).retry_after(2))
}

/// The bytes together with their share of the memory.
pub fn with_room(bytes: Bytes, share: MemoryShare) -> Bytes {
    Bytes::from_owner(BudgetedBytes { bytes, _share: share })
}

/// Large content as a JSON string.
pub fn in_json(kind: BlobKind, content: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(content.len() * 4 / 3 + 4);
    let mut transform = Transform::new(kind);
    transform.push(&mut out, content);
    transform.finish(&mut out);
    out.into()
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn trailers_follow_the_bytes() {
        let trailers = HeaderMap::from_iter([(http::header::ETAG, http::HeaderValue::from_static("x"))]);
        let mut body = ResponseBody::with_trailers(Bytes::from_static(b"one"), trailers.clone());
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "one");
        assert_eq!(body.frame().await.unwrap().unwrap().into_trailers().unwrap(), trailers);
        assert!(body.frame().await.is_none());
    }

    #[tokio::test]
    async fn a_stream_that_panics_breaks_off_and_is_not_polled_again() {
        let words = futures_util::stream::iter([Ok(Bytes::from_static(b"one"))]);
        let stream = words.chain(futures_util::stream::once(async { panic!("as a test") }));
        let mut body = ResponseBody::stream(stream);
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "one");
        assert!(body.frame().await.unwrap().is_err());
        assert!(body.frame().await.is_none());
    }
}
