//! The store agent: a message runs one skill, and what comes of it is the task.
//!
//! A message that lacks something is answered with a question, and the task waits; the next message of the task is read as
//! the answer, and completes the earlier request.
//!
//! It is an agent like any other and no product that moves tasks: one message is one turn that ends, so that streams,
//! subscriptions, lists, cancel, push and every dialect have it for nothing. It lives here and not with the other kinds
//! because it needs the shops' data, of which those know nothing. A turn that a crash cut off is run again under its own id,
//! by which a cart, a change or a checkout that was made is known: nothing is made twice.
//!
//! Permissions are checked before there is a task, where the caller is known ([`Shop::admit`]); a turn only knows the
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

/// The name it has where none is configured.
pub const NAME: &str = "store";

pub struct StoreAgent {
    counter: ShopHandle,
    profile: Profile,
    /// Whether the permission to write orders is checked before a message arrives.
    guarded: bool,
}

impl StoreAgent {
    /// For a front that asks [`Shop::admit`] before a task exists.
    pub fn guarded(counter: impl Into<ShopHandle>, name: &str) -> StoreAgent {
        StoreAgent { counter: counter.into(), profile: profile(name, &StoreSkill::ALL), guarded: true }
    }

    /// For anybody: the public skills alone.
    pub fn public(counter: impl Into<ShopHandle>, name: &str) -> StoreAgent {
        let public: Vec<StoreSkill> = StoreSkill::ALL.into_iter().filter(|skill| skill.scope().is_none()).collect();
        StoreAgent { counter: counter.into(), profile: profile(name, &public), guarded: false }
    }
}

/// Where the agent finds the shops. Shops are on an engine, and an engine starts with its agents and takes up at once what
/// they had begun: whatever comes before the shops are open waits.
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
                // Its sender is held here.
                None => std::future::pending().await,
            }
        }
    }
}

impl From<Shop> for ShopHandle {
    fn from(shop: Shop) -> ShopHandle {
        let counter = ShopHandle::default();
        counter.open(shop);
        counter
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
        let (counter, guarded) = (self.counter.clone(), self.guarded);
        let done = async move { stream::iter(spoken(run(&counter.shop().await, guarded, &turn).await)) };
        // That it is at work is said before anything is looked up.
        stream::once(std::future::ready(AgentEvent::Working(None))).chain(stream::once(done).flatten()).boxed()
    }
}

/// The request that the caller's messages of a task make together: what is missing in one may be in the next.
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

fn spoken(outcome: Result<SkillReply, Error>) -> Vec<AgentEvent> {
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
