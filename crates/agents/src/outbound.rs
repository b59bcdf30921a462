//! Requests to external servers: the client, the retry rules, and the error texts for callers.

use std::collections::BTreeMap;
use std::time::Duration;

use model::TurnId;
use model::ports::agent::{AgentEvent, AgentMessage};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Response, StatusCode, redirect};
use url::Url;

use crate::ConfigSecret;
use crate::config::Error;
use crate::emitter::Emitter;

/// Most bytes of a server's error text to repeat.
const ERROR_BYTES: usize = 2 << 10;
/// Time limit for reading that text.
const ERROR_TIME: Duration = Duration::from_secs(5);
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// A server that asks for a longer pause is not retried.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
const LONGEST_BACKOFF: Duration = Duration::from_secs(10);
/// Shorter pauses are not shown in the task.
pub(crate) const SHOWN: Duration = Duration::from_millis(200);
/// Total time to retry an unreachable server, where the config sets no number of retries.
const UNREACHABLE: Duration = Duration::from_millis(2_500);

/// A client that follows no redirects: its requests are signed, or carry a key, for one address.
pub(crate) fn client(idle_timeout_ms: Option<u64>, headers: HeaderMap) -> Result<Client, Error> {
    let mut builder = Client::builder()
        .redirect(redirect::Policy::none())
        .connect_timeout(CONNECT_TIME)
        .tcp_keepalive(Duration::from_secs(15))
        .user_agent(concat!("rialto/", env!("CARGO_PKG_VERSION")))
        .default_headers(headers);
    if let Some(ms) = idle_timeout_ms {
        builder = builder.read_timeout(Duration::from_millis(ms));
    }
    builder.build().map_err(|error| Error::new(format!("no HTTP client could be made: {}", reason(&error))))
}

/// Checks that requests can be sent to this URL.
pub(crate) fn check_url(name: &str, text: &str) -> Result<(), Error> {
    match Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => match url.password() {
            None => Ok(()),
            Some(_) => Err(Error::new(format!("{name}: take the password out of the address; use secret_headers"))),
        },
        Ok(_) | Err(_) => Err(Error::new(format!("{name}: {text:?} is no address; write https://host/path"))),
    }
}

/// The config's headers, plain and secret, ready to send.
pub(crate) fn headers(
    plain: &BTreeMap<String, String>,
    secret: &BTreeMap<String, ConfigSecret>,
    bearer: Option<&ConfigSecret>,
) -> Result<HeaderMap, Error> {
    let mut all = HeaderMap::new();
    let plain = plain.iter().map(|(name, value)| (name.as_str(), value.clone(), false));
    let secret = secret.iter().map(|(name, value)| (name.as_str(), value.reveal().to_owned(), true));
    let bearer = bearer.map(|key| ("authorization", format!("Bearer {}", key.reveal()), true));
    for (name, value, sensitive) in plain.chain(secret).chain(bearer) {
        let header = HeaderName::try_from(name).map_err(|_| Error::new(format!("headers: {name:?} is no header")))?;
        let mut value = HeaderValue::try_from(value)
            .map_err(|_| Error::new(format!("headers: the value of {name} has characters that no header may have")))?;
        value.set_sensitive(sensitive);
        if all.insert(header, value).is_some() {
            return Err(Error::new(format!("headers: {name} is set twice")));
        }
    }
    Ok(all)
}

/// Why there is no answer, and whether to retry.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RequestError {
    /// Text for the caller.
    pub(crate) says: String,
    pub(crate) again: RetryRule,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetryRule {
    Never,
    /// No connection; nothing was sent.
    Unreachable,
    /// The server did nothing; it may ask for a pause.
    Safe(Option<Duration>),
    /// It is unknown whether the server acted on the request.
    Unclear,
}

impl RequestError {
    pub(crate) fn never(says: impl Into<String>) -> RequestError {
        RequestError { says: says.into(), again: RetryRule::Never }
    }

    /// The stream broke.
    pub(crate) fn broken(who: &str, error: &reqwest::Error) -> RequestError {
        tracing::warn!(error = %chain(error), "{who} broke off its answer");
        let why = if error.is_timeout() { "was silent for too long" } else { "broke off its answer" };
        RequestError { says: format!("{who} {why}"), again: RetryRule::Unclear }
    }
}

/// An error with its causes, for the log. Its URL contains no password, because such URLs are refused, and no
/// query, which may hold a key.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = without_query(error);
    let mut next = error.source();
    while let Some(cause) = next {
        let says = without_query(cause);
        if !text.ends_with(&says) {
            text = format!("{text}: {says}");
        }
        next = cause.source();
    }
    text
}

fn without_query(error: &(dyn std::error::Error + 'static)) -> String {
    let text = error.to_string();
    let url = error.downcast_ref::<reqwest::Error>().and_then(reqwest::Error::url);
    match url.filter(|url| url.query().is_some() || url.fragment().is_some()) {
        Some(url) => {
            let mut plain = url.clone();
            plain.set_query(None);
            plain.set_fragment(None);
            text.replace(url.as_str(), plain.as_str())
        }
        None => text,
    }
}

/// The same for a request's error.
pub(crate) fn reason_of(error: &reqwest::Error) -> String {
    reason(error)
}

/// Why a server cannot be reached, in a few words.
pub(crate) fn reason(error: &(dyn std::error::Error + 'static)) -> String {
    let mut at = error;
    loop {
        if let Some(error) = at.downcast_ref::<std::io::Error>() {
            match error.kind() {
                std::io::ErrorKind::ConnectionRefused => {
                    return "the connection was refused; is it running there?".to_owned();
                }
                std::io::ErrorKind::TimedOut => return "no connection was made in time".to_owned(),
                _ => {}
            }
        }
        match at.source() {
            Some(next) => at = next,
            None => return at.to_string(),
        }
    }
}

/// The successful answer to a request. `busy` tells which error statuses may be retried.
pub(crate) async fn answer(
    who: &str,
    sent: Result<Response, reqwest::Error>,
    busy: fn(StatusCode) -> bool,
) -> Result<Response, RequestError> {
    let response = match sent {
        Ok(response) => response,
        Err(error) => {
            // The address and the details go to the log only: callers need not know where an agent runs.
            tracing::warn!(error = %chain(&error), "a request to {who} failed");
            return Err(match error {
                error if error.is_connect() => {
                    RequestError { says: format!("{who} could not be reached"), again: RetryRule::Unreachable }
                }
                error if error.is_builder() => RequestError::never(format!("the request to {who} could not be made")),
                error => RequestError {
                    says: format!(
                        "{who} {}",
                        if error.is_timeout() { "did not answer in time" } else { "did not answer" }
                    ),
                    again: RetryRule::Unclear,
                },
            });
        }
    };
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let after = retry_after(response.headers());
    let text = tokio::time::timeout(ERROR_TIME, error_text(response)).await.unwrap_or_default();
    let says = match text.as_str() {
        // The details of a rejected key are for the operator.
        text if matches!(status.as_u16(), 401 | 407) => {
            tracing::error!("{who} refused our credentials: {text}");
            format!("{who} answered {status}; check the agent's credentials")
        }
        "" => format!("{who} answered {status}"),
        text => format!("{who} answered {status}: {text}"),
    };
    let again = match after {
        _ if !busy(status) => RetryRule::Never,
        Some(after) if after > LONGEST_PAUSE => RetryRule::Never,
        after => RetryRule::Safe(after),
    };
    Err(RequestError { says, again })
}

/// Statuses of a server that is busy or temporarily down.
pub(crate) fn is_busy(status: StatusCode) -> bool {
    matches!(status.as_u16(), 429 | 502 | 503 | 504)
}

/// In seconds; the date form is ignored, and the normal backoff applies.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// The server's error text, from the common JSON members, else the body itself.
async fn error_text(mut response: Response) -> String {
    let mut body = Vec::new();
    while body.len() < ERROR_BYTES
        && let Ok(Some(more)) = response.chunk().await
    {
        body.extend_from_slice(&more[..more.len().min(ERROR_BYTES - body.len())]);
    }
    let text = String::from_utf8_lossy(&body).trim().to_owned();
    told_error(&text).unwrap_or(text)
}

/// The message in `{"error": {"message": …}}` and similar forms.
pub(crate) fn told_error(text: &str) -> Option<String> {
    let value: serde_json::Value = serde_json::from_str(text).ok()?;
    let error = value.get("error").unwrap_or(&value);
    let message = ["message", "detail", "title", "error"].iter().find_map(|name| error.get(name)).unwrap_or(error);
    message.as_str().map(str::to_owned)
}

/// The retries of a turn, and the pauses between them.
pub(crate) struct Retries {
    left: u32,
    next: Duration,
    /// The remaining time for an unreachable server; none where the config sets the number of retries.
    unreachable: Option<Duration>,
}

impl Retries {
    /// The config's number of retries, else `usual`. Pauses depend on the turn's id, so that turns that fail
    /// together do not retry together.
    pub(crate) fn new(said: Option<u32>, usual: u32, first_ms: u64, turn: TurnId) -> Retries {
        let spread = 75 + (turn.0.as_u128() % 50) as u64;
        Retries {
            left: said.unwrap_or(usual),
            next: Duration::from_millis(first_ms * spread / 100),
            unreachable: said.is_none().then_some(UNREACHABLE),
        }
    }

    /// Waits for the next attempt and shows the wait in the task; false if there is none. `unclear` allows a repeat
    /// of a request that the server may have acted on.
    pub(crate) async fn pause(&mut self, trouble: &RequestError, unclear: bool, emitter: &Emitter) -> bool {
        let Some(pause) = self.next(trouble.again, unclear) else { return false };
        if pause >= SHOWN {
            let says = format!("{}; trying again in {}", trouble.says, seconds(pause));
            emitter.say(AgentEvent::Working(Some(AgentMessage::text(says)))).await;
        }
        tokio::time::sleep(pause).await;
        true
    }

    /// The pause before the next attempt, if there is one.
    fn next(&mut self, again: RetryRule, unclear: bool) -> Option<Duration> {
        if self.left == 0 {
            return None;
        }
        let pause = match again {
            RetryRule::Never => return None,
            RetryRule::Unclear if !unclear => return None,
            RetryRule::Unclear => self.next,
            RetryRule::Safe(at_least) => self.next.max(at_least.unwrap_or_default()),
            RetryRule::Unreachable => {
                if let Some(left) = &mut self.unreachable {
                    *left = left.checked_sub(self.next)?;
                }
                self.next
            }
        };
        self.left -= 1;
        self.next = (self.next * 2).min(LONGEST_BACKOFF);
        Some(pause)
    }
}

/// A pause as text for people.
pub(crate) fn seconds(pause: Duration) -> String {
    format!("{:.1} s", pause.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_an_error_are_found_in_the_common_shapes() {
        for (body, says) in [
            (r#"{"error":{"message":"no model","code":3}}"#, Some("no model")),
            (r#"{"error":"bad key"}"#, Some("bad key")),
            (r#"{"detail":"not found"}"#, Some("not found")),
            (r#"{"message":"no"}"#, Some("no")),
            (r#"{"x":1}"#, None),
            ("<html>", None),
        ] {
            assert_eq!(told_error(body).as_deref(), says, "{body}");
        }
    }

    #[test]
    fn an_address_is_one_or_is_refused() {
        assert!(check_url("url", "http://127.0.0.1:1/x").is_ok());
        for bad in ["", "host", "ftp://x", "http://", "https://u:p@host/"] {
            assert!(check_url("url", bad).unwrap_err().to_string().starts_with("url: "), "{bad}");
        }
    }

    #[tokio::test]
    async fn the_log_has_an_address_without_its_query() {
        let error = reqwest::Client::new().get("http://127.0.0.1:1/run?key=sesame#k").send().await.unwrap_err();
        assert!(error.to_string().contains("sesame"), "{error}");
        let logged = chain(&error);
        assert!(logged.contains("http://127.0.0.1:1/run") && !logged.contains("sesame"), "{logged}");
    }

    const TURN: &str = "00000000-0000-0000-0000-000000000000";

    fn pauses(retries: &mut Retries, again: RetryRule) -> Vec<u128> {
        std::iter::from_fn(|| retries.next(again, true)).map(|pause| pause.as_millis()).collect()
    }

    #[test]
    fn pauses_grow_obey_the_server_and_end() {
        let retries = || Retries::new(Some(3), 9, 1_000, TURN.parse().unwrap());
        assert_eq!(pauses(&mut retries(), RetryRule::Safe(None)), [750, 1_500, 3_000]);
        assert_eq!(pauses(&mut retries(), RetryRule::Safe(Some(Duration::from_secs(2)))), [2_000, 2_000, 3_000]);
        assert_eq!(pauses(&mut retries(), RetryRule::Unclear), [750, 1_500, 3_000]);
        assert!(pauses(&mut retries(), RetryRule::Never).is_empty());
        assert_eq!(retries().next(RetryRule::Unclear, false), None);
    }

    #[test]
    fn a_server_that_cannot_be_reached_is_waited_for_less_than_three_seconds_unless_the_config_says_how_often() {
        for turn in ["00000000-0000-0000-0000-000000000000", "00000000-0000-0000-0000-000000000031"] {
            let mut usual = Retries::new(None, 3, 500, turn.parse().unwrap());
            let waited: u128 = pauses(&mut usual, RetryRule::Unreachable).iter().sum();
            assert!((1..3_000).contains(&waited), "{waited}");
            let mut said = Retries::new(Some(5), 3, 500, turn.parse().unwrap());
            assert_eq!(pauses(&mut said, RetryRule::Unreachable).len(), 5);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_is_visible_in_the_task() {
        use futures_util::StreamExt as _;
        let said = crate::emitter::emit(|emitter| async move {
            let mut retries = Retries::new(Some(1), 0, 1_000, TURN.parse().unwrap());
            let trouble =
                RequestError { says: "the server could not be reached".into(), again: RetryRule::Unreachable };
            assert!(retries.pause(&trouble, false, &emitter).await);
            assert!(!retries.pause(&trouble, false, &emitter).await);
        });
        let said: Vec<AgentEvent> = said.collect().await;
        let says = "the server could not be reached; trying again in 0.8 s";
        assert_eq!(said, [AgentEvent::Working(Some(AgentMessage::text(says)))]);
    }
}
