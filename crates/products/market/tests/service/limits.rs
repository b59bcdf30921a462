//! Limits of sales, demands and tokens hold under concurrency, in one process and in several.

use std::collections::BTreeMap;

use market::service::{Error, MarketConfig, Once, OrderRequest, Upload};
use market_rules::capability::{CapabilityDraft, Served};
use market_rules::demand;
use market_rules::transaction::TransactionAction;
use market_rules::{CapabilityId, Transaction, Via};
use model::Kind;
use tokio::task::JoinSet;

use crate::common::{Fair, adds_up, agent_of, caller, offer, on_both_stores, replicas};

const BUYERS: usize = 24;

/// A limit, and how long its window is.
#[derive(Clone, Copy, Debug)]
enum Limit {
    Day(i64),
    Minute(i64),
}

impl Limit {
    fn draft(self) -> CapabilityDraft {
        match self {
            Limit::Day(most) => CapabilityDraft { daily_limit: Some(most), ..offer(Served::Person) },
            Limit::Minute(most) => CapabilityDraft { rate_limit_per_min: Some(most), ..offer(Served::Person) },
        }
    }

    /// The most sales that any one window has, and the limit.
    fn fullest(self, sold: &[Transaction]) -> (i64, i64) {
        let (most, ms) = match self {
            Limit::Day(most) => (most, 86_400_000),
            Limit::Minute(most) => (most, 60_000),
        };
        let mut windows: BTreeMap<i64, i64> = BTreeMap::new();
        for row in sold {
            *windows.entry(row.created_at.0.div_euclid(ms)).or_default() += 1;
        }
        (windows.into_values().max().unwrap_or_default(), most)
    }
}

/// The buyers of a test.
#[derive(Clone, Copy, Debug)]
enum Crowd {
    Persons,
    Agents,
    /// One person with concurrent orders.
    One,
    /// Each request twice, with a key.
    Twice,
}

/// All buyers order concurrently, spread over these processes.
async fn rush(fairs: &[Fair], capability: &CapabilityId, crowd: Crowd) -> Vec<Transaction> {
    let mut orders = JoinSet::new();
    for n in 0..BUYERS {
        let (name, via, once) = match crowd {
            Crowd::Persons => (format!("b{n}"), Via::Person, None),
            Crowd::Agents => (format!("b{n}"), Via::Agent, None),
            Crowd::One => ("b0".to_owned(), Via::Person, None),
            Crowd::Twice => {
                let key = format!("{capability}/{}", n / 2);
                (format!("b{}", n / 2), Via::Person, Some(Once { key, print: [1; 32] }))
            }
        };
        let (fair, wish) = (fairs[n % fairs.len()].clone(), OrderRequest::of(capability.clone()));
        orders.spawn(async move { fair.market.order(&caller(&name, via), wish, once).await });
    }
    let mut sold: Vec<Transaction> = Vec::new();
    while let Some(order) = orders.join_next().await {
        match order.unwrap() {
            Ok(row) if sold.iter().any(|known| known.id == row.id) => {}
            Ok(row) => sold.push(row),
            Err(Error::Rule(market_rules::Error::Quota { .. })) => {}
            Err(other) => panic!("{crowd:?}: {other:?}"),
        }
    }
    sold
}

async fn no_more_than_the_limit(fairs: &[Fair]) {
    for n in 0..BUYERS {
        fairs[0].has(&format!("b{n}"), 100_000).await;
    }
    for (n, limit) in [Limit::Day(1), Limit::Minute(1), Limit::Day(7), Limit::Minute(7)].into_iter().enumerate() {
        for crowd in [Crowd::Persons, Crowd::Agents, Crowd::One, Crowd::Twice] {
            let capability = fairs[0].sells("s", &format!("{n}-{crowd:?}"), limit.draft()).await;
            let sold = rush(fairs, &capability, crowd).await;
            let (fullest, most) = limit.fullest(&sold);
            assert_eq!(fullest, most, "{limit:?} {crowd:?}: {} sold", sold.len());
            // A cancelled sale stays counted.
            fairs[0].act(sold[0].buyer.as_str(), sold[0].id, TransactionAction::Cancel).await.unwrap();
            let again = rush(fairs, &capability, crowd).await;
            let all: BTreeMap<_, _> = sold.into_iter().chain(again).map(|row| (row.id, row)).collect();
            let all: Vec<Transaction> = all.into_values().collect();
            assert_eq!(limit.fullest(&all), (most, most), "{limit:?} {crowd:?}");
        }
    }
    adds_up(&fairs[0]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn buyers_who_come_at_once_do_not_pass_a_limit() {
    on_both_stores(async |mut house| {
        let fair = house.fair(Vec::new(), MarketConfig::default()).await;
        no_more_than_the_limit(&[fair]).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn buyers_at_several_processes_do_not_pass_a_limit() {
    let (_database, fairs) = replicas::<3>(&MarketConfig::default()).await;
    no_more_than_the_limit(&fairs).await;
}

/// Sales of a release that kept no count are found in their list, once.
#[tokio::test]
async fn a_limit_counts_sales_from_before_there_was_a_count() {
    on_both_stores(async |mut house| {
        let fair = house.fair(Vec::new(), MarketConfig::default()).await;
        fair.has("b", 100_000).await;
        let capability = fair.sells("s", "ocr", Limit::Day(3).draft()).await;
        let first = fair.order("b", &capability).await.unwrap();
        let remove = model::RecordChange::Remove {
            kind: "market/sales".into(),
            key: format!("{}\u{1f}ocr", crate::common::TENANT).into(),
            expect: model::Expect::Any,
        };
        fair.engine().keep(engine::SideWrites { records: vec![remove], ..Default::default() }).await.unwrap();
        let mut sold = vec![first];
        while let Ok(row) = fair.order("b", &capability).await {
            sold.push(row);
            assert!(sold.len() < 9, "sold without end");
        }
        assert_eq!(Limit::Day(3).fullest(&sold), (3, 3));
    })
    .await;
}

fn wanted() -> demand::DemandDraft {
    demand::DemandDraft {
        title: Some("Totals of invoices".into()),
        description: Some("Read 200 scanned invoices and give me their totals".into()),
        category: Some("documents".into()),
        budget_ut: model::Json::parse("100"),
        ..demand::DemandDraft::default()
    }
}

async fn no_more_demands_than_may_be_open(fairs: &[Fair]) {
    for _ in 1..200 {
        fairs[0].market.want(&agent_of("b"), &wanted(), None).await.unwrap();
    }
    let mut asked = JoinSet::new();
    for n in 0..12 {
        let fair = fairs[n % fairs.len()].clone();
        asked.spawn(async move { fair.market.want(&agent_of("b"), &wanted(), None).await });
    }
    let mut made = Vec::new();
    while let Some(one) = asked.join_next().await {
        match one.unwrap() {
            Ok(demand) => made.push(demand),
            Err(Error::Fault(fault)) => assert_eq!(fault.kind, Kind::RateLimited),
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(made.len(), 1);
    // Another user is not affected, and a cancellation makes room for one.
    fairs[0].market.want(&agent_of("c"), &wanted(), None).await.unwrap();
    fairs[0].market.cancel_demand(&agent_of("b"), &made[0].id, None).await.unwrap();
    fairs[0].market.want(&agent_of("b"), &wanted(), None).await.unwrap();
    fairs[0].market.want(&agent_of("b"), &wanted(), None).await.unwrap_err();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn demands_that_come_at_once_do_not_pass_their_limit() {
    on_both_stores(async |mut house| {
        let fair = house.fair(Vec::new(), MarketConfig::default()).await;
        no_more_demands_than_may_be_open(&[fair]).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn demands_at_several_processes_do_not_pass_their_limit() {
    let (_database, fairs) = replicas::<2>(&MarketConfig::default()).await;
    no_more_demands_than_may_be_open(&fairs).await;
}

async fn no_more_tokens_than_a_file_may_have(fairs: &[Fair]) {
    let fair = &fairs[0];
    fair.has("b", 10_000).await;
    let ocr = fair.sells("s", "ocr", offer(Served::Person)).await;
    let row = fair.order("b", &ocr).await.unwrap();
    fair.act("b", row.id, TransactionAction::Freeze).await.unwrap();
    fair.act("s", row.id, TransactionAction::Accept).await.unwrap();
    let upload = Upload { name: "a.txt".into(), media_type: "text/plain".into(), bytes: "hello".into() };
    let file = fair.market.upload(&agent_of("s"), row.id, upload).await.unwrap();
    for _ in 1..100 {
        fair.market.grant_access(&agent_of("s"), &file.access_id, 1, 60).await.unwrap();
    }
    let mut asked = JoinSet::new();
    for n in 0..12 {
        let (fair, access_id) = (fairs[n % fairs.len()].clone(), file.access_id.clone());
        asked.spawn(async move { fair.market.grant_access(&agent_of("s"), &access_id, 1, 60).await });
    }
    let mut granted = Vec::new();
    while let Some(one) = asked.join_next().await {
        match one.unwrap() {
            Ok(one) => granted.push(one),
            Err(refused) => assert!(refused.to_string().contains("has 100 tokens"), "{refused}"),
        }
    }
    assert_eq!(granted.len(), 1);
    let (_, bytes) = fair.market.download(&granted[0].token).await.unwrap();
    assert_eq!(&bytes[..], b"hello");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tokens_that_are_asked_for_at_once_do_not_pass_their_limit() {
    on_both_stores(async |mut house| {
        let fair = house.fair(Vec::new(), MarketConfig::default()).await;
        no_more_tokens_than_a_file_may_have(&[fair]).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tokens_at_several_processes_do_not_pass_their_limit() {
    let (_database, fairs) = replicas::<2>(&MarketConfig::default()).await;
    no_more_tokens_than_a_file_may_have(&fairs).await;
}
