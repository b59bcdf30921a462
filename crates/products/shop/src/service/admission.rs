//! The permissions that a message to the store agent needs, from the shops' own data.

use crate::admission::{Needs, StoreAdmission};
use model::ports::Future;
use model::{Content, Fault, Message, Role, Task};
use shop_rules::{Slug, StoreSkill, WRITE_ORDERS};

use crate::service::agent::conversation;
use crate::service::{Error, Shop, ShopEntity};

/// Whether a user message of the task has a part that is stored outside the log.
fn has_large_part(task: &Task) -> bool {
    let said = task.history.iter().filter(|message| message.role == Role::User);
    said.flat_map(|message| &message.parts).any(|part| matches!(part.content, Content::Blob(_)))
}

impl StoreAdmission for Shop {
    fn needs<'a>(&'a self, task: Option<&'a Task>, message: &'a Message) -> Future<'a, Result<Needs, Fault>> {
        Box::pin(async move {
            let request = conversation(task, Some(message)).map_err(Error::from)?;
            let slug = request.site_slug.as_deref().and_then(|slug| Slug::check(slug).ok());
            let site = match slug {
                Some(slug) => match self.site(&slug).await {
                    Ok(site) => Some(site),
                    // The agent reports it.
                    Err(Error::Unknown(ShopEntity::Site)) => None,
                    Err(refused) => return Err(refused.into()),
                },
                None => None,
            };
            let scope = request.skill.and_then(StoreSkill::scope);
            // A large part is stored outside the log and not read here: it may request any skill.
            let scope = scope.or_else(|| task.is_some_and(has_large_part).then_some(WRITE_ORDERS));
            Ok(Needs { scope, workspace: site.map(|site| site.workspace.0) })
        })
    }

    fn scope(&self, skill: &str) -> Option<&'static str> {
        StoreSkill::from_name(skill).and_then(StoreSkill::scope)
    }

    fn example(&self, skill: &str) -> Option<&'static str> {
        StoreSkill::from_name(skill).map(|skill| skill.says().2)
    }

    fn shop<'a>(&'a self, host: &'a str) -> Future<'a, Result<Option<crate::admission::ShopCard>, Fault>> {
        Box::pin(async move {
            let site = self.site_of_host(host).await?;
            Ok(site.map(|site| crate::admission::ShopCard {
                slug: site.slug.to_string(),
                title: site.title.to_string(),
                description: Some(site.description.to_string()).filter(|text| !text.is_empty()),
            }))
        })
    }
}
