//! States and roles as the older generations spell them. Reading takes every spelling there ever was.

use model::{Role, State};

use super::PreV1Form;
use crate::framing::shape::EnumName;

/// The name of a state, and a mark if the form has no name of its own for it.
pub(crate) fn state_name(form: PreV1Form, state: State) -> (&'static str, Option<&'static str>) {
    if form.is_proto() {
        return (proto_name(state), None);
    }
    match state {
        State::Rejected if form.has_type() => ("failed", Some("rejected")),
        State::AuthRequired if form.has_type() => ("input-required", Some("auth-required")),
        state => (state.word(), None),
    }
}

/// As the 0.3 proto has it: two L in CANCELLED.
fn proto_name(state: State) -> &'static str {
    match state {
        State::Submitted => "TASK_STATE_SUBMITTED",
        State::Working => "TASK_STATE_WORKING",
        State::InputRequired => "TASK_STATE_INPUT_REQUIRED",
        State::AuthRequired => "TASK_STATE_AUTH_REQUIRED",
        State::Completed => "TASK_STATE_COMPLETED",
        State::Failed => "TASK_STATE_FAILED",
        State::Canceled => "TASK_STATE_CANCELLED",
        State::Rejected => "TASK_STATE_REJECTED",
    }
}

/// A state in any spelling; `None` for one that is unknown or has no name here.
pub(crate) fn state(name: &EnumName<'_>) -> Option<State> {
    match name {
        EnumName::Text(text) if text == "TASK_STATE_CANCELED" => Some(State::Canceled),
        EnumName::Text(text) => State::ALL.into_iter().find(|state| state.word() == text || proto_name(*state) == text),
        // The numbers of the proto are those our stores keep.
        EnumName::Number(n) => u8::try_from(*n).ok().and_then(State::from_code),
    }
}

pub(crate) fn role_name(form: PreV1Form, role: Role) -> &'static str {
    match (form.is_proto(), role) {
        (false, Role::User) => "user",
        (false, Role::Agent) => "agent",
        (true, Role::User) => "ROLE_USER",
        (true, Role::Agent) => "ROLE_AGENT",
    }
}

/// A role in any spelling.
pub(crate) fn role(name: &EnumName<'_>) -> Option<Role> {
    match name {
        EnumName::Text(text) => match text.as_ref() {
            "user" | "ROLE_USER" => Some(Role::User),
            "agent" | "ROLE_AGENT" => Some(Role::Agent),
            _ => None,
        },
        EnumName::Number(1) => Some(Role::User),
        EnumName::Number(2) => Some(Role::Agent),
        EnumName::Number(_) => None,
    }
}
