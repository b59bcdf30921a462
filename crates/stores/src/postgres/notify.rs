//! Hints: changes of this replica for the others, and theirs for the engine.
//!
//! They are sent after a group's commit and on a connection of their own: NOTIFY within the transaction would take a lock
//! that all of the database's writers share. While one notification is on its way, later changes gather. A hint that is lost
//! costs time and nothing else, so every buffer here is small, and a reader that missed a hint gets `Hint::Missed`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, stream};
use model::ports::store::Hint;
use model::{Seq, TaskId};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::connect::{Conn, ConnectError, ConnectTarget, Sql};

/// The channel's name.
pub(super) const LISTEN: &str = "LISTEN rialto";

/// Several at once.
static NOTIFY: Sql = Sql {
    text: "SELECT pg_notify('rialto', payload) FROM unnest($1::text[]) AS u (payload)",
    types: &[Type::TEXT_ARRAY],
};

/// Tasks with changes that wait. Above this number the others receive `Hint::Missed` instead.
const WAITING: usize = 4096;
/// Hints that wait for the engine.
const HEARD: usize = 4096;
/// Bytes of a payload before base64; PostgreSQL's limit is 8000 after it.
const PAYLOAD: usize = 5_900;
/// A notification that takes longer is tried again on another connection.
const PATIENCE: Duration = Duration::from_secs(5);

/// Changes of a group that other replicas follow.
#[derive(Default)]
pub(super) struct GroupChanges {
    grown: HashMap<TaskId, Seq>,
    pub(super) push: HashSet<TaskId>,
    removed: HashSet<TaskId>,
    pub(super) access: bool,
    missed: bool,
}

impl GroupChanges {
    pub(super) fn grown(&mut self, task: TaskId, seq: Seq) {
        let known = self.grown.entry(task).or_default();
        *known = seq.max(*known);
    }

    pub(super) fn removed(tasks: impl IntoIterator<Item = TaskId>) -> GroupChanges {
        GroupChanges { removed: tasks.into_iter().collect(), ..GroupChanges::default() }
    }

    fn is_empty(&self) -> bool {
        self.len() == 0 && !self.access && !self.missed
    }

    fn len(&self) -> usize {
        self.grown.len() + self.push.len() + self.removed.len()
    }

    fn join(&mut self, other: GroupChanges) {
        for (task, seq) in other.grown {
            self.grown(task, seq);
        }
        self.push.extend(other.push);
        self.removed.extend(other.removed);
        self.access |= other.access;
        self.missed |= other.missed;
        if self.len() > WAITING {
            *self = GroupChanges { access: self.access, missed: true, ..GroupChanges::default() };
        }
    }

    fn messages(&self) -> Vec<ReplicaMessage> {
        let mut messages: Vec<ReplicaMessage> = Vec::with_capacity(self.len() + 2);
        messages.extend(self.grown.iter().map(|(task, seq)| ReplicaMessage::Hint(Hint::Grown(*task, *seq))));
        messages.extend(self.push.iter().map(|task| ReplicaMessage::Hint(Hint::Push(*task))));
        messages.extend(self.removed.iter().map(|task| ReplicaMessage::Hint(Hint::Removed(*task))));
        messages.extend(self.access.then_some(ReplicaMessage::Hint(Hint::Access)));
        messages.extend(self.missed.then_some(ReplicaMessage::Hint(Hint::Missed)));
        messages
    }
}

/// A message between replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplicaMessage {
    Hint(Hint),
    /// The sender has left.
    Left,
}

/// Payloads with these messages, each within PostgreSQL's limit.
pub(super) fn pack(sender: i64, messages: &[ReplicaMessage]) -> Vec<String> {
    let mut payloads = Vec::new();
    let mut bytes = sender.to_le_bytes().to_vec();
    for message in messages {
        if bytes.len() > PAYLOAD - 32 {
            payloads.push(BASE64.encode(&bytes));
            bytes.truncate(8);
        }
        let (tag, task) = match message {
            ReplicaMessage::Hint(Hint::Grown(task, _)) => (1, Some(task)),
            ReplicaMessage::Hint(Hint::Push(task)) => (2, Some(task)),
            ReplicaMessage::Hint(Hint::Removed(task)) => (3, Some(task)),
            ReplicaMessage::Hint(Hint::Access) => (4, None),
            ReplicaMessage::Hint(Hint::Missed) => (5, None),
            ReplicaMessage::Left => (6, None),
            // Every replica finds these out by itself.
            ReplicaMessage::Hint(Hint::Gone | Hint::CutOff) => continue,
        };
        bytes.push(tag);
        bytes.extend(task.into_iter().flat_map(|task| *task.0.as_bytes()));
        if let ReplicaMessage::Hint(Hint::Grown(_, seq)) = message {
            bytes.extend(seq.0.to_le_bytes());
        }
    }
    payloads.push(BASE64.encode(&bytes));
    payloads
}

/// The sender and its messages. `None` if the payload cannot be read: of a newer release, or not ours at all.
pub(super) fn unpack(payload: &str) -> Option<(i64, Vec<ReplicaMessage>)> {
    let bytes = BASE64.decode(payload).ok()?;
    let (sender, mut rest) = bytes.split_first_chunk::<8>()?;
    let mut messages = Vec::new();
    while let [tag, tail @ ..] = rest {
        rest = tail;
        let mut task = || -> Option<TaskId> {
            let (id, tail) = rest.split_first_chunk::<16>()?;
            rest = tail;
            Some(TaskId(Uuid::from_bytes(*id)))
        };
        messages.push(match tag {
            1 => {
                let task = task()?;
                let (seq, tail) = rest.split_first_chunk::<8>()?;
                rest = tail;
                ReplicaMessage::Hint(Hint::Grown(task, Seq(u64::from_le_bytes(*seq))))
            }
            2 => ReplicaMessage::Hint(Hint::Push(task()?)),
            3 => ReplicaMessage::Hint(Hint::Removed(task()?)),
            4 => ReplicaMessage::Hint(Hint::Access),
            5 => ReplicaMessage::Hint(Hint::Missed),
            6 => ReplicaMessage::Left,
            _ => return None,
        });
    }
    Some((i64::from_le_bytes(*sender), messages))
}

/// Sends these messages on this connection.
pub(super) async fn send_messages(db: &Conn, sender: i64, messages: &[ReplicaMessage]) -> Result<(), ConnectError> {
    let payloads = pack(sender, messages);
    match tokio::time::timeout(PATIENCE, db.query(&NOTIFY, [&payloads])).await {
        Ok(said) => said.map(drop).map_err(ConnectError::Sql),
        Err(_) => Err(ConnectError::Slow),
    }
}

/// Notifies the other replicas of the changes here.
pub(super) struct Notifier {
    sender: i64,
    group_changes: Mutex<GroupChanges>,
    bell: Notify,
    closed: AtomicBool,
}

impl Notifier {
    pub(super) fn new(sender: i64) -> Notifier {
        Notifier { sender, group_changes: Mutex::default(), bell: Notify::new(), closed: AtomicBool::new(false) }
    }

    pub(super) fn announce(&self, group_changes: GroupChanges) {
        if !group_changes.is_empty() {
            self.group_changes.lock().join(group_changes);
            self.bell.notify_one();
        }
    }

    /// Sends the changes that still wait, once, and ends.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        self.bell.notify_one();
    }

    pub(super) async fn run(self: Arc<Notifier>, target: Arc<ConnectTarget>) {
        let mut connection: Option<Conn> = None;
        let mut pause = Duration::ZERO;
        loop {
            let closed = self.closed.load(Ordering::Relaxed);
            let group_changes = std::mem::take(&mut *self.group_changes.lock());
            if group_changes.is_empty() {
                if closed {
                    return;
                }
                self.bell.notified().await;
                continue;
            }
            match self.send(&target, &mut connection, &group_changes).await {
                Ok(()) => pause = Duration::ZERO,
                Err(_) if closed => return,
                Err(fault) => {
                    tracing::debug!(%fault, "notifying the other replicas failed");
                    connection = None;
                    self.group_changes.lock().join(group_changes);
                    pause = (pause * 2).clamp(Duration::from_millis(50), Duration::from_secs(1));
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }

    async fn send(
        &self,
        target: &ConnectTarget,
        connection: &mut Option<Conn>,
        group_changes: &GroupChanges,
    ) -> Result<(), ConnectError> {
        let db = match connection.take() {
            Some(db) if !db.is_closed() => db,
            Some(_) | None => target.connect().await?,
        };
        send_messages(&db, self.sender, &group_changes.messages()).await?;
        *connection = Some(db);
        Ok(())
    }
}

/// Hints for the engine.
pub(super) struct HintListener {
    hints: mpsc::Sender<Hint>,
    waiting: Mutex<Option<mpsc::Receiver<Hint>>>,
    missed: AtomicBool,
}

impl HintListener {
    pub(super) fn new() -> HintListener {
        let (hints, waiting) = mpsc::channel(HEARD);
        HintListener { hints, waiting: Mutex::new(Some(waiting)), missed: AtomicBool::new(false) }
    }

    /// May be taken once. It never ends, also when the store is closed.
    pub(super) fn stream(&self) -> BoxStream<'static, Hint> {
        let waiting = self.waiting.lock().take();
        stream::unfold(waiting, |waiting| async move {
            let mut waiting = waiting?;
            Some((waiting.recv().await?, Some(waiting)))
        })
        .chain(stream::pending())
        .boxed()
    }

    pub(super) fn offer(&self, hint: Hint) {
        self.remind();
        if self.hints.try_send(hint).is_err() {
            self.missed.store(true, Ordering::Relaxed);
        }
    }

    /// Sends `Missed` as soon as there is room, if hints were dropped because the engine read too slowly.
    pub(super) fn remind(&self) {
        if self.missed.swap(false, Ordering::Relaxed) && self.hints.try_send(Hint::Missed).is_err() {
            self.missed.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> TaskId {
        TaskId(Uuid::now_v7())
    }

    #[test]
    fn what_is_said_is_heard_and_fits_into_payloads() {
        let mut messages: Vec<ReplicaMessage> =
            (0..3_000).map(|n| ReplicaMessage::Hint(Hint::Grown(id(), Seq(n << 40)))).collect();
        messages.extend([
            ReplicaMessage::Hint(Hint::Push(id())),
            ReplicaMessage::Hint(Hint::Removed(id())),
            ReplicaMessage::Hint(Hint::Access),
        ]);
        messages.extend([ReplicaMessage::Hint(Hint::Missed), ReplicaMessage::Left]);
        let payloads = pack(-7, &messages);
        assert!(payloads.len() > 1 && payloads.iter().all(|payload| payload.len() < 8_000));
        let mut heard = Vec::new();
        for payload in payloads {
            let (sender, said) = unpack(&payload).unwrap();
            assert_eq!(sender, -7);
            heard.extend(said);
        }
        assert_eq!(heard, messages);
        for strange in ["", "x", "hello", "AAAAAAAAAAAB", "AAAAAAAAAAD/"] {
            assert_eq!(unpack(strange), None, "{strange}");
        }
    }

    #[test]
    fn news_that_nobody_could_be_told_become_one_word() {
        let mut group_changes = GroupChanges::default();
        for n in 0..=WAITING {
            let mut more = GroupChanges::default();
            more.grown(id(), Seq(n as u64));
            more.access = true;
            group_changes.join(more);
        }
        assert_eq!(group_changes.messages(), [ReplicaMessage::Hint(Hint::Access), ReplicaMessage::Hint(Hint::Missed)]);
    }

    #[tokio::test]
    async fn an_ear_that_is_full_says_so_when_there_is_room() {
        let listener = HintListener::new();
        for _ in 0..HEARD + 5 {
            listener.offer(Hint::Access);
        }
        let mut stream = listener.stream();
        for _ in 0..HEARD {
            assert_eq!(stream.next().await, Some(Hint::Access));
        }
        listener.remind();
        listener.remind();
        listener.offer(Hint::Gone);
        assert_eq!(stream.next().await, Some(Hint::Missed));
        assert_eq!(stream.next().await, Some(Hint::Gone));
    }
}
