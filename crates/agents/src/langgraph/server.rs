//! The graph server's REST interface, as far as turns need it: runs are created, found again, listened to, looked at and
//! stopped.

use std::time::Duration;

use model::TurnId;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap};
use reqwest::{Client, RequestBuilder, Response, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::place::Place;
use crate::outbound::{self, Trouble};

pub(super) const WHO: &str = "the graph server";
/// The member of a run's metadata that names its turn.
pub(super) const TURN: &str = "rialto_turn";
/// For questions that are answered at once.
const CALL_TIME: Duration = Duration::from_secs(30);
/// Looking for a turn's run goes so far back in its thread.
const NEWEST_RUNS: u32 = 100;

pub(super) struct Server {
    client: Client,
    base: String,
    /// No answer is longer.
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
    /// Somebody stopped it.
    Interrupted,
    /// A word of a later version.
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

impl Server {
    pub(super) fn new(client: Client, base: &str, longest: usize) -> Server {
        Server { client, base: base.to_owned(), longest }
    }

    /// Creates a run, and the thread if there is none. The run's id is known if the server tells it before the first event.
    pub(super) async fn create(&self, thread: &str, body: String) -> Result<(Response, Option<String>), Trouble> {
        let request = self.client.post(format!("{}/threads/{thread}/runs/stream", self.base));
        let request = request.header(CONTENT_TYPE, "application/json").header(ACCEPT, "text/event-stream").body(body);
        let response = outbound::answer(WHO, request.send().await, outbound::is_busy).await?;
        let run = run_of(response.headers());
        Ok((response, run))
    }

    /// Listens to a run again, from its beginning where the server has kept it.
    pub(super) async fn attach(&self, place: &Place) -> Result<Response, Trouble> {
        let request = self.client.get(format!("{}/stream", self.run(place)));
        let request = request.header(ACCEPT, "text/event-stream").header("last-event-id", "-1");
        outbound::answer(WHO, request.send().await, outbound::is_busy).await
    }

    /// The run that an earlier attempt of the turn has created, if it has.
    pub(super) async fn find(&self, thread: &str, turn: TurnId) -> Result<Option<String>, Trouble> {
        let url = format!("{}/threads/{thread}/runs?limit={NEWEST_RUNS}", self.base);
        let runs: Option<Vec<Run>> = self.ask(self.client.get(url)).await?;
        let turn = turn.to_string();
        let is_it = |run: &Run| run.metadata.get(TURN).and_then(|known| known.as_str()) == Some(&turn);
        Ok(runs.unwrap_or_default().into_iter().find(is_it).map(|run| run.run_id))
    }

    /// How a run stands; none if the server does not know it.
    pub(super) async fn status(&self, place: &Place) -> Result<Option<RunStatus>, Trouble> {
        let run: Option<Run> = self.ask(self.client.get(self.run(place))).await?;
        Ok(run.map(|run| run.status.unwrap_or(RunStatus::Unknown)))
    }

    /// The state of a thread, as JSON text is read by `T`.
    pub(super) async fn state<T: DeserializeOwned>(&self, thread: &str) -> Result<Option<T>, Trouble> {
        self.ask(self.client.get(format!("{}/threads/{thread}/state", self.base))).await
    }

    /// Stops a run; false if there was nothing left to stop.
    pub(super) async fn cancel(&self, place: &Place) -> Result<bool, Trouble> {
        let request = self.client.post(format!("{}/cancel?wait=false&action=interrupt", self.run(place)));
        let sent = request.header(CONTENT_TYPE, "application/json").body("{}").timeout(CALL_TIME).send().await;
        if is_missing(&sent) {
            return Ok(false);
        }
        outbound::answer(WHO, sent, outbound::is_busy).await.map(|_| true)
    }

    fn run(&self, place: &Place) -> String {
        format!("{}/threads/{}/runs/{}", self.base, place.thread, place.run)
    }

    /// An answer of JSON; none for what does not exist.
    async fn ask<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<Option<T>, Trouble> {
        let sent = request.header(ACCEPT, "application/json").timeout(CALL_TIME).send().await;
        if is_missing(&sent) {
            return Ok(None);
        }
        let mut response = outbound::answer(WHO, sent, outbound::is_busy).await?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| Trouble::broken(WHO, &error))? {
            body.extend_from_slice(&chunk);
            if body.len() > self.longest {
                return Err(Trouble::never(format!("{WHO} answered more than {} bytes", self.longest)));
            }
        }
        let read = serde_json::from_slice(&body);
        read.map(Some).map_err(|error| {
            tracing::error!(%error, "{WHO} answered what is not understood");
            Trouble::never(format!("{WHO} answered what is not understood; check the agent's url"))
        })
    }
}

fn is_missing(sent: &Result<Response, reqwest::Error>) -> bool {
    sent.as_ref().is_ok_and(|response| response.status() == StatusCode::NOT_FOUND)
}

/// The run in `/threads/T/runs/R`.
fn run_of(headers: &HeaderMap) -> Option<String> {
    let location = headers.get("content-location")?.to_str().ok()?;
    let (_, run) = location.split_once("/runs/")?;
    let run = run.split(['/', '?']).next()?;
    Some(run.to_owned()).filter(|run| !run.is_empty())
}
