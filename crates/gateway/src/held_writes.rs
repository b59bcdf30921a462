//! The writes of an HTTP/2 connection, held until its turn is over.
//!
//! hyper writes the frames of a response as they come: a data frame of 256 bytes or more is written before the trailers
//! behind it are encoded, and each of them is a system call and a packet. Here writes are collected while the connection is
//! polled, and [`WriteOutlet::poll_out`] writes them together afterwards. Once [`HELD`] bytes wait, writes go through, so that a
//! client that reads slowly is noticed as before.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The most bytes that wait.
const HELD: usize = 64 << 10;

/// A byte stream whose small writes wait for its [`WriteOutlet`].
pub(crate) struct HeldWrites<S>(Arc<Mutex<Held<S>>>);

/// The other handle of a stream: it writes what waits.
pub(crate) struct WriteOutlet<S>(Arc<Mutex<Held<S>>>);

struct Held<S> {
    inner: S,
    waiting: Vec<u8>,
    /// How much of `waiting` has been written.
    written: usize,
    /// Whether written bytes may still be in a buffer of `inner`, such as that of a TLS session.
    is_unflushed: bool,
}

pub(crate) fn held<S>(inner: S) -> (HeldWrites<S>, WriteOutlet<S>) {
    let shared = Arc::new(Mutex::new(Held { inner, waiting: Vec::new(), written: 0, is_unflushed: false }));
    (HeldWrites(shared.clone()), WriteOutlet(shared))
}

impl<S: AsyncWrite + Unpin> Held<S> {
    /// Writes what waits. A silent connection keeps no buffer.
    fn poll_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.waiting.len() {
            self.is_unflushed = true;
            let count = ready!(Pin::new(&mut self.inner).poll_write(cx, &self.waiting[self.written..]))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written += count;
        }
        (self.waiting, self.written) = (Vec::new(), 0);
        if self.is_unflushed {
            ready!(Pin::new(&mut self.inner).poll_flush(cx))?;
            self.is_unflushed = false;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> WriteOutlet<S> {
    pub(crate) fn poll_out(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.lock().poll_out(cx)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for HeldWrites<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.lock().inner).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for HeldWrites<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[io::IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut held = self.0.lock();
        let held = &mut *held;
        let size: usize = bufs.iter().map(|buf| buf.len()).sum();
        if held.waiting.len() + size > HELD && !held.waiting.is_empty() {
            ready!(held.poll_out(cx))?;
        }
        if size > HELD {
            held.is_unflushed = true;
            return Pin::new(&mut held.inner).poll_write_vectored(cx, bufs);
        }
        bufs.iter().for_each(|buf| held.waiting.extend_from_slice(buf));
        Poll::Ready(Ok(size))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Nothing: [`WriteOutlet::poll_out`] follows.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut held = self.0.lock();
        ready!(held.poll_out(cx))?;
        Pin::new(&mut held.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    #[tokio::test]
    async fn writes_wait_for_the_outlet_and_leave_together() {
        let (server, mut client) = duplex(1 << 20);
        let (mut stream, outlet) = held(server);
        for piece in ["head", "body", "trailers"] {
            stream.write_all(piece.as_bytes()).await.unwrap();
            stream.flush().await.unwrap();
        }
        let mut read = [0; 64];
        assert!(futures_util::poll!(std::pin::pin!(client.read(&mut read))).is_pending());
        poll_fn(|cx| outlet.poll_out(cx)).await.unwrap();
        let count = client.read(&mut read).await.unwrap();
        assert_eq!(&read[..count], b"headbodytrailers");
        // An idle connection holds no memory.
        assert_eq!(stream.0.lock().waiting.capacity(), 0);
    }

    #[tokio::test]
    async fn a_reader_that_stops_is_noticed_and_misses_nothing() {
        let (server, mut client) = duplex(1 << 10);
        let (mut stream, outlet) = held(server);
        let mut sent = Vec::new();
        let mut next = 0_u8;
        loop {
            // Sizes on both sides of what is held.
            let size = if next.is_multiple_of(5) { HELD + 1 } else { 10_000 };
            let piece = vec![next; size];
            let mut write = std::pin::pin!(stream.write(&piece));
            let Poll::Ready(count) = futures_util::poll!(&mut write) else { break };
            sent.extend_from_slice(&piece[..count.unwrap()]);
            next += 1;
        }
        assert!(stream.0.lock().waiting.len() <= HELD);
        let reading = async {
            let mut read = vec![0; sent.len()];
            client.read_exact(&mut read).await.unwrap();
            read
        };
        let (read, written) = tokio::join!(reading, poll_fn(|cx| outlet.poll_out(cx)));
        written.unwrap();
        assert!(read == sent, "{} bytes", sent.len());
    }

    /// Takes every write into a buffer of its own, which a flush empties at the second try, as a TLS session does while the
    /// socket is full.
    #[derive(Default)]
    struct Session {
        buffered: Vec<u8>,
        sent: Vec<u8>,
        tries: usize,
    }

    impl AsyncWrite for Session {
        fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
            self.buffered.extend_from_slice(buf);
            Poll::Ready(Ok(buf.len()))
        }

        fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.tries += 1;
            if !self.tries.is_multiple_of(2) {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let buffered = std::mem::take(&mut self.buffered);
            self.sent.extend(buffered);
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn a_flush_that_has_to_wait_is_tried_again() {
        for size in [10, HELD + 1] {
            let (mut stream, outlet) = held(Session::default());
            stream.write_all(&vec![b'x'; size]).await.unwrap();
            assert!(futures_util::poll!(std::pin::pin!(poll_fn(|cx| outlet.poll_out(cx)))).is_pending());
            poll_fn(|cx| outlet.poll_out(cx)).await.unwrap();
            assert_eq!(stream.0.lock().inner.sent.len(), size);
        }
    }

    #[tokio::test]
    async fn a_shutdown_writes_the_rest_first() {
        let (server, mut client) = duplex(16);
        let (mut stream, _outlet) = held(server);
        stream.write_all(&[b'x'; 1_000]).await.unwrap();
        let mut read = String::new();
        let (closed, count) = tokio::join!(stream.shutdown(), client.read_to_string(&mut read));
        closed.unwrap();
        assert_eq!(count.unwrap(), 1_000);
    }

    #[tokio::test]
    async fn a_broken_connection_is_an_error() {
        let (server, client) = duplex(16);
        let (mut stream, outlet) = held(server);
        stream.write_all(b"for nobody").await.unwrap();
        drop(client);
        assert!(poll_fn(|cx| outlet.poll_out(cx)).await.is_err());
    }
}
