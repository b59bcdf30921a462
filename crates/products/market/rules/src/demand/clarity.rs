//! The clarity of a demand: a score over the fields that sellers and matching use.

use super::{DemandSpec, Reason, score, terms::words};
use crate::capability::named;
use serde::{Deserialize, Serialize};

/// Number of words of a description that gets full points.
const ENOUGH_WORDS: u32 = 30;
const ENOUGH_TITLE: u32 = 3;
const ENOUGH_TAGS: u32 = 3;
const ENOUGH_CRITERIA: u32 = 4;
const CLEAR: u32 = 75;
const FAIR: u32 = 45;

named!(Level { Clear = "clear", Fair = "fair", Vague = "vague" });

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clarity {
    /// Of a hundred.
    pub score: u32,
    pub level: Level,
    pub reasons: Vec<Reason>,
}

impl Clarity {
    pub fn of(wants: &DemandSpec) -> Clarity {
        let count = |text: &str| u32::try_from(words(text).len()).unwrap_or(u32::MAX);
        let parts = |found: u32, enough: u32, of: u32| of * found.min(enough) / enough;
        let (title, description) = (count(&wants.title), count(&wants.description));
        let criteria = wants.acceptance_criteria.as_deref().map_or(0, count);
        let tags = u32::try_from(wants.tags.len()).unwrap_or(u32::MAX);
        let numbers = [Some(&wants.description), wants.acceptance_criteria.as_ref()]
            .into_iter()
            .flatten()
            .any(|text| text.chars().any(char::is_numeric));
        let said = |there: bool, of: u32| if there { of } else { 0 };
        let reasons = vec![
            Reason::new(
                "title",
                parts(title, ENOUGH_TITLE, 10),
                10,
                match title >= ENOUGH_TITLE {
                    true => "the title says what it is about".to_owned(),
                    false => format!("name the thing in {ENOUGH_TITLE} words or more"),
                },
            ),
            Reason::new(
                "description",
                parts(description, ENOUGH_WORDS, 30),
                30,
                match description >= ENOUGH_WORDS {
                    true => "the description is full enough to work from".to_owned(),
                    false => format!(
                        "{description} different words: say what goes in, what comes out and what matters, in {ENOUGH_WORDS} or so"
                    ),
                },
            ),
            Reason::new(
                "category",
                said(wants.category.is_some(), 10),
                10,
                match &wants.category {
                    Some(category) => format!("it belongs to {category}"),
                    None => "name a category of GET /categories".to_owned(),
                },
            ),
            Reason::new(
                "capability_type",
                said(wants.capability_type.is_some(), 5),
                5,
                match wants.capability_type {
                    Some(what) => format!("a {} is wanted", what.name()),
                    None => "say what kind of capability it takes".to_owned(),
                },
            ),
            Reason::new(
                "tags",
                parts(tags, ENOUGH_TAGS, 10),
                10,
                match tags >= ENOUGH_TAGS {
                    true => format!("{tags} tags"),
                    false => format!("{tags} tags: {ENOUGH_TAGS} make it easier to find"),
                },
            ),
            Reason::new(
                "budget_ut",
                said(wants.budget.is_some(), 15),
                15,
                match wants.budget {
                    Some(budget) => format!("up to {budget} UT"),
                    None => "say what it may cost".to_owned(),
                },
            ),
            Reason::new(
                "acceptance_criteria",
                parts(criteria, ENOUGH_CRITERIA, 15),
                15,
                match criteria >= ENOUGH_CRITERIA {
                    true => "it is said how you will tell that it is done".to_owned(),
                    false => "say how you will tell that it is done".to_owned(),
                },
            ),
            Reason::new(
                "figures",
                said(numbers, 5),
                5,
                match numbers {
                    true => "there are figures to go by",
                    false => "give figures: how much, how many, how fast",
                },
            ),
        ];
        let score = score(&reasons);
        let level = match score {
            CLEAR.. => Level::Clear,
            FAIR..CLEAR => Level::Fair,
            0..FAIR => Level::Vague,
        };
        Clarity { score, level, reasons }
    }

    /// Additions that would make the demand clearer, the most useful first.
    pub fn advice(&self) -> Vec<&str> {
        let mut lacking: Vec<&Reason> = self.reasons.iter().filter(|reason| reason.points < reason.of).collect();
        lacking.sort_by_key(|reason| std::cmp::Reverse(reason.of - reason.points));
        lacking.into_iter().map(|reason| reason.detail.as_str()).collect()
    }
}
