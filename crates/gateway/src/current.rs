//! The server in force, and its replacement at run time.
//!
//! There is one pointer to it. A request loads it once, at its beginning, and uses one version of everything until it
//! is answered. Code that runs longer than a request, such as a connection or the housekeeping, loads it again each
//! time.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use engine::RemoteChange;
use model::ports::agent::Agent;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use crate::fronts::worker;
use crate::{GatewayVersion, Settings, admin, history, limits, settings};

/// Pause before keys that could not be read are read again.
const KEYS_AGAIN: Duration = Duration::from_secs(1);

pub struct CurrentGateway {
    now: ArcSwap<GatewayVersion>,
    /// Held during a change: there is one at a time.
    changing: Mutex<()>,
}

impl CurrentGateway {
    pub fn new(first: Arc<GatewayVersion>) -> Arc<CurrentGateway> {
        Arc::new(CurrentGateway { now: ArcSwap::new(first), changing: Mutex::default() })
    }

    pub fn now(&self) -> Arc<GatewayVersion> {
        self.now.load_full()
    }

    /// Replaces settings and agents in one step: a request has either the old ones or the new. Settings that cannot be
    /// used are refused, and nothing changes. `settings` names the agents; its values that cannot change at run time
    /// (address, TLS, connections, cache, delivery keys) are ignored.
    pub fn change(
        &self,
        settings: Settings,
        agents: Vec<Arc<dyn Agent>>,
    ) -> Result<Arc<GatewayVersion>, settings::Error> {
        let _one = self.changing.lock();
        let before = self.now();
        let next = Arc::new(before.with_settings(settings)?);
        worker::check(&agents, &next.settings)?;
        worker::adopt(&before.engine, &agents, &before.leaving);
        // While both sets are registered, a request of either version finds its agents; a new agent replaces an old one
        // of its name.
        let both = before.engine.agents().into_iter().chain(agents.iter().cloned());
        before.engine.set_agents(both.collect());
        self.now.store(next.clone());
        before.engine.set_agents(agents);
        if let Some(throttle) = &before.throttle {
            throttle.write();
        }
        Ok(next)
    }

    /// Periodic work until `shutdown`: fetches keys of issuers ahead, removes unused limiter entries, writes the day's
    /// counts, takes samples for the history, and reads a new certificate (at once when `reload` is notified).
    pub async fn housekeeping(self: Arc<Self>, shutdown: CancellationToken, reload: Arc<Notify>) {
        let first = self.now();
        let tls = async {
            if let Some(tls) = first.tls.clone() {
                tls.watch(shutdown.clone(), &reload).await;
            }
        };
        let limits = limits::keep(|| self.now(), shutdown.clone());
        let history = history::keep(|| self.now(), shutdown.clone());
        tokio::join!(first.callers.warm_up(), limits, history, tls, self.follow(&shutdown));
    }

    /// Follows changes by other processes on the same store: keys they make or revoke, and tasks they remove.
    async fn follow(&self, shutdown: &CancellationToken) {
        let mut changes = self.now().engine.changes();
        let mut unread = false;
        loop {
            let change = tokio::select! {
                change = changes.recv() => change,
                () = tokio::time::sleep(KEYS_AGAIN), if unread => Ok(RemoteChange::Access),
                () = shutdown.cancelled() => return,
            };
            let server = self.now();
            match change {
                Ok(RemoteChange::Removed(task)) => server.cache.forget(task),
                Ok(RemoteChange::Access) => unread = !take_keys(&server).await,
                Ok(RemoteChange::Missed) | Err(RecvError::Lagged(_)) => {
                    server.cache.clear();
                    unread = !take_keys(&server).await;
                }
                Err(RecvError::Closed) => return,
            }
        }
    }
}

/// Loads every key from the store. Returns whether it could be read.
async fn take_keys(server: &GatewayVersion) -> bool {
    match admin::load_keys(&server.engine, &server.callers).await {
        Ok(()) => true,
        Err(fault) => {
            tracing::warn!(cause = %fault.cause_text(), "keys changed elsewhere are not known yet: {fault}");
            false
        }
    }
}
