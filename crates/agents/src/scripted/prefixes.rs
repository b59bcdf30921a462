//! Behaviours by `messageId`: public test suites cannot put instructions into the message, so they choose its id.

use std::time::Duration;

use bytes::Bytes;
use model::ports::agent::{AgentMessage, ArtifactChunk, EndState};
use model::{Content as PartContent, Json, Part};

use super::ScriptedMode;
use super::step::{ChunkContent, Chunks, ScriptStep};

pub(super) struct Prefix {
    pub(super) prefix: &'static str,
    build: fn(&ScriptSettings) -> Vec<ScriptStep>,
}

/// Settings that suites expect differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ScriptSettings {
    pub(super) mode: ScriptedMode,
    /// How long a task for a resubscription keeps working.
    pub(super) hold: Duration,
}

pub(super) const PREFIXES: &[Prefix] = &[
    Prefix { prefix: "tck-complete-task", build: |_| vec![ScriptStep::say(EndState::Completed, "Hello from TCK")] },
    Prefix { prefix: "tck-artifact-text", build: |_| vec![generated_text(), ScriptStep::complete()] },
    Prefix { prefix: "tck-artifact-file", build: |_| vec![file(), ScriptStep::complete()] },
    Prefix { prefix: "tck-artifact-file-url", build: |_| vec![file_url(), ScriptStep::complete()] },
    Prefix { prefix: "tck-artifact-data", build: |_| vec![data(), ScriptStep::complete()] },
    Prefix {
        prefix: "tck-message-response",
        build: |_| vec![ScriptStep::Reply(AgentMessage::text("Direct message response"))],
    },
    Prefix { prefix: "tck-input-required", build: |_| vec![ScriptStep::end(EndState::InputRequired, None)] },
    Prefix { prefix: "tck-reject-task", build: |_| vec![ScriptStep::end(EndState::Rejected, None)] },
    Prefix { prefix: "tck-stream-001", build: |_| worked(text("Stream hello from TCK")) },
    Prefix { prefix: "tck-stream-002", build: |_| vec![ScriptStep::complete()] },
    Prefix { prefix: "tck-stream-003", build: |_| worked(text("Stream task lifecycle")) },
    Prefix { prefix: "tck-stream-ordering-001", build: |_| worked(text("Ordered output")) },
    Prefix { prefix: "tck-stream-artifact-text", build: |_| worked(generated_text()) },
    Prefix { prefix: "tck-stream-artifact-file", build: |_| worked(file()) },
    Prefix { prefix: "tck-stream-artifact-chunked", build: |_| chunked() },
    Prefix { prefix: "test-resubscribe-message-id", build: resubscribe },
];

/// The steps for a message id: those of the longest prefix that matches.
pub(super) fn steps(id: &str, manner: &ScriptSettings) -> Option<Vec<ScriptStep>> {
    find(id).map(|known| (known.build)(manner))
}

pub(super) fn find(id: &str) -> Option<&'static Prefix> {
    PREFIXES.iter().filter(|known| id.starts_with(known.prefix)).max_by_key(|known| known.prefix.len())
}

fn worked(artifact: ScriptStep) -> Vec<ScriptStep> {
    vec![ScriptStep::Working(None), artifact, ScriptStep::complete()]
}

fn resubscribe(manner: &ScriptSettings) -> Vec<ScriptStep> {
    match manner.mode {
        ScriptedMode::Play => vec![ScriptStep::Working(None), ScriptStep::Sleep(manner.hold), ScriptStep::complete()],
        ScriptedMode::Ask => vec![ScriptStep::Working(None), ScriptStep::Beat(Duration::from_secs(1))],
    }
}

fn text(text: &str) -> ScriptStep {
    ScriptStep::artifact("output", Part::text(text))
}

fn generated_text() -> ScriptStep {
    text("Generated text content")
}

fn output_txt(content: PartContent) -> ScriptStep {
    let part =
        Part { filename: Some("output.txt".into()), media_type: Some("text/plain".into()), ..Part::new(content) };
    ScriptStep::artifact("output.txt", part)
}

fn file() -> ScriptStep {
    output_txt(PartContent::Raw(Bytes::from_static(b"tck")))
}

fn file_url() -> ScriptStep {
    output_txt(PartContent::Url("https://example.com/output.txt".into()))
}

fn data() -> ScriptStep {
    let data = Json::parse(r#"{"key":"value","count":42}"#);
    ScriptStep::artifact("output", Part::new(data.map_or_else(|| PartContent::Text(String::new()), PartContent::Data)))
}

/// Two chunks with different texts, so two steps with one key.
fn chunked() -> Vec<ScriptStep> {
    let chunk = |text: &str, append: bool| {
        let piece = ArtifactChunk {
            key: "chunked".into(),
            name: Some("output".into()),
            parts: vec![Part::text(text)],
            append,
            last: append,
            ..ArtifactChunk::default()
        };
        let chunks = Chunks { piece, content: ChunkContent::Given, count: 1, every: Duration::ZERO, named: true };
        ScriptStep::Artifact(Box::new(chunks))
    };
    vec![ScriptStep::Working(None), chunk("chunk-1 ", false), chunk("chunk-2", true), ScriptStep::complete()]
}
