//! Outcomes of a delivery, by the receiver's answer or silence.

use gateway::webhooks::Options;
use model::ports::webhook::WebhookOutcome;

use crate::kit::{courier, deliver, options, spec, why};
use crate::receiver::{Act, Receiver};

async fn receipt(act: Act) -> WebhookOutcome {
    let receiver = Receiver::start(act).await;
    deliver(&courier(options()), spec(&receiver.url())).await
}

#[tokio::test]
async fn any_2xx_is_taken() {
    for status in ["200 OK", "202 Accepted", "204 No Content"] {
        assert_eq!(receipt(Act::status(status)).await, WebhookOutcome::Taken, "{status}");
    }
}

#[tokio::test]
async fn anything_else_is_a_failure_that_names_the_status() {
    for status in ["400 Bad Request", "401 Unauthorized", "404 Not Found", "500 Internal Server Error"] {
        let receipt = receipt(Act::status(status)).await;
        assert!(matches!(receipt, WebhookOutcome::Failed { retry_after_ms: None, .. }));
        assert!(why(&receipt).ends_with(&format!("answered {}", &status[..3])), "{receipt:?}");
    }
}

#[tokio::test]
async fn gone_is_gone() {
    let receipt = receipt(Act::status("410 Gone")).await;
    assert!(matches!(receipt, WebhookOutcome::Gone { .. }), "{receipt:?}");
    assert!(why(&receipt).contains("wants no more"));
}

#[tokio::test]
async fn a_wish_to_wait_is_passed_on() {
    for status in ["429 Too Many Requests", "503 Service Unavailable"] {
        let receipt = receipt(Act::with(status, "Retry-After: 7\r\n")).await;
        assert!(matches!(receipt, WebhookOutcome::Failed { retry_after_ms: Some(7_000), .. }), "{receipt:?}");
    }
    let date = receipt(Act::with("503 Service Unavailable", "Retry-After: Fri, 31 Dec 2100 23:59:59 GMT\r\n")).await;
    assert!(matches!(date, WebhookOutcome::Failed { retry_after_ms: Some(ms), .. } if ms > 3_600_000), "{date:?}");
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_takes_no_secret_along() {
    let elsewhere = Receiver::start(Act::status("200 OK")).await;
    for status in ["301 Moved Permanently", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"] {
        let location = format!("Location: {}\r\n", elsewhere.url());
        let mut first = Receiver::start(Act::with(status, &location)).await;
        let mut with_secret = spec(&first.url());
        (with_secret.scheme, with_secret.credentials) = (Some("Bearer".into()), Some("secret".into()));
        let receipt = deliver(&courier(options()), with_secret).await;
        assert!(why(&receipt).contains("redirects are not followed"), "{receipt:?}");
        assert_eq!(first.heard().await.header("authorization"), Some("Bearer secret"));
    }
    assert_eq!(elsewhere.accepted(), 0);
}

#[tokio::test]
async fn silence_ends_with_the_attempts_time() {
    let receiver = Receiver::start(Act::Hang).await;
    let impatient = courier(Options { timeout_ms: 200, ..options() });
    let receipt = deliver(&impatient, spec(&receiver.url())).await;
    assert!(why(&receipt).ends_with("gave no answer within 200 ms"), "{receipt:?}");
    assert_eq!(receiver.accepted(), 1);
}

#[tokio::test]
async fn a_connection_closed_before_the_answer_is_a_failure() {
    let receipt = receipt(Act::Close).await;
    assert!(matches!(receipt, WebhookOutcome::Failed { .. }));
    assert!(why(&receipt).contains("closed the connection before it answered"), "{receipt:?}");
    let half = self::receipt(Act::Say("HTTP/1.1 20".into())).await;
    assert!(matches!(half, WebhookOutcome::Failed { .. }), "{half:?}");
}

#[tokio::test]
async fn an_answer_that_breaks_off_after_its_head_is_an_answer() {
    let cut = Act::Say("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nonly thi".into());
    assert_eq!(receipt(cut).await, WebhookOutcome::Taken);
    let endless = Act::Say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n".into());
    assert_eq!(receipt(endless).await, WebhookOutcome::Taken);
}

#[tokio::test]
async fn nobody_at_home_is_said_without_the_address() {
    let receiver = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = receiver.local_addr().unwrap();
    drop(receiver);
    let receipt = deliver(&courier(options()), spec(&format!("http://{addr}/hook?secret"))).await;
    assert_eq!(why(&receipt), format!("http://{addr} refused the connection"));
}

#[tokio::test]
async fn something_that_is_not_http_is_a_failure() {
    let receipt = receipt(Act::Say("SSH-2.0-OpenSSH_9.0\r\n\r\n".into())).await;
    assert!(matches!(receipt, WebhookOutcome::Failed { .. }), "{receipt:?}");
    why(&receipt);
}
