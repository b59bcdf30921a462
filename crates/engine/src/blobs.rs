//! Large parts are stored outside the log: moved to blobs before a commit, loaded before an agent reads them.

use std::sync::Arc;

use bytes::Bytes;
use model::ports::store::{BlobWrite, Store};
use model::{Blob, BlobKind, Body, Chunk, Content, Fault, Inbound, Json, Message, Part, Task, TaskId};
use sha2::{Digest, Sha256};

use crate::troubled;

/// Replaces every part above `limit` by a reference, and returns the blobs to write.
pub(crate) fn stow(bodies: &mut [Body], tenant: &Arc<str>, task: TaskId, limit: usize) -> Vec<BlobWrite> {
    let mut writes = Vec::new();
    for body in bodies {
        // Most bodies are small; only a large one is taken apart.
        if body.weight() <= limit {
            continue;
        }
        match body {
            Body::Message(inbound) => {
                let inbound = Arc::make_mut(inbound);
                stow_parts(&mut Arc::make_mut(&mut inbound.message).parts, tenant, task, limit, &mut writes);
            }
            Body::Status(change) => {
                if let Some(message) = &mut change.message {
                    stow_parts(&mut Arc::make_mut(message).parts, tenant, task, limit, &mut writes);
                }
            }
            Body::Replied(message) => {
                stow_parts(&mut Arc::make_mut(message).parts, tenant, task, limit, &mut writes);
            }
            Body::Artifact(chunk) => stow_chunk(chunk, tenant, task, limit, &mut writes),
            Body::Opened(_)
            | Body::TurnStarted { .. }
            | Body::Bound { .. }
            | Body::Metadata(_)
            | Body::CancelRequested { .. } => {}
        }
    }
    writes
}

/// The text of a chunk that continues another chunk, or may be continued by one, stays in the log up to this many times
/// the limit, so that the fold can join the texts of an artifact.
const CHUNKS: usize = 16;

fn stow_chunk(chunk: &mut Chunk, tenant: &Arc<str>, task: TaskId, limit: usize, writes: &mut Vec<BlobWrite>) {
    let (continues, goes_on) = (chunk.append && !chunk.bordered, !chunk.last);
    let parts = &mut Arc::make_mut(&mut chunk.artifact).parts[..];
    let is_kept = |part: &Part| {
        part.is_plain_text() && part.as_text().is_some_and(|text| text.len() <= limit.saturating_mul(CHUNKS))
    };
    let from = usize::from(continues && parts.first().is_some_and(is_kept));
    let to = parts.len() - usize::from(goes_on && parts.last().is_some_and(is_kept));
    // A single part may be both the first and the last.
    if let Some(between) = parts.get_mut(from..to) {
        stow_parts(between, tenant, task, limit, writes);
    }
}

fn stow_parts(parts: &mut [Part], tenant: &Arc<str>, task: TaskId, limit: usize, writes: &mut Vec<BlobWrite>) {
    for part in parts {
        let (kind, bytes) = match &part.content {
            Content::Text(text) if text.len() > limit => (BlobKind::Text, Bytes::from(text.clone())),
            Content::Raw(bytes) if bytes.len() > limit => (BlobKind::Raw, bytes.clone()),
            Content::Data(json) if json.text().len() > limit => {
                let kind = if json.is_object() { BlobKind::Object } else { BlobKind::Data };
                (kind, Bytes::from(json.text().to_owned()))
            }
            Content::Text(_) | Content::Raw(_) | Content::Url(_) | Content::Data(_) | Content::Blob(_) => continue,
        };
        let hash: [u8; 32] = Sha256::digest(&bytes).into();
        part.content = Content::Blob(Blob { kind, hash, len: bytes.len() as u64 });
        writes.push(BlobWrite { tenant: tenant.clone(), task, hash, bytes });
    }
}

fn has_blob(parts: &[Part]) -> bool {
    parts.iter().any(|part| matches!(part.content, Content::Blob(_)))
}

/// The messages of a turn with their large parts in memory.
pub(crate) async fn load_inbound(
    store: &dyn Store,
    tenant: &Arc<str>,
    inbound: &Arc<Inbound>,
) -> Result<Arc<Inbound>, Fault> {
    if !has_blob(&inbound.message.parts) {
        return Ok(inbound.clone());
    }
    let message = load_message(store, tenant, &inbound.message).await?;
    Ok(Arc::new(Inbound { message, ..(**inbound).clone() }))
}

/// The task with every large part in memory, as an agent sees it.
pub(crate) async fn load_task(store: &dyn Store, task: Arc<Task>) -> Result<Arc<Task>, Fault> {
    let heavy = task.history.iter().any(|m| has_blob(&m.parts)) || task.artifacts.iter().any(|a| has_blob(&a.parts));
    if !heavy {
        return Ok(task);
    }
    let mut loaded = (*task).clone();
    for message in &mut loaded.history {
        *message = load_message(store, &task.tenant, message).await?;
    }
    for artifact in &mut loaded.artifacts {
        if has_blob(&artifact.parts) {
            load_parts(store, &task.tenant, &mut Arc::make_mut(artifact).parts).await?;
        }
    }
    Ok(Arc::new(loaded))
}

async fn load_message(store: &dyn Store, tenant: &Arc<str>, message: &Arc<Message>) -> Result<Arc<Message>, Fault> {
    if !has_blob(&message.parts) {
        return Ok(message.clone());
    }
    let mut loaded = (**message).clone();
    load_parts(store, tenant, &mut loaded.parts).await?;
    Ok(Arc::new(loaded))
}

async fn load_parts(store: &dyn Store, tenant: &Arc<str>, parts: &mut [Part]) -> Result<(), Fault> {
    for part in parts {
        let Content::Blob(blob) = part.content else { continue };
        let bytes = store.blob(tenant.clone(), blob.hash).await.map_err(troubled)?;
        let bytes = bytes.ok_or_else(|| Fault::internal("a blob that a log refers to is missing"))?;
        part.content = match blob.kind {
            BlobKind::Raw => Content::Raw(bytes),
            BlobKind::Text => Content::Text(String::from_utf8(bytes.into()).map_err(Fault::internal)?),
            BlobKind::Data | BlobKind::Object => {
                let text = std::str::from_utf8(&bytes).map_err(Fault::internal)?;
                Content::Data(Json::parse(text).ok_or_else(|| Fault::internal("a data blob is not JSON"))?)
            }
        };
    }
    Ok(())
}
