//! A task as a file for a bug report, and the read-only copy that another server makes of it.
//!
//! A bundle has the log of the task in its stored form, so that the copy is folded and shown as the task is. Left out are money,
//! traces, the names of remote tasks, queries of addresses, and large content; on request all content.

use std::sync::Arc;

use engine::{Import, ImportedTask};
use model::{
    Artifact, Body, Content, Event, Fault, Inbound, Json, Kind, Message, Opened, Part, Role, Seq, State, StatusChange,
    Task, TaskId, Time, stored,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::AdminContext;

const FORMAT: &str = "rialto-task";
const VERSION: u32 = 1;
/// The longest log of a bundle, in bytes of JSON and in events.
pub(crate) const MOST: usize = 16 << 20;
const EVENTS: usize = 100_000;
/// The largest bundle that is imported.
pub const LARGEST: usize = 2 * MOST;
/// Bytes of a log that are read at once.
const PIECE: usize = 1 << 20;

/// The content of a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum BundleContent {
    /// All but large content.
    Whole,
    /// Sizes only.
    None,
}

/// A bundle as it is written. Readers need the first five members and the log.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Bundle {
    pub(crate) format: &'static str,
    pub(crate) version: u32,
    /// The release of the server.
    pub(crate) release: &'static str,
    pub(crate) exported_at: String,
    pub(crate) content: BundleContent,
    pub(crate) id: String,
    /// Every event as a pair of its time and its stored form: the JSON of a payload of [`stored`].
    pub(crate) log: Box<RawValue>,
}

/// A bundle as it is read. Other members are for people.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadBundle {
    release: String,
    exported_at: String,
    id: TaskId,
    log: Box<RawValue>,
}

/// Read before anything else, so that another form is told as such.
#[derive(Deserialize)]
struct BundleForm {
    format: String,
    version: u32,
}

/// Makes the bundle of a task.
pub(crate) async fn export(context: &AdminContext<'_>, id: TaskId, content: BundleContent) -> Result<Bundle, Fault> {
    let unavailable = |trouble: model::ports::store::StoreError| Fault::new(Kind::Unavailable, trouble.to_string());
    let (mut payloads, mut bytes, mut count, mut last) = (Vec::new(), 0, 0, Seq::ZERO);
    loop {
        let piece = context.engine.store().events(id, last, PIECE).await.map_err(unavailable)?;
        let Some(end) = piece.last().map(|event| event.seq) else { break };
        last = end;
        let redacted = piece.into_iter().map(|event| Event { body: redacted(event.body, content), ..event });
        let events: Vec<Event> = redacted.collect();
        let payload = stored::encode(&events);
        bytes += payload.len();
        count += events.len();
        if bytes > MOST || count > EVENTS {
            let advice = match content {
                BundleContent::Whole => "; content=none may be small enough",
                BundleContent::None => "",
            };
            let says = format!("the log is longer than {} MiB or {EVENTS} events{advice}", MOST >> 20);
            return Err(Fault::new(Kind::TooLarge, says));
        }
        payloads.push(payload);
    }
    if payloads.is_empty() {
        return Err(Fault::task_not_found(id));
    }
    let mut log = stored::joined(payloads.iter().map(Vec::as_slice)).unwrap_or_default();
    drop(payloads);
    // The version of a payload is its first byte.
    log.drain(..log.len().min(1));
    let log = String::from_utf8(log).map_err(Fault::internal)?;
    Ok(Bundle {
        format: FORMAT,
        version: VERSION,
        release: env!("CARGO_PKG_VERSION"),
        exported_at: now().to_string(),
        content,
        id: id.to_string(),
        log: RawValue::from_string(log).map_err(Fault::internal)?,
    })
}

/// The events of a log as a bundle has it.
fn events_of(log: &RawValue) -> Result<Vec<Event>, stored::Error> {
    let mut payload = stored::encode(&[]);
    payload.truncate(1);
    payload.extend_from_slice(log.get().as_bytes());
    stored::decode(Seq(1), &payload)
}

fn now() -> Time {
    Time(jiff::Timestamp::now().as_millisecond())
}

fn redacted(body: Body, content: BundleContent) -> Body {
    let is_none = content == BundleContent::None;
    let json = |json: Json| if is_none { size_of(&json) } else { json };
    let message = |said: &Message| {
        Arc::new(Message {
            parts: said.parts.iter().map(|part| redacted_part(part, is_none)).collect(),
            metadata: said.metadata.clone().map(json),
            ..said.clone()
        })
    };
    match body {
        Body::Opened(opened) => Body::Opened(Box::new(Opened { views: Vec::new(), parties: Vec::new(), ..*opened })),
        Body::Message(inbound) => {
            let inbound = Arc::unwrap_or_clone(inbound);
            Body::Message(Arc::new(Inbound {
                message: message(&inbound.message),
                metadata: inbound.metadata.map(json),
                trace: None,
                payer: None,
                ..inbound
            }))
        }
        Body::TurnStarted { turn, attempt, hold: _ } => Body::TurnStarted { turn, attempt, hold: None },
        Body::Bound { remote: _ } => Body::Bound { remote: "(left out)".to_owned() },
        Body::Status(change) => Body::Status(StatusChange {
            message: change.message.as_deref().map(message),
            metadata: change.metadata.map(json),
            ..change
        }),
        Body::Artifact(mut chunk) => {
            let artifact = Arc::unwrap_or_clone(chunk.artifact);
            chunk.artifact = Arc::new(Artifact {
                parts: artifact.parts.iter().map(|part| redacted_part(part, is_none)).collect(),
                description: artifact.description.filter(|_| !is_none),
                metadata: artifact.metadata.map(json),
                ..artifact
            });
            chunk.metadata = chunk.metadata.map(json);
            Body::Artifact(chunk)
        }
        Body::Replied(said) => Body::Replied(message(&said)),
        Body::Metadata(metadata) => Body::Metadata(json(metadata)),
        Body::CancelRequested { metadata } => Body::CancelRequested { metadata: metadata.map(json) },
    }
}

fn size_of(json: &Json) -> Json {
    Json::from_value(&json!({ "bytes": json.text().len() }))
}

fn redacted_part(part: &Part, is_none: bool) -> Part {
    let named = |content: Content| Part {
        content,
        filename: part.filename.clone().filter(|_| !is_none),
        media_type: part.media_type.clone(),
        metadata: part.metadata.as_ref().map(|metadata| if is_none { size_of(metadata) } else { metadata.clone() }),
    };
    let left_out = |what: &str, bytes: u64| Part {
        media_type: None,
        ..named(Content::Text(format!("({what} of {bytes} bytes, left out)")))
    };
    match &part.content {
        Content::Blob(blob) => left_out("large content", blob.len),
        Content::Text(text) if is_none => left_out("a text", text.len() as u64),
        Content::Raw(bytes) if is_none => left_out("a file", bytes.len() as u64),
        Content::Data(data) if is_none => named(Content::Data(size_of(data))),
        Content::Url(address) if is_none => left_out("an address", address.len() as u64),
        // Queries of addresses give access to files.
        Content::Url(address) => {
            let end = address.find(['?', '#']).unwrap_or(address.len());
            named(Content::Url(without_user(&address[..end])))
        }
        Content::Text(_) | Content::Raw(_) | Content::Data(_) => part.clone(),
    }
}

/// An address without the name and password before its host.
fn without_user(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else { return address.to_owned() };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}{path}")
}

/// Stores a settled copy of the task of a bundle, which no caller sees.
pub(super) async fn import(context: &AdminContext<'_>, text: &str) -> Result<Value, Fault> {
    let refused = |says: String| Fault::new(Kind::InvalidParams, says);
    if text.len() > LARGEST {
        return Err(refused(format!("the bundle is larger than {} MiB", LARGEST >> 20)));
    }
    let no_bundle = |error: serde_json::Error| refused(format!("this is no bundle of a task: {error}"));
    let form: BundleForm = serde_json::from_str(text).map_err(no_bundle)?;
    if form.format != FORMAT {
        return Err(refused(format!("this is no bundle of a task: its format is {:?}", form.format)));
    }
    if form.version != VERSION {
        let says = format!("the bundle has version {}, and this release reads version {VERSION}", form.version);
        return Err(refused(says));
    }
    let bundle: ReadBundle = serde_json::from_str(text).map_err(no_bundle)?;
    let origin = bundle.id;
    // A later export of the same log is the same task.
    let exported = [b"import\0".as_slice(), origin.0.as_bytes().as_slice(), bundle.log.get().as_bytes()].concat();
    let key = Sha256::digest(exported).into();
    let events = events_of(&bundle.log).map_err(|error| refused(format!("this is no bundle of a task: {error}")))?;
    if events.len() > EVENTS {
        return Err(refused(format!("the log has more than {EVENTS} events")));
    }
    let log = copy_of(context.engine.new_task_id(), &bundle, events)?;
    match context.engine.import(ImportedTask { log, key }).await? {
        Import::Stored(id) => {
            context.changed("tasks", "imported", json!({ "task": id.to_string(), "of": origin.to_string() }));
            Ok(json!({ "id": id.to_string(), "of": origin.to_string() }))
        }
        Import::Known(id) => Err(refused(format!("this task was imported already, as {id}"))),
    }
}

/// The log of the copy: it says what it is a copy of, and ends where the export ended.
fn copy_of(id: TaskId, bundle: &ReadBundle, events: Vec<Event>) -> Result<Vec<(Time, Body)>, Fault> {
    let ReadBundle { release, exported_at, id: origin, log: _ } = bundle;
    let mut events = events.into_iter();
    let Some(Event { at, body: Body::Opened(opened), .. }) = events.next() else {
        return Err(Fault::new(Kind::InvalidParams, "the log of the bundle does not begin with the opening of a task"));
    };
    let imported = json!({
        "of": origin.to_string(), "callersId": opened.alias.as_deref(), "release": release, "exportedAt": exported_at,
    });
    let opened = Opened { id, alias: None, follows: None, views: Vec::new(), parties: Vec::new(), ..*opened };
    let mut copy = vec![
        (at, Body::Opened(Box::new(opened))),
        (at, Body::Metadata(Json::from_value(&json!({ "imported": imported })))),
    ];
    copy.extend(events.map(|event| (event.at, event.body)));
    if let Some((at, state)) = unsettled(&copy)? {
        let said = format!("The task was {state} when it was exported.");
        let message = Message {
            id: format!("imported-{id}").into(),
            role: Role::Agent,
            parts: vec![Part::text(said)],
            metadata: None,
            extensions: Vec::new(),
            references: Vec::new(),
        };
        let change = StatusChange { state: State::Canceled, message: Some(Arc::new(message)), metadata: None };
        copy.push((at, Body::Status(change)));
    }
    Ok(copy)
}

/// The last time and the state of a log that has not settled.
fn unsettled(log: &[(Time, Body)]) -> Result<Option<(Time, &'static str)>, Fault> {
    let events = log.iter().enumerate().map(|(at, (time, body))| Event {
        seq: Seq::ZERO.plus(at + 1),
        at: *time,
        body: body.clone(),
    });
    let events: Vec<Event> = events.collect();
    let task = Task::fold(&events)
        .map_err(|error| Fault::new(Kind::InvalidParams, format!("the log of the bundle is damaged: {error}")))?;
    let last = events.last().map(|event| event.at);
    Ok(task.filter(|task| !task.core.is_settled()).zip(last).map(|(task, at)| (at, task.state().word())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(content: Content) -> Part {
        Part { filename: Some("plan.txt".into()), media_type: Some("text/plain".into()), ..Part::new(content) }
    }

    #[test]
    fn addresses_lose_what_gives_access() {
        for (address, shown) in [
            ("https://ann:secret@files.example/a/b?token=secret#x", "https://files.example/a/b"),
            ("https://files.example", "https://files.example"),
            ("https://u@h:8443/a@b", "https://h:8443/a@b"),
            ("mailto:a@b", "mailto:a@b"),
        ] {
            let redacted = redacted_part(&part(Content::Url(address.into())), false);
            assert_eq!(redacted.content, Content::Url(shown.into()), "{address}");
        }
    }

    #[test]
    fn without_content_only_sizes_are_left() {
        let data = Json::from_value(&json!({ "secret": 1 }));
        for content in [
            Content::Text("secret".into()),
            Content::Raw(b"secret".as_slice().to_vec().into()),
            Content::Url("https://secret/".into()),
            Content::Data(data.clone()),
        ] {
            let shown = redacted_part(&Part { metadata: Some(data.clone()), ..part(content) }, true);
            let text = serde_json::to_string(&shown).unwrap();
            assert!(!text.contains("secret") && !text.contains("plan.txt") && text.contains("bytes"), "{text}");
        }
    }

    #[test]
    fn money_traces_and_remote_names_are_left_out() {
        let turn = Body::TurnStarted {
            turn: "0190f3c4-1111-7222-8333-444455556666".parse().unwrap(),
            attempt: 1,
            hold: Json::parse("{\"secret\":1}"),
        };
        for body in [turn, Body::Bound { remote: "secret".into() }] {
            let text = serde_json::to_string(&redacted(body, BundleContent::Whole)).unwrap();
            assert!(!text.contains("secret"), "{text}");
        }
    }
}
