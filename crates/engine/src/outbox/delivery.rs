//! One job: delivers the events of one config in order, and yields to other configs after a while.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::FutureExt;
use model::EventId;
use model::ports::webhook::{WebhookOutcome, WebhookRequest, WebhookSender};

use super::index::{End, Job};
use super::news::{Found, Reader};
use super::{MODEST_PAUSE, Outbox, Verdict, clear};
use crate::Shared;
use crate::setbacks::{self, Chore};

/// Deliveries after which a job yields, however many are left.
const LETTERS: usize = 64;

/// Delay before a log that cannot be read is tried again.
const AGAIN_MS: u64 = 1_000;

/// A job's slot, released however the job ends.
struct Slot<'a> {
    outbox: &'a Outbox,
    job: Job,
    end: End,
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.outbox.finished(&self.job, self.end);
    }
}

pub(super) async fn run(shared: Arc<Shared>, courier: Arc<dyn WebhookSender>, job: Job) {
    // After a panic the job is not retried at once, which would loop.
    let end = End::Wait(shared.clock.of_sleepers().plus_ms(AGAIN_MS));
    let mut slot = Slot { outbox: &shared.outbox, job, end };
    slot.end = tokio::select! {
        biased;
        // A dropped delivery is repeated after the next start.
        () = shared.outbox.cut.cancelled() => End::Later,
        end = deliver(&shared, &*courier, &slot.job) => end,
    };
}

async fn deliver(shared: &Arc<Shared>, courier: &dyn WebhookSender, job: &Job) -> End {
    let outbox = &shared.outbox;
    let mut reader = Reader::new(job.task, courier.telling(&job.spec.dialect));
    for _ in 0..LETTERS {
        if outbox.busy.load(Ordering::Relaxed) {
            tokio::time::sleep(MODEST_PAUSE).await;
        }
        let Some(go) = outbox.go(shared, job.no) else { return End::Later };
        let found = match setbacks::alone(reader.next(shared, go.next)).await {
            Ok(found) => {
                shared.setbacks.clear(job.task, Chore::Webhook);
                found
            }
            Err(fault) if !setbacks::is_general(&fault) => {
                let pause = shared.setbacks.failed(shared, job.task, Chore::Webhook, &fault);
                return End::Wait(shared.clock.of_sleepers().plus_ms(pause.as_millis() as u64));
            }
            Err(fault) => {
                tracing::warn!(task = %job.task, cause = %fault.cause_text(), "a webhook waits for the store: {fault}");
                return End::Wait(shared.clock.of_sleepers().plus_ms(AGAIN_MS));
            }
        };
        let (seq, news, about) = match found {
            Found::News { seq, news, about } => (seq, news, about),
            Found::NothingYet { next } => {
                outbox.passed(job.no, go.resets, next);
                return End::Idle;
            }
            Found::Over { next } => return outbox.done(job.no, go.resets, next, courier.clears(&job.spec.dialect)),
            Found::Missing => return outbox.vanished(job.task),
        };
        let letter = WebhookRequest {
            id: EventId { task: job.task, seq },
            attempt: go.attempt,
            config: job.id.clone(),
            tenant: about.tenant,
            context: about.context,
            spec: job.spec.clone(),
            news,
        };
        // The read may have taken a while, and the lease may have expired.
        if !outbox.is_current(shared) {
            return End::Later;
        }
        let attempt = async { courier.deliver(letter).await };
        let receipt = AssertUnwindSafe(attempt).catch_unwind().await.unwrap_or_else(|_| WebhookOutcome::Failed {
            why: "the courier failed unexpectedly".into(),
            retry_after_ms: None,
        });
        match outbox.receive(shared, job, &go, seq, receipt) {
            Verdict::GoOn => {}
            Verdict::Kept(seq) => {
                if !outbox.kept(job, &go, seq).await {
                    return End::Later;
                }
            }
            Verdict::End(End::Over) => {
                clear::given_up(shared, courier, job).await;
                return End::Over;
            }
            Verdict::End(end) => return end,
        }
    }
    End::Later
}
