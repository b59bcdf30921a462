//! The members of objects of the older generations on the wire, as read: one shape for every form, with all spellings. Where
//! two spellings may stand side by side, as in objects for readers of both generations, each is a member of its own.

use crate::framing::shape::{Any, BoundedList, EnumName, Int, Object, Text, shape};

/// Far above any configured limit of parts; only keeps a hostile body from growing in memory.
pub(crate) const MAX_PARTS: usize = 100_000;
/// Names in one list: extensions, media types, task ids.
pub(crate) const MAX_NAMES: usize = 1_000;
/// Artifacts and messages in what another server answers.
pub(crate) const MAX_ANSWER: usize = 100_000;

pub(crate) type Names<'a> = Option<BoundedList<Text<'a>, MAX_NAMES>>;

shape! {
    pub struct Message ("a message object") {
        message_id: Option<Text<'a>> = "messageId" | "message_id",
        context_id: Option<Text<'a>> = "contextId" | "context_id",
        task_id: Option<Text<'a>> = "taskId" | "task_id",
        role: Option<EnumName<'a>> = "role",
        parts: Option<BoundedList<Part<'a>, MAX_PARTS>> = "parts" | "content",
        metadata: Option<Object<'a>> = "metadata",
        extensions: Names<'a> = "extensions",
        reference_task_ids: Names<'a> = "referenceTaskIds" | "reference_task_ids",
    }
}

shape! {
    pub struct Part ("a part object") {
        kind: Option<Text<'a>> = "kind",
        type_: Option<Text<'a>> = "type",
        text: Option<Text<'a>> = "text",
        file: Option<File<'a>> = "file",
        data: Any<'a> = "data",
        metadata: Option<Object<'a>> = "metadata",
    }
}

shape! {
    pub struct File ("a file object") {
        bytes: Option<Text<'a>> = "bytes" | "fileWithBytes" | "file_with_bytes",
        uri: Option<Text<'a>> = "uri" | "fileWithUri" | "file_with_uri",
        /// The article speaks of a URL.
        url: Option<Text<'a>> = "url",
        name: Option<Text<'a>> = "name",
        media_type: Option<Text<'a>> = "mimeType" | "mime_type",
    }
}

shape! {
    /// The proto's DataPart: data within data.
    pub(crate) struct DataPart ("an object") {
        data: Any<'a> = "data",
    }
}

shape! {
    pub struct Send ("an object") {
        message: Option<Message<'a>> = "message" | "request",
        configuration: Option<Configuration<'a>> = "configuration",
        metadata: Option<Object<'a>> = "metadata",
    }
}

shape! {
    pub struct Configuration ("an object") {
        accepted_output_modes: Names<'a> = "acceptedOutputModes" | "accepted_output_modes",
        history_length: Option<Int> = "historyLength" | "history_length",
        push: Option<PushConfig<'a>> = "pushNotificationConfig" | "push_notification_config" | "pushNotification" | "push_notification",
        blocking: Option<bool> = "blocking",
    }
}

shape! {
    /// `tasks/send` and `tasks/sendSubscribe`.
    pub(crate) struct TaskSend ("an object") {
        id: Option<Text<'a>> = "id",
        session_id: Option<Text<'a>> = "sessionId" | "session_id",
        message: Option<Message<'a>> = "message",
        accepted_output_modes: Names<'a> = "acceptedOutputModes" | "accepted_output_modes",
        push: Option<PushConfig<'a>> = "pushNotification" | "push_notification",
        history_length: Option<Int> = "historyLength" | "history_length",
        metadata: Option<Object<'a>> = "metadata",
    }
}

shape! {
    /// Get, cancel, resubscribe, and the push methods that name a config. Requests in resource names have the id in the
    /// path too, which wins.
    pub(crate) struct TaskRequest ("an object") {
        id: Option<Text<'a>> = "id",
        history_length: Option<Int> = "historyLength" | "history_length",
        config_id: Option<Text<'a>> = "pushNotificationConfigId" | "push_notification_config_id",
        metadata: Option<Object<'a>> = "metadata",
    }
}

shape! {
    pub struct PushConfig ("an object") {
        id: Option<Text<'a>> = "id",
        url: Option<Text<'a>> = "url",
        token: Option<Text<'a>> = "token",
        authentication: Option<Authentication<'a>> = "authentication",
    }
}

shape! {
    pub struct Authentication ("an object") {
        schemes: Names<'a> = "schemes",
        /// 1.0 has one.
        scheme: Option<Text<'a>> = "scheme",
        credentials: Option<Text<'a>> = "credentials",
    }
}

shape! {
    /// A config with its task: `taskId` in 0.3, `id` in 0.1, a resource name in the proto.
    pub(crate) struct TaskPushConfig ("an object") {
        task_id: Option<Text<'a>> = "taskId" | "task_id",
        id: Option<Text<'a>> = "id",
        name: Option<Text<'a>> = "name",
        config: Option<PushConfig<'a>> = "pushNotificationConfig" | "push_notification_config",
    }
}

shape! {
    /// A push config as it is posted: the proto says TaskPushNotificationConfig, the text `{config}`, the Python SDK sends
    /// the whole request message; a bare config is clear enough too.
    pub(crate) struct PushBody ("an object") {
        config_id: Option<Text<'a>> = "configId" | "config_id",
        config: Option<PushBodyConfig<'a>> = "config",
        push: Option<PushConfig<'a>> = "pushNotificationConfig" | "push_notification_config",
        id: Option<Text<'a>> = "id",
        url: Option<Text<'a>> = "url",
        token: Option<Text<'a>> = "token",
        authentication: Option<Authentication<'a>> = "authentication",
    }
}

shape! {
    pub(crate) struct PushBodyConfig ("an object") {
        push: Option<PushConfig<'a>> = "pushNotificationConfig" | "push_notification_config",
        id: Option<Text<'a>> = "id",
        url: Option<Text<'a>> = "url",
        token: Option<Text<'a>> = "token",
        authentication: Option<Authentication<'a>> = "authentication",
    }
}

shape! {
    pub(crate) struct Task ("a task object") {
        id: Option<Text<'a>> = "id",
        context_id: Option<Text<'a>> = "contextId" | "context_id",
        session_id: Option<Text<'a>> = "sessionId" | "session_id",
        status: Option<Status<'a>> = "status",
        artifacts: Option<BoundedList<Artifact<'a>, MAX_ANSWER>> = "artifacts",
        history: Option<BoundedList<Message<'a>, MAX_ANSWER>> = "history",
        metadata: Option<Object<'a>> = "metadata",
    }
}

shape! {
    pub(crate) struct Status ("a status object") {
        state: Option<EnumName<'a>> = "state",
        message: Option<Message<'a>> = "message" | "update",
        timestamp: Option<Text<'a>> = "timestamp",
    }
}

shape! {
    pub(crate) struct Artifact ("an artifact object") {
        artifact_id: Option<Text<'a>> = "artifactId" | "artifact_id",
        index: Option<Int> = "index",
        name: Option<Text<'a>> = "name",
        description: Option<Text<'a>> = "description",
        parts: Option<BoundedList<Part<'a>, MAX_PARTS>> = "parts",
        metadata: Option<Object<'a>> = "metadata",
        extensions: Names<'a> = "extensions",
        append: Option<bool> = "append",
        last_chunk: Option<bool> = "lastChunk" | "last_chunk",
    }
}

shape! {
    /// A status update or an artifact update: 0.1 calls the task `id`, 0.3 `taskId`.
    pub(crate) struct Update ("an object") {
        id: Option<Text<'a>> = "id",
        task_id: Option<Text<'a>> = "taskId" | "task_id",
        context_id: Option<Text<'a>> = "contextId" | "context_id",
        status: Option<Status<'a>> = "status",
        artifact: Option<Artifact<'a>> = "artifact",
        r#final: Option<bool> = "final",
        append: Option<bool> = "append",
        last_chunk: Option<bool> = "lastChunk" | "last_chunk",
        metadata: Option<Object<'a>> = "metadata",
    }
}

shape! {
    /// The members that tell the objects of a 0.3 stream apart.
    pub(crate) struct Kind ("an object") {
        kind: Option<Text<'a>> = "kind",
        role: Option<EnumName<'a>> = "role",
        artifact: Any<'a> = "artifact",
        r#final: Option<bool> = "final",
        task_id: Any<'a> = "taskId" | "task_id",
    }
}

shape! {
    /// The proto's StreamResponse; SendMessageResponse is the same with two of the members.
    pub(crate) struct StreamResponse ("an object") {
        task: Option<Task<'a>> = "task",
        message: Option<Message<'a>> = "message" | "msg",
        status_update: Option<Update<'a>> = "statusUpdate" | "status_update",
        artifact_update: Option<Update<'a>> = "artifactUpdate" | "artifact_update",
    }
}

shape! {
    /// A JSON-RPC error response, or the body of an HTTP+JSON error.
    pub(crate) struct Error ("an object") {
        error: Option<ErrorObject<'a>> = "error",
        code: Option<Int> = "code",
        message: Option<Text<'a>> = "message",
        type_: Option<Text<'a>> = "type",
    }
}

shape! {
    pub(crate) struct ErrorObject ("an object") {
        code: Option<Int> = "code",
        message: Option<Text<'a>> = "message",
    }
}
