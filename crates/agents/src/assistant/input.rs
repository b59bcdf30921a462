//! The input of a run: the texts of its messages, and their data merged in order.

use model::ports::agent::Turn;
use model::{Content, Fault, Json, Message};

#[derive(Debug, Default)]
pub(super) struct Input {
    texts: Vec<String>,
    data: Option<Json>,
}

/// Refuses data that cannot be merged.
pub(super) fn check(message: &Message) -> Result<(), Fault> {
    for (i, part) in message.parts.iter().enumerate() {
        if let Content::Data(data) = &part.content
            && !data.is_object()
        {
            let says = "the assistant's input is an object; put this value into a member of one";
            return Err(Fault::params(format!("message.parts[{i}].data"), says));
        }
    }
    Ok(())
}

impl Input {
    pub(super) fn of(turn: &Turn) -> Input {
        let mut input = Input::default();
        for part in turn.messages.iter().flat_map(|inbound| &inbound.message.parts) {
            match &part.content {
                Content::Text(text) => input.texts.push(text.clone()),
                Content::Data(data) => {
                    input.data = Some(input.data.map_or_else(|| data.clone(), |under| under.merged(data)));
                }
                Content::Raw(_) | Content::Url(_) | Content::Blob(_) => {}
            }
        }
        input
    }

    /// The input as chat text; data is printed only where there is no text.
    pub(super) fn told(&self) -> String {
        if self.texts.is_empty() {
            return self.printed();
        }
        let said = format!("You said: {}", self.texts.join("\n"));
        match &self.data {
            Some(data) => format!("{said}\nYour data: {}", data.text()),
            None => said,
        }
    }

    /// Its data as JSON.
    pub(super) fn printed(&self) -> String {
        self.data.as_ref().map_or_else(|| "{}".to_owned(), |data| data.text().to_owned())
    }
}
