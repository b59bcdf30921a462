//! `a2a`: a remote A2A agent of any protocol generation, served as a local agent.
//!
//! Each turn here is a task there. The turn streams where the remote agent streams and polls where it does not; its
//! output is passed on as it arrives. A short turn without a streaming reader asks for the whole answer in one
//! request (`whole`). The remote task's id is in our log ([`AgentEvent::Bound`]) before any of its output is passed
//! on, so that a turn that a crash interrupted finds its task again, and an answer goes to the task that asked. A
//! turn has one message id and one idempotency key, however often it is sent.
//!
//! * [`Options`] is the config's part; [`A2aAgent`] is the agent.
//! * `relay` runs one turn: send (`outgoing`), listen, reconnect, cancel. `show` turns remote events into
//!   emissions.
//! * `card` compares the remote card with the one that the profile was made from.
//! * `bound` is the stored binding to the remote task, `known` the content that was passed on.

mod behaviour;
mod bound;
mod card;
mod options;
mod outgoing;
mod passed_artifacts;
mod relay;
mod show;

use std::sync::Arc;
use std::time::{Duration, Instant};

use client::{CardSeen, Client, Generation, RemoteInterface};
use futures_util::stream::BoxStream;
use model::ports::Future;
use model::ports::agent::{self, Admission, AgentEvent, Profile, RemoteCards, Restart, Turn};
use model::{Fault, Inbound, Json, Send, Task};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use crate::config::AgentKind;
use crate::delegation::Delegation;
use behaviour::PeerBehaviour;
use bound::Contexts;
pub use options::{AskMode, Options, RemoteAuth};

pub const KIND: AgentKind =
    AgentKind::of::<Options>("a2a", "an agent of another server, of whichever generation", options::FIELDS);

/// Longest wait for a card at startup.
const AT_START: Duration = Duration::from_secs(2);
/// Maximum age of a card before it is fetched again.
const FRESH: Duration = Duration::from_secs(600);

/// A remote agent.
#[derive(Debug)]
pub struct A2aAgent {
    profile: Profile,
    shared: Arc<Shared>,
    /// The agent may answer with a message instead of a task.
    replies: bool,
}

#[derive(Debug)]
struct Shared {
    options: Options,
    client: Client,
    /// Our name in a delegation chain.
    me: String,
    contexts: Mutex<Contexts>,
    manner: Mutex<PeerBehaviour>,
    looked: Mutex<Option<Instant>>,
    /// The card from which the profile was made.
    first_card: Option<Json>,
}

impl A2aAgent {
    /// Builds the agent of this name. The card is requested, with a short wait: an agent that is down now may be up
    /// when it is called. Only options that can never work are refused.
    pub async fn connect(name: &str, options: Options) -> Result<A2aAgent, String> {
        options.check()?;
        let client = Client::new(options.to_client()).map_err(|error| error.to_string())?;
        let found = match tokio::time::timeout(AT_START, client.discover()).await {
            Ok(Ok(target)) => Some(target),
            Ok(Err(error)) => {
                tracing::warn!(agent = name, %error, "the remote agent's card could not be had; it is tried again when the agent is needed");
                None
            }
            Err(_) => {
                tracing::warn!(
                    agent = name,
                    "the remote agent's card did not come in time; it is tried again when the agent is needed"
                );
                None
            }
        };
        let replies = match (&found, options.generation) {
            (_, Some(Generation::V0_1)) => false,
            (Some(target), _) => target.peer().facts().replies,
            (None, _) => true,
        };
        let profile = profile(name, found.as_deref().and_then(|target| target.card.as_ref()));
        let shared = Shared {
            me: identity(name, &options),
            options,
            client,
            contexts: Mutex::default(),
            manner: Mutex::default(),
            first_card: found.as_deref().and_then(|target| target.card.as_ref()).map(card::shown),
            looked: Mutex::new(found.map(|_| Instant::now())),
        };
        Ok(A2aAgent { profile, shared: Arc::new(shared), replies })
    }
}

impl Shared {
    /// The remote endpoint as last resolved; an old entry is refreshed in the background.
    async fn target(self: &Arc<Self>) -> Result<Arc<RemoteInterface>, client::Error> {
        let target = self.client.discover().await?;
        let stale = {
            let mut looked = self.looked.lock();
            let stale = looked.is_some_and(|at| at.elapsed() > FRESH);
            if stale || looked.is_none() {
                *looked = Some(Instant::now());
            }
            stale
        };
        if stale {
            let shared = self.clone();
            tokio::spawn(async move {
                match shared.client.refresh().await {
                    // The server may have been replaced.
                    Ok(_) => *shared.manner.lock() = PeerBehaviour::default(),
                    Err(error) => tracing::debug!(%error, "a remote agent's card could not be refreshed"),
                }
            });
        }
        Ok(target)
    }

    /// Whether to ask for the whole answer in one request, for a caller that waits for it.
    fn asks_whole(&self, send: &Send) -> bool {
        match self.options.ask {
            AskMode::Auto => self.manner.lock().is_whole(send),
            AskMode::Stream => false,
        }
    }

    /// Records the duration of a turn that ended by itself, and tests once whether its task can be found by its
    /// message.
    fn learn(self: &Arc<Self>, took: Duration, send: &Send, task: &str) {
        let mut manner = self.manner.lock();
        manner.took(took);
        if self.options.ask == AskMode::Auto && behaviour::is_findable(send) && manner.try_it() {
            let (shared, send, task) = (self.clone(), send.clone(), task.to_owned());
            tokio::spawn(async move {
                let found = behaviour::find(&shared.client, &send).await;
                shared.manner.lock().tried(found.map(|found| found.is_some_and(|found| found.id == task)));
            });
        }
    }
}

impl agent::Agent for A2aAgent {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn admit(&self, message: &Inbound, task: Option<&Task>) -> Result<Admission, Fault> {
        Delegation::of(&message.message)?.check(&self.shared.me, self.shared.options.max_hops())?;
        // A task that exists has been shown to the caller.
        let undecided = task.is_none() && self.replies;
        Ok(Admission { undecided, restart: Restart::Resume, idempotent: false })
    }

    fn run(&self, turn: Turn) -> BoxStream<'static, AgentEvent> {
        relay::run(self.shared.clone(), turn)
    }

    fn remote_card(&self) -> Option<Future<'static, Result<RemoteCards, Fault>>> {
        Some(Box::pin(card::compared(self.shared.clone())))
    }
}

/// Our name in a delegation chain: a hash of the remote agent's URL, and the agent's name here. It must be the
/// same after a restart, because it is part of the request and a turn that is sent again must match to the byte.
/// For an agent on this machine the hash includes the host name, because loopback URLs repeat across machines.
fn identity(name: &str, options: &Options) -> String {
    let machine = if options.is_local() { std::fs::read_to_string("/proc/sys/kernel/hostname").ok() } else { None };
    let mut hash = Sha256::new();
    hash.update(machine.unwrap_or_default().trim());
    hash.update([0]);
    hash.update(&options.url);
    let digest: String = hash.finalize()[..6].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{digest}/{name}")
}

/// The card's profile under our name; a plain one without a card.
fn profile(name: &str, card: Option<&CardSeen>) -> Profile {
    let any = || vec!["*/*".to_owned()];
    let plain = Profile {
        name: name.into(),
        title: name.to_owned(),
        description: "An agent somewhere else.".to_owned(),
        version: String::new(),
        skills: Vec::new(),
        input_modes: any(),
        output_modes: any(),
        // Output is passed on as it arrives, whether the remote agent streams or not.
        streaming: true,
        push: true,
        extensions: Vec::new(),
        restart: Restart::Resume,
        idempotent: false,
    };
    let Some(card) = card else { return plain };
    let modes = |modes: &[String]| if modes.is_empty() { any() } else { modes.to_vec() };
    Profile {
        title: card.name.clone(),
        description: card.description.clone(),
        version: card.version.clone(),
        skills: card.skills.clone(),
        input_modes: modes(&card.input_modes),
        output_modes: modes(&card.output_modes),
        // Our own extensions are added to every card anyway.
        extensions: card.extensions.iter().filter(|one| !one.uri.starts_with("https://rialto.dev/")).cloned().collect(),
        ..plain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_the_same_after_a_restart_and_another_elsewhere() {
        let me = |name: &str, url: &str| identity(name, &Options::new(url));
        assert_eq!(me("a", "https://x.example"), me("a", "https://x.example"));
        assert_ne!(me("a", "https://x.example"), me("a", "https://y.example"));
        assert_ne!(me("a", "https://x.example"), me("b", "https://x.example"));
        assert!(me("a", "http://localhost:1").ends_with("/a"));
    }
}
