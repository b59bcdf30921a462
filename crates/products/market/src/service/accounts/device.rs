//! Device authorization: a device shows a short code, a person enters it where they are logged in, and the polling
//! device gets its key. The key is generated at that moment: no secret waits in the store.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use engine::{CommitError, SideWrites};
use ledger::records::listed;
use ledger::{Row, UserId};
use model::ports::store::Conflict;
use model::{Expect, RecordChange, Time};
use serde::{Deserialize, Serialize};

use super::keys::{KeyOwner, KeyRow};
use super::{Device, DeviceApproval, DeviceState, Issued, NewUser, User, secrets};
use crate::service::bounded::Bounded;
use crate::service::records::{self, ALL};
use crate::service::{Error, Market, MarketEntity};

/// Known names of devices; any other name counts as the last one.
const PLATFORMS: [&str; 5] = ["openclaw", "claude_desktop", "cursor", "hermes_agent", "custom_mcp"];

const GOOD_FOR_S: u64 = 600;
const INTERVAL_S: u64 = 5;
/// Tolerance for polls that arrive early because of network jitter.
const SLACK_MS: i64 = 500;
/// Time after the expiry in which a device is answered that it expired.
const TELL_MS: i64 = 600_000;
/// Maximum number of devices that wait for an answer or for their key.
pub(super) const WAITING: u64 = 10_000;

/// 32 letters and digits that do not look alike: five bits of a random byte select one uniformly.
pub(super) const DIGITS: &[u8; 32] = b"23456789ABCDEFGHJKLMNPQRSTUVWXYZ";
const CODE: usize = 8;

/// Attempts of a change that loses races.
const ATTEMPTS: usize = 16;
const SWEEP_EVERY: Duration = Duration::from_secs(60);
const SWEEP: u32 = 200;

/// A device, under the hash of its own code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DeviceRow {
    pub(super) tenant: Arc<str>,
    pub(super) platform: Arc<str>,
    /// The code that the person enters; absent after that, so that the code can be used again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) code: Option<Arc<str>>,
    pub(super) expires_at: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) polled_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) answer: Option<StoredDecision>,
}
impl Row for DeviceRow {
    const NAME: &'static str = "device";
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StoredDecision {
    Yes(UserId),
    No,
}

/// Which device a person's code belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CodeRow {
    device: Arc<str>,
}
impl Row for CodeRow {
    const NAME: &'static str = "device code";
}

pub(super) fn code_key(tenant: &str, code: &str) -> Arc<str> {
    records::joined(&[tenant, code])
}

impl DeviceRow {
    pub(super) fn put(&self, key: &Arc<str>, expect: Expect) -> RecordChange {
        // The first to expire is the first of its list.
        let lists = vec![listed(ALL, self.expires_at.0.saturating_neg())];
        records::DEVICES.put(key.clone(), expect, self, lists)
    }

    fn is_over(&self, now: Time) -> bool {
        self.expires_at <= now
    }
}

/// Normalizes a code that a person has typed: case, spaces and dashes are ignored.
fn typed(code: &str) -> Option<Arc<str>> {
    let letters = code.chars().filter(|c| !c.is_whitespace() && *c != '-').take(CODE + 1);
    let code: String = letters.map(|c| c.to_ascii_uppercase()).collect();
    (code.len() == CODE && code.bytes().all(|b| DIGITS.contains(&b))).then(|| code.into())
}

fn drawn_code() -> Result<Arc<str>, Error> {
    let code = secrets::draw::<CODE>()?.map(|byte| char::from(DIGITS[usize::from(byte & 31)]));
    Ok(code.iter().collect::<String>().into())
}

/// The list of devices of all tenants that wait for a person's answer.
fn waiting_devices() -> Bounded<DeviceRow> {
    Bounded { collection: records::DEVICES, list: ALL.into(), most: WAITING }
}

fn unknown() -> Error {
    Error::Unknown(MarketEntity::Device)
}

impl Market {
    /// Registers a device that asks for a key.
    pub async fn device_asks(&self, platform_type: &str) -> Result<Device, Error> {
        let known = PLATFORMS.into_iter().find(|known| *known == platform_type);
        let platform: Arc<str> = known.unwrap_or(PLATFORMS[PLATFORMS.len() - 1]).into();
        let (tenant, device_code) = (self.config().tenant.clone(), secrets::text()?);
        let key = secrets::print(&device_code);
        let line = self.shared.queues.of(&waiting_devices().line());
        let _turn = line.lock().await;
        for _ in 0..ATTEMPTS {
            let added = self.make_room().await?;
            let code = drawn_code()?;
            let row = DeviceRow {
                tenant: tenant.clone(),
                platform: platform.clone(),
                code: Some(code.clone()),
                expires_at: self.now().plus_ms(GOOD_FOR_S * 1_000),
                polled_at: None,
                answer: None,
            };
            let of_code = CodeRow { device: key.clone() };
            let of_code = records::DEVICE_CODES.put(code_key(&tenant, &code), Expect::Absent, &of_code, Vec::new());
            let records = vec![row.put(&key, Expect::Absent), of_code, added];
            match self.engine().keep(SideWrites { records, ..SideWrites::default() }).await {
                Ok(()) => {
                    return Ok(Device {
                        device_code,
                        user_code: code.to_string(),
                        expires_in_s: GOOD_FOR_S,
                        interval_s: INTERVAL_S,
                        platform_type: platform,
                    });
                }
                // The code is taken, or another process added a device at the same time: draw and count again.
                Err(CommitError::Met(Conflict::Record(..))) => {}
                Err(unmoved) => return Err(unmoved.into()),
            }
        }
        Err(market_rules::Error::Changed.into())
    }

    /// A poll of the device: its state, or its key.
    pub async fn device_polls(&self, device_code: &str) -> Result<DeviceState, Error> {
        let key = secrets::print(device_code);
        for _ in 0..ATTEMPTS {
            let (mut row, version) = self.device(&key).await?.ok_or_else(unknown)?;
            let now = self.now();
            if row.is_over(now) {
                return Ok(DeviceState::Expired);
            }
            if let Some(last) = row.polled_at {
                let early_ms = INTERVAL_S as i64 * 1_000 - now.0.saturating_sub(last.0);
                if early_ms > SLACK_MS {
                    let early_ms = u64::try_from(early_ms).unwrap_or_default();
                    return Err(Error::TooFast { retry_after_s: early_ms.div_ceil(1_000) });
                }
            }
            let (records, state) = match &row.answer {
                None => {
                    row.polled_at = Some(now);
                    (vec![row.put(&key, Expect::Version(version))], DeviceState::Pending)
                }
                Some(StoredDecision::No) => return Ok(DeviceState::Denied),
                Some(StoredDecision::Yes(user)) => {
                    let issued = Issued { api_key: secrets::text()?, user: Some(user.clone()) };
                    let made = KeyRow { tenant: row.tenant.clone(), who: KeyOwner::User(user.clone()), made_at: now };
                    let expect = Expect::Version(version);
                    let taken = records::DEVICES.remove(key.clone(), expect);
                    (vec![made.kept(&issued.api_key), taken], DeviceState::Approved(issued))
                }
            };
            match self.engine().keep(SideWrites { records, ..SideWrites::default() }).await {
                Ok(()) => return Ok(state),
                // It was answered or polled concurrently.
                Err(CommitError::Met(Conflict::Record(..))) => {}
                Err(unmoved) => return Err(unmoved.into()),
            }
        }
        Err(market_rules::Error::Changed.into())
    }

    /// Records a person's answer. The person logs in with it; a new account is registered, unless the answer is no.
    pub async fn device_answered(
        &self,
        user_code: &str,
        account: &str,
        password: &str,
        said: DeviceApproval,
        address: IpAddr,
    ) -> Result<(), Error> {
        let code = typed(user_code).ok_or_else(unknown)?;
        let tenant = self.config().tenant.clone();
        let code_key = code_key(&tenant, &code);
        let (CodeRow { device: key }, _) =
            self.read(records::DEVICE_CODES, code_key.clone()).await?.ok_or_else(unknown)?;
        // No user is registered for a device that has gone.
        let waits = |row: &DeviceRow, now: Time| row.code.as_ref() == Some(&code) && !row.is_over(now);
        let found = self.device(&key).await?;
        if !found.is_some_and(|(row, _)| waits(&row, self.now())) {
            return Err(unknown());
        }
        let answer = match said {
            DeviceApproval::Yes => StoredDecision::Yes(self.person(account, password, address).await?.id),
            DeviceApproval::No => {
                if let Some(user) = self.of_account(account).await? {
                    self.let_in(account, password, Some(user), address).await?;
                }
                StoredDecision::No
            }
        };
        for _ in 0..ATTEMPTS {
            let (mut row, version) = self.device(&key).await?.ok_or_else(unknown)?;
            if !waits(&row, self.now()) {
                return Err(unknown());
            }
            (row.code, row.answer) = (None, Some(answer.clone()));
            let free = records::DEVICE_CODES.remove(code_key.clone(), Expect::Any);
            let records = vec![row.put(&key, Expect::Version(version)), free];
            match self.engine().keep(SideWrites { records, ..SideWrites::default() }).await {
                Ok(()) => return Ok(()),
                // The device has polled meanwhile, or another answer was first.
                Err(CommitError::Met(Conflict::Record(..))) => {}
                Err(unmoved) => return Err(unmoved.into()),
            }
        }
        Err(market_rules::Error::Changed.into())
    }

    async fn device(&self, key: &Arc<str>) -> Result<Option<(DeviceRow, u64)>, Error> {
        let found = self.read(records::DEVICES, key.clone()).await?;
        Ok(found.filter(|(row, _)| row.tenant == self.config().tenant))
    }

    /// The user who logs in, or a new one.
    async fn person(&self, account: &str, password: &str, address: IpAddr) -> Result<User, Error> {
        if let Some(user) = self.of_account(account).await? {
            return self.let_in(account, password, Some(user), address).await;
        }
        let new = NewUser { account: Some(account.into()), password: Some(password.into()), ..NewUser::default() };
        match self.open_user(new).await {
            // The account was taken meanwhile, perhaps by the same person's repeated request.
            Err(Error::Taken(_)) => {
                let user = self.of_account(account).await?;
                self.let_in(account, password, user, address).await
            }
            made => made,
        }
    }

    /// Makes room for one more waiting device; returns the record change for the commit that adds it.
    async fn make_room(&self) -> Result<RecordChange, Error> {
        if let Some(added) = self.room_in(&waiting_devices()).await? {
            return Ok(added);
        }
        self.forget_devices(self.now()).await?;
        if let Some(added) = self.room_in(&waiting_devices()).await? {
            return Ok(added);
        }
        let first = self.first_devices(1).await?;
        let until = first.first().map_or(self.now(), |(row, ..)| row.expires_at);
        let left_ms = u64::try_from(until.0.saturating_sub(self.now().0)).unwrap_or_default();
        Err(Error::TooFast { retry_after_s: left_ms.div_ceil(1_000).max(1) })
    }

    /// The first devices to expire, with their keys and versions.
    async fn first_devices(&self, limit: u32) -> Result<Vec<(DeviceRow, Arc<str>, u64)>, Error> {
        let (first, _) = records::DEVICES.first(self.store(), ALL, limit).await?;
        Ok(first.into_iter().map(|device| (device.row, device.key, device.version)).collect())
    }

    /// Removes devices that had expired by this time.
    async fn forget_devices(&self, by: Time) -> Result<(), Error> {
        loop {
            let over: Vec<_> =
                self.first_devices(SWEEP).await?.into_iter().filter(|(row, ..)| row.is_over(by)).collect();
            let all = over.len() == SWEEP as usize;
            let mut records = Vec::with_capacity(over.len() * 2);
            for (row, key, version) in over {
                records.push(records::DEVICES.remove(key, Expect::Version(version)));
                if let Some(code) = &row.code {
                    records.push(records::DEVICE_CODES.remove(code_key(&row.tenant, code), Expect::Any));
                }
            }
            if records.is_empty() {
                return Ok(());
            }
            match self.engine().keep(SideWrites { records, ..SideWrites::default() }).await {
                Ok(()) if all => {}
                // Another process may do the same.
                Ok(()) | Err(CommitError::Met(Conflict::Record(..))) => return Ok(()),
                Err(unmoved) => return Err(unmoved.into()),
            }
        }
    }
}

/// Removes expired devices periodically, until the store is closed.
pub(crate) async fn sweep(market: Market) {
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        if market.engine().is_draining() {
            return;
        }
        let by = Time(market.now().0.saturating_sub(TELL_MS));
        if let Err(refused) = market.forget_devices(by).await {
            tracing::warn!("devices that came too late stay for now: {refused}");
        }
    }
}
