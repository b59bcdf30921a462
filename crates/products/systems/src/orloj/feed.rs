//! Streams of tasks.

use std::io;
use std::sync::Arc;

use crate::orloj::encode;
use dialects::framing::json::Writer;
use engine::States;
use model::Task;
use sha2::{Digest, Sha256};

use super::endpoint::{PLAIN, address};
use crate::ExposedSystem;
use gateway::GatewayVersion;
use gateway::fronts::load_all;
use gateway::links::LinkOptions;
use web::sse::{EventSource, Flow};

/// The events of a stream: the whole task at each change of its status, until it has ended.
pub(crate) struct TaskFeed {
    pub(crate) first: Option<Arc<Task>>,
    pub(crate) states: States,
    pub(crate) server: Arc<GatewayVersion>,
    pub(crate) system: ExposedSystem,
    /// The form of large files.
    pub(crate) terms: LinkOptions,
    /// The hash of the last frame, so that an equal one is not sent.
    pub(crate) last: Option<[u8; 32]>,
}

impl EventSource for TaskFeed {
    type Item = Arc<Task>;

    fn ready(&mut self) -> Option<Option<Arc<Task>>> {
        self.first.take().map(Some)
    }

    async fn next(&mut self) -> Option<Arc<Task>> {
        self.states.next().await
    }

    async fn write(&mut self, piece: &mut Vec<u8>, task: Option<Arc<Task>>) -> io::Result<Flow> {
        let Some(task) = task else { return Ok(Flow::Ends) };
        let flow = if task.core.is_settled() { Flow::Ends } else { Flow::Continues };
        let mut w = Writer::with_capacity(1_024);
        encode::task(&mut w, &task, &address(&self.system), &PLAIN);
        let shown = load_all(&self.server, &self.terms, w.finish()).await.map_err(|fault| {
            tracing::error!(cause = %fault.cause_text(), "a stream broke off: {fault}");
            io::Error::other(fault.message)
        })?;
        let hash: [u8; 32] = Sha256::digest(&shown).into();
        if self.last.replace(hash) != Some(hash) {
            piece.reserve(shown.len() + 32);
            encode::begin_frame(piece);
            piece.extend_from_slice(&shown);
            encode::end_frame(piece);
        }
        Ok(flow)
    }
}
