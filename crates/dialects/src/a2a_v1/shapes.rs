//! The members of 1.0 objects on the wire, as read. Each member stands with its JSON name and its proto name, both of which
//! callers use. Which of them must be there is for [`super::decode`] and [`super::read`] to say.

use model::{Role, State};

use crate::framing::shape::{Any, BoundedList, EnumName, Int, Object, Text, shape};

/// Far above any configured limit of parts; only keeps a hostile body from growing in memory.
pub const MAX_PARTS: usize = 100_000;
/// Names in one list: extensions, media types, task ids.
pub const MAX_NAMES: usize = 1_000;
/// Tasks, artifacts and messages in what another server answers.
pub(super) const MAX_ANSWER: usize = 100_000;

type Names<'a> = Option<BoundedList<Text<'a>, MAX_NAMES>>;

shape! {
    pub struct SendMessageRequest ("an object") {
        tenant: Option<Text<'a>> = "tenant",
        message: Option<Message<'a>> = "message",
        configuration: Option<Configuration<'a>> = "configuration",
        metadata: Option<Object<'a>> = "metadata",
    }
}

shape! {
    pub struct Configuration ("an object") {
        accepted_output_modes: Names<'a> = "acceptedOutputModes" | "accepted_output_modes",
        push: Option<PushConfig<'a>> = "taskPushNotificationConfig" | "task_push_notification_config",
        history_length: Option<Int> = "historyLength" | "history_length",
        return_immediately: Option<bool> = "returnImmediately" | "return_immediately",
    }
}

shape! {
    pub struct Message ("a message object") {
        message_id: Option<Text<'a>> = "messageId" | "message_id",
        context_id: Option<Text<'a>> = "contextId" | "context_id",
        task_id: Option<Text<'a>> = "taskId" | "task_id",
        role: Option<EnumName<'a>> = "role",
        parts: Option<BoundedList<Part<'a>, MAX_PARTS>> = "parts",
        metadata: Option<Object<'a>> = "metadata",
        extensions: Names<'a> = "extensions",
        reference_task_ids: Names<'a> = "referenceTaskIds" | "reference_task_ids",
    }
}

shape! {
    pub struct Part ("a part object") {
        text: Option<Text<'a>> = "text",
        raw: Option<Text<'a>> = "raw",
        url: Option<Text<'a>> = "url",
        data: Any<'a> = "data",
        metadata: Option<Object<'a>> = "metadata",
        filename: Option<Text<'a>> = "filename",
        media_type: Option<Text<'a>> = "mediaType" | "media_type",
    }
}

shape! {
    pub(crate) struct GetTaskRequest ("an object") {
        tenant: Option<Text<'a>> = "tenant",
        id: Option<Text<'a>> = "id",
        history_length: Option<Int> = "historyLength" | "history_length",
    }
}

shape! {
    pub(crate) struct ListTasksRequest ("an object") {
        tenant: Option<Text<'a>> = "tenant",
        context_id: Option<Text<'a>> = "contextId" | "context_id",
        status: Option<EnumName<'a>> = "status",
        page_size: Option<Int> = "pageSize" | "page_size",
        page_token: Option<Text<'a>> = "pageToken" | "page_token",
        history_length: Option<Int> = "historyLength" | "history_length",
        status_timestamp_after: Option<Text<'a>> = "statusTimestampAfter" | "status_timestamp_after",
        include_artifacts: Option<bool> = "includeArtifacts" | "include_artifacts",
    }
}

shape! {
    /// CancelTask and SubscribeToTask.
    pub(crate) struct TaskRequest ("an object") {
        tenant: Option<Text<'a>> = "tenant",
        id: Option<Text<'a>> = "id",
        metadata: Option<Object<'a>> = "metadata",
    }
}

shape! {
    /// CreateTaskPushNotificationConfig, the inline config of a send, and the config in answers.
    pub struct PushConfig ("an object") {
        tenant: Option<Text<'a>> = "tenant",
        id: Option<Text<'a>> = "id",
        task_id: Option<Text<'a>> = "taskId" | "task_id",
        url: Option<Text<'a>> = "url",
        token: Option<Text<'a>> = "token",
        authentication: Option<Authentication<'a>> = "authentication",
    }
}

shape! {
    pub struct Authentication ("an object") {
        scheme: Option<Text<'a>> = "scheme",
        credentials: Option<Text<'a>> = "credentials",
    }
}

shape! {
    /// Get-, Delete- and ListTaskPushNotificationConfig(s).
    pub(crate) struct PushRequest ("an object") {
        tenant: Option<Text<'a>> = "tenant",
        task_id: Option<Text<'a>> = "taskId" | "task_id",
        id: Option<Text<'a>> = "id",
        page_size: Option<Int> = "pageSize" | "page_size",
        page_token: Option<Text<'a>> = "pageToken" | "page_token",
    }
}

shape! {
    /// GetExtendedAgentCard.
    pub(crate) struct TenantRequest ("an object") {
        tenant: Option<Text<'a>> = "tenant",
    }
}

shape! {
    pub(crate) struct Task ("a task object") {
        id: Option<Text<'a>> = "id",
        context_id: Option<Text<'a>> = "contextId" | "context_id",
        status: Option<Status<'a>> = "status",
        artifacts: Option<BoundedList<Artifact<'a>, MAX_ANSWER>> = "artifacts",
        history: Option<BoundedList<Message<'a>, MAX_ANSWER>> = "history",
        metadata: Option<Object<'a>> = "metadata",
    }
}

shape! {
    pub(crate) struct Status ("a status object") {
        state: Option<EnumName<'a>> = "state",
        message: Option<Message<'a>> = "message",
        timestamp: Option<Text<'a>> = "timestamp",
    }
}

shape! {
    pub(crate) struct Artifact ("an artifact object") {
        artifact_id: Option<Text<'a>> = "artifactId" | "artifact_id",
        name: Option<Text<'a>> = "name",
        description: Option<Text<'a>> = "description",
        parts: Option<BoundedList<Part<'a>, MAX_PARTS>> = "parts",
        metadata: Option<Object<'a>> = "metadata",
        extensions: Names<'a> = "extensions",
    }
}

shape! {
    /// SendMessageResponse is the same with two of the members.
    pub(crate) struct StreamResponse ("an object") {
        task: Option<Task<'a>> = "task",
        message: Option<Message<'a>> = "message",
        status_update: Option<StatusUpdate<'a>> = "statusUpdate" | "status_update",
        artifact_update: Option<ArtifactUpdate<'a>> = "artifactUpdate" | "artifact_update",
    }
}

shape! {
    pub(crate) struct StatusUpdate ("an object") {
        task_id: Option<Text<'a>> = "taskId" | "task_id",
        context_id: Option<Text<'a>> = "contextId" | "context_id",
        status: Option<Status<'a>> = "status",
        metadata: Option<Object<'a>> = "metadata",
    }
}

shape! {
    pub(crate) struct ArtifactUpdate ("an object") {
        task_id: Option<Text<'a>> = "taskId" | "task_id",
        context_id: Option<Text<'a>> = "contextId" | "context_id",
        artifact: Option<Artifact<'a>> = "artifact",
        append: Option<bool> = "append",
        last_chunk: Option<bool> = "lastChunk" | "last_chunk",
        metadata: Option<Object<'a>> = "metadata",
    }
}

/// The name of a state.
pub fn state_name(state: State) -> &'static str {
    match state {
        State::Submitted => "TASK_STATE_SUBMITTED",
        State::Working => "TASK_STATE_WORKING",
        State::Completed => "TASK_STATE_COMPLETED",
        State::Failed => "TASK_STATE_FAILED",
        State::Canceled => "TASK_STATE_CANCELED",
        State::InputRequired => "TASK_STATE_INPUT_REQUIRED",
        State::Rejected => "TASK_STATE_REJECTED",
        State::AuthRequired => "TASK_STATE_AUTH_REQUIRED",
    }
}

pub(super) fn state_number(state: State) -> i64 {
    match state {
        State::Submitted => 1,
        State::Working => 2,
        State::Completed => 3,
        State::Failed => 4,
        State::Canceled => 5,
        State::InputRequired => 6,
        State::Rejected => 7,
        State::AuthRequired => 8,
    }
}

pub(super) fn role_number(role: Role) -> i64 {
    match role {
        Role::User => 1,
        Role::Agent => 2,
    }
}

/// A state by name or number; `Some(None)` is the unspecified one, which an empty name is too, `None` one that does not exist.
pub(super) fn state(name: &EnumName<'_>) -> Option<Option<State>> {
    let found = match name {
        EnumName::Text(text) if text.is_empty() || text == "TASK_STATE_UNSPECIFIED" => return Some(None),
        EnumName::Number(0) => return Some(None),
        EnumName::Text(text) => State::ALL.into_iter().find(|state| state_name(*state) == text),
        EnumName::Number(n) => State::ALL.into_iter().find(|state| state_number(*state) == *n),
    };
    found.map(Some)
}

pub(super) fn role_name(role: Role) -> &'static str {
    match role {
        Role::User => "ROLE_USER",
        Role::Agent => "ROLE_AGENT",
    }
}

pub(super) fn role(name: &EnumName<'_>) -> Option<Role> {
    match name {
        EnumName::Text(text) if text == "ROLE_USER" => Some(Role::User),
        EnumName::Text(text) if text == "ROLE_AGENT" => Some(Role::Agent),
        EnumName::Number(1) => Some(Role::User),
        EnumName::Number(2) => Some(Role::Agent),
        EnumName::Text(_) | EnumName::Number(_) => None,
    }
}
