//! Reads a completion: server-sent chunks, or one JSON object from a server that does not stream.
//!
//! Only the members used here are read; vendors add many others.

use std::collections::VecDeque;

use bytes::BytesMut;
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use serde::Deserialize;

use super::WHO;
use crate::events::{TokenUsage, short};
use crate::outbound::{RequestError, RetryRule};
use crate::sse::Sse;

/// Longest chunk.
const LONGEST: usize = 4 << 20;

pub(super) struct Completion {
    form: Form,
    texts: VecDeque<String>,
    reason: Option<String>,
    usage: Option<TokenUsage>,
    over: bool,
}

enum Form {
    Sse(Sse),
    Json(BytesMut),
}

/// The finish reason and the token usage.
pub(super) struct CompletionEnd {
    pub(super) reason: Option<String>,
    pub(super) usage: Option<TokenUsage>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Chunk {
    choices: Option<Vec<Choice>>,
    usage: Option<TokenUsage>,
    error: Option<serde_json::Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Choice {
    #[serde(alias = "message")]
    delta: Option<Delta>,
    finish_reason: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Delta {
    content: Option<String>,
    /// A model's refusal to answer.
    refusal: Option<String>,
}

impl Completion {
    pub(super) fn of(headers: &HeaderMap) -> Completion {
        let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let form = match content_type.trim_start().to_ascii_lowercase().starts_with("application/json") {
            true => Form::Json(BytesMut::new()),
            false => Form::Sse(Sse::new(LONGEST)),
        };
        Completion { form, texts: VecDeque::new(), reason: None, usage: None, over: false }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        match &mut self.form {
            Form::Sse(sse) => sse.push(bytes),
            Form::Json(body) => body.extend_from_slice(bytes),
        }
    }

    /// The body is complete: an error if the completion is not.
    pub(super) fn finish(&mut self) -> Result<(), RequestError> {
        match &mut self.form {
            Form::Json(body) => {
                let text = String::from_utf8_lossy(&body.split()).into_owned();
                self.take(&text)?;
            }
            // Some servers leave [DONE] out, but all of them send a finish reason.
            Form::Sse(_) if self.reason.is_some() => {}
            Form::Sse(_) => {
                return Err(RequestError { says: format!("{WHO} broke off its answer"), again: RetryRule::Unclear });
            }
        }
        self.over = true;
        Ok(())
    }

    /// The next piece of text.
    pub(super) fn next(&mut self) -> Result<Option<String>, RequestError> {
        loop {
            if let Some(text) = self.texts.pop_front() {
                return Ok(Some(text));
            }
            let Form::Sse(sse) = &mut self.form else { return Ok(None) };
            let next = sse.next().map_err(|too_long| RequestError::never(format!("{WHO}: {too_long}")))?;
            match next.as_deref().map(str::trim) {
                None => return Ok(None),
                Some("") => {}
                Some("[DONE]") => {
                    self.over = true;
                    return Ok(None);
                }
                Some(chunk) => self.take(chunk)?,
            }
        }
    }

    /// The finish, once all text has been read.
    pub(super) fn finished(&mut self) -> Option<CompletionEnd> {
        self.over.then(|| CompletionEnd { reason: self.reason.take(), usage: self.usage.take() })
    }

    fn take(&mut self, text: &str) -> Result<(), RequestError> {
        let chunk: Chunk = serde_json::from_str(text)
            .map_err(|_| RequestError::never(format!("{WHO} said what is no completion: {}", short(text))))?;
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            let says = error.get("message").unwrap_or(&error);
            let says = says.as_str().map_or_else(|| says.to_string(), str::to_owned);
            return Err(RequestError { says: format!("{WHO} failed: {}", short(&says)), again: RetryRule::Unclear });
        }
        if let Some(usage) = chunk.usage {
            self.usage = Some(usage);
        }
        // The request asks for one choice.
        let Some(choice) = chunk.choices.unwrap_or_default().into_iter().next() else { return Ok(()) };
        if choice.finish_reason.is_some() {
            self.reason = choice.finish_reason;
        }
        let delta = choice.delta.unwrap_or_default();
        let texts = [delta.content, delta.refusal].into_iter().flatten();
        self.texts.extend(texts.filter(|text| !text.is_empty()));
        Ok(())
    }
}
