//! Stores a task whose log was exported elsewhere, as a settled copy that never changes.

use std::sync::Arc;

use bytes::Bytes;
use model::ports::Future;
use model::ports::store::{AliasWrite, Append, Commit, Conflict, Guard, IndexRow, Opening, Outcome};
use model::{Body, Event, Fault, Kind, Seq, Shape, Task, TaskId, Time, depth, stored};

use crate::open::commit_new;
use crate::{Engine, blobs, troubled};

/// A task to be stored.
#[derive(Clone, Debug)]
pub struct ImportedTask {
    /// Each event with its time. The first opens the task, whose id is new here; the last settles it.
    pub log: Vec<(Time, Body)>,
    /// The same for the same export: it is stored once.
    pub key: [u8; 32],
}

/// The result of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Import {
    Stored(TaskId),
    /// This task is the copy of an earlier import.
    Known(TaskId),
}

impl Engine {
    /// Stores the copy of a task. No caller sees it: it is in no list.
    pub fn import(&self, imported: ImportedTask) -> Future<'_, Result<Import, Fault>> {
        Box::pin(async move {
            self.shared.refuse_if_draining()?;
            let (limits, now) = (&self.shared.limits, self.shared.clock.now());
            let ImportedTask { log, key } = imported;
            let (times, mut bodies): (Vec<Time>, Vec<Body>) = log.into_iter().unzip();
            bodies.iter_mut().for_each(|body| flatten(body, limits.data_depth));
            let Some(Body::Opened(opened)) = bodies.first() else { return Err(damaged(1, "it opens no task")) };
            let (id, tenant) = (opened.id, opened.tenant.clone());
            let opening = Opening {
                context: opened.context.clone(),
                fresh_context: false,
                tenant: tenant.clone(),
                agent: opened.agent.clone(),
                views: Vec::new(),
            };
            let blobs = blobs::stow(&mut bodies, &tenant, id, limits.blob_bytes);
            let events = times.into_iter().zip(bodies).enumerate();
            let events: Vec<Event> =
                events.map(|(at, (time, body))| Event { seq: Seq::ZERO.plus(at + 1), at: time, body }).collect();
            let task = folded(&events)?;
            if !task.core.is_settled() {
                return Err(damaged(events.len(), "the task has not settled after it"));
            }
            let row = IndexRow {
                state: task.core.state,
                // Its retention begins now.
                status_at: now,
                listed: task.core.shape == Shape::Task,
                running: false,
                settled: true,
            };
            let append = Append {
                task: id,
                expected: Seq::ZERO,
                epoch: None,
                count: u32::try_from(events.len()).map_err(Fault::internal)?,
                payload: Bytes::from(stored::encode(&events)),
                open: Some(opening),
                row: Some(row),
            };
            let commit = Commit {
                appends: vec![append],
                guards: vec![Guard::AliasIs { key, task: None }],
                aliases: vec![AliasWrite { key, task: id }],
                blobs,
                ..Commit::default()
            };
            match commit_new(&self.shared, id, commit).await? {
                Outcome::Done => {
                    self.shared.feed.note_elsewhere(id);
                    Ok(Import::Stored(id))
                }
                Outcome::Conflict(Conflict::Alias(Some(known))) => Ok(Import::Known(known)),
                Outcome::Conflict(met) => Err(Fault::internal(format!("an import met a conflict: {met:?}"))),
                Outcome::Refused(trouble) | Outcome::Unknown(trouble) => Err(troubled(trouble)),
            }
        })
    }
}

/// Folds a log by the rules of every log.
fn folded(events: &[Event]) -> Result<Task, Fault> {
    let (first, rest) = events.split_first().ok_or_else(|| damaged(1, "there is none"))?;
    let mut task = Task::open(first).map_err(|error| damaged(1, error))?;
    for (at, event) in rest.iter().enumerate() {
        if let Body::Artifact(chunk) = &event.body
            && chunk.ordinal as usize > task.artifacts.len()
        {
            return Err(damaged(at + 2, "its artifact has a number that does not follow"));
        }
        task.apply(event).map_err(|error| damaged(at + 2, error))?;
    }
    Ok(task)
}

fn damaged(event: usize, why: impl std::fmt::Display) -> Fault {
    Fault::new(Kind::InvalidParams, format!("the log is damaged at event {event}: {why}"))
}

/// Turns data that nests too deeply into text, as for agents.
fn flatten(body: &mut Body, most: usize) {
    match body {
        Body::Message(inbound) => {
            let inbound = Arc::make_mut(inbound);
            depth::flatten(&mut inbound.metadata, most);
            let message = Arc::make_mut(&mut inbound.message);
            depth::flatten_parts(&mut message.parts, most);
            depth::flatten(&mut message.metadata, most);
        }
        Body::Status(change) => {
            depth::flatten(&mut change.metadata, most);
            if let Some(message) = &mut change.message {
                let message = Arc::make_mut(message);
                depth::flatten_parts(&mut message.parts, most);
                depth::flatten(&mut message.metadata, most);
            }
        }
        Body::Replied(message) => {
            let message = Arc::make_mut(message);
            depth::flatten_parts(&mut message.parts, most);
            depth::flatten(&mut message.metadata, most);
        }
        Body::Artifact(chunk) => {
            depth::flatten(&mut chunk.metadata, most);
            let artifact = Arc::make_mut(&mut chunk.artifact);
            depth::flatten_parts(&mut artifact.parts, most);
            depth::flatten(&mut artifact.metadata, most);
        }
        Body::Metadata(json) => {
            let mut some = Some(json.clone());
            depth::flatten(&mut some, most);
            *json = some.unwrap_or_else(|| json.clone());
        }
        Body::CancelRequested { metadata } => depth::flatten(metadata, most),
        Body::Opened(_) | Body::TurnStarted { .. } | Body::Bound { .. } => {}
    }
}
