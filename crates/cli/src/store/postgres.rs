//! PostgreSQL, which any number of replicas share. Each has its own data folder for its socket and its keys.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use model::ports::Future;
use model::ports::store::Store;
use stores::migrate;
use stores::postgres;

use super::{FolderMigration, MigrationFuture, OwnTools, StoreKind, StoreOptions, StoreTuning, WrittenStore, forms};
use crate::config::secret;

pub(super) struct Postgres;

impl StoreKind for Postgres {
    fn name(&self) -> &'static str {
        "postgres"
    }

    fn form(&self) -> &'static str {
        "postgres://user@host/database"
    }

    fn schemes(&self) -> &'static [&'static str] {
        &["postgres", "postgresql"]
    }

    fn tools(&self) -> Option<OwnTools> {
        Some(OwnTools {
            dump: "pg_dump",
            backup: "pg_dump -Fc -f FILE DATABASE",
            restore: "pg_restore -d DATABASE FILE",
        })
    }

    fn check(&self, location: &WrittenStore) -> anyhow::Result<()> {
        for (name, value, least, most) in
            [("lease_ms", location.lease_ms, 500, 600_000), ("readers", location.readers.map(|n| n as u64), 1, 1_000)]
        {
            if let Some(value) = value
                && !(least..=most).contains(&value)
            {
                bail!("store.{name}: {value} is out of range; choose a number from {least} to {most}");
            }
        }
        for written in addresses(location) {
            if !is_reference(written) {
                Address::parse(written)?;
            }
        }
        Ok(())
    }

    fn warning(&self, location: &WrittenStore) -> Option<&'static str> {
        let tells = |written: &String| {
            !is_reference(written) && Address::parse(written).is_ok_and(|address| address.has_password())
        };
        addresses(location).any(tells).then_some(
            "the database's password stands in the config or on the command line; write store: env:NAME or file:PATH and put the address there, or the password alone with store.password",
        )
    }

    fn shown(&self, location: &WrittenStore) -> Option<String> {
        let url = &location.url;
        if is_reference(url) {
            return Some(format!("the database of {url}"));
        }
        Some(Address::parse(url).map_or_else(|_| "a database".to_owned(), |address| address.shown()))
    }

    fn set_lease(&self, location: &mut WrittenStore, lease: Duration) -> anyhow::Result<()> {
        location.lease_ms = Some(u64::try_from(lease.as_millis()).unwrap_or(u64::MAX));
        Ok(())
    }

    fn options(&self, location: &WrittenStore, tuning: &StoreTuning<'_>) -> anyhow::Result<Box<dyn StoreOptions>> {
        let mut options = options(location)?;
        if tuning.relaxed {
            options.durability = postgres::SqliteDurability::Relaxed;
        }
        Ok(Box::new(Database { options, shown: self.shown(location).unwrap_or_default() }))
    }

    fn migrate<'a>(
        &self,
        location: &WrittenStore,
        migration: FolderMigration<'a>,
    ) -> anyhow::Result<MigrationFuture<'a>> {
        let FolderMigration { from, notes, verify_only, tell } = migration;
        let mut options = migrate::Options::new(from, options(location)?);
        options.notes = notes;
        Ok(Box::pin(async move {
            let done = match verify_only {
                true => migrate::verify(&options, tell).await,
                false => migrate::run(&options, tell).await,
            };
            Ok(done?)
        }))
    }
}

/// A database to open.
struct Database {
    options: postgres::Options,
    shown: String,
}

impl StoreOptions for Database {
    fn open(self: Box<Self>) -> Future<'static, anyhow::Result<Arc<dyn Store>>> {
        Box::pin(async move {
            let Database { options, shown } = *self;
            let store = postgres::PostgresStore::open(options).await.with_context(|| format!("cannot open {shown}"))?;
            Ok(Arc::new(store) as Arc<dyn Store>)
        })
    }
}

/// The options, with their secrets.
fn options(location: &WrittenStore) -> anyhow::Result<postgres::Options> {
    if let Some(warning) = Postgres.warning(location) {
        tracing::warn!("{warning}");
    }
    let mut options = postgres::Options::new(with_secrets(location, &location.url)?);
    let direct = location.direct_url.as_deref();
    options.direct_url = direct.map(|direct| with_secrets(location, direct)).transpose()?;
    if let Some(ms) = location.lease_ms {
        options.lease = Duration::from_millis(ms);
    }
    if let Some(readers) = location.readers {
        options.readers = readers;
    }
    Ok(options)
}

/// An address of the location, with the secrets that it refers to.
fn with_secrets(location: &WrittenStore, written: &str) -> anyhow::Result<String> {
    let text = if is_reference(written) { secret(written).context("store")? } else { written.to_owned() };
    let address = Address::parse(&text)?;
    match &location.password {
        Some(reference) => address.with_password(&secret(reference).context("store.password")?),
        None => Ok(text),
    }
}

fn addresses(location: &WrittenStore) -> impl Iterator<Item = &String> {
    std::iter::once(&location.url).chain(&location.direct_url)
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
        let form = format!("write {}, or env:NAME or file:PATH where that is", forms());
        let Some((scheme, rest)) = text.split_once("://") else { bail!("store: this is no address; {form}") };
        if !Postgres.schemes().contains(&scheme) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::store::StoreLocation;

    fn location(yaml: &str) -> StoreLocation {
        Config::parse(yaml).unwrap().store.unwrap_or_default()
    }

    fn options(yaml: &str) -> anyhow::Result<postgres::Options> {
        super::options(&location(yaml).written)
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
        let place = location(&yaml);
        assert!(!place.shown().unwrap().contains("hidden") && !format!("{place:?}").contains("hidden"));
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
            let place = location(yaml);
            place.check().unwrap();
            assert!(place.warning().is_some_and(|said| said.contains("env:NAME")));
            assert!(options(yaml).unwrap().url.contains("hidden"));
            assert!(!format!("{place:?}").contains("hidden"), "{place:?}");
            assert_eq!(place.shown().unwrap(), "postgres://u@h/d");
        }
    }
}
