//! Finds the position in a script. The agent has no state between turns: a question may be answered after a
//! restart, by another process. How often the script has asked follows from the stored task.
//!
//! Each turn after the one that began the script exists because the script asked once more. The task counts its
//! turns, so only the number of the turn that began the script is missing. Where no two messages shared a turn, or
//! the script came with the first message, it is certain. Where messages were sent to a working task and shared a
//! turn, the counts leave a few possible numbers, and the script's questions in the history decide.

use model::ports::agent::Turn;
use model::{Message, Role};

use super::script::Script;
use super::step::ScriptStep;

/// The message with the script that a turn plays.
pub(super) struct Carrier<'a> {
    pub(super) message: &'a Message,
    /// Its index among the callers' messages of the task.
    pub(super) place: usize,
    /// How many of the callers' messages earlier turns processed.
    taken: usize,
}

/// The newest message with a script.
pub(super) fn carrier<'a>(turn: &'a Turn, has_script: impl Fn(&Message) -> bool) -> Option<Carrier<'a>> {
    let said: Vec<&Message> = callers_messages(&turn.so_far.history).collect();
    let place = said.iter().rposition(|message| has_script(message))?;
    Some(Carrier { message: said[place], place, taken: said.len().saturating_sub(turn.messages.len()) })
}

pub(super) fn callers_messages(history: &[std::sync::Arc<Message>]) -> impl DoubleEndedIterator<Item = &Message> {
    history.iter().map(|message| &**message).filter(|message| message.role == Role::User)
}

/// How often the script had asked when this turn began, by the counts. An earlier attempt of this turn changes
/// nothing.
pub(super) fn asked(turn: &Turn, carrier: &Carrier<'_>, script: &Script) -> usize {
    if carrier.place >= carrier.taken {
        return 0;
    }
    let core = &turn.so_far.core;
    let counted = core.turn.is_some_and(|open| open.id == turn.id);
    let number = (core.turns as usize + usize::from(!counted)).max(2);
    let earlier = number - 1;
    // Each earlier turn processed at least one message; this many messages had no turn of their own.
    let shared = carrier.taken.saturating_sub(earlier);
    let latest = (carrier.place + 1).min(earlier);
    let earliest = (carrier.place + 1).saturating_sub(shared).clamp(1, latest);
    let (least, most) = (number - latest, number - earliest);
    if least == most { least } else { seen(turn, carrier, script).clamp(least, most) }
}

/// How many of the script's questions are in the history, in order. A question without a message leaves no trace
/// and counts.
fn seen(turn: &Turn, carrier: &Carrier<'_>, script: &Script) -> usize {
    let mut later = turn
        .so_far
        .history
        .iter()
        .skip_while(|message| !std::ptr::eq(&***message, carrier.message))
        .filter(|message| message.role == Role::Agent);
    let stands = |question: &&ScriptStep| match question {
        ScriptStep::End(end) => match &end.words {
            Some(words) => later.any(|message| message.parts == words.parts),
            None => true,
        },
        ScriptStep::Working(_) | ScriptStep::Sleep(_) | ScriptStep::Artifact(_) | ScriptStep::Metadata(_) => false,
        ScriptStep::Reply(_) | ScriptStep::Hang | ScriptStep::Beat(_) => false,
    };
    script.questions().take_while(stands).count()
}
