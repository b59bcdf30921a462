//! Replies of skills: a text, an artifact, and the state of the task.

use serde_json::{Value, json};

use crate::checkout::Session;
use crate::intent::SkillRequest;
use crate::skill::StoreSkill;
use crate::view::{self, Stocked};
use crate::{Cart, CartToken, Error, Minor, Order, Product, Site, Totals, Variant};

/// Texts for carts and orders that do not exist, and for those of other sites: a caller cannot tell them apart.
pub const NO_CART: &str = "There is no such cart at this store; create one first.";
pub const NO_ORDER: &str = "There is no order with this confirmation token at this store.";

/// The sample slug in examples.
pub const ANY_STORE: &str = "my-store";

/// The state of the task after a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    Completed,
    /// The text is a question.
    InputRequired,
    Failed,
}

/// The result of one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillReply {
    pub skill: Option<StoreSkill>,
    pub site: Option<String>,
    pub ending: Ending,
    pub text: String,
    pub artifact: Option<SkillArtifact>,
    /// The names of missing fields.
    pub missing: Vec<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillArtifact {
    /// Name and id of the artifact.
    pub name: &'static str,
    pub data: Value,
}

impl SkillReply {
    fn of(skill: StoreSkill, site: &Site, ending: Ending, text: String, data: Value) -> SkillReply {
        SkillReply {
            skill: Some(skill),
            site: Some(site.slug.to_string()),
            ending,
            text,
            artifact: Some(SkillArtifact { name: skill.artifact(), data }),
            missing: Vec::new(),
        }
    }

    /// Metadata of the task: skill and site.
    pub fn metadata(&self) -> Value {
        let mut facts = serde_json::Map::new();
        if let Some(skill) = self.skill {
            facts.insert("skill".to_owned(), skill.name().into());
        }
        if let Some(site) = &self.site {
            facts.insert("site_slug".to_owned(), site.as_str().into());
        }
        Value::Object(facts)
    }
}

/// A question for a missing field.
pub fn ask(skill: StoreSkill, request: &SkillRequest, field: &'static str, question: &str) -> SkillReply {
    SkillReply {
        skill: Some(skill),
        site: request.site_slug.clone(),
        ending: Ending::InputRequired,
        text: question.to_owned(),
        artifact: None,
        missing: vec![field],
    }
}

/// The reply to a request that names no skill.
pub fn help(request: &SkillRequest) -> SkillReply {
    let slug = request.site_slug.as_deref().unwrap_or(ANY_STORE);
    let examples = StoreSkill::ALL.map(|skill| format!("\"{}\" ({})", skill.example(slug), skill.name())).join(", ");
    SkillReply {
        skill: None,
        site: request.site_slug.clone(),
        ending: Ending::InputRequired,
        text: format!("What can I do for you? Send a data part with a skill, or write for example: {examples}."),
        artifact: None,
        missing: vec!["skill"],
    }
}

pub fn failed(skill: StoreSkill, site: Option<&str>, words: impl Into<String>) -> SkillReply {
    SkillReply {
        skill: Some(skill),
        site: site.map(str::to_owned),
        ending: Ending::Failed,
        text: words.into(),
        artifact: None,
        missing: Vec::new(),
    }
}

/// The reply to an error of the rules: a question if the request only lacks a detail.
pub fn refused(skill: StoreSkill, site: &Site, refusal: &Error) -> SkillReply {
    let words = refusal.to_string();
    let mut letters = words.chars();
    let words = letters.next().map(|first| format!("{}{}.", first.to_uppercase(), letters.as_str()));
    let mut outcome = failed(skill, Some(site.slug.as_str()), words.unwrap_or_default());
    if matches!(refusal, Error::WhichVariant { .. }) {
        outcome.ending = Ending::InputRequired;
        outcome.missing = vec!["variant_id"];
    }
    outcome
}

/// Search results with their stock.
pub fn found(site: &Site, base: &str, words: &str, products: &[Stocked<'_>], total: u64) -> SkillReply {
    let is_all = matches!(crate::Query::read(words), crate::Query::All);
    let what = if is_all { String::new() } else { format!(" for \"{words}\"") };
    let listed = products.iter().take(5).map(|one| {
        let product = one.product;
        format!("{} ({})", product.name, site.currency.say(lowest(product)))
    });
    let listed = listed.collect::<Vec<_>>().join(", ");
    let text = match total {
        0 if is_all => format!("{} sells nothing yet.", site.title),
        0 => format!("{} has nothing{what}.", site.title),
        1 => format!("{} has one product{what}: {listed}.", site.title),
        n @ 2..=5 => format!("{} has {n} products{what}: {listed}.", site.title),
        n => format!("{} has {n} products{what}: {listed}, and {} more.", site.title, n - 5),
    };
    let data = json!({
        "store": view::store(site),
        "query": words,
        "products": products.iter().map(|one| view::product(site, base, one)).collect::<Vec<_>>(),
        "total": total,
    });
    SkillReply::of(StoreSkill::ProductSearch, site, Ending::Completed, text, data)
}

fn lowest(product: &Product) -> Minor {
    product.variants.iter().map(|variant| product.price_of(variant)).min().unwrap_or(product.price)
}

pub fn info(site: &Site, products: u64) -> SkillReply {
    let text = match products {
        1 => format!("{} sells one product.", site.title),
        n => format!("{} sells {n} products.", site.title),
    };
    let mut data = view::store(site);
    if let Value::Object(members) = &mut data {
        members.insert("product_count".to_owned(), products.into());
    }
    SkillReply::of(StoreSkill::StoreInfo, site, Ending::Completed, text, data)
}

/// An order, with media and downloads of its products.
pub fn order(site: &Site, order: &Order, products: &[Product]) -> SkillReply {
    let sum = order.currency.say(order.totals.total);
    let text = format!("Order {} over {sum} is {}.", order.id, order.state.name().replace('_', " "));
    SkillReply::of(StoreSkill::OrderStatus, site, Ending::Completed, text, view::order(order, products))
}

/// A checkout that is not completed and so has no order.
pub fn not_completed(site: &Site, session: &Session) -> SkillReply {
    let words = match session.status {
        crate::SessionStatus::Open => "This checkout is not completed yet; open its complete_url to do so.".to_owned(),
        crate::SessionStatus::Completed | crate::SessionStatus::Cancelled | crate::SessionStatus::Expired => {
            format!("This checkout is {}, and nothing was ordered.", session.status.name())
        }
    };
    failed(StoreSkill::OrderStatus, Some(site.slug.as_str()), words)
}

/// How to buy a product with a payment over HTTP. Nothing is reserved.
pub fn purchase(site: &Site, product: &Product, variant: &Variant, quantity: u32, url: &str) -> SkillReply {
    let price = product.price_of(variant);
    let sum = Minor(price.0.saturating_mul(i64::from(quantity)));
    let text = format!(
        "To buy {quantity} of {} for {}, request {url} and pay as its 402 answer says. Send the payment to go on.",
        product.name,
        site.currency.say(sum)
    );
    let data = json!({
        "resource_url": url,
        "protocol": "x402",
        "quantity": quantity,
        "product_id": product.id,
        "variant_id": variant.id,
        "price": view::money(site, price),
        "total": view::money(site, sum),
        "instructions": "GET resource_url; it answers 402 with accepts[]. Pay one of them and repeat the request with the X-PAYMENT header; where accepts[] is empty the store takes no such payments, and cart-management and checkout are the way to buy.",
    });
    let mut outcome = SkillReply::of(StoreSkill::X402Purchase, site, Ending::InputRequired, text, data);
    outcome.missing = vec!["payment"];
    outcome
}

/// The cart after an action; `did` describes the action.
pub fn cart(site: &Site, cart: &Cart, token: &CartToken, totals: &Totals, did: &str) -> SkillReply {
    let pieces: u64 = cart.items.iter().map(|item| u64::from(item.quantity)).sum();
    let pieces = match pieces {
        0 => "is empty".to_owned(),
        1 => format!("has 1 item for {}", cart.currency.say(totals.total)),
        n => format!("has {n} items for {}", cart.currency.say(totals.total)),
    };
    let text = format!("{did} Cart {} {pieces}.", token.as_str());
    SkillReply::of(StoreSkill::CartManagement, site, Ending::Completed, text, view::cart(cart, token, totals))
}

/// A checkout that is not completed yet, with the address of its page.
pub fn checkout(site: &Site, session: &Session, token: &str, url: &str) -> SkillReply {
    let sum = session.currency.say(session.totals.total);
    let text = format!("Your order over {sum} is set aside until {}. Complete it at {url}.", session.expires_at);
    SkillReply::of(StoreSkill::Checkout, site, Ending::Completed, text, view::session(session, Some((token, url))))
}
