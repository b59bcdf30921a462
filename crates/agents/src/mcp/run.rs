//! One turn: a call, or the answer to an open call.

use std::sync::Arc;

use model::ports::Future;
use model::ports::agent::{AgentEvent, AgentMessage, ArtifactChunk, EndState, Turn};
use model::{Inbound, Part, Role};
use rmcp::ServiceError;
use rmcp::model::{CallToolRequestParams, CallToolResult, ElicitResult};
use tokio::sync::oneshot;

use super::choose::{self, ToolChoice};
use super::question::{self, ToolQuestion};
use super::returned;
use super::session::{Happening, McpSession};
use super::shared::Shared;
use crate::emitter::Emitter;
use crate::text_accumulator::numbered;

/// A running tool. Dropping it before its end cancels it, and its session is not used again.
pub(super) struct ToolCall {
    tool: String,
    reply: Option<Future<'static, Result<CallToolResult, ServiceError>>>,
    /// The result, while earlier events are still queued.
    returned: Option<Result<CallToolResult, ServiceError>>,
    session: Option<McpSession>,
}

impl ToolCall {
    fn start(session: McpSession, choice: ToolChoice) -> ToolCall {
        let ToolChoice { tool, arguments } = choice;
        let service = session.service.clone();
        let params = CallToolRequestParams::new(tool.clone()).with_arguments(arguments);
        let reply = Box::pin(async move { service.call_tool(params).await });
        ToolCall { tool, reply: Some(reply), returned: None, session: Some(session) }
    }

    /// The next event, or the result.
    async fn next(&mut self) -> Next {
        let (Some(reply), Some(session)) = (&mut self.reply, &mut self.session) else {
            return Next::Returned(Err(ServiceError::TransportClosed));
        };
        if self.returned.is_none() {
            tokio::select! {
                biased;
                Some(happening) = session.happenings.recv() => return Next::Happened(happening),
                returned = reply => self.returned = Some(returned),
            }
        }
        // Events may have arrived between the check of the queue and the reply.
        match session.happenings.try_recv() {
            Ok(happening) => Next::Happened(happening),
            Err(_) => Next::Returned(self.returned.take().unwrap_or(Err(ServiceError::TransportClosed))),
        }
    }
}

impl Drop for ToolCall {
    fn drop(&mut self) {
        // Dropping an unfinished call sends its cancel; the session may end only after that.
        self.reply = None;
        if let Some(session) = self.session.take() {
            session.retire();
        }
    }
}

enum Next {
    Happened(Happening),
    Returned(Result<CallToolResult, ServiceError>),
}

/// A call whose tool waits for an answer.
pub(super) struct WaitingCall {
    call: ToolCall,
    question: ToolQuestion,
    answer: oneshot::Sender<ElicitResult>,
}

pub(super) async fn run(shared: Arc<Shared>, turn: Turn, emitter: Emitter) {
    let Some(inbound) = turn.messages.last().cloned() else { return };
    let call = match shared.open.take(turn.task) {
        Some(asking) => match asking.question.answer(&inbound) {
            Ok(answer) => {
                // The tool may have given up meanwhile; then its result says so.
                let _ = asking.answer.send(answer);
                asking.call
            }
            Err(wrong) => {
                let words = asking.question.words(Some(&wrong));
                shared.open.keep(turn.task, asking);
                return emitter.end(EndState::InputRequired, Some(words)).await;
            }
        },
        None if was_asked(&turn) && !choose::names_a_tool(&inbound) => {
            let says = "the tool that asked this does not wait any more; start again: say which tool, and with what";
            return emitter.end(EndState::InputRequired, Some(AgentMessage::text(says))).await;
        }
        None => match begin(&shared, &turn, &inbound, &emitter).await {
            Some(call) => call,
            None => return,
        },
    };
    emitter.say(AgentEvent::Working(None)).await;
    listen(&shared, &turn, call, &emitter).await;
}

/// Whether the task's last message is a tool's question.
fn was_asked(turn: &Turn) -> bool {
    let task = &turn.so_far;
    let last = task.status.message.as_ref().filter(|message| message.role == Role::Agent);
    let last = last.or_else(|| task.history.iter().rev().find(|message| message.role == Role::Agent));
    last.is_some_and(|message| question::is_question(message))
}

/// Calls the tool of the message; none if the turn has ended instead.
async fn begin(shared: &Shared, turn: &Turn, inbound: &Inbound, emitter: &Emitter) -> Option<ToolCall> {
    let session = tokio::select! {
        biased;
        () = turn.cancelled.clone() => {
            emitter.end(EndState::Canceled, None).await;
            return None;
        }
        session = shared.session() => session,
    };
    let session = match session {
        Ok(session) => session,
        Err(trouble) => {
            emitter.fail(trouble.0).await;
            return None;
        }
    };
    match choose::choose(inbound, &shared.tools()) {
        Ok(choice) => Some(ToolCall::start(session, choice)),
        Err(refusal) => {
            shared.put_back(session);
            emitter.end(refusal.state, Some(AgentMessage::text(refusal.says))).await;
            None
        }
    }
}

async fn listen(shared: &Shared, turn: &Turn, mut call: ToolCall, emitter: &Emitter) {
    loop {
        let next = tokio::select! {
            biased;
            () = turn.cancelled.clone() => {
                drop(call);
                return emitter.end(EndState::Canceled, None).await;
            }
            next = call.next() => next,
        };
        match next {
            Next::Happened(Happening::Progress(says)) => {
                emitter.say(AgentEvent::Working(Some(AgentMessage::text(says)))).await;
            }
            Next::Happened(Happening::Asked(asked, answer)) => {
                let question = ToolQuestion::new(&call.tool, *asked);
                let words = question.words(None);
                shared.open.keep(turn.task, WaitingCall { call, question, answer });
                return emitter.end(EndState::InputRequired, Some(words)).await;
            }
            Next::Returned(Ok(result)) => {
                call.reply = None;
                if let Some(session) = call.session.take() {
                    shared.put_back(session);
                }
                return finish(turn, &call.tool, result, emitter).await;
            }
            Next::Returned(Err(error)) => return fail(shared, call, error, emitter).await,
        }
    }
}

async fn finish(turn: &Turn, tool: &str, result: CallToolResult, emitter: &Emitter) {
    let failed = result.is_error == Some(true);
    let parts: Vec<Part> = returned::parts(result);
    if failed {
        let words = if parts.is_empty() { None } else { Some(AgentMessage { parts, ..AgentMessage::default() }) };
        return emitter.end(EndState::Failed, words).await;
    }
    if !parts.is_empty() {
        let key = numbered("result", turn.so_far.core.turns);
        let name = Some(tool.to_owned());
        emitter
            .say(AgentEvent::Artifact(ArtifactChunk { key, name, parts, last: true, ..ArtifactChunk::default() }))
            .await;
    }
    emitter.end(EndState::Completed, None).await;
}

async fn fail(shared: &Shared, mut call: ToolCall, error: ServiceError, emitter: &Emitter) {
    let tool = std::mem::take(&mut call.tool);
    tracing::warn!(tool, %error, "a call of an MCP tool failed");
    let says = match error {
        // The server works; it refused this request.
        ServiceError::McpError(error) => {
            call.reply = None;
            if let Some(session) = call.session.take() {
                shared.put_back(session);
            }
            format!("{tool} failed: {}", error.message)
        }
        ServiceError::TransportSend(_) | ServiceError::TransportClosed => {
            let complaints = match &call.session {
                Some(session) => session.last_words().await,
                None => String::new(),
            };
            let says = format!("the MCP server was lost while {tool} was at work");
            if complaints.is_empty() { says } else { format!("{says}: {complaints}") }
        }
        _ => format!("the MCP server did not answer {tool} as it should"),
    };
    drop(call);
    emitter.fail(says).await;
}
