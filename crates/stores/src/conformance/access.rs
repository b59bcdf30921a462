//! Keys that callers are known by.

use model::AccessKey;
use model::ports::store::Commit;

use super::Factory;
use super::kit::{at, done};

fn key(id: &str, name: &str) -> AccessKey {
    AccessKey {
        id: id.into(),
        name: name.into(),
        tenant: "acme".into(),
        scopes: vec!["read".into()],
        hash: [5; 32],
        prefix: "rk_1".into(),
        created_at: at(1),
        expires_at: Some(at(9)),
        revoked_at: None,
    }
}

fn put(keys: &[AccessKey]) -> Commit {
    Commit { access: keys.to_vec(), ..Commit::default() }
}

pub(super) async fn keys_are_kept_changed_and_listed(factory: &dyn Factory) {
    let store = factory.open().await;
    assert_eq!(store.access_keys().await.unwrap(), []);
    let (ann, bob) = (key("k1", "ann"), key("k2", "bob"));
    done(&store, put(&[bob.clone(), ann.clone()])).await;
    assert_eq!(store.access_keys().await.unwrap(), [ann.clone(), bob.clone()]);
    let revoked = AccessKey { revoked_at: Some(at(3)), ..ann };
    done(&store, put(std::slice::from_ref(&revoked))).await;
    assert_eq!(store.access_keys().await.unwrap(), [revoked, bob]);
}

pub(super) async fn after_reopening_keys_are_there(factory: &dyn Factory) {
    let store = factory.open().await;
    done(&store, put(&[key("k1", "ann")])).await;
    let Some(store) = factory.reopen(store).await else { return };
    assert_eq!(store.access_keys().await.unwrap(), [key("k1", "ann")]);
}
