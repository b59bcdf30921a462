//! Request bodies: their limits of size, time and memory.
//!
//! Up to [`STRANGER_BYTES`] of a body are read for every caller, so that a refusal can name the request's id. The rest
//! is read only for a caller that the headers admit at the address ([`Gate`]), and only while all bodies together fit
//! their budget; otherwise the request is refused at once with 503 and `Retry-After`. Bytes are counted as they arrive,
//! so that an announced length reserves nothing, and until the request is answered. A slow body has `timeouts.body_ms`,
//! and less while the budget is pressed.
//!
//! A small body that has arrived when it is read costs none of this.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt as _;
use http::header::{CONTENT_LENGTH, EXPECT};
use http::{HeaderMap, Version, request};
use http_body::Frame;
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use model::{Fault, Kind, MemoryBudget, MemoryShare};
use tokio::time::{Instant, timeout};

use crate::GatewayVersion;
use crate::fronts::Gate;
use web::request_log::{BodyShare, RequestLog};

/// Bytes that are read for every caller.
pub const STRANGER_BYTES: usize = 16 << 10;
/// Time limit of a large body while the budget is pressed.
const PRESSED: Duration = Duration::from_secs(10);
/// Time between checks of the budget while a body is awaited.
const LOOK: Duration = Duration::from_secs(1);
/// The rest of a refused body is read and dropped before the answer, up to these limits of time and bytes, or until its
/// sender pauses: many clients write everything before they read. [`crate::linger`] handles the remainder.
const DISCARD: Duration = Duration::from_secs(5);
const DISCARD_BYTES: usize = 64 << 20;
const PAUSE: Duration = Duration::from_millis(250);
/// Seconds after which a caller may retry.
const RETRY_AFTER_S: u32 = 2;

/// The memory that bodies in flight share.
#[derive(Clone)]
pub struct Intake {
    /// The first bytes of bodies that are awaited.
    small: Arc<MemoryBudget>,
    /// Everything beyond [`STRANGER_BYTES`] of each.
    large: Arc<MemoryBudget>,
}

impl Intake {
    /// A quarter is for small bodies, so that large ones cannot use up all memory. The largest allowed body always fits
    /// into the rest.
    pub(crate) fn new(bytes: usize, largest: usize) -> Intake {
        let small = (bytes / 4).max(STRANGER_BYTES);
        let large = (bytes - bytes / 4).max(largest);
        Intake { small: MemoryBudget::new(small), large: MemoryBudget::new(large) }
    }

    /// Bytes that bodies may hold together.
    pub(crate) fn most(&self) -> usize {
        self.small.most() + self.large.most()
    }

    /// Bytes that bodies hold now.
    pub(crate) fn held(&self) -> usize {
        self.small.held() + self.large.held()
    }
}

fn grow(share: &mut Option<MemoryShare>, budget: &Arc<MemoryBudget>, bytes: usize) -> Result<(), Fault> {
    if share.get_or_insert_with(|| budget.share()).grow(bytes) {
        return Ok(());
    }
    let message = format!(
        "the server has as many request bodies in memory as it takes; try again in {RETRY_AFTER_S} s, or send less at a time"
    );
    Err(Fault::new(Kind::Unavailable, message).retry_after(RETRY_AFTER_S))
}

/// Counts bytes that a body becomes when it is decompressed.
pub(crate) fn grow_decompressed(server: &GatewayVersion, told: &mut RequestLog, bytes: usize) -> Result<(), Fault> {
    grow(&mut told.held.large, &server.intake.large, bytes)
}

/// Reads a whole body within the limits of size, time and memory. `limit` is that of the address, if it has one.
pub async fn read(
    server: &Arc<GatewayVersion>,
    head: &request::Parts,
    mut body: Incoming,
    limit: Option<usize>,
    gate: Gate<'_>,
    told: &mut RequestLog,
) -> Result<Bytes, Fault> {
    let limit = limit.unwrap_or(server.engine.limits().body_bytes);
    let ahead = match body.frame().now_or_never() {
        Some(Some(Ok(frame))) => match frame.into_data() {
            Ok(data) if data.len() <= STRANGER_BYTES.min(limit) && body.is_end_stream() => {
                told.body_ended = true;
                return Ok(data);
            }
            Ok(data) => Some(Some(Ok(Frame::data(data)))),
            Err(trailers) => Some(Some(Ok(trailers))),
        },
        other => other,
    };
    // Boxed, so that the futures of other requests stay small.
    Box::pin(async move {
        let reading = BodyReader {
            server,
            head,
            body,
            ahead,
            limit,
            announced: announced(&head.headers),
            first: Bytes::new(),
            joined: None,
            held: BodyShare::default(),
            waits_since: None,
        };
        reading.run(gate, told).await
    })
    .await
}

fn announced(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()).and_then(|value| value.parse().ok())
}

/// One poll of a body that was ready: a frame, a fault, or the end.
type Polled = Option<Result<Frame<Bytes>, hyper::Error>>;

struct BodyReader<'a> {
    server: &'a Arc<GatewayVersion>,
    head: &'a request::Parts,
    body: Incoming,
    /// A frame that was read, and is not yet processed.
    ahead: Option<Polled>,
    limit: usize,
    announced: Option<u64>,
    /// The first piece, which is mostly the whole body.
    first: Bytes,
    joined: Option<BytesMut>,
    held: BodyShare,
    /// The time of the first wait.
    waits_since: Option<Instant>,
}

impl BodyReader<'_> {
    async fn run(mut self, gate: Gate<'_>, told: &mut RequestLog) -> Result<Bytes, Fault> {
        match self.gather(gate, told).await {
            Ok(()) => {
                (told.held, told.body_ended) = (self.held, true);
                Ok(self.joined.map_or(self.first, BytesMut::freeze))
            }
            Err(fault) => {
                told.body_ended = self.discard().await;
                Err(fault)
            }
        }
    }

    async fn gather(&mut self, gate: Gate<'_>, told: &mut RequestLog) -> Result<(), Fault> {
        let announced = self.announced.unwrap_or(0);
        if announced > self.limit as u64 {
            return Err(too_large(self.limit));
        }
        let mut let_in = false;
        if announced > STRANGER_BYTES as u64 {
            gate.check(self.server, self.head, told).await?;
            let_in = true;
        }
        while let Some(frame) = self.next().await? {
            let Ok(data) = frame.into_data() else { continue };
            let length = self.len() + data.len();
            if length > self.limit {
                return Err(too_large(self.limit));
            }
            if length > STRANGER_BYTES {
                if !let_in {
                    gate.check(self.server, self.head, told).await?;
                    let_in = true;
                }
                let counted = self.held.large.as_ref().map_or(0, MemoryShare::bytes);
                let more = length - STRANGER_BYTES - counted;
                grow(&mut self.held.large, &self.server.intake.large, more)?;
            }
            self.join(data);
        }
        Ok(())
    }

    fn len(&self) -> usize {
        self.joined.as_ref().map_or(self.first.len(), BytesMut::len)
    }

    fn join(&mut self, data: Bytes) {
        match &mut self.joined {
            Some(joined) => joined.extend_from_slice(&data),
            None if self.first.is_empty() => self.first = data,
            None => {
                // Reserving the announced length is cheap: untouched pages use no memory.
                let announced = self.announced.unwrap_or(0) as usize;
                let mut joined = BytesMut::with_capacity(announced.max(self.first.len() + data.len()));
                joined.extend_from_slice(&self.first);
                joined.extend_from_slice(&data);
                self.first = Bytes::new();
                self.joined = Some(joined);
            }
        }
    }

    /// The next frame. Most have arrived already; only a late one needs a timer and a share of the budget.
    async fn next(&mut self) -> Result<Option<Frame<Bytes>>, Fault> {
        let frame = match self.ahead.take().or_else(|| self.body.frame().now_or_never()) {
            Some(frame) => frame,
            None => self.wait().await?,
        };
        frame.transpose().map_err(|e| Fault::new(Kind::InvalidRequest, "the request's body broke off").because(e))
    }

    async fn wait(&mut self) -> Result<Polled, Fault> {
        let intake = &self.server.intake;
        if self.held.small.is_none() {
            grow(&mut self.held.small, &intake.small, STRANGER_BYTES)?;
        }
        let since = *self.waits_since.get_or_insert_with(Instant::now);
        let patience = Duration::from_millis(self.server.settings.timeouts.body_ms);
        loop {
            let patience =
                if self.held.large.is_some() && intake.large.is_pressed() { patience.min(PRESSED) } else { patience };
            let left = patience.saturating_sub(since.elapsed());
            match timeout(left.min(LOOK), self.body.frame()).await {
                Ok(frame) => return Ok(frame),
                Err(late) if left <= LOOK => {
                    let message = "the request's body did not arrive in time";
                    return Err(Fault::new(Kind::InvalidRequest, message).because(late));
                }
                Err(_) => {}
            }
        }
    }

    /// Reads and drops the rest of a refused body; returns whether it reached the end. Not for HTTP/2, where a stream
    /// ends without its connection, nor for a sender with `Expect`, which has not sent the body yet.
    async fn discard(&mut self) -> bool {
        (self.ahead, self.first, self.joined, self.held) = (None, Bytes::new(), None, BodyShare::default());
        if self.body.is_end_stream() {
            return true;
        }
        if self.head.version >= Version::HTTP_2 || self.head.headers.contains_key(EXPECT) {
            return false;
        }
        let mut left = DISCARD_BYTES;
        let rest = async {
            loop {
                match timeout(PAUSE, self.body.frame()).await {
                    Ok(None) => return true,
                    Ok(Some(Err(_))) | Err(_) => return false,
                    Ok(Some(Ok(frame))) => {
                        let length = frame.data_ref().map_or(0, Bytes::len);
                        if length > left {
                            return false;
                        }
                        left -= length;
                    }
                }
            }
        };
        timeout(DISCARD, rest).await.unwrap_or(false)
    }
}

fn too_large(limit: usize) -> Fault {
    Fault::new(Kind::TooLarge, format!("the request is larger than {limit} bytes"))
}
