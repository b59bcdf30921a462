//! The end of a connection whose last request was answered before its body was read.
//!
//! A socket that is closed with unread or arriving bytes is reset, and after a reset a client that writes its whole
//! request before it reads loses the answer. So the writing side is closed first, and arriving bytes are read and
//! dropped until the client closes its side, pauses, or exceeds the limits. [`crate::intake`] does most of this before
//! the answer; this module handles the rest.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// Longest time that a closed connection is read.
const LINGER: Duration = Duration::from_secs(5);
/// Longest pause of its client.
const PAUSE: Duration = Duration::from_secs(1);
/// Most bytes that are read.
const LINGER_BYTES: usize = 64 << 20;
const BUFFER: usize = 16 << 10;

/// Marks a response to a request whose body was not read to its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyUnread;

/// Whether a connection has answered a request without reading its body.
pub(crate) type UnreadFlag = Arc<AtomicBool>;

/// A connection that lingers at its end if its flag is set.
pub(crate) struct LingeringStream<S> {
    inner: S,
    unread: UnreadFlag,
    linger: Option<Box<Linger>>,
}

struct Linger {
    write_closed: bool,
    left: usize,
    end: Pin<Box<Sleep>>,
    pause: Pin<Box<Sleep>>,
    buffer: [u8; BUFFER],
}

impl<S> LingeringStream<S> {
    pub(crate) fn new(inner: S, unread: UnreadFlag) -> LingeringStream<S> {
        LingeringStream { inner, unread, linger: None }
    }
}

impl Linger {
    fn new() -> Linger {
        Linger {
            write_closed: false,
            left: LINGER_BYTES,
            end: Box::pin(sleep(LINGER)),
            pause: Box::pin(sleep(PAUSE)),
            buffer: [0; BUFFER],
        }
    }

    fn poll<S: AsyncRead + AsyncWrite + Unpin>(&mut self, cx: &mut Context<'_>, inner: &mut S) -> Poll<io::Result<()>> {
        if !self.write_closed {
            ready!(Pin::new(&mut *inner).poll_shutdown(cx))?;
            self.write_closed = true;
        }
        loop {
            if self.end.as_mut().poll(cx).is_ready() || self.pause.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Ok(()));
            }
            let mut space = ReadBuf::new(&mut self.buffer);
            // An error means that the client has closed the connection.
            if ready!(Pin::new(&mut *inner).poll_read(cx, &mut space)).is_err() {
                return Poll::Ready(Ok(()));
            }
            let count = space.filled().len();
            if count == 0 || count >= self.left {
                return Poll::Ready(Ok(()));
            }
            self.left -= count;
            self.pause.as_mut().reset(Instant::now() + PAUSE);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LingeringStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for LingeringStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.unread.load(Ordering::Relaxed) {
            return Pin::new(&mut this.inner).poll_shutdown(cx);
        }
        this.linger.get_or_insert_with(|| Box::new(Linger::new())).poll(cx, &mut this.inner)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    fn pair(unread: bool) -> (LingeringStream<tokio::io::DuplexStream>, tokio::io::DuplexStream) {
        let (server, client) = duplex(8 << 10);
        (LingeringStream::new(server, Arc::new(AtomicBool::new(unread))), client)
    }

    /// Closes the server's side while the client writes, and returns the number of bytes that were read.
    async fn written(unread: bool, pieces: usize) -> usize {
        let (mut server, mut client) = pair(unread);
        let closing = async move {
            server.write_all(b"answer").await.unwrap();
            server.shutdown().await.unwrap();
        };
        let writing = async move {
            let mut count = 0;
            while count < pieces && client.write_all(&[b' '; 8 << 10]).await.is_ok() {
                count += 1;
            }
            client.shutdown().await.unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.unwrap();
            assert_eq!(answer, "answer");
            count
        };
        tokio::join!(closing, writing).1
    }

    #[tokio::test]
    async fn what_a_client_still_writes_is_taken_before_the_end() {
        assert_eq!(written(true, 100).await, 100);
        assert!(written(false, 100).await < 3);
    }

    #[tokio::test]
    async fn so_many_bytes_are_taken_and_no_more() {
        let most = LINGER_BYTES / (8 << 10);
        assert!((most - 1..=most + 2).contains(&written(true, 2 * most).await));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_says_nothing_more_and_one_that_never_ends_are_left() {
        let (mut server, client) = pair(true);
        let began = Instant::now();
        server.shutdown().await.unwrap();
        assert_eq!(began.elapsed().as_secs(), PAUSE.as_secs());
        drop(client);

        let (mut server, mut client) = pair(true);
        let began = Instant::now();
        let closing = async { server.shutdown().await.map(|()| drop(server)) };
        let dripping = async {
            while client.write_all(b" ").await.is_ok() {
                tokio::time::sleep(PAUSE / 2).await;
            }
        };
        let (closed, ()) = tokio::join!(closing, dripping);
        closed.unwrap();
        assert_eq!(began.elapsed().as_secs(), LINGER.as_secs());
    }
}
