//! One job: delivers the events of one config in order, and yields to other configs after a while.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::FutureExt;
use model::EventId;
use model::ports::webhook::{WebhookOutcome, WebhookRequest, WebhookSender};

use super::index::{DeliveryEnd, DeliveryJob};
use super::next::{NextEvent, Reader};
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
    job: DeliveryJob,
    end: DeliveryEnd,
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.outbox.finished(&self.job, self.end);
    }
}

pub(super) async fn run(shared: Arc<Shared>, courier: Arc<dyn WebhookSender>, job: DeliveryJob) {
    // After a panic the job is not retried at once, which would loop.
    let end = DeliveryEnd::Wait(shared.clock.of_sleepers().plus_ms(AGAIN_MS));
    let mut slot = Slot { outbox: &shared.outbox, job, end };
    slot.end = tokio::select! {
        biased;
        // A dropped delivery is repeated after the next start.
        () = shared.outbox.cut.cancelled() => DeliveryEnd::Later,
        end = deliver(&shared, &*courier, &slot.job) => end,
    };
}

async fn deliver(shared: &Arc<Shared>, courier: &dyn WebhookSender, job: &DeliveryJob) -> DeliveryEnd {
    let outbox = &shared.outbox;
    let mut reader = Reader::new(job.task, courier.telling(&job.spec.dialect));
    for _ in 0..LETTERS {
        if outbox.busy.load(Ordering::Relaxed) {
            tokio::time::sleep(MODEST_PAUSE).await;
        }
        let Some(go) = outbox.go(shared, job.no) else { return DeliveryEnd::Later };
        let found = match setbacks::alone(reader.next(shared, go.next)).await {
            Ok(found) => {
                shared.setbacks.clear(job.task, Chore::Webhook);
                found
            }
            Err(fault) if !setbacks::is_general(&fault) => {
                let pause = shared.setbacks.failed(shared, job.task, Chore::Webhook, &fault);
                return DeliveryEnd::Wait(shared.clock.of_sleepers().plus_ms(pause.as_millis() as u64));
            }
            Err(fault) => {
                tracing::warn!(task = %job.task, cause = %fault.cause_text(), "a webhook waits for the store: {fault}");
                return DeliveryEnd::Wait(shared.clock.of_sleepers().plus_ms(AGAIN_MS));
            }
        };
        let (seq, news, about) = match found {
            NextEvent::News { seq, news, about } => (seq, news, about),
            NextEvent::NothingYet { next } => {
                outbox.passed(job.no, go.resets, next);
                return DeliveryEnd::Idle;
            }
            NextEvent::Over { next } => return outbox.done(job.no, go.resets, next, courier.clears(&job.spec.dialect)),
            NextEvent::Missing => return outbox.vanished(job.task),
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
            return DeliveryEnd::Later;
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
                    return DeliveryEnd::Later;
                }
            }
            Verdict::End(DeliveryEnd::Over) => {
                clear::given_up(shared, courier, job).await;
                return DeliveryEnd::Over;
            }
            Verdict::End(end) => return end,
        }
    }
    DeliveryEnd::Later
}
