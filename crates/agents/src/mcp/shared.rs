//! State that the turns of one agent share: idle sessions, the tools, and calls that wait for an answer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::Tool;

use super::Options;
use super::open_calls::OpenCalls;
use super::session::{McpSession, SessionError};
use crate::config::Error;
use crate::outbound;

/// Most idle sessions.
const KEPT: usize = 4;

pub(super) struct Shared {
    pub(super) options: Options,
    client: reqwest::Client,
    free: Mutex<Vec<McpSession>>,
    tools: Mutex<Arc<[Tool]>>,
    /// The list of tools has changed, or was never requested.
    changed: Arc<AtomicBool>,
    pub(super) open: OpenCalls,
}

impl Shared {
    pub(super) fn new(options: Options) -> Result<Shared, Error> {
        let headers = outbound::headers(&options.headers, &options.secret_headers, options.bearer.as_ref())?;
        Ok(Shared {
            client: outbound::client(None, headers)?,
            free: Mutex::default(),
            tools: Mutex::new(Arc::default()),
            changed: Arc::new(AtomicBool::new(true)),
            open: OpenCalls::new(options.answer_time(), options.open_questions()),
            options,
        })
    }

    /// The tools that may be called, as last listed.
    pub(super) fn tools(&self) -> Arc<[Tool]> {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A session for one call: an idle one, or a new one.
    pub(super) async fn session(&self) -> Result<McpSession, SessionError> {
        let session = match self.free() {
            Some(session) => session,
            None => {
                let session = McpSession::connect(&self.options, &self.client, self.changed.clone()).await?;
                // The program may have changed.
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

    fn free(&self) -> Option<McpSession> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(mut session) = free.pop() {
            if !session.is_closed() {
                // Events that an earlier call did not read.
                while session.happenings.try_recv().is_ok() {}
                return Some(session);
            }
        }
        None
    }

    /// Returns a session to the idle ones.
    pub(super) fn put_back(&self, session: McpSession) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < KEPT && !session.is_closed() {
            free.push(session);
        } else {
            session.retire();
        }
    }
}
