//! Checks of a push config: its address must be allowed, and its secrets must fit into a header.

use model::{Fault, PushConfig};
use url::Url;

use web::outbound::OutboundPolicy;

const URL_BYTES: usize = 2_048;
const SECRET_BYTES: usize = 4_096;

pub(super) fn check(policy: &OutboundPolicy, config: &PushConfig) -> Result<(), Fault> {
    address(policy, &config.url)?;
    fits("token", "the token", config.token.as_deref())?;
    fits("authentication", "the scheme", config.scheme.as_deref())?;
    fits("authentication", "the credentials", config.credentials.as_deref())
}

/// Refuses an address that is not written as one, or that the policy does not allow.
pub(crate) fn address(policy: &OutboundPolicy, text: &str) -> Result<(), Fault> {
    let fault = |words: &str| Err(Fault::params("url", words));
    if text.len() > URL_BYTES {
        return fault("the url is longer than 2048 bytes; shorten it");
    }
    if text.chars().any(char::is_control) {
        return fault("the url holds control characters; leave them out");
    }
    let Ok(url) = Url::parse(text) else {
        return fault("the url is not an absolute address; write https://host/path");
    };
    if !url.username().is_empty() || url.password().is_some() {
        return fault("the url holds a user or a password; put them into authentication");
    }
    if url.fragment().is_some() {
        return fault("the url has a fragment, which is never sent; leave it out");
    }
    policy.admit(&url).map_err(|refused| Fault::params("url", format!("the url is refused: {}", refused.message())))
}

/// Refuses text that is too long for a header or would end it.
fn fits(field: &str, what: &str, text: Option<&str>) -> Result<(), Fault> {
    let text = text.unwrap_or_default();
    if text.len() > SECRET_BYTES {
        return Err(Fault::params(field, format!("{what} is longer than 4096 bytes; shorten it")));
    }
    if text.chars().any(char::is_control) {
        return Err(Fault::params(field, format!("{what} must not hold control characters, such as line breaks")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(url: &str) -> PushConfig {
        PushConfig { task: None, id: None, url: url.into(), token: None, scheme: None, credentials: None }
    }

    fn refused(config: &PushConfig) -> (String, String) {
        let fault = check(&OutboundPolicy::default(), config).unwrap_err();
        assert_eq!(fault.kind, model::Kind::InvalidParams);
        (fault.field.unwrap(), fault.message)
    }

    #[test]
    fn a_url_that_could_never_be_delivered_to_is_refused() {
        assert!(check(&OutboundPolicy::default(), &config("https://example.com:8443/hook?a=b")).is_ok());
        let long = format!("https://example.com/{}", "a".repeat(2_048));
        for (url, words) in [
            ("", "not an absolute address"),
            ("/hook", "not an absolute address"),
            ("example.com/hook", "not an absolute address"),
            ("https://", "not an absolute address"),
            ("https://exa mple.com/", "not an absolute address"),
            (&long, "longer than 2048"),
            ("https://example.com/\r\nX: y", "control characters"),
            ("https://user@example.com/", "put them into authentication"),
            ("https://user:pass@example.com/", "put them into authentication"),
            ("https://:pass@example.com/", "put them into authentication"),
            ("https://example.com/#part", "fragment"),
            ("http://example.com/", "only https"),
            ("ftp://example.com/", "only https"),
            ("javascript:alert(1)", "only https"),
            ("http://127.0.0.1/", "loopback"),
            ("https://169.254.169.254/", "not public"),
        ] {
            let (field, message) = refused(&config(url));
            assert_eq!(field, "url");
            assert!(message.contains(words), "{url}: {message}");
        }
    }

    #[test]
    fn what_would_break_out_of_a_header_is_refused() {
        let good = config("https://example.com/");
        for bad in ["a\r\nX-Evil: 1", "a\nb", "a\0", "\u{7f}"] {
            let text = Some(bad.to_owned());
            assert_eq!(refused(&PushConfig { token: text.clone(), ..good.clone() }).0, "token");
            assert_eq!(refused(&PushConfig { scheme: text.clone(), ..good.clone() }).0, "authentication");
            let scheme = Some("Bearer".to_owned());
            assert_eq!(refused(&PushConfig { scheme, credentials: text, ..good.clone() }).0, "authentication");
        }
        let long = PushConfig { token: Some("t".repeat(4_097)), ..good };
        assert!(refused(&long).1.contains("4096"));
    }
}
