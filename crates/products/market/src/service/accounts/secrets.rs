//! The server's own keys, and random values.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use engine::Engine;
use engine::secrets::SecretPlace;
use ledger::Row;
use market_rules::autonomy;
use model::Fault;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::Secrets;
use crate::service::records;

/// There is one record of them per store.
const OWN: &str = "own";

/// The stored form: 32 bytes each, in base64.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SecretsRow {
    login: Arc<str>,
    confirm: Arc<str>,
    callback: Arc<str>,
}
impl Row for SecretsRow {
    const NAME: &'static str = "secrets";
}

impl SecretsRow {
    fn drawn() -> Result<SecretsRow, Fault> {
        Ok(SecretsRow { login: text()?.into(), confirm: text()?.into(), callback: text()?.into() })
    }

    fn opened(&self) -> Result<Secrets, Fault> {
        let confirm = autonomy::ConfirmationKey::new(&bytes(&self.confirm)?).map_err(Fault::internal)?;
        Ok(Secrets { login: bytes(&self.login)?, confirm, callback: bytes(&self.callback)? })
    }
}

/// The server's own keys. The first process on the store generates them; they never change.
pub(crate) async fn secrets(engine: &Engine) -> Result<Secrets, Fault> {
    // A provider may be installed already; it is the same one.
    let _ = jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER.install_default();
    let place = SecretPlace { kind: records::SECRETS, key: OWN, lists: Vec::new() };
    let kept = engine.own_secret(&place, || SecretsRow::drawn().map(|drawn| drawn.to_row())).await?;
    SecretsRow::from_row(&kept).map_err(Fault::internal)?.opened()
}

fn bytes(text: &str) -> Result<[u8; 32], Fault> {
    let decoded = URL_SAFE_NO_PAD.decode(text).ok().and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
    decoded.ok_or_else(|| Fault::internal("the market's own keys in the store are damaged; restore them from a backup"))
}

/// Random bytes.
pub(crate) fn draw<const N: usize>() -> Result<[u8; N], Fault> {
    let mut drawn = [0; N];
    getrandom::fill(&mut drawn).map_err(|error| Fault::internal(format!("no randomness: {error}")))?;
    Ok(drawn)
}

/// 43 random characters, for headers and addresses.
pub(crate) fn text() -> Result<String, Fault> {
    Ok(URL_SAFE_NO_PAD.encode(draw::<32>()?))
}

/// The stored hash of a secret. A secret has 32 random bytes, so a fast hash is enough.
pub(crate) fn print(secret: &str) -> Arc<str> {
    records::hex(&hash(secret))
}

pub(super) fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret).into()
}
