//! Answers of other servers, for clients, in the model's nouns where possible.
//!
//! The ids of another server are arbitrary strings, and much of a task (its agent, its owner, its log) is not sent; so a
//! remote task has types of its own, made of the model's content. Each dialect's `read` makes them.

use model::{Artifact, ContextId, Fault, Json, Kind, Limits, Message, PushConfig, State, Time};
use serde_json::Value;

pub(crate) use crate::complaint::{rest_frame, rest_result, rpc_result};
use crate::framing::shape;

/// A task as a server shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSeen {
    pub id: String,
    pub context: Option<ContextId>,
    pub status: StatusSeen,
    pub artifacts: Vec<Artifact>,
    pub history: Vec<Message>,
    pub metadata: Option<Json>,
    /// Descriptions of the parts that could not be read; they were passed on as data, or left out.
    pub unread: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusSeen {
    /// `None` for a state we do not know: a newer server may have one.
    pub state: Option<State>,
    pub message: Option<Message>,
    pub at: Option<Time>,
}

/// An event of a stream, or the answer to a send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    Task(TaskSeen),
    Message {
        message: Message,
        context: Option<ContextId>,
        task: Option<String>,
    },
    Status {
        task: String,
        context: Option<ContextId>,
        status: StatusSeen,
        metadata: Option<Json>,
        /// The sender says that its stream ends here. 1.0 never says: the stream just ends.
        closes: bool,
    },
    Artifact {
        task: String,
        context: Option<ContextId>,
        artifact: Artifact,
        append: bool,
        last: bool,
        metadata: Option<Json>,
    },
    /// One of those above, of which something could not be read.
    Partial {
        seen: Box<Seen>,
        unread: Vec<String>,
    },
    /// An event that could not be read at all, as it came.
    Unread {
        value: Json,
        why: String,
    },
}

/// A page of a list of tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageSeen {
    pub tasks: Vec<TaskSeen>,
    /// Nothing on the last page.
    pub next_page_token: Option<String>,
    pub total_size: Option<u64>,
}

/// The reason and kind of an error another server answered, from either binding's body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorSeen {
    /// JSON-RPC code or HTTP status.
    pub code: i64,
    pub message: String,
    pub reason: Option<String>,
    /// By reason, else by JSON-RPC code; `None` when neither is known.
    pub kind: Option<Kind>,
}

/// Reads an answer, or a part of one.
pub(crate) fn read<'a, T: serde::Deserialize<'a>>(text: &'a str) -> Result<T, Fault> {
    shape::read(text, "answer").map_err(ill_formed)
}

/// A malformed answer is an error of the other server, not of the caller.
pub(crate) fn ill_formed(fault: Fault) -> Fault {
    Fault { kind: Kind::InvalidAgentResponse, ..fault }
}

/// Answers are bounded by the size of what is read, not by the limits for callers.
pub(crate) fn unlimited() -> Limits {
    Limits { id_bytes: usize::MAX, parts: usize::MAX, ..Limits::default() }
}

/// A push config in any of its shapes: flat as in 1.0, nested below `pushNotificationConfig` as everywhere before, the task
/// named by `taskId`, by a resource name, or by `id` as in 0.1.
pub(crate) fn push_config(text: &str) -> Result<PushConfig, Fault> {
    let value: Value = read(text)?;
    push_config_of(&value)
}

/// A list of them: bare, or in an object with the token of the next page.
pub(crate) fn push_configs(text: &str) -> Result<(Vec<PushConfig>, Option<String>), Fault> {
    push_configs_of(&read(text)?)
}

pub(crate) fn push_configs_of(value: &Value) -> Result<(Vec<PushConfig>, Option<String>), Fault> {
    let list = value.as_array().or_else(|| value.get("configs")?.as_array());
    let configs = list.into_iter().flatten().map(push_config_of).collect::<Result<_, _>>()?;
    Ok((configs, string(value, &["nextPageToken", "next_page_token"])))
}

pub(crate) fn push_config_of(value: &Value) -> Result<PushConfig, Fault> {
    let nested = ["pushNotificationConfig", "push_notification_config"].iter().find_map(|name| value.get(name));
    let inner = nested.unwrap_or(value);
    let (mut task, mut id) = (string(value, &["taskId", "task_id"]), string(inner, &["id"]));
    if let Some(name) = string(value, &["name"])
        && let Some((of, config)) =
            name.strip_prefix("tasks/").and_then(|rest| rest.split_once("/pushNotificationConfigs/"))
    {
        task = task.or_else(|| Some(of.to_owned()));
        id = id.or_else(|| Some(config.to_owned()).filter(|id| !id.is_empty()));
    }
    if nested.is_some() {
        // Beside a task of another name the outer id is the config's; alone it is the task's.
        let outer = string(value, &["id"]);
        if task.is_some() { id = id.or(outer) } else { task = outer }
    }
    let authentication = inner.get("authentication").unwrap_or(&Value::Null);
    let first = || authentication.get("schemes")?.as_array()?.first()?.as_str().map(str::to_owned);
    Ok(PushConfig {
        task,
        id,
        url: string(inner, &["url"])
            .ok_or_else(|| Fault::new(Kind::InvalidAgentResponse, "the push config in the answer has no url"))?,
        token: string(inner, &["token"]),
        scheme: string(authentication, &["scheme"]).or_else(first),
        credentials: string(authentication, &["credentials"]),
    })
}

/// A member that is a string and says something, by the first of its spellings.
pub(crate) fn string(value: &Value, names: &[&str]) -> Option<String> {
    let found = names.iter().find_map(|name| value.get(name)?.as_str());
    found.filter(|text| !text.is_empty()).map(str::to_owned)
}
