//! Commits whose outcome the store could not tell.
//!
//! A read that does not find such a commit proves nothing as long as it may still happen, so the store is asked first
//! whether it is decided. The work that depends on it waits for that, however long it takes: a task that was opened after
//! all must be run. The caller does not wait: once the store has let its bound pass, the caller is told that the outcome is
//! not known yet. A repeat under the same idempotency key is answered right, before and after.

use std::cell::Cell;
use std::fmt::Display;

use futures_util::FutureExt;
use model::ports::Future;
use model::ports::store::Trouble;
use model::{Fault, Kind};
use tokio::sync::oneshot;

use crate::Shared;
use crate::patience::Patience;

tokio::task_local! {
    /// The caller that waits for the work of this task, until it is told.
    static CALLER: Cell<Option<oneshot::Sender<()>>>;
}

/// The caller is told that the outcome is not known yet.
fn tell_caller() {
    // Work without a caller just waits.
    let caller = CALLER.try_with(Cell::take).ok().flatten();
    if let Some(caller) = caller {
        let _ = caller.send(());
    }
}

/// For the log: why a caller was sent away.
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

/// Whether a caller is told that the outcome is not known yet: whatever can be read by now says nothing about it.
pub(crate) fn is_unknown(fault: &Fault) -> bool {
    fault.cause.as_ref().is_some_and(|cause| cause.is::<InDoubt>())
}

/// Reads what tells whether a commit happened, once that is decided and the store can be read.
pub(crate) async fn read_back<'a, T>(
    shared: &'a Shared,
    what: impl Display,
    read: impl Fn() -> Future<'a, Result<T, Trouble>>,
) -> Result<T, Trouble> {
    let bounded = shared.store.answers_within().is_some();
    let mut patience = Patience::new();
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
        patience.pause(shared, &what, unread).await?;
    }
}

impl Shared {
    /// Runs `work` to its end even if the caller goes away: a closed connection must not leave a commit half told. It
    /// begins at once, so that whoever waits for it has no room for it in a future of their own.
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
