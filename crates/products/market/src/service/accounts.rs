//! Authentication: users, their keys, their logins, and the devices that ask for a key.

mod attempts;
mod device;
mod keys;
mod login;
mod secrets;
mod sessions;
mod users;

use std::fmt;
use std::sync::Arc;

use ledger::UserId;
use market_rules::autonomy;
use model::Time;
use serde::{Deserialize, Serialize};

pub(crate) use device::{CodeRow, DeviceRow, sweep};
pub(crate) use keys::{KeyCache, KeyRow};
pub(crate) use login::LoginThrottle;
pub(crate) use secrets::{draw, print, secrets, text};
pub(crate) use sessions::LoginRow;
pub(crate) use users::AccountRow;

/// Keys that the server generated at its first start, shared by all processes on the store.
pub struct Secrets {
    /// Signs logins (HS256).
    pub(crate) login: [u8; 32],
    /// Signs confirmation tokens.
    pub(crate) confirm: autonomy::ConfirmationKey,
    /// Signs callbacks, unless the config has a secret for them.
    pub(crate) callback: [u8; 32],
}

/// A user of the market, person or agent.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    pub tenant: Arc<str>,
    pub id: UserId,
    /// The account name for logins; absent for a user who cannot log in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<Arc<str>>,
    /// The hash of the password, in PHC form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<Arc<str>>,
    /// Linked platforms: a key of such a platform may act for the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub platforms: Vec<Arc<str>>,
    /// Its own limits, in hundredths: per call, per day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<(i64, i64)>,
    /// For demos: the server takes the user's steps automatically after a delay.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub acts_alone: bool,
    /// Number of times that all logins were ended; a login with a lower number is invalid.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub logins_ended: u64,
    pub created_at: Time,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands it over so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The credentials of a request's headers.
#[derive(Clone, Copy, Default)]
pub struct Credentials<'a> {
    pub api_key: Option<&'a str>,
    pub user: Option<&'a str>,
    pub bearer: Option<&'a str>,
}

#[derive(Clone, Default)]
pub struct NewUser {
    /// A new UUID if absent.
    pub id: Option<UserId>,
    pub account: Option<Arc<str>>,
    pub password: Option<String>,
    pub platforms: Vec<Arc<str>>,
    /// Per call, per day.
    pub limits: Option<autonomy::SpendingLimits>,
    pub acts_alone: bool,
}

#[derive(Clone, Debug)]
pub enum NewApiKey {
    /// Acts for this user alone.
    User(UserId),
    /// Acts for every user linked to this platform.
    Platform(Arc<str>),
}

/// A new key. Its secret is shown once.
#[derive(Clone, PartialEq, Eq)]
pub struct Issued {
    pub api_key: String,
    pub user: Option<UserId>,
}

/// A login.
#[derive(Clone, PartialEq, Eq)]
pub struct LoginTokens {
    pub access_token: String,
    pub refresh_token: String,
    pub expires_in_s: u64,
    pub user: UserId,
}

/// A device that asks for a key.
#[derive(Clone, PartialEq, Eq)]
pub struct Device {
    pub device_code: String,
    pub user_code: String,
    pub expires_in_s: u64,
    pub interval_s: u64,
    pub platform_type: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceState {
    Pending,
    /// Returned once, then removed.
    Approved(Issued),
    Denied,
    Expired,
}

/// A person's decision about a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceApproval {
    Yes,
    No,
}

/// Implements `Debug` without the secret fields.
macro_rules! quiet {
    ($($name:ty: $($field:ident),+;)+) => {
        $(impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name))$(.field(stringify!($field), &self.$field))+.finish_non_exhaustive()
            }
        })+
    };
}
quiet! {
    User: tenant, id, account, platforms, limits, acts_alone, created_at;
    Credentials<'_>: user;
    NewUser: id, account, platforms, limits, acts_alone;
    Issued: user;
    LoginTokens: expires_in_s, user;
    Device: expires_in_s, interval_s, platform_type;
}

#[cfg(test)]
mod tests;
