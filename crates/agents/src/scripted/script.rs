//! Scripts: a `data` part `{"script": [step, ...]}`, parsed and checked as a whole before it is played.

use std::time::Duration;

use model::ports::agent::{ArtifactChunk, EndState};
use model::{Content as PartContent, Fault, Message};
use serde_json::value::RawValue;

use super::json::{Members, ScriptError, flag, list, number, text, unknown};
use super::parts::{artifact, object, words};
use super::step::{ChunkContent, Chunks, ScriptStep, may_repeat};

pub(super) const STEPS_MAX: usize = 10_000;
pub(super) const CHUNKS_MAX: u32 = 1_000_000;
/// One day.
pub(super) const WAIT_MAX_MS: u32 = 24 * 3_600_000;

/// The names of all steps.
pub(super) const STEPS: &[&str] = &[
    "status", "sleep_ms", "artifact", "echo", "message", "input", "auth", "complete", "fail", "reject", "hang",
    "metadata", "restart",
];
/// Further members of a step, each with the steps it belongs to.
const MORE: &[(&str, &[&str])] = &[
    ("text", &["status"]),
    ("chunks", &["artifact"]),
    ("every_ms", &["artifact"]),
    ("append", &["artifact"]),
    ("lastChunk", &["artifact"]),
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Script {
    pub(super) steps: Vec<ScriptStep>,
    /// The first step's rule for a crash: play the turn again, or fail.
    rule: Option<bool>,
}

/// Whether the message has a script, valid or not.
pub(super) fn has_script(message: &Message) -> bool {
    scripts(message).next().is_some()
}

/// Each script of a message, with its part's index.
fn scripts(message: &Message) -> impl Iterator<Item = (usize, &RawValue)> {
    message.parts.iter().enumerate().filter_map(|(i, part)| {
        // Searching the text first avoids parsing most data.
        let PartContent::Data(json) = &part.content else { return None };
        if !json.is_object() || !json.text().contains("\"script\"") {
            return None;
        }
        let mut members: Members<'_> = serde_json::from_str(json.text()).ok()?;
        Some((i, members.take("script")?))
    })
}

impl Script {
    /// The script of a message, if it has one.
    pub(super) fn of(message: &Message) -> Result<Option<Script>, Fault> {
        let mut found = scripts(message);
        let Some((part, raw)) = found.next() else { return Ok(None) };
        if let Some((other, _)) = found.next() {
            let says = format!("a message carries one script, and parts[{part}] is one already");
            return Err(Fault::params(format!("message.parts[{other}].data.script"), says));
        }
        let wrong = |wrong: ScriptError| wrong.within(format_args!("message.parts[{part}].data.script")).fault();
        Script::read(raw).map(Some).map_err(wrong)
    }

    fn read(raw: &RawValue) -> Result<Script, ScriptError> {
        let list = list(raw)?;
        if list.len() > STEPS_MAX {
            return Err(ScriptError::new(format!(
                "a script has at most {STEPS_MAX} steps, and this one has {}",
                list.len()
            )));
        }
        let mut script = Script { steps: Vec::with_capacity(list.len()), rule: None };
        for (i, raw) in list.into_iter().enumerate() {
            script.add(i, raw).map_err(|wrong| wrong.within(format_args!("[{i}]")))?;
        }
        Ok(script)
    }

    fn add(&mut self, place: usize, raw: &RawValue) -> Result<(), ScriptError> {
        let mut members = Members::of(raw)?;
        let name = the_step(&members)?;
        let raw = members.take(name).ok_or_else(|| ScriptError::new("a step has a name"))?;
        let step = match name {
            "restart" => {
                self.rule = Some(retries(raw, place)?);
                // A placeholder, so that the steps' indexes are those of the script.
                ScriptStep::Sleep(Duration::ZERO)
            }
            "status" => {
                working(raw).map_err(|wrong| wrong.within(".status"))?;
                ScriptStep::Working(members.optional("text", words)?.flatten())
            }
            "artifact" => self.artifact(raw, &mut members)?,
            _ => plain(name, raw).map_err(|wrong| wrong.within(format_args!(".{name}")))?,
        };
        members.none_left(&[])?;
        self.steps.push(step);
        Ok(())
    }

    fn artifact(&self, raw: &RawValue, members: &mut Members<'_>) -> Result<ScriptStep, ScriptError> {
        let mut piece = artifact(raw).map_err(|wrong| wrong.within(".artifact"))?;
        let count = members.optional("chunks", |raw| number(raw, 1, CHUNKS_MAX))?.unwrap_or(1);
        let every_ms = members.optional("every_ms", |raw| number(raw, 0, WAIT_MAX_MS))?.unwrap_or(0);
        piece.append = members.optional("append", flag)?.unwrap_or(false);
        piece.last = members.optional("lastChunk", flag)?.unwrap_or(true);
        if piece.append && !self.began(&piece) {
            let says = "\"append\" adds to an artifact of the same artifactId that an earlier step began in this turn";
            return Err(ScriptError::new(says).within(".append"));
        }
        let every = Duration::from_millis(every_ms.into());
        let named = !piece.key.is_empty();
        Ok(ScriptStep::Artifact(Box::new(Chunks { piece, content: ChunkContent::Given, count, every, named })))
    }

    /// Whether an artifact of that name was begun since the last question: a turn that is played again must restart
    /// the artifacts it appends to.
    fn began(&self, piece: &ArtifactChunk) -> bool {
        let turn = self.steps.iter().rev().take_while(|step| !step.interrupts());
        turn.into_iter()
            .any(|step| matches!(step, ScriptStep::Artifact(known) if known.named && known.piece.key == piece.key))
    }

    /// Whether a turn is played again after a crash: as its first step says, else [`may_repeat`].
    pub(super) fn retries(&self) -> bool {
        self.rule.unwrap_or_else(|| may_repeat(&self.steps))
    }

    /// The steps that wait for a message.
    pub(super) fn questions(&self) -> impl Iterator<Item = &ScriptStep> {
        self.played().iter().filter(|step| step.interrupts())
    }

    /// The rest after `asked` questions; none when the script had ended by then.
    pub(super) fn rest(mut self, asked: usize) -> Option<Vec<ScriptStep>> {
        let from = match asked.checked_sub(1) {
            None => 0,
            Some(nth) => {
                let mut places = (0..self.played().len()).filter(|&i| self.steps[i].interrupts());
                places.nth(nth)? + 1
            }
        };
        Some(self.steps.split_off(from))
    }

    /// The steps that can be reached.
    pub(super) fn played(&self) -> &[ScriptStep] {
        let end = self.steps.iter().position(ScriptStep::is_last).map_or(self.steps.len(), |last| last + 1);
        &self.steps[..end]
    }
}

/// The single step name among the members; errors in names are found here too, where the step is known.
fn the_step(members: &Members<'_>) -> Result<&'static str, ScriptError> {
    let mut found = members.names().filter_map(|name| STEPS.iter().find(|&&known| known == name).copied());
    let (step, second) = (found.next(), found.next());
    if let (Some(one), Some(two)) = (step, second) {
        let says = format!("a step does one thing, and this one has both \"{one}\" and \"{two}\"; make it two steps");
        return Err(ScriptError::new(says));
    }
    for name in members.names().filter(|name| !STEPS.contains(name)) {
        match (MORE.iter().find(|(more, _)| *more == name), step) {
            (Some((_, of)), Some(step)) if of.contains(&step) => {}
            (Some((more, of)), _) => {
                let says = format!("\"{more}\" belongs to a step \"{}\"", of.join("\" or \""));
                return Err(ScriptError::new(says).within(format_args!(".{more}")));
            }
            (None, None) => return Err(unknown("step", name, STEPS)),
            (None, Some(_)) => {
                let known: Vec<&str> = MORE.iter().map(|(more, _)| *more).chain(STEPS.iter().copied()).collect();
                return Err(unknown("member", name, &known));
            }
        }
    }
    step.ok_or_else(|| ScriptError::new(format!("a step is an object with one of {}", STEPS.join(", "))))
}

/// The steps with one member.
fn plain(name: &str, raw: &RawValue) -> Result<ScriptStep, ScriptError> {
    Ok(match name {
        "sleep_ms" => ScriptStep::Sleep(Duration::from_millis(number(raw, 0, WAIT_MAX_MS)?.into())),
        "echo" => yes(raw, "echo").map(|()| ScriptStep::echo())?,
        "hang" => yes(raw, "hang").map(|()| ScriptStep::Hang)?,
        "metadata" => ScriptStep::Metadata(object(raw)?),
        "message" => {
            ScriptStep::Reply(words(raw)?.ok_or_else(|| ScriptError::new("a direct message must say something"))?)
        }
        "input" => ScriptStep::end(EndState::InputRequired, words(raw)?),
        "auth" => ScriptStep::end(EndState::AuthRequired, words(raw)?),
        "fail" => ScriptStep::end(EndState::Failed, words(raw)?),
        "reject" => ScriptStep::end(EndState::Rejected, words(raw)?),
        _ => ScriptStep::end(EndState::Completed, words(raw)?),
    })
}

fn yes(raw: &RawValue, name: &str) -> Result<(), ScriptError> {
    if flag(raw)? { Ok(()) } else { Err(ScriptError::new(format!("\"{name}\" is true or left out"))) }
}

fn retries(raw: &RawValue, place: usize) -> Result<bool, ScriptError> {
    if place > 0 {
        return Err(ScriptError::new("\"restart\" can only be the first step").within(".restart"));
    }
    match text(raw).as_deref() {
        Ok("retry") => Ok(true),
        Ok("fail") => Ok(false),
        _ => Err(ScriptError::new("\"restart\" is \"retry\" or \"fail\"").within(".restart")),
    }
}

/// A status step is for the working state; every other state has its own step.
fn working(raw: &RawValue) -> Result<(), ScriptError> {
    let state = text(raw)?.to_lowercase().replace('_', "-");
    let step = match state.trim_start_matches("task-state-") {
        "working" => return Ok(()),
        "completed" => "use the step \"complete\"",
        "failed" => "use the step \"fail\"",
        "rejected" => "use the step \"reject\"",
        "input-required" => "use the step \"input\"",
        "auth-required" => "use the step \"auth\"",
        "canceled" | "cancelled" => "use the step \"hang\" and cancel the task",
        "submitted" => "every task begins as submitted",
        _ => "the other states have steps of their own",
    };
    Err(ScriptError::new(format!("\"status\" can only be \"working\"; {step}")))
}
