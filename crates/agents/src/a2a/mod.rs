//! `a2a`: an agent somewhere else, of whichever generation, as one of ours.
//!
//! A turn here becomes a task there. It is streamed where the other side streams and looked at now and then where it does
//! not; what it shows is passed on as it comes. Short turns that nobody follows are asked for whole (`whole`). Which task it is stands in our log ([`Emission::Bound`]) before anything of
//! it is passed on, so that a turn that a crash cut off is found again, and a question that was asked there is answered
//! there. A turn has one message id and one idempotency key, however often it has to be sent.
//!
//! * [`Options`] is the config's part; [`Remote`] is the agent.
//! * `relay` is one turn over time: send (`outgoing`), listen, come back after a break, cancel. `show` makes emissions of what is seen.
//! * `bound` is what is remembered of the other side, `known` what has been passed on of it.

mod bound;
mod known;
mod options;
mod outgoing;
mod relay;
mod show;
mod whole;

use std::sync::Arc;
use std::time::{Duration, Instant};

use client::{CardSeen, Client, Generation, Target};
use futures_util::stream::BoxStream;
use model::ports::agent::{self, Admission, Emission, Profile, Restart, Turn};
use model::{Fault, Inbound, Send, Task};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use crate::config::Kind;
use crate::delegation::Delegation;
use bound::Contexts;
pub use options::{Ask, Auth, Options};
use whole::Manner;

pub const KIND: Kind =
    Kind::of::<Options>("a2a", "an agent of another server, of whichever generation", options::FIELDS);

/// A start waits no longer than this for a card.
const AT_START: Duration = Duration::from_secs(2);
/// A card older than this is looked at again.
const FRESH: Duration = Duration::from_secs(600);

/// An agent somewhere else.
#[derive(Debug)]
pub struct Remote {
    profile: Profile,
    shared: Arc<Shared>,
    /// It may answer with a message instead of a task.
    replies: bool,
}

#[derive(Debug)]
struct Shared {
    options: Options,
    client: Client,
    /// Who we are in a chain of agents.
    me: String,
    contexts: Mutex<Contexts>,
    manner: Mutex<Manner>,
    looked: Mutex<Option<Instant>>,
}

impl Remote {
    /// The agent under this name. Its card is asked for, but not waited for long: an agent that is away now may be there
    /// when it is needed. Only options that can never work are refused.
    pub async fn connect(name: &str, options: Options) -> Result<Remote, String> {
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
            looked: Mutex::new(found.map(|_| Instant::now())),
        };
        Ok(Remote { profile, shared: Arc::new(shared), replies })
    }
}

impl Shared {
    /// Where the agent is, as far as is known; what is old is looked at again meanwhile.
    async fn target(self: &Arc<Self>) -> Result<Arc<Target>, client::Error> {
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
                    // It may be another server by now.
                    Ok(_) => *shared.manner.lock() = Manner::default(),
                    Err(error) => tracing::debug!(%error, "a remote agent's card could not be refreshed"),
                }
            });
        }
        Ok(target)
    }

    /// Whether a turn whose caller waits for the whole of it is asked for so.
    fn asks_whole(&self, send: &Send) -> bool {
        match self.options.ask {
            Ask::Auto => self.manner.lock().is_whole(send),
            Ask::Stream => false,
        }
    }

    /// A turn has ended by itself. Whether its task would have been found meanwhile is tried once.
    fn learn(self: &Arc<Self>, took: Duration, send: &Send, task: &str) {
        let mut manner = self.manner.lock();
        manner.took(took);
        if self.options.ask == Ask::Auto && whole::is_findable(send) && manner.try_it() {
            let (shared, send, task) = (self.clone(), send.clone(), task.to_owned());
            tokio::spawn(async move {
                let found = whole::find(&shared.client, &send).await;
                shared.manner.lock().tried(found.map(|found| found.is_some_and(|found| found.id == task)));
            });
        }
    }
}

impl agent::Agent for Remote {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn admit(&self, message: &Inbound, task: Option<&Task>) -> Result<Admission, Fault> {
        Delegation::of(&message.message)?.check(&self.shared.me, self.shared.options.max_hops())?;
        // A task that is there has been shown.
        let undecided = task.is_none() && self.replies;
        Ok(Admission { undecided, restart: Restart::Resume, idempotent: false })
    }

    fn run(&self, turn: Turn) -> BoxStream<'static, Emission> {
        relay::run(self.shared.clone(), turn)
    }
}

/// Who we are in a chain of agents: the name here, and which agent it stands for. It is the same after a restart, since it is
/// part of what is sent and a turn that is sent again must be the same to the byte. What is on this machine is told from its
/// like on other machines.
fn identity(name: &str, options: &Options) -> String {
    let machine = if options.is_local() { std::fs::read_to_string("/proc/sys/kernel/hostname").ok() } else { None };
    let mut hash = Sha256::new();
    hash.update(machine.unwrap_or_default().trim());
    hash.update([0]);
    hash.update(&options.url);
    let digest: String = hash.finalize()[..6].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{digest}/{name}")
}

/// The profile of the card, under our name; a plain one without a card.
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
        // Whether it streams or not, what it says is passed on as it comes.
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
        // Ours are added to every card here anyway.
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
