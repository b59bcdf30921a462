//! Text commands: the same steps in one word, for people at a keyboard. A message is a command when a single text
//! part is all it has and the whole text is the command; any other message is not.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use model::ports::agent::{AgentMessage, ArtifactChunk, EndState};
use model::{Content as PartContent, Fault, Json, Message, Part};

use super::script::{CHUNKS_MAX, WAIT_MAX_MS};
use super::step::{ChunkContent, Chunks, ScriptStep};

/// The steps, or an error; none when the argument makes no sense, which leaves the text an ordinary one.
type Built = Option<Result<Vec<ScriptStep>, String>>;

pub(super) struct TextCommand {
    name: &'static str,
    pub(super) usage: &'static str,
    pub(super) says: &'static str,
    build: fn(Option<&str>) -> Built,
}

pub(super) const COMMANDS: &[TextCommand] = &[
    TextCommand {
        name: "help",
        usage: "help",
        says: "this list",
        build: |arg| bare(arg, || about("help", Part::text(help()))),
    },
    TextCommand {
        name: "chunks",
        usage: "chunks:20 every:50",
        says: "20 chunks of one artifact, 50 ms apart (every: may be left out)",
        build: chunks,
    },
    TextCommand {
        name: "ask",
        usage: "ask: which colour?",
        says: "input-required",
        build: |arg| ends(arg, EndState::InputRequired, "what shall I do?"),
    },
    TextCommand {
        name: "auth",
        usage: "auth: sign in first",
        says: "auth-required",
        build: |arg| ends(arg, EndState::AuthRequired, "please sign in"),
    },
    TextCommand {
        name: "complete",
        usage: "complete: done",
        says: "completed",
        build: |arg| ends(arg, EndState::Completed, "done"),
    },
    TextCommand {
        name: "fail",
        usage: "fail: out of paper",
        says: "failed",
        build: |arg| ends(arg, EndState::Failed, "failed as asked"),
    },
    TextCommand {
        name: "reject",
        usage: "reject: not my job",
        says: "rejected, without working",
        build: |arg| Some(Ok(vec![ScriptStep::say(EndState::Rejected, arg.unwrap_or("rejected as asked"))])),
    },
    TextCommand {
        name: "hang",
        usage: "hang",
        says: "working until cancelled",
        build: |arg| bare(arg, || vec![ScriptStep::Working(None), ScriptStep::Hang]),
    },
    TextCommand { name: "sleep", usage: "sleep:500", says: "working for 500 ms, then completed", build: sleep },
    TextCommand {
        name: "working",
        usage: "working: on it",
        says: "a status message, then completed",
        build: |arg| Some(Ok(vec![ScriptStep::Working(Some(AgentMessage::text(arg?))), ScriptStep::complete()])),
    },
    TextCommand {
        name: "message",
        usage: "message: hi",
        says: "a direct message and no task",
        build: |arg| Some(Ok(vec![ScriptStep::Reply(AgentMessage::text(arg.unwrap_or("a direct message")))])),
    },
    TextCommand {
        name: "file",
        usage: "file",
        says: "an artifact with a file's bytes",
        build: |arg| bare(arg, || about("hello.txt", file(PartContent::Raw(Bytes::from_static(b"hello\n"))))),
    },
    TextCommand {
        name: "url",
        usage: "url",
        says: "an artifact with a file's address",
        build: |arg| bare(arg, || about("hello.txt", file(PartContent::Url("https://example.com/hello.txt".into())))),
    },
    TextCommand {
        name: "image",
        usage: "image",
        says: "an artifact with a small PNG",
        build: |arg| bare(arg, || about("dot.png", image())),
    },
    TextCommand {
        name: "data",
        usage: "data",
        says: "an artifact with structured data",
        build: |arg| {
            bare(arg, || {
                about("data", Part::data(Json::from_value(&serde_json::json!({ "hello": "world", "count": 42 }))))
            })
        },
    },
];

/// The steps of a command, or none when the message is not one.
pub(super) fn steps(message: &Message) -> Result<Option<Vec<ScriptStep>>, Fault> {
    let [Part { content: PartContent::Text(text), .. }] = &message.parts[..] else { return Ok(None) };
    let (name, arg) = match text.trim().split_once(':') {
        Some((name, arg)) => (name.trim_end(), Some(arg.trim()).filter(|arg| !arg.is_empty())),
        None => (text.trim(), None),
    };
    let Some(command) = COMMANDS.iter().find(|known| known.name.eq_ignore_ascii_case(name)) else { return Ok(None) };
    (command.build)(arg).transpose().map_err(|says| Fault::params("message.parts[0].text", says))
}

pub(super) fn help() -> String {
    let mut text = String::from("Say one of these, or anything else to have it back:\n\n");
    for command in COMMANDS {
        text.push_str(&format!("  {:<20} {}\n", command.usage, command.says));
    }
    text.push_str("\nOr send a data part {\"script\":[...]}: docs/scripted.md has every step.\n");
    text
}

/// A command without an argument.
fn bare(arg: Option<&str>, steps: impl FnOnce() -> Vec<ScriptStep>) -> Built {
    if arg.is_some() { None } else { Some(Ok(steps())) }
}

fn ends(arg: Option<&str>, state: EndState, otherwise: &str) -> Built {
    Some(Ok(vec![ScriptStep::Working(None), ScriptStep::say(state, arg.unwrap_or(otherwise))]))
}

fn chunks(arg: Option<&str>) -> Built {
    let mut given = arg?.split_whitespace();
    let count = whole(given.next()?)?;
    let every_ms = match given.next() {
        Some(every) => whole(every.to_ascii_lowercase().strip_prefix("every:")?)?,
        None => 0,
    };
    if given.next().is_some() {
        return None;
    }
    Some(bounded("chunks", count, 1, CHUNKS_MAX).and_then(|count| {
        let every = Duration::from_millis(bounded("every", every_ms, 0, WAIT_MAX_MS)?.into());
        let piece = ArtifactChunk { name: Some("chunks".into()), last: true, ..ArtifactChunk::default() };
        let chunks = Chunks { piece, content: ChunkContent::Numbered, count, every, named: false };
        Ok(vec![ScriptStep::Working(None), ScriptStep::Artifact(Box::new(chunks)), ScriptStep::complete()])
    }))
}

fn sleep(arg: Option<&str>) -> Built {
    let time_ms = whole(arg?)?;
    Some(bounded("sleep", time_ms, 0, WAIT_MAX_MS).map(|time_ms| {
        vec![
            ScriptStep::Working(None),
            ScriptStep::Sleep(Duration::from_millis(time_ms.into())),
            ScriptStep::complete(),
        ]
    }))
}

/// Digits; a number beyond u64 counts as its maximum.
fn whole(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u64::MAX))
}

fn bounded(name: &str, number: u64, least: u32, most: u32) -> Result<u32, String> {
    let within = u32::try_from(number).ok().filter(|number| (least..=most).contains(number));
    within.ok_or_else(|| format!("{name} goes from {least} to {most}"))
}

fn about(name: &str, part: Part) -> Vec<ScriptStep> {
    vec![ScriptStep::Working(None), ScriptStep::artifact(name, part), ScriptStep::complete()]
}

fn file(content: PartContent) -> Part {
    Part { filename: Some("hello.txt".into()), media_type: Some("text/plain".into()), ..Part::new(content) }
}

/// An image of one pixel.
fn image() -> Part {
    const PNG: &str =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let bytes = PartContent::Raw(STANDARD.decode(PNG).unwrap_or_default().into());
    Part { filename: Some("dot.png".into()), media_type: Some("image/png".into()), ..Part::new(bytes) }
}
