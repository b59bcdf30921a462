//! Idempotency of a product's calls: the use of a caller's key is recorded in the commit that the call makes, with its
//! result. Messages to tasks do not need this; the store has a guard of its own for them.

use std::sync::Arc;

use model::ports::store::Store;
use model::record::joined;
use model::{Expect, Fault, Listed, RecordChange, Time};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{RecordCollection, expiry, read_fault};

/// The list of all uses of a kind, the oldest first.
const ALL: &str = "all";
/// Rows are a version byte, then JSON.
const V1: u8 = 1;

/// A caller's promise that a repeat with this key is the same request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Once {
    pub key: String,
    /// The hash of the request.
    pub print: [u8; 32],
}

/// The known use of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PriorUse<M> {
    /// The key is unused, or its use has expired.
    Unused(FreshKey),
    /// The same request was made with it and had this result.
    Same(M),
    /// Another request was made with it.
    Different,
}

/// The state of a request's key, where another request has not used it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyState<M> {
    /// The key is unused, or the request has none.
    Fresh(Option<FreshKey>),
    /// The same request was made with it and had this result.
    Used(M),
}

/// Performs a request once for its key: a repeat has the result of the first.
///
/// The key is looked up before the request and again after a refusal. A concurrent repeat may have been committed between
/// the first lookup and any later step of this one, and whatever that step met then (a state that has moved on, a limit
/// that is reached, a conflict), the result of the repeat answers both.
pub async fn perform_once<M, T, E, L, P, R>(
    lookup: impl Fn() -> L,
    perform: impl FnOnce(Option<FreshKey>) -> P,
    repeat: impl FnOnce(M) -> R,
) -> Result<T, E>
where
    L: Future<Output = Result<KeyState<M>, E>>,
    P: Future<Output = Result<T, E>>,
    R: Future<Output = Result<T, E>>,
{
    let fresh = match lookup().await? {
        KeyState::Fresh(fresh) => fresh,
        KeyState::Used(made) => return repeat(made).await,
    };
    let refused = match perform(fresh).await {
        Ok(done) => return Ok(done),
        Err(refused) => refused,
    };
    match lookup().await? {
        KeyState::Used(made) => repeat(made).await,
        KeyState::Fresh(_) => Err(refused),
    }
}

/// An unused key; it makes the record of its use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreshKey {
    kind: &'static str,
    key: Arc<str>,
    print: Arc<str>,
    expect: Expect,
}

#[derive(Serialize, Deserialize)]
struct UseRow<M> {
    print: Arc<str>,
    at: Time,
    made: M,
}

impl FreshKey {
    /// The record that has to be committed with the effects of the request.
    pub fn used_for<M: Serialize>(&self, made: M, at: Time) -> RecordChange {
        let row = UseRow { print: self.print.clone(), at, made };
        let mut body = vec![V1];
        // Writing into memory fails only for values that are no JSON, which no product makes.
        if let Err(error) = serde_json::to_writer(&mut body, &row) {
            debug_assert!(false, "{error}");
        }
        let lists = vec![Listed { list: ALL.into(), rank: expiry::rank(at) }];
        let (kind, key) = (self.kind.into(), self.key.clone());
        RecordChange::Put { kind, key, expect: self.expect, body: body.into(), lists }
    }
}

/// The keys that callers of one product have used.
#[derive(Clone, Copy, Debug)]
pub struct UsedKeys {
    kind: &'static str,
}

impl UsedKeys {
    /// `kind` is stored with every use and never changes.
    pub const fn new(kind: &'static str) -> UsedKeys {
        UsedKeys { kind }
    }

    /// Whether a record of this kind is meant, such as in a conflict: the same request was faster.
    pub fn is(self, kind: &str) -> bool {
        self.kind == kind
    }

    /// Looks a key up. `scope` keeps the keys of one caller apart from another's; a use before `since` has expired.
    pub async fn lookup<M: DeserializeOwned>(
        self,
        store: &dyn Store,
        scope: &[&str],
        once: &Once,
        since: Time,
    ) -> Result<PriorUse<M>, Fault> {
        let parts: Vec<&str> = scope.iter().copied().chain([once.key.as_str()]).collect();
        let key = hex(&Sha256::digest(&*joined(&parts)));
        let found = store.record(self.kind.into(), key.clone()).await.map_err(read_fault)?;
        let found = found.as_ref().map(|record| (&*record.body, record.version));
        self.prior_use(key, found, once, since)
    }

    fn prior_use<M: DeserializeOwned>(
        self,
        key: Arc<str>,
        found: Option<(&[u8], u64)>,
        once: &Once,
        since: Time,
    ) -> Result<PriorUse<M>, Fault> {
        let (kind, print) = (self.kind, hex(&once.print));
        let Some((body, version)) = found else {
            return Ok(PriorUse::Unused(FreshKey { kind, key, print, expect: Expect::Absent }));
        };
        let row: UseRow<M> = match body.split_first() {
            Some((&V1, json)) => serde_json::from_slice(json).map_err(Fault::internal)?,
            Some(_) | None => return Err(Fault::internal("an idempotency key is stored in a version that is unknown")),
        };
        if row.at < since {
            return Ok(PriorUse::Unused(FreshKey { kind, key, print, expect: Expect::Version(version) }));
        }
        Ok(if row.print == print { PriorUse::Same(row.made) } else { PriorUse::Different })
    }

    /// Removes uses before `since`; [`expiry::remove_older`] says how.
    pub async fn remove_older<F>(
        self,
        store: &dyn Store,
        since: Time,
        commit: impl Fn(Vec<RecordChange>) -> F,
    ) -> Result<(), Fault>
    where
        F: Future<Output = Result<bool, Fault>>,
    {
        expiry::remove_older(RecordCollection::<()>::new(self.kind), store, ALL, since, commit).await
    }
}

fn hex(bytes: &[u8]) -> Arc<str> {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: UsedKeys = UsedKeys::new("test/once");

    fn once(print: u8) -> Once {
        Once { key: "k".into(), print: [print; 32] }
    }

    fn prior(found: Option<(&[u8], u64)>, print: u8, since: i64) -> PriorUse<String> {
        KEYS.prior_use("hash".into(), found, &once(print), Time(since)).unwrap()
    }

    fn body(change: &RecordChange) -> &[u8] {
        match change {
            RecordChange::Put { body, .. } => body,
            RecordChange::Remove { .. } | RecordChange::Leave { .. } => panic!("a use is put"),
        }
    }

    #[test]
    fn a_repeat_is_known_by_its_key_and_its_request() {
        let PriorUse::Unused(fresh) = prior(None, 1, 0) else { panic!("unused") };
        let used = fresh.used_for("made", Time(10));
        assert_eq!(used.about().2, Expect::Absent);
        let found = Some((body(&used), 1));
        assert_eq!(prior(found, 1, 0), PriorUse::Same("made".to_owned()));
        assert_eq!(prior(found, 2, 0), PriorUse::Different);
    }

    #[test]
    fn a_use_that_has_expired_is_written_over_in_its_version() {
        let PriorUse::Unused(fresh) = prior(None, 1, 0) else { panic!("unused") };
        let used = fresh.used_for("made", Time(10));
        assert_eq!(prior(Some((body(&used), 4)), 1, 10), PriorUse::Same("made".to_owned()));
        let PriorUse::Unused(again) = prior(Some((body(&used), 4)), 2, 11) else { panic!("expired") };
        assert_eq!(again.used_for("other", Time(12)).about().2, Expect::Version(4));
    }

    #[test]
    fn the_stored_form_of_a_use_stays_as_it_is() {
        let fresh = FreshKey { kind: "test/once", key: "hash".into(), print: "ab".into(), expect: Expect::Absent };
        let used = fresh.used_for("made", Time(10));
        assert_eq!(body(&used), b"\x01{\"print\":\"ab\",\"at\":10,\"made\":\"made\"}");
        let RecordChange::Put { lists, .. } = used else { panic!("a use is put") };
        assert_eq!(lists, [Listed { list: "all".into(), rank: -10 }]);
    }

    /// The result of a request whose lookups find these states, and the number of times that it was performed.
    fn performed(states: [KeyState<&'static str>; 2], done: Result<String, String>) -> (Result<String, String>, u32) {
        let (states, performed) = (std::cell::RefCell::new(states.into_iter()), std::cell::Cell::new(0));
        let lookup = || std::future::ready(Ok(states.borrow_mut().next().expect("at most two lookups")));
        let perform = |_| {
            performed.set(performed.get() + 1);
            std::future::ready(done)
        };
        let repeat = |made: &str| std::future::ready(Ok(format!("again: {made}")));
        let mut once = std::pin::pin!(perform_once(lookup, perform, repeat));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match once.as_mut().poll(&mut context) {
            std::task::Poll::Ready(result) => (result, performed.get()),
            std::task::Poll::Pending => panic!("every future here is ready"),
        }
    }

    #[test]
    fn a_refusal_gives_way_to_the_result_of_a_concurrent_repeat() {
        use KeyState::{Fresh, Used};
        let (done, refused) = (|| Ok("done".to_owned()), || Err("refused".to_owned()));
        let again = || Ok("again: first".to_owned());
        assert_eq!(performed([Fresh(None), Fresh(None)], done()), (done(), 1));
        assert_eq!(performed([Used("first"), Fresh(None)], done()), (again(), 0));
        assert_eq!(performed([Fresh(None), Fresh(None)], refused()), (refused(), 1));
        assert_eq!(performed([Fresh(None), Used("first")], refused()), (again(), 1));
    }
}
