//! Turns the remote task's events and snapshots into emissions of our turn.

use std::collections::HashSet;
use std::time::Duration;

use client::seen::{Seen, StatusSeen, TaskSeen};
use client::{Error, FailureStage};
use model::ports::agent::{AgentEvent, AgentMessage, EndState, TurnEnd};
use model::{Json, Kind, Message, Part, Role, State, Task};

use super::passed_artifacts::PassedArtifacts;
use crate::outbound;

/// Most bytes of a remote text that are passed on.
const WORDS: usize = 2_048;
/// Most unreadable members that are named in one turn.
const UNREAD: usize = 100;

/// The state that was passed on of a task, to find the news in the next event.
#[derive(Debug)]
pub(super) struct Show {
    known: PassedArtifacts,
    /// The working state has been emitted.
    working: bool,
    /// The last message that was passed on as a status.
    told: Option<Message>,
    metadata: Option<Json>,
    /// The previous turn's question: while the server still shows it, it means nothing.
    answered: Option<String>,
    /// The question that the turn ends with.
    asks: Option<String>,
    /// Unreadable members that were reported.
    unread: HashSet<String>,
}

impl Show {
    pub(super) fn of(task: &Task, answered: Option<String>) -> Show {
        Show {
            known: PassedArtifacts::of(task),
            working: false,
            told: task.status.message.as_deref().cloned(),
            metadata: task.metadata.clone(),
            answered,
            asks: None,
            unread: HashSet::new(),
        }
    }

    /// From now on every question counts as new.
    pub(super) fn forget_answered(&mut self) {
        self.answered = None;
    }

    /// The mark of the newest question.
    pub(super) fn asks(&self) -> Option<&str> {
        self.asks.as_deref()
    }

    /// The news of an event or a snapshot, and the turn's end if this is it.
    pub(super) fn seen(&mut self, seen: Seen) -> (Vec<AgentEvent>, Option<AgentEvent>) {
        let mut news = Vec::new();
        let end = match seen {
            Seen::Task(TaskSeen { status, artifacts, metadata, unread, .. }) => {
                self.unread(unread, &mut news);
                let settled = status.state.is_some_and(State::is_terminal);
                if !settled {
                    // A task that exists is working, whatever it has produced so far.
                    self.working(&status, &mut news);
                }
                let pieces = artifacts.into_iter().filter_map(|artifact| self.known.whole(artifact, settled));
                news.extend(pieces.map(AgentEvent::Artifact));
                self.metadata(metadata, &mut news);
                self.end(status)
            }
            Seen::Status { status, metadata, closes, .. } => {
                if closes {
                    self.forget_answered();
                }
                self.metadata(metadata, &mut news);
                if status.state.is_none_or(|state| !state.is_terminal()) {
                    self.working(&status, &mut news);
                }
                self.end(status)
            }
            Seen::Artifact { artifact, append, last, .. } => {
                self.working = true;
                news.extend(self.known.chunk(artifact, append, last).map(AgentEvent::Artifact));
                None
            }
            // A message after other output is a status; on its own it is the answer.
            Seen::Message { message, .. } if self.working => {
                news.push(AgentEvent::Working(Some(words(message))));
                None
            }
            Seen::Message { message, .. } => Some(AgentEvent::Reply(words(message))),
            Seen::Partial { seen, unread } => match *seen {
                // A message on its own is the answer and carries the note.
                Seen::Message { mut message, .. } if !self.working => {
                    message.parts.extend(self.note(unread).map(Part::text));
                    Some(AgentEvent::Reply(words(message)))
                }
                seen => {
                    self.unread(unread, &mut news);
                    let (more, end) = self.seen(seen);
                    news.extend(more);
                    end
                }
            },
            Seen::Unread { value, why } => {
                self.working = true;
                let note = format!("an event of the remote agent could not be read and is passed on as it came: {why}");
                let parts = vec![Part::text(bounded(&note)), Part::data(value)];
                news.push(AgentEvent::Working(Some(AgentMessage { parts, ..AgentMessage::default() })));
                None
            }
        };
        (news, end)
    }

    /// Emits a status, once, that names the parts of an answer that could not be read.
    fn unread(&mut self, unread: Vec<String>, news: &mut Vec<AgentEvent>) {
        if let Some(note) = self.note(unread) {
            self.working = true;
            news.push(AgentEvent::Working(Some(AgentMessage::text(note))));
        }
    }

    /// A note of unreadable members that were not reported yet.
    fn note(&mut self, unread: Vec<String>) -> Option<String> {
        let mut fresh = unread;
        fresh.retain(|one| self.unread.len() < UNREAD && self.unread.insert(one.clone()));
        let says = "something in the remote agent's answer could not be read; parts are passed on as data, other members are left out";
        (!fresh.is_empty()).then(|| bounded(&format!("{says}: {}", fresh.join("; "))))
    }

    /// The messages between the one that opened the task and the answer, all of which came in one reply.
    pub(super) fn said_before(&mut self, task: &TaskSeen, began: &str) -> Vec<AgentEvent> {
        let TaskSeen { history, status, .. } = task;
        let from = history.iter().position(|said| &*said.id == began).map_or(0, |at| at + 1);
        let last = status.message.as_ref().map(|message| &message.id);
        let said = history[from..].iter().filter(|said| said.role == Role::Agent && Some(&said.id) != last);
        let said: Vec<AgentEvent> = said.map(|said| AgentEvent::Working(Some(words(said.clone())))).collect();
        self.working |= !said.is_empty();
        said
    }

    fn working(&mut self, status: &StatusSeen, news: &mut Vec<AgentEvent>) {
        // The question itself is emitted as the turn's end.
        if status.state.is_some_and(State::is_interrupted) {
            return;
        }
        let fresh = status.message.as_ref().filter(|message| !self.has_told(message));
        if let Some(message) = fresh {
            self.told = Some(message.clone());
            news.push(AgentEvent::Working(Some(words(message.clone()))));
        } else if !self.working {
            news.push(AgentEvent::Working(None));
        }
        self.working = true;
    }

    /// Whether this message was passed on last. Ids are not compared: ours differ from the server's.
    fn has_told(&self, message: &Message) -> bool {
        self.told.as_ref().is_some_and(|told| told.parts == message.parts && told.metadata == message.metadata)
    }

    fn metadata(&mut self, metadata: Option<Json>, news: &mut Vec<AgentEvent>) {
        let Some(json) = metadata.filter(|json| json.is_object() && json.text() != "{}") else { return };
        let merged = self.metadata.as_ref().map_or_else(|| json.clone(), |known| known.merged(&json));
        if self.metadata.as_ref() != Some(&merged) {
            self.metadata = Some(merged);
            news.push(AgentEvent::Metadata(json));
        }
    }

    fn end(&mut self, status: StatusSeen) -> Option<AgentEvent> {
        let state = status.state?;
        if state.is_interrupted() {
            let mark = mark(&status);
            if self.answered.as_ref() == Some(&mark) {
                return None;
            }
            self.asks = Some(mark);
        } else {
            self.forget_answered();
        }
        let state = match state {
            State::Submitted | State::Working => return None,
            State::Completed => EndState::Completed,
            State::Failed => EndState::Failed,
            State::Rejected => EndState::Rejected,
            State::Canceled => EndState::Canceled,
            State::InputRequired => EndState::InputRequired,
            State::AuthRequired => EndState::AuthRequired,
        };
        Some(AgentEvent::End(TurnEnd { state, words: status.message.map(words) }))
    }
}

/// Identifies a question: its time, id and content.
fn mark(status: &StatusSeen) -> String {
    let at = status.at.map(|at| at.0).unwrap_or_default();
    let id = status.message.as_ref().map(|message| &*message.id).unwrap_or_default();
    let text = status.message.as_ref().map(Message::text).unwrap_or_default();
    let text: String = text.chars().take(64).collect();
    format!("{at} {id} {text}")
}

fn words(message: Message) -> AgentMessage {
    let Message { parts, metadata, extensions, .. } = message;
    AgentMessage { parts, metadata, extensions }
}

/// The turn's end after an error. `taken` means that the server had accepted the work.
pub(super) fn ended_by(error: &Error, taken: bool, secrets: &[String]) -> AgentEvent {
    let refused_as_such = match error.kind {
        Kind::InvalidRequest
        | Kind::InvalidParams
        | Kind::TooLarge
        | Kind::MediaType
        | Kind::ContentType
        | Kind::Unsupported
        | Kind::TaskSettled
        | Kind::ExtensionRequired => error.stage == FailureStage::Refused && !taken,
        Kind::Parse
        | Kind::MethodNotFound
        | Kind::VerbNotAllowed
        | Kind::TaskNotFound
        | Kind::TaskNotCancelable
        | Kind::PushNotSupported
        | Kind::InvalidAgentResponse
        | Kind::ExtendedCardNotConfigured
        | Kind::VersionNotSupported
        | Kind::Unauthenticated
        | Kind::Forbidden
        | Kind::RateLimited
        | Kind::InsufficientBalance
        | Kind::BudgetExceeded
        | Kind::KeyReused
        | Kind::Unavailable
        | Kind::Internal => false,
    };
    let what = match (error.stage, error.kind) {
        (FailureStage::Refused, Kind::Unauthenticated | Kind::Forbidden) => {
            "the remote agent does not accept our credentials"
        }
        (FailureStage::Refused, Kind::InsufficientBalance | Kind::BudgetExceeded) => "the remote agent has to be paid",
        (FailureStage::Refused, Kind::TaskNotFound) if taken => "the remote agent no longer knows the task",
        (FailureStage::Refused, _) if refused_as_such => "the remote agent refused",
        (FailureStage::Refused, _) => "the remote agent failed",
        (FailureStage::Unreachable, _) => "the remote agent cannot be reached",
        (FailureStage::Broken, _) => "the connection to the remote agent was lost",
        (FailureStage::Unreadable, _) => "the remote agent's answer cannot be read",
        (FailureStage::Unaskable, _) => "the remote agent cannot be asked",
    };
    let text = bounded(&redacted(&format!("{what}: {error}"), secrets));
    let state = if refused_as_such { EndState::Rejected } else { EndState::Failed };
    AgentEvent::End(TurnEnd { state, words: Some(AgentMessage::text(text)) })
}

/// The status shown during a wait for another attempt.
pub(super) fn waits(error: &Error, pause: Duration, secrets: &[String]) -> AgentEvent {
    let text = format!("{error}; trying again in {}", outbound::seconds(pause));
    AgentEvent::Working(Some(AgentMessage::text(bounded(&redacted(&text, secrets)))))
}

fn redacted(text: &str, secrets: &[String]) -> String {
    let long_enough = secrets.iter().filter(|secret| secret.len() >= 4);
    long_enough.fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), "[secret]"))
}

fn bounded(text: &str) -> String {
    if text.len() <= WORDS {
        return text.to_owned();
    }
    let end = (0..=WORDS).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use model::{Artifact, Role};

    use super::*;
    use crate::scripted::stage::ScriptContext;

    fn show(answered: Option<&str>) -> Show {
        let mut stage = ScriptContext::new(std::sync::Arc::new(crate::echo::EchoAgent::new()));
        stage.say("m", vec![Part::text("x")]);
        Show::of(stage.task(), answered.map(str::to_owned))
    }

    fn said(id: &str, text: &str) -> Message {
        let parts = vec![Part::text(text)];
        Message { id: id.into(), role: Role::Agent, parts, metadata: None, extensions: vec![], references: vec![] }
    }

    fn status(state: Option<State>, message: Option<Message>) -> Seen {
        let status = StatusSeen { state, message, at: None };
        Seen::Status { task: "t".into(), context: None, status, metadata: None, closes: false }
    }

    fn task(state: State, message: Option<Message>, parts: &[&str], metadata: Option<&str>) -> Seen {
        let artifact = Artifact {
            id: "a".into(),
            name: None,
            description: None,
            parts: parts.iter().map(|text| Part::text(*text)).collect(),
            metadata: None,
            extensions: vec![],
        };
        Seen::Task(TaskSeen {
            id: "t".into(),
            context: None,
            status: StatusSeen { state: Some(state), message, at: None },
            artifacts: if parts.is_empty() { vec![] } else { vec![artifact] },
            history: vec![],
            metadata: metadata.and_then(Json::parse),
            unread: vec![],
        })
    }

    fn brief(seen: (Vec<AgentEvent>, Option<AgentEvent>)) -> Vec<String> {
        let all: Vec<AgentEvent> = seen.0.into_iter().chain(seen.1).collect();
        crate::scripted::stage::brief(&all)
    }

    #[test]
    fn the_same_sight_twice_is_news_once() {
        let mut show = show(None);
        let sight = || task(State::Working, Some(said("1", "on it")), &["x"], Some(r#"{"usage":1}"#));
        assert_eq!(brief(show.seen(sight())), ["working on it", "a=… x", r#"metadata {"usage":1}"#]);
        assert!(brief(show.seen(sight())).is_empty());
        assert!(brief(show.seen(status(Some(State::Working), None))).is_empty());
        // An unknown state counts as working.
        assert_eq!(brief(show.seen(status(None, Some(said("2", "odd"))))), ["working odd"]);
        assert_eq!(brief(show.seen(task(State::Completed, None, &["x", "y"], None))), ["a+ y", "Completed"]);
    }

    #[test]
    fn a_message_alone_is_the_answer_and_among_others_one_of_them() {
        let message = |text: &str| Seen::Message { message: said("m", text), context: None, task: None };
        assert_eq!(brief(show(None).seen(message("hi"))), ["reply hi"]);
        let mut at_work = show(None);
        at_work.seen(status(Some(State::Submitted), None));
        assert_eq!(brief(at_work.seen(message("hi"))), ["working hi"]);
    }

    #[test]
    fn a_question_that_was_answered_is_not_the_next_one() {
        let asks = |id: &str| status(Some(State::InputRequired), Some(said(id, "which?")));
        let mut first = show(None);
        assert_eq!(brief(first.seen(asks("1"))), ["InputRequired which?"]);
        let mark = first.asks().unwrap().to_owned();
        let mut second = show(Some(&mark));
        assert!(brief(second.seen(asks("1"))).is_empty(), "it still stands there");
        assert_eq!(brief(second.seen(asks("2"))), ["InputRequired which?"]);
        let mut third = show(Some(&mark));
        third.seen(status(Some(State::Working), None));
        assert_eq!(brief(third.seen(asks("1"))), ["InputRequired which?"], "asked again");
        let mut fourth = show(Some(&mark));
        fourth.forget_answered();
        assert_eq!(brief(fourth.seen(asks("1"))), ["InputRequired which?"]);
    }

    #[test]
    fn another_sides_words_are_bounded_and_hold_no_secret() {
        let mut error = Error::broken(format!("{} hunter2 {}", "x".repeat(10), "é".repeat(3_000)));
        error.stage = FailureStage::Unreadable;
        let AgentEvent::End(TurnEnd { state: EndState::Failed, words: Some(words) }) =
            ended_by(&error, true, &["hunter2".into(), "x".into()])
        else {
            panic!()
        };
        let text = words.parts[0].as_text().unwrap();
        assert!(text.len() <= WORDS + 4 && text.contains("[secret]") && !text.contains("hunter2"), "{text}");
        assert!(text.contains("xxxxxxxxxx"), "what is too short to be a secret is none");
    }
}
