//! The server's own token on a delivery: a JWT signed with ES256, for receivers that verify the sender without a shared
//! secret. The public key is at `/.well-known/jwks.json`.

use std::path::Path;

use aws_lc_rs::digest;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde::Serialize;
use serde_json::{Value, json};

use super::keyfile::{self, KeyFault};

/// Lifetime of a token, short so that an old one is worth nothing.
const GOOD_FOR_S: i64 = 300;

pub struct Signer {
    key: EncodingKey,
    header: Header,
    jwks: String,
    issuer: String,
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signer").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

#[derive(Serialize)]
struct Claims<'a> {
    iss: &'a str,
    aud: &'a str,
    iat: i64,
    exp: i64,
    jti: &'a str,
    #[serde(rename = "taskId")]
    task: &'a str,
    request_body_sha256: &'a str,
}

/// The facts that one token states.
pub(super) struct TokenFacts<'a> {
    /// The receiver: scheme, host and port.
    pub(super) endpoint: &'a str,
    pub(super) event: &'a str,
    /// The task, under the id that its owner uses.
    pub(super) task: &'a str,
    pub(super) body_sha256: &'a str,
    pub(super) at: i64,
}

impl Signer {
    /// The key in this file; a missing file is created.
    pub fn in_folder(path: &Path, issuer: String) -> Result<Signer, KeyFault> {
        let wrong = |why: &str| {
            let path = path.display();
            KeyFault::new(format!("{path} is no key for tokens: {why}; move it away, and a new one is made"))
        };
        let pem = match keyfile::read(path)? {
            Some(bytes) => String::from_utf8(bytes).map_err(|_| wrong("it is not text"))?,
            None => {
                let pem = draw()?;
                keyfile::write(path, pem.as_bytes())?;
                pem
            }
        };
        let key = EncodingKey::from_ec_pem(pem.as_bytes()).map_err(|error| wrong(&error.to_string()))?;
        let body: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
        let der = STANDARD.decode(body.trim()).map_err(|_| wrong("it is not PEM"))?;
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der);
        let pair = pair.map_err(|_| wrong("it is not a P-256 key in PKCS#8"))?;
        // An uncompressed point: the byte 4, then both coordinates.
        let point = pair.public_key().as_ref();
        let (Some(x), Some(y)) = (point.get(1..33), point.get(33..65)) else {
            return Err(wrong("its public half is odd"));
        };
        let (x, y) = (URL_SAFE_NO_PAD.encode(x), URL_SAFE_NO_PAD.encode(y));
        // The key's name is its thumbprint (RFC 7638): members in this order, no spaces.
        let canonical = format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#);
        let kid = URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, canonical.as_bytes()));
        let jwk = json!({ "kty": "EC", "crv": "P-256", "x": x, "y": y, "kid": kid, "alg": "ES256", "use": "sig" });
        let header = Header { kid: Some(kid), ..Header::new(Algorithm::ES256) };
        Ok(Signer { key, header, jwks: json!({ "keys": Value::from(vec![jwk]) }).to_string(), issuer })
    }

    /// The document that receivers verify tokens with.
    pub fn jwks(&self) -> &str {
        &self.jwks
    }

    pub(super) fn token(&self, about: &TokenFacts<'_>) -> Result<String, String> {
        let claims = Claims {
            iss: &self.issuer,
            aud: about.endpoint,
            iat: about.at,
            exp: about.at + GOOD_FOR_S,
            jti: about.event,
            task: about.task,
            request_body_sha256: about.body_sha256,
        };
        jsonwebtoken::encode(&self.header, &claims, &self.key).map_err(|error| error.to_string())
    }
}

fn draw() -> Result<String, KeyFault> {
    let document =
        EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &aws_lc_rs::rand::SystemRandom::new())
            .map_err(|_| KeyFault::new("cannot draw a key for tokens; try again, or set push.jwt to false"))?;
    let text = STANDARD.encode(document.as_ref());
    let mut pem = String::from("-----BEGIN PRIVATE KEY-----\n");
    for start in (0..text.len()).step_by(64) {
        pem.push_str(&text[start..text.len().min(start + 64)]);
        pem.push('\n');
    }
    pem.push_str("-----END PRIVATE KEY-----\n");
    Ok(pem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_stays_the_same_from_start_to_start() {
        crate::crypto::install();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("push-jwt.pem");
        let first = Signer::in_folder(&path, "https://a".into()).unwrap();
        let second = Signer::in_folder(&path, "https://a".into()).unwrap();
        assert_eq!(first.jwks(), second.jwks());
        assert!(!first.jwks().contains("\"d\""), "only the public half");
    }

    #[test]
    fn a_wrong_file_is_refused_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("push-jwt.pem");
        std::fs::write(&path, "no key").unwrap();
        let words = Signer::in_folder(&path, String::new()).unwrap_err().to_string();
        assert!(words.contains("move it away"), "{words}");
    }
}
