//! Behaviours by `messageId`: public test suites cannot put instructions into the message, so they choose its id.

use std::time::Duration;

use bytes::Bytes;
use model::ports::agent::{AgentMessage, ArtifactChunk, EndState};
use model::{Content as PartContent, Json, Part};

use super::Mode;
use super::step::{Chunks, Content, Step};

pub(super) struct Prefix {
    pub(super) prefix: &'static str,
    build: fn(&Manner) -> Vec<Step>,
}

/// Settings that suites expect differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Manner {
    pub(super) mode: Mode,
    /// How long a task for a resubscription keeps working.
    pub(super) hold: Duration,
}

pub(super) const PREFIXES: &[Prefix] = &[
    Prefix { prefix: "tck-complete-task", build: |_| vec![Step::say(EndState::Completed, "Hello from TCK")] },
    Prefix { prefix: "tck-artifact-text", build: |_| vec![generated_text(), Step::complete()] },
    Prefix { prefix: "tck-artifact-file", build: |_| vec![file(), Step::complete()] },
    Prefix { prefix: "tck-artifact-file-url", build: |_| vec![file_url(), Step::complete()] },
    Prefix { prefix: "tck-artifact-data", build: |_| vec![data(), Step::complete()] },
    Prefix {
        prefix: "tck-message-response",
        build: |_| vec![Step::Reply(AgentMessage::text("Direct message response"))],
    },
    Prefix { prefix: "tck-input-required", build: |_| vec![Step::end(EndState::InputRequired, None)] },
    Prefix { prefix: "tck-reject-task", build: |_| vec![Step::end(EndState::Rejected, None)] },
    Prefix { prefix: "tck-stream-001", build: |_| worked(text("Stream hello from TCK")) },
    Prefix { prefix: "tck-stream-002", build: |_| vec![Step::complete()] },
    Prefix { prefix: "tck-stream-003", build: |_| worked(text("Stream task lifecycle")) },
    Prefix { prefix: "tck-stream-ordering-001", build: |_| worked(text("Ordered output")) },
    Prefix { prefix: "tck-stream-artifact-text", build: |_| worked(generated_text()) },
    Prefix { prefix: "tck-stream-artifact-file", build: |_| worked(file()) },
    Prefix { prefix: "tck-stream-artifact-chunked", build: |_| chunked() },
    Prefix { prefix: "test-resubscribe-message-id", build: resubscribe },
];

/// The steps for a message id: those of the longest prefix that matches.
pub(super) fn steps(id: &str, manner: &Manner) -> Option<Vec<Step>> {
    find(id).map(|known| (known.build)(manner))
}

pub(super) fn find(id: &str) -> Option<&'static Prefix> {
    PREFIXES.iter().filter(|known| id.starts_with(known.prefix)).max_by_key(|known| known.prefix.len())
}

fn worked(artifact: Step) -> Vec<Step> {
    vec![Step::Working(None), artifact, Step::complete()]
}

fn resubscribe(manner: &Manner) -> Vec<Step> {
    match manner.mode {
        Mode::Play => vec![Step::Working(None), Step::Sleep(manner.hold), Step::complete()],
        Mode::Ask => vec![Step::Working(None), Step::Beat(Duration::from_secs(1))],
    }
}

fn text(text: &str) -> Step {
    Step::artifact("output", Part::text(text))
}

fn generated_text() -> Step {
    text("Generated text content")
}

fn output_txt(content: PartContent) -> Step {
    let part =
        Part { filename: Some("output.txt".into()), media_type: Some("text/plain".into()), ..Part::new(content) };
    Step::artifact("output.txt", part)
}

fn file() -> Step {
    output_txt(PartContent::Raw(Bytes::from_static(b"tck")))
}

fn file_url() -> Step {
    output_txt(PartContent::Url("https://example.com/output.txt".into()))
}

fn data() -> Step {
    let data = Json::parse(r#"{"key":"value","count":42}"#);
    Step::artifact("output", Part::new(data.map_or_else(|| PartContent::Text(String::new()), PartContent::Data)))
}

/// Two chunks with different texts, so two steps with one key.
fn chunked() -> Vec<Step> {
    let chunk = |text: &str, append: bool| {
        let piece = ArtifactChunk {
            key: "chunked".into(),
            name: Some("output".into()),
            parts: vec![Part::text(text)],
            append,
            last: append,
            ..ArtifactChunk::default()
        };
        let chunks = Chunks { piece, content: Content::Given, count: 1, every: Duration::ZERO, named: true };
        Step::Artifact(Box::new(chunks))
    };
    vec![Step::Working(None), chunk("chunk-1 ", false), chunk("chunk-2", true), Step::complete()]
}
