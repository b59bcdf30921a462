//! Stock: quantities of units by place. Units move between places and are never created: available, reserved and sold units
//! sum to the number that came in.
//!
//! In a store each place of a unit is an account that cannot fall below zero, and a checkout's moves are one entry of the
//! journal. So the last unit is sold once among any number of concurrent buyers, and no buyer has to try again. The uses of a
//! coupon are counted in the same way.

use std::sync::Arc;

use bytes::Bytes;
use model::{Entry, Posting, Time};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::{ProductId, Slug, VariantId};
use ledger::Row;

/// Something that is counted: a variant of a product, or a coupon.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    Variant {
        site: Slug,
        product: ProductId,
        variant: VariantId,
    },
    /// A use of a coupon.
    Coupon {
        site: Slug,
        code: Arc<str>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StockPlace {
    /// The source of stock that is added, and the destination of stock that is removed.
    Outside,
    Available,
    Reserved,
    Sold,
}

impl StockPlace {
    pub const ALL: [StockPlace; 4] =
        [StockPlace::Outside, StockPlace::Available, StockPlace::Reserved, StockPlace::Sold];

    fn letter(self) -> &'static str {
        match self {
            StockPlace::Outside => "o",
            StockPlace::Available => "a",
            StockPlace::Reserved => "r",
            StockPlace::Sold => "s",
        }
    }
}

/// The prefix of the names of all stock accounts.
pub const ACCOUNTS: &str = "stock\u{1f}";

impl Unit {
    /// The account of a place.
    pub fn account(&self, place: StockPlace) -> Arc<str> {
        let place = place.letter();
        match self {
            Unit::Variant { site, product, variant } => {
                format!("{ACCOUNTS}v\u{1f}{site}\u{1f}{product}\u{1f}{variant}\u{1f}{place}").into()
            }
            Unit::Coupon { site, code } => format!("{ACCOUNTS}c\u{1f}{site}\u{1f}{code}\u{1f}{place}").into(),
        }
    }

    /// The unit and place of an account, if it is one of stock.
    pub fn of_account(account: &str) -> Option<(Unit, StockPlace)> {
        let mut parts = account.strip_prefix(ACCOUNTS)?.split('\u{1f}');
        let unit = match parts.next()? {
            "v" => Unit::Variant {
                site: parts.next()?.into(),
                product: parts.next()?.into(),
                variant: parts.next()?.into(),
            },
            "c" => Unit::Coupon { site: parts.next()?.into(), code: parts.next()?.into() },
            _ => return None,
        };
        let letter = parts.next()?;
        let place = StockPlace::ALL.into_iter().find(|place| place.letter() == letter)?;
        parts.next().is_none().then_some((unit, place))
    }
}

/// A quantity of a unit that moves between two places. Stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    #[serde(rename = "u")]
    pub unit: Unit,
    #[serde(rename = "f")]
    pub from: StockPlace,
    #[serde(rename = "t")]
    pub to: StockPlace,
    #[serde(rename = "n")]
    pub quantity: u64,
}

/// Moves that happen together. The name is derived from their subject, so that they are posted at most once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moves {
    #[serde(rename = "i")]
    pub name: Arc<str>,
    #[serde(rename = "m")]
    pub moves: Vec<Move>,
}
impl Row for Moves {
    const NAME: &'static str = "stock entry";
}

impl Moves {
    pub fn new(name: impl Into<Arc<str>>, moves: Vec<Move>) -> Moves {
        Moves { name: name.into(), moves }
    }

    /// The journal entry; `None` if nothing moves.
    pub fn entry(&self, at: Time) -> Option<Entry> {
        let mut postings: Vec<Posting> = Vec::with_capacity(self.moves.len() * 2);
        for Move { unit, from, to, quantity } in &self.moves {
            let quantity = i64::try_from(*quantity).unwrap_or(i64::MAX);
            for (place, amount) in [(*from, -quantity), (*to, quantity)] {
                let account = unit.account(place);
                match postings.iter_mut().find(|known| known.account == account) {
                    Some(known) => known.amount = known.amount.saturating_add(amount),
                    None => {
                        let floor = (place != StockPlace::Outside).then_some(0);
                        postings.push(Posting { account, amount, floor });
                    }
                }
            }
        }
        postings.retain(|posting| posting.amount != 0);
        if postings.is_empty() {
            return None;
        }
        Some(Entry { id: self.id(), at, body: Bytes::from(self.to_row()), postings })
    }

    pub fn id(&self) -> Uuid {
        let hash = Sha256::digest(format!("stock/{}", self.name));
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hash[..16]);
        uuid::Builder::from_custom_bytes(bytes).into_uuid()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hats() -> Unit {
        Unit::Variant { site: "acme".into(), product: "hat".into(), variant: "l".into() }
    }

    #[test]
    fn an_account_tells_what_it_is_of() {
        for unit in [hats(), Unit::Coupon { site: "acme".into(), code: "TEN".into() }] {
            for place in StockPlace::ALL {
                assert_eq!(Unit::of_account(&unit.account(place)), Some((unit.clone(), place)));
            }
        }
        for foreign in ["", "a\u{1f}default\u{1f}u_1", "stock\u{1f}v\u{1f}acme", "stock\u{1f}x\u{1f}a\u{1f}b\u{1f}a"] {
            assert_eq!(Unit::of_account(foreign), None);
        }
    }

    #[test]
    fn moves_make_an_entry_that_any_store_takes() {
        let one = |from, to, quantity| Move { unit: hats(), from, to, quantity };
        let moves = vec![
            one(StockPlace::Available, StockPlace::Reserved, 2),
            one(StockPlace::Available, StockPlace::Reserved, 1),
        ];
        let entry = Moves::new("cs_1/reserve", moves).entry(Time(5)).unwrap();
        assert_eq!(entry.mistake(), None);
        assert_eq!(entry.postings.iter().map(|p| p.amount).collect::<Vec<_>>(), [-3, 3]);
        assert!(entry.postings.iter().all(|posting| posting.floor == Some(0)));
        assert_ne!(entry.id, Moves::new("cs_1/end", Vec::new()).id());
        assert_eq!(Moves::new("nothing", Vec::new()).entry(Time(5)), None);
        let there_and_back =
            vec![one(StockPlace::Available, StockPlace::Sold, 2), one(StockPlace::Sold, StockPlace::Available, 2)];
        assert_eq!(Moves::new("nothing", there_and_back).entry(Time(5)), None);
    }
}
