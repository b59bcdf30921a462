//! The client's direction: what a server of an older generation answered.

use model::{Artifact, ContextId, Fault, Kind, Limits};

use super::decode::{PreV1Decoder, time};
use super::marks;
use super::{PreV1Form, names, shapes};
use crate::framing::fields::{self, each, present, under};
use crate::framing::shape::{Int, Object, Text};
use crate::seen::{ErrorSeen, Seen, StatusSeen, TaskSeen, ill_formed, read, unlimited};

/// A bare task.
pub(crate) fn task(form: PreV1Form, text: &str) -> Result<TaskSeen, Fault> {
    Answers(&unlimited(), form).task(read(text)?).map_err(ill_formed)
}

/// The answer to a send, or one event of a stream.
pub(crate) fn seen(form: PreV1Form, text: &str) -> Result<Seen, Fault> {
    let limits = unlimited();
    let answers = Answers(&limits, form);
    let seen = match form {
        PreV1Form::Proto => answers.wrapped(read(text)?),
        PreV1Form::Type => answers.update(read(text)?),
        PreV1Form::Kind | PreV1Form::Both => match kind(&read(text)?)? {
            Told::Task => answers.task(read(text)?).map(Seen::Task),
            Told::Message => answers.message(read(text)?),
            Told::Update => answers.update(read(text)?),
        },
    };
    seen.map_err(ill_formed)
}

/// An error answer; `kind_of` maps the dialect's code.
pub(crate) fn error(text: &str, kind_of: impl FnOnce(i64) -> Option<Kind>) -> Result<ErrorSeen, Fault> {
    let shape: shapes::Error<'_> = read(text)?;
    let (code, message) = match shape.error {
        Some(error) => (error.code, error.message),
        // The HTTP bodies of 0.3 were never agreed on: `message` is all that is always there.
        None => (shape.code, shape.message),
    };
    let code = code.map_or(0, |Int(code)| code);
    let message = message.map(Text::into_string).unwrap_or_default();
    Ok(ErrorSeen { code, message, reason: present(shape.type_), kind: kind_of(code) })
}

enum Told {
    Task,
    Message,
    Update,
}

/// The type of an object in a 0.3 stream: by its `kind`, else by its members.
fn kind(shape: &shapes::Kind<'_>) -> Result<Told, Fault> {
    match shape.kind.as_ref().map(|kind| kind.0.as_ref()) {
        Some("task") => Ok(Told::Task),
        Some("message") => Ok(Told::Message),
        Some("status-update" | "artifact-update") => Ok(Told::Update),
        None if shape.role.is_some() => Ok(Told::Message),
        None if shape.artifact.0.is_some() || shape.r#final.is_some() || shape.task_id.0.is_some() => Ok(Told::Update),
        None => Ok(Told::Task),
        Some(_) => Err(Fault::new(
            Kind::InvalidAgentResponse,
            "expected a kind of task, message, status-update or artifact-update",
        )),
    }
}

/// Reads answers, whose size is bounded by what is read and not by the limits for callers.
struct Answers<'l>(&'l Limits, PreV1Form);

impl Answers<'_> {
    fn decoder(&self) -> PreV1Decoder<'_> {
        PreV1Decoder::new(self.1, self.0)
    }

    fn wrapped(&self, shape: shapes::StreamResponse<'_>) -> Result<Seen, Fault> {
        match (shape.task, shape.message, shape.status_update, shape.artifact_update) {
            (Some(task), None, None, None) => self.task(task).map(Seen::Task).map_err(|fault| under("task", fault)),
            (None, Some(message), None, None) => self.message(message).map_err(|fault| under("message", fault)),
            (None, None, Some(update), None) => self.update(update).map_err(|fault| under("statusUpdate", fault)),
            (None, None, None, Some(update)) => self.update(update).map_err(|fault| under("artifactUpdate", fault)),
            _ => Err(Fault::new(
                Kind::InvalidAgentResponse,
                "expected one of task, message, statusUpdate, artifactUpdate",
            )),
        }
    }

    fn task(&self, shape: shapes::Task<'_>) -> Result<TaskSeen, Fault> {
        let id = present(shape.id).ok_or_else(|| Fault::params("id", "id is missing"))?;
        let Some(status) = shape.status else {
            return Err(Fault::params("status", "status is missing"));
        };
        let artifacts = each("artifacts", shape.artifacts.unwrap_or_default().0, |one| self.artifact(one))?;
        let history = each("history", shape.history.unwrap_or_default().0, |one| {
            self.decoder().answered(one).map(|said| said.message)
        })?;
        let taken = marks::take(shape.metadata.map(Object::to_json));
        let mut status = self.status(status).map_err(|fault| under("status", fault))?;
        status.state = taken.state.or(status.state);
        let context = context(shape.context_id).or_else(|| context(shape.session_id));
        Ok(TaskSeen { id, context, status, artifacts, history, metadata: taken.metadata, unread: Vec::new() })
    }

    fn message(&self, shape: shapes::Message<'_>) -> Result<Seen, Fault> {
        let said = self.decoder().answered(shape)?;
        Ok(Seen::Message { message: said.message, context: said.context, task: said.task })
    }

    fn update(&self, shape: shapes::Update<'_>) -> Result<Seen, Fault> {
        let task = present(shape.task_id).or_else(|| present(shape.id));
        let task = task.ok_or_else(|| Fault::params("taskId", "taskId is missing"))?;
        let context = context(shape.context_id);
        let taken = marks::take(shape.metadata.map(Object::to_json));
        if let Some(artifact) = shape.artifact {
            // The first generation has the flags of a chunk inside the artifact.
            let append = shape.append.or(artifact.append).unwrap_or(false);
            let last = shape.last_chunk.or(artifact.last_chunk).unwrap_or(false);
            let artifact = self.artifact(artifact).map_err(|fault| under("artifact", fault))?;
            return Ok(Seen::Artifact { task, context, artifact, append, last, metadata: taken.metadata });
        }
        let Some(status) = shape.status else {
            return Err(Fault::params("status", "status is missing"));
        };
        let mut status = self.status(status).map_err(|fault| under("status", fault))?;
        status.state = taken.state.or(status.state);
        let closes = shape.r#final.unwrap_or(false);
        Ok(Seen::Status { task, context, status, metadata: taken.metadata, closes })
    }

    fn status(&self, shape: shapes::Status<'_>) -> Result<StatusSeen, Fault> {
        let message = match shape.message {
            None => None,
            Some(said) => Some(self.decoder().answered(said).map_err(|fault| under("message", fault))?.message),
        };
        Ok(StatusSeen {
            state: shape.state.as_ref().and_then(names::state),
            message,
            at: shape.timestamp.and_then(|text| time(&text.0)),
        })
    }

    /// An artifact; the first generation identifies it by its index alone.
    fn artifact(&self, shape: shapes::Artifact<'_>) -> Result<Artifact, Fault> {
        let index = shape.index.map_or(0, |Int(n)| n);
        // A reader of the first generation goes by the place even where an id stands beside it, for readers of both: some
        // answers of one server have it, others do not.
        let id = match present(shape.artifact_id).filter(|_| self.1.has_ids()) {
            Some(id) => id,
            None if self.1.has_type() => index.to_string(),
            None => return Err(Fault::params("artifactId", "artifactId is missing")),
        };
        let taken = marks::take(shape.metadata.map(Object::to_json));
        let extensions = fields::names(shape.extensions);
        Ok(Artifact {
            id: id.into(),
            name: present(shape.name),
            description: present(shape.description),
            parts: each("parts", shape.parts.unwrap_or_default().0, |part| self.decoder().part(part))?,
            metadata: taken.metadata,
            extensions: if extensions.is_empty() { taken.extensions } else { extensions },
        })
    }
}

fn context(text: Option<Text<'_>>) -> Option<ContextId> {
    present(text).map(|id| ContextId(id.into()))
}
