//! What the turns of one agent share: sessions that are free, the tools, and calls that wait for an answer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::Tool;

use super::Options;
use super::open::Open;
use super::session::{Session, Trouble};
use crate::config::Error;
use crate::outbound;

/// So many sessions are kept for later calls.
const KEPT: usize = 4;

pub(super) struct Shared {
    pub(super) options: Options,
    client: reqwest::Client,
    free: Mutex<Vec<Session>>,
    tools: Mutex<Arc<[Tool]>>,
    /// The tools are not what they were, or have never been asked for.
    changed: Arc<AtomicBool>,
    pub(super) open: Open,
}

impl Shared {
    pub(super) fn new(options: Options) -> Result<Shared, Error> {
        let headers = outbound::headers(&options.headers, &options.secret_headers, options.bearer.as_ref())?;
        Ok(Shared {
            client: outbound::client(None, headers)?,
            free: Mutex::default(),
            tools: Mutex::new(Arc::default()),
            changed: Arc::new(AtomicBool::new(true)),
            open: Open::new(options.answer_time(), options.open_questions()),
            options,
        })
    }

    /// The tools that may be called, as they were last heard of.
    pub(super) fn tools(&self) -> Arc<[Tool]> {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A session for one call: a free one, or a new one.
    pub(super) async fn session(&self) -> Result<Session, Trouble> {
        let session = match self.free() {
            Some(session) => session,
            None => {
                let session = Session::connect(&self.options, &self.client, self.changed.clone()).await?;
                // It may be another program than it was.
                self.changed.store(true, Ordering::Relaxed);
                session
            }
        };
        if self.changed.swap(false, Ordering::Relaxed) {
            let listed = session.tools().await.inspect_err(|_| self.changed.store(true, Ordering::Relaxed))?;
            let may =
                |tool: &Tool| self.options.tools.as_ref().is_none_or(|may| may.iter().any(|name| *name == tool.name));
            let allowed = listed.into_iter().filter(may).collect();
            *self.tools.lock().unwrap_or_else(PoisonError::into_inner) = allowed;
        }
        Ok(session)
    }

    fn free(&self) -> Option<Session> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(mut session) = free.pop() {
            if !session.is_closed() {
                // What an earlier call left unheard.
                while session.happenings.try_recv().is_ok() {}
                return Some(session);
            }
        }
        None
    }

    /// Keeps a session whose call has ended for the next.
    pub(super) fn put_back(&self, session: Session) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < KEPT && !session.is_closed() {
            free.push(session);
        } else {
            session.retire();
        }
    }
}
