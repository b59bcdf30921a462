//! The interface of the gRPC forms for fronts: one [`ProtoWire`] for each generation, all of them in
//! [`crate::PROTO_WIRES`].
//!
//! A wire reads the message of a request into a call, and writes the messages of the answers. It never frames: the length
//! before each message, compression, metadata and trailers are the front's.

use bytes::Bytes;
use model::{Blob, Event, Fault, Limits, Message, Part, PushConfig, Task};

use crate::card::CardFacts;
use crate::protobuf::{ProtoWriter, RpcStatus};
use crate::wire::{Codec, Decoded, Head, Operation, Page, TaskView};

/// A form whose messages are protobuf.
pub trait ProtoWire: Codec {
    /// The full name of its service: the first segment of a request's path.
    fn service(&self) -> &'static str;

    /// Major and minor of the version that requests may state.
    fn version(&self) -> (u32, u32);

    /// Its methods, each with its operation.
    fn methods(&self) -> &'static [(&'static str, Operation)];

    /// The operation of a method.
    fn operation(&self, method: &str) -> Option<Operation> {
        self.methods().iter().find(|(name, _)| *name == method).map(|(_, operation)| *operation)
    }

    /// Makes a call of the message of a request.
    fn decode(&self, operation: Operation, message: &[u8], limits: &Limits) -> Result<Decoded, Fault>;

    /// The answer to a get or a cancel. `shown` stands everywhere instead of the task's own id.
    fn task(&self, w: &mut ProtoWriter<'_>, task: &Task, view: &TaskView, shown: Option<&str>);

    /// The answer to a send that made or continued a task, and how a stream begins.
    fn sent_task(&self, w: &mut ProtoWriter<'_>, task: &Task, view: &TaskView, shown: Option<&str>);

    /// The answer to a send that was answered by a message, and the one message of a stream that is.
    fn sent_message(&self, w: &mut ProtoWriter<'_>, said: &Message, head: &Head<'_>);

    /// A page of a list; nothing where the generation has no lists.
    fn list(&self, _w: &mut ProtoWriter<'_>, _page: &Page<'_>) {}

    /// An event of a stream; `false`, and nothing written, for an internal event. `closing` when the stream ends after it.
    fn stream_event(&self, w: &mut ProtoWriter<'_>, head: &Head<'_>, event: &Event, closing: bool) -> bool;

    /// A push config as it is given: the front decides whether secrets are in it, and has put the id the caller knows
    /// the task under into `config.task`.
    fn push_config(&self, w: &mut ProtoWriter<'_>, config: &PushConfig, tenant: Option<&str>);

    fn push_list(&self, w: &mut ProtoWriter<'_>, configs: &[PushConfig], tenant: Option<&str>, next_page_token: &str);

    /// Where there is no extended card, or none for this caller, the operation for it answers the public card.
    fn has_public_card(&self) -> bool {
        false
    }

    /// The card as the operation for the extended card answers it.
    fn card(&self, facts: &CardFacts<'_>) -> Bytes;

    /// How a call ends that failed.
    fn status(&self, fault: &Fault, operation: Operation) -> RpcStatus;
}

/// The parts of a task whose content is kept beside the log.
pub fn blobs_of_task(task: &Task) -> impl Iterator<Item = (&Blob, &Part)> {
    let artifacts = task.artifacts.iter().flat_map(|artifact| &artifact.parts);
    let history = task.history.iter().flat_map(|message| &message.parts);
    let status = task.status.message.iter().flat_map(|message| &message.parts);
    let reply = task.reply.iter().flat_map(|message| &message.parts);
    artifacts.chain(history).chain(status).chain(reply).filter_map(blob_of)
}

/// The parts of an event whose content is kept beside the log.
pub fn blobs_of_event(event: &Event) -> impl Iterator<Item = (&Blob, &Part)> {
    use model::Body;
    let parts: &[Part] = match &event.body {
        Body::Status(change) => change.message.as_deref().map_or(&[], |message| &message.parts),
        Body::Artifact(chunk) => &chunk.artifact.parts,
        Body::Replied(said) => &said.parts,
        Body::Opened(_)
        | Body::Message(_)
        | Body::TurnStarted { .. }
        | Body::Bound { .. }
        | Body::Metadata(_)
        | Body::CancelRequested { .. } => &[],
    };
    parts.iter().filter_map(blob_of)
}

/// The parts of a message whose content is kept beside the log.
pub fn blobs_of_message(message: &Message) -> impl Iterator<Item = (&Blob, &Part)> {
    message.parts.iter().filter_map(blob_of)
}

fn blob_of(part: &Part) -> Option<(&Blob, &Part)> {
    match &part.content {
        model::Content::Blob(blob) => Some((blob, part)),
        model::Content::Text(_) | model::Content::Raw(_) | model::Content::Url(_) | model::Content::Data(_) => None,
    }
}
