//! The port for admission of messages to a store agent: the permissions that a message needs, before a task exists.
//!
//! Some skills of a store agent are open to every caller, others need a credential of a workspace. The port determines what
//! a message needs; the endpoint checks whether the sender has it, and a rejected message is not stored.
//! `service::Shop` implements it for Rialto's own shops, the configuration for shops elsewhere.

use std::sync::Arc;

use model::ports::Future;
use model::{Fault, Message, Task};

/// Permissions and card data of a store agent.
pub trait StoreAdmission: Send + Sync + 'static {
    /// The permissions a message needs. `task` is the task it continues: if the message answers a question of that task,
    /// the earlier request counts. A fault rejects the message: an unknown skill is `Kind::InvalidParams`. Missing
    /// details are no fault; the agent asks for them.
    fn needs<'a>(&'a self, task: Option<&'a Task>, message: &'a Message) -> Future<'a, Result<Needs, Fault>>;

    /// The scope needed by a skill of the agent's profile, for its card.
    fn scope(&self, skill: &str) -> Option<&'static str>;

    /// An example message for a skill of the agent's profile, for its card; `{site_slug}` stands for the shop's slug.
    /// `None` leaves the examples of the profile.
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
