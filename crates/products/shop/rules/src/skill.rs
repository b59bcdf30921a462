//! The six skills of a store agent: their inputs, scopes and answers.
//!
//! [`plan`] turns a request into a lookup, a change, or a question that names the missing facts. The service performs it, and
//! [`reply`](crate::reply) makes a text and an artifact of the result.

use model::Part;

use crate::intent::{self, SkillRequest, SkillRequestError};
use crate::product::VariantChoice;
use crate::reply::{self, SkillReply};
use crate::{CartToken, ConfirmationToken, ProductId, Query, Slug, VariantId, coupon};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoreSkill {
    ProductSearch,
    StoreInfo,
    OrderStatus,
    X402Purchase,
    CartManagement,
    Checkout,
}

/// The scope to change carts and check them out.
pub const WRITE_ORDERS: &str = "write:orders";

impl StoreSkill {
    pub const ALL: [StoreSkill; 6] = [
        StoreSkill::ProductSearch,
        StoreSkill::StoreInfo,
        StoreSkill::OrderStatus,
        StoreSkill::X402Purchase,
        StoreSkill::CartManagement,
        StoreSkill::Checkout,
    ];

    pub fn name(self) -> &'static str {
        match self {
            StoreSkill::ProductSearch => "product-search",
            StoreSkill::StoreInfo => "store-info",
            StoreSkill::OrderStatus => "order-status",
            StoreSkill::X402Purchase => "x402-purchase",
            StoreSkill::CartManagement => "cart-management",
            StoreSkill::Checkout => "checkout",
        }
    }

    /// Finds a skill by its name, with hyphens or underscores.
    pub fn from_name(name: &str) -> Option<StoreSkill> {
        let name = name.trim().to_lowercase().replace('_', "-");
        StoreSkill::ALL.into_iter().find(|skill| skill.name() == name)
    }

    pub(crate) fn names() -> String {
        StoreSkill::ALL.map(StoreSkill::name).join(", ")
    }

    /// The scope it needs; `None` is open to all callers.
    pub fn scope(self) -> Option<&'static str> {
        match self {
            StoreSkill::ProductSearch | StoreSkill::StoreInfo | StoreSkill::OrderStatus | StoreSkill::X402Purchase => {
                None
            }
            StoreSkill::CartManagement | StoreSkill::Checkout => Some(WRITE_ORDERS),
        }
    }

    /// The name of its artifact.
    pub fn artifact(self) -> &'static str {
        match self {
            StoreSkill::ProductSearch => "search_results",
            StoreSkill::StoreInfo => "store_info",
            StoreSkill::OrderStatus => "order_status",
            StoreSkill::X402Purchase => "x402_purchase_info",
            StoreSkill::CartManagement => "cart",
            StoreSkill::Checkout => "checkout",
        }
    }

    /// Title, description and example message for cards; `{site_slug}` stands for the store's slug.
    pub fn says(self) -> (&'static str, &'static str, &'static str) {
        match self {
            StoreSkill::ProductSearch => {
                ("Product search", "Finds products of a store by their words", "Search for hats on store {site_slug}.")
            }
            StoreSkill::StoreInfo => {
                ("Store info", "Tells what a store is and where else to find it", "Tell me about store {site_slug}.")
            }
            StoreSkill::OrderStatus => (
                "Order status",
                "Tells what has become of an order, by its confirmation token",
                "What is the status of order conf_... at store {site_slug}?",
            ),
            StoreSkill::X402Purchase => (
                "Purchase by x402",
                "Tells where and how a product is bought with an HTTP 402 payment",
                "Buy 2 of product prod_hat on store {site_slug} with x402.",
            ),
            StoreSkill::CartManagement => (
                "Cart management",
                "Creates a cart, looks at it and changes what is in it; needs write:orders",
                "Create a cart on store {site_slug}.",
            ),
            StoreSkill::Checkout => (
                "Checkout",
                "Sets the goods of a cart aside and tells where to complete the order; needs write:orders",
                "Check out cart cart_... on store {site_slug}.",
            ),
        }
    }

    /// The example message with a store's slug.
    pub fn example(self, slug: &str) -> String {
        self.says().2.replace("{site_slug}", slug)
    }
}

/// An action on a cart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CartAction {
    Create,
    Get,
    Add,
    Update,
    Remove,
    Clear,
    ApplyCoupon,
}

impl CartAction {
    pub const ALL: [CartAction; 7] = [
        CartAction::Create,
        CartAction::Get,
        CartAction::Add,
        CartAction::Update,
        CartAction::Remove,
        CartAction::Clear,
        CartAction::ApplyCoupon,
    ];

    pub fn name(self) -> &'static str {
        match self {
            CartAction::Create => "create",
            CartAction::Get => "get",
            CartAction::Add => "add",
            CartAction::Update => "update",
            CartAction::Remove => "remove",
            CartAction::Clear => "clear",
            CartAction::ApplyCoupon => "apply-coupon",
        }
    }

    pub fn from_name(name: &str) -> Option<CartAction> {
        let name = name.trim().to_lowercase().replace('_', "-");
        let name = match &*name {
            "view" | "show" | "read" => "get",
            "add-item" | "add-to-cart" => "add",
            "update-item" | "set" => "update",
            "remove-item" | "delete" => "remove",
            "empty" => "clear",
            "coupon" | "apply-code" => "apply-coupon",
            name => name,
        };
        CartAction::ALL.into_iter().find(|action| action.name() == name)
    }

    pub(crate) fn names() -> String {
        CartAction::ALL.map(CartAction::name).join(", ")
    }
}

/// The scope that a message needs, if any: known before a task exists. A message whose structured part cannot be read is
/// refused.
pub fn needs(parts: &[Part]) -> Result<Option<&'static str>, SkillRequestError> {
    Ok(intent::read(parts)?.skill.and_then(StoreSkill::scope))
}

/// The work that a request needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SkillPlan {
    Search {
        site: Slug,
        words: String,
        query: Query,
    },
    Info {
        site: Slug,
    },
    Order {
        site: Slug,
        token: ConfirmationToken,
    },
    Purchase {
        site: Slug,
        product: ProductId,
        which: VariantChoice,
        quantity: u32,
    },
    Cart {
        site: Slug,
        act: CartPlan,
    },
    Checkout {
        site: Slug,
        cart: CartToken,
        email: Option<String>,
    },
    /// No work: the reply is complete.
    Answer(Box<SkillReply>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CartPlan {
    Create,
    Get(CartToken),
    Add { cart: CartToken, product: ProductId, which: VariantChoice, quantity: u32 },
    Update { cart: CartToken, product: ProductId, variant: Option<VariantId>, quantity: u32 },
    Remove { cart: CartToken, product: ProductId, variant: Option<VariantId> },
    Clear(CartToken),
    Coupon { cart: CartToken, code: String },
}

/// Plans a request, or the question to ask.
pub fn plan(request: &SkillRequest) -> SkillPlan {
    match planned(request) {
        Ok(plan) => plan,
        Err(outcome) => SkillPlan::Answer(outcome),
    }
}

/// The field that a request lacks, where the answer to it is a question.
pub(crate) fn missing(request: &SkillRequest) -> Option<&'static str> {
    match planned(request) {
        Err(outcome) if outcome.ending == reply::Ending::InputRequired => outcome.missing.first().copied(),
        Err(_) | Ok(_) => None,
    }
}

fn planned(request: &SkillRequest) -> Result<SkillPlan, Box<SkillReply>> {
    let Some(skill) = request.skill else { return Err(Box::new(reply::help(request))) };
    let ask = |field: &'static str, question: &str| Box::new(reply::ask(skill, request, field, question));
    let fail = |words: String| Box::new(reply::failed(skill, request.site_slug.as_deref(), words));
    let site = || match request.site_slug.as_deref() {
        None => Err(ask("site_slug", "Which store do you mean? Send its site_slug, or write \"on store <slug>\".")),
        Some(slug) => Slug::check(slug).map_err(|refusal| fail(format!("site_slug {slug:?}: {refusal}."))),
    };
    let cart = || match request.cart_token.as_deref() {
        None => Err(ask("cart_token", "Which cart do you mean? Send its cart_token, or create a cart first.")),
        Some(token) => CartToken::read(token).ok_or_else(|| fail(reply::NO_CART.to_owned())),
    };
    let product = || match request.product_id.as_deref() {
        None => Err(ask("product_id", "Which product do you mean? Send its product_id; product-search tells it.")),
        Some(id) => ProductId::check(id).map_err(|refusal| fail(format!("product_id {id:?}: {refusal}."))),
    };
    let variant = || match request.variant_id.as_deref() {
        None => Ok(None),
        Some(id) => VariantId::check(id).map(Some).map_err(|refusal| fail(format!("variant_id {id:?}: {refusal}."))),
    };
    let quantity = |least: i64, unsaid: Option<i64>| match request.quantity.or(unsaid) {
        None => Err(ask("quantity", "How many? Send a quantity; 0 takes the product out of the cart.")),
        Some(n) => match u32::try_from(n) {
            Ok(n) if i64::from(n) >= least && n <= crate::cart::MAX_QUANTITY => Ok(n),
            Ok(_) | Err(_) => {
                let most = crate::cart::MAX_QUANTITY;
                Err(ask("quantity", &format!("{n} cannot be; send a quantity between {least} and {most}.")))
            }
        },
    };
    let which = || Ok::<_, Box<SkillReply>>(VariantChoice { id: variant()?, options: request.variant_options.clone() });
    match skill {
        StoreSkill::ProductSearch => {
            let site = site()?;
            let words = request.query.clone().unwrap_or_else(|| "*".to_owned());
            Ok(SkillPlan::Search { site, query: Query::read(&words), words })
        }
        StoreSkill::StoreInfo => Ok(SkillPlan::Info { site: site()? }),
        StoreSkill::OrderStatus => {
            let site = site()?;
            let question = "Which order do you mean? Send its confirmation_token; the checkout told it.";
            let token = request.confirmation_token.as_deref().ok_or_else(|| ask("confirmation_token", question))?;
            let token = ConfirmationToken::read(token).ok_or_else(|| fail(reply::NO_ORDER.to_owned()))?;
            Ok(SkillPlan::Order { site, token })
        }
        StoreSkill::X402Purchase => Ok(SkillPlan::Purchase {
            site: site()?,
            product: product()?,
            which: which()?,
            quantity: quantity(1, Some(1))?,
        }),
        StoreSkill::CartManagement => {
            let site = site()?;
            let question = format!("What shall be done with the cart? Send an action: {}.", CartAction::names());
            let act = match request.action.ok_or_else(|| ask("action", &question))? {
                CartAction::Create => CartPlan::Create,
                CartAction::Get => CartPlan::Get(cart()?),
                CartAction::Add => CartPlan::Add {
                    cart: cart()?,
                    product: product()?,
                    which: which()?,
                    quantity: quantity(1, Some(1))?,
                },
                CartAction::Update => CartPlan::Update {
                    cart: cart()?,
                    product: product()?,
                    variant: variant()?,
                    quantity: quantity(0, None)?,
                },
                CartAction::Remove => CartPlan::Remove { cart: cart()?, product: product()?, variant: variant()? },
                CartAction::Clear => CartPlan::Clear(cart()?),
                CartAction::ApplyCoupon => {
                    let cart = cart()?;
                    let question = "Which coupon? Send its code.";
                    let code = request.code.as_deref().ok_or_else(|| ask("code", question))?;
                    let code = coupon::code(code).map_err(|refusal| fail(format!("code {code:?}: {refusal}.")))?;
                    CartPlan::Coupon { cart, code: code.to_string() }
                }
            };
            Ok(SkillPlan::Cart { site, act })
        }
        StoreSkill::Checkout => Ok(SkillPlan::Checkout { site: site()?, cart: cart()?, email: request.email.clone() }),
    }
}
