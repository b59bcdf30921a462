//! Event streams as response bodies: the one loop that waits for events, sends heartbeats, bounds a piece and holds the
//! stream's permits. An [`EventSource`] supplies the events and writes them.

use std::borrow::Borrow;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};
use http_body::Frame;
use model::{Fault, MemoryBudget};
use prometheus_client::metrics::gauge::Gauge;

use crate::body::{Response, ResponseBody, counted};
use crate::concurrency::ConcurrencyPermit;

/// A piece of a stream grows no further than this before it is sent.
const PIECE: usize = 32 << 10;

/// Events of one stream.
pub trait EventSource: Send + 'static {
    type Item: Send;

    /// An item that needs no waiting; the inner `None` is the end. Everything that is ready goes out in one piece.
    fn ready(&mut self) -> Option<Option<Self::Item>> {
        None
    }

    /// Waits for the next item; `None` is the end. The future is dropped when a heartbeat is due, and no item may be lost
    /// then.
    fn next(&mut self) -> impl Future<Output = Option<Self::Item>> + Send;

    /// Writes the frames of an item, or those of the end. An error closes the connection.
    fn write(&mut self, piece: &mut Vec<u8>, item: Option<Self::Item>)
    -> impl Future<Output = io::Result<Flow>> + Send;

    /// The trailers of the response, after its last piece.
    fn trailers(&mut self) -> Option<HeaderMap> {
        None
    }

    /// Writes the last frame of a stream whose next piece does not fit into memory.
    fn write_no_room(&mut self, _piece: &mut Vec<u8>, fault: &Fault) -> io::Result<()> {
        tracing::warn!("a stream broke off: {fault}");
        Err(io::Error::other(fault.message.clone()))
    }
}

/// Whether a stream goes on after an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    Continues,
    Ends,
}

/// Counts something in a gauge for as long as it lives.
pub struct GaugeGuard<G: Borrow<Gauge>>(G);

impl<G: Borrow<Gauge>> GaugeGuard<G> {
    pub fn new(gauge: G) -> GaugeGuard<G> {
        gauge.borrow().inc();
        GaugeGuard(gauge)
    }
}

impl<G: Borrow<Gauge>> Drop for GaugeGuard<G> {
    fn drop(&mut self) {
        self.0.borrow().dec();
    }
}

/// A stream that is served, with everything it holds until its client has gone.
pub struct EventStream<S> {
    source: S,
    /// A frame that is sent after a silence of this length.
    heartbeat: Option<(Duration, &'static [u8])>,
    answers: Option<Arc<MemoryBudget>>,
    is_over: bool,
    _open: GaugeGuard<Gauge>,
    _permits: [Option<ConcurrencyPermit>; 2],
}

impl<S: EventSource> EventStream<S> {
    /// `open` counts the streams that are open.
    pub fn new(source: S, open: Gauge) -> EventStream<S> {
        let _open = GaugeGuard::new(open);
        EventStream { source, heartbeat: None, answers: None, is_over: false, _open, _permits: [None, None] }
    }

    /// Sends a heartbeat after a silence of this length. Without one, a wait for the source has no limit.
    pub fn heartbeat(self, every: Duration, frame: &'static [u8]) -> EventStream<S> {
        EventStream { heartbeat: Some((every, frame)), ..self }
    }

    /// Large pieces count against the memory for answers.
    pub fn counted(self, answers: Arc<MemoryBudget>) -> EventStream<S> {
        EventStream { answers: Some(answers), ..self }
    }

    /// Permits that are given back when the stream ends.
    pub fn permits(self, permits: [Option<ConcurrencyPermit>; 2]) -> EventStream<S> {
        EventStream { _permits: permits, ..self }
    }

    /// The response with the stream as its body.
    pub fn respond(self) -> Response {
        as_events(Response::new(self.into_body()))
    }

    /// The stream as a body, for a response that is no event stream of HTTP.
    pub fn into_body(self) -> ResponseBody {
        ResponseBody::frames(futures_util::stream::unfold(self, |mut stream| async move {
            let frame = match stream.next_piece().await {
                Some(piece) => piece.map(Frame::data),
                None => Ok(Frame::trailers(stream.source.trailers()?)),
            };
            Some((frame, stream))
        }))
    }

    /// Waits for an item and takes all that are ready; a heartbeat if none comes.
    async fn next_piece(&mut self) -> Option<io::Result<Bytes>> {
        let mut piece = Vec::new();
        while piece.is_empty() {
            if self.is_over {
                return None;
            }
            let mut next = match (self.source.ready(), self.heartbeat) {
                (Some(ready), _) => Some(ready),
                (None, None) => Some(self.source.next().await),
                (None, Some((every, frame))) => match tokio::time::timeout(every, self.source.next()).await {
                    Ok(next) => Some(next),
                    Err(_) => return Some(Ok(Bytes::from_static(frame))),
                },
            };
            piece.reserve(1_024);
            while let Some(item) = next {
                self.is_over = item.is_none();
                match self.source.write(&mut piece, item).await {
                    Ok(Flow::Continues) => {}
                    Ok(Flow::Ends) => self.is_over = true,
                    Err(error) => {
                        self.is_over = true;
                        return Some(Err(error));
                    }
                }
                if self.is_over || piece.len() > PIECE {
                    break;
                }
                next = self.source.ready();
            }
        }
        let Some(answers) = &self.answers else { return Some(Ok(piece.into())) };
        match counted(answers, piece.into()) {
            Ok(piece) => Some(Ok(piece)),
            Err(fault) => {
                self.is_over = true;
                let mut last = Vec::new();
                Some(self.source.write_no_room(&mut last, &fault).map(|()| last.into()))
            }
        }
    }
}

/// Headers of an event stream.
pub fn as_events(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-store"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use http_body_util::BodyExt as _;

    use super::*;
    use crate::concurrency::ConcurrencyLimit;

    /// Items that are ready at once; afterwards the stream is silent, unless it ends.
    struct Given {
        items: VecDeque<Vec<u8>>,
        ends: bool,
    }

    impl EventSource for Given {
        type Item = Vec<u8>;

        fn ready(&mut self) -> Option<Option<Vec<u8>>> {
            self.items.pop_front().map(Some)
        }

        async fn next(&mut self) -> Option<Vec<u8>> {
            if self.ends { None } else { std::future::pending().await }
        }

        async fn write(&mut self, piece: &mut Vec<u8>, item: Option<Vec<u8>>) -> io::Result<Flow> {
            match item {
                Some(item) if item == b"last" => {
                    piece.extend_from_slice(&item);
                    Ok(Flow::Ends)
                }
                Some(item) if item == b"broken" => Err(io::Error::other("broken")),
                Some(item) => {
                    piece.extend_from_slice(&item);
                    Ok(Flow::Continues)
                }
                None => {
                    piece.extend_from_slice(b"end");
                    Ok(Flow::Ends)
                }
            }
        }
    }

    fn stream(items: &[&[u8]], ends: bool) -> EventStream<Given> {
        let items = items.iter().map(|item| item.to_vec()).collect();
        EventStream::new(Given { items, ends }, Gauge::default())
    }

    async fn pieces(stream: EventStream<Given>) -> Vec<Result<String, ()>> {
        let mut body = stream.respond().into_body();
        let mut pieces = Vec::new();
        while let Some(frame) = body.frame().await {
            pieces.push(
                frame.map_err(|_| ()).map(|frame| String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap()),
            );
        }
        pieces
    }

    #[tokio::test]
    async fn what_is_ready_goes_out_in_one_piece_up_to_a_bound() {
        assert_eq!(pieces(stream(&[b"a", b"b", b"last", b"never"], false)).await, [Ok("ablast".to_owned())]);
        let large = vec![b'x'; PIECE + 1];
        let sent = pieces(stream(&[&large, b"b"], true)).await;
        assert_eq!(sent.len(), 3, "a large piece goes out before the next item is taken");
        assert_eq!(sent[1..], [Ok("b".to_owned()), Ok("end".to_owned())]);
    }

    #[tokio::test]
    async fn an_error_of_the_source_breaks_the_stream_off() {
        assert_eq!(pieces(stream(&[b"broken", b"never"], true)).await, [Err(())]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_heartbeat_is_sent_while_nothing_comes() {
        let mut body = stream(&[b"a"], false).heartbeat(Duration::from_secs(5), b": ping\n\n").respond().into_body();
        let mut sent = Vec::new();
        for _ in 0..3 {
            sent.push(body.frame().await.unwrap().unwrap().into_data().unwrap());
        }
        assert_eq!(sent, ["a", ": ping\n\n", ": ping\n\n"]);
    }

    #[tokio::test]
    async fn a_piece_without_room_breaks_the_stream_off() {
        let answers = MemoryBudget::new(200 << 10);
        let _taken = crate::body::room(&answers, 190 << 10).unwrap();
        let large = vec![b'x'; 100 << 10];
        assert_eq!(pieces(stream(&[&large, b"b"], true).counted(answers)).await, [Err(())]);
    }

    #[tokio::test]
    async fn permits_and_gauge_are_given_back_when_the_body_is_dropped() {
        let (limit, gauge) = (Arc::<ConcurrencyLimit>::default(), Gauge::default());
        let permit = ConcurrencyLimit::take(&limit, 1, 1);
        let given = Given { items: VecDeque::new(), ends: false };
        let response = EventStream::new(given, gauge.clone()).permits([permit, None]).respond();
        assert_eq!(gauge.get(), 1);
        assert!(ConcurrencyLimit::take(&limit, 1, 1).is_none());
        drop(response);
        assert_eq!(gauge.get(), 0);
        assert!(ConcurrencyLimit::take(&limit, 1, 1).is_some());
    }
}
