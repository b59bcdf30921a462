//! Facts without a member in an older form travel in `metadata`, and are taken out again when it is read.
//!
//! Two keys are reserved. `data_part_compat: true` is what the SDKs use for data that is no object: it stands wrapped as
//! `{"value": …}`. Everything else goes into one object under `a2a_compat`, which others ignore. A caller's own member of
//! either name gives way.

use std::borrow::Cow;

use model::{Json, Part, State};
use serde_json::value::RawValue;

use super::names;
use crate::framing::fields;
use crate::framing::json::Writer;
use crate::framing::shape::{BoundedList, EnumName, Text, shape};

const WRAPPED: &str = "data_part_compat";
const COMPAT: &str = "a2a_compat";

/// The marks to write into metadata.
#[derive(Default)]
pub(crate) struct Marks<'a> {
    pub(crate) media_type: Option<&'a str>,
    pub(crate) filename: Option<&'a str>,
    pub(crate) references: &'a [String],
    pub(crate) extensions: &'a [String],
    pub(crate) state: Option<&'static str>,
    /// The data stands wrapped.
    pub(crate) wrapped: bool,
}

impl<'a> Marks<'a> {
    /// A part that is no file has no place for these two.
    pub(crate) fn of(part: &'a Part) -> Marks<'a> {
        Marks { media_type: part.media_type.as_deref(), filename: part.filename.as_deref(), ..Marks::default() }
    }

    fn has_compat(&self) -> bool {
        self.media_type.is_some()
            || self.filename.is_some()
            || self.state.is_some()
            || !self.references.is_empty()
            || !self.extensions.is_empty()
    }

    /// Nothing is marked.
    pub(crate) fn is_empty(&self) -> bool {
        !self.wrapped && !self.has_compat()
    }

    /// The sender's own metadata with the marks.
    pub(crate) fn with(&self, own: Option<&Json>) -> Option<Json> {
        let mut w = Writer::with_capacity(256);
        self.object(&mut w, own);
        Json::parse(std::str::from_utf8(w.finish().as_bytes()?).ok()?)
    }

    /// Writes the member `metadata`: the sender's own, then the marks. Nothing if there is neither.
    pub(crate) fn write(&self, w: &mut Writer, own: Option<&Json>) {
        if self.is_empty() {
            if let Some(own) = own {
                w.key("metadata").json(own);
            }
            return;
        }
        self.object(w.key("metadata"), own);
    }

    fn object(&self, w: &mut Writer, own: Option<&Json>) {
        w.begin_object();
        if let Some(own) = own {
            match reserved(own) {
                false => w.members(own),
                true => {
                    if let Some(rest) = without_reserved(own) {
                        w.members(&rest);
                    }
                }
            }
        }
        if self.wrapped {
            w.key(WRAPPED).bool(true);
        }
        if self.has_compat() {
            w.key(COMPAT).begin_object();
            w.optional("mediaType", self.media_type);
            w.optional("filename", self.filename);
            w.optional("state", self.state);
            w.strings("referenceTaskIds", self.references);
            w.strings("extensions", self.extensions);
            w.end_object();
        }
        w.end_object();
    }
}

/// The marks read from metadata, and the rest of the metadata.
#[derive(Default)]
pub(crate) struct MetadataMarks {
    pub(crate) metadata: Option<Json>,
    pub(crate) media_type: Option<String>,
    pub(crate) filename: Option<String>,
    pub(crate) references: Vec<String>,
    pub(crate) extensions: Vec<String>,
    pub(crate) state: Option<State>,
    pub(crate) wrapped: bool,
}

shape! {
    pub(crate) struct Compat ("an object") {
        media_type: Option<Text<'a>> = "mediaType",
        filename: Option<Text<'a>> = "filename",
        state: Option<EnumName<'a>> = "state",
        references: Option<BoundedList<Text<'a>, 1000>> = "referenceTaskIds",
        extensions: Option<BoundedList<Text<'a>, 1000>> = "extensions",
    }
}

/// Takes the marks out. What stands under a reserved key but is not ours stays where it is.
pub(crate) fn take(metadata: Option<Json>) -> MetadataMarks {
    let Some(json) = metadata else { return MetadataMarks::default() };
    if !reserved(&json) {
        return MetadataMarks { metadata: Some(json), ..MetadataMarks::default() };
    }
    let Some(members) = members(&json) else {
        return MetadataMarks { metadata: Some(json), ..MetadataMarks::default() };
    };
    let mut taken = MetadataMarks::default();
    let mut rest = Vec::with_capacity(members.len());
    for (key, value) in members {
        match key.as_ref() {
            WRAPPED if value.get() == "true" => taken.wrapped = true,
            COMPAT => match serde_json::from_str::<Compat<'_>>(value.get()) {
                Ok(compat) => {
                    taken.media_type = fields::present(compat.media_type);
                    taken.filename = fields::present(compat.filename);
                    taken.state = compat.state.as_ref().and_then(names::state);
                    taken.references = fields::names(compat.references);
                    taken.extensions = fields::names(compat.extensions);
                }
                Err(_) => rest.push((key, value)),
            },
            _ => rest.push((key, value)),
        }
    }
    taken.metadata = object(&rest);
    taken
}

/// Data as it was before it was wrapped; `None` if it is not wrapped.
pub(crate) fn unwrap(data: &RawValue) -> Option<Json> {
    unwrap_json(&Json::from(data))
}

pub(crate) fn unwrap_json(json: &Json) -> Option<Json> {
    let (_, value) = members(json)?.into_iter().find(|(key, _)| key == "value")?;
    Some(Json::from(value))
}

/// Whether one of our keys may stand in it. Rarely true, and then looked at closely.
fn reserved(json: &Json) -> bool {
    json.text().contains(COMPAT) || json.text().contains(WRAPPED)
}

fn without_reserved(json: &Json) -> Option<Json> {
    let rest: Vec<_> = members(json)?.into_iter().filter(|(key, _)| key != COMPAT && key != WRAPPED).collect();
    object(&rest)
}

type Member<'a> = (Cow<'a, str>, &'a RawValue);

/// The members of an object, in order and with repeats; `None` if it is no object.
fn members(json: &Json) -> Option<Vec<Member<'_>>> {
    struct Members<'a>(Vec<Member<'a>>);
    impl<'de: 'a, 'a> serde::Deserialize<'de> for Members<'a> {
        fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
            struct Objects;
            impl<'de> serde::de::Visitor<'de> for Objects {
                type Value = Members<'de>;
                fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.write_str("an object")
                }
                fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                    let mut members = Vec::new();
                    while let Some((Text(key), value)) = map.next_entry::<Text<'de>, &'de RawValue>()? {
                        members.push((key, value));
                    }
                    Ok(Members(members))
                }
            }
            d.deserialize_map(Objects)
        }
    }
    serde_json::from_str::<Members<'_>>(json.text()).ok().map(|members| members.0)
}

/// An object of members; nothing for none.
fn object(members: &[Member<'_>]) -> Option<Json> {
    if members.is_empty() {
        return None;
    }
    let mut w = Writer::with_capacity(256);
    w.begin_object();
    for (key, value) in members {
        w.key(key).json(&Json::from(*value));
    }
    w.end_object();
    Json::parse(std::str::from_utf8(w.finish().as_bytes()?).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text).unwrap()
    }

    fn written(marks: &Marks<'_>, own: Option<&str>) -> String {
        let mut w = Writer::new();
        w.begin_object();
        marks.write(&mut w, own.map(json).as_ref());
        w.end_object();
        String::from_utf8(w.finish().as_bytes().unwrap().to_vec()).unwrap()
    }

    #[test]
    fn metadata_without_marks_passes_as_it_is() {
        assert_eq!(written(&Marks::default(), Some(r#"{ "b":1.0,"a":{} }"#)), r#"{"metadata":{ "b":1.0,"a":{} }}"#);
        assert_eq!(written(&Marks::default(), None), "{}");
    }

    #[test]
    fn marks_stand_beside_what_the_sender_said_and_come_out_again() {
        let marks = Marks { media_type: Some("text/x"), filename: Some("f"), wrapped: true, ..Marks::default() };
        let text = written(&marks, Some(r#"{ "a":12345678901234567890, "b":[1] }"#));
        assert_eq!(
            text,
            r#"{"metadata":{"a":12345678901234567890, "b":[1],"data_part_compat":true,"a2a_compat":{"mediaType":"text/x","filename":"f"}}}"#
        );
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let taken = take(Some(json(&value["metadata"].to_string())));
        assert_eq!(taken.metadata, Some(json(r#"{"a":12345678901234567890,"b":[1]}"#)));
        assert_eq!((taken.media_type.as_deref(), taken.filename.as_deref()), (Some("text/x"), Some("f")));
        assert!(taken.wrapped);
    }

    #[test]
    fn metadata_of_marks_alone_is_gone_when_they_are_out() {
        let taken = take(Some(json(r#"{"a2a_compat":{"state":"rejected"},"data_part_compat":true}"#)));
        assert_eq!((taken.metadata, taken.state), (None, Some(State::Rejected)));
    }

    #[test]
    fn a_strangers_use_of_our_keys_stays_until_we_need_them() {
        let odd = json(r#"{"data_part_compat":"yes","a2a_compat":[1]}"#);
        assert_eq!(take(Some(odd.clone())).metadata, Some(odd));
        let marks = Marks { filename: Some("f"), ..Marks::default() };
        assert_eq!(
            written(&marks, Some(r#"{"a2a_compat":[1],"x":2}"#)),
            r#"{"metadata":{"x":2,"a2a_compat":{"filename":"f"}}}"#
        );
    }

    #[test]
    fn only_an_object_with_a_value_is_unwrapped() {
        let unwrapped = |text: &str| unwrap(serde_json::from_str(text).unwrap());
        assert_eq!(unwrapped(r#"{"value":[1]}"#), Some(json("[1]")));
        assert_eq!(unwrapped(r#"{"value":null}"#), Some(json("null")));
        assert_eq!(unwrapped(r#"{"v":1}"#), None);
        assert_eq!(unwrapped("[1]"), None);
    }
}
