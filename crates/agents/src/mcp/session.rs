//! A session with the server, used by one call at a time: MCP does not say which call a progress notification or a
//! question belongs to.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rmcp::model::{
    ClientCapabilities, ClientConfig, ClientRequest, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationCapability, FormElicitationCapability, Implementation, PingRequest, Tool,
};
use rmcp::service::{NotificationContext, RequestContext, RunningService};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{IntoTransport as _, StreamableHttpClientTransport};
use rmcp::{ClientHandler, ErrorData, RoleClient, ServiceExt as _};
use tokio::sync::{mpsc, oneshot};

use super::Options;
use super::ordered::Ordered;
use super::process::McpProcess;

/// Most queued events. Progress above it is dropped.
const WAITING: usize = 64;
/// Time limit for closing a session.
const CLOSE_TIME: Duration = Duration::from_secs(2);

/// An event during a call.
pub(super) enum Happening {
    Progress(String),
    Asked(Box<ElicitRequestParams>, oneshot::Sender<ElicitResult>),
}

pub(super) type Service = RunningService<RoleClient, Handler>;

pub(super) struct McpSession {
    pub(super) service: Arc<Service>,
    pub(super) happenings: mpsc::Receiver<Happening>,
    /// Declared after the service, so that the connection closes before the process ends.
    process: Option<McpProcess>,
}

/// Why there is no session, or no answer. The text is for callers; the details are in the log.
#[derive(Debug)]
pub(super) struct SessionError(pub(super) String);

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl McpSession {
    pub(super) async fn connect(
        options: &Options,
        client: &reqwest::Client,
        changed: Arc<AtomicBool>,
    ) -> Result<McpSession, SessionError> {
        let (heard, happenings) = mpsc::channel(WAITING);
        let handler = Handler { heard: heard.clone(), changed };
        let (serving, process) = match (&options.command, &options.url) {
            (Some(words), _) => {
                let (process, stdout, stdin) = McpProcess::start(options, words).map_err(|error| {
                    tracing::warn!(program = ?words.first(), %error, "an MCP server could not be started");
                    SessionError(format!("the MCP server could not be started: {error}"))
                })?;
                let transport = Ordered { within: (stdout, stdin).into_transport(), heard };
                let serving = tokio::time::timeout(options.connect_time(), Box::pin(handler.serve(transport)));
                (serving.await, Some(process))
            }
            (None, url) => {
                let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_deref().unwrap_or_default());
                config.allow_stateless = true;
                let within = StreamableHttpClientTransport::with_client(client.clone(), config);
                let transport = Ordered { within, heard };
                (tokio::time::timeout(options.connect_time(), Box::pin(handler.serve(transport))).await, None)
            }
        };
        match serving {
            Ok(Ok(service)) => Ok(McpSession { service: Arc::new(service), happenings, process }),
            Ok(Err(error)) => {
                // The address goes to the log only: callers need not know where an agent runs.
                tracing::warn!(%error, "connecting to an MCP server failed");
                let says = "the MCP server could not be reached";
                let last_words = match &process {
                    Some(process) => process.last_words().await,
                    None => String::new(),
                };
                Err(SessionError(if last_words.is_empty() { says.into() } else { format!("{says}: {last_words}") }))
            }
            Err(_) => {
                let time = options.connect_time().as_secs_f64();
                Err(SessionError(format!("the MCP server was not ready within {time} s")))
            }
        }
    }

    pub(super) async fn tools(&self) -> Result<Vec<Tool>, SessionError> {
        self.service.peer().list_all_tools().await.map_err(|error| {
            tracing::warn!(%error, "the tools of an MCP server could not be listed");
            SessionError("the MCP server did not say which tools it has".into())
        })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.service.is_closed() || self.service.peer().is_transport_closed()
    }

    /// The tail of the server program's stderr.
    pub(super) async fn last_words(&self) -> String {
        match &self.process {
            Some(process) => process.last_words().await,
            None => String::new(),
        }
    }

    /// Ends the session after everything was sent, above all a cancel.
    pub(super) fn retire(self) {
        // Without a runtime the session just drops.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            let heard = self.service.peer().send_request(ClientRequest::PingRequest(PingRequest::default()));
            // The server need not answer.
            let _ = tokio::time::timeout(CLOSE_TIME, heard).await;
            let McpSession { service, process, .. } = self;
            if let Some(mut service) = Arc::into_inner(service) {
                let _ = service.close_with_timeout(CLOSE_TIME).await;
            }
            if let Some(process) = process {
                process.end(CLOSE_TIME).await;
            }
        });
    }
}

/// Handles requests from the server.
pub(super) struct Handler {
    heard: mpsc::Sender<Happening>,
    /// The server's list of tools has changed.
    changed: Arc<AtomicBool>,
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        let form = FormElicitationCapability::default();
        capabilities.elicitation = Some(ElicitationCapability::new().with_form(form));
        ClientConfig::new(capabilities, Implementation::new("rialto", env!("CARGO_PKG_VERSION")))
    }

    async fn create_elicitation(
        &self,
        asked: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let (answer, answered) = oneshot::channel();
        // If the call is gone, or its answer is dropped, there is no answer.
        let _ = self.heard.send(Happening::Asked(Box::new(asked), answer)).await;
        Ok(answered.await.unwrap_or_else(|_| ElicitResult::new(ElicitationAction::Cancel)))
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.store(true, Ordering::Relaxed);
    }
}
