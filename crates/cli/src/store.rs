//! `store` in the config and `--store`: where tasks are stored, and how the store is opened.
//!
//! SQLite in the data folder is the default. A PostgreSQL database may be shared by any number of replicas, each
//! with its own data folder for its socket and its keys. The keys must be the same everywhere: the database records
//! them, and a replica with others is refused before it serves a request.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use model::ports::store::Store;
use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use stores::folder::{self, Lock, LockError};
use stores::{postgres, sqlite};

use crate::config::secret;

/// The store as written: references to secrets, not their values. Parsing refuses nothing that [`StoreLocation::check`]
/// does: a parser's error repeats the text, and that may contain a password in the wrong place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum StoreLocation {
    #[default]
    Sqlite,
    Postgres(Postgres),
}

/// A PostgreSQL database that replicas share.
#[derive(Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Postgres {
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

/// Keeps secrets out of logs.
impl std::fmt::Debug for Postgres {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Postgres").field("url", &self.shown()).finish_non_exhaustive()
    }
}

/// What may stand at `store`, for the schema: `sqlite` or an address, or the long form.
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "only its schema is wanted")]
#[schemars(rename = "Written")]
pub(crate) enum StoreForms {
    Short(String),
    Long(Postgres),
}

impl<'de> Deserialize<'de> for StoreLocation {
    /// Implemented by hand, so that an error in the long form names its line and the nearest key.
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = StoreLocation;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("sqlite, postgres://user@host/database, env:NAME, file:PATH, or a mapping with a url")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<StoreLocation, E> {
                Ok(StoreLocation::named(text))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<StoreLocation, A::Error> {
                Postgres::deserialize(MapAccessDeserializer::new(map)).map(StoreLocation::Postgres)
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
    fn named(text: &str) -> StoreLocation {
        match text {
            "sqlite" => StoreLocation::Sqlite,
            url => StoreLocation::Postgres(Postgres { url: url.to_owned(), ..Postgres::default() }),
        }
    }

    /// Checks the values.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        match self {
            StoreLocation::Sqlite => Ok(()),
            StoreLocation::Postgres(place) => place.check(),
        }
    }

    pub(crate) fn is_postgres(&self) -> bool {
        matches!(self, StoreLocation::Postgres(_))
    }

    /// A warning about a form that works but should be changed.
    pub(crate) fn warning(&self) -> Option<&'static str> {
        match self {
            StoreLocation::Sqlite => None,
            StoreLocation::Postgres(place) => place.warning(),
        }
    }

    /// The database without secrets, for people; none for a data folder, which is shown anyway.
    pub(crate) fn shown(&self) -> Option<String> {
        match self {
            StoreLocation::Sqlite => None,
            StoreLocation::Postgres(place) => Some(place.shown()),
        }
    }

    /// Overrides the lease.
    pub(crate) fn set_lease(&mut self, lease: Duration) -> anyhow::Result<()> {
        match self {
            StoreLocation::Sqlite => bail!("--lease is for a PostgreSQL store: name one with --store or in the config"),
            StoreLocation::Postgres(place) => {
                place.lease_ms = Some(u64::try_from(lease.as_millis()).unwrap_or(u64::MAX));
                Ok(())
            }
        }
    }
}

impl Postgres {
    fn check(&self) -> anyhow::Result<()> {
        for (name, value, least, most) in
            [("lease_ms", self.lease_ms, 500, 600_000), ("readers", self.readers.map(|n| n as u64), 1, 1_000)]
        {
            if let Some(value) = value
                && !(least..=most).contains(&value)
            {
                bail!("store.{name}: {value} is out of range; choose a number from {least} to {most}");
            }
        }
        for written in std::iter::once(&self.url).chain(&self.direct_url) {
            if !is_reference(written) {
                Address::parse(written)?;
            }
        }
        Ok(())
    }

    /// A warning about a form that works but should be changed.
    fn warning(&self) -> Option<&'static str> {
        self.tells_password().then_some(
            "the database's password stands in the config or on the command line; write store: env:NAME or file:PATH and put the address there, or the password alone with store.password",
        )
    }

    /// Whether the config or the process list shows a password.
    fn tells_password(&self) -> bool {
        let tells = |written: &String| {
            !is_reference(written) && Address::parse(written).is_ok_and(|address| address.has_password())
        };
        tells(&self.url) || self.direct_url.as_ref().is_some_and(tells)
    }

    /// The options, with their secrets.
    pub(crate) fn options(&self) -> anyhow::Result<postgres::Options> {
        if let Some(warning) = self.warning() {
            tracing::warn!("{warning}");
        }
        let mut options = postgres::Options::new(self.whole(&self.url)?);
        options.direct_url = self.direct_url.as_deref().map(|direct| self.whole(direct)).transpose()?;
        if let Some(ms) = self.lease_ms {
            options.lease = Duration::from_millis(ms);
        }
        if let Some(readers) = self.readers {
            options.readers = readers;
        }
        Ok(options)
    }

    fn whole(&self, written: &str) -> anyhow::Result<String> {
        let text = if is_reference(written) { secret(written).context("store")? } else { written.to_owned() };
        let address = Address::parse(&text)?;
        match &self.password {
            Some(reference) => address.with_password(&secret(reference).context("store.password")?),
            None => Ok(text),
        }
    }

    /// User and address for people, never the secret.
    pub(crate) fn shown(&self) -> String {
        if is_reference(&self.url) {
            return format!("the database of {}", self.url);
        }
        match Address::parse(&self.url) {
            Ok(address) => address.shown(),
            Err(_) => "a database".to_owned(),
        }
    }
}

fn is_reference(written: &str) -> bool {
    written.starts_with("env:") || written.starts_with("file:")
}

/// The parts of an address: `scheme://login@place?settings`. Parsed by hand, since it may contain several hosts
/// with ports, separated by commas.
struct Address<'a> {
    scheme: &'a str,
    /// The user, with an optional colon and password.
    login: Option<&'a str>,
    /// The hosts and the database.
    place: &'a str,
    settings: Option<&'a str>,
}

impl<'a> Address<'a> {
    /// Errors do not repeat the address: it may contain a secret.
    fn parse(text: &'a str) -> anyhow::Result<Address<'a>> {
        let form = "write sqlite, postgres://user@host/database, or env:NAME or file:PATH where that is";
        let Some((scheme, rest)) = text.split_once("://") else { bail!("store: this is no address; {form}") };
        if !matches!(scheme, "postgres" | "postgresql") {
            bail!("store: no store is called {scheme:?}; {form}");
        }
        let (rest, settings) = rest.split_once('?').map_or((rest, None), |(rest, settings)| (rest, Some(settings)));
        let (login, place) = rest.rsplit_once('@').map_or((None, rest), |(login, place)| (Some(login), place));
        if place.split_once('/').is_none_or(|(_, database)| database.is_empty()) {
            bail!("store: the address names no database; {form}");
        }
        Ok(Address { scheme, login, place, settings })
    }

    fn has_password(&self) -> bool {
        let named = |setting: &str| setting.split('=').next() == Some("password");
        self.login.is_some_and(|login| login.contains(':'))
            || self.settings.is_some_and(|all| all.split('&').any(named))
    }

    /// Without settings and password.
    fn shown(&self) -> String {
        let user = self.login.map(|login| login.split(':').next().unwrap_or_default());
        let user = user.map(|user| format!("{user}@")).unwrap_or_default();
        format!("{}://{user}{}", self.scheme, self.place)
    }

    fn with_password(&self, password: &str) -> anyhow::Result<String> {
        let Some(user) = self.login.map(|login| login.split(':').next().unwrap_or(login)) else {
            bail!("store.password: whose password it is stands before the host; write postgres://user@host/database");
        };
        let mut whole = format!("{}://{user}:", self.scheme);
        for byte in password.bytes() {
            if byte.is_ascii_alphanumeric() {
                whole.push(char::from(byte));
            } else {
                whole.push_str(&format!("%{byte:02X}"));
            }
        }
        whole.push('@');
        whole.push_str(self.place);
        if let Some(settings) = self.settings {
            whole.push('?');
            whole.push_str(settings);
        }
        Ok(whole)
    }
}

/// An open store.
pub(crate) struct OpenedStore {
    pub(crate) store: Arc<dyn Store>,
    /// The same store, where replicas share it.
    pub(crate) shared: Option<Arc<postgres::PostgresStore>>,
    /// The lock on the data folder. SQLite has its own.
    _folder: Option<Lock>,
}

/// The store to open, with its secrets.
pub(crate) enum StoreOptions {
    Sqlite(sqlite::Options),
    Postgres { options: postgres::Options, shown: String },
}

impl StoreOptions {
    /// Opens it for a server, which locks the data folder.
    pub(crate) async fn open(self, data: &Path) -> anyhow::Result<OpenedStore> {
        match self {
            StoreOptions::Sqlite(_) => self.visit(data).await,
            StoreOptions::Postgres { .. } => {
                let folder = lock(data)?;
                Ok(OpenedStore { _folder: Some(folder), ..self.visit(data).await? })
            }
        }
    }

    /// Opens it for an operator's command, which needs no data folder beside a database.
    pub(crate) async fn visit(self, data: &Path) -> anyhow::Result<OpenedStore> {
        match self {
            StoreOptions::Sqlite(options) => {
                let store =
                    sqlite::SqliteStore::open(options).with_context(|| format!("cannot open {}", data.display()))?;
                Ok(OpenedStore { store: Arc::new(store), shared: None, _folder: None })
            }
            StoreOptions::Postgres { options, shown } => {
                let store =
                    postgres::PostgresStore::open(options).await.with_context(|| format!("cannot open {shown}"))?;
                let store = Arc::new(store);
                Ok(OpenedStore { store: store.clone(), shared: Some(store), _folder: None })
            }
        }
    }
}

/// Creates the data folder if needed and locks it against other servers, as SQLite does.
fn lock(folder: &Path) -> anyhow::Result<Lock> {
    folder::lock(folder).map_err(|error| match error {
        LockError::InUse(holder) => anyhow::anyhow!(
            "the data folder {} is in use by another server ({holder}); every replica needs its own: name it with --data",
            folder.display()
        ),
        LockError::Io(error) => anyhow::Error::from(error).context(format!("cannot use the data folder {}", folder.display())),
    })
}

/// Records this replica's key in the database, or refuses the replica when the others have another key.
pub(crate) async fn same_everywhere(
    store: &postgres::PostgresStore,
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

    fn options(yaml: &str) -> anyhow::Result<postgres::Options> {
        match place(yaml) {
            StoreLocation::Sqlite => bail!("sqlite"),
            StoreLocation::Postgres(place) => place.options(),
        }
    }

    #[test]
    fn the_store_is_sqlite_unless_it_is_named() {
        assert_eq!(place(""), StoreLocation::Sqlite);
        assert_eq!(place("store: sqlite\n"), StoreLocation::Sqlite);
        assert!(place("store: postgres://u@h/d\n").is_postgres());
        assert!(place("store: postgres://u@one:5432,two:5433/d?target_session_attrs=read-write\n").is_postgres());
        assert!(place("store: postgres:///d?host=/run/postgresql\n").is_postgres());
        assert!(place("store: env:SOME_NAME\n").is_postgres(), "known only when it is read");
    }

    #[test]
    fn the_long_form_says_more() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        std::fs::write(&file, "p@ss/word\n").unwrap();
        let yaml = format!(
            "store:\n  url: postgres://u@h:5/d?sslmode=require\n  direct_url: postgres://u@direct/d\n  lease_ms: 1500\n  readers: 7\n  password: file:{}\n",
            file.display()
        );
        let options = options(&yaml).unwrap();
        assert_eq!(options.url, "postgres://u:p%40ss%2Fword@h:5/d?sslmode=require");
        assert_eq!(options.direct_url.as_deref(), Some("postgres://u:p%40ss%2Fword@direct/d"));
        assert_eq!((options.lease, options.readers), (Duration::from_millis(1_500), 7));
    }

    #[test]
    fn the_whole_address_may_be_a_secret() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("address");
        std::fs::write(&file, "postgres://u:hidden@h/d\n").unwrap();
        let yaml = format!("store: file:{}\n", file.display());
        assert_eq!(options(&yaml).unwrap().url, "postgres://u:hidden@h/d");
        let StoreLocation::Postgres(place) = place(&yaml) else { panic!("a database") };
        assert!(!place.shown().contains("hidden") && !format!("{place:?}").contains("hidden"));
        std::fs::write(&file, "mysql://u:hidden@h/d\n").unwrap();
        let said = format!("{:#}", options(&yaml).err().unwrap());
        assert!(said.contains("no store is called \"mysql\"") && !said.contains("hidden"), "{said}");
    }

    /// The password is used, with a warning, and never shown.
    #[test]
    fn a_password_in_the_address_is_not_shown() {
        for yaml in [
            "store: postgres://u:hidden@h/d\n",
            "store: postgres://u@h/d?password=hidden\n",
            "store: { url: 'postgres://u:hidden@h/d' }\n",
        ] {
            let place = place(yaml);
            place.check().unwrap();
            assert!(place.warning().is_some_and(|said| said.contains("env:NAME")));
            assert!(options(yaml).unwrap().url.contains("hidden"));
            assert!(!format!("{place:?}").contains("hidden"), "{place:?}");
            assert_eq!(place.shown().unwrap(), "postgres://u@h/d");
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_what_is_right_and_without_the_secret() {
        for (yaml, says) in [
            ("store: mysql://h/d\n", "no store is called \"mysql\""),
            ("store: somewhere\n", "write sqlite, postgres://user@host/database"),
            ("store: postgres://h\n", "names no database"),
            ("store: { url: 'postgres://h/d', lease: 3 }\n", "did you mean `lease_ms`?"),
            ("store: { url: 'postgres://h/d', lease_ms: 3 }\n", "choose a number from 500 to 600000"),
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
