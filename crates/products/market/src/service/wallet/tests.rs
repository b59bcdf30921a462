//! Tests of `wallet`.

use std::sync::Arc;

use engine::Engine;
use ledger::records::listed;
use market_rules::capability::{CapabilityDraft, CapabilityType};
use market_rules::transaction::TransactionAction;
use market_rules::{Capability, CapabilityId, Transaction, Via};
use model::ports::store::{Commit, Outcome, Store};
use model::{Entry as Kept, Json, Posting as Moved, RecordChange, State};
use uuid::Uuid;

use super::*;
use crate::service::records::ALL;
use crate::service::{MarketConfig, NewUser, OrderRequest};

/// A market with a seller, a buyer with 1,000, and a capability for 120.
struct Stall {
    market: Market,
    store: Arc<dyn Store>,
    buyer: MarketCaller,
    seller: MarketCaller,
}

const OFFER: &str = "cap_ocr_invoice_v1";

fn ut(text: &str) -> Ut {
    Ut::parse(text).unwrap()
}

impl Stall {
    async fn open() -> Stall {
        Stall::on(Arc::new(stores::memory::MemoryStore::new())).await
    }

    async fn on(store: Arc<dyn Store>) -> Stall {
        let engine = Engine::builder(store.clone()).start().await.unwrap();
        let market = Market::start(engine, MarketConfig::default(), false).await.unwrap();
        let mut callers = Vec::new();
        for id in ["u_buyer", "u_seller"] {
            let new = NewUser { id: Some(id.into()), ..NewUser::default() };
            let user = market.open_user(new).await.unwrap();
            let limits = market_rules::autonomy::SpendingLimits {
                per_call: ut("1000"),
                daily: ut("100000"),
                ..Default::default()
            };
            callers.push(MarketCaller { tenant: user.tenant, user: user.id, via: Via::Agent, limits });
        }
        let (seller, buyer) = (callers.pop().unwrap(), callers.pop().unwrap());
        market.credit(&buyer.user, ut("1000"), "welcome", Some("a present".into())).await.unwrap();
        let draft = CapabilityDraft {
            title: Some("OCR of invoices".into()),
            description: Some("Reads an invoice".into()),
            category: Some("documents".into()),
            capability_type: Some(CapabilityType::Service.name().into()),
            pricing_model: Some("per_use".into()),
            price_ut: Json::parse("120"),
            ..CapabilityDraft::default()
        };
        let rules = market.config().capabilities;
        let offer = Capability::new(
            &seller.tenant,
            OFFER.into(),
            seller.user.clone(),
            draft.check(&rules).unwrap(),
            market.now(),
        );
        let after = offer
            .step(&seller.actor(), market_rules::capability::CapabilityAction::Submit, market.now(), &rules)
            .unwrap();
        let market_rules::capability::After::Kept(offer) = after else { panic!("it is gone") };
        let key = records::capability_key(&seller.tenant, &CapabilityId::from(OFFER));
        let stall = Stall { market, store, buyer, seller };
        stall.write(records::CAPABILITIES.put(key, Expect::Any, &*offer, vec![listed(ALL, 0)])).await;
        stall
    }

    async fn write(&self, change: RecordChange) {
        let commit = Commit { records: vec![change], ..Commit::default() };
        assert_eq!(self.store.commit(commit).await, Outcome::Done);
    }

    async fn buy(&self) -> Transaction {
        self.market.order(&self.buyer, OrderRequest::of(OFFER.into()), None).await.unwrap()
    }

    async fn act(&self, who: &MarketCaller, id: TransactionId, action: TransactionAction) -> Transaction {
        self.market.act(&who.actor(), id, action, None).await.unwrap()
    }

    async fn sold(&self) -> Transaction {
        let id = self.buy().await.id;
        let deliver = TransactionAction::Deliver { result: Json::parse(r#"{"total":"99"}"#), deliverables: Vec::new() };
        self.act(&self.buyer, id, TransactionAction::Freeze).await;
        self.act(&self.seller, id, TransactionAction::Accept).await;
        self.act(&self.seller, id, deliver).await;
        self.act(&self.buyer, id, TransactionAction::Confirm).await
    }

    async fn found(&self) -> Vec<String> {
        self.market.verify().await.unwrap().words().collect()
    }

    async fn row(&self, id: TransactionId) -> Transaction {
        self.market.read(records::TRANSACTIONS, records::transaction_key(id)).await.unwrap().unwrap().0
    }

    async fn rewrite(&self, row: &Transaction) {
        let lists = records::lists_of(row);
        self.write(records::TRANSACTIONS.put(records::transaction_key(row.id), Expect::Any, row, lists)).await;
    }
}

fn page(page: u32, size: u32) -> Paging {
    Paging { page, size }
}

#[tokio::test]
async fn what_is_on_the_account_and_how_it_came_there() {
    let stall = Stall::open().await;
    let first = stall.sold().await;
    let second = stall.buy().await;
    stall.act(&stall.buyer, second.id, TransactionAction::Freeze).await;
    let wallet = stall.market.wallet(&stall.buyer.user).await.unwrap();
    assert_eq!((wallet.available, wallet.frozen), (ut("760"), ut("120")));
    assert_eq!(stall.market.wallet(&stall.seller.user).await.unwrap().available, ut("108"));

    let all = stall.market.statement(&stall.buyer, None, page(1, 10)).await.unwrap();
    let told: Vec<_> = all.items.iter().map(|line| (line.kind.name(), line.amount, line.balance_after)).collect();
    assert_eq!(
        told,
        [("freeze", ut("-120"), ut("760")), ("freeze", ut("-120"), ut("880")), ("recharge", ut("1000"), ut("1000"))]
    );
    assert_eq!((all.total, all.more), (3, false));
    assert_eq!(all.items[1].transaction, Some(first.id));
    assert_eq!(all.items[2].note.as_deref(), Some("a present"));
    let ids: std::collections::HashSet<_> = all.items.iter().map(|line| &line.id).collect();
    assert_eq!(ids.len(), 3, "every line has a name of its own");

    let freezes = stall.market.statement(&stall.buyer, Some(LineKind::Freeze), page(2, 1)).await.unwrap();
    assert_eq!((freezes.items.len(), freezes.total, freezes.more), (1, 2, false));
    assert_eq!(freezes.items[0].transaction, Some(first.id));
    let first_page = stall.market.statement(&stall.buyer, None, page(1, 2)).await.unwrap();
    assert_eq!((first_page.items.len(), first_page.more), (2, true));
    let beyond = stall.market.statement(&stall.buyer, None, page(u32::MAX, u32::MAX)).await.unwrap();
    assert_eq!((beyond.items.len(), beyond.total, beyond.more), (0, 3, false));

    let journal = stall.market.journal(2).await.unwrap();
    let names: Vec<_> = journal.iter().map(|entry| entry.id.to_string()).collect();
    assert_eq!(names, [format!("{}/end", first.id.tx()), format!("{}/freeze", second.id.tx())], "the newest two");
    assert!(journal[0].place < journal[1].place && journal[0].lines.len() == 3);
    let frozen = AccountId::frozen(&stall.buyer.tenant, &stall.buyer.user);
    let lines = stall.market.lines(&frozen, 2).await.unwrap();
    let told: Vec<_> = lines.iter().map(|line| (line.kind.name(), line.balance_after)).collect();
    assert_eq!(told, [("freeze", ut("120")), ("settle_out", Ut::ZERO)]);

    let stats = stall.market.stats(&stall.buyer).await.unwrap();
    assert_eq!((stats.spent, stats.recharged, stats.income), (ut("120"), ut("1000"), Ut::ZERO));
    assert_eq!(stall.market.stats(&stall.seller).await.unwrap().income, ut("108"));
}

#[tokio::test]
async fn more_lines_than_a_page_of_the_store_are_all_there() {
    let stall = Stall::open().await;
    for n in 0..(AT_ONCE + 5) {
        stall.market.credit(&stall.seller.user, ut("0.01"), &format!("drop {n}"), None).await.unwrap();
    }
    let lines = stall.market.statement(&stall.seller, None, page(1, 100)).await.unwrap();
    assert_eq!(lines.total, AT_ONCE as u64 + 5);
    assert_eq!(stall.market.stats(&stall.seller).await.unwrap().recharged, ut("10.05"));
    assert_eq!(stall.found().await, [""; 0]);
}

#[tokio::test]
async fn a_reference_is_booked_once() {
    let stall = Stall::open().await;
    let user = &stall.buyer.user;
    let again = stall.market.credit(user, ut("1000"), "welcome", Some("said otherwise".into())).await.unwrap();
    assert_eq!(again.available, ut("1000"), "the same credit twice is one");
    let more = stall.market.credit(user, ut("1001"), "welcome", None).await.unwrap_err();
    assert!(matches!(more, Error::Taken("credit")), "{more}");
    let other = stall.market.credit(&stall.seller.user, ut("1000"), "welcome", None).await.unwrap_err();
    assert!(matches!(other, Error::Taken("credit")), "{other}");
    assert_eq!(stall.market.credit(user, ut("0.5"), "second", None).await.unwrap().available, ut("1000.5"));
    for (amount, reference) in [("0", "r"), ("-1", "r"), ("1", ""), ("1", "a\u{1f}b")] {
        let refused = stall.market.credit(user, ut(amount), reference, None).await.unwrap_err();
        assert!(matches!(refused, Error::Fields(_)), "{amount} {reference:?}: {refused}");
    }
    let nobody = stall.market.credit(&"u_nobody".into(), ut("1"), "r", None).await.unwrap_err();
    assert!(matches!(nobody, Error::Unknown(MarketEntity::User)), "{nobody}");
    assert_eq!(stall.found().await, [""; 0]);
}

#[tokio::test]
async fn credits_of_one_reference_that_come_together_are_one() {
    let stall = Stall::open().await;
    let calls = (0..16).map(|_| stall.market.credit(&stall.seller.user, ut("7"), "once", None));
    for done in futures_util::future::join_all(calls).await {
        assert_eq!(done.unwrap().available, ut("7"));
    }
}

#[tokio::test]
async fn a_market_that_kept_its_word_is_found_so() {
    let stall = Stall::open().await;
    assert_eq!(stall.found().await, [""; 0]);
    stall.sold().await;
    for action in [TransactionAction::Cancel, TransactionAction::Freeze] {
        let id = stall.buy().await.id;
        stall.act(&stall.buyer, id, action).await;
    }
    let refused = stall.buy().await.id;
    stall.act(&stall.buyer, refused, TransactionAction::Freeze).await;
    stall.act(&stall.seller, refused, TransactionAction::Reject { reason: None }).await;
    let report = stall.market.verify().await.unwrap();
    assert_eq!(report.words().collect::<Vec<_>>(), [""; 0]);
    assert!(report.is_clean() && !report.moving);
    // One open, one settled and one rejected purchase hold or held money; the one cancelled before never did.
    assert_eq!((report.transactions, report.holds, report.entries, report.others), (4, 3, 6, 0));
    assert_eq!(report.accounts, 5, "outside, commission, and what buyer and seller have");
}

#[tokio::test]
async fn rows_that_were_changed_behind_the_markets_back_are_found() {
    let stall = Stall::open().await;
    let sold = stall.sold().await;
    let cheaper = Transaction { price: ut("100"), ..sold.clone() };
    stall.rewrite(&cheaper).await;
    let found = stall.found().await;
    assert!(found.iter().any(|words| words.contains("not what transaction")), "{found:?}");
    assert!(found.iter().any(|words| words.contains("hold of")), "{found:?}");
    stall.rewrite(&sold).await;
    assert_eq!(stall.found().await, [""; 0]);

    // Money is held, and its purchase is in a state that has no hold, has ended, or is missing.
    let open = stall.buy().await.id;
    let ordered = stall.row(open).await;
    stall.act(&stall.buyer, open, TransactionAction::Freeze).await;
    let frozen = stall.row(open).await;
    stall.rewrite(&Transaction { version: frozen.version, ..ordered }).await;
    let found = stall.found().await;
    assert!(found.iter().any(|words| words.contains("hold of") && words.contains("explains it")), "{found:?}");
    let status = market_rules::transaction::Status::CancelledByBuyer;
    stall.rewrite(&Transaction { status, due: None, ..frozen.clone() }).await;
    let found = stall.found().await;
    assert!(found.iter().any(|words| words.contains("hold of") && words.contains("not what")), "{found:?}");
    let (kind, key) = (Arc::<str>::from(records::TRANSACTIONS.kind()), records::transaction_key(open));
    stall.write(RecordChange::Remove { kind: kind.clone(), key: key.clone(), expect: Expect::Any }).await;
    let found = stall.found().await;
    assert!(found.iter().any(|words| words.contains("no transaction explains it")), "{found:?}");
    let (body, lists) = (bytes::Bytes::from_static(b"\x01{"), vec![listed(ALL, 0)]);
    stall.write(RecordChange::Put { kind, key: key.clone(), expect: Expect::Any, body, lists: lists.clone() }).await;
    let found = stall.found().await;
    assert!(found.iter().any(|words| words.contains("cannot be read")), "{found:?}");
    stall.write(records::TRANSACTIONS.put(key, Expect::Any, &frozen, lists.clone())).await;
    assert_eq!(stall.found().await, [""; 0]);

    // A purchase implies a hold that does not exist.
    let stray: TransactionId = "01jqxyz0000000000000000000".parse().unwrap();
    let other = Transaction { id: stray, ..frozen };
    stall.write(records::TRANSACTIONS.put(records::transaction_key(stray), Expect::Any, &other, lists)).await;
    let found = stall.found().await;
    assert!(found.iter().any(|words| words.contains("hold of") && words.contains("missing")), "{found:?}");
}

#[tokio::test]
async fn a_purchase_whose_task_shows_something_else_is_found() {
    let stall = Stall::open().await;
    let id = stall.buy().await.id;
    stall.act(&stall.buyer, id, TransactionAction::Cancel).await;
    let back = Transaction { status: market_rules::transaction::Status::PendingFreeze, ..stall.row(id).await };
    stall.rewrite(&back).await;
    let found = stall.market.verify().await.unwrap();
    let expected = Mismatch::Task { transaction: id, status: "pending_freeze", state: State::Canceled };
    assert_eq!((found.differences, found.mismatches), (Vec::new(), vec![expected]));
}

#[tokio::test]
async fn entries_that_nothing_explains_are_found_and_those_of_others_left_alone() {
    let stall = Stall::open().await;
    stall.sold().await;
    let other = |account: &str, amount| Moved { account: account.into(), amount, floor: None };
    let shop = Kept {
        id: Uuid::from_u128(1),
        at: stall.market.now(),
        body: bytes::Bytes::from_static(b"{\"shop\":1}"),
        postings: vec![other("shop/stock", -1), other("shop/sold", 1)],
    };
    stall.book(shop.clone()).await;
    let report = stall.market.verify().await.unwrap();
    assert_eq!((report.words().collect::<Vec<_>>(), report.others), (vec![], 1));

    let buyer: Arc<str> = AccountId::available(&stall.buyer.tenant, &stall.buyer.user).key().into();
    let into_ours = vec![other("shop/stock", -5), other(&buyer, 5)];
    stall.book(Kept { id: Uuid::from_u128(2), postings: into_ours, ..shop.clone() }).await;
    let found = stall.found().await;
    assert!(found.iter().any(|words| words.contains("nobody knows what it says")), "{found:?}");
    assert!(found.iter().any(|words| words.contains("the row says 880.05 after 2 lines")), "{found:?}");
    assert!(found.iter().any(|words| words.contains("sum to 0.05, not to zero")), "{found:?}");
}

#[tokio::test]
async fn an_entry_that_moved_other_amounts_than_it_says_is_found() {
    let stall = Stall::open().await;
    let (tenant, user) = (&stall.buyer.tenant, &stall.buyer.user);
    let said = LedgerEntry::recharge(tenant, user, ut("1"), "second", None, stall.market.now()).unwrap();
    let mut moved = records::entry(&said);
    for posting in &mut moved.postings {
        posting.amount *= 9;
    }
    stall.book(moved).await;
    let found = stall.market.verify().await.unwrap();
    assert_eq!(found.mismatches, [Mismatch::Moved { entry: said.id().to_string() }]);
    assert_eq!(found.differences.len(), 2, "both accounts have eight too many: {:?}", found.differences);

    let stall = Stall::open().await;
    let said = LedgerEntry::recharge(tenant, user, ut("1"), "second", None, stall.market.now()).unwrap();
    stall.book(Kept { id: Uuid::from_u128(3), ..records::entry(&said) }).await;
    let found = stall.market.verify().await.unwrap();
    assert!(matches!(&found.mismatches[..], [Mismatch::Misnamed { .. }]), "{:?}", found.mismatches);
}

#[tokio::test]
async fn a_market_at_work_is_looked_at_again() {
    let stall = Stall::open().await;
    let work = async {
        for _ in 0..3 {
            stall.sold().await;
        }
    };
    let check = async {
        for _ in 0..10 {
            assert_eq!(stall.found().await, [""; 0]);
            tokio::task::yield_now().await;
        }
    };
    tokio::join!(work, check);
    assert_eq!(stall.found().await, [""; 0]);
}

impl Stall {
    async fn book(&self, entry: Kept) {
        let commit = Commit { entries: vec![entry], ..Commit::default() };
        assert_eq!(self.store.commit(commit).await, Outcome::Done);
    }
}

#[test]
fn accounts_are_known_by_their_keys() {
    let tenant: Arc<str> = "default".into();
    let user = UserId::from("u_1");
    for account in [
        AccountId::available(&tenant, &user),
        AccountId::frozen(&tenant, &user),
        AccountId::commission(&tenant),
        AccountId::outside(&tenant),
    ] {
        assert_eq!(verify::account_of(&account.key()), Some(account));
    }
    for other in ["", "a", "a\u{1f}t", "c\u{1f}t\u{1f}u", "a\u{1f}t\u{1f}u\u{1f}v", "shop\u{1f}t\u{1f}u"] {
        assert_eq!(verify::account_of(other), None, "{other:?}");
    }
}
