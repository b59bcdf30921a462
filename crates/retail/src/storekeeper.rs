//! What a message to the store agent needs, told before there is a task.

use model::ports::Future;
use model::ports::storekeeper::{self, Needs, Storekeeper};
use model::{Fault, Message};
use shop::{Skill, Slug, intent};

use crate::{Refused, Shop, What};

impl Storekeeper for Shop {
    fn needs<'a>(&'a self, message: &'a Message) -> Future<'a, Result<Needs, Fault>> {
        Box::pin(async move {
            let request = intent::read(&message.parts).map_err(Refused::from)?;
            let slug = request.site_slug.as_deref().and_then(|slug| Slug::check(slug).ok());
            let site = match slug {
                Some(slug) => match self.site(&slug).await {
                    Ok(site) => Some(site),
                    // The agent says so.
                    Err(Refused::Unknown(What::Site)) => None,
                    Err(refused) => return Err(refused.into()),
                },
                None => None,
            };
            Ok(Needs { scope: request.skill.and_then(Skill::scope), workspace: site.map(|site| site.workspace.0) })
        })
    }

    fn scope(&self, skill: &str) -> Option<&'static str> {
        Skill::from_name(skill).and_then(Skill::scope)
    }

    fn example(&self, skill: &str) -> Option<&'static str> {
        Skill::from_name(skill).map(|skill| skill.says().2)
    }

    fn shop<'a>(&'a self, host: &'a str) -> Future<'a, Result<Option<storekeeper::Shop>, Fault>> {
        Box::pin(async move {
            let site = self.site_of_host(host).await?;
            Ok(site.map(|site| storekeeper::Shop {
                slug: site.slug.to_string(),
                title: site.title.to_string(),
                description: Some(site.description.to_string()).filter(|text| !text.is_empty()),
            }))
        })
    }
}
