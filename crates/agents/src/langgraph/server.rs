//! The part of the graph server's REST interface that turns use: create, find, stream, query and cancel runs.

use std::time::Duration;

use model::TurnId;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap};
use reqwest::{Client, RequestBuilder, Response, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::binding::RunBinding;
use crate::outbound::{self, RequestError};

pub(super) const WHO: &str = "the graph server";
/// The metadata member of a run that holds its turn's id.
pub(super) const TURN: &str = "rialto_turn";
/// Time limit of requests that do not stream.
const CALL_TIME: Duration = Duration::from_secs(30);
/// Newest runs of a thread to search for a turn's run.
const NEWEST_RUNS: u32 = 100;

pub(super) struct GraphServer {
    client: Client,
    base: String,
    /// Longest answer.
    pub(super) longest: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RunStatus {
    Pending,
    Running,
    Success,
    Error,
    Timeout,
    /// Cancelled.
    Interrupted,
    /// A status of a later version.
    #[serde(other)]
    Unknown,
}

#[derive(Deserialize)]
struct Run {
    run_id: String,
    #[serde(default)]
    status: Option<RunStatus>,
    #[serde(default)]
    metadata: serde_json::Map<String, serde_json::Value>,
}

impl GraphServer {
    pub(super) fn new(client: Client, base: &str, longest: usize) -> GraphServer {
        GraphServer { client, base: base.to_owned(), longest }
    }

    /// Creates a run, and its thread if missing. The run's id is known if the server sends it before the first
    /// event.
    pub(super) async fn create(&self, thread: &str, body: String) -> Result<(Response, Option<String>), RequestError> {
        let request = self.client.post(format!("{}/threads/{thread}/runs/stream", self.base));
        let request = request.header(CONTENT_TYPE, "application/json").header(ACCEPT, "text/event-stream").body(body);
        let response = outbound::answer(WHO, request.send().await, outbound::is_busy).await?;
        let run = run_of(response.headers());
        Ok((response, run))
    }

    /// Streams a run again, from its beginning where the server has stored it.
    pub(super) async fn attach(&self, place: &RunBinding) -> Result<Response, RequestError> {
        let request = self.client.get(format!("{}/stream", self.run(place)));
        let request = request.header(ACCEPT, "text/event-stream").header("last-event-id", "-1");
        outbound::answer(WHO, request.send().await, outbound::is_busy).await
    }

    /// The run that an earlier attempt of the turn created, if any.
    pub(super) async fn find(&self, thread: &str, turn: TurnId) -> Result<Option<String>, RequestError> {
        let url = format!("{}/threads/{thread}/runs?limit={NEWEST_RUNS}", self.base);
        let runs: Option<Vec<Run>> = self.ask(self.client.get(url)).await?;
        let turn = turn.to_string();
        let is_it = |run: &Run| run.metadata.get(TURN).and_then(|known| known.as_str()) == Some(&turn);
        Ok(runs.unwrap_or_default().into_iter().find(is_it).map(|run| run.run_id))
    }

    /// The status of a run; none if the server does not know it.
    pub(super) async fn status(&self, place: &RunBinding) -> Result<Option<RunStatus>, RequestError> {
        let run: Option<Run> = self.ask(self.client.get(self.run(place))).await?;
        Ok(run.map(|run| run.status.unwrap_or(RunStatus::Unknown)))
    }

    /// The state of a thread, deserialized as `T`.
    pub(super) async fn state<T: DeserializeOwned>(&self, thread: &str) -> Result<Option<T>, RequestError> {
        self.ask(self.client.get(format!("{}/threads/{thread}/state", self.base))).await
    }

    /// Cancels a run; false if it had ended already.
    pub(super) async fn cancel(&self, place: &RunBinding) -> Result<bool, RequestError> {
        let request = self.client.post(format!("{}/cancel?wait=false&action=interrupt", self.run(place)));
        let sent = request.header(CONTENT_TYPE, "application/json").body("{}").timeout(CALL_TIME).send().await;
        if is_missing(&sent) {
            return Ok(false);
        }
        outbound::answer(WHO, sent, outbound::is_busy).await.map(|_| true)
    }

    fn run(&self, place: &RunBinding) -> String {
        format!("{}/threads/{}/runs/{}", self.base, place.thread, place.run)
    }

    /// A JSON answer; none for 404.
    async fn ask<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<Option<T>, RequestError> {
        let sent = request.header(ACCEPT, "application/json").timeout(CALL_TIME).send().await;
        if is_missing(&sent) {
            return Ok(None);
        }
        let mut response = outbound::answer(WHO, sent, outbound::is_busy).await?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| RequestError::broken(WHO, &error))? {
            body.extend_from_slice(&chunk);
            if body.len() > self.longest {
                return Err(RequestError::never(format!("{WHO} answered more than {} bytes", self.longest)));
            }
        }
        let read = serde_json::from_slice(&body);
        read.map(Some).map_err(|error| {
            tracing::error!(%error, "an answer of {WHO} is not valid");
            RequestError::never(format!("{WHO} answered what is not understood; check the agent's url"))
        })
    }
}

fn is_missing(sent: &Result<Response, reqwest::Error>) -> bool {
    sent.as_ref().is_ok_and(|response| response.status() == StatusCode::NOT_FOUND)
}

/// The run's id in `/threads/T/runs/R`.
fn run_of(headers: &HeaderMap) -> Option<String> {
    let location = headers.get("content-location")?.to_str().ok()?;
    let (_, run) = location.split_once("/runs/")?;
    let run = run.split(['/', '?']).next()?;
    Some(run.to_owned()).filter(|run| !run.is_empty())
}
