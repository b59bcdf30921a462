//! An answer to a question of the store agent, combined with the request that the question was about.
//!
//! "Search for hats" leaves the store open; "acme" names it. The answer may be a bare word, a sentence, or a structured part
//! with the missing member. A message that is a complete request replaces the earlier one, and so does one that names
//! another skill without answering the question.

use model::Part;

use super::{SkillRequest, Word, action, is_small, looks_like_a_slug, number, words};
use crate::skill::{self, CartAction, StoreSkill};

/// Words around an answer that are no part of it.
const FILLERS: &[&str] = &[
    "it",
    "it's",
    "its",
    "i",
    "think",
    "guess",
    "mean",
    "meant",
    "one",
    "ok",
    "okay",
    "yes",
    "sure",
    "just",
    "try",
    "use",
    "take",
    "then",
    "let's",
    "called",
    "token",
    "code",
    "variant",
    "quantity",
    "action",
    "skill",
    "cart_token",
    "product_id",
    "confirmation_token",
];

/// The field that the agent asks for after a request. Only the shop has the variants of a product, so a request without a
/// variant may lead to the question for it.
pub(super) fn question(request: &SkillRequest) -> Option<&'static str> {
    let which = || {
        let open = request.variant_id.is_none() && request.variant_options.is_empty();
        (request.product_id.is_some() && open).then_some("variant_id")
    };
    skill::missing(request).or_else(which)
}

/// The request that `said` makes of `asked`, which lacks `field`. `parts` are those that `said` was read from.
pub(super) fn combine(asked: &SkillRequest, field: &str, said: SkillRequest, parts: &[Part]) -> SkillRequest {
    if said.skill.is_some() && skill::missing(&said).is_none() {
        return said;
    }
    let text: Vec<&str> = parts.iter().filter_map(Part::as_text).collect();
    let words = words(&text.join("\n"));
    let mut said = said;
    // The x402 skill ends without a question: after it a bare word is no variant.
    let is_answer = field != "variant_id" || asked.skill == Some(StoreSkill::CartManagement);
    if is_answer && (said.skill.is_none() || asked.skill.is_none()) {
        take_bare_answer(&mut said, field, &words);
    }
    if field == "variant_id" && !has(&said, field) {
        return said;
    }
    let changes_skill = match (asked.skill, said.skill) {
        (Some(before), Some(now)) => before != now && !has(&said, field),
        (None, Some(_)) | (Some(_) | None, None) => false,
    };
    if changes_skill {
        return said;
    }
    let skill = asked.skill.or(said.skill);
    let is_search = skill == Some(StoreSkill::ProductSearch);
    SkillRequest {
        skill,
        action: if skill == Some(StoreSkill::CartManagement) { asked.action.or(said.action) } else { None },
        site_slug: said.site_slug.or_else(|| asked.site_slug.clone()),
        // "*" is the query of a text without search terms.
        query: said.query.filter(|query| is_search && query != "*").or_else(|| asked.query.clone()),
        cart_token: said.cart_token.or_else(|| asked.cart_token.clone()),
        product_id: said.product_id.or_else(|| asked.product_id.clone()),
        variant_id: said.variant_id.or_else(|| asked.variant_id.clone()),
        variant_options: if said.variant_options.is_empty() {
            asked.variant_options.clone()
        } else {
            said.variant_options
        },
        quantity: said.quantity.or(asked.quantity),
        confirmation_token: said.confirmation_token.or_else(|| asked.confirmation_token.clone()),
        email: said.email.or_else(|| asked.email.clone()),
        code: said.code.or_else(|| asked.code.clone()),
    }
}

/// Whether a request has the field.
fn has(request: &SkillRequest, field: &str) -> bool {
    match field {
        "skill" => request.skill.is_some(),
        "action" => request.action.is_some(),
        "site_slug" => request.site_slug.is_some(),
        "cart_token" => request.cart_token.is_some(),
        "product_id" => request.product_id.is_some(),
        "variant_id" => request.variant_id.is_some() || !request.variant_options.is_empty(),
        "quantity" => request.quantity.is_some(),
        "confirmation_token" => request.confirmation_token.is_some(),
        "code" => request.code.is_some(),
        _ => false,
    }
}

/// Reads the one word that can be the answer into the field that was asked for.
fn take_bare_answer(said: &mut SkillRequest, field: &str, words: &[Word]) {
    if has(said, field) {
        return;
    }
    let plain = |word: &&Word| !is_small(&word.low) && !FILLERS.contains(&&*word.low);
    let mut candidates = words.iter().filter(plain);
    let only = candidates.next().filter(|_| candidates.next().is_none());
    let raw = only.map(|word| word.raw.clone());
    match field {
        "skill" => said.skill = only.and_then(|word| StoreSkill::from_name(&word.low)),
        "action" => {
            let said_word = |any: &[&str]| words.iter().any(|word| any.contains(&&*word.low));
            said.action = only.and_then(|word| CartAction::from_name(&word.low)).or_else(|| action(&said_word, said));
        }
        "site_slug" => said.site_slug = only.filter(|word| looks_like_a_slug(&word.low)).map(|word| word.low.clone()),
        "quantity" => said.quantity = words.iter().find_map(|word| number(&word.low)),
        "cart_token" => said.cart_token = raw,
        "product_id" => said.product_id = raw,
        "variant_id" => said.variant_id = raw,
        "confirmation_token" => said.confirmation_token = raw,
        "code" => said.code = raw,
        _ => {}
    }
}
