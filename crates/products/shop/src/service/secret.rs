//! Random bytes, and the shops' secret that tokens are derived from: a repeated request gets the same token again, although
//! tokens are not stored.

use engine::Engine;
use engine::secrets::SecretPlace;
use hmac::{Hmac, KeyInit, Mac};
use ledger::Row;
use model::Fault;
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use shop_rules::ids::RANDOM;

use crate::service::records::{self, ALL};
use ledger::records::listed;

pub(crate) struct TokenSecret([u8; 32]);

#[derive(Serialize, Deserialize)]
struct SecretRow {
    key: [u8; 32],
}
impl Row for SecretRow {
    const NAME: &'static str = "shop secret";
}

fn random<const N: usize>() -> Result<[u8; N], Fault> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| Fault::internal(error.to_string()))?;
    Ok(bytes)
}

/// Random bytes.
pub(crate) fn draw() -> Result<[u8; RANDOM], Fault> {
    random()
}

/// The same as text.
pub(crate) fn draw_text() -> Result<String, Fault> {
    Ok(draw()?.iter().map(|byte| format!("{byte:02x}")).collect())
}

impl TokenSecret {
    /// Loads the secret, which all processes on the store share; the first one creates it.
    pub(crate) async fn load(engine: &Engine) -> Result<TokenSecret, Fault> {
        let place = SecretPlace { kind: records::SECRET, key: ALL, lists: vec![listed(ALL, 0)] };
        let kept = engine.own_secret(&place, || Ok(SecretRow { key: random()? }.to_row())).await?;
        SecretRow::from_row(&kept).map(|row| TokenSecret(row.key)).map_err(Fault::internal)
    }

    /// Derives bytes from these parts with the secret.
    pub(crate) fn derive(&self, parts: &[&str]) -> Result<[u8; RANDOM], Fault> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).map_err(|error| Fault::internal(error.to_string()))?;
        for part in parts {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part.as_bytes());
        }
        let mut bytes = [0; RANDOM];
        bytes.copy_from_slice(&mac.finalize().into_bytes()[..RANDOM]);
        Ok(bytes)
    }
}
