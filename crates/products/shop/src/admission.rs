//! The storekeeper port: the permissions a message to a store agent needs, determined before a task exists.
//!
//! Some actions of a store agent are open to every caller, others only to callers who may act for a workspace. The shop
//! determines which a message needs; the front decides whether the sender has the permission, and a refused message is
//! not stored.

use std::sync::Arc;

use model::ports::Future;
use model::{Fault, Message, Task};

pub trait StoreAdmission: Send + Sync + 'static {
    /// The needs of a message. `task` is the task it continues: if the message answers that task's question, the
    /// earlier request counts. A fault refuses the message: a skill that does not exist is `Kind::InvalidParams`.
    /// Missing details are no fault; the agent asks for them.
    fn needs<'a>(&'a self, task: Option<&'a Task>, message: &'a Message) -> Future<'a, Result<Needs, Fault>>;

    /// The scope needed by a skill of the agent's profile, for its card.
    fn scope(&self, skill: &str) -> Option<&'static str>;

    /// An example message for a skill of the agent's profile, for its card; `{site_slug}` stands for the shop. Without
    /// one the card has the profile's own examples.
    fn example(&self, _skill: &str) -> Option<&'static str> {
        None
    }

    /// The shop at this host name, given in lower case and without a port.
    fn shop<'a>(&'a self, host: &'a str) -> Future<'a, Result<Option<ShopCard>, Fault>>;
}

/// The permissions a message needs of its sender.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// The scope its credential must have; `None` allows every sender.
    pub scope: Option<&'static str>,
    /// The workspace of the site the message is about, if it names one that exists. The task of a sender without a
    /// credential belongs to it; where a scope is needed, the credential must be of the same workspace.
    pub workspace: Option<Arc<str>>,
}

/// A shop, as named on its card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShopCard {
    pub slug: String,
    pub title: String,
    pub description: Option<String>,
}
