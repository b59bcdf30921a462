//! The market's own keys at rest.

use model::Fault;
use model::ports::sealer::Sealer;
use model::ports::store::RecordStore as _;

use super::*;

/// A trivial seal: the sealed text cannot be found by a search.
struct Turned;

impl Sealer for Turned {
    fn seal_secret(&self, _: &str, secret: &[u8]) -> Result<Vec<u8>, Fault> {
        Ok(secret.iter().map(|byte| !byte).collect())
    }
    fn open_secret(&self, _: &str, sealed: &[u8]) -> Result<Vec<u8>, Fault> {
        Ok(sealed.iter().map(|byte| !byte).collect())
    }
    fn is_new(&self) -> bool {
        false
    }
}

#[tokio::test]
async fn the_keys_of_logins_are_sealed_and_logins_from_before_stay_good() {
    let (old, store) = market().await;
    person(&old, "u_1").await;
    let tokens = old.log_in("u_1", PASSWORD, HERE).await.unwrap();
    let kept = || async { store.record("market/secrets".into(), "own".into()).await.unwrap().unwrap().body };
    let names_keys = |body: &[u8]| body.windows(7).any(|window| window == b"\"login\"");
    assert!(names_keys(&kept().await), "in the clear, as older releases kept them");
    let engine = Engine::builder(store.clone()).start().await.unwrap();
    engine.set_sealer(Arc::new(Turned));
    let new = Market::start(engine, MarketConfig::default(), false).await.unwrap();
    pass_s(&new, &store, 0);
    assert!(!names_keys(&kept().await), "sealed at the next start");
    let shown = Credentials { bearer: Some(&tokens.access_token), ..Credentials::default() };
    assert_eq!(new.who(shown).await.unwrap().user.as_str(), "u_1");
}
