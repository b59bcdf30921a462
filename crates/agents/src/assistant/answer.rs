//! Emissions of the assistants: a streamed response, or questions. Names are those that clients of graph servers
//! expect.

use model::ports::agent::{AgentEvent, AgentMessage, ArtifactChunk, EndState, TurnEnd};
use model::{Json, Part};
use uuid::Uuid;

use super::questions::OpenQuestions;

/// Most chunks of a response.
const CHUNKS: usize = 4;

/// Completes with a text: a few chunks, then the whole text in their place, since clients read one part.
pub(super) fn response(text: &str, assistant: &Uuid) -> Vec<AgentEvent> {
    let piece = |text: &str, append: bool, last: bool| {
        AgentEvent::Artifact(ArtifactChunk {
            key: "response".into(),
            name: (!append).then(|| "Assistant Response".into()),
            description: (!append).then(|| format!("Response from assistant {assistant}")),
            parts: vec![Part::text(text)],
            append,
            last,
            ..ArtifactChunk::default()
        })
    };
    let mut said = vec![AgentEvent::Working(None)];
    let chunks = chunks(text);
    if chunks.len() > 1 {
        said.extend(chunks.iter().enumerate().map(|(i, chunk)| piece(chunk, i > 0, false)));
    }
    said.push(piece(text, false, true));
    said.push(AgentEvent::End(TurnEnd { state: EndState::Completed, words: None }));
    said
}

/// Asks the open questions. The key is the same in every turn, so the new list replaces the old one.
pub(super) fn interrupt(asked: &OpenQuestions) -> Vec<AgentEvent> {
    let parts = asked.open.iter().map(|question| {
        Part::data(Json::from_value(&serde_json::json!({"id": question.id, "value": {"question": question.says}})))
    });
    let piece = ArtifactChunk {
        key: "interrupt".into(),
        name: Some("Interrupt".into()),
        description: Some("Agent requires input to continue".into()),
        parts: parts.collect(),
        last: true,
        ..ArtifactChunk::default()
    };
    let says = asked.open.iter().map(|question| question.says).collect::<Vec<_>>().join(" ");
    vec![
        AgentEvent::Working(None),
        AgentEvent::Artifact(piece),
        AgentEvent::Bound(asked.kept()),
        AgentEvent::End(TurnEnd { state: EndState::InputRequired, words: Some(AgentMessage::text(says)) }),
    ]
}

/// Splits the text after spaces into chunks of similar size. An empty text is one chunk.
fn chunks(text: &str) -> Vec<&str> {
    let size = text.len().div_ceil(CHUNKS).max(8);
    let mut chunks = Vec::new();
    let mut rest = text;
    while rest.len() > size && chunks.len() + 1 < CHUNKS {
        let spaces = rest.char_indices().filter(|(_, c)| c.is_whitespace()).map(|(at, c)| at + c.len_utf8());
        let Some(cut) = spaces.filter(|cut| *cut < rest.len()).find(|cut| *cut >= size) else { break };
        let (chunk, after) = rest.split_at(cut);
        chunks.push(chunk);
        rest = after;
    }
    chunks.push(rest);
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_after_spaces_into_a_few_chunks_that_are_the_text() {
        assert_eq!(chunks(""), [""]);
        assert_eq!(chunks("You said: hi"), ["You said: ", "hi"]);
        assert_eq!(chunks(&"x".repeat(1_000)).len(), 1);
        for text in ["one two three four five six seven eight nine ten", "€ € € € € € € € € €", &"word ".repeat(999)]
        {
            let chunks = chunks(text);
            assert!((2..=CHUNKS).contains(&chunks.len()), "{chunks:?}");
            assert_eq!(chunks.concat(), text);
        }
    }
}
