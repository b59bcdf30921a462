//! The signature on a delivery, as in Standard Webhooks: an HMAC-SHA256 over id, time and body. A receiver can verify
//! the sender and the content, and reject a replay.

use aws_lc_rs::{digest, hmac};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Prefix of that standard's secrets; the rest is base64.
const PREFIX: &str = "whsec_";

/// Hashes and measures a body before it is sent, piece by piece.
pub(super) struct BodyHasher {
    hmac: Option<hmac::Context>,
    digest: Option<digest::Context>,
    len: u64,
}

/// The result of a [`BodyHasher`].
pub(super) struct BodyHashes {
    /// `v1,<base64>`, if there is a key.
    pub(super) signature: Option<String>,
    /// Hash of the body alone, in hex.
    pub(super) sha256: Option<String>,
    pub(super) len: u64,
}

impl BodyHasher {
    pub(super) fn new(key: Option<&str>, id: &str, timestamp: i64, digested: bool) -> BodyHasher {
        let hmac = key.map(|key| {
            let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, &secret(key)));
            context.update(format!("{id}.{timestamp}.").as_bytes());
            context
        });
        BodyHasher { hmac, digest: digested.then(|| digest::Context::new(&digest::SHA256)), len: 0 }
    }

    pub(super) fn take(&mut self, piece: &[u8]) {
        if let Some(hmac) = &mut self.hmac {
            hmac.update(piece);
        }
        if let Some(digest) = &mut self.digest {
            digest.update(piece);
        }
        self.len += piece.len() as u64;
    }

    pub(super) fn finish(self) -> BodyHashes {
        BodyHashes {
            signature: self.hmac.map(|hmac| format!("v1,{}", STANDARD.encode(hmac.sign()))),
            sha256: self.digest.map(|digest| hex(digest.finish().as_ref())),
            len: self.len,
        }
    }
}

fn secret(key: &str) -> Vec<u8> {
    let decoded = key.strip_prefix(PREFIX).and_then(|text| STANDARD.decode(text).ok());
    decoded.unwrap_or_else(|| key.as_bytes().to_vec())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(key: Option<&str>, pieces: &[&str]) -> BodyHashes {
        let mut reading = BodyHasher::new(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, true);
        pieces.iter().for_each(|piece| reading.take(piece.as_bytes()));
        reading.finish()
    }

    /// The example of the standard's documentation.
    #[test]
    fn the_standards_example_comes_out() {
        let key = Some("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        let expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert_eq!(read(key, &[r#"{"test": 2432232314}"#]).signature.unwrap(), expected);
        let cut = read(key, &[r#"{"test": "#, "", "2432232314}"]);
        assert_eq!((cut.signature.unwrap().as_str(), cut.len), (expected, 20));
    }

    #[test]
    fn any_other_key_is_taken_as_it_is() {
        // printf 'msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330.body' | openssl dgst -sha256 -hmac plain -binary | base64
        assert_eq!(
            read(Some("plain"), &["body"]).signature.unwrap(),
            "v1,OMErnarViRAc90Rgu+Fpz94d0h5GCuOBo1XxqP4/utQ="
        );
        assert!(read(None, &["body"]).signature.is_none());
    }

    #[test]
    fn the_digest_is_of_the_body_alone() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(read(Some("plain"), &["a", "bc"]).sha256.unwrap(), abc);
    }
}
