//! The pool as a stream: a turn as soon as the worker has capacity, and a notice when one of its turns is
//! cancelled.

use std::sync::Arc;

use futures_util::stream::{self, BoxStream, StreamExt as _};
use model::TurnId;
use model::ports::worker::WorkerNotice;
use tokio::sync::watch;

use super::pool::{Connected, WatchedState, WorkerPool};

struct Follower {
    _connected: Connected,
    pool: Arc<WorkerPool>,
    worker: String,
    slots: usize,
    /// The turns given out on the stream: turn, lease, and whether the cancel was sent.
    held: Vec<(TurnId, String, bool)>,
    news: watch::Receiver<()>,
}

pub(super) fn follow(pool: Arc<WorkerPool>, worker: &str, slots: usize) -> BoxStream<'static, WorkerNotice> {
    let news = pool.news();
    let follower =
        Follower { _connected: pool.connect(worker), pool, worker: worker.to_owned(), slots, held: Vec::new(), news };
    stream::unfold(follower, |mut follower| async move {
        let notice = follower.next().await?;
        Some((notice, follower))
    })
    .boxed()
}

impl Follower {
    async fn next(&mut self) -> Option<WorkerNotice> {
        loop {
            self.news.mark_unchanged();
            let pool = &self.pool;
            self.held.retain(|(turn, lease, _)| pool.standing(*turn, lease) != WatchedState::Gone);
            for (turn, lease, told) in &mut self.held {
                if !*told && pool.standing(*turn, lease) == WatchedState::Cancelled {
                    *told = true;
                    return Some(WorkerNotice::Cancelled(*turn));
                }
            }
            if self.held.len() < self.slots
                && let Some(leased) = pool.lease(&self.worker)
            {
                self.held.push((leased.turn, leased.lease.clone(), false));
                return Some(WorkerNotice::Turn(leased));
            }
            self.news.changed().await.ok()?;
        }
    }
}
