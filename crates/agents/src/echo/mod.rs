//! `echo`: returns a message's parts as one artifact. The smallest agent, used for measurements.

use std::sync::Arc;

use futures_util::stream::{self, BoxStream, StreamExt as _};
use model::ports::agent::{
    self, Admission, AgentEvent, ArtifactChunk, EndState, Profile, Restart, Skill, Turn, TurnEnd,
};
use model::{Fault, Inbound, Task};

use crate::Builtin;

pub const BUILTIN: Builtin =
    Builtin { name: "echo", says: "hands every message back as an artifact", build: |_| Arc::new(EchoAgent::new()) };

#[derive(Debug)]
pub struct EchoAgent {
    profile: Profile,
}

impl EchoAgent {
    pub fn new() -> EchoAgent {
        let profile = Profile {
            name: BUILTIN.name.into(),
            title: "Echo".into(),
            description: "Hands the parts of every message back, unchanged, as one artifact.".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            skills: vec![Skill {
                id: "echo".into(),
                name: "Echo".into(),
                description: "Any message, with parts of any kind, comes back as an artifact.".into(),
                tags: vec!["echo".into(), "test".into()],
                examples: vec!["hello".into(), "tell me what I said".into()],
            }],
            input_modes: vec!["*/*".into()],
            output_modes: vec!["*/*".into()],
            streaming: true,
            push: true,
            extensions: Vec::new(),
            restart: Restart::Retry,
            idempotent: true,
        };
        EchoAgent { profile }
    }
}

impl Default for EchoAgent {
    fn default() -> EchoAgent {
        EchoAgent::new()
    }
}

impl agent::Agent for EchoAgent {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn admit(&self, _: &Inbound, _: Option<&Task>) -> Result<Admission, Fault> {
        Ok(Admission { undecided: false, restart: Restart::Retry, idempotent: true })
    }

    /// Hot path: allocates only the parts, the key and one box, and never waits.
    fn run(&self, turn: Turn) -> BoxStream<'static, AgentEvent> {
        let parts = turn.messages.last().map(|inbound| inbound.message.parts.clone()).unwrap_or_default();
        let piece = ArtifactChunk { key: "echo".into(), parts, last: true, ..ArtifactChunk::default() };
        stream::iter([
            AgentEvent::Working(None),
            AgentEvent::Artifact(piece),
            AgentEvent::End(TurnEnd { state: EndState::Completed, words: None }),
        ])
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use agent::Agent as _;

    use super::*;
    use crate::scripted::stage::{ScriptContext, every_kind_of_part};

    #[tokio::test(start_paused = true)]
    async fn it_works_hands_the_newest_message_back_and_completes() {
        let mut stage = ScriptContext::new(Arc::new(EchoAgent::new()));
        stage.say("m1", vec![model::Part::text("old")]);
        stage.say("m2", every_kind_of_part());
        let said = stage.turn().await;
        let [AgentEvent::Working(None), AgentEvent::Artifact(piece), AgentEvent::End(end)] = &said[..] else {
            panic!("{said:?}");
        };
        assert_eq!(piece.parts, every_kind_of_part());
        assert_eq!((piece.key.as_str(), piece.append, piece.last), ("echo", false, true));
        assert_eq!(end, &TurnEnd { state: EndState::Completed, words: None });
    }

    #[test]
    fn it_may_run_before_its_first_commit_and_again_after_a_crash() {
        let agent = EchoAgent::new();
        let admission = Admission { undecided: false, restart: Restart::Retry, idempotent: true };
        assert_eq!(agent.admit(&crate::scripted::stage::inbound("m", vec![]), None).unwrap(), admission);
        assert_eq!((agent.profile().restart, agent.profile().idempotent), (Restart::Retry, true));
    }
}
