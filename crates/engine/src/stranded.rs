//! Turns that this process holds in a shared store but does not run: their commit was reported as refused or abandoned
//! and happened all the same. Other processes leave them alone because their holder lives, so the holder must find
//! them.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::{Epoch, Fault, TaskId};

use crate::setbacks::Chore;
use crate::{Shared, recovery, troubled};

/// Turns read at once.
const PAGE: usize = 256;

/// Turns found once. A turn found a second time unchanged is recovered; the first finding may have been read just
/// before the turn ended.
pub(crate) type Suspects = BTreeSet<(TaskId, Epoch)>;

/// Looks for stranded turns, and recovers those found before by their agents' restart rules.
pub(crate) async fn look(shared: &Arc<Shared>, suspects: &mut Suspects) -> Result<(), Fault> {
    let (mut found, mut after) = (Suspects::new(), None);
    loop {
        let page = shared.store.held(after, PAGE).await.map_err(troubled)?;
        let Some((last, _)) = page.last() else { break };
        after = Some(*last);
        let due = |task: TaskId| shared.setbacks.is_due(task, Chore::Recovery);
        found.extend(page.into_iter().filter(|(task, _)| !shared.lives.is_at_work(*task) && due(*task)));
    }
    for stranded in found.intersection(suspects) {
        tracing::warn!(task = %stranded.0, "a turn of this process runs nowhere; it is taken up");
        // A turn that cannot be recovered now is found again by the next search.
        let _ = recovery::take_up(shared, *stranded, recovery::Holder::Own).await;
    }
    *suspects = found;
    Ok(())
}
