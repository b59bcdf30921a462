//! Slugs, ids, and secret tokens.
//!
//! A token is shown once and never stored. Its record is found by its hash; the ids of a checkout and of its order are
//! derived from the token in the same way, so that the token's holder needs nothing else, and a reader of the store cannot
//! recover the token.

use std::fmt;
use std::sync::Arc;

use ledger::text_id;
use sha2::{Digest, Sha256};

use crate::Error;

text_id!(
    /// The owner of sites. A caller belongs to one workspace; in the rest of the server it is the caller's tenant.
    WorkspaceId
);
text_id!(
    /// The name of a site in addresses and requests: `acme`.
    Slug
);
text_id!(ProductId);
text_id!(VariantId);
text_id!(
    /// Id of a checkout: `cs_` and letters that are derived from its confirmation token.
    SessionId
);
text_id!(
    /// Id of an order: `ord_` and the letters of its checkout.
    OrderId
);

/// The longest id or slug.
pub const MAX_ID: usize = 64;

impl Slug {
    /// Checks a slug: small letters, digits and hyphens, without a hyphen at either end.
    pub fn check(text: &str) -> Result<Slug, Error> {
        let is_fine = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if text.is_empty() || text.len() > MAX_ID || !text.bytes().all(is_fine) {
            return Err(Error::Name("a slug has 1 to 64 small letters, digits and hyphens, such as \"acme\""));
        }
        if text.starts_with('-') || text.ends_with('-') {
            return Err(Error::Name("a slug begins and ends with a letter or digit"));
        }
        Ok(Slug(text.into()))
    }

    /// Makes a slug of a name; `None` if the name has no letter or digit of one.
    pub fn of(name: &str) -> Option<Slug> {
        let mut text = String::with_capacity(name.len());
        for c in name.chars().flat_map(char::to_lowercase) {
            if c.is_ascii_alphanumeric() {
                text.push(c);
            } else if !text.is_empty() && !text.ends_with('-') {
                text.push('-');
            }
        }
        text.truncate(MAX_ID);
        let text = text.trim_end_matches('-');
        (!text.is_empty()).then(|| Slug(text.into()))
    }
}

fn checked_id(text: &str) -> Result<Arc<str>, Error> {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if text.is_empty() || text.len() > MAX_ID || !text.bytes().all(is_fine) {
        return Err(Error::Name("an id has 1 to 64 letters, digits, points, hyphens and underscores"));
    }
    Ok(text.into())
}

impl ProductId {
    pub fn check(text: &str) -> Result<ProductId, Error> {
        checked_id(text).map(ProductId)
    }
}

impl VariantId {
    /// Id of the only variant of a product without options.
    pub const ONLY: &str = "default";

    pub fn check(text: &str) -> Result<VariantId, Error> {
        checked_id(text).map(VariantId)
    }
}

/// Random bytes in a token, enough to be unguessable.
pub const RANDOM: usize = 20;
/// Crockford's base 32, without digits that look alike.
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const LENGTH: usize = RANDOM * 8 / 5;

fn spelled(bytes: &[u8; RANDOM]) -> String {
    let mut text = String::with_capacity(LENGTH);
    for five in bytes.as_chunks::<5>().0 {
        let number = five.iter().fold(0_u64, |number, byte| (number << 8) | u64::from(*byte));
        for place in (0..8).rev() {
            let digit = (number >> (5 * place)) & 31;
            text.push(char::from(DIGITS[digit as usize]));
        }
    }
    text
}

fn hashed(what: &str, token: &str) -> String {
    let hash = Sha256::digest(format!("{what}\u{1f}{token}"));
    let mut bytes = [0; RANDOM];
    bytes.copy_from_slice(&hash[..RANDOM]);
    spelled(&bytes)
}

macro_rules! secret {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq)]
        pub struct $name(Arc<str>);

        impl $name {
            pub const PREFIX: &str = $prefix;

            pub fn draw(random: [u8; RANDOM]) -> Self {
                Self(format!("{}{}", $prefix, spelled(&random)).into())
            }

            /// Reads a token by its form; only the store can tell whether it was issued.
            pub fn read(text: &str) -> Option<Self> {
                let rest = text.strip_prefix($prefix)?;
                let fits = rest.len() == LENGTH && rest.bytes().all(|byte| DIGITS.contains(&byte));
                fits.then(|| Self(text.into()))
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        /// Hides the secret from logs.
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(concat!($prefix, ".."))
            }
        }
    };
}
secret!(
    /// Its holder may read and change the cart.
    CartToken,
    "cart_"
);
secret!(
    /// Completes a checkout, once; afterwards it shows the order.
    ConfirmationToken,
    "conf_"
);

impl CartToken {
    /// The key of the cart's record.
    pub fn key(&self) -> Arc<str> {
        hashed("cart", &self.0).into()
    }
}

impl ConfirmationToken {
    pub fn session(&self) -> SessionId {
        SessionId(format!("cs_{}", hashed("checkout", &self.0)).into())
    }
}

impl SessionId {
    pub fn order(&self) -> OrderId {
        OrderId(format!("ord_{}", self.0.strip_prefix("cs_").unwrap_or(&self.0)).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs_are_what_addresses_can_have() {
        for good in ["acme", "a", "hats-4-all", "7"] {
            assert!(Slug::check(good).is_ok(), "{good}");
        }
        for bad in ["", "Acme", "a b", "-a", "a-", "ä", "a/b", &"x".repeat(65)] {
            assert!(Slug::check(bad).is_err(), "{bad}");
        }
        assert_eq!(Slug::of("Sun Hat, wide!").unwrap().as_str(), "sun-hat-wide");
        assert_eq!(Slug::of("!!"), None);
    }

    #[test]
    fn a_token_reads_back_and_tells_its_ids_only_one_way() {
        let token = ConfirmationToken::draw([7; RANDOM]);
        assert_eq!(ConfirmationToken::read(token.as_str()), Some(token.clone()));
        assert_eq!(token.session(), token.session());
        assert_ne!(token.session(), ConfirmationToken::draw([8; RANDOM]).session());
        let order = token.session().order();
        assert!(order.as_str().starts_with("ord_"));
        assert!(!token.session().as_str().contains(&token.as_str()[5..]));
        assert_eq!(format!("{token:?}"), "conf_..");
        for bad in ["", "conf_", "cart_00000000000000000000000000000000", "conf_0000000000000000000000000000000U"] {
            assert_eq!(ConfirmationToken::read(bad), None, "{bad}");
        }
    }
}
