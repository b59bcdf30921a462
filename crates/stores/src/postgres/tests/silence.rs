//! A database that is cut off without a word: packets are dropped, or the server stands still. Every call is answered within
//! the lease, and that the database is out of reach is known as soon as a heartbeat is missing.

use std::sync::atomic::Ordering;
use std::time::Duration;

use cluster::Cluster;
use model::ports::store::{Outcome, StoreError, TaskLog as _, Upkeep as _};
use tokio::time::timeout;

use super::{HOLD, PASS, more, one, opening, options, proxy, put, until};
use crate::postgres::connect::{ConnectTarget, Sql};
use crate::postgres::{Options, PostgresStore};

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_cut_off_is_answered_within_the_lease() {
    let database = Cluster::shared().database();
    let (port, order) = proxy(Cluster::shared().port()).await;
    let lease = Duration::from_secs(5);
    let store = PostgresStore::open(Options { lease, ..options(database.url_at(port)) }).await.unwrap();
    assert_eq!(store.answers_within(), Some(lease * 9 / 10));
    let task = put(&store).await;
    store.head(task).await.unwrap();
    assert_eq!(store.trouble(), None);
    order.store(HOLD, Ordering::SeqCst);
    // The first ones do not know yet, those after them do.
    for round in ["at once", "later", "still"] {
        let (read, written, appended) = tokio::join!(
            timeout(lease, store.head(task)),
            timeout(lease, store.commit(one(opening()))),
            timeout(lease, store.commit(one(more(task, 1)))),
        );
        assert!(matches!(read, Ok(Err(StoreError::Unreachable(_)))), "{round}: {read:?}");
        for outcome in [written, appended] {
            assert!(matches!(outcome, Ok(Outcome::Refused(_) | Outcome::Unknown(_))), "{round}: {outcome:?}");
        }
        assert!(store.trouble().is_some(), "{round}");
    }
    order.store(PASS, Ordering::SeqCst);
    until("the trouble ends", || async { store.trouble().is_none().then_some(()) }).await;
    until("reads pass again", || async { store.head(task).await.ok() }).await;
    put(&store).await;
}

/// A heartbeat that is missing is known without asking anything.
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_heartbeat_is_trouble_before_any_call_fails() {
    let database = Cluster::shared().database();
    let (port, order) = proxy(Cluster::shared().port()).await;
    let store = PostgresStore::open(options(database.url_at(port))).await.unwrap();
    order.store(HOLD, Ordering::SeqCst);
    until("a heartbeat is missing", || async { store.trouble() }).await;
    order.store(PASS, Ordering::SeqCst);
    until("the lease is renewed again", || async { store.trouble().is_none().then_some(()) }).await;
}

static SETTINGS: Sql =
    Sql { text: "SELECT current_setting('tcp_user_timeout'), current_setting('tcp_keepalives_idle')", types: &[] };

/// Neither end keeps a connection whose other end is silent for a lease.
#[tokio::test]
async fn both_ends_of_a_connection_give_up_after_a_lease() {
    let database = Cluster::shared().database();
    let options = Options { lease: Duration::from_secs(4), ..Options::new(database.url()) };
    let target = ConnectTarget::new(&database.url(), false, &options).unwrap();
    assert_eq!(target.user_timeout(), Some(Duration::from_secs(4)));
    let db = target.connect().await.unwrap();
    let row = db.query(&SETTINGS, []).await.unwrap().remove(0);
    assert_eq!((row.get::<_, &str>(0), row.get::<_, &str>(1)), ("4000", "2"));
}
