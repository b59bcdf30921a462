//! The store agent: a message runs one skill, and the task has the result.
//!
//! If a message lacks a detail, the agent replies with a question and the task waits; the next message of the task is read as
//! the answer and completes the earlier request.
//!
//! It is an agent like any other: one message is one turn, so that streams, subscriptions, lists, cancel, push and every
//! dialect work without further code. It is in this crate because it needs the shops' data. A turn that a crash interrupted
//! runs again under the same id, which is the idempotency key of its changes: nothing is created twice.
//!
//! Permissions are checked before a task exists, where the caller is available ([`Shop::admit`]); a turn has only the
//! workspace. An agent without that check ([`StoreAgent::public`]) therefore serves public skills only.

use std::sync::Arc;

use futures_util::stream::{self, BoxStream, StreamExt};
use model::ports::agent::{
    Admission, Agent, AgentEvent, AgentMessage, ArtifactChunk, EndState, Profile, Restart, Skill as ProfileSkill, Turn,
    TurnEnd,
};
use model::{Fault, Inbound, Json, Message, Part, Role, Task};
use sha2::{Digest, Sha256};
use shop_rules::{Ending, SkillReply, SkillRequest, SkillRequestError, StoreSkill, WorkspaceId, intent, reply};
use tokio::sync::watch;

use crate::service::{Error, Once, Shop, WorkspaceCaller};

/// The agent's default name.
pub const NAME: &str = "store";

pub struct StoreAgent {
    handle: ShopHandle,
    profile: Profile,
    /// Whether the permission to write orders is checked before a message arrives.
    guarded: bool,
}

impl StoreAgent {
    /// All skills, for an endpoint that checks permissions before a task exists.
    pub fn guarded(handle: impl Into<ShopHandle>, name: &str) -> StoreAgent {
        StoreAgent { handle: handle.into(), profile: profile(name, &StoreSkill::ALL), guarded: true }
    }

    /// The public skills only, for callers that are not checked.
    pub fn public(handle: impl Into<ShopHandle>, name: &str) -> StoreAgent {
        let public: Vec<StoreSkill> = StoreSkill::ALL.into_iter().filter(|skill| skill.scope().is_none()).collect();
        StoreAgent { handle: handle.into(), profile: profile(name, &public), guarded: false }
    }
}

/// The agent's reference to the shops, which start after it: shops need an engine, and an engine starts with its agents and
/// recovers their turns at once. A turn that comes before the shops have started waits.
#[derive(Clone, Default)]
pub struct ShopHandle(Arc<watch::Sender<Option<Shop>>>);

impl ShopHandle {
    pub fn open(&self, shop: Shop) {
        self.0.send_replace(Some(shop));
    }

    async fn shop(&self) -> Shop {
        let mut opened = self.0.subscribe();
        loop {
            let shop = opened.borrow_and_update().clone();
            match shop {
                Some(shop) => return shop,
                None if opened.changed().await.is_ok() => {}
                // Cannot happen: `self` holds the sender.
                None => std::future::pending().await,
            }
        }
    }
}

impl From<Shop> for ShopHandle {
    fn from(shop: Shop) -> ShopHandle {
        let handle = ShopHandle::default();
        handle.open(shop);
        handle
    }
}

fn profile(name: &str, skills: &[StoreSkill]) -> Profile {
    let modes = || vec!["text/plain".to_owned(), "application/json".to_owned()];
    let offered = skills.iter().map(|skill| {
        let (title, says, _) = skill.says();
        ProfileSkill {
            id: skill.name().to_owned(),
            name: title.to_owned(),
            description: says.to_owned(),
            tags: vec!["commerce".to_owned(), "store".to_owned()],
            examples: vec![skill.example(reply::ANY_STORE)],
        }
    });
    Profile {
        name: name.into(),
        title: "Store agent".to_owned(),
        description: "Finds products, keeps carts, checks them out and tells what became of orders".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        skills: offered.collect(),
        input_modes: modes(),
        output_modes: modes(),
        streaming: true,
        push: true,
        extensions: Vec::new(),
        restart: Restart::Retry,
        idempotent: false,
    }
}

impl Agent for StoreAgent {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn admit(&self, message: &Inbound, task: Option<&Task>) -> Result<Admission, Fault> {
        let request = conversation(task, Some(&message.message)).map_err(Error::from)?;
        if !self.guarded {
            Shop::may(None, &request)?;
        }
        Ok(Admission { undecided: false, restart: Restart::Retry, idempotent: false })
    }

    fn run(&self, turn: Turn) -> BoxStream<'static, AgentEvent> {
        let (handle, guarded) = (self.handle.clone(), self.guarded);
        let done = async move { stream::iter(events(run(&handle.shop().await, guarded, &turn).await)) };
        // The status `working` comes before the first lookup.
        stream::once(std::future::ready(AgentEvent::Working(None))).chain(stream::once(done).flatten()).boxed()
    }
}

/// The request of a task, from all its user messages: a later message may add what an earlier one lacks.
pub(crate) fn conversation(task: Option<&Task>, next: Option<&Message>) -> Result<SkillRequest, SkillRequestError> {
    let earlier = task.into_iter().flat_map(|task| &task.history).map(|message| &**message);
    let said = earlier.filter(|message| message.role == Role::User).chain(next);
    intent::read_all(said.map(|message| &message.parts[..]))
}

async fn run(shop: &Shop, guarded: bool, turn: &Turn) -> Result<SkillReply, Error> {
    let request = conversation(Some(&turn.so_far), None)?;
    let caller = WorkspaceCaller { workspace: WorkspaceId(turn.tenant.clone()), scopes: Arc::default() };
    let once = Once { key: format!("turn/{}", turn.id), print: Sha256::digest(turn.id.to_string()).into() };
    shop.run_skill(guarded.then_some(&caller), &request, Some(once)).await
}

fn events(outcome: Result<SkillReply, Error>) -> Vec<AgentEvent> {
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(refused) => {
            let fault = Fault::from(refused);
            if let Some(cause) = &fault.cause {
                tracing::error!("a skill of the store failed: {cause}");
            }
            let words = Some(AgentMessage::text(fault.message));
            return vec![AgentEvent::End(TurnEnd { state: EndState::Failed, words })];
        }
    };
    let mut said = vec![AgentEvent::Metadata(Json::from_value(&outcome.metadata()))];
    if let Some(artifact) = outcome.artifact {
        let mut part = Part::data(Json::from_value(&artifact.data));
        part.media_type = Some("application/json".to_owned());
        said.push(AgentEvent::Artifact(ArtifactChunk {
            key: artifact.name.to_owned(),
            name: Some(artifact.name.to_owned()),
            parts: vec![part],
            last: true,
            ..ArtifactChunk::default()
        }));
    }
    let state = match outcome.ending {
        Ending::Completed => EndState::Completed,
        Ending::InputRequired => EndState::InputRequired,
        Ending::Failed => EndState::Failed,
    };
    said.push(AgentEvent::End(TurnEnd { state, words: Some(AgentMessage::text(outcome.text)) }));
    said
}
