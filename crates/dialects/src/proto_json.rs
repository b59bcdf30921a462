//! Cards and push configs over gRPC as the JSON that they are in the other bindings: they are rare and small, and JSON has
//! a reader for each of their spellings already.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::{Fault, Json};
use serde_json::{Map, Value, json};

use crate::protobuf::value::read_object;
use crate::protobuf::{FieldValue, Fields};
use crate::seen::Seen;

/// The fields of a message: number, name in JSON, type.
pub(crate) type ProtoShape = &'static [(u32, &'static str, FieldType)];

/// The type of a field.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FieldType {
    Text,
    Flag,
    Message(ProtoShape),
    /// A `google.protobuf.Struct`.
    Object,
    /// A list of strings.
    Texts,
    /// A list of messages.
    List(ProtoShape),
    /// A map from strings to messages.
    Map(ProtoShape),
}

/// A message of this shape. Other fields are skipped.
pub(crate) fn object(shape: ProtoShape, message: &[u8]) -> Result<Value, Fault> {
    read(shape, Fields::new(message)).map(Value::Object)
}

/// A list of them with the token of the next page.
pub(crate) fn page_of(shape: ProtoShape, message: &[u8]) -> Result<Value, Fault> {
    let (mut fields, mut configs, mut token) = (Fields::new(message), Vec::new(), String::new());
    while let Some((number, value)) = fields.next_field()? {
        match number {
            1 => configs.push(Value::Object(read(shape, value.message()?)?)),
            2 => token = value.string("nextPageToken")?,
            _ => {}
        }
    }
    Ok(json!({ "configs": configs, "nextPageToken": token }))
}

fn read(shape: ProtoShape, mut fields: Fields<'_>) -> Result<Map<String, Value>, Fault> {
    let mut object = Map::new();
    while let Some((number, value)) = fields.next_field()? {
        if let Some((_, name, of)) = shape.iter().find(|(known, _, _)| *known == number) {
            add(&mut object, name, *of, value)?;
        }
    }
    Ok(object)
}

fn add(object: &mut Map<String, Value>, name: &'static str, of: FieldType, value: FieldValue<'_>) -> Result<(), Fault> {
    let one = match of {
        FieldType::Text | FieldType::Texts => Value::String(value.string(name)?),
        FieldType::Flag => Value::Bool(value.bool()?),
        FieldType::Message(shape) | FieldType::List(shape) => Value::Object(read(shape, value.message()?)?),
        FieldType::Object => read_object(value, name, crate::seen::unlimited().json_depth)?.to_value(),
        FieldType::Map(shape) => {
            let (mut key, mut entry) = (String::new(), Map::new());
            let mut members = value.message()?;
            while let Some((number, value)) = members.next_field()? {
                match number {
                    1 => key = value.string(name)?,
                    2 => entry = read(shape, value.message()?)?,
                    _ => {}
                }
            }
            if let Value::Object(map) = object.entry(name).or_insert_with(|| json!({})) {
                map.insert(key, Value::Object(entry));
            }
            return Ok(());
        }
    };
    match of {
        FieldType::Texts | FieldType::List(_) => {
            if let Value::Array(list) = object.entry(name).or_insert_with(|| json!([])) {
                list.push(one);
            }
        }
        FieldType::Text | FieldType::Flag | FieldType::Message(_) | FieldType::Object | FieldType::Map(_) => {
            object.insert(name.to_owned(), one);
        }
    }
    Ok(())
}

/// An event of a kind that is not known here, as it came.
pub(crate) fn unknown_event(message: &[u8]) -> Seen {
    /// A message that is passed on whole, at most.
    const WHOLE: usize = 64 << 10;
    let kept = message.get(..WHOLE.min(message.len())).unwrap_or_default();
    let value = Json::from_value(&json!({ "protobuf": STANDARD.encode(kept) }));
    Seen::Unread { value, why: "it is none of task, message, status_update, artifact_update".to_owned() }
}

use FieldType::{Flag, List, Map as Entries, Message, Object, Text, Texts};

const PROVIDER: ProtoShape = &[(1, "url", Text), (2, "organization", Text)];
const EXTENSION: ProtoShape =
    &[(1, "uri", Text), (2, "description", Text), (3, "required", Flag), (4, "params", Object)];
const SKILL: ProtoShape =
    &[(1, "id", Text), (2, "name", Text), (3, "description", Text), (4, "tags", Texts), (5, "examples", Texts)];
const SCHEME: ProtoShape = &[
    (1, "apiKeySecurityScheme", Message(&[(2, "location", Text), (3, "name", Text)])),
    (2, "httpAuthSecurityScheme", Message(&[(2, "scheme", Text)])),
    (3, "oauth2SecurityScheme", Message(&[])),
    (4, "openIdConnectSecurityScheme", Message(&[(2, "openIdConnectUrl", Text)])),
    (5, "mtlsSecurityScheme", Message(&[])),
];
const REQUIREMENT: ProtoShape = &[(1, "schemes", Entries(&[]))];

/// AgentCard of 1.0.
pub(crate) const CARD_V1: ProtoShape = &[
    (1, "name", Text),
    (2, "description", Text),
    (
        3,
        "supportedInterfaces",
        List(&[(1, "url", Text), (2, "protocolBinding", Text), (3, "tenant", Text), (4, "protocolVersion", Text)]),
    ),
    (4, "provider", Message(PROVIDER)),
    (5, "version", Text),
    (6, "documentationUrl", Text),
    (
        7,
        "capabilities",
        Message(&[
            (1, "streaming", Flag),
            (2, "pushNotifications", Flag),
            (3, "extensions", List(EXTENSION)),
            (4, "extendedAgentCard", Flag),
        ]),
    ),
    (8, "securitySchemes", Entries(SCHEME)),
    (9, "securityRequirements", List(REQUIREMENT)),
    (10, "defaultInputModes", Texts),
    (11, "defaultOutputModes", Texts),
    (12, "skills", List(SKILL)),
    (14, "iconUrl", Text),
];

/// AgentCard of 0.3.
pub(crate) const CARD_V0_3: ProtoShape = &[
    (1, "name", Text),
    (2, "description", Text),
    (3, "url", Text),
    (4, "provider", Message(PROVIDER)),
    (5, "version", Text),
    (6, "documentationUrl", Text),
    (
        7,
        "capabilities",
        Message(&[(1, "streaming", Flag), (2, "pushNotifications", Flag), (3, "extensions", List(EXTENSION))]),
    ),
    (8, "securitySchemes", Entries(SCHEME)),
    (9, "security", List(REQUIREMENT)),
    (10, "defaultInputModes", Texts),
    (11, "defaultOutputModes", Texts),
    (12, "skills", List(SKILL)),
    (13, "supportsAuthenticatedExtendedCard", Flag),
    (14, "preferredTransport", Text),
    (15, "additionalInterfaces", List(&[(1, "url", Text), (2, "transport", Text)])),
    (16, "protocolVersion", Text),
    (18, "iconUrl", Text),
];

/// TaskPushNotificationConfig of 1.0.
pub(crate) const PUSH_V1: ProtoShape = &[
    (2, "id", Text),
    (3, "taskId", Text),
    (4, "url", Text),
    (5, "token", Text),
    (6, "authentication", Message(&[(1, "scheme", Text), (2, "credentials", Text)])),
];

/// TaskPushNotificationConfig of 0.3.
pub(crate) const PUSH_V0_3: ProtoShape = &[
    (1, "name", Text),
    (
        2,
        "pushNotificationConfig",
        Message(&[
            (1, "id", Text),
            (2, "url", Text),
            (3, "token", Text),
            (4, "authentication", Message(&[(1, "schemes", Texts), (2, "credentials", Text)])),
        ]),
    ),
];
