//! SQLite in the data folder, for one server: the default.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use model::ports::Future;
use model::ports::store::Store;
use stores::sqlite;

use super::{RestoreFile, StoreKind, StoreOptions, StoreTuning, WrittenStore};

/// The database in the data folder.
const DATABASE: &str = "rialto.db";

pub(super) struct Sqlite;

impl StoreKind for Sqlite {
    fn name(&self) -> &'static str {
        "sqlite"
    }

    fn form(&self) -> &'static str {
        "sqlite"
    }

    fn schemes(&self) -> &'static [&'static str] {
        &[]
    }

    fn has_data(&self, folder: &Path) -> bool {
        folder.join(DATABASE).exists()
    }

    fn loss_file(&self) -> Option<&'static str> {
        Some(sqlite::COMMITS)
    }

    fn options(&self, _: &WrittenStore, tuning: &StoreTuning<'_>) -> anyhow::Result<Box<dyn StoreOptions>> {
        let mut options = sqlite::Options::new(tuning.data);
        if tuning.relaxed {
            options.durability = sqlite::SqliteDurability::Relaxed;
        }
        if tuning.is_server {
            options.wal_limit_bytes = match tuning.wal_mib {
                Some(mib) => mib << 20,
                None => options.wal_limit_bytes.min(wal_share(tuning.data)),
            };
        }
        Ok(Box::new(Folder { options, data: tuning.data.to_owned() }))
    }

    /// The backup is opened beside the data first, so that an invalid file changes nothing.
    fn restore(&self, folder: &Path, backup: RestoreFile<'_>) -> anyhow::Result<()> {
        let RestoreFile { file, replace, open } = backup;
        let (place, trial) = (folder.join(DATABASE), folder.join("restoring"));
        if place.exists() {
            if !replace {
                bail!(
                    "{} exists; --replace puts the backup in its place and keeps the old one beside",
                    place.display()
                );
            }
            // Opening takes the lock, so no server runs, and closing merges the write-ahead log.
            open(folder)?;
        }
        stores::folder::make(folder)?;
        stores::folder::make(&trial)?;
        copy(file, &trial.join(DATABASE)).with_context(|| format!("cannot copy {}", file.display()))?;
        let checked = open(&trial).with_context(|| format!("{} is not a backup of rialto", file.display()));
        if checked.is_ok() {
            if place.exists() {
                std::fs::rename(&place, folder.join("rialto.db.before-restore"))?;
            }
            std::fs::rename(trial.join(DATABASE), &place)?;
            // A report of commits missing from the earlier data no longer applies.
            let _ = std::fs::remove_file(folder.join(sqlite::COMMITS));
            std::fs::File::open(folder)?.sync_all()?;
        }
        std::fs::remove_dir_all(&trial)?;
        checked
    }
}

/// A data folder to open. The store itself locks it.
struct Folder {
    options: sqlite::Options,
    data: PathBuf,
}

impl StoreOptions for Folder {
    fn open(self: Box<Self>) -> Future<'static, anyhow::Result<Arc<dyn Store>>> {
        Box::pin(async move {
            let Folder { options, data } = *self;
            let store =
                sqlite::SqliteStore::open(options).with_context(|| format!("cannot open {}", data.display()))?;
            Ok(Arc::new(store) as Arc<dyn Store>)
        })
    }
}

/// Copies a file, readable by its owner only, whatever the original's mode.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    let mut out = stores::folder::private().write(true).create(true).truncate(true).open(to)?;
    std::io::copy(&mut std::fs::File::open(from)?, &mut out)?;
    out.sync_all()
}

/// A sixteenth of the disk: a write-ahead log that fills most of a small disk leaves no room for its checkpoint.
fn wal_share(folder: &Path) -> u64 {
    const LEAST: u64 = 1 << 20;
    // The folder may not exist yet; its parent is on the same disk.
    let found = folder.ancestors().find_map(|folder| {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        rustix::fs::statvfs(folder).ok()
    });
    found.map_or(u64::MAX, |disk| (disk.f_blocks.saturating_mul(disk.f_frsize) / 16).max(LEAST))
}
