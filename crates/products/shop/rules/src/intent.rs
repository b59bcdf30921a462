//! The request of a message: read from a structured part, or from text.
//!
//! A data part is read literally, in either spelling of its members. Text is read tolerantly: a few verbs select the skill,
//! tokens are known by their form, and the rest is the query of a search. Missing facts stay absent, and the agent asks for
//! them.

use std::sync::Arc;

use model::{Content, Part};
use serde_json::{Map, Value};

mod follow_up;

use crate::skill::{CartAction, StoreSkill};

/// The longest text that is read.
const MAX_TEXT: usize = 4_000;
/// Longest member of a structured part, in bytes. Replies repeat members.
const MAX_FIELD: usize = 1_000;
/// Most options of a variant choice.
const MAX_OPTIONS: usize = 20;
const TOO_LONG: &str = "a text of at most 1000 bytes";

/// The request in a message; missing fields are `None` or empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkillRequest {
    pub skill: Option<StoreSkill>,
    pub action: Option<CartAction>,
    pub site_slug: Option<String>,
    pub query: Option<String>,
    pub cart_token: Option<String>,
    pub product_id: Option<String>,
    pub variant_id: Option<String>,
    pub variant_options: Vec<(Arc<str>, Arc<str>)>,
    pub quantity: Option<i64>,
    pub confirmation_token: Option<String>,
    pub email: Option<String>,
    pub code: Option<String>,
}

/// Errors of a structured part. The caller gets them before a task exists.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SkillRequestError {
    #[error("unknown skill {0:?}; the skills are {known}", known = StoreSkill::names())]
    Skill(String),
    #[error("unknown action {0:?}; the actions are {known}", known = CartAction::names())]
    Action(String),
    #[error("{0} must be {1}")]
    Field(&'static str, &'static str),
}

impl SkillRequestError {
    /// The member with the error.
    pub fn field(&self) -> &'static str {
        match self {
            SkillRequestError::Skill(_) => "skill",
            SkillRequestError::Action(_) => "action",
            SkillRequestError::Field(field, _) => field,
        }
    }
}

/// Reads a message: the first data part that is not empty, else the text.
pub fn read(parts: &[Part]) -> Result<SkillRequest, SkillRequestError> {
    for part in parts {
        if let Content::Data(data) = &part.content
            && let Value::Object(members) = data.to_value()
            && !members.is_empty()
        {
            return decode(&members);
        }
    }
    let texts: Vec<&str> = parts.iter().filter_map(Part::as_text).collect();
    Ok(parse(&texts.join("\n")))
}

/// Reads the messages of one task, oldest first: a message that follows a question of the agent is read as its answer.
/// An error counts only in the last message.
pub fn read_all<'a>(messages: impl IntoIterator<Item = &'a [Part]>) -> Result<SkillRequest, SkillRequestError> {
    let mut latest = Ok(SkillRequest::default());
    let mut question = None;
    for parts in messages {
        latest = read(parts).map(|said| match question.take() {
            Some((asked, field)) => follow_up::combine(&asked, field, said, parts),
            None => said,
        });
        question = latest.as_ref().ok().and_then(|request| Some((request.clone(), follow_up::question(request)?)));
    }
    latest
}

/// Reads the members of a structured part.
pub fn decode(members: &Map<String, Value>) -> Result<SkillRequest, SkillRequestError> {
    let find = |snake: &'static str, camel: &str| match members.get(camel).or_else(|| members.get(snake)) {
        None | Some(Value::Null) => None,
        Some(found) => Some(found),
    };
    let text = |snake: &'static str, camel: &str| match find(snake, camel) {
        None => Ok(None),
        Some(Value::String(text)) if text.trim().is_empty() => Ok(None),
        Some(Value::String(text)) if text.len() > MAX_FIELD => Err(SkillRequestError::Field(snake, TOO_LONG)),
        Some(Value::String(text)) => Ok(Some(text.trim().to_owned())),
        Some(_) => Err(SkillRequestError::Field(snake, "a text")),
    };
    let skill = match text("skill", "skill")? {
        Some(name) => Some(StoreSkill::from_name(&name).ok_or(SkillRequestError::Skill(name))?),
        None => None,
    };
    let action = match text("action", "action")? {
        Some(name) => Some(CartAction::from_name(&name).ok_or(SkillRequestError::Action(name))?),
        None => None,
    };
    let wrong = SkillRequestError::Field("quantity", "a whole number");
    let quantity = match find("quantity", "quantity") {
        None => None,
        Some(Value::Number(number)) => Some(number.as_i64().ok_or(wrong)?),
        Some(Value::String(text)) => Some(text.trim().parse().map_err(|_| wrong)?),
        Some(_) => return Err(wrong),
    };
    let variant_options = match find("variant_options", "variantOptions") {
        None => Vec::new(),
        Some(Value::Object(options)) if options.len() > MAX_OPTIONS => {
            return Err(SkillRequestError::Field("variant_options", "an object of at most 20 texts"));
        }
        Some(Value::Object(options)) => {
            let pair = |(name, value): (&String, &Value)| match value {
                Value::String(value) if name.len().max(value.len()) > MAX_FIELD => {
                    Err(SkillRequestError::Field("variant_options", "an object of texts of at most 1000 bytes"))
                }
                Value::String(value) => Ok((name.as_str().into(), value.as_str().into())),
                Value::Number(value) => Ok((name.as_str().into(), value.to_string().into())),
                Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
                    Err(SkillRequestError::Field("variant_options", "an object of texts"))
                }
            };
            options.iter().map(pair).collect::<Result<_, _>>()?
        }
        Some(_) => return Err(SkillRequestError::Field("variant_options", "an object of texts")),
    };
    let mut request = SkillRequest {
        skill,
        action,
        site_slug: text("site_slug", "siteSlug")?.map(|slug| slug.to_lowercase()),
        query: text("query", "query")?,
        cart_token: text("cart_token", "cartToken")?,
        product_id: text("product_id", "productId")?,
        variant_id: text("variant_id", "variantId")?,
        variant_options,
        quantity,
        confirmation_token: text("confirmation_token", "confirmationToken")?,
        email: text("email", "email")?,
        code: text("code", "code")?,
    };
    if request.skill.is_none() {
        request.skill = implied_skill(&request);
    }
    Ok(request)
}

/// The skill that the fields of a request imply.
fn implied_skill(request: &SkillRequest) -> Option<StoreSkill> {
    if request.action.is_some() {
        Some(StoreSkill::CartManagement)
    } else if request.confirmation_token.is_some() {
        Some(StoreSkill::OrderStatus)
    } else if request.query.is_some() {
        Some(StoreSkill::ProductSearch)
    } else {
        None
    }
}

/// A word of the text: original, and normalised for comparison.
struct Word {
    raw: String,
    low: String,
}

fn words(text: &str) -> Vec<Word> {
    let mut end = text.len().min(MAX_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let trimmed = |word: &str| {
        let raw = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '*' && c != '_');
        (!raw.is_empty()).then(|| Word { raw: raw.to_owned(), low: raw.to_lowercase() })
    };
    let apart = |c: char| c.is_whitespace() || matches!(c, ',' | ';' | ':' | '=' | '"' | '(' | ')' | '?' | '!');
    text[..end].split(apart).filter_map(trimmed).collect()
}

const SITE: &[&str] = &["store", "shop", "site", "storefront"];
/// Words that are never a slug, a product's id or a search term.
const SMALL: &[&str] = &[
    "a",
    "about",
    "all",
    "an",
    "and",
    "any",
    "are",
    "at",
    "available",
    "be",
    "browse",
    "buy",
    "by",
    "called",
    "can",
    "catalog",
    "catalogue",
    "could",
    "do",
    "does",
    "everything",
    "find",
    "for",
    "from",
    "get",
    "give",
    "has",
    "have",
    "hello",
    "hey",
    "hi",
    "i",
    "i'd",
    "i'm",
    "id",
    "in",
    "info",
    "information",
    "is",
    "item",
    "items",
    "kind",
    "kinds",
    "like",
    "list",
    "look",
    "looking",
    "me",
    "my",
    "named",
    "need",
    "of",
    "on",
    "online",
    "or",
    "our",
    "please",
    "product",
    "products",
    "query",
    "search",
    "see",
    "sell",
    "selling",
    "sells",
    "show",
    "slug",
    "some",
    "stock",
    "thank",
    "thanks",
    "that",
    "the",
    "there",
    "this",
    "to",
    "us",
    "want",
    "we",
    "what",
    "what's",
    "whats",
    "which",
    "with",
    "would",
    "you",
    "your",
    "site_slug",
    "up",
    "things",
    "stuff",
    "offer",
    "offers",
];

fn is_small(word: &str) -> bool {
    SMALL.contains(&word) || SITE.contains(&word)
}

fn looks_like_a_slug(word: &str) -> bool {
    crate::Slug::check(word).is_ok() && !is_small(word)
}

/// Whether a word may be an id: it has other characters than letters.
fn looks_like_an_id(word: &str) -> bool {
    word.len() > 2 && word.chars().any(|c| c.is_ascii_digit() || matches!(c, '_' | '-'))
}

/// The slug of the site, and the range of words that names it.
fn site(words: &[Word]) -> Option<(String, std::ops::Range<usize>)> {
    let says_site = |at: &usize| SITE.contains(&&*words[*at].low) || words[*at].low == "site_slug";
    for at in (0..words.len()).filter(says_site) {
        // "store acme", "the store called acme"
        let mut next = at + 1;
        while words.get(next).is_some_and(|word| matches!(&*word.low, "called" | "named" | "slug" | "is" | "with")) {
            next += 1;
        }
        if let Some(named) = words.get(next).filter(|word| looks_like_a_slug(&word.low)) {
            return Some((named.low.clone(), at..next + 1));
        }
        // "the acme store"
        if let Some(before) = at.checked_sub(1).map(|before| &words[before])
            && looks_like_a_slug(&before.low)
            && !VERBS.contains(&&*before.low)
        {
            return Some((before.low.clone(), at - 1..at + 1));
        }
    }
    // "at acme", at the end
    let [.., preposition, named] = words else { return None };
    let is_at = matches!(&*preposition.low, "at" | "from" | "on");
    (is_at && looks_like_a_slug(&named.low) && !named.low.contains("cart") && !named.raw.contains('_'))
        .then(|| (named.low.clone(), words.len() - 1..words.len()))
}

const VERBS: &[&str] =
    &["search", "find", "show", "list", "browse", "create", "add", "checkout", "pay", "visit", "open"];

fn number(word: &str) -> Option<i64> {
    // The name of the payment, not a quantity of 402.
    if word == "x402" {
        return None;
    }
    let word = word.strip_prefix('x').or_else(|| word.strip_suffix('x')).unwrap_or(word);
    if let Ok(number) = word.parse() {
        return Some(number);
    }
    let named = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];
    named.iter().position(|name| *name == word).and_then(|n| i64::try_from(n).ok())
}

/// Reads a text.
///
/// ```
/// use shop_rules::{StoreSkill, intent};
/// let request = intent::parse("Search for hats on store acme.");
/// assert_eq!(request.skill, Some(StoreSkill::ProductSearch));
/// assert_eq!((request.site_slug.as_deref(), request.query.as_deref()), (Some("acme"), Some("hats")));
/// ```
pub fn parse(text: &str) -> SkillRequest {
    let words = words(text);
    let has = |any: &[&str]| words.iter().any(|word| any.contains(&&*word.low));
    let named = site(&words);
    let mut request =
        SkillRequest { site_slug: named.as_ref().map(|(slug, _)| slug.clone()), ..SkillRequest::default() };
    let mut used = vec![false; words.len()];
    if let Some((_, range)) = &named {
        used[range.clone()].fill(true);
    }
    // Tokens have a prefix.
    for (at, word) in words.iter().enumerate() {
        let slot = if word.low.starts_with("cart_") && word.low != "cart_token" {
            &mut request.cart_token
        } else if word.low.starts_with("conf_") {
            &mut request.confirmation_token
        } else if word.low.starts_with("prod_") {
            &mut request.product_id
        } else if word.raw.contains('@') {
            &mut request.email
        } else {
            continue;
        };
        slot.get_or_insert_with(|| word.raw.clone());
        used[at] = true;
    }
    // Other fields follow a keyword.
    for at in 0..words.len() {
        let after = (at + 1..words.len()).take(2).find(|n| !used[*n] && !is_small(&words[*n].low));
        let slot = match &*words[at].low {
            "cart_token" if request.cart_token.is_none() => &mut request.cart_token,
            "token" | "confirmation_token" | "confirmation" | "order" if request.confirmation_token.is_none() => {
                let Some(found) = after.filter(|n| looks_like_an_id(&words[*n].low)) else { continue };
                request.confirmation_token = Some(words[found].raw.clone());
                used[found] = true;
                continue;
            }
            "product" | "product_id" | "item" if request.product_id.is_none() => &mut request.product_id,
            "variant" | "variant_id" if request.variant_id.is_none() => &mut request.variant_id,
            "coupon" | "code" | "voucher" | "promo" if request.code.is_none() => {
                let is_code = |n: &usize| !matches!(&*words[*n].low, "code" | "coupon" | "cart" | "basket");
                let Some(found) =
                    (at + 1..words.len()).take(3).find(|n| !used[*n] && !is_small(&words[*n].low) && is_code(n))
                else {
                    continue;
                };
                request.code = Some(words[found].raw.clone());
                used[found] = true;
                continue;
            }
            "quantity" | "qty" if request.quantity.is_none() => {
                let found = (at + 1..words.len()).take(2).find_map(|n| Some((n, number(&words[n].low)?)));
                let Some((found, quantity)) = found else { continue };
                (request.quantity, used[found]) = (Some(quantity), true);
                continue;
            }
            _ => continue,
        };
        let Some(found) = after else { continue };
        *slot = Some(words[found].raw.clone());
        used[found] = true;
    }
    request.skill = skill(&has, &request);
    if request.skill == Some(StoreSkill::CartManagement) {
        request.action = action(&has, &request);
    }
    let takes_goods = match request.skill {
        Some(StoreSkill::X402Purchase) => true,
        Some(StoreSkill::CartManagement) => {
            matches!(request.action, Some(CartAction::Add | CartAction::Update | CartAction::Remove))
        }
        Some(StoreSkill::ProductSearch | StoreSkill::StoreInfo | StoreSkill::OrderStatus | StoreSkill::Checkout)
        | None => false,
    };
    if takes_goods {
        goods(&words, &mut used, &mut request);
    }
    if request.skill == Some(StoreSkill::ProductSearch) {
        request.query = Some(query(&words, named.as_ref().map(|(_, range)| range)));
    }
    request
}

fn skill(has: &impl Fn(&[&str]) -> bool, request: &SkillRequest) -> Option<StoreSkill> {
    let is_order = has(&["order", "orders", "delivery", "package", "parcel", "shipment"]);
    let asks_state = has(&["status", "track", "tracking", "where", "where's", "arrived", "shipped", "state"]);
    if has(&["x402"]) {
        return Some(StoreSkill::X402Purchase);
    }
    if has(&["checkout"]) || has(&["check"]) && has(&["out"]) || has(&["pay"]) {
        return Some(StoreSkill::Checkout);
    }
    if has(&["cart", "basket", "cart_token"]) || request.cart_token.is_some() {
        return Some(StoreSkill::CartManagement);
    }
    if request.confirmation_token.is_some() || is_order && asks_state || has(&["track"]) {
        return Some(StoreSkill::OrderStatus);
    }
    if has(&["buy", "purchase"]) {
        return Some(StoreSkill::X402Purchase);
    }
    let looks = has(&["search", "find", "browse", "looking", "list", "products", "items", "catalog", "catalogue"]);
    if !looks && has(&["about", "info", "information", "who", "contact", "details"]) {
        return Some(StoreSkill::StoreInfo);
    }
    if looks || has(&["show", "sell", "sells", "have", "offer", "any", "look", "need", "want"]) {
        return Some(StoreSkill::ProductSearch);
    }
    if is_order {
        return Some(StoreSkill::OrderStatus);
    }
    None
}

fn action(has: &impl Fn(&[&str]) -> bool, request: &SkillRequest) -> Option<CartAction> {
    if request.code.is_some() || has(&["coupon", "voucher", "promo"]) {
        return Some(CartAction::ApplyCoupon);
    }
    if has(&["clear", "empty"]) {
        return Some(CartAction::Clear);
    }
    if has(&["remove", "delete", "drop"]) || has(&["take"]) && has(&["out"]) {
        return Some(CartAction::Remove);
    }
    if has(&["update", "change", "set"]) {
        return Some(CartAction::Update);
    }
    if has(&["add", "put"]) {
        return Some(CartAction::Add);
    }
    if has(&["create", "new", "start", "open", "make", "begin"]) {
        return Some(CartAction::Create);
    }
    if has(&["get", "show", "view", "see", "what", "what's", "display", "look"]) || request.cart_token.is_some() {
        return Some(CartAction::Get);
    }
    None
}

/// Reads product and quantity.
fn goods(words: &[Word], used: &mut [bool], request: &mut SkillRequest) {
    if request.quantity.is_none() {
        let found =
            words.iter().enumerate().find_map(|(n, word)| if used[n] { None } else { Some((n, number(&word.low)?)) });
        if let Some((found, quantity)) = found {
            (request.quantity, used[found]) = (Some(quantity), true);
        }
    }
    if request.product_id.is_none() {
        let is_id = |n: &usize| !used[*n] && looks_like_an_id(&words[*n].low) && !words[*n].low.starts_with("x402");
        request.product_id = (0..words.len()).find(is_id).map(|n| words[n].raw.clone());
    }
}

/// The words that remain for the search.
fn query(words: &[Word], site: Option<&std::ops::Range<usize>>) -> String {
    let kept = words
        .iter()
        .enumerate()
        .filter(|(n, word)| site.is_none_or(|range| !range.contains(n)) && (!is_small(&word.low) || word.low == "*"));
    let query = kept.map(|(_, word)| word.raw.as_str()).collect::<Vec<_>>().join(" ");
    if query.is_empty() { "*".to_owned() } else { query }
}

#[cfg(test)]
#[path = "intent_tests.rs"]
mod tests;
