//! Signatures of the Standard Webhooks specification: HMAC-SHA256 over id, time and body.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::ConfigSecret;

/// The headers that sign a body at the current time.
pub(super) fn headers(secret: &ConfigSecret, id: &str, body: &str) -> [(&'static str, String); 3] {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let signature = signature(secret, id, now, body);
    [
        ("webhook-id", id.to_owned()),
        ("webhook-timestamp", now.to_string()),
        ("webhook-signature", format!("v1,{signature}")),
    ]
}

fn signature(secret: &ConfigSecret, id: &str, time_s: u64, body: &str) -> String {
    // The key was checked with the config; HMAC accepts any length.
    let key = key(secret).unwrap_or_default();
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&key) else { return String::new() };
    mac.update(format!("{id}.{time_s}.{body}").as_bytes());
    STANDARD.encode(mac.finalize().into_bytes())
}

/// The key: base64 after `whsec_`, else the text itself.
pub(super) fn key(secret: &ConfigSecret) -> Result<Vec<u8>, String> {
    match secret.reveal().strip_prefix("whsec_") {
        Some(encoded) => STANDARD.decode(encoded).map_err(|_| "what follows whsec_ must be base64".to_owned()),
        None => Ok(secret.reveal().as_bytes().to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_standard_comes_out_right() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let secret = ConfigSecret::read(&format!("file:{}", file.path().display())).unwrap();
        assert_eq!(
            signature(&secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, r#"{"test": 2432232314}"#),
            "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        );
    }
}
