//! Search. The store's index finds words and tags; stock and price of the found products are checked afterwards, until the page
//! is full or a number of products is checked: then the page ends early, and the next one continues there.
//!
//! The index has neither stock nor price. Stock changes with every checkout, sale and expiry: in the index, every sale would
//! write to it, and two sales of one product would wait for each other. A price would need an index of ranges. The example
//! `shop_search` measures the cost of the check.

use std::sync::Arc;

use ledger::records::read_fault;
use model::{TextPlace, TextQuery};
use shop_rules::{Minor, ProductId, Query, Slug};

use crate::service::catalogue::{MOST_AT_ONCE, shelf};
use crate::service::{Error, Goods, Shop};

/// Most products that one search with conditions checks.
pub const LOOKED_AT: usize = 1_000;

/// The conditions of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    pub query: Query,
    pub tag: Option<String>,
    pub in_stock: Option<bool>,
    pub price_min: Option<Minor>,
    pub price_max: Option<Minor>,
    /// 1 to 100.
    pub limit: u32,
    /// The cursor of the previous page.
    pub cursor: Option<String>,
}

impl Search {
    pub fn of(words: &str) -> Search {
        let query = Query::read(words);
        Search { query, tag: None, in_stock: None, price_min: None, price_max: None, limit: 20, cursor: None }
    }

    fn is_plain(&self) -> bool {
        self.in_stock.is_none() && self.price_min.is_none() && self.price_max.is_none()
    }

    fn admits(&self, goods: &Goods) -> bool {
        let prices = goods.product.variants.iter().map(|variant| goods.product.price_of(variant));
        let (least, most) = (self.price_min.unwrap_or(Minor::ZERO), self.price_max.unwrap_or(Minor(i64::MAX)));
        let mut prices = prices.filter(|price| (least..=most).contains(price));
        prices.next().is_some() && self.in_stock.is_none_or(|wanted| goods.stocked().in_stock() == wanted)
    }
}

/// A page of search results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchPage {
    pub goods: Vec<Goods>,
    /// Number of all matches, if known: with conditions on stock or price only if this page has all of them.
    pub total: Option<u64>,
    /// Where the next page begins, if there may be one. With conditions a page may be short or empty although more pages
    /// follow.
    pub cursor: Option<String>,
}

fn written(place: &TextPlace) -> String {
    format!("{}.{}", u8::from(place.elsewhere), place.id)
}

/// The cursor after a product.
fn place_of(found: &[TextPlace], goods: &Goods) -> Option<String> {
    found.iter().find(|place| place.id == goods.product.id.0).map(written)
}

fn read(cursor: &str) -> Option<TextPlace> {
    let (tier, id) = cursor.split_once('.')?;
    let elsewhere = match tier {
        "0" => false,
        "1" => true,
        _ => return None,
    };
    Some(TextPlace { elsewhere, id: id.into() })
}

impl Shop {
    /// Searches products of a site: first those with all words in name or subtitle, then the others, each by id.
    pub async fn search(&self, site: &Slug, search: &Search) -> Result<SearchPage, Error> {
        let query = match &search.tag {
            Some(tag) => search.query.clone().tagged(tag),
            None => search.query.clone(),
        };
        let words = match query {
            Query::Nothing => return Ok(SearchPage { goods: Vec::new(), total: Some(0), cursor: None }),
            Query::All => String::new(),
            Query::Words(words) => words.join(" "),
        };
        let after = match &search.cursor {
            None => None,
            Some(cursor) => Some(read(cursor).ok_or_else(|| {
                let says = "is not one that a page of this list has told".to_owned();
                Error::Rule(shop_rules::Error::Field { field: "cursor", says })
            })?),
        };
        let limit = (search.limit.clamp(1, MOST_AT_ONCE as u32)) as usize;
        let shelf = shelf(site);
        if search.is_plain() {
            let query = TextQuery { shelf, words, after, limit: limit as u32, count: true };
            let page = self.engine().store().search(query).await.map_err(read_fault)?;
            let cursor = page.more.then(|| page.found.last().map(written)).flatten();
            let goods = self.goods_of(site, &page.found).await?;
            return Ok(SearchPage { goods, total: page.total, cursor });
        }
        self.search_checked(site, search, &words, after, limit).await
    }

    /// Searches with conditions on stock or price: checks the products that the words find, from a place on.
    async fn search_checked(
        &self,
        site: &Slug,
        search: &Search,
        words: &str,
        after: Option<TextPlace>,
        limit: usize,
    ) -> Result<SearchPage, Error> {
        let (shelf, is_first) = (shelf(site), after.is_none());
        let (mut fits, mut place) = (Vec::new(), after);
        // Often most of them match; if few do, larger pages are read.
        let (mut looked_at, mut at_once) = (0, limit);
        let cursor = loop {
            let most = at_once.min(LOOKED_AT - looked_at) as u32;
            let query =
                TextQuery { shelf: shelf.clone(), words: words.to_owned(), after: place, limit: most, count: false };
            let page = self.engine().store().search(query).await.map_err(read_fault)?;
            looked_at += page.found.len();
            let goods = self.goods_of(site, &page.found).await?;
            let mut admitted = goods.into_iter().filter(|goods| search.admits(goods));
            fits.extend(admitted.by_ref().take(limit - fits.len()));
            if admitted.next().is_some() {
                break fits.last().map(|last: &Goods| place_of(&page.found, last)).unwrap_or_default();
            }
            // All products of this page are taken or do not match: the next page begins after it.
            place = page.found.last().cloned();
            let Some(last) = place.as_ref().filter(|_| page.more) else { break None };
            if fits.len() == limit || looked_at >= LOOKED_AT {
                break Some(written(last));
            }
            at_once = (at_once * 2).min(MOST_AT_ONCE);
        };
        let total = (is_first && cursor.is_none()).then_some(fits.len() as u64);
        Ok(SearchPage { goods: fits, total, cursor })
    }

    async fn goods_of(&self, site: &Slug, found: &[TextPlace]) -> Result<Vec<Goods>, Error> {
        let ids: Vec<ProductId> = found.iter().map(|place| ProductId(Arc::clone(&place.id))).collect();
        self.products(site, &ids).await
    }
}
