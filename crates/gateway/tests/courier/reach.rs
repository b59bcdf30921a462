//! Refused addresses: they see no connection at all, in whatever way their name resolves.

use std::sync::Arc;

use gateway::webhooks::HttpWebhookSender;
use model::ports::webhook::{WebhookBody, WebhookOutcome, WebhookSender};
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::kit::{Names, courier, deliver, letter, options, spec, task, under, why};
use crate::receiver::{Act, Receiver};

fn named(names: Arc<Names>, loopback: bool, allow: &[&str]) -> HttpWebhookSender {
    courier(under(loopback, allow, Some(names)))
}

#[tokio::test]
async fn a_name_with_a_private_address_gets_no_connection() {
    let receiver = Receiver::start(Act::status("200 OK")).await;
    let url = format!("https://hooks.example.com:{}/hook", receiver.addr.port());
    for answer in ["127.0.0.1", "::1", "::ffff:127.0.0.1", "10.0.0.1", "169.254.169.254", "0.0.0.0", "fd00::1"] {
        for loopback in [false, true] {
            let courier = named(Names::new(&[&[answer]]), loopback, &[]);
            let receipt = deliver(&courier, spec(&url)).await;
            assert!(matches!(receipt, WebhookOutcome::Failed { .. }));
            assert!(why(&receipt.clone()).contains("resolves to no public address"), "{answer}: {receipt:?}");
        }
    }
    assert_eq!(receiver.accepted(), 0);
}

#[tokio::test]
async fn a_name_without_an_address_is_a_failure() {
    let receipt = deliver(&named(Names::new(&[&[]]), true, &[]), spec("https://nowhere.example.com/")).await;
    assert!(why(&receipt).contains("does not resolve"), "{receipt:?}");
}

#[tokio::test]
async fn a_name_that_changes_its_mind_is_looked_at_again() {
    // Both listen on one port; only the first is allowed. The test checks connections, not their content.
    let good = Receiver::start(Act::Close).await;
    let port = good.addr.port();
    let bad = Receiver::at(&format!("127.0.0.2:{port}"), Act::Close).await;
    let names = Names::new(&[&["127.0.0.1"], &["127.0.0.2"], &["127.0.0.2", "127.0.0.1"], &["127.0.0.2"]]);
    let courier = named(names, false, &["127.0.0.1/32"]);
    let url = format!("https://rebinding.example.com:{port}/");
    deliver(&courier, spec(&url)).await;
    assert_eq!((good.accepted(), bad.accepted()), (1, 0));
    let refused = deliver(&courier, spec(&url)).await;
    assert!(why(&refused).contains("resolves to no public address"));
    assert_eq!((good.accepted(), bad.accepted()), (1, 0));
    // Of several addresses only the allowed ones are connected to.
    deliver(&courier, spec(&url)).await;
    assert_eq!((good.accepted(), bad.accepted()), (2, 0));
    deliver(&courier, spec(&url)).await;
    assert_eq!((good.accepted(), bad.accepted()), (2, 0));
}

#[tokio::test]
async fn an_address_without_a_name_is_looked_at_before_every_attempt() {
    let receiver = Receiver::start(Act::status("200 OK")).await;
    let port = receiver.addr.port();
    let strict = courier(under(false, &[], None));
    for host in ["127.0.0.1", "localhost", "[::1]", "2130706433", "[::ffff:127.0.0.1]", "0.0.0.0"] {
        for scheme in ["http", "https"] {
            let receipt = deliver(&strict, spec(&format!("{scheme}://{host}:{port}/"))).await;
            assert!(matches!(receipt, WebhookOutcome::Gone { .. }), "{host}: {receipt:?}");
            assert!(why(&receipt).contains("push.allow"), "{receipt:?}");
        }
    }
    assert_eq!(receiver.accepted(), 0);
}

#[tokio::test]
async fn http_is_for_loopback_and_for_what_the_operator_lists() {
    let receiver = Receiver::start(Act::status("200 OK")).await;
    let url = format!("http://hooks.example.com:{}/", receiver.addr.port());
    let names = || Names::new(&[&["127.0.0.1"]]);
    let refused = deliver(&named(names(), true, &[]), spec(&url)).await;
    assert!(why(&refused).contains("only https is allowed"), "{refused:?}");
    assert_eq!(receiver.accepted(), 0);
    for entry in
        ["hooks.example.com".to_owned(), "*.example.com".into(), format!("hooks.example.com:{}", receiver.addr.port())]
    {
        assert_eq!(deliver(&named(names(), false, &[&entry]), spec(&url)).await, WebhookOutcome::Taken, "{entry}");
    }
    assert_eq!(receiver.accepted(), 3);
    let other_port = deliver(&named(names(), false, &["hooks.example.com:1"]), spec(&url)).await;
    assert!(matches!(other_port, WebhookOutcome::Gone { .. }), "{other_port:?}");
    assert_eq!(receiver.accepted(), 3);
}

#[tokio::test]
async fn an_entry_for_one_port_opens_no_other() {
    let receiver = Receiver::start(Act::Close).await;
    let url = format!("https://box.example.com:{}/", receiver.addr.port());
    let courier = named(Names::new(&[&["127.0.0.1"]]), false, &["box.example.com:1"]);
    assert!(why(&deliver(&courier, spec(&url)).await).contains("resolves to no public address"));
    assert_eq!(receiver.accepted(), 0);
}

#[tokio::test]
async fn localhost_is_a_name_for_loopback() {
    let mut receiver = Receiver::start(Act::status("200 OK")).await;
    let url = format!("http://localhost:{}/hook", receiver.addr.port());
    let courier = named(Names::new(&[&["127.0.0.1"]]), true, &[]);
    assert_eq!(deliver(&courier, spec(&url)).await, WebhookOutcome::Taken);
    assert!(receiver.heard().await.line.starts_with("POST /hook HTTP/1.1"));
}

#[tokio::test]
async fn what_can_never_arrive_is_given_up() {
    let courier = courier(options());
    let mut unknown = spec("https://example.com/");
    unknown.dialect = "a2a_v9".into();
    assert!(why(&deliver(&courier, unknown).await).contains("a2a_v9"));
    let odd = courier.deliver(letter(spec("no address"), WebhookBody::Task(Arc::new(task())))).await;
    assert!(matches!(odd, WebhookOutcome::Gone { .. }), "{odd:?}");
    assert_eq!(&*courier.endpoint(&spec("no address")), "unknown");
    assert_eq!(&*courier.endpoint(&spec("https://h.example:8443/p?q#f")), "https://h.example:8443");
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_gets_no_letter() {
    let courier = courier(options());
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key);
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config.unwrap()));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}/hook", listener.local_addr().unwrap().port());
    let handshake = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        acceptor.accept(stream).await.map(drop)
    });
    let receipt = deliver(&courier, spec(&url)).await;
    assert!(why(&receipt).contains("no certificate that this machine trusts"), "{receipt:?}");
    assert!(handshake.await.unwrap().is_err());
}
