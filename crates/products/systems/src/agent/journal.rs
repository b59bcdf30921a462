//! The journal of a system's runs: one entry for each step, in the metadata of a status message.

use model::{Artifact, Json, Message, Part, Role, Task, TurnId};
use serde::{Deserialize, Serialize};
use systems_graph::{End, NodeEvent, VisitId};

/// The metadata member with the entry. Stored.
pub const KEY: &str = "https://rialto.dev/ext/system/v1";

/// One step of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEntry {
    /// The run's id: that of the turn that began it.
    pub run: String,
    /// Its number in the run, from 1.
    pub no: u64,
    pub state: RunStep,
    /// The node and the number of its visit; without one the entry is about the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visit: Option<u32>,
    /// The node's task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// At the beginning of a run: the index of its first message among the caller's, and their number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<(usize, usize)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunStep {
    /// The run has begun.
    Began,
    /// A node's task was opened.
    Started,
    Completed,
    Failed,
    /// The caller must approve a node.
    Approval,
    Approved,
    Denied,
    /// A node's agent asks the caller a question.
    Question,
    Answered,
    /// The run has ended.
    Finished,
}

impl RunEntry {
    pub fn visit(&self) -> Option<VisitId> {
        Some(VisitId { node: self.node.as_deref()?.into(), n: self.visit? })
    }

    pub(crate) fn of(message: &Message) -> Option<RunEntry> {
        let metadata = message.metadata.as_ref().filter(|json| json.text().contains(KEY))?;
        RunEntry::deserialize(metadata.to_value().get(KEY)?).ok()
    }

    pub(super) fn metadata(&self) -> Json {
        Json::from_value(&serde_json::json!({ KEY: self }))
    }
}

/// The id of a visit's artifact.
pub fn artifact_key(visit: &VisitId) -> String {
    format!("node/{}/{}", visit.node, visit.n)
}

/// The entries of a system's task, oldest first.
#[derive(Clone, Debug, Default)]
pub struct RunJournal(pub Vec<RunEntry>);

impl RunJournal {
    pub fn of(task: &Task) -> RunJournal {
        let agents = task.history.iter().chain(&task.status.message).filter(|message| message.role == Role::Agent);
        RunJournal(agents.filter_map(|message| RunEntry::of(message)).collect())
    }

    /// The entries of the open run; empty without one.
    pub fn open_run(&self) -> &[RunEntry] {
        let Some(last) = self.0.last().filter(|last| last.state != RunStep::Finished) else { return &[] };
        let first = self.0.iter().position(|entry| entry.run == last.run).unwrap_or_default();
        &self.0[first..]
    }
}

/// Whether the log has this entry, written by this attempt of the turn: an entry of another attempt that took the
/// turn over does not count.
pub(super) fn reached(task: &Task, attempt: (TurnId, u32), run: &str, no: u64) -> bool {
    let newest_first = task.status.message.iter().chain(task.history.iter().rev());
    let newest = newest_first.filter(|message| message.role == Role::Agent).find_map(|message| RunEntry::of(message));
    let ours = task.core.turn.is_some_and(|open| (open.id, open.attempt) == attempt);
    ours && newest.is_some_and(|entry| entry.run == run && entry.no >= no)
}

/// The events of a run, to replay them. An error means an entry whose artifact is missing.
pub(super) fn events(entries: &[RunEntry], artifacts: &[std::sync::Arc<Artifact>]) -> Result<Vec<NodeEvent>, VisitId> {
    let mut events = Vec::new();
    for entry in entries {
        let Some(visit) = entry.visit() else { continue };
        match entry.state {
            RunStep::Completed => {
                let key = artifact_key(&visit);
                let artifact = artifacts.iter().find(|artifact| *artifact.id == *key).ok_or_else(|| visit.clone())?;
                events.push(NodeEvent::Ended { visit, end: End::Completed(artifact.parts.clone()) });
            }
            RunStep::Failed => {
                let end = End::Failed(entry.reason.clone().unwrap_or_default());
                events.push(NodeEvent::Ended { visit, end });
            }
            RunStep::Approved => events.push(NodeEvent::Approved { visit }),
            RunStep::Denied => events.push(NodeEvent::Denied { visit, reason: entry.reason.clone() }),
            RunStep::Began
            | RunStep::Started
            | RunStep::Approval
            | RunStep::Question
            | RunStep::Answered
            | RunStep::Finished => {}
        }
    }
    Ok(events)
}

/// The output of a task: its artifacts, or without any its last message. Of a system, its result alone.
pub(super) fn given(task: &Task) -> Vec<Part> {
    let of_system = model::ports::children::has(task);
    let counts = |artifact: &&std::sync::Arc<Artifact>| !of_system || *artifact.id == *super::RESULT;
    let mut parts: Vec<Part> =
        task.artifacts.iter().filter(counts).flat_map(|artifact| artifact.parts.iter().cloned()).collect();
    if parts.is_empty() && !of_system {
        parts = task.status.message.iter().flat_map(|message| message.parts.iter().cloned()).collect();
    }
    if parts.is_empty() {
        // Messages and artifacts must have a part.
        parts.push(Part::text(""));
    }
    parts
}
