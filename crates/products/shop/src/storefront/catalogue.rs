//! The catalogue: stores, products, collections, search.

use std::collections::BTreeMap;

use crate::service::{Goods, Search, SearchPage};
use serde::Deserialize;
use serde_json::{Value, json};
use shop_rules::{Minor, ProductId, Site, view};

use super::Reply;
use super::context::ShopRequest;
use super::error::Error;
use super::routes::ShopHandlerFuture;

/// Most products in a batch request.
const MOST_IDS: usize = 50;
/// Pages of products that are read for their tags.
const PAGES: usize = 10;
/// Most tags in a response.
const MOST_TAGS: usize = 100;

fn shown(request: &ShopRequest<'_>, site: &Site, goods: &Goods) -> Value {
    view::product(site, &request.base(), &goods.stocked())
}

fn page(request: &ShopRequest<'_>, site: &Site, found: &SearchPage) -> Reply {
    let products: Vec<Value> = found.goods.iter().map(|goods| shown(request, site, goods)).collect();
    Reply::ok(json!({ "products": products, "total": found.total, "next_cursor": found.cursor }))
}

pub(super) fn store<'a>(request: &'a ShopRequest<'a>) -> ShopHandlerFuture<'a> {
    Box::pin(async move {
        let site = request.site(Some(request.http.path_param(0))).await?;
        let mut store = view::store(&site);
        store["product_count"] = request.shop.product_count(&site.slug).await?.into();
        Ok(Reply::ok(store))
    })
}

pub(super) fn list_of_store<'a>(request: &'a ShopRequest<'a>) -> ShopHandlerFuture<'a> {
    Box::pin(async move { listed(request, Some(request.http.path_param(0))).await })
}

pub(super) fn list<'a>(request: &'a ShopRequest<'a>) -> ShopHandlerFuture<'a> {
    Box::pin(async move { listed(request, request.param("site_slug")?).await })
}

async fn listed(request: &ShopRequest<'_>, slug: Option<&str>) -> Result<Reply, Error> {
    let site = request.site(slug).await?;
    let (tag, cursor) = (request.param("tag")?.map(str::to_owned), request.param("cursor")?.map(str::to_owned));
    let search = Search { tag, cursor, limit: request.limit()?, ..Search::of("*") };
    Ok(page(request, &site, &request.shop.search(&site.slug, &search).await?))
}

pub(super) fn search<'a>(request: &'a ShopRequest<'a>) -> ShopHandlerFuture<'a> {
    Box::pin(async move {
        let site = request.site(request.param("site_slug")?).await?;
        let price = |name| Ok::<_, Error>(request.number(name, 0, Minor::MOST.0)?.map(Minor));
        let search = Search {
            tag: request.param("tag")?.map(str::to_owned),
            cursor: request.param("cursor")?.map(str::to_owned),
            in_stock: request.flag("in_stock")?,
            price_min: price("price_min")?,
            price_max: price("price_max")?,
            limit: request.limit()?,
            ..Search::of(request.param("q")?.unwrap_or_default())
        };
        if let (Some(least), Some(most)) = (search.price_min, search.price_max)
            && least > most
        {
            return Err(Error::field("price_min", "must not be more than price_max"));
        }
        Ok(page(request, &site, &request.shop.search(&site.slug, &search).await?))
    })
}

pub(super) fn one_of_store<'a>(request: &'a ShopRequest<'a>) -> ShopHandlerFuture<'a> {
    Box::pin(async move { product(request, Some(request.http.path_param(0)), request.http.path_param(1)).await })
}

pub(super) fn one<'a>(request: &'a ShopRequest<'a>) -> ShopHandlerFuture<'a> {
    Box::pin(async move { product(request, request.param("site_slug")?, request.http.path_param(0)).await })
}

async fn product(request: &ShopRequest<'_>, slug: Option<&str>, id: &str) -> Result<Reply, Error> {
    let site = request.site(slug).await?;
    let goods = request.shop.product(&site.slug, &product_id(id)?).await?;
    Ok(Reply::ok(shown(request, &site, &goods)))
}

/// A product's id. A text that is not an id names no product.
pub(super) fn product_id(id: &str) -> Result<ProductId, Error> {
    ProductId::check(id).map_err(|_| crate::service::Error::Unknown(crate::service::ShopEntity::Product).into())
}

#[derive(Deserialize)]
struct Batch {
    #[serde(default)]
    site_slug: Option<String>,
    ids: Vec<String>,
}

pub(super) fn batch<'a>(request: &'a ShopRequest<'a>) -> ShopHandlerFuture<'a> {
    Box::pin(async move {
        let batch: Batch = request.body()?;
        if batch.ids.is_empty() || batch.ids.len() > MOST_IDS {
            return Err(Error::field("ids", format!("must be 1 to {MOST_IDS} ids of products")));
        }
        let site = request.site(batch.site_slug.as_deref()).await?;
        let ids: Vec<ProductId> = batch.ids.iter().filter_map(|id| ProductId::check(id).ok()).collect();
        let found = request.shop.products(&site.slug, &ids).await?;
        let is_there = |id: &&String| found.iter().any(|goods| goods.product.id.as_str() == **id);
        let missing: Vec<&String> = batch.ids.iter().filter(|id| !is_there(id)).collect();
        let products: Vec<Value> = found.iter().map(|goods| shown(request, &site, goods)).collect();
        Ok(Reply::ok(json!({ "products": products, "missing": missing })))
    })
}

/// The tags of products as collections. Only a limited number of products is read; `complete` says whether these were all.
pub(super) fn collections<'a>(request: &'a ShopRequest<'a>) -> ShopHandlerFuture<'a> {
    Box::pin(async move {
        let site = request.site(request.param("site_slug")?).await?;
        // Tags that differ only in case are one collection, with the first spelling as its name.
        let mut tags: BTreeMap<String, (String, u64)> = BTreeMap::new();
        let mut cursor = None;
        for _ in 0..PAGES {
            let found = request.shop.search(&site.slug, &Search { cursor, limit: 100, ..Search::of("*") }).await?;
            for tag in found.goods.iter().flat_map(|goods| &goods.product.tags) {
                tags.entry(tag.trim().to_lowercase()).or_insert_with(|| (tag.to_string(), 0)).1 += 1;
            }
            cursor = found.cursor;
            if cursor.is_none() {
                break;
            }
        }
        let complete = cursor.is_none() && tags.len() <= MOST_TAGS;
        let shown: Vec<Value> = tags
            .into_values()
            .take(MOST_TAGS)
            .map(|(tag, count)| json!({ "id": tag, "name": tag, "tag": tag, "product_count": count }))
            .collect();
        Ok(Reply::ok(json!({ "collections": shown, "complete": complete })))
    })
}
