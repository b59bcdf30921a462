//! What is kept of a push config, and how far its deliveries have come. A webhook is a cursor on the task's log: the
//! config says where to, the progress says from which event on.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{Epoch, Seq, TaskId, Time};

/// Where to deliver and with which secrets. It is sealed before it is kept; nothing of it is readable in a store.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushSpec {
    pub url: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<String>,
    /// The dialect it was registered in: what is delivered is written in that.
    pub dialect: Arc<str>,
    /// The id its owner knows the task under, where it is not the task's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<Arc<str>>,
    /// The trace of the request that registered it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
}

/// Secrets stay out of logs, however a spec gets there.
impl fmt::Debug for PushSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PushSpec").field("dialect", &self.dialect).finish_non_exhaustive()
    }
}

/// One config of one task, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushRow {
    pub task: TaskId,
    /// Unique within the task.
    pub id: Arc<str>,
    /// Drawn anew whenever the config is set: progress of an earlier one does not count for it.
    pub edition: u64,
    /// Raised whenever a process takes the config over: progress of the process before does not count any more.
    pub epoch: Epoch,
    /// A sealed [`PushSpec`].
    pub spec: Bytes,
    pub made_at: Time,
    pub progress: PushProgress,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushProgress {
    pub state: PushState,
    /// The next event to be delivered.
    pub next: Seq,
    /// Not to be tried before then.
    pub due: Time,
    /// Failures in a row, of the next event.
    pub attempts: u32,
    pub failing_since: Option<Time>,
    /// Deliveries that were taken, in all.
    pub delivered: u64,
    pub delivered_at: Option<Time>,
    /// What the last failure was; for operators.
    pub trouble: Option<Arc<str>>,
}

impl PushProgress {
    /// Nothing delivered yet; `next` is the first that will be.
    pub fn from(next: Seq, now: Time) -> PushProgress {
        PushProgress {
            state: PushState::Active,
            next,
            due: now,
            attempts: 0,
            failing_since: None,
            delivered: 0,
            delivered_at: None,
            trouble: None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PushState {
    /// There is or may be more to deliver.
    Active,
    /// The task has settled and everything is delivered.
    Done,
    /// Given up: waits for an operator to ask for redelivery.
    Dead,
}

impl PushState {
    pub const ALL: [PushState; 3] = [PushState::Active, PushState::Done, PushState::Dead];

    pub fn code(self) -> u8 {
        match self {
            PushState::Active => 1,
            PushState::Done => 2,
            PushState::Dead => 3,
        }
    }
    pub fn from_code(code: u8) -> Option<PushState> {
        PushState::ALL.into_iter().find(|state| state.code() == code)
    }
    /// As people write it.
    pub fn name(self) -> &'static str {
        match self {
            PushState::Active => "active",
            PushState::Done => "done",
            PushState::Dead => "dead",
        }
    }
}

/// A change of a config, in a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PushChange {
    /// Makes it, or takes the place of the one with its id. Not done for a task that is not there.
    Put(PushRow),
    /// Deliveries went on, or failed. Not done where the row is gone, of another edition or epoch, or further than this.
    Moved {
        task: TaskId,
        id: Arc<str>,
        edition: u64,
        epoch: Epoch,
        progress: PushProgress,
    },
    /// Sets the progress, also back, and raises the epoch: the process that commits this delivers the config from now on.
    /// Not done where the row is gone or of another edition.
    SetBack {
        task: TaskId,
        id: Arc<str>,
        edition: u64,
        progress: PushProgress,
    },
    Remove {
        task: TaskId,
        id: Arc<str>,
    },
    /// There is nothing more to deliver, and it goes with that. Not done where progress would not be.
    Over {
        task: TaskId,
        id: Arc<str>,
        edition: u64,
        epoch: Epoch,
    },
}

/// How far a stored config is and which process may move it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushStanding {
    pub edition: u64,
    pub epoch: Epoch,
    pub next: Seq,
    /// The asking process delivers it.
    pub ours: bool,
}
