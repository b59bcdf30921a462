//! Typed ids: the macro [`text_id!`](crate::text_id), users, and transactions.

use std::fmt;
use std::str::FromStr;

use model::TaskId;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Defines an id: a text with a type of its own. The crate that uses the macro depends on `serde`.
#[macro_export]
macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, ::serde::Serialize, ::serde::Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub ::std::sync::Arc<str>);

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }
        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl ::std::fmt::Debug for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                ::std::fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}
text_id!(
    /// A user, person or agent, within a tenant. A user buys and sells under the same id.
    UserId
);

/// A purchase. In A2A it is a task and has the task's id. Its text is 26 letters and digits that sort by time.
///
/// ```
/// use ledger::TransactionId;
/// let id: TransactionId = "task_01jqxyz0000000000000000000".parse().unwrap();
/// assert_eq!(id.tx(), "tx_01jqxyz0000000000000000000");
/// assert_eq!("01jqxyz0000000000000000000".parse(), Ok(id));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TransactionId(pub TaskId);

/// Crockford's base 32: no two digits look alike.
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const LENGTH: usize = 26;

impl TransactionId {
    /// The spelling of the A2A endpoint.
    pub fn task(self) -> String {
        format!("task_{self}")
    }
    /// The spelling of REST and of summaries.
    pub fn tx(self) -> String {
        format!("tx_{self}")
    }
}

impl From<TaskId> for TransactionId {
    fn from(task: TaskId) -> Self {
        Self(task)
    }
}
impl From<TransactionId> for TaskId {
    fn from(id: TransactionId) -> Self {
        id.0
    }
}

impl fmt::Display for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut number = self.0.0.as_u128();
        let mut text = [0; LENGTH];
        for digit in text.iter_mut().rev() {
            *digit = DIGITS[(number & 31) as usize];
            number >>= 5;
        }
        f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}
impl fmt::Debug for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is no transaction id: `task_`, `tx_` or nothing, then 26 letters and digits")]
pub struct NoTransactionId;

impl FromStr for TransactionId {
    type Err = NoTransactionId;
    fn from_str(text: &str) -> Result<Self, NoTransactionId> {
        let core = text.strip_prefix("task_").or_else(|| text.strip_prefix("tx_")).unwrap_or(text);
        // 26 digits hold 130 bits; the first may use only three of its five.
        if core.len() != LENGTH || core.as_bytes()[0] > b'7' {
            return Err(NoTransactionId);
        }
        let mut number: u128 = 0;
        for byte in core.bytes() {
            let digit = DIGITS.iter().position(|known| *known == byte).ok_or(NoTransactionId)?;
            number = (number << 5) | digit as u128;
        }
        Ok(Self(TaskId(Uuid::from_u128(number))))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_transaction_id_has_three_spellings_and_no_more() {
        let id = TransactionId(TaskId(Uuid::from_u128(u128::MAX)));
        assert_eq!(id.to_string(), "7zzzzzzzzzzzzzzzzzzzzzzzzz");
        for good in [id.to_string(), id.task(), id.tx()] {
            assert_eq!(good.parse(), Ok(id));
        }
        for bad in [
            "",
            "task_",
            "tx_task_7zzzzzzzzzzzzzzzzzzzzzzzzz",
            "7ZZZZZZZZZZZZZZZZZZZZZZZZZ",
            "8zzzzzzzzzzzzzzzzzzzzzzzzz",
            "7zzzzzzzzzzzzzzzzzzzzzzzz",
            "7zzzzzzzzzzzzzzzzzzzzzzzzl",
            "ééééééééééééé",
        ] {
            assert_eq!(bad.parse::<TransactionId>(), Err(NoTransactionId), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_printed_id_reads_back_and_sorts_alike(a: u128, b: u128) {
            let (a, b) = (TransactionId(TaskId(Uuid::from_u128(a))), TransactionId(TaskId(Uuid::from_u128(b))));
            prop_assert_eq!(a.task().parse(), Ok(a));
            prop_assert_eq!(a.cmp(&b), a.to_string().cmp(&b.to_string()));
        }
    }
}
