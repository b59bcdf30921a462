//! Files of purchases: stored once, and downloaded by the parties within the limits of their tokens.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use market::service::{Allowed, DeliverableLimits, Error, File, MarketConfig, NamedFile, NotGiven, Upload};
use market_rules::capability::Served;
use market_rules::transaction::{Status, TransactionAction};
use market_rules::{Actor, CapabilityId, Transaction};
use model::ports::agent::{AgentEvent, ArtifactChunk, EndState, Restart, Turn};
use model::{Content, Part};
use sha2::{Digest, Sha256};

use crate::common::{Fair, House, acting, agent_of, done, echo, offer, on_both_stores};

fn file(name: &str, bytes: impl Into<Bytes>) -> Upload {
    Upload { name: name.into(), media_type: "application/pdf".into(), bytes: bytes.into() }
}

fn by_id(access_id: &str) -> NamedFile {
    NamedFile { access_id: Some(access_id.into()), deliverable_id: None, file_name: None }
}

async fn fair(house: &mut House, files: DeliverableLimits) -> (Fair, CapabilityId) {
    let fair = house.fair(vec![echo()], MarketConfig { files, ..MarketConfig::default() }).await;
    let ocr = fair.sells("s", "ocr", offer(Served::Person)).await;
    fair.has("b", 100_000).await;
    (fair, ocr)
}

impl Fair {
    /// A purchase that waits for its delivery.
    async fn accepted(&self, capability: &CapabilityId) -> Transaction {
        let row = self.order("b", capability).await.unwrap();
        self.act("b", row.id, TransactionAction::Freeze).await.unwrap();
        self.act("s", row.id, TransactionAction::Accept).await.unwrap()
    }

    async fn upload(&self, row: &Transaction, upload: Upload) -> Result<File, Error> {
        self.market.upload(&agent_of("s"), row.id, upload).await
    }

    async fn delivers(&self, row: &Transaction, named: Vec<NamedFile>) -> Result<Transaction, Error> {
        let deliverables = self.market.named_files(row.id, named).await?;
        self.act("s", row.id, TransactionAction::Deliver { result: None, deliverables }).await
    }
}

#[tokio::test]
async fn a_file_is_kept_once_and_fetched_as_often_as_was_said() {
    on_both_stores(async |mut house| {
        let (fair, ocr) = fair(&mut house, DeliverableLimits::default()).await;
        let row = fair.accepted(&ocr).await;
        let bytes = Bytes::from(vec![7; 200_000]);
        let kept = fair.upload(&row, file("a.pdf", bytes.clone())).await.unwrap();
        assert_eq!((kept.len, &*kept.name, kept.transaction), (200_000, "a.pdf", row.id));
        let hex: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(*kept.hash, *hex);
        let again = fair.upload(&row, file("a.pdf", bytes.clone())).await.unwrap();
        assert_eq!(again, kept, "the same again is the same");
        let other = fair.upload(&row, file("b.pdf", bytes.clone())).await.unwrap();
        assert_ne!(other.access_id, kept.access_id);
        assert_eq!(fair.engine().health().await.unwrap().blobs, 1, "its bytes are kept once");

        let buyer = agent_of("b");
        let early = fair.market.grant_access(&buyer, &kept.access_id, 2, 60).await.err().unwrap();
        assert!(early.to_string().contains("not delivered"), "{early}");
        let stranger = fair.market.grant_access(&agent_of("x"), &kept.access_id, 2, 60).await.err().unwrap();
        let nothing = fair.market.grant_access(&buyer, "acc_0", 2, 60).await.err().unwrap();
        assert_eq!(stranger.to_string(), nothing.to_string(), "to others it is not there");
        for (most, expires, says) in
            [(0, 60, "max_downloads"), (1_001, 60, "max_downloads"), (1, 0, "expires_in"), (1, u32::MAX, "expires_in")]
        {
            let refused = fair.market.grant_access(&buyer, &kept.access_id, most, expires).await.err().unwrap();
            assert!(refused.to_string().starts_with(says), "{refused}");
        }

        let row = fair.delivers(&row, vec![by_id(&kept.access_id)]).await.unwrap();
        assert_eq!((row.deliverables.len(), &*row.deliverables[0].file_name), (1, "a.pdf"));
        assert_eq!(row.deliverables[0].deliverable_id, kept.deliverable_id);
        let undelivered = fair.market.grant_access(&buyer, &other.access_id, 1, 60).await.err().unwrap();
        assert!(undelivered.to_string().contains("not delivered"), "{undelivered}");
        let late = fair.upload(&row, file("c.pdf", "late")).await.unwrap_err();
        assert!(matches!(late, Error::Rule(_)), "{late}");

        let granted = fair.market.grant_access(&buyer, &kept.access_id, 2, 60).await.unwrap();
        for remaining in [1, 0] {
            assert_eq!(fair.market.allowed(&granted.token).await.unwrap().remaining, remaining + 1, "asking uses none");
            let (Allowed { remaining: left, file, .. }, got) = fair.market.download(&granted.token).await.unwrap();
            assert_eq!((left, file, got), (remaining, kept.clone(), bytes.clone()));
        }
        assert!(matches!(fair.market.download(&granted.token).await, Err(NotGiven::UsedUp(2))));
        assert!(matches!(fair.market.allowed(&granted.token).await, Err(NotGiven::UsedUp(2))));
        assert!(matches!(fair.market.download("dl_guess").await, Err(NotGiven::Unknown)));

        // The bytes are removed with the task.
        let granted = fair.market.grant_access(&buyer, &kept.access_id, 2, 60).await.unwrap();
        fair.engine().store().remove(row.id.0).await.unwrap();
        assert!(matches!(fair.market.download(&granted.token).await, Err(NotGiven::Gone)));
        assert_eq!(fair.engine().health().await.unwrap().blobs, 0);
    })
    .await;
}

#[tokio::test]
async fn a_token_is_never_used_more_often_than_it_may_be() {
    on_both_stores(async |mut house| {
        let (fair, ocr) = fair(&mut house, DeliverableLimits::default()).await;
        let row = fair.accepted(&ocr).await;
        let kept = fair.upload(&row, file("a.pdf", "bytes")).await.unwrap();
        let granted = fair.market.grant_access(&agent_of("s"), &kept.access_id, 20, 60).await.unwrap();
        // Two markets with separate caches, as in two processes.
        let other =
            market::service::Market::start(fair.engine().clone(), MarketConfig::default(), false).await.unwrap();
        let mut downloads = tokio::task::JoinSet::new();
        for n in 0..100 {
            let market = if n % 2 == 0 { fair.market.clone() } else { other.clone() };
            let token = granted.token.clone();
            downloads.spawn(async move { market.download(&token).await });
        }
        let (mut given, mut refused) = (Vec::new(), 0);
        while let Some(done) = downloads.join_next().await {
            match done.unwrap() {
                Ok((allowed, _)) => given.push(allowed.remaining),
                Err(NotGiven::UsedUp(20)) => refused += 1,
                Err(other) => panic!("{other}"),
            }
        }
        given.sort_unstable();
        assert_eq!((given, refused), ((0..20).collect::<Vec<u32>>(), 80));
    })
    .await;
}

#[tokio::test]
async fn a_token_expires() {
    let mut house = House::memory();
    let (fair, ocr) = fair(&mut house, DeliverableLimits::default()).await;
    let row = fair.accepted(&ocr).await;
    let kept = fair.upload(&row, file("a.pdf", "bytes")).await.unwrap();
    let granted = fair.market.grant_access(&agent_of("s"), &kept.access_id, 1, 1).await.unwrap();
    let until = granted.allowed.expires_at;
    crate::common::until(async || fair.market.now() >= until).await;
    assert!(matches!(fair.market.download(&granted.token).await, Err(NotGiven::Expired)));
}

#[tokio::test]
async fn others_files_cannot_be_delivered() {
    on_both_stores(async |mut house| {
        let (fair, ocr) = fair(&mut house, DeliverableLimits::default()).await;
        let (one, other) = (fair.accepted(&ocr).await, fair.accepted(&ocr).await);
        let kept = fair.upload(&one, file("a.pdf", "bytes")).await.unwrap();
        let named = |name: &str, id: Option<&str>| NamedFile {
            access_id: id.map(Into::into),
            deliverable_id: None,
            file_name: Some(name.into()),
        };
        let says = |refused: Error| refused.to_string();
        let foreign = says(fair.delivers(&other, vec![by_id(&kept.access_id)]).await.unwrap_err());
        assert!(foreign.contains("must be of this purchase"), "{foreign}");
        let foreign = says(fair.delivers(&other, vec![named("x", Some(&kept.access_id))]).await.unwrap_err());
        assert!(foreign.contains("must be of this purchase"), "{foreign}");
        let unknown = says(fair.delivers(&one, vec![by_id("acc_0")]).await.unwrap_err());
        assert!(unknown.contains(&format!("upload?transaction_id={}", one.id.tx())), "{unknown}");
        let neither = NamedFile { access_id: None, deliverable_id: None, file_name: None };
        let neither = says(fair.delivers(&one, vec![neither]).await.unwrap_err());
        assert!(neither.contains("an access_id or a file_name"), "{neither}");
        let twice = says(fair.delivers(&one, vec![by_id(&kept.access_id), by_id(&kept.access_id)]).await.unwrap_err());
        assert!(twice.contains("named twice"), "{twice}");
        let buyers = fair.market.upload(&agent_of("b"), one.id, file("a", "x")).await.unwrap_err();
        assert!(matches!(buyers, Error::Rule(market_rules::Error::WrongActor { .. })), "{buyers}");
        let strangers = fair.market.upload(&agent_of("x"), one.id, file("a", "x")).await.unwrap_err();
        assert!(matches!(strangers, Error::Rule(market_rules::Error::NotParty)), "{strangers}");

        let row = fair.delivers(&one, vec![by_id(&kept.access_id), named("elsewhere.pdf", Some("d1"))]).await.unwrap();
        let ids: Vec<&str> = row.deliverables.iter().map(|file| &*file.access_id).collect();
        assert_eq!(ids, [&*kept.access_id, "d1"]);
    })
    .await;
}

#[tokio::test]
async fn how_much_is_kept_is_limited() {
    on_both_stores(async |mut house| {
        let limits = DeliverableLimits { file_bytes: 10, per_purchase: 3, user_bytes: 25 };
        let (fair, ocr) = fair(&mut house, limits).await;
        let (one, other) = (fair.accepted(&ocr).await, fair.accepted(&ocr).await);
        let large = fair.upload(&one, file("a", "eleven byte")).await.unwrap_err();
        assert!(large.to_string().contains("it may have 10 bytes"), "{large}");
        // Concurrently, so that they conflict.
        let mut uploads = tokio::task::JoinSet::new();
        for n in 0..6 {
            let (fair, row) = (fair.clone(), one.clone());
            uploads.spawn(async move { fair.upload(&row, file(&format!("{n}"), "xyz")).await });
        }
        let (mut kept, mut refused) = (0, 0);
        while let Some(done) = uploads.join_next().await {
            match done.unwrap() {
                Ok(_) => kept += 1,
                Err(full) => {
                    assert!(full.to_string().contains("transaction_id has 3 files"), "{full}");
                    refused += 1;
                }
            }
        }
        assert_eq!((kept, refused), (3, 3));
        fair.upload(&other, file("a", "ten bytes!")).await.unwrap();
        let full = fair.upload(&other, file("b", "ten more!!")).await.unwrap_err();
        assert!(full.to_string().contains("more than the 25 you may keep"), "{full}");
        fair.upload(&other, file("b", "six by")).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn what_an_agent_makes_can_be_fetched() {
    on_both_stores(async |mut house| {
        let large = Bytes::from(vec![9; 300_000]);
        let made = large.clone();
        let worker = acting("worker", Restart::Fail, move |_: Turn| {
            let part = |name: &str, bytes: Bytes| Part {
                filename: Some(name.into()),
                media_type: Some("image/png".into()),
                ..Part::new(Content::Raw(bytes))
            };
            // Two equal files stay two, since the agent made two.
            let parts = vec![part("a.png", made.clone()), part("b.png", "small".into()), part("b.png", "small".into())];
            let piece = ArtifactChunk { key: "a".into(), parts, ..ArtifactChunk::default() };
            done(vec![AgentEvent::Artifact(piece)], EndState::Completed, "")
        });
        let fair = house.fair(vec![worker], MarketConfig::default()).await;
        let ocr = fair.sells("s", "ocr", offer(Served::Agent("worker".into()))).await;
        fair.has("b", 10_000).await;
        let row = fair.order("b", &ocr).await.unwrap();
        fair.act("b", row.id, TransactionAction::Freeze).await.unwrap();
        let row = fair.comes_to(row.id, Status::Delivered).await;
        assert_eq!(row.deliverables.len(), 3);
        let mut fetched = Vec::new();
        for one in &row.deliverables {
            let granted = fair.market.grant_access(&agent_of("b"), &one.access_id, 1, 60).await.unwrap();
            let (allowed, bytes) = fair.market.download(&granted.token).await.unwrap();
            fetched.push((one.file_name.clone(), allowed.file.media_type, bytes));
        }
        let expected = |name: &str, bytes: Bytes| (Arc::from(name), Arc::from("image/png"), bytes);
        let small = || expected("b.png", "small".into());
        assert_eq!(fetched, [expected("a.png", large.clone()), small(), small()]);
        let row = fair.market.transaction(&Actor::Platform, row.id).await.unwrap();
        let parts = row.result.unwrap().to_value()["artifacts"][0]["parts"].clone();
        assert_eq!(parts[0]["access_id"], *row.deliverables[0].access_id);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_is_gone_makes_room() {
    let files = DeliverableLimits { user_bytes: 10, ..DeliverableLimits::default() };
    let fair = House::paused(MarketConfig { files, ..MarketConfig::default() }, None).await;
    let ocr = fair.sells("s", "ocr", offer(Served::Person)).await;
    fair.has("b", 10_000).await;
    let (one, other) = (fair.accepted(&ocr).await, fair.accepted(&ocr).await);
    let kept = fair.upload(&one, file("a", "ten bytes!")).await.unwrap();
    let granted = fair.market.grant_access(&agent_of("s"), &kept.access_id, 1, 60).await.unwrap();
    fair.upload(&other, file("b", "one more")).await.unwrap_err();
    fair.engine().store().remove(one.id.0).await.unwrap();
    let count = async |kind: &str| {
        let query =
            model::RecordQuery { kind: kind.into(), list: "all".into(), after: None, skip: 0, limit: 10, count: true };
        fair.engine().store().records(query).await.unwrap().total.unwrap()
    };
    assert_eq!((count("market/file").await, count("market/grant").await), (1, 1));
    tokio::time::sleep(Duration::from_secs(1_300)).await;
    assert_eq!((count("market/file").await, count("market/grant").await), (0, 1));
    assert!(matches!(fair.market.download(&granted.token).await, Err(NotGiven::Expired)), "told why, for a day");
    fair.upload(&other, file("b", "one more")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2 * 86_400)).await;
    assert_eq!((count("market/file").await, count("market/grant").await), (1, 0));
    assert!(matches!(fair.market.download(&granted.token).await, Err(NotGiven::Unknown)));
}
