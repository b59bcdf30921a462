//! Large parts beside the log: once per tenant and content, as long as some task needs them.

use bytes::Bytes;
use model::TaskId;
use model::ports::store::{BlobWrite, Commit};

use super::Factory;
use super::kit::{DynStore, Say, commit, conflict, done, id, more, open, opening};

fn blob(tenant: &str, task: TaskId, hash: u8, bytes: &'static [u8]) -> BlobWrite {
    BlobWrite { tenant: tenant.into(), task, hash: [hash; 32], bytes: Bytes::from_static(bytes) }
}

async fn keep(store: &DynStore, tenant: &str, hash: u8, bytes: &'static [u8]) -> TaskId {
    let task = id();
    let blobs = vec![blob(tenant, task, hash, bytes)];
    done(store, Commit { blobs, ..commit([opening(task, 1).of(tenant)]) }).await;
    task
}

async fn read(store: &DynStore, tenant: &str, hash: u8) -> Option<Bytes> {
    store.blob(tenant.into(), [hash; 32]).await.unwrap()
}

pub(super) async fn a_blob_is_kept_per_tenant_and_hash(factory: &dyn Factory) {
    let store = factory.open().await;
    keep(&store, "a", 1, b"one").await;
    keep(&store, "a", 2, b"two").await;
    keep(&store, "a", 1, b"one").await;
    assert_eq!(read(&store, "a", 1).await.unwrap(), "one");
    assert_eq!(read(&store, "a", 2).await.unwrap(), "two");
    assert_eq!(read(&store, "a", 3).await, None);
    let health = store.health().await.unwrap();
    assert_eq!((health.blobs, health.blob_bytes), (2, 6));
}

pub(super) async fn a_blob_lives_as_long_as_its_last_task(factory: &dyn Factory) {
    let store = factory.open().await;
    let (first, second) = (keep(&store, "a", 1, b"one").await, keep(&store, "a", 1, b"one").await);
    // A task may use it twice; that counts once.
    let blobs = vec![blob("a", second, 1, b"one")];
    done(&store, Commit { blobs, ..commit([more(second, 1, 1)]) }).await;
    assert!(store.remove(second).await.unwrap());
    assert_eq!(read(&store, "a", 1).await.unwrap(), "one");
    assert!(store.remove(first).await.unwrap());
    assert_eq!(read(&store, "a", 1).await, None);
    let health = store.health().await.unwrap();
    assert_eq!((health.blobs, health.blob_bytes), (0, 0));
}

pub(super) async fn a_blob_of_another_tenant_is_missing(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = keep(&store, "a", 1, b"one").await;
    assert_eq!(read(&store, "b", 1).await, None);
    keep(&store, "b", 1, b"one").await;
    assert!(store.remove(task).await.unwrap());
    assert_eq!(read(&store, "a", 1).await, None);
    assert_eq!(read(&store, "b", 1).await.unwrap(), "one");
}

pub(super) async fn a_large_blob_comes_back_whole(factory: &dyn Factory) {
    let store = factory.open().await;
    let bytes: Bytes = (0..9_000_000_u32).map(|n| (n % 251) as u8).collect();
    let task = id();
    let write = BlobWrite { tenant: "a".into(), task, hash: [9; 32], bytes: bytes.clone() };
    done(&store, Commit { blobs: vec![write], ..commit([opening(task, 1)]) }).await;
    assert!(read(&store, "a", 9).await.unwrap() == bytes, "nine megabytes come back as they went in");
}

pub(super) async fn a_refused_commit_leaves_no_blob(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = open(&store, |a| a).await;
    let blobs = vec![blob("a", task, 1, b"one")];
    conflict(store.commit(Commit { blobs, ..commit([more(task, 9, 1)]) }).await);
    assert_eq!(read(&store, "a", 1).await, None);
}

pub(super) async fn a_blob_may_come_without_an_append(factory: &dyn Factory) {
    let store = factory.open().await;
    let (task, nobody) = (id(), id());
    done(&store, commit([opening(task, 1)])).await;
    let alone = |task, hash| Commit { blobs: vec![blob("a", task, hash, b"one")], ..Commit::default() };
    done(&store, alone(task, 1)).await;
    done(&store, alone(task, 1)).await;
    // Nothing would ever remove it again.
    done(&store, alone(nobody, 2)).await;
    assert_eq!(read(&store, "a", 1).await.as_deref(), Some(&b"one"[..]));
    assert_eq!(read(&store, "a", 2).await, None);
    let health = store.health().await.unwrap();
    assert_eq!((health.blobs, health.blob_bytes), (1, 3));
    assert!(store.remove(task).await.unwrap());
    assert_eq!(read(&store, "a", 1).await, None);
    assert_eq!(store.health().await.unwrap().blobs, 0);
}
