//! The catalogue: sites, products and coupons, and their available stock.

use std::collections::HashMap;
use std::sync::Arc;

use engine::{CommitError, SideWrites};
use futures_util::future::try_join_all;
use ledger::records::read_fault;
use model::ports::store::Conflict;
use model::{Expect, TextChange};
use shop_rules::import::{self, CatalogueFormat, Counted};
use shop_rules::view::Stocked;
use shop_rules::{
    Coupon, Move, Moves, Product, ProductId, Site, Slug, StockPlace, Unit, Variant, Workspace, WorkspaceId,
};

use crate::service::records::{self, SiteHost};
use crate::service::{Error, Shop, ShopEntity, secret};

const ATTEMPTS: u32 = 16;
/// Products of an import in one commit.
const BATCH: usize = 100;
/// Most products of one read.
pub(crate) const MOST_AT_ONCE: usize = 100;
/// Rows that are read concurrently.
const READ_AT_ONCE: usize = 16;

/// A product and the available stock of each variant; `None` if the variant's stock is not counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Goods {
    pub product: Product,
    pub left: Vec<Option<u64>>,
}

impl Goods {
    pub fn stocked(&self) -> Stocked<'_> {
        Stocked { product: &self.product, left: self.left.clone() }
    }
}

/// The result of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    pub made: u64,
    pub changed: u64,
    pub coupons: u64,
}

pub(crate) fn unit(product: &Product, variant: &Variant) -> Unit {
    Unit::Variant { site: product.site.clone(), product: product.id.clone(), variant: variant.id.clone() }
}

/// The search index of a site's products.
pub(crate) fn shelf(site: &Slug) -> Arc<str> {
    model::record::joined(&["shop", site.as_str()])
}

impl Shop {
    pub async fn site(&self, slug: &Slug) -> Result<Site, Error> {
        let found = self.read(records::SITES, slug.0.clone()).await?;
        found.map(|(site, _)| site).ok_or(Error::Unknown(ShopEntity::Site))
    }

    /// The site of a host.
    pub async fn site_of_host(&self, host: &str) -> Result<Option<Site>, Error> {
        let Some((host, _)) = self.read(records::HOSTS, host.to_ascii_lowercase()).await? else { return Ok(None) };
        Ok(self.read(records::SITES, host.site.0).await?.map(|(site, _)| site))
    }

    /// The sites of a workspace, or all.
    pub async fn sites(&self, workspace: Option<&WorkspaceId>) -> Result<Vec<Site>, Error> {
        let list = match workspace {
            Some(id) => model::record::joined(&["workspace", id.as_str()]),
            None => records::ALL.into(),
        };
        let mut sites = Vec::new();
        self.walk(records::SITES, &list, |site| sites.push(site)).await?;
        Ok(sites)
    }

    /// Creates a site, with its workspace if that does not exist, or changes it. Workspace and currency cannot change.
    pub async fn put_site(&self, site: &Site) -> Result<(), Error> {
        site.check()?;
        for _ in 0..ATTEMPTS {
            let mut records = Vec::new();
            let had = self.read(records::SITES, site.slug.0.clone()).await?;
            let mut row = site.clone();
            if let Some((had, _)) = &had {
                if had.workspace != site.workspace {
                    return Err(Error::Workspace);
                }
                if had.currency != site.currency {
                    let says = format!("stays {}: there may be orders in it", had.currency);
                    return Err(shop_rules::Error::Field { field: "currency", says }.into());
                }
                row.created_at = had.created_at;
            }
            // An unchanged site is not written: every start of the server puts the sites of the config.
            if had.as_ref().is_none_or(|(had, _)| *had != row) {
                records.push(records::put_site(&row, had.as_ref().map_or(0, |(_, version)| *version)));
            }
            if self.read(records::WORKSPACES, site.workspace.0.clone()).await?.is_none() {
                let title = site.workspace.0.clone();
                let workspace = Workspace { id: site.workspace.clone(), title, created_at: self.now() };
                records.push(records::put_workspace(&workspace, 0));
            }
            for host in &site.hosts {
                let known = self.read(records::HOSTS, host.clone()).await?;
                if known.as_ref().is_some_and(|(known, _)| known.site != site.slug) {
                    let says = format!("{host} belongs to another site");
                    return Err(shop_rules::Error::Field { field: "hosts", says }.into());
                }
                if known.is_none() {
                    records.push(records::put_host(host, &SiteHost { site: site.slug.clone() }, 0));
                }
            }
            let gone = had.iter().flat_map(|(had, _)| &had.hosts).filter(|host| !site.hosts.contains(host));
            records.extend(gone.map(|host| records::HOSTS.remove(host.clone(), Expect::Any)));
            if records.is_empty() {
                return Ok(());
            }
            match self.engine().keep(SideWrites { records, ..SideWrites::default() }).await {
                Ok(()) => return Ok(()),
                Err(CommitError::Met(Conflict::Record(..))) => {}
                Err(unmoved) => return Err(unmoved.into()),
            }
        }
        Err(shop_rules::Error::Changed.into())
    }

    /// Number of products of a site.
    pub async fn product_count(&self, site: &Slug) -> Result<u64, Error> {
        self.count(records::PRODUCTS, records::of_site(site)).await
    }

    pub async fn product(&self, site: &Slug, id: &ProductId) -> Result<Goods, Error> {
        let found = self.read(records::PRODUCTS, records::product_key(site, id)).await?;
        let (product, _) = found.ok_or(Error::Unknown(ShopEntity::Product))?;
        let mut goods = self.goods(vec![product]).await?;
        goods.pop().ok_or(Error::Unknown(ShopEntity::Product))
    }

    /// The products with these ids; missing ones are left out.
    pub async fn products(&self, site: &Slug, ids: &[ProductId]) -> Result<Vec<Goods>, Error> {
        let ids = &ids[..ids.len().min(MOST_AT_ONCE)];
        let mut products = Vec::with_capacity(ids.len());
        // Concurrent reads: over a network their latencies overlap.
        for some in ids.chunks(READ_AT_ONCE) {
            let mut reads = Vec::with_capacity(some.len());
            for id in some {
                reads.push(self.read(records::PRODUCTS, records::product_key(site, id)));
            }
            products.extend(try_join_all(reads).await?.into_iter().flatten().map(|(product, _)| product));
        }
        self.goods(products).await
    }

    /// Adds the available stock, with one read.
    pub(crate) async fn goods(&self, products: Vec<Product>) -> Result<Vec<Goods>, Error> {
        let counted: Vec<Arc<str>> = products
            .iter()
            .flat_map(|product| product.variants.iter().filter(|v| v.counted).map(|v| unit(product, v)))
            .map(|unit| unit.account(StockPlace::Available))
            .collect();
        let left = if counted.is_empty() {
            Vec::new()
        } else {
            self.engine().store().balances(counted).await.map_err(read_fault)?
        };
        let mut left = left.into_iter().map(|n| u64::try_from(n).unwrap_or_default());
        let goods = products.into_iter().map(|product| {
            let of =
                product.variants.iter().map(|v| if v.counted { Some(left.next().unwrap_or_default()) } else { None });
            Goods { left: of.collect(), product }
        });
        Ok(goods.collect())
    }

    pub(crate) async fn coupon(&self, site: &Slug, code: &str) -> Result<Option<(Coupon, u64)>, Error> {
        self.read(records::COUPONS, records::coupon_key(site, code)).await
    }

    /// Imports a catalogue; one with errors is not imported at all. Existing products are changed, new ones created, none is
    /// removed. A stock number sets the available stock; reserved stock stays reserved.
    pub async fn import(&self, slug: &Slug, format: CatalogueFormat, text: &str) -> Result<Imported, Error> {
        let site = self.site(slug).await?;
        let catalogue = import::read(&site, format, text, self.now()).map_err(Error::Catalogue)?;
        let mut imported = Imported::default();
        for batch in catalogue.products.chunks(BATCH) {
            let made = self.import_batch(batch).await?;
            imported.made += made;
            imported.changed += batch.len() as u64 - made;
        }
        for coupon in &catalogue.coupons {
            self.put_coupon(coupon).await?;
            imported.coupons += 1;
        }
        Ok(imported)
    }

    /// Writes these products in one commit and returns the number of new ones.
    async fn import_batch(&self, batch: &[Counted]) -> Result<u64, Error> {
        'again: for _ in 0..ATTEMPTS {
            let (mut records, mut texts, mut made) = (Vec::new(), Vec::new(), 0);
            let mut wanted: Vec<(Unit, u64)> = Vec::new();
            for Counted { product, stock } in batch {
                let key = records::product_key(&product.site, &product.id);
                let had = self.read(records::PRODUCTS, key).await?;
                let mut row = product.clone();
                let version = match &had {
                    Some((had, version)) => {
                        row.created_at = had.created_at;
                        *version
                    }
                    None => {
                        made += 1;
                        0
                    }
                };
                let (title, body) = row.texts();
                texts.push(TextChange::Put { shelf: shelf(&row.site), id: row.id.0.clone(), title, body });
                for (variant, stock) in row.variants.iter().zip(stock) {
                    if let Some(stock) = stock {
                        wanted.push((unit(&row, variant), *stock));
                    }
                }
                records.push(records::put_product(&row, version));
            }
            let stock = self.stock_to(wanted).await?;
            let entries = stock.entry(self.now()).into_iter().collect();
            match self.engine().keep(SideWrites { records, texts, entries, ..SideWrites::default() }).await {
                Ok(()) => return Ok(made),
                // A sale or another import was committed first.
                Err(CommitError::Met(Conflict::Record(..) | Conflict::Funds(..))) => continue 'again,
                Err(unmoved) => return Err(unmoved.into()),
            }
        }
        Err(shop_rules::Error::Changed.into())
    }

    /// The moves that make the available stock of each unit the wanted number.
    async fn stock_to(&self, wanted: Vec<(Unit, u64)>) -> Result<Moves, Error> {
        let accounts: Vec<Arc<str>> = wanted.iter().map(|(unit, _)| unit.account(StockPlace::Available)).collect();
        let left = if accounts.is_empty() {
            Vec::new()
        } else {
            self.engine().store().balances(accounts).await.map_err(read_fault)?
        };
        let moves = wanted.into_iter().zip(left).filter_map(|((unit, wanted), left)| {
            let left = u64::try_from(left).unwrap_or_default();
            match wanted.cmp(&left) {
                std::cmp::Ordering::Equal => None,
                std::cmp::Ordering::Greater => {
                    Some(Move { unit, from: StockPlace::Outside, to: StockPlace::Available, quantity: wanted - left })
                }
                std::cmp::Ordering::Less => {
                    Some(Move { unit, from: StockPlace::Available, to: StockPlace::Outside, quantity: left - wanted })
                }
            }
        });
        // The name is random: every import is a new entry.
        Ok(Moves::new(format!("import/{}", secret::draw_text()?), moves.collect()))
    }

    /// Creates a coupon, or changes it. A limit sets the number of uses that are left.
    pub async fn put_coupon(&self, coupon: &Coupon) -> Result<(), Error> {
        coupon.check()?;
        for _ in 0..ATTEMPTS {
            let version = self.coupon(&coupon.site, &coupon.code).await?.map_or(0, |(_, version)| version);
            let unit = Unit::Coupon { site: coupon.site.clone(), code: coupon.code.clone() };
            let wanted = coupon.limit.map(|limit| (unit, u64::from(limit))).into_iter().collect();
            let entries = self.stock_to(wanted).await?.entry(self.now()).into_iter().collect();
            let records = vec![records::put_coupon(coupon, version)];
            match self.engine().keep(SideWrites { records, entries, ..SideWrites::default() }).await {
                Ok(()) => return Ok(()),
                Err(CommitError::Met(Conflict::Record(..) | Conflict::Funds(..))) => {}
                Err(unmoved) => return Err(unmoved.into()),
            }
        }
        Err(shop_rules::Error::Changed.into())
    }

    /// Removes a product. Carts with it cannot be checked out; open checkouts can be completed.
    pub async fn remove_product(&self, site: &Slug, id: &ProductId) -> Result<(), Error> {
        let key = records::product_key(site, id);
        let records = vec![records::PRODUCTS.remove(key, Expect::Any)];
        let texts = vec![TextChange::Remove { shelf: shelf(site), id: id.0.clone() }];
        Ok(self.engine().keep(SideWrites { records, texts, ..SideWrites::default() }).await?)
    }

    /// The current rows of these products, with their versions.
    pub(crate) async fn product_rows(
        &self,
        site: &Slug,
        ids: impl Iterator<Item = &ProductId>,
    ) -> Result<HashMap<ProductId, (Product, u64)>, Error> {
        let mut rows = HashMap::new();
        for id in ids {
            if !rows.contains_key(id)
                && let Some(found) = self.read(records::PRODUCTS, records::product_key(site, id)).await?
            {
                rows.insert(id.clone(), found);
            }
        }
        Ok(rows)
    }
}
