//! The accept loop, and the timeouts of connections.
//!
//! `axum::serve` and hyper's own protocol sniffing wait without limit on a silent or half-sent connection; here every
//! wait has a limit. Nagle's algorithm is off (it delays every small SSE frame by 40 ms), the backlog is large (128
//! loses connects under load). Buffers and windows bound the bytes that a connection holds in either direction;
//! [`crate::connections`] bounds the number of connections.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use hyper::server::conn::{http1, http2};
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::connections::{ConnectionSlot, Connections, RESERVE_LASTS};
use crate::held_writes::held;
use crate::linger::{BodyUnread, LingeringStream, UnreadFlag};
use crate::service::{self, Coverage};
use crate::tls::{self, ReloadingTls};
use crate::{CurrentGateway, GatewayVersion};

/// HTTP/1 reads at most so much of a body ahead, and buffers at most so much of an answer.
const BUFFER: usize = 64 << 10;
/// The same for HTTP/2: of one stream, and of all streams of a connection.
const STREAM_WINDOW: u32 = 128 << 10;
const CONNECTION_WINDOW: u32 = 512 << 10;
const STREAMS: u32 = 256;
/// Silence before the first probe of TCP, and between probes.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// The cause of a connection's end.
type BoxError = Box<dyn std::error::Error + Send + Sync>;

const HTTP2_PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Binds the listening socket.
pub fn bind(address: SocketAddr, backlog: i32) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(backlog)?;
    TcpListener::from_std(socket.into())
}

/// Serves until `shutdown`, then lets connections finish their requests.
pub struct Accept {
    pub serving: Arc<CurrentGateway>,
    /// Ends the loop: no more connections, no more requests.
    pub shutdown: CancellationToken,
    pub connections: TaskTracker,
}

impl Accept {
    pub fn new(server: Arc<GatewayVersion>) -> Accept {
        Accept {
            serving: CurrentGateway::new(server),
            shutdown: CancellationToken::new(),
            connections: TaskTracker::new(),
        }
    }

    pub async fn run(&self, listener: TcpListener) {
        let connections = Connections::new(&self.serving.now().settings);
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = self.shutdown.cancelled() => return,
            };
            match accepted {
                Ok((stream, peer)) => {
                    let counted = connections.count(peer.ip(), &self.serving.now().settings);
                    let (serving, shutdown) = (self.serving.clone(), self.shutdown.clone());
                    self.connections.spawn(async move {
                        match &counted {
                            ConnectionSlot::Served { .. } => {
                                serve(serving, stream, peer, Coverage::Everything, shutdown).await;
                            }
                            ConnectionSlot::Spare(spare) => {
                                let served = serve(serving, stream, peer, Coverage::HealthOnly, shutdown);
                                // A connection that was answered has ended by then.
                                tokio::select! {
                                    _ = tokio::time::timeout(RESERVE_LASTS, served) => {}
                                    () = spare.replaced.cancelled() => {}
                                }
                            }
                        }
                        drop(counted);
                    });
                }
                // No file descriptor is left, or the caller has closed the connection: neither ends the server.
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        }
    }
}

/// The byte stream of a connection, plain or under TLS.
trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> ByteStream for T {}

async fn serve(
    serving: Arc<CurrentGateway>,
    stream: TcpStream,
    peer: SocketAddr,
    coverage: Coverage,
    shutdown: CancellationToken,
) {
    let (timeouts, tls) = {
        let server = serving.now();
        (server.settings.timeouts.clone(), server.tls.clone())
    };
    let _ = stream.set_nodelay(true);
    let socket = socket2::SockRef::from(&stream);
    let _ = socket.set_tcp_user_timeout(Some(Duration::from_millis(u64::from(timeouts.write_ms))));
    // Notices a client that has vanished while a stream without heartbeats is silent.
    let _ = socket.set_tcp_keepalive(&socket2::TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE));
    let header = Duration::from_millis(timeouts.header_ms);
    let Some(tls) = &tls else {
        let first = tokio::select! {
            first = tokio::time::timeout(header, is_http2(&stream)) => first,
            () = shutdown.cancelled() => return,
        };
        let Ok(Ok(http2)) = first else { return };
        return converse(serving, stream, http2, header, ServedPeer { address: peer, coverage }, shutdown).await;
    };
    let begun = tokio::select! {
        begun = tokio::time::timeout(header, Box::pin(shake_hands(tls, stream))) => begun,
        () = shutdown.cancelled() => return,
    };
    match begun {
        Ok(Ok((stream, false))) => {
            converse(serving, stream, false, header, ServedPeer { address: peer, coverage }, shutdown).await;
        }
        Ok(Ok((stream, true))) => {
            // The preface has been read; its bytes are always the same.
            let (reading, writing) = tokio::io::split(stream);
            let whole = tokio::io::join(HTTP2_PREFACE.as_slice().chain(reading), writing);
            converse(serving, whole, true, header, ServedPeer { address: peer, coverage }, shutdown).await;
        }
        Ok(Err(error)) => tracing::debug!(%error, %peer, "a TLS handshake failed"),
        Err(_) => tracing::debug!(%peer, "a TLS handshake took too long"),
    }
}

/// The TLS handshake, with the preface of HTTP/2: no later timeout would cover the wait for it.
async fn shake_hands(tls: &ReloadingTls, stream: TcpStream) -> io::Result<(TlsStream<TcpStream>, bool)> {
    let mut stream = tls.acceptor.accept(stream).await?;
    let http2 = stream.get_ref().1.alpn_protocol() == Some(tls::H2);
    if http2 {
        let mut start = [0; HTTP2_PREFACE.len()];
        stream.read_exact(&mut start).await?;
        if start != *HTTP2_PREFACE {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not HTTP/2, though it was agreed on"));
        }
    }
    Ok((stream, http2))
}

/// The other end of a connection, and the requests that the connection is served.
#[derive(Clone, Copy)]
struct ServedPeer {
    address: SocketAddr,
    coverage: Coverage,
}

async fn converse(
    serving: Arc<CurrentGateway>,
    stream: impl ByteStream,
    http2: bool,
    header: Duration,
    peer: ServedPeer,
    shutdown: CancellationToken,
) {
    let ServedPeer { address: peer, coverage } = peer;
    let unread = UnreadFlag::default();
    let stream = LingeringStream::new(stream, unread.clone());
    let handle = service_fn(move |request| {
        let (answered, unread) = (service::respond(serving.now(), request, peer, coverage), unread.clone());
        async move {
            let response = answered.await?;
            if response.extensions().get::<BodyUnread>().is_some() {
                unread.store(true, Ordering::Relaxed);
            }
            Ok::<_, Infallible>(response)
        }
    });
    if http2 {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buf_size(BUFFER)
            .keep_alive_interval(header);
        let unanswered = Arc::new(AtomicUsize::new(0));
        let counted = unanswered.clone();
        // Boxed, because hyper moves the future several times.
        let handle = service_fn(move |request| {
            let (answered, unanswered) = (handle.call(request), Unanswered::one(counted.clone()));
            Box::pin(async move {
                let response = answered.await;
                drop(unanswered);
                response
            })
        });
        let (stream, outlet) = held(stream);
        let connection = builder.serve_connection(TokioIo::new(stream), handle);
        tokio::pin!(connection);
        let mut leaving = std::pin::pin!(shutdown.cancelled());
        let (mut is_leaving, mut has_yielded) = (false, false);
        let ended = poll_fn(|cx| {
            if !is_leaving && leaving.as_mut().poll(cx).is_ready() {
                is_leaving = true;
                connection.as_mut().graceful_shutdown();
            }
            // While requests wait for their answers, the connection's turn comes after the tasks that can run now: the
            // answers that one commit makes possible are then written by one system call, instead of one call for each.
            if unanswered.load(Ordering::Relaxed) > 0 && !has_yielded {
                has_yielded = true;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            has_yielded = false;
            let polled = connection.as_mut().poll(cx);
            match outlet.poll_out(cx) {
                Poll::Ready(Err(error)) => Poll::Ready(Err(error.into())),
                // A connection that ends has written everything, or can write no more.
                Poll::Ready(Ok(())) | Poll::Pending => polled.map_err(BoxError::from),
            }
        })
        .await;
        note(ended, peer);
    } else {
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(header).max_buf_size(BUFFER);
        let connection = builder.serve_connection(TokioIo::new(stream), handle);
        tokio::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = shutdown.cancelled() => { connection.as_mut().graceful_shutdown(); connection.await }
        };
        note(ended.map_err(BoxError::from), peer);
    }
}

/// Counts a request of a connection until it is answered.
struct Unanswered(Arc<AtomicUsize>);

impl Unanswered {
    fn one(of: Arc<AtomicUsize>) -> Unanswered {
        of.fetch_add(1, Ordering::Relaxed);
        Unanswered(of)
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn note(ended: Result<(), BoxError>, peer: SocketAddr) {
    if let Err(error) = ended {
        tracing::debug!(%error, %peer, "a connection broke");
    }
}

/// Peeks at the first bytes without consuming them. Waits for more only while they match the preface of HTTP/2.
async fn is_http2(stream: &TcpStream) -> io::Result<bool> {
    let mut start = [0; HTTP2_PREFACE.len()];
    loop {
        let n = stream.peek(&mut start).await?;
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if start[..n] != HTTP2_PREFACE[..n] {
            return Ok(false);
        }
        if n == HTTP2_PREFACE.len() {
            return Ok(true);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
