//! A few connections for reading. Every read is one statement, so many share a connection and none has to wait for another
//! to give it back; the least busy one is taken.
//!
//! A connection that is known to be dead is not used, one that dies under a read is replaced and the read done again, once:
//! it changes nothing that doing it twice could spoil. All of it ends within the store's bound. A connection that has not
//! answered by then is not used again, and while signs of life are missing reads end sooner.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use model::ports::store::StoreError;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::Shared;
use super::connect::{Conn, ConnectError, ConnectTarget};
use super::trouble::{self, ErrorClass, Failure};

pub(super) struct ReadPool {
    target: Arc<ConnectTarget>,
    slots: Vec<PoolSlot>,
    shared: Arc<Shared>,
    closed: AtomicBool,
}

#[derive(Default)]
struct PoolSlot {
    connection: Mutex<Option<Arc<Conn>>>,
    /// One dials at a time; the others then use what it got.
    dialing: tokio::sync::Mutex<()>,
    busy: AtomicUsize,
}

/// Counts a read in its slot for as long as it takes, however it ends.
struct Permit<'a>(&'a PoolSlot);

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ReadPool {
    pub(super) fn new(target: Arc<ConnectTarget>, shared: Arc<Shared>) -> ReadPool {
        let slots = (0..shared.options.readers.max(1)).map(|_| PoolSlot::default()).collect();
        ReadPool { target, slots, shared, closed: AtomicBool::new(false) }
    }

    pub(super) async fn read<T, F>(&self, look: impl Fn(Arc<Conn>) -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let options = &self.shared.options;
        let silent = self.shared.replica.is_silent();
        let deadline = Instant::now() + if silent { options.short_bound() } else { options.bound() };
        let mut tried = false;
        loop {
            if self.closed.load(Ordering::Relaxed) {
                return Err(StoreError::Closed);
            }
            let permit = self.acquire();
            let dialed = tokio::time::timeout_at(deadline, permit.0.connection(&self.target)).await;
            let connection = dialed.unwrap_or(Err(ConnectError::Slow)).map_err(|fault| trouble::name(&fault))?;
            let result = match tokio::time::timeout_at(deadline, look(connection.clone())).await {
                Ok(result) => result,
                Err(_) => Err(Failure::Connect(ConnectError::Slow)),
            };
            match result {
                Ok(found) => return Ok(found),
                Err(Failure::Connect(fault @ ConnectError::Slow)) => {
                    permit.0.forget(&connection);
                    return Err(trouble::name(&fault));
                }
                Err(Failure::Connect(fault)) if trouble::kind(&fault) == ErrorClass::Lost => {
                    permit.0.forget(&connection);
                    if std::mem::replace(&mut tried, true) {
                        return Err(trouble::name(&fault));
                    }
                }
                Err(failure) => return Err(trouble::of(&failure)),
            }
        }
    }

    /// The least busy slot, one that is open if there is a choice.
    fn acquire(&self) -> Permit<'_> {
        let cost = |slot: &PoolSlot| {
            let busy = slot.busy.load(Ordering::Relaxed);
            (busy, slot.connection.lock().is_none())
        };
        // There is at least one.
        let mut best = &self.slots[0];
        let mut least = cost(best);
        for slot in &self.slots[1..] {
            let this = cost(slot);
            if this < least {
                (best, least) = (slot, this);
            }
        }
        best.busy.fetch_add(1, Ordering::Relaxed);
        Permit(best)
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        for slot in &self.slots {
            slot.connection.lock().take();
        }
    }
}

impl PoolSlot {
    fn open(&self) -> Option<Arc<Conn>> {
        self.connection.lock().clone().filter(|connection| !connection.is_closed())
    }

    async fn connection(&self, target: &ConnectTarget) -> Result<Arc<Conn>, ConnectError> {
        if let Some(connection) = self.open() {
            return Ok(connection);
        }
        let _alone = self.dialing.lock().await;
        if let Some(connection) = self.open() {
            return Ok(connection);
        }
        let connection = Arc::new(target.connect().await?);
        *self.connection.lock() = Some(connection.clone());
        Ok(connection)
    }

    fn forget(&self, dead: &Arc<Conn>) {
        let mut connection = self.connection.lock();
        if connection.as_ref().is_some_and(|current| Arc::ptr_eq(current, dead)) {
            connection.take();
        }
    }
}
