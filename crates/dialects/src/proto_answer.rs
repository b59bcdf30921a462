//! ProtoAnswers over gRPC, read into [`crate::seen`]. The two packages have the same messages and number a few fields
//! differently, so one reader has the numbers as a table.
//!
//! Fields that are not known are skipped, and an unknown state is none. A part that cannot be read is left out and noted: it
//! must not cost the rest of an answer. An answer that lacks what it cannot do without is a fault.

use model::{Artifact, ContextId, Fault, Json, Kind, Limits, Message, Part, Role, State};

use crate::compat::marks::{self, MetadataMarks};
use crate::framing::fields::{present, under};
use crate::framing::shape::{Int, shortened};
use crate::protobuf::value::read_object;
use crate::protobuf::{FieldValue, Fields};
use crate::seen::{PageSeen, Seen, StatusSeen, TaskSeen, unlimited};

/// The numbers of a package's fields, where the packages differ.
#[derive(Debug)]
pub(crate) struct ProtoAnswers {
    pub(crate) state: fn(i64) -> Option<State>,
    pub(crate) part: fn(Fields<'_>, &Limits) -> Result<Part, Fault>,
    /// Facts without a field are marked in metadata.
    pub(crate) marks: bool,
    /// In a message.
    pub(crate) references: Option<u32>,
    /// In an update of a status.
    pub(crate) is_final: Option<u32>,
    pub(crate) status_metadata: u32,
    /// The first field of an artifact after its id; the others follow one by one.
    pub(crate) artifact_name: u32,
}

/// Descriptions of the parts of an answer that could not be read.
type Notes = Vec<String>;
/// So many notes of one answer are kept, each up to this length.
const MOST: usize = 64;
const NOTE: usize = 300;

impl ProtoAnswers {
    /// A StreamResponse or SendMessageResponse; nothing if it holds none of what is known.
    pub(crate) fn seen(&self, message: &[u8]) -> Result<Option<Seen>, Fault> {
        let (limits, mut notes) = (unlimited(), Notes::new());
        let (mut fields, mut seen) = (Fields::new(message), None);
        while let Some((number, value)) = fields.next_field()? {
            let at = |name: &'static str| move |fault: Fault| under(name, fault);
            match number {
                1 => seen = Some(Seen::Task(self.task(value.message()?, &limits).map_err(at("task"))?)),
                2 => {
                    let (message, context, task) =
                        self.said(value.message()?, &limits, &mut notes).map_err(at("message"))?;
                    seen = Some(Seen::Message { message, context, task });
                }
                3 => {
                    let update = self.status_update(value.message()?, &limits, &mut notes);
                    seen = Some(update.map_err(at("statusUpdate"))?);
                }
                4 => {
                    let update = self.artifact_update(value.message()?, &limits, &mut notes);
                    seen = Some(update.map_err(at("artifactUpdate"))?);
                }
                _ => {}
            }
        }
        Ok(seen.map(|seen| if notes.is_empty() { seen } else { Seen::Partial { seen: Box::new(seen), unread: notes } }))
    }

    pub(crate) fn bare_task(&self, message: &[u8]) -> Result<TaskSeen, Fault> {
        self.task(Fields::new(message), &unlimited())
    }

    /// A ListTasksResponse.
    pub(crate) fn page(&self, message: &[u8]) -> Result<PageSeen, Fault> {
        let (limits, mut page, mut fields) = (unlimited(), PageSeen::default(), Fields::new(message));
        while let Some((number, value)) = fields.next_field()? {
            match number {
                1 => {
                    let task = self.task(value.message()?, &limits);
                    page.tasks.push(task.map_err(|fault| under(&format!("tasks[{}]", page.tasks.len()), fault))?);
                }
                2 => page.next_page_token = present(Some(value.text("nextPageToken")?)),
                4 => page.total_size = u64::try_from(value.int()?.0).ok(),
                _ => {}
            }
        }
        Ok(page)
    }

    fn task(&self, mut fields: Fields<'_>, limits: &Limits) -> Result<TaskSeen, Fault> {
        let (mut id, mut context, mut status, mut metadata) = (None, None, None, None);
        let (mut artifacts, mut history, mut unread) = (Vec::new(), Vec::new(), Notes::new());
        while let Some((number, value)) = fields.next_field()? {
            match number {
                1 => id = present(Some(value.text("id")?)),
                2 => context = context_of(value)?,
                3 => status = Some(self.status(value.message()?, limits, &mut unread)?),
                4 => artifacts.push(self.artifact(value.message()?, limits, &mut unread)?),
                5 => history.push(self.said(value.message()?, limits, &mut unread)?.0),
                6 => metadata = Some(read_object(value, "metadata", limits.json_depth)?),
                _ => {}
            }
        }
        let id = id.ok_or_else(|| Fault::params("id", "id is missing"))?;
        let mut status = status.ok_or_else(|| Fault::params("status", "status is missing"))?;
        let taken = self.take(metadata);
        status.state = taken.state.or(status.state);
        Ok(TaskSeen { id, context, status, artifacts, history, metadata: taken.metadata, unread })
    }

    fn status(&self, mut fields: Fields<'_>, limits: &Limits, notes: &mut Notes) -> Result<StatusSeen, Fault> {
        let mut status = StatusSeen { state: None, message: None, at: None };
        while let Some((number, value)) = fields.next_field()? {
            match number {
                1 => status.state = (self.state)(value.int()?.0),
                2 => status.message = Some(self.said(value.message()?, limits, notes)?.0),
                3 => status.at = value.time("timestamp").ok(),
                _ => {}
            }
        }
        Ok(status)
    }

    fn status_update(&self, mut fields: Fields<'_>, limits: &Limits, notes: &mut Notes) -> Result<Seen, Fault> {
        let (mut task, mut context, mut status, mut metadata, mut closes) = (None, None, None, None, false);
        while let Some((number, value)) = fields.next_field()? {
            match number {
                1 => task = present(Some(value.text("taskId")?)),
                2 => context = context_of(value)?,
                3 => status = Some(self.status(value.message()?, limits, notes)?),
                number if Some(number) == self.is_final => closes = value.bool()?,
                number if number == self.status_metadata => {
                    metadata = Some(read_object(value, "metadata", limits.json_depth)?);
                }
                _ => {}
            }
        }
        let task = task.ok_or_else(|| Fault::params("taskId", "taskId is missing"))?;
        let mut status = status.ok_or_else(|| Fault::params("status", "status is missing"))?;
        let taken = self.take(metadata);
        status.state = taken.state.or(status.state);
        Ok(Seen::Status { task, context, status, metadata: taken.metadata, closes })
    }

    fn artifact_update(&self, mut fields: Fields<'_>, limits: &Limits, notes: &mut Notes) -> Result<Seen, Fault> {
        let (mut task, mut context, mut found, mut metadata) = (None, None, None, None);
        let (mut append, mut last) = (false, false);
        while let Some((number, value)) = fields.next_field()? {
            match number {
                1 => task = present(Some(value.text("taskId")?)),
                2 => context = context_of(value)?,
                3 => found = Some(self.artifact(value.message()?, limits, notes)?),
                4 => append = value.bool()?,
                5 => last = value.bool()?,
                6 => metadata = Some(read_object(value, "metadata", limits.json_depth)?),
                _ => {}
            }
        }
        let task = task.ok_or_else(|| Fault::params("taskId", "taskId is missing"))?;
        let artifact = found.ok_or_else(|| Fault::params("artifact", "artifact is missing"))?;
        Ok(Seen::Artifact { task, context, artifact, append, last, metadata: self.take(metadata).metadata })
    }

    /// An artifact may come without parts: the last chunk of one often does.
    fn artifact(&self, mut fields: Fields<'_>, limits: &Limits, notes: &mut Notes) -> Result<Artifact, Fault> {
        let (mut id, mut name, mut description) = (None, None, None);
        let (mut parts, mut metadata, mut extensions) = (Vec::new(), None, Vec::new());
        while let Some((number, value)) = fields.next_field()? {
            if number == 1 {
                id = present(Some(value.text("artifactId")?));
                continue;
            }
            match number.checked_sub(self.artifact_name) {
                Some(0) => name = present(Some(value.text("name")?)),
                Some(1) => description = present(Some(value.text("description")?)),
                Some(2) => self.add_part(&mut parts, value, limits, notes)?,
                Some(3) => metadata = Some(read_object(value, "metadata", limits.json_depth)?),
                Some(4) => extensions.push(value.string("extensions")?),
                Some(_) | None => {}
            }
        }
        let id = id.ok_or_else(|| Fault::params("artifactId", "artifactId is missing"))?.into();
        let taken = self.take(metadata);
        let extensions = if extensions.is_empty() { taken.extensions } else { extensions };
        Ok(Artifact { id, name, description, parts, metadata: taken.metadata, extensions })
    }

    /// A message with the context and the task it names. Servers leave out what callers must not: the id, parts, their own
    /// role.
    fn said(
        &self,
        mut fields: Fields<'_>,
        limits: &Limits,
        notes: &mut Notes,
    ) -> Result<(Message, Option<ContextId>, Option<String>), Fault> {
        let (mut id, mut task, mut context, mut role) = (String::new(), None, None, Role::Agent);
        let (mut parts, mut metadata) = (Vec::new(), None);
        let (mut extensions, mut references) = (Vec::new(), Vec::new());
        while let Some((number, value)) = fields.next_field()? {
            match number {
                1 => id = value.string("messageId")?,
                2 => context = context_of(value)?,
                3 => task = present(Some(value.text("taskId")?)),
                4 => role = if value.int()? == Int(1) { Role::User } else { Role::Agent },
                5 => self.add_part(&mut parts, value, limits, notes)?,
                6 => metadata = Some(read_object(value, "metadata", limits.json_depth)?),
                7 => extensions.push(value.string("extensions")?),
                number if Some(number) == self.references => references.push(value.string("referenceTaskIds")?),
                _ => {}
            }
        }
        let taken = self.take(metadata);
        let or = |own: Vec<String>, marked: Vec<String>| if own.is_empty() { marked } else { own };
        let (extensions, references) = (or(extensions, taken.extensions), or(references, taken.references));
        Ok((Message { id: id.into(), role, parts, metadata: taken.metadata, extensions, references }, context, task))
    }

    fn add_part(
        &self,
        parts: &mut Vec<Part>,
        value: FieldValue<'_>,
        limits: &Limits,
        notes: &mut Notes,
    ) -> Result<(), Fault> {
        match (self.part)(value.message()?, limits) {
            Ok(part) => parts.push(part),
            // Bytes that are no protobuf at all say nothing of the rest either.
            Err(fault) if fault.kind == Kind::Parse => return Err(fault),
            Err(fault) if notes.len() < MOST => notes.push(shortened(&fault.message, NOTE)),
            Err(_) => {}
        }
        Ok(())
    }

    fn take(&self, metadata: Option<Json>) -> MetadataMarks {
        if self.marks { marks::take(metadata) } else { MetadataMarks { metadata, ..MetadataMarks::default() } }
    }
}

fn context_of(value: FieldValue<'_>) -> Result<Option<ContextId>, Fault> {
    Ok(present(Some(value.text("contextId")?)).map(|id| ContextId(id.into())))
}
