//! Reads single tasks and lists of tasks.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use model::ports::Future;
use model::ports::store::{Cursor, ListQuery};
use model::{Body, CallScope, Event, Fault, List, Seq, Task, TaskId, Time};
use sha2::{Digest, Sha256};

use crate::conversation::Answers;
use crate::visibility::{LookupKind, PIECE, TaskBeginning};
use crate::{Engine, troubled};

/// Concurrent reads of logs longer than [`LONG`], each for a single answer.
pub(crate) const LONG_READS: usize = 2;
const LONG: usize = 1 << 20;

/// A page of a list.
#[derive(Clone, Debug)]
pub struct TaskListing {
    pub tasks: Vec<Arc<Task>>,
    /// Empty on the last page.
    pub next_page_token: String,
    pub page_size: u32,
    pub total: u64,
}

impl Engine {
    /// The task. Named by an alias, it has the history of all earlier tasks of the alias.
    pub async fn get(&self, place: &CallScope, id: &str) -> Result<Arc<Task>, Fault> {
        let (task, by_alias) = self.find(place, id).await?;
        if by_alias { self.chained(task).await } else { Ok(task) }
    }

    /// The task with the history of its whole context, for dialects with sessions.
    pub fn get_with_session<'a>(
        &'a self,
        place: &'a CallScope,
        id: &'a str,
        answers: Answers,
    ) -> Future<'a, Result<Arc<Task>, Fault>> {
        Box::pin(async move {
            let (task, _) = self.find(place, id).await?;
            self.with_session(place, task, answers).await
        })
    }

    /// The task's id, if the caller used it and not an alias.
    pub async fn own_id(&self, place: &CallScope, id: &str) -> Option<TaskId> {
        if !self.shared.aliases.load(Ordering::Relaxed) {
            return id.parse().ok();
        }
        let named = self.shared.named(place, id).await.ok()?;
        (!named.by_alias).then_some(named.task)
    }

    /// The task, and whether the caller named it by an alias.
    async fn find(&self, place: &CallScope, id: &str) -> Result<(Arc<Task>, bool), Fault> {
        let named = self.shared.named(place, id).await?;
        let task = match self.shared.glimpse(place, named.task, LookupKind::Task).await? {
            None => None,
            Some(TaskBeginning::Live(live)) => live.task(),
            Some(TaskBeginning::Log(piece)) => {
                self.fold(named.task, true, Some(piece), None).await?.map(|(task, _)| Arc::new(task))
            }
        };
        let task = task.filter(|task| LookupKind::Task.admits(task, place));
        Ok((task.ok_or_else(|| Fault::task_not_found(id))?, named.by_alias))
    }

    /// The current task, without a visibility check. For operators, and for callers that check visibility themselves.
    pub fn task(&self, id: TaskId) -> Future<'_, Result<Option<Arc<Task>>, Fault>> {
        Box::pin(async move {
            if let Some(live) = self.shared.lives.find(id) {
                live.refresh(&self.shared).await?;
                return Ok(live.task());
            }
            Ok(self.fold(id, true, None, None).await?.map(|(task, _)| Arc::new(task)))
        })
    }

    /// The task as of one of its events, for operators. None if it has no such event.
    pub fn task_at(&self, id: TaskId, seq: Seq) -> Future<'_, Result<Option<Arc<Task>>, Fault>> {
        Box::pin(async move {
            let folded = self.fold(id, true, None, Some(seq)).await?;
            Ok(folded.filter(|(task, _)| task.seq() == seq).map(|(task, _)| Arc::new(task)))
        })
    }

    /// The current task, the content of its artifacts left out unless it is live; for lists of operators.
    pub fn outline(&self, id: TaskId) -> Future<'_, Result<Option<Arc<Task>>, Fault>> {
        Box::pin(async move {
            if self.shared.lives.find(id).is_some() {
                return self.task(id).await;
            }
            Ok(self.fold(id, false, None, None).await?.map(|(task, _)| Arc::new(task)))
        })
    }

    /// Folds a log in pieces, so that a long log does not block other work, and returns the weight of the result.
    /// Without `artifacts` their content is dropped as it is read, since such a list does not show them. `first` is the
    /// first piece, if it has been read already; `last` is the last event that counts.
    async fn fold(
        &self,
        id: TaskId,
        artifacts: bool,
        mut first: Option<Vec<Event>>,
        last: Option<Seq>,
    ) -> Result<Option<(Task, usize)>, Fault> {
        let mut fold: Option<Task> = None;
        let mut weight = 0;
        let mut permit = None;
        loop {
            let after = fold.as_ref().map_or(Seq::ZERO, Task::seq);
            let piece = match first.take() {
                Some(first) => first,
                None => self.shared.store.events(id, after, PIECE).await.map_err(troubled)?,
            };
            if piece.is_empty() {
                break;
            }
            for event in piece.iter().filter(|event| last.is_none_or(|last| event.seq <= last)) {
                match &mut fold {
                    None => fold = Some(Task::open(event).map_err(Fault::internal)?),
                    Some(task) => task.apply(event).map_err(Fault::internal)?,
                }
                if artifacts || !matches!(event.body, Body::Artifact(_)) {
                    weight += event.body.weight();
                }
            }
            let Some(task) = &mut fold else { break };
            if !artifacts {
                for artifact in &mut task.artifacts {
                    Arc::make_mut(artifact).parts.clear();
                }
            }
            // A settled task has no further events: most tasks are read in one piece.
            if task.core.is_settled() || last.is_some_and(|last| task.seq() >= last) {
                break;
            }
            if weight > LONG && permit.is_none() {
                permit = Some(self.shared.long_reads.acquire().await.map_err(Fault::internal)?);
            }
            tokio::task::yield_now().await;
        }
        Ok(fold.map(|task| (task, weight)))
    }

    pub fn list<'a>(&'a self, place: &'a CallScope, list: &'a List) -> Future<'a, Result<TaskListing, Fault>> {
        Box::pin(async move {
            let limits = &self.shared.limits;
            let page_size = list.page_size.unwrap_or(limits.page_size_default);
            if page_size == 0 || page_size > limits.page_size {
                return Err(Fault::params("pageSize", format!("pageSize must be between 1 and {}", limits.page_size)));
            }
            let filter = fingerprint(place, list);
            let token = match list.page_token.as_deref() {
                None | Some("") => None,
                Some(text) => Some(Token::decode(text, filter)?),
            };
            // A caller without readable lists finds nothing.
            if place.reads.is_empty() {
                return Ok(TaskListing { tasks: Vec::new(), next_page_token: String::new(), page_size, total: 0 });
            }
            let query = ListQuery {
                views: place.reads.clone(),
                context: list.context.clone(),
                state: list.state,
                since: list.since,
                after: token.map(|t| t.cursor),
                limit: page_size,
                count: token.is_none(),
            };
            let page = self.shared.store.list(query).await.map_err(troubled)?;
            let total = page.total.or(token.map(|t| t.total)).unwrap_or_default();
            let mut tasks = Vec::with_capacity(page.tasks.len());
            let (mut bytes, mut last, mut cut) = (0, None, false);
            for (id, cursor) in &page.tasks {
                // A task purged between the two reads is left out.
                if let Some((task, weight)) = self.fold(*id, list.artifacts, None, None).await? {
                    if !tasks.is_empty() && bytes + weight > limits.page_bytes {
                        cut = true;
                        break;
                    }
                    bytes += weight;
                    tasks.push(Arc::new(task));
                }
                last = Some(*cursor);
            }
            let next_page_token = match last {
                Some(cursor) if page.more || cut => Token { cursor, total }.encode(filter),
                Some(_) | None => String::new(),
            };
            Ok(TaskListing { tasks, next_page_token, page_size, total })
        })
    }
}

/// Binds a page token to its query: the same list with the same filters.
fn fingerprint(place: &CallScope, list: &List) -> [u8; 8] {
    let mut hash = Sha256::new();
    let view = place.reads.iter().map(|view| &*view.0).collect::<Vec<_>>().join("\u{1e}");
    let context = list.context.as_ref().map_or("", |c| c.as_str());
    hash.update(format!("{view}\0{context}\0{:?}\0{:?}", list.state, list.since));
    let hash: [u8; 32] = hash.finalize().into();
    let mut short = [0; 8];
    short.copy_from_slice(&hash[..8]);
    short
}

/// The start of the next page, and the total counted on the first.
#[derive(Clone, Copy)]
struct Token {
    cursor: Cursor,
    total: u64,
}

impl Token {
    fn encode(self, filter: [u8; 8]) -> String {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&filter);
        bytes[8..16].copy_from_slice(&self.cursor.at.0.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.cursor.no.to_be_bytes());
        bytes[24..].copy_from_slice(&self.total.to_be_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    fn decode(text: &str, filter: [u8; 8]) -> Result<Token, Fault> {
        let bad = || Fault::params("pageToken", "pageToken is not one of this list; start again without it");
        let bytes: [u8; 32] = URL_SAFE_NO_PAD.decode(text).ok().and_then(|b| b.try_into().ok()).ok_or_else(bad)?;
        let word = |i: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[i..i + 8]);
            u64::from_be_bytes(word)
        };
        if bytes[..8] != filter {
            return Err(bad());
        }
        Ok(Token { cursor: Cursor { at: Time(word(8) as i64), no: word(16) }, total: word(24) })
    }
}
