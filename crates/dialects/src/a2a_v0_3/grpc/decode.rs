//! Messages of `a2a.v1` into calls, by the rules of 0.3 in HTTP+JSON.

use bytes::Bytes;
use model::{Call, Cancel, Content, Fault, Get, Json, Limits, Part, PushCall, Subscribe};

use crate::a2a_v1::grpc::decode::add_name;
use crate::compat::decode::{PreV1Decoder, PreV1Message};
use crate::compat::marks::{self, MetadataMarks};
use crate::compat::{PreV1Form, shapes};
use crate::framing::fields::{optional_id, present, push_page_size, required_id, too_many, under};
use crate::framing::shape::{BoundedList, EnumName, Int, Text};
use crate::protobuf::value::read_object;
use crate::protobuf::{FieldValue, Fields};
use crate::wire::Operation;

pub(super) fn call(operation: Operation, message: &[u8], limits: &Limits) -> Result<Call, Fault> {
    let decoder = PreV1Decoder::new(PreV1Form::Proto, limits);
    let fields = Fields::new(message);
    Ok(match operation {
        Operation::Send => Call::Send(Box::new(send(fields, &decoder)?)),
        Operation::Stream => Call::Stream(Box::new(send(fields, &decoder)?)),
        Operation::Get => {
            let (name, length) = named(fields)?;
            Call::Get(Get { task: task_of(name, limits)?, history: decoder.history(length)? })
        }
        Operation::Cancel => Call::Cancel(Cancel { task: task_of(named(fields)?.0, limits)?, metadata: None }),
        Operation::Subscribe => Call::Subscribe(Subscribe { task: task_of(named(fields)?.0, limits)? }),
        Operation::PushCreate => push_create(fields, &decoder)?,
        Operation::PushGet => {
            let (task, id) = config_of(named(fields)?.0, limits)?;
            Call::Push(PushCall::Get { task, id })
        }
        Operation::PushDelete => {
            let (task, id) = config_of(named(fields)?.0, limits)?;
            Call::Push(PushCall::Delete { task, id })
        }
        Operation::PushList => push_list(fields, limits)?,
        Operation::ExtendedCard => Call::ExtendedCard,
        Operation::List | Operation::Unknown => {
            return Err(Fault::internal("a request without an operation was decoded"));
        }
    })
}

/// The field 1 of most requests, a resource name, and the length of the history.
fn named(mut fields: Fields<'_>) -> Result<(Option<Text<'_>>, Option<Int>), Fault> {
    let (mut name, mut length) = (None, None);
    while let Some((number, value)) = fields.next_field()? {
        match number {
            1 => name = Some(value.text("name")?),
            2 => length = Some(value.int()?),
            _ => {}
        }
    }
    Ok((name, length))
}

/// The id in `tasks/{id}`. A bare id is taken, too.
fn task_of(name: Option<Text<'_>>, limits: &Limits) -> Result<String, Fault> {
    let id = name.map(|Text(name)| match name.strip_prefix("tasks/") {
        Some(id) => Text(id.to_owned().into()),
        None => Text(name),
    });
    if id.as_ref().is_some_and(|id| id.0.contains('/')) {
        return Err(Fault::params("name", "name is a resource name of the form tasks/{id}"));
    }
    required_id(id, "name", limits)
}

/// The ids in `tasks/{id}/pushNotificationConfigs/{id}`.
fn config_of(name: Option<Text<'_>>, limits: &Limits) -> Result<(String, String), Fault> {
    let name = name.map(Text::into_string).unwrap_or_default();
    let ids = name.strip_prefix("tasks/").and_then(|rest| rest.split_once("/pushNotificationConfigs/"));
    let Some((task, config)) = ids else {
        let form = "name is a resource name of the form tasks/{id}/pushNotificationConfigs/{id}";
        return Err(Fault::params("name", form));
    };
    let id = |id: &str| required_id(Some(Text(id.to_owned().into())), "name", limits);
    Ok((id(task)?, id(config)?))
}

fn send(mut fields: Fields<'_>, decoder: &PreV1Decoder<'_>) -> Result<model::Send, Fault> {
    let (mut message, mut configuration, mut metadata) = (None, None, None);
    while let Some((number, value)) = fields.next_field()? {
        match number {
            1 => message = Some(said(value.message()?, decoder).map_err(|fault| under("message", fault))?),
            2 => configuration = Some(configuration_of(value.message()?).map_err(|f| under("configuration", f))?),
            3 => metadata = Some(read_object(value, "metadata", decoder.limits.json_depth)?),
            _ => {}
        }
    }
    let message = message.ok_or_else(|| Fault::params("message", "message is missing"))?;
    decoder.send_of(message, configuration, metadata)
}

fn configuration_of(mut fields: Fields<'_>) -> Result<shapes::Configuration<'_>, Fault> {
    let mut shape = shapes::Configuration::default();
    let mut modes = BoundedList(Vec::new());
    while let Some((number, value)) = fields.next_field()? {
        match number {
            1 => add_name(&mut modes, value, "acceptedOutputModes")?,
            2 => shape.push = Some(push_config(value.message()?)?),
            3 => shape.history_length = Some(value.int()?),
            4 => shape.blocking = Some(value.bool()?),
            _ => {}
        }
    }
    shape.accepted_output_modes = Some(modes);
    Ok(shape)
}

/// Message.
fn said(mut fields: Fields<'_>, decoder: &PreV1Decoder<'_>) -> Result<PreV1Message, Fault> {
    let mut shape = shapes::Message::default();
    let (mut parts, mut metadata, mut extensions) = (Vec::new(), None, BoundedList(Vec::new()));
    while let Some((number, value)) = fields.next_field()? {
        match number {
            1 => shape.message_id = Some(value.text("messageId")?),
            2 => shape.context_id = Some(value.text("contextId")?),
            3 => shape.task_id = Some(value.text("taskId")?),
            4 => shape.role = Some(value.int().map(|Int(number)| EnumName::Number(number))?),
            5 => add_part(&mut parts, value, decoder, "content")?,
            6 => metadata = Some(read_object(value, "metadata", decoder.limits.json_depth)?),
            7 => add_name(&mut extensions, value, "extensions")?,
            _ => {}
        }
    }
    shape.extensions = Some(extensions);
    decoder.addressed(shape, parts, metadata)
}

fn add_part(
    parts: &mut Vec<Part>,
    value: FieldValue<'_>,
    decoder: &PreV1Decoder<'_>,
    list: &'static str,
) -> Result<(), Fault> {
    if parts.len() == decoder.limits.parts {
        return Err(too_many(list, decoder.limits.parts));
    }
    let part = part(value.message()?, decoder).map_err(|fault| under(&format!("{list}[{}]", parts.len()), fault))?;
    parts.push(part);
    Ok(())
}

/// A part before its metadata is known, which may say that data is wrapped.
enum PartContent {
    Plain(Content),
    Data(Json),
    File { content: Content, media_type: Option<String>, filename: Option<String> },
}

/// Part. Of several contents the last one counts, as everywhere in protobuf.
pub(super) fn part(mut fields: Fields<'_>, decoder: &PreV1Decoder<'_>) -> Result<Part, Fault> {
    let (mut content, mut metadata) = (None, None);
    while let Some((number, value)) = fields.next_field()? {
        match number {
            1 => content = Some(PartContent::Plain(Content::Text(value.string("text")?))),
            2 => content = Some(file(value.message()?, decoder)?),
            3 => content = Some(PartContent::Data(data(value.message()?, decoder.limits)?)),
            4 => metadata = Some(read_object(value, "metadata", decoder.limits.json_depth)?),
            _ => {}
        }
    }
    let none = || Fault::params("", "a part has one of text, file and data; this one has none");
    let MetadataMarks { metadata, media_type, filename, wrapped, .. } = marks::take(metadata);
    Ok(match content.ok_or_else(none)? {
        PartContent::Plain(content) => Part { content, filename, media_type, metadata },
        PartContent::Data(data) => {
            let unwrapped = if wrapped { marks::unwrap_json(&data) } else { None };
            Part { content: Content::Data(unwrapped.unwrap_or(data)), filename, media_type, metadata }
        }
        PartContent::File { content, media_type, filename } => Part { content, filename, media_type, metadata },
    })
}

fn file(mut fields: Fields<'_>, decoder: &PreV1Decoder<'_>) -> Result<PartContent, Fault> {
    let (mut uri, mut bytes, mut media_type, mut filename) = (None, None, None, None);
    while let Some((number, value)) = fields.next_field()? {
        match number {
            1 => (uri, bytes) = (Some(value.string("file.fileWithUri")?), None),
            2 => (uri, bytes) = (None, Some(value.bytes()?)),
            3 => media_type = present(Some(value.text("file.mimeType")?)),
            4 => filename = present(Some(value.text("file.name")?)),
            _ => {}
        }
    }
    let content = match (uri, bytes) {
        (Some(uri), _) => Content::Url(uri),
        (None, Some(bytes)) => {
            let once = Bytes::copy_from_slice(bytes);
            Content::Raw(decoder.once_or_twice(once, media_type.as_deref()))
        }
        (None, None) => return Err(Fault::params("file", "file has bytes or a uri; this one has neither")),
    };
    Ok(PartContent::File { content, media_type, filename })
}

/// DataPart.
fn data(mut fields: Fields<'_>, limits: &Limits) -> Result<Json, Fault> {
    let mut data = None;
    while let Some((number, value)) = fields.next_field()? {
        if number == 1 {
            data = Some(read_object(value, "data.data", limits.json_depth)?);
        }
    }
    data.ok_or_else(|| Fault::params("data.data", "data.data is missing: the value stands in an object"))
}

fn push_create(mut fields: Fields<'_>, decoder: &PreV1Decoder<'_>) -> Result<Call, Fault> {
    let (mut parent, mut id, mut config) = (None, None, None);
    while let Some((number, value)) = fields.next_field()? {
        match number {
            1 => parent = Some(value.text("parent")?),
            2 => id = optional_id(Some(value.text("configId")?), "configId", decoder.limits)?,
            3 => config = Some(task_push_config(value.message()?)?),
            _ => {}
        }
    }
    let Some((name, Some(shape))) = config else {
        return Err(Fault::params("config", "config.pushNotificationConfig is missing"));
    };
    let mut config = decoder.push_config(shape).map_err(|fault| under("config.pushNotificationConfig", fault))?;
    // Some clients name the task in the config alone, by its resource name.
    let named = name.as_ref().and_then(|Text(name)| name.strip_prefix("tasks/"));
    let named = named.and_then(|rest| rest.split('/').next()).map(|id| Text(id.to_owned().into()));
    let parent = parent.filter(|parent| !parent.0.is_empty()).or(named);
    config.task = Some(task_of(parent, decoder.limits).map_err(|fault| Fault {
        field: Some("parent".to_owned()),
        message: "parent is a resource name of the form tasks/{id}".to_owned(),
        ..fault
    })?);
    config.id = config.id.or(id);
    Ok(Call::Push(PushCall::Create(config)))
}

/// TaskPushNotificationConfig: its name and the config in it.
pub(super) fn task_push_config(
    mut fields: Fields<'_>,
) -> Result<(Option<Text<'_>>, Option<shapes::PushConfig<'_>>), Fault> {
    let (mut name, mut config) = (None, None);
    while let Some((number, value)) = fields.next_field()? {
        match number {
            1 => name = Some(value.text("config.name")?),
            2 => config = Some(push_config(value.message()?)?),
            _ => {}
        }
    }
    Ok((name, config))
}

/// PushNotificationConfig.
fn push_config(mut fields: Fields<'_>) -> Result<shapes::PushConfig<'_>, Fault> {
    let mut shape = shapes::PushConfig::default();
    while let Some((number, value)) = fields.next_field()? {
        match number {
            1 => shape.id = Some(value.text("id")?),
            2 => shape.url = Some(value.text("url")?),
            3 => shape.token = Some(value.text("token")?),
            4 => shape.authentication = Some(authentication(value.message()?)?),
            _ => {}
        }
    }
    Ok(shape)
}

fn authentication(mut fields: Fields<'_>) -> Result<shapes::Authentication<'_>, Fault> {
    let mut shape = shapes::Authentication::default();
    let mut schemes = BoundedList(Vec::new());
    while let Some((number, value)) = fields.next_field()? {
        match number {
            1 => add_name(&mut schemes, value, "authentication.schemes")?,
            2 => shape.credentials = Some(value.text("authentication.credentials")?),
            _ => {}
        }
    }
    shape.schemes = Some(schemes);
    Ok(shape)
}

fn push_list(mut fields: Fields<'_>, limits: &Limits) -> Result<Call, Fault> {
    let (mut parent, mut page_size, mut page_token) = (None, None, None);
    while let Some((number, value)) = fields.next_field()? {
        match number {
            1 => parent = Some(value.text("parent")?),
            2 => page_size = Some(value.int()?),
            3 => page_token = present(Some(value.text("pageToken")?)),
            _ => {}
        }
    }
    let task = task_of(parent, limits)?;
    Ok(Call::Push(PushCall::List { task, page_size: push_page_size(page_size, limits)?, page_token }))
}
