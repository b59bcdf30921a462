//! Tests of `scripted`, in paused time.

mod continuation;
mod messages;
mod refusals;
mod steps;

use std::sync::Arc;
use std::time::Duration;

use model::Part;
use model::ports::agent::AgentEvent;

use super::stage::{ScriptContext, brief, inbound, json};
use super::{ScriptedAgent, ScriptedMode};

fn agent(mode: ScriptedMode) -> Arc<ScriptedAgent> {
    Arc::new(ScriptedAgent::holding(mode, Duration::from_secs(4)))
}

fn stage() -> ScriptContext {
    ScriptContext::new(agent(ScriptedMode::Play))
}

/// Parts with a script.
fn script(steps: &str) -> Vec<Part> {
    vec![Part::data(json(&format!(r#"{{"script":[{steps}]}}"#)))]
}

fn text(text: &str) -> Vec<Part> {
    vec![Part::text(text)]
}

/// A turn of a new task.
async fn played(parts: Vec<Part>) -> Vec<AgentEvent> {
    stage().hear(parts).await
}

/// A script's turn of a new task, in short.
async fn plays(steps: &str) -> Vec<String> {
    brief(&played(script(steps)).await)
}
