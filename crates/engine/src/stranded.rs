//! Turns that this process holds in a shared store but does not run: their commit was answered as refused or abandoned and
//! is there all the same. Other processes leave them alone, because their holder lives; so their holder looks for them.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::{Epoch, Fault, TaskId};

use crate::setbacks::Chore;
use crate::{Shared, recovery, troubled};

/// How many are read at once.
const PAGE: usize = 256;

/// Turns that were found once. One that is found a second time, and still the same, is taken up: the first may have been
/// read just before it ended.
pub(crate) type Suspects = BTreeSet<(TaskId, Epoch)>;

/// Looks for them, and takes up those that were found before by their agents' rules.
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
        // One that cannot be taken up now is found at the next look.
        let _ = recovery::take_up(shared, *stranded, recovery::Holder::Own).await;
    }
    *suspects = found;
    Ok(())
}
