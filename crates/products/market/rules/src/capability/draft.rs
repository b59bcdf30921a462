//! A seller's input for a capability, and the rules for each field. Validation reports all wrong fields at once.

use std::sync::Arc;

use model::Json;
use model::reach::{Reach, name_reach, reach};
use url::{Host, Url};

use super::{CapabilityRules, CapabilityTerms, CapabilityType, DeliveryMode, FieldError, PricingModel, Served};
use ledger::Ut;

const MAX_TITLE: usize = 200;
const MAX_DESCRIPTION: usize = 10_000;
const MAX_CATEGORY: usize = 50;
const MAX_TAGS: usize = 20;
const MAX_TAG: usize = 50;
const MAX_CALLBACK_URL: usize = 2_000;
const CALLBACK_TIMEOUT_S: u32 = 30;
const MAX_CALLBACK_TIMEOUT_S: i64 = 300;

/// A seller's input before validation. Values are texts as they came, so that one answer can name every wrong field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapabilityDraft {
    pub title: Option<String>,
    pub description: Option<String>,
    pub category: Option<String>,
    pub capability_type: Option<String>,
    pub pricing_model: Option<String>,
    /// A JSON number or a decimal string.
    pub price_ut: Option<Json>,
    pub tags: Vec<String>,
    pub delivery_mode: Option<String>,
    pub auto_accept_min_ut: Option<Json>,
    pub daily_limit: Option<i64>,
    pub rate_limit_per_min: Option<i64>,
    pub callback_url: Option<String>,
    pub callback_timeout_sec: Option<i64>,
    pub available: Option<bool>,
    /// Set by an operator; otherwise a callback URL means a callback and none means a person.
    pub served: Option<Served>,
}

impl CapabilityDraft {
    /// Validates the draft: the terms, or the errors of all wrong fields.
    pub fn check(&self, rules: &CapabilityRules) -> Result<CapabilityTerms, Vec<FieldError>> {
        let mut wrong = FieldErrors(Vec::new());
        let title = wrong.text("title", self.title.as_deref(), MAX_TITLE);
        let description = wrong.text("description", self.description.as_deref(), MAX_DESCRIPTION);
        let category = wrong.text("category", self.category.as_deref(), MAX_CATEGORY);
        let capability_type =
            wrong.one_of("capability_type", self.capability_type.as_deref(), CapabilityType::ALL, CapabilityType::name);
        let pricing_model =
            wrong.one_of("pricing_model", self.pricing_model.as_deref(), PricingModel::ALL, PricingModel::name);
        let mode = self.delivery_mode.as_deref().or(Some(DeliveryMode::Instant.name()));
        let delivery_mode = wrong.one_of("delivery_mode", mode, DeliveryMode::ALL, DeliveryMode::name);
        let price = wrong.amount("price_ut", self.price_ut.as_ref()).unwrap_or(Ut::ZERO);
        let auto_accept_min = wrong.amount("auto_accept_min_ut", self.auto_accept_min_ut.as_ref());
        let daily_limit = wrong.count("daily_limit", self.daily_limit, i64::from(u32::MAX));
        let rate_limit_per_min = wrong.count("rate_limit_per_min", self.rate_limit_per_min, i64::from(u32::MAX));
        let timeout = wrong.count("callback_timeout_sec", self.callback_timeout_sec, MAX_CALLBACK_TIMEOUT_S);
        let tags = wrong.tags(&self.tags);
        let served = match (&self.served, &self.callback_url) {
            (Some(Served::Callback { url, timeout_s }), _) => {
                wrong.callback(url, rules);
                Served::Callback { url: url.clone(), timeout_s: *timeout_s }
            }
            (Some(served), None) => served.clone(),
            (Some(_), Some(_)) => {
                wrong.say("callback_url", "is of no use: something else serves this capability");
                Served::Person
            }
            (None, Some(url)) => {
                wrong.callback(url, rules);
                Served::Callback { url: url.as_str().into(), timeout_s: timeout.unwrap_or(CALLBACK_TIMEOUT_S) }
            }
            (None, None) => Served::Person,
        };
        if pricing_model == Some(PricingModel::PerQuery) && !served.by_machine() {
            wrong.say("callback_url", "is required when pricing_model is per_query");
        }
        match (title, description, category, capability_type, pricing_model, delivery_mode) {
            (Some(title), Some(description), Some(category), Some(what), Some(pricing_model), Some(delivery_mode))
                if wrong.0.is_empty() =>
            {
                Ok(CapabilityTerms {
                    title,
                    description,
                    category,
                    capability_type: what,
                    pricing_model,
                    price,
                    tags,
                    delivery_mode,
                    auto_accept_min,
                    daily_limit,
                    rate_limit_per_min,
                    served,
                    available: self.available.unwrap_or(true),
                })
            }
            _ => Err(wrong.0),
        }
    }
}

/// Collects the errors of a draft's fields.
pub(crate) struct FieldErrors(pub(crate) Vec<FieldError>);

impl FieldErrors {
    pub(crate) fn say(&mut self, field: &'static str, detail: impl Into<String>) {
        self.0.push(FieldError::new(field, detail));
    }

    pub(crate) fn text(&mut self, field: &'static str, text: Option<&str>, most: usize) -> Option<Arc<str>> {
        let text = text.map(str::trim).unwrap_or_default();
        if text.is_empty() {
            self.say(field, "is required");
            return None;
        }
        if text.chars().count() > most {
            self.say(field, format!("must have at most {most} characters"));
            return None;
        }
        Some(text.into())
    }

    pub(crate) fn one_of<T: Copy>(
        &mut self,
        field: &'static str,
        text: Option<&str>,
        all: &[T],
        name: fn(T) -> &'static str,
    ) -> Option<T> {
        let known = || all.iter().map(|member| name(*member)).collect::<Vec<_>>().join(", ");
        let Some(text) = text else {
            self.say(field, format!("is required: one of {}", known()));
            return None;
        };
        let found = all.iter().copied().find(|member| name(*member) == text);
        if found.is_none() {
            self.say(field, format!("must be one of {}", known()));
        }
        found
    }

    pub(crate) fn amount(&mut self, field: &'static str, json: Option<&Json>) -> Option<Ut> {
        match Ut::from_json(json?) {
            Ok(amount) if amount.is_negative() => self.say(field, "must not be negative"),
            Ok(amount) => return Some(amount),
            Err(error) => self.say(field, error.to_string()),
        }
        None
    }

    pub(crate) fn count(&mut self, field: &'static str, number: Option<i64>, most: i64) -> Option<u32> {
        let number = number?;
        if (1..=most).contains(&number) {
            return u32::try_from(number).ok();
        }
        self.say(field, format!("must be between 1 and {most}"));
        None
    }

    pub(crate) fn tags(&mut self, tags: &[String]) -> Vec<Arc<str>> {
        if tags.len() > MAX_TAGS {
            self.say("tags", format!("must be at most {MAX_TAGS}"));
        }
        if tags.iter().any(|tag| tag.trim().is_empty() || tag.chars().count() > MAX_TAG) {
            self.say("tags", format!("must each have 1 to {MAX_TAG} characters"));
        }
        tags.iter().map(|tag| tag.trim().into()).collect()
    }

    /// Validates the text of the address. The addresses of its host are checked again at every call.
    fn callback(&mut self, text: &str, rules: &CapabilityRules) {
        self.0.extend(called_at("callback_url", text, rules));
    }
}

/// The error of a callback address, as far as its text shows.
pub fn called_at(field: &'static str, text: &str, rules: &CapabilityRules) -> Option<FieldError> {
    let fault = match Url::parse(text) {
        _ if text.len() > MAX_CALLBACK_URL => Some("is too long"),
        Err(_) => Some("must be a URL"),
        Ok(url) if url.scheme() != "https" && !(rules.private_callbacks && url.scheme() == "http") => {
            Some("must begin with https://")
        }
        Ok(url) if !url.username().is_empty() || url.password().is_some() => Some("must hold no user or password"),
        Ok(url) if url.fragment().is_some() => Some("must hold no fragment"),
        Ok(url) if !rules.private_callbacks && !is_public(url.host()) => {
            Some("must name a host that everybody can reach")
        }
        Ok(_) => None,
    };
    fault.map(|fault| FieldError::new(field, fault))
}

fn is_public(host: Option<Host<&str>>) -> bool {
    match host {
        None => false,
        Some(Host::Domain(name)) => name_reach(name) == Reach::Public,
        Some(Host::Ipv4(ip)) => reach(ip.into()) == Reach::Public,
        Some(Host::Ipv6(ip)) => reach(ip.into()) == Reach::Public,
    }
}
