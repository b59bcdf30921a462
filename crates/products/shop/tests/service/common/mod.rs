//! Test kit: a shop that sells hats, on a store.

use std::sync::Arc;
use std::time::Duration;

use engine::Engine;
use model::Limits;
use model::ports::agent::Agent;
use model::ports::store::Store;
use shop::service::{CartChange, Error, OpenCart, OpenCheckout, Shop, ShopConfig, WorkspaceCaller};
use shop_rules::import::CatalogueFormat;
use shop_rules::{Buyer, Currency, Minor, ShopRules, Site, SiteTerms, Slug, VariantChoice};
use stores::sqlite::{Options, SqliteDurability};
use stores::{memory, postgres, sqlite};
use tempfile::TempDir;

pub(crate) use stores::crashable::CrashableStore;

/// A case that takes longer hangs, also on a slow machine.
const PATIENCE: Duration = Duration::from_secs(240);

pub(crate) const HATS: &str = r#"{
  "products": [
    {"id": "sun", "name": "Sun hat", "subtitle": "wide", "price": "19.90", "stock": 50, "tags": ["summer"],
     "media": ["https://img.example/sun.png"], "description": "Keeps the sun away"},
    {"id": "felt", "name": "Felt hat", "price": "30.00", "tags": ["winter"], "variants": [
      {"id": "s", "options": {"Size": "S"}, "stock": 3}, {"id": "l", "options": {"Size": "L"}, "stock": 0}]},
    {"id": "pattern", "name": "Knitting pattern", "description": "for a hat of wool", "price": "5.00",
     "is_digital": true, "downloads": ["https://files.example/pattern.pdf"], "tags": ["winter"]}
  ],
  "coupons": [{"code": "TEN", "percent": "10"}, {"code": "ONCE", "amount": "1.00", "limit": 1}]
}"#;

/// The storage of a case: data that outlives the process, and the store that has it open.
pub(crate) struct TestStorage {
    data: Data,
    crashable: Option<Arc<CrashableStore>>,
}

enum Data {
    Memory(Arc<memory::MemoryStore>),
    Sqlite(TempDir),
    Postgres(cluster::Database),
}

/// Runs a case on each store.
pub(crate) async fn on_every_store(case: impl AsyncFn(TestStorage)) {
    for (name, storage) in [
        ("memory", TestStorage::memory as fn() -> TestStorage),
        ("sqlite", TestStorage::sqlite),
        ("postgres", TestStorage::postgres),
    ] {
        eprintln!("on the {name} store:");
        let done = tokio::time::timeout(PATIENCE, case(storage())).await;
        assert!(done.is_ok(), "the case hangs on the {name} store");
    }
}

fn quick() -> Limits {
    Limits { cancel_grace_ms: 50, drain_ms: 200, ..Limits::default() }
}

impl TestStorage {
    pub(crate) fn memory() -> TestStorage {
        TestStorage { data: Data::Memory(Arc::new(memory::MemoryStore::new())), crashable: None }
    }

    pub(crate) fn sqlite() -> TestStorage {
        TestStorage { data: Data::Sqlite(tempfile::tempdir().unwrap()), crashable: None }
    }

    pub(crate) fn postgres() -> TestStorage {
        TestStorage { data: Data::Postgres(cluster::Cluster::shared().database()), crashable: None }
    }

    async fn open(&mut self) -> Arc<CrashableStore> {
        assert!(self.crashable.is_none(), "one process at a time");
        let crashable = match &self.data {
            Data::Memory(store) => CrashableStore::new(store.clone(), false),
            Data::Sqlite(folder) => {
                let options = Options { durability: SqliteDurability::Relaxed, ..Options::new(folder.path()) };
                CrashableStore::new(Arc::new(sqlite::SqliteStore::open(options).unwrap()), true)
            }
            Data::Postgres(database) => {
                let store = postgres::PostgresStore::open(postgres::Options::new(database.url())).await.unwrap();
                CrashableStore::new(Arc::new(store) as Arc<dyn Store>, true)
            }
        };
        self.crashable = Some(crashable.clone());
        crashable
    }

    /// Starts shops on the data, with the site `acme`.
    pub(crate) async fn mall(&mut self, rules: ShopRules) -> Mall {
        let crashable = self.open().await;
        Mall::on(crashable, rules).await
    }

    /// The same in memory, with paused time that advances with sleeping tasks.
    pub(crate) async fn paused(rules: ShopRules) -> Mall {
        let crashable = TestStorage::memory().open().await;
        crashable.go_by_sleepers();
        Mall::on(crashable, rules).await
    }

    /// `kill -9`: stops the store before its next write.
    pub(crate) async fn kill(&mut self) {
        let crashable = self.crashable.take().unwrap();
        crashable.die();
        if !matches!(self.data, Data::Memory(_)) {
            crashable.close_inner().await;
        }
    }
}

#[derive(Clone)]
pub(crate) struct Mall {
    pub(crate) shop: Shop,
}

pub(crate) fn acme() -> Slug {
    "acme".into()
}

pub(crate) fn caller(scopes: &[&str]) -> WorkspaceCaller {
    let scopes: Vec<String> = scopes.iter().map(|scope| (*scope).to_owned()).collect();
    WorkspaceCaller { workspace: "ws_1".into(), scopes: scopes.into() }
}

pub(crate) fn ada() -> Buyer {
    Buyer { email: "ada@example.com".into(), name: Some("Ada".into()), address: Some("1 Main St".into()) }
}

pub(crate) fn rule(refused: Error) -> shop_rules::Error {
    match refused {
        Error::Rule(refusal) => refusal,
        other => panic!("{other:?}"),
    }
}

impl Mall {
    async fn on(crashable: Arc<CrashableStore>, rules: ShopRules) -> Mall {
        let engine = Engine::builder(crashable).limits(quick()).start().await.unwrap();
        let config = ShopConfig { rules, base_url: "https://rialto.example/".to_owned() };
        let shop = Shop::start(engine, config, true).await.unwrap();
        let mall = Mall { shop };
        if mall.shop.site(&acme()).await.is_err() {
            let mut site = Site::new(acme(), "ws_1".into(), "Acme", Currency::check("USD").unwrap(), mall.shop.now());
            site.terms =
                SiteTerms { shipping: Minor(490), free_shipping_from: Some(Minor(10_000)), ..SiteTerms::default() };
            site.hosts = vec!["hats.example".into()];
            mall.shop.put_site(&site).await.unwrap();
            mall.shop.import(&acme(), CatalogueFormat::Json, HATS).await.unwrap();
        }
        mall
    }

    pub(crate) fn serve(&self, agent: impl Agent) {
        self.shop.engine().set_agents(vec![Arc::new(agent)]);
    }

    pub(crate) async fn cart(&self) -> OpenCart {
        self.shop.create_cart(Some(&caller(&[])), &acme(), None).await.unwrap()
    }

    pub(crate) async fn add(&self, cart: &OpenCart, product: &str, quantity: u32) -> Result<OpenCart, Error> {
        let change = CartChange::Add { product: product.into(), which: VariantChoice::default(), quantity };
        self.shop.change_cart(&acme(), &cart.token, &change, None).await
    }

    /// An open checkout of so many sun hats.
    pub(crate) async fn begun(&self, quantity: u32) -> Result<OpenCheckout, Error> {
        let cart = self.cart().await;
        self.add(&cart, "sun", quantity).await?;
        self.shop.checkout(&acme(), &cart.token, None).await
    }

    /// Number of available sun hats.
    pub(crate) async fn left(&self) -> u64 {
        self.shop.product(&acme(), &"sun".into()).await.unwrap().left[0].unwrap()
    }

    /// Asserts that stock and money agree with the rows.
    pub(crate) async fn adds_up(&self) {
        let report = self.shop.verify().await.unwrap();
        assert_eq!(report.differences, []);
    }
}
