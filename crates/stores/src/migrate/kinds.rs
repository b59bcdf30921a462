//! The kinds of rows in the order they are copied, each with its functions to read, write and find.

use super::rows::{self, BatchLimits, RowPosition};
use crate::postgres::import::{ImportError, PostgresImport, Sums};
use crate::sqlite::export::{Error, Export};

/// One kind of rows.
pub(super) trait RowKind {
    /// The name of the kind in messages.
    const NAME: &'static str;
    type Row: PartialEq + std::fmt::Debug + rows::Odd;

    /// A page after a position, in the order of the source, each row with its position.
    fn read(
        source: &Export,
        after: Option<&RowPosition>,
        most: BatchLimits,
    ) -> Result<Vec<(RowPosition, Self::Row)>, Error>;

    /// Writes rows within the open batch.
    async fn add(target: &PostgresImport, rows: &[Self::Row], sums: &mut Sums) -> Result<(), ImportError>;

    /// The rows of the target with the same keys, in the same order.
    async fn find(target: &PostgresImport, rows: &[Self::Row]) -> Result<Vec<Self::Row>, ImportError>;
}

macro_rules! kinds {
    ($($kind:ident($row:ident, $name:literal): $read:ident, $add:ident, $find:ident;)*) => {
        $(
            pub(super) struct $kind;

            impl RowKind for $kind {
                const NAME: &'static str = $name;
                type Row = rows::$row;

                fn read(
                    source: &Export,
                    after: Option<&RowPosition>,
                    most: BatchLimits,
                ) -> Result<Vec<(RowPosition, Self::Row)>, Error> {
                    source.$read(after, most)
                }
                async fn add(target: &PostgresImport, rows: &[Self::Row], sums: &mut Sums) -> Result<(), ImportError> {
                    target.$add(rows, sums).await
                }
                async fn find(target: &PostgresImport, rows: &[Self::Row]) -> Result<Vec<Self::Row>, ImportError> {
                    target.$find(rows).await
                }
            }
        )*

        pub(super) const NAMES: &[&str] = &[$($name,)*];
        pub(crate) const COUNT: usize = NAMES.len();
    };
}

kinds! {
    Names(NameRow, "names"): names, add_names, find_names;
    Tasks(TaskRow, "tasks"): tasks, add_tasks, find_tasks;
    Logs(LogRow, "log rows"): logs, add_logs, find_logs;
    Listings(ListingRow, "list rows"): listings, add_listings, find_listings;
    Timers(TimerRow, "timers"): timers, add_timers, find_timers;
    Aliases(AliasRow, "aliases"): aliases, add_aliases, find_aliases;
    Accesses(AccessRow, "access keys"): access, add_access, find_access;
    Uses(KeyUseRow, "idempotency keys"): uses, add_uses, find_uses;
    Blobs(BlobRow, "blobs"): blobs, add_blobs, find_blobs;
    BlobUses(BlobUse, "blob uses"): blob_uses, add_blob_uses, find_blob_uses;
    Pushes(PushConfigRow, "push configs"): push, add_push, find_push;
    Records(RecordRow, "records"): records, add_records, find_records;
    RecordPlaces(RecordPlace, "record list rows"): record_places, add_record_places, find_record_places;
    Entries(EntryRow, "journal entries"): entries, add_entries, find_entries;
    Postings(PostingRow, "postings"): postings, add_postings, find_postings;
    Accounts(AccountBalance, "accounts"): accounts, add_accounts, find_accounts;
    Texts(TextRow, "texts"): texts, add_texts, find_texts;
}

/// Invokes a macro for every kind, in order. Unfinished migrations store the number of a kind: a new one comes last.
macro_rules! each_kind {
    ($do:ident) => {
        $do!(crate::migrate::kinds::Names);
        $do!(crate::migrate::kinds::Tasks);
        $do!(crate::migrate::kinds::Logs);
        $do!(crate::migrate::kinds::Listings);
        $do!(crate::migrate::kinds::Timers);
        $do!(crate::migrate::kinds::Aliases);
        $do!(crate::migrate::kinds::Accesses);
        $do!(crate::migrate::kinds::Uses);
        $do!(crate::migrate::kinds::Blobs);
        $do!(crate::migrate::kinds::BlobUses);
        $do!(crate::migrate::kinds::Pushes);
        $do!(crate::migrate::kinds::Records);
        $do!(crate::migrate::kinds::RecordPlaces);
        $do!(crate::migrate::kinds::Entries);
        $do!(crate::migrate::kinds::Postings);
        $do!(crate::migrate::kinds::Accounts);
        $do!(crate::migrate::kinds::Texts);
    };
}
pub(super) use each_kind;
