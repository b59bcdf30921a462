//! Runs a skill of the store agent: one message, one skill.

use model::Part;
use shop_rules::reply::{self, SkillReply};
use shop_rules::{CartPlan, Site, SkillPlan, SkillRequest, Slug, StoreSkill, intent, skill};

use crate::service::carts::CartChange;
use crate::service::{Bought, Error, Once, Search, Shop, ShopEntity, WorkspaceCaller};

impl Shop {
    /// Checks the permission of a request before a task exists. `None` is a caller without a credential.
    pub fn admit(caller: Option<&WorkspaceCaller>, parts: &[Part]) -> Result<SkillRequest, Error> {
        let request = intent::read(parts)?;
        Shop::may(caller, &request)?;
        Ok(request)
    }

    pub(crate) fn may(caller: Option<&WorkspaceCaller>, request: &SkillRequest) -> Result<(), Error> {
        match (request.skill.and_then(StoreSkill::scope), caller) {
            (None, _) => Ok(()),
            (Some(scope), None) => Err(Error::Unauthenticated(scope)),
            (Some(scope), Some(caller)) if caller.may(scope) => Ok(()),
            (Some(scope), Some(_)) => Err(Error::Scope(scope)),
        }
    }

    /// Runs the skill of a request. A missing permission is an error; all else that fails is a reply. With `once`, a repeat
    /// creates nothing a second time.
    pub async fn run_skill(
        &self,
        caller: Option<&WorkspaceCaller>,
        request: &SkillRequest,
        once: Option<Once>,
    ) -> Result<SkillReply, Error> {
        Shop::may(caller, request)?;
        let plan = skill::plan(request);
        let (slug, skill) = match &plan {
            SkillPlan::Answer(outcome) => return Ok((**outcome).clone()),
            SkillPlan::Search { site, .. } => (site, StoreSkill::ProductSearch),
            SkillPlan::Info { site } => (site, StoreSkill::StoreInfo),
            SkillPlan::Order { site, .. } => (site, StoreSkill::OrderStatus),
            SkillPlan::Purchase { site, .. } => (site, StoreSkill::X402Purchase),
            SkillPlan::Cart { site, .. } => (site, StoreSkill::CartManagement),
            SkillPlan::Checkout { site, .. } => (site, StoreSkill::Checkout),
        };
        let slug = slug.clone();
        let site = match self.site(&slug).await {
            Ok(site) => site,
            Err(Error::Unknown(ShopEntity::Site)) => {
                let words = format!("There is no store {slug:?}; check its site_slug.", slug = slug.as_str());
                return Ok(reply::failed(skill, Some(slug.as_str()), words));
            }
            Err(refused) => return Err(refused),
        };
        // The scope to write orders counts in the caller's own workspace only.
        if skill.scope().is_some() && caller.is_some_and(|caller| caller.workspace != site.workspace) {
            let words = "Your credential belongs to another workspace than this store; use one of the store's.";
            return Ok(reply::failed(skill, Some(slug.as_str()), words));
        }
        match self.run_plan(caller, &site, plan, once).await {
            Ok(outcome) => Ok(outcome),
            Err(Error::Rule(refusal)) => Ok(reply::refused(skill, &site, &refusal)),
            Err(Error::Unknown(what)) => {
                let words = match what {
                    ShopEntity::Cart => reply::NO_CART.to_owned(),
                    ShopEntity::Order => reply::NO_ORDER.to_owned(),
                    ShopEntity::Product => {
                        "There is no such product at this store; product-search tells their ids.".to_owned()
                    }
                    ShopEntity::Site | ShopEntity::Session => format!("There is no such {}.", what.name()),
                };
                Ok(reply::failed(skill, Some(slug.as_str()), words))
            }
            Err(refused @ Error::TooManyCarts) => Ok(reply::failed(skill, Some(slug.as_str()), refused.to_string())),
            Err(refused) => Err(refused),
        }
    }

    async fn run_plan(
        &self,
        caller: Option<&WorkspaceCaller>,
        site: &Site,
        plan: SkillPlan,
        once: Option<Once>,
    ) -> Result<SkillReply, Error> {
        match plan {
            SkillPlan::Answer(outcome) => Ok(*outcome),
            SkillPlan::Search { site: slug, words, query } => {
                let found = self.search(&slug, &Search { query, ..Search::of("*") }).await?;
                let stocked: Vec<_> = found.goods.iter().map(crate::service::Goods::stocked).collect();
                // A search without conditions always has a total.
                let total = found.total.unwrap_or(stocked.len() as u64);
                Ok(reply::found(site, &self.url(""), &words, &stocked, total))
            }
            SkillPlan::Info { site: slug } => Ok(reply::info(site, self.product_count(&slug).await?)),
            SkillPlan::Order { token, .. } => match self.order(&token).await? {
                // An order of another store is not found.
                Bought::Order { order, .. } if order.site != site.slug => Err(Error::Unknown(ShopEntity::Order)),
                Bought::NotYet(session) if session.site != site.slug => Err(Error::Unknown(ShopEntity::Order)),
                Bought::Order { order, products } => Ok(reply::order(site, &order, &products)),
                Bought::NotYet(session) => Ok(reply::not_completed(site, &session)),
            },
            SkillPlan::Purchase { site: slug, product, which, quantity } => {
                let goods = self.product(&slug, &product).await?;
                let variant = goods.product.variant(&which)?;
                let place = goods.product.variants.iter().position(|known| known.id == variant.id);
                if let Some(Some(left)) = place.and_then(|place| goods.left.get(place))
                    && *left < u64::from(quantity)
                {
                    let what = goods.product.name.to_string();
                    return Err(shop_rules::Error::OutOfStock { what, left: *left }.into());
                }
                let path = format!("/api/x402/product/{slug}/{product}?quantity={quantity}");
                Ok(reply::purchase(site, &goods.product, variant, quantity, &self.url(&path)))
            }
            SkillPlan::Cart { site: slug, act } => self.cart_skill(caller, site, &slug, act, once).await,
            SkillPlan::Checkout { site: slug, cart, email } => {
                if let Some(address) = email {
                    // For a repeat the cart is in its checkout and cannot change.
                    let change = CartChange::Email { address };
                    match self.change_cart(&slug, &cart, &change, None).await {
                        Ok(_) | Err(Error::Rule(shop_rules::Error::CartInCheckout)) => {}
                        Err(refused) => return Err(refused),
                    }
                }
                let begun = self.checkout(&slug, &cart, once).await?;
                Ok(reply::checkout(site, &begun.session, begun.token.as_str(), &begun.complete_url))
            }
        }
    }

    async fn cart_skill(
        &self,
        caller: Option<&WorkspaceCaller>,
        site: &Site,
        slug: &Slug,
        act: CartPlan,
        once: Option<Once>,
    ) -> Result<SkillReply, Error> {
        let (token, change, did) = match act {
            CartPlan::Create => {
                let held = self.create_cart(caller, slug, once).await?;
                return Ok(reply::cart(site, &held.cart, &held.token, &held.totals, "Created."));
            }
            CartPlan::Get(token) => {
                let held = self.cart(slug, &token).await?;
                return Ok(reply::cart(site, &held.cart, &held.token, &held.totals, "Here it is."));
            }
            CartPlan::Add { cart, product, which, quantity } => {
                (cart, CartChange::Add { product, which, quantity }, "Added.")
            }
            CartPlan::Update { cart, product, variant, quantity } => {
                (cart, CartChange::Update { product, variant, quantity }, "Changed.")
            }
            CartPlan::Remove { cart, product, variant } => (cart, CartChange::Remove { product, variant }, "Removed."),
            CartPlan::Clear(cart) => (cart, CartChange::Clear, "Emptied."),
            CartPlan::Coupon { cart, code } => (cart, CartChange::Coupon { code }, "The coupon is applied."),
        };
        let held = self.change_cart(slug, &token, &change, once).await?;
        Ok(reply::cart(site, &held.cart, &held.token, &held.totals, did))
    }
}
