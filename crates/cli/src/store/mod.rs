//! The stores in this binary: `store` in the config and `--store`, and how a store is opened, copied and filled.
//!
//! [`STORES`] lists the kinds, and the rest of the binary names none of them. SQLite in the data folder is the default.
//! A database may be shared by any number of replicas. Their keys must be the same everywhere: the database records
//! them, and a replica with others is refused before it serves a request.

mod postgres;
mod sqlite;

use std::fmt;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use model::ports::Future;
use model::ports::store::Store;
use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use stores::folder::{self, Lock, LockError};
use stores::migrate::{MigrationStep, Summary};

/// The first is the default and is in the data folder. The last takes every address that no other one claims: it says
/// what is wrong with it, or reads the address that `env:NAME` or `file:PATH` refers to.
pub(crate) static STORES: &[&dyn StoreKind] = &[&sqlite::Sqlite, &postgres::Postgres];

/// A kind of store. The defaults are right for a store in the data folder.
pub(crate) trait StoreKind: Sync {
    /// The name in the config, as in `Health::kind`.
    fn name(&self) -> &'static str;

    /// How a location is written, for people.
    fn form(&self) -> &'static str;

    /// The schemes of its addresses; none for a store that is in the data folder and is written as its name.
    fn schemes(&self) -> &'static [&'static str];

    /// The tools that copy it, where `rialto backup` and `rialto restore` do not.
    fn tools(&self) -> Option<OwnTools> {
        None
    }

    /// Whether the data folder has data; a store elsewhere is asked when it is opened.
    fn has_data(&self, folder: &Path) -> bool {
        let _ = folder;
        true
    }

    /// The file in the data folder that reports a loss until an operator removes it.
    fn loss_file(&self) -> Option<&'static str> {
        None
    }

    /// Checks the values.
    fn check(&self, location: &WrittenStore) -> anyhow::Result<()> {
        let _ = location;
        Ok(())
    }

    /// A warning about a form that works but should be changed.
    fn warning(&self, location: &WrittenStore) -> Option<&'static str> {
        let _ = location;
        None
    }

    /// The location without secrets, for people; none for a data folder, which is shown anyway.
    fn shown(&self, location: &WrittenStore) -> Option<String> {
        let _ = location;
        None
    }

    /// Overrides the lease.
    fn set_lease(&self, location: &mut WrittenStore, lease: Duration) -> anyhow::Result<()> {
        let _ = (location, lease);
        bail!("--lease is for a PostgreSQL store: name one with --store or in the config")
    }

    /// The options, with their secrets. It opens nothing.
    fn options(&self, location: &WrittenStore, tuning: &StoreTuning<'_>) -> anyhow::Result<Box<dyn StoreOptions>>;

    /// Puts a file that `rialto backup` wrote in place of the data.
    fn restore(&self, folder: &Path, backup: RestoreFile<'_>) -> anyhow::Result<()> {
        let _ = (folder, backup);
        bail!("the store {} has no backups of rialto", self.name())
    }

    /// Copies a data folder into it, or compares the two.
    fn migrate<'a>(
        &self,
        location: &WrittenStore,
        migration: FolderMigration<'a>,
    ) -> anyhow::Result<MigrationFuture<'a>> {
        let _ = (location, migration);
        bail!(
            "where to? name an empty database with --to postgres://user@host/database, --to env:NAME or in the config"
        )
    }
}

/// The commands of a database's own tools.
pub(crate) struct OwnTools {
    /// The program that copies it.
    pub(crate) dump: &'static str,
    pub(crate) backup: &'static str,
    pub(crate) restore: &'static str,
}

/// The settings of a store besides its location.
pub(crate) struct StoreTuning<'a> {
    pub(crate) data: &'a Path,
    /// Limits of the write-ahead log are for servers: an operator's command writes little.
    pub(crate) is_server: bool,
    /// An answer does not wait for the disk.
    pub(crate) relaxed: bool,
    pub(crate) wal_mib: Option<u64>,
}

impl StoreTuning<'_> {
    /// For an operator's command.
    pub(crate) fn of_command(data: &Path) -> StoreTuning<'_> {
        StoreTuning { data, is_server: false, relaxed: false, wal_mib: None }
    }
}

/// A store that can be opened.
pub(crate) trait StoreOptions: Send {
    fn open(self: Box<Self>) -> Future<'static, anyhow::Result<Arc<dyn Store>>>;
}

/// A backup to restore. `open` opens the data in a folder and closes it again.
pub(crate) struct RestoreFile<'a> {
    pub(crate) file: &'a Path,
    pub(crate) replace: bool,
    pub(crate) open: &'a dyn Fn(&Path) -> anyhow::Result<()>,
}

/// A migration at work, which is not moved between threads: it reads the data folder on its own.
pub(crate) type MigrationFuture<'a> = Pin<Box<dyn std::future::Future<Output = anyhow::Result<Summary>> + 'a>>;

/// The copy of a data folder into another store.
pub(crate) struct FolderMigration<'a> {
    pub(crate) from: &'a Path,
    /// Values that replicas must agree on from the beginning.
    pub(crate) notes: Vec<(String, String)>,
    pub(crate) verify_only: bool,
    pub(crate) tell: &'a mut dyn FnMut(MigrationStep),
}

/// How locations of all kinds are written, for people.
fn forms() -> String {
    STORES.iter().map(|kind| kind.form()).collect::<Vec<_>>().join(", ")
}

/// The kind with the name that the findings of `rialto doctor` have.
pub(crate) fn kind_named(name: &str) -> Option<&'static dyn StoreKind> {
    STORES.iter().copied().find(|kind| kind.name() == name)
}

/// A PostgreSQL database that replicas share.
// The text above, the name and the texts of the fields are in the schema. References to secrets, not their values.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Postgres")]
pub(crate) struct WrittenStore {
    /// `postgres://user@host/database`; or `env:NAME` or `file:PATH`, where the whole of it is, so that no password stands
    /// in the config.
    url: String,
    /// Where the password is, if it is not in the above: `env:NAME` or `file:PATH`.
    #[serde(default)]
    password: Option<String>,
    /// The same database without a connection pooler between, for wake-ups; written as `url` is. Needed when the pooler
    /// hands out a connection for a transaction only. Default: `url`.
    #[serde(default)]
    direct_url: Option<String>,
    /// How long a replica may be silent before others take up its turns, in milliseconds. Default 5000.
    #[serde(default)]
    lease_ms: Option<u64>,
    /// Connections that read. Default 4.
    #[serde(default)]
    readers: Option<usize>,
}

/// What may stand at `store`, for the schema: `sqlite` or an address, or the long form.
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "only its schema is wanted")]
#[schemars(rename = "Written")]
pub(crate) enum StoreForms {
    Short(String),
    Long(WrittenStore),
}

/// The store as written. Parsing refuses nothing that [`StoreLocation::check`] does: a parser's error repeats the text,
/// and that may contain a password in the wrong place.
#[derive(Clone)]
pub(crate) struct StoreLocation {
    kind: &'static dyn StoreKind,
    written: WrittenStore,
}

/// Keeps secrets out of logs.
impl fmt::Debug for StoreLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(self.kind.name()).field("url", &self.shown()).finish_non_exhaustive()
    }
}

impl Default for StoreLocation {
    fn default() -> StoreLocation {
        StoreLocation { kind: STORES[0], written: WrittenStore::default() }
    }
}

impl<'de> Deserialize<'de> for StoreLocation {
    /// Implemented by hand, so that an error in the long form names its line and the nearest key.
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = StoreLocation;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}, env:NAME, file:PATH, or a mapping with a url", forms())
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<StoreLocation, E> {
                Ok(StoreLocation::named(text))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<StoreLocation, A::Error> {
                WrittenStore::deserialize(MapAccessDeserializer::new(map)).map(StoreLocation::at)
            }
        }
        d.deserialize_any(Either)
    }
}

impl std::str::FromStr for StoreLocation {
    type Err = std::convert::Infallible;
    fn from_str(text: &str) -> Result<StoreLocation, Self::Err> {
        Ok(StoreLocation::named(text))
    }
}

impl StoreLocation {
    /// A store in the data folder by its name, or another by its address.
    fn named(text: &str) -> StoreLocation {
        match STORES.iter().find(|kind| kind.schemes().is_empty() && kind.name() == text) {
            Some(kind) => StoreLocation { kind: *kind, written: WrittenStore::default() },
            None => StoreLocation::at(WrittenStore { url: text.to_owned(), ..WrittenStore::default() }),
        }
    }

    fn at(written: WrittenStore) -> StoreLocation {
        let scheme = written.url.split_once("://").map_or("", |(scheme, _)| scheme);
        let claimed = STORES.iter().find(|kind| kind.schemes().contains(&scheme));
        StoreLocation { kind: *claimed.unwrap_or(&STORES[STORES.len() - 1]), written }
    }

    /// Whether the data is in the data folder, for one server.
    pub(crate) fn is_in_folder(&self) -> bool {
        is_in_folder(self.kind)
    }

    pub(crate) fn kind(&self) -> &'static dyn StoreKind {
        self.kind
    }

    /// Checks the values.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        self.kind.check(&self.written)
    }

    /// A warning about a form that works but should be changed.
    pub(crate) fn warning(&self) -> Option<&'static str> {
        self.kind.warning(&self.written)
    }

    /// The database without secrets, for people; none for a data folder, which is shown anyway.
    pub(crate) fn shown(&self) -> Option<String> {
        self.kind.shown(&self.written)
    }

    /// The location for people, without secrets.
    pub(crate) fn in_words(&self) -> String {
        self.shown().unwrap_or_else(|| self.kind.name().to_owned())
    }

    /// Overrides the lease.
    pub(crate) fn set_lease(&mut self, lease: Duration) -> anyhow::Result<()> {
        self.kind.set_lease(&mut self.written, lease)
    }

    /// The store to open, with its secrets.
    pub(crate) fn options(&self, tuning: &StoreTuning<'_>) -> anyhow::Result<StoreChoice> {
        let options = self.kind.options(&self.written, tuning)?;
        Ok(StoreChoice { options, locks_folder: !self.is_in_folder() })
    }

    /// Copies a data folder into it, or compares the two.
    pub(crate) fn migrate<'a>(&self, migration: FolderMigration<'a>) -> anyhow::Result<MigrationFuture<'a>> {
        self.kind.migrate(&self.written, migration)
    }
}

pub(crate) fn is_in_folder(kind: &dyn StoreKind) -> bool {
    kind.schemes().is_empty()
}

/// The store to open.
pub(crate) struct StoreChoice {
    options: Box<dyn StoreOptions>,
    /// A store in the data folder locks it itself.
    locks_folder: bool,
}

impl StoreChoice {
    /// Opens it for a server, which locks the data folder.
    pub(crate) async fn open(self, data: &Path) -> anyhow::Result<OpenedStore> {
        let folder = self.locks_folder.then(|| lock(data)).transpose()?;
        Ok(OpenedStore { store: self.visit().await?, _folder: folder })
    }

    /// Opens it for an operator's command, which needs no data folder beside a database.
    pub(crate) async fn visit(self) -> anyhow::Result<Arc<dyn Store>> {
        self.options.open().await
    }
}

/// A store that a server has opened.
pub(crate) struct OpenedStore {
    pub(crate) store: Arc<dyn Store>,
    /// The lock on the data folder, where the store has none.
    _folder: Option<Lock>,
}

/// Creates the data folder if needed and locks it against other servers, as a store in the folder does.
fn lock(folder: &Path) -> anyhow::Result<Lock> {
    folder::lock(folder).map_err(|error| match error {
        LockError::InUse(holder) => anyhow::anyhow!(
            "the data folder {} is in use by another server ({holder}); every replica needs its own: name it with --data",
            folder.display()
        ),
        LockError::Io(error) => anyhow::Error::from(error).context(format!("cannot use the data folder {}", folder.display())),
    })
}

/// Records this replica's key in the shared store, or refuses the replica when the others have another key. A store of one
/// process agrees with every key.
pub(crate) async fn same_everywhere(
    store: &dyn Store,
    what: &str,
    fingerprint: &str,
    advice: &str,
) -> anyhow::Result<()> {
    let theirs = store.remember(what, fingerprint).await;
    let theirs =
        theirs.map_err(|trouble| anyhow::anyhow!("cannot ask the database which {what} it knows: {trouble}"))?;
    if theirs == fingerprint {
        return Ok(());
    }
    bail!(
        "the {what} of this server is not the one this database is used with: {advice}; if the old one is lost for good, stop every replica and run: delete from rialto.note where name = '{what}'"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn place(yaml: &str) -> StoreLocation {
        Config::parse(yaml).unwrap().store.unwrap_or_default()
    }

    fn wrong(yaml: &str) -> String {
        let read = Config::parse(yaml).and_then(|config| config.store.unwrap_or_default().check());
        format!("{:#}", read.unwrap_err())
    }

    #[test]
    fn the_store_is_the_first_of_the_list_unless_it_is_named() {
        for (yaml, name) in [
            ("", "sqlite"),
            ("store: sqlite\n", "sqlite"),
            ("store: postgres://u@h/d\n", "postgres"),
            ("store: postgres://u@one:5432,two:5433/d?target_session_attrs=read-write\n", "postgres"),
            ("store: postgres:///d?host=/run/postgresql\n", "postgres"),
            ("store: postgresql://u@h/d\n", "postgres"),
            // Known only when it is read.
            ("store: env:SOME_NAME\n", "postgres"),
        ] {
            assert_eq!(place(yaml).kind().name(), name, "{yaml}");
        }
    }

    /// The order and the names are in configs: [`STORES`].
    #[test]
    fn kinds_have_names_and_schemes_of_their_own_and_one_is_in_the_folder() {
        let mut claimed = std::collections::BTreeSet::new();
        for kind in STORES {
            assert!(claimed.insert(kind.name()), "{}", kind.name());
            for scheme in kind.schemes().iter().filter(|scheme| **scheme != kind.name()) {
                assert!(claimed.insert(scheme), "{scheme}");
            }
            assert!(place(&format!("store: '{}'\n", kind.form())).check().is_ok(), "{}", kind.form());
            assert_eq!(is_in_folder(*kind), kind.tools().is_none(), "{}", kind.name());
        }
        assert!(is_in_folder(STORES[0]) && !is_in_folder(STORES[STORES.len() - 1]));
    }

    #[test]
    fn what_is_wrong_is_told_with_what_is_right_and_without_the_secret() {
        for (yaml, says) in [
            ("store: mysql://h/d\n", "no store is called \"mysql\""),
            ("store: somewhere\n", "write sqlite, postgres://user@host/database"),
            ("store: postgres://h\n", "names no database"),
            ("store: { url: 'postgres://h/d', lease: 3 }\n", "did you mean `lease_ms`?"),
            ("store: { url: 'postgres://h/d', lease_ms: 3 }\n", "choose a number from 500 to 600000"),
            ("store: { url: sqlite }\n", "this is no address"),
            ("store: { readers: 3 }\n", "missing field `url`"),
        ] {
            let said = wrong(yaml);
            assert!(said.contains(says), "{yaml}: {said}");
            assert!(!said.contains("hidden"), "{said}");
        }
    }

    #[test]
    fn a_folder_has_one_server() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let held = lock(&data).unwrap();
        assert!(lock(&data).unwrap_err().to_string().contains("--data"));
        drop(held);
        lock(&data).unwrap();
    }
}
