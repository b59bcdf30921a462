//! Messages of `lf.a2a.v1` into calls.
//!
//! Fields become the shapes that JSON is read into, and one set of rules checks both. Parts, metadata and times are read
//! straight into the model: their bytes need no text in between.

use bytes::Bytes;
use model::{Content, Fault, Json, Limits, Part, Time};

use super::super::decode::{self as rules, AddressedMessage};
use super::super::shapes;
use crate::framing::fields::{present, too_many, under};
use crate::framing::shape::{BoundedList, EnumName, Int, Text};
use crate::protobuf::value::{read_object, read_value};
use crate::protobuf::{FieldValue, Fields};
use crate::wire::{Decoded, Operation};

pub(super) fn call(operation: Operation, message: &[u8], limits: &Limits) -> Result<Decoded, Fault> {
    let fields = Fields::new(message);
    match operation {
        Operation::Send => send(fields, limits, false),
        Operation::Stream => send(fields, limits, true),
        Operation::Get => rules::get(get_request(fields)?, limits),
        Operation::List => list(fields, limits),
        Operation::Cancel => {
            let (request, metadata) = task_request(fields, limits)?;
            rules::cancel(request, metadata, limits)
        }
        Operation::Subscribe => rules::subscribe(task_request(fields, limits)?.0, limits),
        Operation::PushCreate => rules::push_create(push_config(fields)?, limits),
        Operation::PushGet => rules::push_get(push_request(fields)?, limits),
        Operation::PushDelete => rules::push_delete(push_request(fields)?, limits),
        Operation::PushList => rules::push_list(push_list_request(fields)?, limits),
        Operation::ExtendedCard => rules::extended_card(tenant_request(fields)?, limits),
        Operation::Unknown => Err(Fault::internal("a request without an operation was decoded")),
    }
}

fn send(mut fields: Fields<'_>, limits: &Limits, streaming: bool) -> Result<Decoded, Fault> {
    let (mut tenant, mut message, mut configuration, mut metadata) = (None, None, None, None);
    while let Some((number, value)) = fields.next_field()? {
        match number {
            1 => tenant = Some(value.text("tenant")?),
            2 => message = Some(said(value.message()?, limits).map_err(|fault| under("message", fault))?),
            3 => configuration = Some(configuration_of(value.message()?).map_err(|f| under("configuration", f))?),
            4 => metadata = Some(read_object(value, "metadata", limits.json_depth)?),
            _ => {}
        }
    }
    rules::send_call(tenant, message, configuration, metadata, limits, streaming)
}

fn configuration_of(mut fields: Fields<'_>) -> Result<shapes::Configuration<'_>, Fault> {
    let mut shape = shapes::Configuration::default();
    let mut modes = BoundedList(Vec::new());
    while let Some((number, value)) = fields.next_field()? {
        match number {
            1 => add_name(&mut modes, value, "acceptedOutputModes")?,
            2 => {
                let push = push_config(value.message()?);
                shape.push = Some(push.map_err(|fault| under("taskPushNotificationConfig", fault))?);
            }
            3 => shape.history_length = Some(value.int()?),
            4 => shape.return_immediately = Some(value.bool()?),
            _ => {}
        }
    }
    shape.accepted_output_modes = Some(modes);
    Ok(shape)
}

/// Adds to a list of names, up to its limit.
pub(crate) fn add_name<'a, const MAX: usize>(
    list: &mut BoundedList<Text<'a>, MAX>,
    value: FieldValue<'a>,
    name: &'static str,
) -> Result<(), Fault> {
    if list.0.len() == MAX {
        return Err(too_many(name, MAX));
    }
    list.0.push(value.text(name)?);
    Ok(())
}

/// Message.
pub(super) fn said(mut fields: Fields<'_>, limits: &Limits) -> Result<AddressedMessage, Fault> {
    let mut shape = shapes::Message::default();
    let (mut parts, mut metadata) = (Vec::new(), None);
    let (mut extensions, mut references) = (BoundedList(Vec::new()), BoundedList(Vec::new()));
    while let Some((number, value)) = fields.next_field()? {
        match number {
            1 => shape.message_id = Some(value.text("messageId")?),
            2 => shape.context_id = Some(value.text("contextId")?),
            3 => shape.task_id = Some(value.text("taskId")?),
            4 => shape.role = Some(enum_number(value)?),
            5 => add_part(&mut parts, value, limits)?,
            6 => metadata = Some(read_object(value, "metadata", limits.json_depth)?),
            7 => add_name(&mut extensions, value, "extensions")?,
            8 => add_name(&mut references, value, "referenceTaskIds")?,
            _ => {}
        }
    }
    shape.extensions = Some(extensions);
    shape.reference_task_ids = Some(references);
    rules::addressed(shape, parts, metadata, limits)
}

fn add_part(parts: &mut Vec<Part>, value: FieldValue<'_>, limits: &Limits) -> Result<(), Fault> {
    if parts.len() == limits.parts {
        return Err(too_many("parts", limits.parts));
    }
    let part = part(value.message()?, limits).map_err(|fault| under(&format!("parts[{}]", parts.len()), fault))?;
    parts.push(part);
    Ok(())
}

/// Part. Of several contents the last one counts, as everywhere in protobuf.
pub(crate) fn part(mut fields: Fields<'_>, limits: &Limits) -> Result<Part, Fault> {
    let (mut content, mut metadata, mut filename, mut media_type) = (None, None, None, None);
    while let Some((number, value)) = fields.next_field()? {
        match number {
            1 => content = Some(Content::Text(value.string("text")?)),
            2 => content = Some(Content::Raw(Bytes::copy_from_slice(value.bytes()?))),
            3 => content = Some(Content::Url(value.string("url")?)),
            4 => content = Some(Content::Data(read_value(value, "data", limits.json_depth)?)),
            5 => metadata = Some(read_object(value, "metadata", limits.json_depth)?),
            6 => filename = present(Some(value.text("filename")?)),
            7 => media_type = present(Some(value.text("mediaType")?)),
            _ => {}
        }
    }
    let none = || Fault::params("", "a part has one of text, raw, url and data; this one has none");
    Ok(Part { content: content.ok_or_else(none)?, filename, media_type, metadata })
}

/// The value of an enum. Its default is no value, as it is where the field is absent.
fn enum_number(value: FieldValue<'_>) -> Result<EnumName<'static>, Fault> {
    value.int().map(|Int(number)| EnumName::Number(number))
}

fn get_request(mut fields: Fields<'_>) -> Result<shapes::GetTaskRequest<'_>, Fault> {
    let mut shape = shapes::GetTaskRequest::default();
    while let Some((number, value)) = fields.next_field()? {
        match number {
            1 => shape.tenant = Some(value.text("tenant")?),
            2 => shape.id = Some(value.text("id")?),
            3 => shape.history_length = Some(value.int()?),
            _ => {}
        }
    }
    Ok(shape)
}

fn list(mut fields: Fields<'_>, limits: &Limits) -> Result<Decoded, Fault> {
    let mut shape = shapes::ListTasksRequest::default();
    let mut since: Option<Time> = None;
    while let Some((number, value)) = fields.next_field()? {
        match number {
            1 => shape.tenant = Some(value.text("tenant")?),
            2 => shape.context_id = Some(value.text("contextId")?),
            3 => shape.status = Some(enum_number(value)?),
            4 => shape.page_size = Some(value.int()?),
            5 => shape.page_token = Some(value.text("pageToken")?),
            6 => shape.history_length = Some(value.int()?),
            7 => since = Some(value.time("statusTimestampAfter")?),
            8 => shape.include_artifacts = Some(value.bool()?),
            _ => {}
        }
    }
    rules::list_since(shape, since, limits)
}

fn task_request<'a>(mut fields: Fields<'a>, limits: &Limits) -> Result<(shapes::TaskRequest<'a>, Option<Json>), Fault> {
    let (mut shape, mut metadata) = (shapes::TaskRequest::default(), None);
    while let Some((number, value)) = fields.next_field()? {
        match number {
            1 => shape.tenant = Some(value.text("tenant")?),
            2 => shape.id = Some(value.text("id")?),
            3 => metadata = Some(read_object(value, "metadata", limits.json_depth)?),
            _ => {}
        }
    }
    Ok((shape, metadata))
}

pub(super) fn push_config(mut fields: Fields<'_>) -> Result<shapes::PushConfig<'_>, Fault> {
    let mut shape = shapes::PushConfig::default();
    while let Some((number, value)) = fields.next_field()? {
        match number {
            1 => shape.tenant = Some(value.text("tenant")?),
            2 => shape.id = Some(value.text("id")?),
            3 => shape.task_id = Some(value.text("taskId")?),
            4 => shape.url = Some(value.text("url")?),
            5 => shape.token = Some(value.text("token")?),
            6 => shape.authentication = Some(authentication(value.message()?)?),
            _ => {}
        }
    }
    Ok(shape)
}

fn authentication(mut fields: Fields<'_>) -> Result<shapes::Authentication<'_>, Fault> {
    let mut shape = shapes::Authentication::default();
    while let Some((number, value)) = fields.next_field()? {
        match number {
            1 => shape.scheme = Some(value.text("authentication.scheme")?),
            2 => shape.credentials = Some(value.text("authentication.credentials")?),
            _ => {}
        }
    }
    Ok(shape)
}

/// The requests to get and to delete a config.
fn push_request(mut fields: Fields<'_>) -> Result<shapes::PushRequest<'_>, Fault> {
    let mut shape = shapes::PushRequest::default();
    while let Some((number, value)) = fields.next_field()? {
        match number {
            1 => shape.tenant = Some(value.text("tenant")?),
            2 => shape.task_id = Some(value.text("taskId")?),
            3 => shape.id = Some(value.text("id")?),
            _ => {}
        }
    }
    Ok(shape)
}

/// The request to list configs has numbers of its own.
fn push_list_request(mut fields: Fields<'_>) -> Result<shapes::PushRequest<'_>, Fault> {
    let mut shape = shapes::PushRequest::default();
    while let Some((number, value)) = fields.next_field()? {
        match number {
            1 => shape.task_id = Some(value.text("taskId")?),
            2 => shape.page_size = Some(value.int()?),
            3 => shape.page_token = Some(value.text("pageToken")?),
            4 => shape.tenant = Some(value.text("tenant")?),
            _ => {}
        }
    }
    Ok(shape)
}

fn tenant_request(mut fields: Fields<'_>) -> Result<shapes::TenantRequest<'_>, Fault> {
    let mut shape = shapes::TenantRequest::default();
    while let Some((number, value)) = fields.next_field()? {
        if number == 1 {
            shape.tenant = Some(value.text("tenant")?);
        }
    }
    Ok(shape)
}
