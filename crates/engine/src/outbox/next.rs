//! The content of deliveries: the events of one task from some point on, in the webhook detail of the config's dialect.

use std::collections::VecDeque;
use std::sync::Arc;

use model::ports::webhook::{WebhookBody, WebhookDetail};
use model::{Body, ContextId, Event, Fault, Seq, Shape, Task, TaskId};

use crate::visibility::PIECE;
use crate::{Shared, troubled};

/// Events taken from a live task's tail at once.
const PAGE: usize = 64;

/// The facts about a task that every delivery contains.
#[derive(Clone)]
pub(super) struct TaskScope {
    pub(super) tenant: Arc<str>,
    pub(super) context: ContextId,
}

/// The next delivery.
pub(super) enum NextEvent {
    News {
        seq: Seq,
        news: WebhookBody,
        about: TaskScope,
    },
    /// Every event so far was delivered; `next` is the next event.
    NothingYet {
        next: Seq,
    },
    /// Every event was delivered, and no more will follow.
    Over {
        next: Seq,
    },
    /// The task no longer exists.
    Missing,
}

/// A job's cursor on the log, which lives as long as the job.
pub(super) struct Reader {
    task: TaskId,
    telling: WebhookDetail,
    buffer: VecDeque<Event>,
    /// The event before the buffer's first.
    at: Seq,
    head: Option<Head>,
    /// The task as of `at`, once it was needed.
    fold: Option<Arc<Task>>,
}

/// The task when the job began.
struct Head {
    about: TaskScope,
    seq: Seq,
    shape: Shape,
    settled: bool,
}

impl Reader {
    pub(super) fn new(task: TaskId, telling: WebhookDetail) -> Reader {
        Reader { task, telling, buffer: VecDeque::new(), at: Seq::ZERO, head: None, fold: None }
    }

    /// The next delivery, from event `from` on.
    pub(super) async fn next(&mut self, shared: &Shared, from: Seq) -> Result<NextEvent, Fault> {
        if from != self.at.next() {
            // The first read, or the config was set back.
            self.buffer.clear();
            self.fold = None;
            self.at = Seq(from.0.saturating_sub(1));
        }
        if self.head.is_none() {
            self.head = head(shared, self.task).await?;
        }
        let Some(Head { about, seq: length, shape, settled }) = &self.head else { return Ok(NextEvent::Missing) };
        let (about, length, settled) = (about.clone(), *length, *settled);
        match shape {
            Shape::Task => {}
            // The exchange is not visible yet.
            Shape::Undecided => return Ok(NextEvent::NothingYet { next: self.at.next() }),
            Shape::Reply => return Ok(NextEvent::Over { next: length.next() }),
        }
        loop {
            if self.buffer.is_empty() && self.at < length {
                self.buffer = read(shared, self.task, self.at).await?.into();
                if self.buffer.is_empty() {
                    return Ok(NextEvent::Missing);
                }
                // Yields while it skips through a long log.
                tokio::task::yield_now().await;
            }
            let Some(event) = self.buffer.pop_front() else {
                let next = self.at.next();
                return Ok(if settled { NextEvent::Over { next } } else { NextEvent::NothingYet { next } });
            };
            let seq = event.seq;
            if let Some(fold) = &mut self.fold {
                Arc::make_mut(fold).apply(&event).map_err(Fault::internal)?;
            }
            self.at = seq;
            let news = match (&event.body, self.telling) {
                (Body::Opened(_), _) => WebhookBody::Task(self.opening(&event)?),
                (Body::Status(_), WebhookDetail::States) => WebhookBody::Task(self.as_of(shared, seq).await?),
                (_, WebhookDetail::States) => continue,
                (_, WebhookDetail::Events) => WebhookBody::Event(Arc::new(event)),
            };
            return Ok(NextEvent::News { seq, news, about });
        }
    }

    /// The task as it was opened: with its first message, which is in the same commit.
    fn opening(&mut self, first: &Event) -> Result<Arc<Task>, Fault> {
        let opened = Task::open(first).map_err(Fault::internal)?;
        let mut shown = opened.clone();
        if let Some(message) = self.buffer.front().filter(|event| matches!(event.body, Body::Message(_))) {
            shown.apply(message).map_err(Fault::internal)?;
        }
        if self.telling == WebhookDetail::States {
            self.fold = Some(Arc::new(opened));
        }
        Ok(Arc::new(shown))
    }

    /// The task as of the event just passed.
    async fn as_of(&mut self, shared: &Shared, seq: Seq) -> Result<Arc<Task>, Fault> {
        if let Some(fold) = &self.fold {
            return Ok(fold.clone());
        }
        let live = shared.lives.find(self.task).and_then(|live| live.task());
        if let Some(task) = live.filter(|task| task.seq() == seq) {
            return Ok(task);
        }
        let mut fold: Option<Task> = None;
        while fold.as_ref().is_none_or(|task| task.seq() < seq) {
            let after = fold.as_ref().map_or(Seq::ZERO, Task::seq);
            let piece = shared.store.events(self.task, after, PIECE).await.map_err(troubled)?;
            if piece.is_empty() {
                break;
            }
            for event in piece.iter().take_while(|event| event.seq <= seq) {
                match &mut fold {
                    None => fold = Some(Task::open(event).map_err(Fault::internal)?),
                    Some(task) => task.apply(event).map_err(Fault::internal)?,
                }
            }
            tokio::task::yield_now().await;
        }
        let fold = fold.map(Arc::new).ok_or_else(|| Fault::internal("a log that was just read is gone"))?;
        self.fold = Some(fold.clone());
        Ok(fold)
    }
}

async fn head(shared: &Shared, task: TaskId) -> Result<Option<Head>, Fault> {
    if let Some(task) = shared.lives.find(task).and_then(|live| live.task()) {
        let about = TaskScope { tenant: task.tenant.clone(), context: task.context.clone() };
        return Ok(Some(Head { about, seq: task.seq(), shape: task.core.shape, settled: task.core.is_settled() }));
    }
    let head = shared.store.head(task).await.map_err(troubled)?;
    Ok(head.map(|head| Head {
        about: TaskScope { tenant: head.tenant, context: head.context },
        seq: head.seq,
        shape: match (head.row.listed, head.row.settled) {
            (true, _) => Shape::Task,
            (false, true) => Shape::Reply,
            (false, false) => Shape::Undecided,
        },
        settled: head.row.settled,
    }))
}

/// Some events after `after`: from the live task's tail if it reaches back that far, else from the store.
async fn read(shared: &Shared, task: TaskId, after: Seq) -> Result<Vec<Event>, Fault> {
    let tail = shared.lives.find(task).and_then(|live| live.tail_after(after, PAGE));
    match tail.filter(|tail| !tail.is_empty()) {
        Some(tail) => Ok(tail.iter().map(|committed| committed.event.clone()).collect()),
        None => shared.store.events(task, after, PIECE).await.map_err(troubled),
    }
}
