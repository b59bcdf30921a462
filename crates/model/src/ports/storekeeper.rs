//! The storekeeper port: what a message to a store agent asks for, known before there is a task.
//!
//! Some of what a store agent does is for everybody, some for those who may act for a workspace. Which of the two a message
//! wants only the shop can tell; whether its sender may have it is for the front to say, and nothing is kept of a message
//! that is refused.

use std::sync::Arc;

use super::Future;
use crate::{Fault, Message, Task};

pub trait Storekeeper: Send + Sync + 'static {
    /// The needs of a message; `task` is the one it continues, whose question it may answer: then the earlier request counts.
    /// A fault refuses it: a skill that does not exist is `Kind::InvalidParams`. What is only left unsaid is no fault; the
    /// agent will ask.
    fn needs<'a>(&'a self, task: Option<&'a Task>, message: &'a Message) -> Future<'a, Result<Needs, Fault>>;

    /// The scope that a skill of the agent's profile needs, for its card.
    fn scope(&self, skill: &str) -> Option<&'static str>;

    /// A message that a skill of the agent's profile understands, for its card: `{site_slug}` stands in it for the shop.
    /// Without one the card has what the profile says.
    fn example(&self, _skill: &str) -> Option<&'static str> {
        None
    }

    /// The shop that is at this host, in lower case and without a port.
    fn shop<'a>(&'a self, host: &'a str) -> Future<'a, Result<Option<Shop>, Fault>>;
}

/// What a message needs of its sender.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// What its credential must be good for; without one, anybody may send it.
    pub scope: Option<&'static str>,
    /// The workspace of the site it is about, if it names one that exists. The task of a sender without a credential
    /// belongs to it; where a scope is needed, the credential must be of the same workspace.
    pub workspace: Option<Arc<str>>,
}

/// A shop, as its card calls it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shop {
    pub slug: String,
    pub title: String,
    pub description: Option<String>,
}
