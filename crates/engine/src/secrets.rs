//! The server's own secrets: keys that sign logins, confirmations, callbacks, tokens and file addresses. Each is one
//! record, made by the first process that needs it, the same for every process on the store, and encrypted at rest.
//!
//! Earlier releases stored them in clear. Such a record is read, and encrypted by the first process with a sealer.

use bytes::Bytes;
use model::ports::sealer::Sealer;
use model::ports::store::{Commit, Outcome, Store};
use model::{Expect, Fault, Listed, RecordChange};

use crate::troubled;

/// The prefix of a sealed secret. No secret in clear begins with it: those are rows with a version byte, or 32 random
/// bytes.
const SEALED: &[u8] = b"sealed:1:";
/// Attempts to read the record after other processes changed it.
const ATTEMPTS: u32 = 5;

/// The record of a secret.
#[derive(Clone, Debug)]
pub struct SecretPlace {
    pub kind: &'static str,
    pub key: &'static str,
    /// The lists of its record.
    pub lists: Vec<Listed>,
}

impl SecretPlace {
    /// The text that the encryption is bound to, so that a sealed secret is invalid in another record.
    fn about(&self) -> String {
        format!("{}\0{}", self.kind, self.key)
    }

    fn put(&self, expect: Expect, body: Bytes) -> RecordChange {
        RecordChange::Put { kind: self.kind.into(), key: self.key.into(), expect, body, lists: self.lists.clone() }
    }
}

/// The secret in this record, drawn now if there is none.
pub async fn own_secret(
    store: &dyn Store,
    sealer: Option<&dyn Sealer>,
    place: &SecretPlace,
    draw: impl Fn() -> Result<Vec<u8>, Fault>,
) -> Result<Bytes, Fault> {
    let written = |secret: &[u8]| -> Result<Bytes, Fault> {
        let Some(sealer) = sealer else { return Ok(Bytes::copy_from_slice(secret)) };
        let sealed = sealer.seal_secret(&place.about(), secret)?;
        Ok([SEALED, &sealed].concat().into())
    };
    for _ in 0..ATTEMPTS {
        let found = store.record(place.kind.into(), place.key.into()).await.map_err(troubled)?;
        let (secret, expect, is_kept) = match &found {
            None => (Bytes::from(draw()?), Expect::Absent, false),
            Some(record) => {
                let version = Expect::Version(record.version);
                match (record.body.strip_prefix(SEALED), sealer) {
                    (None, None) => return Ok(record.body.clone()),
                    (None, Some(_)) => (record.body.clone(), version, true),
                    (Some(_), None) => return Err(no_key(place)),
                    (Some(sealed), Some(sealer)) => match sealer.open_secret(&place.about(), sealed) {
                        Ok(secret) => return Ok(secret.into()),
                        Err(fault) if !sealer.is_new() => return Err(fault),
                        Err(_) => {
                            tracing::error!(
                                "{} was sealed with a key that is gone; a new one is drawn, and what the old one signed \
                                 is good no more",
                                place.kind
                            );
                            (Bytes::from(draw()?), version, false)
                        }
                    },
                }
            }
        };
        let put = place.put(expect, written(&secret)?);
        match store.commit(Commit { records: vec![put], ..Commit::default() }).await {
            Outcome::Done => {
                if is_kept {
                    tracing::info!("{} was kept in the clear and is sealed now", place.kind);
                }
                return Ok(secret);
            }
            // Another process was faster, or the outcome is unknown: the next read decides.
            Outcome::Conflict(_) | Outcome::Unknown(_) => {}
            Outcome::Refused(trouble) if is_kept => {
                tracing::warn!("{} is kept in the clear and could not be sealed: {trouble}", place.kind);
                return Ok(secret);
            }
            Outcome::Refused(trouble) => return Err(troubled(trouble)),
        }
    }
    Err(Fault::internal(format!("{} cannot be kept: other processes change it all the time", place.kind)))
}

fn no_key(place: &SecretPlace) -> Fault {
    let says = format!(
        "{} is sealed, and the key of the seal was not given; name the server's config with --config, so that its \
         push.key_file is found",
        place.kind
    );
    Fault::new(model::Kind::Unavailable, says)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::ports::store::RecordStore as _;
    use stores::memory;

    use super::*;

    /// A test sealer: inverts every bit, and recognises its own output by a number.
    struct Turned {
        key: u8,
        new: bool,
    }

    impl Sealer for Turned {
        fn seal_secret(&self, about: &str, secret: &[u8]) -> Result<Vec<u8>, Fault> {
            let mut sealed = vec![self.key, about.len() as u8];
            sealed.extend(secret.iter().map(|byte| !byte));
            Ok(sealed)
        }
        fn open_secret(&self, about: &str, sealed: &[u8]) -> Result<Vec<u8>, Fault> {
            match sealed {
                [key, len, rest @ ..] if *key == self.key && usize::from(*len) == about.len() => {
                    Ok(rest.iter().map(|byte| !byte).collect())
                }
                _ => Err(Fault::internal("another key")),
            }
        }
        fn is_new(&self) -> bool {
            self.new
        }
    }

    const ONE: Turned = Turned { key: 1, new: false };

    fn place() -> SecretPlace {
        SecretPlace { kind: "test/secret", key: "own", lists: vec![Listed { list: "all".into(), rank: 7 }] }
    }

    async fn ask(store: &memory::MemoryStore, sealer: Option<&Turned>, drawn: &str) -> Result<Bytes, Fault> {
        own_secret(store, sealer.map(|sealer| sealer as &dyn Sealer), &place(), || Ok(drawn.as_bytes().to_vec())).await
    }

    async fn kept(store: &memory::MemoryStore) -> Bytes {
        store.record("test/secret".into(), "own".into()).await.unwrap().unwrap().body
    }

    #[tokio::test]
    async fn a_secret_is_drawn_once_and_never_readable() {
        let store = memory::MemoryStore::new();
        assert_eq!(ask(&store, Some(&ONE), "first").await.unwrap(), "first");
        assert_eq!(ask(&store, Some(&ONE), "second").await.unwrap(), "first");
        assert!(kept(&store).await.starts_with(SEALED));
        assert!(!kept(&store).await.windows(5).any(|piece| piece == b"first"));
    }

    #[tokio::test]
    async fn a_secret_in_the_clear_is_read_and_sealed_in_its_lists() {
        let store = memory::MemoryStore::new();
        assert_eq!(ask(&store, None, "first").await.unwrap(), "first");
        assert_eq!(kept(&store).await, "first", "as older releases kept it");
        assert_eq!(ask(&store, Some(&ONE), "second").await.unwrap(), "first");
        assert!(kept(&store).await.starts_with(SEALED));
        let (kind, list) = ("test/secret".into(), "all".into());
        let query = model::RecordQuery { kind, list, after: None, skip: 0, limit: 10, count: false };
        assert_eq!(store.records(query).await.unwrap().records[0].1, 7);
    }

    #[tokio::test]
    async fn another_key_opens_nothing_and_only_a_new_one_starts_over() {
        let store = Arc::new(memory::MemoryStore::new());
        ask(&store, Some(&ONE), "first").await.unwrap();
        assert!(ask(&store, None, "second").await.unwrap_err().message.contains("--config"));
        assert!(ask(&store, Some(&Turned { key: 2, new: false }), "second").await.is_err());
        assert_eq!(ask(&store, Some(&ONE), "second").await.unwrap(), "first", "nothing was changed");
        let new = Turned { key: 3, new: true };
        assert_eq!(ask(&store, Some(&new), "second").await.unwrap(), "second");
        assert!(ask(&store, Some(&ONE), "third").await.is_err());
    }
}
