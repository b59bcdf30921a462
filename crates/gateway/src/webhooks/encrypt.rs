//! Encryption of secrets at rest: push configs, and the keys that the server made for itself. The store and its backups
//! reveal neither the receivers of deliveries nor the signing keys. AES-256-GCM, bound to the task or to the name of
//! the key, so that a ciphertext is useless in another place.
//!
//! Layout: a version byte, a nonce of 12 bytes, then the ciphertext and its tag.

use std::path::Path;

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use model::ports::sealer::Sealer;
use model::{Fault, PushSpec, TaskId};

use super::keyfile::{self, KeyFault};

const VERSION: u8 = 1;
const KEY: usize = 32;

pub struct Seal {
    key: RandomizedNonceKey,
    fingerprint: String,
    new: bool,
}

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seal")
    }
}

impl Seal {
    pub fn new(key: &[u8; KEY]) -> Result<Seal, KeyFault> {
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), b"the seal of push configs");
        let fingerprint = URL_SAFE_NO_PAD.encode(&tag.as_ref()[..16]);
        let made = RandomizedNonceKey::new(&AES_256_GCM, key);
        let key = made.map_err(|_| KeyFault::new("the seal's key was refused; name another with push.key_file"))?;
        Ok(Seal { key, fingerprint, new: false })
    }

    /// Distinguishes this key from others without revealing it.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// The key in a file of the data folder; a missing file is created.
    pub fn in_folder(path: &Path) -> Result<Seal, KeyFault> {
        if let Some(seal) = Seal::read(path)? {
            return Ok(seal);
        }
        let mut key = [0; KEY];
        getrandom::fill(&mut key).map_err(|error| KeyFault::new(format!("cannot draw a key: {error}")))?;
        keyfile::write(path, &key)?;
        Ok(Seal { new: true, ..Seal::new(&key)? })
    }

    /// The key in a file that the operator names. A missing file is an error, so that a mistyped name does not become a
    /// new key.
    pub fn in_file(path: &Path) -> Result<Seal, KeyFault> {
        Seal::read(path)?.ok_or_else(|| {
            let path = path.display();
            KeyFault::new(format!(
                "there is no key in {path}; make one with: (umask 077; head -c 32 /dev/urandom > {path})"
            ))
        })
    }

    fn read(path: &Path) -> Result<Option<Seal>, KeyFault> {
        let Some(bytes) = keyfile::read(path)? else { return Ok(None) };
        let key: [u8; KEY] = bytes.as_slice().try_into().map_err(|_| {
            let (path, found) = (path.display(), bytes.len());
            KeyFault::new(format!(
                "{path} is no key: it has {found} bytes instead of 32; put the right file back, or move it away for a new key, which cannot open the push configs there are"
            ))
        })?;
        Seal::new(&key).map(Some)
    }

    pub(super) fn seal(&self, task: TaskId, spec: &PushSpec) -> Result<Bytes, Fault> {
        let text = serde_json::to_vec(spec).map_err(Fault::internal)?;
        let sealed = self.close(task.0.as_bytes(), text);
        sealed.map(Bytes::from).ok_or_else(|| Fault::internal("a push config could not be sealed"))
    }

    pub(super) fn open(&self, task: TaskId, sealed: &[u8]) -> Result<PushSpec, Fault> {
        let wrong = || Fault::internal("a push config cannot be unsealed: it was sealed with another key, or harmed");
        let open = self.unseal(task.0.as_bytes(), sealed).ok_or_else(wrong)?;
        serde_json::from_slice(&open).map_err(Fault::internal)
    }

    /// Encrypts, and binds to `about`.
    fn close(&self, about: &[u8], mut text: Vec<u8>) -> Option<Vec<u8>> {
        let nonce = self.key.seal_in_place_append_tag(Aad::from(about), &mut text).ok()?;
        let mut sealed = Vec::with_capacity(1 + NONCE_LEN + text.len());
        sealed.push(VERSION);
        sealed.extend_from_slice(nonce.as_ref());
        sealed.extend_from_slice(&text);
        Some(sealed)
    }

    fn unseal(&self, about: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let (version, rest) = sealed.split_first()?;
        if *version != VERSION || rest.len() < NONCE_LEN {
            return None;
        }
        let (nonce, text) = rest.split_at(NONCE_LEN);
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut text = text.to_vec();
        let open = self.key.open_in_place(nonce, Aad::from(about), &mut text).ok()?.len();
        text.truncate(open);
        Some(text)
    }
}

impl Sealer for Seal {
    fn seal_secret(&self, about: &str, secret: &[u8]) -> Result<Vec<u8>, Fault> {
        let sealed = self.close(about.as_bytes(), secret.to_vec());
        sealed.ok_or_else(|| Fault::internal("a secret could not be sealed"))
    }

    fn open_secret(&self, about: &str, sealed: &[u8]) -> Result<Vec<u8>, Fault> {
        self.unseal(about.as_bytes(), sealed).ok_or_else(|| {
            Fault::internal(
                "the server's own keys were sealed with another key: put that back as seal.key in the data folder, or \
                 name it with push.key_file; if it is lost, remove seal.key, and new keys are drawn: logins end, and \
                 what the old keys signed is good no more",
            )
        })
    }

    fn is_new(&self) -> bool {
        self.new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(text: &str) -> TaskId {
        text.parse().unwrap()
    }

    fn one() -> TaskId {
        task("0190f3c4-1111-7222-8333-444455556666")
    }

    fn spec() -> PushSpec {
        PushSpec {
            url: "https://example.com/hook?key=hidden".into(),
            token: Some("hidden".into()),
            scheme: Some("Bearer".into()),
            credentials: Some("hidden".into()),
            dialect: "a2a_v1".into(),
            shown: None,
            trace: None,
        }
    }

    #[test]
    fn what_is_sealed_is_unreadable_and_opens_again() {
        let seal = Seal::new(&[7; 32]).unwrap();
        let sealed = seal.seal(one(), &spec()).unwrap();
        assert_eq!(sealed[0], VERSION);
        assert!(!String::from_utf8_lossy(&sealed).contains("hidden"));
        assert_eq!(seal.open(one(), &sealed).unwrap(), spec());
        assert_ne!(sealed, seal.seal(one(), &spec()).unwrap(), "a nonce is used once");
    }

    #[test]
    fn a_changed_byte_anywhere_is_noticed() {
        let seal = Seal::new(&[7; 32]).unwrap();
        let sealed = seal.seal(one(), &spec()).unwrap();
        for at in 0..sealed.len() {
            let mut changed = sealed.to_vec();
            changed[at] ^= 1;
            assert!(seal.open(one(), &changed).is_err(), "byte {at}");
        }
        for short in [0, 1, 12, 13, sealed.len() - 1] {
            assert!(seal.open(one(), &sealed[..short]).is_err(), "{short} bytes");
        }
    }

    #[test]
    fn another_task_or_another_key_opens_nothing() {
        let seal = Seal::new(&[7; 32]).unwrap();
        let sealed = seal.seal(one(), &spec()).unwrap();
        let fault = seal.open(task("0190f3c4-1111-7222-8333-444455557777"), &sealed).unwrap_err();
        assert!(fault.cause.unwrap().to_string().contains("another key"));
        let other = Seal::new(&[8; 32]).unwrap();
        assert!(other.open(one(), &sealed).is_err());
        assert_ne!(other.fingerprint(), seal.fingerprint());
        assert_eq!(Seal::new(&[7; 32]).unwrap().fingerprint(), seal.fingerprint());
    }

    #[test]
    fn a_secret_opens_under_its_own_name_alone() {
        let seal = Seal::new(&[7; 32]).unwrap();
        let sealed = seal.seal_secret("market/secrets", b"hidden").unwrap();
        assert!(!String::from_utf8_lossy(&sealed).contains("hidden"));
        assert_eq!(seal.open_secret("market/secrets", &sealed).unwrap(), b"hidden");
        assert!(seal.open_secret("shop/secret", &sealed).is_err());
        assert!(Seal::new(&[8; 32]).unwrap().open_secret("market/secrets", &sealed).is_err());
        let fault = seal.open_secret("market/secrets", b"").unwrap_err();
        assert!(fault.cause.unwrap().to_string().contains("put that back as seal.key"));
    }

    #[test]
    fn a_key_is_made_once_and_read_ever_after() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("seal.key");
        let sealed = Seal::in_folder(&path).unwrap().seal(one(), &spec()).unwrap();
        assert_eq!(Seal::in_folder(&path).unwrap().open(one(), &sealed).unwrap(), spec());
        assert_eq!(Seal::in_file(&path).unwrap().open(one(), &sealed).unwrap(), spec());
    }

    #[test]
    fn a_wrong_file_is_refused_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("seal.key");
        assert!(Seal::in_file(&path).unwrap_err().to_string().contains("head -c 32 /dev/urandom"));
        assert!(!path.exists());
        std::fs::write(&path, "too short").unwrap();
        let words = Seal::in_folder(&path).unwrap_err().to_string();
        assert!(words.contains("9 bytes instead of 32") && words.contains("put the right file back"), "{words}");
    }
}
