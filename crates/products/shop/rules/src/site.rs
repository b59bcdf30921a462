//! Workspaces and their sites.

use std::collections::BTreeMap;
use std::sync::Arc;

use ledger::Rate;
use model::Time;
use serde::{Deserialize, Serialize};

use crate::error::{link, not_negative, text};
use crate::{Currency, Error, Minor, Slug, WorkspaceId};

/// Most hosts of a site.
pub const MAX_HOSTS: usize = 16;
/// Most links of a site.
pub const MAX_LINKS: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workspace {
    pub id: WorkspaceId,
    pub title: Arc<str>,
    pub created_at: Time,
}

/// A shop of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    pub slug: Slug,
    pub workspace: WorkspaceId,
    pub title: Arc<str>,
    #[serde(default)]
    pub description: Arc<str>,
    pub currency: Currency,
    /// Its host names, in small letters and without a port.
    #[serde(default)]
    pub hosts: Vec<Arc<str>>,
    #[serde(default)]
    pub links: Vec<Social>,
    #[serde(default)]
    pub terms: SiteTerms,
    pub created_at: Time,
}

/// A link to another presence of a shop, such as a blog.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Social {
    pub name: Arc<str>,
    pub url: Arc<str>,
}

/// Shipping and tax of a site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteTerms {
    /// Cost for a cart with goods to send.
    #[serde(default)]
    pub shipping: Minor,
    /// Subtotal from which shipping is free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_shipping_from: Option<Minor>,
    /// Rate on goods after the discount, and on shipping. Prices are without tax.
    #[serde(default)]
    pub tax: Rate,
}

impl Site {
    pub fn new(slug: Slug, workspace: WorkspaceId, title: &str, currency: Currency, now: Time) -> Site {
        Site {
            slug,
            workspace,
            title: title.into(),
            description: Arc::default(),
            currency,
            hosts: Vec::new(),
            links: Vec::new(),
            terms: SiteTerms::default(),
            created_at: now,
        }
    }

    pub fn check(&self) -> Result<(), Error> {
        Slug::check(self.slug.as_str())?;
        let field = |field, says: &str| Err(Error::Field { field, says: says.to_owned() });
        if self.workspace.as_str().is_empty() || self.workspace.as_str().chars().any(char::is_control) {
            return field("workspace", "must be a name without control characters");
        }
        if self.title.trim().is_empty() {
            return field("title", "must not be empty");
        }
        text("title", &self.title, 200)?;
        text("description", &self.description, 4_000)?;
        if self.hosts.len() > MAX_HOSTS {
            return field("hosts", "must be at most 16");
        }
        for host in &self.hosts {
            let is_fine = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
            if host.is_empty() || host.len() > 253 || !host.bytes().all(is_fine) {
                return field("hosts", "must be names such as \"shop.example.com\", in small letters, without a port");
            }
        }
        if self.links.len() > MAX_LINKS {
            return field("links", "must be at most 16");
        }
        for social in &self.links {
            text("links", &social.name, 64)?;
            link("links", &social.url)?;
        }
        not_negative("shipping", self.terms.shipping)?;
        self.terms.free_shipping_from.map_or(Ok(()), |from| not_negative("free_shipping_from", from))
    }
}

/// A site as an operator writes it. A missing field keeps its value, or gets the default for a new site. Amounts are decimal
/// texts in the currency.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SiteDraft {
    pub workspace: Option<String>,
    pub title: Option<String>,
    pub description: Option<String>,
    pub currency: Option<String>,
    pub hosts: Option<Vec<String>>,
    pub links: Option<BTreeMap<String, String>>,
    pub shipping: Option<String>,
    pub free_shipping_from: Option<String>,
    pub tax: Option<String>,
}

impl SiteDraft {
    /// Makes the site; `had` is the existing one.
    pub fn make(&self, slug: Slug, had: Option<Site>, now: Time) -> Result<Site, Error> {
        let wrong = |field, says: &dyn std::fmt::Display| Error::Field { field, says: says.to_string() };
        let currency = match (&self.currency, &had) {
            (Some(text), _) => Currency::check(text).map_err(|error| wrong("currency", &error))?,
            (None, Some(had)) => had.currency.clone(),
            (None, None) => Currency::check("USD").map_err(|error| wrong("currency", &error))?,
        };
        let mut site = match (had, &self.workspace) {
            (Some(had), _) => had,
            (None, Some(workspace)) => {
                Site::new(slug.clone(), workspace.as_str().into(), slug.as_str(), currency.clone(), now)
            }
            (None, None) => return Err(wrong("workspace", &"must be said of a new site")),
        };
        if let Some(workspace) = &self.workspace {
            site.workspace = workspace.as_str().into();
        }
        if let Some(title) = &self.title {
            site.title = title.as_str().into();
        }
        if let Some(description) = &self.description {
            site.description = description.as_str().into();
        }
        if let Some(hosts) = &self.hosts {
            site.hosts = hosts.iter().map(|host| host.as_str().into()).collect();
        }
        if let Some(links) = &self.links {
            let social =
                |(name, url): (&String, &String)| Social { name: name.as_str().into(), url: url.as_str().into() };
            site.links = links.iter().map(social).collect();
        }
        let amount = |field, text: &str| currency.read(text).map_err(|error| wrong(field, &error));
        if let Some(text) = &self.shipping {
            site.terms.shipping = amount("shipping", text)?;
        }
        if let Some(text) = &self.free_shipping_from {
            site.terms.free_shipping_from = Some(amount("free_shipping_from", text)?);
        }
        if let Some(text) = &self.tax {
            site.terms.tax = Rate::parse(text).map_err(|error| wrong("tax", &error))?;
        }
        site.currency = currency;
        site.check()?;
        Ok(site)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn what_is_left_out_is_the_usual_or_stays() {
        let slug = || Slug::check("acme").unwrap();
        let refused = SiteDraft::default().make(slug(), None, Time(1)).unwrap_err();
        assert!(refused.to_string().contains("workspace"), "{refused}");

        let new =
            SiteDraft { workspace: some("ws"), tax: some("0.19"), shipping: some("4.90"), ..SiteDraft::default() };
        let site = new.make(slug(), None, Time(1)).unwrap();
        assert_eq!((&*site.title, site.currency.code(), site.terms.shipping), ("acme", "USD", Minor(490)));
        assert_eq!(site.terms.tax, Rate::parse("0.19").unwrap());

        let links = BTreeMap::from([("blog".to_owned(), "https://blog.example".to_owned())]);
        let change = SiteDraft { title: some("Acme"), links: Some(links), ..SiteDraft::default() };
        let changed = change.make(slug(), Some(site.clone()), Time(2)).unwrap();
        assert_eq!((&*changed.title, changed.terms, changed.created_at), ("Acme", site.terms, Time(1)));
        assert_eq!(changed.links[0].name.as_ref(), "blog");

        for (draft, field) in [
            (SiteDraft { currency: some("dollars"), ..SiteDraft::default() }, "currency"),
            (SiteDraft { shipping: some("much"), ..SiteDraft::default() }, "shipping"),
            (SiteDraft { tax: some("19"), ..SiteDraft::default() }, "tax"),
            (SiteDraft { hosts: Some(vec!["Acme:80".into()]), ..SiteDraft::default() }, "hosts"),
        ] {
            let refused = draft.make(slug(), Some(site.clone()), Time(2)).unwrap_err();
            assert!(matches!(&refused, Error::Field { field: named, .. } if *named == field), "{field}: {refused}");
        }
    }
}
