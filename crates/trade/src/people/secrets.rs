//! The server's own keys, and everything else that is drawn.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use engine::{Along, Engine, Unmoved};
use market::{Row, autonomy};
use model::ports::store::Conflict;
use model::{Expect, Fault};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::Secrets;
use crate::kept::{self, kind};
use crate::refused::unread;

/// There is one record of them per store.
const OWN: &str = "own";

/// As they are kept: 32 bytes each, in base64.
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
        let confirm = autonomy::Key::new(&bytes(&self.confirm)?).map_err(Fault::internal)?;
        Ok(Secrets { login: bytes(&self.login)?, confirm, callback: bytes(&self.callback)? })
    }
}

/// The server's own keys, made at the first start and the same from then on, whichever process is first.
pub(crate) async fn secrets(engine: &Engine) -> Result<Secrets, Fault> {
    // Another one may be installed already; there is only this one to choose from.
    let _ = jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER.install_default();
    if let Some(kept) = read(engine).await? {
        return kept.opened();
    }
    let drawn = SecretsRow::drawn()?;
    let put = kept::put(kind::SECRETS, OWN, Expect::Absent, &drawn, Vec::new());
    match engine.keep(Along { records: vec![put], ..Along::default() }).await {
        Ok(()) => drawn.opened(),
        // Another process was faster: its keys are everybody's.
        Err(Unmoved::Met(Conflict::Record(..))) => match read(engine).await? {
            Some(kept) => kept.opened(),
            None => Err(Fault::internal("the market's own keys have gone as soon as they were made")),
        },
        Err(unmoved) => Err(unmoved.into()),
    }
}

async fn read(engine: &Engine) -> Result<Option<SecretsRow>, Fault> {
    let found = engine.store().record(kind::SECRETS.into(), OWN.into()).await.map_err(unread)?;
    found.map(|record| SecretsRow::from_row(&record.body).map_err(Fault::internal)).transpose()
}

fn bytes(text: &str) -> Result<[u8; 32], Fault> {
    let decoded = URL_SAFE_NO_PAD.decode(text).ok().and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
    decoded.ok_or_else(|| Fault::internal("the market's own keys in the store are damaged; restore them from a backup"))
}

/// Bytes nobody can guess.
pub(crate) fn draw<const N: usize>() -> Result<[u8; N], Fault> {
    let mut drawn = [0; N];
    getrandom::fill(&mut drawn).map_err(|error| Fault::internal(format!("no randomness: {error}")))?;
    Ok(drawn)
}

/// 43 characters nobody can guess, for headers and addresses.
pub(crate) fn text() -> Result<String, Fault> {
    Ok(URL_SAFE_NO_PAD.encode(draw::<32>()?))
}

/// What is kept of a secret. It was drawn from 32 bytes, so a fast hash gives nothing away.
pub(crate) fn print(secret: &str) -> Arc<str> {
    kept::hex(&hash(secret))
}

pub(super) fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret).into()
}
