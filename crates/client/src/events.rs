//! A stream of events from the server: server-sent events, messages of gRPC, or the single answer of a server that does
//! not stream.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use dialects::framing::sse::{FrameTooLong, Parser, SseFrame};
use dialects::peer::Peer;
use dialects::seen::Seen;
use dialects::wire::Operation;
use model::Kind;
use reqwest::Response;

use crate::discover::RemoteInterface;
use crate::error::{Error, FailureStage};
use crate::grpc::RpcEvents;
use crate::http;

/// One received event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerEvent {
    /// The event's id in the stream, if the server sets ids; a stream can be resumed after it.
    pub id: Option<String>,
    pub seen: Seen,
}

/// A stream of events. Dropping it closes the connection, which does not stop the task.
pub struct Events {
    source: Source,
    last_id: Option<String>,
}

enum Source {
    Open(Box<Open>),
    Rpc(Box<RpcEvents>),
    /// The single answer of a server that does not stream.
    Once(Box<Seen>),
    /// An event that was read ahead, and the rest of the stream.
    Peeked(Box<(PeerEvent, Source)>),
    Over,
}

struct Open {
    response: Response,
    parser: Parser,
    frames: VecDeque<SseFrame>,
    peer: &'static dyn Peer,
    operation: Operation,
    target: Arc<RemoteInterface>,
    idle: Duration,
    /// An event exceeds the limit; reported after the events before it.
    too_long: Option<FrameTooLong>,
}

impl Events {
    pub(crate) fn open(
        response: Response,
        peer: &'static dyn Peer,
        operation: Operation,
        target: Arc<RemoteInterface>,
        idle: Duration,
        event_bytes: usize,
    ) -> Events {
        let parser = Parser::new(event_bytes);
        let open = Open { response, parser, frames: VecDeque::new(), peer, operation, target, idle, too_long: None };
        Events { source: Source::Open(Box::new(open)), last_id: None }
    }

    pub(crate) fn rpc(events: RpcEvents) -> Events {
        Events { source: Source::Rpc(Box::new(events)), last_id: None }
    }

    pub(crate) fn once(seen: Seen) -> Events {
        Events { source: Source::Once(Box::new(seen)), last_id: None }
    }

    /// The next event. After an error or the end there are no more; only the task's state tells whether the task is
    /// over.
    pub async fn next(&mut self) -> Option<Result<PeerEvent, Error>> {
        let heard = match &mut self.source {
            Source::Open(open) => open.next().await,
            Source::Rpc(events) => match events.next().await {
                None => {
                    self.last_id = events.last_id().or(self.last_id.take());
                    None
                }
                heard => heard,
            },
            Source::Once(_) | Source::Peeked(_) | Source::Over => {
                let (first, rest) = match std::mem::replace(&mut self.source, Source::Over) {
                    Source::Once(seen) => (PeerEvent { id: None, seen: *seen }, Source::Over),
                    Source::Peeked(peeked) => *peeked,
                    Source::Open(_) | Source::Rpc(_) | Source::Over => return None,
                };
                self.source = rest;
                return Some(Ok(first));
            }
        };
        match heard {
            Some(Ok(heard)) => {
                if heard.id.is_some() {
                    self.last_id.clone_from(&heard.id);
                }
                Some(Ok(heard))
            }
            ended => {
                self.source = Source::Over;
                ended
            }
        }
    }

    /// The id of the last event that had one.
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }
}

impl Open {
    async fn next(&mut self) -> Option<Result<PeerEvent, Error>> {
        loop {
            if let Some(frame) = self.frames.pop_front() {
                // Some servers send empty frames to keep a stream alive.
                if frame.data.trim_ascii().is_empty() {
                    continue;
                }
                return Some(self.read(&frame));
            }
            match self.more().await {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// Reads the next piece of the stream; `false` at its end.
    async fn more(&mut self) -> Result<bool, Error> {
        if let Some(too_long) = self.too_long {
            return Err(Error::new(FailureStage::Unreadable, Kind::InvalidAgentResponse, too_long.to_string()));
        }
        let Some(piece) = http::piece(&mut self.response, self.idle).await? else { return Ok(false) };
        let mut frames = Vec::new();
        self.too_long = self.parser.push(&piece, &mut frames).err();
        self.frames.extend(frames);
        Ok(true)
    }

    fn read(&self, frame: &SseFrame) -> Result<PeerEvent, Error> {
        let value = self.peer.frame(frame.event.as_deref(), &frame.data, self.operation).map_err(Error::refused)?;
        let seen = self.peer.read_event(value).map_err(|fault| Error::unreadable(&fault))?;
        self.target.understood();
        Ok(PeerEvent { id: frame.id.clone().filter(|id| !id.is_empty()), seen })
    }

    /// The first value of the stream, for an answer that came as a stream.
    pub(crate) async fn first_value(&mut self) -> Result<String, Error> {
        loop {
            if let Some(frame) = self.frames.pop_front() {
                let value = self.peer.frame(frame.event.as_deref(), &frame.data, self.operation);
                return value.map(str::to_owned).map_err(Error::refused);
            }
            if !self.more().await? {
                let message = "the answer is a stream without events";
                return Err(Error::new(FailureStage::Unreadable, Kind::InvalidAgentResponse, message));
            }
        }
    }
}

impl Events {
    pub(crate) async fn first_value(self) -> Result<String, Error> {
        match self.source {
            Source::Open(mut open) => open.first_value().await,
            Source::Rpc(_) | Source::Once(_) | Source::Peeked(_) | Source::Over => {
                Err(Error::new(FailureStage::Unreadable, Kind::InvalidAgentResponse, "the answer is empty"))
            }
        }
    }
}

impl Events {
    /// The stream with an event put back at its front.
    pub(crate) fn after(self, first: PeerEvent) -> Events {
        let last_id = self.last_id.clone();
        Events { source: Source::Peeked(Box::new((first, self.source))), last_id }
    }
}
