//! Delivered files: their bytes are stored once, by their hash, with the purchase's task and removed with it; each file
//! has a record under its access id; and download tokens allow a number of downloads, for a time.
//!
//! An access id is derived from the file and its purchase, so that a repeated upload is one file.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use engine::{CommitError, SideWrites};
use ledger::records::{decode, listed, read_fault};
use ledger::{Row, TransactionId, UserId};
use market_rules::transaction::{Deliverable, Role, Status, Verb};
use market_rules::{FieldError, Transaction};
use model::ports::store::{BlobWrite, Conflict};
use model::{Expect, Fault, Kind, RecordChange, Time};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::service::accounts::{draw, print, text};
use crate::service::records::{self, ALL};
use crate::service::{Error, Market, MarketCaller, MarketEntity};

/// Attempts of a commit that loses races.
const ATTEMPTS: u32 = 64;
/// Maximum lengths of a file's name and media type.
const MAX_NAME: usize = market_rules::transaction::MAX_NAME;
const MAX_MEDIA: usize = 127;
/// Maximum number of valid tokens of one file.
const MAX_TOKENS: u64 = 100;
pub const DOWNLOADS: std::ops::RangeInclusive<u32> = 1..=1_000;
pub const EXPIRES_S: std::ops::RangeInclusive<u32> = 1..=30 * 86_400;
pub const USUAL_DOWNLOADS: u32 = 5;
pub const USUAL_EXPIRES_S: u32 = 3_600;
/// The media type of files without one.
pub const ANY_MEDIA: &str = "application/octet-stream";

const SWEEP_EVERY: Duration = Duration::from_secs(600);
const SWEEP: u32 = 200;
/// Number of files that one sweep reads; the next sweep continues after them.
const SWEEP_FILES: usize = 2_000;

/// Limits of stored files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliverableLimits {
    /// Maximum size of one file.
    pub file_bytes: u64,
    pub per_purchase: u32,
    /// Maximum sum of a seller's stored files.
    pub user_bytes: u64,
}

impl Default for DeliverableLimits {
    fn default() -> DeliverableLimits {
        DeliverableLimits { file_bytes: 10 << 20, per_purchase: 64, user_bytes: 1 << 30 }
    }
}

/// A stored file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    pub tenant: Arc<str>,
    pub access_id: Arc<str>,
    pub deliverable_id: Arc<str>,
    pub transaction: TransactionId,
    /// The seller.
    pub by: UserId,
    /// SHA-256, in hex.
    pub hash: Arc<str>,
    pub len: u64,
    pub name: Arc<str>,
    pub media_type: Arc<str>,
    pub made_at: Time,
}
impl Row for File {
    const NAME: &'static str = "file";
}

impl File {
    fn digest(&self) -> Result<[u8; 32], Fault> {
        let byte = |pair: &[u8]| std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok());
        let bytes: Option<Vec<u8>> = self.hash.as_bytes().chunks(2).map(byte).collect();
        let digest = bytes.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        digest.ok_or_else(|| Fault::internal("the record of a file has no hash"))
    }

    pub(crate) fn delivered_as(&self, name: Option<Arc<str>>) -> Deliverable {
        Deliverable {
            deliverable_id: self.deliverable_id.clone(),
            access_id: self.access_id.clone(),
            file_name: name.unwrap_or_else(|| self.name.clone()),
        }
    }
}

/// Number and size of the files of one purchase, or of one seller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileSum {
    files: u64,
    bytes: u64,
}
impl Row for FileSum {
    const NAME: &'static str = "file sum";
}

/// A download token, under its hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GrantRow {
    tenant: Arc<str>,
    access_id: Arc<str>,
    by: UserId,
    expires_at: Time,
    max_downloads: u32,
    used: u32,
    /// Random at every use, so that a commit of unknown outcome can be recognised when it is read back.
    mark: Arc<str>,
}
impl Row for GrantRow {
    const NAME: &'static str = "grant";
}

/// An uploaded file.
#[derive(Clone, Debug)]
pub struct Upload {
    pub name: Arc<str>,
    pub media_type: Arc<str>,
    pub bytes: Bytes,
}

/// A file as a delivery names it.
#[derive(Clone, Debug)]
pub struct NamedFile {
    pub deliverable_id: Option<Arc<str>>,
    pub access_id: Option<Arc<str>>,
    pub file_name: Option<Arc<str>>,
}

/// A new download token; shown once.
#[derive(Clone)]
pub struct Granted {
    pub token: String,
    pub allowed: Allowed,
}

/// The permission of a download token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowed {
    pub file: File,
    pub max_downloads: u32,
    pub remaining: u32,
    pub expires_at: Time,
}

/// Reasons for refusing a download.
#[derive(Debug, thiserror::Error)]
pub enum NotGiven {
    #[error("there is no such download token")]
    Unknown,
    #[error("this token has been used {0} times and is good no more; ask for another with grant-access")]
    UsedUp(u32),
    #[error("this token has expired; ask for another with grant-access")]
    Expired,
    #[error("this file is no longer kept: its purchase was removed")]
    Gone,
    #[error("{0}")]
    Error(Error),
}

impl From<Error> for NotGiven {
    fn from(refused: Error) -> NotGiven {
        NotGiven::Error(refused)
    }
}
impl From<Fault> for NotGiven {
    fn from(fault: Fault) -> NotGiven {
        NotGiven::Error(fault.into())
    }
}

fn file_key(tenant: &str, access_id: &str) -> Arc<str> {
    records::joined(&[tenant, access_id])
}

fn of_purchase(tenant: &str, id: TransactionId) -> Arc<str> {
    records::joined(&["of", tenant, &id.to_string()])
}

fn of_user(tenant: &str, user: &UserId) -> Arc<str> {
    records::joined(&["user", tenant, user.as_str()])
}

fn put_sum(key: Arc<str>, sum: FileSum, version: u64) -> RecordChange {
    let expect = if version == 0 { Expect::Absent } else { Expect::Version(version) };
    records::FILE_SUMS.put(key, expect, &sum, Vec::new())
}

/// An id derived from these parts.
fn id_of(prefix: &str, parts: &[&[u8]]) -> Arc<str> {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    format!("{prefix}{}", records::hex(&hash.finalize()[..16])).into()
}

impl Upload {
    fn check(&self, most: u64) -> Result<(), Error> {
        if self.bytes.is_empty() {
            return Err(FieldError::new("body", "is required: send the bytes of the file").into());
        }
        if self.bytes.len() as u64 > most {
            let words = format!("the file is too large: it may have {most} bytes");
            return Err(Fault::new(Kind::TooLarge, words).into());
        }
        let count = self.name.chars().count();
        if !(1..=MAX_NAME).contains(&count) || self.name.chars().any(char::is_control) {
            let words = format!("must have 1 to {MAX_NAME} printable characters");
            return Err(FieldError::new("filename", words).into());
        }
        let (kind, rest) = self.media_type.split_once('/').unwrap_or_default();
        let printable = self.media_type.bytes().all(|b| b.is_ascii_graphic() || b == b' ');
        if kind.is_empty() || rest.is_empty() || self.media_type.len() > MAX_MEDIA || !printable {
            return Err(FieldError::new("Content-Type", "must be a media type, such as application/pdf").into());
        }
        Ok(())
    }
}

impl Market {
    /// Stores a file for a purchase that the caller has yet to deliver.
    pub async fn upload(&self, caller: &MarketCaller, id: TransactionId, upload: Upload) -> Result<File, Error> {
        let row = self.transaction(&caller.actor(), id).await?;
        if row.seller != caller.user {
            return Err(market_rules::Error::WrongActor { verb: Verb::Deliver, role: Role::Buyer }.into());
        }
        match row.status {
            Status::Frozen | Status::Accepted => self.keep_file(&row, upload, "").await,
            status @ (Status::PendingFreeze
            | Status::Delivered
            | Status::Settled
            | Status::CancelledByBuyer
            | Status::RejectedBySeller
            | Status::Failed) => Err(market_rules::Error::WrongState { verb: Verb::Deliver, status }.into()),
        }
    }

    /// Stores a file of the purchase's seller. `which` distinguishes files that are otherwise equal.
    pub(crate) async fn keep_file(&self, row: &Transaction, upload: Upload, which: &str) -> Result<File, Error> {
        let limits = self.config().files;
        upload.check(limits.file_bytes)?;
        let digest: [u8; 32] = Sha256::digest(&upload.bytes).into();
        let id = row.id.to_string();
        let told: [&[u8]; 5] =
            [id.as_bytes(), &digest, upload.name.as_bytes(), upload.media_type.as_bytes(), which.as_bytes()];
        let access_id = id_of("acc_", &told);
        let key = file_key(&row.tenant, &access_id);
        let line = self.shared.files.of(&row.seller.0);
        let _mine = line.lock().await;
        for _ in 0..ATTEMPTS {
            if let Some((known, _)) = self.read(records::FILES, key.clone()).await? {
                return Ok(known);
            }
            if self.engine().store().head(row.id.0).await.map_err(read_fault)?.is_none() {
                return Err(Error::Unknown(MarketEntity::Transaction));
            }
            let file = File {
                tenant: row.tenant.clone(),
                access_id: access_id.clone(),
                deliverable_id: id_of("dlv_", &told),
                transaction: row.id,
                by: row.seller.clone(),
                hash: records::hex(&digest),
                len: upload.bytes.len() as u64,
                name: upload.name.clone(),
                media_type: upload.media_type.clone(),
                made_at: self.now(),
            };
            let mut records = vec![put_file(&file, Expect::Absent)];
            let (purchase, user) = (of_purchase(&row.tenant, row.id), of_user(&row.tenant, &row.seller));
            for (key, is_purchase) in [(purchase, true), (user, false)] {
                let (mut sum, version) = self.read(records::FILE_SUMS, key.clone()).await?.unwrap_or_default();
                sum.files = sum.files.saturating_add(1);
                sum.bytes = sum.bytes.saturating_add(file.len);
                if is_purchase && sum.files > u64::from(limits.per_purchase) {
                    let words = format!("has {} files, which is as many as it may have", limits.per_purchase);
                    return Err(FieldError::new("transaction_id", words).into());
                }
                if !is_purchase && sum.bytes > limits.user_bytes {
                    let words = format!(
                        "has {} bytes, and with your other files that is more than the {} you may keep; files go with \
                         their purchases",
                        file.len, limits.user_bytes
                    );
                    return Err(FieldError::new("body", words).into());
                }
                records.push(put_sum(key, sum, version));
            }
            let (tenant, bytes) = (row.tenant.clone(), upload.bytes.clone());
            let blobs = vec![BlobWrite { tenant, task: row.id.0, hash: digest, bytes }];
            match self.engine().keep(SideWrites { records, blobs, ..SideWrites::default() }).await {
                Ok(()) => return Ok(file),
                Err(CommitError::Met(Conflict::Record(..))) => {}
                Err(unmoved) => return Err(unmoved.into()),
            }
        }
        Err(market_rules::Error::Changed.into())
    }

    async fn file(&self, access_id: &str) -> Result<Option<File>, Error> {
        Ok(self.file_row(access_id).await?.map(|(file, _)| file))
    }

    async fn file_row(&self, access_id: &str) -> Result<Option<(File, u64)>, Error> {
        self.read(records::FILES, file_key(&self.config().tenant, access_id)).await
    }

    /// The deliverables of a delivery: files that were uploaded for this purchase, or names of files that are stored
    /// elsewhere.
    pub async fn named_files(&self, id: TransactionId, named: Vec<NamedFile>) -> Result<Vec<Deliverable>, Error> {
        let wrong = |words: String| Error::from(FieldError::new("deliverables", words));
        let drawn = |id: Option<Arc<str>>, prefix: &str| match id {
            Some(id) => Ok::<Arc<str>, Fault>(id),
            None => Ok(format!("{prefix}{}", records::hex(&draw::<16>()?)).into()),
        };
        if named.len() > market_rules::transaction::MAX_DELIVERABLES {
            return Err(wrong(format!("must have at most {} files", market_rules::transaction::MAX_DELIVERABLES)));
        }
        let mut files: Vec<Deliverable> = Vec::with_capacity(named.len());
        for one in named {
            let known = match &one.access_id {
                Some(access_id) => self.file(access_id).await?,
                None => None,
            };
            let file = match (known, one) {
                (Some(known), one) if known.transaction == id => known.delivered_as(one.file_name),
                (None, NamedFile { file_name: Some(file_name), deliverable_id, access_id }) => Deliverable {
                    deliverable_id: drawn(deliverable_id, "dlv_")?,
                    access_id: drawn(access_id, "acc_")?,
                    file_name,
                },
                (_, NamedFile { access_id: Some(access_id), .. }) => {
                    return Err(wrong(format!(
                        "must be of this purchase: no file {access_id:?} was uploaded for it; upload it at \
                         /api/v1/deliverables/upload?transaction_id={}",
                        id.tx()
                    )));
                }
                (_, NamedFile { access_id: None, .. }) => {
                    return Err(wrong("must each have an access_id or a file_name".to_owned()));
                }
            };
            if files.iter().any(|other| other.access_id == file.access_id) {
                return Err(wrong(format!("must be different files: {:?} is named twice", file.access_id)));
            }
            files.push(file);
        }
        Ok(files)
    }

    /// Issues a download token to the seller, or to the buyer once the file is delivered.
    pub async fn grant_access(
        &self,
        caller: &MarketCaller,
        access_id: &str,
        max_downloads: u32,
        expires_in_s: u32,
    ) -> Result<Granted, Error> {
        if !DOWNLOADS.contains(&max_downloads) {
            let words = format!("must be from {} to {}", DOWNLOADS.start(), DOWNLOADS.end());
            return Err(FieldError::new("max_downloads", words).into());
        }
        if !EXPIRES_S.contains(&expires_in_s) {
            let words = format!("must be from {} to {} seconds", EXPIRES_S.start(), EXPIRES_S.end());
            return Err(FieldError::new("expires_in", words).into());
        }
        let (file, _) = self.file_row(access_id).await?.ok_or(Error::Unknown(MarketEntity::File))?;
        let row = self.read_transaction(file.transaction).await?;
        match row.role(&caller.actor()) {
            Some(Role::Seller | Role::Platform) => {}
            Some(Role::Buyer) => {
                let there = row.deliverables.iter().any(|one| one.access_id == file.access_id);
                if !there || !matches!(row.status, Status::Delivered | Status::Settled) {
                    return Err(FieldError::new("access_id", "is of a file that is not delivered").into());
                }
            }
            // Other callers get "unknown".
            None => return Err(Error::Unknown(MarketEntity::File)),
        }
        let token = format!("dl_{}", text()?);
        let expires_at = Time(self.now().0.saturating_add(i64::from(expires_in_s) * 1_000));
        let grant = GrantRow {
            tenant: file.tenant.clone(),
            access_id: file.access_id.clone(),
            by: caller.user.clone(),
            expires_at,
            max_downloads,
            used: 0,
            mark: records::hex(&draw::<8>()?),
        };
        let key = print(&token);
        let line = self.shared.files.of(&records::joined(&["tokens", &file.tenant, &file.access_id]));
        let _turn = line.lock().await;
        for _ in 0..ATTEMPTS {
            // The file's own record counts the tokens' additions: each one raises its version (see `bounded`).
            let (file, version) = self.file_row(access_id).await?.ok_or(Error::Unknown(MarketEntity::File))?;
            if self.length_of(records::GRANTS, grants_of(&grant)).await? >= MAX_TOKENS {
                let words = format!("has {MAX_TOKENS} tokens, which is as many as it may have; wait until some expire");
                return Err(FieldError::new("access_id", words).into());
            }
            let put = put_grant(&key, Expect::Absent, &grant);
            let records = vec![put, put_file(&file, Expect::Version(version))];
            match self.engine().keep(SideWrites { records, ..SideWrites::default() }).await {
                Ok(()) => {
                    let allowed = Allowed { file, max_downloads, remaining: max_downloads, expires_at };
                    return Ok(Granted { token, allowed });
                }
                Err(CommitError::Met(Conflict::Record(..))) => {}
                Err(unmoved) => return Err(unmoved.into()),
            }
        }
        Err(market_rules::Error::Changed.into())
    }

    /// The permission of a download token. This does not use it.
    pub async fn allowed(&self, token: &str) -> Result<Allowed, NotGiven> {
        let (grant, _) = self.grant(&print(token)).await?;
        self.allowed_by(&grant).await
    }

    async fn grant(&self, key: &Arc<str>) -> Result<(GrantRow, u64), NotGiven> {
        let found = self.read(records::GRANTS, key.clone()).await?;
        let (grant, version) =
            found.filter(|(grant, _)| grant.tenant == self.config().tenant).ok_or(NotGiven::Unknown)?;
        if grant.expires_at <= self.now() {
            return Err(NotGiven::Expired);
        }
        if grant.used >= grant.max_downloads {
            return Err(NotGiven::UsedUp(grant.max_downloads));
        }
        Ok((grant, version))
    }

    async fn allowed_by(&self, grant: &GrantRow) -> Result<Allowed, NotGiven> {
        let file = self.file(&grant.access_id).await?.ok_or(NotGiven::Gone)?;
        let remaining = grant.max_downloads.saturating_sub(grant.used);
        Ok(Allowed { file, max_downloads: grant.max_downloads, remaining, expires_at: grant.expires_at })
    }

    /// Downloads a file. The use of the token is committed before the first byte is returned.
    pub async fn download(&self, token: &str) -> Result<(Allowed, Bytes), NotGiven> {
        let key = print(token);
        let (grant, _) = self.grant(&key).await?;
        let file = self.allowed_by(&grant).await?.file;
        let bytes = self.engine().store().blob(file.tenant.clone(), file.digest()?).await.map_err(read_fault)?;
        let bytes = bytes.ok_or(NotGiven::Gone)?;
        let line = self.shared.files.of(&key);
        let _mine = line.lock().await;
        for _ in 0..ATTEMPTS {
            let (mut grant, version) = self.grant(&key).await?;
            grant.used += 1;
            grant.mark = records::hex(&draw::<8>()?);
            let put = put_grant(&key, Expect::Version(version), &grant);
            match self.engine().keep(SideWrites { records: vec![put], ..SideWrites::default() }).await {
                Ok(()) => {
                    let remaining = grant.max_downloads.saturating_sub(grant.used);
                    let (max_downloads, expires_at) = (grant.max_downloads, grant.expires_at);
                    return Ok((Allowed { file, max_downloads, remaining, expires_at }, bytes));
                }
                Err(CommitError::Met(Conflict::Record(..))) => {}
                Err(unmoved) => return Err(Error::from(unmoved).into()),
            }
        }
        Err(Error::from(market_rules::Error::Changed).into())
    }

    /// Removes records of files whose task is gone, and returns the position to continue from.
    async fn forget_files(&self, mut after: Option<(i64, Arc<str>)>) -> Result<Option<(i64, Arc<str>)>, Error> {
        let mut seen = 0;
        while seen < SWEEP_FILES {
            let page = records::FILES.records(self.store(), ALL, after.take(), SWEEP).await?;
            seen += page.records.len();
            after = page.records.last().map(|(record, rank)| (*rank, record.key.clone()));
            for (record, _) in &page.records {
                let file = decode::<File>(&record.body)?;
                if self.engine().store().head(file.transaction.0).await.map_err(read_fault)?.is_none() {
                    self.forget_file(&file, record.version).await?;
                }
            }
            if !page.more {
                return Ok(None);
            }
        }
        Ok(after)
    }

    async fn forget_file(&self, file: &File, version: u64) -> Result<(), Error> {
        for _ in 0..ATTEMPTS {
            let key = file_key(&file.tenant, &file.access_id);
            let mut records = vec![records::FILES.remove(key, Expect::Version(version))];
            for key in [of_purchase(&file.tenant, file.transaction), of_user(&file.tenant, &file.by)] {
                let Some((mut sum, version)) = self.read(records::FILE_SUMS, key.clone()).await? else { continue };
                sum.files = sum.files.saturating_sub(1);
                sum.bytes = sum.bytes.saturating_sub(file.len);
                records.push(match sum.files {
                    0 => records::FILE_SUMS.remove(key, Expect::Version(version)),
                    _ => put_sum(key, sum, version),
                });
            }
            match self.engine().keep(SideWrites { records, ..SideWrites::default() }).await {
                Ok(()) => return Ok(()),
                // Another process was first.
                Err(CommitError::Met(Conflict::Record(kind, ..))) if records::FILES.is(&kind) => return Ok(()),
                Err(CommitError::Met(Conflict::Record(..))) => {}
                Err(unmoved) => return Err(unmoved.into()),
            }
        }
        Err(market_rules::Error::Changed.into())
    }
}

fn put_file(file: &File, expect: Expect) -> RecordChange {
    // The list begins with the oldest.
    let lists = vec![listed(ALL, file.made_at.0.saturating_neg())];
    records::FILES.put(file_key(&file.tenant, &file.access_id), expect, file, lists)
}

/// The tokens of a file.
fn grants_of(grant: &GrantRow) -> Arc<str> {
    records::joined(&["of", &grant.tenant, &grant.access_id])
}

fn put_grant(key: &Arc<str>, expect: Expect, grant: &GrantRow) -> RecordChange {
    let rank = grant.expires_at.0.saturating_neg();
    let lists = vec![listed(ALL, rank), listed(grants_of(grant), rank)];
    records::GRANTS.put(key.clone(), expect, grant, lists)
}

/// Removes records of files whose task is gone periodically, until the store is closed.
pub(crate) async fn sweep(market: Market) {
    let mut place = None;
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        if market.engine().is_draining() {
            return;
        }
        place = match market.forget_files(place.take()).await {
            Ok(next) => next,
            Err(refused) => {
                tracing::warn!("records of files that are gone stay for now: {refused}");
                None
            }
        };
    }
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
