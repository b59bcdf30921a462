//! Stored push configs and their delivery progress. A webhook is a cursor on the task's log: the config holds the
//! destination, the progress the next event.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{Epoch, Seq, TaskId, Time};

/// The destination and its secrets. It is sealed before it is stored, so that a store contains nothing of it in clear.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushSpec {
    pub url: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<String>,
    /// The dialect it was registered in; deliveries are encoded in it.
    pub dialect: Arc<str>,
    /// The owner's id for the task, if it is not the task's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<Arc<str>>,
    /// The trace of the request that registered it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
}

/// Hides the secrets from logs.
impl fmt::Debug for PushSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PushSpec").field("dialect", &self.dialect).finish_non_exhaustive()
    }
}

/// One stored config of one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushRow {
    pub task: TaskId,
    /// Unique within the task.
    pub id: Arc<str>,
    /// Drawn anew whenever the config is set: progress of an earlier edition is ignored.
    pub edition: u64,
    /// Raised whenever a process takes over the config: progress of the previous process is then refused.
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
    /// No attempt before this time.
    pub due: Time,
    /// Consecutive failures of the next event.
    pub attempts: u32,
    pub failing_since: Option<Time>,
    /// Total successful deliveries.
    pub delivered: u64,
    pub delivered_at: Option<Time>,
    /// The last failure, for operators.
    pub trouble: Option<Arc<str>>,
}

impl PushProgress {
    /// Nothing delivered yet; `next` is the first event to deliver.
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
    /// More deliveries are possible.
    Active,
    /// The task has settled and every event was delivered.
    Done,
    /// Given up; waits until an operator requests redelivery.
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
    /// The word for people.
    pub fn name(self) -> &'static str {
        match self {
            PushState::Active => "active",
            PushState::Done => "done",
            PushState::Dead => "dead",
        }
    }
}

/// A change of a config in a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PushChange {
    /// Creates the config, or replaces the one with its id. Ignored if the task does not exist.
    Put(PushRow),
    /// Deliveries succeeded or failed. Ignored if the row is gone, has another edition or epoch, or is ahead of this.
    Moved {
        task: TaskId,
        id: Arc<str>,
        edition: u64,
        epoch: Epoch,
        progress: PushProgress,
    },
    /// Sets the progress, possibly backwards, and raises the epoch: the committing process delivers the config from now
    /// on. Ignored if the row is gone or has another edition.
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
    /// Nothing more to deliver: removes the config. Ignored in the same cases as `Moved`.
    Over {
        task: TaskId,
        id: Arc<str>,
        edition: u64,
        epoch: Epoch,
    },
}

/// A stored config's progress and the process that may change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushStanding {
    pub edition: u64,
    pub epoch: Epoch,
    pub next: Seq,
    /// The asking process delivers it.
    pub ours: bool,
}
