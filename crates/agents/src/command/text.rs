//! Plain text: the message's text on stdin, the answer on stdout, exit code 0 for success.

use bytes::{Bytes, BytesMut};
use model::ports::agent::Turn;
use model::{Content, Part};

use super::options::Options;
use super::process::{CommandProcess, ProgramEnd};
use crate::emitter::Emitter;
use crate::text_accumulator::TextAccumulator;

/// The program's input: the messages' texts, and data as JSON, each on its own lines.
pub(super) fn input(turn: &Turn) -> String {
    let parts = turn.messages.iter().flat_map(|inbound| &inbound.message.parts);
    let lines = parts.filter_map(|part| match &part.content {
        Content::Text(text) => Some(text.as_str()),
        Content::Data(data) => Some(data.text()),
        Content::Raw(_) | Content::Url(_) | Content::Blob(_) => None,
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Streams the program's output as one artifact.
pub(super) async fn listen(
    mut process: CommandProcess,
    options: &Options,
    turn: &Turn,
    most: usize,
    emitter: &Emitter,
) {
    // Delimiters are removed, so the pieces between them are separate texts.
    let mut response = TextAccumulator::new("response", turn).bordered(options.chunk.is_some());
    let mut cutter = Cutter::new(options);
    let mut total = 0;
    loop {
        let printed = tokio::select! {
            biased;
            printed = process.next() => printed,
            emission = response.lull() => {
                emitter.say(emission).await;
                continue;
            }
        };
        let Some(printed) = printed else { break };
        total += printed.len();
        if total > most {
            drop(process);
            return emitter.fail(format!("the program printed more than {most} bytes")).await;
        }
        for part in cutter.push(&printed) {
            if let Some(emission) = response.push(vec![part]) {
                emitter.say(emission).await;
            }
        }
    }
    let outcome = process.outcome();
    let rest = match &outcome {
        // A partial picture is useless; a partial text is kept.
        ProgramEnd::Failed(_) | ProgramEnd::Stopped if cutter.is_whole_only() => None,
        ProgramEnd::Done | ProgramEnd::Failed(_) | ProgramEnd::Stopped => cutter.finish(),
    };
    if let Some(part) = rest
        && let Some(emission) = response.push(vec![part])
    {
        emitter.say(emission).await;
    }
    if let Some(emission) = response.release(true) {
        emitter.say(emission).await;
    }
    super::end(outcome, emitter).await;
}

/// Splits bytes into parts: text at character boundaries or at the delimiter, other types not at all.
struct Cutter {
    buffer: BytesMut,
    delimiter: Option<String>,
    /// The output is a file of this type, sent when it is whole.
    media_type: Option<String>,
}

impl Cutter {
    fn new(options: &Options) -> Cutter {
        let media_type = options.media_type.clone();
        Cutter { buffer: BytesMut::new(), delimiter: options.chunk.clone(), media_type }
    }

    fn is_whole_only(&self) -> bool {
        self.media_type.is_some()
    }

    fn push(&mut self, bytes: &[u8]) -> Vec<Part> {
        self.buffer.extend_from_slice(bytes);
        if self.media_type.is_some() {
            return Vec::new();
        }
        match &self.delimiter {
            Some(delimiter) => {
                let mut parts = Vec::new();
                while let Some(at) = memchr::memmem::find(&self.buffer, delimiter.as_bytes()) {
                    let piece = self.buffer.split_to(at).freeze();
                    let _ = self.buffer.split_to(delimiter.len());
                    parts.push(part(piece));
                }
                parts
            }
            None => self.text().map(Part::text).into_iter().collect(),
        }
    }

    /// The text up to the last whole character. From the first bytes that are not text, all output is one file.
    fn text(&mut self) -> Option<String> {
        let valid = match std::str::from_utf8(&self.buffer) {
            Ok(all) => all.len(),
            Err(error) => {
                if error.error_len().is_some() {
                    self.media_type = Some("application/octet-stream".into());
                }
                error.valid_up_to()
            }
        };
        // Valid UTF-8, as checked above.
        let text = String::from_utf8(self.buffer.split_to(valid).to_vec()).ok()?;
        Some(text).filter(|text| !text.is_empty())
    }

    fn finish(&mut self) -> Option<Part> {
        let rest = self.buffer.split().freeze();
        match (rest.is_empty(), self.media_type.take()) {
            (true, _) => None,
            (false, Some(media_type)) => Some(Part { media_type: Some(media_type), ..Part::new(Content::Raw(rest)) }),
            (false, None) => Some(part(rest)),
        }
    }
}

/// A text part if the bytes are UTF-8, else a file.
fn part(bytes: Bytes) -> Part {
    match String::from_utf8(bytes.into()) {
        Ok(text) => Part::text(text),
        Err(error) => {
            let media_type = Some("application/octet-stream".into());
            Part { media_type, ..Part::new(Content::Raw(error.into_bytes().into())) }
        }
    }
}
