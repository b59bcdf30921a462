//! Streams.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dialects::framing::json::Writer;
use dialects::orloj::encode;
use engine::States;
use model::Task;
use prometheus_client::metrics::gauge::Gauge;
use sha2::{Digest, Sha256};

use super::super::{Counted, load_all};
use super::{PLAIN, address};
use crate::Server;
use crate::links::Terms;
use crate::settings::OrlojSystem;
use web::body::counted;
use web::concurrency::ConcurrencyPermit;

/// A stream as it is served: the whole task at every change of its status, until it has ended.
pub(super) struct Feed {
    pub(super) first: Option<Arc<Task>>,
    pub(super) states: States,
    pub(super) server: Arc<Server>,
    pub(super) system: OrlojSystem,
    /// How large files are shown.
    pub(super) terms: Terms,
    /// The hash of what was said last: the same is not said twice.
    pub(super) last: Option<[u8; 32]>,
    pub(super) heartbeat: Duration,
    pub(super) over: bool,
    pub(super) _open: Counted<Gauge>,
    pub(super) _seats: (Option<ConcurrencyPermit>, Option<ConcurrencyPermit>),
}

impl Feed {
    pub(super) async fn next_piece(&mut self) -> Option<std::io::Result<Bytes>> {
        loop {
            if self.over {
                return None;
            }
            let next = match self.first.take() {
                Some(first) => Ok(Some(first)),
                None => tokio::time::timeout(self.heartbeat, self.states.next()).await,
            };
            match next {
                Err(_) => return Some(Ok(Bytes::from_static(encode::HEARTBEAT))),
                Ok(None) => return None,
                Ok(Some(task)) => {
                    self.over = task.core.is_settled();
                    let mut w = Writer::with_capacity(1_024);
                    encode::task(&mut w, &task, &address(&self.system), &PLAIN);
                    let shown = match load_all(&self.server, &self.terms, w.finish()).await {
                        Ok(shown) => shown,
                        Err(fault) => {
                            tracing::error!(cause = %fault.cause_text(), "a stream broke off: {fault}");
                            return Some(Err(std::io::Error::other(fault.message)));
                        }
                    };
                    let hash: [u8; 32] = Sha256::digest(&shown).into();
                    if self.last.replace(hash) == Some(hash) {
                        continue;
                    }
                    let mut piece = Vec::with_capacity(shown.len() + 32);
                    encode::begin_frame(&mut piece);
                    piece.extend_from_slice(&shown);
                    encode::end_frame(&mut piece);
                    return Some(counted(&self.server.answers, piece.into()).map_err(|fault| {
                        tracing::warn!("a stream broke off: {fault}");
                        std::io::Error::other(fault.message)
                    }));
                }
            }
        }
    }
}
