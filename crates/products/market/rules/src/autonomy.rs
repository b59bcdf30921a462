//! The limits of an agent's autonomy. An agent buys without asking within its user's limits; above them a person has to
//! confirm.
//!
//! A confirmation is a token. It is issued with the question, bound to the caller, the capability and the price, valid
//! for five minutes and for one purchase. Tokens are signed and not stored; the store has the [`Mark`] of each used
//! token.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use model::Time;
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::CapabilityId;
use crate::capability::CapabilityType;
use ledger::{UserId, Ut};

/// The limits within which an agent spends without a confirmation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpendingLimits {
    /// In one purchase.
    pub per_call: Ut,
    /// Sum of all purchases of one UTC day, counted when they are decided. Later refunds do not reduce the sum.
    pub daily: Ut,
    /// The highest risk class of a purchase.
    pub risk: Risk,
}

impl Default for SpendingLimits {
    fn default() -> SpendingLimits {
        SpendingLimits { per_call: Ut::from_hundredths(10_000), daily: Ut::from_hundredths(500_000), risk: Risk::L3 }
    }
}

/// The risk class of a purchase. The capability's type sets the class; a price above a limit raises it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Risk {
    L0,
    L1,
    L2,
    L3,
    L4,
    L5,
}

impl Risk {
    pub const ALL: [Risk; 6] = [Risk::L0, Risk::L1, Risk::L2, Risk::L3, Risk::L4, Risk::L5];

    pub fn name(self) -> &'static str {
        match self {
            Risk::L0 => "L0",
            Risk::L1 => "L1",
            Risk::L2 => "L2",
            Risk::L3 => "L3",
            Risk::L4 => "L4",
            Risk::L5 => "L5",
        }
    }

    /// Free data is L0, other data L1, a service L2, an account L4. A fee above the limit of one call raises the class
    /// by one, a fee above the limit of a day by two.
    pub fn of(what: CapabilityType, fee: Ut, limits: &SpendingLimits) -> Risk {
        let by_type = match what {
            CapabilityType::Data | CapabilityType::Knowledge if fee.is_zero() => 0,
            CapabilityType::Data | CapabilityType::Knowledge => 1,
            CapabilityType::Compute
            | CapabilityType::Service
            | CapabilityType::Tool
            | CapabilityType::Api
            | CapabilityType::Workflow => 2,
            CapabilityType::AccountSharing => 4,
        };
        let by_fee = usize::from(fee > limits.per_call) + usize::from(fee > limits.daily);
        Risk::ALL[(by_type + by_fee).min(5)]
    }
}

/// The decision whether an agent may buy without a confirmation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Alone,
    /// A person has to confirm first, for this reason.
    Ask(Because),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Because {
    #[error("the fee is above what one call may cost")]
    PerCall,
    #[error("the day's spending would be above its limit")]
    Daily,
    #[error("the risk is above what the agent may take")]
    Risk,
}

/// `spent` is the sum that the user's agents have spent without confirmation on this day.
pub fn decide(limits: &SpendingLimits, spent: Ut, fee: Ut, risk: Risk) -> Decision {
    if fee > limits.per_call {
        return Decision::Ask(Because::PerCall);
    }
    if spent.plus(fee).is_none_or(|total| total > limits.daily) {
        return Decision::Ask(Because::Daily);
    }
    if risk > limits.risk {
        return Decision::Ask(Because::Risk);
    }
    Decision::Alone
}

/// Days since 1970-01-01 UTC; daily limits count by these.
pub fn day(now: Time) -> i64 {
    now.0.div_euclid(86_400_000)
}

/// The amount that a decision of an agent adds to the day's spending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spend {
    pub tenant: Arc<str>,
    pub user: UserId,
    pub day: i64,
    pub amount: Ut,
}

/// The record of a confirmation that was or is needed, as both parties may see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confirmation {
    pub required: bool,
    pub status: ConfirmationStatus,
    pub risk_level: Risk,
    pub estimated_cost: Ut,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmed_by: Option<UserId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmed_at: Option<Time>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConfirmationStatus {
    Pending,
    Confirmed,
}

impl ConfirmationStatus {
    pub fn name(self) -> &'static str {
        match self {
            ConfirmationStatus::Pending => "pending",
            ConfirmationStatus::Confirmed => "confirmed",
        }
    }
}

impl Confirmation {
    pub(crate) fn pending(risk_level: Risk, estimated_cost: Ut) -> Confirmation {
        Confirmation {
            required: true,
            status: ConfirmationStatus::Pending,
            risk_level,
            estimated_cost,
            confirmed_by: None,
            confirmed_at: None,
        }
    }
    pub(crate) fn confirmed(self, by: &UserId, at: Time) -> Confirmation {
        Confirmation {
            status: ConfirmationStatus::Confirmed,
            confirmed_by: Some(by.clone()),
            confirmed_at: Some(at),
            ..self
        }
    }
    pub fn is_pending(&self) -> bool {
        match self.status {
            ConfirmationStatus::Pending => true,
            ConfirmationStatus::Confirmed => false,
        }
    }
}

/// The question that a confirmation answers: whether this caller may buy this at that price.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    pub tenant: Arc<str>,
    pub caller: UserId,
    pub capability: CapabilityId,
    pub fee: Ut,
}

impl Question {
    /// The text that the person reads.
    pub fn summary(&self, title: &str, balance: Ut) -> String {
        format!("buy \"{title}\" ({}) for {} UT; {balance} UT are available", self.capability, self.fee)
    }
}

/// The key that signs tokens. All replicas need the same one.
#[derive(Clone)]
pub struct ConfirmationKey(Hmac<Sha256>);

/// The key is in no log.
impl fmt::Debug for ConfirmationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key for confirmation tokens must be at least 32 bytes long")]
pub struct KeyTooShort;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum TokenRefused {
    #[error("the confirm token is not one of this server; ask for a new one")]
    Unreadable,
    #[error("the confirm token is not for this caller, capability and fee; ask for a new one")]
    NotForThis,
    #[error("the confirm token has expired; ask for a new one")]
    Expired,
    #[error("the confirm token has been used; ask for a new one")]
    Used,
}

/// Lifetime of a token.
pub const TOKEN_MS: u64 = 5 * 60 * 1_000;

const V1: u8 = 1;
const NONCE: usize = 16;
/// Version, expiry, nonce.
const HEAD: usize = 1 + 8 + NONCE;
const MAC: usize = 32;

/// Identifies a used token. Stored until the token's expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mark {
    pub nonce: [u8; NONCE],
    pub until: Time,
}

/// A verified token. Only [`ConfirmationKey::check`] makes one, and it names the question that it answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confirmed {
    question: Question,
    mark: Mark,
}

impl Confirmed {
    pub fn mark(&self) -> Mark {
        self.mark
    }
    pub fn question(&self) -> &Question {
        &self.question
    }
    pub(crate) fn fits(&self, question: &Question, now: Time) -> Result<(), TokenRefused> {
        if self.question != *question {
            return Err(TokenRefused::NotForThis);
        }
        if self.mark.until <= now {
            return Err(TokenRefused::Expired);
        }
        Ok(())
    }
}

impl ConfirmationKey {
    pub fn new(secret: &[u8]) -> Result<ConfirmationKey, KeyTooShort> {
        if secret.len() < 32 {
            return Err(KeyTooShort);
        }
        Hmac::new_from_slice(secret).map(ConfirmationKey).map_err(|_| KeyTooShort)
    }

    /// Issues a token. The caller draws a new `nonce` for each.
    pub fn issue(&self, question: &Question, nonce: [u8; NONCE], now: Time) -> String {
        let mut token = Vec::with_capacity(HEAD + MAC);
        token.push(V1);
        token.extend(now.plus_ms(TOKEN_MS).0.to_be_bytes());
        token.extend(nonce);
        let mac = self.over(&token, question).finalize().into_bytes();
        token.extend(mac);
        URL_SAFE_NO_PAD.encode(token)
    }

    /// Verifies that a token answers this question and has not expired. The commit's precondition refuses a used token.
    pub fn check(&self, token: &str, question: &Question, now: Time) -> Result<Confirmed, TokenRefused> {
        let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| TokenRefused::Unreadable)?;
        let (head, mac) = bytes.split_at_checked(HEAD).ok_or(TokenRefused::Unreadable)?;
        let (version, rest) = head.split_first().ok_or(TokenRefused::Unreadable)?;
        let (until, nonce) = rest.split_first_chunk::<8>().ok_or(TokenRefused::Unreadable)?;
        let nonce: [u8; NONCE] = nonce.try_into().map_err(|_| TokenRefused::Unreadable)?;
        if *version != V1 || mac.len() != MAC {
            return Err(TokenRefused::Unreadable);
        }
        // Compares in constant time.
        self.over(head, question).verify_slice(mac).map_err(|_| TokenRefused::NotForThis)?;
        let confirmed =
            Confirmed { question: question.clone(), mark: Mark { nonce, until: Time(i64::from_be_bytes(*until)) } };
        confirmed.fits(question, now)?;
        Ok(confirmed)
    }

    /// Each text is prefixed with its length, so that two different questions never have the same bytes.
    fn over(&self, head: &[u8], question: &Question) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        mac.update(b"rialto-market-confirm");
        mac.update(head);
        for text in [&*question.tenant, question.caller.as_str(), question.capability.as_str()] {
            mac.update(&(text.len() as u64).to_be_bytes());
            mac.update(text.as_bytes());
        }
        mac.update(&question.fee.hundredths().to_be_bytes());
        mac
    }
}

#[cfg(test)]
#[path = "autonomy_tests.rs"]
mod tests;
