//! The memory of tasks at work, and the end of a turn that needs more than there is.
//!
//! A live task has its whole fold in memory, and its newest events once more. All of them together share one budget
//! (`limits.live_bytes`). It is counted as the log grows, so it may be passed by what was already said; a turn is only ever
//! stopped before it says more. While more than half of it is taken, turns say less ahead of the disk and tails are short:
//! readers find older events in the store. When it is spent, a turn that has said more than its part fails, with words
//! that say why; small ones go on. Tasks are read into memory for callers only while less than half of it is taken, so that
//! readers never take turns their room; what slow readers hold of long logs has a budget of its own.

use model::{Body, Fault, Kind, Limits, MemoryBudget, MemoryShare, Task};

/// Any turn may say so much, however little is left.
pub(crate) const PART: usize = 64 << 10;
/// A turn's words ahead of the disk, and a task's tail, while memory is short.
const SHORT: usize = 64 << 10;
/// When a caller may try again.
const RETRY_AFTER_S: u32 = 2;

/// The memory of a fold.
pub(crate) fn weight(task: &Task) -> usize {
    let messages = task.history.iter().chain(&task.status.message);
    let said = messages.flat_map(|message| &message.parts);
    let made = task.artifacts.iter().flat_map(|artifact| &artifact.parts);
    said.chain(made).map(model::Part::weight).sum()
}

/// The memory that the fold frees when it applies this body: an artifact that is replaced.
pub(crate) fn replaced(task: &Task, body: &Body) -> usize {
    let Body::Artifact(chunk) = body else { return 0 };
    let known =
        task.artifacts.get(chunk.ordinal as usize).filter(|known| !chunk.append && known.id == chunk.artifact.id);
    known.map_or(0, |known| known.parts.iter().map(model::Part::weight).sum())
}

/// The most that a turn may have said that is not in the log yet.
pub(crate) fn uncommitted(memory: &MemoryBudget, limits: &Limits) -> usize {
    if memory.is_pressed() { limits.uncommitted_bytes.min(SHORT) } else { limits.uncommitted_bytes }
}

/// The most that is kept of a task's newest events.
pub(crate) fn tail(memory: &MemoryBudget, limits: &Limits) -> usize {
    if memory.is_pressed() { limits.tail_bytes.min(SHORT) } else { limits.tail_bytes }
}

/// Takes room for a task that is read for a caller, of this weight so far. What is small always has it, and readers leave
/// half of it to turns.
pub(crate) fn make_room(memory: &MemoryBudget, share: &mut MemoryShare, weight: usize) -> Result<(), Fault> {
    let spare = share.bytes() > 0 || !memory.is_pressed();
    if weight <= PART || (spare && share.grow_alone(weight - share.bytes())) { Ok(()) } else { Err(no_room()) }
}

/// The last words of a turn that wants more than there is.
pub(crate) fn spent() -> String {
    "the server's memory for tasks at work is used up, and this one had a large part of it; try again later, or ask for less at a time"
        .to_owned()
}

/// The fault for a caller whose task does not fit.
pub(crate) fn no_room() -> Fault {
    let message = format!("the server's memory for tasks at work is used up; try again in {RETRY_AFTER_S} s");
    Fault::new(Kind::Unavailable, message).retry_after(RETRY_AFTER_S)
}
