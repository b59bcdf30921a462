//! The memory of live tasks, and the failure of turns that exceed it.
//!
//! A live task has its whole fold in memory, plus its newest events. All live tasks share one budget
//! (`limits.live_bytes`). It is counted as logs grow, so events already emitted may exceed it; a turn is only stopped
//! before it emits more. While more than half of the budget is taken, turns buffer less uncommitted output and tails
//! are short: readers find older events in the store. When the budget is spent, a turn that has emitted more than its
//! part fails with a message that says why; small turns continue. Tasks are loaded for callers only while less than
//! half of the budget is taken, so that readers never displace turns; the log pages of slow readers have a budget of
//! their own.

use model::{Body, Fault, Kind, Limits, MemoryBudget, MemoryShare, Task};

/// The output that any turn may have, however little memory is left.
pub(crate) const PART: usize = 64 << 10;
/// A turn's uncommitted output, and a task's tail, while memory is short.
const SHORT: usize = 64 << 10;
/// When a caller may retry.
const RETRY_AFTER_S: u32 = 2;

/// The memory that the fold frees when it applies this body: a replaced artifact.
pub(crate) fn replaced(task: &Task, body: &Body) -> usize {
    let Body::Artifact(chunk) = body else { return 0 };
    let known =
        task.artifacts.get(chunk.ordinal as usize).filter(|known| !chunk.append && known.id == chunk.artifact.id);
    known.map_or(0, |known| known.parts.iter().map(model::Part::weight).sum())
}

/// The limit of a turn's uncommitted output.
pub(crate) fn uncommitted(memory: &MemoryBudget, limits: &Limits) -> usize {
    if memory.is_pressed() { limits.uncommitted_bytes.min(SHORT) } else { limits.uncommitted_bytes }
}

/// The limit of a task's tail.
pub(crate) fn tail(memory: &MemoryBudget, limits: &Limits) -> usize {
    if memory.is_pressed() { limits.tail_bytes.min(SHORT) } else { limits.tail_bytes }
}

/// Reserves memory for a task of this weight so far that is loaded for a caller. A small task always gets it, and
/// readers leave half of the budget to turns.
pub(crate) fn make_room(memory: &MemoryBudget, share: &mut MemoryShare, weight: usize) -> Result<(), Fault> {
    let spare = share.bytes() > 0 || !memory.is_pressed();
    if weight <= PART || (spare && share.grow_alone(weight - share.bytes())) { Ok(()) } else { Err(no_room()) }
}

/// The failure message of a turn that exceeds the memory.
pub(crate) fn spent() -> String {
    "the server's memory for tasks at work is used up, and this one had a large part of it; try again later, or ask for less at a time"
        .to_owned()
}

/// The fault for a caller whose task does not fit.
pub(crate) fn no_room() -> Fault {
    let message = format!("the server's memory for tasks at work is used up; try again in {RETRY_AFTER_S} s");
    Fault::new(Kind::Unavailable, message).retry_after(RETRY_AFTER_S)
}
