//! A webhook sender whose receivers a test plays. It records every attempt, and answers as the test says.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use model::ports::Future;
use model::ports::webhook::{WebhookBody, WebhookDetail, WebhookOutcome, WebhookRequest, WebhookSender};
use model::{Fault, PushConfig, PushSpec, TaskId};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use super::heard;

/// An attempt, as the receiver sees it.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) task: TaskId,
    pub(crate) seq: u64,
    pub(crate) attempt: u32,
    pub(crate) url: String,
    pub(crate) spec: Arc<PushSpec>,
    pub(crate) context: model::ContextId,
    pub(crate) tenant: Arc<str>,
    /// As a short text of `heard`.
    pub(crate) said: String,
    pub(crate) at: Instant,
}

/// The outcome of an attempt.
pub(crate) enum Play {
    Now(WebhookOutcome),
    /// After [`Post::release`].
    Held,
}

type Receiver = dyn FnMut(&Sent) -> Play + std::marker::Send;

pub(crate) struct Post {
    sent: Mutex<Vec<Sent>>,
    count: watch::Sender<usize>,
    receiver: Mutex<Box<Receiver>>,
    released: watch::Sender<usize>,
    /// Its process was killed.
    dead: AtomicBool,
    /// Its encryption key is lost.
    keyless: AtomicBool,
}

pub(crate) fn failed(why: &str) -> WebhookOutcome {
    WebhookOutcome::Failed { why: why.into(), retry_after_ms: None }
}

impl Post {
    /// A sender whose attempts all succeed at once.
    pub(crate) fn new() -> Arc<Post> {
        Post::with(|_| Play::Now(WebhookOutcome::Taken))
    }

    pub(crate) fn with(receiver: impl FnMut(&Sent) -> Play + std::marker::Send + 'static) -> Arc<Post> {
        Arc::new(Post {
            sent: Mutex::default(),
            count: watch::Sender::new(0),
            receiver: Mutex::new(Box::new(receiver)),
            released: watch::Sender::new(0),
            dead: AtomicBool::new(false),
            keyless: AtomicBool::new(false),
        })
    }

    /// Sets the receiver's answers from now on.
    pub(crate) fn plays(&self, receiver: impl FnMut(&Sent) -> Play + std::marker::Send + 'static) {
        *self.receiver.lock() = Box::new(receiver);
    }

    /// Accepts all held attempts.
    pub(crate) fn release(&self) {
        let sent = self.sent.lock().len();
        self.released.send_replace(sent);
    }

    pub(crate) fn die(&self) {
        self.dead.store(true, Ordering::SeqCst);
    }

    pub(crate) fn lose_key(&self) {
        self.keyless.store(true, Ordering::SeqCst);
    }

    pub(crate) fn sent(&self) -> Vec<Sent> {
        self.sent.lock().clone()
    }

    /// The attempts, once there are at least `count`.
    pub(crate) async fn sent_at_least(&self, count: usize) -> Vec<Sent> {
        self.count.subscribe().wait_for(|now| *now >= count).await.unwrap();
        self.sent()
    }

    /// The texts sent to this URL, in order, once the last one is `last`.
    pub(crate) async fn said_to(&self, url: &str, last: &str) -> Vec<String> {
        let mut count = self.count.subscribe();
        loop {
            count.mark_unchanged();
            let said: Vec<String> = self.sent().into_iter().filter(|s| s.url == url).map(|s| s.said).collect();
            if said.last().is_some_and(|said| said == last) {
                return said;
            }
            count.changed().await.unwrap();
        }
    }
}

impl WebhookSender for Post {
    fn check(&self, config: &PushConfig) -> Result<(), Fault> {
        if config.url.starts_with("https://") {
            return Ok(());
        }
        Err(Fault::params("url", "the address of a webhook begins with https://"))
    }

    fn seal(&self, task: TaskId, spec: &PushSpec) -> Result<Bytes, Fault> {
        Ok(serde_json::to_vec(&(task.to_string(), spec)).unwrap().into())
    }

    fn open(&self, task: TaskId, sealed: &[u8]) -> Result<PushSpec, Fault> {
        if self.keyless.load(Ordering::SeqCst) {
            return Err(Fault::internal("another key"));
        }
        let (owner, spec): (String, PushSpec) = serde_json::from_slice(sealed).map_err(Fault::internal)?;
        if owner == task.to_string() { Ok(spec) } else { Err(Fault::internal("sealed for another task")) }
    }

    fn telling(&self, dialect: &str) -> WebhookDetail {
        if dialect == "a2a_v0_1" { WebhookDetail::States } else { WebhookDetail::Events }
    }

    fn clears(&self, dialect: &str) -> bool {
        dialect == "clears"
    }

    fn endpoint(&self, spec: &PushSpec) -> Arc<str> {
        spec.url.splitn(4, '/').take(3).collect::<Vec<_>>().join("/").into()
    }

    fn deliver(&self, letter: WebhookRequest) -> Future<'static, WebhookOutcome> {
        if self.dead.load(Ordering::SeqCst) {
            return Box::pin(std::future::pending());
        }
        let said = match &letter.news {
            WebhookBody::Task(task) => {
                assert_eq!(task.id, letter.id.task);
                format!("task {} after {}", task.state().word(), task.history.len())
            }
            WebhookBody::Event(event) if event.body.is_public() => {
                assert_eq!(event.seq, letter.id.seq);
                heard::told(event)
            }
            WebhookBody::Event(_) => return Box::pin(std::future::ready(WebhookOutcome::Untold)),
        };
        let sent = Sent {
            task: letter.id.task,
            seq: letter.id.seq.0,
            attempt: letter.attempt,
            url: letter.spec.url.clone(),
            spec: letter.spec,
            context: letter.context,
            tenant: letter.tenant,
            said,
            at: Instant::now(),
        };
        let play = (self.receiver.lock())(&sent);
        let number = {
            let mut all = self.sent.lock();
            all.push(sent);
            self.count.send_replace(all.len());
            all.len()
        };
        let mut released = self.released.subscribe();
        Box::pin(async move {
            match play {
                Play::Now(receipt) => receipt,
                Play::Held => {
                    let _ = released.wait_for(|up_to| *up_to >= number).await;
                    WebhookOutcome::Taken
                }
            }
        })
    }
}
