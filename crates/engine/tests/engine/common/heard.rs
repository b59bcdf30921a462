//! What subscribers hear, in words: `task submitted`, `working: on it`, `art a=text`, `art a+more`, `completed.`; a
//! full stop says that the stream is said to end here.

use engine::{Item, Subscription};
use model::{Body, Event, Part, Task};

pub(crate) fn hear(item: &Item) -> String {
    match item {
        Item::Task(task) => format!("task {}", task.state().word()),
        Item::Event { committed, closing } => format!("{}{}", told(&committed.event), if *closing { "." } else { "" }),
        Item::Reply(reply) => format!("reply: {}", reply.message.text()),
    }
}

/// A public event in words.
pub(crate) fn told(event: &Event) -> String {
    match &event.body {
        Body::Status(change) => match &change.message {
            Some(message) => format!("{}: {}", change.state.word(), message.text()),
            None => change.state.word().to_owned(),
        },
        Body::Artifact(chunk) => {
            let text: String = chunk.artifact.parts.iter().filter_map(Part::as_text).collect();
            format!("art {}{}{text}", chunk.artifact.id, if chunk.append { '+' } else { '=' })
        }
        Body::Replied(message) => format!("replied: {}", message.text()),
        other => panic!("no subscriber hears of {other:?}"),
    }
}

/// The next thing a subscriber hears.
pub(crate) async fn next_heard(subscription: &mut Subscription) -> String {
    match subscription.next().await {
        Some(Ok(item)) => hear(&item),
        Some(Err(fault)) => format!("fault: {fault}"),
        None => "the end".to_owned(),
    }
}

/// Everything a subscriber hears, to the end.
pub(crate) async fn collect(mut subscription: Subscription) -> Vec<Item> {
    let mut items = Vec::new();
    while let Some(item) = subscription.next().await {
        items.push(item.unwrap());
    }
    items
}

/// What a client that knows the task up to some event knows after this one.
pub(crate) fn apply_public(task: &mut Task, event: &Event) {
    assert!(event.body.is_public());
    task.apply(event).unwrap();
}

/// The text of the status.
pub(crate) fn last_words(task: &Task) -> String {
    task.status.message.as_ref().map(|message| message.text()).unwrap_or_default()
}
