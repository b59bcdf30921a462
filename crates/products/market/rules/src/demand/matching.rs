//! The match of an offer with a demand. Only fields that the demand has count: an absent field costs no points.

use std::collections::BTreeSet;

use super::{DemandSpec, Reason, score, terms::words};
use crate::capability::{CapabilityTerms, PricingModel};
use ledger::Ut;

const CATEGORY: u32 = 25;
const TYPE: u32 = 10;
const MODEL: u32 = 5;
const MODE: u32 = 5;
const TAGS: u32 = 15;
const WORDS: u32 = 30;
const BUDGET: u32 = 20;
const READY: u32 = 5;
/// Number of words that a reason names.
const NAMED: usize = 5;

/// The words of a demand, computed once for comparison with many offers.
#[derive(Debug)]
pub struct DemandWords<'a> {
    wants: &'a DemandSpec,
    title: BTreeSet<String>,
    rest: BTreeSet<String>,
    tags: BTreeSet<String>,
}

impl<'a> DemandWords<'a> {
    pub fn of(wants: &'a DemandSpec) -> DemandWords<'a> {
        let title = words(&wants.title);
        let mut rest = words(&wants.description);
        rest.extend(wants.tags.iter().flat_map(|tag| words(tag)));
        rest.retain(|word| !title.contains(word));
        DemandWords { wants, title, rest, tags: lower(&wants.tags) }
    }
}

/// The words of an offer, computed once for comparison with many demands.
#[derive(Debug)]
pub struct Offered<'a> {
    terms: &'a CapabilityTerms,
    words: BTreeSet<String>,
    tags: BTreeSet<String>,
}

impl<'a> Offered<'a> {
    pub fn of(terms: &'a CapabilityTerms) -> Offered<'a> {
        let mut found = words(&terms.title);
        found.extend(words(&terms.description));
        found.extend(words(&terms.category));
        found.extend(terms.tags.iter().flat_map(|tag| words(tag)));
        Offered { terms, words: found, tags: lower(&terms.tags) }
    }
}

fn lower(tags: &[std::sync::Arc<str>]) -> BTreeSet<String> {
    tags.iter().map(|tag| tag.to_lowercase()).collect()
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fit {
    /// Of a hundred.
    pub score: u32,
    /// Whether demand and offer share a category, a tag or a word.
    pub related: bool,
    /// Whether the price is within the budget; `None` without a budget.
    pub within_budget: Option<bool>,
    pub reasons: Vec<Reason>,
}

pub fn fit(wanted: &DemandWords<'_>, offered: &Offered<'_>) -> Fit {
    let (wants, terms) = (wanted.wants, offered.terms);
    let mut reasons = Vec::with_capacity(8);
    let whole = |same: bool, of: u32| if same { of } else { 0 };
    if let Some(category) = &wants.category {
        let same = category.to_lowercase() == terms.category.to_lowercase();
        let detail = match same {
            true => format!("both are of {category}"),
            false => format!("it is of {}, not of {category}", terms.category),
        };
        reasons.push(Reason::new("category", whole(same, CATEGORY), CATEGORY, detail));
    }
    reasons.extend(
        wants.capability_type.map(|what| named("capability_type", what.name(), terms.capability_type.name(), TYPE)),
    );
    reasons.extend(
        wants.pricing_model.map(|model| named("pricing_model", model.name(), terms.pricing_model.name(), MODEL)),
    );
    reasons
        .extend(wants.delivery_mode.map(|mode| named("delivery_mode", mode.name(), terms.delivery_mode.name(), MODE)));
    reasons.extend(by_tags(wanted, offered));
    reasons.extend(by_words(wanted, offered));
    let related =
        reasons.iter().any(|reason| reason.points > 0 && ["category", "tags", "words"].contains(&reason.criterion));
    let within_budget = wants.budget.map(|budget| terms.price <= budget);
    reasons.extend(wants.budget.map(|budget| by_price(budget, terms)));
    let ready = terms.available && terms.accepts_by_itself(terms.price);
    let detail = match (ready, terms.available) {
        (true, _) => "orders are accepted at once",
        (false, true) => "the seller accepts each order",
        (false, false) => "it is not available now",
    };
    reasons.push(Reason::new("availability", whole(ready, READY), READY, detail));
    Fit { score: score(&reasons), related, within_budget, reasons }
}

fn named(criterion: &'static str, wanted: &str, offered: &str, of: u32) -> Reason {
    match wanted == offered {
        true => Reason::new(criterion, of, of, format!("{wanted}, as wanted")),
        false => Reason::new(criterion, 0, of, format!("{offered}, where {wanted} is wanted")),
    }
}

fn by_tags(wanted: &DemandWords<'_>, offered: &Offered<'_>) -> Option<Reason> {
    if wanted.tags.is_empty() {
        return None;
    }
    let shared: Vec<&str> = wanted.tags.intersection(&offered.tags).map(String::as_str).collect();
    let points = share(TAGS, shared.len(), wanted.tags.len());
    let detail = match &shared[..] {
        [] => "no tag in common".to_owned(),
        some => format!("{} of {} tags: {}", some.len(), wanted.tags.len(), listed(some)),
    };
    Some(Reason::new("tags", points, TAGS, detail))
}

/// A word of the title counts twice.
fn by_words(wanted: &DemandWords<'_>, offered: &Offered<'_>) -> Option<Reason> {
    let all = wanted.title.len() * 2 + wanted.rest.len();
    if all == 0 {
        return None;
    }
    let hits = |words: &BTreeSet<String>| words.intersection(&offered.words).count();
    let found = hits(&wanted.title) * 2 + hits(&wanted.rest);
    let shared: Vec<&str> = wanted
        .title
        .intersection(&offered.words)
        .chain(wanted.rest.intersection(&offered.words))
        .map(String::as_str)
        .collect();
    let detail = match &shared[..] {
        [] => "no word in common".to_owned(),
        some => format!("{} words in common: {}", some.len(), listed(some)),
    };
    Some(Reason::new("words", share(WORDS, found, all), WORDS, detail))
}

/// Full points within the budget, none from twice the budget on, linear in between.
fn by_price(budget: Ut, terms: &CapabilityTerms) -> Reason {
    let (price, most) = (i128::from(terms.price.hundredths()), i128::from(budget.hundredths()));
    let per = match terms.pricing_model {
        PricingModel::PerUse | PricingModel::PerQuery => "",
        PricingModel::PerHour => " an hour",
        PricingModel::PerDay => " a day",
        PricingModel::Subscription => " a subscription",
    };
    let over = (price - most).max(0);
    let points = match over {
        0 => BUDGET,
        over if over >= most => 0,
        over => u32::try_from(i128::from(BUDGET) * (most - over) / most).unwrap_or_default(),
    };
    let detail = match over {
        0 => format!("{} UT{per} is within {budget} UT", terms.price),
        _ => format!("{} UT{per} is more than {budget} UT", terms.price),
    };
    Reason::new("budget_ut", points, BUDGET, detail)
}

fn share(of: u32, found: usize, all: usize) -> u32 {
    u32::try_from((of as usize * found).checked_div(all).unwrap_or_default()).unwrap_or(of)
}

fn listed(words: &[&str]) -> String {
    let first = words.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    if words.len() > NAMED { format!("{first}, …") } else { first }
}
