//! The capabilities of an agent, as its card states them: streams and push configs. A call that needs a missing one is
//! refused here, for every front and dialect. [`crate::GatewayVersion::permits`] checks this after the credential and
//! the policy and before a task is looked up, so that the refusal reveals nothing about tasks.

use model::ports::agent::Profile;
use model::{Call, Fault, Kind};

use crate::GatewayVersion;

impl GatewayVersion {
    /// Whether an agent's tasks can have push configs: the agent supports them, and the server delivers.
    pub fn offers_push(&self, profile: &Profile) -> bool {
        profile.push && self.engine.has_push()
    }

    /// Refuses a call that needs a capability the agent does not have. Reads, and sends without a push config, need
    /// none.
    pub(crate) fn supports(&self, agent: &str, call: &Call) -> Result<(), Fault> {
        let (streams, pushes) = (streams(call), pushes(call));
        if !streams && !pushes {
            return Ok(());
        }
        // Tasks of an agent that is no longer served are read as before.
        let Some(profile) = self.engine.profile(agent) else { return Ok(()) };
        if streams && !profile.streaming {
            return Err(no_streams(agent, call));
        }
        if pushes && !self.offers_push(&profile) {
            return Err(no_push(agent));
        }
        Ok(())
    }
}

fn streams(call: &Call) -> bool {
    match call {
        Call::Stream(_) | Call::Subscribe(_) => true,
        Call::Send(_) | Call::Get(_) | Call::List(_) | Call::Cancel(_) | Call::Push(_) | Call::ExtendedCard => false,
    }
}

fn pushes(call: &Call) -> bool {
    match call {
        Call::Push(_) => true,
        Call::Send(send) | Call::Stream(send) => send.push.is_some(),
        Call::Subscribe(_) | Call::Get(_) | Call::List(_) | Call::Cancel(_) | Call::ExtendedCard => false,
    }
}

fn no_streams(agent: &str, call: &Call) -> Fault {
    let instead = match call {
        Call::Subscribe(_) => "read the task until it has ended",
        Call::Stream(_)
        | Call::Send(_)
        | Call::Get(_)
        | Call::List(_)
        | Call::Cancel(_)
        | Call::Push(_)
        | Call::ExtendedCard => "send the message without streaming, and read the task until it has ended",
    };
    Fault::new(Kind::Unsupported, format!("the agent {agent} does not stream: {instead}"))
}

fn no_push(agent: &str) -> Fault {
    let message = format!(
        "Push Notification is not supported by the agent {agent}: leave the push config out, and read the task until it \
         has ended"
    );
    Fault::new(Kind::PushNotSupported, message)
}
