//! The shops in the admin API: sites, orders, open carts and stock.
//!
//! A workspace is a tenant: a caller of one tenant sees the sites of its workspace alone. Buyers' names and addresses,
//! tokens and the references of payments are in no answer.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gateway::GatewayVersion;
use gateway::admin_api::{ApiContext, ApiProblem, ApiRoute, USUAL_PAGE, json, limit, ok, param};
use model::Time;
use schemars::JsonSchema;
use serde::Serialize;
use shop_rules::{Cart, Currency, Item, Minor, Order, OrderId, OrderState, Product, Site, Slug};
use web::body::Response;
use web::openapi::{ParamKind, QueryParam};

use crate::ShopService;
use crate::admin::operator_fault;
use crate::service::{Error, ListPlace, OrderFilter, Shop, Stock};

/// The pages of the console.
pub(crate) static PAGES: [&str; 1] = ["shop"];

fn states() -> Vec<&'static str> {
    OrderState::ALL.map(OrderState::name).into()
}

const CURSOR: QueryParam =
    param("cursor", "The `next` of the page before, with the same filters.", ParamKind::Text { most: 1_024 });
const ORDERS: &[QueryParam] = &[
    param("site", "Only orders of this site.", ParamKind::Text { most: 64 }),
    param("state", "Only orders in this state.", ParamKind::OneOf(states)),
    limit(),
    CURSOR,
];
const PAGES_OF_SITE: &[QueryParam] = &[limit(), CURSOR];

pub(crate) static ROUTES: [ApiRoute; 5] = [
    ApiRoute::get("/sites", "The sites of shops", json::<SiteList>(), |context| Box::pin(sites(context))),
    ApiRoute::get("/sites/{slug}/carts", "Open carts of a site, newest first", json::<CartList>(), |context| {
        Box::pin(carts(context))
    })
    .query(PAGES_OF_SITE),
    ApiRoute::get("/sites/{slug}/stock", "Products of a site with their stock", json::<StockList>(), |context| {
        Box::pin(stock(context))
    })
    .query(PAGES_OF_SITE),
    ApiRoute::get("/orders", "Orders, newest first", json::<OrderList>(), |context| Box::pin(orders(context)))
        .query(ORDERS),
    ApiRoute::get("/orders/{id}", "An order", json::<ShownOrder>(), |context| Box::pin(order(context))),
];

/// Whether this server has shops.
pub(crate) fn has_shops(server: &GatewayVersion) -> bool {
    ShopService::settings(server).is_some_and(|settings| settings.shop.is_some())
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Site")]
struct ListedSite {
    slug: String,
    /// The tenant that it belongs to.
    workspace: String,
    title: String,
    currency: String,
    products: u64,
    open_carts: u64,
    created_at: String,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Sites")]
struct SiteList {
    sites: Vec<ListedSite>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ShopItem")]
struct ShownItem {
    product: String,
    variant: String,
    name: String,
    quantity: u32,
    /// Of one, with the currency.
    price: String,
    /// In an order: the quantity that was sent.
    sent: Option<u32>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Cart")]
struct ShownCart {
    /// `active`, or `checkout` where its stock is reserved.
    status: String,
    items: Vec<ShownItem>,
    /// The sum of its items.
    subtotal: String,
    coupon: Option<String>,
    created_at: String,
    updated_at: String,
    expires_at: String,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Carts")]
struct CartList {
    carts: Vec<ShownCart>,
    /// The `cursor` of the next page; null on the last one.
    next: Option<String>,
}

/// The stock of one variant. Its numbers are null where it is not counted.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "StockLine")]
struct StockLine {
    product: String,
    name: String,
    variant: String,
    /// Such as `Size L`.
    options: String,
    sku: Option<String>,
    price: String,
    available: Option<i64>,
    /// In checkouts.
    reserved: Option<i64>,
    sold: Option<i64>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Stock")]
struct StockList {
    stock: Vec<StockLine>,
    /// The `cursor` of the next page; null on the last one.
    next: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Order")]
struct ShownOrder {
    id: String,
    site: String,
    /// The tenant that the site belongs to.
    workspace: String,
    state: String,
    items: Vec<ShownItem>,
    coupon: Option<String>,
    subtotal: String,
    shipping: String,
    tax: String,
    discount: String,
    total: String,
    /// How it was paid.
    method: String,
    created_at: String,
    updated_at: String,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Orders")]
struct OrderList {
    orders: Vec<ShownOrder>,
    /// The `cursor` of the next page; null on the last one. A page may be short, or empty, although more follow.
    next: Option<String>,
}

fn shop<'a>(context: &'a ApiContext<'_>) -> Option<&'a Shop> {
    ShopService::settings(context.server())?.shop.as_ref()
}

fn refused(error: Error) -> ApiProblem {
    operator_fault(error).into()
}

fn read_cursor(context: &ApiContext<'_>) -> Result<Option<ListPlace>, ApiProblem> {
    let read = |text: &str| {
        let text = String::from_utf8(URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
        let (rank, key) = text.split_once('\n')?;
        Some((rank.parse().ok()?, key.into()))
    };
    let wrong = || ApiProblem::field("cursor", "is not one of this list; start again without it");
    context.http.query_param("cursor").map(|text| read(text).ok_or_else(wrong)).transpose()
}

fn write_cursor(place: Option<ListPlace>) -> Option<String> {
    place.map(|(rank, key)| URL_SAFE_NO_PAD.encode(format!("{rank}\n{key}")))
}

/// The site that the path names, and the shops, if the caller sees it.
async fn site_of<'a>(context: &'a ApiContext<'_>) -> Result<(&'a Shop, Site), ApiProblem> {
    let missing = || ApiProblem::missing("there is no such site");
    let shop = shop(context).ok_or_else(missing)?;
    let slug = Slug::check(context.http.id()).map_err(|_| missing())?;
    let site = match shop.site(&slug).await {
        Ok(site) => site,
        Err(Error::Unknown(_)) => return Err(missing()),
        Err(error) => return Err(refused(error)),
    };
    if context.sees(site.workspace.as_str()) { Ok((shop, site)) } else { Err(missing()) }
}

async fn sites(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let mut sites = Vec::new();
    if let Some(shop) = shop(context) {
        let own = context.tenant().map(|tenant| shop_rules::WorkspaceId(tenant.into()));
        for site in shop.sites(own.as_ref()).await.map_err(refused)? {
            sites.push(ListedSite {
                products: shop.product_count(&site.slug).await.map_err(refused)?,
                open_carts: shop.open_carts(&site.slug).await.map_err(refused)?,
                slug: site.slug.to_string(),
                workspace: site.workspace.to_string(),
                title: site.title.to_string(),
                currency: site.currency.code().to_owned(),
                created_at: site.created_at.to_string(),
            });
        }
    }
    ok(&SiteList { sites })
}

fn shown_item(currency: &Currency, item: &Item, sent: Option<u32>) -> ShownItem {
    ShownItem {
        product: item.product.to_string(),
        variant: item.variant.to_string(),
        name: item.name.to_string(),
        quantity: item.quantity,
        price: currency.say(item.price),
        sent,
    }
}

impl ShownCart {
    fn of(cart: &Cart) -> ShownCart {
        let line = |item: &Item| item.price.0.saturating_mul(i64::from(item.quantity));
        let subtotal = cart.items.iter().fold(0_i64, |sum, item| sum.saturating_add(line(item)));
        ShownCart {
            status: cart.status.name().to_owned(),
            items: cart.items.iter().map(|item| shown_item(&cart.currency, item, None)).collect(),
            subtotal: cart.currency.say(Minor(subtotal)),
            coupon: cart.coupon.as_ref().map(|coupon| coupon.code.to_string()),
            created_at: cart.created_at.to_string(),
            updated_at: cart.updated_at.to_string(),
            expires_at: cart.expires_at.to_string(),
        }
    }
}

async fn carts(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let after = read_cursor(context)?;
    let (shop, site) = site_of(context).await?;
    let page = shop.carts_page(&site.slug, after, context.number("limit", USUAL_PAGE)).await.map_err(refused)?;
    ok(&CartList { carts: page.rows.iter().map(ShownCart::of).collect(), next: write_cursor(page.next) })
}

fn stock_lines(site: &Site, product: &Product, stock: &[Option<Stock>]) -> Vec<StockLine> {
    let line = |(variant, stock): (&shop_rules::Variant, &Option<Stock>)| {
        let options = variant.options.iter().map(|(name, value)| format!("{name} {value}"));
        StockLine {
            product: product.id.to_string(),
            name: product.name.to_string(),
            variant: variant.id.to_string(),
            options: options.collect::<Vec<_>>().join(", "),
            sku: variant.sku.as_deref().map(str::to_owned),
            price: site.currency.say(product.price_of(variant)),
            available: stock.map(|stock| stock.available),
            reserved: stock.map(|stock| stock.reserved),
            sold: stock.map(|stock| stock.sold),
        }
    };
    product.variants.iter().zip(stock).map(line).collect()
}

async fn stock(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let after = read_cursor(context)?;
    let (shop, site) = site_of(context).await?;
    let page = shop.stock_page(&site.slug, after, context.number("limit", USUAL_PAGE)).await.map_err(refused)?;
    let stock = page.rows.iter().flat_map(|(product, stock)| stock_lines(&site, product, stock)).collect();
    ok(&StockList { stock, next: write_cursor(page.next) })
}

impl ShownOrder {
    fn of(order: &Order) -> ShownOrder {
        let (say, at) = (|amount: Minor| order.currency.say(amount), |at: Time| at.to_string());
        ShownOrder {
            id: order.id.to_string(),
            site: order.site.to_string(),
            workspace: order.workspace.to_string(),
            state: order.state.name().to_owned(),
            items: order.lines.iter().map(|line| shown_item(&order.currency, &line.item, Some(line.sent))).collect(),
            coupon: order.coupon.as_deref().map(str::to_owned),
            subtotal: say(order.totals.subtotal),
            shipping: say(order.totals.shipping),
            tax: say(order.totals.tax),
            discount: say(order.totals.discount),
            total: say(order.totals.total),
            method: order.paid.method.to_string(),
            created_at: at(order.created_at),
            updated_at: at(order.updated_at),
        }
    }
}

async fn orders(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let after = read_cursor(context)?;
    let wrong = |_| ApiProblem::field("site", "must be the name of a site");
    let site = context.http.query_param("site").map(|name| Slug::check(name).map_err(wrong)).transpose()?;
    let state = context.http.query_param("state");
    let state = state.and_then(|name| OrderState::ALL.into_iter().find(|one| one.name() == name));
    let (mut orders, mut next) = (Vec::new(), None);
    if let Some(shop) = shop(context) {
        let filter = OrderFilter { workspace: context.tenant(), site: site.as_ref(), state };
        let limit = context.number("limit", USUAL_PAGE) as usize;
        let page = shop.orders_page(filter, after, limit).await.map_err(refused)?;
        (orders, next) = (page.rows.iter().map(ShownOrder::of).collect(), write_cursor(page.next));
    }
    ok(&OrderList { orders, next })
}

async fn order(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    let missing = || ApiProblem::missing("there is no such order");
    let shop = shop(context).ok_or_else(missing)?;
    let found = shop.order_by_id(&OrderId(context.http.id().into())).await.map_err(refused)?;
    let order = found.filter(|order| context.sees(order.workspace.as_str())).ok_or_else(missing)?;
    ok(&ShownOrder::of(&order))
}
