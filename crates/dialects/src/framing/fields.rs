//! Members with the same meaning in every object: ids of bounded length, strings where empty is absent, base64, and
//! values that will stand in a header. Every dialect turns its shapes into nouns with these.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use model::{Fault, Limits};

use super::shape::{BoundedList, Int, Text};

const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// Base64 of either alphabet, padded or not.
pub(crate) fn base64(text: impl AsRef<[u8]>, field: &'static str) -> Result<Bytes, Fault> {
    let text = text.as_ref();
    // The first attempt is nearly always right; the other alphabet is tried only after it failed.
    let decoded = STANDARD.decode(text).or_else(|_| URL_SAFE.decode(text));
    decoded.map(Bytes::from).map_err(|error| Fault::params(field, format!("{field} must be base64")).because(error))
}

pub(crate) fn names<const MAX: usize>(list: Option<BoundedList<Text<'_>, MAX>>) -> Vec<String> {
    list.map_or_else(Vec::new, |list| list.0.into_iter().map(Text::into_string).collect())
}

/// A string without presence: empty is absent.
pub(crate) fn present(text: Option<Text<'_>>) -> Option<String> {
    text.filter(|text| !text.0.is_empty()).map(Text::into_string)
}

/// How many messages of history; what is more than anybody has is as good as all.
pub fn history(length: Option<Int>) -> Result<Option<u32>, Fault> {
    match length {
        None => Ok(None),
        Some(Int(n)) if n < 0 => {
            Err(Fault::params("historyLength", format!("historyLength must not be negative ({n})")))
        }
        Some(Int(n)) => Ok(Some(u32::try_from(n).unwrap_or(u32::MAX))),
    }
}

/// The page size of a list of push configs. It has no presence on the wire: 0 is unset. A large one is cut, as paging is
/// optional there.
pub fn push_page_size(size: Option<Int>, limits: &Limits) -> Result<Option<u32>, Fault> {
    match size {
        None | Some(Int(0)) => Ok(None),
        Some(Int(n)) => {
            let n = u32::try_from(n.min(i64::from(limits.page_size)));
            n.map(Some).map_err(|_| Fault::params("pageSize", "pageSize must not be negative"))
        }
    }
}

/// These values go into the headers of a webhook: a line break in one would add headers of the caller's choice.
pub(crate) fn header_safe(text: Text<'_>, field: &'static str) -> Result<String, Fault> {
    if text.0.chars().any(char::is_control) {
        return Err(Fault::params(field, format!("{field} must not hold control characters")));
    }
    Ok(text.into_string())
}

pub fn required_id(id: Option<Text<'_>>, field: &'static str, limits: &Limits) -> Result<String, Fault> {
    required_id_text(id, field, limits).map(Text::into_string)
}

pub fn optional_id(id: Option<Text<'_>>, field: &'static str, limits: &Limits) -> Result<Option<String>, Fault> {
    Ok(optional_id_text(id, field, limits)?.map(Text::into_string))
}

pub(crate) fn required_id_text<'a>(
    id: Option<Text<'a>>,
    field: &'static str,
    limits: &Limits,
) -> Result<Text<'a>, Fault> {
    optional_id_text(id, field, limits)?.ok_or_else(|| Fault::params(field, format!("{field} is missing or empty")))
}

pub fn optional_id_text<'a>(
    id: Option<Text<'a>>,
    field: &'static str,
    limits: &Limits,
) -> Result<Option<Text<'a>>, Fault> {
    match id {
        Some(id) if id.0.len() > limits.id_bytes => Err(too_long(field, limits)),
        Some(id) if !id.0.is_empty() => Ok(Some(id)),
        Some(_) | None => Ok(None),
    }
}

pub(crate) fn too_long(field: impl Into<String>, limits: &Limits) -> Fault {
    let field = field.into();
    let message = format!("{field} is longer than {} bytes, which is the limit here", limits.id_bytes);
    Fault::params(field, message)
}

/// The fault for a list with more entries than its limit.
pub(crate) fn too_many(name: &'static str, limit: usize) -> Fault {
    Fault::params(name, format!("{name} has more than {limit} entries, which is the limit here"))
}

/// Ids of other tasks that a message names.
pub(crate) fn references<const MAX: usize>(
    list: Option<BoundedList<Text<'_>, MAX>>,
    limits: &Limits,
) -> Result<Vec<String>, Fault> {
    let references = names(list);
    match references.iter().position(|id| id.len() > limits.id_bytes) {
        Some(i) => Err(too_long(format!("referenceTaskIds[{i}]"), limits)),
        None => Ok(references),
    }
}

/// Each of a list of shapes as a noun, with its place in the fault.
pub(crate) fn each<S, N>(
    name: &str,
    shapes: Vec<S>,
    mut noun: impl FnMut(S) -> Result<N, Fault>,
) -> Result<Vec<N>, Fault> {
    let mut nouns = Vec::with_capacity(shapes.len());
    for (i, shape) in shapes.into_iter().enumerate() {
        nouns.push(noun(shape).map_err(|fault| under(&format!("{name}[{i}]"), fault))?);
    }
    Ok(nouns)
}

pub(crate) fn no_parts() -> Fault {
    Fault::params("parts", "parts is missing or empty: a message has at least one part")
}

/// The parts of a message: at least one, no more than the limit.
pub(crate) fn some_parts<S, const MAX: usize>(
    list: Option<BoundedList<S, MAX>>,
    limits: &Limits,
) -> Result<Vec<S>, Fault> {
    let list = list.unwrap_or_default().0;
    if list.is_empty() {
        return Err(no_parts());
    }
    if list.len() > limits.parts {
        let message = format!("parts has {} entries; the limit here is {}", list.len(), limits.parts);
        return Err(Fault::params("parts", message));
    }
    Ok(list)
}

/// The same fault, seen from one level further out.
pub(crate) fn under(parent: &str, fault: Fault) -> Fault {
    match &fault.field {
        Some(field) if field.is_empty() => {
            let message = format!("{parent}: {}", fault.message);
            Fault { field: Some(parent.to_owned()), message, ..fault }
        }
        Some(field) => {
            let message = match fault.message.strip_prefix(field.as_str()) {
                Some(_) => format!("{parent}.{}", fault.message),
                None => fault.message.clone(),
            };
            Fault { field: Some(format!("{parent}.{field}")), message, ..fault }
        }
        None => fault,
    }
}
