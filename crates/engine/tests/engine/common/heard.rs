//! Short texts for the items of a subscription: `task submitted`, `working: on it`, `art a=text`, `art a+more`,
//! `completed.`; a full stop marks an item that closes the stream.

use engine::{Subscription, SubscriptionItem};
use model::{Body, Event, Part, Task};

pub(crate) fn hear(item: &SubscriptionItem) -> String {
    match item {
        SubscriptionItem::Task(task) => format!("task {}", task.state().word()),
        SubscriptionItem::Event { committed, closing } => {
            format!("{}{}", told(&committed.event), if *closing { "." } else { "" })
        }
        SubscriptionItem::Reply(reply) => format!("reply: {}", reply.message.text()),
    }
}

/// The short text of a public event.
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

/// The short text of the next item.
pub(crate) async fn next_heard(subscription: &mut Subscription) -> String {
    match subscription.next().await {
        Some(Ok(item)) => hear(&item),
        Some(Err(fault)) => format!("fault: {fault}"),
        None => "the end".to_owned(),
    }
}

/// All items of a subscription.
pub(crate) async fn collect(mut subscription: Subscription) -> Vec<SubscriptionItem> {
    let mut items = Vec::new();
    while let Some(item) = subscription.next().await {
        items.push(item.unwrap());
    }
    items
}

/// Applies a public event to a client's copy of the task.
pub(crate) fn apply_public(task: &mut Task, event: &Event) {
    assert!(event.body.is_public());
    task.apply(event).unwrap();
}

/// The text of the status.
pub(crate) fn last_words(task: &Task) -> String {
    task.status.message.as_ref().map(|message| message.text()).unwrap_or_default()
}
