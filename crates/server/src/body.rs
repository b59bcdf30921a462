//! What a response is made of: bytes at hand, or a stream of them; and how large content gets into either.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use dialects::framing::blob::Transform;
use futures_util::Stream;
use http_body::{Frame, SizeHint};
use model::BlobKind;

pub(crate) type Response = http::Response<Body>;

pub(crate) enum Body {
    Whole(Option<Bytes>),
    Stream(Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>),
}

impl Body {
    pub(crate) fn empty() -> Body {
        Body::Whole(None)
    }
    pub(crate) fn stream(stream: impl Stream<Item = io::Result<Bytes>> + Send + 'static) -> Body {
        Body::Stream(Box::pin(stream))
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Body {
        Body::Whole(Some(bytes).filter(|b| !b.is_empty()))
    }
}
impl From<String> for Body {
    fn from(text: String) -> Body {
        Bytes::from(text).into()
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    /// What breaks a body off half way also breaks its connection, so that nobody takes the half for the whole.
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.get_mut() {
            Body::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Body::Stream(stream) => {
                stream.as_mut().poll_next(cx).map(|bytes| bytes.map(|bytes| bytes.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Body::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64)),
            Body::Stream(_) => SizeHint::default(),
        }
    }
}

/// Large content as it stands in a JSON value.
pub(crate) fn in_json(kind: BlobKind, content: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(content.len() * 4 / 3 + 4);
    let mut transform = Transform::new(kind);
    transform.push(&mut out, content);
    transform.finish(&mut out);
    out.into()
}
