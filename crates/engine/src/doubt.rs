//! Commits with unknown outcome.
//!
//! A read that does not find such a commit proves nothing as long as the commit may still happen, so the store is asked
//! first whether it is decided. The dependent work waits for that without limit: a task that was opened after all must
//! be run. The caller does not wait: once the store's answer bound has passed, it gets a fault that the outcome is not
//! known yet. A repeat with the same idempotency key is answered correctly before and after.

use std::cell::Cell;
use std::fmt::Display;

use futures_util::FutureExt;
use model::ports::Future;
use model::ports::store::StoreError;
use model::{Fault, Kind};
use tokio::sync::oneshot;

use crate::Shared;
use crate::backoff::Backoff;

tokio::task_local! {
    /// The caller that waits for this work, until it is answered.
    static CALLER: Cell<Option<oneshot::Sender<()>>>;
}

/// Answers the caller that the outcome is not known yet.
fn tell_caller() {
    // Work without a caller only waits.
    let caller = CALLER.try_with(Cell::take).ok().flatten();
    if let Some(caller) = caller {
        let _ = caller.send(());
    }
}

/// For the log: the cause of the caller's fault.
#[derive(Debug)]
struct InDoubt;

impl Display for InDoubt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the outcome of a commit was not known in time")
    }
}

impl std::error::Error for InDoubt {}

fn unknown() -> Fault {
    let words = "the server lost its database while it wrote, and does not know yet whether the request was carried out; \
                 send it again with the same Idempotency-Key, or without one look for its result first";
    Fault::new(Kind::Unavailable, words).retry_after(1).because(InDoubt)
}

/// Whether the fault says that the outcome is not known yet; then a read proves nothing about it.
pub(crate) fn is_unknown(fault: &Fault) -> bool {
    fault.cause.as_ref().is_some_and(|cause| cause.is::<InDoubt>())
}

/// Reads whether a commit happened, once that is decided and the store can be read.
pub(crate) async fn read_back<'a, T>(
    shared: &'a Shared,
    what: impl Display,
    read: impl Fn() -> Future<'a, Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let bounded = shared.store.answers_within().is_some();
    let mut backoff = Backoff::new();
    loop {
        let mut decided = shared.store.decided();
        let decided = match (&mut decided).now_or_never() {
            Some(decided) => decided,
            None => {
                tell_caller();
                decided.await
            }
        };
        let unread = match decided {
            Ok(()) => match read().await {
                Ok(found) => return Ok(found),
                Err(unread) => unread,
            },
            Err(undecided) => undecided,
        };
        if bounded {
            tell_caller();
        }
        backoff.pause(shared, &what, unread).await?;
    }
}

impl Shared {
    /// Runs `work` to its end even if the caller goes away: a closed connection must not leave a commit without its
    /// follow-up. The work is spawned at once, so that it takes no space in the waiting future.
    pub(crate) fn detached<T: Send + 'static>(
        work: impl std::future::Future<Output = Result<T, Fault>> + Send + 'static,
    ) -> impl std::future::Future<Output = Result<T, Fault>> + Send + 'static {
        let (caller, doubt) = oneshot::channel();
        let working = tokio::spawn(CALLER.scope(Cell::new(Some(caller)), work));
        async move {
            tokio::select! {
                biased;
                result = working => result.unwrap_or_else(|error| Err(Fault::internal(error))),
                Ok(()) = doubt => Err(unknown()),
            }
        }
    }
}
