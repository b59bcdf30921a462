//! Decodes requests of the older generations.
//!
//! Reading is liberal: `null` is absent, spellings of the proto pass everywhere, a part without `kind` or `type` is what
//! its members make it. Only where two readings are possible is a request refused.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use model::{Content, ContextId, Fault, Json, Limits, Message, Part, Send, Time, Wait};
use serde_json::value::RawValue;

use super::marks::{self, MetadataMarks};
use super::shapes::{self, DataPart};
use super::{PreV1Form, names};
use crate::framing::fields::{
    self, base64, each, optional_id, optional_id_text, present, references, required_id_text, some_parts, under,
};
use crate::framing::shape::{self, Int, Text};

/// A decoder for one form, with its limits.
#[derive(Clone, Copy, Debug)]
pub struct PreV1Decoder<'l> {
    pub(crate) form: PreV1Form,
    pub(crate) limits: &'l Limits,
    /// The sender is a Python SDK, which puts base64 into base64 where the proto has bytes.
    pub(crate) python: bool,
}

/// A message with the task and the context it names.
#[derive(Debug)]
pub struct PreV1Message {
    pub message: Message,
    pub task: Option<String>,
    pub context: Option<ContextId>,
}

impl<'l> PreV1Decoder<'l> {
    pub fn new(form: PreV1Form, limits: &'l Limits) -> PreV1Decoder<'l> {
        PreV1Decoder { form, limits, python: false }
    }

    /// The params of a 0.3 send.
    pub fn send(&self, request: shapes::Send<'_>) -> Result<Send, Fault> {
        let Some(message) = request.message else {
            return Err(Fault::params("message", "message is missing"));
        };
        let message = self.said(message).map_err(|fault| under("message", fault))?;
        self.send_of(message, request.configuration, request.metadata.map(shape::Object::to_json))
    }

    /// A send of a message that has been read.
    pub(crate) fn send_of(
        &self,
        message: PreV1Message,
        configuration: Option<shapes::Configuration<'_>>,
        metadata: Option<Json>,
    ) -> Result<Send, Fault> {
        let PreV1Message { message, task, context } = message;
        let mut send = Send { task, context, metadata, ..Send::new(message) };
        if let Some(configuration) = configuration {
            self.configure(&mut send, configuration).map_err(|fault| under("configuration", fault))?;
        }
        Ok(send)
    }

    fn configure(&self, send: &mut Send, shape: shapes::Configuration<'_>) -> Result<(), Fault> {
        // Absent is blocking: a client that polls says so. Only the proto form cannot say `false`, which there is the
        // same as absence; so in a configuration that is there, absence says it.
        let waits = shape.blocking.unwrap_or(self.form != PreV1Form::Proto);
        if !waits {
            send.wait = Wait::Exists;
        }
        send.history = self.history(shape.history_length)?;
        send.accepted_output = fields::names(shape.accepted_output_modes);
        if let Some(push) = shape.push {
            let push = self.push_config(push).map_err(|fault| under("pushNotificationConfig", fault))?;
            send.push = Some(push);
        }
        Ok(())
    }

    /// How much history is asked for: to 0.3 callers 0 is no limit, to 0.1 callers absence is none at all.
    pub(crate) fn history(&self, length: Option<Int>) -> Result<Option<u32>, Fault> {
        match (fields::history(length)?, self.form) {
            (None | Some(0), PreV1Form::Type) => Ok(Some(0)),
            (None | Some(0), PreV1Form::Kind | PreV1Form::Proto | PreV1Form::Both) => Ok(None),
            (Some(newest), _) => Ok(Some(newest)),
        }
    }

    pub fn said(&self, shape: shapes::Message<'_>) -> Result<PreV1Message, Fault> {
        let parts = some_parts(shape.parts, self.limits)?;
        let shape = shapes::Message { parts: None, ..shape };
        self.said_parts(shape, parts)
    }

    /// A message of an answer. Servers leave out what callers must not: the id, an empty list of parts, their own role.
    pub(crate) fn answered(&self, mut shape: shapes::Message<'_>) -> Result<PreV1Message, Fault> {
        let parts = shape.parts.take().unwrap_or_default().0;
        shape.role.get_or_insert(shape::EnumName::Number(2));
        if shape.message_id.is_some() {
            return self.said_parts(shape, parts);
        }
        shape.message_id = Some(Text("-".into()));
        let mut said = self.said_parts(shape, parts)?;
        said.message.id = Arc::from("");
        Ok(said)
    }

    fn said_parts(&self, mut shape: shapes::Message<'_>, parts: Vec<shapes::Part<'_>>) -> Result<PreV1Message, Fault> {
        let metadata = shape.metadata.take().map(shape::Object::to_json);
        self.addressed_parts(shape, || each("parts", parts, |part| self.part(part)), metadata)
    }

    /// A message whose parts and metadata have been read.
    pub(crate) fn addressed(
        &self,
        shape: shapes::Message<'_>,
        parts: Vec<Part>,
        metadata: Option<Json>,
    ) -> Result<PreV1Message, Fault> {
        if parts.is_empty() {
            return Err(fields::no_parts());
        }
        self.addressed_parts(shape, || Ok(parts), metadata)
    }

    fn addressed_parts(
        &self,
        shape: shapes::Message<'_>,
        parts: impl FnOnce() -> Result<Vec<Part>, Fault>,
        metadata: Option<Json>,
    ) -> Result<PreV1Message, Fault> {
        let limits = self.limits;
        let (id, task, context) = if self.form.has_ids() {
            let id = required_id_text(shape.message_id, "messageId", limits)?;
            let context = optional_id_text(shape.context_id, "contextId", limits)?;
            (Arc::from(&*id.0), optional_id(shape.task_id, "taskId", limits)?, context)
        } else {
            // The first generation has no message ids: the engine assigns one.
            (Arc::from(""), None, None)
        };
        let Some(role) = shape.role else {
            let user = names::role_name(self.form, model::Role::User);
            return Err(Fault::params("role", format!("role is missing: give {user}")));
        };
        let Some(role) = names::role(&role) else {
            let known = [model::Role::User, model::Role::Agent].map(|role| names::role_name(self.form, role));
            let [user, agent] = known;
            return Err(Fault::params("role", format!("role must be {user} or {agent}, not {role}")));
        };
        let taken = marks::take(metadata);
        let mut message = Message {
            id,
            role,
            parts: parts()?,
            metadata: taken.metadata,
            extensions: fields::names(shape.extensions),
            references: references(shape.reference_task_ids, limits)?,
        };
        if message.extensions.is_empty() {
            message.extensions = taken.extensions;
        }
        if message.references.is_empty() {
            message.references = taken.references;
        }
        Ok(PreV1Message { message, task, context: context.map(|id| ContextId(Arc::from(&*id.0))) })
    }

    pub(crate) fn part(&self, shape: shapes::Part<'_>) -> Result<Part, Fault> {
        let MetadataMarks { metadata, media_type, filename, wrapped, .. } =
            marks::take(shape.metadata.map(shape::Object::to_json));
        let plain = |content| Part { content, filename, media_type, metadata: metadata.clone() };
        // Data may be null only where the part says that it is data.
        let stated = shape.kind.as_ref().or(shape.type_.as_ref()).map(|kind| kind.0.as_ref());
        let data = shape.data.0.filter(|data| stated == Some("data") || data.get() != "null");
        match (stated, shape.text, shape.file, data) {
            (Some("text"), Some(text), _, _) | (None, Some(text), None, None) => {
                Ok(plain(Content::Text(text.into_string())))
            }
            (Some("file"), _, Some(file), _) | (None, None, Some(file), None) => self.file(file, metadata),
            (Some("data"), _, _, Some(data)) | (None, None, None, Some(data)) => {
                let data = self.data_of(data, stated.is_some())?;
                let unwrapped = if wrapped { marks::unwrap(data) } else { None };
                Ok(plain(Content::Data(unwrapped.unwrap_or_else(|| Json::from(data)))))
            }
            (Some(kind @ ("text" | "file" | "data")), ..) => {
                Err(Fault::params("", format!("a {kind} part has a member {kind}; this one has none")))
            }
            (Some(other), ..) => {
                let other = shape::shortened(other, 32);
                Err(Fault::params("", format!("a part is text, file or data, not {other:?}")))
            }
            (None, None, None, None) => {
                Err(Fault::params("", "a part has one of text, file and data; this one has none"))
            }
            (None, ..) => Err(Fault::params("", "a part has one of text, file and data; this one has several")),
        }
    }

    /// The proto puts data into data. A part that says its kind is not of the proto.
    fn data_of<'a>(&self, data: &'a RawValue, stated: bool) -> Result<&'a RawValue, Fault> {
        if !self.form.is_proto() || stated {
            return Ok(data);
        }
        let inner: DataPart<'a> = shape::read(data.get(), "data").map_err(|fault| under("data", fault))?;
        inner.data.0.ok_or_else(|| Fault::params("data.data", "data.data is missing: the value stands in an object"))
    }

    fn file(&self, shape: shapes::File<'_>, metadata: Option<Json>) -> Result<Part, Fault> {
        let media_type = present(shape.media_type);
        let filename = present(shape.name);
        // Empty is absent, except that a file may be empty.
        let uri = shape.uri.filter(|uri| !uri.0.is_empty());
        let url = shape.url.filter(|url| !url.0.is_empty());
        let content = match (shape.bytes, uri.or(url)) {
            (Some(bytes), None) => Content::Raw(self.file_bytes(&bytes, media_type.as_deref())?),
            (None, Some(uri)) => Content::Url(uri.into_string()),
            (Some(bytes), Some(uri)) if bytes.0.is_empty() => Content::Url(uri.into_string()),
            (Some(_), Some(_)) => {
                return Err(Fault::params("file", "file has bytes or a uri; this one has both"));
            }
            (None, None) if self.form.has_type() => return Ok(file_reference(filename, media_type, metadata)),
            (None, None) => {
                return Err(Fault::params("file", "file has bytes or a uri; this one has neither"));
            }
        };
        Ok(Part { content, filename, media_type, metadata })
    }

    /// Bytes as the member holds them, and once more where a Python SDK has encoded them twice.
    fn file_bytes(&self, text: &Text<'_>, media_type: Option<&str>) -> Result<Bytes, Fault> {
        Ok(self.once_or_twice(base64(text.0.as_bytes(), "file.bytes")?, media_type))
    }

    /// Bytes, decoded once more where a Python SDK has put base64 into them.
    pub(crate) fn once_or_twice(&self, once: Bytes, media_type: Option<&str>) -> Bytes {
        if self.form.is_proto()
            && !once.is_empty()
            && (self.python || media_type.is_some_and(is_binary))
            && let Ok(twice) = STANDARD.decode(&once)
        {
            return twice.into();
        }
        once
    }
}

/// Files of this type are never base64 text: if one is, it was encoded twice.
fn is_binary(media_type: &str) -> bool {
    let (main, sub) = media_type.split_once('/').unwrap_or((media_type, ""));
    match main {
        "image" => !sub.starts_with("svg"),
        "audio" | "video" | "font" => true,
        "application" => {
            ["pdf", "zip", "gzip", "wasm", "msword"].contains(&sub) || sub.starts_with("vnd.openxmlformats")
        }
        _ => false,
    }
}

/// The first generation allows a file that is only spoken of. Nothing later has such a part: it is kept as data.
fn file_reference(filename: Option<String>, media_type: Option<String>, metadata: Option<Json>) -> Part {
    let mut file = serde_json::Map::new();
    if let Some(name) = filename {
        file.insert("name".to_owned(), name.into());
    }
    if let Some(media_type) = media_type {
        file.insert("mimeType".to_owned(), media_type.into());
    }
    let value = serde_json::json!({ "file": file });
    let mark = Json::from_value(&serde_json::json!({ "a2a_compat": { "kind": "file-ref" } }));
    let metadata = Some(metadata.map_or_else(|| mark.clone(), |own| own.merged(&mark)));
    Part { metadata, ..Part::data(Json::from_value(&value)) }
}

/// A time with any offset, or with none: the older SDKs leave it out, and mean what their clock says. We take it for UTC.
pub(crate) fn time(text: &str) -> Option<Time> {
    Time::parse(text).or_else(|| Time::parse(&format!("{text}Z")))
}
